/* Private to serve: joins the bytes of tokens into text.
 *
 * Bytes are held back while they may be the beginning of a character or of a stop text.
 * Each sequence of bytes that cannot be UTF-8 becomes one U+FFFD. So every piece of
 * text is valid UTF-8, whatever tokens the model chooses. */
#pragma once
#include "serve/serve.h"

typedef struct pieces {
    pl_buf raw;  /* bytes that are not complete characters yet */
    pl_buf text; /* valid text that may be the start of a stop text */
    const char *const *stop;
    int n_stop;
    pl_piece_fn emit;
    void *context;
} pieces; /* starts as zeros, except stop, n_stop, emit and context */

/* Adds bytes and emits the text that is final. *stopped becomes true if the text
 * contains a stop text. In this case the text before the stop text was emitted, and no
 * more bytes may be added. */
pl_status pieces_add(pieces *p, const void *data, size_t len, bool *stopped);
/* Ends the text: emits what was held back. */
pl_status pieces_end(pieces *p);
void pieces_destroy(pieces *p);
/* Appends the text of a list of tokens, in valid UTF-8, without the blank that the
 * tokenizer puts before a text. */
pl_status pieces_decode(const pl_tokenizer *tokenizer, const int32_t *tokens, size_t n,
                        pl_buf *out);
/* Whether the bytes are well-formed UTF-8. */
bool pieces_are_text(const void *data, size_t len);
