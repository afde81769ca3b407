/* Selects which values of a stretch (adjacent tensors with the same codec) are sent:
 * the values with the largest magnitudes.
 *
 *   exact   the k largest of every 4096; of equal values, those with lower indices
 *   tagc    25 fixed thresholds; bisection finds the lowest one that keeps at most k
 *           of 4096 values. (TAGC's own code takes the next lower threshold, which
 *           keeps up to twice as many; a sketch has no room for them.)
 *
 * Neither method keeps more than k of 4096 values on average. If the fixed threshold
 * keeps more values than that, or fewer than half of them, the exact threshold for the
 * complete stretch is used instead. Zeros are never kept. */
#include "codec/codec_internal.h"

enum { GROUP = 16, GROUPS = TILE / GROUP, SELECT_BINS = 1 << 16 };

CODEC_INLINE int32_t magnitude(float x)
{
    return (int32_t)(codec_float_bits(x) & 0x7fffffffu);
}

CODEC_WIDE uint32_t select_top(const float a[TILE])
{
    return codec_largest_bits(a, TILE);
}

CODEC_WIDE static size_t count_above(const float *a, int32_t threshold)
{
    int32_t count = 0;
    for (int i = 0; i < TILE; i++)
        count += magnitude(a[i]) > threshold;
    return (size_t)count;
}

/* Chooses the threshold of a tile by bisection on bit patterns: more than k values are
 * above `low`, and at most k values are above `high`. */
codec_choice select_tile(const float a[TILE], size_t k)
{
    int32_t low = 0, high = (int32_t)select_top(a);
    size_t above_high = 0;
    if (count_above(a, 0) <= k)
        return (codec_choice){0, 0};
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        size_t count = count_above(a, middle);
        if (count > k)
            low = middle;
        else {
            high = middle;
            above_high = count;
        }
        if (count == k)
            break;
    }
    return (codec_choice){(uint32_t)high, k - above_high};
}

size_t select_indices(const float a[TILE], size_t n, codec_choice *choice,
                      uint16_t out[TILE])
{
    uint8_t marks[GROUPS];
    size_t kept = 0;
    int32_t above = (int32_t)choice->above;
    /* marks each group of 16 values that has any value of at least `threshold` */
    int32_t threshold = choice->ties ? above : above + 1;
    for (int g = 0; g < GROUPS; g++) {
        int32_t any = 0;
        for (int i = 0; i < GROUP; i++)
            any |= magnitude(a[g * GROUP + i]) >= threshold;
        marks[g] = (uint8_t)any;
    }
    for (size_t first = 0; first < n; first += GROUP) {
        if (!marks[first / GROUP])
            continue;
        size_t end = first + GROUP < n ? first + GROUP : n;
        for (size_t i = first; i < end; i++) {
            int32_t m = magnitude(a[i]);
            bool tie = m == above && choice->ties > 0;
            choice->ties -= tie;
            out[kept] = (uint16_t)i;
            kept += tie || m > above;
        }
    }
    return kept;
}

/* ---- one threshold for a stretch ---- */
static uint64_t count_stretch(const codec_job *job, float threshold)
{
    float tile[TILE];
    uint64_t count = 0;
    for (uint64_t i = 0; i < job->stretch.count; i += TILE)
        count += count_above(job_tile(job, i, tile), magnitude(threshold));
    return count;
}

/* Counts values per bin. The budget-th largest |a| is found exactly with two
 * histograms. The first one is over the upper 16 bits of |a|. The second one is over
 * the lower 15 bits of the values in the bin that contains the value searched for. With
 * `upper` below 0 the first histogram is made, else the second one, for the bin
 * `upper`. */
static void count_bins(const codec_job *job, int upper, uint64_t *bins)
{
    float tile[TILE];
    memset(bins, 0, SELECT_BINS * sizeof *bins);
    for (uint64_t i = 0; i < job->stretch.count; i += TILE) {
        const float *a = job_tile(job, i, tile);
        size_t n = job_tile_length(job, i);
        for (size_t j = 0; j < n; j++) {
            int32_t m = magnitude(a[j]);
            if (upper < 0)
                bins[m >> 15]++;
            else if (m >> 15 == upper)
                bins[m & 0x7fff]++;
        }
    }
}

/* Finds the bin that contains the *left-th largest value, and subtracts the number of
 * values in higher bins from *left. If all higher bins together have fewer values, the
 * result is bin 0. */
static int find_bin(const uint64_t *bins, uint64_t *left)
{
    int bin = SELECT_BINS - 1;
    while (bin > 0 && bins[bin] < *left)
        *left -= bins[bin--];
    return bin;
}

pl_status select_stretch(const codec_job *job, codec_choice *out)
{
    static const float thresholds[25] = {
        1e-20f, 1e-8f, 2e-8f, 5e-8f, 1e-7f, 2e-7f, 5e-7f, 1e-6f, 2e-6f,
        5e-6f,  1e-5f, 2e-5f, 5e-5f, 1e-4f, 2e-4f, 5e-4f, 1e-3f, 2e-3f,
        5e-3f,  1e-2f, 2e-2f, 5e-2f, 1e-1f, 2e-1f, 5e-1f};
    uint64_t budget = codec_budget(job->options, (size_t)job->stretch.count);
    *out = (codec_choice){0, 0};
    float tile[TILE];
    for (uint64_t i = 0; i < job->stretch.count; i += TILE)
        PL_CHECK(job_check_finite(job, i, select_top(job_tile(job, i, tile))));
    /* TAGC: the first threshold that keeps at most `budget` values has an index in
     * low..high; if no threshold keeps so few, the last one is used */
    int low = 0, high = 24;
    while (low < high) {
        int middle = (low + high) / 2;
        if (count_stretch(job, thresholds[middle]) <= budget)
            high = middle;
        else
            low = middle + 1;
    }
    const float threshold = thresholds[low];
    uint64_t kept = count_stretch(job, threshold);
    if (kept <= budget && 2 * kept >= budget) {
        *out = (codec_choice){codec_float_bits(threshold), 0};
        return PL_OK;
    }
    /* the estimate is too far off, so the exact threshold is found */
    uint64_t *bins = pl_alloc(SELECT_BINS * sizeof *bins);
    count_bins(job, -1, bins);
    int upper = find_bin(bins, &budget);
    count_bins(job, upper, bins);
    int lower = find_bin(bins, &budget);
    pl_free(bins);
    uint32_t above = (uint32_t)upper << 15 | (uint32_t)lower;
    *out = (codec_choice){above, above ? (size_t)budget : 0};
    return PL_OK;
}
