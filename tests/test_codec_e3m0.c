/* folder: outer; label: unit */
/* e3m0 against its definition, which is spelled out here in doubles. */
#include "tests/codec_support.h"

enum { BLOCK = 64, N_POINTS = 8 };
static const double points[N_POINTS] = {0, 0.25, 0.5, 1, 2, 4, 8, 16};

/* s of a block, 0 for one that counts as zero: 16 s is the power of two nearest to the
 * largest magnitude, the lower one half-way, and at most 2^127. */
static double scale_of(const float *x, size_t n)
{
    double top = 0;
    for (size_t i = 0; i < n; i++)
        top = fmax(top, fabs((double)x[i]));
    if (top <= ldexp(1.5, -120))
        return 0;
    int k = ilogb(top);
    k += top > ldexp(1.5, k);
    return ldexp(1, (k > 127 ? 127 : k) - 4);
}

/* The nearest point, of two that are equally far the one with the even code. */
static double nearest_point(double x, double s)
{
    int best = 0;
    for (int i = 1; i < N_POINTS; i++) {
        double there = fabs(fabs(x) - s * points[i]),
               here = fabs(fabs(x) - s * points[best]);
        if (there < here || (there == here && i % 2 == 0))
            best = i;
    }
    return copysign(s * points[best], x);
}

static void encode_plain(const float *x, size_t n, float *left, pl_buf *out)
{
    pl_codec_options o = options_of("e3m0");
    o.entropy = false;
    encode_all(&o, NULL, x, n, left, out);
}

static const uint8_t *scales_of(const pl_buf *m)
{
    return m->data + HEADER_BYTES + RECORD_BYTES + 2 * SECTION_BYTES;
}
static uint8_t *codes_of(pl_buf *m, size_t n)
{
    return m->data + HEADER_BYTES + RECORD_BYTES + 2 * SECTION_BYTES +
           (n + BLOCK - 1) / BLOCK;
}

/* There and back, with and without entropy coding, against the definition. */
static void check_values(const float *x, size_t n)
{
    for (int entropy = 0; entropy < 2; entropy++) {
        pl_codec_options o = options_of("e3m0");
        float *sum = zeros(n), *left = zeros(n);
        pl_buf m = {0};
        o.entropy = entropy;
        encode_all(&o, NULL, x, n, left, &m);
        add_ok(&m, n, 1.0f, sum);
        for (size_t b = 0; b < n; b += BLOCK) {
            size_t end = b + BLOCK < n ? b + BLOCK : n;
            double s = scale_of(x + b, end - b);
            for (size_t i = b; i < end; i++) {
                double want = nearest_point((double)x[i], s);
                assert_true((double)sum[i] == want);
                assert_true((double)left[i] == (double)x[i] - want);
            }
        }
        pl_buf_destroy(&m);
        pl_free(sum);
        pl_free(left);
    }
}

/* ---- values ---- */
static void fifteen_values_round_trip_on_every_scale(void **state)
{
    float x[BLOCK], sum[BLOCK], left[BLOCK];
    (void)state;
    for (int k = -119; k <= 127; k++) { /* of the largest */
        pl_buf m = {0};
        double norm;
        memset(x, 0, sizeof x);
        memset(sum, 0, sizeof sum);
        memset(left, 0, sizeof left);
        for (int i = 0; i < 15; i++) /* far apart, so in different halves of bytes */
            x[i * 29 % BLOCK] =
                (float)ldexp(points[i < 8 ? i : i - 7], k - 4) * (i < 8 ? 1.0f : -1.0f);
        encode_plain(x, BLOCK, left, &m);
        assert_int_equal(scales_of(&m)[0], k + 127 - 6);
        assert_int_equal(pl_codec_add(m.data, m.len, BLOCK, 1, sum, &norm), PL_OK);
        for (int i = 0; i < BLOCK; i++)
            assert_true(sum[i] == x[i] && left[i] == 0);
        pl_buf_destroy(&m);
    }
}

static void every_value_goes_to_the_nearest_point(void **state)
{
    enum { N = 64 * BLOCK };
    static float x[N];
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        fill(x, N, seed);
        for (size_t i = 0; i < N; i++) /* all magnitudes, seven blocks for each scale */
            x[i] = ldexpf(x[i], (int)(i / BLOCK / 7 * 26) - 110 - (int)(i % 11));
        check_values(x, N);
    }
    fill(x, N, 9);
    for (size_t n = 1; n <= 3 * BLOCK; n++)
        check_values(x, n);
    check_values(x, N - 1);
}

/* Every middle between two points and both of its neighbours, of both signs. */
static void half_way_the_even_code_wins(void **state)
{
    float x[2 * BLOCK] = {0};
    size_t n = 0;
    (void)state;
    for (int i = 0; i + 1 < N_POINTS; i++) {
        float middle = (float)(points[i] + points[i + 1]) / 2;
        const float all[] = {middle, nextafterf(middle, 0), nextafterf(middle, 99)};
        for (int j = 0; j < 3; j++) {
            x[n++] = all[j];
            x[BLOCK + n] = -all[j];
        }
    }
    for (int k = -115; k <= 123; k += 17) {
        float scaled[2 * BLOCK], sum[2 * BLOCK] = {0};
        pl_buf m = {0};
        double norm;
        x[63] = 16;
        x[64] = -16;
        for (int i = 0; i < 2 * BLOCK; i++)
            scaled[i] = ldexpf(x[i], k);
        check_values(scaled, 2 * BLOCK);
        encode_plain(scaled, 2 * BLOCK, NULL, &m);
        assert_int_equal(pl_codec_add(m.data, m.len, 2 * BLOCK, 1, sum, &norm), PL_OK);
        const double firsts[] = {0, 0.5, 0.5, 2, 2, 8, 8}; /* of the middles */
        for (int i = 0; i < 7; i++)
            assert_true((double)sum[3 * i] == ldexp(firsts[i], k));
        pl_buf_destroy(&m);
    }
}

static void the_largest_value_sets_the_power_of_two(void **state)
{
    static const struct {
        float top;
        int field; /* of the smallest step: that of 16 s less six */
    } rows[] = {{16.0f, 131 - 6}, {23.9f, 131 - 6}, {24.0f, 131 - 6}, {24.1f, 132 - 6},
                {31.9f, 132 - 6}, {12.1f, 131 - 6}, {12.0f, 130 - 6}};
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int at = 0; at < BLOCK; at += 9) {
            float x[BLOCK] = {0}, sum[BLOCK] = {0};
            pl_buf m = {0};
            double norm;
            x[at] = at % 2 ? rows[r].top : -rows[r].top;
            encode_plain(x, BLOCK, NULL, &m);
            assert_int_equal(scales_of(&m)[0], rows[r].field);
            assert_int_equal(pl_codec_add(m.data, m.len, BLOCK, 1, sum, &norm), PL_OK);
            assert_true(fabs((double)sum[at]) == ldexp(1, rows[r].field - 127 + 6));
            pl_buf_destroy(&m);
        }
}

static void zeros_subnormals_and_extremes_have_their_place(void **state)
{
    enum { N = 6 * BLOCK };
    float x[N] = {0};
    pl_buf m = {0};
    (void)state;
    for (int i = 0; i < BLOCK; i++) {
        x[BLOCK + i] = 1e-45f * (float)(i % 5); /* subnormals alone */
        x[2 * BLOCK + i] = ldexpf(1.5f, -120) * (i % 2 ? 1.0f : -1.0f);
        x[3 * BLOCK + i] = nextafterf(ldexpf(1.5f, -120), 1) * (i % 2 ? 1.0f : 0.01f);
        x[4 * BLOCK + i] = i % 2 ? FLT_MAX : 1e-45f * (float)i;
        x[5 * BLOCK + i] = i % 3 ? -0.0f : FLT_MIN;
    }
    check_values(x, N);
    encode_plain(x, N, NULL, &m);
    const uint8_t scales[] = {0, 0, 0, 2, 248, 0};
    assert_memory_equal(scales_of(&m), scales, 6);
    for (int i = 0; i < 3 * BLOCK / 2; i++) /* nothing, and without a sign */
        assert_int_equal(codes_of(&m, N)[i], 0);
    pl_buf_destroy(&m);
}

static void what_is_not_finite_is_refused_wherever_it_stands(void **state)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    enum { N = 4096 + 70 };
    static float x[N], left[N];
    const pl_codec_part part = {0, N, PL_ROLE_MLP};
    pl_codec_options o = options_of("e3m0");
    pl_buf m = {0};
    (void)state;
    for (int i = 0; i < N; i += i < 130 ? 1 : 97)
        for (int b = 0; b < 3; b++) {
            fill(x, N, 1);
            memset(left, 0, sizeof left);
            *(b == 1 ? &left[i] : &x[i]) = bad[b];
            assert_int_equal(pl_codec_encode_module(&o, &part, 1, NULL, x, left, &m),
                             PL_ERR_NUMERIC);
            assert_int_equal(m.len, 0);
        }
    pl_buf_destroy(&m);
}

/* ---- error feedback ---- */
/* Not within rounding: the difference to a neighbouring power of two is exact. */
static void sent_and_kept_add_up_to_the_last_bit(void **state)
{
    enum { N = 5000, ROUNDS = 30 };
    static float g[N], left[N], whole[N];
    pl_codec_options o = options_of("e3m0");
    (void)state;
    for (int b = 0; b < 2; b++) {
        o.beta = b ? 0.75 : 1.0;
        memset(left, 0, sizeof left);
        for (uint64_t t = 0; t < ROUNDS; t++) {
            float *sum = zeros(N);
            pl_buf m = {0};
            fill(g, N, 50 + t);
            for (int i = 0; i < N; i++)
                whole[i] = g[i] + (float)o.beta * left[i];
            encode_all(&o, NULL, g, N, left, &m);
            add_ok(&m, N, 1.0f, sum);
            for (int i = 0; i < N; i++) {
                assert_true(sum[i] + left[i] == whole[i]);
                assert_true((double)sum[i] + (double)left[i] == (double)whole[i]);
            }
            pl_buf_destroy(&m);
            pl_free(sum);
        }
    }
}

/* A value below the smallest step is sent once enough of it has been left out. */
static void small_values_arrive_later(void **state)
{
    float g[BLOCK], left[BLOCK] = {0}, sum[BLOCK] = {0};
    (void)state;
    for (int i = 0; i < BLOCK; i++)
        g[i] = i ? 1.0f / 1024 : 1.0f; /* an eighth of s is 1/128 */
    for (int t = 0; t < 256; t++) {
        pl_buf m = {0};
        encode_plain(g, BLOCK, left, &m);
        add_ok(&m, BLOCK, 1.0f, sum);
        assert_true(t >= 8 || sum[1] == 0);
        pl_buf_destroy(&m);
    }
    for (int i = 1; i < BLOCK; i++)
        assert_true(fabsf(sum[i] - 0.25f) <= 1.0f / 64);
}

/* ---- bytes ---- */
static void message_has_the_documented_bytes(void **state)
{
    enum { N = 70 };
    float x[N] = {0};
    pl_buf m = {0};
    uint8_t codes[3 * 16] = {0};
    (void)state;
    x[0] = 16;   /* 7 */
    x[16] = -16; /* 15, with the one above in one byte */
    x[17] = 1;   /* 3 */
    x[33] = 0.25f;
    x[48] = -0.5f;
    x[49] = -0.1f; /* nearer to 0, which has no sign */
    x[64] = -64;
    x[69] = 2;
    codes[0] = 7 | 15 << 4;
    codes[1] = 3 << 4;
    codes[16 + 1] = 1;
    codes[16] = 10 << 4;
    codes[32] = 15;
    codes[37] = 2;
    encode_plain(x, N, NULL, &m);
    const uint8_t scales[] = {127 - 2, 127};
    assert_int_equal(m.len,
                     HEADER_BYTES + RECORD_BYTES + 2 * SECTION_BYTES + 2 + 3 * 16);
    assert_int_equal(m.data[HEADER_BYTES], 10);
    assert_memory_equal(scales_of(&m), scales, 2);
    assert_memory_equal(codes_of(&m, N), codes, sizeof codes);
    pl_buf_destroy(&m);
}

static void seal(pl_buf *m)
{
    uint64_t wire, checksum, at = 64 + 32 + 48;
    for (size_t s = 0; s < 2; s++) {
        uint8_t *entry = m->data + 64 + 32 + s * 24;
        memcpy(&wire, entry + 8, 8);
        checksum = pl_checksum(m->data + at, (size_t)wire);
        memcpy(entry + 16, &checksum, 8);
        at += wire;
    }
    memset(m->data + 56, 0, 8);
    checksum = pl_checksum(m->data, 64 + 32 + 48);
    memcpy(m->data + 56, &checksum, 8);
}

/* What no encoder sends: minus zero is zero, and no scale gives what is not finite. */
static void scales_and_codes_of_a_forger_do_no_harm(void **state)
{
    float x[BLOCK] = {0}, sum[BLOCK];
    pl_buf m = {0};
    double norm;
    (void)state;
    x[0] = 1;
    encode_plain(x, BLOCK, NULL, &m);
    uint8_t *scale = codes_of(&m, BLOCK) - 1, *codes = codes_of(&m, BLOCK);
    for (int field = 0; field < 256; field++)
        for (uint8_t code = 0; code < 16; code++) {
            memset(sum, 0, sizeof sum);
            memset(codes, code | code << 4, BLOCK / 2);
            *scale = (uint8_t)field;
            seal(&m);
            double want =
                field ? ldexp((code & 7) ? ldexp(1, (code & 7) - 1) : 0, field - 127)
                      : 0;
            bool fits = field < 255 && want <= (double)FLT_MAX;
            assert_int_equal(pl_codec_add(m.data, m.len, BLOCK, 1, sum, &norm),
                             fits ? PL_OK : PL_ERR_NUMERIC);
            for (int i = 0; fits && i < BLOCK; i++)
                assert_true((double)sum[i] == (code & 8 ? -want : want));
        }
    pl_buf_destroy(&m);
}

/* ---- beside others ---- */
static void messages_are_not_added_without_decoding(void **state)
{
    enum { N = 100 };
    float x[N];
    pl_codec_options o = options_of("e3m0");
    pl_codec_info info;
    pl_buf m = {0}, both = {0};
    (void)state;
    fill(x, N, 3);
    encode_all(&o, NULL, x, N, NULL, &m);
    assert_int_equal(pl_codec_inspect(m.data, m.len, N, &info), PL_OK);
    assert_false(info.homomorphic);
    assert_int_equal(pl_codec_combine(m.data, m.len, m.data, m.len, &both),
                     PL_ERR_UNSUPPORTED);
    o.codec[PL_ROLE_HEAD] = PL_CODEC_SKETCH16;
    assert_int_equal(pl_codec_options_check(&o), PL_ERR_CONFIG);
    assert_non_null(strstr(pl_last_error(), "e3m0"));
    pl_buf_destroy(&m);
    pl_buf_destroy(&both);
}

static double relative_error(const char *name, const float *x, size_t n)
{
    float *sum = zeros(n);
    double error = 0;
    pl_codec_options o = options_of(name);
    pl_buf m = {0};
    encode_all(&o, NULL, x, n, NULL, &m);
    add_ok(&m, n, 1.0f, sum);
    for (size_t i = 0; i < n; i++)
        error += ((double)sum[i] - (double)x[i]) * ((double)sum[i] - (double)x[i]);
    pl_buf_destroy(&m);
    pl_free(sum);
    return sqrt(error) / pl_l2_norm(x, n);
}

/* Where values of a block differ by much, i4 has nothing for the small ones. */
static void error_is_that_of_a_value_and_not_of_its_block(void **state)
{
    enum { N = 1 << 16 };
    static float x[N];
    (void)state;
    fill(x, N, 5);
    assert_true(relative_error("e3m0", x, N) <= 0.2);
    for (size_t i = 0; i < N; i += 64) /* what is large is a point of both */
        x[i] = 0.03125f;
    double i4 = relative_error("i4", x, N), e3m0 = relative_error("e3m0", x, N);
    assert_true(4 * e3m0 < i4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifteen_values_round_trip_on_every_scale),
        cmocka_unit_test(every_value_goes_to_the_nearest_point),
        cmocka_unit_test(half_way_the_even_code_wins),
        cmocka_unit_test(the_largest_value_sets_the_power_of_two),
        cmocka_unit_test(zeros_subnormals_and_extremes_have_their_place),
        cmocka_unit_test(what_is_not_finite_is_refused_wherever_it_stands),
        cmocka_unit_test(sent_and_kept_add_up_to_the_last_bit),
        cmocka_unit_test(small_values_arrive_later),
        cmocka_unit_test(message_has_the_documented_bytes),
        cmocka_unit_test(scales_and_codes_of_a_forger_do_no_harm),
        cmocka_unit_test(messages_are_not_added_without_decoding),
        cmocka_unit_test(error_is_that_of_a_value_and_not_of_its_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
