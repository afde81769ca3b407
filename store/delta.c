/* Compresses chunks of floats (delta.h).
 *
 * The floats of a trained model hardly compress: 24 of 32 bits are noise. Fewer bits
 * are noise if a version is compared with other versions of its module: the values of a
 * version that lies between two other versions are near the middle of both, so only the
 * distance from the middle is stored. The function o maps floats to integers that have
 * the same order, so a small step gives a small number, whatever the exponent is. For a
 * float x, and the floats a and b at its position in the two bases:
 *
 *   o(x)  = m if the sign bit of x is 0, else -m - 1         (mod 2^32)
 *   p     = o(a) + floor((o(b) - o(a)) / 2)                  as signed numbers
 *   d     = o(x) - p,  folded: d >= 0 ? 2d : -2d - 1         (mod 2^32)
 *
 * Here m is the number in the other 31 bits of x, p is the prediction, and d is stored.
 *
 * The number of noisy bits in d depends on the exponent of p, and the decoder knows p,
 * too. So values are grouped by this exponent, in groups of at least GROUP_MIN values.
 * Within a group the values keep their order. The first bytes of all values of a group
 * are compressed together, then the second bytes, and so on. The coding uses only
 * integer arithmetic. So it gives the same bytes on every machine, and it is lossless
 * even for NaN, infinities and both zeros. */
#include "store/delta.h"
#include <string.h>

enum { WIDTH = sizeof(uint32_t), EXPONENTS = 256, GROUP_MIN = 8192, LENGTH_BYTES = 4 };

/* The function o of the comment above. It keeps the sign bit, and inverts the other
 * bits of negative numbers. The function is its own inverse. */
static uint32_t order_of(uint32_t bits)
{
    return bits ^ (0u - (bits >> 31)) >> 1;
}

static uint32_t load_u32(const uint8_t *at)
{
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    return bits;
}

typedef struct grouping {
    uint8_t group[EXPONENTS]; /* [exponent] the group of values with this exponent */
    /* [group] the position of its first value in sorted order */
    size_t start[EXPONENTS + 1];
    int n_groups;
} grouping;

static unsigned exponent(uint32_t order)
{
    return order_of(order) >> 23 & 0xff;
}

static void make_groups(const uint32_t *predicted, size_t n, grouping *out)
{
    size_t count[EXPONENTS] = {0}, in_group = 0, seen = 0;
    for (size_t i = 0; i < n; i++)
        count[exponent(predicted[i])]++;
    memset(out, 0, sizeof *out);
    for (int e = 0; e < EXPONENTS; e++) {
        out->group[e] = (uint8_t)out->n_groups;
        in_group += count[e];
        seen += count[e];
        if (in_group >= GROUP_MIN) {
            out->start[++out->n_groups] = seen;
            in_group = 0;
        }
    }
    if (in_group > 0)
        out->start[++out->n_groups] = n;
}

/* Writes the predictions p of all values, in the order of the chunk: (o(a) + o(b)) / 2,
 * rounded down, without overflow: the bits that both have, plus half of the bits that
 * differ. o() gives signed numbers; inverting their top bits makes unsigned numbers
 * with the same order, and the result is inverted back. */
static void predict_values(const uint8_t *a, const uint8_t *b, size_t n,
                           uint32_t *predicted)
{
    const uint32_t top = 0x80000000u;
    for (size_t i = 0; i < n; i++) {
        const uint32_t x = order_of(load_u32(a + i * WIDTH)) ^ top;
        const uint32_t y = order_of(load_u32(b + i * WIDTH)) ^ top;
        predicted[i] = ((x & y) + ((x ^ y) >> 1)) ^ top;
    }
}

/* Without bases, all bytes are compressed in planes. With bases, the bytes after the
 * last whole float are stored unchanged. */
pl_status delta_encode(const uint8_t *data, const uint8_t *a, const uint8_t *b,
                       size_t len, pl_buf *out)
{
    size_t n = len / WIDTH, whole = n * WIDTH;
    if (!a) {
        uint8_t *plain = pl_alloc(len + 1);
        pl_planes_split(data, n, WIDTH, plain);
        memcpy(plain + whole, data + whole, len - whole);
        pl_status zipped = pl_zip_huffman(plain, len, out);
        pl_free(plain);
        return zipped;
    }
    grouping g;
    size_t next[EXPONENTS + 1];
    pl_buf work = {0};
    pl_status status = PL_OK;
    uint32_t *predicted = pl_alloc((n + 1) * sizeof *predicted);
    uint32_t *sorted = pl_alloc((2 * n + 1) * sizeof *sorted);
    predict_values(a, b, n, predicted);
    make_groups(predicted, n, &g);
    memcpy(next, g.start, sizeof next);
    for (size_t i = 0; i < n; i++) {
        uint32_t d = order_of(load_u32(data + i * WIDTH)) - predicted[i];
        sorted[next[g.group[exponent(predicted[i])]]++] = d << 1 ^ (0u - (d >> 31));
    }
    uint8_t *planes = (uint8_t *)(sorted + n);
    for (int k = 0; k < g.n_groups; k++) {
        size_t count = g.start[k + 1] - g.start[k];
        pl_planes_split((const uint8_t *)(sorted + g.start[k]), count, WIDTH, planes);
        /* A plane consists of one byte of each value of the group. If compression does
         * not make it shorter, it is stored unchanged. The decoder recognises this case
         * because the stored length then equals the number of values. */
        for (size_t p = 0; p < WIDTH; p++) {
            uint8_t bytes[LENGTH_BYTES];
            pl_buf_clear(&work);
            PL_TRY(pl_zip_huffman(planes + p * count, count, &work));
            const bool pays = work.len < count;
            const size_t length = pays ? work.len : count;
            pl_le_put(bytes, length, sizeof bytes);
            pl_buf_append(out, bytes, sizeof bytes);
            pl_buf_append(out, pays ? work.data : planes + p * count, length);
        }
    }
    pl_buf_append(out, data + whole, len - whole);
done:
    pl_buf_destroy(&work);
    pl_free_all(predicted, sorted);
    return status;
}

pl_status delta_decode(const uint8_t *coded, size_t coded_len, const uint8_t *a,
                       const uint8_t *b, size_t len, pl_buf *out)
{
    size_t n = len / WIDTH, whole = n * WIDTH;
    pl_buf_reserve(out, len + 1);
    uint8_t *to = out->data + out->len;
    if (!a) {
        pl_buf plain = {0};
        pl_status unzipped = pl_unzip(coded, coded_len, len, &plain);
        if (unzipped == PL_OK) {
            pl_planes_join(plain.data, n, WIDTH, to);
            memcpy(to + whole, plain.data + whole, len - whole);
            out->len += len;
        }
        pl_buf_destroy(&plain);
        return unzipped;
    }
    grouping g;
    size_t next[EXPONENTS + 1];
    pl_buf planes = {0};
    pl_status status = PL_OK;
    uint32_t *predicted = pl_alloc((n + 1) * sizeof *predicted);
    uint32_t *sorted = pl_alloc((n + 1) * sizeof *sorted);
    predict_values(a, b, n, predicted);
    make_groups(predicted, n, &g);
    memcpy(next, g.start, sizeof next);
    for (int k = 0; k < g.n_groups; k++) {
        size_t count = g.start[k + 1] - g.start[k];
        pl_buf_clear(&planes);
        for (int p = 0; p < WIDTH; p++) {
            if (coded_len < LENGTH_BYTES)
                PL_TRY(pl_fail(PL_ERR_DAMAGED, "its coded bytes are cut off"));
            const size_t length = (size_t)pl_le_get(coded, LENGTH_BYTES);
            coded += LENGTH_BYTES;
            coded_len -= LENGTH_BYTES;
            if (length > count || length > coded_len)
                PL_TRY(pl_fail(PL_ERR_DAMAGED, "a length in its coded bytes is wrong"));
            if (length < count)
                PL_TRY(pl_unzip(coded, length, count, &planes));
            else
                pl_buf_append(&planes, coded, count);
            coded += length;
            coded_len -= length;
        }
        pl_planes_join(planes.data, count, WIDTH, (uint8_t *)(sorted + g.start[k]));
    }
    if (coded_len != len - whole)
        PL_TRY(pl_fail(PL_ERR_DAMAGED, "its coded bytes have the wrong length"));
    for (size_t i = 0; i < n; i++) {
        uint32_t folded = sorted[next[g.group[exponent(predicted[i])]]++];
        uint32_t d = folded >> 1 ^ (0u - (folded & 1));
        uint32_t bits = order_of(predicted[i] + d);
        memcpy(to + i * WIDTH, &bits, sizeof bits);
    }
    if (len - whole > 0)
        memcpy(to + whole, coded, len - whole);
    out->len += len;
done:
    pl_buf_destroy(&planes);
    pl_free_all(predicted, sorted);
    return status;
}
