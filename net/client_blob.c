/* Transfers blobs between a client and a home in pieces. Several pieces are requested
 * or sent before the first one is answered; these pieces are called "under way". */
#include "net/client_internal.h"

enum { UP_WINDOW = 8, DOWN_WINDOW = 4, LEAST_WINDOW = 2 };

/* Chooses how many pieces are under way at once (the window). The window is a quarter
 * of the blob, so that a transfer needs few round trips. It has at least LEAST_WINDOW
 * pieces, and at most `most`, because pieces under way need memory in addition to the
 * blob. */
static size_t choose_window(uint64_t bytes, size_t most)
{
    uint64_t quarter = bytes / 4 / PL_WIRE_DATA_MAX;
    if (quarter < LEAST_WINDOW)
        return LEAST_WINDOW;
    return quarter < most ? (size_t)quarter : most;
}

/* ---- downloads: pieces are requested ahead and used in order ---- */
/* A download. If an answer is lost, or shorter than requested, all bytes from that
 * place on are requested again. A home answers questions in order, so an answer is lost
 * only if a connection breaks. Bytes are hashed while further bytes arrive. */
typedef struct download {
    pl_client *client;
    pl_socket *socket;
    /* the blob is requested from the home that owns this name; NULL: from the home at
     * `socket` */
    const char *name;
    pl_hash blob;
    pl_buf *out;
    size_t start; /* offset in `out` at which the blob begins */
    pl_blob_hashing hashing;
    bool known; /* whether `total` is known; the first answer contains it */
    uint64_t total, asked;
    /* request numbers of the pieces under way, the oldest first */
    uint64_t requests[DOWN_WINDOW];
    size_t n_under_way;
    /* retry.sent_ms is the time when all pieces under way were last requested again */
    client_retry retry;
    uint64_t line; /* state of pl_wire_reconnected */
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
    /* a piece that could not be requested now is requested again later */
    return status == PL_ERR_NET ? PL_OK : status;
}

static void go_back(download *d)
{
    d->n_under_way = 0;
    d->asked = there(d);
    d->retry.sent_ms = pl_now_ms();
}

static pl_status take_piece(download *d, pl_message *a)
{
    pl_msg_blob is;
    PL_CHECK(client_as_status(a));
    PL_CHECK(PL_HEAR(a, blob, &is));
    uint64_t total = is.total, left = total - there(d);
    if (a->type != PL_MSG_BLOB || (d->known && total != d->total) || there(d) > total ||
        a->data.len > left || (a->data.len == 0 && left > 0))
        return pl_fail(
            PL_ERR_PROTO,
            "the home sent a piece of a blob with a wrong type or a wrong size");
    if (d->client->blob_max > 0 && total > d->client->blob_max)
        return pl_fail(
            PL_ERR_PROTO,
            "the other process offers a blob of %llu bytes, but at most %llu "
            "are expected",
            (unsigned long long)total, (unsigned long long)d->client->blob_max);
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
    d->retry = client_retry_begin();
    go_back(d);
    while (!d->known || there(d) < d->total) {
        /* until the size is known, only one piece is requested */
        uint64_t end = d->known ? d->total : 1;
        size_t window = choose_window(d->total, DOWN_WINDOW);
        while (d->n_under_way < window && d->asked < end)
            PL_CHECK(ask_piece(d));
        pl_status status = client_wait_slice(d->client, d->socket, a);
        if (status != PL_OK && status != PL_ERR_TIMEOUT)
            return status;
        bool ours =
            status == PL_OK && d->n_under_way > 0 && a->request == d->requests[0];
        if (ours && d->name && a->type == PL_MSG_MOVED) {
            /* The name has moved to another home, so the rest of the blob is read from
             * that home. */
            PL_CHECK(client_follow(d->client, a, d->retry.heard_ms));
            d->socket = client_socket_of(d->client, d->name);
            d->line = 0;
            (void)pl_wire_reconnected(d->socket, &d->line);
            /* a move does not count as progress, so the time limit continues to run */
            go_back(d);
        } else if (ours) {
            PL_CHECK(take_piece(d, a));
            d->retry.heard_ms = pl_now_ms();
        }
        PL_CHECK(client_retry_patience(&d->retry, d->client));
        if (client_retry_due(&d->retry, pl_wire_reconnected(d->socket, &d->line)))
            go_back(d);
    }
    return PL_OK;
}

pl_status pl_client_get_blob(pl_client *c, const char *name, const pl_hash *blob,
                             pl_buf *out)
{
    return client_get_blob(c, HOME_OF_NAME, name, blob, out);
}

pl_status client_get_blob(pl_client *c, int home, const char *name, const pl_hash *blob,
                          pl_buf *out)
{
    pl_hash got;
    pl_message a;
    download d = {.client = c,
                  .socket = home == HOME_OF_NAME ? client_socket_of(c, name)
                                                 : c->sockets[home],
                  .name = home == HOME_OF_NAME ? name : NULL,
                  .blob = *blob,
                  .out = out,
                  .start = out->len};
    pl_message_init(&a, 0);
    (void)pl_wire_reconnected(d.socket, &d.line);
    pl_status status = run_download(&d, &a);
    pl_blob_hash_end(&d.hashing, out->data + d.start, there(&d), &got);
    if (status == PL_OK && !pl_hash_equal(&got, blob))
        status = pl_fail(PL_ERR_DAMAGED,
                         "a blob of %s arrived with a different hash; `pathloom store "
                         "fsck` tells whether the store's copy is intact",
                         name);
    if (status != PL_OK)
        out->len = d.start;
    pl_message_destroy(&a);
    return status;
}

/* ---- uploads: pieces are sent ahead, and each is acknowledged ---- */
typedef struct upload {
    pl_client *client;
    pl_socket *socket;
    const uint8_t *data;
    uint64_t bytes;
    pl_hash hash;
    bool impatient; /* whether to return ERR_BUSY at once if the home has no room */
    size_t n_pieces, next, n_waiting, window;
    /* when to send pieces again; it contains the time of the last acknowledgement */
    client_retry retry;
    uint64_t line;
    struct {
        uint64_t request;
        size_t piece;
        client_retry retry;
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
    pl_message_destroy(&m);
    /* a piece that could not be sent now is sent again later */
    return status == PL_ERR_NET ? PL_OK : status;
}

/* Sends new pieces, and sends each piece again whose acknowledgement is late. */
static pl_status send_due_pieces(upload *u)
{
    bool anew = pl_wire_reconnected(u->socket, &u->line);
    while (u->n_waiting < u->window && u->next < u->n_pieces) {
        size_t slot = u->n_waiting++;
        u->waiting[slot].request = pl_wire_next_request();
        u->waiting[slot].piece = u->next++;
        u->waiting[slot].retry = client_retry_begin();
    }
    for (size_t i = 0; i < u->n_waiting; i++) {
        client_retry *r = &u->waiting[i].retry;
        r->heard_ms = u->retry.heard_ms;
        if (client_retry_due(r, anew))
            PL_CHECK(send_piece(u, i));
    }
    return PL_OK;
}

/* Handles an acknowledgement. A home without free memory asks the client to wait, and
 * the piece is sent again a little later. The first piece reserves memory for the
 * complete blob at the home, so two uploads cannot block each other. */
static pl_status acknowledge(upload *u, pl_message *answer)
{
    for (size_t i = 0; i < u->n_waiting; i++) {
        if (u->waiting[i].request != answer->request)
            continue;
        pl_status status = client_as_status(answer);
        if (status == PL_ERR_BUSY && !u->impatient) {
            u->waiting[i].retry.sent_ms = pl_now_ms();
            u->waiting[i].retry.again_ms = RESEND_MS / 8;
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
    u->retry = client_retry_begin();
    pl_message_init(&a, 0);
    PL_TRY(send_due_pieces(u));
    while (u->n_waiting > 0) {
        status = client_wait_slice(u->client, u->socket, &a);
        if (status != PL_OK && status != PL_ERR_TIMEOUT)
            goto done;
        if (status == PL_OK) {
            size_t before = u->n_waiting;
            PL_TRY(acknowledge(u, &a));
            if (u->n_waiting < before)
                u->retry.heard_ms = pl_now_ms();
        }
        status = PL_OK;
        PL_TRY(client_retry_patience(&u->retry, u->client));
        PL_TRY(send_due_pieces(u));
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
