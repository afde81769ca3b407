/* A trained mixture, read from its run: everything that is needed to answer prompts. */
#ifndef PL_SERVE_MIXTURE_H
#define PL_SERVE_MIXTURE_H
#include "corpus/corpus.h"
#include "modules/modules.h"
#include "outer/outer.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The rule by which paths were chosen when it was trained. */
typedef struct pl_answer_settings {
    char backend[16], precision[16];
    char rule[16]; /* router.answer: "auto", "router" or "likelihood" */
    int prefix;    /* number of first tokens of a text that choose its path */
    bool best;     /* answer with each path's best version (pl_best_versions) */
} pl_answer_settings;

/* Borrows nothing. pl_mixture_close accepts one that is all zero. */
typedef struct pl_mixture {
    char dir[PL_PATH_MAX]; /* of the run */
    pl_store *store;
    pl_tokenizer *tokenizer;
    pl_arm arm;
    pl_topology *topology;
    pl_answer_settings settings;
} pl_mixture;
void pl_mixture_close(pl_mixture *mix);

/* "auto" answers by likelihood up to this many paths. */
enum { PL_LIKELIHOOD_PATHS_MAX = 16 };
/* Whether a run of n_paths paths answers by likelihood (true: the path under which a
 * prompt is likeliest) or by the router (false). */
bool pl_answers_by_likelihood(const char *rule, int prefix, int n_paths);

/* ---- from a store ---- */
/* Reads the parameters of a path at a version (UINT64_MAX: the head of each module).
 * ERR_NOT_FOUND if they were collected. */
PL_MUST_CHECK pl_status pl_read_path(pl_store *store, const pl_arm *arm,
                                     const pl_topology *t, int path, uint64_t version,
                                     float *params);
typedef struct pl_path_module {
    char name[PL_MODULE_NAME_MAX];
    uint64_t number;
    pl_hash params;
} pl_path_module;
/* As pl_read_path, with a version for each slot; versions and modules [n_slots] get
 * what was read. */
PL_MUST_CHECK pl_status pl_read_path_modules(pl_store *store, const pl_arm *arm,
                                             const pl_topology *t, int path,
                                             const uint64_t *versions, float *params,
                                             pl_path_module *modules);
/* The tag that names the best version of a path on its held-out documents:
 * "best-mix-p01". It exists when an arm has ended that held out documents
 * (train.holdout). */
void pl_best_tag(const pl_arm *arm, const pl_topology *t, int path,
                 char out[PL_NAME_MAX]);
/* The versions [n_slots] that it names. Of an arm that is no chapter of the mixture,
 * the newest ones: UINT64_MAX. ERR_NOT_FOUND: the arm has not chosen. */
PL_MUST_CHECK pl_status pl_best_versions(pl_store *store, const pl_arm *arm,
                                         const pl_topology *t, int path,
                                         uint64_t *versions);
/* As pl_read_path, of the best version or, without `best`, of the newest. */
PL_MUST_CHECK pl_status pl_read_selected(pl_store *store, const pl_arm *arm,
                                         const pl_topology *t, int path, bool best,
                                         float *params);
/* Loads them into a model. */
PL_MUST_CHECK pl_status pl_load_path(pl_store *store, const pl_arm *arm,
                                     const pl_topology *t, int path, bool best,
                                     pl_model *model);
/* "p01" or "1" -> 1. ERR_NOT_FOUND. */
PL_MUST_CHECK pl_status pl_find_path(const pl_topology *t, const char *name, int *path);

#ifdef __cplusplus
}
#endif
#endif
