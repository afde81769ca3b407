/* Private to cli: the options of the processes of a job (hub, home, relay, worker). */
#pragma once
#include "cli/cli.h"

/* Options of all roles, and options of roles that listen at an address. */
#define PROCESS_OPTIONS                                                                \
    CLI_OPTION("run", CLI_TEXT, process, run, "RUN",                                   \
               "folder of the run: its configuration, keys and addresses"),            \
        CLI_SETTINGS(process, settings,                                                \
                     "set a key that does not change training, for this process"),     \
        CLI_OPTION("key", CLI_TEXT, process, key, "FILE",                              \
                   "file with the key of this process; needed if other machines can "  \
                   "reach the job"),                                                   \
        LOG_OPTIONS
#define LOG_OPTIONS                                                                    \
    CLI_OPTION("log-json", CLI_FLAG, process, log_json, NULL,                          \
               "write log lines as JSON"),                                             \
        CLI_OPTION("verbose", CLI_FLAG, process, verbose, NULL, "log more")
#define LISTEN_OPTIONS(setting)                                                        \
    CLI_KEY("listen", process, settings, "ADDRESS", setting,                           \
            "address to listen at, tcp://HOST:PORT; 0.0.0.0: all interfaces, *: a "    \
            "free port (" setting " of the run)"),                                     \
        CLI_OPTION("keys", CLI_TEXT, process, keys, "FILE",                            \
                   "file with the list of keys that may connect"),                     \
        CLI_KEY("advertise", process, settings, "HOST", "net.advertise",               \
                "host name or address that other machines use for this process "       \
                "(its address)"),                                                      \
        CLI_OPTION("ready", CLI_TEXT, process, ready, "FILE",                          \
                   "file that gets the address when the process listens")
#define INDEX_OPTION(text)                                                             \
    CLI_NUMBER("index", CLI_INT, process, index, "I", 1, 4096, text)
/* Options that say how a worker computes. They are needed because a worker that joined
 * from another machine has no run folder with a configuration. */
#define COMPUTE_OPTIONS                                                                \
    CLI_KEY("backend", process, settings, "NAME", "workers.backend",                   \
            "auto, ref, cpu or cuda (default: the run's, or auto)"),                   \
        CLI_KEY("precision", process, settings, "NAME", "workers.precision",           \
                "auto, f32, bf16 or f16 (default: the run's, or auto)"),               \
        CLI_KEY("threads", process, settings, "N", "workers.threads",                  \
                "number of threads that compute (default: the run's, or 1)"),          \
        CLI_KEY("recompute", process, settings, NULL, "workers.recompute",             \
                "compute activations again in the backward pass: less memory"),        \
        CLI_KEY("cache-bytes", process, settings, "N", "workers.cache",                \
                "memory to keep modules and optimizer states for later tasks (512M)"), \
        CLI_KEY(                                                                       \
            "patience-s", process, settings, "N", "workers.patience_s",                \
            "how many seconds hub and homes may be unreachable (60; without --run a "  \
            "day)"),                                                                   \
        CLI_NUMBER("device", CLI_INT64, process, device, "N", 0, 4096,                 \
                   "number of the GPU, modulo the number of GPUs (0)"),                \
        CLI_OPTION("cache", CLI_TEXT, process, cache, "FOLDER",                        \
                   "folder for data shards, which the workers of a machine share"),    \
        CLI_OPTION(                                                                    \
            "name", CLI_TEXT, process, name, "NAME",                                   \
            "name of the worker in its contributions (made from machine and key)"),    \
        CLI_OPTION("offer", CLI_TEXT, process, offer, "ADDRESS",                       \
                   "address at which other workers get its updates (noloco); "         \
                   "default: none"),                                                   \
        CLI_NUMBER("grace-s", CLI_INT64, process, grace_s, "N", 0, 1 << 20,            \
                   "seconds to finish its tasks after TERM or USR1; then it gives "    \
                   "them back; 0: no limit (0)")
