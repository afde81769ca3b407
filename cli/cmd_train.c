/* pathloom train: everything from text to the final table, in one command that can be
 * stopped and given again at any time. */
#include "cli/evaluate.h"

static void say_overhead(const pl_json *status)
{
    const pl_json *workers = pl_json_get(status, "workers");
    double inner = 0, overhead = 0, idle = 0, value = 0, tokens = 0;
    char rate[16];
    for (size_t i = 0; i < pl_json_count(workers); i++) {
        const pl_json *w = pl_json_at(workers, i);
        inner += pl_json_number(pl_json_get(w, "inner_seconds"), &value) ? value : 0;
        overhead +=
            pl_json_number(pl_json_get(w, "overhead_seconds"), &value) ? value : 0;
        idle += pl_json_number(pl_json_get(w, "idle_seconds"), &value) ? value : 0;
        tokens += pl_json_number(pl_json_get(w, "tokens"), &value) ? value : 0;
    }
    if (inner <= 0)
        return;
    say("workers  inner steps %.1f s at %s tokens/s a worker; fetching, sending and\n"
        "         merging %.2f %% of that; waiting for work %.1f s",
        inner, pl_human_count(tokens / inner, rate), 100 * overhead / inner, idle);
}

static pl_status train_stages(run *r)
{
    pl_json *status_json = NULL;
    PL_RETURN_IF(run_start(r));
    PL_RETURN_IF(stage_base(r));
    PL_RETURN_IF(stage_route(r));
    PL_RETURN_IF(stage_arms(r));
    if (run_hub_status(r, 10000, &status_json) == PL_OK) /* only for show */
        say_overhead(status_json);
    pl_json_destroy(&status_json);
    return pl_client_put_ref(r->client, "finished", r->cfg.levels);
}

static pl_status report(run *r)
{
    evaluation e;
    pl_store *store = NULL;
    pl_status status = PL_OK;
    memset(&e, 0, sizeof e);
    PL_TRY(store_open_run(r->dir, &store));
    PL_TRY(evaluate(r, store, &e));
    evaluation_print(r, &e);
    PL_TRY(evaluation_save(r, &e));
    PL_TRY(print_samples(r, store, &e));
done:
    evaluation_clear(&e);
    pl_store_close(&store);
    return status;
}

static void say_next(const run *r)
{
    char took[16];
    say("%s", "");
    say("done in %s; try next", pl_human_seconds(pl_now() - r->started, took));
    say("  pathloom generate --run %s --prompt \"The\"", r->dir);
    say("  pathloom store log L1.E0 --run %s", r->dir);
    say("  pathloom eval --run %s --json", r->dir);
}

/* Their last words must not take the place of the first. */
static void end_processes(run *r, pl_status status)
{
    char sentence[1024];
    pl_copy_text(sentence, sizeof sentence, pl_last_error());
    run_stop(r, status == PL_OK || status == PL_ERR_CANCELLED);
    if (status != PL_OK)
        pl_fail(status, "%s", sentence);
}

static pl_status train(run *r)
{
    say("pathloom %s  run %s%s\n"
        "         Ctrl+C drains and saves; the same command goes on from there",
        PL_VERSION, r->dir, r->resumed ? ", resumed" : "");
    PL_RETURN_IF(run_plan(r));
    PL_RETURN_IF(run_check(r));
    PL_RETURN_IF(stage_data(r));
    PL_RETURN_IF(run_save(r));
    pl_status status = train_stages(r);
    if (status == PL_ERR_CANCELLED)
        say("stopping: the workers finish their tasks; Ctrl+C again stops at once,\n"
            "         without losing a committed version");
    end_processes(r, status);
    PL_RETURN_IF(status);
    cli_stop_at_once();
    PL_RETURN_IF(report(r));
    say_next(r);
    return PL_OK;
}

static void say_stopped(const run *r)
{
    char store[PL_PATH_MAX];
    if (pl_path_exists(run_file(r, "store", store)))
        say("stopped; everything committed is in %s, and the same command goes on from "
            "there",
            r->dir);
    else
        say("stopped before anything was trained; the same command begins anew");
}

int cmd_train(int argc, char **argv)
{
    cli_options o;
    run r;
    pl_status status = cli_parse(argc, argv, &o);
    if (status != PL_OK)
        return cli_fail(status);
    status = run_open(&o, &r);
    if (status == PL_OK) {
        r.stop = cli_stop_flag(true);
        status = train(&r);
    }
    int code = 0;
    if (status == PL_ERR_CANCELLED) {
        say_stopped(&r);
        code = 130;
    } else if (status != PL_OK) {
        code = cli_fail(status);
    }
    run_close(&r);
    return code;
}
