/* Finds the fence of a worker (fence.h). */
#include "net/fence.h"

const pl_fence *pl_fence_find(const pl_fence *fences, size_t n, const char *name,
                              const pl_pubkey *key, bool own)
{
    const bool by_name = own || pl_pubkey_none(key);
    for (size_t i = 0; i < n; i++) {
        const pl_fence *f = &fences[i];
        if (pl_pubkey_none(&f->key) ? by_name && strcmp(f->name, name) == 0
                                    : pl_pubkey_equal(&f->key, key))
            return f;
    }
    return NULL;
}
