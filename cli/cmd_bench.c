/* pathloom bench: how fast parts of it are on this machine. */
#include "cli/bench.h"

#include <getopt.h>

typedef struct request {
    const char *subject, *run;
    bool json, cuda;
} request;

enum { OPT_JSON = 256, OPT_RUN, OPT_DEVICE };

static const struct option longs[] = {{"json", no_argument, NULL, OPT_JSON},
                                      {"run", required_argument, NULL, OPT_RUN},
                                      {"device", required_argument, NULL, OPT_DEVICE},
                                      {NULL, 0, NULL, 0}};

static const char *const subjects[] = {"codec", "outer", "generate"};
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

static pl_status read_device(const char *name, request *r)
{
    r->cuda = strcmp(name, "cuda") == 0;
    if (r->cuda || strcmp(name, "cpu") == 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "--device is cpu or cuda, not `%s`", name);
}

static pl_status parse(int argc, char **argv, request *r)
{
    int option;
    memset(r, 0, sizeof *r);
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
        if (option == OPT_JSON)
            r->json = true;
        else if (option == OPT_RUN)
            r->run = optarg;
        else if (option == OPT_DEVICE)
            PL_RETURN_IF(read_device(optarg, r));
        else
            return cli_bad_option(option, argv, longs);
    }
    r->subject = optind < argc ? argv[optind] : NULL;
    if (optind + 1 < argc)
        return pl_fail(PL_ERR_USAGE, "unexpected word `%s`", argv[optind + 1]);
    return check_subject(r->subject);
}

static pl_status measure(const request *r)
{
    if (strcmp(r->subject, "codec") == 0)
        return r->cuda ? bench_codec_cuda(r->json, r->run)
                       : bench_codec(r->json, r->run);
    if (r->run)
        return pl_fail(PL_ERR_USAGE, "bench outer takes no --run; it makes its own "
                                     "parameters");
    return r->cuda ? bench_outer_cuda(r->json) : bench_outer(r->json);
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
