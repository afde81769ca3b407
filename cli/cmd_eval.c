/* pathloom eval: held-out perplexity of a run, also while it trains. */
#include "cli/cli.h"

static pl_status eval_run(pl_run *r, bool json)
{
    evaluation e;
    pl_store *store = NULL;
    pl_buf text = {0};
    pl_status status = PL_OK;
    memset(&e, 0, sizeof e);
    PL_TRY(store_open_run(r->dir, &store));
    PL_TRY(evaluate(r, store, &e));
    if (json) {
        evaluation_json(r, &e, 0, &text);
        say("%s", pl_buf_text(&text));
    } else {
        evaluation_print(r, &e);
    }
done:
    pl_buf_destroy(&text);
    evaluation_clear(&e);
    pl_store_close(&store);
    return status;
}

/* Keys that do not change results (how much is scored) may differ from the run's. */
static pl_status apply_sets(pl_run *r, const cli_options *o)
{
    for (int i = 0; i < o->ask.n_sets; i++) {
        PL_RETURN_IF(pl_conf_set_pair(&config_table, &r->cfg, o->ask.sets[i], "--set"));
        if (!config_pair_is_local(o->ask.sets[i]))
            return pl_fail(PL_ERR_USAGE,
                           "eval cannot set `%.100s`: the run in %s was made with its "
                           "own value; leave it out",
                           o->ask.sets[i], r->dir);
    }
    return PL_OK;
}

/* Hashed and checked: damaged text would give a number like any other. */
static pl_status open_valid(pl_run *r)
{
    char path[PL_PATH_MAX];
    pl_status status =
        pl_tokens_open(run_file(r, "data/valid.tok", path), true, &r->valid);
    if (status == PL_ERR_DAMAGED || status == PL_ERR_NOT_FOUND)
        return pl_fail(status,
                       "%s; delete the folder %s/data, and `pathloom train --out %s` "
                       "makes it anew",
                       pl_last_error(), r->dir, r->dir);
    return status;
}

int cmd_eval(int argc, char **argv)
{
    cli_options o;
    pl_run r;
    memset(&r, 0, sizeof r);
    r.lock = -1;
    pl_status status = cli_parse(argc, argv, &o);
    if (status == PL_OK)
        status = cli_no_words(&o, "eval");
    if (status == PL_OK)
        status = run_look(o.ask.run, &r);
    if (status == PL_OK)
        status = apply_sets(&r, &o);
    if (status == PL_OK)
        status = open_valid(&r);
    if (status == PL_OK)
        status = eval_run(&r, o.json);
    int code = status == PL_OK ? 0 : cli_fail(status);
    run_close(&r);
    return code;
}
