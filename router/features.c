/* Computes the features of documents. Batches are fixed and filled in document order,
 * and each thread has one model. */
#include "router/router.h"
#include "router/windows.h"
#include <string.h>

enum { DOCUMENTS_MAX = 64, TOKENS_MAX = 2048 }; /* limits of a batch */

static size_t batch_of(const pl_feature_job *job)
{
    int fit = TOKENS_MAX / job->prefix;
    return (size_t)(fit < 1 ? 1 : fit < DOCUMENTS_MAX ? fit : DOCUMENTS_MAX);
}

typedef struct lane {
    pl_backend *backend;
    pl_model *model;
    int32_t *tokens;  /* [batch, prefix] */
    int32_t *lengths; /* [batch] */
    uint32_t *docs;   /* [batch] the document of each row */
    float *rows;      /* [batch, width] */
} lane;

typedef struct pass {
    const pl_feature_job *job;
    const pl_tokens *tokens;
    size_t n_docs, width;
    lane *lanes;
    int n_lanes;
    float *features;
} pass;

static pl_status check_feature_job(const pl_feature_job *job)
{
    int context = pl_topology_shape(job->topology)->context;
    if (job->n_threads < 1)
        return pl_fail(PL_ERR_ARG,
                       "features cannot be computed with %d threads; give 1 or more",
                       job->n_threads);
    if (job->prefix < 1 || job->prefix > context)
        return pl_fail(PL_ERR_CONFIG,
                       "the router's prefix has %d tokens; give 1 to %d, the base "
                       "model's context",
                       job->prefix, context);
    return PL_OK;
}

/* Opens lane i. On GPUs, lane i computes on GPU i. */
static pl_status open_feature_lane(const pl_feature_job *job, int i, lane *out)
{
    pl_backend_options backend = {.name = job->backend,
                                  .n_threads = 1,
                                  .precision = job->precision,
                                  .device = i,
                                  .device_turns = true};
    pl_model_options model = {.batch = (int)batch_of(job), .context = job->prefix};
    size_t rows = batch_of(job);
    void *memory = NULL;
    PL_CHECK(pl_backend_open(&backend, &out->backend));
    PL_CHECK(pl_model_create(out->backend, job->topology, &model, &out->model));
    PL_CHECK(pl_model_load(out->model, job->params));
    size_t width = (size_t)pl_topology_shape(job->topology)->width;
    PL_CHECK(pl_try_alloc(
        rows * (((size_t)job->prefix + 2) * sizeof(int32_t) + width * sizeof(float)),
        "feature batch", &memory));
    out->tokens = memory;
    out->lengths = out->tokens + rows * (size_t)job->prefix;
    out->docs = (uint32_t *)(out->lengths + rows);
    out->rows = (float *)(out->docs + rows);
    return PL_OK;
}

static void close_lane(lane *l)
{
    pl_free_aligned(l->tokens);
    pl_model_destroy(&l->model);
    pl_backend_close(&l->backend);
}

/* Fills the batch with window `w` of each of the n documents from `first` on. Skips
 * documents that have no such window. */
static size_t fill_windows(const pass *p, size_t first, size_t n, size_t w, lane *l)
{
    size_t T = (size_t)p->job->prefix, B = 0;
    for (size_t i = 0; i < n; ++i) {
        const pl_token_doc *doc = pl_tokens_doc(p->tokens, (uint32_t)(first + i));
        size_t k = windows_of(doc, T, p->job->windows);
        if (w >= k)
            continue;
        memset(l->tokens + B * T, 0, T * sizeof *l->tokens);
        size_t length = windows_copy(p->tokens, doc, T, w, k, l->tokens + B * T);
        l->docs[B] = (uint32_t)(first + i);
        l->lengths[B++] = (int32_t)length;
    }
    return B;
}

/* Writes for each document of a batch the mean feature over the document's windows. If
 * a document has several windows, each has `prefix` tokens, so all windows have the
 * same weight. */
static pl_status one_batch(void *context, size_t item, int thread)
{
    pass *p = context;
    lane *l = &p->lanes[thread];
    size_t most = batch_of(p->job), first = item * most, C = p->width;
    size_t left = p->n_docs - first;
    size_t n = left < most ? left : most;
    memset(p->features + first * C, 0, n * C * sizeof *p->features);
    for (size_t w = 0, B; (B = fill_windows(p, first, n, w, l)) > 0; ++w) {
        PL_CHECK(pl_model_features(l->model, l->tokens, l->lengths, (int)B,
                                   p->job->prefix, l->rows));
        for (size_t b = 0; b < B; ++b) {
            const pl_token_doc *doc = pl_tokens_doc(p->tokens, l->docs[b]);
            float share =
                1.0f / (float)windows_of(doc, (size_t)p->job->prefix, p->job->windows);
            float *sum = p->features + l->docs[b] * C;
            for (size_t c = 0; c < C; ++c)
                sum[c] += share * l->rows[b * C + c];
        }
    }
    return PL_OK;
}

pl_status pl_router_features(const pl_feature_job *job, const pl_tokens *tokens,
                             float *features)
{
    pass p = {.job = job, .tokens = tokens, .features = features};
    pl_status status = PL_OK;
    PL_CHECK(check_feature_job(job));
    p.n_docs = pl_tokens_n_docs(tokens);
    p.width = (size_t)pl_topology_shape(job->topology)->width;
    size_t n_batches = (p.n_docs + batch_of(job) - 1) / batch_of(job);
    int n_lanes = (size_t)job->n_threads < n_batches ? job->n_threads : (int)n_batches;
    p.lanes = pl_alloc((size_t)n_lanes * sizeof *p.lanes);
    while (p.n_lanes < n_lanes) {
        lane *l = &p.lanes[p.n_lanes++];
        PL_TRY(open_feature_lane(job, p.n_lanes - 1, l));
        if (l->backend->n_devices > 0 && l->backend->n_devices < n_lanes)
            n_lanes = l->backend->n_devices;
    }
    if (n_batches > 0)
        PL_TRY(pl_parallel(n_lanes, n_batches, one_batch, &p));
done:
    for (int i = 0; i < p.n_lanes; ++i)
        close_lane(&p.lanes[i]);
    pl_free(p.lanes);
    return status;
}
