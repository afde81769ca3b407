/* folder: workers */
/* Defines the functions of holders.h. */
#include "tests/support/holders.h"

static void define_holder_arm(world *w, pl_method method, int k, const char *codec)
{
    pl_arm *a = &w->arm;
    tiny_arm(a, 2, k, 1, PHASES);
    a->spec = (pl_topology_spec){.n_levels = 1, .experts = {k}, .replicas = 1};
    a->inner.tau = 2;
    a->outer.method = pl_method_defaults(method);
    for (int c = 0; c < PL_CLASS_COUNT; c++) {
        a->outer.lr[c] = a->outer.method.lr;
        a->outer.momentum[c] = a->outer.method.momentum;
    }
    a->outer.weighted = true;
    a->outer.schedule = (pl_outer_schedule){.phases = PHASES};
    pl_copy_text(a->outer.codec_name, sizeof a->outer.codec_name, codec);
    assert_ok(pl_codec_options_default(codec, &a->outer.codec));
    for (int p = 0; p < k; p++)
        a->weights[p] = 1.0 + p * p;
}

float *floats(const world *w)
{
    return pl_alloc(w->n * sizeof(float));
}

double *doubles(const world *w)
{
    return pl_alloc(w->n * sizeof(double));
}

world *new_world(pl_method method, int k, const char *codec)
{
    world *w = pl_alloc(sizeof *w);
    w->k = k;
    define_holder_arm(w, method, k, codec);
    assert_ok(pl_topology_create(&w->arm.shape, &w->arm.spec, &w->topology));
    w->n = pl_topology_slot(w->topology, 0)->n_params;
    w->zero = floats(w);
    pl_topology_init(w->topology, 0, 1, w->zero);
    for (int i = 0; i < k; i++) {
        w->of[i] = (holder){floats(w),  floats(w),  floats(w),  floats(w), floats(w),
                            floats(w),  floats(w),  floats(w),  floats(w), floats(w),
                            doubles(w), doubles(w), doubles(w), doubles(w)};
        for (size_t e = 0; e < w->n; e++)
            w->of[i].x[e] = (double)w->zero[e];
    }
    return w;
}

void end_world(world **owner)
{
    OWNED(free_memory) world *w = *owner;
    for (int i = 0; i < w->k; i++) {
        holder *h = &w->of[i];
        void *all[] = {h->params, h->velocity, h->last,       h->before, h->start,
                       h->now,    h->update,   h->sent,       h->x,      h->v,
                       h->d,      h->residual, h->sent_start, h->step};
        for (size_t v = 0; v < sizeof all / sizeof *all; v++)
            pl_free(all[v]);
    }
    pl_free(w->zero);
    pl_topology_destroy(&w->topology);
    pl_arm_clear(&w->arm);
}

const pl_contract *contract_of(world *w)
{
    w->contract = pl_contract_of(&w->arm, w->topology, MODULE);
    return &w->contract;
}

pl_holder slot_of(world *w, int i, int64_t phase)
{
    holder *h = &w->of[i];
    return (pl_holder){.of = contract_of(w),
                       .path = i,
                       .phase = phase,
                       .base = w->zero,
                       .params = h->params,
                       .velocity = h->velocity,
                       .last = h->last,
                       .before = h->before};
}

double share(world *w, int i)
{
    return w->k * pl_round_share(contract_of(w), i);
}

void train(world *w, int i, int64_t phase)
{
    holder *h = &w->of[i];
    uint64_t key = (uint64_t)(phase * 16 + i);
    for (size_t e = 0; e < w->n; e++)
        h->now[e] = h->start[e] - 0.2f * h->start[e] +
                    0.02f * pl_random_normal(key, 7, e) + 0.01f * (float)i;
}

int n_vectors(world *w)
{
    return contract_of(w)->n_vectors;
}

void encode_one(world *w, int i, int64_t phase, double norm, float *residual,
                pl_buf *out)
{
    pl_codec_round round = pl_round_codec(contract_of(w), i, phase, norm);
    assert_ok(pl_codec_encode_update(&w->arm.outer.codec, w->topology, MODULE, &round,
                                     w->of[i].update, residual, out));
}

/* Encodes the holder's update as a worker does. Sets `sent` and `sent_start` to the
 * values that a receiver decodes. */
static void encode_holder(world *w, int i, int64_t phase, double norm, pl_buf *out)
{
    holder *h = &w->of[i];
    pl_holder s = slot_of(w, i, phase);
    float *const sent[] = {h->sent, h->sent_start};
    pl_codec_message messages[PL_ROUND_VECTORS_MAX];
    double sent_norm = 0;
    pl_holder_update(&s, h->start, h->now, h->update);
    encode_one(w, i, phase, norm, w->arm.outer.feedback ? h->residual : NULL, out);
    if (n_vectors(w) == 2) {
        pl_holder_update_start(&s, h->start, h->update);
        encode_one(w, i, phase, norm, NULL, out);
    }
    assert_ok(pl_codec_split(out->data, out->len, n_vectors(w), messages));
    for (int v = 0; v < n_vectors(w); v++) {
        memset(sent[v], 0, w->n * sizeof(float));
        assert_ok(pl_codec_add(messages[v].data, messages[v].bytes, w->n, 1.0f, sent[v],
                               &sent_norm));
    }
}

void assert_near(const world *w, const float *got, const double *want, double tolerance)
{
    for (size_t e = 0; e < w->n; e++)
        if (fabs((double)got[e] - want[e]) > tolerance)
            fail_msg("value %zu is %.9g instead of %.9g", e, (double)got[e], want[e]);
}

void mean_of_holders(const world *w, double *out)
{
    for (size_t e = 0; e < w->n; e++) {
        out[e] = 0;
        for (int i = 0; i < w->k; i++)
            out[e] += (double)w->of[i].params[e] / w->k;
    }
}

int mate_of(world *w, int i, int64_t round)
{
    int mate = -1;
    assert_ok(pl_round_mate(contract_of(w), i, round, &mate));
    return mate;
}

void begin_gossip(world *w, int64_t phase)
{
    for (int i = 0; i < w->k; i++) {
        pl_holder s = slot_of(w, i, phase);
        int mate = phase > 0 ? mate_of(w, i, phase - 1) : i;
        bool alone = mate == i || w->is_split[phase - 1][i];
        const holder *other = alone ? NULL : &w->of[mate];
        assert_ok(pl_holder_begin(&s, other ? other->sent : NULL,
                                  other ? other->sent_start : NULL, w->of[i].start));
    }
}

void end_gossip(world *w, int64_t phase, double norm, pl_buf encoded[])
{
    for (int i = 0; i < w->k; i++) {
        holder *h = &w->of[i];
        pl_holder s = slot_of(w, i, phase);
        train(w, i, phase);
        encode_holder(w, i, phase, norm, &encoded[i]);
        pl_holder_keep(&s, h->start, h->now, h->sent, h->sent_start);
    }
}

void forget(pl_buf encoded[])
{
    for (int i = 0; i < HOLDERS_MAX; i++)
        pl_buf_destroy(&encoded[i]);
}

world *new_gossip(int k, const char *codec, double gamma, pl_rule rule)
{
    world *w = new_world(PL_METHOD_NOLOCO, k, codec);
    w->arm.outer.method.rule = rule;
    w->arm.outer.own_consensus = gamma > 0;
    if (gamma > 0)
        w->arm.outer.method.consensus = gamma;
    assert_int_equal(n_vectors(w), gamma > 0 ? 2 : 1);
    return w;
}

static void run_holder_home(void *context)
{
    world *w = context;
    pl_home_options o = {.store = w->store,
                         .bind = "tcp://127.0.0.1:*",
                         .ready_file = w->ready,
                         .staging_bytes = 64 << 20,
                         .stop = &w->stop};
    w->home_status = pl_home_run(&o);
}

static void publish_holders(world *w)
{
    char name[96];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_hash blob;
    for (int m = 0; m < pl_topology_n_modules(w->topology); m++) {
        int slot = pl_topology_module_slot(w->topology, m);
        size_t n = pl_topology_slot(w->topology, slot)->n_params;
        OWNED(free_memory) float *params = pl_alloc(n * sizeof *params);
        pl_topology_init(w->topology, slot, 1, params);
        pl_arm_module_name(&w->arm, w->topology, m, name);
        assert_ok(pl_client_create_module(w->client, name, params, n, &w->arm.config));
    }
    pl_arm_encode(&w->arm, &bytes);
    assert_ok(pl_client_put_object(w->client, "arm/mix", bytes.data, bytes.len, &blob));
}

void raise_home(world *w)
{
    OWNED(pl_buf_destroy) pl_buf address = {0};
    w->stop = 0;
    assert_ok(pl_thread_start("home", run_holder_home, w, &w->home));
    for (int i = 0; i < 6000 && !pl_path_exists(w->ready); i++)
        pl_sleep_ms(10);
    assert_ok(pl_read_file(w->ready, &address));
    const char *homes[] = {pl_buf_text(&address)};
    tell_secret(homes[0]);
    pl_client_options options = {.homes = homes, .n_homes = 1, .patience_ms = 15000};
    assert_ok(pl_client_create(&options, &w->client));
}

void start_home(world *w)
{
    char name[] = "/tmp/pl-holders-XXXXXX";
    assert_non_null(mkdtemp(name));
    pl_copy_text(w->dir, sizeof w->dir, name);
    pl_join(w->store, w->dir, "store");
    pl_join(w->ready, w->dir, "ready");
    raise_home(w);
    publish_holders(w);
}

void lower_home(world *w)
{
    pl_client_destroy(&w->client);
    __atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
    pl_thread_join(&w->home);
    assert_ok(w->home_status);
    assert_ok(pl_remove_tree(w->ready));
}

void end_home(world *w)
{
    lower_home(w);
    assert_ok(pl_remove_tree(w->dir));
}

void submit(world *w, int i, int64_t round, const pl_buf *encoded)
{
    pl_version_facts base;
    pl_submit_result result;
    char name[96], text[256];
    uint64_t number = pl_round_base(contract_of(w), round);
    pl_arm_module_name(&w->arm, w->topology, MODULE, name);
    assert_ok(pl_client_get_version(w->client, name, (int64_t)number, &base));
    pl_submission s = {.module = name,
                       .contribution = {.path = i, .phase = round, .work.loss = 1},
                       .base_version = number,
                       .base = base.params,
                       .data = encoded->data,
                       .bytes = encoded->len};
    pl_copy_text(s.contribution.worker, PL_TEXT_MAX, "w");
    pl_copy_text(s.contribution.device, PL_TEXT_MAX, "d");
    pl_copy_text(s.contribution.codec, 16, w->arm.outer.codec_name);
    lease_for(w->client, &w->arm, &s.contribution, round);
    assert_ok(pl_client_submit(w->client, &s, &result, text));
    if (result != PL_SUBMIT_ACCEPTED)
        fail_msg("round %lld: %s", (long long)round, text);
}

pl_version_facts wait_holder_version(world *w, int64_t number)
{
    pl_version_facts facts;
    char name[96];
    pl_arm_module_name(&w->arm, w->topology, MODULE, name);
    for (int i = 0; i < 6000; i++) {
        if (pl_client_get_version(w->client, name, number, &facts) == PL_OK)
            return facts;
        pl_sleep_ms(10);
    }
    fail_msg("version %lld never came", (long long)number);
    return facts;
}

void fetch(world *w, const pl_hash *blob, size_t first, float *out)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    char name[96];
    pl_arm_module_name(&w->arm, w->topology, MODULE, name);
    assert_ok(pl_client_get_blob(w->client, name, blob, &bytes));
    assert_true(bytes.len >= (first + w->n) * sizeof *out);
    memcpy(out, bytes.data + first * sizeof *out, w->n * sizeof *out);
}
