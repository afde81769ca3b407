/* Private to outer/cuda: which values of a tile are kept, and in which place.
 *
 * A thread holds values t, t + 256, ... of its tile; order among all of them is made
 * from votes of warps. */
#ifndef PL_OUTER_CUDA_CODEC_KEEP_CUH
#define PL_OUTER_CUDA_CODEC_KEEP_CUH
#include "modules/cuda/warp.cuh"
#include "outer/cuda/codec_inside.cuh"

enum { KEEP_THREADS = 256, KEEP_WARPS = KEEP_THREADS / WARP_SIZE };
enum { KEEP_EACH = TILE / KEEP_THREADS };
enum { VOTES = KEEP_EACH * KEEP_WARPS, VOTES_EACH = VOTES / WARP_SIZE };

/* Of a tile, where one threshold serves a whole stretch: the place of its first kept
 * value among those of all tiles, and how many that equal the threshold it may keep. */
struct keep_pick {
    unsigned long long start;
    unsigned ties;
};

struct keep_plan {
    /* exact: values kept of a tile; of the last one. With picks: not used. */
    unsigned budget, last_budget;
    unsigned n_tiles;
    int above;              /* with picks */
    const keep_pick *picks; /* [n_tiles], or NULL: the k largest of each tile */
};

struct keep_scratch {
    int sums[2][KEEP_WARPS]; /* in turn: a barrier lies between uses of one */
    int votes[VOTES + 1];
};

static __device__ inline int count_above(const int m[KEEP_EACH], int threshold,
                                         int *sums)
{
    int count = 0;
    for (int e = 0; e < KEEP_EACH; e++)
        count += m[e] > threshold;
    return block_sum<KEEP_THREADS>(count, sums);
}

struct keep_choice {
    int above, ties;
};

/* Bisection on bits, as select_tile: more than k lie above `low`, at most k above
 * `high`. Every thread goes the same way. */
static __device__ __forceinline__ keep_choice choose(const int m[KEEP_EACH], int top,
                                                     int k, keep_scratch *scratch)
{
    int low = 0, high = top, above_high = 0, turn = 0;
    if (count_above(m, 0, scratch->sums[turn]) <= k)
        return keep_choice{0, 0};
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        turn = 1 - turn;
        const int count = count_above(m, middle, scratch->sums[turn]);
        if (count > k) {
            low = middle;
        } else {
            high = middle;
            above_high = count;
        }
        if (count == k)
            break;
    }
    return keep_choice{high, k - above_high};
}

/* Turns votes of (row, warp) into how many came before, in place; the first warp. */
static __device__ inline void add_votes(int *votes)
{
    const int lane = (int)threadIdx.x, first = lane * VOTES_EACH;
    int own = 0;
    for (int i = 0; i < VOTES_EACH; i++)
        own += votes[first + i];
    int before = own;
    for (unsigned step = 1; step < WARP_SIZE; step *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, before, step);
        before += lane >= (int)step ? other : 0;
    }
    if (lane == WARP_SIZE - 1)
        votes[VOTES] = before;
    before -= own;
    for (int i = 0; i < VOTES_EACH; i++) {
        const int here = votes[first + i];
        votes[first + i] = before;
        before += here;
    }
}

/* rank[e]: how many values with a bit in their thread's `flags` precede value e.
 * Returns how many there are. */
static __device__ inline int rank_flags(int rank[KEEP_EACH], unsigned flags, int *votes)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, warp = (int)threadIdx.x / WARP_SIZE;
    for (int e = 0; e < KEEP_EACH; e++) {
        const unsigned vote = __ballot_sync(0xffffffffu, (int)(flags >> e & 1u));
        rank[e] = __popc(vote & ((1u << lane) - 1u));
        if (lane == 0)
            votes[e * KEEP_WARPS + warp] = __popc(vote);
    }
    __syncthreads();
    if (warp == 0)
        add_votes(votes);
    __syncthreads();
    for (int e = 0; e < KEEP_EACH; e++)
        rank[e] += votes[e * KEEP_WARPS + warp];
    const int total = votes[VOTES];
    __syncthreads();
    return total;
}

/* The flags of what is kept; ties go to the lower index. */
static __device__ inline unsigned keep_flags(const int m[KEEP_EACH], keep_choice choice,
                                             int *votes)
{
    int rank[KEEP_EACH];
    unsigned ties = 0, kept = 0;
    for (int e = 0; e < KEEP_EACH; e++)
        ties |= (unsigned)(m[e] == choice.above) << e;
    (void)rank_flags(rank, ties, votes);
    for (int e = 0; e < KEEP_EACH; e++) {
        const bool tie = (ties >> e & 1u) && rank[e] < choice.ties;
        kept |= (unsigned)(tie || m[e] > choice.above) << e;
    }
    return kept;
}

/* A tile's values and their magnitudes; returns the largest of them all. */
static __device__ inline int load_tile(float a[KEEP_EACH], int m[KEEP_EACH],
                                       const codec_input *in, keep_scratch *scratch)
{
    const size_t first = (size_t)blockIdx.x * TILE + threadIdx.x;
    int top = 0;
    for (int e = 0; e < KEEP_EACH; e++) {
        const size_t i = first + (size_t)e * KEEP_THREADS;
        a[e] = i < in->count ? input_value(in, i) : 0.0f;
        m[e] = magnitude_bits(a[e]);
        top = max(top, m[e]);
    }
    return block_max<KEEP_THREADS>(top, scratch->votes);
}

/* The flags of what this tile keeps. */
static __device__ inline unsigned
keep_tile(const int m[KEEP_EACH], int top, const keep_plan *plan, keep_scratch *scratch)
{
    const bool is_last = blockIdx.x + 1 == plan->n_tiles;
    if (plan->picks) {
        const keep_choice given = {plan->above, (int)plan->picks[blockIdx.x].ties};
        __syncthreads(); /* load_tile's votes have been read */
        return keep_flags(m, given, scratch->votes);
    }
    const int k = (int)(is_last ? plan->last_budget : plan->budget);
    return keep_flags(m, choose(m, top, k, scratch), scratch->votes);
}

/* Where a tile's kept values begin. */
static __host__ __device__ inline size_t keep_start(const keep_plan *plan, size_t tile)
{
    return plan->picks ? (size_t)plan->picks[tile].start : tile * plan->budget;
}

/* The host's side: what of a stretch is kept, where a selector is not exact after
 * passes over all of it. `most` is how many values at most; picks [n_tiles] lie in the
 * host's memory, NULL for the exact selector. Free them with pl_free_aligned. */
pl_status keep_plan_make(codec_job *job, keep_plan *plan, keep_pick **picks,
                         size_t *most);

#endif
