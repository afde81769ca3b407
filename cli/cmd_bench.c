/* pathloom bench: measures how fast parts of the program are on this machine. */
#include "cli/cli.h"
#include "measure/measure.h"

/* ---- a training step, and its operations ---- */
typedef struct engine_call {
    measure_options o;
    given_settings settings;
} engine_call;

#define MODEL_OPTIONS                                                                  \
    CLI_OPTION("model", CLI_TEXT, engine_call, o.model, "NAME",                        \
               "the model to measure: laptop, 2m, 13m or 124m (default: 13m for ops, " \
               "else all of these); for a GPU also 150m and 1.3b, the presets "        \
               "dense-150m and dense-1b"),                                             \
        CLI_SETTINGS(engine_call, settings,                                            \
                     "set model.* or train.batch to measure a model of your own"),     \
        CLI_NUMBER("threads", CLI_INT, engine_call, o.threads, "N", 1, 1024,           \
                   "number of threads (step, ops: 1; generate: all processors)")

static const cli_option step_options[] = {
    MODEL_OPTIONS,
    CLI_OPTION("backend", CLI_TEXT, engine_call, o.backend, "NAME",
               "auto, cpu, cuda or ref (auto)"),
    CLI_OPTION("precision", CLI_TEXT, engine_call, o.precision, "P",
               "auto, f32, bf16 or f16 (auto)"),
    CLI_OPTION("clock", CLI_TEXT, engine_call, o.clock, "NAME",
               "wall: elapsed time; cpu: processor time of one thread, for a busy "
               "machine (wall)"),
    CLI_OPTION("muon", CLI_FLAG, engine_call, o.muon, NULL,
               "measure the step with train.optimizer=muon"),
    CLI_JSON(engine_call, o.json),
    CLI_NUMBER("processes", CLI_INT, engine_call, o.processes, "N", 1, 256,
               "step: run N processes at once, each bound to its own processors, and "
               "compare them with one process of as many threads"),
};

static const cli_option generate_options[] = {
    MODEL_OPTIONS,
    CLI_OPTION("backend", CLI_TEXT, engine_call, o.backend, "NAME",
               "auto, cpu, cuda or ref (cpu)"),
    CLI_OPTION("precision", CLI_TEXT, engine_call, o.precision, "P",
               "f32, bf16 or int8 (all)"),
    CLI_JSON(engine_call, o.json),
};

/* ---- the other subjects ---- */
typedef struct bench_request {
    const char *run;
    bool json;
    measure_disk disk;
    measure_transfers wire;
    measure_load load;
    measure_fleet fleet;
    measure_documents documents;
} bench_request;

static const cli_option codec_options[] = {
    CLI_OPTION("run", CLI_TEXT, bench_request, run, "RUN",
               "use the updates of this run; without --run, a small model is trained"),
    CLI_JSON(bench_request, json),
};
static const cli_option outer_options[] = {CLI_JSON(bench_request, json)};
static const cli_option store_options[] = {
    CLI_OPTION("folder", CLI_TEXT, bench_request, disk.folder, "FOLDER",
               "make the store in a new folder inside this one (/tmp)"),
    CLI_OPTION("engine", CLI_TEXT, bench_request, disk.engine, "URL",
               "put chunks there, as with store.engine; they are not deleted"),
    CLI_NUMBER("bytes", CLI_INT64, bench_request, disk.bytes, "N", 2, 1e11,
               "size of a commit (six sizes from 100 kB to 64 MiB)"),
    CLI_NUMBER("repeats", CLI_INT64, bench_request, disk.repeats, "N", 1, 10000,
               "number of commits of each size (40)"),
};
static const cli_option wire_options[] = {
    CLI_NUMBER("bytes", CLI_INT64, bench_request, wire.bytes, "N", 1 << 20, 1 << 30,
               "size of a transfer (64 MiB)"),
    CLI_NUMBER("rounds", CLI_INT, bench_request, wire.rounds, "N", 1, 99,
               "number of rounds, of which the median counts (7)"),
    CLI_OPTION("messages", CLI_FLAG, bench_request, wire.messages, NULL,
               "measure only messages, without a home"),
};
static const cli_option home_options[] = {
    CLI_NUMBER("workers", CLI_INT64, bench_request, load.workers, "N", 1, 10000,
               "number of workers (1000)"),
    CLI_NUMBER("bytes", CLI_INT64, bench_request, load.bytes, "N", 1, 1 << 30,
               "size of the object that each worker sends and fetches (8 MiB)"),
    CLI_NUMBER("rounds", CLI_INT, bench_request, load.rounds, "N", 1, 1000,
               "number of objects of each worker (1)"),
};
static const cli_option hub_options[] = {
    CLI_NUMBER("workers", CLI_INT, bench_request, fleet.workers, "N", 1, 4096,
               "number of simulated workers (64)"),
    CLI_NUMBER("seconds", CLI_INT, bench_request, fleet.seconds, "N", 1, 86400,
               "how long the hub is measured (10)"),
    CLI_NUMBER("task", CLI_INT, bench_request, fleet.task_s, "N", 1, 86400,
               "mean length of a task in seconds (10)"),
    CLI_OPTION("levels", CLI_TEXT, bench_request, fleet.levels, "AxB",
               "levels of modules that paths share (none)"),
};
static const cli_option router_options[] = {
    CLI_OPTION("folder", CLI_TEXT, bench_request, documents.folder, "FOLDER",
               "put the features there, 4 bytes per document and column (/tmp)"),
    CLI_NUMBER("documents", CLI_INT64, bench_request, documents.documents, "N", 1,
               4294967295.0, "number of documents (1000000)"),
    CLI_NUMBER("paths", CLI_INT, bench_request, documents.paths, "N", 1, 4096,
               "number of paths (64)"),
    CLI_NUMBER("columns", CLI_INT, bench_request, documents.columns, "N", 1, 8192,
               "number of features of a document (64)"),
    CLI_NUMBER("memory", CLI_INT, bench_request, documents.memory_mib, "MIB", 0,
               1 << 20, "memory for a fit; 0: no limit (1024)"),
};

#define SUBJECT(word, rest, text, table)                                               \
    {                                                                                  \
        .name = "bench " word, .usage = "bench " word rest, .help = text,              \
        CLI_TABLE(table)                                                               \
    }
enum { STEP, OPS, GENERATE, CODEC, OUTER, STORE, WIRE, HOME, HUB, ROUTER, N_SUBJECTS };
static const cli_verb subjects[N_SUBJECTS] = {
    [STEP] =
        SUBJECT("step", " [--model NAME] [--processes N] [--json]",
                "measure a training step, and its matrix products alone", step_options),
    [OPS] = {.name = "bench ops",
             .usage = "bench ops [--model NAME] [--json]",
             .help = "measure each operation, and the peak rates of products and "
                     "memory",
             .options = step_options,
             /* all options of `step` except the last, --processes */
             .n_options = CLI_COUNT(step_options) - 1},
    [GENERATE] = SUBJECT("generate", " [--model NAME] [--json]",
                         "measure how fast a prompt is read, tokens are written, and "
                         "memory is read",
                         generate_options),
    [CODEC] =
        SUBJECT("codec", " [--run RUN] [--json]",
                "measure the codecs of updates: speed, bytes per parameter, error",
                codec_options),
    [OUTER] = SUBJECT("outer", " [--json]",
                      "measure outer steps, and a pass that only reads and writes the "
                      "same bytes",
                      outer_options),
    [STORE] = SUBJECT("store", " [--folder FOLDER] [--engine URL] [--bytes N]",
                      "measure commits with real syncs to the disk, and reads",
                      store_options),
    [WIRE] = SUBJECT("wire", " [--bytes N] [--rounds N] [--messages]",
                     "measure transfers between a worker and a home, and encryption",
                     wire_options),
    [HOME] = SUBJECT("home", " [--workers N] [--bytes N] [--rounds N]",
                     "measure a home to which many workers send", home_options),
    [HUB] = SUBJECT("hub", " [--workers N] [--seconds N] [--task N] [--levels AxB]",
                    "measure a hub that serves simulated workers", hub_options),
    [ROUTER] =
        SUBJECT("router", " [--documents N] [--paths N] [--columns N]",
                "measure how synthetic documents are dealt to paths", router_options),
};

static int find_subject(const char *word)
{
    for (int i = 0; i < N_SUBJECTS; i++)
        if (strcmp(word, subjects[i].name + strlen("bench ")) == 0)
            return i;
    return -1;
}

static pl_status run_bench(int argc, char **argv)
{
    bench_request q = {
        .disk = {.folder = "/tmp", .repeats = 40},
        .wire = {.bytes = 64 << 20, .rounds = 7},
        .load = {.workers = 1000, .bytes = 8 << 20, .rounds = 1},
        .fleet = {.workers = 64, .seconds = 10, .task_s = 10},
        .documents = {.folder = "/tmp",
                      .documents = 1000000,
                      .paths = 64,
                      .columns = 64,
                      .memory_mib = 1024},
    };
    const int subject = argc > 1 ? find_subject(argv[1]) : -1;
    if (subject < 0)
        return pl_fail(PL_ERR_USAGE,
                       "bench needs a subject: see `pathloom bench --help`");
    if (subject == STEP || subject == OPS || subject == GENERATE) {
        engine_call call = {.o = {.backend = "auto",
                                  .precision = "auto",
                                  .clock = "wall",
                                  .threads = 1,
                                  .muon_rows = 64, /* the default of train.muon_rows */
                                  .ops = subject == OPS}};
        measure_options *o = &call.o;
        if (subject == GENERATE)
            *o = (measure_options){.backend = "cpu", .threads = pl_cpu_count()};
        PL_CHECK(cli_read(&subjects[subject], argc - 1, argv + 1, &call, NULL));
        o->settings = call.settings.pairs;
        o->n_settings = call.settings.n;
        if (subject == GENERATE)
            return measure_generate(o);
        o->cpu_clock = strcmp(o->clock, "cpu") == 0;
        if (!o->cpu_clock && strcmp(o->clock, "wall") != 0)
            return pl_fail(PL_ERR_USAGE, "--clock is wall or cpu, not `%s`", o->clock);
        if (o->cpu_clock && (o->threads > 1 || o->processes > 1))
            return pl_fail(PL_ERR_USAGE, "--clock cpu measures only one thread; leave "
                                         "out --threads and --processes");
        return measure_engine(o);
    }
    PL_CHECK(cli_read(&subjects[subject], argc - 1, argv + 1, &q, NULL));
    if (subject == CODEC)
        return measure_codec(q.json, q.run);
    if (subject == OUTER)
        return measure_outer(q.json);
    if (subject == STORE)
        return measure_store(&q.disk);
    if (subject == WIRE)
        return measure_wire(&q.wire);
    if (subject == HOME)
        return measure_home(&q.load);
    return subject == HUB ? measure_hub(&q.fleet) : measure_router(&q.documents);
}

static void explain_bench(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--man") == 0) {
            cli_print_manual(&verb_bench);
            printf(".SH SUBJECTS\n");
            for (size_t s = 0; s < N_SUBJECTS; s++) {
                printf(".SS \"%s\"\n", subjects[s].name);
                cli_man_text(subjects[s].help);
                for (size_t o = 0; o < subjects[s].n_options; o++)
                    cli_man_option(&subjects[s].options[o]);
            }
            return;
        }
        const int subject = find_subject(argv[i]);
        if (subject >= 0) {
            cli_print_verb(&subjects[subject]);
            return;
        }
    }
    printf("usage: pathloom %s\n\n%s\n\n", verb_bench.usage, verb_bench.help);
    for (size_t i = 0; i < N_SUBJECTS; i++)
        printf("  pathloom %s\n      %s\n", subjects[i].usage, subjects[i].help);
    printf("\nOptions of a subject: `pathloom bench SUBJECT --help`.\n");
}

const cli_verb verb_bench = {
    .name = "bench",
    .usage = "bench step|ops|generate|codec|outer|store|wire|home|hub|router [OPTIONS]",
    .help = "measure how fast parts of pathloom are on this machine",
    .computes = true,
    .run = run_bench,
    .explain = explain_bench};
