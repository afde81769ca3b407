/* Private to cli: the verbs. Each returns a process exit code (sysexits). */
#ifndef PL_CLI_CLI_H
#define PL_CLI_CLI_H
#include "job/job.h"
#include <signal.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct verb {
    const char *name, *usage, *help,
        *options;                      /* options NULL: store_explain has them */
    int (*run)(int argc, char **argv); /* argv[0] is the verb */
    bool hidden; /* a process of the fleet: not in the short help */
} verb;
extern const verb verbs[];
extern const size_t n_verbs;

int cmd_init(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_store(int argc, char **argv);
int store_explain(int argc, char **argv); /* argv[0] is "store" */
int cmd_audit(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_hub(int argc, char **argv);
int cmd_home(int argc, char **argv);

int cmd_join(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_homes(int argc, char **argv);

int cmd_explain(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_relay(int argc, char **argv);
int cmd_worker(int argc, char **argv);

/* Prints "pathloom: SENTENCE" and returns the status's exit code. */
int cli_fail(pl_status status);
/* From here on an exception that nobody catches ends the process as `tell` does: it
 * prints the last error and returns the exit code. */
void cli_catch_uncaught(int (*tell)(pl_status status));
/* Of train, when a signal has stopped it. */
enum { CLI_EXIT_STOPPED = 130 };
/* The flag that SIGTERM, SIGUSR1 and, unless it was ignored, SIGHUP (and SIGINT, if
 * asked) set to 1, a second one to 2; a second SIGINT ends the process at once. */
volatile sig_atomic_t *cli_stop_flag(bool with_interrupt);
/* From here on the first SIGINT ends the process: nothing is left to drain. */
void cli_stop_at_once(void);
/* What getopt_long could not read: ERR_USAGE, with the nearest known option. `option`
 * is ':' for a missing value; argv[0] is the verb. */
struct option;
pl_status cli_bad_option(int option, char **argv, const struct option *known);

/* Options common to verbs that take a configuration. */
typedef struct cli_options {
    run_request ask;
    char made[8][PL_KEY_TEXT_MAX + 32]; /* settings that short forms became */
    int n_made;
    bool json;
    bool reference;      /* init: the keys as a Markdown page */
    bool list;           /* init: the presets */
    const char *rest[8]; /* words that no option takes; ask.file is the first */
    int n_rest;
} cli_options;
/* Short forms --corpus X, --valid X, --out X, --workers N become sets. ERR_USAGE. */
pl_status cli_parse(int argc, char **argv, cli_options *out);
/* ERR_USAGE if there are words that no option takes. */
pl_status cli_no_words(const cli_options *o, const char *name);

#ifdef __cplusplus
}
#endif
#endif
