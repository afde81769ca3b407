/* Private to the home: reads the updates of a round from the store for their sum.
 *
 * Updates are read in runs, so a merge needs memory for one run only, however many
 * contributors there are. A run has one update per thread, or as many small ones as
 * have 16 MiB together (their hashes are computed side by side). Updates come in the
 * order of the contributions, which is the order of the sum. */
#ifndef PL_HOME_HOME_UPDATES_H
#define PL_HOME_HOME_UPDATES_H
#include "codec/codec.h"
#include "store/store.h"

/* Borrowed until home_updates_destroy. */
typedef struct home_round {
    pl_store *store;
    const char *module;
    size_t n_params;
    const pl_contribution *contributions; /* [n] in (path, replica) order */
    int n;
    const float *weights; /* [n]; not read if homomorphic */
    bool homomorphic;     /* an update may stand for several contributors */
    int n_vectors;        /* of an update; the first is added */
    size_t ahead_bytes;   /* of a run, unless it has only one update per thread */
} home_round;

typedef struct home_updates home_updates;
home_updates *home_updates_create(const home_round *round);
/* For one thread at a time. At the end it returns ERR_INTERNAL if the updates do not
 * stand for as many contributors as the round has. */
pl_codec_source home_updates_source(home_updates *u);
void home_updates_destroy(home_updates **u);

#endif
