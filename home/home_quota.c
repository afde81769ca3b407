/* Keeps the store within its quota (store.quota). Before a commit that would pass the
 * quota, the home drops the data of old versions that nothing needs, in the same
 * transaction. If that is not enough, the commit fails and the home ends: what was
 * acknowledged is on disk, and workers ask again until a home with a larger quota
 * runs.
 *
 * A dropped version changes no result, because tasks start only from versions that
 * pl_roots keeps. */
#include "home/home_internal.h"
#include "home/roots.h"

/* A part of a store does not show which versions the paths of the other homes need, so
 * the whole store is read; a state of a path that is read too early only keeps more. */
static pl_status open_whole(const home *h, pl_store **whole)
{
    char above[PL_PATH_MAX];
    int n = 0;
    *whole = NULL;
    PL_CHECK(pl_store_parts(pl_path_above(above, h->options->store), &n));
    return n > 0 ? pl_store_open(above, PL_STORE_READ, whole) : PL_OK;
}

/* Collects in the open transaction; without one, in transactions of its own. */
static pl_status thin(home *h, uint64_t *n)
{
    pl_store *whole = NULL;
    pl_gc_report report = {0};
    pl_keep_rule rule = {.keep = 1};
    pl_status status = PL_OK;
    PL_TRY(open_whole(h, &whole));
    rule.store = whole ? whole : h->store;
    PL_TRY(pl_roots_create(rule.store, &rule.roots));
    if (h->txn)
        PL_TRY(pl_txn_collect(h->txn, pl_keep_rule_stays, &rule, n));
    else
        PL_TRY(pl_store_collect(h->store, pl_keep_rule_stays, &rule, true, &report));
    *n = h->txn ? *n : report.n_versions;
done:
    pl_roots_destroy(&rule.roots);
    pl_store_close(&whole);
    return status;
}

static void log_thinned(home *h, uint64_t n)
{
    h->counts.n_thinned += n;
    pl_log(PL_LOG_INFO, "store.thinned",
           "versions=%llu stored_bytes=%llu quota_bytes=%llu reason=\"store.quota: old "
           "versions that no tag and no task needs keep only their records\"",
           (unsigned long long)n, (unsigned long long)pl_store_stored_bytes(h->store),
           (unsigned long long)h->options->quota_bytes);
}

pl_status home_open_quota(home *h)
{
    uint64_t n = 0, quota = h->options->quota_bytes;
    PL_CHECK(pl_store_set_quota(h->store, quota));
    if (quota == 0 || pl_store_stored_bytes(h->store) <= quota)
        return PL_OK;
    PL_CHECK(thin(h, &n));
    log_thinned(h, n);
    return PL_OK;
}

pl_status home_commit(home *h)
{
    bool passes = false;
    uint64_t n = 0;
    if (!h->txn)
        return PL_OK;
    PL_CHECK(pl_txn_passes_quota(h->txn, &passes));
    if (passes)
        PL_CHECK(thin(h, &n));
    PL_CHECK(pl_txn_commit(&h->txn));
    if (n > 0)
        log_thinned(h, n);
    return PL_OK;
}
