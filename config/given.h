/* Options that may be given several times: texts, and settings KEY=VALUE. */
#pragma once
#include "config/settings.h"

typedef struct given_texts {
    const char *items[PL_HOMES_MAX];
    int n;
} given_texts;

/* Pairs KEY=VALUE, in the order in which the user gave them. */
enum { GIVEN_PAIRS_MAX = 128, GIVEN_MADE_MAX = 16 };
typedef struct given_settings {
    const char *pairs[GIVEN_PAIRS_MAX];
    int n;
    /* memory for the pairs that given_add makes from a key and a value */
    char made[GIVEN_MADE_MAX][PL_KEY_TEXT_MAX + 32];
    int n_made;
} given_settings;

/* Adds "key=value"; key NULL: `value` is the pair. ERR_USAGE: too many, or too long. */
pl_status given_add(given_settings *s, const char *key, const char *value);
bool given_sets(const given_settings *s, const char *key);
