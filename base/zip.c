/* Makes and reads zstd frames, and splits elements into byte planes.
 *
 * A plane has the bytes at one position of all elements, for example all high bytes.
 * The high bytes of neighbouring floats are similar, while their low bytes look random.
 * Stored in separate planes, the high bytes compress well. */
#include "base/zip.h"
#define ZSTD_STATIC_LINKING_ONLY /* needed to set the mode of literals */
#include <zstd.h>

/* Takes the result of a compression of `len` bytes to the end of `out`. */
static pl_status take_frame(size_t used, size_t len, pl_buf *out)
{
    if (ZSTD_isError(used))
        return pl_fail(PL_ERR_INTERNAL, "zstd cannot compress %zu bytes: %s", len,
                       ZSTD_getErrorName(used));
    out->len += used;
    return PL_OK;
}

pl_status pl_zip(const void *data, size_t len, int level, pl_buf *out)
{
    if (level < 1 || level > 19)
        return pl_fail(PL_ERR_ARG, "zstd level %d is outside 1..19", level);
    size_t bound = ZSTD_compressBound(len);
    pl_buf_reserve(out, bound);
    return take_frame(ZSTD_compress(out->data + out->len, bound, data, len, level), len,
                      out);
}

/* Makes zstd compress literals, which its fast levels otherwise store uncompressed. */
pl_status pl_zip_huffman(const void *data, size_t len, pl_buf *out)
{
    enum { FASTEST = -100 };
    ZSTD_CCtx *context = ZSTD_createCCtx();
    if (!context)
        pl_memory_exhausted(len);
    size_t bound = ZSTD_compressBound(len);
    pl_buf_reserve(out, bound);
    size_t used = ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, FASTEST);
    if (!ZSTD_isError(used))
        used = ZSTD_CCtx_setParameter(context, ZSTD_c_literalCompressionMode,
                                      ZSTD_lcm_huffman);
    if (!ZSTD_isError(used))
        used = ZSTD_compress2(context, out->data + out->len, bound, data, len);
    ZSTD_freeCCtx(context);
    return take_frame(used, len, out);
}

pl_status pl_unzip(const void *data, size_t len, size_t expected, pl_buf *out)
{
    /* accepts exactly one frame, which must declare exactly `expected` bytes */
    unsigned long long declared = ZSTD_getFrameContentSize(data, len);
    if (declared == ZSTD_CONTENTSIZE_ERROR || declared == ZSTD_CONTENTSIZE_UNKNOWN)
        return pl_fail(
            PL_ERR_DAMAGED,
            "%zu compressed bytes are not a zstd frame that declares its size", len);
    if (declared != expected)
        return pl_fail(PL_ERR_DAMAGED,
                       "a zstd frame declares %llu bytes instead of %zu", declared,
                       expected);
    size_t frame = ZSTD_findFrameCompressedSize(data, len);
    if (ZSTD_isError(frame) || frame != len)
        return pl_fail(
            PL_ERR_DAMAGED,
            "%zu compressed bytes are damaged, or are more than one zstd frame", len);
    /* zstd needs a pointer even for 0 bytes */
    pl_buf_reserve(out, expected ? expected : 1);
    size_t got = ZSTD_decompress(out->data + out->len, expected, data, len);
    if (ZSTD_isError(got))
        return pl_fail(PL_ERR_DAMAGED, "a zstd frame of %zu bytes is damaged: %s", len,
                       ZSTD_getErrorName(got));
    if (got != expected)
        return pl_fail(PL_ERR_DAMAGED, "a zstd frame gave %zu bytes instead of %zu",
                       got, expected);
    out->len += got;
    return PL_OK;
}

void pl_planes_split(const uint8_t *in, size_t n, size_t width, uint8_t *out)
{
    for (size_t plane = 0; plane < width; plane++)
        for (size_t i = 0; i < n; i++)
            out[plane * n + i] = in[i * width + plane];
}

void pl_planes_join(const uint8_t *in, size_t n, size_t width, uint8_t *out)
{
    for (size_t plane = 0; plane < width; plane++)
        for (size_t i = 0; i < n; i++)
            out[i * width + plane] = in[plane * n + i];
}
