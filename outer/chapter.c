/* The mixture's chapters: names, and modules' parents in the previous chapter. */
#include "outer/outer.h"
#include <stdio.h>

int pl_arm_chapter(const char *name)
{
    char again[PL_ARM_NAME_MAX];
    int chapter = 0;
    if (strcmp(name, "mix") == 0)
        return 0;
    if (sscanf(name, "mix~%4d", &chapter) != 1 || chapter < 1 ||
        chapter >= PL_CHAPTERS_MAX)
        return -1;
    pl_chapter_name(chapter, again);
    return strcmp(name, again) == 0 ? chapter : -1;
}

char *pl_chapter_name(int chapter, char out[PL_ARM_NAME_MAX])
{
    if (chapter == 0)
        pl_copy_text(out, PL_ARM_NAME_MAX, "mix");
    else
        snprintf(out, PL_ARM_NAME_MAX, "mix~%d", chapter);
    return out;
}

char *pl_newest_chapter(pl_store *store, char out[PL_ARM_NAME_MAX])
{
    char next[PL_ARM_NAME_MAX], name[PL_MODULE_NAME_MAX];
    pl_object object;
    pl_chapter_name(0, out);
    for (int chapter = 1; chapter < PL_CHAPTERS_MAX; chapter++) {
        pl_chapter_name(chapter, next);
        snprintf(name, sizeof name, "arm/%s", next);
        if (pl_store_get_object(store, name, &object) != PL_OK)
            return out;
        pl_copy_text(out, PL_ARM_NAME_MAX, next);
    }
    return out;
}

char *pl_scoring_name(int chapter, char out[PL_ARM_NAME_MAX])
{
    snprintf(out, PL_ARM_NAME_MAX, "score~%d", chapter);
    return out;
}

char *pl_features_name(int chapter, char out[PL_ARM_NAME_MAX])
{
    snprintf(out, PL_ARM_NAME_MAX, "features~%d", chapter);
    return out;
}

/* Two consecutive chapters of the mixture. */
typedef struct chapter_pair {
    pl_arm before, arm;
    pl_topology *from, *to;
} chapter_pair;

/* Reads a chapter and the one before. ERR_NOT_FOUND: the store lacks the chapter. */
static pl_status open_pair(pl_store *store, int chapter, chapter_pair *out)
{
    char name[PL_ARM_NAME_MAX];
    memset(out, 0, sizeof *out);
    pl_chapter_name(chapter, name);
    PL_CHECK(pl_read_arm(store, name, &out->arm, &out->to));
    pl_chapter_name(chapter - 1, name);
    PL_CHECK(pl_read_arm(store, name, &out->before, &out->from));
    if (pl_topology_descends(out->to, &out->arm.descent, out->from))
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "the store is damaged: the modules of arm %s do not descend from "
                   "those of arm %s, the chapter before it",
                   out->arm.name, out->before.name);
}

static void close_pair(chapter_pair *pair)
{
    pl_topology_destroy(&pair->to);
    pl_topology_destroy(&pair->from);
    pl_arm_clear(&pair->arm);
    pl_arm_clear(&pair->before);
}

pl_status pl_module_before(pl_store *store, const char *module,
                           char out[PL_MODULE_NAME_MAX])
{
    char arm_name[PL_ARM_NAME_MAX];
    const char *place = pl_arm_of_module(module, arm_name, sizeof arm_name);
    chapter_pair pair;
    out[0] = '\0';
    const int chapter = pl_arm_chapter(arm_name);
    if (chapter <= 0)
        return PL_OK;
    pl_status status = open_pair(store, chapter, &pair);
    int m = status == PL_OK ? pl_topology_find_module(pair.to, place) : -1;
    if (m >= 0)
        pl_arm_module_name(
            &pair.before, pair.from,
            pl_topology_ancestor_module(pair.to, &pair.arm.descent, pair.from, m), out);
    close_pair(&pair);
    return status;
}

pl_status pl_module_end(pl_store *store, const char *module, char out[PL_ARM_NAME_MAX])
{
    char arm_name[PL_ARM_NAME_MAX];
    const char *place = pl_arm_of_module(module, arm_name, sizeof arm_name);
    chapter_pair pair;
    out[0] = '\0';
    const int chapter = pl_arm_chapter(arm_name);
    if (chapter < 0)
        return PL_OK;
    pl_status status = open_pair(store, chapter + 1, &pair);
    int wanted = status == PL_OK ? pl_topology_find_module(pair.from, place) : -1;
    bool goes_on = wanted < 0;
    for (int m = 0; !goes_on && m < pl_topology_n_modules(pair.to); m++)
        goes_on = pl_topology_ancestor_module(pair.to, &pair.arm.descent, pair.from,
                                              m) == wanted;
    if (!goes_on)
        pl_copy_text(out, PL_ARM_NAME_MAX, pair.arm.name);
    close_pair(&pair);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}
