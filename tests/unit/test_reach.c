/* folder: base; label: unit
 *
 * Tests that a server that cannot be reached is reported with the reason, for how long
 * a connection has been lost, that a message of a different version is refused, and
 * that the check of a free port answers nobody. */
#include "base/base.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "tests/support/suite.h"

/* Binds a TCP socket at a free port of the loopback. */
static int bind_port(char address[PL_ADDRESS_MAX])
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    snprintf(address, PL_ADDRESS_MAX, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

PL_TEST(port_where_nothing_listens_is_named)
{
    char address[PL_ADDRESS_MAX];
    int fd = bind_port(address); /* bound, so no other process gets it */
    assert_fails(pl_wire_reach(address, 5000), PL_ERR_NET,
                 "nothing listens at tcp://127.0.0.1:");
    assert_int_equal(listen(fd, 8), 0);
    assert_ok(pl_wire_reach(address, 5000));
    close(fd);
}

/* If the queue of new connections is full, the kernel drops further ones in silence. */
PL_TEST(silent_machine_is_named)
{
    enum { CLIENTS = 16 };
    char address[PL_ADDRESS_MAX];
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    int clients[CLIENTS], fd = bind_port(address);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(clients[i], (struct sockaddr *)&at, sizeof at);
    }
    assert_fails(pl_wire_reach(address, 300), PL_ERR_TIMEOUT,
                 "did not answer within 1 s");
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    close(fd);
}

/* A machine without a name service cannot tell that a name does not exist; its sentence
 * says so. */
PL_TEST(name_that_does_not_exist_is_named)
{
    assert_fails(pl_wire_reach("tcp://no-such-machine.invalid:7000", 1000), PL_ERR_NET,
                 "no-such-machine.invalid");
    assert_said("name service");
}

PL_TEST(answer_to_nobody_names_the_reason)
{
    char address[PL_ADDRESS_MAX];
    OWNED(pl_wire_close) pl_socket *client = NULL;
    OWNED(pl_message_destroy) pl_message q, a;
    int fd = bind_port(address);
    pl_message_init(&q, 2);
    pl_message_init(&a, 0);
    assert_ok(pl_wire_connect(address, &client));
    assert_fails(pl_wire_ask(client, &q, 100, 300, &a), PL_ERR_NET, "nothing listens");
    close(fd);
}

/* Also in the millisecond in which the socket was opened. */
PL_TEST(socket_without_connection_never_counts_as_connected)
{
    char address[PL_ADDRESS_MAX];
    int fd = bind_port(address);
    for (int i = 0; i < 50; i++) {
        OWNED(pl_wire_close) pl_socket *client = NULL;
        assert_ok(pl_wire_connect(address, &client));
        assert_true(pl_wire_lost_ms(client) > 0);
    }
    close(fd);
}

PL_TEST(lost_connection_is_noticed_and_made_again)
{
    char address[PL_ADDRESS_MAX], again[PL_ADDRESS_MAX];
    OWNED(pl_wire_close) pl_socket *server = NULL, *client = NULL;
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &server, address));
    assert_ok(pl_wire_connect(address, &client));
    for (int i = 0; i < 6000 && pl_wire_lost_ms(client) > 0; i++)
        pl_sleep_ms(10);
    assert_true(pl_wire_lost_ms(client) == 0);
    pl_wire_close(&server);
    for (int i = 0; i < 6000 && pl_wire_lost_ms(client) == 0; i++)
        pl_sleep_ms(10);
    pl_sleep_ms(50);
    assert_true(pl_wire_lost_ms(client) >= 50);
    for (int i = 0; i < 6000 && !server; i++)
        if (pl_wire_bind(address, &server, again) != PL_OK)
            pl_sleep_ms(10);
    for (int i = 0; i < 6000 && pl_wire_lost_ms(client) > 0; i++)
        pl_sleep_ms(10);
    assert_true(pl_wire_lost_ms(client) == 0);
}

PL_TEST(addresses_of_one_network_are_private)
{
    static const struct {
        const char *address;
        bool is_private;
    } cases[] = {
        {"tcp://10.1.2.3:7000", true},      {"tcp://172.17.0.2:7000", true},
        {"tcp://172.32.0.2:7000", false},   {"tcp://192.168.0.1:7000", true},
        {"tcp://192.169.0.1:7000", false},  {"tcp://169.254.1.1:7000", true},
        {"tcp://100.64.0.1:7000", true},    {"tcp://100.128.0.1:7000", false},
        {"tcp://8.8.8.8:7000", false},      {"tcp://hub.example.org:7000", false},
        {"tcp://[fd00::1]:7000", true},     {"tcp://[fe80::1]:7000", true},
        {"tcp://[2001:db8::1]:7000", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pl_address at;
        assert_ok(pl_address_parse(cases[i].address, &at));
        assert_int_equal(pl_address_is_private(&at), cases[i].is_private);
    }
}

/* Sends two messages whose headers have major version 2: the first with a wrong magic,
 * the second with the right one. Only the second gets an answer: an ERR with the same
 * version, whose sentence names both versions. */
PL_TEST(message_of_another_version_is_refused_with_a_sentence)
{
    enum { HEADER = 64, WAIT_MS = 60000 };
    uint8_t header[HEADER] = {[4] = 2, [6] = 2, [10] = HEADER, [24] = 7};
    uint8_t answer[HEADER], body[512];
    char address[PL_ADDRESS_MAX], text[512];
    OWNED(pl_wire_close) pl_socket *server;
    OWNED(pl_message_destroy) pl_message got;
    pl_peer peer;
    pl_reader r;
    int wait_ms = WAIT_MS;
    void *context = zmq_ctx_new(), *client = zmq_socket(context, ZMQ_DEALER);
    pl_message_init(&got, 0);
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &server, address));
    zmq_setsockopt(client, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    assert_int_equal(zmq_connect(client, address), 0);
    for (int i = 0; i < 2; i++) {
        memcpy(header, i == 0 ? "PLW9" : "PLW1", 4);
        assert_int_equal(zmq_send(client, header, HEADER, ZMQ_SNDMORE), HEADER);
        assert_int_equal(zmq_send(client, "", 0, 0), 0);
    }
    for (int i = 0; i < 600 && pl_wire_counted(server)->dropped < 2; i++) {
        bool ready;
        pl_wire_poll(&server, 1, NULL, 0, 100, &ready);
        assert_int_equal(pl_wire_recv(server, &peer, &got), PL_ERR_TIMEOUT);
    }
    assert_int_equal(zmq_recv(client, answer, HEADER, 0), HEADER);
    assert_memory_equal(answer, "PLW1", 4);
    assert_int_equal(answer[4], 2);
    assert_int_equal(answer[6], 1);  /* ERR */
    assert_int_equal(answer[24], 7); /* the request */
    int n = zmq_recv(client, body, sizeof body, 0);
    assert_in_range(n, 20, sizeof body);
    pl_reader_open(&r, "ERR", body, (size_t)n);
    assert_true(pl_get_u64(&r, 1, 0) == PL_ERR_UNSUPPORTED);
    pl_get_text(&r, 2, 0, text, sizeof text);
    assert_non_null(strstr(text, "speaks version 1"));
    assert_non_null(strstr(text, "has version 2"));
    assert_int_equal(zmq_recv(client, answer, HEADER, ZMQ_DONTWAIT), -1);
    zmq_close(client);
    zmq_ctx_term(context);
}

typedef struct checker {
    char address[PL_ADDRESS_MAX];
    atomic_bool stopping;
    pl_status status;
} checker;

static void check_port_again_and_again(void *context)
{
    checker *c = context;
    while (!atomic_load(&c->stopping) && c->status == PL_OK)
        c->status = pl_wire_check_free(c->address);
}

/* Returns 0 or the errno. */
static int connect_from(const char *host, const struct sockaddr_in *to)
{
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = inet_addr(host)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const void *)&from, sizeof from), 0);
    const int cause = connect(fd, (const void *)to, sizeof *to) == 0 ? 0 : errno;
    close(fd);
    return cause;
}

PL_TEST(port_that_a_process_has_is_not_free)
{
    static const char *const hosts[] = {"127.0.0.1", "[::1]"};
    for (int i = 0; i < 2; i++) {
        char address[PL_ADDRESS_MAX], text[PL_ADDRESS_MAX];
        OWNED(pl_wire_close) pl_socket *server = NULL;
        snprintf(text, sizeof text, "tcp://%s:*", hosts[i]);
        if (pl_wire_bind(text, &server, address) != PL_OK)
            continue; /* this machine has no IPv6 */
        assert_fails(pl_wire_check_free(address), PL_ERR_BUSY, address);
        pl_wire_close(&server);
        pl_status status = PL_ERR_BUSY; /* ZeroMQ closes a little later */
        for (int t = 0; t < 6000 && status != PL_OK; t++, pl_sleep_ms(10))
            status = pl_wire_check_free(address);
        assert_ok(status);
    }
    assert_ok(pl_wire_check_free("ipc://@pathloom-test-of-a-free-name"));
}

/* A worker that waits for its hub must not meet the check: it would read the greeting
 * of a process without keys, and end. */
PL_TEST(checking_a_port_answers_nobody)
{
    enum { PORT = 20077 }; /* no port that a system gives to those who ask for any */
    checker c = {.address = "tcp://127.0.0.77:20077", .status = PL_OK};
    pl_thread *thread;
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(PORT),
                                   .sin_addr.s_addr = inet_addr("127.0.0.77")};
    assert_ok(pl_thread_start("checker", check_port_again_and_again, &c, &thread));
    for (int i = 0; i < 2000; i++)
        assert_int_equal(connect_from("127.0.0.78", &to), ECONNREFUSED);
    atomic_store(&c.stopping, true);
    pl_thread_join(&thread);
    assert_ok(c.status);
}
