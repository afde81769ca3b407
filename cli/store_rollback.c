/* pathloom store rollback: makes an older version the newest again
 * (history/rollback_plan.c).
 *
 *   store_open_writers --> resumed? ----yes----> done: opening the store ended the
 *      |                     |                  same rollback, which an earlier call
 *      | BUSY                no                 had begun
 *      v                     v
 *   refused               plan --> commit (pl_writers_roll_back) --> print
 *
 * plan.store is what pl_writers_view returns; pl_writers_close closes it. */
#include "cli/store_print.h"

pl_status store_rollback(store_call *call)
{
    pl_writers *writers = NULL;
    pl_rollback_plan plan = {.what = call->words[0], .to = call->values[STORE_OPT_TO]};
    char words[PL_TEXT_MAX];
    pl_status status = PL_OK;
    if (!plan.to)
        return pl_fail(PL_ERR_USAGE,
                       "rollback needs --to V, a version number or a tag");
    PL_CHECK(store_open_writers(call, &writers));
    plan.store = pl_writers_view(writers);
    pl_rollback_words(&plan, words);
    const char *resumed = pl_writers_resumed(writers);
    if (resumed && !call->json)
        say("an interrupted rollback (%s) was completed in all homes", resumed);
    if (resumed && strcmp(resumed, words) == 0)
        goto done;
    PL_TRY(pl_rollback_plan_make(&plan));
    PL_TRY(run_drop_report(call->folder));
    PL_TRY(pl_rollback_plan_commit(&plan, writers));
    for (size_t i = 0; i < plan.n; i++) {
        const pl_rollback_change *c = &plan.changes[i];
        if (c->source == c->head)
            continue;
        row line = row_begin(call->json);
        row_text(&line, "module", c->module, "%s");
        row_count(&line, "version", c->last, "@%s");
        row_count(&line, "source", c->source, " is version %s again");
        row_int(&line, "phase", plan.phase, NULL);
        row_finish(&line);
    }
    if (!call->json && plan.phase >= 0)
        say("training of %s continues with phase %lld of %d", plan.arm_name,
            (long long)plan.phase, plan.arm.inner.phases);
    else if (!call->json && plan.topology)
        say("training of %s has finished; these are its newest versions",
            plan.arm_name);
done:
    pl_rollback_plan_clear(&plan);
    pl_writers_close(&writers);
    return status;
}
