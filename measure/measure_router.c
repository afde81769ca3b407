/* pathloom bench router: plans shards for many documents, on synthetic features. It
 * fits a router, deals every document to a path, fits a linear router, and finds
 * documents that look the same, as the launcher does. It prints the time of each stage
 * and the largest private memory of the process. The features are not private memory:
 * they are in a mapped file.
 *
 * Documents are drawn from 2 * paths normal clouds of unequal sizes. For each router
 * three figures about its shards of all documents are printed: the share of the
 * variance that lies within shards, the weight of the heaviest shard divided by the
 * mean weight, and the purity of the shards with respect to the clouds. So a fit that
 * uses only a sample can be compared with a fit that uses all documents.
 *
 * All of it runs in a child process, whose memory the parent watches. */
#include "measure/measure.h"
#include "measure/home_process.h"

#include <math.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ITEM = 4096, SEED = 7 };

typedef struct bench {
    size_t n; /* number of documents */
    int n_paths, dim, n_clouds;
    uint64_t fit_bytes;        /* memory for a fit; 0: no limit */
    float *features, *centres; /* [n, dim], [n_clouds, dim] */
    double *weights;           /* [n] tokens of each document */
    uint32_t *cloud;           /* [n] the cloud of each document */
} bench;

/* Returns zeroed memory. */
static void *need_memory(size_t bytes)
{
    void *memory = NULL;
    measure_need(pl_try_alloc(bytes, "an array of documents", &memory));
    return memory;
}

/* ---- documents ---- */
/* splitmix64; a stream per document, so the number of threads changes none. */
static uint64_t next_bits(uint64_t *state)
{
    return pl_mix64(*state += 0x9e3779b97f4a7c15u);
}

/* An almost normal number with variance 1: the scaled sum of four uniform ones. */
static float next_normal(uint64_t *state)
{
    const uint64_t bits = next_bits(state);
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(bits >> 16 * i & 0xffff) / 65536.0;
    return (float)((sum - 2.0) * 1.7320508075688772);
}

static pl_status draw_documents(void *context, size_t item, int thread)
{
    bench *b = context;
    const size_t dim = (size_t)b->dim;
    (void)thread;
    for (size_t i = item * ITEM; i < b->n && i < (item + 1) * ITEM; i++) {
        uint64_t state = SEED + i * 0x2545f4914f6cdd1du;
        const double u = (double)(next_bits(&state) >> 11) / 9007199254740992.0;
        const uint32_t cloud = (uint32_t)(u * u * b->n_clouds);
        b->cloud[i] = cloud;
        b->weights[i] = floor(100.0 * exp((double)next_normal(&state)));
        for (size_t d = 0; d < dim; d++)
            b->features[i * dim + d] =
                b->centres[cloud * dim + d] + next_normal(&state);
    }
    return PL_OK;
}

/* ---- how good shards are ---- */
/* Returns the share of the variance of all features that lies within shards. */
static double variance_within(const bench *b, const pl_shards *shards)
{
    const size_t dim = (size_t)b->dim, k = (size_t)b->n_paths;
    double *sums = need_memory(k * dim * sizeof *sums);
    double *counts = need_memory(k * sizeof *counts);
    double squares = 0, between = 0, all = 0;
    for (size_t i = 0; i < b->n; i++) {
        const size_t path = (size_t)shards->path_of[i];
        counts[path]++;
        for (size_t d = 0; d < dim; d++) {
            const double x = (double)b->features[i * dim + d];
            sums[path * dim + d] += x;
            squares += x * x;
        }
    }
    for (size_t d = 0; d < dim; d++) {
        double total = 0;
        for (size_t p = 0; p < k; p++) {
            total += sums[p * dim + d];
            if (counts[p] > 0)
                between += sums[p * dim + d] * sums[p * dim + d] / counts[p];
        }
        all += total * total / (double)b->n;
    }
    pl_free_all(sums, counts);
    return (squares - between) / (squares - all);
}

static void deal_and_judge(const bench *b, const char *name, const pl_router *router)
{
    pl_shards shards;
    pl_judgement judged;
    double start = pl_now();
    measure_need(pl_shards_make(router, b->features, b->n, 1, &shards));
    say("%-8s %7.1f s  every document dealt", name, pl_now() - start);
    start = pl_now();
    pl_judge(shards.path_of, b->n_paths, b->cloud, b->n_clouds, b->n, &judged);
    double *load = need_memory((size_t)b->n_paths * sizeof *load), sum = 0, most = 0;
    for (size_t i = 0; i < b->n; i++) {
        load[shards.path_of[i]] += b->weights[i];
        sum += b->weights[i];
    }
    for (int p = 0; p < b->n_paths; p++)
        most = fmax(most, load[p]);
    say("%-8s %7.1f s  within shards %.5f of the variance, heaviest shard %.3f of "
        "the mean, purity %.4f, %d repaired",
        name, pl_now() - start, variance_within(b, &shards), most * b->n_paths / sum,
        judged.purity, shards.n_repaired);
    pl_free(load);
    pl_shards_clear(&shards);
}

/* ---- stages ---- */
/* Fits a linear router to scores. The score of a document on a path is the nearness of
 * the document to the path's cloud, so that the scores can be learned. `usual` are the
 * options of the k-means router, with which the prices are computed too. */
static void fit_scores(const bench *b, const pl_router_options *usual)
{
    const size_t n = b->n < 65536 ? b->n : 65536, k = (size_t)b->n_paths;
    const size_t dim = (size_t)b->dim;
    double *scores = need_memory(n * k * sizeof *scores), start = pl_now();
    pl_router_options options = *usual;
    pl_router *router = NULL;
    for (size_t i = 0; i < n * k; i++) {
        const float *x = b->features + i / k * dim;
        const float *centre = b->centres + 2 * (i % k) * dim;
        double sum = 0;
        for (size_t d = 0; d < dim; d++)
            sum += (double)(x[d] - centre[d]) * (double)(x[d] - centre[d]);
        scores[i] = -sum / 2;
    }
    options.kind = PL_ROUTER_LINEAR;
    options.scores = scores;
    options.balance = 0;
    options.components = options.sharpen = 0;
    options.unit = false;
    options.weights = NULL;
    measure_need(pl_router_fit(b->features, n, b->dim, &options, &router));
    pl_free(scores);
    say("linear   %7.1f s  fitted to the scores of %zu documents", pl_now() - start, n);
    start = pl_now();
    measure_need(pl_router_price(router, b->features, b->n, usual));
    say("linear   %7.1f s  prices computed", pl_now() - start);
    deal_and_judge(b, "linear", router);
    pl_router_destroy(&router);
}

static void plan_documents(bench *b, const char *folder)
{
    pl_alike alike;
    uint64_t state = SEED;
    pl_router *router = NULL;
    double start = pl_now();
    const size_t dim = (size_t)b->dim, n_clouds = (size_t)b->n_clouds;
    measure_need(pl_map_scratch(folder, b->n * dim * sizeof *b->features,
                                (void **)&b->features));
    b->centres = need_memory(n_clouds * dim * sizeof *b->centres);
    b->weights = need_memory(b->n * sizeof *b->weights);
    b->cloud = need_memory(b->n * sizeof *b->cloud);
    for (size_t i = 0; i < n_clouds * dim; i++)
        b->centres[i] = 0.7f * next_normal(&state);
    measure_need(
        pl_parallel(pl_cpu_count(), (b->n + ITEM - 1) / ITEM, draw_documents, b));
    say("features %7.1f s  %zu documents, %d columns, %d paths", pl_now() - start, b->n,
        b->dim, b->n_paths);
    const pl_router_options options = {.kind = PL_ROUTER_KMEANS,
                                       .n_paths = b->n_paths,
                                       .restarts = 1,
                                       .iterations = 20,
                                       .balance = 0.1,
                                       .weights = b->weights,
                                       .standardize = true,
                                       .components = b->dim < 20 ? b->dim : 20,
                                       .sharpen = 3,
                                       .unit = true,
                                       .seed = SEED,
                                       .n_threads = pl_cpu_count(),
                                       .memory = b->fit_bytes};
    start = pl_now();
    measure_need(pl_router_fit(b->features, b->n, b->dim, &options, &router));
    say("kmeans   %7.1f s  fitted to one of every %zu documents", pl_now() - start,
        pl_router_stride(&options, b->n, b->dim));
    deal_and_judge(b, "kmeans", router);
    pl_router_destroy(&router);
    fit_scores(b, &options);
    start = pl_now();
    measure_need(
        pl_router_heaviest_alike(b->features, b->n, b->dim, b->weights, &alike));
    say("alike    %7.1f s  at most %zu documents look the same", pl_now() - start,
        alike.n_docs);
    pl_unmap_scratch(b->features, b->n * (size_t)b->dim * sizeof *b->features);
    pl_free_all(b->centres, b->weights, b->cloud);
}

pl_status measure_router(const measure_documents *o)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    bench b = {.n = (size_t)o->documents,
               .n_paths = o->paths,
               .dim = o->columns,
               .n_clouds = 2 * o->paths,
               .fit_bytes = (uint64_t)o->memory_mib << 20};
    double most = 0;
    int status = 0;
    if (o->documents < o->paths)
        return pl_fail(
            PL_ERR_USAGE,
            "%lld documents are too few for %d paths; give --documents %d or "
            "more",
            (long long)o->documents, o->paths, o->paths);
    const pid_t child = fork();
    if (child < 0)
        return pl_fail(PL_ERR_OS, "cannot start a process for the measurement");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        plan_documents(&b, o->folder);
        _exit(0);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        most = fmax(most, measure_memory(child, "RssAnon:"));
        nanosleep(&pause, NULL);
    }
    say("memory   private: at most %.0f MiB", most / 1048576);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return PL_OK;
    return pl_fail(PL_ERR_OS, "the measurement ended before it was finished");
}
