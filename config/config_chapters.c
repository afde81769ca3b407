/* Lists the chapters that a configuration describes. router.em, topology.split,
 * topology.graft, train.freeze and train.more each begin new chapters. */
#include "config/settings.h"
#include <string.h>

/* Reads numbers of phases from 1 to `most`, separated by commas. `rising`: each number
 * must be greater than the previous one. If `levels` is not NULL, each number has a
 * colon and a text (a change of the topology) behind it, which `levels` gets. */
static bool read_phases(const char *text, bool rising, int64_t most,
                        int64_t phases[CONFIG_LIST_MAX],
                        config_text levels[CONFIG_LIST_MAX], int *n)
{
    char copy[PL_KEY_TEXT_MAX], *rest = copy;
    *n = 0;
    pl_copy_text(copy, sizeof copy, text);
    for (char *word; (word = strtok_r(rest, ", ", &rest));) {
        int64_t phase = 0, least = rising && *n > 0 ? phases[*n - 1] + 1 : 1;
        char *colon = levels ? strchr(word, ':') : NULL;
        if (*n == CONFIG_LIST_MAX || (levels && !colon))
            return false;
        if (colon) {
            *colon = '\0';
            pl_copy_text(levels[*n], sizeof levels[*n], colon + 1);
        }
        if (pl_parse_int(word, &phase) != PL_OK || phase < least || phase > most)
            return false;
        phases[(*n)++] = phase;
    }
    return true;
}

static pl_status read_more(const config *c, int64_t phases[CONFIG_LIST_MAX], int *n)
{
    if (read_phases(c->more, false, CONFIG_PHASES_MAX, phases, NULL, n))
        return PL_OK;
    return pl_fail(PL_ERR_CONFIG,
                   "train.more `%s`: give at most %d numbers of phases from 1 to %d",
                   c->more, (int)CONFIG_LIST_MAX, (int)CONFIG_PHASES_MAX);
}

/* Changes of the topology, in rising order of their phases. */
typedef struct change_list {
    int64_t phases[2 * CONFIG_LIST_MAX];
    config_text texts[2 * CONFIG_LIST_MAX]; /* "4x4", or "drop:L2.E1" */
    bool grafts[2 * CONFIG_LIST_MAX];
    int n, used;
} change_list;

static pl_status read_changes(const char *key, const char *text, const char *example,
                              change_list *out)
{
    int64_t phases[CONFIG_LIST_MAX];
    config_text texts[CONFIG_LIST_MAX];
    int n = 0;
    if (!read_phases(text, true, CONFIG_PHASES_MAX, phases, texts, &n))
        return pl_fail(PL_ERR_CONFIG,
                       "%s `%s`: give at most %d numbers of phases in rising order, "
                       "each with a colon and %s",
                       key, text, (int)CONFIG_LIST_MAX, example);
    for (int i = 0; i < n; i++) {
        int at = out->n++;
        for (; at > 0 && out->phases[at - 1] >= phases[i]; at--) {
            if (out->phases[at - 1] == phases[i])
                return pl_fail(PL_ERR_CONFIG,
                               "topology.split and topology.graft both name phase "
                               "%lld; change one of them by at least one phase",
                               (long long)phases[i]);
            out->phases[at] = out->phases[at - 1];
            out->grafts[at] = out->grafts[at - 1];
            memcpy(out->texts[at], out->texts[at - 1], sizeof out->texts[at]);
        }
        out->phases[at] = phases[i];
        out->grafts[at] = strcmp(key, "topology.graft") == 0;
        memcpy(out->texts[at], texts[i], sizeof texts[i]);
    }
    return PL_OK;
}

/* Fills in the next chapter, which begins after `begin` phases. If the next change of
 * the topology comes after exactly `begin` phases, the chapter makes this change. */
static pl_status add_chapter(const pl_shape *shape, change_list *changes, int64_t begin,
                             config_chapter *chapter)
{
    *chapter = (config_chapter){.begin = begin, .spec = chapter->spec};
    if (changes->used == changes->n || changes->phases[changes->used] != begin)
        return PL_OK;
    const int i = changes->used++;
    return changes->grafts[i] ? config_graft(shape, changes->texts[i], chapter)
                              : config_split(shape, changes->texts[i], chapter);
}

pl_status config_chapters(const config *c, config_chapter out[CONFIG_CHAPTERS_MAX],
                          int *n)
{
    /* the phases at which chapters begin, a list per key, and how many are used */
    int64_t em[CONFIG_LIST_MAX] = {0}, more[CONFIG_LIST_MAX] = {0};
    int64_t freezes[CONFIG_FREEZE_MAX] = {0};
    int n_em = 0, n_more = 0, n_freezes = 0, dealt = 0, frozen = 0;
    change_list changes = {.n = 0};
    int64_t end = c->phases;
    pl_shape shape;
    PL_CHECK(config_shape(c, &shape));
    PL_CHECK(read_more(c, more, &n_more));
    PL_CHECK(read_changes("topology.split", c->split,
                          "the modules per level, such as 4:4x4", &changes));
    PL_CHECK(read_changes("topology.graft", c->graft, "a change, such as 4:drop:L2.E1",
                          &changes));
    PL_CHECK(config_freeze_phases(c, freezes, &n_freezes));
    if (!read_phases(c->em, true, c->phases - 1, em, NULL, &n_em))
        return pl_fail(PL_ERR_CONFIG,
                       "router.em `%s`: give at most %d numbers of phases in rising "
                       "order, each from 1 and below train.phases %lld",
                       c->em, (int)CONFIG_LIST_MAX, (long long)c->phases);
    memset(out, 0, CONFIG_CHAPTERS_MAX * sizeof *out);
    pl_status status = config_spec(c, &out->spec);
    if (status != PL_OK)
        return pl_fail_in(status, "topology");
    /* the chapters that begin before train.phases are over */
    for (*n = 1;; ++*n) {
        int64_t deal = dealt < n_em ? em[dealt] : c->phases;
        int64_t change =
            changes.used < changes.n ? changes.phases[changes.used] : c->phases;
        int64_t freeze = frozen < n_freezes ? freezes[frozen] : c->phases;
        int64_t begin = deal < change ? deal : change;
        begin = freeze < begin ? freeze : begin;
        out[*n].spec = out[*n - 1].spec;
        if (begin >= c->phases)
            break;
        if (deal == change && deal == begin)
            return pl_fail(PL_ERR_CONFIG,
                           "router.em and topology.%s both name phase %lld; change "
                           "router.em by at least one phase",
                           changes.grafts[changes.used] ? "graft" : "split",
                           (long long)deal);
        PL_CHECK(add_chapter(&shape, &changes, begin, &out[*n]));
        out[*n].deals = begin == deal;
        dealt += begin == deal;
        frozen += begin == freeze;
    }
    for (int i = 0; i < n_more; i++) {
        out[*n].spec = out[*n - 1].spec;
        PL_CHECK(add_chapter(&shape, &changes, end, &out[*n]));
        out[(*n)++].more = true;
        frozen += frozen < n_freezes && freezes[frozen] == end;
        end += more[i];
    }
    for (int i = 0; i < *n; i++) {
        out[i].end = i + 1 < *n ? out[i + 1].begin : end;
        out[i].from = out[i].begin;
        if (out[i].more)
            out[i].from -= config_falling_phases(c, out[i].begin);
    }
    if (frozen < n_freezes)
        return pl_fail(
            PL_ERR_CONFIG,
            "train.freeze: phase %lld must be below train.phases %lld, or be "
            "the phase where a part of train.more begins",
            (long long)freezes[frozen], (long long)c->phases);
    if (changes.used == changes.n)
        return PL_OK;
    return pl_fail(
        PL_ERR_CONFIG,
        "topology.%s: phase %lld must be below train.phases %lld, or be the phase "
        "where a part of train.more begins",
        changes.grafts[changes.used] ? "graft" : "split",
        (long long)changes.phases[changes.used], (long long)c->phases);
}

int64_t config_decay_steps(const config *c, int64_t steps)
{
    return (int64_t)((double)steps * c->decay_share + 0.5);
}

int64_t config_falling_phases(const config *c, int64_t phases)
{
    return (config_decay_steps(c, phases * c->tau) + c->tau - 1) / c->tau;
}

int64_t config_all_phases(const config *c)
{
    int64_t phases[CONFIG_LIST_MAX], all = c->phases;
    int n = 0;
    if (read_more(c, phases, &n) == PL_OK)
        for (int i = 0; i < n; i++)
            all += phases[i];
    return all;
}
