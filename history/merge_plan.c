/* Makes modules from the modules of several sources (merge_plan.h). The steps:
 *
 *   1. The user's words give a set of versions per source.
 *   2. Each module of the first source gets a recipe.
 *   3. The version of each recipe is made once without being stored. So an error
 *      (modules that cannot be merged) is found before anything is written.
 *   4. The versions are made again and committed under new names (merged.h).
 *
 * After that the caller writes the tag. If the command is killed, the user can give it
 * again: versions that were already committed are not committed a second time. */
#include "history/merge_plan.h"
#include "history/phase_tag.h"
#include <stdio.h>
#include <string.h>

static pl_status read_merge_source(pl_store *store, pl_merge_source *s)
{
    char name[PL_MODULE_NAME_MAX], arm_name[PL_ARM_NAME_MAX];
    pl_name_kind kind;
    pl_arm arm;
    pl_topology *t = NULL;
    /* A path's modules may be the source: "p01", "mix/p01", "p01@3", "p01@TAG". */
    const char *at = strchr(s->word, '@');
    snprintf(name, sizeof name, "%.*s", (int)strcspn(s->word, "@"), s->word);
    const char *path_name = pl_arm_of_module(name, arm_name, sizeof arm_name);
    if (!arm_name[0])
        pl_newest_chapter(store, arm_name);
    pl_status status = pl_read_arm(store, arm_name, &arm, &t);
    if (status == PL_ERR_NOT_FOUND)
        status = PL_OK; /* the word is not the name of a path, and t is NULL */
    const int path = status == PL_OK && t ? pl_topology_find_path(t, path_name) : -1;
    const int n_slots = path >= 0 ? pl_topology_n_slots(t) : 0;
    for (int slot = 0; status == PL_OK && slot < n_slots; slot++) {
        char module[PL_MODULE_NAME_MAX], asked[2 * PL_MODULE_NAME_MAX];
        pl_module_at one;
        pl_arm_module_name(&arm, t, pl_topology_module_of_path(t, slot, path), module);
        snprintf(asked, sizeof asked, "%s%.90s", module, at ? at : "");
        status = pl_names_module(store, asked, &one);
        if (status == PL_OK)
            pl_module_set_add(&s->set, one.module, one.number);
    }
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    PL_CHECK(status);
    s->ordered = s->set.n > 0;
    if (s->ordered)
        return PL_OK;
    PL_CHECK(pl_names_kind(store, name, &kind));
    s->ordered = kind == PL_NAME_MODULE;
    return pl_names_set(store, s->word, &s->set);
}

/* Finds the module of source `s` that corresponds to module `i` of the first source. */
static pl_status find_counterpart(const pl_merge_plan *m, const pl_merge_source *s,
                                  size_t i, const pl_module_at **out)
{
    const pl_merge_source *first = &m->sources[0];
    *out = NULL;
    if (s == first ||
        (first->ordered && s->ordered && i < s->set.n && first->set.n == s->set.n))
        *out = &s->set.at[i];
    else if (!s->ordered && (!first->ordered || s == &m->base))
        *out = pl_module_set_find(&s->set, first->set.at[i].module);
    if (*out)
        return PL_OK;
    return pl_fail(
        PL_ERR_USAGE,
        "%s has no module that corresponds to %s of %s; sources must be modules, or "
        "paths with the same slots, or arms and tags with the same modules",
        s->word, first->set.at[i].module, first->word);
}

static bool is_same_source(const pl_module_at *a, const pl_module_at *b)
{
    return a->number == b->number && strcmp(a->module, b->module) == 0;
}

/* Makes the version for module `i` of the first source, and puts it into the tag in
 * place of this module. If `keep`, also commits and reports it. */
static pl_status merge_module(pl_merge_plan *m, size_t i, bool keep)
{
    pl_recipe recipe = {.blend = m->blend};
    const pl_module_at *was = &m->sources[0].set.at[i], *one;
    char name[PL_MODULE_NAME_MAX];
    pl_version made;
    float *params = NULL;
    size_t at = 0;
    pl_status status = PL_OK;
    /* No new version is needed if all sources are the same version and, for a method
     * with a base, the base is that version, too. (With another base, the method scales
     * the difference from the base, so the result is a new version.) */
    bool same = m->blend.n_sources > 1 || m->base.word;
    for (int s = 0; s < m->blend.n_sources; s++) {
        PL_CHECK(find_counterpart(m, &m->sources[s], i, &one));
        recipe.sources[s] = *one;
        same = same && is_same_source(one, &recipe.sources[0]);
    }
    if (m->base.word) {
        PL_CHECK(find_counterpart(m, &m->base, i, &one));
        recipe.base = *one;
        same = same && is_same_source(one, &recipe.sources[0]);
    }
    if (same)
        return PL_OK;
    PL_CHECK(pl_merged_name(m->tag_name, pl_module_place(was->module), name));
    PL_TRY(pl_merged_make(m->view, name, &recipe, &made, &params));
    if (keep)
        PL_TRY(pl_merged_keep(pl_writers_part(m->writers, pl_names_part(m->view, name)),
                              &made, params));
    while (at < m->tag.n_items && strcmp(m->tag.items[at].module, was->module) != 0)
        at++;
    if (at == m->tag.n_items)
        PL_TRY(
            pl_fail(PL_ERR_USAGE, "arm %s has no module %s", m->tag.arm, was->module));
    pl_snapshot_item *item = &m->tag.items[at];
    pl_copy_text(item->module, sizeof item->module, made.module);
    item->number = made.number;
    item->params = made.params;
    m->n_merged++;
    if (keep)
        m->made(m->context, &made);
done:
    pl_version_clear(&made);
    pl_free(params);
    return status;
}

/* Begins the tag, then makes a version for every module that differs between sources.
 * The tag names all modules of the first source's arm. Modules of the first source have
 * the versions of that source; all other modules of the arm have their newest versions.
 */
static pl_status merge_all(pl_merge_plan *m, bool keep)
{
    const pl_merge_source *first = &m->sources[0];
    const char *at = strchr(first->word, '@'), *module = first->set.at[0].module;
    char name[PL_MODULE_NAME_MAX];
    pl_snapshot tag;
    m->n_merged = 0;
    pl_snapshot_clear(&m->tag);
    pl_copy_text(m->tag.name, sizeof m->tag.name, m->tag_name);
    /* A tag, and merged modules that were made for it, belong to the tag's arm. */
    bool found = pl_store_get_tag(m->view, at ? at + 1 : first->word, &tag) == PL_OK;
    pl_arm_of_module(module, name, sizeof name);
    if (!found && pl_merged_tag(module, name)) {
        found = pl_store_get_tag(m->view, name, &tag) == PL_OK;
        if (!found)
            return pl_fail(
                PL_ERR_USAGE,
                "%s was made for tag %s, which no longer exists, so the arm of "
                "this source is not known; put another source first",
                module, name);
    }
    pl_copy_text(m->tag.arm, PL_ARM_NAME_MAX, found ? tag.arm : name);
    if (found)
        pl_snapshot_clear(&tag);
    m->tag.phase = -1;
    if (!pl_copy_text(m->tag.note, sizeof m->tag.note, m->note ? m->note : ""))
        return pl_fail(PL_ERR_USAGE,
                       "the note is too long; it may have at most %d bytes",
                       PL_TEXT_MAX - 1);
    PL_CHECK(pl_tag_fill(m->view, &m->tag));
    for (size_t i = 0; i < first->set.n; i++) {
        pl_version v;
        const pl_module_at *one = &first->set.at[i];
        for (size_t k = 0; k < m->tag.n_items; k++) {
            pl_snapshot_item *item = &m->tag.items[k];
            if (strcmp(pl_module_place(item->module), pl_module_place(one->module)) !=
                0)
                continue;
            PL_CHECK(pl_store_get_version(m->view, one->module, one->number, &v));
            pl_copy_text(item->module, sizeof item->module, one->module);
            item->number = one->number;
            item->params = v.params;
            pl_version_clear(&v);
        }
    }
    for (size_t i = 0; i < first->set.n; i++)
        PL_CHECK(merge_module(m, i, keep));
    if (m->n_merged > 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "all sources are the same versions, so there is nothing to merge");
}

pl_status pl_merge_plan_run(pl_merge_plan *m)
{
    for (int i = 0; i < m->blend.n_sources; i++)
        PL_CHECK(read_merge_source(m->view, &m->sources[i]));
    if (m->base.word)
        PL_CHECK(read_merge_source(m->view, &m->base));
    PL_CHECK(merge_all(m, false));
    return merge_all(m, true);
}

void pl_merge_plan_clear(pl_merge_plan *m)
{
    for (int i = 0; i < PL_BLEND_SOURCES_MAX; i++)
        pl_free(m->sources[i].set.at);
    pl_free(m->base.set.at);
    pl_snapshot_clear(&m->tag);
}
