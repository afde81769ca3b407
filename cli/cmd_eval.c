/* pathloom eval: computes the held-out perplexity of a run, also while it trains. */
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
static pl_status apply_settings(pl_run *r, const cli_settings *s)
{
    for (int i = 0; i < s->n; i++) {
        PL_CHECK(pl_conf_set_pair(&config_table, &r->cfg, s->pairs[i], "--set"));
        if (!config_pair_is_local(s->pairs[i]))
            return pl_fail(PL_ERR_USAGE,
                           "eval cannot set `%.100s`: the run in %s was made with its "
                           "own value; leave it out",
                           s->pairs[i], r->dir);
    }
    return PL_OK;
}

/* The text is hashed and checked, because damaged text would give a plausible number.
 */
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

typedef struct eval_request {
    const char *run;
    cli_settings settings;
    bool json;
} eval_request;

static const cli_option options[] = {
    CLI_RUN(eval_request, run),
    CLI_JSON(eval_request, json),
    CLI_SETTINGS(eval_request, settings,
                 "keys that do not change results, as eval.max_tokens"),
};

static int run_eval(int argc, char **argv)
{
    eval_request q = {.json = false};
    pl_run r;
    memset(&r, 0, sizeof r);
    r.lock = -1;
    pl_status status = cli_read(&verb_eval, argc, argv, &q, NULL);
    if (status == PL_OK)
        status = run_look(q.run, &r);
    if (status == PL_OK)
        status = apply_settings(&r, &q.settings);
    if (status == PL_OK)
        status = open_valid(&r);
    if (status == PL_OK)
        status = eval_run(&r, q.json);
    int code = status == PL_OK ? 0 : cli_fail(status);
    run_close(&r);
    return code;
}

const cli_verb verb_eval = {.name = "eval",
                            .usage = "eval --run RUN [--json]",
                            .help =
                                "held-out perplexity of the mixture and its baselines",
                            .options = options,
                            .n_options = CLI_COUNT(options),
                            .computes = true,
                            .run = run_eval};
