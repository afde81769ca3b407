/* pathloom store diff: prints how versions of a module differ, by tensor. */
#include "cli/store_print.h"

typedef struct comparison {
    store_call *call;
    pl_comparison compare;
    pl_version a, b;
} comparison;

static void print_difference(void *context, const char *tensor, const char *shape,
                             const pl_difference *d)
{
    const comparison *c = context;
    row r = row_begin(c->call->json);
    r.width = (int)c->compare.width;
    row_text(&r, "a", c->a.module, NULL);
    row_count(&r, "a_version", c->a.number, NULL);
    row_text(&r, "b", c->b.module, NULL);
    row_count(&r, "b_version", c->b.number, NULL);
    row_text(&r, tensor ? "tensor" : NULL, tensor ? tensor : "all",
             tensor ? "    %-*s" : "  = %-*s");
    row_text(&r, tensor ? "shape" : NULL, shape, " %-12s");
    row_tokens(&r, "values", d->n, " %8s values");
    row_real(&r, "relative_l2", pl_difference_relative(d), "  rel L2 %10.4g");
    row_real(&r, "cosine", pl_difference_cosine(d), "  cosine %9.6f");
    row_real(&r, "max_abs", d->max, "  max %10.4g");
    row_real(&r, "changed", pl_difference_changed(d), NULL);
    row_real(&r, NULL, 100 * pl_difference_changed(d), "  changed %6.2f %%");
    row_finish(&r);
}

static pl_status diff_modules(comparison *c, const pl_module_at *a,
                              const pl_module_at *b)
{
    pl_status status = PL_OK;
    c->a = c->b = (pl_version){0};
    PL_TRY(pl_store_get_version(c->call->store, a->module, a->number, &c->a));
    PL_TRY(pl_store_get_version(c->call->store, b->module, b->number, &c->b));
    PL_TRY(pl_comparison_load(&c->compare, &c->a, &c->b));
    if (!c->call->json) {
        row r = row_begin(false);
        row_say(&r, "%s@%llu", c->a.module, (unsigned long long)c->a.number);
        row_hash(&r, NULL, &c->a.params, " %s  ->  ");
        row_say(&r, "%s@%llu", c->b.module, (unsigned long long)c->b.number);
        row_hash(&r, NULL, &c->b.params, " %s");
        row_flag(&r, NULL, c->compare.equal, "  equal");
        row_finish(&r);
    }
    pl_comparison_run(&c->compare, print_difference, c);
done:
    pl_version_clear(&c->a);
    pl_version_clear(&c->b);
    return status;
}

pl_status store_diff(store_call *call)
{
    comparison c = {.call = call, .compare = {.store = call->store}};
    pl_module_set a = {0}, b = {0};
    size_t n_found = 0;
    pl_status status = PL_OK;
    PL_TRY(pl_names_set(call->store, call->words[0], &a));
    PL_TRY(pl_names_set(call->store, call->words[1], &b));
    if (a.n == 1 && b.n == 1) {
        PL_TRY(diff_modules(&c, &a.at[0], &b.at[0]));
        goto done;
    }
    for (size_t i = 0; i < a.n; i++) {
        const pl_module_at *other = pl_module_set_find(&b, a.at[i].module);
        n_found += other != NULL;
        if (other)
            PL_TRY(diff_modules(&c, &a.at[i], other));
    }
    if (n_found == 0)
        PL_TRY(pl_fail(PL_ERR_USAGE, "%s and %s have no module in common",
                       call->words[0], call->words[1]));
done:
    pl_free_all(a.at, b.at);
    pl_comparison_clear(&c.compare);
    return status;
}
