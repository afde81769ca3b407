/* Encodes, decodes and checks the definition of an arm, and answers questions about it
 * (docs/PROTOCOL.md section 3.1). */
#include "outer/change.h"

enum {
    TAG_NAME = 1,
    TAG_SEED,
    TAG_CONFIG,
    TAG_MOMENTS,
    TAG_SHAPE_INT = 10, /* repeated: vocab, width, heads, kv heads, head size, ffn,
                           blocks, context, tied */
    TAG_SHAPE_REAL,     /* repeated: rope theta, norm eps */
    TAG_EXPERTS,        /* repeated: K of each level */
    TAG_BLOCKS,         /* repeated: blocks of each level */
    TAG_PRIVATE,        /* repeated: path-specific blocks */
    TAG_CHOICES,        /* repeated: embed, head (two's complement) */
    TAG_REPLICAS,
    TAG_INNER_INT = 30, /* repeated: batch, context, tau, phases, warmup, skip,
                           schedule, decay, first step, micro-batch */
    TAG_INNER_REAL,     /* repeated: lr, floor, beta1, beta2, eps, decay, clip */
    TAG_OUTER_LR,       /* repeated, by class */
    TAG_OUTER_MOMENTUM,
    TAG_OUTER_FLAGS, /* bit 0 weighted, 1 rescale, 2 feedback, 3 dynamic,
                        4 own consensus, 5 present */
    TAG_CODEC,
    TAG_METHOD_INT,  /* repeated: method, rule, gap, delay, inner steps, fragments,
                        overlap, buffer, staleness, decay, warm-up, phases, settle,
                        deadline if there is one */
    TAG_METHOD_REAL, /* repeated: curvature, consensus, gap constant, clip, mix, spread,
                        floor */
    TAG_CODEC_INT,   /* repeated: codec of each role, selector, value bits, entropy, k,
                        small */
    TAG_CODEC_REAL,  /* repeated: beta, cells */
    TAG_STATE,       /* of moments: 0 f32, 1 bf16, 2 local; if others are not f32: of
                        residuals, and 3 is i8; of own parameters, and 4 is f24 */
    TAG_DOWN,        /* of versions: codec, entropy; none: f32 */
    TAG_SHARD = 50,  /* repeated, in order of the paths */
    TAG_WEIGHT
};

void pl_arm_clear(pl_arm *arm)
{
    pl_free(arm->shards);
    pl_free(arm->weights);
    memset(arm, 0, sizeof *arm);
}

static void put_int(pl_buf *out, uint16_t tag, int value)
{
    pl_put_u64(out, tag, (uint64_t)(int64_t)value);
}

static void encode_shape(const pl_shape *s, pl_buf *out)
{
    const int ints[] = {s->vocab, s->width,    s->n_heads, s->n_kv_heads, s->head_size,
                        s->ffn,   s->n_blocks, s->context, s->tied};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        put_int(out, TAG_SHAPE_INT, ints[i]);
    pl_put_f64(out, TAG_SHAPE_REAL, s->rope_theta);
    pl_put_f64(out, TAG_SHAPE_REAL, s->norm_eps);
}

static void encode_spec(const pl_topology_spec *spec, int n_blocks, pl_buf *out)
{
    for (int l = 0; l < spec->n_levels; l++)
        put_int(out, TAG_EXPERTS, spec->experts[l]);
    for (int l = 0; l < spec->n_levels; l++)
        put_int(out, TAG_BLOCKS, spec->blocks[l]);
    for (int b = 0; b < n_blocks; b++)
        if (spec->private_block[b])
            put_int(out, TAG_PRIVATE, b);
    put_int(out, TAG_CHOICES, spec->embed_choice);
    put_int(out, TAG_CHOICES, spec->head_choice);
    put_int(out, TAG_REPLICAS, spec->replicas);
}

static void encode_method(const pl_outer *outer, pl_buf *out)
{
    const pl_method_settings *m = &outer->method;
    const pl_outer_schedule *sch = &outer->schedule;
    const int ints[] = {(int)m->method,  (int)m->rule,     (int)m->gap,
                        m->delay,        m->inner_steps,   m->fragments,
                        m->overlap,      m->buffer,        outer->staleness,
                        (int)sch->decay, (int)sch->warmup, (int)sch->phases,
                        (int)sch->settle};
    const double reals[] = {m->curvature, m->consensus, m->gap_constant, m->clip,
                            m->mix,       m->spread,    sch->floor};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        put_int(out, TAG_METHOD_INT, ints[i]);
    if (outer->deadline_ms > 0)
        put_int(out, TAG_METHOD_INT, outer->deadline_ms);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        pl_put_f64(out, TAG_METHOD_REAL, reals[i]);
    if (outer->quorum > 0) {
        pl_put_f64(out, TAG_METHOD_REAL, outer->quorum);
        pl_put_f64(out, TAG_METHOD_REAL, outer->late_weight);
    }
}

static void encode_codec(const pl_codec_options *c, pl_buf *out)
{
    for (int r = 0; r < PL_ROLE_COUNT; r++)
        put_int(out, TAG_CODEC_INT, c->codec[r]);
    put_int(out, TAG_CODEC_INT, c->selector);
    put_int(out, TAG_CODEC_INT, c->value_bits);
    put_int(out, TAG_CODEC_INT, c->entropy);
    put_int(out, TAG_CODEC_INT, c->k);
    put_int(out, TAG_CODEC_INT, c->small);
    pl_put_f64(out, TAG_CODEC_REAL, c->beta);
    pl_put_f64(out, TAG_CODEC_REAL, c->cells);
}

static void encode_training(const pl_inner *in, const pl_outer *outer, pl_buf *out)
{
    const int ints[] = {in->batch,      in->context,     in->tau,           in->phases,
                        in->warmup,     in->skip_prefix, (int)in->schedule, in->decay,
                        in->first_step, in->micro_batch};
    const double reals[] = {in->lr,  in->lr_floor,     in->beta1, in->beta2,
                            in->eps, in->weight_decay, in->clip};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        put_int(out, TAG_INNER_INT, ints[i]);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        pl_put_f64(out, TAG_INNER_REAL, reals[i]);
    for (int c = 0; c < PL_CLASS_COUNT; c++)
        pl_put_f64(out, TAG_OUTER_LR, outer->lr[c]);
    for (int c = 0; c < PL_CLASS_COUNT; c++)
        pl_put_f64(out, TAG_OUTER_MOMENTUM, outer->momentum[c]);
    put_int(out, TAG_OUTER_FLAGS,
            (outer->weighted ? 1 : 0) | (outer->rescale ? 2 : 0) |
                (outer->feedback ? 4 : 0) | (outer->dynamic ? 8 : 0) |
                (outer->own_consensus ? 16 : 0) | (outer->present ? 32 : 0));
    pl_put_text(out, TAG_CODEC, outer->codec_name);
    encode_method(outer, out);
    encode_codec(&outer->codec, out);
    put_int(out, TAG_STATE, (int)outer->state);
    if (outer->residual != PL_STATE_F32 || outer->own != PL_STATE_F32) {
        put_int(out, TAG_STATE, (int)outer->residual);
        put_int(out, TAG_STATE, (int)outer->own);
    }
    if (outer->down.codec[PL_ROLE_MLP] > PL_CODEC_F32) {
        put_int(out, TAG_DOWN, outer->down.codec[PL_ROLE_MLP]);
        put_int(out, TAG_DOWN, outer->down.entropy);
    }
}

void pl_arm_encode(const pl_arm *arm, pl_buf *out)
{
    pl_put_text(out, TAG_NAME, arm->name);
    pl_put_u64(out, TAG_SEED, arm->seed);
    pl_put_hash(out, TAG_CONFIG, &arm->config);
    if (!pl_hash_none(&arm->moments))
        pl_put_hash(out, TAG_MOMENTS, &arm->moments);
    encode_shape(&arm->shape, out);
    encode_spec(&arm->spec, arm->shape.n_blocks, out);
    encode_training(&arm->inner, &arm->outer, out);
    for (int p = 0; p < arm->n_shards; p++)
        pl_put_hash(out, TAG_SHARD, &arm->shards[p]);
    for (int p = 0; p < arm->n_shards; p++)
        pl_put_f64(out, TAG_WEIGHT, arm->weights[p]);
}

/* Reads an int that fits. If it does not fit, the reader fails, because a field is
 * asked for that does not exist. */
static int get_int(pl_reader *r, uint16_t tag, size_t i)
{
    int64_t value = (int64_t)pl_get_u64(r, tag, i);
    if (value < INT32_MIN || value > INT32_MAX) {
        if (r->status == PL_OK)
            r->status =
                pl_fail(PL_ERR_PROTO, "%s: field %u is out of range", r->what, tag);
        return 0;
    }
    return (int)value;
}

static void decode_shape(pl_reader *r, pl_shape *s)
{
    int *ints[] = {&s->vocab,     &s->width, &s->n_heads,  &s->n_kv_heads,
                   &s->head_size, &s->ffn,   &s->n_blocks, &s->context};
    size_t n = sizeof ints / sizeof *ints;
    for (size_t i = 0; i < n; i++)
        *ints[i] = get_int(r, TAG_SHAPE_INT, i);
    s->tied = get_int(r, TAG_SHAPE_INT, n) != 0;
    s->rope_theta = pl_get_f64(r, TAG_SHAPE_REAL, 0);
    s->norm_eps = pl_get_f64(r, TAG_SHAPE_REAL, 1);
}

static void decode_spec(pl_reader *r, pl_topology_spec *spec)
{
    size_t levels = pl_field_count(r, TAG_EXPERTS);
    if (levels > PL_LEVELS_MAX)
        levels = PL_LEVELS_MAX;
    spec->n_levels = (int)levels;
    for (size_t l = 0; l < levels; l++)
        spec->experts[l] = get_int(r, TAG_EXPERTS, l);
    for (size_t l = 0; l < levels; l++)
        spec->blocks[l] = get_int(r, TAG_BLOCKS, l);
    for (size_t i = 0; i < pl_field_count(r, TAG_PRIVATE); i++) {
        int b = get_int(r, TAG_PRIVATE, i);
        if (b >= 0 && b < PL_BLOCKS_MAX)
            spec->private_block[b] = true;
    }
    spec->embed_choice = get_int(r, TAG_CHOICES, 0);
    spec->head_choice = get_int(r, TAG_CHOICES, 1);
    spec->replicas = get_int(r, TAG_REPLICAS, 0);
}

/* Values of enumerations are checked here; pl_method_check checks the rest. */
static int get_choice(pl_reader *r, uint16_t tag, size_t i, int count)
{
    int value = get_int(r, tag, i);
    if (value >= 0 && value < count)
        return value;
    if (r->status == PL_OK)
        r->status =
            pl_fail(PL_ERR_PROTO, "%s: field %u has no choice %d", r->what, tag, value);
    return 0;
}

static void decode_method(pl_reader *r, pl_outer *outer)
{
    pl_method_settings *m = &outer->method;
    pl_outer_schedule *sch = &outer->schedule;
    int *ints[] = {&m->delay,   &m->inner_steps, &m->fragments,
                   &m->overlap, &m->buffer,      &outer->staleness};
    double *reals[] = {&m->curvature, &m->consensus, &m->gap_constant, &m->clip,
                       &m->mix,       &m->spread,    &sch->floor};
    m->method = (pl_method)get_choice(r, TAG_METHOD_INT, 0, PL_METHOD_COUNT);
    m->rule = (pl_rule)get_choice(r, TAG_METHOD_INT, 1, 2);
    m->gap = (pl_gap)get_choice(r, TAG_METHOD_INT, 2, 3);
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        *ints[i] = get_int(r, TAG_METHOD_INT, 3 + i);
    sch->decay = (pl_decay)get_choice(r, TAG_METHOD_INT, 9, 3);
    sch->warmup = get_int(r, TAG_METHOD_INT, 10);
    sch->phases = get_int(r, TAG_METHOD_INT, 11);
    sch->settle = get_int(r, TAG_METHOD_INT, 12);
    if (pl_field_count(r, TAG_METHOD_INT) > 13)
        outer->deadline_ms = get_int(r, TAG_METHOD_INT, 13);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        *reals[i] = pl_get_f64(r, TAG_METHOD_REAL, i);
    if (pl_field_count(r, TAG_METHOD_REAL) <= sizeof reals / sizeof *reals)
        return;
    outer->quorum = pl_get_f64(r, TAG_METHOD_REAL, sizeof reals / sizeof *reals);
    outer->late_weight =
        pl_get_f64(r, TAG_METHOD_REAL, sizeof reals / sizeof *reals + 1);
}

static void decode_codec(pl_reader *r, pl_codec_options *c)
{
    size_t at = PL_ROLE_COUNT;
    for (size_t role = 0; role < PL_ROLE_COUNT; role++)
        c->codec[role] = (uint8_t)get_choice(r, TAG_CODEC_INT, role, PL_CODEC_COUNT);
    c->selector = (uint8_t)get_choice(r, TAG_CODEC_INT, at, PL_SELECT_COUNT);
    c->value_bits = (uint8_t)get_choice(r, TAG_CODEC_INT, at + 1, 9);
    c->entropy = get_int(r, TAG_CODEC_INT, at + 2) != 0;
    c->k = get_int(r, TAG_CODEC_INT, at + 3);
    c->small = get_int(r, TAG_CODEC_INT, at + 4);
    c->beta = pl_get_f64(r, TAG_CODEC_REAL, 0);
    c->cells = pl_get_f64(r, TAG_CODEC_REAL, 1);
}

static pl_status decode_down(pl_reader *r, pl_codec_options *down)
{
    pl_codec codec = PL_CODEC_F32;
    if (pl_field_count(r, TAG_DOWN) > 0)
        codec = (pl_codec)get_choice(r, TAG_DOWN, 0, PL_CODEC_COUNT);
    PL_RETURN_IF(pl_codec_options_default(pl_codec_name(codec), down));
    if (pl_field_count(r, TAG_DOWN) > 1)
        down->entropy = get_int(r, TAG_DOWN, 1) != 0;
    return PL_OK;
}

static pl_state_kind get_kind(pl_reader *r, size_t i, unsigned allowed)
{
    int kind = get_choice(r, TAG_STATE, i, PL_STATE_COUNT);
    if (!(allowed >> kind & 1) && r->status == PL_OK)
        r->status = pl_fail(PL_ERR_PROTO, "%s: a path's state has no kind %d there",
                            r->what, kind);
    return (pl_state_kind)kind;
}

static void decode_state(pl_reader *r, pl_outer *outer)
{
    enum { F32 = 1 << PL_STATE_F32, BF16 = 1 << PL_STATE_BF16 };
    outer->state = get_kind(r, 0, F32 | BF16 | 1 << PL_STATE_LOCAL);
    outer->residual = outer->own = PL_STATE_F32;
    if (pl_field_count(r, TAG_STATE) < 2)
        return;
    outer->residual = get_kind(r, 1, F32 | BF16 | 1 << PL_STATE_I8);
    outer->own = get_kind(r, 2, F32 | BF16 | 1 << PL_STATE_F24);
}

static pl_status decode_training(pl_reader *r, pl_inner *in, pl_outer *outer)
{
    int *ints[] = {&in->batch,  &in->context, &in->tau,
                   &in->phases, &in->warmup,  &in->skip_prefix};
    double *reals[] = {&in->lr,  &in->lr_floor,     &in->beta1, &in->beta2,
                       &in->eps, &in->weight_decay, &in->clip};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        *ints[i] = get_int(r, TAG_INNER_INT, i);
    in->schedule = (pl_schedule_kind)get_choice(r, TAG_INNER_INT, 6, PL_SCHEDULE_COUNT);
    in->decay = get_int(r, TAG_INNER_INT, 7);
    in->first_step = get_int(r, TAG_INNER_INT, 8);
    in->micro_batch = get_int(r, TAG_INNER_INT, 9);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        *reals[i] = pl_get_f64(r, TAG_INNER_REAL, i);
    for (size_t c = 0; c < PL_CLASS_COUNT; c++)
        outer->lr[c] = pl_get_f64(r, TAG_OUTER_LR, c);
    for (size_t c = 0; c < PL_CLASS_COUNT; c++)
        outer->momentum[c] = pl_get_f64(r, TAG_OUTER_MOMENTUM, c);
    int flags = get_int(r, TAG_OUTER_FLAGS, 0);
    outer->weighted = flags & 1;
    outer->rescale = flags & 2;
    outer->feedback = flags & 4;
    outer->dynamic = flags & 8;
    outer->own_consensus = flags & 16;
    outer->present = flags & 32;
    pl_get_text(r, TAG_CODEC, 0, outer->codec_name, sizeof outer->codec_name);
    decode_method(r, outer);
    decode_codec(r, &outer->codec);
    decode_state(r, outer);
    return decode_down(r, &outer->down);
}

pl_status pl_quorum_check(const pl_outer *outer)
{
    bool shares = outer->quorum >= 0 && outer->quorum <= 1 && outer->late_weight >= 0 &&
                  outer->late_weight <= 1;
    if (!shares)
        return pl_fail(PL_ERR_CONFIG,
                       "a quorum of %g with a weight of %g for late updates: both are "
                       "from 0 to 1",
                       outer->quorum, outer->late_weight);
    if (outer->quorum > 0 && pl_codec_is_homomorphic(&outer->codec))
        return pl_fail(PL_ERR_CONFIG,
                       "rounds of codec %s are decoded as one sum of all contributors; "
                       "outer.quorum goes with f32, bf16, i8, i4 and topk",
                       outer->codec_name);
    return PL_OK;
}

/* Returns why outer.mean=present cannot be used with these settings, or NULL. */
static const char *against_present(const pl_outer *outer)
{
    bool leaves_out = false, rounds = false;
    for (int role = 0; role < PL_ROLE_COUNT; role++) {
        const int codec = outer->codec.codec[role];
        leaves_out = leaves_out || codec == PL_CODEC_TOPK;
        rounds = rounds || (codec != PL_CODEC_TOPK && codec != PL_CODEC_F32);
    }
    if (!leaves_out || rounds)
        return "codec.name=topk, beside f32 at most: others send all values, some "
               "rounded to 0";
    if (!pl_method_averages(outer->method.method))
        return "outer.method diloco, fedavg, heavy-ball or co2: paths of the others go "
               "on by the share that their update has in the mean";
    for (int k = 0; k < PL_CLASS_PRIVATE; k++)
        if (outer->momentum[k] != 0)
            return "no outer momentum (outer.method=fedavg has none): it diverges with "
                   "steps that are whole where one contributor sends";
    if (outer->rescale)
        return "outer.rescale=false: its values are not shrunk by contributors";
    if (outer->quorum > 0 && outer->late_weight > 0)
        return "outer.late_weight=0: where only a late update has a value, no weight "
               "makes it less";
    return NULL;
}

pl_status pl_mean_check(const pl_outer *outer)
{
    const char *needed = outer->present ? against_present(outer) : NULL;
    if (needed)
        return pl_fail(PL_ERR_CONFIG, "outer.mean=present needs %s", needed);
    return PL_OK;
}

int pl_arm_pass(const pl_inner *in)
{
    return in->micro_batch > 0 ? in->micro_batch : in->batch;
}

pl_schedule pl_arm_schedule(const pl_inner *in)
{
    return (pl_schedule){.kind = in->schedule,
                         .warmup = in->warmup,
                         .total =
                             in->first_step + (int64_t)in->tau * (int64_t)in->phases,
                         .decay = in->decay,
                         .peak = in->lr,
                         .floor = in->lr_floor};
}

static pl_status check_inner(const pl_arm *arm)
{
    const pl_inner *in = &arm->inner;
    if (in->batch < 1 || in->micro_batch < 0 || in->micro_batch > in->batch ||
        in->context < 1 || in->tau < 1 || in->phases < 0 ||
        in->context > arm->shape.context || in->first_step < 0 || in->decay < 0 ||
        in->decay > (int64_t)in->tau * in->phases)
        return pl_fail(PL_ERR_PROTO,
                       "arm %s has an impossible inner loop: batch %d in passes of %d, "
                       "context %d, tau "
                       "%d, phases %d, decay %d, first step %d",
                       arm->name, in->batch, in->micro_batch, in->context, in->tau,
                       in->phases, in->decay, in->first_step);
    return PL_OK;
}

/* A definition is accepted only if a topology can be made of it. */
static pl_status check_arm(const pl_arm *arm)
{
    pl_topology *topology = NULL;
    pl_status status = pl_topology_create(&arm->shape, &arm->spec, &topology);
    if (status == PL_OK &&
        (int64_t)pl_topology_n_paths(topology) * pl_topology_n_replicas(topology) >
            PL_TASKS_MAX)
        status = pl_fail(PL_ERR_CONFIG,
                         "arm %s has %d paths of %d replicas; at most %d trainings fit",
                         arm->name, pl_topology_n_paths(topology),
                         pl_topology_n_replicas(topology), PL_TASKS_MAX);
    if (status == PL_OK && pl_topology_n_paths(topology) != arm->n_shards)
        status = pl_fail(PL_ERR_PROTO, "arm %s has %d paths but %d data shards",
                         arm->name, pl_topology_n_paths(topology), arm->n_shards);
    if (status == PL_OK)
        status = check_inner(arm);
    if (status == PL_OK)
        status = pl_codec_options_check(&arm->outer.codec);
    if (status == PL_OK)
        status = pl_change_check(&arm->outer);
    if (status == PL_OK)
        status = pl_quorum_check(&arm->outer);
    if (status == PL_OK)
        status = pl_mean_check(&arm->outer);
    for (int m = 0; status == PL_OK && m < pl_topology_n_modules(topology); m++) {
        pl_method_settings settings = pl_arm_method(arm, topology, m);
        status = pl_method_check(&settings);
    }
    pl_topology_destroy(&topology);
    return status;
}

pl_status pl_arm_decode(const void *data, size_t len, pl_arm *out)
{
    pl_reader r;
    memset(out, 0, sizeof *out);
    pl_reader_open(&r, "arm definition", data, len);
    pl_get_text(&r, TAG_NAME, 0, out->name, sizeof out->name);
    out->seed = pl_get_u64(&r, TAG_SEED, 0);
    out->config = pl_get_hash(&r, TAG_CONFIG, 0);
    if (pl_field_count(&r, TAG_MOMENTS) > 0)
        out->moments = pl_get_hash(&r, TAG_MOMENTS, 0);
    decode_shape(&r, &out->shape);
    decode_spec(&r, &out->spec);
    pl_status training = decode_training(&r, &out->inner, &out->outer);
    size_t n = pl_field_count(&r, TAG_SHARD);
    out->n_shards = (int)n;
    out->shards = pl_alloc((n ? n : 1) * sizeof *out->shards);
    out->weights = pl_alloc((n ? n : 1) * sizeof *out->weights);
    for (size_t p = 0; p < n; p++) {
        out->shards[p] = pl_get_hash(&r, TAG_SHARD, p);
        out->weights[p] = pl_get_f64(&r, TAG_WEIGHT, p);
    }
    pl_status status = pl_reader_status(&r);
    if (status == PL_OK)
        status = training;
    if (status == PL_OK)
        status = check_arm(out);
    if (status != PL_OK)
        pl_arm_clear(out);
    return status;
}

int pl_arm_contributors(const pl_topology *topology, int module)
{
    return pl_topology_module_n_paths(topology, module) *
           pl_topology_n_replicas(topology);
}

pl_class pl_arm_class(const pl_topology *topology, int module)
{
    const pl_slot *slot =
        pl_topology_slot(topology, pl_topology_module_slot(topology, module));
    if (pl_arm_contributors(topology, module) == 1)
        return PL_CLASS_PRIVATE;
    if (slot->kind == PL_SLOT_EMBED)
        return PL_CLASS_EMBED;
    if (slot->kind == PL_SLOT_HEAD)
        return PL_CLASS_HEAD;
    return slot->n_experts == 1 || slot->choice == PL_CHOICE_PRIVATE ? PL_CLASS_COMMON
                                                                     : PL_CLASS_LEVEL;
}

pl_method_settings pl_arm_method(const pl_arm *arm, const pl_topology *topology,
                                 int module)
{
    pl_class class = pl_arm_class(topology, module);
    int contributors = pl_arm_contributors(topology, module);
    pl_method_settings m =
        contributors == 1 ? pl_method_defaults(PL_METHOD_DILOCO) : arm->outer.method;
    m.lr = arm->outer.lr[class];
    m.momentum = arm->outer.momentum[class];
    m.curvature = arm->outer.method.curvature;
    m.holders = contributors;
    if (pl_traits(m.method)->gossips && !arm->outer.own_consensus)
        m.consensus = m.lr; /* one vector travels, so gamma is beta */
    return m;
}

double pl_arm_share(const pl_arm *arm, const pl_topology *topology, int module,
                    int path)
{
    double total = 0;
    for (int i = 0; i < pl_topology_module_n_paths(topology, module); i++)
        total += arm->weights[pl_topology_module_path(topology, module, i)];
    int replicas = pl_topology_n_replicas(topology);
    if (!arm->outer.weighted || total <= 0)
        return 1.0 / pl_arm_contributors(topology, module);
    return arm->weights[path] / (total * replicas);
}

void pl_arm_module_name(const pl_arm *arm, const pl_topology *t, int module,
                        char out[96])
{
    char name[PL_NAME_MAX];
    pl_topology_module_name(t, module, name);
    snprintf(out, 96, "%s/%s", arm->name, name);
}

void pl_arm_path_name(const pl_arm *arm, const pl_topology *t, int path, int replica,
                      char out[96])
{
    char name[PL_NAME_MAX];
    pl_topology_path_name(t, path, name);
    snprintf(out, 96, "%s/%s.r%d", arm->name, name, replica);
}

uint64_t pl_arm_stream(const pl_arm *arm, int path)
{
    return pl_stream("samples", (uint64_t)path, pl_stream(arm->name, 0, 0));
}
