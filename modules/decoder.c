/* Decoding one sequence with a cache of keys and values.
 *
 * The cache holds, for each block, keys and values [S, G*D] in the backend's act
 * type, S being the model's context. A prompt at position 0 runs through the batched
 * forward pass, whose keys and values are copied; later tokens go one at a time. The
 * model's activations are used only while feeding, so that several decoders may
 * share a model, one after another.
 */
#include "modules/model_inside.h"

struct pl_decoder {
    pl_model *m;
    int position;
    void *block;              /* everything below */
    pl_act *cache;            /* [n_blocks, 2, S, G*D]: keys, values */
    float *logits;            /* [V] */
    float *row;               /* [2*G*D], one position's k and v on their way */
    int32_t *device_position; /* [1] */
};

enum { LINE = 64 };

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static size_t kv_width(const pl_model *m)
{
    return (size_t)m->shape->n_kv_heads * (size_t)m->shape->head_size;
}

/* Acts in the keys (or values) of one block. */
static size_t cache_stride(const pl_model *m)
{
    return (size_t)m->options.context * kv_width(m);
}

static pl_act *cache_keys(const pl_decoder *d, int block)
{
    return model_act_at(d->m, d->cache, 2 * (size_t)block * cache_stride(d->m));
}

static pl_act *cache_values(const pl_decoder *d, int block)
{
    return model_act_at(d->m, d->cache, (2 * (size_t)block + 1) * cache_stride(d->m));
}

pl_status pl_decoder_create(pl_model *m, pl_decoder **out)
{
    *out = NULL;
    size_t cache = whole_lines(2 * (size_t)m->shape->n_blocks * cache_stride(m) *
                               pl_type_bytes(m->be->act));
    size_t logits = whole_lines((size_t)m->shape->vocab * sizeof(float));
    size_t row = whole_lines(2 * kv_width(m) * sizeof(float));
    uint8_t *block = NULL;
    void *memory = NULL;
    PL_RETURN_IF(m->ops->alloc(m->be, cache + logits + row + LINE,
                               "the decoder's cache", &memory));
    block = memory;
    pl_decoder *d = pl_alloc(sizeof *d);
    d->m = m;
    d->block = block;
    d->cache = (pl_act *)block;
    d->logits = (float *)(block + cache);
    d->row = (float *)(block + cache + logits);
    d->device_position = (int32_t *)(block + cache + logits + row);
    *out = d;
    return PL_OK;
}

void pl_decoder_destroy(pl_decoder **decoder)
{
    pl_decoder *d = *decoder;
    if (!d)
        return;
    d->m->ops->release(d->m->be, d->block);
    pl_free(d);
    *decoder = NULL;
}

void pl_decoder_reset(pl_decoder *d)
{
    d->position = 0;
}

int pl_decoder_position(const pl_decoder *d)
{
    return d->position;
}

/* Copies k and v of the n rows just projected to positions start.. of the cache. The
 * way through fp32 is exact: every act is a float. */
static void keep_kv(pl_decoder *d, int block, int start, int n)
{
    const pl_model *m = d->m;
    const pl_shape *s = m->shape;
    size_t kv = kv_width(m), q = (size_t)s->n_heads * (size_t)s->head_size;
    for (int t = 0; t < n; t++) {
        size_t from = (size_t)t * (q + 2 * kv) + q, to = (size_t)(start + t) * kv;
        m->ops->act_to_float(m->be, d->row,
                             model_act_at(m, m->acts.blocks[block].qkv, from), 2 * kv);
        m->ops->act_from_float(m->be, model_act_at(m, cache_keys(d, block), to), d->row,
                               kv);
        m->ops->act_from_float(m->be, model_act_at(m, cache_values(d, block), to),
                               d->row + kv, kv);
    }
}

static void attend_cache(pl_decoder *d, int block)
{
    const pl_model *m = d->m;
    const pl_shape *s = m->shape;
    const block_acts *a = &m->acts.blocks[block];
    m->ops->attention_decode(m->be, a->attn, a->qkv, cache_keys(d, block),
                             cache_values(d, block), d->device_position, 1,
                             m->options.context, s->n_heads, s->n_kv_heads,
                             s->head_size);
}

/* Runs n uploaded tokens; n > 1 only at position 0. */
static void run(pl_decoder *d, int n)
{
    pl_model *m = d->m;
    int32_t position = d->position;
    m->ops->upload(m->be, d->device_position, &position, sizeof position);
    model_forward_embed(m, n);
    for (int b = 0; b < m->shape->n_blocks; b++) {
        model_forward_qkv(m, b, 1, n, d->position);
        keep_kv(d, b, d->position, n);
        if (d->position == 0)
            model_forward_attention(m, b, 1, n);
        else
            attend_cache(d, b);
        model_forward_rest(m, b, n);
    }
    model_forward_norm(m, n);
    d->position += n;
}

static pl_status check_room(const pl_decoder *d, int n)
{
    int context = d->m->options.context;
    if (n < 1)
        return pl_fail(PL_ERR_ARG, "%d tokens to decode; give at least 1", n);
    if (n > context - d->position)
        return pl_fail(PL_ERR_DATA,
                       "%d tokens do not fit after %d in a context of %d; shorten the "
                       "prompt or start anew",
                       n, d->position, context);
    return PL_OK;
}

pl_status pl_decoder_feed(pl_decoder *d, const int32_t *tokens, int n, float *logits)
{
    pl_model *m = d->m;
    int64_t n_targets;
    PL_RETURN_IF(check_room(d, n));
    /* checks all tokens before the first one changes the cache */
    PL_RETURN_IF(model_take_batch(m, tokens, NULL, 1, n, &n_targets));
    int chunk = d->position == 0 ? n : 1;
    for (int i = 0; i < n; i += chunk) {
        m->ops->upload(m->be, m->acts.tokens, tokens + i,
                       (size_t)chunk * sizeof *tokens);
        run(d, chunk);
    }
    size_t last = (size_t)(chunk - 1) * (size_t)m->shape->width;
    m->ops->logits(m->be, d->logits, model_act_at(m, m->acts.norm, last),
                   model_classifier(m), 1, m->shape->vocab, m->shape->width);
    m->ops->download(m->be, logits, d->logits, (size_t)m->shape->vocab * sizeof(float));
    return m->ops->sync(m->be);
}
