/* The production backend on NVIDIA GPUs, compute capability 8.0 and newer.
 *
 * Activations and compute copies of weights are bf16, sums and master weights fp32.
 * With precision int8, weights are bytes, for decoding only. cuBLASLt computes the
 * products, without its non-deterministic reductions; kernels of this folder compute
 * products with only a few rows and all other operations (docs/CUDA.md). One stream
 * executes all operations in order; `sync` reports the first failure. Equal inputs give
 * equal bytes on all GPUs with the same device text. */
#pragma once
#include "modules/backend.h"
PL_C_BEGIN

/* ERR_UNSUPPORTED: there is no driver, no device or no cuBLAS; the device's compute
 * capability is below 8.0; or the precision is f32. ERR_CONFIG: no
 * device has this number. Only one thread at a time may use a backend. */
pl_status cuda_backend_create(const pl_backend_options *options, pl_backend **out);
void cuda_backend_destroy(pl_backend **backend);
/* Whether the driver lists at least one device. The backend may still be unable to use
 * it. */
bool cuda_has_device(void);

PL_C_END
