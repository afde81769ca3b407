/* Continuous batching: requests may join before each step and leave after it. Different
 * paths of the same shape (pl_shape) may answer them. If several of these paths share a
 * module, the decoder multiplies the rows of all their requests by that module at once.
 *
 * A prompt is read alone, piece by piece, so that its matrix products have the same
 * shapes as if there were no other requests. Requests share only the decoding steps,
 * and the rows of a step do not affect each other (modules/decoder.c). Between two
 * steps about READ tokens of prompts are read, so that a long prompt does not delay the
 * answers of other requests for long. The part of a prompt that a slot still holds is
 * not read again (prefix_cache.h), unless the request asks for the scores of the
 * prompt's tokens.
 *
 * A request whose path is chosen again (rerouting.h) has a slot for each path. The
 * tokens that its paths must read before a new choice are read like a prompt: in
 * pieces, between two steps. */
#include "serve/prefix_cache.h"
#include "serve/rerouting.h"
#include "serve/sequence.h"

enum { READ = 512 };

/* Place i of a batch holds the request that decodes in slot i. */
typedef struct place {
    sequence sequence;
    /* the request; its prompt, options and routes are borrowed only until join returns,
     * so they are not read here */
    pl_batch_request asked;
    int32_t *prompt;  /* a copy; freed and NULL when the prompt has been read */
    int n_read;       /* number of the prompt's tokens that were read */
    bool scored;      /* the request asks for scores of the prompt's tokens */
    uint64_t number;  /* order of joining: prompts are read in this order */
    double began;     /* time when reading the prompt began; 0: it has not begun */
    double answering; /* time when the prompt had been read and the answer began */
    bool taken;       /* the place has a request */
    /* the place has no request, but its slot is used by the request of another place,
     * whose path is chosen again */
    bool lent;
    /* The fields below are used only if the path of the request is chosen again. */
    rerouting *route;
    /* [n_slots] the slot of each path; the first is the slot of this place */
    int *slots;
    const pl_path **paths; /* [n_slots] */
    int n_slots, n_moves;  /* n_moves: how often `moved` was called */
    bool scores;           /* the request asks for scores */
    void (*moved)(void *context, int from, int path);
} place;

struct pl_batch {
    pl_decoder *decoder;
    prefix_cache *prefixes;
    const pl_tokenizer *tokenizer;
    pl_chooser *chooser;
    float *logits; /* [n_slots, vocab] */
    int vocab, context, n_slots, n_active, n_lent;
    uint64_t n_joined;
    place places[PL_DECODER_SLOTS_MAX];
};

pl_status pl_batch_create(pl_model *model, const pl_tokenizer *tokenizer, int vocab,
                          int context, int n_slots, pl_batch **out)
{
    pl_status status = PL_OK;
    pl_batch *b = pl_alloc(sizeof *b);
    *b = (pl_batch){
        .tokenizer = tokenizer, .vocab = vocab, .context = context, .n_slots = n_slots};
    PL_TRY(pl_decoder_create(model, n_slots, &b->decoder));
    b->prefixes = prefix_cache_create(b->decoder, n_slots, vocab);
    PL_TRY(pl_chooser_create(pl_tokenizer_vocab(tokenizer), &b->chooser));
    PL_TRY(pl_try_alloc((size_t)n_slots * (size_t)vocab * sizeof(float), "logits",
                        (void **)&b->logits));
done:
    if (status != PL_OK)
        pl_batch_destroy(&b);
    *out = b;
    return status;
}

int pl_batch_active(const pl_batch *b)
{
    return b->n_active;
}

int pl_batch_active_on(const pl_batch *b, const pl_path *path)
{
    int n = 0;
    for (int i = 0; i < b->n_slots; i++) {
        const place *p = &b->places[i];
        n += p->taken && !p->route && p->asked.path == path;
        for (int k = 0; p->taken && k < p->n_slots; k++)
            n += p->paths[k] == path;
    }
    return n;
}

int pl_batch_room(const pl_batch *b)
{
    return b->n_slots - b->n_active - b->n_lent;
}

void pl_batch_slot_state(const pl_batch *b, int slot, pl_batch_slot *out)
{
    const place *p = &b->places[slot];
    *out = (pl_batch_slot){.busy = p->lent};
    if (!p->taken)
        return;
    const pl_generate_result *r = &p->sequence.result;
    *out = (pl_batch_slot){.busy = true,
                           .path = p->asked.path,
                           .n_prompt = r->n_prompt,
                           .n_read = p->n_read,
                           .max_tokens = p->sequence.options.max_tokens,
                           .n_tokens = r->n_tokens};
}

/* Whether tokens must be read before the next token of the answer is chosen. */
static bool is_reading(const place *p)
{
    return p->prompt || (p->route && !rerouting_is_ready(p->route));
}

/* Returns the slot of the path that writes; this slot reads the next token. */
static int writing_slot(const pl_batch *b, const place *p)
{
    return p->route ? rerouting_writer(p->route).slot : (int)(p - b->places);
}

static void close_route(pl_batch *b, place *p)
{
    for (int k = 1; k < p->n_slots; k++) {
        b->places[p->slots[k]].lent = false;
        b->n_lent--;
    }
    pl_free_all(p->slots, p->paths);
    p->slots = NULL;
    p->paths = NULL;
    p->n_slots = 0;
    rerouting_close(&p->route);
}

/* Ends a request. Its place is freed before `done` is called, so that `done` may let
 * another request join. */
static void finish_place(pl_batch *b, place *p, pl_status status)
{
    pl_generate_result result = p->sequence.result;
    if (p->prompt)
        result.n_prompt = p->n_read;
    else
        result.decode_seconds = pl_now() - p->answering;
    if (p->route)
        rerouting_cost(p->route, &result);
    sequence_close(&p->sequence);
    pl_free(p->prompt);
    p->prompt = NULL;
    close_route(b, p);
    p->taken = false;
    b->n_active--;
    p->asked.done(p->asked.context, status, &result);
}

static void end_all(pl_batch *b, pl_status status)
{
    for (int i = 0; i < b->n_slots; i++)
        if (b->places[i].taken)
            finish_place(b, &b->places[i], status);
}

void pl_batch_destroy(pl_batch **batch)
{
    pl_batch *b = *batch;
    if (!b)
        return;
    if (b->n_active > 0)
        end_all(b, pl_fail(PL_ERR_CANCELLED,
                           "the server is ending before the request has ended"));
    prefix_cache_destroy(&b->prefixes);
    pl_decoder_destroy(&b->decoder);
    pl_chooser_destroy(&b->chooser);
    pl_free_all(b->logits, b);
    *batch = NULL;
}

static void take_slot_token(pl_batch *b, int slot, float *logits)
{
    place *p = &b->places[slot];
    int room = b->context - pl_decoder_length(b->decoder, writing_slot(b, p));
    if (p->route) {
        /* tells which paths have begun to write since the last call */
        const pl_reroute_trace *t = rerouting_trace(p->route);
        for (; p->n_moves < t->n; p->n_moves++)
            if (p->moved)
                p->moved(p->asked.context, t->spans[p->n_moves].from,
                         t->spans[p->n_moves].path);
    }
    pl_status status = sequence_take(&p->sequence, b->chooser, logits, room);
    if (status != PL_OK || p->sequence.ended)
        finish_place(b, p, status);
    else if (p->route)
        rerouting_take(p->route, p->sequence.token);
}

/* ---- joining ---- */
/* Fills in the fields that every kind of request uses. */
static void take_place(pl_batch *b, place *p, const pl_batch_request *q)
{
    const size_t bytes = (size_t)q->n_prompt * sizeof *q->prompt;
    p->prompt = pl_alloc(bytes);
    memcpy(p->prompt, q->prompt, bytes);
    p->asked = *q;
    p->number = b->n_joined++;
    p->taken = true;
    b->n_active++;
}

static pl_status on_rerouted_score(void *context, const pl_token_score *score)
{
    const place *p = context;
    PL_CHECK(rerouting_score(p->route, score));
    return p->scores ? p->asked.score(p->asked.context, score) : PL_OK;
}

static pl_status join_rerouted(pl_batch *b, const pl_batch_request *q, bool *taken)
{
    pl_generate_options scored = *q->options;
    const int n = q->routes->n_paths;
    if (scored.prompt_scores)
        return pl_fail(PL_ERR_USAGE, "a request with `route_every` cannot score the "
                                     "tokens of its prompt; leave out `echo`");
    int *slots = pl_alloc((size_t)n * sizeof *slots);
    for (int k = 0; k < n; k++) {
        slots[k] = prefix_cache_lend(b->prefixes, taken);
        taken[slots[k]] = true;
    }
    place *p = &b->places[slots[0]];
    memset(p, 0, sizeof *p);
    for (int k = 1; k < n; k++)
        b->places[slots[k]].lent = true;
    b->n_lent += n - 1;
    p->slots = slots;
    p->paths = pl_alloc((size_t)n * sizeof *p->paths);
    p->n_slots = n;
    p->scores = scored.scores;
    p->moved = q->routes->moved;
    /* without a gate the scores give the losses that choose the path */
    scored.scores |= !q->routes->rule.gate;
    pl_status status = sequence_open(&p->sequence, b->tokenizer, b->vocab, b->context,
                                     q->n_prompt, &scored, q->emit, q->context);
    rerouting_slot *routed = pl_alloc((size_t)n * sizeof *routed);
    for (int k = 0; status == PL_OK && k < n; k++) {
        routed[k] = (rerouting_slot){b->decoder, slots[k]};
        pl_decoder_use(b->decoder, slots[k], q->routes->paths[k]);
        p->paths[k] = q->routes->paths[k];
    }
    if (status == PL_OK)
        status = rerouting_open(routed, n, &q->routes->rule, b->context, q->prompt,
                                q->n_prompt, &p->route);
    pl_free(routed);
    if (status != PL_OK) {
        close_route(b, p);
        sequence_close(&p->sequence);
        return status;
    }
    p->sequence.score = on_rerouted_score;
    p->sequence.score_context = p;
    take_place(b, p, q);
    return PL_OK;
}

pl_status pl_batch_join(pl_batch *b, const pl_batch_request *q)
{
    bool taken[PL_DECODER_SLOTS_MAX];
    const bool scored = q->score && q->options->prompt_scores;
    const prefix_prompt prompt = {q->prompt, q->n_prompt, q->path_contents, q->asker};
    if (pl_batch_room(b) < (q->routes ? q->routes->n_paths : 1))
        return pl_fail(PL_ERR_BUSY,
                       "%d of %d slots are free, too few for this request; try again "
                       "when a request has ended",
                       pl_batch_room(b), b->n_slots);
    for (int i = 0; i < b->n_slots; i++)
        taken[i] = b->places[i].taken || b->places[i].lent;
    if (q->routes)
        return join_rerouted(b, q, taken);
    const prefix_match match =
        prefix_cache_choose(b->prefixes, taken, &prompt, !scored);
    place *p = &b->places[match.slot];
    memset(p, 0, sizeof *p);
    pl_status status = sequence_open(&p->sequence, b->tokenizer, b->vocab, b->context,
                                     q->n_prompt, q->options, q->emit, q->context);
    if (status == PL_OK)
        status = prefix_cache_take(b->prefixes, &match, &prompt);
    if (status != PL_OK) {
        sequence_close(&p->sequence);
        return status;
    }
    pl_decoder_use(b->decoder, match.slot, q->path);
    p->sequence.score = q->score;
    p->sequence.score_context = q->context;
    p->sequence.result.n_known = p->n_read = match.n_known;
    p->scored = scored;
    take_place(b, p, q);
    return PL_OK;
}

typedef struct prompt_rows {
    pl_batch *batch;
    place *place;
    const float *last; /* the logits after the last token that was read */
} prompt_rows;

/* The logits after token i of the prompt give the score of token i + 1. */
static pl_status score_prompt_rows(void *context, int first, int count,
                                   const float *logits)
{
    prompt_rows *rows = context;
    place *p = rows->place;
    if (p->n_read + first == 0)
        PL_CHECK(sequence_score(&p->sequence, NULL, p->prompt[0]));
    for (int i = 0; i < count; i++) {
        const int next = p->n_read + first + i + 1;
        rows->last = logits + (size_t)i * (size_t)rows->batch->vocab;
        if (next < p->sequence.result.n_prompt)
            PL_CHECK(sequence_score(&p->sequence, rows->last, p->prompt[next]));
    }
    return PL_OK;
}

/* Begins the answer after the last token of the prompt. */
static void begin_answer(pl_batch *b, int slot)
{
    place *p = &b->places[slot];
    p->answering = pl_now();
    p->began = p->began > 0 ? p->began : p->answering;
    p->sequence.result.prompt_seconds = p->answering - p->began;
    pl_free(p->prompt);
    p->prompt = NULL;
    if (p->sequence.options.max_tokens > 0) {
        take_slot_token(b, slot, b->logits);
    } else {
        p->sequence.result.finish = PL_FINISH_LENGTH;
        finish_place(b, p, PL_OK);
    }
}

/* Reads the next piece of a prompt. Returns the number of tokens read; 0 if the piece
 * has more than n tokens and other pieces have been read since the last step. */
static int read_on(pl_batch *b, int slot, int n)
{
    place *p = &b->places[slot];
    if (p->route) {
        /* its paths read about n tokens; a number of 0 would end the reading */
        int n_read = 0;
        p->began = p->began > 0 ? p->began : pl_now();
        const pl_status read = rerouting_read(p->route, n, b->logits, &n_read);
        if (read != PL_OK) {
            finish_place(b, p, read);
        } else if (rerouting_is_ready(p->route) && p->prompt) {
            p->n_read = p->sequence.result.n_prompt;
            begin_answer(b, slot);
        }
        return n_read > 0 ? n_read : 1;
    }
    const int left = p->sequence.result.n_prompt - p->n_read;
    const int piece = pl_decoder_piece(b->decoder, slot, left);
    if (piece > n && n < READ)
        return 0;
    p->began = p->began > 0 ? p->began : pl_now();
    const int32_t *tokens = p->prompt + p->n_read;
    prompt_rows rows = {b, p, NULL};
    const pl_status status =
        p->scored ? pl_decoder_prefill_all(b->decoder, slot, tokens, piece, b->logits,
                                           score_prompt_rows, &rows)
                  : pl_decoder_prefill(b->decoder, slot, tokens, piece,
                                       piece == left ? b->logits : NULL);
    if (status != PL_OK) {
        finish_place(b, p, status);
        return piece;
    }
    if (p->scored)
        memmove(b->logits, rows.last, (size_t)b->vocab * sizeof *b->logits);
    p->n_read += piece;
    prefix_cache_read(b->prefixes, slot, p->prompt, p->n_read);
    if (piece == left) {
        prefix_cache_finish(b->prefixes, slot, b->logits);
        begin_answer(b, slot);
    }
    return piece;
}

pl_status pl_batch_step(pl_batch *b)
{
    int32_t slots[PL_DECODER_SLOTS_MAX], tokens[PL_DECODER_SLOTS_MAX];
    int at[PL_DECODER_SLOTS_MAX]; /* [n] index of the place of each row */
    int n = 0;
    /* Ends requests whose clients have gone. */
    for (int i = 0; i < b->n_slots; i++) {
        place *p = &b->places[i];
        const bool reads = p->taken && is_reading(p) && p->asked.wanted;
        const pl_status status = reads ? p->asked.wanted(p->asked.context) : PL_OK;
        if (status != PL_OK)
            finish_place(b, p, status);
    }
    for (int i = 0; i < b->n_slots; i++) {
        const place *p = &b->places[i];
        /* the prefix cache has the whole prompt, so nothing need be read */
        if (p->taken && p->prompt && !p->route &&
            p->n_read == p->sequence.result.n_prompt) {
            memcpy(b->logits, prefix_cache_logits(b->prefixes, i),
                   (size_t)b->vocab * sizeof *b->logits);
            begin_answer(b, i);
        }
    }
    for (int left = READ, piece = 1; left > 0 && piece > 0; left -= piece) {
        int slot = -1; /* of the request with unread tokens that joined first */
        for (int i = 0; i < b->n_slots; i++)
            if (b->places[i].taken && is_reading(&b->places[i]) &&
                (slot < 0 || b->places[i].number < b->places[slot].number))
                slot = i;
        if (slot < 0)
            break;
        piece = read_on(b, slot, left);
    }
    for (int i = 0; i < b->n_slots; i++)
        if (b->places[i].taken && !is_reading(&b->places[i])) {
            at[n] = i;
            slots[n] = writing_slot(b, &b->places[i]);
            tokens[n++] = b->places[i].sequence.token;
        }
    if (n == 0)
        return PL_OK;
    pl_status status = pl_decoder_step(b->decoder, slots, tokens, n, b->logits);
    if (status != PL_OK) {
        prefix_cache_forget(b->prefixes);
        end_all(b, status);
        return status;
    }
    for (int i = 0; i < n; i++)
        take_slot_token(b, at[i], b->logits + (size_t)i * (size_t)b->vocab);
    return PL_OK;
}
