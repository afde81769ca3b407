/* Private to outer/cuda: an accelerator, its scratch memory, and its flags. */
#ifndef PL_OUTER_CUDA_ACCEL_INSIDE_CUH
#define PL_OUTER_CUDA_ACCEL_INSIDE_CUH
#include "modules/cuda/transit.cuh"
#include "outer/accel.h"

struct pl_accel {
    cudaStream_t stream;
    bool owns_stream;
    char name[256];
    /* Device memory of one call; grows and stays. */
    uint8_t *scratch;
    size_t scratch_bytes;
    device_transit transit;
    /* The first tile in which a kernel found what must not be, on the device. */
    unsigned *first_bad;
};

enum : unsigned { ACCEL_NO_TILE = 0xffffffffu };

/* At least `bytes` of scratch, aligned to 256; what it held is lost. */
PL_MUST_CHECK pl_status accel_scratch(pl_accel *accel, size_t bytes, uint8_t **out);
/* Parts of the scratch memory start at whole lines. */
static inline size_t accel_lines(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Clears first_bad on the stream; reads it after waiting for the stream. */
PL_MUST_CHECK pl_status accel_flag_clear(pl_accel *accel);
PL_MUST_CHECK pl_status accel_flag_read(pl_accel *accel, const char *what,
                                        unsigned *first_bad);

#endif
