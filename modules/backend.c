/* Chooses the backend that executes the operations. "auto" takes the cuda backend if
 * the machine has a CUDA device that can compute in the requested precision, else the
 * cpu backend, which in turn picks the kernels and the precision that suit the
 * machine. */
#include "modules/backend.h"
#include "modules/cpu/cpu.h"
#include "modules/ref/ref.h"
#include <stdio.h>

#ifdef PL_HAVE_CUDA
#include "modules/cuda/cuda.h"
#else
static pl_status cuda_backend_create(const pl_backend_options *options,
                                     pl_backend **out)
{
    (void)options, (void)out;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "this build has no cuda backend: it was made where nvcc was not "
                   "found, or with PL_CUDA=OFF; choose backend cpu");
}
static void cuda_backend_destroy(pl_backend **backend)
{
    /* never called in a build without the cuda backend */
    *backend = NULL;
}
static bool cuda_has_device(void)
{
    return false;
}
#endif

pl_status pl_backend_open(const pl_backend_options *options, pl_backend **out)
{
    const char *name = options->name;
    const char *precision = options->precision ? options->precision : "auto";
    const bool is_cuda = strcmp(name, "cuda") == 0, is_ref = strcmp(name, "ref") == 0;
    *out = NULL;
    if (options->n_threads < 1)
        return pl_fail(PL_ERR_CONFIG,
                       "the backend cannot run %d threads; give at least 1",
                       options->n_threads);
    if (strcmp(name, "auto") == 0) {
        /* Uses the cpu only if cuda does not support what is requested. A device that
         * exists but fails is an error, because without a message the work would become
         * many times slower. */
        char why[400];
        pl_backend_options chosen = *options;
        chosen.name = "cuda";
        const pl_status status = pl_backend_open(&chosen, out);
        if (status == PL_OK)
            return PL_OK;
        (void)pl_copy_text(why, sizeof why, pl_last_error());
        if (status == PL_ERR_DEVICE)
            return pl_fail(status, "%s; choose backend cpu to work without the device",
                           why);
        if (status != PL_ERR_UNSUPPORTED)
            return status;
        chosen.name = "cpu";
        PL_CHECK(pl_backend_open(&chosen, out));
        if (cuda_has_device())
            snprintf(
                (*out)->remark, sizeof(*out)->remark,
                "backend auto uses the cpu although this machine has a CUDA device: %s",
                why);
        return PL_OK;
    }

    /* Refuses int8 or f16 if the backend never has it. Each backend checks the rest
     * itself. */
    if (!pl_lists_word("auto f32 bf16 f16 int8", ' ', precision))
        return pl_fail(PL_ERR_CONFIG,
                       "unknown precision \"%s\"; choose auto, f32, bf16, f16 or int8",
                       precision);
    if (strcmp(precision, "int8") == 0 && is_ref)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the ref backend has no int8; choose backend cpu or cuda");
    if (strcmp(precision, "f16") == 0 && (is_cuda || is_ref))
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the %s backend has no f16; choose backend cpu or precision f32",
                       name);

    if (is_ref)
        return ref_backend_create(options, out);
    if (strcmp(name, "cpu") == 0)
        return cpu_backend_create(options, "auto", out);
    if (is_cuda)
        return cuda_backend_create(options, out);
    return pl_fail(PL_ERR_CONFIG,
                   "unknown backend \"%s\"; choose auto, cpu, cuda or ref", name);
}

void pl_backend_kind(const pl_backend *backend, char kind[PL_DEVICE_MAX])
{
    if (backend->n_threads > 1)
        snprintf(kind, PL_DEVICE_MAX, "%.80s %dt", backend->device, backend->n_threads);
    else
        pl_copy_text(kind, PL_DEVICE_MAX, backend->device);
}

void pl_backend_close(pl_backend **backend)
{
    if (!*backend)
        return;
    if (strcmp((*backend)->name, "ref") == 0)
        ref_backend_destroy(backend);
    else if (strcmp((*backend)->name, "cuda") == 0)
        cuda_backend_destroy(backend);
    else
        cpu_backend_destroy(backend);
}
