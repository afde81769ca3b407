/* folder: home; label: integration
 *
 * Tests uploads: that no byte is sent twice while a connection lives, that an upload
 * goes on where it was after its connection broke, and that clients wait for room
 * without sending bytes. */
#include "home/home_internal.h"
#include "tests/support/end_wire.h"
#include "tests/support/home_fixture.h"

#include <stdatomic.h>

enum { BYTES = (3 << 20) + 4567, SHORT_PATIENCE_MS = 5000 };

/* A home that only receives uploads. The fields after `stop` are for its thread. */
typedef struct receiver {
    pl_socket *socket;
    char address[PL_ADDRESS_MAX];
    pl_thread *thread;
    atomic_bool stop;
    staging uploads;
    uint64_t bytes; /* of pieces that came */
    int n_asked;    /* questions for room */
    /* it ends and starts again when it has this many bytes of an upload; 0: never */
    uint64_t dies_at;
    bool forgets;        /* whether it then loses its uploads */
    int late_ms;         /* how long it waits before it answers the first piece */
    int full_ms;         /* how long it has no room */
    int64_t first_ms;    /* when it was first asked for room */
    uint64_t full_bytes; /* bytes that came while it had no room */
} receiver;

static uint8_t data[BYTES];

static pl_status take_put(receiver *h, pl_message *m, staging_blob **b)
{
    pl_msg_put_blob p;
    PL_CHECK(staging_read(m, &p));
    h->bytes += m->data.len;
    if (m->data.len > 0)
        return staging_put(&h->uploads, &p, &m->data, b);
    h->n_asked++;
    h->first_ms = h->first_ms ? h->first_ms : pl_now_ms();
    if (pl_now_ms() - h->first_ms < h->full_ms) {
        h->full_bytes = h->bytes;
        return pl_fail(PL_ERR_BUSY, "there is no room");
    }
    return staging_open(&h->uploads, &p, b);
}

static void answer_put(receiver *h, const pl_peer *peer, pl_message *m)
{
    staging_blob *b = NULL;
    OWNED(pl_message_destroy) pl_message a;
    pl_message_init(&a, 0);
    pl_status status = take_put(h, m, &b);
    if (h->late_ms > 0 && h->bytes > 0) {
        pl_sleep_ms(h->late_ms);
        h->late_ms = 0;
    }
    if (status == PL_OK)
        PL_SAY(&a, PUT_STATE, put_state, .offset = b->there);
    else
        pl_wire_error(&a, m->request, status, pl_last_error());
    a.request = m->request;
    (void)pl_wire_send_to(h->socket, peer, &a);
}

static void receive(void *context)
{
    receiver *h = context;
    OWNED(pl_message_destroy) pl_message m;
    pl_peer peer;
    pl_message_init(&m, 0);
    while (!atomic_load(&h->stop)) {
        bool ready;
        pl_wire_poll(&h->socket, 1, NULL, 0, 10, &ready);
        while (pl_wire_recv(h->socket, &peer, &m) == PL_OK) {
            if (h->dies_at > 0 && h->bytes >= h->dies_at) {
                char bound[PL_ADDRESS_MAX];
                h->dies_at = 0;
                staging_expire(&h->uploads, h->forgets);
                pl_wire_close(&h->socket);
                while (pl_wire_bind(h->address, &h->socket, bound) != PL_OK)
                    pl_sleep_ms(10); /* closing frees the address after a moment */
                break;
            }
            answer_put(h, &peer, &m);
        }
    }
}

/* Uploads the data to this home; `link` gets what the client measured. */
static void upload_to(receiver *h, int patience_ms, pl_link *link)
{
    const char *homes[] = {h->address};
    pl_client *client = NULL;
    pl_hash hash;
    h->uploads = (staging){.keeper = "the test", .key = "nothing", .limit = 64 << 20};
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &h->socket, h->address));
    assert_ok(pl_thread_start("home", receive, h, &h->thread));
    pl_client_options options = {
        .homes = homes, .n_homes = 1, .patience_ms = patience_ms};
    assert_ok(pl_client_create(&options, &client));
    assert_ok(pl_client_put_blob(client, "x", data, BYTES, &hash));
    pl_client_link(client, link);
    pl_client_destroy(&client);
    atomic_store(&h->stop, true);
    pl_thread_join(&h->thread);
    const staging_blob *b = staging_find(&h->uploads, &hash);
    assert_non_null(b);
    assert_memory_equal(b->data, data, BYTES);
    staging_expire(&h->uploads, true);
    pl_wire_close(&h->socket);
}

PL_TEST(a_late_acknowledgement_makes_no_piece_come_twice)
{
    receiver h = {.late_ms = 5000};
    pl_link link;
    upload_to(&h, PATIENCE_MS, &link);
    assert_int_equal(h.n_asked, 1);
    assert_int_equal(h.bytes, BYTES);
    assert_int_equal(link.up_bytes, BYTES);
    assert_int_equal(link.repeated_bytes, 0);
    assert_true(link.up_bytes_per_s > 0);
}

PL_TEST(after_a_broken_connection_an_upload_goes_on_where_the_home_is)
{
    receiver h = {.dies_at = BYTES / 2};
    pl_link link;
    upload_to(&h, PATIENCE_MS, &link);
    assert_int_equal(link.n_connects, 2);
    assert_int_equal(link.up_bytes, BYTES);
    assert_true(link.repeated_bytes < BYTES / 2);
    assert_true(h.bytes <= BYTES + link.repeated_bytes);
}

PL_TEST(a_home_that_lost_an_upload_gets_it_from_the_beginning)
{
    receiver h = {.dies_at = BYTES / 2, .forgets = true};
    pl_link link;
    upload_to(&h, PATIENCE_MS, &link);
    assert_true(link.repeated_bytes >= BYTES / 4);
}

PL_TEST(waiting_for_room_sends_no_bytes_and_needs_no_patience)
{
    receiver h = {.full_ms = 2 * SHORT_PATIENCE_MS};
    pl_link link;
    upload_to(&h, SHORT_PATIENCE_MS, &link);
    assert_int_equal(h.full_bytes, 0);
    assert_int_equal(h.bytes, BYTES);
    assert_true(link.n_full > 0);
    assert_true(h.n_asked <= 3 * h.full_ms / SHORT_PATIENCE_MS + 1);
}

/* A worker that is told ERR_NOMEM ends, because it believes that its own is short. */
PL_TEST(an_upload_waits_while_the_home_lacks_memory)
{
    const uint64_t more_than_there_is = UINT64_C(1) << 50;
    home_ticket ticket = {.total = more_than_there_is, .asked_ms = pl_now_ms()};
    char bound[PL_ADDRESS_MAX];
    home h = {.uploads = {.keeper = "the test",
                          .key = "nothing",
                          .limit = 2 * more_than_there_is},
              .room = {.tickets = &ticket, .n = 1}};
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &h.socket, bound));
    assert_ok(home_grant_room(&h));
    assert_int_equal(h.room.n, 1);
    assert_true(h.uploads.wanted);
    pl_wire_close(&h.socket);
}

static void ask_for_room(home *h, uint8_t key, uint64_t total)
{
    const home_ticket t = {.hash = {{key}},
                           .total = total,
                           .owner = {.token = key, .holder = {{key}}},
                           .asked_ms = pl_now_ms(),
                           .begun_ms = pl_now_ms()};
    h->room.tickets = pl_grow_items(h->room.tickets, h->room.n, h->room.n + 1,
                                    sizeof *h->room.tickets);
    h->room.tickets[h->room.n++] = t;
}

/* Keys reserve all room, some with whole uploads that no message names. */
PL_TEST(an_own_worker_gets_room_within_a_minute)
{
    enum { LIMIT = 16 << 20 };
    char bound[PL_ADDRESS_MAX];
    home h = {.uploads = {.keeper = "the test", .key = "nothing", .limit = LIMIT}};
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &h.socket, bound));
    for (uint8_t key = 1; key < 9; key++)
        ask_for_room(&h, key, LIMIT / 8);
    assert_ok(home_grant_room(&h));
    assert_int_equal(h.uploads.bytes, LIMIT);
    for (staging_blob *b = h.uploads.first; b; b = b->next)
        b->there = b->bytes;
    ask_for_room(&h, 0, LIMIT / 4); /* the room of two keys */
    ask_for_room(&h, 9, LIMIT / 8);
    assert_ok(home_grant_room(&h));
    assert_int_equal(h.room.n, 2);
    h.room.tickets[0].begun_ms -= 61000;
    assert_ok(home_grant_room(&h));
    assert_int_equal(h.room.n, 1);
    assert_int_equal(h.room.tickets[0].owner.token, 9);
    assert_int_equal(h.uploads.first->bytes, LIMIT / 4);
    staging_expire(&h.uploads, true);
    pl_free(h.room.tickets);
    pl_wire_close(&h.socket);
}

/* ---- many clients and a home with room for one of their uploads ---- */
enum { CLIENTS = 12, ROOM = 1 << 20, OBJECT = 700000 };

typedef struct sender {
    const char *address;
    int number;
    pl_thread *thread;
    pl_status status;
    pl_link link;
} sender;

static void send_object(void *context)
{
    sender *s = context;
    char name[32];
    pl_hash hash;
    OWNED(free_memory) uint8_t *bytes = pl_alloc(OBJECT);
    const char *homes[] = {s->address};
    OWNED(pl_client_destroy) pl_client *client = NULL;
    pl_client_options options = {.homes = homes, .n_homes = 1, .patience_ms = 60000};
    memset(bytes, s->number, OBJECT);
    snprintf(name, sizeof name, "bench/%d", s->number);
    s->status = pl_client_create(&options, &client);
    if (s->status == PL_OK)
        s->status = pl_client_put_object(client, name, bytes, OBJECT, &hash);
    if (s->status == PL_OK)
        pl_client_link(client, &s->link);
}

PL_TEST(clients_of_a_full_home_take_turns_and_send_each_byte_once)
{
    char dir[] = "/tmp/pl-upload-XXXXXX", store[PL_PATH_MAX];
    child keeper;
    sender s[CLIENTS] = {0};
    assert_non_null(mkdtemp(dir));
    name_child(&keeper, dir, "home", "home.address");
    pl_join(store, dir, "store");
    pl_copy_text(keeper.target, sizeof keeper.target, store);
    start_child(&keeper);
    for (int i = 0; i < CLIENTS; i++) {
        s[i].address = keeper.address;
        s[i].number = i;
        assert_ok(pl_thread_start("client", send_object, &s[i], &s[i].thread));
    }
    for (int i = 0; i < CLIENTS; i++) {
        pl_thread_join(&s[i].thread);
        assert_ok(s[i].status);
        assert_int_equal(s[i].link.up_bytes, OBJECT);
        assert_int_equal(s[i].link.repeated_bytes, 0);
    }
    kill_child(&keeper, SIGTERM);
    assert_ok(pl_remove_tree(dir));
}

static int make_data(void **state)
{
    (void)state;
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    return 0;
}

PL_CHILD(argc, argv)
{
    return run_child(argv, (pl_home_options){.staging_bytes = ROOM});
}

PL_SUITE(make_data, end_wire)
