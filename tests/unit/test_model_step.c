/* folder: modules; label: unit */
/* Tests how the host and a backend share a training step, on the reference backend: how
 * often the host calls and waits, steps that begin before others end, and gradients
 * that the next step overwrites. */
#include "modules/model_internal.h"
#include "tests/support/rig.h"

/* ---- what the host does in a step ---- */

/* Calls of the operations by which the host gives work to the backend or waits. */
static struct {
    int uploads, routines, posts, collects, waits;
} calls;

static void counted_upload(pl_backend *backend, void *to, const void *from, size_t n)
{
    calls.uploads++;
    be->ops->upload(backend, to, from, n);
}
static void counted_download(pl_backend *backend, void *to, const void *from, size_t n)
{
    calls.waits++;
    be->ops->download(backend, to, from, n);
}
static pl_status counted_sync(pl_backend *backend)
{
    calls.waits++;
    return be->ops->sync(backend);
}
static void counted_perform(pl_backend *backend, pl_routine **routine, uint64_t shape,
                            void (*work)(void *), void *context)
{
    calls.routines++;
    be->ops->perform(backend, routine, shape, work, context);
}
static void counted_post(pl_backend *backend, int number, const void *from, size_t n)
{
    calls.posts++;
    be->ops->post(backend, number, from, n);
}
static pl_status counted_collect(pl_backend *backend, int number, void *to, size_t n)
{
    calls.collects++;
    memcpy(to, backend->posted[number], n);
    return PL_OK;
}

PL_TEST(a_pass_is_one_upload_and_one_routine_and_a_step_waits_once)
{
    pl_ops ops = *be->ops;
    ops.upload = counted_upload;
    ops.download = counted_download;
    ops.sync = counted_sync;
    ops.perform = counted_perform;
    ops.post = counted_post;
    ops.collect = counted_collect;
    pl_backend counted = *be;
    counted.ops = &ops;
    pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    for (int batch = 1; batch <= B2; batch++) {
        const pl_model_options options = {
            .batch = batch, .context = 8, .training = true};
        OWNED(pl_topology_destroy) pl_topology *t;
        OWNED(pl_model_destroy) pl_model *model;
        pl_step_result result;
        assert_ok(pl_topology_create(&tiny, &spec, &t));
        assert_ok(pl_model_create(&counted, t, &options, &model));
        memset(&calls, 0, sizeof calls);
        assert_ok(pl_model_train_step(model, tokens_2x5, targets_2x5, B2, T5,
                                      &adam_default, 1.0f, &result));
        assert_int_equal(calls.uploads, B2 / batch);
        assert_int_equal(calls.routines, B2 / batch);
        assert_int_equal(calls.posts, 1);
        assert_int_equal(calls.collects, 1);
        assert_int_equal(calls.waits, 0);
    }
}

PL_TEST(a_step_may_begin_before_the_last_one_ends)
{
    enum { N_STEPS = 4 };
    OWNED(close_rig) rig a = open_rig(&tiny, B2, true), b = open_rig(&tiny, B2, true);
    pl_step_result want[N_STEPS], got[N_STEPS], more;
    pl_adamw adam = adam_default;
    load_initial(&a, 9);
    load_initial(&b, 9);
    for (int i = 0; i < N_STEPS; i++) {
        adam.step = i + 1;
        assert_ok(pl_model_train_step(a.model, tokens_2x5, targets_2x5, B2, T5, &adam,
                                      1.0f, &want[i]));
        assert_ok(
            pl_model_step_begin(b.model, tokens_2x5, targets_2x5, B2, T5, &adam, 1.0f));
        if (i > 0)
            assert_ok(pl_model_step_end(b.model, &got[i - 1]));
    }
    assert_ok(pl_model_step_end(b.model, &got[N_STEPS - 1]));
    assert_int_equal(pl_model_step_end(b.model, &more), PL_ERR_ARG);
    assert_memory_equal(got, want, sizeof got);
    OWNED(free_memory) float *end_a = copy_params(&a), *end_b = copy_params(&b);
    assert_memory_equal(end_a, end_b, a.n * sizeof *end_a);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            pl_model_step_begin(b.model, tokens_2x5, targets_2x5, B2, T5, &adam, 1.0f),
            i < 2 ? PL_OK : PL_ERR_ARG);
    /* new parameters have nothing to do with those steps */
    load_initial(&b, 9);
    assert_int_equal(pl_model_step_end(b.model, &more), PL_ERR_ARG);
}

/* The gradients of matrices that a step leaves behind must not be seen. */
PL_TEST(after_a_step_all_gradients_are_zero_until_the_next_pass)
{
    OWNED(close_rig) rig a = open_rig(&tiny, B2, true), b = open_rig(&tiny, B2, true);
    pl_step_result result;
    load_initial(&a, 9);
    train_some(&a, 1);
    float *middle = copy_params(&a), *grads = copy_grads(&a);
    for (size_t i = 0; i < a.n; i++)
        assert_true(grads[i] == 0.0f);
    assert_ok(pl_model_load(b.model, middle));
    float *got[2];
    const rig *rigs[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        assert_ok(pl_model_gradients(rigs[i]->model, tokens_2x5, targets_2x5, B2, T5,
                                     &result));
        got[i] = copy_grads(rigs[i]);
    }
    assert_memory_equal(got[0], got[1], a.n * sizeof(float));
    free(got[0]), free(got[1]), free(middle), free(grads);
}

/* A refused batch leaves the beginnings of its texts in the host's memory, and the next
 * batch with targets uploads the whole memory. */
PL_TEST(a_refused_batch_marks_no_text_of_a_later_one)
{
    enum { LAST = B2 * T5 - 1 };
    OWNED(close_rig) rig a = open_rig(&tiny, B2, true), b = open_rig(&tiny, B2, true);
    const int32_t lengths[B2] = {T5, T5};
    const size_t n = (size_t)B2 * (size_t)tiny.width;
    float losses[B2 * T5], *got = calloc(n, sizeof *got),
                           *want = calloc(n, sizeof *want);
    int32_t marked[B2 * T5];
    memcpy(marked, tokens_2x5, sizeof marked);
    marked[LAST - 2] |= PL_TEXT_BEGINS;
    marked[LAST] = tiny.vocab;
    load_initial(&a, 9);
    load_initial(&b, 9);
    assert_int_equal(pl_model_losses(a.model, marked, targets_2x5, B2, T5, losses),
                     PL_ERR_DATA);
    assert_ok(pl_model_losses(a.model, tokens_2x5, targets_2x5, 1, T5, losses));
    assert_ok(pl_model_features(a.model, tokens_2x5, lengths, B2, T5, got));
    assert_ok(pl_model_features(b.model, tokens_2x5, lengths, B2, T5, want));
    assert_memory_equal(got, want, n * sizeof *got);
    free(got), free(want);
}

PL_SUITE(open_backend, close_backend)
