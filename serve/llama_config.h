/* Converts between pl_shape and config.json of LlamaForCausalLM or, with QK norm,
 * Qwen3ForCausalLM. */
#pragma once
#include "serve/exchange.h"

/* Reads the text of config.json; `what` is the file's name for error messages.
 * ERR_UNSUPPORTED: our model does not support the value of a field; the message names
 * the field, its value and what to do. ERR_DATA: a field is missing or not valid. */
pl_status llama_config_read(const char *what, const char *text, size_t len,
                            pl_shape *out);

/* Returns config.json. `dtype` is torch's name of the type, such as "float32". */
pl_json *llama_config_json(const pl_shape *shape, const char *dtype);
