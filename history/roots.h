/* Finds the versions whose data garbage collection (`store gc`) must keep. */
#pragma once
#include "store/store.h"

typedef struct pl_roots pl_roots;

/* Reads the tags and, for every arm, the versions from which a task may still start or
 * to which an update may be relative. */
pl_status pl_roots_create(pl_store *store, pl_roots **out);
void pl_roots_destroy(pl_roots **roots);
/* Adds the versions of this tag, which the store need not have yet. */
void pl_roots_add_tag(pl_roots *roots, const pl_snapshot *tag);

/* The rule of `store gc` and of store.quota. It keeps version 0 of every module (with
 * which later versions are compared), the newest `keep` versions, versions younger than
 * `grace_ms`, and versions that tags or training need. */
typedef struct pl_keep_rule {
    pl_roots *roots;
    /* finds the newest versions; if the store has parts, this is the whole store */
    pl_store *store;
    int64_t keep, grace_ms, now_ms;  /* grace_ms 0: age does not matter */
    char module[PL_MODULE_NAME_MAX]; /* private: the module to which `head` belongs */
    uint64_t head;
} pl_keep_rule;
/* This function is a pl_keep_fn; its context is a pl_keep_rule. */
bool pl_keep_rule_stays(void *rule, const pl_version *version);
