/* Computes the features of documents. Documents are divided into groups of neighbours.
 * One thread computes a group: it fills batches with the group's windows, document
 * after document. So the content of the batches does not depend on the number of
 * threads. Each thread has its own model. */
#include "router/router.h"
#include "router/windows.h"

/* A GPU is fast only with many tokens per batch. On processors small groups are better,
 * so that every thread gets some of the groups. */
enum { TOKENS_MAX = 2048, DEVICE_TOKENS_MAX = 16384, DOCUMENTS = 64 };

int pl_router_feature_rows(int prefix, bool device)
{
    const int rows = (device ? DEVICE_TOKENS_MAX : TOKENS_MAX) / prefix;
    return rows < 1 ? 1 : rows;
}

typedef struct lane {
    pl_backend *backend; /* NULL if the model is borrowed */
    pl_model *model;
    size_t most, n;   /* number of rows of a batch, and number of filled rows */
    int32_t *tokens;  /* [most, prefix] the windows, one per row */
    int32_t *lengths; /* [most] number of tokens of each row */
    uint32_t *docs;   /* [most] the document of each row */
    float *shares;    /* [most] the row's weight in the document's mean */
    float *rows;      /* [most, width] the feature of each row */
} lane;

typedef struct pass {
    const pl_feature_job *job;
    const pl_tokens *tokens;
    size_t n_docs, width, group; /* group: number of documents per group */
    lane *lanes;
    int n_lanes;
    float *features;
} pass;

/* Computes the batch, and adds each row to the mean of its document. All windows of a
 * document have equally many tokens, so they have the same weight. */
static pl_status flush_batch(const pass *p, lane *l)
{
    const size_t C = p->width;
    if (l->n == 0)
        return PL_OK;
    if (p->job->check)
        PL_CHECK(p->job->check(p->job->check_context));
    PL_CHECK(pl_model_features(l->model, l->tokens, l->lengths, (int)l->n,
                               p->job->prefix, l->rows));
    for (size_t b = 0; b < l->n; ++b) {
        float *sum = p->features + l->docs[b] * C;
        for (size_t c = 0; c < C; ++c)
            sum[c] += l->shares[b] * l->rows[b * C + c];
    }
    l->n = 0;
    return PL_OK;
}

static pl_status one_group(void *context, size_t item, int thread)
{
    pass *p = context;
    lane *l = &p->lanes[thread];
    const size_t first = item * p->group, left = p->n_docs - first;
    const size_t n = left < p->group ? left : p->group;
    memset(p->features + first * p->width, 0, n * p->width * sizeof *p->features);
    for (size_t i = first; i < first + n; ++i) {
        const pl_token_doc *doc = pl_tokens_doc(p->tokens, (uint32_t)i);
        const size_t k = windows_of(doc, (size_t)p->job->prefix, p->job->windows);
        for (size_t w = 0; w < k; ++w) {
            const size_t T = (size_t)p->job->prefix;
            int32_t *row = l->tokens + l->n * T;
            memset(row, 0, T * sizeof *row);
            l->lengths[l->n] = (int32_t)windows_copy(p->tokens, doc, T, w, k, row);
            l->docs[l->n] = (uint32_t)i;
            l->shares[l->n++] = 1.0f / (float)k;
            if (l->n == l->most)
                PL_CHECK(flush_batch(p, l));
        }
    }
    return flush_batch(p, l);
}

uint64_t pl_router_feature_tokens(const pl_tokens *tokens, int prefix, int windows)
{
    const size_t T = (size_t)prefix;
    uint64_t n = 0;
    for (uint32_t d = 0; d < pl_tokens_n_docs(tokens); ++d) {
        const pl_token_doc *doc = pl_tokens_doc(tokens, d);
        n += windows_of(doc, T, windows) * (doc->n_tokens < T ? doc->n_tokens : T);
    }
    return n;
}

pl_status pl_router_features(const pl_feature_job *job, const pl_tokens *tokens,
                             float *features)
{
    pass p = {.job = job, .tokens = tokens, .features = features};
    pl_status status = PL_OK;
    const pl_shape *shape = pl_topology_shape(job->topology);
    if (!job->model && job->n_threads < 1)
        return pl_fail(PL_ERR_ARG, "features need at least 1 thread, but %d were given",
                       job->n_threads);
    if (job->prefix < 1 || job->prefix > shape->context)
        return pl_fail(PL_ERR_CONFIG,
                       "the windows of the router have %d tokens; they may have 1 to "
                       "%d, the base model's context",
                       job->prefix, shape->context);
    p.n_docs = pl_tokens_n_docs(tokens);
    p.width = (size_t)shape->width;
    const int n_threads = job->model ? 1 : job->n_threads;
    p.lanes = pl_alloc((size_t)n_threads * sizeof *p.lanes);
    size_t n_groups = 0;
    int n_lanes = 1; /* the backend of the first lane tells the number of GPUs */
    while (p.n_lanes < n_lanes) {
        /* on GPUs, lane i computes on GPU i */
        const pl_backend_options backend = {.name = job->backend,
                                            .n_threads = 1,
                                            .precision = job->precision,
                                            .device = p.n_lanes,
                                            .device_turns = true};
        pl_model_options model = {.batch = job->batch, .context = job->prefix};
        lane *l = &p.lanes[p.n_lanes++];
        l->model = job->model;
        if (!job->model) {
            PL_TRY(pl_backend_open(&backend, &l->backend));
            model.batch =
                pl_router_feature_rows(job->prefix, l->backend->n_devices > 0);
            PL_TRY(pl_model_create(l->backend, job->topology, &model, &l->model));
            PL_TRY(pl_model_load(l->model, job->params));
        }
        const size_t words =
            (size_t)job->prefix + 3 + p.width; /* of 4 bytes, per row */
        l->most = (size_t)model.batch;
        PL_TRY(pl_try_alloc(l->most * words * sizeof(int32_t),
                            "a batch of features of documents", (void **)&l->tokens));
        l->lengths = l->tokens + l->most * (size_t)job->prefix;
        l->docs = (uint32_t *)(l->lengths + l->most);
        l->shares = (float *)(l->docs + l->most);
        l->rows = l->shares + l->most;
        const int n_devices = l->backend ? l->backend->n_devices : 0;
        /* A borrowed model computes all documents in one group. Otherwise a group has
         * as many documents as fill a batch if each has one window, but on a processor
         * at most DOCUMENTS, and on a GPU at least DOCUMENTS. */
        const size_t rows = (size_t)pl_router_feature_rows(job->prefix, n_devices > 0);
        const size_t fewer = rows < DOCUMENTS ? rows : DOCUMENTS;
        const size_t more = rows > DOCUMENTS ? rows : DOCUMENTS;
        p.group = job->model ? p.n_docs : n_devices > 0 ? more : fewer;
        n_groups = p.n_docs > 0 ? (p.n_docs + p.group - 1) / p.group : 0;
        n_lanes = (size_t)n_threads < n_groups ? n_threads : (int)n_groups;
        n_lanes = n_devices > 0 && n_devices < n_lanes ? n_devices : n_lanes;
    }
    if (n_groups > 0)
        PL_TRY(pl_parallel(n_lanes, n_groups, one_group, &p));
done:
    for (int i = 0; i < p.n_lanes; ++i) {
        lane *l = &p.lanes[i];
        pl_free(l->tokens);
        if (l->backend)
            pl_model_destroy(&l->model);
        pl_backend_close(&l->backend);
    }
    pl_free(p.lanes);
    return status;
}
