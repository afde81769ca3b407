/* Transfers blobs between a client and a home in pieces, several of which are under way
 * at once. */
#include "net/client_internal.h"

enum { UP_WINDOW = 8, DOWN_WINDOW = 4, LEAST_WINDOW = 2 };

/* Pieces under way are a second copy of their part of the blob. With a quarter of it
 * under way at a time, a transfer costs at most four round trips. */
static size_t choose_window(uint64_t bytes, size_t most)
{
    uint64_t quarter = bytes / 4 / PL_WIRE_DATA_MAX;
    if (quarter < LEAST_WINDOW)
        return LEAST_WINDOW;
    return quarter < most ? (size_t)quarter : most;
}

/* ---- down: pieces are asked for ahead and taken in order ---- */
/* If an answer is lost, or shorter than asked for, everything from there on is asked
 * for again. A home answers in the order of the questions, so this happens only when a
 * connection breaks. Bytes are hashed while others arrive. */
typedef struct download {
    pl_client *client;
    pl_socket *socket;
    const char *name; /* the name with which the blob lies */
    pl_hash blob;
    pl_buf *out;
    size_t start; /* where the blob begins in `out` */
    pl_blob_hashing hashing;
    bool known; /* whether the blob's size is known, which the first answer tells */
    uint64_t total, asked;
    uint64_t requests[DOWN_WINDOW]; /* under way, oldest first */
    size_t n_under_way;
    int64_t heard_ms, sent_ms, again_ms;
    uint64_t line;
} download;

static uint64_t there(const download *d)
{
    return d->out->len - d->start;
}

static pl_status ask_piece(download *d)
{
    pl_message q;
    pl_message_init(&q, 0);
    q.request = d->requests[d->n_under_way++] = pl_wire_next_request();
    PL_SAY(&q, GET_BLOB, get_blob, .name = d->name, .blob = d->blob,
           .offset = d->asked);
    pl_status status = pl_wire_send(d->socket, &q);
    pl_message_destroy(&q);
    d->asked += PL_WIRE_DATA_MAX;
    return status == PL_ERR_NET ? PL_OK : status; /* it is asked again later */
}

static void go_back(download *d)
{
    d->n_under_way = 0;
    d->asked = there(d);
    d->sent_ms = pl_now_ms();
}

/* Waits longer after each try, because a slow connection must not carry everything
 * twice. When the connection was made anew it does not wait, because nothing is under
 * way. */
static void go_back_if_late(download *d, int64_t now)
{
    int64_t since = now - (d->heard_ms > d->sent_ms ? d->heard_ms : d->sent_ms);
    bool anew = pl_wire_reconnected(d->socket, &d->line);
    if (!anew && since <= d->again_ms)
        return;
    if (!anew && d->again_ms < RESEND_MAX_MS)
        d->again_ms *= 2;
    go_back(d);
}

static pl_status take_piece(download *d, pl_message *a)
{
    pl_msg_blob is;
    PL_CHECK(client_as_status(a));
    PL_CHECK(PL_HEAR(a, blob, &is));
    uint64_t total = is.total, left = total - there(d);
    if (a->type != PL_MSG_BLOB || (d->known && total != d->total) || there(d) > total ||
        a->data.len > left || (a->data.len == 0 && left > 0))
        return pl_fail(PL_ERR_PROTO, "the home sent a wrong piece of a blob");
    d->total = total;
    d->known = true;
    pl_buf_append(d->out, a->data.data, a->data.len);
    pl_blob_hash_some(&d->hashing, d->out->data + d->start, there(d));
    d->n_under_way--;
    memmove(d->requests, d->requests + 1, d->n_under_way * sizeof *d->requests);
    if (a->data.len < PL_WIRE_DATA_MAX && a->data.len < left)
        go_back(d);
    return PL_OK;
}

static pl_status run_download(download *d, pl_message *a)
{
    go_back(d);
    d->heard_ms = d->sent_ms;
    while (!d->known || there(d) < d->total) {
        /* Until the size is known, only one piece is asked for. */
        uint64_t end = d->known ? d->total : 1;
        size_t window = choose_window(d->total, DOWN_WINDOW);
        while (d->n_under_way < window && d->asked < end)
            PL_CHECK(ask_piece(d));
        pl_status status = client_wait_slice(d->client, d->socket, a);
        int64_t now = pl_now_ms();
        if (status != PL_OK && status != PL_ERR_TIMEOUT)
            return status;
        bool ours =
            status == PL_OK && d->n_under_way > 0 && a->request == d->requests[0];
        if (ours && a->type == PL_MSG_MOVED) {
            /* The name has moved to another home, which has the rest. */
            PL_CHECK(client_follow(d->client, a, d->heard_ms));
            d->socket = client_socket_of(d->client, d->name);
            d->line = 0;
            (void)pl_wire_reconnected(d->socket, &d->line);
            go_back(d); /* no progress, so the time limit goes on */
        } else if (ours) {
            PL_CHECK(take_piece(d, a));
            d->heard_ms = now;
        }
        if (now - d->heard_ms > d->client->patience_ms)
            return pl_fail(PL_ERR_TIMEOUT,
                           "the home did not answer within %d s; see its log, or raise "
                           "workers.patience_s",
                           d->client->patience_ms / 1000);
        go_back_if_late(d, now);
    }
    return PL_OK;
}

pl_status pl_client_get_blob(pl_client *c, const char *name, const pl_hash *blob,
                             pl_buf *out)
{
    pl_hash got;
    pl_message a;
    download d = {.client = c,
                  .socket = client_socket_of(c, name),
                  .name = name,
                  .blob = *blob,
                  .out = out,
                  .start = out->len,
                  .again_ms = RESEND_MS};
    pl_message_init(&a, 0);
    (void)pl_wire_reconnected(d.socket, &d.line);
    pl_status status = run_download(&d, &a);
    pl_blob_hash_end(&d.hashing, out->data + d.start, there(&d), &got);
    if (status == PL_OK && !pl_hash_equal(&got, blob))
        status = pl_fail(PL_ERR_DAMAGED,
                         "a blob of %s arrived with another hash; `pathloom store "
                         "fsck` tells whether the store has it whole",
                         name);
    if (status != PL_OK)
        out->len = d.start;
    pl_message_destroy(&a);
    return status;
}

/* ---- blobs up: pieces under way, each acknowledged by its request ---- */
typedef struct upload {
    pl_client *client;
    pl_socket *socket;
    const uint8_t *data;
    uint64_t bytes;
    pl_hash hash;
    bool impatient; /* if the home is full, end with ERR_BUSY */
    size_t n_pieces, next, n_waiting, window;
    int64_t heard_ms; /* when the last acknowledgement came */
    uint64_t line;
    struct {
        uint64_t request;
        size_t piece;
        int64_t sent, resend_ms; /* resend_ms doubles with every sending */
    } waiting[UP_WINDOW];
} upload;

static pl_status send_piece(upload *u, size_t slot)
{
    pl_message m;
    const pl_submission_lease *lease = &u->client->lease;
    uint64_t offset = (uint64_t)u->waiting[slot].piece * PL_WIRE_DATA_MAX;
    uint64_t len =
        u->bytes - offset < PL_WIRE_DATA_MAX ? u->bytes - offset : PL_WIRE_DATA_MAX;
    pl_message_init(&m, PL_MSG_PUT_BLOB);
    m.request = u->waiting[slot].request;
    PL_SAY(&m, PUT_BLOB, put_blob, .blob = u->hash, .total = u->bytes, .offset = offset,
           .lease = {lease->len > 0 ? lease->bytes : NULL, lease->len});
    pl_buf_append(&m.data, u->data + offset, (size_t)len);
    pl_status status = pl_wire_give(u->socket, &m);
    u->waiting[slot].sent = pl_now_ms();
    u->waiting[slot].resend_ms *= 2;
    pl_message_destroy(&m);
    return status == PL_ERR_NET ? PL_OK : status; /* it is sent again later */
}

static pl_status fill_window(upload *u)
{
    while (u->n_waiting < u->window && u->next < u->n_pieces) {
        size_t slot = u->n_waiting++;
        u->waiting[slot].request = pl_wire_next_request();
        u->waiting[slot].piece = u->next++;
        u->waiting[slot].resend_ms = RESEND_MS / 2;
        PL_CHECK(send_piece(u, slot));
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
            PL_CHECK(send_piece(u, i));
    }
    return PL_OK;
}

/* A full home asks the client to wait, so the piece is sent again a little later. The
 * first piece reserves room for the whole blob, so uploads cannot block each other. */
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
    u.window = choose_window(bytes, UP_WINDOW);
    return run_upload(&u);
}

pl_status pl_client_put_blob(pl_client *c, const char *name, const void *data,
                             uint64_t bytes, pl_hash *blob)
{
    pl_blob_hash(data, bytes, blob);
    return client_put_known_blob(c, client_home_of(c, name), data, bytes, blob, false);
}
