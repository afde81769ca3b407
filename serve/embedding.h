/* Private to serve: requests for embeddings, as OpenAI's API has them, and their
 * answers.
 *
 * The embedding of a text is the mean of the last block's hidden states over its
 * tokens: what the router sees of a document's first tokens. It has length 1. */
#ifndef PL_SERVE_EMBEDDING_H
#define PL_SERVE_EMBEDDING_H
#include "serve/serve.h"

/* Parses a body of /v1/embeddings into the prompts and the model of a request;
 * `base64`: how the numbers are written. ERR_USAGE names the key. Clear it also after a
 * failure. */
PL_MUST_CHECK pl_status embedding_parse(const char *body, size_t len,
                                        pl_completion *out, bool *base64);

typedef struct embedding_answer {
    const char *model;
    bool base64;
    int n, width;
    const float *values; /* [n, width]; they get length 1 */
    int n_tokens;        /* of all texts */
} embedding_answer;
void embedding_write(const embedding_answer *answer, pl_buf *out);

#endif
