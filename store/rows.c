/* Keys and envelopes of rows.
 *
 * Numbers in keys are big-endian, so that the order of bytes is the order of numbers.
 * If more bytes follow a name in a key, the name ends with a zero byte. So a search for
 * the rows of a name never finds rows of a longer name. */
#include "store/rows.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { ROW_VERSION = 1, ROW_CHECKSUM_BYTES = 8, KEY_TEXT_MAX = 4 * ROW_KEY_MAX };

/* ---- keys ---- */
static void key_add(row_key *key, const void *bytes, size_t len)
{
    memcpy(key->bytes + key->len, bytes, len);
    key->len += len;
}

static void key_add_number(row_key *key, uint64_t number, int width)
{
    uint8_t bytes[8];
    for (int i = 0; i < width; i++)
        bytes[i] = (uint8_t)(number >> (8 * (width - 1 - i)));
    key_add(key, bytes, (size_t)width);
}

/* Makes the key of a checked name; one that is too long is cut, and finds no row. */
row_key key_of_name(const char *name)
{
    row_key key = {.len = 0};
    key_add(&key, name, strnlen(name, PL_MODULE_NAME_MAX));
    return key;
}

row_key key_of_hash(const pl_hash *hash)
{
    row_key key = {.len = 0};
    key_add(&key, hash->bytes, sizeof hash->bytes);
    return key;
}

row_key key_of_number(uint64_t number)
{
    row_key key = {.len = 0};
    key_add_number(&key, number, 8);
    return key;
}

row_key key_of_versions(const char *module)
{
    row_key key = key_of_name(module);
    key_add(&key, "", 1);
    return key;
}

row_key key_of_version(const char *module, uint64_t number)
{
    row_key key = key_of_versions(module);
    key_add_number(&key, number, 8);
    return key;
}

row_key key_of_pack(uint64_t pack, uint32_t number)
{
    row_key key = key_of_number(pack);
    key_add_number(&key, number, 4);
    return key;
}

row_key key_of_pending(const char *module, const pl_contribution *c)
{
    row_key key = key_of_version(module, (uint64_t)c->phase);
    key_add_number(&key, (uint64_t)c->path, 8);
    key_add_number(&key, (uint64_t)c->replica, 8);
    return key;
}

kv_slice key_slice(const row_key *key)
{
    return (kv_slice){key->bytes, key->len};
}

pl_status check_name(const char *what, const char *name)
{
    size_t len = strnlen(name, PL_MODULE_NAME_MAX);
    if (len == 0 || len == PL_MODULE_NAME_MAX)
        return pl_fail(PL_ERR_ARG, "%s names have 1 to %d bytes, not %s%zu", what,
                       PL_MODULE_NAME_MAX - 1, len ? "at least " : "", len);
    for (size_t i = 0; i < len; i++)
        if (name[i] < 0x21 || name[i] > 0x7e)
            return pl_fail(PL_ERR_ARG,
                           "byte %zu of the %s name is 0x%02x; names are printable "
                           "ASCII without blanks",
                           i, what, (unsigned)(uint8_t)name[i]);
    return PL_OK;
}

/* ---- the envelope ---- */
static uint64_t envelope_checksum(kv_family family, kv_slice key, const uint8_t *body,
                                  size_t len)
{
    uint8_t head[5] = {kv_family_id(family)};
    pl_le_put(head + 1, key.len, 4);
    const pl_piece pieces[] = {{head, sizeof head}, {key.data, key.len}, {body, len}};
    return pl_checksum_pieces(pieces, 3);
}

void row_seal_as(uint8_t version, kv_family family, kv_slice key, const pl_buf *fields,
                 pl_buf *out)
{
    uint8_t tail[ROW_CHECKSUM_BYTES];
    size_t start = out->len;
    pl_buf_append(out, &version, 1);
    pl_buf_append(out, fields->data, fields->len);
    uint64_t checksum =
        envelope_checksum(family, key, out->data + start, out->len - start);
    pl_le_put(tail, checksum, sizeof tail);
    pl_buf_append(out, tail, sizeof tail);
}

void row_seal(kv_family family, kv_slice key, const pl_buf *fields, pl_buf *out)
{
    row_seal_as(ROW_VERSION, family, key, fields, out);
}

void row_write(kv_batch *batch, kv_family family, const row_key *key, pl_buf *fields)
{
    pl_buf value = {0};
    row_seal(family, key_slice(key), fields, &value);
    kv_put(batch, family, key_slice(key), (kv_slice){value.data, value.len});
    pl_buf_destroy(&value);
    pl_buf_destroy(fields);
}

pl_status row_damaged(const row_view *row, const char *how)
{
    char key[KEY_TEXT_MAX];
    /* Writes a key as text for an error. Printable keys are shown unchanged. In other
     * keys the bytes after the printable beginning are shown in hexadecimal:
     * "mix/L1.E0:0000000000000003". */
    size_t used = 0;
    bool text = row->family != KV_BLOB && row->family != KV_CHUNK;
    for (size_t i = 0; i < row->key.len; i++) {
        if (text && !isgraph(row->key.bytes[i])) {
            text = false;
            if (i && row->key.bytes[i] == 0) {
                key[used++] = ':';
                continue;
            }
        }
        used += (size_t)snprintf(key + used, KEY_TEXT_MAX - used, text ? "%c" : "%02x",
                                 row->key.bytes[i]);
    }
    key[used] = 0;
    return pl_fail(PL_ERR_DAMAGED,
                   "the store's record %s/%s is damaged: %s; restore it from a copy",
                   kv_family_name(row->family), key, how);
}

pl_status row_open(kv_family family, kv_slice key, kv_slice value, row_view *out)
{
    const uint8_t *bytes = value.data;
    *out = (row_view){.family = family, .found = true};
    if (key.len > ROW_KEY_MAX)
        return row_damaged(out, "its key is too long");
    key_add(&out->key, key.data, key.len);
    if (value.len < 1 + ROW_CHECKSUM_BYTES)
        return row_damaged(out, "it is cut off");
    const size_t body = value.len - ROW_CHECKSUM_BYTES;
    if (pl_le_get(bytes + body, ROW_CHECKSUM_BYTES) !=
        envelope_checksum(family, key, bytes, body))
        return row_damaged(out, "its checksum does not match");
    if (bytes[0] != ROW_VERSION)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "a record of column family %s has format version %d, but this "
                       "release reads only version %d; use the release that wrote it",
                       kv_family_name(family), bytes[0], ROW_VERSION);
    pl_reader_open(&out->fields, "stored record", bytes + 1, body - 1);
    return PL_OK;
}

pl_status row_read(row_source from, kv_family family, const row_key *key, row_view *out)
{
    kv_pin pin;
    *out = (row_view){.family = family, .key = *key};
    if (from.batch)
        PL_CHECK(kv_batch_get(from.batch, family, key_slice(key), &pin));
    else
        PL_CHECK(kv_get(from.db, family, key_slice(key), &pin));
    if (!pin.data) {
        kv_unpin(&pin);
        return PL_OK;
    }
    pl_status status =
        row_open(family, key_slice(key), (kv_slice){pin.data, pin.len}, out);
    out->pin = pin;
    if (status != PL_OK)
        kv_unpin(&out->pin);
    return status;
}

pl_status row_end(row_view *row)
{
    pl_status status = pl_reader_status(&row->fields);
    if (status != PL_OK) {
        char how[128];
        pl_copy_text(how, sizeof how, pl_last_error());
        status = row_damaged(row, how);
    }
    kv_unpin(&row->pin);
    return status;
}
