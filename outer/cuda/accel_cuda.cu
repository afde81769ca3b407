/* Opening a device, and moving bytes to and from it. */
#include "outer/cuda/accel_inside.cuh"

int pl_accel_count(void)
{
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) == cudaSuccess)
        return n_devices;
    (void)cudaGetLastError(); /* it has been told */
    return 0;
}

/* Without choosing it: that would take some of its memory for good. */
static pl_status describe_device(int ordinal, cudaDeviceProp *properties)
{
    int n_devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error != cudaSuccess || n_devices < 1) {
        (void)cudaGetLastError();
        return pl_fail(PL_ERR_UNSUPPORTED, "this machine has no CUDA device (%s)",
                       error == cudaSuccess ? "the driver lists none"
                                            : cudaGetErrorString(error));
    }
    if (ordinal < 0 || ordinal >= n_devices)
        return pl_fail(PL_ERR_CONFIG, "there is no CUDA device %d; the last is %d",
                       ordinal, n_devices - 1);
    PL_RETURN_IF(device_check(cudaGetDeviceProperties(properties, ordinal),
                              "asking what a device is"));
    if (properties->major < 8)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "%s has compute capability %d.%d; the kernels need 8.0",
                       properties->name, properties->major, properties->minor);
    return PL_OK;
}

pl_status pl_accel_check(int ordinal)
{
    cudaDeviceProp properties;
    return describe_device(ordinal, &properties);
}

static pl_status choose_device(int ordinal, pl_accel *accel)
{
    cudaDeviceProp properties;
    PL_RETURN_IF(describe_device(ordinal, &properties));
    PL_RETURN_IF(device_check(cudaSetDevice(ordinal), "choosing a device"));
    snprintf(accel->name, sizeof accel->name, "%s", properties.name);
    return PL_OK;
}

static pl_status open_on(pl_accel *accel, int ordinal)
{
    void *flag = NULL;
    PL_RETURN_IF(choose_device(ordinal, accel));
    if (!accel->stream) {
        PL_RETURN_IF(device_check(
            cudaStreamCreateWithFlags(&accel->stream, cudaStreamNonBlocking),
            "a stream"));
        accel->owns_stream = true;
    }
    PL_RETURN_IF(transit_open(&accel->transit));
    PL_RETURN_IF(device_check(cudaMalloc(&flag, sizeof(unsigned)), "a flag"));
    accel->first_bad = static_cast<unsigned *>(flag);
    return PL_OK;
}

pl_status pl_accel_open(int ordinal, void *stream, pl_accel **out)
{
    *out = NULL;
    pl_accel *accel = static_cast<pl_accel *>(pl_alloc(sizeof *accel));
    accel->stream = static_cast<cudaStream_t>(stream);
    const pl_status status = open_on(accel, ordinal);
    if (status != PL_OK)
        pl_accel_close(&accel);
    *out = accel;
    return status;
}

void pl_accel_close(pl_accel **out)
{
    pl_accel *accel = *out;
    *out = NULL;
    if (!accel)
        return;
    if (accel->stream)
        (void)cudaStreamSynchronize(accel->stream);
    (void)cudaFree(accel->scratch);
    (void)cudaFree(accel->first_bad);
    transit_close(&accel->transit);
    if (accel->owns_stream)
        (void)cudaStreamDestroy(accel->stream);
    pl_free(accel);
}

const char *pl_accel_name(const pl_accel *accel)
{
    return accel->name;
}

/* ---- memory ---- */

pl_status pl_accel_alloc(pl_accel *, size_t bytes, const char *what, void **out)
{
    *out = NULL;
    return device_check(cudaMalloc(out, bytes ? bytes : 1), what);
}

void pl_accel_free(pl_accel *, void *memory)
{
    (void)cudaFree(memory);
}

/* The kernels that use the old block are over when cudaFree returns. */
pl_status accel_scratch(pl_accel *accel, size_t bytes, uint8_t **out)
{
    void *grown = NULL;
    *out = accel->scratch;
    if (bytes <= accel->scratch_bytes)
        return PL_OK;
    PL_RETURN_IF(pl_accel_sync(accel));
    (void)cudaFree(accel->scratch);
    accel->scratch = NULL;
    accel->scratch_bytes = 0;
    PL_RETURN_IF(
        device_check(cudaMalloc(&grown, bytes), "scratch of steps and codecs"));
    accel->scratch = *out = static_cast<uint8_t *>(grown);
    accel->scratch_bytes = bytes;
    return PL_OK;
}

/* ---- copies ---- */

pl_status pl_accel_upload(pl_accel *accel, void *device, const void *host, size_t bytes)
{
    return transit_upload(&accel->transit, accel->stream, device, host, bytes);
}

pl_status pl_accel_download(pl_accel *accel, void *host, const void *device,
                            size_t bytes)
{
    return transit_download(&accel->transit, accel->stream, host, device, bytes);
}

pl_status pl_accel_sync(pl_accel *accel)
{
    return device_sync(accel->stream, "a step or codec");
}

pl_status pl_accel_clear(pl_accel *accel, float *values, size_t n)
{
    return device_check(cudaMemsetAsync(values, 0, n * sizeof *values, accel->stream),
                        "clearing a vector");
}

/* ---- flags ---- */

pl_status accel_flag_clear(pl_accel *accel)
{
    return device_check(
        cudaMemsetAsync(accel->first_bad, 0xff, sizeof(unsigned), accel->stream),
        "a flag");
}

pl_status accel_flag_read(pl_accel *accel, const char *what, unsigned *first_bad)
{
    PL_RETURN_IF(device_sync(accel->stream, what));
    return pl_accel_download(accel, first_bad, accel->first_bad, sizeof *first_bad);
}
