/* Does the inner steps of a task: trains one path on its data shard for tau steps, in a
 * separate thread (train.h). */
#include "workers/train.h"
#include "router/router.h"

struct trainer {
    pl_backend_options options;
    bool recompute, remarked;
    pl_backend *backend;
    pl_model *model;
    pl_topology *topology; /* of the model */
    pl_model_options made; /* with which the model was created */
    pl_actor *actor;
    /* both the trainer's and the worker's thread use the following fields */
    atomic_int step;
    atomic_int cancelled;
    /* parameters that the running job will mix in; NULL until they have arrived */
    _Atomic(const float *) merged;
    _Atomic double loss, rate;
};

/* Whether both topologies have the same slots, and the same tensors in them. The
 * topologies may differ if topology.graft has cut a level: the level's tensors are then
 * in two slots, each of which may be frozen. */
static bool same_layout(const pl_topology *a, const pl_topology *b)
{
    const int n = pl_topology_n_tensors(a), n_slots = pl_topology_n_slots(a);
    if (!pl_shape_equal(pl_topology_shape(a), pl_topology_shape(b)) ||
        n != pl_topology_n_tensors(b) || n_slots != pl_topology_n_slots(b))
        return false;
    for (int i = 0; i < n; i++)
        if (pl_topology_tensor(a, i)->offset != pl_topology_tensor(b, i)->offset ||
            pl_topology_tensor(a, i)->slot != pl_topology_tensor(b, i)->slot)
            return false;
    return true;
}

/* Creates a model for the job, unless the present model fits the job. Usually it does,
 * because all arms of a run have the same layout unless a level was cut. */
static pl_status fit_model(trainer *t, const train_job *job)
{
    const pl_inner *in = &job->arm->inner;
    const pl_model_options *was = &t->made, options = {.batch = pl_arm_pass(in),
                                                       .context = in->context,
                                                       .training = true,
                                                       .recompute = t->recompute,
                                                       .muon = in->muon,
                                                       .muon_rows = in->muon_rows};
    if (t->model && was->batch == options.batch && was->context == options.context &&
        was->muon == options.muon && was->muon_rows == options.muon_rows &&
        same_layout(t->topology, job->topology))
        return PL_OK;
    pl_model_destroy(&t->model);
    pl_topology_destroy(&t->topology);
    PL_CHECK(pl_topology_create(&job->arm->shape, &job->arm->spec, &t->topology));
    t->made = options;
    PL_CHECK(pl_model_create(t->backend, t->topology, &options, &t->model));
    /* logs the device memory that the model uses */
    char text[5][16];
    pl_model_plan plan;
    pl_model_plan_on(t->backend, t->topology, &options, &plan);
    pl_log(PL_LOG_INFO, "model.made",
           "parameters=%s gradients=%s moments=%s activations=%s scratch=%s "
           "recompute=%d threads=%d device=\"%s\"",
           pl_human_bytes((double)plan.params_bytes, text[0]),
           pl_human_bytes((double)plan.grads_bytes, text[1]),
           pl_human_bytes((double)plan.moments_bytes, text[2]),
           pl_human_bytes((double)plan.acts_bytes, text[3]),
           pl_human_bytes((double)plan.scratch_bytes, text[4]), (int)options.recompute,
           t->backend->n_threads, t->backend->device);
    return PL_OK;
}

static pl_status check_cancelled(trainer *t)
{
    if (atomic_load(&t->cancelled))
        return pl_fail(PL_ERR_CANCELLED, "the task was cancelled");
    return PL_OK;
}

/* Copies the parameters from the model to job->params. Allocates job->params in the
 * first call. */
static pl_status save_params(trainer *t, train_job *job)
{
    size_t bytes = pl_topology_path_params(job->topology) * sizeof(float);
    if (!job->params)
        PL_CHECK(
            pl_try_alloc_bare(bytes, "a path's parameters", (void **)&job->params));
    return pl_model_save(t->model, job->params);
}

static pl_status count_batch(void *context)
{
    trainer *t = context;
    atomic_fetch_add(&t->step, 1);
    PL_CHECK(pl_failpoint("worker.step.before"));
    return check_cancelled(t);
}

static pl_status compute_features(trainer *t, train_job *job)
{
    const pl_arm *arm = job->arm;
    const size_t n = (size_t)pl_arm_scores_bytes(arm);
    const pl_feature_job of = {.topology = t->topology,
                               .model = t->model,
                               .batch = pl_arm_pass(&arm->inner),
                               .prefix = arm->inner.context,
                               .windows = arm->feature_windows,
                               .check = count_batch,
                               .check_context = t};
    if (pl_tokens_n_docs(job->shard) != arm->n_scored)
        return pl_fail(PL_ERR_DATA, "a shard of %s has %u documents instead of %lld",
                       arm->name, pl_tokens_n_docs(job->shard),
                       (long long)arm->n_scored);
    PL_CHECK(pl_try_alloc(n, "the features of documents", (void **)&job->state));
    job->work.n_tokens =
        pl_router_feature_tokens(job->shard, of.prefix, arm->feature_windows);
    return pl_router_features(&of, job->shard, job->state);
}

/* Scores n documents of a token file with the parameters that are loaded in the
 * model. */
static pl_status score_with_model(trainer *t, const train_job *job,
                                  const pl_tokens *tokens, int prefix,
                                  pl_status (*check)(void *), pl_score *scores,
                                  size_t n)
{
    const pl_inner *in = &job->arm->inner;
    const pl_scorer_options options = {.topology = t->topology,
                                       .model = t->model,
                                       .context = in->context,
                                       .batch = pl_arm_pass(in),
                                       .prefix = prefix,
                                       .check = check,
                                       .check_context = t};
    pl_scorer *scorer = NULL;
    uint32_t *docs = pl_alloc((n ? n : 1) * sizeof *docs);
    for (uint32_t i = 0; i < n; i++)
        docs[i] = i;
    pl_status status = pl_scorer_create(&options, &scorer);
    if (status == PL_OK)
        status = pl_score_documents(scorer, tokens, docs, n, scores);
    pl_scorer_destroy(&scorer);
    pl_free(docs);
    return status;
}

static pl_status compute_scores(trainer *t, train_job *job)
{
    const size_t n = (size_t)job->arm->n_scored;
    pl_score *scores = pl_alloc(n * sizeof *scores);
    double nats = 0, *out;
    pl_status status = PL_OK;
    PL_TRY(score_with_model(t, job, job->shard, job->arm->inner.skip_prefix,
                            count_batch, scores, n));
    PL_TRY(
        pl_try_alloc(n * sizeof *out, "the scores of documents", (void **)&job->state));
    out = (double *)job->state;
    for (size_t i = 0; i < n; i++) {
        out[i] = scores[i].nats;
        nats += scores[i].nats;
        job->work.n_tokens += scores[i].n_targets;
    }
    job->work.loss = job->work.n_tokens ? nats / (double)job->work.n_tokens : 0;
done:
    pl_free(scores);
    return status;
}

static pl_status check_held(void *trainer_)
{
    PL_CHECK(pl_failpoint("worker.held.before"));
    return check_cancelled(trainer_);
}

/* What the steps of a phase add up to. */
typedef struct step_sums {
    double start, nats, norms;
    bool begun; /* whether a step has begun and not ended */
} step_sums;

/* Waits for the step that has begun, if there is one, and counts its results. */
static pl_status end_step(trainer *t, train_job *job, step_sums *sums)
{
    pl_step_result r = {0};
    if (!sums->begun)
        return PL_OK;
    sums->begun = false;
    PL_CHECK(pl_model_step_end(t->model, &r));
    job->work.n_tokens += (uint64_t)r.n_tokens;
    sums->nats += r.loss * (double)r.n_tokens;
    sums->norms += r.grad_norm;
    const double elapsed = pl_now() - sums->start;
    atomic_store(&t->loss, r.loss);
    if (elapsed > 0)
        atomic_store(&t->rate, (double)job->work.n_tokens / elapsed);
    return PL_OK;
}

/* Does the inner steps on the shard. A step begins before the results of the step
 * before are read, so that a GPU computes while the host prepares the next batch. */
static pl_status train_shard(trainer *t, train_job *job)
{
    const pl_arm *arm = job->arm;
    const pl_inner *in = &arm->inner;
    const size_t n_slots = (size_t)in->batch * (size_t)in->context;
    const size_t n_params = pl_topology_path_params(job->topology);
    pl_status status = PL_OK;
    pl_sampler *sampler = NULL;
    pl_sampler_options options = {.context = in->context,
                                  .seed = arm->seed,
                                  .stream = pl_arm_stream(arm, job->path),
                                  .replica = job->replica,
                                  .n_replicas = pl_topology_n_replicas(job->topology),
                                  .skip_prefix = in->skip_prefix,
                                  .pack = in->pack};
    int32_t *tokens = pl_alloc(n_slots * sizeof *tokens);
    int32_t *targets = pl_alloc(n_slots * sizeof *targets);
    PL_TRY(pl_sampler_create(job->shard, &options, &sampler));
    if (!job->state)
        PL_TRY(pl_try_alloc((size_t)job->n_vectors * n_params * sizeof(float),
                            "a path's state", (void **)&job->state));
    PL_TRY(pl_model_load_moments(t->model, job->state, job->state + n_params));
    const pl_schedule schedule = pl_arm_schedule(in);
    step_sums sums = {.start = pl_now()};
    double waited_s = 0;
    job->work.first_sample = (uint64_t)job->first_step * (uint64_t)in->batch;
    job->work.n_samples = (uint64_t)job->steps * (uint64_t)in->batch;
    for (int i = 0; i < job->steps; i++) {
        const int64_t at = job->first_step + i + in->first_step;
        const pl_adamw adam = {.lr = (float)pl_learning_rate(&schedule, at),
                               .beta1 = (float)in->beta1,
                               .beta2 = (float)in->beta2,
                               .eps = (float)in->eps,
                               .weight_decay = (float)in->weight_decay,
                               .step = at + 1};
        uint64_t sample = job->work.first_sample + (uint64_t)i * (uint64_t)in->batch;
        PL_TRY(check_cancelled(t));
        PL_TRY(pl_failpoint("worker.step.before"));
        if (i == job->mix_step) {
            /* Waits for the merged parameters and mixes them in. This is always done
             * after the same number of steps, so the result does not depend on the time
             * at which they arrive. */
            PL_TRY(end_step(t, job, &sums));
            const double asked = pl_now();
            const float *merged;
            while (!(merged = atomic_load(&t->merged))) {
                PL_TRY(check_cancelled(t));
                pl_sleep_ms(1);
            }
            waited_s += pl_now() - asked;
            PL_TRY(save_params(t, job));
            for (int slot = 0; slot < pl_topology_n_slots(job->topology); slot++) {
                const pl_slot *place = pl_topology_slot(job->topology, slot);
                if (job->mixed[slot])
                    pl_streaming_mix(job->params + place->offset,
                                     merged + place->offset, job->mix, place->n_params);
            }
            PL_TRY(pl_model_load(t->model, job->params));
        }
        const int64_t counted =
            pl_sampler_fill(sampler, sample, in->batch, tokens, targets);
        /* A batch of blank documents has no target; then the step does nothing. */
        if (counted > 0)
            PL_TRY(pl_model_step_begin(t->model, tokens, targets, in->batch,
                                       in->context, &adam, (float)in->clip));
        PL_TRY(end_step(t, job, &sums));
        sums.begun = counted > 0;
        atomic_store(&t->step, i + 1);
    }
    PL_TRY(end_step(t, job, &sums));
    /* logs once how this backend differs from the usual one */
    if (t->backend->remark[0] && !t->remarked)
        pl_log(PL_LOG_WARN, "backend.remark", "remark=\"%s\"", t->backend->remark);
    t->remarked = t->backend->remark[0] != 0;
    job->work.loss = job->work.n_tokens ? sums.nats / (double)job->work.n_tokens : 0;
    job->work.gradient = job->steps > 0 ? sums.norms / job->steps : 0;
    job->work.seconds = pl_now() - sums.start - waited_s;
    job->waited_s = waited_s;
    PL_TRY(save_params(t, job));
    PL_TRY(pl_model_save_moments(t->model, job->state, job->state + n_params));
done:
    pl_sampler_destroy(&sampler);
    pl_free_all(tokens, targets);
    return status;
}

static void train_one_job(void *self, void *given)
{
    trainer *t = self;
    train_job *job = given;
    pl_status status = PL_OK;
    double start = pl_now();
    /* Opens the backend again if the tasks of the job's arm need a different number of
     * threads. The backends ref and cuda always use one. */
    pl_backend_options options = t->options;
    if (job->arm->inner.threads > 0)
        options.n_threads = job->arm->inner.threads;
    if (options.n_threads != t->backend->n_threads &&
        strcmp(t->backend->name, "cpu") == 0) {
        pl_backend *backend = NULL;
        PL_TRY(pl_backend_open(&options, &backend));
        pl_model_destroy(&t->model);
        pl_backend_close(&t->backend);
        t->backend = backend;
    }
    PL_TRY(fit_model(t, job));
    const int n_slots = pl_topology_n_slots(job->topology);
    bool *frozen = pl_alloc((size_t)n_slots * sizeof *frozen);
    for (int slot = 0; slot < n_slots; slot++)
        frozen[slot] = pl_arm_is_frozen(
            job->arm, pl_topology_module_of_path(job->topology, slot, job->path));
    status = pl_model_freeze(t->model, frozen);
    pl_free(frozen);
    if (status != PL_OK)
        pl_model_destroy(&t->model);
    PL_TRY(status);
    PL_TRY(pl_model_load(t->model, job->start));
    if (job->held) { /* scoring changes nothing that later steps read */
        const size_t n = pl_tokens_n_docs(job->held);
        pl_score *scores = pl_alloc((n ? n : 1) * sizeof *scores);
        double nats = 0;
        status = score_with_model(t, job, job->held, job->arm->held_prefix, check_held,
                                  scores, n);
        for (size_t i = 0; status == PL_OK && i < n; i++)
            nats += scores[i].nats;
        job->work.held = nats > 0 && nats < 1e15 ? nats : 0;
        pl_free(scores);
        PL_TRY(status);
    }
    if (!pl_arm_scores(job->arm)) {
        PL_TRY(train_shard(t, job));
    } else {
        const double began = pl_now();
        PL_TRY(job->arm->feature_windows > 0 ? compute_features(t, job)
                                             : compute_scores(t, job));
        job->work.n_samples = pl_phase_samples(job->arm);
        job->work.seconds = pl_now() - began;
        if (job->work.seconds > 0)
            atomic_store(&t->rate, (double)job->work.n_tokens / job->work.seconds);
    }
    job->overhead_s = pl_now() - start - job->work.seconds;
done:
    /* a damaged shard may have caused any other error, so ERR_DAMAGED replaces it */
    if (pl_tokens_check(job->shard) != PL_OK ||
        (job->held && pl_tokens_check(job->held) != PL_OK))
        status = PL_ERR_DAMAGED;
    job->status = status;
    if (status != PL_OK)
        pl_copy_text(job->error, sizeof job->error, pl_last_error());
}

pl_status trainer_create(const pl_backend_options *backend, bool recompute,
                         trainer **out, char device[PL_DEVICE_MAX])
{
    pl_status status = PL_OK;
    trainer *t = pl_alloc(sizeof *t);
    t->options = *backend;
    t->recompute = recompute;
    PL_TRY(pl_backend_open(backend, &t->backend));
    pl_backend_kind(t->backend, device);
    PL_TRY(pl_actor_start("trainer", train_one_job, t, &t->actor));
    *out = t;
    t = NULL;
done:
    trainer_destroy(&t);
    return status;
}

void trainer_destroy(trainer **trainer_)
{
    trainer *t = *trainer_;
    if (!t)
        return;
    trainer_cancel(t);
    pl_actor_destroy(&t->actor);
    pl_model_destroy(&t->model);
    pl_topology_destroy(&t->topology);
    pl_backend_close(&t->backend);
    pl_free(t);
    *trainer_ = NULL;
}

void trainer_start(trainer *t, train_job *job)
{
    atomic_store(&t->cancelled, 0);
    atomic_store(&t->step, 0);
    atomic_store(&t->merged, NULL);
    pl_actor_push(t->actor, job);
}

train_job *trainer_take(trainer *t)
{
    return pl_actor_take(t->actor);
}

int trainer_fd(const trainer *t)
{
    return pl_actor_fd(t->actor);
}

void trainer_cancel(trainer *t)
{
    atomic_store(&t->cancelled, 1);
}

void trainer_give_merged(trainer *t, const float *merged)
{
    atomic_store(&t->merged, merged);
}

void trainer_progress(const trainer *t, int *step, double *loss,
                      double *tokens_per_second)
{
    *step = atomic_load(&t->step);
    *loss = atomic_load(&t->loss);
    *tokens_per_second = atomic_load(&t->rate);
}
