#include "router/alike.h"
#include "router/router.h"
#include <stdlib.h>
#include <string.h>

typedef struct row_table {
    const unsigned char *rows;
    size_t row_bytes;
} row_table;

static int by_bytes(const void *a, const void *b, void *context)
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
    qsort_r(order, n, sizeof *order, by_bytes, &table);
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

pl_status pl_router_largest_alike(const float *features, size_t n, int dim, size_t *out)
{
    size_t bytes = (size_t)dim * sizeof *features, end;
    void *memory = NULL;
    PL_RETURN_IF(pl_try_alloc(n * sizeof(size_t), "documents in groups", &memory));
    size_t *order = memory;
    router_group_alike(features, n, bytes, order);
    *out = 0;
    for (size_t i = 0; i < n; i = end) {
        end = router_group_end(features, n, bytes, order, i);
        *out = end - i > *out ? end - i : *out;
    }
    pl_free_aligned(memory);
    return PL_OK;
}
