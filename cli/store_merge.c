/* pathloom store merge: makes each module from the modules of several sources, by the
 * methods linear, slerp, ties or task (outer/blend.h), and names the result with a tag
 * (history/merge_plan.h). The tag is written last. */
#include "cli/store_print.h"

typedef struct merge_call {
    store_call *call;
    pl_merge_plan plan;
} merge_call;

static pl_status read_merge_number(const store_call *call, store_option option,
                                   double *out)
{
    const char *text = call->values[option];
    if (!text || pl_parse_real(text, out) == PL_OK)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "--%s takes a number, not `%s`",
                   store_option_row(option)->name, text);
}

static void print_merged(void *context, const pl_version *v)
{
    const merge_call *m = context;
    row r = row_begin(m->call->json);
    row_text(&r, "tag", m->plan.tag_name, NULL);
    row_text(&r, "module", v->module, "%s");
    row_count(&r, "version", v->number, "@%s");
    row_hash(&r, "hash", &v->params, "  %s");
    row_text(&r, "method", v->method, "  %s");
    for (int i = 0; i < v->n_contributions; i++)
        row_say(&r, "%s%s", i == 0 ? " of " : ", ", v->contributions[i].worker);
    row_finish(&r);
}

pl_status store_merge(store_call *call)
{
    merge_call m = {.call = call, .plan = {.made = print_merged, .context = &m}};
    pl_merge_plan *plan = &m.plan;
    const char *method = call->values[STORE_OPT_METHOD];
    const char *base = call->values[STORE_OPT_BASE];
    pl_store *store = NULL;
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    plan->tag_name = call->words[0];
    plan->note = call->values[STORE_OPT_NOTE];
    plan->blend =
        (pl_blend){.scale = 1, .density = 0.2, .n_sources = call->n_words - 1};
    PL_TRY(pl_blend_parse(method ? method : "linear", &plan->blend.method));
    const char *unused = NULL;
    if (call->values[STORE_OPT_SCALE] && !pl_blend_needs_base(plan->blend.method))
        unused = "scale";
    if (call->values[STORE_OPT_DENSITY] && !pl_blend_uses_density(plan->blend.method))
        unused = "density";
    if (unused)
        PL_TRY(pl_fail(PL_ERR_USAGE, "%s has no %s; leave --%s out",
                       pl_blend_name(plan->blend.method), unused, unused));
    PL_TRY(read_merge_number(call, STORE_OPT_SCALE, &plan->blend.scale));
    PL_TRY(read_merge_number(call, STORE_OPT_DENSITY, &plan->blend.density));
    const char *text = call->values[STORE_OPT_WEIGHTS];
    int n = 0;
    for (int i = 0; i < plan->blend.n_sources; i++)
        plan->blend.weights[i] = 1;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char one[32];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(at, ","), at);
        if (n == plan->blend.n_sources || pl_parse_real(one, &plan->blend.weights[n++]))
            PL_TRY(pl_fail(PL_ERR_USAGE,
                           "--weights takes one number for each of the %d sources, "
                           "separated by commas, not `%s`",
                           plan->blend.n_sources, text));
    }
    if (text && n != plan->blend.n_sources)
        PL_TRY(pl_fail(PL_ERR_USAGE,
                       "--weights has %d numbers for %d sources; give one per source",
                       n, plan->blend.n_sources));
    PL_TRY(pl_blend_check(&plan->blend));
    if (pl_blend_needs_base(plan->blend.method) != (base != NULL))
        PL_TRY(pl_fail(
            PL_ERR_USAGE,
            base ? "method %s has no base; leave --base out"
                 : "method %s needs --base, the version from which all sources began",
            pl_blend_name(plan->blend.method)));
    for (int i = 0; i < plan->blend.n_sources; i++)
        plan->sources[i].word = call->words[1 + i];
    plan->base.word = base;
    PL_TRY(store_open_writers(call, &plan->writers));
    plan->view = pl_writers_view(plan->writers);
    PL_TRY(store_check_tag_name(plan->view, plan->tag_name));
    PL_TRY(store_check_new_tag(call, plan->view, plan->tag_name));
    PL_TRY(pl_merge_plan_run(plan));
    /* The tag has the commit number that the store has after all merges. */
    pl_writers_close(&plan->writers);
    PL_TRY(pl_store_open(call->folder, PL_STORE_READ, &store));
    plan->tag.sequence = pl_store_sequence(store);
    pl_snapshot_encode(&plan->tag, &bytes);
    PL_TRY(store_keep_tag(call, store, plan->tag_name, &bytes));
    if (!call->json)
        say("tag %s names %d merged and %zu other modules of %s", plan->tag_name,
            plan->n_merged, plan->tag.n_items - (size_t)plan->n_merged, plan->tag.arm);
done:
    pl_buf_destroy(&bytes);
    pl_store_close(&store);
    pl_merge_plan_clear(plan);
    pl_writers_close(&plan->writers);
    return status;
}
