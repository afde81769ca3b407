/* How users name modules and sets of versions:
 *
 *   L1.E0  embed  mix/L1.E0     a module; without an arm it is the mixture's, or that
 *                               of the only arm that has a module of this name
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
    bool versioned; /* a version or a tag was named; else these are heads */
} module_set;

/* Finds one module. ERR_NOT_FOUND names the nearest; ERR_USAGE: the version is not
 * valid. */
pl_status names_module(pl_store *store, const char *asked, module_at *out,
                       bool *versioned);
/* What a word without a version means if tags are ignored. */
typedef enum name_kind { NAME_NONE, NAME_MODULE, NAME_ARM } name_kind;
PL_MUST_CHECK pl_status names_kind(pl_store *store, const char *word, name_kind *out);
/* Warns if there is also a tag of that name, which was not meant. */
void names_warn_of_tag(pl_store *store, const char *word, name_kind meant);
/* Finds an arm, a module or a tag, in this order, and warns as above. Free `at` with
 * pl_free. */
pl_status names_set(pl_store *store, const char *asked, module_set *out);
/* The module's entry in the set, or NULL. */
const module_at *names_find(const module_set *set, const char *module);
const char *names_without_arm(const char *module); /* "L1.E0" */
/* The nearest name, or NULL. It is searched among full names if `of_arms` is set or a
 * full name was asked for, else among names without their arm. */
const char *names_nearest(char (*names)[PL_MODULE_NAME_MAX], size_t n, bool of_arms,
                          const char *asked);

#endif
