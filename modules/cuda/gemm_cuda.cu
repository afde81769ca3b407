/* Row-major products by cuBLASLt, which is column-major. The row-major product c = a b
 * is the column-major product c^T = b^T a^T. So b is passed as the first operand and a
 * as the second, and cuBLASLt reads each as the transpose of the row-major matrix. */
#include "modules/cuda/gemm_cuda.h"
#include "modules/cuda/blas.h"
#include "modules/cuda/device.h"
#include "modules/cuda/plan_cuda.h"
#include <stdio.h>

enum { PLANS_MAX = 512, BUCKETS = 512, ALIGNMENT_MAX = 256 };
static const size_t workspace_bytes = CUDA_WORKSPACE_BYTES;

/* Everything that determines a plan. The alignments are those of the addresses of the
 * first operand, the second operand and c, in bytes. */
typedef struct plan_key {
    int32_t kind, M, N, K, type, a_stride, c_stride, n;
    uint32_t alignment[3];
} plan_key;

typedef struct gemm_plan {
    plan_key key;
    gemm_plan *next; /* next plan in the same bucket of the table */
    uint64_t used;   /* number of the product that last used the plan */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t first, second, c;
    cublasLtMatmulAlgo_t algo;
} gemm_plan;

struct cuda_gemm {
    blas api;
    cublasLtHandle_t handle;
    void *workspace;
    gemm_plan plans[PLANS_MAX], *buckets[BUCKETS];
    int n_plans;
    uint64_t n_products;
};

static pl_status check(const cuda_gemm *gemm, cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return PL_OK;
    return pl_fail(PL_ERR_DEVICE, "cuBLASLt failed (%s): %s", what,
                   gemm->api.cublasLtGetStatusString(status));
}

pl_status gemm_cuda_open(cudaStream_t stream, cuda_gemm **out)
{
    *out = NULL;
    cuda_gemm *gemm = (cuda_gemm *)pl_alloc(sizeof *gemm);
    pl_status status = blas_load(&gemm->api);
    if (status == PL_OK)
        status = check(gemm, gemm->api.cublasLtCreate(&gemm->handle), "starting it");
    if (status == PL_OK)
        status = device_check(cudaMalloc(&gemm->workspace, workspace_bytes),
                              "the workspace of matrix products");
    if (status == PL_OK)
        status = device_clear_for_libraries(gemm->workspace, workspace_bytes, stream);
    if (status != PL_OK)
        gemm_cuda_close(&gemm);
    *out = gemm;
    return status;
}

/* Frees a plan, which may be only partly made. */
static void drop_plan(const blas *api, gemm_plan *plan)
{
    if (plan->desc)
        (void)api->cublasLtMatmulDescDestroy(plan->desc);
    if (plan->first)
        (void)api->cublasLtMatrixLayoutDestroy(plan->first);
    if (plan->second)
        (void)api->cublasLtMatrixLayoutDestroy(plan->second);
    if (plan->c)
        (void)api->cublasLtMatrixLayoutDestroy(plan->c);
}

void gemm_cuda_close(cuda_gemm **gemm)
{
    cuda_gemm *g = *gemm;
    if (!g)
        return;
    for (int i = 0; i < g->n_plans; i++)
        drop_plan(&g->api, &g->plans[i]);
    (void)cudaFree(g->workspace);
    if (g->handle)
        (void)g->api.cublasLtDestroy(g->handle);
    pl_free(g);
    *gemm = NULL;
}

/* ---- plans ---- */

/* Returns the alignment of the matrices that begin `step` bytes after each other. */
static uint32_t alignment_of(const void *address, size_t step)
{
    uint32_t alignment = ALIGNMENT_MAX;
    while (((uintptr_t)address | step) % alignment != 0)
        alignment /= 2;
    return alignment;
}

static pl_status set(const cuda_gemm *gemm, cublasLtMatmulDesc_t desc,
                     cublasLtMatmulDescAttributes_t attribute, const void *value,
                     size_t bytes)
{
    return check(
        gemm, gemm->api.cublasLtMatmulDescSetAttribute(desc, attribute, value, bytes),
        "describing a matrix product");
}

/* Describes an operand of n products. A row-major matrix [rows, columns] is passed as a
 * column-major matrix [columns, rows]. */
static pl_status describe_operand(const cuda_gemm *gemm, cudaDataType_t type, int32_t n,
                                  int rows, int columns, int stride,
                                  cublasLtMatrixLayout_t *out)
{
    static const char what[] = "describing a matrix product";
    const int64_t step = (int64_t)rows * stride;
    PL_CHECK(check(gemm,
                   gemm->api.cublasLtMatrixLayoutCreate(
                       out, type, (uint64_t)columns, (uint64_t)rows, (int64_t)stride),
                   what));
    if (n == 1)
        return PL_OK;
    PL_CHECK(check(gemm,
                   gemm->api.cublasLtMatrixLayoutSetAttribute(
                       *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n),
                   what));
    return check(
        gemm,
        gemm->api.cublasLtMatrixLayoutSetAttribute(
            *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
        what);
}

static pl_status describe_product(const cuda_gemm *gemm, gemm_plan *plan)
{
    const plan_key *k = &plan->key;
    const bool b_is_nk = k->kind == GEMM_NT, a_is_km = k->kind == GEMM_TN;
    const cublasOperation_t first = b_is_nk ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = a_is_km ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cudaDataType_t out = k->type == PL_F32 ? CUDA_R_32F : CUDA_R_16BF;
    const int b_columns = b_is_nk ? k->K : k->N;
    PL_CHECK(check(
        gemm,
        gemm->api.cublasLtMatmulDescCreate(&plan->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "describing a matrix product"));
    PL_CHECK(set(gemm, plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    PL_CHECK(
        set(gemm, plan->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    PL_CHECK(describe_operand(gemm, CUDA_R_16BF, k->n, b_is_nk ? k->N : k->K, b_columns,
                              b_columns, &plan->first));
    PL_CHECK(describe_operand(gemm, CUDA_R_16BF, k->n, a_is_km ? k->K : k->M,
                              a_is_km ? k->M : k->K, k->a_stride, &plan->second));
    return describe_operand(gemm, out, k->n, k->M, k->N, k->c_stride, &plan->c);
}

/* If the algorithm splits K, it must keep the partial sums in fp32 and add them in
 * order; it must not add in place or round to bf16 first. The alignment of the operands
 * is also given, because the choice depends on it. */
static pl_status choose_algorithm(const cuda_gemm *gemm, gemm_plan *plan)
{
    static const char what[] = "setting the conditions for an algorithm";
    const plan_key *key = &plan->key;
    const uint64_t workspace = workspace_bytes;
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &key->alignment[0], 4},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &key->alignment[1], 4},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &key->alignment[2], 4},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &key->alignment[2], 4},
    };
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    pl_status status =
        check(gemm, gemm->api.cublasLtMatmulPreferenceCreate(&preference), what);
    if (status != PL_OK)
        return status;
    for (const auto &wish : wishes)
        if (status == PL_OK)
            status = check(gemm,
                           gemm->api.cublasLtMatmulPreferenceSetAttribute(
                               preference, wish.attribute, wish.value, wish.bytes),
                           what);
    if (status == PL_OK)
        status = check(gemm,
                       gemm->api.cublasLtMatmulAlgoGetHeuristic(
                           gemm->handle, plan->desc, plan->first, plan->second, plan->c,
                           plan->c, preference, 1, &result, &found),
                       "choosing an algorithm");
    (void)gemm->api.cublasLtMatmulPreferenceDestroy(preference);
    if (status == PL_OK && (found == 0 || result.state != CUBLAS_STATUS_SUCCESS))
        status = pl_fail(PL_ERR_DEVICE,
                         "cuBLASLt has no algorithm for a matrix product of %d x %d "
                         "with a sum over %d",
                         key->M, key->N, key->K);
    if (status == PL_OK)
        plan->algo = result.algo;
    return status;
}

/* Adds to the hash what the algorithm of a product is. */
static pl_status hash_algorithm(const cuda_gemm *gemm, const plan_key *key,
                                uint64_t *hash)
{
    static const struct {
        cublasLtMatmulAlgoConfigAttributes_t attribute;
        size_t bytes;
    } parts[] = {
        {CUBLASLT_ALGO_CONFIG_ID, 4},
        {CUBLASLT_ALGO_CONFIG_TILE_ID, 4},
        {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4},
        {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4},
        {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4},
        {CUBLASLT_ALGO_CONFIG_STAGES_ID, 4},
        {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2},
        {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2},
    };
    gemm_plan plan = {};
    plan.key = *key;
    pl_status status = describe_product(gemm, &plan);
    if (status == PL_OK)
        status = choose_algorithm(gemm, &plan);
    for (const auto &part : parts) {
        uint32_t value = 0;
        size_t written;
        if (status == PL_OK)
            status =
                check(gemm,
                      gemm->api.cublasLtMatmulAlgoConfigGetAttribute(
                          &plan.algo, part.attribute, &value, part.bytes, &written),
                      "reading an algorithm");
        *hash = (*hash ^ value) * 0x9e3779b97f4a7c15u;
    }
    drop_plan(&gemm->api, &plan);
    return status;
}

/* The same version may choose differently, because of the driver, environment variables
 * or the multiprocessors that it may use. Products like those of small and large models
 * show this: few and many rows, and a sum over many rows, which may be split. */
pl_status gemm_cuda_describe(const cuda_gemm *gemm, char *text, size_t bytes)
{
    static const gemm_kind kinds[] = {GEMM_NT, GEMM_NN, GEMM_TN};
    static const int sizes[][3] = {
        {4096, 384, 384}, {16384, 2048, 2048}, {384, 1024, 16384}};
    const size_t v = gemm->api.cublasLtGetVersion();
    const uint32_t far = ALIGNMENT_MAX;
    uint64_t hash = 0;
    for (const gemm_kind kind : kinds)
        for (const auto &s : sizes) {
            const plan_key key = {kind,
                                  s[0],
                                  s[1],
                                  s[2],
                                  kind == GEMM_TN ? PL_F32 : PL_BF16,
                                  kind == GEMM_TN ? s[0] : s[2],
                                  s[1],
                                  1,
                                  {far, far, far}};
            PL_CHECK(hash_algorithm(gemm, &key, &hash));
        }
    snprintf(text, bytes, "cublas %zu.%zu.%zu %04x", v / 10000, v / 100 % 100, v % 100,
             (unsigned)(hash >> 48));
    return PL_OK;
}

/* Returns the bucket of a key, by a hash of the key's eleven words. There is no padding
 * between the fields of a key. */
static gemm_plan **bucket_of(cuda_gemm *gemm, const plan_key *key)
{
    uint32_t words[sizeof *key / 4];
    uint64_t hash = 0;
    memcpy(words, key, sizeof words);
    for (const uint32_t word : words)
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return &gemm->buckets[(hash >> 32) % BUCKETS];
}

/* Returns an entry of the table for a new plan. If the table is full, drops the plan
 * that was not used for the longest time: a server needs a new plan for every new
 * length of a prompt. A captured graph does not need its plans: it contains the
 * algorithms and the addresses. */
static gemm_plan *make_plan_room(cuda_gemm *gemm)
{
    if (gemm->n_plans < PLANS_MAX)
        return &gemm->plans[gemm->n_plans++];
    gemm_plan *oldest = &gemm->plans[0];
    for (gemm_plan &plan : gemm->plans)
        if (plan.used < oldest->used)
            oldest = &plan;
    gemm_plan **at = bucket_of(gemm, &oldest->key);
    while (*at != oldest)
        at = &(*at)->next;
    *at = oldest->next;
    drop_plan(&gemm->api, oldest);
    return oldest;
}

static pl_status find_plan(cuda_gemm *gemm, const gemm_call *call, gemm_plan **out)
{
    const int a_columns = call->kind == GEMM_TN ? call->M : call->K;
    /* bytes from one matrix to the next; one matrix has no next */
    const size_t several = call->n > 1;
    const size_t a_step = several * 2 * (size_t)call->M * (size_t)call->K;
    const size_t b_step = several * 2 * (size_t)call->K * (size_t)call->N;
    const size_t c_step =
        several * (call->type == PL_F32 ? 4 : 2) * (size_t)call->M * (size_t)call->N;
    const plan_key key = {call->kind,
                          call->M,
                          call->N,
                          call->K,
                          call->type,
                          call->a_stride > 0 ? call->a_stride : a_columns,
                          call->c_stride > 0 ? call->c_stride : call->N,
                          call->n,
                          {alignment_of(call->b, b_step), alignment_of(call->a, a_step),
                           alignment_of(call->c, c_step)}};
    gemm_plan **bucket = bucket_of(gemm, &key), *plan = *bucket;
    while (plan && memcmp(&plan->key, &key, sizeof key) != 0)
        plan = plan->next;
    if (!plan) {
        gemm_plan made = {};
        made.key = key;
        pl_status status = describe_product(gemm, &made);
        if (status == PL_OK)
            status = choose_algorithm(gemm, &made);
        if (status != PL_OK) {
            drop_plan(&gemm->api, &made);
            return status;
        }
        plan = make_plan_room(gemm);
        /* the bucket may have changed when an old plan was dropped */
        made.next = *bucket;
        *plan = made;
        *bucket = plan;
    }
    plan->used = ++gemm->n_products;
    *out = plan;
    return PL_OK;
}

pl_status gemm_cuda_run(cuda_gemm *gemm, const gemm_call *call, cudaStream_t stream)
{
    const float one = 1.0f, beta = call->accumulate ? 1.0f : 0.0f;
    gemm_plan *plan;
    PL_CHECK(find_plan(gemm, call, &plan));
    return check(gemm,
                 gemm->api.cublasLtMatmul(
                     gemm->handle, plan->desc, &one, call->b, plan->first, call->a,
                     plan->second, &beta, call->c, plan->c, call->c, plan->c,
                     &plan->algo, gemm->workspace, workspace_bytes, stream),
                 "starting a matrix product");
}
