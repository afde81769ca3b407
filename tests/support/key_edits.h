/* Changes of a list of keys, for pl_key_list_edit: `context` is the pl_key_entry that
 * is put, or the pl_pubkey that is dropped or revoked. */
#pragma once
#include "base/base.h"

pl_status put_entry(pl_key_list *list, void *context);
pl_status drop_key(pl_key_list *list, void *context);
pl_status revoke_key(pl_key_list *list, void *context);
