/* The reference backend: its weights and its table of operations. */
#include "modules/ref/ref.h"

/* A weight is its master, which is borrowed from the model's parameter block. */
const float *ref_master(const pl_weight *weight)
{
    return (const float *)weight;
}

static pl_status ref_sync(pl_backend *be)
{
    (void)be;
    return PL_OK;
}

static void ref_act_to_float(pl_backend *be, float *out, const pl_act *in, size_t n)
{
    (void)be;
    memcpy(out, in, n * sizeof *out);
}

static void ref_act_from_float(pl_backend *be, pl_act *out, const float *in, size_t n)
{
    (void)be;
    memcpy(out, in, n * sizeof *in);
}

static pl_status ref_weight_create(pl_backend *be, const float *master, int O, int I,
                                   pl_weight **out)
{
    (void)be, (void)O, (void)I;
    *out = (pl_weight *)(uintptr_t)master;
    return PL_OK;
}

static void ref_weight_destroy(pl_backend *be, pl_weight **weight)
{
    (void)be;
    *weight = NULL;
}

static void ref_weights_refresh(pl_backend *be, pl_weight *const *weights, int n)
{
    (void)be, (void)weights, (void)n;
}

static const pl_ops ref_ops = {
#define ROW(op)  .op = ref_##op,
#define HOST(op) .op = pl_host_##op,
    PL_OPS_OF_MEMORY(HOST) PL_OPS_OF_CASTS(ROW) PL_OPS_OF_WEIGHTS(ROW)
        PL_OPS_OF_MODELS(ROW) PL_OPS_OF_STEPS(HOST)
#undef ROW
#undef HOST
};

pl_status ref_backend_create(const pl_backend_options *options, pl_backend **out)
{
    *out = NULL;
    if (options->precision && strcmp(options->precision, "bf16") == 0)
        return pl_fail(PL_ERR_UNSUPPORTED, "the ref backend computes in f32 only; set "
                                           "precision f32 or choose backend cpu");
    pl_backend *be = pl_alloc(sizeof *be);
    be->ops = &ref_ops;
    be->name = "ref";
    pl_copy_text(be->device, sizeof be->device, "ref f32");
    be->act = PL_F32;
    be->n_threads = 1;
    *out = be;
    return PL_OK;
}

void ref_backend_destroy(pl_backend **backend)
{
    pl_free(*backend);
    *backend = NULL;
}
