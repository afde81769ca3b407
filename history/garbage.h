/* Frees the data of old versions, or counts the data that would be freed. Some versions
 * keep their data: version 0, the newest versions, young versions, versions that a tag
 * names, and versions from which a task may still start. */
#pragma once
#include "store/store.h"

typedef struct pl_garbage {
    const char *folder; /* folder of the store */
    pl_store *store;    /* the whole store, open for reading; not used with writers */
    int64_t keep;       /* this many newest versions of each module keep their data */
    int64_t grace_ms;   /* versions younger than this keep their data */
} pl_garbage;

/* Frees the data with `writers` (all parts of the store); NULL: only counts. */
pl_status pl_garbage_collect(const pl_garbage *garbage, pl_writers *writers,
                             pl_gc_report *out);

/* The versions whose data garbage collection (`store gc`) must keep. */
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
