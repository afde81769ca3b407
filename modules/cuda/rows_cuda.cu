/* out = x w^T by tensor cores, for weights of one byte and up to CUDA_ROWS_MAX rows of
 * x, as in a decoding step with many sequences. The bytes are read once for all rows
 * and converted to bf16 in registers, which is exact. At the end the sums are
 * multiplied by the scales of the rows of w.
 *
 * A block has M tiles of 16 rows of w; its warps divide the columns. A warp first loads
 * its bytes of 8/M tiles of 32 columns, so that enough loads are in flight, then
 * multiplies these tiles one after another. Lane (g, p) loads 8 adjacent columns, from
 * p*8 on, of rows g and g+8 of w and of row g of x. So loads are wide, and shared
 * memory is not needed. A tensor-core instruction expects in a lane columns 2p, 2p+1,
 * 2p+8 and 2p+9 of its 16 columns. The sum does not depend on the order of columns, so
 * any columns can be used if they are the same for both operands.
 *
 * Each block reads x once, mostly from the cache. With M = 2 a block reads x for twice
 * as many rows of w. This is used only if w has at least TALL rows, so that all
 * multiprocessors have blocks. */
#include "modules/cuda/mma.cuh"
#include "modules/cuda/ops_cuda.cuh"

enum {
    PRODUCT_WARPS = 8,
    PRODUCT_THREADS = PRODUCT_WARPS * WARP_SIZE,
    PRODUCT_ROWS = 16,
    PRODUCT_COLUMNS = 32
};
/* the least number of rows of w for M = 2 */
enum { TALL = 4096 };

struct rows_call {
    const act *x; /* [N,I] */
    const int8_t *bytes;
    const float *scales;
    size_t stride;
    int N, O, I;
    act *out;    /* [N,O]; or NULL */
    float *wide; /* [N,O] in fp32, used if out is NULL */
};

/* Loads the eight bytes of a row from column `k` on. After the last row or column,
 * other bytes of the matrix are loaded; they are multiplied by zeros, or their products
 * are not stored. */
static __device__ __forceinline__ uint2 load_bytes(const rows_call *c, int o, int k)
{
    const size_t row = (size_t)min(o, c->O - 1), column = (size_t)(k < c->I ? k : 0);
    return *reinterpret_cast<const uint2 *>(c->bytes + row * c->stride + column);
}

/* Converts bytes `first` and first + 1 of a word to a pair of bf16. A small integer
 * needs only the upper half of a float. */
static __device__ unsigned convert_pair(unsigned word, int first)
{
    const float low = (float)(int8_t)(word >> (8 * first) & 255u);
    const float high = (float)(int8_t)(word >> (8 * first + 8) & 255u);
    return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

/* Loads eight columns of row n of x, from column k on; zeros after the last row or
 * column. */
static __device__ void load_acts_pairs(unsigned out[4], const rows_call *c, int n,
                                       int k)
{
    uint4 raw = make_uint4(0, 0, 0, 0);
    if (n < c->N && k < c->I)
        raw = *reinterpret_cast<const uint4 *>(c->x + (size_t)n * (size_t)c->I +
                                               (size_t)k);
    out[0] = raw.x, out[1] = raw.y, out[2] = raw.z, out[3] = raw.w;
}

/* Multiplies 32 columns from `k` on, of which this lane has 8. `raw` has this lane's
 * bytes of rows g and g+8 of each tile of w. */
template <int TILES, int M>
static __device__ void multiply_columns(float sum[M][TILES][4], const rows_call *c,
                                        const uint2 raw[M][2], int k)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
    unsigned first[M][4], second[M][4], x[4];
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            first[m][i] = convert_pair(raw[m][i % 2].x, i / 2 * 2);
            second[m][i] = convert_pair(raw[m][i % 2].y, i / 2 * 2);
        }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        load_acts_pairs(x, c, t * 8 + g, k + p * 8);
#pragma unroll
        for (int m = 0; m < M; m++) {
            mma_16x8x16(sum[m][t], first[m], x);
            mma_16x8x16(sum[m][t], second[m], x + 2);
        }
    }
}

/* Computes this warp's part of the product of 16 M rows of w with 8 TILES rows of x. */
template <int TILES, int M>
static __device__ void multiply_part(float sum[M][TILES][4], const rows_call *c, int o)
{
    enum { AHEAD = 8 / M };
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
    const int warp = (int)threadIdx.x / WARP_SIZE;
    for (int k = warp * AHEAD * PRODUCT_COLUMNS; k < c->I;
         k += PRODUCT_WARPS * AHEAD * PRODUCT_COLUMNS) {
        uint2 raw[AHEAD][M][2];
#pragma unroll
        for (int i = 0; i < AHEAD * M * 2; i++)
            raw[i / (M * 2)][i / 2 % M][i % 2] =
                load_bytes(c, o + i / 2 % M * PRODUCT_ROWS + i % 2 * 8 + g,
                           k + i / (M * 2) * PRODUCT_COLUMNS + p * 8);
        __syncwarp(); /* keeps the compiler from moving the loads to their uses */
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            multiply_columns<TILES, M>(sum, c, raw[i], k + i * PRODUCT_COLUMNS);
    }
}

/* The warps' parts are added up in order. */
template <int TILES, int M>
static __global__ void __launch_bounds__(PRODUCT_THREADS) rows_kernel(rows_call c)
{
    enum { N = 8 * TILES, HEIGHT = M * PRODUCT_ROWS };
    __shared__ float parts[PRODUCT_WARPS][N][HEIGHT];
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
    const int warp = (int)threadIdx.x / WARP_SIZE, first = (int)blockIdx.x * HEIGHT;
    float sum[M][TILES][4] = {};
    prefetch_rows(c.bytes, c.stride, first, HEIGHT, c.O);
    wait_for_earlier();
    multiply_part<TILES, M>(sum, &c, first);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < 4 * M; i++)
            parts[warp][t * 8 + 2 * p + i % 2][g + i / 2 * 8] = sum[i / 4][t][i % 4];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < N * HEIGHT; i += PRODUCT_THREADS) {
        const int n = i / HEIGHT, o = first + i % HEIGHT;
        float all = 0.0f;
        for (int w = 0; w < PRODUCT_WARPS; w++)
            all += parts[w][n][i % HEIGHT];
        if (n >= c.N || o >= c.O)
            continue;
        const size_t at = (size_t)n * (size_t)c.O + (size_t)o;
        if (c.out)
            c.out[at] = __float2bfloat16_rn(all * c.scales[o]);
        else
            c.wide[at] = all * c.scales[o];
    }
}

template <int TILES, int M> static void multiply(pl_backend *be, const rows_call *c)
{
    PL_LAUNCH_EARLY(cuda_self(be), (rows_kernel<TILES, M>),
                    blocks_for((size_t)c->O, PRODUCT_ROWS * M), PRODUCT_THREADS, 0, *c);
}

template <int TILES> static void multiply_tiles(pl_backend *be, const rows_call *c)
{
    if (c->O >= TALL)
        multiply<TILES, 2>(be, c);
    else
        multiply<TILES, 1>(be, c);
}

void cuda_rows(pl_backend *be, pl_act *out, float *wide, const pl_act *x,
               const pl_weight *w, int N)
{
    const rows_call c = {
        cuda_acts(x), w->bytes,       w->scales, cuda_bytes_stride(w->I), N, w->O,
        w->I,         cuda_acts(out), wide};
    if (N <= 8)
        multiply_tiles<1>(be, &c);
    else if (N <= 16)
        multiply_tiles<2>(be, &c);
    else if (N <= 32)
        multiply_tiles<4>(be, &c);
    else
        multiply<8, 1>(be, &c); /* twice the parts would exceed the shared memory */
}
