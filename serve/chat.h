/* Conversations: how the messages of /v1/chat/completions become the text of a prompt.
 *
 * Models describe this conversion by a template in the language Jinja. Pathloom does
 * not interpret Jinja. It has a table of templates with names:
 *
 *   chatml   <|im_start|>ROLE\nTEXT<|im_end|>\n ...; <|im_end|> ends the answer
 *   llama2   [INST] <<SYS>>\nSYSTEM\n<</SYS>>\n\nUSER [/INST] ANSWER; each pair of
 *            turns is a separate text between BOS and EOS
 *   plain    "ROLE: TEXT" line by line, for models that were trained without a
 *            template
 *
 * A message that contains a mark of the template (such as <|im_end|>) is refused,
 * because its text could look like a turn of another role. The template plain has no
 * marks, so it cannot prevent this. */
#pragma once
#include "base/base.h"
#include "corpus/corpus.h"

enum { PL_CHAT_NAME_MAX = 16 };
struct pl_completion;

typedef struct pl_chat_template pl_chat_template;
/* Returns the template with this name; NULL if there is none. */
const pl_chat_template *pl_chat_find(const char *name);
const char *pl_chat_name(const pl_chat_template *chat);
/* Finds the template of an imported model in the file chat_template.jinja or
 * tokenizer_config.json of its folder, and writes the template's name to `out`: "" if
 * the model has no template, "unknown" if the template is not in the table. */
void pl_chat_of_model(const char *folder, char out[PL_CHAT_NAME_MAX]);

/* Parses a body of /v1/chat/completions into a completion with one prompt: the
 * conversation up to the assistant's turn. The message of ERR_USAGE names the wrong
 * key. The caller clears the completion, also after a failure. */
pl_status pl_chat_parse(const pl_chat_template *chat, const pl_tokenizer *tokenizer,
                        const char *body, size_t len, struct pl_completion *out);
