/* Reads token files, and makes new ones from parts of them.
 *
 * The file may come from a failing disk or from another machine. So opening always
 * checks the header, the names and the whole document table, even if verification is
 * not requested. After these checks every index that the functions return is inside the
 * file, and later code need not check again. Without verification only the values of
 * tokens are not checked; pl_tokens_copy replaces values that are not tokens.
 *
 * A mapped file may change while it is used: a process overwrites it, or a failing disk
 * returns different bytes when a page is read again. So the table and the names are
 * copied. Each page of tokens gets a checksum when the file is opened. After tokens of
 * a page were read, its checksum is compared; pl_tokens_check reports a difference. */
#include "corpus/tokens_format.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { SUMMED_BYTES = 4096 };

struct pl_tokens {
    pl_mapping mapping; /* empty if the bytes are borrowed (pl_tokens_view) */
    const uint8_t *data;
    tokens_layout layout;
    uint64_t body_checksum;
    /* document table and names; points into `data` or to the copy */
    const uint8_t *tail;
    /* a copy of the tail, made for a mapping or for unaligned data */
    uint8_t *tail_copy;
    const pl_token_doc *docs; /* table of documents, inside the tail */
    const char **domain_names;
    /* one checksum per SUMMED_BYTES bytes of tokens (the last one also covers the
     * padding); NULL: changes are not noticed */
    uint64_t *sums;
    /* whether a checksum was wrong; any thread sets it, by atomic operations */
    bool *changed;
    char what[PL_PATH_MAX];
};

/* Uses memcpy: a file in memory (pl_tokens_view) may be unaligned. */
static uint32_t token_at(const pl_tokens *tokens, uint64_t i)
{
    uint32_t token = 0;
    memcpy(&token, tokens->data + TOKENS_HEADER_BYTES + i * tokens->layout.token_bytes,
           tokens->layout.token_bytes);
    return token;
}

/* ---- pages of tokens ---- */
static uint64_t page_sum(const pl_tokens *tokens, uint64_t page)
{
    uint64_t from = TOKENS_HEADER_BYTES + page * SUMMED_BYTES;
    uint64_t left = tokens->layout.docs_at - from;
    return pl_checksum(tokens->data + from,
                       left < SUMMED_BYTES ? (size_t)left : SUMMED_BYTES);
}

/* Compares the checksums of the pages of n tokens that were read. */
static void watch_pages(const pl_tokens *tokens, uint64_t first, uint64_t n)
{
    uint64_t width = tokens->layout.token_bytes;
    if (!tokens->sums || n == 0)
        return;
    uint64_t last = ((first + n) * width - 1) / SUMMED_BYTES;
    for (uint64_t page = first * width / SUMMED_BYTES; page <= last; page++)
        if (page_sum(tokens, page) != tokens->sums[page])
            __atomic_store_n(tokens->changed, true, __ATOMIC_RELAXED);
}

pl_status pl_tokens_check(const pl_tokens *tokens)
{
    if (!tokens->changed || !__atomic_load_n(tokens->changed, __ATOMIC_RELAXED))
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "%s changed while it was in use, so results from it are discarded; "
                   "if nobody wrote into the file, check the disk",
                   tokens->what);
}

/* Checks that the names, each a string that is not empty, fill their block, and that
 * the documents cover all tokens in order. After these checks no index from the table
 * can be outside the file. With `verify` the checksum of the body and the range of all
 * tokens are checked, too. Both are needed: a forged file can have a correct checksum,
 * and a damaged file can have all tokens in range. */
static pl_status open_bytes(pl_tokens *tokens, const void *data, size_t len,
                            bool verify)
{
    const tokens_layout *layout = &tokens->layout;
    void *sums = NULL;
    tokens->data = data;
    PL_CHECK(tokens_header_decode(tokens->data, len, tokens->what, &tokens->layout,
                                  &tokens->body_checksum));
    /* the table is aligned in a file, but maybe not in memory */
    const size_t tail_bytes = (size_t)(layout->file_bytes - layout->docs_at);
    tokens->tail = tokens->data + layout->docs_at;
    if (tokens->mapping.data || (uintptr_t)tokens->tail % _Alignof(pl_token_doc) != 0) {
        tokens->tail_copy = pl_alloc(tail_bytes + 1);
        memcpy(tokens->tail_copy, tokens->tail, tail_bytes);
        tokens->tail = tokens->tail_copy;
    }
    tokens->docs = (const void *)tokens->tail;
    const uint8_t *at = tokens->tail + (layout->names_at - layout->docs_at);
    const uint8_t *end = at + layout->names_bytes;
    tokens->domain_names = pl_alloc(((size_t)layout->n_domains + 1) * sizeof(char *));
    for (uint32_t i = 0; i < layout->n_domains; i++) {
        const uint8_t *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        if (!stop || stop == at)
            return pl_fail(PL_ERR_DAMAGED,
                           "%s is damaged: domain name %u of %u is empty or has no "
                           "terminating NUL",
                           tokens->what, (unsigned)i, (unsigned)layout->n_domains);
        tokens->domain_names[i] = (const char *)at;
        at = stop + 1;
    }
    if (at != end)
        return pl_fail(PL_ERR_DAMAGED,
                       "%s is damaged: there are bytes after the domain names",
                       tokens->what);
    uint64_t next = 0;
    for (uint32_t i = 0; i < layout->n_docs; i++) {
        const pl_token_doc *doc = &tokens->docs[i];
        if (doc->first != next || doc->n_tokens < 2 ||
            doc->domain >= layout->n_domains || doc->n_tokens > layout->n_tokens - next)
            return pl_fail(PL_ERR_DAMAGED,
                           "%s is damaged: entry %u of its document table is wrong",
                           tokens->what, (unsigned)i);
        next += doc->n_tokens;
    }
    if (next != layout->n_tokens)
        return pl_fail(
            PL_ERR_DAMAGED,
            "%s is damaged: its documents have %llu tokens, but its header says %llu",
            tokens->what, (unsigned long long)next,
            (unsigned long long)layout->n_tokens);
    if (!verify)
        return PL_OK;
    const uint64_t body_bytes = layout->docs_at - TOKENS_HEADER_BYTES;
    if (tokens->mapping.data) {
        /* The checksum of the whole file is verified after those of the pages, so a
         * page that changes in between is noticed. */
        const uint64_t n = (body_bytes + SUMMED_BYTES - 1) / SUMMED_BYTES;
        PL_CHECK(pl_try_alloc((size_t)(n + 1) * sizeof *tokens->sums,
                              "the checksums of a token file", &sums));
        tokens->sums = sums;
        tokens->changed = pl_alloc(sizeof *tokens->changed);
        for (uint64_t page = 0; page < n; page++)
            tokens->sums[page] = page_sum(tokens, page);
    }
    const pl_piece body[] = {{tokens->data + TOKENS_HEADER_BYTES, (size_t)body_bytes},
                             {tokens->tail, tail_bytes}};
    if (pl_checksum_pieces(body, 2) != tokens->body_checksum)
        return pl_fail(PL_ERR_DAMAGED,
                       "%s is damaged: the checksum of its %llu bytes is wrong",
                       tokens->what, (unsigned long long)layout->file_bytes);
    for (uint64_t i = 0; i < layout->n_tokens; i++)
        if (token_at(tokens, i) >= layout->vocab)
            return pl_fail(PL_ERR_DAMAGED,
                           "%s is damaged: token %llu is outside the vocabulary of %u",
                           tokens->what, (unsigned long long)i,
                           (unsigned)layout->vocab);
    return PL_OK;
}

pl_status pl_tokens_open(const char *path, bool verify, pl_tokens **out)
{
    *out = NULL;
    pl_tokens *tokens = pl_alloc(sizeof *tokens);
    pl_status status = PL_OK;
    snprintf(tokens->what, sizeof tokens->what, "token file '%s'", path);
    PL_TRY(pl_map_file(path, &tokens->mapping));
    PL_TRY(open_bytes(tokens, tokens->mapping.data, tokens->mapping.len, verify));
    *out = tokens;
    tokens = NULL;
done:
    pl_tokens_close(&tokens);
    return status;
}

pl_status pl_tokens_view(const void *data, size_t len, const char *what,
                         pl_tokens **out)
{
    *out = NULL;
    pl_tokens *tokens = pl_alloc(sizeof *tokens);
    pl_copy_text(tokens->what, sizeof tokens->what, what);
    pl_status status = open_bytes(tokens, data, len, true);
    if (status != PL_OK)
        pl_tokens_close(&tokens);
    *out = tokens;
    return status;
}

void pl_tokens_rest(const pl_tokens *tokens)
{
    pl_rest_file(&tokens->mapping);
}

void pl_tokens_close(pl_tokens **tokens)
{
    if (!*tokens)
        return;
    pl_unmap_file(&(*tokens)->mapping);
    pl_free((*tokens)->tail_copy);
    pl_free((*tokens)->sums);
    pl_free_all((*tokens)->changed, (*tokens)->domain_names, *tokens);
    *tokens = NULL;
}

uint64_t pl_tokens_count(const pl_tokens *tokens)
{
    return tokens->layout.n_tokens;
}

uint32_t pl_tokens_n_docs(const pl_tokens *tokens)
{
    return tokens->layout.n_docs;
}

int pl_tokens_vocab(const pl_tokens *tokens)
{
    return (int)tokens->layout.vocab;
}

const pl_token_doc *pl_tokens_doc(const pl_tokens *tokens, uint32_t doc)
{
    assert(doc < tokens->layout.n_docs);
    return &tokens->docs[doc];
}

const pl_token_doc *pl_tokens_find(const pl_tokens *tokens, uint64_t hash)
{
    for (uint32_t d = 0; d < pl_tokens_n_docs(tokens); d++)
        if (tokens->docs[d].hash == hash)
            return &tokens->docs[d];
    return NULL;
}

/* In a file that was opened without verification, tokens may have any value. A token
 * that is not below vocab is read as unknown, so that it is never used as an index. */
void pl_tokens_copy(const pl_tokens *tokens, uint64_t first, size_t n, int32_t *out)
{
    assert(first <= tokens->layout.n_tokens && n <= tokens->layout.n_tokens - first);
    for (size_t i = 0; i < n; i++) {
        uint32_t token = token_at(tokens, first + i);
        out[i] = token < tokens->layout.vocab ? (int32_t)token : PL_TOKEN_UNK;
    }
    watch_pages(tokens, first, n);
}

uint32_t pl_tokens_n_domains(const pl_tokens *tokens)
{
    return tokens->layout.n_domains;
}

const char *pl_tokens_domain(const pl_tokens *tokens, uint32_t domain)
{
    assert(domain < tokens->layout.n_domains);
    return tokens->domain_names[domain];
}

/* Appends a file with some documents of this one. The padding and blank documents stay
 * zero. The new file has the same vocabulary and the same number of bytes per token, so
 * tokens are copied unchanged. `docs` NULL: all documents. */
static pl_status append_subset(const pl_tokens *tokens, const uint32_t *docs,
                               const pl_doc_list *blank, const tokens_layout *layout,
                               pl_buf *out)
{
    pl_buf_reserve(out, (size_t)layout->file_bytes);
    uint8_t *file = out->data + out->len;
    memset(file, 0, (size_t)layout->file_bytes);
    uint64_t next = 0;
    uint32_t width = layout->token_bytes;
    for (uint32_t i = 0; i < layout->n_docs; i++) {
        pl_token_doc doc = tokens->docs[docs ? docs[i] : i];
        if (!pl_doc_listed(blank, doc.hash))
            memcpy(file + TOKENS_HEADER_BYTES + next * width,
                   tokens->data + TOKENS_HEADER_BYTES + doc.first * width,
                   (size_t)doc.n_tokens * width);
        watch_pages(tokens, doc.first, doc.n_tokens);
        doc.first = next;
        memcpy(file + layout->docs_at + (uint64_t)i * sizeof doc, &doc, sizeof doc);
        next += doc.n_tokens;
    }
    memcpy(file + layout->names_at,
           tokens->tail + (tokens->layout.names_at - tokens->layout.docs_at),
           layout->names_bytes);
    uint64_t sum = pl_checksum(file + TOKENS_HEADER_BYTES,
                               (size_t)(layout->file_bytes - TOKENS_HEADER_BYTES));
    tokens_header_encode(layout, sum, file);
    PL_CHECK(pl_tokens_check(tokens));
    out->len += (size_t)layout->file_bytes;
    return PL_OK;
}

pl_status pl_tokens_subset(const pl_tokens *tokens, const uint32_t *docs, size_t n,
                           pl_buf *out)
{
    /* the size is known before, so the tokens are copied only once */
    tokens_layout layout = tokens->layout;
    if (n > UINT32_MAX)
        return pl_fail(PL_ERR_ARG, "a token file holds at most 4294967295 documents");
    layout.n_docs = (uint32_t)n;
    layout.n_tokens = 0;
    for (size_t i = 0; i < n; i++) {
        if (docs[i] >= tokens->layout.n_docs)
            return pl_fail(
                PL_ERR_ARG,
                "%s has %u documents, so there is no document with the index %u",
                tokens->what, (unsigned)tokens->layout.n_docs, (unsigned)docs[i]);
        layout.n_tokens += tokens->docs[docs[i]].n_tokens;
    }
    if (layout.n_tokens > TOKENS_COUNT_MAX)
        return pl_fail(PL_ERR_ARG, "a token file holds at most 2^48 tokens");
    tokens_layout_place(&layout);
    return append_subset(tokens, docs, &(pl_doc_list){NULL, 0}, &layout, out);
}

/* ---- blank documents ---- */
bool pl_doc_listed(const pl_doc_list *list, uint64_t hash)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->hashes[i] == hash)
            return true;
    return false;
}

/* a document that is not blank begins with PL_TOKEN_BOS */
bool pl_tokens_is_blank(const pl_tokens *tokens, uint32_t doc)
{
    const pl_token_doc *d = pl_tokens_doc(tokens, doc);
    for (uint64_t i = 0; i < d->n_tokens; i++)
        if (token_at(tokens, d->first + i) != PL_TOKEN_UNK)
            return false;
    return true;
}

pl_status pl_tokens_blank(const pl_tokens *tokens, const pl_doc_list *list, pl_buf *out)
{
    return append_subset(tokens, NULL, list, &tokens->layout, out);
}
