/* pathloom bench codec: measures each codec on a real update, on one core.
 *
 * Speed is in bytes of the fp32 update per second. The best of several passes counts,
 * because other work on the machine can only add time. A codec encodes with a residual
 * if training with it would keep one, or if the field `residual` of the row says so.
 * The error is the error of one message alone: it includes the part that the residual
 * would correct in later messages. */
#include "measure/measure.h"
#include "measure/update_internal.h"

#include <math.h>

enum { PASSES = 9, CONTRIBUTORS = 4 };

typedef struct row {
    const char *label, *codec;
    int value_bits;
    bool entropy, residual;
    double encode_s, add_s, bytes, error;
} row;

typedef struct measurement {
    measure_update update;
    double norm, copy_s;
    float *residual, *sum;
    pl_buf message;
} measurement;

static row rows[] = {
    {.label = "f32", .codec = "f32"},
    {.label = "f32 + zstd", .codec = "f32", .entropy = true},
    {.label = "bf16", .codec = "bf16"},
    {.label = "bf16 + zstd", .codec = "bf16", .entropy = true},
    {.label = "bf16 + residual", .codec = "bf16", .residual = true},
    {.label = "i8", .codec = "i8"},
    {.label = "i8 + zstd", .codec = "i8", .entropy = true},
    {.label = "i8 + residual", .codec = "i8", .residual = true},
    {.label = "i4", .codec = "i4"},
    {.label = "i4 + zstd", .codec = "i4", .entropy = true},
    {.label = "topk 8 bits", .codec = "topk"},
    {.label = "topk 8 bits + zstd", .codec = "topk", .entropy = true},
    {.label = "topk 2 bits", .codec = "topk", .value_bits = 2},
    {.label = "topk 2 bits + zstd", .codec = "topk", .value_bits = 2, .entropy = true},
    {.label = "sketch16", .codec = "sketch16"},
    {.label = "sketch16 + zstd", .codec = "sketch16", .entropy = true},
    {.label = "i8-shared", .codec = "i8-shared"},
    {.label = "i8-shared + zstd", .codec = "i8-shared", .entropy = true},
    {.label = "tagc + zstd", .codec = "tagc", .entropy = true}};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* Measures a row. The first pass starts with a residual of zeros. Reports the bytes and
 * the error of the first pass, and the best times of all passes. */
static pl_status measure_row(measurement *m, row *r)
{
    const pl_topology *t = m->update.topology;
    const pl_codec_round round = {.seed = 1,
                                  .n_contributors = CONTRIBUTORS,
                                  .weight = 1.0f,
                                  .scale_exponent =
                                      pl_codec_exponent(m->norm, m->update.n)};
    pl_codec_options o;
    PL_CHECK(pl_codec_options_default(r->codec, &o));
    r->residual = r->residual || pl_codec_drops_much(&o);
    o.entropy = r->entropy;
    o.value_bits = (uint8_t)(r->value_bits ? r->value_bits : 8);
    r->encode_s = r->add_s = INFINITY;
    memset(m->residual, 0, m->update.n * sizeof *m->residual);
    memset(m->sum, 0, m->update.n * sizeof *m->sum);
    for (int i = 0; i < PASSES; i++) {
        double encode_s = 0, add_s = 0;
        uint64_t n_bytes = 0;
        for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
            double norm = 0;
            const pl_slot *s = pl_topology_slot(t, slot);
            float *residual = r->residual ? m->residual + s->offset : NULL;
            pl_buf_clear(&m->message);
            double start = pl_now();
            PL_CHECK(pl_codec_encode_update(
                &o, t, pl_topology_module_of_path(t, slot, 0), &round,
                m->update.values + s->offset, residual, &m->message));
            double middle = pl_now();
            PL_CHECK(pl_codec_add(m->message.data, m->message.len, s->n_params, 1.0f,
                                  m->sum + s->offset, &norm));
            encode_s += middle - start;
            add_s += pl_now() - middle;
            n_bytes += m->message.len;
        }
        if (i == 0) {
            double error = 0;
            for (size_t k = 0; k < m->update.n; k++) {
                double e = (double)m->update.values[k] - (double)m->sum[k];
                error += e * e;
            }
            r->bytes = (double)n_bytes / (double)m->update.n;
            r->error = m->norm > 0 ? sqrt(error) / m->norm : 0;
        }
        r->encode_s = fmin(r->encode_s, encode_s);
        r->add_s = fmin(r->add_s, add_s);
    }
    return PL_OK;
}

/* ---- reporting ---- */
static double speed(const measurement *m, double seconds)
{
    return 4e-9 * (double)m->update.n / seconds;
}

pl_status measure_codec(bool json, const char *folder)
{
    pl_status status = PL_OK;
    measurement m = {0};
    PL_TRY(folder ? measure_update_read(folder, &m.update)
                  : measure_update_train(&m.update));
    size_t bytes = m.update.n * sizeof(float);
    PL_TRY(pl_try_alloc(bytes, "a residual", (void **)&m.residual));
    PL_TRY(pl_try_alloc(bytes, "a sum of updates", (void **)&m.sum));
    m.norm = pl_l2_norm(m.update.values, m.update.n);
    m.copy_s = INFINITY;
    for (int i = 0; i < PASSES; i++) {
        double start = pl_now();
        memcpy(m.sum, m.update.values, m.update.n * sizeof *m.sum);
        m.copy_s = fmin(m.copy_s, pl_now() - start);
    }
    for (int i = 0; i < N_ROWS; i++)
        PL_TRY(measure_row(&m, &rows[i]));
    if (json) {
        pl_json *o = pl_json_object(), *list = pl_json_array();
        pl_json_set_text(o, "update", m.update.source);
        pl_json_set_int(o, "params", (int64_t)m.update.n);
        pl_json_set_real(o, "update_norm", m.norm);
        pl_json_set_real(o, "copy_gb_per_s", speed(&m, m.copy_s));
        pl_json_set_int(o, "contributors", CONTRIBUTORS);
        for (int i = 0; i < N_ROWS; i++) {
            const row *r = &rows[i];
            pl_json *entry = pl_json_object();
            pl_json_set_text(entry, "codec", r->codec);
            if (strcmp(r->codec, "topk") == 0)
                pl_json_set_int(entry, "value_bits", r->value_bits ? r->value_bits : 8);
            pl_json_set_bool(entry, "entropy", r->entropy);
            pl_json_set_bool(entry, "residual", r->residual);
            pl_json_set_real(entry, "encode_gb_per_s", speed(&m, r->encode_s));
            pl_json_set_real(entry, "add_gb_per_s", speed(&m, r->add_s));
            pl_json_set_real(entry, "bytes_per_param", r->bytes);
            pl_json_set_real(entry, "relative_error", r->error);
            pl_json_push(list, entry);
        }
        pl_json_set(o, "codecs", list);
        say_json(o);
    } else {
        say("update    %s", m.update.source);
        say("          %zu parameters with root mean square %.2e; memcpy copies %.1f "
            "GB/s",
            m.update.n, m.norm / sqrt((double)m.update.n), speed(&m, m.copy_s));
        say("  %-20s %12s %12s %12s %10s", "codec", "encode GB/s", "add GB/s",
            "B/param", "rel. error");
        for (int i = 0; i < N_ROWS; i++)
            say("  %-20s %12.2f %12.2f %12.4f %10.4f", rows[i].label,
                speed(&m, rows[i].encode_s), speed(&m, rows[i].add_s), rows[i].bytes,
                rows[i].error);
    }
done:
    measure_update_free(&m.update);
    pl_free_aligned(m.residual);
    pl_free_aligned(m.sum);
    pl_buf_destroy(&m.message);
    return status;
}
