/* Computes which phase contributes to which round of a module, and which vectors a
 * path's state has. rounds.h has a table of all methods; the functions here implement
 * that table.
 *
 * Purpose. Hub, home and worker must agree on which versions a task starts from, which
 * rounds its updates belong to, and how many encoded vectors (messages) an update has.
 * Each of them calls these functions with the same arm and topology and gets the same
 * answer.
 *
 * There are two counters, which are equal for most methods:
 *
 *   phase p   a phase of one path                     0 .. phases - 1
 *   round r   a merge of one module: version r -> version r + 1
 *
 *   phase p trains from version  needs(p) ----> its update belongs to round  of(p)
 *   the update is relative to    base(of(p))    and waits at the home in a window of
 *                                               window() rounds
 *
 * Example, co2 with delay 1 (versions above, phases below):
 *
 *   version   0     0     1     2         phase p starts from max(0, p - 1)
 *   phase     0     1     2     3         and is merged in round p
 *
 * Special cases
 *   - Under every method, a module with one contributor is merged as in diloco
 *     (method_of), because it has no other contributors to wait for. But under
 *     streaming such a module is sent in its fragment, like other modules.
 *   - Under streaming a module belongs to a fragment, and only every F-th phase sends
 *     it. pl_round_of then returns -1 for the other phases.
 *   - Under delayed-nesterov every arrival is a round. Only the home knows the number
 *     of a round, so the result of pl_round_of must not be used.
 *   - An arm that scores documents has one phase, no rounds, and a state of scores.
 *   - A frozen module has no rounds: every phase begins from its version 0.
 *   - Under noloco updates are relative to version 0, which every worker has.
 *
 * Invariants
 *   - All functions are pure: for one arm and topology every machine gets the same
 *     answer.
 *   - pl_round_predict uses the home's arithmetic, so that a worker that is a module's
 *     only contributor gets the bits that the home will commit.
 *   - The vectors of a path's state have one order (pl_path_layout_of). The optimizer's
 *     moments are always the first two; the length of each vector follows from
 *     pl_path_kind. */
#include "outer/rounds.h"
#include "outer/gossip.h"
#include "outer/step.h"
#include "outer/step_overlap.h"

#include <math.h>

static pl_method method_of(const pl_arm *arm, const pl_topology *t, int module)
{
    return pl_arm_contributors(t, module) == 1 ? PL_METHOD_DILOCO
                                               : arm->outer.method.method;
}

static const pl_method_traits *traits_of(const pl_arm *arm, const pl_topology *t,
                                         int module)
{
    return pl_traits(method_of(arm, t, module));
}

static bool streams(const pl_arm *arm)
{
    return pl_traits(arm->outer.method.method)->streams;
}

/* Returns the fragment of a module. Slots are assigned to fragments in turn: slot s is
 * in fragment s mod F. This includes slots with a single contributor. */
static int fragment_of(const pl_arm *arm, const pl_topology *t, int module)
{
    return pl_streaming_fragment(pl_topology_module_slot(t, module),
                                 pl_topology_n_slots(t), arm->outer.method.fragments,
                                 true);
}

static int delay_of(const pl_arm *arm, const pl_topology *t, int module)
{
    const pl_method_traits *of = traits_of(arm, t, module);
    return of->leads ? 1 : of->delays ? arm->outer.method.delay : 0;
}

int64_t pl_round_of(const pl_arm *arm, const pl_topology *t, int module, int64_t phase)
{
    const pl_method_settings *m = &arm->outer.method;
    int64_t round = phase;
    if (arm->n_scored > 0 || pl_arm_is_frozen(arm, module))
        return -1;
    if (!streams(arm))
        return phase;
    int64_t end = (phase + 1) * (m->inner_steps / m->fragments);
    return pl_streaming_sends(m, end, &round) == fragment_of(arm, t, module) ? round
                                                                             : -1;
}

uint64_t pl_round_base(const pl_arm *arm, const pl_topology *t, int module,
                       int64_t round)
{
    int delay = delay_of(arm, t, module);
    if (traits_of(arm, t, module)->gossips)
        return 0;
    return round > delay ? (uint64_t)(round - delay) : 0;
}

/* Returns the number of times that a module's fragment was sent before `phase`. */
static uint64_t rounds_before(const pl_arm *arm, const pl_topology *t, int module,
                              int64_t phase)
{
    int64_t fragments = arm->outer.method.fragments,
            first = fragment_of(arm, t, module);
    return phase > first ? (uint64_t)((phase - 1 - first) / fragments + 1) : 0;
}

uint64_t pl_round_needs(const pl_arm *arm, const pl_topology *t, int module,
                        int64_t phase)
{
    const pl_method_traits *of = traits_of(arm, t, module);
    bool alone = pl_arm_contributors(t, module) == 1;
    if (pl_arm_is_frozen(arm, module))
        return 0;
    bool waits_first =
        arm->outer.method.overlap == 0 || (alone && arm->outer.method.fragments == 1);
    if (streams(arm))
        return rounds_before(arm, t, module, waits_first ? phase : phase - 1);
    if (of->gossips || of->arrives)
        return 0;
    return pl_round_base(arm, t, module, phase);
}

uint64_t pl_round_takes(const pl_arm *arm, const pl_topology *t, int module,
                        int64_t phase)
{
    if (!streams(arm) || phase < 1 || pl_arm_contributors(t, module) == 1 ||
        pl_round_of(arm, t, module, phase - 1) < 0)
        return 0;
    return (uint64_t)pl_round_of(arm, t, module, phase - 1) + 1;
}

uint64_t pl_round_count(const pl_arm *arm, const pl_topology *t, int module)
{
    uint64_t phases = (uint64_t)arm->inner.phases;
    if (arm->n_scored > 0 || pl_arm_is_frozen(arm, module))
        return 0;
    if (streams(arm))
        return rounds_before(arm, t, module, arm->inner.phases);
    if (traits_of(arm, t, module)->arrives)
        return phases * (uint64_t)pl_arm_contributors(t, module);
    return phases;
}

int pl_round_window(const pl_arm *arm, const pl_topology *t, int module)
{
    const pl_method_traits *of = traits_of(arm, t, module);
    if (of->gossips)
        return arm->inner.phases;
    if (of->arrives)
        return 2 * pl_arm_contributors(t, module);
    return delay_of(arm, t, module) + 1;
}

uint64_t pl_phase_samples(const pl_arm *arm)
{
    return (uint64_t)arm->inner.tau * (uint64_t)arm->inner.batch;
}

int pl_round_contributors(const pl_arm *arm, const pl_topology *t, int module)
{
    return traits_of(arm, t, module)->arrives ? 1 : pl_arm_contributors(t, module);
}

int pl_round_quorum(const pl_arm *arm, const pl_topology *t, int module)
{
    int all = pl_round_contributors(arm, t, module);
    pl_method method = method_of(arm, t, module);
    bool rounds = pl_method_averages(method) && !pl_traits(method)->delays;
    int least = (int)ceil(arm->outer.quorum * all - 1e-9);
    if (!rounds || streams(arm) || !(arm->outer.quorum > 0) || least >= all)
        return all;
    return least > 1 ? least : 1;
}

int pl_round_vectors(const pl_arm *arm, const pl_topology *t, int module)
{
    return traits_of(arm, t, module)->gossips && arm->outer.own_consensus ? 2 : 1;
}

pl_codec_round pl_round_codec(const pl_arm *arm, const pl_topology *t, int module,
                              int path, int64_t round, double norm)
{
    int slot = pl_topology_module_slot(t, module);
    int contributors = pl_round_contributors(arm, t, module);
    double all = pl_arm_contributors(t, module);
    uint64_t stream = pl_stream(arm->name, (uint64_t)module, arm->seed);
    /* Under delayed-nesterov the number of the round is not known when the update is
     * encoded, and updates are never added to each other. */
    bool arrives = contributors < all;
    return (pl_codec_round){
        .seed = pl_stream("sketch", arrives ? 0 : (uint64_t)round, stream),
        .scale_exponent = pl_codec_exponent(norm, pl_topology_slot(t, slot)->n_params),
        .n_contributors = contributors,
        .weight = (float)(pl_arm_share(arm, t, module, path) * (arrives ? all : 1))};
}

pl_status pl_round_mate(const pl_arm *arm, const pl_topology *t, int module, int index,
                        int64_t phase, int *mate)
{
    int replicas = pl_topology_n_replicas(t), n = 0, own = 0;
    char name[96];
    *mate = index;
    if (!traits_of(arm, t, module)->gossips)
        return PL_OK;
    int n_members = pl_arm_contributors(t, module);
    uint64_t *members = pl_alloc((size_t)n_members * sizeof *members);
    int *partner = pl_alloc((size_t)n_members * sizeof *partner);
    for (int i = 0; i < pl_topology_module_n_paths(t, module); i++)
        for (int r = 0; r < replicas; r++) {
            int member = pl_topology_module_path(t, module, i) * replicas + r;
            own = member == index ? n : own;
            members[n++] = (uint64_t)member;
        }
    pl_arm_module_name(arm, t, module, name);
    pl_status status =
        pl_gossip_match(arm->seed, name, (uint64_t)phase, n_members, members, partner);
    if (status == PL_OK)
        *mate = (int)members[partner[own]];
    pl_free(members);
    pl_free(partner);
    return status;
}

bool pl_round_predicts(const pl_arm *arm, const pl_topology *t, int module)
{
    return arm->n_scored == 0 && !pl_arm_is_frozen(arm, module) &&
           pl_arm_contributors(t, module) == 1 && !streams(arm) &&
           arm->outer.momentum[PL_CLASS_PRIVATE] == 0;
}

pl_status pl_round_predict(const pl_arm *arm, const pl_topology *t, int module,
                           int64_t round, const pl_codec_message *message,
                           float *params, double *norm)
{
    const float weight = 1.0f;
    pl_codec_list list = {message, &weight, 1, 0};
    pl_method_settings settings = pl_arm_method(arm, t, module);
    bool settled = pl_method_schedule(&arm->outer.schedule, round, &settings);
    pl_outer_step step =
        pl_method_step(&settings, settings.lr, arm->outer.rescale && !settled, 1);
    pl_outer_state state = {.params = params};
    pl_outer_report report;
    const pl_arith_merge of = {
        .step = &step,
        .state = &state,
        .n = pl_topology_slot(t, pl_topology_module_slot(t, module))->n_params,
        .messages = pl_codec_source_of(&list),
        .homomorphic = pl_codec_is_homomorphic(&arm->outer.codec),
        .factor = 1.0f};
    PL_CHECK(pl_arith_step(&of, &report));
    *norm = report.mean_norm;
    return PL_OK;
}

pl_path_layout pl_path_layout_of(const pl_arm *arm)
{
    pl_path_layout l = {2, -1, -1, -1, -1, -1};
    const pl_method_traits *of = pl_traits(arm->outer.method.method);
    if (arm->n_scored > 0) {
        l.n_vectors = 0;
        return l;
    }
    if (arm->outer.feedback && pl_codec_is_lossy(&arm->outer.codec))
        l.residual = l.n_vectors++;
    if (pl_method_keeps_own(arm->outer.method.method))
        l.params = l.n_vectors++;
    if (of->gossips || of->leads) {
        l.velocity = l.n_vectors++;
        l.last = l.n_vectors++;
    }
    if (of->leads || (of->gossips && arm->outer.own_consensus))
        l.before = l.n_vectors++;
    return l;
}

pl_state_kind pl_path_kind(const pl_arm *arm, int v)
{
    pl_path_layout l = pl_path_layout_of(arm);
    if (v < 2)
        return arm->outer.state;
    if (v == l.residual)
        return arm->outer.residual;
    /* Under noloco and eager, other paths have already received vectors that were
     * computed from the vectors of this path. So the vectors of this path must not be
     * rounded later. */
    if (v == l.params && streams(arm))
        return arm->outer.own;
    return PL_STATE_F32;
}

size_t pl_path_vector_floats(const pl_arm *arm, int v, size_t n_params)
{
    const size_t hidden = arm->inner.muon ? pl_shape_hidden_params(&arm->shape) : 0;
    return v == 1 && hidden <= n_params ? n_params - hidden : n_params;
}

size_t pl_path_moments_floats(const pl_arm *arm, size_t n_params)
{
    return n_params + pl_path_vector_floats(arm, 1, n_params);
}

uint64_t pl_path_vector_bytes(const pl_arm *arm, int v, size_t n_params)
{
    uint64_t n = pl_path_vector_floats(arm, v, n_params);
    uint64_t blocks = (n + PL_STATE_I8_BLOCK - 1) / PL_STATE_I8_BLOCK;
    switch (pl_path_kind(arm, v)) {
    case PL_STATE_BF16:
        return n * sizeof(uint16_t);
    case PL_STATE_I8:
        return n + blocks * sizeof(int16_t);
    case PL_STATE_F24:
        return 3 * n;
    case PL_STATE_LOCAL:
        return 0;
    case PL_STATE_F32:
    case PL_STATE_COUNT:
    default:
        return n * sizeof(float);
    }
}

uint64_t pl_path_state_bytes(const pl_arm *arm, size_t n_params)
{
    uint64_t bytes = pl_arm_scores_bytes(arm);
    for (int v = 0; v < pl_path_layout_of(arm).n_vectors; v++)
        bytes += pl_path_vector_bytes(arm, v, n_params);
    return bytes;
}

/* This is not so for methods whose phases do not begin with a fixed version (noloco,
 * delayed-nesterov) or need a mean that is soon dropped (eager), and for arms whose
 * moments never leave a worker. */
bool pl_phase_repeats(const pl_outer *outer)
{
    const pl_method_traits *of = pl_traits(outer->method.method);
    return !of->gossips && !of->arrives && !of->leads && outer->state != PL_STATE_LOCAL;
}

bool pl_phase_uploads(const pl_arm *arm, int64_t phase)
{
    const int every = arm->outer.state_every;
    return every <= 1 || phase % every == 0 || phase >= arm->inner.phases;
}

static double bound_of(const pl_codec_options *codec, const pl_topology *t, int module)
{
    int n = pl_codec_parts(t, module, NULL);
    pl_codec_part *parts = pl_alloc((size_t)n * sizeof *parts);
    (void)pl_codec_parts(t, module, parts);
    double bytes = (double)pl_codec_bound(codec, parts, n, 1);
    pl_free(parts);
    return bytes;
}

void pl_phase_bytes(const pl_arm *arm, const pl_topology *t, double *up, double *down)
{
    const pl_outer *outer = &arm->outer;
    const int every = outer->state_every > 1 ? outer->state_every : 1;
    const bool whole = outer->down.codec[PL_ROLE_MLP] <= PL_CODEC_F32;
    *up = (double)pl_path_state_bytes(arm, pl_topology_path_params(t)) / every;
    *down = 0;
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        const int module = pl_topology_module_of_path(t, slot, 0);
        const double params = (double)pl_topology_slot(t, slot)->n_params;
        *up += bound_of(&outer->codec, t, module);
        *down += whole ? params * sizeof(float) : bound_of(&outer->down, t, module);
    }
}
