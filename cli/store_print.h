/* Prints versions, paths, objects and refs for `pathloom store`: text for people, or
 * one line of JSON per item for programs. The JSON contains nothing that depends on the
 * time of the call, so two calls on an unchanged store print the same bytes. */
#ifndef PL_CLI_STORE_PRINT_H
#define PL_CLI_STORE_PRINT_H
#include "store/store.h"

/* ---- pieces ---- */
/* The first digits of a hash, "-" for none. */
const char *print_brief(const pl_hash *hash, char text[PL_HASH_TEXT]);
void print_set_hash(pl_json *object, const char *key, const pl_hash *hash);
void print_set_count(pl_json *object, const char *key, uint64_t value);

/* One line of `store ls`; `width` is the width of the name's column. */
void print_head(const pl_version *version, uint64_t bytes, int width);
void print_head_json(const pl_version *version, uint64_t bytes);
void print_path(const pl_path_state *path, int width);
void print_path_json(const pl_path_state *path);
void print_object(const pl_object *object, int width);
void print_object_json(const pl_object *object);
void print_ref(const char *name, const char *target, int width);
void print_ref_json(const char *name, const char *target);

void print_tag(const pl_snapshot *tag, int width);
void print_tag_full(const pl_snapshot *tag);
void print_tag_json(const pl_snapshot *tag);

/* An entry of `store log`. */
void print_version(const pl_version *version);
/* All fields; `bytes` of the parameters; `momentum_bytes` is 0 if there is none. */
void print_version_full(const pl_version *version, uint64_t bytes,
                        uint64_t momentum_bytes);
void print_version_json(const pl_version *version, uint64_t bytes,
                        uint64_t momentum_bytes);

void print_stats(const pl_store *store, const pl_store_stats *stats);
void print_stats_json(const pl_store *store, const pl_store_stats *stats);

#endif
