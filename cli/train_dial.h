/* Private to cli: `pathloom train --for TIME` and `--tokens N`. */
#ifndef PL_CLI_TRAIN_DIAL_H
#define PL_CLI_TRAIN_DIAL_H
#include "cli/options.h"

/* Chosen keys as KEY=VALUE, and why. */
enum { DIAL_KEYS_MAX = 16 };
typedef struct dial_keys {
    char pair[DIAL_KEYS_MAX][64], why[DIAL_KEYS_MAX][112];
    int n;
} dial_keys;

typedef struct train_dial {
    const char *time, *tokens;    /* as given; NULL: not */
    const cli_settings *settings; /* they override what is chosen */
    double seconds, n_tokens;     /* one of them is 0 */
    dial_facts facts;
    dial_keys keys;
    bool chosen; /* by this command, for a new run */
    dial_choice choice;
    double part_began, part_took[DIAL_PARTS];
} train_dial;

/* Reads --for and --tokens. ERR_USAGE. `file` is the RUN.yaml of the command line. */
PL_MUST_CHECK pl_status train_dial_read(train_dial *d, const char *file);
bool train_dial_is_set(const train_dial *d);
/* Measures this machine, and sets what must be known before the text is read. */
PL_MUST_CHECK pl_status train_dial_begin(train_dial *d, pl_run *r);
/* When the run's text is known: chooses all keys, prints them, and gives them to the
 * run. */
PL_MUST_CHECK pl_status train_dial_finish(train_dial *d, pl_run *r);
/* Notes that a part of the run has just ended; they end in their order. */
void train_dial_mark(train_dial *d, dial_part part);
/* Prints what each part took beside what was planned. */
void train_dial_account(const train_dial *d);

#endif
