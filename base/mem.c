/* Allocates host memory. Only this file aborts the process when memory is exhausted,
 * and only this file asks the kernel how much memory there is.
 *
 * Blocks of 4 MiB or more are aligned to huge pages. The weights and moments of a path
 * are read from end to end in every step, and with pages of 4 KiB there is a TLB miss
 * every 1024 floats. The rest of a block after its last complete huge page is in small
 * pages, so that the block takes no more memory than requested. */
#include "base/mem.h"
#include "base/processors.h"
#include "base/text.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CACHE_LINE = 64, HUGE_PAGE = 2 << 20, HUGE_FROM = 4 << 20 };
enum { KEPT_BLOCK = (4 << 20) + 16384, ARENAS = 2 };

void pl_memory_exhausted(size_t bytes)
{
    fprintf(stderr, "pathloom: out of memory: %zu bytes could not be allocated\n",
            bytes);
    abort();
}

void *pl_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        pl_memory_exhausted(bytes);
    return memory;
}

void *pl_grow(void *old, size_t bytes)
{
    void *memory = realloc(old, bytes ? bytes : 1);
    if (!memory)
        pl_memory_exhausted(bytes);
    return memory;
}

static size_t room_for(size_t n)
{
    size_t room = n > 0;
    while (room < n)
        room *= 2;
    return room;
}

void *pl_grow_items(void *old, size_t n_old, size_t n_new, size_t size)
{
    const size_t room = room_for(n_new);
    return room > room_for(n_old) ? pl_grow(old, room * size) : old;
}

char *pl_strdup(const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    return memcpy(pl_alloc(size), text, size);
}

void pl_free(void *memory)
{
    free(memory);
}

void pl_free_list(void *const *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(blocks[i]);
}

void pl_keep_blocks(void)
{
    mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK);
    mallopt(M_TRIM_THRESHOLD, 16 * KEPT_BLOCK);
    /* limits the number of arenas, because each keeps its own freed blocks */
    mallopt(M_ARENA_MAX, ARENAS);
}

void pl_give_back_blocks(void)
{
    malloc_trim(0);
}

/* The kernel grants address space for which it has no memory, and kills the process
 * when that memory is touched. Therefore the size of a large block is compared with the
 * available memory before the block is allocated. */
pl_status pl_try_alloc_bare(size_t bytes, const char *what, void **out)
{
    *out = NULL;
    bool huge = bytes >= HUGE_FROM;
    size_t align = huge ? HUGE_PAGE : CACHE_LINE;
    uint64_t available = huge ? pl_memory_now().available_bytes : 0;
    void *memory = NULL;
    if (bytes > SIZE_MAX - align || (available && bytes > available) ||
        posix_memalign(&memory, align, bytes ? bytes : 1) != 0) {
        char need[16], have[16];
        pl_human_bytes((double)bytes, need);
        if (!available)
            return pl_fail(PL_ERR_NOMEM,
                           "there is not enough memory for %s: the system refused %s; "
                           "free memory, or raise the limits (ulimit -v)",
                           what, need);
        pl_human_bytes((double)available, have);
        return pl_fail(PL_ERR_NOMEM,
                       "there is not enough memory for %s: %s are needed, but only %s "
                       "are available",
                       what, need, have);
    }
    if (huge) /* if the kernel refuses huge pages, only speed is lost */
        madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    *out = memory;
    return PL_OK;
}

pl_status pl_try_alloc(size_t bytes, const char *what, void **out)
{
    PL_CHECK(pl_try_alloc_bare(bytes, what, out));
    memset(*out, 0, bytes);
    return PL_OK;
}

/* Returns the first number after `key` in a small text file of a folder; `other` if no
 * number follows, for example "max" in a cgroup file. With an empty key the first
 * number of the file is returned. */
static uint64_t number_in_file(const char *folder, const char *name, const char *key,
                               uint64_t other)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return other;
    char line[256];
    uint64_t value = other;
    while (fgets(line, sizeof line, file)) {
        if (!pl_starts_with(line, key))
            continue;
        const char *digits = line + strlen(key);
        digits += strspn(digits, " \t:");
        if (*digits >= '0' && *digits <= '9')
            value = strtoull(digits, NULL, 10);
        break;
    }
    fclose(file);
    return value;
}

/* Applies the limits of a cgroup, under version 2 or version 1. Page cache that can be
 * dropped counts as free. */
static void tighten_by_folder(void *context, const char *folder)
{
    static const char *const names[2][2] = {
        {"memory.max", "memory.current"},
        {"memory.limit_in_bytes", "memory.usage_in_bytes"}};
    pl_memory *memory = context;
    for (int i = 0; i < 2; i++) {
        const uint64_t limit = number_in_file(folder, names[i][0], "", UINT64_MAX);
        if (limit == UINT64_MAX)
            continue;
        uint64_t used = number_in_file(folder, names[i][1], "", 0);
        uint64_t cache = number_in_file(folder, "memory.stat", "inactive_file", 0);
        used = used > cache ? used - cache : 0;
        const uint64_t rest = limit > used ? limit - used : 0;
        if (limit < memory->total_bytes)
            memory->total_bytes = limit;
        if (rest < memory->available_bytes)
            memory->available_bytes = rest;
    }
}

/* At first all memory of the machine; each cgroup limit that applies makes it smaller.
 * Numbers in /proc/meminfo are in KiB. */
pl_memory pl_memory_now(void)
{
    pl_memory memory = {number_in_file("/proc", "meminfo", "MemTotal", 0) << 10,
                        (number_in_file("/proc", "meminfo", "MemAvailable", 0) +
                         number_in_file("/proc", "meminfo", "SwapFree", 0))
                            << 10};
    pl_cgroup_each("", "memory", tighten_by_folder, &memory);
    return memory;
}

uint64_t pl_memory_peak_bytes(int pid)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/proc/%d", pid);
    return number_in_file(folder, "status", "VmHWM", 0) << 10;
}
