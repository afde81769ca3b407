/* pathloom store blame: who and what made a version.
 *
 * A contributor's share of a version is its part of the sum of weighted norms, a_i
 * |d_i| with a_i = w_i / sum w: how far it pulled, whatever the others did. Over a
 * history, shares are weighted by how far each version moved. */
#include "cli/store_call.h"
#include "cli/store_names.h"
#include "cli/store_print.h"

#include <math.h>
#include <stdlib.h>

typedef struct culprit {
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    int64_t path, replica;
    uint64_t first_sample, end_sample; /* the stretch that holds all of its samples */
    uint64_t n_samples, n_tokens, n_versions;
    double seconds, loss; /* loss: of the last */
    double pull;          /* sum of share times how far the version moved */
} culprit;

typedef struct blame {
    culprit *list;
    size_t n;
    uint64_t n_merged, first, last; /* versions with contributions */
    double moved;
} blame;

/* ---- gathering ---- */
static culprit *find(blame *b, const pl_contribution *c)
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
    p->first_sample = c->first_sample;
    return p;
}

/* Norms may be missing where a sum travelled as one message: then weights decide. */
static double pull_of(const pl_contribution *c, bool by_norm)
{
    double weight = c->weight > 0 ? c->weight : 1;
    return by_norm ? weight * c->norm : weight;
}

static void add_contribution(blame *b, const pl_contribution *c, double share,
                             double moved)
{
    culprit *p = find(b, c);
    if (c->first_sample < p->first_sample)
        p->first_sample = c->first_sample;
    if (c->first_sample + c->n_samples > p->end_sample)
        p->end_sample = c->first_sample + c->n_samples;
    p->n_samples += c->n_samples;
    p->n_tokens += c->n_tokens;
    p->n_versions++;
    p->seconds += c->seconds;
    p->loss = c->loss;
    p->pull += share * moved;
}

static pl_status add_version(void *context, const pl_version *v)
{
    blame *b = context;
    double sum = 0, moved = v->update_norm > 0 ? v->update_norm : 1;
    bool by_norm = true;
    if (v->number > b->last || v->n_contributions == 0)
        return PL_OK;
    for (int i = 0; i < v->n_contributions; i++)
        by_norm = by_norm && isfinite(v->contributions[i].norm) &&
                  v->contributions[i].norm > 0;
    for (int i = 0; i < v->n_contributions; i++)
        sum += pull_of(&v->contributions[i], by_norm);
    for (int i = 0; i < v->n_contributions; i++)
        add_contribution(b, &v->contributions[i],
                         sum > 0 ? pull_of(&v->contributions[i], by_norm) / sum : 0,
                         moved);
    b->n_merged++;
    b->moved += moved;
    return PL_OK;
}

/* Who pulled most stands first; then the order does not depend on anything. */
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
static void print_json(const module_at *at, const blame *b, const culprit *p)
{
    pl_json *line = pl_json_object();
    pl_json_set_text(line, "module", at->module);
    print_set_count(line, "version", at->number);
    pl_json_set_text(line, "worker", p->worker);
    pl_json_set_text(line, "device", p->device);
    pl_json_set_int(line, "path", p->path);
    pl_json_set_int(line, "replica", p->replica);
    print_set_count(line, "first_sample", p->first_sample);
    print_set_count(line, "end_sample", p->end_sample);
    print_set_count(line, "samples", p->n_samples);
    print_set_count(line, "tokens", p->n_tokens);
    print_set_count(line, "versions", p->n_versions);
    pl_json_set_real(line, "seconds", p->seconds);
    pl_json_set_real(line, "loss", p->loss);
    pl_json_set_real(line, "share", b->moved > 0 ? p->pull / b->moved : 0);
    say_json(line);
}

static void print_text(const blame *b, const culprit *p, int width)
{
    char tokens[16], seconds[16];
    printf("%6.2f %%  %-*s  path %-3lld replica %-2lld samples %llu..%llu  %7s tokens  "
           "%4llu versions  %8s  loss %8.4f  %s\n",
           b->moved > 0 ? 100 * p->pull / b->moved : 0, width, p->worker,
           (long long)p->path, (long long)p->replica,
           (unsigned long long)p->first_sample, (unsigned long long)p->end_sample,
           pl_human_count((double)p->n_tokens, tokens),
           (unsigned long long)p->n_versions, pl_human_seconds(p->seconds, seconds),
           p->loss, p->device);
}

static void print_blame(const store_call *call, const module_at *at, const blame *b)
{
    int width = 0;
    for (size_t i = 0; i < b->n; i++) {
        int len = (int)strlen(b->list[i].worker);
        width = len > width ? len : width;
    }
    if (!call->json)
        printf("%s@%llu: %llu contributors%s\n", at->module,
               (unsigned long long)at->number, (unsigned long long)b->n,
               b->n == 0 ? "; nobody trained it" : "");
    for (size_t i = 0; i < b->n; i++)
        if (call->json)
            print_json(at, b, &b->list[i]);
        else
            print_text(b, &b->list[i], width);
}

pl_status store_blame(store_call *call)
{
    module_at at;
    bool versioned;
    blame b = {.n = 0};
    pl_status status = PL_OK;
    PL_RETURN_IF(names_module(call->store, call->words[0], &at, &versioned));
    b.last = at.number;
    if (call->values[STORE_OPT_HISTORY])
        status = pl_store_each_version(call->store, at.module, add_version, &b);
    else {
        pl_version v;
        PL_RETURN_IF(pl_store_get_version(call->store, at.module, at.number, &v));
        status = add_version(&b, &v);
        pl_version_clear(&v);
    }
    if (status == PL_OK) {
        if (b.n > 0)
            qsort(b.list, b.n, sizeof *b.list, by_pull);
        print_blame(call, &at, &b);
    }
    pl_free(b.list);
    return status;
}
