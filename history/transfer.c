/* Copies the versions that another store lacks into that store (transfer.h). */
#include "history/transfer.h"
#include <stdio.h>
#include <string.h>

pl_status pl_transfer_blob(pl_transfer *t, const pl_hash *blob)
{
    void *data = NULL;
    uint64_t bytes = 0;
    pl_hash got;
    pl_status status = PL_OK;
    if (pl_hash_none(blob) || pl_store_has_blob(t->to, blob))
        return PL_OK;
    PL_CHECK(pl_store_blob_bytes(t->from, blob, &bytes));
    PL_CHECK(pl_try_alloc((size_t)bytes + 1, "a blob", &data));
    PL_TRY(pl_store_read_blob(t->from, blob, 0, (size_t)bytes, data));
    PL_TRY(pl_txn_put_blob(t->txn, data, bytes, &got));
    t->bytes += bytes;
done:
    pl_free(data);
    return status;
}

static pl_status bring_version(pl_transfer *t, const char *module, uint64_t number,
                               bool *gone)
{
    pl_version v;
    pl_keep keep = {.updates = false, .momentum = true};
    pl_status status = PL_OK;
    PL_CHECK(pl_store_get_version(t->from, module, number, &v));
    *gone = v.params_gone;
    if (!t->txn)
        PL_TRY(pl_txn_begin(t->to, &t->txn));
    if (!v.params_gone)
        PL_TRY(pl_transfer_blob(t, &v.params));
    PL_TRY(pl_transfer_blob(t, &v.momentum));
    keep.updates = t->updates && v.has_updates && !v.params_gone;
    for (int i = 0; keep.updates && i < v.n_contributions; i++) {
        /* the copies become pending updates, which the next version takes over */
        PL_TRY(pl_transfer_blob(t, &v.contributions[i].update));
        PL_TRY(pl_txn_put_pending(t->txn, v.module, &v.contributions[i]));
    }
    v.change = (pl_hash){{0}};
    PL_TRY(pl_txn_put_version(t->txn, &v, keep));
    t->n_versions++;
done:
    pl_version_clear(&v);
    return status;
}

/* Checks that the source has the target's newest version, too, then copies the versions
 * that the target lacks. Makes one commit per version. One without parameters is
 * committed together with the next that has some, because the newest version of a
 * module must have parameters. */
static pl_status bring_head(void *context, const pl_version *head)
{
    pl_transfer *t = context;
    const char *module = head->module;
    pl_version theirs, ours = {0};
    uint64_t next = 0;
    pl_status status = pl_store_head(t->to, module, &theirs);
    if (status == PL_OK) {
        next = theirs.number + 1;
        if (theirs.number > head->number)
            status = pl_fail(PL_ERR_STALE,
                             "%s has version %llu in the target and only version %llu "
                             "in the source: copy in the opposite direction",
                             module, (unsigned long long)theirs.number,
                             (unsigned long long)head->number);
        else
            status = pl_store_get_version(t->from, module, theirs.number, &ours);
        if (status == PL_OK && !pl_hash_equal(&ours.params, &theirs.params))
            status = pl_fail(PL_ERR_STALE,
                             "%s@%llu differs between source and target: the two "
                             "stores were trained separately, so they cannot be "
                             "combined",
                             module, (unsigned long long)theirs.number);
        pl_version_clear(&theirs);
        pl_version_clear(&ours);
        PL_CHECK(status);
    } else if (status != PL_ERR_NOT_FOUND)
        return status;
    t->n_modules += next <= head->number;
    for (uint64_t n = next; n <= head->number; n++) {
        bool gone = false;
        PL_CHECK(bring_version(t, module, n, &gone));
        if (!gone)
            PL_CHECK(pl_txn_commit(&t->txn));
    }
    return PL_OK;
}

static pl_status bring_object(pl_transfer *t, const pl_object *object)
{
    pl_object old;
    pl_status status = pl_store_get_object(t->to, object->name, &old);
    if (status == PL_OK && pl_hash_equal(&old.blob, &object->blob))
        return PL_OK;
    if (status != PL_OK && status != PL_ERR_NOT_FOUND)
        return status;
    PL_CHECK(pl_txn_begin(t->to, &t->txn));
    PL_CHECK(pl_transfer_blob(t, &object->blob));
    PL_CHECK(pl_txn_put_object(t->txn, object->name, &object->blob));
    return pl_txn_commit(&t->txn);
}

typedef struct object_walk {
    pl_transfer *t;
    const char *arm;
} object_walk;

static pl_status bring_arm_object(void *context, const pl_object *object)
{
    static const char *const kinds[] = {"arm/", "router/"};
    const object_walk *walk = context;
    for (int i = 0; i < 2; i++)
        if (pl_starts_with(object->name, kinds[i]))
            return !*walk->arm ||
                           strcmp(object->name + strlen(kinds[i]), walk->arm) == 0
                       ? bring_object(walk->t, object)
                       : PL_OK;
    return PL_OK;
}

static pl_status visit_tag(void *context, const pl_snapshot *tag)
{
    const object_walk *walk = context;
    pl_transfer *t = walk->t;
    char name[PL_MODULE_NAME_MAX + 8];
    pl_object object;
    if (*walk->arm && strcmp(tag->arm, walk->arm) != 0)
        return PL_OK;
    /* A tag is copied only if the target has all its versions. */
    for (size_t i = 0; i < tag->n_items; i++) {
        const pl_snapshot_item *item = &tag->items[i];
        pl_version v;
        pl_status status = pl_store_get_version(t->to, item->module, item->number, &v);
        pl_version_clear(&v);
        if (status != PL_OK)
            return status == PL_ERR_NOT_FOUND ? PL_OK : status;
    }
    snprintf(name, sizeof name, "tag/%s", tag->name);
    PL_CHECK(pl_store_get_object(t->from, name, &object));
    return bring_object(t, &object);
}

pl_status pl_transfer_module(pl_transfer *t, const char *module, uint64_t number)
{
    pl_version v;
    PL_CHECK(pl_store_get_version(t->from, module, number, &v));
    pl_status status = bring_head(t, &v);
    pl_version_clear(&v);
    return status;
}

pl_status pl_transfer_modules(pl_transfer *t)
{
    return pl_store_each_head(t->from, "", bring_head, t);
}

pl_status pl_transfer_objects(pl_transfer *t, const char *arm)
{
    object_walk walk = {t, arm};
    PL_CHECK(pl_store_each_object(t->from, "", bring_arm_object, &walk));
    return pl_store_each_tag(t->from, visit_tag, &walk);
}
