/* pathloom eval: measures how well a run predicts text, also while it trains. */
#include "cli/cli.h"

typedef struct eval_request {
    const char *run, *on, *every, *select;
    mixture_wish mixture;
    given_settings settings;
    bool json;
} eval_request;

static const cli_option options[] = {
    CLI_RUN(eval_request, run),
    CLI_ANSWER(eval_request, mixture),
    CLI_OPTION("on", CLI_TEXT, eval_request, on, "FILE",
               "evaluate this text instead of the held-out text, and show for each of "
               "its documents which path was chosen: a text file, JSON lines, a "
               "folder, any of these compressed, or - for standard input"),
    CLI_OPTION("every", CLI_TEXT, eval_request, every, "W,W,...",
               "also score rules that choose the path again every W tokens, by the "
               "text before or in hindsight; for example 128,64,32,16"),
    CLI_SELECT(eval_request, select),
    CLI_JSON(eval_request, json),
    CLI_SETTINGS(eval_request, settings,
                 "set a key that does not change training, such as eval.max_tokens"),
};

static pl_status run_eval(int argc, char **argv)
{
    eval_request q = {.json = false};
    evaluation_wish wish = {.n_every = 0};
    evaluation_text text = {0};
    evaluation e = {0};
    pl_run r = {.lock = -1};
    pl_store *store = NULL;
    pl_status status = PL_OK;
    PL_CHECK(cli_read(&verb_eval, argc, argv, &q, NULL));
    PL_CHECK(cli_read_select(q.select, q.mixture.at, &wish.best));
    PL_TRY(run_look(q.run, &r));
    /* Only keys that do not change training may be set, such as limits of scoring. */
    for (int i = 0; i < q.settings.n; i++) {
        const char *pair = q.settings.pairs[i];
        PL_TRY(pl_conf_set_pair(&config_table, &r.cfg, pair, "--set"));
        if (!config_pair_is_local(pair))
            PL_TRY(pl_fail(PL_ERR_USAGE,
                           "eval cannot set `%.100s`: the run in %s was made with its "
                           "own value; leave this key out",
                           pair, r.dir));
    }
    PL_TRY(q.on ? evaluation_read_text(&r, q.on, &text) : evaluation_open_valid(&r));
    wish.mixture = q.mixture;
    wish.text = q.on ? &text : NULL;
    /* --every is a list such as "128,64": after how many tokens the path is chosen
     * again */
    if (q.every && pl_topology_n_paths(r.topology) < 2)
        PL_TRY(pl_fail(PL_ERR_USAGE,
                       "--every compares paths, but the run in %s has only one path; "
                       "leave --every out",
                       r.dir));
    for (const char *at = q.every; at;
         at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t len = strcspn(at, ",");
        int64_t every = 0;
        char one[24];
        snprintf(one, sizeof one, "%.*s", (int)(len < 20 ? len : 20), at);
        if (pl_parse_int(one, &every) != PL_OK || every < 1 || every > 1 << 20)
            PL_TRY(pl_fail(PL_ERR_USAGE,
                           "--every takes numbers of tokens from 1 to 1048576, "
                           "separated by commas, such as 128,64, not `%s`",
                           one));
        if (wish.n_every == PL_EVERY_MAX)
            PL_TRY(pl_fail(PL_ERR_USAGE, "--every takes at most %d numbers",
                           PL_EVERY_MAX));
        wish.every[wish.n_every++] = (int)every;
    }
    PL_TRY(store_open_run(r.dir, &store));
    PL_TRY(evaluate(&r, store, &wish, &e));
    if (q.json) {
        say_json(evaluation_json(&r, &e));
    } else {
        evaluation_print(&r, &e);
        evaluation_print_details(&r, &e);
    }
done:
    evaluation_clear(&e);
    pl_store_close(&store);
    run_close(&r);
    evaluation_text_clear(&text);
    return status;
}

const cli_verb verb_eval = {
    .name = "eval",
    .usage = "eval --run RUN [--on FILE] [--every W,W,...] [--json]",
    .help = "measure the perplexity of the mixture and its baselines on held-out text",
    CLI_TABLE(options),
    .computes = true,
    .run = run_eval};
