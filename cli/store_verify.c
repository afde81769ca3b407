/* pathloom store verify: repeats outer steps, merges and (--tasks) tasks. */
#include "cli/store_print.h"

static const char *const verdicts[] = {"same", "other", "unknown"};

typedef struct verification {
    store_call *call;
    uint64_t n[PL_REPLAY_UNKNOWN + 1];
    /* reason why the last version or task differs or could not be checked */
    char why[1024];
    pl_run r;   /* with --tasks: the run, which has the settings of its workers */
    pl_arm arm; /* with --tasks: the arm of the module, and its topology */
    pl_topology *topology;
} verification;

static void print_reason(row *r, const verification *w, pl_replay_verdict which)
{
    if (which == PL_REPLAY_SAME)
        row_say(r, "  the same");
    else
        row_text(r, "reason", w->why, "  %s");
}

static pl_status verify_task(verification *w, const pl_version *v, int index)
{
    const pl_contribution *c = &v->contributions[index];
    const config *cfg = &w->r.cfg;
    pl_backend_options backend = {.name = cfg->backend,
                                  .n_threads = (int)cfg->threads,
                                  .precision = cfg->precision};
    pl_hash got = {{0}};
    pl_replay_verdict which = PL_REPLAY_SAME;
    bool is_sum = false; /* a relay made the update from those of several workers */
    for (int i = 0; i < v->n_contributions; i++)
        is_sum = is_sum ||
                 (i != index && pl_hash_equal(&v->contributions[i].update, &c->update));
    pl_status status =
        is_sum ? pl_fail(PL_ERR_NOT_FOUND, "a relay has summed this update with others")
               : pl_task_retrain(w->call->store, &w->arm, w->topology, v->module, c,
                                 &backend, &got);
    if (status == PL_ERR_NOT_FOUND) {
        which = PL_REPLAY_UNKNOWN;
        pl_copy_text(w->why, sizeof w->why, pl_last_error());
    } else if (status != PL_OK)
        return status;
    else if (!pl_hash_equal(&c->update, &got)) {
        which = PL_REPLAY_OTHER;
        pl_copy_text(w->why, sizeof w->why,
                     "training gives a different update than the worker sent");
    }
    w->n[which]++;
    char task[96];
    row r = row_begin(w->call->json);
    pl_arm_path_name(&w->arm, w->topology, (int)c->path, (int)c->replica, task);
    row_text(&r, "module", v->module, "%s");
    row_count(&r, "version", v->number, "@%s");
    row_text(&r, "task", task, "  task %s");
    row_int(&r, "phase", c->phase, " phase %s");
    row_text(&r, "worker", c->worker, " by %s");
    row_text(&r, "verdict", verdicts[which], NULL);
    row_hash(&r, "update", &c->update, "  update %s");
    row_hash(&r, "recomputed", &got, "  trained again %s");
    print_reason(&r, w, which);
    row_finish(&r);
    return PL_OK;
}

static pl_status verify_one(verification *w, const char *module, uint64_t number)
{
    pl_version v;
    pl_replay got;
    pl_replay_verdict which;
    pl_status status = PL_OK;
    PL_CHECK(pl_store_get_version(w->call->store, module, number, &v));
    PL_TRY(pl_home_verify(w->call->store, &v, &got, &which));
    if (which == PL_REPLAY_UNKNOWN)
        pl_copy_text(w->why, sizeof w->why, pl_last_error());
    else if (which == PL_REPLAY_OTHER)
        snprintf(w->why, sizeof w->why,
                 "%s@%llu differs from the version that its recorded sources give",
                 v.module, (unsigned long long)v.number);
    w->n[which] += !w->topology || which != PL_REPLAY_SAME; /* tasks decide */
    row r = row_begin(w->call->json);
    row_text(&r, "module", v.module, "%s");
    row_count(&r, "version", v.number, "@%s");
    row_text(&r, "verdict", verdicts[which], NULL);
    row_hash(&r, "hash", &v.params, "  %s");
    row_hash(&r, "recomputed", &got.params, "  recomputed %s");
    /* without the updates, the tasks decide */
    if (which == PL_REPLAY_UNKNOWN && w->topology && !w->call->json)
        row_say(&r, "  by its tasks:");
    else
        print_reason(&r, w, which);
    row_finish(&r);
    if (w->topology && v.n_contributions == 0 && !w->call->values[STORE_OPT_HISTORY])
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND, "%s@%llu was not made by tasks: %s", module,
                       (unsigned long long)number, v.method));
    for (int i = 0; w->topology && i < v.n_contributions; i++)
        PL_TRY(verify_task(w, &v, i));
done:
    pl_version_clear(&v);
    return status;
}

static pl_status verify_modules(verification *w)
{
    pl_module_at at;
    pl_name_kind kind;
    store_call *call = w->call;
    PL_CHECK(pl_names_kind(call->store, call->words[0], &kind));
    if (kind == PL_NAME_NONE && !call->values[STORE_OPT_TASKS]) {
        pl_snapshot tag = {.n_items = 0};
        pl_status status = pl_store_get_tag(call->store, call->words[0], &tag);
        for (size_t i = 0; i < tag.n_items && status == PL_OK; i++)
            status = verify_one(w, tag.items[i].module, tag.items[i].number);
        pl_snapshot_clear(&tag);
        if (status != PL_ERR_NOT_FOUND)
            return status;
    }
    PL_CHECK(pl_names_module(call->store, call->words[0], &at));
    if (call->values[STORE_OPT_TASKS]) {
        const char *module = at.module;
        char arm[PL_ARM_NAME_MAX];
        if (w->call->values[STORE_OPT_STORE])
            return pl_fail(PL_ERR_USAGE,
                           "store verify --tasks needs --run instead of --store: the "
                           "run has the settings of its workers");
        pl_log_open("pathloom", PL_LOG_WARN, false);
        PL_CHECK(run_look(w->call->values[STORE_OPT_RUN], &w->r));
        snprintf(arm, sizeof arm, "%.*s", (int)strcspn(module, "/"), module);
        PL_CHECK(pl_read_arm(w->call->store, arm, &w->arm, &w->topology));
    }
    if (!call->values[STORE_OPT_HISTORY])
        PL_CHECK(verify_one(w, at.module, at.number));
    else
        for (uint64_t n = pl_module_is_merged(at.module) ? 0 : 1; n <= at.number; n++)
            PL_CHECK(verify_one(w, at.module, n));
    return PL_OK;
}

pl_status store_verify(store_call *call)
{
    verification w = {.call = call, .r.lock = -1};
    pl_status status = verify_modules(&w);
    if (status == PL_OK && w.n[PL_REPLAY_OTHER] > 0)
        status = pl_fail(PL_ERR_DAMAGED,
                         "%llu %s gave different bytes when they were computed again",
                         (unsigned long long)w.n[PL_REPLAY_OTHER],
                         w.topology ? "versions or updates" : "versions");
    if (status == PL_OK && w.n[PL_REPLAY_SAME] == 0)
        status = pl_fail(PL_ERR_NOT_FOUND,
                         "nothing could be confirmed; the lines above say why");
    pl_topology_destroy(&w.topology);
    pl_arm_clear(&w.arm);
    run_close(&w.r);
    return status;
}
