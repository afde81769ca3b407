/* Backends: `ref` (fp32 in plain loops: the specification), `cpu` (matrix products by a
 * library, bf16 where the machine is faster in it), and `cuda` if it was built in. */
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
    /* "cpu bf16 avx512_bf16 onednn 2.6.3"; backends with equal text give equal bits */
    char device[96];
    char remark[512]; /* what differs from the usual, and why; "" if nothing does */
    pl_type act;      /* type of pl_act */
    int n_threads;
    /* memory of a GPU when it was opened; else 0 */
    uint64_t memory_bytes, memory_left_bytes;
    int n_devices;        /* GPUs that workers take in turn; else 0 */
    uint64_t cache_bytes; /* the last cache of a GPU; else 0 */
    bool decode_only;     /* weights of one byte: it cannot train or compute losses */
    bool fp8_copies; /* fp8 copies of weights, beside the others: pl_model_fp8_bytes */
    void *self;      /* the backend's own state */
};

static inline size_t pl_type_bytes(pl_type type)
{
    return type == PL_F32 ? 4 : 2;
}

typedef struct pl_backend_options {
    const char *name; /* "ref", "cpu", "cuda"; "auto": cuda if a device answers, else
                         cpu, whose remark says why if there is a device all the same */
    int n_threads;    /* >= 1; ignored by cuda */
    int device;       /* CUDA ordinal */
    /* "auto", "f32", "bf16"; cpu also "f16"; cuda also "fp8"; "int8" for decoding only
     */
    const char *precision;
    bool device_turns; /* an ordinal past the last device starts again at 0 */
} pl_backend_options;

/* ERR_UNSUPPORTED names what this build or machine lacks. */
PL_MUST_CHECK pl_status pl_backend_open(const pl_backend_options *options,
                                        pl_backend **out);
void pl_backend_close(pl_backend **backend);

#ifdef __cplusplus
}
#endif
#endif
