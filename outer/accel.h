/* The arithmetic of outer on a CUDA device: steps and codecs of vectors that lie in the
 * device's memory.
 *
 * All results are those of the CPU, byte for byte: parameters, state, residuals,
 * messages, and the norms in reports, whose sums run in the same order. (Of a NaN only
 * that it is one.) So a home or a worker may use either, and change between them.
 *
 *   pl_outer_merge          pl_accel_merge         one pass over memory, like there
 *   pl_outer_apply          pl_accel_apply
 *   pl_gossip_apply_one     pl_accel_meet_one
 *   pl_gossip_apply_two     pl_accel_meet_two
 *   pl_gossip_apply_views   pl_accel_meet_views
 *   pl_gossip_offer         pl_accel_offer
 *   pl_streaming_mix        pl_accel_mix
 *   pl_eager_update         pl_accel_eager_update
 *   pl_codec_encode_module  pl_accel_encode_module
 *   pl_codec_add            pl_accel_add
 *
 * Homes and workers, whose vectors lie in the host's memory, use pl_accel_arith_open
 * (outer/arith.h), which brings them there and back.
 *
 * What a message needs beside its values (header, checksums, zstd, the walk along
 * indices) stays on the CPU: sections cross over, values do not.
 *
 * Vectors are device memory, aligned to their elements, of the device that was opened;
 * pl_accel_alloc gives some. Operations run in order on one stream. An accelerator is
 * used and closed by the thread that opened it: which device is meant is known of each
 * thread. Every function may return ERR_DEVICE, also for what an earlier
 * one started. A build without nvcc has the functions too: pl_accel_open says so.
 */
#ifndef PL_OUTER_ACCEL_H
#define PL_OUTER_ACCEL_H
#include "outer/arith.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_accel pl_accel;

/* `stream` is a cudaStream_t of that device to work on, borrowed until close; NULL
 * makes one. ERR_UNSUPPORTED: no kernels in this build, no driver, no device or one
 * older than compute capability 8.0; ERR_CONFIG: no such ordinal. */
PL_MUST_CHECK pl_status pl_accel_open(int ordinal, void *stream, pl_accel **out);
void pl_accel_close(pl_accel **accel);
/* Whether it could be opened, without taking memory of it. Errors as of open. */
PL_MUST_CHECK pl_status pl_accel_check(int ordinal);
int pl_accel_count(void); /* of devices that the driver lists; 0 without one */
const char *pl_accel_name(const pl_accel *accel); /* of the device */

/* ---- memory ---- */

/* ERR_NOMEM names `what`. */
PL_MUST_CHECK pl_status pl_accel_alloc(pl_accel *accel, size_t bytes, const char *what,
                                       void **out);
void pl_accel_free(pl_accel *accel, void *memory); /* NULL is allowed */
/* Through page-locked memory of the accelerator's own: `host` is free, or complete,
 * when they return. */
PL_MUST_CHECK pl_status pl_accel_upload(pl_accel *accel, void *device, const void *host,
                                        size_t bytes);
PL_MUST_CHECK pl_status pl_accel_download(pl_accel *accel, void *host,
                                          const void *device, size_t bytes);
PL_MUST_CHECK pl_status pl_accel_sync(pl_accel *accel);
/* Starts to clear n values, and does not wait. */
PL_MUST_CHECK pl_status pl_accel_clear(pl_accel *accel, float *values, size_t n);

/* ---- steps ---- */

/* The state's vectors and the views' values are device memory; the list itself is the
 * host's. Waits for the result, which the report needs. */
PL_MUST_CHECK pl_status pl_accel_merge(pl_accel *accel, const pl_outer_step *step,
                                       pl_outer_state *state, size_t n,
                                       const pl_update_list *updates,
                                       pl_outer_report *report);

/* The same for a mean that exists. */
PL_MUST_CHECK pl_status pl_accel_apply(pl_accel *accel, const pl_outer_step *step,
                                       pl_outer_state *state, const float *mean,
                                       size_t n, pl_outer_report *report);

/* These start and do not wait. */
/* mean = factor (mean + (params - origin)), as pl_arith_merge says. */
PL_MUST_CHECK pl_status pl_accel_correct(pl_accel *accel, float *mean,
                                         const float *params, const float *origin,
                                         float factor, size_t n);
/* mean += weight one, whole += weight where `one` is not 0; later mean /= whole. */
PL_MUST_CHECK pl_status pl_accel_add_present(pl_accel *accel, float *mean, float *whole,
                                             const float *one, float weight, size_t n);
PL_MUST_CHECK pl_status pl_accel_divide_present(pl_accel *accel, float *mean,
                                                const float *whole, size_t n);
PL_MUST_CHECK pl_status pl_accel_meet_one(pl_accel *accel, const pl_gossip_step *step,
                                          float *params, float *velocity,
                                          const float *own, const float *mate,
                                          size_t n);
PL_MUST_CHECK pl_status pl_accel_meet_two(pl_accel *accel, const pl_gossip_step *step,
                                          float *params, float *velocity,
                                          const float *own_update,
                                          const float *mate_params,
                                          const float *mate_update, size_t n);
PL_MUST_CHECK pl_status pl_accel_meet_views(pl_accel *accel, const pl_gossip_step *step,
                                            float *params, float *velocity,
                                            const pl_gossip_view *own,
                                            const pl_gossip_view *mate, size_t n);
PL_MUST_CHECK pl_status pl_accel_offer(pl_accel *accel, const float *params,
                                       const float *update, double share, size_t n,
                                       float *out);
PL_MUST_CHECK pl_status pl_accel_mix(pl_accel *accel, float *local, const float *merged,
                                     double mix, size_t n);
PL_MUST_CHECK pl_status pl_accel_eager_update(pl_accel *accel, const float *own,
                                              const float *own_before,
                                              const float *mean_before, int n_workers,
                                              size_t n, float *out);

/* ---- codecs ---- */

/* update and residual (which may be NULL) are device memory; the message is appended
 * to the host's `out`. */
PL_MUST_CHECK pl_status pl_accel_encode_module(pl_accel *accel,
                                               const pl_codec_options *options,
                                               const pl_codec_part *parts, int n_parts,
                                               const pl_codec_round *round,
                                               const float *update, float *residual,
                                               pl_buf *out);

/* sum [n] is device memory; NULL: validation only. */
PL_MUST_CHECK pl_status pl_accel_add(pl_accel *accel, const void *data, uint64_t bytes,
                                     size_t n, float weight, float *sum, double *norm);

/* ---- for vectors of the host's memory ---- */

typedef struct pl_accel_options {
    int device;    /* ordinal */
    bool turns;    /* counted round where there are fewer */
    bool optional; /* what the device fails at is done on the CPU, with a line in the
                      log: the bytes are the same. Else it is an error. */
} pl_accel_options;

/* A thread of its own has the device; any thread may use the table. Errors as of
 * pl_accel_open. */
PL_MUST_CHECK pl_status pl_accel_arith_open(const pl_accel_options *options,
                                            pl_arith **out);
void pl_accel_arith_close(pl_arith **arith); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
