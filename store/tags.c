/* Tags: each is a record in an object.
 *
 * The bytes of an object come from any client, so decoding does not trust them. Whether
 * the versions that a tag names exist is for fsck to check. */
#include "store/store_internal.h"
#include <stdio.h>
#include <string.h>

enum { TAG_ARM = 1, TAG_PHASE, TAG_SEQUENCE, TAG_WALL_MS, TAG_NOTE, TAG_ITEM };
enum { ITEM_MODULE = 1, ITEM_NUMBER, ITEM_PARAMS };
enum { TAG_BYTES_MAX = 64 << 20 };
static const char PREFIX[] = "tag/";

void pl_snapshot_clear(pl_snapshot *tag)
{
    pl_free(tag->items);
    memset(tag, 0, sizeof *tag);
}

void pl_snapshot_encode(const pl_snapshot *tag, pl_buf *out)
{
    pl_buf item = {0};
    pl_put_text(out, TAG_ARM, tag->arm);
    pl_put_u64(out, TAG_PHASE, (uint64_t)tag->phase);
    pl_put_u64(out, TAG_SEQUENCE, tag->sequence);
    pl_put_u64(out, TAG_WALL_MS, (uint64_t)tag->wall_ms);
    pl_put_text(out, TAG_NOTE, tag->note);
    for (size_t i = 0; i < tag->n_items; i++) {
        pl_buf_clear(&item);
        pl_put_text(&item, ITEM_MODULE, tag->items[i].module);
        pl_put_u64(&item, ITEM_NUMBER, tag->items[i].number);
        pl_put_hash(&item, ITEM_PARAMS, &tag->items[i].params);
        pl_put_bytes(out, TAG_ITEM, item.data, item.len);
    }
    pl_buf_destroy(&item);
}

static pl_status decode_item(pl_reader *r, size_t i, pl_snapshot_item *out)
{
    pl_reader item;
    pl_reader_enter(&item, "an entry of a tag", r, TAG_ITEM, i);
    pl_get_text(&item, ITEM_MODULE, 0, out->module, sizeof out->module);
    out->number = pl_get_u64(&item, ITEM_NUMBER, 0);
    out->params = pl_get_hash(&item, ITEM_PARAMS, 0);
    return pl_reader_status(&item);
}

/* `out` has its name already. */
static pl_status decode(const pl_buf *bytes, pl_snapshot *out)
{
    pl_reader r;
    pl_status status = PL_OK;
    pl_reader_open(&r, "a tag", bytes->data, bytes->len);
    pl_get_text(&r, TAG_ARM, 0, out->arm, sizeof out->arm);
    pl_get_text(&r, TAG_NOTE, 0, out->note, sizeof out->note);
    out->phase = (int64_t)pl_get_u64(&r, TAG_PHASE, 0);
    out->sequence = pl_get_u64(&r, TAG_SEQUENCE, 0);
    out->wall_ms = (int64_t)pl_get_u64(&r, TAG_WALL_MS, 0);
    out->n_items = pl_field_count(&r, TAG_ITEM);
    out->items = pl_alloc((out->n_items + 1) * sizeof *out->items);
    for (size_t i = 0; status == PL_OK && i < out->n_items; i++)
        status = decode_item(&r, i, &out->items[i]);
    return status == PL_OK ? pl_reader_status(&r) : status;
}

static pl_status read_tag(pl_store *store, const pl_object *object, pl_snapshot *out)
{
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    memset(out, 0, sizeof *out);
    pl_copy_text(out->name, sizeof out->name, object->name + strlen(PREFIX));
    if (object->bytes > TAG_BYTES_MAX)
        PL_TRY(pl_fail(PL_ERR_DAMAGED, "it has %llu bytes",
                       (unsigned long long)object->bytes));
    pl_buf_reserve(&bytes, (size_t)object->bytes + 1);
    PL_TRY(
        pl_store_read_blob(store, &object->blob, 0, (size_t)object->bytes, bytes.data));
    bytes.len = (size_t)object->bytes;
    PL_TRY(decode(&bytes, out));
done:
    pl_buf_destroy(&bytes);
    if (status == PL_OK)
        return PL_OK;
    pl_snapshot_clear(out);
    return pl_fail_in(PL_ERR_DAMAGED, "tag %s cannot be read",
                      object->name + strlen(PREFIX));
}

const pl_snapshot_item *pl_snapshot_find(const pl_snapshot *tag, const char *module)
{
    for (size_t i = 0; i < tag->n_items; i++)
        if (strcmp(tag->items[i].module, module) == 0)
            return &tag->items[i];
    return NULL;
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

static pl_status visit(void *context, const pl_object *object)
{
    const tag_walk *walk = context;
    pl_snapshot tag;
    if (object->bytes == 0)
        return PL_OK;
    PL_RETURN_IF(read_tag(walk->store, object, &tag));
    pl_status status = walk->fn(walk->context, &tag);
    pl_snapshot_clear(&tag);
    return status;
}

pl_status pl_store_each_tag(pl_store *store, pl_snapshot_fn fn, void *ctx)
{
    tag_walk walk = {store, fn, ctx};
    return pl_store_each_object(store, PREFIX, visit, &walk);
}
