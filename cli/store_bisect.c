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

static pl_status print_makers(store_call *call, const pl_snapshot_item *item)
{
    pl_blame b;
    pl_version v;
    PL_CHECK(pl_blame_gather(call->store, item->module, item->number, false, &b));
    const pl_status status =
        pl_store_get_version(call->store, item->module, item->number, &v);
    if (status != PL_OK) {
        pl_blame_clear(&b);
        return status;
    }
    const bool rolled_back = b.source != item->number;
    for (size_t i = 0; i < (rolled_back ? 1 : b.n); i++) {
        row r = row_begin(call->json);
        row_text(&r, "module", item->module, "%s");
        row_count(&r, "version", item->number, "@%-4s");
        row_text(&r, "method", v.method, rolled_back ? "  %s" : NULL);
        if (!rolled_back) {
            row_real(&r, "share", b.list[i].share, NULL);
            row_real(&r, NULL, 100 * b.list[i].share, " %6.2f %%");
            row_text(&r, "worker", b.list[i].worker, "  %s");
            print_task(&r, call, item->module, b.list[i].path, b.list[i].replica, true);
            row_tokens(&r, "tokens", b.list[i].n_tokens, "  %s tokens");
            row_real(&r, "loss", b.list[i].loss, "  loss %.4f");
        }
        row_finish(&r);
    }
    pl_blame_clear(&b);
    pl_version_clear(&v);
    return PL_OK;
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
    for (size_t i = 0; i < result.versions.n_items; i++)
        PL_TRY(print_makers(call, &result.versions.items[i]));
done:
    pl_snapshot_clear(&result.versions);
    run_close(&r);
    evaluation_text_clear(&text);
    return status;
}
