/* Makes the next version of each module whose round has the contributions that it
 * needs: reads the updates, takes the outer step, and commits the version. */
#include "home/home_internal.h"
#include "home/home_updates.h"

#include <math.h>

/* TOGETHER_BYTES: merges share a commit until the parameters of their versions have
 * this many bytes. TURN_S: after this time home_merge_ready begins no further merge. */
enum { TOGETHER_BYTES = 1 << 20, TURN_S = 1 };

typedef struct merge {
    home *h;
    home_arm *arm;
    home_module *module;
    int index; /* index of the module */
    const pl_contract *of;
    pl_round_step how;
    pl_contribution *contributions; /* sorted by (path, replica) */
    int n;
    double total_weight;
    float *params; /* [n_params] first of the head, then of the new version */
    /* the momentum, then the vectors `carry` and `residual` if they exist; each has
     * n_params floats */
    float *momentum;
    float *carry;    /* a vector inside `momentum`; NULL if the method keeps none */
    float *residual; /* a vector inside `momentum`; NULL if changes are not kept */
    /* [n_params] parameters of the parent version; NULL if changes are not kept */
    float *before;
    /* [n_params] parameters of version 0; NULL: updates are not relative to it */
    float *origin;
    int n_kept; /* number of vectors of `momentum` that versions keep; 0: none */
    /* matrices whose singular values the outer step makes equal */
    pl_iso_matrix *matrices;
    int n_matrices;
    pl_buf change;
    pl_version version;
} merge;

static pl_status collect_contribution(void *context, const char *module,
                                      const pl_contribution *c)
{
    merge *g = context;
    if (strcmp(module, g->module->name) != 0 || c->phase != (int64_t)g->module->version)
        return PL_OK;
    if (g->n == g->of->n_contributors)
        return pl_fail(PL_ERR_INTERNAL, "%s has more than %d contributions", module,
                       g->n);
    g->contributions[g->n++] = *c;
    g->total_weight += c->weight;
    return PL_OK;
}

static pl_status read_floats(home *h, const pl_hash *blob, size_t n, float *out)
{
    uint64_t bytes = 0;
    PL_CHECK(pl_store_blob_bytes(h->store, blob, &bytes));
    if (bytes != (uint64_t)n * sizeof *out)
        return pl_fail(PL_ERR_DAMAGED,
                       "a blob of parameters or momentum has %llu bytes instead of %zu",
                       (unsigned long long)bytes, n * sizeof *out);
    return pl_store_read_blob(h->store, blob, 0, (size_t)bytes, out);
}

/* Takes the outer step: from the parameters and vectors of the head to those of the
 * next version. */
static pl_status take_outer_step(merge *g)
{
    pl_version *v = &g->version, first = {0};
    const size_t n = g->module->n_params;
    pl_outer_report report;
    pl_outer_state state = {.params = g->params,
                            .momentum = g->momentum,
                            .carry = g->carry,
                            .displacement = v->displacement,
                            .arrivals = (int)v->arrivals};
    pl_status status = PL_OK;
    float *weights = pl_alloc((size_t)g->n * sizeof *weights);
    for (int i = 0; i < g->n; i++)
        weights[i] =
            (float)pl_round_weight(g->of, (int)g->contributions[i].path,
                                   g->contributions[i].weight, g->total_weight, g->n);
    /* only the first vector of an update is added; only the contributor's mate uses a
     * second one */
    const home_round round = {.store = g->h->store,
                              .module = g->module->name,
                              .n_params = n,
                              .contributions = g->contributions,
                              .n = g->n,
                              .weights = weights,
                              .homomorphic = g->of->homomorphic,
                              .n_vectors = g->of->n_vectors,
                              .ahead_bytes = PL_HOME_AHEAD_BYTES};
    home_updates *updates = home_updates_create(&round);
    pl_arith_merge of = {.step = &g->how.step,
                         .state = &state,
                         .n = n,
                         .messages = home_updates_source(updates),
                         .homomorphic = g->of->homomorphic,
                         .factor = (float)g->how.factor,
                         .matrices = g->matrices,
                         .n_matrices = g->n_matrices};
    /* with one contributor, the mean over all is that over those that send a value */
    of.present = g->arm->arm.outer.present && g->n > 1;
    if (g->how.from_first) {
        PL_TRY(pl_try_alloc(n * sizeof *g->origin, "version 0", (void **)&g->origin));
        PL_TRY(pl_store_get_version(g->h->store, g->module->name, 0, &first));
        PL_TRY(read_floats(g->h, &first.params, n, g->origin));
        of.origin = g->origin;
    }
    PL_TRY(pl_arith_step(&of, &report));
    home_updates_destroy(&updates); /* before the vectors that rounding needs */
    v->update_norm = report.mean_norm / g->how.factor;
    v->params_norm = report.params_norm;
    v->displacement = state.displacement;
    v->arrivals = state.arrivals;
    if (g->residual && isfinite(v->params_norm)) {
        /* Rounds the change from the parent version, and makes the version from the
         * rounded change. The displacement, which co2's penalty uses, becomes the norm
         * of the rounded change. */
        double norm = 0;
        PL_TRY(pl_change_make(&g->arm->arm, g->arm->topology, g->index, g->before,
                              g->params, g->residual, &g->change, &norm));
        v->params_norm = pl_l2_norm(g->params, n);
        if (v->displacement > 0)
            v->displacement = norm;
    }
    if (!isfinite(v->params_norm))
        PL_TRY(pl_fail(PL_ERR_NUMERIC,
                       "version %llu of %s would have values that are not finite; "
                       "lower outer.lr or outer.momentum",
                       (unsigned long long)v->number, g->module->name));
done:
    home_updates_destroy(&updates);
    pl_free(weights);
    pl_version_clear(&first);
    return status;
}

static pl_status prepare_merge(merge *g)
{
    size_t n = g->module->n_params, bytes = n * sizeof(float);
    g->how = pl_round_step_of(g->of, g->module->version, g->n);
    if (g->how.equalizes)
        g->n_matrices = pl_iso_matrices(g->arm->topology, g->index, &g->matrices);
    const bool carries = pl_outer_keeps_carry(&g->how.step);
    const bool rounds = g->of->keeps_change;
    int n_vectors = 1 + carries + rounds;
    PL_CHECK(pl_try_alloc(bytes, "an outer step", (void **)&g->params));
    PL_CHECK(pl_try_alloc((size_t)n_vectors * bytes, "an outer step",
                          (void **)&g->momentum));
    if (carries)
        g->carry = g->momentum + n;
    if (rounds) {
        g->residual = g->momentum + (size_t)(n_vectors - 1) * n;
        PL_CHECK(pl_try_alloc(bytes, "an outer step", (void **)&g->before));
    }
    if (n_vectors > 1 || pl_outer_keeps_momentum(&g->how.step))
        g->n_kept = n_vectors;
    return PL_OK;
}

static void release_merge(merge *g)
{
    pl_free_all(g->contributions, g->matrices, g->params, g->momentum, g->origin,
                g->before);
    pl_buf_destroy(&g->change);
}

/* Computes |x_t - x_base|, where x_t are the parameters of the head, and x_base are
 * those of version `base`, to which the updates of this round are relative. */
static pl_status distance_from(merge *g, uint64_t base, double *out)
{
    pl_version v;
    size_t n = g->module->n_params;
    float *values = NULL;
    pl_status status = PL_OK;
    PL_CHECK(pl_store_get_version(g->h->store, g->module->name, base, &v));
    if (v.params_gone)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "the outer step after %s@%llu needs the parameters of version "
                       "%llu (co2 with outer.delay above 1), but garbage collection "
                       "removed them",
                       g->module->name, (unsigned long long)g->module->version,
                       (unsigned long long)base));
    PL_TRY(pl_try_alloc(n * sizeof *values, "a version", (void **)&values));
    PL_TRY(read_floats(g->h, &v.params, n, values));
    for (size_t i = 0; i < n; i++)
        values[i] = g->params[i] - values[i];
    *out = pl_l2_norm(values, n);
done:
    pl_free(values);
    pl_version_clear(&v);
    return status;
}

static pl_status make_version(merge *g)
{
    /* head.momentum: the momentum, then the other vectors that versions keep */
    pl_version head = {0};
    size_t n = g->module->n_params;
    PL_CHECK(
        pl_store_get_version(g->h->store, g->module->name, g->module->version, &head));
    g->version.displacement = head.displacement;
    g->version.arrivals = head.arrivals;
    pl_status status = read_floats(g->h, &head.params, n, g->params);
    if (g->before)
        memcpy(g->before, g->params, n * sizeof *g->before);
    if (status == PL_OK && g->n_kept > 0 && !pl_hash_none(&head.momentum))
        status = read_floats(g->h, &head.momentum, (size_t)g->n_kept * n, g->momentum);
    pl_version_clear(&head);
    PL_CHECK(status);
    /* co2's penalty needs the distance of the head from the base. If the base is the
     * version before the head, the distance is the norm of the last step, which is in
     * the head's record. For an older base it is computed from the parameters. */
    uint64_t round = g->module->version;
    uint64_t base = pl_round_base(g->of, (int64_t)round);
    if (pl_outer_depends_on_gap(&g->how.step) && round - base >= 2)
        PL_CHECK(distance_from(g, base, &g->version.displacement));
    pl_version *v = &g->version;
    pl_copy_text(v->module, sizeof v->module, g->module->name);
    v->number = g->module->version + 1;
    v->parent = g->module->params;
    v->config = g->arm->arm.config;
    v->lr = g->how.lr;
    v->outer_momentum = g->how.step.momentum;
    pl_copy_text(v->method, sizeof v->method, g->how.method);
    v->n_params = g->module->n_params;
    v->wall_ms = pl_wall_ms();
    v->n_contributions = g->n;
    v->contributions = g->contributions;
    return take_outer_step(g);
}

/* Merges the module's open round: makes the next version and writes it into the group's
 * transaction. */
static pl_status merge_module(home *h, home_arm *arm, int index)
{
    pl_status status = PL_OK;
    home_module *m = &arm->modules[index];
    const pl_contract *of = m->of;
    const int64_t number = (int64_t)m->version;
    merge g = {.h = h, .arm = arm, .module = m, .index = index, .of = of};
    g.contributions = pl_alloc((size_t)of->n_contributors * sizeof *g.contributions);
    PL_TRY(pl_failpoint("home.outer.before"));
    PL_TRY(pl_store_each_pending(h->store, m->name, collect_contribution, &g));
    if (g.n != *home_count(m, number))
        PL_TRY(pl_fail(PL_ERR_INTERNAL, "%s has %d contributions instead of %d",
                       m->name, g.n, *home_count(m, number)));
    PL_TRY(prepare_merge(&g));
    PL_TRY(make_version(&g));
    /* No pair of this round can be split any more: all updates have arrived. */
    int replicas = pl_topology_n_replicas(arm->topology);
    for (int i = 0; i < g.n; i++) {
        pl_contribution *c = &g.contributions[i];
        c->split = home_was_split(arm, index, c->phase,
                                  (int)(c->path * replicas + c->replica));
    }
    const size_t bytes = m->n_params * sizeof(float);
    const pl_keep keep = {.updates = h->options->keep_updates,
                          .momentum = h->options->keep_momentum,
                          .late = of->keep_late};
    PL_TRY(home_write(h));
    PL_TRY(pl_txn_put_blob(h->txn, g.params, bytes, &g.version.params));
    if (g.n_kept > 0)
        PL_TRY(pl_txn_put_blob(h->txn, g.momentum, (uint64_t)g.n_kept * bytes,
                               &g.version.momentum));
    if (g.change.len > 0)
        PL_TRY(pl_txn_put_blob(h->txn, g.change.data, g.change.len, &g.version.change));
    PL_TRY(pl_txn_put_version(h->txn, &g.version, keep));
    PL_TRY(home_forget_meetings(h, m, number));
    memset(m->pending + number % of->window * of->n_holders, 0,
           (size_t)of->n_holders * sizeof *m->pending);
    *home_count(m, number) = 0;
    m->version = g.version.number;
    m->params = g.version.params;
    m->norm = g.version.update_norm;
    m->params_norm = g.version.params_norm;
    for (int i = 0; i < g.n; i++)
        home_note_norm(m, g.contributions[i].norm);
    h->counts.n_by_quorum += g.n < of->n_contributors;
    m->quorum_ms = 0;
    pl_log(PL_LOG_DEBUG, "version.committed", "module=%s version=%llu contributions=%d",
           m->name, (unsigned long long)m->version, g.n);
    h->counts.n_versions++;
    pl_message event = {0};
    PL_SAY(&event, EVENT, module_record, .module = m->name,
           .version = (int64_t)m->version);
    home_tell(h, &event);
done:
    release_merge(&g);
    return status;
}

/* Whether the path has finished the phase that sends an update in this round. */
static bool has_finished(const home_arm *arm, const home_module *m, int index,
                         int64_t round)
{
    const home_path *path = &arm->paths[index];
    int64_t phase =
        path->confirmed > path->state.phase ? path->confirmed : path->state.phase;
    for (; phase < arm->arm.inner.phases; phase++)
        if (pl_round_of(m->of, phase) >= 0)
            return pl_round_of(m->of, phase) > round;
    return true;
}

/* Returns whether the module's next round can be merged: all its contributions have
 * arrived, or its quorum was reached at least outer.deadline_s ago. Starts the
 * deadline's clock when the quorum is first seen. */
static bool is_ready(const home *h, const home_arm *arm, home_module *m)
{
    const int replicas = pl_topology_n_replicas(arm->topology);
    const int module = (int)(m - arm->modules);
    const int64_t round = (int64_t)m->version;
    const int n = m->exists ? *home_count(m, round) : 0;
    if (n == 0 || n < m->of->quorum)
        return false;
    /* Under audits an update counts only after its task has ended and, if the task was
     * drawn, its audit has agreed. So no version contains a result found to be wrong. A
     * job that goes on without audits still waits for those that this home has open. */
    const bool audits = home_audits(h, arm);
    const int n_checked = audits || h->n_audits > 0 ? m->of->n_holders : 0;
    for (int i = 0; i < n_checked; i++) {
        const int path = pl_topology_module_path(arm->topology, module, i / replicas);
        const int index = path * replicas + i % replicas;
        if (*home_flag(arm, m, round, index) &&
            (audits ? !has_finished(arm, m, index, round)
                    : home_in_audit(h, arm->paths[index].state.name) != NULL))
            return false;
    }
    if (n == m->of->n_contributors)
        return true;
    if (m->quorum_ms == 0)
        m->quorum_ms = pl_now_ms();
    return pl_now_ms() - m->quorum_ms >= arm->arm.outer.deadline_ms;
}

void home_note_round(home *h, const home_arm *arm, home_module *m, int64_t round)
{
    if (m->noted || *home_count(m, round) < m->of->quorum)
        return;
    h->due = pl_grow(h->due, (h->n_due + 1) * sizeof *h->due);
    h->due[h->n_due++] = (home_due){(int)(arm - h->arms), (int)(m - arm->modules)};
    m->noted = true;
}

/* Versions of small modules share a commit: if only one path has a module, each update
 * completes a round, and one commit per round would take longer than the merge. Several
 * rounds of a module may be complete. Each starts from the version of the previous
 * round, so that version must be committed before the next round is merged. A module
 * whose round has reached its quorum, but still waits for more updates, stays in
 * h->due, the list of modules whose round may be ready. So do modules for which this
 * turn has no time: the hub and the workers wait for answers meanwhile. */
pl_status home_merge_ready(home *h)
{
    /* unsaved: bytes of parameters that are not committed yet; n_left: number of
     * modules that stay in the list */
    size_t unsaved = 0, n_left = 0;
    double start = pl_now();
    h->unmerged = false;
    for (size_t i = 0; i < h->n_due; i++) {
        home_arm *arm = &h->arms[h->due[i].arm];
        home_module *m = &arm->modules[h->due[i].module];
        while (is_ready(h, arm, m)) {
            /* Where the home numbers rounds as updates arrive, holders do not wait for
             * versions: each may send one update per turn, so half of the window must
             * be free by the next turn. */
            const bool is_behind =
                m->of->by_arrival &&
                *home_count(m, (int64_t)m->version + m->of->window / 2);
            h->unmerged = h->unmerged || (pl_now() - start > TURN_S && !is_behind);
            if (h->unmerged && !is_behind)
                break;
            PL_CHECK(merge_module(h, arm, h->due[i].module));
            unsaved += m->n_params * sizeof(float);
            if (unsaved < TOGETHER_BYTES && !is_ready(h, arm, m))
                continue;
            PL_CHECK(home_end_group(h));
            unsaved = 0;
        }
        m->noted = m->exists && *home_count(m, (int64_t)m->version) >= m->of->quorum;
        if (m->noted)
            h->due[n_left++] = h->due[i];
    }
    h->n_due = n_left;
    if (unsaved > 0)
        PL_CHECK(home_end_group(h));
    h->counts.merge_s += pl_now() - start;
    return PL_OK;
}

pl_status pl_home_replay(pl_store *store, const pl_version *made, pl_replay *out)
{
    char object[PL_MODULE_NAME_MAX + 8];
    const char *slash = strchr(made->module, '/');
    home h = {.store = store};
    home_arm arm;
    home_module module = {.exists = true};
    merge g = {.h = &h, .arm = &arm, .module = &module};
    pl_object definition;
    pl_version before = {.number = 0};
    pl_status status = PL_OK;
    *out = (pl_replay){{{0}}, {{0}}};
    if (pl_version_is_merged(made))
        return pl_merged_again(store, made, &out->params);
    if (made->number == 0 || made->n_contributions == 0 || !slash)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "%s@%llu was not made from updates; its method is `%s`",
                       made->module, (unsigned long long)made->number, made->method);
    snprintf(object, sizeof object, "arm/%.*s", (int)(slash - made->module),
             made->module);
    PL_CHECK(pl_store_get_object(store, object, &definition));
    PL_CHECK(home_read_arm(&h, object, &definition.blob, &arm));
    g.index = pl_topology_find_module(arm.topology, slash + 1);
    if (g.index < 0)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND, "arm %s has no module %s", arm.arm.name,
                       slash + 1));
    pl_copy_text(module.name, sizeof module.name, made->module);
    module.of = g.of = &arm.contracts[g.index];
    module.n_params = g.of->n_params;
    g.n = made->n_contributions;
    g.contributions = pl_alloc((size_t)(g.n + 1) * sizeof *g.contributions);
    for (int i = 0; i < g.n; i++) {
        pl_contribution *c = &g.contributions[i];
        *c = made->contributions[i];
        if (c->path < 0 || c->path >= pl_topology_n_paths(arm.topology))
            PL_TRY(pl_fail(
                PL_ERR_DAMAGED,
                "%s@%llu has an update of path %lld, which its arm does not have",
                made->module, (unsigned long long)made->number, (long long)c->path));
        /* the arm's weight: the record is what is judged */
        c->weight = pl_round_record_weight(g.of, (int)c->path);
        g.total_weight += c->weight;
    }
    PL_TRY(pl_store_get_version(store, made->module, made->number - 1, &before));
    module.version = before.number;
    module.params = before.params;
    PL_TRY(prepare_merge(&g));
    const char *gone = !made->has_updates   ? "the updates that made it"
                       : before.params_gone ? "the parameters before it"
                                            : NULL;
    bool began = before.number == 0 || pl_starts_with(before.method, "rollback");
    if (!gone && g.n_kept > 0 && pl_hash_none(&before.momentum) && !began)
        gone = "the momentum before it";
    for (int i = 0; !gone && i < made->n_contributions; i++)
        if (!pl_store_has_blob(store, &made->contributions[i].update))
            gone = "an update that made it";
    if (gone)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "%s@%llu cannot be recomputed: the store no longer has %s "
                       "(store.keep_updates, store.keep_momentum); `store verify "
                       "--tasks` trains its tasks again",
                       made->module, (unsigned long long)made->number, gone));
    PL_TRY(make_version(&g));
    const size_t bytes = module.n_params * sizeof(float);
    pl_blob_hash(g.params, bytes, &out->params);
    if (g.n_kept > 0)
        pl_blob_hash(g.momentum, (uint64_t)g.n_kept * bytes, &out->momentum);
done:
    pl_version_clear(&before);
    release_merge(&g);
    home_clear_arm(&arm);
    return status;
}

pl_status pl_home_verify(pl_store *store, const pl_version *made, pl_replay *got,
                         pl_replay_verdict *out)
{
    pl_status status = pl_home_replay(store, made, got);
    *out = PL_REPLAY_UNKNOWN;
    if (status == PL_ERR_NOT_FOUND)
        return PL_OK;
    PL_CHECK(status);
    const bool same = pl_hash_equal(&made->params, &got->params) &&
                      (pl_hash_none(&made->momentum) ||
                       pl_hash_equal(&made->momentum, &got->momentum));
    *out = same ? PL_REPLAY_SAME : PL_REPLAY_OTHER;
    return PL_OK;
}
