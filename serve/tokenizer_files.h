/* Writes the tokenizer as files of a Hugging Face folder. */
#pragma once
#include "serve/piece_list.h"

/* Each function appends the text of one file. The tokenizer must be BPE over unchanged
 * text, with byte fallback. */
void tokenizer_json(const piece_list *list, pl_buf *out);
void tokenizer_config(const piece_list *list, int context, pl_buf *out);
void tokenizer_special_tokens(const piece_list *list, pl_buf *out);
