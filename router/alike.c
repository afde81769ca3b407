/* Groups documents whose features have the same bytes (alike.h): no router can send
 * them to different paths. Finds the group with the largest weight (router.h). */
#include "router/alike.h"
#include "router/router.h"
#include <stdlib.h>

typedef struct row_table {
    const unsigned char *rows;
    size_t n, row_bytes;
    struct hashed_row *hashed; /* [n], for the heaviest group */
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
    row_table table = {rows, n, row_bytes, NULL};
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

/* ---- the heaviest group ---- */
typedef struct hashed_row {
    uint64_t hash;
    size_t row;
} hashed_row;

static int by_row_hash(const void *a, const void *b)
{
    const hashed_row *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

enum { ROWS_AN_ITEM = 4096 };

static pl_status hash_rows(void *context, size_t item, int thread)
{
    const row_table *t = context;
    const size_t first = item * ROWS_AN_ITEM;
    (void)thread;
    for (size_t i = first; i < t->n && i < first + ROWS_AN_ITEM; ++i)
        t->hashed[i] =
            (hashed_row){pl_checksum(t->rows + i * t->row_bytes, t->row_bytes), i};
    return PL_OK;
}

/* Sorts the documents by the hashes of their features, and compares only the features
 * of documents with equal hashes. The reason is that the features may be a file on
 * disk: this way most of the file is read only once, and in order. */
pl_status pl_router_heaviest_alike(const float *features, size_t n, int dim,
                                   const double *weights, pl_alike *out)
{
    row_table t = {(const unsigned char *)features, n, (size_t)dim * sizeof *features,
                   NULL};
    *out = (pl_alike){0};
    PL_CHECK(pl_try_alloc(n * (sizeof(hashed_row) + sizeof(size_t)),
                          "grouping documents with equal features",
                          (void **)&t.hashed));
    size_t *order = (size_t *)(t.hashed + n), end;
    pl_status status = pl_parallel(
        pl_cpu_count(), (n + ROWS_AN_ITEM - 1) / ROWS_AN_ITEM, hash_rows, &t);
    if (status == PL_OK)
        qsort(t.hashed, n, sizeof *t.hashed, by_row_hash);
    for (size_t i = 0; status == PL_OK && i < n; i = end) {
        for (end = i; end < n && t.hashed[end].hash == t.hashed[i].hash; ++end)
            order[end] = t.hashed[end].row;
        if (end - i > 1)
            qsort_r(order + i, end - i, sizeof *order, by_row_bytes, &t);
        for (size_t first = i, next; first < end; first = next) {
            pl_alike group = {0};
            next = router_group_end(t.rows, end, t.row_bytes, order, first);
            for (; group.n_docs < next - first; ++group.n_docs)
                group.weight += weights ? weights[order[first + group.n_docs]] : 1.0;
            if (group.weight > out->weight ||
                (group.weight == out->weight && group.n_docs > out->n_docs))
                *out = group;
        }
    }
    pl_free(t.hashed);
    return status;
}
