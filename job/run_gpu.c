/* Computes how much memory the workers of this machine and the launcher need on the
 * GPU, and checks that the GPU has this much. */
#include "job/run.h"

/* An estimate of the memory of a process's CUDA context with cuBLAS's code. If less GPU
 * memory than this was in use while this process had its context, the smaller number is
 * used. */
enum { CONTEXT_BYTES = 512 << 20 };

void run_gpu_plan(const pl_run *r, pl_model_plan *out)
{
    const pl_model_options options = {.batch = config_pass(&r->cfg),
                                      .context = (int)r->cfg.context,
                                      .training = true,
                                      .recompute = r->cfg.recompute,
                                      .muon = config_has_muon(&r->cfg),
                                      .muon_rows = (int)r->cfg.muon_rows};
    pl_model_plan_gpu(r->topology, &options, out);
}

static uint64_t context_bytes(const pl_backend *be)
{
    const uint64_t used = be->memory_bytes - be->memory_left_bytes;
    return used < CONTEXT_BYTES ? used : CONTEXT_BYTES;
}

uint64_t run_gpu_worker_bytes(const pl_run *r, const pl_backend *be)
{
    pl_model_plan plan;
    run_gpu_plan(r, &plan);
    return pl_model_plan_sum(&plan) + context_bytes(be);
}

int run_gpu_sharers(const pl_run *r, const pl_backend *be)
{
    const int n = run_local_workers(&r->cfg, be->n_devices);
    return be->n_devices > 0 ? (n + be->n_devices - 1) / be->n_devices : 0;
}

pl_status run_gpu_check(const pl_run *r, const pl_backend *be)
{
    char text[4][16];
    const int n = run_gpu_sharers(r, be);
    /* the launcher computes the features of documents */
    const int prefix = config_feature_prefix(&r->cfg);
    const pl_model_options features = {.batch = pl_router_feature_rows(prefix, true),
                                       .context = prefix};
    pl_model_plan plan;
    pl_model_plan_gpu(r->topology, &features, &plan);
    const uint64_t each = run_gpu_worker_bytes(r, be),
                   own = pl_model_plan_sum(&plan) + context_bytes(be);
    const uint64_t left = be->memory_left_bytes, rest = left > own ? left - own : 0;
    if (n == 0 || (uint64_t)n * each <= rest)
        return PL_OK;
    pl_human_bytes((double)each, text[0]);
    pl_human_bytes((double)left, text[1]);
    pl_human_bytes((double)own, text[2]);
    if (each > rest)
        return pl_fail(PL_ERR_CONFIG,
                       "a worker needs %s of GPU memory and the launcher %s, but only "
                       "%s are free; lower train.batch%s",
                       text[0], text[2], text[1],
                       r->cfg.recompute ? "" : ", or set workers.recompute=true");
    return pl_fail(
        PL_ERR_CONFIG,
        "%d workers share a GPU with %s of free memory, but need %s each and the "
        "launcher %s, %s together; set workers.count to %llu or less%s",
        n, text[1], text[0], text[2],
        pl_human_bytes((double)((uint64_t)n * each + own), text[3]),
        (unsigned long long)(rest / each * (uint64_t)be->n_devices),
        r->cfg.recompute ? "" : "; with workers.recompute=true each needs less");
}
