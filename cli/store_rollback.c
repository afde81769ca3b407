/* pathloom store rollback: an older version becomes the newest again
 * (home/rollback_plan.c).
 *
 *   open_homes --> was_resumed? --yes--> done: opening the store ended the same
 *      |              |                  rollback, which an earlier call had begun
 *      | BUSY         no
 *      v              v
 *   refused        plan --> commit (pl_writers_roll_back) --> print
 *
 * `struct rollback` borrows the call and owns the plan and the writers. plan.store is
 * the writers' view and belongs to them. */
#include "cli/store_call.h"
#include "cli/store_names.h"
#include "cli/store_print.h"

typedef struct rollback {
    store_call *call;
    pl_writers *writers;
    pl_rollback_plan plan;
} rollback;

/* Merged modules do not train, so they have nothing to go back to. */
static pl_status refuse_merged(const rollback *r, const module_set *set)
{
    const char *module = NULL;
    char tag[PL_MODULE_NAME_MAX];
    int64_t number;
    for (size_t i = 0; i < set->n && !module; i++)
        if (pl_merged_tag(set->at[i].module, tag))
            module = set->at[i].module;
    if (!module)
        return PL_OK;
    if (pl_parse_int(r->plan.to, &number) == PL_OK)
        return pl_fail(PL_ERR_USAGE,
                       "%s was made by `pathloom store merge` for tag %s and does not "
                       "train, so it cannot go back; merge again with --force, or name "
                       "the older version in a merge",
                       module, tag);
    return pl_fail(PL_ERR_USAGE,
                   "tag %s names merged modules, and a rollback goes back to versions "
                   "of the module itself; use the tag with --at",
                   r->plan.to);
}

static pl_status make_plan(rollback *r)
{
    char asked[2 * PL_MODULE_NAME_MAX];
    module_set set;
    snprintf(asked, sizeof asked, "%s@%s", r->plan.what, r->plan.to);
    PL_CHECK(names_set(r->plan.store, asked, &set));
    pl_status merged = refuse_merged(r, &set);
    if (merged != PL_OK) {
        pl_free(set.at);
        return merged;
    }
    pl_rollback_target *targets = pl_alloc((set.n + 1) * sizeof *targets);
    for (size_t i = 0; i < set.n; i++) {
        pl_copy_text(targets[i].module, sizeof targets[i].module, set.at[i].module);
        targets[i].number = set.at[i].number;
    }
    pl_arm_of_module(set.at[0].module, r->plan.arm_name, sizeof r->plan.arm_name);
    pl_status status = pl_rollback_plan_make(&r->plan, targets, set.n);
    pl_free(targets);
    pl_free(set.at);
    return status;
}

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

/* Whether opening the store has just completed this same rollback, which an earlier
 * call had begun. */
static bool was_resumed(const rollback *r)
{
    char words[PL_TEXT_MAX];
    const char *resumed = pl_writers_resumed(r->writers);
    pl_rollback_words(&r->plan, words);
    if (resumed && !r->call->json)
        say("an interrupted rollback (%s) was completed in all homes", resumed);
    return resumed && strcmp(resumed, words) == 0;
}

static pl_status open_homes(rollback *r)
{
    const char *folder = r->call->folder;
    PL_CHECK(run_placement(folder, &r->plan.places));
    pl_status status = pl_writers_open(folder, &r->writers);
    if (status == PL_OK)
        r->plan.store = pl_writers_view(r->writers);
    return status == PL_ERR_BUSY ? store_is_held(r->call) : status;
}

pl_status store_rollback(store_call *call)
{
    rollback r = {.call = call,
                  .plan = {.what = call->words[0], .to = call->values[STORE_OPT_TO]}};
    pl_status status = PL_OK;
    if (!r.plan.to)
        return pl_fail(PL_ERR_USAGE,
                       "rollback needs --to V, a version number or a tag");
    PL_CHECK(store_check_folder(call));
    PL_CHECK(store_refuse_part(call->folder));
    PL_TRY(open_homes(&r));
    if (was_resumed(&r))
        goto done;
    PL_TRY(make_plan(&r));
    PL_TRY(pl_rollback_plan_commit(&r.plan, r.writers));
    print_changes(&r);
done:
    pl_rollback_plan_clear(&r.plan);
    pl_writers_close(&r.writers);
    return status;
}
