/* The main public header of serve: generates text with one path of a trained model.
 *
 * - choose: logits -> the next token (temperature, top-k, top-p, min-p; keyed random
 *   numbers)
 * - score: logits -> how likely a token was
 * - pieces: the bytes of tokens -> text: valid UTF-8, whole characters, up to a stop
 *   text
 * - generate: prompt -> read the prompt -> choose a token -> emit its text, until the
 *   end
 * - batch: generate for several requests at once; requests may join and leave at any
 *   time
 * - completion: a request in JSON (OpenAI's /v1/completions), and the answers to it
 * - likelihood: how well each path predicts a prompt -> the path that answers it
 *
 * Read them in this order, and sequence before generate. The other public headers:
 *
 * - chat: the messages of a conversation -> the text of a prompt
 * - exchange: exports a path as files that other programs load, and imports their
 *   models
 * - mixture: reads a trained mixture from its store
 * - module_pool: keeps the modules of paths in memory, each of them once
 * - path_chooser: chooses the path that answers a prompt
 * - readers: opens the paths that generate one text
 * - server: serves the paths of a mixture over HTTP
 * - exporter: serves a hub's metrics over HTTP
 * - page_front: serves the page of a run over HTTP
 *
 * The same model, prompt and options give the same text: random numbers depend on the
 * seed and the token's position, never on time or on other requests. */
#pragma once
#include "corpus/corpus.h"
#include "modules/modules.h"
#include "serve/chat.h"
#include "serve/exchange.h"
#include "serve/exporter.h"
#include "serve/mixture.h"
#include "serve/module_pool.h"
#include "serve/page_front.h"
#include "serve/path_chooser.h"
#include "serve/readers.h"
#include "serve/reroute.h"
#include "serve/server.h"

/* ---- choose ---- */
typedef struct pl_choice {
    double temperature; /* 0: always the likeliest token */
    int top_k;          /* keep this many tokens, the likeliest; 0: keep all */
    /* applied after top_k: keep the smallest set of likeliest tokens whose share of
     * the remaining probability reaches top_p; 1: keep all */
    double top_p;
    /* applied before top_k and top_p: drop tokens whose probability is below this
     * fraction of the probability of the likeliest token; 0: drop none */
    double min_p;
    uint64_t seed;
} pl_choice;
pl_choice pl_choice_defaults(void); /* temperature 0.8, top_k 40, top_p 0.95 */

/* Working memory for one vocabulary; only one thread may use it. */
typedef struct pl_chooser pl_chooser;
pl_status pl_chooser_create(int vocab, pl_chooser **out);
void pl_chooser_destroy(pl_chooser **chooser); /* accepts NULL */

/* Chooses the token at position `index` of the sequence. The result depends only on the
 * arguments. If two logits are equal, the token with the lower number counts as the
 * likelier one. ERR_USAGE: its message names the option that is out of range.
 * ERR_NUMERIC: a logit is NaN or +inf, or all are -inf. */
pl_status pl_choose_token(pl_chooser *chooser, const float *logits,
                          const pl_choice *choice, uint64_t index, int32_t *token);

/* ---- scores ---- */
enum { PL_TOP_MAX = 20 };
typedef struct pl_token_rank {
    int32_t token;
    double logprob;
} pl_token_rank;
/* How likely a token was at its position. The probabilities are those of the model,
 * before penalties, biases and temperature. */
typedef struct pl_token_score {
    int32_t token;
    double logprob; /* natural logarithm; NaN for a sequence's first token */
    int n_top;
    /* the likeliest tokens at this position, in falling order */
    pl_token_rank top[PL_TOP_MAX];
} pl_token_score;
/* Computes the score of a token, with the n_top likeliest tokens. The sum of the
 * exponentials over the vocabulary is computed in double, in rising order of tokens. If
 * two logits are equal, the token with the lower number comes first in `top`.
 * ERR_NUMERIC if the sum is not finite. */
pl_status pl_score_token(const float *logits, int vocab, int32_t token, int n_top,
                         pl_token_score *out);
typedef pl_status (*pl_score_fn)(void *context, const pl_token_score *score);

/* ---- prompts ---- */
/* Appends BOS and the tokens of a text, with which every prompt begins. */
pl_status pl_prompt_encode(const pl_tokenizer *tokenizer, const char *text, size_t len,
                           pl_buf *tokens);
/* The tokens in a buffer, and their number. */
const int32_t *pl_prompt_tokens(const pl_buf *tokens);
int pl_prompt_count(const pl_buf *tokens);

/* ---- generate ---- */
/* Gets each piece of text as soon as the piece is final. A piece is valid UTF-8 of
 * whole characters, and never contains a part of a stop text. If the function returns
 * an error, generation ends with that error. */
typedef pl_status (*pl_piece_fn)(void *context, const char *text, size_t len);

enum { PL_STOP_MAX = 4, PL_STOPS = PL_STOP_MAX + 2 };
typedef struct pl_logit_bias {
    int32_t token;
    float bias; /* added to the token's logit before each choice */
} pl_logit_bias;
typedef struct pl_generate_options {
    /* the largest number of tokens to choose, at least 1; generation ends earlier if
     * the context is full */
    int max_tokens;
    pl_choice choice;
    /* texts that end the generation; NULL after the last one */
    const char *stop[PL_STOPS];
    /* The logit of a token that was chosen before is lowered: by presence_penalty once,
     * and by frequency_penalty for each time that the token was chosen. */
    double presence_penalty, frequency_penalty;
    const pl_logit_bias *bias; /* [n_bias], borrowed until generation ends */
    int n_bias;
    bool scores; /* report scores of the chosen tokens */
    /* report scores of the prompt's tokens; then max_tokens may be 0 */
    bool prompt_scores;
    int n_top; /* number of likeliest tokens in each score, at most PL_TOP_MAX */
} pl_generate_options;

typedef enum pl_finish {
    PL_FINISH_STOP,  /* end-of-document token or a stop text */
    PL_FINISH_LENGTH /* max_tokens is reached, or the context is full */
} pl_finish;
const char *pl_finish_name(pl_finish finish); /* "stop", "length" */

typedef struct pl_generate_result {
    /* n_prompt: number of the prompt's tokens that were read; n_tokens: number of
     * tokens chosen, including the end token */
    int n_prompt, n_tokens;
    /* how many of the n_prompt tokens were not read again, because an earlier request
     * had read them */
    int n_known;
    /* number of tokens that paths read only to choose the path again (reroute.h) */
    int64_t n_routing;
    double routing_seconds; /* time for reading these tokens and choosing the path */
    pl_finish finish;
    double prompt_seconds, decode_seconds;
} pl_generate_result;

/* The objects that pl_generate uses; borrowed until the call returns. */
typedef struct pl_generator {
    pl_decoder *decoder; /* decoder of the path that answers */
    const pl_tokenizer *tokenizer;
    int vocab;   /* number of the model's tokens; there is one logit per token */
    int context; /* largest number of tokens in a sequence of the decoder's model */
} pl_generator;

/* Resets the decoder, feeds prompt[0..n_prompt) and generates text. The prompt begins
 * with PL_TOKEN_BOS. All chosen tokens are in the tokenizer; none is BOS or UNK.
 * ERR_USAGE if the prompt is empty or leaves no room in the context, or if an option is
 * out of range; ERR_CONFIG if the tokenizer has more tokens than the model. */
pl_status pl_generate(const pl_generator *generator, const int32_t *prompt,
                      int n_prompt, const pl_generate_options *options,
                      pl_piece_fn emit, void *context, pl_generate_result *out);

/* ---- batch ---- */
/* Requests that share decoding steps. A request may join at any time, and leaves when
 * it ends. Different paths of the same shape (pl_shape) may answer the requests. Each
 * request gets the answer that pl_generate would give (modules/model.h says when the
 * logits are equal to the last bit). Only one thread may use a batch. */
typedef struct pl_batch pl_batch;
/* The paths of a request whose path is chosen again after every rule.every tokens
 * (reroute.h). */
typedef struct pl_batch_routes {
    const pl_path *const *paths; /* [n_paths] paths, borrowed until `done` is called */
    int n_paths;                 /* each path takes a slot of the batch */
    pl_route_rule rule;
    /* Called when the first path begins to write, and when another path replaces it,
     * before the path's first text. `from` is the index of the path's first token,
     * counted from the start of the prompt. `path` is an index into `paths`. */
    void (*moved)(void *context, int from, int path);
} pl_batch_routes;
typedef struct pl_batch_request {
    const int32_t *prompt; /* borrowed until join returns */
    int n_prompt;
    /* the options' stop texts are borrowed until `done` is called */
    const pl_generate_options *options;
    pl_piece_fn emit;
    /* Called once for each request that joined, with its result and status; after a
     * failure pl_last_error has the message. */
    void (*done)(void *context, pl_status status, const pl_generate_result *result);
    /* Called at the start of each step while the request still has tokens to read. If
     * it returns an error, the request ends with this error. May be NULL. */
    pl_status (*wanted)(void *context);
    void *context; /* passed to all functions of this request */
    /* Gets the scores that the options ask for, in the order of the tokens, before the
     * text of each token. May be NULL if the options ask for no scores. */
    pl_score_fn score;
    /* the path that answers, borrowed until `done` is called; NULL: the model's own
     * parameters are used */
    const pl_path *path;
    /* the path's pl_pooled_path_contents: paths with equal modules have the same
     * number, so they can use the same cached prompts */
    uint64_t path_contents;
    /* who asks: only prompts of the same asker are used again, because the time and the
     * token counts of an answer show whether a prompt is known */
    uint64_t asker;
    /* borrowed until join returns; NULL: `path` writes the whole answer */
    const pl_batch_routes *routes;
} pl_batch_request;
/* Borrows model and tokenizer until pl_batch_destroy. */
pl_status pl_batch_create(pl_model *model, const pl_tokenizer *tokenizer, int vocab,
                          int context, int n_slots, pl_batch **out);
/* Ends the requests in the batch with ERR_CANCELLED. Accepts NULL. */
void pl_batch_destroy(pl_batch **batch);
/* Returns the number of requests in the batch. */
int pl_batch_active(const pl_batch *batch);
/* Returns the number of requests that this path answers. */
int pl_batch_active_on(const pl_batch *batch, const pl_path *path);
int pl_batch_room(const pl_batch *batch); /* number of free slots */
typedef struct pl_batch_slot {
    /* A request uses this slot. The fields below are 0 if the slot is free. A request
     * whose path is chosen again uses several slots; only its first slot has these
     * fields. */
    bool busy;
    const pl_path *path;
    /* n_prompt: tokens of the prompt; n_read: how many of them were read; n_tokens:
     * tokens of the answer so far, at most max_tokens */
    int n_prompt, n_read, max_tokens, n_tokens;
} pl_batch_slot;
void pl_batch_slot_state(const pl_batch *batch, int slot, pl_batch_slot *out);
/* Adds a request. The errors are those that pl_generate returns for its arguments, and
 * ERR_BUSY if too few slots are free. After an error the request has not joined, and
 * `done` is not called. A request with routes gets the answer of pl_reroute_generate,
 * and cannot have prompt_scores. */
pl_status pl_batch_join(pl_batch *batch, const pl_batch_request *request);
/* Reads the next pieces of prompts, the request that joined first before the others,
 * and chooses one token for each request whose prompt has been read. An error of one
 * request (in its prompt, its emit function or its logits) ends only that request. If
 * this function returns an error, the model has failed, and all requests have ended. */
pl_status pl_batch_step(pl_batch *batch);

/* ---- likelihood ---- */
/* Computes how badly a path predicts a text: *nats is the sum of -log p over tokens 1
 * to n - 1, where p is a token's probability given the tokens before it. tokens[0] is
 * PL_TOKEN_BOS; the model's context must be at least n - 1. The sum is computed in
 * double, from the first token to the last. ERR_ARG if n < 2; also the errors of
 * pl_model_losses. */
pl_status pl_likelihood_nats(pl_model *model, const int32_t *tokens, int n,
                             double *nats);
/* Chooses the path with the fewest nats. If two paths have equally many nats, chooses
 * the path with the lower number. A path whose nats are NaN or infinite is never
 * chosen. *margin_nats is how many nats more the second best path has; INFINITY if
 * there is no second path. ERR_NUMERIC if no path's nats are finite. */
pl_status pl_likelihood_choose(const double *nats, int n_paths, int *path,
                               double *margin_nats);

/* ---- completion ---- */
enum {
    PL_COMPLETION_BYTES_MAX = 1 << 20,
    PL_CHOICES_MAX = 256, /* largest number of answers to one request */
    PL_TOKENS_MAX = 1000000,
    PL_BIAS_MAX = 1024
};
typedef struct pl_completion_prompt {
    char *text; /* the prompt's text; NULL: the prompt is the list of tokens below */
    int32_t *tokens;
    int n_tokens;
} pl_completion_prompt;
typedef struct pl_completion pl_completion;
struct pl_completion {
    char model[PL_NAME_MAX];       /* "auto": the server chooses the path */
    pl_completion_prompt *prompts; /* owned, like biases and the stop texts */
    int n_prompts;
    int n;       /* answers per prompt; answer k uses options.choice.seed + k */
    int best_of; /* must equal n; 0: the key was not given */
    /* number of likeliest tokens that are listed for each token; -1: the answer has no
     * log probabilities */
    int logprobs;
    /* tokens between two choices of the path; 0: the path is chosen once */
    int route_every;
    bool echo, stream, stream_options, include_usage;
    bool chat; /* answer in the form of /v1/chat/completions */
    pl_logit_bias *bias;
    pl_generate_options options;
};
/* Parses a body of /v1/completions. The message of ERR_USAGE names the wrong key. The
 * caller clears the completion, also after a failure. */
pl_status pl_completion_parse(const char *body, size_t len, pl_completion *out);
void pl_completion_clear(pl_completion *completion);
/* The next three functions are for the parsers of requests with keys of their own, such
 * as those of /v1/chat/completions. The first parses a body, which must be a JSON
 * object, and calls `read` for each of its keys. The second reads one key of a
 * completion. The third refuses keys that are valid alone but not together. */
typedef pl_status (*pl_completion_key_fn)(void *context, const char *key,
                                          const pl_json *value);
pl_status pl_completion_each_key(const char *body, size_t len,
                                 pl_completion_key_fn read, void *context);
pl_status pl_completion_read_key(const char *name, const pl_json *value,
                                 pl_completion *c);
/* Judges a key that this server does not have. ERR_USAGE, unless the value asks for
 * nothing, such as an empty list of tools. The message names the most similar key. */
pl_status pl_completion_foreign_key(const char *name, const pl_json *value);
pl_status pl_completion_check(pl_completion *c);
/* Sets every field to its default: the value for a request without keys. */
void pl_completion_defaults(pl_completion *out);
/* The first function parses the value of the key `model`. The second parses the value
 * of a key with prompts (texts or lists of tokens); `key` is the name of this key, for
 * error messages. */
pl_status pl_completion_read_model(const pl_json *value, pl_completion *c);
pl_status pl_completion_read_prompts(const pl_json *value, const char *key,
                                     pl_completion *c);
/* Parses a list of token numbers; `key` is the name of its key, for error messages. The
 * caller frees *tokens, also after a failure. */
pl_status pl_completion_read_tokens(const pl_json *array, const char *key,
                                    int32_t **tokens, int *n);

/* The path that wrote the tokens from index `from` up to the next span. Indices are
 * counted from the start of the prompt. */
typedef struct pl_completion_span {
    int from;
    char path[PL_NAME_MAX];
} pl_completion_span;

/* One of the answers to a request, or, in a stream, the new part of one answer. */
typedef struct pl_completion_choice {
    int index;        /* number of the prompt * n + number of the choice */
    const char *path; /* the path that answers */
    /* the paths that wrote the answer, if it has ended and its path was chosen again */
    const pl_completion_span *spans;
    int n_spans;
    const char *text;
    size_t text_len;
    const pl_token_score *scores;
    size_t n_scores;
    /* Number of characters in the whole text before the token of the first score.
     * pl_completion_write adds the characters of all tokens that have a score. */
    int64_t offset;
    bool scored; /* the request asked for scores */
    bool first;  /* chat: write the role, because this is the answer's first part */
    bool ended;
    pl_finish finish;
} pl_completion_choice;
/* How the server chose the path of a prompt. */
typedef struct pl_completion_route {
    const char *path, *rule; /* rule: "likelihood" or "router" */
    double margin_nats;      /* lead over the second best path */
} pl_completion_route;
typedef struct pl_completion_answer {
    uint64_t id;
    int64_t created;   /* seconds since 1970 */
    const char *model; /* the path that answers; "auto" if several paths answer */
    pl_completion_choice *choices;
    int n_choices;
    /* chat: write a chat.completion; stream: write a chunk of an answer */
    bool chat, stream;
    bool usage; /* also write the three token counts and the routes below */
    pl_completion_route *routes; /* one for each prompt whose path the server chose */
    int n_routes;
    int n_prompt_tokens, n_tokens;
    /* number of prompt tokens that were not read, because they were in a cache */
    int n_known_tokens;
    bool rerouted; /* the path was chosen again: with `usage`, also write its cost */
    int64_t n_routing_tokens;      /* tokens that were read to choose paths again */
    double routing_seconds;        /* time for reading these tokens and choosing */
    const pl_tokenizer *tokenizer; /* gives the texts of tokens in scores */
} pl_completion_answer;
/* Appends an answer as a JSON object: the whole answer, or one chunk of a stream. */
pl_status pl_completion_write(const pl_completion_answer *answer, pl_buf *out);
/* Appends the text of a single token: its bytes if they are UTF-8, otherwise
 * "bytes:\xe2...". BOS, EOS and UNK become "<s>", "</s>" and "<unk>". */
pl_status pl_token_text(const pl_tokenizer *tokenizer, int32_t token, pl_buf *out);
/* Appends {"error": {"message", "type", "code"}}. */
void pl_completion_write_error(const char *message, const char *type, const char *code,
                               pl_buf *out);
