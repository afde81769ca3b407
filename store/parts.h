/* Private to this folder: a store in parts, with one part per home of a job. The
 * comment at the top of parts.c says how readers see the parts as one store.
 *
 *   FOLDER/PARTS      text: "pathloom parts 1", then the number N
 *   FOLDER/home-1 .. N stores, each with its own writer */
#ifndef PL_STORE_PARTS_H
#define PL_STORE_PARTS_H
#include "store/store_internal.h"

/* Refs of earlier releases: notes about names that were moved to another part, and the
 * shares of the homes. */
#define PARTS_NOTES "at/"
#define PARTS_TABLE "sys/places"

PL_MUST_CHECK pl_status parts_open(pl_store *store, int n);
void parts_close(pl_store *store);
PL_MUST_CHECK pl_status parts_refresh(pl_store *store);
PL_MUST_CHECK pl_status parts_write_count(const char *folder, int n);
bool parts_is_made(const char *folder, int part);
/* ERR_BUSY if the folder has another number of parts than when the reader was opened.
 */
PL_MUST_CHECK pl_status parts_check_number(const pl_store *store);
/* Returns ERR_UNSUPPORTED for a store in parts. `what` names the operation, which works
 * only on one part. */
PL_MUST_CHECK pl_status parts_refuse(const pl_store *store, const char *what);

/* The following functions do the work of the functions of store.h for a store in
 * parts. */
/* Returns the part that has this blob; NULL if no part has it. */
pl_store *parts_with_blob(pl_store *store, const pl_hash *blob);
pl_status parts_get_version(pl_store *store, const char *module, uint64_t number,
                            pl_version *out);
pl_status parts_head(pl_store *store, const char *module, pl_version *out);
pl_status parts_get_path(pl_store *store, const char *name, pl_path_state *out);
pl_status parts_get_object(pl_store *store, const char *name, pl_object *out);
pl_status parts_get_ref(pl_store *store, const char *name, pl_buf *target);
pl_status parts_each_version(pl_store *s, const char *module, pl_version_fn fn,
                             void *context);
pl_status parts_each_head(pl_store *s, const char *prefix, pl_version_fn fn,
                          void *context);
pl_status parts_each_path(pl_store *s, const char *prefix, pl_path_fn fn,
                          void *context);
pl_status parts_each_object(pl_store *s, const char *prefix, pl_object_fn fn,
                            void *context);
pl_status parts_each_pending(pl_store *s, const char *prefix, pl_pending_fn fn,
                             void *context);
pl_status parts_each_ref(pl_store *s, const char *prefix, pl_ref_fn fn, void *context);
pl_status parts_count_all(pl_store *store, pl_store_stats *out);
pl_status parts_audit(pl_store *store, bool bytes, pl_problem_fn fn, void *context,
                      pl_audit_report *out);

#endif
