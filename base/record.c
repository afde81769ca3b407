/* Writes and reads records. Writing appends fields; reading checks every length.
 *
 * Writers must put tags in rising order, and readers refuse any other order, so that
 * equal contents have equal bytes and a record can be hashed.
 *
 * Integers are written and read byte by byte, so that neither alignment nor the
 * machine's byte order matters. */
#include "base/record.h"
#include "base/le.h"
#include "base/text.h"
#include <string.h>

enum { FIELD_HEAD = 6 }; /* a field's head: tag u16, length u32 */

void pl_put_bytes(pl_buf *record, uint16_t tag, const void *data, size_t len)
{
    uint8_t head[FIELD_HEAD];
    pl_le_put(head, tag, 2);
    pl_le_put(head + 2, len, 4);
    pl_buf_append(record, head, sizeof head);
    pl_buf_append(record, data, len);
}

void pl_put_u64(pl_buf *record, uint16_t tag, uint64_t value)
{
    uint8_t bytes[8];
    pl_le_put(bytes, value, 8);
    pl_put_bytes(record, tag, bytes, sizeof bytes);
}

/* Writes the IEEE bits, so that NaN payloads and signed zeros are preserved. */
void pl_put_f64(pl_buf *record, uint16_t tag, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    pl_put_u64(record, tag, bits);
}

/* Returns the length of the first character if a text must not have it, else 0. */
static size_t bad_bytes(const char *text, size_t len)
{
    size_t n = pl_utf8_length(text, len);
    if (n == 0)
        return 1;
    return pl_utf8_steers(text, n) ? n : 0;
}

static size_t good_length(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len && bad_bytes(text + at, len - at) == 0)
        at += pl_utf8_length(text + at, len - at);
    return at;
}

void pl_put_text(pl_buf *record, uint16_t tag, const char *text)
{
    size_t len = strlen(text), start = record->len;
    pl_put_bytes(record, tag, text, len);
    char *at = (char *)record->data + start + FIELD_HEAD;
    for (size_t good; (good = good_length(at, len)) < len;) {
        size_t bad = bad_bytes(at + good, len - good);
        memset(at + good, at[good] == '\n' || at[good] == '\t' ? ' ' : '?', bad);
        at += good + bad;
        len -= good + bad;
    }
}

void pl_put_hash(pl_buf *record, uint16_t tag, const pl_hash *hash)
{
    pl_put_bytes(record, tag, hash->bytes, sizeof hash->bytes);
}

typedef struct record_field {
    uint16_t tag;
    size_t len;
    const uint8_t *bytes;
} record_field;

/* Reads the field at `at` and moves `at` past it. Returns false at the end, or if the
 * record is too short. Only this function reads the length of a field. */
static bool next_field(const pl_reader *reader, size_t *at, record_field *out)
{
    size_t rest = reader->len - *at;
    if (rest < FIELD_HEAD)
        return false;
    const uint8_t *head = reader->data + *at;
    out->tag = (uint16_t)pl_le_get(head, 2);
    out->len = (size_t)pl_le_get(head + 2, 4);
    out->bytes = head + FIELD_HEAD;
    if (out->len > rest - FIELD_HEAD)
        return false;
    *at += FIELD_HEAD + out->len;
    return true;
}

/* Keeps only the first failure, because later ones follow from it. */
static void fail_once(pl_reader *reader, const char *what_is_wrong, uint16_t tag)
{
    if (reader->status == PL_OK)
        reader->status = pl_fail(PL_ERR_PROTO, "%s: field %u %s", reader->what,
                                 (unsigned)tag, what_is_wrong);
}

/* a record with bad framing is opened as empty, so no getter reads past its end */
void pl_reader_open(pl_reader *reader, const char *what, const void *data, size_t len)
{
    *reader = (pl_reader){.data = data, .len = len, .what = what};
    size_t at = 0;
    uint16_t last = 0;
    record_field field = {0};
    while (next_field(reader, &at, &field)) {
        if (field.tag < last)
            break;
        last = field.tag;
    }
    if (field.tag < last)
        fail_once(reader, "is out of order", field.tag);
    else if (at != len && reader->status == PL_OK)
        reader->status =
            pl_fail(PL_ERR_PROTO, "%s: the record is cut off at byte %zu", what, at);
    if (reader->status != PL_OK)
        reader->len = 0;
}

pl_status pl_reader_status(const pl_reader *reader)
{
    return reader->status;
}

size_t pl_field_count(const pl_reader *reader, uint16_t tag)
{
    size_t at = reader->seek_tag < tag ? reader->seek_at : 0, count = 0;
    record_field field;
    while (next_field(reader, &at, &field) && field.tag <= tag)
        count += field.tag == tag;
    return count;
}

/* A search in a list (i = 0, 1, 2...), or for a greater tag, starts where the last one
 * ended, so that reading a record in the order of its tags needs one pass. */
static bool find_field(pl_reader *reader, uint16_t tag, size_t i, record_field *out)
{
    bool onward = reader->seek_at && reader->seek_tag == tag && reader->seek_index <= i;
    size_t at = onward || reader->seek_tag < tag ? reader->seek_at : 0;
    size_t seen = onward ? reader->seek_index : 0;
    while (next_field(reader, &at, out) && out->tag <= tag) {
        if (out->tag != tag)
            continue;
        if (seen++ == i) {
            reader->seek_at = at;
            reader->seek_tag = tag;
            reader->seek_index = seen;
            return true;
        }
    }
    return false;
}

/* Returns the field if it has exactly `len` bytes; else the reader has failed. */
static const uint8_t *sized(pl_reader *reader, uint16_t tag, size_t i, size_t len)
{
    record_field field;
    if (!find_field(reader, tag, i, &field))
        fail_once(reader, "is missing", tag);
    else if (field.len != len)
        fail_once(reader, "has a wrong size", tag);
    else
        return field.bytes;
    return NULL;
}

uint64_t pl_get_u64(pl_reader *reader, uint16_t tag, size_t i)
{
    const uint8_t *bytes = sized(reader, tag, i, 8);
    return bytes ? pl_le_get(bytes, 8) : 0;
}

double pl_get_f64(pl_reader *reader, uint16_t tag, size_t i)
{
    uint64_t bits = pl_get_u64(reader, tag, i);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

pl_hash pl_get_hash(pl_reader *reader, uint16_t tag, size_t i)
{
    pl_hash hash = {{0}};
    const uint8_t *bytes = sized(reader, tag, i, sizeof hash.bytes);
    if (bytes)
        memcpy(hash.bytes, bytes, sizeof hash.bytes);
    return hash;
}

const uint8_t *pl_get_bytes(pl_reader *reader, uint16_t tag, size_t i, size_t *len)
{
    record_field field;
    *len = 0;
    if (!find_field(reader, tag, i, &field)) {
        fail_once(reader, "is missing", tag);
        return NULL;
    }
    *len = field.len;
    return field.bytes;
}

void pl_reader_enter(pl_reader *reader, const char *what, pl_reader *from, uint16_t tag,
                     size_t i)
{
    size_t len;
    const uint8_t *bytes = pl_get_bytes(from, tag, i, &len);
    pl_reader_open(reader, what, bytes, len);
    if (from->texts && bytes)
        reader->texts = from->texts + (bytes - from->data);
    if (from->status != PL_OK)
        reader->status = from->status;
}

void pl_get_text(pl_reader *reader, uint16_t tag, size_t i, char *out, size_t out_size)
{
    size_t len;
    const uint8_t *bytes = pl_get_bytes(reader, tag, i, &len);
    out[0] = 0;
    if (!bytes)
        return;
    if (len >= out_size)
        fail_once(reader, "is too long", tag);
    else if (good_length((const char *)bytes, len) < len)
        fail_once(reader, "is not UTF-8, or has control characters", tag);
    else {
        memcpy(out, bytes, len);
        out[len] = 0;
    }
}

/* Copies the text into `texts`, to its offset in the record minus one. There is always
 * room for the terminating NUL, because the head of a field is before each text. A
 * second call for the same field returns the same pointer. */
const char *pl_get_word(pl_reader *reader, uint16_t tag, size_t i, size_t size)
{
    size_t len;
    const uint8_t *bytes = pl_get_bytes(reader, tag, i, &len);
    if (!bytes)
        return "";
    char *word = reader->texts + (bytes - reader->data) - 1;
    pl_get_text(reader, tag, i, word, size);
    return word;
}
