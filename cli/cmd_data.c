/* pathloom data coverage: prints on which samples the paths were trained, from the
 * store's record. */
#include "cli/cli.h"
#include "cli/row.h"
#include "codec/codec.h"
#include "outer/outer.h"

typedef struct coverage_call {
    const char *only; /* an arm; NULL: all */
    bool json;
    pl_store *store;
    pl_json *arms;
    int64_t n_arms, n_paths, n_checked, n_given_up, n_left_out, n_bad;
    char example[256];
} coverage_call;

/* One line of the text, and one entry of the list in JSON. */
static void show_coverage(const coverage_call *call, const pl_coverage *c,
                          pl_json *list)
{
    row r = row_begin(call->json);
    r.into = call->json ? list : NULL;
    if (call->n_paths == 0)
        row_say(&r, "%-18s %7s %11s %9s %7s %8s %5s %9s %6s\n", "path", "phases",
                "samples", "tokens", "passes", "skipped", "lost", "repeated", "wrong");
    row_text(&r, "path", c->path, "%-18s");
    row_int(&r, "phases", c->phases, " %7s");
    row_count(&r, "samples", c->samples, " %11s");
    row_tokens(&r, "tokens", c->n_tokens, " %9s");
    row_real(&r, "passes", c->passes, " %7.2f");
    row_count(&r, "skipped", c->skipped, " %8s");
    row_int(&r, "given_up", c->n_given_up, NULL);
    row_int(&r, "left_out", c->n_left_out, NULL);
    row_int(&r, "lost", c->n_lost, " %5s");
    row_int(&r, "repeated", c->n_repeated, " %9s");
    row_int(&r, "wrong", c->n_wrong, " %6s");
    row_finish(&r);
}

static void take_path(coverage_call *call, const pl_coverage *c, pl_json *list)
{
    call->n_checked += c->n_checked;
    call->n_given_up += c->n_given_up;
    call->n_left_out += c->n_left_out;
    call->n_bad += c->n_lost + c->n_repeated + c->n_wrong;
    if (!call->example[0])
        pl_copy_text(call->example, sizeof call->example, c->example);
    show_coverage(call, c, list);
    call->n_paths++;
}

static pl_status cover_arm(coverage_call *call, const char *name)
{
    pl_arm arm;
    pl_topology *topology = NULL;
    pl_coverage *paths = NULL;
    pl_status status = PL_OK;
    PL_TRY(pl_read_arm(call->store, name, &arm, &topology));
    int n = pl_topology_n_paths(topology) * pl_topology_n_replicas(topology);
    paths = pl_alloc((size_t)n * sizeof *paths);
    PL_TRY(pl_coverage_of(call->store, &arm, topology, paths));
    pl_json *o = pl_json_object(), *list = pl_json_array();
    for (int i = 0; i < n; i++)
        take_path(call, &paths[i], list);
    pl_json_set_text(o, "arm", name);
    pl_json_set(o, "paths", list);
    pl_json_push(call->arms, o);
    call->n_arms++;
done:
    pl_free(paths);
    pl_topology_destroy(&topology);
    pl_arm_clear(&arm);
    return status;
}

static pl_status on_arm(void *context, const pl_object *object)
{
    coverage_call *call = context;
    const char *name = object->name + strlen("arm/");
    if (call->only && strcmp(call->only, name) != 0)
        return PL_OK;
    return cover_arm(call, name);
}

static pl_status coverage(const char *dir, coverage_call *call)
{
    pl_json *o = pl_json_object();
    pl_status status = PL_OK;
    call->arms = pl_json_array();
    pl_json_set(o, "arms", call->arms);
    PL_TRY(store_open_run(dir, &call->store));
    PL_TRY(pl_store_each_object(call->store, "arm/", on_arm, call));
    if (call->n_arms == 0)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "there is no arm %s in %s; see `pathloom store ls --objects`",
                       call->only ? call->only : "", dir));
    if (call->json) {
        pl_json_set_int(o, "checked", call->n_checked);
        pl_json_set_int(o, "problems", call->n_bad);
        say_json(o);
        o = NULL;
    }
    if (call->n_bad > 0)
        PL_TRY(pl_fail(
            PL_ERR_DATA, "%lld of %lld records of phases are not as they must be: %s",
            (long long)call->n_bad, (long long)call->n_checked, call->example));
    if (!call->json)
        say("every sample of every finished phase counted once: %lld records checked",
            (long long)call->n_checked);
    if (!call->json && call->n_given_up > 0)
        say("%lld more were given up by rollbacks", (long long)call->n_given_up);
    if (!call->json && call->n_left_out > 0)
        say("%lld more were left out by quorums", (long long)call->n_left_out);
done:
    pl_store_close(&call->store);
    pl_json_destroy(&o);
    return status;
}

typedef struct data_request {
    const char *run;
    bool json;
} data_request;

static const cli_option options[] = {CLI_RUN(data_request, run),
                                     CLI_JSON(data_request, json)};

static int run_data(int argc, char **argv)
{
    data_request q = {.run = "pathloom-run"};
    cli_words words;
    coverage_call call = {0};
    pl_status status = cli_read(&verb_data, argc, argv, &q, &words);
    if (status == PL_OK && (words.n < 1 || strcmp(words.at[0], "coverage") != 0))
        status =
            pl_fail(PL_ERR_USAGE, "data takes the word coverage, and may be an arm");
    if (status == PL_OK) {
        call.only = words.n > 1 ? words.at[1] : NULL;
        call.json = q.json;
        status = coverage(q.run, &call);
    }
    return status == PL_OK ? 0 : cli_fail(status);
}

const cli_verb verb_data = {
    .name = "data",
    .usage = "data coverage [ARM] --run RUN [--json]",
    .help = "which samples the paths were trained on: none lost, none twice",
    .options = options,
    .n_options = CLI_COUNT(options),
    .most_words = 2,
    .run = run_data};
