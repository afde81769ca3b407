/* Names to numbers, for who has thousands of them: open addressing, copies of names. */
#ifndef PL_BASE_NAME_TABLE_H
#define PL_BASE_NAME_TABLE_H
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_name_table pl_name_table;
pl_name_table *pl_name_table_create(void);
void pl_name_table_destroy(pl_name_table **table); /* accepts NULL */

/* number >= 0; a name that is there gets the new number. */
void pl_name_table_put(pl_name_table *table, const char *name, int number);
void pl_name_table_drop(pl_name_table *table, const char *name); /* if it is there */
int pl_name_table_get(const pl_name_table *table, const char *name); /* -1: not there */

#ifdef __cplusplus
}
#endif
#endif
