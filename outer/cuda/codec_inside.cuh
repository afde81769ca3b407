/* Private to outer/cuda: what the codecs' kernels share. */
#ifndef PL_OUTER_CUDA_CODEC_INSIDE_CUH
#define PL_OUTER_CUDA_CODEC_INSIDE_CUH
#include "outer/codec_parts.h"
#include "outer/cuda/accel_inside.cuh"

/* The values of a stretch, a = weight * update + beta * residual. */
struct codec_input {
    const float *update;
    float *residual; /* or NULL; becomes what was not sent */
    float weight, beta;
    size_t count;
};
static inline codec_input input_of(const codec_job *job)
{
    const codec_input in = {job->update, job->residual, job->weight, job->beta,
                            (size_t)job->stretch.count};
    return in;
}
static inline pl_accel *accel_of(const codec_job *job)
{
    return static_cast<pl_accel *>(job->device);
}

/* As job_tile: without weight and residual every bit passes. */
static __device__ inline float input_value(const codec_input *in, size_t i)
{
    if (in->residual)
        return in->weight * in->update[i] + in->beta * in->residual[i];
    return in->weight == 1.0f ? in->update[i] : in->weight * in->update[i];
}
static __device__ inline void input_keep(const codec_input *in, size_t i, float left)
{
    if (in->residual)
        in->residual[i] = left;
}

/* Without the sign, the order of a float's bits is that of values. */
static __device__ inline int magnitude_bits(float x)
{
    return __float_as_int(x) & 0x7fffffff;
}
static __device__ inline float half_value(unsigned half)
{
    return __uint_as_float(half << 16);
}
/* As pl_bf16_from_float, to the last bit of a NaN. */
static __device__ inline unsigned half_of(float x)
{
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return ((bits >> 16) | 0x40u) & 0xffffu;
    return ((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16) & 0xffffu;
}
/* A positive float rounded up to bf16; zero for what would be subnormal. */
static __device__ inline unsigned half_above(float x)
{
    const unsigned half = (__float_as_uint(x) + 0xffffu) >> 16;
    return half < 0x80u ? 0u : half;
}
/* To nearest even, for |x| < 2^22 (codec_quant.c). */
static __device__ inline int round_code(float x)
{
    return __float_as_int(x + 12582912.0f) - 0x4b400000;
}
/* Tells that value i, which must be finite, is not. */
static __device__ inline void check_bits(unsigned *first_bad, size_t i, int magnitude)
{
    if (magnitude >= 0x7f800000)
        atomicMin(first_bad, (unsigned)(i / TILE));
}

/* Raw sections in scratch memory, each from a line's start. Returns their end. */
size_t sections_place(const uint64_t raw[SECTIONS_MAX], int n, size_t at[SECTIONS_MAX]);
/* Copies raw sections from the device into the message. */
pl_status sections_send(codec_job *job, const uint64_t raw[SECTIONS_MAX], int n,
                        uint8_t *const from[SECTIONS_MAX]);
/* ERR_NUMERIC if a kernel has met a value that is not finite. Waits. */
pl_status check_finite(const codec_job *job);

pl_status quant_encode_cuda(codec_job *job);
pl_status topk_encode_cuda(codec_job *job);
pl_status sketch_encode_cuda(codec_job *job);
pl_status sketch_peel_cuda(void *context, const codec_stretch *s, uint64_t seed,
                           const uint8_t *bitmap, const uint8_t *cells, pl_buf *codes);
pl_status dense_decode_cuda(const codec_task *task);
pl_status sparse_decode_cuda(const codec_task *task);

#endif
