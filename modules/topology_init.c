/* Computes the initial values of a module.
 *
 * The random numbers depend only on the seed and on the tensor's name. So all experts
 * of a slot start equal, as in the paper (arXiv:2403.10616). A dense model and a
 * mixture of the same shape start equal too, which makes their comparison fair. */
#include "modules/topology.h"

void pl_tensor_init(const pl_tensor *tensor, uint64_t seed, float *values)
{
    size_t n = (size_t)tensor->rows * (size_t)tensor->cols;
    uint64_t stream = pl_stream(tensor->name, 0, 0);
    float std = (float)tensor->init_std;
    if (std > 0.0f)
        pl_random_normals(seed, stream, n, values);
    for (size_t i = 0; i < n; i++)
        values[i] = std > 0.0f ? std * values[i] : 1.0f;
}

void pl_topology_init(const pl_topology *t, int slot, uint64_t seed, float *params)
{
    const pl_slot *s = pl_topology_slot(t, slot);
    for (int i = s->first_tensor; i < s->first_tensor + s->n_tensors; i++) {
        const pl_tensor *tensor = pl_topology_tensor(t, i);
        pl_tensor_init(tensor, seed, params + (tensor->offset - s->offset));
    }
}
