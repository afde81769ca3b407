/* Configuration: a table has one row per key. The YAML reader, --set, the commented
 * file of `pathloom init` and the reference page all use this table. The table also
 * gives the canonical text, whose hash identifies a configuration. */
#pragma once
#include "base/buf.h"
#include <stdio.h>
PL_C_BEGIN

typedef enum pl_key_type {
    PL_KEY_INT,    /* int64_t */
    PL_KEY_REAL,   /* double */
    PL_KEY_BOOL,   /* bool */
    PL_KEY_TEXT,   /* char[PL_KEY_TEXT_MAX] */
    PL_KEY_CHOICE, /* char[PL_KEY_TEXT_MAX] with one of `choices` */
    PL_KEY_SECTION /* a heading, which has only name and help */
} pl_key_type;
enum { PL_KEY_TEXT_MAX = 512 };

typedef struct pl_key {
    const char *name; /* dotted name of the key: "train.tau" */
    pl_key_type type;
    size_t offset;       /* offset of the field in the caller's struct */
    const char *initial; /* the default value as text */
    double min, max;     /* limits of a number; no limits unless min < max */
    const char *choices; /* "a|b|c", CHOICE only */
    const char *unit;    /* "steps", "bytes", "" */
    const char *help;    /* one sentence */
    /* if true, the key does not change the training, and the canonical text omits it */
    bool local;
} pl_key;

/* A deleted key and the value used since then; or a key and a deleted value of it. */
typedef struct pl_gone {
    const char *name, *value;
} pl_gone;

typedef struct pl_table {
    const pl_key *keys;
    size_t n_keys;
    const pl_gone *gone; /* only pl_conf_load_saved reads these */
    size_t n_gone;
} pl_table;

void pl_conf_defaults(const pl_table *table, void *target);

/* Sets one key. Errors show `where`: "--set", "run.yaml line 12". If the key is
 * unknown, the error names the most similar key of the table. If the value is not
 * allowed, the error names the key, the range and the unit. Both are ERR_CONFIG. */
pl_status pl_conf_set(const pl_table *table, void *target, const char *key,
                      const char *value, const char *where);
pl_status pl_conf_set_pair(const pl_table *table, void *target,
                           const char *key_equals_value, const char *where);

/* Reads a YAML file. A key inside a mapping becomes a dotted key ("train.tau"). Errors
 * name the file and the line. */
pl_status pl_conf_load(const pl_table *table, void *target, const char *path);
/* Reads a file that pl_conf_write_yaml of this or an older version wrote. Unlike
 * pl_conf_load it accepts deleted keys and values, and sets no field for them. *differs
 * gets the first whose value in the file this version does not have, or NULL. */
pl_status pl_conf_load_saved(const pl_table *table, void *target, const char *path,
                             const pl_gone **differs);

/* pl_conf_write_yaml writes commented YAML with the current values.
 * pl_conf_write_reference writes the reference page in Markdown. */
void pl_conf_write_yaml(const pl_table *table, const void *target, pl_buf *out);
void pl_conf_write_reference(const pl_table *table, pl_buf *out);

/* Writes "key: value\n" for every key that changes results, in table order. */
void pl_conf_canonical(const pl_table *table, const void *target, pl_buf *out);

/* Writes the value of one key as text. Returns false if there is no such key. */
bool pl_conf_get(const pl_table *table, const void *target, const char *key,
                 pl_buf *out);

void pl_conf_wanted(const pl_key *key, pl_buf *out);
/* Returns the key whose part after the last dot is `name`. If there is none, returns
 * the key whose spelling is most similar to `name`, or NULL if no key is similar. The
 * result belongs to the table. */
const char *pl_conf_nearest(const pl_table *table, const char *name);

/* Returns the first key that changes results and differs in `a` and `b`, or NULL. */
const char *pl_conf_difference(const pl_table *table, const void *a, const void *b);

PL_C_END
