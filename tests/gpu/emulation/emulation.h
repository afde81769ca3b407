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
    EMULATION_RANDOM, /* of the seed; another one at every launch */
    EMULATION_ORDERS
} emulation_order;

/* For the launches to come. Before the first call: the order that EMULATION_ORDER names
 * in the environment, else forward. */
void emulation_set_order(emulation_order order, uint64_t seed);

/* The first finding since the last call, NULL if there was none; then forgets it and
 * clears the device's error. Borrowed until the next call. */
const char *emulation_take_finding(void);

/* The device fails from now on, until the finding is taken. */
void emulation_fail(const char *why);

/* Names of the kernels launched so far in this process, sorted, without template
 * arguments; i < emulation_n_kernels(). Where the environment has EMULATION_REPORT they
 * are added to that file when the process ends. */
size_t emulation_n_kernels(void);
const char *emulation_kernel(size_t i);

/* From now on no stream can be captured, as with a driver that cannot. */
void emulation_refuse_captures(bool refuse);

/* Allocations of device memory that were not freed, and the bytes of all. */
size_t emulation_n_allocations(size_t *bytes);

/* How often an algorithm for a product was asked for. */
uint64_t emulation_n_choices(void);

/* Products of which an operand has columns (rows of ours) that do not all begin at
 * multiples of 16 bytes: for those cuBLASLt has slow kernels only. */
uint64_t emulation_n_slow_products(void);

/* Launches, and threads over all of them, since the process began. */
uint64_t emulation_n_launches(void);

#ifdef __cplusplus
}
#endif
#endif
