/* pathloom store bisect: prints the search for the phase at which the mixture began to
 * predict a text worse, and the contributors to the versions of that phase. */
#include "cli/store_print.h"

#include <math.h>

static void print_step(void *context, const bisect_step *step)
{
    const store_call *call = context;
    row r = row_begin(call->json);
    row_int(&r, "phase", step->phase, "phase %4s");
    row_real(&r, "bits_per_byte", step->bits, "  %.4f bits/byte");
    row_text(&r, NULL, step->worse ? "worse" : "good", "  %s");
    row_flag(&r, "worse", step->worse, NULL);
    row_finish(&r);
}

pl_status store_bisect(store_call *call)
{
    pl_run r = {.lock = -1};
    evaluation_text text = {0};
    const char *on = call->values[STORE_OPT_ON];
    bisect_wish wish = {.arm = call->values[STORE_OPT_ARM],
                        .domain = call->values[STORE_OPT_DOMAIN],
                        .text = on ? &text : NULL};
    bisect_result result = {.versions.n_items = 0};
    pl_status status = PL_OK;
    if (call->values[STORE_OPT_STORE])
        return pl_fail(PL_ERR_USAGE, "store bisect needs --run instead of --store: the "
                                     "run has the held-out text and the tokenizer");
    PL_TRY(run_look(call->values[STORE_OPT_RUN], &r));
    PL_TRY(store_option_int(call, STORE_OPT_FROM, -1, 0, &wish.from));
    PL_TRY(store_option_int(call, STORE_OPT_TO, -1, 0, &wish.to));
    PL_TRY(on ? evaluation_read_text(&r, on, &text) : evaluation_open_valid(&r));
    PL_TRY(bisect_run(&r, call->store, &wish, print_step, call, &result));
    row line = row_begin(call->json);
    row_text(&line, "arm", result.arm, NULL);
    row_int(&line, "before", result.before, NULL);
    row_int(&line, "at", result.at, NULL);
    row_real(&line, "bits_before", result.bits_before, NULL);
    row_real(&line, "bits_at", result.bits_at, NULL);
    row_real(&line, "standard_error", result.error, NULL);
    row_count(&line, "documents", result.n_docs, NULL);
    row_count(&line, "paths", result.n_paths, NULL);
    if (result.at < 0)
        row_say(&line,
                "the prediction of the text did not become worse: %.4f bits/byte after "
                "phase %lld of %s, %.4f after the last phase of the search; choose "
                "other phases with --from and --to",
                result.bits_before, (long long)result.before, result.arm,
                result.bits_at);
    else
        row_say(&line,
                "%s became worse between phases %lld and %lld: %.4f to %.4f bits/byte "
                "over %zu documents, which %zu paths answered",
                result.arm, (long long)result.before, (long long)result.at,
                result.bits_before, result.bits_at, result.n_docs, result.n_paths);
    if (result.at >= 0 && isfinite(result.error))
        row_say(&line, " (standard error of the difference %.4f)", result.error);
    row_finish(&line);
    for (size_t i = 0; i < result.versions.n_items; i++) {
        const pl_snapshot_item *item = &result.versions.items[i];
        pl_blame b;
        pl_version v;
        PL_TRY(pl_blame_gather(call->store, item->module, item->number, false, &b));
        status = pl_store_get_version(call->store, item->module, item->number, &v);
        const bool rolled_back = b.source != item->number;
        for (size_t k = 0; status == PL_OK && k < (rolled_back ? 1 : b.n); k++) {
            line = row_begin(call->json);
            row_text(&line, "module", item->module, "%s");
            row_count(&line, "version", item->number, "@%-4s");
            row_text(&line, "method", v.method, rolled_back ? "  %s" : NULL);
            if (!rolled_back) {
                const pl_contributor *p = &b.list[k];
                row_real(&line, "share", p->share, NULL);
                row_real(&line, NULL, 100 * p->share, " %6.2f %%");
                row_text(&line, "worker", p->worker, "  %s");
                print_task(&line, call, item->module, p->path, p->replica, true);
                row_tokens(&line, "tokens", p->n_tokens, "  %s tokens");
                row_real(&line, "loss", p->loss, "  loss %.4f");
            }
            row_finish(&line);
        }
        pl_blame_clear(&b);
        pl_version_clear(&v);
        PL_TRY(status);
    }
done:
    pl_snapshot_clear(&result.versions);
    run_close(&r);
    evaluation_text_clear(&text);
    return status;
}
