/* The names by which users call modules and sets of versions:
 *
 *   L1.E0  embed  mix/L1.E0     a module. Without an arm: the module of the mixture,
 *                               else of the only arm that has a module of this name
 *   MODULE@4  MODULE@TAG        a version of a module
 *   ARM  ARM@4  ARM@TAG  TAG    a version of each module of an arm */
#ifndef PL_CLI_STORE_NAMES_H
#define PL_CLI_STORE_NAMES_H
#include "store/store.h"

typedef struct module_at {
    char module[PL_MODULE_NAME_MAX];
    uint64_t number;
} module_at;

typedef struct module_set {
    module_at *at; /* ordered by name */
    size_t n;
    /* true: the user named a version or a tag; false: these are the newest versions */
    bool versioned;
} module_set;

/* Finds a module. ERR_NOT_FOUND suggests the most similar name; ERR_USAGE: the version
 * is not valid. */
pl_status names_module(pl_store *store, const char *asked, module_at *out,
                       bool *versioned);
/* The kind of thing that a word without @ names, if tags are ignored. */
typedef enum name_kind { NAME_NONE, NAME_MODULE, NAME_ARM } name_kind;
PL_MUST_CHECK pl_status names_kind(pl_store *store, const char *word, name_kind *out);
/* Warns if a tag has the same name as the arm or module, because the tag was not
 * used. */
void names_warn_of_tag(pl_store *store, const char *word, name_kind meant);
/* Finds an arm, a module or a tag, in this order; warns as above. Free `at` with
 * pl_free. */
pl_status names_set(pl_store *store, const char *asked, module_set *out);
/* The set's entry for the module, or NULL. */
const module_at *names_find(const module_set *set, const char *module);
const char *names_without_arm(const char *module); /* "L1.E0" */
/* The most similar name, or NULL. If `of_arms` is set or a full name was asked for,
 * full names are compared, else names without their arm. */
const char *names_nearest(char (*names)[PL_MODULE_NAME_MAX], size_t n, bool of_arms,
                          const char *asked);

#endif
