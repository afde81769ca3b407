/* Converts weights to one byte per element. Each row is divided by a scale, 1/127 of
 * its largest absolute value, and rounded; 128 is added to the result. */
#include "modules/cpu/state.h"
#include <math.h>

static void encode_row(uint8_t *to, float *scale, const float *row, int I)
{
    float most = 0;
    for (int i = 0; i < I; i++)
        most = fabsf(row[i]) > most ? fabsf(row[i]) : most;
    const float inverse = most > 0 ? 127.0f / most : 0;
    *scale = most / 127.0f;
    for (int i = 0; i < I; i++)
        to[i] = (uint8_t)(lrintf(row[i] * inverse) + 128);
}

size_t cpu_weight_stride(const pl_weight *w)
{
    return ((size_t)w->I + CPU_BYTE_GROUP - 1) / CPU_BYTE_GROUP * CPU_BYTE_GROUP;
}

/* Does not write the padding of rows. The padding is later multiplied by zeros, so its
 * values do not matter. */
void cpu_weight_encode(const pl_weight *w)
{
    const size_t stride = cpu_weight_stride(w);
    for (int o = 0; o < w->O; o++)
        encode_row(w->bytes + (size_t)o * stride, &w->scales[o],
                   w->master + (size_t)o * (size_t)w->I, w->I);
}
