/* The thread in which a worker answers requests for updates from other workers, and the
 * function that requests an update from another worker (peer.h). The thread owns the
 * offers. Other threads pass offers to it through a queue. */
#include "workers/peer.h"

/* A handshake and the first answer take six round trips. */
enum { WAIT_MS = 200, PATIENCE_MS = 2000, ROUNDS_KEPT = 2 };
/* An update may take LONGEST_MS, and 1 ms more for each RATE bytes that it may have. */
enum { LONGEST_MS = 5000, RATE = 1024 };

struct peer {
    pl_socket *socket;
    pl_queue *offers; /* queue from the sender's thread */
    pl_thread *thread;
    peer_offer **kept;
    size_t n_kept;
};

static void free_offer(peer_offer *o)
{
    pl_free_all(o->data, o);
}

/* Keeps an offer of this worker. Frees older offers for which no mate asks any more: of
 * earlier rounds, also of paths that other workers train now, and of other arms. */
static void keep_offer(peer *p, peer_offer *o)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_kept; i++) {
        peer_offer *old = p->kept[i];
        const size_t arm = strcspn(o->module, "/") + 1;
        bool same = old->path == o->path && old->replica == o->replica &&
                    strcmp(old->module, o->module) == 0;
        if ((same && old->round == o->round) || old->round <= o->round - ROUNDS_KEPT ||
            strncmp(old->module, o->module, arm) != 0)
            free_offer(old);
        else
            p->kept[n++] = old;
    }
    p->kept = pl_grow(p->kept, (n + 1) * sizeof(peer_offer *));
    p->kept[n] = o;
    p->n_kept = n + 1;
}

static pl_status give_offered_update(const peer *p, pl_message *m, pl_message *a)
{
    pl_msg_get_update q;
    PL_CHECK(PL_HEAR(m, get_update, &q));
    for (size_t i = 0; i < p->n_kept; i++) {
        const peer_offer *o = p->kept[i];
        if (o->path != q.path || o->replica != q.replica || o->round != q.phase ||
            strcmp(o->module, q.name) != 0)
            continue;
        PL_SAY(a, UPDATE_IS, update_is, .blob = o->hash);
        return PL_OK;
    }
    return pl_fail(PL_ERR_NOT_FOUND,
                   "this worker does not offer this path's update of %s in round %lld",
                   q.name, (long long)q.phase);
}

static pl_status give_offered_blob(const peer *p, pl_message *m, pl_message *a)
{
    pl_msg_get_blob q;
    PL_CHECK(PL_HEAR(m, get_blob, &q));
    for (size_t i = 0; i < p->n_kept; i++) {
        const peer_offer *o = p->kept[i];
        if (!pl_hash_equal(&o->hash, &q.blob))
            continue;
        size_t len = pl_piece_bytes(&q, o->bytes);
        PL_SAY(a, BLOB, blob, .total = o->bytes);
        if (len > 0)
            pl_buf_append(&a->data, o->data + q.offset, len);
        return PL_OK;
    }
    return pl_fail(PL_ERR_NOT_FOUND, "this worker offers no blob with this hash");
}

/* Returns false at the end: peer_destroy pushes `p` itself. */
static bool take_offers(peer *p)
{
    void *item;
    while ((item = pl_queue_pop(p->offers, 0))) {
        if (item == (void *)p)
            return false;
        keep_offer(p, item);
    }
    return true;
}

static void run_peer(void *context)
{
    peer *p = context;
    pl_message m = {0};
    pl_peer who;
    int fd = pl_queue_fd(p->offers);
    bool open = true;
    while ((open = open && take_offers(p))) {
        bool ready[2];
        pl_wire_poll(&p->socket, 1, &fd, 1, WAIT_MS, ready);
        /* a mate may ask for an offer that came after the poll */
        while (pl_wire_recv(p->socket, &who, &m) == PL_OK && (open = take_offers(p))) {
            pl_message a = {.type = PL_MSG_OK};
            pl_status status =
                m.type == PL_MSG_GET_UPDATE ? give_offered_update(p, &m, &a)
                : m.type == PL_MSG_GET_BLOB
                    ? give_offered_blob(p, &m, &a)
                    : pl_fail(PL_ERR_PROTO,
                              "a worker does not understand message type %u", m.type);
            if (status != PL_OK) {
                pl_message_destroy(&a);
                pl_wire_error(&a, m.request, status, pl_last_error());
            }
            a.request = m.request;
            if (pl_wire_give_to(p->socket, &who, &a) != PL_OK)
                pl_log(PL_LOG_DEBUG, "peer.gone", "error=\"%s\"", pl_last_error());
            pl_message_destroy(&a);
        }
    }
    pl_message_destroy(&m);
}

pl_status peer_create(const char *bind, peer **out, char *address)
{
    pl_status status = PL_OK;
    peer *p = pl_alloc(sizeof *p);
    PL_TRY(pl_wire_bind(bind, &p->socket, address));
    PL_TRY(pl_queue_create(&p->offers));
    PL_TRY(pl_thread_start("peer", run_peer, p, &p->thread));
    *out = p;
    p = NULL;
done:
    peer_destroy(p);
    return status;
}

void peer_destroy(peer *p)
{
    if (!p)
        return;
    if (p->thread) {
        peer_offer *left;
        pl_queue_push(p->offers, p);
        pl_thread_join(&p->thread);
        while ((left = pl_queue_pop(p->offers, 0)))
            free_offer(left);
    }
    for (size_t i = 0; i < p->n_kept; i++)
        free_offer(p->kept[i]);
    pl_free(p->kept);
    pl_queue_destroy(&p->offers);
    pl_wire_close(&p->socket);
    pl_free(p);
}

void peer_put(peer *p, peer_offer *offer)
{
    pl_queue_push(p->offers, offer);
}

typedef struct peer_wait {
    const peer_line *line;
    int64_t until_ms;
} peer_wait;

/* Another worker may send bytes all the time and yet never end. (ERR_TIMEOUT would mean
 * that no message has come.) */
static pl_status wait_for_peer(void *context)
{
    const peer_wait *w = context;
    if (w->line->idle)
        PL_CHECK(w->line->idle(w->line->idle_context));
    if (pl_now_ms() <= w->until_ms)
        return PL_OK;
    return pl_fail(PL_ERR_NET,
                   "the worker at %s sends its update too slowly; the home has it, too",
                   w->line->address);
}

/* Asks the other worker with the client that is made for homes, because a worker
 * answers in the same way. But the time limits are shorter. */
pl_status peer_get(const peer_line *line, const char *module, int64_t round, int path,
                   int replica, pl_buf *out)
{
    pl_client *client = NULL;
    pl_hash hash;
    pl_status status = PL_OK;
    peer_wait wait = {line,
                      pl_now_ms() + LONGEST_MS + (int64_t)(line->bytes_max / RATE)};
    pl_client_options options = {.homes = &line->address,
                                 .n_homes = 1,
                                 .keys = line->keys,
                                 .patience_ms = PATIENCE_MS,
                                 .blob_max = line->bytes_max,
                                 .idle = wait_for_peer,
                                 .idle_context = &wait};
    PL_TRY(pl_client_create(&options, &client));
    PL_TRY(pl_client_get_update(client, module, round, path, replica, &hash));
    PL_TRY(pl_client_get_blob(client, module, &hash, out));
done:
    pl_client_destroy(&client);
    return status;
}
