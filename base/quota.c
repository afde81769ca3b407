/* Limits requests by token buckets, one per key (quota.h). The bucket of a key is kept
 * until quota_destroy: otherwise a client could reconnect to get a full bucket. */
#include "base/quota.h"
#include "base/clock.h"
#include "base/name_table.h"

#include <stdatomic.h>

/* The quota and each message that is not sent yet hold a reference. */
struct quota_unsent {
    atomic_size_t bytes, n_users;
};

typedef struct bucket {
    double left;
    int64_t at_ms;
    quota_unsent *unsent; /* NULL: nothing was given yet */
} bucket;

struct quota {
    pl_name_table *keys; /* maps the text of a key to its bucket */
    bucket *buckets;
    int n;
    bucket others;
};

quota *quota_create(void)
{
    quota *q = pl_alloc(sizeof *q);
    q->keys = pl_name_table_create();
    q->others.left = QUOTA_OTHERS_AT_ONCE;
    return q;
}

void quota_destroy(quota **quota_at)
{
    quota *q = *quota_at;
    if (!q)
        return;
    for (int i = 0; i < q->n; i++)
        quota_sent(q->buckets[i].unsent, 0);
    pl_name_table_destroy(&q->keys);
    pl_free_all(q->buckets, q);
    *quota_at = NULL;
}

/* Returns the bucket of a key, and makes it, with `most` tokens, if there is none. */
static bucket *find_bucket(quota *q, const pl_pubkey *key, int64_t now_ms, double most)
{
    char text[PL_PUBKEY_TEXT];
    pl_pubkey_format(key, text);
    int at = pl_name_table_get(q->keys, text);
    if (at < 0) {
        at = q->n++;
        q->buckets = pl_grow(q->buckets, (size_t)q->n * sizeof *q->buckets);
        q->buckets[at] = (bucket){.left = most, .at_ms = now_ms};
        pl_name_table_put(q->keys, text, at);
    }
    return &q->buckets[at];
}

static bool take_from_bucket(bucket *b, unsigned cost, int64_t now_ms, double per_s,
                             double most)
{
    b->left += 1e-3 * per_s * (double)(now_ms - b->at_ms);
    b->left = b->left < most ? b->left : most;
    b->at_ms = now_ms;
    if (b->left < cost)
        return false;
    b->left -= cost;
    return true;
}

static bool is_limited(const pl_peer *p)
{
    return !p->own && (p->role == PL_AS_WORKER || p->role == PL_AS_RELAY ||
                       p->role == PL_AS_INSPECTOR);
}

static int times(const pl_peer *p)
{
    return p->role == PL_AS_RELAY ? QUOTA_RELAY : 1;
}

quota_unsent *quota_give(quota *q, const pl_peer *to, size_t bytes)
{
    if (!q || !is_limited(to))
        return NULL;
    bucket *b = find_bucket(q, &to->key, pl_now_ms(), times(to) * QUOTA_AT_ONCE);
    if (!b->unsent) {
        b->unsent = pl_alloc(sizeof *b->unsent);
        atomic_store(&b->unsent->n_users, 1);
    }
    atomic_fetch_add(&b->unsent->n_users, 1);
    atomic_fetch_add(&b->unsent->bytes, bytes);
    return b->unsent;
}

void quota_sent(quota_unsent *u, size_t bytes)
{
    if (!u)
        return;
    atomic_fetch_sub(&u->bytes, bytes);
    if (atomic_fetch_sub(&u->n_users, 1) == 1)
        pl_free(u);
}

bool quota_take(quota *q, const pl_peer *from, unsigned cost, int64_t now_ms)
{
    if (is_limited(from)) {
        const int n = times(from);
        bucket *own = find_bucket(q, &from->key, now_ms, n * QUOTA_AT_ONCE);
        return (!own->unsent ||
                atomic_load(&own->unsent->bytes) <= (uint64_t)n * QUOTA_UNSENT) &&
               take_from_bucket(own, cost, now_ms, n * QUOTA_PER_S, n * QUOTA_AT_ONCE);
    }
    /* the job's own keys, and roles that have no limit */
    if (from->role >= PL_AS_LOCAL && from->role <= PL_AS_INSPECTOR)
        return true;
    bucket *b = &q->others;
    if (from->role == PL_AS_INVITE || from->role == PL_AS_REVOKED)
        b = find_bucket(q, &from->key, now_ms, QUOTA_OTHERS_AT_ONCE);
    return take_from_bucket(b, cost, now_ms, QUOTA_OTHERS_PER_S, QUOTA_OTHERS_AT_ONCE);
}

void quota_charge(quota *q, const pl_peer *from, double seconds, int64_t now_ms)
{
    /* a relay would pay for what its workers sent */
    if (!from->own && from->role == PL_AS_WORKER)
        find_bucket(q, &from->key, now_ms, QUOTA_AT_ONCE)->left -=
            QUOTA_PARTS * QUOTA_PER_S * seconds;
}
