/* Types and functions that the files of the emulation share. */
#pragma once
#include "tests/gpu/emulation/emulation.h"
#include "tests/gpu/emulation/toolkit/cuda_runtime.h"
#include "base/base.h"
#include <functional>

/* ---- machine.cc ---- */

enum { SHARED_BYTES_MAX = 227 << 10, SHARED_BYTES_DEFAULT = 48 << 10 };

/* Runs a launch, which the caller has checked, until its end or its first finding. */
void machine_run(const emulated_call *call, dim3 grid, dim3 block, size_t shared);

/* Records the finding, if it is the first one. In a kernel it does not return. If
 * `place` is set, the sentence begins with the kernel, the block and the thread. */
void machine_find(bool place, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool machine_has_finding(void);
const char *machine_finding(void);
const char *machine_running_kernel(void); /* NULL if no kernel runs */

/* ---- groups.cc ---- */

/* A product that a group of four warps has begun. If A is in registers, it holds the
 * two rows of A that this lane needs. */
struct pending_product {
    float (*c)[4];
    int n;
    bool has_a, transposed, add;
    float a[2][16];
    uint64_t a_tile, b_tile;
};

/* Computes the elements of the product that belong to this lane of this warp (0 to 3)
 * of the group. */
void machine_multiply(pending_product *x, int warp, int lane);

/* ---- runtime.cc ---- */

/* Adds `step` to the stream, which runs it after all earlier steps. During a capture,
 * adds it to the graph, and each launch of the graph runs it. */
cudaError_t runtime_in_order(cudaStream_t stream, const std::function<void()> &step);
void runtime_finish(void); /* runs all steps of all streams */

/* ---- memory.cc ---- */

/* The thread of a kernel that runs now, for memory.cc. Each thread of the host has such
 * a record; threads of the host run kernels one at a time. Phases are numbered over the
 * whole process, so that a lower number means an earlier time. */
struct memory_observer {
    bool active;
    bool early; /* the thread has not waited for earlier kernels yet */
    uint32_t launch_phase, block_phase, phase;
    /* meetings: number of warp operations of the thread's warp in this phase */
    uint16_t thread, meetings;
    const uint8_t *stack, *stack_end;
    const uint8_t *arguments, *arguments_end;
};
extern __thread memory_observer memory_now;

void memory_begin_launch(size_t shared);
void memory_end_launch(void);
uint8_t *memory_dynamic_shared(void);
/* Checks an access of the running thread, as the calls do that the compiler inserts. */
enum memory_access { MEMORY_READ, MEMORY_WRITE, MEMORY_ATOMIC };
void memory_check(const void *address, size_t bytes, memory_access access);

/* Device memory, for runtime.cc. memory_allocate returns NULL if the memory is full. */
void *memory_allocate(size_t bytes);
bool memory_free(void *memory);
/* Returns true if all bytes from `address` on lie in one allocation. Otherwise reports
 * a finding that names `who`. */
bool memory_host_check(const char *who, const void *address, size_t bytes);
void memory_copy_in(void *to, const void *from, size_t bytes);
void memory_copy_out(void *to, const void *from, size_t bytes);
void memory_copy_within(void *to, const void *from, size_t bytes);
void memory_set(void *to, int value, size_t bytes);
bool memory_is_device(const void *address);
size_t memory_free_bytes(void);
size_t memory_total_bytes(void);
/* The host may touch device memory only between memory_open and memory_close. Pairs of
 * these calls may be nested. */
void memory_open(void);
void memory_close(void);
void memory_mark_written(const void *address, size_t bytes);
