/* Private to serve: answers requests about tokens, in the forms of llama-server (key
 * `content`) and of vLLM (key `prompt`). Any thread may call these functions. */
#pragma once
#include "serve/server_internal.h"

/* POST /tokenize: writes the tokens of a text. "<s>" and "</s>" in the text become BOS
 * and EOS, unless `parse_special` is false. The message of ERR_USAGE names the wrong
 * key. */
pl_status tokens_encode(const pl_tokenizer *tokenizer, int context, const char *body,
                        size_t len, pl_buf *out);
/* POST /detokenize: writes the text of a list of tokens. */
pl_status tokens_decode(const pl_tokenizer *tokenizer, const char *body, size_t len,
                        pl_buf *out);
/* GET /tokenizer_info: writes the tokenizer's number of tokens and special tokens. */
void tokens_write_info(pl_server *s, pl_buf *out);
