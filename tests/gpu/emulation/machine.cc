/* Runs the grid of a launch: its blocks, warps and barriers.
 *
 * The scheduler has a list of the threads that can run. It takes the next thread in the
 * order that the test chose. A thread runs until it waits for other threads or ends. It
 * is a finding if threads are left and none of them can run, because they would wait
 * for each other for ever. */
#include "tests/gpu/emulation/machine.h"
#include "tests/gpu/emulation/fiber.h"
#include <algorithm>
#include <set>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <vector>

namespace
{
enum { WARP = 32, VALUE_BYTES = 24, THREADS_MAX = FIBERS_MAX };

enum thread_state { READY, AT_BARRIER, AT_WARP, ENDED };

struct pending_copy {
    void *shared;
    const void *global;
    int valid;
};

/* The members in use at each switch share a line of the cache. */
struct alignas(64) thread {
    fiber *fib;
    thread_state state;
    const char *file; /* file and line of the barrier at which it waits */
    int line;
    uint3 index;
    bool waited; /* whether it has waited for earlier kernels */
    bool parity; /* index of the warp's row that has this thread's newest value */
    std::vector<std::vector<pending_copy>> groups; /* the last group is still open */
    std::vector<std::vector<pending_product>> products; /* the last set is open */
};

/* A warp has two rows of values, one for every second warp operation. A lane may be one
 * operation ahead of others, and then writes into the other row. No lane can be two
 * operations ahead. */
struct warp {
    unsigned arrived, n_arrived;
    const char *file;
    int line;
    uint16_t meetings;
    uint8_t values[2][WARP * VALUE_BYTES]; /* without gaps between the lanes */
    bool has_product[2];                   /* for each row: its product was computed */
    float product[2][16][8];
};

struct grid_state {
    const emulated_call *call;
    dim3 grid, block;
    unsigned n_threads, n_warps;
    uint3 block_index;
    thread threads[THREADS_MAX];
    warp warps[THREADS_MAX / WARP];
    /* A ring of the threads that can run, in the order in which they became ready. */
    unsigned ready[THREADS_MAX], first_ready, n_ready;
    unsigned current, n_ended, n_at_barrier;
    bool waited; /* a thread of the grid has waited for earlier kernels */
    const char *barrier_file;
    int barrier_line, barrier_count, barrier_result;
    uint32_t next_phase;
};

grid_state now;
/* Reads the environment variable EMULATION_ORDER: forward, reverse or random. */
emulation_order first_order()
{
    const char *wanted = getenv("EMULATION_ORDER");
    if (wanted && strcmp(wanted, "reverse") == 0)
        return EMULATION_REVERSE;
    return wanted && strcmp(wanted, "random") == 0 ? EMULATION_RANDOM
                                                   : EMULATION_FORWARD;
}

emulation_order order = first_order();
uint64_t random_state = 1, n_launches;
std::string finding, taken;
std::set<std::string> kernels;
std::vector<std::string> kernel_list;

uint64_t next_random()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

thread *running()
{
    return &now.threads[now.current];
}
warp *running_warp()
{
    return &now.warps[now.current / WARP];
}
unsigned lanes_of(unsigned w)
{
    return std::min<unsigned>(WARP, now.n_threads - w * WARP);
}
unsigned full_mask(unsigned w)
{
    return lanes_of(w) == WARP ? 0xffffffffu : (1u << lanes_of(w)) - 1u;
}

/* ---- threads that can run ---- */

unsigned *ready_at(unsigned i)
{
    return &now.ready[(now.first_ready + i) % THREADS_MAX];
}

void make_ready(unsigned t)
{
    now.threads[t].state = READY;
    *ready_at(now.n_ready++) = t;
}

bool take_ready(unsigned *t)
{
    if (now.n_ready == 0)
        return false;
    if (order == EMULATION_REVERSE) {
        *t = *ready_at(--now.n_ready);
        return true;
    }
    if (order == EMULATION_RANDOM)
        std::swap(*ready_at(0), *ready_at((unsigned)(next_random() % now.n_ready)));
    *t = *ready_at(0);
    now.first_ready++;
    now.n_ready--;
    return true;
}

void tell_memory(const thread *t)
{
    memory_now.thread = (uint16_t)now.current;
    memory_now.early = now.call->early && !t->waited;
    memory_now.meetings = running_warp()->meetings;
    memory_now.stack = t->fib->stack;
    memory_now.stack_end = t->fib->stack + FIBER_STACK_BYTES;
}

/* Switches from the running thread to the next thread that can run or, if there is
 * none, to run_block. */
void switch_thread(bool forever)
{
    thread *t = running();
    if (!take_ready(&now.current)) {
        fiber_pause(t->fib, forever);
        return;
    }
    tell_memory(running());
    if (running() != t)
        fiber_switch(t->fib, running()->fib, forever);
}

/* Runs other threads until this thread is ready again. */
void wait_here(thread_state state, const char *file, int line)
{
    thread *t = running();
    t->state = state;
    t->file = file;
    t->line = line;
    switch_thread(false);
}

void thread_body()
{
    now.call->run(now.call->arguments);
    if (running()->groups.size() > 1 || !running()->groups[0].empty())
        machine_find(true, "ends with asynchronous copies it never waited for");
    if (running()->products.size() > 1 || !running()->products[0].empty())
        machine_find(true, "ends with products it never waited for");
    running()->state = ENDED;
    now.n_ended++;
    switch_thread(true);
}

/* ---- one block ---- */

void begin_block()
{
    now.n_ended = now.n_at_barrier = 0;
    now.n_ready = 0;
    memory_now.block_phase = memory_now.phase = now.next_phase++;
    for (unsigned w = 0; w < now.n_warps; w++) {
        now.warps[w].arrived = now.warps[w].n_arrived = 0;
        now.warps[w].meetings = 0;
    }
    for (unsigned i = 0; i < now.n_threads; i++) {
        thread *t = &now.threads[i];
        t->fib = fiber_at(i);
        t->index = uint3{i % now.block.x, i / now.block.x % now.block.y,
                         i / now.block.x / now.block.y};
        t->parity = t->waited = false;
        if (t->groups.size() != 1 || !t->groups[0].empty())
            t->groups.assign(1, {});
        if (t->products.size() != 1 || !t->products[0].empty())
            t->products.assign(1, {});
        fiber_prepare(t->fib, thread_body);
        make_ready(i);
    }
}

/* Reports that threads wait for others that can never come. */
void find_stuck()
{
    unsigned waiting = 0, missing = now.n_threads;
    const thread *first = NULL;
    for (unsigned i = 0; i < now.n_threads; i++) {
        const thread *t = &now.threads[i];
        if (t->state == ENDED || (first && t->state != first->state))
            missing = std::min(missing, i);
        else
            waiting++, first = first ? first : t;
    }
    now.current = (unsigned)(first - now.threads);
    const bool in_warp = first->state == AT_WARP;
    const uint3 m = now.threads[missing < now.n_threads ? missing : 0].index;
    machine_find(true,
                 "waits at the %s of %s:%d, which %u of %u threads of the block reach; "
                 "thread (%u,%u,%u) does not",
                 in_warp ? "warp operation" : "barrier", first->file, first->line,
                 waiting, now.n_threads, m.x, m.y, m.z);
}

void run_block()
{
    begin_block();
    (void)take_ready(&now.current);
    tell_memory(running());
    memory_now.active = true;
    fiber_resume(running()->fib);
    memory_now.active = false;
    if (!machine_has_finding() && now.n_ended < now.n_threads)
        find_stuck();
}

void run_grid()
{
    const uint64_t n =
        (uint64_t)now.grid.x * (uint64_t)now.grid.y * (uint64_t)now.grid.z;
    std::vector<uint64_t> blocks(n);
    for (uint64_t i = 0; i < n; i++)
        blocks[i] = order == EMULATION_REVERSE ? n - 1 - i : i;
    for (uint64_t i = n; order == EMULATION_RANDOM && i > 1; i--)
        std::swap(blocks[i - 1], blocks[next_random() % i]);
    for (uint64_t i = 0; i < n && !machine_has_finding(); i++) {
        now.block_index = uint3{(unsigned)(blocks[i] % now.grid.x),
                                (unsigned)(blocks[i] / now.grid.x % now.grid.y),
                                (unsigned)(blocks[i] / now.grid.x / now.grid.y)};
        run_block();
    }
}

/* Returns the name without template arguments: "(attention_kernel<64>)" becomes
 * "attention_kernel". */
std::string plain_name(const char *name)
{
    std::string plain = name;
    while (!plain.empty() && (plain[0] == '(' || plain[0] == ' '))
        plain.erase(0, 1);
    return plain.substr(0, plain.find_first_of("<) "));
}

/* ---- places at which threads meet ---- */

void finish_barrier()
{
    now.n_at_barrier = 0;
    memory_now.phase = now.next_phase++;
    for (unsigned w = 0; w < now.n_warps; w++)
        now.warps[w].meetings = 0;
    for (unsigned i = 0; i < now.n_threads; i++)
        make_ready(i);
}

bool same_place(const char *file, int line, const char *other_file, int other_line)
{
    return line == other_line && (file == other_file || strcmp(file, other_file) == 0);
}

void check_lanes(unsigned mask, const char *file, int line)
{
    const unsigned full = full_mask(now.current / WARP);
    if ((mask & full) != full)
        machine_find(true,
                     "%s:%d: mask 0x%08x leaves out lanes of the warp; kernels here "
                     "must use full warps",
                     file, line, mask);
}

/* Stores the thread's value, waits for its warp, and returns the values of all
 * lanes. */
template <size_t BYTES>
const uint8_t (*meet(const void *value, unsigned mask, const char *file,
                     int line))[BYTES]
{
    static_assert(BYTES <= VALUE_BYTES, "a value larger than the warp's rows allow");
    check_lanes(mask, file, line);
    thread *t = running();
    warp *w = running_warp();
    const unsigned lane = now.current % WARP, first = now.current - lane;
    if (w->n_arrived > 0 && !same_place(w->file, w->line, file, line))
        machine_find(true, "%s:%d: lanes of its warp wait at %s:%d", file, line,
                     w->file, w->line);
    t->parity = !t->parity;
    if (w->n_arrived == 0)
        w->has_product[t->parity] = false;
    memcpy(w->values[t->parity] + lane * BYTES, value, BYTES);
    w->file = file;
    w->line = line;
    if (++w->n_arrived == lanes_of(now.current / WARP)) {
        w->n_arrived = 0;
        w->meetings++;
        for (unsigned i = 0; i < lanes_of(first / WARP); i++)
            make_ready(first + i);
    }
    wait_here(AT_WARP, file, line);
    return reinterpret_cast<const uint8_t(*)[BYTES]>(w->values[t->parity]);
}
} // namespace

/* ---- findings ---- */

bool machine_has_finding(void)
{
    return !finding.empty();
}

const char *machine_finding(void)
{
    return finding.c_str();
}

const char *machine_running_kernel(void)
{
    return now.call ? now.call->name : NULL;
}

void machine_find(bool place, const char *format, ...)
{
    char text[512], where[256] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (place && now.call) {
        const uint3 t = running()->index, b = now.block_index;
        snprintf(where, sizeof where,
                 "kernel %s, block (%u,%u,%u), thread (%u,%u,%u): ",
                 plain_name(now.call->name).c_str(), b.x, b.y, b.z, t.x, t.y, t.z);
    }
    if (finding.empty())
        finding = std::string(where) + text;
    if (memory_now.active)
        fiber_pause(running()->fib, true);
}

void emulation_fail(const char *why)
{
    machine_find(false, "%s", why);
}

const char *emulation_take_finding(void)
{
    runtime_finish();
    taken.swap(finding);
    finding.clear();
    (void)cudaGetLastError();
    return taken.empty() ? NULL : taken.c_str();
}

/* ---- functions for tests ---- */

/* When the process ends, its list of launched kernels is added to the file that the
 * environment variable EMULATION_REPORT names. */
static void report_kernels(void)
{
    FILE *file = fopen(getenv("EMULATION_REPORT"), "a");
    for (const std::string &name : kernels)
        if (file)
            fprintf(file, "%s\n", name.c_str());
    if (file)
        fclose(file);
}

void emulation_set_order(emulation_order wanted, uint64_t seed)
{
    order = wanted;
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
}

size_t emulation_n_kernels(void)
{
    kernel_list.assign(kernels.begin(), kernels.end());
    return kernel_list.size();
}

const char *emulation_kernel(size_t i)
{
    return kernel_list[i].c_str();
}

void machine_run(const emulated_call *call, dim3 grid, dim3 block, size_t shared)
{
    if (n_launches++ == 0 && getenv("EMULATION_REPORT"))
        atexit(report_kernels);
    kernels.insert(plain_name(call->name));
    now.call = call;
    now.waited = false;
    now.grid = grid;
    now.block = block;
    now.n_threads = block.x * block.y * block.z;
    now.n_warps = (now.n_threads + WARP - 1) / WARP;
    if (now.next_phase == 0)
        now.next_phase = 2; /* 0 means never written, 1 means written by the host */
    memory_now.launch_phase = now.next_phase;
    memory_now.arguments = (const uint8_t *)call->arguments;
    memory_now.arguments_end = memory_now.arguments + call->bytes;
    memory_begin_launch(shared);
    run_grid();
    memory_end_launch();
    if (call->early && !now.waited)
        machine_find(false,
                     "kernel %s was launched early, but no thread waits for earlier "
                     "kernels",
                     call->name);
    now.call = NULL;
}

/* ---- functions for kernels ---- */

uint3 emulated_thread_index(void)
{
    return running()->index;
}
uint3 emulated_block_index(void)
{
    return now.block_index;
}
dim3 emulated_block_extent(void)
{
    return now.block;
}
dim3 emulated_grid_extent(void)
{
    return now.grid;
}
void *emulated_dynamic_shared(void)
{
    return memory_dynamic_shared();
}

void emulated_wait_for_earlier(void)
{
    running()->waited = now.waited = true;
    memory_now.early = false;
}

void emulated_prefetch(const void *from, size_t bytes)
{
    if ((uintptr_t)from % 16 != 0 || bytes % 16 != 0)
        machine_find(true, "prefetches %zu bytes at %p; both must be multiples of 16",
                     bytes, from);
    (void)memory_host_check("a prefetch", from, bytes);
}

void __trap(void)
{
    machine_find(true, "traps");
    abort();
}

int emulated_barrier(emulated_vote vote, int predicate, const char *file, int line)
{
    if (now.n_at_barrier == 0) {
        now.barrier_file = file;
        now.barrier_line = line;
        now.barrier_count = 0;
    } else if (!same_place(now.barrier_file, now.barrier_line, file, line)) {
        machine_find(true, "%s:%d: threads of its block wait at %s:%d", file, line,
                     now.barrier_file, now.barrier_line);
    }
    now.barrier_count += predicate != 0;
    if (++now.n_at_barrier == now.n_threads) {
        const int n = now.barrier_count;
        now.barrier_result = vote == EMULATED_COUNT ? n
                             : vote == EMULATED_AND ? n == (int)now.n_threads
                                                    : n > 0;
        finish_barrier();
    }
    wait_here(AT_BARRIER, file, line);
    return now.barrier_result;
}

void emulated_meet_warp(unsigned mask, const char *file, int line)
{
    (void)meet<1>("", mask, file, line);
}

void emulated_shuffle_value(void *value, size_t bytes, emulated_shuffle how, int lane,
                            int width, unsigned mask, const char *file, int line)
{
    const int self = (int)(now.current % WARP), low = self & -width;
    int from = self;
    if (how == EMULATED_IDX)
        from = low + (lane & (width - 1));
    else if (how == EMULATED_XOR)
        from = (self ^ lane) < low + width ? self ^ lane : self;
    else if (how == EMULATED_UP)
        from = self - lane >= low ? self - lane : self;
    else
        from = self + lane < low + width ? self + lane : self;
    if (from >= (int)lanes_of(now.current / WARP))
        machine_find(true, "%s:%d: takes the value of lane %d, which does not exist",
                     file, line, from);
    if (bytes == 4) {
        memcpy(value, meet<4>(value, mask, file, line)[from], 4);
        return;
    }
    uint8_t wide[16] = {};
    memcpy(wide, value, bytes);
    memcpy(value, meet<sizeof wide>(wide, mask, file, line)[from], bytes);
}

int64_t emulated_reduce(int64_t value, emulated_reduction how, unsigned mask,
                        const char *file, int line)
{
    const unsigned n = lanes_of(now.current / WARP);
    const uint8_t(*values)[sizeof value] = meet<sizeof value>(&value, mask, file, line);
    int64_t result = 0;
    for (unsigned i = 0; i < n; i++) {
        int64_t x;
        memcpy(&x, values[i], sizeof x);
        if (how == EMULATED_BALLOT)
            result |= x << i;
        else if (i == 0)
            result = x;
        else if (how == EMULATED_SUM)
            result += x;
        else if (how == EMULATED_MIN)
            result = std::min(result, x);
        else if (how == EMULATED_MAX)
            result = std::max(result, x);
        else if (how == EMULATED_BIT_AND)
            result &= x;
        else if (how == EMULATED_BIT_OR)
            result |= x;
        else
            result ^= x;
    }
    return result;
}

/* ---- tensor cores ----
 *
 * Each lane has these elements of A, B and C (PTX ISA, m16n8k16 with 16-bit operands).
 * Here g is lane/4, and p is lane%4:
 *
 *   a[0] = A[g][2p..]    a[1] = A[g+8][2p..]   a[2], a[3]: the same at k + 8
 *   b[0] = B[2p..][g]    b[1] = B[2p+8..][g]
 *   c[0..1] = C[g][2p..] c[2..3] = C[g+8][2p..] */

namespace
{
struct mma_operands {
    uint32_t a[4], b[2];
};

float half_of(uint32_t pair, int upper)
{
    const uint32_t bits = upper ? pair & 0xffff0000u : pair << 16;
    return emulated_bits<float>(bits);
}

/* Multiplies the operands that the warp has stored. One lane does this for all
 * lanes. */
void make_product(float product[16][8], const uint8_t (*values)[sizeof(mma_operands)])
{
    float a[16][16], b[16][8];
    for (int lane = 0; lane < WARP; lane++) {
        const int g = lane / 4, p = lane % 4;
        mma_operands o;
        memcpy(&o, values[lane], sizeof o);
        for (int i = 0; i < 4; i++)
            for (int upper = 0; upper < 2; upper++)
                a[g + i % 2 * 8][2 * p + i / 2 * 8 + upper] = half_of(o.a[i], upper);
        for (int i = 0; i < 2; i++)
            for (int upper = 0; upper < 2; upper++)
                b[2 * p + i * 8 + upper][g] = half_of(o.b[i], upper);
    }
    for (int row = 0; row < 16; row++) {
        float sums[8] = {};
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++)
                sums[column] += a[row][k] * b[k][column];
        memcpy(product[row], sums, sizeof sums);
    }
}
} // namespace

void emulated_mma_16816_bf16(float c[4], const uint32_t a[4], const uint32_t b[2],
                             const char *file, int line)
{
    mma_operands o;
    memcpy(o.a, a, sizeof o.a);
    memcpy(o.b, b, sizeof o.b);
    const uint8_t(*values)[sizeof o] = meet<sizeof o>(&o, 0xffffffffu, file, line);
    const int lane = (int)(now.current % WARP), g = lane / 4, p = lane % 4;
    const bool parity = running()->parity;
    warp *w = running_warp();
    if (!w->has_product[parity])
        make_product(w->product[parity], values);
    w->has_product[parity] = true;
    for (int i = 0; i < 4; i++)
        c[i] += w->product[parity][g + i / 2 * 8][2 * p + i % 2];
}

/* Lane l passes the address of row l%8 of matrix l/8. It receives two elements of each
 * matrix: those at row l/4 and columns 2(l%4) and 2(l%4) + 1, or, if `transposed` is
 * set, those at rows 2(l%4) and 2(l%4) + 1 and column l/4. */
void emulated_ldmatrix_x4(uint32_t out[4], const void *row, bool transposed,
                          const char *file, int line)
{
    memory_check(row, 16, MEMORY_READ);
    if ((uintptr_t)row % 16 != 0)
        machine_find(true, "%s:%d: row %p of a matrix is not aligned to 16 bytes", file,
                     line, row);
    uint16_t mine[8];
    memcpy(mine, row, sizeof mine);
    const uint8_t(*values)[sizeof mine] =
        meet<sizeof mine>(mine, 0xffffffffu, file, line);
    const unsigned lane = now.current % WARP, g = lane / 4, p = lane % 4;
    for (unsigned m = 0; m < 4; m++) {
        uint16_t pair[2];
        for (unsigned i = 0; i < 2; i++) {
            const unsigned r = transposed ? 2 * p + i : g,
                           c = transposed ? g : 2 * p + i;
            memcpy(&pair[i], values[m * 8 + r] + c * sizeof pair[i], sizeof pair[i]);
        }
        out[m] = (uint32_t)pair[0] | (uint32_t)pair[1] << 16;
    }
}

/* ---- asynchronous copies ----
 *
 * On a device, an asynchronous copy may happen at any time before the wait. Here it
 * happens at once in the order `forward`, and as late as possible in other orders. */

static void copy_now(const pending_copy *copy)
{
    memory_check(copy->shared, 16, MEMORY_WRITE);
    if (copy->valid > 0)
        memory_check(copy->global, (size_t)copy->valid, MEMORY_READ);
    memset(copy->shared, 0, 16);
    memcpy(copy->shared, copy->global, (size_t)copy->valid);
}

void emulated_cp_async(void *shared, const void *global, int valid)
{
    const pending_copy copy = {shared, global, valid};
    if (((uintptr_t)shared | (uintptr_t)global) % 16 != 0)
        machine_find(true,
                     "copies 16 bytes from %p to %p; both must be aligned to 16 bytes",
                     global, shared);
    running()->groups.back().push_back(copy);
    if (order == EMULATION_FORWARD)
        copy_now(&copy);
}

void emulated_cp_async_commit(void)
{
    running()->groups.push_back({});
}

void emulated_cp_async_wait(int groups_left)
{
    std::vector<std::vector<pending_copy>> *groups = &running()->groups;
    while ((int)groups->size() - 1 > groups_left) {
        for (const pending_copy &copy : groups->front())
            if (order != EMULATION_FORWARD)
                copy_now(&copy);
        groups->erase(groups->begin());
    }
}

/* ---- products of groups of four warps ----
 *
 * On a device, a product may read its operands and write its results at any time before
 * the wait. Here it does so at once in the order `forward`, and as late as possible in
 * the other orders. */

uint64_t emulated_shared_address(const void *address)
{
    return (uint64_t)((const uint8_t *)address - memory_dynamic_shared());
}

void emulated_group_multiply(float (*c)[4], int n, const uint32_t *a, uint64_t a_tile,
                             uint64_t b_tile, bool transposed, bool add,
                             const char *file, int line)
{
    pending_product x = {c, n, a != NULL, transposed, add, {}, a_tile, b_tile};
    const uint32_t none[4] = {};
    const uint8_t(*values)[sizeof none] =
        meet<sizeof none>(a ? a : none, 0xffffffffu, file, line);
    for (int p = 0; p < 4; p++)
        for (int i = 0; i < 4; i++) {
            uint32_t pairs[4];
            memcpy(pairs, values[now.current % WARP / 4 * 4 + (unsigned)p],
                   sizeof pairs);
            for (int upper = 0; upper < 2; upper++)
                x.a[i % 2][i / 2 * 8 + 2 * p + upper] = half_of(pairs[i], upper);
        }
    running()->products.back().push_back(x);
    if (order == EMULATION_FORWARD)
        machine_multiply(&x, (int)(now.current / WARP % 4), (int)(now.current % WARP));
}

void emulated_group_commit(void)
{
    running()->products.push_back({});
}

void emulated_group_wait(int sets_left)
{
    std::vector<std::vector<pending_product>> *sets = &running()->products;
    while ((int)sets->size() - 1 > sets_left) {
        for (pending_product &x : sets->front())
            if (order != EMULATION_FORWARD)
                machine_multiply(&x, (int)(now.current / WARP % 4),
                                 (int)(now.current % WARP));
        sets->erase(sets->begin());
    }
}

/* ---- atomics ---- */

#define ATOMIC(name, type, expression)                                                 \
    type name(type *address, type value)                                               \
    {                                                                                  \
        memory_check(address, sizeof *address, MEMORY_ATOMIC);                         \
        const type old = *address;                                                     \
        *address = expression;                                                         \
        return old;                                                                    \
    }
#define ATOMICS(type)                                                                  \
    ATOMIC(atomicAdd, type, old + value)                                               \
    ATOMIC(atomicExch, type, value)
ATOMICS(int)
ATOMICS(unsigned)
ATOMICS(unsigned long long)
ATOMICS(float)
ATOMIC(atomicAdd, double, old + value)
#undef ATOMICS
#define ATOMICS(type)                                                                  \
    ATOMIC(atomicMin, type, std::min(old, value))                                      \
    ATOMIC(atomicMax, type, std::max(old, value))                                      \
    ATOMIC(atomicAnd, type, old &value)                                                \
    ATOMIC(atomicOr, type, old | value)                                                \
    ATOMIC(atomicXor, type, old ^ value)                                               \
    type atomicCAS(type *address, type compare, type value)                            \
    {                                                                                  \
        memory_check(address, sizeof *address, MEMORY_ATOMIC);                         \
        const type old = *address;                                                     \
        if (old == compare)                                                            \
            *address = value;                                                          \
        return old;                                                                    \
    }
ATOMICS(int)
ATOMICS(unsigned)
ATOMICS(unsigned long long)
#undef ATOMICS
#undef ATOMIC
