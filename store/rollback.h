/* Private to this folder: a rollback that concerns several parts (PROTOCOL 4.13). First
 * the rollback is prepared in all parts except the first; then a commit of the first
 * part decides the rollback; then the other parts carry it out. The comment at the top
 * of rollback.c describes the steps. */
#pragma once
#include "store/store_internal.h"

#define ROLLBACK_OBJECT "sys/rollback"
/* Followed by the rollback's number and time: an object with the whole plan, in the
 * first part. It stays, as the record that a rollback made versions. */
#define ROLLBACK_RECORD "rollback/"
#define COPIED_RECORD   ROLLBACK_RECORD "copied-"
/* A ref with the number of the last rollback that this part has carried out. */
#define ROLLBACK_REF "sys/rolled-back"

/* Called by a writer that has just opened a store, or one home's part of a divided
 * store. If the store holds its share of an unfinished rollback, the function carries
 * the share out if the rollback was decided, and otherwise drops the share. */
pl_status rollback_resume(pl_store *store);

typedef enum rollback_view {
    ROLLBACK_WHOLE, /* all parts have the same last rollback */
    /* a rollback is in progress, or a part was read before the others */
    ROLLBACK_MIXED,
    /* a rollback was decided, but a part has not yet carried out its share: the process
     * that rolls back is still at work, or was killed */
    ROLLBACK_HALF
} rollback_view;
/* Compares the last rollbacks of the parts of a store that was opened for reading. */
pl_status rollback_look(pl_store *store, rollback_view *out);
