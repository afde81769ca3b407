/* Copies the store of a stopped job for another number of homes (divide.h): for each
 * home of the copy, the names that belong to it are copied from the homes of the old
 * store, row by row. */
#include "history/divide.h"
#include "history/transfer.h"
#include "outer/outer.h"
#include <stdlib.h>

enum { TXN_BYTES = 64 << 20, TXN_ROWS = 1000 };

typedef struct dividing {
    pl_store *from[PL_PARTS_MAX];        /* the old homes */
    uint64_t covered_from[PL_PARTS_MAX]; /* of each (pl_audit_report) */
    int n_from, source;                  /* source: the old home that is read */
    pl_transfer t;                       /* copies into the new home */
    int n, home; /* number of new homes, and the one that is written */
    const char *name;
    uint64_t n_rows, committed; /* rows in this transaction; bytes before it */
    uint64_t hub_epoch;
    pl_buf unrecorded; /* pl_rollback_module: rollbacks of an older release, in this
                          home */
    pl_divide_report *report;
} dividing;

/* Returns whether every home has records with this name. */
static bool is_everywhere(const char *name)
{
    return pl_starts_with(name, "arm/") || pl_starts_with(name, PL_FENCED_REFS) ||
           pl_starts_with(name, PL_DROPPED_REFS);
}

/* Returns whether a name, or a ref, belongs to the home that is written. What is called
 * KIND/PATH/PHASE is with its path: an audit (its ref, and an object with the same name
 * while it is open) and a kept state. */
static bool belongs_here(const dividing *d, const char *name)
{
    char path[PL_MODULE_NAME_MAX];
    if (is_everywhere(name))
        return true;
    if (!pl_starts_with(name, PL_AUDIT_REFS) && !pl_starts_with(name, PL_KEPT_STATES))
        return pl_home_of(name, d->n) == d->home;
    pl_copy_text(path, sizeof path, strchr(name, '/') + 1);
    char *phase = strrchr(path, '/');
    if (phase)
        *phase = '\0';
    return pl_home_of(path, d->n) == d->home;
}

/* Returns the old home that owns the name, which the source has. Of what every home
 * has, it is the first home that has the name. An earlier release, which moved names,
 * left notes at/NAME in several homes: the note with the highest stamp says "J STAMP"
 * if home J (from 0) owns the name, or "here STAMP". Without notes the home that has
 * the name owns it. */
static int owner_of(const dividing *d, const char *name)
{
    char ref[PL_MODULE_NAME_MAX + 8];
    int owner = d->source;
    int64_t newest = -1;
    for (int i = 0; is_everywhere(name) && i < d->source; i++)
        if (pl_store_has_name(d->from[i], name))
            return i;
    snprintf(ref, sizeof ref, "at/%s", name);
    for (int i = 0; i < d->n_from; i++) {
        pl_buf target = {0};
        char whose[24];
        long long stamp = 0;
        if (pl_store_get_ref(d->from[i], ref, &target) == PL_OK &&
            sscanf(pl_buf_text(&target), "%23s %lld", whose, &stamp) == 2 &&
            stamp > newest) {
            owner = strcmp(whose, "here") == 0 ? i : atoi(whose);
            newest = stamp;
        }
        pl_buf_destroy(&target);
    }
    return owner;
}

static pl_status begin_rows(dividing *d)
{
    return d->t.txn ? PL_OK : pl_txn_begin(d->t.to, &d->t.txn);
}

static pl_status commit_rows(dividing *d)
{
    d->n_rows = 0;
    d->committed = d->t.bytes;
    return d->t.txn ? pl_txn_commit(&d->t.txn) : PL_OK;
}

static pl_status copy_blob(void *context, const pl_hash *blob)
{
    dividing *d = context;
    d->t.from = d->from[d->source];
    return pl_transfer_blob(&d->t, blob);
}

static pl_status copy_row(void *context, const pl_row *row)
{
    dividing *d = context;
    PL_CHECK(begin_rows(d));
    PL_CHECK(pl_row_each_blob(row, copy_blob, d));
    PL_CHECK(pl_txn_put_row(d->t.txn, d->name, row));
    d->n_rows++;
    d->report->n_rows++;
    return d->n_rows >= TXN_ROWS || d->t.bytes - d->committed >= TXN_BYTES
               ? commit_rows(d)
               : PL_OK;
}

/* Notes a version that was made by a rollback of an older release, which wrote no
 * record. The copy gets one, because its commits cannot show how old the version is.
 * Where the old home's commits show that this release wrote the version, the version is
 * false, and gets none. */
static pl_status note_rollback(void *context, const pl_version *v)
{
    dividing *d = context;
    pl_rollback_module m = {.head = v->number - 1, .last = v->number};
    const uint64_t covered_from = d->covered_from[d->source];
    pl_rollback_proof proof = PL_ROLLBACK_UNKNOWN;
    if (!pl_version_source(v, &m.source) ||
        (covered_from > 0 && v->sequence >= covered_from))
        return PL_OK;
    for (int i = 0; i < d->n_from && proof == PL_ROLLBACK_UNKNOWN; i++)
        PL_CHECK(pl_store_find_rollback(d->from[i], v, &proof));
    pl_copy_text(m.name, sizeof m.name, v->module);
    if (proof == PL_ROLLBACK_UNKNOWN)
        pl_buf_append(&d->unrecorded, &m, sizeof m);
    return PL_OK;
}

static pl_status copy_name(void *context, const char *name)
{
    dividing *d = context;
    char meetings[2 * PL_MODULE_NAME_MAX];
    if (pl_starts_with(name, "sys/") || !belongs_here(d, name))
        return PL_OK;
    const int owner = owner_of(d, name);
    /* without this check a name whose note is wrong would be lost with the old store */
    if (owner < 0 || owner >= d->n_from || !pl_store_has_name(d->from[owner], name))
        return pl_fail(
            PL_ERR_DAMAGED,
            "home-%d has %s, but by the newest of the records at/%s it belongs to "
            "home-%d, which does not have it; let the release that moved it finish the "
            "move (`pathloom train`), then give this command again",
            d->source + 1, name, name, owner + 1);
    if (owner != d->source)
        return PL_OK;
    d->name = name;
    d->report->n_names++;
    snprintf(meetings, sizeof meetings, PL_MEET_REFS "%s/", name);
    PL_CHECK(pl_store_each_row(d->from[d->source], name, meetings, copy_row, d));
    return pl_store_each_version(d->from[d->source], name, note_rollback, d);
}

static pl_status copy_ref(void *context, const char *name, const char *target)
{
    dividing *d = context;
    if (strcmp(name, "sys/hub-epoch") == 0) {
        const uint64_t epoch = strtoull(target, NULL, 10);
        d->hub_epoch = epoch > d->hub_epoch ? epoch : d->hub_epoch;
    }
    /* meetings were copied with their modules */
    if (pl_starts_with(name, "at/") || pl_starts_with(name, PL_MEET_REFS) ||
        pl_starts_with(name, "sys/") || !belongs_here(d, name))
        return PL_OK;
    PL_CHECK(begin_rows(d));
    return pl_txn_put_ref(d->t.txn, name, target);
}

/* Fills one home of the copy. The hub's epoch must not fall, because the tokens of
 * leases must rise when the hub restarts. */
static pl_status fill_home(dividing *d, const char *folder)
{
    char epoch[32], home[16];
    pl_status status = PL_OK;
    d->hub_epoch = 0;
    pl_buf_clear(&d->unrecorded);
    PL_TRY(pl_store_open(folder, PL_STORE_CREATE, &d->t.to));
    for (d->source = 0; d->source < d->n_from; d->source++) {
        PL_TRY(pl_store_each_name(d->from[d->source], copy_name, d));
        PL_TRY(pl_store_each_ref(d->from[d->source], "", copy_ref, d));
    }
    PL_TRY(begin_rows(d));
    if (d->hub_epoch > 0) {
        snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)d->hub_epoch);
        PL_TRY(pl_txn_put_ref(d->t.txn, "sys/hub-epoch", epoch));
    }
    if (d->unrecorded.len > 0) {
        snprintf(home, sizeof home, "%d", d->home + 1);
        PL_TRY(pl_txn_put_rollbacks(
            d->t.txn, home,
            (const pl_rollback_module *)(const void *)d->unrecorded.data,
            d->unrecorded.len / sizeof(pl_rollback_module)));
    }
    PL_TRY(commit_rows(d));
done:
    pl_txn_abort(&d->t.txn);
    pl_store_close(&d->t.to);
    return status;
}

pl_status pl_store_divide(const char *from, const char *to, int n,
                          pl_divide_report *report)
{
    char folder[PL_PATH_MAX];
    int n_old = 0;
    dividing d = {.n = n, .report = report};
    pl_status status = PL_OK;
    memset(report, 0, sizeof *report);
    PL_CHECK(pl_store_homes(from, &n_old));
    while (d.n_from < n_old) {
        pl_audit_report audit;
        const int i = d.n_from;
        PL_TRY(pl_store_open(pl_store_home(from, i, n_old, folder), PL_STORE_READ,
                             &d.from[i]));
        d.n_from++;
        PL_TRY(pl_store_audit(d.from[i], false, NULL, NULL, &audit));
        d.covered_from[i] = audit.covered_from;
    }
    if (n > 1)
        PL_TRY(pl_store_make_parts(to, n));
    for (; d.home < n; d.home++)
        PL_TRY(fill_home(&d, pl_store_home(to, d.home, n, folder)));
done:
    report->bytes = d.t.bytes;
    pl_buf_destroy(&d.unrecorded);
    for (int i = 0; i < d.n_from; i++)
        pl_store_close(&d.from[i]);
    return status;
}
