/* Decoders that add into device memory. A block of threads takes a tile: it decodes and
 * adds, and sums the squares as add_tile of outer/codec.c does, in sixteen lanes. Of
 * sparse stretches the host walks the indices, which are few, and the device adds the
 * values; it also peels sketches (codec_sketch_cuda.cu). */
#include "outer/codec_sketch.h"
#include "outer/cuda/codec_inside.cuh"

enum { THREADS = 256, EACH = TILE / THREADS, LANES = 16 };

struct coded {
    int codec;
    bool planes;
    size_t count, width; /* width: bytes of a shared code */
    const uint8_t *first, *second;
    float step; /* of shared codes */
    int limit;
};

static __device__ float join_planes(const coded *c, size_t i)
{
    const uint8_t *rest = c->second;
    if (c->codec == PL_CODEC_BF16) {
        const unsigned bits = (unsigned)c->first[i] << 8 | rest[i];
        return half_value((bits >> 1 | bits << 15) & 0xffffu);
    }
    const unsigned bits = (unsigned)c->first[i] << 24 | (unsigned)rest[i] << 16 |
                          (unsigned)rest[c->count + i] << 8 | rest[2 * c->count + i];
    return __uint_as_float(bits >> 1 | bits << 31);
}

/* (x ^ 8) - 8 extends the sign of four bits. */
static __device__ float i4_value(const coded *c, size_t i)
{
    const unsigned half = reinterpret_cast<const uint16_t *>(c->first)[i / I4_BLOCK];
    const int pair = c->second[i / 32 * 16 + i % 16];
    const int code = i % 32 < 16 ? pair & 15 : pair >> 4;
    return half_value(half) * (float)((code ^ 8) - 8);
}

/* As unit_value of outer/codec_e3m0.c, on the block's scale. */
static __device__ float e3m0_value(const coded *c, size_t i)
{
    const unsigned pair = c->second[i / 32 * 16 + i % 16];
    const unsigned code = i % 32 < 16 ? pair & 15u : pair >> 4;
    const unsigned bits = (code & 7u) << 23 | (code & 8u) << 28;
    const unsigned scale = c->first[i / E3M0_BLOCK];
    return __uint_as_float(scale << 23) * (__uint_as_float(bits) * 0x1p126f);
}

static __device__ int shared_code(const coded *c, size_t i)
{
    if (c->width == 4)
        return reinterpret_cast<const int32_t *>(c->first)[i];
    if (c->width == 2)
        return reinterpret_cast<const int16_t *>(c->first)[i];
    return reinterpret_cast<const int8_t *>(c->first)[i];
}

static __device__ float coded_value(const coded *c, size_t i, unsigned *first_bad)
{
    if (c->planes)
        return join_planes(c, i);
    if (c->codec == PL_CODEC_F32)
        return reinterpret_cast<const float *>(c->first)[i];
    if (c->codec == PL_CODEC_BF16)
        return half_value(reinterpret_cast<const uint16_t *>(c->first)[i]);
    if (c->codec == PL_CODEC_I8)
        return reinterpret_cast<const float *>(c->first)[i / I8_BLOCK] *
               (float)reinterpret_cast<const int8_t *>(c->second)[i];
    if (c->codec == PL_CODEC_I4)
        return i4_value(c, i);
    if (c->codec == PL_CODEC_E3M0)
        return e3m0_value(c, i);
    const int q = shared_code(c, i);
    if (q > c->limit || q < -c->limit)
        atomicMin(first_bad, (unsigned)(i / TILE));
    return c->step * (float)q;
}

static __global__ void __launch_bounds__(THREADS)
    add_tile_kernel(float *sum, coded c, float weight, double *squares,
                    unsigned *first_bad)
{
    __shared__ float tile[TILE];
    __shared__ double lanes[LANES];
    const size_t first = (size_t)blockIdx.x * TILE;
    const int count = c.count - first < TILE ? (int)(c.count - first) : (int)TILE;
    for (int e = 0; e < EACH; e++) {
        const int at = e * THREADS + (int)threadIdx.x;
        const size_t i = first + (size_t)at;
        if (at >= count)
            continue;
        tile[at] = coded_value(&c, i, first_bad);
        if (sum)
            sum[i] += weight * tile[at];
    }
    __syncthreads();
    if (threadIdx.x < LANES) {
        double lane = 0.0; /* a square is exact in double: fused or not is the same */
        for (int i = (int)threadIdx.x; i < count; i += LANES)
            lane = fma((double)tile[i], (double)tile[i], lane);
        lanes[threadIdx.x] = lane;
    }
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    double total = 0.0;
    for (int l = 0; l < LANES; l++)
        total += lanes[l];
    squares[blockIdx.x] = total;
}

/* ---- the host's side ---- */

static pl_accel *accel_of(const codec_task *task)
{
    return static_cast<pl_accel *>(task->sink->device);
}

static coded coded_of(const codec_task *task, const uint8_t *first,
                      const uint8_t *second)
{
    const codec_stretch *s = task->stretch;
    coded c = {};
    c.codec = s->codec;
    c.planes = s->codec <= PL_CODEC_BF16 && s->variant == VARIANT_PLANES;
    c.count = (size_t)s->count;
    c.first = first;
    c.second = second;
    if (s->codec != PL_CODEC_I8_SHARED && s->codec != WIRE_I22_SHARED)
        return c;
    c.width = codec_shared_width(s->codec, task->header->contributors);
    c.step = codec_power(s->exponent);
    c.limit = shared_limit(task);
    return c;
}

/* Finds what the CPU would have found, at the same tile. */
static pl_status add_squares(const codec_task *task, const double *squares,
                             size_t n_tiles, unsigned first_bad)
{
    for (size_t i = 0; i < n_tiles; i++) {
        if (i == first_bad)
            return shared_excess(task, i * TILE);
        PL_RETURN_IF(
            sink_squares(task->sink, task->stretch->first + i * TILE, squares[i]));
    }
    return PL_OK;
}

static pl_status take_squares(const codec_task *task, const uint8_t *device,
                              size_t n_tiles)
{
    pl_accel *accel = accel_of(task);
    unsigned first_bad = ACCEL_NO_TILE;
    void *squares = NULL;
    const size_t bytes = n_tiles * sizeof(double);
    PL_RETURN_IF(pl_try_alloc(bytes, "an update's norm", &squares));
    pl_status status = accel_flag_read(accel, "adding an update", &first_bad);
    if (status == PL_OK)
        status = pl_accel_download(accel, squares, device, bytes);
    if (status == PL_OK)
        status =
            add_squares(task, static_cast<const double *>(squares), n_tiles, first_bad);
    pl_free_aligned(squares);
    return status;
}

pl_status dense_decode_cuda(const codec_task *task)
{
    pl_accel *accel = accel_of(task);
    const codec_stretch *s = task->stretch;
    const unsigned n_tiles = blocks_for((size_t)s->count, TILE);
    uint64_t raw[SECTIONS_MAX] = {};
    size_t place[SECTIONS_MAX] = {};
    uint8_t *at;
    for (int i = 0; i < s->n_sections; i++)
        raw[i] = s->sections[i].raw_bytes;
    const size_t end = sections_place(raw, s->n_sections, place);
    PL_RETURN_IF(accel_scratch(accel, end + n_tiles * sizeof(double), &at));
    PL_RETURN_IF(accel_flag_clear(accel));
    for (int i = 0; i < s->n_sections; i++)
        PL_RETURN_IF(
            pl_accel_upload(accel, at + place[i], task->raw[i], (size_t)raw[i]));
    PL_LAUNCH(add_tile_kernel, n_tiles, THREADS, 0, accel->stream,
              task->sink->sum ? task->sink->sum + s->first : NULL,
              coded_of(task, at + place[0], at + place[1]), task->sink->weight,
              reinterpret_cast<double *>(at + end), accel->first_bad);
    return take_squares(task, at + end, n_tiles);
}

/* ---- sparse stretches ---- */

/* Indices rise: no two threads have one. */
static __global__ void __launch_bounds__(THREADS)
    add_values_kernel(float *sum, const codec_value *values, size_t n, float weight)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        sum[values[i].index] += weight * values[i].value;
}

static pl_status add_list(const codec_task *task, const pl_buf *list)
{
    pl_accel *accel = accel_of(task);
    const size_t n = list->len / sizeof(codec_value);
    uint8_t *at;
    if (n == 0)
        return PL_OK;
    PL_RETURN_IF(accel_scratch(accel, list->len, &at));
    PL_RETURN_IF(pl_accel_upload(accel, at, list->data, list->len));
    PL_LAUNCH(add_values_kernel, blocks_for(n, THREADS), THREADS, 0, accel->stream,
              task->sink->sum, reinterpret_cast<const codec_value *>(at), n,
              task->sink->weight);
    return device_sync(accel->stream, "adding an update");
}

pl_status sparse_decode_cuda(const codec_task *task)
{
    pl_buf list = {};
    codec_sink here = {};
    codec_task walk = *task;
    here.squares = task->sink->squares;
    here.list = task->sink->sum ? &list : NULL;
    walk.sink = &here;
    pl_status status = task->stretch->codec == PL_CODEC_SKETCH16
                           ? sketch_decode_by(&walk, sketch_peel_cuda, accel_of(task))
                           : codec_decode_here(&walk);
    if (status == PL_OK)
        status = add_list(task, &list);
    task->sink->squares = here.squares;
    pl_buf_destroy(&list);
    return status;
}
