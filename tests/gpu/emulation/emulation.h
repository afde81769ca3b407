/* Runs CUDA kernels on the CPU.
 *
 * The folder toolkit/ has headers with the names of NVIDIA's headers. With these a
 * `.cu` source that includes <cuda_runtime.h> compiles as C++, and its kernels run
 * here. Every thread of a block is a fiber (fiber.h). A launch runs one block after
 * another, and within a block one thread until it waits for others.
 *
 *   machine   blocks, warps, barriers, shuffles, tensor-core instructions
 *   memory    device memory, shared memory, and which thread used which byte when
 *   blas      the products of cuBLASLt, from its documentation, in plain loops
 *   runtime   streams, events, graphs, copies: the CUDA runtime's functions
 *
 * Kernel sources are compiled with -fsanitize=thread but linked with memory.cc instead
 * of ThreadSanitizer: the compiler thus reports every load and store, and each is
 * checked. The emulation finds
 *
 *   - an access outside of every allocation, or to memory of the host
 *   - shared or device memory read before it was written
 *   - two threads at the same byte, one of them writing, without a barrier between
 *     them (between blocks nothing is a barrier)
 *   - a barrier or warp operation that only some threads reach
 *   - launches that a device would refuse
 *   - calls that are forbidden while a stream is captured
 *   - work for a stream of another device than the calling thread's
 *   - host code that touches device memory (it faults)
 *
 * A finding ends the kernel and becomes the device's sticky error, as on a device:
 * cudaGetErrorString returns a sentence that names kernel, block, thread and address.
 *
 * A result that depends on the order of threads is found by running in several orders
 * and comparing bytes. Code that reads a result without waiting for its stream is found
 * because a stream does nothing before a thread waits for it (runtime.cc). */
#ifndef PL_TESTS_EMULATION_EMULATION_H
#define PL_TESTS_EMULATION_EMULATION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum emulation_order {
    EMULATION_FORWARD, /* blocks and threads by rising index */
    EMULATION_REVERSE,
    EMULATION_RANDOM, /* drawn by the seed, different in each launch */
    EMULATION_ORDERS
} emulation_order;

/* Sets the order of the next launches. Before the first call it is the order of the
 * variable EMULATION_ORDER, else forward. */
void emulation_set_order(emulation_order order, uint64_t seed);

/* Returns the first finding since the last call, NULL if there was none. Forgets it and
 * clears the device's error. Borrowed until the next call. */
const char *emulation_take_finding(void);

/* Makes the device fail until the finding is taken. */
void emulation_fail(const char *why);

/* Names of the kernels launched so far in this process, sorted, without template
 * arguments; i < emulation_n_kernels(). With the variable EMULATION_REPORT they are
 * added to this file at the end of the process. */
size_t emulation_n_kernels(void);
const char *emulation_kernel(size_t i);

/* Makes all later captures fail, like a driver without them. */
void emulation_refuse_captures(bool refuse);

/* Number and bytes of the device allocations that were not freed. */
size_t emulation_n_allocations(size_t *bytes);

/* Number of searches for an algorithm. */
uint64_t emulation_n_choices(void);

/* Products of which an operand has columns (rows of ours) that do not all begin at
 * multiples of 16 bytes: for those cuBLASLt has slow kernels only. */
uint64_t emulation_n_slow_products(void);

/* Number of launches, and of their threads, since the process began. */
uint64_t emulation_n_launches(void);

#ifdef __cplusplus
}
#endif
#endif
