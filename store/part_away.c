/* Removes the last part of a store. The data of this part must not be needed any more.
 *
 * The steps are: write the file home-N.removed, which announces the removal; lower the
 * number in PARTS by one; remove the folder. If the process is killed after PARTS was
 * written, the rest of the folder is ignored. */
#include "store/parts.h"
#include "store/rollback.h"
#include <stdio.h>
#include <string.h>

static char *removed_mark_of(const char *folder, int part, char out[PL_PATH_MAX])
{
    char name[32];
    snprintf(name, sizeof name, "home-%d.removed", part + 1);
    return pl_join(out, folder, name);
}

bool parts_is_removed(const char *folder, int part)
{
    char path[PL_PATH_MAX];
    return pl_path_exists(removed_mark_of(folder, part, path));
}

pl_status parts_unmark(const char *folder, int part)
{
    char path[PL_PATH_MAX];
    return pl_remove_tree(removed_mark_of(folder, part, path));
}

pl_status parts_clear_removed(const char *folder, int part)
{
    char path[PL_PATH_MAX];
    if (!parts_is_removed(folder, part))
        return PL_OK;
    PL_CHECK(pl_remove_tree(pl_store_part(folder, part, path)));
    return parts_unmark(folder, part);
}

static pl_status mark_part(const char *folder, int part)
{
    char path[PL_PATH_MAX];
    return pl_replace_file(removed_mark_of(folder, part, path), "", 0);
}

pl_status parts_make_again(const char *folder, int part)
{
    char path[PL_PATH_MAX];
    pl_store *store = NULL;
    PL_CHECK(mark_part(folder, part));
    PL_CHECK(pl_store_open(pl_store_part(folder, part, path), PL_STORE_CREATE, &store));
    pl_store_close(&store);
    return PL_OK;
}

pl_status pl_store_check_removal(const char *folder, int n)
{
    char path[PL_PATH_MAX], part[PL_PATH_MAX];
    pl_store_part(folder, n, part);
    if (!pl_path_exists(pl_join(path, part, "ENGINE")))
        return PL_OK;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "the chunks of %s are in a storage engine, so this part and its "
                   "home cannot be removed",
                   part);
}

pl_status pl_store_remove_part(const char *folder, int n)
{
    pl_parts counted;
    PL_CHECK(pl_store_count_parts(folder, &counted));
    if (counted.n == n)
        return parts_clear_removed(folder, n);
    if (n < 2 || counted.n != n + 1)
        return pl_fail(PL_ERR_ARG,
                       "the store %s has %d parts; removing the last one leaves %d, "
                       "not %d, and at least 2 must stay",
                       folder, counted.n, counted.n - 1, n);
    PL_CHECK(pl_store_check_removal(folder, n));
    PL_CHECK(rollback_forget_parts(folder, n));
    PL_CHECK(mark_part(folder, n));
    PL_CHECK(pl_failpoint("store.remove.before"));
    counted.n = n;
    PL_CHECK(parts_write_counts(folder, &counted));
    PL_CHECK(pl_failpoint("store.remove.after"));
    return parts_clear_removed(folder, n);
}
