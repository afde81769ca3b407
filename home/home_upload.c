/* Receives uploads. A submission that names a complete upload moves it into the store.
 * Uploads that no message names expire.
 *
 * A client asks for room before it sends bytes. If there is none, the question waits in
 * a queue, and is answered when its turn has come. So no byte is sent in vain, and
 * clients get room in the order in which they asked, the job's own workers first. A
 * client asks again every two seconds; one that no longer does loses its place. While
 * others wait, uploads stay only if they move; if an own worker waits for a minute,
 * those of the key that has most are dropped. */
#include "home/home_internal.h"
#include <math.h>

enum { TICKETS_MAX = 1 << 16, TICKET_MS = 10000, OWN_WAITS_MS = 60000 };

static bool is_own(const home_ticket *t)
{
    return pl_pubkey_none(&t->owner.holder);
}

/* Puts the question at the end of the queue, or of its part for own workers, unless it
 * is there already. */
static pl_status wait_for_room(home *h, const pl_peer *peer, const pl_message *m,
                               const pl_msg_put_blob *p)
{
    home_room *r = &h->room;
    size_t at = 0, n_own = 0;
    const staging_owner *owner = &h->uploads.owner;
    if (owner->share > 0 && p->total > owner->share)
        return pl_fail(
            PL_ERR_PROTO,
            "an upload of %llu bytes is more than this lease may upload (%llu bytes)",
            (unsigned long long)p->total, (unsigned long long)owner->share);
    for (; at < r->n; at++) {
        const home_ticket *t = &r->tickets[at];
        if (t->owner.token == owner->token && pl_hash_equal(&t->hash, &p->blob))
            break;
        n_own += !pl_pubkey_none(&t->owner.holder) &&
                 pl_pubkey_equal(&t->owner.holder, &owner->holder);
    }
    const bool fits = r->n < TICKETS_MAX || pl_pubkey_none(&owner->holder);
    if (at == r->n && fits && n_own < STAGING_UPLOADS_MAX) {
        r->tickets = pl_grow_items(r->tickets, r->n, r->n + 1, sizeof *r->tickets);
        const home_ticket fresh = {.hash = p->blob,
                                   .total = p->total,
                                   .owner = *owner,
                                   .begun_ms = pl_now_ms()};
        while (at > 0 && is_own(&fresh) && !is_own(&r->tickets[at - 1]))
            at--;
        memmove(&r->tickets[at + 1], &r->tickets[at], (r->n - at) * sizeof *r->tickets);
        r->tickets[at] = fresh;
        r->n++;
    }
    if (at < r->n) {
        home_ticket *t = &r->tickets[at];
        t->peer = *peer;
        t->request = m->request;
        t->asked_ms = pl_now_ms();
        t->owner = *owner;
    }
    h->uploads.wanted = true;
    return pl_fail(PL_ERR_BUSY,
                   "%zu uploads wait for room at this home (store.staging is %llu "
                   "bytes); wait, the home answers when there is room",
                   r->n, (unsigned long long)h->uploads.limit);
}

/* Gives room to the uploads that wait, in their order, until the next one finds none.
 * An upload whose key has used up its part lets others pass. */
pl_status home_grant_room(home *h)
{
    home_room *r = &h->room;
    staging *s = &h->uploads;
    size_t n = 0;
    bool is_full = false, is_late = false;
    home_ticket refused = {0}; /* the last one whose key has used up its part */
    int64_t now = pl_now_ms();
    /* Drops uploads that no submission will name: the phase of their lease is done, or
     * the path was leased again. A worker that gives a task up, because a backup was
     * first, leaves such uploads. */
    staging_blob *next;
    for (staging_blob *b = r->n > 0 ? s->first : NULL; b; b = next) {
        next = b->next;
        const staging_owner *of = &b->owner;
        if (of->path &&
            (of->path->state.phase > of->phase || !home_is_valid(of->path, of->token)))
            staging_remove(s, b);
    }
    for (size_t i = 0; i < r->n; i++) {
        const home_ticket t = r->tickets[i];
        staging_blob *b = NULL;
        if (now - t.asked_ms > TICKET_MS)
            continue;
        s->owner = t.owner;
        pl_msg_put_blob p = {.blob = t.hash, .total = t.total};
        pl_status status = PL_ERR_BUSY;
        const bool is_known = !pl_pubkey_none(&t.owner.holder) &&
                              t.total >= refused.total &&
                              pl_pubkey_equal(&t.owner.holder, &refused.owner.holder);
        if (!is_full && !is_known && staging_holder_is_full(s, t.total)) {
            refused = t;
        } else if (!is_full && !is_known) {
            status = staging_open(s, &p, &b);
            is_full = status == PL_ERR_BUSY;
            /* the home's lack of memory passes; a worker would end for its own */
            if (status == PL_ERR_NOMEM && pl_log_may(false))
                pl_log(PL_LOG_WARN, "home.upload", "error=\"%s\"", pl_last_error());
            status = status == PL_ERR_NOMEM ? PL_ERR_BUSY : status;
        }
        if (status == PL_ERR_BUSY) {
            r->tickets[n++] = t;
            is_late = is_late || (is_own(&t) && now - t.begun_ms > OWN_WAITS_MS);
            continue;
        }
        pl_message a = {.request = t.request, .epoch = h->epoch};
        if (status != PL_OK)
            pl_wire_error(&a, t.request, status, pl_last_error());
        else
            PL_SAY(&a, PUT_STATE, put_state, .offset = b->there);
        status = home_answer_now(h, &t.peer, &a);
        pl_message_destroy(&a);
        PL_CHECK(status);
    }
    r->n = n;
    s->wanted = n > 0;
    if (is_late && now - r->evicted_ms > OWN_WAITS_MS) {
        const uint64_t wanted = r->tickets[0].total;
        uint64_t theirs = 0; /* what can be dropped */
        r->evicted_ms = now;
        for (const staging_blob *b = s->first; b; b = b->next)
            theirs += pl_pubkey_none(&b->owner.holder) ? 0 : b->room;
        const bool helps = wanted <= s->limit - s->bytes + theirs;
        while (helps && wanted > s->limit - s->bytes) {
            const pl_pubkey key = staging_evict(s);
            char text[PL_PUBKEY_TEXT];
            if (pl_pubkey_none(&key))
                break;
            pl_log(
                PL_LOG_WARN, "home.upload",
                "dropped=\"uploads of the key %s\" reason=\"an own worker waited for "
                "room for %d s; raise store.staging\"",
                pl_pubkey_format(&key, text), OWN_WAITS_MS / 1000);
        }
        return helps ? home_grant_room(h) : PL_OK;
    }
    return PL_OK;
}

void home_stand_still(home *h, int64_t ms)
{
    for (size_t i = 0; i < h->room.n; i++) {
        h->room.tickets[i].asked_ms += ms;
        h->room.tickets[i].begun_ms += ms;
    }
    staging_stand_still(&h->uploads, ms);
}

void home_forget_objects(void *context, const staging_blob *b)
{
    const home *h = context;
    pl_store_drop_upload(h->store, b->engine_id, b->engine_bytes);
}

/* Reads what the sender has written into the store's engine. */
static pl_status pull_upload(home *h, const pl_msg_put_blob *p, staging_blob *b)
{
    if (p->offset > b->engine_bytes ||
        (p->offset % PL_CHUNK_BYTES != 0 && p->offset != b->bytes))
        return pl_fail(
            PL_ERR_PROTO,
            "an upload has URLs for %llu bytes, and its sender says that it wrote %llu",
            (unsigned long long)b->engine_bytes, (unsigned long long)p->offset);
    PL_CHECK(pl_store_pull_upload(h->store, b->engine_id, b->bytes, b->there, p->offset,
                                  b->data));
    b->there = p->offset;
    staging_touch(&h->uploads, b);
    return PL_OK;
}

/* Reads what the sender has written, and gives it URLs for the next chunks. If that is
 * not possible, the sender sends the bytes to the home. Returns DIRECT of the answer.
 */
static uint64_t use_engine(home *h, const pl_peer *peer, const pl_msg_put_blob *p,
                           staging_blob *b, pl_message *answer)
{
    if (!p->direct || !pl_store_signs(h->store))
        return 0;
    if (b->bytes < PL_DIRECT_MIN || b->engine_failed || p->offset < b->there ||
        b->there % PL_CHUNK_BYTES != 0)
        return 2;
    if (p->offset > b->there && b->engine_id == 0)
        return 2; /* it began with a home, or an upload, that is no more */
    const double began = pl_now();
    if (p->offset > b->there && pull_upload(h, p, b) != PL_OK) {
        b->engine_failed = true;
        pl_wire_charge(h->socket, peer, fmin(pl_now() - began, 1));
        if (pl_log_may(peer->own))
            pl_log(PL_LOG_WARN, "home.upload", "error=\"%s\"", pl_last_error());
    }
    if (b->engine_failed || b->there == b->bytes)
        return 2;
    const uint64_t left = b->bytes - b->there, most = PL_SIGNED_CHUNKS * PL_CHUNK_BYTES;
    const uint64_t end = b->there + (left < most ? left : most);
    const staging_owner *owner = &h->uploads.owner;
    home_path *path = owner->path;
    if (path && end > b->engine_bytes) {
        /* under one lease, senders get URLs for at most twice what they may upload */
        if (path->signed_token < owner->token) {
            path->signed_token = owner->token;
            path->signed_bytes = 0;
        }
        path->signed_bytes += end - b->engine_bytes;
        b->engine_failed = path->signed_bytes > 2 * owner->share;
    }
    b->engine_id = b->engine_id ? b->engine_id : pl_random_fresh() | 1;
    b->engine_failed =
        b->engine_failed || pl_store_sign_upload(h->store, b->engine_id, b->bytes,
                                                 b->there, &answer->data) != PL_OK;
    if (b->engine_failed)
        return 2;
    b->engine_bytes = end > b->engine_bytes ? end : b->engine_bytes;
    return 1;
}

/* Receives a piece of an upload, or the question for room. A worker must upload under a
 * lease, and may upload at most what the lease's task needs. */
pl_status home_put_blob(home *h, const pl_peer *peer, pl_message *m, pl_message *answer)
{
    pl_msg_put_blob p;
    home_lease under = {.is_ended = false};
    staging_owner *owner = &h->uploads.owner;
    staging_blob *b = NULL;
    uint64_t direct = 0, n_values;
    PL_CHECK(staging_read(m, &p));
    if (peer->role == PL_AS_WORKER || p.lease.at) {
        PL_CHECK(home_open_lease(h, peer, p.lease, &under));
        /* Twice the size of all updates of one phase and of the path's state after the
         * phase. If one lease is for two phases, uploads of the first phase may still
         * be in memory when uploads of the second phase arrive. */
        const home_arm *arm = under.arm;
        const pl_topology *t = arm->topology;
        owner->share = 2 * pl_path_state_bytes(&arm->arm, pl_topology_path_params(t));
        for (int slot = 0; slot < pl_topology_n_slots(t); slot++)
            owner->share +=
                2 * home_update_bound(arm, pl_topology_module_of_path(
                                               t, slot, (int)under.lease.path));
        /* no limit per key for a key of the job: any number of workers may use it */
        if (!under.is_own)
            owner->holder = under.lease.key;
        /* the states of a key may wait here for updates that a relay holds, so these
         * have a second part of the memory, under a changed key */
        if (!under.is_own && peer->role == PL_AS_RELAY &&
            pl_codec_claims_homomorphic(p.head.at, p.head.len, &n_values))
            owner->holder.bytes[0] ^= 1;
    } else if (peer->role == PL_AS_RELAY && !peer->own) {
        owner->holder = peer->key; /* a sum, which no lease limits */
    }
    const bool is_stored = pl_store_has_blob(h->store, &p.blob);
    if (!is_stored && under.is_ended)
        return pl_fail(PL_ERR_STALE, PL_LEASE_ENDED);
    if (!is_stored && m->data.len > 0) {
        if (h->room.n > 0 && !staging_has(&h->uploads, &p.blob))
            return pl_fail(PL_ERR_BUSY, "other uploads wait for room; ask for room");
        PL_CHECK(staging_put(&h->uploads, &p, &m->data, &b));
    } else if (!is_stored) {
        const bool first = h->room.n == 0 || staging_has(&h->uploads, &p.blob);
        pl_status status = first ? staging_open(&h->uploads, &p, &b) : PL_ERR_BUSY;
        if (status == PL_ERR_BUSY)
            return wait_for_room(h, peer, m, &p);
        PL_CHECK(status);
        direct = use_engine(h, peer, &p, b, answer);
    }
    PL_SAY(answer, PUT_STATE, put_state, .offset = b ? b->there : p.total,
           .direct = direct);
    return PL_OK;
}

pl_status home_adopt_blob(home *h, const pl_hash *hash)
{
    pl_status status = PL_OK;
    pl_bytes bytes = {0};
    void *owned = NULL;
    pl_hash stored;
    PL_TRY(home_write(h));
    PL_TRY(home_lend_blob(h, hash, "a blob", &bytes, &owned));
    PL_TRY(pl_txn_put_blob(h->txn, bytes.at, bytes.len, &stored));
    const bool uploaded = !owned;
    if (uploaded) /* the upload may belong to the job */
        staging_remove(&h->uploads, staging_find(&h->uploads, hash));
    /* pl_txn_put_blob computes the hash of an upload for the first time. If it differs
     * from the hash that the sender gave, no record names the bytes, so the commit
     * drops them. */
    if (uploaded && !pl_hash_equal(&stored, hash))
        PL_TRY(pl_fail(PL_ERR_DAMAGED,
                       "the bytes of an upload do not match the hash that the sender "
                       "gave; send the upload again"));
done:
    pl_free(owned);
    return status;
}
