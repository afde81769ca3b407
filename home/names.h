/* The names by which users call modules and sets of versions:
 *
 *   L1.E0  embed  mix/L1.E0     a module. Without an arm: the module of the mixture,
 *                               else of the only arm that has a module of this name
 *   MODULE@4  MODULE@TAG        a version of a module
 *   ARM  ARM@4  ARM@TAG  TAG    a version of each module of an arm */
#ifndef PL_HOME_NAMES_H
#define PL_HOME_NAMES_H
#include "net/net.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_module_at {
    char module[PL_MODULE_NAME_MAX];
    uint64_t number;
} pl_module_at;

typedef struct pl_module_set {
    pl_module_at *at; /* ordered by name; free it with pl_free */
    size_t n;
} pl_module_set;
void pl_module_set_add(pl_module_set *set, const char *module, uint64_t number);
const char *pl_module_place(const char *module); /* without its arm: "L1.E0" */
/* The set's module of this name, else the one of the same place, else NULL. */
const pl_module_at *pl_module_set_find(const pl_module_set *set, const char *module);
/* The most similar name of the set, or NULL. If `of_arms` is false or a full name was
 * asked for, full names are compared, else places. */
const char *pl_module_set_nearest(const pl_module_set *set, bool of_arms,
                                  const char *asked);

/* Finds a module. ERR_NOT_FOUND suggests the most similar name; ERR_USAGE: the version
 * is not valid. */
PL_MUST_CHECK pl_status pl_names_module(pl_store *store, const char *asked,
                                        pl_module_at *out);
/* The kind of thing that a word without @ names, if tags are ignored. */
typedef enum pl_name_kind { PL_NAME_NONE, PL_NAME_MODULE, PL_NAME_ARM } pl_name_kind;
PL_MUST_CHECK pl_status pl_names_kind(pl_store *store, const char *word,
                                      pl_name_kind *out);
/* Warns if a tag has the same name as the arm or module, because the tag was not
 * used. */
void pl_names_warn_of_tag(pl_store *store, const char *word, pl_name_kind meant);
/* Finds an arm, a module or a tag, in this order; warns as above. */
PL_MUST_CHECK pl_status pl_names_set(pl_store *store, const char *asked,
                                     pl_module_set *out);

/* The part of the store that has this name, or gets it: the one in which its home will
 * look for it. If places->n is 0, the store is in one piece. */
int pl_names_part(pl_store *store, const pl_places *places, const char *name);

#ifdef __cplusplus
}
#endif
#endif
