/* Reads those parts of a SentencePiece model that other formats need: its pieces with
 * their scores and kinds, and how the model prepares text.
 *
 * The model is a protobuf message. These fields are read (number: meaning):
 *
 *   model       1: piece (repeated)  2: trainer  3: normaliser
 *   piece       1: text  2: score, f32  3: kind
 *   trainer     3: algorithm, 2 is BPE  35: byte fallback
 *   normaliser  2: table of characters  3: a blank is put before the text
 *               4: repeated blanks are removed  5: blanks become U+2581 */
#pragma once
#include "base/base.h"

typedef enum piece_kind {
    PIECE_NORMAL = 1, /* all these numbers are the same in SentencePiece and GGUF */
    PIECE_UNKNOWN = 2,
    PIECE_CONTROL = 3,
    PIECE_USER = 4,
    PIECE_UNUSED = 5,
    PIECE_BYTE = 6
} piece_kind;

typedef struct token_piece {
    const char *text; /* borrowed from the model, not terminated; valid UTF-8 */
    size_t len;
    float score;
    piece_kind kind;
} token_piece;

typedef struct piece_list {
    token_piece *pieces;
    size_t n;
    bool bpe;           /* the algorithm is BPE */
    bool byte_fallback; /* a character without a piece becomes pieces of bytes */
    bool blank_first;   /* a blank is put before the text */
    bool exact;         /* the normaliser changes only blanks, which become U+2581 */
} piece_list;

/* Borrows the bytes of the model until piece_list_clear. ERR_DAMAGED. */
pl_status piece_list_read(const void *model, size_t len, piece_list *out);
void piece_list_clear(piece_list *list);
