/* Checks the GPU, the memory of it that a worker needs, and whether all fit. */
#include "measure/doctor_internal.h"

void doctor_gpu(doctor *d, const pl_run *r, bool running)
{
    const bool wanted = r && strcmp(r->cfg.backend, "cuda") == 0;
    const bool taken = wanted || (r && strcmp(r->cfg.backend, "auto") == 0);
    pl_backend *be = NULL;
    const pl_backend_options options = {
        .name = "cuda", .n_threads = 1, .precision = r ? r->cfg.precision : "auto"};
    char left[16], all[16];
    if (pl_backend_open(&options, &be) == PL_OK)
        doctor_say(d, HEALTH_OK, "gpu", "", "%s, %s of %s are free", be->device,
                   pl_human_bytes((double)be->memory_left_bytes, left),
                   pl_human_bytes((double)be->memory_bytes, all));
    else
        doctor_say(d, wanted ? HEALTH_FAIL : HEALTH_OK, "gpu",
                   "use --set workers.backend=auto, or a machine with a GPU",
                   "there is no usable GPU: %s", pl_last_error());
    if (r) {
        /* compares the memory that one worker's model needs with the free bytes of the
         * GPU; 0: there is no GPU to compare with */
        const uint64_t free_bytes = be ? be->memory_left_bytes : 0;
        char text[6][16];
        pl_model_plan plan;
        run_gpu_plan(r, &plan);
        const uint64_t sum = pl_model_plan_sum(&plan);
        const bool fits = free_bytes == 0 || sum <= free_bytes;
        const char *remedy =
            r->cfg.recompute
                ? "use a smaller train.batch"
                : "use --set workers.recompute=true, or a smaller train.batch";
        doctor_say(
            d, fits ? HEALTH_OK : HEALTH_WARN, "gpu memory", remedy,
            "a worker %s %s of GPU memory: %s for parameters and their bf16 "
            "copies, %s for gradients, %s for moments, %s for activations of %d "
            "x %d tokens, %s of scratch memory",
            free_bytes ? "takes" : "would take", pl_human_bytes((double)sum, text[0]),
            pl_human_bytes((double)plan.params_bytes, text[1]),
            pl_human_bytes((double)plan.grads_bytes, text[2]),
            pl_human_bytes((double)plan.moments_bytes, text[3]),
            pl_human_bytes((double)plan.acts_bytes, text[4]), config_pass(&r->cfg),
            (int)r->cfg.context, pl_human_bytes((double)plan.scratch_bytes, text[5]));
    }
    /* whether all workers that share the first GPU fit into its memory together */
    if (taken && be && !running) {
        char text[2][16];
        const int n = run_gpu_sharers(r, be);
        if (n > 0 && run_gpu_check(r, be) != PL_OK) {
            doctor_say(d, HEALTH_FAIL, "gpu workers", "", "%s", pl_last_error());
        } else if (n > 0) {
            doctor_say(
                d, HEALTH_OK, "gpu workers", "",
                "%d workers share the first of %d GPUs and need %s each; %s are free",
                n, be->n_devices,
                pl_human_bytes((double)run_gpu_worker_bytes(r, be), text[0]),
                pl_human_bytes((double)be->memory_left_bytes, text[1]));
        }
    }
    pl_backend_close(&be);
}
