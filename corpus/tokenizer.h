/* Private to corpus: connects the C part of the tokenizer, which chooses and cuts the
 * text to train on, with the C++ part, which uses SentencePiece. */
#pragma once
#include "corpus/corpus.h"
PL_C_BEGIN

typedef struct text_block {
    const char *text;
    size_t len;
} text_block;

/* Returns the length of the next block, at most `max` (>= 4) bytes. The block ends
 * after the last newline; if there is none, before the last blank; if there is none
 * either, after the last complete character. In our tokenizers a newline is a separate
 * symbol, and a piece never contains text on both sides of the blank before a word. So
 * encoding the blocks gives the same tokens as encoding the whole text. */
size_t tokenizer_block_len(const char *text, size_t len, size_t max);

/* Trains a tokenizer on the blocks, in their order, and appends its bytes to `model`.
 * ERR_DATA: no tokenizer with `vocab` pieces can be trained on these blocks. */
pl_status sentencepiece_train(const text_block *blocks, size_t n_blocks, int vocab,
                              pl_buf *model);

/* Appends the SentencePiece model of a file, or what tokenizer.json describes. */
pl_status tokenizer_read(const char *path, pl_buf *model);

/* Counts PL_TOKEN_UNK, whose text is lost; byte fallback never makes one. */
size_t tokenizer_count_unknown(const int32_t *tokens, size_t n);
/* ERR_DATA if more than 1 % of n tokens are unknown: a model would learn to predict
 * unknown tokens, and its losses would say nothing about the text. */
pl_status tokenizer_check_unknown(uint64_t n_unknown, uint64_t n);

PL_C_END
