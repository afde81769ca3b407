/* folder: workers; label: integration
 *
 * Tests that a lease belongs to one worker. If another worker sends messages with the
 * token of the lease, which can be guessed, they must have no effect. All failures of a
 * key's workers count against the key. The test runs a hub that checks keys, a home,
 * and three workers with keys. */
#include "tests/support/lease_job.h"

#include <math.h>

/* ---- messages with the token of another worker's lease ---- */
static void begin(pl_message *m, uint16_t type, const char *name, uint64_t token,
                  uint64_t phase, const char *task)
{
    pl_message_init(m, type);
    if (type == PL_MSG_RELEASE) {
        pl_put_u64(&m->body, PL_TAG_STATUS, PL_ERR_INTERNAL);
        pl_put_text(&m->body, PL_TAG_TEXT, "said by a stranger");
    }
    m->token = token;
    pl_put_text(&m->body, PL_TAG_NAME, name);
    pl_put_u64(&m->body, PL_TAG_PHASE, phase);
    pl_put_text(&m->body, PL_TAG_TASK, task);
}

static void begin_renewal(const party *p, uint64_t token, uint64_t phase,
                          const char *task, pl_message *m)
{
    begin(m, PL_MSG_RENEW, p->name, token, phase, task);
    pl_put_f64(&m->body, PL_TAG_LOSS, 1);
    pl_put_u64(&m->body, PL_TAG_STEP, 1);
    pl_put_f64(&m->body, PL_TAG_RATE, 1);
}

static uint16_t renew(const party *p, uint64_t token, uint64_t phase, const char *task)
{
    pl_message m;
    begin_renewal(p, token, phase, task, &m);
    return ask_plainly(p, &m);
}

static uint16_t renew_showing(const party *p, uint64_t token, uint64_t phase,
                              const char *task)
{
    pl_message m;
    begin_renewal(p, token, phase, task, &m);
    pl_put_bytes(&m.body, PL_TAG_LEASE, last_lease, lease_bytes);
    return ask_plainly(p, &m);
}

static uint16_t say_done_with(const party *p, uint64_t token, const char *task,
                              double overhead)
{
    pl_message m;
    begin(&m, PL_MSG_DONE, p->name, token, 0, task);
    pl_put_u64(&m.body, PL_TAG_TOKENS, 1);
    pl_put_f64(&m.body, PL_TAG_LOSS, 1);
    pl_put_f64(&m.body, PL_TAG_SECONDS, 1);
    pl_put_f64(&m.body, PL_TAG_OVERHEAD, overhead);
    pl_put_f64(&m.body, PL_TAG_IDLE, 0);
    pl_put_f64(&m.body, PL_TAG_WAITED, 0);
    return ask_plainly(p, &m);
}

static uint16_t say_done(const party *p, uint64_t token, const char *task)
{
    return say_done_with(p, token, task, 0);
}

/* Gives the task back as failed. */
static void release(const party *p, uint64_t token, uint64_t phase, const char *task)
{
    pl_message m;
    begin(&m, PL_MSG_RELEASE, p->name, token, phase, task);
    assert_int_equal(ask_plainly(p, &m), PL_MSG_OK);
}

static int count_in_status(const job *j, const char *text)
{
    pl_message m, a;
    int n = 0;
    pl_message_init(&m, PL_MSG_STATUS);
    assert_int_equal(ask(&j->third, &m, &a), PL_MSG_STATUS_IS);
    for (const char *at = pl_buf_text(&a.data); (at = strstr(at, text)) != NULL; at++)
        n++;
    pl_message_destroy(&a);
    return n;
}

static void assert_status(const job *j, const char *text, bool has)
{
    if ((count_in_status(j, text) > 0) != has)
        fail_msg("the status %s `%s`", has ? "lacks" : "has", text);
}

static void holder_has_it_still(const job *j)
{
    assert_int_equal(renew(&j->holder, j->token, 0, j->task), PL_MSG_RENEWED);
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, job *j, setup, teardown)

FIXTURE_TEST(stranger_cannot_renew)
{
    assert_int_equal(renew(&j->thief, j->token, 0, j->task), PL_MSG_LEASE_LOST);
    holder_has_it_still(j);
}

FIXTURE_TEST(stranger_cannot_speak_under_the_holders_name)
{
    party disguised = j->thief;
    disguised.name = "holder";
    assert_int_equal(renew(&disguised, j->token, 0, j->task), PL_MSG_ERR);
    holder_has_it_still(j);
}

FIXTURE_TEST(stranger_cannot_end_it)
{
    assert_int_equal(say_done(&j->thief, j->token, j->task), PL_MSG_OK);
    holder_has_it_still(j);
    for (int i = 0; i < 4; i++) /* three failures would end the job */
        release(&j->thief, j->token, 0, j->task);
    holder_has_it_still(j);
    assert_status(j, "said by a stranger", false);
}

/* A worker tries to use leases that nobody gave it: with token 0, which a path has
 * before its first lease, and with a token that the hub has never granted. */
FIXTURE_TEST(nobody_makes_a_lease_for_itself)
{
    char name[PL_MODULE_NAME_MAX], task[PL_MODULE_NAME_MAX];
    uint64_t made_up = j->token | UINT32_MAX, token = 0;
    for (int path = 0; path < PATHS; path++) {
        pl_arm_path_name(&j->f.arm, j->f.topology, path, 0, name);
        if (strcmp(name, j->task) == 0)
            continue;
        assert_int_equal(say_done(&j->thief, 0, name), PL_MSG_OK);
        assert_int_equal(renew(&j->thief, made_up, 0, name), PL_MSG_LEASE_LOST);
        assert_int_equal(renew(&j->thief, 0, 0, name), PL_MSG_LEASE_LOST);
    }
    assert_int_equal(get_task(&j->third, &token, task), 0);
    assert_true(token > j->token && token < made_up);
}

/* A worker says that its task is done, but it has submitted no update, so no home
 * confirms the task. The hub must then give the task to another worker. */
PL_TEST_WITH(done_without_delivery_keeps_no_path, setup_short, teardown)
{
    job *j = *state;
    char task[PL_MODULE_NAME_MAX] = "", other[PATHS][PL_MODULE_NAME_MAX];
    uint64_t token = 0, tokens[PATHS];
    OWNED(end_party) party mine = {0};
    join_own(j, &mine, "mine");
    for (int path = 1; path < PATHS; path++)
        assert_int_equal(get_task(&mine, &tokens[path], other[path]), 0);
    int64_t said_ms = pl_now_ms(),
            phase = -1; /* at most a minute, far more than needed */
    assert_int_equal(say_done(&j->holder, j->token, j->task), PL_MSG_OK);
    while (phase < 0 && pl_now_ms() - said_ms < 60000) {
        (void)renew(&j->holder, j->token, 0, j->task);
        for (int path = 1; path < PATHS; path++)
            (void)renew(&mine, tokens[path], 0, other[path]);
        phase = try_task(&j->third, &token, task);
    }
    assert_string_equal(task, j->task);
    assert_true(token > j->token);
    assert_int_equal(renew(&j->holder, j->token, 0, j->task), PL_MSG_LEASE_LOST);
}

/* ---- permissions of a key ---- */
static void begin_hello(pl_message *m, const char *name, const char *device,
                        uint64_t pid)
{
    pl_message_init(m, PL_MSG_HELLO);
    pl_put_text(&m->body, PL_TAG_NAME, name);
    pl_put_text(&m->body, PL_TAG_ROLE, "worker");
    pl_put_text(&m->body, PL_TAG_DEVICE, device);
    pl_put_u64(&m->body, PL_TAG_PID, pid);
}

static uint16_t hello_of(const party *p, const char *name, const char *device,
                         uint64_t pid)
{
    pl_message m;
    begin_hello(&m, name, device, pid);
    return ask_plainly(p, &m);
}

static uint16_t hello(const party *p, const char *name, const char *device)
{
    return hello_of(p, name, device, 1);
}

FIXTURE_TEST(key_has_few_names_and_a_worker_one_device)
{
    char name[32];
    assert_int_equal(hello(&j->thief, "a\nb\x1b[2J", "d"), PL_MSG_ERR);
    assert_int_equal(hello(&j->thief, "", "d"), PL_MSG_ERR);
    assert_int_equal(hello(&j->thief, "thief", "another device"), PL_MSG_ERR);
    for (int i = 1; i < 64; i++) { /* 64 names with the first one */
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(hello(&j->thief, name, "d"), PL_MSG_WELCOME);
    }
    assert_int_equal(hello(&j->thief, "n64", "d"), PL_MSG_ERR);
    assert_int_equal(hello(&j->third, "n64", "d"), PL_MSG_WELCOME);
    /* This name is already known. */
    assert_int_equal(hello(&j->thief, "n63", "d"), PL_MSG_WELCOME);
}

/* A lease says on which kind of device its task is done, and an audit believes it. A
 * worker that asks again for a lease which it has reported as done, as a new process on
 * another device, must not get it sealed for that device. */
FIXTURE_TEST(no_lease_is_sealed_for_a_device_that_came_later)
{
    char task[PL_MODULE_NAME_MAX];
    uint64_t token = 0;
    pl_message m, a;
    const uint64_t request = pl_wire_next_request();
    pl_message_init(&m, PL_MSG_TASK_REQ);
    m.request = request;
    pl_put_text(&m.body, PL_TAG_NAME, j->thief.name);
    assert_int_equal(ask(&j->thief, &m, &a), PL_MSG_TASK);
    pl_reader r;
    pl_reader_open(&r, "TASK", a.body.data, a.body.len);
    pl_get_text(&r, PL_TAG_TASK, 0, task, sizeof task);
    token = a.token;
    pl_message_destroy(&a);
    assert_int_equal(say_done(&j->thief, token, task), PL_MSG_OK);
    assert_int_equal(hello_of(&j->thief, j->thief.name, "unicorn f32", 2),
                     PL_MSG_WELCOME);
    pl_message_init(&m, PL_MSG_TASK_REQ);
    m.request = request;
    pl_put_text(&m.body, PL_TAG_NAME, j->thief.name);
    assert_int_equal(ask(&j->thief, &m, &a), PL_MSG_NO_WORK);
    pl_message_destroy(&a);
}

/* Gives the task back without reporting a failure. */
static uint16_t give_back(const party *p, uint64_t token, const char *task)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_RELEASE);
    m.token = token;
    pl_put_text(&m.body, PL_TAG_NAME, p->name);
    pl_put_u64(&m.body, PL_TAG_PHASE, 0);
    pl_put_text(&m.body, PL_TAG_TASK, task);
    return ask_plainly(p, &m);
}

/* Says HELLO under `n` names, from number `first` on, without waiting for answers. */
static void flood_names(const party *p, int first, int n)
{
    for (int i = 0; i < n; i++) {
        char name[32];
        OWNED(pl_message_destroy) pl_message m;
        snprintf(name, sizeof name, "many-%d", first + i);
        begin_hello(&m, name, "d", 1);
        m.request = pl_wire_next_request();
        (void)pl_wire_send(p->socket, &m); /* fails if the queue is full */
    }
}

/* Reads all messages. Returns the number of names that the hub has welcomed. */
static int read_welcomes(const party *p)
{
    OWNED(pl_message_destroy) pl_message a;
    int n = 0;
    pl_message_init(&a, 0);
    while (pl_wire_recv(p->socket, NULL, &a) == PL_OK)
        n += a.type == PL_MSG_WELCOME;
    return n;
}

FIXTURE_TEST(thirty_thousand_names_of_one_key_change_nothing_for_others)
{
    enum { NAMES = 30000, AT_ONCE = 300, MORE_KIB = 8 << 10 };
    char task[PL_MODULE_NAME_MAX];
    uint64_t token;
    int welcomed = 0;
    const long before = child_kib(&j->hub);
    for (int i = 0; i < NAMES; i += AT_ONCE) {
        flood_names(&j->thief, i, AT_ONCE);
        assert_int_equal(renew(&j->holder, j->token, 0, j->task), PL_MSG_RENEWED);
        assert_int_equal(try_task(&j->third, &token, task), 0);
        assert_int_equal(give_back(&j->third, token, task), PL_MSG_OK);
        welcomed += read_welcomes(&j->thief);
    }
    /* The first name of the key is not counted here. */
    assert_in_range(welcomed, 1, 63);
    assert_in_range(count_in_status(j, "\"many-"), 0, 63);
    assert_true(child_kib(&j->hub) - before < MORE_KIB);
    holder_has_it_still(j);
}

/* A name that the list gives to a key must be refused to other keys before the owner
 * joins, because a hub that has restarted does not know which key has which name. A
 * name like worker-1 must be refused, too. A name that one of the job's own workers
 * wants is taken back from a worker on trial. */
FIXTURE_TEST(nobody_takes_the_name_of_another)
{
    OWNED(end_party) party absent = {.name = "absent"}, mine = {0};
    pl_message m;
    pl_keypair_create(&absent.key);
    allow(j, &absent);
    /* the hub reads the list again when an unknown key connects */
    assert_ok(pl_wire_connect_as(j->hub.address, &absent.key, &absent.socket));
    pl_message_init(&m, PL_MSG_STATUS);
    assert_int_equal(ask_plainly(&absent, &m), PL_MSG_STATUS_IS);
    pl_wire_close(&absent.socket);
    assert_int_equal(hello(&j->thief, "absent", "d"), PL_MSG_ERR);
    assert_int_equal(hello(&j->thief, "worker-1", "d"), PL_MSG_ERR);
    assert_int_equal(hello(&j->thief, "worker-x", "d"), PL_MSG_WELCOME);
    assert_int_equal(hello(&j->thief, "by-hand", "d"), PL_MSG_WELCOME);
    join(j, &absent);
    join_own(j, &mine, "by-hand");
    assert_int_equal(hello(&j->thief, "by-hand", "d"), PL_MSG_ERR);
}

/* Enrols party `p` at the hub, over a connection that has the key of an invitation.
 * Returns the type of the hub's answer. */
static uint16_t enrol(const job *j, const pl_keypair *invite, const party *p)
{
    pl_message m;
    party guest = {.key = *invite};
    assert_ok(pl_wire_connect_as(j->hub.address, invite, &guest.socket));
    pl_message_init(&m, PL_MSG_ENROL);
    pl_put_text(&m.body, PL_TAG_NAME, p->name);
    pl_put_bytes(&m.body, PL_TAG_KEY, p->key.open.bytes, PL_PUBKEY_BYTES);
    uint16_t type = ask_plainly(&guest, &m);
    pl_wire_close(&guest.socket);
    return type;
}

FIXTURE_TEST(enrolling_gets_the_name_of_a_worker_without_results_only)
{
    OWNED(end_party) party late = {.name = "late"}, by_hand = {.name = "by-hand"};
    OWNED(end_party) party mine = {0};
    pl_keypair invite;
    char list[PL_PATH_MAX];
    pl_keypair_create(&invite);
    pl_keypair_create(&late.key);
    pl_keypair_create(&by_hand.key);
    pl_key_entry pool = {.key = invite.open,
                         .role = PL_AS_INVITE,
                         .grants = PL_AS_WORKER,
                         .uses = 2,
                         .name = "pool"};
    assert_ok(pl_key_list_edit(beside(j->hub.ready, "keys", list), put_entry, &pool));
    join_own(j, &mine, "by-hand");
    assert_int_equal(hello(&j->thief, "late", "d"), PL_MSG_WELCOME);
    assert_int_equal(enrol(j, &invite, &by_hand), PL_MSG_ERR);
    assert_int_equal(enrol(j, &invite, &late), PL_MSG_ENROLLED);
    join(j, &late);
    assert_int_equal(hello(&j->thief, "late", "d"), PL_MSG_ERR);
}

static void fail_task(const party *p)
{
    uint64_t token = 0;
    char task[PL_MODULE_NAME_MAX];
    assert_int_equal(get_task(p, &token, task), 0);
    release(p, token, 0, task);
}

FIXTURE_TEST(one_workers_failures_bar_it_and_end_no_job)
{
    uint64_t token = 0;
    char task[PL_MODULE_NAME_MAX];
    for (int i = 0; i < 3; i++) /* the same task each time */
        fail_task(&j->thief);
    assert_status(j, "\"failure\":\"\"", true);
    assert_status(j, "\"state\":\"barred\"", true);
    party again = j->thief;
    again.name = "again"; /* all names of the key are barred */
    assert_int_equal(hello(&again, again.name, "d"), PL_MSG_WELCOME);
    assert_int_equal(try_task(&j->thief, &token, task), -1);
    assert_int_equal(try_task(&again, &token, task), -1);
    assert_int_equal(get_task(&j->third, &token, task), 0);
}

/* Adds two workers. Each of them holds a task. */
static void begin_two(job *j, party two[2])
{
    static const char *const names[] = {"fourth", "fifth"};
    uint64_t token = 0;
    char task[PL_MODULE_NAME_MAX];
    for (int i = 0; i < 2; i++) {
        two[i] = (party){.name = names[i]};
        pl_keypair_create(&two[i].key);
        allow(j, &two[i]);
        join(j, &two[i]);
        assert_int_equal(get_task(&two[i], &token, task), 0);
    }
}

static void end_two(party two[2])
{
    pl_wire_close(&two[0].socket);
    pl_wire_close(&two[1].socket);
}

FIXTURE_TEST(different_workers_that_fail_at_one_task_end_the_job)
{
    party two[2];
    fail_task(&j->thief);
    fail_task(&j->thief);
    begin_two(j, two); /* only the task that failed is left */
    assert_status(j, "\"failure\":\"\"", true);
    fail_task(&j->third);
    assert_status(j, "failed 3 times in phase 0", true);
    end_two(two);
}

FIXTURE_TEST(others_failures_end_no_job_that_has_workers_of_its_own)
{
    party two[2];
    OWNED(end_party) party mine = {0};
    join_own(j, &mine, "mine");
    fail_task(&j->thief);
    fail_task(&j->thief);
    begin_two(j, two); /* only the task that failed is left */
    fail_task(&j->third);
    assert_status(j, "\"failure\":\"\"", true);
    for (int i = 0; i < 3; i++) {
        assert_status(j, "\"failure\":\"\"", true);
        fail_task(&mine);
    }
    assert_status(j, "failed 6 times in phase 0", true);
    end_two(two);
}

/* Finishes the first phase of all paths under the name of this worker. */
static void finish_first_phase(job *j, const char *name)
{
    const uint64_t token = (2ull << 32) | 99; /* the test is the job's second hub */
    size_t n = pl_topology_path_params(j->f.topology);
    uint64_t bytes = pl_path_state_bytes(&j->f.arm, n);
    OWNED(free_memory) uint8_t *moments = pl_alloc((size_t)bytes + 1);
    char module[96], text[256];
    pl_submit_result result;
    for (int path = 0; path < PATHS; path++) {
        worker w = {.job = &j->f, .path = path, .name = name};
        pl_path_state state = {.phase = 1,
                               .work.n_samples = pl_phase_samples(&j->f.arm)};
        for (int slot = 0; slot < pl_topology_n_slots(j->f.topology); slot++) {
            OWNED(pl_buf_destroy) pl_buf update = {0};
            pl_submission s;
            fill(&w, j->f.client, slot, module, &update, &s);
            s.contribution.token = token;
            lease_for(j->f.client, &j->f.arm, &s.contribution, 0);
            assert_ok(pl_client_submit(j->f.client, &s, &result, text));
            assert_int_equal(result, PL_SUBMIT_ACCEPTED);
        }
        pl_lease lease = lease_of(&j->f.arm, path, 0, token);
        pl_copy_text(lease.worker, sizeof lease.worker, name);
        act_under(j->f.client, &j->f.arm, &lease);
        pl_arm_path_name(&j->f.arm, j->f.topology, path, 0, state.name);
        assert_ok(send_state(j->f.client, &state, moments, bytes, &result, text));
        assert_int_equal(result, PL_SUBMIT_ACCEPTED);
    }
    kill_child(&j->hub, SIGKILL); /* a third one takes over, and waits for its TTL */
    snprintf(j->hub.wait_ms, sizeof j->hub.wait_ms, "%d", SHORT_TTL);
    start_child(&j->hub);
}

static void refuse_task(const party *p, char task[PL_MODULE_NAME_MAX])
{
    pl_message m;
    uint64_t token = 0;
    int64_t phase = -1;
    for (int i = 0; i < 600 && phase < 0; i++)
        phase = try_task(p, &token, task);
    assert_int_equal(phase, 1);
    pl_message_init(&m, PL_MSG_RELEASE);
    m.token = token;
    pl_put_u64(&m.body, PL_TAG_STATUS, PL_ERR_DATA);
    pl_put_text(&m.body, PL_TAG_TEXT, "its update is too long");
    pl_put_text(&m.body, PL_TAG_NAME, p->name);
    pl_put_u64(&m.body, PL_TAG_PHASE, 1);
    pl_put_text(&m.body, PL_TAG_TASK, task);
    assert_int_equal(ask_plainly(p, &m), PL_MSG_OK);
}

static bool has_state(const job *j, const char *path)
{
    pl_path_state state;
    assert_ok(pl_client_get_path(j->f.client, path, &state));
    return !pl_hash_none(&state.moments);
}

/* A worker that joined may have left a state from which no worker can continue. If the
 * next task then fails three times, the state is dropped, so a lie does not end the
 * job. If the task fails again without the state, the job ends. */
FIXTURE_TEST(false_state_of_one_key_ends_no_job)
{
    OWNED(end_party) party mine = {0};
    char task[PL_MODULE_NAME_MAX];
    tell_secret(j->f.home.address);
    finish_first_phase(j, j->thief.name);
    join_own(j, &mine, "mine");
    for (int i = 0; i < 3; i++)
        refuse_task(&mine, task);
    assert_status(j, "\"failure\":\"\"", true);
    for (int i = 0; i < 1200 && has_state(j, task); i++)
        pl_sleep_ms(50);
    assert_false(has_state(j, task));
    /* Until the hub hears that the state is gone, it counts failures against the state.
     */
    for (int i = 0; i < 60 && !count_in_status(j, "its update is too long"); i++)
        refuse_task(&mine, task);
    assert_status(j, "its update is too long", true);
    assert_false(has_state(j, task));
}

FIXTURE_TEST(own_state_that_fails_ends_the_job)
{
    OWNED(end_party) party mine = {0};
    char task[PL_MODULE_NAME_MAX];
    tell_secret(j->f.home.address);
    finish_first_phase(j, "mine");
    join_own(j, &mine, "mine");
    for (int i = 0; i < 3; i++)
        refuse_task(&mine, task);
    assert_status(j, "failed 3 times in phase 1", true);
    assert_true(has_state(j, task));
}

FIXTURE_TEST(sums_of_the_fleet_take_no_impossible_number)
{
    const double bad[] = {-1, 1e300, (double)INFINITY, (double)NAN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pl_message m;
        assert_int_equal(say_done_with(&j->thief, 0, j->task, bad[i]), PL_MSG_ERR);
        begin(&m, PL_MSG_RENEW, j->holder.name, j->token, 0, j->task);
        pl_put_f64(&m.body, PL_TAG_LOSS, bad[i]);
        pl_put_u64(&m.body, PL_TAG_STEP, (UINT64_C(1) << 31) + 7);
        pl_put_f64(&m.body, PL_TAG_RATE, bad[i]);
        assert_int_equal(ask_plainly(&j->holder, &m), PL_MSG_RENEWED);
        assert_status(j, "\"step\":2147483655", false);
        assert_status(j, "\"step\":-", false);
        assert_status(j, "\"tokens_per_second\":0", true);
        assert_status(j, "\"tokens_per_second\":1e", false);
    }
    holder_has_it_still(j);
}

FIXTURE_TEST(worker_has_no_more_leases_than_it_can_use)
{
    OWNED(end_party) party mine = {0};
    uint64_t token = 0;
    char task[PL_MODULE_NAME_MAX];
    join_own(j, &mine, "mine");
    for (int i = 0; i < 3; i++) /* the fourth path belongs to `holder` */
        assert_int_equal(get_task(&mine, &token, task), 0);
    release(&j->holder, j->token, 0, j->task);
    assert_int_equal(try_task(&mine, &token, task), -1);
    assert_int_equal(get_task(&j->third, &token, task), 0);
}

FIXTURE_TEST(key_on_trial_has_one_lease)
{
    party again = j->thief;
    uint64_t token = 0, first = 0;
    char task[PL_MODULE_NAME_MAX], held[PL_MODULE_NAME_MAX];
    assert_int_equal(get_task(&j->thief, &first, held), 0);
    assert_int_equal(try_task(&j->thief, &token, task), -1);
    again.name = "again";
    assert_int_equal(hello(&again, again.name, "d"), PL_MSG_WELCOME);
    assert_int_equal(try_task(&again, &token, task), -1);
    assert_int_equal(get_task(&j->third, &token, task), 0);
}

FIXTURE_TEST(own_worker_begins_what_one_on_trial_is_at)
{
    party two[2];
    OWNED(end_party) party mine = {0};
    uint64_t token = 0;
    char task[PL_MODULE_NAME_MAX];
    begin_two(j, two);
    /* This is the last free task of the four paths. */
    assert_int_equal(get_task(&j->third, &token, task), 0);
    join_own(j, &mine, "mine");
    assert_int_equal(get_task(&mine, &token, task), 0);
    assert_status(j, "\"backups_granted\":1", true);
    end_two(two);
}

static uint64_t begin_asking(const party *p)
{
    OWNED(pl_message_destroy) pl_message m;
    pl_message_init(&m, PL_MSG_TASK_REQ);
    uint64_t request = m.request = pl_wire_next_request();
    pl_put_text(&m.body, PL_TAG_NAME, p->name);
    assert_ok(pl_wire_send(p->socket, &m));
    return request;
}

static uint16_t await_answer(const party *p, uint64_t request)
{
    OWNED(pl_message_destroy) pl_message a;
    uint16_t type = 0;
    pl_message_init(&a, 0);
    for (int i = 0; i < 12000 && type == 0; i++) {
        if (pl_wire_recv(p->socket, NULL, &a) == PL_OK && a.request == request)
            type = a.type;
        pl_sleep_ms(5);
    }
    return type;
}

FIXTURE_TEST(worker_on_trial_is_served_last)
{
    party own[3];
    uint64_t token = 0;
    char task[PL_MODULE_NAME_MAX];
    static const char *const names[] = {"one", "two", "three"};
    release(&j->holder, j->token, 0, j->task);
    for (int i = 0; i < 3; i++)
        join_own(j, &own[i], names[i]);
    assert_int_equal(get_task(&own[0], &token, task), 0);
    for (int i = 0; i < 3; i++) /* workers of the job itself hold all four paths */
        assert_int_equal(get_task(&own[1], &token, task), 0);
    uint64_t first = begin_asking(&j->thief);
    pl_sleep_ms(200);
    uint64_t second = begin_asking(&own[2]);
    pl_sleep_ms(200);
    release(&own[1], token, 0, task);
    assert_int_equal(await_answer(&own[2], second), PL_MSG_TASK);
    assert_int_equal(await_answer(&j->thief, first), PL_MSG_NO_WORK);
    for (int i = 0; i < 3; i++)
        pl_wire_close(&own[i].socket);
}

static void leave(const party *p)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_RELEASE);
    pl_put_text(&m.body, PL_TAG_NAME, p->name);
    pl_put_u64(&m.body, PL_TAG_PID, 1);
    assert_int_equal(ask_plainly(p, &m), PL_MSG_OK);
}

/* A worker that has done nothing and has left must not be listed in the status, only
 * counted. A key can have many names, and the launcher reads the list of workers five
 * times per second. */
FIXTURE_TEST(names_that_did_nothing_and_went_are_not_listed)
{
    party empty = j->thief;
    empty.name = "nothing";
    assert_int_equal(hello(&empty, empty.name, "d"), PL_MSG_WELCOME);
    assert_status(j, "\"nothing\"", true);
    leave(&empty);
    leave(&j->holder);
    assert_status(j, "\"nothing\"", false);
    assert_status(j, "\"holder\"", true);
    assert_status(j, "\"workers_left_out\":1", true);
}

FIXTURE_TEST(lease_is_taken_up_only_by_who_shows_it)
{
    restart_child(&j->hub);
    party *all[] = {&j->holder, &j->thief};
    for (int i = 0; i < 2; i++) {
        pl_wire_close(&all[i]->socket);
        join(j, all[i]);
    }
    uint16_t last = 0;
    for (int i = 0; i < 1200 && last != PL_MSG_LEASE_LOST; i++) {
        last = renew(&j->holder, j->token, 0, j->task);
        pl_sleep_ms(50);
    }
    assert_int_equal(last, PL_MSG_LEASE_LOST);
    assert_int_equal(renew_showing(&j->thief, j->token, 0, j->task), PL_MSG_LEASE_LOST);
    assert_int_equal(renew_showing(&j->holder, j->token | UINT32_MAX, 0, j->task),
                     PL_MSG_LEASE_LOST);
    assert_int_equal(renew_showing(&j->holder, j->token, 0, j->task), PL_MSG_RENEWED);
}

PL_CHILD(argc, argv)
{
    if (strcmp(argv[1], "hub") == 0)
        return run_hub(argv);
    return run_child(argv, (pl_home_options){0});
}
