/* Private to the home: the updates of a round, on their way from the store into its
 * sum.
 *
 * A merge needs memory for two updates, however many contributors there are: while one
 * is added, a thread reads and checks the next. They come in the order of the
 * contributions, which is that of the sum. */
#ifndef PL_HOME_HOME_UPDATES_H
#define PL_HOME_HOME_UPDATES_H
#include "codec/codec.h"
#include "store/store.h"

/* Borrowed until home_updates_close. */
typedef struct home_round {
    pl_store *store;
    const char *module;
    size_t n_params;
    const pl_contribution *contributions; /* [n] in (path, replica) order */
    int n;
    const float *weights; /* [n]; not read if homomorphic */
    bool homomorphic;     /* an update may stand for several contributors */
    int n_vectors;        /* of an update; the first is added */
} home_round;

typedef struct home_updates home_updates;
PL_MUST_CHECK pl_status home_updates_open(const home_round *round, home_updates **out);
/* For one thread at a time. ERR_INTERNAL at the end if the updates are not of as many
 * contributors as the round has. */
pl_codec_source home_updates_source(home_updates *u);
void home_updates_close(home_updates **u);

#endif
