/* read_run: shows what a run of `pathloom train` has made, while it trains or later.
 *
 *   cc read_run.c -o read_run $(pkg-config --cflags --libs pathloom)
 *   ./read_run RUN                  arms, newest versions, who trained the first
 *   ./read_run RUN MODULE@VERSION   the tensors of a version and their mean values
 *   ./read_run RUN --prompt TEXT    which path answers a text, and its answer */
#include <pathloom.h>
#include <stdio.h>
#include <string.h>

static int print_arm(void *context, const pathloom_arm *arm)
{
    (void)context;
    printf("arm %s: %d paths of %llu parameters, %d modules\n", arm->name, arm->n_paths,
           (unsigned long long)arm->path_params, arm->n_modules);
    return 0; /* go on */
}

static int print_version(void *context, const pathloom_version_info *v)
{
    char *first = context; /* gets the name of the first version */
    printf("%s@%llu  %.12s  %llu parameters, %zu updates\n", v->module,
           (unsigned long long)v->number, v->hash, (unsigned long long)v->n_params,
           v->n_contributions);
    if (first[0] == '\0')
        snprintf(first, 128, "%s@%llu", v->module, (unsigned long long)v->number);
    return 0;
}

static int print_contributor(void *context, const pathloom_contributor *c)
{
    (void)context;
    printf("  %5.1f %%  %s on path %lld: %llu tokens\n", 100 * c->share, c->worker,
           (long long)c->path, (unsigned long long)c->n_tokens);
    return 0;
}

static int show_run(pathloom_run *run, pathloom_error *error)
{
    pathloom_run_info info;
    char first[128] = "";
    int status = pathloom_describe(run, &info, error);
    if (status != PATHLOOM_OK)
        return status;
    printf("%s: %llu commits, %s, newest mixture %s\n", info.folder,
           (unsigned long long)info.n_commits,
           info.is_training   ? "training"
           : info.is_finished ? "finished"
                              : "stopped",
           info.newest);
    status = pathloom_each_arm(run, print_arm, NULL, error);
    if (status == PATHLOOM_OK)
        status = pathloom_each_module(run, NULL, print_version, first, error);
    if (status != PATHLOOM_OK || first[0] == '\0')
        return status;
    printf("contributors of all versions up to %s:\n", first);
    return pathloom_each_contributor(run, first, 1, print_contributor, NULL, error);
}

static int show_tensors(pathloom_run *run, const char *version, pathloom_error *error)
{
    pathloom_module *module;
    pathloom_tensor tensor;
    int status = pathloom_module_open(run, version, &module, error);
    if (status != PATHLOOM_OK)
        return status;
    for (int i = 0; i < pathloom_module_n_tensors(module); i++) {
        double sum = 0;
        status = pathloom_module_tensor(module, i, &tensor, error);
        if (status != PATHLOOM_OK)
            break;
        const size_t n = (size_t)tensor.rows * (size_t)tensor.cols;
        for (size_t j = 0; j < n; j++)
            sum += (double)tensor.values[j];
        printf("%-48s %6d x %-6d mean %.9g\n", tensor.name, tensor.rows, tensor.cols,
               sum / (double)n);
    }
    pathloom_module_close(&module);
    return status;
}

static int print_piece(void *context, const char *text, size_t len)
{
    (void)context;
    fwrite(text, 1, len, stdout);
    return 0;
}

static int answer(pathloom_run *run, const char *prompt, pathloom_error *error)
{
    pathloom_model *model;
    pathloom_route route;
    int status = pathloom_model_open(run, NULL, &model, error);
    if (status != PATHLOOM_OK)
        return status;
    status = pathloom_route_text(model, prompt, strlen(prompt), &route, error);
    if (status == PATHLOOM_OK) {
        printf("%s answers: %s\n", route.path, route.why);
        for (int i = 0; i < route.n_paths; i++)
            printf("  %s  router %.4f nats\n", route.names[i], route.costs[i]);
        fputs(prompt, stdout);
        status = pathloom_generate(model, prompt, strlen(prompt), NULL, print_piece,
                                   NULL, NULL, error);
        puts("");
    }
    pathloom_model_close(&model);
    return status;
}

int main(int argc, char **argv)
{
    pathloom_run *run;
    pathloom_error error;
    if (argc < 2) {
        fprintf(stderr, "usage: read_run RUN [MODULE@VERSION | --prompt TEXT]\n");
        return 64;
    }
    int status = pathloom_open(argv[1], &run, &error);
    if (status == PATHLOOM_OK) {
        status = argc == 2   ? show_run(run, &error)
                 : argc == 3 ? show_tensors(run, argv[2], &error)
                             : answer(run, argv[3], &error);
        pathloom_close(&run);
    }
    if (status != PATHLOOM_OK)
        fprintf(stderr, "read_run: %s\n", error.message);
    return status == PATHLOOM_OK ? 0 : 1;
}
