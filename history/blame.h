/* Finds out which workers and updates made a version.
 *
 * A rollback makes a version with the parameters of an older version. The search then
 * continues at the older version, and the versions between the two do not count.
 *
 * Update d_i with weight w_i has the weighted norm a_i |d_i|, where a_i = w_i / sum w.
 * A contributor's share of a version is its weighted norm divided by the sum of all
 * weighted norms. So a share says how far the contributor moved the version; the
 * directions of the updates do not matter. If the result covers several versions, each
 * version's shares are weighted by how far it moved the parameters. */
#pragma once
#include "history/exposure.h"
#include "history/coverage.h"

typedef struct pl_contributor {
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    int64_t path, replica;
    /* the contributor's samples, numbered as in the path's stream; ranges are joined */
    pl_sample_ranges samples;
    uint64_t n_samples, n_tokens, n_versions;
    /* seconds: training time of all contributions; loss: loss of the newest one */
    double seconds, loss;
    /* sum over versions: the contributor's share, times how far the version moved */
    double pull;
    double share;          /* this contributor's part of the sum of all pulls */
    pl_sample_parts parts; /* of `samples`; empty before pl_blame_find_text */
} pl_contributor;

typedef struct pl_blame {
    pl_contributor *list; /* the largest share comes first */
    size_t n;
    /* the version that was asked for, or the one to which its rollback returned */
    uint64_t source;
    bool merged;  /* whether contributors are versions: "mix/L1.E0@3" (merged.h) */
    double moved; /* sum of the distances by which the versions moved the parameters */
} pl_blame;

/* If `history` is true, the result covers version `number` and all earlier versions,
 * back to the newest merged version if there is one; otherwise only version `number`.
 * The caller frees the result with pl_blame_clear. */
pl_status pl_blame_gather(pl_store *store, const char *module, uint64_t number,
                          bool history, pl_blame *out);
/* Finds the domains, and with `documents` the documents, of each contributor's samples.
 * None if the store lacks the arm's definition or shards, for example because only
 * modules were pushed to it, or if versions were merged. */
pl_status pl_blame_find_text(pl_store *store, const char *module, bool documents,
                             pl_blame *blame);
void pl_blame_clear(pl_blame *blame);
