/* Private to serve: parses requests for embeddings in the form of OpenAI's API, and
 * writes their answers.
 *
 * The embedding of a text is the mean, over its tokens, of the last block's hidden
 * states, scaled to length 1. (The router uses the same mean, over the first tokens of
 * a document.) */
#pragma once
#include "serve/serve.h"

/* Parses a body of /v1/embeddings: sets the prompts and the model of `out`. *base64
 * tells whether the answer's numbers must be written in base64. The message of
 * ERR_USAGE names the wrong key. The caller clears `out`, also after a failure. */
pl_status embedding_parse(const char *body, size_t len, pl_completion *out,
                          bool *base64);

typedef struct embedding_answer {
    const char *model;
    bool base64;
    int n, width;
    const float *values; /* [n, width]; embedding_write scales each row to length 1 */
    int n_tokens;        /* number of tokens in all texts */
} embedding_answer;
void embedding_write(const embedding_answer *answer, pl_buf *out);
