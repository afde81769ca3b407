/* folder: workers; label: unit; alone
 *
 * Tests that phases which a worker repeats (train.state_every) are not lost because a
 * home is silent before one of them. The test is the home; trainer and sender have
 * their threads. */
#include "workers/worker_internal.h"
#include "tests/support/passing_time.h"
#include "tests/support/corpus_support.h"
#include "tests/support/home_fixture.h"

/* A phase takes WORK_S seconds, and the home is once silent before the last one. */
enum {
    REPEATS = 10,
    WORK_S = 900,
    PATIENCE_S = 1000,
    SILENCE_S = PATIENCE_S + 1,
    LOOKS = 5
};

/* All versions of a module are zeros. */
typedef struct zero_home {
    pl_socket *socket;
    char address[PL_ADDRESS_MAX];
    pl_thread *thread;
    atomic_bool stop;
    const worker_arm *arm;
    pl_hash blobs[N_SLOTS];
    int64_t newest;        /* the newest version that it was asked for */
    uint64_t refused;      /* the highest question that it refuses to answer */
    int n_silent, n_again; /* refused, and asked again about the first phase */
    int looked;            /* n_looks when time passed last in the silence */
    bool speaks;           /* the silence is over */
} zero_home;

static const pl_slot *slot_of(const zero_home *h, int slot)
{
    return pl_topology_slot(h->arm->topology, slot);
}

static atomic_int n_looks; /* how often the client has looked at the time */

static pl_status go_on(void *w)
{
    atomic_fetch_add(&n_looks, 1);
    return worker_go_on(w);
}

/* Returns whether the question gets an answer. */
static bool knows(zero_home *h, const pl_message *m, int64_t version)
{
    h->n_again += version == 0 && h->newest > 0;
    if (version > h->newest && version < REPEATS - 1)
        let_pass(WORK_S);
    h->newest = version > h->newest ? version : h->newest;
    h->speaks = h->n_silent >= N_SLOTS && m->request > h->refused;
    if (version < REPEATS - 1 || h->speaks)
        return true;
    if (h->n_silent < N_SLOTS) /* else one of them comes again */
        h->refused = m->request > h->refused ? m->request : h->refused;
    h->n_silent++;
    h->looked = atomic_load(&n_looks);
    return false;
}

static void answer_zeros(const zero_home *h, pl_message *m, pl_message *a)
{
    static const float zeros[1 << 16];
    pl_msg_get_blob q;
    assert_ok(PL_HEAR(m, get_blob, &q));
    for (int slot = 0; slot < N_SLOTS; slot++) {
        const uint64_t bytes = slot_of(h, slot)->n_params * sizeof *zeros;
        assert_true(bytes <= sizeof zeros);
        if (!pl_hash_equal(&h->blobs[slot], &q.blob))
            continue;
        const uint64_t left = q.offset < bytes ? bytes - q.offset : 0;
        PL_SAY(a, BLOB, blob, .total = bytes);
        if (left > 0)
            pl_buf_append(&a->data, zeros, (size_t)(left < q.total ? left : q.total));
        return;
    }
    fail_msg("an unknown blob is asked for");
}

static bool answer(zero_home *h, pl_message *m, pl_message *a)
{
    pl_msg_get_version q;
    char name[96];
    if (m->type == PL_MSG_GET_PATH)
        PL_SAY(a, PATH_IS, path_is, .phase = REPEATS);
    if (m->type == PL_MSG_GET_BLOB)
        answer_zeros(h, m, a);
    if (m->type != PL_MSG_GET_VERSION)
        return true;
    assert_ok(PL_HEAR(m, get_version, &q));
    if (!knows(h, m, q.version))
        return false;
    for (int slot = 0; slot < N_SLOTS; slot++) {
        const int module = pl_topology_module_of_path(h->arm->topology, slot, 0);
        pl_arm_module_name(&h->arm->arm, h->arm->topology, module, name);
        if (strcmp(name, q.name) == 0)
            PL_SAY(a, VERSION_IS, version_is, .version = q.version,
                   .blob = h->blobs[slot]);
    }
    return true;
}

static void run_zero_home(void *context)
{
    zero_home *h = context;
    OWNED(pl_message_destroy) pl_message m;
    pl_peer from;
    pl_message_init(&m, 0);
    while (!atomic_load(&h->stop)) {
        bool ready;
        /* the kernel has confirmed the questions by now, and the client knows it */
        if (h->n_silent >= N_SLOTS && !h->speaks &&
            atomic_load(&n_looks) >= h->looked + LOOKS) {
            let_pass(SILENCE_S);
            h->looked = atomic_load(&n_looks);
        }
        pl_wire_poll(&h->socket, 1, NULL, 0, 10, &ready);
        while (pl_wire_recv(h->socket, &from, &m) == PL_OK) {
            OWNED(pl_message_destroy) pl_message a = {0};
            if (!answer(h, &m, &a))
                continue;
            a.request = m.request;
            assert_ok(pl_wire_send_to(h->socket, &from, &a));
        }
    }
}

static void open_zero_home(zero_home *h, const worker_arm *arm)
{
    h->arm = arm;
    h->newest = -1;
    for (int slot = 0; slot < N_SLOTS; slot++) {
        const uint64_t bytes = slot_of(h, slot)->n_params * sizeof(float);
        OWNED(free_memory) void *zeros = pl_alloc((size_t)bytes);
        pl_blob_hash(zeros, bytes, &h->blobs[slot]);
    }
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &h->socket, h->address));
    assert_ok(pl_thread_start("home", run_zero_home, h, &h->thread));
}

static void define_arm(worker_arm *arm)
{
    define_grid(&arm->arm, "f32");
    arm->arm.inner.phases = 2 * REPEATS;
    assert_ok(pl_topology_create(&arm->arm.shape, &arm->arm.spec, &arm->topology));
    assert_int_equal(pl_topology_n_slots(arm->topology), N_SLOTS);
    arm->contracts = pl_contracts_create(&arm->arm, arm->topology);
}

static void open_shard(worker_shard *shard)
{
    static const uint32_t lens[] = {60, 60};
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    build_tokens(lens, 2, 300, &bytes);
    write_bytes("shard", bytes.data, bytes.len);
    assert_ok(pl_tokens_open(in_scratch("shard"), true, &shard->tokens));
}

/* An audit, which repeats all phases before its own. */
static worker_task *make_audit(const worker_arm *arm, const worker_shard *shard)
{
    worker_task *task = pl_alloc(sizeof *task);
    pl_arm_path_name(&arm->arm, arm->topology, 0, 0, task->name);
    task->arm = arm;
    task->shard = shard;
    task->layout = pl_path_layout_of(&arm->arm);
    task->n_params = pl_topology_path_params(arm->topology);
    task->steps = arm->arm.inner.tau;
    task->phase = task->repeats = REPEATS;
    task->again = true;
    return task;
}

PL_TEST(repeated_phases_go_on_after_a_home_was_silent)
{
    worker_arm arm = {.topology = NULL};
    worker_shard shard = {.tokens = NULL};
    zero_home h = {.socket = NULL};
    char hub_at[PL_ADDRESS_MAX];
    OWNED(pl_wire_close) pl_socket *hub = NULL;
    define_arm(&arm);
    open_shard(&shard);
    open_zero_home(&h, &arm);
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &hub, hub_at));
    /* the hub says nothing, and the worker does not mind */
    const pl_worker_options options = {
        .hub = hub_at, .name = "w", .cache = scratch, .patience_ms = INT32_MAX};
    worker w = {.options = &options, .n_homes = 1, .heard_ms = pl_now_ms()};
    const char *homes[] = {h.address};
    const pl_client_options client = {.homes = homes,
                                      .n_homes = 1,
                                      .patience_ms = 1000 * PATIENCE_S,
                                      .idle = go_on,
                                      .idle_context = &w};
    const pl_backend_options backend = {
        .name = "ref", .n_threads = 1, .precision = "f32"};
    pl_copy_text(w.homes_at[0], sizeof w.homes_at[0], h.address);
    w.blobs = cache_create(1 << 24);
    assert_ok(trainer_create(&backend, false, &w.inner, w.device));
    assert_ok(pl_wire_connect(hub_at, &w.hub));
    assert_ok(pl_client_create(&client, &w.homes));
    assert_ok(sender_create(&w, &w.out));
    worker_task *task = make_audit(&arm, &shard);

    assert_ok(worker_find_state(&w, task));
    assert_non_null(task->past);
    assert_int_equal(task->past->phase, REPEATS - 1);

    trainer_destroy(&w.inner);
    sender_destroy(w.out);
    worker_task_free(&task);
    atomic_store(&h.stop, true);
    pl_thread_join(&h.thread);
    assert_int_equal(h.n_again, 0);
    assert_true(h.n_silent >= N_SLOTS);
    cache_destroy(&w.blobs);
    pl_client_destroy(&w.homes);
    pl_wire_close(&w.hub);
    pl_wire_close(&h.socket);
    pl_tokens_close(&shard.tokens);
    pl_free(arm.contracts);
    pl_topology_destroy(&arm.topology);
    pl_arm_clear(&arm.arm);
}

static int end_wire(void **state)
{
    pl_wire_shutdown();
    return remove_scratch(state);
}

PL_SUITE(make_scratch, end_wire)
