/* Private to lib: what its files share. */
#pragma once
#include "job/job.h"
#include "lib/pathloom.h"
#ifdef __cplusplus
extern "C" {
#endif

struct pathloom_run {
    char dir[PL_PATH_MAX], folder[PL_PATH_MAX]; /* the run, and its store */
    pl_store *store;
    /* the texts of pathloom_describe */
    char config[PL_HASH_TEXT], newest[PL_ARM_NAME_MAX];
};

/* A public record of a version, and the memory to which it points. It borrows the
 * texts of the pl_version. */
typedef struct lib_version {
    pathloom_version_info info;
    char hash[PL_HASH_TEXT], parent[PL_HASH_TEXT];
    pathloom_contribution *list;
} lib_version;

/* Called first by every function that opens a handle without having one: the process
 * logs only errors, and PATHLOOM_CPU must be valid. */
pl_status lib_begin(void);
/* ERR_ARG if the caller gave NULL for the argument `name`. */
pl_status lib_given(const void *argument, const char *name);
/* The status of a callback that returned `stop`. */
pl_status lib_heard(int stop);
/* Ends every public function: writes status and sentence to `error`, and returns the
 * status. */
int lib_end(pl_status status, pathloom_error *error);
/* Fills `out`; the caller frees out->list with pl_free. */
void lib_version_fill(const pl_version *v, lib_version *out);

#ifdef __cplusplus
}
#endif
