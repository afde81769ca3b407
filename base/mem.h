/* Memory. If there is no memory left, functions for small allocations abort the process
 * (only mem.c does so). For a size that comes from input, use pl_try_alloc, which
 * returns an error. */
#pragma once
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
PL_C_BEGIN

void *pl_alloc(size_t bytes);           /* zeroed memory; aborts if there is none */
void *pl_grow(void *old, size_t bytes); /* realloc; aborts if there is no memory */
/* Makes room for n_new items of `size` bytes in an array of n_old items that this
 * function made (NULL if n_old is 0). The memory grows in powers of two, so the time
 * for adding many items one by one grows with their number, not with its square. */
void *pl_grow_items(void *old, size_t n_old, size_t n_new, size_t size);
char *pl_strdup(const char *text); /* a copy; NULL for NULL */
void pl_free(void *memory);        /* accepts NULL */
/* Frees several blocks; each may be NULL. */
#define pl_free_all(...)                                                               \
    pl_free_list((void *[]){__VA_ARGS__},                                              \
                 sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))
void pl_free_list(void *const *blocks, size_t n);

/* Aborts like the functions above. For a library that failed to allocate memory. */
void pl_memory_exhausted(size_t bytes) PL_NORETURN;

/* Allocates zeroed memory that is aligned to 64 bytes. Memory of 4 MiB or more is
 * aligned to 2 MiB, and the kernel is asked to use huge pages for it. The message of
 * ERR_NOMEM names `what` and the size. Free with pl_free. */
pl_status pl_try_alloc(size_t bytes, const char *what, void **out);
/* Allocates without zeroing, for a caller that overwrites all bytes. */
pl_status pl_try_alloc_bare(size_t bytes, const char *what, void **out);

/* After this call the C library keeps freed blocks of up to 4 MiB for later use, up to
 * 64 MiB altogether. Without this call the C library maps, clears and unmaps the memory
 * of every block of 1 MiB, such as a message or a database write. */
void pl_keep_blocks(void);
/* Returns the memory of freed blocks, which the C library keeps, to the kernel. Call it
 * after work that needed much more memory than the work that follows. */
void pl_give_back_blocks(void);

/* How many bytes this process may have altogether, and may still allocate. The limits
 * of cgroups count if they can be read. */
typedef struct pl_memory {
    uint64_t total_bytes, available_bytes;
} pl_memory;
pl_memory pl_memory_now(void);
/* Returns the largest amount of memory that the process `pid` of this machine has used
 * so far; 0 if there is no such process. */
uint64_t pl_memory_peak_bytes(int pid);

PL_C_END
