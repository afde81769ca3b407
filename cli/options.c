/* What verbs share: options, signals, errors. */
#include "cli/cli.h"

#include <getopt.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop, interrupts;

int cli_fail(pl_status status)
{
    pl_buf shown = {0};
    pl_buf_printable(&shown, pl_last_error(), strlen(pl_last_error()), false);
    fprintf(stderr, "pathloom: %s\n", pl_buf_text(&shown));
    pl_buf_destroy(&shown);
    return pl_status_exit_code(status);
}

/* One wish may come by two ways: Slurm and systemd signal a script and its children,
 * and the script passes it on. */
static bool is_same_wish(int number)
{
    static volatile sig_atomic_t first_s;
    struct timespec now;
    if (number == SIGINT || clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return false;
    if (stop > 0)
        return (sig_atomic_t)now.tv_sec - first_s <= 1;
    first_s = (sig_atomic_t)now.tv_sec;
    return false;
}

/* The second Ctrl+C ends the process at once; children follow it. */
static void on_signal(int number)
{
    if (is_same_wish(number))
        return;
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

/* Under nohup it stays ignored; so it does in a launcher's children. */
static void stop_at_hangup(const struct sigaction *action)
{
    struct sigaction old;
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGHUP, action, NULL);
}

volatile sig_atomic_t *cli_stop_flag(bool with_interrupt)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    stop_at_hangup(&action);
    if (with_interrupt)
        sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    return &stop;
}

/* ---- what getopt_long could not read ---- */
static const char *nearest_option(const char *word, const struct option *known)
{
    const char *names[64];
    size_t n = 0;
    for (; known[n].name && n < sizeof names / sizeof *names; n++)
        names[n] = known[n].name;
    return pl_nearest(word, names, n);
}

/* A short option may stand in the middle of a word: optopt has its letter. */
pl_status cli_bad_option(int option, char **argv, const struct option *known)
{
    char word[64] = {'-', (char)optopt};
    if (option == ':')
        return pl_fail(PL_ERR_USAGE, "option `%s` needs a value", argv[optind - 1]);
    bool is_long = pl_starts_with(argv[optind - 1], "--");
    if (is_long)
        pl_copy_text(word, sizeof word, argv[optind - 1]);
    const char *near = is_long ? nearest_option(word + 2, known) : NULL;
    if (near)
        return pl_fail(PL_ERR_USAGE, "unknown option `%s`; did you mean `--%s`?", word,
                       near);
    return pl_fail(PL_ERR_USAGE, "unknown option `%s`; see `pathloom %s --help`", word,
                   argv[0]);
}

pl_status cli_no_words(const cli_options *o, const char *name)
{
    if (o->n_rest == 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "unexpected word `%s`; see `pathloom %s --help`",
                   o->rest[0], name);
}

/* ---- options of the verbs that take a configuration ---- */
enum {
    OPT_SET = 256,
    OPT_CORPUS,
    OPT_VALID,
    OPT_OUT,
    OPT_RUN,
    OPT_WORKERS,
    OPT_HUB,
    OPT_KEY,
    OPT_JSON,
    OPT_REFERENCE,
    OPT_LIST
};

static const struct option longs[] = {{"set", required_argument, NULL, OPT_SET},
                                      {"corpus", required_argument, NULL, OPT_CORPUS},
                                      {"valid", required_argument, NULL, OPT_VALID},
                                      {"out", required_argument, NULL, OPT_OUT},
                                      {"run", required_argument, NULL, OPT_RUN},
                                      {"workers", required_argument, NULL, OPT_WORKERS},
                                      {"hub", required_argument, NULL, OPT_HUB},
                                      {"key", required_argument, NULL, OPT_KEY},
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {"reference", no_argument, NULL, OPT_REFERENCE},
                                      {"list", no_argument, NULL, OPT_LIST},
                                      {NULL, 0, NULL, 0}};

static pl_status add_set(cli_options *o, const char *key, const char *value)
{
    if ((size_t)o->ask.n_sets == sizeof o->ask.sets / sizeof *o->ask.sets)
        return pl_fail(PL_ERR_USAGE, "more than %d settings", o->ask.n_sets);
    if (!key) {
        o->ask.sets[o->ask.n_sets++] = value;
        return PL_OK;
    }
    if ((size_t)o->n_made == sizeof o->made / sizeof *o->made)
        return pl_fail(PL_ERR_USAGE, "more than %d options of one kind or another",
                       o->n_made);
    char *pair = o->made[o->n_made++];
    if ((size_t)snprintf(pair, sizeof *o->made, "%s=%s", key, value) >= sizeof *o->made)
        return pl_fail(PL_ERR_USAGE, "the value of %s is longer than %d characters",
                       key, PL_KEY_TEXT_MAX);
    o->ask.sets[o->ask.n_sets++] = pair;
    return PL_OK;
}

static pl_status take_option(int option, cli_options *o, char **argv)
{
    switch (option) {
    case OPT_SET:
        return add_set(o, NULL, optarg);
    case OPT_CORPUS:
        return add_set(o, "data.corpus", optarg);
    case OPT_VALID:
        return add_set(o, "data.valid", optarg);
    case OPT_OUT:
    case OPT_RUN:
        o->ask.run = optarg;
        return add_set(o, "out", optarg);
    case OPT_WORKERS:
        return add_set(o, "workers.count", optarg);
    case OPT_HUB:
        o->ask.hub = optarg;
        return PL_OK;
    case OPT_KEY:
        o->ask.key = optarg;
        return PL_OK;
    case OPT_JSON:
        o->json = true;
        return PL_OK;
    case OPT_REFERENCE:
        o->reference = true;
        return PL_OK;
    case OPT_LIST:
        o->list = true;
        return PL_OK;
    default:
        return cli_bad_option(option, argv, longs);
    }
}

pl_status cli_parse(int argc, char **argv, cli_options *out)
{
    int option;
    memset(out, 0, sizeof *out);
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1)
        PL_RETURN_IF(take_option(option, out, argv));
    for (int i = optind; i < argc; i++) {
        if (out->n_rest == 8)
            return pl_fail(PL_ERR_USAGE, "too many words after `%s`", argv[0]);
        out->rest[out->n_rest++] = argv[i];
    }
    return PL_OK;
}
