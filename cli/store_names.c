/* Turns what a person types for a module, a version or an arm into module names and
 * version numbers (store_names.h). Names are looked up in a list of the store's
 * heads, which is read once per call. */
#include "cli/cli.h"
#include "cli/store_names.h"

#include <stdio.h>
#include <string.h>

/* ---- what there is ---- */
typedef struct name_list {
    char (*names)[PL_MODULE_NAME_MAX];
    uint64_t *heads;
    size_t count;
} name_list;

static pl_status add_name(void *context, const pl_version *version)
{
    name_list *list = context;
    list->names = pl_grow(list->names, (list->count + 1) * sizeof *list->names);
    list->heads = pl_grow(list->heads, (list->count + 1) * sizeof *list->heads);
    pl_copy_text(list->names[list->count], PL_MODULE_NAME_MAX, version->module);
    list->heads[list->count++] = version->number;
    return PL_OK;
}

static void free_names(name_list *list)
{
    pl_free(list->names);
    pl_free(list->heads);
}

static bool is_listed(const name_list *list, const char *name, uint64_t *head)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0) {
            *head = list->heads[i];
            return true;
        }
    return false;
}

const char *names_without_arm(const char *module)
{
    const char *slash = strchr(module, '/');
    return slash ? slash + 1 : module;
}

const char *names_nearest(char (*names)[PL_MODULE_NAME_MAX], size_t n, bool of_arms,
                          const char *asked)
{
    const char **forms = pl_alloc((n + 1) * sizeof *forms);
    bool whole = !of_arms || strchr(asked, '/');
    for (size_t i = 0; i < n; i++)
        forms[i] = whole ? names[i] : names_without_arm(names[i]);
    const char *near = pl_nearest(asked, forms, n);
    pl_free(forms);
    return near;
}

static pl_status no_such_module(const name_list *list, const char *asked)
{
    const char *near = names_nearest(list->names, list->count, true, asked);
    return near
               ? pl_fail(PL_ERR_NOT_FOUND, "there is no module %s; did you mean %s?",
                         asked, near)
               : pl_fail(PL_ERR_NOT_FOUND,
                         "there is no module %s; `pathloom store ls` lists all", asked);
}

/* Joins two parts of a name. Gives "" if the name is too long, because no module has
 * such a name. */
static void join_name(char out[PL_MODULE_NAME_MAX], const char *head, const char *tail)
{
    int used = snprintf(out, PL_MODULE_NAME_MAX, "%s%s", head, tail);
    if (used < 0 || used >= PL_MODULE_NAME_MAX)
        out[0] = 0;
}

/* Finds the full name of a module without arm: in the newest chapter of the mixture
 * that has it, else in the only arm that has it. */
static pl_status complete_name(const name_list *list, const char *asked,
                               const char *full, char out[PL_MODULE_NAME_MAX])
{
    const char *found = NULL, *second = NULL;
    int newest = -1;
    for (size_t i = 0; i < list->count; i++) {
        char arm[PL_MODULE_NAME_MAX];
        pl_arm_of_module(list->names[i], arm, sizeof arm);
        if (strcmp(names_without_arm(list->names[i]), full) == 0 &&
            pl_arm_chapter(arm) > newest) {
            newest = pl_arm_chapter(arm);
            pl_copy_text(out, PL_MODULE_NAME_MAX, list->names[i]);
        }
    }
    if (newest >= 0)
        return PL_OK;
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(names_without_arm(list->names[i]), full) == 0) {
            second = found;
            found = list->names[i];
        }
    if (second)
        return pl_fail(PL_ERR_USAGE, "several arms have a module %s: say %s or %s",
                       asked, second, found);
    if (!found)
        return no_such_module(list, asked);
    pl_copy_text(out, PL_MODULE_NAME_MAX, found);
    return PL_OK;
}

/* Finds the full name of the module that the user calls "L1.E0", "embed" or
 * "mix/embed". */
static pl_status resolve_in(const name_list *list, const char *asked,
                            char out[PL_MODULE_NAME_MAX])
{
    uint64_t head;
    char full[PL_MODULE_NAME_MAX];
    join_name(full, asked, strchr(asked, '.') ? "" : ".E0");
    pl_copy_text(out, PL_MODULE_NAME_MAX, is_listed(list, asked, &head) ? asked : full);
    if (is_listed(list, out, &head))
        return PL_OK;
    if (strchr(asked, '/'))
        return no_such_module(list, asked);
    return complete_name(list, asked, full, out);
}

/* ---- versions ---- */
/* Splits "name@at"; `at` is NULL if there is no @. */
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

static bool parse_number(const char *text, uint64_t *out)
{
    int64_t number = 0;
    if (pl_parse_int(text, &number) != PL_OK || number < 0)
        return false;
    *out = (uint64_t)number;
    return true;
}

/* Finds a version by its number, or by a tag that contains the module or one that was
 * merged for its place. */
static pl_status version_at(pl_store *store, module_at *of, const char *at)
{
    pl_snapshot tag;
    if (parse_number(at, &of->number))
        return PL_OK;
    pl_status status = pl_store_get_tag(store, at, &tag);
    if (status == PL_ERR_NOT_FOUND)
        return pl_fail(PL_ERR_USAGE, "`%s` is no version number and no tag", at);
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

static pl_status module_in(pl_store *store, const name_list *list, const char *asked,
                           module_at *out, bool *versioned)
{
    char name[PL_MODULE_NAME_MAX];
    const char *at;
    PL_CHECK(split(asked, name, &at));
    PL_CHECK(resolve_in(list, name, out->module));
    *versioned = at;
    if (at)
        return version_at(store, out, at);
    (void)is_listed(list, out->module, &out->number);
    return PL_OK;
}

pl_status names_module(pl_store *store, const char *asked, module_at *out,
                       bool *versioned)
{
    name_list list = {0};
    *out = (module_at){.number = 0};
    pl_status status = pl_store_each_head(store, "", add_name, &list);
    if (status == PL_OK)
        status = module_in(store, &list, asked, out, versioned);
    free_names(&list);
    return status;
}

/* ---- sets ---- */
static void add_module_version(module_set *set, const char *module, uint64_t number)
{
    set->at = pl_grow(set->at, (set->n + 1) * sizeof *set->at);
    pl_copy_text(set->at[set->n].module, PL_MODULE_NAME_MAX, module);
    set->at[set->n++].number = number;
}

static bool is_of_arm(const char *module, const char *arm)
{
    return pl_starts_with(module, arm) && module[strlen(arm)] == '/';
}

static bool has_arm(const name_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_of_arm(list->names[i], name))
            return true;
    return false;
}

/* What a word names, if tags are ignored. A name that modules of several arms have
 * counts as a module, too. */
static name_kind kind_in(const name_list *list, const char *word)
{
    char module[PL_MODULE_NAME_MAX];
    if (has_arm(list, word))
        return NAME_ARM;
    return resolve_in(list, word, module) == PL_ERR_NOT_FOUND ? NAME_NONE : NAME_MODULE;
}

pl_status names_kind(pl_store *store, const char *word, name_kind *out)
{
    name_list list = {0};
    *out = NAME_NONE;
    pl_status status = pl_store_each_head(store, "", add_name, &list);
    if (status == PL_OK)
        *out = kind_in(&list, word);
    free_names(&list);
    return status;
}

void names_warn_of_tag(pl_store *store, const char *word, name_kind meant)
{
    pl_snapshot tag;
    if (pl_store_get_tag(store, word, &tag) != PL_OK)
        return;
    pl_snapshot_clear(&tag);
    pl_log(PL_LOG_WARN, "store.name",
           "name=%s meant=%s not=tag remedy=\"%s@%s is what the tag names\"", word,
           meant == NAME_ARM ? "arm" : "module", word, word);
}

static pl_status set_versions(pl_store *store, const char *at, module_set *out)
{
    out->versioned = true;
    for (size_t i = 0; i < out->n; i++)
        PL_CHECK(version_at(store, &out->at[i], at));
    return PL_OK;
}

static pl_status from_tag(pl_store *store, const char *name, module_set *out)
{
    pl_snapshot tag;
    PL_CHECK(pl_store_get_tag(store, name, &tag));
    for (size_t i = 0; i < tag.n_items; i++)
        add_module_version(out, tag.items[i].module, tag.items[i].number);
    out->versioned = true;
    pl_snapshot_clear(&tag);
    return PL_OK;
}

static pl_status set_in(pl_store *store, const name_list *list, const char *asked,
                        module_set *out)
{
    char name[PL_MODULE_NAME_MAX];
    const char *at;
    module_at one;
    PL_CHECK(split(asked, name, &at));
    name_kind kind = kind_in(list, name);
    if (!at && kind == NAME_NONE) {
        pl_status status = from_tag(store, name, out);
        if (status != PL_ERR_NOT_FOUND)
            return status;
    } else if (!at)
        names_warn_of_tag(store, name, kind);
    if (kind == NAME_ARM) {
        /* Adds every module of the arm, with its newest version. */
        for (size_t i = 0; i < list->count; i++)
            if (is_of_arm(list->names[i], name))
                add_module_version(out, list->names[i], list->heads[i]);
        return at ? set_versions(store, at, out) : PL_OK;
    }
    PL_CHECK(module_in(store, list, asked, &one, &out->versioned));
    add_module_version(out, one.module, one.number);
    return PL_OK;
}

pl_status names_set(pl_store *store, const char *asked, module_set *out)
{
    name_list list = {0};
    memset(out, 0, sizeof *out);
    pl_status status = pl_store_each_head(store, "", add_name, &list);
    if (status == PL_OK)
        status = set_in(store, &list, asked, out);
    free_names(&list);
    if (status != PL_OK) {
        pl_free(out->at);
        memset(out, 0, sizeof *out);
    }
    return status;
}

const module_at *names_find(const module_set *set, const char *module)
{
    for (size_t i = 0; i < set->n; i++)
        if (strcmp(set->at[i].module, module) == 0)
            return &set->at[i];
    return NULL;
}
