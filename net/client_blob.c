/* Transfers blobs between a client and a home in pieces. Several pieces are requested
 * or sent before the first one is answered; these pieces are called "under way".
 *
 * A home handles the messages of one connection in order, so as long as the connection
 * lives, each answer comes, however late. Therefore a piece is requested or sent again
 * only if its connection broke, or if the connection was silent for SILENCE_MS. */
#include "net/client_internal.h"

/* an upload that waits for room shows at least this often that it still waits */
enum { ROOM_MS = 2000 };

typedef struct piece {
    uint64_t request, offset;
    size_t len;
    uint64_t turn;    /* number of the sending; it rises with each piece that is sent */
    uint64_t counted; /* flow.counted when the piece was sent */
    double sent;      /* time of sending, in seconds */
} piece;

/* The pieces under way of one upload or download, the oldest first. */
typedef struct flow {
    pl_client *client;
    int home;
    bool up;
    client_retry retry;
    piece pieces[CLIENT_PIECES_MAX];
    size_t n_pieces, n_bytes;
    uint64_t turn, counted; /* counted: bytes whose answers have come */
} flow;

static pl_socket *socket_of_flow(const flow *f)
{
    return f->client->sockets[f->home];
}

static client_line *line_of_flow(const flow *f)
{
    return &f->client->lines[f->home];
}

static void mark_sent(flow *f, piece *p)
{
    p->turn = ++f->turn;
    p->counted = f->counted;
    p->sent = pl_now();
    f->retry.sent_ms = pl_now_ms();
    if (f->turn == 1) /* the first piece: nothing is sent again yet */
        f->retry.again_ms = INT64_MAX;
}

/* Returns how many bytes the next piece, which begins at `offset`, may have; 0 if the
 * window is full. A piece ends at a multiple of its size, so that it lies in one chunk
 * of the home's store. */
static size_t next_piece_bytes(const flow *f, uint64_t offset)
{
    size_t window = client_window_bytes(f->client, f->home, f->up);
    size_t size = client_piece_bytes(line_of_flow(f), f->up);
    size_t bytes = size - (size_t)(offset % size);
    return f->n_pieces < CLIENT_PIECES_MAX && f->n_bytes + bytes <= window ? bytes : 0;
}

static piece *add_piece(flow *f, uint64_t offset, size_t len)
{
    piece *p = &f->pieces[f->n_pieces++];
    *p = (piece){.request = pl_wire_next_request(), .offset = offset, .len = len};
    f->n_bytes += len;
    return p;
}

static piece *find_piece(flow *f, uint64_t request)
{
    for (size_t i = 0; i < f->n_pieces; i++)
        if (f->pieces[i].request == request && f->pieces[i].len > 0)
            return &f->pieces[i];
    return NULL;
}

/* Notes that `bytes` of a piece have arrived; a piece without bytes is finished. */
static void count_bytes(flow *f, piece *p, size_t bytes)
{
    pl_link *link = &line_of_flow(f)->link;
    f->counted += bytes;
    f->n_bytes -= bytes;
    p->offset += bytes;
    p->len -= bytes;
    *(f->up ? &link->up_bytes : &link->down_bytes) += bytes;
    client_line_note(line_of_flow(f), f->up, f->counted - p->counted,
                     pl_now() - p->sent);
    client_retry_answered(&f->retry);
}

static void remove_finished(flow *f)
{
    size_t n = 0;
    while (n < f->n_pieces && f->pieces[n].len == 0)
        n++;
    f->n_pieces -= n;
    memmove(f->pieces, f->pieces + n, f->n_pieces * sizeof *f->pieces);
}

/* ---- downloads: pieces are requested ahead ---- */
typedef struct download {
    flow flow;
    pl_hash blob;
    pl_buf *out;
    size_t start;            /* offset in `out` at which the blob begins */
    pl_blob_hashing hashing; /* bytes are hashed while further bytes arrive */
    bool known;              /* whether `total` is known; every answer contains it */
    uint64_t total, asked;
} download;

/* Returns the number of bytes that have arrived without a gap. */
static uint64_t there(const download *d)
{
    uint64_t at = d->flow.n_pieces > 0 ? d->flow.pieces[0].offset : d->asked;
    return d->known && at > d->total ? d->total : at;
}

static pl_status ask_piece(download *d, piece *p)
{
    pl_message q;
    pl_message_init(&q, 0);
    q.request = p->request;
    PL_SAY(&q, GET_BLOB, get_blob, .blob = d->blob, .total = p->len,
           .offset = p->offset);
    mark_sent(&d->flow, p);
    pl_status status = pl_wire_send(socket_of_flow(&d->flow), &q);
    pl_message_destroy(&q);
    if (status == PL_ERR_NET) /* all pieces are requested again later */
        client_retry_later(&d->flow.retry, SLICE_MS);
    return status == PL_ERR_NET ? PL_OK : status;
}

/* Requests the pieces again that were requested before `turn` and have not come. */
static pl_status ask_again(download *d, uint64_t turn)
{
    for (size_t i = 0; i < d->flow.n_pieces; i++) {
        piece *p = &d->flow.pieces[i];
        if (p->len == 0 || p->turn >= turn)
            continue;
        line_of_flow(&d->flow)->link.repeated_bytes += p->len;
        PL_CHECK(ask_piece(d, p));
    }
    return PL_OK;
}

/* Copies the bytes of an answer to their place in `out`. If bytes are missing, because
 * the answer is shorter than requested, requests these bytes. */
static pl_status take_piece(download *d, piece *p, pl_message *a)
{
    pl_msg_blob is;
    PL_CHECK(client_as_status(a));
    PL_CHECK(PL_HEAR(a, blob, &is));
    uint64_t left = is.total > p->offset ? is.total - p->offset : 0;
    if (a->type != PL_MSG_BLOB || (d->known && is.total != d->total) ||
        a->data.len > left || a->data.len > p->len || (a->data.len == 0 && left > 0))
        return pl_fail(
            PL_ERR_PROTO,
            "the home sent a piece of a blob with a wrong type or a wrong size");
    if (d->flow.client->blob_max > 0 && is.total > d->flow.client->blob_max)
        return pl_fail(
            PL_ERR_PROTO,
            "the other process offers a blob of %llu bytes, but at most %llu "
            "are expected",
            (unsigned long long)is.total, (unsigned long long)d->flow.client->blob_max);
    d->total = is.total;
    d->known = true;
    size_t end = d->start + (size_t)p->offset + a->data.len, turn = p->turn;
    if (a->data.len > 0 && d->out->len < end) {
        pl_buf_reserve(d->out, end - d->out->len);
        d->out->len = end;
    }
    if (a->data.len > 0)
        memcpy(d->out->data + end - a->data.len, a->data.data, a->data.len);
    count_bytes(&d->flow, p, a->data.len);
    if (p->len > left - a->data.len) { /* the blob ends inside the piece */
        d->flow.n_bytes -= p->len - (size_t)(left - a->data.len);
        p->len = (size_t)(left - a->data.len);
    }
    if (p->len > 0) {
        p->request = pl_wire_next_request();
        PL_CHECK(ask_piece(d, p));
    }
    /* answers come in order, so earlier questions without an answer were lost */
    PL_CHECK(ask_again(d, turn));
    remove_finished(&d->flow);
    pl_blob_hash_some(&d->hashing, d->out->data + d->start, there(d));
    return PL_OK;
}

static pl_status run_download(download *d, pl_message *a)
{
    flow *f = &d->flow;
    size_t bytes;
    while (!d->known || there(d) < d->total) {
        /* Requests pieces until the window is full. Until the size of the blob is
         * known, at most two pieces are requested; a home answers without bytes beyond
         * the end. */
        const uint64_t end = d->known ? d->total : 2 * (uint64_t)CLIENT_PIECE_MAX;
        while (d->asked < end && (d->known || f->n_pieces < 2) &&
               (bytes = next_piece_bytes(f, d->asked)) > 0) {
            if (bytes > end - d->asked)
                bytes = (size_t)(end - d->asked);
            piece *p = add_piece(f, d->asked, bytes);
            d->asked += bytes;
            PL_CHECK(ask_piece(d, p));
        }
        pl_status status = client_wait_slice(f->client, socket_of_flow(f), a);
        piece *p = status == PL_OK ? find_piece(f, a->request) : NULL;
        if (p && client_was_lost(a))
            client_retry_later(&f->retry, BOUNCE_MS);
        else if (p)
            status = take_piece(d, p, a);
        if (status != PL_OK && status != PL_ERR_TIMEOUT)
            return status;
        if (client_retry_due(&f->retry, socket_of_flow(f)))
            PL_CHECK(ask_again(d, UINT64_MAX));
        PL_CHECK(client_retry_patience(&f->retry, f->client));
    }
    return PL_OK;
}

pl_status pl_client_get_blob(pl_client *c, const char *name, const pl_hash *blob,
                             pl_buf *out)
{
    pl_hash got;
    pl_message a;
    download d = {.flow = {.client = c, .home = pl_home_of(name, c->n_homes)},
                  .blob = *blob,
                  .out = out,
                  .start = out->len};
    pl_message_init(&a, 0);
    d.flow.retry = client_retry_begin(socket_of_flow(&d.flow));
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

/* ---- uploads: the home says from where on it needs bytes ---- */
/*
 *            PUT_STATE                       all bytes are there
 *   asking -----------> sending ---------------------------------> end
 *    |  ^                  |
 *    |  |                  |  the connection broke, or the home cannot use a piece
 *    |  +------------------+
 *    +-> ERR_BUSY: the home has no room yet; PUT_STATE comes when there is room
 */
typedef struct upload {
    flow flow;
    const uint8_t *data;
    uint64_t bytes;
    pl_hash hash;
    bool impatient; /* whether to return ERR_BUSY at once if the home has no room */
    bool sending;
    uint64_t request;     /* of the newest question how far the home is */
    uint64_t next, there; /* bytes that were sent, and that the home has */
} upload;

/* Sends bytes to the home, or, if `len` is 0, asks for room and for how far it is. That
 * question has the first bytes as RECORD, so that a relay knows whether it keeps the
 * blob. */
static pl_status send_put(upload *u, uint64_t request, uint64_t offset, size_t len)
{
    pl_message m;
    const pl_sealed_lease *lease = &u->flow.client->lease;
    size_t head = len > 0 ? 0 : u->bytes < PL_PUT_HEAD ? (size_t)u->bytes : PL_PUT_HEAD;
    pl_message_init(&m, 0);
    m.request = request;
    PL_SAY(&m, PUT_BLOB, put_blob, .blob = u->hash, .total = u->bytes, .offset = offset,
           .lease = {lease->len > 0 ? lease->bytes : NULL, lease->len},
           .head = {head > 0 ? u->data : NULL, head});
    if (len > 0)
        pl_buf_append(&m.data, u->data + offset, len);
    pl_status status = pl_wire_give_to(socket_of_flow(&u->flow), NULL, &m);
    pl_message_destroy(&m);
    if (status == PL_ERR_NET) /* the home is asked again later */
        client_retry_later(&u->flow.retry, SLICE_MS);
    return status == PL_ERR_NET ? PL_OK : status;
}

static pl_status take_put_answer(upload *u, pl_message *a)
{
    flow *f = &u->flow;
    pl_msg_put_state is = {0};
    piece *p = u->sending ? find_piece(f, a->request) : NULL;
    if (!p && (u->sending || a->request != u->request))
        return PL_OK;
    client_retry_answered(&f->retry);
    pl_status status = client_as_status(a);
    if (status == PL_ERR_BUSY && u->impatient && !p)
        return status;
    if (status == PL_ERR_BUSY || status == PL_ERR_NET) {
        /* If the home has no room, PUT_STATE comes when there is some. The question is
         * asked again only to show that this client still waits. */
        int third_ms = f->client->patience_ms / 3;
        int room_ms = third_ms < ROOM_MS ? third_ms : ROOM_MS;
        client_retry_later(&f->retry,
                           status == PL_ERR_BUSY && !p ? room_ms : BOUNCE_MS);
        return PL_OK;
    }
    PL_CHECK(status);
    PL_CHECK(PL_HEAR(a, put_state, &is));
    if (is.offset > u->bytes)
        return pl_fail(PL_ERR_PROTO,
                       "the home says that it has %llu bytes of a blob of %llu bytes",
                       (unsigned long long)is.offset, (unsigned long long)u->bytes);
    if (!p) { /* the answer to the question from where on the home needs bytes */
        if (u->next > is.offset)
            line_of_flow(f)->link.repeated_bytes += u->next - is.offset;
        u->next = u->there = is.offset;
        u->sending = true;
    } else if (is.offset >= p->offset + p->len) {
        u->there = is.offset;
        for (size_t i = 0; i < f->n_pieces; i++)
            if (f->pieces[i].offset + f->pieces[i].len <= u->there)
                count_bytes(f, &f->pieces[i], f->pieces[i].len);
        remove_finished(f);
    } else {
        client_retry_later(&f->retry, 0); /* bytes are missing at the home */
    }
    return PL_OK;
}

pl_status client_put_known_blob(pl_client *c, int home, const void *data,
                                uint64_t bytes, const pl_hash *blob, bool impatient)
{
    upload u = {.flow = {.client = c, .home = home, .up = true},
                .data = data,
                .bytes = bytes,
                .hash = *blob,
                .impatient = impatient};
    flow *f = &u.flow;
    pl_socket *socket = socket_of_flow(f);
    pl_status status = PL_OK;
    pl_message a;
    size_t len;
    pl_message_init(&a, 0);
    f->retry = client_retry_begin(socket);
    while (!u.sending || u.there < bytes) {
        if (client_retry_due(&f->retry, socket)) {
            /* Asks how far the home is. Pieces under way are forgotten: the home
             * handles them before this question, or they are lost. */
            if (u.sending || u.request == 0) /* else the old question is sent again */
                u.request = pl_wire_next_request();
            u.sending = false;
            f->n_pieces = f->n_bytes = 0;
            PL_TRY(send_put(&u, u.request, 0, 0));
        }
        while (u.sending && u.next < bytes && (len = next_piece_bytes(f, u.next)) > 0) {
            if (len > bytes - u.next)
                len = (size_t)(bytes - u.next);
            piece *p = add_piece(f, u.next, len);
            u.next += len;
            mark_sent(f, p);
            PL_TRY(send_put(&u, p->request, p->offset, len));
        }
        status = client_wait_slice(c, socket, &a);
        if (status == PL_OK)
            status = take_put_answer(&u, &a);
        if (status != PL_OK && status != PL_ERR_TIMEOUT)
            goto done;
        PL_TRY(client_retry_patience(&f->retry, c));
    }
done:
    pl_message_destroy(&a);
    return status;
}

pl_status pl_client_put_blob(pl_client *c, const char *name, const void *data,
                             uint64_t bytes, pl_hash *blob)
{
    pl_blob_hash(data, bytes, blob);
    return client_put_known_blob(c, pl_home_of(name, c->n_homes), data, bytes, blob,
                                 false);
}
