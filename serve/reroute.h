/* Generates text whose path is chosen again every W tokens, by the text before. */
#ifndef PL_SERVE_REROUTE_H
#define PL_SERVE_REROUTE_H
#include "corpus/corpus.h"
#include "modules/modules.h"
#ifdef __cplusplus
extern "C" {
#endif

struct pl_generate_options;
struct pl_generate_result;

/* What it uses; borrowed until the call returns. */
typedef struct pl_rerouter {
    pl_decoder **decoders; /* [n_paths] of every path, with one slot */
    int n_paths;
    int prefix, every; /* router.prefix, W */
    const pl_tokenizer *tokenizer;
    int vocab, context; /* of the models */
} pl_rerouter;

/* From the token at this index on, this path was chosen. */
typedef struct pl_reroute_span {
    int from, path;
} pl_reroute_span;
typedef struct pl_reroute_trace {
    pl_reroute_span *spans; /* neighbours have different paths */
    int n;
} pl_reroute_trace;
void pl_reroute_trace_clear(pl_reroute_trace *trace);

/* As pl_generate, but each token is chosen by the path of its piece. The rule is that
 * of history W in eval/every.c: up to prefix + W tokens the path under which the first
 * `prefix` tokens are likeliest, then every W tokens the path with the least evidence.
 * options->scores must be false. Clear the trace also after a failure. ERR_USAGE also
 * if the prompt has no token after BOS. */
PL_MUST_CHECK pl_status pl_reroute_generate(
    const pl_rerouter *rerouter, const int32_t *prompt, int n_prompt,
    const struct pl_generate_options *options,
    pl_status (*emit)(void *context, const char *text, size_t len), void *context,
    struct pl_generate_result *out, pl_reroute_trace *trace);

#ifdef __cplusplus
}
#endif
#endif
