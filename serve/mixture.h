/* A trained mixture, read from its run, with everything that is needed to answer
 * prompts. */
#ifndef PL_SERVE_MIXTURE_H
#define PL_SERVE_MIXTURE_H
#include "corpus/corpus.h"
#include "modules/modules.h"
#include "outer/outer.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Which versions of a path's modules are read: those that the tag `at` names, or with
 * `best` each path's best version, else the newest. */
typedef struct pl_which {
    const pl_snapshot *at; /* borrowed, or NULL */
    bool best;
} pl_which;

/* How the mixture was routed when it was trained, and how prompts are answered. */
typedef struct pl_answer_settings {
    char backend[16], precision[16];
    char rule[16];  /* router.answer: "auto", "router" or "likelihood" */
    int prefix;     /* number of first tokens of a text that choose its path */
    pl_which which; /* the versions that answer */
    /* [n_paths], borrowed: true for paths that are never chosen and never read; NULL:
     * all paths may answer */
    const bool *closed;
    char chat[16]; /* name of its chat template (chat.h); "": it has none; "unknown": an
                      imported model has one that is none of ours */
} pl_answer_settings;

static inline bool pl_path_is_closed(const pl_answer_settings *settings, int path)
{
    return settings->closed && settings->closed[path];
}

/* Owns all that it points to. pl_mixture_close accepts a struct of zeros. */
typedef struct pl_mixture {
    char dir[PL_PATH_MAX]; /* folder of the run */
    pl_store *store;
    pl_tokenizer *tokenizer;
    pl_arm arm;
    pl_topology *topology;
    pl_answer_settings settings;
    pl_snapshot tag; /* settings.at, if a tag was asked for */
    bool *closed;    /* settings.closed */
} pl_mixture;
void pl_mixture_close(pl_mixture *mix);

/* router.answer=auto uses likelihood up to this many paths. */
enum { PL_LIKELIHOOD_PATHS_MAX = 16 };
/* Whether a run of n_paths paths answers by likelihood (true: the path under which a
 * prompt is likeliest) or by the router (false). */
bool pl_answers_by_likelihood(const char *rule, int prefix, int n_paths);

/* ---- from a store ---- */
/* Reads the parameters of a path. `version` is the number of a version of each module;
 * UINT64_MAX stands for each module's newest one. ERR_NOT_FOUND if the parameters were
 * collected. */
PL_MUST_CHECK pl_status pl_read_path(pl_store *store, const pl_arm *arm,
                                     const pl_topology *t, int path, uint64_t version,
                                     float *params);
typedef struct pl_path_module {
    char name[PL_MODULE_NAME_MAX];
    uint64_t number;
    pl_hash params;
} pl_path_module;
/* Names the modules [n_slots] of a path and the versions that `which` asks for. An arm
 * that is no chapter of the mixture has no best versions: the newest are taken.
 * ERR_NOT_FOUND: a tag lacks a module, or the best versions are not chosen yet. */
PL_MUST_CHECK pl_status pl_name_path_modules(pl_store *store, const pl_arm *arm,
                                             const pl_topology *t, int path,
                                             pl_which which, pl_path_module *modules);
/* Finds the version of a module whose name and version number are set (UINT64_MAX: the
 * newest); sets its number and its hash. ERR_NOT_FOUND if its parameters were
 * collected. */
PL_MUST_CHECK pl_status pl_find_path_module(pl_store *store, pl_path_module *module);
/* Reads a module that was found: the floats of the slot. */
PL_MUST_CHECK pl_status pl_read_path_module(pl_store *store, const pl_topology *t,
                                            int slot, const pl_path_module *module,
                                            float *out);
/* Reads modules [n_slots] whose names and version numbers are set (UINT64_MAX: the
 * newest), and sets numbers and hashes to those of the versions that were read. */
PL_MUST_CHECK pl_status pl_read_path_modules(pl_store *store, const pl_topology *t,
                                             pl_path_module *modules, float *params);
/* The tag that names the best version of a path on its held-out documents:
 * "best-mix-p01". It exists after the end of an arm that held out documents
 * (train.holdout). */
void pl_best_tag(const pl_arm *arm, const pl_topology *t, int path,
                 char out[PL_NAME_MAX]);
PL_MUST_CHECK pl_status pl_read_path_at(pl_store *store, const pl_arm *arm,
                                        const pl_topology *t, int path, pl_which which,
                                        float *params);
/* Closes all paths that use one of these modules, "L1.E3,B0.E1": closed [n_paths], from
 * pl_alloc. ERR_NOT_FOUND: there is no such module. ERR_USAGE: no path is left. */
PL_MUST_CHECK pl_status pl_close_paths(const pl_topology *t, const char *modules,
                                       bool **closed);
/* Finds a path by name: 1 for "p01" or "1". ERR_NOT_FOUND. */
PL_MUST_CHECK pl_status pl_find_path(const pl_topology *t, const char *name, int *path);

#ifdef __cplusplus
}
#endif
#endif
