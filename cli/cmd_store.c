/* pathloom store: shows and maintains a store of modules, also while training runs.
 *
 * Verbs that show something open the store as a reader: they cannot disturb or change a
 * job, and they show one consistent state, as of the moment of opening. Verbs that
 * change the store take its lock, which a running job holds. */
#include "cli/store_call.h"

/* ---- the tables ---- */
#define TAKES(option) (1u << STORE_OPT_##option)

const store_verb store_verbs[] = {
    {"ls", "[PREFIX]",
     "heads of modules; with --refs, --objects, --paths or --tags those",
     "One line a module: its newest version, hash, contributions, size and age. PREFIX "
     "keeps names that begin with it; of modules and paths the arm may be left out. "
     "Exit status 66 if there are none.",
     0, 1, TAKES(REFS) | TAKES(OBJECTS) | TAKES(PATHS) | TAKES(TAGS), true, store_ls},
    {"log", "MODULE[@V]", "versions, newest first, and who made them",
     "From version V downwards if one is named. --graph draws from which versions it "
     "was made, one line each, back to the base model: through chapters, to the "
     "version "
     "that a rollback returned to, and to all sources of a merge. --health reads the "
     "parameters of all versions of the module in its arm and prints for each: lag, "
     "the "
     "cosine of the pseudo-gradients of this version and the one before; gain, the "
     "length of the step over the norm of the updates' mean; step, the same over the "
     "norm of the parameters; transverse, the share of the contributors' updates in "
     "which they disagree.",
     1, 1, TAKES(GRAPH) | TAKES(HEALTH), true, store_log},
    {"show", "MODULE[@V]|TAG", "all of one version, or of a tag",
     "Hashes in full, the outer step's coefficients, and every contribution.", 1, 1, 0,
     true, store_show},
    {"stat", "", "counts and sizes",
     "Modules, versions, blobs and chunks; bytes that they stand for, and bytes on "
     "disk.",
     0, 0, 0, true, store_stat},
    {"du", "", "what the bytes are used for",
     "One line per use: newest versions, tags, states of paths, objects, updates that "
     "wait, outer momentum, older versions, changes, updates that were kept. Bytes "
     "that "
     "have several uses count for the first of them.",
     0, 0, 0, true, store_du},
    {"diff", "A B", "how two versions differ, tensor by tensor",
     "A and B are a MODULE[@V], or ARM[@V] or TAG for all modules of an arm. A line a "
     "tensor: relative L2 distance |b - a| / |a|, cosine of a and b, largest absolute "
     "difference, share of values that changed; then the module's totals. Of modules "
     "with equal hashes only the total is shown.",
     2, 2, 0, true, store_diff},
    {"fsck", "", "check everything, and name each damaged thing",
     "Every chunk, blob and record against its hash, the chain of commits up to the "
     "newest acknowledged one, counts of references, versions without gaps, names that "
     "resolve. Runs beside a job. Exit status 65 if anything is damaged.",
     0, 0, TAKES(QUICK), true, store_fsck},
    {"gc", "", "free the data of old versions",
     "A dry run without --delete. Records of versions stay, so that history and blame "
     "are whole. What stays whole: heads and versions 0, the newest N versions of each "
     "module, versions that a tag names, those that a task may still start from, and "
     "what is younger than the grace time. --delete needs the job to be stopped; it "
     "may be killed at any time.",
     0, 0, TAKES(DELETE) | TAKES(KEEP) | TAKES(GRACE), true, store_gc},
    {"tag", "[NAME [AT]]", "name a consistent set of versions; or list, or delete",
     "AT is a phase that all paths of the arm have finished (the newest, if none is "
     "given), or head: the newest version of each module as of one commit. Where a "
     "rollback has given up versions of the newest phase, head is meant if none is "
     "given. NAME is not an arm's or a module's. gc keeps what a tag names. Also while "
     "a job runs: its home keeps the tag.",
     0, 2, TAKES(ARM) | TAKES(NOTE) | TAKES(DELETE) | TAKES(FORCE), true, store_tag},
    {"merge", "TAG SOURCE SOURCE...", "make modules of several, and tag the result",
     "A SOURCE is a MODULE[@V], a path as p01 or p01@V, or ARM[@V] or TAG for all "
     "modules of an arm; all are of one kind. TAG names the first source's modules "
     "with "
     "the merged ones in their place, and of its arm all others as they are. Modules "
     "that are the same version in all sources (and in the base) stay. linear: the "
     "weighted mean; slerp: "
     "between two, along the arc; ties: the base and the mean of the largest "
     "differences, value by value of those with the elected sign; task: the base and "
     "the weighted sum of the differences. What a merged module was made of is in its "
     "version's record: log and blame show it, verify computes it again. Needs the job "
     "to be stopped.",
     2, STORE_WORDS_MAX,
     TAKES(METHOD) | TAKES(WEIGHTS) | TAKES(BASE) | TAKES(DENSITY) | TAKES(SCALE) |
         TAKES(NOTE) | TAKES(FORCE),
     false, store_merge},
    {"rollback", "MODULE|ARM", "make an older version the newest again",
     "Appends versions with the parameters of --to; nothing is rewritten. Where the "
     "arm is still training, all its modules and paths move on to the next phase that "
     "nobody has begun, and `pathloom train` goes on from there; methods whose paths "
     "keep parameters of their own (noloco, eager, streaming, delayed-nesterov) are "
     "refused until they have finished. Of several homes all go back or none, whenever "
     "it is killed. Needs the job to be stopped.",
     1, 1, TAKES(TO), false, store_rollback},
    {"blame", "MODULE[@V]", "workers, paths and data that made a version",
     "A line a contributor, largest share first. A share is that of the weighted norms "
     "of the updates: how far each pulled. Samples are numbers in the path's own order "
     "of its data shard. A version that a rollback made is blamed on those who made "
     "the one that it went back to; with --history, versions that a rollback gave up "
     "do not count.",
     1, 1, TAKES(HISTORY), true, store_blame},
    {"bisect", "", "since which phase a text is predicted worse",
     "A binary search over the phases of the mixture's newest chapter (or of --arm), "
     "with the evaluation of `eval --at`: of the held-out documents of one domain "
     "(--domain), of a text (--on), or of all held-out text. It begins between the "
     "best of a few phases (or --from) and the newest one (or --to), and ends at two "
     "neighbouring phases between which the bits per byte rose past the middle of both "
     "ends. Then it names the versions of that phase that answered, and who made them. "
     "Phases whose parameters were collected are left out.",
     0, 0, TAKES(DOMAIN) | TAKES(ON) | TAKES(FROM) | TAKES(TO) | TAKES(ARM), true,
     store_bisect},
    {"verify", "MODULE[@V]|TAG",
     "recompute the outer step or the merge that made a version",
     "From the version before it and the updates that were kept (store.keep_updates), "
     "by the arithmetic of the home, and compares hashes. The newest version needs "
     "nothing else; older ones need store.keep_momentum as well. With --history every "
     "version up to this one. Exit status 65 if one is not what its sources make, 66 "
     "if its sources are not there. With --tasks, each task that contributed is "
     "trained once more, with all phases of its path before it, and its update "
     "compared; this takes as long as that training took, needs the versions that it "
     "began with and a machine of the same kind, and tells nothing of methods whose "
     "paths keep parameters of their own.",
     1, 1, TAKES(HISTORY) | TAKES(TASKS), true, store_verify},
    {"cat", "MODULE[@V] [TENSOR]", "parameters to standard output",
     "All of them, or one tensor, named as diff does. With --object the bytes of an "
     "object instead. It has no --json.",
     1, 2, TAKES(FORMAT) | TAKES(OBJECT), true, store_cat},
    {"init", "", "make an empty store",
     "In --store FOLDER, which must be empty or not be there.", 0, 0, TAKES(ENGINE),
     false, store_init},
    {"pack", "", "make old versions smaller now",
     "A home does it while it has nothing else to do (store.compress); this does it at "
     "once, and gives the space back to the disk. No version and no hash changes. "
     "Needs the job to be stopped; may be killed at any time.",
     0, 0, 0, false, store_pack},
    {"backup", "DIR", "copy the store, also while it is written, and check the copy",
     "DIR becomes a store of the state at the beginning. Given again, it brings only "
     "the chunks and records that are new, and drops what is gone; killed, it leaves "
     "the state before, or does the rest when it is given again. Several homes of a "
     "job that trains stand still for a moment, so that the copy is what all had at "
     "once. --quick leaves out reading the copy's bytes.",
     1, 1, TAKES(QUICK) | TAKES(FORCE), true, store_backup},
    {"restore", "DIR|ENGINE", "make the store what its backup is",
     "The backup is checked first and the result afterwards. A store that has gone on "
     "since the backup is only replaced with --force. From an ENGINE, as store.engine "
     "has it, the folder of a store is made anew whose disk is lost: all that was "
     "acknowledged.",
     1, 1, TAKES(QUICK) | TAKES(FORCE), false, store_restore},
    {"push", "FOLDER [MODULE|ARM|TAG]", "bring versions to another store",
     "All modules, or those named, up to their newest or named version; with the "
     "definitions of arms, routers and tags. Only what FOLDER lacks is copied; it is "
     "made if it is not there. Refused where FOLDER went another way.",
     1, 2, 0, true, store_push},
    {"pull", "FOLDER [MODULE|ARM|TAG]", "the same from another store to this one",
     "Needs the job to be stopped.", 1, 2, 0, false, store_pull},
    {"export", "--out DIR", "a path for transformers, vLLM or llama.cpp",
     "The same as `pathloom export`; `pathloom export --help` lists its options.", 0, 0,
     0, false, NULL},
    {"import", "MODEL --out FILE", "a Llama or Qwen3 model as the base of a new run",
     "The same as `pathloom import`; `pathloom import --help` lists its options.", 0, 0,
     0, false, NULL},
};
const size_t n_store_verbs = sizeof store_verbs / sizeof *store_verbs;

/* The options of all verbs of `store`. Whether a verb accepts an option is checked
 * after parsing. */
static const cli_option options[STORE_OPT_COUNT] = {
#define STORE_OPTION_ROW(label, text, argument, explained)                             \
    {.name = text,                                                                     \
     .kind = CLI_TEXT,                                                                 \
     .offset = offsetof(store_call, values) +                                          \
               sizeof(const char *) * (size_t)STORE_OPT_##label,                       \
     .value = argument,                                                                \
     .help = explained},
    STORE_OPTION_TABLE(STORE_OPTION_ROW)
#undef STORE_OPTION_ROW
};

const cli_option *store_option_row(int option)
{
    return &options[option];
}

/* ---- parsing ---- */
static pl_status find_store_verb(const char *word, const store_verb **out)
{
    const char *names[64];
    if (!word)
        return pl_fail(
            PL_ERR_USAGE,
            "store needs a verb, like ls; `pathloom store --help` lists all");
    for (size_t i = 0; i < n_store_verbs; i++) {
        names[i] = store_verbs[i].name;
        if (strcmp(word, names[i]) == 0) {
            *out = &store_verbs[i];
            return PL_OK;
        }
    }
    const char *near = pl_nearest(word, names, n_store_verbs);
    return pl_fail(PL_ERR_USAGE, "store has no verb `%s`; did you mean `%s`?", word,
                   near ? near : "ls");
}

static pl_status parse_store_args(int argc, char **argv, store_call *call)
{
    cli_words words;
    memset(call, 0, sizeof *call);
    PL_CHECK(cli_read(&verb_store, argc, argv, call, &words));
    PL_CHECK(find_store_verb(words.n > 0 ? words.at[0] : NULL, &call->verb));
    const store_verb *v = call->verb;
    if (words.n - 1 < v->min_words)
        return pl_fail(PL_ERR_USAGE,
                       "store %s needs %s; see `pathloom store %s --help`", v->name,
                       v->words, v->name);
    if (words.n - 1 > v->max_words)
        return pl_fail(PL_ERR_USAGE, "unexpected word `%s`",
                       words.at[1 + v->max_words]);
    unsigned always = TAKES(RUN) | TAKES(STORE) | TAKES(JSON);
    for (int i = 0; i < STORE_OPT_COUNT; i++)
        if (call->values[i] && !((always | call->verb->takes) >> i & 1))
            return pl_fail(
                PL_ERR_USAGE,
                "store %s has no option --%s; see `pathloom store %s --help`",
                call->verb->name, options[i].name, call->verb->name);
    call->n_words = words.n - 1;
    for (int i = 0; i < call->n_words; i++)
        call->words[i] = words.at[1 + i];
    call->json = call->values[STORE_OPT_JSON];
    const char *run = call->values[STORE_OPT_RUN];
    if (call->values[STORE_OPT_STORE])
        pl_copy_text(call->folder, sizeof call->folder, call->values[STORE_OPT_STORE]);
    else
        pl_join(call->folder, run ? run : "pathloom-run", "store");
    return PL_OK;
}

pl_status store_option_int(const store_call *call, store_option option, int64_t initial,
                           int64_t min, int64_t *out)
{
    const char *text = call->values[option];
    *out = initial;
    if (!text || (pl_parse_int(text, out) == PL_OK && *out >= min))
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "--%s takes a whole number of at least %lld, not `%s`",
                   options[option].name, (long long)min, text);
}

/* ---- running ---- */
pl_status store_check_folder(const store_call *call)
{
    PL_CHECK(pl_store_check_access(call->folder));
    if (pl_path_is_folder(call->folder))
        return PL_OK;
    return pl_fail(PL_ERR_NOT_FOUND,
                   "there is no store at %s; give --run RUN of a run that has begun to "
                   "train, or --store FOLDER",
                   call->folder);
}

pl_status store_is_held(const store_call *call)
{
    return pl_fail(PL_ERR_BUSY,
                   "a running job holds the store %s; stop it (Ctrl+C drains it, and "
                   "the same command resumes it), then run store %s again",
                   call->folder, call->verb->name);
}

pl_status store_open_to_write(store_call *call, pl_store **out)
{
    PL_CHECK(store_check_folder(call));
    pl_status status = pl_store_open(call->folder, PL_STORE_WRITE, out);
    if (status == PL_OK && pl_store_mended(*out))
        pl_log(PL_LOG_WARN, "store.mended", "was=\"%s\"", pl_store_mended(*out));
    return status == PL_ERR_BUSY ? store_is_held(call) : status;
}

static pl_status run_on_store(store_call *call)
{
    if (call->verb->reads) {
        PL_CHECK(store_check_folder(call));
        PL_CHECK(pl_store_open(call->folder, PL_STORE_READ, &call->store));
    }
    return call->verb->run(call);
}

/* Whether the word is a verb of pathloom itself, which users sometimes look for
 * here. */
static bool is_command(const store_verb *v)
{
    return !v->run;
}

static int run_command(int argc, char **argv)
{
    return strcmp(argv[0], "export") == 0 ? verb_export.run(argc, argv)
                                          : verb_import.run(argc, argv);
}

static int run_store(int argc, char **argv)
{
    store_call call;
    for (size_t i = 0; argc > 1 && i < n_store_verbs; i++)
        if (is_command(&store_verbs[i]) && strcmp(argv[1], store_verbs[i].name) == 0)
            return run_command(argc - 1, argv + 1);
    pl_status status = parse_store_args(argc, argv, &call);
    if (status == PL_OK)
        status = run_on_store(&call);
    int code = status == PL_OK ? 0 : cli_fail(status);
    pl_store_close(&call.store);
    return code;
}

const cli_verb verb_store = {
    .name = "store",
    .usage = "store VERB [WORDS] [--run RUN | --store FOLDER] [--json]",
    .help = "look into the module store, also while training runs, and tend it",
    .options = options,
    .n_options = CLI_COUNT(options),
    .most_words = 1 + STORE_WORDS_MAX,
    .run = run_store,
    .explain = store_explain};
