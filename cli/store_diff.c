/* pathloom store diff: prints how two versions of a module differ, tensor by tensor. */
#include "cli/store_call.h"
#include "cli/store_names.h"
#include "cli/store_print.h"

#include <math.h>

/* Sums over pairs of values. Those of a module are the sums over its tensors. */
typedef struct difference {
    double aa, bb, ab, dd, max;
    uint64_t n, n_changed;
} difference;

typedef struct comparison {
    store_call *call;
    char arm_name[PL_MODULE_NAME_MAX]; /* the name of `arm`; "" if there is none */
    pl_arm arm;
    pl_topology *topology; /* NULL: the store does not define the arm */
    int width;
} comparison;

typedef struct pair {
    pl_version a, b;
    float *x, *y; /* [n] */
    size_t n;
} pair;

/* ---- arithmetic ---- */
static difference compare_params(const float *a, const float *b, size_t n)
{
    difference d = {.n = n};
    for (size_t i = 0; i < n; i++) {
        double x = a[i], y = b[i], step = y - x;
        d.aa += x * x;
        d.bb += y * y;
        d.ab += x * y;
        d.dd += step * step;
        d.max = fabs(step) > d.max ? fabs(step) : d.max;
        d.n_changed += memcmp(&a[i], &b[i], sizeof *a) != 0;
    }
    return d;
}

static double relative(const difference *d)
{
    return d->dd == 0 ? 0 : sqrt(d->dd / d->aa); /* infinite if a is zero */
}

static double cosine(const difference *d)
{
    if (d->dd == 0)
        return 1;
    return d->ab / sqrt(d->aa * d->bb);
}

static double share_changed(const difference *d)
{
    return d->n ? (double)d->n_changed / (double)d->n : 0;
}

/* ---- printing ---- */
static void print_difference(const comparison *c, const pair *p, const char *tensor,
                             const char *shape, const difference *d)
{
    row r = row_begin(c->call->json);
    r.width = c->width;
    row_text(&r, "a", p->a.module, NULL);
    row_count(&r, "a_version", p->a.number, NULL);
    row_text(&r, "b", p->b.module, NULL);
    row_count(&r, "b_version", p->b.number, NULL);
    row_text(&r, tensor ? "tensor" : NULL, tensor ? tensor : "all",
             tensor ? "    %-*s" : "  = %-*s");
    row_text(&r, tensor ? "shape" : NULL, shape, " %-12s");
    row_tokens(&r, "values", d->n, " %8s values");
    row_real(&r, "relative_l2", relative(d), "  rel L2 %10.4g");
    row_real(&r, "cosine", cosine(d), "  cosine %9.6f");
    row_real(&r, "max_abs", d->max, "  max %10.4g");
    row_real(&r, "changed", share_changed(d), NULL);
    row_real(&r, NULL, 100 * share_changed(d), "  changed %6.2f %%");
    row_finish(&r);
}

/* ---- one pair of modules ---- */
/* The arm's definition names the tensors. If the store does not have it, modules are
 * compared as a whole. */
static pl_status load_arm(comparison *c, const char *module)
{
    char name[PL_MODULE_NAME_MAX];
    names_arm_of(module, name);
    if (strcmp(name, c->arm_name) == 0 && c->arm_name[0])
        return PL_OK;
    pl_topology_destroy(&c->topology);
    pl_arm_clear(&c->arm);
    pl_copy_text(c->arm_name, sizeof c->arm_name, name);
    pl_status status = pl_read_arm(c->call->store, name, &c->arm, &c->topology);
    return status == PL_ERR_NOT_FOUND || status == PL_ERR_PROTO ? PL_OK : status;
}

static int find_module_slot(const comparison *c, const char *module, size_t n)
{
    const char *slash = strchr(module, '/');
    int index =
        c->topology && slash ? pl_topology_find_module(c->topology, slash + 1) : -1;
    int slot = index < 0 ? -1 : pl_topology_module_slot(c->topology, index);
    if (slot < 0 || pl_topology_slot(c->topology, slot)->n_params != n)
        return -1;
    return slot;
}

static pl_status read_params(comparison *c, const pl_version *v, size_t *n, float **out)
{
    uint64_t bytes = 0;
    if (v->params_gone)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "the parameters of %s@%llu were collected; only its record is "
                       "left",
                       v->module, (unsigned long long)v->number);
    PL_CHECK(pl_store_blob_bytes(c->call->store, &v->params, &bytes));
    *n = (size_t)(bytes / sizeof **out);
    PL_CHECK(pl_try_alloc((size_t)bytes + 1, "a version", (void **)out));
    return pl_store_read_blob(c->call->store, &v->params, 0, *n * sizeof **out, *out);
}

static difference compare_tensors(const comparison *c, const pair *p, int slot)
{
    difference sum = {.n = 0};
    const pl_slot *s = pl_topology_slot(c->topology, slot);
    for (int i = s->first_tensor; i < s->first_tensor + s->n_tensors; i++) {
        char shape[32];
        const pl_tensor *t = pl_topology_tensor(c->topology, i);
        size_t at = t->offset - s->offset;
        difference d =
            compare_params(p->x + at, p->y + at, (size_t)t->rows * (size_t)t->cols);
        snprintf(shape, sizeof shape, "%dx%d", t->rows, t->cols);
        print_difference(c, p, t->name, shape, &d);
        sum.aa += d.aa;
        sum.bb += d.bb;
        sum.ab += d.ab;
        sum.dd += d.dd;
        sum.max = d.max > sum.max ? d.max : sum.max;
        sum.n += d.n;
        sum.n_changed += d.n_changed;
    }
    return sum;
}

static pl_status compare_pair(comparison *c, pair *p)
{
    size_t n = 0;
    difference all;
    PL_CHECK(read_params(c, &p->a, &p->n, &p->x));
    PL_CHECK(read_params(c, &p->b, &n, &p->y));
    if (n != p->n)
        return pl_fail(PL_ERR_USAGE,
                       "%s has %zu values and %s %zu: they cannot be compared",
                       p->a.module, p->n, p->b.module, n);
    PL_CHECK(load_arm(c, p->a.module));
    int slot = find_module_slot(c, p->a.module, n);
    if (!c->call->json) {
        row r = row_begin(false);
        row_say(&r, "%s@%llu", p->a.module, (unsigned long long)p->a.number);
        row_hash(&r, NULL, &p->a.params, " %s  ->  ");
        row_say(&r, "%s@%llu", p->b.module, (unsigned long long)p->b.number);
        row_hash(&r, NULL, &p->b.params, " %s");
        row_flag(&r, NULL, pl_hash_equal(&p->a.params, &p->b.params), "  equal");
        row_finish(&r);
    }
    c->width = 3;
    if (slot >= 0) {
        const pl_slot *s = pl_topology_slot(c->topology, slot);
        c->width = 3;
        for (int i = s->first_tensor; i < s->first_tensor + s->n_tensors; i++) {
            int len = (int)strlen(pl_topology_tensor(c->topology, i)->name);
            c->width = len > c->width ? len : c->width;
        }
    }
    if (slot < 0 || pl_hash_equal(&p->a.params, &p->b.params))
        all = compare_params(p->x, p->y, n);
    else
        all = compare_tensors(c, p, slot);
    print_difference(c, p, NULL, "", &all);
    return PL_OK;
}

static pl_status diff_modules(comparison *c, const module_at *a, const module_at *b)
{
    pair p;
    pl_status status = PL_OK;
    memset(&p, 0, sizeof p);
    PL_TRY(pl_store_get_version(c->call->store, a->module, a->number, &p.a));
    PL_TRY(pl_store_get_version(c->call->store, b->module, b->number, &p.b));
    PL_TRY(compare_pair(c, &p));
done:
    pl_version_clear(&p.a);
    pl_version_clear(&p.b);
    pl_free_aligned(p.x);
    pl_free_aligned(p.y);
    return status;
}

/* ---- sets ---- */
/* The module in b that corresponds to a's: with the same name, else in the same slot of
 * b's arm. */
static const module_at *counterpart(const module_set *b, const char *module)
{
    const module_at *same = names_find(b, module);
    const char *slash = strchr(module, '/');
    for (size_t i = 0; !same && slash && i < b->n; i++) {
        const char *other = strchr(b->at[i].module, '/');
        if (other && strcmp(other, slash) == 0)
            same = &b->at[i];
    }
    return same;
}

static pl_status diff_sets(comparison *c, const module_set *a, const module_set *b)
{
    size_t n_found = 0;
    if (a->n == 1 && b->n == 1)
        return diff_modules(c, &a->at[0], &b->at[0]);
    for (size_t i = 0; i < a->n; i++) {
        const module_at *other = counterpart(b, a->at[i].module);
        if (!other)
            continue;
        n_found++;
        PL_CHECK(diff_modules(c, &a->at[i], other));
    }
    if (n_found > 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "%s and %s have no module in common",
                   c->call->words[0], c->call->words[1]);
}

pl_status store_diff(store_call *call)
{
    comparison c = {.call = call};
    module_set a = {NULL, 0, false}, b = {NULL, 0, false};
    pl_status status = PL_OK;
    PL_TRY(names_set(call->store, call->words[0], &a));
    PL_TRY(names_set(call->store, call->words[1], &b));
    PL_TRY(diff_sets(&c, &a, &b));
done:
    pl_free(a.at);
    pl_free(b.at);
    pl_topology_destroy(&c.topology);
    pl_arm_clear(&c.arm);
    return status;
}
