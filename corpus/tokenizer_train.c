/* Chooses the text that the tokenizer is trained on, and where texts may be cut.
 *
 * BPE finds the same merges in a few megabytes of text as in gigabytes. So the trainer
 * gets a sample: blocks of at most 4 KiB, spread evenly over the documents. (The
 * library does not accept longer sentences.) The choice depends only on the texts. */
#include "corpus/tokenizer.h"
#include <stdlib.h>

enum { SAMPLE_BYTES = 8 << 20, BLOCK_BYTES = 4096 };

size_t tokenizer_block_len(const char *text, size_t len, size_t max)
{
    if (len <= max)
        return len;
    for (size_t at = max; at > 0; at--)
        if (text[at - 1] == '\n' && text[at] != '\n')
            return at;
    for (size_t at = max; at > 0; at--)
        if (text[at - 1] != ' ' && text[at] == ' ')
            return at;
    /* else before the character to which the byte at `max` belongs */
    size_t at = max;
    while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80)
        at--;
    /* returns `max` if the text is not UTF-8, so that the caller's loop always ends */
    return at > 0 ? at : max;
}

/* n_threads is not used: SentencePiece's BPE trainer is not faster with more threads,
 * and it would write the number of threads into the model. The bytes of the model must
 * not depend on the number of threads. */
pl_status pl_tokenizer_train(const char *const *texts, const size_t *lens, size_t n,
                             int vocab, int n_threads, const char *model_path)
{
    text_block *blocks = NULL;
    size_t n_blocks = 0, cap = 0;
    uint64_t total_bytes = 0, seen_bytes = 0, taken_bytes = 0;
    pl_buf model = {0};
    pl_status status = PL_OK;
    (void)n_threads;
    for (size_t i = 0; i < n; i++)
        total_bytes += lens[i];
    /* Takes a block if all taken blocks, including this one, then have at most the
     * fraction SAMPLE_BYTES / total_bytes of the bytes seen so far. So every part of
     * the corpus contributes its share. Doubles are exact up to 2^53 bytes; if the
     * share is 1, every block is taken. */
    const double share =
        total_bytes <= SAMPLE_BYTES ? 1.0 : (double)SAMPLE_BYTES / (double)total_bytes;
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0, step; at < lens[i]; at += step) {
            step = tokenizer_block_len(texts[i] + at, lens[i] - at, BLOCK_BYTES);
            seen_bytes += step;
            if ((double)(taken_bytes + step) > (double)seen_bytes * share)
                continue;
            if (n_blocks == cap) {
                cap = cap ? cap * 2 : 1024;
                text_block *more = realloc(blocks, cap * sizeof *more);
                if (!more)
                    PL_TRY(pl_fail(PL_ERR_NOMEM, "no memory for a sample of %zu blocks",
                                   cap));
                blocks = more;
            }
            blocks[n_blocks++] = (text_block){texts[i] + at, step};
            taken_bytes += step;
        }
    PL_TRY(sentencepiece_train(blocks, n_blocks, vocab, &model));
    PL_TRY(pl_replace_file(model_path, model.data, model.len));
done:
    free(blocks);
    pl_buf_destroy(&model);
    return status;
}
