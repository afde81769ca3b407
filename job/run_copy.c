/* Copies the files of a run that a job needs besides its store: configuration, keys,
 * and prepared text. With them and the store, a job goes on elsewhere with the same
 * keys, so that its workers on other machines know it again. */
#include "job/run.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

/* Copies a file with its mode. A file that is replaced is never seen in part. */
static pl_status copy_file(const char *from, const char *to, mode_t mode)
{
    pl_mapping bytes = {0};
    PL_CHECK(pl_map_file(from, &bytes));
    const mode_t old =
        umask(077); /* a secret key is never readable, not even at first */
    pl_status status = pl_replace_file(to, bytes.data, bytes.len);
    umask(old);
    pl_unmap_file(&bytes);
    if (status == PL_OK && chmod(to, mode & 0777) != 0)
        status =
            pl_fail(PL_ERR_IO, "cannot set the mode of %s: %s", to, strerror(errno));
    return status;
}

/* Copies the regular files of a folder, also those that links name, without subfolders.
 * If `last` is a name and not "", this file is copied after all others, and the folder
 * keeps its mode; otherwise only its owner may read the copy. */
static pl_status copy_folder(const char *from, const char *to, const char *last)
{
    char a[PL_PATH_MAX], b[PL_PATH_MAX];
    struct stat info;
    pl_status status = PL_OK;
    if (stat(from, &info) != 0)
        return errno == ENOENT
                   ? PL_OK
                   : pl_fail(PL_ERR_IO, "cannot read %s: %s", from, strerror(errno));
    PL_CHECK(pl_make_folders(to));
    if (!last[0] && chmod(to, info.st_mode & 0700) != 0)
        return pl_fail(PL_ERR_IO, "cannot set the mode of %s: %s", to, strerror(errno));
    DIR *entries = opendir(from);
    if (!entries)
        return pl_fail(PL_ERR_IO, "cannot read %s: %s", from, strerror(errno));
    for (struct dirent *e; status == PL_OK && (e = readdir(entries));) {
        pl_join(a, from, e->d_name);
        pl_join(b, to, e->d_name);
        if (strcmp(e->d_name, last) != 0 && !strstr(e->d_name, ".tmp-") &&
            stat(a, &info) == 0 && S_ISREG(info.st_mode))
            status = copy_file(a, b, info.st_mode);
    }
    closedir(entries);
    if (status == PL_OK && last[0] && stat(pl_join(a, from, last), &info) == 0)
        status = copy_file(a, pl_join(b, to, last), info.st_mode);
    return status;
}

pl_status run_copy_files(const char *from, const char *to)
{
    static const char *const folders[] = {"keys", "data"};
    char a[PL_PATH_MAX], b[PL_PATH_MAX];
    if (!pl_path_exists(pl_join(a, from, "run.yaml")))
        return pl_fail(
            PL_ERR_NOT_FOUND,
            "%s has no run.yaml, so it is not the folder of a run with --job", from);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        PL_CHECK(
            copy_folder(pl_join(a, from, folders[i]), pl_join(b, to, folders[i]), ""));
    /* run.yaml comes last: a folder that has it is complete */
    return copy_folder(from, to, "run.yaml");
}
