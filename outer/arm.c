/* Encodes, decodes and checks the definition of an arm, and computes names and settings
 * from it (docs/PROTOCOL.md section 3.1). */
#include "outer/change.h"
#include "outer/held.h"
#include "outer/rounds.h"

/* Tags of fields that are lists of variable length, or that depend on more than one
 * member of the struct. All other tags are in the tables below. */
enum {
    TAG_EXPERTS = 12, /* number of experts of each level */
    TAG_BLOCKS,       /* number of blocks of each level */
    TAG_PRIVATE,      /* numbers of the path-specific blocks */
    /* pl_state_kind of the moments; then the kinds of residuals and of own parameters,
     * unless both are f32 */
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
    pl_free(arm->shards);
    pl_free(arm->weights);
    pl_free(arm->frozen);
    pl_free(arm->held);
    pl_free(arm->held_bytes);
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

/* The tables of fields limit the values of enumerations; check_arm checks whether all
 * values fit together. */
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
    PL_FIELD_CHOICE(pl_arm, 36, outer.method.gap, 3),
    PL_FIELD(pl_arm, 36, outer.method.delay),
    PL_FIELD(pl_arm, 36, outer.method.inner_steps),
    PL_FIELD(pl_arm, 36, outer.method.fragments),
    PL_FIELD(pl_arm, 36, outer.method.overlap),
    PL_FIELD(pl_arm, 36, outer.method.buffer),
    PL_FIELD(pl_arm, 36, outer.staleness),
    PL_FIELD_CHOICE(pl_arm, 36, outer.schedule.decay, 3),
    PL_FIELD_CHOICE(pl_arm, 36, outer.schedule.warmup, INT_LIMIT),
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

static pl_status decode_down(pl_reader *r, pl_codec_options *down)
{
    pl_codec codec = PL_CODEC_F32;
    if (pl_field_count(r, TAG_DOWN) > 0)
        codec = (pl_codec)get_choice(r, TAG_DOWN, 0, PL_CODEC_COUNT);
    PL_CHECK(pl_codec_options_default(pl_codec_name(codec), down));
    if (pl_field_count(r, TAG_DOWN) > 1)
        down->entropy = pl_get_u64(r, TAG_DOWN, 1) != 0;
    return PL_OK;
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

pl_status pl_quorum_check(const pl_outer *outer)
{
    bool shares = outer->quorum >= 0 && outer->quorum <= 1 && outer->late_weight >= 0 &&
                  outer->late_weight <= 1;
    if (!shares)
        return pl_fail(
            PL_ERR_CONFIG,
            "outer.quorum is %g and outer.late_weight is %g; both must be from 0 to 1",
            outer->quorum, outer->late_weight);
    if (outer->quorum > 0 && pl_codec_is_homomorphic(&outer->codec))
        return pl_fail(
            PL_ERR_CONFIG,
            "codec %s can decode only the sum of all contributors of a round; "
            "outer.quorum works only with f32, bf16, i8, i4 and topk",
            outer->codec_name);
    return PL_OK;
}

/* Returns a text with a condition of outer.mean=present that these settings do not
 * meet; NULL if they meet all conditions. */
static const char *against_present(const pl_outer *outer)
{
    bool leaves_out = false, rounds = false;
    for (int role = 0; role < PL_ROLE_COUNT; role++) {
        const int codec = outer->codec.codec[role];
        leaves_out = leaves_out || codec == PL_CODEC_TOPK;
        rounds = rounds || (codec != PL_CODEC_TOPK && codec != PL_CODEC_F32);
    }
    if (!leaves_out || rounds)
        return "codec.name=topk: other codecs send all values, some of them rounded "
               "to 0";
    if (!pl_method_averages(outer->method.method))
        return "outer.method diloco, iso, fedavg, heavy-ball or co2: under other "
               "methods a path must know the weight of its update in the mean";
    for (int k = 0; k < PL_CLASS_PRIVATE; k++)
        if (outer->momentum[k] != 0)
            return "momentum 0 (for example outer.method=fedavg): with momentum the "
                   "values that only one contributor sends diverge";
    if (outer->rescale)
        return "outer.rescale=false: this mean does not shrink with more contributors";
    if (outer->quorum > 0 && outer->late_weight > 0)
        return "outer.late_weight=0: a value that only a late update sends would "
               "count fully, although late updates must count less";
    return NULL;
}

pl_status pl_mean_check(const pl_outer *outer)
{
    const char *needed = outer->present ? against_present(outer) : NULL;
    if (needed)
        return pl_fail(PL_ERR_CONFIG, "outer.mean=present needs %s", needed);
    return PL_OK;
}

pl_status pl_state_every_check(const pl_outer *outer)
{
    enum { EVERY_MAX = 1000000 };
    if (outer->state_every < 0 || outer->state_every > EVERY_MAX)
        return pl_fail(PL_ERR_CONFIG, "train.state_every is %d; it must be 1 to %d",
                       outer->state_every, (int)EVERY_MAX);
    if (outer->state_every <= 1 || pl_phase_repeats(outer))
        return PL_OK;
    if (outer->state == PL_STATE_LOCAL)
        return pl_fail(
            PL_ERR_CONFIG,
            "train.state_every is %d, but with train.state=local no state is "
            "uploaded; set train.state_every=1, or train.state to f32 or "
            "bf16",
            outer->state_every);
    return pl_fail(
        PL_ERR_CONFIG,
        "train.state_every is %d, but phases of %s cannot be repeated "
        "later, so every state must be uploaded; set train.state_every=1, or "
        "use diloco, iso, fedavg, heavy-ball, co2 or streaming",
        outer->state_every, pl_traits(outer->method.method)->name);
}

int pl_arm_pass(const pl_inner *in)
{
    return in->micro_batch > 0 ? in->micro_batch : in->batch;
}

uint64_t pl_arm_scores_bytes(const pl_arm *arm)
{
    return (uint64_t)arm->n_scored * (arm->feature_windows > 0
                                          ? (uint64_t)arm->shape.width * sizeof(float)
                                          : sizeof(double));
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

static pl_status check_scoring(const pl_arm *arm)
{
    enum { SCORED_MAX = 1 << 27 };
    bool plain = arm->inner.phases == 1 && arm->spec.replicas == 1 &&
                 !pl_traits(arm->outer.method.method)->streams &&
                 !pl_method_keeps_own(arm->outer.method.method) &&
                 pl_hash_none(&arm->moments) && pl_hash_none(&arm->states);
    if (arm->n_scored == 0 && arm->feature_windows == 0)
        return PL_OK;
    if (arm->feature_windows >= 0 && arm->n_scored > 0 && arm->n_scored <= SCORED_MAX &&
        pl_arm_scores_bytes(arm) <= SCORED_MAX * sizeof(double) && plain)
        return PL_OK;
    return pl_fail(
        PL_ERR_PROTO,
        "arm %s cannot score %lld documents per shard: an arm that scores needs 1 to "
        "%d documents per shard with results of at most 1 GiB, one phase, one replica, "
        "a method whose paths keep no vectors, and no moments or states to begin with",
        arm->name, (long long)arm->n_scored, (int)SCORED_MAX);
}

static pl_status check_inner(const pl_arm *arm)
{
    const pl_inner *in = &arm->inner;
    if (in->batch < 1 || in->micro_batch < 0 || in->micro_batch > in->batch ||
        in->context < 1 || in->tau < 1 || in->phases < 0 ||
        in->context > arm->shape.context || in->first_step < 0 || in->decay < 0 ||
        in->decay > (int64_t)in->tau * in->phases || in->muon_rows < 0 ||
        in->threads < 0 || in->threads > PL_TASK_THREADS_MAX)
        return pl_fail(
            PL_ERR_PROTO,
            "arm %s has settings that no training can have; at least one of these is "
            "wrong: batch %d, micro-batch %d, context %d, tau %d, phases %d, decay "
            "%d, first step %d, muon_rows %d, threads %d",
            arm->name, in->batch, in->micro_batch, in->context, in->tau, in->phases,
            in->decay, in->first_step, in->muon_rows, in->threads);
    return PL_OK;
}

/* Checks the list of parents without the topology of the previous arm.
 * pl_topology_descends checks it against that topology later. */
static pl_status check_descent(const pl_arm *arm)
{
    const pl_descent *d = &arm->descent;
    const int n_levels = arm->spec.n_levels;
    int n_experts = 0, n_before = 0;
    for (int l = 0; l < PL_LEVELS_MAX; l++)
        n_before += d->experts[l] != 0;
    bool good = true;
    for (int l = 0; good && l < n_before; l++)
        good = d->experts[l] > 0;
    if (d->n_parents == 0) {
        good = good && (n_before == 0 || (n_before == n_levels && arm->before[0]));
        for (int l = 0; good && l < n_before; l++)
            good = arm->spec.experts[l] % d->experts[l] == 0;
    }
    for (int l = 0; good && d->n_parents > 0 && l < n_levels; l++) {
        const int last = l > 0 ? d->level[l - 1] : 1, k = arm->spec.experts[l];
        good = d->level[l] >= last && d->level[l] <= last + (l > 0) &&
               d->level[l] <= n_before && k <= d->n_parents - n_experts;
        for (int e = 0; good && e < k; e++)
            good = d->parent[n_experts + e] < d->experts[d->level[l] - 1];
        n_experts += k;
    }
    if (good && (d->n_parents == 0 ||
                 (n_experts == d->n_parents && d->level[n_levels - 1] == n_before)))
        return PL_OK;
    return pl_fail(PL_ERR_PROTO,
                   "arm %s does not say for each module from which module of the "
                   "previous arm it descends",
                   arm->name);
}

/* Checks the frozen modules: they must be in rising order, and each path must have a
 * module that is not frozen. A frozen module has no rounds. Methods whose paths have
 * their own parameters, or that count arrivals, need rounds of every module, so they
 * cannot have frozen modules. */
static pl_status check_frozen(const pl_arm *arm, const pl_topology *t)
{
    const pl_method_traits *of = pl_traits(arm->outer.method.method);
    bool good =
        arm->n_frozen == 0 || (!of->streams && !of->arrives && arm->n_scored == 0 &&
                               !pl_method_keeps_own(arm->outer.method.method));
    for (int i = 0; good && i < arm->n_frozen; i++)
        good = arm->frozen[i] > (i > 0 ? arm->frozen[i - 1] : -1) &&
               arm->frozen[i] < pl_topology_n_modules(t);
    for (int p = 0; good && p < pl_topology_n_paths(t); p++) {
        int n_trained = 0;
        for (int s = 0; s < pl_topology_n_slots(t); s++)
            n_trained += !pl_arm_is_frozen(arm, pl_topology_module_of_path(t, s, p));
        good = n_trained > 0;
    }
    if (good)
        return PL_OK;
    return pl_fail(PL_ERR_PROTO,
                   "arm %s cannot train with %d of %d modules frozen: its method must "
                   "allow frozen modules, their list must be in rising order, and "
                   "every path needs a module that is not frozen",
                   arm->name, arm->n_frozen, pl_topology_n_modules(t));
}

bool pl_arm_is_frozen(const pl_arm *arm, int module)
{
    int low = 0, high = arm->n_frozen;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (arm->frozen[middle] == module)
            return true;
        if (arm->frozen[middle] < module)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* Checks a definition. After success, its topology can be created. */
static pl_status check_arm(const pl_arm *arm)
{
    pl_topology *topology = NULL;
    pl_status status = pl_topology_create(&arm->shape, &arm->spec, &topology);
    if (status == PL_OK &&
        (int64_t)pl_topology_n_paths(topology) * pl_topology_n_replicas(topology) >
            PL_TASKS_MAX)
        status = pl_fail(PL_ERR_CONFIG,
                         "arm %s has %d paths with %d replicas each; paths times "
                         "replicas may be at most %d",
                         arm->name, pl_topology_n_paths(topology),
                         pl_topology_n_replicas(topology), PL_TASKS_MAX);
    if (status == PL_OK && pl_topology_n_paths(topology) != arm->n_shards)
        status = pl_fail(PL_ERR_PROTO, "arm %s has %d paths but %d data shards",
                         arm->name, pl_topology_n_paths(topology), arm->n_shards);
    if (status == PL_OK && (arm->before[0] != '\0') == pl_hash_none(&arm->states))
        status = pl_fail(PL_ERR_PROTO,
                         "arm %s must name both the arm that it continues and the "
                         "states with which it begins, or neither",
                         arm->name);
    if (status == PL_OK)
        status = check_descent(arm);
    if (status == PL_OK && (arm->held_every < 0 || arm->held_prefix < 0))
        status = pl_fail(
            PL_ERR_PROTO,
            "arm %s has held_every %d and held_prefix %d; both must be 0 or more",
            arm->name, arm->held_every, arm->held_prefix);
    if (status == PL_OK)
        status = check_frozen(arm, topology);
    if (status == PL_OK)
        status = check_scoring(arm);
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
    if (status == PL_OK)
        status = pl_state_every_check(&arm->outer);
    for (int m = 0; status == PL_OK && m < pl_topology_n_modules(topology); m++) {
        pl_method_settings settings = pl_arm_method(arm, topology, m);
        status = pl_method_check(&settings);
    }
    pl_topology_destroy(&topology);
    return status;
}

static void decode_held(pl_reader *r, pl_arm *out)
{
    const size_t n = (size_t)out->n_shards;
    if (out->held_every == 0)
        return;
    pl_arm_hold(out);
    for (size_t p = 0; p < n; p++) {
        out->held[p] = pl_get_hash(r, TAG_HELD, p);
        out->held_bytes[p] = pl_get_u64(r, TAG_HELD_BYTES, p);
    }
}

/* Reads the list of parents. pl_topology_descends checks later whether the list fits
 * the previous chapter. */
static void decode_descent(pl_reader *r, pl_arm *out)
{
    pl_descent *d = &out->descent;
    const size_t n = pl_field_count(r, TAG_DESCENT),
                 n_levels = (size_t)out->spec.n_levels;
    if (n == 0)
        return;
    if (n <= n_levels || n - n_levels > PL_DESCENT_MAX) {
        r->status =
            pl_fail(PL_ERR_PROTO,
                    "%s: a list of parents cannot have %zu entries for %zu levels",
                    r->what, n, n_levels);
        return;
    }
    for (size_t l = 0; l < n_levels; l++)
        d->level[l] = get_choice(r, TAG_DESCENT, l, PL_LEVELS_MAX + 1);
    for (size_t i = n_levels; i < n; i++)
        d->parent[d->n_parents++] = get_choice(r, TAG_DESCENT, i, INT32_MAX);
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
    pl_status training = decode_down(&r, &out->outer.down);
    out->n_frozen = (int)pl_field_count(&r, TAG_FROZEN);
    out->frozen = pl_alloc(((size_t)out->n_frozen + 1) * sizeof *out->frozen);
    for (int i = 0; i < out->n_frozen; i++)
        out->frozen[i] = get_choice(&r, TAG_FROZEN, (size_t)i, INT32_MAX);
    for (size_t i = 0; i < pl_field_count(&r, TAG_ABSENT); i++)
        spec->absent[get_choice(&r, TAG_ABSENT, i, PL_ABSENT_MAX)] = true;
    decode_descent(&r, out);
    size_t n = pl_field_count(&r, TAG_SHARD);
    out->n_shards = (int)n;
    out->shards = pl_alloc((n ? n : 1) * sizeof *out->shards);
    out->weights = pl_alloc((n ? n : 1) * sizeof *out->weights);
    for (size_t p = 0; p < n; p++) {
        out->shards[p] = pl_get_hash(&r, TAG_SHARD, p);
        out->weights[p] = pl_get_f64(&r, TAG_WEIGHT, p);
    }
    decode_held(&r, out);
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
        /* with gamma equal to beta, one vector is sent instead of two */
        m.consensus = m.lr;
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

void pl_arm_before_name(const pl_arm *arm, const pl_topology *t, int path, int replica,
                        char out[96])
{
    char name[PL_NAME_MAX];
    pl_topology_ancestor_path_name(t, &arm->descent, path, name);
    snprintf(out, 96, "%s/%s.r%d", arm->before, name, replica);
}

void pl_arm_states_name(const pl_arm *arm, char out[96])
{
    snprintf(out, 96, "states/%s", arm->name);
}

void pl_kept_state_name(const char *path, int64_t phase, char out[96])
{
    snprintf(out, 96, "state/%.60s/%lld", path, (long long)phase);
}

const char *pl_arm_of_module(const char *module, char *out, size_t size)
{
    const char *slash = strchr(module, '/');
    out[0] = '\0';
    if (!slash || (size_t)(slash - module) >= size)
        return module;
    memcpy(out, module, (size_t)(slash - module));
    out[slash - module] = '\0';
    return slash + 1;
}

uint64_t pl_arm_stream(const pl_arm *arm, int path)
{
    return pl_stream("samples", (uint64_t)path, pl_stream(arm->name, 0, 0));
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
