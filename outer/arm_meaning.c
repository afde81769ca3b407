/* What follows from the definition of an arm: what its settings mean for the whole arm
 * (contract.h: for one module), the settings and classes of its modules, and the names
 * of what belongs to it. */
#include "outer/method.h"

static const outer_method *method_of(const pl_outer *outer)
{
    return outer_method_of(outer->method.method);
}

bool pl_versions_suffice(const pl_outer *outer)
{
    return !method_of(outer)->lay_out && !method_of(outer)->arrivals;
}

bool pl_versions_have_phases(const pl_outer *outer)
{
    return !method_of(outer)->arrivals;
}

bool pl_phase_repeats(const pl_outer *outer)
{
    return !method_of(outer)->mates && !method_of(outer)->arrivals &&
           outer->state != PL_STATE_LOCAL;
}

bool pl_steps_vary(const pl_outer *outer)
{
    return outer->dynamic && !pl_versions_have_phases(outer);
}

void pl_outer_fit(pl_outer *outer)
{
    const pl_method_settings wish = outer->method;
    pl_method_settings m = pl_method_defaults(wish.method);
    m.lr = wish.lr;
    m.momentum = wish.momentum;
    m.curvature = wish.curvature;
    m.inner_steps = wish.inner_steps;
    m.buffer = wish.buffer;
    m.spread = wish.spread;
    if (method_of(outer)->fit)
        method_of(outer)->fit(&wish, &m);
    outer->method = m;
    outer->own_consensus = method_of(outer)->mates && m.consensus != m.lr;
}

bool pl_feedback_helps(const pl_outer *outer)
{
    return pl_codec_drops_much(&outer->codec) && !method_of(outer)->mates;
}

uint64_t pl_phase_samples(const pl_arm *arm)
{
    return (uint64_t)arm->inner.tau * (uint64_t)arm->inner.batch;
}

int64_t pl_arm_full_phases(const pl_arm *arm)
{
    const pl_inner *in = &arm->inner;
    const int64_t falling = ((int64_t)in->decay + in->tau - 1) / in->tau;
    return falling < in->phases ? in->phases - falling : 0;
}

int64_t pl_arm_continues(const pl_arm *before, const pl_arm *arm)
{
    const int64_t steps = (int64_t)arm->inner.first_step - before->inner.first_step;
    const int64_t phases = steps / before->inner.tau;
    return pl_arm_scores(arm) || steps < 0 || phases > before->inner.phases
               ? before->inner.phases
               : phases;
}

bool pl_phase_stays(const pl_arm *arm, int64_t phase)
{
    return pl_arm_chapter(arm->name) >= 0 && arm->inner.decay > 0 &&
           pl_path_layout_of(arm).params < 0 && phase == pl_arm_full_phases(arm);
}

bool pl_phase_uploads(const pl_arm *arm, int64_t phase)
{
    const int every = arm->outer.state_every;
    return every <= 1 || phase % every == 0 || phase >= arm->inner.phases ||
           pl_phase_stays(arm, phase);
}

bool pl_arm_scores(const pl_arm *arm)
{
    return arm->n_scored > 0;
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

bool pl_arm_is_frozen(const pl_arm *arm, int module)
{
    int low = 0, high = arm->n_frozen;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (arm->frozen[middle] < module)
            low = middle + 1;
        else
            high = middle;
    }
    return low < arm->n_frozen && arm->frozen[low] == module;
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
    if (outer_method_of(m.method)->mates && !arm->outer.own_consensus)
        /* with gamma equal to beta, one vector is sent instead of two */
        m.consensus = m.lr;
    return m;
}

char *pl_arm_module_name(const pl_arm *arm, const pl_topology *t, int module,
                         char out[96])
{
    char name[PL_NAME_MAX];
    pl_topology_module_name(t, module, name);
    snprintf(out, 96, "%s/%s", arm->name, name);
    return out;
}

char *pl_arm_path_name(const pl_arm *arm, const pl_topology *t, int path, int replica,
                       char out[96])
{
    char name[PL_NAME_MAX];
    pl_topology_path_name(t, path, name);
    snprintf(out, 96, "%s/%s.r%d", arm->name, name, replica);
    return out;
}

char *pl_arm_before_name(const pl_arm *arm, const pl_topology *t, int path, int replica,
                         char out[96])
{
    char name[PL_NAME_MAX];
    pl_topology_ancestor_path_name(t, &arm->descent, path, name);
    snprintf(out, 96, "%s/%s.r%d", arm->before, name, replica);
    return out;
}

char *pl_arm_states_name(const pl_arm *arm, char out[96])
{
    snprintf(out, 96, "states/%s", arm->name);
    return out;
}

char *pl_kept_state_name(const char *path, int64_t phase, char out[96])
{
    snprintf(out, 96, PL_KEPT_STATES "%.60s/%lld", path, (long long)phase);
    return out;
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
