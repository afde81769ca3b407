/* Chooses the text that the tokenizer is trained on, and where texts may be cut.
 *
 * BPE finds the same merges in a few megabytes of text as in gigabytes. So the trainer
 * gets a sample: blocks of at most 4 KiB, spread evenly over the documents. (The
 * library does not accept longer sentences.) The choice depends only on the texts. */
#include "corpus/tokenizer.h"
#include "corpus/utf8.h"
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
    size_t at = utf8_cut(text, max);
    /* returns `max` if the text is not UTF-8, so that the caller's loop always ends */
    return at > 0 ? at : max;
}

typedef struct text_sample {
    text_block *blocks;
    size_t n_blocks, cap;
    uint64_t total_bytes, seen_bytes, taken_bytes;
} text_sample;

/* Takes a block if all taken blocks, including this one, then have at most the fraction
 * SAMPLE_BYTES / total_bytes of the bytes seen so far. So every part of the corpus
 * contributes its share. */
static pl_status sample_text(text_sample *sample, const char *text, size_t len)
{
    double share = sample->total_bytes <= SAMPLE_BYTES
                       ? 1.0
                       : (double)SAMPLE_BYTES / (double)sample->total_bytes;
    for (size_t at = 0; at < len;) {
        size_t step = tokenizer_block_len(text + at, len - at, BLOCK_BYTES);
        sample->seen_bytes += step;
        /* Doubles are exact up to 2^53 bytes; if share is 1, every block is taken. */
        if ((double)(sample->taken_bytes + step) <=
            (double)sample->seen_bytes * share) {
            if (sample->n_blocks == sample->cap) {
                size_t cap = sample->cap ? sample->cap * 2 : 1024;
                text_block *blocks = realloc(sample->blocks, cap * sizeof *blocks);
                if (!blocks)
                    return pl_fail(PL_ERR_NOMEM, "no memory for a sample of %zu blocks",
                                   cap);
                sample->blocks = blocks;
                sample->cap = cap;
            }
            sample->blocks[sample->n_blocks++] = (text_block){text + at, step};
            sample->taken_bytes += step;
        }
        at += step;
    }
    return PL_OK;
}

/* n_threads is not used: SentencePiece's BPE trainer is not faster with more threads,
 * and it would write the number of threads into the model. The bytes of the model must
 * not depend on the number of threads. */
pl_status pl_tokenizer_train(const char *const *texts, const size_t *lens, size_t n,
                             int vocab, int n_threads, const char *model_path)
{
    text_sample sample = {0};
    pl_buf model = {0};
    pl_status status = PL_OK;
    (void)n_threads;
    for (size_t i = 0; i < n; i++)
        sample.total_bytes += lens[i];
    for (size_t i = 0; i < n; i++)
        PL_TRY(sample_text(&sample, texts[i], lens[i]));
    PL_TRY(sentencepiece_train(sample.blocks, sample.n_blocks, vocab, &model));
    PL_TRY(pl_replace_file(model_path, model.data, model.len));
done:
    free(sample.blocks);
    pl_buf_destroy(&model);
    return status;
}
