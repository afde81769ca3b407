/* Opening a device, and moving bytes to and from it. */
#include "outer/cuda/accel_inside.cuh"

static pl_status check_device(int ordinal, pl_accel *accel)
{
    cudaDeviceProp properties;
    int n_devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error != cudaSuccess || n_devices < 1) {
        (void)cudaGetLastError();
        return pl_fail(PL_ERR_UNSUPPORTED, "this machine has no CUDA device (%s)",
                       cudaGetErrorString(error));
    }
    if (ordinal < 0 || ordinal >= n_devices)
        return pl_fail(PL_ERR_CONFIG, "there is no CUDA device %d; the last is %d",
                       ordinal, n_devices - 1);
    PL_RETURN_IF(device_check(cudaSetDevice(ordinal), "choosing a device"));
    PL_RETURN_IF(device_check(cudaGetDeviceProperties(&properties, ordinal),
                              "asking what a device is"));
    if (properties.major < 8)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "%s has compute capability %d.%d; the kernels need 8.0",
                       properties.name, properties.major, properties.minor);
    snprintf(accel->name, sizeof accel->name, "%s", properties.name);
    return PL_OK;
}

static pl_status make_stages(pl_accel *accel)
{
    for (int i = 0; i < ACCEL_STAGES; i++) {
        void *stage = NULL;
        PL_RETURN_IF(
            device_check(cudaHostAlloc(&stage, ACCEL_STAGE_BYTES, cudaHostAllocDefault),
                         "page-locked memory"));
        accel->stages[i] = static_cast<uint8_t *>(stage);
        PL_RETURN_IF(device_check(
            cudaEventCreateWithFlags(&accel->passed[i], cudaEventDisableTiming),
            "an event"));
    }
    return PL_OK;
}

static pl_status open_on(pl_accel *accel, int ordinal)
{
    void *flag = NULL;
    PL_RETURN_IF(check_device(ordinal, accel));
    if (!accel->stream) {
        PL_RETURN_IF(device_check(
            cudaStreamCreateWithFlags(&accel->stream, cudaStreamNonBlocking),
            "a stream"));
        accel->owns_stream = true;
    }
    PL_RETURN_IF(make_stages(accel));
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
    for (int i = 0; i < ACCEL_STAGES; i++) {
        if (accel->passed[i])
            (void)cudaEventDestroy(accel->passed[i]);
        if (accel->stages[i])
            (void)cudaFreeHost(accel->stages[i]);
    }
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

static size_t piece_at(size_t bytes, size_t piece)
{
    const size_t left = bytes - piece * ACCEL_STAGE_BYTES;
    return left < ACCEL_STAGE_BYTES ? left : (size_t)ACCEL_STAGE_BYTES;
}

static size_t pieces_of(size_t bytes)
{
    return (bytes + ACCEL_STAGE_BYTES - 1) / ACCEL_STAGE_BYTES;
}

pl_status pl_accel_upload(pl_accel *accel, void *device, const void *host, size_t bytes)
{
    uint8_t *to = static_cast<uint8_t *>(device);
    const uint8_t *from = static_cast<const uint8_t *>(host);
    for (size_t i = 0; i < pieces_of(bytes); i++) {
        const size_t at = i * ACCEL_STAGE_BYTES, n = piece_at(bytes, i);
        uint8_t *stage = accel->stages[i % ACCEL_STAGES];
        const cudaEvent_t passed = accel->passed[i % ACCEL_STAGES];
        PL_RETURN_IF(device_check(cudaEventSynchronize(passed), "an upload"));
        memcpy(stage, from + at, n);
        PL_RETURN_IF(device_check(
            cudaMemcpyAsync(to + at, stage, n, cudaMemcpyHostToDevice, accel->stream),
            "an upload"));
        PL_RETURN_IF(device_check(cudaEventRecord(passed, accel->stream), "an upload"));
    }
    return PL_OK;
}

/* Piece i of a download onto its way, and off it. */
static pl_status send_piece(pl_accel *accel, const uint8_t *from, size_t bytes,
                            size_t i)
{
    const cudaEvent_t passed = accel->passed[i % ACCEL_STAGES];
    PL_RETURN_IF(device_check(cudaEventSynchronize(passed), "a download"));
    PL_RETURN_IF(device_check(
        cudaMemcpyAsync(accel->stages[i % ACCEL_STAGES], from + i * ACCEL_STAGE_BYTES,
                        piece_at(bytes, i), cudaMemcpyDeviceToHost, accel->stream),
        "a download"));
    return device_check(cudaEventRecord(passed, accel->stream), "a download");
}

static pl_status take_piece(pl_accel *accel, uint8_t *to, size_t bytes, size_t i)
{
    PL_RETURN_IF(device_check(cudaEventSynchronize(accel->passed[i % ACCEL_STAGES]),
                              "a download"));
    memcpy(to + i * ACCEL_STAGE_BYTES, accel->stages[i % ACCEL_STAGES],
           piece_at(bytes, i));
    return PL_OK;
}

pl_status pl_accel_download(pl_accel *accel, void *host, const void *device,
                            size_t bytes)
{
    uint8_t *to = static_cast<uint8_t *>(host);
    const uint8_t *from = static_cast<const uint8_t *>(device);
    const size_t n = pieces_of(bytes);
    for (size_t i = 0; i <= n; i++) {
        if (i < n)
            PL_RETURN_IF(send_piece(accel, from, bytes, i));
        if (i > 0)
            PL_RETURN_IF(take_piece(accel, to, bytes, i - 1));
    }
    return PL_OK;
}

pl_status pl_accel_sync(pl_accel *accel)
{
    return device_sync(accel->stream, "a step or codec");
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
