/* Changes the homes of a run for `pathloom homes`: adds or removes a home, and reads
 * the weights of the homes. net/move.c moves names from one home to another. */
#include "job/job.h"

#include <string.h>

enum { HOME_WAIT_MS = 60000 };

/* If two processes moved names at the same time, each would write a placement table
 * that lacks the change of the other process. The lock is on RUN/log, because this
 * folder exists longer than the job and nothing else locks it. */
pl_status run_lock_movers(const pl_run *r, int *lock)
{
    char logs[PL_PATH_MAX];
    PL_CHECK(pl_make_folders(run_file(r, "log", logs)));
    pl_status status = pl_lock_folder(logs, lock);
    if (status == PL_ERR_BUSY)
        return pl_fail(
            status,
            "another `pathloom homes` is running on this run (%s); wait until it has "
            "ended",
            r->dir);
    return status;
}

/* ---- adding a home ---- */
static pl_status check_growth(const pl_run *r, int n)
{
    if (n == PL_HOMES_MAX)
        return pl_fail(PL_ERR_USAGE, "a job has at most %d homes", PL_HOMES_MAX);
    if (r->cfg.relays > 0)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "this job has relays, and a relay serves only one home; stop "
                       "the job and set workers.relay=0");
    if (strcmp(r->cfg.engine, "rocksdb") != 0)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "this job stores its chunks in a storage engine (store.engine), "
                       "so homes cannot be added");
    if (n == 1 && !r->launcher)
        return pl_fail(
            PL_ERR_BUSY,
            "this job has only one home, whose store can be divided only while the job "
            "is stopped: stop the job, give this command again, and resume the job. "
            "(If a run begins with store.homes=2 or more, homes can be added while the "
            "job runs.)");
    if (!r->cfg.attach && !pl_ends_with(r->cfg.home_bind, "*"))
        return pl_fail(PL_ERR_CONFIG,
                       "net.home is %s, but a new home needs its own port; write "
                       "* for the port",
                       r->cfg.home_bind);
    return PL_OK;
}

/* Waits for the new home: the job's launcher sees the new part and starts a home for
 * it. */
static pl_status await_added_home(pl_run *r, int index)
{
    enum { LOOK_MS = 50 };
    char file[64];
    int64_t start = pl_now_ms();
    run_home_file(index, index + 1, file);
    while (run_await_address(r->dir, file, LOOK_MS, r->homes_at[index]) != PL_OK) {
        PL_CHECK(run_stopped(r));
        if (pl_now_ms() - start > HOME_WAIT_MS)
            return pl_fail(
                PL_ERR_TIMEOUT,
                "home %d did not start within %d s; see %s/log, or start it: `pathloom "
                "home --run %s --index %d`; then give this command again",
                index + 1, HOME_WAIT_MS / 1000, r->dir, r->dir, index + 1);
    }
    r->n_homes = index + 1;
    PL_CHECK(pl_client_add_home(r->client, r->homes_at[index]));
    return run_tell_homes(r);
}

pl_status run_begin_home(pl_run *r, int n)
{
    bool offline = r->launcher != NULL;
    PL_CHECK(check_growth(r, n));
    PL_CHECK(pl_client_begin_places(r->client, n));
    if (offline)
        run_stop(r, false);
    /* A store in one piece becomes the first of two parts. No process has opened the
     * store at this point. */
    char store[PL_PATH_MAX];
    run_file(r, "store", store);
    PL_CHECK(n == 1 ? pl_store_divide(store) : pl_store_grow_parts(store, n + 1));
    return offline ? run_start_homes(r) : await_added_home(r, n);
}

/* ---- removing a home ---- */
pl_status run_drop_home(const char *store, int home)
{
    pl_writers *writers = NULL;
    PL_CHECK(pl_store_check_removal(store, home));
    PL_CHECK(pl_writers_open(store, &writers));
    pl_status status = pl_homes_leave(writers, home);
    pl_writers_close(&writers);
    return status == PL_OK ? pl_store_remove_part(store, home) : status;
}

/* ---- weights ---- */
pl_status run_home_weights(const pl_run *r, pl_places *out)
{
    pl_places table, next;
    int n = pl_client_n_homes(r->client);
    PL_CHECK(pl_client_get_places(r->client, &table, &next));
    *out = next.epoch > table.epoch ? next : table;
    if (out->n == 0)
        pl_places_equal(out, n);
    if (out->n < n)
        out->n = n; /* added homes have weight 0 */
    return PL_OK;
}

pl_status run_stored_weights(const char *folder, int n, pl_places *out,
                             bool *unfinished)
{
    char first[PL_PATH_MAX];
    pl_store *store = NULL;
    pl_places next = {.n = 0};
    if (n > 1)
        pl_store_part(folder, 0, first);
    PL_CHECK(pl_store_open(n > 1 ? first : folder, PL_STORE_READ, &store));
    pl_status status = pl_places_of_store(store, false, out);
    if (status == PL_OK)
        status = pl_places_of_store(store, true, &next);
    pl_store_close(&store);
    PL_CHECK(status);
    *unfinished = next.epoch > out->epoch;
    if (*unfinished)
        *out = next;
    if (out->n == 0)
        pl_places_equal(out, n);
    return PL_OK;
}
