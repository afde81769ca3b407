/* Moves names (of modules, paths and objects) between homes, while the job runs or is
 * stopped. The comment at the top of move.c describes the steps of a move, and what
 * happens if a process is killed between them. */
#ifndef PL_NET_MOVE_H
#define PL_NET_MOVE_H
#include "net/client.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_move_report {
    uint64_t n_names, n_rows, n_blobs, bytes;
    int64_t longest_hold_ms; /* longest time for which messages about a name waited */
} pl_move_report;

/* Moves a module, a path or an object from one home to another, and adds the counts of
 * this move to `report`. ERR_BUSY: the rows of the name changed faster than they could
 * be copied. ERR_STALE: the name has moved to a third home. It is no error if the name
 * has moved to `to` already. */
PL_MUST_CHECK pl_status pl_move_name(pl_client *c, const char *name, int from, int to,
                                     pl_move_report *report);

typedef void (*pl_moved_fn)(void *context, const char *name, int from, int to);
/* Makes `fresh` the placement table of the job and sets fresh->epoch. First the table
 * is used for new names, then every misplaced name is moved, then the table is used by
 * clients. `said` is called after each move, and may be NULL. If a call is interrupted,
 * call the function again, with the same or a different table. */
PL_MUST_CHECK pl_status pl_move_to(pl_client *c, pl_places *fresh, pl_moved_fn said,
                                   void *context, pl_move_report *report);

int pl_client_n_homes(const pl_client *c);
/* Calls fn with each name that a home owns: modules, paths, objects. */
PL_MUST_CHECK pl_status pl_client_each_name(pl_client *c, int home, pl_name_fn fn,
                                            void *context);
/* Gets the placement tables of home 1: `table`, which clients use, and `next`, which is
 * used for new names. If table->n is 0, no table was ever made, and all weights are
 * equal. */
PL_MUST_CHECK pl_status pl_client_get_places(pl_client *c, pl_places *table,
                                             pl_places *next);
/* Makes the client use the table of home 1 from now on. */
PL_MUST_CHECK pl_status pl_client_learn_places(pl_client *c);
/* If no table was ever made, makes one with equal weights for the first n homes. Call
 * this before a home is added. */
PL_MUST_CHECK pl_status pl_client_begin_places(pl_client *c, int n);
/* Reads a table from the store of home 1: the table for clients, or with `next` the
 * table for new names. */
PL_MUST_CHECK pl_status pl_places_of_store(pl_store *first, bool next, pl_places *out);
/* Prepares the removal of the last home of a stopped job. Its number is `last` (from
 * 0), and it must no longer own any name. After this call the data of that home are not
 * needed, and pl_store_remove_part may be called. A repeated call is harmless.
 * ERR_BUSY: the home still has names. ERR_USAGE: `last` is not the last home. */
PL_MUST_CHECK pl_status pl_homes_leave(pl_writers *writers, int last);
/* If a move was interrupted, a home may own a name without knowing it. This function
 * tells every such home which names it owns. */
PL_MUST_CHECK pl_status pl_client_settle_places(pl_client *c);
/* Adds a home that was started after the client was made. The home gets the next
 * number. */
PL_MUST_CHECK pl_status pl_client_add_home(pl_client *c, const char *address);

/* Stops all homes from writing for `ms` (at most 10 s; 0 ends the stop). sequences
 * [n_homes] gets the newest commit of each home. If all stores, when they are read,
 * still end with exactly these commits, they are a consistent snapshot of one
 * moment. */
PL_MUST_CHECK pl_status pl_client_hold_all(pl_client *c, int64_t ms,
                                           uint64_t *sequences);

#ifdef __cplusplus
}
#endif
#endif
