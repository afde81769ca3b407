/* Private to router: groups of documents that no router can separate. */
#pragma once
#include "base/base.h"

/* Writes to order [n] the indices of the rows, so that rows with equal bytes are
 * adjacent. Among equal rows the lower index is first. */
void router_group_alike(const void *rows, size_t n, size_t row_bytes, size_t *order);
/* Returns the index in `order` after the last member of the group that begins at
 * order[i]. */
size_t router_group_end(const void *rows, size_t n, size_t row_bytes,
                        const size_t *order, size_t i);
