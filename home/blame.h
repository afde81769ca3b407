/* Which workers and updates made a version.
 *
 * It follows the version's real descent: a version that a rollback made stands for the
 * version it went back to, and versions between the two do not count.
 *
 * A contributor's share of a version is its part of the sum of weighted norms, a_i
 * |d_i| with a_i = w_i / sum w: how far it pulled, whatever the others did. Over a
 * history, shares are weighted by how far each version moved. */
#ifndef PL_HOME_BLAME_H
#define PL_HOME_BLAME_H
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_sample_range {
    uint64_t first, end;
} pl_sample_range;

/* One worker on one path. */
typedef struct pl_contributor {
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    int64_t path, replica;
    pl_sample_range *samples; /* in the path's own order; adjacent ranges are one */
    size_t n_ranges;
    uint64_t n_samples, n_tokens, n_versions;
    double seconds, loss; /* loss: of the newest version */
    double pull;  /* sum over versions of its share times how far the version moved */
    double share; /* its part of the pulls of all */
} pl_contributor;

typedef struct pl_blame {
    pl_contributor *list; /* the largest share first */
    size_t n;
    uint64_t
        source;   /* the version asked for, or the one that a rollback went back to */
    bool merged;  /* its contributors are versions (merged.h): "mix/L1.E0@3" */
    double moved; /* sum of the norms of the versions' updates */
} pl_blame;

/* With `history`: of all versions up to this one. Call pl_blame_clear afterwards. */
PL_MUST_CHECK pl_status pl_blame_gather(pl_store *store, const char *module,
                                        uint64_t number, bool history, pl_blame *out);
void pl_blame_clear(pl_blame *blame);

#ifdef __cplusplus
}
#endif
#endif
