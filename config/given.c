/* Collects options that a command line may give several times (given.h). */
#include "config/given.h"
#include <stdio.h>
#include <string.h>

pl_status given_add(given_settings *s, const char *key, const char *value)
{
    if (s->n == GIVEN_PAIRS_MAX || (key && s->n_made == GIVEN_MADE_MAX))
        return pl_fail(PL_ERR_USAGE, "there are more than %d settings; give fewer",
                       s->n == GIVEN_PAIRS_MAX ? GIVEN_PAIRS_MAX : GIVEN_MADE_MAX);
    if (!key) {
        s->pairs[s->n++] = value;
        return PL_OK;
    }
    char *pair = s->made[s->n_made++];
    if ((size_t)snprintf(pair, sizeof *s->made, "%s=%s", key, value) >= sizeof *s->made)
        return pl_fail(PL_ERR_USAGE, "the value of %s is longer than %d characters",
                       key, PL_KEY_TEXT_MAX);
    s->pairs[s->n++] = pair;
    return PL_OK;
}

bool given_sets(const given_settings *s, const char *key)
{
    const size_t len = strlen(key);
    for (int i = 0; i < s->n; i++)
        if (strncmp(s->pairs[i], key, len) == 0 && s->pairs[i][len] == '=')
            return true;
    return false;
}
