/* Private to the codecs: bitmaps of kept elements, and the cells and codes of these
 * elements. The comment at the top of codec_sketch.c explains sketches. */
#pragma once
#include "codec/codec_internal.h"

/* Visits the set bits from `first` to `end` - 1 in rising order. `first` must be a
 * multiple of 8, and the bits from `end` on in the last byte must be zero. */
typedef struct bit_walk {
    const uint8_t *bitmap;
    uint64_t next_byte, end, base, word;
} bit_walk;
void bit_walk_begin(bit_walk *w, const uint8_t *bitmap, uint64_t first, uint64_t end);
bool bit_walk_next(bit_walk *w, uint64_t *index);

/* The three cells of an element: one in each third of its segment's cells. */
typedef struct sketch_cells {
    uint32_t cell[3];
    uint32_t signs; /* if bit j is set, the code is subtracted from cell j */
} sketch_cells;

static inline void sketch_find(uint64_t seed, uint64_t element, uint32_t third,
                               sketch_cells *out)
{
    uint64_t x = pl_mix64(pl_mix64(seed) + element * 0x9e3779b97f4a7c15u);
    uint64_t y = pl_mix64(x + 0x3c6ef372fe94f82au);
    out->cell[0] = (uint32_t)((x >> 32) * third >> 32);
    out->cell[1] = third + (uint32_t)((x & 0xffffffffu) * third >> 32);
    out->cell[2] = 2 * third + (uint32_t)((y >> 32) * third >> 32);
    out->signs = (uint32_t)y & 7;
}

/* Returns the code with the sign that it has in cell j. */
static inline uint16_t sketch_signed(const sketch_cells *p, int j, int32_t code)
{
    return (uint16_t)(p->signs >> j & 1 ? -code : code);
}

/* Decodes the codes of the bitmap's elements from the cells, and appends them (as i16)
 * in the order of the elements. ERR_PEEL if that is impossible. */
pl_status sketch_peel(const codec_stretch *s, uint64_t seed, const uint8_t *bitmap,
                      const uint8_t *cells, pl_buf *codes);
/* Appends the codes of a received sketch or list, whose bytes are all checked. `rest`
 * is the second section: the cells of a sketch, or the codes of a list. */
pl_status sparse_codes(const codec_header *h, const codec_stretch *s,
                       const uint8_t *bitmap, const uint8_t *rest, pl_buf *codes);
