/* Generates text, and chooses the path again after every W tokens. The preceding text
 * decides. */
#ifndef PL_SERVE_REROUTE_H
#define PL_SERVE_REROUTE_H
#include "corpus/corpus.h"
#include "modules/modules.h"
#include "router/router.h"
#ifdef __cplusplus
extern "C" {
#endif

struct pl_generate_options;
struct pl_generate_result;

/* When and how the path is chosen: first by the first `prefix` tokens (router.prefix),
 * then again after every W tokens. Without a gate ("history W") all paths read the
 * text, and their losses choose the path. With a gate ("gate W") the gate's models
 * choose the path, and only the path that writes reads the text. */
typedef struct pl_route_rule {
    int prefix, every; /* every: W */
    /* the run's router; NULL: no gate; borrowed until the end */
    const pl_prefix_lm *gate;
    /* with a gate: [n_paths] each path's number in the gate */
    const int *numbers;
} pl_route_rule;

/* The arguments of pl_reroute_generate; borrowed until it returns. */
typedef struct pl_rerouter {
    pl_decoder **decoders; /* [n_paths] a decoder with one slot for every path */
    int n_paths;
    pl_route_rule rule;
    const pl_tokenizer *tokenizer;
    int vocab, context; /* of the models */
} pl_rerouter;

/* The path that chose the tokens from index `from` on. */
typedef struct pl_reroute_span {
    int from, path;
} pl_reroute_span;
typedef struct pl_reroute_trace {
    pl_reroute_span *spans; /* adjacent spans have different paths */
    int n;
} pl_reroute_trace;
void pl_reroute_trace_clear(pl_reroute_trace *trace);

/* Like pl_generate, but chooses the path again after every W tokens, by the rule
 * "history W" or "gate W" of eval/every.c. Up to token prefix + W, the path under which
 * the first `prefix` tokens are likeliest writes the text. Then, for every W tokens,
 * the path with the least evidence against it writes. options->scores must be false.
 * The caller clears the trace, also after a failure. ERR_USAGE also if the prompt has
 * no token after BOS. */
PL_MUST_CHECK pl_status pl_reroute_generate(
    const pl_rerouter *rerouter, const int32_t *prompt, int n_prompt,
    const struct pl_generate_options *options,
    pl_status (*emit)(void *context, const char *text, size_t len), void *context,
    struct pl_generate_result *out, pl_reroute_trace *trace);

#ifdef __cplusplus
}
#endif
#endif
