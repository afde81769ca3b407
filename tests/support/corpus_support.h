/* What the corpus tests share: a scratch folder, and token files built from
 * docs/PROTOCOL.md section 5 by other code than the one under test.
 */
#ifndef PL_TEST_CORPUS_SUPPORT_H
#define PL_TEST_CORPUS_SUPPORT_H
#include "corpus/corpus.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define REAL_TRAIN "../shared/data/train.jsonl.zst"
#define REAL_VALID "../shared/data/valid.jsonl.zst"

extern char scratch[64]; /* the folder of this run */

int make_scratch(void **state);

int remove_scratch(void **state);

/* A path below the scratch folder, in one of a few buffers that take turns. */
const char *in_scratch(const char *name);

void write_bytes(const char *name, const void *data, size_t len);

void write_text(const char *name, const char *text);

#define assert_ok(expression)                                                          \
    do {                                                                               \
        if ((expression) != PL_OK)                                                     \
            fail_msg("%s: %s", #expression, pl_last_error());                          \
    } while (0)

/* The error sentence of the last failure must name this. */
#define assert_said(words)                                                             \
    do {                                                                               \
        if (!strstr(pl_last_error(), words))                                           \
            fail_msg("'%s' does not say '%s'", pl_last_error(), words);                \
    } while (0)

void put_le(pl_buf *buf, uint64_t value, int bytes);

/* Token t of document d in the files below: it tells both, so that a window shows
 * where it came from. */
int32_t test_token(size_t d, size_t t, size_t n);

/* A token file of n documents with these lengths; domain d % 2 of "one", "two". */
void build_tokens(const uint32_t *lens, size_t n, uint32_t vocab, pl_buf *out);

/* Words drawn from a small alphabet: text that a tokenizer can learn from. */
void make_words(uint64_t seed, size_t len, pl_buf *out);

/* A tokenizer that was trained on such words. Makes the scratch folder, too. */
pl_status make_words_tokenizer(void **state, int vocab, pl_tokenizer **out);

#endif
