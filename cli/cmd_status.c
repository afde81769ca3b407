/* pathloom status: prints what a running job is doing, as its hub reports it. */
#include "cli/cli.h"
#include "view/view.h"

static void print_status(const pl_json *status)
{
    const pl_json *arms = pl_json_get(status, "arms"),
                  *workers = pl_json_get(status, "workers"),
                  *homes = pl_json_get(status, "homes");
    for (size_t i = 0; i < pl_json_count(arms); i++) {
        const pl_json *a = pl_json_at(arms, i);
        const double bits = pl_json_get_real(a, "held_out_bits_per_byte");
        char held[80] = "";
        if (bits > 0)
            snprintf(held, sizeof held,
                     "; held-out text %.4f bits/byte after phase %.0f", bits,
                     pl_json_get_real(a, "held_out_phase"));
        say("arm      %-9s %4.0f of %4.0f tasks done%s", pl_json_get_text(a, "arm"),
            pl_json_get_real(a, "tasks_done"), pl_json_get_real(a, "tasks"), held);
    }
    for (size_t i = 0; i < pl_json_count(workers); i++) {
        const pl_json *w = pl_json_at(workers, i);
        char task[PL_MODULE_NAME_MAX + 64] = "";
        if (pl_json_get_text(w, "task")[0])
            snprintf(task, sizeof task, "%s phase %.0f step %.0f",
                     pl_json_get_text(w, "task"), pl_json_get_real(w, "phase"),
                     pl_json_get_real(w, "step"));
        say("worker   %-10s %-5s %7.0f tokens/s  %4.0f tasks  %s",
            pl_json_get_text(w, "worker"), pl_json_get_text(w, "state"),
            pl_json_get_real(w, "tokens_per_second"), pl_json_get_real(w, "tasks"),
            task);
        if (pl_json_get_text(w, "reason")[0])
            say("         %s: %s", pl_json_get_text(w, "doing"),
                pl_json_get_text(w, "reason"));
    }
    for (size_t i = 0; i < pl_json_count(homes); i++) {
        const pl_json *h = pl_json_at(homes, i);
        char size[80], space[16];
        say("home     %-24s %s  store %s, %s free; %.0f versions, %.0f updates wait",
            pl_json_get_text(h, "address"), pl_json_get_bool(h, "up") ? "up" : "away",
            progress_store_size(h, size),
            pl_human_bytes(pl_json_get_real(h, "disk_free_bytes"), space),
            pl_json_get_real(h, "versions_committed"), pl_json_get_real(h, "pending"));
        if (pl_json_get_text(h, "last_rejection")[0])
            say("rejected %s", pl_json_get_text(h, "last_rejection"));
    }
    say("leases   %.0f granted, %.0f expired; tasks failed %.0f; backups %.0f, of "
        "which %.0f finished first",
        pl_json_get_real(status, "leases_granted"),
        pl_json_get_real(status, "leases_expired"),
        pl_json_get_real(status, "tasks_failed"),
        pl_json_get_real(status, "backups_granted"),
        pl_json_get_real(status, "backups_won"));
    const pl_json *fenced = pl_json_get(status, "fenced");
    double agreed = pl_json_get_real(status, "audits_agreed"),
           differed = pl_json_get_real(status, "audits_differed"),
           open = pl_json_get_real(status, "audits_open");
    const double unchecked = pl_json_get_real(status, "audits_unchecked");
    const pl_json *waiting = pl_json_get(status, "audits_waiting");
    char text[PROGRESS_WAITING_MAX];
    if (agreed + differed + open + unchecked > 0)
        say("audits   %.0f agreed, %.0f differed, %.0f unchecked, %.0f open", agreed,
            differed, unchecked, open);
    for (size_t i = 0; i < pl_json_count(waiting); i++)
        say("audits   %s", progress_waiting(pl_json_at(waiting, i), text));
    for (size_t i = 0; i < pl_json_count(fenced); i++)
        say("fenced   %s", pl_json_get_text(pl_json_at(fenced, i), "reason"));
    if (pl_json_get_text(status, "failure")[0])
        say("failure  %s", pl_json_get_text(status, "failure"));
}

typedef struct status_request {
    run_request ask;
    bool json, history;
} status_request;

static const cli_option options[] = {
    CLI_JOB(status_request, ask,
            "address of the hub of a job on another machine; needs --key"),
    CLI_OPTION(
        "history", CLI_FLAG, status_request, history, NULL,
        "print one line per finished phase of each arm, also of a run without a "
        "job, as CSV: losses, held-out text, tokens, versions, audits, restarts"),
    CLI_JSON(status_request, json),
};

static pl_status run_status(int argc, char **argv)
{
    status_request q = {.json = false};
    pl_run r = {.lock = -1};
    char sentence[1024];
    pl_store *store = NULL;
    pl_json *json = NULL;
    pl_buf text = {0};
    pl_status status = PL_OK;
    PL_CHECK(cli_read(&verb_status, argc, argv, &q, NULL));
    if (q.history) {
        PL_TRY(history_of_run(q.ask.run, q.json, &text));
        fwrite(text.data, 1, text.len, stdout);
        goto done;
    }
    status = run_watch(&r, &q.ask);
    if (status == PL_OK)
        status = run_ask_hub(&r, &json);
    /* No job is running. The answer is {"finished": true} if the run is finished,
     * otherwise an error. So a script of a cluster can ask whether work is left. */
    if (status == PL_ERR_NOT_FOUND) {
        bool ended = false;
        pl_copy_text(sentence, sizeof sentence, pl_last_error());
        if (store_open_run(r.dir, &store) == PL_OK)
            (void)run_has_ended(store, &ended);
        pl_store_close(&store);
        if (!ended)
            PL_TRY(pl_fail(PL_ERR_NOT_FOUND, "%s", sentence));
        json = pl_json_object();
        pl_json_set_bool(json, "finished", true);
        status = PL_OK;
    }
    PL_TRY(status);
    if (q.json) {
        say_json(json);
        json = NULL;
    } else if (pl_json_get(json, "finished")) {
        say("finished: the run in %s is trained; see `pathloom eval --run %s`", r.dir,
            r.dir);
    } else {
        print_status(json);
    }
done:
    pl_buf_destroy(&text);
    pl_json_destroy(&json);
    run_close(&r);
    return status;
}

const cli_verb verb_status = {.name = "status",
                              .usage = "status --run RUN [--history] [--json]",
                              .help = "print what a running job does",
                              CLI_TABLE(options),
                              .run = run_status};
