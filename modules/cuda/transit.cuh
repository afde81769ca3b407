/* Page-locked memory for copies between host and device. Copies pass through it in
 * pieces: while the host fills or empties one half, the device copies the other half.
 *
 * An upload returns as soon as the host's bytes have been copied, while the device
 * still works on earlier operations. A download returns when its bytes have arrived. A
 * post (ops.h) returns at once; collecting it waits until its bytes have arrived. */
#pragma once
#include "modules/cuda/device.h"
#include "modules/ops.h"

enum { TRANSIT_HALVES = 2, TRANSIT_PIECE_BYTES = 8 << 20 };

struct device_transit {
    uint8_t *memory[TRANSIT_HALVES];
    cudaEvent_t passed[TRANSIT_HALVES];
    unsigned next;  /* the half to use next */
    uint8_t *posts; /* [PL_POSTS, PL_POST_BYTES] page-locked */
    cudaEvent_t posted[PL_POSTS];
};

/* transit_close may be called even if transit_open failed. All copies must have
 * finished before it is called. */
pl_status transit_open(device_transit *transit);
void transit_close(device_transit *transit);
pl_status transit_upload(device_transit *transit, cudaStream_t stream, void *device,
                         const void *host, size_t bytes);
pl_status transit_download(device_transit *transit, cudaStream_t stream, void *host,
                           const void *device, size_t bytes);
pl_status transit_post(device_transit *transit, cudaStream_t stream, int number,
                       const void *device, size_t bytes);
pl_status transit_collect(const device_transit *transit, int number, void *host,
                          size_t bytes);
