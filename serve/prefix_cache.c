/* Remembers the prompts in the slots of a decoder (prefix_cache.h). */
#include "serve/prefix_cache.h"

typedef struct kept_prompt {
    pl_buf tokens;     /* the tokens (int32_t) that were read */
    float *logits;     /* [vocab] logits after the last token; valid if `finished` */
    bool finished;     /* `tokens` is a complete prompt */
    uint64_t contents; /* pl_pooled_path_contents of the path that read the tokens */
    uint64_t asker;    /* the client who sent the prompt */
    uint64_t asked; /* number of the last request that took the slot; 0: never taken */
} kept_prompt;

struct prefix_cache {
    pl_decoder *decoder;
    int n_slots, vocab;
    uint64_t n_asked;
    kept_prompt slots[PL_DECODER_SLOTS_MAX];
};

prefix_cache *prefix_cache_create(pl_decoder *decoder, int n_slots, int vocab)
{
    prefix_cache *c = pl_alloc(sizeof *c);
    c->decoder = decoder;
    c->n_slots = n_slots;
    c->vocab = vocab;
    return c;
}

void prefix_cache_destroy(prefix_cache **cache)
{
    prefix_cache *c = *cache;
    if (!c)
        return;
    for (int i = 0; i < c->n_slots; i++) {
        pl_buf_destroy(&c->slots[i].tokens);
        pl_free(c->slots[i].logits);
    }
    pl_free(c);
    *cache = NULL;
}

static int oldest_slot(const prefix_cache *c, const bool *taken)
{
    int oldest = -1;
    for (int i = 0; i < c->n_slots; i++)
        if (!taken[i] && (oldest < 0 || c->slots[i].asked < c->slots[oldest].asked))
            oldest = i;
    return oldest;
}

/* Finds the slot that knows most of the prompt's first tokens: for these tokens it has
 * keys and values with exactly the bytes that reading would give. */
prefix_match prefix_cache_choose(const prefix_cache *c, const bool *taken,
                                 const prefix_prompt *prompt, bool again)
{
    prefix_match m = {.from = -1};
    const int n = prompt->n;
    for (int i = 0; i < c->n_slots && again; i++) {
        const kept_prompt *k = &c->slots[i];
        const int32_t *tokens = (const int32_t *)(const void *)k->tokens.data;
        const int kept = (int)(k->tokens.len / sizeof(int32_t));
        int same = 0;
        if (k->contents != prompt->contents || k->asker != prompt->asker)
            continue;
        while (same < n && same < kept && tokens[same] == prompt->tokens[same])
            same++;
        /* Unless the slot knows the whole prompt and the logits after it, at least the
         * last token is read again. */
        const int known = same == n && kept == n && k->finished
                              ? n
                              : pl_decoder_shared(c->decoder, same < n ? same : n - 1);
        /* if two slots hold equally many known tokens, a free slot is preferred */
        if (known > m.n_known || (known > 0 && known == m.n_known && !taken[i])) {
            m.n_known = known;
            m.from = i;
        }
    }
    const bool stays = m.n_known == n && !taken[m.from];
    m.slot = stays ? m.from : oldest_slot(c, taken);
    return m;
}

pl_status prefix_cache_take(prefix_cache *c, const prefix_match *m,
                            const prefix_prompt *prompt)
{
    kept_prompt *k = &c->slots[m->slot];
    k->asked = ++c->n_asked;
    pl_decoder_clear(c->decoder, m->slot);
    if (m->from >= 0)
        PL_CHECK(pl_decoder_share(c->decoder, m->slot, m->from, m->n_known));
    if (m->from == m->slot && m->n_known == prompt->n)
        return PL_OK;
    k->finished = false;
    k->contents = prompt->contents;
    k->asker = prompt->asker;
    prefix_cache_read(c, m->slot, prompt->tokens, m->n_known);
    if (m->from >= 0 && m->n_known == prompt->n)
        prefix_cache_finish(c, m->slot, c->slots[m->from].logits);
    return PL_OK;
}

void prefix_cache_read(prefix_cache *c, int slot, const int32_t *prompt, int n)
{
    pl_buf *tokens = &c->slots[slot].tokens;
    pl_buf_clear(tokens);
    pl_buf_append(tokens, prompt, (size_t)n * sizeof *prompt);
}

void prefix_cache_finish(prefix_cache *c, int slot, const float *logits)
{
    kept_prompt *k = &c->slots[slot];
    const size_t bytes = (size_t)c->vocab * sizeof *logits;
    if (!k->logits)
        k->logits = pl_alloc(bytes);
    memcpy(k->logits, logits, bytes);
    k->finished = true;
}

const float *prefix_cache_logits(const prefix_cache *c, int slot)
{
    return c->slots[slot].logits;
}

static void forget_slot(kept_prompt *k)
{
    pl_buf_clear(&k->tokens);
    k->finished = false;
}

int prefix_cache_lend(prefix_cache *c, const bool *taken)
{
    const int slot = oldest_slot(c, taken);
    if (slot >= 0) {
        c->slots[slot].asked = ++c->n_asked;
        forget_slot(&c->slots[slot]);
    }
    return slot;
}

void prefix_cache_forget(prefix_cache *c)
{
    for (int i = 0; i < c->n_slots; i++)
        forget_slot(&c->slots[i]);
}
