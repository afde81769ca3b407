/* Lets the workers compute the routing features of the training documents.
 *
 * The documents are divided into slices of equal size. An arm ("features~0" for the
 * first chapter) has one path per slice. Each path has one task, which is leased,
 * audited, repeated by a second worker and counted exactly once like any task of
 * training. The arm makes no versions: the features of a slice are the state of its
 * path after the task. If this process dies, the next launcher finds the arm, or stores
 * the same bytes again. */
#include "job/stages.h"

#include <math.h>

/* TASK_BYTES: if router.feature_docs is 0, the features of all documents of a task
 * together have about this many bytes. TASK_BYTES_MAX and TASKS_MAX: limits for the
 * features of a task, and for the number of tasks. */
enum { TASK_BYTES = 8 << 20, TASK_BYTES_MAX = 1 << 30, TASKS_MAX = 1024 };

typedef struct slices {
    size_t n;        /* number of documents */
    size_t per_task; /* number of documents per task */
    int experts[2];  /* number of modules of the first two levels of the arm */
    int n_tasks;     /* the product of experts: each path of the arm is a task */
} slices;

/* Returns the first document of a task. All tasks have the same number of documents, so
 * the last task may begin with documents that the previous task has, too. */
static size_t first_document(const slices *s, int task)
{
    const size_t first = (size_t)task * s->per_task, last = s->n - s->per_task;
    return first < last ? first : last;
}

/* Makes `arm`, the definition of the base model, the definition of the arm that
 * computes features. A task computes at most as many tokens at once as a step of
 * training, so that the worker needs no more memory than for training. */
static void define_arm(const pl_run *r, const slices *s, const char *name, pl_arm *arm)
{
    const config *c = &r->cfg;
    const int prefix = config_feature_prefix(c),
              windows = c->sees > 1 ? (int)c->sees : 1;
    const int64_t trained = (int64_t)config_pass(c) * c->context / prefix;
    int64_t rows = pl_router_feature_rows(prefix, true);
    rows = rows > trained ? trained : rows;
    rows = rows < 1 ? 1 : rows;
    pl_copy_text(arm->name, sizeof arm->name, name);
    for (int l = 0; l < arm->spec.n_levels && l < 2; l++)
        arm->spec.experts[l] = s->experts[l];
    arm->spec.embed_choice = arm->spec.head_choice = PL_CHOICE_COMMON;
    memset(arm->spec.absent, 0, sizeof arm->spec.absent);
    arm->spec.replicas = 1;
    arm->n_scored = (int64_t)s->per_task;
    arm->feature_windows = windows;
    pl_inner *in = &arm->inner;
    in->context = prefix;
    in->batch = (int)rows;
    in->micro_batch = in->skip_prefix = in->decay = in->first_step = in->threads = 0;
    in->tau = (int)(((int64_t)s->per_task * windows + rows - 1) / rows);
    in->phases = 1;
    in->pack = false;
    arm->n_shards = s->n_tasks;
    pl_free_all(arm->shards, arm->weights);
    arm->shards = pl_alloc((size_t)s->n_tasks * sizeof *arm->shards);
    arm->weights = pl_alloc((size_t)s->n_tasks * sizeof *arm->weights);
}

static void list_documents(const slices *s, int task, uint32_t *docs)
{
    for (size_t i = 0; i < s->per_task; i++)
        docs[i] = (uint32_t)(first_document(s, task) + i);
}

/* Whether the arm `name` exists and has computed the features of the same documents. */
static pl_status is_same_text(pl_run *r, const slices *s, const char *name, bool *same)
{
    uint32_t *docs = pl_alloc(s->per_task * sizeof *docs);
    pl_buf bytes = {0};
    pl_arm arm;
    pl_hash blob;
    pl_status status = stages_read_arm(r, name, &arm);
    *same = false;
    if (status == PL_ERR_NOT_FOUND) {
        status = PL_OK;
        goto done;
    }
    PL_TRY(status);
    *same = arm.n_shards == s->n_tasks;
    for (int task = 0; *same && task < s->n_tasks; task++) {
        list_documents(s, task, docs);
        pl_buf_clear(&bytes);
        PL_TRY(pl_tokens_subset(r->train, docs, s->per_task, &bytes));
        pl_blob_hash(bytes.data, bytes.len, &blob);
        *same = pl_hash_equal(&blob, &arm.shards[task]);
    }
done:
    pl_arm_clear(&arm);
    pl_buf_destroy(&bytes);
    pl_free(docs);
    return status;
}

pl_status stages_feature_tasks(pl_run *r, const float *params, routing *g, bool *done)
{
    const double start = pl_now();
    pl_arm arm;
    pl_topology *t = NULL;
    uint32_t *docs = NULL;
    pl_buf blob = {0};
    bool exists = false;
    char name[PL_ARM_NAME_MAX], took[16];
    const char *const shown[] = {name};
    pl_status status = run_arm(r, "base", &arm);
    PL_TRY(status);
    const size_t row = (size_t)g->dim * sizeof(float);
    size_t per = (size_t)r->cfg.feature_docs;
    if (per == 0)
        per = TASK_BYTES / row > 0 ? TASK_BYTES / row : 1;
    if (per > TASK_BYTES_MAX / row)
        per = TASK_BYTES_MAX / row;
    if (per * TASKS_MAX < g->n)
        per = (g->n + TASKS_MAX - 1) / TASKS_MAX;
    const int n = (int)((g->n + per - 1) / per);
    /* With two levels, each level has about sqrt(n) modules instead of n. */
    slices s = {.n = g->n, .experts = {n, 1}};
    if (arm.spec.n_levels > 1) {
        s.experts[0] = (int)ceil(sqrt(n));
        s.experts[1] = (n + s.experts[0] - 1) / s.experts[0];
    }
    s.n_tasks = s.experts[0] * s.experts[1];
    s.per_task = (g->n + (size_t)s.n_tasks - 1) / (size_t)s.n_tasks;
    *done = s.n_tasks > 1;
    if (!*done)
        goto done;
    docs = pl_alloc(s.per_task * sizeof *docs);
    /* If an earlier chapter has computed the features of the same text, the arm of that
     * chapter is used. (Forgotten documents change the text.) */
    PL_TRY(stages_arm_exists(r, pl_features_name(g->chapter, name), &exists));
    for (int earlier = g->chapter - 1; earlier >= 0 && !exists; earlier--)
        PL_TRY(is_same_text(r, &s, pl_features_name(earlier, name), &exists));
    if (!exists)
        pl_features_name(g->chapter, name);
    define_arm(r, &s, name, &arm);
    PL_TRY(pl_topology_create(&arm.shape, &arm.spec, &t));
    if (!exists) {
        for (int task = 0; task < s.n_tasks; task++) {
            PL_TRY(run_stopped(r));
            list_documents(&s, task, docs);
            PL_TRY(stages_put_shard(r, &arm, t, task, docs, s.per_task));
        }
        PL_TRY(pl_failpoint("features.arm.before"));
        PL_TRY(stages_publish_arm(r, &arm, t, params));
    }
    PL_TRY(progress_wait(r, shown, 1, 1));
    char path[PL_MODULE_NAME_MAX];
    for (int task = 0; task < s.n_tasks; task++) {
        pl_arm_path_name(&arm, t, task, 0, path);
        PL_TRY(stages_read_state(r, path, pl_arm_scores_bytes(&arm), &blob));
        memcpy(g->features + first_document(&s, task) * (size_t)g->dim, blob.data,
               blob.len);
    }
    if (!exists)
        say("router   the features of %zu documents were computed by the workers in %d "
            "tasks, in %s",
            s.n, s.n_tasks, pl_human_seconds(pl_now() - start, took));
done:
    pl_free(docs);
    pl_buf_destroy(&blob);
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}
