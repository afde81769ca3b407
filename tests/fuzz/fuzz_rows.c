/* folder: store
 *
 * Fuzzes rows of a store. An input is a mode (1 byte), the family of the row (1 byte),
 * and more bytes. If the mode is odd, these bytes are the fields of the row, and the
 * target adds the version and the checksum (row_seal). If the mode is even, the bytes
 * are the whole value. */
#include "store/store_internal.h"
#include "tests/fuzz/fuzz.h"

static void decode(kv_family family, row_view *row)
{
    pl_version version = {.number = 0};
    pl_contribution contribution;
    pl_path_state path;
    pl_object object;
    head_record head;
    blob_record blob = {.bytes = 0};
    chunk_record chunk;
    log_record log;
    pl_buf target = {0};
    char name[PL_MODULE_NAME_MAX];
    switch (family) {
    case KV_VERSION:
        (void)version_decode(row, &version);
        pl_version_clear(&version);
        break;
    case KV_PENDING:
        (void)contribution_decode(row, &contribution);
        break;
    case KV_PATH:
        (void)path_decode(row, &path);
        break;
    case KV_OBJECT:
        (void)object_decode(row, &object);
        break;
    case KV_HEAD:
        (void)head_decode(row, &head);
        break;
    case KV_BLOB:
        (void)blob_decode(row, &blob);
        pl_buf_destroy(&blob.chunks);
        break;
    case KV_CHUNK:
        (void)chunk_decode(row, &chunk);
        break;
    case KV_LOG:
        (void)log_decode(row, &log);
        break;
    case KV_REF:
    case KV_DEFAULT:
    case KV_META:
    case KV_PACK:
    case KV_FAMILY_COUNT:
    default:
        (void)ref_decode(row, name, &target);
        pl_buf_destroy(&target);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    static const kv_family families[] = {KV_VERSION, KV_PENDING, KV_PATH,
                                         KV_OBJECT,  KV_HEAD,    KV_BLOB,
                                         KV_CHUNK,   KV_LOG,     KV_REF};
    row_view row;
    pl_buf fields = {0}, value = {0};
    if (len < 2)
        return 0;
    kv_family family = families[input[1] % (sizeof families / sizeof *families)];
    row_key key = key_of_name("mix/L1.E0");
    pl_buf_append(&fields, input + 2, len - 2);
    if (input[0] & 1)
        row_seal(family, key_slice(&key), &fields, &value);
    else
        pl_buf_append(&value, fields.data, fields.len);
    if (row_open(family, key_slice(&key), (kv_slice){value.data, value.len}, &row) ==
        PL_OK)
        decode(family, &row);
    pl_buf_destroy(&fields);
    pl_buf_destroy(&value);
    return 0;
}

/* Gives records with fields of every type at every tag, so that decoders find the
 * fields that they ask for. */
static void seed_fields(void (*give)(const void *, size_t), uint8_t family, int kind)
{
    pl_buf seed = {0}, fields = {0};
    pl_hash hash = {{3}};
    for (uint16_t tag = 1; tag <= 17; tag++) {
        if ((kind + tag) % 4 == 0)
            pl_put_text(&fields, tag, "mix/L1.E0");
        else if ((kind + tag) % 4 == 1)
            pl_put_u64(&fields, tag, tag);
        else if ((kind + tag) % 4 == 2)
            pl_put_hash(&fields, tag, &hash);
        else
            pl_put_f64(&fields, tag, 1.5);
    }
    pl_buf_append(&seed, "\1", 1);
    pl_buf_append(&seed, &family, 1);
    pl_buf_append(&seed, fields.data, fields.len);
    give(seed.data, seed.len);
    pl_buf_destroy(&fields);
    pl_buf_destroy(&seed);
}

static void put_contribution(pl_buf *out)
{
    pl_hash hash = {{4}};
    pl_put_text(out, 1, "worker-1");
    pl_put_text(out, 2, "cpu");
    for (uint16_t tag = 3; tag <= 8; tag++)
        pl_put_u64(out, tag, tag);
    for (uint16_t tag = 9; tag <= 12; tag++)
        pl_put_f64(out, tag, 0.5);
    pl_put_u64(out, 13, 77);
    pl_put_text(out, 14, "bf16");
    pl_put_hash(out, 15, &hash);
    pl_put_u64(out, 16, 1000);
}

/* Gives a version with two contributions as version_write writes it, and a pending
 * contribution. */
static void seed_version(void (*give)(const void *, size_t))
{
    pl_buf seed = {0}, nested = {0};
    pl_hash hash = {{5}};
    pl_buf_append(&seed, "\1\0", 2);
    pl_put_text(&seed, 1, "mix/L1.E0");
    pl_put_u64(&seed, 2, 3);
    for (uint16_t tag = 3; tag <= 6; tag++)
        pl_put_hash(&seed, tag, &hash);
    pl_put_text(&seed, 7, "nesterov");
    pl_put_f64(&seed, 8, 0.7);
    pl_put_f64(&seed, 9, 0.9);
    pl_put_u64(&seed, 10, 1000);
    pl_put_f64(&seed, 11, 1);
    pl_put_f64(&seed, 12, 1);
    pl_put_u64(&seed, 13, 5);
    pl_put_u64(&seed, 14, 6);
    put_contribution(&nested);
    pl_put_bytes(&seed, 15, nested.data, nested.len);
    pl_put_bytes(&seed, 15, nested.data, nested.len);
    give(seed.data, seed.len);
    pl_buf_clear(&seed);
    pl_buf_append(&seed, "\1\1", 2);
    pl_buf_append(&seed, nested.data, nested.len);
    give(seed.data, seed.len);
    pl_buf_destroy(&seed);
    pl_buf_destroy(&nested);
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    seed_version(give);
    for (uint8_t family = 0; family < 9; family++)
        for (int kind = 0; kind < 4; kind++)
            seed_fields(give, family, kind);
}
