/* Defines the functions of relay_fixture.h. */
#include "tests/support/relay_fixture.h"

void define_arm(fixture *f, const char *codec)
{
    define_grid(&f->arm, codec);
    f->arm.outer.codec.small = 256; /* so that small tensors use the codec, too */
    assert_ok(pl_topology_create(&f->arm.shape, &f->arm.spec, &f->topology));
}

void publish(fixture *f)
{
    publish_arm(f->client, &f->arm, f->topology);
}

void place_home(fixture *f, const char *codec)
{
    char name[] = "/tmp/pl-relay-XXXXXX";
    memset(f, 0, sizeof *f);
    assert_non_null(mkdtemp(name));
    pl_copy_text(f->dir, sizeof f->dir, name);
    name_child(&f->home, f->dir, "home", "home.address");
    pl_join(f->home.target, f->dir, "store");
    define_arm(f, codec);
}

void start_job(fixture *f)
{
    start_child(&f->home);
    f->client = open_client(f->home.address);
    publish(f);
}

void open_job(fixture *f, const char *codec)
{
    place_home(f, codec);
    name_child(&f->relay, f->dir, "relay", "relay.address");
    name_child(&f->second, f->dir, "relay", "second.address");
    start_job(f);
}

void start_relay(child *c, const char *home, int expect, int wait_ms)
{
    pl_copy_text(c->target, sizeof c->target, home);
    snprintf(c->expect, sizeof c->expect, "%d", expect);
    snprintf(c->wait_ms, sizeof c->wait_ms, "%d", wait_ms);
    start_child(c);
}

void close_job(fixture *f)
{
    pl_client_destroy(&f->client);
    kill_child(&f->second, SIGTERM);
    kill_child(&f->relay, SIGTERM);
    kill_child(&f->home, SIGTERM);
    pl_topology_destroy(&f->topology);
    pl_arm_clear(&f->arm);
    assert_ok(pl_remove_tree(f->dir));
}

void encode(const worker *w, int slot, double norm, pl_buf *out)
{
    const fixture *f = w->job;
    int module = pl_topology_module_of_path(f->topology, slot, w->path);
    size_t n = pl_topology_slot(f->topology, slot)->n_params;
    OWNED(free_memory) float *update = pl_alloc(n * sizeof *update);
    const pl_contract of = pl_contract_of(&f->arm, f->topology, module);
    pl_codec_round round = pl_round_codec(&of, w->path, 0, norm);
    for (size_t i = 0; !w->idle && i < n; i++)
        update[i] = pl_random_normal((uint64_t)w->path, (uint64_t)slot, i) * 1e-3f;
    assert_ok(pl_codec_encode_update(&f->arm.outer.codec, f->topology, module, &round,
                                     update, NULL, out));
}

void fill(const worker *w, pl_client *client, int slot, char name[96], pl_buf *bytes,
          pl_submission *s)
{
    const fixture *f = w->job;
    pl_version_facts base;
    pl_arm_module_name(&f->arm, f->topology,
                       pl_topology_module_of_path(f->topology, slot, w->path), name);
    pl_client_act_under(client, NULL);
    assert_ok(pl_client_get_version(client, name, 0, &base));
    encode(w, slot, base.norm, bytes);
    memset(s, 0, sizeof *s);
    s->module = name;
    s->base = base.params;
    s->data = bytes->data;
    s->bytes = bytes->len;
    s->contribution.path = w->path;
    s->contribution.work.loss = 1;
    pl_copy_text(s->contribution.worker, PL_TEXT_MAX, w->name ? w->name : "w");
    pl_copy_text(s->contribution.device, PL_TEXT_MAX, "d");
    pl_copy_text(s->contribution.codec, 16, f->arm.outer.codec_name);
    lease_for(client, &f->arm, &s->contribution, 0);
}

pl_status submit_slot(fixture *f, int path, int slot, uint64_t token,
                      pl_submit_result *result)
{
    worker w = {.job = f, .path = path};
    char name[96], text[256];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_submission s;
    *result = PL_SUBMIT_REJECTED;
    fill(&w, f->client, slot, name, &bytes, &s);
    s.contribution.token = token;
    lease_for(f->client, &f->arm, &s.contribution, 0);
    return pl_client_submit(f->client, &s, result, text);
}

pl_status submit_state(fixture *f, int path, int64_t phase, float v, uint64_t token,
                       pl_submit_result *result)
{
    char text[256];
    pl_path_state state = {.phase = phase + 1};
    size_t n = pl_topology_path_params(f->topology);
    uint64_t bytes = pl_path_state_bytes(&f->arm, n);
    OWNED(free_memory) float *moments = pl_alloc((size_t)bytes + 1);
    for (size_t i = n; i < bytes / sizeof *moments; i++)
        moments[i] = v;
    *result = PL_SUBMIT_REJECTED;
    pl_arm_path_name(&f->arm, f->topology, path, 0, state.name);
    state.work.n_samples = (uint64_t)(phase + 1) * pl_phase_samples(&f->arm);
    pl_lease lease = lease_of(&f->arm, path, phase, token);
    act_under(f->client, &f->arm, &lease);
    return send_state(f->client, &state, moments, bytes, result, text);
}

void run_worker(void *context)
{
    worker *w = context;
    char name[96];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_submission s;
    OWNED(pl_client_destroy) pl_client *client = open_client(w->address);
    fill(w, client, w->slot, name, &bytes, &s);
    w->status = pl_client_submit(client, &s, &w->result, w->text);
    w->bytes_sent = pl_client_bytes_sent(client);
}

void start_worker(worker *w, fixture *f, const char *address, int path)
{
    w->job = f;
    w->address = address;
    w->path = path;
    assert_ok(pl_thread_start("worker", run_worker, w, &w->thread));
}

void start_workers(worker *w, int n, fixture *f, const char *address)
{
    for (int i = 0; i < n; i++)
        start_worker(&w[i], f, address, i);
}

void join_workers(worker *w, int n)
{
    for (int i = 0; i < n; i++)
        pl_thread_join(&w[i].thread);
    for (int i = 0; i < n; i++) {
        assert_ok(w[i].status);
        if (w[i].result != PL_SUBMIT_ACCEPTED && w[i].result != PL_SUBMIT_DUPLICATE)
            fail_msg("path %d: result %d, %s", w[i].path, w[i].result, w[i].text);
    }
}

worker send_one(fixture *f, const char *address, int path)
{
    worker w = {0};
    start_worker(&w, f, address, path);
    join_workers(&w, 1);
    return w;
}

pl_hash wait_version(fixture *f, const char *module)
{
    pl_version_facts facts;
    for (int i = 0; i < 6000; i++) {
        if (pl_client_get_version(f->client, module, 1, &facts) == PL_OK)
            return facts.params;
        pl_sleep_ms(10);
    }
    fail_msg("%s never reached version 1", module);
    return (pl_hash){{0}};
}

/* Returns the hash that version 1 of the embedding has if the workers of all four paths
 * send their updates to the home, without a relay. The hash is computed once per
 * codec. */
static pl_hash version_without_relay(const char *codec)
{
    static struct {
        char codec[16];
        pl_hash version;
    } known[4];
    fixture f;
    size_t i = 0;
    while (known[i].codec[0] && strcmp(known[i].codec, codec) != 0)
        i++;
    if (known[i].codec[0])
        return known[i].version;
    worker w[PATHS] = {0};
    open_job(&f, codec);
    start_workers(w, PATHS, &f, f.home.address);
    join_workers(w, PATHS);
    known[i].version = wait_version(&f, embed);
    pl_copy_text(known[i].codec, sizeof known[i].codec, codec);
    close_job(&f);
    return known[i].version;
}

void assert_version(fixture *f, const char *codec)
{
    pl_hash got = wait_version(f, embed), want = version_without_relay(codec);
    assert_true(pl_hash_equal(&got, &want));
}

int n_updates(fixture *f)
{
    OWNED(pl_store_close) pl_store *store = NULL;
    OWNED(pl_version_clear) pl_version v;
    int n = 0;
    memset(&v, 0, sizeof v);
    assert_ok(pl_store_open(f->home.target, PL_STORE_READ, &store));
    assert_ok(pl_store_get_version(store, embed, 1, &v));
    assert_int_equal(v.n_contributions, PATHS);
    for (int i = 0; i < v.n_contributions; i++) {
        bool seen = false;
        assert_int_equal(v.contributions[i].path, i);
        for (int k = 0; k < i; k++)
            seen = seen || pl_hash_equal(&v.contributions[k].update,
                                         &v.contributions[i].update);
        n += !seen;
    }
    return n;
}

void await_version(fixture *f, int64_t number)
{
    pl_version_facts facts;
    pl_status status = PL_ERR_NOT_FOUND;
    for (int i = 0; i < 6000 && status != PL_OK; i++) {
        pl_sleep_ms(i > 0 ? 10 : 0);
        status = pl_client_get_version(f->client, embed, number, &facts);
    }
    assert_ok(status);
}
