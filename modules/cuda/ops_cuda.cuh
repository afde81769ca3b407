/* The state and the operations of the cuda backend. The equations are in modules/ops.h.
 * Each operation has a file, like its counterparts in ref/ and cpu/. */
#pragma once
#include "modules/backend.h"
#include "modules/cuda/acts.cuh"
#include "modules/cuda/gemm_cuda.h"
#include "modules/cuda/plan_cuda.h"
#include "modules/cuda/transit.cuh"

/* A weight: the compute copies of a matrix, all in one block of memory. */
struct pl_weight {
    const float *master; /* [O,I] */
    size_t n;            /* number of elements, O * I */
    int O, I;
    act *copy; /* bf16 [O,I]; NULL with int8 */
    /* NULL unless the backend uses int8: rows of cuda_bytes_stride(I) bytes, and one
     * scale per row */
    int8_t *bytes;
    float *scales;
};

/* CUDA_MATVEC_ROWS and CUDA_ROWS_MAX are the largest numbers of rows of x that
 * matvec_cuda.cu and rows_cuda.cu multiply. The kernels of both files read the matrix
 * only once. */
enum { CUDA_MATVEC_ROWS = 4, CUDA_ROWS_MAX = 64 };

/* Returns the number of bytes between the rows of an int8 weight, a multiple of 16. */
static inline size_t cuda_bytes_stride(int I)
{
    return ((size_t)I + 15) / 16 * 16;
}

/* Converts four bytes of a row to floats. */
__device__ inline void unpack_bytes(float *out, unsigned word)
{
    for (int i = 0; i < 4; i++)
        out[i] = (float)(int8_t)(word >> (8 * i) & 255u);
}

template <> struct raw_of<ACTS_WIDE, int8_t> {
    typedef uint2 type;
};
__device__ inline void to_floats(float *out, int8_t raw)
{
    out[0] = (float)raw;
}
__device__ inline void to_floats(float *out, uint2 raw)
{
    unpack_bytes(out, raw.x);
    unpack_bytes(out + 4, raw.y);
}

/* Loads rows first .. first+n-1 of a matrix of O rows into the L2 cache, up to 16 KiB.
 * Each block of a kernel that waits for earlier kernels calls this function. Only the
 * first blocks load rows, because the others probably begin later. Rows are aligned to
 * 16 bytes. */
__device__ inline void prefetch_rows(const void *matrix, size_t row_bytes, int first,
                                     int n, int O)
{
    const unsigned first_blocks = 1024;
    const size_t most = 16 << 10, bytes = (size_t)min(n, O - first) * row_bytes;
    if (threadIdx.x > 0 || blockIdx.x >= first_blocks)
        return;
    prefetch_l2(static_cast<const uint8_t *>(matrix) + (size_t)first * row_bytes,
                bytes < most ? bytes : most);
}

struct cuda_state {
    pl_backend backend;
    int device;
    cudaStream_t stream; /* the stream of all operations */
    cuda_gemm *gemm;
    /* whether groups of four warps multiply in attention (mma.cuh) */
    bool group_products;
    bool launches_early; /* whether PL_LAUNCH_EARLY may start kernels early */
    /* One block of memory that an operation may use until the next operation starts on
     * the stream. The block grows at the first call with a larger shape, and never
     * shrinks. */
    void *scratch;
    size_t scratch_bytes;
    /* cosines, then sines, of position * frequency: [rope_positions, rope_size / 2]
     * each */
    float *rope;
    int rope_positions, rope_size;
    double rope_theta;
    /* Page-locked memory through which copies between host and device pass. */
    device_transit transit;
    /* How often the scratch memory or the rope table was replaced. Recorded work refers
     * to the old memory, so it must not be repeated after that. */
    uint64_t generation;
    /* The first failure of an operation; sync reports it. */
    pl_status failure;
    char failure_text[512];
};

/* Every operation begins with a call of this function, which sets the thread's device.
 * CUDA uses device 0 in each thread that has set no device, and the thread that trains
 * is not the thread that opened the backend. */
static inline cuda_state *cuda_self(const pl_backend *be)
{
    cuda_state *self = static_cast<cuda_state *>(be->self);
    int current = 0;
    if (cudaGetDevice(&current) != cudaSuccess || current != self->device)
        (void)cudaSetDevice(self->device);
    return self;
}
static inline cudaStream_t cuda_stream(const pl_backend *be)
{
    return cuda_self(be)->stream;
}
static inline act *cuda_acts(pl_act *acts)
{
    return reinterpret_cast<act *>(acts);
}
static inline const act *cuda_acts(const pl_act *acts)
{
    return reinterpret_cast<const act *>(acts);
}

/* Keeps a failure and the thread's last error until sync reports them. Only the first
 * failure is kept. */
void cuda_note_failure(cuda_state *self, pl_status status);
/* Returns the scratch block with at least `bytes`, aligned to 256. If memory does not
 * suffice, notes the failure and returns NULL. */
void *cuda_scratch(cuda_state *self, size_t bytes);
/* Fills the rope table for positions 0 .. n_positions-1. If memory does not suffice,
 * notes the failure and returns false. */
bool cuda_rope_table(cuda_state *self, int n_positions, int D, double theta);

#define CUDA_DECLARE(op) pl_op_##op cuda_##op;
PL_OPS_OF_CASTS(CUDA_DECLARE)
PL_OPS_OF_WEIGHTS(CUDA_DECLARE)
PL_OPS_OF_MODELS(CUDA_DECLARE)
PL_OPS_OF_STEPS(CUDA_DECLARE)
#undef CUDA_DECLARE

/* dw[c] += the sum over n_parts of part[., c], in a fixed order. */
void cuda_norm_sum(pl_backend *be, float *dw, const float *part, unsigned n_parts,
                   int C);
/* Computes a product with cuBLASLt. A failure is kept until sync reports it. */
void cuda_multiply(pl_backend *be, const gemm_call *call);
/* Computes out (or wide if out is NULL) = x w^T for up to CUDA_MATVEC_ROWS rows of
 * x. */
void cuda_matvec(pl_backend *be, pl_act *out, float *wide, const pl_act *x,
                 const pl_weight *w, int N);
/* Computes out = x w^T with weights in bytes, for up to CUDA_ROWS_MAX rows. The width
 * of x must be a multiple of 8. */
void cuda_rows(pl_backend *be, pl_act *out, float *wide, const pl_act *x,
               const pl_weight *w, int N);
/* cuda_bytes_encode converts the master of a weight to bytes. The next function
 * converts the bytes to bf16 in scratch; if memory does not suffice, it notes the
 * failure and returns NULL. */
void cuda_bytes_encode(pl_backend *be, const pl_weight *w);
const act *cuda_bytes_decode(pl_backend *be, const pl_weight *w);
