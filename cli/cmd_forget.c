/* pathloom forget: exact unlearning. The command prepares the run, and then becomes
 * `pathloom train`, which repeats the missing training. */
#include "cli/cli.h"

#include <errno.h>
#include <unistd.h>

typedef struct forget_words {
    forget_request q;
    const char *from;
} forget_words;

static const cli_option options[] = {
    CLI_RUN(forget_words, q.run),
    CLI_OPTION("from", CLI_TEXT, forget_words, from, "WHERE",
               "paths: only the mixture and its baselines forget (the default); start: "
               "the base model and the router, too, so everything is trained again"),
    CLI_OPTION("dry-run", CLI_FLAG, forget_words, q.only_cost, NULL,
               "only print what would be trained again"),
    CLI_OPTION("purge", CLI_FLAG, forget_words, q.purge, NULL,
               "also remove the old stores, which have the text and parameters that "
               "were trained on it; without DOC, do only this"),
};

static pl_status run_forget(int argc, char **argv)
{
    forget_words w = {.q.run = "pathloom-run"};
    cli_words words;
    bool trains = false;
    PL_CHECK(cli_read(&verb_forget, argc, argv, &w, &words));
    w.q.docs = words.at;
    w.q.n_docs = words.n;
    if (words.n == 0 && (!w.q.purge || w.q.only_cost))
        return pl_fail(PL_ERR_USAGE,
                       "forget needs a document: a file, a folder, or 16 hex digits");
    w.q.from_start = w.from && strcmp(w.from, "start") == 0;
    if (w.from && !w.q.from_start && strcmp(w.from, "paths") != 0)
        return pl_fail(PL_ERR_USAGE, "--from takes paths or start, not `%s`", w.from);
    PL_CHECK(forget_run(&w.q, &trains));
    if (!trains)
        return PL_OK;
    execl("/proc/self/exe", "pathloom", "train", "--out", w.q.run, (char *)NULL);
    return pl_fail(
        PL_ERR_IO,
        "the training cannot be started (%s); give `pathloom train --out %s`",
        strerror(errno), w.q.run);
}

const cli_verb verb_forget = {
    .name = "forget",
    .usage = "forget DOC... --run RUN [--dry-run] [--from start] [--purge]",
    .help = "remove documents from a trained run, exactly",
    CLI_TABLE(options),
    .notes = "DOC is a file or folder with the text of training documents, or the hash "
             "of one (16 hex digits).\n\n"
             "The run ends with the parameters of a run whose samples never had the "
             "documents. If the run was trained with store.keep_states, "
             "store.keep_updates and store.keep_momentum, only phases that depend on "
             "the documents are trained again. If the command is killed, the same "
             "command or `pathloom train --out RUN` continues.",
    .most_words = CLI_WORDS_MAX,
    .computes = true,
    .run = run_forget};
