/* pathloom data coverage: prints on which samples the paths were trained, as recorded
 * in the store. With --of, counts tokens of a domain or a file's documents. */
#include "cli/cli.h"
#include "cli/row.h"

#include <math.h>

typedef struct coverage_call {
    const char *run;
    const char *only; /* name of an arm; NULL: all arms */
    const char *of;   /* a domain or a file; NULL: all samples are checked */
    pl_subject subject;
    pl_buf hashes;    /* hashes of the file's documents */
    uint64_t n_meant; /* documents that --of names, summed over paths and modules */
    bool only_counts; /* only count the documents */
    bool json;
    pl_store *store;
    pl_json *arms;
    int64_t n_arms, n_paths, n_checked, n_given_up, n_left_out, n_bad;
    char example[256];
} coverage_call;

static pl_status cover_arm(coverage_call *call, const pl_arm *arm, const pl_topology *t)
{
    const int n = pl_topology_n_paths(t) * pl_topology_n_replicas(t);
    pl_coverage *paths = pl_alloc((size_t)n * sizeof *paths);
    const pl_status status = pl_coverage_of(call->store, arm, t, paths);
    pl_json *o = pl_json_object(), *list = pl_json_array();
    for (int i = 0; i < n && status == PL_OK; i++) {
        const pl_coverage *c = &paths[i];
        call->n_checked += c->n_checked;
        call->n_given_up += c->n_given_up;
        call->n_left_out += c->n_left_out;
        call->n_bad += c->n_lost + c->n_repeated + c->n_wrong;
        if (!call->example[0])
            pl_copy_text(call->example, sizeof call->example, c->example);
        row r = row_begin(call->json);
        r.into = call->json ? list : NULL;
        if (call->n_paths == 0)
            row_say(&r, "%-18s %7s %11s %9s %7s %8s %5s %9s %6s\n", "path", "phases",
                    "samples", "tokens", "passes", "skipped", "lost", "repeated",
                    "wrong");
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
        call->n_paths++;
    }
    pl_json_set_text(o, "arm", arm->name);
    pl_json_set(o, "paths", list);
    pl_json_push(call->arms, o);
    pl_free(paths);
    return status;
}

/* Prints how much of some documents the paths and modules were trained on. */
static pl_status expose_arm(coverage_call *call, const pl_arm *arm,
                            const pl_topology *t)
{
    pl_status status = PL_OK;
    const int n = pl_topology_n_paths(t) * pl_topology_n_replicas(t);
    const int n_modules = pl_topology_n_modules(t);
    if (arm->n_scored > 0 || arm->inner.phases == 0)
        return PL_OK;
    pl_exposure *all = pl_alloc((size_t)(n + n_modules) * sizeof *all);
    PL_TRY(pl_exposure_read(call->store, arm, t, &call->subject, all, all + n));
    for (int i = 0; i < n + n_modules; i++)
        call->n_meant += all[i].n_docs;
    if (call->only_counts)
        goto done;
    pl_json *o = pl_json_object(), *paths = pl_json_array(), *modules = pl_json_array();
    for (int i = 0; i < n + n_modules; i++) {
        const pl_exposure *e = &all[i];
        const bool path = i < n;
        pl_json *list = path ? paths : modules;
        row r = row_begin(call->json);
        r.into = call->json ? list : NULL;
        row_text(&r, path ? "path" : "module", e->name, "%-18s");
        if (path)
            row_count(&r, "documents", e->n_docs, " %9s");
        else
            row_say(&r, " %9s", "");
        row_tokens(&r, "of_tokens", e->of_tokens, " %9s");
        row_tokens(&r, "tokens", e->n_tokens, " %9s");
        const double share =
            e->n_tokens > 0 ? (double)e->of_tokens / (double)e->n_tokens : NAN;
        row_real(&r, "share", share, NULL);
        row_real(&r, NULL, e->n_tokens > 0 ? 100 * share : 0, " %7.2f %%");
        row_finish(&r);
    }
    pl_json_set_text(o, "arm", arm->name);
    pl_json_set(o, "paths", paths);
    pl_json_set(o, "modules", modules);
    pl_json_push(call->arms, o);
done:
    pl_free(all);
    return status;
}

static pl_status on_arm(void *context, const pl_object *object)
{
    coverage_call *call = context;
    const char *name = object->name + strlen("arm/");
    if (call->only && strcmp(call->only, name) != 0)
        return PL_OK;
    pl_arm arm;
    pl_topology *t = NULL;
    pl_status status = pl_read_arm(call->store, name, &arm, &t);
    if (status == PL_OK) {
        call->n_arms++;
        status = call->of ? expose_arm(call, &arm, t) : cover_arm(call, &arm, t);
    }
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

static const cli_option options[] = {
    CLI_RUN(coverage_call, run),
    CLI_OPTION("of", CLI_TEXT, coverage_call, of, "WHAT",
               "show how many tokens of the documents of this domain, or in this file "
               "or folder, each path and module was trained on"),
    CLI_JSON(coverage_call, json)};

static pl_status run_data(int argc, char **argv)
{
    cli_words words;
    coverage_call call = {.run = "pathloom-run"};
    pl_status status = PL_OK;
    PL_CHECK(cli_read(&verb_data, argc, argv, &call, &words));
    if (words.n < 1 || strcmp(words.at[0], "coverage") != 0)
        return pl_fail(PL_ERR_USAGE, "data needs the word coverage, and may have an "
                                     "arm: pathloom data coverage [ARM]");
    call.only = words.n > 1 ? words.at[1] : NULL;
    call.arms = pl_json_array();
    pl_json *o = pl_json_object();
    pl_json_set(o, "arms", call.arms);
    PL_TRY(store_open_run(call.run, &call.store));
    /* --of names a domain of the run's documents, else a file or folder */
    call.subject.domain = call.of;
    const bool is_path = call.of && pl_path_exists(call.of);
    if (is_path) {
        call.only_counts = true;
        PL_TRY(pl_store_each_object(call.store, "arm/", on_arm, &call));
        call.only_counts = false;
        call.n_arms = 0;
    }
    if (is_path && call.n_meant == 0) {
        pl_run r;
        status = run_look(call.run, &r);
        if (status == PL_OK)
            status = run_document_hashes(&r, call.of, &call.hashes);
        run_close(&r);
        PL_TRY(status);
        call.subject = (pl_subject){.docs = {.hashes = (const void *)call.hashes.data,
                                             .n = call.hashes.len / sizeof(uint64_t)}};
    }
    call.n_meant = 0;
    if (call.of && !call.json)
        say("%-18s %9s %9s %9s", "path or module", "documents", "of WHAT", "tokens");
    PL_TRY(pl_store_each_object(call.store, "arm/", on_arm, &call));
    if (call.n_arms == 0)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "there is no arm %s in %s; see `pathloom store ls --objects`",
                       call.only ? call.only : "", call.run));
    if (call.of && call.n_meant == 0)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "no path was trained on a document of the domain or file `%s`",
                       call.of));
    if (call.of) {
        pl_json_set_text(o, "of", call.of);
    } else {
        pl_json_set_int(o, "checked", call.n_checked);
        pl_json_set_int(o, "problems", call.n_bad);
    }
    if (call.json) {
        say_json(o);
        o = NULL;
    }
    if (call.of)
        goto done;
    if (call.n_bad > 0)
        PL_TRY(pl_fail(PL_ERR_DATA, "%lld of %lld records of phases are wrong: %s",
                       (long long)call.n_bad, (long long)call.n_checked, call.example));
    if (!call.json)
        say("every sample of every finished phase counted once: %lld records checked",
            (long long)call.n_checked);
    if (!call.json && call.n_given_up > 0)
        say("%lld more records were dropped by rollbacks", (long long)call.n_given_up);
    if (!call.json && call.n_left_out > 0)
        say("%lld more records were left out by quorums", (long long)call.n_left_out);
done:
    pl_store_close(&call.store);
    pl_buf_destroy(&call.hashes);
    pl_json_destroy(&o);
    return status;
}

const cli_verb verb_data = {
    .name = "data",
    .usage = "data coverage [ARM] --run RUN [--of WHAT] [--json]",
    .help = "check that the paths were trained on every sample exactly once",
    CLI_TABLE(options),
    .most_words = 2,
    .run = run_data};
