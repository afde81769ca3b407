/* Runs CUDA kernels on the CPU.
 *
 * The folder toolkit/ has headers with the names of NVIDIA's headers. With these
 * headers, a `.cu` source that includes <cuda_runtime.h> compiles as C++, and its
 * kernels run here. Every thread of a block is a fiber (fiber.h). A launch runs one
 * block after another. Within a block, one thread runs until it waits for other
 * threads; then another thread runs.
 *
 *   machine   blocks, warps, barriers, shuffles, tensor-core instructions
 *   memory    device memory, shared memory, and the times of each byte's accesses
 *   blas      the matrix products of cuBLASLt, in plain loops
 *   runtime   streams, events, graphs, copies: the CUDA runtime's functions
 *
 * Kernel sources are compiled with -fsanitize=thread, but they are linked with
 * memory.cc instead of ThreadSanitizer. So the compiler inserts a call before every
 * load and store, and memory.cc checks each of them. The emulation finds
 *
 *   - an access outside of every allocation, or to memory of the host
 *   - shared or device memory read before it was written
 *   - two threads that access the same byte, of which at least one writes, without a
 *     barrier between the accesses (for threads of different blocks there is none)
 *   - a barrier or warp operation that only some threads reach
 *   - launches that a device would refuse
 *   - calls that are forbidden while a stream is captured
 *   - work for a stream of a device that is not the calling thread's device
 *   - host code that accesses device memory (the process gets SIGSEGV)
 *
 * A finding ends the kernel and becomes the device's sticky error, as on a device.
 * cudaGetErrorString then returns a sentence that names the kernel, the block, the
 * thread and the address.
 *
 * To find a result that depends on the order of threads, a test runs in several orders
 * and compares the bytes. Code that reads a result without waiting for its stream gets
 * wrong bytes, because a stream does nothing before a thread waits for it
 * (runtime.cc). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum emulation_order {
    EMULATION_FORWARD, /* blocks and threads by rising index */
    EMULATION_REVERSE,
    /* Random orders, which depend on the seed and differ between launches. */
    EMULATION_RANDOM,
    EMULATION_ORDERS
} emulation_order;

/* Sets the order of threads for the next launches. Before the first call, the
 * environment variable EMULATION_ORDER gives the order; without the variable it is
 * `forward`. */
void emulation_set_order(emulation_order order, uint64_t seed);

/* Returns the first finding since the last call, or NULL if there was none. Forgets the
 * finding and clears the error of the device. The text is valid until the next call. */
const char *emulation_take_finding(void);

/* Makes the device fail for the reason `why`, until emulation_take_finding is
 * called. */
void emulation_fail(const char *why);

/* Return the number and the names of the kernels that this process has launched so far.
 * The names are sorted and have no template arguments; i < emulation_n_kernels(). If
 * the environment variable EMULATION_REPORT names a file, the process adds the names to
 * this file when it ends. */
size_t emulation_n_kernels(void);
const char *emulation_kernel(size_t i);

/* Sets whether captures of graphs fail from now on, as with a driver without them. */
void emulation_refuse_captures(bool refuse);

/* Returns the number of device allocations that were not freed, and their bytes. */
size_t emulation_n_allocations(size_t *bytes);

/* Returns how often the program has asked cuBLASLt for an algorithm. */
uint64_t emulation_n_choices(void);

/* Sets the tile of the algorithms that cuBLASLt chooses from now on. It changes no
 * result. */
void emulation_set_tile(uint32_t tile);

/* Returns the number of products with an operand whose columns (our rows) do not all
 * begin at multiples of 16 bytes. For such products cuBLASLt has only slow kernels. */
uint64_t emulation_n_slow_products(void);

/* Returns the number of accesses of kernels to device memory since the process began. A
 * vector counts once. */
uint64_t emulation_n_accesses(void);

/* Return how many kernels, products, copies and fills the devices have executed since
 * the process began; and how many calls of the program have given work to a stream. A
 * call that launches a graph counts once. */
uint64_t emulation_n_works(void);
uint64_t emulation_n_calls(void);

#ifdef __cplusplus
}
#endif
