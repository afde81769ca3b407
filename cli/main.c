/* pathloom: one file a verb; this one finds it. */
#include "cli/cli.h"

#include <stdlib.h>

const verb verbs[] = {
    {"train",
     "train [RUN.yaml] [--corpus PATH] [--valid PATH] [--out RUN] [--set key=value]",
     "train a mixture of paths; without arguments on text that this machine has",
     cmd_train, false},
    {"eval", "eval --run RUN [--json]",
     "held-out perplexity of the mixture and its baselines", cmd_eval, false},
    {"generate",
     "generate --run RUN --prompt TEXT [--path pNN] [--max-tokens N] [--temperature X]",
     "text from the path that the router picks", cmd_generate, false},
    {"store", "store ls|log|show|stat [MODULE[@VERSION]] --run RUN [--json]",
     "look into the module store, also while training runs", cmd_store, false},
    {"status", "status --run RUN [--json]", "what a running job does", cmd_status,
     false},
    {"init", "init [--set key=value] > RUN.yaml", "write a commented configuration",
     cmd_init, false},
    {"hub", "hub --bind ADDRESS --home ADDRESS", "lease tasks to workers", cmd_hub,
     true},
    {"home", "home --store DIR --bind ADDRESS", "own a store and apply outer steps",
     cmd_home, true},
    {"worker", "worker --hub ADDRESS --name NAME", "train what the hub leases",
     cmd_worker, true},
};
const size_t n_verbs = sizeof verbs / sizeof *verbs;

static void print_help(FILE *out)
{
    fprintf(out, "pathloom %s: train and serve mixtures of paths (DiPaCo)\n\n",
            PL_VERSION);
    for (size_t i = 0; i < n_verbs; i++)
        if (!verbs[i].hidden)
            fprintf(out, "  pathloom %s\n      %s\n", verbs[i].usage, verbs[i].help);
    fprintf(out, "\nProcesses of a job, started by `train`:");
    for (size_t i = 0; i < n_verbs; i++)
        if (verbs[i].hidden)
            fprintf(out, " %s", verbs[i].name);
    fprintf(out,
            "\nKeys for --set: `pathloom init` lists all, with units and defaults.\n");
}

static int unknown_verb(const char *word)
{
    const char *names[32];
    for (size_t i = 0; i < n_verbs; i++)
        names[i] = verbs[i].name;
    const char *near = pl_nearest(word, names, n_verbs);
    if (near)
        return cli_fail(
            pl_fail(PL_ERR_USAGE, "unknown verb `%s`; did you mean `%s`?", word, near));
    return cli_fail(
        pl_fail(PL_ERR_USAGE, "unknown verb `%s`; see pathloom --help", word));
}

int main(int argc, char **argv)
{
    /* An inherited core type makes the BLAS library slower than the machine is. */
    unsetenv("OPENBLAS_CORETYPE");
    if (argc < 2) {
        print_help(stderr);
        return pl_status_exit_code(PL_ERR_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("pathloom %s\n", PL_VERSION);
        return 0;
    }
    for (size_t i = 0; i < n_verbs; i++)
        if (strcmp(argv[1], verbs[i].name) == 0) {
            int code = verbs[i].run(argc - 1, argv + 1);
            pl_wire_shutdown();
            return code;
        }
    return unknown_verb(argv[1]);
}
