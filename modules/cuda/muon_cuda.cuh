/* The parts of Muon that the optimizer's step on a whole path uses, too
 * (update_cuda.cu). */
#pragma once
#include "modules/cuda/ops_cuda.cuh"

/* Computes the momentum of one parameter; u replaces its gradient. */
static __device__ __forceinline__ void muon_momentum(float *m, float *u, float gradient)
{
    const float mu = PL_MUON_MOMENTUM;
    const float mean = mu * *m + (1.0f - mu) * gradient;
    *m = mean;
    *u = mu * mean + (1.0f - mu) * gradient;
}

/* Learning rate and weight decay. Both come from `numbers` on the device, or from the
 * fields here if `numbers` is NULL. If `squares` is not NULL and *squares is not
 * finite, parameters stay as they are. */
struct muon_rates {
    float lr, weight_decay;
    const pl_step_numbers *numbers;
    const double *squares;
};

/* Updates the matrices p [n,O,I] from u, which becomes zero. Writes p's compute copy
 * unless `copy` is NULL. */
void cuda_muon_step(pl_backend *be, float *p, float *u, act *copy, float *work, int n,
                    int O, int I, const muon_rates *rates);
