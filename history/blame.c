/* Finds out which workers and updates made a version (blame.h). */
#include "history/blame.h"
#include "history/merged.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_first(const void *x, const void *y)
{
    const pl_sample_range *a = x, *b = y;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Returns a contribution's weighted norm (blame.h), not divided by the sum of weights.
 * If `by_norm` is false, returns the weight alone: the norm of an update is not known
 * if a relay added the update to other updates. */
static double pull_of(const pl_version *v, const pl_contribution *c, bool by_norm)
{
    /* the base of a merged version is also a contribution; its weight is 0 */
    if (pl_version_is_merged(v))
        return fabs(c->weight) * c->norm;
    double weight = c->weight > 0 ? c->weight : 1;
    return by_norm ? weight * c->norm : weight;
}

static void add_version(pl_blame *b, const pl_version *v)
{
    double sum = 0, moved = v->update_norm > 0 ? v->update_norm : 1;
    bool by_norm = true;
    if (v->n_contributions == 0)
        return;
    for (int i = 0; i < v->n_contributions; i++)
        by_norm = by_norm && isfinite(v->contributions[i].norm) &&
                  v->contributions[i].norm > 0;
    for (int i = 0; i < v->n_contributions; i++)
        sum += pull_of(v, &v->contributions[i], by_norm);
    for (int i = 0; i < v->n_contributions; i++) {
        const pl_contribution *c = &v->contributions[i];
        if (pl_contribution_is_base(c))
            continue;
        size_t at = 0;
        while (at < b->n &&
               (b->list[at].path != c->path || b->list[at].replica != c->replica ||
                strcmp(b->list[at].worker, c->worker) != 0 ||
                strcmp(b->list[at].device, c->device) != 0))
            at++;
        if (at == b->n) {
            b->list = pl_grow(b->list, (b->n + 1) * sizeof *b->list);
            /* the newest version is visited first, so its loss stays */
            b->list[b->n++] = (pl_contributor){
                .path = c->path, .replica = c->replica, .loss = c->work.loss};
            pl_copy_text(b->list[at].worker, sizeof b->list[at].worker, c->worker);
            pl_copy_text(b->list[at].device, sizeof b->list[at].device, c->device);
        }
        pl_contributor *p = &b->list[at];
        const double share = sum > 0 ? pull_of(v, c, by_norm) / sum : 0;
        const uint64_t first = c->work.first_sample, end = first + c->work.n_samples;
        pl_sample_ranges *ranges = &p->samples;
        ranges->at = pl_grow(ranges->at, (ranges->n + 1) * sizeof *ranges->at);
        ranges->at[ranges->n++] = (pl_sample_range){first, end};
        p->n_samples += c->work.n_samples;
        p->n_tokens += c->work.n_tokens;
        p->n_versions++;
        p->seconds += c->work.seconds;
        p->pull += share * moved;
    }
    b->merged = b->merged || pl_version_is_merged(v);
    b->moved += moved;
}

/* Sorts contributors by `pull` (blame.h), the largest first, in a fixed order. */
static int by_pull(const void *x, const void *y)
{
    const pl_contributor *a = x, *b = y;
    if (a->pull != b->pull)
        return a->pull < b->pull ? 1 : -1;
    if (a->path != b->path)
        return a->path < b->path ? -1 : 1;
    return strcmp(a->worker, b->worker);
}

pl_status pl_blame_find_text(pl_store *store, const char *module, bool documents,
                             pl_blame *b)
{
    char name[PL_MODULE_NAME_MAX];
    pl_arm arm;
    pl_topology *t = NULL;
    if (b->n == 0 || b->merged)
        return PL_OK;
    pl_arm_of_module(module, name, sizeof name);
    pl_status status = pl_read_arm(store, name, &arm, &t);
    for (size_t i = 0; status == PL_OK && i < b->n; i++) {
        pl_contributor *p = &b->list[i];
        const int64_t task = p->path * pl_topology_n_replicas(t) + p->replica;
        status = pl_exposure_parts(store, &arm, t, (int)task, &p->samples, documents,
                                   &p->parts);
    }
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

pl_status pl_blame_gather(pl_store *store, const char *module, uint64_t number,
                          bool history, pl_blame *out)
{
    pl_status status = PL_OK;
    bool found = false, ends = false;
    memset(out, 0, sizeof *out);
    /* Visits the version and its ancestors, from the newest to the oldest. A merged
     * version ends the search. If `history` is false, the search also ends at the first
     * version that was not made by a rollback. */
    for (uint64_t n = number, next; !ends; n = next) {
        pl_version v;
        PL_TRY(pl_store_get_version(store, module, n, &v));
        const bool made = !pl_version_source(&v, &next);
        if (made) {
            add_version(out, &v);
            next = n > 0 ? n - 1 : 0;
        }
        pl_version_clear(&v);
        if (made && !found)
            out->source = n;
        found = found || made;
        ends = made && (n == 0 || !history || out->merged);
    }
    for (size_t i = 0; i < out->n; i++) {
        pl_contributor *p = &out->list[i];
        size_t n_joined = 0;
        /* sorts the ranges and joins adjacent ones */
        qsort(p->samples.at, p->samples.n, sizeof *p->samples.at, by_first);
        for (size_t k = 0; k < p->samples.n; k++) {
            const pl_sample_range next = p->samples.at[k];
            pl_sample_range *last = n_joined > 0 ? &p->samples.at[n_joined - 1] : NULL;
            if (last && next.first <= last->end)
                last->end = next.end > last->end ? next.end : last->end;
            else
                p->samples.at[n_joined++] = next;
        }
        p->samples.n = n_joined;
        p->share = out->moved > 0 ? p->pull / out->moved : 0;
    }
    if (out->n > 0)
        qsort(out->list, out->n, sizeof *out->list, by_pull);
done:
    if (status != PL_OK)
        pl_blame_clear(out);
    return status;
}

void pl_blame_clear(pl_blame *b)
{
    for (size_t i = 0; i < b->n; i++)
        pl_free_all(b->list[i].samples.at, b->list[i].parts.domains,
                    b->list[i].parts.documents);
    pl_free(b->list);
    *b = (pl_blame){0};
}
