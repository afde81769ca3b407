/* Writes token files as a stream.
 *
 *   open:  64 zero bytes          (the header's place)
 *   add:   tokens of a document   (the table grows in memory: 24 bytes per document)
 *   end:   padding, table, names; checksum over the mapped temporary file; header;
 *          fsync; rename
 *
 * A crash leaves at most path.tmp, which the next writer truncates, never a part. */
#include "corpus/tokens_write.h"
#include "corpus/tokens_format.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct token_writer {
    /* `draft` is the temporary file, path.tmp */
    char path[PL_PATH_MAX], draft[PL_PATH_MAX];
    FILE *file;
    tokens_layout layout;
    pl_token_doc *docs;
    size_t docs_cap;
    pl_buf packed; /* the current document's tokens, as in the file */
};

static pl_status put_file_bytes(token_writer *writer, const void *data, size_t len)
{
    PL_CHECK(pl_failpoint("tokens.write.before"));
    if (len > 0 && fwrite(data, 1, len, writer->file) != len)
        return pl_file_failed("write", writer->draft);
    return PL_OK;
}

pl_status token_writer_open(const char *path, uint32_t vocab, token_writer **out)
{
    static const uint8_t no_header[TOKENS_HEADER_BYTES];
    token_writer *writer = pl_alloc(sizeof *writer);
    pl_status status = PL_OK;
    *out = NULL;
    writer->layout.vocab = vocab;
    writer->layout.token_bytes = tokens_width(vocab);
    if (!pl_copy_text(writer->path, sizeof writer->path, path) ||
        snprintf(writer->draft, sizeof writer->draft, "%s.tmp", path) >= PL_PATH_MAX)
        PL_TRY(pl_fail(PL_ERR_ARG, "the path '%s' is too long", path));
    writer->file = fopen(writer->draft, "wb+");
    if (!writer->file)
        PL_TRY(pl_file_failed("write", writer->draft));
    PL_TRY(put_file_bytes(writer, no_header, sizeof no_header));
    *out = writer;
    writer = NULL;
done:
    token_writer_close(&writer);
    return status;
}

pl_status token_writer_add(token_writer *writer, const int32_t *tokens, size_t n,
                           uint32_t domain, uint64_t hash)
{
    if (n > UINT32_MAX - 2 || writer->layout.n_docs == UINT32_MAX)
        return pl_fail(PL_ERR_DATA, "a token file holds at most 2^32 - 1 documents of "
                                    "2^32 - 1 tokens");
    pl_buf_clear(&writer->packed);
    PL_CHECK(tokens_pack(tokens, n, writer->layout.vocab, &writer->packed));
    PL_CHECK(put_file_bytes(writer, writer->packed.data, writer->packed.len));
    /* the table grows with the input, so exhausted memory is an error */
    const pl_token_doc *doc = &(pl_token_doc){.first = writer->layout.n_tokens,
                                              .n_tokens = (uint32_t)n + 2,
                                              .domain = domain,
                                              .hash = hash};
    if (writer->layout.n_docs == writer->docs_cap) {
        size_t cap = writer->docs_cap ? writer->docs_cap * 2 : 1024;
        pl_token_doc *docs = realloc(writer->docs, cap * sizeof *docs);
        if (!docs)
            return pl_fail(PL_ERR_NOMEM, "no memory for a table of %zu documents", cap);
        writer->docs = docs;
        writer->docs_cap = cap;
    }
    writer->docs[writer->layout.n_docs++] = *doc;
    writer->layout.n_tokens += doc->n_tokens;
    return PL_OK;
}

void token_writer_count(const token_writer *writer, uint64_t *n_docs,
                        uint64_t *n_tokens)
{
    *n_docs = writer->layout.n_docs;
    *n_tokens = writer->layout.n_tokens;
}

pl_status token_writer_end(token_writer *writer, const char *const *domains,
                           size_t n_domains)
{
    static const uint8_t zeros[8];
    tokens_layout *layout = &writer->layout;
    uint64_t tokens_end = TOKENS_HEADER_BYTES + layout->n_tokens * layout->token_bytes;
    size_t names_bytes = 0;
    for (size_t i = 0; i < n_domains; i++)
        names_bytes += strlen(domains[i]) + 1;
    if (names_bytes > TOKENS_NAMES_MAX)
        return pl_fail(PL_ERR_DATA,
                       "the names of domains take %zu bytes, but at most %d fit; use "
                       "fewer or shorter names",
                       names_bytes, TOKENS_NAMES_MAX);
    layout->n_domains = (uint32_t)n_domains;
    layout->names_bytes = (uint32_t)names_bytes;
    tokens_layout_place(layout);
    PL_CHECK(put_file_bytes(writer, zeros, (size_t)(layout->docs_at - tokens_end)));
    PL_CHECK(
        put_file_bytes(writer, writer->docs, layout->n_docs * sizeof *writer->docs));
    for (size_t i = 0; i < n_domains; i++)
        PL_CHECK(put_file_bytes(writer, domains[i], strlen(domains[i]) + 1));
    /* The header contains the checksum of the body, so it is written last. The body is
     * read back through a mapping, so that the checksum covers the bytes that the
     * kernel will write to the disk. Reading a mapping is as fast as reading memory. */
    pl_mapping mapping;
    uint8_t header[TOKENS_HEADER_BYTES];
    if (fflush(writer->file) != 0)
        return pl_file_failed("write", writer->draft);
    PL_CHECK(pl_map_file(writer->draft, &mapping));
    uint64_t sum = pl_checksum(mapping.data + TOKENS_HEADER_BYTES,
                               mapping.len - TOKENS_HEADER_BYTES);
    pl_unmap_file(&mapping);
    tokens_header_encode(&writer->layout, sum, header);
    if (fseeko(writer->file, 0, SEEK_SET) != 0)
        return pl_file_failed("write", writer->draft);
    PL_CHECK(put_file_bytes(writer, header, sizeof header));
    /* The bytes must be durable before the rename. Otherwise, after a power cut, the
     * name could belong to a file whose bytes were lost. */
    if (fflush(writer->file) != 0 || fsync(fileno(writer->file)) != 0)
        return pl_file_failed("write", writer->draft);
    PL_CHECK(pl_failpoint("tokens.flush.after"));
    int closed = fclose(writer->file);
    writer->file = NULL;
    if (closed != 0 || rename(writer->draft, writer->path) != 0) {
        pl_status status = pl_file_failed("write", writer->draft);
        remove(writer->draft);
        return status;
    }
    return pl_failpoint("tokens.rename.after");
}

void token_writer_close(token_writer **writer)
{
    if (!*writer)
        return;
    if ((*writer)->file) {
        fclose((*writer)->file);
        remove((*writer)->draft);
    }
    free((*writer)->docs);
    pl_buf_destroy(&(*writer)->packed);
    pl_free(*writer);
    *writer = NULL;
}
