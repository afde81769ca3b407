/* The backends that tests compare with the reference, and by how much they may
 * differ. */
#ifndef PL_TESTS_PAIRS_H
#define PL_TESTS_PAIRS_H
#include "tests/naive.h"
#include <stdio.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

typedef struct backend_case {
    const char *name, *precision;
    int n_threads;
    double tolerance; /* normalised mean-square error */
} backend_case;

static const backend_case backend_cases[] = {
    {"ref", "f32", 1, 0.0},   {"cpu", "f32", 1, 1e-10},  {"cpu", "f32", 3, 1e-10},
    {"cpu", "bf16", 1, 1e-4}, {"cpu", "bf16", 3, 1e-4},  {"cpu", "f16", 1, 1e-5},
    {"cpu", "f16", 3, 1e-5},  {"cuda", "bf16", 1, 1e-4},
};
enum { N_BACKENDS = sizeof backend_cases / sizeof backend_cases[0] };

/* The reference and the backend under test. */
typedef struct pair {
    pl_backend *be[2];
    double tolerance;
    char label[64];
} pair;

static inline pl_backend *open_side(const char *name, const char *precision,
                                    int n_threads)
{
    pl_backend *be;
    pl_backend_options options = {
        .name = name, .n_threads = n_threads, .precision = precision};
    pl_status status = pl_backend_open(&options, &be);
    if (status == PL_ERR_UNSUPPORTED)
        return NULL;
    if (status != PL_OK)
        fail_msg("%s", pl_last_error());
    return be;
}

/* One path, without any choice of modules. */
static inline pl_topology *one_path(const pl_shape *shape)
{
    const pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    pl_topology *t;
    assert_int_equal(pl_topology_create(shape, &spec, &t), PL_OK);
    return t;
}

/* A model of it with the parameters that training begins with. */
static inline pl_model *fresh_model(const pl_topology *t, pl_backend *be,
                                    const pl_model_options *options)
{
    pl_model *model;
    float *params = calloc(pl_topology_path_params(t), sizeof *params);
    if (pl_model_create(be, t, options, &model) != PL_OK)
        fail_msg("%s", pl_last_error());
    for (int s = 0; s < pl_topology_n_slots(t); s++)
        pl_topology_init(t, s, 4, params + pl_topology_slot(t, s)->offset);
    assert_int_equal(pl_model_load(model, params), PL_OK);
    free(params);
    return model;
}

/* One sequence at a time, as long as the shape allows, for inference. */
static inline pl_model *fresh_reader(const pl_topology *t, pl_backend *be)
{
    const pl_model_options options = {.batch = 1,
                                      .context = pl_topology_shape(t)->context};
    return fresh_model(t, be, &options);
}

/* Runs `check` for every backend, or for the one that PAIRS_OF names; those the machine
 * lacks are named and left out. */
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
        else
            print_message("%s: not on this machine\n", p.label);
        pl_backend_close(&p.be[0]);
        pl_backend_close(&p.be[1]);
    }
}

#endif
