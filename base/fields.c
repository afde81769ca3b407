/* Writes structs as records and reads records into structs, as their tables say.
 *
 * A table is part of the program and trusted. The data of a record are not trusted, so
 * only the getters of record.c read them. If a field cannot be read, its member becomes
 * zero; the reader keeps the first failure. */
#include "base/fields.h"
#include <string.h>

enum { ITEMS_MAX = 1 << 20 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the lower bytes of a number are its first");

static void fail_field(pl_reader *r, const pl_field *f, const char *why,
                       uint64_t number)
{
    if (r->status == PL_OK)
        r->status = pl_fail(PL_ERR_PROTO, "%s: field %u %s (%lld)", r->what, f->tag,
                            why, (long long)number);
}

/* Returns how many fields the row describes: above 1 only for an array of numbers. */
static size_t n_elements(const pl_field *f)
{
    return f->kind <= PL_KIND_CHOICE ? f->size / f->width : 1;
}

/* ---- writing ---- */
static bool is_left_out(const pl_field *f, const uint8_t *base)
{
    bool gated = f->rule == PL_RULE_GATED;
    const uint8_t *at = base + (gated ? f->other : f->offset);
    size_t len = gated ? f->other_size : f->kind == PL_KIND_TEXT ? 1 : f->size;
    if (f->rule == PL_RULE_NEEDED)
        return false;
    for (size_t i = 0; i < len; i++)
        if (at[i] != 0)
            return false;
    return true;
}

void pl_put_nested(pl_buf *record, uint16_t tag, const pl_field *fields,
                   const void *from)
{
    pl_buf item = {0};
    pl_put_fields(&item, fields, from);
    pl_put_bytes(record, tag, item.data, item.len);
    pl_buf_destroy(&item);
}

static const pl_field *nested_of(const pl_field *f)
{
    return f->nested ? f->nested : f->nested_of();
}

static void put_field(pl_buf *record, const pl_field *f, const uint8_t *base)
{
    const uint8_t *at = base + f->offset;
    if (f->kind == PL_KIND_LIST) {
        const uint8_t *items;
        size_t n = 0;
        memcpy(&items, at, sizeof items);
        memcpy(&n, base + f->other, f->other_size);
        for (size_t i = 0; i < n; i++)
            pl_put_nested(record, f->tag, nested_of(f), items + i * f->size);
    } else if (f->kind == PL_KIND_TEXT)
        pl_put_text(record, f->tag, (const char *)at);
    else if (f->kind == PL_KIND_BYTES)
        pl_put_bytes(record, f->tag, at, f->size);
    else if (f->kind >= PL_KIND_WORD) {
        union {
            const char *word;
            pl_bytes span;
            pl_items items;
        } m = {NULL};
        memcpy(&m, at, f->size);
        const char *item = m.items.at;
        if (f->kind == PL_KIND_WORD)
            pl_put_text(record, f->tag, m.word);
        else if (f->kind != PL_KIND_ITEMS)
            pl_put_bytes(record, f->tag, m.span.at,
                         f->kind == PL_KIND_FIXED ? f->limit : m.span.len);
        else
            for (size_t i = 0; i < m.items.n; i++, item += m.items.stride)
                if (m.items.texts)
                    pl_put_text(record, f->tag, item);
                else
                    pl_put_bytes(record, f->tag, item, m.items.stride);
    } else
        for (size_t i = 0; i < n_elements(f); i++) {
            uint64_t number = 0;
            memcpy(&number, at + i * f->width, f->width);
            if (f->kind == PL_KIND_INT)
                number = (uint64_t)(int32_t)number;
            pl_put_u64(record, f->tag, number);
        }
}

void pl_put_fields(pl_buf *record, const pl_field *fields, const void *from)
{
    const uint8_t *base = from;
    uint64_t bits = 0;
    for (const pl_field *f = fields; f->tag; f++) {
        if (f->kind != PL_KIND_BIT) {
            if (!is_left_out(f, base))
                put_field(record, f, base);
            continue;
        }
        bits |= (uint64_t)base[f->offset] << f->limit;
        if (f[1].tag == f->tag)
            continue;
        pl_put_u64(record, f->tag, bits);
        bits = 0;
    }
}

/* ---- reading ---- */
static void get_field(pl_reader *r, const pl_field *f, size_t i, uint8_t *base)
{
    uint8_t *at = base + f->offset;
    if (f->kind == PL_KIND_LIST) {
        size_t n = pl_field_count(r, f->tag);
        if (n > ITEMS_MAX) {
            fail_field(r, f, "occurs too often", n);
            n = 0;
        }
        uint8_t *items = pl_alloc((n + 1) * f->size);
        memcpy(at, &items, sizeof items);
        memcpy(base + f->other, &n, f->other_size);
        for (size_t k = 0; k < n; k++) {
            pl_reader item;
            pl_reader_enter(&item, r->what, r, f->tag, k);
            pl_get_fields(&item, nested_of(f), items + k * f->size);
            r->status = pl_reader_status(&item);
        }
    } else if (f->kind == PL_KIND_TEXT)
        pl_get_text(r, f->tag, i, (char *)at, f->size);
    else if (f->kind == PL_KIND_WORD)
        memcpy(at, &(const char *){pl_get_word(r, f->tag, i, f->limit)}, f->size);
    else if (f->kind == PL_KIND_ITEMS)
        memcpy(at, &(pl_items){.n = pl_field_count(r, f->tag)}, f->size);
    else if (f->kind == PL_KIND_BYTES || f->kind >= PL_KIND_FIXED) {
        pl_bytes span;
        span.at = pl_get_bytes(r, f->tag, i, &span.len);
        const bool is_copied = f->kind == PL_KIND_BYTES;
        const size_t most = is_copied ? f->size : f->limit;
        const bool fits = f->kind == PL_KIND_SPAN ? span.len <= most : span.len == most;
        if (span.at && !fits)
            fail_field(r, f, "has a wrong size", span.len);
        memset(at, 0, f->size);
        if (span.at && fits)
            memcpy(at, is_copied ? span.at : &span, f->size);
    } else if (f->kind == PL_KIND_BIT)
        *at = pl_get_u64(r, f->tag, 0) >> f->limit & 1;
    else
        for (size_t k = 0; k < n_elements(f); k++) {
            uint64_t number = pl_get_u64(r, f->tag, i + k);
            if (f->kind == PL_KIND_BOOL)
                number = number != 0;
            else if (f->kind == PL_KIND_INT ? number != (uint64_t)(int32_t)number
                                            : f->limit > 0 && number >= f->limit) {
                fail_field(r, f, "is out of range", number);
                number = 0;
            }
            memcpy(at + k * f->width, &number, f->width);
        }
}

void pl_get_fields(pl_reader *r, const pl_field *fields, void *to)
{
    uint8_t *base = to;
    size_t i = 0;
    for (const pl_field *f = fields; f->tag; f++) {
        i = f > fields && f[-1].tag == f->tag ? i + n_elements(f - 1) : 0;
        bool is_there = f->rule == PL_RULE_NEEDED || pl_field_count(r, f->tag) > i;
        if (is_there)
            get_field(r, f, i, base);
        else
            memset(base + f->offset, 0, f->size);
        if (f->rule == PL_RULE_GATED && f->other_size == sizeof(bool))
            base[f->other] = is_there;
    }
}
