/* sketch16 (outer/codec_sketch.c).
 *
 *   select    a block of threads finds what is kept of a tile, and its codes
 *   (host)    how many values lie before each tile
 *   gather    elements and codes of all tiles, one behind the other
 *   cells     each element into its three cells
 *   peel      in rounds: `find` looks for elements that are alone in a cell, `take`
 *             takes all of them out at once
 *
 * What a cell counts is added modulo 2^32 here, of which the lower 16 bits travel;
 * integers add up in any order. Which elements come out does not depend on the order
 * either, and where all do, each has one code only.
 */
#include "outer/cuda/codec_keep.cuh"
#include "outer/codec_sketch.h"

enum { THREADS = KEEP_THREADS, EACH = KEEP_EACH, WORDS = TILE / 32 };
enum { ROUNDS_AT_ONCE = 4 };
/* Of an element: not found; found in cell 1..3 of its own; taken out. */
enum : uint8_t { LEFT = 0, TAKEN = 4 };

/* Elements, their codes, and cells, on the device. */
struct sketch_room {
    uint64_t seed, first; /* first: of the stretch in the update */
    size_t n;             /* elements */
    uint64_t count;       /* values of the stretch */
    uint32_t third, last_third;
    size_t n_cells;
    unsigned n_segments;
    uint64_t *elements; /* [n] of the stretch, rising */
    int16_t *codes;     /* [n] */
    uint8_t *states;    /* [n] */
    uint32_t *cells, *degrees;
    uint16_t *narrow; /* the cells as they travel */
    uint32_t *left;   /* [n_segments] elements that did not come out */
    uint32_t *dirty;  /* [n_segments] whether a cell is not zero at the end */
    uint32_t *found;  /* whether a round found any */
};

/* ---- cells ---- */

static __device__ size_t element_index()
{
    return (size_t)blockIdx.x * THREADS + threadIdx.x;
}

/* The cells of element i; returns where those of its segment begin. */
static __device__ size_t find_cells(const sketch_room *r, size_t i, sketch_cells *out)
{
    const uint64_t element = r->elements[i], segment = element / SEGMENT;
    const bool is_last = segment + 1 == r->n_segments;
    sketch_find(r->seed, r->first + element, is_last ? r->last_third : r->third, out);
    return (size_t)segment * 3 * r->third;
}

/* With codes; or only how many elements each cell has. */
static __global__ void __launch_bounds__(THREADS)
    sketch_cells_kernel(sketch_room r, bool with_codes)
{
    const size_t i = element_index();
    sketch_cells at;
    if (i >= r.n)
        return;
    const size_t base = find_cells(&r, i, &at);
    for (int j = 0; j < 3; j++) {
        atomicAdd(&r.degrees[base + at.cell[j]], 1u);
        if (with_codes)
            atomicAdd(&r.cells[base + at.cell[j]],
                      (uint32_t)sketch_signed(&at, j, r.codes[i]));
    }
}

static __global__ void __launch_bounds__(THREADS) sketch_narrow_kernel(sketch_room r)
{
    const size_t i = element_index();
    if (i < r.n_cells)
        r.narrow[i] = (uint16_t)r.cells[i];
}

static __global__ void __launch_bounds__(THREADS) sketch_widen_kernel(sketch_room r)
{
    const size_t i = element_index();
    if (i < r.n_cells)
        r.cells[i] = r.narrow[i];
}

/* ---- peeling ---- */

/* Elements that are alone in a cell: its content is their code. */
static __global__ void __launch_bounds__(THREADS) sketch_find_kernel(sketch_room r)
{
    const size_t i = element_index();
    sketch_cells at;
    if (i >= r.n || r.states[i] == TAKEN)
        return;
    const size_t base = find_cells(&r, i, &at);
    for (int j = 0; j < 3; j++)
        if (r.degrees[base + at.cell[j]] == 1) {
            const int16_t content = (int16_t)(uint16_t)r.cells[base + at.cell[j]];
            r.codes[i] = (int16_t)sketch_signed(&at, j, content);
            r.states[i] = (uint8_t)(j + 1);
            return;
        }
}

/* A round's are taken out together: what one leaves behind is found in the next. */
static __global__ void __launch_bounds__(THREADS) sketch_take_kernel(sketch_room r)
{
    const size_t i = element_index();
    sketch_cells at;
    if (i >= r.n || r.states[i] == LEFT || r.states[i] == TAKEN)
        return;
    const size_t base = find_cells(&r, i, &at);
    for (int j = 0; j < 3; j++) {
        atomicAdd(&r.degrees[base + at.cell[j]], 0xffffffffu); /* one fewer */
        atomicAdd(&r.cells[base + at.cell[j]],
                  0u - (uint32_t)sketch_signed(&at, j, r.codes[i]));
    }
    r.states[i] = TAKEN;
    atomicOr(r.found, 1u);
}

static __global__ void __launch_bounds__(THREADS) sketch_left_kernel(sketch_room r)
{
    const size_t i = element_index();
    if (i < r.n && r.states[i] != TAKEN)
        atomicAdd(&r.left[r.elements[i] / SEGMENT], 1u);
    if (i < r.n_cells && (r.cells[i] & 0xffffu) != 0)
        atomicOr(&r.dirty[min(i / (3 * (size_t)r.third), (size_t)r.n_segments - 1)],
                 1u);
}

/* ---- which values ---- */

struct sketch_choice {
    keep_plan plan;
    float inverse, step, limit;
    /* from keep_start of its tile on */
    uint16_t *where;
    int16_t *codes;
    uint32_t *bitmap; /* [n_tiles, WORDS] */
    uint32_t *n_kept; /* [n_tiles] */
    unsigned *first_bad;
};

/* Codes of zero are left out: nothing of theirs is sent. */
static __global__ void __launch_bounds__(THREADS)
    sketch_select_kernel(codec_input in, sketch_choice c)
{
    __shared__ keep_scratch scratch;
    const size_t first = (size_t)blockIdx.x * TILE,
                 out = keep_start(&c.plan, blockIdx.x);
    const int lane = (int)threadIdx.x % WARP_SIZE, warp = (int)threadIdx.x / WARP_SIZE;
    float a[EACH];
    int m[EACH], rank[EACH], code[EACH];
    unsigned sent = 0;
    const int top = load_tile(a, m, &in, &scratch);
    if (threadIdx.x == 0)
        check_bits(c.first_bad, first, top);
    const unsigned kept = keep_tile(m, top, &c.plan, &scratch);
    for (int e = 0; e < EACH; e++) {
        float x = a[e] * c.inverse;
        x = x > c.limit ? c.limit : x;
        x = x < -c.limit ? -c.limit : x;
        code[e] = kept >> e & 1u ? round_code(x) : 0;
        sent |= (unsigned)(code[e] != 0) << e;
    }
    const int n = rank_flags(rank, sent, scratch.votes);
    for (int e = 0; e < EACH; e++) {
        const size_t i = first + (size_t)e * THREADS + threadIdx.x;
        const unsigned vote = __ballot_sync(0xffffffffu, (int)(sent >> e & 1u));
        if (lane == 0)
            c.bitmap[(size_t)blockIdx.x * WORDS + (size_t)(e * KEEP_WARPS + warp)] =
                vote;
        if (sent >> e & 1u) {
            c.where[out + (size_t)rank[e]] = (uint16_t)(e * THREADS + (int)threadIdx.x);
            c.codes[out + (size_t)rank[e]] = (int16_t)code[e];
        }
        if (i < in.count)
            input_keep(&in, i, kept >> e & 1u ? a[e] - c.step * (float)code[e] : a[e]);
    }
    if (threadIdx.x == 0)
        c.n_kept[blockIdx.x] = (uint32_t)n;
}

/* starts: values of the tiles before. */
static __global__ void __launch_bounds__(THREADS)
    sketch_gather_kernel(sketch_room r, sketch_choice c, const uint64_t *starts)
{
    const size_t from = keep_start(&c.plan, blockIdx.x),
                 to = (size_t)starts[blockIdx.x];
    for (size_t j = threadIdx.x; j < c.n_kept[blockIdx.x]; j += THREADS) {
        r.elements[to + j] = (uint64_t)blockIdx.x * TILE + c.where[from + j];
        r.codes[to + j] = c.codes[from + j];
    }
}

/* ---- the host's side: memory ---- */

/* Parts of scratch memory are handed out one behind the other; without memory they are
 * only counted. */
struct layout {
    uint8_t *start;
    size_t used;
};

template <class T> static void hand_out(layout *l, size_t n, T **out)
{
    *out = l->start ? reinterpret_cast<T *>(l->start + l->used) : NULL;
    l->used += accel_lines(n * sizeof **out);
}

/* Sizes that follow from the stretch; s->cells is set. */
static sketch_room room_of(const codec_stretch *s, uint64_t seed)
{
    sketch_room r = {};
    const uint64_t rest = s->count % SEGMENT;
    r.seed = seed;
    r.first = s->first;
    r.count = s->count;
    r.third = s->cells;
    r.last_third = rest ? codec_segment_cells(s->cells, (size_t)rest) : s->cells;
    r.n_segments = blocks_for((size_t)s->count, SEGMENT);
    r.n_cells = (size_t)codec_sketch_cells(s->cells, s->count);
    return r;
}

/* For at most `most` elements. */
static void lay_out_room(layout *l, size_t most, sketch_room *r)
{
    hand_out(l, most, &r->elements);
    hand_out(l, most, &r->codes);
    hand_out(l, most, &r->states);
    hand_out(l, r->n_cells, &r->cells);
    hand_out(l, r->n_cells, &r->degrees);
    hand_out(l, r->n_cells, &r->narrow);
    hand_out(l, r->n_segments, &r->left);
    hand_out(l, r->n_segments, &r->dirty);
    hand_out(l, (size_t)1, &r->found);
}

static void lay_out_choice(layout *l, size_t most, sketch_choice *c, keep_pick **picks,
                           uint64_t **starts)
{
    hand_out(l, c->plan.n_tiles, picks);
    hand_out(l, most, &c->where);
    hand_out(l, most, &c->codes);
    hand_out(l, (size_t)c->plan.n_tiles * WORDS, &c->bitmap);
    hand_out(l, c->plan.n_tiles, &c->n_kept);
    hand_out(l, c->plan.n_tiles, starts);
}

template <class T> static pl_status clear(pl_accel *accel, T *memory, size_t n)
{
    return device_check(cudaMemsetAsync(memory, 0, n * sizeof *memory, accel->stream),
                        "clearing a sketch");
}

/* ---- the host's side: peeling ---- */

/* Until a round finds nothing; then which segments are empty. */
static pl_status peel_there(pl_accel *accel, const sketch_room *r)
{
    const unsigned grid = blocks_for(r->n, THREADS);
    const size_t most = r->n > r->n_cells ? r->n : r->n_cells;
    for (uint32_t found = r->n > 0; found != 0;) {
        PL_RETURN_IF(clear(accel, r->found, 1));
        for (int i = 0; i < ROUNDS_AT_ONCE; i++) {
            PL_LAUNCH(sketch_find_kernel, grid, THREADS, 0, accel->stream, *r);
            PL_LAUNCH(sketch_take_kernel, grid, THREADS, 0, accel->stream, *r);
        }
        PL_RETURN_IF(device_check(cudaGetLastError(), "peeling a sketch"));
        PL_RETURN_IF(pl_accel_download(accel, &found, r->found, sizeof found));
    }
    PL_RETURN_IF(clear(accel, r->left, r->n_segments));
    PL_RETURN_IF(clear(accel, r->dirty, r->n_segments));
    PL_LAUNCH(sketch_left_kernel, blocks_for(most, THREADS), THREADS, 0, accel->stream,
              *r);
    return device_check(cudaGetLastError(), "peeling a sketch");
}

/* PL_OK, or ERR_PEEL for the first segment that did not come apart. */
static pl_status check_segments(pl_accel *accel, const codec_stretch *s,
                                const sketch_room *r)
{
    const size_t bytes = r->n_segments * sizeof(uint32_t);
    void *room = NULL;
    PL_RETURN_IF(pl_try_alloc(2 * bytes, "segments of a sketch", &room));
    uint32_t *left = static_cast<uint32_t *>(room), *dirty = left + r->n_segments;
    pl_status status = pl_accel_download(accel, left, r->left, bytes);
    if (status == PL_OK)
        status = pl_accel_download(accel, dirty, r->dirty, bytes);
    for (unsigned g = 0; status == PL_OK && g < r->n_segments; g++) {
        const uint32_t third = g + 1 == r->n_segments ? r->last_third : r->third;
        if (left[g] > 0 || dirty[g])
            status = sketch_stuck(s, (uint64_t)g * SEGMENT, left[g], 3 * third);
    }
    pl_free_aligned(room);
    return status;
}

/* ---- encoding ---- */

struct sketch_encoding {
    sketch_room room;
    sketch_choice choice;
    uint64_t *starts; /* on the device */
    keep_pick *picks; /* the host's */
};

static pl_status take_room(codec_job *job, size_t most, sketch_encoding *e)
{
    keep_pick *picks = NULL;
    layout l = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        uint8_t *at = NULL;
        if (pass == 1)
            PL_RETURN_IF(accel_scratch(accel_of(job), l.used, &at));
        l = layout{at, 0};
        lay_out_room(&l, most, &e->room);
        lay_out_choice(&l, most, &e->choice, &picks, &e->starts);
    }
    e->choice.first_bad = accel_of(job)->first_bad;
    e->choice.plan.picks = e->picks ? picks : NULL;
    if (!e->picks)
        return PL_OK;
    return pl_accel_upload(accel_of(job), picks, e->picks,
                           e->choice.plan.n_tiles * sizeof *picks);
}

/* Where each tile's elements begin among all. */
static pl_status find_starts(codec_job *job, sketch_encoding *e)
{
    const size_t n = e->choice.plan.n_tiles;
    void *counts = NULL, *starts = NULL;
    pl_status status = PL_OK;
    PL_TRY(pl_try_alloc(n * sizeof(uint32_t), "tiles of an update", &counts));
    PL_TRY(pl_try_alloc(n * sizeof(uint64_t), "tiles of an update", &starts));
    PL_TRY(pl_accel_download(accel_of(job), counts, e->choice.n_kept,
                             n * sizeof(uint32_t)));
    e->room.n = 0;
    for (size_t t = 0; t < n; t++) {
        static_cast<uint64_t *>(starts)[t] = e->room.n;
        e->room.n += static_cast<const uint32_t *>(counts)[t];
    }
    PL_TRY(pl_accel_upload(accel_of(job), e->starts, starts, n * sizeof(uint64_t)));
done:
    pl_free_aligned(counts);
    pl_free_aligned(starts);
    return status;
}

static pl_status choose_values(codec_job *job, sketch_encoding *e)
{
    pl_accel *accel = accel_of(job);
    const unsigned n_tiles = e->choice.plan.n_tiles;
    PL_RETURN_IF(accel_flag_clear(accel));
    PL_LAUNCH(sketch_select_kernel, n_tiles, THREADS, 0, accel->stream, input_of(job),
              e->choice);
    PL_RETURN_IF(check_finite(job));
    PL_RETURN_IF(find_starts(job, e));
    PL_LAUNCH(sketch_gather_kernel, n_tiles, THREADS, 0, accel->stream, e->room,
              e->choice, e->starts);
    return device_check(cudaGetLastError(), "gathering what is kept");
}

/* Cells, as they travel; then whether they come apart. */
static pl_status make_cells(codec_job *job, const sketch_room *r)
{
    pl_accel *accel = accel_of(job);
    PL_RETURN_IF(clear(accel, r->cells, r->n_cells));
    PL_RETURN_IF(clear(accel, r->degrees, r->n_cells));
    PL_RETURN_IF(clear(accel, r->states, r->n));
    if (r->n > 0)
        PL_LAUNCH(sketch_cells_kernel, blocks_for(r->n, THREADS), THREADS, 0,
                  accel->stream, *r, true);
    PL_LAUNCH(sketch_narrow_kernel, blocks_for(r->n_cells, THREADS), THREADS, 0,
              accel->stream, *r);
    PL_RETURN_IF(peel_there(accel, r));
    return check_segments(accel, &job->stretch, r);
}

/* What an encoder cannot peel goes as a list: bitmap and codes. Peeling has left the
 * codes as they were where it succeeded, and a list takes those of before. */
static pl_status send_sketch(codec_job *job, const sketch_encoding *e, bool as_list)
{
    codec_stretch *s = &job->stretch;
    uint64_t raw[SECTIONS_MAX];
    s->codec = as_list ? (int)WIRE_LIST16 : (int)PL_CODEC_SKETCH16;
    s->kept = as_list ? e->room.n : 0;
    s->cells = as_list ? 0 : s->cells;
    uint8_t *const from[SECTIONS_MAX] = {
        reinterpret_cast<uint8_t *>(e->choice.bitmap),
        as_list ? reinterpret_cast<uint8_t *>(e->room.codes)
                : reinterpret_cast<uint8_t *>(e->room.narrow),
        NULL};
    return sections_send(job, raw, codec_raw_bytes(s, 1, raw), from);
}

static pl_status encode_there(codec_job *job, sketch_encoding *e)
{
    codec_stretch *s = &job->stretch;
    const float limit =
        (float)codec_limit(PL_CODEC_SKETCH16, job->round->n_contributors);
    size_t most = 0;
    s->cells = codec_cells(job->options, job->round->n_contributors);
    s->exponent = codec_stretch_exponent(s->codec, job->round);
    e->room = room_of(s, job->round->seed);
    PL_RETURN_IF(keep_plan_make(job, &e->choice.plan, &e->picks, &most));
    e->choice.inverse = codec_power(-s->exponent);
    e->choice.step = codec_power(s->exponent);
    e->choice.limit = limit;
    PL_RETURN_IF(take_room(job, most, e));
    PL_RETURN_IF(choose_values(job, e));
    const pl_status status = make_cells(job, &e->room);
    if (status != PL_OK && status != PL_ERR_PEEL)
        return status;
    return send_sketch(job, e, status == PL_ERR_PEEL);
}

pl_status sketch_encode_cuda(codec_job *job)
{
    sketch_encoding e;
    memset((void *)&e, 0, sizeof e);
    const pl_status status = encode_there(job, &e);
    pl_free_aligned(e.picks);
    return status;
}

/* ---- decoding ---- */

/* The host walks the bitmap. */
static pl_status list_elements(const codec_stretch *s, const uint8_t *bitmap,
                               uint64_t *out)
{
    bit_walk walk;
    uint64_t index;
    bit_walk_begin(&walk, bitmap, 0, s->count);
    for (size_t i = 0; bit_walk_next(&walk, &index); i++)
        out[i] = index;
    return PL_OK;
}

static pl_status bring_sketch(pl_accel *accel, const sketch_room *r,
                              const uint64_t *elements, const uint8_t *cells)
{
    PL_RETURN_IF(
        pl_accel_upload(accel, r->elements, elements, r->n * sizeof *elements));
    PL_RETURN_IF(
        pl_accel_upload(accel, r->narrow, cells, r->n_cells * sizeof *r->narrow));
    PL_RETURN_IF(clear(accel, r->degrees, r->n_cells));
    PL_RETURN_IF(clear(accel, r->states, r->n));
    PL_LAUNCH(sketch_widen_kernel, blocks_for(r->n_cells, THREADS), THREADS, 0,
              accel->stream, *r);
    if (r->n > 0)
        PL_LAUNCH(sketch_cells_kernel, blocks_for(r->n, THREADS), THREADS, 0,
                  accel->stream, *r, false);
    return device_check(cudaGetLastError(), "a sketch");
}

/* A sketch_peeler; the context is the accelerator. */
pl_status sketch_peel_cuda(void *context, const codec_stretch *s, uint64_t seed,
                           const uint8_t *bitmap, const uint8_t *cells, pl_buf *codes)
{
    pl_accel *accel = static_cast<pl_accel *>(context);
    sketch_room r = room_of(s, seed);
    pl_status status = PL_OK;
    layout l = {NULL, 0};
    void *elements = NULL;
    uint8_t *at = NULL;
    r.n = (size_t)bit_count(bitmap, s->count);
    const size_t bytes = r.n * sizeof(int16_t);
    PL_TRY(
        pl_try_alloc((r.n + 1) * sizeof(uint64_t), "elements of a sketch", &elements));
    PL_TRY(list_elements(s, bitmap, static_cast<uint64_t *>(elements)));
    lay_out_room(&l, r.n, &r);
    PL_TRY(accel_scratch(accel, l.used, &at));
    l = layout{at, 0};
    lay_out_room(&l, r.n, &r);
    PL_TRY(bring_sketch(accel, &r, static_cast<const uint64_t *>(elements), cells));
    PL_TRY(peel_there(accel, &r));
    PL_TRY(check_segments(accel, s, &r));
    pl_buf_reserve(codes, bytes);
    PL_TRY(pl_accel_download(accel, codes->data + codes->len, r.codes, bytes));
    codes->len += bytes;
done:
    pl_free_aligned(elements);
    return status;
}
