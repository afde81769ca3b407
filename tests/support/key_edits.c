/* Defines the functions of key_edits.h. */
#include "tests/support/key_edits.h"

static pl_status found(bool is_found)
{
    return is_found ? PL_OK : pl_fail(PL_ERR_NOT_FOUND, "gone");
}

pl_status put_entry(pl_key_list *list, void *context)
{
    return pl_key_list_put(list, context);
}

pl_status drop_key(pl_key_list *list, void *context)
{
    return found(pl_key_list_drop(list, context));
}

pl_status revoke_key(pl_key_list *list, void *context)
{
    return found(pl_key_list_revoke(list, context));
}
