/* One thing of RocksDB that its C interface cannot do: a table file built outside of a
 * database and written by a thread of ours (store/behind.h) while it is being built.
 * After the manner of that interface: *error is a text for rocksdb_free, or stays. */
#ifndef PL_STORE_KV_FILE_H
#define PL_STORE_KV_FILE_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct kv_table kv_table;
kv_table *kv_table_open(const char *path, char **error); /* a new file */
/* Keys rise. */
void kv_table_put(kv_table *table, const void *key, size_t key_len, const void *value,
                  size_t value_len, char **error);
/* No key comes any more; the rest is written and flushed meanwhile. */
void kv_table_end(kv_table *table, char **error);
void kv_table_finish(kv_table *table, char **error); /* waits for that */
void kv_table_free(kv_table *table);                 /* accepts NULL; the file stays */

#ifdef __cplusplus
}
#endif
#endif
