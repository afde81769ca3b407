/* Copies a store of one or several parts. The copy is made completely or not at all.
 *
 *   FOLDER/home-N/LEFT  operations that remain to be done in a prepared part (mirror.h)
 *   FOLDER/new-N        a part that the folder did not have
 *   FOLDER/home-N/new   will replace a part whose history differs
 *   FOLDER/new          will replace a store in one piece whose history differs
 *   FOLDER/COPY         text: "pathloom copy 1"; twice the number of parts, or 0 and 0
 *                       for a store in one piece; then one line per part: the hash
 *                       of its LEFT
 *
 * First every part is prepared. This changes nothing that readers see. Then the file
 * COPY is written: from now on the copy is decided. After this decision, new parts are
 * moved to their places, the operations in each LEFT are carried out, the number is
 * written to PARTS, and COPY is removed. Any process that finds COPY can finish the
 * copy without the source. A store in one piece whose history does not differ needs no
 * COPY, because a single commit makes the copy.
 *
 * A part's folder may be a link or a mount point, which cannot be renamed. So the
 * replacement of a part is made inside that folder, where files can be renamed. */
#include "store/mirror.h"
#include "store/parts.h"
#include "store/stores.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static const char FIRST_LINE[] = "pathloom copy 1";

typedef struct copy_set {
    char folder[PL_PATH_MAX];
    int n; /* number of parts; 0: the store is in one piece */
    pl_hash left[PL_PARTS_MAX];
    int locks[1 + PL_PARTS_MAX]; /* locks of the folder and of its parts */
} copy_set;

static char *new_part(const char *folder, int part, char out[PL_PATH_MAX])
{
    char name[24];
    snprintf(name, sizeof name, "new-%d", part + 1);
    return pl_join(out, folder, name);
}

static bool is_decided(const char *folder)
{
    char path[PL_PATH_MAX];
    return pl_path_exists(pl_join(path, folder, "COPY"));
}

pl_status mirror_check(const char *folder)
{
    char above[PL_PATH_MAX];
    bool own = is_decided(folder);
    /* finds the folder's name, which slashes may follow */
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/')
        end--;
    while (end > 0 && folder[end - 1] != '/')
        end--;
    const bool is_part = pl_starts_with(folder + end, "home-");
    if (!own && !(is_part && is_decided(pl_path_above(above, folder))))
        return PL_OK;
    return pl_fail(PL_ERR_BUSY,
                   "a copy into %s is being made or was interrupted; run the same "
                   "`pathloom store backup` or `restore` again to finish it",
                   own ? folder : above);
}

/* ---- links and mount points ---- */
pl_status pl_store_check_movable(const char *folder, const char *path)
{
    struct stat above;
    struct statx info;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &info) != 0 ||
        stat(folder, &above) != 0)
        return PL_OK;
    /* only folders are compared: in layered file systems, a file may have a different
     * device number than its folder */
    if (!S_ISLNK(info.stx_mode) && !(info.stx_attributes & STATX_ATTR_MOUNT_ROOT) &&
        (!S_ISDIR(info.stx_mode) ||
         makedev(info.stx_dev_major, info.stx_dev_minor) == above.st_dev))
        return PL_OK;
    return pl_fail(
        PL_ERR_UNSUPPORTED,
        "%s is a link or a mount point, which a copy cannot replace; move its contents "
        "into %s (which may itself be a link), and run this command again",
        path, folder);
}

/* ---- locks ---- */
static void unlock_all(copy_set *c)
{
    for (int i = 0; i <= PL_PARTS_MAX; i++)
        pl_unlock_folder(&c->locks[i]);
}

static pl_status lock_all(copy_set *c, const char *folder)
{
    char part[PL_PATH_MAX];
    pl_status status = PL_OK;
    *c = (copy_set){.n = 0};
    memset(c->locks, -1, sizeof c->locks);
    if (!pl_copy_text(c->folder, sizeof c->folder, folder))
        return pl_fail(PL_ERR_ARG, "a store's path has at most %d bytes",
                       PL_PATH_MAX - 1);
    PL_TRY(pl_lock_folder(folder, &c->locks[0]));
    for (int i = 0; i < PL_PARTS_MAX; i++)
        if (pl_path_exists(pl_store_part(folder, i, part)))
            PL_TRY(pl_lock_folder(part, &c->locks[1 + i]));
done:
    if (status != PL_OK)
        unlock_all(c);
    return status;
}

/* ---- the file COPY, which records the decision ---- */
static bool parse_decision(char *text, copy_set *c)
{
    int again = 0;
    char *rest = NULL, *line = strtok_r(text, "\n", &rest);
    if (!line || strcmp(line, FIRST_LINE) != 0)
        return false;
    line = strtok_r(NULL, "\n", &rest);
    if (!line || sscanf(line, "%d %d", &c->n, &again) != 2)
        return false;
    if (c->n < 0 || c->n > PL_PARTS_MAX || (c->n == 0) != (again == 0))
        return false;
    for (int i = 0; i < c->n; i++) {
        line = strtok_r(NULL, "\n", &rest);
        if (!line || pl_hash_parse(line, &c->left[i]) != PL_OK)
            return false;
    }
    return true;
}

/* ---- after the decision ---- */
static pl_status move_into_place(const char *from, const char *to)
{
    char above[PL_PATH_MAX];
    if (!pl_path_exists(from))
        return PL_OK;
    pl_path_above(above, to);
    PL_CHECK(pl_store_check_movable(above, to));
    PL_CHECK(pl_failpoint("store.copy.before"));
    PL_CHECK(pl_remove_tree(to));
    PL_CHECK(pl_failpoint("store.copy.before"));
    if (rename(from, to) != 0)
        return pl_fail(PL_ERR_IO, "%s cannot be moved to %s: %s", from, to,
                       strerror(errno));
    PL_CHECK(pl_sync_folder(above));
    return pl_failpoint("store.copy.after");
}

/* The files and folders of which a store or a part consists. */
static const char *const NAMES[] = {"FORMAT", "db", "HWM"};
enum { N_NAMES = sizeof NAMES / sizeof *NAMES };

/* Replaces the files of the folder by those in FOLDER/new, if FOLDER/new exists. */
static pl_status swap_in_copy(const char *folder)
{
    char fresh[PL_PATH_MAX], from[PL_PATH_MAX], to[PL_PATH_MAX];
    if (!pl_path_exists(pl_join(fresh, folder, "new")))
        return PL_OK;
    for (size_t i = 0; i < N_NAMES; i++)
        PL_CHECK(move_into_place(pl_join(from, fresh, NAMES[i]),
                                 pl_join(to, folder, NAMES[i])));
    PL_CHECK(pl_remove_tree(pl_join(to, folder, "INCOMING")));
    return pl_remove_tree(fresh);
}

static pl_status check_swap(const char *folder)
{
    char path[PL_PATH_MAX];
    for (size_t i = 0; i < N_NAMES; i++)
        PL_CHECK(pl_store_check_movable(folder, pl_join(path, folder, NAMES[i])));
    return pl_store_check_movable(folder, pl_join(path, folder, "INCOMING"));
}

static pl_status do_what_is_left(const copy_set *c, int part, const char *folder)
{
    char path[PL_PATH_MAX];
    pl_buf left = {0};
    pl_hash hash;
    pl_status status = PL_OK;
    if (!pl_path_exists(pl_join(path, folder, "LEFT")))
        return PL_OK;
    PL_TRY(pl_read_file(path, &left));
    pl_hash_of("left", left.data, left.len, &hash);
    if (!pl_hash_equal(&hash, &c->left[part]))
        PL_TRY(pl_fail(
            PL_ERR_DAMAGED,
            "%s does not match its hash in %s/COPY, so the copy cannot be finished",
            path, c->folder));
    PL_TRY(mirror_finish(folder, &left));
    PL_TRY(pl_failpoint("store.copy.before"));
    PL_TRY(pl_remove_tree(path));
    PL_TRY(pl_sync_folder(folder));
    PL_TRY(pl_failpoint("store.copy.after"));
done:
    pl_buf_destroy(&left);
    return status;
}

static pl_status make_parts(copy_set *c)
{
    char path[PL_PATH_MAX];
    for (int i = 0; i < c->n; i++) {
        char folder[PL_PATH_MAX], fresh[PL_PATH_MAX];
        char from[PL_PATH_MAX], to[PL_PATH_MAX];
        PL_CHECK(move_into_place(new_part(c->folder, i, from),
                                 pl_store_part(c->folder, i, to)));
        pl_join(fresh, pl_store_part(c->folder, i, folder), "new");
        PL_CHECK(do_what_is_left(c, i, fresh));
        PL_CHECK(swap_in_copy(folder));
        PL_CHECK(do_what_is_left(c, i, folder));
    }
    for (int i = c->n; i < PL_PARTS_MAX; i++)
        PL_CHECK(pl_remove_tree(pl_store_part(c->folder, i, path)));
    return parts_write_count(c->folder, c->n);
}

static pl_status end_locked(copy_set *c)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_status status = pl_read_file(pl_join(path, c->folder, "COPY"), &text);
    pl_buf_append(&text, "", 1);
    if (status == PL_OK && !parse_decision((char *)text.data, c))
        status = pl_fail(
            PL_ERR_DAMAGED,
            "the file %s is damaged and does not say which copy to finish; if its "
            "folder is a backup, delete this folder and make the backup again",
            path);
    pl_buf_destroy(&text);
    PL_CHECK(status);
    PL_CHECK(c->n > 0 ? make_parts(c) : swap_in_copy(c->folder));
    PL_CHECK(pl_failpoint("store.copy.before"));
    PL_CHECK(pl_remove_tree(pl_join(path, c->folder, "COPY")));
    return pl_sync_folder(c->folder);
}

pl_status pl_store_end_copy(const char *folder)
{
    copy_set c;
    if (!is_decided(folder))
        return PL_OK;
    PL_CHECK(lock_all(&c, folder));
    pl_status status = end_locked(&c);
    unlock_all(&c);
    return status;
}

/* ---- removing an undecided copy ---- */
/* The folder is locked first, so that no other process copies into it. */
pl_status pl_store_clear_copy(const char *folder)
{
    char path[PL_PATH_MAX], part[PL_PATH_MAX];
    int lock = -1, n = 0;
    pl_status status = PL_OK;
    if (!pl_path_is_folder(folder) || pl_lock_folder(folder, &lock) != PL_OK)
        return PL_OK;
    PL_TRY(pl_store_parts(folder, &n));
    bool has_all = n > 0;
    for (int i = 0; i < n; i++)
        has_all =
            has_all &&
            pl_path_exists(pl_join(path, pl_store_part(folder, i, part), "FORMAT"));
    for (int i = 0; has_all && i < PL_PARTS_MAX; i++)
        PL_TRY(pl_remove_tree(new_part(folder, i, path)));
done:
    pl_unlock_folder(&lock);
    return status;
}

/* ---- before the decision ---- */
/* Removes a store that could not be finished for the reason `why`, so that it does not
 * fill the disk. */
static pl_status drop_prepared(pl_status why, const char *fresh)
{
    char text[512];
    pl_copy_text(text, sizeof text, pl_last_error());
    (void)pl_remove_tree(fresh);
    return pl_fail(why, "%s", text);
}

/* Prepares a part for the copy: its chunks are copied into the existing part, or a new
 * store is made inside its folder; if there is no such part, it is made as new-N. The
 * function first removes the files that an earlier, undecided copy had prepared. */
static pl_status prepare_copied_part(copy_set *c, pl_store *from, int part, bool force,
                                     pl_mirror_report *sum)
{
    char folder[PL_PATH_MAX], at[PL_PATH_MAX], path[PL_PATH_MAX];
    mirror_target to = {.folder = at, .force = force};
    pl_mirror_report one;
    pl_buf left = {0};
    pl_status status = PL_OK;
    new_part(c->folder, part, at);
    if (pl_path_exists(pl_store_part(c->folder, part, folder))) {
        char fresh[PL_PATH_MAX];
        PL_TRY(pl_remove_tree(at));
        pl_copy_text(at, sizeof at, folder);
        PL_TRY(pl_remove_tree(pl_join(fresh, folder, "new")));
        PL_TRY(pl_remove_tree(pl_join(path, folder, "LEFT")));
        PL_TRY(mirror_into(from, &to, &left, &one));
        if (to.beside) {
            PL_TRY(check_swap(folder));
            pl_copy_text(at, sizeof at, fresh);
            status = mirror_into(from, &to, &left, &one);
            if (status != PL_OK)
                PL_TRY(drop_prepared(status, fresh));
        }
    } else {
        PL_TRY(mirror_into(from, &to, &left, &one));
        if (to.beside) { /* an undecided copy of a different store was left there */
            to.beside = false;
            PL_TRY(pl_remove_tree(at));
            PL_TRY(mirror_into(from, &to, &left, &one));
        }
    }
    sum->n_records += one.n_records;
    sum->n_chunks += one.n_chunks;
    sum->bytes += one.bytes;
    pl_hash_of("left", left.data, left.len, &c->left[part]);
    PL_TRY(pl_replace_file(pl_join(path, at, "LEFT"), left.data, left.len));
done:
    pl_buf_destroy(&left);
    return status;
}

static pl_status check_target(const copy_set *c, bool force)
{
    char path[PL_PATH_MAX];
    int there = 0;
    if (pl_path_exists(pl_join(path, c->folder, "FORMAT")))
        return pl_fail(PL_ERR_EXISTS,
                       "%s holds a store in one piece, but the store to copy has %d "
                       "parts; name an empty folder",
                       c->folder, c->n);
    PL_CHECK(pl_store_parts(c->folder, &there));
    if (there > c->n && !force)
        return pl_fail(PL_ERR_EXISTS,
                       "%s has %d parts, but the store to copy has %d; name an empty "
                       "folder, or give --force to replace it",
                       c->folder, there, c->n);
    /* A part that the source has must not be a link to a path that does not exist, for
     * example because a disk is missing: nothing may be created in its place. A part
     * that the source does not have will be removed, so it must be neither a link nor a
     * mount point. */
    for (int i = 0; i < PL_PARTS_MAX; i++) {
        struct stat info;
        pl_store_part(c->folder, i, path);
        if (i >= c->n)
            PL_CHECK(pl_store_check_movable(c->folder, path));
        else if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode) &&
                 !pl_path_exists(path))
            return pl_fail(PL_ERR_NOT_FOUND,
                           "%s is a link to a path that does not exist; mount its "
                           "disk, or delete the link",
                           path);
    }
    return PL_OK;
}

static pl_status check_whole(const char *folder)
{
    char path[PL_PATH_MAX];
    if (!pl_path_exists(pl_join(path, folder, "PARTS")))
        return PL_OK;
    return pl_fail(PL_ERR_EXISTS,
                   "%s holds a store in parts, but the store to copy is in one piece; "
                   "name an empty folder",
                   folder);
}

/* ---- all steps of a copy ---- */
pl_status pl_store_mirror(pl_store *from, const char *folder, bool force,
                          pl_mirror_report *out)
{
    copy_set c;
    char fresh[PL_PATH_MAX], path[PL_PATH_MAX], hex[PL_HASH_TEXT];
    mirror_target to = {.folder = folder, .force = force};
    const int n = pl_store_n_parts(from);
    pl_buf text = {0};
    pl_status status = PL_OK;
    *out = (pl_mirror_report){0};
    if (n == 0)
        PL_CHECK(check_whole(folder));
    PL_CHECK(pl_make_folders(folder));
    PL_CHECK(lock_all(&c, folder));
    if (is_decided(folder))
        PL_TRY(end_locked(&c));
    c.n = n;
    if (n == 0) {
        /* a copy that was just finished may have made the folder a store in parts */
        PL_TRY(check_whole(folder));
        PL_TRY(pl_remove_tree(pl_join(fresh, folder, "new")));
        PL_TRY(mirror_into(from, &to, NULL, out));
        if (!to.beside)
            goto done;
        PL_TRY(check_swap(folder));
        to.folder = fresh;
        status = mirror_into(from, &to, NULL, out);
        if (status != PL_OK)
            PL_TRY(drop_prepared(status, fresh));
    } else
        PL_TRY(check_target(&c, force));
    for (int i = 0; i < n; i++)
        PL_TRY(prepare_copied_part(&c, from->stores[i], i, force, out));
    /* the file COPY records the decision */
    pl_buf_printf(&text, "%s\n%d %d\n", FIRST_LINE, n, n);
    for (int i = 0; i < n; i++) {
        pl_hash_format(&c.left[i], hex);
        pl_buf_printf(&text, "%s\n", hex);
    }
    PL_TRY(pl_replace_file(pl_join(path, folder, "COPY"), text.data, text.len));
    PL_TRY(end_locked(&c));
done:
    pl_buf_destroy(&text);
    unlock_all(&c);
    return status;
}
