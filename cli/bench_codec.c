/* pathloom bench codec: speed of the codecs of updates on one core. */
#include "cli/bench.h"
#include "cli/run.h"
#include "outer/outer.h"

enum { N = 1 << 22 };

typedef struct measurement {
    float *update, *sum;
    uint8_t *encoded;
} measurement;

/* Best of a few: the machine's other work only ever adds time. */
static pl_status time_codec(const measurement *m, const char *codec, double *encode,
                            double *add)
{
    *encode = *add = 1e9;
    for (int pass = 0; pass < 5; pass++) {
        double norm = 0, start = pl_now();
        PL_RETURN_IF(pl_codec_encode(codec, m->update, N, m->encoded));
        double middle = pl_now();
        PL_RETURN_IF(
            pl_codec_add(m->encoded, pl_codec_bytes(codec, N), N, 1, m->sum, &norm));
        double end = pl_now();
        *encode = middle - start < *encode ? middle - start : *encode;
        *add = end - middle < *add ? end - middle : *add;
    }
    return PL_OK;
}

static pl_status report(const measurement *m, bool json)
{
    static const char *const codecs[] = {"f32", "bf16"};
    pl_json *o = pl_json_object();
    pl_buf text = {0};
    pl_status status = PL_OK;
    for (int i = 0; i < 2; i++) {
        double encode = 0, add = 0, bytes = 4.0 * N;
        PL_TRY(time_codec(m, codecs[i], &encode, &add));
        pl_json *c = pl_json_object();
        pl_json_set_real(c, "encode_gb_per_s", bytes / encode * 1e-9);
        pl_json_set_real(c, "add_gb_per_s", bytes / add * 1e-9);
        pl_json_set(o, codecs[i], c);
        if (!json)
            say("%-10s encode %6.2f GB/s  decode+add %6.2f GB/s", codecs[i],
                bytes / encode * 1e-9, bytes / add * 1e-9);
    }
    pl_json_write(o, 0, &text);
    if (json)
        say("%s", pl_buf_text(&text));
done:
    pl_buf_destroy(&text);
    pl_json_destroy(&o);
    return status;
}

pl_status bench_codec(bool json, const char *folder)
{
    pl_status status = PL_OK;
    measurement m = {0};
    if (folder)
        return pl_fail(PL_ERR_UNSUPPORTED, "bench codec does not read runs yet");
    PL_TRY(pl_try_alloc(N * sizeof(float), "an update", (void **)&m.update));
    PL_TRY(pl_try_alloc(N * sizeof(float), "a sum", (void **)&m.sum));
    PL_TRY(pl_try_alloc((size_t)pl_codec_bytes("f32", N), "an encoded update",
                        (void **)&m.encoded));
    for (size_t i = 0; i < N; i++)
        m.update[i] = pl_random_normal(1, 0, i % 65536) * 1e-3f;
    PL_TRY(report(&m, json));
done:
    pl_free_aligned(m.update);
    pl_free_aligned(m.sum);
    pl_free_aligned(m.encoded);
    return status;
}
