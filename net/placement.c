/* Computes which home owns a name (placement.h). */
#include "net/placement.h"

int pl_home_of(const char *name, int n_homes)
{
    int home = 0;
    uint64_t best = 0;
    for (int i = 0; n_homes > 1 && i < n_homes; i++) {
        char key[256];
        int len = snprintf(key, sizeof key, "home %d %s", i, name);
        uint64_t hash =
            pl_checksum(key, len < (int)sizeof key ? (size_t)len : sizeof key - 1);
        if (i > 0 && hash <= best)
            continue;
        best = hash;
        home = i;
    }
    return home;
}
