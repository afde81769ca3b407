/* folder: modules; label: unit */
/* The cuda backend, emulated: the order in which threads run changes no byte of a
 * training, and no kernel of modules/cuda escapes the tests. */
#include "modules/modules.h"
#include "tests/emulation/emulation.h"
#include <algorithm>
#include <dirent.h>
#include <fstream>
#include <math.h>
#include <regex>
#include <set>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string>
#include <vector>
extern "C" {
#include <cmocka.h>
}

enum {
    SEQUENCES = 2,
    TOKENS = 70,
    ROWS = SEQUENCES * TOKENS,
    VOCABULARY = 41,
    STEPS = 2
};

/* What a training and a reading leave behind. */
struct outcome {
    std::vector<float> params, moments, features, logits;
    double loss;
};

static pl_topology *new_topology(const pl_shape *shape)
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

/* Widths that fit no vector and no tile. */
static pl_topology *odd_topology(void)
{
    const pl_shape shape = {VOCABULARY, 24,     4,    2,       10,  35,
                            2,          TOKENS, true, 10000.0, 1e-5};
    return new_topology(&shape);
}

/* Widths as models have them. */
static pl_topology *even_topology(void)
{
    const pl_shape shape = {VOCABULARY, 96,     3,    3,       32,  200,
                            2,          TOKENS, true, 10000.0, 1e-5};
    return new_topology(&shape);
}

static void check(pl_status status)
{
    if (status != PL_OK)
        fail_msg("%s", pl_last_error());
}

static void make_batch(std::vector<int32_t> *tokens, std::vector<int32_t> *targets)
{
    tokens->resize(ROWS);
    targets->resize(ROWS);
    for (int n = 0; n < ROWS; n++) {
        (*tokens)[(size_t)n] =
            (int32_t)(pl_random_u32(3, 3, (uint64_t)n) % (uint32_t)VOCABULARY);
        (*targets)[(size_t)n] = n % 11 == 0 ? -1 : (n * 5 + 1) % VOCABULARY;
    }
}

static void train(pl_model *model, const pl_topology *t, outcome *out)
{
    std::vector<int32_t> tokens, targets;
    const int32_t lengths[SEQUENCES] = {TOKENS, 9};
    pl_step_result result;
    pl_adamw adam = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1};
    make_batch(&tokens, &targets);
    for (; adam.step <= STEPS; adam.step++)
        check(pl_model_train_step(model, tokens.data(), targets.data(), SEQUENCES,
                                  TOKENS, &adam, 0.5f, &result));
    out->loss = result.loss;
    out->params.resize(pl_topology_path_params(t));
    out->moments.resize(2 * out->params.size());
    out->features.resize(SEQUENCES * 24);
    check(pl_model_save(model, out->params.data()));
    check(pl_model_save_moments(model, out->moments.data(),
                                out->moments.data() + out->params.size()));
    check(pl_model_features(model, tokens.data(), lengths, SEQUENCES, TOKENS,
                            out->features.data()));
}

static void read_along(pl_model *model, outcome *out)
{
    const int32_t tokens[] = {3, 1, 4, 1, 5, 9};
    pl_decoder *decoder;
    out->logits.resize(VOCABULARY);
    check(pl_decoder_create(model, &decoder));
    check(pl_decoder_feed(decoder, tokens, 4, out->logits.data()));
    check(pl_decoder_feed(decoder, tokens + 4, 2, out->logits.data()));
    pl_decoder_destroy(&decoder);
}

static pl_model *open_model(const pl_topology *t, const char *backend, pl_backend **be)
{
    pl_model *model;
    pl_backend_options options = {};
    options.name = backend;
    options.n_threads = 1;
    options.precision = "auto";
    const pl_model_options extents = {SEQUENCES, TOKENS, true, false};
    std::vector<float> params(pl_topology_path_params(t));
    for (int s = 0; s < pl_topology_n_slots(t); s++)
        pl_topology_init(t, s, 4, params.data() + pl_topology_slot(t, s)->offset);
    check(pl_backend_open(&options, be));
    check(pl_model_create(*be, t, &extents, &model));
    check(pl_model_load(model, params.data()));
    return model;
}

static outcome run_in_order(emulation_order order, uint64_t seed)
{
    outcome out = {};
    pl_backend *be;
    pl_topology *t = odd_topology();
    emulation_set_order(order, seed);
    pl_model *model = open_model(t, "cuda", &be);
    train(model, t, &out);
    read_along(model, &out);
    pl_model_destroy(&model);
    pl_backend_close(&be);
    pl_topology_destroy(&t);
    emulation_set_order(EMULATION_FORWARD, 0);
    return out;
}

static void expect_equal(const std::vector<float> &a, const std::vector<float> &b)
{
    assert_int_equal(a.size(), b.size());
    assert_memory_equal(a.data(), b.data(), a.size() * sizeof a[0]);
}

static void the_order_of_threads_changes_no_byte(void **)
{
    const outcome first = run_in_order(EMULATION_FORWARD, 0);
    for (int order = EMULATION_REVERSE; order < EMULATION_ORDERS; order++) {
        const outcome other = run_in_order((emulation_order)order, 17);
        assert_true(other.loss == first.loss);
        expect_equal(first.params, other.params);
        expect_equal(first.moments, other.moments);
        expect_equal(first.features, other.features);
        expect_equal(first.logits, other.logits);
    }
}

/* ---- accuracy ---- */

static std::vector<float> gradients_of(const pl_topology *t, const char *backend)
{
    pl_backend *be;
    pl_step_result result;
    std::vector<int32_t> tokens, targets;
    std::vector<float> grads(pl_topology_path_params(t));
    pl_model *model = open_model(t, backend, &be);
    make_batch(&tokens, &targets);
    check(pl_model_gradients(model, tokens.data(), targets.data(), SEQUENCES, TOKENS,
                             &result));
    check(pl_model_save_grads(model, grads.data()));
    pl_model_destroy(&model);
    pl_backend_close(&be);
    return grads;
}

static double error_of(const float *got, const float *want, size_t n)
{
    double wrong = 0.0, all = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)got[i] - (double)want[i];
        wrong += d * d;
        all += (double)want[i] * (double)want[i];
    }
    return wrong / all;
}

static void every_tensors_gradient_is_near_the_references(void **)
{
    pl_topology *t = even_topology();
    const std::vector<float> want = gradients_of(t, "ref"),
                             got = gradients_of(t, "cuda");
    for (int i = 0; i < pl_topology_n_tensors(t); i++) {
        const pl_tensor *tensor = pl_topology_tensor(t, i);
        const size_t n = (size_t)tensor->rows * (size_t)tensor->cols;
        const double error =
            error_of(got.data() + tensor->offset, want.data() + tensor->offset, n);
        if (!(error < 1e-4))
            fail_msg("the gradient of %s: error %g exceeds 1e-4", tensor->name, error);
    }
    pl_topology_destroy(&t);
}

/* ---- a step as one graph ---- */

/* More positions than before: the table of angles, which graphs name, is replaced. */
static void turn_far(pl_backend *be)
{
    enum { POSITIONS = 300, HEADS = 4, KV_HEADS = 2, SIZE = 10 };
    void *acts;
    check(be->ops->alloc(be, POSITIONS * (HEADS + 2 * KV_HEADS) * SIZE * 2, "a test",
                         &acts));
    be->ops->rope(be, static_cast<pl_act *>(acts), 1, POSITIONS, HEADS, KV_HEADS, SIZE,
                  10000.0, 0, 1);
    be->ops->release(be, acts);
}

/* Six steps of which every number differs, with other work in between. */
static outcome train_unevenly(bool with_graphs, std::string *remark)
{
    outcome out = {};
    pl_backend *be;
    pl_topology *t = odd_topology();
    std::vector<int32_t> tokens, targets;
    std::vector<float> losses(ROWS);
    pl_step_result result;
    emulation_refuse_captures(!with_graphs);
    pl_model *model = open_model(t, "cuda", &be);
    make_batch(&tokens, &targets);
    for (int step = 1; step <= 6; step++) {
        pl_adamw adam = {1e-2f / (float)step, 0.9f, 0.95f, 1e-8f, 0.1f, step};
        for (int n = 0; n < ROWS; n++) {
            tokens[(size_t)n] = (tokens[(size_t)n] * 3 + step) % VOCABULARY;
            targets[(size_t)n] = n % (step + 1) == 0 ? -1 : (n * step) % VOCABULARY;
        }
        const int T = step == 5 ? 20 : 26;
        check(pl_model_train_step(model, tokens.data(), targets.data(), SEQUENCES, T,
                                  &adam, 0.2f * (float)step, &result));
        out.loss += result.loss + result.grad_norm;
        if (step == 3) {
            check(pl_model_losses(model, tokens.data(), targets.data(), 1, TOKENS,
                                  losses.data()));
            read_along(model, &out);
            turn_far(be);
        }
    }
    out.params.resize(pl_topology_path_params(t));
    check(pl_model_save(model, out.params.data()));
    *remark = be->remark;
    pl_model_destroy(&model);
    pl_backend_close(&be);
    pl_topology_destroy(&t);
    emulation_refuse_captures(false);
    return out;
}

static void a_step_as_a_graph_gives_the_bytes_of_its_operations(void **)
{
    std::string with, without;
    const outcome graph = train_unevenly(true, &with),
                  plain = train_unevenly(false, &without);
    assert_true(graph.loss == plain.loss);
    expect_equal(graph.params, plain.params);
    assert_string_equal(with.c_str(), "");
    assert_non_null(strstr(without.c_str(), "steps run without a CUDA graph"));
}

static void a_loss_that_is_no_number_leaves_everything_as_it_was(void **)
{
    pl_backend *be;
    pl_topology *t = odd_topology();
    pl_model *model = open_model(t, "cuda", &be);
    const size_t n = pl_topology_path_params(t);
    std::vector<float> params(n), after(n), m(n), v(n), grads(n);
    std::vector<int32_t> tokens, targets;
    pl_step_result result;
    pl_adamw adam = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1};
    make_batch(&tokens, &targets);
    check(pl_model_save(model, params.data()));
    params[0] = NAN; /* of a token that the batch has */
    tokens[5] = 0;
    check(pl_model_load(model, params.data()));
    check(pl_model_load_moments(model, NULL, NULL));
    assert_int_equal(pl_model_train_step(model, tokens.data(), targets.data(),
                                         SEQUENCES, TOKENS, &adam, 0.5f, &result),
                     PL_ERR_NUMERIC);
    check(pl_model_save(model, after.data()));
    check(pl_model_save_moments(model, m.data(), v.data()));
    check(pl_model_save_grads(model, grads.data()));
    expect_equal(params, after);
    for (size_t i = 0; i < n; i++)
        assert_true(m[i] == 0.0f && v[i] == 0.0f && grads[i] == 0.0f);
    pl_model_destroy(&model);
    pl_backend_close(&be);
    pl_topology_destroy(&t);
}

/* ---- the optimizer ---- */

enum { UPDATE_ROWS = 57, UPDATE_COLUMNS = 160, UPDATE_TAIL = 88 };
enum {
    UPDATE_MATRIX = UPDATE_ROWS * UPDATE_COLUMNS,
    UPDATE_N = 2 * UPDATE_MATRIX + UPDATE_TAIL
};

/* Two matrices around a vector that does not decay. */
struct optimizer {
    pl_backend *be;
    size_t n;
    std::vector<pl_decay_run> runs;
    pl_weight *weights[2];
    pl_update_plan plan;
    pl_step_numbers numbers;
    float *copy; /* a matrix as products see it */
};

static float *floats_there(pl_backend *be, const std::vector<float> &values)
{
    void *memory;
    check(be->ops->alloc(be, values.size() * sizeof(float), "a test", &memory));
    be->ops->upload(be, memory, values.data(), values.size() * sizeof(float));
    return static_cast<float *>(memory);
}

/* `shift` moves the second matrix out of line. */
static void open_optimizer(optimizer *o, size_t shift, float clip)
{
    pl_backend_options options = {};
    void *squares;
    options.name = "cuda";
    options.n_threads = 1;
    check(pl_backend_open(&options, &o->be));
    pl_backend *be = o->be;
    const size_t n = o->n = UPDATE_N + shift, second = n - UPDATE_MATRIX;
    std::vector<float> params(n), grads(n), moments(2 * n);
    for (size_t i = 0; i < n; i++) {
        params[i] = pl_random_normal(1, 1, i);
        grads[i] = pl_random_normal(1, 2, i);
        moments[i] = pl_random_normal(1, 3, i);
        moments[n + i] = 0.01f * (float)(i % 7);
    }
    float *there = floats_there(be, params);
    check(be->ops->alloc(be, sizeof(double), "a test", &squares));
    check(
        be->ops->weight_create(be, there, UPDATE_ROWS, UPDATE_COLUMNS, &o->weights[0]));
    check(be->ops->weight_create(be, there + second, UPDATE_ROWS, UPDATE_COLUMNS,
                                 &o->weights[1]));
    o->runs = {{0, UPDATE_MATRIX, true},
               {UPDATE_MATRIX, second - UPDATE_MATRIX, false},
               {second, UPDATE_MATRIX, true}};
    o->plan = {there,
               floats_there(be, grads),
               floats_there(be, moments),
               n,
               o->runs.data(),
               (int)o->runs.size(),
               o->weights,
               2,
               static_cast<double *>(squares)};
    o->numbers = {{1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 2},
                  (float)(1.0 - pow((double)0.9f, 2.0)),
                  (float)(1.0 - pow((double)0.95f, 2.0)),
                  clip,
                  1.0f};
    o->copy = floats_there(be, std::vector<float>(UPDATE_MATRIX));
}

static void close_optimizer(optimizer *o)
{
    pl_backend *be = o->be;
    for (pl_weight *&weight : o->weights)
        be->ops->weight_destroy(be, &weight);
    for (void *memory :
         {(void *)o->plan.params, (void *)o->plan.grads, (void *)o->plan.moments,
          (void *)o->plan.squares, (void *)o->copy})
        be->ops->release(be, memory);
    check(be->ops->sync(be));
    pl_backend_close(&o->be);
}

static void update_whole(optimizer *o)
{
    pl_backend *be = o->be;
    pl_update *update;
    void *numbers;
    float *loss = floats_there(be, std::vector<float>(9, 1.0f));
    check(be->ops->alloc(be, sizeof o->numbers, "a test", &numbers));
    be->ops->upload(be, numbers, &o->numbers, sizeof o->numbers);
    check(be->ops->update_create(be, &o->plan, &update));
    be->ops->update_apply(be, update, loss, 9, static_cast<pl_step_numbers *>(numbers));
    be->ops->update_destroy(be, &update);
    be->ops->release(be, numbers);
    be->ops->release(be, loss);
}

static void update_by_parts(optimizer *o)
{
    pl_backend *be = o->be;
    const pl_update_plan *p = &o->plan;
    double sum;
    be->ops->sum_squares(be, p->squares, p->grads, o->n);
    be->ops->download(be, &sum, p->squares, sizeof sum);
    const double norm = sqrt(sum), clip = (double)o->numbers.clip;
    const float factor = clip > 0 && norm > clip ? (float)(clip / norm) : 1.0f;
    for (const pl_decay_run &run : o->runs) {
        pl_adamw adam = o->numbers.adam;
        adam.weight_decay = run.decay ? adam.weight_decay : 0.0f;
        be->ops->adamw(be, p->params + run.offset, p->moments + run.offset,
                       p->moments + o->n + run.offset, p->grads + run.offset, run.n,
                       factor, &adam);
    }
    be->ops->weights_refresh(be, o->weights, 2);
}

/* The product of a unit matrix and a weight shows the weight's compute copy. */
static void read_copy(optimizer *o, int w, float *out)
{
    pl_backend *be = o->be;
    std::vector<float> unit(UPDATE_COLUMNS * UPDATE_COLUMNS);
    void *acts;
    for (size_t i = 0; i < UPDATE_COLUMNS; i++)
        unit[i * UPDATE_COLUMNS + i] = 1.0f;
    float *there = floats_there(be, unit);
    check(be->ops->alloc(be, unit.size() * sizeof(float), "a test", &acts));
    be->ops->act_from_float(be, static_cast<pl_act *>(acts), there, unit.size());
    be->ops->logits(be, o->copy, static_cast<pl_act *>(acts), o->weights[w],
                    UPDATE_COLUMNS, UPDATE_ROWS, UPDATE_COLUMNS);
    be->ops->download(be, out, o->copy, UPDATE_MATRIX * sizeof(float));
    be->ops->release(be, there);
    be->ops->release(be, acts);
}

static std::vector<float> update_once(bool whole, size_t shift, float clip)
{
    optimizer o = {};
    open_optimizer(&o, shift, clip);
    if (whole)
        update_whole(&o);
    else
        update_by_parts(&o);
    const size_t n = o.n;
    std::vector<float> out(4 * n + 2 * UPDATE_MATRIX);
    o.be->ops->download(o.be, out.data(), o.plan.params, n * sizeof(float));
    o.be->ops->download(o.be, out.data() + n, o.plan.grads, n * sizeof(float));
    o.be->ops->download(o.be, out.data() + 2 * n, o.plan.moments,
                        2 * n * sizeof(float));
    for (int w = 0; w < 2; w++)
        read_copy(&o, w, out.data() + 4 * n + (size_t)w * UPDATE_MATRIX);
    close_optimizer(&o);
    return out;
}

/* Shifts: in line, so that eight go at once; and out of it. */
static void an_update_in_two_launches_is_its_operations_in_a_row(void **)
{
    for (size_t shift = 0; shift < 8; shift += 5)
        for (int clipped = 0; clipped < 2; clipped++)
            expect_equal(update_once(true, shift, clipped ? 1.0f : 0.0f),
                         update_once(false, shift, clipped ? 1.0f : 0.0f));
}

/* ---- completeness ---- */

/* Of all that ran so far. */
static void nothing_is_left_on_the_device(void **)
{
    size_t bytes;
    assert_true(emulation_n_launches() > 0);
    assert_int_equal(emulation_n_allocations(&bytes), 0);
}

static void kernels_of_file(const std::string &path, std::set<std::string> *names)
{
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    /* the first name followed by a parenthesis that is no attribute's */
    const std::regex kernel(
        "__global__\\s+void\\s+(?:__launch_bounds__\\([^)]*\\)\\s+)?"
        "([a-z_0-9]+)\\s*\\(");
    for (std::sregex_iterator i(text.begin(), text.end(), kernel), end; i != end; ++i)
        names->insert((*i)[1]);
}

/* By the tests above. */
static void every_kernel_was_executed(void **)
{
    std::set<std::string> written, executed;
    DIR *folder = opendir("modules/cuda");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (pl_ends_with(entry->d_name, ".cu"))
            kernels_of_file(std::string("modules/cuda/") + entry->d_name, &written);
    closedir(folder);
    for (size_t i = 0, n = emulation_n_kernels(); i < n; i++)
        executed.insert(emulation_kernel(i));
    assert_true(written.size() > 10);
    for (const std::string &name : written)
        if (!executed.count(name))
            fail_msg("%s is not executed: use it in a model or write a test",
                     name.c_str());
    for (const std::string &name : executed)
        if (!written.count(name))
            fail_msg("%s is executed but was not found in modules/cuda", name.c_str());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_threads_changes_no_byte),
        cmocka_unit_test(every_tensors_gradient_is_near_the_references),
        cmocka_unit_test(a_step_as_a_graph_gives_the_bytes_of_its_operations),
        cmocka_unit_test(a_loss_that_is_no_number_leaves_everything_as_it_was),
        cmocka_unit_test(an_update_in_two_launches_is_its_operations_in_a_row),
        cmocka_unit_test(nothing_is_left_on_the_device),
        cmocka_unit_test(every_kernel_was_executed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
