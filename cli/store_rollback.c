/* pathloom store rollback: an older version becomes the newest again.
 *
 * Nothing is rewritten: new versions are appended whose parameters are the old ones, so
 * that history, blame and the chain of commits stay as they were. Training goes on from
 * them: rounds are counted by versions and phases by paths, so where an arm is not
 * finished all its modules and paths move on to one common phase that nobody has
 * trained, and the phases in between are given up. */
#include "cli/run.h"
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
    pl_store *store;
    change *changes;
    size_t n;
    char arm_name[PL_MODULE_NAME_MAX];
    pl_arm arm;
    pl_topology *topology; /* NULL: the store does not define the arm */
    int64_t phase;         /* paths move on to it; -1: they stay */
} rollback;

/* ---- what is to be done ---- */
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

static change *find(rollback *r, const char *module)
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
    PL_RETURN_IF(names_set(r->store, asked, &set));
    names_arm_of(set.at[0].module, r->arm_name);
    snprintf(prefix, sizeof prefix, "%s/", r->arm_name);
    PL_TRY(pl_store_each_head(r->store, prefix, add_head, r));
    for (size_t i = 0; i < set.n; i++) {
        change *c = find(r, set.at[i].module);
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

static pl_status load_arm(rollback *r)
{
    pl_status status = store_arm(r->store, r->arm_name, &r->arm, &r->topology);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
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
static bool can_resume(pl_method method)
{
    return method == PL_METHOD_DILOCO || method == PL_METHOD_FEDAVG ||
           method == PL_METHOD_HEAVY_BALL || method == PL_METHOD_CO2;
}

static pl_status plan_resumption(rollback *r, int64_t most)
{
    const pl_method_settings *m = &r->arm.outer.method;
    uint64_t last = (uint64_t)most;
    if (!can_resume(m->method))
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "arm %s trains with %s, whose paths would go on from their own "
                       "parameters and not from these; roll back when it has finished, "
                       "or export %s@%s",
                       r->arm_name, pl_method_name(m->method), r->call->words[0],
                       r->call->values[STORE_OPT_TO]);
    for (size_t i = 0; i < r->n; i++)
        last = r->changes[i].head > last ? r->changes[i].head : last;
    last += 1 + (uint64_t)(m->method == PL_METHOD_CO2 ? m->delay : 0);
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
    PL_RETURN_IF(plan_targets(r));
    PL_RETURN_IF(load_arm(r));
    if (!r->topology)
        return PL_OK;
    PL_RETURN_IF(path_phases(r, &least, &most));
    return least >= r->arm.inner.phases ? PL_OK : plan_resumption(r, most);
}

/* ---- doing it ---- */
static pl_status source_of(const rollback *r, const change *c, pl_version *out)
{
    PL_RETURN_IF(pl_store_get_version(r->store, c->module, c->source, out));
    if (!out->params_gone)
        return PL_OK;
    pl_version_clear(out);
    return pl_fail(PL_ERR_NOT_FOUND,
                   "the parameters of %s@%llu were collected; only its record is left",
                   c->module, (unsigned long long)c->source);
}

/* Contributions made neither it nor its momentum, which begins anew. The update's norm
 * stays: codecs scale by it. */
static void restate(const change *c, uint64_t number, const pl_hash *parent,
                    pl_version *v)
{
    pl_free(v->contributions);
    v->contributions = NULL;
    v->n_contributions = 0;
    v->number = number;
    v->parent = *parent;
    v->momentum = v->change = (pl_hash){{0}};
    v->lr = v->outer_momentum = 0;
    v->arrivals = 0;
    v->wall_ms = pl_wall_ms();
    snprintf(v->method, sizeof v->method, "rollback to %llu",
             (unsigned long long)c->source);
}

static pl_status write_module(const rollback *r, pl_txn *txn, const change *c)
{
    pl_version head, v;
    pl_hash parent;
    pl_status status = PL_OK;
    pl_keep keep = {.updates = false, .momentum = true};
    PL_RETURN_IF(pl_store_head(r->store, c->module, &head));
    parent = head.params;
    pl_version_clear(&head);
    PL_RETURN_IF(source_of(r, c, &v));
    if (r->phase >= 0)
        PL_TRY(pl_txn_drop_pending(txn, c->module));
    for (uint64_t n = c->head + 1; n <= c->last; n++) {
        restate(c, n, &parent, &v);
        PL_TRY(pl_txn_put_version(txn, &v, keep));
        parent = v.params;
    }
done:
    pl_version_clear(&v);
    return status;
}

/* Their moments go on: they say how large gradients are, which holds there as well. */
static pl_status write_path(const rollback *r, pl_txn *txn, int path, int replica)
{
    char name[PL_MODULE_NAME_MAX];
    pl_path_state state;
    pl_arm_path_name(&r->arm, r->topology, path, replica, name);
    pl_status status = pl_store_get_path(r->store, name, &state);
    if (status == PL_ERR_NOT_FOUND) {
        memset(&state, 0, sizeof state);
        pl_copy_text(state.name, sizeof state.name, name);
    } else
        PL_RETURN_IF(status);
    state.phase = r->phase;
    state.samples = (uint64_t)r->phase * pl_phase_samples(&r->arm);
    return pl_txn_put_path(txn, &state);
}

static pl_status write_paths(const rollback *r, pl_txn *txn)
{
    for (int path = 0; r->phase >= 0 && path < pl_topology_n_paths(r->topology); path++)
        for (int i = 0; i < pl_topology_n_replicas(r->topology); i++)
            PL_RETURN_IF(write_path(r, txn, path, i));
    return PL_OK;
}

static pl_status commit(const rollback *r)
{
    pl_txn *txn = NULL;
    pl_status status = PL_OK;
    PL_TRY(pl_txn_begin(r->store, &txn));
    for (size_t i = 0; i < r->n; i++)
        PL_TRY(write_module(r, txn, &r->changes[i]));
    PL_TRY(write_paths(r, txn));
    PL_TRY(pl_txn_commit(&txn));
done:
    pl_txn_abort(&txn);
    return status;
}

/* ---- telling it ---- */
static void print_change(const rollback *r, const change *c)
{
    if (!r->call->json) {
        printf("%s@%llu is version %llu again\n", c->module,
               (unsigned long long)c->last, (unsigned long long)c->source);
        return;
    }
    pl_json *line = pl_json_object();
    pl_json_set_text(line, "module", c->module);
    print_set_count(line, "version", c->last);
    print_set_count(line, "source", c->source);
    pl_json_set_int(line, "phase", r->phase);
    say_json(line);
}

static void print_all(const rollback *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->changes[i].source != r->changes[i].head)
            print_change(r, &r->changes[i]);
    if (r->call->json)
        return;
    if (r->phase >= 0)
        printf("training of %s goes on with phase %lld of %d\n", r->arm_name,
               (long long)r->phase, r->arm.inner.phases);
    else if (r->topology)
        printf("training of %s has finished; these are its newest versions\n",
               r->arm_name);
}

pl_status store_rollback(store_call *call)
{
    rollback r = {.call = call};
    pl_status status = PL_OK;
    if (!call->values[STORE_OPT_TO])
        return pl_fail(PL_ERR_USAGE,
                       "rollback needs --to V, a version number or a tag");
    PL_RETURN_IF(store_refuse_part(call->folder));
    PL_RETURN_IF(store_open_to_write(call, &r.store));
    PL_TRY(plan(&r));
    PL_TRY(commit(&r));
    print_all(&r);
done:
    pl_free(r.changes);
    pl_topology_destroy(&r.topology);
    pl_arm_clear(&r.arm);
    pl_store_close(&r.store);
    return status;
}
