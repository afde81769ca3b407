/* Encodes a router as bytes and decodes it (docs/PROTOCOL.md section 6). */
#include "router/router_internal.h"
#include <math.h>
#include <string.h>

enum {
    TAG_FORMAT = 1,
    TAG_KIND,
    TAG_DIM,
    TAG_RANK,
    TAG_UNIT,
    TAG_INERTIA,
    TAG_EXPERTS, /* one per level */
    TAG_MEAN,
    TAG_SCALE,
    TAG_ROWS,      /* absent without principal components */
    TAG_CENTROIDS, /* one per level */
    TAG_BIAS,
    TAG_CHECKSUM = 0xffff /* comes last: over all bytes before it */
};
enum { FORMAT = 1, CHECKSUM_FIELD_BYTES = 14, FLOATS_MAX = 1 << 28 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays of floats are written as they lie in memory");

/* ---- encode ---- */
static void put_floats(pl_buf *out, uint16_t tag, const float *values, size_t n)
{
    pl_put_bytes(out, tag, values, n * sizeof *values);
}

void pl_router_encode(const pl_router *router, pl_buf *out)
{
    const lens *l = &router->lens;
    size_t start = out->len, dim = (size_t)l->dim;
    pl_put_u64(out, TAG_FORMAT, FORMAT);
    pl_put_u64(out, TAG_KIND, (uint64_t)router->kind);
    pl_put_u64(out, TAG_DIM, (uint64_t)l->dim);
    pl_put_u64(out, TAG_RANK, (uint64_t)l->rank);
    pl_put_u64(out, TAG_UNIT, l->unit);
    pl_put_f64(out, TAG_INERTIA, router->inertia);
    for (int level = 0; level < router->n_levels; ++level)
        pl_put_u64(out, TAG_EXPERTS, (uint64_t)router->experts[level]);
    put_floats(out, TAG_MEAN, l->mean, dim);
    put_floats(out, TAG_SCALE, l->scale, dim);
    if (l->rows)
        put_floats(out, TAG_ROWS, l->rows, (size_t)l->rank * dim);
    for (int level = 0; level < router->n_levels; ++level)
        put_floats(out, TAG_CENTROIDS, router->centroids[level],
                   (size_t)router->experts[level] *
                       (size_t)router_row_size(router, level));
    pl_put_bytes(out, TAG_BIAS, router->bias,
                 (size_t)router->n_paths * sizeof *router->bias);
    pl_put_u64(out, TAG_CHECKSUM, pl_checksum(out->data + start, out->len - start));
}

/* ---- decode ---- */
static pl_status router_damaged(const char *why)
{
    return pl_fail(PL_ERR_DAMAGED, "the router's bytes are damaged: %s", why);
}

static pl_status check_checksum(pl_reader *reader, const void *data, size_t len)
{
    if (pl_get_u64(reader, TAG_CHECKSUM, 0) !=
        pl_checksum(data, len - CHECKSUM_FIELD_BYTES))
        return router_damaged("the checksum does not match");
    return PL_OK;
}

/* The fields that determine all sizes; checked before anything is allocated. */
typedef struct head {
    pl_router_kind kind;
    int dim, rank, n_levels;
    int experts[PL_LEVELS_MAX];
    bool unit, with_rows;
    double inertia;
} head;

static bool in_range(uint64_t value, uint64_t low, uint64_t high)
{
    return value >= low && value <= high;
}

static pl_status read_experts(pl_reader *reader, head *out)
{
    size_t n_levels = pl_field_count(reader, TAG_EXPERTS);
    uint64_t n_paths = 1;
    if (!in_range(n_levels, 1, PL_LEVELS_MAX) || n_levels > (size_t)out->rank)
        return router_damaged("the number of levels is out of range");
    for (size_t level = 0; level < n_levels; ++level) {
        uint64_t experts = pl_get_u64(reader, TAG_EXPERTS, level);
        if (!in_range(experts, 1, ROUTER_PATHS_MAX))
            return router_damaged("a level's number of experts is out of range");
        n_paths *= experts;
        if (n_paths > ROUTER_PATHS_MAX)
            return router_damaged("there are too many paths");
        out->experts[level] = (int)experts;
    }
    out->n_levels = (int)n_levels;
    if (out->kind != PL_ROUTER_PRODUCT && n_levels != 1)
        return router_damaged("only product k-means has several levels");
    return PL_OK;
}

static pl_status read_head(pl_reader *reader, head *out)
{
    uint64_t format = pl_get_u64(reader, TAG_FORMAT, 0);
    uint64_t kind = pl_get_u64(reader, TAG_KIND, 0);
    uint64_t dim = pl_get_u64(reader, TAG_DIM, 0);
    uint64_t rank = pl_get_u64(reader, TAG_RANK, 0);
    uint64_t unit = pl_get_u64(reader, TAG_UNIT, 0);
    out->inertia = pl_get_f64(reader, TAG_INERTIA, 0);
    out->with_rows = pl_field_count(reader, TAG_ROWS) > 0;
    PL_CHECK(pl_reader_status(reader));
    if (format != FORMAT)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the router has format %llu and this release reads %d",
                       (unsigned long long)format, (int)FORMAT);
    if (kind > PL_ROUTER_LINEAR || unit > 1)
        return router_damaged("its kind is not known");
    if (!in_range(dim, 1, ROUTER_DIM_MAX) || !in_range(rank, 1, dim) ||
        (!out->with_rows && rank != dim) || (out->with_rows && dim * rank > FLOATS_MAX))
        return router_damaged("its sizes are out of range");
    if (!(isfinite(out->inertia) && out->inertia >= 0.0))
        return router_damaged("its inertia is not a distance");
    out->kind = (pl_router_kind)kind;
    out->dim = (int)dim;
    out->rank = (int)rank;
    out->unit = unit == 1;
    return read_experts(reader, out);
}

static pl_status get_floats(pl_reader *reader, uint16_t tag, size_t i, size_t n,
                            float *out)
{
    size_t len = 0;
    const uint8_t *bytes = pl_get_bytes(reader, tag, i, &len);
    PL_CHECK(pl_reader_status(reader));
    if (len != n * sizeof *out)
        return router_damaged("an array has the wrong size");
    memcpy(out, bytes, len);
    for (size_t k = 0; k < n; ++k)
        if (!isfinite(out[k]))
            return router_damaged("a number is not finite");
    return PL_OK;
}

static pl_status read_arrays(pl_reader *reader, pl_router *router)
{
    lens *l = &router->lens;
    size_t dim = (size_t)l->dim;
    PL_CHECK(get_floats(reader, TAG_MEAN, 0, dim, l->mean));
    PL_CHECK(get_floats(reader, TAG_SCALE, 0, dim, l->scale));
    if (l->rows)
        PL_CHECK(get_floats(reader, TAG_ROWS, 0, (size_t)l->rank * dim, l->rows));
    for (int level = 0; level < router->n_levels; ++level) {
        size_t size =
            (size_t)router->experts[level] * (size_t)router_row_size(router, level);
        PL_CHECK(get_floats(reader, TAG_CENTROIDS, (size_t)level, size,
                            router->centroids[level]));
    }
    size_t len = 0, n = (size_t)router->n_paths;
    const uint8_t *bytes = pl_get_bytes(reader, TAG_BIAS, 0, &len);
    PL_CHECK(pl_reader_status(reader));
    if (len != n * sizeof *router->bias)
        return router_damaged("the prices have the wrong size");
    memcpy(router->bias, bytes, len);
    for (size_t path = 0; path < n; ++path)
        if (!isfinite(router->bias[path]))
            return router_damaged("a price is not finite");
    return PL_OK;
}

/* The bytes must hold what the head promises before arrays are allocated for it. */
static pl_status check_length(const head *h, size_t len)
{
    uint64_t rows = h->with_rows ? (uint64_t)h->rank * (uint64_t)h->dim : 0;
    uint64_t floats = 2 * (uint64_t)h->dim + rows, n_paths = 1;
    for (int level = 0; level < h->n_levels; ++level) {
        int64_t size = (int64_t)(level + 1) * h->rank / h->n_levels -
                       (int64_t)level * h->rank / h->n_levels +
                       (h->kind == PL_ROUTER_LINEAR);
        floats += (uint64_t)h->experts[level] * (uint64_t)size;
        n_paths *= (uint64_t)h->experts[level];
    }
    if (floats * sizeof(float) + n_paths * sizeof(double) > len)
        return router_damaged("it is shorter than its sizes say");
    return PL_OK;
}

pl_status pl_router_decode(const void *data, size_t len, pl_router **out)
{
    *out = NULL;
    pl_reader reader;
    head h = {0};
    pl_router *router = NULL;
    pl_status status;
    pl_reader_open(&reader, "router", data, len);
    PL_CHECK(pl_reader_status(&reader));
    if (len < CHECKSUM_FIELD_BYTES)
        return router_damaged("it is cut off");
    PL_CHECK(check_checksum(&reader, data, len));
    PL_CHECK(read_head(&reader, &h));
    PL_CHECK(check_length(&h, len));
    PL_TRY(router_create(h.kind, h.n_levels, h.experts, h.dim, h.rank, h.with_rows,
                         &router));
    router->lens.unit = h.unit;
    router->inertia = h.inertia;
    PL_TRY(read_arrays(&reader, router));
    *out = router;
    router = NULL;
done:
    pl_router_destroy(&router);
    return status;
}
