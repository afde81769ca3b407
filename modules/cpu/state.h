/* The state that the operations of the cpu backend share.
 *
 * The files that hold operations (`*_cpu.c`) are compiled once per instruction set,
 * with different compiler flags and a different value of CPU_ISA. OP() appends this
 * value to every name with external linkage. When a backend is created, it chooses the
 * table of one instruction set. Files without OP() are compiled once: gemm_f16.c for
 * AVX512-FP16, all others for any machine. */
#pragma once
#include "modules/cpu/gemm.h"
#include "modules/cpu/team.h"

#define CPU_JOIN_(a, b) a##_##b
#define CPU_JOIN(a, b)  CPU_JOIN_(a, b)
#define OP(name)        CPU_JOIN(name, CPU_ISA)

extern const pl_ops cpu_ops_portable, cpu_ops_avx2, cpu_ops_avx512, cpu_ops_avx512_bf16;

struct pl_weight {
    const float *master; /* [O,I] */
    void *copy;          /* bf16 [O,I]; NULL in f32, where the master itself is used */
    /* NULL unless the backend uses int8: `bytes` has O rows, each padded to a multiple
     * of CPU_BYTE_GROUP, and `scales` has one scale per row (bytes_cpu.c) */
    uint8_t *bytes;
    float *scales;
    int O, I;
};
/* number of neighbouring elements of x that are scaled by the same step
 * (bytes_cpu.c) */
enum { CPU_BYTE_GROUP = 64 };

/* out [N,O] = x w^T for a weight with one byte per element (bytes_cpu.c). */
typedef void cpu_multiply_bytes(pl_backend *be, pl_act *out, pl_type out_type,
                                const pl_act *x, const pl_weight *w, int N);
extern cpu_multiply_bytes multiply_bytes_portable, multiply_bytes_avx2,
    multiply_bytes_avx512, multiply_bytes_avx512_vnni, multiply_bytes_avx512_bf16;

typedef struct cpu_state {
    pl_backend backend;
    gemm *gemm;
    /* Not in the table of operations, because it is the only operation for which VNNI
     * makes a difference: the rest of the table is that of avx512. */
    cpu_multiply_bytes *multiply_bytes;
    /* Memory that an operation may use until it returns; operations do not nest. The
     * memory grows when a larger shape comes and never shrinks. */
    cpu_block scratch;
    /* a second block like scratch, for the packed operands of products by our own
     * tiles */
    cpu_block packed;
    bool own_dw; /* whether our own tiles compute dw, in bf16 (dw_cpu.c) */
    /* Cosine and sine of position * frequency, [n_positions, rope_size / 2] each. */
    float *rope_cos, *rope_sin;
    int rope_positions, rope_size;
    double rope_theta;
    /* The first failure of an operation; sync reports it. */
    pl_status failure;
    char failure_text[256];
} cpu_state;

static inline cpu_state *cpu_self(const pl_backend *be)
{
    return be->self;
}

/* Returns the number of threads (team.h) for work that reads and writes `bytes` bytes
 * and is divided among threads by whole rows. The result of such work does not depend
 * on the number of threads. Waking a waiting thread costs about as much as moving
 * TEAM_BYTES, and more if the thread sleeps. If the number differs from that of the
 * previous parallel region, libgomp starts new threads; so a number between 1 and all
 * is never used. */
static inline int cpu_team(const pl_backend *be, size_t bytes)
{
    enum { TEAM_BYTES = 64 << 10 };
    const size_t share = bytes / (size_t)be->n_threads;
    return share >= TEAM_BYTES ? cpu_threads(be->n_threads) : 1;
}

/* Keeps a failure and the thread's last error until sync reports them. Only the first
 * failure is kept. */
void cpu_note_failure(cpu_state *self, pl_status status);

/* Returns the scratch block with at least `bytes`, 64-byte aligned. If memory does not
 * suffice, notes the failure (cpu_note_failure) and returns NULL. */
void *cpu_scratch(cpu_state *self, size_t bytes);

/* Rounds a size up to whole cache lines, so that parts of a block do not share one. */
static inline size_t cpu_lines(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Fills the rope table for positions 0 .. n_positions-1. If memory does not suffice,
 * notes the failure and returns false. */
bool cpu_rope_table(cpu_state *self, int D, double theta, int n_positions);

static inline void cpu_gemm(cpu_state *self, const gemm_call *call, void *c,
                            const void *a, const void *b)
{
    cpu_note_failure(self, self->gemm->run(self->gemm, call, c, a, b));
}

/* Returns the copy of a weight that products read, in the type of activations. */
static inline const void *cpu_weight_data(const pl_weight *weight)
{
    return weight->copy != NULL ? weight->copy : weight->master;
}

/* Returns the address of element i of a buffer of activations. */
static inline pl_act *act_at(pl_act *acts, size_t i, pl_type type)
{
    return (pl_act *)(void *)((char *)acts + i * pl_type_bytes(type));
}
static inline const pl_act *act_in(const pl_act *acts, size_t i, pl_type type)
{
    return (const pl_act *)(const void *)((const char *)acts + i * pl_type_bytes(type));
}
