/* Private to cli: the options of a verb. The parser, --help, the manual page and the
 * shell completion all use one table per verb. Other options are refused. */
#pragma once
#include "job/job.h"

#include <stddef.h>

typedef enum cli_kind {
    CLI_FLAG,  /* bool */
    CLI_TEXT,  /* const char * */
    CLI_LIST,  /* given_texts; may be given several times */
    CLI_INT,   /* int, between least and most */
    CLI_INT64, /* int64_t, between least and most */
    CLI_REAL,  /* double, between least and most */
    CLI_SET    /* given_settings: KEY=VALUE, or the value of `key` */
} cli_kind;

typedef struct cli_option {
    const char *name; /* without the dashes */
    cli_kind kind;
    size_t offset; /* offset of the field in the struct that cli_read fills */
    /* name of the argument in the help; NULL: the option has no argument */
    const char *value;
    const char *help;
    double least, most; /* limits of a number */
    /* CLI_SET: the key that the option sets; NULL: the argument is KEY=VALUE. An option
     * without an argument sets its key to true. */
    const char *key;
} cli_option;
#define CLI_COUNT(options) (sizeof(options) / sizeof *(options))

/* A row of a table of options. If `argument` is NULL, the option has no argument. */
#define CLI_OPTION(text, how, type, field, argument, explained)                        \
    {                                                                                  \
        .name = text, .kind = how, .offset = offsetof(type, field), .value = argument, \
        .help = explained                                                              \
    }
#define CLI_NUMBER(text, how, type, field, argument, from, to, explained)              \
    {                                                                                  \
        .name = text, .kind = how, .offset = offsetof(type, field), .value = argument, \
        .least = from, .most = to, .help = explained                                   \
    }
/* An option that is short for --set setting=VALUE. */
#define CLI_KEY(text, type, field, argument, setting, explained)                       \
    {                                                                                  \
        .name = text, .kind = CLI_SET, .offset = offsetof(type, field),                \
        .value = argument, .key = setting, .help = explained                           \
    }

#define CLI_RUN(type, field)                                                           \
    CLI_OPTION("run", CLI_TEXT, type, field, "RUN",                                    \
               "folder of the run, which may be training (default: pathloom-run)")
#define CLI_ANSWER(type, field)                                                        \
    CLI_OPTION("at", CLI_TEXT, type, field.at, "TAG",                                  \
               "use the versions that this tag of the mixture names (the newest)"),    \
        CLI_OPTION("without", CLI_TEXT, type, field.without, "MODULE,...",             \
                   "never choose a path that uses one of these modules, such as "      \
                   "L1.E3, and do not load these modules")
#define CLI_JSON(type, field)                                                          \
    CLI_OPTION("json", CLI_FLAG, type, field, NULL, "print JSON, one object per line")
#define CLI_SELECT(type, field)                                                        \
    CLI_OPTION(                                                                        \
        "select", CLI_TEXT, type, field, "VERSION",                                    \
        "head: the newest version of each path; best: the version that "               \
        "predicts the path's held-out documents best, see train.holdout (head)")
/* Options that name a job: `field` is a run_request. */
#define CLI_JOB(type, field, hub_help)                                                 \
    CLI_OPTION("run", CLI_TEXT, type, field.run, "RUN",                                \
               "folder of the run (default: pathloom-run)"),                           \
        CLI_OPTION("hub", CLI_TEXT, type, field.hub, "ADDRESS", hub_help),             \
        CLI_OPTION("key", CLI_TEXT, type, field.key, "FILE",                           \
                   "file with the key for the connection")
#define CLI_SETTINGS(type, field, text)                                                \
    CLI_OPTION("set", CLI_SET, type, field, "KEY=VALUE", text)

/* Largest number of words (arguments that are not options) of a command. */
enum { CLI_WORDS_MAX = 12 };
typedef struct cli_words {
    const char *at[CLI_WORDS_MAX];
    int n;
} cli_words;

typedef struct cli_verb {
    const char *name, *usage; /* "top", "top --run RUN" */
    const char *help;         /* one line about the verb */
    const cli_option *options;
    size_t n_options;
    const char *notes; /* text after the list of options; NULL: none */
    int most_words;    /* largest number of words that the verb accepts */
    bool computes; /* the verb trains or generates, so main.c prepares the threads */
    /* Runs the verb; argv[0] is its name. main.c prints the sentence of an error. A
     * verb that has told how it ended returns an error with an empty sentence. */
    pl_status (*run)(int argc, char **argv);
    /* NULL, or runs a process of a job instead, which logs its errors, and returns its
     * exit code; the short help does not list such a verb */
    int (*run_process)(int argc, char **argv);
    /* prints the verb's help instead of the list of options and notes; or NULL */
    void (*explain)(int argc, char **argv);
} cli_verb;

/* The fields `options` and `n_options` of a verb. */
#define CLI_TABLE(table) .options = table, .n_options = CLI_COUNT(table)

/* Reads the command line. Sets those fields of `into` that belong to the given options;
 * other fields stay unchanged. `words` may be NULL if the verb accepts no words. The
 * sentence of ERR_USAGE says what is wrong. */
pl_status cli_read(const cli_verb *verb, int argc, char **argv, void *into,
                   cli_words *words);
/* Reads the value of --select (NULL: not given); *best: it is `best`. ERR_USAGE. */
pl_status cli_read_select(const char *text, const char *at, bool *best);

/* help.c */
void cli_print_option(const cli_option *o);
/* Prints a paragraph in lines that begin at column `indent`; the caller has already
 * moved to this column for the first line. */
void cli_print_wrapped(const char *text, int indent);
void cli_print_verb(const cli_verb *verb);
void cli_man_option(const cli_option *o);
void cli_man_text(const char *text); /* prints a line of a manual page, escaped */
void cli_print_manual(const cli_verb *verb);
void cli_print_manual_of_all(const cli_verb *const *verbs, size_t n);
void cli_print_completion(const cli_verb *const *verbs, size_t n);
