/* A map from names to numbers, for thousands of names. The table uses open addressing
 * and keeps copies of the names. */
#pragma once
#include "base/status.h"
PL_C_BEGIN

typedef struct pl_name_table pl_name_table;
pl_name_table *pl_name_table_create(void);
void pl_name_table_destroy(pl_name_table **table); /* accepts NULL */

/* Sets the number (>= 0) of a name; adds the name if it is missing. */
void pl_name_table_put(pl_name_table *table, const char *name, int number);
void pl_name_table_drop(pl_name_table *table, const char *name);
/* Returns -1 if the name is missing. */
int pl_name_table_get(const pl_name_table *table, const char *name);

PL_C_END
