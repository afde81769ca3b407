/* Private to eval: sums over parts of the matrix of losses of a document. */
#pragma once
#include "eval/eval.h"

/* Returns the path under which the targets first .. end - 1 are likeliest; nats
 * [n_paths] gets the sums of losses. */
int route_likeliest(const pl_route_document *d, uint32_t first, uint32_t end,
                    double *nats);
/* Adds the losses of the targets first .. end - 1 on a path to a score. */
void route_add(const pl_route_document *d, int path, uint32_t first, uint32_t end,
               pl_score *score);
