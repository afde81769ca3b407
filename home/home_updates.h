/* Private to the folder home: reads the updates of a round from the store, so that the
 * codec can add them.
 *
 * Updates are read in batches, so a merge needs memory for only one batch, even if
 * there are many contributors. A batch has one update per thread, or as many small
 * updates as fit into ahead_bytes (the hashes of a batch are computed together).
 * Updates are read and added in the order of the contributions. */
#pragma once
#include "codec/codec.h"
#include "store/store.h"

/* A home_updates borrows these pointers until home_updates_destroy. */
typedef struct home_round {
    pl_store *store;
    const char *module;
    size_t n_params;
    const pl_contribution *contributions; /* [n] sorted by (path, replica) */
    int n;
    const float *weights; /* [n] weights; not read if updates are homomorphic */
    /* homomorphic: one update may be the sum of several contributors' updates */
    bool homomorphic;
    int n_vectors; /* number of vectors in an update; the first one is added */
    /* a batch has at most this many bytes, or one update per thread if that is more */
    size_t ahead_bytes;
} home_round;

typedef struct home_updates home_updates;
home_updates *home_updates_create(const home_round *round);
/* Returns the updates as a source for the codec. Only one thread at a time may use the
 * source. At its end the source returns ERR_INTERNAL if the updates do not have as many
 * contributors as the round. */
pl_codec_source home_updates_source(home_updates *u);
void home_updates_destroy(home_updates **u);
