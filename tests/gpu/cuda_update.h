/* Runs the optimizer on a small path that these tests make up, either in two launches
 * or operation by operation. */
#pragma once
#include <math.h>

#include "tests/gpu/cuda_model.h" /* it includes cmocka, which must come last */

enum { UPDATE_ROWS = 57, UPDATE_COLUMNS = 160, UPDATE_TAIL = 88 };
enum {
    UPDATE_MATRIX = UPDATE_ROWS * UPDATE_COLUMNS,
    UPDATE_N = 2 * UPDATE_MATRIX + UPDATE_TAIL
};

/* The path has two matrices and, between them, a vector without weight decay. */
struct optimizer {
    pl_backend *be;
    size_t n;
    std::vector<pl_update_run> runs;
    pl_weight *weights[2];
    pl_update_plan plan;
    pl_step_numbers numbers;
    float *copy; /* the copy that matrix products read */
};

static inline float *floats_there(pl_backend *be, const std::vector<float> &values)
{
    void *memory = new_memory(be, values.size() * sizeof(float));
    be->ops->upload(be, memory, values.data(), values.size() * sizeof(float));
    return static_cast<float *>(memory);
}

/* Moves the second matrix by `shift` floats, so that its address may be unaligned. If
 * `muon` is set, Muon steps the first matrix as it is, and the second matrix as two
 * matrices that are higher than wide. */
static inline void open_optimizer(optimizer *o, const char *backend, size_t shift,
                                  float clip, bool muon)
{
    pl_backend *be = o->be = open_backend(backend, NULL);
    const size_t n = o->n = UPDATE_N + shift, second = n - UPDATE_MATRIX;
    const size_t at_v = pl_second_moments(n);
    std::vector<float> params(n), grads(n), moments(at_v + n);
    for (size_t i = 0; i < n; i++) {
        params[i] = pl_random_normal(1, 1, i);
        grads[i] = pl_random_normal(1, 2, i);
        moments[i] = pl_random_normal(1, 3, i);
        moments[at_v + i] = 0.01f * (float)(i % 7);
    }
    float *there = floats_there(be, params);
    check(
        be->ops->weight_create(be, there, UPDATE_ROWS, UPDATE_COLUMNS, &o->weights[0]));
    check(be->ops->weight_create(be, there + second, UPDATE_ROWS, UPDATE_COLUMNS,
                                 &o->weights[1]));
    o->runs = {{0, UPDATE_MATRIX, 0, true, 0, 0, 0},
               {UPDATE_MATRIX, second - UPDATE_MATRIX, UPDATE_MATRIX, false, 0, 0, -1},
               {second, UPDATE_MATRIX, second, true, 0, 0, 1}};
    if (muon)
        o->runs = {
            {0, UPDATE_MATRIX, 0, true, UPDATE_ROWS, UPDATE_COLUMNS, 0},
            {UPDATE_MATRIX, second - UPDATE_MATRIX, 0, false, 0, 0, -1},
            {second, UPDATE_MATRIX, 0, true, UPDATE_COLUMNS / 2, UPDATE_ROWS, 1}};
    o->plan = {there,
               floats_there(be, grads),
               floats_there(be, moments),
               n,
               o->runs.data(),
               (int)o->runs.size(),
               o->weights,
               static_cast<double *>(new_memory(be, sizeof(double)))};
    o->numbers = {{1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 2},
                  (float)(1.0 - pow((double)0.9f, 2.0)),
                  (float)(1.0 - pow((double)0.95f, 2.0)),
                  clip,
                  1.0f};
    o->copy = floats_there(be, std::vector<float>(UPDATE_MATRIX));
}

static inline void close_optimizer(optimizer *o)
{
    pl_backend *be = o->be;
    for (pl_weight *&weight : o->weights)
        be->ops->weight_destroy(be, &weight);
    close_backend(
        be, {o->plan.params, o->plan.grads, o->plan.moments, o->plan.squares, o->copy});
}

static inline void update_whole(optimizer *o)
{
    pl_backend *be = o->be;
    pl_update *update;
    float *loss = floats_there(be, std::vector<float>(9, 1.0f));
    void *numbers = new_memory(be, sizeof o->numbers);
    be->ops->upload(be, numbers, &o->numbers, sizeof o->numbers);
    check(be->ops->update_create(be, &o->plan, &update));
    be->ops->update_apply(be, update, loss, 9, static_cast<pl_step_numbers *>(numbers));
    be->ops->update_destroy(be, &update);
    be->ops->release(be, numbers);
    be->ops->release(be, loss);
}

static inline void update_by_parts(optimizer *o)
{
    pl_backend *be = o->be;
    const pl_update_plan *p = &o->plan;
    double sum;
    be->ops->sum_squares(be, p->squares, p->grads, o->n);
    be->ops->download(be, &sum, p->squares, sizeof sum);
    const double norm = sqrt(sum), clip = (double)o->numbers.clip;
    const float factor = clip > 0 && norm > clip ? (float)(clip / norm) : 1.0f;
    float *work = floats_there(be, std::vector<float>(pl_update_work_floats(
                                       o->runs.data(), (int)o->runs.size(), true)));
    for (const pl_update_run &run : o->runs) {
        pl_adamw adam = o->numbers.adam;
        float *m = p->moments + run.offset, *g = p->grads + run.offset;
        adam.weight_decay = run.decay ? adam.weight_decay : 0.0f;
        if (run.rows > 0)
            be->ops->muon(be, p->params + run.offset, m, g, work,
                          pl_update_run_matrices(&run), run.rows, run.cols, factor,
                          &adam);
        else
            be->ops->adamw(be, p->params + run.offset, m,
                           p->moments + pl_second_moments(o->n) + run.second, g, run.n,
                           factor, &adam,
                           run.weight >= 0 ? o->weights[run.weight] : NULL);
    }
    be->ops->release(be, work);
    if (o->runs[0].rows > 0) /* adamw has written the copies itself */
        be->ops->weights_refresh(be, o->weights, 2);
}

/* Reads the compute copy of a weight: multiplies a unit matrix by this weight. */
static inline void read_copy(optimizer *o, int w, float *out)
{
    pl_backend *be = o->be;
    std::vector<float> unit(UPDATE_COLUMNS * UPDATE_COLUMNS);
    for (size_t i = 0; i < UPDATE_COLUMNS; i++)
        unit[i * UPDATE_COLUMNS + i] = 1.0f;
    float *there = floats_there(be, unit);
    void *acts = new_memory(be, unit.size() * sizeof(float));
    be->ops->act_from_float(be, static_cast<pl_act *>(acts), there, unit.size());
    be->ops->logits(be, o->copy, static_cast<pl_act *>(acts), o->weights[w],
                    UPDATE_COLUMNS, UPDATE_ROWS, UPDATE_COLUMNS);
    be->ops->download(be, out, o->copy, UPDATE_MATRIX * sizeof(float));
    be->ops->release(be, there);
    be->ops->release(be, acts);
}

static inline std::vector<float> update_once(const char *backend, bool whole,
                                             size_t shift, float clip,
                                             bool muon = false)
{
    optimizer o = {};
    open_optimizer(&o, backend, shift, clip, muon);
    if (whole)
        update_whole(&o);
    else
        update_by_parts(&o);
    const size_t n = o.n, at_v = pl_second_moments(n);
    std::vector<float> out(3 * n + at_v + 2 * UPDATE_MATRIX);
    o.be->ops->download(o.be, out.data(), o.plan.params, n * sizeof(float));
    o.be->ops->download(o.be, out.data() + n, o.plan.grads, n * sizeof(float));
    o.be->ops->download(o.be, out.data() + 2 * n, o.plan.moments,
                        (at_v + n) * sizeof(float));
    for (int w = 0; w < 2; w++)
        read_copy(&o, w, out.data() + 3 * n + at_v + (size_t)w * UPDATE_MATRIX);
    close_optimizer(&o);
    return out;
}

PL_TEST(muon_in_a_whole_step_is_its_operation)
{
    for (int clipped = 0; clipped < 2; clipped++)
        expect_equal(update_once("cuda", true, 5, clipped ? 1.0f : 0.0f, true),
                     update_once("cuda", false, 5, clipped ? 1.0f : 0.0f, true));
}

/* Tests the shifts 0 and 5. At an aligned address a thread steps eight parameters at
 * once, at an unaligned one it does not. */
PL_TEST(an_update_in_two_launches_is_its_operations_in_a_row)
{
    for (size_t shift = 0; shift < 8; shift += 5)
        for (int clipped = 0; clipped < 2; clipped++)
            expect_equal(update_once("cuda", true, shift, clipped ? 1.0f : 0.0f),
                         update_once("cuda", false, shift, clipped ? 1.0f : 0.0f));
}
