/* Generates text and chooses the path again every W tokens, by the preceding text. */
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

/* When the path is chosen: by the first `prefix` tokens (router.prefix), then every W
 * tokens. Without a gate all paths read the text, and their losses decide ("history
 * W"). With a gate its models decide, and only the path that writes reads the text
 * ("gate W"). */
typedef struct pl_route_rule {
    int prefix, every;        /* every: W */
    const pl_prefix_lm *gate; /* the run's router, or NULL; borrowed until the end */
    const int *numbers;       /* with a gate, [n_paths] the number of each path there */
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

/* As pl_generate, but the path is chosen again every W tokens, by the rule "history W"
 * or "gate W" of eval/every.c. Up to token prefix + W the text is written by the path
 * under which the first `prefix` tokens are likeliest; then, every W tokens, by the
 * path with the least evidence against it. options->scores must be false. Clear the
 * trace afterwards, also after a failure. ERR_USAGE also if the prompt has no token
 * after BOS. */
PL_MUST_CHECK pl_status pl_reroute_generate(
    const pl_rerouter *rerouter, const int32_t *prompt, int n_prompt,
    const struct pl_generate_options *options,
    pl_status (*emit)(void *context, const char *text, size_t len), void *context,
    struct pl_generate_result *out, pl_reroute_trace *trace);

#ifdef __cplusplus
}
#endif
#endif
