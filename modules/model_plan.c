/* Plans where every activation lies, in one block of memory, before the block is
 * allocated.
 *
 * For each block, training keeps the values that the backward pass reads. Per token it
 * keeps (model_internal.h explains the letters)
 *
 *   4 C + W + H D + 3 F  acts   (streams and norms; qkv; attention; gate, up, ffn)
 *
 * and (H + G) D more with QK norm. With recomputation a block keeps only C acts, and
 * all blocks share the rest. In addition there is one set of gradient buffers.
 * Inference keeps the values of a single block. */
#include "modules/cuda/plan_cuda.h"
#include "modules/model_internal.h"

/* The alignment of buffers in bytes. cuBLASLt chooses an algorithm by the alignment of
 * addresses. If all buffers have the same alignment, cuBLASLt always chooses the same
 * algorithm, and recomputing gives the same bytes. */
enum { LINE = 256 };

typedef struct act_arena {
    uint8_t *base; /* where buffers are placed; NULL: only count bytes */
    size_t used;
} act_arena;

static void *carve_memory(act_arena *arena, size_t count, size_t element_bytes)
{
    void *at = arena->base ? arena->base + arena->used : NULL;
    arena->used += (count * element_bytes + LINE - 1) / LINE * LINE;
    return at;
}

/* The model's dimensions as size_t, for computing the sizes of buffers. */
typedef struct extents {
    size_t N, T, C, F, heads, queries, qkv;
    size_t normed; /* number of heads whose values before QK norm are kept */
    size_t head_size;
    size_t act_bytes;
} extents;

static extents measure_extents(const pl_shape *s, const pl_model_options *options,
                               pl_type act)
{
    size_t T = (size_t)options->context;
    size_t D = (size_t)s->head_size, H = (size_t)s->n_heads, G = (size_t)s->n_kv_heads;
    return (extents){.N = (size_t)options->batch * T,
                     .T = T,
                     .C = (size_t)s->width,
                     .F = (size_t)s->ffn,
                     .heads = H,
                     .queries = H * D,
                     .qkv = (H + 2 * G) * D,
                     .normed = s->qk_norm && options->training ? H + G : 0,
                     .head_size = D,
                     .act_bytes = pl_type_bytes(act)};
}

static pl_act *carve_acts(act_arena *arena, const extents *e, size_t width)
{
    return carve_memory(arena, e->N * width, e->act_bytes);
}

/* Places all buffers of a block except `in`, `mid` and `out`. */
static void place_block(act_arena *arena, const extents *e, block_acts *block)
{
    block->attn_norm = carve_acts(arena, e, e->C);
    block->ffn_norm = carve_acts(arena, e, e->C);
    block->attn_rstd = carve_memory(arena, e->N, sizeof(float));
    block->ffn_rstd = carve_memory(arena, e->N, sizeof(float));
    if (e->normed > 0) {
        block->qk = carve_acts(arena, e, e->normed * e->head_size);
        block->qk_rstd = carve_memory(arena, e->N * e->normed, sizeof(float));
    }
    block->qkv = carve_acts(arena, e, e->qkv);
    block->attn = carve_acts(arena, e, e->queries);
    block->lse = carve_memory(arena, e->N * e->heads, sizeof(float));
    block->gate_up = carve_acts(arena, e, 2 * e->F);
    block->ffn = carve_acts(arena, e, e->F);
}

size_t model_layout(const pl_shape *shape, const pl_model_options *options, pl_type act,
                    void *base, model_acts *acts)
{
    extents e = measure_extents(shape, options, act);
    act_arena arena = {base, 0};
    acts->numbers = carve_memory(&arena, 1, sizeof(pl_step_numbers));
    acts->tokens = carve_memory(&arena, e.N, sizeof(int32_t));
    acts->texts = carve_memory(&arena, e.N, sizeof(int32_t));
    acts->targets = carve_memory(&arena, e.N, sizeof(int32_t));
    acts->embed = carve_acts(&arena, &e, e.C);
    acts->norm = carve_acts(&arena, &e, e.C);
    acts->rstd = carve_memory(&arena, e.N, sizeof(float));
    acts->loss = carve_memory(&arena, e.N, sizeof(float));
    acts->means = carve_memory(&arena, e.N / e.T * e.C, sizeof(float));
    block_acts block = {0};
    if (!options->training) {
        /* All blocks share one set of buffers, in which the residual stream alternates
         * between two buffers. */
        place_block(&arena, &e, &block);
        block.in = block.out = acts->embed;
        block.mid = carve_acts(&arena, &e, e.C);
        for (int b = 0; acts->blocks && b < shape->n_blocks; b++)
            acts->blocks[b] = block;
        return arena.used;
    }
    /* Each block's `out` is the next block's `in`. All other buffers belong to the
     * block or, with recomputation, are shared by all blocks. */
    pl_act *stream = acts->embed;
    for (int b = 0; b < shape->n_blocks; b++) {
        if (b == 0 || !options->recompute) {
            place_block(&arena, &e, &block);
            block.mid = carve_acts(&arena, &e, e.C);
        }
        block.in = stream;
        block.out = stream = carve_acts(&arena, &e, e.C);
        if (acts->blocks)
            acts->blocks[b] = block;
    }
    acts->sums = carve_memory(&arena, N_SUMS, sizeof(double));
    acts->d_stream = carve_acts(&arena, &e, e.C);
    acts->d_norm = carve_acts(&arena, &e, e.C);
    acts->d_qkv = carve_acts(&arena, &e, e.qkv);
    acts->d_attn = carve_acts(&arena, &e, e.queries);
    acts->d_gate_up = carve_acts(&arena, &e, 2 * e.F);
    acts->d_ffn = carve_acts(&arena, &e, e.F);
    return arena.used;
}

uint64_t model_copy_bytes(const pl_backend *be, matrix_size size)
{
    const uint64_t O = (uint64_t)size.O, I = (uint64_t)size.I;
    /* int8: each row is padded to a multiple of 64 bytes, and has a scale */
    if (be->decode_only)
        return O * ((I + 63) / 64 * 64 + sizeof(float));
    return be->act == PL_BF16 ? 2 * O * I : 0;
}

int model_muon_rows(const pl_model_options *options, const pl_tensor *tensor)
{
    return options->muon_rows > 0 && options->muon_rows < tensor->rows
               ? options->muon_rows
               : tensor->rows;
}

/* If Muon's matrices do not all have the same number of rows, a tensor makes two runs.
 */
size_t model_most_runs(const pl_topology *topology, const pl_model_options *options)
{
    size_t n = 0;
    for (int i = 0; i < pl_topology_n_tensors(topology); i++) {
        const pl_tensor *tensor = pl_topology_tensor(topology, i);
        n += options->muon && tensor->rows % model_muon_rows(options, tensor) ? 2 : 1;
    }
    return n;
}

/* ---- memory of a GPU ---- */
static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Adds the scratch memory that operations on a GPU need besides the model. */
static void add_gpu_scratch(const pl_backend *be, const pl_topology *topology,
                            const pl_model_options *options, pl_model_plan *out)
{
    const pl_shape *s = pl_topology_shape(topology);
    const extents e = measure_extents(s, options, PL_BF16);
    const size_t V = (size_t)s->vocab;
    /* Operations share scratch memory, so the operation that needs most decides. */
    size_t most = cuda_classifier_bytes(e.N, V, false);
    if (options->training) {
        most = largest(most, cuda_classifier_bytes(e.N, V, true));
        most = largest(most, cuda_norm_bytes(e.N, e.C));
        if (e.normed > 0)
            most = largest(most, cuda_norm_bytes(e.N, 2 * e.head_size));
        most = largest(most, CUDA_SUM_BLOCKS * sizeof(double));
        most = largest(most, cuda_attention_bytes(e.N / e.T, e.T, e.heads,
                                                  (size_t)s->n_kv_heads, e.head_size));
    } else {
        const size_t n_parts = cuda_decode_parts(CUDA_DECODE_ROWS, e.heads, e.T);
        most = largest(most, cuda_decode_bytes(n_parts, e.head_size));
        /* int8: a matrix is decoded before it multiplies many rows */
        for (int i = 0; be->decode_only && i < pl_topology_n_tensors(topology); i++) {
            const pl_tensor *tensor = pl_topology_tensor(topology, i);
            most = largest(most,
                           (size_t)tensor->rows * (size_t)tensor->cols * e.act_bytes);
        }
    }
    out->scratch_bytes +=
        CUDA_WORKSPACE_BYTES + most +
        (size_t)cuda_table_positions((int)e.T) * (size_t)s->head_size * sizeof(float);
    if (!options->training)
        return;
    /* The optimizer's partial sums and its list of pieces. A piece ends where its run
     * ends, so each run may need one more piece. */
    size_t pieces = model_most_runs(topology, options);
    for (int i = 0; i < pl_topology_n_tensors(topology); i++) {
        const pl_tensor *tensor = pl_topology_tensor(topology, i);
        pieces += (size_t)tensor->rows * (size_t)tensor->cols / CUDA_PIECE;
    }
    out->scratch_bytes += CUDA_SUM_BLOCKS * sizeof(double) + pieces * CUDA_PIECE_BYTES;
}

/* Reads of `be` only the types of acts and weights, and whether it is a GPU. */
void pl_model_plan_on(const pl_backend *be, const pl_topology *topology,
                      const pl_model_options *options, pl_model_plan *out)
{
    model_acts acts = {0};
    const uint64_t params = sizeof(float) * (uint64_t)pl_topology_path_params(topology);
    *out = (pl_model_plan){0};
    const pl_shape *s = pl_topology_shape(topology);
    if (options->training) {
        /* the parameters, and the copies of the weights in the backend's precision */
        for (int i = 0; i < WEIGHTS_PER_BLOCK; i++)
            out->params_bytes +=
                (uint64_t)s->n_blocks * model_copy_bytes(be, model_weight_size(s, i));
        out->params_bytes +=
            params + model_copy_bytes(be, (matrix_size){s->vocab, s->width});
        out->grads_bytes = params;
        out->moments_bytes = 2 * params;
    } else {
        for (int slot = 0; slot < pl_topology_n_slots(topology); slot++)
            out->params_bytes += pl_module_bytes(be, topology, slot);
    }
    out->acts_bytes = model_layout(s, options, be->act, NULL, &acts);
    if (options->training && options->muon) {
        /* Muon needs no second moments, but working memory for Newton-Schulz on the
         * largest matrix of a block, or on all matrices of a run at once on a GPU. */
        pl_model m = {.topology = topology, .shape = s, .options = *options};
        model_place_params(&m);
        out->moments_bytes -= sizeof(float) * (uint64_t)pl_shape_hidden_params(s);
        out->scratch_bytes =
            sizeof(float) *
            (uint64_t)pl_update_work_floats(m.runs, m.n_runs, be->memory_bytes > 0);
        pl_free_all(m.runs, m.at.blocks);
    }
    if (be->memory_bytes > 0)
        add_gpu_scratch(be, topology, options, out);
}

void pl_model_plan_bytes(const pl_topology *topology, const pl_model_options *options,
                         pl_type act, pl_model_plan *out)
{
    const pl_backend be = {.act = act};
    pl_model_plan_on(&be, topology, options, out);
}

void pl_model_plan_gpu(const pl_topology *topology, const pl_model_options *options,
                       pl_model_plan *out)
{
    const pl_backend be = {.act = PL_BF16, .memory_bytes = 1};
    pl_model_plan_on(&be, topology, options, out);
}

uint64_t pl_model_plan_sum(const pl_model_plan *plan)
{
    return plan->params_bytes + plan->grads_bytes + plan->moments_bytes +
           plan->acts_bytes + plan->scratch_bytes;
}

size_t pl_model_head_rows(const pl_backend *be, size_t N, size_t V)
{
    enum { CPU_ROWS = 256 }; /* ROWS of cpu/classifier_cpu.c */
    if (be->memory_bytes > 0)
        return cuda_chunk_rows(N, V, true);
    return N < CPU_ROWS ? N : CPU_ROWS;
}
