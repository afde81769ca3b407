/* pathloom bench: how fast parts of it are on this machine. */
#include "cli/bench.h"

#include <getopt.h>

typedef struct request {
    const char *subject, *run;
    bool json;
    bench_engine_options engine;
} request;

enum {
    OPT_JSON = 256,
    OPT_RUN,
    OPT_MODEL,
    OPT_SET,
    OPT_BACKEND,
    OPT_PRECISION,
    OPT_THREADS,
    OPT_PROCESSES,
    OPT_CLOCK
};

static const struct option longs[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"run", required_argument, NULL, OPT_RUN},
    {"model", required_argument, NULL, OPT_MODEL},
    {"set", required_argument, NULL, OPT_SET},
    {"backend", required_argument, NULL, OPT_BACKEND},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"processes", required_argument, NULL, OPT_PROCESSES},
    {"clock", required_argument, NULL, OPT_CLOCK},
    {NULL, 0, NULL, 0}};

static const char *const subjects[] = {"step", "ops", "generate", "codec", "outer"};
enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };

static pl_status check_subject(const char *subject)
{
    if (!subject)
        return pl_fail(PL_ERR_USAGE, "bench needs a subject, like `pathloom bench %s`",
                       subjects[0]);
    for (size_t i = 0; i < N_SUBJECTS; i++)
        if (strcmp(subject, subjects[i]) == 0)
            return PL_OK;
    const char *near = pl_nearest(subject, subjects, N_SUBJECTS);
    return pl_fail(PL_ERR_USAGE, "bench has no subject `%s`; did you mean `%s`?",
                   subject, near ? near : subjects[0]);
}

static pl_status read_count(const char *option, const char *text, int *out)
{
    int64_t value;
    if (pl_parse_int(text, &value) != PL_OK || value < 1 || value > 1024)
        return pl_fail(PL_ERR_USAGE, "%s is a number of 1 to 1024, not `%s`", option,
                       text);
    *out = (int)value;
    return PL_OK;
}

static pl_status read_clock(const char *name, bench_engine_options *o)
{
    o->cpu_clock = strcmp(name, "cpu") == 0;
    if (o->cpu_clock || strcmp(name, "wall") == 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "--clock is wall or cpu, not `%s`", name);
}

static pl_status add_set(const char *pair, bench_engine_options *o)
{
    if ((size_t)o->n_sets == sizeof o->sets / sizeof *o->sets)
        return pl_fail(PL_ERR_USAGE, "more than %d settings", o->n_sets);
    o->sets[o->n_sets++] = pair;
    return PL_OK;
}

/* Those of `step` and `ops`. */
static pl_status take_engine_option(int option, char **argv, bench_engine_options *o)
{
    switch (option) {
    case OPT_MODEL:
        o->model = optarg;
        return PL_OK;
    case OPT_SET:
        return add_set(optarg, o);
    case OPT_BACKEND:
        o->backend = optarg;
        return PL_OK;
    case OPT_PRECISION:
        o->precision = optarg;
        return PL_OK;
    case OPT_THREADS:
        return read_count("--threads", optarg, &o->threads);
    case OPT_PROCESSES:
        return read_count("--processes", optarg, &o->processes);
    case OPT_CLOCK:
        return read_clock(optarg, o);
    default:
        return cli_bad_option(option, argv, longs);
    }
}

static pl_status parse(int argc, char **argv, request *r)
{
    int option;
    memset(r, 0, sizeof *r);
    r->engine.backend = r->engine.precision = "auto";
    r->engine.threads = 1;
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
        if (option == OPT_JSON)
            r->json = true;
        else if (option == OPT_RUN)
            r->run = optarg;
        else
            PL_RETURN_IF(take_engine_option(option, argv, &r->engine));
    }
    r->subject = optind < argc ? argv[optind] : NULL;
    if (optind + 1 < argc)
        return pl_fail(PL_ERR_USAGE, "unexpected word `%s`", argv[optind + 1]);
    return check_subject(r->subject);
}

static pl_status measure_engine(const request *r)
{
    bench_engine_options o = r->engine;
    o.ops = strcmp(r->subject, "ops") == 0;
    o.json = r->json;
    if (r->run)
        return pl_fail(PL_ERR_USAGE, "bench %s takes no --run; say --model or --set",
                       r->subject);
    if (o.ops && o.processes > 0)
        return pl_fail(PL_ERR_USAGE, "--processes belongs to bench step");
    if (o.cpu_clock && (o.threads > 1 || o.processes > 1))
        return pl_fail(PL_ERR_USAGE, "--clock cpu counts one thread; leave out "
                                     "--threads and --processes");
    return bench_engine(&o);
}

static pl_status measure(const request *r)
{
    if (strcmp(r->subject, "step") == 0 || strcmp(r->subject, "ops") == 0)
        return measure_engine(r);
    if (r->engine.model || r->engine.n_sets > 0 || r->engine.processes > 0)
        return pl_fail(PL_ERR_USAGE,
                       "--model, --set and --processes belong to bench step and ops");
    if (strcmp(r->subject, "codec") == 0)
        return bench_codec(r->json, r->run);
    if (r->run)
        return pl_fail(PL_ERR_USAGE, "bench outer takes no --run; it makes its own "
                                     "parameters");
    return bench_outer(r->json);
}

int cmd_bench(int argc, char **argv)
{
    request r;
    if (argc > 1 && strcmp(argv[1], "generate") == 0) {
        pl_status generated = bench_generate(argc - 1, argv + 1);
        return generated == PL_OK ? 0 : cli_fail(generated);
    }
    pl_status status = parse(argc, argv, &r);
    if (status == PL_OK)
        status = measure(&r);
    return status == PL_OK ? 0 : cli_fail(status);
}
