/* Private to job: fits, judges and reports the router of a run. */
#ifndef PL_JOB_ROUTING_H
#define PL_JOB_ROUTING_H
#include "job/run.h"

typedef struct shard_size {
    size_t documents;
    double tokens; /* targets, the routing prefix included */
    double epochs; /* of a path's whole training */
    double rows;   /* of a batch, in an epoch */
} shard_size;

typedef struct routing {
    const pl_topology
        *topology;   /* of the chapter that trains on the shards; borrowed */
    float *features; /* [n, dim] */
    double *tokens;  /* [n] targets of each document: what the router balances */
    size_t n;
    pl_alike alike; /* the heaviest documents that begin alike */
    int dim;
    pl_router *router;
    pl_shards shards;
    /* Documents of each path that no arm trains on (train.holdout): those of path p
     * are held[held_first[p]] up to held[held_first[p + 1]]. */
    uint32_t *held;
    size_t *held_first;    /* [n_paths + 1] */
    pl_prefix_lm *answers; /* fitted to the shards; routes new text */
    const char *how;       /* "linear": fitted on scores; "split"; NULL: router.kind */
    int64_t phases;        /* for which the shards are dealt */
    shard_size *sizes;     /* [n_paths] */
    uint32_t *domains;
} routing;

/* Fits the router to the training documents as the base model `params` sees them, and
 * deals them to shards. To be cleared also after a failure. */
pl_status routing_fit(pl_run *r, const float *params, routing *g);
/* Fits a linear router instead: scores [n_docs, paths] tell how well each path predicts
 * the documents docs. */
pl_status routing_refit(pl_run *r, const float *params, const uint32_t *docs,
                        size_t n_docs, const double *scores, routing *g);
/* Deals the documents of each path of `from` (lists `before`; a document may be in
 * several) to the paths of g->topology that descend from it. */
PL_MUST_CHECK pl_status routing_split(pl_run *r, const float *params,
                                      const pl_topology *from, const pl_shards *before,
                                      routing *g);
/* Whether the document is one that no arm trains on, so that paths can be told apart by
 * their scores of it (router.em, router.share). Its hash alone decides. */
bool routing_scores(const pl_run *r, uint32_t document);
/* Whether an arm trains on the document: it is neither scored nor held out for the
 * choice of versions (train.holdout). Its hash alone decides. */
bool routing_trains(const pl_run *r, uint32_t document);
/* Prints the shards and how well they match the corpus's domains, and writes both to
 * RUN/router.json. */
pl_status routing_report(pl_run *r, routing *g);
/* Stores the router as object router/ARM. */
pl_status routing_put(pl_run *r, const routing *g, const char *arm);
void routing_clear(routing *g);

#endif
