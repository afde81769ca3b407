/* Measures the speed of a backend: of each operation as a training step calls it, of a
 * whole training step, and of the machine's arithmetic and memory. The speeds of
 * arithmetic and memory are the limits with which operations are compared.
 *
 * Each round times every operation once and one whole training step once. On a GPU a
 * short operation is launched several times before one synchronisation. The shortest
 * time of all rounds counts, because other work can only add time. */
#pragma once
#include "modules/modules.h"

enum { PL_PROBE_ROWS = 32 };

typedef struct pl_probe_options {
    /* shape of the model; its context is the length of each sequence */
    const pl_shape *shape;
    int batch;  /* sequences per step */
    int rounds; /* number of rounds, at least 1; a warm-up round comes before them */
    /* used only by pl_probe_step, which trains for this many seconds and returns the
     * mean time of a step, on a GPU that of the second half; 0: pl_probe_step returns
     * the time of the fastest step */
    double seconds;
    /* bytes of each of the four arrays that the measurement of memory reads and writes.
     * 0: 64 MiB, on a GPU 256 MiB. It has at least four times a GPU's cache. */
    size_t stream_bytes;
    /* whether to measure the processor time of the calling thread instead of the
     * elapsed time; use it with one thread on a busy machine */
    bool cpu_clock;
    bool muon; /* whether the step uses Muon */
    /* number of rows of a matrix that Muon updates as a separate matrix; 0: all rows */
    int muon_rows;
} pl_probe_options;

typedef struct pl_probe_row {
    char name[32];
    double seconds; /* seconds of one call */
    int calls;      /* number of calls of this operation in a training step */
    int repeats;    /* number of calls that are launched before one wait */
    double flops;   /* FLOPs of one call; 0 for an operation without a product */
    double bytes;   /* bytes moved by one call, if every operand is moved once */
    bool product;   /* whether the operation is a matrix product and nothing else */
} pl_probe_row;

typedef struct pl_probe_report {
    pl_probe_row rows[PL_PROBE_ROWS];
    int n_rows;
    uint64_t n_params;
    int tokens;          /* tokens of one step */
    double step_seconds; /* seconds of forward, backward, clipping and AdamW */
    /* FLOPs of a step's matrix products: 6 per parameter and token */
    double product_flops;
    double product_seconds; /* seconds of the step's products alone */
    double flops;           /* FLOPs of the step's products and of attention */
    double matrix_rate;     /* FLOP/s of the best product: the limit of arithmetic */
    /* the most bytes/s that a pass over the arrays moved: the limit of memory */
    double memory_rate;
} pl_probe_report;

/* Computes initial parameters for a path of a topology with one expert per level: the
 * values of pl_topology_init with seed 1. Uses all processors. */
pl_status pl_probe_params(const pl_topology *topology, float *params);
/* Measures all rows and a training step, with twice the memory of a training model. */
pl_status pl_probe(pl_backend *be, const pl_probe_options *options,
                   pl_probe_report *out);
/* Returns the speed of a row's operation as a share of the machine's limits: its FLOP/s
 * divided by matrix_rate, or its bytes/s by memory_rate, whichever is larger. */
double pl_probe_share(const pl_probe_report *report, const pl_probe_row *row);
/* Measures only the training step: the best or, with options->seconds, the mean. */
pl_status pl_probe_step(pl_backend *be, const pl_probe_options *options,
                        double *seconds);
