/* Generates text, and chooses the path again after every W tokens, from the preceding
 * text. */
#pragma once
#include "corpus/corpus.h"
#include "modules/modules.h"
#include "router/router.h"

struct pl_generate_options;
struct pl_generate_result;

/* When and how the path is chosen. The first choice depends on the first `prefix`
 * tokens (router.prefix), also if the prompt is longer but has less than W more. Then
 * the path is chosen again after every W tokens. Without a gate (rule "history W") all
 * paths read the text, and their losses choose the path. With a gate (rule "gate W")
 * the router's models choose the path, and only the path that writes reads the text. */
typedef struct pl_route_rule {
    int prefix;
    int every; /* W, the number of tokens between two choices */
    /* the run's router, borrowed while the text is generated; NULL: no gate */
    const pl_prefix_lm *gate;
    /* [n_paths] with a gate: each path's number in the gate; copied */
    const int *numbers;
} pl_route_rule;

/* The arguments of pl_reroute_generate; borrowed until it returns. */
typedef struct pl_rerouter {
    pl_decoder **decoders; /* [n_paths] one decoder per path, with one slot each */
    int n_paths;
    pl_route_rule rule;
    const pl_tokenizer *tokenizer;
    /* vocab: number of the models' tokens; context: their longest sequence */
    int vocab, context;
} pl_rerouter;

/* The path that wrote the tokens from index `from` up to the next span. Indices are
 * counted from the start of the prompt. */
typedef struct pl_reroute_span {
    int from, path;
} pl_reroute_span;
typedef struct pl_reroute_trace {
    pl_reroute_span *spans; /* adjacent spans have different paths */
    int n;
} pl_reroute_trace;
void pl_reroute_trace_clear(pl_reroute_trace *trace);

/* Like pl_generate, but chooses the path again by the rule. Each piece of W tokens
 * after token prefix + W is written by the path with the least evidence against it
 * (eval/every.c). options->scores must be false. The caller clears the trace, also
 * after a failure. ERR_USAGE also if the prompt has no token after BOS. */
pl_status pl_reroute_generate(const pl_rerouter *rerouter, const int32_t *prompt,
                              int n_prompt, const struct pl_generate_options *options,
                              pl_status (*emit)(void *context, const char *text,
                                                size_t len),
                              void *context, struct pl_generate_result *out,
                              pl_reroute_trace *trace);
