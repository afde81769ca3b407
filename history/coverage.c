/* Counts in a store's versions and pending contributions how often each phase of each
 * path contributed to each of the path's modules (coverage.h). */
#include "history/coverage.h"

enum { GIVEN_UP = UINT16_MAX };

typedef struct scan {
    pl_store *store;
    const pl_arm *arm;
    const pl_topology *topology;
    pl_coverage *paths;
    pl_contract of; /* contract of the module that is scanned */
    uint64_t head;  /* the module's newest version */
    /* [holders, phases] number of contributions to the module, or GIVEN_UP */
    uint16_t *counts;
} scan;

static void note_example(pl_coverage *c, int64_t *counter, const char *module,
                         int64_t phase, const char *what)
{
    ++*counter;
    if (!c->example[0])
        snprintf(c->example, sizeof c->example, "phase %lld of %s %s %s",
                 (long long)phase, c->path, what, module);
}

static pl_status count_contribution(scan *s, const pl_contribution *c, bool is_merged)
{
    int replicas = pl_topology_n_replicas(s->topology);
    uint64_t size = pl_phase_samples(s->arm);
    if (c->path < 0 || c->path >= pl_topology_n_paths(s->topology) || c->replica < 0 ||
        c->replica >= replicas)
        return pl_fail(PL_ERR_DAMAGED,
                       "%s has a contribution of path %lld, replica %lld, which its "
                       "arm does not have",
                       s->of.name, (long long)c->path, (long long)c->replica);
    int64_t who = c->path * replicas + c->replica;
    int64_t phase = (int64_t)(c->work.first_sample / size);
    pl_coverage *of = &s->paths[who];
    const int64_t round = pl_round_of(&s->of, phase);
    bool belongs = phase < s->arm->inner.phases &&
                   pl_topology_path_has(s->topology, (int)c->path, s->of.module) &&
                   round >= 0 && (s->of.by_arrival || round == c->phase);
    if (!belongs || c->work.first_sample % size != 0 || c->work.n_samples > size) {
        note_example(of, &of->n_wrong, s->of.name, phase, "has wrong samples in");
        return PL_OK;
    }
    if (is_merged && phase > of->phases)
        note_example(
            of, &of->n_ahead, s->of.name, phase,
            "was not begun according to the path's record, but is merged into");
    const int64_t holder =
        (int64_t)pl_topology_path_place(s->topology, s->of.module, (int)c->path) *
            replicas +
        c->replica;
    uint16_t *n = &s->counts[holder * s->arm->inner.phases + phase];
    if (*n < GIVEN_UP - 1)
        ++*n;
    if (s->of.module == pl_topology_module_of_path(s->topology, 0, (int)c->path))
        of->skipped += size - c->work.n_samples;
    return PL_OK;
}

static pl_status tally_version(void *context, const pl_version *v)
{
    scan *s = context;
    const int64_t phases = s->arm->inner.phases;
    s->head = v->number;
    /* A rollback made this version in place of a round, so it has no contributions. The
     * phases of the replaced round are not checked. */
    const bool given_up = v->number > 0 && v->n_contributions == 0;
    for (int who = 0; given_up && who < s->of.n_holders; who++)
        for (int64_t t = 0; t < phases; t++)
            if (pl_round_of(&s->of, t) == (int64_t)v->number - 1)
                s->counts[who * phases + t] = GIVEN_UP;
    for (int i = 0; i < v->n_contributions; i++)
        PL_CHECK(count_contribution(context, &v->contributions[i], true));
    return PL_OK;
}

/* The context of look_at_drop: an update, and whether an audit dropped it. */
typedef struct drop_search {
    int64_t phase;
    uint64_t token;
    bool found;
} drop_search;

static pl_status look_at_drop(void *context, const char *name, const char *target)
{
    drop_search *search = context;
    pl_dropped dropped;
    (void)target;
    PL_CHECK(pl_dropped_read(name, &dropped));
    search->found = search->found ||
                    (search->phase >= dropped.phase && search->token <= dropped.token);
    return PL_OK;
}

/* A home that was restored from an older copy may have an update that an audit has
 * dropped since. It does not count. */
static pl_status tally_pending(void *context, const char *module,
                               const pl_contribution *c)
{
    scan *s = context;
    char path[PL_MODULE_NAME_MAX], refs[2 * PL_MODULE_NAME_MAX];
    drop_search search = {
        .phase = (int64_t)(c->work.first_sample / pl_phase_samples(s->arm)),
        .token = c->token};
    if (strcmp(module, s->of.name) != 0)
        return PL_OK;
    pl_arm_path_name(s->arm, s->topology, (int)c->path, (int)c->replica, path);
    snprintf(refs, sizeof refs, PL_DROPPED_REFS "%s/", path);
    PL_CHECK(pl_store_each_ref(s->store, refs, look_at_drop, &search));
    return search.found ? PL_OK : count_contribution(s, c, false);
}

pl_status pl_coverage_of(pl_store *store, const pl_arm *arm,
                         const pl_topology *topology, pl_coverage *paths)
{
    const int replicas = pl_topology_n_replicas(topology);
    const int n = pl_topology_n_paths(topology) * replicas;
    const uint64_t size = pl_phase_samples(arm);
    size_t n_counts = (size_t)n * (size_t)arm->inner.phases;
    pl_status status = PL_OK;
    scan s = {.store = store, .arm = arm, .topology = topology, .paths = paths};
    PL_TRY(pl_try_alloc(n_counts * sizeof *s.counts, "counts of contributions",
                        (void **)&s.counts));
    for (int i = 0; i < n; i++) {
        pl_coverage *c = &paths[i];
        pl_path_state state;
        memset(c, 0, sizeof *c);
        pl_arm_path_name(arm, topology, i / replicas, i % replicas, c->path);
        status = pl_store_get_path(store, c->path, &state);
        if (status == PL_ERR_NOT_FOUND) /* the path has not finished a phase */
            continue;
        PL_TRY(status);
        const double targets = arm->weights[i / replicas];
        const uint64_t end = (uint64_t)state.phase * size;
        c->phases = state.phase;
        c->samples = state.work.n_samples;
        c->n_tokens = state.work.n_tokens;
        c->passes = targets > 0 ? (double)state.work.n_tokens / targets : 0;
        if (state.work.n_samples > end || state.work.n_samples + size <= end)
            note_example(c, &c->n_wrong, "its stream", state.phase,
                         "ends at a wrong sample of");
    }
    status = PL_OK;
    for (int m = 0; m < pl_topology_n_modules(topology); m++) {
        s.of = pl_contract_of(arm, topology, m);
        const int64_t phases = arm->inner.phases, n_used = s.of.n_holders * phases;
        s.head = 0;
        memset(s.counts, 0, (size_t)n_used * sizeof *s.counts);
        PL_TRY(pl_store_each_version(store, s.of.name, tally_version, &s));
        PL_TRY(pl_store_each_pending(store, s.of.name, tally_pending, &s));
        for (int64_t i = 0; i < n_used; i++) {
            const int who = (int)(i / phases);
            const int64_t phase = i % phases, round = pl_round_of(&s.of, phase);
            const int path =
                pl_topology_module_path(topology, s.of.module, who / replicas);
            pl_coverage *c = &paths[path * replicas + who % replicas];
            const uint16_t count = s.counts[i];
            const bool is_done = phase < c->phases;
            if (round < 0)
                continue;
            if (count == GIVEN_UP) {
                c->n_given_up++;
                continue;
            }
            if (count == 0 && arm->outer.quorum > 0 && is_done &&
                round < (int64_t)s.head) {
                c->n_left_out++;
                continue;
            }
            c->n_checked += is_done;
            if (count == 0 && is_done && c->n_lost == 0)
                pl_copy_text(c->lost_in, sizeof c->lost_in, s.of.name);
            if (count == 0 && is_done)
                note_example(c, &c->n_lost, s.of.name, phase, "is missing in");
            if (count > 1)
                note_example(c, &c->n_repeated, s.of.name, phase,
                             "was merged more than once into");
        }
    }
done:
    pl_free(s.counts);
    return status;
}
