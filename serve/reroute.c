/* Generates text and chooses the path again for each piece of text (reroute.h).
 *
 * Every path reads the whole text, because its losses are needed for the choice. So
 * every path has its own cache of keys and values, and a change of the path costs
 * nothing in addition:
 *
 *   the path that writes   has read tokens 0 .. n - 2, and reads each token after it
 *                          is chosen
 *   the other paths        have read up to the last border; at the next border they
 *                          read W tokens in one piece, as a prompt is read
 *
 * Borders are before the tokens prefix + k W. At a border all paths have read all
 * tokens but the last; the chosen path reads the last token and writes the next one. */
#include "eval/eval.h"
#include "serve/sequence.h"
#include <string.h>

typedef struct rerouting {
    const pl_rerouter *r;
    sequence *sequence;
    int32_t *text; /* [context] tokens of the text */
    /* [n_paths, context] loss of token t + 1, given the tokens up to t */
    float *losses;
    float *logits;    /* [vocab] */
    double *evidence; /* [n_paths] evidence against each path (eval/every.c) */
    int n, counted; /* n: tokens of the text; counted: losses that are in `evidence` */
    int path;       /* the path that writes */
    pl_reroute_trace *trace;
} rerouting;

void pl_reroute_trace_clear(pl_reroute_trace *trace)
{
    pl_free(trace->spans);
    *trace = (pl_reroute_trace){NULL, 0};
}

/* ---- losses ---- */
static float *losses_of(const rerouting *w, int path)
{
    return w->losses + (size_t)path * (size_t)w->r->context;
}

/* A path that reads the text it has missed. `first`: index of the first missed
 * token. */
typedef struct catching {
    rerouting *w;
    int path, first;
} catching;

static pl_status take_read_losses(void *context, int first, int count,
                                  const float *logits)
{
    const catching *c = context;
    rerouting *w = c->w;
    for (int i = 0; i < count; i++) {
        const int at = c->first + first + i;
        pl_token_score score;
        PL_CHECK(pl_score_token(logits + (size_t)i * (size_t)w->r->vocab, w->r->vocab,
                                w->text[at + 1], 0, &score));
        losses_of(w, c->path)[at] = (float)-score.logprob;
    }
    return PL_OK;
}

/* Lets all paths read the text except its last token. */
static pl_status catch_up_paths(rerouting *w)
{
    for (int path = 0; path < w->r->n_paths; path++) {
        pl_decoder *d = w->r->decoders[path];
        catching c = {w, path, pl_decoder_position(d)};
        if (c.first < w->n - 1)
            PL_CHECK(pl_decoder_prefill_all(d, 0, w->text + c.first, w->n - 1 - c.first,
                                            w->logits, take_read_losses, &c));
    }
    return PL_OK;
}

/* Computes the loss of the token that was just chosen, from the logits that it was
 * chosen from. */
static pl_status take_written_loss(void *context, const pl_token_score *score)
{
    rerouting *w = context;
    losses_of(w, w->path)[w->n - 1] = (float)-score->logprob;
    return PL_OK;
}

/* ---- the choice ---- */
static int likeliest_path(const rerouting *w)
{
    const int seen = w->n < w->r->prefix ? w->n : w->r->prefix;
    double *nats = pl_alloc((size_t)w->r->n_paths * sizeof *nats);
    for (int path = 0; path < w->r->n_paths; path++)
        for (int t = 0; t < seen - 1; t++)
            nats[path] += (double)losses_of(w, path)[t];
    const int best = pl_least_evidence(nats, w->r->n_paths);
    pl_free(nats);
    return best;
}

static bool is_border(const rerouting *w)
{
    return w->n >= w->r->prefix && (w->n - w->r->prefix) % w->r->every == 0;
}

/* Chooses the path of the next token. If a prompt has several borders, only the last
 * one decides. */
static pl_status choose_piece_path(rerouting *w)
{
    const int beyond = w->n - w->r->prefix;
    PL_CHECK(catch_up_paths(w));
    if (beyond < w->r->every) {
        w->path = likeliest_path(w);
    } else {
        const int end = w->n - beyond % w->r->every - 1;
        pl_evidence_add(w->evidence, w->r->n_paths, w->losses + w->counted,
                        (size_t)w->r->context, (size_t)(end - w->counted));
        w->counted = end;
        w->path = pl_least_evidence(w->evidence, w->r->n_paths);
    }
    pl_reroute_trace *t = w->trace;
    if (t->n == 0 || t->spans[t->n - 1].path != w->path)
        t->spans[t->n++] = (pl_reroute_span){w->n, w->path};
    return PL_OK;
}

/* ---- the loop ---- */
/* Lets the chosen path read the tokens that it has not read. The first path reads the
 * prompt again in one piece, as pl_generate does, so that a text whose path never
 * changes has the bytes that pl_generate would give. */
static pl_status read_unread_text(rerouting *w, bool first)
{
    pl_decoder *d = w->r->decoders[w->path];
    if (first)
        pl_decoder_reset(d);
    const int at = pl_decoder_position(d);
    return pl_decoder_feed(d, w->text + at, w->n - at, w->logits);
}

/* Generates until the end. The last token is not fed to the decoder, because no further
 * logits are needed. */
static pl_status write_tokens(rerouting *w, pl_chooser *chooser)
{
    sequence *s = w->sequence;
    const double start = pl_now();
    for (bool first = true;; first = false) {
        if (first || is_border(w))
            PL_CHECK(choose_piece_path(w));
        PL_CHECK(read_unread_text(w, first));
        if (first)
            s->result.prompt_seconds = pl_now() - start;
        const int room = w->r->context - pl_decoder_position(w->r->decoders[w->path]);
        PL_CHECK(sequence_take(s, chooser, w->logits, room));
        if (s->ended)
            break;
        w->text[w->n++] = s->token;
    }
    s->result.decode_seconds = pl_now() - start - s->result.prompt_seconds;
    return PL_OK;
}

static pl_status alloc_rerouting(rerouting *w, void **memory)
{
    const pl_rerouter *r = w->r;
    const size_t P = (size_t)r->n_paths, T = (size_t)r->context, V = (size_t)r->vocab;
    PL_CHECK(pl_try_alloc(P * sizeof(double) + (P * T + V) * sizeof(float) +
                              T * sizeof(int32_t),
                          "losses of every path", memory));
    w->evidence = *memory;
    w->losses = (float *)(w->evidence + P);
    w->logits = w->losses + P * T;
    w->text = (int32_t *)(w->logits + V);
    memset(w->evidence, 0, P * sizeof *w->evidence);
    w->trace->spans = pl_alloc((T / (size_t)r->every + 2) * sizeof *w->trace->spans);
    return PL_OK;
}

pl_status pl_reroute_generate(const pl_rerouter *r, const int32_t *prompt, int n_prompt,
                              const pl_generate_options *options, pl_piece_fn emit,
                              void *context, pl_generate_result *out,
                              pl_reroute_trace *trace)
{
    sequence s;
    rerouting w = {.r = r, .sequence = &s, .n = n_prompt, .trace = trace};
    pl_generate_options scored = *options;
    pl_chooser *chooser = NULL;
    void *memory = NULL;
    memset(out, 0, sizeof *out);
    *trace = (pl_reroute_trace){NULL, 0};
    scored.scores = true;
    pl_status status = sequence_open(&s, r->tokenizer, r->vocab, r->context, n_prompt,
                                     &scored, emit, context);
    PL_TRY(status);
    if (n_prompt < 2)
        PL_TRY(pl_fail(PL_ERR_USAGE,
                       "the prompt has no token that could choose a path; "
                       "give a longer one, or no --route-every"));
    s.score = take_written_loss;
    s.score_context = &w;
    PL_TRY(pl_chooser_create(pl_tokenizer_vocab(r->tokenizer), &chooser));
    PL_TRY(alloc_rerouting(&w, &memory));
    memcpy(w.text, prompt, (size_t)n_prompt * sizeof *prompt);
    for (int path = 0; path < r->n_paths; path++)
        pl_decoder_reset(r->decoders[path]);
    PL_TRY(write_tokens(&w, chooser));
    *out = s.result;
done:
    sequence_close(&s);
    pl_chooser_destroy(&chooser);
    pl_free_aligned(memory);
    return status;
}
