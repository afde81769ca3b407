/* The arms of a run: the base model, the mixture, and what it is compared with.
 *
 * All share the mixture's slots, so that one layout of parameters serves all; a dense
 * arm is the same slots with one module each. Its only contributor's update is taken
 * as it is (outer learning rate 1, no momentum): plain training, by the same code. */
#include "cli/run.h"

static pl_status make_dense(pl_arm *arm)
{
    for (int l = 0; l < arm->spec.n_levels; l++)
        arm->spec.experts[l] = 1;
    arm->spec.replicas = 1;
    for (int c = 0; c < PL_CLASS_COUNT; c++) {
        arm->outer.lr[c] = 1;
        arm->outer.momentum[c] = 0;
    }
    arm->outer.rescale = arm->outer.present = false;
    arm->outer.schedule = (pl_outer_schedule){.decay = PL_DECAY_CONSTANT, .floor = 1};
    arm->outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    arm->outer.feedback = false;
    arm->outer.state = arm->outer.residual = arm->outer.own = PL_STATE_F32;
    pl_copy_text(arm->outer.codec_name, sizeof arm->outer.codec_name, "f32");
    return pl_codec_options_default("f32", &arm->outer.codec);
}

/* The baseline is what the name says, whatever the mixture tries. */
static void make_diloco(pl_arm *arm)
{
    pl_method_settings defaults = pl_method_defaults(PL_METHOD_DILOCO);
    if (arm->outer.method.method == PL_METHOD_DILOCO)
        return;
    arm->outer.method = defaults;
    arm->outer.present = false;
    for (int k = 0; k < PL_CLASS_PRIVATE; k++) {
        arm->outer.lr[k] = defaults.lr;
        arm->outer.momentum[k] = defaults.momentum;
    }
}

/* A phase of streaming ends where a fragment is sent: there are F in one of tau steps.
 */
static void cut_phases(pl_arm *arm)
{
    int fragments = arm->outer.method.fragments;
    if (arm->outer.method.method != PL_METHOD_STREAMING)
        return;
    arm->inner.tau /= fragments;
    arm->inner.phases *= fragments;
}

static void common_inner(const run *r, pl_inner *in)
{
    const config *c = &r->cfg;
    in->batch = (int)c->batch;
    in->context = (int)c->context;
    in->tau = (int)c->tau;
    in->phases = (int)c->phases;
    in->lr = c->lr;
    in->lr_floor = c->lr_floor;
    in->warmup = (int)c->warmup;
    in->beta1 = c->beta1;
    in->beta2 = c->beta2;
    in->eps = c->adam_eps;
    in->weight_decay = c->weight_decay;
    in->clip = c->clip;
    in->skip_prefix = c->skip_prefix ? (int)c->prefix : 0;
}

/* Nothing is merged in a dense arm, so its tasks are only as short as what a death may
 * cost: up to four phases in one, whichever number of them divides all. */
static void lengthen(pl_inner *in)
{
    int factor = 4;
    while (in->phases % factor != 0)
        factor--;
    in->tau *= factor;
    in->phases /= factor;
}

static const char *const baselines[] = {"dense", "diloco", "dense-eq"};
static const size_t n_baselines = sizeof baselines / sizeof *baselines;

bool run_may_have_arm(const char *name)
{
    for (size_t i = 0; i < n_baselines; i++)
        if (strcmp(name, baselines[i]) == 0)
            return true;
    return strcmp(name, "base") == 0 || strcmp(name, "mix") == 0;
}

int run_arm_names(const run *r, const char *names[ARMS_MAX])
{
    int n = 0;
    names[n++] = "mix";
    for (size_t i = 0; i < n_baselines; i++)
        if (config_wants(&r->cfg, baselines[i]))
            names[n++] = baselines[i];
    return n;
}

pl_status run_arm(const run *r, const char *name, pl_arm *out)
{
    const config *c = &r->cfg;
    int trainings =
        pl_topology_n_paths(r->topology) * pl_topology_n_replicas(r->topology);
    memset(out, 0, sizeof *out);
    pl_copy_text(out->name, sizeof out->name, name);
    PL_RETURN_IF(config_shape(c, &out->shape));
    PL_RETURN_IF(config_spec(c, &out->spec));
    PL_RETURN_IF(config_outer(c, &out->outer));
    common_inner(r, &out->inner);
    out->seed = (uint64_t)c->seed;
    out->config = r->hash;
    if (strcmp(name, "mix") != 0)
        PL_RETURN_IF(make_dense(out));
    if (strcmp(name, "base") == 0) {
        out->inner.lr = c->base_lr;
        out->inner.warmup = (int)c->base_warmup;
        out->inner.phases = (int)((c->base_steps + c->tau - 1) / c->tau);
    } else if (strcmp(name, "dense-eq") == 0) {
        out->inner.phases *= trainings;
    } else if (strcmp(name, "diloco") == 0) {
        PL_RETURN_IF(config_outer(c, &out->outer));
        make_diloco(out);
        out->spec.replicas = trainings;
    }
    out->outer.schedule.phases = out->inner.phases; /* rounds of a module */
    cut_phases(out);
    if (strcmp(name, "mix") != 0 && strcmp(name, "diloco") != 0)
        lengthen(&out->inner);
    out->n_shards = strcmp(name, "mix") == 0 ? pl_topology_n_paths(r->topology) : 1;
    out->shards = pl_alloc((size_t)out->n_shards * sizeof *out->shards);
    out->weights = pl_alloc((size_t)out->n_shards * sizeof *out->weights);
    return PL_OK;
}
