/* The folder of a store in parts, with one part per home of a job:
 *
 *   FOLDER/PARTS       text: "pathloom parts 1", then the number N
 *   FOLDER/home-1 .. N stores, each with its own writer
 *
 * This file makes, counts and names the parts; only `homes set` changes their number.
 * PARTS of a new store is written before any part exists. A folder home-N that PARTS
 * does not count is an error. stores.c opens the parts for reading. */
#include "store/parts.h"
#include "store/mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FIRST_LINE[] = "pathloom parts 1";

char *pl_store_part(const char *folder, int part, char out[PL_PATH_MAX])
{
    char name[24];
    snprintf(name, sizeof name, "home-%d", part + 1);
    return pl_join(out, folder, name);
}

pl_status pl_store_parts(const char *folder, int *n)
{
    char path[PL_PATH_MAX], next[PL_PATH_MAX];
    pl_buf text = {0};
    *n = 0;
    PL_CHECK(mirror_check(folder));
    if (!pl_path_exists(pl_join(path, folder, "PARTS")))
        return PL_OK;
    pl_status status = pl_read_file(path, &text);
    const char *said = pl_buf_text(&text);
    const size_t len = strlen(FIRST_LINE);
    if (status == PL_OK && strncmp(said, FIRST_LINE, len) == 0 && said[len] == '\n') {
        char *end = NULL;
        const long count = strtol(said + len + 1, &end, 10);
        /* in the stores of earlier releases a second number may follow */
        if (*end == ' ')
            (void)strtol(end + 1, &end, 10);
        if (count >= 2 && count <= PL_PARTS_MAX && strcmp(end, "\n") == 0)
            *n = (int)count;
    }
    if (status == PL_OK && *n == 0)
        status = pl_fail(
            PL_ERR_DAMAGED,
            "%s does not say in how many parts the store is (2 to %d); count the "
            "folders home-1, home-2 ... and write their number into the second line of "
            "the file, below `%s`",
            path, PL_PARTS_MAX, FIRST_LINE);
    pl_buf_destroy(&text);
    PL_CHECK(status);
    /* Else a part that PARTS does not count would be lost silently. */
    if (*n == PL_PARTS_MAX || !pl_path_exists(pl_store_part(folder, *n, next)))
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "%s/PARTS counts %d parts, but the folder %s exists, too; write the "
                   "right number into the second line of PARTS",
                   folder, *n, next);
}

pl_status pl_store_homes(const char *folder, int *n)
{
    pl_status status = pl_store_parts(folder, n);
    if (*n == 0)
        *n = 1;
    return status;
}

char *pl_store_home(const char *folder, int home, int n, char out[PL_PATH_MAX])
{
    if (n > 1)
        return pl_store_part(folder, home, out);
    pl_copy_text(out, PL_PATH_MAX, folder);
    return out;
}

pl_status parts_write_count(const char *folder, int n)
{
    char path[PL_PATH_MAX], text[64];
    int len = snprintf(text, sizeof text, "%s\n%d\n", FIRST_LINE, n);
    return pl_replace_file(pl_join(path, folder, "PARTS"), text, (size_t)len);
}

pl_status pl_store_make_parts(const char *folder, int n)
{
    char path[PL_PATH_MAX];
    int there = 0;
    PL_CHECK(pl_store_parts(folder, &there));
    if (there == n)
        return PL_OK;
    if (there > 0 || pl_path_exists(pl_join(path, folder, "FORMAT")))
        return pl_fail(PL_ERR_EXISTS, "the store %s has %d part%s, not %d", folder,
                       there > 0 ? there : 1, there > 1 ? "s" : "", n);
    PL_CHECK(pl_make_folders(folder));
    return parts_write_count(folder, n);
}

static pl_status refuse_placement(void *context, const char *name, const char *target)
{
    const pl_store *store = context;
    (void)target;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "an earlier release has moved modules between homes (%s has the "
                   "record %s), and this release finds each module by a hash of its "
                   "name; run `pathloom homes set N` on the run, which puts them in "
                   "order",
                   store->folder, name);
}

pl_status pl_store_check_placement(pl_store *part)
{
    PL_CHECK(pl_store_each_ref(part, PARTS_NOTES, refuse_placement, part));
    return pl_store_each_ref(part, PARTS_TABLE, refuse_placement, part);
}
