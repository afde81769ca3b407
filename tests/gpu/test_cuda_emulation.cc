/* folder: modules; label: unit */
/* Tests the emulation of a device. It must compute what a device computes, and must
 * find mistakes of kernels. Each kernel with a mistake has a copy without it, in which
 * the emulation must find nothing. */
#include "modules/cuda/device.h"
#include "tests/gpu/emulation/emulation.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "tests/support/suite.h"

/* Allocates n zeros in device memory. */
template <class T> static T *zeros(size_t n)
{
    T *memory = NULL;
    assert_int_equal(cudaMalloc(&memory, n * sizeof(T)), cudaSuccess);
    assert_int_equal(cudaMemset(memory, 0, n * sizeof(T)), cudaSuccess);
    return memory;
}

template <class T> static T at(const T *device, size_t i)
{
    T value;
    assert_int_equal(
        cudaMemcpy(&value, device + i, sizeof value, cudaMemcpyDeviceToHost),
        cudaSuccess);
    return value;
}

static void expect_no_finding(void)
{
    const char *finding = emulation_take_finding();
    if (finding)
        fail_msg("found: %s", finding);
}

/* Expects a finding that contains both texts, and clears it. */
static void expect_finding(const char *a, const char *b)
{
    const char *finding = emulation_take_finding();
    if (!finding)
        fail_msg("nothing was found; expected \"%s\"", a);
    if (!strstr(finding, a) || !strstr(finding, b))
        fail_msg("found \"%s\" without \"%s\" and \"%s\"", finding, a, b);
}

static void in_every_order(void (*check)(void))
{
    for (int order = 0; order < EMULATION_ORDERS; order++) {
        emulation_set_order((emulation_order)order, 7);
        check();
    }
    emulation_set_order(EMULATION_FORWARD, 0);
}

/* A test that runs in every order of threads. */
#define IN_EVERY_ORDER(name)                                                           \
    static void name##_once(void);                                                     \
    PL_TEST(name)                                                                      \
    {                                                                                  \
        in_every_order(name##_once);                                                   \
    }                                                                                  \
    static void name##_once(void)

/* ---- what a device computes ---- */

static __global__ void number_kernel(int *out, int n)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if ((int)i < n)
        out[i] = (int)(i * 3u + gridDim.x);
}

IN_EVERY_ORDER(every_thread_of_a_grid_runs_once)
{
    int *out = zeros<int>(1000);
    PL_LAUNCH(number_kernel, 4, 256, 0, NULL, out, 1000);
    expect_no_finding();
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(at(out, i), i * 3 + 4);
    cudaFree(out);
}

static __global__ void place_kernel(int *out)
{
    const unsigned block =
        (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread =
        (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] +=
        (int)(block * 100 + thread);
}

IN_EVERY_ORDER(grids_and_blocks_have_three_dimensions)
{
    int *out = zeros<int>(24 * 30);
    PL_LAUNCH(place_kernel, dim3(2, 3, 4), dim3(5, 3, 2), 0, NULL, out);
    expect_no_finding();
    for (size_t i = 0; i < 24 * 30; i++)
        assert_int_equal(at(out, i), i / 30 * 100 + i % 30);
    cudaFree(out);
}

enum { TURN = 192 };

/* Several times, thread i passes a value to thread i + 1 through shared memory. */
static __global__ void turn_kernel(int *out, int times, bool static_memory)
{
    __shared__ int fixed[TURN];
    int *line = static_memory ? fixed : (int *)dynamic_shared();
    const int i = (int)threadIdx.x;
    int value = i;
    for (int k = 0; k < times; k++) {
        line[i] = value;
        __syncthreads();
        value = line[(i + 1) % TURN];
        __syncthreads();
    }
    out[i] = value;
}

IN_EVERY_ORDER(barriers_order_shared_memory)
{
    int *out = zeros<int>(TURN);
    for (int fixed = 0; fixed < 2; fixed++) {
        PL_LAUNCH(turn_kernel, 1, TURN, TURN * sizeof(int), NULL, out, 5, fixed == 1);
        expect_no_finding();
        for (size_t i = 0; i < TURN; i++)
            assert_int_equal(at(out, i), (i + 5) % TURN);
    }
    cudaFree(out);
}

static __global__ void shuffle_kernel(int *out)
{
    const int lane = (int)threadIdx.x;
    const unsigned all = 0xffffffffu;
    out[lane] = __shfl_sync(all, lane * 2, 5);
    out[32 + lane] = __shfl_xor_sync(all, lane, 7);
    out[64 + lane] = __shfl_up_sync(all, lane, 3);
    out[96 + lane] = __shfl_down_sync(all, lane, 3);
    out[128 + lane] = __shfl_down_sync(all, lane, 2, 8);
    out[160 + lane] = (int)__ballot_sync(all, lane % 3 == 0);
    out[192 + lane] = __any_sync(all, lane == 9) + 2 * __all_sync(all, lane < 31);
    out[224 + lane] = __reduce_add_sync(all, lane) + __reduce_max_sync(all, lane - 40);
}

IN_EVERY_ORDER(shuffles_and_votes_take_from_the_right_lanes)
{
    int *out = zeros<int>(256);
    unsigned thirds = 0;
    for (int lane = 0; lane < 32; lane++)
        thirds |= (lane % 3 == 0 ? 1u : 0u) << lane;
    PL_LAUNCH(shuffle_kernel, 1, 32, 0, NULL, out);
    expect_no_finding();
    for (int lane = 0; lane < 32; lane++) {
        const size_t i = (size_t)lane;
        assert_int_equal(at(out, i), 10);
        assert_int_equal(at(out, 32 + i), lane ^ 7);
        assert_int_equal(at(out, 64 + i), lane < 3 ? lane : lane - 3);
        assert_int_equal(at(out, 96 + i), lane > 28 ? lane : lane + 3);
        assert_int_equal(at(out, 128 + i), lane % 8 > 5 ? lane : lane + 2);
        assert_int_equal((unsigned)at(out, 160 + i), thirds);
        assert_int_equal(at(out, 192 + i), 1);
        assert_int_equal(at(out, 224 + i), 31 * 16 - 9);
    }
    cudaFree(out);
}

static __global__ void vote_kernel(int *out)
{
    const int n = __syncthreads_count(threadIdx.x % 5 == 0);
    const int any = __syncthreads_or(threadIdx.x == 99);
    const int all = __syncthreads_and(threadIdx.x < 99);
    out[threadIdx.x] = n * 100 + any * 10 + all;
}

IN_EVERY_ORDER(barriers_count_votes)
{
    int *out = zeros<int>(100);
    PL_LAUNCH(vote_kernel, 1, 100, 0, NULL, out);
    expect_no_finding();
    assert_int_equal(at(out, 0), 2010);
    assert_int_equal(at(out, 99), 2010);
    cudaFree(out);
}

static __global__ void count_kernel(unsigned *count, int *largest)
{
    atomicAdd(count, 2u);
    atomicMax(largest, (int)(blockIdx.x * 1000 + threadIdx.x));
}

IN_EVERY_ORDER(atomics_of_all_blocks_add_up)
{
    unsigned *count = zeros<unsigned>(1);
    int *largest = zeros<int>(1);
    PL_LAUNCH(count_kernel, 5, 64, 0, NULL, count, largest);
    expect_no_finding();
    assert_int_equal(at(count, 0), 640);
    assert_int_equal(at(largest, 0), 4063);
    cudaFree(count);
    cudaFree(largest);
}

PL_TEST(a_captured_stream_runs_when_its_graph_does)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    unsigned *count = zeros<unsigned>(1);
    int *largest = zeros<int>(1);
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    PL_LAUNCH(count_kernel, 1, 32, 0, stream, count, largest);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph);
    assert_int_equal(at(count, 0), 0);
    cudaGraphLaunch(exec, stream);
    cudaGraphLaunch(exec, stream);
    assert_int_equal(at(count, 0), 128);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(count);
    cudaFree(largest);
}

/* ---- mistakes that the emulation finds ---- */

IN_EVERY_ORDER(a_write_past_an_allocation_is_found)
{
    int *out = zeros<int>(1000);
    PL_LAUNCH(number_kernel, 4, 256, 0, NULL, out, 1001);
    expect_finding("kernel number_kernel, block (3,0,0), thread (232,0,0): writes 4",
                   "4000 bytes after the start of an allocation of 4000");
    cudaFree(out);
}

static __global__ void read_kernel(int *out, const int *in)
{
    out[threadIdx.x] = in[threadIdx.x];
}

PL_TEST(host_memory_in_a_kernel_is_found)
{
    static int host[32];
    int *out = zeros<int>(32);
    PL_LAUNCH(read_kernel, 1, 32, 0, NULL, out, host);
    expect_finding("kernel read_kernel", "not memory of the device");
    cudaFree(out);
}

PL_TEST(a_copy_reads_page_locked_memory_when_the_stream_gets_there)
{
    cudaStream_t stream;
    cudaEvent_t passed;
    int *pinned, *device, back = 0, plain = 5;
    cudaMalloc(&device, sizeof(int));
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreate(&passed);
    cudaMallocHost((void **)&pinned, sizeof(int));
    *pinned = 1;
    cudaMemcpyAsync(device, pinned, sizeof(int), cudaMemcpyHostToDevice, stream);
    *pinned = 2; /* the copy has not been made yet */
    cudaMemcpyAsync(&back, device, sizeof(int), cudaMemcpyDeviceToHost, stream);
    assert_int_equal(back, 2);
    *pinned = 3;
    cudaMemcpyAsync(device, pinned, sizeof(int), cudaMemcpyHostToDevice, stream);
    cudaEventRecord(passed, stream);
    cudaEventSynchronize(passed);
    *pinned = 4;
    cudaMemcpyAsync(&back, device, sizeof(int), cudaMemcpyDeviceToHost, stream);
    assert_int_equal(back, 3);
    cudaMemcpyAsync(device, &plain, sizeof(int), cudaMemcpyHostToDevice, stream);
    plain = 6;
    cudaMemcpyAsync(pinned, device, sizeof(int), cudaMemcpyDeviceToHost, stream);
    assert_int_equal(*pinned, 4);
    cudaStreamSynchronize(stream);
    assert_int_equal(*pinned, 5);
    cudaFree(device);
    cudaFreeHost(pinned);
    cudaEventDestroy(passed);
    cudaStreamDestroy(stream);
    expect_no_finding();
}

PL_TEST(waiting_or_allocating_spoils_a_capture)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    void *memory;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int i = 0; i < 3; i++) {
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
        assert_int_equal(i == 0   ? cudaMalloc(&memory, 4)
                         : i == 1 ? cudaStreamSynchronize(stream)
                                  : cudaFree(NULL),
                         cudaErrorStreamCaptureUnsupported);
        assert_int_equal(cudaStreamEndCapture(stream, &graph),
                         cudaErrorStreamCaptureInvalidated);
        assert_null(graph);
    }
    cudaStreamDestroy(stream);
    (void)cudaGetLastError();
    expect_no_finding();
}

PL_TEST(freed_memory_in_a_kernel_is_found)
{
    int *out = zeros<int>(32), *freed = zeros<int>(32);
    cudaFree(freed);
    PL_LAUNCH(read_kernel, 1, 32, 0, NULL, out, freed);
    expect_finding("kernel read_kernel", "after the start of an allocation");
    cudaFree(out);
}

/* A kernel that is launched early must wait before it reads. */
static __global__ void early_kernel(int *out, const int *in, bool waits)
{
    prefetch_l2(in, 128);
    if (waits)
        wait_for_earlier();
    out[threadIdx.x] = in[threadIdx.x];
}

static __global__ void idle_kernel(int)
{
}

PL_TEST(a_read_before_the_wait_for_earlier_kernels_is_found)
{
    const struct {
        cudaStream_t stream;
        bool launches_early;
    } early = {NULL, true}, late = {NULL, false};
    int *out = zeros<int>(32), *in = zeros<int>(32);
    PL_LAUNCH_EARLY(&early, early_kernel, 1, 32, 0, out, in, true);
    PL_LAUNCH_EARLY(&late, early_kernel, 1, 32, 0, out, in, false);
    expect_no_finding();
    PL_LAUNCH_EARLY(&early, early_kernel, 1, 32, 0, out, in, false);
    expect_finding("kernel early_kernel, block (0,0,0), thread (0,0,0)",
                   "before it waits for earlier kernels");
    PL_LAUNCH_EARLY(&early, idle_kernel, 1, 32, 0, 1);
    expect_finding("idle_kernel", "no thread waits");
    PL_LAUNCH_EARLY(&early, early_kernel, 1, 32, 0, out, in + 4, true);
    expect_finding("a prefetch", "exceed their allocation");
    cudaFree(out);
    cudaFree(in);
}

PL_TEST(memory_that_nobody_wrote_is_found)
{
    int *out = zeros<int>(32), *raw;
    cudaMalloc(&raw, 32 * sizeof *raw);
    PL_LAUNCH(read_kernel, 1, 32, 0, NULL, out, raw);
    expect_finding("kernel read_kernel, block (0,0,0), thread (0,0,0)", "nobody wrote");
    PL_LAUNCH(read_kernel, 1, 32, 0, NULL, raw, out);
    PL_LAUNCH(read_kernel, 1, 32, 0, NULL, out, raw);
    expect_no_finding();
    cudaFree(out);
    cudaFree(raw);
}

static __global__ void shifted_kernel(float4 *out, const char *in)
{
    out[threadIdx.x] = *(const float4 *)(const void *)(in + 4);
}

PL_TEST(a_vector_that_is_not_aligned_is_found)
{
    float4 *out = zeros<float4>(2);
    char *in = zeros<char>(64);
    PL_LAUNCH(shifted_kernel, 1, 1, 0, NULL, out, in);
    expect_finding("kernel shifted_kernel", "not aligned");
    cudaFree(out);
    cudaFree(in);
}

static __global__ void hasty_kernel(int *out, bool wait)
{
    __shared__ int line[64];
    line[threadIdx.x] = (int)threadIdx.x;
    if (wait)
        __syncthreads();
    out[threadIdx.x] = line[63 - threadIdx.x];
}

/* The reverse order finds the race immediately. The forward order finds it when the
 * second warp reads. */
IN_EVERY_ORDER(a_missing_barrier_is_found)
{
    int *out = zeros<int>(64);
    PL_LAUNCH(hasty_kernel, 1, 64, 0, NULL, out, true);
    expect_no_finding();
    PL_LAUNCH(hasty_kernel, 1, 64, 0, NULL, out, false);
    expect_finding("kernel hasty_kernel", "shared memory");
    cudaFree(out);
}

/* Writes single bytes, then reads them as whole words. If `skip` is set, byte 5 is left
 * out. */
static __global__ void bytes_kernel(unsigned *out, bool wait, bool skip)
{
    __shared__ __align__(4) unsigned char bytes[256];
    for (unsigned i = (threadIdx.x + 1) % 64; i < 256; i += 64)
        if (!skip || i != 5)
            bytes[i] = (unsigned char)i;
    if (wait)
        __syncthreads();
    out[threadIdx.x] = ((const unsigned *)(const void *)bytes)[threadIdx.x];
}

/* Words whose bytes had different histories are found in later kernels as in the
 * first, and a word that is written as a whole has one history again. */
IN_EVERY_ORDER(each_byte_of_a_word_is_checked)
{
    unsigned *out = zeros<unsigned>(64);
    for (int round = 0; round < 2; round++) {
        PL_LAUNCH(bytes_kernel, 1, 64, 0, NULL, out, true, false);
        expect_no_finding();
        assert_int_equal(at(out, 1), 0x07060504);
        PL_LAUNCH(bytes_kernel, 1, 64, 0, NULL, out, true, true);
        expect_finding("kernel bytes_kernel, block (0,0,0), thread (1,0,0)",
                       "nobody wrote (byte 1 of 4)");
        PL_LAUNCH(bytes_kernel, 1, 64, 0, NULL, out, false, false);
        expect_finding("kernel bytes_kernel", "shared memory");
        a_missing_barrier_is_found_once();
    }
    cudaFree(out);
}

/* The first kernel writes single bytes of device memory, all except byte 5. */
static __global__ void scatter_kernel(unsigned char *out)
{
    if (threadIdx.x != 5)
        out[threadIdx.x] = (unsigned char)threadIdx.x;
}

PL_TEST(each_byte_of_a_word_in_device_memory_is_checked)
{
    unsigned char *raw = NULL;
    unsigned *out = zeros<unsigned>(32);
    assert_int_equal(cudaMalloc(&raw, 128), cudaSuccess);
    PL_LAUNCH(scatter_kernel, 1, 128, 0, NULL, raw);
    PL_LAUNCH(read_kernel, 1, 1, 0, NULL, (int *)out, (int *)(void *)raw);
    expect_no_finding();
    assert_int_equal(at(out, 0), 0x03020100);
    PL_LAUNCH(read_kernel, 1, 32, 0, NULL, (int *)out, (int *)(void *)raw);
    expect_finding("kernel read_kernel, block (0,0,0), thread (1,0,0)",
                   "nobody wrote (byte 1 of 4)");
    assert_int_equal(cudaMemset(raw + 5, 9, 1), cudaSuccess);
    PL_LAUNCH(read_kernel, 1, 32, 0, NULL, (int *)out, (int *)(void *)raw);
    expect_no_finding();
    assert_int_equal(at(out, 1), 0x07060904);
    cudaFree(raw);
    cudaFree(out);
}

static __global__ void warp_kernel(int *out, bool wait)
{
    __shared__ int line[32];
    line[threadIdx.x] = (int)threadIdx.x;
    __syncwarp();
    const int mine = line[threadIdx.x ^ 1];
    if (wait)
        __syncwarp();
    line[threadIdx.x] = mine + 1;
    out[threadIdx.x] = mine;
}

IN_EVERY_ORDER(a_missing_barrier_within_a_warp_is_found)
{
    int *out = zeros<int>(32);
    PL_LAUNCH(warp_kernel, 1, 32, 0, NULL, out, true);
    expect_no_finding();
    PL_LAUNCH(warp_kernel, 1, 32, 0, NULL, out, false);
    expect_finding("kernel warp_kernel", "no barrier between them");
    cudaFree(out);
}

static __global__ void sum_kernel(int *sum, bool atomic)
{
    if (atomic)
        atomicAdd(sum, 1);
    else if (threadIdx.x == 0)
        *sum = *sum + 1;
}

IN_EVERY_ORDER(blocks_that_meet_at_one_place_are_found)
{
    int *sum = zeros<int>(1);
    PL_LAUNCH(sum_kernel, 3, 32, 0, NULL, sum, true);
    PL_LAUNCH(sum_kernel, 1, 32, 0, NULL, sum, false);
    expect_no_finding();
    PL_LAUNCH(sum_kernel, 3, 32, 0, NULL, sum, false);
    expect_finding("kernel sum_kernel", "device memory");
    cudaFree(sum);
}

static __global__ void some_kernel(int *out, unsigned n, bool leave)
{
    __shared__ int line[64];
    line[threadIdx.x] = 1;
    if (leave && threadIdx.x >= n)
        return;
    if (leave || threadIdx.x < n)
        __syncthreads();
    out[threadIdx.x] = line[threadIdx.x];
}

IN_EVERY_ORDER(a_barrier_that_some_do_not_reach_is_found)
{
    int *out = zeros<int>(64);
    for (int leave = 0; leave < 2; leave++) {
        PL_LAUNCH(some_kernel, 1, 64, 0, NULL, out, 48u, leave == 1);
        expect_finding("which 48 of 64 threads of the block reach", "thread (48,0,0)");
    }
    PL_LAUNCH(some_kernel, 1, 64, 0, NULL, out, 64u, true);
    expect_no_finding();
    cudaFree(out);
}

static __global__ void two_barriers_kernel(int *out)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}

IN_EVERY_ORDER(threads_at_different_barriers_are_found)
{
    int *out = zeros<int>(64);
    PL_LAUNCH(two_barriers_kernel, 1, 64, 0, NULL, out);
    expect_finding("kernel two_barriers_kernel", "threads of its block wait at");
    cudaFree(out);
}

static __global__ void half_warp_kernel(int *out, unsigned mask)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_xor_sync(mask, 1, 1);
}

IN_EVERY_ORDER(a_shuffle_that_some_lanes_do_not_reach_is_found)
{
    int *out = zeros<int>(32);
    PL_LAUNCH(half_warp_kernel, 1, 32, 0, NULL, out, 0xffffffffu);
    expect_finding("warp operation", "which 16 of 32 threads");
    PL_LAUNCH(half_warp_kernel, 1, 32, 0, NULL, out, 0xffffu);
    expect_finding("mask 0x0000ffff", "full warps");
    cudaFree(out);
}

static __global__ void far_kernel(int *out)
{
    int *line = (int *)dynamic_shared();
    line[threadIdx.x] = 1;
    out[threadIdx.x] = line[threadIdx.x];
}

PL_TEST(an_access_past_shared_memory_is_found)
{
    int *out = zeros<int>(64);
    PL_LAUNCH(far_kernel, 1, 64, 64 * sizeof(int), NULL, out);
    expect_no_finding();
    PL_LAUNCH(far_kernel, 1, 64, 63 * sizeof(int), NULL, out);
    expect_finding("thread (63,0,0): writes 4 bytes", "not memory of the device");
    cudaFree(out);
}

PL_TEST(launches_that_a_device_refuses_are_found)
{
    int *out = zeros<int>(64);
    PL_LAUNCH(far_kernel, 1, 2048, 0, NULL, out);
    expect_finding("far_kernel", "a block of 2048 x 1 x 1 threads");
    PL_LAUNCH(far_kernel, 0, 32, 0, NULL, out);
    expect_finding("far_kernel", "a grid of 0 x 1 x 1 blocks");
    PL_LAUNCH(far_kernel, 1, 32, 64 << 10, NULL, out);
    expect_finding("far_kernel", "cudaFuncSetAttribute allows it 49152");
    assert_int_equal(cudaFuncSetAttribute(far_kernel,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          64 << 10),
                     cudaSuccess);
    PL_LAUNCH(far_kernel, 1, 32, 64 << 10, NULL, out);
    expect_no_finding();
    cudaFree(out);
}

PL_TEST(copies_past_an_allocation_are_found)
{
    int host[16] = {0};
    int *device = zeros<int>(8);
    (void)cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice);
    expect_finding("copy to the device: 64 bytes", "of 32");
    (void)cudaMemcpy(host, device, 32, cudaMemcpyHostToDevice);
    expect_finding("wrong direction", "32 bytes");
    cudaFree(device);
}

PL_TEST(a_finding_is_the_devices_error)
{
    int *out = zeros<int>(1000);
    PL_LAUNCH(number_kernel, 4, 256, 0, NULL, out, 1001);
    const pl_status status = device_sync(NULL, "numbers");
    assert_int_equal(status, PL_ERR_DEVICE);
    assert_non_null(strstr(pl_last_error(), "kernel number_kernel, block (3,0,0)"));
    expect_finding("number_kernel", "writes 4 bytes");
    assert_int_equal(device_sync(NULL, "numbers"), PL_OK);
    cudaFree(out);
}

PL_TEST(a_stream_of_another_device_is_found)
{
    int *out = zeros<int>(64);
    cudaStream_t stream;
    setenv("EMULATION_DEVICES", "2", 1);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    assert_int_equal(cudaStreamCreate(&stream), cudaSuccess);
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    PL_LAUNCH(number_kernel, 1, 64, 0, stream, out, 64);
    expect_finding("a stream of device 1", "whose device is 0");
    cudaStreamDestroy(stream);
    setenv("EMULATION_DEVICES", "1", 1);
    cudaFree(out);
}

static void wait_for_device(void *)
{
    (void)cudaDeviceSynchronize();
}

/* If another thread waits during a capture, a global capture becomes invalid, and a
 * capture of a different mode does not. */
PL_TEST(other_threads_spoil_global_captures_only)
{
    for (int global = 0; global < 2; global++) {
        cudaStream_t stream;
        cudaGraph_t graph;
        pl_thread *other;
        assert_int_equal(cudaStreamCreate(&stream), cudaSuccess);
        assert_int_equal(
            cudaStreamBeginCapture(stream, global ? cudaStreamCaptureModeGlobal
                                                  : cudaStreamCaptureModeThreadLocal),
            cudaSuccess);
        assert_int_equal(pl_thread_start("waits", wait_for_device, NULL, &other),
                         PL_OK);
        pl_thread_join(&other);
        assert_int_equal(cudaStreamEndCapture(stream, &graph),
                         global ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
        if (!global)
            cudaGraphDestroy(graph);
        cudaStreamDestroy(stream);
        (void)cudaGetLastError();
    }
}

/* The result depends on the order of threads. This is no race, because atomic accesses
 * are ordered, but different orders give different bytes. */
static __global__ void ticket_kernel(unsigned *next, unsigned *ticket)
{
    ticket[threadIdx.x] = atomicAdd(next, 1u);
}

PL_TEST(orders_differ_where_results_depend_on_them)
{
    unsigned first[EMULATION_ORDERS];
    for (int order = 0; order < EMULATION_ORDERS; order++) {
        unsigned *next = zeros<unsigned>(1), *ticket = zeros<unsigned>(64);
        emulation_set_order((emulation_order)order, 3);
        PL_LAUNCH(ticket_kernel, 1, 64, 0, NULL, next, ticket);
        expect_no_finding();
        first[order] = at(ticket, 0);
        cudaFree(next);
        cudaFree(ticket);
    }
    emulation_set_order(EMULATION_FORWARD, 0);
    assert_int_equal(first[EMULATION_FORWARD], 0);
    assert_int_equal(first[EMULATION_REVERSE], 63);
    assert_true(first[EMULATION_RANDOM] > 0 && first[EMULATION_RANDOM] < 63);
}

PL_TEST(kernels_that_ran_are_listed_once)
{
    size_t seen = 0;
    for (size_t i = 0, n = emulation_n_kernels(); i < n; i++)
        seen += strcmp(emulation_kernel(i), "number_kernel") == 0;
    assert_int_equal(seen, 1);
}
