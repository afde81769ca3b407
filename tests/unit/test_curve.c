/* folder: base; label: integration */
/* Tests encrypted sockets: which keys can connect, and that both sides learn it if
 * a key is refused. */
#include "base/base.h"
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/wire_internal.h"
#include "tests/support/key_edits.h"
#include "tests/support/scratch.h"

enum { WAIT_MS = 60000, TYPE_ASK = 2, TYPE_COMMAND = 12, LONG_MS = 60000 };

static atomic_int n_refused;
static char last_reason[512], last_key[PL_PUBKEY_TEXT], last_trouble[2048];

static void note_trouble(const char *trouble)
{
    pl_copy_text(last_trouble, sizeof last_trouble, trouble);
}

static void note_refused(const pl_refusal *refusal)
{
    pl_copy_text(last_reason, sizeof last_reason, refusal->reason);
    pl_copy_text(last_key, sizeof last_key, refusal->key);
    atomic_fetch_add(&n_refused, 1);
}

/* Only administrators may send commands. */
static bool may(pl_key_role role, uint16_t type)
{
    return role == PL_AS_ADMIN || type != TYPE_COMMAND;
}

/* SHARE is how many messages of cost COST a full bucket allows (base/quota.h). */
enum { COST = 100, SHARE = 8000 / COST, SHARE_PER_S = 4000 / COST };

static unsigned cost(uint16_t type)
{
    return type == TYPE_ASK ? COST : 1;
}

typedef struct fixture {
    char list[80], address[PL_ADDRESS_MAX];
    pl_keypair server_keys, worker, admin, stranger;
    pl_socket *server;
} fixture;

static void allow(const fixture *f, const pl_keypair *pair, pl_key_role role)
{
    pl_key_entry e = {.key = pair->open, .role = role, .name = "x"};
    assert_ok(pl_key_list_edit(f->list, put_entry, &e));
}

static int set_up(void **state)
{
    fixture *f = pl_alloc(sizeof *f);
    assert_int_equal(make_scratch(NULL), 0);
    pl_copy_text(f->list, sizeof f->list, in_scratch("allow"));
    pl_keypair *pairs[] = {&f->server_keys, &f->worker, &f->admin, &f->stranger};
    for (int i = 0; i < 4; i++)
        pl_keypair_create(pairs[i]);
    allow(f, &f->worker, PL_AS_WORKER);
    allow(f, &f->admin, PL_AS_ADMIN);
    pl_wire_keys(&f->server_keys);
    atomic_store(&n_refused, 0);
    last_reason[0] = last_key[0] = '\0';
    pl_gate_options options = {.own = &f->server_keys,
                               .list = f->list,
                               .may = may,
                               .cost = cost,
                               .on_refused = note_refused,
                               .on_list = note_trouble};
    assert_ok(pl_gate_open(&options));
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &f->server, f->address));
    assert_non_null(strchr(f->address, '#'));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    OWNED(free_memory) fixture *f = *state;
    pl_wire_close(&f->server);
    pl_wire_shutdown();
    pl_wire_keys(NULL);
    assert_false(pl_gate_is_open());
    return remove_scratch(NULL);
}

/* Sends a question of this type. Runs the loops of both sides until the client has an
 * answer or an error. *peer gets the client as the server sees it. */
static pl_status converse(const fixture *f, pl_socket *client, uint16_t type,
                          pl_peer *peer)
{
    OWNED(pl_message_destroy) pl_message q, a, got;
    pl_status status = PL_ERR_TIMEOUT;
    pl_message_init(&q, type);
    pl_message_init(&a, TYPE_ASK);
    pl_message_init(&got, 0);
    q.request = pl_wire_next_request();
    assert_ok(pl_wire_send(client, &q));
    for (int64_t end = pl_now_ms() + WAIT_MS;
         status == PL_ERR_TIMEOUT && pl_now_ms() < end; pl_sleep_ms(2)) {
        if (pl_wire_recv(f->server, peer, &got) == PL_OK) {
            a.request = got.request;
            assert_ok(pl_wire_send_to(f->server, peer, &a));
        }
        status = pl_wire_recv(client, NULL, &got);
    }
    if (status == PL_OK && got.type == PL_WIRE_ERR) {
        pl_reader r;
        char text[256];
        pl_reader_open(&r, "answer", got.body.data, got.body.len);
        pl_get_text(&r, 2, 0, text, sizeof text);
        status = pl_fail((pl_status)pl_get_u64(&r, 1, 0), "%s", text);
    }
    return status;
}

static pl_status ask(const fixture *f, pl_socket *client)
{
    pl_peer peer;
    return converse(f, client, TYPE_ASK, &peer);
}

static pl_socket *connect_as(const fixture *f, const pl_keypair *keys)
{
    pl_socket *socket;
    assert_ok(pl_wire_connect_as(f->address, keys, &socket));
    return socket;
}

#define WITH_SERVER(name) PL_TEST_ON(name, fixture *f, set_up, tear_down)

WITH_SERVER(a_listed_key_gets_in_and_is_known_by_its_role)
{
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->worker);
    pl_peer peer;
    assert_ok(converse(f, client, TYPE_ASK, &peer));
    assert_int_equal(peer.role, PL_AS_WORKER);
    assert_true(pl_pubkey_equal(&peer.key, &f->worker.open));
    assert_int_equal(atomic_load(&n_refused), 0);
}

/* If a key sends messages faster than its quota allows (base/quota.h), the messages
 * above the quota are dropped and reported. Other keys are answered meanwhile, and this
 * key is answered again a little later. */
WITH_SERVER(a_key_that_asks_too_much_is_not_heard)
{
    pl_peer peer;
    OWNED(pl_message_destroy) pl_message q, got;
    int n = 0;
    pl_message_init(&q, TYPE_ASK);
    pl_message_init(&got, 0);
    allow(f, &f->stranger, PL_AS_WORKER);
    OWNED(pl_wire_close)
    pl_socket *client = connect_as(f, &f->worker), *other = connect_as(f, &f->stranger);
    assert_ok(converse(f, client, TYPE_ASK, &peer));
    const int64_t begun = pl_now_ms();
    for (int i = 0; i < 10 * SHARE; i++)
        assert_ok(pl_wire_send(client, &q));
    for (int64_t end = pl_now_ms() + WAIT_MS;
         pl_wire_counted(f->server)->refused + (uint64_t)n < 10 * SHARE &&
         pl_now_ms() < end;)
        n += pl_wire_recv(f->server, &peer, &got) == PL_OK;
    /* The quota is refilled meanwhile. */
    const int64_t refilled = 1 + SHARE_PER_S * (pl_now_ms() - begun) / 1000;
    assert_true(n >= SHARE - 1 && n <= SHARE + refilled);
    assert_int_equal(pl_wire_counted(f->server)->refused + (uint64_t)n, 10 * SHARE);
    assert_non_null(strstr(last_reason, "more than its share"));
    assert_ok(converse(f, other, TYPE_ASK, &peer));
    pl_sleep_ms(100);
    assert_ok(converse(f, client, TYPE_ASK, &peer));
}

WITH_SERVER(an_unknown_key_is_refused_on_both_sides)
{
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->stranger);
    char key[PL_PUBKEY_TEXT];
    assert_fails(ask(f, client), PL_ERR_NOPERM, "refuses the key");
    assert_int_equal(atomic_load(&n_refused), 1);
    pl_pubkey_format(&f->stranger.open, key);
    assert_string_equal(last_key, key);
}

/* Asks until the answer is `want`, for at most a minute: the server reads the list of
 * keys twice per second, if it gets a processor. */
static void await_status(const fixture *f, pl_socket *client, pl_status want)
{
    const int64_t end = pl_now_ms() + WAIT_MS;
    while (ask(f, client) != want) {
        assert_true(pl_now_ms() < end);
        pl_sleep_ms(50);
    }
}

WITH_SERVER(a_key_that_is_added_works_at_once_and_one_taken_out_no_more)
{
    OWNED(pl_wire_close) pl_socket *client;
    pl_pubkey key = f->stranger.open;
    allow(f, &f->stranger, PL_AS_WORKER);
    client = connect_as(f, &f->stranger);
    assert_ok(ask(f, client));
    assert_ok(pl_key_list_edit(f->list, drop_key, &key));
    await_status(f, client, PL_ERR_NOPERM);
    assert_said("taken out");
    assert_int_equal(atomic_load(&n_refused), 1);
    assert_int_equal(pl_wire_counted(f->server)->refused, 1);
    pl_wire_close(&client);
    client = connect_as(f, &f->stranger);
    assert_fails(ask(f, client), PL_ERR_NOPERM, "refuses the key");
}

/* ---- large messages travel in pieces ---- */
enum { PIECE = 48 << 10 }; /* docs/PROTOCOL.md, section 1 */

static void await_message(pl_socket *server, pl_peer *peer, pl_message *out)
{
    pl_status status = PL_ERR_TIMEOUT;
    for (int64_t end = pl_now_ms() + WAIT_MS;
         status == PL_ERR_TIMEOUT && pl_now_ms() < end; pl_sleep_ms(2))
        status = pl_wire_recv(server, peer, out);
    assert_ok(status);
}

static void fill(pl_buf *buf, size_t len, uint8_t seed)
{
    pl_buf_clear(buf);
    pl_buf_reserve(buf, len + 1);
    for (size_t i = 0; i < len; i++)
        buf->data[i] = (uint8_t)(i * 7 + i / 251 + seed);
    buf->len = len;
}

WITH_SERVER(messages_of_all_sizes_arrive_as_they_were_sent)
{
    static const size_t sizes[][2] = {
        {0, 0},         {0, 1},         {1, PIECE - 1},
        {PIECE, PIECE}, {PIECE + 1, 0}, {PL_WIRE_BODY_MAX, PIECE + 1},
        {9, 3 * PIECE}, {0, 70000},     {PL_WIRE_BODY_MAX, PL_WIRE_DATA_MAX}};
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->worker);
    OWNED(pl_message_destroy) pl_message m, got;
    pl_peer peer;
    OWNED(pl_buf_destroy) pl_buf data = {0};
    pl_message_init(&m, TYPE_ASK);
    pl_message_init(&got, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int given = 0; given < 2; given++) {
            m.request = i + 1;
            fill(&m.body, sizes[i][0], 1);
            fill(&m.data, sizes[i][1], 2);
            fill(&data, sizes[i][1], 2);
            assert_ok(given ? pl_wire_give_to(client, NULL, &m)
                            : pl_wire_send(client, &m));
            await_message(f->server, &peer, &got);
            assert_int_equal(got.request, i + 1);
            assert_int_equal(got.body.len, sizes[i][0]);
            assert_memory_equal(got.body.data, m.body.data, got.body.len);
            assert_int_equal(got.data.len, sizes[i][1]);
            assert_memory_equal(got.data.data, data.data, got.data.len);
            assert_int_equal(peer.role, PL_AS_WORKER);
        }
    assert_int_equal(pl_wire_counted(f->server)->dropped, 0);
}

/* Returns a ZeroMQ socket with the key of an admitted worker. It sends raw frames. */
static void *raw_client(const fixture *f, void *context)
{
    pl_address at;
    int none = 0;
    void *socket = zmq_socket(context, ZMQ_DEALER);
    assert_ok(pl_address_parse(f->address, &at));
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, at.key.bytes, PL_PUBKEY_BYTES);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, f->worker.open.bytes, PL_PUBKEY_BYTES);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, f->worker.secret, PL_PUBKEY_BYTES);
    assert_int_equal(zmq_connect(socket, at.endpoint), 0);
    return socket;
}

/* All pieces of a message but the last must have PIECE bytes; a message with other
 * pieces is dropped. Here the header announces no body and PIECE + 8 bytes of data. Its
 * checksum is wrong, but the checksum is checked last. */
WITH_SERVER(pieces_of_any_other_size_are_dropped)
{
    static uint8_t data[PIECE + 8];
    static const size_t cuts[][3] = {
        {PIECE + 8, 0, 0}, {PIECE - 1, 9, 0}, {PIECE, 7, 0}, {PIECE, 9, 0},
        {PIECE, 8, 1},     {PIECE, 0, 0},     {8, PIECE, 0}};
    uint8_t header[64] = {'P', 'L', 'W', '1', 1, 0, 2};
    void *context = zmq_ctx_new(), *socket = raw_client(f, context);
    OWNED(pl_message_destroy) pl_message got;
    pl_peer peer;
    pl_message_init(&got, 0);
    header[10] = 64;
    header[16] = 8;
    header[17] = PIECE >> 8;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        zmq_send(socket, header, sizeof header, ZMQ_SNDMORE);
        zmq_send(socket, "", 0, ZMQ_SNDMORE);
        for (int p = 0; p < 3 && (p == 0 || cuts[i][p] > 0); p++)
            zmq_send(socket, data, cuts[i][p],
                     p < 2 && cuts[i][p + 1] > 0 ? ZMQ_SNDMORE : 0);
    }
    size_t n = sizeof cuts / sizeof *cuts;
    for (int64_t end = pl_now_ms() + WAIT_MS;
         pl_wire_counted(f->server)->dropped < n && pl_now_ms() < end; pl_sleep_ms(2))
        assert_int_equal(pl_wire_recv(f->server, &peer, &got), PL_ERR_TIMEOUT);
    assert_int_equal(pl_wire_counted(f->server)->dropped, n);
    zmq_close(socket);
    zmq_ctx_term(context);
}

WITH_SERVER(what_ails_a_server_is_told_to_its_own_processes_alone)
{
    static const char secret[] = "/srv/job/store/000012.sst is damaged";
    const pl_keypair *askers[] = {&f->worker, &f->admin};
    for (int i = 0; i < 2; i++) {
        OWNED(pl_wire_close) pl_socket *client = connect_as(f, askers[i]);
        OWNED(pl_message_destroy) pl_message m, got;
        pl_peer peer;
        pl_message_init(&m, TYPE_ASK);
        pl_message_init(&got, 0);
        assert_ok(pl_wire_send(client, &m));
        await_message(f->server, &peer, &got);
        pl_wire_error(&got, 7, PL_ERR_DAMAGED, secret);
        assert_ok(pl_wire_give_to(f->server, &peer, &got));
        await_message(client, NULL, &got);
        assert_int_equal(got.request, 7);
        assert_int_equal(pl_wire_error_of(&got), PL_ERR_DAMAGED);
        assert_int_equal(strstr(pl_last_error(), "/srv") != NULL, i == 1);
    }
    assert_string_equal(last_reason, secret);
}

WITH_SERVER(a_key_that_is_revoked_is_refused_like_one_that_is_not_there)
{
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->worker);
    pl_pubkey key = f->worker.open;
    assert_ok(ask(f, client));
    assert_ok(pl_key_list_edit(f->list, revoke_key, &key));
    await_status(f, client, PL_ERR_NOPERM);
    pl_wire_close(&client);
    client = connect_as(f, &f->worker);
    assert_fails(ask(f, client), PL_ERR_NOPERM, "refuses the key");
}

WITH_SERVER(a_message_that_the_role_does_not_allow_never_reaches_the_caller)
{
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->worker);
    pl_peer peer = {.role = PL_AS_NONE};
    assert_fails(converse(f, client, TYPE_COMMAND, &peer), PL_ERR_NOPERM,
                 "role worker may not send");
    assert_int_equal(pl_wire_counted(f->server)->refused, 1);
    assert_ok(converse(f, client, TYPE_ASK, &peer));
    pl_wire_close(&client);
    client = connect_as(f, &f->admin);
    assert_ok(converse(f, client, TYPE_COMMAND, &peer));
}

WITH_SERVER(a_server_with_another_key_than_the_address_is_found_out)
{
    OWNED(pl_wire_close) pl_socket *client;
    pl_address at;
    char wrong[PL_ADDRESS_MAX];
    assert_ok(pl_address_parse(f->address, &at));
    pl_address_format(&at, "", &f->stranger.open, wrong);
    assert_ok(pl_wire_connect_as(wrong, &f->worker, &client));
    /* a tunnel in front of a server that is away ends handshakes in the same way */
    for (; client->n_broken < 6; pl_sleep_ms(2)) {
        pl_message m = {0};
        client->broken_ms = pl_now_ms();
        assert_int_equal(pl_wire_recv(client, NULL, &m), PL_ERR_TIMEOUT);
    }
    pl_message q = {.type = TYPE_ASK}, a = {0};
    assert_fails(pl_wire_ask(client, &q, 0, 1, &a), PL_ERR_TIMEOUT, "behind a tunnel");
    client->broken_ms -= 20000;
    assert_fails(ask(f, client), PL_ERR_NOPERM, "does not have the key");
    assert_true(atomic_load(&n_refused) >= 1);
}

/* A handshake takes four round trips, and a link with a queue needs seconds for one. */
WITH_SERVER(a_slow_link_leaves_time_for_a_handshake)
{
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->worker);
    int client_ms = 0, server_ms = 0;
    size_t size = sizeof client_ms;
    assert_int_equal(zmq_getsockopt(client->zmq, ZMQ_HANDSHAKE_IVL, &client_ms, &size),
                     0);
    assert_int_equal(
        zmq_getsockopt(f->server->zmq, ZMQ_HANDSHAKE_IVL, &server_ms, &size), 0);
    assert_in_range(server_ms, 4 * 3500, 60000);
    assert_in_range(client_ms, server_ms + 1, 60000);
}

WITH_SERVER(who_does_not_encrypt_is_refused_on_both_sides)
{
    OWNED(pl_wire_close) pl_socket *client;
    pl_peer peer;
    pl_address at;
    assert_ok(pl_address_parse(f->address, &at));
    assert_ok(pl_wire_connect(at.endpoint, &client));
    assert_fails(converse(f, client, TYPE_ASK, &peer), PL_ERR_NOPERM,
                 "is encrypted; give its whole address");
    for (int i = 0; i < 6000 && atomic_load(&n_refused) == 0; i++, pl_sleep_ms(10)) {
        pl_message m;
        pl_message_init(&m, 0);
        assert_int_equal(pl_wire_recv(f->server, &peer, &m), PL_ERR_TIMEOUT);
    }
    assert_non_null(strstr(last_reason, "does not encrypt"));
}

/* An attacker has put a server without encryption in the place of the real one. The
 * client must refuse it. */
WITH_SERVER(a_server_that_does_not_encrypt_is_not_spoken_to)
{
    void *context = zmq_ctx_new(), *impostor = zmq_socket(context, ZMQ_ROUTER);
    pl_socket *client;
    pl_address at;
    char text[PL_ADDRESS_MAX];
    size_t size = sizeof text;
    int none = 0;
    zmq_setsockopt(impostor, ZMQ_LINGER, &none, sizeof none);
    assert_int_equal(zmq_bind(impostor, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(impostor, ZMQ_LAST_ENDPOINT, text, &size), 0);
    assert_ok(pl_address_parse(text, &at));
    pl_address_format(&at, "", &f->server_keys.open, text);
    assert_ok(pl_wire_connect_as(text, &f->worker, &client));
    pl_message q, a;
    pl_message_init(&q, TYPE_ASK);
    pl_message_init(&a, 0);
    assert_int_equal(pl_wire_ask(client, &q, 100, LONG_MS, &a), PL_ERR_NOPERM);
    /* The client gets one of two errors; both contain these words. */
    assert_said("not encrypted");
    pl_wire_close(&client);
    zmq_close(impostor);
    zmq_ctx_term(context);
}

WITH_SERVER(an_address_with_a_key_needs_a_key_of_ones_own)
{
    pl_socket *client;
    pl_wire_keys(NULL);
    assert_fails(pl_wire_connect(f->address, &client), PL_ERR_CONFIG,
                 "pathloom key new");
    assert_null(client);
}

WITH_SERVER(other_machines_reach_an_encrypted_socket_by_its_key)
{
    OWNED(pl_wire_close) pl_socket *server;
    char bound[PL_ADDRESS_MAX], key[PL_PUBKEY_TEXT];
    pl_wire_advertise("10.11.12.13");
    assert_ok(pl_wire_bind("tcp://0.0.0.0:*", &server, bound));
    assert_true(pl_starts_with(bound, "tcp://10.11.12.13:"));
    pl_pubkey_format(&f->server_keys.open, key);
    assert_true(pl_ends_with(bound, key));
    pl_wire_advertise("");
}

WITH_SERVER(whoever_is_admitted_beside_the_list_gets_in)
{
    pl_gate_admit(&f->stranger.open, PL_AS_WORKER);
    pl_sleep_ms(100);
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->stranger);
    assert_ok(ask(f, client));
}

WITH_SERVER(a_bad_line_of_the_list_stops_nobody_else)
{
    pl_pubkey key = f->worker.open;
    FILE *out = fopen(f->list, "a");
    fprintf(out, "worker %.43s 0 0 zero\n",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    fclose(out);
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->worker);
    assert_ok(ask(f, client));
    for (int i = 0; i < 1200 && !strstr(last_trouble, "line 4"); i++)
        pl_sleep_ms(50); /* a file that is written in place is read a little later */
    assert_non_null(strstr(last_trouble, "line 4"));
    allow(f, &f->stranger, PL_AS_WORKER);
    OWNED(pl_wire_close) pl_socket *stranger = connect_as(f, &f->stranger);
    assert_ok(ask(f, stranger));
    assert_ok(pl_key_list_edit(f->list, revoke_key, &key));
    await_status(f, client, PL_ERR_NOPERM);
}

/* While the list cannot be read, no key can be revoked. Existing connections continue,
 * and new connections are only possible for keys of the job itself. Other clients try
 * again until the list can be read. */
WITH_SERVER(while_the_list_cannot_be_read_only_own_keys_connect)
{
    pl_key_entry e = {.key = f->stranger.open, .role = PL_AS_WORKER};
    const char *kept = in_scratch("kept");
    pl_copy_text(e.name, sizeof e.name, PL_KEY_OWN "worker");
    assert_ok(pl_key_list_edit(f->list, put_entry, &e));
    OWNED(pl_wire_close) pl_socket *before = connect_as(f, &f->worker);
    assert_ok(ask(f, before));
    assert_int_equal(rename(f->list, kept), 0);
    assert_int_equal(mkdir(f->list, 0700), 0); /* now even root cannot read the list */
    for (int i = 0; i < 1200 && !strstr(last_trouble, "revoking has no effect"); i++) {
        assert_ok(ask(f, before));
        pl_sleep_ms(50);
    }
    assert_non_null(strstr(last_trouble, "revoking has no effect"));
    assert_ok(ask(f, before));
    OWNED(pl_wire_close) pl_socket *own = connect_as(f, &f->stranger);
    assert_ok(ask(f, own));
    OWNED(pl_wire_close) pl_socket *after = connect_as(f, &f->admin);
    for (int i = 0; i < 1200 && atomic_load(&n_refused) == 0; i++)
        pl_sleep_ms(50);
    assert_non_null(strstr(last_reason, "while the list of keys cannot be read"));
    assert_true(pl_wire_lost_ms(after) > 0);
    assert_int_equal(rmdir(f->list), 0);
    pl_sleep_ms(700); /* a list that is missing has the same effect */
    assert_ok(ask(f, before));
    assert_true(pl_wire_lost_ms(after) > 0);
    assert_int_equal(rename(kept, f->list), 0);
    assert_ok(ask(f, after));
}

/* Somebody copies a list over the list: for a moment the file has no line. */
WITH_SERVER(a_list_that_is_written_in_place_ends_nobody)
{
    char key[PL_PUBKEY_TEXT];
    OWNED(pl_buf_destroy) pl_buf text = {0};
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->worker);
    assert_ok(ask(f, client));
    assert_ok(pl_read_file(f->list, &text));
    last_trouble[0] = '\0';
    OWNED(pl_wire_close) pl_socket *quick = NULL; /* its key comes in place */
    FILE *more = fopen(f->list, "a");
    pl_pubkey_format(&f->stranger.open, key);
    fprintf(more, "worker %s 0 0 quick\n", key);
    fclose(more);
    quick = connect_as(f, &f->stranger);
    assert_ok(ask(f, quick));
    assert_int_equal(atomic_load(&n_refused),
                     0); /* ZeroMQ waits 15 s after a refusal */
    assert_int_equal(truncate(f->list, 0), 0);
    for (int i = 0; i < 1200 && !strstr(last_trouble, "has no key any more"); i++) {
        assert_ok(ask(f, client));
        pl_sleep_ms(50);
    }
    assert_non_null(strstr(last_trouble, "has no key any more"));
    OWNED(pl_wire_close) pl_socket *other = connect_as(f, &f->admin);
    pl_sleep_ms(300);
    assert_true(pl_wire_lost_ms(other) > 0);
    FILE *out = fopen(f->list, "w");
    for (size_t i = 0; i < text.len; i++) {
        fputc(text.data[i], out);
        fflush(out);
        if (i % 64 == 0)
            assert_ok(ask(f, client));
    }
    fclose(out);
    assert_ok(ask(f, other));
    assert_ok(ask(f, client));
}

/* Ends the server, and opens a socket of ZeroMQ in its place. */
static void *take_place(fixture *f, void *context, int type)
{
    char endpoint[PL_ADDRESS_MAX];
    void *other = zmq_socket(context, type);
    const int64_t end = pl_now_ms() + WAIT_MS;
    pl_wire_close(&f->server);
    pl_copy_text(endpoint, sizeof endpoint, f->address);
    *strchr(endpoint, '#') = '\0';
    while (zmq_bind(other, endpoint) != 0) {
        assert_true(pl_now_ms() < end);
        pl_sleep_ms(10);
    }
    return other;
}

static void server_comes_back(fixture *f, pl_socket *client)
{
    char again[PL_ADDRESS_MAX], endpoint[PL_ADDRESS_MAX];
    pl_status status = PL_ERR_BUSY;
    pl_copy_text(endpoint, sizeof endpoint, f->address);
    *strchr(endpoint, '#') = '\0';
    const int64_t end = pl_now_ms() + WAIT_MS;
    for (; status != PL_OK && pl_now_ms() < end; pl_sleep_ms(10))
        status = pl_wire_bind(endpoint, &f->server, again);
    assert_ok(status);
    assert_string_equal(again, f->address);
    while (pl_wire_lost_ms(client) > 0) {
        assert_true(pl_now_ms() < end);
        pl_sleep_ms(10);
    }
    assert_ok(ask(f, client));
}

static pl_status drop_all(pl_key_list *list, void *context)
{
    (void)context;
    list->n = 0;
    return PL_OK;
}

static void await_none(const pl_pubkey *key)
{
    bool own;
    const int64_t start = pl_now_ms();
    while (pl_gate_role(key, &own) != PL_AS_NONE) {
        assert_true(pl_now_ms() - start < WAIT_MS);
        pl_sleep_ms(20);
    }
}

/* Some file systems give the new file the number of the file before the last one. A
 * revoked key goes at the next look, also if somebody writes the file all the time. */
WITH_SERVER(a_revoked_key_goes_however_the_list_is_written)
{
    pl_pubkey key = f->worker.open;
    for (int i = 0; i < 3; i++)
        allow(f, &f->stranger, PL_AS_WORKER);
    assert_ok(pl_key_list_edit(f->list, revoke_key, &key));
    await_none(&key);
    key = f->admin.open;
    assert_ok(pl_key_list_edit(f->list, revoke_key, &key));
    const int64_t start = pl_now_ms();
    for (bool own; pl_gate_role(&key, &own) != PL_AS_NONE; pl_sleep_ms(100)) {
        FILE *out = fopen(f->list, "a");
        fprintf(out, "# a remark\n");
        fclose(out);
        assert_true(pl_now_ms() - start < WAIT_MS);
    }
    key = f->stranger.open;
    last_trouble[0] = '\0';
    assert_ok(pl_key_list_edit(f->list, drop_all, NULL));
    await_none(&key);
    assert_string_equal(last_trouble, "");
}

/* ZeroMQ would never connect again after it has met such a process. */
WITH_SERVER(a_process_without_keys_in_the_servers_place_ends_nobody)
{
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->worker);
    OWNED(pl_message_destroy) pl_message got;
    void *context = zmq_ctx_new();
    pl_message_init(&got, 0);
    assert_ok(ask(f, client));
    void *plain = take_place(f, context, ZMQ_ROUTER);
    const int64_t end = pl_now_ms() + WAIT_MS;
    for (; client->seen != WIRE_OTHER_MECHANISM && pl_now_ms() < end; pl_sleep_ms(10))
        assert_int_equal(pl_wire_recv(client, NULL, &got), PL_ERR_TIMEOUT);
    assert_int_equal(client->seen, WIRE_OTHER_MECHANISM);
    zmq_close(plain);
    zmq_ctx_term(context);
    server_comes_back(f, client);
}

/* For example a proxy that answers 400 itself while the server behind it is away. */
WITH_SERVER(a_process_that_speaks_something_else_ends_nobody)
{
    static const char said[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    OWNED(pl_wire_close) pl_socket *client = connect_as(f, &f->worker);
    OWNED(pl_message_destroy) pl_message got;
    void *context = zmq_ctx_new();
    int n = 0;
    pl_message_init(&got, 0);
    assert_ok(ask(f, client));
    /* such a socket reports each connection, and its end, by a message without bytes */
    void *other = take_place(f, context, ZMQ_STREAM);
    for (const int64_t end = pl_now_ms() + WAIT_MS; n < 3 && pl_now_ms() < end;
         pl_sleep_ms(10)) {
        uint8_t id[256], bytes[256];
        assert_int_equal(pl_wire_recv(client, NULL, &got), PL_ERR_TIMEOUT);
        const int len = zmq_recv(other, id, sizeof id, ZMQ_DONTWAIT);
        if (len <= 0 || zmq_recv(other, bytes, sizeof bytes, 0) != 0)
            continue;
        n += zmq_send(other, id, (size_t)len, ZMQ_SNDMORE | ZMQ_DONTWAIT) == len &&
             zmq_send(other, said, sizeof said - 1, ZMQ_DONTWAIT) > 0;
    }
    assert_int_equal(n, 3);
    zmq_close(other);
    zmq_ctx_term(context);
    server_comes_back(f, client);
}

/* Forwards all bytes between a client and a server, and checks that they are not
 * readable. */
typedef struct wiretap {
    void *sockets[2];    /* toward the client, and toward the server */
    uint8_t ids[2][256]; /* routing id of the peer of each socket */
    size_t id_lens[2], n_seen;
} wiretap;

static void open_wiretap(wiretap *t, void *context, const char *server_at,
                         char *endpoint, size_t size)
{
    pl_address at;
    int none = 0;
    memset(t, 0, sizeof *t);
    for (int i = 0; i < 2; i++) {
        t->sockets[i] = zmq_socket(context, ZMQ_STREAM);
        zmq_setsockopt(t->sockets[i], ZMQ_LINGER, &none, sizeof none);
    }
    t->id_lens[1] = sizeof t->ids[1];
    assert_ok(pl_address_parse(server_at, &at));
    assert_int_equal(zmq_bind(t->sockets[0], "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(t->sockets[0], ZMQ_LAST_ENDPOINT, endpoint, &size),
                     0);
    assert_int_equal(zmq_connect(t->sockets[1], at.endpoint), 0);
    assert_int_equal(
        zmq_getsockopt(t->sockets[1], ZMQ_ROUTING_ID, t->ids[1], &t->id_lens[1]), 0);
}

/* Forwards one piece of bytes from one side to the other. */
static void pass_on(wiretap *t, int from)
{
    uint8_t bytes[8192];
    int len = zmq_recv(t->sockets[from], t->ids[from], sizeof t->ids[from], 0);
    int n = zmq_recv(t->sockets[from], bytes, sizeof bytes, 0);
    assert_true(len > 0 && n >= 0 && n <= (int)sizeof bytes);
    t->id_lens[from] = (size_t)len;
    if (n == 0)
        return;
    t->n_seen += (size_t)n;
    assert_null(memmem(bytes, (size_t)n, "nobody-may-read", 15));
    assert_null(memmem(bytes, (size_t)n, "PLW1", 4));
    zmq_send(t->sockets[!from], t->ids[!from], t->id_lens[!from], ZMQ_SNDMORE);
    zmq_send(t->sockets[!from], bytes, (size_t)n, 0);
}

WITH_SERVER(nothing_readable_is_on_the_wire)
{
    static const char secret[] = "a-sentence-that-nobody-may-read";
    wiretap tap;
    pl_address at;
    pl_socket *client;
    OWNED(pl_message_destroy) pl_message q, got;
    pl_peer peer;
    void *context = zmq_ctx_new();
    char text[PL_ADDRESS_MAX], through[PL_ADDRESS_MAX];
    open_wiretap(&tap, context, f->address, text, sizeof text);
    assert_ok(pl_address_parse(text, &at));
    pl_address_format(&at, "", &f->server_keys.open, through);
    assert_ok(pl_wire_connect_as(through, &f->worker, &client));
    pl_message_init(&q, TYPE_ASK);
    pl_message_init(&got, 0);
    pl_buf_append(&q.data, secret, sizeof secret);
    assert_ok(pl_wire_send(client, &q));
    bool arrived = false;
    for (int64_t end = pl_now_ms() + WAIT_MS; !arrived && pl_now_ms() < end;) {
        zmq_pollitem_t items[] = {{.socket = tap.sockets[0], .events = ZMQ_POLLIN},
                                  {.socket = tap.sockets[1], .events = ZMQ_POLLIN}};
        /* Until the client has connected, the server's bytes have no receiver. */
        zmq_poll(items, tap.id_lens[0] > 0 ? 2 : 1, 20);
        for (int i = 0; i < 2; i++)
            if (items[i].revents & ZMQ_POLLIN)
                pass_on(&tap, i);
        arrived = pl_wire_recv(f->server, &peer, &got) == PL_OK;
    }
    assert_true(arrived);
    assert_memory_equal(got.data.data, secret, sizeof secret);
    assert_true(tap.n_seen > 200);
    pl_wire_close(&client);
    for (int i = 0; i < 2; i++)
        zmq_close(tap.sockets[i]);
    zmq_ctx_term(context);
}
