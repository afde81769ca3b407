/* folder: workers; label: unit
 *
 * What holders of a module do by themselves under noloco and eager: the same as the
 * equations in plain double, and on average what the module's home makes of it. */
#include "workers/local.h"
#include "tests/tiny_arm.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    HOLDERS_MAX = 4,
    PHASES = 6,
    MODULE = 0
}; /* the embedding: all paths share it */

typedef struct holder {
    float *params, *velocity, *last, *before; /* of the path's state */
    float *start, *now, *update, *sent, *residual, *sent_start;
    double *x, *v, *d, *d_before, *step; /* the equations': d is share * update */
} holder;

typedef struct world {
    pl_arm arm;
    pl_topology *topology;
    int k;
    size_t n;
    float *zero; /* version 0 */
    double *mean_before;
    holder of[HOLDERS_MAX];
    /* a home, where a test wants one */
    char dir[64], store[PL_PATH_MAX], ready[PL_PATH_MAX];
    volatile sig_atomic_t stop;
    pl_status home_status;
    pl_thread *home;
    pl_client *client;
} world;

static void define_arm(world *w, pl_method method, int k, const char *codec)
{
    pl_arm *a = &w->arm;
    pl_copy_text(a->name, sizeof a->name, "mix");
    a->shape = tiny_shape(2);
    a->spec = (pl_topology_spec){.n_levels = 1, .experts = {k}, .replicas = 1};
    a->inner = (pl_inner){.batch = 2, .context = 16, .tau = 2, .phases = PHASES};
    a->outer.method = pl_method_defaults(method);
    for (int c = 0; c < PL_CLASS_COUNT; c++) {
        a->outer.lr[c] = a->outer.method.lr;
        a->outer.momentum[c] = a->outer.method.momentum;
    }
    a->outer.weighted = true;
    a->outer.schedule = (pl_outer_schedule){PL_DECAY_COSINE, 1, PHASES, 0.1};
    pl_copy_text(a->outer.codec_name, sizeof a->outer.codec_name, codec);
    assert_int_equal(pl_codec_options_default(codec, &a->outer.codec), PL_OK);
    tiny_shards(a, k);
    for (int p = 0; p < k; p++)
        a->weights[p] = 1.0 + p * p;
}

static float *floats(const world *w)
{
    return pl_alloc(w->n * sizeof(float));
}

static double *doubles(const world *w)
{
    return pl_alloc(w->n * sizeof(double));
}

static world *new_world(pl_method method, int k, const char *codec)
{
    world *w = pl_alloc(sizeof *w);
    w->k = k;
    define_arm(w, method, k, codec);
    assert_int_equal(pl_topology_create(&w->arm.shape, &w->arm.spec, &w->topology),
                     PL_OK);
    w->n = pl_topology_slot(w->topology, 0)->n_params;
    w->zero = floats(w);
    w->mean_before = doubles(w);
    pl_topology_init(w->topology, 0, 1, w->zero);
    for (int i = 0; i < k; i++) {
        w->of[i] = (holder){floats(w),  floats(w),  floats(w),  floats(w),  floats(w),
                            floats(w),  floats(w),  floats(w),  floats(w),  floats(w),
                            doubles(w), doubles(w), doubles(w), doubles(w), doubles(w)};
        for (size_t e = 0; e < w->n; e++)
            w->of[i].x[e] = (double)w->zero[e];
    }
    return w;
}

static void end_world(world *w)
{
    for (int i = 0; i < w->k; i++) {
        holder *h = &w->of[i];
        void *all[] = {h->params, h->velocity, h->last,     h->before,     h->start,
                       h->now,    h->update,   h->sent,     h->x,          h->v,
                       h->d,      h->d_before, h->residual, h->sent_start, h->step};
        for (size_t v = 0; v < sizeof all / sizeof *all; v++)
            pl_free(all[v]);
    }
    pl_free(w->zero);
    pl_free(w->mean_before);
    pl_topology_destroy(&w->topology);
    pl_arm_clear(&w->arm);
    pl_free(w);
}

static local_slot slot_of(world *w, int i, int64_t phase)
{
    holder *h = &w->of[i];
    return (local_slot){.arm = &w->arm,
                        .topology = w->topology,
                        .module = MODULE,
                        .path = i,
                        .phase = phase,
                        .n = w->n,
                        .base = w->zero,
                        .params = h->params,
                        .velocity = h->velocity,
                        .last = h->last,
                        .before = h->before};
}

static double share(const world *w, int i)
{
    return w->k * pl_arm_share(&w->arm, w->topology, MODULE, i);
}

static double lr_at(const world *w, int64_t round)
{
    return pl_outer_lr(&w->arm.outer.schedule, w->arm.outer.lr[PL_CLASS_EMBED], round);
}

/* A phase of training: towards a place of the holder's own, with noise. */
static void train(world *w, int i, int64_t phase)
{
    holder *h = &w->of[i];
    uint64_t key = (uint64_t)(phase * 16 + i);
    for (size_t e = 0; e < w->n; e++)
        h->now[e] = h->start[e] - 0.2f * h->start[e] +
                    0.02f * pl_random_normal(key, 7, e) + 0.01f * (float)i;
}

static int n_vectors(const world *w)
{
    return pl_round_vectors(&w->arm, w->topology, MODULE);
}

static void encode_one(world *w, int i, int64_t phase, double norm, float *residual,
                       pl_buf *out)
{
    const pl_codec_options *options = &w->arm.outer.codec;
    pl_codec_part parts[8];
    int n_parts = pl_codec_parts(w->topology, MODULE, parts);
    pl_codec_round round = pl_round_codec(&w->arm, w->topology, MODULE, i, phase, norm);
    assert_true(n_parts <= 8);
    assert_int_equal(pl_codec_encode_module(options, parts, n_parts, &round,
                                            w->of[i].update, residual, out),
                     PL_OK);
}

/* Encoded as a worker does; `sent`, `sent_start` are what it decodes to. */
static void encode(world *w, int i, int64_t phase, double norm, pl_buf *out)
{
    holder *h = &w->of[i];
    local_slot s = slot_of(w, i, phase);
    float *const sent[] = {h->sent, h->sent_start};
    pl_codec_message messages[PL_ROUND_VECTORS_MAX];
    double sent_norm = 0;
    local_update(&s, h->start, h->now, h->update);
    encode_one(w, i, phase, norm, w->arm.outer.feedback ? h->residual : NULL, out);
    if (n_vectors(w) == 2) {
        local_update_start(&s, h->start, h->update);
        encode_one(w, i, phase, norm, NULL, out);
    }
    assert_int_equal(pl_codec_split(out->data, out->len, n_vectors(w), messages),
                     PL_OK);
    for (int v = 0; v < n_vectors(w); v++) {
        memset(sent[v], 0, w->n * sizeof(float));
        assert_int_equal(pl_codec_add(messages[v].data, messages[v].bytes, w->n, 1.0f,
                                      sent[v], &sent_norm),
                         PL_OK);
    }
}

static void assert_near(const world *w, const float *got, const double *want,
                        double tolerance)
{
    for (size_t e = 0; e < w->n; e++)
        if (fabs((double)got[e] - want[e]) > tolerance)
            fail_msg("value %zu is %.9g instead of %.9g", e, (double)got[e], want[e]);
}

static void mean_of_holders(const world *w, double *out)
{
    for (size_t e = 0; e < w->n; e++) {
        out[e] = 0;
        for (int i = 0; i < w->k; i++)
            out[e] += (double)w->of[i].params[e] / w->k;
    }
}

/* ---- noloco ---- */
static int mate_of(const world *w, int i, int64_t round)
{
    int mate = -1;
    assert_int_equal(pl_round_mate(&w->arm, w->topology, MODULE, i, round, &mate),
                     PL_OK);
    return mate;
}

/* The step after `phase` - 1, where there is one; then where the phase starts. */
static void begin_gossip(world *w, int64_t phase)
{
    for (int i = 0; i < w->k; i++) {
        local_slot s = slot_of(w, i, phase);
        if (phase == 0) {
            memcpy(w->of[i].start, w->zero, w->n * sizeof(float));
            continue;
        }
        int mate = mate_of(w, i, phase - 1);
        const holder *other = mate == i ? NULL : &w->of[mate];
        assert_int_equal(local_step_gossip(&s, other ? other->sent : NULL,
                                           other ? other->sent_start : NULL),
                         PL_OK);
        memcpy(w->of[i].start, w->of[i].params, w->n * sizeof(float));
    }
}

static void end_gossip(world *w, int64_t phase, double norm, pl_buf encoded[])
{
    for (int i = 0; i < w->k; i++) {
        holder *h = &w->of[i];
        local_slot s = slot_of(w, i, phase);
        train(w, i, phase);
        encode(w, i, phase, norm, &encoded[i]);
        local_keep(&s, h->start, h->now, h->sent, h->sent_start);
    }
}

/* v = alpha v - beta mean_G(share d) + gamma (mean_G(x) - x); x = x + v. Nesterov: g =
 * mean_G(share d) + gamma / beta (x - mean_G(x)), v = alpha v + g, x -= beta (g +
 * alpha v). */
static void equations_of_gossip(world *w, int64_t round)
{
    double alpha = w->arm.outer.momentum[PL_CLASS_EMBED], beta = lr_at(w, round);
    double gamma = w->arm.outer.own_consensus ? w->arm.outer.method.consensus : beta;
    bool nesterov = w->arm.outer.method.rule == PL_RULE_NESTEROV;
    double scale = w->arm.outer.rescale ? sqrt(w->k) : 1;
    for (int i = 0; i < w->k; i++)
        for (size_t e = 0; e < w->n; e++)
            w->of[i].d[e] = scale * share(w, i) *
                            ((double)w->of[i].start[e] - (double)w->of[i].now[e]);
    for (int i = 0; i < w->k; i++) {
        const holder *a = &w->of[i], *b = &w->of[mate_of(w, i, round)];
        for (size_t e = 0; e < w->n; e++) {
            double d = 0.5 * (a->d[e] + b->d[e]), apart = 0.5 * (b->x[e] - a->x[e]);
            double g = d - gamma / beta * apart;
            a->v[e] = alpha * a->v[e] + (nesterov ? g : gamma * apart - beta * d);
            a->step[e] = nesterov ? -beta * (g + alpha * a->v[e]) : a->v[e];
        }
    }
    for (int i = 0; i < w->k; i++)
        for (size_t e = 0; e < w->n; e++)
            w->of[i].x[e] += w->of[i].step[e];
}

static void forget(pl_buf encoded[])
{
    for (int i = 0; i < HOLDERS_MAX; i++)
        pl_buf_destroy(&encoded[i]);
}

static const double gammas[] = {0, 0.3, 1.1}; /* 0: beta, one vector */
static const pl_rule both_rules[] = {PL_RULE_HEAVY_BALL, PL_RULE_NESTEROV};

static world *new_gossip(int k, const char *codec, double gamma, pl_rule rule)
{
    world *w = new_world(PL_METHOD_NOLOCO, k, codec);
    w->arm.outer.method.rule = rule;
    w->arm.outer.own_consensus = gamma > 0;
    if (gamma > 0)
        w->arm.outer.method.consensus = gamma;
    assert_int_equal(n_vectors(w), gamma > 0 ? 2 : 1);
    return w;
}

static void noloco_is_the_gossip_equations(void **state)
{
    (void)state;
    for (int k = 2; k <= HOLDERS_MAX; k++)
        for (int variant = 0; variant < 12; variant++) {
            world *w =
                new_gossip(k, "f32", gammas[variant % 3], both_rules[variant / 3 % 2]);
            w->arm.outer.rescale = variant / 6;
            for (int64_t phase = 0; phase < PHASES; phase++) {
                pl_buf encoded[HOLDERS_MAX] = {{0}};
                begin_gossip(w, phase);
                for (int i = 0; phase > 0 && i < k; i++)
                    assert_near(w, w->of[i].start, w->of[i].x, 1e-6);
                end_gossip(w, phase, 0, encoded);
                equations_of_gossip(w, phase);
                forget(encoded);
            }
            end_world(w);
        }
}

static void odd_holder_is_left_alone_in_turn(void **state)
{
    (void)state;
    world *w = new_world(PL_METHOD_NOLOCO, 3, "f32");
    int alone[3] = {0};
    for (int64_t round = 0; round < 6; round++)
        for (int i = 0; i < 3; i++) {
            int mate = mate_of(w, i, round);
            assert_int_equal(mate_of(w, mate, round), i);
            alone[i] += mate == i;
        }
    for (int i = 0; i < 3; i++)
        assert_int_equal(alone[i], 2);
    end_world(w);
}

/* ---- eager ---- */

/* g~_i = mean(t-1) + (part_i(t) - part_i(t-1)) / k, part_i = share_i g_i; then Nesterov
 * of the holder's own x_i and m_i. */
static void equations_of_eager(world *w, int64_t round)
{
    double mu = w->arm.outer.momentum[PL_CLASS_EMBED], eta = lr_at(w, round);
    double scale = w->arm.outer.rescale ? sqrt(w->k) : 1;
    for (int i = 0; i < w->k; i++) {
        holder *h = &w->of[i];
        for (size_t e = 0; e < w->n; e++) {
            h->d[e] = share(w, i) * ((double)h->start[e] - (double)h->now[e]);
            double g = scale * (w->mean_before[e] + (h->d[e] - h->d_before[e]) / w->k);
            h->v[e] = mu * h->v[e] + g;
            h->x[e] -= eta * (g + mu * h->v[e]);
            h->d_before[e] = h->d[e];
        }
    }
    for (size_t e = 0; e < w->n; e++) {
        w->mean_before[e] = 0;
        for (int i = 0; i < w->k; i++)
            w->mean_before[e] += w->of[i].d[e] / w->k;
    }
}

static void begin_eager(world *w, int64_t phase, const float *mean_before)
{
    for (int i = 0; i < w->k; i++) {
        local_slot s = slot_of(w, i, phase);
        if (phase == 0) {
            memcpy(w->of[i].start, w->zero, w->n * sizeof(float));
            continue;
        }
        assert_int_equal(local_step_eager(&s, phase > 1 ? mean_before : NULL), PL_OK);
        memcpy(w->of[i].start, w->of[i].params, w->n * sizeof(float));
    }
}

static void end_eager(world *w, int64_t phase, double norm, pl_buf encoded[])
{
    end_gossip(w, phase, norm, encoded); /* the calls are the same */
}

static void eager_is_its_equations(void **state)
{
    (void)state;
    for (int k = 2; k <= HOLDERS_MAX; k++)
        for (int rescale = 0; rescale < 2; rescale++) {
            world *w = new_world(PL_METHOD_EAGER, k, "f32");
            float *before = floats(w), *mean = floats(w);
            w->arm.outer.rescale = rescale;
            for (int64_t phase = 0; phase < PHASES; phase++) {
                pl_buf encoded[HOLDERS_MAX] = {{0}};
                begin_eager(w, phase, before);
                for (int i = 0; phase > 0 && i < k; i++)
                    assert_near(w, w->of[i].start, w->of[i].x, 1e-6);
                memcpy(before, mean, w->n * sizeof *mean);
                end_eager(w, phase, 0, encoded);
                equations_of_eager(w, phase);
                for (size_t e = 0; e < w->n; e++)
                    mean[e] = (float)w->mean_before[e];
                forget(encoded);
            }
            pl_free(before);
            pl_free(mean);
            end_world(w);
        }
}

static void eager_alone_is_diloco(void **state)
{
    (void)state;
    world *w = new_world(PL_METHOD_EAGER, 1, "f32");
    float *x = floats(w), *m = floats(w), *own = floats(w);
    pl_method_settings settings = pl_arm_method(&w->arm, w->topology, MODULE);
    memcpy(x, w->zero, w->n * sizeof *x);
    memcpy(w->of[0].params, w->zero, w->n * sizeof *x);
    for (int64_t phase = 1; phase < PHASES; phase++) {
        local_slot s = slot_of(w, 0, phase);
        pl_outer_state state_of = {.params = x, .momentum = m};
        pl_outer_step step = pl_method_step(&settings, lr_at(w, phase - 1), false, 1);
        memcpy(w->of[0].before, own, w->n * sizeof *own);
        for (size_t e = 0; e < w->n; e++)
            w->of[0].last[e] = 0.01f * pl_random_normal((uint64_t)phase, 3, e);
        assert_int_equal(local_step_eager(&s, w->of[0].before), PL_OK);
        memcpy(own, w->of[0].last, w->n * sizeof *own);
        assert_int_equal(pl_outer_apply(&step, &state_of, w->of[0].last, w->n, NULL),
                         PL_OK);
        assert_memory_equal(x, w->of[0].params, w->n * sizeof *x);
    }
    pl_free(x);
    pl_free(m);
    pl_free(own);
    end_world(w);
}

/* ---- the home ---- */
static void run_home(void *context)
{
    world *w = context;
    pl_home_options o = {.store = w->store,
                         .bind = "tcp://127.0.0.1:*",
                         .ready_file = w->ready,
                         .staging_bytes = 64 << 20,
                         .stop = &w->stop};
    w->home_status = pl_home_run(&o);
}

static void publish(world *w)
{
    char name[96];
    pl_buf bytes = {0};
    pl_hash blob;
    for (int m = 0; m < pl_topology_n_modules(w->topology); m++) {
        int slot = pl_topology_module_slot(w->topology, m);
        size_t n = pl_topology_slot(w->topology, slot)->n_params;
        float *params = pl_alloc(n * sizeof *params);
        pl_topology_init(w->topology, slot, 1, params);
        pl_arm_module_name(&w->arm, w->topology, m, name);
        assert_int_equal(
            pl_client_create_module(w->client, name, params, n, &w->arm.config), PL_OK);
        pl_free(params);
    }
    pl_arm_encode(&w->arm, &bytes);
    assert_int_equal(
        pl_client_put_object(w->client, "arm/mix", bytes.data, bytes.len, &blob),
        PL_OK);
    pl_buf_destroy(&bytes);
}

static void start_home(world *w)
{
    char name[] = "/tmp/pl-local-XXXXXX";
    pl_buf address = {0};
    assert_non_null(mkdtemp(name));
    pl_copy_text(w->dir, sizeof w->dir, name);
    pl_join(w->store, w->dir, "store");
    pl_join(w->ready, w->dir, "ready");
    assert_int_equal(pl_thread_start("home", run_home, w, &w->home), PL_OK);
    for (int i = 0; i < 1000 && !pl_path_exists(w->ready); i++)
        pl_sleep_ms(10);
    assert_int_equal(pl_read_file(w->ready, &address), PL_OK);
    const char *homes[] = {pl_buf_text(&address)};
    pl_client_options options = {.homes = homes, .n_homes = 1, .patience_ms = 15000};
    assert_int_equal(pl_client_create(&options, &w->client), PL_OK);
    pl_buf_destroy(&address);
    publish(w);
}

static void end_home(world *w)
{
    pl_client_destroy(&w->client);
    w->stop = 1;
    pl_thread_join(&w->home);
    assert_int_equal(w->home_status, PL_OK);
    assert_int_equal(pl_remove_tree(w->dir), PL_OK);
}

static void submit(world *w, int i, int64_t round, const pl_buf *encoded)
{
    pl_version_facts base;
    pl_submit_result result;
    char name[96], text[256];
    uint64_t number = pl_round_base(&w->arm, w->topology, MODULE, round);
    pl_arm_module_name(&w->arm, w->topology, MODULE, name);
    assert_int_equal(pl_client_get_version(w->client, name, (int64_t)number, &base),
                     PL_OK);
    pl_submission s = {.module = name,
                       .contribution = {.path = i, .phase = round, .loss = 1},
                       .base_version = number,
                       .base = base.params,
                       .data = encoded->data,
                       .bytes = encoded->len};
    pl_copy_text(s.contribution.worker, PL_TEXT_MAX, "w");
    pl_copy_text(s.contribution.device, PL_TEXT_MAX, "d");
    pl_copy_text(s.contribution.codec, 16, w->arm.outer.codec_name);
    assert_int_equal(pl_client_submit(w->client, &s, &result, text), PL_OK);
    if (result != PL_SUBMIT_ACCEPTED)
        fail_msg("round %lld: %s", (long long)round, text);
}

static pl_version_facts wait_version(world *w, int64_t number)
{
    pl_version_facts facts;
    char name[96];
    pl_arm_module_name(&w->arm, w->topology, MODULE, name);
    for (int i = 0; i < 500; i++) {
        if (pl_client_get_version(w->client, name, number, &facts) == PL_OK)
            return facts;
        pl_sleep_ms(10);
    }
    fail_msg("version %lld never came", (long long)number);
    return facts;
}

/* `count` floats of a blob from the one numbered `first` on. */
static void fetch(world *w, const pl_hash *blob, size_t first, float *out)
{
    pl_buf bytes = {0};
    char name[96];
    pl_arm_module_name(&w->arm, w->topology, MODULE, name);
    assert_int_equal(pl_client_get_blob(w->client, name, blob, &bytes), PL_OK);
    assert_true(bytes.len >= (first + w->n) * sizeof *out);
    memcpy(out, bytes.data + first * sizeof *out, w->n * sizeof *out);
    pl_buf_destroy(&bytes);
}

/* The home's version t + 1 is the mean of what the holders start phase t + 1 from. */
static void follow(world *w, bool feedback)
{
    int k = w->k;
    float *version = floats(w), *mean = floats(w);
    double *want = doubles(w);
    bool eager = w->arm.outer.method.method == PL_METHOD_EAGER;
    w->arm.outer.feedback = feedback;
    start_home(w);
    for (int64_t phase = 0; phase < PHASES; phase++) {
        pl_buf encoded[HOLDERS_MAX] = {{0}};
        pl_version_facts base = wait_version(
            w, (int64_t)pl_round_base(&w->arm, w->topology, MODULE, phase));
        if (eager && phase > 1)
            fetch(w, &base.momentum, w->n, mean);
        if (eager)
            begin_eager(w, phase, mean);
        else
            begin_gossip(w, phase);
        if (phase > 0) {
            pl_version_facts head = wait_version(w, phase);
            fetch(w, &head.params, 0, version);
            mean_of_holders(w, want);
            assert_near(w, version, want, 1e-6);
        }
        end_gossip(w, phase, base.norm, encoded);
        for (int i = k - 1; i >= 0; i--) /* arrivals have no order */
            submit(w, i, phase, &encoded[i]);
        forget(encoded);
    }
    end_home(w);
    pl_free(version);
    pl_free(mean);
    pl_free(want);
    end_world(w);
}

static void home_of_noloco_has_the_mean_of_its_holders(void **state)
{
    (void)state;
    for (int k = 2; k <= HOLDERS_MAX; k++)
        follow(new_gossip(k, "f32", 0, PL_RULE_HEAVY_BALL), false);
    follow(new_gossip(3, "f32", 0, PL_RULE_NESTEROV), false);
    follow(new_gossip(3, "i8", 0, PL_RULE_HEAVY_BALL), false);
}

static void home_follows_noloco_with_two_vectors(void **state)
{
    (void)state;
    for (int k = 2; k <= HOLDERS_MAX; k++)
        follow(new_gossip(k, "f32", 0.3, both_rules[k % 2]), false);
    follow(new_gossip(4, "bf16", 1.1, PL_RULE_HEAVY_BALL), false);
    follow(new_gossip(3, "i8", 0.3, PL_RULE_NESTEROV), false);
    follow(new_gossip(4, "i4", 0.3, PL_RULE_HEAVY_BALL), true);
}

static void home_of_eager_has_the_mean_of_its_holders(void **state)
{
    (void)state;
    for (int k = 2; k <= HOLDERS_MAX; k++)
        follow(new_world(PL_METHOD_EAGER, k, "f32"), false);
    follow(new_world(PL_METHOD_EAGER, 3, "i4"), true);
    follow(new_world(PL_METHOD_EAGER, 3, "sketch16"), true);
}

/* ---- streaming ---- */
static void streaming_goes_on_with_its_own(void **state)
{
    (void)state;
    world *w = new_world(PL_METHOD_STREAMING, 2, "f32");
    holder *h = &w->of[0];
    local_slot s = slot_of(w, 0, 1);
    memcpy(h->start, w->zero, w->n * sizeof(float));
    h->start[0] += 1; /* a path's own parameters are not its base */
    train(w, 0, 0);
    local_update(&s, h->start, h->now, h->update);
    local_keep(&s, h->start, h->now, h->update, NULL);
    for (size_t e = 0; e < w->n; e++)
        assert_true(h->update[e] == w->zero[e] - h->now[e]);
    assert_memory_equal(h->params, h->now, w->n * sizeof(float));
    end_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noloco_is_the_gossip_equations),
        cmocka_unit_test(odd_holder_is_left_alone_in_turn),
        cmocka_unit_test(eager_is_its_equations),
        cmocka_unit_test(eager_alone_is_diloco),
        cmocka_unit_test(home_of_noloco_has_the_mean_of_its_holders),
        cmocka_unit_test(home_follows_noloco_with_two_vectors),
        cmocka_unit_test(home_of_eager_has_the_mean_of_its_holders),
        cmocka_unit_test(streaming_goes_on_with_its_own),
    };
    pl_log_open("test", PL_LOG_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
