/* folder: workers; label: unit */
/* Tests the vectors that a worker offers to its mates. A mate must find them complete,
 * by name and round. They must be freed when no mate can ask for them any more. */
#include "workers/peer.h"

#include "tests/support/suite.h"

typedef struct fixture {
    peer *offers;
    char address[PL_ADDRESS_MAX];
} fixture;

static int set_up(void **state)
{
    fixture *f = pl_alloc(sizeof *f);
    assert_ok(peer_create("tcp://127.0.0.1:*", &f->offers, f->address));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    OWNED(free_memory) fixture *f = *state;
    peer_destroy(f->offers);
    return 0;
}

static void fill(uint8_t *data, size_t bytes, int64_t round, int path)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 31 + (size_t)round * 7 + (size_t)path * 3 + (i >> 12));
}

static void put(fixture *f, const char *module, int64_t round, int path, size_t bytes)
{
    peer_offer *o = pl_alloc(sizeof *o);
    pl_copy_text(o->module, sizeof o->module, module);
    o->round = round;
    o->path = path;
    o->bytes = bytes;
    o->data = pl_alloc(bytes ? bytes : 1);
    fill(o->data, bytes, round, path);
    pl_blob_hash(o->data, bytes, &o->hash);
    peer_put(f->offers, o);
}

static pl_status get(fixture *f, const char *module, int64_t round, int path,
                     pl_buf *out)
{
    peer_line line = {.address = f->address};
    return peer_get(&line, module, round, path, 0, out);
}

static void expect(fixture *f, const char *module, int64_t round, int path,
                   size_t bytes)
{
    OWNED(pl_buf_destroy) pl_buf got = {0};
    OWNED(free_memory) uint8_t *want = pl_alloc(bytes ? bytes : 1);
    fill(want, bytes, round, path);
    assert_ok(get(f, module, round, path, &got));
    assert_int_equal(got.len, bytes);
    assert_memory_equal(got.data, want, bytes);
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, fixture *f, set_up, tear_down)

FIXTURE_TEST(offers_arrive_whole)
{
    put(f, "mix/L1.E0", 0, 0, 10);
    put(f, "mix/L1.E0", 0, 1, (3u << 20) + 5); /* needs more than one message */
    put(f, "mix/L2.E0", 0, 0, 100);
    expect(f, "mix/L1.E0", 0, 0, 10);
    expect(f, "mix/L1.E0", 0, 1, (3u << 20) + 5);
    expect(f, "mix/L2.E0", 0, 0, 100);
}

FIXTURE_TEST(what_is_not_offered_is_not_found)
{
    OWNED(pl_buf_destroy) pl_buf got = {0};
    put(f, "mix/L1.E0", 4, 2, 10);
    expect(f, "mix/L1.E0", 4, 2, 10);
    assert_int_equal(get(f, "mix/L1.E0", 5, 2, &got), PL_ERR_NOT_FOUND);
    assert_int_equal(get(f, "mix/L1.E0", 4, 3, &got), PL_ERR_NOT_FOUND);
    assert_int_equal(get(f, "mix/L1.E1", 4, 2, &got), PL_ERR_NOT_FOUND);
    assert_int_equal(got.len, 0);
}

FIXTURE_TEST(only_two_rounds_of_a_path_are_kept)
{
    OWNED(pl_buf_destroy) pl_buf got = {0};
    for (int64_t round = 0; round < 5; round++)
        put(f, "mix/L1.E0", round, 0, 64);
    put(f, "mix/L1.E0", 3, 1, 64); /* vectors of another path replace none of these */
    expect(f, "mix/L1.E0", 4, 0, 64);
    expect(f, "mix/L1.E0", 3, 0, 64);
    expect(f, "mix/L1.E0", 3, 1, 64);
    assert_int_equal(get(f, "mix/L1.E0", 2, 0, &got), PL_ERR_NOT_FOUND);
}

/* Paths go to other workers, and chapters have other arms. */
FIXTURE_TEST(offers_for_which_no_mate_asks_are_not_kept)
{
    OWNED(pl_buf_destroy) pl_buf got = {0};
    put(f, "mix/L1.E0", 0, 0, 64);
    put(f, "mix/L1.E0", 1, 1, 64);
    put(f, "mix/L1.E0", 2, 1, 64);
    expect(f, "mix/L1.E0", 1, 1, 64);
    assert_int_equal(get(f, "mix/L1.E0", 0, 0, &got), PL_ERR_NOT_FOUND);
    put(f, "mix~1/L1.E0", 0, 2, 64);
    expect(f, "mix~1/L1.E0", 0, 2, 64);
    assert_int_equal(get(f, "mix/L1.E0", 2, 1, &got), PL_ERR_NOT_FOUND);
}

/* Most often the offer comes while the thread answers, or looks for the next question.
 */
FIXTURE_TEST(an_offer_is_there_for_each_question_after_it)
{
    for (int64_t round = 0; round < 2000; round++) {
        put(f, "mix/L1.E0", round, 0, 1);
        expect(f, "mix/L1.E0", round, 0, 1);
    }
}

FIXTURE_TEST(a_repeated_round_replaces_itself)
{
    put(f, "mix/L1.E0", 1, 0, 64);
    put(f, "mix/L1.E0", 1, 0, 64);
    expect(f, "mix/L1.E0", 1, 0, 64);
}

FIXTURE_TEST(a_worker_that_is_gone_is_given_up_soon)
{
    OWNED(pl_buf_destroy) pl_buf got = {0};
    peer_destroy(f->offers);
    f->offers = NULL;
    int64_t start = pl_now_ms();
    assert_int_equal(get(f, "mix/L1.E0", 0, 0, &got), PL_ERR_TIMEOUT);
    assert_true(pl_now_ms() - start < 60000);
}

static pl_status leave(void *context)
{
    ++*(int *)context;
    return pl_fail(PL_ERR_CANCELLED, "no more");
}

FIXTURE_TEST(whoever_waits_goes_on_with_other_work)
{
    OWNED(pl_buf_destroy) pl_buf got = {0};
    int calls = 0;
    peer_line line = {.address = f->address, .idle = leave, .idle_context = &calls};
    peer_destroy(f->offers);
    f->offers = NULL;
    assert_int_equal(peer_get(&line, "mix/L1.E0", 0, 0, 0, &got), PL_ERR_CANCELLED);
    assert_int_equal(calls, 1);
}

/* A mate may lie about the size, or never end. */
FIXTURE_TEST(an_update_that_is_too_large_is_refused_at_its_first_piece)
{
    OWNED(pl_buf_destroy) pl_buf got = {0};
    peer_line line = {.address = f->address, .bytes_max = (3u << 20) + 4};
    put(f, "mix/L1.E0", 0, 1, (3u << 20) + 5);
    assert_fails(peer_get(&line, "mix/L1.E0", 0, 1, 0, &got), PL_ERR_PROTO,
                 "at most 3145732 are expected");
    assert_true(got.len <= PL_WIRE_DATA_MAX);
    line.bytes_max++;
    assert_ok(peer_get(&line, "mix/L1.E0", 0, 1, 0, &got));
}

/* A mate that gives one byte for each request. */
typedef struct slow_mate {
    pl_socket *socket;
    pl_queue *end;
    int n_given;
} slow_mate;

enum { SLOW_BYTES = 4000, SLOW_MS = 20 };

static void run_slow_mate(void *context)
{
    slow_mate *mate = context;
    OWNED(pl_message_destroy) pl_message q;
    pl_peer who;
    pl_message_init(&q, 0);
    while (mate->n_given < SLOW_BYTES && !pl_queue_pop(mate->end, SLOW_MS)) {
        if (pl_wire_recv(mate->socket, &who, &q) != PL_OK)
            continue;
        OWNED(pl_message_destroy) pl_message a;
        pl_message_init(&a, PL_MSG_OK);
        a.request = q.request;
        if (q.type == PL_MSG_GET_UPDATE) {
            PL_SAY(&a, UPDATE_IS, update_is, .blob = {{1}});
        } else {
            pl_msg_get_blob piece;
            assert_ok(PL_HEAR(&q, get_blob, &piece));
            PL_SAY(&a, BLOB, blob, .total = SLOW_BYTES);
            if (pl_piece_bytes(&piece, SLOW_BYTES) > 0)
                pl_buf_append(&a.data, "x", 1);
            mate->n_given++;
        }
        assert_ok(pl_wire_send_to(mate->socket, &who, &a));
    }
}

FIXTURE_TEST(an_update_that_comes_byte_by_byte_is_given_up)
{
    slow_mate mate = {0};
    pl_thread *thread;
    OWNED(pl_buf_destroy) pl_buf got = {0};
    char address[PL_ADDRESS_MAX];
    peer_line line = {.address = address, .bytes_max = SLOW_BYTES};
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &mate.socket, address));
    assert_ok(pl_queue_create(&mate.end));
    assert_ok(pl_thread_start("mate", run_slow_mate, &mate, &thread));
    /* the mate may also be silent for too long, if this machine is busy */
    const pl_status status = peer_get(&line, "mix/L1.E0", 0, 0, 0, &got);
    assert_true(status == PL_ERR_NET || status == PL_ERR_TIMEOUT);
    assert_int_equal(got.len, 0);
    pl_queue_push(mate.end, &mate);
    pl_thread_join(&thread);
    assert_in_range(mate.n_given, 1, SLOW_BYTES - 1);
    pl_queue_destroy(&mate.end);
    pl_wire_close(&mate.socket);
}
