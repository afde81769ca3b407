/* Creates the database of a store (kv.h). Internal to kv.c. */
#pragma once
#ifdef __cplusplus
extern "C" {
#endif

/* Creates a database at `path`, which must not have one yet, with the families `names`
 * [n] besides "default". Returns NULL, or an error (rocksdb_free). */
char *kv_make(const char *path, const char *const *names, int n);

#ifdef __cplusplus
}
#endif
