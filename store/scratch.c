/* Makes, locks and removes the temporary folder of a reader, and removes folders that
 * killed readers left behind (scratch.h). The folder of a running reader is locked. */
#include "store/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Folders younger than YOUNG_S seconds are not removed, because a new folder is not
 * locked at once. One call removes at most SWEPT_AT_ONCE folders. */
enum { YOUNG_S = 60, SWEPT_AT_ONCE = 16 };
static const char prefix[] = "pathloom-read-";

static const char *root(void)
{
    const char *named = getenv("TMPDIR");
    return named && *named ? named : "/tmp";
}

pl_status scratch_make(scratch *out)
{
    char name[64];
    char path[PL_PATH_MAX];
    const struct dirent *entry;
    DIR *folder = opendir(root());
    int n = 0;
    while (folder && n < SWEPT_AT_ONCE && (entry = readdir(folder))) {
        struct stat info;
        int lock = -1;
        pl_join(path, root(), entry->d_name);
        /* Skips a path unless it is a folder (not a link) that belongs to this user,
         * was not changed for YOUNG_S seconds, and can be locked: only the process that
         * has locked a folder may remove it. */
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0 ||
            lstat(path, &info) != 0 || !S_ISDIR(info.st_mode) ||
            info.st_uid != geteuid() || time(NULL) - info.st_mtime <= YOUNG_S ||
            pl_lock_folder(path, &lock) != PL_OK)
            continue;
        n += pl_remove_tree(path) == PL_OK;
        pl_unlock_folder(&lock);
    }
    if (folder)
        closedir(folder);
    out->lock = -1;
    snprintf(name, sizeof name, "%sXXXXXX", prefix);
    pl_join(out->path, root(), name);
    if (!*out->path || !mkdtemp(out->path)) {
        out->path[0] = '\0';
        return pl_fail(PL_ERR_IO,
                       "cannot make a temporary folder under %s: %s; set TMPDIR to a "
                       "folder that you may write to",
                       root(), strerror(errno));
    }
    return pl_lock_folder(out->path, &out->lock);
}

void scratch_drop(scratch *s)
{
    if (!s->path[0])
        return;
    /* if this fails, a later reader removes the folder */
    if (pl_remove_tree(s->path) == PL_OK)
        s->path[0] = '\0';
    pl_unlock_folder(&s->lock);
}
