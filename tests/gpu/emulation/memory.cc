/* Device memory and shared memory. For each byte, this file records which thread
 * accessed it, and when.
 *
 * With -fsanitize=thread the compiler inserts a call before every load and store of a
 * kernel source. The called functions are defined here and check the address:
 *
 *   own stack, arguments, read-only data   allowed
 *   device memory     in one allocation, written before it is read, without a race
 *   shared memory     the same; at the start of each block it counts as unwritten
 *   anything else     a finding
 *
 * Each byte has a shadow, which names its last writer and reader. The four bytes of an
 * aligned word share one shadow until an access touches only some of them. A phase
 * begins at the start of a block and at each of its barriers. Two accesses of different
 * threads, of which at least one writes, are a race in three cases: they are in
 * different blocks of one launch; they are in different warps in the same phase; they
 * are in one warp in the same phase, with no warp operation between them.
 *
 * Device memory is one mapping. It can be accessed only while kernels and copies run.
 * So host code that uses a device pointer faults, as it would with a device, unless a
 * stream runs at that moment. Opening and closing the mapping is cheap if it has large
 * pages. */
#include "tests/gpu/emulation/machine.h"
#include <algorithm>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

__thread memory_observer memory_now;

namespace
{
enum : size_t { ARENA_BYTES = (size_t)1 << 29, ALIGNMENT = 256, GAP = 256 };
enum : size_t { POISON_BYTES = 64 << 10, WORD = 4, LARGE_PAGE = (size_t)2 << 20 };
enum : uint16_t { MANY_LANES = 1 << 15, MANY_WARPS = 1 << 14, THREAD_BITS = 1023 };

struct access_mark {
    uint32_t phase;
    uint16_t thread, meetings;
};
struct shadow {
    access_mark write, read;
    uint32_t first_read; /* the phase of the first read in this launch */
    /* If this is not 0, the bytes of the word have their own shadows, and this is the
     * phase of the last access to them. */
    uint32_t apart;
};

/* The shadows of a range of memory. A byte's own shadow counts only if its word's bytes
 * are apart. */
struct shadows {
    shadow *words, *bytes;
};

struct allocation {
    uint8_t *start;
    size_t bytes;
    bool written; /* the host has written all of it */
};

uint8_t *arena;
shadows arena_shadows;
unsigned n_open; /* number of calls of memory_open that memory_close has not ended */
std::vector<allocation> allocations; /* sorted by address */
size_t last_found;

/* Shared memory. A buffer holds the dynamic part, and the program's thread-local
 * storage holds the static part. */
struct region {
    uint8_t *start;
    size_t bytes;
    shadows marks;
};
region dynamic_part, static_part;
uint8_t *image, *image_end;   /* the memory of the program and of its constants */
__thread uint8_t *own_static; /* start of static_part in this thread */

void *reserve(size_t bytes, int rights)
{
    void *memory =
        mmap(NULL, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        /* exit code 77: this machine cannot run the test */
        fprintf(stderr,
                "skipped: the emulated device needs %zu MiB of address space at once; "
                "see ulimit -v\n",
                bytes >> 20);
        _exit(77);
    }
    return memory;
}

/* Reserves memory that gets large pages, if the machine has them, when it is used. */
void *reserve_large(size_t bytes, int rights)
{
    const uintptr_t start = (uintptr_t)reserve(bytes + LARGE_PAGE, rights);
    void *memory = (void *)((start + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE);
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

shadows new_shadows(size_t bytes)
{
    const int rights = PROT_READ | PROT_WRITE;
    return {(shadow *)reserve((bytes / WORD + 1) * sizeof(shadow), rights),
            (shadow *)reserve((bytes + WORD) * sizeof(shadow), rights)};
}

/* dl_iterate_phdr passes the program itself first; the return value 1 ends the
 * iteration. */
int note_program(dl_phdr_info *info, size_t, void *)
{
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && !(p->p_flags & PF_W)) {
            low = std::min(low, (uintptr_t)(info->dlpi_addr + p->p_vaddr));
            high =
                std::max(high, (uintptr_t)(info->dlpi_addr + p->p_vaddr + p->p_memsz));
        }
        if (p->p_type == PT_TLS) {
            own_static = (uint8_t *)info->dlpi_tls_data;
            static_part.bytes = p->p_memsz;
        }
    }
    image = (uint8_t *)low;
    image_end = (uint8_t *)high;
    return 1;
}

void set_up()
{
    if (arena)
        return;
    arena = (uint8_t *)reserve_large(ARENA_BYTES, PROT_NONE);
    arena_shadows = new_shadows(ARENA_BYTES);
    dl_iterate_phdr(note_program, NULL);
    static_part.marks = new_shadows(static_part.bytes);
    dynamic_part.start = (uint8_t *)reserve(SHARED_BYTES_MAX, PROT_READ | PROT_WRITE);
    dynamic_part.marks = new_shadows(SHARED_BYTES_MAX);
}

bool inside(const uint8_t *at, size_t bytes, const uint8_t *start, const uint8_t *end)
{
    return at >= start && at < end && bytes <= (size_t)(end - at);
}

/* ---- the shadows of bytes and words ---- */

/* Gives a word whose bytes are apart one shadow again, if its bytes were last accessed
 * before the phase `oldest` and either all or none of them count as written. Accesses
 * before `oldest` do not count otherwise. Returns whether the word has one shadow. */
bool join(shadow *word, const shadow *bytes, uint32_t written, uint32_t oldest)
{
    if (word->apart >= oldest)
        return false;
    const bool first = bytes[0].write.phase >= written;
    for (size_t i = 1; i < WORD; i++)
        if ((bytes[i].write.phase >= written) != first)
            return false;
    *word = shadow();
    word->write.phase = first ? 1 : 0;
    return true;
}

/* Gives each byte of the word its own shadow. */
void split(shadow *word, shadow *bytes)
{
    for (size_t i = 0; i < WORD && word->apart == 0; i++)
        bytes[i] = *word;
    word->apart = std::max(memory_now.phase, 1u);
}

/* Returns the shadow of the byte at offset `at`, and in `n` the number of bytes, one or
 * WORD, that share it. An access touches this byte and the `left - 1` bytes behind
 * it. */
shadow *shadow_at(const shadows *x, size_t at, size_t left, uint32_t written,
                  uint32_t oldest, size_t *n)
{
    shadow *word = &x->words[at / WORD], *bytes = &x->bytes[at / WORD * WORD];
    const bool whole = at % WORD == 0 && left >= WORD;
    *n = WORD;
    if (whole && (word->apart == 0 || join(word, bytes, written, oldest)))
        return word;
    *n = 1;
    split(word, bytes);
    return &bytes[at % WORD];
}

/* ---- races ---- */

/* Returns whether the marked access and an access of the running thread may happen at
 * the same time. Accesses before the phase `oldest` do not count. This phase is the
 * start of the launch for device memory, and the start of the block for shared
 * memory. */
inline bool unordered(const access_mark *mark, uint32_t oldest)
{
    if (mark->phase < oldest)
        return false;
    if (mark->phase < memory_now.block_phase)
        return true;
    if (mark->phase != memory_now.phase)
        return false;
    const unsigned other = mark->thread & THREAD_BITS, self = memory_now.thread;
    if (mark->thread & MANY_WARPS)
        return true;
    if (other / 32 != self / 32)
        return true;
    return mark->meetings == memory_now.meetings &&
           (other != self || (mark->thread & MANY_LANES));
}

void note_read(shadow *s, uint32_t oldest)
{
    access_mark *r = &s->read;
    const unsigned other = r->thread & THREAD_BITS;
    uint16_t many = 0;
    if (r->phase == memory_now.phase) {
        many = r->thread & (MANY_LANES | MANY_WARPS);
        if (other / 32 != memory_now.thread / 32)
            many |= MANY_WARPS;
        else if (r->meetings != memory_now.meetings)
            many &= (uint16_t)~MANY_LANES;
        else if (other != memory_now.thread)
            many |= MANY_LANES;
    }
    if (s->first_read < oldest)
        s->first_read = memory_now.phase;
    *r = access_mark{memory_now.phase, (uint16_t)(memory_now.thread | many),
                     memory_now.meetings};
}

/* Returns what kind of race this access is at byte s, or NULL. Atomic accesses do not
 * race with each other, so their mark names no thread; they race with plain ones. */
const char *race_at(shadow *s, memory_access access, uint32_t oldest)
{
    if (unordered(&s->write, oldest))
        return access == MEMORY_READ ? "reads what another wrote"
                                     : "writes what another wrote";
    if (access == MEMORY_READ) {
        note_read(s, oldest);
        return NULL;
    }
    const bool other_block =
        s->first_read >= oldest && s->first_read < memory_now.block_phase;
    if (other_block || unordered(&s->read, oldest))
        return "writes what another read";
    if (access == MEMORY_WRITE)
        s->write =
            access_mark{memory_now.phase, memory_now.thread, memory_now.meetings};
    else if (s->write.phase == 0)
        s->write.phase = 1;
    return NULL;
}

const char *verb(memory_access access)
{
    return access == MEMORY_READ ? "reads" : "writes";
}

/* Checks an access to the bytes from offset `at` on of memory that has these shadows,
 * and updates the shadows. A byte may be read if it was written in the phase `written`
 * or later. */
void check_marks(const shadows *marks, size_t at, const void *address, size_t bytes,
                 memory_access access, uint32_t written, bool shared)
{
    const char *kind = shared ? "shared" : "device";
    const uint32_t oldest = shared ? memory_now.block_phase : memory_now.launch_phase;
    for (size_t i = 0, n; i < bytes; i += n) {
        shadow *s = shadow_at(marks, at + i, bytes - i, written, oldest, &n);
        if (access != MEMORY_WRITE && s->write.phase < written)
            machine_find(true,
                         "reads %s memory at %p that nobody wrote (byte %zu of %zu)",
                         kind, address, i, bytes);
        const char *race = race_at(s, access, oldest);
        if (race)
            machine_find(
                true, "%s: no barrier between them, %s memory at %p (byte %zu of %zu)",
                race, kind, address, i, bytes);
    }
}

/* ---- allocations ---- */

/* Returns the index of the last allocation that starts at or below the address, or
 * -1. */
ptrdiff_t allocation_below(const uint8_t *at)
{
    if (last_found < allocations.size() && allocations[last_found].start <= at &&
        (last_found + 1 == allocations.size() ||
         at < allocations[last_found + 1].start))
        return (ptrdiff_t)last_found;
    auto next = std::upper_bound(
        allocations.begin(), allocations.end(), at,
        [](const uint8_t *a, const allocation &b) { return a < b.start; });
    const ptrdiff_t i = next - allocations.begin() - 1;
    if (i >= 0)
        last_found = (size_t)i;
    return i;
}

bool in_arena(const uint8_t *at)
{
    return at >= arena && at < arena + ARENA_BYTES;
}

bool holds(const allocation *a, const uint8_t *at, size_t bytes)
{
    return inside(at, bytes, a->start, a->start + a->bytes);
}

void check_device(const uint8_t *at, size_t bytes, memory_access access)
{
    const ptrdiff_t i = allocation_below(at);
    const allocation *a = i >= 0 ? &allocations[(size_t)i] : NULL;
    if (!a)
        machine_find(true, "%s %zu bytes at %p, before all allocations", verb(access),
                     bytes, (const void *)at);
    else if (!holds(a, at, bytes))
        machine_find(true,
                     "%s %zu bytes at %p, which is %zu bytes after the start of an "
                     "allocation of %zu",
                     verb(access), bytes, (const void *)at, (size_t)(at - a->start),
                     a->bytes);
    else
        check_marks(&arena_shadows, (size_t)(at - arena), at, bytes, access,
                    a->written ? 0 : 1, false);
}
} // namespace

static uint64_t n_accesses; /* of kernels to device memory */

uint64_t emulation_n_accesses(void)
{
    return n_accesses;
}

void memory_check(const void *address, size_t bytes, memory_access access)
{
    const uint8_t *at = (const uint8_t *)address;
    if (memory_now.active && in_arena(at))
        n_accesses++;
    if (!memory_now.active || inside(at, bytes, memory_now.stack, memory_now.stack_end))
        return;
    if (in_arena(at) && memory_now.early)
        machine_find(true, "%s %zu bytes at %p before it waits for earlier kernels",
                     verb(access), bytes, address);
    else if (in_arena(at))
        check_device(at, bytes, access);
    else if (inside(at, bytes, dynamic_part.start,
                    dynamic_part.start + dynamic_part.bytes))
        check_marks(&dynamic_part.marks, (size_t)(at - dynamic_part.start), at, bytes,
                    access, memory_now.block_phase, true);
    else if (inside(at, bytes, static_part.start,
                    static_part.start + static_part.bytes))
        check_marks(&static_part.marks, (size_t)(at - static_part.start), at, bytes,
                    access, memory_now.block_phase, true);
    else if (access != MEMORY_READ ||
             !(inside(at, bytes, memory_now.arguments, memory_now.arguments_end) ||
               inside(at, bytes, image, image_end)))
        machine_find(
            true,
            "%s %zu bytes at %p, which is not memory of the device (shared: %p, "
            "%zu bytes)",
            verb(access), bytes, address, (void *)dynamic_part.start,
            dynamic_part.bytes);
}

/* ---- functions for the scheduler ---- */

void memory_begin_launch(size_t shared)
{
    set_up();
    if (!own_static)
        dl_iterate_phdr(note_program, NULL);
    static_part.start = own_static;
    dynamic_part.bytes = shared;
    memory_open();
}

void memory_end_launch(void)
{
    memory_close();
}

uint8_t *memory_dynamic_shared(void)
{
    return dynamic_part.start;
}

/* ---- functions for the runtime ---- */

void memory_open(void)
{
    set_up();
    if (n_open++ == 0 && mprotect(arena, ARENA_BYTES, PROT_READ | PROT_WRITE) != 0)
        abort();
}

void memory_close(void)
{
    if (--n_open == 0 && mprotect(arena, ARENA_BYTES, PROT_NONE) != 0)
        abort();
}

/* Allocates at the first gap that is large enough, and leaves a gap behind each
 * allocation. New memory counts as unwritten and is filled with NaN. */
void *memory_allocate(size_t bytes)
{
    set_up();
    const size_t need = (bytes + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *at = arena;
    size_t i = 0;
    if (bytes > ARENA_BYTES)
        return NULL;
    for (; i < allocations.size(); i++) {
        const allocation *a = &allocations[i];
        if ((size_t)(a->start - at) >= need)
            break;
        at = a->start + (a->bytes + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if ((size_t)(arena + ARENA_BYTES - at) < need)
        return NULL;
    allocations.insert(allocations.begin() + (ptrdiff_t)i,
                       allocation{at, bytes, false});
    memset((void *)(arena_shadows.words + (size_t)(at - arena) / WORD), 0,
           (bytes / WORD + 1) * sizeof(shadow));
    memory_open();
    memset(at, 0xff, std::min<size_t>(bytes, POISON_BYTES));
    memory_close();
    return at;
}

bool memory_free(void *memory)
{
    const ptrdiff_t i = allocation_below((const uint8_t *)memory);
    if (i < 0 || allocations[(size_t)i].start != memory)
        return false;
    allocations.erase(allocations.begin() + i);
    last_found = 0;
    return true;
}

bool memory_is_device(const void *address)
{
    return arena && in_arena((const uint8_t *)address);
}

bool memory_host_check(const char *who, const void *address, size_t bytes)
{
    const uint8_t *at = (const uint8_t *)address;
    const ptrdiff_t i = memory_is_device(at) ? allocation_below(at) : -1;
    if (i >= 0 && (bytes == 0 || holds(&allocations[(size_t)i], at, bytes)))
        return true;
    if (i < 0)
        machine_find(false, "%s: %zu bytes at %p are not device memory", who, bytes,
                     address);
    else
        machine_find(false,
                     "%s: %zu bytes at %p exceed their allocation, %zu bytes after the "
                     "start of %zu",
                     who, bytes, address, (size_t)(at - allocations[(size_t)i].start),
                     allocations[(size_t)i].bytes);
    return false;
}

void memory_mark_written(const void *address, size_t bytes)
{
    const uint8_t *at = (const uint8_t *)address;
    const ptrdiff_t i = allocation_below(at);
    if (bytes == 0 || i < 0 || allocations[(size_t)i].written)
        return;
    if (allocations[(size_t)i].start == at && allocations[(size_t)i].bytes == bytes)
        allocations[(size_t)i].written = true;
    else
        for (size_t k = 0, n; k < bytes; k += n) {
            shadow *s = shadow_at(&arena_shadows, (size_t)(at - arena) + k, bytes - k,
                                  1, memory_now.launch_phase, &n);
            if (s->write.phase == 0)
                s->write.phase = 1;
        }
}

void memory_copy_in(void *to, const void *from, size_t bytes)
{
    memory_open();
    memcpy(to, from, bytes);
    memory_close();
    memory_mark_written(to, bytes);
}

void memory_copy_out(void *to, const void *from, size_t bytes)
{
    memory_open();
    memcpy(to, from, bytes);
    memory_close();
}

void memory_copy_within(void *to, const void *from, size_t bytes)
{
    memory_open();
    memmove(to, from, bytes);
    memory_close();
    memory_mark_written(to, bytes);
}

void memory_set(void *to, int value, size_t bytes)
{
    memory_open();
    memset(to, value, bytes);
    memory_close();
    memory_mark_written(to, bytes);
}

size_t memory_free_bytes(void)
{
    size_t bytes;
    (void)emulation_n_allocations(&bytes);
    return ARENA_BYTES - bytes;
}

size_t memory_total_bytes(void)
{
    return ARENA_BYTES;
}

size_t emulation_n_allocations(size_t *bytes)
{
    *bytes = 0;
    for (const allocation &a : allocations)
        *bytes += a.bytes;
    return allocations.size();
}

/* ---- functions that the compiler calls ---- */

/* Checks the alignment for types that the compiler assumes to be aligned, because a
 * device requires this alignment. */
static void check_aligned(const void *address, size_t bytes, memory_access access)
{
    if (memory_now.active && (uintptr_t)address % bytes != 0)
        machine_find(true, "%s %zu bytes at %p, which is not aligned to that",
                     verb(access), bytes, address);
    memory_check(address, bytes, access);
}

extern "C" {
#define REPORTS(bytes)                                                                 \
    void __tsan_read##bytes(void *p);                                                  \
    void __tsan_write##bytes(void *p);                                                 \
    void __tsan_unaligned_read##bytes(void *p);                                        \
    void __tsan_unaligned_write##bytes(void *p);                                       \
    void __tsan_volatile_read##bytes(void *p);                                         \
    void __tsan_volatile_write##bytes(void *p);                                        \
    void __tsan_read##bytes(void *p)                                                   \
    {                                                                                  \
        check_aligned(p, bytes, MEMORY_READ);                                          \
    }                                                                                  \
    void __tsan_write##bytes(void *p)                                                  \
    {                                                                                  \
        check_aligned(p, bytes, MEMORY_WRITE);                                         \
    }                                                                                  \
    void __tsan_unaligned_read##bytes(void *p)                                         \
    {                                                                                  \
        memory_check(p, bytes, MEMORY_READ);                                           \
    }                                                                                  \
    void __tsan_unaligned_write##bytes(void *p)                                        \
    {                                                                                  \
        memory_check(p, bytes, MEMORY_WRITE);                                          \
    }                                                                                  \
    void __tsan_volatile_read##bytes(void *p)                                          \
    {                                                                                  \
        check_aligned(p, bytes, MEMORY_READ);                                          \
    }                                                                                  \
    void __tsan_volatile_write##bytes(void *p)                                         \
    {                                                                                  \
        check_aligned(p, bytes, MEMORY_WRITE);                                         \
    }
REPORTS(1)
REPORTS(2)
REPORTS(4)
REPORTS(8)
REPORTS(16)
#undef REPORTS
void __tsan_init(void);
void __tsan_func_entry(void *);
void __tsan_func_exit(void *);
void __tsan_vptr_update(void *, void *);
void __tsan_vptr_read(void **);
void __tsan_read_range(void *p, long bytes);
void __tsan_write_range(void *p, long bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes);
void __tsan_init(void)
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit(void *)
{
}
void __tsan_vptr_update(void *, void *)
{
}
void __tsan_vptr_read(void **)
{
}
void __tsan_read_range(void *p, long bytes)
{
    memory_check(p, (size_t)bytes, MEMORY_READ);
}
void __tsan_write_range(void *p, long bytes)
{
    memory_check(p, (size_t)bytes, MEMORY_WRITE);
}
void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    memory_check(from, bytes, MEMORY_READ);
    memory_check(to, bytes, MEMORY_WRITE);
    return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    memory_check(from, bytes, MEMORY_READ);
    memory_check(to, bytes, MEMORY_WRITE);
    return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes)
{
    memory_check(to, bytes, MEMORY_WRITE);
    return memset(to, value, bytes);
}
}
