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
    int64_t longest_hold_ms; /* that a name stood still */
} pl_move_report;

/* The whole of a module, a path or an object: from one home to another. Adds to
 * `report`. ERR_BUSY: it changed faster than it could be copied. Moving what is there
 * already is fine. */
PL_MUST_CHECK pl_status pl_move_name(pl_client *c, const char *name, int from, int to,
                                     pl_move_report *report);

typedef void (*pl_moved_fn)(void *context, const char *name, int from, int to);
/* Makes `fresh` the placement of the job (its epoch is set here): new names go by it
 * first, then every name that is not where it says is moved, then clients go by it.
 * `said` may be NULL. What was given up half-way is made whole by the next call,
 * whatever it asks for. */
PL_MUST_CHECK pl_status pl_move_to(pl_client *c, pl_places *fresh, pl_moved_fn said,
                                   void *context, pl_move_report *report);

int pl_client_n_homes(const pl_client *c);
typedef pl_status (*pl_name_fn)(void *context, const char *name);
/* What a home owns: modules, paths, objects. */
PL_MUST_CHECK pl_status pl_client_each_name(pl_client *c, int home, pl_name_fn fn,
                                            void *context);
/* What home 1 says of the placement: for clients, and of new names. n 0: none was ever
 * made, so all weigh alike. */
PL_MUST_CHECK pl_status pl_client_get_places(pl_client *c, pl_places *table,
                                             pl_places *next);
/* Goes by that from now on. */
PL_MUST_CHECK pl_status pl_client_learn_places(pl_client *c);
/* Where no table was ever made, one of equal weights for the first n homes: before one
 * more is added. */
PL_MUST_CHECK pl_status pl_client_begin_places(pl_client *c, int n);
/* What the store of home 1 has of it: for clients, or of new names. */
PL_MUST_CHECK pl_status pl_places_of_store(pl_store *first, bool next, pl_places *out);
/* The homes of a stopped job, whose last one is to go: home `last` (from 0) is drained,
 * and nothing of it is needed any more afterwards. Then pl_store_remove_part. Again is
 * fine. ERR_BUSY says what it still has, ERR_USAGE that it is not the last. */
PL_MUST_CHECK pl_status pl_homes_leave(pl_writers *writers, int last);
/* Names whose old home had given them away, and whose new one was not told. */
PL_MUST_CHECK pl_status pl_client_settle_places(pl_client *c);
/* A home that has begun since the client was made, the next in order. */
PL_MUST_CHECK pl_status pl_client_add_home(pl_client *c, const char *address);

/* For `ms` (at most 10 s) no home writes anything; sequences [n_homes] get the newest
 * commit of each. Where all stores show just these commits afterwards, they are what
 * all homes had at one moment. 0 ms: they go on. */
PL_MUST_CHECK pl_status pl_client_hold_all(pl_client *c, int64_t ms,
                                           uint64_t *sequences);

#ifdef __cplusplus
}
#endif
#endif
