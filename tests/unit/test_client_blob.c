/* folder: home; label: integration; alone */
/* Tests downloads from a home that sends wrong or late answers, or starts again, and
 * that small blobs travel together. */
#include "codec/codec.h"
#include "net/net.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/end_wire.h"
#include "tests/support/passing_time.h"
#include "tests/support/suite.h"

typedef enum habit {
    GOOD,
    SHORT, /* sends at most 30,000 bytes in an answer */
    /* Sends every answer twice, after an answer with an unknown request number. */
    TWICE,
    LOSES_ONE, /* loses the third question */
    LOSES_ALL, /* after the first question, loses all until no more come */
    BACKWARDS, /* answers questions 2 and 3 in reverse order */
    LATE,      /* answers the second question, and so all others, after late_s */
    DIES,      /* starts again after half of the blob, without answering */
    GROWS,     /* announces one byte more after the first piece */
    TOO_LONG,  /* sends a piece that ends beyond the end of the blob */
    EMPTY,     /* sends pieces without bytes */
    OTHER_BYTES,
    ENDLESS,  /* claims a size of 2^60 bytes */
    TOGETHER, /* answers nothing before it was asked about SMALL blobs */
    FULL      /* has room for one upload until that is submitted */
} habit;

enum {
    MIB = 1 << 20,
    BYTES = 9 * PL_WIRE_DATA_MAX + 12345,
    HELD = 3,
    SMALL = 3,
    SMALL_BYTES = 1000,
    PATIENCE_MS = 60000
};

typedef struct fake {
    pl_socket *socket;
    habit habit;
    uint64_t bytes;
    char address[PL_ADDRESS_MAX];
    pl_link link; /* what the client measured */
    int n_asked, late_s;
    uint64_t bytes_asked, bytes_before; /* in all, and before it started again */
    pl_message held[HELD];
    int n_held;
    uint64_t bytes_put;
    int n_submitted;
    pl_hash staged; /* FULL: the upload that has the room; zeros: none */
    /* FULL: for so long an upload of a different client has the room after the first
     * submission; when that ends; and how often room was asked for */
    int64_t foreign_ms, foreign_until_ms;
    int n_room;
    /* the client's rule for direct transfers, what it gets as URLs, and the size that
     * is announced with them */
    pl_direct direct;
    const char *urls;
    uint64_t claimed;
    int service; /* port of a service whose URLs the client gets; 0: none */
    atomic_bool stop;
} fake;

static uint8_t data[BYTES];
static pl_hash names[2]; /* the hash of all bytes, and the hash of zero bytes */

/* Answers how many bytes of an upload have come, and accepts what a worker submits. */
static void answer_put(fake *f, const pl_peer *peer, pl_message *q)
{
    OWNED(pl_message_destroy) pl_message a = {0};
    pl_msg_put_blob is;
    if (q->type == PL_MSG_PUT_BLOB) {
        assert_ok(PL_HEAR(q, put_blob, &is));
        f->n_room += q->data.len == 0;
        if (f->foreign_until_ms > 0 && pl_now_ms() > f->foreign_until_ms) {
            f->staged = (pl_hash){{0}};
            f->foreign_until_ms = 0;
        }
        const bool is_full =
            !pl_hash_none(&f->staged) && !pl_hash_equal(&f->staged, &is.blob);
        if (f->habit == FULL && is_full) {
            pl_wire_error(&a, q->request, PL_ERR_BUSY, "no room");
        } else {
            f->staged = f->habit == FULL ? is.blob : f->staged;
            f->bytes_put += q->data.len;
            PL_SAY(&a, PUT_STATE, put_state, .offset = is.offset + q->data.len);
        }
    } else {
        f->staged = (pl_hash){{0}};
        if (f->foreign_ms > 0) {
            f->staged = names[1];
            f->foreign_until_ms = pl_now_ms() + f->foreign_ms;
            f->foreign_ms = 0;
        }
        f->n_submitted++;
        PL_SAY(&a, SUBMITTED, submitted, .result = PL_SUBMIT_ACCEPTED);
    }
    a.request = q->request;
    assert_ok(pl_wire_send_to(f->socket, peer, &a));
}

static void answer_piece(fake *f, const pl_peer *peer, pl_message *q)
{
    pl_message a;
    pl_reader r;
    if (q->type != PL_MSG_GET_BLOB) {
        answer_put(f, peer, q);
        return;
    }
    pl_reader_open(&r, "GET_BLOB", q->body.data, q->body.len);
    uint64_t most = pl_get_u64(&r, PL_TAG_TOTAL, 0);
    uint64_t at = pl_get_u64(&r, PL_TAG_OFFSET, 0), total = f->bytes;
    uint64_t left = at < total ? total - at : 0;
    if (f->habit == SHORT && most > 30000)
        most = 30000;
    pl_message_init(&a, PL_MSG_BLOB);
    a.request = q->request;
    if ((f->urls || f->service) && pl_field_count(&r, PL_TAG_DIRECT) > 0) {
        PL_SAY(&a, BLOB, blob, .total = f->claimed, .direct = 1);
        if (f->urls)
            pl_buf_append(&a.data, f->urls, strlen(f->urls));
        for (uint64_t i = at / MIB; f->service && i * MIB < BYTES; i++)
            pl_buf_printf(&a.data, "http://127.0.0.1:%d/%d\n", f->service, (int)i);
        assert_ok(pl_wire_send_to(f->socket, peer, &a));
        pl_message_destroy(&a);
        return;
    }
    if (f->habit == GROWS && at > 0)
        total++;
    if (f->habit == TOO_LONG)
        total = at < f->bytes ? at + 10 : total;
    if (f->habit == ENDLESS)
        total = 1ull << 60;
    if (f->habit == ENDLESS && at >= f->bytes / 2)
        pl_wire_error(&a, q->request, PL_ERR_NOT_FOUND, "it has gone");
    else {
        pl_put_u64(&a.body, PL_TAG_TOTAL, total);
        if (f->habit != EMPTY && left > 0)
            pl_buf_append(&a.data, data + at, (size_t)(left < most ? left : most));
        if (f->habit == OTHER_BYTES && at > 0 && a.data.len > 7)
            a.data.data[7] ^= 1;
        f->bytes_asked += a.data.len;
    }
    for (int i = f->habit == TWICE ? 0 : 2; i < 3; i++) {
        a.request = i == 0 ? q->request + 1000000 : q->request;
        if (pl_wire_send_to(f->socket, peer, &a) != PL_OK)
            break; /* the client has refused an answer and disconnected */
    }
    pl_message_destroy(&a);
}

/* how many questions are held until the last of them has come */
static int held_by(const fake *f)
{
    return f->habit == TOGETHER ? SMALL : 2;
}

/* Returns false if the question is lost or is answered later. */
static bool answers_now(fake *f, pl_message *q)
{
    f->n_asked++;
    if (f->habit == LOSES_ONE && f->n_asked == 3)
        return false;
    if (f->habit == LOSES_ALL && f->n_asked > 1)
        return false;
    for (int s = 0; f->habit == LATE && f->n_asked == 2 && s < f->late_s; s++) {
        let_pass(1);
        pl_sleep_ms(110); /* meanwhile the client looks at the time */
    }
    const int first = f->habit == BACKWARDS ? 2 : f->habit == TOGETHER ? 1 : INT32_MAX;
    if (f->n_asked < first || f->n_asked >= first + held_by(f))
        return true;
    f->held[f->n_held++] = *q;
    pl_message_init(q, 0);
    return false;
}

/* Ends and starts again at the same address. Questions that came are lost. */
static void start_again(fake *f)
{
    char bound[PL_ADDRESS_MAX];
    f->bytes_before = f->bytes_asked;
    f->habit = GOOD;
    pl_wire_close(&f->socket);
    while (pl_wire_bind(f->address, &f->socket, bound) != PL_OK)
        pl_sleep_ms(10); /* closing frees the address only after a moment */
}

static void serve(void *context)
{
    fake *f = context;
    OWNED(pl_message_destroy) pl_message q;
    pl_peer peer;
    pl_message_init(&q, 0);
    while (!atomic_load(&f->stop)) {
        bool ready;
        pl_wire_poll(&f->socket, 1, NULL, 0, 10, &ready);
        if (f->habit == LOSES_ALL && f->n_asked > 1 && !ready) {
            f->habit = GOOD;
            pl_sleep_ms(300); /* the client notices what came before */
            let_pass(11);
        }
        while (pl_wire_recv(f->socket, &peer, &q) == PL_OK) {
            if (f->habit == DIES && f->bytes_asked > BYTES / 2) {
                start_again(f);
                break;
            }
            if (answers_now(f, &q))
                answer_piece(f, &peer, &q);
            for (int i = 0, n = f->n_held; n == held_by(f) && i < n; i++) {
                pl_message *held = &f->held[f->habit == BACKWARDS ? n - 1 - i : i];
                if (held->type != 0) {
                    answer_piece(f, &peer, held);
                    pl_message_destroy(held);
                }
            }
        }
    }
}

static pl_client *open_fake(fake *f, pl_thread **thread)
{
    const char *homes[] = {f->address};
    pl_client *client = NULL;
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &f->socket, f->address));
    assert_ok(pl_thread_start("home", serve, f, thread));
    pl_client_options options = {
        .homes = homes, .n_homes = 1, .patience_ms = PATIENCE_MS, .direct = f->direct};
    assert_ok(pl_client_create(&options, &client));
    return client;
}

static void close_fake(fake *f, pl_client **client, pl_thread **thread)
{
    pl_client_link(*client, &f->link);
    pl_client_destroy(client);
    atomic_store(&f->stop, true);
    pl_thread_join(thread);
    pl_wire_close(&f->socket);
}

/* Downloads a blob. The word "head", which is in `out` before the blob, must remain
 * there. */
static pl_status fetch_from(fake *f, const pl_hash *name, pl_buf *out)
{
    pl_thread *thread = NULL;
    pl_client *client = open_fake(f, &thread);
    pl_buf_append(out, "head", 4);
    pl_status status = pl_client_get_blob(client, "x", name, out);
    close_fake(f, &client, &thread);
    assert_memory_equal(out->data, "head", 4);
    return status;
}

static pl_status fetch(habit way, uint64_t bytes, const pl_hash *name, pl_buf *out)
{
    fake f = {.habit = way, .bytes = bytes};
    return fetch_from(&f, name, out);
}

static void check_whole(habit way)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    assert_ok(fetch(way, BYTES, &names[0], &out));
    assert_int_equal(out.len, 4 + BYTES);
    assert_memory_equal(out.data + 4, data, BYTES);
}

static void check_refused(habit way, pl_status expected, size_t most_memory)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    assert_int_equal(fetch(way, BYTES, &names[0], &out), expected);
    assert_int_equal(out.len, 4);
    assert_true(out.cap <= most_memory);
}

PL_TEST(a_blob_arrives_whole_in_pieces_of_any_size)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    check_whole(GOOD);
    check_whole(SHORT);
    assert_ok(fetch(GOOD, 0, &names[1], &out));
    assert_int_equal(out.len, 4);
}

PL_TEST(answers_that_come_twice_or_to_nobody_do_no_harm)
{
    check_whole(TWICE);
}

PL_TEST(a_lost_answer_is_asked_for_again)
{
    check_whole(LOSES_ONE);
    check_whole(LOSES_ALL);
}

PL_TEST(answers_out_of_order_are_used)
{
    check_whole(BACKWARDS);
}

static void fetch_all(fake *f)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    assert_ok(fetch_from(f, &names[0], &out));
    assert_int_equal(out.len, 4 + BYTES);
}

PL_TEST(a_late_answer_is_used_and_nothing_is_asked_twice)
{
    fake f = {.habit = LATE, .bytes = BYTES, .late_s = 5};
    fetch_all(&f);
    assert_int_equal(f.bytes_asked, BYTES);
    assert_int_equal(f.link.repeated_bytes, 0);
    assert_int_equal(f.link.down_bytes, BYTES);
    assert_int_equal(f.link.n_connects, 1);
    assert_true(f.link.down_bytes_per_s > 0);
}

PL_TEST(after_a_silence_only_one_piece_is_asked_twice)
{
    fake f = {.habit = LATE, .bytes = BYTES, .late_s = 25};
    enum { PIECE = 64 << 10 };
    fetch_all(&f);
    assert_in_range(f.bytes_asked, BYTES, BYTES + PIECE);
    assert_in_range(f.link.repeated_bytes, 0, PIECE);
}

PL_TEST(after_a_broken_connection_a_download_goes_on_where_it_was)
{
    fake f = {.habit = DIES, .bytes = BYTES};
    fetch_all(&f);
    /* What was under way is requested again, and nothing else. */
    enum { UNDER_WAY = 128 * (64 << 10) };
    assert_true(f.bytes_before > BYTES / 2);
    assert_true(f.bytes_asked <= BYTES + f.link.repeated_bytes);
    assert_true(f.link.repeated_bytes > 0 && f.link.repeated_bytes <= UNDER_WAY);
    assert_int_equal(f.link.n_connects, 2);
}

PL_TEST(a_home_that_contradicts_itself_is_refused)
{
    check_refused(GROWS, PL_ERR_PROTO, SIZE_MAX);
    check_refused(TOO_LONG, PL_ERR_PROTO, SIZE_MAX);
    check_refused(EMPTY, PL_ERR_PROTO, SIZE_MAX);
}

PL_TEST(bytes_that_are_not_what_their_name_says_are_refused)
{
    check_refused(OTHER_BYTES, PL_ERR_DAMAGED, SIZE_MAX);
    assert_said("fsck");
}

/* Each URL is of no use. Then the home sends the bytes. */
PL_TEST(a_home_cannot_send_a_client_to_other_services)
{
    static const char *const urls[] = {
        "",
        "\n",
        "http://127.0.0.1:1/x\n",
        "file:///etc/passwd\n",
        "https://\n",
        "https://h/\nhttp://h/\n",
        "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no\np\nq\n"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        for (int big = 0; big < 2; big++) {
            fake f = {.bytes = BYTES,
                      .direct = PL_DIRECT_SAFE,
                      .urls = urls[i],
                      .claimed = big ? 1ull << 60 : BYTES};
            fetch_all(&f);
            assert_int_equal(f.bytes_asked, BYTES);
        }
}

PL_TEST(a_service_that_does_not_answer_costs_no_blob)
{
    fake f = {.bytes = BYTES,
              .direct = PL_DIRECT_OWN,
              .urls = "http://127.0.0.1:1/x\nhttp://127.0.0.1:1/y\n",
              .claimed = BYTES};
    fetch_all(&f);
    assert_int_equal(f.bytes_asked, BYTES);
}

/* A service that keeps the chunks of `data`, except the last one. */
typedef struct service {
    int socket, port;
    bool lies;
    pl_thread *thread;
} service;

static void answer_http(const service *s, int line)
{
    char text[4096] = "", head[128];
    size_t len = 0;
    ssize_t got = 1;
    while (got > 0 && !strstr(text, "\r\n\r\n") && len < sizeof text - 1) {
        got = recv(line, text + len, sizeof text - 1 - len, 0);
        len += got > 0 ? (size_t)got : 0;
    }
    const long i = strncmp(text, "GET /", 5) == 0 ? strtol(text + 5, NULL, 10) : -1;
    if (i < 0 || i >= BYTES / MIB)
        return; /* the connection ends without an answer */
    const int n = snprintf(head, sizeof head,
                           "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n"
                           "Connection: close\r\n\r\n",
                           MIB);
    const uint8_t *at = data + (s->lies ? 1 : i * MIB), *end = at + MIB;
    bool sent = send(line, head, (size_t)n, MSG_NOSIGNAL) == n;
    while (sent && at < end) {
        const ssize_t now = send(line, at, (size_t)(end - at), MSG_NOSIGNAL);
        sent = now > 0;
        at += sent ? now : 0;
    }
}

static void run_service(void *context)
{
    const service *s = context;
    for (int line; (line = accept(s->socket, NULL, NULL)) >= 0; close(line))
        answer_http(s, line);
}

static void open_service(service *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    s->socket = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s->socket >= 0);
    assert_int_equal(bind(s->socket, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s->socket, 32), 0);
    assert_int_equal(getsockname(s->socket, (struct sockaddr *)&at, &len), 0);
    s->port = ntohs(at.sin_port);
    assert_ok(pl_thread_start("service", run_service, s, &s->thread));
}

static void close_service(service *s)
{
    shutdown(s->socket, SHUT_RDWR);
    pl_thread_join(&s->thread);
    close(s->socket);
}

PL_TEST(what_a_service_has_sent_is_not_sent_again_by_the_home)
{
    for (int lies = 0; lies < 2; lies++) {
        service s = {.lies = lies};
        open_service(&s);
        fake f = {.bytes = BYTES,
                  .direct = PL_DIRECT_OWN,
                  .service = s.port,
                  .claimed = BYTES};
        pl_web *web = NULL;
        const bool has_web = pl_web_open(&web) == PL_OK; /* else all is sent */
        pl_web_close(&web);
        fetch_all(&f);
        const uint64_t rest = BYTES % MIB;
        assert_int_equal(f.bytes_asked, !has_web ? BYTES : lies ? rest + BYTES : rest);
        close_service(&s);
    }
}

PL_TEST(memory_follows_what_has_arrived_not_what_was_announced)
{
    check_refused(ENDLESS, PL_ERR_NOT_FOUND, 4 * (size_t)BYTES);
}

PL_TEST(small_blobs_are_fetched_in_one_round_trip)
{
    fake f = {.habit = TOGETHER, .bytes = SMALL_BYTES};
    pl_thread *thread = NULL;
    pl_client *client = open_fake(&f, &thread);
    pl_buf out[SMALL] = {{0}};
    pl_wanted wants[SMALL];
    for (int i = 0; i < SMALL; i++) {
        wants[i] = (pl_wanted){.name = "x", .expected = SMALL_BYTES, .out = &out[i]};
        pl_blob_hash(data, SMALL_BYTES, &wants[i].blob);
    }
    assert_ok(pl_client_get_blobs(client, wants, SMALL));
    /* if the last of them is damaged, no output changes */
    wants[SMALL - 1].blob = names[1];
    assert_int_equal(pl_client_get_blobs(client, wants, SMALL), PL_ERR_DAMAGED);
    for (int i = 0; i < SMALL; i++) {
        assert_int_equal(out[i].len, SMALL_BYTES);
        assert_memory_equal(out[i].data, data, SMALL_BYTES);
        pl_buf_destroy(&out[i]);
    }
    close_fake(&f, &client, &thread);
    assert_int_equal(f.link.repeated_bytes, 0);
}

/* Submits SMALL updates and a path without a state to a home with this habit. */
static void submit_small(fake *f)
{
    pl_thread *thread = NULL;
    pl_client *client = open_fake(f, &thread);
    pl_submission updates[SMALL] = {{0}};
    const pl_path_state path = {.name = "path", .phase = 1};
    pl_submit_result results[SMALL + 1];
    char texts[SMALL + 1][256];
    for (size_t i = 0; i < SMALL; i++) {
        updates[i].module = "x";
        updates[i].data = data + i;
        updates[i].bytes = SMALL_BYTES;
    }
    assert_ok(
        pl_client_submit_task(client, updates, SMALL, &path, NULL, 0, results, texts));
    close_fake(f, &client, &thread);
    for (int i = 0; i <= SMALL; i++)
        assert_int_equal(results[i], PL_SUBMIT_ACCEPTED);
    assert_int_equal(f->bytes_put, SMALL * SMALL_BYTES);
    assert_int_equal(f->n_submitted, SMALL + 1);
    assert_int_equal(f->link.repeated_bytes, 0);
}

PL_TEST(small_updates_are_sent_together)
{
    fake f = {.habit = TOGETHER};
    submit_small(&f);
}

PL_TEST(a_full_home_gets_every_update_and_none_twice)
{
    fake f = {.habit = FULL};
    submit_small(&f);
}

PL_TEST(a_full_home_is_asked_for_room_every_two_seconds)
{
    fake f = {.habit = FULL, .foreign_ms = 3000};
    submit_small(&f);
    /* two per upload, as no room is free before the first is submitted, and two more */
    assert_true(f.n_room <= 4 * SMALL);
}

PL_TEST(a_blob_hashed_as_it_comes_has_its_name)
{
    static const uint64_t steps[] = {1, 999999, PL_WIRE_DATA_MAX, 3000000, BYTES};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        pl_blob_hashing h = {.hashed = 0};
        pl_hash got;
        uint64_t there = 0;
        while (there < BYTES && there < 4000 * steps[s]) {
            there = BYTES - there < steps[s] ? BYTES : there + steps[s];
            pl_blob_hash_some(&h, data, there);
        }
        pl_blob_hash_end(&h, data, BYTES, &got);
        assert_true(pl_hash_equal(&got, &names[0]));
    }
}

static int make_data(void **state)
{
    (void)state;
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    pl_blob_hash(data, BYTES, &names[0]);
    pl_blob_hash(data, 0, &names[1]);
    return 0;
}

PL_SUITE(make_data, end_wire)
