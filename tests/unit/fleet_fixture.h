/* folder: workers; shared by tests of the hub: a hub in memory. */
#pragma once
#include "workers/hub_internal.h"
#include "tests/support/tiny_arm.h"
#include "tests/support/suite.h"

enum { TTL = 60000, STEPS = 10 };

/* A hub with four workers. Workers a, b and c have devices of one kind; the worker
 * `other` has another kind. Every worker needs 1 s per task. */
typedef struct fixture {
    hub h;
    pl_hub_options options;
    hub_worker workers[4];
    plan_path *paths;
    plan_task first;
} fixture;

/* Tells the hub, as a home does, that the path has finished all phases before `phase`.
 * The report does not name the worker that finished them. */
static inline void finish(plan_path *path, int64_t phase, int64_t now_ms)
{
    const plan_news news = {.phase = phase, .by = -1};
    plan_hear(path, &news, now_ms);
}

static inline int setup(void **state)
{
    static const char *const names[] = {"a", "b", "c", "other"};
    pl_arm arm;
    pl_hash blob;
    fixture *f = pl_alloc(sizeof *f);
    memset(f, 0, sizeof *f);
    tiny_arm(&arm, 2, 2, 2, 3);
    arm.inner.tau = STEPS;
    pl_hash_of("blob", "x", 1, &blob);
    f->options = (pl_hub_options){.backup = PL_BACKUP_AUTO, .ttl_ms = TTL};
    f->h.options = &f->options;
    f->h.workers = f->workers;
    f->h.n_workers = 4;
    f->h.tasks.epoch = 1;
    if (plan_add_arm(&f->h.tasks, &arm, &blob) != PL_OK)
        return -1;
    for (int i = 0; i < 4; i++) {
        pl_copy_text(f->workers[i].name, sizeof f->workers[i].name, names[i]);
        f->workers[i].own_key = true;
        pl_copy_text(f->workers[i].device, sizeof f->workers[i].device,
                     i == 3 ? "cuda" : "cpu");
        hub_note_pace(&f->h, &f->workers[i], 0, 0.9, 1.0, 0);
    }
    f->paths = f->h.tasks.arms[0].paths;
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    plan_clear(&f->h.tasks);
    pl_free(f);
    return 0;
}

static inline plan_lease *begin(fixture *f, int worker)
{
    plan_grant(&f->h.tasks, f->first, worker, 0, TTL);
    return &f->paths[0].lease;
}

static inline bool finds(fixture *f, int worker, int64_t now_ms)
{
    plan_task task = {-1, -1};
    bool found = hub_find_backup(&f->h, worker, now_ms, &task);
    assert_true(!found || (task.arm == 0 && task.index == 0));
    return found;
}

/* Lets worker 0 deliver the first path's phase now, as its home tells the hub. */
static inline void deliver(fixture *f, int64_t now_ms)
{
    plan_path *path = &f->paths[0];
    const plan_news news = {.phase = path->phase + 1, .by = 0, .keeper = 0};
    plan_settled s;
    if (plan_settle(&f->h.tasks, path, &news, now_ms, &s))
        hub_note_settled(&f->h, f->first, &s, now_ms);
    plan_hear(path, &news, now_ms);
}

/* Makes worker i one that somebody else runs and that has delivered a task. */
static inline void join(fixture *f, int i)
{
    f->workers[i].own_key = false;
    f->workers[i].key.bytes[0] = (uint8_t)(i + 1);
    f->workers[i].n_results = 1;
    f->workers[i].delivered = true;
}

/* ---- a task with two leases ---- */
static inline plan_lease *back_up(fixture *f, int worker)
{
    plan_grant_backup(&f->h.tasks, f->first, worker, 9000, TTL);
    return &f->paths[0].backup;
}

/* Notes a worker's report that `phase` of the first path is done. Returns false if the
 * worker never had a lease of this phase with this token. */
static inline bool say(fixture *f, int64_t phase, uint64_t token, int worker,
                       int64_t now_ms)
{
    const plan_said said = {.phase = phase, .token = token, .worker = worker};
    return plan_say_done(&f->paths[0], &said, now_ms, TTL);
}
