/* folder: base; label: unit */
/* Tests records that are written and read by a table of fields. The bytes must be the
 * same as if each field was written by its own call. A record must be refused if a
 * field is missing, is too long, or has a value out of range. */
#include "base/base.h"
#include "tests/support/suite.h"

enum { COLOURS = 3 };

typedef struct item {
    char name[8];
    int64_t count;
} item;

typedef struct thing {
    uint64_t number;
    int small;
    double reals[2];
    bool flag, bits[2];
    uint8_t colours[2];
    char text[8];
    pl_hash hash;
    uint64_t seed;
    float cells[2];
    item *items;
    size_t n_items;
    bool has_rate;
    double rate;
} thing;

static const pl_field item_fields[] = {PL_FIELD(item, 1, name),
                                       PL_FIELD(item, 2, count), PL_FIELDS_END};
static const pl_field thing_fields[] = {
    PL_FIELD(thing, 1, number),
    PL_FIELD(thing, 2, small),
    PL_FIELD(thing, 3, reals),
    PL_FIELD_NONZERO(thing, 4, flag),
    PL_FIELD_BIT(thing, 5, bits[0], 0),
    PL_FIELD_BIT(thing, 5, bits[1], 4),
    PL_FIELD_CHOICE(thing, 6, colours, COLOURS),
    PL_FIELD(thing, 7, text),
    PL_FIELD_NONZERO(thing, 8, hash),
    PL_FIELD_NONZERO(thing, 9, seed),
    PL_FIELD_GATED(thing, 10, cells, seed),
    PL_FIELD_LIST(thing, 11, items, n_items, item_fields),
    PL_FIELD_GATED(thing, 12, rate, has_rate),
    PL_FIELDS_END};

static item two[] = {{"a", 1}, {"b", -1}};
static const thing full = {.number = 1ull << 60,
                           .small = -7,
                           .reals = {0.5, -2},
                           .flag = true,
                           .bits = {true, true},
                           .colours = {2, 1},
                           .text = "text",
                           .hash = {{9}},
                           .seed = 5,
                           .items = two,
                           .n_items = 2,
                           .has_rate = true};

static void put_by_hand(pl_buf *out)
{
    pl_put_u64(out, 1, 1ull << 60);
    pl_put_u64(out, 2, (uint64_t)-7);
    pl_put_f64(out, 3, 0.5);
    pl_put_f64(out, 3, -2);
    pl_put_u64(out, 4, 1);
    pl_put_u64(out, 5, 17);
    pl_put_u64(out, 6, 2);
    pl_put_u64(out, 6, 1);
    pl_put_text(out, 7, "text");
    pl_put_hash(out, 8, &full.hash);
    pl_put_u64(out, 9, 5);
    pl_put_bytes(out, 10, full.cells, sizeof full.cells);
    for (size_t i = 0; i < 2; i++) {
        OWNED(pl_buf_destroy) pl_buf nested = {0};
        pl_put_text(&nested, 1, two[i].name);
        pl_put_u64(&nested, 2, (uint64_t)two[i].count);
        pl_put_bytes(out, 11, nested.data, nested.len);
    }
    pl_put_f64(out, 12, 0);
}

static pl_status read_thing(const pl_buf *bytes, size_t len, thing *out)
{
    pl_reader r;
    pl_reader_open(&r, "a thing", bytes->data, len);
    memset(out, 0xff, sizeof *out); /* a missing field must not keep its old value */
    out->items = NULL;
    pl_get_fields(&r, thing_fields, out);
    pl_free(out->items);
    return pl_reader_status(&r);
}

PL_TEST(a_table_writes_what_is_written_field_by_field)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0}, expected = {0};
    pl_put_fields(&bytes, thing_fields, &full);
    put_by_hand(&expected);
    assert_same_bytes(bytes, expected);
}

PL_TEST(reading_gives_back_what_was_written)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0}, again = {0};
    pl_reader r;
    thing got = {0};
    pl_put_fields(&bytes, thing_fields, &full);
    pl_reader_open(&r, "a thing", bytes.data, bytes.len);
    pl_get_fields(&r, thing_fields, &got);
    assert_ok(pl_reader_status(&r));
    assert_int_equal(got.small, -7);
    assert_int_equal(got.items[1].count, -1);
    assert_true(got.has_rate);
    pl_put_fields(&again, thing_fields, &got);
    assert_same_bytes(again, bytes);
    pl_free(got.items);
}

PL_TEST(a_field_that_may_be_missing_is_zero_then)
{
    const thing bare = {.text = "x"};
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    thing got;
    pl_put_fields(&bytes, thing_fields, &bare);
    assert_ok(read_thing(&bytes, bytes.len, &got));
    assert_false(got.flag);
    assert_false(got.has_rate);
    assert_int_equal(got.seed, 0);
    assert_true(pl_hash_none(&got.hash));
    assert_int_equal(got.n_items, 0);
    assert_true(got.cells[1] == 0 && got.rate == 0);
}

PL_TEST(every_other_field_is_needed)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    thing got;
    put_by_hand(&bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        pl_status status = read_thing(&bytes, len, &got);
        if (status == PL_OK) /* only fields that may be missing are cut off */
            assert_true(got.colours[0] == 2 && strcmp(got.text, "text") == 0);
    }
}

/* Replaces the bytes of one field of a complete record. Reading the record must fail
 * with an error that contains `why`. */
static void refuses(uint16_t tag, const void *value, size_t len, const char *why)
{
    OWNED(pl_buf_destroy) pl_buf good = {0}, bad = {0};
    pl_reader r;
    thing got;
    put_by_hand(&good);
    pl_reader_open(&r, "good", good.data, good.len);
    for (uint16_t t = 1; t <= 12; t++)
        for (size_t i = 0; i < pl_field_count(&r, t); i++) {
            size_t n = 0;
            const uint8_t *bytes = pl_get_bytes(&r, t, i, &n);
            pl_put_bytes(&bad, t, t == tag && i == 0 ? value : bytes,
                         t == tag && i == 0 ? len : n);
        }
    assert_fails(read_thing(&bad, bad.len, &got), PL_ERR_PROTO, why);
}

PL_TEST(what_does_not_fit_its_member_is_refused)
{
    const uint64_t wide = 1ull << 31, colour = COLOURS;
    refuses(1, "1234567", 7, "field 1 has a wrong size");
    refuses(2, &wide, 8, "field 2 is out of range");
    refuses(6, &colour, 8, "field 6 is out of range (3)");
    refuses(7, "12345678", 8, "field 7 is too long");
    refuses(8, "short", 5, "field 8 has a wrong size");
    refuses(10, "short", 5, "field 10 has a wrong size");
    refuses(11, "short", 5, "cut off");
}

/* ---- messages: members of a struct that point into the message ---- */
typedef struct note {
    const char *first, *empty, *last, *absent;
    const uint8_t *key;
    pl_bytes bytes;
    pl_items names, numbers;
} note;

enum { TEXT_LIMIT = 8, KEY_BYTES = 4, BYTES_LIMIT = 5 };
#define NOTE_FIELD(tag, member, rule, limit)                                           \
    {                                                                                  \
        tag, PL_KIND_OF(note, member), rule, limit, PL_FIELD_ROW(note, member)         \
    }
static const pl_field note_fields[] = {
    NOTE_FIELD(1, first, PL_RULE_NEEDED, TEXT_LIMIT),
    NOTE_FIELD(2, empty, PL_RULE_NEEDED, TEXT_LIMIT),
    NOTE_FIELD(3, absent, PL_RULE_NONZERO, TEXT_LIMIT),
    NOTE_FIELD(4, key, PL_RULE_NONZERO, KEY_BYTES),
    NOTE_FIELD(5, bytes, PL_RULE_NONZERO, BYTES_LIMIT),
    NOTE_FIELD(6, names, PL_RULE_NEEDED, TEXT_LIMIT),
    NOTE_FIELD(7, numbers, PL_RULE_NEEDED, 0),
    NOTE_FIELD(8, last, PL_RULE_NEEDED, TEXT_LIMIT),
    PL_FIELDS_END};

static void say_note(pl_message *m, const char *last, size_t n_bytes)
{
    static const char names[][TEXT_LIMIT] = {"one", "two"};
    static const uint64_t numbers[] = {7, 8, 9};
    pl_message_init(m, 0);
    pl_message_put(m, 9, note_fields,
                   &(note){.first = "first",
                           .empty = "",
                           .last = last,
                           .key = (const uint8_t *)"1234",
                           .bytes = {"123456", n_bytes},
                           .names = PL_ITEMS(names, 2),
                           .numbers = PL_ITEMS(numbers, 3)});
}

PL_TEST(texts_of_a_message_are_terminated_and_last_as_long_as_it)
{
    OWNED(pl_message_destroy) pl_message m;
    pl_reader r;
    note got, again;
    char name[TEXT_LIMIT];
    say_note(&m, "at last", BYTES_LIMIT);
    assert_int_equal(m.type, 9);
    for (int i = 0; i < 2; i++) /* reading again gives the same pointers */
        assert_ok(pl_message_get(&m, "note", note_fields, i ? &again : &got));
    assert_ptr_equal(got.last, again.last);
    assert_string_equal(got.first, "first");
    assert_string_equal(got.empty, "");
    assert_string_equal(got.last, "at last");
    assert_null(got.absent);
    assert_memory_equal(got.key, "1234", KEY_BYTES);
    assert_int_equal(got.bytes.len, BYTES_LIMIT);
    assert_memory_equal(got.bytes.at, "12345", BYTES_LIMIT);
    assert_int_equal(got.names.n, 2);
    pl_reader_open(&r, "note", m.body.data, m.body.len);
    pl_get_text(&r, 6, 1, name, sizeof name);
    assert_string_equal(name, "two");
    assert_int_equal(pl_get_u64(&r, 7, 2), 9);
}

PL_TEST(a_message_with_a_field_that_is_too_long_is_refused)
{
    OWNED(pl_message_destroy) pl_message m;
    note got;
    say_note(&m, "too long", 1);
    assert_int_equal(pl_message_get(&m, "note", note_fields, &got), PL_ERR_PROTO);
    assert_string_equal(pl_last_error(), "note: field 8 is too long");
    pl_message_destroy(&m);
    say_note(&m, "", BYTES_LIMIT + 1);
    assert_fails(pl_message_get(&m, "note", note_fields, &got), PL_ERR_PROTO,
                 "note: field 5 has a wrong size");
}
