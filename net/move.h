/* Moving names between homes while they are used, or while the job is stopped. move.c
 * opens with the steps of a move and with what happens if a process dies between them.
 */
#ifndef PL_NET_MOVE_H
#define PL_NET_MOVE_H
#include "net/client.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_move_report {
    uint64_t n_names, n_rows, n_blobs, bytes;
    int64_t longest_hold_ms; /* the longest time for which a name was held */
} pl_move_report;

/* Moves a module, a path or an object from one home to another, and adds to `report`.
 * ERR_BUSY: the name changed faster than it could be copied. A name that has moved
 * already is not an error. */
PL_MUST_CHECK pl_status pl_move_name(pl_client *c, const char *name, int from, int to,
                                     pl_move_report *report);

typedef void (*pl_moved_fn)(void *context, const char *name, int from, int to);
/* Makes `fresh` the placement of the job and sets its epoch. First new names are placed
 * by it, then every misplaced name is moved, then clients use it. `said` may be NULL.
 * The next call completes an interrupted one, even if it has another placement. */
PL_MUST_CHECK pl_status pl_move_to(pl_client *c, pl_places *fresh, pl_moved_fn said,
                                   void *context, pl_move_report *report);

int pl_client_n_homes(const pl_client *c);
/* Calls fn with each name that a home owns: modules, paths, objects. */
PL_MUST_CHECK pl_status pl_client_each_name(pl_client *c, int home, pl_name_fn fn,
                                            void *context);
/* The placement tables of home 1: the one that clients use, and the one for new names.
 * n = 0: no table was ever made, so all weights are equal. */
PL_MUST_CHECK pl_status pl_client_get_places(pl_client *c, pl_places *table,
                                             pl_places *next);
/* Makes the client use the table of home 1 from now on. */
PL_MUST_CHECK pl_status pl_client_learn_places(pl_client *c);
/* If no table was ever made, makes one with equal weights for the first n homes. Call
 * this before a home is added. */
PL_MUST_CHECK pl_status pl_client_begin_places(pl_client *c, int n);
/* Reads a table from the store of home 1: the one for clients, or the one for new
 * names. */
PL_MUST_CHECK pl_status pl_places_of_store(pl_store *first, bool next, pl_places *out);
/* Prepares the removal of a stopped job's last home: `last` (from 0), which must be
 * drained. Afterwards no other process needs that home, and pl_store_remove_part may be
 * called. A repeated call is harmless. ERR_BUSY: the home still has names, as the
 * message says. ERR_USAGE: `last` is not the last home. */
PL_MUST_CHECK pl_status pl_homes_leave(pl_writers *writers, int last);
/* If a mover was killed, a home may own a name without knowing that. Tells every such
 * home which names it owns. */
PL_MUST_CHECK pl_status pl_client_settle_places(pl_client *c);
/* Adds a home that was started after the client was made: the next one in order. */
PL_MUST_CHECK pl_status pl_client_add_home(pl_client *c, const char *address);

/* Stops all homes from writing for `ms` (at most 10 s; 0 ends the stop). sequences
 * [n_homes] gets the newest commit of each home. If all stores still show exactly these
 * commits afterwards, the stores are a consistent snapshot of one moment. */
PL_MUST_CHECK pl_status pl_client_hold_all(pl_client *c, int64_t ms,
                                           uint64_t *sequences);

#ifdef __cplusplus
}
#endif
#endif
