/* out = x w^T by tensor cores, for weights of one byte and up to CUDA_ROWS_MAX rows of
 * x, as in a decoding step with many sequences. The bytes are read once for all rows
 * and converted to bf16 in registers, which is exact. At the end the sums are
 * multiplied by the scales of the rows of w.
 *
 * A block has 16 rows of w; its warps divide the columns, 32 at a time. Lane (g, p)
 * loads 8 adjacent columns, from p*8 on, of rows g and g+8 of w and of row g of x. So
 * loads are wide, and shared memory is not needed. A tensor-core instruction expects in
 * a lane columns 2p, 2p+1, 2p+8 and 2p+9 of its 16 columns. The sum does not depend on
 * the order of columns, so any columns can be used if they are the same for both
 * operands. */
#include "modules/cuda/mma.cuh"
#include "modules/cuda/ops_cuda.cuh"

enum { WARPS = 8, THREADS = WARPS * WARP_SIZE, ROWS = 16, COLUMNS = 32 };

struct rows_call {
    const act *x; /* [N,I] */
    const int8_t *bytes;
    const float *scales;
    size_t stride;
    int N, O, I;
    act *out;    /* [N,O]; or NULL */
    float *wide; /* [N,O] in fp32, used if out is NULL */
};

/* Loads the eight bytes of a row from column `k` on, as pairs of bf16; 0 after the
 * end. */
static __device__ void load_pairs(unsigned out[4], const rows_call *c, int o, int k)
{
    uint2 raw = make_uint2(0, 0);
    if (o < c->O && k < c->I)
        raw = *reinterpret_cast<const uint2 *>(c->bytes + (size_t)o * c->stride +
                                               (size_t)k);
    const unsigned words[2] = {raw.x, raw.y};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned pair = words[i / 2] >> (i % 2 * 16);
        out[i] =
            pack_acts((float)(int8_t)(pair & 255u), (float)(int8_t)(pair >> 8 & 255u));
    }
}

/* Loads the same eight columns of a row of x. */
static __device__ void load_acts_pairs(unsigned out[4], const rows_call *c, int n,
                                       int k)
{
    uint4 raw = make_uint4(0, 0, 0, 0);
    if (n < c->N && k < c->I)
        raw = *reinterpret_cast<const uint4 *>(c->x + (size_t)n * (size_t)c->I +
                                               (size_t)k);
    out[0] = raw.x, out[1] = raw.y, out[2] = raw.z, out[3] = raw.w;
}

/* Computes this warp's part of the product of 16 rows of w with 8 TILES rows of x. */
template <int TILES>
static __device__ void multiply_part(float sum[TILES][4], const rows_call *c, int o)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
    const int warp = (int)threadIdx.x / WARP_SIZE;
    for (int k = warp * COLUMNS; k < c->I; k += WARPS * COLUMNS) {
        unsigned low[4], high[4], x[4];
        load_pairs(low, c, o + g, k + p * 8);
        load_pairs(high, c, o + g + 8, k + p * 8);
        const unsigned first[4] = {low[0], high[0], low[1], high[1]};
        const unsigned second[4] = {low[2], high[2], low[3], high[3]};
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            load_acts_pairs(x, c, t * 8 + g, k + p * 8);
            mma_16x8x16(sum[t], first, x);
            mma_16x8x16(sum[t], second, x + 2);
        }
    }
}

/* The warps' parts are added up in order. */
template <int TILES>
static __global__ void __launch_bounds__(THREADS) rows_kernel(rows_call c)
{
    enum { N = 8 * TILES };
    __shared__ float parts[WARPS][N][ROWS];
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
    const int warp = (int)threadIdx.x / WARP_SIZE, first = (int)blockIdx.x * ROWS;
    float sum[TILES][4];
    for (int t = 0; t < TILES; t++)
        sum[t][0] = sum[t][1] = sum[t][2] = sum[t][3] = 0.0f;
    multiply_part<TILES>(sum, &c, first);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            parts[warp][t * 8 + 2 * p + i % 2][g + i / 2 * 8] = sum[t][i];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < N * ROWS; i += THREADS) {
        const int n = i / ROWS, o = first + i % ROWS;
        float all = 0.0f;
        for (int w = 0; w < WARPS; w++)
            all += parts[w][n][i % ROWS];
        if (n >= c.N || o >= c.O)
            continue;
        const size_t at = (size_t)n * (size_t)c.O + (size_t)o;
        if (c.out)
            c.out[at] = __float2bfloat16_rn(all * c.scales[o]);
        else
            c.wide[at] = all * c.scales[o];
    }
}

template <int TILES> static void multiply(pl_backend *be, const rows_call *c)
{
    PL_LAUNCH((rows_kernel<TILES>), blocks_for((size_t)c->O, ROWS), THREADS, 0,
              cuda_stream(be), *c);
}

void cuda_rows(pl_backend *be, pl_act *out, float *wide, const pl_act *x,
               const pl_weight *w, int N)
{
    rows_call c = {};
    c.x = cuda_acts(x);
    c.bytes = w->bytes;
    c.scales = w->scales;
    c.stride = cuda_bytes_stride(w->I);
    c.N = N;
    c.O = w->O;
    c.I = w->I;
    c.out = cuda_acts(out);
    c.wide = wide;
    if (N <= 8)
        multiply<1>(be, &c);
    else if (N <= 16)
        multiply<2>(be, &c);
    else if (N <= 32)
        multiply<4>(be, &c);
    else
        multiply<8>(be, &c);
}
