/* The backward pass of RMSNorm.
 *
 * A block computes dx of a chunk of rows and sums dw over these rows, so that the
 * activations are read once. The sums of the chunks go to scratch, and a second kernel
 * adds them up in a fixed order. On an H100, a pass for dx and another pass for dw took
 * twice the time of one pass over the activations. */
#include "modules/cuda/acts.cuh"
#include "modules/cuda/ops_cuda.cuh"
#include "modules/cuda/warp.cuh"

/* The backward pass computes TOGETHER rows at a time, so that the loads of several rows
 * are under way at once. A thread has SPAN neighbouring columns. */
enum { TOGETHER = 2, SPAN = ACTS_WIDE, NORM_BACK_THREADS = 1024 };
enum { MAX_WARPS = NORM_BACK_THREADS / WARP_SIZE };

/* The part of the rows that a thread holds: pairs of acts, and the gains of its
 * columns. */
struct row_spans {
    unsigned dy[TOGETHER][SPAN / 2], x[TOGETHER][SPAN / 2], dx[TOGETHER][SPAN / 2];
    float gain[SPAN];
};

/* Loads n acts (SPAN of them if V is SPAN) as pairs. */
template <int V>
static __device__ void load_pairs(unsigned pairs[SPAN / 2], const act *from, int n)
{
    if constexpr (V == SPAN) {
        const uint4 raw = *reinterpret_cast<const uint4 *>(from);
        pairs[0] = raw.x, pairs[1] = raw.y, pairs[2] = raw.z, pairs[3] = raw.w;
    } else {
        for (int i = 0; i < SPAN; i++) {
            const unsigned bits = i < n ? __bfloat16_as_ushort(from[i]) : 0u;
            pairs[i / 2] = i % 2 ? pairs[i / 2] | bits << 16 : bits;
        }
    }
}

/* Loads this thread's columns, from c on, of `rows` rows; the first row begins at index
 * `row`. Without `add`, dx counts as 0. */
template <int V>
static __device__ void load_spans(row_spans *s, const act *dx, const act *dout,
                                  const act *x, const float *w, size_t row, int rows,
                                  int c, int C, bool add)
{
    const int n = min((int)SPAN, C - c);
    for (int k = 0; k < TOGETHER; k++) {
        const size_t at = row + (size_t)k * (size_t)C + (size_t)c;
        for (int i = 0; i < SPAN / 2; i++)
            s->dy[k][i] = s->x[k][i] = s->dx[k][i] = 0u;
        if (k >= rows)
            continue;
        load_pairs<V>(s->dy[k], dout + at, n);
        load_pairs<V>(s->x[k], x + at, n);
        if (add)
            load_pairs<V>(s->dx[k], dx + at, n);
    }
    for (int i = 0; i < SPAN; i += V)
        if (i < n)
            load_floats<V>(s->gain + i, w + c + i);
        else
            s->gain[i] = 0.0f;
}

/* Adds this thread's part of sum_c dy w x to the dots of the rows. */
static __device__ void add_dots(float dot[TOGETHER], const row_spans *s)
{
    for (int k = 0; k < TOGETHER; k++)
        for (int i = 0; i < SPAN; i += 2) {
            float dy[2], x[2];
            unpack_acts(dy, s->dy[k][i / 2]);
            unpack_acts(x, s->x[k][i / 2]);
            dot[k] = fmaf(dy[0] * s->gain[i], x[0], dot[k]);
            dot[k] = fmaf(dy[1] * s->gain[i + 1], x[1], dot[k]);
        }
}

/* Sums each row's dot over the block and gives the sums to all threads. Two calls with
 * the same `shares` need a barrier between them. */
static __device__ void sum_dots(float dot[TOGETHER], float (*shares)[MAX_WARPS])
{
    const int warp = (int)threadIdx.x / WARP_SIZE, lane = (int)threadIdx.x % WARP_SIZE;
    for (int k = 0; k < TOGETHER; k++) {
        dot[k] = warp_sum(dot[k]);
        if (lane == 0)
            shares[k][warp] = dot[k];
    }
    __syncthreads();
    for (int k = 0; k < TOGETHER; k++)
        dot[k] = warp_sum(lane < (int)blockDim.x / WARP_SIZE ? shares[k][lane] : 0.0f);
}

/* Adds the norm's gradient to dx of row k, and the row's part to dw. */
static __device__ void pass_back(row_spans *s, float dw[SPAN], int k, float r,
                                 float slope)
{
    for (int i = 0; i < SPAN; i += 2) {
        float dy[2], x[2], d[2];
        unpack_acts(dy, s->dy[k][i / 2]);
        unpack_acts(x, s->x[k][i / 2]);
        unpack_acts(d, s->dx[k][i / 2]);
        for (int j = 0; j < 2; j++) {
            d[j] += r * (s->gain[i + j] * dy[j] - x[j] * slope);
            dw[i + j] = fmaf(dy[j] * x[j], r, dw[i + j]);
        }
        s->dx[k][i / 2] = pack_acts(d[0], d[1]);
    }
}

template <int V>
static __device__ void store_pairs(act *to, const unsigned pairs[SPAN / 2], int n)
{
    if constexpr (V == SPAN) {
        *reinterpret_cast<uint4 *>(to) =
            make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    } else {
        for (int i = 0; i < SPAN; i++)
            if (i < n)
                to[i] = __ushort_as_bfloat16(
                    (unsigned short)(i % 2 ? pairs[i / 2] >> 16 : pairs[i / 2]));
    }
}

template <int V>
static __device__ void load_sums(float sum[SPAN], const float *from, int n)
{
    for (int i = 0; i < SPAN; i += V)
        if (i < n)
            load_floats<V>(sum + i, from + i);
}

template <int V>
static __device__ void store_sums(float *to, const float sum[SPAN], int n)
{
    for (int i = 0; i < SPAN; i += V)
        if (i < n)
            store_floats<V>(to + i, sum + i);
}

/* Computes dx of a chunk of rows, and part[chunk, c], the sum of dout x rstd over these
 * rows. A row with up to SPAN columns per thread is read once and stays in registers.
 * Longer rows (C > 8192) are read a second time, and their sums are kept in `part`. */
template <int V>
static __global__ void __launch_bounds__(NORM_BACK_THREADS)
    rmsnorm_backward_kernel(act *dx, float *part, const act *dout, const act *x,
                            const float *w, const float *rstd, int N, int C, bool add)
{
    __shared__ float shares[2][TOGETHER][MAX_WARPS];
    const int first = (int)threadIdx.x * SPAN, step = (int)blockDim.x * SPAN;
    const int start = (int)blockIdx.x * CUDA_NORM_CHUNK,
              end = min(N, start + CUDA_NORM_CHUNK);
    const bool several = C > step;
    float *sums = part + (size_t)blockIdx.x * (size_t)C;
    float dw[SPAN] = {};
    row_spans s;
    for (int n = start, turn = 0; n < end; n += TOGETHER, turn ^= 1) {
        const size_t row = (size_t)n * (size_t)C;
        const int rows = min((int)TOGETHER, end - n);
        float dot[TOGETHER] = {}, r[TOGETHER];
        for (int k = 0; k < TOGETHER; k++) /* loaded early, like the rows */
            r[k] = rstd[min(n + k, end - 1)];
        for (int c = first; c < C; c += step) {
            load_spans<V>(&s, dx, dout, x, w, row, rows, c, C, add);
            add_dots(dot, &s);
        }
        sum_dots(dot, shares[turn]);
        for (int c = first; c < C; c += step) {
            const int own = min((int)SPAN, C - c);
            if (several) {
                load_spans<V>(&s, dx, dout, x, w, row, rows, c, C, add);
                for (int i = 0; i < SPAN; i++)
                    dw[i] = 0.0f;
                if (n > start)
                    load_sums<V>(dw, sums + c, own);
            }
            for (int k = 0; k < rows; k++) {
                pass_back(&s, dw, k, r[k], dot[k] / (float)C * r[k] * r[k]);
                store_pairs<V>(dx + row + (size_t)k * (size_t)C + c, s.dx[k], own);
            }
            if (several || n + TOGETHER >= end)
                store_sums<V>(sums + c, dw, own);
        }
    }
}

/* A block adds up the parts of SUM_COLUMNS columns. Each thread adds every
 * SUM_SHARES-th part of a column, several at a time because each load takes long; the
 * threads' sums are added in a fixed tree. */
enum { SUM_COLUMNS = 8, SUM_SHARES = 64, SUM_THREADS = SUM_COLUMNS * SUM_SHARES };

static __global__ void __launch_bounds__(SUM_THREADS)
    rmsnorm_dw_sum_kernel(float *dw, const float *part, int n_parts, int C)
{
    enum { NORM_BACK_WARPS = SUM_THREADS / WARP_SIZE };
    __shared__ float shares[NORM_BACK_WARPS][SUM_COLUMNS];
    const int column = (int)threadIdx.x % SUM_COLUMNS;
    const int c = (int)blockIdx.x * SUM_COLUMNS + column;
    float sum = 0.0f;
    if (c < C) {
#pragma unroll 8
        for (int i = (int)threadIdx.x / SUM_COLUMNS; i < n_parts; i += SUM_SHARES)
            sum += part[(size_t)i * (size_t)C + (size_t)c];
    }
    for (int step = SUM_COLUMNS; step < WARP_SIZE; step *= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % WARP_SIZE < SUM_COLUMNS)
        shares[threadIdx.x / WARP_SIZE][column] = sum;
    __syncthreads();
    if (threadIdx.x >= SUM_COLUMNS || c >= C)
        return;
    for (int i = 1; i < NORM_BACK_WARPS; i++)
        sum += shares[i][column];
    dw[c] += sum;
}

void cuda_norm_sum(pl_backend *be, float *dw, const float *part, unsigned n_parts,
                   int C)
{
    PL_LAUNCH(rmsnorm_dw_sum_kernel, blocks_for((size_t)C, SUM_COLUMNS), SUM_THREADS, 0,
              cuda_stream(be), dw, part, (int)n_parts, C);
}

void cuda_rmsnorm_backward(pl_backend *be, pl_act *dx, float *dw, const pl_act *dout,
                           const pl_act *x, const float *w, const float *rstd, int N,
                           int C, bool accumulate)
{
    const unsigned n_chunks = blocks_for((size_t)N, CUDA_NORM_CHUNK);
    const unsigned warps = blocks_for((size_t)C, SPAN * WARP_SIZE);
    const unsigned block =
        WARP_SIZE * (warps < MAX_WARPS ? warps : (unsigned)MAX_WARPS);
    float *part = static_cast<float *>(
        cuda_scratch(cuda_self(be), cuda_norm_bytes((size_t)N, (size_t)C)));
    if (!part)
        return;
    if (acts_width(C) == ACTS_WIDE)
        PL_LAUNCH((rmsnorm_backward_kernel<ACTS_WIDE>), n_chunks, block, 0,
                  cuda_stream(be), cuda_acts(dx), part, cuda_acts(dout), cuda_acts(x),
                  w, rstd, N, C, accumulate);
    else
        PL_LAUNCH((rmsnorm_backward_kernel<1>), n_chunks, block, 0, cuda_stream(be),
                  cuda_acts(dx), part, cuda_acts(dout), cuda_acts(x), w, rstd, N, C,
                  accumulate);
    cuda_norm_sum(be, dw, part, n_chunks, C);
}
