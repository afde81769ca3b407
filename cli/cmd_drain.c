/* pathloom drain: lets a worker of a running job finish its task and end. */
#include "cli/cli.h"

typedef struct drain_request {
    run_request ask;
} drain_request;

static const cli_option options[] = {
    CLI_JOB(drain_request, ask,
            "address of the hub of a job on another machine; needs --key"),
};

static pl_status run_drain(int argc, char **argv)
{
    drain_request q = {.ask = {.run = NULL}};
    cli_words words;
    pl_run r = {.lock = -1};
    pl_message ask = {0}, a;
    PL_CHECK(cli_read(&verb_drain, argc, argv, &q, &words));
    if (words.n != 1)
        return pl_fail(PL_ERR_USAGE, "drain takes the NAME of one worker; `pathloom "
                                     "status` lists the workers");
    const char *name = words.at[0];
    pl_status status = run_watch(&r, &q.ask);
    if (status == PL_OK) {
        pl_message_init(&a, 0);
        ask.request = pl_wire_next_request();
        PL_SAY(&ask, DRAIN, drain, .name = name);
        status = pl_wire_ask(r.hub, &ask, 1000, 5000, &a);
        pl_message_destroy(&ask);
        pl_message_destroy(&a);
    }
    pl_wire_close(&r.hub);
    PL_CHECK(status);
    say("%s finishes its task, gets no new one, and ends with exit code 0", name);
    return PL_OK;
}

const cli_verb verb_drain = {
    .name = "drain",
    .usage = "drain NAME [--run RUN]",
    .help = "remove a worker: it finishes its task and ends",
    CLI_TABLE(options),
    .notes =
        "NAME is the name of the worker in `pathloom status`. The worker may join "
        "again; `pathloom key revoke NAME` prevents this. Workers that `train` has "
        "started itself cannot be drained.",
    .most_words = 1,
    .run = run_drain};
