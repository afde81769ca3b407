/* Binary search over the phases of the mixture (bisect.h).
 *
 * The search keeps two phases, the good end and the bad end. The limit is the middle
 * between the bits per byte of the first good end and of the first bad end. Invariant:
 * at the good end the text has fewer bits per byte than the limit, and at the bad end
 * it does not. So the search ends at two neighbouring phases between which the text
 * became worse, even if the curve rises and falls several times. All evaluations use
 * the same documents. Each document is scored by the path that `generate` would choose
 * for it. */
#include "job/bisect.h"

#include <math.h>

/* Number of phases from which the good end is chosen if the user does not give it. */
enum { PROBES = 4 };

typedef struct bisection {
    pl_run *r;
    pl_store *store;
    const bisect_wish *wish;
    bisect_fn fn;
    void *context;
    char arm_name[PL_ARM_NAME_MAX];
    pl_arm arm;
    pl_topology *topology;
    int64_t *phases; /* [n] ascending: phases that have all their parameters */
    char *told; /* [n] the verdict that was reported for the phase: 1 good, 2 worse */
    size_t n;
} bisection;

/* One phase with its evaluation. */
typedef struct trial {
    size_t index; /* index of the phase in bisection.phases */
    double bits;
    evaluation e;
} trial;

static pl_status fill_versions(const bisection *b, int64_t phase, pl_snapshot *out)
{
    *out = (pl_snapshot){.phase = phase};
    pl_copy_text(out->arm, sizeof out->arm, b->arm_name);
    return pl_tag_fill(b->store, out);
}

/* Lists the phases that the search may use: those from wish->from to wish->to whose
 * parameters are all still in the store. */
static pl_status list_available(bisection *b)
{
    int64_t newest = 0;
    /* This call fails if the arm's versions do not belong to phases. */
    PL_CHECK(pl_tag_phase(b->store, b->arm_name, "0", &newest));
    const int64_t from = b->wish->from < 0 ? 0 : b->wish->from;
    int64_t to = b->arm.inner.phases;
    if (b->wish->to >= 0 && b->wish->to < to)
        to = b->wish->to;
    b->phases = pl_alloc((size_t)(b->arm.inner.phases + 1) * sizeof *b->phases);
    b->told = pl_alloc((size_t)b->arm.inner.phases + 1);
    for (int64_t phase = from; phase <= to; phase++) {
        pl_snapshot versions;
        pl_status status = fill_versions(b, phase, &versions);
        pl_snapshot_clear(&versions);
        if (status == PL_OK)
            b->phases[b->n++] = phase;
        else if (status != PL_ERR_NOT_FOUND)
            return status;
    }
    if (b->n >= 2)
        return PL_OK;
    return pl_fail(PL_ERR_NOT_FOUND,
                   "the store has all parameters of fewer than two phases of %s from "
                   "%lld to %lld; give a wider range, or keep more versions in later "
                   "runs (`pathloom store gc --keep N`)",
                   b->arm_name, (long long)from, (long long)to);
}

static pl_status try_phase(bisection *b, size_t index, trial *out)
{
    pl_snapshot versions;
    *out = (trial){.index = index};
    pl_status status = fill_versions(b, b->phases[index], &versions);
    const evaluation_wish wish = {.text = b->wish->text,
                                  .versions = &versions,
                                  .domain = b->wish->domain,
                                  .only_mixture = true};
    if (status == PL_OK)
        status = evaluate(b->r, b->store, &wish, &out->e);
    if (status == PL_OK)
        out->bits = out->e.rows[out->e.answer].bits;
    if (status == PL_OK && !isfinite(out->bits))
        status = pl_fail(PL_ERR_DATA, "the run's tokenizer does not know parts of this "
                                      "text, so its bits per byte are not known; give "
                                      "a text (--on) that it knows");
    out->e.wish.versions = NULL;
    pl_snapshot_clear(&versions);
    return status;
}

static void report_trial(const bisection *b, const trial *t, bool worse)
{
    const bisect_step step = {b->phases[t->index], t->bits, worse};
    if (b->told[t->index] != 1 + worse)
        b->fn(b->context, &step);
    b->told[t->index] = (char)(1 + worse);
}

static pl_status list_versions(const bisection *b, const trial *good, const trial *bad,
                               pl_snapshot *out)
{
    pl_snapshot before, after = {.n_items = 0};
    pl_status status = fill_versions(b, b->phases[good->index], &before);
    if (status == PL_OK)
        status = fill_versions(b, b->phases[bad->index], &after);
    *out = (pl_snapshot){.phase = b->phases[bad->index]};
    pl_copy_text(out->arm, sizeof out->arm, b->arm_name);
    out->items = pl_alloc((after.n_items + 1) * sizeof *out->items);
    for (size_t i = 0; status == PL_OK && i < after.n_items; i++) {
        if (after.items[i].number == before.items[i].number)
            continue;
        bool is_used = false;
        for (size_t d = 0; d < bad->e.n_docs && !is_used; d++)
            is_used =
                pl_topology_path_has(b->topology, evaluation_path(&bad->e, d), (int)i);
        if (is_used)
            out->items[out->n_items++] = after.items[i];
    }
    pl_snapshot_clear(&before);
    pl_snapshot_clear(&after);
    return status;
}

pl_status bisect_run(pl_run *r, pl_store *store, const bisect_wish *wish, bisect_fn fn,
                     void *context, bisect_result *out)
{
    bisection b = {.r = r, .store = store, .wish = wish, .fn = fn, .context = context};
    trial good = {.index = 0}, bad = {.index = 0};
    pl_status status = PL_OK;
    memset(out, 0, sizeof *out);
    if (b.wish->arm)
        pl_copy_text(b.arm_name, sizeof b.arm_name, b.wish->arm);
    else
        pl_newest_chapter(b.store, b.arm_name);
    if (pl_arm_chapter(b.arm_name) < 0)
        PL_TRY(pl_fail(PL_ERR_USAGE,
                       "%s is not a chapter of the mixture (mix, mix~1, ...); give the "
                       "name of a chapter",
                       b.arm_name));
    PL_TRY(pl_read_arm(b.store, b.arm_name, &b.arm, &b.topology));
    PL_TRY(list_available(&b));
    pl_copy_text(out->arm, sizeof out->arm, b.arm_name);
    /* The good end is the phase that the user gave, otherwise the best of a few phases
     * before the bad end. */
    const size_t last = b.n - 1;
    PL_TRY(try_phase(&b, 0, &good));
    report_trial(&b, &good, false);
    for (size_t i = 1; b.wish->from < 0 && i < PROBES; i++) {
        trial t;
        const size_t index = last * i / PROBES;
        if (index == last * (i - 1) / PROBES)
            continue;
        status = try_phase(&b, index, &t);
        if (status == PL_OK)
            report_trial(&b, &t, !(t.bits < good.bits));
        if (status == PL_OK && t.bits < good.bits) {
            evaluation_clear(&good.e);
            good = t;
        } else
            evaluation_clear(&t.e);
        PL_TRY(status);
    }
    PL_TRY(try_phase(&b, last, &bad));
    report_trial(&b, &bad, bad.bits > good.bits);
    if (bad.bits > good.bits) {
        const double middle = (good.bits + bad.bits) / 2;
        while (bad.index - good.index > 1) {
            trial t;
            status = try_phase(&b, (good.index + bad.index) / 2, &t);
            if (status != PL_OK) {
                evaluation_clear(&t.e);
                goto done;
            }
            const bool worse = !(t.bits < middle);
            report_trial(&b, &t, worse);
            trial *end = worse ? &bad : &good;
            evaluation_clear(&end->e);
            *end = t;
        }
        PL_TRY(list_versions(&b, &good, &bad, &out->versions));
    }
    const evaluation *e = &bad.e;
    const double per_byte =
        (double)e->n_targets / log(2) / (double)(e->n_bytes > 0 ? e->n_bytes : 1);
    out->before = b.phases[good.index];
    out->at = bad.bits > good.bits ? b.phases[bad.index] : -1;
    out->bits_before = good.bits;
    out->bits_at = bad.bits;
    out->error =
        per_byte * pl_score_error(e->rows[e->answer].scores,
                                  good.e.rows[good.e.answer].scores, e->n_docs);
    out->n_docs = e->n_docs;
    for (int path = 0; path < pl_topology_n_paths(b.topology); path++)
        for (size_t i = 0; i < e->n_docs; i++)
            if (evaluation_path(e, i) == path) {
                out->n_paths++;
                break;
            }
done:
    evaluation_clear(&good.e);
    evaluation_clear(&bad.e);
    pl_free_all(b.phases, b.told);
    pl_topology_destroy(&b.topology);
    pl_arm_clear(&b.arm);
    return status;
}
