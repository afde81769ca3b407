/* The arithmetic that a worker does for streaming, and the number of inner steps of a
 * slow worker (step_overlap.h). */
#include "outer/step_overlap.h"

int pl_streaming_fragment(int index, int n_blocks, int fragments, bool strided)
{
    if (strided)
        return index % fragments;
    return (int)((int64_t)index * fragments / n_blocks);
}

/* In each group of H inner steps, fragment p is sent after (p+1) H/F of them, where H
 * is inner_steps and F is `fragments`. */
int pl_streaming_sends(const pl_method_settings *s, int64_t done, int64_t *round)
{
    int64_t every = s->inner_steps / s->fragments;
    if (done < 1 || done % every != 0)
        return -1;
    int64_t turn = done / every - 1;
    if (round)
        *round = turn / s->fragments;
    return (int)(turn % s->fragments);
}

void pl_streaming_mix(float *local, const float *merged, double mix, size_t n)
{
    const float a = (float)mix, rest = (float)(1 - mix);
    if (mix == 1)
        return;
    if (mix == 0) {
        memcpy(local, merged, n * sizeof *local);
        return;
    }
    for (size_t i = 0; i < n; i++)
        local[i] = a * local[i] + rest * merged[i];
}

int pl_local_steps(int inner_steps, double speed, double top_speed)
{
    if (!(speed > 0) || !(top_speed > 0) || speed >= top_speed)
        return inner_steps;
    int steps = (int)((double)inner_steps * (speed / top_speed));
    return steps > 1 ? steps : 1;
}
