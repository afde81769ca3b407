/* Products by oneDNN's matmul primitive.
 *
 * The rows of c are divided into one share per thread of the backend, and a primitive
 * of one thread computes each share. So the bits of a product depend on the number of
 * shares only, and not on how many threads compute them (team.h).
 *
 * A primitive is compiled for one shape, so primitives are kept in a table whose key is
 * the shape and kind of a call. After the first step every call finds its primitive
 * there. All products use plain row-major matrices. If weights are reordered into
 * oneDNN's blocks, products are 2% faster on Zen 4, but reordering them in each step
 * costs the time that is gained.
 *
 * The library is loaded when the first backend that uses it is opened. */
#include "modules/cpu/gemm.h"
#include "modules/cpu/team.h"
#include <dnnl.h>
#include <stdio.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define DNNL_FUNCTIONS(X)                                                              \
    X(dnnl_memory_destroy)                                                             \
    X(dnnl_primitive_destroy)                                                          \
    X(dnnl_memory_desc_init_by_strides)                                                \
    X(dnnl_primitive_attr_create)                                                      \
    X(dnnl_primitive_attr_set_scratchpad_mode)                                         \
    X(dnnl_post_ops_create)                                                            \
    X(dnnl_post_ops_append_sum)                                                        \
    X(dnnl_primitive_attr_set_post_ops)                                                \
    X(dnnl_post_ops_destroy)                                                           \
    X(dnnl_matmul_desc_init)                                                           \
    X(dnnl_primitive_desc_create)                                                      \
    X(dnnl_primitive_desc_query_md)                                                    \
    X(dnnl_primitive_attr_destroy)                                                     \
    X(dnnl_primitive_create)                                                           \
    X(dnnl_memory_create)                                                              \
    X(dnnl_memory_desc_get_size)                                                       \
    X(dnnl_primitive_desc_destroy)                                                     \
    X(dnnl_memory_set_data_handle)                                                     \
    X(dnnl_primitive_execute)                                                          \
    X(dnnl_stream_destroy)                                                             \
    X(dnnl_engine_destroy)                                                             \
    X(dnnl_version)                                                                    \
    X(dnnl_get_effective_cpu_isa)                                                      \
    X(dnnl_set_max_cpu_isa)                                                            \
    X(dnnl_engine_create)                                                              \
    X(dnnl_stream_create)

static struct {
    DNNL_FUNCTIONS(PL_LIBRARY_MEMBER)
} dnnl;

/* Limits oneDNN to the instruction set that this process may use (base/isa.h). oneDNN
 * permits this once, before its first kernel. A oneDNN that was built without this
 * function computes with its own choice, which is correct, too. */
static void limit_dnnl(void)
{
    static const dnnl_cpu_isa_t isa[PL_ISA_COUNT] = {
        dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx512_core,
        dnnl_cpu_isa_avx512_core_vnni, dnnl_cpu_isa_all};
    if (pl_isa_newest() < pl_isa_machine())
        (void)dnnl.dnnl_set_max_cpu_isa(isa[pl_isa_newest()]);
}

enum {
    TABLE_SIZE = 256
    /* more entries than a process uses; if the table is full, a new entry replaces the
     * oldest */
};
enum { ARG_A, ARG_B, ARG_C, ARG_SCRATCH, N_ARGS };

typedef struct gemm_share { /* some rows of c */
    int first, rows;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[N_ARGS];
    pl_status status; /* of the last call */
} gemm_share;

typedef struct gemm_entry {
    gemm_call call;
    gemm_share *shares; /* [n_threads]; NULL: the entry is free */
} gemm_entry;

typedef struct gemm_dnnl {
    gemm head;
    pl_type type;
    int n_threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    cpu_block scratch; /* scratch_bytes for each share */
    size_t scratch_bytes;
    gemm_entry table[TABLE_SIZE];
    int n_entries, oldest;
} gemm_dnnl;

static pl_status check_dnnl(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return PL_OK;
    return pl_fail(status == dnnl_unimplemented   ? PL_ERR_UNSUPPORTED
                   : status == dnnl_out_of_memory ? PL_ERR_NOMEM
                                                  : PL_ERR_DEVICE,
                   "oneDNN could not %s (status %d)", what, (int)status);
}

/* oneDNN takes the number of threads from OpenMP, and OpenMP keeps a separate number
 * for each calling thread. So the number is set before each call. */
static void use_one_thread(void)
{
#ifdef _OPENMP
    omp_set_num_threads(1);
#endif
}

static void entry_destroy(gemm_entry *entry, int n_shares)
{
    for (int i = 0; entry->shares != NULL && i < n_shares; i++) {
        for (int arg = 0; arg < N_ARGS; arg++)
            dnnl.dnnl_memory_destroy(entry->shares[i].memory[arg]);
        dnnl.dnnl_primitive_destroy(entry->shares[i].primitive);
    }
    pl_free(entry->shares);
    *entry = (gemm_entry){0};
}

/* Describes a matrix whose rows, or columns if it is transposed, are `stride` elements
 * apart. */
static pl_status matrix(dnnl_memory_desc_t *out, pl_type type, int rows, int cols,
                        bool transposed, int stride)
{
    const dnnl_dims_t dims = {rows, cols};
    const dnnl_dims_t strides = {transposed ? 1 : stride, transposed ? stride : 1};
    return check_dnnl(dnnl.dnnl_memory_desc_init_by_strides(
                          out, 2, dims, type == PL_F32 ? dnnl_f32 : dnnl_bf16, strides),
                      "describe a matrix");
}

/* Compiles the primitive that computes the rows of a share. */
static pl_status create_share(gemm_dnnl *g, const gemm_call *call, gemm_share *share)
{
    pl_status status = PL_OK;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t sum = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_t desc[N_ARGS];
    dnnl_matmul_desc_t matmul;
    const bool down = call->kind == GEMM_TN, turned = call->kind == GEMM_NT;
    PL_TRY(matrix(&desc[ARG_A], g->type, share->rows, call->K, down,
                  down ? call->M : call->K));
    PL_TRY(matrix(&desc[ARG_B], g->type, call->K, call->N, turned,
                  turned ? call->K : call->N));
    PL_TRY(matrix(&desc[ARG_C], call->c_type, share->rows, call->N, false, call->N));
    PL_TRY(check_dnnl(dnnl.dnnl_matmul_desc_init(&matmul, &desc[ARG_A], &desc[ARG_B],
                                                 NULL, &desc[ARG_C]),
                      "describe a product"));
    PL_TRY(check_dnnl(dnnl.dnnl_primitive_attr_create(&attr), "make attributes"));
    PL_TRY(check_dnnl(
        dnnl.dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
        "take a scratchpad"));
    if (call->add) {
        PL_TRY(check_dnnl(dnnl.dnnl_post_ops_create(&sum), "make a sum"));
        PL_TRY(check_dnnl(dnnl.dnnl_post_ops_append_sum(sum, 1.0f), "append a sum"));
        PL_TRY(
            check_dnnl(dnnl.dnnl_primitive_attr_set_post_ops(attr, sum), "set a sum"));
    }
    PL_TRY(check_dnnl(
        dnnl.dnnl_primitive_desc_create(&pd, &matmul, attr, g->engine, NULL),
        g->type == PL_BF16 ? "multiply bf16 on this machine: use precision f32"
                           : "multiply f32 on this machine"));
    desc[ARG_SCRATCH] =
        *dnnl.dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    PL_TRY(check_dnnl(dnnl.dnnl_primitive_create(&share->primitive, pd),
                      "compile a product"));
    for (int i = 0; i < N_ARGS; i++)
        PL_TRY(check_dnnl(
            dnnl.dnnl_memory_create(&share->memory[i], &desc[i], g->engine, NULL),
            "make a memory object"));
    const size_t bytes = dnnl.dnnl_memory_desc_get_size(&desc[ARG_SCRATCH]);
    if (bytes > g->scratch_bytes)
        g->scratch_bytes = (bytes + 63) & ~(size_t)63;
    PL_TRY(cpu_block_grow(&g->scratch, g->scratch_bytes * (size_t)g->n_threads,
                          "the scratchpad of oneDNN"));
done:
    dnnl.dnnl_primitive_desc_destroy(pd);
    dnnl.dnnl_primitive_attr_destroy(attr);
    dnnl.dnnl_post_ops_destroy(sum);
    return status;
}

static pl_status find_primitive(gemm_dnnl *g, const gemm_call *call, gemm_entry **out)
{
    pl_status status = PL_OK;
    for (int i = 0; i < g->n_entries; i++) {
        const gemm_call *known = &g->table[i].call;
        *out = &g->table[i];
        if ((*out)->shares != NULL && known->kind == call->kind &&
            known->M == call->M && known->N == call->N && known->K == call->K &&
            known->c_type == call->c_type && known->add == call->add)
            return PL_OK;
    }
    const int n = g->n_threads, most = (call->M + n - 1) / n;
    if (g->n_entries < TABLE_SIZE) {
        *out = &g->table[g->n_entries++];
    } else {
        *out = &g->table[g->oldest];
        g->oldest = (g->oldest + 1) % TABLE_SIZE;
        entry_destroy(*out, n);
    }
    (*out)->call = *call;
    (*out)->shares = pl_alloc((size_t)n * sizeof *(*out)->shares);
    for (int i = 0; i < n && i * most < call->M; i++) {
        gemm_share *share = &(*out)->shares[i];
        share->first = i * most;
        share->rows = call->M - share->first < most ? call->M - share->first : most;
        PL_TRY(create_share(g, call, share));
    }
done:
    if (status != PL_OK)
        entry_destroy(*out, n);
    return status;
}

static pl_status run_share(const gemm_dnnl *g, const gemm_call *call, gemm_share *share,
                           char *c, const char *a, const char *b, char *scratch)
{
    const size_t first = (size_t)share->first;
    const size_t a_at = call->kind == GEMM_TN ? first : first * (size_t)call->K;
    dnnl_memory_t *memory = share->memory;
    const void *const at[N_ARGS] = {[ARG_A] = a + a_at * pl_type_bytes(g->type),
                                    [ARG_B] = b,
                                    [ARG_C] = c + first * (size_t)call->N *
                                                      pl_type_bytes(call->c_type),
                                    [ARG_SCRATCH] = scratch};
    /* oneDNN takes pointers that are not const, although it only reads a and b */
    for (int i = 0; i < N_ARGS; i++)
        PL_CHECK(check_dnnl(
            dnnl.dnnl_memory_set_data_handle(memory[i], (void *)(uintptr_t)at[i]),
            i == ARG_SCRATCH ? "take the scratchpad" : "take a matrix"));
    const dnnl_exec_arg_t args[N_ARGS] = {{DNNL_ARG_SRC, memory[ARG_A]},
                                          {DNNL_ARG_WEIGHTS, memory[ARG_B]},
                                          {DNNL_ARG_DST, memory[ARG_C]},
                                          {DNNL_ARG_SCRATCHPAD, memory[ARG_SCRATCH]}};
    return check_dnnl(
        dnnl.dnnl_primitive_execute(share->primitive, g->stream, N_ARGS, args),
        "run a product");
}

static pl_status dnnl_run(gemm *head, const gemm_call *call, void *c, const void *a,
                          const void *b)
{
    gemm_dnnl *g = (gemm_dnnl *)head;
    gemm_entry *entry;
    use_one_thread();
    PL_CHECK(find_primitive(g, call, &entry));
    const int n = g->n_threads;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(n))
    for (int i = 0; i < n; i++) {
        gemm_share *share = &entry->shares[i];
        if (share->rows > 0)
            share->status =
                run_share(g, call, share, c, a, b,
                          (char *)g->scratch.data + (size_t)i * g->scratch_bytes);
    }
    for (int i = 0; i < n; i++)
        if (entry->shares[i].status != PL_OK)
            return pl_fail(entry->shares[i].status,
                           "oneDNN could not run a product of %d x %d x %d", call->M,
                           call->N, call->K);
    return PL_OK;
}

static void dnnl_close(gemm **head)
{
    gemm_dnnl *g = (gemm_dnnl *)*head;
    for (int i = 0; i < g->n_entries; i++)
        entry_destroy(&g->table[i], g->n_threads);
    dnnl.dnnl_stream_destroy(g->stream);
    dnnl.dnnl_engine_destroy(g->engine);
    pl_free_all(g->scratch.data, g);
    *head = NULL;
}

/* Compiles one product, so that a missing instruction set is an error here and not in
 * the first step. */
pl_status gemm_dnnl_open(pl_type type, int n_threads, gemm **out)
{
    static const char *const names[] = {DNNL_FUNCTIONS(PL_LIBRARY_NAME)};
    static bool is_limited;
    pl_status status = PL_OK;
    PL_CHECK(pl_library_load("libdnnl.so.2", "libdnnl2", names, &dnnl, sizeof dnnl));
    pl_once(&is_limited, limit_dnnl);
    gemm_dnnl *g = pl_alloc(sizeof *g);
    const gemm_call probe = {GEMM_TN, 32, 32, 32, PL_F32, true};
    const dnnl_version_t *version = dnnl.dnnl_version();
    gemm_entry *entry;
    const bool amx = dnnl.dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_avx512_core_amx;
    snprintf(g->head.text, sizeof g->head.text, "onednn %d.%d.%d%s", version->major,
             version->minor, version->patch, amx ? " amx" : "");
    g->head.run = dnnl_run;
    g->head.close = dnnl_close;
    g->type = type;
    g->n_threads = n_threads;
    use_one_thread();
    PL_TRY(
        check_dnnl(dnnl.dnnl_engine_create(&g->engine, dnnl_cpu, 0), "open an engine"));
    PL_TRY(check_dnnl(
        dnnl.dnnl_stream_create(&g->stream, g->engine, dnnl_stream_default_flags),
        "open a stream"));
    PL_TRY(find_primitive(g, &probe, &entry));
    *out = &g->head;
    return PL_OK;
done : {
    gemm *head = &g->head;
    dnnl_close(&head);
}
    return status;
}
