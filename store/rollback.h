/* Private to the folder: a rollback that concerns several parts (PROTOCOL 4.13). It is
 * prepared in every part, decided by a commit of the first, then made; rollback.c opens
 * with the steps. */
#ifndef PL_STORE_ROLLBACK_H
#define PL_STORE_ROLLBACK_H
#include "store/store_internal.h"

#define ROLLBACK_OBJECT "sys/rollback"
/* Ref: the number of the last rollback that this part has made; the first part's has,
 * behind a blank, the number of parts that took part. */
#define ROLLBACK_REF "sys/rolled-back"

/* A writer of a part that has just been opened: its share is made or dropped. */
PL_MUST_CHECK pl_status rollback_resume(pl_store *store);

/* Of the parts that took part in the last one only the first n are left. */
PL_MUST_CHECK pl_status rollback_forget_parts(const char *folder, int n);

typedef enum rollback_view {
    ROLLBACK_WHOLE, /* all parts show the same rollbacks */
    ROLLBACK_MIXED, /* being made, or a part was read too early */
    ROLLBACK_HALF   /* decided, and a part still has its share: being made, or killed */
} rollback_view;
/* Of a store in parts that was opened for reading. */
PL_MUST_CHECK pl_status rollback_look(pl_store *store, rollback_view *out);

#endif
