/* Encodes a prefix model as bytes and decodes it (docs/PROTOCOL.md section 6). */
#include "router/prefix_lm.h"

enum {
    TAG_FORMAT = 1,
    TAG_VOCAB,
    TAG_PATHS,
    TAG_ROWS,
    TAG_BUCKETS, /* buckets as u32 in rising order, as compressed byte planes */
    TAG_TOKENS,  /* counts as u32, compressed in the same way */
    TAG_PAIRS,
    TAG_CHECKSUM = 0xffff /* the last field: the hash of all bytes before it */
};
enum { FORMAT = 2, CHECKSUM_FIELD_BYTES = 14, ZIP_LEVEL = 3, VOCAB_MOST = 1 << 20 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays of counts are written with the byte order of memory");

static pl_status put_counts(pl_buf *out, uint16_t tag, const uint32_t *counts, size_t n)
{
    const size_t bytes = n * sizeof *counts;
    uint8_t *planes = NULL;
    pl_buf zipped = {0};
    pl_status status;
    PL_TRY(pl_try_alloc_bare(bytes + 1, "a prefix model's bytes", (void **)&planes));
    pl_planes_split((const uint8_t *)counts, n, sizeof *counts, planes);
    PL_TRY(pl_zip(planes, bytes, ZIP_LEVEL, &zipped));
    pl_put_bytes(out, tag, zipped.data, zipped.len);
done:
    pl_buf_destroy(&zipped);
    pl_free(planes);
    return status;
}

pl_status pl_prefix_lm_encode(const pl_prefix_lm *lm, pl_buf *out)
{
    size_t start = out->len, P = (size_t)lm->n_paths;
    pl_put_u64(out, TAG_FORMAT, FORMAT);
    pl_put_u64(out, TAG_VOCAB, (uint64_t)lm->vocab);
    pl_put_u64(out, TAG_PATHS, (uint64_t)lm->n_paths);
    pl_put_u64(out, TAG_ROWS, lm->n_rows);
    PL_CHECK(put_counts(out, TAG_BUCKETS, lm->buckets, lm->n_rows));
    PL_CHECK(put_counts(out, TAG_TOKENS, lm->tokens, (size_t)lm->vocab * P));
    PL_CHECK(put_counts(out, TAG_PAIRS, lm->pairs, (size_t)lm->n_rows * P));
    pl_put_u64(out, TAG_CHECKSUM, pl_checksum(out->data + start, out->len - start));
    return PL_OK;
}

/* ---- decode ---- */
static pl_status lm_damaged(const char *why)
{
    return pl_fail(PL_ERR_DAMAGED, "the router's bytes are damaged: %s", why);
}

static pl_status get_planes(pl_reader *reader, uint16_t tag, uint64_t n, pl_buf *out)
{
    size_t len = 0;
    const uint8_t *bytes = pl_get_bytes(reader, tag, 0, &len);
    PL_CHECK(pl_reader_status(reader));
    return pl_unzip(bytes, len, (size_t)n * sizeof(uint32_t), out);
}

static void join_counts(const pl_buf *planes, uint32_t *out)
{
    pl_planes_join(planes->data, planes->len / sizeof *out, sizeof *out,
                   (uint8_t *)out);
}

pl_status pl_prefix_lm_decode(const void *data, size_t len, int n_threads,
                              pl_prefix_lm **out)
{
    pl_reader reader;
    pl_buf rows = {0}, tokens = {0}, pairs = {0};
    pl_prefix_lm *lm = NULL;
    uint32_t *buckets = NULL;
    pl_status status;
    *out = NULL;
    pl_reader_open(&reader, "router", data, len);
    PL_CHECK(pl_reader_status(&reader));
    if (len < CHECKSUM_FIELD_BYTES)
        return lm_damaged("it is cut off");
    if (pl_get_u64(&reader, TAG_CHECKSUM, 0) !=
        pl_checksum(data, len - CHECKSUM_FIELD_BYTES))
        return lm_damaged("the checksum does not match");
    const uint64_t format = pl_get_u64(&reader, TAG_FORMAT, 0);
    PL_CHECK(pl_reader_status(&reader));
    if (format != FORMAT)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the router has format version %llu, but this release reads "
                       "only version %d",
                       (unsigned long long)format, (int)FORMAT);
    const uint64_t vocab = pl_get_u64(&reader, TAG_VOCAB, 0);
    const uint64_t n_paths = pl_get_u64(&reader, TAG_PATHS, 0);
    const uint64_t n_rows = pl_get_u64(&reader, TAG_ROWS, 0);
    PL_CHECK(pl_reader_status(&reader));
    if (vocab < 1 || vocab > VOCAB_MOST || n_paths < 1 ||
        n_paths > PREFIX_LM_PATHS_MOST || n_rows > PREFIX_LM_ROWS_MOST ||
        n_rows * n_paths > PL_PREFIX_LM_CELLS_MAX ||
        vocab * n_paths > PL_PREFIX_LM_CELLS_MAX)
        return lm_damaged("its sizes are out of range");
    buckets = pl_alloc(((size_t)n_rows + 1) * sizeof *buckets);
    PL_TRY(get_planes(&reader, TAG_BUCKETS, n_rows, &rows));
    join_counts(&rows, buckets);
    for (size_t r = 0; r < n_rows; ++r)
        if (buckets[r] >= PREFIX_LM_BUCKETS || (r > 0 && buckets[r] <= buckets[r - 1]))
            PL_TRY(lm_damaged("its buckets are not in rising order or are too large"));
    PL_TRY(get_planes(&reader, TAG_TOKENS, vocab * n_paths, &tokens));
    PL_TRY(get_planes(&reader, TAG_PAIRS, n_rows * n_paths, &pairs));
    PL_TRY(prefix_lm_create((int)vocab, (int)n_paths, buckets, (uint32_t)n_rows, &lm));
    join_counts(&tokens, lm->tokens);
    join_counts(&pairs, lm->pairs);
    PL_TRY(prefix_lm_finish(lm, n_threads));
    *out = lm;
    lm = NULL;
done:
    pl_buf_destroy(&rows);
    pl_buf_destroy(&tokens);
    pl_buf_destroy(&pairs);
    pl_free(buckets);
    pl_prefix_lm_destroy(&lm);
    return status;
}
