/* The production backend on NVIDIA GPUs, compute capability 8.0 and newer.
 *
 * Activations and compute copies of weights are bf16, sums and master weights fp32.
 * With precision fp8, forward products have e4m3 operands. With int8, weights are
 * bytes, for decoding only. cuBLASLt computes the products, without its
 * non-deterministic reductions; kernels of this folder compute everything else
 * (docs/CUDA.md). One stream executes all operations in order: a failure surfaces at
 * sync. Equal inputs give equal bytes on one kind of device with one version of cuBLAS;
 * both stand in the device text. */
#ifndef PL_MODULES_CUDA_CUDA_H
#define PL_MODULES_CUDA_CUDA_H
#include "modules/backend.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ERR_UNSUPPORTED without a driver, without a device, for a device older than 8.0, and
 * for precision f32; ERR_CONFIG if no device has that ordinal. One thread uses a
 * backend at a time. */
PL_MUST_CHECK pl_status cuda_backend_create(const pl_backend_options *options,
                                            pl_backend **out);
void cuda_backend_destroy(pl_backend **backend);
/* Whether the driver lists a device. The backend may still be unable to use the device.
 */
bool cuda_has_device(void);

#ifdef __cplusplus
}
#endif
#endif
