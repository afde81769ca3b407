/* folder: home; label: integration */
#include "home/home_internal.h"
#include "tests/support/relay_fixture.h"

/* Tests which states and which homomorphic updates a home accepts from a worker that
 * holds a lease. */

enum { PATH = 1, TOKEN = 100 };
static const char path_name[] = "mix/p01.r0";

static fixture *open_states(pl_method method, const char *codec)
{
    fixture *f = pl_alloc(sizeof *f);
    place_home(f, codec);
    f->arm.outer.method = pl_method_defaults(method);
    f->arm.outer.method.fragments = 1;
    f->arm.outer.method.overlap = 0;
    f->arm.outer.method.inner_steps = f->arm.inner.tau;
    start_job(f);
    return f;
}

static void close_states(fixture **owner)
{
    OWNED(free_memory) fixture *f = *owner;
    close_job(f);
}

static void send_updates(fixture *f)
{
    for (int slot = 0; slot < pl_topology_n_slots(f->topology); slot++) {
        worker w = {.job = f, .path = PATH, .idle = true};
        OWNED(pl_buf_destroy) pl_buf bytes = {0};
        pl_submission s;
        pl_submit_result result;
        char name[96], text[256];
        fill(&w, f->client, slot, name, &bytes, &s);
        s.contribution.token = TOKEN;
        lease_for(f->client, &f->arm, &s.contribution, 0);
        assert_ok(pl_client_submit(f->client, &s, &result, text));
        assert_int_equal(result, PL_SUBMIT_ACCEPTED);
    }
}

/* Ends phase 0 with this state. Returns OK if the home accepts it. */
static pl_status end_phase_with(fixture *f, const float *values)
{
    char text[256];
    pl_path_state state = {0};
    pl_submit_result result = PL_SUBMIT_REJECTED;
    const size_t n = pl_topology_path_params(f->topology);
    pl_copy_text(state.name, sizeof state.name, path_name);
    state.phase = 1;
    state.work.n_samples = pl_phase_samples(&f->arm);
    pl_lease lease = lease_of(&f->arm, PATH, 0, TOKEN);
    act_under(f->client, &f->arm, &lease);
    PL_CHECK(send_state(f->client, &state, values, pl_path_state_bytes(&f->arm, n),
                        &result, text));
    assert_int_equal(result, PL_SUBMIT_ACCEPTED);
    return PL_OK;
}

PL_TEST(a_state_that_would_freeze_its_path_is_refused)
{
    OWNED(close_states) fixture *f = open_states(PL_METHOD_DILOCO, "f32");
    const size_t n = pl_topology_path_params(f->topology);
    OWNED(free_memory) float *values = pl_alloc(2 * n * sizeof *values);
    static const float frozen[] = {1e29f, 1, 1e-3f};
    pl_path_state now;
    send_updates(f);
    for (size_t i = 0; i < sizeof frozen / sizeof *frozen; i++) {
        for (size_t k = n; k < 2 * n; k++)
            values[k] = frozen[i];
        assert_fails(end_phase_with(f, values), PL_ERR_DATA, "second moments");
    }
    assert_ok(pl_client_get_path(f->client, path_name, &now));
    assert_int_equal(now.phase, 0);
    /* two steps with the gradient at the clip, 1, leave at most 0.0975 */
    for (size_t k = n; k < 2 * n; k++)
        values[k] = 0.097f / (float)n;
    assert_ok(end_phase_with(f, values));
}

/* Puts a state with these second moments into the home's memory, under any hash. */
static void stage_state(home *h, const pl_hash *hash, size_t n, float second)
{
    staging_blob *b;
    const pl_msg_put_blob p = {.blob = *hash, .total = 2 * n * sizeof(float)};
    assert_ok(staging_open(&h->uploads, &p, &b));
    float *values = (float *)(void *)b->data;
    for (size_t k = 0; k < 2 * n; k++)
        values[k] = k < n ? 0 : second / (float)n;
    b->there = b->bytes;
}

/* A worker can upload any bytes under the hash of a state or an update before the store
 * has it. */
PL_TEST(a_state_follows_from_the_stored_one_not_from_an_upload_with_its_hash)
{
    OWNED(close_states) fixture *f = open_states(PL_METHOD_DILOCO, "f32");
    const size_t n = pl_topology_path_params(f->topology);
    OWNED(free_memory) float *zeros = pl_alloc(2 * n * sizeof *zeros);
    const pl_home_options options = {.norm_gate = 2};
    home h = {.options = &options,
              .uploads = {.keeper = "the home", .key = "nothing", .limit = 64 << 20}};
    home_arm *arm;
    int index;
    send_updates(f);
    assert_ok(end_phase_with(f, zeros));
    kill_child(&f->home, SIGTERM);
    assert_ok(pl_store_open(f->home.target, PL_STORE_CREATE, &h.store));
    assert_ok(home_load(&h));
    assert_ok(home_find_path(&h, path_name, &arm, &index));
    pl_path_state next = arm->paths[index].state;
    stage_state(&h, &next.moments, n, 1);
    next.phase++;
    next.moments = (pl_hash){{1}};
    /* two steps leave at most 0.0975 of zero, and 0.9025 to 1 of 1 */
    stage_state(&h, &next.moments, n, 0.95f);
    assert_fails(home_check_state(&h, arm, index, &next), PL_ERR_DATA,
                 "second moments");
    staging_expire(&h.uploads, true);
    home_unload(&h);
    pl_store_close(&h.store);
    start_child(&f->home);
}

PL_TEST(own_parameters_far_from_the_newest_version_are_refused)
{
    OWNED(close_states) fixture *f = open_states(PL_METHOD_STREAMING, "f32");
    const size_t n = pl_topology_path_params(f->topology);
    OWNED(free_memory) float *values = pl_alloc(3 * n * sizeof *values);
    send_updates(f);
    for (int slot = 0; slot < pl_topology_n_slots(f->topology); slot++) {
        pl_version_facts facts;
        OWNED(pl_buf_destroy) pl_buf bytes = {0};
        char name[96];
        const int m = pl_topology_module_of_path(f->topology, slot, PATH);
        pl_arm_module_name(&f->arm, f->topology, m, name);
        assert_ok(pl_client_get_version(f->client, name, 0, &facts));
        assert_ok(pl_client_get_blob(f->client, name, &facts.params, &bytes));
        memcpy(values + 2 * n + pl_topology_slot(f->topology, slot)->offset, bytes.data,
               bytes.len);
    }
    for (size_t k = 2 * n; k < 3 * n; k++)
        values[k] += 3e-3f; /* two steps with the rate 1e-3 reach about 2e-3 */
    assert_fails(end_phase_with(f, values), PL_ERR_DATA, "own parameters");
    for (size_t k = 2 * n; k < 3 * n; k++)
        values[k] -= 2e-3f;
    assert_ok(end_phase_with(f, values));
}

/* Sends an update of the embedding, to which all paths contribute; `size` 1 is a root
 * mean square of 0.01. */
static pl_submit_result send_shared(fixture *f, int path, int64_t phase, float size)
{
    OWNED(free_memory) pl_contract *of = pl_contracts_create(&f->arm, f->topology);
    const size_t n = of[0].n_params;
    OWNED(free_memory) float *update = pl_alloc(n * sizeof *update);
    pl_submission s = {.module = embed,
                       .contribution = {.path = path, .phase = phase, .work.loss = 1}};
    pl_submit_result result;
    pl_version_facts base;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    char text[256];
    for (size_t i = 0; i < n; i++)
        update[i] = 1e-2f * size * pl_random_normal(1, 1, (uint64_t)i);
    while (pl_client_get_version(f->client, embed, phase, &base) != PL_OK)
        pl_sleep_ms(10);
    const pl_codec_round round = pl_round_codec(&of[0], path, phase, base.norm);
    assert_ok(pl_codec_encode_update(&f->arm.outer.codec, f->topology, 0, &round,
                                     update, NULL, &bytes));
    s.base = base.params;
    s.base_version = base.number;
    s.data = bytes.data;
    s.bytes = bytes.len;
    pl_copy_text(s.contribution.codec, 16, f->arm.outer.codec_name);
    pl_copy_text(s.contribution.worker, PL_TEXT_MAX, "w");
    pl_copy_text(s.contribution.device, PL_TEXT_MAX, "d");
    lease_for(f->client, &f->arm, &s.contribution, phase);
    assert_ok(pl_client_submit(f->client, &s, &result, text));
    assert_true(result != PL_SUBMIT_REJECTED || strstr(text, "store.norm_gate"));
    return result;
}

PL_TEST(homomorphic_updates_far_longer_than_usual_are_refused)
{
    OWNED(close_states) fixture *f = open_states(PL_METHOD_DILOCO, "i8-shared");
    for (int path = 0; path < PATHS; path++)
        assert_int_equal(send_shared(f, path, 0, 1), PL_SUBMIT_ACCEPTED);
    assert_int_equal(send_shared(f, 0, 1, 3), PL_SUBMIT_REJECTED);
    assert_int_equal(send_shared(f, 0, 1, 1.9f), PL_SUBMIT_ACCEPTED);
}

PL_CHILD(argc, argv)
{
    return run_child(argv, (pl_home_options){.norm_gate = 2});
}
