/* Private to corpus: reads tokenizer.json, the format of Hugging Face's tokenizers, if
 * it describes SentencePiece's BPE. transformers 5 saves only this file. */
#pragma once
#include "base/base.h"
PL_C_BEGIN

/* Appends to `model` the SentencePiece model that gives the same tokens, but to a text
 * that begins with a blank: a Metaspace step with prepend_scheme `first` or `always`
 * puts no other blank before it, and SentencePiece does. ERR_UNSUPPORTED: the file has
 * another kind of tokenizer, which is named. */
pl_status tokenizer_json_read(const char *text, size_t len, pl_buf *model);

PL_C_END
