/* pathloom store rollback: an older version becomes the newest again.
 *
 * Purpose. Somebody finds that training went wrong after some version and wants to go
 * on from an older one. Nothing is rewritten: new versions are appended whose
 * parameters are the old ones, so history, blame and the chain of commits stay as they
 * were. This file computes what has to be written and says what was done;
 * store/rollback.c writes it, in all homes or in none.
 *
 * Which modules. The word names a module or a whole arm; --to names a version or a tag.
 * Every other module of the arm keeps its newest parameters.
 *
 * Which versions and phases. Rounds are counted by versions and phases by paths, so in
 * an arm that still trains all modules and paths must be at one common phase that
 * nobody has begun. Example: L1.E0 goes back to version 3 while the arm is in phase 6
 * or 7:
 *
 *                  before            after "rollback L1.E0 --to 3"
 *   L1.E0          ... 3 .. 7        versions 8: parameters of version 3
 *   other modules  ... 6 or 7        versions up to 8: their newest parameters
 *   paths          phase 6 or 7      phase 8; training goes on there
 *
 *   arm is finished, or unknown      only the named modules get one new version;
 *                                    the paths stay as they are
 *
 * The common phase is one more than the highest version and the highest phase, and more
 * by the delay under co2, whose updates are relative to older versions. The rollback is
 * refused if the arm has no such phase left, or if its method lets paths carry
 * parameters of their own (pl_method_averages).
 *
 * State of a call:
 *
 *   open_homes --> was_resumed? --yes--> done: opening the store ended the same
 *      |              |                  rollback, which an earlier call had begun
 *      | BUSY         no
 *      v              v
 *   refused        plan --> commit_plan (pl_writers_roll_back) --> print
 *
 * Ownership. `struct rollback` borrows the call and owns the changes, the arm, its
 * topology and the writers. r.store is the writers' view and belongs to them. */
#include "cli/store_call.h"
#include "cli/store_names.h"
#include "cli/store_print.h"

typedef struct change {
    char module[PL_MODULE_NAME_MAX];
    uint64_t source;     /* version whose parameters return */
    uint64_t head, last; /* versions head+1 .. last are written */
} change;

typedef struct rollback {
    store_call *call;
    pl_writers *writers;
    pl_store *store;  /* all of it, to be read */
    pl_places places; /* of what nobody has yet; n 0: the store is in one piece */
    change *changes;
    size_t n;
    char arm_name[PL_MODULE_NAME_MAX];
    pl_arm arm;
    pl_topology *topology; /* NULL: the store does not define the arm */
    int64_t phase;         /* paths move on to it; -1: they stay */
} rollback;

/* ---- making the plan ---- */
static pl_status add_head(void *context, const pl_version *head)
{
    rollback *r = context;
    r->changes = pl_grow(r->changes, (r->n + 1) * sizeof *r->changes);
    change *c = &r->changes[r->n++];
    memset(c, 0, sizeof *c);
    pl_copy_text(c->module, sizeof c->module, head->module);
    c->source = c->head = c->last = head->number;
    return PL_OK;
}

static change *find_change(rollback *r, const char *module)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->changes[i].module, module) == 0)
            return &r->changes[i];
    return NULL;
}

/* The modules that were asked for get their old version; the others of the arm their
 * own head, for as long as nothing moves them on. */
static pl_status plan_targets(rollback *r)
{
    char asked[2 * PL_MODULE_NAME_MAX], prefix[PL_MODULE_NAME_MAX + 1];
    module_set set;
    pl_status status = PL_OK;
    snprintf(asked, sizeof asked, "%s@%s", r->call->words[0],
             r->call->values[STORE_OPT_TO]);
    PL_CHECK(names_set(r->store, asked, &set));
    names_arm_of(set.at[0].module, r->arm_name);
    snprintf(prefix, sizeof prefix, "%s/", r->arm_name);
    PL_TRY(pl_store_each_head(r->store, prefix, add_head, r));
    for (size_t i = 0; i < set.n; i++) {
        change *c = find_change(r, set.at[i].module);
        if (!c)
            PL_TRY(
                pl_fail(PL_ERR_NOT_FOUND, "there is no module %s", set.at[i].module));
        c->source = set.at[i].number;
        c->last = c->head + 1;
    }
done:
    pl_free(set.at);
    return status;
}

/* The phases of its paths: the least and the most. A store that has no path of the arm
 * is a copy that nobody trains. */
static pl_status path_phases(const rollback *r, int64_t *least, int64_t *most)
{
    bool any = false;
    *least = INT64_MAX;
    *most = 0;
    for (int path = 0; path < pl_topology_n_paths(r->topology); path++)
        for (int i = 0; i < pl_topology_n_replicas(r->topology); i++) {
            char name[PL_MODULE_NAME_MAX];
            pl_path_state state = {.phase = 0};
            pl_arm_path_name(&r->arm, r->topology, path, i, name);
            pl_status status = pl_store_get_path(r->store, name, &state);
            if (status != PL_OK && status != PL_ERR_NOT_FOUND)
                return status;
            any = any || status == PL_OK;
            *least = state.phase < *least ? state.phase : *least;
            *most = state.phase > *most ? state.phase : *most;
        }
    if (!any)
        *least = INT64_MAX;
    return PL_OK;
}

/* Where a path carries parameters of its own, or versions are no phases, training would
 * go on from something else than what was rolled back to. */
static pl_status plan_resumption(rollback *r, int64_t most)
{
    const pl_method_settings *m = &r->arm.outer.method;
    uint64_t last = (uint64_t)most;
    if (!pl_method_averages(m->method))
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "arm %s trains with %s, whose paths would go on from their own "
                       "parameters and not from these; roll back when it has finished, "
                       "or export %s@%s",
                       r->arm_name, pl_traits(m->method)->name, r->call->words[0],
                       r->call->values[STORE_OPT_TO]);
    for (size_t i = 0; i < r->n; i++)
        last = r->changes[i].head > last ? r->changes[i].head : last;
    last += 1 + (uint64_t)(pl_traits(m->method)->delays ? m->delay : 0);
    if ((int64_t)last > r->arm.inner.phases)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "training would go on in phase %llu of arm %s, which has %d; "
                       "let it finish, then roll back",
                       (unsigned long long)last, r->arm_name, r->arm.inner.phases);
    r->phase = (int64_t)last;
    for (size_t i = 0; i < r->n; i++)
        r->changes[i].last = last;
    return PL_OK;
}

static pl_status plan(rollback *r)
{
    int64_t least, most;
    r->phase = -1;
    PL_CHECK(plan_targets(r));
    pl_status status = pl_read_arm(r->store, r->arm_name, &r->arm, &r->topology);
    PL_CHECK(status == PL_ERR_NOT_FOUND ? PL_OK : status);
    if (!r->topology)
        return PL_OK;
    PL_CHECK(path_phases(r, &least, &most));
    return least >= r->arm.inner.phases ? PL_OK : plan_resumption(r, most);
}

/* ---- carrying the plan out ---- */
/* A path that has finished no phase is nowhere yet: it is made where its home will look
 * for it. */
static int choose_part_of(const rollback *r, const char *name)
{
    int part = pl_store_part_of(r->store, name);
    if (part >= 0)
        return part;
    return r->places.n > 0 ? pl_places_home(&r->places, name) : 0;
}

static void words_of(const rollback *r, char out[PL_TEXT_MAX])
{
    snprintf(out, PL_TEXT_MAX, "%s --to %s", r->call->words[0],
             r->call->values[STORE_OPT_TO]);
}

static pl_status commit_plan(const rollback *r)
{
    pl_rollback plan = {.phase = r->phase};
    words_of(r, plan.words);
    plan.modules = pl_alloc((r->n + 1) * sizeof *plan.modules);
    for (size_t i = 0; i < r->n; i++) {
        pl_rollback_module *c = &plan.modules[plan.n_modules++];
        pl_copy_text(c->name, sizeof c->name, r->changes[i].module);
        c->source = r->changes[i].source;
        c->last = r->changes[i].last;
        c->part = choose_part_of(r, c->name);
    }
    for (int path = 0; r->phase >= 0 && path < pl_topology_n_paths(r->topology); path++)
        for (int i = 0; i < pl_topology_n_replicas(r->topology); i++) {
            plan.paths = pl_grow(plan.paths, (plan.n_paths + 1) * sizeof *plan.paths);
            pl_rollback_path *p = &plan.paths[plan.n_paths++];
            memset(p, 0, sizeof *p);
            pl_arm_path_name(&r->arm, r->topology, path, i, p->name);
            p->samples = (uint64_t)r->phase * pl_phase_samples(&r->arm);
            p->part = choose_part_of(r, p->name);
        }
    pl_status status = pl_writers_roll_back(r->writers, &plan);
    pl_free(plan.modules);
    pl_free(plan.paths);
    return status;
}

/* ---- printing the result ---- */
static void print_change(const rollback *r, const change *c)
{
    row line = row_begin(r->call->json);
    row_text(&line, "module", c->module, "%s");
    row_count(&line, "version", c->last, "@%s");
    row_count(&line, "source", c->source, " is version %s again");
    row_int(&line, "phase", r->phase, NULL);
    row_finish(&line);
}

/* One that was ended by opening the store is not made a second time. */
static bool was_resumed(const rollback *r)
{
    char words[PL_TEXT_MAX];
    const char *resumed = pl_writers_resumed(r->writers);
    words_of(r, words);
    if (resumed && !r->call->json)
        printf("a rollback that was ended half-way (%s) is in all homes now\n",
               resumed);
    return resumed && strcmp(resumed, words) == 0;
}

static pl_status open_homes(rollback *r)
{
    const char *folder = r->call->folder;
    PL_CHECK(store_placement(folder, &r->places));
    pl_status status = pl_writers_open(folder, &r->writers);
    if (status == PL_OK)
        r->store = pl_writers_view(r->writers);
    return status == PL_ERR_BUSY ? store_is_held(r->call) : status;
}

pl_status store_rollback(store_call *call)
{
    rollback r = {.call = call};
    pl_status status = PL_OK;
    if (!call->values[STORE_OPT_TO])
        return pl_fail(PL_ERR_USAGE,
                       "rollback needs --to V, a version number or a tag");
    PL_CHECK(store_check_folder(call));
    PL_CHECK(store_refuse_part(call->folder));
    PL_TRY(open_homes(&r));
    if (was_resumed(&r))
        goto done;
    PL_TRY(plan(&r));
    PL_TRY(commit_plan(&r));
    for (size_t i = 0; i < r.n; i++)
        if (r.changes[i].source != r.changes[i].head)
            print_change(&r, &r.changes[i]);
    if (!r.call->json) {
        if (r.phase >= 0)
            printf("training of %s goes on with phase %lld of %d\n", r.arm_name,
                   (long long)r.phase, r.arm.inner.phases);
        else if (r.topology)
            printf("training of %s has finished; these are its newest versions\n",
                   r.arm_name);
    }
done:
    pl_free(r.changes);
    pl_topology_destroy(&r.topology);
    pl_arm_clear(&r.arm);
    pl_writers_close(&r.writers);
    return status;
}
