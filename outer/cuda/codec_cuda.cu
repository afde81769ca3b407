/* Messages of vectors on a device: which stretch is made where, and how its sections
 * cross over. */
#include "outer/cuda/codec_inside.cuh"
#include <math.h>

size_t sections_place(const uint64_t raw[SECTIONS_MAX], int n, size_t at[SECTIONS_MAX])
{
    size_t end = 0;
    for (int i = 0; i < n; i++) {
        at[i] = end;
        end += accel_lines((size_t)raw[i]);
    }
    return end;
}

pl_status sections_send(codec_job *job, const uint64_t raw[SECTIONS_MAX], int n,
                        uint8_t *const from[SECTIONS_MAX])
{
    uint8_t *at[SECTIONS_MAX];
    job_sections(job, raw, n, true, at);
    for (int i = 0; i < n; i++)
        PL_RETURN_IF(pl_accel_download(accel_of(job), at[i], from[i], (size_t)raw[i]));
    return PL_OK;
}

pl_status check_finite(const codec_job *job)
{
    unsigned tile;
    PL_RETURN_IF(accel_flag_read(accel_of(job), "a codec", &tile));
    if (tile == ACCEL_NO_TILE)
        return PL_OK;
    return job_check_finite(job, (uint64_t)tile * TILE, 0x7f800000u);
}

/* ---- the door ---- */

static pl_status encode_stretch(codec_job *job)
{
    if (job->stretch.codec == PL_CODEC_TOPK)
        return topk_encode_cuda(job);
    if (job->stretch.codec == PL_CODEC_SKETCH16)
        return sketch_encode_cuda(job);
    return quant_encode_cuda(job);
}

pl_status pl_accel_encode_module(pl_accel *accel, const pl_codec_options *options,
                                 const pl_codec_part *parts, int n_parts,
                                 const pl_codec_round *round, const float *update,
                                 float *residual, pl_buf *out)
{
    const codec_request request = {options, parts, n_parts, round, update, residual};
    return codec_encode(&request, encode_stretch, accel, out);
}

static pl_status decode_stretch(const codec_task *task)
{
    const int codec = task->stretch->codec;
    const bool is_sparse =
        codec == PL_CODEC_TOPK || codec == PL_CODEC_SKETCH16 || codec == WIRE_LIST16;
    return is_sparse ? sparse_decode_cuda(task) : dense_decode_cuda(task);
}

pl_status pl_accel_add(pl_accel *accel, const void *data, uint64_t bytes, size_t n,
                       float weight, float *sum, double *norm)
{
    codec_sink sink = {};
    sink.sum = sum;
    sink.weight = weight;
    sink.device = accel;
    *norm = 0;
    PL_RETURN_IF(codec_decode(data, bytes, n, decode_stretch, &sink));
    *norm = sqrt(sink.squares);
    return PL_OK;
}
