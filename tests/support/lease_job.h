/* A job with a home, three workers with their own keys, and a hub that checks these
 * keys. The worker `holder` holds the lease of a task. Few test
 * programs use this job; relay_fixture.h has what several test programs share. */
#pragma once
#include "home/home.h"
#include "workers/workers.h"
#include "tests/support/key_edits.h"
#include "tests/support/relay_fixture.h"

enum { TTL = 60000, SHORT_TTL = 2000 }; /* how long a lease lasts, in ms */

/* Returns the path of the file `name` in the folder of the hub's ready file `ready`. */
static char *beside(const char *ready, const char *name, char out[PL_PATH_MAX])
{
    char folder[PL_PATH_MAX];
    pl_copy_text(folder, sizeof folder, ready);
    *strrchr(folder, '/') = '\0';
    pl_join(out, folder, name);
    return out;
}

static int run_hub(char **argv)
{
    char key[PL_PATH_MAX], list[PL_PATH_MAX];
    const char *home = argv[2];
    signal(SIGTERM, on_term);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pl_log_open("hub", PL_LOG_ERROR, false);
    pl_hub_options o = {.bind = argv[3],
                        .homes = &home,
                        .n_homes = 1,
                        .ttl_ms = argv[5][0] ? atoi(argv[5]) : TTL,
                        .backup = PL_BACKUP_AUTO,
                        .ready_file = argv[4],
                        .keys = beside(argv[4], "keys", list),
                        .stop = &child_stop};
    pl_status status = pl_admission_open(beside(argv[4], "hub.key", key), list);
    if (status == PL_OK)
        status = pl_hub_run(&o);
    if (status != PL_OK)
        fprintf(stderr, "hub: %s\n", pl_last_error());
    pl_wire_shutdown();
    return pl_status_exit_code(status);
}

typedef struct party {
    const char *name;
    pl_keypair key;
    pl_socket *socket;
} party;

static inline void end_party(party *p)
{
    pl_wire_close(&p->socket);
}

typedef struct job {
    fixture f;
    child hub;
    party holder, thief, third;
    uint64_t token; /* token of the holder's lease */
    char task[PL_MODULE_NAME_MAX];
} job;

static void allow(job *j, const party *p)
{
    char list[PL_PATH_MAX];
    pl_key_entry e = {.key = p->key.open, .role = PL_AS_WORKER};
    pl_copy_text(e.name, sizeof e.name, p->name);
    assert_ok(pl_key_list_edit(beside(j->hub.ready, "keys", list), put_entry, &e));
}

/* the sealed lease of the last task that a worker got */
static uint8_t last_lease[PL_LEASE_MAX];
static size_t lease_bytes;

/* Sends `m` and destroys it; returns the type of the answer. */
static uint16_t ask(const party *p, pl_message *m, pl_message *answer)
{
    m->request = m->request ? m->request : pl_wire_next_request();
    pl_message_init(answer, 0);
    pl_status status = pl_wire_ask(p->socket, m, 1000, 20000, answer);
    pl_message_destroy(m);
    return status == PL_OK ? answer->type : PL_MSG_ERR;
}

static uint16_t ask_plainly(const party *p, pl_message *m)
{
    pl_message a;
    uint16_t type = ask(p, m, &a);
    pl_message_destroy(&a);
    return type;
}

static void join(const job *j, party *p)
{
    pl_message m;
    assert_ok(pl_wire_connect_as(j->hub.address, &p->key, &p->socket));
    pl_message_init(&m, PL_MSG_HELLO);
    pl_put_text(&m.body, PL_TAG_NAME, p->name);
    pl_put_text(&m.body, PL_TAG_ROLE, "worker");
    pl_put_text(&m.body, PL_TAG_DEVICE, "a device");
    pl_put_u64(&m.body, PL_TAG_PID, 1);
    assert_int_equal(ask_plainly(p, &m), PL_MSG_WELCOME);
}

/* Makes the worker `mine` with the name `name`, and joins as this worker. The name of
 * its key in the list begins with PL_KEY_OWN, so the hub takes it for one of the job's
 * own processes. */
static void join_own(job *j, party *mine, const char *name)
{
    char own[PL_KEY_NAME_MAX];
    snprintf(own, sizeof own, PL_KEY_OWN "%s", name);
    *mine = (party){.name = own};
    pl_keypair_create(&mine->key);
    allow(j, mine);
    mine->name = name;
    join(j, mine);
}

/* Asks for a task. Returns the phase of the task, or -1 if the hub gives no task. */
static int64_t try_task(const party *p, uint64_t *token, char task[PL_MODULE_NAME_MAX])
{
    pl_message m, a;
    pl_reader r;
    int64_t phase = -1;
    pl_message_init(&m, PL_MSG_TASK_REQ);
    pl_put_text(&m.body, PL_TAG_NAME, p->name);
    if (ask(p, &m, &a) == PL_MSG_TASK) {
        pl_reader_open(&r, "TASK", a.body.data, a.body.len);
        phase = (int64_t)pl_get_u64(&r, PL_TAG_PHASE, 0);
        pl_get_text(&r, PL_TAG_TASK, 0, task, PL_MODULE_NAME_MAX);
        *token = a.token;
        const uint8_t *lease = pl_get_bytes(&r, PL_TAG_LEASE, 0, &lease_bytes);
        assert_in_range(lease_bytes, 1, sizeof last_lease);
        memcpy(last_lease, lease, lease_bytes);
    }
    pl_message_destroy(&a);
    return phase;
}

/* Asks for a task up to 20 times, because the hub has no task until it knows the home's
 * state. */
static int64_t get_task(const party *p, uint64_t *token, char task[PL_MODULE_NAME_MAX])
{
    int64_t phase = -1;
    for (int i = 0; i < 20 && phase < 0; i++)
        phase = try_task(p, token, task);
    return phase;
}

static int begin_job(void **state, const char *ttl_ms)
{
    char path[PL_PATH_MAX];
    pl_keypair own;
    job *j = pl_alloc(sizeof *j);
    has_hub = true;
    j->holder.name = "holder";
    j->thief.name = "thief";
    open_job(&j->f, "f32");
    name_child(&j->hub, j->f.dir, "hub", "hub.address");
    pl_copy_text(j->hub.target, sizeof j->hub.target, j->f.home.address);
    pl_copy_text(j->hub.wait_ms, sizeof j->hub.wait_ms, ttl_ms);
    pl_keypair_create(&own);
    assert_ok(pl_keypair_save(beside(j->hub.ready, "hub.key", path), &own));
    j->third.name = "third";
    party *all[] = {&j->holder, &j->thief, &j->third};
    for (int i = 0; i < 3; i++) {
        pl_keypair_create(&all[i]->key);
        allow(j, all[i]);
    }
    start_child(&j->hub);
    join(j, &j->holder);
    join(j, &j->thief);
    join(j, &j->third);
    assert_int_equal(get_task(&j->holder, &j->token, j->task), 0);
    *state = j;
    return 0;
}

static int setup(void **state)
{
    return begin_job(state, "");
}

static int setup_short(void **state)
{
    char ttl[16];
    snprintf(ttl, sizeof ttl, "%d", SHORT_TTL);
    return begin_job(state, ttl);
}

static int teardown(void **state)
{
    job *j = *state;
    pl_wire_close(&j->holder.socket);
    pl_wire_close(&j->thief.socket);
    pl_wire_close(&j->third.socket);
    kill_child(&j->hub, SIGKILL);
    close_job(&j->f);
    pl_free(j);
    return 0;
}
