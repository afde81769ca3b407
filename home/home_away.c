/* Removes the last home of a stopped job (docs/PROTOCOL.md 2.14).
 *
 * The last home has weight 0 in the table of homes and owns no name. The other homes
 * get the records that only the last home has: notes that redirect clients to the owner
 * of a name, audits, and the hub's epoch. If the process is killed, the job still has
 * the last home, and the next call continues. */
#include "outer/outer.h"
#include "home/home_internal.h"
#include "net/net.h"

#include <stdlib.h>

typedef struct leaving {
    pl_writers *writers;
    pl_store *store; /* store of the home that is removed */
    /* home: number of the home that is removed, from 0; n: number of homes that stay */
    int home, n;
    int part; /* number of the home whose store is being written */
    pl_txn *txn;
    /* names for which home `part` has notes that redirect clients to home `home` */
    char (*names)[PL_MODULE_NAME_MAX];
    size_t n_names;
    char first[PL_MODULE_NAME_MAX]; /* a name that this home still owns */
    int n_owned;
    uint64_t hub_epoch;
} leaving;

/* ---- checks before the removal ---- */
static pl_status count_owned(void *context, const char *name)
{
    leaving *l = context;
    if (pl_starts_with(name, "arm/") || pl_starts_with(name, PL_AUDIT_REFS) ||
        pl_store_part_of(pl_writers_view(l->writers), name) != l->home)
        return PL_OK;
    if (l->n_owned++ == 0)
        pl_copy_text(l->first, sizeof l->first, name);
    return PL_OK;
}

static pl_status find_open_audit(void *context, const char *name, const char *target)
{
    pl_audit a;
    const leaving *l = context;
    if (pl_audit_read(target, &a) != PL_OK)
        return pl_fail(PL_ERR_DAMAGED,
                       "ref %s is damaged: it does not describe an audit of this store",
                       name);
    if (a.verdict != PL_VERDICT_OPEN)
        return PL_OK;
    return pl_fail(PL_ERR_BUSY,
                   "home %d still has the open audit %s; let the job train until "
                   "`pathloom audit` shows that the audit is closed",
                   l->home + 1, name + strlen(PL_AUDIT_REFS));
}

static pl_status check_owned(leaving *l)
{
    PL_CHECK(pl_store_each_name(l->store, count_owned, l));
    if (l->n_owned == 0)
        return pl_store_each_ref(l->store, PL_AUDIT_REFS, find_open_audit, l);
    return pl_fail(PL_ERR_BUSY,
                   "home %d still owns %d names, for example %s; run `pathloom homes "
                   "drain %d` first",
                   l->home + 1, l->n_owned, l->first, l->home + 1);
}

static pl_status check_tables(const leaving *l, pl_places *table)
{
    pl_places next;
    pl_store *first = pl_writers_part(l->writers, 0);
    PL_CHECK(pl_places_of_store(first, false, table));
    PL_CHECK(pl_places_of_store(first, true, &next));
    if (table->n == l->n && next.epoch == table->epoch)
        return PL_OK; /* an earlier call was killed after its last commit */
    if (table->n == l->home + 1 && table->weights[l->home] == 0 &&
        next.epoch == table->epoch)
        return PL_OK;
    return pl_fail(PL_ERR_BUSY,
                   "home %d is not drained, or an earlier change of homes was not "
                   "finished; run `pathloom homes drain %d` first",
                   l->home + 1, l->home + 1);
}

/* ---- notes about names ---- */
static pl_status gather_note(void *context, const char *name, const char *target)
{
    leaving *l = context;
    int64_t number = -1;
    char copy[48];
    pl_copy_text(copy, sizeof copy, target);
    char *blank = strchr(copy, ' ');
    if (blank)
        *blank = '\0';
    if (pl_parse_int(copy, &number) != PL_OK || number != l->home)
        return PL_OK;
    l->names = pl_grow(l->names, (l->n_names + 1) * sizeof *l->names);
    pl_copy_text(l->names[l->n_names++], sizeof *l->names, name + strlen(PLACE_REFS));
    return PL_OK;
}

static uint64_t stamp_in(pl_store *store, const char *ref)
{
    pl_buf target = {0};
    int64_t stamp = 0;
    if (pl_store_get_ref(store, ref, &target) == PL_OK) {
        const char *blank = strchr(pl_buf_text(&target), ' ');
        if (!blank || pl_parse_int(blank + 1, &stamp) != PL_OK)
            stamp = 0;
    }
    pl_buf_destroy(&target);
    return (uint64_t)stamp;
}

/* Corrects the note about a name in the home that is being written. The new note gets
 * the highest stamp that any home's note about this name has. If no home has the name,
 * the note is dropped, and the table decides where the name belongs. */
static pl_status mend_note(const leaving *l, const char *name)
{
    char ref[PL_MODULE_NAME_MAX + 8], target[48];
    uint64_t newest = 0;
    int owner = pl_store_part_of(pl_writers_view(l->writers), name);
    snprintf(ref, sizeof ref, PLACE_REFS "%s", name);
    if (owner < 0 || owner == l->home)
        return pl_txn_drop_ref(l->txn, ref);
    for (int i = 0; i <= l->home; i++) {
        uint64_t stamp = stamp_in(pl_writers_part(l->writers, i), ref);
        newest = stamp > newest ? stamp : newest;
    }
    snprintf(target, sizeof target, "%d %llu", owner, (unsigned long long)newest);
    return pl_txn_put_ref(l->txn, ref, target);
}

/* ---- records that move to the first home ---- */
static bool is_its_own(const char *name)
{
    return pl_starts_with(name, "sys/") || pl_starts_with(name, PLACE_REFS) ||
           pl_starts_with(name, MEET_REFS);
}

static pl_status keep_ref(void *context, const char *name, const char *target)
{
    leaving *l = context;
    pl_buf there = {0};
    if (strcmp(name, "sys/hub-epoch") == 0)
        l->hub_epoch = strtoull(target, NULL, 10);
    if (is_its_own(name))
        return PL_OK;
    pl_status status = pl_store_get_ref(pl_writers_part(l->writers, 0), name, &there);
    pl_buf_destroy(&there);
    if (status != PL_ERR_NOT_FOUND)
        return status;
    return pl_txn_put_ref(l->txn, name, target);
}

/* Keeps the hub's epoch in the first home. The epoch must not decrease, because the
 * tokens of leases must increase when the hub restarts. */
static pl_status keep_hub_epoch(const leaving *l)
{
    char text[32];
    pl_buf own = {0};
    pl_status status =
        pl_store_get_ref(pl_writers_part(l->writers, 0), "sys/hub-epoch", &own);
    uint64_t epoch = status == PL_OK ? strtoull(pl_buf_text(&own), NULL, 10) : 0;
    pl_buf_destroy(&own);
    if (status != PL_OK && status != PL_ERR_NOT_FOUND)
        return status;
    if (epoch >= l->hub_epoch)
        return PL_OK;
    snprintf(text, sizeof text, "%llu", (unsigned long long)l->hub_epoch);
    return pl_txn_put_ref(l->txn, "sys/hub-epoch", text);
}

/* Writes all changes to the store of one home, in one commit. */
static pl_status write_home(leaving *l, const pl_places *table)
{
    pl_status status = PL_OK;
    PL_TRY(pl_txn_begin(pl_writers_part(l->writers, l->part), &l->txn));
    l->n_names = 0;
    PL_TRY(pl_store_each_ref(pl_writers_part(l->writers, l->part), PLACE_REFS,
                             gather_note, l));
    for (size_t i = 0; i < l->n_names; i++)
        PL_TRY(mend_note(l, l->names[i]));
    if (l->part == 0) {
        PL_TRY(pl_store_each_ref(l->store, "", keep_ref, l));
        PL_TRY(keep_hub_epoch(l));
    }
    char text[PL_PLACES_TEXT], target[PL_PLACES_TEXT + 16];
    pl_places_format(table, text);
    snprintf(target, sizeof target, "%d %s", l->part, text);
    PL_TRY(pl_txn_put_ref(l->txn, PLACES_NEXT_REF, target));
    PL_TRY(pl_txn_put_ref(l->txn, PLACES_REF, target));
    PL_TRY(pl_txn_commit(&l->txn));
done:
    pl_txn_abort(&l->txn);
    return status;
}

static pl_status check_last_home(const leaving *l)
{
    int n = pl_writers_count(l->writers);
    if (l->home + 1 != n)
        return pl_fail(
            PL_ERR_USAGE,
            "homes are numbered without gaps, so only the last one, home %d, can be "
            "removed; home %d can stay as an empty (drained) home",
            n, l->home + 1);
    if (n < 3)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "a store in parts needs at least two homes; let the second stay "
                       "empty (drained), or copy everything to a store in one piece "
                       "with `pathloom store push`");
    return PL_OK;
}

pl_status pl_homes_leave(pl_writers *writers, int last)
{
    leaving l = {.writers = writers, .home = last, .n = last};
    pl_places table;
    pl_status status = PL_OK;
    PL_CHECK(check_last_home(&l));
    l.store = pl_writers_part(writers, last);
    PL_TRY(check_tables(&l, &table));
    PL_TRY(check_owned(&l));
    table.n = l.n;
    table.epoch++;
    for (l.part = l.n - 1; l.part >= 0; l.part--)
        PL_TRY(write_home(&l, &table));
done:
    pl_free(l.names);
    return status;
}
