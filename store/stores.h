/* Private to this folder: a pl_store as the list of the stores that it reads. A store
 * in one piece is a list with one entry, itself; a reader of a store in parts has one
 * entry per part. The functions that read (store.c, blob.c, usage.c) go through this
 * list; all other files of this folder work on one store. stores.c has the essay. */
#pragma once
#include "store/store_internal.h"

/* Looks up a row in each store in turn. *holder (unless NULL) is the store that has it.
 * A damaged row is ERR_DAMAGED only if no other store has the row; any other error ends
 * the search. */
pl_status stores_find(const pl_store *all, kv_family family, const row_key *key,
                      row_view *row, pl_store **holder);
/* Visits the rows of all stores whose keys begin with `prefix`, in key order. If
 * several stores have a row with the same key, the row of the first one is visited. The
 * row has no pin: a visitor calls row_end only to check that no field is unknown. */
typedef pl_status (*stores_visit_fn)(void *context, pl_store *holder, row_view *row);
pl_status stores_each(const pl_store *all, kv_family family, const row_key *prefix,
                      stores_visit_fn visit, void *context);
/* ERR_BUSY if the folder has more or fewer parts than at the reader's opening. */
pl_status stores_check_number(const pl_store *all);
