/* pathloom store rollback: makes an older version the newest again
 * (history/rollback_plan.c).
 *
 *   store_open_writers --> was_resumed? --yes--> done: opening the store ended the
 *      |                     |                  same rollback, which an earlier call
 *      | BUSY                no                 had begun
 *      v                     v
 *   refused               plan --> commit (pl_writers_roll_back) --> print
 *
 * `struct rollback` borrows the call and owns the plan and the writers. plan.store is
 * the view of the writers, which own it. */
#include "cli/store_call.h"
#include "cli/store_print.h"

typedef struct rollback {
    store_call *call;
    pl_writers *writers;
    pl_rollback_plan plan;
} rollback;

static void print_changes(const rollback *r)
{
    const pl_rollback_plan *p = &r->plan;
    for (size_t i = 0; i < p->n; i++) {
        const pl_rollback_change *c = &p->changes[i];
        if (c->source == c->head)
            continue;
        row line = row_begin(r->call->json);
        row_text(&line, "module", c->module, "%s");
        row_count(&line, "version", c->last, "@%s");
        row_count(&line, "source", c->source, " is version %s again");
        row_int(&line, "phase", p->phase, NULL);
        row_finish(&line);
    }
    if (r->call->json)
        return;
    if (p->phase >= 0)
        say("training of %s continues with phase %lld of %d", p->arm_name,
            (long long)p->phase, p->arm.inner.phases);
    else if (p->topology)
        say("training of %s has finished; these are its newest versions", p->arm_name);
}

/* Whether opening the store has completed the same rollback, because an earlier call
 * had begun it. */
static bool was_resumed(const rollback *r)
{
    char words[PL_TEXT_MAX];
    const char *resumed = pl_writers_resumed(r->writers);
    pl_rollback_words(&r->plan, words);
    if (resumed && !r->call->json)
        say("an interrupted rollback (%s) was completed in all homes", resumed);
    return resumed && strcmp(resumed, words) == 0;
}

pl_status store_rollback(store_call *call)
{
    rollback r = {.call = call,
                  .plan = {.what = call->words[0], .to = call->values[STORE_OPT_TO]}};
    pl_status status = PL_OK;
    if (!r.plan.to)
        return pl_fail(PL_ERR_USAGE,
                       "rollback needs --to V, a version number or a tag");
    PL_CHECK(store_open_writers(call, &r.writers));
    r.plan.store = pl_writers_view(r.writers);
    if (was_resumed(&r))
        goto done;
    PL_TRY(pl_rollback_plan_make(&r.plan));
    PL_TRY(run_drop_report(call->folder));
    PL_TRY(pl_rollback_plan_commit(&r.plan, r.writers));
    print_changes(&r);
done:
    pl_rollback_plan_clear(&r.plan);
    pl_writers_close(&r.writers);
    return status;
}
