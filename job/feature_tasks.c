/* Lets the workers compute the routing features of the training documents.
 *
 * The documents are divided into slices of equal size. An arm ("features~0" for the
 * first chapter) has one path per slice. Each path has one task, which is leased,
 * audited, repeated by a second worker and counted exactly once like any task of
 * training. The arm makes no versions: the features of a slice are the state of its
 * path after the task. If this process dies, the next launcher finds the arm, or stores
 * the same bytes again. */
#include "job/stages.h"
#include "router/router.h"

#include <string.h>

/* TASK_BYTES: if router.feature_docs is 0, the features of all documents of a task
 * together have about this many bytes. TASKS_MAX: largest number of tasks. */
enum { TASK_BYTES = 8 << 20, TASKS_MAX = 1024 };

typedef struct slices {
    size_t n;        /* number of documents */
    size_t per_task; /* number of documents per task */
    int n_tasks;
} slices;

static slices cut_slices(const pl_run *r, const routing *g)
{
    const size_t row = (size_t)g->dim * sizeof(float);
    size_t per = (size_t)r->cfg.feature_docs;
    if (per == 0)
        per = TASK_BYTES / row > 0 ? TASK_BYTES / row : 1;
    if (per * TASKS_MAX < g->n)
        per = (g->n + TASKS_MAX - 1) / TASKS_MAX;
    return (slices){g->n, per, (int)((g->n + per - 1) / per)};
}

/* Returns the first document of a task. All tasks have the same number of documents, so
 * the last task may begin with documents that the previous task has, too. */
static size_t first_document(const slices *s, int task)
{
    const size_t first = (size_t)task * s->per_task, last = s->n - s->per_task;
    return first < last ? first : last;
}

/* Makes the definition of the arm. A task computes at most as many tokens at once as a
 * step of training, so that the worker needs no more memory than for training. */
static pl_status define_arm(const pl_run *r, const slices *s, const char *name,
                            pl_arm *arm)
{
    const config *c = &r->cfg;
    const int prefix = config_feature_prefix(c),
              windows = c->sees > 1 ? (int)c->sees : 1;
    const int64_t trained = (int64_t)config_pass(c) * c->context / prefix;
    int64_t rows = pl_router_feature_rows(prefix, false);
    rows = rows > trained ? trained : rows;
    rows = rows < 1 ? 1 : rows;
    PL_CHECK(run_arm(r, "base", arm));
    pl_copy_text(arm->name, sizeof arm->name, name);
    arm->spec.experts[0] = s->n_tasks;
    arm->spec.embed_choice = arm->spec.head_choice = PL_CHOICE_COMMON;
    memset(arm->spec.absent, 0, sizeof arm->spec.absent);
    arm->spec.replicas = 1;
    arm->n_scored = (int64_t)s->per_task;
    arm->feature_windows = windows;
    pl_inner *in = &arm->inner;
    in->context = prefix;
    in->batch = (int)rows;
    in->micro_batch = in->skip_prefix = in->decay = in->first_step = 0;
    in->tau = (int)(((int64_t)s->per_task * windows + rows - 1) / rows);
    in->phases = 1;
    in->pack = false;
    arm->n_shards = s->n_tasks;
    pl_free(arm->shards);
    pl_free(arm->weights);
    arm->shards = pl_alloc((size_t)s->n_tasks * sizeof *arm->shards);
    arm->weights = pl_alloc((size_t)s->n_tasks * sizeof *arm->weights);
    return PL_OK;
}

static pl_status publish(pl_run *r, const slices *s, const float *params, pl_arm *arm,
                         const pl_topology *t)
{
    uint32_t *docs = pl_alloc(s->per_task * sizeof *docs);
    pl_status status = PL_OK;
    for (int task = 0; task < s->n_tasks; task++) {
        PL_TRY(run_stopped(r));
        for (size_t i = 0; i < s->per_task; i++)
            docs[i] = (uint32_t)(first_document(s, task) + i);
        PL_TRY(stages_put_shard(r, arm, t, task, docs, s->per_task));
    }
    PL_TRY(pl_failpoint("features.arm.before"));
    PL_TRY(stages_publish_arm(r, arm, t, params));
done:
    pl_free(docs);
    return status;
}

static pl_status read_features(pl_run *r, const slices *s, const pl_arm *arm,
                               const pl_topology *t, routing *g)
{
    const size_t dim = (size_t)g->dim;
    pl_buf blob = {0};
    pl_path_state state;
    char name[PL_MODULE_NAME_MAX];
    pl_status status = PL_OK;
    for (int task = 0; task < s->n_tasks; task++) {
        pl_arm_path_name(arm, t, task, 0, name);
        PL_TRY(pl_client_get_path(r->client, name, &state));
        pl_buf_clear(&blob);
        PL_TRY(pl_client_get_blob(r->client, name, &state.moments, &blob));
        if (blob.len != pl_arm_scores_bytes(arm))
            PL_TRY(pl_fail(PL_ERR_DAMAGED,
                           "%s has %zu bytes of features instead of %llu", name,
                           blob.len, (unsigned long long)pl_arm_scores_bytes(arm)));
        memcpy(g->features + first_document(s, task) * dim, blob.data, blob.len);
    }
done:
    pl_buf_destroy(&blob);
    return status;
}

pl_status stages_feature_tasks(pl_run *r, const float *params, routing *g, bool *done)
{
    const slices s = cut_slices(r, g);
    const double start = pl_now();
    pl_arm arm;
    pl_topology *t = NULL;
    bool exists = false;
    char name[PL_ARM_NAME_MAX], took[16];
    const char *const shown[] = {name};
    *done = s.n_tasks > 1;
    if (!*done)
        return PL_OK;
    pl_features_name(g->chapter, name);
    pl_status status = define_arm(r, &s, name, &arm);
    PL_TRY(status);
    PL_TRY(pl_topology_create(&arm.shape, &arm.spec, &t));
    PL_TRY(stages_arm_exists(r, name, &exists));
    if (!exists)
        PL_TRY(publish(r, &s, params, &arm, t));
    PL_TRY(progress_wait(r, shown, 1, 1));
    PL_TRY(read_features(r, &s, &arm, t, g));
    pl_human_seconds(pl_now() - start, took);
    say("router   the features of %zu documents were computed by the workers in %d "
        "tasks, in %s",
        s.n, s.n_tasks, took);
done:
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}
