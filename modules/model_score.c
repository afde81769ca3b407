/* Computes losses of tokens and features of documents from a forward pass.
 *
 * A feature is the mean of the last block's output over a document's prefix
 * (arXiv:2403.10616, section 2.4), taken before the final norm. */
#include "modules/model_internal.h"

static pl_status check_loaded(const pl_model *m)
{
    return m->path ? PL_OK : pl_fail(PL_ERR_ARG, "the model has no parameters yet");
}

pl_status model_read_losses(pl_model *m, const pl_path *path, int N, float *losses)
{
    m->ops->classifier(m->be, m->acts.loss, NULL, NULL, m->acts.norm, path->classifier,
                       m->acts.targets, NULL, N, m->shape->vocab, m->shape->width,
                       false);
    m->ops->download(m->be, losses, m->acts.loss, (size_t)N * sizeof(float));
    return m->ops->sync(m->be);
}

pl_status pl_model_losses(pl_model *m, const int32_t *tokens, const int32_t *targets,
                          int B, int T, float *losses)
{
    if (m->be->decode_only)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "a model in int8 can only decode, not "
                       "compute losses; choose precision bf16 or f32");
    PL_CHECK(check_loaded(m));
    PL_CHECK(model_take_batch(m, tokens, targets, B, T));
    model_forward(m, B, T);
    return model_read_losses(m, m->path, B * T, losses);
}

pl_status pl_model_features(pl_model *m, const int32_t *tokens, const int32_t *lengths,
                            int B, int T, float *features)
{
    PL_CHECK(check_loaded(m));
    PL_CHECK(model_take_batch(m, tokens, NULL, B, T));
    for (int b = 0; b < B; b++)
        if (lengths[b] < 1 || lengths[b] > T)
            return pl_fail(PL_ERR_ARG,
                           "sequence %d has length %d; it must be between 1 and %d", b,
                           (int)lengths[b], T);
    /* model_forward ends with the final norm, which adds the residual to the last
     * block's `out` */
    model_forward(m, B, T);
    /* there are no targets, so their memory has room for the lengths */
    m->ops->upload(m->be, m->acts.targets, lengths, (size_t)B * sizeof *lengths);
    m->ops->mean_rows(m->be, m->acts.means, m->acts.blocks[m->shape->n_blocks - 1].out,
                      m->acts.targets, B, T, m->shape->width);
    m->ops->download(m->be, features, m->acts.means,
                     (size_t)B * (size_t)m->shape->width * sizeof *features);
    return m->ops->sync(m->be);
}
