/* folder: outer; label: unit */
/* Codecs on a device give the CPU's bytes: messages, residuals, sums and norms. */
#include "tests/accel_support.h"

/* ---- one update through one codec, on both ---- */

typedef struct trip {
    pl_codec_options options;
    const pl_codec_round *round;
    const pl_codec_part *parts;
    int n_parts;
    const float *update;
    size_t n;
    bool keeps; /* a residual */
} trip;

typedef struct result {
    pl_buf message;
    float *residual, *sum;
    double norm;
    pl_status status;
} result;

static void result_free(result *r)
{
    pl_buf_destroy(&r->message);
    pl_free(r->residual);
    pl_free(r->sum);
}

static result start_of(const trip *t)
{
    result r = {.residual = zeros(t->n), .sum = zeros(t->n)};
    fill_odd(r.residual, t->n, 91);
    fill_odd(r.sum, t->n, 92);
    return r;
}

static void go_here(const trip *t, result *r)
{
    r->status =
        pl_codec_encode_module(&t->options, t->parts, t->n_parts, t->round, t->update,
                               t->keeps ? r->residual : NULL, &r->message);
    if (r->status == PL_OK)
        r->status =
            pl_codec_add(r->message.data, r->message.len, t->n, 0.4f, r->sum, &r->norm);
}

static void go_there(const trip *t, result *r)
{
    size_t bytes = t->n * sizeof(float);
    float *update = to_device(t->update, bytes), *sum = to_device(r->sum, bytes);
    float *residual = to_device(r->residual, bytes);
    r->status =
        pl_accel_encode_module(rig.accel, &t->options, t->parts, t->n_parts, t->round,
                               update, t->keeps ? residual : NULL, &r->message);
    if (r->status == PL_OK)
        r->status = pl_accel_add(rig.accel, r->message.data, r->message.len, t->n, 0.4f,
                                 sum, &r->norm);
    from_device(r->residual, residual, bytes);
    from_device(r->sum, sum, bytes);
    pl_accel_free(rig.accel, update);
}

static void check_trip(const trip *t)
{
    result cpu = start_of(t);
    go_here(t, &cpu);
    ok(cpu.status);
    for (int order = 0; order < EMULATION_ORDERS; order++) {
        result there = start_of(t);
        emulation_set_order((emulation_order)order, 17);
        go_there(t, &there);
        ok(there.status);
        assert_int_equal(cpu.message.len, there.message.len);
        assert_memory_equal(cpu.message.data, there.message.data, cpu.message.len);
        assert_same_floats(cpu.residual, there.residual, t->n);
        assert_same_floats(cpu.sum, there.sum, t->n);
        assert_true(cpu.norm == there.norm);
        result_free(&there);
    }
    result_free(&cpu);
}

static void check_codec(const char *name, int value_bits, bool entropy, const float *x,
                        size_t n)
{
    pl_codec_round round = round_of(4);
    pl_codec_part part = {0, n, PL_ROLE_MLP};
    trip t = {.options = options_of(name),
              .round = &round,
              .parts = &part,
              .n_parts = 1,
              .update = x,
              .n = n};
    round.weight = 0.3f;
    t.options.entropy = entropy;
    t.options.value_bits = (uint8_t)value_bits;
    check_trip(&t);
    t.keeps = true;
    check_trip(&t);
}

/* Ends within a tile, a block, a group of i4, and at each of them. */
static const size_t sizes[] = {1, 31, 33, 64, 255, 257, 4096, 4097, 9001};
enum { N_SIZES = sizeof sizes / sizeof *sizes, N_MOST = 9001 };

static void check_sizes(const char *name, int value_bits)
{
    float *x = zeros(N_MOST);
    need_device();
    fill_odd(x, N_MOST, 5);
    for (int i = 0; i < N_SIZES; i++)
        check_codec(name, value_bits, i % 2, x, sizes[i]);
    check_codec(name, value_bits, true, x, N_MOST - 1);
    pl_free(x);
}

static void f32_gives_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    check_sizes("f32", 2);
}

static void bf16_gives_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    check_sizes("bf16", 2);
}

static void i8_gives_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    check_sizes("i8", 2);
}

static void i4_gives_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    check_sizes("i4", 2);
}

static void e3m0_gives_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    check_sizes("e3m0", 2);
}

static void i8_shared_gives_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    check_sizes("i8-shared", 2);
}

static void topk_of_8_bits_gives_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    check_sizes("topk", 8);
}

static void topk_of_2_bits_gives_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    check_sizes("topk", 2);
}

static void sketch16_gives_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    check_sizes("sketch16", 2);
}

/* Scales that would be subnormal, and those just above. */
static void tiny_blocks_have_the_scales_of_the_cpu(void **state)
{
    static const char *const names[] = {"i8", "i4", "topk", "e3m0"};
    enum { SIZE = 1024 };
    float x[SIZE];
    (void)state;
    need_device();
    for (int i = 0; i < SIZE; i++)
        x[i] = ldexpf(1.0f + (float)(i % 13) / 16.0f, -140 + i / 32) *
               (i % 3 ? 1.0f : -1.0f);
    for (int i = 0; i < 4; i++)
        check_codec(names[i], 8, false, x, SIZE);
    for (int i = 0; i < SIZE; i++)
        x[i] = 1e-39f * (float)(i % 7);
    for (int i = 0; i < 4; i++)
        check_codec(names[i], 8, false, x, SIZE);
}

/* Points and the middles between them, with their neighbours, from the smallest scale
 * to where floats end. */
static void e3m0_rounds_as_on_the_cpu(void **state)
{
    enum { SIZE = 8192 };
    float *x = zeros(SIZE);
    (void)state;
    need_device();
    for (int i = 0; i < SIZE; i++) {
        int power = i / 32 - 123 - i % 8;
        float at = ldexpf(i % 3 ? 1.5f : 1.0f, power > 127 ? 127 : power);
        x[i] = i % 5 == 0 ? at : nextafterf(at, i % 5 < 3 ? 0.0f : FLT_MAX);
        x[i] = i % 7 < 3 ? -x[i] : x[i];
    }
    check_codec("e3m0", 8, false, x, SIZE);
    check_codec("e3m0", 8, true, x, SIZE - 5);
    pl_free(x);
}

/* ---- what is special about topk ---- */

static void check_topk(const float *x, size_t n, int k, int bits)
{
    pl_codec_part part = {0, n, PL_ROLE_MLP};
    trip t = {.options = options_of("topk"),
              .parts = &part,
              .n_parts = 1,
              .update = x,
              .n = n};
    t.options.k = k;
    t.options.value_bits = (uint8_t)bits;
    check_trip(&t);
}

/* A few magnitudes only: the threshold falls between equals, of either sign. */
static void ties_go_to_the_lower_index_there_too(void **state)
{
    float *x = zeros(9001);
    (void)state;
    need_device();
    for (size_t i = 0; i < 9001; i++)
        x[i] = (float)(int)(pl_random_u32(4, 4, i) % 5) - 2.0f;
    check_topk(x, 9001, 64, 8);
    check_topk(x, 9001, 1000, 2);
    for (size_t i = 0; i < 9001; i++)
        x[i] = i % 2 ? 1.0f : -1.0f;
    check_topk(x, 9001, 100, 8);
    pl_free(x);
}

/* Nothing kept of a tile, one value in several tiles, all of them. */
static void sparse_and_full_tiles_are_placed_as_on_the_cpu(void **state)
{
    size_t n = 4 * 4096 + 100;
    float *x = zeros(n);
    (void)state;
    need_device();
    check_topk(x, n, 64, 8);
    x[3] = 1.0f;
    x[4096 + 4000] = -1e-42f;
    x[3 * 4096 + 2] = 7.0f;
    check_topk(x, n, 64, 8);
    check_topk(x, n, 64, 2);
    fill(x, 4100, 3);
    check_topk(x, 4100, 4096, 8);
    check_topk(x, 4100, 4096, 2);
    check_topk(x, 4100, 1, 2);
    pl_free(x);
}

/* ---- one threshold for a whole stretch ---- */

static void check_selector(const char *codec, pl_selector selector, int bits, int k,
                           const float *x, size_t n)
{
    pl_codec_round round = round_of(3);
    pl_codec_part part = {0, n, PL_ROLE_MLP};
    trip t = {.options = options_of(codec),
              .round = &round,
              .parts = &part,
              .n_parts = 1,
              .update = x,
              .n = n,
              .keeps = true};
    round.weight = 0.4f;
    t.options.selector = (uint8_t)selector;
    t.options.value_bits = (uint8_t)bits;
    t.options.k = k;
    check_trip(&t);
    t.keeps = false;
    check_trip(&t);
}

/* Laplace-like, so that SIDCo's fit holds; then what neither threshold fits: values of
 * a few magnitudes, most of them zero, whose exact threshold has ties. */
static void estimated_thresholds_are_the_cpus(void **state)
{
    enum { SIZE = 9001 };
    static const char *const codecs[] = {"topk", "sketch16"};
    float *x = zeros(SIZE), *few = zeros(SIZE);
    (void)state;
    need_device();
    fill(x, SIZE, 8);
    for (size_t i = 0; i < SIZE; i++) {
        x[i] = x[i] * fabsf(x[i]) * 0.01f;
        few[i] = i % 7 ? 0.0f : ldexpf((float)(int)(i % 5) - 2.0f, -9);
    }
    for (int c = 0; c < 2; c++)
        for (int s = PL_SELECT_SIDCO; s <= PL_SELECT_TAGC; s++) {
            check_selector(codecs[c], (pl_selector)s, 8, 64, x, SIZE);
            check_selector(codecs[c], (pl_selector)s, 2, 300, x, 8192);
            check_selector(codecs[c], (pl_selector)s, 8, 100, few, SIZE);
        }
    pl_free(x);
    pl_free(few);
}

/* Kept unevenly: all of one tile, nothing of others. */
static void a_threshold_may_keep_a_whole_tile(void **state)
{
    size_t n = 3 * 4096 + 50;
    float *x = zeros(n);
    (void)state;
    need_device();
    fill(x, n, 21);
    for (size_t i = 0; i < n; i++)
        x[i] = i / 4096 == 1 ? x[i] + (x[i] < 0 ? -8.0f : 8.0f) : 1e-3f * x[i];
    for (int s = PL_SELECT_SIDCO; s <= PL_SELECT_TAGC; s++) {
        check_selector("topk", (pl_selector)s, 8, 1400, x, n);
        check_selector("topk", (pl_selector)s, 2, 1400, x, n);
        check_selector("sketch16", (pl_selector)s, 8, 1400, x, n);
    }
    pl_free(x);
}

/* ---- what is special about sketches ---- */

/* Two segments, and the end of a third. Forward only: it is long. */
static void sketches_of_several_segments_are_the_cpus(void **state)
{
    size_t n = 2 * (size_t)SEGMENT + 4500;
    pl_codec_round round = round_of(2);
    pl_codec_part part = {0, n, PL_ROLE_MLP};
    float *x = zeros(n);
    trip t = {.options = options_of("sketch16"),
              .round = &round,
              .parts = &part,
              .n_parts = 1,
              .update = x,
              .n = n};
    (void)state;
    need_device();
    fill(x, n, 12);
    t.options.k = 8;
    t.options.entropy = false;
    result cpu = start_of(&t), there = start_of(&t);
    go_here(&t, &cpu);
    ok(cpu.status);
    emulation_set_order(EMULATION_FORWARD, 1);
    go_there(&t, &there);
    ok(there.status);
    assert_int_equal(cpu.message.len, there.message.len);
    assert_memory_equal(cpu.message.data, there.message.data, cpu.message.len);
    assert_same_floats(cpu.sum, there.sum, n);
    assert_true(cpu.norm == there.norm);
    result_free(&cpu);
    result_free(&there);
    pl_free(x);
}

/* So few cells a key that some seeds do not peel: those go as lists. */
static void a_sketch_that_does_not_peel_is_a_list_there_too(void **state)
{
    enum { SIZE = 8192 };
    pl_codec_part part = {0, SIZE, PL_ROLE_MLP};
    pl_codec_round round = round_of(1);
    float *x = zeros(SIZE);
    int n_lists = 0;
    trip t = {.options = options_of("sketch16"),
              .round = &round,
              .parts = &part,
              .n_parts = 1,
              .update = x,
              .n = SIZE,
              .keeps = true};
    (void)state;
    need_device();
    fill(x, SIZE, 31);
    t.options.cells = 1.05;
    t.options.k = 512;
    for (round.seed = 1; round.seed <= 4; round.seed++) {
        result cpu = start_of(&t);
        go_here(&t, &cpu);
        ok(cpu.status);
        n_lists += cpu.message.data[HEADER_BYTES] == WIRE_LIST16;
        result_free(&cpu);
        check_trip(&t);
    }
    assert_true(n_lists > 0);
    pl_free(x);
}

/* More contributors than the cells were made for: nobody can peel their sum. */
static void a_sum_that_does_not_peel_is_refused_in_the_same_words(void **state)
{
    enum { SIZE = 8192 };
    pl_codec_options o = options_of("sketch16");
    pl_codec_round round = round_of(64);
    pl_buf sums[2] = {{0}, {0}}, one = {0};
    float *x = zeros(SIZE), *sum = zeros(SIZE);
    double norm = 0;
    char sentence[512];
    (void)state;
    need_device();
    o.k = 256;
    o.cells = 1.05;
    for (uint64_t i = 0; i < 40; i++) {
        pl_buf *from = &sums[i % 2], *to = &sums[1 - i % 2];
        fill(x, SIZE, 100 + i);
        pl_buf_clear(&one);
        encode_all(&o, &round, x, SIZE, NULL, &one);
        pl_buf_clear(to);
        if (i == 0)
            pl_buf_append(to, one.data, one.len);
        else
            ok(pl_codec_combine(from->data, from->len, one.data, one.len, to));
    }
    pl_status here = pl_codec_add(sums[0].data, sums[0].len, SIZE, 1, sum, &norm);
    assert_int_equal(here, PL_ERR_PEEL);
    snprintf(sentence, sizeof sentence, "%s", pl_last_error());
    float *there = to_device(sum, SIZE * sizeof *sum);
    assert_int_equal(
        pl_accel_add(rig.accel, sums[0].data, sums[0].len, SIZE, 1, there, &norm),
        PL_ERR_PEEL);
    assert_string_equal(sentence, pl_last_error());
    pl_accel_free(rig.accel, there);
    pl_buf_destroy(&one);
    pl_buf_destroy(&sums[0]);
    pl_buf_destroy(&sums[1]);
    pl_free(x);
    pl_free(sum);
}

/* ---- whole modules and sums ---- */

static void stretches_of_different_codecs_lie_in_one_message(void **state)
{
    pl_codec_part parts[] = {{0, 100, PL_ROLE_SMALL},
                             {100, 5000, PL_ROLE_MLP},
                             {5100, 4200, PL_ROLE_ATTENTION_IN},
                             {9300, 77, PL_ROLE_SMALL},
                             {9377, 5001, PL_ROLE_HEAD}};
    float *x = zeros(14378);
    trip t = {.parts = parts, .n_parts = 5, .update = x, .n = 14378, .keeps = true};
    (void)state;
    need_device();
    fill_odd(x, t.n, 9);
    ok(pl_codec_options_default("i4", &t.options));
    t.options.codec[PL_ROLE_ATTENTION_IN] = PL_CODEC_I8;
    t.options.codec[PL_ROLE_HEAD] = PL_CODEC_TOPK;
    check_trip(&t);
    t.options.entropy = true;
    check_trip(&t);
    pl_free(x);
}

/* Codes of 16 and of 32 bits, which only sums have. */
static void sums_of_many_are_added_as_on_the_cpu(void **state)
{
    enum { N = 5000 };
    pl_codec_options o = options_of("i8-shared");
    pl_codec_round round = round_of(300);
    pl_buf one = {0}, sums[2] = {{0}, {0}};
    float x[N], here[N] = {0}, back[N];
    double norm = 0, norm_there = 0;
    (void)state;
    need_device();
    fill(x, N, 4);
    encode_all(&o, &round, x, N, NULL, &one);
    pl_buf_append(&sums[0], one.data, one.len);
    for (int i = 0; i < 9; i++) { /* 2, 4 .. 256 contributors, and then one more */
        pl_buf *from = &sums[i % 2], *to = &sums[1 - i % 2];
        const pl_buf *other = i < 8 ? from : &one;
        pl_buf_clear(to);
        ok(pl_codec_combine(from->data, from->len, other->data, other->len, to));
        float *sum = to_device(here, sizeof here);
        ok(pl_codec_add(to->data, to->len, N, 1, here, &norm));
        ok(pl_accel_add(rig.accel, to->data, to->len, N, 1, sum, &norm_there));
        from_device(back, sum, sizeof back);
        assert_same_floats(here, back, N);
        assert_true(norm == norm_there);
    }
    pl_buf_destroy(&one);
    pl_buf_destroy(&sums[0]);
    pl_buf_destroy(&sums[1]);
}

/* ---- refusals ---- */

static void assert_both_refuse(const trip *t, pl_status status)
{
    char sentence[512];
    result cpu = start_of(t), there = start_of(t);
    go_here(t, &cpu);
    assert_int_equal(cpu.status, status);
    snprintf(sentence, sizeof sentence, "%s", pl_last_error());
    go_there(t, &there);
    assert_int_equal(there.status, status);
    assert_string_equal(sentence, pl_last_error());
    result_free(&cpu);
    result_free(&there);
}

static void what_is_not_finite_is_refused_in_the_same_words(void **state)
{
    static const char *const names[] = {"i8",   "i4",  "topk",     "i8-shared",
                                        "bf16", "f32", "sketch16", "e3m0"};
    static const float bad[] = {INFINITY, NAN};
    enum { N = 9001 };
    float x[N];
    pl_codec_round round = round_of(2);
    pl_codec_part part = {0, N, PL_ROLE_MLP};
    (void)state;
    need_device();
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        trip t = {.options = options_of(names[i / 2]),
                  .round = &round,
                  .parts = &part,
                  .n_parts = 1,
                  .update = x,
                  .n = N};
        fill(x, N, 3);
        x[4500] = bad[i % 2];
        x[9000] = bad[i % 2];
        assert_both_refuse(&t, PL_ERR_NUMERIC);
        t.options.selector = PL_SELECT_TAGC;
        assert_both_refuse(&t, PL_ERR_NUMERIC);
    }
}

/* A code beyond what its contributors give: a message with a good checksum. */
static void codes_beyond_their_limit_are_refused_in_the_same_words(void **state)
{
    enum { N = 9001 };
    pl_codec_round round = round_of(300);
    pl_codec_options o = options_of("i8-shared");
    pl_buf one = {0};
    float x[N], sum[N] = {0};
    double norm = 0;
    char sentence[512];
    (void)state;
    need_device();
    fill(x, N, 3);
    encode_all(&o, &round, x, N, NULL, &one);
    uint8_t *codes = one.data + HEADER_BYTES + RECORD_BYTES + SECTION_BYTES;
    uint8_t *table = one.data + HEADER_BYTES, zero[8] = {0};
    codes[5000] = 0x80; /* -128 */
    uint64_t checksum = pl_checksum(codes, N);
    memcpy(table + RECORD_BYTES + 16, &checksum, 8);
    const pl_piece pieces[] = {
        {one.data, 56}, {zero, 8}, {table, RECORD_BYTES + SECTION_BYTES}};
    checksum = pl_checksum_pieces(pieces, 3);
    memcpy(one.data + 56, &checksum, 8);
    assert_int_equal(pl_codec_add(one.data, one.len, N, 1, sum, &norm), PL_ERR_DATA);
    snprintf(sentence, sizeof sentence, "%s", pl_last_error());
    float *there = to_device(sum, sizeof sum);
    assert_int_equal(pl_accel_add(rig.accel, one.data, one.len, N, 1, there, &norm),
                     PL_ERR_DATA);
    assert_string_equal(sentence, pl_last_error());
    pl_accel_free(rig.accel, there);
    pl_buf_destroy(&one);
}

static void every_kernel_ran(void **state)
{
    (void)state;
    need_device();
    assert_all_ran(true);
    assert_null(emulation_take_finding());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(bf16_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(i8_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(i4_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(e3m0_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(i8_shared_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(topk_of_8_bits_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(topk_of_2_bits_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(sketch16_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(tiny_blocks_have_the_scales_of_the_cpu),
        cmocka_unit_test(e3m0_rounds_as_on_the_cpu),
        cmocka_unit_test(ties_go_to_the_lower_index_there_too),
        cmocka_unit_test(sparse_and_full_tiles_are_placed_as_on_the_cpu),
        cmocka_unit_test(estimated_thresholds_are_the_cpus),
        cmocka_unit_test(a_threshold_may_keep_a_whole_tile),
        cmocka_unit_test(sketches_of_several_segments_are_the_cpus),
        cmocka_unit_test(a_sketch_that_does_not_peel_is_a_list_there_too),
        cmocka_unit_test(a_sum_that_does_not_peel_is_refused_in_the_same_words),
        cmocka_unit_test(stretches_of_different_codecs_lie_in_one_message),
        cmocka_unit_test(sums_of_many_are_added_as_on_the_cpu),
        cmocka_unit_test(what_is_not_finite_is_refused_in_the_same_words),
        cmocka_unit_test(codes_beyond_their_limit_are_refused_in_the_same_words),
        cmocka_unit_test(every_kernel_ran),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
