/* Reads the refs of audits and of their draws (audits.h). */
#include "history/audits.h"

static pl_status count_row(void *context, const char *name, const char *target)
{
    int64_t *counts = context;
    pl_audit a;
    if (pl_audit_read(target, &a) != PL_OK)
        return pl_fail(PL_ERR_DAMAGED, "ref %s is damaged: it is not an audit", name);
    counts[a.verdict]++;
    return PL_OK;
}

pl_status pl_audits_count(pl_store *store, int64_t counts[PL_VERDICT_COUNT])
{
    memset(counts, 0, PL_VERDICT_COUNT * sizeof *counts);
    return pl_store_each_ref(store, PL_AUDIT_REFS, count_row, counts);
}

static pl_status add_draw(void *context, const char *name, const char *target)
{
    pl_draws *d = context;
    pl_draw draw;
    if (pl_draw_read(target, &draw) != PL_OK)
        return pl_fail_in(PL_ERR_DAMAGED, "ref %s is damaged", name);
    d->items = pl_grow(d->items, (d->n + 1) * sizeof *d->items);
    d->items[d->n++] = draw;
    d->n_secret += pl_hash_none(&draw.secret);
    return PL_OK;
}

pl_status pl_draws_read(pl_store *store, pl_draws *out)
{
    *out = (pl_draws){0};
    return pl_store_each_ref(store, PL_DRAW_REFS, add_draw, out);
}

bool pl_draws_explain(const pl_draws *draws, const pl_arm *arm, int path, int replica,
                      int64_t phase, bool has_row)
{
    size_t n_drawn = 0, n_known = draws->n - draws->n_secret;
    for (size_t i = 0; i < draws->n; i++)
        n_drawn += !pl_hash_none(&draws->items[i].secret) &&
                   pl_draw_has(&draws->items[i], arm, path, replica, phase);
    return draws->n_secret > 0 || (has_row ? n_drawn > 0 : n_drawn < n_known);
}
