/* Generates text and chooses the path again for each piece of text (rerouting.h). "With
 * a gate" means the rule "gate W": the router's models choose the path. "Without a
 * gate" means the rule "history W": the losses of the paths choose it. */
#include "serve/rerouting.h"
#include "serve/sequence.h"

/* The work that remains before the next token is chosen. */
typedef enum stage {
    /* The path must be chosen. Without a gate, the paths from number `next` on must
     * first read the tokens that they have missed. */
    STAGE_CHOICE,
    STAGE_PROMPT, /* the first path reads the prompt again */
    STAGE_MOVE,   /* with a gate: the chosen path reads the tokens that it has missed */
    STAGE_READY
} stage;

struct rerouting {
    rerouting_slot *slots; /* [n_paths] */
    int n_paths, context;
    pl_route_rule rule;
    int *numbers;  /* [n_paths] a copy of rule.numbers; NULL without a gate */
    int32_t *text; /* [context] the n tokens of the prompt and the answer so far */
    /* [n_paths, context] entry t is the path's loss of token t + 1, given the tokens up
     * to t; with a gate, the loss of the path's model in the router */
    float *losses;
    double *evidence; /* [n_paths] evidence against each path (eval/every.c) */
    void *memory;     /* the memory of text, losses and evidence */
    int n;            /* number of tokens in `text` */
    int counted;      /* the losses of the first `counted` targets are in `evidence` */
    int path;         /* the path that writes */
    stage stage;
    int next;       /* in STAGE_CHOICE without a gate: the path that reads next */
    int64_t n_read; /* number of tokens that were read only to choose the path */
    double seconds; /* time for reading these tokens and choosing the path */
    pl_reroute_trace trace;
};

void pl_reroute_trace_clear(pl_reroute_trace *trace)
{
    pl_free(trace->spans);
    *trace = (pl_reroute_trace){NULL, 0};
}

/* ---- losses ---- */
static float *losses_of(const rerouting *w, int path)
{
    return w->losses + (size_t)path * (size_t)w->context;
}

/* Notes the writing path's loss of the token that was just chosen, so that the path
 * need not read the token again to compute it. */
pl_status rerouting_score(void *context, const pl_token_score *score)
{
    rerouting *w = context;
    if (!w->rule.gate)
        losses_of(w, w->path)[w->n - 1] = (float)-score->logprob;
    return PL_OK;
}

/* Chooses the path of the next token, from all text before the last border. (A prompt
 * may contain several borders.) */
static void choose_piece_path(rerouting *w)
{
    const int beyond = w->n - w->rule.prefix;
    const bool by_prefix = beyond < w->rule.every;
    const int seen = w->n < w->rule.prefix ? w->n : w->rule.prefix;
    const int end = by_prefix ? seen - 1 : w->n - beyond % w->rule.every - 1;
    /* with a gate, computes the router's losses of the targets from `counted` up to
     * `end`, which are not in the evidence yet */
    if (w->rule.gate)
        pl_prefix_lm_losses(w->rule.gate, w->numbers, w->n_paths, w->text + w->counted,
                            end - w->counted + 1, w->losses + w->counted,
                            (size_t)w->context);
    if (by_prefix) {
        double *nats = pl_alloc((size_t)w->n_paths * sizeof *nats);
        for (int path = 0; path < w->n_paths; path++)
            for (int t = 0; t < end; t++)
                nats[path] += (double)losses_of(w, path)[t];
        w->path = pl_least_evidence(nats, w->n_paths);
        pl_free(nats);
    } else {
        pl_evidence_add(
            w->evidence, w->n_paths, w->rule.gate ? PL_GATE_BEHIND : PL_HISTORY_BEHIND,
            w->losses + w->counted, (size_t)w->context, (size_t)(end - w->counted));
        w->counted = end;
        w->path = pl_least_evidence(w->evidence, w->n_paths);
    }
    pl_reroute_trace *t = &w->trace;
    if (t->n == 0 || t->spans[t->n - 1].path != w->path)
        t->spans[t->n++] = (pl_reroute_span){w->n, w->path};
}

/* ---- reading ---- */
/* Lets a path read its next piece of the tokens before `end`; *n is the number of
 * tokens read. With `losses`, also computes the loss of the token after each of these
 * tokens. Without `losses`, and if the piece ends at `end`, `logits` gets the logits
 * after the piece; it may be NULL. */
static pl_status read_piece(rerouting *w, int path, int end, bool losses, float *logits,
                            int *n)
{
    const rerouting_slot *s = &w->slots[path];
    const int first = pl_decoder_length(s->decoder, s->slot);
    const int32_t *tokens = w->text + first;
    *n = pl_decoder_piece(s->decoder, s->slot, end - first);
    if (losses)
        return pl_decoder_prefill_losses(s->decoder, s->slot, tokens, tokens + 1, *n,
                                         losses_of(w, path) + first);
    return pl_decoder_prefill(s->decoder, s->slot, tokens, *n,
                              first + *n == end ? logits : NULL);
}

static bool has_missed(const rerouting *w, int path)
{
    const rerouting_slot *s = &w->slots[path];
    return pl_decoder_length(s->decoder, s->slot) < w->n - 1;
}

pl_status rerouting_read(rerouting *w, int most, float *logits, int *n)
{
    int piece;
    for (*n = 0; w->stage != STAGE_READY && (*n == 0 || *n < most); *n += piece) {
        if (w->stage == STAGE_PROMPT) {
            const rerouting_slot s = rerouting_writer(w);
            PL_CHECK(read_piece(w, w->path, w->n, false, logits, &piece));
            if (pl_decoder_length(s.decoder, s.slot) == w->n)
                w->stage = STAGE_READY;
            continue;
        }
        /* Chooses the path, or reads one piece that is needed before or after the
         * choice. */
        const double start = pl_now();
        pl_status status = PL_OK;
        piece = 0;
        if (w->stage == STAGE_CHOICE) {
            while (!w->rule.gate && w->next < w->n_paths && !has_missed(w, w->next))
                w->next++;
            if (w->rule.gate || w->next == w->n_paths) {
                const bool first = w->trace.n == 0;
                choose_piece_path(w);
                w->stage = first                    ? STAGE_PROMPT
                           : has_missed(w, w->path) ? STAGE_MOVE
                                                    : STAGE_READY;
                if (first)
                    pl_decoder_clear(w->slots[w->path].decoder, w->slots[w->path].slot);
            }
        }
        if (w->stage == STAGE_CHOICE) {
            status = read_piece(w, w->next, w->n - 1, true, logits, &piece);
        } else if (w->stage == STAGE_MOVE) {
            status = read_piece(w, w->path, w->n - 1, false, NULL, &piece);
            if (!has_missed(w, w->path))
                w->stage = STAGE_READY;
        }
        w->n_read += piece;
        w->seconds += pl_now() - start;
        PL_CHECK(status);
    }
    return PL_OK;
}

bool rerouting_is_ready(const rerouting *w)
{
    return w->stage == STAGE_READY;
}

void rerouting_take(rerouting *w, int32_t token)
{
    w->text[w->n++] = token;
    if (w->n >= w->rule.prefix && (w->n - w->rule.prefix) % w->rule.every == 0) {
        w->stage = STAGE_CHOICE;
        w->next = 0;
    }
}

rerouting_slot rerouting_writer(const rerouting *w)
{
    return w->slots[w->path];
}

const pl_reroute_trace *rerouting_trace(const rerouting *w)
{
    return &w->trace;
}

void rerouting_cost(const rerouting *w, pl_generate_result *out)
{
    out->n_routing = w->n_read;
    out->routing_seconds = w->seconds;
}

/* ---- opening ---- */
pl_status rerouting_open(const rerouting_slot *slots, int n_paths,
                         const pl_route_rule *rule, int context, const int32_t *prompt,
                         int n_prompt, rerouting **out)
{
    *out = NULL;
    if (n_prompt < 2)
        return pl_fail(PL_ERR_USAGE,
                       "the prompt has no token that could choose a path; give a "
                       "longer prompt, or do not choose the path again (route_every)");
    rerouting *w = pl_alloc(sizeof *w);
    *w = (rerouting){
        .n_paths = n_paths, .rule = *rule, .context = context, .n = n_prompt};
    const size_t P = (size_t)n_paths, T = (size_t)context;
    const pl_status status =
        pl_try_alloc(P * sizeof(double) + P * T * sizeof(float) + T * sizeof(int32_t),
                     "losses of every path", &w->memory);
    if (status != PL_OK) {
        rerouting_close(&w);
        return status;
    }
    w->evidence = w->memory;
    w->losses = (float *)(w->evidence + P);
    w->text = (int32_t *)(w->losses + P * T);
    w->slots = pl_alloc(P * sizeof *w->slots);
    if (rule->gate) {
        w->numbers = pl_alloc(P * sizeof *w->numbers);
        memcpy(w->numbers, rule->numbers, P * sizeof *w->numbers);
    }
    w->trace.spans = pl_alloc((T / (size_t)rule->every + 2) * sizeof *w->trace.spans);
    memcpy(w->text, prompt, (size_t)n_prompt * sizeof *prompt);
    for (int path = 0; path < n_paths; path++) {
        w->slots[path] = slots[path];
        pl_decoder_clear(slots[path].decoder, slots[path].slot);
    }
    *out = w;
    return PL_OK;
}

void rerouting_close(rerouting **rerouting_)
{
    rerouting *w = *rerouting_;
    if (!w)
        return;
    pl_reroute_trace_clear(&w->trace);
    pl_free_all(w->memory, w->numbers, w->slots, w);
    *rerouting_ = NULL;
}

/* ---- generating at once ---- */
pl_status pl_reroute_generate(const pl_rerouter *r, const int32_t *prompt, int n_prompt,
                              const pl_generate_options *options, pl_piece_fn emit,
                              void *context, pl_generate_result *out,
                              pl_reroute_trace *trace)
{
    sequence s;
    rerouting *w = NULL;
    rerouting_slot *slots = NULL;
    pl_generate_options scored = *options;
    pl_chooser *chooser = NULL;
    void *logits = NULL;
    memset(out, 0, sizeof *out);
    *trace = (pl_reroute_trace){NULL, 0};
    scored.scores = !r->rule.gate; /* without a gate the scores give the losses */
    pl_status status = sequence_open(&s, r->tokenizer, r->vocab, r->context, n_prompt,
                                     &scored, emit, context);
    PL_TRY(status);
    /* each decoder has one slot */
    slots = pl_alloc((size_t)r->n_paths * sizeof *slots);
    for (int path = 0; path < r->n_paths; path++)
        slots[path] = (rerouting_slot){r->decoders[path], 0};
    PL_TRY(
        rerouting_open(slots, r->n_paths, &r->rule, r->context, prompt, n_prompt, &w));
    s.score = rerouting_score;
    s.score_context = w;
    PL_TRY(pl_chooser_create(pl_tokenizer_vocab(r->tokenizer), &chooser));
    PL_TRY(pl_try_alloc((size_t)r->vocab * sizeof(float), "logits", &logits));
    const double start = pl_now();
    for (bool first = true;; first = false) {
        int n;
        while (!rerouting_is_ready(w))
            PL_TRY(rerouting_read(w, INT32_MAX, logits, &n));
        const rerouting_slot writer = rerouting_writer(w);
        const int32_t token = w->text[w->n - 1];
        if (first)
            s.result.prompt_seconds = pl_now() - start;
        else
            PL_TRY(pl_decoder_prefill(writer.decoder, writer.slot, &token, 1, logits));
        const int room = r->context - pl_decoder_length(writer.decoder, writer.slot);
        PL_TRY(sequence_take(&s, chooser, logits, room));
        if (s.ended)
            break;
        rerouting_take(w, s.token);
    }
    s.result.decode_seconds = pl_now() - start - s.result.prompt_seconds;
    *out = s.result;
    rerouting_cost(w, out);
    *trace = w->trace;
    w->trace = (pl_reroute_trace){NULL, 0};
done:
    sequence_close(&s);
    rerouting_close(&w);
    pl_chooser_destroy(&chooser);
    pl_free_all(slots, logits);
    return status;
}
