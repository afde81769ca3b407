/* pathloom hub, home, relay, worker: each runs one process of a job
 * (job/process_roles.c). `train` starts these processes, but users can also start them.
 * Each process may die and be restarted at any time. */
#include "cli/process_options.h"

static int run_process(int argc, char **argv);

static const cli_option hub_options[] = {
    PROCESS_OPTIONS,
    LISTEN_OPTIONS("net.hub"),
    CLI_OPTION("home", CLI_LIST, process, homes, "ADDRESS",
               "address of a home; give it once for each home (default: the run's)"),
    CLI_KEY("metrics", process, settings, "HOST:PORT", "net.metrics",
            "where to serve Prometheus metrics, at /metrics"),
};

const cli_verb verb_hub = {.name = "hub",
                           .usage = "hub --run RUN [--listen ADDRESS]",
                           .help = "run a hub: it gives tasks to workers",
                           CLI_TABLE(hub_options),
                           .run_process = run_process};

static const cli_option home_options[] = {
    PROCESS_OPTIONS,
    LISTEN_OPTIONS("net.home"),
    INDEX_OPTION("number of this home, if the run has several homes"),
    CLI_OPTION(
        "store", CLI_TEXT, process, store, "FOLDER",
        "folder of its store, which is made if it does not exist (default: the run's)"),
};

const cli_verb verb_home = {
    .name = "home",
    .usage = "home --run RUN [--index I] [--listen ADDRESS]",
    .help = "run a home: it owns a store and makes versions from updates",
    CLI_TABLE(home_options),
    .run_process = run_process};

static const cli_option worker_options[] = {
    PROCESS_OPTIONS,
    INDEX_OPTION("number of this worker among the run's own workers"),
    CLI_OPTION("hub", CLI_TEXT, process, hub, "ADDRESS",
               "address of the hub that gives it tasks: tcp://HOST:PORT#KEY (default: "
               "the run's)"),
    CLI_OPTION("home", CLI_LIST, process, homes, "ADDRESS",
               "address of a relay to use instead of a home; give it once per home"),
    COMPUTE_OPTIONS,
};

const cli_verb verb_worker = {
    .name = "worker",
    .usage = "worker --run RUN | --hub ADDRESS --key FILE",
    .help = "run a worker: it trains the tasks that the hub gives it",
    CLI_TABLE(worker_options),
    .computes = true,
    .run_process = run_process};

static const cli_option relay_options[] = {
    PROCESS_OPTIONS,
    LISTEN_OPTIONS("net.home"),
    INDEX_OPTION("number of this relay among the run's relays"),
    CLI_OPTION(
        "home", CLI_LIST, process, homes, "ADDRESS",
        "address of the home, or of a relay on the way to it (default: the run's)"),
    CLI_NUMBER("expect", CLI_INT64, process, expect, "N", 0, 1 << 20,
               "number of workers (or relays) that will connect; 0: unknown (0)"),
    CLI_NUMBER("wait-ms", CLI_INT64, process, wait_ms, "N", 0, 30000,
               "longest time in ms for which an update waits for others (500)"),
    CLI_KEY("patience-s", process, settings, "N", "workers.patience_s",
            "how many seconds the home may be unreachable (60; without --run a day)"),
};

const cli_verb verb_relay = {
    .name = "relay",
    .usage = "relay --home ADDRESS [--expect N] [--wait-ms N]",
    .help =
        "run a relay: it sums updates (of homomorphic codecs) on their way to a home",
    CLI_TABLE(relay_options),
    .notes = "To make a worker use this relay, start it with --home and the address of "
             "the relay.",
    .run_process = run_process};

static int run_process(int argc, char **argv)
{
    static const cli_verb *const all[] = {&verb_hub, &verb_home, &verb_worker,
                                          &verb_relay};
    const char *role = argv[0];
    const cli_verb *const *verb = all;
    process p = {.wait_ms = 500};
    while (strcmp((*verb)->name, role) != 0)
        verb++;
    pl_status status = cli_read(*verb, argc, argv, &p, NULL);
    if (status == PL_OK)
        status = process_open(&p, role);
    if (status != PL_OK)
        return cli_fail(status);
    cli_end_with_launcher(*verb == &verb_worker);
    p.stop = cli_stop_flag(false);
    const int code = process_run(&p, role);
    /* 0 tells a supervisor (systemd, Kubernetes) that there is no more work */
    return code == 0 && *verb == &verb_worker && cli_was_stopped() ? CLI_EXIT_STOPPED
                                                                   : code;
}
