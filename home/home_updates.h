/* Private to the home: reads the updates of a round from the store, so that they can be
 * added.
 *
 * Updates are read in batches, so a merge needs memory for one batch only, however many
 * contributors there are. A batch has one update per thread, or as many small updates
 * as fit into 16 MiB (their hashes are computed together). Updates are read in the
 * order of the contributions, in which they are added. */
#ifndef PL_HOME_HOME_UPDATES_H
#define PL_HOME_HOME_UPDATES_H
#include "codec/codec.h"
#include "store/store.h"

/* The object borrows these pointers until home_updates_destroy. */
typedef struct home_round {
    pl_store *store;
    const char *module;
    size_t n_params;
    const pl_contribution *contributions; /* [n] by (path, replica) */
    int n;
    const float *weights; /* [n] weights; not read if updates are homomorphic */
    /* updates are homomorphic: one may stand for several contributors */
    bool homomorphic;
    int n_vectors; /* number of vectors in an update; the first one is added */
    /* most bytes of a batch, unless one update per thread needs more */
    size_t ahead_bytes;
} home_round;

typedef struct home_updates home_updates;
home_updates *home_updates_create(const home_round *round);
/* The source may be used by one thread at a time. At the end it returns ERR_INTERNAL if
 * the number of contributors in the updates is not that of the round. */
pl_codec_source home_updates_source(home_updates *u);
void home_updates_destroy(home_updates **u);

#endif
