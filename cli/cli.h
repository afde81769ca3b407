/* Private to cli: the verbs (pathloom's commands), and what they share. */
#pragma once
#include "cli/options.h"
#include <signal.h>
PL_C_BEGIN

/* The verbs. Each verb has a separate file, cmd_NAME.c. */
extern const cli_verb verb_train, verb_eval, verb_generate, verb_route, verb_serve,
    verb_export, verb_import, verb_store, verb_check, verb_data, verb_audit,
    verb_forget, verb_status, verb_observe, verb_top, verb_page, verb_doctor,
    verb_explain, verb_init, verb_bench, verb_key, verb_drain, verb_homes, verb_join,
    verb_hub, verb_home, verb_relay, verb_worker;
/* All verbs, in the order in which the help lists them. */
extern const cli_verb *const cli_verbs[];
extern const size_t cli_n_verbs;

/* Prints "pathloom: SENTENCE", unless the sentence is empty, and returns the exit code
 * of the status; for PL_ERR_CANCELLED without a sentence this is CLI_EXIT_STOPPED. */
int cli_fail(pl_status status);
/* Whether an argument before `--` is this word. */
bool cli_has_word(int argc, char **argv, const char *word);
/* After this call, a C++ exception that no code catches ends the process like any
 * error: `tell` prints the last error and returns the exit code. */
void cli_catch_uncaught(int (*tell)(pl_status status));
enum { CLI_EXIT_STOPPED = 130 };
/* Whether a signal has told this process to stop; false under a launcher. */
bool cli_was_stopped(void);
/* Returns a flag that signals set. The signals are SIGTERM, SIGUSR1, SIGUSR2, SIGHUP
 * (unless it was ignored) and, if with_interrupt is true, SIGINT. The first signal sets
 * the flag to 1, the second to 2. A second SIGINT ends the process at once. */
volatile sig_atomic_t *cli_stop_flag(bool with_interrupt);
/* Call this before cli_stop_flag in a process of a job. If a launcher has started the
 * process, only the launcher's signals set the flag, and only to 1; in a worker other
 * signals do so, too. */
void cli_end_with_launcher(bool is_worker);
/* From now on the first SIGINT ends the process, because no work is left. */
void cli_stop_at_once(void);
PL_C_END
