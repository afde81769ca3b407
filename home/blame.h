/* Finds out which workers and updates made a version.
 *
 * The search follows the version's real ancestors: a version that a rollback made
 * stands for the older version whose parameters it has, and the versions between the
 * two do not count.
 *
 * A contributor's share of a version is its part of the sum of weighted norms, a_i
 * |d_i| with a_i = w_i / sum w. So a share says how far the contributor pulled,
 * independent of the direction of other updates. Over a history, shares are weighted by
 * how far each version moved. */
#ifndef PL_HOME_BLAME_H
#define PL_HOME_BLAME_H
#include "outer/outer.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

/* One worker on one path. */
typedef struct pl_contributor {
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    int64_t path, replica;
    /* the samples it trained on, numbered as in the path's stream; adjacent ranges are
     * joined */
    pl_sample_range *samples;
    size_t n_ranges;
    uint64_t n_samples, n_tokens, n_versions;
    double seconds, loss; /* loss: that of its newest contribution */
    /* the contributor's share times how far the version moved, summed over versions */
    double pull;
    double share; /* this contributor's part of the sum of all pulls */
    /* the domains of these samples; none if the path's shard is not in the store */
    pl_domain_part *domains;
    size_t n_domains;
} pl_contributor;

typedef struct pl_blame {
    pl_contributor *list; /* the largest share comes first */
    size_t n;
    uint64_t
        /* the version that was asked for, or the one that a rollback returned to */
        source;
    bool merged;  /* the contributors are versions such as "mix/L1.E0@3" (merged.h) */
    double moved; /* sum of the distances by which the versions moved the parameters */
} pl_blame;

/* With `history` the result covers all versions up to this one, else only this one.
 * The caller frees the result by pl_blame_clear. */
PL_MUST_CHECK pl_status pl_blame_gather(pl_store *store, const char *module,
                                        uint64_t number, bool history, pl_blame *out);
void pl_blame_clear(pl_blame *blame);

#ifdef __cplusplus
}
#endif
#endif
