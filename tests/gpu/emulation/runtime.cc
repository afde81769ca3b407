/* Replaces the CUDA runtime by functions that run on the host. It has one device (or
 * EMULATION_DEVICES devices, which share one memory) of compute capability 9.0 (or
 * EMULATION_CAPABILITY, such as 80), and streams that do nothing before a thread waits
 * for them. So everything happens as late as it may on a device. For example, a copy
 * from page-locked memory reads this memory only when the stream runs the copy. Code
 * that overwrites the memory earlier, or reads a result without waiting, gets wrong
 * bytes here, as may happen on a device. A copy from other memory reads the memory
 * during the call, and a copy to other memory is complete when the call returns, as the
 * documentation of the runtime says.
 *
 * Between cudaStreamBeginCapture and cudaStreamEndCapture, calls are only recorded.
 * Each cudaGraphLaunch runs the recorded calls. A forbidden call makes the capture
 * invalid.
 *
 * Several threads may call these functions; a lock lets one thread run at a time. Each
 * thread has its own last error and its own current device, as with the real
 * runtime. */
#include "tests/gpu/emulation/machine.h"
#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <thread>
#include <vector>

struct emulated_graph {
    std::vector<std::function<void()>> steps;
};
struct emulated_stream {
    emulated_graph *capture;
    bool spoilt; /* the capture is invalid */
    bool global; /* calls of other threads can make the capture invalid, too */
    std::thread::id capturer;
    int device;
    /* this stream and the default stream wait for each other */
    bool blocking;
    std::deque<std::function<void()>> pending;
    uint64_t issued, done; /* number of steps that were added, and that have run */
};
struct emulated_event {
    emulated_stream *stream; /* NULL if the event was not recorded */
    uint64_t issued;
};

namespace
{
std::recursive_mutex turn;
#define TAKE_TURN std::lock_guard<std::recursive_mutex> mine(turn)

thread_local cudaError_t last_error;
thread_local int current_device;
emulated_stream default_stream;
std::set<emulated_stream *> streams = {&default_stream};
std::map<const void *, int> shared_limits;
std::map<const uint8_t *, size_t> page_locked;
bool captures_refused;
uint64_t n_works, n_calls;

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

/* Runs the steps of the stream up to number `until`. */
void drain(emulated_stream *stream, uint64_t until)
{
    if (stream->done >= until)
        return;
    memory_open();
    while (stream->done < until && !stream->pending.empty() && !machine_has_finding()) {
        const std::function<void()> step = stream->pending.front();
        stream->pending.pop_front();
        step();
        stream->done++;
        n_works++;
    }
    memory_close();
    /* After its first failure a device does nothing more. */
    if (machine_has_finding()) {
        stream->pending.clear();
        stream->done = stream->issued;
    }
}

void drain_all(void)
{
    for (emulated_stream *stream : streams)
        drain(stream, stream->issued);
}

/* The default stream, and streams made without cudaStreamNonBlocking, wait for each
 * other. */
void take_turns(emulated_stream *stream)
{
    for (emulated_stream *other : streams)
        if (other != stream &&
            (stream == &default_stream ? other->blocking
                                       : stream->blocking && other == &default_stream))
            drain(other, other->issued);
}

/* Returns whether a capture forbids the present call, which waits, or uses memory
 * without a stream. If so, the capture becomes invalid. */
bool spoils_capture(void)
{
    bool found = false;
    for (emulated_stream *stream : streams)
        if (stream->capture &&
            (stream->global || stream->capturer == std::this_thread::get_id()))
            found = stream->spoilt = true;
    return found;
}

bool is_page_locked(const void *memory)
{
    const uint8_t *at = static_cast<const uint8_t *>(memory);
    auto i = page_locked.upper_bound(at);
    return i != page_locked.begin() && at < std::prev(i)->first + std::prev(i)->second;
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
    TAKE_TURN;
    if (machine_has_finding())
        return note(cudaErrorLaunchFailure);
    emulated_stream *s = stream_of(stream);
    if (s != &default_stream && s->device != current_device) {
        machine_find(false,
                     "work for a stream of device %d by a thread whose device is %d",
                     s->device, current_device);
        return note(cudaErrorInvalidValue);
    }
    if (s->capture) {
        s->capture->steps.push_back(step);
        return cudaSuccess;
    }
    take_turns(s);
    s->pending.push_back(step);
    s->issued++;
    n_calls++;
    return cudaSuccess;
}

uint64_t emulation_n_works(void)
{
    return n_works;
}

uint64_t emulation_n_calls(void)
{
    return n_calls;
}

void runtime_finish(void)
{
    TAKE_TURN;
    drain_all();
}

/* ---- device ---- */

static int n_devices(void)
{
    const char *wanted = getenv("EMULATION_DEVICES");
    return wanted ? atoi(wanted) : 1;
}

static int capability(void)
{
    const char *wanted = getenv("EMULATION_CAPABILITY");
    return wanted ? atoi(wanted) : 90;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = n_devices();
    return *count > 0 ? cudaSuccess : note(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= n_devices())
        return note(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    if (device < 0 || device >= n_devices())
        return note(cudaErrorInvalidDevice);
    memset((void *)properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "emulated");
    properties->totalGlobalMem = memory_total_bytes();
    properties->major = capability() / 10;
    properties->minor = capability() % 10;
    properties->multiProcessorCount = 3;
    properties->sharedMemPerBlockOptin = SHARED_BYTES_MAX;
    properties->l2CacheSize = 1 << 15;
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
    TAKE_TURN;
    *free_bytes = memory_free_bytes();
    *total_bytes = memory_total_bytes();
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    TAKE_TURN;
    if (spoils_capture())
        return note(cudaErrorStreamCaptureUnsupported);
    drain_all();
    return machine_has_finding() ? note(cudaErrorLaunchFailure) : cudaSuccess;
}

/* ---- errors ---- */

cudaError_t cudaPeekAtLastError(void)
{
    TAKE_TURN;
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
        break;
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    }
    return "an emulated error";
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    TAKE_TURN;
    *memory = NULL;
    if (spoils_capture())
        return note(cudaErrorStreamCaptureUnsupported);
    *memory = memory_allocate(bytes ? bytes : 1);
    return *memory ? cudaSuccess : note(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void *memory)
{
    TAKE_TURN;
    if (spoils_capture())
        return note(cudaErrorStreamCaptureUnsupported);
    drain_all();
    return !memory || memory_free(memory) ? cudaSuccess : note(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    TAKE_TURN;
    (void)flags;
    *memory = malloc(bytes ? bytes : 1);
    if (!*memory)
        return note(cudaErrorMemoryAllocation);
    page_locked[static_cast<const uint8_t *>(*memory)] = bytes ? bytes : 1;
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void *memory)
{
    TAKE_TURN;
    drain_all();
    page_locked.erase(static_cast<const uint8_t *>(memory));
    free(memory);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream)
{
    TAKE_TURN;
    if (!direction_fits(to, from, kind)) {
        machine_find(false, "a copy of %zu bytes from %p to %p has the wrong direction",
                     bytes, from, to);
        return note(cudaErrorInvalidValue);
    }
    const bool pageable_from = !memory_is_device(from) && !is_page_locked(from);
    const bool pageable_to = !memory_is_device(to) && !is_page_locked(to);
    if ((pageable_from || pageable_to) && spoils_capture()) {
        machine_find(false, "a copy of %zu bytes of pageable memory in a capture",
                     bytes);
        return note(cudaErrorStreamCaptureUnsupported);
    }
    if (pageable_from) {
        const std::string taken(static_cast<const char *>(from), bytes);
        (void)runtime_in_order(stream, [=] { copy(to, taken.data(), bytes); });
    } else {
        (void)runtime_in_order(stream, [=] { copy(to, from, bytes); });
    }
    return pageable_to ? cudaStreamSynchronize(stream) : cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    TAKE_TURN;
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    return error == cudaSuccess ? cudaStreamSynchronize(NULL) : error;
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    TAKE_TURN;
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
    TAKE_TURN;
    *stream = new emulated_stream();
    (*stream)->blocking = !(flags & cudaStreamNonBlocking);
    (*stream)->device = current_device;
    streams.insert(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    TAKE_TURN;
    drain(stream, stream->issued);
    streams.erase(stream);
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    TAKE_TURN;
    if (spoils_capture())
        return note(cudaErrorStreamCaptureUnsupported);
    drain(stream_of(stream), stream_of(stream)->issued);
    return machine_has_finding() ? note(cudaErrorLaunchFailure) : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    TAKE_TURN;
    const emulated_event until = *event;
    return runtime_in_order(stream, [=] {
        if (until.stream && streams.count(until.stream))
            drain(until.stream, until.issued);
    });
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
    TAKE_TURN;
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    TAKE_TURN;
    *event = emulated_event{stream_of(stream), stream_of(stream)->issued};
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    TAKE_TURN;
    if (spoils_capture())
        return note(cudaErrorStreamCaptureUnsupported);
    if (event->stream && streams.count(event->stream))
        drain(event->stream, event->issued);
    return machine_has_finding() ? note(cudaErrorLaunchFailure) : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t)
{
    *milliseconds = 1.0f;
    return cudaSuccess;
}

/* ---- graphs ---- */

void emulation_refuse_captures(bool refuse)
{
    captures_refused = refuse;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    TAKE_TURN;
    if (!stream || stream->capture || captures_refused)
        return note(cudaErrorStreamCaptureUnsupported);
    stream->capture = new emulated_graph();
    stream->spoilt = false;
    stream->global = mode == cudaStreamCaptureModeGlobal;
    stream->capturer = std::this_thread::get_id();
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *out)
{
    TAKE_TURN;
    *out = !stream || !stream->capture ? cudaStreamCaptureStatusNone
           : stream->spoilt            ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    TAKE_TURN;
    *graph = stream ? stream->capture : NULL;
    if (!*graph)
        return note(cudaErrorInvalidValue);
    stream->capture = NULL;
    if (!stream->spoilt)
        return cudaSuccess;
    delete *graph;
    *graph = NULL;
    return note(cudaErrorStreamCaptureInvalidated);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long)
{
    TAKE_TURN;
    *exec = new emulated_graph(*graph);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    TAKE_TURN;
    const uint64_t before = n_calls;
    for (const std::function<void()> &step : exec->steps)
        (void)runtime_in_order(stream, step);
    n_calls = before + 1;
    return machine_has_finding() ? note(cudaErrorLaunchFailure) : cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    TAKE_TURN;
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    TAKE_TURN;
    delete exec;
    return cudaSuccess;
}

/* ---- launches ---- */

cudaError_t emulated_set_attribute(const void *function, cudaFuncAttribute attribute,
                                   int value)
{
    TAKE_TURN;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || value > SHARED_BYTES_MAX)
        return note(cudaErrorInvalidValue);
    shared_limits[function] = value;
    return cudaSuccess;
}

/* Refuses a launch that a device would refuse, and says why. */
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
    TAKE_TURN;
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
