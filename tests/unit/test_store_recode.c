/* folder: store; label: unit */
#include "store/delta.h"
#include "store/store_internal.h"
#include "tests/support/store_fixture.h"
#include <math.h>

enum { FLOATS = 60000, BYTES = FLOATS * 4, VERSIONS = 36 };

/* ---- delta ---- */
static void check_round_trip(const uint8_t *x, const uint8_t *a, const uint8_t *b,
                             size_t len)
{
    OWNED(pl_buf_destroy) pl_buf coded = {0}, again = {0};
    assert_ok(delta_encode(x, a, b, len, &coded));
    assert_ok(delta_decode(coded.data, coded.len, a, b, len, &again));
    assert_int_equal(again.len, len);
    if (len)
        assert_memory_equal(again.data, x, len);
}

PL_TEST(any_bits_come_back_whatever_they_lie_between)
{
    static const size_t lengths[] = {0, 1, 3, 4, 7, 4096, 100001, 1 << 20};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i];
        OWNED(free_memory)
        uint8_t *x = make_bytes(1, n + 4), *a = make_bytes(2, n + 4),
                *b = make_bytes(3, n + 4);
        check_round_trip(x, a, b, n);
        check_round_trip(x, x, x, n);
        check_round_trip(x, a, a, n);
        check_round_trip(x, NULL, NULL, n);
    }
}

PL_TEST(floats_that_are_no_numbers_come_back)
{
    const float odd[] = {0.0f, -0.0f,  INFINITY, -INFINITY,     NAN,
                         -NAN, 1e-45f, -1e-45f,  3.402823e+38f, -3.402823e+38f};
    enum { N = sizeof odd / sizeof *odd };
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) {
            float a[N], b[N];
            for (size_t k = 0; k < N; k++) {
                a[k] = odd[i];
                b[k] = odd[j];
            }
            check_round_trip((const uint8_t *)odd, (uint8_t *)a, (uint8_t *)b,
                             sizeof odd);
        }
}

PL_TEST(damaged_codes_are_refused_or_give_bytes_of_the_right_length)
{
    enum { N = 40000 };
    OWNED(free_memory) uint8_t *x = make_bytes(1, N), *a = make_bytes(2, N);
    OWNED(pl_buf_destroy) pl_buf coded = {0}, out = {0};
    assert_ok(delta_encode(x, a, x, N, &coded));
    for (size_t cut = 0; cut < coded.len; cut += 1 + coded.len / 97) {
        pl_buf_clear(&out);
        assert_int_equal(delta_decode(coded.data, cut, a, x, N, &out), PL_ERR_DAMAGED);
    }
    for (size_t i = 0; i < 200; i++) {
        size_t at = pl_random_u32(9, 0, i) % coded.len;
        coded.data[at] ^= (uint8_t)(1u << i % 8);
        pl_buf_clear(&out);
        if (delta_decode(coded.data, coded.len, a, x, N, &out) == PL_OK)
            assert_int_equal(out.len, N);
        coded.data[at] ^= (uint8_t)(1u << i % 8);
    }
}

PL_TEST(the_coded_bytes_of_a_few_floats_are_these)
{
    const float x[] = {1.0f, -2.5f, 3e-3f}, a[] = {0.5f, -2.0f, 1e-3f},
                b[] = {1.25f, -3.0f, 4e-3f};
    static const uint8_t golden[] = {3, 0, 0, 0, 0,    0, 0x6e, 3, 0, 0, 0, 0, 0, 0x12,
                                     3, 0, 0, 0, 0x60, 0, 0x83, 3, 0, 0, 0, 0, 0, 0};
    OWNED(pl_buf_destroy) pl_buf coded = {0};
    assert_ok(delta_encode((const uint8_t *)x, (const uint8_t *)a, (const uint8_t *)b,
                           sizeof x, &coded));
    assert_int_equal(coded.len, sizeof golden);
    assert_memory_equal(coded.data, golden, sizeof golden);
}

/* ---- recoding ---- */
/* Returns the parameters of version `number`: a step of a random walk, so each version
 * differs only a little from the previous one. */
static const float *walk_to(uint64_t number)
{
    static float walk[VERSIONS][FLOATS];
    static uint64_t known; /* walk[0 .. known-1] are computed */
    for (; known <= number; known++)
        for (size_t i = 0; i < FLOATS; i++)
            walk[known][i] =
                known == 0 ? 0.05f * pl_random_normal(1, 0, i)
                           : walk[known - 1][i] + 1e-3f * pl_random_normal(2, known, i);
    return walk[number];
}

static void put_walk(pl_store *store, uint64_t number, uint64_t content)
{
    pl_version v = {.module = "a/x", .number = number}, head;
    pl_txn *txn = begin(store);
    if (number > 0) {
        assert_ok(pl_store_head(store, "a/x", &head));
        v.parent = head.params;
        pl_version_clear(&head);
    }
    assert_ok(pl_txn_put_blob(txn, walk_to(content), BYTES, &v.params));
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){0}));
    assert_ok(pl_txn_commit(&txn));
}

static bool walk_holds(pl_store *store, uint64_t number, uint64_t content)
{
    OWNED(pl_version_clear) pl_version v;
    OWNED(free_memory) float *got = pl_alloc(BYTES);
    assert_ok(pl_store_get_version(store, "a/x", number, &v));
    assert_ok(pl_store_read_blob(store, &v.params, 0, BYTES, got));
    return memcmp(got, walk_to(content), BYTES) == 0;
}

static void recode_all(pl_store *store)
{
    bool more = true;
    while (more)
        assert_ok(pl_store_recode(store, 1 << 20, &more));
}

STORE_TEST(old_versions_become_smaller_and_stay_the_same)
{
    pl_store_stats before, after;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    for (uint64_t n = 0; n < VERSIONS; n++) {
        bool more;
        put_walk(store, n, n);
        /* as a home does between commits */
        assert_ok(pl_store_recode(store, 1 << 19, &more));
    }
    assert_ok(pl_store_count(store, &before));
    recode_all(store);
    assert_ok(pl_store_count(store, &after));
    assert_int_equal(after.chunk_bytes, (uint64_t)VERSIONS * BYTES);
    assert_true(after.stored_bytes < after.chunk_bytes * 3 / 4);
    for (uint64_t n = 0; n < VERSIONS; n++)
        assert_true(walk_holds(store, n, n));
    assert_whole(store);
    pl_store_close(&store);
    store = open_store(*state, PL_STORE_READ);
    assert_true(walk_holds(store, 1, 1));
    assert_whole(store);
}

/* If old contents come back, several versions share chunks. The chunks relative to
 * which a chunk is coded must not depend on that chunk. */
STORE_TEST(versions_that_come_back_lead_in_no_circle)
{
    static const uint64_t content[] = {0, 1, 2, 3, 1, 2, 1, 0, 4, 3, 2, 8, 1, 9, 2, 0,
                                       1, 2, 3, 4, 1, 5, 2, 3, 6, 7, 1, 2, 0, 0, 0, 0};
    enum { N = sizeof content / sizeof *content };
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    for (uint64_t n = 0; n < N; n++)
        put_walk(store, n, content[n]);
    recode_all(store);
    for (uint64_t n = 0; n < N; n++)
        assert_true(walk_holds(store, n, content[n]));
    assert_whole(store);
}

/* Old contents come back again and again while versions are coded. No chain of chunks
 * that are coded relative to each other may become too long to be read. */
STORE_TEST(versions_that_come_back_late_stay_readable)
{
    enum { N = 150 };
    uint64_t content[N];
    bool more;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    for (uint64_t n = 0; n < N; n++) {
        bool returns = n > 4 && pl_random_u32(4, 0, n) % 5 == 0;
        uint64_t next = n == 0 ? 0 : content[n - 1] + 1;
        content[n] = returns ? content[pl_random_u32(4, 1, n) % n] : next % VERSIONS;
        put_walk(store, n, content[n]);
        assert_ok(pl_store_recode(store, 1 << 30, &more));
    }
    for (uint64_t n = 0; n < N; n++)
        assert_true(walk_holds(store, n, content[n]));
    assert_whole(store);
}

static bool keeps_newest(void *context, const pl_version *v)
{
    return v->number + *(const uint64_t *)context >= VERSIONS;
}

STORE_TEST(collecting_frees_what_it_says_and_leaves_the_rest_readable)
{
    pl_gc_report dry, done;
    pl_store_stats before, after;
    uint64_t keep = 7;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    for (uint64_t n = 0; n < VERSIONS; n++)
        put_walk(store, n, n);
    recode_all(store);
    assert_ok(pl_store_count(store, &before));
    assert_ok(pl_store_collect(store, keeps_newest, &keep, false, &dry));
    assert_ok(pl_store_collect(store, keeps_newest, &keep, true, &done));
    assert_ok(pl_store_count(store, &after));
    assert_int_equal(dry.n_versions, VERSIONS - 7);
    assert_int_equal(dry.bytes, done.bytes);
    assert_int_equal(before.stored_bytes - after.stored_bytes, dry.bytes);
    assert_int_equal(after.n_versions, VERSIONS); /* the records stay */
    for (uint64_t n = VERSIONS - 7; n < VERSIONS; n++)
        assert_true(walk_holds(store, n, n));
    assert_whole(store);
    assert_ok(pl_store_collect(store, keeps_newest, &keep, true, &done));
    assert_int_equal(done.n_versions, 0);
    assert_int_equal(done.n_gone, VERSIONS - 7);
}
