/* Encodes, decodes and reads tags. A tag is a record that is stored as an object.
 *
 * Any client may have written such an object, so its bytes are not trusted. `store
 * fsck` checks whether the versions that a tag names exist. */
#include "store/store_internal.h"
#include <stdio.h>
#include <string.h>

enum { TAG_BYTES_MAX = 64 << 20 };
static const char PREFIX[] = "tag/";

void pl_snapshot_clear(pl_snapshot *tag)
{
    pl_free(tag->items);
    memset(tag, 0, sizeof *tag);
}

static const pl_field item_fields[] = {
    PL_FIELD(pl_snapshot_item, 1, module), PL_FIELD(pl_snapshot_item, 2, number),
    PL_FIELD(pl_snapshot_item, 3, params), PL_FIELDS_END};
static const pl_field tag_fields[] = {
    PL_FIELD(pl_snapshot, 1, arm),
    PL_FIELD(pl_snapshot, 2, phase),
    PL_FIELD(pl_snapshot, 3, sequence),
    PL_FIELD(pl_snapshot, 4, wall_ms),
    PL_FIELD(pl_snapshot, 5, note),
    PL_FIELD_LIST(pl_snapshot, 6, items, n_items, item_fields),
    PL_FIELDS_END};

void pl_snapshot_encode(const pl_snapshot *tag, pl_buf *out)
{
    pl_put_fields(out, tag_fields, tag);
}

pl_status pl_snapshot_decode(const char *name, const void *data, size_t len,
                             pl_snapshot *out)
{
    pl_reader r;
    memset(out, 0, sizeof *out);
    pl_copy_text(out->name, sizeof out->name, name);
    pl_reader_open(&r, "a tag", data, len);
    pl_get_fields(&r, tag_fields, out);
    if (pl_reader_status(&r) == PL_OK)
        return PL_OK;
    pl_snapshot_clear(out);
    return pl_fail_in(PL_ERR_DAMAGED, "tag %s cannot be read", name);
}

pl_status pl_snapshot_collected(const pl_snapshot *tag, const pl_snapshot_item *item)
{
    return pl_fail(PL_ERR_NOT_FOUND,
                   "garbage collection removed the data of %s@%llu, which tag %s names",
                   item->module, (unsigned long long)item->number, tag->name);
}

pl_status pl_snapshot_check(pl_store *store, const pl_snapshot *tag)
{
    for (size_t i = 0; i < tag->n_items; i++) {
        const pl_snapshot_item *item = &tag->items[i];
        pl_version v;
        if (pl_store_get_version(store, item->module, item->number, &v) != PL_OK)
            continue;
        const bool gone = v.params_gone;
        pl_version_clear(&v);
        if (gone)
            return pl_snapshot_collected(tag, item);
    }
    return PL_OK;
}

static pl_status read_tag(pl_store *store, const pl_object *object, pl_snapshot *out)
{
    const char *name = object->name + strlen(PREFIX);
    pl_buf bytes = {0};
    memset(out, 0, sizeof *out);
    if (object->bytes > TAG_BYTES_MAX)
        return pl_fail(PL_ERR_DAMAGED,
                       "tag %s cannot be read: it has %llu bytes, which is too large",
                       name, (unsigned long long)object->bytes);
    pl_buf_reserve(&bytes, (size_t)object->bytes + 1);
    pl_status status =
        pl_store_read_blob(store, &object->blob, 0, (size_t)object->bytes, bytes.data);
    if (status == PL_OK)
        status = pl_snapshot_decode(name, bytes.data, (size_t)object->bytes, out);
    else
        status = pl_fail_in(PL_ERR_DAMAGED, "tag %s cannot be read", name);
    pl_buf_destroy(&bytes);
    return status;
}

const pl_snapshot_item *pl_snapshot_find(const pl_snapshot *tag, const char *module)
{
    for (size_t i = 0; i < tag->n_items; i++)
        if (strcmp(tag->items[i].module, module) == 0)
            return &tag->items[i];
    return NULL;
}

const pl_snapshot_item *pl_snapshot_place(const pl_snapshot *tag, const char *module)
{
    const char *slash = strchr(module, '/');
    const pl_snapshot_item *item = pl_snapshot_find(tag, module);
    if (!slash || strlen(tag->arm) != (size_t)(slash - module) ||
        strncmp(tag->arm, module, strlen(tag->arm)) != 0)
        return item;
    for (size_t i = 0; !item && i < tag->n_items; i++) {
        const char *other = strchr(tag->items[i].module, '/');
        if (other && strcmp(other, slash) == 0)
            item = &tag->items[i];
    }
    return item;
}

pl_status pl_store_get_tag(pl_store *store, const char *name, pl_snapshot *out)
{
    char full[PL_MODULE_NAME_MAX];
    pl_object object = {.bytes = 0};
    memset(out, 0, sizeof *out);
    int used = snprintf(full, sizeof full, "%s%s", PREFIX, name);
    if (used > 0 && (size_t)used < sizeof full) {
        pl_status status = pl_store_get_object(store, full, &object);
        if (status != PL_OK && status != PL_ERR_NOT_FOUND)
            return status;
    }
    if (object.bytes == 0)
        return pl_fail(PL_ERR_NOT_FOUND, "there is no tag %s in the store", name);
    return read_tag(store, &object, out);
}

typedef struct tag_walk {
    pl_store *store;
    pl_snapshot_fn fn;
    void *context;
} tag_walk;

static pl_status visit_tag_object(void *context, const pl_object *object)
{
    const tag_walk *walk = context;
    pl_snapshot tag;
    if (object->bytes == 0)
        return PL_OK;
    PL_CHECK(read_tag(walk->store, object, &tag));
    pl_status status = walk->fn(walk->context, &tag);
    pl_snapshot_clear(&tag);
    return status;
}

pl_status pl_store_each_tag(pl_store *store, pl_snapshot_fn fn, void *ctx)
{
    tag_walk walk = {store, fn, ctx};
    return pl_store_each_object(store, PREFIX, visit_tag_object, &walk);
}
