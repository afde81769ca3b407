/* The layout of a token file (docs/PROTOCOL.md section 5), shared by its reader
 * and its two writers.
 */
#ifndef PL_CORPUS_TOKENS_FORMAT_H
#define PL_CORPUS_TOKENS_FORMAT_H
#include "corpus/corpus.h"

#define TOKENS_MAGIC "PLTOK\r\n\x1a"
enum {
    TOKENS_VERSION = 1,
    TOKENS_HEADER_BYTES = 64,
    TOKENS_NAMES_MAX = 1 << 24,
    TOKENS_BODY_SUM_AT = 48,
    TOKENS_HEADER_SUM_AT = 56
};
#define TOKENS_COUNT_MAX ((uint64_t)1 << 48)

/* The fields of the header, and the positions of the blocks that follow from them. */
typedef struct tokens_layout {
    uint32_t token_bytes, vocab, n_docs, n_domains, names_bytes;
    uint64_t n_tokens;
    uint64_t docs_at, names_at, file_bytes; /* derived */
} tokens_layout;

/* Bytes of one token of this vocabulary. */
uint32_t tokens_width(uint32_t vocab);

/* Fills the derived fields from the others. */
void tokens_layout_place(tokens_layout *layout);

void tokens_header_encode(const tokens_layout *layout, uint64_t body_checksum,
                          uint8_t header[TOKENS_HEADER_BYTES]);

/* Checks magic, version, header checksum, every rule and the length of the file;
 * `what` is named in errors. ERR_DAMAGED, ERR_UNSUPPORTED. */
PL_MUST_CHECK pl_status tokens_header_decode(const uint8_t *data, size_t len,
                                             const char *what, tokens_layout *out,
                                             uint64_t *body_checksum);

/* Appends n tokens in the file's width; ERR_DATA if one is not below vocab. */
PL_MUST_CHECK pl_status tokens_pack(const int32_t *tokens, size_t n, uint32_t vocab,
                                    pl_buf *out);

#endif
