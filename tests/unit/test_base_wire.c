/* folder: base; label: integration */
#include "base/base.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "tests/support/suite.h"

enum { WAIT_MS = 60000, HEADER = 64 };

/* The example of docs/PROTOCOL.md, section 1.1. */
static const uint8_t golden_header[HEADER] = {
    0x50, 0x4c, 0x57, 0x31, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00, 0x40, 0x00, 0x09,
    0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x83, 0x46, 0x37, 0x5a, 0x46, 0x23, 0xa0, 0x33};
static const uint8_t golden_body[] = {1, 0, 3, 0, 0, 0, 'a', 'b', 'c'};
static const uint8_t golden_data[] = {'x', 'y', 'z'};

static void golden_message(pl_message *out)
{
    pl_message_init(out, 2);
    out->request = 7;
    pl_put_text(&out->body, 1, "abc");
    pl_buf_append(&out->data, "xyz", 3);
}

typedef struct socket_pair {
    pl_socket *server, *client;
    char address[PL_ADDRESS_MAX];
} socket_pair;

static void open_pair(socket_pair *pair)
{
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &pair->server, pair->address));
    assert_ok(pl_wire_connect(pair->address, &pair->client));
}

static void close_pair(socket_pair *pair)
{
    pl_wire_close(&pair->client);
    pl_wire_close(&pair->server);
    assert_null(pair->server);
}

static void await_message(pl_socket *socket, pl_peer *peer, pl_message *out)
{
    bool ready;
    assert_int_equal(pl_wire_poll(&socket, 1, NULL, 0, WAIT_MS, &ready), 1);
    assert_true(ready);
    assert_ok(pl_wire_recv(socket, peer, out));
}

/* While data are under way, the kernel sends no keepalive probes. */
PL_TEST(server_notices_a_peer_that_vanished_while_data_are_under_way)
{
    OWNED(close_pair) socket_pair pair;
    pl_peer peer;
    OWNED(pl_message_destroy) pl_message m;
    pl_address at;
    int n_found = 0;
    open_pair(&pair);
    pl_message_init(&m, 2);
    assert_ok(pl_wire_send(pair.client, &m));
    await_message(pair.server, &peer, &m);
    assert_ok(pl_address_parse(pair.address, &at));
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in own, other;
        socklen_t len = sizeof own, other_len = sizeof other;
        int ms = 0;
        socklen_t ms_len = sizeof ms;
        if (getsockname(fd, (struct sockaddr *)&own, &len) != 0 ||
            own.sin_family != AF_INET || ntohs(own.sin_port) != at.port ||
            getpeername(fd, (struct sockaddr *)&other, &other_len) != 0)
            continue;
        n_found++;
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &ms_len),
                         0);
        assert_int_equal(ms, 60000);
    }
    assert_int_equal(n_found, 1);
}

/* Answers the first question after as many other messages. */
static void answer_slowly(void *of)
{
    enum { OTHERS = 8 };
    pl_socket *server = of;
    pl_peer peer;
    pl_message m = {0};
    await_message(server, &peer, &m);
    const uint64_t request = m.request;
    for (int i = 0; i < OTHERS; i++) {
        m.request = request + 1000;
        pl_sleep_ms(250);
        assert_ok(pl_wire_send_to(server, &peer, &m));
    }
    m.request = request;
    assert_ok(pl_wire_send_to(server, &peer, &m));
    pl_message_destroy(&m);
}

/* A question that is repeated meanwhile would make the link still slower. */
PL_TEST(answer_on_a_slow_link_is_waited_for_while_bytes_arrive)
{
    OWNED(close_pair) socket_pair pair;
    pl_thread *thread;
    pl_peer peer;
    pl_message q = {.type = 2, .request = pl_wire_next_request()}, a = {0}, again = {0};
    open_pair(&pair);
    assert_ok(pl_thread_start("server", answer_slowly, pair.server, &thread));
    assert_ok(pl_wire_ask(pair.client, &q, 1000, 1500, &a));
    pl_thread_join(&thread);
    assert_int_equal(pl_wire_recv(pair.server, &peer, &again), PL_ERR_TIMEOUT);
    pl_message_destroy(&a);
}

PL_TEST(messages_go_there_and_back)
{
    OWNED(close_pair) socket_pair pair;
    pl_peer peer;
    OWNED(pl_message_destroy) pl_message sent, got;
    open_pair(&pair);
    pl_message_init(&got, 0);
    golden_message(&sent);
    sent.epoch = UINT64_MAX;
    sent.token = 0x0102030405060708u;
    assert_ok(pl_wire_send(pair.client, &sent));
    await_message(pair.server, &peer, &got);
    assert_int_equal(got.type, 2);
    assert_true(got.request == 7 && got.epoch == sent.epoch && got.token == sent.token);
    assert_int_equal(got.body.len, sizeof golden_body);
    assert_memory_equal(got.body.data, golden_body, sizeof golden_body);
    assert_int_equal(got.data.len, 3);
    assert_memory_equal(got.data.data, "xyz", 3);
    pl_buf_clear(&got.data);
    assert_ok(pl_wire_send_to(pair.server, &peer, &got));
    await_message(pair.client, NULL, &got);
    assert_int_equal(got.data.len, 0);
    assert_true(pl_wire_counted(pair.client)->bytes_sent == 64 + 9 + 3);
    assert_true(pl_wire_counted(pair.client)->bytes_received == 64 + 9);
    assert_true(pl_wire_counted(pair.server)->dropped == 0);
}

PL_TEST(the_largest_message_passes_and_a_larger_one_is_our_error)
{
    OWNED(close_pair) socket_pair pair;
    pl_peer peer;
    OWNED(pl_message_destroy) pl_message sent, got;
    open_pair(&pair);
    pl_message_init(&got, 0);
    pl_message_init(&sent, 9);
    pl_buf_reserve(&sent.body, PL_WIRE_BODY_MAX + 1);
    pl_buf_reserve(&sent.data, PL_WIRE_DATA_MAX + 1);
    memset(sent.body.data, 1, PL_WIRE_BODY_MAX + 1);
    memset(sent.data.data, 2, PL_WIRE_DATA_MAX + 1);
    sent.body.len = PL_WIRE_BODY_MAX;
    sent.data.len = PL_WIRE_DATA_MAX;
    assert_ok(pl_wire_send(pair.client, &sent));
    await_message(pair.server, &peer, &got);
    assert_int_equal(got.data.len, PL_WIRE_DATA_MAX);
    sent.data.len++;
    assert_int_equal(pl_wire_send(pair.client, &sent), PL_ERR_ARG);
    sent.data.len = 0;
    sent.body.len++;
    assert_int_equal(pl_wire_send(pair.client, &sent), PL_ERR_ARG);
    assert_int_equal(pl_wire_ask(pair.client, &sent, 10, 10000, &got), PL_ERR_ARG);
}

static void send_filled(pl_socket *client, uint8_t fill, size_t len)
{
    OWNED(pl_message_destroy) pl_message m;
    pl_message_init(&m, 9);
    pl_buf_reserve(&m.data, len + 1);
    memset(m.data.data, fill, len);
    m.data.len = len;
    assert_ok(pl_wire_send(client, &m));
}

static void await_filled(pl_socket *server, pl_message *m, uint8_t fill, size_t len)
{
    bool ready;
    pl_peer peer;
    assert_int_equal(pl_wire_poll(&server, 1, NULL, 0, WAIT_MS, &ready), 1);
    assert_ok(pl_wire_recv_lent(server, &peer, m));
    assert_int_equal(m->data.len, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(m->data.data[i], fill);
}

PL_TEST(large_data_is_lent_until_the_message_is_used_again)
{
    socket_pair pair;
    pl_message got;
    pl_peer peer;
    open_pair(&pair);
    pl_message_init(&got, 0);
    for (uint8_t turn = 1; turn < 4; turn++) {
        send_filled(pair.client, turn, PL_WIRE_DATA_MAX);
        await_filled(pair.server, &got, turn, PL_WIRE_DATA_MAX);
        assert_non_null(got.lent);
        send_filled(pair.client, turn, 7); /* small data is copied into the message */
        await_filled(pair.server, &got, turn, 7);
        assert_null(got.lent);
        pl_buf_append(&got.data, "more", 4);
    }
    send_filled(pair.client, 8, PL_WIRE_DATA_MAX);
    await_filled(pair.server, &got, 8, PL_WIRE_DATA_MAX);
    assert_int_equal(pl_wire_recv_lent(pair.server, &peer, &got), PL_ERR_TIMEOUT);
    assert_null(got.lent);
    assert_int_equal(got.data.len, 0);
    send_filled(pair.client, 9, PL_WIRE_DATA_MAX);
    await_filled(pair.server, &got, 9, PL_WIRE_DATA_MAX);
    pl_wire_error(&got, 1, PL_ERR_BUSY, "an answer in its place");
    assert_null(got.lent);
    send_filled(pair.client, 9, PL_WIRE_DATA_MAX);
    await_filled(pair.server, &got, 9, PL_WIRE_DATA_MAX);
    close_pair(&pair); /* lent data stays valid after its socket was closed */
    assert_int_equal(got.data.data[PL_WIRE_DATA_MAX - 1], 9);
    pl_message_destroy(&got);
    assert_null(got.lent);
}

/* A plain ZeroMQ socket, which sends and receives raw frames. */
typedef struct raw_socket {
    void *context, *socket;
} raw_socket;

static void open_stranger(raw_socket *stranger, int type, const char *address)
{
    stranger->context = zmq_ctx_new();
    stranger->socket = zmq_socket(stranger->context, type);
    if (type == ZMQ_DEALER)
        assert_int_equal(zmq_connect(stranger->socket, address), 0);
    else
        assert_int_equal(zmq_bind(stranger->socket, address), 0);
}

static void close_stranger(raw_socket *stranger)
{
    zmq_close(stranger->socket);
    zmq_ctx_term(stranger->context);
}

static void send_raw(void *socket, const void *data, size_t len, bool more)
{
    assert_int_equal(zmq_send(socket, data, len, more ? ZMQ_SNDMORE : 0), len);
}

/* A server and a stranger that sends raw frames to it. */
typedef struct ambush {
    pl_socket *server;
    raw_socket stranger;
} ambush;

static void open_ambush(ambush *a)
{
    char address[PL_ADDRESS_MAX];
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &a->server, address));
    open_stranger(&a->stranger, ZMQ_DEALER, address);
}

static void close_ambush(ambush *a)
{
    close_stranger(&a->stranger);
    pl_wire_close(&a->server);
}

/* Sends the first bytes of the golden message's frames. */
static void send_cut(void *socket, size_t header, size_t body, size_t data)
{
    send_raw(socket, golden_header, header, true);
    send_raw(socket, golden_body, body, true);
    send_raw(socket, golden_data, data, false);
}

PL_TEST(a_message_has_the_bytes_of_the_protocol)
{
    OWNED(close_stranger) raw_socket server;
    OWNED(pl_wire_close) pl_socket *client;
    OWNED(pl_message_destroy) pl_message sent;
    uint8_t frame[256];
    char address[PL_ADDRESS_MAX];
    size_t size = sizeof address;
    open_stranger(&server, ZMQ_ROUTER, "tcp://127.0.0.1:*");
    zmq_getsockopt(server.socket, ZMQ_LAST_ENDPOINT, address, &size);
    assert_ok(pl_wire_connect(address, &client));
    golden_message(&sent);
    assert_ok(pl_wire_send(client, &sent));
    zmq_recv(server.socket, frame, sizeof frame, 0); /* reads the routing id */
    assert_int_equal(zmq_recv(server.socket, frame, sizeof frame, 0), HEADER);
    assert_memory_equal(frame, golden_header, HEADER);
    assert_int_equal(zmq_recv(server.socket, frame, sizeof frame, 0), 9);
    assert_memory_equal(frame, golden_body, 9);
    assert_int_equal(zmq_recv(server.socket, frame, sizeof frame, 0), 3);
    assert_memory_equal(frame, golden_data, 3);
}

/* Sends a correct message, which must arrive. Before it, the server must have dropped
 * `n` messages. */
static void expect_dropped(pl_socket *server, void *stranger, uint64_t n)
{
    OWNED(pl_message_destroy) pl_message got;
    pl_peer peer;
    pl_message_init(&got, 0);
    send_cut(stranger, HEADER, sizeof golden_body, sizeof golden_data);
    pl_status status = PL_ERR_TIMEOUT;
    for (int64_t end = pl_now_ms() + WAIT_MS; status != PL_OK && pl_now_ms() < end;) {
        bool ready;
        pl_wire_poll(&server, 1, NULL, 0, 100, &ready);
        status = pl_wire_recv(server, &peer, &got);
    }
    assert_ok(status);
    assert_true(got.request == 7); /* no other message came before this one */
    assert_int_equal(got.data.len, 3);
    assert_true(pl_wire_counted(server)->dropped == n);
    assert_int_equal(pl_wire_recv(server, &peer, &got), PL_ERR_TIMEOUT);
}

PL_TEST(a_message_with_any_bit_flipped_is_dropped)
{
    OWNED(close_ambush) ambush a;
    open_ambush(&a);
    uint64_t n = 0;
    enum { TOTAL = HEADER + sizeof golden_body + sizeof golden_data };
    for (size_t bit = 0; bit < 8 * TOTAL; bit++) {
        uint8_t bytes[TOTAL];
        memcpy(bytes, golden_header, HEADER);
        memcpy(bytes + HEADER, golden_body, sizeof golden_body);
        memcpy(bytes + HEADER + sizeof golden_body, golden_data, sizeof golden_data);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        send_raw(a.stranger.socket, bytes, HEADER, true);
        send_raw(a.stranger.socket, bytes + HEADER, sizeof golden_body, true);
        send_raw(a.stranger.socket, bytes + TOTAL - 3, 3, false);
        n++;
        if (n % 200 == 0)
            expect_dropped(a.server, a.stranger.socket, n);
    }
    expect_dropped(a.server, a.stranger.socket, n);
}

PL_TEST(a_message_cut_at_any_length_is_dropped)
{
    OWNED(close_ambush) ambush a;
    open_ambush(&a);
    uint64_t n = 0;
    for (size_t len = 0; len < HEADER; len++, n++)
        send_cut(a.stranger.socket, len, sizeof golden_body, sizeof golden_data);
    for (size_t len = 0; len < sizeof golden_body; len++, n++)
        send_cut(a.stranger.socket, HEADER, len, sizeof golden_data);
    for (size_t len = 0; len < sizeof golden_data; len++, n++)
        send_cut(a.stranger.socket, HEADER, sizeof golden_body, len);
    expect_dropped(a.server, a.stranger.socket, n);
}

PL_TEST(one_two_and_four_frames_are_dropped)
{
    OWNED(close_ambush) ambush a;
    open_ambush(&a);
    send_raw(a.stranger.socket, "", 0, false);
    send_raw(a.stranger.socket, golden_header, HEADER, false);
    send_raw(a.stranger.socket, golden_header, HEADER, true);
    send_raw(a.stranger.socket, golden_body, sizeof golden_body, false);
    for (int extra = 1; extra < 40; extra += 13) {
        send_raw(a.stranger.socket, golden_header, HEADER, true);
        send_raw(a.stranger.socket, golden_body, sizeof golden_body, true);
        for (int i = 0; i < extra; i++)
            send_raw(a.stranger.socket, golden_data, sizeof golden_data, true);
        send_raw(a.stranger.socket, golden_data, sizeof golden_data, false);
    }
    expect_dropped(a.server, a.stranger.socket, 6);
}

/* Sends a header with a correct checksum, so that only one field can be wrong. */
static void send_summed(void *socket, const uint8_t header[HEADER], size_t data_len)
{
    uint8_t copy[HEADER];
    memcpy(copy, header, HEADER);
    memset(copy + 56, 0, 8);
    pl_piece pieces[] = {{copy, HEADER}, {golden_body, 9}, {golden_data, data_len}};
    uint64_t sum = pl_checksum_pieces(pieces, 3);
    for (int i = 0; i < 8; i++)
        copy[56 + i] = (uint8_t)(sum >> 8 * i);
    send_raw(socket, copy, HEADER, true);
    send_raw(socket, golden_body, 9, true);
    send_raw(socket, golden_data, data_len, false);
}

PL_TEST(a_good_checksum_does_not_excuse_a_bad_field)
{
    static const size_t bad_fields[] = {0,  3,  4,  8,  9,  10, 11, 12,
                                        15, 16, 19, 20, 23, 48, 55};
    OWNED(close_ambush) ambush a;
    uint8_t header[HEADER];
    open_ambush(&a);
    size_t n = sizeof bad_fields / sizeof *bad_fields;
    for (size_t i = 0; i < n; i++) {
        memcpy(header, golden_header, HEADER);
        header[bad_fields[i]] ^= 0x81;
        send_summed(a.stranger.socket, header, 3);
    }
    memcpy(header, golden_header, HEADER);
    header[16] = 0; /* no data is announced, but a third frame comes */
    send_summed(a.stranger.socket, header, 0);
    expect_dropped(a.server, a.stranger.socket, n + 1);
}

PL_TEST(a_later_minor_version_is_understood)
{
    OWNED(close_ambush) ambush a;
    OWNED(pl_message_destroy) pl_message got;
    uint8_t header[HEADER];
    open_ambush(&a);
    memcpy(header, golden_header, HEADER);
    header[5] = 9;
    send_summed(a.stranger.socket, header, 3);
    pl_message_init(&got, 0);
    await_message(a.server, &(pl_peer){.len = 0}, &got);
    assert_true(got.request == 7);
}

PL_TEST(without_encryption_only_this_machine_is_reached)
{
    static const char *const bad[] = {"tcp://0.0.0.0:5555",
                                      "tcp://*:5555",
                                      "tcp://192.168.1.1:5555",
                                      "tcp://127.0.0.1.example.org:5555",
                                      "tcp://127.0.0.1:0;192.168.1.1:5555",
                                      "tcp://127.0.0.1:",
                                      "tcp://127.0.0.1:123456",
                                      "tcp://localhost:5555",
                                      "tcp://[::]:5555",
                                      "tcp://[::1:5555",
                                      "tcp://:5555",
                                      "tcp://127.0.0.1:5555#key",
                                      "ipc://",
                                      "inproc://x",
                                      "pgm://eth0;239.192.1.1:5555",
                                      ""};
    pl_socket *socket;
    char bound[PL_ADDRESS_MAX];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pl_status expected =
            i + 3 < sizeof bad / sizeof *bad ? PL_ERR_CONFIG : PL_ERR_UNSUPPORTED;
        assert_int_equal(pl_wire_bind(bad[i], &socket, bound), expected);
        assert_null(socket);
        assert_int_equal(pl_wire_connect(bad[i], &socket), expected);
        assert_null(socket);
    }
}

PL_TEST(a_port_in_use_is_busy_and_named)
{
    OWNED(pl_wire_close) pl_socket *first, *second;
    char bound[PL_ADDRESS_MAX], none[PL_ADDRESS_MAX];
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &first, bound));
    assert_true(pl_starts_with(bound, "tcp://127.0.0.1:"));
    assert_false(pl_ends_with(bound, "*"));
    assert_fails(pl_wire_bind(bound, &second, none), PL_ERR_BUSY, bound);
    assert_null(second);
}

PL_TEST(unix_sockets_and_ipv6_work_too)
{
    char folder[] = "/tmp/pl-wire-XXXXXX", ipc[64];
    assert_non_null(mkdtemp(folder));
    snprintf(ipc, sizeof ipc, "ipc://%s/hub", folder);
    const char *addresses[] = {ipc, "tcp://[::1]:*"};
    for (int i = 0; i < 2; i++) {
        socket_pair pair;
        OWNED(pl_message_destroy) pl_message message = {0};
        if (pl_wire_bind(addresses[i], &pair.server, pair.address) != PL_OK) {
            assert_int_equal(i, 1); /* this machine does not have IPv6 */
            continue;
        }
        assert_ok(pl_wire_connect(pair.address, &pair.client));
        pl_message_init(&message, 5);
        assert_ok(pl_wire_send(pair.client, &message));
        await_message(pair.server, &(pl_peer){.len = 0}, &message);
        close_pair(&pair);
    }
    assert_int_equal(rmdir(folder), 0); /* the file of the socket was removed */
}

PL_TEST(a_private_address_lies_where_only_its_owner_can_go)
{
    pl_socket *server, *other;
    struct stat info;
    char bound[PL_ADDRESS_MAX], second[PL_ADDRESS_MAX], folder[PL_PATH_MAX];
    assert_ok(pl_wire_bind(PL_ADDRESS_PRIVATE, &server, bound));
    assert_true(pl_starts_with(bound, "ipc:///"));
    pl_path_above(folder, bound + strlen("ipc://"));
    assert_int_equal(stat(folder, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_ok(pl_wire_bind(PL_ADDRESS_PRIVATE, &other, second));
    assert_string_not_equal(bound, second);
    pl_wire_close(&other);
    pl_wire_close(&server);
    assert_int_not_equal(stat(folder, &info), 0); /* the folder was removed */
}

/* The address of a socket in a given folder is absolute, and only the owner can enter
 * the folder. If the path is too long, the address is PL_ADDRESS_PRIVATE. */
PL_TEST(an_address_in_a_folder_is_absolute_and_shut)
{
    char above[] = "/tmp/pl-wire-XXXXXX", folder[64], deep[160], at[PL_ADDRESS_MAX],
         beside[PL_ADDRESS_MAX];
    struct stat info;
    assert_non_null(mkdtemp(above));
    snprintf(folder, sizeof folder, "%s/ipc", above);
    pl_address_in_folder(folder, "hub", at);
    assert_true(pl_starts_with(at, "ipc:///") && pl_ends_with(at, "/ipc/hub.sock"));
    assert_int_equal(stat(folder, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    pl_address_beside(at, "worker-1", beside);
    assert_true(pl_ends_with(beside, "/ipc/worker-1.sock"));
    pl_address_beside("tcp://127.0.0.1:1", "worker-1", beside);
    assert_string_equal(beside, PL_ADDRESS_PRIVATE);
    snprintf(deep, sizeof deep, "%s/%0100d", above, 0); /* too long for a socket */
    pl_address_in_folder(deep, "hub", at);
    assert_string_equal(at, PL_ADDRESS_PRIVATE);
    assert_ok(pl_remove_tree(above));
}

PL_TEST(a_socket_of_the_living_is_left_to_them_and_one_of_the_dead_is_not)
{
    char folder[] = "/tmp/pl-wire-XXXXXX", ipc[64], file[64];
    const char *path = ipc + strlen("ipc://");
    socket_pair pair;
    pl_socket *thief;
    OWNED(pl_message_destroy) pl_message m;
    char bound[PL_ADDRESS_MAX];
    assert_non_null(mkdtemp(folder));
    snprintf(ipc, sizeof ipc, "ipc://%s/hub", folder);
    assert_ok(pl_wire_bind(ipc, &pair.server, pair.address));
    assert_int_equal(pl_wire_bind(ipc, &thief, bound), PL_ERR_BUSY);
    assert_int_equal(pl_wire_check_free(ipc), PL_ERR_BUSY);
    assert_ok(pl_wire_connect(pair.address, &pair.client));
    pl_message_init(&m, 5);
    assert_ok(pl_wire_send(pair.client, &m));
    await_message(pair.server, &(pl_peer){.len = 0}, &m);
    close_pair(&pair);

    struct sockaddr_un at = {.sun_family = AF_UNIX};
    pl_copy_text(at.sun_path, sizeof at.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const void *)&at, sizeof at), 0);
    close(fd); /* the file remains, as if the process had been killed */
    assert_true(pl_path_exists(path));
    assert_ok(pl_wire_bind(ipc, &pair.server, pair.address));
    pl_wire_close(&pair.server);

    snprintf(file, sizeof file, "%s/thesis", folder);
    assert_ok(pl_replace_file(file, "words", 5));
    snprintf(ipc, sizeof ipc, "ipc://%s/thesis", folder);
    assert_int_equal(pl_wire_bind(ipc, &thief, bound), PL_ERR_EXISTS);
    assert_true(pl_path_exists(file));
    assert_ok(pl_remove_tree(folder));
}

PL_TEST(a_vanished_peer_is_an_error)
{
    OWNED(close_pair) socket_pair pair;
    pl_peer peer;
    OWNED(pl_message_destroy) pl_message message;
    open_pair(&pair);
    pl_message_init(&message, 5);
    assert_ok(pl_wire_send(pair.client, &message));
    await_message(pair.server, &peer, &message);
    pl_wire_close(&pair.client);
    pl_status status = PL_OK;
    for (int i = 0; i < 500 && status == PL_OK; i++) {
        status = pl_wire_send_to(pair.server, &peer, &message);
        pl_sleep_ms(10);
    }
    assert_int_equal(status, PL_ERR_NET);
}

PL_TEST(a_full_queue_is_an_error_and_never_a_wait)
{
    OWNED(pl_wire_close) pl_socket *client;
    OWNED(pl_message_destroy) pl_message message;
    char address[PL_ADDRESS_MAX];
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &client, address));
    pl_wire_close(&client); /* no process listens on this port */
    assert_ok(pl_wire_connect(address, &client));
    pl_message_init(&message, 5);
    pl_status status = PL_OK;
    int n_sent = 0;
    for (; n_sent < 5000 && status == PL_OK; n_sent++)
        status = pl_wire_send(client, &message);
    assert_int_equal(status, PL_ERR_NET);
    assert_in_range(n_sent, 900, 2100);
}

/* Answers only the third copy of a question: first with a wrong request number. */
typedef struct deaf_server {
    pl_socket *socket;
    int n_heard;
    pl_status answer; /* with PL_OK the server sends the question back */
} deaf_server;

static void deaf_server_run(void *context)
{
    deaf_server *server = context;
    OWNED(pl_message_destroy) pl_message message;
    pl_peer peer;
    pl_message_init(&message, 0);
    while (server->n_heard < 3) {
        bool ready;
        if (!pl_wire_poll(&server->socket, 1, NULL, 0, WAIT_MS, &ready))
            break;
        server->n_heard += pl_wire_recv(server->socket, &peer, &message) == PL_OK;
    }
    uint64_t request = message.request;
    message.request = request + 1000;
    pl_status status = pl_wire_send_to(server->socket, &peer, &message);
    message.request = request;
    if (server->answer != PL_OK)
        pl_wire_error(&message, request, server->answer, "no such blob");
    if (status == PL_OK)
        status = pl_wire_send_to(server->socket, &peer, &message);
    if (status != PL_OK)
        server->n_heard = -1;
}

static pl_status ask_deaf_server(pl_status answer_with, pl_message *answer)
{
    OWNED(close_pair) socket_pair pair;
    OWNED(pl_message_destroy) pl_message question;
    pl_thread *thread;
    open_pair(&pair);
    deaf_server server = {.socket = pair.server, .answer = answer_with};
    assert_ok(pl_thread_start("server", deaf_server_run, &server, &thread));
    golden_message(&question);
    question.request = pl_wire_next_request();
    pl_status status = pl_wire_ask(pair.client, &question, 30, WAIT_MS, answer);
    pl_thread_join(&thread);
    assert_int_equal(server.n_heard, 3);
    assert_true(answer->request == question.request);
    return status;
}

PL_TEST(asking_sends_again_until_its_own_answer_comes)
{
    OWNED(pl_message_destroy) pl_message answer;
    pl_message_init(&answer, 0);
    assert_ok(ask_deaf_server(PL_OK, &answer));
    assert_int_equal(answer.type, 2);
    assert_memory_equal(answer.data.data, "xyz", 3);
}

PL_TEST(an_error_answer_becomes_status_and_sentence)
{
    OWNED(pl_message_destroy) pl_message answer;
    pl_message_init(&answer, 0);
    assert_int_equal(ask_deaf_server(PL_ERR_NOT_FOUND, &answer), PL_ERR_NOT_FOUND);
    assert_string_equal(pl_last_error(), "no such blob");
    assert_int_equal(ask_deaf_server((pl_status)200, &answer), PL_ERR_PROTO);
}

PL_TEST(asking_nobody_ends_in_time)
{
    OWNED(pl_wire_close) pl_socket *client;
    OWNED(pl_message_destroy) pl_message question, answer;
    assert_ok(pl_wire_connect("tcp://127.0.0.1:1", &client));
    pl_message_init(&question, 5);
    pl_message_init(&answer, 0);
    int64_t before = pl_now_ms();
    assert_int_equal(pl_wire_ask(client, &question, 20, 100, &answer), PL_ERR_NET);
    assert_true(pl_now_ms() - before >= 100);
    assert_said("nothing listens at tcp://127.0.0.1:1");
}

PL_TEST(polling_tells_sockets_from_descriptors)
{
    OWNED(close_pair) socket_pair pair;
    OWNED(pl_message_destroy) pl_message message;
    bool ready[3];
    int fd = eventfd(0, EFD_NONBLOCK);
    open_pair(&pair);
    pl_socket *sockets[] = {pair.server, pair.client};
    assert_int_equal(pl_wire_poll(sockets, 2, &fd, 1, 0, ready), 0);
    assert_false(ready[0] || ready[1] || ready[2]);
    eventfd_write(fd, 1);
    assert_int_equal(pl_wire_poll(sockets, 2, &fd, 1, WAIT_MS, ready), 1);
    assert_true(!ready[0] && !ready[1] && ready[2]);
    pl_message_init(&message, 5);
    assert_ok(pl_wire_send(pair.client, &message));
    eventfd_t drained;
    eventfd_read(fd, &drained);
    assert_int_equal(pl_wire_poll(sockets, 2, &fd, 1, WAIT_MS, ready), 1);
    assert_true(ready[0] && !ready[1] && !ready[2]);
    close(fd);
}

PL_TEST(request_numbers_never_repeat)
{
    uint64_t last = pl_wire_next_request();
    for (int i = 0; i < 100; i++) {
        uint64_t next = pl_wire_next_request();
        assert_true(next > last);
        last = next;
    }
}

static int shut_down(void **state)
{
    (void)state;
    pl_wire_shutdown();
    pl_wire_shutdown();
    return 0;
}

static bool is_connected(pl_socket *client, uint64_t times)
{
    int64_t start = pl_now_ms();
    pl_wire_line line = {0};
    for (; line.n_connects < times && pl_now_ms() - start < WAIT_MS; pl_sleep_ms(10))
        pl_wire_line_now(client, &line);
    return line.n_connects == times;
}

PL_TEST(client_sees_that_its_server_has_started_again)
{
    OWNED(close_pair) socket_pair pair;
    OWNED(pl_message_destroy) pl_message m, got;
    pl_peer peer;
    char bound[PL_ADDRESS_MAX];
    pl_wire_line line;
    open_pair(&pair);
    pl_message_init(&got, 0);
    golden_message(&m);
    assert_ok(pl_wire_send(pair.client, &m));
    await_message(pair.server, &peer, &got);
    pl_wire_line_now(pair.client, &line);
    assert_int_equal(line.n_connects, 1);
    assert_true(line.is_connected && line.confirmed_bytes > 0 && line.rtt_us > 0);
    for (uint64_t i = 2; i < 4; i++) {
        pl_wire_close(&pair.server);
        pl_status status;
        do /* closing frees the address only after a moment */
            status = pl_wire_bind(pair.address, &pair.server, bound);
        while (status == PL_ERR_BUSY);
        assert_ok(status);
        assert_true(is_connected(pair.client, i));
    }
}

PL_SUITE(NULL, shut_down)
