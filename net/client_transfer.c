/* Transfers blobs between a client and a home in pieces. Several pieces are requested
 * or sent before the first one is answered; these pieces are called "under way". Small
 * blobs are under way together, so that many of them need one round trip and not one
 * each.
 *
 * A home handles the messages of one connection in order, so as long as the connection
 * lives, each answer comes, however late. Therefore a piece is requested or sent again
 * only if its connection broke, or if the connection was silent for SILENCE_MS. After
 * silence a download requests only its oldest piece again. If that answer comes before
 * the first one, the questions were lost, and all others are asked again. */
#include "net/client_internal.h"

/* an upload that waits for room shows at least this often that it still waits */
enum { ROOM_MS = 2000 };

typedef struct piece {
    uint64_t request, offset;
    size_t len;
    uint64_t turn;    /* number of the sending; it rises with each piece that is sent */
    uint64_t counted; /* flow.counted when the piece was sent */
    double sent;      /* time of sending, in seconds */
    /* of the repetition after silence; equal to request and turn if there is none */
    uint64_t again, again_turn;
} piece;

/* What the blobs have in common that are under way together on one connection. */
typedef struct together {
    size_t n_bytes;         /* bytes under way */
    uint64_t turn, counted; /* counted: bytes whose answers have come */
} together;

/* The pieces under way of one upload or download, the oldest first. */
typedef struct flow {
    pl_client *client;
    int home;
    bool up;
    together *all;
    client_retry retry;
    piece pieces[CLIENT_PIECES_MAX];
    size_t n_pieces;
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
    p->turn = ++f->all->turn;
    p->counted = f->all->counted;
    p->sent = pl_now();
    p->again = p->request;
    p->again_turn = p->turn;
    f->retry.sent_ms = pl_now_ms();
}

/* Returns how many bytes the next piece, which begins at `offset`, may have; 0 if the
 * window is full. A piece ends at a multiple of its size, so that it lies in one chunk
 * of the home's store. */
static size_t next_piece_bytes(const flow *f, uint64_t offset)
{
    size_t window = client_window_bytes(f->client, f->home, f->up);
    size_t size = client_piece_bytes(line_of_flow(f), f->up);
    size_t bytes = size - (size_t)(offset % size);
    return f->n_pieces < CLIENT_PIECES_MAX && f->all->n_bytes + bytes <= window ? bytes
                                                                                : 0;
}

static piece *add_piece(flow *f, uint64_t offset, size_t len)
{
    piece *p = &f->pieces[f->n_pieces++];
    *p = (piece){.request = pl_wire_next_request(), .offset = offset, .len = len};
    f->all->n_bytes += len;
    return p;
}

static piece *find_piece(flow *f, uint64_t request)
{
    for (size_t i = 0; i < f->n_pieces; i++)
        if ((f->pieces[i].request == request || f->pieces[i].again == request) &&
            f->pieces[i].len > 0)
            return &f->pieces[i];
    return NULL;
}

/* Notes that `bytes` of a piece have arrived; a piece without bytes is finished. */
static void count_bytes(flow *f, piece *p, size_t bytes)
{
    pl_link *link = &line_of_flow(f)->link;
    f->all->counted += bytes;
    f->all->n_bytes -= bytes;
    p->offset += bytes;
    p->len -= bytes;
    *(f->up ? &link->up_bytes : &link->down_bytes) += bytes;
    client_line_note(line_of_flow(f), f->up, f->all->counted - p->counted,
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

static void forget_pieces(flow *f)
{
    for (size_t i = 0; i < f->n_pieces; i++)
        f->all->n_bytes -= f->pieces[i].len;
    f->n_pieces = 0;
}

/* ---- downloads: pieces are requested ahead ---- */
typedef struct download {
    flow flow;
    const pl_wanted *want;
    size_t start;            /* offset in want->out at which the blob begins */
    uint64_t begun;          /* bytes that came directly before */
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

static pl_status send_get(download *d, const piece *p, uint64_t request)
{
    pl_message q = {.request = request};
    PL_SAY(&q, GET_BLOB, get_blob, .blob = d->want->blob, .total = p->len,
           .offset = p->offset);
    pl_status status = pl_wire_send(socket_of_flow(&d->flow), &q);
    pl_message_destroy(&q);
    if (status == PL_ERR_NET) /* all pieces are requested again later */
        client_retry_later(&d->flow.retry, SLICE_MS);
    return status == PL_ERR_NET ? PL_OK : status;
}

static pl_status ask_piece(download *d, piece *p)
{
    mark_sent(&d->flow, p);
    return send_get(d, p, p->request);
}

/* Requests the oldest piece once more, beside the first question. */
static pl_status ask_oldest(download *d)
{
    piece *p = d->flow.pieces;
    p->again = pl_wire_next_request();
    p->again_turn = ++d->flow.all->turn;
    line_of_flow(&d->flow)->link.repeated_bytes += p->len;
    return send_get(d, p, p->again);
}

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
    pl_buf *out = d->want->out;
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
    size_t end = d->start + (size_t)p->offset + a->data.len;
    if (a->data.len > 0 && out->len < end) {
        pl_buf_reserve(out, end - out->len);
        out->len = end;
    }
    if (a->data.len > 0)
        memcpy(out->data + end - a->data.len, a->data.data, a->data.len);
    count_bytes(&d->flow, p, a->data.len);
    if (p->len > left - a->data.len) { /* the blob ends inside the piece */
        d->flow.all->n_bytes -= p->len - (size_t)(left - a->data.len);
        p->len = (size_t)(left - a->data.len);
    }
    if (p->len > 0) {
        p->request = pl_wire_next_request();
        PL_CHECK(ask_piece(d, p));
    }
    remove_finished(&d->flow);
    pl_blob_hash_some(&d->hashing, out->data + d->start, there(d));
    return PL_OK;
}

static bool has_come(const download *d)
{
    return d->known && there(d) >= d->total;
}

static pl_status take_blob_answer(download *all, size_t n, pl_message *a)
{
    for (size_t i = 0; i < n; i++) {
        piece *p = find_piece(&all[i].flow, a->request);
        if (!p)
            continue;
        if (client_as_status(a) == PL_ERR_NET) { /* lost between a relay and its home */
            client_retry_later(&all[i].flow.retry, BOUNCE_MS);
            return PL_OK;
        }
        const uint64_t turn = a->request == p->request ? p->turn : p->again_turn;
        PL_CHECK(take_piece(&all[i], p, a));
        /* answers come in order, so earlier questions without an answer were lost */
        for (size_t k = 0; k < n; k++)
            PL_CHECK(ask_again(&all[k], turn));
        if (has_come(&all[i])) /* what was requested beyond the end takes no room */
            forget_pieces(&all[i].flow);
        return PL_OK;
    }
    return PL_OK; /* nobody waits for this answer */
}

static pl_status run_downloads(download *all, size_t n, pl_message *a)
{
    for (bool open = true; open;) {
        bool is_asked = false; /* whether a blob before this one has pieces under way */
        open = false;
        for (size_t i = 0; i < n; i++) {
            download *d = &all[i];
            flow *f = &d->flow;
            if (has_come(d))
                continue;
            open = true;
            if (client_retry_due(&f->retry, socket_of_flow(f))) {
                const int twice_ms = 2 * f->retry.silence_ms;
                if (!f->retry.is_silent)
                    PL_CHECK(ask_again(d, UINT64_MAX));
                else if (!is_asked && f->n_pieces > 0) /* its answer tells of all */
                    PL_CHECK(ask_oldest(d));
                if (f->retry.is_silent)
                    f->retry.silence_ms =
                        twice_ms < SILENCE_MAX_MS ? twice_ms : SILENCE_MAX_MS;
            }
            is_asked = is_asked || f->n_pieces > 0;
            /* Requests pieces until the window is full. Until the size of the blob is
             * known, only the expected bytes are requested, or else at most two pieces;
             * a home answers without bytes beyond the end. */
            const bool told = d->known || d->want->expected > 0;
            const uint64_t end = d->known ? d->total
                                 : d->want->expected > 0
                                     ? d->want->expected
                                     : 2 * (uint64_t)CLIENT_PIECE_MAX;
            size_t bytes;
            while (d->asked < end && (told || d->flow.n_pieces < 2) &&
                   (bytes = next_piece_bytes(&d->flow, d->asked)) > 0) {
                if (bytes > end - d->asked)
                    bytes = (size_t)(end - d->asked);
                piece *p = add_piece(&d->flow, d->asked, bytes);
                d->asked += bytes;
                PL_CHECK(ask_piece(d, p));
            }
            PL_CHECK(client_retry_patience(&f->retry, f->client));
        }
        pl_status status =
            open ? client_wait_slice(all->flow.client, socket_of_flow(&all->flow), a)
                 : PL_ERR_TIMEOUT;
        if (status == PL_OK)
            status = take_blob_answer(all, n, a);
        if (status != PL_OK && status != PL_ERR_TIMEOUT)
            return status;
    }
    return PL_OK;
}

/* What has come of a blob before it is asked of the home. */
typedef struct begun {
    size_t start; /* length of the output before it */
    bool is_there;
    uint64_t at, total; /* bytes that have come, and of the blob, if some have */
} begun;

/* Fetches the large blobs of a home from the service that keeps them, if there is one.
 * A blob that arrives with a different hash is fetched from the home. */
static pl_status get_blobs_directly(pl_client *c, int home, const pl_wanted *wants,
                                    size_t n, begun *begins)
{
    client_direct *all = pl_alloc((n + 1) * sizeof *all);
    size_t *of = pl_alloc((n + 1) * sizeof *of);
    int m = 0;
    for (size_t i = 0; i < n; i++) {
        const pl_wanted *w = &wants[i];
        if ((w->expected > 0 && w->expected < PL_DIRECT_MIN) ||
            pl_home_of(w->name, c->n_homes) != home)
            continue;
        all[m] = (client_direct){.hash = w->blob, .bytes = w->expected, .out = w->out};
        of[m++] = i;
    }
    const pl_status status = client_move_direct(c, home, false, all, m);
    for (int i = 0; status == PL_OK && i < m; i++) {
        const client_direct *d = &all[i];
        begun *b = &begins[of[i]];
        pl_hash got;
        b->at = d->at;
        b->total = d->bytes;
        if (d->moved || (d->at > 0 && d->at == d->bytes)) {
            pl_blob_hash(d->out->data + b->start, d->out->len - b->start, &got);
            b->is_there = pl_hash_equal(&got, &d->hash);
            b->at = 0;
        }
        if (!b->is_there)
            d->out->len = b->start + (size_t)b->at;
    }
    pl_free_all(all, of);
    return status;
}

/* `direct`: whether a service that keeps the blobs may be asked */
static pl_status get_blobs_of(pl_client *c, int home, const pl_wanted *wants, size_t n,
                              bool direct)
{
    together shared = {0};
    pl_status status = PL_OK;
    pl_message a = {0};
    size_t m = 0;
    begun *begins = pl_alloc((n + 1) * sizeof *begins);
    download *all = pl_alloc((n + 1) * sizeof *all);
    for (size_t i = 0; i < n; i++)
        begins[i].start = wants[i].out->len;
    if (direct && client_may_direct(c, home))
        PL_TRY(get_blobs_directly(c, home, wants, n, begins));
    for (size_t i = 0; i < n; i++) {
        const begun *b = &begins[i];
        if (pl_home_of(wants[i].name, c->n_homes) != home || b->is_there)
            continue;
        all[m++] = (download){.flow = {.client = c, .home = home, .all = &shared},
                              .want = &wants[i],
                              .start = b->start,
                              .begun = b->at,
                              .known = b->at > 0,
                              .total = b->total,
                              .asked = b->at};
        all[m - 1].flow.retry = client_retry_begin(c->sockets[home]);
    }
    if (m > 0)
        status = run_downloads(all, m, &a);
    for (size_t i = 0; i < m; i++) {
        download *d = &all[i];
        pl_hash got;
        pl_blob_hash_end(&d->hashing, d->want->out->data + d->start, there(d), &got);
        if (status != PL_OK || pl_hash_equal(&got, &d->want->blob))
            continue;
        d->want->out->len = d->start;
        if (d->begun > 0) /* perhaps the service is at fault */
            status = get_blobs_of(c, home, d->want, 1, false);
        else
            status =
                pl_fail(PL_ERR_DAMAGED,
                        "a blob of %s arrived with a different hash; `pathloom store "
                        "fsck` tells whether the store's copy is intact",
                        d->want->name);
    }
done:
    for (size_t i = 0; status != PL_OK && i < n; i++)
        if (pl_home_of(wants[i].name, c->n_homes) == home)
            wants[i].out->len = begins[i].start;
    pl_message_destroy(&a);
    pl_free_all(all, begins);
    return status;
}

pl_status pl_client_get_blobs(pl_client *c, const pl_wanted *wants, size_t n)
{
    for (int home = 0; home < c->n_homes; home++)
        PL_CHECK(get_blobs_of(c, home, wants, n, true));
    return PL_OK;
}

pl_status pl_client_get_blob(pl_client *c, const char *name, const pl_hash *blob,
                             pl_buf *out)
{
    const pl_wanted want = {.name = name, .blob = *blob, .out = out};
    return get_blobs_of(c, pl_home_of(name, c->n_homes), &want, 1, true);
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
    const client_blob *blob;
    bool sending, waits;  /* waits: the home has no room yet */
    uint64_t request;     /* of the newest question how far the home is */
    uint64_t next, there; /* bytes that were sent, and that the home has */
} upload;

/* Sends bytes to the home, or, if `len` is 0, asks for room and for how far it is. That
 * question has the first bytes as RECORD, so that a relay knows whether it keeps the
 * blob. */
static pl_status send_put(upload *u, uint64_t request, uint64_t offset, size_t len)
{
    pl_message m = {0};
    const client_blob *b = u->blob;
    size_t head = len > 0 ? 0 : b->bytes < PL_PUT_HEAD ? (size_t)b->bytes : PL_PUT_HEAD;
    m.request = request;
    PL_SAY(&m, PUT_BLOB, put_blob, .blob = b->hash, .total = b->bytes, .offset = offset,
           .lease = client_present_lease(u->flow.client),
           .head = {head > 0 ? b->data : NULL, head});
    if (len > 0)
        pl_buf_append(&m.data, (const uint8_t *)b->data + offset, len);
    pl_status status = pl_wire_give_to(socket_of_flow(&u->flow), NULL, &m);
    pl_message_destroy(&m);
    if (status == PL_ERR_NET) /* the home is asked again later */
        client_retry_later(&u->flow.retry, SLICE_MS);
    return status == PL_ERR_NET ? PL_OK : status;
}

static pl_status take_put_answer(upload *u, piece *p, pl_message *a)
{
    flow *f = &u->flow;
    const uint64_t bytes = u->blob->bytes;
    pl_msg_put_state is = {0};
    client_retry_answered(&f->retry);
    pl_status status = client_as_status(a);
    if (status == PL_ERR_BUSY || status == PL_ERR_NET) {
        /* If the home has no room, PUT_STATE comes when there is some. The question is
         * asked again only to show that this client still waits. */
        int third_ms = f->client->patience_ms / 3;
        int room_ms = third_ms < ROOM_MS ? third_ms : ROOM_MS;
        u->waits = status == PL_ERR_BUSY && !p;
        line_of_flow(f)->link.n_full += u->waits;
        client_retry_later(&f->retry, u->waits ? room_ms : BOUNCE_MS);
        return PL_OK;
    }
    PL_CHECK(status);
    PL_CHECK(PL_HEAR(a, put_state, &is));
    if (is.offset > bytes)
        return pl_fail(PL_ERR_PROTO,
                       "the home says that it has %llu bytes of a blob of %llu bytes",
                       (unsigned long long)is.offset, (unsigned long long)bytes);
    if (!p) { /* the answer to the question from where on the home needs bytes */
        pl_link *link = &line_of_flow(f)->link;
        const uint64_t got = is.offset < u->next ? is.offset : u->next;
        link->up_bytes += got > u->there ? got - u->there : 0;
        link->repeated_bytes += u->next - got;
        u->next = u->there = is.offset;
        u->sending = true;
        u->waits = false;
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

/* Sends large blobs to the service that keeps a home's chunks, if there is one. Sets
 * *holds if the home has got some: they take room there. */
static pl_status put_blobs_directly(pl_client *c, int home, const client_blob *blobs,
                                    bool *is_there, size_t n, bool *holds)
{
    if (!client_may_direct(c, home))
        return PL_OK;
    client_direct *all = pl_alloc((n + 1) * sizeof *all);
    size_t *of = pl_alloc((n + 1) * sizeof *of);
    int m = 0;
    for (size_t i = 0; i < n; i++) {
        const client_blob *b = &blobs[i];
        if (is_there[i] || b->bytes < PL_DIRECT_MIN)
            continue;
        all[m] = (client_direct){.hash = b->hash, .bytes = b->bytes, .data = b->data};
        of[m++] = i;
    }
    const pl_status status = client_move_direct(c, home, true, all, m);
    for (int i = 0; status == PL_OK && i < m; i++) {
        is_there[of[i]] = all[i].moved;
        *holds = *holds || all[i].moved;
    }
    pl_free_all(all, of);
    return status;
}

static pl_status run_uploads(upload *all, bool *is_there, size_t n, bool holds,
                             pl_message *a)
{
    for (;;) {
        /* Continues the uploads of which the home lacks bytes. Room for a blob is asked
         * for as soon as what is left of the blobs before it fits into the window, and
         * not before: other clients may need the room. */
        uint64_t before = 0;
        size_t n_open = 0, n_waiting = 0; /* blobs not there yet; that wait for room */
        for (size_t i = 0; i < n; i++) {
            upload *u = &all[i];
            flow *f = &u->flow;
            if (is_there[i])
                continue;
            if (before > 0 && before >= client_window_bytes(f->client, f->home, true)) {
                /* its patience begins with its question */
                client_retry_answered(&f->retry);
                continue;
            }
            n_open++;
            n_waiting += u->waits;
            if (client_retry_due(&f->retry, socket_of_flow(f))) {
                if (u->sending || u->request == 0) /* else the old question is resent */
                    u->request = pl_wire_next_request();
                u->sending = false;
                forget_pieces(f);
                PL_CHECK(send_put(u, u->request, 0, 0));
            }
            /* Sends pieces until the window is full. */
            const uint64_t bytes = u->blob->bytes;
            size_t len;
            while (u->sending && u->next < bytes &&
                   (len = next_piece_bytes(f, u->next)) > 0) {
                if (len > bytes - u->next)
                    len = (size_t)(bytes - u->next);
                piece *p = add_piece(f, u->next, len);
                u->next += len;
                mark_sent(f, p);
                PL_CHECK(send_put(u, p->request, p->offset, len));
            }
            PL_CHECK(client_retry_patience(&f->retry, f->client));
            before += bytes - u->next;
        }
        if (n_open == 0)
            return PL_OK;
        if (n_waiting == n_open && holds)
            return PL_ERR_BUSY;
        pl_status status =
            client_wait_slice(all->flow.client, socket_of_flow(&all->flow), a);
        if (status == PL_ERR_TIMEOUT)
            continue;
        PL_CHECK(status);
        for (size_t i = 0; i < n; i++) {
            upload *u = &all[i];
            piece *p = u->sending ? find_piece(&u->flow, a->request) : NULL;
            if (is_there[i] || (!p && (u->sending || a->request != u->request)))
                continue;
            const bool waited = u->waits;
            PL_CHECK(take_put_answer(u, p, a));
            is_there[i] = u->sending && u->there >= u->blob->bytes;
            /* There is room now, so the bytes may go to the service. Not if there are
             * several blobs: answers about the others would be lost meanwhile. */
            if (waited && n == 1 && u->sending && u->there == 0 && !is_there[i] &&
                client_may_direct(u->flow.client, u->flow.home)) {
                PL_CHECK(put_blobs_directly(u->flow.client, u->flow.home, u->blob,
                                            is_there, 1, &holds));
                client_retry_later(&u->flow.retry, 0);
            }
            holds = holds || is_there[i];
            break;
        }
    }
}

pl_status client_put_blobs(pl_client *c, int home, const client_blob *blobs,
                           bool *is_there, size_t n, bool holds)
{
    together shared = {0};
    PL_CHECK(put_blobs_directly(c, home, blobs, is_there, n, &holds));
    upload *all = pl_alloc((n + 1) * sizeof *all);
    pl_message a = {0};
    for (size_t i = 0; i < n; i++) {
        all[i] =
            (upload){.flow = {.client = c, .home = home, .up = true, .all = &shared},
                     .blob = &blobs[i]};
        all[i].flow.retry = client_retry_begin(c->sockets[home]);
    }
    const pl_status status = run_uploads(all, is_there, n, holds, &a);
    pl_message_destroy(&a);
    pl_free(all);
    return status;
}

pl_status client_put_known_blob(pl_client *c, int home, const client_blob *blob)
{
    bool is_there = false;
    return client_put_blobs(c, home, blob, &is_there, 1, false);
}

pl_status pl_client_put_blob(pl_client *c, const char *name, const void *data,
                             uint64_t bytes, pl_hash *blob)
{
    pl_blob_hash(data, bytes, blob);
    const client_blob content = {data, bytes, *blob};
    return client_put_known_blob(c, pl_home_of(name, c->n_homes), &content);
}
