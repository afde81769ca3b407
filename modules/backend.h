/* Backends: `ref` (fp32 in plain loops: the specification), `cpu` (a library multiplies
 * matrices, in bf16 where the machine is faster in it), and `cuda` if it was built
 * in. */
#ifndef PL_MODULES_BACKEND_H
#define PL_MODULES_BACKEND_H
#include "modules/ops.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum pl_type { PL_F32, PL_BF16 } pl_type;

struct pl_backend {
    const pl_ops *ops;
    const char *name; /* "ref", "cpu", "cuda" */
    /* e.g. "cpu bf16 avx512_bf16 onednn 2.6.3"; backends with equal text give equal
     * bits */
    char device[96];
    /* how this backend differs from the usual one, and why; "" if it does not */
    char remark[512];
    pl_type act; /* the type of activations (pl_act) */
    int n_threads;
    /* a GPU's memory, and how much of it was free when the backend was opened; 0
     * without a GPU */
    uint64_t memory_bytes, memory_left_bytes;
    /* number of GPUs that workers take in turn; 0 without a GPU */
    int n_devices;
    uint64_t cache_bytes; /* size of a GPU's last-level cache; 0 without a GPU */
    /* weights have one byte each: the backend cannot train or compute losses */
    bool decode_only;
    bool fp8_copies; /* whether weights have fp8 copies (pl_model_fp8_bytes) */
    void *self;      /* private state of the backend */
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
    int device;    /* CUDA ordinal */
    /* "auto", "f32", "bf16"; cpu also "f16"; cuda also "fp8"; "int8" for decoding only
     */
    const char *precision;
    bool device_turns; /* whether ordinals past the last device start again at 0 */
} pl_backend_options;

/* ERR_UNSUPPORTED names what this build or machine lacks. */
PL_MUST_CHECK pl_status pl_backend_open(const pl_backend_options *options,
                                        pl_backend **out);
void pl_backend_close(pl_backend **backend);

#ifdef __cplusplus
}
#endif
#endif
