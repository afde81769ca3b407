/* Fields of every record, written and read side by side.
 *
 * The numbers are tags of PROTOCOL 4.6 and a contract with every store on every disk:
 * none is ever renumbered or used again. A new field takes a new tag, which older
 * releases skip, and is read with a default. Getters may fail in any order: the reader
 * remembers the first failure and row_end reports it once, with family and key. */
#include "store/records.h"
#include "store/chunk.h"
#include <string.h>

enum { CONTRIBUTIONS_MAX = 1 << 20 };

/* A none hash is left out. */
static void put_hash_if(pl_buf *fields, uint16_t tag, const pl_hash *hash)
{
    if (!pl_hash_none(hash))
        pl_put_hash(fields, tag, hash);
}

static pl_hash get_hash_if(pl_reader *fields, uint16_t tag)
{
    pl_hash none = {{0}};
    return pl_field_count(fields, tag) ? pl_get_hash(fields, tag, 0) : none;
}

/* ---- contributions: rows of pending, nested in versions ---- */
static void contribution_fields(const pl_contribution *c, pl_buf *fields)
{
    pl_put_text(fields, 1, c->worker);
    pl_put_text(fields, 2, c->device);
    pl_put_u64(fields, 3, (uint64_t)c->path);
    pl_put_u64(fields, 4, (uint64_t)c->replica);
    pl_put_u64(fields, 5, (uint64_t)c->phase);
    pl_put_u64(fields, 6, c->first_sample);
    pl_put_u64(fields, 7, c->n_samples);
    pl_put_u64(fields, 8, c->n_tokens);
    pl_put_f64(fields, 9, c->loss);
    pl_put_f64(fields, 10, c->norm);
    pl_put_f64(fields, 11, c->weight);
    pl_put_f64(fields, 12, c->seconds);
    pl_put_u64(fields, 13, c->token);
    pl_put_text(fields, 14, c->codec);
    put_hash_if(fields, 15, &c->update);
    pl_put_u64(fields, 16, c->update_bytes);
    if (c->split)
        pl_put_u64(fields, 17, 1);
    if (c->seed == 0)
        return;
    pl_put_u64(fields, 18, c->seed);
    pl_put_bytes(fields, 19, c->likeness, sizeof c->likeness);
}

static void likeness_get(pl_reader *fields, pl_contribution *out)
{
    size_t len = 0;
    const uint8_t *bytes;
    if (pl_field_count(fields, 18) == 0 || pl_field_count(fields, 19) == 0)
        return;
    bytes = pl_get_bytes(fields, 19, 0, &len);
    if (len != sizeof out->likeness)
        return;
    memcpy(out->likeness, bytes, len);
    out->seed = pl_get_u64(fields, 18, 0);
}

/* Shared by the rows of pending and the nested ones; its caller checks the reader. */
static void contribution_get(pl_reader *fields, pl_contribution *out)
{
    memset(out, 0, sizeof *out);
    pl_get_text(fields, 1, 0, out->worker, sizeof out->worker);
    pl_get_text(fields, 2, 0, out->device, sizeof out->device);
    out->path = (int64_t)pl_get_u64(fields, 3, 0);
    out->replica = (int64_t)pl_get_u64(fields, 4, 0);
    out->phase = (int64_t)pl_get_u64(fields, 5, 0);
    out->first_sample = pl_get_u64(fields, 6, 0);
    out->n_samples = pl_get_u64(fields, 7, 0);
    out->n_tokens = pl_get_u64(fields, 8, 0);
    out->loss = pl_get_f64(fields, 9, 0);
    out->norm = pl_get_f64(fields, 10, 0);
    out->weight = pl_get_f64(fields, 11, 0);
    out->seconds = pl_get_f64(fields, 12, 0);
    out->token = pl_get_u64(fields, 13, 0);
    pl_get_text(fields, 14, 0, out->codec, sizeof out->codec);
    out->update = get_hash_if(fields, 15);
    out->update_bytes = pl_get_u64(fields, 16, 0);
    out->split = pl_get_u64_or(fields, 17, 0) != 0;
    likeness_get(fields, out);
}

pl_status contribution_decode(row_view *row, pl_contribution *out)
{
    contribution_get(&row->fields, out);
    return row_end(row);
}

void pending_write(kv_batch *batch, const char *module, const pl_contribution *c)
{
    pl_buf fields = {0};
    row_key key = key_of_pending(module, c);
    contribution_fields(c, &fields);
    row_write(batch, KV_PENDING, &key, &fields);
}

/* ---- versions ---- */
enum { FLAG_PARAMS_GONE = 1, FLAG_HAS_UPDATES = 2 };

void version_fields(const pl_version *v, pl_buf *fields)
{
    pl_buf nested = {0};
    pl_put_text(fields, 1, v->module);
    pl_put_u64(fields, 2, v->number);
    pl_put_hash(fields, 3, &v->params);
    put_hash_if(fields, 4, &v->momentum);
    put_hash_if(fields, 5, &v->parent);
    put_hash_if(fields, 6, &v->config);
    pl_put_text(fields, 7, v->method);
    pl_put_f64(fields, 8, v->lr);
    pl_put_f64(fields, 9, v->outer_momentum);
    pl_put_u64(fields, 10, v->n_params);
    pl_put_f64(fields, 11, v->params_norm);
    pl_put_f64(fields, 12, v->update_norm);
    pl_put_u64(fields, 13, (uint64_t)v->wall_ms);
    pl_put_u64(fields, 14, v->sequence);
    for (int i = 0; i < v->n_contributions; i++) {
        pl_buf_clear(&nested);
        contribution_fields(&v->contributions[i], &nested);
        pl_put_bytes(fields, 15, nested.data, nested.len);
    }
    if (v->displacement != 0)
        pl_put_f64(fields, 16, v->displacement);
    if (v->arrivals != 0)
        pl_put_u64(fields, 17, (uint64_t)v->arrivals);
    put_hash_if(fields, 18, &v->change);
    pl_put_u64(fields, 19,
               (v->params_gone ? FLAG_PARAMS_GONE : 0u) |
                   (v->has_updates ? FLAG_HAS_UPDATES : 0u));
    pl_buf_destroy(&nested);
}

void version_write(kv_batch *batch, const pl_version *version)
{
    pl_buf fields = {0};
    row_key key = key_of_version(version->module, version->number);
    version_fields(version, &fields);
    row_write(batch, KV_VERSION, &key, &fields);
}

/* The count comes from fields that are really there, so it is bounded by the row. */
static pl_status contributions_get(row_view *row, pl_version *out)
{
    size_t count = pl_field_count(&row->fields, 15);
    if (count > CONTRIBUTIONS_MAX)
        return row_damaged(row, "too many contributions");
    out->contributions = pl_alloc((count + 1) * sizeof *out->contributions);
    for (size_t i = 0; i < count; i++) {
        pl_reader nested;
        pl_reader_enter(&nested, "contribution", &row->fields, 15, i);
        contribution_get(&nested, &out->contributions[i]);
        if (pl_reader_status(&nested) != PL_OK)
            return row_damaged(row, "a contribution does not decode");
    }
    out->n_contributions = (int)count;
    return PL_OK;
}

/* After a failure the caller has nothing to free. */
pl_status version_decode(row_view *row, pl_version *out)
{
    pl_reader *fields = &row->fields;
    memset(out, 0, sizeof *out);
    pl_get_text(fields, 1, 0, out->module, sizeof out->module);
    out->number = pl_get_u64(fields, 2, 0);
    out->params = pl_get_hash(fields, 3, 0);
    out->momentum = get_hash_if(fields, 4);
    out->parent = get_hash_if(fields, 5);
    out->config = get_hash_if(fields, 6);
    pl_get_text(fields, 7, 0, out->method, sizeof out->method);
    out->lr = pl_get_f64(fields, 8, 0);
    out->outer_momentum = pl_get_f64(fields, 9, 0);
    out->n_params = pl_get_u64(fields, 10, 0);
    out->params_norm = pl_get_f64(fields, 11, 0);
    out->update_norm = pl_get_f64(fields, 12, 0);
    out->wall_ms = (int64_t)pl_get_u64(fields, 13, 0);
    out->sequence = pl_get_u64(fields, 14, 0);
    if (pl_field_count(fields, 16) > 0)
        out->displacement = pl_get_f64(fields, 16, 0);
    out->arrivals = (int64_t)pl_get_u64_or(fields, 17, 0);
    out->change = get_hash_if(fields, 18);
    uint64_t flags = pl_get_u64(fields, 19, 0);
    out->params_gone = flags & FLAG_PARAMS_GONE;
    out->has_updates = flags & FLAG_HAS_UPDATES;
    pl_status list = contributions_get(row, out);
    pl_status rest = row_end(row);
    if (list == PL_OK && rest == PL_OK)
        return PL_OK;
    pl_version_clear(out);
    return list != PL_OK ? list : rest;
}

pl_status version_read(row_source from, const char *module, uint64_t number,
                       pl_version *out, bool *found)
{
    row_view row;
    row_key key = key_of_version(module, number);
    memset(out, 0, sizeof *out);
    PL_RETURN_IF(row_read(from, KV_VERSION, &key, &row));
    *found = row.found;
    return row.found ? version_decode(&row, out) : PL_OK;
}

void pl_version_clear(pl_version *version)
{
    pl_free(version->contributions);
    memset(version, 0, sizeof *version);
}

void head_write(kv_batch *batch, const char *module, const head_record *head)
{
    pl_buf fields = {0};
    row_key key = key_of_name(module);
    pl_put_u64(&fields, 1, head->number);
    pl_put_u64(&fields, 2, head->momentum_from);
    if (head->recoded > 0)
        pl_put_u64(&fields, 3, head->recoded);
    row_write(batch, KV_HEAD, &key, &fields);
}

pl_status head_decode(row_view *row, head_record *out)
{
    out->number = pl_get_u64(&row->fields, 1, 0);
    out->momentum_from = pl_get_u64(&row->fields, 2, 0);
    out->recoded = pl_get_u64_or(&row->fields, 3, 0);
    return row_end(row);
}

pl_status head_read(row_source from, const char *module, head_record *out, bool *found)
{
    row_view row;
    row_key key = key_of_name(module);
    *out = (head_record){0};
    PL_RETURN_IF(row_read(from, KV_HEAD, &key, &row));
    *found = row.found;
    return row.found ? head_decode(&row, out) : PL_OK;
}

/* ---- paths, objects, refs ---- */
void path_write(kv_batch *batch, const pl_path_state *path)
{
    pl_buf fields = {0};
    row_key key = key_of_name(path->name);
    pl_put_text(&fields, 1, path->name);
    pl_put_u64(&fields, 2, (uint64_t)path->phase);
    pl_put_u64(&fields, 3, path->samples);
    pl_put_u64(&fields, 4, path->n_tokens);
    pl_put_f64(&fields, 5, path->loss);
    pl_put_f64(&fields, 6, path->seconds);
    put_hash_if(&fields, 7, &path->moments);
    pl_put_text(&fields, 8, path->worker);
    row_write(batch, KV_PATH, &key, &fields);
}

pl_status path_decode(row_view *row, pl_path_state *out)
{
    pl_reader *fields = &row->fields;
    memset(out, 0, sizeof *out);
    pl_get_text(fields, 1, 0, out->name, sizeof out->name);
    out->phase = (int64_t)pl_get_u64(fields, 2, 0);
    out->samples = pl_get_u64(fields, 3, 0);
    out->n_tokens = pl_get_u64(fields, 4, 0);
    out->loss = pl_get_f64(fields, 5, 0);
    out->seconds = pl_get_f64(fields, 6, 0);
    out->moments = get_hash_if(fields, 7);
    pl_get_text(fields, 8, 0, out->worker, sizeof out->worker);
    return row_end(row);
}

void object_write(kv_batch *batch, const pl_object *object)
{
    pl_buf fields = {0};
    row_key key = key_of_name(object->name);
    pl_put_text(&fields, 1, object->name);
    pl_put_hash(&fields, 2, &object->blob);
    pl_put_u64(&fields, 3, object->bytes);
    row_write(batch, KV_OBJECT, &key, &fields);
}

pl_status object_decode(row_view *row, pl_object *out)
{
    memset(out, 0, sizeof *out);
    pl_get_text(&row->fields, 1, 0, out->name, sizeof out->name);
    out->blob = pl_get_hash(&row->fields, 2, 0);
    out->bytes = pl_get_u64(&row->fields, 3, 0);
    return row_end(row);
}

void ref_write(kv_batch *batch, const char *name, const char *target)
{
    pl_buf fields = {0};
    row_key key = key_of_name(name);
    pl_put_text(&fields, 1, name);
    pl_put_text(&fields, 2, target);
    row_write(batch, KV_REF, &key, &fields);
}

/* The target may be any text, also an empty one, so it is copied by length. */
pl_status ref_decode(row_view *row, char *name, pl_buf *target)
{
    size_t len;
    if (name)
        pl_get_text(&row->fields, 1, 0, name, PL_MODULE_NAME_MAX);
    const uint8_t *bytes = pl_get_bytes(&row->fields, 2, 0, &len);
    pl_buf_reserve(target, len + 1);
    if (len)
        pl_buf_append(target, bytes, len);
    target->data[target->len] = 0;
    return row_end(row);
}

/* ---- blobs and chunks ---- */
void blob_write(kv_batch *batch, const pl_hash *id, const blob_record *blob)
{
    pl_buf fields = {0};
    row_key key = key_of_hash(id);
    pl_put_u64(&fields, 1, blob->bytes);
    pl_put_u64(&fields, 2, blob->refs);
    pl_put_bytes(&fields, 3, blob->chunks.data, blob->chunks.len);
    row_write(batch, KV_BLOB, &key, &fields);
}

/* The number of chunks follows from the size, so neither is trusted alone. */
pl_status blob_decode(row_view *row, blob_record *out)
{
    size_t len;
    *out = (blob_record){0};
    out->bytes = pl_get_u64(&row->fields, 1, 0);
    out->refs = pl_get_u64(&row->fields, 2, 0);
    const uint8_t *chunks = pl_get_bytes(&row->fields, 3, 0, &len);
    uint64_t n_chunks =
        out->bytes / PL_CHUNK_BYTES + (out->bytes % PL_CHUNK_BYTES != 0);
    pl_status status = PL_OK;
    if (len % PL_HASH_BYTES || len / PL_HASH_BYTES != n_chunks)
        status = row_damaged(row, "its size and its chunks do not agree");
    else if (len)
        pl_buf_append(&out->chunks, chunks, len);
    pl_status rest = row_end(row);
    if (rest != PL_OK)
        status = rest;
    if (status != PL_OK)
        pl_buf_destroy(&out->chunks);
    return status;
}

pl_status blob_read(row_source from, const pl_hash *id, blob_record *out, bool *found)
{
    row_view row;
    row_key key = key_of_hash(id);
    *out = (blob_record){0};
    PL_RETURN_IF(row_read(from, KV_BLOB, &key, &row));
    *found = row.found;
    return row.found ? blob_decode(&row, out) : PL_OK;
}

void chunk_write(kv_batch *batch, const pl_hash *id, const chunk_record *chunk)
{
    pl_buf fields = {0};
    row_key key = key_of_hash(id);
    pl_put_u64(&fields, 1, chunk->pack);
    pl_put_u64(&fields, 2, chunk->number);
    pl_put_u64(&fields, 3, chunk->bytes);
    pl_put_u64(&fields, 4, chunk->refs);
    if (chunk->coding != CHUNK_RAW) {
        pl_put_u64(&fields, 5, chunk->coding);
        pl_put_u64(&fields, 6, chunk->stored);
    }
    put_hash_if(&fields, 7, &chunk->bases[0]);
    put_hash_if(&fields, 7, &chunk->bases[1]);
    if (chunk->height > 0)
        pl_put_u64(&fields, 8, chunk->height);
    if (chunk->epoch > 0)
        pl_put_u64(&fields, 9, chunk->epoch);
    row_write(batch, KV_CHUNK, &key, &fields);
}

/* Bounds that later arithmetic relies on are checked here. */
pl_status chunk_decode(row_view *row, chunk_record *out)
{
    *out = (chunk_record){0};
    out->pack = pl_get_u64(&row->fields, 1, 0);
    uint64_t number = pl_get_u64(&row->fields, 2, 0);
    out->bytes = pl_get_u64(&row->fields, 3, 0);
    out->refs = pl_get_u64(&row->fields, 4, 0);
    out->number = (uint32_t)number;
    out->coding = pl_get_u64_or(&row->fields, 5, CHUNK_RAW);
    out->stored = pl_get_u64_or(&row->fields, 6, out->bytes);
    for (size_t i = 0; out->coding == CHUNK_DELTA && i < 2; i++)
        out->bases[i] = pl_get_hash(&row->fields, 7, i);
    out->height = pl_get_u64_or(&row->fields, 8, 0);
    out->epoch = pl_get_u64_or(&row->fields, 9, 0);
    pl_status status = PL_OK;
    if (number > UINT32_MAX || out->bytes > PL_CHUNK_BYTES || out->coding > CHUNK_DELTA)
        status = row_damaged(row, "a number is out of range");
    pl_status rest = row_end(row);
    return rest != PL_OK ? rest : status;
}

pl_status chunk_read(row_source from, const pl_hash *id, chunk_record *out, bool *found)
{
    row_view row;
    row_key key = key_of_hash(id);
    *out = (chunk_record){0};
    PL_RETURN_IF(row_read(from, KV_CHUNK, &key, &row));
    *found = row.found;
    return row.found ? chunk_decode(&row, out) : PL_OK;
}

/* ---- the log ---- */
void log_fields(const log_record *entry, pl_buf *fields)
{
    put_hash_if(fields, 1, &entry->previous);
    pl_put_hash(fields, 2, &entry->digest);
    pl_put_u64(fields, 3, entry->epoch);
    pl_put_u64(fields, 4, (uint64_t)entry->wall_ms);
    pl_put_u64(fields, 5, entry->n_files);
}

pl_status log_decode(row_view *row, log_record *out)
{
    out->previous = get_hash_if(&row->fields, 1);
    out->digest = pl_get_hash(&row->fields, 2, 0);
    out->epoch = pl_get_u64(&row->fields, 3, 0);
    out->wall_ms = (int64_t)pl_get_u64(&row->fields, 4, 0);
    out->n_files = pl_get_u64(&row->fields, 5, 0);
    return row_end(row);
}
