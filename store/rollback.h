/* Private to the folder: a rollback that concerns several parts (PROTOCOL 4.13). Every
 * part prepares it, a commit of the first part decides it, then every part makes it.
 * The comment at the top of rollback.c has the steps. */
#ifndef PL_STORE_ROLLBACK_H
#define PL_STORE_ROLLBACK_H
#include "store/store_internal.h"

#define ROLLBACK_OBJECT "sys/rollback"
/* A ref with the number of the last rollback that this part has made. In the first
 * part, a blank follows, and the number of parts that took part. */
#define ROLLBACK_REF "sys/rolled-back"

/* For a writer that has just opened a part: if the part has a share of a rollback,
 * carries the share out if the rollback was decided, or drops it. */
PL_MUST_CHECK pl_status rollback_resume(pl_store *store);

/* Called after parts were removed: records that only the first n parts took part in the
 * last rollback. */
PL_MUST_CHECK pl_status rollback_forget_parts(const char *folder, int n);

typedef enum rollback_view {
    ROLLBACK_WHOLE, /* all parts have made the same last rollback */
    ROLLBACK_MIXED, /* a rollback is under way, or a part was read too early */
    /* a rollback was decided, but a part has not made its share: the rollback is under
     * way, or its process was killed */
    ROLLBACK_HALF
} rollback_view;
/* Compares the parts of a store that was opened for reading. */
PL_MUST_CHECK pl_status rollback_look(pl_store *store, rollback_view *out);

#endif
