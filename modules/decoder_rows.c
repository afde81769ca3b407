/* Arranges the rows of a step so that rows of one module are neighbours
 * (decoder_rows.h). */
#include "modules/decoder_rows.h"

void decoder_rows_open(decoder_rows *r, int n_blocks)
{
    const size_t most = (size_t)n_blocks + 2;
    *r = (decoder_rows){.n_arrangements = 1};
    r->at = pl_alloc(most * sizeof *r->at);
    r->who = pl_alloc(most * sizeof *r->who);
    r->order = pl_alloc(most * sizeof *r->order);
    for (int i = 0; i < PL_DECODER_SLOTS_MAX; i++)
        r->who[0][i] = i;
}

void decoder_rows_close(decoder_rows *r)
{
    pl_free_all(r->at, r->who, r->order);
}

/* Whether two paths have the same parameters at a point. */
static bool same_at(const pl_path *a, const pl_path *b, int n_blocks, int point)
{
    if (a == b)
        return true;
    if (point < 0)
        return a->embed == b->embed;
    if (point == n_blocks)
        return a->norm == b->norm && a->classifier == b->classifier;
    return a->blocks[point].of == b->blocks[point].of;
}

/* Returns the path of row i of an arrangement. */
static const pl_path *path_at(const decoder_rows *r, int arrangement, int i)
{
    return r->paths[r->who[arrangement][i]];
}

/* Whether all rows of each module are neighbours: if a row has the same parameters as
 * an earlier row, all rows between them have these parameters, too. */
static bool is_arranged(const decoder_rows *r, int arrangement, int n_blocks, int point)
{
    for (int i = 2; i < r->n; i++) {
        const pl_path *p = path_at(r, arrangement, i);
        bool again = false;
        if (same_at(p, path_at(r, arrangement, i - 1), n_blocks, point))
            continue;
        for (int k = 0; k < i - 1 && !again; k++)
            again = same_at(p, path_at(r, arrangement, k), n_blocks, point);
        if (again)
            return false;
    }
    return true;
}

/* Appends an arrangement for a point: modules in the order of their first rows, and the
 * rows of each module in their previous order. */
static void arrange(decoder_rows *r, int n_blocks, int point)
{
    const int before = r->n_arrangements - 1, now = r->n_arrangements++;
    bool placed[PL_DECODER_SLOTS_MAX] = {false};
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        const pl_path *first = path_at(r, before, i);
        for (int k = i; !placed[i] && k < r->n; k++) {
            if (k > i &&
                (placed[k] || !same_at(first, path_at(r, before, k), n_blocks, point)))
                continue;
            r->order[now][n] = k;
            r->who[now][n++] = r->who[before][k];
            placed[k] = k > i;
        }
    }
}

void decoder_rows_plan(decoder_rows *r, int n_blocks)
{
    uint64_t hash = (uint64_t)r->n;
    for (int i = 0; i < r->n; i++)
        hash = pl_stream("rows", hash, r->paths[i]->number);
    hash = hash ? hash : 1;
    if (r->hash == hash)
        return;
    r->hash = hash;
    r->n_arrangements = 1;
    for (int point = 0; point <= n_blocks; point++) {
        /* If each row uses the same module as at the previous point, the arrangement
         * need not change. */
        bool same = point > 0 && point < n_blocks;
        for (int i = 0; i < r->n && same; i++) {
            const block_weights *w = &r->paths[i]->blocks[point];
            same = w[0].of == w[-1].of;
        }
        if (!same && !is_arranged(r, r->n_arrangements - 1, n_blocks, point))
            arrange(r, n_blocks, point);
        r->at[point] = r->n_arrangements - 1;
    }
}

model_rows decoder_rows_group(const decoder_rows *r, int n_blocks, int point, int first)
{
    const int arrangement = point < 0 ? 0 : r->at[point];
    model_rows rows = {path_at(r, arrangement, first), first, 1};
    while (first + rows.n < r->n &&
           same_at(rows.path, path_at(r, arrangement, first + rows.n), n_blocks, point))
        rows.n++;
    return rows;
}
