/* The embedding: reads rows of its matrix, and adds to the gradients of these rows. If
 * a token occurs several times, its gradients are added in the order of its
 * positions. */
#include "modules/ref/ref.h"

void ref_embed_forward(pl_backend *be, pl_act *out, const int32_t *tokens,
                       const float *w, int N, int C)
{
    (void)be;
    size_t width = (size_t)C;
    for (int n = 0; n < N; n++)
        memcpy(ref_floats(out) + (size_t)n * width, w + (size_t)tokens[n] * width,
               width * sizeof(float));
}

void ref_embed_backward(pl_backend *be, float *dw, const pl_act *dout,
                        const int32_t *tokens, int N, int C)
{
    (void)be;
    size_t width = (size_t)C;
    for (int n = 0; n < N; n++)
        ref_axpy(dw + (size_t)tokens[n] * width, 1.0f,
                 ref_view(dout) + (size_t)n * width, C);
}
