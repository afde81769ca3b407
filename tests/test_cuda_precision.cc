/* folder: modules; label: unit */
/* The cuda backend, emulated: products with operands of one byte, and decoding in
 * steps. */
#include "tests/emulation/toolkit/cuda_fp8.h"
#include <algorithm>

#include "tests/cuda_model.h" /* ends with cmocka, which must be the last */

static pl_backend *open_backend(const char *name, const char *precision)
{
    pl_backend *be;
    pl_backend_options options = {};
    options.name = name;
    options.n_threads = 1;
    options.precision = precision;
    check(pl_backend_open(&options, &be));
    return be;
}

static void *new_memory(pl_backend *be, size_t bytes)
{
    void *memory;
    check(be->ops->alloc(be, bytes, "a test", &memory));
    return memory;
}

static std::vector<float> normals(uint64_t stream, size_t n, float scale)
{
    std::vector<float> x(n);
    for (size_t i = 0; i < n; i++)
        x[i] = scale *
               pl_bf16_to_float(pl_bf16_from_float(pl_random_normal(7, stream, i)));
    return x;
}

/* ---- fp8 ---- */

static void every_e4m3_is_what_it_is_made_of(void **)
{
    float before = -1.0f;
    assert_true(isnan(emulated_e4m3_to_float(0x7f)));
    assert_int_equal(__nv_cvt_float_to_fp8(NAN, __NV_SATFINITE, __NV_E4M3), 0x7f);
    assert_int_equal(__nv_cvt_float_to_fp8(1e9f, __NV_SATFINITE, __NV_E4M3), 0x7e);
    assert_true(emulated_e4m3_to_float(0x7e) == 448.0f);
    assert_true(emulated_e4m3_to_float(1) == 0.001953125f); /* 2^-9 */
    for (unsigned bits = 0; bits < 0x7f; bits++) {
        const float value = emulated_e4m3_to_float((unsigned char)bits);
        assert_true(value > before);
        assert_int_equal(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3), bits);
        assert_int_equal(__nv_cvt_float_to_fp8(-value, __NV_SATFINITE, __NV_E4M3),
                         bits | 128);
        if (bits > 0) { /* half way between two: the even one */
            const unsigned even = bits % 2 == 0 ? bits : bits - 1;
            assert_int_equal(
                __nv_cvt_float_to_fp8((before + value) / 2, __NV_SATFINITE, __NV_E4M3),
                even);
        }
        before = value;
    }
}

/* [N,O] = x w^T of the same numbers. */
static std::vector<float> product_of(const char *name, const char *precision, int N,
                                     int O, int I)
{
    const std::vector<float> x = normals(1, (size_t)(N * I), 3.0f),
                             w = normals(2, (size_t)(O * I), 0.02f);
    std::vector<float> y((size_t)(N * O));
    pl_backend *be = open_backend(name, precision);
    pl_weight *weight;
    const size_t largest = std::max(x.size(), y.size());
    void *floats = new_memory(be, largest * sizeof(float));
    void *master = new_memory(be, w.size() * sizeof(float));
    pl_act *in = static_cast<pl_act *>(new_memory(be, x.size() * 4));
    pl_act *out = static_cast<pl_act *>(new_memory(be, y.size() * 4));
    be->ops->upload(be, master, w.data(), w.size() * sizeof(float));
    check(be->ops->weight_create(be, static_cast<float *>(master), O, I, &weight));
    be->ops->weights_refresh(be, &weight, 1);
    be->ops->upload(be, floats, x.data(), x.size() * sizeof(float));
    be->ops->act_from_float(be, in, static_cast<float *>(floats), x.size());
    be->ops->matmul_forward(be, out, in, weight, N, O, I);
    be->ops->act_to_float(be, static_cast<float *>(floats), out, y.size());
    be->ops->download(be, y.data(), floats, y.size() * sizeof(float));
    check(be->ops->sync(be));
    be->ops->weight_destroy(be, &weight);
    for (void *memory : {floats, master, (void *)in, (void *)out})
        be->ops->release(be, memory);
    pl_backend_close(&be);
    return y;
}

/* Three bits of a mantissa: each operand is off by a sixteenth at most. */
static void products_of_fp8_are_as_near_as_its_bits_allow(void **)
{
    const int shapes[][3] = {{37, 48, 96}, {5, 16, 208}, {130, 64, 32}};
    for (const int *s : shapes) {
        const std::vector<float> want = product_of("ref", "f32", s[0], s[1], s[2]),
                                 got = product_of("cuda", "fp8", s[0], s[1], s[2]);
        const double error = error_of(got.data(), want.data(), want.size());
        assert_true(error < 2.5e-3);
        assert_true(error > 1e-4); /* it is fp8 that ran */
    }
    const std::vector<float> want = product_of("ref", "f32", 37, 24, 90),
                             got = product_of("cuda", "fp8", 37, 24, 90);
    assert_true(error_of(got.data(), want.data(), want.size()) < 1e-4); /* bf16 */
}

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
    pl_model_destroy(&model);
    pl_backend_close(&be);
    pl_topology_destroy(&t);
    return result.loss;
}

static void training_in_fp8_follows_the_reference(void **)
{
    const double want = loss_after("ref", "f32", 12),
                 got = loss_after("cuda", "fp8", 12);
    const double before = loss_after("ref", "f32", 1);
    assert_true(want < 0.8 * before);
    if (!(fabs(got / want - 1.0) < 0.03))
        fail_msg("the loss is %g, that of ref %g", got, want);
}

static void a_backend_with_fp8_copies_says_so(void **)
{
    for (int kind = 0; kind < 3; kind++) {
        pl_backend *be = open_backend("cuda", kind == 0   ? "fp8"
                                              : kind == 1 ? "bf16"
                                                          : "int8");
        assert_true(be->fp8_copies == (kind == 0));
        pl_backend_close(&be);
    }
}

static void fp8_is_for_cuda_and_f32_is_not(void **)
{
    pl_backend *be;
    pl_backend_options options = {};
    options.name = "cpu";
    options.n_threads = 1;
    options.precision = "fp8";
    assert_int_equal(pl_backend_open(&options, &be), PL_ERR_UNSUPPORTED);
    assert_non_null(strstr(pl_last_error(), "choose backend cuda"));
    options.name = "cuda";
    options.precision = "f32";
    assert_int_equal(pl_backend_open(&options, &be), PL_ERR_UNSUPPORTED);
    options.precision = "bf17";
    assert_int_equal(pl_backend_open(&options, &be), PL_ERR_CONFIG);
}

/* ---- int8 ---- */

/* The product of a unit matrix and a weight shows the weight; each kernel has its
 * numbers of rows. */
static void bytes_are_the_nearest_steps_of_each_row(void **)
{
    enum { O = 21, I = 72 };
    pl_backend *be = open_backend("cuda", "int8");
    std::vector<float> w = normals(5, O * I, 0.3f), unit(I * I), all(I * O);
    for (int i = 0; i < I; i++) {
        unit[(size_t)(i * I + i)] = 1.0f;
        w[3 * I + (size_t)i] = 0.0f; /* a row of zeros */
    }
    pl_weight *weight;
    float *master = static_cast<float *>(new_memory(be, w.size() * sizeof(float)));
    float *floats = static_cast<float *>(new_memory(be, unit.size() * sizeof(float)));
    float *out = static_cast<float *>(new_memory(be, all.size() * sizeof(float)));
    pl_act *acts = static_cast<pl_act *>(new_memory(be, unit.size() * 2));
    be->ops->upload(be, master, w.data(), w.size() * sizeof(float));
    check(be->ops->weight_create(be, master, O, I, &weight));
    be->ops->weights_refresh(be, &weight, 1);
    be->ops->upload(be, floats, unit.data(), unit.size() * sizeof(float));
    be->ops->act_from_float(be, acts, floats, unit.size());
    for (int n : {1, 3, 8, 11, 30, 64, (int)I}) {
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
                if (n > 64) /* by cuBLASLt */
                    want = pl_bf16_to_float(pl_bf16_from_float(want));
                assert_true(all[(size_t)(i * O + o)] == want);
            }
    }
    be->ops->weight_destroy(be, &weight);
    for (void *memory : {(void *)master, (void *)floats, (void *)out, (void *)acts})
        be->ops->release(be, memory);
    pl_backend_close(&be);
}

/* ---- steps of decoding ---- */

enum { SLOTS = 5, STEPS_READ = 4 };

/* Logits of all steps of SLOTS sequences, which leave one after another. */
static std::vector<float> read_steps(const char *backend, const char *precision,
                                     std::string *remark)
{
    pl_backend *be;
    pl_topology *t = even_topology();
    pl_model *model = open_model(t, backend, precision, &be);
    pl_decoder *decoder;
    std::vector<float> logits(SLOTS * VOCABULARY), all;
    check(pl_decoder_create_slots(model, SLOTS, &decoder));
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
    pl_model_destroy(&model);
    pl_backend_close(&be);
    pl_topology_destroy(&t);
    return all;
}

static void steps_are_graphs_and_give_the_bytes_of_their_operations(void **)
{
    for (const char *precision : {"bf16", "int8"}) {
        std::string with, without;
        const std::vector<float> graph = read_steps("cuda", precision, &with);
        emulation_refuse_captures(true);
        const std::vector<float> plain = read_steps("cuda", precision, &without);
        emulation_refuse_captures(false);
        expect_equal(graph, plain);
        assert_string_equal(with.c_str(), "");
        assert_non_null(strstr(without.c_str(), "without a CUDA graph"));
    }
}

static void steps_are_near_the_references(void **)
{
    std::string remark;
    const std::vector<float> want = read_steps("ref", "f32", &remark),
                             wide = read_steps("cuda", "bf16", &remark),
                             bytes = read_steps("cuda", "int8", &remark);
    assert_true(error_of(wide.data(), want.data(), want.size()) < 1e-4);
    assert_true(error_of(bytes.data(), want.data(), want.size()) < 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_e4m3_is_what_it_is_made_of),
        cmocka_unit_test(products_of_fp8_are_as_near_as_its_bits_allow),
        cmocka_unit_test(training_in_fp8_follows_the_reference),
        cmocka_unit_test(a_backend_with_fp8_copies_says_so),
        cmocka_unit_test(fp8_is_for_cuda_and_f32_is_not),
        cmocka_unit_test(bytes_are_the_nearest_steps_of_each_row),
        cmocka_unit_test(steps_are_graphs_and_give_the_bytes_of_their_operations),
        cmocka_unit_test(steps_are_near_the_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
