/* The CUDA runtime on the host: one device, everything done at once, except between
 * cudaStreamBeginCapture and cudaStreamEndCapture, where it is noted and done by each
 * cudaGraphLaunch. */
#include "tests/emulation/machine.h"
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <vector>

struct emulated_graph {
    std::vector<std::function<void()>> steps;
};
struct emulated_stream {
    emulated_graph *capture;
};
struct emulated_event {
    int unused;
};

namespace
{
cudaError_t last_error;
emulated_stream default_stream;
std::map<const void *, int> shared_limits;

cudaError_t note(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

emulated_stream *stream_of(cudaStream_t stream)
{
    return stream ? stream : &default_stream;
}

void copy(void *to, const void *from, size_t bytes)
{
    const bool in = memory_is_device(to), out = memory_is_device(from);
    if ((in && !memory_host_check("copy to the device", to, bytes)) ||
        (out && !memory_host_check("copy from the device", from, bytes)))
        return;
    if (in && out)
        memory_copy_within(to, from, bytes);
    else if (in)
        memory_copy_in(to, from, bytes);
    else if (out)
        memory_copy_out(to, from, bytes);
    else
        memmove(to, from, bytes);
}

bool direction_fits(const void *to, const void *from, cudaMemcpyKind kind)
{
    if (kind == cudaMemcpyDefault)
        return true;
    const bool in = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool out = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return memory_is_device(to) == in && memory_is_device(from) == out;
}
} // namespace

cudaError_t runtime_in_order(cudaStream_t stream, const std::function<void()> &step)
{
    if (machine_has_finding())
        return note(cudaErrorLaunchFailure);
    if (stream_of(stream)->capture)
        stream_of(stream)->capture->steps.push_back(step);
    else
        step();
    return machine_has_finding() ? note(cudaErrorLaunchFailure) : cudaSuccess;
}

/* ---- device ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : note(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    if (device != 0)
        return note(cudaErrorInvalidDevice);
    memset((void *)properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "emulated");
    properties->totalGlobalMem = memory_total_bytes();
    properties->major = 9;
    properties->multiProcessorCount = 3;
    properties->sharedMemPerBlockOptin = SHARED_BYTES_MAX;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, device) != cudaSuccess)
        return cudaErrorInvalidDevice;
    *value = attribute == cudaDevAttrMultiProcessorCount      ? p.multiProcessorCount
             : attribute == cudaDevAttrComputeCapabilityMajor ? p.major
             : attribute == cudaDevAttrComputeCapabilityMinor
                 ? p.minor
                 : (int)p.sharedMemPerBlockOptin;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = memory_free_bytes();
    *total_bytes = memory_total_bytes();
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    return machine_has_finding() ? note(cudaErrorLaunchFailure) : cudaSuccess;
}

/* ---- errors ---- */

cudaError_t cudaPeekAtLastError(void)
{
    return machine_has_finding() ? cudaErrorLaunchFailure : last_error;
}
cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}
const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "an emulated error";
}
const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration";
    case cudaErrorLaunchFailure:
        return machine_finding();
    case cudaErrorInvalidValue:
    case cudaErrorNoDevice:
    case cudaErrorNotSupported:
    case cudaErrorStreamCaptureUnsupported:
        break;
    }
    return "an emulated error";
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = memory_allocate(bytes ? bytes : 1);
    return *memory ? cudaSuccess : note(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void *memory)
{
    return !memory || memory_free(memory) ? cudaSuccess : note(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    *memory = malloc(bytes ? bytes : 1);
    return *memory ? cudaSuccess : note(cudaErrorMemoryAllocation);
}
cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void *memory)
{
    free(memory);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream)
{
    if (!direction_fits(to, from, kind)) {
        machine_find(false, "a copy of %zu bytes from %p to %p has the wrong direction",
                     bytes, from, to);
        return note(cudaErrorInvalidValue);
    }
    return runtime_in_order(stream, [=] { copy(to, from, bytes); });
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    return cudaMemcpyAsync(to, from, bytes, kind, NULL);
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    return runtime_in_order(stream, [=] {
        if (memory_host_check("cudaMemset", memory, bytes))
            memory_set(memory, value, bytes);
    });
}
cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    return cudaMemsetAsync(memory, value, bytes, NULL);
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = new emulated_stream();
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream_of(stream)->capture)
        return note(cudaErrorStreamCaptureUnsupported);
    return cudaDeviceSynchronize();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned)
{
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = new emulated_event();
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return cudaDeviceSynchronize();
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t)
{
    *milliseconds = 1.0f;
    return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    if (!stream || stream->capture)
        return note(cudaErrorStreamCaptureUnsupported);
    stream->capture = new emulated_graph();
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = stream ? stream->capture : NULL;
    if (!*graph)
        return note(cudaErrorInvalidValue);
    stream->capture = NULL;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long)
{
    *exec = new emulated_graph(*graph);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t)
{
    for (const std::function<void()> &step : exec->steps)
        if (!machine_has_finding())
            step();
    return cudaDeviceSynchronize();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}

/* ---- launches ---- */

cudaError_t emulated_set_attribute(const void *function, cudaFuncAttribute attribute,
                                   int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || value > SHARED_BYTES_MAX)
        return note(cudaErrorInvalidValue);
    shared_limits[function] = value;
    return cudaSuccess;
}

/* What a device refuses, with the reason that a device does not give. */
static bool launch_fits(const emulated_call *call, dim3 grid, dim3 block, size_t shared)
{
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    const auto limit = shared_limits.find(call->kernel);
    const size_t room = limit == shared_limits.end() ? (size_t)SHARED_BYTES_DEFAULT
                                                     : (size_t)limit->second;
    if (threads < 1 || threads > 1024 || block.z > 64)
        machine_find(false, "kernel %s: a block of %u x %u x %u threads", call->name,
                     block.x, block.y, block.z);
    else if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > 0x7fffffffu ||
             grid.y > 65535 || grid.z > 65535)
        machine_find(false, "kernel %s: a grid of %u x %u x %u blocks", call->name,
                     grid.x, grid.y, grid.z);
    else if (shared > room)
        machine_find(false,
                     "kernel %s: %zu bytes of shared memory; cudaFuncSetAttribute "
                     "allows it %zu",
                     call->name, shared, room);
    else
        return true;
    return false;
}

void emulated_launch_call(const emulated_call *call, dim3 grid, dim3 block,
                          size_t shared, cudaStream_t stream)
{
    if (machine_has_finding() || !launch_fits(call, grid, block, shared)) {
        (void)note(cudaErrorLaunchFailure);
        return;
    }
    const std::string arguments((const char *)call->arguments, call->bytes);
    (void)runtime_in_order(stream, [=, kept = *call] {
        std::vector<long double> aligned(kept.bytes / sizeof(long double) + 1);
        memcpy((void *)aligned.data(), arguments.data(), kept.bytes);
        emulated_call again = kept;
        again.arguments = aligned.data();
        machine_run(&again, grid, block, shared);
    });
}
