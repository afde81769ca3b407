/* A fence refuses all messages of a worker whose result an audit found to be false. The
 * hub decides which worker is fenced (workers/hub_fenced.c), and the homes keep the
 * fences in their stores (home/home_audit.c).
 *
 * A worker that joined is fenced by its key, because a different key may get its name.
 * Several workers may share one of the job's own keys, and without encryption workers
 * have no keys. These workers are fenced by their names. */
#pragma once
#include "net/messages.h"

typedef struct pl_fence {
    char name[PL_TEXT_MAX], reason[PL_FENCED_TEXT_MAX];
    pl_pubkey key; /* zeros: the worker is fenced by its name */
} pl_fence;

/* Returns the fence of the worker with this name and key, or NULL. `own` says whether
 * the key is one of the job's own. A key of zeros means that the worker has no key. */
const pl_fence *pl_fence_find(const pl_fence *fences, size_t n, const char *name,
                              const pl_pubkey *key, bool own);
