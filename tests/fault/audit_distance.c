/* folder: workers
 *
 * Measures two kinds of distances: between the results of honest workers that do one
 * task on different kinds of devices, and between an honest result and a lie. Usage:
 * audit_distance STORE PHASES STEPS [f32|i8|i4|topk|sketch16 ...]. The program trains
 * path 0 of the arm `mix` from the versions of a run, phase after phase, on every kind
 * of device of this machine. As in an audit, all kinds begin a phase with the state
 * that the first kind left. It prints, over all modules, the largest value of four
 * distances: relative L2; 1 - cosine; 1 - shorter norm / longer norm; and the distance
 * of an audit, which estimates the larger one of the second and third from sketches.
 * Then it prints the distances of some lies. The measured values are in
 * docs/results/reliability.md. */
#include "codec/codec.h"
#include "outer/outer.h"
#include "workers/path_state.h"
#include "workers/train.h"
#include "workers/workers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS_MAX = 8, VECTORS = 3 /* update, m, v */, REF_MAX = 300000 };

typedef struct kind {
    const char *name, *precision;
    int n_threads;
    trainer *trainer;
    char device[96];
    float *out[VECTORS]; /* [n] results of this phase */
    float *last;         /* [n] update of the previous phase */
} kind;

typedef struct bench {
    pl_store *store;
    pl_arm arm;
    pl_topology *topology;
    void *shard;
    pl_tokens *tokens;
    size_t n;
    float *base, *state, *other; /* n, n_vectors * n, and n floats */
    double *norms;
    pl_path_layout layout;
    pl_codec_part *parts;
    kind kinds[KINDS_MAX];
    int n_kinds;
} bench;

static pl_status read_object(bench *b, const char *name, void **out, size_t *bytes)
{
    pl_object object;
    PL_CHECK(pl_store_get_object(b->store, name, &object));
    *bytes = (size_t)object.bytes;
    PL_CHECK(pl_try_alloc(*bytes, name, out));
    return pl_store_read_blob(b->store, &object.blob, 0, *bytes, *out);
}

static pl_status open_bench(bench *b, const char *folder)
{
    char path[PL_NAME_MAX], name[PL_MODULE_NAME_MAX];
    void *arm = NULL;
    size_t bytes = 0;
    PL_CHECK(pl_store_open(folder, PL_STORE_READ, &b->store));
    PL_CHECK(read_object(b, "arm/mix", &arm, &bytes));
    PL_CHECK(pl_arm_decode(arm, bytes, &b->arm));
    pl_free_aligned(arm);
    PL_CHECK(pl_topology_create(&b->arm.shape, &b->arm.spec, &b->topology));
    pl_topology_path_name(b->topology, 0, path);
    snprintf(name, sizeof name, "shard/mix/%s", path);
    PL_CHECK(read_object(b, name, &b->shard, &bytes));
    PL_CHECK(pl_tokens_view(b->shard, bytes, name, &b->tokens));
    b->n = pl_topology_path_params(b->topology);
    b->layout = pl_path_layout_of(&b->arm);
    b->norms = pl_alloc((size_t)pl_topology_n_slots(b->topology) * sizeof *b->norms);
    b->parts = pl_alloc(4096 * sizeof *b->parts);
    b->base = pl_alloc(b->n * sizeof(float));
    b->other = pl_alloc(b->n * sizeof(float));
    b->state = pl_alloc((size_t)b->layout.n_vectors * b->n * sizeof(float));
    return PL_OK;
}

static void open_kinds(bench *b)
{
    static const kind all[] = {{.name = "cpu", .precision = "f32", .n_threads = 1},
                               {.name = "cpu", .precision = "f32", .n_threads = 2},
                               {.name = "cpu", .precision = "bf16", .n_threads = 1},
                               {.name = "ref", .precision = "f32", .n_threads = 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        kind *k = &b->kinds[b->n_kinds];
        *k = all[i];
        pl_backend_options backend = {
            .name = k->name, .precision = k->precision, .n_threads = k->n_threads};
        if (trainer_create(&backend, false, &k->trainer, k->device) != PL_OK)
            continue;
        /* the reference backend would take hours */
        if (strcmp(k->name, "ref") == 0 && b->n > REF_MAX) {
            trainer_destroy(&k->trainer);
            continue;
        }
        for (int v = 0; v < VECTORS; v++)
            k->out[v] = pl_alloc(b->n * sizeof(float));
        k->last = pl_alloc(b->n * sizeof(float));
        printf("kind %d: %s\n", b->n_kinds, k->device);
        b->n_kinds++;
    }
}

static pl_status read_bases(bench *b, int64_t phase)
{
    for (int slot = 0; slot < pl_topology_n_slots(b->topology); slot++) {
        pl_version v;
        int module = pl_topology_module_of_path(b->topology, slot, 0);
        const pl_slot *place = pl_topology_slot(b->topology, slot);
        const pl_contract of = pl_contract_of(&b->arm, b->topology, module);
        PL_CHECK(pl_store_get_version(b->store, of.name,
                                      pl_round_base(&of, pl_round_of(&of, phase)), &v));
        b->norms[slot] = v.update_norm;
        pl_status status =
            pl_store_read_blob(b->store, &v.params, 0, place->n_params * sizeof(float),
                               b->base + place->offset);
        pl_version_clear(&v);
        PL_CHECK(status);
    }
    return PL_OK;
}

/* Replaces the update by its decoded form. */
static pl_status through_codec(bench *b, const pl_codec_options *codec, int64_t phase,
                               float *update)
{
    for (int slot = 0; slot < pl_topology_n_slots(b->topology); slot++) {
        const pl_slot *place = pl_topology_slot(b->topology, slot);
        int module = pl_topology_module_of_path(b->topology, slot, 0);
        int n_parts = pl_codec_parts(b->topology, module, b->parts);
        const pl_contract of = pl_contract_of(&b->arm, b->topology, module);
        pl_codec_round shared = pl_round_codec(&of, 0, phase, b->norms[slot]);
        pl_buf bytes = {0};
        double norm = 0;
        float *u = update + place->offset;
        PL_CHECK(
            pl_codec_encode_module(codec, b->parts, n_parts, &shared, u, NULL, &bytes));
        memset(u, 0, place->n_params * sizeof *u);
        PL_CHECK(pl_codec_add(bytes.data, bytes.len, place->n_params, 1.0f, u, &norm));
        pl_buf_destroy(&bytes);
    }
    return PL_OK;
}

static pl_status train(bench *b, kind *k, int64_t phase, train_job *job)
{
    *job = (train_job){.arm = &b->arm,
                       .topology = b->topology,
                       .shard = b->tokens,
                       .first_step = phase * b->arm.inner.tau,
                       .steps = b->arm.inner.tau,
                       .start = b->base,
                       .n_vectors = b->layout.n_vectors,
                       .mix_step = -1};
    if (phase > 0) { /* each job needs its own copy of the state */
        size_t bytes = (size_t)b->layout.n_vectors *
                       pl_topology_path_params(b->topology) * sizeof *b->state;
        PL_CHECK(pl_try_alloc_bare(bytes, "a state", (void **)&job->state));
        memcpy(job->state, b->state, bytes);
    }
    trainer_start(k->trainer, job);
    while (!trainer_take(k->trainer))
        pl_sleep_ms(1);
    return job->status == PL_OK ? PL_OK : pl_fail(job->status, "%s", job->error);
}

/* ---- distances ---- */
typedef struct apart {
    /* relative L2; 1 - cosine; 1 - shorter norm / longer norm */
    double l2, turn, factor;
    double audit; /* the distance of an audit, from the sketches of both vectors */
} apart;

static void widen(apart *most, const float *x, const float *y, size_t n, uint64_t part)
{
    double d = 0, xx = 0, yy = 0, xy = 0;
    pl_likeness of_x, of_y;
    for (size_t i = 0; i < n; i++) {
        d += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        xx += (double)x[i] * x[i];
        yy += (double)y[i] * y[i];
        xy += (double)x[i] * y[i];
    }
    if (!(xx > 0) || !(yy > 0))
        return;
    pl_likeness_of(17, part, x, n, &of_x);
    pl_likeness_of(17, part, y, n, &of_y);
    most->l2 = fmax(most->l2, sqrt(d / fmax(xx, yy)));
    most->turn = fmax(most->turn, 1 - xy / sqrt(xx * yy));
    most->factor = fmax(most->factor, 1 - sqrt(fmin(xx, yy) / fmax(xx, yy)));
    most->audit = fmax(most->audit, pl_likeness_distance(&of_x, &of_y));
}

static apart of_update(const bench *b, const float *x, const float *y)
{
    apart most = {0};
    for (int slot = 0; slot < pl_topology_n_slots(b->topology); slot++) {
        const pl_slot *place = pl_topology_slot(b->topology, slot);
        widen(&most, x + place->offset, y + place->offset, place->n_params,
              (uint64_t)slot);
    }
    return most;
}

static apart of_moment(const bench *b, const float *x, const float *y)
{
    apart most = {0};
    widen(&most, x, y, b->n, 99);
    return most;
}

static void print_apart(const char *what, apart a)
{
    printf(" %s L2 %.4f turn %.4f factor %.4f audit %.4f;", what, a.l2, a.turn,
           a.factor, a.audit);
}

static void print_pair(const bench *b, int64_t phase, int i, int k)
{
    const kind *x = &b->kinds[i], *y = &b->kinds[k];
    printf("phase %lld, %s %s %dt and %s %s %dt:", (long long)phase, x->name,
           x->precision, x->n_threads, y->name, y->precision, y->n_threads);
    print_apart("update", of_update(b, x->out[0], y->out[0]));
    print_apart("m", of_moment(b, x->out[1], y->out[1]));
    print_apart("v", of_moment(b, x->out[2], y->out[2]));
    printf("\n");
}

static void print_lie(const bench *b, const char *what, const kind *honest,
                      const float *lie)
{
    printf("    lie, %-20s", what);
    print_apart("", of_update(b, honest->out[0], lie));
    printf("\n");
}

/* Prints how far lies of a worker on the CPU in f32 are from the result of another kind
 * of device. */
static void print_lies(bench *b, int64_t phase, int to)
{
    static const struct {
        const char *name;
        float factor;
    } scales[] = {{"times 0.5", 0.5f},
                  {"times 0.8", 0.8f},
                  {"times 1.25", 1.25f},
                  {"times 2", 2},
                  {"signs flipped", -1}};
    const float *update = b->kinds[0].out[0];
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        for (size_t i = 0; i < b->n; i++)
            b->other[i] = scales[s].factor * update[i];
        print_lie(b, scales[s].name, &b->kinds[to], b->other);
    }
    if (phase > 0)
        print_lie(b, "update of before", &b->kinds[to], b->kinds[0].last);
}

static pl_status other_samples(bench *b, int64_t phase, const pl_codec_options *codec)
{
    train_job job;
    uint64_t seed = b->arm.seed;
    memset(&job, 0, sizeof job);
    b->arm.seed++;
    pl_status status = train(b, &b->kinds[0], phase, &job);
    b->arm.seed = seed;
    for (size_t i = 0; status == PL_OK && i < b->n; i++)
        b->other[i] = b->base[i] - job.params[i];
    train_job_clear(&job);
    PL_CHECK(status);
    PL_CHECK(through_codec(b, codec, phase, b->other));
    print_lie(b, "other samples", &b->kinds[b->n_kinds - 1], b->other);
    return PL_OK;
}

static pl_status run_phase(bench *b, int64_t phase, const pl_codec_options *codec)
{
    float *next = pl_alloc(2 * b->n * sizeof *next);
    PL_CHECK(read_bases(b, phase));
    for (int k = 0; k < b->n_kinds; k++) {
        kind *kd = &b->kinds[k];
        train_job job;
        memset(&job, 0, sizeof job);
        memcpy(kd->last, kd->out[0], b->n * sizeof(float));
        PL_CHECK(train(b, kd, phase, &job));
        for (size_t i = 0; i < b->n; i++)
            kd->out[0][i] = b->base[i] - job.params[i];
        memcpy(kd->out[1], job.state, b->n * sizeof(float));
        memcpy(kd->out[2], job.state + b->n, b->n * sizeof(float));
        if (k == 0)
            memcpy(next, job.state, 2 * b->n * sizeof(float));
        train_job_clear(&job);
        PL_CHECK(through_codec(b, codec, phase, kd->out[0]));
    }
    for (int i = 0; i < b->n_kinds; i++)
        for (int k = i + 1; k < b->n_kinds; k++)
            print_pair(b, phase, i, k);
    print_lies(b, phase, b->n_kinds - 1);
    PL_CHECK(other_samples(b, phase, codec));
    memcpy(b->state, next, 2 * b->n * sizeof(float));
    pl_free(next);
    return PL_OK;
}

static pl_status run(bench *b, char **argv, const char *name)
{
    pl_codec_options codec;
    PL_CHECK(pl_codec_options_default(name, &codec));
    if (!b->store) {
        PL_CHECK(open_bench(b, argv[1]));
        if (atoi(argv[3]) > 0) /* STEPS 0 means tau of the run */
            b->arm.inner.tau = atoi(argv[3]);
        open_kinds(b);
        printf("tau %d, batch %d, context %d, %zu parameters per path\n",
               b->arm.inner.tau, b->arm.inner.batch, b->arm.inner.context, b->n);
    }
    printf("codec %s\n", name);
    for (int64_t phase = 0; phase < atoi(argv[2]); phase++)
        PL_CHECK(run_phase(b, phase, &codec));
    return PL_OK;
}

int main(int argc, char **argv)
{
    bench b = {0};
    pl_status status = PL_OK;
    if (argc < 4)
        return 64;
    if (argc == 4)
        status = run(&b, argv, "f32");
    for (int i = 4; status == PL_OK && i < argc; i++)
        status = run(&b, argv, argv[i]);
    if (status != PL_OK)
        fprintf(stderr, "audit_distance: %s\n", pl_last_error());
    for (int k = 0; k < b.n_kinds; k++)
        trainer_destroy(&b.kinds[k].trainer);
    return status != PL_OK;
}
