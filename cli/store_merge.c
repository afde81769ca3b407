/* pathloom store merge: makes each module from the modules of several sources, by the
 * methods linear, slerp, ties or task (outer/blend.h), and names the result with a tag.
 *
 *   words -> a set of versions per source
 *         -> a recipe per module of the first source
 *         -> its version, made once without being stored: what cannot be merged is
 *            refused here, before anything is written
 *         -> its version, committed under a name of its own (home/merged.h)
 *         -> the tag
 *
 * The tag is written last. If the command is killed, it can be given again: versions
 * that it has already made are found and not made a second time. */
#include "cli/store_call.h"
#include "cli/store_names.h"
#include "cli/store_print.h"

typedef struct merge_source {
    const char *word;
    module_set set;
    /* true for a module or a path: modules correspond by their order; false for an arm
     * or a tag: modules correspond by their names */
    bool ordered;
} merge_source;

typedef struct merge_call {
    store_call *call;
    const char *tag_name;
    pl_writers *writers;
    pl_store *view; /* a reader that `writers` owns: it shows what they write */
    pl_places places;
    pl_blend blend;
    merge_source sources[PL_BLEND_SOURCES_MAX], base;
    pl_snapshot tag;
    int n_merged;
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

static pl_status read_merge_weights(merge_call *m)
{
    const char *text = m->call->values[STORE_OPT_WEIGHTS];
    int n = 0;
    for (int i = 0; i < m->blend.n_sources; i++)
        m->blend.weights[i] = 1;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char one[32];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(at, ","), at);
        if (n == m->blend.n_sources || pl_parse_real(one, &m->blend.weights[n++]))
            return pl_fail(PL_ERR_USAGE,
                           "--weights takes one number for each of the %d sources, "
                           "separated by commas, not `%s`",
                           m->blend.n_sources, text);
    }
    if (text && n != m->blend.n_sources)
        return pl_fail(PL_ERR_USAGE, "--weights has %d numbers for %d sources", n,
                       m->blend.n_sources);
    return PL_OK;
}

static pl_status read_merge_options(merge_call *m)
{
    const store_call *call = m->call;
    const char *method = call->values[STORE_OPT_METHOD];
    const char *base = call->values[STORE_OPT_BASE];
    m->tag_name = call->words[0];
    m->blend = (pl_blend){.scale = 1, .density = 0.2, .n_sources = call->n_words - 1};
    PL_CHECK(pl_blend_parse(method ? method : "linear", &m->blend.method));
    PL_CHECK(refuse_unused_numbers(call, m->blend.method));
    PL_CHECK(read_merge_number(call, STORE_OPT_SCALE, &m->blend.scale));
    PL_CHECK(read_merge_number(call, STORE_OPT_DENSITY, &m->blend.density));
    PL_CHECK(read_merge_weights(m));
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

/* ---- sources ---- */
static void add_merge_module(module_set *set, const module_at *one)
{
    set->at = pl_grow(set->at, (set->n + 1) * sizeof *set->at);
    set->at[set->n++] = *one;
}

/* Finds the modules of a path: "p01", "mix/p01", "p01@3", "p01@TAG". The set stays
 * empty if the word names no path. */
static pl_status read_path_source(pl_store *store, const char *word, module_set *out)
{
    char name[PL_MODULE_NAME_MAX], arm_name[PL_ARM_NAME_MAX], known[PL_NAME_MAX];
    pl_arm arm;
    pl_topology *t = NULL;
    const char *at = strchr(word, '@');
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "@"), word);
    const char *path_name = pl_arm_of_module(name, arm_name, sizeof arm_name);
    if (!arm_name[0])
        pl_newest_chapter(store, arm_name);
    pl_status status = pl_read_arm(store, arm_name, &arm, &t);
    if (status == PL_ERR_NOT_FOUND)
        status = PL_OK; /* the word names no path; t is NULL */
    for (int path = 0; status == PL_OK && t && path < pl_topology_n_paths(t); path++) {
        pl_topology_path_name(t, path, known);
        if (strcmp(known, path_name) != 0)
            continue;
        for (int slot = 0; status == PL_OK && slot < pl_topology_n_slots(t); slot++) {
            char module[PL_MODULE_NAME_MAX], asked[2 * PL_MODULE_NAME_MAX];
            module_at one;
            bool versioned;
            pl_arm_module_name(&arm, t, pl_topology_module_of_path(t, slot, path),
                               module);
            snprintf(asked, sizeof asked, "%s%.90s", module, at ? at : "");
            status = names_module(store, asked, &one, &versioned);
            if (status == PL_OK)
                add_merge_module(out, &one);
        }
    }
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

static pl_status read_merge_source(pl_store *store, merge_source *s)
{
    name_kind kind;
    char word[PL_MODULE_NAME_MAX];
    PL_CHECK(read_path_source(store, s->word, &s->set));
    s->ordered = s->set.n > 0;
    if (s->ordered)
        return PL_OK;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(s->word, "@"), s->word);
    PL_CHECK(names_kind(store, word, &kind));
    s->ordered = kind == NAME_MODULE;
    return names_set(store, s->word, &s->set);
}

static const module_at *find_by_place(const module_set *set, const char *module)
{
    const char *place = names_without_arm(module);
    for (size_t i = 0; i < set->n; i++)
        if (strcmp(names_without_arm(set->at[i].module), place) == 0)
            return &set->at[i];
    return NULL;
}

/* Finds the module of source `s` that corresponds to module i of the first source. */
static pl_status find_counterpart(const merge_call *m, const merge_source *s, size_t i,
                                  const module_at **out)
{
    const merge_source *first = &m->sources[0];
    *out = NULL;
    if (s == first ||
        (first->ordered && s->ordered && i < s->set.n && first->set.n == s->set.n))
        *out = &s->set.at[i];
    else if (!s->ordered && (!first->ordered || s == &m->base))
        *out = find_by_place(&s->set, first->set.at[i].module);
    if (*out)
        return PL_OK;
    return pl_fail(
        PL_ERR_USAGE,
        "%s has no module that corresponds to %s of %s; sources must be modules, or "
        "paths with the same slots, or arms and tags with the same modules",
        s->word, first->set.at[i].module, first->word);
}

/* ---- merging ---- */
static int choose_merge_part(const merge_call *m, const char *name)
{
    const int part = pl_store_part_of(m->view, name);
    if (m->places.n == 0)
        return 0;
    return part >= 0 ? part : pl_places_home(&m->places, name);
}

static void print_merged(const merge_call *m, const pl_version *v)
{
    row r = row_begin(m->call->json);
    row_text(&r, "tag", m->tag_name, NULL);
    row_text(&r, "module", v->module, "%s");
    row_count(&r, "version", v->number, "@%s");
    row_hash(&r, "hash", &v->params, "  %s");
    row_text(&r, "method", v->method, "  %s");
    for (int i = 0; i < v->n_contributions; i++)
        row_say(&r, "%s%s", i == 0 ? " of " : ", ", v->contributions[i].worker);
    row_finish(&r);
}

/* Replaces the tag's entry for module i of the first source. */
static pl_status put_into_tag(merge_call *m, const module_at *was, const pl_version *v)
{
    for (size_t i = 0; i < m->tag.n_items; i++) {
        pl_snapshot_item *item = &m->tag.items[i];
        if (strcmp(item->module, was->module) != 0)
            continue;
        pl_copy_text(item->module, sizeof item->module, v->module);
        item->number = v->number;
        item->params = v->params;
        m->n_merged++;
        return PL_OK;
    }
    return pl_fail(PL_ERR_USAGE, "arm %s has no module %s", m->tag.arm, was->module);
}

/* ---- the tag ---- */
/* Finds the arm to which the first source belongs. A source that is or names a tag
 * belongs to the tag's arm, as do the merged modules that were made for a tag. */
static pl_status find_merged_arm(const merge_call *m, char out[PL_ARM_NAME_MAX])
{
    const merge_source *first = &m->sources[0];
    const char *at = strchr(first->word, '@'), *module = first->set.at[0].module;
    char name[PL_MODULE_NAME_MAX];
    pl_snapshot tag;
    bool found = pl_store_get_tag(m->view, at ? at + 1 : first->word, &tag) == PL_OK;
    pl_arm_of_module(module, name, sizeof name);
    if (!found && pl_merged_tag(module, name)) {
        found = pl_store_get_tag(m->view, name, &tag) == PL_OK;
        if (!found)
            return pl_fail(PL_ERR_USAGE,
                           "%s was made for tag %s, which does not exist any more, so "
                           "its arm is not known; use it only as a later source",
                           module, name);
    }
    pl_copy_text(out, PL_ARM_NAME_MAX, found ? tag.arm : name);
    if (found)
        pl_snapshot_clear(&tag);
    return PL_OK;
}

/* Begins the tag with the first source's arm: its modules at the versions of the first
 * source, all others at their newest versions. */
static pl_status begin_merged_tag(merge_call *m)
{
    const merge_source *first = &m->sources[0];
    const char *note = m->call->values[STORE_OPT_NOTE];
    pl_copy_text(m->tag.name, sizeof m->tag.name, m->tag_name);
    PL_CHECK(find_merged_arm(m, m->tag.arm));
    m->tag.phase = -1;
    if (!pl_copy_text(m->tag.note, sizeof m->tag.note, note ? note : ""))
        return pl_fail(PL_ERR_USAGE, "a note has at most %d bytes", PL_TEXT_MAX - 1);
    PL_CHECK(pl_tag_fill(m->view, &m->tag));
    for (size_t i = 0; i < first->set.n; i++) {
        pl_version v;
        const module_at *one = &first->set.at[i];
        for (size_t k = 0; k < m->tag.n_items; k++) {
            pl_snapshot_item *item = &m->tag.items[k];
            if (strcmp(names_without_arm(item->module),
                       names_without_arm(one->module)) != 0)
                continue;
            PL_CHECK(pl_store_get_version(m->view, one->module, one->number, &v));
            pl_copy_text(item->module, sizeof item->module, one->module);
            item->number = one->number;
            item->params = v.params;
            pl_version_clear(&v);
        }
    }
    return PL_OK;
}

static void set_merged_source(pl_merged_source *out, const module_at *one)
{
    pl_copy_text(out->module, sizeof out->module, one->module);
    out->number = one->number;
}

static bool is_same_source(const pl_merged_source *a, const pl_merged_source *b)
{
    return a->number == b->number && strcmp(a->module, b->module) == 0;
}

/* Finds the sources of module i of the first source. Sets *same if its version stands
 * for the result: all sources are this version and, for a method with a base, the base
 * is too. (A base that differs is scaled: then the result is a new version.) */
static pl_status find_recipe(const merge_call *m, size_t i, pl_recipe *r, bool *same)
{
    const module_at *one;
    *r = (pl_recipe){.blend = m->blend};
    *same = m->blend.n_sources > 1 || m->base.word;
    for (int s = 0; s < m->blend.n_sources; s++) {
        PL_CHECK(find_counterpart(m, &m->sources[s], i, &one));
        set_merged_source(&r->sources[s], one);
        *same = *same && is_same_source(&r->sources[s], &r->sources[0]);
    }
    if (!m->base.word)
        return PL_OK;
    PL_CHECK(find_counterpart(m, &m->base, i, &one));
    set_merged_source(&r->base, one);
    *same = *same && is_same_source(&r->base, &r->sources[0]);
    return PL_OK;
}

/* Makes module i. With `keep` its version is committed, put into the tag and
 * printed. */
static pl_status merge_module(merge_call *m, size_t i, bool keep)
{
    pl_recipe recipe;
    const module_at *was = &m->sources[0].set.at[i];
    char name[PL_MODULE_NAME_MAX];
    pl_version made;
    float *params = NULL;
    bool same = false;
    pl_status status = PL_OK;
    PL_CHECK(find_recipe(m, i, &recipe, &same));
    if (same)
        return PL_OK;
    PL_CHECK(pl_merged_name(m->tag_name, names_without_arm(was->module), name));
    PL_TRY(pl_merged_make(m->view, name, &recipe, &made, &params));
    if (keep)
        PL_TRY(pl_merged_keep(pl_writers_part(m->writers, choose_merge_part(m, name)),
                              &made, params));
    PL_TRY(put_into_tag(m, was, &made));
    if (keep)
        print_merged(m, &made);
done:
    pl_version_clear(&made);
    pl_free_aligned(params);
    return status;
}

/* Makes every module that differs between the sources. The tag is begun anew for each
 * pass. */
static pl_status merge_all(merge_call *m, bool keep)
{
    m->n_merged = 0;
    pl_snapshot_clear(&m->tag);
    PL_CHECK(begin_merged_tag(m));
    for (size_t i = 0; i < m->sources[0].set.n; i++)
        PL_CHECK(merge_module(m, i, keep));
    if (m->n_merged > 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "all sources are the same versions, so there is nothing to merge");
}

static pl_status keep_merged_tag(merge_call *m)
{
    pl_store *store = NULL;
    pl_buf bytes = {0};
    pl_writers_close(&m->writers);
    PL_CHECK(pl_store_open(m->call->folder, PL_STORE_READ, &store));
    m->tag.sequence = pl_store_sequence(store);
    pl_snapshot_encode(&m->tag, &bytes);
    pl_status status = store_keep_tag(m->call, store, m->tag_name, &bytes);
    pl_buf_destroy(&bytes);
    pl_store_close(&store);
    PL_CHECK(status);
    if (!m->call->json)
        say("tag %s names %d merged and %zu other modules of %s", m->tag_name,
            m->n_merged, m->tag.n_items - (size_t)m->n_merged, m->tag.arm);
    return PL_OK;
}

/* ---- the verb ---- */
static pl_status open_merge(merge_call *m)
{
    const store_call *call = m->call;
    PL_CHECK(read_merge_options(m));
    PL_CHECK(store_check_folder(call));
    PL_CHECK(store_refuse_part(call->folder));
    PL_CHECK(run_placement(call->folder, &m->places));
    pl_status status = pl_writers_open(call->folder, &m->writers);
    PL_CHECK(status == PL_ERR_BUSY ? store_is_held(call) : status);
    m->view = pl_writers_view(m->writers);
    PL_CHECK(store_check_tag_name(m->view, m->tag_name));
    PL_CHECK(store_check_new_tag(call, m->view, m->tag_name));
    for (int i = 0; i < m->blend.n_sources; i++)
        PL_CHECK(read_merge_source(m->view, &m->sources[i]));
    return m->base.word ? read_merge_source(m->view, &m->base) : PL_OK;
}

pl_status store_merge(store_call *call)
{
    merge_call m = {.call = call};
    pl_status status = PL_OK;
    PL_TRY(open_merge(&m));
    PL_TRY(merge_all(&m, false));
    PL_TRY(merge_all(&m, true));
    PL_TRY(keep_merged_tag(&m));
done:
    for (int i = 0; i < PL_BLEND_SOURCES_MAX; i++)
        pl_free(m.sources[i].set.at);
    pl_free(m.base.set.at);
    pl_snapshot_clear(&m.tag);
    pl_writers_close(&m.writers);
    return status;
}
