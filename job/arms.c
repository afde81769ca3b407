/* Defines the arms of a run: the base model, the mixture, and the baselines.
 *
 * All arms have the mixture's slots, so that all have the same layout of parameters. A
 * dense arm has one module in each slot. This module has only one contributor, and the
 * contributor's update is taken unchanged (outer learning rate 1, no momentum). So
 * plain training uses the same code. */
#include "job/run.h"

#include <math.h>

static pl_status make_dense(pl_arm *arm)
{
    for (int l = 0; l < arm->spec.n_levels; l++)
        arm->spec.experts[l] = 1;
    arm->spec.replicas = 1;
    for (int c = 0; c < PL_CLASS_COUNT; c++) {
        arm->outer.lr[c] = 1;
        arm->outer.momentum[c] = 0;
    }
    arm->outer.rescale = arm->outer.present = arm->outer.dynamic = false;
    arm->outer.quorum = 0;
    arm->outer.deadline_ms = 0;
    arm->outer.schedule = (pl_outer_schedule){.floor = 1};
    arm->outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    arm->outer.feedback = false;
    arm->outer.state = arm->outer.residual = arm->outer.own = PL_STATE_F32;
    pl_copy_text(arm->outer.codec_name, sizeof arm->outer.codec_name, "f32");
    return pl_codec_options_default("f32", &arm->outer.codec);
}

bool run_may_have_arm(const char *name)
{
    return config_is_baseline(name) || strcmp(name, "base") == 0 ||
           pl_arm_chapter(name) >= 0;
}

int run_arm_names(const pl_run *r, const char *names[ARMS_MAX])
{
    int n = 0;
    names[n++] = "mix";
    for (int i = 0; i < CONFIG_BASELINES; i++)
        if (config_wants(&r->cfg, config_baselines[i]))
            names[n++] = config_baselines[i];
    return n;
}

bool run_is_last_chapter(const pl_run *r, const char *arm)
{
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    int n = 0;
    return pl_arm_chapter(arm) < 0 ||
           (config_chapters(&r->cfg, chapters, &n) == PL_OK &&
            pl_arm_chapter(arm) == n - 1);
}

int64_t run_path_phases(const pl_run *r)
{
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    int n = 0;
    int64_t all = 0;
    if (config_chapters(&r->cfg, chapters, &n) != PL_OK)
        return 0;
    for (int i = 0; i < n && !chapters[i].more; i++)
        all += pl_topology_spec_n_paths(&chapters[i].spec) *
               (chapters[i].end - chapters[i].begin);
    return all * pl_topology_n_replicas(r->topology);
}

/* Returns the inner steps of one replica of the base model: the replica's share of
 * train.base_steps, rounded up to whole phases. */
static int base_steps(const config *c)
{
    const int64_t share = (c->base_steps + c->base_replicas - 1) / c->base_replicas;
    const int64_t tau = config_base_tau(c->base_replicas, c->tau);
    return (int)((share + tau - 1) / tau * tau);
}

/* Defines the training of the base model. Its replicas send updates and versions in the
 * form in which the paths send them, because they are merged often. */
static pl_status fit_base(const config *c, pl_arm *arm)
{
    pl_inner *in = &arm->inner;
    pl_outer of_paths;
    in->threads = (int)c->base_threads;
    in->lr = c->base_lr;
    in->warmup = (int)c->base_warmup;
    in->tau = (int)config_base_tau(c->base_replicas, c->tau);
    in->phases = base_steps(c) / in->tau;
    arm->outer.schedule.phases = in->phases;
    arm->spec.replicas = (int)c->base_replicas;
    if (c->base_replicas == 1)
        return PL_OK;
    PL_CHECK(config_outer(c, &of_paths));
    arm->outer.codec = of_paths.codec;
    arm->outer.down = of_paths.down;
    arm->outer.residual = of_paths.residual;
    pl_copy_text(arm->outer.codec_name, sizeof arm->outer.codec_name,
                 of_paths.codec_name);
    arm->outer.feedback = pl_feedback_helps(&arm->outer);
    return PL_OK;
}

static pl_status freeze_arm(const config *c, int chapter, pl_arm *arm)
{
    bool *frozen = NULL;
    pl_topology *t = NULL;
    pl_status status = PL_OK;
    if (!c->freeze[0])
        return PL_OK;
    PL_TRY(config_frozen(c, chapter, &frozen));
    PL_TRY(pl_topology_create(&arm->shape, &arm->spec, &t));
    arm->frozen = pl_alloc((size_t)pl_topology_n_modules(t) * sizeof *arm->frozen);
    for (int m = 0; m < pl_topology_n_modules(t); m++)
        if (frozen[m])
            arm->frozen[arm->n_frozen++] = m;
done:
    pl_topology_destroy(&t);
    pl_free(frozen);
    return status;
}

/* Gives a baseline the resources of all trainings of the mixture together: the sum of
 * their steps (dense-eq), the sum of their batches (dense-batch), or one replica per
 * training (diloco). `trainings` is the mixture's number of paths times its number of
 * replicas. */
static pl_status fit_baseline(const pl_run *r, int trainings, pl_arm *out)
{
    const config *c = &r->cfg;
    if (strcmp(out->name, "dense-eq") == 0)
        out->inner.phases = (int)run_path_phases(r);
    if (strcmp(out->name, "dense-batch") == 0) {
        /* This baseline stands for machines that exchange gradients at every step: it
         * takes as many steps as one path, and its batch is as large as the batches of
         * all paths together. */
        out->inner.batch *= trainings;
        out->inner.lr = c->lr * sqrt(trainings);
    }
    if (strcmp(out->name, "diloco") == 0) {
        PL_CHECK(config_outer(c, &out->outer));
        /* The baseline is DiLoCo as published, even if the mixture uses a different
         * outer.method. So the mean of its updates is not rescaled. */
        pl_method_settings defaults = pl_method_defaults(PL_METHOD_DILOCO);
        out->outer.rescale = false;
        if (out->outer.method.method != defaults.method) {
            out->outer.method = defaults;
            out->outer.present = false;
            for (int k = 0; k < PL_CLASS_PRIVATE; k++) {
                out->outer.lr[k] = defaults.lr;
                out->outer.momentum[k] = defaults.momentum;
            }
        }
        out->spec.replicas = trainings;
    }
    return PL_OK;
}

pl_status run_arm(const pl_run *r, const char *name, pl_arm *out)
{
    const config *c = &r->cfg;
    const int chapter = pl_arm_chapter(name);
    bool is_base = strcmp(name, "base") == 0, is_mix = chapter >= 0;
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    int n_chapters = 0;
    int64_t from = 0, end = c->phases;
    pl_inner *in = &out->inner;
    memset(out, 0, sizeof *out);
    pl_copy_text(out->name, sizeof out->name, name);
    PL_CHECK(config_shape(c, &out->shape));
    PL_CHECK(config_chapters(c, chapters, &n_chapters));
    PL_CHECK(config_outer(c, &out->outer));
    out->spec = chapters[0].spec;
    const int trainings = pl_topology_spec_n_paths(&out->spec) * (int)c->replicas;
    in->batch = (int)c->batch;
    in->micro_batch = config_pass(c);
    in->context = (int)c->context;
    in->tau = (int)c->tau;
    in->phases = (int)c->phases;
    in->lr = c->lr;
    in->lr_floor = c->lr_floor;
    in->warmup = (int)c->warmup;
    in->schedule =
        strcmp(c->schedule, "wsd") == 0 ? PL_SCHEDULE_WSD : PL_SCHEDULE_COSINE;
    in->beta1 = c->beta1;
    in->beta2 = c->beta2;
    in->eps = c->adam_eps;
    in->weight_decay = c->weight_decay;
    in->clip = c->clip;
    in->pack = c->pack;
    in->muon = config_has_muon(c);
    in->muon_rows = in->muon ? (int)c->muon_rows : 0;
    out->seed = (uint64_t)c->seed;
    out->config = r->hash;
    if (!is_mix)
        PL_CHECK(make_dense(out));
    if (is_mix && chapter < n_chapters) {
        from = chapters[chapter].from;
        end = chapters[chapter].end;
        out->spec = chapters[chapter].spec;
        out->descent = chapters[chapter].descent;
        PL_CHECK(freeze_arm(c, chapter, out));
    }
    PL_CHECK(fit_baseline(r, trainings, out));
    /* the outer schedule counts rounds of a module */
    out->outer.schedule.phases = in->phases;
    if (is_base) {
        PL_CHECK(fit_base(c, out));
    } else {
        /* With the schedule wsd the arm continues the schedule of the base model, and
         * each chapter that of the chapters before it. The learning rate falls at the
         * end of train.phases and at the end of each part of train.more, as in a run
         * that was planned to end there. With outer.settle the outer step is the plain
         * mean from the round in which the rate begins to fall. */
        const bool wsd = in->schedule == PL_SCHEDULE_WSD;
        const int64_t last = in->phases + end - c->phases;
        in->phases = (int)(last - from);
        out->outer.schedule.phases = in->phases;
        if (wsd)
            in->first_step = base_steps(c) + (int)from * in->tau;
        if (in->first_step > 0)
            in->warmup = (int)c->base_warmup;
        if (wsd && end >= c->phases)
            in->decay = (int)config_decay_steps(c, last * in->tau);
        if (c->settle)
            out->outer.schedule.settle = (in->decay + in->tau - 1) / in->tau;
    }
    /* With streaming a phase ends whenever one of the F fragments is sent, so train.tau
     * steps become F phases. For other methods F is 1. */
    in->tau /= out->outer.method.fragments;
    in->phases *= out->outer.method.fragments;
    if (!is_mix && strcmp(name, "diloco") != 0 && out->spec.replicas == 1) {
        /* A dense arm merges nothing, so longer phases change only how much work is
         * lost when a worker dies. Joins every four phases into one, or every three or
         * two if four does not divide the number of phases. */
        int factor = 4;
        while (in->phases % factor != 0)
            factor--;
        in->tau *= factor;
        in->phases /= factor;
    }
    out->n_shards = is_mix ? pl_topology_spec_n_paths(&out->spec) : 1;
    out->shards = pl_alloc((size_t)out->n_shards * sizeof *out->shards);
    out->weights = pl_alloc((size_t)out->n_shards * sizeof *out->weights);
    return PL_OK;
}
