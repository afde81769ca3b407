/* What a restore of a store must not undo, if it replaces a store of the same job: the
 * fences of workers that an audit has shut out, which results audits have dropped, and
 * the hub's epoch, without which a token could be used twice. A worker's key is
 * revoked, too, so that the worker stays out if the process is killed before the store
 * has its fence again.
 *
 * From before the store changes until it has all this again, the file FOLDER.kept has
 * it, too. After an interruption the next restore or `train` goes on from there.
 *
 * If one home alone is restored, the other homes of the job tell the same. A backup of
 * another job gets only the epoch: names of workers and paths mean others there. */
#include "job/run.h"

#include <stdio.h>
#include <string.h>

static const char EPOCH_REF[] = "sys/hub-epoch";

static pl_status keep_ref(void *context, const char *name, const char *target)
{
    run_kept *k = context;
    int64_t epoch = 0;
    if (strcmp(name, EPOCH_REF) == 0 && pl_parse_int(target, &epoch) == PL_OK)
        k->hub_epoch = epoch > k->hub_epoch ? epoch : k->hub_epoch;
    if (!pl_starts_with(name, PL_FENCED_REFS) && !pl_starts_with(name, PL_DROPPED_REFS))
        return PL_OK;
    k->refs = pl_grow(k->refs, (k->n + 1) * sizeof *k->refs);
    run_kept_ref *f = &k->refs[k->n++];
    pl_copy_text(f->ref, sizeof f->ref, name);
    pl_copy_text(f->target, sizeof f->target, target);
    return PL_OK;
}

enum { KEPT_EPOCH = 1, KEPT_REF, KEPT_TARGET };

static char *kept_file(const char *folder, char out[PL_PATH_MAX])
{
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/')
        len--;
    snprintf(out, PL_PATH_MAX, "%.*s.kept", (int)len, folder);
    return out;
}

static pl_status write_kept(const char *folder, const run_kept *k)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_put_u64(&text, KEPT_EPOCH, (uint64_t)k->hub_epoch);
    for (size_t i = 0; i < k->n; i++)
        pl_put_text(&text, KEPT_REF, k->refs[i].ref);
    for (size_t i = 0; i < k->n; i++)
        pl_put_text(&text, KEPT_TARGET, k->refs[i].target);
    pl_status status = pl_replace_file(kept_file(folder, path), text.data, text.len);
    pl_buf_destroy(&text);
    return status;
}

/* Adds what an interrupted restore has left in its file. */
static pl_status read_kept(const char *folder, run_kept *k)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_reader r;
    pl_status status = PL_OK;
    if (!pl_path_exists(kept_file(folder, path)))
        return PL_OK;
    PL_TRY(pl_read_file(path, &text));
    pl_reader_open(&r, path, text.data, text.len);
    const int64_t epoch = (int64_t)pl_get_u64(&r, KEPT_EPOCH, 0);
    const size_t n = pl_field_count(&r, KEPT_REF);
    k->hub_epoch = epoch > k->hub_epoch ? epoch : k->hub_epoch;
    k->refs = pl_grow(k->refs, (k->n + n + 1) * sizeof *k->refs);
    for (size_t i = 0; i < n; i++) {
        run_kept_ref *f = &k->refs[k->n + i];
        pl_get_text(&r, KEPT_REF, i, f->ref, sizeof f->ref);
        pl_get_text(&r, KEPT_TARGET, i, f->target, sizeof f->target);
    }
    PL_TRY(pl_reader_status(&r));
    k->n += n;
done:
    pl_buf_destroy(&text);
    return status;
}

static pl_status revoke_kept(pl_key_list *list, void *context)
{
    const run_kept *k = context;
    for (size_t i = 0; i < k->n; i++) {
        char text[PL_PUBKEY_TEXT];
        pl_pubkey key;
        snprintf(text, sizeof text, "%.*s", (int)strcspn(k->refs[i].target, " "),
                 k->refs[i].target);
        /* the job's own workers are fenced by their names */
        if (pl_pubkey_parse(text, &key) == PL_OK)
            (void)pl_key_list_revoke(list, &key);
    }
    return PL_OK;
}

static pl_status revoke_all(run_kept *k)
{
    char path[PL_PATH_MAX];
    if (!k->dir || k->n == 0 || !pl_path_exists(pl_join(path, k->dir, "keys/allow")))
        return PL_OK;
    return pl_key_list_edit(path, revoke_kept, k);
}

/* The context of note_draw: whether a store has a draw of audits of `other`. */
typedef struct kinship {
    pl_store *other;
    bool found;
} kinship;

static pl_status note_draw(void *context, const char *name, const char *target)
{
    kinship *k = context;
    pl_buf same = {0};
    (void)target;
    k->found = k->found || pl_store_get_ref(k->other, name, &same) == PL_OK;
    pl_buf_destroy(&same);
    return PL_OK;
}

pl_status run_keep(const char *folder, pl_store *backup, run_kept *out)
{
    char above[PL_PATH_MAX], home[PL_PATH_MAX], why[512] = "";
    int n = 0;
    const bool is_home =
        pl_store_parts(pl_path_above(above, folder), &n) == PL_OK && n > 0;
    const char *all = is_home ? above : folder;
    /* same: the backup is of the same job; any: a store could be read */
    bool same = is_home, any = false;
    pl_status status = pl_store_homes(all, &n);
    /* what one home cannot tell any more, the others can */
    for (int i = 0; i < n; i++) {
        pl_store *store = NULL;
        kinship k = {.other = backup};
        pl_status one =
            pl_store_open(pl_store_home(all, i, n, home), PL_STORE_READ, &store);
        if (one == PL_OK)
            one = pl_store_each_ref(store, "", keep_ref, out);
        if (one == PL_OK)
            one = pl_store_each_ref(store, PL_DRAW_REFS, note_draw, &k);
        /* a store that `forget` or `homes set` made has another birth, but the same
         * draws */
        same = same || k.found || (store && pl_store_same_birth(store, backup));
        pl_store_close(&store);
        any = any || one == PL_OK;
        if (one == PL_OK || one == PL_ERR_NOT_FOUND || status != PL_OK)
            continue;
        status = one;
        pl_copy_text(why, sizeof why, pl_last_error());
    }
    if (!any && why[0])
        return pl_fail(status, "%s", why);
    PL_CHECK(any || status == PL_ERR_NOT_FOUND ? PL_OK : status);
    PL_CHECK(read_kept(folder, out));
    if (!same)
        out->n = 0;
    if (out->n > 0 || out->hub_epoch > 0)
        PL_CHECK(write_kept(folder, out));
    return revoke_all(out);
}

static pl_status put_back_at(const char *folder, const run_kept *kept)
{
    pl_store *store = NULL;
    pl_txn *txn = NULL;
    pl_buf old = {0};
    run_kept has = {0};
    char epoch[32];
    bool changed = false;
    pl_status status = PL_OK;
    PL_TRY(pl_store_open(folder, PL_STORE_WRITE, &store));
    PL_TRY(pl_store_each_ref(store, "sys/", keep_ref, &has));
    PL_TRY(pl_txn_begin(store, &txn));
    for (size_t i = 0; i < kept->n; i++) {
        status = pl_store_get_ref(store, kept->refs[i].ref, &old);
        if (status == PL_OK)
            continue;
        PL_TRY(status == PL_ERR_NOT_FOUND ? PL_OK : status);
        PL_TRY(pl_txn_put_ref(txn, kept->refs[i].ref, kept->refs[i].target));
        changed = true;
    }
    if (kept->hub_epoch > has.hub_epoch) {
        snprintf(epoch, sizeof epoch, "%lld", (long long)kept->hub_epoch);
        PL_TRY(pl_txn_put_ref(txn, EPOCH_REF, epoch));
        changed = true;
    }
    status = changed ? pl_txn_commit(&txn) : PL_OK;
done:
    pl_txn_abort(&txn);
    pl_buf_destroy(&old);
    pl_store_close(&store);
    return status;
}

pl_status run_put_back(const char *folder, run_kept *kept)
{
    char home[PL_PATH_MAX], path[PL_PATH_MAX];
    int n = 0;
    if (kept->n == 0 && kept->hub_epoch == 0)
        return PL_OK;
    PL_CHECK(revoke_all(kept));
    PL_CHECK(pl_store_homes(folder, &n));
    for (int i = 0; i < n; i++)
        PL_CHECK(put_back_at(pl_store_home(folder, i, n, home), kept));
    return pl_remove_tree(kept_file(folder, path));
}

pl_status run_put_back_left(const char *dir, const char *folder)
{
    char part[PL_PATH_MAX];
    int n = 0;
    PL_CHECK(pl_store_parts(folder, &n));
    for (int i = -1; i < n; i++) { /* the whole store, then each home alone */
        const char *at = i < 0 ? folder : pl_store_part(folder, i, part);
        run_kept kept = {.dir = dir};
        pl_status status = read_kept(at, &kept);
        if (status == PL_OK)
            status = run_put_back(at, &kept);
        pl_free(kept.refs);
        PL_CHECK(status);
    }
    return PL_OK;
}
