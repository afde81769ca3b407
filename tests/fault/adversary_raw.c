/* folder: base
 *
 * Acts without valid messages: bytes that are sent to a port, handshakes that do not
 * end, frames that are no message, and unknown keys. */
#include "base/wire_internal.h"
#include "tests/fault/adversary.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

/* Number of connections that are kept open. A new connection replaces the oldest
 * one. */
enum { KEPT = 300 };
static int kept[KEPT];
static size_t n_kept;

static void keep_open(int fd)
{
    size_t at = n_kept++ % KEPT;
    if (n_kept > KEPT)
        close(kept[at]);
    kept[at] = fd;
}

void raw_close(void)
{
    for (size_t i = 0; i < n_kept && i < KEPT; i++)
        close(kept[i]);
    n_kept = 0;
}

static const char *some_server(adversary *a)
{
    return a->home[0] && dice_is(&a->dice, 2) ? a->home : a->hub;
}

/* Returns a connected socket, on which writes never wait, or -1 if no process
 * listens. */
static int connect_raw(adversary *a)
{
    pl_address at;
    struct sockaddr_in to = {.sin_family = AF_INET};
    if (pl_address_parse(some_server(a), &at) != PL_OK)
        return -1;
    to.sin_port = htons((uint16_t)at.port);
    if (inet_pton(AF_INET, at.host, &to.sin_addr) != 1)
        return -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
        fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void send_bytes(adversary *a, int fd, const void *data, size_t len)
{
    note_answer(a, send(fd, data, len, MSG_NOSIGNAL) > 0 ? ANSWER_SENT
                                                         : (answer_kind)PL_ERR_NET);
}

void act_garbage(adversary *a)
{
    uint8_t bytes[4096];
    int fd = connect_raw(a);
    if (fd < 0)
        return;
    size_t len = 1 + dice_roll(&a->dice, sizeof bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)dice_roll(&a->dice, 256);
    send_bytes(a, fd, bytes, len);
    if (dice_is(&a->dice, 2)) { /* closing the socket then resets the connection */
        struct linger now = {1, 0};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    close(fd);
}

/* Bytes of a ZMTP 3.1 greeting: signature, version, mechanism, as-server, filler. */
enum { GREETING = 64 };
static void make_greeting(const char *mechanism, uint8_t out[GREETING])
{
    memset(out, 0, GREETING);
    out[0] = 0xff;
    out[9] = 0x7f;
    out[10] = 3;
    out[11] = 1;
    memcpy(out + 12, mechanism, strlen(mechanism));
}

void act_slow_handshake(adversary *a)
{
    static const char *const mechanisms[] = {"CURVE", "NULL", "PLAIN", "GSSAPI",
                                             "AAAAAAAAAAAAAAAAAAAA"};
    uint8_t greeting[GREETING];
    make_greeting(mechanisms[dice_roll(&a->dice, 5)], greeting);
    for (int i = 0; i < 8; i++) {
        int fd = connect_raw(a);
        if (fd < 0)
            return;
        send_bytes(a, fd, greeting, 1 + dice_roll(&a->dice, GREETING));
        keep_open(fd);
    }
}

/* Opens many connections that say nothing, and ends the own half of some of them. */
void act_silent(adversary *a)
{
    enum { CONNECTIONS = 250 };
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = connect_raw(a);
        if (fd < 0)
            return;
        if (dice_is(&a->dice, 3))
            (void)shutdown(fd, SHUT_WR);
        keep_open(fd);
    }
}

/* Sends a large frame before the handshake. A library may keep such a frame of any
 * client in memory. */
void act_early_megabyte(adversary *a)
{
    enum { FRAME = 1052672, HEAD = 9, CONNECTIONS = 12 };
    uint8_t *bytes = pl_alloc(GREETING + HEAD + FRAME);
    make_greeting("CURVE", bytes);
    bytes[GREETING] = dice_is(&a->dice, 2) ? 6 : 2; /* the flags of a long frame */
    for (int i = 0; i < 8; i++)
        bytes[GREETING + 1 + i] = (uint8_t)((uint64_t)FRAME >> (8 * (7 - i)));
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = connect_raw(a);
        if (fd < 0)
            break;
        size_t sent = 0, all = GREETING + HEAD + FRAME - 1;
        for (int tries = 0; sent < all && tries < 50; tries++) {
            ssize_t n = send(fd, bytes + sent, all - sent, MSG_NOSIGNAL);
            if (n > 0)
                sent += (size_t)n;
            else
                pl_sleep_ms(2);
        }
        note_answer(a, sent == all ? ANSWER_SENT : (answer_kind)PL_ERR_NET);
        keep_open(fd);
    }
    pl_free(bytes);
}

/* ---- frames of an enrolled worker that are no message ---- */
static bool send_frame(void *zmq, const void *data, size_t len, bool more)
{
    return zmq_send(zmq, data, len, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0;
}

static void send_frames(adversary *a, void *zmq)
{
    pl_message m;
    uint8_t header[WIRE_HEADER_BYTES + 8] = {0};
    size_t len = WIRE_HEADER_BYTES;
    uint32_t parts = dice_is(&a->dice, 8) ? 500 : dice_roll(&a->dice, 5);
    pl_message_init(&m, PL_MSG_STATUS);
    m.request = dice_edge(&a->dice);
    pl_put_text(&m.body, PL_TAG_NAME, dice_word(&a->dice));
    wire_header_encode(&m, header);
    if (dice_is(&a->dice, 4))
        len = dice_roll(&a->dice, sizeof header);
    else
        header[dice_roll(&a->dice, WIRE_HEADER_BYTES)] ^=
            (uint8_t)(1u << dice_roll(&a->dice, 8));
    bool sent = send_frame(zmq, header, len, parts > 0);
    for (uint32_t i = 0; sent && i < parts; i++)
        sent = send_frame(zmq, m.body.data, i == 0 ? m.body.len : 1, i + 1 < parts);
    note_answer(a, sent ? ANSWER_SENT : (answer_kind)PL_ERR_NET);
    pl_message_destroy(&m);
}

void act_wrong_frames(adversary *a)
{
    enum { LINGER_MS = 200 };
    const int linger = LINGER_MS;
    pl_address at;
    const party *p = some_worker(a);
    void *zmq = zmq_socket(wire_context(), ZMQ_DEALER);
    if (zmq && pl_address_parse(some_server(a), &at) == PL_OK &&
        zmq_setsockopt(zmq, ZMQ_LINGER, &linger, sizeof linger) == 0 &&
        wire_curve_client(zmq, &p->key, &at.key) == PL_OK &&
        zmq_connect(zmq, at.endpoint) == 0) {
        for (int i = 0; i < 8; i++)
            send_frames(a, zmq);
        pl_sleep_ms(LINGER_MS / 4);
    }
    if (zmq)
        zmq_close(zmq);
}

/* ---- wrong keys ---- */
/* Connects to an address and asks one question. */
static void ask_once(adversary *a, const char *address, const pl_keypair *key)
{
    party p = {.key = *key};
    pl_message m;
    pl_status status = key->open.bytes[0] || key->open.bytes[1]
                           ? pl_wire_connect_as(address, key, &p.hub)
                           : pl_wire_connect(address, &p.hub);
    if (status != PL_OK) {
        note_answer(a, (answer_kind)status);
        return;
    }
    pl_message_init(&m, PL_MSG_STATUS);
    (void)ask(a, &p, AT_HUB, &m, NULL);
    party_close(&p);
}

void act_no_encryption(adversary *a)
{
    static const pl_keypair none;
    char address[PL_ADDRESS_MAX];
    pl_copy_text(address, sizeof address, some_server(a));
    address[strcspn(address, "#")] = '\0';
    ask_once(a, address, &none);
}

void act_unknown_key(adversary *a)
{
    pl_keypair_create(&a->stranger.key);
    ask_once(a, some_server(a), &a->stranger.key);
}

/* Connects as a client that expects a server with a different key. Such a client must
 * get no answer. */
void act_wrong_server(adversary *a)
{
    pl_address at;
    char address[PL_ADDRESS_MAX];
    if (pl_address_parse(some_server(a), &at) != PL_OK)
        return;
    pl_address_format(&at, at.host, &a->stranger.key.open, address);
    ask_once(a, address, &a->workers[0].key);
}
