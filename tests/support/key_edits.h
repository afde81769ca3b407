/* Changes of a list of keys, for pl_key_list_edit: `context` is the pl_key_entry that
 * is put, or the pl_pubkey that is dropped or revoked. */
#pragma once
#include "base/base.h"

pl_status put_entry(pl_key_list *list, void *context);
pl_status drop_key(pl_key_list *list, void *context);
pl_status revoke_key(pl_key_list *list, void *context);

static inline bool is_worker(pl_key_role role, uint16_t type)
{
    (void)type;
    return role == PL_AS_WORKER;
}

static inline void ignore_refusal(const pl_refusal *refusal)
{
    (void)refusal;
}

static inline void ignore_trouble(const char *trouble)
{
    (void)trouble;
}

/* Opens a gate that admits the workers of this list, and reports nothing. */
static inline pl_status open_quiet_gate(const pl_keypair *own, const char *list)
{
    const pl_gate_options options = {.own = own,
                                     .list = list,
                                     .may = is_worker,
                                     .on_refused = ignore_refusal,
                                     .on_list = ignore_trouble};
    return pl_gate_open(&options);
}
