/* A store in parts: one sub-store per home of a job, shown to readers as one store.
 *
 * Purpose. With several homes, every home writes a separate store: FOLDER/home-1,
 * FOLDER/home-2 and so on; FOLDER/PARTS has their number, which only `homes set`
 * changes. This file makes and counts the parts, opens all of them for reading as one
 * pl_store, and implements the reading functions of store.h for this pl_store. A writer
 * always opens a single part.
 *
 * Every module, path and object is in one part, which is found by asking each part in
 * order. Definitions of arms are in every part with the same bytes. A blob may be in
 * any part.
 *
 * A consistent view. The parts are opened one after the other, and each part by itself
 * is consistent. Two kinds of changes concern several parts. parts_refresh reads again,
 * for up to 3 seconds, until it sees each such change in all parts or in none:
 *   - a rollback: decided by one commit of the first part (rollback.c);
 *   - a copy into the folder: recognised by PARTS, which is written last (stamp_of).
 *
 * Invariants
 *   - PARTS of a new store is written before any part exists. A folder home-N that
 *     PARTS does not count is an error.
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

/* In the stores of earlier releases a second number may follow. */
static bool read_count(const char *text, int *out)
{
    char *end = NULL;
    size_t len = strlen(FIRST_LINE);
    if (strncmp(text, FIRST_LINE, len) != 0 || text[len] != '\n')
        return false;
    long n = strtol(text + len + 1, &end, 10);
    if (*end == ' ')
        (void)strtol(end + 1, &end, 10);
    if (n < 2 || n > PL_PARTS_MAX || strcmp(end, "\n") != 0)
        return false;
    *out = (int)n;
    return true;
}

static pl_status parse_parts_file(const char *path, const char *text, int *n)
{
    if (read_count(text, n))
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "%s does not say in how many parts the store is (2 to %d); count "
                   "the folders home-1, home-2 ... and write their number into the "
                   "second line of the file, below `%s`",
                   path, PL_PARTS_MAX, FIRST_LINE);
}

/* Returns an error if a part exists that PARTS does not count. Without this check the
 * data of that part would be lost silently. */
static pl_status check_counted(const char *folder, int n)
{
    char next[PL_PATH_MAX];
    if (n == PL_PARTS_MAX || !pl_path_exists(pl_store_part(folder, n, next)))
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "%s/PARTS counts %d parts, but the folder %s exists, too; write the "
                   "right number into the second line of PARTS",
                   folder, n, next);
}

pl_status pl_store_parts(const char *folder, int *n)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    *n = 0;
    PL_CHECK(mirror_check(folder));
    if (!pl_path_exists(pl_join(path, folder, "PARTS")))
        return PL_OK;
    pl_status status = pl_read_file(path, &text);
    if (status == PL_OK)
        status = parse_parts_file(path, pl_buf_text(&text), n);
    pl_buf_destroy(&text);
    return status == PL_OK ? check_counted(folder, *n) : status;
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

bool parts_is_made(const char *folder, int part)
{
    char path[PL_PATH_MAX], format[PL_PATH_MAX];
    return pl_path_exists(pl_join(format, pl_store_part(folder, part, path), "FORMAT"));
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

pl_status parts_check_number(const pl_store *store)
{
    const int was = store->n_parts > 0 ? store->n_parts : 1;
    int n = 0;
    PL_CHECK(pl_store_homes(store->folder, &n));
    if (n == was)
        return PL_OK;
    return pl_fail(PL_ERR_BUSY,
                   "the store %s was opened with the parts of %d home%s, and has those "
                   "of %d now; open it again",
                   store->folder, was, was > 1 ? "s" : "", n);
}

static pl_status fail_copied(const pl_store *store)
{
    PL_CHECK(parts_check_number(store));
    return pl_fail(PL_ERR_BUSY,
                   "the parts of %s changed while they were read; try again",
                   store->folder);
}

static pl_status open_all_parts(pl_store *store, int n)
{
    char part[PL_PATH_MAX];
    store->parts = pl_alloc((size_t)n * sizeof(pl_store *));
    for (; store->n_parts < n; store->n_parts++)
        PL_CHECK(pl_store_open(pl_store_part(store->folder, store->n_parts, part),
                               PL_STORE_READ, &store->parts[store->n_parts]));
    for (int i = 0; i < store->n_parts; i++) {
        PL_CHECK(pl_store_check_placement(store->parts[i]));
        store->parts[i]->whole = store;
    }
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

static pl_status look_at_parts(pl_store *store, rollback_view *view)
{
    pl_status status = refresh_once(store);
    if (status == PL_OK)
        status = rollback_look(store, view);
    PL_CHECK(parts_check_number(store)); /* perhaps the reason why `status` is not OK */
    return status;
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

/* ---- stores of earlier releases ---- */
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

int pl_store_part_of(pl_store *store, const char *name)
{
    if (store->n_parts == 0)
        return pl_store_has_name(store, name) ? 0 : -1;
    for (int i = 0; i < store->n_parts; i++)
        if (pl_store_has_name(store->parts[i], name))
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
pl_store *parts_with_blob(pl_store *store, const pl_hash *blob)
{
    for (int i = 0; i < store->n_parts; i++)
        if (pl_store_has_blob(store->parts[i], blob))
            return store->parts[i];
    return NULL;
}

/* Returns the part that has the name; the first part if none has it. */
static pl_store *part_with(pl_store *store, const char *name)
{
    int part = pl_store_part_of(store, name);
    return store->parts[part < 0 ? 0 : part];
}

pl_status parts_get_version(pl_store *store, const char *module, uint64_t number,
                            pl_version *out)
{
    return pl_store_get_version(part_with(store, module), module, number, out);
}

pl_status parts_head(pl_store *store, const char *module, pl_version *out)
{
    return pl_store_head(part_with(store, module), module, out);
}

pl_status parts_get_path(pl_store *store, const char *name, pl_path_state *out)
{
    return pl_store_get_path(part_with(store, name), name, out);
}

pl_status parts_get_object(pl_store *store, const char *name, pl_object *out)
{
    return pl_store_get_object(part_with(store, name), name, out);
}

pl_status parts_get_ref(pl_store *store, const char *name, pl_buf *target)
{
    pl_status status = PL_ERR_NOT_FOUND;
    for (int i = 0; i < store->n_parts && status == PL_ERR_NOT_FOUND; i++)
        status = pl_store_get_ref(store->parts[i], name, target);
    return status;
}

pl_status parts_each_version(pl_store *s, const char *module, pl_version_fn fn,
                             void *context)
{
    return pl_store_each_version(part_with(s, module), module, fn, context);
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

pl_status parts_each_pending(pl_store *s, const char *prefix, pl_pending_fn fn,
                             void *context)
{
    for (int i = 0; i < s->n_parts; i++)
        PL_CHECK(pl_store_each_pending(s->parts[i], prefix, fn, context));
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

/* Reports modules that are in several parts. */
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
        if (strcmp(l.places[i - 1].name, l.places[i].name) != 0)
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
