/* pathloom store merge: makes each module from the modules of several sources, by the
 * methods linear, slerp, ties or task (outer/blend.h), and names the result with a tag
 * (history/merge_plan.h). The tag is written last. */
#include "cli/store_call.h"
#include "cli/store_print.h"

typedef struct merge_call {
    store_call *call;
    pl_merge_plan plan;
} merge_call;

/* ---- options ---- */
static pl_status read_merge_number(const store_call *call, store_option option,
                                   double *out)
{
    const char *text = call->values[option];
    if (!text || pl_parse_real(text, out) == PL_OK)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "--%s takes a number, not `%s`",
                   store_option_row(option)->name, text);
}

/* Refuses numbers that the method does not use. */
static pl_status refuse_unused_numbers(const store_call *call, pl_blend_method method)
{
    const bool scales = pl_blend_needs_base(method);
    const char *unused = NULL;
    if (call->values[STORE_OPT_SCALE] && !scales)
        unused = "scale";
    if (call->values[STORE_OPT_DENSITY] && !pl_blend_uses_density(method))
        unused = "density";
    return unused ? pl_fail(PL_ERR_USAGE, "%s has no %s; leave --%s out",
                            pl_blend_name(method), unused, unused)
                  : PL_OK;
}

static pl_status read_merge_weights(const store_call *call, pl_blend *blend)
{
    const char *text = call->values[STORE_OPT_WEIGHTS];
    int n = 0;
    for (int i = 0; i < blend->n_sources; i++)
        blend->weights[i] = 1;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char one[32];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(at, ","), at);
        if (n == blend->n_sources || pl_parse_real(one, &blend->weights[n++]))
            return pl_fail(PL_ERR_USAGE,
                           "--weights takes one number for each of the %d sources, "
                           "separated by commas, not `%s`",
                           blend->n_sources, text);
    }
    if (text && n != blend->n_sources)
        return pl_fail(PL_ERR_USAGE,
                       "--weights has %d numbers for %d sources; give one per source",
                       n, blend->n_sources);
    return PL_OK;
}

static pl_status read_merge_options(const store_call *call, pl_merge_plan *m)
{
    const char *method = call->values[STORE_OPT_METHOD];
    const char *base = call->values[STORE_OPT_BASE];
    m->tag_name = call->words[0];
    m->note = call->values[STORE_OPT_NOTE];
    m->blend = (pl_blend){.scale = 1, .density = 0.2, .n_sources = call->n_words - 1};
    PL_CHECK(pl_blend_parse(method ? method : "linear", &m->blend.method));
    PL_CHECK(refuse_unused_numbers(call, m->blend.method));
    PL_CHECK(read_merge_number(call, STORE_OPT_SCALE, &m->blend.scale));
    PL_CHECK(read_merge_number(call, STORE_OPT_DENSITY, &m->blend.density));
    PL_CHECK(read_merge_weights(call, &m->blend));
    PL_CHECK(pl_blend_check(&m->blend));
    if (pl_blend_needs_base(m->blend.method) != (base != NULL))
        return pl_fail(
            PL_ERR_USAGE,
            base ? "method %s has no base; leave --base out"
                 : "method %s needs --base, the version from which all sources began",
            pl_blend_name(m->blend.method));
    for (int i = 0; i < m->blend.n_sources; i++)
        m->sources[i].word = call->words[1 + i];
    m->base.word = base;
    return PL_OK;
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

/* Stores the tag, with the commit number that the store has after all merges. */
static pl_status keep_merged_tag(const store_call *call, pl_merge_plan *m)
{
    pl_store *store = NULL;
    pl_buf bytes = {0};
    pl_writers_close(&m->writers);
    PL_CHECK(pl_store_open(call->folder, PL_STORE_READ, &store));
    m->tag.sequence = pl_store_sequence(store);
    pl_snapshot_encode(&m->tag, &bytes);
    pl_status status = store_keep_tag(call, store, m->tag_name, &bytes);
    pl_buf_destroy(&bytes);
    pl_store_close(&store);
    PL_CHECK(status);
    if (!call->json)
        say("tag %s names %d merged and %zu other modules of %s", m->tag_name,
            m->n_merged, m->tag.n_items - (size_t)m->n_merged, m->tag.arm);
    return PL_OK;
}

static pl_status merge_modules(store_call *call, pl_merge_plan *m)
{
    PL_CHECK(read_merge_options(call, m));
    PL_CHECK(store_open_writers(call, &m->writers));
    m->view = pl_writers_view(m->writers);
    PL_CHECK(store_check_tag_name(m->view, m->tag_name));
    PL_CHECK(store_check_new_tag(call, m->view, m->tag_name));
    PL_CHECK(pl_merge_plan_find(m));
    PL_CHECK(pl_merge_plan_run(m));
    return keep_merged_tag(call, m);
}

pl_status store_merge(store_call *call)
{
    merge_call m = {.call = call, .plan = {.made = print_merged, .context = &m}};
    pl_status status = merge_modules(call, &m.plan);
    pl_merge_plan_clear(&m.plan);
    pl_writers_close(&m.plan.writers);
    return status;
}
