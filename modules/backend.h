/* The three backends. `ref` computes in fp32 in plain loops and is the specification.
 * `cpu` multiplies matrices with a library, in bf16 if that is faster on this machine.
 * `cuda` exists only in builds with CUDA. */
#pragma once
#include "modules/ops.h"
PL_C_BEGIN

typedef enum pl_type { PL_F32, PL_BF16 } pl_type;
enum { PL_DEVICE_MAX = 96 }; /* bytes of a device's text, with its final 0 */

struct pl_backend {
    const pl_ops *ops;
    const char *name; /* "ref", "cpu", "cuda" */
    /* e.g. "cpu bf16 avx512_bf16 onednn 2.6.3"; backends with the same text and
     * the same number of threads (pl_backend_kind) give the same bytes */
    char device[PL_DEVICE_MAX];
    /* a sentence for users that says which feature this backend cannot use (a GPU, a
     * CUDA graph), and why; "" if there is nothing to say */
    char remark[512];
    pl_type act; /* type of the elements of activations (pl_act) */
    int n_threads;
    /* size of the GPU's memory, and how much of it was free when the backend was
     * opened; both are 0 without a GPU */
    uint64_t memory_bytes, memory_left_bytes;
    /* number of GPUs of this machine, over which the launcher distributes workers; 0
     * without a GPU */
    int n_devices;
    uint64_t cache_bytes; /* size of a GPU's last-level cache; 0 without a GPU */
    /* whether weights have one byte each (int8); such a backend can only decode, and
     * cannot train or compute losses */
    bool decode_only;
    /* what `post` has copied, if the backend works in the host's memory */
    uint8_t posted[PL_POSTS][PL_POST_BYTES];
    void *self; /* private state of the backend */
};

static inline size_t pl_type_bytes(pl_type type)
{
    return type == PL_F32 ? 4 : 2;
}

typedef struct pl_backend_options {
    /* "ref", "cpu", "cuda"; "auto": cuda if a device can be used, else cpu, whose
     * remark says why an existing device is not used */
    const char *name;
    int n_threads; /* >= 1; ignored by cuda */
    int device;    /* number of the CUDA device, from 0; ref and cpu ignore it */
    /* "auto", "f32", "bf16", "f16" (only cpu), "int8" (not ref; only for
     * decoding); NULL means "auto" */
    const char *precision;
    /* whether a `device` beyond the last one means `device` modulo the number of
     * devices; otherwise such a number is ERR_CONFIG */
    bool device_turns;
} pl_backend_options;

/* ERR_UNSUPPORTED: the text names the feature that this build or machine lacks. */
pl_status pl_backend_open(const pl_backend_options *options, pl_backend **out);
void pl_backend_close(pl_backend **backend);
/* Writes the text that names the kind of device. Workers with equal texts compute equal
 * bytes. So the text has the number of threads, if there are several: with another
 * number, sums are rounded differently. */
void pl_backend_kind(const pl_backend *backend, char kind[PL_DEVICE_MAX]);

PL_C_END
