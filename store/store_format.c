/* Five lines of text: a name, a number, and three words of feature bits. */
#include "store/store_format.h"
#include "store/store.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FORMAT_MAJOR = 1 };
static const uint64_t KNOWN_WRITE_BITS = 0,
                      KNOWN_OPEN_BITS = FORMAT_CODED_CHUNKS | FORMAT_ENGINE;
static const uint64_t OWN_BITS = FORMAT_CODED_CHUNKS; /* of a new store */
static const char FORMAT_LAYOUT[] =
    "pathloom store\nmajor %" PRIu64 "\ncompat 0x%" PRIx64 "\nro_compat 0x%" PRIx64
    "\nincompat 0x%" PRIx64 "\n";

typedef struct features {
    uint64_t major, compat, ro_compat, incompat;
} features;

/* A file has exactly one spelling: what was read must print as the same bytes. */
static bool parse(const pl_buf *text, features *out)
{
    char again[256], copy[256];
    if (text->len >= sizeof copy)
        return false;
    memcpy(copy, text->data, text->len);
    copy[text->len] = 0;
    if (sscanf(copy,
               "pathloom store major %" SCNu64 " compat 0x%" SCNx64
               " ro_compat 0x%" SCNx64 " incompat 0x%" SCNx64,
               &out->major, &out->compat, &out->ro_compat, &out->incompat) != 4)
        return false;
    snprintf(again, sizeof again, FORMAT_LAYOUT, out->major, out->compat,
             out->ro_compat, out->incompat);
    return strcmp(copy, again) == 0;
}

static pl_status judge(const char *folder, const features *found, bool to_write)
{
    if (found->major > FORMAT_MAJOR || found->incompat & ~KNOWN_OPEN_BITS)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the store %s has format %" PRIu64 " with features 0x%" PRIx64
                       ", this release knows format %d; use the newer release",
                       folder, found->major, found->incompat, FORMAT_MAJOR);
    if (to_write && found->ro_compat & ~KNOWN_WRITE_BITS)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "this release may read the store %s but not write it (features "
                       "0x%" PRIx64 "); use the newer release",
                       folder, found->ro_compat);
    return PL_OK;
}

/* FORMAT is written before the database is made. */
static pl_status missing(const char *folder)
{
    char database[PL_PATH_MAX];
    if (!pl_path_exists(pl_join(database, folder, "db")))
        return pl_fail(PL_ERR_NOT_FOUND, "there is no store at %s", folder);
    return pl_fail(PL_ERR_DAMAGED,
                   "the store %s has its data (%s) but has lost its file FORMAT; copy "
                   "FORMAT back from a backup of this store",
                   folder, database);
}

pl_status store_format_check(const char *folder, bool to_write, uint64_t *incompat)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    features found = {0};
    *incompat = 0;
    pl_status status = PL_OK;
    if (!pl_path_exists(pl_join(path, folder, "FORMAT")))
        return missing(folder);
    PL_TRY(pl_read_file(path, &text));
    if (!parse(&text, &found))
        PL_TRY(pl_fail(PL_ERR_DAMAGED,
                       "%s does not say what a store's format file says", path));
    PL_TRY(judge(folder, &found, to_write));
    *incompat = found.incompat;
done:
    pl_buf_destroy(&text);
    return status;
}

/* A process that died inside pl_replace_file leaves FORMAT.tmp-PID. ENGINE may be there
 * already: it is written before FORMAT. */
static bool is_leftover(const char *name)
{
    return pl_starts_with(name, "FORMAT.tmp-") || pl_starts_with(name, "ENGINE.tmp-");
}

static void remove_leftovers(const char *folder)
{
    char path[PL_PATH_MAX];
    DIR *entries = opendir(folder);
    for (struct dirent *e; entries && (e = readdir(entries));)
        if (is_leftover(e->d_name))
            unlink(pl_join(path, folder, e->d_name));
    if (entries)
        closedir(entries);
}

static bool folder_is_empty(const char *folder)
{
    bool empty = true;
    DIR *entries = opendir(folder);
    for (struct dirent *e; entries && (e = readdir(entries));)
        empty &= !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
                 !strcmp(e->d_name, "ENGINE") || is_leftover(e->d_name);
    if (entries)
        closedir(entries);
    return empty;
}

static pl_status write_file(const char *folder, const features *f)
{
    char text[256], path[PL_PATH_MAX];
    int len = snprintf(text, sizeof text, FORMAT_LAYOUT, f->major, f->compat,
                       f->ro_compat, f->incompat);
    return pl_replace_file(pl_join(path, folder, "FORMAT"), text, (size_t)len);
}

pl_status store_format_refuse_others(const char *folder)
{
    if (folder_is_empty(folder))
        return PL_OK;
    return pl_fail(PL_ERR_EXISTS,
                   "%s holds other files and is no store; name an empty folder",
                   folder);
}

pl_status store_format_finish(const char *folder, uint64_t also)
{
    features mine = {.major = FORMAT_MAJOR, .incompat = OWN_BITS | also};
    return write_file(folder, &mine);
}

pl_status store_format_write(const char *folder, uint64_t also)
{
    PL_RETURN_IF(store_format_refuse_others(folder));
    remove_leftovers(folder);
    return store_format_finish(folder, also);
}

/* The bits say what may be there, not that it is: they go up before anything is written
 * that needs them. */
pl_status pl_store_migrate(const char *folder, bool *changed)
{
    int lock = -1;
    uint64_t incompat = 0;
    features mine = {.major = FORMAT_MAJOR};
    pl_status status = PL_OK;
    *changed = false;
    if (!pl_path_is_folder(folder))
        return pl_fail(PL_ERR_NOT_FOUND, "there is no store at %s", folder);
    PL_RETURN_IF(pl_lock_folder(folder, &lock));
    PL_TRY(store_format_check(folder, true, &incompat));
    mine.incompat = incompat | OWN_BITS;
    *changed = incompat != mine.incompat;
    if (*changed)
        PL_TRY(write_file(folder, &mine));
done:
    pl_unlock_folder(&lock);
    return status;
}
