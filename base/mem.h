/* Memory. Small host allocations abort the process when exhausted, here and
 * nowhere else; anything sized by input uses pl_try_alloc and returns an error.
 */
#ifndef PL_BASE_MEM_H
#define PL_BASE_MEM_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

void *pl_alloc(size_t bytes);           /* zeroed; aborts when exhausted */
void *pl_grow(void *old, size_t bytes); /* realloc; aborts when exhausted */
char *pl_strdup(const char *text);      /* NULL gives NULL */
void pl_free(void *memory);             /* accepts NULL */

/* The abort of the functions above, for wrappers of libraries that allocate by
 * themselves. */
void pl_memory_exhausted(size_t bytes) PL_NORETURN;

/* Zeroed, 64-byte aligned (2 MiB aligned and huge-page advised from 4 MiB on);
 * ERR_NOMEM names `what` and the size. Free with pl_free_aligned. */
PL_MUST_CHECK pl_status pl_try_alloc(size_t bytes, const char *what, void **out);
/* The same with bytes that are not set: for somebody who writes all of them. */
PL_MUST_CHECK pl_status pl_try_alloc_bare(size_t bytes, const char *what, void **out);

/* From now on blocks of up to 4 MiB, and up to 64 MiB of them, stay with the process
 * when they are freed. Else the C library maps, clears and gives back each block of a
 * MiB: a message, or what a database reads and writes at once. */
void pl_keep_blocks(void);
/* Gives the kernel back what the C library keeps of freed blocks: for the end of work
 * that needed much more than what follows. */
void pl_give_back_blocks(void);
void pl_free_aligned(void *memory); /* accepts NULL */

/* Bytes of memory that this process may still use, and in all (cgroup limits
 * respected where they can be read). */
uint64_t pl_memory_available_bytes(void);
uint64_t pl_memory_total_bytes(void);
/* The most that a process of this machine had in memory at a time; 0 if there is no
 * such process. */
uint64_t pl_memory_peak_bytes(int pid);

#ifdef __cplusplus
}
#endif
#endif
