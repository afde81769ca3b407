/* Writes a token file as a stream: first the documents one by one, then the table of
 * documents. token_writer_end completes, syncs and names the file. */
#pragma once
#include "corpus/corpus.h"

typedef struct token_writer token_writer;

/* The file has the name path.tmp until token_writer_end. ERR_IO. */
pl_status token_writer_open(const char *path, uint32_t vocab, token_writer **out);

/* Adds a document. Also adds BOS and EOS, which `tokens` must not have. */
pl_status token_writer_add(token_writer *writer, const int32_t *tokens, size_t n,
                           uint32_t domain, uint64_t hash);

void token_writer_count(const token_writer *writer, uint64_t *n_docs,
                        uint64_t *n_tokens);

/* Writes the table, the names and the checksums, syncs the file, and renames it to
 * `path`. The rename becomes durable with the next fsync of the folder. */
pl_status token_writer_end(token_writer *writer, const char *const *domains,
                           size_t n_domains);

/* Removes path.tmp unless token_writer_end succeeded. */
void token_writer_close(token_writer **writer);
