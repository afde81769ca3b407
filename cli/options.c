/* Reads options, handles signals and prints errors, for all verbs. */
#include "cli/cli.h"

#include <getopt.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop, interrupts;
/* The launcher that started this process and will end it; 0: no launcher. */
static pid_t launcher;
static bool takes_notice; /* whether signals of other processes count, too */

int cli_fail(pl_status status)
{
    pl_buf shown = {0};
    if (!pl_last_error()[0])
        return status == PL_ERR_CANCELLED ? CLI_EXIT_STOPPED
                                          : pl_status_exit_code(status);
    pl_buf_printable(&shown, pl_last_error(), strlen(pl_last_error()), false);
    fprintf(stderr, "pathloom: %s\n", pl_buf_text(&shown));
    pl_buf_destroy(&shown);
    return pl_status_exit_code(status);
}

/* Counts signals in the stop flag. The second Ctrl+C ends the process and its child
 * processes at once. Another signal that comes within about one second of the first
 * only repeats it: Slurm and systemd send it to a script and to the script's child
 * processes, and the script sends it to them, too.
 *
 * Slurm, systemd and others send a signal to all processes of a job at once. Then hub
 * and home must live until the workers have delivered their last results. So a process
 * of a launcher is ended by the launcher, which got the signal, too; only a worker
 * begins to leave at once. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    static volatile sig_atomic_t first_s;
    struct timespec now;
    (void)context;
    if (launcher != 0) {
        if (stop == 0 && (takes_notice || info->si_pid == launcher))
            stop = 1;
        return;
    }
    if (number != SIGINT && clock_gettime(CLOCK_MONOTONIC, &now) == 0) {
        if (stop == 0)
            first_s = (sig_atomic_t)now.tv_sec;
        else if ((sig_atomic_t)now.tv_sec - first_s <= 1)
            return;
    }
    if (number == SIGINT)
        interrupts++;
    stop = stop < 2 ? stop + 1 : 2;
    if (interrupts > 1)
        _exit(CLI_EXIT_STOPPED);
}

void cli_stop_at_once(void)
{
    interrupts = 1;
}

volatile sig_atomic_t *cli_stop_flag(bool with_interrupt)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    /* under nohup SIGHUP stays ignored, also in child processes */
    struct sigaction old;
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
    if (with_interrupt)
        sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    return &stop;
}

bool cli_was_stopped(void)
{
    return stop != 0 && launcher == 0;
}

void cli_end_with_launcher(bool is_worker)
{
    const char *named = getenv(PL_LAUNCHER_VARIABLE);
    launcher = named && atoi(named) == getppid() ? getppid() : 0;
    takes_notice = is_worker;
}

/* ---- options ---- */
enum {
    FIRST_OPTION = 256,
    OPTIONS_MAX = 48
}; /* FIRST_OPTION: getopt_long's value for the first option; above any char */

static pl_status unknown_option(const cli_verb *verb, const char *word)
{
    const char *names[OPTIONS_MAX];
    bool takes_keys = false;
    for (size_t i = 0; i < verb->n_options; i++) {
        names[i] = verb->options[i].name;
        takes_keys = takes_keys || strcmp(names[i], "set") == 0;
    }
    const char *near = pl_starts_with(word, "--")
                           ? pl_nearest(word + 2, names, verb->n_options)
                           : NULL;
    if (near)
        return pl_fail(PL_ERR_USAGE, "%s has no option `%s`; did you mean `--%s`?",
                       verb->name, word, near);
    const char *plain = word + strspn(word, "-");
    const char *key = takes_keys ? pl_conf_nearest(&config_table, plain) : NULL;
    if (takes_keys)
        return pl_fail(PL_ERR_USAGE, "%s has no option `%s`; %s%s", verb->name, word,
                       key ? "did you mean --set KEY=VALUE with the key "
                           : "to search the keys of --set: pathloom explain ",
                       key ? key : plain);
    return pl_fail(PL_ERR_USAGE, "%s has no option `%s`; see `pathloom %s --help`",
                   verb->name, word, verb->name);
}

static pl_status take_option_value(const cli_option *o, void *into)
{
    void *at = (char *)into + o->offset;
    if (o->value && optarg[0] == '\0' && !(o->kind == CLI_SET && !o->key))
        return pl_fail(PL_ERR_USAGE,
                       "the value of `--%s` is empty: give %s, or leave the option out",
                       o->name, o->value);
    int64_t number = 0;
    double *real = at;
    given_texts *list = at;
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)at = true;
        return PL_OK;
    case CLI_TEXT:
        *(const char **)at = optarg ? optarg : "";
        return PL_OK;
    case CLI_LIST:
        if (list->n == PL_HOMES_MAX)
            return pl_fail(PL_ERR_USAGE, "at most %d values are allowed for --%s",
                           PL_HOMES_MAX, o->name);
        list->items[list->n++] = optarg;
        return PL_OK;
    case CLI_INT:
    case CLI_INT64:
        if (pl_parse_int(optarg, &number) != PL_OK || (double)number < o->least ||
            (double)number > o->most)
            return pl_fail(PL_ERR_USAGE,
                           "--%s takes a whole number from %.0f to %.0f, not `%s`",
                           o->name, o->least, o->most, optarg);
        if (o->kind == CLI_INT)
            *(int *)at = (int)number;
        else
            *(int64_t *)at = number;
        return PL_OK;
    case CLI_REAL:
        if (pl_parse_real(optarg, real) == PL_OK && *real >= o->least &&
            *real <= o->most)
            return PL_OK;
        return pl_fail(PL_ERR_USAGE, "--%s takes a number from %g to %g, not `%s`",
                       o->name, o->least, o->most, optarg);
    case CLI_SET:
        break;
    }
    return given_add(at, o->key, o->value ? optarg : "true");
}

pl_status cli_read(const cli_verb *verb, int argc, char **argv, void *into,
                   cli_words *words)
{
    int option;
    struct option longs[OPTIONS_MAX] = {{0}};
    cli_words none;
    words = words ? words : &none;
    words->n = 0;
    for (size_t i = 0; i < verb->n_options; i++)
        longs[i] =
            (struct option){verb->options[i].name,
                            verb->options[i].value ? required_argument : no_argument,
                            NULL, FIRST_OPTION + (int)i};
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
        if (option < FIRST_OPTION) {
            /* Makes the error for an option that getopt refused. A short option may be
             * in the middle of a word; optopt has the letter of the option. */
            const char *word = argv[optind - 1];
            const char letter[] = {'-', (char)optopt, '\0'};
            char name[64];
            if (option == ':')
                return pl_fail(PL_ERR_USAGE, "option `%s` needs a value", word);
            if (!pl_starts_with(word, "--"))
                return unknown_option(verb, letter);
            if (optopt >= FIRST_OPTION)
                return pl_fail(PL_ERR_USAGE,
                               "option `--%s` takes no value, but `%s` gives it one",
                               verb->options[optopt - FIRST_OPTION].name, word);
            pl_copy_text(name, sizeof name, word);
            name[strcspn(name, "=")] = '\0';
            return unknown_option(verb, name);
        }
        PL_CHECK(take_option_value(&verb->options[option - FIRST_OPTION], into));
    }
    for (; optind < argc; optind++) {
        if (words->n == verb->most_words)
            return pl_fail(PL_ERR_USAGE,
                           "unexpected word `%s`; see `pathloom %s --help`",
                           argv[optind], verb->name);
        words->at[words->n++] = argv[optind];
    }
    return PL_OK;
}

pl_status cli_read_select(const char *text, const char *at, bool *best)
{
    *best = text && strcmp(text, "best") == 0;
    if (*best && at)
        return pl_fail(PL_ERR_USAGE,
                       "--select best and --at %.40s name different versions; leave "
                       "one of them out",
                       at);
    if (!text || *best || strcmp(text, "head") == 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "--select takes head or best, not `%.40s`", text);
}
