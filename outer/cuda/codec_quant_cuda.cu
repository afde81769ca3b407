/* Encoders of dense codecs (outer/codec_quant.c, codec_e3m0.c, codec_shared.c): a warp
 * for a block of i8, i4 and e3m0, a thread for a value of the others. */
#include "modules/cuda/warp.cuh"
#include "outer/cuda/codec_inside.cuh"
#include <float.h>

enum { THREADS = 256, WARPS = THREADS / WARP_SIZE };
enum { I8_EACH = I8_BLOCK / WARP_SIZE, I4_EACH = I4_BLOCK / WARP_SIZE };
enum { E3M0_EACH = E3M0_BLOCK / WARP_SIZE };

/* A warp's block of values and their largest magnitude, which all lanes get. */
template <int EACH>
static __device__ int load_block(float a[EACH], const codec_input *in, size_t first,
                                 int lane)
{
    int top = 0;
    for (int e = 0; e < EACH; e++) {
        const size_t i = first + (size_t)(e * WARP_SIZE + lane);
        a[e] = i < in->count ? input_value(in, i) : 0.0f;
        top = max(top, magnitude_bits(a[e]));
    }
    return warp_max(top);
}

static __device__ float inverse_of(float scale)
{
    return scale > 0.0f ? 1.0f / scale : 0.0f;
}

static __global__ void __launch_bounds__(THREADS)
    i8_kernel(codec_input in, float *scales, int8_t *codes, unsigned *first_bad)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    const size_t block = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP_SIZE;
    const size_t first = block * I8_BLOCK;
    float a[I8_EACH];
    if (first >= in.count)
        return; /* the whole warp */
    const int top = load_block<I8_EACH>(a, &in, first, lane);
    float scale = __int_as_float(top) / 127.0f;
    scale = scale < FLT_MIN ? 0.0f : scale;
    const float inverse = inverse_of(scale);
    check_bits(first_bad, first, lane == 0 ? top : 0);
    if (lane == 0)
        scales[block] = scale;
    for (int e = 0; e < I8_EACH; e++) {
        const size_t i = first + (size_t)(e * WARP_SIZE + lane);
        const int q = round_code(a[e] * inverse);
        if (i >= in.count)
            continue;
        codes[i] = (int8_t)q;
        input_keep(&in, i, a[e] - scale * (float)q);
    }
}

/* Byte j of 16 holds codes j and j + 16 of 32; a group that begins is whole. */
static __global__ void __launch_bounds__(THREADS)
    i4_kernel(codec_input in, uint16_t *scales, uint8_t *codes, unsigned *first_bad)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    const size_t block = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP_SIZE;
    const size_t first = block * I4_BLOCK;
    float a[I4_EACH];
    if (first >= in.count)
        return; /* the whole warp */
    const int top = load_block<I4_EACH>(a, &in, first, lane);
    const unsigned half = half_above(__int_as_float(top) / 7.0f);
    const float scale = half_value(half), inverse = inverse_of(scale);
    check_bits(first_bad, first, lane == 0 ? top : 0);
    if (lane == 0)
        scales[block] = (uint16_t)half;
    for (int e = 0; e < I4_EACH; e++) {
        const size_t group = first + (size_t)(e * WARP_SIZE), i = group + (size_t)lane;
        const int q = round_code(a[e] * inverse);
        const int other = __shfl_down_sync(0xffffffffu, q, WARP_SIZE / 2);
        if (group < in.count && lane < WARP_SIZE / 2)
            codes[group / 2 + (size_t)lane] = (uint8_t)((q & 15) | (other & 15) << 4);
        if (i < in.count)
            input_keep(&in, i, a[e] - scale * (float)q);
    }
}

/* As lowest_field and nearest_code of outer/codec_e3m0.c. */
static __device__ unsigned lowest_field(unsigned top)
{
    const unsigned field = min((top + 0x3fffffu) >> 23, 254u);
    return field < 8u ? 0u : field - 6u;
}
static __device__ unsigned nearest_code(unsigned above)
{
    const unsigned odd = above >> 23 & 1u;
    return min(max((above + 0x3fffffu + odd) >> 23, 1u), 7u);
}

/* Bytes as of i4. */
static __global__ void __launch_bounds__(THREADS)
    e3m0_kernel(codec_input in, uint8_t *scales, uint8_t *codes, unsigned *first_bad)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    const size_t block = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP_SIZE;
    const size_t first = block * E3M0_BLOCK;
    float a[E3M0_EACH];
    if (first >= in.count)
        return; /* the whole warp */
    const int top = load_block<E3M0_EACH>(a, &in, first, lane);
    const unsigned scale = lowest_field((unsigned)top);
    const unsigned middle = ((scale ? scale : 255u) - 1u) << 23;
    check_bits(first_bad, first, lane == 0 ? top : 0);
    if (lane == 0)
        scales[block] = (uint8_t)scale;
    for (int e = 0; e < E3M0_EACH; e++) {
        const size_t group = first + (size_t)(e * WARP_SIZE), i = group + (size_t)lane;
        const unsigned bits = __float_as_uint(a[e]), sign = bits & 0x80000000u;
        const unsigned above = (bits & 0x7fffffffu) - middle;
        const unsigned code = nearest_code(above);
        const bool some = (int)above > 0;
        const int q = some ? (int)(code | sign >> 28) : 0;
        const int other = __shfl_down_sync(0xffffffffu, q, WARP_SIZE / 2);
        const unsigned value = some ? (middle + (code << 23)) | sign : 0u;
        if (group < in.count && lane < WARP_SIZE / 2)
            codes[group / 2 + (size_t)lane] = (uint8_t)(q | other << 4);
        if (i < in.count)
            input_keep(&in, i, a[e] - __uint_as_float(value));
    }
}

/* ---- codecs without blocks ---- */

static __device__ size_t value_index()
{
    return (size_t)blockIdx.x * THREADS + threadIdx.x;
}

/* The sign goes to the low end, so that the exponent fills the top byte; the residual
 * is sent along. */
static __global__ void __launch_bounds__(THREADS)
    f32_kernel(codec_input in, uint8_t *whole, uint8_t *rest, bool planes)
{
    const size_t i = value_index(), n = in.count;
    if (i >= n)
        return;
    const float a = input_value(&in, i);
    input_keep(&in, i, 0.0f);
    if (!planes) {
        reinterpret_cast<float *>(whole)[i] = a;
        return;
    }
    const unsigned bits = __float_as_uint(a), turned = bits << 1 | bits >> 31;
    whole[i] = (uint8_t)(turned >> 24);
    rest[i] = (uint8_t)(turned >> 16);
    rest[n + i] = (uint8_t)(turned >> 8);
    rest[2 * n + i] = (uint8_t)turned;
}

static __global__ void __launch_bounds__(THREADS)
    bf16_kernel(codec_input in, uint8_t *whole, uint8_t *rest, bool planes)
{
    const size_t i = value_index();
    if (i >= in.count)
        return;
    const float a = input_value(&in, i);
    const unsigned half = half_of(a);
    input_keep(&in, i, a - half_value(half));
    if (!planes) {
        reinterpret_cast<uint16_t *>(whole)[i] = (uint16_t)half;
        return;
    }
    const unsigned turned = half << 1 | half >> 15;
    whole[i] = (uint8_t)(turned >> 8);
    rest[i] = (uint8_t)turned;
}

struct shared_scaling {
    float inverse, step, limit;
    int width; /* of a code: 1 or 4 bytes */
};

static __global__ void __launch_bounds__(THREADS)
    shared_kernel(codec_input in, shared_scaling s, uint8_t *codes, unsigned *first_bad)
{
    const size_t i = value_index();
    if (i >= in.count)
        return;
    const float a = input_value(&in, i);
    float x = a * s.inverse;
    x = x > s.limit ? s.limit : x;
    x = x < -s.limit ? -s.limit : x;
    const int q = round_code(x);
    check_bits(first_bad, i, magnitude_bits(a));
    input_keep(&in, i, a - s.step * (float)q);
    if (s.width == 4)
        reinterpret_cast<int32_t *>(codes)[i] = q;
    else
        reinterpret_cast<int8_t *>(codes)[i] = (int8_t)q;
}

/* ---- the host's side ---- */

/* Sets what the record says beside the sections. */
static shared_scaling prepare(codec_job *job)
{
    codec_stretch *s = &job->stretch;
    shared_scaling scaling = {};
    if (s->codec == PL_CODEC_F32 || s->codec == PL_CODEC_BF16)
        s->variant = job->options->entropy ? VARIANT_PLANES : 0;
    if (s->codec != PL_CODEC_I8_SHARED && s->codec != WIRE_I22_SHARED)
        return scaling;
    s->exponent = codec_stretch_exponent(s->codec, job->round);
    scaling.inverse = codec_power(-s->exponent);
    scaling.step = codec_power(s->exponent);
    scaling.limit = (float)codec_limit(s->codec, job->round->n_contributors);
    scaling.width = s->codec == PL_CODEC_I8_SHARED ? 1 : 4;
    return scaling;
}

static void launch(const codec_job *job, const shared_scaling *scaling,
                   uint8_t *const at[SECTIONS_MAX])
{
    const pl_accel *accel = accel_of(job);
    const codec_input in = input_of(job);
    const bool planes = job->stretch.variant == VARIANT_PLANES;
    const unsigned values = blocks_for(in.count, THREADS);
    if (job->stretch.codec == PL_CODEC_F32)
        PL_LAUNCH(f32_kernel, values, THREADS, 0, accel->stream, in, at[0], at[1],
                  planes);
    else if (job->stretch.codec == PL_CODEC_BF16)
        PL_LAUNCH(bf16_kernel, values, THREADS, 0, accel->stream, in, at[0], at[1],
                  planes);
    else if (job->stretch.codec == PL_CODEC_I8)
        PL_LAUNCH(i8_kernel, blocks_for(in.count, WARPS * I8_BLOCK), THREADS, 0,
                  accel->stream, in, reinterpret_cast<float *>(at[0]),
                  reinterpret_cast<int8_t *>(at[1]), accel->first_bad);
    else if (job->stretch.codec == PL_CODEC_I4)
        PL_LAUNCH(i4_kernel, blocks_for(in.count, WARPS * I4_BLOCK), THREADS, 0,
                  accel->stream, in, reinterpret_cast<uint16_t *>(at[0]), at[1],
                  accel->first_bad);
    else if (job->stretch.codec == PL_CODEC_E3M0)
        PL_LAUNCH(e3m0_kernel, blocks_for(in.count, WARPS * E3M0_BLOCK), THREADS, 0,
                  accel->stream, in, at[0], at[1], accel->first_bad);
    else
        PL_LAUNCH(shared_kernel, values, THREADS, 0, accel->stream, in, *scaling, at[0],
                  accel->first_bad);
}

pl_status quant_encode_cuda(codec_job *job)
{
    uint64_t raw[SECTIONS_MAX];
    size_t place[SECTIONS_MAX] = {};
    uint8_t *scratch, *at[SECTIONS_MAX];
    const shared_scaling scaling = prepare(job);
    const int n = codec_raw_bytes(&job->stretch, 1, raw);
    const size_t bytes = sections_place(raw, n, place);
    PL_RETURN_IF(accel_scratch(accel_of(job), bytes, &scratch));
    PL_RETURN_IF(accel_flag_clear(accel_of(job)));
    for (int i = 0; i < SECTIONS_MAX; i++)
        at[i] = scratch + place[i];
    launch(job, &scaling, at);
    PL_RETURN_IF(check_finite(job));
    return sections_send(job, raw, n, at);
}
