/* Which of n homes owns a name: rendezvous hashing (docs/PROTOCOL.md 2.4). A home more
 * takes its share of the names from all others, and moves no other name. */
#include "outer/messages.h"

int pl_home_of(const char *name, int n_homes)
{
    int best = 0;
    uint64_t best_score = 0;
    for (int home = 0; home < n_homes; home++) {
        char key[256];
        int len = snprintf(key, sizeof key, "home %d %s", home, name);
        size_t used = len < (int)sizeof key ? (size_t)len : sizeof key - 1;
        uint64_t score = pl_checksum(key, used);
        if (home == 0 || score > best_score) {
            best = home;
            best_score = score;
        }
    }
    return best;
}
