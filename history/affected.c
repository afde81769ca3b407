/* Finds which phases and versions change if some documents are left out (affected.h).
 * The rules (spread_change, choose_state) only lower the phases in `changes`. They are
 * repeated until none of them lowers a phase. */
#include "history/affected.h"

typedef struct search {
    const pl_arm *arm;
    const pl_topology *topology;
    const pl_contract *contracts;
    pl_kept_fn kept;
    void *context;
    pl_affected *out;
    int n_tasks, n_replicas;
    bool lowered;
} search;

static bool has(const search *s, pl_kept what, int index, int64_t number)
{
    return number == 0 || s->kept(s->context, what, index, number);
}

static void lower(search *s, int task, int64_t phase)
{
    if (s->out->changes[task] <= phase)
        return;
    s->out->changes[task] = phase;
    s->lowered = true;
}

static int64_t first_change(const search *s, int module)
{
    int64_t first = s->arm->inner.phases;
    for (int i = 0; i < s->n_tasks; i++)
        if (pl_topology_path_has(s->topology, i / s->n_replicas, module) &&
            s->out->changes[i] < first)
            first = s->out->changes[i];
    return first;
}

/* Finds the version to which a module must go back: the newest one before the change
 * from which the home can continue. Lowers `changes` of all its contributors to the
 * phase from which they must train again. */
static void spread_change(search *s, int module)
{
    int64_t first = first_change(s, module);
    if (first >= s->arm->inner.phases)
        return;
    while (first > 0 && !(has(s, PL_KEPT_VERSION, module, first) &&
                          has(s, PL_KEPT_STEP, module, first)))
        first--;
    const bool keeps_round = has(s, PL_KEPT_UPDATES, module, first + 1);
    for (int i = 0; i < s->n_tasks; i++)
        if (pl_topology_path_has(s->topology, i / s->n_replicas, module))
            lower(s, i, s->out->changes[i] > first && keeps_round ? first + 1 : first);
}

/* Chooses the state from which a task begins again. If the store lacks a version with
 * which a repeated phase begins, the task and its modules go back further. */
static void choose_state(search *s, int task)
{
    const pl_topology *t = s->topology;
    int64_t begin = s->out->changes[task];
    if (begin < s->arm->inner.phases)
        while (begin > 0 && !has(s, PL_KEPT_STATE, task, begin))
            begin--;
    s->out->begins[task] = begin;
    for (int64_t phase = begin;
         phase <= s->out->changes[task] && phase < s->arm->inner.phases; phase++)
        for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
            int module = pl_topology_module_of_path(t, slot, task / s->n_replicas);
            uint64_t needs = pl_round_needs(&s->contracts[module], phase);
            if (!has(s, PL_KEPT_VERSION, module, (int64_t)needs))
                lower(s, task, phase > begin ? begin : begin - 1);
        }
}

void pl_affected_find(const pl_arm *arm, const pl_topology *topology,
                      const int64_t *draws, pl_kept_fn kept, void *context,
                      pl_affected *out)
{
    const int n_modules = pl_topology_n_modules(topology);
    pl_contract *contracts = pl_contracts_create(arm, topology);
    search s = {.arm = arm,
                .topology = topology,
                .contracts = contracts,
                .kept = kept,
                .context = context,
                .out = out,
                .n_replicas = pl_topology_n_replicas(topology)};
    s.n_tasks = pl_topology_n_paths(topology) * s.n_replicas;
    out->changes = pl_alloc((size_t)s.n_tasks * sizeof *out->changes);
    out->begins = pl_alloc((size_t)s.n_tasks * sizeof *out->begins);
    out->stays = pl_alloc((size_t)n_modules * sizeof *out->stays);
    /* whether the arm must begin from its first phase if any task is affected */
    const bool anew = pl_arm_scores(arm) || !pl_versions_suffice(&arm->outer);
    bool any = false;
    for (int i = 0; i < s.n_tasks; i++) {
        out->changes[i] = draws[i];
        any = any || draws[i] < arm->inner.phases;
    }
    for (int i = 0; any && anew && i < s.n_tasks; i++)
        out->changes[i] = 0;
    do {
        s.lowered = false;
        for (int m = 0; m < n_modules; m++)
            if (contracts[m].period > 0 && !anew)
                spread_change(&s, m);
        for (int i = 0; i < s.n_tasks; i++)
            choose_state(&s, i);
    } while (s.lowered);
    for (int m = 0; m < n_modules; m++) {
        const int64_t count = (int64_t)contracts[m].n_rounds;
        out->stays[m] = first_change(&s, m) < arm->inner.phases && count > 0
                            ? (anew ? 0 : first_change(&s, m))
                            : count;
    }
    pl_free(contracts);
}

void pl_affected_clear(pl_affected *affected)
{
    pl_free_all(affected->changes, affected->begins, affected->stays);
    *affected = (pl_affected){0};
}
