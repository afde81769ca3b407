/* The parts that the attention kernels share: the shape, tiles of one head in shared
 * memory, and products of tiles by single warps or groups of warps.
 *
 * D, the number of elements of a head, is even and at most 128. Kernels exist for HD =
 * 32, 64, 96 and 128 elements. A head is padded with zeros to the next HD; zeros do not
 * change any product. */
#pragma once
#include "modules/cuda/mma.cuh"
#include "modules/cuda/ops_cuda.cuh"

enum { ATTENTION_WARPS = 4, ATTENTION_THREADS = ATTENTION_WARPS * WARP_SIZE };
enum { HEAD_MAX = 128 };

static const float log2_e = 1.4426950408889634f;

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

/* Returns the thread's warp in its block. The shuffle lets the compiler know that all
 * lanes have the same value, so that it computes addresses once per warp. */
__device__ inline int warp_of_block()
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / WARP_SIZE, 0);
}

/* Returns x. The compiler does not compute what depends on the result before a loop,
 * because that would keep too many registers in use. */
__device__ inline int in_loop(int x)
{
#ifdef __CUDACC__
    asm volatile("" : "+r"(x));
#endif
    return x;
}

template <int N> __device__ inline void clear_rows(float (&c)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
        c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
}

/* ---- tiles ----
 *
 * A tile is a matrix in shared memory with rows of one head. Two types, warp_tiles and
 * group_tiles, say where its elements lie and how a block multiplies tiles. WARPS is
 * the number of warps of a block, each of which computes 16 rows of the results, and
 * GROUP the number of rows that are multiplied at once. KEYS and STEP are the numbers
 * of rows that the forward and the backward kernel take at a time. `forward` is the
 * type for the forward kernel, whose blocks may have more warps. It has STAGES tiles of
 * keys and of values: one is copied while two others are multiplied. */
enum { STAGES = 3 };

/* Products by single warps. Rows are padded by 8 acts, for which mma.cuh gives the
 * reason. */
template <int SIZE> struct warp_tiles {
    enum { HD = SIZE, GROUP = 16, WARPS = ATTENTION_WARPS, STRIDE = HD + 8 };
    enum { KEYS = HD > 64 ? 32 : 64, STEP = 32, WHOLE_CHUNKS = false };
    enum { EXISTS = true, THREADS = WARPS * WARP_SIZE, ROWS = 16 * WARPS };
    typedef warp_tiles forward;
    /* the size of a tile of ds [ROWS keys, STEP queries]; fragments of dq of a warp */
    enum { SLOPE_STRIDE = STEP + 8, SLOPES = ROWS * SLOPE_STRIDE, PARTS = HD / 16 };

    static constexpr int acts(int rows)
    {
        return rows * STRIDE;
    }
    /* Returns the address of the chunk of eight acts that contains the element. */
    static __device__ act *at(act *tile, int, int row, int column)
    {
        return tile + row * STRIDE + column / ACTS_WIDE * ACTS_WIDE;
    }

    /* Computes c[16, 8 N]: rows of `a`, from `row` on, times `b`^T, summed over HD. `a`
     * is a tile of ROWS rows, `b` one of 8 N rows. */
    template <int N>
    static __device__ void multiply_rows(float (&c)[N][4], const act *a, int row,
                                         const act *b)
    {
        clear_rows(c);
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

    /* Adds w[16, 8 N] times the tile b [8 N, HD] to c[16, HD]. w[k] is the fragment of
     * columns 16 k .. 16 k + 15 of w. */
    template <int N>
    static __device__ void multiply_weights(float (&c)[HD / 8][4],
                                            const unsigned (&w)[N / 2][4], const act *b)
    {
#pragma unroll
        for (int k = 0; k < N / 2; k++) {
            unsigned right[4];
#pragma unroll
            for (int n = 0; n < HD / 8; n += 2) {
                load_b_transposed(right, b, STRIDE, k * 16, n * 8);
                mma_16x8x16(c[n], w[k], right);
                mma_16x8x16(c[n + 1], w[k], right + 2);
            }
        }
    }

    static __device__ act *slope_at(act *tile, int key, int query)
    {
        return tile + key * SLOPE_STRIDE + query;
    }
    /* Returns which query of the step, and which element of the head, element i of
     * fragment n of dq is. A warp has 16 queries and half of the head. */
    static __device__ int slope_query(int warp, int, int i)
    {
        return warp % 2 * 16 + (int)threadIdx.x % WARP_SIZE / 4 + i / 2 * 8;
    }
    static __device__ int slope_column(int warp, int n, int i)
    {
        return warp / 2 * (HD / 2) + n * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
    }
    /* Adds the transposed tile of ds, times the tile of keys, to dq. */
    static __device__ void multiply_slopes(float (&c)[PARTS][4], act *slopes, act *keys)
    {
        const int lane = in_loop((int)threadIdx.x) % WARP_SIZE, warp = warp_of_block();
#pragma unroll
        for (int k = 0; k < ROWS; k += 16) {
            unsigned left[4], right[4];
            ldmatrix_transposed(left, slope_at(slopes, k + lane % 8 + lane / 16 * 8,
                                               warp % 2 * 16 + lane / 8 % 2 * 8));
#pragma unroll
            for (int n = 0; n < PARTS; n += 2) {
                load_b_transposed(right, keys, STRIDE, k, warp / 2 * (HD / 2) + n * 8);
                mma_16x8x16(c[n], left, right);
                mma_16x8x16(c[n + 1], left, right + 2);
            }
        }
    }

    /* The next functions do nothing, because products of single warps are complete at
     * once. */
    static __device__ void publish()
    {
    }
    static __device__ void begin()
    {
    }
    static __device__ void commit()
    {
    }
    template <int LEFT> static __device__ void wait()
    {
    }
    template <int N> static __device__ void use(float (&)[N][4])
    {
    }
};

/* Products by groups of four warps. They run while the warps go on, so the functions
 * must be called in the order begin, products, commit, wait, use (mma.cuh). */
template <int SIZE, int GROUPS = 2> struct group_tiles {
    enum { HD = SIZE, GROUP = 64, WARPS = 4 * GROUPS, KEYS = 128 };
    enum { STEP = HD > 64 ? 32 : 64, WHOLE_CHUNKS = true };
    enum { EXISTS = GROUP_PRODUCTS, THREADS = WARPS * WARP_SIZE, ROWS = 16 * WARPS };
    typedef group_tiles<SIZE, (SIZE > 64 ? 2 : 3)> forward;
    enum { SLOPES = ROWS * PANEL_COLUMNS, PARTS = 4 };

    static constexpr int acts(int rows)
    {
        return rows * HD;
    }
    static __device__ act *at(act *tile, int rows, int row, int column)
    {
        const int chunk = column / ACTS_WIDE % 8 ^ row % 8;
        return tile + (column / PANEL_COLUMNS * rows + row) * PANEL_COLUMNS +
               chunk * ACTS_WIDE;
    }

    template <int N>
    static __device__ void multiply_rows(float (&c)[N][4], const act *a, int row,
                                         const act *b)
    {
        const uint64_t left =
            group_operand(a + row / GROUP * GROUP * PANEL_COLUMNS, OPERAND_UNIT);
        const uint64_t right = group_operand(b, OPERAND_UNIT);
        group_multiply_rows<N, false>(c, left, right);
#pragma unroll
        for (int k = 16; k < HD; k += 16) {
            const int panel = k / PANEL_COLUMNS * PANEL_ROW_BYTES;
            const int column = k % PANEL_COLUMNS * (int)sizeof(act);
            group_multiply_rows<N, true>(
                c, left + (panel * ROWS + column) / OPERAND_UNIT,
                right + (panel * 8 * N + column) / OPERAND_UNIT);
        }
    }

    template <int N>
    static __device__ void multiply_weights(float (&c)[HD / 8][4],
                                            const unsigned (&w)[N / 2][4], const act *b)
    {
        const uint64_t right = group_operand(b, 8 * N * PANEL_ROW_BYTES);
#pragma unroll
        for (int k = 0; k < N / 2; k++)
            group_multiply_weights<HD / 8>(
                c, w[k], right + k * 16 * PANEL_ROW_BYTES / OPERAND_UNIT);
    }

    static __device__ act *slope_at(act *tile, int key, int query)
    {
        return at(tile, ROWS, key, query) + query % ACTS_WIDE;
    }
    /* A group computes a part of the transpose of dq: 32 queries and 64 elements. */
    static __device__ int slope_query(int warp, int n, int i)
    {
        return (HD > 64 ? 0 : warp / 4 * 32) + n * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
    }
    static __device__ int slope_column(int warp, int, int i)
    {
        return (HD > 64 ? warp : warp % 4) * 16 + (int)threadIdx.x % WARP_SIZE / 4 +
               i / 2 * 8;
    }
    static __device__ void multiply_slopes(float (&c)[PARTS][4], act *slopes, act *keys)
    {
        const int lane = in_loop((int)threadIdx.x) % WARP_SIZE, warp = warp_of_block();
        const int column = (HD > 64 ? warp : warp % 4) * 16 + lane / 8 % 2 * 8;
        unsigned left[ROWS / 16][4];
#pragma unroll
        for (int k = 0; k < ROWS / 16; k++)
            ldmatrix_transposed(
                left[k], at(keys, ROWS, k * 16 + lane % 8 + lane / 16 * 8, column));
        const int query = HD > 64 ? 0 : warp / 4 * 32;
        const uint64_t right = group_operand(slopes, OPERAND_UNIT) +
                               query * (int)sizeof(act) / OPERAND_UNIT;
        begin();
#pragma unroll
        for (int k = 0; k < ROWS / 16; k++)
            group_multiply_weights<PARTS>(
                c, left[k], right + k * 16 * PANEL_ROW_BYTES / OPERAND_UNIT);
        commit();
    }

    static __device__ void publish()
    {
        group_publish();
    }
    static __device__ void begin()
    {
        group_begin();
    }
    static __device__ void commit()
    {
        group_commit();
    }
    template <int LEFT> static __device__ void wait()
    {
        group_wait<LEFT>();
    }
    template <int N> static __device__ void use(float (&c)[N][4])
    {
        group_use(c);
    }
};

/* Copies ROWS rows of a head, one element at a time. Only `left` rows exist; the others
 * become zeros. */
template <class P, int ROWS>
__device__ inline void load_elements(act *tile, const act *at, size_t stride, int left,
                                     int D)
{
    for (unsigned i = (unsigned)in_loop((int)threadIdx.x); i < ROWS * P::HD;
         i += P::THREADS) {
        const int row = (int)(i / P::HD), column = (int)(i % P::HD);
        const bool inside = row < left && column < D;
        P::at(tile, ROWS, row, column)[column % ACTS_WIDE] =
            inside ? at[(size_t)row * stride + (size_t)column]
                   : __float2bfloat16_rn(0.0f);
    }
}

/* Copies rows first .. first + ROWS - 1 of a head (whose row 0 is at `from`) into a
 * tile, with zeros past T and past D. The copy is complete after copy_wait and a
 * barrier. */
template <class P, int ROWS>
__device__ inline void load_tile(act *tile, const act *from, size_t stride, int first,
                                 int T, int D)
{
    constexpr unsigned CHUNKS = P::HD / ACTS_WIDE, ALL = ROWS * CHUNKS;
    const act *at = from + (size_t)first * stride;
    const int left = T - first;
    const unsigned thread = (unsigned)in_loop((int)threadIdx.x);
    if constexpr (!P::WHOLE_CHUNKS)
        if (D % ACTS_WIDE != 0) {
            load_elements<P, ROWS>(tile, at, stride, left, D);
            return;
        }
#pragma unroll
    for (unsigned j = 0; j < ALL; j += P::THREADS) {
        const unsigned i = j + thread;
        const int row = (int)(i / CHUNKS), column = (int)(i % CHUNKS) * ACTS_WIDE;
        const bool inside = row < left && column < D;
        if (ALL % P::THREADS == 0 || i < ALL)
            copy_async(P::at(tile, ROWS, row, column),
                       inside ? at + (size_t)row * stride + (size_t)column : from,
                       inside ? 16 : 0);
    }
}

/* Returns the end of the rows that are multiplied together with `row`. */
template <class P> __device__ inline int group_end(int row)
{
    return row / P::GROUP * P::GROUP + P::GROUP;
}

/* Turns the fragments of results into fragments of operands. */
template <int N>
__device__ inline void pack_weights(unsigned (&out)[N / 2][4], const float (&w)[N][4])
{
#pragma unroll
    for (int k = 0; k < N / 2; k++)
        pack_a(out[k], w[2 * k], w[2 * k + 1]);
}

/* Writes this warp's c [16, 8 N] to rows first .. first + 15 of a head, except rows
 * from T on. scale[0] multiplies the lane's row g, scale[1] its row g + 8. */
template <int N>
__device__ inline void store_rows(act *to, size_t stride, const float (&c)[N][4],
                                  const float scale[2], int first, int T, int D)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = first + g + half * 8, column = n * 8 + 2 * p;
            if (row < T && column < D)
                *reinterpret_cast<unsigned *>(to + (size_t)row * stride + column) =
                    pack_acts(c[n][2 * half] * scale[half],
                              c[n][2 * half + 1] * scale[half]);
        }
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
        "setting the size of shared memory for attention");
    cuda_note_failure(cuda_self(be), status);
    return status == PL_OK;
}

/* Whether a kernel can compute B sequences with heads of D elements. If not, notes the
 * failure. */
bool attention_can(pl_backend *be, int B, int D);

/* Calls `launch`, a generic function object, with a value of the type warp_tiles<..>
 * for heads of D elements. */
template <class L> static inline void attention_choose_warps(int D, L launch)
{
    if (D <= 32)
        launch(warp_tiles<32>());
    else if (D <= 64)
        launch(warp_tiles<64>());
    else if (D <= 96)
        launch(warp_tiles<96>());
    else
        launch(warp_tiles<128>());
}

/* Calls `launch` in the same way, with the type of tiles that is fastest on this
 * device. Groups of warps can multiply only whole panels, and copy only whole chunks.
 */
template <class L> static inline void attention_choose(pl_backend *be, int D, L launch)
{
    if (!cuda_self(be)->group_products || D <= 32 || D % ACTS_WIDE != 0)
        attention_choose_warps(D, launch);
    else if (D <= 64)
        launch(group_tiles<64>());
    else
        launch(group_tiles<128>());
}

attention_shape attention_describe(const int32_t *texts, int T, int H, int G, int D);
