/* folder: modules; label: unit */
/* The cuda backend, emulated: the order in which threads run changes no byte of a
 * training, and no kernel of modules/cuda escapes the tests. */
#include "modules/modules.h"
#include "tests/emulation/emulation.h"
#include <algorithm>
#include <dirent.h>
#include <fstream>
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
    const pl_model_options extents = {SEQUENCES, TOKENS, true};
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

/* ---- completeness ---- */

static void nothing_is_left_on_the_device(void **)
{
    size_t bytes;
    (void)run_in_order(EMULATION_FORWARD, 0);
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

static void every_kernel_was_executed(void **)
{
    std::set<std::string> written, executed;
    DIR *folder = opendir("modules/cuda");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (pl_ends_with(entry->d_name, ".cu"))
            kernels_of_file(std::string("modules/cuda/") + entry->d_name, &written);
    closedir(folder);
    (void)run_in_order(EMULATION_FORWARD, 0);
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
        cmocka_unit_test(nothing_is_left_on_the_device),
        cmocka_unit_test(every_kernel_was_executed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
