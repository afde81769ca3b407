/* Rates of a backend: each operation as a training step calls it, the step itself, and
 * the two limits they are held against, all measured in one run and in turn.
 *
 * A round times every operation once (on a GPU short ones several times for one wait)
 * and one step; of several rounds the best time of each counts, because other work on a
 * machine only ever adds time.
 */
#ifndef PL_MODULES_PROBE_H
#define PL_MODULES_PROBE_H
#include "modules/model.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PL_PROBE_ROWS = 32 };

typedef struct pl_probe_options {
    const pl_shape *shape; /* context: that of each sequence */
    int batch;             /* sequences a step */
    int rounds;            /* >= 1, after one that warms up */
    bool memory;           /* the rate of memory as well: of four streams */
    size_t stream_bytes;   /* of one of them; 0: 64 MiB, a GPU's 256 MiB; in any case
                              four times what the cache of a GPU holds */
    bool cpu_clock; /* time of the calling thread: for one thread on a busy machine */
} pl_probe_options;

typedef struct pl_probe_row {
    char name[32];
    double seconds; /* of one call */
    int calls;      /* of a step */
    int repeats;    /* calls for one wait */
    double flops;   /* of one call; 0: no product in it */
    double bytes;   /* of one call: every operand once */
    bool product;   /* a matrix product and nothing else */
} pl_probe_row;

typedef struct pl_probe_report {
    pl_probe_row rows[PL_PROBE_ROWS];
    int n_rows;
    uint64_t n_params;
    int tokens;             /* of a step */
    double step_seconds;    /* forward, backward, clipping, AdamW */
    double product_flops;   /* of a step's matrix products: 6 a parameter and token */
    double product_seconds; /* theirs alone */
    double flops;           /* and attention's */
    double matrix_rate;     /* FLOP/s of the best product: the limit of arithmetic */
    double memory_rate;     /* bytes/s of the best stream: the limit of memory */
} pl_probe_report;

/* Initial parameters of a path whose levels have one expert each, made by all
 * processors: those of pl_topology_init with seed 1. */
PL_MUST_CHECK pl_status pl_probe_params(const pl_topology *topology, float *params);
/* Everything. Needs the memory of a training model and about as much again. */
PL_MUST_CHECK pl_status pl_probe(pl_backend *be, const pl_probe_options *options,
                                 pl_probe_report *out);
/* A row's part of the limit that it is nearer to; asks for the rate of memory. */
double pl_probe_share(const pl_probe_report *report, const pl_probe_row *row);
/* Only the step: seconds of the best one. */
PL_MUST_CHECK pl_status pl_probe_step(pl_backend *be, const pl_probe_options *options,
                                      double *seconds);

#ifdef __cplusplus
}
#endif
#endif
