/* The dial of `pathloom train --for TIME` and `--tokens N`: measures this machine and
 * sets the configuration keys that config/dial.c chooses. */
#pragma once
#include "job/job.h"

/* The n keys that were chosen: pair[i] is KEY=VALUE, why[i] the reason for it. */
enum { DIAL_KEYS_MAX = 24 };
typedef struct dial_keys {
    char pair[DIAL_KEYS_MAX][64], why[DIAL_KEYS_MAX][112];
    int n;
} dial_keys;

typedef struct train_dial {
    const char *time, *tokens, *link;
    const given_settings
        *settings; /* the user's settings, which override chosen ones */
    /* `time`, `tokens` and `link` (bits per second) as numbers; 0: not given */
    double seconds, n_tokens, link_bits;
    dial_facts facts;
    dial_keys keys;
    bool chosen; /* this command has chosen the keys of a new run */
    dial_choice choice;
    double part_began, part_took[DIAL_PARTS];
} train_dial;

/* Reads --for, --tokens and --link. ERR_USAGE: a text is not valid, --for and --tokens
 * are given, or also a file RUN.yaml (`file`; NULL: none). */
pl_status train_dial_read(train_dial *d, const char *file);
bool train_dial_is_set(const train_dial *d);
/* Measures this machine, and sets what must be known before the text is read. */
pl_status train_dial_begin(train_dial *d, pl_run *r);
/* Once the run's text is known: chooses the other keys, prints and sets all. */
pl_status train_dial_finish(train_dial *d, pl_run *r);
/* Records how long a part took; call it at each end, in the order of dial_part. */
void train_dial_mark(train_dial *d, dial_part part);
/* Prints for each part of the run the time that it took and the time that was planned.
 * Prints nothing unless --for was given and this command chose the keys. */
void train_dial_account(const train_dial *d);
/* `pathloom train --link RATE`: sets the keys with which a link of this rate slows the
 * workers down least: the first of slow_link_levels (config/slow_link.h) with which the
 * transfers of a phase take no longer than its inner steps, or else the last one. Keys
 * that the user gave stay. The time of the steps is measured on this machine. Prints
 * the choice and why. `d` has the keys that were chosen before. */
pl_status train_link_choose(train_dial *d, pl_run *r);
