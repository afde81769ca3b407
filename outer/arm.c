/* The bytes of an arm's definition (docs/PROTOCOL.md section 3.1): encodes and decodes
 * them, and reads them from a store. */
#include "outer/held.h"

/* Tags of fields that are lists of variable length, or that depend on more than one
 * member of the struct. All other tags are in the tables below. */
enum {
    TAG_EXPERTS = 12, /* number of experts of each level */
    TAG_BLOCKS,       /* number of blocks of each level */
    TAG_PRIVATE,      /* numbers of the path-specific blocks */
    /* pl_state_kind: moments; then residuals, own parameters, unless both are f32 */
    TAG_STATE = 40,
    /* codec of versions, then whether zstd compresses them; no field: f32 */
    TAG_DOWN,
    TAG_FROZEN,     /* numbers of the frozen modules */
    TAG_ABSENT,     /* combinations of experts that are left out */
    TAG_DESCENT,    /* the parent of each level, then the parent of each expert */
    TAG_SHARD = 50, /* hash of each path's data shard */
    TAG_WEIGHT,
    TAG_HELD, /* hash of each path's held-out text, if there is any in the arm */
    TAG_HELD_BYTES
};

void pl_arm_clear(pl_arm *arm)
{
    pl_free_all(arm->shards, arm->weights, arm->frozen, arm->held, arm->held_bytes);
    memset(arm, 0, sizeof *arm);
}

static const pl_field first_fields[] = {
    PL_FIELD(pl_arm, 1, name),
    PL_FIELD(pl_arm, 2, seed),
    PL_FIELD(pl_arm, 3, config),
    PL_FIELD_NONZERO(pl_arm, 4, moments),
    PL_FIELD_NONZERO(pl_arm, 5, before),
    PL_FIELD_NONZERO(pl_arm, 6, states),
    PL_FIELD_NONZERO(pl_arm, 7, n_scored),
    PL_FIELD_NONZERO(pl_arm, 7, feature_windows),
    PL_FIELD_NONZERO(pl_arm, 8, descent.experts),
    PL_FIELD_GATED(pl_arm, 9, held_every, held_every),
    PL_FIELD_GATED(pl_arm, 9, held_prefix, held_every),
    PL_FIELD(pl_arm, 10, shape.vocab),
    PL_FIELD(pl_arm, 10, shape.width),
    PL_FIELD(pl_arm, 10, shape.n_heads),
    PL_FIELD(pl_arm, 10, shape.n_kv_heads),
    PL_FIELD(pl_arm, 10, shape.head_size),
    PL_FIELD(pl_arm, 10, shape.ffn),
    PL_FIELD(pl_arm, 10, shape.n_blocks),
    PL_FIELD(pl_arm, 10, shape.context),
    PL_FIELD(pl_arm, 10, shape.tied),
    PL_FIELD_NONZERO(pl_arm, 10, shape.qk_norm),
    PL_FIELD(pl_arm, 11, shape.rope_theta),
    PL_FIELD(pl_arm, 11, shape.norm_eps),
    PL_FIELDS_END};

/* Tables of fields limit enumerations; check_arm checks that all fits together. */
enum { VALUE_BITS_MAX = 8 };
/* limit for numbers whose members in pl_arm have more than 32 bits */
#define INT_LIMIT (1ull << 31)
static const pl_field training_fields[] = {
    PL_FIELD(pl_arm, 15, spec.embed_choice),
    PL_FIELD(pl_arm, 15, spec.head_choice),
    PL_FIELD(pl_arm, 16, spec.replicas),
    PL_FIELD_NONZERO(pl_arm, 17, inner.threads),
    PL_FIELD_NONZERO(pl_arm, 18, outer.state_every),
    PL_FIELD(pl_arm, 30, inner.batch),
    PL_FIELD(pl_arm, 30, inner.context),
    PL_FIELD(pl_arm, 30, inner.tau),
    PL_FIELD(pl_arm, 30, inner.phases),
    PL_FIELD(pl_arm, 30, inner.warmup),
    PL_FIELD(pl_arm, 30, inner.skip_prefix),
    PL_FIELD_CHOICE(pl_arm, 30, inner.schedule, PL_SCHEDULE_COUNT),
    PL_FIELD(pl_arm, 30, inner.decay),
    PL_FIELD(pl_arm, 30, inner.first_step),
    PL_FIELD(pl_arm, 30, inner.micro_batch),
    PL_FIELD_NONZERO(pl_arm, 30, inner.muon_rows),
    PL_FIELD(pl_arm, 31, inner.lr),
    PL_FIELD(pl_arm, 31, inner.lr_floor),
    PL_FIELD(pl_arm, 31, inner.beta1),
    PL_FIELD(pl_arm, 31, inner.beta2),
    PL_FIELD(pl_arm, 31, inner.eps),
    PL_FIELD(pl_arm, 31, inner.weight_decay),
    PL_FIELD(pl_arm, 31, inner.clip),
    PL_FIELD(pl_arm, 32, outer.lr),
    PL_FIELD(pl_arm, 33, outer.momentum),
    PL_FIELD_BIT(pl_arm, 34, outer.weighted, 0),
    PL_FIELD_BIT(pl_arm, 34, outer.rescale, 1),
    PL_FIELD_BIT(pl_arm, 34, outer.feedback, 2),
    PL_FIELD_BIT(pl_arm, 34, outer.dynamic, 3),
    PL_FIELD_BIT(pl_arm, 34, outer.own_consensus, 4),
    PL_FIELD_BIT(pl_arm, 34, outer.present, 5),
    PL_FIELD_BIT(pl_arm, 34, inner.pack, 6),
    PL_FIELD_BIT(pl_arm, 34, inner.muon, 7),
    PL_FIELD(pl_arm, 35, outer.codec_name),
    PL_FIELD_CHOICE(pl_arm, 36, outer.method.method, PL_METHOD_COUNT),
    PL_FIELD_CHOICE(pl_arm, 36, outer.method.rule, 2),
    PL_FIELD_CHOICE(pl_arm, 36, outer.method.gap, 2),
    PL_FIELD(pl_arm, 36, outer.method.delay),
    PL_FIELD(pl_arm, 36, outer.method.inner_steps),
    PL_FIELD(pl_arm, 36, outer.method.fragments),
    PL_FIELD(pl_arm, 36, outer.method.overlap),
    PL_FIELD(pl_arm, 36, outer.method.buffer),
    PL_FIELD(pl_arm, 36, outer.staleness),
    PL_FIELD_CHOICE(pl_arm, 36, outer.schedule.decay, 1),
    PL_FIELD_CHOICE(pl_arm, 36, outer.schedule.warmup, 1),
    PL_FIELD_CHOICE(pl_arm, 36, outer.schedule.phases, INT_LIMIT),
    PL_FIELD_CHOICE(pl_arm, 36, outer.schedule.settle, INT_LIMIT),
    PL_FIELD_NONZERO(pl_arm, 36, outer.deadline_ms),
    PL_FIELD(pl_arm, 37, outer.method.curvature),
    PL_FIELD(pl_arm, 37, outer.method.consensus),
    PL_FIELD(pl_arm, 37, outer.method.gap_constant),
    PL_FIELD(pl_arm, 37, outer.method.clip),
    PL_FIELD(pl_arm, 37, outer.method.mix),
    PL_FIELD(pl_arm, 37, outer.method.spread),
    PL_FIELD(pl_arm, 37, outer.schedule.floor),
    PL_FIELD_NONZERO(pl_arm, 37, outer.quorum),
    PL_FIELD_GATED(pl_arm, 37, outer.late_weight, outer.quorum),
    PL_FIELD_CHOICE(pl_arm, 38, outer.codec.codec, PL_CODEC_COUNT),
    PL_FIELD_CHOICE(pl_arm, 38, outer.codec.selector, PL_SELECT_COUNT),
    PL_FIELD_CHOICE(pl_arm, 38, outer.codec.value_bits, VALUE_BITS_MAX + 1),
    PL_FIELD(pl_arm, 38, outer.codec.entropy),
    PL_FIELD(pl_arm, 38, outer.codec.k),
    PL_FIELD(pl_arm, 38, outer.codec.small),
    PL_FIELD(pl_arm, 39, outer.codec.beta),
    PL_FIELD(pl_arm, 39, outer.codec.cells),
    PL_FIELDS_END};

void pl_arm_encode(const pl_arm *arm, pl_buf *out)
{
    pl_put_fields(out, first_fields, arm);
    const pl_topology_spec *spec = &arm->spec;
    for (int l = 0; l < spec->n_levels; l++)
        pl_put_u64(out, TAG_EXPERTS, (uint64_t)spec->experts[l]);
    for (int l = 0; l < spec->n_levels; l++)
        pl_put_u64(out, TAG_BLOCKS, (uint64_t)spec->blocks[l]);
    for (int b = 0; b < arm->shape.n_blocks; b++)
        if (spec->private_block[b])
            pl_put_u64(out, TAG_PRIVATE, (uint64_t)b);
    pl_put_fields(out, training_fields, arm);
    const pl_outer *outer = &arm->outer;
    pl_put_u64(out, TAG_STATE, outer->state);
    if (outer->residual != PL_STATE_F32 || outer->own != PL_STATE_F32) {
        pl_put_u64(out, TAG_STATE, outer->residual);
        pl_put_u64(out, TAG_STATE, outer->own);
    }
    if (outer->down.codec[PL_ROLE_MLP] > PL_CODEC_F32) {
        pl_put_u64(out, TAG_DOWN, outer->down.codec[PL_ROLE_MLP]);
        pl_put_u64(out, TAG_DOWN, outer->down.entropy);
    }
    for (int i = 0; i < arm->n_frozen; i++)
        pl_put_u64(out, TAG_FROZEN, (uint64_t)arm->frozen[i]);
    for (int i = 0; i < PL_ABSENT_MAX; i++)
        if (spec->absent[i])
            pl_put_u64(out, TAG_ABSENT, (uint64_t)i);
    const pl_descent *d = &arm->descent;
    for (int l = 0; d->n_parents > 0 && l < spec->n_levels; l++)
        pl_put_u64(out, TAG_DESCENT, (uint64_t)d->level[l]);
    for (int i = 0; i < d->n_parents; i++)
        pl_put_u64(out, TAG_DESCENT, (uint64_t)d->parent[i]);
    for (int p = 0; p < arm->n_shards; p++)
        pl_put_hash(out, TAG_SHARD, &arm->shards[p]);
    for (int p = 0; p < arm->n_shards; p++)
        pl_put_f64(out, TAG_WEIGHT, arm->weights[p]);
    for (int p = 0; arm->held_every > 0 && p < arm->n_shards; p++)
        pl_put_hash(out, TAG_HELD, &arm->held[p]);
    for (int p = 0; arm->held_every > 0 && p < arm->n_shards; p++)
        pl_put_u64(out, TAG_HELD_BYTES, arm->held_bytes[p]);
}

/* Reads the number of an enumeration with `count` values. If the number is too large,
 * returns 0 and sets the reader's error. */
static int get_choice(pl_reader *r, uint16_t tag, size_t i, int count)
{
    uint64_t value = pl_get_u64(r, tag, i);
    if (value < (uint64_t)count)
        return (int)value;
    if (r->status == PL_OK)
        r->status = pl_fail(PL_ERR_PROTO, "%s: field %u has the unknown choice %lld",
                            r->what, tag, (long long)value);
    return 0;
}

static pl_state_kind get_kind(pl_reader *r, size_t i, unsigned allowed)
{
    int kind = get_choice(r, TAG_STATE, i, PL_STATE_COUNT);
    if (!(allowed >> kind & 1) && r->status == PL_OK)
        r->status =
            pl_fail(PL_ERR_PROTO, "%s: a vector of a path's state cannot have kind %d",
                    r->what, kind);
    return (pl_state_kind)kind;
}

pl_status pl_arm_decode(const void *data, size_t len, pl_arm *out)
{
    pl_reader r;
    memset(out, 0, sizeof *out);
    pl_reader_open(&r, "arm definition", data, len);
    pl_get_fields(&r, first_fields, out);
    pl_topology_spec *spec = &out->spec;
    size_t levels = pl_field_count(&r, TAG_EXPERTS);
    if (levels > PL_LEVELS_MAX)
        levels = PL_LEVELS_MAX;
    spec->n_levels = (int)levels;
    for (size_t l = 0; l < levels; l++)
        spec->experts[l] = get_choice(&r, TAG_EXPERTS, l, INT32_MAX);
    for (size_t l = 0; l < levels; l++)
        spec->blocks[l] = get_choice(&r, TAG_BLOCKS, l, INT32_MAX);
    for (size_t i = 0; i < pl_field_count(&r, TAG_PRIVATE); i++)
        spec->private_block[get_choice(&r, TAG_PRIVATE, i, PL_BLOCKS_MAX)] = true;
    pl_get_fields(&r, training_fields, out);
    pl_outer *outer = &out->outer;
    enum { F32 = 1 << PL_STATE_F32, BF16 = 1 << PL_STATE_BF16 };
    outer->state = get_kind(&r, 0, F32 | BF16 | 1 << PL_STATE_LOCAL);
    outer->residual = outer->own = PL_STATE_F32;
    if (pl_field_count(&r, TAG_STATE) >= 2) {
        outer->residual = get_kind(&r, 1, F32 | BF16 | 1 << PL_STATE_I8);
        outer->own = get_kind(&r, 2, F32 | BF16 | 1 << PL_STATE_F24);
    }
    const size_t n_down = pl_field_count(&r, TAG_DOWN);
    const pl_codec down = n_down > 0
                              ? (pl_codec)get_choice(&r, TAG_DOWN, 0, PL_CODEC_COUNT)
                              : PL_CODEC_F32;
    const pl_status down_status =
        pl_codec_options_default(pl_codec_name(down), &outer->down);
    if (down_status == PL_OK && n_down > 1)
        outer->down.entropy = pl_get_u64(&r, TAG_DOWN, 1) != 0;
    out->n_frozen = (int)pl_field_count(&r, TAG_FROZEN);
    out->frozen = pl_alloc(((size_t)out->n_frozen + 1) * sizeof *out->frozen);
    for (int i = 0; i < out->n_frozen; i++)
        out->frozen[i] = get_choice(&r, TAG_FROZEN, (size_t)i, INT32_MAX);
    for (size_t i = 0; i < pl_field_count(&r, TAG_ABSENT); i++)
        spec->absent[get_choice(&r, TAG_ABSENT, i, PL_ABSENT_MAX)] = true;
    /* the list of parents, which pl_topology_descends checks later */
    pl_descent *d = &out->descent;
    const size_t n_parents = pl_field_count(&r, TAG_DESCENT);
    if (n_parents > 0 && (n_parents <= levels || n_parents - levels > PL_DESCENT_MAX)) {
        r.status =
            pl_fail(PL_ERR_PROTO,
                    "%s: a list of parents cannot have %zu entries for %zu levels",
                    r.what, n_parents, levels);
    } else if (n_parents > 0) {
        for (size_t l = 0; l < levels; l++)
            d->level[l] = get_choice(&r, TAG_DESCENT, l, PL_LEVELS_MAX + 1);
        for (size_t i = levels; i < n_parents; i++)
            d->parent[d->n_parents++] = get_choice(&r, TAG_DESCENT, i, INT32_MAX);
    }
    size_t n = pl_field_count(&r, TAG_SHARD);
    out->n_shards = (int)n;
    out->shards = pl_alloc((n ? n : 1) * sizeof *out->shards);
    out->weights = pl_alloc((n ? n : 1) * sizeof *out->weights);
    for (size_t p = 0; p < n; p++) {
        out->shards[p] = pl_get_hash(&r, TAG_SHARD, p);
        out->weights[p] = pl_get_f64(&r, TAG_WEIGHT, p);
    }
    if (out->held_every != 0)
        pl_arm_hold(out);
    for (size_t p = 0; out->held_every != 0 && p < n; p++) {
        out->held[p] = pl_get_hash(&r, TAG_HELD, p);
        out->held_bytes[p] = pl_get_u64(&r, TAG_HELD_BYTES, p);
    }
    pl_status status = pl_reader_status(&r);
    if (status == PL_OK)
        status = down_status;
    if (status == PL_OK)
        status = pl_arm_check(out);
    if (status != PL_OK)
        pl_arm_clear(out);
    return status;
}

pl_status pl_read_arm(pl_store *store, const char *name, pl_arm *arm,
                      pl_topology **topology)
{
    char object[PL_MODULE_NAME_MAX];
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    memset(arm, 0, sizeof *arm);
    snprintf(object, sizeof object, "arm/%s", name);
    PL_TRY(pl_store_read_object(store, object, &bytes));
    PL_TRY(pl_arm_decode(bytes.data, bytes.len, arm));
    PL_TRY(pl_topology_create(&arm->shape, &arm->spec, topology));
done:
    pl_buf_destroy(&bytes);
    return status;
}
