/* Writes structs as records and reads them back. A table says which field of the record
 * belongs to which member of the struct. Writing and reading use the same table.
 *
 *   static const pl_field object_fields[] = {PL_FIELD(pl_object, 1, name),
 *                                            PL_FIELD(pl_object, 2, blob),
 *                                            PL_FIELD(pl_object, 3, bytes),
 *                                            PL_FIELDS_END};
 *   pl_put_fields(&record, object_fields, &object);
 *   pl_get_fields(&reader, object_fields, &object);
 *
 * The type of a field follows from the type of the member:
 *
 *   uint64_t, int64_t, double       u64 (a double's IEEE bits)
 *   int                             u64; reading refuses a value that does not fit
 *   bool                            u64, 1 or 0
 *   char[N]                         text of at most N - 1 bytes
 *   pl_hash, uint8_t[N], float[N]   exactly the member's bytes
 *
 * In structs of messages, pointers point into the message that was read:
 *
 *   const char *                    text of less than `limit` bytes
 *   const uint8_t *                 exactly `limit` bytes
 *   pl_bytes                        at most `limit` bytes
 *   pl_items                        a list; the caller reads its items one by one with
 *                                   the getters of record.h
 *
 * A NULL pointer counts as zero in the rules below (PL_RULE_...).
 *
 * An array of numbers becomes several fields with the same tag: the i-th number is the
 * i-th field. Several rows may also have the same tag: the i-th row is the i-th field.
 * The rows of a table must be in rising order of tags, like the fields of a record. */
#pragma once
#include "base/record.h"
PL_C_BEGIN

typedef enum pl_field_kind {
    PL_KIND_NUMBER, /* 8 bytes */
    PL_KIND_INT,
    PL_KIND_BOOL,
    PL_KIND_CHOICE, /* an unsigned number; reading refuses `limit` and above */
    /* a bool, stored as bit number `limit` of a u64 that all rows of this tag share */
    PL_KIND_BIT,
    PL_KIND_TEXT,
    PL_KIND_BYTES,
    /* nested records; the member is a pointer to memory that reading allocates */
    PL_KIND_LIST,
    PL_KIND_WORD, /* this kind and the next three: pointers into a message */
    PL_KIND_FIXED,
    PL_KIND_SPAN,
    PL_KIND_ITEMS
} pl_field_kind;

typedef enum pl_field_rule {
    PL_RULE_NEEDED,  /* reading fails if the field is missing */
    PL_RULE_NONZERO, /* a zero is not written, and a missing field is read as zero */
    /* the field is written if the member at `other` (the gate) is not zero; a missing
     * field is read as zero. Reading sets a bool gate to whether the field exists. */
    PL_RULE_GATED
} pl_field_rule;

typedef struct pl_field {
    uint16_t tag;
    uint8_t kind, rule;
    uint64_t limit;
    /* offset and size of the member; for a list the size of one item */
    uint32_t offset, size;
    uint32_t width;             /* size of one element if the member is an array */
    uint32_t other, other_size; /* offset and size of the gate, or of a list's count */
    /* for a list of nested records: their table, or a function that returns it */
    const struct pl_field *nested, *(*nested_of)(void);
} pl_field;

typedef struct pl_bytes {
    const void *at;
    size_t len;
} pl_bytes;

/* Items of one type, `stride` bytes apart: hashes, numbers, or terminated texts.
 * Reading a record sets only `n`. */
typedef struct pl_items {
    const void *at;
    size_t n, stride;
    bool texts;
} pl_items;
#define PL_IS_TEXT(item)                                                               \
    _Generic((item), char * : true, const char * : true, default : false)
#define PL_ITEMS(array, count)                                                         \
    (pl_items)                                                                         \
    {                                                                                  \
        (array), (size_t)(count), sizeof *(array), PL_IS_TEXT(*(array))                \
    }

/* Appends the fields of `from`, a struct of the type that the table describes. */
void pl_put_fields(pl_buf *record, const pl_field *fields, const void *from);
/* Appends the fields of `from` as a nested record. */
void pl_put_nested(pl_buf *record, uint16_t tag, const pl_field *fields,
                   const void *from);
/* Sets the members that the table names. The first failure is kept in the reader
 * (pl_reader_status). The caller frees lists, also after a failure. */
void pl_get_fields(pl_reader *reader, const pl_field *fields, void *to);

/* PL_MEMBER is used only in sizeof and _Generic, which do not evaluate it. cppcheck
 * would still report that NULL is used, so it gets a different form. */
#ifdef __cppcheck__
#define PL_MEMBER(type, member) (((type){0}).member)
#else
#define PL_MEMBER(type, member) (((type *)0)->member)
#endif
#define PL_KIND_OF(type, member)                                                       \
    _Generic(PL_MEMBER(type, member),                                                  \
        uint64_t: PL_KIND_NUMBER,                                                      \
        int64_t: PL_KIND_NUMBER,                                                       \
        double: PL_KIND_NUMBER,                                                        \
        double *: PL_KIND_NUMBER,                                                      \
        int: PL_KIND_INT,                                                              \
        int *: PL_KIND_INT,                                                            \
        bool: PL_KIND_BOOL,                                                            \
        char *: PL_KIND_TEXT,                                                          \
        uint8_t *: PL_KIND_BYTES,                                                      \
        float *: PL_KIND_BYTES,                                                        \
        pl_hash: PL_KIND_BYTES,                                                        \
        const char *: PL_KIND_WORD,                                                    \
        const uint8_t *: PL_KIND_FIXED,                                                \
        pl_bytes: PL_KIND_SPAN,                                                        \
        pl_items: PL_KIND_ITEMS)
#define PL_WIDTH_OF(type, member)                                                      \
    _Generic(PL_MEMBER(type, member),                                                  \
        double *: sizeof(double),                                                      \
        int *: sizeof(int),                                                            \
        uint8_t *: sizeof(uint8_t),                                                    \
        default: sizeof PL_MEMBER(type, member))

#define PL_FIELD_ROW(type, member)                                                     \
    .offset = offsetof(type, member), .size = sizeof PL_MEMBER(type, member),          \
    .width = PL_WIDTH_OF(type, member)
#define PL_FIELD_OTHER(type, member)                                                   \
    .other = offsetof(type, member), .other_size = sizeof PL_MEMBER(type, member)

#define PL_FIELD(type, tag, member)                                                    \
    {                                                                                  \
        (tag), PL_KIND_OF(type, member), PL_RULE_NEEDED, PL_FIELD_ROW(type, member)    \
    }
#define PL_FIELD_NONZERO(type, tag, member)                                            \
    {                                                                                  \
        (tag), PL_KIND_OF(type, member), PL_RULE_NONZERO, PL_FIELD_ROW(type, member)   \
    }
#define PL_FIELD_GATED(type, tag, member, gate)                                        \
    {                                                                                  \
        (tag), PL_KIND_OF(type, member), PL_RULE_GATED, PL_FIELD_ROW(type, member),    \
            PL_FIELD_OTHER(type, gate)                                                 \
    }
/* For an unsigned number, an enum, or bytes; reading refuses `count` and above. */
#define PL_FIELD_CHOICE(type, tag, member, count)                                      \
    {                                                                                  \
        (tag), PL_KIND_CHOICE, PL_RULE_NEEDED, (count), PL_FIELD_ROW(type, member)     \
    }
#define PL_FIELD_BIT(type, tag, member, bit)                                           \
    {                                                                                  \
        (tag), PL_KIND_BIT, PL_RULE_NEEDED, (bit), PL_FIELD_ROW(type, member)          \
    }
#define PL_FIELD_LIST(type, tag, member, n_member, fields)                             \
    {                                                                                  \
        (tag), PL_KIND_LIST, .offset = offsetof(type, member),                         \
                             .size = sizeof *PL_MEMBER(type, member),                  \
                             PL_FIELD_OTHER(type, n_member), .nested = (fields)        \
    }
#define PL_FIELDS_END                                                                  \
    {                                                                                  \
        0                                                                              \
    }

PL_C_END
