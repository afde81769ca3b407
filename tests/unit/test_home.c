/* folder: home; label: integration
 *
 * Tests a real home process and its client. What the home has acknowledged must be
 * there after kill -9. An update that is sent twice must count once, and wrong messages
 * must be refused. */
#include "tests/support/codec_support.h"
#include "tests/support/home_fixture.h"
#include "tests/support/pairs.h"

typedef struct fixture {
    char dir[64];
    child home;
    pl_client *client;
    pl_arm arm;
    pl_topology *topology;
    float *start; /* parameters of a path at version 0; equal for all paths */
} fixture;

static int setup(void **state)
{
    fixture *f = pl_alloc(sizeof *f);
    char name[] = "/tmp/pl-home-XXXXXX";
    if (!mkdtemp(name))
        return -1;
    pl_copy_text(f->dir, sizeof f->dir, name);
    name_child(&f->home, f->dir, "home", "ready");
    pl_join(f->home.target, f->dir, "store");
    define_grid(&f->arm, "f32");
    f->arm.outer.weighted = true;
    f->arm.outer.state_every = 2;
    for (int p = 0; p < PATHS; p++)
        f->arm.weights[p] = 1.0 + p;
    assert_ok(pl_topology_create(&f->arm.shape, &f->arm.spec, &f->topology));
    f->start = pl_alloc(pl_topology_path_params(f->topology) * sizeof *f->start);
    init_path(f->topology, 1, f->start);
    start_child(&f->home);
    f->client = open_client(f->home.address);
    publish_arm(f->client, &f->arm, f->topology);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    OWNED(free_memory) fixture *f = *state;
    pl_client_destroy(&f->client);
    kill_child(&f->home, SIGTERM);
    pl_topology_destroy(&f->topology);
    pl_arm_clear(&f->arm);
    pl_free(f->start);
    pl_status status = pl_remove_tree(f->dir);
    return status == PL_OK ? 0 : -1;
}

/* ---- sending updates ---- */
static void make_update(const fixture *f, int slot, int path, float *out)
{
    const pl_slot *s = pl_topology_slot(f->topology, slot);
    for (size_t i = 0; i < s->n_params; i++)
        out[i] = pl_random_normal((uint64_t)path, (uint64_t)slot, i) * 1e-2f;
}

typedef struct sent {
    pl_submit_result result;
    char text[256];
} sent;

/* Makes a submission of `update`, a slot's update in a path's phase, to `module`. */
static void submission_of(fixture *f, const char *module, int slot, int path,
                          int64_t phase, const float *update, pl_submission *s)
{
    static pl_buf encoded; /* until the next call */
    pl_codec_options f32 = options_of("f32");
    pl_version_facts base;
    pl_buf_destroy(&encoded);
    memset(s, 0, sizeof *s);
    encode_all(&f32, NULL, update, pl_topology_slot(f->topology, slot)->n_params, NULL,
               &encoded);
    s->module = module;
    s->data = encoded.data;
    s->bytes = encoded.len;
    s->contribution.path = path;
    s->contribution.phase = phase;
    s->contribution.work.loss = 1;
    pl_copy_text(s->contribution.worker, PL_TEXT_MAX, "w");
    pl_copy_text(s->contribution.device, PL_TEXT_MAX, "d");
    pl_copy_text(s->contribution.codec, 16, "f32");
    assert_ok(pl_client_get_version(f->client, module, phase, &base));
    s->base = base.params;
    s->base_version = base.number;
}

static sent submit(fixture *f, pl_submission *s)
{
    sent out;
    lease_for(f->client, &f->arm, &s->contribution, s->contribution.phase);
    assert_ok(pl_client_submit(f->client, s, &out.result, out.text));
    return out;
}

static sent send_update(fixture *f, int slot, int path, int64_t phase,
                        const float *update)
{
    char name[96];
    pl_submission s;
    pl_arm_module_name(&f->arm, f->topology,
                       pl_topology_module_of_path(f->topology, slot, path), name);
    submission_of(f, name, slot, path, phase, update, &s);
    return submit(f, &s);
}

static sent send_good(fixture *f, int slot, int path)
{
    OWNED(free_memory)
    float *update =
        pl_alloc(pl_topology_slot(f->topology, slot)->n_params * sizeof *update);
    make_update(f, slot, path, update);
    return send_update(f, slot, path, 0, update);
}

static bool has_version(fixture *f, const char *module, uint64_t number, pl_hash *hash)
{
    pl_version_facts facts;
    pl_status status =
        pl_client_get_version(f->client, module, (int64_t)number, &facts);
    if (status == PL_OK)
        *hash = facts.params;
    return status == PL_OK;
}

/* Waits until the home has the version. The home acknowledges all updates of a round
 * before it merges them. */
static void wait_version(fixture *f, const char *module, uint64_t number, pl_hash *hash)
{
    for (int i = 0; i < 6000; i++) {
        if (has_version(f, module, number, hash))
            return;
        pl_sleep_ms(10);
    }
    fail_msg("%s has no version %llu after a minute", module,
             (unsigned long long)number);
}

/* Computes with plain loops the hash that version 1 of a slot's module must have.
 * `paths` has the n contributors of the module in rising order, in which the home adds
 * their updates. */
static void expected_hash(const fixture *f, int slot, const int *paths, int n,
                          pl_hash *out)
{
    const pl_slot *s = pl_topology_slot(f->topology, slot);
    OWNED(free_memory) float *theta = pl_alloc(s->n_params * sizeof(float));
    OWNED(free_memory) float *mean = pl_alloc(s->n_params * sizeof(float));
    OWNED(free_memory) float *momentum = pl_alloc(s->n_params * sizeof(float));
    OWNED(free_memory) float *update = pl_alloc(s->n_params * sizeof(float));
    double total = 0;
    for (int i = 0; i < n; i++)
        total += f->arm.weights[paths[i]];
    for (int i = 0; i < n; i++) {
        float alpha = (float)(f->arm.weights[paths[i]] / total);
        make_update(f, slot, paths[i], update);
        for (size_t k = 0; k < s->n_params; k++)
            mean[k] += alpha * update[k];
    }
    memcpy(theta, f->start + s->offset, s->n_params * sizeof(float));
    for (size_t k = 0; k < s->n_params; k++) {
        momentum[k] = 0.9f * momentum[k] + mean[k];
        theta[k] -= 0.7f * (mean[k] + 0.9f * momentum[k]);
    }
    pl_blob_hash(theta, s->n_params * sizeof(float), out);
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, fixture *f, setup, teardown)

/* ---- tests ---- */
FIXTURE_TEST(version_is_the_same_in_whatever_order_updates_arrive)
{
    static const int orders[] = {3, 0, 2, 1}, sorted[] = {0, 1, 2, 3};
    pl_hash got, want;
    for (int i = 0; i < 4; i++) {
        assert_false(has_version(f, "mix/embed.E0", 1, &got));
        assert_int_equal(send_good(f, SLOT_EMBED, orders[i]).result,
                         PL_SUBMIT_ACCEPTED);
    }
    wait_version(f, "mix/embed.E0", 1, &got);
    expected_hash(f, SLOT_EMBED, sorted, 4, &want);
    assert_true(pl_hash_equal(&got, &want));
}

FIXTURE_TEST(module_waits_for_its_own_paths_only)
{
    static const int own[] = {2, 3}; /* the paths p10 and p11 use L1.E1 */
    pl_hash got, want;
    assert_int_equal(send_good(f, SLOT_L1, 2).result, PL_SUBMIT_ACCEPTED);
    assert_int_equal(send_good(f, SLOT_L1, 3).result, PL_SUBMIT_ACCEPTED);
    wait_version(f, "mix/L1.E1", 1, &got);
    expected_hash(f, SLOT_L1, own, 2, &want);
    assert_true(pl_hash_equal(&got, &want));
    assert_false(has_version(f, "mix/L1.E0", 1, &got));
}

FIXTURE_TEST(update_sent_again_counts_once)
{
    static const int own[] = {0, 2};
    pl_hash got, want;
    assert_int_equal(send_good(f, SLOT_L2, 0).result, PL_SUBMIT_ACCEPTED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(send_good(f, SLOT_L2, 0).result, PL_SUBMIT_DUPLICATE);
    assert_int_equal(send_good(f, SLOT_L2, 2).result, PL_SUBMIT_ACCEPTED);
    wait_version(f, "mix/L2.E0", 1, &got);
    assert_int_equal(send_good(f, SLOT_L2, 2).result, PL_SUBMIT_DUPLICATE);
    expected_hash(f, SLOT_L2, own, 2, &want);
    assert_true(pl_hash_equal(&got, &want));
}

FIXTURE_TEST(another_update_under_the_same_key_is_said_to_be_another)
{
    size_t n = pl_topology_slot(f->topology, SLOT_L2)->n_params;
    OWNED(free_memory) float *update = pl_alloc(n * sizeof *update);
    make_update(f, SLOT_L2, 0, update);
    update[0] += 1e-3f;
    assert_int_equal(send_good(f, SLOT_L2, 0).result, PL_SUBMIT_ACCEPTED);
    sent other = send_update(f, SLOT_L2, 0, 0, update);
    assert_int_equal(other.result, PL_SUBMIT_OTHER);
    assert_non_null(strstr(other.text, "worker w has already sent a different update"));
    assert_int_equal(send_good(f, SLOT_L2, 0).result, PL_SUBMIT_DUPLICATE);
}

FIXTURE_TEST(accepted_updates_survive_kill_9_of_the_home)
{
    static const int own[] = {0, 1, 2, 3};
    pl_hash got, want;
    for (int path = 0; path < 3; path++) {
        assert_int_equal(send_good(f, SLOT_EMBED, path).result, PL_SUBMIT_ACCEPTED);
        restart_child(&f->home);
        assert_int_equal(send_good(f, SLOT_EMBED, path).result, PL_SUBMIT_DUPLICATE);
    }
    assert_int_equal(send_good(f, SLOT_EMBED, 3).result, PL_SUBMIT_ACCEPTED);
    wait_version(f, "mix/embed.E0", 1, &got);
    expected_hash(f, SLOT_EMBED, own, 4, &want);
    assert_true(pl_hash_equal(&got, &want));
    restart_child(&f->home);
    assert_true(has_version(f, "mix/embed.E0", 1, &got));
    assert_true(pl_hash_equal(&got, &want));
}

typedef struct twins {
    pl_txn *txn;
    char modules[N_SLOTS][PL_MODULE_NAME_MAX];
    int n;
} twins;

/* Adds the pending contribution of path 2 a second time, as a contribution of path
 * 3. */
static pl_status add_twin(void *context, const char *module, const pl_contribution *c)
{
    twins *t = context;
    pl_contribution twin = *c;
    if (c->path != 2)
        return PL_OK;
    twin.path = 3;
    assert_true(t->n < N_SLOTS);
    pl_copy_text(t->modules[t->n++], PL_MODULE_NAME_MAX, module);
    return pl_txn_put_pending(t->txn, module, &twin);
}

/* Stops the home, and completes the rounds of three modules in its store. */
static void complete_rounds(fixture *f, twins *t)
{
    OWNED(pl_store_close) pl_store *store = NULL;
    for (int path = 0; path < 3; path++)
        for (int slot = 0; slot < N_SLOTS; slot++)
            assert_int_equal(send_good(f, slot, path).result, PL_SUBMIT_ACCEPTED);
    kill_child(&f->home, SIGTERM);
    assert_ok(pl_store_open(f->home.target, PL_STORE_WRITE, &store));
    assert_ok(pl_txn_begin(store, &t->txn));
    assert_ok(pl_store_each_pending(store, "mix/", add_twin, t));
    assert_ok(pl_txn_commit(&t->txn));
    assert_int_equal(t->n, 3); /* the updates of L2.E0 are not pending any more */
}

FIXTURE_TEST(small_modules_that_are_whole_together_share_a_commit)
{
    twins t = {0};
    pl_store *store = NULL;
    pl_hash hash;
    uint64_t sequence = 0;
    complete_rounds(f, &t);
    start_child(&f->home);
    for (int i = 0; i < t.n; i++)
        wait_version(f, t.modules[i], 1, &hash);
    kill_child(&f->home, SIGTERM);
    assert_ok(pl_store_open(f->home.target, PL_STORE_READ, &store));
    for (int i = 0; i < t.n; i++) {
        OWNED(pl_version_clear) pl_version v;
        assert_ok(pl_store_get_version(store, t.modules[i], 1, &v));
        assert_int_equal(v.n_contributions, i == 0 ? 2 : 4);
        assert_true(i == 0 || v.sequence == sequence);
        sequence = v.sequence;
    }
    pl_store_close(&store);
    start_child(&f->home);
}

/* The first merge takes longer than a turn has, so the home looks for messages before
 * the second merge. There the home ends. */
FIXTURE_TEST(merges_that_take_long_leave_turns_for_messages)
{
    twins t = {0};
    pl_hash hash;
    int n = 0, i = 0;
    complete_rounds(f, &t);
    start_failing_child(&f->home,
                        "home.outer.before:sleep:1100,home.merge.before:exit");
    (void)waitpid(f->home.pid, NULL, 0); /* perhaps start_failing_child has seen it */
    {
        OWNED(pl_store_close) pl_store *store = NULL;
        assert_ok(pl_store_open(f->home.target, PL_STORE_READ, &store));
        for (; i < t.n; i++) {
            OWNED(pl_version_clear) pl_version v = {.number = 0};
            n += pl_store_get_version(store, t.modules[i], 1, &v) == PL_OK;
        }
    }
    assert_int_equal(n, 1);
    start_child(&f->home);
    while (--i >= 0)
        wait_version(f, t.modules[i], 1, &hash);
}

FIXTURE_TEST(update_that_is_not_finite_is_rejected_with_a_reason)
{
    size_t n = pl_topology_slot(f->topology, SLOT_L1)->n_params;
    OWNED(free_memory) float *update = pl_alloc(n * sizeof *update);
    make_update(f, SLOT_L1, 0, update);
    update[n / 2] = NAN;
    sent s = send_update(f, SLOT_L1, 0, 0, update);
    assert_int_equal(s.result, PL_SUBMIT_REJECTED);
    assert_non_null(strstr(s.text, "not finite"));
    assert_int_equal(send_good(f, SLOT_L1, 0).result, PL_SUBMIT_ACCEPTED);
}

/* Sends the update of a path for the embedding, to which all four paths contribute. The
 * update is `size` times that of make_update. */
static sent send_scaled(fixture *f, int path, int64_t phase, float size)
{
    size_t n = pl_topology_slot(f->topology, SLOT_EMBED)->n_params;
    OWNED(free_memory) float *update = pl_alloc(n * sizeof *update);
    make_update(f, SLOT_EMBED, path, update);
    for (size_t i = 0; i < n; i++)
        update[i] *= size;
    return send_update(f, SLOT_EMBED, path, phase, update);
}

FIXTURE_TEST(update_far_longer_than_usual_is_rejected_also_after_a_restart)
{
    pl_hash got;
    /* The home knows no usual norm yet, so the limit is norm_gate, 10, times the
     * longest update that two inner steps can make. */
    assert_int_equal(send_scaled(f, 0, 0, 2.2f).result, PL_SUBMIT_REJECTED);
    assert_int_equal(send_scaled(f, 0, 0, 1e18f).result, PL_SUBMIT_REJECTED);
    assert_int_equal(send_scaled(f, 0, 0, 1.9f).result, PL_SUBMIT_ACCEPTED);
    for (int path = 1; path < 4; path++)
        assert_int_equal(send_scaled(f, path, 0, 1).result, PL_SUBMIT_ACCEPTED);
    wait_version(f, "mix/embed.E0", 1, &got);
    for (int i = 0; i < 2; i++) {
        sent s = send_scaled(f, 2, 1, 11);
        assert_int_equal(s.result, PL_SUBMIT_REJECTED);
        assert_non_null(strstr(s.text, "store.norm_gate allows 10 times"));
        restart_child(&f->home);
    }
    assert_int_equal(send_scaled(f, 2, 1, 9).result, PL_SUBMIT_ACCEPTED);
}

/* An update whose norm is at most a tenth of the module's norm is always accepted. The
 * parameters have a standard deviation of 0.02, and an update of size 1 has 0.01. So
 * the limit is a size of about 0.2. */
FIXTURE_TEST(update_short_beside_its_module_is_accepted_however_short_others_are)
{
    pl_hash got;
    for (int path = 0; path < 4; path++)
        assert_int_equal(send_scaled(f, path, 0, 1e-3f).result, PL_SUBMIT_ACCEPTED);
    wait_version(f, "mix/embed.E0", 1, &got);
    assert_int_equal(send_scaled(f, 0, 1, 0.3f).result, PL_SUBMIT_REJECTED);
    restart_child(&f->home);
    assert_int_equal(send_scaled(f, 0, 1, 0.3f).result, PL_SUBMIT_REJECTED);
    assert_int_equal(send_scaled(f, 0, 1, 0.1f).result, PL_SUBMIT_ACCEPTED);
}

/* The home would read gigabytes of data into its memory. */
FIXTURE_TEST(update_that_names_a_large_blob_of_the_store_is_rejected_unread)
{
    enum { LARGE = 4 << 20 };
    pl_hash blob;
    pl_submission s;
    OWNED(free_memory) uint8_t *data = pl_alloc(LARGE);
    OWNED(free_memory)
    float *update =
        pl_alloc(pl_topology_slot(f->topology, SLOT_L2)->n_params * sizeof *update);
    pl_client_act_under(f->client, NULL);
    assert_ok(pl_client_put_object(f->client, "shard/mix/p00", data, LARGE, &blob));
    submission_of(f, "mix/L2.E0", SLOT_L2, 0, 0, update, &s);
    s.data = data;
    s.bytes = LARGE;
    const sent got = submit(f, &s);
    assert_int_equal(got.result, PL_SUBMIT_REJECTED);
    assert_non_null(strstr(got.text, "names 4194304 bytes"));
}

FIXTURE_TEST(update_of_a_wrong_base_or_of_a_strange_path_is_rejected)
{
    pl_submission s;
    submission_of(f, "mix/head.E0", SLOT_HEAD, 0, 0, f->start, &s);
    pl_hash_of("blob", "x", 1, &s.base);
    sent base = submit(f, &s);
    assert_int_equal(base.result, PL_SUBMIT_REJECTED);
    assert_non_null(strstr(base.text, "parameters of that version differ"));
    submission_of(f, "mix/L1.E0", SLOT_L1, 3, 0, f->start, &s); /* p11 uses L1.E1 */
    sent path = submit(f, &s);
    assert_int_equal(path.result, PL_SUBMIT_REJECTED);
    assert_non_null(strstr(path.text, "does not go through"));
}

/* "mix/embed" is short for "mix/embed.E0" where people type names. A row under it would
 * count for a round in which the merge does not find it. */
FIXTURE_TEST(update_under_another_spelling_of_its_module_is_refused)
{
    pl_submission s;
    pl_submit_result result;
    char text[256];
    submission_of(f, "mix/embed.E0", SLOT_EMBED, 0, 0, f->start, &s);
    s.module = "mix/embed";
    lease_for(f->client, &f->arm, &s.contribution, 0);
    assert_int_equal(pl_client_submit(f->client, &s, &result, text), PL_ERR_NOT_FOUND);
}

/* Publishes an arm that scores, and takes the lease of path 1. `s` becomes the state
 * with which the path's only phase ends. */
static void begin_scoring(fixture *f, const pl_arm *arm, pl_path_state *s)
{
    publish_arm(f->client, arm, f->topology);
    memset(s, 0, sizeof *s);
    pl_arm_path_name(arm, f->topology, 1, 0, s->name);
    s->phase = 1;
    s->work.n_samples = pl_phase_samples(arm);
    pl_lease lease = lease_of(arm, 1, 0, 0);
    act_under(f->client, arm, &lease);
}

/* In this arm paths score documents. The home must refuse scores that cannot be losses:
 * with such a score the job would fail later, when it fits a router to the scores. */
FIXTURE_TEST(scores_need_no_updates_and_must_be_losses)
{
    enum { N = 3 };
    double scores[N] = {1.5, 0, 7};
    static const struct {
        double wrong;
        pl_status status;
    } cases[] = {
        {-1, PL_ERR_DATA}, {NAN, PL_ERR_DATA}, {1e16, PL_ERR_DATA}, {7, PL_OK}};
    OWNED(pl_arm_clear) pl_arm arm;
    pl_path_state s, back;
    pl_submit_result result = PL_SUBMIT_REJECTED;
    char text[256];
    define_grid(&arm, "f32");
    pl_copy_text(arm.name, sizeof arm.name, "score~1");
    arm.inner.phases = 1;
    arm.n_scored = N;
    begin_scoring(f, &arm, &s);
    assert_int_equal(send_state(f->client, &s, scores, 8, &result, text),
                     PL_ERR_DATA); /* one score is sent instead of three */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scores[2] = cases[i].wrong;
        assert_int_equal(
            send_state(f->client, &s, scores, sizeof scores, &result, text),
            cases[i].status);
        assert_true(cases[i].status == PL_OK ||
                    strstr(pl_last_error(), "number 2 of the scores"));
    }
    assert_int_equal(result, PL_SUBMIT_ACCEPTED);
    assert_ok(pl_client_get_path(f->client, s.name, &back));
    assert_int_equal(back.phase, 1);
}

FIXTURE_TEST(features_must_be_finite_and_have_the_right_size)
{
    OWNED(pl_arm_clear) pl_arm arm;
    pl_path_state s;
    pl_submit_result result = PL_SUBMIT_REJECTED;
    char text[256];
    float features[64] = {0};
    define_grid(&arm, "f32");
    const size_t n = (size_t)arm.shape.width;
    assert_true(2 * n <= 64);
    pl_copy_text(arm.name, sizeof arm.name, "features~0");
    arm.inner.phases = 1;
    arm.n_scored = 2;
    arm.feature_windows = 1;
    begin_scoring(f, &arm, &s);
    assert_int_equal(send_state(f->client, &s, features, 2 * 8, &result, text),
                     PL_ERR_DATA); /* the size of two scores, not of two features */
    features[n + 1] = INFINITY;
    assert_fails(send_state(f->client, &s, features, 2 * n * 4, &result, text),
                 PL_ERR_DATA, "must be from -1000000 to 1000000");
    features[n + 1] = -3; /* a feature may be negative, a score may not */
    assert_ok(send_state(f->client, &s, features, 2 * n * 4, &result, text));
    assert_int_equal(result, PL_SUBMIT_ACCEPTED);
}

FIXTURE_TEST(path_state_waits_for_the_updates_of_its_task)
{
    size_t n = 2 * pl_topology_path_params(f->topology);
    OWNED(free_memory) float *moments = pl_alloc(n * sizeof *moments);
    pl_path_state s = {0}, back;
    pl_submit_result result;
    char text[256];
    pl_arm_path_name(&f->arm, f->topology, 1, 0, s.name);
    s.phase = 1;
    s.work.n_samples = 4;
    pl_lease lease = lease_of(&f->arm, 1, 0, 0);
    act_under(f->client, &f->arm, &lease);
    assert_ok(send_state(f->client, &s, moments, n * 4, &result, text));
    assert_int_equal(result, PL_SUBMIT_REJECTED);
    for (int slot = 0; slot < 4; slot++)
        assert_int_equal(send_good(f, slot, 1).result, PL_SUBMIT_ACCEPTED);
    assert_ok(send_state(f->client, &s, moments, n * 4, &result, text));
    assert_int_equal(result, PL_SUBMIT_ACCEPTED);
    assert_ok(send_state(f->client, &s, moments, n * 4, &result, text));
    assert_int_equal(result, PL_SUBMIT_DUPLICATE);
    restart_child(&f->home);
    assert_ok(pl_client_get_path(f->client, s.name, &back));
    assert_int_equal(back.phase, 1);
    assert_int_equal(back.work.n_samples, 4);
}

/* Sends the updates of all paths for phase 0, and those of path 1 for phase 1. */
static void send_two_phases(fixture *f)
{
    for (int path = 0; path < PATHS; path++)
        for (int slot = 0; slot < N_SLOTS; slot++)
            assert_int_equal(send_good(f, slot, path).result, PL_SUBMIT_ACCEPTED);
    for (int slot = 0; slot < N_SLOTS; slot++)
        assert_int_equal(send_update(f, slot, 1, 1, f->start).result,
                         PL_SUBMIT_ACCEPTED);
}

FIXTURE_TEST(state_between_two_uploads_is_known_by_its_hash)
{
    size_t n = 2 * pl_topology_path_params(f->topology);
    OWNED(free_memory) float *moments = pl_alloc(n * sizeof *moments);
    pl_path_state s = {.phase = 1, .work.n_samples = 4}, back;
    pl_submit_result result;
    char text[256];
    pl_arm_path_name(&f->arm, f->topology, 1, 0, s.name);
    send_two_phases(f);
    pl_blob_hash("made", 4, &s.moments);
    pl_lease lease = lease_of(&f->arm, 1, 0, 0);
    act_under(f->client, &f->arm, &lease);
    assert_ok(send_state(f->client, &s, NULL, 0, &result, text));
    assert_int_equal(result, PL_SUBMIT_ACCEPTED);
    for (int i = 0; i < 2; i++) { /* also after a restart */
        assert_ok(pl_client_get_path(f->client, s.name, &back));
        assert_true(back.phase == 1 && back.repeats == 1);
        assert_true(pl_hash_equal(&back.made, &s.moments) &&
                    pl_hash_none(&back.moments));
        restart_child(&f->home);
    }
    /* the next state must be uploaded, its hash is not enough */
    s.phase = 2;
    s.work.n_samples = 8;
    lease = lease_of(&f->arm, 1, 1, 0);
    act_under(f->client, &f->arm, &lease);
    assert_int_not_equal(send_state(f->client, &s, NULL, 0, &result, text), PL_OK);
    memset(&s.moments, 0, sizeof s.moments);
    assert_ok(send_state(f->client, &s, moments, n * 4, &result, text));
    assert_int_equal(result, PL_SUBMIT_ACCEPTED);
    assert_ok(pl_client_get_path(f->client, s.name, &back));
    assert_true(back.phase == 2 && back.repeats == 0);
    assert_true(pl_hash_none(&back.made) && !pl_hash_none(&back.moments));
}

FIXTURE_TEST(defining_an_arm_twice_is_fine_but_not_otherwise)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_hash blob;
    pl_arm_encode(&f->arm, &bytes);
    assert_ok(pl_client_put_object(f->client, "arm/mix", bytes.data, bytes.len, &blob));
    f->arm.inner.tau = 99;
    pl_buf_clear(&bytes);
    pl_arm_encode(&f->arm, &bytes);
    assert_int_equal(
        pl_client_put_object(f->client, "arm/mix", bytes.data, bytes.len, &blob),
        PL_ERR_EXISTS);
}

FIXTURE_TEST(blob_of_several_pieces_arrives_whole)
{
    size_t n = 3 * PL_WIRE_DATA_MAX + 12345;
    OWNED(free_memory) uint8_t *data = pl_alloc(n);
    OWNED(pl_buf_destroy) pl_buf back = {0};
    pl_hash blob;
    for (size_t i = 0; i < n; i++)
        data[i] = (uint8_t)pl_random_u32(3, 1, i);
    assert_ok(pl_client_put_object(f->client, "shard/mix/p00", data, n, &blob));
    assert_ok(pl_client_get_blob(f->client, "shard/mix/p00", &blob, &back));
    assert_int_equal(back.len, n);
    assert_memory_equal(back.data, data, n);
}

FIXTURE_TEST(unknown_names_are_told_to_the_asker)
{
    pl_hash hash;
    pl_version_facts facts;
    assert_fails(pl_client_get_version(f->client, "mix/L9.E9", 0, &facts),
                 PL_ERR_NOT_FOUND, "L9.E9");
    assert_int_equal(pl_client_get_object(f->client, "router/none", &hash),
                     PL_ERR_NOT_FOUND);
}

/* ---- hostile messages: the home must answer with an error and continue ---- */
static void ask_raw(fixture *f, pl_message *q, pl_status want)
{
    OWNED(pl_message_destroy) pl_message a;
    assert_int_equal(ask_home(f->home.address, q, UINT64_MAX, &a), want);
}

FIXTURE_TEST(broken_submissions_of_every_kind_are_refused)
{
    static const uint16_t types[] = {
        PL_MSG_SUBMIT,        PL_MSG_SUBMIT_PATH, PL_MSG_PUT_OBJECT,
        PL_MSG_CREATE_MODULE, PL_MSG_FENCE,       PL_MSG_GET_BLOB,
        PL_MSG_PUT_BLOB,      PL_MSG_HELLO,       9999};
    restart_child(&f->home); /* the broken message must be its first one */
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        pl_message q;
        pl_message_init(&q, types[i]);
        ask_raw(f, &q, PL_ERR_PROTO);
    }
    assert_int_equal(send_good(f, SLOT_L1, 0).result, PL_SUBMIT_ACCEPTED);
}

FIXTURE_TEST(piece_beyond_the_end_of_a_blob_is_refused)
{
    pl_message q;
    pl_hash hash;
    pl_hash_of("blob", "y", 1, &hash);
    pl_message_init(&q, PL_MSG_PUT_BLOB);
    pl_put_hash(&q.body, PL_TAG_BLOB, &hash);
    pl_put_u64(&q.body, PL_TAG_TOTAL, PL_WIRE_DATA_MAX);
    pl_put_u64(&q.body, PL_TAG_OFFSET, PL_WIRE_DATA_MAX);
    pl_buf_append(&q.data, "y", 1);
    ask_raw(f, &q, PL_ERR_PROTO);
    pl_message_init(&q, PL_MSG_PUT_BLOB);
    pl_put_hash(&q.body, PL_TAG_BLOB, &hash);
    pl_put_u64(&q.body, PL_TAG_TOTAL, (uint64_t)1 << 60);
    pl_put_u64(&q.body, PL_TAG_OFFSET, 0);
    pl_buf_reserve(&q.data, PL_WIRE_DATA_MAX);
    memset(q.data.data, 0, PL_WIRE_DATA_MAX);
    q.data.len = PL_WIRE_DATA_MAX;
    ask_raw(f, &q, PL_ERR_CONFIG); /* the size is above the home's limit */
}

FIXTURE_TEST(arm_that_cannot_be_read_is_never_stored)
{
    pl_hash blob;
    assert_int_not_equal(
        pl_client_put_object(f->client, "arm/bad", "no definition", 13, &blob), PL_OK);
    restart_child(&f->home);
    assert_int_equal(pl_client_get_object(f->client, "arm/bad", &blob),
                     PL_ERR_NOT_FOUND);
    assert_int_equal(send_good(f, SLOT_L1, 0).result, PL_SUBMIT_ACCEPTED);
}

FIXTURE_TEST(names_of_the_home_itself_are_not_for_others)
{
    assert_int_equal(pl_client_put_ref(f->client, "sys/hub-epoch", "1"), PL_ERR_NOPERM);
    assert_int_equal(pl_client_put_ref(f->client, "", "x"), PL_ERR_ARG);
    assert_ok(pl_client_put_ref(f->client, "good", "x"));
}

/* Makes versions 0 to 2 of a module that belongs to no arm. The data of version 1 was
 * dropped. */
static void put_collected_module(const char *folder, const char *module)
{
    OWNED(pl_store_close) pl_store *store = NULL;
    pl_txn *txn = NULL;
    pl_hash parent = {{0}};
    assert_ok(pl_store_open(folder, PL_STORE_WRITE, &store));
    assert_ok(pl_txn_begin(store, &txn));
    for (uint64_t number = 0; number < 3; number++) {
        pl_version v = {.number = number, .parent = parent};
        pl_copy_text(v.module, sizeof v.module, module);
        assert_ok(pl_txn_put_blob(txn, &number, sizeof number, &v.params));
        parent = v.params;
        assert_ok(pl_txn_put_version(txn, &v, (pl_keep){.updates = false}));
    }
    assert_ok(pl_txn_drop_data(txn, module, 1));
    assert_ok(pl_txn_commit(&txn));
}

FIXTURE_TEST(tag_of_collected_versions_is_refused)
{
    static const pl_status expected[] = {PL_OK, PL_ERR_NOT_FOUND, PL_OK};
    pl_hash blob;
    kill_child(&f->home, SIGTERM);
    put_collected_module(f->home.target, "other/L1.E0");
    start_child(&f->home);
    for (uint64_t number = 0; number < 3; number++) {
        pl_snapshot_item item = {.module = "other/L1.E0", .number = number};
        const pl_snapshot tag = {.arm = "other", .n_items = 1, .items = &item};
        OWNED(pl_buf_destroy) pl_buf bytes = {0};
        pl_snapshot_encode(&tag, &bytes);
        assert_int_equal(
            pl_client_put_object(f->client, "tag/t", bytes.data, bytes.len, &blob),
            expected[number]);
    }
    assert_int_equal(pl_client_put_object(f->client, "tag/t", "no tag", 6, &blob),
                     PL_ERR_DAMAGED);
    assert_ok(pl_client_put_object(f->client, "tag/t", "", 0, &blob));
}

PL_CHILD(argc, argv)
{
    return run_child(argv, (pl_home_options){.norm_gate = 10});
}
