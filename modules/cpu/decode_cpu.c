/* Computes the attention of rows to the cached keys and values of their sequences. The
 * rows of a piece of a prompt are computed in blocks, if attention_cpu.c can do that.
 * All other rows are computed one by one, so that the result of a row does not depend
 * on other rows. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/simd.h"

typedef struct decode {
    pl_type type;
    int S, H, G, D;
    pl_act *out;
    const pl_act *qkv, *keys, *values;
    const int32_t *slot, *pos;
} decode;

/* Computes the attention of head h of row n to the n_keys keys of its sequence. */
static void decode_head(const decode *c, float *scores, int n, int h)
{
    const size_t D = (size_t)c->D, H = (size_t)c->H, G = (size_t)c->G;
    const size_t q_at = (size_t)n * (H + 2 * G) * D + (size_t)h * D;
    const size_t kv_at =
        ((size_t)c->slot[n] * (size_t)c->S * G + (size_t)h / (H / G)) * D;
    const size_t to = ((size_t)n * H + (size_t)h) * D;
    const int n_keys = c->pos[n] + 1;
    const float scale = 1.0f / sqrtf((float)c->D);
    float most = -INFINITY;
    vfloat sums = {0};
    for (int t = 0; t < n_keys; t++) {
        vfloat sum = {0};
        for (int d = 0; d < c->D; d += LANES) {
            const int left = v_left(d, c->D);
            const size_t key = kv_at + (size_t)t * G * D + (size_t)d;
            sum += v_load_act(c->qkv, q_at + (size_t)d, left, c->type) *
                   v_load_act(c->keys, key, left, c->type);
        }
        scores[t] = v_sum(sum) * scale;
        most = scores[t] > most ? scores[t] : most;
    }
    for (int t = 0; t < n_keys; t += LANES) {
        const int left = v_left(t, n_keys);
        const vfloat e = v_exp(v_load_n(scores + t, left) - most);
        sums += v_keep(e, v_below(left));
        v_store_n(scores + t, e, left);
    }
    const float inverse = 1.0f / v_sum(sums);
    for (int d = 0; d < c->D; d += LANES) {
        const int left = v_left(d, c->D);
        vfloat sum = {0};
        for (int t = 0; t < n_keys; t++) {
            const size_t value = kv_at + (size_t)t * G * D + (size_t)d;
            sum += v_load_act(c->values, value, left, c->type) * scores[t];
        }
        v_store_act(c->out, to + (size_t)d, sum * inverse, left, c->type);
    }
}

void OP(attention_decode)(pl_backend *be, pl_act *out, const pl_act *qkv,
                          const pl_act *keys, const pl_act *values, const int32_t *slot,
                          const int32_t *pos, int N, int S, int H, int G, int D)
{
    const size_t begin = (size_t)slot[0] * (size_t)S * (size_t)(G * D);
    bool is_piece = true; /* whether the rows are consecutive positions of a sequence */
    for (int n = 1; n < N; n++)
        is_piece = is_piece && slot[n] == slot[0] && pos[n] == pos[0] + n;
    if (is_piece &&
        OP(attention_after)(be, out, qkv, keys, values, begin, pos[0], N, H, G, D))
        return;
    const decode c = {be->act, S, H, G, D, out, qkv, keys, values, slot, pos};
    const int n_tasks = N * H;
    size_t n_keys = 0;
    for (int n = 0; n < N; n++)
        n_keys += (size_t)pos[n] + 1;
    const int n_threads =
        cpu_team(be, 2 * n_keys * (size_t)(H * D) * pl_type_bytes(be->act));
    const size_t part = cpu_lines((size_t)S * sizeof(float));
    char *scratch = cpu_scratch(cpu_self(be), part * (size_t)n_threads);
    if (scratch == NULL)
        return;
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (int i = 0; i < n_threads; i++) {
        float *scores = (float *)(void *)(scratch + (size_t)i * part);
        for (int task = i; task < n_tasks; task += n_threads)
            decode_head(&c, scores, task / H, task % H);
    }
}
