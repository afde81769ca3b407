/* pathloom train: from text to the final table. It can be stopped and repeated. */
#include "cli/cli.h"
#include "measure/measure.h"
#include <unistd.h>

static pl_status train_stages(pl_run *r, train_dial *dial)
{
    PL_CHECK(run_start(r));
    train_dial_mark(dial, DIAL_START);
    if (r->lengthened)
        PL_CHECK(pl_client_put_ref(r->client, "finished", ""));
    PL_CHECK(forgotten_note(r));
    PL_CHECK(stage_base(r));
    train_dial_mark(dial, DIAL_BASE);
    PL_CHECK(stage_route(r));
    train_dial_mark(dial, DIAL_ROUTING);
    worker_times before = worker_times_now(r);
    pl_status status = stage_arms(r);
    train_dial_mark(dial, DIAL_PATHS);
    if (status == PL_OK)
        status = worker_times_report(r, &before);
    pl_json_destroy(&before.status);
    PL_CHECK(status);
    return pl_client_put_ref(r->client, "finished", r->cfg.levels);
}

static pl_status report(pl_run *r)
{
    evaluation e = {0};
    pl_store *store = NULL;
    pl_status status = PL_OK;
    curves_tick(r->curves, true);
    say("score    every model predicts the held-out text");
    PL_TRY(store_open_run(r->dir, &store));
    PL_TRY(evaluate(r, store, NULL, &e));
    curves_evaluation(r, &e);
    evaluation_print(r, &e);
    run_say_peak(r);
    /* before a second evaluation, which may fail */
    PL_TRY(run_write_json(r, "report.json", evaluation_json(r, &e), 2, "\n"));
    PL_TRY(evaluation_print_before(r, store, &e));
    PL_TRY(evaluation_samples(r, store, &e));
done:
    evaluation_clear(&e);
    pl_store_close(&store);
    return status;
}

/* Prepares text and configuration. With --for or --tokens, the keys of a new run are
 * chosen by the text and by the speed of this machine. Later commands keep them. */
static pl_status prepare_run(pl_run *r, train_dial *dial)
{
    const bool decided = r->resumed || r->took_saved;
    const bool chooses = train_dial_is_set(dial) && !decided;
    if ((train_dial_is_set(dial) || dial->link) && decided)
        say("dial     the keys of this run were chosen before; they are in its "
            "run.yaml");
    PL_CHECK(run_find_device(r));
    if (chooses)
        PL_CHECK(train_dial_begin(dial, r));
    else if (dial->link && !decided)
        PL_CHECK(train_link_choose(dial, r));
    if (!chooses)
        PL_CHECK(run_plan(r));
    PL_CHECK(run_check(r));
    PL_CHECK(stage_data(r));
    if (!chooses)
        return PL_OK;
    PL_CHECK(train_dial_finish(dial, r));
    if (dial->link)
        PL_CHECK(train_link_choose(dial, r));
    return run_plan(r);
}

static pl_status train_run(pl_run *r, train_dial *dial, pl_launcher **viewer)
{
    pl_status status = PL_OK;
    say("pathloom %s  run %s%s", PL_VERSION, r->dir, r->resumed ? ", resumed" : "");
    if (isatty(1) == 1)
        say("         Ctrl+C stops the job after its tasks; the same command continues "
            "it");
    PL_CHECK(prepare_run(r, dial));
    r->curves = curves_open(r);
    PL_CHECK(run_save(r));
    if (viewer) {
        /* The page is a separate process that only reads, and that ends with this
         * command. If it does not start, the training continues without a page. */
        char logs[PL_PATH_MAX], proc[PL_PATH_MAX], ready[PL_PATH_MAX];
        char address[PL_ADDRESS_MAX];
        const char *argv[] = {"pathloom", "page",
                              "--run",    r->dir,
                              "--listen", "127.0.0.1:*",
                              "--ready",  run_file(r, "proc/page.address", ready),
                              NULL};
        status = pl_make_folders(run_file(r, "proc", proc));
        if (status == PL_OK)
            status =
                pl_launcher_create("/proc/self/exe", run_file(r, "log", logs), viewer);
        if (status == PL_OK)
            status = pl_launcher_start(*viewer, "page", argv, ready);
        if (status == PL_OK)
            status = run_await_child(r, *viewer, "page", 30000, address);
        if (status == PL_OK)
            say("page     http://%s/", address);
        else
            say("note     there is no page: %s", pl_last_error());
    }
    status = train_stages(r, dial);
    if (status == PL_ERR_CANCELLED)
        say("stopping: the workers of this machine finish their tasks; Ctrl+C again\n"
            "         stops at once, without losing a committed version");
    /* Only a job that is stopped before its end waits for tasks. When all arms are
     * finished, no task is needed, and a worker that hangs must not delay the end.
     * Later errors, while the processes end, must not replace the first error. */
    char sentence[1024];
    pl_copy_text(sentence, sizeof sentence, pl_last_error());
    run_stop(r, status);
    if (status != PL_OK)
        return pl_fail(status, "%s", sentence);
    cli_stop_at_once();
    PL_CHECK(report(r));
    train_dial_mark(dial, DIAL_EVALUATION);
    char took[16];
    say("%s", "");
    if (r->cfg.audit > 0) {
        int64_t counts[PL_VERDICT_COUNT];
        pl_store *store = NULL;
        PL_CHECK(store_open_run(r->dir, &store));
        status = pl_audits_count(store, counts);
        pl_store_close(&store);
        PL_CHECK(status);
        say("audits   %lld agreed, %lld dropped a result, %lld unchecked%s",
            (long long)counts[PL_VERDICT_AGREED],
            (long long)(counts[PL_VERDICT_ODD] + counts[PL_VERDICT_UNDECIDED]),
            (long long)counts[PL_VERDICT_UNCHECKED],
            counts[PL_VERDICT_UNCHECKED] > 0
                ? ": the job has no own worker of their device"
                : "");
    }
    train_dial_account(dial);
    say("done in %s; try next", pl_human_seconds(pl_now() - r->started, took));
    say("  pathloom generate --run %s --prompt \"The\"", r->dir);
    say("  pathloom eval --run %s      # also by domain and by path", r->dir);
    return PL_OK;
}

typedef struct train_request {
    given_settings settings;
    bool page, dry;
    train_dial dial;
} train_request;

/* Some keys have options that are shorter than --set. */
static const cli_option options[] = {
    CLI_KEY("corpus", train_request, settings, "PATH", "data.corpus",
            "text to train on: a file, a folder or JSON lines, also .gz .zst .xz .bz2; "
            "-: standard input; a single text file is cut into documents (data.cut)"),
    CLI_KEY("valid", train_request, settings, "PATH", "data.valid",
            "held-out text; without it, a share of the documents is held out"),
    CLI_KEY("out", train_request, settings, "RUN", "out",
            "folder of the run (default: pathloom-run); the same command resumes it"),
    CLI_KEY("workers", train_request, settings, "N", "workers.count",
            "number of workers; 0: one per GPU or processor"),
    CLI_OPTION(
        "page", CLI_FLAG, train_request, page, NULL,
        "show the run in a browser while this command runs; the address is printed"),
    CLI_OPTION(
        "dry-run", CLI_FLAG, train_request, dry, NULL,
        "only print the plan, with the paths and modules that are dropped or added"),
    CLI_OPTION("for", CLI_TEXT, train_request, dial.time, "TIME",
               "choose model, paths and training so that the whole command takes this "
               "time on this machine: 90s, 15min, 2h; --set overrides single keys"),
    CLI_OPTION("tokens", CLI_TEXT, train_request, dial.tokens, "N",
               "choose model, paths and training for this number of training tokens, "
               "including those of the base model"),
    CLI_OPTION(
        "link", CLI_TEXT, train_request, dial.link, "RATE",
        "choose how much the workers send, so that links of this rate (500kbit, 5mbit; "
        "in each direction) do not slow them down; --set overrides single keys"),
    CLI_SETTINGS(train_request, settings,
                 "set any key; may be repeated; `pathloom init` lists the keys"),
};

static pl_status run_train(int argc, char **argv)
{
    train_request t = {.settings = {.n = 0}, .dial = {.time = NULL}};
    cli_words words;
    pl_launcher *viewer = NULL;
    pl_run r;
    PL_CHECK(cli_read(&verb_train, argc, argv, &t, &words));
    t.dial.settings = &t.settings;
    PL_CHECK(train_dial_read(&t.dial, words.n > 0 ? words.at[0] : NULL));
    const run_request ask = {.file = words.n > 0 ? words.at[0] : NULL,
                             .sets = t.settings.pairs,
                             .n_sets = t.settings.n};
    pl_status status = run_open(&ask, &r);
    if (status == PL_OK && t.dry && (train_dial_is_set(&t.dial) || t.dial.link)) {
        status =
            pl_fail(PL_ERR_USAGE, "--dry-run measures nothing, but --for, --tokens and "
                                  "--link need measurements; leave them out");
    } else if (status == PL_OK && t.dry) {
        status = run_find_device(&r);
        if (status == PL_OK)
            status = run_plan(&r);
        if (status == PL_OK && !r.resumed)
            status = run_plan_data(&r);
    } else if (status == PL_OK) {
        r.stop = cli_stop_flag(true);
        status = train_run(&r, &t.dial, t.page ? &viewer : NULL);
    }
    /* The error is told before everything is closed, which may take seconds. */
    char store[PL_PATH_MAX];
    if (status != PL_OK && status != PL_ERR_CANCELLED)
        (void)cli_fail(status);
    if (status == PL_ERR_CANCELLED) {
        if (pl_path_exists(run_file(&r, "store", store)))
            say("stopped; everything committed is in %s,\n"
                "         and the same command continues from there",
                r.dir);
        else
            say("stopped before anything was trained; the same command starts again");
    }
    if (viewer)
        pl_launcher_stop(viewer, "", 5000);
    pl_launcher_destroy(&viewer);
    run_close(&r);
    return status == PL_OK ? PL_OK : pl_fail(status, "%s", "");
}

const cli_verb verb_train = {
    .name = "train",
    .usage = "train [RUN.yaml] [--corpus PATH] [--valid PATH] [--out RUN] [--for TIME] "
             "[--set KEY=VALUE]",
    .help =
        "train a mixture of paths; without arguments, on text that this machine has",
    CLI_TABLE(options),
    .notes = "RUN.yaml is a configuration; `pathloom init` writes one.\n\n"
             "After Ctrl+C, TERM, USR1, USR2 or HUP (a dropped connection) the workers "
             "finish their tasks, and the job ends; the exit code is 130, and the same "
             "command continues the run. A second Ctrl+C stops at once and loses no "
             "committed version. Under nohup, HUP is ignored.",
    .most_words = 1,
    .computes = true,
    .run = run_train};
