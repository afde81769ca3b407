/* Lists the backends that tests compare with the reference backend, and the error that
 * each of them may have. */
#pragma once
#include "tests/support/naive.h"
#include <stdio.h>

#include "tests/support/suite.h"

typedef struct backend_case {
    const char *name, *precision;
    int n_threads;
    double tolerance; /* allowed error, in the unit of naive_error */
} backend_case;

static const backend_case backend_cases[] = {
    {"ref", "f32", 1, 0.0},   {"cpu", "f32", 1, 1e-10},  {"cpu", "f32", 3, 1e-10},
    {"cpu", "bf16", 1, 1e-4}, {"cpu", "bf16", 3, 1e-4},  {"cpu", "f16", 1, 1e-5},
    {"cpu", "f16", 3, 1e-5},  {"cuda", "bf16", 1, 1e-4},
};
enum { N_BACKENDS = sizeof backend_cases / sizeof backend_cases[0] };

/* be[0]: the reference backend; be[1]: the backend under test. */
typedef struct pair {
    pl_backend *be[2];
    double tolerance;
    char label[64];
} pair;

pl_backend *open_side(const char *name, const char *precision, int n_threads);

/* Returns the first n values of pl_random_normals for a seed and a stream. The memory
 * is valid until a call with the same seed and stream asks for more values. It is kept,
 * so that tests draw each value only once. */
const float *kept_normals(uint64_t seed, uint64_t stream, size_t n);

/* Allocates memory of the backend. */
void *new_buffer(pl_backend *be, size_t bytes);

/* Makes a topology with only one path. */
pl_topology *one_path(const pl_shape *shape);

/* Writes the parameters of a path with which a training with this seed begins. */
void init_path(const pl_topology *t, uint64_t seed, float *out);

/* Makes a model of the topology t with the parameters with which a training begins. */
pl_model *fresh_model(const pl_topology *t, pl_backend *be,
                      const pl_model_options *options);

/* Makes a model for inference on one sequence at a time, with the longest context that
 * the shape allows. */
pl_model *fresh_reader(const pl_topology *t, pl_backend *be);

/* Runs `check` for every backend, or, if the macro PAIRS_OF is defined, only for the
 * backend with this name. If this machine lacks a backend, the output names the
 * backend, and the test goes on without it. But `ref`, and `cpu` in f32, must open on
 * every machine. */
static inline void for_each_backend(void (*check)(const pair *p))
{
    for (int i = 0; i < N_BACKENDS; i++) {
        const backend_case *c = &backend_cases[i];
#ifdef PAIRS_OF
        if (strcmp(c->name, PAIRS_OF) != 0)
            continue;
#endif
        pair p = {.tolerance = c->tolerance};
        p.be[0] = open_side("ref", "f32", 1);
        p.be[1] = open_side(c->name, c->precision, c->n_threads);
        snprintf(p.label, sizeof p.label, "%s %s on %d threads", c->name, c->precision,
                 c->n_threads);
        if (p.be[1])
            check(&p);
        else if (strcmp(c->precision, "f32") == 0)
            fail_msg("%s does not open, although every machine has this backend",
                     p.label);
        else
            print_message("%s: not on this machine\n", p.label);
        pl_backend_close(&p.be[0]);
        pl_backend_close(&p.be[1]);
    }
}

/* A test of the parameter `p`, which runs for every backend. */
#define PAIR_TEST(name)                                                                \
    static void name##_of(const pair *p);                                              \
    PL_TEST(name)                                                                      \
    {                                                                                  \
        for_each_backend(name##_of);                                                   \
    }                                                                                  \
    static void name##_of(const pair *p)
