/* pathloom store ls, log, show, stat. */
#include "cli/store_call.h"
#include "cli/store_names.h"
#include "cli/store_print.h"

typedef struct look {
    pl_store *store;
    bool json;
    int width; /* of the column of names */
} look;

static look look_of(const store_call *call)
{
    return (look){call->store, call->json, 0};
}

/* ---- ls: the first pass measures the names, the second prints ---- */
static void widen(look *q, const char *name)
{
    if ((int)strlen(name) > q->width)
        q->width = (int)strlen(name);
}

static pl_status measure_head(void *context, const pl_version *v)
{
    widen(context, v->module);
    return PL_OK;
}

static pl_status measure_path(void *context, const pl_path_state *p)
{
    widen(context, p->name);
    return PL_OK;
}

static pl_status measure_object(void *context, const pl_object *o)
{
    widen(context, o->name);
    return PL_OK;
}

static pl_status measure_ref(void *context, const char *name, const char *target)
{
    (void)target;
    widen(context, name);
    return PL_OK;
}

static pl_status show_head(void *context, const pl_version *v)
{
    look *q = context;
    uint64_t bytes;
    PL_RETURN_IF(pl_store_blob_bytes(q->store, &v->params, &bytes));
    if (q->json)
        print_head_json(v, bytes);
    else
        print_head(v, bytes, q->width);
    return PL_OK;
}

static pl_status show_path(void *context, const pl_path_state *p)
{
    const look *q = context;
    if (q->json)
        print_path_json(p);
    else
        print_path(p, q->width);
    return PL_OK;
}

static pl_status show_object(void *context, const pl_object *o)
{
    const look *q = context;
    if (q->json)
        print_object_json(o);
    else
        print_object(o, q->width);
    return PL_OK;
}

static pl_status show_ref(void *context, const char *name, const char *target)
{
    const look *q = context;
    if (q->json)
        print_ref_json(name, target);
    else
        print_ref(name, target, q->width);
    return PL_OK;
}

static pl_status measure_tag(void *context, const pl_snapshot *tag)
{
    widen(context, tag->name);
    return PL_OK;
}

static pl_status show_tag(void *context, const pl_snapshot *tag)
{
    const look *q = context;
    if (q->json)
        print_tag_json(tag);
    else
        print_tag(tag, q->width);
    return PL_OK;
}

pl_status look_at_tags(store_call *call)
{
    look q = look_of(call);
    PL_RETURN_IF(pl_store_each_tag(q.store, measure_tag, &q));
    return pl_store_each_tag(q.store, show_tag, &q);
}

pl_status store_ls(store_call *call)
{
    look q = look_of(call);
    const char *prefix = call->words[0] ? call->words[0] : "";
    if (call->values[STORE_OPT_TAGS])
        return look_at_tags(call);
    if (call->values[STORE_OPT_REFS]) {
        PL_RETURN_IF(pl_store_each_ref(q.store, prefix, measure_ref, &q));
        return pl_store_each_ref(q.store, prefix, show_ref, &q);
    }
    if (call->values[STORE_OPT_OBJECTS]) {
        PL_RETURN_IF(pl_store_each_object(q.store, prefix, measure_object, &q));
        return pl_store_each_object(q.store, prefix, show_object, &q);
    }
    if (call->values[STORE_OPT_PATHS]) {
        PL_RETURN_IF(pl_store_each_path(q.store, prefix, measure_path, &q));
        return pl_store_each_path(q.store, prefix, show_path, &q);
    }
    PL_RETURN_IF(pl_store_each_head(q.store, prefix, measure_head, &q));
    return pl_store_each_head(q.store, prefix, show_head, &q);
}

/* ---- log, show, stat ---- */
/* Of a blob that may have been collected. */
static pl_status bytes_of(look *q, const pl_hash *blob, uint64_t *bytes)
{
    *bytes = 0;
    if (pl_hash_none(blob) || !pl_store_has_blob(q->store, blob))
        return PL_OK;
    return pl_store_blob_bytes(q->store, blob, bytes);
}

static pl_status show_version(look *q, const pl_version *v, bool full)
{
    uint64_t bytes, momentum_bytes;
    PL_RETURN_IF(bytes_of(q, &v->params, &bytes));
    PL_RETURN_IF(bytes_of(q, &v->momentum, &momentum_bytes));
    if (q->json)
        print_version_json(v, bytes, momentum_bytes);
    else if (full)
        print_version_full(v, bytes, momentum_bytes);
    else
        print_version(v);
    return PL_OK;
}

static pl_status show_tag_items(const look *q, const char *name)
{
    pl_snapshot tag;
    PL_RETURN_IF(pl_store_get_tag(q->store, name, &tag));
    if (q->json)
        print_tag_json(&tag);
    else
        print_tag_full(&tag);
    pl_snapshot_clear(&tag);
    return PL_OK;
}

/* A module's version, or else a tag; an arm cannot be shown, so that a tag of its name
 * can. */
pl_status store_show(store_call *call)
{
    pl_version v;
    module_at at;
    bool versioned;
    name_kind kind;
    look q = look_of(call);
    PL_RETURN_IF(names_kind(q.store, call->words[0], &kind));
    if (kind == NAME_MODULE)
        names_warn_of_tag(q.store, call->words[0], kind);
    pl_status status =
        kind == NAME_MODULE ? PL_ERR_NOT_FOUND : show_tag_items(&q, call->words[0]);
    if (status != PL_ERR_NOT_FOUND)
        return status;
    PL_RETURN_IF(names_module(q.store, call->words[0], &at, &versioned));
    PL_RETURN_IF(pl_store_get_version(q.store, at.module, at.number, &v));
    status = show_version(&q, &v, true);
    pl_version_clear(&v);
    return status;
}

/* Newest first; from @VERSION downwards if one was named. */
pl_status store_log(store_call *call)
{
    pl_version v;
    module_at at;
    bool versioned;
    look q = look_of(call);
    PL_RETURN_IF(names_module(q.store, call->words[0], &at, &versioned));
    for (;; at.number--) {
        PL_RETURN_IF(pl_store_get_version(q.store, at.module, at.number, &v));
        pl_status status = show_version(&q, &v, false);
        pl_version_clear(&v);
        if (status != PL_OK || at.number == 0)
            return status;
    }
}

pl_status store_stat(store_call *call)
{
    pl_store_stats stats;
    PL_RETURN_IF(pl_store_count(call->store, &stats));
    if (call->json)
        print_stats_json(call->store, &stats);
    else
        print_stats(call->store, &stats);
    return PL_OK;
}
