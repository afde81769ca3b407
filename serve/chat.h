/* Conversations: how the messages of /v1/chat/completions become the text of a prompt.
 *
 * There is no interpreter of Jinja here, but a table of templates by name:
 *
 *   chatml   <|im_start|>ROLE\nTEXT<|im_end|>\n ...; <|im_end|> ends the answer
 *   llama2   [INST] <<SYS>>\nSYSTEM\n<</SYS>>\n\nUSER [/INST] ANSWER; each pair of
 *            turns is a text of its own between BOS and EOS
 *   plain    "ROLE: TEXT" line by line, for models that saw no template
 *
 * A message that contains a template's own marks is refused, because it could pretend
 * to be a turn of somebody else. (plain has no marks: there a text can look like a
 * turn.) */
#ifndef PL_SERVE_CHAT_H
#define PL_SERVE_CHAT_H
#include "base/base.h"
#include "corpus/corpus.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PL_CHAT_NAME_MAX = 16 };
struct pl_completion;

typedef struct pl_chat_template pl_chat_template;
/* NULL: there is no template of this name. */
const pl_chat_template *pl_chat_find(const char *name);
const char *pl_chat_name(const pl_chat_template *chat);
/* Writes the name of the template that an imported model has, by tokenizer_config.json
 * or chat_template.jinja in its folder: "" if there is none, "unknown" if it is not in
 * the table. */
void pl_chat_of_model(const char *folder, char out[PL_CHAT_NAME_MAX]);

/* Parses a body of /v1/chat/completions into a completion with one prompt: the
 * conversation up to the assistant's turn. The sentence of ERR_USAGE names the key.
 * Clear the completion also after a failure. */
PL_MUST_CHECK pl_status pl_chat_parse(const pl_chat_template *chat,
                                      const pl_tokenizer *tokenizer, const char *body,
                                      size_t len, struct pl_completion *out);

#ifdef __cplusplus
}
#endif
#endif
