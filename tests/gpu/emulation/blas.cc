/* Matrix products as the documentation of cuBLASLt describes them: column-major, the
 * leading dimension between columns, op(A) [m,k], op(B) [k,n], C and D [m,n]. A call is
 * a finding if an operand lies outside of its allocation or is misaligned, or if the
 * algorithm was chosen for other operands or needs a larger workspace. Operands that
 * are not aligned to 256 bytes get a different algorithm, which adds in a different
 * order, as may happen on a device. */
#include "tests/gpu/emulation/toolkit/cublasLt.h"
#include "tests/gpu/emulation/machine.h"
#include <atomic>
#include <vector>

struct emulated_blas {
    int unused;
};
struct emulated_matmul_desc {
    cublasOperation_t trans[2];
};
struct emulated_layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t stride;
    int32_t n;    /* number of matrices */
    int64_t step; /* number of elements between them */
};
struct emulated_preference {
    uint64_t workspace;
    uint32_t alignment[4];
};

static std::atomic<uint64_t> n_choices, n_slow;
static std::atomic<uint32_t> tile;

void emulation_set_tile(uint32_t chosen)
{
    tile = chosen;
}

uint64_t emulation_n_choices(void)
{
    return n_choices;
}

uint64_t emulation_n_slow_products(void)
{
    return n_slow;
}

namespace
{
struct operand {
    const void *at;
    emulated_layout layout;
};

struct product {
    cublasOperation_t trans[2];
    float alpha, beta;
    operand a, b, c, d;
    cublasLtMatmulAlgo_t algo;
    uint64_t seal; /* the hash of seal_of for this call */
};

size_t element_bytes(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

float element(const operand *x, uint64_t row, uint64_t column)
{
    const size_t i = (size_t)row + (size_t)column * (size_t)x->layout.stride;
    if (x->layout.type == CUDA_R_32F)
        return static_cast<const float *>(x->at)[i];
    return pl_bf16_to_float(static_cast<const uint16_t *>(x->at)[i]);
}

void store(const operand *x, uint64_t row, uint64_t column, float value)
{
    const size_t i = (size_t)row + (size_t)column * (size_t)x->layout.stride;
    void *at = const_cast<void *>(x->at);
    if (x->layout.type == CUDA_R_32F)
        static_cast<float *>(at)[i] = value;
    else
        static_cast<uint16_t *>(at)[i] = pl_bf16_from_float(value);
}

bool operand_fits(const char *name, const operand *x, uint32_t alignment)
{
    const emulated_layout *l = &x->layout;
    const size_t bytes =
        ((size_t)l->stride * (size_t)(l->columns - 1) + (size_t)l->rows) *
        element_bytes(l->type);
    if (l->stride < (int64_t)l->rows)
        machine_find(false, "cublasLtMatmul: %s has %zu rows and a stride of %lld",
                     name, (size_t)l->rows, (long long)l->stride);
    else if ((uintptr_t)x->at % alignment != 0)
        machine_find(false, "cublasLtMatmul: %s at %p is not aligned to %u bytes", name,
                     x->at, alignment);
    else
        return memory_host_check("cublasLtMatmul", x->at, bytes);
    return false;
}

enum : uint64_t { COLUMNS = 32 };
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* Sets sums[i] to the sum of a[k][i] b[k] for i < COLUMNS; if `backwards` is set,
 * begins with the last k. */
void add_products(float *sums, const float *a, const float *b, uint64_t K,
                  bool backwards)
{
    four columns[COLUMNS / 4] = {};
    for (uint64_t i = 0; i < K; i++) {
        const uint64_t k = backwards ? K - 1 - i : i;
        for (uint64_t j = 0; j < COLUMNS / 4; j++)
            columns[j] += *(const four *)(a + k * COLUMNS + 4 * j) * b[k];
    }
    memcpy(sums, columns, sizeof columns);
}

/* Returns the rows [M,K] in panels of COLUMNS rows. Element (m, k) is in panel
 * m / COLUMNS at k * COLUMNS + m % COLUMNS. Rows that do not exist are zero. */
std::vector<float> panels_of(const std::vector<float> &rows, uint64_t M, uint64_t K)
{
    std::vector<float> panels((M + COLUMNS - 1) / COLUMNS * COLUMNS * K);
    for (uint64_t m = 0; m < M; m++)
        for (uint64_t k = 0; k < K; k++)
            panels[m / COLUMNS * COLUMNS * K + k * COLUMNS + m % COLUMNS] =
                rows[m * K + k];
    return panels;
}

bool is_slow(const product *p)
{
    for (const operand *x : {&p->a, &p->b, &p->d})
        if ((size_t)x->layout.stride * element_bytes(x->layout.type) % 16 != 0)
            return true;
    return false;
}

bool is_aligned(const product *p)
{
    for (const uint32_t alignment : p->algo.alignment)
        if (alignment < 256)
            return false;
    return true;
}

/* Returns op(x) as floats. Element (i, k) is at i * K + k. */
std::vector<float> rows_of(const operand *x, bool transposed)
{
    const uint64_t I = transposed ? x->layout.columns : x->layout.rows;
    const uint64_t K = transposed ? x->layout.rows : x->layout.columns;
    std::vector<float> rows(I * K);
    for (uint64_t i = 0; i < I; i++)
        for (uint64_t k = 0; k < K; k++)
            rows[i * K + k] = transposed ? element(x, k, i) : element(x, i, k);
    return rows;
}

void multiply(const product *p)
{
    const std::vector<float> a = rows_of(&p->a, p->trans[0] == CUBLAS_OP_T);
    const std::vector<float> b = rows_of(&p->b, p->trans[1] == CUBLAS_OP_N);
    const uint64_t M = p->d.layout.rows, N = p->d.layout.columns, K = a.size() / M;
    const bool backwards = !is_aligned(p);
    const std::vector<float> panels = panels_of(a, M, K);
    for (uint64_t first = 0; first < M; first += COLUMNS)
        for (uint64_t n = 0; n < N; n++) {
            float sums[COLUMNS];
            add_products(sums, &panels[first * K], &b[n * K], K, backwards);
            for (uint64_t m = first; m < M && m < first + COLUMNS; m++) {
                float sum = p->alpha * sums[m - first];
                if (p->beta != 0.0f)
                    sum += p->beta * element(&p->c, m, n);
                store(&p->d, m, n, sum);
            }
        }
}

void run_product(const product *p)
{
    const uint32_t *alignment = p->algo.alignment;
    const bool fit = operand_fits("A", &p->a, alignment[0]) &&
                     operand_fits("B", &p->b, alignment[1]) &&
                     operand_fits("C", &p->c, alignment[2]) &&
                     operand_fits("D", &p->d, alignment[3]);
    if (!fit)
        return;
    n_slow += is_slow(p);
    memory_open();
    multiply(p);
    memory_close();
    for (uint64_t n = 0; n < p->d.layout.columns; n++)
        memory_mark_written(static_cast<const uint8_t *>(p->d.at) +
                                (size_t)n * (size_t)p->d.layout.stride *
                                    element_bytes(p->d.layout.type),
                            (size_t)p->d.layout.rows * element_bytes(p->d.layout.type));
}

void run_products(product p)
{
    for (int32_t i = 0; i < p.d.layout.n; i++) {
        run_product(&p);
        for (operand *x : {&p.a, &p.b, &p.c, &p.d})
            x->at = static_cast<const uint8_t *>(x->at) +
                    (size_t)x->layout.step * element_bytes(x->layout.type);
    }
}

/* Returns a hash of the operations, extents, strides and types for which an algorithm
 * is chosen. */
uint64_t seal_of(cublasLtMatmulDesc_t desc, const emulated_layout *const layouts[4])
{
    uint64_t seal = (uint64_t)desc->trans[0] * 2 + (uint64_t)desc->trans[1] + 1;
    for (int i = 0; i < 4; i++) {
        const uint64_t numbers[] = {layouts[i]->rows,
                                    layouts[i]->columns,
                                    (uint64_t)layouts[i]->stride,
                                    (uint64_t)layouts[i]->type,
                                    (uint64_t)layouts[i]->n,
                                    (uint64_t)layouts[i]->step};
        for (uint64_t number : numbers)
            seal = (seal ^ number) * 0x9e3779b97f4a7c15u;
    }
    return seal;
}

bool extents_fit(cublasLtMatmulDesc_t desc, const emulated_layout *const l[4])
{
    const bool ta = desc->trans[0] == CUBLAS_OP_T, tb = desc->trans[1] == CUBLAS_OP_T;
    const uint64_t m = ta ? l[0]->columns : l[0]->rows;
    const uint64_t k = ta ? l[0]->rows : l[0]->columns;
    const uint64_t k2 = tb ? l[1]->columns : l[1]->rows;
    const uint64_t n = tb ? l[1]->rows : l[1]->columns;
    return k == k2 && m == l[3]->rows && n == l[3]->columns && m == l[2]->rows &&
           n == l[2]->columns && l[0]->type == l[1]->type && l[2]->type == l[3]->type &&
           l[0]->n == l[1]->n && l[0]->n == l[2]->n && l[0]->n == l[3]->n;
}
} // namespace

size_t cublasLtGetVersion(void)
{
    return 0;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "an emulated failure";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new emulated_blas();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t,
                                        cudaDataType_t)
{
    *desc = new emulated_matmul_desc{{CUBLAS_OP_N, CUBLAS_OP_N}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    delete desc;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    cublasOperation_t *trans =
        &desc->trans[attribute == CUBLASLT_MATMUL_DESC_TRANSB ? 1 : 0];
    if (bytes != sizeof *trans)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(trans, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t stride)
{
    *layout = new emulated_layout{type, rows, columns, stride, 1, 0};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes)
{
    const bool count = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    if (bytes != (count ? sizeof layout->n : sizeof layout->step))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(count ? (void *)&layout->n : (void *)&layout->step, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

/* If cuBLASLt is not told the alignment of operands, it assumes 256 bytes. */
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = new emulated_preference{0, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                     cublasLtMatmulPreferenceAttributes_t attribute,
                                     const void *value, size_t bytes)
{
    const bool workspace = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    if (bytes != (workspace ? sizeof(uint64_t) : sizeof(uint32_t)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace)
        memcpy(&preference->workspace, value, bytes);
    else if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
        memcpy(&preference
                    ->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
               value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t preference, int wanted,
                               cublasLtMatmulHeuristicResult_t results[], int *found)
{
    const emulated_layout *const layouts[4] = {a, b, c, d};
    n_choices++;
    *found = 0;
    if (wanted < 1 || !extents_fit(desc, layouts))
        return CUBLAS_STATUS_INVALID_VALUE;
    results[0] = cublasLtMatmulHeuristicResult_t();
    for (int i = 0; i < 4; i++)
        results[0].algo.alignment[i] = preference->alignment[i];
    results[0].algo.workspace = results[0].workspaceSize = preference->workspace;
    results[0].algo.seal = seal_of(desc, layouts);
    results[0].algo.tile = tile;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* Returns the sizes and types that the documentation gives. */
cublasStatus_t
cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                     cublasLtMatmulAlgoConfigAttributes_t attribute,
                                     void *value, size_t bytes, size_t *written)
{
    const size_t size = attribute >= CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ? 2 : 4;
    const uint32_t found = attribute == CUBLASLT_ALGO_CONFIG_TILE_ID ? algo->tile : 0;
    if (bytes != size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &found, bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const emulated_layout *const layouts[4] = {a_layout, b_layout, c_layout, d_layout};
    product p = {{desc->trans[0], desc->trans[1]},
                 *static_cast<const float *>(alpha),
                 *static_cast<const float *>(beta),
                 {a, *a_layout},
                 {b, *b_layout},
                 {c, *c_layout},
                 {d, *d_layout},
                 *algo,
                 seal_of(desc, layouts)};
    if (algo->seal != p.seal || workspace_bytes < algo->workspace) {
        machine_find(false, "cublasLtMatmul: the algorithm was found for other shapes, "
                            "or needs a larger workspace");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (workspace_bytes > 0 &&
        !memory_host_check("cublasLtMatmul's workspace", workspace, workspace_bytes))
        return CUBLAS_STATUS_INVALID_VALUE;
    runtime_in_order(stream, [=] { run_products(p); });
    return CUBLAS_STATUS_SUCCESS;
}
