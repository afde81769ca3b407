/* pathloom check: checks the invariants of a stopped run, from its store alone. */
#include "cli/row.h"
#include "cli/store_call.h"

typedef struct check_request {
    const char *run, *store, *recompute;
    bool json;
    bool damaged; /* bytes of the store are damaged, so the remedy is a backup */
} check_request;

static const cli_option options[] = {
    CLI_RUN(check_request, run),
    CLI_OPTION("store", CLI_TEXT, check_request, store, "FOLDER",
               "folder of a store, if there is no run"),
    CLI_OPTION("recompute", CLI_TEXT, check_request, recompute, "N",
               "how many of the newest versions of each module are computed again, or "
               "all (1)"),
    CLI_JSON(check_request, json),
};

static void print_result(void *context, const check_result *result)
{
    check_request *q = context;
    if (strcmp(result->name, "hashes") == 0)
        q->damaged = result->verdict == CHECK_BROKEN;
    row r = row_begin(q->json);
    row_text(&r, "invariant", result->name, "%-11s");
    row_text(&r, "verdict", check_verdicts[result->verdict], "%-9s");
    row_text(&r, "claim", result->claim, " %s:");
    row_count(&r, "checked", result->n_checked, " %s");
    row_text(&r, "unit", result->unit, " %s");
    row_count(&r, "given_up", result->n_given_up,
              result->n_given_up > 0 ? ", %s made by rollbacks" : NULL);
    row_count(&r, "unproven", result->n_unproven,
              result->n_unproven > 0 ? ", %s unproven" : NULL);
    row_count(&r, "broken", result->broken.n_all, NULL);
    if (q->json || result->n_unproven > 0)
        row_text(&r, "reason", result->why, " (%s)");
    row_break(&r);
    row_list(&r, "findings");
    for (size_t i = 0; i < result->broken.n; i++) {
        row item = row_item(&r);
        row_text(&item, "finding", result->broken.sentences[i], "    %s");
        row_finish(&item);
    }
    row_finish(&r);
}

static pl_status run_check_verb(int argc, char **argv)
{
    check_request q = {.run = "pathloom-run"};
    char folder[PL_PATH_MAX];
    int n_broken = 0;
    PL_CHECK(cli_read(&verb_check, argc, argv, &q, NULL));
    check_wish wish = {.folder = folder, .run = q.store ? NULL : q.run, .recompute = 1};
    if (q.store)
        pl_copy_text(folder, sizeof folder, q.store);
    else
        pl_join(folder, q.run, "store");
    if (q.recompute && strcmp(q.recompute, "all") == 0)
        wish.recompute = -1;
    else if (q.recompute && (pl_parse_int(q.recompute, &wish.recompute) != PL_OK ||
                             wish.recompute < 0))
        return pl_fail(PL_ERR_USAGE,
                       "--recompute takes a number of versions, or all, not `%s`",
                       q.recompute);
    PL_CHECK(store_refuse_part(folder));
    PL_CHECK(check_store(&wish, print_result, &q, &n_broken));
    if (n_broken == 0)
        return PL_OK;
    return pl_fail(
        PL_ERR_DAMAGED, "%d invariants of %s are broken%s", n_broken, folder,
        q.damaged ? "; `pathloom store restore` replaces the store by a backup" : "");
}

const cli_verb verb_check = {
    .name = "check",
    .usage = "check --run RUN [--recompute N|all] [--json]",
    .help = "check that a run is intact, from its store alone",
    CLI_TABLE(options),
    .notes = "One line per invariant: it holds, it is broken (followed by what is "
             "damaged), or it is unproven because the data that could prove it was not "
             "kept (store.keep_updates, store.keep_momentum) or was deleted by gc. Not "
             "proved: that updates come from training (store verify --tasks, audit), "
             "and that no person wrote rows and log anew (compare the log hash of "
             "store fsck with an older note of it). Exit status 65 if an invariant is "
             "broken, 75 while a job writes to the store.",
    .computes = true,
    .run = run_check_verb};
