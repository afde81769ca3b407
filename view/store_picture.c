/* Draws pictures of the store's contents as SVG files (store_picture.h). */
#include "view/store_picture.h"
#include "view/html.h"
#include "view/page_heat.h"

#include <math.h>

static pl_status write_picture(pl_buf *picture, const char *title, const char *file)
{
    pl_buf out = {0};
    html_alone(picture, title, &out);
    pl_status status = pl_write_output(file, out.data, out.len);
    pl_buf_destroy(&out);
    return status;
}

pl_status store_picture_changes(pl_store *store, const char *module, uint64_t from,
                                uint64_t to, const char *file)
{
    pl_json *heat = NULL;
    pl_buf picture = {0};
    double *values = NULL, range[2];
    char(*names)[PL_NAME_MAX] = NULL, label[PL_MODULE_NAME_MAX + 200];
    pl_status status = PL_OK;
    PL_CHECK(page_heat_json(store, module, from, to, true, &heat));
    const pl_json *tensors = pl_json_get(heat, "tensors"),
                  *columns = pl_json_get(heat, "columns");
    const size_t n_tensors = pl_json_count(tensors), n_columns = pl_json_count(columns);
    const long long first = (long long)pl_json_get_real(heat, "from"),
                    last = (long long)pl_json_get_real(heat, "to");
    if (n_tensors == 0 || n_columns == 0)
        PL_TRY(pl_fail(
            PL_ERR_NOT_FOUND,
            "there is nothing to draw: fewer than two of the versions %lld to %lld of "
            "%s still have their parameters, or those that have them are all equal",
            first, last, module));
    values = pl_alloc(n_tensors * n_columns * sizeof *values);
    names = pl_alloc(n_tensors * sizeof *names);
    for (size_t t = 0; t < n_tensors; t++) {
        const char *name = pl_json_text(pl_json_at(tensors, t), NULL);
        name += pl_starts_with(name, "model.layers.") ? strlen("model.layers.") : 0;
        pl_copy_text(names[t], sizeof names[t], name);
    }
    /* Draws the logarithm of each change; equal versions leave empty cells. */
    for (size_t c = 0; c < n_columns; c++) {
        const pl_json *cells = pl_json_at(pl_json_at(columns, c), 2);
        for (size_t t = 0; t < n_tensors; t++) {
            double value = 0;
            const bool is = pl_json_number(pl_json_at(cells, t), &value) && value > 0;
            values[t * n_columns + c] = is ? log10(value) : NAN;
        }
    }
    const html_grid grid = {.label = "Relative change of each tensor",
                            .names = (const char(*)[PL_NAME_MAX])names,
                            .name_width = 300,
                            .values = values,
                            .n_rows = n_tensors,
                            .n_columns = n_columns};
    html_draw_grid(&picture, &grid, range);
    /* infinite if no cell has a value: a zero tensor has no relative change */
    if (!isfinite(range[0]))
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "%s was zero at version %lld, so its changes have no relative "
                       "size, and there is nothing to draw",
                       module, first));
    snprintf(label, sizeof label,
             "%s, versions %lld to %lld in %zu steps: relative change from %.3g (dark) "
             "to %.3g (pale)",
             module, first, last, n_columns, pow(10, range[0]), pow(10, range[1]));
    PL_TRY(write_picture(&picture, label, file));
done:
    pl_buf_destroy(&picture);
    pl_free_all(values, names);
    pl_json_destroy(&heat);
    return status;
}

pl_status store_picture_blame(const pl_blame *blame, const char *module,
                              uint64_t number, const char *file)
{
    char label[PL_MODULE_NAME_MAX + 64];
    pl_buf picture = {0};
    double *shares = pl_alloc((blame->n + 1) * sizeof *shares);
    char(*names)[PL_NAME_MAX] = pl_alloc((blame->n + 1) * sizeof *names);
    for (size_t i = 0; i < blame->n; i++) {
        const pl_contributor *c = &blame->list[i];
        shares[i] = c->share;
        if (blame->merged)
            pl_copy_text(names[i], sizeof names[i], c->worker);
        else
            snprintf(names[i], sizeof names[i], "%.36s, path %lld", c->worker,
                     (long long)c->path);
    }
    snprintf(label, sizeof label, "%s@%llu: share of each contributor", module,
             (unsigned long long)number);
    html_bars(&picture, label, (const char(*)[PL_NAME_MAX])names, shares, blame->n);
    pl_status status = write_picture(&picture, label, file);
    pl_buf_destroy(&picture);
    pl_free_all(shares, names);
    return status;
}
