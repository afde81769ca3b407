/* folder: store; label: unit */
#include "store/records.h"
#include "tests/support/store_fixture.h"

/* Tests the bytes of one record of each column family. docs/PROTOCOL.md section 4
 * defines them. If these bytes change, the store's format needs a new number. */
static const struct {
    kv_family family;
    const char *hex;
} GOLDEN[] = {
    {KV_LOG, "010100200000008888888888888888888888888888888888888888888888888888888888"
             "888888020020000000999999999999999999999999999999999999999999999999999999"
             "999999999903000800000005000000000000000400080000007b68e5cf8b010000050008"
             "0000000200000000000000060020000000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             "aaaaaaaaaaaaaaaaaaaaaaaaaa262501ba20c63fed"},
    {KV_VERSION,
     "010100090000006d69782f4c312e45300200080000000800000000000000030020000000"
     "111111111111111111111111111111111111111111111111111111111111111104002000"
     "000022222222222222222222222222222222222222222222222222222222222222220500"
     "200000003333333333333333333333333333333333333333333333333333333333333333"
     "060020000000444444444444444444444444444444444444444444444444444444444444"
     "44440700080000006e65737465726f76080008000000666666666666e63f090008000000"
     "cdccccccccccec3f0a0008000000e2040000000000000b00080000000000000000002940"
     "0c0008000000000000000000e03f0d00080000007b68e5cf8b0100000e00080000006300"
     "0000000000000f00ef000000010008000000776f726b65722d3202000300000063707503"
     "000800000003000000000000000400080000000100000000000000050008000000070000"
     "000000000006000800000080020000000000000700080000004000000000000000080008"
     "000000c01f00000000000009000800000000000000000015400a00080000000000000000"
     "00c03f0b000800000000000000000004400c0008000000000000000000fc3f0d00080000"
     "004d000000000000000e0004000000626631360f0020000000cccccccccccccccccccccc"
     "cccccccccccccccccccccccccccccccccccccccccc100008000000001000000000000013"
     "00080000000000000000000000121478b7f8ba9d5f"},
    {KV_HEAD, "01010008000000080000000000000002000800000007000000000000004ba19c9e8accf1"
              "eb"},
    {KV_PENDING,
     "01010008000000776f726b65722d32020003000000637075030008000000030000000000"
     "000004000800000001000000000000000500080000000700000000000000060008000000"
     "80020000000000000700080000004000000000000000080008000000c01f000000000000"
     "09000800000000000000000015400a0008000000000000000000c03f0b00080000000000"
     "0000000004400c0008000000000000000000fc3f0d00080000004d000000000000000e00"
     "04000000626631360f0020000000cccccccccccccccccccccccccccccccccccccccccccc"
     "cccccccccccccccccccc1000080000000010000000000000947d844851cca8e7"},
    {KV_PATH, "0101000a0000006d69782f7030332e723102000800000008000000000000000300080000"
              "00c002000000000000040008000000905f01000000000005000800000000000000000014"
              "400600080000000000000000000c40070020000000555555555555555555555555555555"
              "5555555555555555555555555555555555080008000000776f726b65722d32040a45a377"
              "59161e"},
    {KV_OBJECT,
     "0101000700000061726d2f6d697802002000000066666666666666666666666666666666"
     "666666666666666666666666666666660300080000002c010000000000005160853f0c0b"
     "0087"},
    {KV_REF,
     "010100040000006265737402000b0000006d69782f4c312e45304038ad89b649b1195604"},
    {KV_BLOB, "010100080000000100100000000000020008000000020000000000000003004000000001"
              "010101010101010101010101010101010101010101010101010101010101010202020202"
              "0202020202020202020202020202020202020202020202020202020e60bd65b690eb7d"},
    {KV_CHUNK,
     "010100080000006300000000000000020008000000040000000000000003000800000000"
     "001000000000000400080000000300000000000000dab546332edfdb24"},
};

static pl_hash hash_of_byte(uint8_t byte)
{
    pl_hash hash;
    memset(hash.bytes, byte, sizeof hash.bytes);
    return hash;
}

static pl_contribution example_contribution(void)
{
    pl_contribution c = {.worker = "worker-2",
                         .device = "cpu",
                         .path = 3,
                         .replica = 1,
                         .phase = 7,
                         .work.first_sample = 640,
                         .work.n_samples = 64,
                         .work.n_tokens = 8128,
                         .work.loss = 5.25,
                         .norm = 0.125,
                         .weight = 2.5,
                         .work.seconds = 1.75,
                         .token = 77,
                         .codec = "bf16",
                         .update = hash_of_byte(0xcc),
                         .update_bytes = 4096};
    return c;
}

static pl_version example_version(pl_contribution *list)
{
    pl_version v = {.module = "mix/L1.E0",
                    .number = 8,
                    .params = hash_of_byte(0x11),
                    .momentum = hash_of_byte(0x22),
                    .parent = hash_of_byte(0x33),
                    .config = hash_of_byte(0x44),
                    .method = "nesterov",
                    .lr = 0.7,
                    .outer_momentum = 0.9,
                    .n_params = 1250,
                    .params_norm = 12.5,
                    .update_norm = 0.5,
                    .wall_ms = 1700000000123,
                    .sequence = 99,
                    .n_contributions = 1,
                    .contributions = list};
    return v;
}

/* Writes one row of each family into a batch. Sets `keys` to the keys of these rows. */
static void write_examples(kv_batch *batch, row_key keys[KV_FAMILY_COUNT])
{
    pl_contribution c = example_contribution();
    pl_version v = example_version(&c);
    pl_path_state path = {.name = "mix/p03.r1",
                          .phase = 8,
                          .work.n_samples = 704,
                          .work.n_tokens = 90000,
                          .work.loss = 5.0,
                          .work.seconds = 3.5,
                          .moments = hash_of_byte(0x55),
                          .worker = "worker-2"};
    pl_object object = {.name = "arm/mix", .blob = hash_of_byte(0x66), .bytes = 300};
    pl_hash id = hash_of_byte(0x77);
    blob_record blob = {.bytes = PL_CHUNK_BYTES + 1, .refs = 2};
    chunk_record chunk = {.pack = 99, .bytes = PL_CHUNK_BYTES, .refs = 3, .number = 4};
    log_record entry = {hash_of_byte(0x88), hash_of_byte(0x99), 5, 1700000000123, 2,
                        hash_of_byte(0xaa)};
    pl_hash log;
    for (uint8_t i = 1; i <= 2; i++)
        pl_buf_append(&blob.chunks, hash_of_byte(i).bytes, PL_HASH_BYTES);
    version_write(batch, &v);
    pending_write(batch, "mix/L1.E0", &c);
    head_write(batch, "mix/L1.E0", &(head_record){8, 7, 0});
    path_write(batch, &path);
    object_write(batch, &object);
    ref_write(batch, "best", "mix/L1.E0@8");
    blob_write(batch, &id, &blob);
    chunk_write(batch, &id, &chunk);
    log_write(batch, 99, &entry, &log);
    keys[KV_LOG] = key_of_number(99);
    keys[KV_VERSION] = key_of_version("mix/L1.E0", 8);
    keys[KV_PENDING] = key_of_pending("mix/L1.E0", &c);
    keys[KV_HEAD] = key_of_name("mix/L1.E0");
    keys[KV_PATH] = key_of_name("mix/p03.r1");
    keys[KV_OBJECT] = key_of_name("arm/mix");
    keys[KV_REF] = key_of_name("best");
    keys[KV_BLOB] = keys[KV_CHUNK] = key_of_hash(&id);
    pl_buf_destroy(&blob.chunks);
}

typedef struct example_rows {
    kv *db;
    kv_batch *batch;
    row_key keys[KV_FAMILY_COUNT];
    char *folder;
} example_rows;

static int open_rows(void **state)
{
    static example_rows rows;
    char path[PL_PATH_MAX];
    void *folder;
    if (make_folder(&folder) != 0 ||
        kv_open(pl_join(path, folder, "db"), KV_MAKE, NULL, &rows.db) != PL_OK)
        return -1;
    rows.folder = folder;
    rows.batch = kv_batch_create(rows.db);
    write_examples(rows.batch, rows.keys);
    *state = &rows;
    return 0;
}

static int close_rows(void **state)
{
    example_rows *rows = *state;
    void *folder = rows->folder;
    kv_batch_destroy(&rows->batch);
    kv_close(&rows->db, false);
    return drop_folder(&folder);
}

/* The hash was computed with Python's hashlib, from the definition in PROTOCOL 4.6. */
PL_TEST(the_sum_of_rows_does_not_depend_on_their_order)
{
    const kv_slice fence = {"fenced/x", 8}, value = {"value", 5},
                   path = {"mix/p00.r0", 10}, row = {"state", 5}, old = {"old", 3};
    row_sum sum = {0};
    pl_hash hash;
    char text[PL_HASH_TEXT];
    row_sum_change(&sum, KV_PATH, path, old, true);
    row_sum_change(&sum, KV_REF, fence, value, true);
    row_sum_change(&sum, KV_PATH, path, old, false);
    row_sum_change(&sum, KV_PATH, path, row, true);
    row_sum_change(&sum, KV_META, path, row, true); /* is not summed */
    hash = row_sum_hash(&sum);
    pl_hash_format(&hash, text);
    assert_string_equal(
        text, "604e1da9d43891536eece6f621806597da5e2de666c2abe3911c79cef43e9d24");
}

#define ROW_TEST(name) PL_TEST_ON(name, example_rows *rows, open_rows, close_rows)

ROW_TEST(the_bytes_of_every_record_are_fixed)
{
    for (size_t i = 0; i < sizeof GOLDEN / sizeof *GOLDEN; i++) {
        kv_pin pin;
        OWNED(pl_buf_destroy) pl_buf hex = {0};
        kv_family family = GOLDEN[i].family;
        assert_ok(
            kv_batch_get(rows->batch, family, key_slice(&rows->keys[family]), &pin));
        for (size_t b = 0; b < pin.len; b++)
            pl_buf_printf(&hex, "%02x", pin.data[b]);
        if (strcmp(pl_buf_text(&hex), GOLDEN[i].hex) != 0)
            print_error("%s\n", kv_family_name(family));
        assert_string_equal(pl_buf_text(&hex), GOLDEN[i].hex);
        kv_unpin(&pin);
    }
}

ROW_TEST(what_a_home_noted_of_an_update_comes_back)
{
    row_source from = {.db = rows->db, .batch = rows->batch};
    pl_contribution c = example_contribution();
    OWNED(pl_version_clear) pl_version v;
    pl_version made = example_version(&c);
    bool found = false;
    made.number = 9;
    memset(&c.work, 1, sizeof c.work); /* every number of the phase is measured */
    version_write(rows->batch, &made);
    assert_ok(version_read(from, "mix/L1.E0", 9, &v, &found));
    assert_true(found && v.n_contributions == 1);
    assert_memory_equal(&v.contributions[0], &c, sizeof c);
}

ROW_TEST(old_bytes_decode_to_what_was_meant)
{
    row_source from = {.db = rows->db, .batch = rows->batch};
    OWNED(pl_version_clear) pl_version v;
    head_record head;
    blob_record blob;
    chunk_record chunk;
    bool found = false;
    assert_ok(version_read(from, "mix/L1.E0", 8, &v, &found));
    assert_true(found && v.n_contributions == 1 && v.sequence == 99);
    pl_contribution meant = example_contribution();
    assert_memory_equal(&v.contributions[0], &meant, sizeof meant);
    assert_ok(head_read(from, "mix/L1.E0", &head, &found));
    assert_true(head.number == 8 && head.momentum_from == 7);
    pl_hash id = hash_of_byte(0x77);
    assert_ok(blob_read(from, &id, &blob));
    assert_true(blob.bytes == PL_CHUNK_BYTES + 1 && blob.refs == 2);
    assert_int_equal(blob.chunks.len, 2 * PL_HASH_BYTES);
    pl_buf_destroy(&blob.chunks);
    assert_ok(chunk_read(from, &id, &chunk));
    assert_true(chunk.pack == 99 && chunk.number == 4 && chunk.refs == 3);
}

/* A state that was not uploaded has an age and a hash, and is not older than its
 * path. */
ROW_TEST(a_state_of_an_impossible_age_is_damage)
{
    row_source from = {.db = rows->db, .batch = rows->batch};
    static const struct {
        int64_t repeats;
        bool named;
        pl_status status;
    } cases[] = {{0, false, PL_OK},          {3, true, PL_OK},
                 {8, true, PL_OK},           {9, true, PL_ERR_DAMAGED},
                 {-1, true, PL_ERR_DAMAGED}, {3, false, PL_ERR_DAMAGED},
                 {0, true, PL_ERR_DAMAGED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pl_path_state path = {.name = "mix/p03.r1",
                              .phase = 8,
                              .repeats = cases[i].repeats,
                              .made = hash_of_byte(cases[i].named ? 0x12 : 0)},
                      read;
        row_view row;
        row_key key = key_of_name(path.name);
        path_write(rows->batch, &path);
        assert_ok(row_read(from, KV_PATH, &key, &row));
        assert_int_equal(path_decode(&row, &read), cases[i].status);
        if (cases[i].status == PL_OK)
            assert_true(read.repeats == path.repeats &&
                        pl_hash_equal(&read.made, &path.made));
    }
}

/* A measurement that is in pl_work, but not in the table of paths, would be lost when
 * the home starts again. */
ROW_TEST(a_path_keeps_all_numbers_but_those_of_workers)
{
    row_source from = {.db = rows->db, .batch = rows->batch};
    pl_path_state path = {.name = "mix/p03.r1"}, read;
    row_view row;
    row_key key = key_of_name(path.name);
    memset(&path.work, 1, sizeof path.work);
    memset(&read, 2, sizeof read);
    path_write(rows->batch, &path);
    assert_ok(row_read(from, KV_PATH, &key, &row));
    assert_ok(path_decode(&row, &read));
    for (int i = 0; i < PL_WORK_N_MEASURES; i++) {
        const pl_work_measure *m = &pl_work_measures[i];
        assert_true(
            pl_work_value(&read.work, m) ==
            (m->views == PL_WORK_OF_WORKERS ? 0 : pl_work_value(&path.work, m)));
    }
}

/* Opens a row and closes it without reading its fields. */
static pl_status look(kv_family family, kv_slice key, const uint8_t *bytes, size_t len)
{
    row_view row;
    PL_CHECK(row_open(family, key, (kv_slice){bytes, len}, &row));
    return row_end(&row);
}

ROW_TEST(any_truncation_any_flip_and_any_move_is_damage)
{
    for (size_t i = 0; i < sizeof GOLDEN / sizeof *GOLDEN; i++) {
        kv_pin pin;
        kv_family family = GOLDEN[i].family;
        row_key *key = &rows->keys[family];
        assert_ok(kv_batch_get(rows->batch, family, key_slice(key), &pin));
        OWNED(free_memory) uint8_t *copy = pl_alloc(pin.len);
        memcpy(copy, pin.data, pin.len);
        for (size_t len = 0; len < pin.len; len++)
            assert_int_equal(look(family, key_slice(key), copy, len), PL_ERR_DAMAGED);
        for (size_t bit = 0; bit < 8 * pin.len; bit++) {
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(look(family, key_slice(key), copy, pin.len),
                             PL_ERR_DAMAGED);
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_ok(look(family, key_slice(key), copy, pin.len));
        row_key other = key_of_name("another");
        assert_int_equal(look(family, key_slice(&other), copy, pin.len),
                         PL_ERR_DAMAGED);
        assert_int_equal(look(KV_META, key_slice(key), copy, pin.len), PL_ERR_DAMAGED);
        kv_unpin(&pin);
    }
}

/* Writes a record with wrong fields but a correct checksum, and returns the result of
 * reading it. */
static pl_status read_forged(example_rows *rows, kv_family family, pl_buf *fields)
{
    row_key key = rows->keys[family];
    row_view row;
    pl_version v;
    blob_record blob;
    row_source from = {.db = rows->db, .batch = rows->batch};
    row_write(rows->batch, family, &key, fields);
    PL_CHECK(row_read(from, family, &key, &row));
    if (family == KV_BLOB)
        return blob_decode(&row, &blob);
    pl_status status = version_decode(&row, &v);
    assert_null(v.contributions);
    return status;
}

ROW_TEST(a_forged_record_is_damage_not_a_crash)
{
    pl_buf fields = {0};
    assert_fails(read_forged(rows, KV_VERSION, &fields), PL_ERR_DAMAGED,
                 "version/mix/L1.E0:0000000000000008");
    /* Says that the blob has 2^64 - 1 bytes, but no chunks. */
    pl_put_u64(&fields, 1, UINT64_MAX);
    pl_put_u64(&fields, 2, 1);
    pl_put_bytes(&fields, 3, "", 0);
    assert_fails(read_forged(rows, KV_BLOB, &fields), PL_ERR_DAMAGED,
                 "its size and its chunks");
    pl_put_u64(&fields, 1, 5);
    pl_put_u64(&fields, 2, 1);
    pl_put_bytes(&fields, 3, "abc", 3);
    assert_int_equal(read_forged(rows, KV_BLOB, &fields), PL_ERR_DAMAGED);
}

ROW_TEST(a_record_of_a_newer_release_is_told_apart_from_damage)
{
    row_key key = key_of_name("best");
    OWNED(pl_buf_destroy) pl_buf fields = {0}, value = {0};
    pl_put_text(&fields, 1, "best");
    row_seal_as(2, KV_REF, key_slice(&key), &fields, &value);
    assert_fails(look(KV_REF, key_slice(&key), value.data, value.len),
                 PL_ERR_UNSUPPORTED, "version 2");
}

PL_TEST(keys_sort_as_numbers)
{
    row_key a = key_of_version("m", 255), b = key_of_version("m", 256);
    assert_true(memcmp(a.bytes, b.bytes, a.len) < 0);
    a = key_of_pack(1, UINT32_MAX);
    b = key_of_pack(2, 0);
    assert_true(memcmp(a.bytes, b.bytes, a.len) < 0);
    a = key_of_version("m", UINT64_MAX);
    b = key_of_version("m1", 0); /* all versions of m come before those of m1 */
    assert_true(memcmp(a.bytes, b.bytes, a.len < b.len ? a.len : b.len) < 0);
}
