/* Thresholds for a whole stretch (outer/codec_select.c): what SIDCo and TAGC ask of all
 * values, and the exact threshold where they miss. Sums run in the CPU's lanes within a
 * tile, and on the host from tile to tile. */
#include "outer/cuda/codec_keep.cuh"

enum { THREADS = KEEP_THREADS, EACH = KEEP_EACH, LANES = 16 };

static __global__ void __launch_bounds__(THREADS)
    check_kernel(codec_input in, unsigned *first_bad)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < in.count)
        check_bits(first_bad, i, magnitude_bits(input_value(&in, i)));
}

/* Of one tile: sums of magnitudes above a threshold in lanes, and how many. */
struct tail_part {
    double lanes[LANES];
    unsigned long long count;
};

static __global__ void __launch_bounds__(THREADS)
    tail_kernel(codec_input in, int threshold, tail_part *parts)
{
    __shared__ float tile[TILE];
    __shared__ int sums[THREADS / WARP_SIZE];
    const size_t first = (size_t)blockIdx.x * TILE;
    int count = 0;
    for (int e = 0; e < EACH; e++) {
        const int at = e * THREADS + (int)threadIdx.x;
        const size_t i = first + (size_t)at;
        const int m = i < in.count ? magnitude_bits(input_value(&in, i)) : 0;
        tile[at] = __int_as_float(m > threshold ? m : 0);
        count += m > threshold;
    }
    count = block_sum<THREADS>(count, sums); /* a barrier: the tile is there */
    if (threadIdx.x < LANES) {
        double lane = 0.0;
        for (int i = (int)threadIdx.x; i < TILE; i += LANES)
            lane += (double)tile[i];
        parts[blockIdx.x].lanes[threadIdx.x] = lane;
    }
    if (threadIdx.x == 0)
        parts[blockIdx.x].count = (unsigned long long)count;
}

/* Zeros lie in bin 0, which nobody reads: they are many, and would queue up. */
static __global__ void __launch_bounds__(THREADS)
    bins_kernel(codec_input in, int upper, unsigned long long *bins)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const int m = i < in.count ? magnitude_bits(input_value(&in, i)) : 0;
    if (m == 0)
        return;
    if (upper < 0)
        atomicAdd(&bins[m >> 15], 1ull);
    else if (m >> 15 == upper)
        atomicAdd(&bins[m & 0x7fff], 1ull);
}

/* How many values of a tile lie above the threshold, and on it. */
struct tile_count {
    unsigned above, ties;
};

static __global__ void __launch_bounds__(THREADS)
    count_kernel(codec_input in, int above, tile_count *counts)
{
    __shared__ int sums[2][THREADS / WARP_SIZE];
    const size_t first = (size_t)blockIdx.x * TILE + threadIdx.x;
    int n_above = 0, n_ties = 0;
    for (int e = 0; e < EACH; e++) {
        const size_t i = first + (size_t)e * THREADS;
        const int m = i < in.count ? magnitude_bits(input_value(&in, i)) : -1;
        n_above += m > above;
        n_ties += m == above;
    }
    n_above = block_sum<THREADS>(n_above, sums[0]);
    n_ties = block_sum<THREADS>(n_ties, sums[1]);
    if (threadIdx.x == 0)
        counts[blockIdx.x] = tile_count{(unsigned)n_above, (unsigned)n_ties};
}

/* ---- passes ---- */

static unsigned tiles_of(const codec_job *job)
{
    return blocks_for((size_t)job->stretch.count, TILE);
}

static pl_status check_there(const codec_job *job)
{
    pl_accel *accel = accel_of(job);
    PL_RETURN_IF(accel_flag_clear(accel));
    PL_LAUNCH(check_kernel, blocks_for((size_t)job->stretch.count, THREADS), THREADS, 0,
              accel->stream, input_of(job), accel->first_bad);
    return check_finite(job);
}

/* The sums of lanes are added lane by lane, tile by tile, as add_tail does. */
static pl_status tail_there(const codec_job *job, float threshold, select_tail *out)
{
    pl_accel *accel = accel_of(job);
    const size_t n = tiles_of(job), bytes = n * sizeof(tail_part);
    uint8_t *at;
    void *room = NULL;
    *out = select_tail{};
    PL_RETURN_IF(accel_scratch(accel, bytes, &at));
    PL_LAUNCH(tail_kernel, (unsigned)n, THREADS, 0, accel->stream, input_of(job),
              (int)(codec_float_bits(threshold) & 0x7fffffffu),
              reinterpret_cast<tail_part *>(at));
    PL_RETURN_IF(device_check(cudaGetLastError(), "looking for a threshold"));
    PL_RETURN_IF(pl_try_alloc(bytes, "sums of an update", &room));
    const pl_status status = pl_accel_download(accel, room, at, bytes);
    const tail_part *parts = static_cast<const tail_part *>(room);
    for (size_t t = 0; status == PL_OK && t < n; t++) {
        for (int lane = 0; lane < LANES; lane++)
            out->sum += parts[t].lanes[lane];
        out->count += parts[t].count;
    }
    pl_free_aligned(room);
    return status;
}

static pl_status bins_there(const codec_job *job, int upper, uint64_t *bins)
{
    pl_accel *accel = accel_of(job);
    const size_t bytes = SELECT_BINS * sizeof *bins;
    static_assert(sizeof *bins == sizeof(unsigned long long), "bins of two sizes");
    uint8_t *at;
    PL_RETURN_IF(accel_scratch(accel, bytes, &at));
    PL_RETURN_IF(device_check(cudaMemsetAsync(at, 0, bytes, accel->stream), "bins"));
    PL_LAUNCH(bins_kernel, blocks_for((size_t)job->stretch.count, THREADS), THREADS, 0,
              accel->stream, input_of(job), upper,
              reinterpret_cast<unsigned long long *>(at));
    PL_RETURN_IF(device_check(cudaGetLastError(), "looking for a threshold"));
    return pl_accel_download(accel, bins, at, bytes);
}

/* ---- the plan ---- */

static size_t share_out(const tile_count *counts, size_t ties, size_t n,
                        keep_pick *picks)
{
    size_t start = 0;
    for (size_t t = 0; t < n; t++) {
        const size_t kept = counts[t].ties < ties ? counts[t].ties : ties;
        picks[t].start = start;
        picks[t].ties = (unsigned)kept;
        start += counts[t].above + kept;
        ties -= kept;
    }
    return start;
}

static pl_status count_tiles(codec_job *job, const codec_choice *choice,
                             keep_pick *picks, size_t *most)
{
    pl_accel *accel = accel_of(job);
    const size_t n = tiles_of(job), bytes = n * sizeof(tile_count);
    uint8_t *at;
    void *room = NULL;
    PL_RETURN_IF(accel_scratch(accel, bytes, &at));
    PL_LAUNCH(count_kernel, (unsigned)n, THREADS, 0, accel->stream, input_of(job),
              (int)choice->above, reinterpret_cast<tile_count *>(at));
    PL_RETURN_IF(device_check(cudaGetLastError(), "counting what is kept"));
    PL_RETURN_IF(pl_try_alloc(bytes, "tiles of an update", &room));
    const pl_status status = pl_accel_download(accel, room, at, bytes);
    if (status == PL_OK)
        *most =
            share_out(static_cast<const tile_count *>(room), choice->ties, n, picks);
    pl_free_aligned(room);
    return status;
}

pl_status keep_plan_make(codec_job *job, keep_plan *plan, keep_pick **picks,
                         size_t *most)
{
    static const select_passes there = {check_there, tail_there, bins_there};
    const size_t count = (size_t)job->stretch.count, rest = count % TILE;
    codec_choice choice;
    void *room = NULL;
    *picks = NULL;
    memset(plan, 0, sizeof *plan);
    plan->n_tiles = tiles_of(job);
    plan->budget = (unsigned)codec_budget(job->options, TILE);
    plan->last_budget =
        (unsigned)codec_budget(job->options, rest ? rest : (size_t)TILE);
    *most = (size_t)plan->n_tiles * plan->budget;
    if (job->options->selector == PL_SELECT_EXACT)
        return PL_OK;
    PL_RETURN_IF(select_stretch_by(job, &there, &choice));
    plan->above = (int)choice.above;
    PL_RETURN_IF(
        pl_try_alloc(plan->n_tiles * sizeof **picks, "tiles of an update", &room));
    *picks = static_cast<keep_pick *>(room);
    return count_tiles(job, &choice, *picks, most);
}
