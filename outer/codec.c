#include "outer/codec.h"

#include <math.h>

enum { HEADER = 16, CODEC_F32 = 1, CODEC_BF16 = 2 };

static int codec_number(const char *codec)
{
    if (strcmp(codec, "f32") == 0)
        return CODEC_F32;
    return strcmp(codec, "bf16") == 0 ? CODEC_BF16 : 0;
}

pl_status pl_codec_check(const char *codec)
{
    if (codec_number(codec) == 0)
        return pl_fail(PL_ERR_CONFIG, "unknown codec `%s`; known are f32 and bf16",
                       codec);
    return PL_OK;
}

uint64_t pl_codec_bytes(const char *codec, size_t n)
{
    return HEADER + (uint64_t)n * (codec_number(codec) == CODEC_BF16 ? 2 : 4);
}

pl_status pl_codec_encode(const char *codec, const float *update, size_t n,
                          uint8_t *out)
{
    PL_RETURN_IF(pl_codec_check(codec));
    uint16_t number = (uint16_t)codec_number(codec);
    uint64_t count = n;
    memset(out, 0, HEADER);
    memcpy(out, "PLU1", 4);
    memcpy(out + 4, &number, 2);
    memcpy(out + 8, &count, 8);
    if (number == CODEC_F32) {
        memcpy(out + HEADER, update, n * sizeof *update);
        return PL_OK;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t half = pl_bf16_from_float(update[i]);
        memcpy(out + HEADER + 2 * i, &half, 2);
    }
    return PL_OK;
}

/* Decodes values [first, first+n) into a block. */
static void decode_block(int codec, const uint8_t *values, size_t first, size_t n,
                         float *out)
{
    if (codec == CODEC_F32) {
        memcpy(out, values + 4 * first, n * sizeof *out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, values + 2 * (first + i), 2);
        out[i] = pl_bf16_to_float(half);
    }
}

static pl_status check_header(const uint8_t *data, uint64_t bytes, size_t n, int *codec)
{
    uint16_t number;
    uint64_t count;
    if (bytes < HEADER || memcmp(data, "PLU1", 4) != 0)
        return pl_fail(PL_ERR_DATA, "the update has no PLU1 header");
    memcpy(&number, data + 4, 2);
    memcpy(&count, data + 8, 8);
    if (number != CODEC_F32 && number != CODEC_BF16)
        return pl_fail(PL_ERR_DATA, "the update uses unknown codec number %u", number);
    if (count != n)
        return pl_fail(PL_ERR_DATA, "the update has %llu values, the module has %zu",
                       (unsigned long long)count, n);
    uint64_t want = HEADER + count * (number == CODEC_BF16 ? 2u : 4u);
    if (bytes != want)
        return pl_fail(PL_ERR_DATA, "the update has %llu bytes instead of %llu",
                       (unsigned long long)bytes, (unsigned long long)want);
    *codec = number;
    return PL_OK;
}

/* Blocks of fixed size, each summed in double: the norm does not depend on how
 * the compiler vectorises across blocks. */
static pl_status add_block(const float *block, size_t first, size_t n, float weight,
                           float *sum, double *squares)
{
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += (double)block[i] * (double)block[i];
    if (!isfinite(total))
        return pl_fail(PL_ERR_NUMERIC, "the update is not finite near value %zu",
                       first);
    *squares += total;
    if (sum)
        for (size_t i = 0; i < n; i++)
            sum[i] += weight * block[i];
    return PL_OK;
}

pl_status pl_codec_add(const void *data, uint64_t bytes, size_t n, float weight,
                       float *sum, double *norm)
{
    enum { BLOCK = 4096 };
    float block[BLOCK];
    int codec = 0;
    double squares = 0;
    const uint8_t *header = data;
    *norm = 0;
    PL_RETURN_IF(check_header(header, bytes, n, &codec));
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        decode_block(codec, header + HEADER, first, count, block);
        PL_RETURN_IF(
            add_block(block, first, count, weight, sum ? sum + first : NULL, &squares));
    }
    *norm = sqrt(squares);
    return PL_OK;
}
