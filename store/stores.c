/* Opens one store, or all parts of a store, and reads them as one.
 *
 * Purpose. With several homes, every home writes a separate store (parts.c). A reader
 * opens all of them. Its pl_store has no database, only the list of the opened parts; a
 * store in one piece is a list with one entry, itself. So the reading functions never
 * ask how many stores there are: they look into each store of the list (stores_find),
 * or merge the rows of all stores (stores_each). A writer always opens a single part.
 *
 * Every module, path and object is in one part, which is found by asking each part in
 * order. Definitions of arms are in every part with the same bytes. A blob may be in
 * any part.
 *
 * A consistent view. The parts are opened one after the other, and each part by itself
 * is consistent. Two kinds of changes concern several parts. refresh_parts reads again,
 * for up to 3 seconds, until it sees each such change in all parts or in none:
 *   - a rollback: decided by one commit of the first part (rollback.c);
 *   - a copy into the folder: recognised by PARTS, which is written last (stamp_of).
 *
 * Ownership. The pl_store of all parts owns the parts and closes them. `whole` of each
 * part points to that pl_store. */
#include "store/stores.h"
#include "store/mirror.h"
#include "store/rollback.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- finding rows ---- */
pl_status stores_find(const pl_store *all, kv_family family, const row_key *key,
                      row_view *row, pl_store **holder)
{
    pl_status damage = PL_OK;
    for (int i = 0; i < all->n_stores; i++) {
        pl_status status = row_read(store_source(all->stores[i]), family, key, row);
        if (holder)
            *holder = all->stores[i];
        if ((status == PL_OK && row->found) ||
            (status != PL_OK && status != PL_ERR_DAMAGED))
            return status;
        if (status != PL_OK)
            damage = status;
    }
    return damage;
}

pl_status stores_each(const pl_store *all, kv_family family, const row_key *prefix,
                      stores_visit_fn visit, void *context)
{
    kv_cursor *rows[PL_PARTS_MAX] = {NULL};
    pl_status status = PL_OK;
    for (int i = 0; i < all->n_stores; i++) {
        rows[i] = kv_cursor_open(all->stores[i]->db, NULL, family, key_slice(prefix));
        if (!kv_cursor_next(rows[i]))
            PL_TRY(rows[i]->status);
    }
    for (;;) {
        int first = -1;
        for (int i = 0; i < all->n_stores; i++)
            if (rows[i]->valid &&
                (first < 0 || kv_order(rows[i]->key, rows[first]->key) < 0))
                first = i;
        if (first < 0)
            break;
        row_view row;
        PL_TRY(row_open(family, rows[first]->key, rows[first]->value, &row));
        const row_key key = row.key;
        PL_TRY(visit(context, all->stores[first], &row));
        for (int i = 0; i < all->n_stores; i++)
            if (rows[i]->valid && kv_order(rows[i]->key, key_slice(&key)) == 0 &&
                !kv_cursor_next(rows[i]))
                PL_TRY(rows[i]->status);
    }
done:
    for (int i = 0; i < all->n_stores; i++)
        kv_cursor_close(&rows[i]);
    return status;
}

/* ---- numbers of the list ---- */
uint64_t pl_store_part_sequence(const pl_store *store, int part)
{
    return store->stores[part]->sequence;
}

int pl_store_n_parts(const pl_store *store)
{
    return store->n_stores > 1 ? store->n_stores : 0;
}

int pl_store_part_of(pl_store *store, const char *name)
{
    for (int i = 0; i < store->n_stores; i++)
        if (pl_store_has_name(store->stores[i], name))
            return i;
    return -1;
}

pl_status stores_check_number(const pl_store *all)
{
    const int was = all->n_stores;
    int n = 0;
    PL_CHECK(pl_store_homes(all->folder, &n));
    if (n == was)
        return PL_OK;
    return pl_fail(PL_ERR_BUSY,
                   "the store %s was opened with the parts of %d home%s, and has those "
                   "of %d now; open it again",
                   all->folder, was, was > 1 ? "s" : "", n);
}

/* ---- opening all parts, and refreshing them ---- */
/* Identifies a state of the folder. Each copy into the folder replaces PARTS after it
 * has written the parts, so the stamp changes. */
typedef struct parts_stamp {
    bool copying;
    struct stat parts;
} parts_stamp;

static parts_stamp stamp_of(const pl_store *all)
{
    char path[PL_PATH_MAX];
    parts_stamp stamp = {.copying = mirror_check(all->folder) != PL_OK};
    if (stat(pl_join(path, all->folder, "PARTS"), &stamp.parts) != 0)
        stamp.copying = true;
    return stamp;
}

static bool same_parts_stamp(const parts_stamp *a, const parts_stamp *b)
{
    return !a->copying && !b->copying && a->parts.st_ino == b->parts.st_ino &&
           a->parts.st_mtim.tv_sec == b->parts.st_mtim.tv_sec &&
           a->parts.st_mtim.tv_nsec == b->parts.st_mtim.tv_nsec;
}

static pl_status fail_copied(const pl_store *all)
{
    PL_CHECK(stores_check_number(all));
    return pl_fail(PL_ERR_BUSY,
                   "the parts of %s changed while they were read; try again",
                   all->folder);
}

static pl_status look_at_parts(pl_store *all, rollback_view *view)
{
    uint64_t sequence = 0, epoch = 0;
    pl_status status = PL_OK;
    for (int i = 0; i < all->n_stores; i++) {
        PL_TRY(pl_store_refresh(all->stores[i]));
        sequence += all->stores[i]->sequence;
        epoch += all->stores[i]->epoch;
    }
    all->sequence = sequence;
    all->epoch = epoch;
    PL_TRY(rollback_look(all, view));
done:
    PL_CHECK(stores_check_number(all)); /* perhaps the reason why `status` is not OK */
    return status;
}

/* Refreshes all parts. While a rollback or a copy into the folder is being made, this
 * function waits, so that the reader shows this change in all parts or in none. If
 * parts were restored one by one, the numbers of their rollbacks never become equal; so
 * the wait has a time limit. */
static pl_status refresh_parts(pl_store *all)
{
    enum { PATIENCE_MS = 3000, WAIT_MS = 20 };
    rollback_view view = ROLLBACK_MIXED;
    pl_status status;
    bool copied;
    int64_t end_ms = pl_now_ms() + PATIENCE_MS;
    for (;;) {
        parts_stamp before = stamp_of(all);
        status = look_at_parts(all, &view);
        parts_stamp after = stamp_of(all);
        copied = !same_parts_stamp(&before, &after);
        bool moves = copied || (status == PL_OK && view != ROLLBACK_WHOLE);
        if (!moves || pl_now_ms() > end_ms)
            break;
        pl_sleep_ms(WAIT_MS);
    }
    PL_CHECK(copied ? fail_copied(all) : status);
    if (view != ROLLBACK_HALF)
        return PL_OK;
    return pl_fail(PL_ERR_BUSY,
                   "a rollback of the store %s was interrupted, and only some of its "
                   "%d homes have carried it out; run `pathloom train` on its run, or "
                   "the same rollback again, to finish it",
                   all->folder, all->n_stores);
}

static pl_status open_each_part(pl_store *all, int n)
{
    char folder[PL_PATH_MAX];
    all->stores[0] = NULL;
    all->n_stores = n;
    for (int i = 0; i < n; i++) {
        int inner = 0;
        PL_CHECK(pl_store_parts(pl_store_part(all->folder, i, folder), &inner));
        if (inner > 0) /* the list has one level */
            return pl_fail(
                PL_ERR_DAMAGED,
                "%s must be the store of one home, but contains the stores "
                "of %d homes; move it away, and restore home-%d of the backup "
                "into its place",
                folder, inner, i + 1);
        PL_CHECK(pl_store_open(folder, PL_STORE_READ, &all->stores[i]));
    }
    for (int i = 0; i < n; i++) {
        pl_store *part = all->stores[i];
        PL_CHECK(pl_store_check_placement(part));
        part->whole = all;
        snprintf(part->label, sizeof part->label, "home-%d: ", i + 1);
    }
    return PL_OK;
}

static pl_status open_parts(pl_store *all, int n)
{
    if (all->mode != PL_STORE_READ)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "this command does not work on the store %s, because it is "
                       "divided between %d homes; copy it into a new store (`pathloom "
                       "store push FOLDER`) and run the command there",
                       all->folder, n);
    parts_stamp before = stamp_of(all);
    pl_status status = open_each_part(all, n);
    parts_stamp after = stamp_of(all);
    PL_CHECK(same_parts_stamp(&before, &after) ? status : fail_copied(all));
    return refresh_parts(all);
}

/* ---- opening, refreshing and closing ---- */
pl_status pl_store_open(const char *folder, pl_store_mode mode, pl_store **out)
{
    *out = NULL;
    pl_store *store = pl_alloc(sizeof *store);
    store->mode = mode;
    store->lock = store->mark.fd = -1;
    store->whole = store->stores[0] = store;
    store->n_stores = 1;
    pl_status status = PL_OK;
    int n = 0;
    if (strlen(folder) > PL_PATH_MAX - 32 || !*folder)
        PL_TRY(
            pl_fail(PL_ERR_ARG, "a store's path has 1 to %d bytes", PL_PATH_MAX - 32));
    pl_copy_text(store->folder, sizeof store->folder, folder);
    PL_TRY(pl_store_check_access(folder));
    PL_TRY(pl_store_parts(folder, &n));
    PL_TRY(n > 0 ? open_parts(store, n) : store_open(store));
    *out = store;
    return PL_OK;
done:
    pl_store_close(&store);
    return status;
}

pl_status pl_store_refresh(pl_store *store)
{
    if (store->mode != PL_STORE_READ)
        return PL_OK;
    return store->n_stores > 1 ? refresh_parts(store) : store_refresh(store);
}

pl_status pl_store_look_as_writer(pl_store *store)
{
    for (int i = 0; i < store->n_stores; i++)
        PL_CHECK(store_look_as_writer(store->stores[i]));
    return PL_OK;
}

/* What fails while a store is closed has no consequence for the caller, so it must not
 * replace the sentence of an error that the caller is about to tell. */
void pl_store_close(pl_store **handle)
{
    char sentence[1024];
    pl_store *store = *handle;
    *handle = NULL;
    if (!store)
        return;
    pl_copy_text(sentence, sizeof sentence, pl_last_error());
    for (int i = 0; i < store->n_stores; i++)
        if (store->stores[i] != store)
            pl_store_close(&store->stores[i]);
    store_close(store);
    (void)pl_fail(PL_ERR_IO, "%s", sentence);
}
