/* Reads documents and encodes them as a token file in memory, for text that is used
 * once and not kept. Duplicates and short documents, which prepare.c leaves out, are
 * encoded, too. */
#include "corpus/spool.h"
#include "corpus/tokenizer.h"
#include "corpus/tokens_format.h"
#include <string.h>

/* The largest number of tokens in the file. They take at most 4 GiB. */
#define TEXT_TOKENS_MAX ((uint64_t)1 << 30)

typedef struct encoding {
    const pl_tokenizer *tokenizer;
    tokens_layout layout;
    /* int32 tokens of one document; the buffer is used again for the next */
    pl_buf ids;
    pl_buf tokens, table; /* the parts of the token file */
    pl_buf domains;       /* names of domains, each with a terminating NUL */
    pl_buf *sources;
    uint64_t n_unknown;
} encoding;

static pl_status encode_document(void *context, const pl_document *document)
{
    encoding *e = context;
    const char *domain = document->domain[0] ? document->domain : "unknown";
    pl_buf_clear(&e->ids);
    PL_CHECK(pl_tokenizer_encode(e->tokenizer, document->text, document->len, &e->ids));
    const size_t n = e->ids.len / sizeof(int32_t);
    const int32_t *ids = (const void *)e->ids.data;
    e->n_unknown += tokenizer_count_unknown(ids, n);
    if (e->layout.n_tokens + n + 2 > TEXT_TOKENS_MAX)
        return pl_fail(PL_ERR_DATA,
                       "the text has more than %llu tokens, the largest number that "
                       "can be evaluated at once; give only a part of the text",
                       (unsigned long long)TEXT_TOKENS_MAX);
    uint32_t number = 0;
    const char *at = (const char *)e->domains.data;
    for (; number < e->layout.n_domains && strcmp(at, domain) != 0; ++number)
        at += strlen(at) + 1;
    /* if the limit is reached, a new domain counts as the last one */
    if (number == SPOOL_DOMAINS_MAX) {
        number--;
    } else if (number == e->layout.n_domains) {
        pl_buf_append(&e->domains, domain, strlen(domain) + 1);
        e->layout.n_domains++;
    }
    const pl_token_doc doc = {.first = e->layout.n_tokens,
                              .n_tokens = (uint32_t)n + 2,
                              .domain = number,
                              .hash = pl_document_hash(document)};
    PL_CHECK(tokens_pack(ids, n, e->layout.vocab, &e->tokens));
    pl_buf_append(&e->table, &doc, sizeof doc);
    pl_buf_append(e->sources, document->source, strlen(document->source) + 1);
    e->layout.n_tokens += doc.n_tokens;
    e->layout.n_docs++;
    return PL_OK;
}

pl_status pl_documents_encode(const char *path, const pl_reading *reading,
                              const pl_tokenizer *tokenizer, pl_buf *file,
                              pl_buf *sources)
{
    pl_read_stats stats;
    pl_status status;
    encoding e = {.tokenizer = tokenizer, .sources = sources};
    e.layout.vocab = (uint32_t)pl_tokenizer_vocab(tokenizer);
    e.layout.token_bytes = tokens_width(e.layout.vocab);
    PL_TRY(pl_documents_cut(path, reading, encode_document, &e, &stats));
    if (e.layout.n_docs == 0)
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "there is no text in '%s': give a text file, JSON lines, or a "
                       "folder of them",
                       path));
    PL_TRY(
        tokenizer_check_unknown(e.n_unknown, e.layout.n_tokens - 2 * e.layout.n_docs));
    if (e.domains.len > TOKENS_NAMES_MAX)
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "the domain names in '%s' take %zu bytes, but a token file has "
                       "room for %d bytes; use fewer or shorter names",
                       path, e.domains.len, TOKENS_NAMES_MAX));
    e.layout.names_bytes = (uint32_t)e.domains.len;
    tokens_layout_place(&e.layout);
    /* the parts with zeros between them; the header is written last */
    const tokens_layout *l = &e.layout;
    pl_buf_reserve(file, (size_t)l->file_bytes);
    uint8_t *at = file->data + file->len;
    memset(at, 0, (size_t)l->file_bytes);
    memcpy(at + TOKENS_HEADER_BYTES, e.tokens.data, e.tokens.len);
    memcpy(at + l->docs_at, e.table.data, e.table.len);
    memcpy(at + l->names_at, e.domains.data, e.domains.len);
    uint64_t sum = pl_checksum(at + TOKENS_HEADER_BYTES,
                               (size_t)(l->file_bytes - TOKENS_HEADER_BYTES));
    tokens_header_encode(l, sum, at);
    file->len += (size_t)l->file_bytes;
done:
    pl_buf_destroy(&e.ids);
    pl_buf_destroy(&e.tokens);
    pl_buf_destroy(&e.table);
    pl_buf_destroy(&e.domains);
    return status;
}
