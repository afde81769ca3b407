/* Private to job: fits the router of a run, deals documents to paths, and reports how
 * good the shards are. */
#pragma once
#include "job/run.h"

typedef struct shard_size {
    size_t documents;
    double tokens; /* targets in the shard, including those in routing prefixes */
    double epochs; /* how often the path's training reads its whole shard */
    double rows;   /* rows of batches in one epoch */
} shard_size;

typedef struct routing {
    const pl_topology
        *topology;   /* topology of the chapter that trains on the shards; borrowed */
    float *features; /* [n, dim] features of each training document */
    /* [n] number of targets of each document; shards get about equal sums of these */
    double *tokens;
    size_t n;
    /* the largest group (by tokens) of documents with the same beginning */
    pl_alike alike;
    int dim;     /* number of features of a document */
    int chapter; /* number of the chapter that trains on the shards */
    pl_router *router;
    pl_shards shards;
    /* Documents of each path that no arm trains on (train.holdout): the documents of
     * path p are held[held_first[p]] to held[held_first[p + 1] - 1]. */
    uint32_t *held;
    size_t *held_first;    /* [n_paths + 1] */
    pl_prefix_lm *answers; /* fitted to the shards; routes new text */
    /* how the documents were dealt: "linear" (routing_refit) or "split"
     * (routing_split); NULL: by router.kind (routing_fit) */
    const char *how;
    int64_t phases;    /* number of phases that use these shards */
    shard_size *sizes; /* [n_paths] */
    uint32_t *domains; /* [n] domain of each document; routing_report sets it */
} routing;

/* Allocates memory for a list of documents. A large list (above 1 GiB) is kept in a
 * file of the run's folder. routing_free must get the same number of bytes. */
pl_status routing_alloc(const pl_run *r, uint64_t bytes, const char *what, void **out);
void routing_free(void *memory, uint64_t bytes);
/* Computes features of the training documents with the base model `params`, fits the
 * router to them, and deals the documents to shards. The caller calls routing_clear
 * afterwards, also after a failure. */
pl_status routing_fit(pl_run *r, const float *params, routing *g);
/* Like routing_fit, but fits a linear router: scores [n_docs, paths] tell how well each
 * path predicts each of the documents `docs`. */
pl_status routing_refit(pl_run *r, const float *params, const uint32_t *docs,
                        size_t n_docs, const double *scores, routing *g);
/* Computes the data that every fit needs: the number of targets of each document, and
 * the features that the base model `params` gives each document. */
pl_status routing_look(pl_run *r, const float *params, routing *g);
pl_router_options routing_options(const pl_run *r, const routing *g, int n_paths);
/* Fits g->answers, the prefix model that routes new text, to the shards. */
pl_status routing_fit_answers(const pl_run *r, routing *g);
/* The chapter from which the paths of a new chapter descend. */
typedef struct routing_origin {
    const pl_topology *topology;
    const pl_descent *descent; /* how the new paths descend from that chapter */
    /* the documents of each path; a document may be in several lists */
    const pl_shards *shards;
    /* the router of that chapter for new text; needed if a path has no descendants */
    const pl_prefix_lm *answers;
} routing_origin;
/* routing_split.c: deals the documents of each path to the paths of g->topology that
 * descend from it. Documents of a path without descendants go to the path that the
 * earlier chapter's router would choose if that path did not exist, within the limit of
 * router.balance. */
pl_status routing_split(pl_run *r, const float *params, const routing_origin *origin,
                        routing *g);
/* Whether the paths score this document (router.em, router.share) to fit a router to
 * the scores. No arm trains on a scored document. Only the document's hash decides. */
bool routing_scores(const pl_run *r, uint32_t document);
/* Whether the document is held out for the choice of versions (train.holdout). No arm
 * trains on a held-out document. A scored document is never held out. Only the
 * document's hash decides. */
bool routing_holds(const pl_run *r, uint32_t document);
/* routing_report.c: prints the sizes of the shards and how well the shards match the
 * corpus's domains. Writes both to RUN/router.json, and a picture to
 * RUN/router_map.json. */
pl_status routing_report(pl_run *r, routing *g);
/* routing_map.c: writes RUN/router_map.json; needs g->domains. */
pl_status routing_write_map(const pl_run *r, const routing *g);
/* Renames the paths in the picture to their names in topology t, which has the same
 * paths. */
pl_status routing_rename_map(const pl_run *r, const pl_topology *t);
/* Stores g->answers, the router for new text, as the object router/ARM. */
pl_status routing_put(pl_run *r, const routing *g, const char *arm);
void routing_clear(routing *g);
