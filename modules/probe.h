/* Measures the rates of a backend: each operation as a training step calls it, the step
 * itself, and the two limits with which they are compared.
 *
 * Each round times every operation once and one whole training step once. On a GPU a
 * short operation is launched several times before one synchronisation. Of all rounds
 * the best time counts, because other work on the machine can only add time. */
#ifndef PL_MODULES_PROBE_H
#define PL_MODULES_PROBE_H
#include "modules/model.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PL_PROBE_ROWS = 32 };

typedef struct pl_probe_options {
    const pl_shape *shape; /* its context is the length of each sequence */
    int batch;             /* sequences per step */
    int rounds;            /* >= 1; one round that warms up comes before them */
    /* for pl_probe_step: 0 takes the best step; otherwise it trains for this many
     * seconds and takes the mean step */
    double seconds;
    bool memory; /* also measure the rate of memory, with four streams */
    /* bytes of one stream; 0: 64 MiB, on a GPU 256 MiB; at least four times a GPU's
     * cache */
    size_t stream_bytes;
    /* measure the time of the calling thread only: for one thread on a busy machine */
    bool cpu_clock;
    bool muon; /* the step uses Muon */
    /* number of rows that Muon steps as a separate matrix; 0: all rows */
    int muon_rows;
} pl_probe_options;

typedef struct pl_probe_row {
    char name[32];
    double seconds; /* of one call */
    int calls;      /* calls of this operation in a training step */
    int repeats;    /* calls that are launched before one wait */
    double flops;   /* FLOPs of one call; 0 if it has no product */
    double bytes;   /* bytes moved by one call, if every operand is moved once */
    bool product;   /* whether it is a matrix product and nothing else */
} pl_probe_row;

typedef struct pl_probe_report {
    pl_probe_row rows[PL_PROBE_ROWS];
    int n_rows;
    uint64_t n_params;
    int tokens;             /* tokens of one step */
    double step_seconds;    /* forward, backward, clipping, AdamW */
    double product_flops;   /* of a step's matrix products: 6 per parameter and token */
    double product_seconds; /* the time of these products alone */
    double flops;           /* FLOPs of these products and of attention */
    double matrix_rate;     /* FLOP/s of the best product: the limit of arithmetic */
    double memory_rate;     /* bytes/s of the best stream: the limit of memory */
} pl_probe_report;

/* Initial parameters of a path whose levels have one expert each: the values of
 * pl_topology_init with seed 1, computed by all processors. */
PL_MUST_CHECK pl_status pl_probe_params(const pl_topology *topology, float *params);
/* Measures everything. Needs the memory of a training model, and about as much
 * again. */
PL_MUST_CHECK pl_status pl_probe(pl_backend *be, const pl_probe_options *options,
                                 pl_probe_report *out);
/* The rate that a row reaches, as a share of its limit: arithmetic or memory, whichever
 * it is nearer to. The report must contain memory_rate. */
double pl_probe_share(const pl_probe_report *report, const pl_probe_row *row);
/* Measures only the training step: seconds of the best step or, if options->seconds is
 * set, of the mean step. */
PL_MUST_CHECK pl_status pl_probe_step(pl_backend *be, const pl_probe_options *options,
                                      double *seconds);

#ifdef __cplusplus
}
#endif
#endif
