/* Private to cli: the verbs of `pathloom store`, with their words and options.
 *
 * Each verb and each option has one row in a table. The parser, the help, the manual
 * page and the completion use these tables. A verb prints to standard output (with
 * --json, one line of JSON per item) and returns a status. The caller prints the error
 * sentence and sets the exit code. */
#pragma once
#include "cli/cli.h"

/* X(NAME, option, argument or NULL, help) */
#define STORE_OPTION_TABLE(X)                                                          \
    X(RUN, "run", "RUN", "folder of the run (default: pathloom-run)")                  \
    X(STORE, "store", "FOLDER", "folder of a store, if there is no run")               \
    X(JSON, "json", NULL, "print JSON, one line per item")                             \
    X(REFS, "refs", NULL, "list refs instead of modules")                              \
    X(OBJECTS, "objects", NULL, "list objects instead of modules")                     \
    X(PATHS, "paths", NULL, "list states of paths instead of modules")                 \
    X(TAGS, "tags", NULL, "list tags instead of modules")                              \
    X(NOTE, "note", "TEXT", "a note to keep in the tag")                               \
    X(ARM, "arm", "ARM", "the arm whose modules are meant (mix)")                      \
    X(DELETE, "delete", NULL, "tag: delete the tag; gc: really free the data")         \
    X(TO, "to", "V",                                                                   \
      "a version number or a tag; bisect: the last phase of the search")               \
    X(FROM, "from", "PHASE", "first phase of a search (the best of a few phases)")     \
    X(DOMAIN, "domain", "D", "only held-out documents of this domain")                 \
    X(ON, "on", "FILE", "use this text, not the held-out text, like eval --on")        \
    X(GRAPH, "graph", NULL, "draw all ancestors of a version, in all chapters")        \
    X(HEALTH, "health", NULL, "show how well the outer steps of a module work")        \
    X(KEEP, "keep", "N", "keep the newest N versions of each module (3)")              \
    X(GRACE, "grace", "SECONDS", "also keep all versions younger than this (3600)")    \
    X(QUICK, "quick", NULL, "check records only; do not read the bytes")               \
    X(HISTORY, "history", NULL, "use all versions up to this one")                     \
    X(DOCUMENTS, "documents", NULL, "also list the documents that were trained on")    \
    X(TASKS, "tasks", NULL, "also train the contributing tasks again")                 \
    X(FORMAT, "format", "NAME", "raw (little-endian fp32), npy or text (raw)")         \
    X(OBJECT, "object", NULL, "write the bytes of an object, not of a module")         \
    X(FORCE, "force", NULL, "replace what already exists")                             \
    X(JOB, "job", NULL, "also copy the run's configuration, keys and prepared text")   \
    X(METHOD, "method", "NAME", "how to merge: linear, slerp, ties or task (linear)")  \
    X(WEIGHTS, "weights", "W,W,...", "weights, one number per source (all equal)")     \
    X(BASE, "base", "SOURCE", "ties and task: version from which the others began")    \
    X(DENSITY, "density", "D", "ties: share of each difference that is kept (0.2)")    \
    X(SCALE, "scale", "S", "ties and task: factor of the sum of differences (1)")      \
    X(ENGINE, "engine", "ENGINE", "place for the store's chunks, as in store.engine")

typedef enum store_option {
#define STORE_OPTION_ENUM(name, text, argument, help) STORE_OPT_##name,
    STORE_OPTION_TABLE(STORE_OPTION_ENUM)
#undef STORE_OPTION_ENUM
        STORE_OPT_COUNT
} store_option;

enum { STORE_WORDS_MAX = PL_BLEND_SOURCES_MAX + 1 };
typedef struct store_call {
    const struct store_verb *verb;
    char folder[PL_PATH_MAX];           /* folder of the store */
    const char *words[STORE_WORDS_MAX]; /* the words after the verb; NULL if missing */
    int n_words;
    const char *values[STORE_OPT_COUNT]; /* NULL: option not given; "" for a flag */
    bool json;
    pl_store *store; /* the store, opened for reading if the verb's row says so */
    /* the arm that print_task has read last, and its paths, or NULL */
    char arm[PL_MODULE_NAME_MAX];
    pl_topology *topology;
    pl_snapshot *tags; /* all tags, which store log and show read once */
    size_t n_tags;
} store_call;

typedef pl_status store_run(store_call *call);
typedef struct store_verb {
    /* for example "diff", "A B", and one line of help */
    const char *name, *words, *help;
    const char *about; /* more text for the verb's help and the manual page */
    int min_words, max_words;
    /* accepted options besides run, store and (all but cat) json, as bits
     * 1 << store_option */
    unsigned takes;
    bool reads; /* the store must be opened for reading before `run` */
    store_run *run;
} store_verb;
extern const store_verb store_verbs[];
extern const size_t n_store_verbs;
const cli_option *store_option_row(int option);
bool store_takes(const store_verb *verb, int option);

/* store_help.c */
void store_explain(int argc, char **argv); /* argv[0] is "store" */
void store_print_completion(void);

/* Reads a whole number of at least `min`; `initial` without the option. ERR_USAGE. */
pl_status store_option_int(const store_call *call, store_option option, int64_t initial,
                           int64_t min, int64_t *out);
/* Opens the store for writing. ERR_BUSY says what to do while a job runs. */
pl_status store_open_to_write(store_call *call, pl_store **out);
pl_status store_open_writers(const store_call *call, pl_writers **out);
/* ERR_USAGE if the folder `other` is the store, is in it, or contains it. */
pl_status store_refuse_overlap(const store_call *call, const char *other);

/* ERR_USAGE: the folder is a part of a store; needed data may be in other parts. */
pl_status store_refuse_part(const char *folder);

pl_status look_at_tags(store_call *call);

store_run store_ls, store_log, store_show, store_stat, store_du, store_diff, store_tag,
    store_merge, store_rollback, store_gc, store_fsck, store_blame, store_bisect,
    store_verify, store_cat, store_init, store_pack, store_backup, store_restore,
    store_push, store_pull;
/* store_tag.c: ERR_USAGE if a tag cannot have this name. */
pl_status store_check_tag_name(pl_store *store, const char *name);
/* ERR_EXISTS if a tag with this name exists and --force was not given. */
pl_status store_check_new_tag(const store_call *call, pl_store *store,
                              const char *name);
/* Stores the tag, or removes it if `bytes` is empty. `store` is a reader. */
pl_status store_keep_tag(const store_call *call, pl_store *store, const char *name,
                         const pl_buf *bytes);
/* Draws the descent of a version, for `log --graph`. */
pl_status store_graph(store_call *call, const char *module, uint64_t number);
