/* A GPU: whether there is one, and what a worker of the run takes of it. */
#include "cli/doctor.h"

/* The classifier's rows and cuBLAS's workspace (modules/cuda). */
enum { SCRATCH_BYTES = 288 << 20 };

/* What the backend says of this machine; *left is 0 without a GPU. */
static void look_at_gpu(doctor *d, bool wanted, uint64_t *left)
{
    pl_backend *backend = NULL;
    const pl_backend_options options = {
        .name = "cuda", .n_threads = 1, .precision = "auto"};
    char free_text[16], all[16];
    *left = 0;
    if (pl_backend_open(&options, &backend) == PL_OK) {
        *left = backend->memory_left_bytes;
        doctor_say(d, HEALTH_OK, "gpu", "", "%s, %s of %s are free", backend->device,
                   pl_human_bytes((double)*left, free_text),
                   pl_human_bytes((double)backend->memory_bytes, all));
    } else {
        doctor_say(d, wanted ? HEALTH_FAIL : HEALTH_OK, "gpu",
                   wanted ? "--set workers.backend=auto, or train where a GPU is" : "",
                   "none: %s", pl_last_error());
    }
    pl_backend_close(&backend);
}

/* `left` of a GPU's memory, or 0 where there is none. */
static void tell_plan(doctor *d, const run *r, uint64_t left)
{
    char text[5][16];
    pl_model_plan plan;
    const pl_model_options options = {.batch = (int)r->cfg.batch,
                                      .context = (int)r->cfg.context,
                                      .training = true,
                                      .recompute = r->cfg.recompute};
    pl_model_plan_bytes(r->topology, &options, PL_BF16, &plan);
    const bool fp8 = strcmp(r->cfg.precision, "fp8") == 0;
    if (fp8)
        plan.params_bytes += pl_model_fp8_bytes(r->topology);
    const uint64_t all = plan.params_bytes + plan.grads_bytes + plan.moments_bytes +
                         plan.acts_bytes + SCRATCH_BYTES;
    const bool fits = left == 0 || all <= left;
    doctor_say(d, fits ? HEALTH_OK : HEALTH_WARN, "gpu memory",
               fits                ? ""
               : options.recompute ? "a smaller train.batch"
                                   : "--set workers.recompute=true, or a smaller "
                                     "train.batch",
               "a worker %s %s of it: %s for parameters%s, %s for gradients, %s for "
               "moments, %s for activations of %d x %d tokens, the rest scratch",
               left ? "takes" : "would take", pl_human_bytes((double)all, text[0]),
               pl_human_bytes((double)plan.params_bytes, text[1]),
               fp8 ? " with their fp8 copies" : "",
               pl_human_bytes((double)plan.grads_bytes, text[2]),
               pl_human_bytes((double)plan.moments_bytes, text[3]),
               pl_human_bytes((double)plan.acts_bytes, text[4]), options.batch,
               options.context);
}

void doctor_gpu(doctor *d, const run *r)
{
    uint64_t left;
    look_at_gpu(d, r && strcmp(r->cfg.backend, "cuda") == 0, &left);
    if (r)
        tell_plan(d, r, left);
}
