/* Private to corpus: connects the C part of the tokenizer (what to train on, where to
 * cut) with the C++ part, which alone includes SentencePiece. */
#ifndef PL_CORPUS_TOKENIZER_H
#define PL_CORPUS_TOKENIZER_H
#include "corpus/corpus.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct text_block {
    const char *text;
    size_t len;
} text_block;

/* Length of the next block of at most `max` (>= 4) bytes: it ends at the last newline,
 * else at the last blank, else at the last whole character. No piece of a tokenizer of
 * ours crosses a newline (a symbol of its own) or the blank before a word, so blocks
 * give the same tokens as the whole text. */
size_t tokenizer_block_len(const char *text, size_t len, size_t max);

/* Trains on the blocks, in order, and appends the model. ERR_DATA. */
PL_MUST_CHECK pl_status sentencepiece_train(const text_block *blocks, size_t n_blocks,
                                            int vocab, pl_buf *model);

#ifdef __cplusplus
}
#endif
#endif
