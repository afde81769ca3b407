/* folder: corpus
 *
 * Fuzzes token files: opens them, reads them, and makes subsets of their documents. */
#include "corpus/corpus.h"
#include "corpus/tokens_write.h"
#include "tests/fuzz/fuzz.h"
#include <unistd.h>

enum { HEADER = 64 };

static void put_checksum(uint8_t *at, const uint8_t *data, size_t len)
{
    uint64_t checksum = pl_checksum(data, len);
    memcpy(at, &checksum, 8);
}

static void use(const pl_tokens *tokens)
{
    int32_t some[8];
    pl_buf subset = {0};
    uint32_t n = pl_tokens_n_docs(tokens), docs[4];
    uint64_t count = pl_tokens_count(tokens);
    for (uint32_t d = 0; d < n; d++) {
        const pl_token_doc *doc = pl_tokens_doc(tokens, d);
        (void)strlen(pl_tokens_domain(tokens, doc->domain));
        size_t some_n = doc->n_tokens < 8 ? doc->n_tokens : 8;
        pl_tokens_copy(tokens, doc->first, some_n, some);
    }
    if (count >= 8)
        pl_tokens_copy(tokens, count - 8, 8, some);
    for (uint32_t d = 0; d < 4; d++)
        docs[d] = n ? d % n : 0;
    if (n > 0)
        (void)pl_tokens_subset(tokens, docs, 4, &subset);
    pl_buf_destroy(&subset);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    pl_tokens *tokens;
    if (len < 1)
        return 0;
    size_t n = len - 1;
    /* The block is aligned, because the start of a mapped file is aligned, too. */
    uint8_t *file = aligned_alloc(64, (n + 64) / 64 * 64);
    if (!file)
        return 0;
    memcpy(file, input + 1, n);
    if ((input[0] & 1) && n >= HEADER) {
        put_checksum(file + 48, file + HEADER, n - HEADER);
        put_checksum(file + 56, file, 56);
    }
    if (pl_tokens_view(file, n, "fuzz", &tokens) == PL_OK) {
        use(tokens);
        pl_tokens_close(&tokens);
    }
    free(file);
    return 0;
}

static pl_status make(const char *path, uint32_t vocab, int n_docs)
{
    static const char *const domains[] = {"code", "notes"};
    token_writer *writer = NULL;
    pl_status status = PL_OK;
    PL_TRY(token_writer_open(path, vocab, &writer));
    for (int d = 0; d < n_docs; d++) {
        int32_t tokens[16];
        for (int i = 0; i < 16; i++)
            tokens[i] = 3 + (d + i) % 90;
        PL_TRY(token_writer_add(writer, tokens, (size_t)(4 + d % 12), (uint32_t)d % 2,
                                (uint64_t)d));
    }
    PL_TRY(token_writer_end(writer, domains, 2));
done:
    token_writer_close(&writer);
    return status;
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    char path[] = "/tmp/pathloom-fuzz-XXXXXX";
    pl_buf file = {0};
    int fd = mkstemp(path);
    for (int i = 0; i < 6; i++) {
        if (make(path, i < 3 ? 100 : 70000, 1 + 2 * i) != PL_OK ||
            pl_read_file(path, &file) != PL_OK)
            break;
        fuzz_give(give, 1, file.data, file.len);
    }
    close(fd);
    unlink(path);
    pl_buf_destroy(&file);
}
