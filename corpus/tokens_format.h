/* The layout of a token file (docs/PROTOCOL.md section 5). All other files that read or
 * write token files use this header: tokens.c, tokens_write.c and encode.c. */
#pragma once
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

typedef struct tokens_layout {
    uint32_t token_bytes, vocab, n_docs, n_domains, names_bytes;
    uint64_t n_tokens;
    /* computed: offsets of the table of documents and of the names, size of the file */
    uint64_t docs_at, names_at, file_bytes;
} tokens_layout;

uint32_t tokens_width(uint32_t vocab);

/* Computes the positions and the size of the file from the other fields. */
void tokens_layout_place(tokens_layout *layout);

void tokens_header_encode(const tokens_layout *layout, uint64_t body_checksum,
                          uint8_t header[TOKENS_HEADER_BYTES]);

/* Checks the magic bytes, the version, the header's checksum, the limits of all fields
 * and the length of the file. Errors call the file `what`. ERR_UNSUPPORTED: the file
 * has a different version. ERR_DAMAGED: any other check failed. */
pl_status tokens_header_decode(const uint8_t *data, size_t len, const char *what,
                               tokens_layout *out, uint64_t *body_checksum);

/* Appends BOS, n tokens and EOS, each with tokens_width(vocab) bytes. ERR_DATA: one is
 * not below vocab. */
pl_status tokens_pack(const int32_t *tokens, size_t n, uint32_t vocab, pl_buf *out);
