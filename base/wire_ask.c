/* Initialises and destroys messages, asks a question and waits for its answer, and
 * turns error answers into statuses (wire.h). */
#include "base/clock.h"
#include "base/wire_internal.h"

#include <stdatomic.h>

/* pl_wire_ask looks every LOOK_MS whether the server refused this client, and whether
 * bytes came. When bytes come, its time limit begins anew; it waits for at most
 * SLOW_TIMES the limit. */
enum { LOOK_MS = 100, REACH_MS = 4000, SLOW_TIMES = 10 };

void pl_message_init(pl_message *message, uint16_t type)
{
    *message = (pl_message){.type = type};
}

void pl_message_destroy(pl_message *message)
{
    wire_give_back(message);
    pl_buf_destroy(&message->body);
    pl_buf_destroy(&message->data);
    pl_buf_destroy(&message->texts);
    *message = (pl_message){0};
}

void pl_message_put(pl_message *message, uint16_t type, const pl_field *fields,
                    const void *from)
{
    message->type = type;
    pl_put_fields(&message->body, fields, from);
}

pl_status pl_message_get(pl_message *message, const char *what, const pl_field *fields,
                         void *to)
{
    pl_reader r;
    pl_buf_clear(&message->texts);
    pl_buf_reserve(&message->texts, message->body.len + 1);
    pl_reader_open(&r, what, message->body.data, message->body.len);
    r.texts = (char *)message->texts.data;
    pl_get_fields(&r, fields, to);
    return pl_reader_status(&r);
}

uint64_t pl_wire_next_request(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

enum { ERR_TAG_STATUS = 1, ERR_TAG_SENTENCE = 2, SENTENCE_MAX = 1024 };

void pl_wire_error(pl_message *out, uint64_t request, pl_status status,
                   const char *sentence)
{
    wire_give_back(out);
    out->type = PL_WIRE_ERR;
    out->request = request;
    pl_buf_clear(&out->body);
    pl_buf_clear(&out->data);
    pl_put_u64(&out->body, ERR_TAG_STATUS, (uint64_t)status);
    pl_put_text(&out->body, ERR_TAG_SENTENCE, sentence);
}

/* The sentence of the peer's error becomes this thread's last error. */
pl_status pl_wire_error_of(const pl_message *answer)
{
    pl_reader reader;
    char sentence[SENTENCE_MAX];
    pl_reader_open(&reader, "an ERR answer", answer->body.data, answer->body.len);
    uint64_t status = pl_get_u64(&reader, ERR_TAG_STATUS, 0);
    pl_get_text(&reader, ERR_TAG_SENTENCE, 0, sentence, sizeof sentence);
    if (pl_reader_status(&reader) != PL_OK)
        return pl_reader_status(&reader);
    if (status == PL_OK || status >= PL_STATUS_COUNT)
        return pl_fail(PL_ERR_PROTO, "an ERR answer has the unknown status %llu: %s",
                       (unsigned long long)status, sentence);
    return pl_fail((pl_status)status, "%s",
                   sentence[0] ? sentence : "the peer gave no reason");
}

pl_status pl_wire_ask(pl_socket *socket, const pl_message *question, int retry_ms,
                      int timeout_ms, pl_message *answer)
{
    int64_t now = pl_now_ms(), deadline = now + timeout_ms, next_send = now;
    const int64_t most = now + (int64_t)SLOW_TIMES * timeout_ms;
    int n_sent = 0;
    pl_wire_line line = {0};
    for (; now < deadline; now = pl_now_ms()) {
        const uint64_t before = line.arrived_bytes;
        pl_wire_line_now(socket, &line);
        if (line.arrived_bytes != before) {
            deadline = now + timeout_ms < most ? now + timeout_ms : most;
            next_send = n_sent > 0 && retry_ms > 0 ? now + retry_ms : next_send;
        }
        if (now >= next_send) {
            pl_status sent = pl_wire_send(socket, question);
            if (sent != PL_OK && sent != PL_ERR_NET)
                return sent;
            /* if the queue is full, the question is sent again later */
            n_sent += sent == PL_OK;
            next_send = now + (retry_ms > 0 ? retry_ms : timeout_ms);
        }
        bool ready;
        int64_t until = next_send < deadline ? next_send : deadline;
        until = until < now + LOOK_MS ? until : now + LOOK_MS;
        pl_wire_poll(&socket, 1, NULL, 0, (int)(until - now), &ready);
        pl_status status;
        do /* drops answers to earlier questions */
            status = pl_wire_recv(socket, NULL, answer);
        while (status == PL_OK && answer->request != question->request);
        if (status == PL_ERR_TIMEOUT)
            continue;
        PL_CHECK(status);
        return answer->type == PL_WIRE_ERR ? pl_wire_error_of(answer) : PL_OK;
    }
    /* a server that was never reached may have a wrong address */
    if (socket->connections == 0)
        PL_CHECK(pl_wire_reach(socket->address, REACH_MS));
    if (socket->connections == 0 && socket->n_broken > 1)
        return pl_fail(PL_ERR_TIMEOUT,
                       "%s ended %d handshakes within %.1f s: it is away behind a "
                       "tunnel, or does not have the key that the address names",
                       socket->address, socket->n_broken, 1e-3 * timeout_ms);
    return pl_fail(PL_ERR_TIMEOUT,
                   "%s does not answer within %.1f s, although it was asked %d times; "
                   "see the log of that process",
                   socket->address, 1e-3 * timeout_ms, n_sent);
}
