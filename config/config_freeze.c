/* train.freeze: which modules of the mixture are frozen (get no new versions), and from
 * which phase on.
 *
 *   train.freeze=embed,4:L1.E0,4:head    embed from the beginning, two modules from
 *                                        phase 4 on
 *
 * A phase above 0 begins a chapter, because an arm's definition never changes
 * (job/chapters.c). A frozen module stays frozen in the next chapter: a module is
 * frozen if the module from which it descends was frozen when the previous chapter
 * ended. The name `none` ends the freezing of all modules. */
#include "config/settings.h"
#include <string.h>

typedef struct freeze_item {
    int64_t phase;
    char name[PL_NAME_MAX]; /* "embed", "L1", "L1.E0" or "none" */
} freeze_item;

static pl_status read_freeze(const config *c, freeze_item items[CONFIG_FREEZE_MAX],
                             int *n)
{
    char copy[PL_KEY_TEXT_MAX], *rest = copy;
    *n = 0;
    pl_copy_text(copy, sizeof copy, c->freeze);
    for (char *word; (word = strtok_r(rest, ", ", &rest));) {
        freeze_item one = {.phase = 0};
        const char *colon = strchr(word, ':'), *name = colon ? colon + 1 : word;
        bool good = *n < CONFIG_FREEZE_MAX && *name &&
                    pl_copy_text(one.name, sizeof one.name, name);
        if (good && colon) {
            word[colon - word] = '\0';
            good = pl_parse_int(word, &one.phase) == PL_OK && one.phase >= 0 &&
                   one.phase < CONFIG_PHASES_MAX;
        }
        if (!good || (*n > 0 && one.phase < items[*n - 1].phase))
            return pl_fail(PL_ERR_CONFIG,
                           "train.freeze `%s`: give at most %d modules, each with the "
                           "phase from which it is frozen, in the order of the phases, "
                           "such as embed,4:L1.E0; a module without a phase is frozen "
                           "from the beginning",
                           c->freeze, (int)CONFIG_FREEZE_MAX);
        items[(*n)++] = one;
    }
    /* Refuses `none` after a module for the same phase, which would not be frozen. */
    for (int i = 1; i < *n; i++)
        if (items[i].phase == items[i - 1].phase && strcmp(items[i].name, "none") == 0)
            return pl_fail(PL_ERR_CONFIG,
                           "train.freeze `%s`: `none` would end the freezing of `%s`, "
                           "which begins in the same phase %lld; leave one of them out",
                           c->freeze, items[i - 1].name, (long long)items[i].phase);
    return PL_OK;
}

pl_status config_freeze_phases(const config *c, int64_t phases[CONFIG_FREEZE_MAX],
                               int *n)
{
    freeze_item items[CONFIG_FREEZE_MAX];
    int n_items = 0;
    *n = 0;
    PL_CHECK(read_freeze(c, items, &n_items));
    for (int i = 0; i < n_items; i++)
        if (items[i].phase > 0 && (*n == 0 || phases[*n - 1] != items[i].phase))
            phases[(*n)++] = items[i].phase;
    return PL_OK;
}

static pl_status freeze_named(const pl_topology *t, const char *name, bool *frozen)
{
    char own[PL_NAME_MAX];
    bool found = false;
    for (int m = 0; m < pl_topology_n_modules(t); m++) {
        const pl_slot *slot = pl_topology_slot(t, pl_topology_module_slot(t, m));
        pl_topology_module_name(t, m, own);
        if (strcmp(own, name) != 0 && strcmp(slot->name, name) != 0)
            continue;
        frozen[m] = found = true;
    }
    if (found)
        return PL_OK;
    return pl_fail(PL_ERR_CONFIG,
                   "train.freeze: the mixture has no module `%s` in the phase in which "
                   "it is to be frozen; modules are named like embed, L1 (all of the "
                   "level), L1.E0, head",
                   name);
}

pl_status config_frozen(const config *c, int chapter, bool **frozen)
{
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    freeze_item items[CONFIG_FREEZE_MAX];
    pl_topology *t = NULL, *from = NULL;
    pl_shape shape;
    int n = 0, n_items = 0;
    pl_status status = PL_OK;
    *frozen = NULL;
    PL_CHECK(read_freeze(c, items, &n_items));
    PL_CHECK(config_shape(c, &shape));
    PL_CHECK(config_chapters(c, chapters, &n));
    for (int i = 0; i < n && i <= chapter; i++) {
        PL_TRY(pl_topology_create(&shape, &chapters[i].spec, &t));
        const int n_modules = pl_topology_n_modules(t);
        bool *now = pl_alloc((size_t)n_modules * sizeof *now);
        for (int m = 0; from && m < n_modules; m++)
            now[m] = (*frozen)[pl_topology_ancestor_module(t, &chapters[i].descent,
                                                           from, m)];
        pl_free(*frozen);
        *frozen = now;
        pl_topology_destroy(&from);
        from = t;
        t = NULL;
        /* what is frozen in the chapter before stays so, unless it is named */
        for (int k = 0; k < n_items; k++) {
            if (items[k].phase != chapters[i].begin)
                continue;
            if (strcmp(items[k].name, "none") == 0)
                memset(now, 0, (size_t)n_modules * sizeof *now);
            else
                PL_TRY(freeze_named(from, items[k].name, now));
        }
        char name[PL_NAME_MAX];
        for (int p = 0; p < pl_topology_n_paths(from); p++) {
            bool trains = false;
            for (int s = 0; s < pl_topology_n_slots(from); s++)
                trains = trains || !now[pl_topology_module_of_path(from, s, p)];
            pl_topology_path_name(from, p, name);
            if (!trains)
                PL_TRY(
                    pl_fail(PL_ERR_CONFIG,
                            "train.freeze: all modules of path %s are frozen, so this "
                            "path would train nothing; leave one of its modules out",
                            name));
        }
    }
done:
    pl_topology_destroy(&t);
    pl_topology_destroy(&from);
    if (status != PL_OK) {
        pl_free(*frozen);
        *frozen = NULL;
    }
    return status;
}
