/* Private to serve: the state of a text whose path is chosen again every W tokens, by
 * the rule "history W" or "gate W" of eval/every.c. The owner of the state calls its
 * functions: pl_reroute_generate does all reading at once; a batch reads in pieces,
 * between the decoding steps of other requests. Every path has a slot with its own keys
 * and values.
 *
 * History: every path reads the whole text, because the losses of every path are needed
 * for the choice. So a change of the path needs no extra reading:
 *
 *   the path that writes   has read tokens 0 .. n - 2 of n tokens, and reads each new
 *                          token after it was chosen
 *   the other paths        have read up to the last border; at the next border they
 *                          read W tokens in one piece, as a prompt is read
 *
 * Gate: the router's models read the text, which costs almost nothing. A path reads
 * only when it is chosen: it then reads the tokens that it has missed, in the same way
 * as a prompt. Its slot still has the tokens that it read before.
 *
 * There is a border before each token prefix + k W (k = 0, 1, ...). When the path that
 * is chosen at a border begins to write, it has read all tokens except the last. It
 * reads the last token and writes the next one. The first path reads the prompt again,
 * as pl_generate does. So a text whose path never changes has the bytes that
 * pl_generate would give.
 *
 * The owner repeats these steps: it calls rerouting_read until rerouting_is_ready;
 * feeds the last token to the slot of rerouting_writer (except right after the prompt);
 * chooses a token from the logits; calls rerouting_take. */
#pragma once
#include "serve/serve.h"

/* A path's place in a decoder. */
typedef struct rerouting_slot {
    pl_decoder *decoder;
    int slot;
} rerouting_slot;

typedef struct rerouting rerouting;
/* Begins a text with this prompt, and clears the slots [n_paths]. ERR_USAGE if the
 * prompt has no token after BOS. */
pl_status rerouting_open(const rerouting_slot *slots, int n_paths,
                         const pl_route_rule *rule, int context, const int32_t *prompt,
                         int n_prompt, rerouting **out);
void rerouting_close(rerouting **w); /* accepts NULL */

/* Whether all tokens that must be read before the next token is chosen have been
 * read. */
bool rerouting_is_ready(const rerouting *w);
/* Reads about `most` tokens, but at least one piece, and sets *n to the number of
 * tokens read. `logits` has room for one row per slot of the decoder. When the whole
 * prompt has been read, its first row gets the logits after the prompt. */
pl_status rerouting_read(rerouting *w, int most, float *logits, int *n);
/* Notes the score of a token that was chosen; `w` is a rerouting. Call this function,
 * which never fails, before rerouting_take; with a gate the call is not needed. */
pl_status rerouting_score(void *w, const pl_token_score *score);
/* Appends the token that was chosen. */
void rerouting_take(rerouting *w, int32_t token);

/* the slot of the path that writes */
rerouting_slot rerouting_writer(const rerouting *w);
/* Returns which path wrote which tokens so far; valid until the next rerouting call. */
const pl_reroute_trace *rerouting_trace(const rerouting *w);
/* Sets the cost of all choices so far in `out`: n_routing and routing_seconds. */
void rerouting_cost(const rerouting *w, pl_generate_result *out);
