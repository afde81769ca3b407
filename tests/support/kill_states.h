/* Makes the states that a killed process can leave in a folder. Only one process runs
 * for all states: at each fail point it is stopped instead of killed, and the folder is
 * copied. The copy has the files that the process would have left, because a kill takes
 * back no write. */
#pragma once
#include "tests/support/store_child.h"

/* Runs the test's own program like die_at, until it ends with exit code 0. Whenever it
 * passes one of `points`, a list that ends with NULL, the folder `changed` is copied to
 * `states`/1, `states`/2 and so on. A state that equals the one before it is left out.
 * Returns the number of states. */
int make_kill_states(const char *const *points, const char *program, const char *folder,
                     const char *more, const char *changed, const char *states);

/* Puts state `n` in the place of the folder `changed`, whose files are deleted. */
void take_kill_state(const char *states, int n, const char *changed);
