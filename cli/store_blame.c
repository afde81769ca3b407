/* pathloom store blame: prints which workers and updates made a version.
 *
 * It follows the version's real descent: a version that a rollback made stands for the
 * version it went back to, and versions between the two do not count.
 *
 * A contributor's share of a version is its part of the sum of weighted norms, a_i
 * |d_i| with a_i = w_i / sum w: how far it pulled, whatever the others did. Over a
 * history, shares are weighted by how far each version moved. */
#include "cli/store_call.h"
#include "cli/store_names.h"
#include "cli/store_print.h"

#include <math.h>
#include <stdlib.h>

typedef struct stretch {
    uint64_t first, end;
} stretch;

typedef struct culprit {
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    int64_t path, replica;
    stretch *samples; /* where they lie; newest first until sort_samples is called */
    size_t n_stretches;
    uint64_t n_samples, n_tokens, n_versions;
    double seconds, loss; /* loss: of the newest */
    double pull; /* sum over versions of its share times how far the version moved */
} culprit;

typedef struct blame {
    culprit *list;
    size_t n;
    uint64_t source; /* the version asked for, or the one that a rollback made it */
    double moved;
} blame;

/* ---- gathering ---- */
static culprit *find_culprit(blame *b, const pl_contribution *c)
{
    for (size_t i = 0; i < b->n; i++) {
        culprit *p = &b->list[i];
        if (p->path == c->path && p->replica == c->replica &&
            strcmp(p->worker, c->worker) == 0 && strcmp(p->device, c->device) == 0)
            return p;
    }
    b->list = pl_grow(b->list, (b->n + 1) * sizeof *b->list);
    culprit *p = &b->list[b->n++];
    memset(p, 0, sizeof *p);
    pl_copy_text(p->worker, sizeof p->worker, c->worker);
    pl_copy_text(p->device, sizeof p->device, c->device);
    p->path = c->path;
    p->replica = c->replica;
    p->loss = c->loss; /* of the newest, which comes first */
    return p;
}

static int by_first(const void *x, const void *y)
{
    const stretch *a = x, *b = y;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Adjacent stretches are joined. */
static void sort_samples(culprit *p)
{
    size_t n = 0;
    qsort(p->samples, p->n_stretches, sizeof *p->samples, by_first);
    for (size_t i = 0; i < p->n_stretches; i++) {
        stretch next = p->samples[i], *last = n > 0 ? &p->samples[n - 1] : NULL;
        if (last && next.first <= last->end)
            last->end = next.end > last->end ? next.end : last->end;
        else
            p->samples[n++] = next;
    }
    p->n_stretches = n;
}

/* Norms may be missing if a sum travelled as one message; then weights decide. */
static double pull_of(const pl_contribution *c, bool by_norm)
{
    double weight = c->weight > 0 ? c->weight : 1;
    return by_norm ? weight * c->norm : weight;
}

static void add_contribution(blame *b, const pl_contribution *c, double share,
                             double moved)
{
    culprit *p = find_culprit(b, c);
    uint64_t first = c->first_sample;
    uint64_t end = c->first_sample + c->n_samples;
    p->samples = pl_grow(p->samples, (p->n_stretches + 1) * sizeof *p->samples);
    p->samples[p->n_stretches++] = (stretch){first, end};
    p->n_samples += c->n_samples;
    p->n_tokens += c->n_tokens;
    p->n_versions++;
    p->seconds += c->seconds;
    p->pull += share * moved;
}

static void add_version(blame *b, const pl_version *v)
{
    double sum = 0, moved = v->update_norm > 0 ? v->update_norm : 1;
    bool by_norm = true;
    if (v->n_contributions == 0)
        return;
    for (int i = 0; i < v->n_contributions; i++)
        by_norm = by_norm && isfinite(v->contributions[i].norm) &&
                  v->contributions[i].norm > 0;
    for (int i = 0; i < v->n_contributions; i++)
        sum += pull_of(&v->contributions[i], by_norm);
    for (int i = 0; i < v->n_contributions; i++)
        add_contribution(b, &v->contributions[i],
                         sum > 0 ? pull_of(&v->contributions[i], by_norm) / sum : 0,
                         moved);
    b->moved += moved;
}

/* Goes down from the version, through rollbacks; without `history` only to the first
 * version that no rollback made. */
static pl_status gather_blame(pl_store *store, const module_at *at, bool history,
                              blame *b)
{
    bool found = false;
    for (uint64_t n = at->number, next;; n = next) {
        pl_version v;
        PL_CHECK(pl_store_get_version(store, at->module, n, &v));
        bool made = !pl_version_source(&v, &next);
        if (made) {
            add_version(b, &v);
            next = n > 0 ? n - 1 : 0;
        }
        pl_version_clear(&v);
        if (made && !found)
            b->source = n;
        found = found || made;
        if (made && (n == 0 || !history))
            return PL_OK;
    }
}

/* The largest pull comes first; the rest of the order is fixed, too. */
static int by_pull(const void *x, const void *y)
{
    const culprit *a = x, *b = y;
    if (a->pull != b->pull)
        return a->pull < b->pull ? 1 : -1;
    if (a->path != b->path)
        return a->path < b->path ? -1 : 1;
    return strcmp(a->worker, b->worker);
}

/* ---- printing ---- */
static void print_culprit(bool json, const module_at *at, const blame *b,
                          const culprit *p, int width)
{
    /* The text shows only the first few ranges. */
    enum { SHOWN = 4 };
    size_t n = p->n_stretches > SHOWN + 1 ? SHOWN : p->n_stretches;
    double share = b->moved > 0 ? p->pull / b->moved : 0;
    row r = row_begin(json);
    r.width = width;
    row_text(&r, "module", at->module, NULL);
    row_count(&r, "version", at->number, NULL);
    row_count(&r, "source", b->source, NULL);
    row_real(&r, NULL, 100 * share, "%6.2f %%");
    row_text(&r, "worker", p->worker, "  %-*s");
    row_text(&r, "device", p->device, NULL);
    row_int(&r, "path", p->path, "  path %-3s");
    row_int(&r, "replica", p->replica, " replica %-2s");
    if (json) {
        pl_json *list = pl_json_array();
        for (size_t i = 0; i < p->n_stretches; i++) {
            pl_json *pair = pl_json_array();
            pl_json_push(pair, pl_json_make_int((int64_t)p->samples[i].first));
            pl_json_push(pair, pl_json_make_int((int64_t)p->samples[i].end));
            pl_json_push(list, pair);
        }
        pl_json_set(r.json, "ranges", list);
    }
    row_count(&r, "samples", p->n_samples, " %7s samples");
    row_tokens(&r, "tokens", p->n_tokens, "  %7s tokens");
    row_count(&r, "versions", p->n_versions, "  %4s versions");
    row_seconds(&r, "seconds", p->seconds, "  %8s");
    row_real(&r, "loss", p->loss, "  loss %8.4f");
    row_real(&r, "share", share, NULL);
    row_text(&r, NULL, p->device, "  %s  samples");
    for (size_t i = 0; i < n; i++)
        row_say(&r, "%s %llu..%llu", i > 0 ? "," : "",
                (unsigned long long)p->samples[i].first,
                (unsigned long long)p->samples[i].end);
    if (n < p->n_stretches)
        row_say(&r, " and %zu more ranges", p->n_stretches - n);
    row_finish(&r);
}

static void print_blame(const store_call *call, const module_at *at, const blame *b)
{
    int width = 0;
    for (size_t i = 0; i < b->n; i++) {
        int len = (int)strlen(b->list[i].worker);
        width = len > width ? len : width;
    }
    if (!call->json) {
        printf("%s@%llu", at->module, (unsigned long long)at->number);
        if (b->source != at->number)
            printf(", version %llu by a rollback", (unsigned long long)b->source);
        printf(": %zu contributors%s\n", b->n, b->n == 0 ? "; nobody trained it" : "");
    }
    for (size_t i = 0; i < b->n; i++)
        print_culprit(call->json, at, b, &b->list[i], width);
}

pl_status store_blame(store_call *call)
{
    module_at at;
    bool versioned;
    blame b = {.n = 0};
    PL_CHECK(names_module(call->store, call->words[0], &at, &versioned));
    pl_status status =
        gather_blame(call->store, &at, call->values[STORE_OPT_HISTORY] != NULL, &b);
    for (size_t i = 0; i < b.n; i++)
        sort_samples(&b.list[i]);
    if (status == PL_OK) {
        if (b.n > 0)
            qsort(b.list, b.n, sizeof *b.list, by_pull);
        print_blame(call, &at, &b);
    }
    for (size_t i = 0; i < b.n; i++)
        pl_free(b.list[i].samples);
    pl_free(b.list);
    return status;
}
