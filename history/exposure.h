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

/* The documents that are counted: all of a domain, or all with one of these hashes. */
typedef struct pl_subject {
    const char *domain; /* name of the domain; NULL: `docs` has the documents */
    pl_doc_list docs;
} pl_subject;

typedef struct pl_exposure {
    char name[PL_MODULE_NAME_MAX]; /* "mix/p01.r0", "mix/L1.E0" */
    /* number of the subject's documents in the path's shard; 0 for modules */
    uint64_t n_docs;
    /* number of targets on which the path or module was trained: n_tokens in all
     * documents, of_tokens in the subject's documents */
    uint64_t n_tokens, of_tokens;
} pl_exposure;

/* Fills paths [P*R] (path * R + replica) and modules [M]. ERR_NOT_FOUND if a shard is
 * not in the store. */
pl_status pl_exposure_read(pl_store *store, const pl_arm *arm,
                           const pl_topology *topology, const pl_subject *subject,
                           pl_exposure *paths, pl_exposure *modules);

/* The samples `first` to `end` - 1 of a path. */
typedef struct pl_sample_range {
    uint64_t first, end;
} pl_sample_range;
typedef struct pl_sample_ranges {
    pl_sample_range *at;
    size_t n;
} pl_sample_ranges;

enum { PL_HEAD_TOKENS = 24 };
/* A domain, or a document. */
typedef struct pl_text_part {
    char domain[PL_TEXT_MAX];
    uint64_t n_tokens; /* number of targets in this part */
    /* of a document: the hash of its text, and its first tokens without BOS */
    uint64_t hash;
    int32_t head[PL_HEAD_TOKENS];
    size_t n_head;
} pl_text_part;

typedef struct pl_sample_parts {
    pl_text_part *domains, *documents;
    size_t n_domains, n_documents;
} pl_sample_parts;

/* Counts how many targets of these samples are in each domain, and with `documents` in
 * each document. The one with the most targets comes first. `task` is path * R +
 * replica. The caller frees both lists with pl_free. ERR_NOT_FOUND: the store lacks the
 * shard. */
pl_status pl_exposure_parts(pl_store *store, const pl_arm *arm,
                            const pl_topology *topology, int task,
                            const pl_sample_ranges *samples, bool documents,
                            pl_sample_parts *out);

/* Fills draws [P*R]: for each path and replica the first phase whose samples contain
 * one of the documents, or the arm's number of phases if no phase does. *emptied gets
 * the first path that would have no text without these documents, or -1. */
pl_status pl_exposure_draws(pl_store *store, const pl_arm *arm,
                            const pl_topology *topology, const pl_subject *subject,
                            int64_t *draws, int *emptied);
