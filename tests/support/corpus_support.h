/* Shared by the corpus tests: functions that write token files in the format of
 * docs/PROTOCOL.md, section 5. These functions do not use the code under test. */
#pragma once
#include "corpus/corpus.h"
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/scratch.h"

void put_le(pl_buf *buf, uint64_t value, int bytes);

/* Returns token t of document d, which has n tokens, in the files of build_tokens. The
 * token's value depends on d and t, so a test can see from which place a window
 * came. */
int32_t test_token(size_t d, size_t t, size_t n);

/* Appends a token file of n documents to `out`. Document d has lens[d] tokens, and
 * belongs to the domain "one" if d is even, else to "two". */
void build_tokens(const uint32_t *lens, size_t n, uint32_t vocab, pl_buf *out);

/* Appends random words to `out` until `out` has `len` bytes or a few more. Each word is
 * made of one to three of 12 syllables, so a tokenizer can learn from this text. */
void make_words(uint64_t seed, size_t len, pl_buf *out);

/* Makes the scratch folder, and trains a tokenizer with `vocab` tokens on `len` bytes
 * of make_words. */
enum { WORDS_BYTES = 100000 };
pl_status make_words_tokenizer(void **state, size_t len, int vocab, pl_tokenizer **out);

/* The same for a whole suite, with WORD_VOCAB tokens. */
enum { WORD_VOCAB = 300 };
extern pl_tokenizer *word_tokenizer;
int open_words(void **state);
int close_words(void **state);

/* Makes the scratch folder, and in it corpus.jsonl with n documents of 1,500 bytes. One
 * third of them belong to the domain "third", the others to "even". */
int make_documents(void **state, int n);

/* Returns options that prepare corpus.jsonl. */
pl_prepare_options usual_prepare(void);

void check_prepare_fails(const pl_prepare_options *options, const char *folder,
                         pl_status expected, const char *said);

/* Prepares with these options, which must succeed. Returns the lines of the progress,
 * until the next call. */
const char *prepare_aloud(const pl_prepare_options *options, const char *folder,
                          pl_prepare_result *result);
