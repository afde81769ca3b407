/* Decoding with caches of keys and values.
 *
 * Sequences of different paths may be in one step: the rows of all sequences that use
 * the same module are multiplied together by its matrices (decoder_rows.h).
 *
 * For each block the cache holds keys, then values. Both are [slots, S, G*D] in the
 * backend's act type; S is the model's context. The caller feeds rows; each row has a
 * token, a slot and a position. The rows of a piece of a prompt have one slot and
 * rising positions; the rows of a step of decoding have different slots. Pieces and
 * steps use the same operations, except that a piece at position 0 uses
 * attention_forward (ops.h), because the cache has no earlier keys. The ends of pieces
 * depend only on positions, so the results have the same bytes whether the caller
 * passes a prompt at once or in pieces of the lengths that pl_decoder_piece returns.
 * The model's activations are used only during a call, so that several decoders may
 * share a model, one after another. */
#include "modules/decoder_rows.h"
#include <math.h>

/* The rows of an arrangement: each row's place in the previous arrangement, its slot,
 * its position. */
typedef struct row_places {
    int32_t order[PL_DECODER_SLOTS_MAX], slots[PL_DECODER_SLOTS_MAX],
        positions[PL_DECODER_SLOTS_MAX];
} row_places;

struct pl_decoder {
    pl_model *m;
    int n_slots;
    int length[PL_DECODER_SLOTS_MAX];
    const pl_path *paths[PL_DECODER_SLOTS_MAX]; /* NULL: the model's path */
    decoder_rows rows; /* the arrangements of the current step */
    /* [2,S] the slots of the rows that are fed, then their positions */
    int32_t *places;
    void *block;                              /* memory of all buffers below */
    pl_act *cache;                            /* [n_blocks, 2, slots, S, G*D] */
    float *logits;                            /* [logit_rows, V] */
    int32_t *device_slots, *device_positions; /* [S] `places` on the device */
    row_places *arranged; /* [n_blocks + 2] the rows of each arrangement of a step */
    /* one routine per number of sequences in a step, which a backend may record */
    pl_routine *steps[PL_DECODER_SLOTS_MAX + 1];
};

/* Largest number of tokens of a prompt that a CPU reads at once. A long prompt takes 4
 * to 7 % longer in pieces of 512 than as a whole, and 14 to 20 % longer in pieces of
 * 256 (8 blocks of width 512, two threads). */
enum { PIECE = 512 };

/* Number of rows whose losses are computed at once from logits, for a backend without
 * an operation for losses. If rows were computed one at a time, each row would read all
 * weights of the classifier. */
enum { LOGIT_ROWS = 16 };

/* Returns the number of acts in the keys (or values) of one block. */
static size_t cache_stride(const pl_decoder *d)
{
    const pl_shape *s = d->m->shape;
    return (size_t)d->n_slots * (size_t)d->m->options.context * (size_t)s->n_kv_heads *
           (size_t)s->head_size;
}

/* Returns for how many rows the buffer of logits has room. */
static int logit_rows(const pl_decoder *d)
{
    return d->m->be->decode_only && d->n_slots < LOGIT_ROWS ? LOGIT_ROWS : d->n_slots;
}

pl_status pl_decoder_create(pl_model *m, int n_slots, pl_decoder **out)
{
    *out = NULL;
    if (n_slots < 1 || n_slots > PL_DECODER_SLOTS_MAX || n_slots > m->options.context)
        return pl_fail(PL_ERR_ARG,
                       "a decoder cannot have %d sequences; give 1 to %d, and at most "
                       "the context of %d",
                       n_slots, PL_DECODER_SLOTS_MAX, m->options.context);
    pl_decoder *d = pl_alloc(sizeof *d);
    d->m = m;
    d->n_slots = n_slots;
    /* One block of the backend's memory has the buffers after `block` in the struct, in
     * their order. */
    const size_t S = (size_t)m->options.context, n_blocks = (size_t)m->shape->n_blocks;
    const size_t cache =
        model_whole_lines(2 * n_blocks * cache_stride(d) * pl_type_bytes(m->be->act));
    const size_t logits = model_whole_lines((size_t)logit_rows(d) *
                                            (size_t)m->shape->vocab * sizeof(float));
    const size_t places = model_whole_lines(S * sizeof(int32_t));
    const size_t arranged = (n_blocks + 2) * sizeof *d->arranged;
    const pl_status status =
        m->ops->alloc(m->be, cache + logits + 2 * places + arranged,
                      "the decoder's caches", &d->block);
    if (status != PL_OK) {
        pl_free(d);
        return status;
    }
    uint8_t *at = d->block;
    d->cache = (pl_act *)at;
    d->logits = (float *)(void *)(at + cache);
    d->device_slots = (int32_t *)(void *)(at + cache + logits);
    d->device_positions = (int32_t *)(void *)(at + cache + logits + places);
    d->arranged = (row_places *)(void *)(at + cache + logits + 2 * places);
    d->places = pl_alloc(2 * S * sizeof *d->places);
    decoder_rows_open(&d->rows, m->shape->n_blocks);
    *out = d;
    return PL_OK;
}

void pl_decoder_destroy(pl_decoder **decoder)
{
    pl_decoder *d = *decoder;
    if (!d)
        return;
    for (int n = 0; n <= d->n_slots; n++)
        d->m->ops->routine_destroy(d->m->be, &d->steps[n]);
    d->m->ops->release(d->m->be, d->block);
    decoder_rows_close(&d->rows);
    pl_free_all(d->places, d);
    *decoder = NULL;
}

void pl_decoder_use(pl_decoder *d, int slot, const pl_path *path)
{
    d->paths[slot] = path;
}

void pl_decoder_clear(pl_decoder *d, int slot)
{
    d->length[slot] = 0;
}

int pl_decoder_length(const pl_decoder *d, int slot)
{
    return d->length[slot];
}

/* ---- rows through the model ---- */
/* Rows that go through the model together: either a piece of one prompt, whose rows
 * have the same path, or one step of several requests, in the order of d->rows. */
typedef struct pass {
    pl_decoder *d;
    int n;
    const pl_path *path; /* path of a piece; NULL: a step */
    bool begins;         /* whether the piece is the start of a sequence */
} pass;

static void attend_block(const pass *p, int block)
{
    pl_decoder *d = p->d;
    const pl_model *m = d->m;
    const pl_shape *s = m->shape;
    const block_acts *a = &m->acts.blocks[block];
    const int arrangement = p->path ? 0 : d->rows.at[block];
    const row_places *arranged = &d->arranged[arrangement];
    const int32_t *slots = arrangement > 0 ? arranged->slots : d->device_slots;
    const int32_t *positions =
        arrangement > 0 ? arranged->positions : d->device_positions;
    const size_t stride = cache_stride(d);
    pl_act *keys = model_act_at(m, d->cache, 2 * (size_t)block * stride);
    pl_act *values = model_act_at(m, keys, stride);
    m->ops->decode_append(m->be, a->qkv, keys, values, slots, positions, p->n,
                          m->options.context, s->n_heads, s->n_kv_heads, s->head_size,
                          s->rope_theta);
    if (p->begins)
        m->ops->attention_forward(m->be, a->attn, a->lse, a->qkv, NULL, 1, p->n,
                                  s->n_heads, s->n_kv_heads, s->head_size);
    else
        m->ops->attention_decode(m->be, a->attn, a->qkv, keys, values, slots, positions,
                                 p->n, m->options.context, s->n_heads, s->n_kv_heads,
                                 s->head_size);
}

static void upload_places(pl_decoder *d, int n)
{
    const pl_model *m = d->m;
    size_t bytes = (size_t)n * sizeof *d->places;
    m->ops->upload(m->be, d->device_slots, d->places, bytes);
    m->ops->upload(m->be, d->device_positions, d->places + m->options.context, bytes);
}

/* Brings the rows of a step into the arrangement of a point, if the arrangement changes
 * there. The residual stream is the sum of two buffers that are not added up yet
 * (model_internal.h), so the rows of both buffers are moved. */
static void arrange_rows(const pass *p, int point)
{
    const pl_decoder *d = p->d;
    const pl_model *m = d->m;
    const block_acts *before = point > 0 ? &m->acts.blocks[point - 1] : NULL;
    const int arrangement = p->path ? 0 : d->rows.at[point];
    const int earlier = p->path || point == 0 ? 0 : d->rows.at[point - 1];
    if (arrangement == earlier)
        return;
    const int32_t *order = d->arranged[arrangement].order;
    m->ops->permute_rows(m->be, before ? before->out : m->acts.embed, m->acts.norm,
                         order, p->n, m->shape->width);
    if (before)
        m->ops->permute_rows(m->be, before->mid, m->acts.norm, order, p->n,
                             m->shape->width);
}

/* Returns the group of rows, from `first` on, that are computed together at a point. */
static model_rows group_rows(const pass *p, int point, int first)
{
    return p->path ? (model_rows){p->path, first, p->n - first}
                   : decoder_rows_group(&p->d->rows, p->d->m->shape->n_blocks, point,
                                        first);
}

/* Computes all blocks and the final norm for rows whose tokens and places were
 * uploaded. */
static void run_blocks(const pass *p)
{
    pl_model *m = p->d->m;
    const int n_blocks = m->shape->n_blocks;
    model_rows r;
    for (int at = 0; at < p->n; at += r.n)
        model_forward_embed(m, r = group_rows(p, -1, at));
    for (int b = 0; b < n_blocks; b++) {
        arrange_rows(p, b);
        for (int at = 0; at < p->n; at += r.n)
            model_forward_qkv(m, b, r = group_rows(p, b, at));
        attend_block(p, b);
        for (int at = 0; at < p->n; at += r.n)
            model_forward_rest(m, b, r = group_rows(p, b, at));
    }
    arrange_rows(p, n_blocks);
    for (int at = 0; at < p->n; at += r.n)
        model_forward_norm(m, r = group_rows(p, n_blocks, at));
}

/* Computes the logits of the n rows that start at `row`, which have the same
 * classifier. Writes them into the buffer of logits, starting at its row `to`. */
static void make_logits(pl_decoder *d, const pl_path *path, int row, int n, int to)
{
    pl_model *m = d->m;
    const size_t V = (size_t)m->shape->vocab, C = (size_t)m->shape->width;
    m->ops->logits(m->be, d->logits + (size_t)to * V,
                   model_act_at(m, m->acts.norm, (size_t)row * C), path->classifier, n,
                   m->shape->vocab, m->shape->width);
}

static pl_status read_logits(pl_decoder *d, int n, float *logits)
{
    pl_model *m = d->m;
    m->ops->download(m->be, logits, d->logits,
                     (size_t)n * (size_t)m->shape->vocab * sizeof(float));
    return m->ops->sync(m->be);
}

static void set_place(pl_decoder *d, int row, int slot, int position)
{
    d->places[row] = slot;
    d->places[d->m->options.context + row] = position;
}

/* ---- feeding rows ---- */
static pl_status check_room(const pl_decoder *d, int slot, int n)
{
    int context = d->m->options.context;
    if (slot < 0 || slot >= d->n_slots)
        return pl_fail(PL_ERR_ARG, "slot %d does not exist: the decoder has %d slots",
                       slot, d->n_slots);
    if (n < 1)
        return pl_fail(PL_ERR_ARG, "the decoder cannot take %d tokens; give at least 1",
                       n);
    if (!d->paths[slot] && !d->m->path)
        return pl_fail(PL_ERR_ARG,
                       "slot %d has no path, and the model has no parameters; load "
                       "parameters or choose a path for the slot",
                       slot);
    if (n > context - d->length[slot])
        return pl_fail(PL_ERR_DATA,
                       "%d more tokens do not fit after %d tokens in a context of %d; "
                       "shorten the prompt or start a new sequence",
                       n, d->length[slot], context);
    return PL_OK;
}

/* On a GPU the whole prompt is one piece, because a GPU reads a prompt faster than
 * another request can arrive. */
int pl_decoder_piece(const pl_decoder *d, int slot, int n)
{
    const int left = PIECE - d->length[slot] % PIECE;
    return d->m->be->memory_bytes > 0 || n < left ? n : left;
}

int pl_decoder_shared(const pl_decoder *d, int n)
{
    return d->m->be->memory_bytes > 0 ? 0 : n - n % PIECE;
}

pl_status pl_decoder_share(pl_decoder *d, int slot, int from, int n)
{
    const pl_model *m = d->m;
    void *host = NULL;
    if (n < 0 || n > m->options.context)
        return pl_fail(PL_ERR_ARG,
                       "%d tokens cannot be shared: a slot has only %d places", n,
                       m->options.context);
    if (from != slot && n > 0) {
        const size_t sequence = cache_stride(d) / (size_t)d->n_slots;
        const size_t row = sequence / (size_t)m->options.context;
        const size_t bytes = (size_t)n * row * pl_type_bytes(m->be->act);
        PL_CHECK(pl_try_alloc(bytes, "keys of a prompt", &host));
        /* the keys of each block, then its values, through the host's memory */
        for (int i = 0; i < 2 * m->shape->n_blocks; i++) {
            pl_act *cache = model_act_at(m, d->cache, (size_t)i * cache_stride(d));
            m->ops->download(m->be, host,
                             model_act_at(m, cache, (size_t)from * sequence), bytes);
            m->ops->upload(m->be, model_act_at(m, cache, (size_t)slot * sequence), host,
                           bytes);
        }
        pl_status status = m->ops->sync(m->be);
        pl_free(host);
        PL_CHECK(status);
    }
    d->length[slot] = n;
    return PL_OK;
}

/* Returns the path of a slot; NULL if the slot has no path and the model has no
 * parameters. */
static const pl_path *slot_path(const pl_decoder *d, int slot)
{
    return d->paths[slot] ? d->paths[slot] : d->m->path;
}

static pl_status read_prompt_piece(pl_decoder *d, int slot, const int32_t *tokens,
                                   const int32_t *targets, int n)
{
    const pass p = {d, n, slot_path(d, slot), d->length[slot] == 0};
    PL_CHECK(model_take_batch(d->m, tokens, targets, 1, n));
    for (int i = 0; i < n; i++)
        set_place(d, i, slot, d->length[slot] + i);
    upload_places(d, n);
    run_blocks(&p);
    d->length[slot] += n;
    return PL_OK;
}

pl_status pl_decoder_prefill_all(pl_decoder *d, int slot, const int32_t *tokens, int n,
                                 float *logits, pl_logits_fn take, void *context)
{
    PL_CHECK(check_room(d, slot, n));
    const int before = d->length[slot];
    const pl_path *path = slot_path(d, slot);
    pl_status status = PL_OK;
    int piece = 0;
    for (int at = 0; at < n; at += piece) {
        piece = pl_decoder_piece(d, slot, n - at);
        PL_TRY(read_prompt_piece(d, slot, tokens + at, NULL, piece));
        for (int row = 0, rows; take && row < piece; row += rows) {
            rows = piece - row < d->n_slots ? piece - row : d->n_slots;
            make_logits(d, path, row, rows, 0);
            PL_TRY(read_logits(d, rows, logits));
            PL_TRY(take(context, at + row, rows, logits));
        }
    }
    if (logits && !take) {
        make_logits(d, path, piece - 1, 1, 0);
        PL_TRY(read_logits(d, 1, logits));
    } else {
        PL_TRY(d->m->ops->sync(d->m->be));
    }
done:
    if (status != PL_OK)
        d->length[slot] = before;
    return status;
}

/* Computes the losses of a piece that was read, on a backend that can compute only
 * logits: -log p of each target, from the logits of the token before it; 0 for a
 * negative target, as in the operation `classifier`. */
static pl_status give_losses_by_logits(pl_decoder *d, const pl_path *path,
                                       const int32_t *targets, int n, float *losses)
{
    const size_t V = (size_t)d->m->shape->vocab;
    const int most = logit_rows(d);
    void *host;
    PL_CHECK(pl_try_alloc((size_t)most * V * sizeof(float), "logits", &host));
    pl_status status = PL_OK;
    for (int row = 0, rows; row < n && status == PL_OK; row += rows) {
        rows = n - row < most ? n - row : most;
        make_logits(d, path, row, rows, 0);
        status = read_logits(d, rows, host);
        for (int i = 0; i < rows && status == PL_OK; i++) {
            const float *logit = (const float *)host + (size_t)i * V;
            const int32_t target = targets[row + i];
            float highest = -INFINITY;
            double sum = 0;
            losses[row + i] = 0;
            if (target < 0)
                continue;
            for (size_t v = 0; v < V; v++)
                highest = logit[v] > highest ? logit[v] : highest;
            for (size_t v = 0; v < V; v++)
                sum += (double)expf(logit[v] - highest);
            losses[row + i] =
                (float)((double)highest + log(sum) - (double)logit[target]);
        }
    }
    pl_free(host);
    return status;
}

pl_status pl_decoder_prefill_losses(pl_decoder *d, int slot, const int32_t *tokens,
                                    const int32_t *targets, int n, float *losses)
{
    PL_CHECK(check_room(d, slot, n));
    const int before = d->length[slot];
    const pl_path *path = slot_path(d, slot);
    pl_status status = PL_OK;
    for (int at = 0, piece; at < n; at += piece) {
        piece = pl_decoder_piece(d, slot, n - at);
        PL_TRY(read_prompt_piece(d, slot, tokens + at, targets + at, piece));
        PL_TRY(d->m->be->decode_only
                   ? give_losses_by_logits(d, path, targets + at, piece, losses + at)
                   : model_read_losses(d->m, path, piece, losses + at));
    }
done:
    if (status != PL_OK)
        d->length[slot] = before;
    return status;
}

pl_status pl_decoder_prefill(pl_decoder *d, int slot, const int32_t *tokens, int n,
                             float *logits)
{
    return pl_decoder_prefill_all(d, slot, tokens, n, logits, NULL, NULL);
}

static void work_decode_step(void *context)
{
    const pass *p = context;
    run_blocks(p);
    for (int at = 0; at < p->n;) {
        const model_rows r = group_rows(p, p->d->m->shape->n_blocks, at);
        make_logits(p->d, r.path, at, r.n, at);
        at += r.n;
    }
}

pl_status pl_decoder_step(pl_decoder *d, const int32_t *slots, const int32_t *tokens,
                          int n, float *logits)
{
    const pl_model *m = d->m;
    decoder_rows *r = &d->rows;
    pass work = {.d = d, .n = n};
    bool taken[PL_DECODER_SLOTS_MAX] = {false};
    if (n < 1 || n > d->n_slots)
        return pl_fail(PL_ERR_ARG,
                       "a step cannot have %d sequences; this decoder has %d slots", n,
                       d->n_slots);
    for (int i = 0; i < n; i++) {
        PL_CHECK(check_room(d, slots[i], 1));
        if (taken[slots[i]])
            return pl_fail(PL_ERR_ARG, "slot %d occurs twice in one step",
                           (int)slots[i]);
        taken[slots[i]] = true;
    }
    PL_CHECK(model_take_batch(d->m, tokens, NULL, 1, n));
    r->n = n;
    for (int i = 0; i < n; i++) {
        set_place(d, i, slots[i], d->length[slots[i]]);
        r->paths[i] = slot_path(d, slots[i]);
    }
    decoder_rows_plan(r, m->shape->n_blocks);

    /* The places of the rows in the first arrangement, then those in the others. */
    row_places places;
    memset(&places, 0, sizeof places);
    upload_places(d, n);
    for (int a = 1; a < r->n_arrangements; a++) {
        for (int i = 0; i < n; i++) {
            const int32_t who = r->who[a][i];
            places.order[i] = r->order[a][i];
            places.slots[i] = d->places[who];
            places.positions[i] = d->places[m->options.context + who];
        }
        m->ops->upload(m->be, &d->arranged[a], &places, sizeof places);
    }
    m->ops->perform(m->be, &d->steps[n], r->hash, work_decode_step, &work);

    /* The caller gets the logits in its own order of rows. */
    const size_t V = (size_t)m->shape->vocab;
    const int last = r->at[m->shape->n_blocks];
    if (last == 0) {
        PL_CHECK(read_logits(d, n, logits));
    } else {
        for (int i = 0; i < n; i++)
            m->ops->download(m->be, logits + (size_t)r->who[last][i] * V,
                             d->logits + (size_t)i * V, V * sizeof *logits);
        PL_CHECK(m->ops->sync(m->be));
    }
    for (int i = 0; i < n; i++)
        d->length[slots[i]]++;
    return PL_OK;
}
