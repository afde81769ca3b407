/* A trained mixture, read from its run: its store, tokenizer, topology, and the
 * settings by which it answers prompts. */
#pragma once
#include "corpus/corpus.h"
#include "modules/modules.h"
#include "outer/outer.h"

/* Which versions of a path's modules are read. If `at` is set: the versions that this
 * tag names. If `best` is set: the best version of the path. If `number` is set: the
 * versions with this number. Otherwise: the newest versions. */
typedef struct pl_which {
    const pl_snapshot *at; /* borrowed; NULL: no tag is asked for */
    bool best;
    const uint64_t *number; /* borrowed; may be NULL */
} pl_which;

/* The run's settings that answering prompts needs. */
typedef struct pl_answer_settings {
    char backend[16], precision[16];
    char rule[16];  /* router.answer: "auto", "router" or "likelihood" */
    int prefix;     /* router.prefix: number of first tokens that all paths read */
    pl_which which; /* the versions that answer */
    /* [n_paths], borrowed: true for paths that are never chosen and never read; NULL:
     * all paths may answer */
    const bool *closed;
    /* name of the chat template (chat.h); "": the model has none; "unknown": its
     * template is not in our table */
    char chat[16];
} pl_answer_settings;

static inline bool pl_path_is_closed(const pl_answer_settings *settings, int path)
{
    return settings->closed && settings->closed[path];
}

/* A mixture owns everything that it points to. pl_mixture_close accepts a struct of
 * zeros. */
typedef struct pl_mixture {
    char dir[PL_PATH_MAX]; /* folder of the run */
    pl_store *store;
    pl_tokenizer *tokenizer;
    pl_arm arm;
    pl_topology *topology;
    pl_answer_settings settings;
    pl_snapshot tag; /* settings.which.at points to it, if a tag was asked for */
    bool *closed;    /* settings.closed points to it; may be NULL */
} pl_mixture;
void pl_mixture_close(pl_mixture *mix);
/* Replaces the mixture's arm by another arm of the run. */
pl_status pl_mixture_use_arm(pl_mixture *mix, const char *arm);

/* router.answer=auto means likelihood for a run with at most this many paths. */
enum { PL_LIKELIHOOD_PATHS_MAX = 16 };
/* Returns true if a run of n_paths paths answers by likelihood: the path under which a
 * prompt is likeliest answers it. Returns false if the router chooses the path. `rule`
 * is router.answer, `prefix` is router.prefix. */
bool pl_answers_by_likelihood(const char *rule, int prefix, int n_paths);

/* ---- from a store ---- */
typedef struct pl_path_module {
    char name[PL_MODULE_NAME_MAX];
    uint64_t number; /* number of the version; UINT64_MAX: the newest version */
    pl_hash params;  /* hash of the version's parameters */
} pl_path_module;
/* Sets the names of the modules [n_slots] of a path and the version numbers that
 * `which` asks for. An arm that is not a chapter of the mixture has no best versions,
 * so its newest versions are used. ERR_NOT_FOUND: a tag lacks a module, or the arm has
 * no tag of best versions. */
pl_status pl_name_path_modules(pl_store *store, const pl_arm *arm, const pl_topology *t,
                               int path, pl_which which, pl_path_module *modules);
/* Finds the version of a module whose name and number are set, and sets the number and
 * the hash of this version. ERR_NOT_FOUND if garbage collection has deleted its
 * parameters. */
pl_status pl_find_path_module(pl_store *store, pl_path_module *module);
/* Reads the floats of a module that pl_find_path_module has found. */
pl_status pl_read_path_module(pl_store *store, const pl_topology *t, int slot,
                              const pl_path_module *module, float *out);
/* Reads modules [n_slots] whose names and numbers are set, and sets the numbers and
 * hashes of the versions that were read. */
pl_status pl_read_path_modules(pl_store *store, const pl_topology *t,
                               pl_path_module *modules, float *params);
/* Makes the name of the tag for a path's best version, such as "best-mix-p01". If
 * train.holdout is above 0, `train` makes this tag when the arm has ended. */
char *pl_best_tag(const pl_arm *arm, const pl_topology *t, int path,
                  char out[PL_NAME_MAX]);
/* Reads the parameters of a path in the versions that `which` asks for. ERR_NOT_FOUND
 * if garbage collection has deleted the parameters of one of them. */
pl_status pl_read_path(pl_store *store, const pl_arm *arm, const pl_topology *t,
                       int path, pl_which which, float *params);
/* Makes *closed [n_paths]: true for all paths that use a module of the list `modules`,
 * such as "L1.E3,B0.E1". The caller frees *closed with pl_free, also after a failure.
 * ERR_NOT_FOUND: there is no such module. ERR_USAGE: all paths would be closed. */
pl_status pl_close_paths(const pl_topology *t, const char *modules, bool **closed);
/* Finds the number of a path by its name: "p01" and "1" both mean path 1.
 * ERR_NOT_FOUND. */
pl_status pl_find_path(const pl_topology *t, const char *name, int *path);
