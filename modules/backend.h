/* Backends: `ref` (fp32, plain loops: the specification), `cpu` (library GEMM,
 * bf16 where the machine is faster in it), `cuda` when built with it. */
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
    char device[96];  /* "cpu bf16 avx512_bf16 onednn 2.6.3": equal text = equal bits
                         expected */
    char remark[512]; /* what it does otherwise than it should, and why; or "" */
    pl_type act;      /* type of pl_act */
    int n_threads;
    uint64_t memory_bytes, memory_left_bytes; /* of a GPU as it was opened; else 0 */
    int n_devices;        /* GPUs that workers take in turn; else 0 */
    uint64_t cache_bytes; /* of a GPU's last cache; else 0 */
    bool decode_only;     /* weights of one byte: no training, no losses */
    bool fp8_copies;      /* of weights, beside the others: pl_model_fp8_bytes */
    void *self;           /* the backend's own state */
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
    const char *precision; /* "auto", "f32", "bf16"; "f16": cpu; "int8": to decode
                              only; "fp8": cuda */
    bool device_turns;     /* ordinals past the last device begin again at 0 */
} pl_backend_options;

/* ERR_UNSUPPORTED names what this build or machine lacks. */
PL_MUST_CHECK pl_status pl_backend_open(const pl_backend_options *options,
                                        pl_backend **out);
void pl_backend_close(pl_backend **backend);

#ifdef __cplusplus
}
#endif
#endif
