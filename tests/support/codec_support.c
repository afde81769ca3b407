/* folder: codec */
/* Defines the functions of codec_support.h. */
#include "tests/support/codec_support.h"

void fill_values(float *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = pl_random_normal(seed, 7, i) * 1e-3f;
}

float *zeros(size_t n)
{
    return pl_alloc(n * sizeof(float));
}

pl_codec_options options_of(const char *name)
{
    pl_codec_options o;
    assert_ok(pl_codec_options_default(name, &o));
    o.codec[PL_ROLE_SMALL] = o.codec[PL_ROLE_MLP];
    return o;
}

pl_codec_round round_of(int n_contributors)
{
    return (pl_codec_round){.seed = 42,
                            .scale_exponent = pl_codec_exponent(1e-3, 1),
                            .n_contributors = n_contributors,
                            .weight = 1.0f};
}

void encode_all(const pl_codec_options *o, const pl_codec_round *round, const float *x,
                size_t n, float *left, pl_buf *out)
{
    pl_codec_part part = {0, n, PL_ROLE_MLP};
    size_t before = out->len;
    assert_ok(pl_codec_encode_module(o, &part, 1, round, x, left, out));
    int w = round ? round->n_contributors : 1;
    assert_true(out->len - before <= pl_codec_bound(o, &part, 1, w));
}

void add_ok(const pl_buf *m, size_t n, float weight, float *sum)
{
    double norm = -1, validated = -2;
    assert_ok(pl_codec_add(m->data, m->len, n, weight, NULL, &validated));
    assert_ok(pl_codec_add(m->data, m->len, n, weight, sum, &norm));
    assert_true(norm == validated);
}

float *sent_update(const pl_codec_options *o, const pl_codec_round *round,
                   const float *x, size_t n, float *left)
{
    OWNED(pl_buf_destroy) pl_buf m = {0};
    float *sum = zeros(n);
    encode_all(o, round, x, n, left, &m);
    add_ok(&m, n, 1.0f, sum);
    return sum;
}
