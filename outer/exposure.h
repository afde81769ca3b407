/* How much of some documents each path and each module of an arm was trained on.
 *
 * It is counted from the store's record: the samples that contributions name, as the
 * sampler draws them from the path's data shard. A module's tokens are those of all
 * contributions to its versions; a path's are those of its finished phases. */
#ifndef PL_OUTER_EXPOSURE_H
#define PL_OUTER_EXPOSURE_H
#include "corpus/corpus.h"
#include "outer/arm.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Documents: those of a domain, or those with one of these hashes. */
typedef struct pl_subject {
    const char *domain; /* NULL: hashes */
    const uint64_t *hashes;
    size_t n_hashes;
} pl_subject;

typedef struct pl_exposure {
    char name[PL_MODULE_NAME_MAX]; /* "mix/p01.r0", "mix/L1.E0" */
    uint64_t n_docs;              /* of the subject in the path's shard; of modules 0 */
    uint64_t n_tokens, of_tokens; /* targets trained on: all, and of the subject */
} pl_exposure;

/* paths [P*R], by path * R + replica; modules [M]. ERR_NOT_FOUND if a shard is not in
 * the store. */
PL_MUST_CHECK pl_status pl_exposure_read(pl_store *store, const pl_arm *arm,
                                         const pl_topology *topology,
                                         const pl_subject *subject, pl_exposure *paths,
                                         pl_exposure *modules);

#ifdef __cplusplus
}
#endif
#endif
