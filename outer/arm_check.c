/* Checks whether a method, a codec and the other settings of an arm can be combined.
 * The configuration's settings and definitions from a store or the network are checked
 * by the same functions. */
#include "outer/change.h"
#include "outer/method.h"

pl_status pl_mates_check(const pl_outer *outer)
{
    bool partial = pl_codec_is_homomorphic(&outer->codec);
    for (int role = 0; role < PL_ROLE_COUNT; role++)
        partial = partial || outer->codec.codec[role] == PL_CODEC_TOPK;
    if (!outer_method_of(outer->method.method)->mates)
        return PL_OK;
    if (outer->own != PL_STATE_F32)
        return pl_fail(
            PL_ERR_CONFIG,
            "outer.own must be f32 with %s, because mates have seen the unrounded "
            "parameters; other values work with streaming only",
            pl_method_name(outer->method.method));
    if (partial)
        return pl_fail(PL_ERR_CONFIG,
                       "noloco's mates exchange all parameters, but codec %s leaves "
                       "some out; use f32, bf16, i8 or i4",
                       outer->codec_name);
    return PL_OK;
}

pl_status pl_wait_check(const pl_outer *outer)
{
    const outer_method *of = outer_method_of(outer->method.method);
    if (outer->quorum > 0 && !of->quorum)
        return pl_fail(
            PL_ERR_CONFIG,
            "outer.quorum below 1 works with diloco, iso, fedavg and heavy-ball; "
            "%s needs all updates of a round, so set it to 1",
            of->name);
    if (outer->deadline_ms > 0 && outer->quorum == 0 && !of->mates)
        return pl_fail(
            PL_ERR_CONFIG,
            "outer.deadline_s works with outer.method=noloco or outer.quorum "
            "below 1, not with %s; set it to 0",
            of->name);
    return PL_OK;
}

pl_status pl_quorum_check(const pl_outer *outer)
{
    if (!(outer->quorum >= 0 && outer->quorum <= 1))
        return pl_fail(PL_ERR_CONFIG, "outer.quorum is %g; it must be from 0 to 1",
                       outer->quorum);
    if (outer->late_weight != 0)
        return pl_fail(PL_ERR_CONFIG,
                       "the arm counts late updates (outer.late_weight %g), which this "
                       "release cannot; only the release that made the run can open it",
                       outer->late_weight);
    if (outer->quorum > 0 && pl_codec_is_homomorphic(&outer->codec))
        return pl_fail(
            PL_ERR_CONFIG,
            "codec %s can decode only the sum of all contributors of a round; "
            "outer.quorum works only with f32, bf16, i8, i4 and topk",
            outer->codec_name);
    return PL_OK;
}

pl_status pl_mean_check(const pl_outer *outer)
{
    bool leaves_out = false, rounds = false, has_momentum = false;
    const char *needed = NULL;
    if (!outer->present)
        return PL_OK;
    for (int role = 0; role < PL_ROLE_COUNT; role++) {
        const int codec = outer->codec.codec[role];
        leaves_out = leaves_out || codec == PL_CODEC_TOPK;
        rounds = rounds || (codec != PL_CODEC_TOPK && codec != PL_CODEC_F32);
    }
    for (int k = 0; k < PL_CLASS_PRIVATE; k++)
        has_momentum = has_momentum || outer->momentum[k] != 0;
    if (!leaves_out || rounds)
        needed = "codec.name=topk: other codecs send all values, some of them rounded "
                 "to 0";
    else if (!pl_versions_suffice(outer))
        needed = "outer.method diloco, iso, fedavg, heavy-ball or co2: under other "
                 "methods a path must know the weight of its update in the mean";
    else if (has_momentum)
        needed = "momentum 0 (for example outer.method=fedavg): with momentum the "
                 "values that only one contributor sends diverge";
    else if (outer->rescale)
        needed = "outer.rescale=false: this mean does not shrink with more "
                 "contributors";
    return needed ? pl_fail(PL_ERR_CONFIG, "outer.mean=present needs %s", needed)
                  : PL_OK;
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
        outer->state_every, pl_method_name(outer->method.method));
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
    bool good =
        arm->n_frozen == 0 || (pl_versions_suffice(&arm->outer) && arm->n_scored == 0);
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

pl_status pl_arm_check(const pl_arm *arm)
{
    pl_topology *topology = NULL;
    pl_status status = PL_OK;
    const pl_inner *in = &arm->inner;
    const pl_method_settings *m = &arm->outer.method;
    PL_TRY(pl_topology_create(&arm->shape, &arm->spec, &topology));
    const int n_paths = pl_topology_n_paths(topology);
    const int n_replicas = pl_topology_n_replicas(topology);
    if ((int64_t)n_paths * n_replicas > PL_TASKS_MAX)
        PL_TRY(pl_fail(PL_ERR_CONFIG,
                       "arm %s has %d paths with %d replicas each; paths times "
                       "replicas may be at most %d",
                       arm->name, n_paths, n_replicas, PL_TASKS_MAX));
    if (n_paths != arm->n_shards)
        PL_TRY(pl_fail(PL_ERR_PROTO, "arm %s has %d paths but %d data shards",
                       arm->name, n_paths, arm->n_shards));
    if ((arm->before[0] != '\0') == pl_hash_none(&arm->states))
        PL_TRY(pl_fail(PL_ERR_PROTO,
                       "arm %s must name both the arm that it continues and the "
                       "states with which it begins, or neither",
                       arm->name));
    PL_TRY(check_descent(arm));
    if (arm->held_every < 0 || arm->held_prefix < 0)
        PL_TRY(pl_fail(
            PL_ERR_PROTO,
            "arm %s has held_every %d and held_prefix %d; both must be 0 or more",
            arm->name, arm->held_every, arm->held_prefix));
    /* The settings of a module with one contributor are checked as diloco's, so these
     * numbers would not be checked. The number of fragments is a divisor. */
    if (m->fragments < 1 || m->delay < 0 || m->buffer < 0)
        PL_TRY(pl_fail(
            PL_ERR_PROTO,
            "arm %s has %d fragments, a delay of %d and a buffer of %d; at least "
            "1, 0 and 0 are possible",
            arm->name, m->fragments, m->delay, m->buffer));
    if (!outer_method_of(arm->outer.method.method))
        PL_TRY(pl_fail(PL_ERR_UNSUPPORTED,
                       "arm %s was trained with outer method %d, which was removed; "
                       "open its store with the release of Pathloom that made it",
                       arm->name, (int)m->method));
    PL_TRY(check_frozen(arm, topology));
    enum { SCORED_MAX = 1 << 27 };
    const bool is_plain = in->phases == 1 && arm->spec.replicas == 1 &&
                          !outer_method_of(m->method)->lay_out &&
                          pl_hash_none(&arm->moments) && pl_hash_none(&arm->states);
    if ((arm->n_scored != 0 || arm->feature_windows != 0) &&
        (arm->feature_windows < 0 || arm->n_scored <= 0 || arm->n_scored > SCORED_MAX ||
         pl_arm_scores_bytes(arm) > SCORED_MAX * sizeof(double) || !is_plain))
        PL_TRY(pl_fail(
            PL_ERR_PROTO,
            "arm %s cannot score %lld documents per shard: an arm that scores needs 1 "
            "to %d documents per shard with results of at most 1 GiB, one phase, one "
            "replica, a method whose paths keep no vectors, and no moments or states "
            "to begin with",
            arm->name, (long long)arm->n_scored, (int)SCORED_MAX));
    if (in->batch < 1 || in->micro_batch < 0 || in->micro_batch > in->batch ||
        in->context < 1 || in->tau < 1 || in->phases < 0 ||
        in->context > arm->shape.context || in->first_step < 0 || in->decay < 0 ||
        in->decay > (int64_t)in->tau * in->phases || in->muon_rows < 0 ||
        in->threads < 0 || in->threads > PL_TASK_THREADS_MAX)
        PL_TRY(pl_fail(
            PL_ERR_PROTO,
            "arm %s has settings that no training can have; at least one of these is "
            "wrong: batch %d, micro-batch %d, context %d, tau %d, phases %d, decay "
            "%d, first step %d, muon_rows %d, threads %d",
            arm->name, in->batch, in->micro_batch, in->context, in->tau, in->phases,
            in->decay, in->first_step, in->muon_rows, in->threads));
    PL_TRY(pl_codec_options_check(&arm->outer.codec));
    PL_TRY(pl_change_check(&arm->outer));
    PL_TRY(pl_quorum_check(&arm->outer));
    PL_TRY(pl_mean_check(&arm->outer));
    PL_TRY(pl_state_every_check(&arm->outer));
    for (int i = 0; i < pl_topology_n_modules(topology); i++) {
        pl_method_settings settings = pl_arm_method(arm, topology, i);
        PL_TRY(pl_method_check(&settings));
    }
done:
    pl_topology_destroy(&topology);
    return status;
}
