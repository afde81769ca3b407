/* folder: router; label: unit */
#include "router/router.h"
#include "tests/support/corpus_support.h"
#include "tests/support/pairs.h"
#include "tests/support/shape.h"

/* N_DOCS documents are more than one group: features are computed in groups of 64. With
 * windows of LONG tokens a group needs several batches, and the windows of a document
 * may be in two batches. */
enum { PREFIX = 6, LONG = 40, N_DOCS = 70, WIDTH = 10 };
static pl_topology *topology;
static float *params;
static pl_buf file;
static pl_tokens *tokens;
static pl_backend *backend;
static pl_model *base; /* a model whose context is LONG */

static int open_all(void **state)
{
    (void)state;
    pl_shape shape =
        SHAPE(20000, WIDTH, 2, 2, 4, 12, 2, LONG, .tied = true, .rope_theta = 100.0);
    uint32_t lens[N_DOCS];
    for (uint32_t d = 0; d < N_DOCS; ++d)
        /* Shorter than a window, as long as a window, and longer. */
        lens[d] = d % 3 ? 2 + d % 20 : LONG + 3 * d;
    build_tokens(lens, N_DOCS, 20000, &file);
    assert_ok(pl_tokens_view(file.data, file.len, "test", &tokens));
    topology = one_path(&shape);
    params = calloc(pl_topology_path_params(topology), sizeof *params);
    init_path(topology, 1, params);
    backend = open_side("ref", "f32", 1);
    const pl_model_options model = {.batch = 1, .context = LONG};
    assert_ok(pl_model_create(backend, topology, &model, &base));
    assert_ok(pl_model_load(base, params));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    free(params);
    pl_model_destroy(&base);
    pl_backend_close(&backend);
    pl_topology_destroy(&topology);
    pl_tokens_close(&tokens);
    pl_buf_destroy(&file);
    return 0;
}

static pl_feature_job make_job(int n_threads, int prefix)
{
    return (pl_feature_job){.topology = topology,
                            .params = params,
                            .precision = "f32",
                            .backend = "ref",
                            .prefix = prefix,
                            .n_threads = n_threads};
}

PL_TEST(features_do_not_depend_on_threads)
{
    float features[3][N_DOCS * WIDTH];
    for (int prefix = PREFIX; prefix <= LONG; prefix += LONG - PREFIX) {
        for (int threads = 1; threads <= 3; ++threads) {
            pl_feature_job job = make_job(threads, prefix);
            job.windows = 3;
            assert_ok(pl_router_features(&job, tokens, features[threads - 1]));
        }
        assert_memory_equal(features[0], features[1], sizeof features[0]);
        assert_memory_equal(features[0], features[2], sizeof features[0]);
    }
}

/* Checks that the features of a document are the mean over its windows of T tokens. The
 * first window begins where the document begins, the last one ends where it ends, and
 * the others lie evenly between them. */
static void check_means(int T)
{
    enum { WINDOWS = 3 };
    float features[N_DOCS * WIDTH], feature[WIDTH];
    int n_several = 0;
    pl_feature_job job = make_job(2, T);
    job.windows = WINDOWS;
    assert_ok(pl_router_features(&job, tokens, features));
    for (uint32_t d = 0; d < N_DOCS; ++d) {
        const pl_token_doc *doc = pl_tokens_doc(tokens, d);
        int n = (int)doc->n_tokens, full = (n + T - 1) / T;
        int k = full < WINDOWS ? full : WINDOWS;
        double mean[WIDTH] = {0};
        int32_t slice[LONG];
        n_several += k > 1;
        for (int w = 0; w < k; ++w) {
            int at = k > 1 ? w * (n - T) / (k - 1) : 0;
            int length = n < T ? n : T;
            pl_tokens_copy(tokens, doc->first + (uint64_t)at, (size_t)length, slice);
            const int32_t filled = length;
            assert_ok(pl_model_features(base, slice, &filled, 1, length, feature));
            for (int c = 0; c < WIDTH; ++c)
                mean[c] += (double)feature[c] / k;
        }
        for (int c = 0; c < WIDTH; ++c)
            assert_true(fabs(mean[c] - (double)features[d * WIDTH + (uint32_t)c]) <
                        1e-5);
    }
    assert_true(n_several > 2); /* there are enough long documents */
}

PL_TEST(several_windows_give_their_mean)
{
    check_means(PREFIX);
    check_means(LONG);
}

static pl_status count_check(void *n)
{
    ++*(int *)n;
    return PL_OK;
}

/* A worker computes features with its own model, in batches of any size. On `ref` the
 * rows of a batch do not influence each other, so the bytes must be equal. */
PL_TEST(borrowed_model_gives_the_same_features)
{
    enum { BATCH = 2 };
    static float own[N_DOCS * WIDTH], borrowed[N_DOCS * WIDTH];
    const pl_model_options options = {
        .batch = BATCH, .context = PREFIX, .training = true};
    OWNED(pl_model_destroy) pl_model *model = NULL;
    int n_checks = 0;
    pl_feature_job job = make_job(2, PREFIX);
    job.windows = 3;
    assert_ok(pl_router_features(&job, tokens, own));
    assert_ok(pl_model_create(backend, topology, &options, &model));
    assert_ok(pl_model_load(model, params));
    job = (pl_feature_job){.topology = topology,
                           .model = model,
                           .batch = BATCH,
                           .prefix = PREFIX,
                           .windows = 3,
                           .check = count_check,
                           .check_context = &n_checks};
    assert_ok(pl_router_features(&job, tokens, borrowed));
    assert_memory_equal(own, borrowed, sizeof own);
    assert_true(n_checks > N_DOCS / BATCH);
    uint64_t most = 0;
    for (uint32_t d = 0; d < N_DOCS; ++d)
        most += pl_tokens_doc(tokens, d)->n_tokens;
    assert_true(pl_router_feature_tokens(tokens, PREFIX, 3) <= 3 * PREFIX * N_DOCS);
    assert_true(pl_router_feature_tokens(tokens, LONG, 1000) >= most);
}

PL_TEST(impossible_jobs_are_refused)
{
    float features[N_DOCS * WIDTH];
    pl_feature_job job = make_job(1, LONG + 1);
    assert_fails(pl_router_features(&job, tokens, features), PL_ERR_CONFIG,
                 "41 tokens");
}

PL_SUITE(open_all, close_all)
