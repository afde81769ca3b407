/* The words by which users name modules and sets of versions:
 *
 *   L1.E0  embed  mix/L1.E0     a module. A name without an arm means the module in
 *                               the newest chapter of the mixture that has it,
 *                               otherwise in the only arm that has it
 *   MODULE@4  MODULE@TAG        a version of a module
 *   ARM  ARM@4  ARM@TAG  TAG    a version of each module of an arm */
#pragma once
#include "net/net.h"

typedef struct pl_module_at {
    char module[PL_MODULE_NAME_MAX];
    uint64_t number;
} pl_module_at;

typedef struct pl_module_set {
    /* in the order in which they were added; the caller frees `at` with pl_free */
    pl_module_at *at;
    size_t n;
} pl_module_set;
void pl_module_set_add(pl_module_set *set, const char *module, uint64_t number);
const char *pl_module_place(const char *module); /* the name without the arm: "L1.E0" */
/* Finds the set's module with this name, or else its first module with the same place
 * (name without arm). Returns NULL if the set has neither. */
const pl_module_at *pl_module_set_find(const pl_module_set *set, const char *module);
/* Returns the name in the set that is most similar to `asked`, or NULL if none is
 * similar enough. Compares full names if `of_arms` is false or `asked` contains an arm,
 * otherwise names without the arm. */
const char *pl_module_set_nearest(const pl_module_set *set, bool of_arms,
                                  const char *asked);

/* Finds a module. ERR_NOT_FOUND: there is no such module; the error suggests the most
 * similar name. ERR_USAGE: several arms have such a module, the name is too long, or
 * its part after @ is neither a number nor a tag. */
pl_status pl_names_module(pl_store *store, const char *asked, pl_module_at *out);
/* Finds whether a word without @ names a module or an arm. Does not look at tags. */
typedef enum pl_name_kind { PL_NAME_NONE, PL_NAME_MODULE, PL_NAME_ARM } pl_name_kind;
pl_status pl_names_kind(pl_store *store, const char *word, pl_name_kind *out);
/* Logs a warning if a tag is also called `word`. The word was taken as an arm or a
 * module (`meant`), but the user may have meant the tag. */
void pl_names_warn_of_tag(pl_store *store, const char *word, pl_name_kind meant);
/* Finds the versions that a word names. The word is searched among arms, then among
 * modules, then among tags. Warns like pl_names_warn_of_tag. */
pl_status pl_names_set(pl_store *store, const char *asked, pl_module_set *out);

/* Returns the number of the part of the store that has this name. If no part has the
 * name, returns the part of the home that will get it; 0 if the store has no parts. */
int pl_names_part(pl_store *store, const char *name);
