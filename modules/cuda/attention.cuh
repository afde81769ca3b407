/* The parts that the attention kernels share: the shape, tiles of one head in shared
 * memory, and products of tiles by one warp.
 *
 * D, the number of elements of a head, is even and at most 128. Kernels exist for HD =
 * 32, 64, 96 and 128 elements. A head is padded with zeros to the next HD; zeros do not
 * change any product. */
#ifndef PL_MODULES_CUDA_ATTENTION_CUH
#define PL_MODULES_CUDA_ATTENTION_CUH
#include "modules/cuda/mma.cuh"
#include "modules/cuda/ops_cuda.cuh"

enum { ATTENTION_WARPS = 4, ATTENTION_THREADS = ATTENTION_WARPS * WARP_SIZE };
/* number of rows that a block computes: 16 per warp */
enum { ATTENTION_ROWS = 16 * ATTENTION_WARPS };
enum { HEAD_MAX = 128 };

struct attention_shape {
    int T, H, G, D;
    size_t stride; /* length of a row of qkv: (H + 2G) D */
    float scale;   /* 1/sqrt(D) */
    /* [B,T] for each position, where its text begins; NULL: every text begins at 0 */
    const int32_t *texts;
};

/* Returns where the text of position t of sequence b begins. This never decreases
 * within a sequence, so the first of several queries sees the earliest key. */
__device__ inline int text_begin(const attention_shape &s, int b, int t)
{
    return s.texts && t < s.T ? s.texts[(size_t)b * (size_t)s.T + (size_t)t] : 0;
}

/* STRIDE: number of acts from one row of a tile to the next, including a padding of 8,
 * for which mma.cuh gives the reason. */
template <int HD> struct tile_of {
    enum { STRIDE = HD + 8 };
    static constexpr size_t bytes(int rows)
    {
        return (size_t)rows * STRIDE * sizeof(act);
    }
};

/* Copies rows first..first+ROWS-1 of a head (whose row 0 is at `from`) into a tile,
 * with zeros past T and past D. The copy is complete after copy_wait and a barrier. */
template <int HD, int ROWS>
__device__ inline void load_tile(act *tile, const act *from, size_t stride, int first,
                                 int T, int D)
{
    constexpr int CHUNKS = HD / ACTS_WIDE;
    for (int i = (int)threadIdx.x; i < ROWS * CHUNKS; i += ATTENTION_THREADS) {
        const int row = i / CHUNKS, column = i % CHUNKS * ACTS_WIDE;
        act *to = tile + row * tile_of<HD>::STRIDE + column;
        const bool inside = first + row < T && column < D;
        const act *at =
            inside ? from + (size_t)(first + row) * stride + (size_t)column : from;
        if (D % ACTS_WIDE == 0) {
            copy_async(to, at, inside ? 16 : 0);
            continue;
        }
        for (int k = 0; k < ACTS_WIDE; k++)
            to[k] = inside && column + k < D ? at[k] : __float2bfloat16_rn(0.0f);
    }
}

/* Adds to c[16, 8 N] the product of rows of `a`, from `row` on, with `b`^T, summed over
 * HD. `b` is a tile of 8 N rows. */
template <int HD, int N>
__device__ inline void multiply_rows(float c[N][4], const act *a, int row, const act *b)
{
    constexpr int STRIDE = tile_of<HD>::STRIDE;
#pragma unroll
    for (int k = 0; k < HD; k += 16) {
        unsigned left[4], right[4];
        load_a(left, a, STRIDE, row, k);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            load_b(right, b, STRIDE, n * 8, k);
            mma_16x8x16(c[n], left, right);
            mma_16x8x16(c[n + 1], left, right + 2);
        }
    }
}

/* Adds w[16, 8 N] times the tile b [8 N, HD] to c[16, HD]. */
template <int HD, int N>
__device__ inline void multiply_weights(float c[HD / 8][4], const float w[N][4],
                                        const act *b)
{
    constexpr int STRIDE = tile_of<HD>::STRIDE;
#pragma unroll
    for (int k = 0; k < N; k += 2) {
        unsigned left[4], right[4];
        pack_a(left, w[k], w[k + 1]);
#pragma unroll
        for (int n = 0; n < HD / 8; n += 2) {
            load_b_transposed(right, b, STRIDE, k * 8, n * 8);
            mma_16x8x16(c[n], left, right);
            mma_16x8x16(c[n + 1], left, right + 2);
        }
    }
}

/* Writes this warp's c [16, HD], scaled by rows, as the rows of a head from `first`
 * on. */
template <int HD>
__device__ inline void store_rows(act *to, size_t stride, const float c[HD / 8][4],
                                  const float scale[2], int first, int T, int D)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
#pragma unroll
    for (int n = 0; n < HD / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = first + g + half * 8, column = n * 8 + 2 * p;
            if (row < T && column < D)
                *reinterpret_cast<unsigned *>(to + (size_t)row * stride + column) =
                    pack_acts(c[n][2 * half] * scale[half],
                              c[n][2 * half + 1] * scale[half]);
        }
}

template <int N> __device__ inline void clear_rows(float c[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
        c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
}

/* Returns the largest value among the four lanes that share a row. */
__device__ inline float row_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ inline float row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Asks the driver to allow dynamic shared memory for a kernel, which is required above
 * 48 KiB. If the driver refuses, notes the failure and returns false. */
template <class K>
static inline bool attention_allow_shared(pl_backend *be, K kernel, size_t bytes)
{
    const pl_status status = device_check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)bytes),
        "the shared memory of attention");
    cuda_note_failure(cuda_self(be), status);
    return status == PL_OK;
}

/* Whether a kernel can compute heads of D elements. If not, notes the failure. */
bool attention_can(pl_backend *be, int D);
attention_shape attention_describe(const int32_t *texts, int T, int H, int G, int D);

#endif
