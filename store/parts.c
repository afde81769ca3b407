/* A store in parts: one sub-store per home of a job, shown to readers as one store.
 *
 * Purpose. With several homes, every home writes a separate store: FOLDER/home-1,
 * FOLDER/home-2 and so on; FOLDER/PARTS has their number. This file makes and counts
 * the parts, opens all of them for reading as one pl_store, and implements the reading
 * functions of store.h for this pl_store. A writer always opens a single part.
 *
 * Which part is read for a name
 *   - A name that was never moved is in one part. That part is found by asking each
 *     part in order.
 *   - For a name that was moved there are notes (refs "at/NAME") in several parts. Each
 *     move writes a higher stamp. The note with the highest stamp names the owner, and
 *     the owner is read (owner_of).
 *   - While a name is being moved, the next part already has copies of its rows. For a
 *     module the part with the newest version is read (part_with_module). Pending
 *     updates in parts that do not own the module are left out.
 *   - Definitions of arms are in every part with the same bytes. A blob may be in any
 *     part.
 *
 * The folder, over its life:
 *
 *              pl_store_make_parts
 *   nothing -----------------------> N parts <---- pl_store_grow_parts: N + 1
 *                                       ^      \-- pl_store_remove_part: N - 1
 *                pl_store_divide        |
 *   one piece --> half divided ---------+
 *                  home-1 has some of its files, PARTS does not exist yet;
 *                  pl_store_end_division goes on from there
 *
 * A part that PARTS counts may not exist yet, because its home makes it when the home
 * starts for the first time. Readers require only the first parts.begun parts to exist.
 *
 * A consistent view. The parts are opened one after the other, and each part by itself
 * is consistent. Three kinds of changes concern several parts. parts_refresh reads
 * again, for up to 3 seconds, until it sees each such change in all parts or in none:
 *   - a moved name: the next part has the name before the old part drops the name, so
 *     the view is read again until no note has changed in between (refresh_notes);
 *   - a rollback: decided by one commit of the first part (rollback.c);
 *   - a copy into the folder: recognised by PARTS, which is written last (stamp_of).
 *
 * Invariants
 *   - PARTS of a new store is written before any part exists; when a store is divided,
 *     PARTS is written after home-1 is complete. A folder home-N that PARTS does not
 *     count is an error, unless it is left over from a removed part.
 *   - Listings over all parts are sorted by name, and contain each module, path or
 *     object once.
 *
 * Ownership. The pl_store of all parts owns the parts and closes them. parts[i]->whole
 * points to that pl_store. */
#include "store/parts.h"
#include "store/mirror.h"
#include "store/rollback.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char FIRST_LINE[] = "pathloom parts 1";

char *pl_store_part(const char *folder, int part, char out[PL_PATH_MAX])
{
    char name[24];
    snprintf(name, sizeof name, "home-%d", part + 1);
    return pl_join(out, folder, name);
}

static bool read_counts(const char *text, pl_parts *out)
{
    char *end = NULL;
    size_t len = strlen(FIRST_LINE);
    if (strncmp(text, FIRST_LINE, len) != 0 || text[len] != '\n')
        return false;
    long n = strtol(text + len + 1, &end, 10), begun = n;
    if (*end == ' ')
        begun = strtol(end + 1, &end, 10);
    if (n < 1 || n > PL_PARTS_MAX || begun < 1 || begun > PL_PARTS_MAX ||
        strcmp(end, "\n") != 0)
        return false;
    *out = (pl_parts){(int)n, (int)begun};
    return true;
}

static pl_status parse_parts_file(const char *path, const char *text, pl_parts *out)
{
    if (read_counts(text, out))
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "%s does not say in how many parts the store is (1 to %d); count "
                   "the folders home-1, home-2 ... and write their number into the "
                   "second line of the file, below `%s`",
                   path, PL_PARTS_MAX, FIRST_LINE);
}

/* Returns an error if a part exists that PARTS does not count. Without this check the
 * data of that part would be lost silently. */
static pl_status check_counted(const char *folder, const pl_parts *parts)
{
    char next[PL_PATH_MAX];
    if (parts->n == PL_PARTS_MAX ||
        !pl_path_exists(pl_store_part(folder, parts->n, next)) ||
        parts_is_removed(folder, parts->n))
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "%s/PARTS counts %d parts, but the folder %s exists, too; write the "
                   "right number into the second line of PARTS",
                   folder, parts->n, next);
}

/* Returns whether a division was interrupted, that is, home-1 exists and PARTS does
 * not. (In a new store PARTS is written before any part exists; in a divided store it
 * is written after the first part.) If there are several parts without PARTS, a user
 * must have copied them there. */
static bool is_half_divided(const char *folder)
{
    char path[PL_PATH_MAX], part[PL_PATH_MAX];
    return !pl_path_exists(pl_join(path, folder, "PARTS")) &&
           pl_path_exists(pl_store_part(folder, 0, part)) &&
           !pl_path_exists(pl_join(path, part, "ENGINE")) &&
           !pl_path_exists(pl_store_part(folder, 1, part));
}

pl_status pl_store_count_parts(const char *folder, pl_parts *out)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    *out = (pl_parts){0, 0};
    PL_CHECK(mirror_check(folder));
    if (is_half_divided(folder))
        return pl_fail(PL_ERR_DAMAGED,
                       "the division of the store %s into parts was interrupted: some "
                       "of its files are already in %s; run `pathloom train` or "
                       "`pathloom homes` on its run to finish the division",
                       folder, pl_store_part(folder, 0, path));
    if (!pl_path_exists(pl_join(path, folder, "PARTS")))
        return PL_OK;
    pl_status status = pl_read_file(path, &text);
    if (status == PL_OK)
        status = parse_parts_file(path, pl_buf_text(&text), out);
    pl_buf_destroy(&text);
    return status == PL_OK ? check_counted(folder, out) : status;
}

pl_status pl_store_parts(const char *folder, int *n)
{
    pl_parts parts;
    pl_status status = pl_store_count_parts(folder, &parts);
    *n = parts.n;
    return status;
}

pl_status parts_write_counts(const char *folder, const pl_parts *parts)
{
    char path[PL_PATH_MAX], text[64];
    int len = parts->n == parts->begun
                  ? snprintf(text, sizeof text, "%s\n%d\n", FIRST_LINE, parts->n)
                  : snprintf(text, sizeof text, "%s\n%d %d\n", FIRST_LINE, parts->n,
                             parts->begun);
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
    return parts_write_counts(folder, &(pl_parts){n, n});
}

pl_status pl_store_grow_parts(const char *folder, int n)
{
    pl_parts parts;
    PL_CHECK(pl_store_count_parts(folder, &parts));
    if (parts.n == n)
        return PL_OK;
    if (parts.n == 0 || n != parts.n + 1 || n > PL_PARTS_MAX)
        return pl_fail(PL_ERR_ARG,
                       "the store %s has %d parts; adding one gives %d, not %d (at "
                       "most %d are possible)",
                       folder, parts.n, parts.n + 1, n, PL_PARTS_MAX);
    PL_CHECK(parts_clear_removed(folder, n - 1));
    if (n <= parts.begun)
        PL_CHECK(parts_make_again(folder, n - 1));
    parts.n = n;
    PL_CHECK(parts_write_counts(folder, &parts));
    return parts_unmark(folder, n - 1);
}

pl_status pl_store_divide(const char *folder)
{
    static const char *const names[] = {"db", "HWM", "FORMAT"};
    char part[PL_PATH_MAX], path[PL_PATH_MAX];
    if (pl_path_exists(pl_join(path, folder, "PARTS")))
        return PL_OK;
    if (pl_path_exists(pl_join(path, folder, "ENGINE")))
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the store %s cannot be divided, because its chunks are in a "
                       "storage engine under the name of the whole store; copy it into "
                       "a new store with `pathloom store push`",
                       folder);
    PL_CHECK(pl_make_folders(pl_store_part(folder, 0, part)));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *name = names[i];
        char from[PL_PATH_MAX], to[PL_PATH_MAX];
        if (pl_path_exists(pl_join(from, folder, name))) {
            PL_CHECK(pl_failpoint("store.divide.before"));
            if (rename(from, pl_join(to, part, name)) != 0)
                return pl_fail(PL_ERR_IO, "%s cannot be moved to %s: %s", from, to,
                               strerror(errno));
            PL_CHECK(pl_failpoint("store.divide.after"));
        }
    }
    PL_CHECK(pl_sync_folder(part));
    return parts_write_counts(folder, &(pl_parts){2, 1});
}

pl_status pl_store_end_division(const char *folder)
{
    return is_half_divided(folder) ? pl_store_divide(folder) : PL_OK;
}

bool parts_is_made(const char *folder, int part)
{
    char path[PL_PATH_MAX], format[PL_PATH_MAX];
    return pl_path_exists(pl_join(format, pl_store_part(folder, part, path), "FORMAT"));
}

bool pl_store_part_begun(const char *folder, const pl_parts *parts, int part)
{
    return parts->n == 0 || part < parts->begun || parts_is_made(folder, part);
}

int pl_store_n_begun(const char *folder, const pl_parts *parts)
{
    int n = 0;
    while (n < parts->n && pl_store_part_begun(folder, parts, n))
        n++;
    return n;
}

/* Identifies a state of the folder. Each copy into the folder replaces PARTS after it
 * has written the parts, so the stamp changes. */
typedef struct parts_stamp {
    bool copying;
    struct stat parts;
} parts_stamp;

static parts_stamp stamp_of(const pl_store *store)
{
    char path[PL_PATH_MAX];
    parts_stamp stamp = {.copying = mirror_check(store->folder) != PL_OK};
    if (stat(pl_join(path, store->folder, "PARTS"), &stamp.parts) != 0)
        stamp.copying = true;
    return stamp;
}

static bool same_parts_stamp(const parts_stamp *a, const parts_stamp *b)
{
    return !a->copying && !b->copying && a->parts.st_ino == b->parts.st_ino &&
           a->parts.st_mtim.tv_sec == b->parts.st_mtim.tv_sec &&
           a->parts.st_mtim.tv_nsec == b->parts.st_mtim.tv_nsec;
}

static pl_status fail_copied(const pl_store *store)
{
    PL_CHECK(mirror_check(store->folder));
    return pl_fail(PL_ERR_BUSY,
                   "the parts of %s changed while they were read; try again",
                   store->folder);
}

static pl_status open_all_parts(pl_store *store, int n)
{
    char part[PL_PATH_MAX];
    pl_parts counted;
    PL_CHECK(pl_store_count_parts(store->folder, &counted));
    store->parts = pl_alloc((size_t)n * sizeof(pl_store *));
    if (counted.n > 0) {
        int begun = pl_store_n_begun(store->folder, &counted);
        n = begun < n ? begun : n;
    }
    for (; store->n_parts < n; store->n_parts++)
        PL_CHECK(pl_store_open(pl_store_part(store->folder, store->n_parts, part),
                               PL_STORE_READ, &store->parts[store->n_parts]));
    for (int i = 0; i < store->n_parts; i++)
        store->parts[i]->whole = store;
    return PL_OK;
}

pl_status parts_open(pl_store *store, int n)
{
    if (store->mode != PL_STORE_READ)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "this command does not work on the store %s, because it is "
                       "divided between %d homes; copy it into a new store (`pathloom "
                       "store push FOLDER`) and run the command there",
                       store->folder, n);
    parts_stamp before = stamp_of(store);
    pl_status status = open_all_parts(store, n);
    parts_stamp after = stamp_of(store);
    if (!same_parts_stamp(&before, &after))
        return fail_copied(store);
    return status == PL_OK ? parts_refresh(store) : status;
}

void parts_close(pl_store *store)
{
    for (int i = 0; i < store->n_parts; i++)
        pl_store_close(&store->parts[i]);
    pl_free(store->parts);
}

static pl_status refresh_once(pl_store *store)
{
    uint64_t sequence = 0, epoch = 0;
    for (int i = 0; i < store->n_parts; i++) {
        PL_CHECK(pl_store_refresh(store->parts[i]));
        sequence += store->parts[i]->sequence;
        epoch += store->parts[i]->epoch;
    }
    store->sequence = sequence;
    store->epoch = epoch;
    return PL_OK;
}

/* ---- names that moved from part to part ---- */
static pl_status add_move_note(void *context, const char *name, const char *target)
{
    pl_buf_printf(context, "%s %s\n", name, target);
    return PL_OK;
}

static pl_status all_notes(pl_store *store, pl_buf *out)
{
    pl_buf_clear(out);
    for (int i = 0; i < store->n_parts; i++)
        PL_CHECK(pl_store_each_ref(store->parts[i], PARTS_NOTES, add_move_note, out));
    return PL_OK;
}

/* Refreshes all parts until no note has changed between two reads. A name is stored in
 * its new part before it is removed from the old one. A reader that reads the new part
 * first and the old part later could miss the name in both. If no note has changed in
 * between, no name was missed. */
static pl_status refresh_notes(pl_store *store)
{
    enum { LOOKS_MAX = 16 };
    pl_buf before = {0}, after = {0};
    bool same = false;
    pl_status status = all_notes(store, &before);
    for (int i = 0; status == PL_OK && !same && i < LOOKS_MAX; i++) {
        status = refresh_once(store);
        if (status == PL_OK)
            status = all_notes(store, &after);
        same = before.len == after.len &&
               (before.len == 0 || memcmp(before.data, after.data, after.len) == 0);
        pl_buf swap = before;
        before = after;
        after = swap;
    }
    pl_buf_destroy(&before);
    pl_buf_destroy(&after);
    return status;
}

static pl_status look_at_parts(pl_store *store, rollback_view *view)
{
    pl_status status = refresh_notes(store);
    if (status == PL_OK)
        status = rollback_look(store, view);
    if (parts_is_made(store->folder, store->n_parts - 1))
        return status;
    return pl_fail(PL_ERR_BUSY,
                   "the store %s has fewer parts than the %d that it was opened with; "
                   "open it again",
                   store->folder, store->n_parts);
}

/* Refreshes all parts. While a rollback or a copy into the folder is being made, this
 * function waits, so that the reader shows this change in all parts or in none. If
 * parts were restored one by one, the numbers of their rollbacks never become equal; so
 * the wait has a time limit. */
pl_status parts_refresh(pl_store *store)
{
    enum { PATIENCE_MS = 3000, WAIT_MS = 20 };
    rollback_view view = ROLLBACK_MIXED;
    pl_status status;
    bool copied;
    int64_t end_ms = pl_now_ms() + PATIENCE_MS;
    for (;;) {
        parts_stamp before = stamp_of(store);
        status = look_at_parts(store, &view);
        parts_stamp after = stamp_of(store);
        copied = !same_parts_stamp(&before, &after);
        bool moves = copied || (status == PL_OK && view != ROLLBACK_WHOLE);
        if (!moves || pl_now_ms() > end_ms)
            break;
        pl_sleep_ms(WAIT_MS);
    }
    if (!copied)
        PL_CHECK(status);
    else
        PL_CHECK(fail_copied(store));
    if (view != ROLLBACK_HALF)
        return PL_OK;
    return pl_fail(PL_ERR_BUSY,
                   "a rollback of the store %s was interrupted, and only some of its "
                   "%d homes have carried it out; run `pathloom train` on its run, or "
                   "the same rollback again, to finish it",
                   store->folder, store->n_parts);
}

uint64_t pl_store_part_sequence(const pl_store *store, int part)
{
    return store->parts[part]->sequence;
}

int pl_store_n_parts(const pl_store *store)
{
    return store->n_parts;
}

/* Returns the part that owns a name that has moved, according to the note with the
 * highest stamp. Returns NULL if the name never moved. */
static pl_store *owner_of(const pl_store *store, const char *name)
{
    char ref[PL_MODULE_NAME_MAX + 8];
    pl_store *owner = NULL;
    uint64_t newest = 0;
    snprintf(ref, sizeof ref, PARTS_NOTES "%s", name);
    for (int i = 0; i < store->n_parts; i++) {
        pl_buf target = {0};
        char whose[24];
        unsigned long long stamp = 0;
        if (pl_store_get_ref(store->parts[i], ref, &target) == PL_OK &&
            sscanf(pl_buf_text(&target), "%23s %llu", whose, &stamp) == 2 &&
            (!owner || stamp > newest)) {
            long part = strcmp(whose, "here") == 0 ? i : strtol(whose, NULL, 10);
            owner = part >= 0 && part < store->n_parts ? store->parts[part] : NULL;
            newest = stamp;
        }
        pl_buf_destroy(&target);
    }
    return owner;
}

/* Returns the part that the notes name, or else the first part that has the name. */
int pl_store_part_of(pl_store *store, const char *name)
{
    if (store->n_parts == 0)
        return pl_store_has_name(store, name) ? 0 : -1;
    const pl_store *owner = owner_of(store, name);
    for (int i = 0; i < store->n_parts; i++)
        if (owner ? store->parts[i] == owner : pl_store_has_name(store->parts[i], name))
            return i;
    return -1;
}

pl_status parts_refuse(const pl_store *store, const char *what)
{
    if (store->n_parts == 0)
        return PL_OK;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "%s works on the store of one home, but %s has the stores of %d "
                   "homes; give --store %s/home-N",
                   what, store->folder, store->n_parts, store->folder);
}

/* ---- reading by name ---- */
/* Makes `call` for the part that owns the name. If there is no note about the name,
 * makes `call` for each part until a part has the name. */
#define FIRST_PART(call)                                                               \
    do {                                                                               \
        pl_status answer = PL_ERR_NOT_FOUND;                                           \
        pl_store *owner = owner_of(store, name);                                       \
        if (owner) {                                                                   \
            pl_store *part = owner;                                                    \
            return call;                                                               \
        }                                                                              \
        for (int i = 0; i < store->n_parts && answer == PL_ERR_NOT_FOUND; i++) {       \
            pl_store *part = store->parts[i];                                          \
            answer = call;                                                             \
        }                                                                              \
        return answer;                                                                 \
    } while (0)

pl_store *parts_with_blob(pl_store *store, const pl_hash *blob)
{
    for (int i = 0; i < store->n_parts; i++)
        if (pl_store_has_blob(store->parts[i], blob))
            return store->parts[i];
    return NULL;
}

/* Returns the part with the newest version of a module; this part has all versions. Two
 * parts may have the module while it moves. (pl_store_audit reports a module that two
 * parts have without a note.) */
static pl_store *part_with_module(pl_store *store, const char *module)
{
    pl_store *best = NULL;
    uint64_t newest = 0;
    for (int i = 0; i < store->n_parts; i++) {
        head_record head;
        bool found = false;
        if (head_read(store_source(store->parts[i]), module, &head, &found) != PL_OK)
            /* the caller will get the same failure from that part */
            return store->parts[i];
        if (found && (!best || head.number > newest)) {
            best = store->parts[i];
            newest = head.number;
        }
    }
    return best ? best : store->parts[0];
}

pl_status parts_get_version(pl_store *store, const char *module, uint64_t number,
                            pl_version *out)
{
    return pl_store_get_version(part_with_module(store, module), module, number, out);
}

pl_status parts_head(pl_store *store, const char *module, pl_version *out)
{
    return pl_store_head(part_with_module(store, module), module, out);
}

pl_status parts_get_path(pl_store *store, const char *name, pl_path_state *out)
{
    FIRST_PART(pl_store_get_path(part, name, out));
}

pl_status parts_get_object(pl_store *store, const char *name, pl_object *out)
{
    FIRST_PART(pl_store_get_object(part, name, out));
}

pl_status parts_get_ref(pl_store *store, const char *name, pl_buf *target)
{
    FIRST_PART(pl_store_get_ref(part, name, target));
}

pl_status parts_each_version(pl_store *s, const char *module, pl_version_fn fn,
                             void *context)
{
    return pl_store_each_version(part_with_module(s, module), module, fn, context);
}

/* ---- lists over all parts: names are gathered and sorted, then each entry is read
 * ---- */
typedef struct place {
    char name[PL_MODULE_NAME_MAX];
    int part;
} place;

typedef struct listing {
    place *places;
    size_t n;
    int part; /* number of the part that is being listed */
} listing;

static void list_part_name(listing *l, const char *name)
{
    l->places = pl_grow(l->places, (l->n + 1) * sizeof *l->places);
    pl_copy_text(l->places[l->n].name, PL_MODULE_NAME_MAX, name);
    l->places[l->n++].part = l->part;
}

static pl_status list_part_head(void *context, const pl_version *v)
{
    list_part_name(context, v->module);
    return PL_OK;
}

static pl_status list_part_path(void *context, const pl_path_state *p)
{
    list_part_name(context, p->name);
    return PL_OK;
}

static pl_status list_part_object(void *context, const pl_object *o)
{
    list_part_name(context, o->name);
    return PL_OK;
}

static pl_status list_ref(void *context, const char *name, const char *target)
{
    (void)target;
    list_part_name(context, name);
    return PL_OK;
}

static int compare_name_places(const void *a_, const void *b_)
{
    const place *a = a_, *b = b_;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : a->part - b->part;
}

/* Sorts the list. If a name is in several parts, only the entry of the first part
 * stays. */
static void sort(listing *l)
{
    size_t n = 0;
    if (l->n > 0)
        qsort(l->places, l->n, sizeof *l->places, compare_name_places);
    for (size_t i = 0; i < l->n; i++)
        if (n == 0 || strcmp(l->places[n - 1].name, l->places[i].name) != 0)
            l->places[n++] = l->places[i];
    l->n = n;
}

pl_status parts_each_head(pl_store *s, const char *prefix, pl_version_fn fn,
                          void *context)
{
    listing l = {0};
    pl_status status = PL_OK;
    for (; l.part < s->n_parts; l.part++)
        PL_TRY(pl_store_each_head(s->parts[l.part], prefix, list_part_head, &l));
    sort(&l);
    for (size_t i = 0; i < l.n; i++) {
        pl_version v;
        PL_TRY(parts_head(s, l.places[i].name, &v));
        status = fn(context, &v);
        pl_version_clear(&v);
        if (status != PL_OK)
            goto done;
    }
done:
    pl_free(l.places);
    return status;
}

pl_status parts_each_path(pl_store *s, const char *prefix, pl_path_fn fn, void *context)
{
    listing l = {0};
    pl_status status = PL_OK;
    for (; l.part < s->n_parts; l.part++)
        PL_TRY(pl_store_each_path(s->parts[l.part], prefix, list_part_path, &l));
    sort(&l);
    for (size_t i = 0; i < l.n; i++) {
        pl_path_state p;
        PL_TRY(parts_get_path(s, l.places[i].name, &p));
        PL_TRY(fn(context, &p));
    }
done:
    pl_free(l.places);
    return status;
}

pl_status parts_each_object(pl_store *s, const char *prefix, pl_object_fn fn,
                            void *context)
{
    listing l = {0};
    pl_status status = PL_OK;
    for (; l.part < s->n_parts; l.part++)
        PL_TRY(pl_store_each_object(s->parts[l.part], prefix, list_part_object, &l));
    sort(&l);
    for (size_t i = 0; i < l.n; i++) {
        pl_object o;
        PL_TRY(parts_get_object(s, l.places[i].name, &o));
        PL_TRY(fn(context, &o));
    }
done:
    pl_free(l.places);
    return status;
}

pl_status parts_each_ref(pl_store *s, const char *prefix, pl_ref_fn fn, void *context)
{
    listing l = {0};
    pl_buf target = {0};
    pl_status status = PL_OK;
    for (; l.part < s->n_parts; l.part++)
        PL_TRY(pl_store_each_ref(s->parts[l.part], prefix, list_ref, &l));
    sort(&l);
    for (size_t i = 0; i < l.n; i++) {
        const place *at = &l.places[i];
        PL_TRY(pl_store_get_ref(s->parts[at->part], at->name, &target));
        PL_TRY(fn(context, at->name, pl_buf_text(&target)));
    }
done:
    pl_buf_destroy(&target);
    pl_free(l.places);
    return status;
}

typedef struct owned_pending {
    const pl_store *store, *part;
    pl_pending_fn fn;
    void *context;
} owned_pending;

/* Passes a pending update on, unless it is one of the copies that a module's next part
 * has while the module moves. */
static pl_status tell_pending(void *context, const char *module,
                              const pl_contribution *c)
{
    const owned_pending *o = context;
    const pl_store *owner = owner_of(o->store, module);
    return owner && owner != o->part ? PL_OK : o->fn(o->context, module, c);
}

/* Visits pending contributions. All pending rows of a module are visited in one part,
 * so they come in their usual order. */
pl_status parts_each_pending(pl_store *s, const char *prefix, pl_pending_fn fn,
                             void *context)
{
    for (int i = 0; i < s->n_parts; i++) {
        owned_pending owned = {s, s->parts[i], fn, context};
        PL_CHECK(pl_store_each_pending(s->parts[i], prefix, tell_pending, &owned));
    }
    return PL_OK;
}

/* ---- counts and audits of all parts ---- */
pl_status parts_count_all(pl_store *store, pl_store_stats *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < store->n_parts; i++) {
        pl_store_stats one;
        PL_CHECK(pl_store_count(store->parts[i], &one));
        out->n_modules += one.n_modules;
        out->n_versions += one.n_versions;
        out->n_blobs += one.n_blobs;
        out->n_chunks += one.n_chunks;
        out->blob_bytes += one.blob_bytes;
        out->chunk_bytes += one.chunk_bytes;
        out->stored_bytes += one.stored_bytes;
        out->disk_bytes += one.disk_bytes;
    }
    return PL_OK;
}

typedef struct named_problems {
    pl_problem_fn fn;
    void *context;
    int part;
} named_problems;

static void tell_problem(void *context, const char *sentence)
{
    const named_problems *p = context;
    char text[1024];
    snprintf(text, sizeof text, "home-%d: %s", p->part + 1, sentence);
    p->fn(p->context, text);
}

/* Reports modules that are in several parts although no note names their owner. (While
 * a module moves it may be in two parts, but then there is a note.) */
static pl_status audit_owners(pl_store *store, pl_problem_fn fn, void *context,
                              pl_audit_report *out)
{
    listing l = {0};
    pl_status status = PL_OK;
    for (; l.part < store->n_parts; l.part++)
        PL_TRY(pl_store_each_head(store->parts[l.part], "", list_part_head, &l));
    if (l.n > 0)
        qsort(l.places, l.n, sizeof *l.places, compare_name_places);
    for (size_t i = 1; i < l.n; i++) {
        char text[256];
        if (strcmp(l.places[i - 1].name, l.places[i].name) != 0 ||
            owner_of(store, l.places[i].name))
            continue;
        snprintf(text, sizeof text, "module %s is in home-%d and in home-%d",
                 l.places[i].name, l.places[i - 1].part + 1, l.places[i].part + 1);
        fn(context, text);
        out->n_problems++;
    }
done:
    pl_free(l.places);
    return status;
}

pl_status parts_audit(pl_store *store, bool bytes, pl_problem_fn fn, void *context,
                      pl_audit_report *out)
{
    memset(out, 0, sizeof *out);
    PL_CHECK(audit_owners(store, fn, context, out));
    for (int i = 0; i < store->n_parts; i++) {
        pl_audit_report one;
        named_problems named = {fn, context, i};
        PL_CHECK(pl_store_audit(store->parts[i], bytes, tell_problem, &named, &one));
        out->n_rows += one.n_rows;
        out->n_versions += one.n_versions;
        out->n_blobs += one.n_blobs;
        out->n_chunks += one.n_chunks;
        out->bytes += one.bytes;
        out->n_problems += one.n_problems;
    }
    return PL_OK;
}
