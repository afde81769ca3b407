/* Reads or changes a store for a command, while the homes of a job may have locked it:
 * opens a part of the store, or asks the home that has locked the part (run.h). */
#include "job/job.h"

enum { HOME_PATIENCE_MS = 10000 };

/* Whether to try again to use the store. A home that starts locks the store before the
 * home's address is known, and a home that ends keeps the lock a short time longer.
 * Returns false if `status` is not ERR_BUSY, or if more than 5 s have passed since
 * `begun_ms`. */
static bool try_store_again(pl_status status, int64_t begun_ms)
{
    enum { SOON_MS = 5000, STEP_MS = 50 };
    if (status != PL_ERR_BUSY || pl_now_ms() - begun_ms > SOON_MS)
        return false;
    pl_sleep_ms(STEP_MS);
    return true;
}

/* Makes a client of the homes of the job whose store is in `folder`. Their addresses
 * are in RUN/proc, beside the store. */
static pl_status ask_job_homes(const char *folder, pl_client **out)
{
    char above[PL_PATH_MAX], path[PL_PATH_MAX], file[64];
    pl_buf addresses[PL_HOMES_MAX] = {{0}};
    const char *homes[PL_HOMES_MAX];
    pl_status status = PL_OK;
    int n = 0;
    *out = NULL;
    PL_CHECK(pl_store_homes(folder, &n));
    pl_path_above(above, folder);
    PL_CHECK(run_use_keys(above));
    for (int i = 0; status == PL_OK && i < n; i++) {
        run_home_file(i, n, file);
        status = pl_read_file(pl_join(path, above, file), &addresses[i]);
    }
    for (int i = 0; i < n; i++)
        homes[i] = pl_buf_text(&addresses[i]);
    const pl_client_options options = {
        .homes = homes, .n_homes = n, .patience_ms = HOME_PATIENCE_MS};
    if (status == PL_OK)
        status = pl_client_create(&options, out);
    else
        status = pl_fail(PL_ERR_BUSY,
                         "another process has locked the store %s, and the file with "
                         "its address, %s, cannot be read; try again when that process "
                         "has ended",
                         folder, path);
    for (int i = 0; i < n; i++)
        pl_buf_destroy(&addresses[i]);
    return status;
}

/* ---- one tag ---- */
/* Garbage collection may have run after `view` was opened. It cannot run now, because
 * it needs all parts. */
static pl_status write_tag(pl_store *view, pl_store *store, const char *object,
                           const pl_buf *bytes)
{
    pl_txn *txn = NULL;
    pl_snapshot tag = {.n_items = 0};
    pl_hash blob;
    pl_status status = PL_OK;
    if (bytes->len > 0)
        PL_TRY(
            pl_snapshot_decode(object + strlen("tag/"), bytes->data, bytes->len, &tag));
    PL_TRY(pl_store_refresh(view));
    PL_TRY(pl_snapshot_check(view, &tag));
    PL_TRY(pl_txn_begin(store, &txn));
    if (bytes->len > 0) {
        PL_TRY(pl_txn_put_blob(txn, bytes->data, bytes->len, &blob));
        PL_TRY(pl_txn_put_object(txn, object, &blob));
    } else
        PL_TRY(pl_txn_drop_object(txn, object));
    PL_TRY(pl_txn_commit(&txn));
done:
    pl_txn_abort(&txn);
    pl_snapshot_clear(&tag);
    return status;
}

pl_status run_lock_store(const char *folder, int locks[PL_PARTS_MAX])
{
    char home[PL_PATH_MAX];
    int n = 0;
    memset(locks, -1, PL_PARTS_MAX * sizeof *locks);
    if (!pl_path_exists(folder))
        return PL_OK;
    PL_CHECK(pl_store_homes(folder, &n));
    for (int i = 0; i < n; i++)
        PL_CHECK(pl_lock_folder(pl_store_home(folder, i, n, home), &locks[i]));
    return PL_OK;
}

void run_unlock_store(int locks[PL_PARTS_MAX])
{
    for (int i = 0; i < PL_PARTS_MAX; i++)
        pl_unlock_folder(&locks[i]);
}

pl_status run_check_exchange(const char *folder)
{
    char path[PL_PATH_MAX];
    if (!pl_path_exists(pl_join(path, folder, "../forget/ready")))
        return PL_OK;
    return pl_fail(PL_ERR_BUSY,
                   "`pathloom forget` was interrupted before it replaced the store %s, "
                   "and everything that is written there now would be lost; run "
                   "`pathloom forget` or `pathloom train` again first",
                   folder);
}

pl_status run_keep_tag(const char *folder, pl_store *store, const char *object,
                       const pl_buf *bytes)
{
    char part[PL_PATH_MAX];
    pl_store *writer = NULL;
    pl_hash blob;
    PL_CHECK(run_check_exchange(folder));
    pl_copy_text(part, PL_PATH_MAX, folder);
    if (pl_store_n_parts(store) > 0)
        pl_store_part(folder, pl_names_part(store, object), part);
    int64_t begun = pl_now_ms();
    for (bool asked_last = false;;) {
        pl_status status = pl_store_open(part, PL_STORE_WRITE, &writer);
        if (status == PL_OK)
            status = write_tag(store, writer, object, bytes);
        else if (status == PL_ERR_BUSY) {
            pl_client *client = NULL;
            status = ask_job_homes(folder, &client);
            if (status == PL_OK)
                status = pl_client_put_object(client, object, bytes->data, bytes->len,
                                              &blob);
            pl_client_destroy(&client);
        }
        pl_store_close(&writer);
        if (status == PL_ERR_TIMEOUT && !asked_last)
            asked_last = true; /* the home may have ended meanwhile; try once more */
        else if (!try_store_again(status, begun))
            return status;
    }
}

/* ---- several parts at one moment ---- */
static pl_status look_beside_a_job(const char *folder, pl_store *store,
                                   int64_t *held_ms)
{
    enum { FIRST_MS = 2500, TRIES = 4 };
    pl_client *homes = NULL;
    bool same = false;
    pl_status status = ask_job_homes(folder, &homes);
    for (int i = 0; status == PL_OK && !same && i < TRIES; i++) {
        /* The homes stop writing for a limited time, and `store` reads their newest
         * commits. If it has exactly these commits, it shows the state of all homes at
         * one moment. */
        uint64_t newest[PL_HOMES_MAX] = {0};
        int64_t begun = pl_now_ms();
        status = pl_client_hold_all(homes, (int64_t)FIRST_MS << i, newest);
        if (status == PL_OK)
            status = pl_store_refresh(store);
        same = status == PL_OK;
        for (int p = 0; same && p < pl_store_n_parts(store); p++)
            same = pl_store_part_sequence(store, p) == newest[p];
        pl_status release = pl_client_hold_all(homes, 0, newest);
        status = status != PL_OK ? status : release;
        *held_ms = pl_now_ms() - begun;
    }
    pl_client_destroy(&homes);
    if (status == PL_OK && !same)
        status = pl_fail(
            PL_ERR_BUSY,
            "the homes of %s did not stop writing long enough to be read all at the "
            "same moment (%d tries); try again, or stop the job first",
            folder, TRIES);
    return status;
}

pl_status run_see_all_parts(const char *folder, pl_store **store)
{
    int n = 0;
    PL_CHECK(pl_store_parts(folder, &n));
    if (*store && n == pl_store_n_parts(*store))
        return PL_OK;
    pl_store_close(store);
    return pl_store_open(folder, PL_STORE_READ, store);
}

pl_status run_look_at_one_moment(const char *folder, pl_store **store, int64_t *held_ms)
{
    int64_t begun = pl_now_ms();
    pl_status status;
    *held_ms = -1;
    if (pl_store_n_parts(*store) == 0)
        return PL_OK;
    do {
        status = run_see_all_parts(folder, store);
        if (status == PL_OK) {
            /* Locks all parts. Without the locks, parts would be read one after
             * another, and a path's state in a later part could need updates that an
             * earlier part got after it was read. */
            int locks[PL_PARTS_MAX];
            status = run_lock_store(folder, locks);
            const bool busy = status == PL_ERR_BUSY; /* another process has a lock */
            if (status == PL_OK)
                status = pl_store_refresh(*store);
            run_unlock_store(locks);
            if (busy)
                status = look_beside_a_job(folder, *store, held_ms);
        }
    } while (try_store_again(status, begun));
    return status;
}
