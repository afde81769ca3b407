/* Reads and writes the file FORMAT. It has two lines of text: the number of the store's
 * format, and whether the chunks are in RocksDB or in an engine. The file is valid only
 * if its text is exactly as this code writes it. */
#include "store/store_format.h"
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LINE "pathloom store 1\n"
static const char *const texts[2] = {FIRST_LINE "chunks rocksdb\n",
                                     FIRST_LINE "chunks engine\n"};

pl_status store_format_check(const char *folder, bool *in_engine)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    *in_engine = false;
    if (!pl_path_exists(pl_join(path, folder, "FORMAT"))) {
        /* FORMAT is written before the database is made: without it there is none */
        char database[PL_PATH_MAX];
        if (!pl_path_exists(pl_join(database, folder, "db")))
            return pl_fail(PL_ERR_NOT_FOUND, "there is no store at %s", folder);
        return pl_fail(PL_ERR_DAMAGED,
                       "the store %s has its data (%s) but has lost its file FORMAT; "
                       "copy FORMAT back from a backup of this store",
                       folder, database);
    }
    pl_status status = pl_read_file(path, &text);
    const char *said = pl_buf_text(&text);
    *in_engine = status == PL_OK && strcmp(said, texts[true]) == 0;
    const bool is_unknown =
        status == PL_OK && !*in_engine && strcmp(said, texts[false]) != 0;
    if (is_unknown &&
        (!pl_starts_with(said, "pathloom store") || pl_starts_with(said, FIRST_LINE)))
        status = pl_fail(
            PL_ERR_DAMAGED,
            "%s is damaged: it does not have the text of a store's format file", path);
    else if (is_unknown)
        status = pl_fail(
            PL_ERR_UNSUPPORTED,
            "%s begins with `%.*s`, but this release reads only the format `%.*s`; use "
            "the release that made the store",
            path, (int)strcspn(said, "\n"), said, (int)strcspn(FIRST_LINE, "\n"),
            FIRST_LINE);
    pl_buf_destroy(&text);
    return status;
}

/* Returns whether a file with this name may be left from a process that was killed
 * while it made a store. A process that is killed in pl_replace_file leaves
 * FORMAT.tmp-PID or ENGINE.tmp-PID. (store_format_refuse_others also accepts the file
 * ENGINE, because it is written before FORMAT.) */
static bool is_leftover(const char *name)
{
    return pl_starts_with(name, "FORMAT.tmp-") || pl_starts_with(name, "ENGINE.tmp-");
}

pl_status store_format_refuse_others(const char *folder)
{
    bool empty = true;
    DIR *entries = opendir(folder);
    for (struct dirent *e; entries && (e = readdir(entries));)
        empty &= !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
                 !strcmp(e->d_name, "ENGINE") || is_leftover(e->d_name);
    if (entries)
        closedir(entries);
    if (empty)
        return PL_OK;
    return pl_fail(PL_ERR_EXISTS,
                   "%s holds other files and is not a store; name an empty folder",
                   folder);
}

pl_status store_format_finish(const char *folder, bool in_engine)
{
    char path[PL_PATH_MAX];
    const char *text = texts[in_engine];
    return pl_replace_file(pl_join(path, folder, "FORMAT"), text, strlen(text));
}

pl_status store_format_write(const char *folder, bool in_engine)
{
    PL_CHECK(store_format_refuse_others(folder));
    char path[PL_PATH_MAX];
    DIR *entries = opendir(folder);
    for (struct dirent *e; entries && (e = readdir(entries));)
        if (is_leftover(e->d_name))
            unlink(pl_join(path, folder, e->d_name));
    if (entries)
        closedir(entries);
    return store_format_finish(folder, in_engine);
}
