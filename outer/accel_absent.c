/* Stands in for outer/cuda where nvcc was not found: there is nothing to open. */
#include "outer/accel.h"

static pl_status absent(void)
{
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "this build has no CUDA kernels for steps and codecs: it was made "
                   "where nvcc was not found, or with PL_CUDA=OFF");
}

pl_status pl_accel_open(int ordinal, void *stream, pl_accel **out)
{
    (void)ordinal, (void)stream;
    *out = NULL;
    return absent();
}

pl_status pl_accel_check(int ordinal)
{
    (void)ordinal;
    return absent();
}

int pl_accel_count(void)
{
    return 0;
}

void pl_accel_close(pl_accel **accel)
{
    *accel = NULL;
}

const char *pl_accel_name(const pl_accel *accel)
{
    (void)accel;
    return "none";
}

pl_status pl_accel_alloc(pl_accel *accel, size_t bytes, const char *what, void **out)
{
    (void)accel, (void)bytes, (void)what;
    *out = NULL;
    return absent();
}

void pl_accel_free(pl_accel *accel, void *memory)
{
    (void)accel, (void)memory;
}

pl_status pl_accel_upload(pl_accel *accel, void *device, const void *host, size_t bytes)
{
    (void)accel, (void)device, (void)host, (void)bytes;
    return absent();
}

pl_status pl_accel_download(pl_accel *accel, void *host, const void *device,
                            size_t bytes)
{
    (void)accel, (void)host, (void)device, (void)bytes;
    return absent();
}

pl_status pl_accel_sync(pl_accel *accel)
{
    (void)accel;
    return absent();
}

pl_status pl_accel_clear(pl_accel *accel, float *values, size_t n)
{
    (void)accel, (void)values, (void)n;
    return absent();
}

pl_status pl_accel_apply(pl_accel *accel, const pl_outer_step *step,
                         pl_outer_state *state, const float *mean, size_t n,
                         pl_outer_report *report)
{
    (void)accel, (void)step, (void)state, (void)mean, (void)n, (void)report;
    return absent();
}

pl_status pl_accel_correct(pl_accel *accel, float *mean, const float *params,
                           const float *origin, float factor, size_t n)
{
    (void)accel, (void)mean, (void)params, (void)origin, (void)factor, (void)n;
    return absent();
}

pl_status pl_accel_add_present(pl_accel *accel, float *mean, float *whole,
                               const float *one, float weight, size_t n)
{
    (void)accel, (void)mean, (void)whole, (void)one, (void)weight, (void)n;
    return absent();
}

pl_status pl_accel_divide_present(pl_accel *accel, float *mean, const float *whole,
                                  size_t n)
{
    (void)accel, (void)mean, (void)whole, (void)n;
    return absent();
}

pl_status pl_accel_meet_views(pl_accel *accel, const pl_gossip_step *step,
                              float *params, float *velocity, const pl_gossip_view *own,
                              const pl_gossip_view *mate, size_t n)
{
    (void)accel, (void)step, (void)params, (void)velocity, (void)own, (void)mate,
        (void)n;
    return absent();
}

pl_status pl_accel_merge(pl_accel *accel, const pl_outer_step *step,
                         pl_outer_state *state, size_t n, const pl_update_list *updates,
                         pl_outer_report *report)
{
    (void)accel, (void)step, (void)state, (void)n, (void)updates, (void)report;
    return absent();
}

pl_status pl_accel_meet_one(pl_accel *accel, const pl_gossip_step *step, float *params,
                            float *velocity, const float *own, const float *mate,
                            size_t n)
{
    (void)accel, (void)step, (void)params, (void)velocity, (void)own, (void)mate,
        (void)n;
    return absent();
}

pl_status pl_accel_meet_two(pl_accel *accel, const pl_gossip_step *step, float *params,
                            float *velocity, const float *own_update,
                            const float *mate_params, const float *mate_update,
                            size_t n)
{
    (void)accel, (void)step, (void)params, (void)velocity, (void)own_update,
        (void)mate_params, (void)mate_update, (void)n;
    return absent();
}

pl_status pl_accel_offer(pl_accel *accel, const float *params, const float *update,
                         double share, size_t n, float *out)
{
    (void)accel, (void)params, (void)update, (void)share, (void)n, (void)out;
    return absent();
}

pl_status pl_accel_mix(pl_accel *accel, float *local, const float *merged, double mix,
                       size_t n)
{
    (void)accel, (void)local, (void)merged, (void)mix, (void)n;
    return absent();
}

pl_status pl_accel_eager_update(pl_accel *accel, const float *own,
                                const float *own_before, const float *mean_before,
                                int n_workers, size_t n, float *out)
{
    (void)accel, (void)own, (void)own_before, (void)mean_before, (void)n_workers,
        (void)n, (void)out;
    return absent();
}

pl_status pl_accel_encode_module(pl_accel *accel, const pl_codec_options *options,
                                 const pl_codec_part *parts, int n_parts,
                                 const pl_codec_round *round, const float *update,
                                 float *residual, pl_buf *out)
{
    (void)accel, (void)options, (void)parts, (void)n_parts, (void)round, (void)update,
        (void)residual, (void)out;
    return absent();
}

pl_status pl_accel_add(pl_accel *accel, const void *data, uint64_t bytes, size_t n,
                       float weight, float *sum, double *norm)
{
    (void)accel, (void)data, (void)bytes, (void)n, (void)weight, (void)sum, (void)norm;
    return absent();
}
