/* Writes the tokenizer as files of a Hugging Face folder. */
#pragma once
#include "serve/piece_list.h"

/* Whether tokenizer.json can describe this tokenizer: it must be BPE over unchanged
 * text, with byte fallback. */
bool tokenizer_has_json(const piece_list *list);

/* Each function appends the text of one file. */
void tokenizer_json(const piece_list *list, pl_buf *out);
void tokenizer_config(const piece_list *list, int context, pl_buf *out);
void tokenizer_special_tokens(const piece_list *list, pl_buf *out);
