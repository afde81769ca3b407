/* Decodes the messages of a round, computes D from them (the formulas are in arith.h),
 * and takes the outer step with D. Homes and workers both use this code, so that a
 * worker can predict the version that a home will make. */
#include "outer/arith.h"

static pl_status add_present(const pl_arith_merge *m, float *mean)
{
    pl_codec_walk walk = {.source = m->messages};
    /* `one` [2, n] has the decoded message, then W (arith.h) */
    float *one, weight = 1.0f;
    pl_codec_message message;
    pl_status status = PL_OK;
    double norm = 0;
    PL_CHECK(pl_try_alloc(2 * m->n * sizeof *one, "an outer step", (void **)&one));
    float *whole = one + m->n;
    PL_TRY(pl_codec_next(&walk, &message, &weight));
    while (message.data) {
        memset(one, 0, m->n * sizeof *one);
        PL_TRY(pl_codec_add(message.data, message.bytes, m->n, 1.0f, one, &norm));
        for (size_t i = 0; i < m->n; i++) {
            mean[i] += weight * one[i];
            whole[i] += one[i] != 0.0f ? weight : 0.0f;
        }
        PL_TRY(pl_codec_next(&walk, &message, &weight));
    }
    for (size_t i = 0; i < m->n; i++)
        mean[i] = whole[i] > 0.0f ? mean[i] / whole[i] : mean[i];
done:
    pl_free(one);
    return status;
}

pl_status pl_arith_step(const pl_arith_merge *m, pl_outer_report *report)
{
    float *mean = NULL;
    double norm = 0;
    pl_status status = PL_OK;
    PL_TRY(pl_try_alloc(m->n * sizeof *mean, "an outer step", (void **)&mean));
    PL_TRY(m->homomorphic ? pl_codec_add_all(&m->messages, m->n, mean)
           : m->present   ? add_present(m, mean)
                          : pl_codec_add_each(&m->messages, m->n, mean));
    const float *params = m->state->params;
    for (size_t i = 0; m->origin && i < m->n; i++)
        mean[i] += params[i] - m->origin[i];
    for (size_t i = 0; m->factor != 1.0f && i < m->n; i++)
        mean[i] *= m->factor;
    if (m->n_matrices > 0)
        norm = pl_l2_norm(mean, m->n);
    for (int i = 0; i < m->n_matrices; i++)
        PL_TRY(pl_iso_equalize(mean + m->matrices[i].offset, m->matrices[i].rows,
                               m->matrices[i].cols, pl_codec_add_threads()));
    PL_TRY(pl_outer_apply(m->step, m->state, mean, m->n, report));
    if (m->n_matrices > 0)
        report->mean_norm = norm;
done:
    pl_free(mean);
    return status;
}
