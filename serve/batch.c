/* Continuous batching: before each step requests may join, after it some have left.
 *
 * A prompt is read by itself, so that its products have the same shapes as alone; only
 * the steps are shared, whose rows do not see each other (modules/decoder.c).
 */
#include "serve/sequence.h"
#include <string.h>

typedef struct place {
    sequence sequence;
    void (*done)(void *context, pl_status status, const pl_generate_result *result);
    void *context;
    double joined; /* when decoding began */
    bool taken;
} place;

struct pl_batch {
    pl_decoder *decoder;
    const pl_tokenizer *tokenizer;
    pl_chooser *chooser;
    float *logits; /* [n_slots, vocab] */
    int vocab, context, n_slots, n_active;
    place places[PL_DECODER_SLOTS_MAX]; /* place i decodes in slot i */
};

pl_status pl_batch_create(pl_model *model, const pl_tokenizer *tokenizer, int vocab,
                          int context, int n_slots, pl_batch **out)
{
    pl_status status = PL_OK;
    void *logits = NULL;
    *out = NULL;
    pl_batch *b = pl_alloc(sizeof *b);
    *b = (pl_batch){
        .tokenizer = tokenizer, .vocab = vocab, .context = context, .n_slots = n_slots};
    PL_TRY(pl_decoder_create_slots(model, n_slots, &b->decoder));
    PL_TRY(pl_chooser_create(pl_tokenizer_vocab(tokenizer), &b->chooser));
    PL_TRY(pl_try_alloc((size_t)n_slots * (size_t)vocab * sizeof(float), "logits",
                        &logits));
    b->logits = logits;
    *out = b;
    return PL_OK;
done:
    pl_batch_destroy(&b);
    return status;
}

static void leave(pl_batch *b, place *p)
{
    sequence_close(&p->sequence);
    p->taken = false;
    b->n_active--;
}

int pl_batch_active(const pl_batch *b)
{
    return b->n_active;
}

int pl_batch_room(const pl_batch *b)
{
    return b->n_slots - b->n_active;
}

/* The place is free before `done` hears of it. */
static void finish(pl_batch *b, place *p, pl_status status)
{
    pl_generate_result result = p->sequence.result;
    result.decode_seconds = pl_now() - p->joined;
    leave(b, p);
    p->done(p->context, status, &result);
}

static void end_all(pl_batch *b, pl_status status)
{
    for (int i = 0; i < b->n_slots; i++)
        if (b->places[i].taken)
            finish(b, &b->places[i], status);
}

void pl_batch_destroy(pl_batch **batch)
{
    pl_batch *b = *batch;
    if (!b)
        return;
    if (b->n_active > 0)
        end_all(b, pl_fail(PL_ERR_CANCELLED, "the request ends with its batch"));
    pl_decoder_destroy(&b->decoder);
    pl_chooser_destroy(&b->chooser);
    pl_free_aligned(b->logits);
    pl_free(b);
    *batch = NULL;
}

static void take(pl_batch *b, int slot, float *logits)
{
    place *p = &b->places[slot];
    int room = b->context - pl_decoder_length(b->decoder, slot);
    pl_status status = sequence_take(&p->sequence, b->chooser, logits, room);
    if (status != PL_OK || p->sequence.ended)
        finish(b, p, status);
}

static pl_status read_prompt(pl_batch *b, int slot, const pl_batch_request *q)
{
    place *p = &b->places[slot];
    double start = pl_now();
    PL_RETURN_IF(sequence_open(&p->sequence, b->tokenizer, b->vocab, b->context,
                               q->n_prompt, q->options, q->emit, q->context));
    pl_decoder_clear(b->decoder, slot);
    PL_RETURN_IF(
        pl_decoder_prefill(b->decoder, slot, q->prompt, q->n_prompt, b->logits));
    p->joined = pl_now();
    p->sequence.result.prompt_seconds = p->joined - start;
    p->done = q->done;
    p->context = q->context;
    return PL_OK;
}

pl_status pl_batch_join(pl_batch *b, const pl_batch_request *q)
{
    int slot = 0;
    while (slot < b->n_slots && b->places[slot].taken)
        slot++;
    if (slot == b->n_slots)
        return pl_fail(PL_ERR_BUSY, "%d requests are being answered; wait for one",
                       b->n_slots);
    place *p = &b->places[slot];
    pl_status status = read_prompt(b, slot, q);
    if (status != PL_OK) {
        sequence_close(&p->sequence);
        return status;
    }
    p->taken = true;
    b->n_active++;
    take(b, slot, b->logits);
    return PL_OK;
}

pl_status pl_batch_step(pl_batch *b)
{
    int32_t slots[PL_DECODER_SLOTS_MAX], tokens[PL_DECODER_SLOTS_MAX];
    int n = 0;
    for (int i = 0; i < b->n_slots; i++)
        if (b->places[i].taken) {
            slots[n] = i;
            tokens[n++] = b->places[i].sequence.token;
        }
    if (n == 0)
        return PL_OK;
    pl_status status = pl_decoder_step(b->decoder, slots, tokens, n, b->logits);
    if (status != PL_OK) {
        end_all(b, status);
        return status;
    }
    for (int i = 0; i < n; i++)
        take(b, slots[i], b->logits + (size_t)i * (size_t)b->vocab);
    return PL_OK;
}
