/* The main function of pathloom: finds the verb and calls it (cmd_VERB.c). */
#include "cli/store_call.h"

#include <stdlib.h>
#include <unistd.h>

const cli_verb *const cli_verbs[] = {
    &verb_train,  &verb_eval,   &verb_generate, &verb_route,   &verb_serve,
    &verb_export, &verb_import, &verb_store,    &verb_check,   &verb_data,
    &verb_forget, &verb_audit,  &verb_status,   &verb_observe, &verb_top,
    &verb_page,   &verb_doctor, &verb_explain,  &verb_init,    &verb_bench,
    &verb_key,    &verb_drain,  &verb_homes,    &verb_join,    &verb_hub,
    &verb_home,   &verb_relay,  &verb_worker,
};
const size_t cli_n_verbs = CLI_COUNT(cli_verbs);

static void print_help(FILE *out)
{
    fprintf(out, "pathloom %s: train and serve mixtures of paths (DiPaCo)\n\n",
            PL_VERSION);
    for (size_t i = 0; i < cli_n_verbs; i++)
        if (!cli_verbs[i]->run_process)
            fprintf(out, "  pathloom %s\n      %s\n", cli_verbs[i]->usage,
                    cli_verbs[i]->help);
    fprintf(out, "\nProcesses of a job, started by `train`:");
    for (size_t i = 0; i < cli_n_verbs; i++)
        if (cli_verbs[i]->run_process)
            fprintf(out, " %s", cli_verbs[i]->name);
    fprintf(out, "\nOptions of a verb: `pathloom VERB --help`; defaults are in "
                 "parentheses. Keys for\n--set: `pathloom init` lists all, with units "
                 "and defaults.\n");
}

static const cli_verb *find_cli_verb(const char *name)
{
    for (size_t i = 0; i < cli_n_verbs; i++)
        if (strcmp(name, cli_verbs[i]->name) == 0)
            return cli_verbs[i];
    return NULL;
}

bool cli_has_word(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

static int explain_verb(const cli_verb *v, int argc, char **argv)
{
    if (v->explain)
        v->explain(argc, argv);
    else if (cli_has_word(argc, argv, "--man"))
        cli_print_manual(v);
    else
        cli_print_verb(v);
    return 0;
}

static int unknown_verb(const char *word)
{
    const char *names[CLI_COUNT(cli_verbs)];
    for (size_t i = 0; i < cli_n_verbs; i++)
        names[i] = cli_verbs[i]->name;
    const char *near = pl_nearest(word, names, cli_n_verbs);
    return cli_fail(
        near
            ? pl_fail(PL_ERR_USAGE, "unknown verb `%s`; did you mean `%s`?", word, near)
            : pl_fail(PL_ERR_USAGE, "unknown verb `%s`; see pathloom --help", word));
}

static int run_verb(int argc, char **argv)
{
    const cli_verb *v = find_cli_verb(argv[1]);
    /* `pathloom help VERB` does the same as `pathloom VERB --help`. */
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        v = argc > 2 ? find_cli_verb(argv[2]) : NULL;
        if (v)
            return explain_verb(v, argc - 2, argv + 2);
        if (argc > 2)
            return unknown_verb(argv[2]);
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("pathloom %s\n", PL_VERSION);
        return 0;
    }
    if (strcmp(argv[1], "--completion") == 0) {
        store_print_completion();
        cli_print_completion(cli_verbs, cli_n_verbs);
        return 0;
    }
    if (strcmp(argv[1], "--man") == 0) {
        cli_print_manual_of_all(cli_verbs, cli_n_verbs);
        return 0;
    }
    if (!v)
        return unknown_verb(argv[1]);
    argc--;
    argv++;
    if (cli_has_word(argc, argv, "--help") || cli_has_word(argc, argv, "-h") ||
        cli_has_word(argc, argv, "--man"))
        return explain_verb(v, argc, argv);
    cli_catch_uncaught(v->run_process ? process_ended : cli_fail);
    int code = 0;
    if (v->run_process) {
        code = v->run_process(argc, argv);
    } else {
        const pl_status status = v->run(argc, argv);
        code = status == PL_OK ? 0 : cli_fail(status);
    }
    pl_wire_shutdown();
    return code;
}

/* Executes the program once more with settings that OpenMP reads when it is loaded.
 * Child processes inherit the settings. If the execution fails, the program continues
 * without them.
 *
 * OpenMP's waiting threads spin for a short time before they sleep. If they spin for a
 * long time, they use the processor that the other threads need. If they sleep at once,
 * waking them takes longer than many operations. The 2,000 turns that are set here take
 * some tens of microseconds. Only verbs that compute need this setting. */
static void execute_with_settings(char **argv)
{
    char self[4096];
    const cli_verb *v = find_cli_verb(argv[1]);
    if (!v || !v->computes || getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0 || setenv("OMP_WAIT_POLICY", "passive", 1) != 0 ||
        setenv("GOMP_SPINCOUNT", "2000", 1) != 0)
        return;
    self[n] = '\0';
    execv(self, argv);
}

int main(int argc, char **argv)
{
    /* If a file reaches a size limit, the write must fail with an error. Without this,
     * the system would kill the process. */
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        print_help(stderr);
        return pl_status_exit_code(PL_ERR_USAGE);
    }
    pl_allow_files();
    if (pl_isa_check() != PL_OK)
        return cli_fail(PL_ERR_USAGE);
    /* OpenBLAS reads its environment when it is loaded, which is later.
     * - pathloom does not use threads of OpenBLAS. While such a thread waits for work,
     * it spins for 0.1 s. Under a limit on memory (ulimit -v) it may wait for memory
     * for ever, and the program would wait for the thread.
     * - OPENBLAS_CORETYPE could make OpenBLAS use the kernels of an older processor. */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    unsetenv("OPENBLAS_CORETYPE");
    execute_with_settings(argv);
    /* Flushing shows whether the disk is full, as in `pathloom init > RUN.yaml`. */
    int code = run_verb(argc, argv);
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (!lost || code != 0)
        return code;
    return cli_fail(pl_fail(PL_ERR_IO,
                            "not all of the output could be written: the disk is full, "
                            "or the program that reads it has ended"));
}
