/* folder: workers; label: unit
 *
 * Simulates the hub's plan and the rules of a home. Workers act in random order, die at
 * random times and start again. Under every outer method, everything that a task needs
 * must exist when the task is given out, and the arm must end. */
#include "net/net.h"
#include "workers/plan.h"
#include "tests/support/tiny_arm.h"
#include "tests/support/suite.h"

enum {
    TTL = 400,
    PHASES = 6,
    TASKS_MAX = 8,
    WORKERS_MAX = 4,
    HELD_MAX = 3,
    ROUNDS_MAX = 64,
    MOVES_MAX = 400000
};

/* A task that is leased to a worker. */
typedef struct work {
    int index;
    int64_t phase;
    uint64_t token;
    bool merged;    /* for streaming: whether merged versions were mixed in */
    bool delivered; /* the home has the task's updates but not its state */
    int64_t waits_since;
} work;

typedef struct worker {
    bool trains, has_next;
    work training, next, sending[HELD_MAX];
    int n_sending;
} worker;

/* The data of the home about a module. */
typedef struct module {
    char name[96];
    int64_t version;
    /* Which updates have arrived, by round and task. */
    bool in[ROUNDS_MAX][TASKS_MAX];
    /* For delayed-nesterov: number of phases that were counted. */
    int64_t cursor[TASKS_MAX];
    /* The home's decision about a pair, by round and by the lower task of the pair. */
    pl_meeting decided[ROUNDS_MAX][TASKS_MAX];
    /* The decision that a task got when it began. */
    pl_meeting heard[ROUNDS_MAX][TASKS_MAX];
} module;

typedef struct game {
    plan p;
    plan_arm *arm;
    module *modules;
    int64_t phases[TASKS_MAX]; /* the number of phases that the home has */
    worker workers[WORKERS_MAX];
    int n_workers;
    int64_t now;
    uint64_t seed, draws;
    bool deadly;
    int n_deaths, n_repeated, n_split;
} game;

static int draw(game *g, int below)
{
    return (int)(pl_random_u32(g->seed, 1, g->draws++) % (uint32_t)below);
}

/* ---- the home ---- */
static bool counts_arrivals(const game *g, int m)
{
    return g->arm->contracts[m].by_arrival;
}

static void merge(game *g, int m)
{
    module *mod = &g->modules[m];
    int contributors = g->arm->contracts[m].n_contributors;
    for (;;) {
        int n = 0;
        assert_true(mod->version < ROUNDS_MAX);
        for (int i = 0; i < g->arm->n_tasks; i++)
            n += mod->in[mod->version][i];
        assert_true(n <= contributors);
        if (n < contributors)
            return;
        mod->version++;
    }
}

/* Submits the update of a task to module m, as a home accepts it. Checks that the
 * update counts once, that its round is less than `window` rounds ahead of the
 * newest version, and that its base version exists. */
static void submit(game *g, int m, const work *w)
{
    const pl_contract *of = &g->arm->contracts[m];
    module *mod = &g->modules[m];
    int64_t round = pl_round_of(of, w->phase);
    if (round < 0)
        return;
    if (counts_arrivals(g, m)) {
        if (w->phase < mod->cursor[w->index]) {
            g->n_repeated++;
            return;
        }
        assert_int_equal(mod->cursor[w->index], w->phase);
        mod->cursor[w->index]++;
        mod->version++;
        return;
    }
    if (round < mod->version || mod->in[round][w->index]) {
        g->n_repeated++;
        assert_true(mod->in[round][w->index]);
        return;
    }
    assert_true(round < mod->version + of->window);
    assert_true(
        pl_round_accepts(of, round, pl_round_base(of, round), (uint64_t)mod->version));
    mod->in[round][w->index] = true;
    merge(g, m);
}

static int module_at(const game *g, int slot, int index)
{
    int path = index / pl_topology_n_replicas(g->arm->topology);
    return pl_topology_module_of_path(g->arm->topology, slot, path);
}

static void deliver_updates(game *g, work *w)
{
    for (int slot = 0; slot < pl_topology_n_slots(g->arm->topology); slot++)
        submit(g, module_at(g, slot, w->index), w);
    w->delivered = true;
}

/* Tells the hub which versions and phases the home has, but not which worker did a
 * task. move() calls it at random times. */
static void tell_hub(game *g)
{
    for (int m = 0; m < pl_topology_n_modules(g->arm->topology); m++)
        plan_set_version(&g->p, g->modules[m].name, (uint64_t)g->modules[m].version, 0);
    for (int i = 0; i < g->arm->n_tasks; i++) {
        const plan_news news = {.phase = g->phases[i], .by = -1};
        plan_hear(&g->arm->paths[i], &news, g->now);
    }
}

/* ---- the data that a task needs ---- */
static bool is_sent_by_somebody(const game *g, int index, int64_t phase)
{
    for (int w = 0; w < g->n_workers; w++)
        for (int i = 0; i < g->workers[w].n_sending; i++)
            if (g->workers[w].sending[i].index == index &&
                g->workers[w].sending[i].phase == phase)
                return true;
    return false;
}

/* Returns whether the mate's update of the previous round is in the home or on its way
 * there. The home keeps the updates of the two newest versions. */
static bool mate_is_there(const game *g, int m, int index, int64_t phase)
{
    const plan_arm *a = g->arm;
    int mate = index;
    assert_ok(pl_round_mate(&a->contracts[m], index, phase - 1, &mate));
    if (mate == index)
        return true;
    if (!g->modules[m].in[phase - 1][mate])
        return is_sent_by_somebody(g, mate, phase - 1);
    assert_true(g->modules[m].version <= phase + 1);
    return true;
}

/* Decides as a home does. An earlier decision stays. If both updates are there, the
 * pair meets. Otherwise the first wish counts. No worker asks about rounds that ended
 * long ago. */
static pl_meeting decide(game *g, int m, int64_t round, int index, int mate,
                         pl_meeting wish)
{
    module *mod = &g->modules[m];
    pl_meeting *row = &mod->decided[round][index < mate ? index : mate];
    assert_true(round + 3 > mod->version);
    if (*row == PL_MEETING_OPEN && mod->in[round][index] && mod->in[round][mate])
        return PL_MEETING_MET;
    if (*row == PL_MEETING_OPEN) {
        *row = wish;
        g->n_split += wish == PL_MEETING_SPLIT;
    }
    return *row;
}

/* Notes the decision that a task got. If the task is repeated, it must get the same
 * decision. */
static void note_heard(game *g, int m, int64_t round, int index, pl_meeting said)
{
    pl_meeting *before = &g->modules[m].heard[round][index];
    assert_true(*before == PL_MEETING_OPEN || *before == said);
    *before = said;
}

/* Meets the mate as a worker does if the arm has a deadline. Returns false if the
 * worker must wait: the mate's update is not there, and the pair is not split. */
static bool meet_in_time(game *g, int m, const work *w)
{
    const plan_arm *a = g->arm;
    int64_t round = w->phase - 1;
    int mate = w->index;
    assert_ok(pl_round_mate(&a->contracts[m], w->index, round, &mate));
    if (mate == w->index)
        return true;
    pl_meeting said = decide(g, m, round, w->index, mate, PL_MEETING_OPEN);
    if (said == PL_MEETING_SPLIT) {
        note_heard(g, m, round, w->index, said);
        return true;
    }
    bool there = mate_is_there(g, m, w->index, w->phase);
    if (said == PL_MEETING_OPEN &&
        (there || plan_is_late(a, w->index, w->phase, g->now)))
        said = decide(g, m, round, w->index, mate,
                      there ? PL_MEETING_MET : PL_MEETING_SPLIT);
    if (said == PL_MEETING_OPEN || (said == PL_MEETING_MET && !there))
        return false;
    note_heard(g, m, round, w->index, said);
    return true;
}

static bool meets(game *g, int m, const work *w)
{
    if (g->arm->arm.outer.deadline_ms > 0)
        return meet_in_time(g, m, w);
    return mate_is_there(g, m, w->index, w->phase);
}

/* Checks that the versions that a task needs exist. Returns false if the worker must
 * ask again, because the update of a mate is missing. The mate may have died after it
 * had offered the update. */
static bool fetch(game *g, const work *w, bool ahead)
{
    const pl_arm *arm = &g->arm->arm;
    const pl_topology *t = g->arm->topology;
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        int m = module_at(g, slot, w->index);
        int64_t version = g->modules[m].version,
                round = pl_round_of(&g->arm->contracts[m], w->phase);
        pl_method method = pl_arm_method(arm, t, m).method;
        if (method == PL_METHOD_NOLOCO && w->phase > 0 && !meets(g, m, w))
            return false;
        if (counts_arrivals(g, m) || round < 0 ||
            (ahead && g->arm->contracts[m].predicts))
            continue;
        int64_t base = (int64_t)pl_round_base(&g->arm->contracts[m], round);
        if (base == (int64_t)pl_round_takes(&g->arm->contracts[m], w->phase))
            continue; /* this version comes while the task trains, or is version 0 */
        assert_true(base <= version);
    }
    return true;
}

static bool merged_is_there(const game *g, const work *w)
{
    for (int slot = 0; slot < pl_topology_n_slots(g->arm->topology); slot++) {
        int m = module_at(g, slot, w->index);
        if (g->modules[m].version <
            (int64_t)pl_round_takes(&g->arm->contracts[m], w->phase))
            return false;
    }
    return true;
}

/* ---- workers ---- */
static void drop_lost(game *g, int number)
{
    worker *w = &g->workers[number];
    if (w->has_next && w->trains && w->next.token == w->training.token)
        w->has_next = false;
    w->trains = false;
}

static plan_path *path_of(game *g, const work *w)
{
    return &g->arm->paths[w->index];
}

static bool renew(game *g, int number, const work *w)
{
    plan_path *path = path_of(g, w);
    return w->phase < path->phase ||
           plan_renew(&g->p, path, w->phase, w->token, number, g->now, TTL);
}

static void keep_leases(game *g, int number)
{
    worker *w = &g->workers[number];
    for (int i = 0; i < w->n_sending; i++)
        /* Leases of tasks that are being sent are renewed, too. */
        (void)renew(g, number, &w->sending[i]);
    if (w->trains && (w->training.phase < path_of(g, &w->training)->phase ||
                      !renew(g, number, &w->training)))
        drop_lost(g, number);
    if (w->has_next && !renew(g, number, &w->next))
        w->has_next = false;
}

/* Answers as a hub does: with a task that is ready, or with the next phase of the task
 * that the worker trains. */
static bool ask(game *g, int number, work *out, bool *ahead)
{
    worker *w = &g->workers[number];
    plan_task task, held = {0, w->training.index};
    bool found = plan_choose(&g->p, number, g->now, &task);
    bool goes_on = w->trains && plan_continues(&g->p, held, w->training.phase,
                                               w->training.token, number, g->now);
    *ahead = goes_on && !(found && plan_is_better(&g->p, task, held, number));
    if (*ahead) {
        plan_extend(&g->p, held, g->now, TTL);
        *out = (work){.index = held.index,
                      .phase = w->training.phase + 1,
                      .token = w->training.token};
        return true;
    }
    if (!found)
        return false;
    plan_grant(&g->p, task, number, g->now, TTL);
    plan_path *path = &g->arm->paths[task.index];
    *out =
        (work){.index = task.index, .phase = path->phase, .token = path->lease.token};
    return true;
}

static void seek_task(game *g, int number)
{
    worker *w = &g->workers[number];
    work got;
    bool ahead = false;
    int held = w->n_sending + w->trains + w->has_next;
    if (w->has_next || held >= HELD_MAX || (w->trains && !w->training.merged))
        return;
    if (!ask(g, number, &got, &ahead))
        return;
    if (!ahead && got.phase != g->phases[got.index])
        return;
    if (!fetch(g, &got, ahead)) {
        if (!ahead)
            plan_release(&g->p, path_of(g, &got), got.token, number, false);
        return;
    }
    w->next = got;
    w->has_next = true;
}

static void give_back(game *g, int number)
{
    plan_release(&g->p, path_of(g, &g->workers[number].training),
                 g->workers[number].training.token, number, false);
    drop_lost(g, number);
}

static void train(game *g, int number)
{
    worker *w = &g->workers[number];
    if (!w->trains) {
        w->trains = w->has_next;
        w->training = w->next;
        w->training.waits_since = g->now;
        w->has_next = false;
        return;
    }
    if (!w->training.merged) {
        w->training.merged = merged_is_there(g, &w->training);
        if (!w->training.merged && g->now - w->training.waits_since > 3 * TTL)
            give_back(g, number);
        return;
    }
    if (w->n_sending == HELD_MAX)
        return;
    w->sending[w->n_sending++] = w->training;
    plan_offer(path_of(g, &w->training), w->training.phase, w->training.token, number);
    w->trains = false;
}

/* Sends the updates of a task, and in a later call its state. The worker may die
 * between the two calls. */
static void send(game *g, int number)
{
    worker *w = &g->workers[number];
    work *first = &w->sending[0];
    if (w->n_sending == 0)
        return;
    if (g->phases[first->index] > first->phase) /* another worker was faster */
        first->delivered = true;
    if (!first->delivered) {
        deliver_updates(g, first);
        return;
    }
    if (g->phases[first->index] == first->phase)
        g->phases[first->index]++;
    w->n_sending--;
    memmove(w->sending, w->sending + 1, (size_t)w->n_sending * sizeof *w->sending);
}

static void die(game *g, int number)
{
    memset(&g->workers[number], 0, sizeof g->workers[number]);
    /* A worker that returns gives its leases back. Otherwise they expire. */
    if (draw(g, 2))
        plan_release_worker(&g->p, number);
    plan_withdraw(&g->p, number);
    g->n_deaths++;
}

static void move(game *g)
{
    int number = draw(g, g->n_workers);
    g->now++;
    plan_expire(&g->p, g->now, NULL, NULL);
    for (int w = 0; w < g->n_workers; w++)
        if (g->now % 50 == w)
            keep_leases(g, w);
    switch (draw(g, 5)) {
    case 0:
        tell_hub(g);
        break;
    case 1:
        seek_task(g, number);
        break;
    case 2:
        train(g, number);
        break;
    case 3:
        send(g, number);
        break;
    default:
        if (g->deadly && draw(g, 30) == 0)
            die(g, number);
    }
}

/* ---- games ---- */
static void define_arm(pl_arm *arm, pl_method method, int a, int b, int replicas)
{
    tiny_arm(arm, 4, a, b, PHASES);
    arm->spec.replicas = replicas;
    arm->spec.private_block[1] = true;
    arm->outer.method = pl_method_defaults(method);
    arm->outer.staleness = 1;
}

/* Checks that both mates of a pair began with the same decision. */
static void assert_pairs_agree(const game *g)
{
    const plan_arm *a = g->arm;
    for (int m = 0; m < pl_topology_n_modules(a->topology); m++)
        for (int64_t round = 0; round + 1 < a->arm.inner.phases; round++)
            for (int i = 0; i < a->n_tasks; i++) {
                int mate = i, path = i / pl_topology_n_replicas(a->topology);
                if (!pl_topology_path_has(a->topology, path, m))
                    continue;
                assert_ok(pl_round_mate(&a->contracts[m], i, round, &mate));
                assert_int_equal(g->modules[m].heard[round][i],
                                 g->modules[m].heard[round][mate]);
            }
}

/* Plays until the arm ends. Returns the number of updates that were sent again, and
 * adds the number of split pairs to *n_split. */
static int play(pl_arm *arm, int n_workers, bool deadly, uint64_t seed, int *n_split)
{
    pl_hash blob;
    game g = {.n_workers = n_workers, .deadly = deadly, .seed = seed};
    int moves = 0;
    g.p.epoch = 1;
    pl_hash_of("blob", arm->name, 3, &blob);
    assert_ok(plan_add_arm(&g.p, arm, &blob));
    g.arm = g.p.arms;
    int n_modules = pl_topology_n_modules(g.arm->topology);
    g.modules = pl_alloc((size_t)n_modules * sizeof *g.modules);
    for (int m = 0; m < n_modules; m++)
        pl_arm_module_name(&g.arm->arm, g.arm->topology, m, g.modules[m].name);
    tell_hub(&g);
    while (!plan_arm_finished(g.arm) && moves++ < MOVES_MAX)
        move(&g);
    if (!plan_arm_finished(g.arm))
        fail_msg("%s with %d workers, seed %llu: the arm does not end",
                 pl_method_name(g.arm->arm.outer.method.method), n_workers,
                 (unsigned long long)seed);
    for (int m = 0; m < n_modules; m++)
        assert_int_equal(g.modules[m].version, g.arm->contracts[m].n_rounds);
    assert_true(deadly || g.n_repeated == 0);
    assert_pairs_agree(&g);
    *n_split += g.n_split;
    plan_clear(&g.p);
    pl_free(g.modules);
    return g.n_repeated;
}

/* Plays grids with private blocks, groups of an odd size, replicas, and a single
 * path. */
static void play_timed(pl_method method, int fragments, int overlap, int delay,
                       int deadline_ms)
{
    static const int grids[][3] = {
        {2, 2, 1}, {3, 1, 1}, {1, 1, 3}, {2, 1, 2}, {1, 1, 1}};
    int n_repeated = 0, n_split = 0;
    for (size_t grid = 0; grid < sizeof grids / sizeof *grids; grid++)
        for (int n_workers = 1; n_workers <= WORKERS_MAX; n_workers++)
            for (uint64_t seed = 0; seed < 24; seed++) {
                pl_arm arm;
                define_arm(&arm, method, grids[grid][0], grids[grid][1],
                           grids[grid][2]);
                arm.outer.method.fragments = fragments;
                arm.outer.method.overlap = overlap;
                arm.outer.method.delay = delay;
                arm.outer.deadline_ms = deadline_ms;
                n_repeated += play(&arm, n_workers, seed % 2 == 1, seed, &n_split);
            }
    assert_true(n_repeated > 0);
    if ((n_split > 0) != (deadline_ms > 0))
        fail_msg("%d pairs were split with deadline_ms=%d", n_split, deadline_ms);
}

static void play_all(pl_method method, int fragments, int overlap, int delay)
{
    play_timed(method, fragments, overlap, delay, 0);
}

PL_TEST(diloco_ends)
{
    play_all(PL_METHOD_DILOCO, 1, 0, 0);
    play_all(PL_METHOD_FEDAVG, 1, 0, 0);
    play_all(PL_METHOD_HEAVY_BALL, 1, 0, 0);
    play_all(PL_METHOD_ISO, 1, 0, 0);
}

PL_TEST(co2_ends)
{
    for (int delay = 0; delay <= 3; delay++)
        play_all(PL_METHOD_CO2, 1, 0, delay);
}

PL_TEST(noloco_ends)
{
    play_all(PL_METHOD_NOLOCO, 1, 0, 0);
}

PL_TEST(noloco_with_a_deadline_ends_and_pairs_agree)
{
    static const int deadlines[] = {1, 30, 120, TTL / 2};
    for (size_t i = 0; i < sizeof deadlines / sizeof *deadlines; i++)
        play_timed(PL_METHOD_NOLOCO, 1, 0, 0, deadlines[i]);
}

PL_TEST(streaming_ends)
{
    for (int fragments = 1; fragments <= 3; fragments++)
        for (int overlap = 0; overlap < 2; overlap++)
            play_all(PL_METHOD_STREAMING, fragments, overlap, 0);
}

PL_TEST(delayed_nesterov_ends)
{
    play_all(PL_METHOD_DELAYED_NESTEROV, 1, 0, 1);
}
