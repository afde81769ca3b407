/* Which values of a stretch travel: the largest.
 *
 *   exact   the k largest of every 4096, ties to the lower index
 *   sidco   |a| taken as exponential: a share d lies above mean ln(1/d). In stages of
 *           at most a quarter each, on what is left above the last threshold eta:
 *           eta += (mean - eta) ln(1/d)   (SIDCo, arXiv:2101.10761)
 *   tagc    25 fixed thresholds, bisected for the first that keeps few enough. (TAGC's
 *           code then takes the one before, which keeps up to twice what was asked for;
 *           a sketch of a planned size cannot.)
 *
 * No selector keeps more than k of 4096 on average: where an estimate keeps more, or
 * less than half of that, the exact threshold of the whole stretch takes its place.
 * Zeros are never kept. */
#include "codec/codec_internal.h"

#include <math.h>

enum { GROUP = 16, GROUPS = TILE / GROUP, SELECT_BINS = 1 << 16 };

typedef struct select_tail {
    double sum; /* of |a| above a threshold */
    uint64_t count;
} select_tail;

CODEC_INLINE int32_t magnitude(float x)
{
    return (int32_t)(codec_float_bits(x) & 0x7fffffffu);
}

CODEC_WIDE uint32_t select_top(const float a[TILE])
{
    int32_t top = 0;
    for (int i = 0; i < TILE; i++) {
        int32_t m = magnitude(a[i]);
        top = m > top ? m : top;
    }
    return (uint32_t)top;
}

CODEC_WIDE static size_t count_above(const float *a, int32_t threshold)
{
    int32_t count = 0;
    for (int i = 0; i < TILE; i++)
        count += magnitude(a[i]) > threshold;
    return (size_t)count;
}

/* Bisection on bits: more than k lie above `low`, at most k above `high`. */
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

/* Whether anything of 16 values is at least `threshold`. */
CODEC_WIDE static void mark_groups(const float *restrict a, int32_t threshold,
                                   uint8_t *restrict marks)
{
    for (int g = 0; g < GROUPS; g++) {
        int32_t any = 0;
        for (int i = 0; i < GROUP; i++)
            any |= magnitude(a[g * GROUP + i]) >= threshold;
        marks[g] = (uint8_t)any;
    }
}

size_t select_indices(const float a[TILE], size_t n, codec_choice *choice,
                      uint16_t out[TILE])
{
    uint8_t marks[GROUPS];
    size_t kept = 0;
    int32_t above = (int32_t)choice->above;
    mark_groups(a, choice->ties ? above : above + 1, marks);
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
/* Compared as bits: of positive floats they have the same order, and vectors of them
 * need no care for NaN. */
CODEC_WIDE static void add_tail(const float *restrict a, int32_t threshold,
                                select_tail *restrict out)
{
    enum { LANES = 16 };
    double lanes[LANES] = {0};
    int32_t count = 0;
    for (int i = 0; i < TILE; i += LANES)
        for (int j = 0; j < LANES; j++) {
            int32_t m = magnitude(a[i + j]);
            int32_t kept = m & -(int32_t)(m > threshold);
            lanes[j] += (double)codec_bits_float((uint32_t)kept);
        }
    for (int i = 0; i < TILE; i++)
        count += magnitude(a[i]) > threshold;
    for (int j = 0; j < LANES; j++)
        out->sum += lanes[j];
    out->count += (uint64_t)count;
}

static pl_status measure_tail(const codec_job *job, float threshold, select_tail *out)
{
    float tile[TILE];
    int32_t bits = magnitude(threshold);
    *out = (select_tail){0, 0};
    for (uint64_t i = 0; i < job->stretch.count; i += TILE)
        add_tail(job_tile(job, i, tile), bits, out);
    return PL_OK;
}

/* ln x for x >= 1, by + - * / alone: with x = m 2^e and s = (m-1)/(m+1),
 * ln m = 2 (s + s^3/3 + ...), s < 1/3. */
static double natural_log(double x)
{
    int exponent = 0;
    double m = frexp(x, &exponent) * 2, s = (m - 1) / (m + 1), sum = 0;
    for (int k = 33; k >= 1; k -= 2)
        sum = sum * s * s + 1.0 / k;
    return 2 * s * sum + (exponent - 1) * 0.6931471805599453;
}

/* Aims a little below the budget, so that the last stage need not hit it. */
static pl_status sidco_threshold(const codec_job *job, uint64_t budget, float *out)
{
    enum { STAGES = 8 };
    double eta = 0, aim = 0.9 * (double)budget;
    for (int stage = 0; stage < STAGES; stage++) {
        select_tail t;
        PL_RETURN_IF(measure_tail(job, (float)eta, &t));
        if (t.count <= budget)
            break;
        double mean = t.sum / (double)t.count, ratio = (double)t.count / aim;
        eta += (mean - eta) * natural_log(ratio < 4 ? ratio : 4);
    }
    *out = (float)eta;
    return PL_OK;
}

static pl_status tagc_threshold(const codec_job *job, uint64_t budget, float *out)
{
    static const float thresholds[25] = {
        1e-20f, 1e-8f, 2e-8f, 5e-8f, 1e-7f, 2e-7f, 5e-7f, 1e-6f, 2e-6f,
        5e-6f,  1e-5f, 2e-5f, 5e-5f, 1e-4f, 2e-4f, 5e-4f, 1e-3f, 2e-3f,
        5e-3f,  1e-2f, 2e-2f, 5e-2f, 1e-1f, 2e-1f, 5e-1f};
    int low = 0, high = 24; /* the first that fits lies in low..high, or is the last */
    while (low < high) {
        int middle = (low + high) / 2;
        select_tail t;
        PL_RETURN_IF(measure_tail(job, thresholds[middle], &t));
        if (t.count <= budget)
            high = middle;
        else
            low = middle + 1;
    }
    *out = thresholds[low];
    return PL_OK;
}

/* The budget-th largest |a|, exactly: a histogram of the upper 16 bits, then one of the
 * lower 15 within the bin where it lies. */
static pl_status count_bins(const codec_job *job, int upper, uint64_t *bins)
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
    return PL_OK;
}

/* The bin that holds the one after `*left` larger ones; takes those off. What bin 0
 * counts is never read. */
static int find_bin(const uint64_t *bins, uint64_t *left)
{
    int bin = SELECT_BINS - 1;
    while (bin > 0 && bins[bin] < *left)
        *left -= bins[bin--];
    return bin;
}

static pl_status exact_threshold(const codec_job *job, uint64_t budget,
                                 codec_choice *out)
{
    uint64_t *bins = pl_alloc(SELECT_BINS * sizeof *bins), left = budget;
    int upper = 0, lower = 0;
    pl_status status = count_bins(job, -1, bins);
    if (status == PL_OK) {
        upper = find_bin(bins, &left);
        status = count_bins(job, upper, bins);
    }
    if (status == PL_OK)
        lower = find_bin(bins, &left);
    pl_free(bins);
    uint32_t above = (uint32_t)upper << 15 | (uint32_t)lower;
    *out = (codec_choice){above, above ? (size_t)left : 0};
    return status;
}

static pl_status check_finite(const codec_job *job)
{
    float tile[TILE];
    for (uint64_t i = 0; i < job->stretch.count; i += TILE)
        PL_RETURN_IF(job_check_finite(job, i, select_top(job_tile(job, i, tile))));
    return PL_OK;
}

pl_status select_stretch(const codec_job *job, codec_choice *out)
{
    uint64_t budget = codec_budget(job->options, (size_t)job->stretch.count);
    float threshold = 0;
    select_tail kept;
    PL_RETURN_IF(check_finite(job));
    if (job->options->selector == PL_SELECT_SIDCO)
        PL_RETURN_IF(sidco_threshold(job, budget, &threshold));
    else
        PL_RETURN_IF(tagc_threshold(job, budget, &threshold));
    *out = (codec_choice){codec_float_bits(threshold), 0};
    PL_RETURN_IF(measure_tail(job, threshold, &kept));
    if (kept.count <= budget && 2 * kept.count >= budget)
        return PL_OK;
    return exact_threshold(job, budget, out);
}
