/* Records: the only encoding of message bodies and of stored values.
 *
 *   record = field*          field = tag u16 | length u32 | bytes
 *
 * Numbers are little-endian, and tags are in rising order. Fields with the same tag
 * form a list in the order of its items. A reader skips tags that it does not know. A
 * nested record is a field like any other; only a call of pl_reader_enter reads its
 * bytes as a record.
 *
 * Reading never trusts a length: every getter checks the field's size, and the reader
 * keeps the first failure (`pl_reader_status`), so that a decoder can read all fields
 * and check once. */
#pragma once
#include "base/buf.h"
#include "base/hash.h"
PL_C_BEGIN

void pl_put_u64(pl_buf *record, uint16_t tag, uint64_t value);
void pl_put_f64(pl_buf *record, uint16_t tag, double value);
/* Appends text. Text that pl_get_text would refuse is changed: a newline or a tab
 * becomes a blank, and each byte of other such characters becomes `?`. */
void pl_put_text(pl_buf *record, uint16_t tag, const char *text);
void pl_put_hash(pl_buf *record, uint16_t tag, const pl_hash *hash);
void pl_put_bytes(pl_buf *record, uint16_t tag, const void *data, size_t len);

typedef struct pl_reader {
    const uint8_t *data;
    size_t len;
    /* name of the record in errors, for example "SUBMIT from worker-2" */
    const char *what;
    /* memory of `len` bytes for the texts of pl_get_word; NULL if it is not used */
    char *texts;
    pl_status status;
    /* where the last search ended, so that a list is read in one pass; seek_at 0: there
     * was no search */
    size_t seek_at, seek_index;
    uint16_t seek_tag;
} pl_reader;

/* Checks the tags and lengths of all fields at once. `what` and `data` are borrowed. */
void pl_reader_open(pl_reader *reader, const char *what, const void *data, size_t len);
/* Opens the i-th field of this tag, which is itself a record. If `from` has failed, the
 * new reader has failed, too. */
void pl_reader_enter(pl_reader *reader, const char *what, pl_reader *from, uint16_t tag,
                     size_t i);
/* Returns ERR_PROTO if any call on this reader has failed. */
pl_status pl_reader_status(const pl_reader *reader);

/* Returns how many fields have this tag; the getters below read the i-th of them (0 for
 * a single field). If the field is missing or has a wrong size, a getter returns zero
 * and the reader has failed. */
size_t pl_field_count(const pl_reader *reader, uint16_t tag);
uint64_t pl_get_u64(pl_reader *reader, uint16_t tag, size_t i);
double pl_get_f64(pl_reader *reader, uint16_t tag, size_t i);
pl_hash pl_get_hash(pl_reader *reader, uint16_t tag, size_t i);
const uint8_t *pl_get_bytes(pl_reader *reader, uint16_t tag, size_t i, size_t *len);
/* Copies text into `out`, which is always NUL-terminated. Fails if the text is too long
 * for `out`, is not UTF-8, or has control characters (pl_utf8_steers). Therefore a
 * caller can show, log and compare the text without further checks. */
void pl_get_text(pl_reader *reader, uint16_t tag, size_t i, char *out, size_t out_size);
/* Like pl_get_text, for a text of at most `size` - 1 bytes, but returns a pointer into
 * the reader's `texts`; "" after a failure. */
const char *pl_get_word(pl_reader *reader, uint16_t tag, size_t i, size_t size);

PL_C_END
