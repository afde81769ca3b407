/* Counts on how many tokens of certain documents each path and each module of an arm
 * was trained.
 *
 * The record of a contribution says which samples of the path's stream were used (the
 * first one, and how many). So the sampler can draw them from the path's data shard
 * again. The count of a
 * module includes all contributions to its versions. The count of a path includes its
 * finished phases. */
#pragma once
#include "corpus/corpus.h"
#include "outer/outer.h"
#include "store/store.h"

/* The documents that are counted: of a domain, or with one of these hashes. */
typedef struct pl_subject {
    const char *domain; /* name of the domain; NULL: `hashes` choose the documents */
    const uint64_t *hashes;
    size_t n_hashes;
} pl_subject;

typedef struct pl_exposure {
    char name[PL_MODULE_NAME_MAX]; /* "mix/p01.r0", "mix/L1.E0" */
    /* number of the subject's documents in the path's shard; 0 for modules */
    uint64_t n_docs;
    /* number of targets on which the path or module was trained: n_tokens in all
     * documents, of_tokens in the subject's documents */
    uint64_t n_tokens, of_tokens;
} pl_exposure;

/* Fills paths [P*R] (path * R + replica) and modules [M]. ERR_NOT_FOUND: a shard. */
pl_status pl_exposure_read(pl_store *store, const pl_arm *arm,
                           const pl_topology *topology, const pl_subject *subject,
                           pl_exposure *paths, pl_exposure *modules);

/* The samples `first` to `end` - 1 of a path. */
typedef struct pl_sample_range {
    uint64_t first, end;
} pl_sample_range;

typedef struct pl_domain_part {
    char domain[PL_TEXT_MAX];
    uint64_t n_tokens; /* number of targets in documents of this domain */
} pl_domain_part;

/* Counts how many targets of these samples are in documents of each domain. The domain
 * with the most targets comes first. `task` is path * R + replica. The caller frees
 * *parts [n_parts] with pl_free. ERR_NOT_FOUND: the store lacks the shard. */
pl_status pl_exposure_domains(pl_store *store, const pl_arm *arm,
                              const pl_topology *topology,
                              const pl_sample_range *ranges, size_t n, int task,
                              pl_domain_part **parts, size_t *n_parts);

/* Fills draws [P*R]: for each path and replica the first phase whose samples contain
 * one of the documents, or the arm's number of phases if no phase does. *emptied gets
 * the first path that would have no text without these documents, or -1. */
pl_status pl_exposure_draws(pl_store *store, const pl_arm *arm,
                            const pl_topology *topology, const pl_subject *subject,
                            int64_t *draws, int *emptied);
