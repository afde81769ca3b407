/* Private to the codecs: bitmaps of kept elements, and the codes that go with them. */
#ifndef PL_OUTER_CODEC_SKETCH_H
#define PL_OUTER_CODEC_SKETCH_H
#include "outer/codec_parts.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The set bits of [first, end) in rising order; first is a multiple of 8, and bits
 * behind end in its byte are zero. */
typedef struct bit_walk {
    const uint8_t *bitmap;
    uint64_t next_byte, end, base, word;
} bit_walk;
void bit_walk_begin(bit_walk *w, const uint8_t *bitmap, uint64_t first, uint64_t end);
bool bit_walk_next(bit_walk *w, uint64_t *index);
uint64_t bit_count(const uint8_t *bitmap, uint64_t count);

/* The cells of an element of the update, one in each third of its segment's. */
typedef struct sketch_cells {
    uint32_t cell[3];
    uint32_t signs; /* bit j: subtracted from cell j */
} sketch_cells;
sketch_cells sketch_find(uint64_t seed, uint64_t element, uint32_t third);

/* Appends the codes (i16) of a bitmap's elements in order, peeled from cells. ERR_PEEL.
 */
pl_status sketch_peel(const codec_stretch *s, uint64_t seed, const uint8_t *bitmap,
                      const uint8_t *cells, pl_buf *codes);
/* The same for a stretch that came: sketch or list (`rest` is its second section), with
 * everything about it checked. */
pl_status sparse_codes(const codec_header *h, const codec_stretch *s,
                       const uint8_t *bitmap, const uint8_t *rest, pl_buf *codes);

#ifdef __cplusplus
}
#endif
#endif
