/* Turns the words by which a user names modules, versions and arms into module names
 * and version numbers (names.h). Names are searched in a list of the newest versions of
 * all modules, which is read once per call. */
#include "history/names.h"
#include "outer/outer.h"
#include <stdio.h>
#include <string.h>

/* ---- sets of modules ---- */
void pl_module_set_add(pl_module_set *set, const char *module, uint64_t number)
{
    set->at = pl_grow(set->at, (set->n + 1) * sizeof *set->at);
    pl_copy_text(set->at[set->n].module, PL_MODULE_NAME_MAX, module);
    set->at[set->n++].number = number;
}

const char *pl_module_place(const char *module)
{
    const char *slash = strchr(module, '/');
    return slash ? slash + 1 : module;
}

static const pl_module_at *find_named(const pl_module_set *set, const char *module)
{
    for (size_t i = 0; i < set->n; i++)
        if (strcmp(set->at[i].module, module) == 0)
            return &set->at[i];
    return NULL;
}

const pl_module_at *pl_module_set_find(const pl_module_set *set, const char *module)
{
    const pl_module_at *found = find_named(set, module);
    const char *place = pl_module_place(module);
    for (size_t i = 0; i < set->n && !found; i++)
        if (strcmp(pl_module_place(set->at[i].module), place) == 0)
            found = &set->at[i];
    return found;
}

const char *pl_module_set_nearest(const pl_module_set *set, bool of_arms,
                                  const char *asked)
{
    const char **forms = pl_alloc((set->n + 1) * sizeof *forms);
    bool whole = !of_arms || strchr(asked, '/');
    for (size_t i = 0; i < set->n; i++)
        forms[i] = whole ? set->at[i].module : pl_module_place(set->at[i].module);
    const char *near = pl_nearest(asked, forms, set->n);
    pl_free(forms);
    return near;
}

/* ---- finding a module in the list of all modules ---- */
static pl_status add_head(void *context, const pl_version *head)
{
    pl_module_set_add(context, head->module, head->number);
    return PL_OK;
}

static pl_status no_such_module(const pl_module_set *list, const char *asked)
{
    const char *near = pl_module_set_nearest(list, true, asked);
    return near
               ? pl_fail(PL_ERR_NOT_FOUND, "there is no module %s; did you mean %s?",
                         asked, near)
               : pl_fail(PL_ERR_NOT_FOUND,
                         "there is no module %s; `pathloom store ls` lists all modules",
                         asked);
}

/* Finds the full name of what the user calls "L1.E0", "embed" or "mix/embed". */
static pl_status resolve_in(const pl_module_set *list, const char *asked,
                            char out[PL_MODULE_NAME_MAX])
{
    char full[PL_MODULE_NAME_MAX];
    const int used =
        snprintf(full, sizeof full, "%s%s", asked, strchr(asked, '.') ? "" : ".E0");
    if (used < 0 || used >= PL_MODULE_NAME_MAX)
        full[0] = 0; /* "" is not the name of a module */
    pl_copy_text(out, PL_MODULE_NAME_MAX, find_named(list, asked) ? asked : full);
    if (find_named(list, out))
        return PL_OK;
    if (strchr(asked, '/'))
        return no_such_module(list, asked);
    /* The user named the module without an arm. If chapters of the mixture have such a
     * module, the newest of these chapters is chosen. Otherwise exactly one arm must
     * have such a module. */
    const char *found = NULL, *second = NULL;
    int newest = -1;
    for (size_t i = 0; i < list->n; i++) {
        char arm[PL_MODULE_NAME_MAX];
        pl_arm_of_module(list->at[i].module, arm, sizeof arm);
        if (strcmp(pl_module_place(list->at[i].module), full) == 0 &&
            pl_arm_chapter(arm) > newest) {
            newest = pl_arm_chapter(arm);
            pl_copy_text(out, PL_MODULE_NAME_MAX, list->at[i].module);
        }
    }
    if (newest >= 0)
        return PL_OK;
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(pl_module_place(list->at[i].module), full) == 0) {
            second = found;
            found = list->at[i].module;
        }
    if (second)
        return pl_fail(PL_ERR_USAGE,
                       "several arms have a module %s: give its full name, %s or %s",
                       asked, second, found);
    if (!found)
        return no_such_module(list, asked);
    pl_copy_text(out, PL_MODULE_NAME_MAX, found);
    return PL_OK;
}

/* ---- names with a version ---- */
/* Splits "name@at". `at` becomes NULL if there is no @. */
static pl_status split(const char *asked, char name[PL_MODULE_NAME_MAX],
                       const char **at)
{
    const char *sign = strchr(asked, '@');
    size_t len = sign ? (size_t)(sign - asked) : strlen(asked);
    if (len >= PL_MODULE_NAME_MAX)
        return pl_fail(PL_ERR_USAGE, "`%.40s...` is too long for a module's name",
                       asked);
    memcpy(name, asked, len);
    name[len] = 0;
    *at = sign ? sign + 1 : NULL;
    return PL_OK;
}

/* Finds a version of a module by its number or by a tag. The tag must name a version of
 * the module, or of a merged module with the same place (name without arm). */
static pl_status version_at(pl_store *store, pl_module_at *of, const char *at)
{
    pl_snapshot tag;
    int64_t number = 0;
    if (pl_parse_int(at, &number) == PL_OK && number >= 0) {
        of->number = (uint64_t)number;
        return PL_OK;
    }
    pl_status status = pl_store_get_tag(store, at, &tag);
    if (status == PL_ERR_NOT_FOUND)
        return pl_fail(PL_ERR_USAGE, "`%s` is neither a version number nor a tag", at);
    PL_CHECK(status);
    const pl_snapshot_item *item = pl_snapshot_place(&tag, of->module);
    if (item) {
        pl_copy_text(of->module, sizeof of->module, item->module);
        of->number = item->number;
    } else
        status = pl_fail(PL_ERR_NOT_FOUND, "tag %s has no module %s", at, of->module);
    pl_snapshot_clear(&tag);
    return status;
}

static pl_status module_in(pl_store *store, const pl_module_set *list,
                           const char *asked, pl_module_at *out)
{
    char name[PL_MODULE_NAME_MAX];
    const char *at;
    PL_CHECK(split(asked, name, &at));
    PL_CHECK(resolve_in(list, name, out->module));
    if (at)
        return version_at(store, out, at);
    *out = *find_named(list, out->module);
    return PL_OK;
}

pl_status pl_names_module(pl_store *store, const char *asked, pl_module_at *out)
{
    pl_module_set list = {0};
    *out = (pl_module_at){.number = 0};
    pl_status status = pl_store_each_head(store, "", add_head, &list);
    if (status == PL_OK)
        status = module_in(store, &list, asked, out);
    pl_free(list.at);
    return status;
}

/* ---- sets of versions ---- */
static bool is_of_arm(const char *module, const char *arm)
{
    return pl_starts_with(module, arm) && module[strlen(arm)] == '/';
}

/* Returns whether a word names a module, an arm or neither; tags are not considered. A
 * name without an arm also counts as a module if several arms have such a module. */
static pl_name_kind kind_in(const pl_module_set *list, const char *word)
{
    char module[PL_MODULE_NAME_MAX];
    for (size_t i = 0; i < list->n; i++)
        if (is_of_arm(list->at[i].module, word))
            return PL_NAME_ARM;
    return resolve_in(list, word, module) == PL_ERR_NOT_FOUND ? PL_NAME_NONE
                                                              : PL_NAME_MODULE;
}

pl_status pl_names_kind(pl_store *store, const char *word, pl_name_kind *out)
{
    pl_module_set list = {0};
    *out = PL_NAME_NONE;
    pl_status status = pl_store_each_head(store, "", add_head, &list);
    if (status == PL_OK)
        *out = kind_in(&list, word);
    pl_free(list.at);
    return status;
}

void pl_names_warn_of_tag(pl_store *store, const char *word, pl_name_kind meant)
{
    pl_snapshot tag;
    if (pl_store_get_tag(store, word, &tag) != PL_OK)
        return;
    pl_snapshot_clear(&tag);
    pl_log(PL_LOG_WARN, "store.name",
           "name=%s meant=%s not=tag remedy=\"%s@%s is what the tag names\"", word,
           meant == PL_NAME_ARM ? "arm" : "module", word, word);
}

pl_status pl_names_set(pl_store *store, const char *asked, pl_module_set *out)
{
    char name[PL_MODULE_NAME_MAX];
    const char *at;
    pl_module_at one;
    pl_snapshot tag;
    pl_module_set list = {0};
    pl_status status = PL_OK;
    memset(out, 0, sizeof *out);
    PL_TRY(pl_store_each_head(store, "", add_head, &list));
    PL_TRY(split(asked, name, &at));
    const pl_name_kind kind = kind_in(&list, name);
    if (!at && kind == PL_NAME_NONE) {
        status = pl_store_get_tag(store, name, &tag);
        for (size_t i = 0; status == PL_OK && i < tag.n_items; i++)
            pl_module_set_add(out, tag.items[i].module, tag.items[i].number);
        if (status == PL_OK)
            pl_snapshot_clear(&tag);
        if (status != PL_ERR_NOT_FOUND)
            goto done;
    } else if (!at)
        pl_names_warn_of_tag(store, name, kind);
    if (kind == PL_NAME_ARM) {
        /* every module of the arm, at its newest version or `at` */
        for (size_t i = 0; i < list.n; i++)
            if (is_of_arm(list.at[i].module, name))
                pl_module_set_add(out, list.at[i].module, list.at[i].number);
        for (size_t i = 0; at && i < out->n; i++)
            PL_TRY(version_at(store, &out->at[i], at));
    } else {
        PL_TRY(module_in(store, &list, asked, &one));
        pl_module_set_add(out, one.module, one.number);
    }
done:
    pl_free(list.at);
    if (status != PL_OK) {
        pl_free(out->at);
        memset(out, 0, sizeof *out);
    }
    return status;
}

int pl_names_part(pl_store *store, const char *name)
{
    const int part = pl_store_part_of(store, name);
    return part >= 0 ? part : pl_home_of(name, pl_store_n_parts(store));
}
