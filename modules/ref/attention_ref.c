/* Causal attention with grouped keys: query head h reads kv head h / (H/G). The text of
 * token t begins at first(t).
 *
 *   score[t,s] = q[t].k[s] / sqrt(D)   for first(t) <= s <= t
 *   lse[t]     = log sum_s exp score[t,s]
 *   p[t,s]     = exp(score[t,s] - lse[t])
 *   out[t]     = sum_s p[t,s] v[s]
 *
 * Backward, with delta[t] = dout[t].out[t] (= sum_s p dp):
 *
 *   dv[s] += p dout[t]     dp = dout[t].v[s]     ds = p (dp - delta[t]) / sqrt(D)
 *   dq[t] += ds k[s]       dk[s] += ds q[t]
 *
 * No T x T matrix is kept: the backward pass recomputes p from lse. At its end dq and
 * dk go back through rope, whose transpose is its inverse. */
#include "modules/ref/ref.h"
#include <math.h>

/* The queries, keys and values of one head in one sequence. `stride` is in floats. */
typedef struct head_view {
    const float *q, *k, *v;
    size_t stride; /* distance between rows of q, k and v */
    int D;
    float scale;
} head_view;

static float score(const head_view *head, const float *q, int s)
{
    return head->scale * ref_dot(q, head->k + (size_t)s * head->stride, head->D);
}

/* Writes the attention of query q to positions 0..n-1 to `out`, and returns the lse. */
static float attend_query(const head_view *head, float *out, const float *q, int n)
{
    /* One pass is enough for the lse, because the sum is kept relative to the largest
     * score so far. */
    float largest = score(head, q, 0);
    double sum = 1.0;
    for (int s = 1; s < n; s++) {
        float x = score(head, q, s);
        if (x > largest) {
            sum = sum * exp((double)(largest - x)) + 1.0;
            largest = x;
        } else {
            sum += exp((double)(x - largest));
        }
    }
    const float lse = largest + (float)log(sum);
    memset(out, 0, (size_t)head->D * sizeof *out);
    for (int s = 0; s < n; s++)
        ref_axpy(out, expf(score(head, q, s) - lse), head->v + (size_t)s * head->stride,
                 head->D);
    return lse;
}

/* Returns the view of head h of sequence b in qkv [B,T,(H+2G)*D]. */
static head_view view_qkv(const pl_act *qkv, int b, int h, int T, int H, int G, int D)
{
    head_view head = {.stride = (size_t)(H + 2 * G) * (size_t)D,
                      .D = D,
                      .scale = (float)(1.0 / sqrt(D))};
    int g = h / (H / G);
    const float *sequence = ref_view(qkv) + (size_t)b * (size_t)T * head.stride;
    head.q = sequence + h * D;
    head.k = sequence + (H + g) * D;
    head.v = sequence + (H + G + g) * D;
    return head;
}

void ref_attention_forward(pl_backend *be, pl_act *out, float *lse, const pl_act *qkv,
                           const int32_t *texts, int B, int T, int H, int G, int D)
{
    (void)be;
    size_t width = (size_t)H * (size_t)D;
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++) {
            head_view head = view_qkv(qkv, b, h, T, H, G, D);
            float *row = ref_floats(out) + (size_t)b * (size_t)T * width + h * D;
            for (int t = 0; t < T; t++, row += width) {
                int first = ref_text_begin(texts, b, T, t);
                head_view text = head; /* from position `first` on */
                text.k += (size_t)first * head.stride;
                text.v += (size_t)first * head.stride;
                *lse++ = attend_query(&text, row, head.q + (size_t)t * head.stride,
                                      t + 1 - first);
            }
        }
}

void ref_attention_backward(pl_backend *be, pl_act *dqkv, const pl_act *dout,
                            const pl_act *qkv, const pl_act *out, const float *lse,
                            const int32_t *texts, int B, int T, int H, int G, int D,
                            double theta)
{
    size_t width = (size_t)H * (size_t)D;
    size_t n_rows = (size_t)B * (size_t)T;
    float *base = ref_floats(dqkv);
    memset(base, 0, n_rows * (size_t)(H + 2 * G) * (size_t)D * sizeof *base);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++) {
            head_view head = view_qkv(qkv, b, h, T, H, G, D);
            float *dq = base + (head.q - ref_view(qkv));
            float *dk = base + (head.k - ref_view(qkv));
            float *dv = base + (head.v - ref_view(qkv));
            size_t row = (size_t)b * (size_t)T * width + (size_t)(h * D);
            for (int t = 0; t < T; t++, row += width, lse++) {
                size_t at = (size_t)t * head.stride;
                const float *q = head.q + at, *dy = ref_view(dout) + row;
                float delta = ref_dot(dy, ref_view(out) + row, D);
                for (int s = ref_text_begin(texts, b, T, t); s <= t; s++) {
                    size_t from = (size_t)s * head.stride;
                    float p = expf(score(&head, q, s) - *lse);
                    float dp = ref_dot(dy, head.v + from, D);
                    float ds = p * (dp - delta) * head.scale;
                    ref_axpy(dv + from, p, dy, D);
                    ref_axpy(dk + from, ds, q, D);
                    ref_axpy(dq + at, ds, head.k + from, D);
                }
            }
        }
    ref_rope(be, dqkv, texts, B, T, H, G, D, theta, 0, -1);
}

void ref_attention_decode(pl_backend *be, pl_act *out, const pl_act *qkv,
                          const pl_act *keys, const pl_act *values, const int32_t *slot,
                          const int32_t *pos, int N, int S, int H, int G, int D)
{
    (void)be;
    size_t row = (size_t)G * (size_t)D, width = (size_t)(H + 2 * G) * (size_t)D;
    for (int n = 0; n < N; n++)
        for (int h = 0; h < H; h++) {
            size_t cache =
                (size_t)slot[n] * (size_t)S * row + (size_t)(h / (H / G) * D);
            const float *q = ref_view(qkv) + (size_t)n * width + h * D;
            head_view head = {.k = ref_view(keys) + cache,
                              .v = ref_view(values) + cache,
                              .stride = row,
                              .D = D,
                              .scale = (float)(1.0 / sqrt(D))};
            attend_query(&head,
                         ref_floats(out) +
                             ((size_t)n * (size_t)H + (size_t)h) * (size_t)D,
                         q, pos[n] + 1);
        }
}
