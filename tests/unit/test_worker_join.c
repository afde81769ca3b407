/* folder: workers; label: integration
 *
 * Tests how the hub treats workers that come and go: faults of a worker's machine, a
 * second process with the name and key of a worker, workers of a different release, and
 * workers that the operator removes. */
#include "tests/support/lease_job.h"

/* Asks and returns the status of the answer. */
static pl_status ask_status(const party *p, pl_message *m)
{
    OWNED(pl_message_destroy) pl_message a;
    m->request = pl_wire_next_request();
    pl_message_init(&a, 0);
    pl_status status = pl_wire_ask(p->socket, m, 1000, 20000, &a);
    pl_message_destroy(m);
    return status;
}

static pl_status say_hello(const party *p, uint64_t pid, const char *release)
{
    pl_message m = {0};
    PL_SAY(&m, HELLO, hello, .name = p->name, .role = "worker", .device = "a device",
           .pid = pid, .release = release);
    return ask_status(p, &m);
}

static pl_status ask_for_work(const party *p)
{
    pl_message m = {0};
    PL_SAY(&m, TASK_REQ, task_req, .name = p->name);
    return ask_status(p, &m);
}

static pl_status give_back(const party *p, uint64_t token, const char *task,
                           pl_status why)
{
    pl_message m = {.token = token};
    PL_SAY(&m, RELEASE, release, .status = why, .text = "the reason of the test",
           .name = p->name, .task = task);
    return ask_status(p, &m);
}

/* Returns the hub's status; the caller frees it. */
static pl_json *status_of(const job *j)
{
    pl_json *parsed = NULL;
    pl_message m, a;
    pl_message_init(&m, PL_MSG_STATUS);
    assert_int_equal(ask(&j->thief, &m, &a), PL_MSG_STATUS_IS);
    assert_ok(pl_json_parse((const char *)a.data.data, a.data.len, &parsed));
    pl_message_destroy(&a);
    return parsed;
}

static const pl_json *worker_in(const pl_json *status, const char *name)
{
    const pl_json *all = pl_json_get(status, "workers");
    for (size_t i = 0; i < pl_json_count(all); i++)
        if (strcmp(pl_json_get_text(pl_json_at(all, i), "worker"), name) == 0)
            return pl_json_at(all, i);
    fail_msg("the hub does not list %s", name);
    return NULL;
}

/* ---- faults of a machine ---- */
static void check_barred(const job *j, double least_s, double most_s)
{
    OWNED(pl_json_destroy) pl_json *status = status_of(j);
    const pl_json *w = worker_in(status, "mine");
    assert_string_equal(pl_json_get_text(w, "state"), "barred");
    assert_string_equal(pl_json_get_text(w, "failure"), "the reason of the test");
    assert_true(pl_json_get_real(w, "barred_seconds") > least_s);
    assert_true(pl_json_get_real(w, "barred_seconds") <= most_s);
    assert_string_equal(pl_json_get_text(status, "failure"), "");
    assert_true(pl_json_get_real(status, "tasks_failed") == 0);
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, job *j, setup, teardown)

/* A worker without disk space fails at once and for every task. It is the job's only
 * own worker; before, three failures ended the job. */
FIXTURE_TEST(full_disk_bars_the_worker_and_not_the_task)
{
    OWNED(end_party) party mine;
    uint64_t token = 0;
    char task[PL_MODULE_NAME_MAX];
    join_own(j, &mine, "mine");
    assert_int_equal(get_task(&mine, &token, task), 0);
    assert_ok(give_back(&mine, token, task, PL_ERR_NOSPACE));
    check_barred(j, 0, 5);
    assert_int_equal(try_task(&mine, &token, task), -1);
    assert_int_equal(get_task(&mine, &token, task), 0); /* after 5 s */
    assert_ok(give_back(&mine, token, task, PL_ERR_NOMEM));
    check_barred(j, 5, 10);
}

FIXTURE_TEST(every_fault_of_a_machine_bars_it)
{
    static const pl_status faults[] = {PL_ERR_IO, PL_ERR_OS, PL_ERR_DEVICE,
                                       PL_ERR_UNSUPPORTED};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        OWNED(end_party) party mine;
        char name[32], task[PL_MODULE_NAME_MAX];
        uint64_t token = 0;
        snprintf(name, sizeof name, "own%zu", i);
        join_own(j, &mine, name);
        assert_int_equal(get_task(&mine, &token, task), 0);
        assert_ok(give_back(&mine, token, task, faults[i]));
        assert_int_equal(try_task(&mine, &token, task), -1);
    }
    OWNED(pl_json_destroy) pl_json *status = status_of(j);
    assert_string_equal(pl_json_get_text(status, "failure"), "");
}

/* ---- two processes ---- */
FIXTURE_TEST(second_process_ends_the_first)
{
    OWNED(end_party) party second = j->holder;
    assert_ok(pl_wire_connect_as(j->hub.address, &second.key, &second.socket));
    assert_ok(say_hello(&second, 2, NULL));
    assert_ok(ask_for_work(&second));
    assert_int_equal(ask_for_work(&j->holder), PL_ERR_STALE);
    assert_fails(say_hello(&j->holder, 1, NULL), PL_ERR_NOPERM,
                 "another process with the same key");
    assert_ok(ask_for_work(&second));
}

/* A worker whose connection broke comes back with a new routing id. */
PL_TEST_WITH(process_that_connects_again_goes_on, setup_short, teardown)
{
    job *j = *state;
    OWNED(end_party) party second = j->holder;
    assert_ok(say_hello(&j->holder, 2, NULL)); /* it was started again */
    assert_ok(pl_wire_connect_as(j->hub.address, &second.key, &second.socket));
    assert_int_equal(ask_for_work(&second), PL_ERR_STALE);
    assert_ok(say_hello(&second, 2, NULL));
    assert_ok(ask_for_work(&second));
}

/* ---- releases ---- */
FIXTURE_TEST(release_of_another_series_is_refused)
{
    char same[64];
    snprintf(same, sizeof same, "%s7", PL_VERSION);
    assert_ok(say_hello(&j->thief, 1, same));
    assert_ok(say_hello(&j->thief, 1, PL_VERSION));
    static const char *const others[] = {"99.1.0", "0.99.0", "0", "", "x.y.z"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_fails(say_hello(&j->thief, 1, others[i]), PL_ERR_UNSUPPORTED,
                     PL_VERSION);
    }
}

/* ---- workers that are removed ---- */
static pl_status drain(const party *p, const char *name)
{
    pl_message m = {0};
    PL_SAY(&m, DRAIN, drain, .name = name);
    return ask_status(p, &m);
}

static void join_admin(const job *j, party *admin)
{
    char list[PL_PATH_MAX];
    pl_key_entry e = {.role = PL_AS_ADMIN, .name = "admin"};
    *admin = (party){.name = "admin"};
    pl_keypair_create(&admin->key);
    e.key = admin->key.open;
    assert_ok(pl_key_list_edit(beside(j->hub.ready, "keys", list), put_entry, &e));
    assert_ok(pl_wire_connect_as(j->hub.address, &admin->key, &admin->socket));
}

FIXTURE_TEST(drained_worker_ends_after_its_task)
{
    OWNED(end_party) party admin;
    join_admin(j, &admin);
    assert_int_equal(drain(&j->thief, "holder"), PL_ERR_NOPERM);
    assert_int_equal(drain(&admin, "nobody"), PL_ERR_NOT_FOUND);
    assert_ok(drain(&admin, "holder"));
    assert_ok(ask_for_work(&j->holder)); /* NO_WORK: it has a task */
    assert_ok(give_back(&j->holder, j->token, j->task, PL_OK));
    assert_fails(ask_for_work(&j->holder), PL_ERR_CANCELLED, "drain");
    assert_ok(say_hello(&j->holder, 2, NULL)); /* it joins again */
    assert_int_equal(get_task(&j->holder, &j->token, j->task), 0);
}

FIXTURE_TEST(workers_of_the_launcher_are_not_drained)
{
    OWNED(end_party) party admin, mine;
    join_admin(j, &admin);
    join_own(j, &mine, "worker-1");
    assert_int_equal(drain(&admin, "worker-1"), PL_ERR_USAGE);
}

PL_CHILD(argc, argv)
{
    if (strcmp(argv[1], "hub") == 0)
        return run_hub(argv);
    return run_child(argv, (pl_home_options){0});
}
