/* pathloom drain: removes a worker from a running job. The worker finishes its task,
 * gets no new one, and ends. */
#include "cli/cli.h"

typedef struct drain_request {
    run_request ask;
} drain_request;

static const cli_option options[] = {
    CLI_JOB(drain_request, ask,
            "address of the hub of a job on another machine; needs --key"),
};

static pl_status drain_worker(pl_run *r, const char *name)
{
    pl_message q = {0}, a;
    pl_message_init(&a, 0);
    q.request = pl_wire_next_request();
    PL_SAY(&q, DRAIN, drain, .name = name);
    pl_status status = pl_wire_ask(r->hub, &q, 1000, 5000, &a);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    if (status == PL_OK)
        say("%s finishes its task, gets no new one, and ends with exit code 0", name);
    return status;
}

static int run_drain(int argc, char **argv)
{
    drain_request q = {.ask = {.run = NULL}};
    cli_words words;
    pl_run r = {.lock = -1};
    pl_status status = cli_read(&verb_drain, argc, argv, &q, &words);
    if (status == PL_OK && words.n != 1)
        status = pl_fail(PL_ERR_USAGE, "drain takes the NAME of one worker; `pathloom "
                                       "status` lists the workers");
    if (status == PL_OK)
        status = run_watch(&r, &q.ask);
    if (status == PL_OK)
        status = drain_worker(&r, words.at[0]);
    pl_wire_close(&r.hub);
    return status == PL_OK ? 0 : cli_fail(status);
}

const cli_verb verb_drain = {
    .name = "drain",
    .usage = "drain NAME [--run RUN]",
    .help = "remove a worker: it finishes its task and ends",
    .options = options,
    .n_options = CLI_COUNT(options),
    .notes =
        "NAME is the name of the worker in `pathloom status`. The worker may join "
        "again; `pathloom key revoke NAME` prevents this. Workers that `train` has "
        "started itself cannot be drained.",
    .most_words = 1,
    .run = run_drain};
