/* folder: modules; label: unit */
/* Compares the cuda backend with the reference: the update, products in int8,
 * and decoding. This test runs on the emulation and on a GPU. */
#include <algorithm>

#include "tests/gpu/cuda_update.h" /* it includes cmocka, which must come last */

static std::vector<float> normals(uint64_t stream, size_t n, float scale)
{
    std::vector<float> x(n);
    for (size_t i = 0; i < n; i++)
        x[i] = scale *
               pl_bf16_to_float(pl_bf16_from_float(pl_random_normal(7, stream, i)));
    return x;
}

static bool has_device(void)
{
    pl_backend *be;
    pl_backend_options options = {};
    options.name = "cuda";
    options.n_threads = 1;
    const pl_status status = pl_backend_open(&options, &be);
    if (status == PL_ERR_UNSUPPORTED)
        return false;
    check(status);
    pl_backend_close(&be);
    return true;
}

static void expect_near(const float *got, const float *want, size_t n, double limit,
                        const char *what)
{
    const double error = error_of(got, want, n);
    if (!(error <= limit))
        fail_msg("%s: error %g exceeds %g", what, error, limit);
}

/* ---- gradients ---- */

static std::vector<float> gradients_of(const pl_topology *t, const char *backend)
{
    pl_backend *be;
    pl_step_result result;
    std::vector<int32_t> tokens, targets;
    std::vector<float> grads(pl_topology_path_params(t));
    pl_model *model = open_model(t, backend, "auto", &be);
    make_batch(&tokens, &targets);
    check(pl_model_gradients(model, tokens.data(), targets.data(), SEQUENCES, TOKENS,
                             &result));
    check(pl_model_save_grads(model, grads.data()));
    pl_model_destroy(&model);
    pl_backend_close(&be);
    return grads;
}

PL_TEST(every_tensors_gradient_is_near_the_references)
{
    pl_topology *t = even_topology();
    const std::vector<float> want = gradients_of(t, "ref"),
                             got = gradients_of(t, "cuda");
    for (int i = 0; i < pl_topology_n_tensors(t); i++) {
        const pl_tensor *tensor = pl_topology_tensor(t, i);
        const size_t n = (size_t)tensor->rows * (size_t)tensor->cols;
        expect_near(got.data() + tensor->offset, want.data() + tensor->offset, n, 1e-4,
                    tensor->name);
    }
    pl_topology_destroy(&t);
}

/* The residual stream is rounded to bf16 twice per block, so its error grows with the
 * square root of the number of blocks, and does not explode. */
static double error_of_states(int n_blocks)
{
    const pl_shape shape = {VOCABULARY, 48,     3,    3,       16,   64,
                            n_blocks,   TOKENS, true, 10000.0, 1e-5, false};
    const int32_t lengths[SEQUENCES] = {TOKENS, 9};
    pl_topology *t = new_topology(&shape);
    std::vector<int32_t> tokens, targets;
    std::vector<float> states[2];
    make_batch(&tokens, &targets);
    for (int i = 0; i < 2; i++) {
        pl_backend *be;
        pl_model *model = open_model(t, i ? "cuda" : "ref", "auto", &be);
        states[i].resize((size_t)SEQUENCES * (size_t)shape.width);
        check(pl_model_features(model, tokens.data(), lengths, SEQUENCES, TOKENS,
                                states[i].data()));
        pl_model_destroy(&model);
        pl_backend_close(&be);
    }
    pl_topology_destroy(&t);
    return error_of(states[1].data(), states[0].data(), states[0].size());
}

PL_TEST(rounding_the_stream_of_24_blocks_costs_no_more_than_its_roundings)
{
    const double few = error_of_states(2), many = error_of_states(24);
    print_message("error of the states: %g after 2 blocks, %g after 24\n", few, many);
    assert_true(few < 2e-5);
    assert_true(many < 2e-4); /* (2^-9)^2 x 48 */
}

PL_TEST(a_loss_that_is_no_number_leaves_everything_as_it_was)
{
    pl_backend *be;
    pl_topology *t = odd_topology();
    pl_model *model = open_model(t, "cuda", "auto", &be);
    const size_t n = pl_topology_path_params(t);
    std::vector<float> params(n), after(n), m(n), v(n), grads(n);
    std::vector<int32_t> tokens, targets;
    pl_step_result result;
    pl_adamw adam = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1};
    make_batch(&tokens, &targets);
    check(pl_model_save(model, params.data()));
    params[0] = NAN; /* in the row of a token that is in the batch */
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
    close_model(&model, &be, &t);
}

/* ---- the update ---- */

/* All values are fp32, except the copies of matrices in bf16. */
PL_TEST(an_update_is_that_of_ref)
{
    for (size_t shift = 0; shift < 8; shift += 5)
        for (int clipped = 0; clipped < 2; clipped++) {
            const float clip = clipped ? 1.0f : 0.0f;
            const std::vector<float> want = update_once("ref", true, shift, clip),
                                     got = update_once("cuda", true, shift, clip);
            const size_t n = UPDATE_N + shift, at_v = 2 * n + pl_second_moments(n);
            const size_t copies = at_v + n;
            expect_near(&got[0], &want[0], n, 1e-12, "parameters");
            /* The gradients outside of the matrices were set to zero. */
            assert_memory_equal(&got[n], &want[n], n * sizeof got[0]);
            expect_near(&got[2 * n], &want[2 * n], n, 1e-12, "first moments");
            expect_near(&got[at_v], &want[at_v], n, 1e-12, "second moments");
            expect_near(&got[copies], &want[copies], UPDATE_MATRIX, 1e-5, "a copy");
            expect_near(&got[copies + UPDATE_MATRIX], &want[copies + UPDATE_MATRIX],
                        UPDATE_MATRIX, 1e-5, "another copy");
        }
}

/* Trains n_steps steps on one batch and returns the last loss. On a GPU a graph runs
 * the steps. */
static double loss_after(const char *backend, const char *precision, int n_steps)
{
    pl_backend *be;
    pl_topology *t = even_topology();
    pl_model *model = open_model(t, backend, precision, &be);
    std::vector<int32_t> tokens, targets;
    pl_step_result result = {};
    make_batch(&tokens, &targets);
    for (int64_t step = 1; step <= n_steps; step++) {
        const pl_adamw adam = {3e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, step};
        check(pl_model_train_step(model, tokens.data(), targets.data(), SEQUENCES,
                                  TOKENS, &adam, 1.0f, &result));
    }
    assert_string_equal(be->remark, "");
    close_model(&model, &be, &t);
    return result.loss;
}

PL_TEST(training_follows_the_reference)
{
    const double want = loss_after("ref", "f32", 12),
                 got = loss_after("cuda", "bf16", 12);
    assert_true(want < 0.8 * loss_after("ref", "f32", 1));
    if (!(fabs(got / want - 1.0) < 0.01))
        fail_msg("the loss is %g, that of ref %g", got, want);
}

PL_TEST(f32_and_unknown_precisions_are_refused)
{
    pl_backend *be;
    pl_backend_options options = {};
    options.name = "cuda";
    options.n_threads = 1;
    options.precision = "f32";
    assert_int_equal(pl_backend_open(&options, &be), PL_ERR_UNSUPPORTED);
    options.precision = "bf17";
    assert_int_equal(pl_backend_open(&options, &be), PL_ERR_CONFIG);
}

/* ---- int8 ---- */

/* Multiplies a unit matrix by a weight [O,I], so that the product must be the weight.
 * The backend has different kernels for few and for many rows. */
static void check_bytes(int O, int I, std::initializer_list<int> rows)
{
    pl_backend *be = open_backend("cuda", "int8");
    std::vector<float> w = normals(5, (size_t)(O * I), 0.3f), unit((size_t)(I * I)),
                       all((size_t)(I * O));
    for (int i = 0; i < I; i++) {
        unit[(size_t)(i * I + i)] = 1.0f;
        w[(size_t)(3 * I + i)] = 0.0f; /* a row of zeros */
    }
    pl_weight *weight;
    float *master = floats_there(be, w), *floats = floats_there(be, unit);
    float *out = static_cast<float *>(new_memory(be, all.size() * sizeof(float)));
    pl_act *acts = static_cast<pl_act *>(new_memory(be, unit.size() * 2));
    check(be->ops->weight_create(be, master, O, I, &weight));
    be->ops->weights_refresh(be, &weight, 1);
    be->ops->act_from_float(be, acts, floats, unit.size());
    for (int n : rows) {
        be->ops->logits(be, out, acts, weight, n, O, I);
        be->ops->download(be, all.data(), out, (size_t)(n * O) * sizeof(float));
        check(be->ops->sync(be));
        for (int i = 0; i < n; i++)
            for (int o = 0; o < O; o++) {
                float most = 0.0f;
                for (int k = 0; k < I; k++)
                    most = fmaxf(most, fabsf(w[(size_t)(o * I + k)]));
                const float inverse = most > 0.0f ? 127.0f / most : 0.0f;
                float want =
                    (float)lrintf(w[(size_t)(o * I + i)] * inverse) * (most / 127.0f);
                if (n > 64) /* cuBLASLt multiplies these numbers of rows */
                    want = pl_bf16_to_float(pl_bf16_from_float(want));
                assert_true(all[(size_t)(i * O + o)] == want);
            }
    }
    be->ops->weight_destroy(be, &weight);
    close_backend(be, {master, floats, out, acts});
}

PL_TEST(bytes_are_the_nearest_steps_of_each_row)
{
    check_bytes(21, 72, {1, 3, 8, 11, 30, 64, 72});
    check_bytes(4100, 40, {8, 30}); /* many rows of the matrix per block */
    /* more columns than a block reads in its first pass */
    check_bytes(5, 2056, {1, 8});
}

/* ---- steps of decoding ---- */

PL_TEST(steps_are_near_the_references)
{
    std::string remark;
    const std::vector<float> want = read_steps("ref", "f32", &remark),
                             wide = read_steps("cuda", "bf16", &remark),
                             bytes = read_steps("cuda", "int8", &remark);
    /* No remark means that the steps were run by graphs. */
    assert_string_equal(remark.c_str(), "");
    expect_near(wide.data(), want.data(), want.size(), 1e-4, "bf16");
    expect_near(bytes.data(), want.data(), want.size(), 1e-3, "int8");
}

/* Muon's products are in bf16. The parameters that AdamW steps must have the bytes of
 * the reference. */
PL_TEST(muon_is_near_the_references)
{
    const std::vector<float> want = update_once("ref", true, 5, 1.0f, true),
                             got = update_once("cuda", true, 5, 1.0f, true),
                             adam = update_once("cuda", true, 5, 1.0f);
    const size_t n = UPDATE_N + 5;
    float change = 0;
    expect_near(&got[0], &want[0], n, 1e-7, "parameters");
    expect_near(&got[2 * n], &want[2 * n], n, 1e-12, "first moments");
    for (size_t i = 0; i < n; i++) {
        assert_true(got[n + i] == 0.0f); /* the gradients */
        change = fmaxf(change, fabsf(got[i] - adam[i]));
    }
    assert_true(change > 1e-3f);
}

static int needs_a_device(void **)
{
    if (has_device())
        return 0;
    print_message("cuda: not on this machine\n");
    exit(0);
}

PL_SUITE(needs_a_device, NULL)
