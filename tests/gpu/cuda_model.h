/* Small models on a real or emulated device, for tests in C++. */
#pragma once
#include "modules/modules.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string>
#include <string.h>
#include <vector>

#include "tests/support/suite.h"

enum {
    SEQUENCES = 2,
    TOKENS = 70,
    ROWS = SEQUENCES * TOKENS,
    VOCABULARY = 41,
    STEPS = 2
};

static inline pl_topology *new_topology(const pl_shape *shape)
{
    pl_topology_spec spec = {};
    spec.n_levels = 1;
    spec.experts[0] = 1;
    spec.replicas = 1;
    pl_topology *t;
    if (pl_topology_create(shape, &spec, &t) != PL_OK)
        fail_msg("%s", pl_last_error());
    return t;
}

/* Returns a model with QK norm. Its widths are not multiples of the vectors and tiles
 * of the kernels. */
static inline pl_topology *odd_topology(void)
{
    const pl_shape shape = {VOCABULARY, 24,     4,    2,       10,   35,
                            2,          TOKENS, true, 10000.0, 1e-5, true};
    return new_topology(&shape);
}

/* Returns a model with usual widths: all are multiples of 8. */
static inline pl_topology *even_topology(void)
{
    const pl_shape shape = {VOCABULARY, 80,     2,    2,       32,   72,
                            2,          TOKENS, true, 10000.0, 1e-5, false};
    return new_topology(&shape);
}

static inline void check(pl_status status)
{
    if (status != PL_OK)
        fail_msg("%s", pl_last_error());
}

static inline void make_batch(std::vector<int32_t> *tokens,
                              std::vector<int32_t> *targets)
{
    tokens->resize(ROWS);
    targets->resize(ROWS);
    for (int n = 0; n < ROWS; n++) {
        (*tokens)[(size_t)n] =
            (int32_t)(pl_random_u32(3, 3, (uint64_t)n) % (uint32_t)VOCABULARY);
        (*targets)[(size_t)n] = n % 11 == 0 ? -1 : (n * 5 + 1) % VOCABULARY;
    }
}

/* The precision NULL is the backend's own. */
static inline pl_backend *open_backend(const char *name, const char *precision)
{
    pl_backend *be;
    pl_backend_options options = {};
    options.name = name;
    options.n_threads = 1;
    options.precision = precision;
    check(pl_backend_open(&options, &be));
    return be;
}

static inline void *new_memory(pl_backend *be, size_t bytes)
{
    void *memory;
    check(be->ops->alloc(be, bytes, "a test", &memory));
    return memory;
}

static inline void close_backend(pl_backend *be, std::initializer_list<void *> owned)
{
    for (void *memory : owned)
        be->ops->release(be, memory);
    check(be->ops->sync(be));
    pl_backend_close(&be);
}

static inline pl_model *new_model(pl_backend *be, const pl_topology *t,
                                  const pl_model_options &extents)
{
    pl_model *model;
    std::vector<float> params(pl_topology_path_params(t));
    for (int s = 0; s < pl_topology_n_slots(t); s++)
        pl_topology_init(t, s, 4, params.data() + pl_topology_slot(t, s)->offset);
    check(pl_model_create(be, t, &extents, &model));
    check(pl_model_load(model, params.data()));
    return model;
}

/* Makes a model. It can be trained, unless the precision is int8. */
static inline pl_model *open_model(const pl_topology *t, const char *backend,
                                   const char *precision, pl_backend **be)
{
    pl_model_options extents = {};
    extents.batch = SEQUENCES;
    extents.context = TOKENS;
    extents.training = strcmp(precision, "int8") != 0;
    *be = open_backend(backend, precision);
    return new_model(*be, t, extents);
}

static inline void close_model(pl_model **model, pl_backend **be, pl_topology **t)
{
    pl_model_destroy(model);
    pl_backend_close(be);
    pl_topology_destroy(t);
}

static inline void expect_equal(const std::vector<float> &a,
                                const std::vector<float> &b)
{
    assert_int_equal(a.size(), b.size());
    assert_memory_equal(a.data(), b.data(), a.size() * sizeof a[0]);
}

/* Returns the sum of squared errors, divided by the sum of squares of `want`. */
static inline double error_of(const float *got, const float *want, size_t n)
{
    double wrong = 0.0, all = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)got[i] - (double)want[i];
        wrong += d * d;
        all += (double)want[i] * (double)want[i];
    }
    return wrong / all;
}

/* ---- steps of decoding ---- */

/* A graph is made for the second of equal steps, and the third only runs it again. */
enum { SLOTS = 5, STEPS_READ = 3 };

/* Computes the logits of all steps of SLOTS sequences. The number of sequences in a
 * step falls by two after each STEPS_READ steps. */
static inline std::vector<float> read_steps(const char *backend, const char *precision,
                                            std::string *remark)
{
    pl_backend *be;
    pl_topology *t = even_topology();
    pl_model *model = open_model(t, backend, precision, &be);
    pl_decoder *decoder;
    std::vector<float> logits(SLOTS * VOCABULARY), all;
    check(pl_decoder_create(model, SLOTS, &decoder));
    for (int s = 0; s < SLOTS; s++) {
        const int32_t prompt[] = {s, s + 1, 2 * s, 3, s * s};
        check(pl_decoder_prefill(decoder, s, prompt, 1 + s, logits.data()));
        all.insert(all.end(), logits.begin(), logits.begin() + VOCABULARY);
    }
    for (int n = SLOTS; n > 0; n -= 2)
        for (int step = 0; step < STEPS_READ; step++) {
            const int32_t slots[] = {3, 1, 4, 0, 2};
            int32_t tokens[SLOTS];
            for (int i = 0; i < n; i++)
                tokens[i] = (slots[i] * 7 + step * 5 + n) % VOCABULARY;
            check(pl_decoder_step(decoder, slots, tokens, n, logits.data()));
            all.insert(all.end(), logits.begin(), logits.begin() + n * VOCABULARY);
        }
    *remark = be->remark;
    pl_decoder_destroy(&decoder);
    close_model(&model, &be, &t);
    return all;
}
