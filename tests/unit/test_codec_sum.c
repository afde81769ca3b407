/* folder: outer; label: unit */
#include "tests/support/codec_support.h"

/* ---- messages of several contributors ---- */
enum { N = 70001, W_MAX = 16 };

typedef struct crowd {
    pl_codec_options options;
    pl_codec_round round;
    pl_buf messages[W_MAX];
    int n;
} crowd;

/* Fills x with normal values. Some values, at the same indices for every worker, are so
 * large that they are clamped. So the indices of the workers' largest values overlap in
 * part. */
static void fill_worker(float *x, size_t n, int worker)
{
    fill_values(x, n, 1000 + (uint64_t)worker);
    for (size_t i = 0; i < n; i += 97)
        x[i] = i % 2 ? 7.0f : -7.0f; /* clamped, always with the same sign */
    for (size_t i = 13; i < n; i += 53)
        /* Workers with odd and with even numbers have opposite signs. */
        x[i] = worker % 2 ? 9e-3f : -9e-3f;
}

static void gather(crowd *c, const char *name, int n)
{
    OWNED(free_memory) float *x = zeros(N);
    memset(c, 0, sizeof *c);
    c->options = options_of(name);
    c->round = round_of(n);
    c->n = n;
    for (int w = 0; w < n; w++) {
        c->round.weight = 1.0f / (float)(w + 2);
        fill_worker(x, N, w);
        encode_all(&c->options, &c->round, x, N, NULL, &c->messages[w]);
    }
}

static void disperse(crowd *c)
{
    for (int w = 0; w < c->n; w++)
        pl_buf_destroy(&c->messages[w]);
}

/* As a relay does, which does not know the module. */
static pl_status combine(const pl_buf *a, const pl_buf *b, pl_buf *out)
{
    uint64_t n;
    (void)pl_codec_claims_homomorphic(a->data, a->len, &n);
    return pl_codec_combine(a->data, a->len, b->data, b->len, (size_t)n, out);
}

/* Adds the message m to the combined messages `sum`. */
static void combine_into(pl_buf *sum, const pl_buf *m)
{
    pl_buf both = {0};
    assert_ok(combine(m, sum, &both));
    pl_buf_destroy(sum);
    *sum = both;
}

/* Combines the n messages order[0], order[1], ... as a binary tree. `cut` says after
 * how many messages each node is split in two. */
static void combine_tree(const crowd *c, const int *order, int n, int cut, pl_buf *out)
{
    OWNED(pl_buf_destroy) pl_buf left = {0}, right = {0};
    if (n == 1) {
        const pl_buf *m = &c->messages[order[0]];
        pl_buf_append(out, m->data, m->len);
        return;
    }
    int half = 1 + cut % (n - 1);
    combine_tree(c, order, half, cut / 2, &left);
    combine_tree(c, order + half, n - half, cut / 3, &right);
    assert_ok(combine(&left, &right, out));
}

static void shuffle(int *order, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++)
        order[i] = (int)pl_permute(seed, 3, (uint64_t)n, (uint64_t)i);
}

PL_TEST(sum_of_messages_is_the_sum_of_updates)
{
    static const char *const names[] = {"i8-shared", "sketch16", "tagc"};
    static const int sizes[] = {1, 2, 3, 8, 16};
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 5; k++) {
            OWNED(disperse) crowd all;
            OWNED(free_memory) float *apart = zeros(N);
            gather(&all, names[c], sizes[k]);
            for (int w = 0; w < all.n; w++)
                add_ok(&all.messages[w], N, 1.0f, apart);
            for (uint64_t seed = 0; seed < 3; seed++) {
                int order[W_MAX];
                OWNED(free_memory) float *together = zeros(N);
                OWNED(pl_buf_destroy) pl_buf sum = {0};
                shuffle(order, all.n, seed);
                combine_tree(&all, order, all.n, (int)(seed * 7 + 1), &sum);
                /* The weight 123 has no effect, because `sum` already contains the
                 * weights. */
                add_ok(&sum, N, 123.0f, together);
                assert_memory_equal(apart, together, N * sizeof *apart);
            }
        }
}

PL_TEST(small_tensors_of_such_a_message_are_exact_sums_too)
{
    enum { SMALL = 4095, LARGE = 9000 };
    static float x[SMALL + LARGE], apart[SMALL + LARGE], together[SMALL + LARGE];
    const pl_codec_part parts[] = {{0, SMALL, PL_ROLE_MLP},
                                   {SMALL, LARGE, PL_ROLE_MLP}};
    pl_codec_options o;
    pl_codec_round round = round_of(5);
    OWNED(pl_buf_destroy) pl_buf sum = {0};
    assert_ok(pl_codec_options_default("i8-shared", &o));
    for (int w = 0; w < 5; w++) {
        OWNED(pl_buf_destroy) pl_buf m = {0};
        fill_values(x, SMALL + LARGE, 50 + (uint64_t)w);
        assert_ok(pl_codec_encode_module(&o, parts, 2, &round, x, NULL, &m));
        add_ok(&m, SMALL + LARGE, 1.0f, apart);
        if (w == 0)
            pl_buf_append(&sum, m.data, m.len);
        else
            combine_into(&sum, &m);
        for (size_t i = 0; w == 0 && i < SMALL; i++)
            assert_true(fabsf(apart[i] - x[i]) <= 1e-3f / 1024);
    }
    add_ok(&sum, SMALL + LARGE, 1.0f, together);
    assert_memory_equal(apart, together, sizeof apart);
}

PL_TEST(equal_messages_combine_to_equal_bytes_in_any_order)
{
    OWNED(disperse) crowd c;
    OWNED(pl_buf_destroy) pl_buf a = {0}, b = {0}, x = {0}, y = {0};
    gather(&c, "sketch16", 3);
    assert_ok(combine(&c.messages[0], &c.messages[1], &a));
    assert_ok(combine(&a, &c.messages[2], &x));
    assert_ok(combine(&c.messages[2], &c.messages[1], &b));
    assert_ok(combine(&b, &c.messages[0], &y));
    assert_same_bytes(x, y);
}

/* ---- sums that cannot be decoded ---- */
/* Makes messages with so few cells that each message alone can be decoded, but the sum
 * of all cannot. */
static void overload(crowd *c, const char *name)
{
    OWNED(free_memory) float *x = zeros(N);
    memset(c, 0, sizeof *c);
    c->options = options_of(name);
    c->options.k = 1024;
    c->options.cells = 1.05;
    c->round = round_of(W_MAX);
    c->n = W_MAX;
    for (int w = 0; w < c->n; w++) {
        fill_values(x, N, 2000 + (uint64_t)w);
        encode_all(&c->options, &c->round, x, N, NULL, &c->messages[w]);
    }
}

PL_TEST(overloaded_sketch_fails_to_peel_and_gives_no_estimate)
{
    OWNED(disperse) crowd c;
    OWNED(free_memory) float *sum = zeros(N), *zero = zeros(N);
    double norm = 1;
    OWNED(pl_buf_destroy) pl_buf a = {0};
    overload(&c, "sketch16");
    pl_buf_append(&a, c.messages[0].data, c.messages[0].len);
    for (int w = 1; w < c.n; w++)
        combine_into(&a, &c.messages[w]);
    assert_fails(pl_codec_add(a.data, a.len, N, 1, sum, &norm), PL_ERR_PEEL,
                 "cannot be decoded");
    assert_memory_equal(sum, zero, N * sizeof *sum);
}

static void list_all(const crowd *c, const int *order, pl_codec_message *out)
{
    for (int w = 0; w < c->n; w++)
        out[w] =
            (pl_codec_message){c->messages[order[w]].data, c->messages[order[w]].len};
}

static pl_status add_list(const pl_codec_message *messages, int n, float *sum)
{
    pl_codec_list list = {messages, NULL, n, 0};
    const pl_codec_source source = pl_codec_source_of(&list);
    return pl_codec_add_all(&source, N, sum);
}

PL_TEST(adding_all_is_exact_whether_or_not_the_sum_peels)
{
    for (int overloaded = 0; overloaded < 2; overloaded++) {
        OWNED(disperse) crowd c;
        pl_codec_message messages[W_MAX];
        int order[W_MAX];
        OWNED(free_memory) float *apart = zeros(N);
        if (overloaded)
            overload(&c, "sketch16");
        else
            gather(&c, "sketch16", 6);
        for (int w = 0; w < c.n; w++)
            add_ok(&c.messages[w], N, 1.0f, apart);
        for (uint64_t seed = 0; seed < 3; seed++) {
            OWNED(free_memory) float *sum = zeros(N);
            shuffle(order, c.n, seed);
            list_all(&c, order, messages);
            assert_ok(add_list(messages, c.n, sum));
            assert_memory_equal(sum, apart, N * sizeof *sum);
        }
    }
}

/* Homes refuse such messages, but the store of an older home may have them. */
PL_TEST(messages_of_different_layouts_are_added_one_by_one)
{
    OWNED(disperse) crowd c;
    OWNED(free_memory) float *x = zeros(N), *sum = zeros(N), *apart = zeros(N);
    pl_codec_message messages[W_MAX];
    const int order[] = {0, 1};
    const pl_codec_part parts[] = {{0, N / 2, PL_ROLE_MLP},
                                   {N / 2, N - N / 2, PL_ROLE_SMALL}};
    gather(&c, "i8-shared", 2);
    fill_worker(x, N, 1);
    c.messages[1].len = 0;
    assert_ok(pl_codec_encode_module(&c.options, parts, 2, &c.round, x, NULL,
                                     &c.messages[1]));
    for (int w = 0; w < 2; w++)
        add_ok(&c.messages[w], N, 1.0f, apart);
    list_all(&c, order, messages);
    assert_ok(add_list(messages, 2, sum));
    assert_memory_equal(sum, apart, N * sizeof *sum);
}

/* If an encoder cannot decode its own sketch, it sends a list instead. The decoder must
 * get all kept values from both forms. */
PL_TEST(a_message_that_would_not_peel_is_sent_as_a_list)
{
    enum { TINY = 4096 };
    static float x[TINY], sum[TINY];
    pl_codec_options o = options_of("sketch16");
    pl_codec_round round = round_of(1);
    pl_codec_part part = {0, TINY, PL_ROLE_MLP};
    int lists = 0, sketches = 0;
    o.k = 300;
    /* With 0.833 elements per cell, decoding fails for about half of the seeds. */
    o.cells = 1.2;
    for (uint64_t seed = 0; seed < 40; seed++) {
        OWNED(pl_buf_destroy) pl_buf m = {0};
        codec_reader r;
        codec_stretch s;
        round.seed = seed;
        fill_values(x, TINY, seed);
        assert_ok(pl_codec_encode_module(&o, &part, 1, &round, x, NULL, &m));
        memset(sum, 0, sizeof sum);
        add_ok(&m, TINY, 1.0f, sum);
        assert_ok(codec_reader_open(&r, m.data, m.len, TINY));
        assert_true(codec_reader_next(&r, &s));
        lists += s.codec == WIRE_LIST16;
        sketches += s.codec == PL_CODEC_SKETCH16;
        size_t kept = 0;
        for (size_t i = 0; i < TINY; i++)
            kept += sum[i] != 0;
        assert_int_equal(kept, 300);
    }
    assert_int_equal(lists + sketches, 40);
    assert_true(lists > 0 && sketches > 0);
}

/* Makes the list that an encoder sends if it cannot decode its own sketch. */
static void list_of_sketch(const pl_buf *sketch, size_t n, pl_buf *out)
{
    codec_reader r;
    codec_stretch s;
    codec_writer w;
    const uint8_t *bitmap = NULL, *cells = NULL;
    OWNED(pl_buf_destroy) pl_buf first = {0}, second = {0}, codes = {0};
    assert_ok(codec_reader_open(&r, sketch->data, sketch->len, n));
    assert_true(codec_reader_next(&r, &s));
    assert_int_equal(s.codec, PL_CODEC_SKETCH16);
    assert_ok(codec_section_open(&s.sections[0], &first, &bitmap));
    assert_ok(codec_section_open(&s.sections[1], &second, &cells));
    assert_ok(sparse_codes(&r.header, &s, bitmap, cells, &codes));
    s.codec = WIRE_LIST16;
    s.cells = 0;
    s.kept = codes.len / 2;
    s.sections[0].data = bitmap;
    s.sections[1].data = codes.data;
    s.sections[1].raw_bytes = codes.len;
    codec_writer_begin(&w, &r.header, out);
    assert_ok(codec_writer_stretch(&w, &s, false));
    codec_writer_end(&w);
}

PL_TEST(lists_and_sketches_add_in_any_order)
{
    OWNED(disperse) crowd c;
    OWNED(free_memory) float *apart = zeros(N);
    pl_codec_message messages[W_MAX];
    gather(&c, "sketch16", 4);
    for (int w = 0; w < 4; w++)
        add_ok(&c.messages[w], N, 1.0f, apart);
    for (int as_list = 0; as_list < 16; as_list++) {
        OWNED(disperse) crowd mixed = {.n = 4};
        int order[W_MAX];
        for (int w = 0; w < 4; w++)
            if (as_list >> w & 1)
                list_of_sketch(&c.messages[w], N, &mixed.messages[w]);
            else
                pl_buf_append(&mixed.messages[w], c.messages[w].data,
                              c.messages[w].len);
        OWNED(free_memory) float *sum = zeros(N), *tree = zeros(N);
        OWNED(pl_buf_destroy) pl_buf one = {0};
        shuffle(order, 4, (uint64_t)as_list);
        list_all(&mixed, order, messages);
        assert_ok(add_list(messages, 4, sum));
        combine_tree(&mixed, order, 4, 5, &one);
        add_ok(&one, N, 1.0f, tree);
        assert_memory_equal(sum, apart, N * sizeof *sum);
        assert_memory_equal(tree, apart, N * sizeof *sum);
    }
}

/* ---- peeling ---- */
enum { ELEMENTS = 1 << 16 };

static uint64_t key_of(uint64_t seed, size_t i)
{
    return pl_permute(seed, 9, ELEMENTS, i);
}

/* Makes one segment of 3 * third cells with `n_keys` elements. Returns whether it can
 * be decoded. */
static bool peels(uint32_t third, size_t n_keys, uint64_t seed)
{
    codec_stretch s = {.codec = PL_CODEC_SKETCH16, .count = ELEMENTS};
    static uint8_t bitmap[ELEMENTS / 8];
    OWNED(pl_buf_destroy) pl_buf codes = {0};
    memset(bitmap, 0, sizeof bitmap);
    s.cells = third * (SEGMENT / ELEMENTS);
    OWNED(free_memory)
    uint8_t *cells = pl_alloc(2 * (size_t)codec_sketch_cells(s.cells, s.count));
    for (size_t i = 0; i < n_keys; i++) {
        uint64_t at = key_of(seed, i);
        bitmap[at / 8] |= (uint8_t)(1u << at % 8);
    }
    bool ok = sketch_peel(&s, seed, bitmap, cells, &codes) == PL_OK;
    assert_true(!ok || codes.len == 2 * n_keys);
    return ok;
}

/* Removes elements that are alone in a cell, again and again. Returns how many elements
 * remain. */
static size_t core_of(uint32_t third, size_t n_keys, uint64_t seed)
{
    OWNED(free_memory)
    uint32_t *degrees = pl_alloc(3 * (size_t)third * sizeof *degrees);
    OWNED(free_memory) bool *gone = pl_alloc(n_keys);
    bool moved = true;
    size_t left = n_keys;
    for (size_t i = 0; i < n_keys; i++) {
        sketch_cells at;
        sketch_find(seed, key_of(seed, i), third, &at);
        for (int j = 0; j < 3; j++)
            degrees[at.cell[j]]++;
    }
    while (moved) {
        moved = false;
        for (size_t i = 0; i < n_keys; i++) {
            sketch_cells at;
            sketch_find(seed, key_of(seed, i), third, &at);
            bool alone = degrees[at.cell[0]] == 1 || degrees[at.cell[1]] == 1 ||
                         degrees[at.cell[2]] == 1;
            for (int j = 0; j < 3 && alone && !gone[i]; j++)
                degrees[at.cell[j]]--;
            moved |= alone && !gone[i];
            left -= alone && !gone[i];
            gone[i] |= alone;
        }
    }
    return left;
}

PL_TEST(what_does_not_peel_is_the_two_core)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        char text[64];
        assert_false(peels(300, 800, seed));
        snprintf(text, sizeof text, ": %zu elements are left", core_of(300, 800, seed));
        assert_said(text);
    }
}

PL_TEST(above_the_threshold_no_sketch_peels)
{
    for (uint64_t seed = 0; seed < 50; seed++)
        assert_false(peels(1024, 2918, seed)); /* 0.95 elements per cell */
}

PL_TEST(well_below_the_threshold_one_in_a_hundred_fails)
{
    int failed = 0;
    for (uint64_t seed = 0; seed < 1000; seed++)
        failed += !peels(1024, 2150, seed); /* 0.70 elements per cell */
    assert_in_range(failed, 0, 10);
}

/* ---- limits ---- */
PL_TEST(contributors_beyond_the_rounds_number_are_refused)
{
    OWNED(disperse) crowd c;
    OWNED(pl_buf_destroy) pl_buf two = {0}, three = {0}, out = {0};
    gather(&c, "i8-shared", 3);
    assert_ok(combine(&c.messages[0], &c.messages[1], &two));
    assert_ok(combine(&two, &c.messages[2], &three));
    assert_fails(combine(&three, &two, &out), PL_ERR_DATA, "more than the round's 3");
    assert_int_equal(out.len, 0);
}

PL_TEST(messages_of_different_rounds_do_not_combine)
{
    enum { SIZE = 5000 };
    static float x[SIZE];
    pl_codec_options o = options_of("sketch16"), plain = options_of("i8");
    pl_codec_round a = round_of(2), b = a, c = a;
    OWNED(pl_buf_destroy) pl_buf ma = {0}, mb = {0}, mc = {0}, mp = {0}, out = {0};
    b.seed++;
    c.scale_exponent++;
    fill_values(x, SIZE, 1);
    encode_all(&o, &a, x, SIZE, NULL, &ma);
    encode_all(&o, &b, x, SIZE, NULL, &mb);
    encode_all(&o, &c, x, SIZE, NULL, &mc);
    encode_all(&plain, NULL, x, SIZE, NULL, &mp);
    assert_int_equal(combine(&ma, &mb, &out), PL_ERR_DATA);
    assert_int_equal(combine(&ma, &mc, &out), PL_ERR_DATA);
    assert_int_equal(combine(&ma, &mp, &out), PL_ERR_UNSUPPORTED);
    assert_int_equal(combine(&mp, &mp, &out), PL_ERR_UNSUPPORTED);
    assert_int_equal(out.len, 0);
}

PL_TEST(sums_reach_the_width_that_their_contributors_need)
{
    enum { SIZE = 100, MANY = 300 };
    static float x[SIZE], sum[SIZE];
    pl_codec_options o = options_of("i8-shared");
    pl_codec_round round = round_of(MANY);
    OWNED(pl_buf_destroy) pl_buf one = {0}, total = {0};
    for (size_t i = 0; i < SIZE; i++)
        /* All values are at the clamp, so the sums reach 127 * 300 and -127 * 300. */
        x[i] = i % 2 ? 1.0f : -1.0f;
    encode_all(&o, &round, x, SIZE, NULL, &one);
    pl_buf_append(&total, one.data, one.len);
    for (int w = 1; w < MANY; w++)
        combine_into(&total, &one);
    add_ok(&total, SIZE, 1.0f, sum);
    for (size_t i = 0; i < SIZE; i++)
        assert_true(sum[i] ==
                    (i % 2 ? 1 : -1) * ldexpf(127 * MANY, round.scale_exponent));
}

/* ---- by several threads ---- */
/* Makes n messages of two stretches. The second stretch begins at value 100, so that
 * the slices of threads do not end at the borders of tiles. */
static void gather_dense(crowd *c, const char *name, int n)
{
    const pl_codec_part parts[] = {{0, 100, PL_ROLE_SMALL},
                                   {100, N - 100, PL_ROLE_MLP}};
    OWNED(free_memory) float *x = zeros(N);
    memset(c, 0, sizeof *c);
    assert_ok(pl_codec_options_default(name, &c->options));
    c->n = n;
    for (int w = 0; w < n; w++) {
        fill_values(x, N, (uint64_t)w);
        assert_ok(pl_codec_encode_module(&c->options, parts, 2, NULL, x, NULL,
                                         &c->messages[w]));
    }
}

PL_TEST(slices_of_several_threads_add_the_bits_of_one)
{
    static const char *const names[] = {"f32", "bf16", "i8", "i4", "topk"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        OWNED(disperse) crowd c;
        pl_codec_message messages[W_MAX];
        float weights[W_MAX];
        OWNED(free_memory) float *alone = zeros(N), *together = zeros(N);
        int order[W_MAX];
        gather_dense(&c, names[k], W_MAX);
        shuffle(order, c.n, k);
        list_all(&c, order, messages);
        for (int w = 0; w < c.n; w++) {
            weights[w] = 1.0f / (float)(w + 3);
            add_ok(&c.messages[order[w]], N, weights[w], alone);
        }
        pl_codec_list list = {messages, weights, c.n, 0};
        const pl_codec_source source = pl_codec_source_of(&list);
        assert_ok(pl_codec_add_each(&source, N, together));
        assert_memory_equal(together, alone, N * sizeof *alone);
        c.messages[3].data[c.messages[3].len - 1] ^= 1;
        assert_int_equal(pl_codec_add_each(&source, N, together), PL_ERR_DATA);
    }
}
