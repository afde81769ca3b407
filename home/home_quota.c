/* Keeps the store within its quota (store.quota). If a commit would exceed the quota,
 * the home first drops the data of old versions that nothing needs, in the same
 * transaction. If the store would still be too large, the commit fails and the home
 * ends. All acknowledged data are on disk. Workers repeat the messages that were not
 * acknowledged until the home runs again with a larger quota.
 *
 * Results do not depend on the versions whose data are dropped, because tasks start
 * only from versions that pl_roots keeps. */
#include "home/home_internal.h"

pl_status home_note_object(home *h, const char *name, const pl_hash *blob)
{
    static const char prefix[] = "tag/";
    pl_snapshot tag = {.n_items = 0};
    pl_bytes bytes = {0};
    void *owned = NULL;
    pl_status status = PL_OK;
    if (!pl_starts_with(name, prefix))
        return PL_OK;
    PL_TRY(home_lend_blob(h, blob, "a tag", &bytes, &owned));
    if (bytes.len == 0) /* a tag with no bytes is a deleted tag */
        goto done;
    PL_TRY(pl_snapshot_decode(name + strlen(prefix), bytes.at, bytes.len, &tag));
    /* the client asks the other homes (pl_client_put_object) */
    PL_TRY(pl_snapshot_check(h->store, &tag));
    h->new_tags = pl_grow(h->new_tags, (h->n_new_tags + 1) * sizeof *h->new_tags);
    h->new_tags[h->n_new_tags++] = tag;
    tag.items = NULL;
done:
    pl_snapshot_clear(&tag);
    pl_free(owned);
    return status;
}

void home_forget_tags(home *h)
{
    for (size_t i = 0; i < h->n_new_tags; i++)
        pl_snapshot_clear(&h->new_tags[i]);
    pl_free(h->new_tags);
    h->new_tags = NULL;
    h->n_new_tags = 0;
}

/* Drops the data of old versions: in the open transaction, or if there is none, in
 * separate ones. *n gets the number of versions whose data were dropped. */
static pl_status thin(home *h, uint64_t *n)
{
    char above[PL_PATH_MAX], parts[PL_PATH_MAX];
    pl_store *whole = NULL;
    pl_gc_report report = {0};
    pl_keep_rule rule = {.keep = 1};
    pl_status status = PL_OK;
    /* Opens the whole store, because one part does not show which versions the paths of
     * other homes need. The other homes may change their parts meanwhile; an outdated
     * state of a path only makes this home keep more versions. The parent folder is a
     * whole store only if it has the file PARTS: a store without parts may be in a
     * folder with any name, even home-1. */
    pl_path_above(above, h->options->store);
    if (pl_path_exists(pl_join(parts, above, "PARTS")))
        PL_TRY(pl_store_open(above, PL_STORE_READ, &whole));
    rule.store = whole ? whole : h->store;
    PL_TRY(pl_roots_create(rule.store, &rule.roots));
    for (size_t i = 0; i < h->n_new_tags; i++)
        pl_roots_add_tag(rule.roots, &h->new_tags[i]);
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
    if (n > 0)
        log_thinned(h, n);
    return PL_OK;
}

pl_status home_commit(home *h)
{
    bool passes = false;
    uint64_t n = 0;
    pl_status status = PL_OK;
    if (!h->txn)
        return PL_OK;
    PL_TRY(pl_txn_passes_quota(h->txn, &passes));
    if (passes)
        PL_TRY(thin(h, &n));
    PL_TRY(pl_txn_commit(&h->txn));
    home_forget_tags(h);
    if (n > 0)
        log_thinned(h, n);
done:
    h->broken = h->broken || status != PL_OK;
    return status;
}
