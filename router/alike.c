/* Groups documents whose features have the same bytes, which no router can tell
 * apart, and finds the heaviest group (alike.h). */
#include "router/alike.h"
#include "router/router.h"
#include <stdlib.h>
#include <string.h>

typedef struct row_table {
    const unsigned char *rows;
    size_t row_bytes;
} row_table;

static int by_row_bytes(const void *a, const void *b, void *context)
{
    const row_table *table = context;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int order = memcmp(table->rows + x * table->row_bytes,
                       table->rows + y * table->row_bytes, table->row_bytes);
    return order ? order : (x > y) - (x < y);
}

void router_group_alike(const void *rows, size_t n, size_t row_bytes, size_t *order)
{
    row_table table = {rows, row_bytes};
    for (size_t i = 0; i < n; ++i)
        order[i] = i;
    qsort_r(order, n, sizeof *order, by_row_bytes, &table);
}

size_t router_group_end(const void *rows, size_t n, size_t row_bytes,
                        const size_t *order, size_t i)
{
    const unsigned char *bytes = rows;
    size_t end = i + 1;
    while (end < n && memcmp(bytes + order[i] * row_bytes,
                             bytes + order[end] * row_bytes, row_bytes) == 0)
        ++end;
    return end;
}

pl_status pl_router_heaviest_alike(const float *features, size_t n, int dim,
                                   const double *weights, pl_alike *out)
{
    size_t bytes = (size_t)dim * sizeof *features, end;
    void *memory = NULL;
    *out = (pl_alike){0};
    PL_CHECK(pl_try_alloc(n * sizeof(size_t), "documents in groups", &memory));
    size_t *order = memory;
    router_group_alike(features, n, bytes, order);
    for (size_t i = 0; i < n; i = end) {
        pl_alike group = {0};
        end = router_group_end(features, n, bytes, order, i);
        for (; group.n_docs < end - i; ++group.n_docs)
            group.weight += weights ? weights[order[i + group.n_docs]] : 1.0;
        if (group.weight > out->weight ||
            (group.weight == out->weight && group.n_docs > out->n_docs))
            *out = group;
    }
    pl_free_aligned(memory);
    return PL_OK;
}
