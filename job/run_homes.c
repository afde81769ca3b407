/* Gives a stopped run another number of homes (pathloom homes set).
 *
 *   RUN/homes/store   the copy of the store for the new number (history/divide.h)
 *
 * The copy is made beside the store, and then the names of the two folders are
 * exchanged in one step (pl_exchange_folders). So RUN/store is the whole old store or
 * the whole new one, at whatever moment the command is killed. What then lies in
 * RUN/homes, an incomplete copy or the old store, is not needed; the next `homes set`
 * or `train` removes it. The number in run.yaml follows the exchange. */
#include "job/job.h"

/* Copies the store while no process may write to it, and exchanges it for its copy. A
 * copy that is not complete is removed, because the disk may be full. */
static pl_status copy_and_exchange(pl_run *r, const char *store, int n,
                                   pl_divide_report *report)
{
    char copy[PL_PATH_MAX];
    int locks[PL_PARTS_MAX];
    pl_status status = PL_OK;
    PL_TRY(run_lock_store(store, locks));
    status = pl_make_folders(run_file(r, "homes", copy));
    if (status == PL_OK)
        status = pl_try_exchange(copy);
    if (status == PL_OK)
        status = pl_store_divide(store, run_file(r, "homes/store", copy), n, report);
    if (status == PL_OK)
        PL_TRY(pl_exchange_folders(copy, store));
    else
        (void)run_clear_homes(r->dir);
done:
    run_unlock_store(locks);
    return status;
}

pl_status run_clear_homes(const char *dir)
{
    char left[PL_PATH_MAX];
    return pl_remove_tree(pl_join(left, dir, "homes"));
}

pl_status run_set_homes(pl_run *r, int n, pl_divide_report *report)
{
    enum { ANSWER_MS = 2000 };
    char store[PL_PATH_MAX], home[PL_PATH_MAX], address[PL_ADDRESS_MAX];
    int n_old = 0;
    bool is_divided = false;
    memset(report, 0, sizeof *report);
    PL_CHECK(run_load_own(r, &r->cfg)); /* the lock was free until now */
    if (strcmp(r->cfg.engine, "rocksdb") != 0)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "this run stores its chunks in a storage engine (store.engine), "
                       "where every home has its own place; its number of homes cannot "
                       "be changed");
    r->cfg.homes = n;
    PL_CHECK(config_check(&r->cfg));
    /* A hub that was started by hand has not locked the run, and would keep the old
     * number. */
    if (run_await_address(r->dir, "proc/hub.address", 0, address) == PL_OK) {
        PL_CHECK(run_use_keys(r->dir));
        if (run_ask_once(address, NULL, PL_MSG_STATUS, ANSWER_MS) == PL_OK)
            return pl_fail(PL_ERR_BUSY, "its hub, %s, still runs and must be stopped",
                           address);
    }
    run_file(r, "store", store);
    PL_CHECK(run_check_exchange(store));
    PL_CHECK(run_clear_homes(r->dir));
    if (!pl_path_exists(store)) /* the run has not begun */
        return run_save(r);
    PL_CHECK(pl_store_end_copy(store));
    PL_CHECK(pl_store_clear_copy(store));
    PL_CHECK(pl_store_homes(store, &n_old));
    /* Opens each home for writing, which finishes a rollback that was interrupted: a
     * home's share of it would not be copied. */
    int missing = -1, n_missing = 0;
    for (int i = 0; i < n_old; i++) {
        pl_store *one = NULL;
        pl_status status =
            pl_store_open(pl_store_home(store, i, n_old, home), PL_STORE_WRITE, &one);
        pl_store_close(&one);
        if (status != PL_ERR_NOT_FOUND)
            PL_CHECK(status);
        else if (n_missing++ == 0)
            missing = i;
    }
    if (n_missing > 0 && n_missing == n_old)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "training has not begun: no home has made its store in %s yet; "
                       "delete this folder, then give this command again",
                       store);
    if (n_missing > 0)
        return run_home_is_missing(r->dir, pl_store_home(store, missing, n_old, home),
                                   missing);
    /* In a store of an earlier release, in which names were moved, not every name is
     * where the hash of n homes places it. */
    if (n_old == n) {
        pl_store *all = NULL;
        pl_status status = pl_store_open(store, PL_STORE_READ, &all);
        is_divided = status == PL_OK;
        pl_store_close(&all);
        PL_CHECK(status == PL_ERR_UNSUPPORTED ? PL_OK : status);
    }
    if (!is_divided) {
        /* the copy of a store that is a link would lie on the disk of the run */
        PL_CHECK(pl_store_check_movable(r->dir, store));
        for (int i = 0; i < n_old; i++)
            PL_CHECK(
                pl_store_check_movable(store, pl_store_home(store, i, n_old, home)));
        PL_CHECK(copy_and_exchange(r, store, n, report));
    }
    PL_CHECK(run_save(r));
    return run_clear_homes(r->dir);
}
