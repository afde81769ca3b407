/* folder: outer; label: unit */
#include "tests/support/codec_support.h"

/* ---- exact codecs ---- */
PL_TEST(f32_update_arrives_bit_for_bit_at_every_size)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 8193, 50001};
    for (int entropy = 0; entropy < 2; entropy++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t n = sizes[k];
            OWNED(free_memory)
            float *x = pl_alloc((n + 1) * sizeof *x);
            pl_codec_options o = options_of("f32");
            o.entropy = entropy;
            fill_values(x, n, 1);
            /* Zero, subnormal numbers and extreme numbers must keep their bits, too. */
            if (n > 60) {
                const float odd[] = {0.0f, 1e-45f, -1e-40f, FLT_MAX, -FLT_MAX, FLT_MIN};
                memcpy(x + 50, odd, sizeof odd);
            }
            OWNED(free_memory) float *sum = sent_update(&o, NULL, x, n, NULL);
            assert_memory_equal(x, sum, n * sizeof *x);
        }
}

PL_TEST(planes_keep_the_bits_of_what_is_not_finite)
{
    enum { N = 5000 };
    static float x[N];
    uint32_t odd[] = {0x7fc12345u, 0xff800001u, 0x80000000u, 0x7f800000u, 1u};
    pl_codec_options o = options_of("f32");
    OWNED(pl_buf_destroy) pl_buf m = {0}, scratch = {0};
    codec_reader r;
    codec_stretch s;
    const uint8_t *top, *rest;
    fill_values(x, N, 2);
    memcpy(x + 100, odd, sizeof odd);
    encode_all(&o, NULL, x, N, NULL, &m);
    assert_ok(codec_reader_open(&r, m.data, m.len, N));
    assert_true(codec_reader_next(&r, &s));
    assert_int_equal(s.variant, VARIANT_PLANES);
    assert_true(s.sections[0].wire_bytes < s.sections[0].raw_bytes);
    assert_ok(codec_section_open(&s.sections[0], &scratch, &top));
    assert_ok(codec_section_open(&s.sections[1], NULL, &rest));
    for (size_t i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)top[i] << 24 | (uint32_t)rest[i] << 16 |
                        (uint32_t)rest[N + i] << 8 | rest[2 * N + i];
        bits = bits >> 1 | bits << 31;
        assert_memory_equal(&bits, &x[i], 4);
    }
}

PL_TEST(bf16_update_is_rounded_to_nearest)
{
    enum { N = 9001 };
    static float x[N];
    fill_values(x, N, 3);
    for (int entropy = 0; entropy < 2; entropy++) {
        pl_codec_options o = options_of("bf16");
        o.entropy = entropy;
        OWNED(free_memory) float *sum = sent_update(&o, NULL, x, N, NULL);
        for (size_t i = 0; i < N; i++)
            assert_true(sum[i] == pl_bf16_to_float(pl_bf16_from_float(x[i])) &&
                        fabsf(sum[i] - x[i]) <= fabsf(x[i]) / 256.0f);
    }
}

/* ---- low bits ---- */
PL_TEST(codes_err_by_at_most_half_a_step)
{
    enum { N = 10000 };
    static float x[N];
    static const struct {
        const char *name;
        size_t block;
        float levels, rounding;
    } cases[] = {{"i8", 256, 127, 1.0f}, {"i4", 64, 7, 1.0f + 1.0f / 128}};
    fill_values(x, N, 4);
    for (size_t i = 0; i < N; i++)
        x[i] *= i / 256 % 3 == 0 ? 1.0f : i / 256 % 3 == 1 ? 1e6f : 1e-30f;
    memset(x + 512, 0, 256 * sizeof *x);
    for (int c = 0; c < 2; c++) {
        pl_codec_options o = options_of(cases[c].name);
        OWNED(free_memory) float *sum = sent_update(&o, NULL, x, N, NULL);
        for (size_t b = 0; b < N; b += cases[c].block) {
            size_t end = b + cases[c].block < N ? b + cases[c].block : N;
            float top = 0;
            for (size_t i = b; i < end; i++)
                top = fmaxf(top, fabsf(x[i]));
            float step = top / cases[c].levels * cases[c].rounding;
            for (size_t i = b; i < end; i++)
                assert_true(fabsf(sum[i] - x[i]) <= 0.5f * step * (1 + 1e-4f));
        }
    }
}

static double relative_error(const char *name, const float *x, size_t n)
{
    double error = 0, whole = 0;
    pl_codec_options o = options_of(name);
    OWNED(free_memory) float *sum = sent_update(&o, NULL, x, n, NULL);
    for (size_t i = 0; i < n; i++) {
        error += ((double)sum[i] - (double)x[i]) * ((double)sum[i] - (double)x[i]);
        whole += (double)x[i] * (double)x[i];
    }
    return sqrt(error / whole);
}

PL_TEST(gaussian_error_is_what_the_bits_allow)
{
    enum { N = 1 << 17 };
    static float x[N];
    fill_values(x, N, 5);
    assert_true(relative_error("i8", x, N) <= 0.008);
    assert_true(relative_error("i4", x, N) <= 0.115);
    assert_true(relative_error("bf16", x, N) <= 0.002);
}

PL_TEST(blocks_of_subnormals_and_extremes_do_not_overflow)
{
    enum { N = 512 };
    static float x[N];
    static const char *const names[] = {"i8", "i4", "topk"};
    for (size_t i = 0; i < N; i++)
        x[i] = i < 256 ? 1e-41f * (float)(i % 7) : (i % 2 ? FLT_MAX : -FLT_MAX) / 2;
    for (int c = 0; c < 3; c++) {
        OWNED(free_memory) float *left = zeros(N);
        pl_codec_options o = options_of(names[c]);
        OWNED(free_memory) float *sum = sent_update(&o, NULL, x, N, left);
        for (size_t i = 0; i < N; i++)
            assert_true(isfinite(sum[i]) && isfinite(left[i]));
        /* If the scale of a block would be subnormal, it is sent as 0, and the residual
         * keeps all values of the block. */
        for (size_t i = 0; i < 256 && c < 2; i++)
            assert_true(sum[i] == 0 && left[i] == x[i]);
    }
}

/* ---- top k ---- */
static void check_top(const float *x, const float *sent, size_t n, size_t k)
{
    float least = INFINITY, most = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        float m = fabsf(x[i]);
        kept += sent[i] != 0;
        least = sent[i] != 0 && m < least ? m : least;
        most = sent[i] == 0 && m > most ? m : most;
    }
    assert_int_equal(kept, k);
    assert_true(least >= most);
}

PL_TEST(topk_keeps_the_largest_of_every_chunk)
{
    enum { N = 3 * 4096 + 1000 };
    static float x[N];
    fill_values(x, N, 6);
    for (int bits = 2; bits <= 8; bits += 6) {
        pl_codec_options o = options_of("topk");
        o.value_bits = (uint8_t)bits;
        OWNED(free_memory) float *sum = sent_update(&o, NULL, x, N, NULL);
        for (size_t c = 0; c < 3; c++)
            check_top(x + c * 4096, sum + c * 4096, 4096, 64);
        check_top(x + 3 * 4096, sum + 3 * 4096, 1000, 16);
    }
}

PL_TEST(topk_prefers_the_lower_index_among_equals)
{
    enum { N = 4096 };
    static float x[N];
    pl_codec_options o = options_of("topk");
    for (size_t i = 0; i < N; i++)
        x[i] = i % 40 == 39 ? 2.0f : i % 2 ? 1.0f : -1.0f;
    o.k = 200; /* all 102 values of 2, then the first 98 values of 1 */
    OWNED(free_memory) float *sum = sent_update(&o, NULL, x, N, NULL);
    size_t ones = 0;
    for (size_t i = 0; i < N; i++) {
        bool kept = i % 40 == 39 || ones++ < 98;
        assert_true((sum[i] != 0) == kept);
    }
}

PL_TEST(topk_contracts_the_residual)
{
    enum { N = 1 << 15 };
    static float x[N];
    OWNED(free_memory) float *left = zeros(N);
    pl_codec_options o = options_of("topk");
    OWNED(pl_buf_destroy) pl_buf m = {0};
    fill_values(x, N, 7);
    encode_all(&o, NULL, x, N, left, &m);
    double before = pl_l2_norm(x, N), after = pl_l2_norm(left, N);
    assert_true(after * after <= (1 - 64.0 / 4096) * before * before);
}

/* The selector tagc must send at most k = 64 of 4096 values, and at least half as many.
 * This is tested with normal values and with values of a heavier tail. */
PL_TEST(selector_of_tagc_keeps_at_most_the_budget)
{
    enum { N = 1 << 16 };
    static float x[N];
    fill_values(x, N, 8);
    for (int heavy = 0; heavy < 2; heavy++) {
        float least = INFINITY, most = 0;
        size_t kept = 0;
        pl_codec_options o = options_of("sketch16");
        pl_codec_round round = round_of(1);
        for (size_t i = 0; heavy && i < N; i++)
            x[i] *= fabsf(x[i]) * 1e3f;
        o.selector = PL_SELECT_TAGC;
        OWNED(free_memory) float *sum = sent_update(&o, &round, x, N, NULL);
        for (size_t i = 0; i < N; i++) {
            kept += sum[i] != 0;
            least = sum[i] != 0 && fabsf(x[i]) < least ? fabsf(x[i]) : least;
            most = sum[i] == 0 && fabsf(x[i]) > most ? fabsf(x[i]) : most;
        }
        assert_in_range(kept, N / 128, N / 64);
        assert_true(least >= most); /* so all blocks have the same threshold */
    }
}

PL_TEST(threshold_of_equal_values_falls_back_to_the_exact_one)
{
    enum { N = 1 << 14 };
    static float x[N];
    pl_codec_options o = options_of("sketch16");
    pl_codec_round round = round_of(1);
    for (size_t i = 0; i < N; i++)
        x[i] = i % 3 ? 1.0f : -1.0f; /* equal magnitudes: no threshold separates them */
    o.selector = PL_SELECT_TAGC;
    OWNED(free_memory) float *sum = sent_update(&o, &round, x, N, NULL);
    for (size_t i = 0; i < N; i++)
        assert_true((sum[i] != 0) == (i < N / 64));
}

/* ---- error feedback: what was not sent is added to the next update ---- */
static void check_feedback(const char *name, int bits, double beta, bool shared)
{
    enum { N = 6000, ROUNDS = 20 };
    static float g[N], left[N];
    static double sent[N], wanted[N];
    pl_codec_options o = options_of(name);
    pl_codec_round round = round_of(4);
    float top = 0;
    o.beta = beta;
    o.value_bits = (uint8_t)bits;
    round.weight = shared ? 0.25f : 1.0f;
    memset(left, 0, sizeof left);
    memset(sent, 0, sizeof sent);
    memset(wanted, 0, sizeof wanted);
    for (int t = 0; t < ROUNDS; t++) {
        fill_values(g, N, 100 + (uint64_t)t);
        OWNED(free_memory)
        float *sum = sent_update(&o, shared ? &round : NULL, g, N, left);
        for (size_t i = 0; i < N; i++) {
            sent[i] = beta * sent[i] + (double)sum[i];
            wanted[i] = beta * wanted[i] + (double)round.weight * (double)g[i];
            top = fmaxf(top, fabsf(left[i]) + fabsf(sum[i]));
        }
    }
    for (size_t i = 0; i < N; i++)
        assert_true(fabs(sent[i] - (wanted[i] - (double)left[i])) <=
                    ROUNDS * 1e-6 * (double)top);
}

PL_TEST(what_was_not_sent_stays_in_the_residual)
{
    static const char *const plain[] = {"bf16", "i8", "i4", "topk"};
    static const char *const shared[] = {"i8-shared", "sketch16"};
    for (int b = 0; b < 2; b++) {
        double beta = b ? 0.9 : 1.0;
        for (int c = 0; c < 4; c++)
            check_feedback(plain[c], 8, beta, false);
        check_feedback("topk", 2, beta, false);
        for (int c = 0; c < 2; c++)
            check_feedback(shared[c], 8, beta, true);
    }
}

PL_TEST(refused_update_goes_back_into_the_residual)
{
    enum { N = 5000 };
    static float g[N], left[N], before[N];
    pl_codec_options o = options_of("i4");
    OWNED(pl_buf_destroy) pl_buf m = {0};
    fill_values(g, N, 9);
    fill_values(left, N, 10);
    memcpy(before, left, sizeof left);
    encode_all(&o, NULL, g, N, left, &m);
    add_ok(&m, N, 1.0f, left); /* new residual + decoded message = a */
    for (size_t i = 0; i < N; i++) {
        float a = g[i] + before[i];
        assert_true(fabsf(left[i] - a) <= fabsf(a) * 0x1p-23f + 1e-9f);
    }
}

/* ---- the same bytes ---- */
PL_TEST(equal_input_gives_equal_bytes)
{
    enum { N = 20000 };
    static float x[N];
    static const char *const names[] = {"f32",  "bf16",     "i8",        "i4",
                                        "topk", "sketch16", "i8-shared", "tagc"};
    pl_codec_round round = round_of(3);
    fill_values(x, N, 11);
    for (int c = 0; c < 8; c++) {
        pl_codec_options o = options_of(names[c]);
        OWNED(pl_buf_destroy) pl_buf a = {0}, b = {0};
        pl_buf_append(&b, "head", 4);
        encode_all(&o, &round, x, N, NULL, &a);
        encode_all(&o, &round, x, N, NULL, &b);
        assert_int_equal(a.len + 4, b.len);
        assert_memory_equal(a.data, b.data + 4, a.len);
    }
}

PL_TEST(messages_have_the_bytes_of_every_machine)
{
    enum { N = 10007 };
    static float x[N], left[N];
    static const struct {
        const char *name;
        uint8_t selector;
        uint64_t message, residual;
    } golden[] = {
        {"f32", PL_SELECT_EXACT, 0xeee228f48e485362u, 0x60ffd217efc69cc0u},
        {"bf16", PL_SELECT_EXACT, 0xc7f71c57752ef589u, 0x1eee70887f5aecbau},
        {"i8", PL_SELECT_EXACT, 0x2e74ee4e1a59f5e2u, 0x15f87a9b03692a72u},
        {"i4", PL_SELECT_EXACT, 0xde227b58db754f8cu, 0x319f262410763aa5u},
        {"topk", PL_SELECT_EXACT, 0x866a6a972b95977bu, 0x9d6f5d3ee9b1b83eu},
        {"sketch16", PL_SELECT_EXACT, 0xd07acc850cb745aau, 0x38fca433e4e07300u},
        {"sketch16", PL_SELECT_TAGC, 0x156df961afc87b4fu, 0x89e9873b723a35c3u},
        {"i8-shared", PL_SELECT_EXACT, 0x372b5a9512c77e17u, 0x2732d90b747953feu},
    };
    pl_codec_round round = round_of(3);
    round.weight = 0.37f;
    for (size_t c = 0; c < sizeof golden / sizeof *golden; c++) {
        pl_codec_options o = options_of(golden[c].name);
        OWNED(pl_buf_destroy) pl_buf m = {0};
        o.entropy = false; /* the bytes of zstd depend on its version */
        o.selector = golden[c].selector;
        o.beta = 0.9;
        fill_values(x, N, 12);
        fill_values(left, N, 13);
        encode_all(&o, &round, x, N, left, &m);
        assert_true(pl_checksum(m.data, m.len) == golden[c].message);
        assert_true(pl_checksum(left, sizeof left) == golden[c].residual);
    }
}

PL_TEST(encoded_update_has_the_documented_bytes)
{
    const float x[] = {1.0f, -2.0f};
    uint8_t bytes[128];
    pl_codec_options o = options_of("f32");
    OWNED(pl_buf_destroy) pl_buf m = {0};
    const uint8_t table[] = {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
                             0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                             8, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0};
    const uint8_t head[] = {'P', 'L', 'U', '2', 0, 0, 0, 0, 2,  0, 0, 0, 0, 0,
                            0,   0,   1,   0,   0, 0, 1, 0, 0,  0, 0, 0, 0, 0,
                            0,   0,   0,   0,   0, 0, 0, 0, 56, 0, 0, 0, 8, 0,
                            0,   0,   0,   0,   0, 0, 0, 0, 0,  0, 0, 0, 0, 0};
    o.entropy = false;
    encode_all(&o, NULL, x, 2, NULL, &m);
    assert_true(m.len == sizeof bytes);
    memcpy(bytes, m.data, sizeof bytes);
    assert_memory_equal(bytes, head, sizeof head);
    assert_memory_equal(bytes + 64, table, sizeof table);
    assert_memory_equal(bytes + 120, x, 8);
    uint64_t checksum = pl_checksum(x, 8);
    assert_memory_equal(bytes + 112, &checksum, 8);
    memcpy(&checksum, bytes + 56, 8);
    memset(bytes + 56, 0, 8);
    assert_true(checksum == pl_checksum(bytes, 120));
}
