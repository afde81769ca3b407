/* Compares versions of a module by tensor, for heat maps. */
#include "view/page_heat.h"
#include "home/home.h"

#include <math.h>
#include <stdlib.h>

enum {
    COLUMNS_MAX = 48,
    TENSORS_MAX = 512,
    HEAT_VALUES_MAX = 1 << 26 /* limit for the values of all compared versions */
};

pl_json *page_figures(double value, int n)
{
    char text[40];
    snprintf(text, sizeof text, "%.*g", n, value);
    return pl_json_make_real(isfinite(value) ? strtod(text, NULL) : NAN);
}

typedef struct heat {
    pl_comparison compare;
    /* names of the tensors; each one's change between the compared versions */
    pl_json *tensors, *cells;
} heat;

static void note_tensor_change(void *context, const char *tensor, const char *shape,
                               const pl_difference *d)
{
    heat *h = context;
    const size_t at = pl_json_count(h->cells);
    if (at >= TENSORS_MAX)
        return;
    if (at == pl_json_count(h->tensors)) {
        char name[PL_TEXT_MAX];
        snprintf(name, sizeof name, "%s%s%s", tensor ? tensor : "all tensors",
                 *shape ? " " : "", shape);
        pl_json_push(h->tensors, pl_json_make_text(name));
    }
    pl_json_push(h->cells, page_figures(pl_difference_relative(d), 4));
}

/* Adds the columns for n + 1 versions at equal distances from `from` to `to`. Versions
 * whose parameters were deleted are skipped. Each remaining version is compared with
 * the next one: its column is [from, to, list of the relative change of each tensor],
 * and the list is empty if the two are equal. */
static pl_status add_heat_columns(heat *h, const char *module, uint64_t from,
                                  uint64_t to, uint64_t n, pl_json *columns)
{
    pl_version a = {.n_contributions = 0}, b;
    bool begun = false;
    pl_status status = PL_OK;
    for (uint64_t i = 0; i <= n && status == PL_OK; i++) {
        PL_TRY(pl_store_get_version(h->compare.store, module,
                                    from + (to - from) * i / n, &b));
        if (b.params_gone) {
            pl_version_clear(&b);
            continue;
        }
        if (begun)
            status = pl_comparison_load(&h->compare, &a, &b);
        if (begun && status == PL_OK) {
            h->cells = pl_json_array();
            if (!h->compare.equal)
                pl_comparison_run(&h->compare, note_tensor_change, h);
            pl_json_push(columns,
                         pl_json_list(pl_json_make_int((int64_t)a.number),
                                      pl_json_make_int((int64_t)b.number), h->cells));
        }
        pl_version_clear(&a);
        a = b;
        begun = true;
    }
done:
    pl_version_clear(&a);
    return status;
}

pl_status page_heat_json(pl_store *store, const char *module, uint64_t from,
                         uint64_t to, pl_json **out)
{
    pl_version head;
    heat h = {.compare = {.store = store}};
    pl_status status = PL_OK;
    *out = NULL;
    PL_CHECK(pl_store_head(store, module, &head));
    to = to < head.number ? to : head.number;
    from = from < to ? from : to;
    pl_json *o = pl_json_object(), *columns = pl_json_array();
    h.tensors = pl_json_array();
    pl_json_set_text(o, "module", module);
    pl_json_set_int(o, "from", (int64_t)from);
    pl_json_set_int(o, "to", (int64_t)to);
    pl_json_set(o, "tensors", h.tensors);
    pl_json_set(o, "columns", columns);
    const uint64_t values = 2 * head.n_params;
    uint64_t n = values > 0 ? HEAT_VALUES_MAX / values : 0;
    if (n == 0)
        PL_TRY(pl_fail(PL_ERR_UNSUPPORTED,
                       "%s has %llu values, but this page compares modules of at most "
                       "%d values; use `pathloom store diff`",
                       head.module, (unsigned long long)head.n_params,
                       HEAT_VALUES_MAX / 2));
    n = n < COLUMNS_MAX ? n : COLUMNS_MAX;
    n = n < to - from ? n : to - from;
    if (n > 0)
        PL_TRY(add_heat_columns(&h, head.module, from, to, n, columns));
    /* If fewer than two still have their parameters, compares the newest n + 1. */
    if (pl_json_count(columns) == 0 && to > from + n)
        PL_TRY(add_heat_columns(&h, head.module, to - n, to, n, columns));
    *out = o;
done:
    if (status != PL_OK)
        pl_json_destroy(&o);
    pl_comparison_clear(&h.compare);
    pl_version_clear(&head);
    return status;
}
