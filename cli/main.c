/* pathloom: one file a verb; this one finds it. */
#include "cli/bench.h"
#include "cli/process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- options of each verb, for its --help ---- */
static const char train_options[] =
    "  RUN.yaml            a configuration; `pathloom init` writes one\n"
    "  --corpus PATH       file, folder or JSON lines, also .gz .zst .xz .bz2; - is "
    "standard input;\n"
    "                      one text file is cut into documents (data.cut)\n"
    "  --valid PATH        held-out text; without it a share of the documents is held "
    "out\n"
    "  --out RUN           folder of the run (pathloom-run); the same command resumes "
    "it\n"
    "  --workers N         worker processes; 0: one a processor\n"
    "  --set KEY=VALUE     any key, any number of times; `pathloom init` lists them\n"
    "\n"
    "Ctrl+C, TERM, USR1 or HUP (a dropped connection) drains and saves; the exit code\n"
    "is 130, and the same command goes on from there. A second Ctrl+C stops at once "
    "and\n"
    "loses no committed version. Under nohup the HUP is ignored.\n";
static const char eval_options[] =
    "  --run RUN           folder of the run (pathloom-run); it may be training\n"
    "  --json              one JSON object on one line\n"
    "  --set KEY=VALUE     keys that do not change results, as eval.max_tokens\n";
static const char generate_options[] =
    "  --run RUN           folder of the run (pathloom-run); it may be training\n"
    "  --prompt TEXT       begins the text; its first tokens pick the path\n"
    "  --path pNN          this path\n"
    "  --route RULE        router: the router picks the path; likelihood: the path "
    "under\n"
    "                      which the prompt's first tokens are likeliest; auto:\n"
    "                      likelihood, if there are at most 16 paths "
    "(router.answer)\n"
    "  --max-tokens N      at most N tokens (64)\n"
    "  --temperature X     0 takes the likeliest, up to 100 (0.8)\n"
    "  --top-k N           among the N likeliest; 0: all (40)\n"
    "  --top-p X           among those with probability X together (0.95)\n"
    "  --seed N            of the choices (0)\n"
    "  --stop TEXT         ends before this text\n"
    "  --precision P       auto, f32, bf16, f16 or int8 (that of the run)\n"
    "  --json              one JSON object on one line\n";
static const char serve_options[] =
    "  --run RUN           folder of the run (pathloom-run); it may be training\n"
    "  --listen ADDRESS    IPv4:PORT, PORT * for a free one (127.0.0.1:8080)\n"
    "  --precision P       auto, f32, bf16, f16 or int8 (that of the run)\n"
    "  --threads N         of the models (all processors)\n"
    "  --slots N           requests that a path answers at once, up to 64 (16)\n"
    "  --paths N           most paths in memory; 0: as many as half of it holds (0)\n"
    "  --route RULE        of model auto: router, likelihood or auto, as generate's\n"
    "                      (router.answer)\n"
    "  --queue N           most requests that wait; then 429 (256)\n"
    "  --per-address N     requests of one address at once; then 429; 0: no limit, "
    "for a\n"
    "                      server behind a proxy (128)\n"
    "  --timeout S         most seconds a request (120)\n"
    "\n"
    "HUP reads the store again; TERM ends when all is answered, a second one at "
    "once.\n";
static const char export_options[] =
    "  --run RUN           folder of the run (pathloom-run); it may be training\n"
    "  --arm NAME          of the run (mix)\n"
    "  --path pNN          this path\n"
    "  --prompt TEXT       the path that would answer this text (generate, serve)\n"
    "  --all               every path, each with a name of its own in --out\n"
    "  --at N, --at TAG    version N of every module, or those of a tag (the newest)\n"
    "  --format NAME       safetensors: a folder for transformers; gguf: a file for\n"
    "                      llama.cpp (safetensors)\n"
    "  --type NAME         f32, f16, bf16 and, in gguf, q8_0 (f32)\n"
    "  --out PATH          folder, or FILE.gguf\n"
    "  --json              one JSON object a path\n";
static const char import_options[] =
    "  MODEL               folder with config.json, safetensors and tokenizer.model\n"
    "  --out FILE.yaml     configuration of a run that begins with it; -: standard "
    "output\n"
    "  --force             replace a FILE.yaml that is there\n"
    "  --set KEY=VALUE     any key but those of the model's shape, which are refused\n"
    "  --json              one JSON object on one line\n";
static const char audit_options[] =
    "  WORKER              versions that it contributed to, and how to undo them\n"
    "  --run RUN           folder of the run (pathloom-run); it may be training\n"
    "  --json              one JSON object a line\n";
static const char top_options[] =
    "  --run RUN           folder of the run (pathloom-run)\n"
    "  --hub ADDRESS       of a job elsewhere, with --key FILE of an inspector\n"
    "\n"
    "q quits. Where the output is no terminal one picture is printed.\n";
static const char doctor_options[] =
    "  --run RUN           folder of the run (pathloom-run)\n"
    "  --hub ADDRESS       the way to a hub instead, with --key FILE\n"
    "  --json              one JSON object a line\n";
static const char explain_options[] =
    "  CODE                a status (ERR_BUSY), an exit code (75) or an event of a "
    "log\n"
    "                      (lease.expired); without one all are listed\n"
    "  --json              one JSON object a line\n";
static const char status_options[] =
    "  --run RUN           folder of the run (pathloom-run)\n"
    "  --hub ADDRESS       of a job elsewhere, with --key FILE of an inspector\n"
    "  --json              one JSON object on one line\n";
static const char bench_options[] =
    "  --run RUN           codec: updates of this run; else a small model is trained\n"
    "  --model NAME        step, ops: laptop, 2m, 13m or 124m (step: each; ops: 13m);\n"
    "                      150m or 1.3b: the presets dense-150m and dense-1b, for a "
    "GPU\n"
    "  --set model.KEY=V   step, ops: a model of your own (and train.batch)\n"
    "  --backend NAME      step, ops: auto, cpu, cuda or ref (auto)\n"
    "  --precision P       step, ops: auto, f32, bf16, f16 or fp8 (auto)\n"
    "  --threads N         step, ops: of the process (1)\n"
    "  --processes N       step: N processes at once, each held to processors of its\n"
    "                      own, against one with as many threads\n"
    "  --clock NAME        step, ops: wall, or cpu: of one thread, on a busy machine\n"
    "  --json              one JSON object on one line\n";
static const char init_options[] =
    "  --set KEY=VALUE     written instead of the default; preset=NAME: a preset\n"
    "  --list              the presets: parameters, paths and modules of each\n"
    "  --reference         the keys as a Markdown page\n";
#define LOG_OPTIONS                                                                    \
    "  --log-json          log lines as JSON\n"                                        \
    "  --verbose           log more\n"
#define LISTEN_OPTIONS                                                                 \
    "  --listen ADDRESS    tcp://HOST:PORT; 0.0.0.0: all interfaces, *: a free port\n" \
    "                      (a socket that no other user reaches; with --key\n"         \
    "                      tcp://127.0.0.1:*)\n"                                       \
    "  --key FILE          its key; what other machines reach must have one\n"         \
    "  --keys FILE         the list of keys that may connect\n"                        \
    "  --advertise HOST    by which other machines reach it (found)\n"                 \
    "  --ready FILE        gets the address as soon as it listens\n"
static const char key_options[] =
    "  new FILE            make a pair; prints its open half\n"
    "  show FILE           print the open half\n"
    "  list                who may connect\n"
    "  invite              print a command that lets another machine join\n"
    "  allow KEY           put a key into the list, without an invitation\n"
    "  revoke NAME|KEY     refuse what it sends from then on; no invitation helps it\n"
    "  --run RUN           folder of the run (pathloom-run)\n"
    "  --keys FILE         another list\n"
    "  --hub ADDRESS       of the hub, if it is not the run's\n"
    "  --role ROLE         worker, relay, inspector, home, hub or admin (worker)\n"
    "  --uses N            of an invitation (1)\n"
    "  --expires SPAN      90s, 30m, 24h, 7d; 0: never (invite: 24h, allow: 0)\n"
    "  --name NAME         in the list\n"
    "  --json              one JSON object a line\n";
static const char homes_options[] =
    "  list                homes, their weights, and how much each has\n"
    "  add [HOME]          one home more; it gets its share of everything. With its\n"
    "                      number the command may be given again\n"
    "  drain HOME          everything leaves that home; it goes on running, empty\n"
    "  remove HOME         a drained home goes for good, the last one, of a stopped "
    "job\n"
    "  move NAME HOME      a module, path or object; stays until weights change\n"
    "  weight HOME W       how much of everything a home has, 1 to 10000\n"
    "\n"
    "  --run RUN           pathloom-run; the job may be running or stopped\n"
    "  --weight W          of the home that is added (1)\n"
    "  --json              one JSON object a line\n"
    "\n"
    "Given up or killed half-way, nothing is lost: the next change goes on from "
    "there.\n";
static const char join_options[] =
    "  TOKEN               what `pathloom key invite` printed on the other machine\n"
    "  --token-file FILE   where it stands instead; or in PATHLOOM_TOKEN\n"
    "  --key FILE          this machine's key, made if it is not there\n"
    "  --name NAME         stands in its contributions (found)\n"
    "  --only-enrol        do not work yet\n"
    "  --offer ADDRESS     where other workers may ask it (noloco); nowhere\n"
    "  and the options of `pathloom worker`\n"
    "\n"
    "The token is good once; the key that is made here goes on being good. Ctrl+C or "
    "a\n"
    "TERM finishes the task and goes; the same command joins again.\n";
static const char hub_options[] =
    "  --run RUN           takes keys, home and place of the address from this folder\n"
    "  --home ADDRESS      of a home; once for each\n" LISTEN_OPTIONS
    "  --ttl-ms N          a lease that is not renewed so long is given to others "
    "(2000)\n"
    "  --backup WORD       an idle worker begins what another is slow at: off, auto "
    "(the\n"
    "                      same kind of device) or any (auto)\n"
    "  --audit-tolerance X how far apart workers of different kinds may be (0.25)\n"
    "  --metrics HOST:PORT answers Prometheus at /metrics\n" LOG_OPTIONS;
static const char home_options[] =
    "  --run RUN           takes keys, store and place of the address from this "
    "folder\n"
    "  --part I/N          of a run with N homes this is the I-th\n"
    "  --store FOLDER      its store, made if it is not there\n" LISTEN_OPTIONS
    "  --staging-bytes N   of uploads in memory (1073741824)\n"
    "  --keep-updates      keep merged updates\n"
    "  --audit X           share of tasks that a second worker does again (0)\n"
    "  --norm-gate X       refuse updates longer than X times the usual; 0: none (10)\n"
    "  --keep-momentum     keep the outer momentum of old versions\n"
    "  --compress          make old versions smaller while nothing else is to "
    "do\n" LOG_OPTIONS;
static const char relay_options[] =
    "  --run RUN           takes keys and home from this folder\n"
    "  --home ADDRESS      of the home, or of a relay before it\n" LISTEN_OPTIONS
    "  --expect N          so many workers (or relays) ask here; 0: not known (0)\n"
    "  --wait-ms N         an update waits at most so long for others (500)\n"
    "  --staging-bytes N   of updates in memory (1073741824)\n"
    "  --patience-s N      how long the home may be away (60)\n" LOG_OPTIONS "\n"
    "Workers behind it are started with --home and its address.\n";
static const char worker_options[] =
    "  --run RUN           takes key, hub, cache, and what no option says from this\n"
    "                      folder: workers.backend, precision, threads, recompute,\n"
    "                      cache and patience_s of its run.yaml\n"
    "  --hub ADDRESS       whose leases it takes: tcp://HOST:PORT#KEY\n"
    "  --key FILE          its key, which the hub's list must have\n"
    "  --name NAME         stands in its contributions (machine and key)\n"
    "  --cache FOLDER      data shards, shared by the workers of a machine\n"
    "  --home ADDRESS      of a relay, asked instead of the home; once for each home\n"
    "  --offer ADDRESS     where other workers may ask it (noloco); nowhere\n"
    "  --backend NAME      auto, ref, cpu or cuda (auto)\n"
    "  --precision NAME    auto, f32, bf16, f16 or fp8 (auto)\n"
    "  --threads N         of the backend (1)\n"
    "  --device N          which GPU, counted round: several workers may share one "
    "(0)\n"
    "  --recompute         activations again in the backward pass: less memory\n"
    "  --cache-bytes N     modules and optimizer states in memory (512000000)\n"
    "  --patience-s N      how long hub and homes may be away (60)\n"
    "  --grace-s N         after TERM or USR1 it may finish its tasks so long, then "
    "it\n"
    "                      gives them back; 0: to the end (0)\n" LOG_OPTIONS;

const verb verbs[] = {
    {"train",
     "train [RUN.yaml] [--corpus PATH] [--valid PATH] [--out RUN] [--set KEY=VALUE]",
     "train a mixture of paths; without arguments on text that this machine has",
     train_options, cmd_train, false},
    {"eval", "eval --run RUN [--json]",
     "held-out perplexity of the mixture and its baselines", eval_options, cmd_eval,
     false},
    {"generate",
     "generate --run RUN --prompt TEXT [--path pNN] [--max-tokens N] [--temperature X]",
     "text from the path that fits the prompt", generate_options, cmd_generate, false},
    {"serve", "serve --run RUN [--listen ADDRESS]",
     "answer completions over HTTP, as OpenAI's API", serve_options, cmd_serve, false},
    {"export", "export --run RUN --path pNN --out PATH [--format gguf] [--type NAME]",
     "a path as files for transformers or llama.cpp", export_options, cmd_export,
     false},
    {"import", "import MODEL --out RUN.yaml",
     "a configuration of a run that begins with a Llama model", import_options,
     cmd_import, false},
    {"store", "store VERB [WORDS] [--run RUN | --store FOLDER] [--json]",
     "look into the module store, also while training runs, and tend it", NULL,
     cmd_store, false},
    {"data", "data coverage [ARM] --run RUN [--json]",
     "which samples the paths were trained on: none lost, none twice", status_options,
     cmd_data, false},
    {"audit", "audit [WORKER] --run RUN [--json]",
     "tasks that were done twice, who is fenced, and what a worker contributed to",
     audit_options, cmd_audit, false},
    {"status", "status --run RUN [--json]", "what a running job does", status_options,
     cmd_status, false},
    {"top", "top --run RUN", "watch a running job on one screen", top_options, cmd_top,
     false},
    {"doctor", "doctor [--run RUN | --hub ADDRESS --key FILE]",
     "is this machine fit, and the way to the job free", doctor_options, cmd_doctor,
     false},
    {"explain", "explain [CODE]", "what a status, exit code or event means",
     explain_options, cmd_explain, false},
    {"init", "init [--set KEY=VALUE] > RUN.yaml | init --list",
     "write a commented configuration, or list the presets", init_options, cmd_init,
     false},
    {"bench", "bench step|ops|generate|codec|outer [--model NAME] [--json]",
     "measure parts of it on this machine", bench_options, cmd_bench, false},
    {"key", "key new|show|list|invite|allow|revoke [--run RUN]",
     "who may connect, and invitations for other machines", key_options, cmd_key,
     false},
    {"homes", "homes list|add|drain|remove|move|weight [--run RUN]",
     "who keeps which modules: several homes, more of them, fewer", homes_options,
     cmd_homes, false},
    {"join", "join TOKEN [--threads N] [--name NAME]",
     "work for a job on another machine", join_options, cmd_join, false},
    {"hub", "hub --run RUN [--listen ADDRESS]", "lease tasks to workers", hub_options,
     cmd_hub, true},
    {"home", "home --run RUN [--listen ADDRESS]", "own a store and apply outer steps",
     home_options, cmd_home, true},
    {"relay", "relay --home ADDRESS [--expect N] [--wait-ms N]",
     "add homomorphic updates on their way to a home", relay_options, cmd_relay, true},
    {"worker", "worker --hub ADDRESS [--key FILE] [--name NAME]",
     "train what the hub leases", worker_options, cmd_worker, true},
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
            "\nOptions of a verb: `pathloom VERB --help`. Keys for --set: `pathloom "
            "init` lists\nall, with units and defaults.\n");
}

static const verb *find_verb(const char *name)
{
    for (size_t i = 0; i < n_verbs; i++)
        if (strcmp(name, verbs[i].name) == 0)
            return &verbs[i];
    return NULL;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Wherever it stands: who asks for help wants nothing done. */
static bool asks_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_help(argv[i]))
            return true;
    return false;
}

/* A verb without a list of options explains its own verbs. */
static int print_verb_help(const verb *v, int argc, char **argv)
{
    if (!v->options)
        return store_explain(argc, argv);
    printf("usage: pathloom %s\n\n%s\n\n%s", v->usage, v->help, v->options);
    return 0;
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

/* A full disk behind `pathloom init > RUN.yaml` is noticed here at the latest. */
static int check_output(int code)
{
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (!lost || code != 0)
        return code;
    return cli_fail(pl_fail(PL_ERR_IO, "not all of the output could be written: the "
                                       "disk is full, or its reader has gone"));
}

/* `pathloom help VERB` is `pathloom VERB --help`. */
static int help(int argc, char **argv)
{
    const verb *v = argc > 2 ? find_verb(argv[2]) : NULL;
    if (v)
        return print_verb_help(v, argc - 2, argv + 2);
    if (argc > 2)
        return unknown_verb(argv[2]);
    print_help(stdout);
    return 0;
}

static int run_verb(int argc, char **argv)
{
    const verb *v = find_verb(argv[1]);
    if (is_help(argv[1]) || strcmp(argv[1], "help") == 0)
        return help(argc, argv);
    if (strcmp(argv[1], "--version") == 0) {
        printf("pathloom %s\n", PL_VERSION);
        return 0;
    }
    if (!v)
        return unknown_verb(argv[1]);
    if (asks_help(argc - 1, argv + 1))
        return print_verb_help(v, argc - 1, argv + 1);
    cli_catch_uncaught(v->hidden ? process_ended : cli_fail);
    int code = v->run(argc - 1, argv + 1);
    pl_wire_shutdown();
    return code;
}

/* A team of threads that spins for long takes the processor from the one that it waits
 * for; one that sleeps at once is woken for each operation, which takes longer than
 * many of them. 2,000 turns are some tens of microseconds. OpenMP asks for its policy
 * when it is loaded: a verb that computes begins once more with it, and its children
 * inherit it.
 */
static void wait_with_little_spinning(char **argv)
{
    static const char *const computing[] = {"train", "eval",   "generate", "serve",
                                            "bench", "worker", "join",     "export"};
    char self[4096];
    bool found = false;
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    for (size_t i = 0; i < sizeof computing / sizeof *computing; i++)
        found = found || strcmp(argv[1], computing[i]) == 0;
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!found || n <= 0 || setenv("OMP_WAIT_POLICY", "passive", 1) != 0 ||
        setenv("GOMP_SPINCOUNT", "2000", 1) != 0)
        return;
    self[n] = '\0';
    execv(self, argv); /* where that fails, threads spin */
}

int main(int argc, char **argv)
{
    /* An inherited core type makes the BLAS library slower than the machine is. */
    unsetenv("OPENBLAS_CORETYPE");
    /* A file that reaches its size limit is an error of its write, not a death. */
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        print_help(stderr);
        return pl_status_exit_code(PL_ERR_USAGE);
    }
    wait_with_little_spinning(argv);
    return check_output(run_verb(argc, argv));
}
