/* What a person calls modules and sets of versions:
 *
 *   L1.E0  embed  mix/L1.E0     a module; without an arm the mixture's, or that of the
 *                               only arm that has one of this name
 *   MODULE@4  MODULE@TAG        one of its versions
 *   ARM  ARM@4  ARM@TAG  TAG    a version of each module of an arm */
#ifndef PL_CLI_STORE_NAMES_H
#define PL_CLI_STORE_NAMES_H
#include "store/store.h"

typedef struct module_at {
    char module[PL_MODULE_NAME_MAX];
    uint64_t number;
} module_at;

typedef struct module_set {
    module_at *at; /* in order of names */
    size_t n;
    bool versioned; /* a version or a tag was named; else these are the heads */
} module_set;

/* One module. ERR_NOT_FOUND names the nearest, ERR_USAGE a version that is none. */
pl_status names_module(pl_store *store, const char *asked, module_at *out,
                       bool *versioned);
/* What a word without a version means, were there no tags. */
typedef enum name_kind { NAME_NONE, NAME_MODULE, NAME_ARM } name_kind;
PL_MUST_CHECK pl_status names_kind(pl_store *store, const char *word, name_kind *out);
/* Warns if there is a tag of that name, too, which is not meant. */
void names_warn_of_tag(pl_store *store, const char *word, name_kind meant);
/* An arm, a module or a tag: the first of these that there is, with that warning. Free
 * `at` with pl_free. */
pl_status names_set(pl_store *store, const char *asked, module_set *out);
/* Its place in the set, or NULL. */
const module_at *names_find(const module_set *set, const char *module);
/* "mix/L1.E0" -> "mix"; "" where there is no arm. */
void names_arm_of(const char *module, char out[PL_MODULE_NAME_MAX]);
const char *names_without_arm(const char *module); /* "L1.E0" */
/* The nearest, among full names if `of_arms` is not set or a full one was asked, else
 * among those without their arm; NULL if none is near. */
const char *names_nearest(char (*names)[PL_MODULE_NAME_MAX], size_t n, bool of_arms,
                          const char *asked);

#endif
