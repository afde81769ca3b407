/* folder: workers; label: unit
 *
 * Tests what the hub tells the homes about leases: at every grant, when a lease is
 * given back, and when the hub takes up a lease of the hub before. The test is the home
 * and the workers; the hub runs in its thread. */
#include "tests/support/home_fixture.h"
#include "workers/hub_internal.h"

enum { TTL = 60000 };

typedef struct fake {
    hub h;
    pl_hub_options options;
    const char *homes[1];
    char home_at[PL_ADDRESS_MAX], hub_at[PL_ADDRESS_MAX];
    pl_socket *home, *workers[2];
    pl_arm arm;
    pl_lease_secret before;
    /* the newest FENCE */
    uint64_t fence, valid[2];
    size_t n_valid;
} fake;

static void hear_as_home(fake *f)
{
    OWNED(pl_message_destroy) pl_message m;
    pl_msg_fence said;
    pl_reader r;
    pl_message_init(&m, 0);
    while (pl_wire_recv(f->home, &(pl_peer){.len = 0}, &m) == PL_OK) {
        if (m.type != PL_MSG_FENCE)
            continue;
        assert_ok(PL_HEAR(&m, fence, &said));
        assert_string_equal(said.name, f->h.tasks.arms[0].paths[0].name);
        f->fence = m.token;
        f->n_valid = said.token.n;
        assert_in_range(f->n_valid, 0, 2);
        pl_reader_open(&r, "FENCE", m.body.data, m.body.len);
        for (size_t i = 0; i < f->n_valid; i++)
            f->valid[i] = pl_get_u64(&r, PL_TAG_TOKEN, i);
    }
}

static void turn_hub(fake *f)
{
    OWNED(pl_message_destroy) pl_message m;
    pl_peer peer;
    bool more = false;
    pl_message_init(&m, 0);
    while (pl_wire_recv(f->h.socket, &peer, &m) == PL_OK)
        assert_ok(hub_take(&f->h, &peer, &m));
    assert_ok(hub_tend(&f->h, pl_now_ms(), &more));
    hear_as_home(f);
}

/* Waits until the newest FENCE has these tokens (0: none), and no others. */
static void await_valid(fake *f, uint64_t a, uint64_t b)
{
    bool is_told = false;
    for (int i = 0; i < 12000 && !is_told; i++) {
        turn_hub(f);
        is_told = f->fence != 0 && f->n_valid == (size_t)((a != 0) + (b != 0)) &&
                  (a == 0 || f->valid[0] == a) && (b == 0 || f->valid[1] == b);
        pl_sleep_ms(is_told ? 0 : 5);
    }
    assert_true(is_told);
}

static uint16_t ask(fake *f, int worker, pl_message *m, pl_message *answer)
{
    pl_status status = PL_ERR_TIMEOUT;
    m->request = pl_wire_next_request();
    pl_message_init(answer, 0);
    assert_ok(pl_wire_send(f->workers[worker], m));
    pl_message_destroy(m);
    for (int i = 0; i < 12000 && status == PL_ERR_TIMEOUT; i++) {
        turn_hub(f);
        status = pl_wire_recv(f->workers[worker], NULL, answer);
        pl_sleep_ms(status == PL_ERR_TIMEOUT ? 5 : 0);
    }
    assert_ok(status);
    return answer->type;
}

static void tell_hub(fake *f, pl_message *m)
{
    m->epoch = 5; /* of the home */
    assert_ok(hub_take_home(&f->h, 0, m, pl_now_ms()));
    pl_message_destroy(m);
}

/* Starts a hub, which is the n-th one of the job. Only one path is left to train. */
static fake *open_hub(int64_t n)
{
    fake *f = pl_alloc(sizeof *f);
    pl_message m, a;
    pl_hash blob = {{1}};
    char name[96];
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &f->home, f->home_at));
    f->homes[0] = f->home_at;
    f->options = (pl_hub_options){
        .homes = f->homes, .n_homes = 1, .ttl_ms = TTL, .backup = PL_BACKUP_OFF};
    f->h.options = &f->options;
    f->h.worker_names = pl_name_table_create();
    pl_lease_secret_create(&f->h.secret);
    pl_lease_secret_create(&f->before);
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &f->h.socket, f->hub_at));
    assert_ok(hub_open_homes(&f->h));
    define_grid(&f->arm, "f32");
    assert_ok(plan_add_arm(&f->h.tasks, &f->arm, &blob));
    plan_arm *arm = &f->h.tasks.arms[0];
    for (int i = 0; i < pl_topology_n_modules(arm->topology); i++) {
        pl_arm_module_name(&arm->arm, arm->topology, i, name);
        plan_set_version(&f->h.tasks, name, 0, 0);
    }
    for (int i = 1; i < arm->n_tasks; i++)
        arm->paths[i].phase = arm->arm.inner.phases;
    pl_message_init(&m, 0);
    PL_SAY(&m, WELCOME, welcome_home, .secret = n > 1 ? f->before.bytes : NULL,
           .version = n);
    tell_hub(f, &m);
    pl_message_init(&m, 0);
    PL_SAY(&m, STATE_IS, piece, .total = 0);
    tell_hub(f, &m);
    for (int i = 0; i < 2; i++) {
        assert_ok(pl_wire_connect(f->hub_at, &f->workers[i]));
        pl_message_init(&m, 0);
        PL_SAY(&m, HELLO, hello, .name = i ? "second" : "first", .role = "worker",
               .device = "d", .pid = 7 + (uint64_t)i);
        assert_int_equal(ask(f, i, &m, &a), PL_MSG_WELCOME);
        pl_message_destroy(&a);
    }
    return f;
}

static void close_hub(fake **owner)
{
    OWNED(free_memory) fake *f = *owner;
    hub_close_homes(&f->h);
    hub_clear_audits(&f->h);
    plan_clear(&f->h.tasks);
    pl_name_table_destroy(&f->h.worker_names);
    pl_free(f->h.workers);
    pl_free(f->h.queue);
    pl_wire_close(&f->h.socket);
    pl_wire_close(&f->home);
    pl_wire_close(&f->workers[0]);
    pl_wire_close(&f->workers[1]);
}

static plan_path *the_path(fake *f)
{
    return &f->h.tasks.arms[0].paths[0];
}

static uint64_t take_task(fake *f, int worker)
{
    pl_message m, a;
    pl_message_init(&m, 0);
    f->h.known_ms -= HUB_RENEWED_MS; /* the time for renewals is over */
    PL_SAY(&m, TASK_REQ, task_req, .name = worker ? "second" : "first");
    assert_int_equal(ask(f, worker, &m, &a), PL_MSG_TASK);
    const uint64_t token = a.token;
    pl_message_destroy(&a);
    return token;
}

/* An earlier holder, of which this hub does not know, may still have a lease. */
PL_TEST(first_grant_of_a_hub_is_told)
{
    for (int64_t n = 1; n < 3; n++) {
        OWNED(close_hub) fake *f = open_hub(n);
        const uint64_t token = take_task(f, 0);
        await_valid(f, token, 0);
    }
}

PL_TEST(lease_that_was_given_back_ends_at_the_homes)
{
    OWNED(close_hub) fake *f = open_hub(1);
    pl_message m, a;
    const uint64_t token = take_task(f, 0);
    plan_grant_backup(&f->h.tasks, (plan_task){0, 0}, 1, pl_now_ms(), TTL);
    assert_ok(hub_fence(&f->h, the_path(f)));
    const uint64_t backup = the_path(f)->backup.token;
    await_valid(f, token, backup);
    for (int i = 0; i < 2; i++) {
        m = (pl_message){.token = i ? backup : token};
        PL_SAY(&m, RELEASE, release, .name = i ? "second" : "first", .phase = 0,
               .task = the_path(f)->name);
        assert_int_equal(ask(f, i, &m, &a), PL_MSG_OK);
        pl_message_destroy(&a);
        await_valid(f, i ? 0 : backup, 0);
    }
}

/* A worker that does not reach a home is at fault only if the hub reaches it, and has
 * reached it for a while. */
PL_TEST(worker_without_a_way_to_the_homes_is_barred_and_its_task_goes_on)
{
    enum { SILENT_MS = 5000, LONG_MS = 60000 };
    OWNED(close_hub) fake *f = open_hub(1);
    for (int i = 0; i < 3; i++) {
        pl_message a, m = {.token = take_task(f, 0)};
        f->h.homes[0].heard_ms = pl_now_ms() + (i > 0 ? LONG_MS : -SILENT_MS);
        f->h.homes[0].back_ms = pl_now_ms() - (i > 1 ? LONG_MS : 0);
        PL_SAY(&m, RELEASE, release, .status = PL_ERR_TIMEOUT, .text = "no answer",
               .name = "first", .phase = 0, .task = the_path(f)->name);
        assert_int_equal(ask(f, 0, &m, &a), PL_MSG_OK);
        pl_message_destroy(&a);
        const hub_worker *w = &f->h.workers[hub_find_worker(&f->h, "first")];
        assert_int_equal(hub_is_barred(w, pl_now_ms()), i == 2);
        assert_int_equal(w->n_failures, 0);
        assert_int_equal(the_path(f)->lease.failures, 0);
        f->h.homes[0].heard_ms = pl_now_ms();
    }
    (void)take_task(f, 1);
}

static uint16_t renew(fake *f, const pl_lease_secret *secret, uint64_t token,
                      pl_message *answer)
{
    pl_message m = {.token = token};
    pl_sealed_lease sealed;
    pl_lease lease = {.token = token};
    pl_copy_text(lease.arm, sizeof lease.arm, f->h.tasks.arms[0].arm.name);
    pl_copy_text(lease.worker, sizeof lease.worker, "first");
    pl_lease_seal(secret, &lease, &sealed);
    PL_SAY(&m, RENEW, renew, .name = "first", .phase = 0, .task = the_path(f)->name,
           .lease = {sealed.bytes, sealed.len});
    return ask(f, 0, &m, answer);
}

/* Nobody knows how long the first task of a job takes. */
PL_TEST(lease_lives_longer_the_longer_its_task_has_taken)
{
    enum { SHORT_MS = 2000, TWO_HOURS_MS = 7200000 };
    OWNED(close_hub) fake *f = open_hub(1);
    pl_message a;
    f->options.ttl_ms = SHORT_MS;
    const uint64_t token = take_task(f, 0);
    plan_lease *lease = &the_path(f)->lease;
    /* its worker may need seconds for its first renewal */
    assert_true(lease->deadline_ms - lease->granted_ms >= PLAN_FIRST_MS);
    for (int64_t ago = 0; ago <= TWO_HOURS_MS; ago += TWO_HOURS_MS) {
        lease->granted_ms = pl_now_ms() - ago;
        assert_int_equal(renew(f, &f->h.secret, token, &a), PL_MSG_RENEWED);
        pl_message_destroy(&a);
        const int64_t lives_ms = lease->deadline_ms - pl_now_ms();
        assert_true(ago > 0 ? lives_ms > 60000 : lives_ms <= SHORT_MS);
    }
}

/* A worker far away needs seconds until it has renewed its lease at the new hub. */
PL_TEST(hub_that_starts_again_waits_longer_if_tasks_are_long)
{
    enum { SHORT_MS = 2000, PHASE_S = 7200 };
    OWNED(close_hub) fake *f = open_hub(2);
    pl_message m = {0}, a;
    plan_arm *arm = &f->h.tasks.arms[0];
    f->options.ttl_ms = SHORT_MS;
    for (int i = 1; i < arm->n_tasks; i++)
        arm->paths[i].work.seconds = PHASE_S * (double)arm->paths[i].phase;
    f->h.known_ms -= SHORT_MS + 500;
    PL_SAY(&m, TASK_REQ, task_req, .name = "first");
    assert_int_equal(ask(f, 0, &m, &a), PL_MSG_NO_WORK);
    pl_message_destroy(&a);
    assert_true(take_task(f, 0) != 0);
}

PL_TEST(lease_of_the_hub_before_is_sealed_anew)
{
    OWNED(close_hub) fake *f = open_hub(2);
    pl_message a;
    pl_msg_renewed said;
    pl_lease lease;
    pl_lease_secret key;
    const uint64_t token = (1ull << 32) | 7;
    /* this hub has granted no such lease, and anybody can make up a secret */
    const pl_lease_secret wrong = {{1}};
    const pl_lease_secret *others[] = {&f->h.secret, &wrong};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(renew(f, others[i], token, &a), PL_MSG_LEASE_LOST);
        pl_message_destroy(&a);
    }
    f->h.homes[0].welcome = false; /* it may not know the new secret */
    assert_int_equal(renew(f, &f->before, token, &a), PL_MSG_RENEWED);
    assert_ok(PL_HEAR(&a, renewed, &said));
    assert_int_equal(said.lease.len, 0);
    pl_message_destroy(&a);
    f->h.homes[0].welcome = true;
    for (int again = 0; again < 2; again++) { /* the first answer may be lost */
        assert_int_equal(renew(f, &f->before, token, &a), PL_MSG_RENEWED);
        assert_ok(PL_HEAR(&a, renewed, &said));
        assert_ok(pl_lease_open(&f->h.secret, said.lease.at, said.lease.len, &lease));
        assert_true(lease.token == token);
        pl_lease_key(&f->h.secret, said.lease.at, said.lease.len, &key);
        assert_memory_equal(said.secret, key.bytes, sizeof key.bytes);
        pl_message_destroy(&a);
        await_valid(f, token, 0);
    }
}

/* The home did not know the arm, so it ignored the FENCE of its first task. */
PL_TEST(home_that_gets_an_arm_is_told_its_leases)
{
    OWNED(close_hub) fake *f = open_hub(1);
    pl_message m;
    const uint64_t token = take_task(f, 0);
    const pl_hash blob = {{1}};
    await_valid(f, token, 0);
    f->fence = 0;
    pl_message_init(&m, PL_MSG_EVENT);
    PL_SAY(&m, EVENT, arm_record, .arm = f->h.tasks.arms[0].arm.name, .arm_blob = blob);
    tell_hub(f, &m);
    await_valid(f, token, 0);
}

/* Both hubs would give the same tokens if this one took the higher epoch. */
PL_TEST(hub_whose_home_has_met_a_newer_one_ends)
{
    for (int refused = 0; refused < 2; refused++) {
        OWNED(close_hub) fake *f = open_hub(2);
        OWNED(pl_message_destroy) pl_message m;
        pl_message_init(&m, 0);
        if (refused)
            pl_wire_error(&m, pl_wire_next_request(), PL_ERR_STALE, "an old hub");
        else
            PL_SAY(&m, WELCOME, welcome_home, .version = 3);
        m.epoch = 5;
        assert_int_equal(hub_take_home(&f->h, 0, &m, pl_now_ms()), PL_ERR_STALE);
        assert_int_equal(f->h.tasks.epoch, 2);
    }
}

/* Between the two greetings only one of the homes knows the new secret. */
PL_TEST(second_home_is_greeted_as_soon_as_the_first_one_has_answered)
{
    const char *at[] = {"tcp://127.0.0.1:1", "tcp://127.0.0.1:2"};
    pl_hub_options options = {.homes = at, .n_homes = 2, .ttl_ms = TTL};
    OWNED(hub_close_homes) hub h = {.options = &options};
    OWNED(pl_message_destroy) pl_message m = {.epoch = 5};
    const int64_t now_ms = pl_now_ms();
    assert_ok(hub_open_homes(&h));
    h.homes[0].asked_ms = h.homes[1].asked_ms = now_ms - TTL;
    assert_ok(hub_tend_homes(&h, now_ms));
    assert_true(h.homes[0].hello != 0);
    assert_true(h.homes[1].hello == 0); /* the hub has no epoch yet */
    PL_SAY(&m, WELCOME, welcome_home, .version = 1);
    assert_ok(hub_take_home(&h, 0, &m, now_ms));
    assert_ok(hub_tend_homes(&h, now_ms));
    assert_true(h.homes[1].hello != 0);
}

/* Each home is told by its own welcome. */
PL_TEST(home_that_is_welcome_is_told_the_fences_once)
{
    pl_socket *homes[2];
    char bound[2][PL_ADDRESS_MAX];
    const char *at[] = {bound[0], bound[1]};
    pl_fence fence = {.name = "liar", .reason = "it lied"};
    pl_hub_options options = {.homes = at, .n_homes = 2, .ttl_ms = TTL};
    OWNED(hub_close_homes)
    hub h = {.options = &options, .fenced = &fence, .n_fenced = 1};
    for (int i = 0; i < 2; i++)
        assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &homes[i], bound[i]));
    assert_ok(hub_open_homes(&h));
    for (int i = 0; i < 2; i++) {
        OWNED(pl_message_destroy) pl_message m = {.epoch = 5};
        PL_SAY(&m, WELCOME, welcome_home, .version = 1);
        assert_ok(hub_take_home(&h, i, &m, pl_now_ms()));
    }
    for (int i = 0; i < 2; i++) {
        OWNED(pl_message_destroy) pl_message m;
        int n_told = 0;
        pl_message_init(&m, 0);
        for (int k = 0; k < 12000 && m.type != PL_MSG_GET_STATE; k++) {
            if (pl_wire_recv(homes[i], &(pl_peer){.len = 0}, &m) == PL_OK)
                n_told += m.type == PL_MSG_FENCE_WORKER;
            else
                pl_sleep_ms(5);
        }
        assert_int_equal(m.type, PL_MSG_GET_STATE);
        assert_int_equal(n_told, 1);
        pl_wire_close(&homes[i]);
    }
}

/* A home that does not have the arm yet could not give a worker its definition. */
PL_TEST(no_task_begins_before_every_home_has_the_arm)
{
    OWNED(close_hub) fake *f = open_hub(1);
    plan_arm *arm = &f->h.tasks.arms[0];
    pl_message m = {.type = PL_MSG_EVENT};
    arm->lacking = 1;
    assert_false(plan_ready(arm, 0, pl_now_ms()));
    PL_SAY_BODY(&m.body, arm_record, .arm = arm->arm.name, .arm_blob = arm->blob);
    tell_hub(f, &m);
    assert_true(plan_ready(arm, 0, pl_now_ms()));
}
