/* The operations that are the same for all backends that work in the host's memory: the
 * optimizer's step on a whole path, which also clips the gradients; the memory itself;
 * the order of rows. */
#include "modules/backend.h"
#include <math.h>

pl_status pl_host_alloc(pl_backend *be, size_t bytes, const char *what, void **out)
{
    (void)be;
    return pl_try_alloc(bytes, what, out);
}

void pl_host_release(pl_backend *be, void *memory)
{
    (void)be;
    pl_free(memory);
}

void pl_host_upload(pl_backend *be, void *device, const void *host, size_t bytes)
{
    (void)be;
    memcpy(device, host, bytes);
}

void pl_host_download(pl_backend *be, void *host, const void *device, size_t bytes)
{
    (void)be;
    memcpy(host, device, bytes);
}

void pl_host_fill_zero(pl_backend *be, void *device, size_t bytes)
{
    (void)be;
    memset(device, 0, bytes);
}

struct pl_update {
    pl_update_plan plan;
    float *work; /* scratch memory for Muon; NULL if AdamW updates everything */
};

/* Rounds up to a multiple of 64, which is also a multiple of the tiles of every
 * backend. */
static size_t whole_tiles(int side)
{
    enum { TILE = 64 };
    return ((size_t)side + TILE - 1) / TILE * TILE;
}

size_t pl_muon_work_floats(int O, int I)
{
    const size_t rows = whole_tiles(O), cols = whole_tiles(I);
    const size_t side = rows < cols ? rows : cols;
    return 2 * rows * cols + 3 * side * side;
}

size_t pl_update_work_floats(const pl_update_run *runs, int n_runs, bool together)
{
    size_t most = 0;
    for (int i = 0; i < n_runs; i++) {
        size_t n = runs[i].rows ? pl_muon_work_floats(runs[i].rows, runs[i].cols) : 0;
        if (n > 0 && together)
            n *= (size_t)pl_update_run_matrices(&runs[i]);
        most = n > most ? n : most;
    }
    return most;
}

pl_status pl_host_update_create(pl_backend *be, const pl_update_plan *plan,
                                pl_update **out)
{
    const size_t n = pl_update_work_floats(plan->runs, plan->n_runs, false);
    void *work = NULL;
    *out = NULL;
    if (n > 0)
        PL_CHECK(be->ops->alloc(be, n * sizeof(float), "Newton-Schulz", &work));
    *out = pl_alloc(sizeof **out);
    (*out)->plan = *plan;
    (*out)->work = work;
    return PL_OK;
}

void pl_host_update_destroy(pl_backend *be, pl_update **update)
{
    if (*update && (*update)->work)
        be->ops->release(be, (*update)->work);
    pl_free(*update);
    *update = NULL;
}

void pl_host_update_apply(pl_backend *be, pl_update *update, const float *loss, int N,
                          const pl_step_numbers *numbers)
{
    const pl_update_plan *p = &update->plan;
    be->ops->sum_squares(be, p->squares, p->grads, p->n_params);
    for (int n = 0; n < N; n++)
        if (!isfinite(loss[n]))
            *p->squares = (double)NAN;
    if (!isfinite(*p->squares)) {
        be->ops->fill_zero(be, p->grads, p->n_params * sizeof(float));
        return;
    }
    /* Clipping scales all gradients by min(1, clip / norm), rounded once. */
    const double norm = sqrt(*p->squares), clip = (double)numbers->clip;
    const float factor = clip > 0.0 && norm > clip ? (float)(clip / norm) : 1.0f;
    float *second = p->moments + pl_second_moments(p->n_params);
    for (int i = 0; i < p->n_runs; i++) {
        const pl_update_run *run = &p->runs[i];
        float *params = p->params + run->offset, *grads = p->grads + run->offset;
        float *first = p->moments + run->offset;
        pl_adamw adam = numbers->adam;
        if (!run->decay)
            adam.weight_decay = 0.0f;
        pl_weight *const *weight = run->weight >= 0 ? &p->weights[run->weight] : NULL;
        if (run->rows == 0) {
            be->ops->adamw(be, params, first, second + run->second, grads, run->n,
                           factor, &adam, weight ? *weight : NULL);
            continue;
        }
        be->ops->muon(be, params, first, grads, update->work,
                      pl_update_run_matrices(run), run->rows, run->cols, factor, &adam);
        /* adamw has written its copies itself; several runs may be in one weight */
        if (weight && (i + 1 == p->n_runs || run[1].weight != run->weight))
            be->ops->weights_refresh(be, weight, 1);
    }
}

void pl_host_perform(pl_backend *be, pl_routine **routine, uint64_t shape,
                     void (*work)(void *context), void *context)
{
    (void)be, (void)routine, (void)shape;
    work(context);
}

void pl_host_routine_destroy(pl_backend *be, pl_routine **routine)
{
    (void)be, (void)routine;
}

void pl_host_sum_losses(pl_backend *be, double *sum, const float *loss, int N,
                        bool accumulate)
{
    (void)be;
    double all = accumulate ? *sum : 0.0;
    for (int n = 0; n < N; n++) /* rows without a target are exactly zero */
        all += (double)loss[n];
    *sum = all;
}

void pl_host_mean_rows(pl_backend *be, float *out, const pl_act *x,
                       const int32_t *lengths, int B, int T, int C)
{
    enum { COLUMNS = 64 };
    const float *floats = (const float *)(const void *)x;
    const uint16_t *halves = (const uint16_t *)(const void *)x;
    for (int b = 0; b < B; b++)
        for (int c0 = 0; c0 < C; c0 += COLUMNS) {
            const int columns = C - c0 < COLUMNS ? C - c0 : COLUMNS;
            double sum[COLUMNS] = {0};
            for (int t = 0; t < lengths[b]; t++) {
                const size_t at =
                    ((size_t)b * (size_t)T + (size_t)t) * (size_t)C + (size_t)c0;
                for (int c = 0; c < columns; c++)
                    sum[c] += (double)(be->act == PL_BF16
                                           ? pl_bf16_to_float(halves[at + (size_t)c])
                                           : floats[at + (size_t)c]);
            }
            for (int c = 0; c < columns; c++)
                out[(size_t)b * (size_t)C + (size_t)(c0 + c)] =
                    (float)(sum[c] / lengths[b]);
        }
}

void pl_host_post(pl_backend *be, int number, const void *device, size_t bytes)
{
    memcpy(be->posted[number], device, bytes);
}

pl_status pl_host_collect(pl_backend *be, int number, void *host, size_t bytes)
{
    memcpy(host, be->posted[number], bytes);
    return be->ops->sync(be);
}

void pl_host_permute_rows(pl_backend *be, pl_act *x, pl_act *scratch,
                          const int32_t *order, int N, int C)
{
    const size_t row = (size_t)C * pl_type_bytes(be->act);
    for (int n = 0; n < N; n++)
        memcpy((uint8_t *)scratch + (size_t)n * row,
               (const uint8_t *)x + (size_t)order[n] * row, row);
    memcpy(x, scratch, (size_t)N * row);
}
