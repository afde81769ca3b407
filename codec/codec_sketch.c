/* Implements the codec sketch16: the largest values of an update are summed into cells.
 * A sum of messages can be decoded without the single messages. (The idea is TAGC's;
 * here the compression of the selected values is lossless.)
 *
 * Purpose. A relay adds the messages of several workers without decoding them. So it
 * must be possible to add messages byte by byte, and messages must be small, because
 * most values are not sent. A message has a bitmap of the elements that were kept, and
 * cells of 16 bits.
 *
 * Encoding. Each element of a segment (2^20 values) belongs to three cells, one in each
 * third of the cells, drawn by a hash of (seed, element). For each kept element the
 * encoder sets the element's bit, and adds the element's code, with signs from the
 * hash, to the element's three cells modulo 2^16. Messages of one round have the same
 * seed and shared scales. Adding two messages adds their cells and joins their bitmaps
 * by OR:
 *
 *   element e, code q:   bitmap[e] = 1;   cell[h1] +- q   cell[h2] +- q   cell[h3] +- q
 *                                         1st third       2nd third       3rd third
 *
 * Decoding is called peeling. If only one element of the bitmap belongs to a cell, the
 * cell contains the summed code of that element. This code is then subtracted from the
 * element's other two cells. After that, only one element may be left in those cells,
 * and so on:
 *
 *            degree of a cell = elements of the bitmap that belong to it
 *   counted ----------------> cells with degree 1 are ready
 *                                |  peel: code of the element (sketch_peel)
 *                                v
 *         no cell is ready: every element came out and all cells are 0 --> decoded
 *                           else                                       --> ERR_PEEL
 *
 * Whether peeling succeeds depends on which elements are in the bitmap and on the seed,
 * but not on the values. With fewer than 0.818 elements per cell (the threshold for
 * three hashes) peeling nearly always succeeds. Decoding gives the exact result or
 * fails; no value is an estimate.
 *
 * Two forms of the same content
 *   - WIRE_LIST16: the bitmap and one code per set bit, without cells. sketch_encode
 *     makes this form first. It is sent if the encoder cannot peel its own sketch.
 *   - PL_CODEC_SKETCH16: the bitmap and the cells, built from the list (sketch_build).
 *
 * Invariants
 *   - The magnitude of a code is at most 32767 / n_contributors. So a sum over all
 *     contributors fits into 16 bits, and nothing is lost by computing modulo 2^16.
 *   - A segment has at least one cell per third, and all but the last segment of a
 *     stretch have the same number of cells.
 *   - A cell is put into `ready` only once, because its degree only falls.
 *   - Bytes from the network are not trusted: set bits after the end of the stretch, a
 *     wrong number of codes, and codes above the limit are errors (sparse_codes).
 *
 * Ownership. Lists and cells are in the scratch memory of the job (sketch_encode). */
#include "codec/codec_sketch.h"

/* ---- bitmaps ---- */
void bit_walk_begin(bit_walk *w, const uint8_t *bitmap, uint64_t first, uint64_t end)
{
    *w = (bit_walk){.bitmap = bitmap, .next_byte = first / 8, .end = (end + 7) / 8};
}

bool bit_walk_next(bit_walk *w, uint64_t *index)
{
    while (w->word == 0) {
        uint64_t left = w->end - w->next_byte;
        if (left == 0)
            return false;
        memcpy(&w->word, w->bitmap + w->next_byte, left < 8 ? (size_t)left : 8);
        w->base = w->next_byte * 8;
        w->next_byte += left < 8 ? left : 8;
    }
    *index = w->base + (uint64_t)__builtin_ctzll(w->word);
    w->word &= w->word - 1;
    return true;
}

static uint64_t bit_count(const uint8_t *bitmap, uint64_t count)
{
    uint64_t total = 0, word;
    uint64_t bytes = (count + 7) / 8;
    for (uint64_t i = 0; i < bytes; i += 8) {
        word = 0;
        memcpy(&word, bitmap + i, bytes - i < 8 ? (size_t)(bytes - i) : 8);
        total += (uint64_t)__builtin_popcountll(word);
    }
    return total;
}

/* ---- building a list ---- */
typedef struct list_out {
    uint8_t *bitmap;
    int16_t *codes;
    uint64_t n;
} list_out;

/* Encodes a tile into the list. All values of the tile are quantised, and then only the
 * selected values are used. This is faster than a test per value. */
static pl_status encode_list_tile(codec_job *job, uint64_t at, codec_choice *choice,
                                  list_out *o)
{
    float tile[TILE], left[TILE];
    uint16_t kept[TILE];
    int32_t q[TILE];
    size_t n = job_tile_length(job, at);
    const float *a = job_tile(job, at, tile);
    int32_t limit = codec_limit(PL_CODEC_SKETCH16, job->round->n_contributors);
    PL_CHECK(job_check_finite(job, at,
                              shared_tile(a, job->stretch.exponent, limit, q, left)));
    if (job->options->selector == PL_SELECT_EXACT)
        *choice = select_tile(a, codec_budget(job->options, n));
    size_t n_kept = select_indices(a, n, choice, kept);
    /* values whose code is 0 are not sent */
    for (size_t i = 0; i < n_kept; i++) {
        uint64_t index = at + kept[i];
        int32_t code = q[kept[i]];
        if (code == 0)
            continue;
        o->bitmap[index / 8] |= (uint8_t)(1u << index % 8);
        o->codes[o->n++] = (int16_t)code;
    }
    /* values that were not kept go to the residual unchanged */
    float errors[TILE];
    for (size_t i = 0; i < n_kept; i++)
        errors[i] = left[kept[i]];
    memcpy(left, a, TILE * sizeof *left);
    for (size_t i = 0; i < n_kept; i++)
        left[kept[i]] = errors[i];
    job_keep(job, at, left);
    return PL_OK;
}

static void sketch_build(const codec_stretch *s, uint64_t seed, const list_out *list,
                         uint16_t *cells)
{
    const int16_t *code = list->codes;
    for (uint64_t first = 0; first < s->count; first += SEGMENT) {
        uint64_t end = s->count - first < SEGMENT ? s->count : first + SEGMENT, index;
        uint32_t third = codec_segment_cells(s->cells, (size_t)(end - first));
        bit_walk walk;
        bit_walk_begin(&walk, list->bitmap, first, end);
        while (bit_walk_next(&walk, &index)) {
            sketch_cells p;
            sketch_find(seed, s->first + index, third, &p);
            int32_t value = *code++;
            for (int j = 0; j < 3; j++) {
                uint16_t *cell = &cells[p.cell[j]];
                *cell = (uint16_t)(*cell + sketch_signed(&p, j, value));
            }
        }
        /* every segment except the last one is full */
        cells += 3 * (size_t)s->cells;
    }
}

/* ---- peeling ---- */
pl_status sketch_peel(const codec_stretch *s, uint64_t seed, const uint8_t *bitmap,
                      const uint8_t *cells, pl_buf *codes)
{
    pl_status status = PL_OK;
    /* Allocates memory for the largest segment; smaller ones use a part of it. */
    const size_t len = s->count < SEGMENT ? (size_t)s->count : SEGMENT;
    const size_t n = 3 * (size_t)codec_segment_cells(s->cells, len);
    uint16_t *sums = pl_alloc(n * sizeof *sums); /* the cells without peeled elements */
    /* for each cell: how many elements belong to it, and the XOR of their numbers */
    uint32_t *degrees = pl_alloc(n * sizeof *degrees);
    uint32_t *members = pl_alloc(n * sizeof *members);
    uint32_t *ready = pl_alloc(n * sizeof *ready);  /* cells that have one element */
    int16_t *found = pl_alloc(len * sizeof *found); /* code of each element */
    for (uint64_t first = 0; first < s->count; first += SEGMENT) {
        const uint64_t end = s->count - first < SEGMENT ? s->count : first + SEGMENT;
        const uint64_t base = s->first + first;
        const uint32_t third = codec_segment_cells(s->cells, (size_t)(end - first));
        const uint32_t n_cells = 3 * third;
        size_t n_ready = 0, n_left = 0;
        bit_walk walk;
        uint64_t index;
        memcpy(sums, cells, n_cells * sizeof *sums);
        memset(degrees, 0, n_cells * sizeof *degrees);
        memset(members, 0, n_cells * sizeof *members);
        bit_walk_begin(&walk, bitmap, first, end);
        for (; bit_walk_next(&walk, &index); n_left++) {
            const uint32_t element = (uint32_t)(index - first);
            sketch_cells at;
            sketch_find(seed, base + element, third, &at);
            for (int j = 0; j < 3; j++) {
                degrees[at.cell[j]]++;
                members[at.cell[j]] ^= element;
            }
        }
        for (uint32_t c = 0; c < n_cells; c++)
            if (degrees[c] == 1)
                ready[n_ready++] = c;
        while (n_ready > 0) {
            uint32_t c = ready[--n_ready];
            if (degrees[c] != 1)
                continue;
            const uint32_t element = members[c];
            sketch_cells at;
            sketch_find(seed, base + element, third, &at);
            int j = c < third ? 0 : c < 2 * third ? 1 : 2;
            const int16_t code = (int16_t)sketch_signed(&at, j, (int16_t)sums[c]);
            found[element] = code;
            /* A cell's degree only falls, so it becomes 1 only once, and the cell is
             * put into `ready` only once. */
            for (j = 0; j < 3; j++) {
                c = at.cell[j];
                sums[c] = (uint16_t)(sums[c] - sketch_signed(&at, j, code));
                members[c] ^= element;
                if (--degrees[c] == 1)
                    ready[n_ready++] = c;
            }
            n_left--;
        }
        bool clean = n_left == 0;
        for (uint32_t c = 0; c < n_cells; c++)
            clean &= sums[c] == 0;
        if (!clean)
            PL_TRY(pl_fail(PL_ERR_PEEL,
                           "the sketch of the values from index %llu on cannot be "
                           "decoded: %zu elements are left in %u cells; raise "
                           "codec.cells, or use a different seed",
                           (unsigned long long)base, n_left, n_cells));
        bit_walk_begin(&walk, bitmap, first, end);
        while (bit_walk_next(&walk, &index))
            pl_buf_append(codes, &found[index - first], sizeof *found);
        cells += 2 * n_cells;
    }
done:
    pl_free_all(sums, degrees, members, ready, found);
    return status;
}

/* ---- encoding ---- */
/* Encodes a sketch. If the encoder cannot decode its own sketch, no receiver can decode
 * it. In this case the list is sent, and every sum with this list is also a list. */
pl_status sketch_encode(codec_job *job)
{
    codec_stretch *s = &job->stretch;
    pl_buf codes = {0};
    uint64_t seed = job->round->seed, raw[SECTIONS_MAX];
    s->cells = codec_cells(job->options, job->round->n_contributors);
    s->exponent = codec_stretch_exponent(s->codec, job->round);
    /* the bitmap, the codes and the cells each begin at a multiple of 8 bytes */
    size_t bitmap_bytes = (size_t)((s->count + 63) / 64 * 8);
    size_t codes_bytes = (codec_budget(job->options, (size_t)s->count) + 3) / 4 * 8;
    size_t bytes =
        bitmap_bytes + codes_bytes + 2 * (size_t)codec_sketch_cells(s->cells, s->count);
    pl_buf_clear(&job->scratch);
    pl_buf_reserve(&job->scratch, bytes);
    uint8_t *at = job->scratch.data;
    memset(at, 0, bytes);
    list_out list = {.bitmap = at, .codes = (int16_t *)(void *)(at + bitmap_bytes)};
    uint16_t *cells = (uint16_t *)(void *)(at + bitmap_bytes + codes_bytes);
    codec_choice choice = {0, 0};
    if (job->options->selector != PL_SELECT_EXACT)
        PL_CHECK(select_stretch(job, &choice));
    for (uint64_t i = 0; i < job->stretch.count; i += TILE)
        PL_CHECK(encode_list_tile(job, i, &choice, &list));
    sketch_build(s, seed, &list, cells);
    pl_status status =
        sketch_peel(s, seed, list.bitmap, (const uint8_t *)cells, &codes);
    pl_buf_destroy(&codes);
    const bool as_list = status != PL_OK;
    s->codec = as_list ? WIRE_LIST16 : PL_CODEC_SKETCH16;
    s->kept = as_list ? list.n : 0;
    s->cells = as_list ? 0 : s->cells;
    const void *rest = as_list ? (const void *)list.codes : cells;
    s->n_sections = codec_raw_bytes(s, 1, raw);
    s->sections[0] = (codec_section){.data = list.bitmap, .raw_bytes = raw[0]};
    s->sections[1] = (codec_section){.data = rest, .raw_bytes = raw[1]};
    return PL_OK;
}

/* ---- decoding ---- */
/* Returns ERR_DATA if the bitmap has set bits after the end of the stretch, or if the
 * number of its set bits is not the number of codes. */
static pl_status check_bitmap(const codec_stretch *s, const uint8_t *bitmap,
                              uint64_t n_codes)
{
    uint64_t bits = bit_count(bitmap, s->count);
    if (s->count % 8 && bitmap[s->count / 8] >> s->count % 8)
        return pl_fail(PL_ERR_DATA,
                       "the bitmap of the update's values from index %llu on has set "
                       "bits after its end",
                       (unsigned long long)s->first);
    if (bits != n_codes)
        return pl_fail(PL_ERR_DATA,
                       "the bitmap of the update's values from index %llu on has %llu "
                       "elements, but there are %llu codes",
                       (unsigned long long)s->first, (unsigned long long)bits,
                       (unsigned long long)n_codes);
    return PL_OK;
}

pl_status sparse_codes(const codec_header *h, const codec_stretch *s,
                       const uint8_t *bitmap, const uint8_t *rest, pl_buf *codes)
{
    int32_t limit = codec_limit(s->codec, h->n_contributors) * (int32_t)h->contributors;
    if (s->codec == WIRE_LIST16) {
        PL_CHECK(check_bitmap(s, bitmap, s->kept));
        pl_buf_append(codes, rest, 2 * (size_t)s->kept);
    } else {
        PL_CHECK(check_bitmap(s, bitmap, bit_count(bitmap, s->count)));
        PL_CHECK(sketch_peel(s, h->seed, bitmap, rest, codes));
    }
    for (size_t i = 0; i < codes->len; i += 2) {
        int16_t code;
        memcpy(&code, codes->data + i, 2);
        if (code > limit || code < -limit)
            return pl_fail(PL_ERR_DATA,
                           "code %d of the update's values from index %llu on exceeds "
                           "%d, the most that %u contributors can give",
                           code, (unsigned long long)s->first, limit, h->contributors);
    }
    return PL_OK;
}

pl_status sketch_decode(const codec_task *task)
{
    const codec_stretch *s = task->stretch;
    const uint8_t *bitmap = task->raw[0];
    const float step = codec_power(s->exponent);
    pl_buf codes = {0};
    bit_walk walk;
    uint64_t index;
    pl_status status = sparse_codes(task->header, s, bitmap, task->raw[1], &codes);
    const uint8_t *at = codes.data;
    bit_walk_begin(&walk, bitmap, 0, s->count);
    while (status == PL_OK && bit_walk_next(&walk, &index)) {
        int16_t code;
        memcpy(&code, at, 2);
        at += 2;
        status = sink_value(task->sink, s->first + index, step * (float)code);
    }
    pl_buf_destroy(&codes);
    return status;
}
