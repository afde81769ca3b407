/* Private to the folder: a rollback that concerns several parts (PROTOCOL 4.13). It is
 * prepared in every part, decided by a commit of the first, then made; rollback.c opens
 * with the steps. */
#ifndef PL_STORE_ROLLBACK_H
#define PL_STORE_ROLLBACK_H
#include "store/store_internal.h"

#define ROLLBACK_OBJECT "sys/rollback"
/* A ref with the number of the last rollback that this part has made. In the first part
 * the number of parts that took part follows after a blank. */
#define ROLLBACK_REF "sys/rolled-back"

/* For a writer that has just opened a part: makes the part's share of a rollback, or
 * drops it. */
PL_MUST_CHECK pl_status rollback_resume(pl_store *store);

/* Only the first n of the parts that took part in the last rollback are left. */
PL_MUST_CHECK pl_status rollback_forget_parts(const char *folder, int n);

typedef enum rollback_view {
    ROLLBACK_WHOLE, /* all parts show the same rollbacks */
    ROLLBACK_MIXED, /* a rollback is being made, or a part was read too early */
    ROLLBACK_HALF   /* decided, but a part still has its share: it is being made, or its
                       process was killed */
} rollback_view;
/* For a store in parts that was opened for reading. */
PL_MUST_CHECK pl_status rollback_look(pl_store *store, rollback_view *out);

#endif
