/* Opens the cuda backend, allocates its memory, and holds its table of operations. */
#include "modules/cuda/cuda.h"
#include "modules/cuda/ops_cuda.cuh"
#include <stdio.h>

/* least compute capability with bf16 tensor cores and asynchronous copies; older
 * devices are refused */
enum { CAPABILITY_MIN = 8 };

/* ---- failures ---- */

void cuda_note_failure(cuda_state *self, pl_status status)
{
    if (status == PL_OK || self->failure != PL_OK)
        return;
    self->failure = status;
    (void)pl_copy_text(self->failure_text, sizeof self->failure_text, pl_last_error());
}

/* Reports the first failure, and forgets it. */
static pl_status take_failure(cuda_state *self)
{
    const pl_status status = self->failure;
    self->failure = PL_OK;
    return status == PL_OK ? PL_OK : pl_fail(status, "%s", self->failure_text);
}

pl_status cuda_sync(pl_backend *be)
{
    cuda_state *self = cuda_self(be);
    cuda_note_failure(self, device_sync(self->stream, "running operations"));
    return take_failure(self);
}

void cuda_post(pl_backend *be, int number, const void *device, size_t bytes)
{
    cuda_state *self = cuda_self(be);
    cuda_note_failure(
        self, transit_post(&self->transit, self->stream, number, device, bytes));
}

pl_status cuda_collect(pl_backend *be, int number, void *host, size_t bytes)
{
    cuda_state *self = cuda_self(be);
    /* a launch that was refused leaves its error only here */
    cuda_note_failure(self, device_check(cudaGetLastError(), "running operations"));
    cuda_note_failure(self, transit_collect(&self->transit, number, host, bytes));
    return take_failure(self);
}

/* ---- memory ---- */

static pl_status cuda_alloc(pl_backend *be, size_t bytes, const char *what, void **out)
{
    /* cuda_stream comes first, because it chooses the device */
    const cudaStream_t stream = cuda_stream(be);
    *out = NULL;
    PL_CHECK(device_check(cudaMalloc(out, bytes ? bytes : 1), what));
    const pl_status status =
        device_check(cudaMemsetAsync(*out, 0, bytes, stream), what);
    if (status != PL_OK) {
        (void)cudaFree(*out);
        *out = NULL;
    }
    return status;
}

/* cudaFree waits for work that is still running, so kernels may still use the memory
 * when this function is called. */
static void cuda_release(pl_backend *be, void *memory)
{
    cuda_state *self = cuda_self(be);
    cuda_note_failure(self, device_check(cudaFree(memory), "freeing memory"));
}

static void cuda_upload(pl_backend *be, void *device, const void *host, size_t bytes)
{
    cuda_state *self = cuda_self(be);
    cuda_note_failure(
        self, transit_upload(&self->transit, self->stream, device, host, bytes));
}

static void cuda_download(pl_backend *be, void *host, const void *device, size_t bytes)
{
    cuda_state *self = cuda_self(be);
    cuda_note_failure(
        self, transit_download(&self->transit, self->stream, host, device, bytes));
}

static void cuda_fill_zero(pl_backend *be, void *device, size_t bytes)
{
    const cudaError_t error = cudaMemsetAsync(device, 0, bytes, cuda_stream(be));
    cuda_note_failure(cuda_self(be), device_check(error, "filling memory with zeros"));
}

void *cuda_scratch(cuda_state *self, size_t bytes)
{
    if (bytes <= self->scratch_bytes)
        return self->scratch;
    /* While a graph is captured, the driver can neither free nor give memory. The work
     * is then done without a graph, and that call makes the buffer grow. */
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    (void)cudaStreamIsCapturing(self->stream, &capturing);
    if (capturing != cudaStreamCaptureStatusNone) {
        cuda_note_failure(self,
                          pl_fail(PL_ERR_DEVICE,
                                  "the operations' buffer must grow to %zu bytes, "
                                  "which a capture does not allow",
                                  bytes));
        return NULL;
    }
    (void)cudaFree(self->scratch);
    self->scratch = NULL;
    self->scratch_bytes = 0;
    self->generation++;
    pl_status status =
        device_check(cudaMalloc(&self->scratch, bytes), "the operations' buffer");
    if (status == PL_OK)
        status = device_clear_for_libraries(self->scratch, bytes, self->stream);
    cuda_note_failure(self, status);
    if (status != PL_OK) {
        (void)cudaFree(self->scratch);
        return self->scratch = NULL;
    }
    self->scratch_bytes = bytes;
    return self->scratch;
}

/* ---- the table ---- */

static pl_ops make_ops_table()
{
    pl_ops ops = {};
#define PUT(op) ops.op = cuda_##op;
    PL_OPS_OF_MEMORY(PUT)
    PL_OPS_OF_CASTS(PUT)
    PL_OPS_OF_WEIGHTS(PUT)
    PL_OPS_OF_MODELS(PUT)
    PL_OPS_OF_STEPS(PUT)
#undef PUT
    return ops;
}

static const pl_ops cuda_ops = make_ops_table();

/* ---- opening ---- */

static pl_status find_device(const pl_backend_options *options, int *out,
                             cudaDeviceProp *properties)
{
    int ordinal = options->device;
    int n = 0;
    const cudaError_t error = cudaGetDeviceCount(&n);
    if (error != cudaSuccess || n == 0)
        return pl_fail(
            PL_ERR_UNSUPPORTED,
            "this machine has no usable CUDA device (%s); choose backend cpu",
            error == cudaSuccess ? "the driver lists none" : cudaGetErrorString(error));
    if (options->device_turns && ordinal >= n)
        ordinal %= n;
    if (ordinal < 0 || ordinal >= n)
        return pl_fail(PL_ERR_CONFIG,
                       "CUDA device %d does not exist; this machine has %d, numbered "
                       "from 0",
                       ordinal, n);
    *out = ordinal;
    PL_CHECK(device_check(cudaGetDeviceProperties(properties, ordinal),
                          "reading the properties of the device"));
    if (properties->major < CAPABILITY_MIN)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "CUDA device %d (%s) has compute capability %d.%d; the cuda "
                       "backend needs 8.0 or higher: choose backend cpu",
                       ordinal, properties->name, properties->major, properties->minor);
    return PL_OK;
}

static pl_status start_device(cuda_state *self)
{
    PL_CHECK(device_check(cudaSetDevice(self->device), "selecting the device"));
    PL_CHECK(
        device_check(cudaStreamCreateWithFlags(&self->stream, cudaStreamNonBlocking),
                     "creating a stream"));
    PL_CHECK(transit_open(&self->transit));
    PL_CHECK(gemm_cuda_open(self->stream, &self->gemm));
    /* The memory plan needs the size of the GPU's memory and the number of GPUs. */
    size_t left = 0, all = 0;
    PL_CHECK(
        device_check(cudaMemGetInfo(&left, &all), "reading the size of its memory"));
    self->backend.memory_bytes = all;
    self->backend.memory_left_bytes = left;
    return device_check(cudaGetDeviceCount(&self->backend.n_devices),
                        "counting the devices");
}

/* Whether groups of warps can multiply (mma.cuh). Only devices of compute capability
 * 9.0 have these instructions, and only a build with code for exactly these devices
 * uses them. */
static bool has_group_products(const cudaDeviceProp *p)
{
#if !defined(__CUDACC__) || defined(PL_CUDA_GROUP_PRODUCTS)
    return p->major == 9 && p->minor == 0;
#else
    (void)p;
    return false;
#endif
}

/* Backends with the same device text must give the same bytes. So the text has what
 * decides them: the model of the device; the number of its multiprocessors that this
 * process may use, by which cuBLAS chooses algorithms; the version of cuBLAS and what
 * it chooses; the version of the toolkit, whose functions (expf) our kernels contain;
 * and whether attention uses wgmma. */
static pl_status write_device_text(cuda_state *self, const cudaDeviceProp *p)
{
    char library[32];
    int multiprocessors = p->multiProcessorCount;
    PL_CHECK(gemm_cuda_describe(self->gemm, library, sizeof library));
    (void)cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount,
                                 self->device);
    snprintf(self->backend.device, sizeof self->backend.device,
             "cuda %s%.32s sm_%d%d x%d %.20s nvcc %d.%d%s",
             self->backend.decode_only ? "int8 bf16 " : "bf16 ", p->name, p->major,
             p->minor, multiprocessors, library, CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10, self->group_products ? " wgmma" : "");
    return PL_OK;
}

static bool is_precision(const pl_backend_options *options, const char *name)
{
    return options->precision && strcmp(options->precision, name) == 0;
}

pl_status cuda_backend_create(const pl_backend_options *options, pl_backend **out)
{
    cudaDeviceProp p;
    int ordinal = 0;
    *out = NULL;
    PL_CHECK(find_device(options, &ordinal, &p));
    if (is_precision(options, "f32"))
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the cuda backend computes in bf16 only; set "
                       "precision bf16 or choose backend cpu");
    cuda_state *self = static_cast<cuda_state *>(pl_alloc(sizeof *self));
    self->device = ordinal;
    self->backend.ops = &cuda_ops;
    self->backend.name = "cuda";
    self->backend.act = PL_BF16;
    self->backend.n_threads = 1;
    self->backend.cache_bytes = (uint64_t)p.l2CacheSize;
    self->backend.decode_only = is_precision(options, "int8");
    self->group_products = has_group_products(&p);
    self->launches_early = device_launches_early(p.major * 100 + p.minor * 10);
    self->backend.self = self;
    *out = &self->backend;
    pl_status status = start_device(self);
    if (status == PL_OK)
        status = write_device_text(self, &p);
    if (status != PL_OK)
        cuda_backend_destroy(out);
    return status;
}

bool cuda_has_device(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
}

void cuda_backend_destroy(pl_backend **backend)
{
    if (!*backend)
        return;
    cuda_state *self = cuda_self(*backend);
    if (self->stream)
        (void)cudaStreamSynchronize(self->stream);
    gemm_cuda_close(&self->gemm);
    transit_close(&self->transit);
    (void)cudaFree(self->scratch);
    (void)cudaFree(self->rope);
    if (self->stream)
        (void)cudaStreamDestroy(self->stream);
    pl_free(self);
    *backend = NULL;
}
