/* pathloom store: shows and maintains a store of modules, also while training runs.
 *
 * Verbs that show something open the store as a reader: they cannot disturb or change a
 * job, and they show the state of the store at the moment of opening. Verbs that change
 * the store take the store's lock, which a running job holds. */
#include "cli/store_call.h"

/* ---- the tables ---- */
#define TAKES(option) (1u << STORE_OPT_##option)

const store_verb store_verbs[] = {
    {"ls", "[PREFIX]",
     "list the newest versions of modules; or refs, objects, paths or tags",
     "One line per module: its newest version, hash, contributions, size and age. Only "
     "names that begin with PREFIX are listed; names of modules and paths may be given "
     "without their arm. Exit status 66 if nothing is found.",
     0, 1, TAKES(REFS) | TAKES(OBJECTS) | TAKES(PATHS) | TAKES(TAGS), true, store_ls},
    {"log", "MODULE[@V]", "list the versions of a module, newest first",
     "Begins with version V if one is given. --graph draws all versions from which it "
     "was made, one line each, back to the base model: through chapters, to the "
     "version that a rollback returned to, and to all sources of a merge. --health "
     "reads the parameters of all versions of the module in its arm and prints for "
     "each: lag, the cosine of the pseudo-gradients of this version and the previous "
     "one; gain, the length of the step over the norm of the updates' mean; step, the "
     "length of the step over the norm of the parameters; transverse, the part of the "
     "updates' squared norm that is not in their mean: 0 if all updates are equal.",
     1, 1, TAKES(GRAPH) | TAKES(HEALTH), true, store_log},
    {"show", "MODULE[@V]|TAG", "show all details of one version, or of a tag",
     "Shows full hashes, the coefficients of the outer step, and every contribution.",
     1, 1, 0, true, store_show},
    {"stat", "", "count what the store has",
     "Counts modules, versions, blobs and chunks, their bytes before compression, and "
     "the bytes on disk.",
     0, 0, 0, true, store_stat},
    {"du", "", "show what the bytes are used for",
     "One line per use: newest versions, tags, states of paths, objects, waiting "
     "updates, outer momentum, older versions, changes, kept updates. Bytes with "
     "several uses are counted for the first of them.",
     0, 0, 0, true, store_du},
    {"diff", "A B", "compare two versions, tensor by tensor",
     "A and B are each a MODULE[@V], or ARM[@V] or TAG for all modules of an arm. One "
     "line per tensor: relative L2 distance |b - a| / |a|, cosine of a and b, largest "
     "absolute difference, share of values that changed; then one line for the whole "
     "module. If two modules have equal hashes, only this last line is shown.",
     2, 2, 0, true, store_diff},
    {"fsck", "", "check everything, and list what is damaged",
     "Checks every chunk, blob and record against its hash, the chain of commits up to "
     "the newest acknowledged one, and the counts of references. Also checks that no "
     "version is missing and that everything to which a name refers exists. May run "
     "while a job trains. Exit status 65 if anything is damaged.",
     0, 0, TAKES(QUICK), true, store_fsck},
    {"gc", "", "free the data of old versions",
     "Without --delete only shows what would be freed. The records of versions always "
     "stay, for log and blame. gc keeps the data of the newest N versions and version "
     "0 of each module, of versions that a tag names or that a task may still start "
     "from, and of versions younger than the grace time. --delete needs the job to be "
     "stopped; it may be killed at any time.",
     0, 0, TAKES(DELETE) | TAKES(KEEP) | TAKES(GRACE), true, store_gc},
    {"tag", "[NAME [AT]]", "name a consistent set of versions; list or delete tags",
     "AT is a phase that all paths of the arm have finished (default: the newest), or "
     "head: the newest version of each module at one moment. If a rollback has dropped "
     "versions of the newest phase, the default is head. NAME must not be the name of "
     "an arm or a module. gc keeps the versions that a tag names. Works also while a "
     "job runs.",
     0, 2, TAKES(ARM) | TAKES(NOTE) | TAKES(DELETE) | TAKES(FORCE), true, store_tag},
    {"merge", "TAG SOURCE SOURCE...",
     "merge modules of several sources, and tag the result",
     "A SOURCE is a MODULE[@V], a path such as p01 or p01@V, or ARM[@V] or TAG for all "
     "modules of an arm; all sources must be of the same kind. TAG names all modules "
     "of the first source's arm, with the merged modules in place of those that were "
     "merged. A module that is the same version in all sources (and in the base) is "
     "not merged. Methods: linear: weighted mean; slerp: point on the arc between two "
     "sources; ties: base plus the mean of the largest differences from the base (for "
     "each value, only of those with the majority's sign); task: base plus the "
     "weighted sum of the differences. The record of a merged version names its "
     "sources: log and blame show them, and verify computes the version again. Needs "
     "the job to be stopped.",
     2, STORE_WORDS_MAX,
     TAKES(METHOD) | TAKES(WEIGHTS) | TAKES(BASE) | TAKES(DENSITY) | TAKES(SCALE) |
         TAKES(NOTE) | TAKES(FORCE),
     false, store_merge},
    {"rollback", "MODULE|ARM", "make an older version the newest again",
     "Appends versions with the parameters of version --to; no version is changed. If "
     "the arm is still training, all its modules and paths move on to the next phase "
     "that no path has begun, and `pathloom train` continues from there. With noloco, "
     "streaming and delayed-nesterov, an arm that is still training is refused. If "
     "there are several homes, all of them go back or none, even if the command is "
     "killed. Needs the job to be stopped.",
     1, 1, TAKES(TO), false, store_rollback},
    {"blame", "MODULE[@V]", "show which workers, paths and data made a version",
     "One line per contributor, the largest share first. The share is the weighted "
     "norm of its update, divided by the sum over all updates. Samples are numbered in "
     "the order in which the path draws them from its shard. For a version that a "
     "rollback made, the contributors of the original version are shown; with "
     "--history, versions that a rollback dropped do not count. --documents lists the "
     "documents of the samples: the hash of the text, the tokens that were trained on, "
     "and, if the run has the tokenizer, how the text begins.",
     1, 1, TAKES(HISTORY) | TAKES(DOCUMENTS), true, store_blame},
    {"bisect", "", "find the phase since which a text is predicted worse",
     "A binary search over the phases of the mixture's newest chapter (or of --arm). "
     "Each step evaluates one phase like `eval --at`: on the held-out documents of one "
     "domain (--domain), on a text (--on), or on all held-out text. The search begins "
     "with the best of a few phases (or --from) and the newest phase (or --to). It "
     "ends at two neighbouring phases: only the later one has more bits per byte than "
     "the mean of the two values with which the search began. Then it prints the "
     "versions that the answering paths got between these phases, and their "
     "contributors. Phases whose parameters gc has deleted are left out.",
     0, 0, TAKES(DOMAIN) | TAKES(ON) | TAKES(FROM) | TAKES(TO) | TAKES(ARM), true,
     store_bisect},
    {"verify", "MODULE[@V]|TAG",
     "recompute the outer step or the merge that made a version",
     "Recomputes the version from the version before it and the kept updates "
     "(store.keep_updates), as a home does, and compares the hashes. Versions before "
     "the newest need store.keep_momentum as well. With --history, checks every "
     "version up to this one. Exit status 65 if a version differs, 66 if nothing "
     "could be recomputed. With --tasks, also trains each contributing task again, "
     "with all earlier phases of its path, and compares its update. This takes as "
     "long as the first training of these phases, needs the versions with which they "
     "began and a machine of the same kind, and is not possible for methods whose "
     "paths keep parameters of their own.",
     1, 1, TAKES(HISTORY) | TAKES(TASKS), true, store_verify},
    {"cat", "MODULE[@V] [TENSOR]", "write parameters to standard output",
     "Writes all parameters, or those of one tensor, named as in diff. With --object "
     "writes the bytes of an object instead.",
     1, 2, TAKES(FORMAT) | TAKES(OBJECT), true, store_cat},
    {"init", "", "make an empty store",
     "Makes the store in --store FOLDER, which must be empty or must not exist.", 0, 0,
     TAKES(ENGINE), false, store_init},
    {"pack", "", "compress old versions now",
     "A home compresses old versions while it has nothing else to do (store.compress); "
     "this command compresses them at once and gives the space back to the disk. No "
     "version and no hash changes. Needs the job to be stopped; may be killed at any "
     "time.",
     0, 0, 0, false, store_pack},
    {"backup", "DIR", "copy the store, also while it is written, and check the copy",
     "Copies the state at the moment when the command starts into the store DIR. If "
     "DIR has an earlier backup, only new chunks and records are copied, and those "
     "that the store no longer has are deleted. If the command is killed, DIR keeps "
     "its earlier state, or the same command completes the copy. While a job with "
     "several homes trains, the homes stop writing for a moment, so that the copy "
     "shows all of them at one moment. --quick does not read the copied bytes again. "
     "With --job, DIR becomes a run: its store, and the configuration, the keys and "
     "the prepared text, with which `pathloom train --out DIR` continues the job on "
     "another machine. Keep such a backup as secret as the keys.",
     1, 1, TAKES(QUICK) | TAKES(FORCE) | TAKES(JOB), true, store_backup},
    {"restore", "DIR|ENGINE", "replace the store by its backup",
     "The backup is checked first and the result afterwards. A store with commits "
     "after the backup is replaced only with --force. With an ENGINE, in the form of "
     "store.engine, the folder of a store whose disk was lost is made again, with "
     "everything that was acknowledged. With --job, restores what a backup with --job "
     "has into the run --run.",
     1, 1, TAKES(QUICK) | TAKES(FORCE) | TAKES(JOB), false, store_restore},
    {"push", "FOLDER [MODULE|ARM|TAG]", "copy versions to another store",
     "Copies all modules, or those that are named, up to their newest or named "
     "version, and the definitions of arms, routers and tags. Only what FOLDER lacks "
     "is copied; FOLDER is made if it does not exist. Refused if FOLDER has a "
     "different version of the same number.",
     1, 2, 0, true, store_push},
    {"pull", "FOLDER [MODULE|ARM|TAG]", "copy versions from another store to this one",
     "Needs the job to be stopped.", 1, 2, 0, false, store_pull},
};
const size_t n_store_verbs = sizeof store_verbs / sizeof *store_verbs;

/* The options of all verbs; whether a verb accepts one is checked after parsing. */
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

bool store_takes(const store_verb *v, int option)
{
    if (option <= STORE_OPT_JSON)
        return option != STORE_OPT_JSON || v->run != store_cat; /* cat writes bytes */
    return v->takes >> option & 1;
}

const cli_option *store_option_row(int option)
{
    return &options[option];
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

static pl_status check_folder(const store_call *call)
{
    PL_CHECK(pl_store_check_access(call->folder));
    if (pl_path_is_folder(call->folder))
        return PL_OK;
    return pl_fail(PL_ERR_NOT_FOUND,
                   "there is no store at %s; give --run RUN of a run that has begun to "
                   "train, or --store FOLDER",
                   call->folder);
}

static pl_status is_held(const store_call *call)
{
    return pl_fail(
        PL_ERR_BUSY,
        "a running job has locked the store %s; stop the job (Ctrl+C in `pathloom "
        "train`; the same `train` command resumes it later), then run store %s again",
        call->folder, call->verb->name);
}

pl_status store_open_to_write(store_call *call, pl_store **out)
{
    PL_CHECK(check_folder(call));
    PL_CHECK(run_check_exchange(call->folder));
    pl_status status = pl_store_open(call->folder, PL_STORE_WRITE, out);
    if (status == PL_OK && pl_store_mended(*out))
        pl_log(PL_LOG_WARN, "store.mended", "was=\"%s\"", pl_store_mended(*out));
    return status == PL_ERR_BUSY ? is_held(call) : status;
}

/* Refuses a part of a store, which does not show what other parts need of it. */
pl_status store_refuse_part(const char *folder)
{
    char above[PL_PATH_MAX];
    int n = 0;
    PL_CHECK(pl_store_parts(pl_path_above(above, folder), &n));
    if (n == 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "%s is one of %d parts of a store, and this verb needs all of them; "
                   "give the folder above it",
                   folder, n);
}

pl_status store_open_writers(const store_call *call, pl_writers **out)
{
    PL_CHECK(check_folder(call));
    PL_CHECK(store_refuse_part(call->folder));
    PL_CHECK(run_check_exchange(call->folder));
    pl_status status = pl_writers_open(call->folder, out);
    return status == PL_ERR_BUSY ? is_held(call) : status;
}

static pl_status run_store(int argc, char **argv)
{
    const char *names[64];
    cli_words words;
    store_call call = {0};
    PL_CHECK(cli_read(&verb_store, argc, argv, &call, &words));
    if (words.n < 1)
        return pl_fail(
            PL_ERR_USAGE,
            "store needs a verb, like ls; `pathloom store --help` lists all");
    const store_verb *v = NULL;
    for (size_t i = 0; i < n_store_verbs && !v; i++) {
        names[i] = store_verbs[i].name;
        v = strcmp(words.at[0], names[i]) == 0 ? &store_verbs[i] : NULL;
    }
    if (!v) {
        const char *near = pl_nearest(words.at[0], names, n_store_verbs);
        return pl_fail(PL_ERR_USAGE, "store has no verb `%s`; %s%s%s", words.at[0],
                       near ? "did you mean `" : "`pathloom store --help` lists all",
                       near ? near : "", near ? "`?" : "");
    }
    call.verb = v;
    if (words.n - 1 < v->min_words)
        return pl_fail(PL_ERR_USAGE,
                       "store %s needs %s; see `pathloom store %s --help`", v->name,
                       v->words, v->name);
    if (words.n - 1 > v->max_words)
        return pl_fail(PL_ERR_USAGE,
                       "unexpected word `%s`; see `pathloom store %s --help`",
                       words.at[1 + v->max_words], v->name);
    for (int i = 0; i < STORE_OPT_COUNT; i++)
        if (call.values[i] && !store_takes(v, i))
            return pl_fail(
                PL_ERR_USAGE,
                "store %s has no option --%s; see `pathloom store %s --help`", v->name,
                options[i].name, v->name);
    call.n_words = words.n - 1;
    for (int i = 0; i < call.n_words; i++)
        call.words[i] = words.at[1 + i];
    call.json = call.values[STORE_OPT_JSON];
    const char *run = call.values[STORE_OPT_RUN];
    if (call.values[STORE_OPT_STORE])
        pl_copy_text(call.folder, sizeof call.folder, call.values[STORE_OPT_STORE]);
    else
        pl_join(call.folder, run ? run : "pathloom-run", "store");
    if (v->reads) {
        PL_CHECK(check_folder(&call));
        PL_CHECK(pl_store_open(call.folder, PL_STORE_READ, &call.store));
    }
    pl_status status = v->run(&call);
    pl_topology_destroy(&call.topology);
    for (size_t i = 0; i < call.n_tags; i++)
        pl_snapshot_clear(&call.tags[i]);
    pl_free(call.tags);
    pl_store_close(&call.store);
    return status;
}

const cli_verb verb_store = {
    .name = "store",
    .usage = "store VERB [WORDS] [--run RUN | --store FOLDER] [--json]",
    .help = "look into the module store and maintain it, also while training runs",
    CLI_TABLE(options),
    .most_words = 1 + STORE_WORDS_MAX,
    .run = run_store,
    .explain = store_explain};
