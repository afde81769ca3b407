/* pathloom bench: measures how fast parts of the program are on this machine. Each
 * subject has its own options. */
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
               "auto, f32, bf16, f16 or fp8 (auto)"),
    CLI_OPTION("clock", CLI_TEXT, engine_call, o.clock, "NAME",
               "wall: elapsed time; cpu: processor time of one thread, for a busy "
               "machine (wall)"),
    CLI_OPTION("muon", CLI_FLAG, engine_call, o.muon, NULL,
               "measure the step with train.optimizer=muon"),
    CLI_NUMBER("muon-rows", CLI_INT, engine_call, o.muon_rows, "N", 0, 1000000,
               "with --muon: the value of train.muon_rows (64)"),
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

static pl_status read_call(const cli_verb *verb, int argc, char **argv, engine_call *c)
{
    PL_CHECK(cli_read(verb, argc, argv, c, NULL));
    c->o.settings = c->settings.pairs;
    c->o.n_settings = c->settings.n;
    return PL_OK;
}

static pl_status read_clock(measure_options *o)
{
    o->cpu_clock = strcmp(o->clock, "cpu") == 0;
    if (!o->cpu_clock && strcmp(o->clock, "wall") != 0)
        return pl_fail(PL_ERR_USAGE, "--clock is wall or cpu, not `%s`", o->clock);
    if (o->cpu_clock && (o->threads > 1 || o->processes > 1))
        return pl_fail(PL_ERR_USAGE, "--clock cpu measures only one thread; leave out "
                                     "--threads and --processes");
    return PL_OK;
}

static int run_engine(const cli_verb *verb, int argc, char **argv, bool ops)
{
    engine_call call = {.o = {.backend = "auto",
                              .precision = "auto",
                              .clock = "wall",
                              .threads = 1,
                              .muon_rows = 64,
                              .ops = ops}};
    pl_status status = read_call(verb, argc, argv, &call);
    if (status == PL_OK)
        status = read_clock(&call.o);
    if (status == PL_OK)
        status = measure_engine(&call.o);
    return status == PL_OK ? 0 : cli_fail(status);
}

static int run_step(int argc, char **argv);
static int run_ops(int argc, char **argv);
static int run_generate_bench(int argc, char **argv);
static int run_codec(int argc, char **argv);
static int run_outer(int argc, char **argv);

/* ---- the outer step and its codecs ---- */
typedef struct outer_request {
    const char *run;
    bool json;
} outer_request;

static const cli_option codec_options[] = {
    CLI_OPTION("run", CLI_TEXT, outer_request, run, "RUN",
               "use the updates of this run; without --run, a small model is trained"),
    CLI_JSON(outer_request, json),
};
static const cli_option outer_options[] = {CLI_JSON(outer_request, json)};

/* ---- the subjects ---- */
enum { N_SUBJECTS = 5 };
static const cli_verb subjects[N_SUBJECTS] = {
    {.name = "bench step",
     .usage = "bench step [--model NAME] [--processes N] [--json]",
     .help = "measure a training step, and its matrix products alone",
     .options = step_options,
     .n_options = CLI_COUNT(step_options),
     .run = run_step},
    {.name = "bench ops",
     .usage = "bench ops [--model NAME] [--json]",
     .help = "measure each operation, and the peak rates of products and memory",
     .options = step_options,
     /* all options of `step` except the last, --processes */
     .n_options = CLI_COUNT(step_options) - 1,
     .run = run_ops},
    {.name = "bench generate",
     .usage = "bench generate [--model NAME] [--json]",
     .help =
         "measure how fast a prompt is read, tokens are written, and memory is read",
     .options = generate_options,
     .n_options = CLI_COUNT(generate_options),
     .run = run_generate_bench},
    {.name = "bench codec",
     .usage = "bench codec [--run RUN] [--json]",
     .help = "measure the codecs of updates: speed, bytes per parameter, error",
     .options = codec_options,
     .n_options = CLI_COUNT(codec_options),
     .run = run_codec},
    {.name = "bench outer",
     .usage = "bench outer [--json]",
     .help =
         "measure outer steps, and a pass that only reads and writes the same bytes",
     .options = outer_options,
     .n_options = CLI_COUNT(outer_options),
     .run = run_outer},
};

static int run_step(int argc, char **argv)
{
    return run_engine(&subjects[0], argc, argv, false);
}

static int run_ops(int argc, char **argv)
{
    return run_engine(&subjects[1], argc, argv, true);
}

static int run_generate_bench(int argc, char **argv)
{
    engine_call call = {.o = {.backend = "cpu", .threads = pl_cpu_count()}};
    pl_status status = read_call(&subjects[2], argc, argv, &call);
    if (status == PL_OK)
        status = measure_generate(&call.o);
    return status == PL_OK ? 0 : cli_fail(status);
}

static int run_codec(int argc, char **argv)
{
    outer_request q = {.json = false};
    pl_status status = cli_read(&subjects[3], argc, argv, &q, NULL);
    if (status == PL_OK)
        status = measure_codec(q.json, q.run);
    return status == PL_OK ? 0 : cli_fail(status);
}

static int run_outer(int argc, char **argv)
{
    outer_request q = {.json = false};
    pl_status status = cli_read(&subjects[4], argc, argv, &q, NULL);
    if (status == PL_OK)
        status = measure_outer(q.json);
    return status == PL_OK ? 0 : cli_fail(status);
}

static const cli_verb *find_subject(const char *word, const char **near)
{
    const char *names[N_SUBJECTS];
    for (size_t i = 0; i < N_SUBJECTS; i++) {
        names[i] = subjects[i].name + strlen("bench ");
        if (strcmp(word, names[i]) == 0)
            return &subjects[i];
    }
    *near = pl_nearest(word, names, N_SUBJECTS);
    return NULL;
}

static int run_bench(int argc, char **argv)
{
    const char *near = NULL;
    if (argc < 2)
        return cli_fail(
            pl_fail(PL_ERR_USAGE, "bench needs a subject, like `pathloom bench step`"));
    const cli_verb *subject = find_subject(argv[1], &near);
    if (subject)
        return subject->run(argc - 1, argv + 1);
    return cli_fail(pl_fail(PL_ERR_USAGE,
                            "bench has no subject `%s`; did you mean `%s`?", argv[1],
                            near ? near : "step"));
}

static void print_bench_manual(void)
{
    cli_print_manual(&verb_bench);
    printf(".SH SUBJECTS\n");
    for (size_t i = 0; i < N_SUBJECTS; i++) {
        printf(".SS \"%s\"\n", subjects[i].name);
        cli_man_text(subjects[i].help);
        for (size_t o = 0; o < subjects[i].n_options; o++)
            cli_man_option(&subjects[i].options[o]);
    }
}

static void explain_bench(int argc, char **argv)
{
    const char *near;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--man") == 0) {
            print_bench_manual();
            return;
        }
        const cli_verb *subject = find_subject(argv[i], &near);
        if (subject) {
            cli_print_verb(subject);
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
    .usage = "bench step|ops|generate|codec|outer [OPTIONS]",
    .help = "measure how fast parts of pathloom are on this machine",
    .computes = true,
    .run = run_bench,
    .explain = explain_bench};
