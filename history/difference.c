/* Compares the parameters of two versions, tensor by tensor (difference.h). */
#include "history/difference.h"
#include "history/merged.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static pl_difference compare_params(const float *a, const float *b, size_t n)
{
    pl_difference d = {.n = n};
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

double pl_difference_relative(const pl_difference *d)
{
    return d->dd == 0 ? 0 : sqrt(d->dd / d->aa); /* infinite if `a` is all zeros */
}

double pl_difference_cosine(const pl_difference *d)
{
    if (d->dd == 0)
        return 1;
    return d->ab / sqrt(d->aa * d->bb);
}

double pl_difference_changed(const pl_difference *d)
{
    return d->n ? (double)d->n_changed / (double)d->n : 0;
}

pl_status pl_comparison_load(pl_comparison *c, const pl_version *a, const pl_version *b)
{
    size_t n = 0;
    char arm[PL_MODULE_NAME_MAX];
    pl_free_all(c->x, c->y);
    c->x = c->y = NULL;
    PL_CHECK(pl_version_params(c->store, a, "a version", &c->n, &c->x));
    PL_CHECK(pl_version_params(c->store, b, "a version", &n, &c->y));
    if (n != c->n)
        return pl_fail(PL_ERR_USAGE,
                       "%s has %zu parameters and %s has %zu; only modules of the same "
                       "size can be compared",
                       a->module, c->n, b->module, n);
    /* The arm's definition names the tensors; without it a module is one vector. */
    snprintf(arm, sizeof arm, "%.*s", (int)strcspn(a->module, "/"), a->module);
    if (strcmp(arm, c->arm_name) != 0 || !c->arm_name[0]) {
        pl_topology_destroy(&c->topology);
        pl_arm_clear(&c->arm);
        pl_copy_text(c->arm_name, sizeof c->arm_name, arm);
        pl_status status = pl_read_arm(c->store, arm, &c->arm, &c->topology);
        if (status != PL_ERR_NOT_FOUND && status != PL_ERR_PROTO)
            PL_CHECK(status);
    }
    const char *slash = strchr(a->module, '/');
    const int index =
        c->topology && slash ? pl_topology_find_module(c->topology, slash + 1) : -1;
    c->slot = index < 0 ? -1 : pl_topology_module_slot(c->topology, index);
    if (c->slot >= 0 && pl_topology_slot(c->topology, c->slot)->n_params != n)
        c->slot = -1;
    c->equal = pl_hash_equal(&a->params, &b->params);
    c->width = strlen("all");
    const pl_slot *s = c->slot >= 0 ? pl_topology_slot(c->topology, c->slot) : NULL;
    for (int i = 0; s && i < s->n_tensors; i++) {
        size_t len = strlen(pl_topology_tensor(c->topology, s->first_tensor + i)->name);
        c->width = len > c->width ? len : c->width;
    }
    return PL_OK;
}

void pl_comparison_run(const pl_comparison *c, pl_difference_fn fn, void *context)
{
    const bool by_tensor = c->slot >= 0 && !c->equal;
    const pl_slot *s = by_tensor ? pl_topology_slot(c->topology, c->slot) : NULL;
    pl_difference all = {.n = 0};
    if (!by_tensor)
        all = compare_params(c->x, c->y, c->n);
    for (int i = 0; by_tensor && i < s->n_tensors; i++) {
        char shape[32];
        const pl_tensor *t = pl_topology_tensor(c->topology, s->first_tensor + i);
        size_t at = t->offset - s->offset;
        pl_difference d =
            compare_params(c->x + at, c->y + at, (size_t)t->rows * (size_t)t->cols);
        snprintf(shape, sizeof shape, "%dx%d", t->rows, t->cols);
        fn(context, t->name, shape, &d);
        all.aa += d.aa;
        all.bb += d.bb;
        all.ab += d.ab;
        all.dd += d.dd;
        all.max = d.max > all.max ? d.max : all.max;
        all.n += d.n;
        all.n_changed += d.n_changed;
    }
    fn(context, NULL, "", &all);
}

void pl_comparison_clear(pl_comparison *c)
{
    pl_free_all(c->x, c->y);
    c->x = c->y = NULL;
    pl_topology_destroy(&c->topology);
    pl_arm_clear(&c->arm);
}
