/* Turns errors of the device into statuses with an error text (device.h). */
#include "modules/cuda/device.h"

pl_status device_check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return PL_OK;
    /* Clears the error of the device, because it is reported here. */
    (void)cudaGetLastError();
    int device = 0;
    (void)cudaGetDevice(&device);
    if (error == cudaErrorMemoryAllocation)
        return pl_fail(PL_ERR_NOMEM, "CUDA device %d has too little memory for %s",
                       device, what);
    return pl_fail(PL_ERR_DEVICE, "CUDA device %d failed (%s): %s (error %d)", device,
                   what, cudaGetErrorString(error), (int)error);
}

pl_status device_clear_for_libraries(void *memory, size_t bytes, cudaStream_t stream)
{
#ifdef __CUDACC__
    return device_check(cudaMemsetAsync(memory, 0, bytes, stream),
                        "filling memory with zeros");
#else
    (void)memory, (void)bytes, (void)stream;
    return PL_OK;
#endif
}

pl_status device_sync(cudaStream_t stream, const char *what)
{
    /* A launch that was refused leaves its error only in cudaGetLastError. */
    PL_CHECK(device_check(cudaGetLastError(), what));
    return device_check(cudaStreamSynchronize(stream), what);
}
