/* folder: net; label: unit */
#include "net/net.h"

#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

static staging of_limit(uint64_t limit)
{
    return (staging){.keeper = "the test", .key = "nothing", .limit = limit};
}

/* Returns the hash of blob `number`: a blob whose bytes all have the value `number`. It
 * is not the real hash, because staging does not check hashes. */
static pl_hash name_of(uint8_t number)
{
    pl_hash hash = {{number}};
    return hash;
}

static pl_status put_piece(staging *s, uint8_t number, uint64_t total, uint64_t offset)
{
    OWNED(pl_buf_destroy) pl_buf data = {0};
    uint64_t left = total - offset;
    size_t len = left < PL_WIRE_DATA_MAX ? (size_t)left : PL_WIRE_DATA_MAX;
    pl_buf_reserve(&data, len);
    memset(data.data, number, len);
    data.len = len;
    const pl_msg_put_blob piece = {
        .blob = name_of(number), .total = total, .offset = offset};
    staging_blob *b;
    return staging_put(s, &piece, &data, &b);
}

static pl_status put_all(staging *s, uint8_t number, uint64_t total)
{
    for (uint64_t at = 0; at < total; at += PL_WIRE_DATA_MAX)
        PL_CHECK(put_piece(s, number, total, at));
    return PL_OK;
}

static void drop(staging *s, uint8_t number)
{
    pl_hash name = name_of(number);
    staging_drop(s, &name);
}

static const staging_blob *whole(const staging *s, uint8_t number)
{
    pl_hash name = name_of(number);
    return staging_find(s, &name);
}

PL_TEST(a_large_upload_gets_the_memory_of_the_one_before)
{
    staging s = of_limit(64 * MIB);
    assert_ok(put_all(&s, 1, 8 * MIB));
    const uint8_t *before = whole(&s, 1)->data;
    drop(&s, 1);
    assert_int_equal(s.bytes, 0);
    assert_int_equal(staging_kept_bytes(&s), 8 * MIB);
    assert_ok(put_all(&s, 2, 8 * MIB - 5));
    assert_ptr_equal(whole(&s, 2)->data, before);
    /* s.bytes counts the memory of the block, not the bytes of the blob. */
    assert_int_equal(s.bytes, 8 * MIB);
    assert_int_equal(staging_kept_bytes(&s), 0);
    drop(&s, 2);
    /* A blob of 6 MiB does not get the block of 8 MiB: too much would be unused. */
    assert_ok(put_all(&s, 3, 6 * MIB));
    assert_int_equal(staging_kept_bytes(&s), 8 * MIB);
    staging_expire(&s, true);
    assert_int_equal(s.bytes + staging_kept_bytes(&s), 0);
}

PL_TEST(bytes_of_an_older_upload_make_no_newer_one_whole)
{
    staging s = of_limit(64 * MIB);
    assert_ok(put_all(&s, 1, 4 * MIB));
    drop(&s, 1);
    for (int piece = 0; piece < 4; piece++) {
        assert_null(whole(&s, 2));
        assert_ok(put_piece(&s, 2, 4 * MIB, (uint64_t)piece * MIB));
    }
    const staging_blob *b = whole(&s, 2);
    assert_non_null(b);
    for (size_t i = 0; i < 4 * MIB; i++)
        assert_int_equal(b->data[i], 2);
    staging_expire(&s, true);
}

PL_TEST(kept_memory_takes_no_room_from_uploads)
{
    staging s = of_limit(16 * MIB);
    assert_ok(put_all(&s, 1, 8 * MIB));
    drop(&s, 1);
    /* This upload needs the memory of the kept block, which is therefore freed. */
    assert_ok(put_all(&s, 2, 12 * MIB));
    assert_int_equal(staging_kept_bytes(&s), 0);
    assert_int_equal(put_piece(&s, 3, 5 * MIB, 0), PL_ERR_BUSY);
    assert_int_equal(put_piece(&s, 3, 17 * MIB, 0), PL_ERR_CONFIG);
    assert_ok(put_all(&s, 3, 4 * MIB));
    drop(&s, 2);
    drop(&s, 3);
    assert_int_equal(staging_kept_bytes(&s), 16 * MIB);
    assert_ok(put_all(&s, 4, 16 * MIB));
    assert_true(s.bytes + staging_kept_bytes(&s) <= s.limit);
    staging_expire(&s, true);
}

PL_TEST(few_blocks_are_kept_and_no_small_ones)
{
    staging s = of_limit(1024ull * MIB);
    assert_ok(put_all(&s, 1, MIB));
    drop(&s, 1);
    assert_int_equal(staging_kept_bytes(&s), 0);
    for (uint8_t i = 0; i < STAGING_KEPT + 2; i++)
        assert_ok(put_all(&s, i, 4 * MIB));
    for (uint8_t i = 0; i < STAGING_KEPT + 2; i++)
        drop(&s, i);
    assert_int_equal(staging_kept_bytes(&s), STAGING_KEPT * 4 * MIB);
    assert_ok(put_piece(&s, 9, 512 * MIB, 0));
    drop(&s, 9);
    assert_int_equal(staging_kept_bytes(&s), STAGING_KEPT * 4 * MIB);
    staging_expire(&s, true);
}

PL_TEST(leases_of_one_key_have_a_share_together)
{
    staging s = of_limit(64 * MIB); /* one key may use 8 MiB */
    s.owner.holder = (pl_pubkey){{1}};
    s.owner.share = 4 * MIB;
    for (uint8_t i = 0; i < 2; i++) {
        s.owner.token = 10 + i;
        assert_ok(put_all(&s, i, 4 * MIB));
    }
    s.owner.token = 12;
    assert_int_equal(put_piece(&s, 2, 1, 0), PL_ERR_BUSY);
    s.owner.holder = (pl_pubkey){{2}};
    assert_ok(put_all(&s, 2, 4 * MIB));
    s.owner.holder = (pl_pubkey){{0}}; /* keys of the job itself have no limit */
    for (uint8_t i = 3; i < 15; i++) {
        s.owner.token = 10 + i;
        assert_ok(put_all(&s, i, 4 * MIB));
    }
    staging_expire(&s, true);
    s.owner.holder = (pl_pubkey){{1}}; /* one lease may always use its own share */
    s.owner.share = 40 * MIB;
    assert_ok(put_all(&s, 1, 40 * MIB));
    staging_expire(&s, true);
}

/* A relay sends a sum without a lease. */
PL_TEST(a_key_without_a_lease_has_one_large_upload_and_few_small_ones)
{
    staging s = of_limit(64 * MIB);
    pl_hash name = {{0}};
    staging_blob *b;
    s.owner.holder = (pl_pubkey){{1}};
    assert_ok(put_all(&s, 1, 40 * MIB));
    assert_int_equal(put_piece(&s, 2, 1, 0), PL_ERR_BUSY);
    drop(&s, 1);
    int n = 0;
    for (bool full = false; !full && n < 100000; n += !full) {
        memcpy(name.bytes + 1, &n, sizeof n);
        const pl_msg_put_blob piece = {.blob = name};
        full = staging_open(&s, &piece, &b) == PL_ERR_BUSY;
    }
    assert_in_range(n, STAGING_UPLOADS_MAX, 8 * STAGING_UPLOADS_MAX);
    s.owner.holder = (pl_pubkey){{2}};
    assert_ok(put_all(&s, 2, 2 * MIB));
    staging_expire(&s, true);
}

PL_TEST(a_lease_has_few_uploads_however_small)
{
    staging s = of_limit(64 * MIB);
    pl_hash name = {{0}};
    staging_blob *b;
    s.owner.token = 1;
    s.owner.share = 4 * MIB;
    for (int i = 0; i <= STAGING_UPLOADS_MAX; i++) {
        memcpy(name.bytes, &i, sizeof i);
        const pl_msg_put_blob piece = {.blob = name, .total = (uint64_t)i % 2};
        assert_int_equal(staging_open(&s, &piece, &b),
                         i < STAGING_UPLOADS_MAX ? PL_OK : PL_ERR_PROTO);
    }
    s.owner.token = 2; /* another lease */
    assert_ok(put_all(&s, 1, MIB));
    staging_expire(&s, true);
}

/* Asks for room; returns how many bytes have arrived. */
static uint64_t arrived(staging *s, uint8_t number, uint64_t total)
{
    staging_blob *b;
    const pl_msg_put_blob piece = {.blob = name_of(number), .total = total};
    assert_ok(staging_open(s, &piece, &b));
    return b->there;
}

PL_TEST(an_upload_tells_how_far_it_is_and_takes_pieces_in_order)
{
    staging s = of_limit(64 * MIB);
    assert_int_equal(put_piece(&s, 1, 3 * MIB, MIB), PL_ERR_BUSY); /* not begun */
    assert_int_equal(s.bytes, 0);
    assert_int_equal(arrived(&s, 1, 3 * MIB), 0);
    assert_ok(put_piece(&s, 1, 3 * MIB, 0));
    assert_int_equal(put_piece(&s, 1, 3 * MIB, 2 * MIB), PL_ERR_BUSY); /* a gap */
    assert_int_equal(arrived(&s, 1, 3 * MIB), MIB);
    assert_ok(put_piece(&s, 1, 3 * MIB, 0)); /* once more */
    assert_int_equal(arrived(&s, 1, 3 * MIB), MIB);
    assert_ok(put_piece(&s, 1, 3 * MIB, MIB));
    assert_null(whole(&s, 1));
    assert_ok(put_piece(&s, 1, 3 * MIB, 2 * MIB));
    assert_non_null(whole(&s, 1));
    assert_int_equal(arrived(&s, 2, 0), 0); /* a blob without bytes is complete */
    assert_non_null(whole(&s, 2));
    staging_expire(&s, true);
}

/* A worker may name any hash in a message that is refused. */
PL_TEST(a_lease_drops_no_upload_of_the_job)
{
    staging s = of_limit(64 * MIB);
    assert_ok(put_all(&s, 1, MIB));
    s.owner.token = 1;
    assert_non_null(whole(&s, 1));
    drop(&s, 1);
    assert_non_null(whole(&s, 1));
    s.owner.token = 0;
    drop(&s, 1);
    assert_null(whole(&s, 1));
    staging_expire(&s, true);
}

/* A client whose pieces do not pass asks every ten seconds how far its upload is. */
PL_TEST(an_upload_that_receives_nothing_gives_its_room_to_those_who_wait)
{
    enum { LONG_MS = 40000 };
    staging s = of_limit(64 * MIB);
    assert_ok(put_piece(&s, 1, 2 * MIB, 0));
    for (int gets_bytes = 1; gets_bytes >= 0; gets_bytes--) {
        s.first->touched_ms -= LONG_MS;
        if (gets_bytes)
            assert_ok(put_piece(&s, 1, 2 * MIB, MIB));
        assert_int_equal(arrived(&s, 1, 2 * MIB), 2 * MIB);
        s.wanted = true;
        staging_expire(&s, false);
        assert_int_equal(s.bytes, gets_bytes ? 2 * MIB : 0);
    }
}

/* The home was stopped, or committed for long, and could not read what came. */
PL_TEST(an_upload_outlives_a_home_that_stands_still)
{
    enum { LONG_MS = 130000 };
    staging s = of_limit(64 * MIB);
    for (int stands = 1; stands >= 0; stands--) {
        assert_ok(put_piece(&s, 1, 2 * MIB, 0));
        s.first->touched_ms -= LONG_MS;
        if (stands)
            staging_stand_still(&s, LONG_MS);
        staging_expire(&s, false);
        assert_int_equal(s.bytes, stands ? 2 * MIB : 0);
    }
}

/* Workers give tasks up, for example when a backup was first. At a relay the uploads of
 * such a task do not stay because others go on. */
PL_TEST(uploads_of_one_lease_stay_together_and_others_do_not)
{
    enum { LONG_MS = 130000 };
    for (uint64_t owner = 0; owner < 2; owner++) {
        staging s = of_limit(64 * MIB);
        s.owner.token = owner;
        assert_ok(put_all(&s, 1, MIB));
        assert_ok(put_piece(&s, 2, 2 * MIB, 0));
        for (staging_blob *b = s.first; b; b = b->next)
            b->touched_ms -= LONG_MS;
        assert_ok(put_piece(&s, 2, 2 * MIB, MIB));
        staging_expire(&s, false);
        assert_non_null(whole(&s, 2));
        assert_int_equal(whole(&s, 1) != NULL, owner != 0);
        staging_expire(&s, true);
    }
}

static void put_bytes(staging *s, uint64_t total, uint64_t offset, size_t len)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    const pl_msg_put_blob piece = {
        .blob = name_of(1), .total = total, .offset = offset};
    staging_blob *b;
    pl_buf_reserve(&bytes, len);
    memset(bytes.data, 1, len);
    bytes.len = len;
    assert_ok(staging_put(s, &piece, &bytes, &b));
}

PL_TEST(a_byte_now_and_then_keeps_no_room_that_others_want)
{
    for (int moves = 0; moves < 2; moves++) {
        staging s = of_limit(4 * MIB);
        s.owner = (staging_owner){.token = 7, .share = 4 * MIB, .holder = {{1}}};
        put_bytes(&s, 4 * MIB, 0, 1);
        s.wanted = true;
        s.first->touched_ms -= 31000;
        put_bytes(&s, 4 * MIB, 1, moves ? 64 << 10 : 1);
        staging_expire(&s, false);
        assert_int_equal(s.first != NULL, moves);
        staging_expire(&s, true);
    }
}

/* The worker's router was away for three minutes. */
PL_TEST(an_upload_that_took_long_waits_long_if_nobody_wants_its_room)
{
    struct home_path *path = (struct home_path *)&path; /* not read */
    staging s = of_limit(4 * MIB);
    s.owner = (staging_owner){.token = 7, .path = path};
    put_bytes(&s, 4 * MIB, 0, 1);
    s.first->begun_ms -= 20 * 60000;
    s.first->touched_ms -= 180000;
    staging_expire(&s, false);
    assert_non_null(s.first);
    s.wanted = true;
    staging_expire(&s, false);
    assert_null(s.first);
    staging_expire(&s, true); /* frees the kept block */
}

PL_TEST(who_has_most_gives_its_room)
{
    staging s = of_limit(128 * MIB);
    for (uint8_t key = 0; key < 3; key++) {
        s.owner = (staging_owner){.token = key, .holder = {{key}}};
        assert_ok(put_piece(&s, key, (uint64_t)(9 - key) * MIB, 0));
        assert_ok(put_piece(&s, key + 10, MIB, 0));
    }
    assert_int_equal(staging_evict(&s).bytes[0], 1); /* 0: the job's own uploads */
    assert_int_equal(s.bytes, (9 + 1 + 7 + 1) * MIB);
    assert_int_equal(staging_evict(&s).bytes[0], 2);
    assert_int_equal(staging_evict(&s).bytes[0], 0);
    staging_expire(&s, true);
}
