/* The fields of every record, in tables that are used for writing and for reading.
 *
 * The numbers in the tables are the tags of PROTOCOL 4.6. Existing stores contain these
 * tags, so a tag is never changed or used for another field. A new field gets a new
 * tag. Older releases skip the new field, and rows that they wrote do not have it. If a
 * field cannot be read, the reader keeps the error, and row_end reports it with the
 * family and the key of the row. */
#include "store/records.h"
#include "store/chunk.h"
#include <string.h>

static void write_table_row(kv_batch *batch, kv_family family, row_key key,
                            const pl_field *table, const void *from)
{
    pl_buf fields = {0};
    pl_put_fields(&fields, table, from);
    row_write(batch, family, &key, &fields);
}

static pl_status read_row(row_view *row, const pl_field *table, void *out)
{
    pl_get_fields(&row->fields, table, out);
    return row_end(row);
}

/* ---- contributions: rows of pending, nested in versions ---- */
static const pl_field contribution_fields[] = {
    PL_FIELD(pl_contribution, 1, worker),
    PL_FIELD(pl_contribution, 2, device),
    PL_FIELD(pl_contribution, 3, path),
    PL_FIELD(pl_contribution, 4, replica),
    PL_FIELD(pl_contribution, 5, phase),
    PL_FIELD(pl_contribution, 6, work.first_sample),
    PL_FIELD(pl_contribution, 7, work.n_samples),
    PL_FIELD(pl_contribution, 8, work.n_tokens),
    PL_FIELD(pl_contribution, 9, work.loss),
    PL_FIELD(pl_contribution, 10, norm),
    PL_FIELD(pl_contribution, 11, weight),
    PL_FIELD(pl_contribution, 12, work.seconds),
    PL_FIELD(pl_contribution, 13, token),
    PL_FIELD(pl_contribution, 14, codec),
    PL_FIELD_NONZERO(pl_contribution, 15, update),
    PL_FIELD(pl_contribution, 16, update_bytes),
    PL_FIELD_NONZERO(pl_contribution, 17, split),
    PL_FIELD_NONZERO(pl_contribution, 20, work.gradient),
    PL_FIELD_NONZERO(pl_contribution, 21, work.held),
    PL_FIELD_NONZERO(pl_contribution, 22, work.memory_bytes),
    PL_FIELD_NONZERO(pl_contribution, 23, key.bytes),
    PL_FIELDS_END};

pl_status contribution_decode(row_view *row, pl_contribution *out)
{
    return read_row(row, contribution_fields, out);
}

void pending_write(kv_batch *batch, const char *module, const pl_contribution *c)
{
    write_table_row(batch, KV_PENDING, key_of_pending(module, c), contribution_fields,
                    c);
}

/* ---- versions ---- */
static const pl_field version_table[] = {
    PL_FIELD(pl_version, 1, module),
    PL_FIELD(pl_version, 2, number),
    PL_FIELD(pl_version, 3, params),
    PL_FIELD_NONZERO(pl_version, 4, momentum),
    PL_FIELD_NONZERO(pl_version, 5, parent),
    PL_FIELD_NONZERO(pl_version, 6, config),
    PL_FIELD(pl_version, 7, method),
    PL_FIELD(pl_version, 8, lr),
    PL_FIELD(pl_version, 9, outer_momentum),
    PL_FIELD(pl_version, 10, n_params),
    PL_FIELD(pl_version, 11, params_norm),
    PL_FIELD(pl_version, 12, update_norm),
    PL_FIELD(pl_version, 13, wall_ms),
    PL_FIELD(pl_version, 14, sequence),
    PL_FIELD_LIST(pl_version, 15, contributions, n_contributions, contribution_fields),
    PL_FIELD_NONZERO(pl_version, 16, displacement),
    PL_FIELD_NONZERO(pl_version, 17, arrivals),
    PL_FIELD_NONZERO(pl_version, 18, change),
    PL_FIELD_BIT(pl_version, 19, params_gone, 0),
    PL_FIELD_BIT(pl_version, 19, has_updates, 1),
    PL_FIELDS_END};

void version_write(kv_batch *batch, const pl_version *v)
{
    write_table_row(batch, KV_VERSION, key_of_version(v->module, v->number),
                    version_table, v);
}

pl_status version_decode(row_view *row, pl_version *out)
{
    pl_status status = read_row(row, version_table, out);
    if (status != PL_OK)
        pl_version_clear(out);
    return status;
}

pl_status version_read(row_source from, const char *module, uint64_t number,
                       pl_version *out, bool *found)
{
    row_view row;
    row_key key = key_of_version(module, number);
    memset(out, 0, sizeof *out);
    PL_CHECK(row_read(from, KV_VERSION, &key, &row));
    *found = row.found;
    return row.found ? version_decode(&row, out) : PL_OK;
}

void pl_version_clear(pl_version *version)
{
    pl_free(version->contributions);
    memset(version, 0, sizeof *version);
}

static const pl_field head_fields[] = {
    PL_FIELD(head_record, 1, number), PL_FIELD(head_record, 2, momentum_from),
    PL_FIELD_NONZERO(head_record, 3, recoded), PL_FIELDS_END};

void head_write(kv_batch *batch, const char *module, const head_record *head)
{
    write_table_row(batch, KV_HEAD, key_of_name(module), head_fields, head);
}

pl_status head_decode(row_view *row, head_record *out)
{
    return read_row(row, head_fields, out);
}

pl_status head_read(row_source from, const char *module, head_record *out, bool *found)
{
    row_view row;
    row_key key = key_of_name(module);
    *out = (head_record){0};
    PL_CHECK(row_read(from, KV_HEAD, &key, &row));
    *found = row.found;
    return row.found ? head_decode(&row, out) : PL_OK;
}

/* ---- paths, objects, refs ---- */
const pl_field pl_path_state_fields[] = {
    PL_FIELD(pl_path_state, 1, name),
    PL_FIELD(pl_path_state, 2, phase),
    PL_FIELD(pl_path_state, 3, work.n_samples),
    PL_FIELD(pl_path_state, 4, work.n_tokens),
    PL_FIELD(pl_path_state, 5, work.loss),
    PL_FIELD(pl_path_state, 6, work.seconds),
    PL_FIELD_NONZERO(pl_path_state, 7, moments),
    PL_FIELD(pl_path_state, 8, worker),
    PL_FIELD_NONZERO(pl_path_state, 9, work.gradient),
    PL_FIELD_NONZERO(pl_path_state, 10, work.held),
    PL_FIELD_NONZERO(pl_path_state, 11, held_phase),
    PL_FIELD_NONZERO(pl_path_state, 12, repeats),
    PL_FIELD_NONZERO(pl_path_state, 13, made),
    PL_FIELD_NONZERO(pl_path_state, 14, key.bytes),
    PL_FIELDS_END};

void path_write(kv_batch *batch, const pl_path_state *path)
{
    write_table_row(batch, KV_PATH, key_of_name(path->name), pl_path_state_fields,
                    path);
}

pl_status path_decode(row_view *row, pl_path_state *out)
{
    out->work = (pl_work){0}; /* the state of a path has not every number of a phase */
    PL_CHECK(read_row(row, pl_path_state_fields, out));
    if (out->repeats < 0 || out->repeats > out->phase ||
        (out->repeats > 0) == pl_hash_none(&out->made))
        return pl_fail(PL_ERR_DAMAGED,
                       "the record of path %s is damaged: its state is %lld phases old "
                       "after %lld phases, or the hash of its present state is %s",
                       out->name, (long long)out->repeats, (long long)out->phase,
                       pl_hash_none(&out->made) ? "missing" : "given twice");
    return PL_OK;
}

static const pl_field object_fields[] = {PL_FIELD(pl_object, 1, name),
                                         PL_FIELD(pl_object, 2, blob),
                                         PL_FIELD(pl_object, 3, bytes), PL_FIELDS_END};

void object_write(kv_batch *batch, const pl_object *object)
{
    write_table_row(batch, KV_OBJECT, key_of_name(object->name), object_fields, object);
}

pl_status object_decode(row_view *row, pl_object *out)
{
    return read_row(row, object_fields, out);
}

void ref_write(kv_batch *batch, const char *name, const char *target)
{
    pl_buf fields = {0};
    row_key key = key_of_name(name);
    pl_put_text(&fields, 1, name);
    pl_put_text(&fields, 2, target);
    row_write(batch, KV_REF, &key, &fields);
}

/* The target may be any bytes, so it is copied by its length. */
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

/* Decodes a blob's record, and checks that the number of chunks fits the size. */
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

pl_status blob_read(row_source from, const pl_hash *id, blob_record *out)
{
    row_view row;
    row_key key = key_of_hash(id);
    *out = (blob_record){0};
    PL_CHECK(row_read(from, KV_BLOB, &key, &row));
    if (row.found)
        PL_CHECK(blob_decode(&row, out));
    out->exists = row.found;
    return PL_OK;
}

static const pl_field chunk_fields[] = {
    PL_FIELD(chunk_record, 1, pack),
    PL_FIELD_CHOICE(chunk_record, 2, number, 1ull << 32),
    PL_FIELD_CHOICE(chunk_record, 3, bytes, PL_CHUNK_BYTES + 1),
    PL_FIELD(chunk_record, 4, refs),
    PL_FIELD_NONZERO(chunk_record, 5, coding),
    PL_FIELD_GATED(chunk_record, 6, stored, coding),
    PL_FIELD_NONZERO(chunk_record, 7, bases[0]),
    PL_FIELD_NONZERO(chunk_record, 7, bases[1]),
    PL_FIELD_NONZERO(chunk_record, 8, height),
    PL_FIELD_NONZERO(chunk_record, 9, epoch),
    PL_FIELDS_END};

void chunk_write(kv_batch *batch, const pl_hash *id, const chunk_record *chunk)
{
    write_table_row(batch, KV_CHUNK, key_of_hash(id), chunk_fields, chunk);
}

/* Decodes a chunk's record, and checks the numbers that later code calculates with. */
pl_status chunk_decode(row_view *row, chunk_record *out)
{
    pl_get_fields(&row->fields, chunk_fields, out);
    if (out->coding == CHUNK_RAW)
        out->stored = out->bytes;
    bool wrong = out->coding > CHUNK_DELTA ||
                 (out->coding == CHUNK_DELTA && pl_hash_none(&out->bases[1]));
    pl_status status = wrong ? row_damaged(row, "its coding is wrong") : PL_OK;
    pl_status rest = row_end(row);
    return rest != PL_OK ? rest : status;
}

pl_status chunk_read(row_source from, const pl_hash *id, chunk_record *out)
{
    row_view row;
    row_key key = key_of_hash(id);
    *out = (chunk_record){0};
    PL_CHECK(row_read(from, KV_CHUNK, &key, &row));
    if (row.found)
        PL_CHECK(chunk_decode(&row, out));
    out->exists = row.found;
    return PL_OK;
}

/* ---- the log ---- */
static const pl_field log_table[] = {PL_FIELD_NONZERO(log_record, 1, previous),
                                     PL_FIELD(log_record, 2, digest),
                                     PL_FIELD(log_record, 3, epoch),
                                     PL_FIELD(log_record, 4, wall_ms),
                                     PL_FIELD(log_record, 5, n_files),
                                     PL_FIELD_NONZERO(log_record, 6, rows),
                                     PL_FIELDS_END};

void log_write(kv_batch *batch, uint64_t sequence, const log_record *entry,
               pl_hash *hash)
{
    pl_buf fields = {0}, value = {0};
    const row_key key = key_of_number(sequence);
    pl_put_fields(&fields, log_table, entry);
    row_seal(KV_LOG, key_slice(&key), &fields, &value);
    kv_put(batch, KV_LOG, key_slice(&key), (kv_slice){value.data, value.len});
    pl_hash_of("log", value.data, value.len, hash);
    pl_buf_destroy(&fields);
    pl_buf_destroy(&value);
}

pl_status log_decode(row_view *row, log_record *out)
{
    return read_row(row, log_table, out);
}

/* ---- the meta family ---- */
void number_write(kv_batch *batch, const char *name, uint64_t number)
{
    pl_buf fields = {0};
    row_key key = key_of_name(name);
    pl_put_u64(&fields, 1, number);
    row_write(batch, KV_META, &key, &fields);
}

pl_status number_read(row_source from, const char *name, uint64_t *out)
{
    row_view row;
    row_key key = key_of_name(name);
    *out = 0;
    PL_CHECK(row_read(from, KV_META, &key, &row));
    if (!row.found)
        return PL_OK;
    *out = pl_get_u64(&row.fields, 1, 0);
    return row_end(&row);
}

void sum_write(kv_batch *batch, const row_sum *sum)
{
    pl_buf fields = {0};
    row_key key = key_of_name("rows");
    pl_put_bytes(&fields, 1, sum, sizeof *sum);
    row_write(batch, KV_META, &key, &fields);
}

pl_status sum_read(row_source from, row_sum *out)
{
    row_view row;
    size_t len = 0;
    row_key key = key_of_name("rows");
    memset(out, 0, sizeof *out);
    PL_CHECK(row_read(from, KV_META, &key, &row));
    if (!row.found)
        return PL_OK;
    const uint8_t *bytes = pl_get_bytes(&row.fields, 1, 0, &len);
    if (len == sizeof *out)
        memcpy(out, bytes, len);
    return row_end(&row);
}
