/* Opens the cpu backend: chooses precision, instruction set and library. */
#include "modules/cpu/cpu.h"
#include "modules/cpu/ops_cpu.h"
#include <math.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct cpu_isa {
    const char *name;
    const pl_ops *ops;
    cpu_multiply_bytes *multiply_bytes;
    bool bf16;      /* whether the instruction set multiplies bf16 */
    bool fast_bf16; /* whether this machine multiplies bf16 faster than f32 */
    bool f16;       /* whether the instruction set has fp16 arithmetic */
    bool tiles;     /* whether dw_cpu.c computes dw faster than a library */
} cpu_isa;

#if defined(__x86_64__)
/* Whether the operating system saves the registers of AMX. */
static bool saves_tiles(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0, low = 0, high = 0;
    enum { OSXSAVE = 1 << 27, TILES = 3 << 17 };
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE))
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & TILES) == TILES;
}

/* Measured speed of bf16 products, relative to f32: about 18 times with AMX (Sapphire
 * Rapids), twice with AMD's vdpbf16ps (Zen 4), and below 1 with Intel's vdpbf16ps.
 * Intel's fp16 FMA has twice the rate of f32 (Emerald Rapids). */
static void detect(cpu_isa isa[PL_ISA_COUNT])
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    (void)__get_cpuid_count(7, 0, &a, &b, &c, &d);
    const bool amx_bf16 = (d >> 22 & 1) != 0 && saves_tiles();
    const bool f16 = (d >> 23 & 1) != 0 && gemm_has_f16();
    __builtin_cpu_init();
    const bool amd = __builtin_cpu_is("amd") != 0;
    const cpu_isa rows[PL_ISA_COUNT] = {
        {.ops = &cpu_ops_portable, .multiply_bytes = multiply_bytes_portable},
        {.ops = &cpu_ops_avx2, .multiply_bytes = multiply_bytes_avx2},
        {.ops = &cpu_ops_avx512, .multiply_bytes = multiply_bytes_avx512},
        {.ops = &cpu_ops_avx512, .multiply_bytes = multiply_bytes_avx512_vnni},
        {.ops = &cpu_ops_avx512_bf16,
         .multiply_bytes = multiply_bytes_avx512_bf16,
         .bf16 = true,
         .fast_bf16 = amd || amx_bf16,
         .f16 = f16,
         .tiles = !amx_bf16},
    };
    memcpy(isa, rows, sizeof rows);
}
#else
static void detect(cpu_isa isa[PL_ISA_COUNT])
{
    memset(isa, 0, PL_ISA_COUNT * sizeof *isa);
    isa[PL_ISA_PORTABLE] =
        (cpu_isa){.ops = &cpu_ops_portable, .multiply_bytes = multiply_bytes_portable};
}
#endif

pl_status cpu_backend_create(const pl_backend_options *options, const char *isa,
                             pl_backend **out)
{
    const char *precision = options->precision ? options->precision : "auto";
    const bool is_auto = strcmp(precision, "auto") == 0;
    const bool is_int8 = strcmp(precision, "int8") == 0;
    const int n_threads = options->n_threads;
    cpu_isa all[PL_ISA_COUNT], chosen = {0};
    bool found = false;
    gemm *products;
    *out = NULL;
    if (n_threads < 1)
        return pl_fail(PL_ERR_CONFIG,
                       "the cpu backend cannot run on %d threads; use 1 or more",
                       n_threads);
    detect(all);
    for (int i = (int)pl_isa_newest(); i >= 0 && !found; i--) {
        chosen = all[i];
        chosen.name = pl_isa_names[i];
        found = strcmp(isa, "auto") == 0 || strcmp(isa, chosen.name) == 0;
    }
    if (!found)
        return pl_fail(PL_ERR_UNSUPPORTED, "this machine or build lacks the %s kernels",
                       isa);

    /* The arithmetic of products. With f16, activations are f32. With int8, weights are
     * bytes, and activations are bf16 if this machine multiplies bf16 fast, else f32.
     */
    const char *arithmetic = precision;
    if (is_auto || is_int8)
        arithmetic = chosen.fast_bf16 && gemm_has_bf16() ? "bf16"
                     : is_auto && chosen.f16             ? "f16"
                                                         : "f32";
    const bool in_bf16 = strcmp(arithmetic, "bf16") == 0;
    const bool in_f16 = strcmp(arithmetic, "f16") == 0;
    const pl_type type = in_bf16 ? PL_BF16 : PL_F32;
    if (!in_bf16 && !in_f16 && strcmp(arithmetic, "f32") != 0)
        return pl_fail(PL_ERR_CONFIG,
                       "unknown precision \"%s\"; choose auto, f32, bf16, f16 or int8",
                       precision);
    if (in_f16 && gemm_has_f16() && !chosen.f16)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "%s cannot multiply in f16 (AVX512-FP16); use precision f32",
                       strcmp(chosen.name, "avx512_bf16") == 0 ? "this processor"
                                                               : chosen.name);
    if (in_bf16 && !(chosen.bf16 && gemm_has_bf16()))
        PL_CHECK(gemm_wide_open(n_threads, &products));
    else if (in_f16)
        PL_CHECK(gemm_f16_open(n_threads, &products));
    else
        PL_CHECK(gemm_open(type, n_threads, &products));

    cpu_state *self = pl_alloc(sizeof *self);
    self->gemm = products;
    self->multiply_bytes = chosen.multiply_bytes;
    self->own_dw = chosen.tiles && in_bf16;
    self->backend = (pl_backend){.ops = chosen.ops,
                                 .name = "cpu",
                                 .act = type,
                                 .n_threads = n_threads,
                                 .decode_only = is_int8,
                                 .self = self};
    snprintf(self->backend.device, sizeof self->backend.device, "cpu %s%s %s %s",
             is_int8 ? "int8 " : "", arithmetic, chosen.name, products->text);
    *out = &self->backend;
    return PL_OK;
}

void cpu_backend_destroy(pl_backend **backend)
{
    if (*backend == NULL)
        return;
    cpu_state *self = cpu_self(*backend);
    self->gemm->close(&self->gemm);
    pl_free_all(self->scratch.data, self->packed.data, self->rope_cos, self);
    *backend = NULL;
}

void cpu_note_failure(cpu_state *self, pl_status status)
{
    if (status == PL_OK || self->failure != PL_OK)
        return;
    self->failure = status;
    (void)pl_copy_text(self->failure_text, sizeof self->failure_text, pl_last_error());
}

void *cpu_scratch(cpu_state *self, size_t bytes)
{
    cpu_note_failure(self, cpu_block_grow(&self->scratch, bytes,
                                          "the scratch memory of operations"));
    return self->scratch.data;
}

pl_status cpu_sync(pl_backend *be)
{
    cpu_state *self = cpu_self(be);
    const pl_status status = self->failure;
    cpu_threads_rest();
    self->failure = PL_OK;
    return status == PL_OK ? PL_OK : pl_fail(status, "%s", self->failure_text);
}

/* One block of memory has the cosines, then the sines. The number of positions is
 * doubled when it is too small, because a decoder needs one more position for each
 * token. */
bool cpu_rope_table(cpu_state *self, int D, double theta, int n_positions)
{
    const bool same = self->rope_size == D && self->rope_theta == theta;
    if (same && self->rope_positions >= n_positions)
        return true;
    int room = 256;
    while (room < n_positions)
        room *= 2;
    const size_t half = (size_t)D / 2, count = (size_t)room * half;
    void *block = NULL;
    const pl_status status =
        pl_try_alloc(2 * count * sizeof(float), "the rotary table", &block);
    cpu_note_failure(self, status);
    if (status != PL_OK)
        return false;
    pl_free(self->rope_cos);
    self->rope_cos = block;
    self->rope_sin = self->rope_cos + count;
    self->rope_positions = room;
    self->rope_size = D;
    self->rope_theta = theta;
    for (size_t i = 0; i < count; i++) {
        const double frequency = pow(theta, -2.0 * (double)(i % half) / D);
        const double angle = (double)(i / half) * frequency;
        self->rope_cos[i] = (float)cos(angle);
        self->rope_sin[i] = (float)sin(angle);
    }
    return true;
}
