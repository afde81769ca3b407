/* topk (outer/codec_topk.c, outer/codec_select.c).
 *
 *   select   a block of threads finds what is kept of a tile (codec_keep.cuh) and codes
 *   (host)   where each tile's part of the sections begins: tiles are few
 *   place    a thread writes a tile's gaps and codes there
 *   pack     a thread makes a byte of four codes of 2 bits
 *
 * Sums that the CPU makes along the values kept are made by one thread along them.
 */
#include "outer/cuda/codec_keep.cuh"

enum { THREADS = KEEP_THREADS, EACH = KEEP_EACH };

/* What a tile sends. Gaps after the first depend on the tile alone. */
struct topk_tile {
    unsigned n_kept, first, last, n_gaps;
};

/* Where it goes, and how many values were passed over before the tile. */
struct topk_place {
    unsigned long long kept, gap, passed;
};

struct topk_room {
    keep_plan plan;
    int bits;
    /* from keep_start of its tile on: indices within the tile, and codes, one a byte */
    uint16_t *where;
    uint8_t *codes;
    topk_tile *tiles;
    topk_place *places;
    uint8_t *scales, *gaps, *packed, *placed; /* placed: codes in their order */
    unsigned *first_bad;
};

/* ---- their codes ---- */

/* What travels beside the codes: one scale, or two magnitudes with a bound between. */
struct topk_scale {
    unsigned half[2];
    double bound;
};

/* Sums along the values kept, in their order: threads 0 and 1. */
static __device__ void find_means(topk_scale *scale, const float *kept, int n_kept)
{
    const int own = (int)threadIdx.x;
    double sum = 0.0;
    int count = 0;
    if (own == 0) {
        for (int i = 0; i < n_kept; i++)
            sum += (double)kept[i];
        scale->bound = n_kept ? sum / n_kept : 0.0;
    }
    __syncthreads();
    sum = 0.0;
    for (int i = 0; own < 2 && i < n_kept; i++)
        if (((double)kept[i] > scale->bound) == (own == 1)) {
            sum += (double)kept[i];
            count++;
        }
    if (own < 2)
        scale->half[own] = count ? half_of((float)(sum / count)) : 0u;
    __syncthreads();
}

struct topk_code {
    uint8_t code;
    float sent;
};

static __device__ topk_code code_of(float a, const topk_scale *scale, int bits)
{
    if (bits == 2) {
        const float m = __int_as_float(magnitude_bits(a));
        const unsigned above = (double)m > scale->bound,
                       sign = __float_as_uint(a) >> 31;
        const float sent = half_value(scale->half[above]);
        return topk_code{(uint8_t)(sign << 1 | above), sign ? -sent : sent};
    }
    const float step = half_value(scale->half[0]);
    const float inverse = scale->half[0] ? 1.0f / step : 0.0f;
    const int code = round_code(a * inverse);
    return topk_code{(uint8_t)code, step * (float)code};
}

static __device__ int gap_bytes(unsigned long long gap)
{
    return (int)(gap / 255) + 1;
}

/* The tile's record. */
static __device__ void note_tile(topk_tile *tile, const uint16_t *where, int n_kept,
                                 int *sums)
{
    int bytes = 0;
    for (int j = (int)threadIdx.x + 1; j < n_kept; j += THREADS)
        bytes += gap_bytes((unsigned)(where[j] - where[j - 1] - 1));
    bytes = block_sum<THREADS>(bytes, sums);
    if (threadIdx.x > 0)
        return;
    tile->n_kept = (unsigned)n_kept;
    tile->first = n_kept ? where[0] : 0u;
    tile->last = n_kept ? where[n_kept - 1] : 0u;
    tile->n_gaps = (unsigned)bytes;
}

static __device__ void write_scale(const topk_room *room, const topk_scale *scale)
{
    uint16_t *scales = reinterpret_cast<uint16_t *>(room->scales);
    if (room->bits == 2) {
        scales[2 * blockIdx.x] = (uint16_t)scale->half[0];
        scales[2 * blockIdx.x + 1] = (uint16_t)scale->half[1];
    } else {
        scales[blockIdx.x] = (uint16_t)scale->half[0];
    }
}

/* ---- kernels ---- */

static __global__ void __launch_bounds__(THREADS)
    topk_select_kernel(codec_input in, topk_room room)
{
    __shared__ keep_scratch scratch;
    __shared__ float kept_values[TILE];
    __shared__ uint16_t kept_where[TILE];
    __shared__ topk_scale scale;
    const size_t first = (size_t)blockIdx.x * TILE,
                 out = keep_start(&room.plan, blockIdx.x);
    float a[EACH];
    int m[EACH], rank[EACH];
    const int top = load_tile(a, m, &in, &scratch);
    if (threadIdx.x == 0)
        check_bits(room.first_bad, first, top);
    const unsigned kept = keep_tile(m, top, &room.plan, &scratch);
    const int n_kept = rank_flags(rank, kept, scratch.votes);
    for (int e = 0; e < EACH; e++)
        if (kept >> e & 1u) {
            kept_values[rank[e]] = __int_as_float(m[e]);
            kept_where[rank[e]] = (uint16_t)(e * THREADS + (int)threadIdx.x);
        }
    if (threadIdx.x == 0) /* where anything is kept, the largest value is */
        scale.half[0] = n_kept ? half_above(__int_as_float(top) / 127.0f) : 0u;
    __syncthreads();
    if (room.bits == 2)
        find_means(&scale, kept_values, n_kept);
    for (int e = 0; e < EACH; e++) {
        const size_t i = first + (size_t)e * THREADS + threadIdx.x;
        topk_code code = {0, 0.0f};
        if (kept >> e & 1u) {
            code = code_of(a[e], &scale, room.bits);
            room.where[out + (size_t)rank[e]] = kept_where[rank[e]];
            room.codes[out + (size_t)rank[e]] = code.code;
        }
        if (i < in.count)
            input_keep(&in, i, kept >> e & 1u ? a[e] - code.sent : a[e]);
    }
    if (threadIdx.x == 0)
        write_scale(&room, &scale);
    note_tile(&room.tiles[blockIdx.x], kept_where, n_kept, scratch.sums[0]);
}

static __global__ void __launch_bounds__(THREADS) topk_place_kernel(topk_room room)
{
    const unsigned t = blockIdx.x * THREADS + threadIdx.x;
    if (t >= room.plan.n_tiles)
        return;
    const size_t start = keep_start(&room.plan, t);
    const uint16_t *where = room.where + start;
    const uint8_t *codes = room.codes + start;
    const topk_place place = room.places[t];
    unsigned long long gap = place.passed, at = place.gap;
    for (unsigned j = 0, next = 0; j < room.tiles[t].n_kept; j++) {
        for (gap += where[j] - next; gap >= 255; gap -= 255)
            room.gaps[at++] = 255;
        room.gaps[at++] = (uint8_t)gap;
        room.placed[place.kept + j] = codes[j];
        next = where[j] + 1u;
        gap = 0;
    }
}

static __global__ void __launch_bounds__(THREADS)
    topk_pack_kernel(uint8_t *packed, const uint8_t *codes, size_t n)
{
    const size_t first = ((size_t)blockIdx.x * THREADS + threadIdx.x) * 4;
    unsigned byte = 0;
    if (first >= n)
        return;
    for (unsigned j = 0; j < 4 && first + j < n; j++)
        byte |= (unsigned)codes[first + j] << 2 * j;
    packed[first / 4] = (uint8_t)byte;
}

/* ---- the host's side ---- */

/* `most`: values kept. */
static pl_status make_room(codec_job *job, size_t most, topk_room *room)
{
    const size_t count = (size_t)job->stretch.count, n = room->plan.n_tiles;
    uint8_t *at;
    const size_t picks = accel_lines(n * sizeof(keep_pick));
    const size_t tiles = accel_lines(n * sizeof *room->tiles);
    const size_t places = accel_lines(n * sizeof *room->places);
    const size_t scales = accel_lines(4 * n);
    const size_t bytes = accel_lines(most), gaps = accel_lines(most + count / 255 + 1);
    const size_t where = accel_lines(most * sizeof *room->where);
    PL_RETURN_IF(
        accel_scratch(accel_of(job),
                      picks + tiles + places + scales + where + 3 * bytes + gaps, &at));
    room->plan.picks = reinterpret_cast<const keep_pick *>(at);
    room->tiles = reinterpret_cast<topk_tile *>(at += picks);
    room->places = reinterpret_cast<topk_place *>(at += tiles);
    room->scales = at += places;
    room->where = reinterpret_cast<uint16_t *>(at += scales);
    room->codes = at += where;
    room->placed = at += bytes;
    room->packed = at += bytes;
    room->gaps = at + bytes;
    room->bits = job->stretch.variant;
    room->first_bad = accel_of(job)->first_bad;
    return PL_OK;
}

/* Picks go over; without any the selector is the exact one. */
static pl_status send_picks(codec_job *job, const keep_pick *picks, topk_room *room)
{
    void *there = const_cast<keep_pick *>(room->plan.picks);
    if (!picks)
        room->plan.picks = NULL;
    return picks ? pl_accel_upload(accel_of(job), there, picks,
                                   room->plan.n_tiles * sizeof *picks)
                 : PL_OK;
}

/* As put_gaps of outer/codec_topk.c, without writing any. Returns the bytes. */
static size_t find_places(const topk_tile *tiles, size_t count, topk_place *places,
                          size_t n_tiles, size_t *n_kept)
{
    topk_place next = {};
    for (size_t t = 0; t < n_tiles; t++) {
        const size_t len = count - t * TILE < TILE ? count - t * TILE : (size_t)TILE;
        const topk_tile *tile = &tiles[t];
        places[t] = next;
        if (tile->n_kept == 0) {
            next.passed += len;
            continue;
        }
        next.gap += (next.passed + tile->first) / 255 + 1 + tile->n_gaps;
        next.kept += tile->n_kept;
        next.passed = len - tile->last - 1;
    }
    *n_kept = (size_t)next.kept;
    return (size_t)next.gap;
}

static pl_status place_tiles(codec_job *job, const topk_room *room, size_t *n_kept,
                             size_t *n_gaps)
{
    pl_status status = PL_OK;
    pl_accel *accel = accel_of(job);
    void *tiles = NULL, *places = NULL;
    const size_t bytes = room->plan.n_tiles * sizeof(topk_tile);
    const size_t place_bytes = room->plan.n_tiles * sizeof(topk_place);
    PL_TRY(pl_try_alloc(bytes, "tiles of an update", &tiles));
    PL_TRY(pl_try_alloc(place_bytes, "tiles of an update", &places));
    PL_TRY(pl_accel_download(accel, tiles, room->tiles, bytes));
    *n_gaps =
        find_places(static_cast<const topk_tile *>(tiles), (size_t)job->stretch.count,
                    static_cast<topk_place *>(places), room->plan.n_tiles, n_kept);
    PL_TRY(pl_accel_upload(accel, room->places, places, place_bytes));
done:
    pl_free_aligned(tiles);
    pl_free_aligned(places);
    return status;
}

/* The sections on the device. */
static pl_status fill_room(codec_job *job, const topk_room *room, size_t *n_kept,
                           size_t *n_gaps)
{
    pl_accel *accel = accel_of(job);
    const unsigned n_tiles = room->plan.n_tiles;
    PL_RETURN_IF(accel_flag_clear(accel));
    PL_LAUNCH(topk_select_kernel, n_tiles, THREADS, 0, accel->stream, input_of(job),
              *room);
    PL_RETURN_IF(check_finite(job));
    PL_RETURN_IF(place_tiles(job, room, n_kept, n_gaps));
    PL_LAUNCH(topk_place_kernel, blocks_for(n_tiles, THREADS), THREADS, 0,
              accel->stream, *room);
    if (room->bits == 2 && *n_kept > 0)
        PL_LAUNCH(topk_pack_kernel, blocks_for(*n_kept, 4 * THREADS), THREADS, 0,
                  accel->stream, room->packed, room->placed, *n_kept);
    return pl_accel_sync(accel);
}

pl_status topk_encode_cuda(codec_job *job)
{
    codec_stretch *s = &job->stretch;
    uint64_t raw[SECTIONS_MAX];
    size_t most = 0, n_kept = 0, n_gaps = 0;
    topk_room room;
    keep_pick *picks = NULL;
    pl_status status = PL_OK;
    memset(&room, 0, sizeof room);
    s->variant = job->options->value_bits;
    PL_TRY(keep_plan_make(job, &room.plan, &picks, &most));
    PL_TRY(make_room(job, most, &room));
    PL_TRY(send_picks(job, picks, &room));
    PL_TRY(fill_room(job, &room, &n_kept, &n_gaps));
done:
    pl_free_aligned(picks);
    PL_RETURN_IF(status);
    s->kept = n_kept;
    const int n = codec_raw_bytes(s, 1, raw);
    raw[1] = n_gaps;
    uint8_t *const from[SECTIONS_MAX] = {room.scales, room.gaps,
                                         room.bits == 2 ? room.packed : room.placed};
    return sections_send(job, raw, n, from);
}
