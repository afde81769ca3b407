/* Page-locked memory through which copies between host and device pass, in pieces:
 * while one half is filled or emptied by the host, the other is on its way.
 *
 * An upload returns as soon as the host's bytes have been copied, while the device
 * still works on earlier operations. A download returns when its bytes have arrived. */
#ifndef PL_MODULES_CUDA_TRANSIT_CUH
#define PL_MODULES_CUDA_TRANSIT_CUH
#include "modules/cuda/device.h"

enum { TRANSIT_HALVES = 2, TRANSIT_PIECE_BYTES = 8 << 20 };

struct device_transit {
    uint8_t *memory[TRANSIT_HALVES];
    cudaEvent_t passed[TRANSIT_HALVES];
    unsigned next; /* the half to use next */
};

/* Closing is allowed even if opening failed. The stream must have finished its work. */
PL_MUST_CHECK pl_status transit_open(device_transit *transit);
void transit_close(device_transit *transit);
PL_MUST_CHECK pl_status transit_upload(device_transit *transit, cudaStream_t stream,
                                       void *device, const void *host, size_t bytes);
PL_MUST_CHECK pl_status transit_download(device_transit *transit, cudaStream_t stream,
                                         void *host, const void *device, size_t bytes);

#endif
