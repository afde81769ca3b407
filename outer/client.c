/* Questions to homes, resent until they are answered. */
#include "outer/client_parts.h"
#include "outer/submission.h"

enum { WINDOW = 8, UPLOADS_MAX = 8 };

pl_status pl_client_create(const pl_client_options *options, pl_client **out)
{
    pl_status status = PL_OK;
    *out = NULL;
    if (options->n_homes < 1 || options->n_homes > PL_HOMES_MAX)
        return pl_fail(PL_ERR_ARG, "a client needs 1 to %d homes, not %d", PL_HOMES_MAX,
                       options->n_homes);
    pl_client *c = pl_alloc(sizeof *c);
    c->patience_ms = options->patience_ms;
    c->idle = options->idle;
    c->idle_context = options->idle_context;
    for (; c->n_homes < options->n_homes; c->n_homes++)
        PL_TRY(pl_wire_connect_as(options->homes[c->n_homes], options->keys,
                                  &c->sockets[c->n_homes]));
    *out = c;
    c = NULL;
done:
    pl_client_destroy(&c);
    return status;
}

void pl_client_destroy(pl_client **client)
{
    pl_client *c = *client;
    if (!c)
        return;
    for (int i = 0; i < c->n_homes; i++)
        pl_wire_close(&c->sockets[i]);
    pl_free(c);
    *client = NULL;
}

int pl_client_home_of(const pl_client *client, const char *name)
{
    return pl_home_of(name, client->n_homes);
}

uint64_t pl_client_bytes_sent(const pl_client *client)
{
    uint64_t sum = 0;
    for (int i = 0; i < client->n_homes; i++)
        sum += pl_wire_bytes_sent(client->sockets[i]);
    return sum;
}

uint64_t pl_client_bytes_received(const pl_client *client)
{
    uint64_t sum = 0;
    for (int i = 0; i < client->n_homes; i++)
        sum += pl_wire_bytes_received(client->sockets[i]);
    return sum;
}

pl_socket *client_socket_of(const pl_client *c, const char *name)
{
    return c->sockets[pl_home_of(name, c->n_homes)];
}

pl_status client_wait_slice(pl_client *c, pl_socket *socket, pl_message *answer)
{
    bool ready = false;
    pl_status status = pl_wire_recv(socket, NULL, answer);
    if (status != PL_ERR_TIMEOUT)
        return status;
    pl_wire_poll(&socket, 1, NULL, 0, SLICE_MS, &ready);
    if (c->idle)
        PL_RETURN_IF(c->idle(c->idle_context));
    return pl_wire_recv(socket, NULL, answer);
}

pl_status client_as_status(pl_message *answer)
{
    if (answer->type != PL_MSG_ERR)
        return PL_OK;
    char text[1024];
    pl_reader r;
    pl_reader_open(&r, "error from home", answer->body.data, answer->body.len);
    uint64_t code = pl_get_u64(&r, PL_TAG_STATUS, 0);
    pl_get_text(&r, PL_TAG_TEXT, 0, text, sizeof text);
    PL_RETURN_IF(pl_reader_status(&r));
    if (code == PL_OK || code >= PL_STATUS_COUNT)
        code = PL_ERR_PROTO;
    return pl_fail((pl_status)code, "%s", text);
}

/* Backing off spares a slow line, but a home that has started again lost the question:
 * it is sent anew as soon as the line is back. */
static pl_status ask(pl_client *c, pl_socket *socket, pl_message *question,
                     pl_message *answer)
{
    int64_t start = pl_now_ms(), sent = 0, again = RESEND_MS;
    uint64_t line = 0;
    question->request = pl_wire_next_request();
    (void)pl_wire_reconnected(socket, &line);
    for (;;) {
        int64_t now = pl_now_ms();
        if (now - start > c->patience_ms)
            return pl_fail(PL_ERR_TIMEOUT,
                           "the home did not answer within %d s; see its log, or raise "
                           "workers.patience_s",
                           c->patience_ms / 1000);
        bool anew = pl_wire_reconnected(socket, &line);
        if (sent == 0 || anew || now - sent > again) {
            if (sent != 0 && again < RESEND_MAX_MS)
                again *= 2; /* a slow line must not carry everything twice */
            pl_status status = pl_wire_send(socket, question);
            if (status != PL_OK && status != PL_ERR_NET)
                return status;
            sent = now;
        }
        pl_status status = client_wait_slice(c, socket, answer);
        if (status == PL_ERR_TIMEOUT)
            continue;
        if (status != PL_OK)
            return status;
        if (answer->request == question->request)
            return client_as_status(answer);
    }
}

static pl_status ask_home(pl_client *c, const char *name, pl_message *question,
                          pl_message *answer)
{
    return ask(c, client_socket_of(c, name), question, answer);
}

/* ---- blobs down ---- */
pl_status pl_client_get_blob(pl_client *c, const char *name, const pl_hash *blob,
                             pl_buf *out)
{
    pl_status status = PL_OK;
    pl_message q, a;
    pl_hash got;
    size_t start = out->len;
    uint64_t total = 1;
    pl_message_init(&q, PL_MSG_GET_BLOB);
    pl_message_init(&a, 0);
    for (uint64_t at = 0; at < total;) {
        pl_reader r;
        pl_buf_clear(&q.body);
        pl_put_hash(&q.body, PL_TAG_BLOB, blob);
        pl_put_u64(&q.body, PL_TAG_OFFSET, at);
        PL_TRY(ask_home(c, name, &q, &a));
        pl_reader_open(&r, "BLOB", a.body.data, a.body.len);
        total = pl_get_u64(&r, PL_TAG_TOTAL, 0);
        PL_TRY(pl_reader_status(&r));
        if (a.type != PL_MSG_BLOB || (a.data.len == 0 && total > at) ||
            a.data.len > total - at)
            PL_TRY(pl_fail(PL_ERR_PROTO, "the home sent a wrong piece of a blob"));
        pl_buf_append(out, a.data.data, a.data.len);
        at += a.data.len;
    }
    pl_blob_hash(out->data + start, out->len - start, &got);
    if (!pl_hash_equal(&got, blob))
        PL_TRY(pl_fail(PL_ERR_DAMAGED, "a blob of %s arrived with another hash", name));
done:
    if (status != PL_OK)
        out->len = start;
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

/* ---- blobs up: WINDOW pieces under way, each acknowledged by its request ---- */
typedef struct upload {
    pl_client *client;
    pl_socket *socket;
    const uint8_t *data;
    uint64_t bytes;
    pl_hash hash;
    bool impatient; /* a full home ends it with ERR_BUSY */
    size_t n_pieces, next, n_waiting;
    int64_t heard_ms; /* an acknowledgement */
    uint64_t line;
    struct {
        uint64_t request;
        size_t piece;
        int64_t sent, resend_ms; /* doubles with every sending */
    } waiting[WINDOW];
} upload;

static pl_status send_piece(upload *u, size_t slot)
{
    pl_message m;
    uint64_t offset = (uint64_t)u->waiting[slot].piece * PL_WIRE_DATA_MAX;
    uint64_t len =
        u->bytes - offset < PL_WIRE_DATA_MAX ? u->bytes - offset : PL_WIRE_DATA_MAX;
    pl_message_init(&m, PL_MSG_PUT_BLOB);
    m.request = u->waiting[slot].request;
    pl_put_hash(&m.body, PL_TAG_BLOB, &u->hash);
    pl_put_u64(&m.body, PL_TAG_TOTAL, u->bytes);
    pl_put_u64(&m.body, PL_TAG_OFFSET, offset);
    pl_buf_append(&m.data, u->data + offset, (size_t)len);
    pl_status status = pl_wire_send(u->socket, &m);
    u->waiting[slot].sent = pl_now_ms();
    u->waiting[slot].resend_ms *= 2;
    pl_message_destroy(&m);
    return status == PL_ERR_NET ? PL_OK : status; /* sent again later */
}

static pl_status fill_window(upload *u)
{
    while (u->n_waiting < WINDOW && u->next < u->n_pieces) {
        size_t slot = u->n_waiting++;
        u->waiting[slot].request = pl_wire_next_request();
        u->waiting[slot].piece = u->next++;
        u->waiting[slot].resend_ms = RESEND_MS / 2;
        PL_RETURN_IF(send_piece(u, slot));
    }
    return PL_OK;
}

static pl_status resend_late(upload *u)
{
    int64_t now = pl_now_ms();
    bool anew = pl_wire_reconnected(u->socket, &u->line);
    for (size_t i = 0; i < u->n_waiting; i++) {
        int64_t sent = u->waiting[i].sent;
        int64_t since = now - (sent > u->heard_ms ? sent : u->heard_ms);
        if (anew || since > u->waiting[i].resend_ms) /* not while others still arrive */
            PL_RETURN_IF(send_piece(u, i));
    }
    return PL_OK;
}

/* A home that is full asks for patience: the piece goes again a little later. The first
 * piece reserves room for the whole blob, so that uploads cannot block one another. */
static pl_status acknowledge(upload *u, pl_message *answer)
{
    for (size_t i = 0; i < u->n_waiting; i++) {
        if (u->waiting[i].request != answer->request)
            continue;
        pl_status status = client_as_status(answer);
        if (status == PL_ERR_BUSY && !u->impatient) {
            u->waiting[i].sent = pl_now_ms();
            u->waiting[i].resend_ms = RESEND_MS / 8;
            return PL_OK;
        }
        u->waiting[i] = u->waiting[--u->n_waiting];
        return status;
    }
    return PL_OK;
}

static pl_status run_upload(upload *u)
{
    pl_status status = PL_OK;
    pl_message a;
    int64_t last = pl_now_ms();
    pl_message_init(&a, 0);
    PL_TRY(fill_window(u));
    while (u->n_waiting > 0) {
        status = client_wait_slice(u->client, u->socket, &a);
        if (status != PL_OK && status != PL_ERR_TIMEOUT)
            goto done;
        if (status == PL_OK) {
            size_t before = u->n_waiting;
            PL_TRY(acknowledge(u, &a));
            if (u->n_waiting < before)
                last = u->heard_ms = pl_now_ms();
        }
        status = PL_OK;
        if (pl_now_ms() - last > u->client->patience_ms)
            PL_TRY(pl_fail(PL_ERR_TIMEOUT, "the home took no data for %d s",
                           u->client->patience_ms / 1000));
        PL_TRY(resend_late(u));
        PL_TRY(fill_window(u));
    }
done:
    pl_message_destroy(&a);
    return status;
}

pl_status client_put_known_blob(pl_client *c, int home, const void *data,
                                uint64_t bytes, const pl_hash *blob, bool impatient)
{
    upload u = {.client = c, .socket = c->sockets[home], .data = data, .bytes = bytes};
    u.hash = *blob;
    u.impatient = impatient;
    (void)pl_wire_reconnected(u.socket, &u.line);
    u.n_pieces = (size_t)((bytes + PL_WIRE_DATA_MAX - 1) / PL_WIRE_DATA_MAX);
    if (u.n_pieces == 0)
        u.n_pieces = 1;
    return run_upload(&u);
}

static pl_status put_blob_at(pl_client *c, int home, const void *data, uint64_t bytes,
                             pl_hash *blob)
{
    pl_blob_hash(data, bytes, blob);
    return client_put_known_blob(c, home, data, bytes, blob, false);
}

pl_status pl_client_put_blob(pl_client *c, const char *name, const void *data,
                             uint64_t bytes, pl_hash *blob)
{
    return put_blob_at(c, pl_home_of(name, c->n_homes), data, bytes, blob);
}

/* ---- names ---- */
/* An upload, then the question that needs it. A home that started again in between has
 * forgotten the upload: then both are repeated. */
static pl_status put_and_ask(pl_client *c, int home, const void *data, uint64_t bytes,
                             pl_message *q, pl_message *a)
{
    pl_hash blob;
    pl_status status = PL_ERR_NOT_FOUND;
    for (int i = 0; i < UPLOADS_MAX && status == PL_ERR_NOT_FOUND; i++) {
        PL_RETURN_IF(put_blob_at(c, home, data, bytes, &blob));
        status = ask(c, c->sockets[home], q, a);
    }
    return status;
}

static pl_status put_object_at(pl_client *c, int home, const char *name,
                               const void *data, uint64_t bytes, pl_hash *blob)
{
    pl_message q, a;
    pl_blob_hash(data, bytes, blob);
    pl_message_init(&q, PL_MSG_PUT_OBJECT);
    pl_message_init(&a, 0);
    pl_put_text(&q.body, PL_TAG_NAME, name);
    pl_put_hash(&q.body, PL_TAG_BLOB, blob);
    pl_status status = put_and_ask(c, home, data, bytes, &q, &a);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

/* Every home needs every arm; any other object lies with its own home. */
pl_status pl_client_put_object(pl_client *c, const char *name, const void *data,
                               uint64_t bytes, pl_hash *blob)
{
    if (!pl_starts_with(name, "arm/"))
        return put_object_at(c, pl_home_of(name, c->n_homes), name, data, bytes, blob);
    for (int home = 0; home < c->n_homes; home++)
        PL_RETURN_IF(put_object_at(c, home, name, data, bytes, blob));
    return PL_OK;
}

/* Questions of the form "name -> hash". */
static pl_status ask_hash(pl_client *c, uint16_t type, const char *name, pl_hash *out)
{
    pl_message q, a;
    pl_reader r;
    pl_message_init(&q, type);
    pl_message_init(&a, 0);
    pl_put_text(&q.body, PL_TAG_NAME, name);
    pl_status status = ask_home(c, name, &q, &a);
    if (status == PL_OK) {
        pl_reader_open(&r, "answer from home", a.body.data, a.body.len);
        *out = pl_get_hash(&r, PL_TAG_BLOB, 0);
        status = pl_reader_status(&r);
    }
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

pl_status pl_client_get_object(pl_client *c, const char *name, pl_hash *blob)
{
    return ask_hash(c, PL_MSG_GET_OBJECT, name, blob);
}

static pl_status read_facts(const pl_message *a, pl_version_facts *out)
{
    pl_reader r;
    memset(out, 0, sizeof *out);
    pl_reader_open(&r, "VERSION_IS", a->body.data, a->body.len);
    out->number = pl_get_u64(&r, PL_TAG_VERSION, 0);
    out->params = pl_get_hash(&r, PL_TAG_BLOB, 0);
    out->norm = pl_get_f64(&r, PL_TAG_NORM, 0);
    if (pl_field_count(&r, PL_TAG_MOMENTUM) > 0)
        out->momentum = pl_get_hash(&r, PL_TAG_MOMENTUM, 0);
    if (pl_field_count(&r, PL_TAG_CHANGE) > 0) {
        out->change = pl_get_hash(&r, PL_TAG_CHANGE, 0);
        out->parent = pl_get_hash(&r, PL_TAG_BASE, 0);
    }
    return pl_reader_status(&r);
}

pl_status pl_client_get_version(pl_client *c, const char *module, int64_t number,
                                pl_version_facts *out)
{
    pl_message q, a;
    pl_message_init(&q, PL_MSG_GET_VERSION);
    pl_message_init(&a, 0);
    pl_put_text(&q.body, PL_TAG_NAME, module);
    pl_put_u64(&q.body, PL_TAG_VERSION, (uint64_t)number);
    pl_status status = ask_home(c, module, &q, &a);
    if (status == PL_OK)
        status = read_facts(&a, out);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

static void put_place(pl_buf *body, const char *module, int64_t round, int path,
                      int replica)
{
    pl_put_text(body, PL_TAG_NAME, module);
    pl_put_u64(body, PL_TAG_PATH, (uint64_t)path);
    pl_put_u64(body, PL_TAG_REPLICA, (uint64_t)replica);
    pl_put_u64(body, PL_TAG_PHASE, (uint64_t)round);
}

pl_status pl_client_meet(pl_client *c, const char *module, int64_t round, int path,
                         int replica, pl_meeting wish, pl_meeting *decision)
{
    pl_message q, a;
    pl_reader r;
    pl_message_init(&q, PL_MSG_MEET);
    pl_message_init(&a, 0);
    put_place(&q.body, module, round, path, replica);
    pl_put_u64(&q.body, PL_TAG_MEETING, (uint64_t)wish);
    pl_status status = ask_home(c, module, &q, &a);
    if (status == PL_OK) {
        pl_reader_open(&r, "MEETING_IS", a.body.data, a.body.len);
        uint64_t said = pl_get_u64(&r, PL_TAG_MEETING, 0);
        status = pl_reader_status(&r);
        if (status == PL_OK && said >= PL_MEETING_COUNT)
            status = pl_fail(PL_ERR_PROTO, "there is no meeting %llu",
                             (unsigned long long)said);
        *decision = status == PL_OK ? (pl_meeting)said : PL_MEETING_OPEN;
    }
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

pl_status pl_client_get_update(pl_client *c, const char *module, int64_t round,
                               int path, int replica, pl_hash *update)
{
    pl_message q, a;
    pl_reader r;
    pl_message_init(&q, PL_MSG_GET_UPDATE);
    pl_message_init(&a, 0);
    put_place(&q.body, module, round, path, replica);
    pl_status status = ask_home(c, module, &q, &a);
    if (status == PL_OK) {
        pl_reader_open(&r, "UPDATE_IS", a.body.data, a.body.len);
        *update = pl_get_hash(&r, PL_TAG_BLOB, 0);
        status = pl_reader_status(&r);
    }
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

pl_status pl_client_put_ref(pl_client *c, const char *name, const char *target)
{
    pl_message q, a;
    pl_message_init(&q, PL_MSG_PUT_REF);
    pl_message_init(&a, 0);
    pl_put_text(&q.body, PL_TAG_TEXT, target);
    pl_put_text(&q.body, PL_TAG_NAME, name);
    pl_status status = ask_home(c, name, &q, &a);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

/* The home is asked first: an arm that begins where another ended sends no bytes. */
pl_status pl_client_create_module(pl_client *c, const char *module, const float *params,
                                  size_t n, const pl_hash *config)
{
    pl_message q, a;
    pl_hash blob;
    uint64_t bytes = (uint64_t)n * sizeof *params;
    pl_blob_hash(params, bytes, &blob);
    pl_message_init(&q, PL_MSG_CREATE_MODULE);
    pl_message_init(&a, 0);
    pl_put_text(&q.body, PL_TAG_NAME, module);
    pl_put_hash(&q.body, PL_TAG_BASE, config);
    pl_put_hash(&q.body, PL_TAG_BLOB, &blob);
    pl_status status = ask_home(c, module, &q, &a);
    if (status == PL_ERR_NOT_FOUND)
        status = put_and_ask(c, pl_home_of(module, c->n_homes), params, bytes, &q, &a);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

pl_status pl_client_get_path(pl_client *c, const char *name, pl_path_state *out)
{
    pl_message q, a;
    pl_reader r;
    memset(out, 0, sizeof *out);
    pl_message_init(&q, PL_MSG_GET_PATH);
    pl_message_init(&a, 0);
    pl_put_text(&q.body, PL_TAG_NAME, name);
    pl_status status = ask_home(c, name, &q, &a);
    if (status == PL_OK) {
        pl_reader_open(&r, "PATH_IS", a.body.data, a.body.len);
        pl_copy_text(out->name, sizeof out->name, name);
        out->phase = (int64_t)pl_get_u64(&r, PL_TAG_PHASE, 0);
        out->samples = pl_get_u64(&r, PL_TAG_SAMPLES, 0);
        out->n_tokens = pl_get_u64(&r, PL_TAG_TOKENS, 0);
        out->loss = pl_get_f64(&r, PL_TAG_LOSS, 0);
        out->seconds = pl_get_f64(&r, PL_TAG_SECONDS, 0);
        out->moments = pl_get_hash(&r, PL_TAG_BLOB, 0);
        status = pl_reader_status(&r);
    }
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

/* ---- submissions ---- */
void client_put_submission(pl_message *q, const pl_submission *s)
{
    pl_contribution one = s->contribution;
    submission out = {.round = one.phase,
                      .base_version = s->base_version,
                      .base = s->base,
                      .update = one.update,
                      .n = 1,
                      .contributors = &one};
    pl_copy_text(out.module, sizeof out.module, s->module);
    submission_write(&out, q);
}

/* Submits; sends the blob first whenever the home says that it lacks it. */
static pl_status submit(pl_client *c, const char *name, pl_message *q, const void *data,
                        uint64_t bytes, pl_submit_result *result, char text[256])
{
    pl_status status = PL_OK;
    pl_message a;
    pl_hash blob;
    text[0] = '\0';
    pl_message_init(&a, 0);
    for (int attempt = 0;; attempt++) {
        pl_reader r;
        PL_TRY(ask_home(c, name, q, &a));
        pl_reader_open(&r, "SUBMITTED", a.body.data, a.body.len);
        uint64_t code = pl_get_u64(&r, PL_TAG_RESULT, 0);
        if (pl_field_count(&r, PL_TAG_TEXT) > 0)
            pl_get_text(&r, PL_TAG_TEXT, 0, text, 256);
        PL_TRY(pl_reader_status(&r));
        *result = (pl_submit_result)code;
        if (code != PL_SUBMIT_UNKNOWN_BLOB)
            goto done;
        if (attempt == 5)
            PL_TRY(pl_fail(PL_ERR_NET, "the home of %s lost an upload %d times", name,
                           attempt));
        PL_TRY(pl_client_put_blob(c, name, data, bytes, &blob));
    }
done:
    pl_message_destroy(&a);
    return status;
}

pl_status pl_client_submit_as(pl_client *c, const char *module, pl_message *q,
                              const void *data, uint64_t bytes,
                              pl_submit_result *result, char text[256])
{
    pl_hash blob;
    PL_RETURN_IF(pl_client_put_blob(c, module, data, bytes, &blob));
    return submit(c, module, q, data, bytes, result, text);
}

pl_status pl_client_submit(pl_client *c, pl_submission *s, pl_submit_result *result,
                           char text[256])
{
    pl_message q;
    pl_message_init(&q, PL_MSG_SUBMIT);
    pl_blob_hash(s->data, s->bytes, &s->contribution.update);
    client_put_submission(&q, s);
    pl_status status =
        pl_client_submit_as(c, s->module, &q, s->data, s->bytes, result, text);
    pl_message_destroy(&q);
    return status;
}

void client_put_path(pl_buf *body, const pl_path_state *state)
{
    pl_put_text(body, PL_TAG_NAME, state->name);
    pl_put_text(body, PL_TAG_DEVICE, state->worker);
    pl_put_u64(body, PL_TAG_PHASE, (uint64_t)state->phase);
    pl_put_hash(body, PL_TAG_BLOB, &state->moments);
    pl_put_u64(body, PL_TAG_SAMPLES, state->samples);
    pl_put_u64(body, PL_TAG_TOKENS, state->n_tokens);
    pl_put_f64(body, PL_TAG_LOSS, state->loss);
    pl_put_f64(body, PL_TAG_SECONDS, state->seconds);
}

pl_status pl_client_submit_path(pl_client *c, const pl_path_state *given,
                                uint64_t token, const void *moments, uint64_t bytes,
                                pl_submit_result *result, char text[256])
{
    pl_message q;
    pl_path_state state = *given;
    if (pl_hash_none(&state.moments))
        pl_blob_hash(moments, bytes, &state.moments);
    PL_RETURN_IF(client_put_known_blob(c, pl_home_of(state.name, c->n_homes), moments,
                                       bytes, &state.moments, false));
    pl_message_init(&q, PL_MSG_SUBMIT_PATH);
    q.token = token;
    client_put_path(&q.body, &state);
    pl_status status = submit(c, state.name, &q, moments, bytes, result, text);
    pl_message_destroy(&q);
    return status;
}

pl_status pl_client_stop_homes(pl_client *c)
{
    pl_message q, a;
    pl_status status = PL_OK;
    pl_message_init(&q, PL_MSG_STOP);
    pl_message_init(&a, 0);
    for (int i = 0; i < c->n_homes && status == PL_OK; i++)
        status = ask(c, c->sockets[i], &q, &a);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}
