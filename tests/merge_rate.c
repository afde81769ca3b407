/* folder: home
 *
 * How fast a home adds the updates of a round: merge_rate FOLDER [CONTRIBUTORS PARAMS
 * CODEC].
 *
 * The updates lie in a store in FOLDER, as workers send them. Three rows: all of them
 * read first and added then; each added while the next is read, as homes do; and the
 * memory alone, a pass that reads an update and rewrites the sum for each contributor.
 */
#include "home/home_updates.h"
#include "codec/codec.h"
#include "outer/outer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct merge_bench {
    pl_store *store;
    int n;
    size_t n_params;
    pl_contribution *contributions;
    float *weights, *params, *momentum, *sum;
    bool homomorphic;
} merge_bench;

static pl_status put_update(merge_bench *b, const pl_codec_options *codec, int i,
                            float *update)
{
    const pl_codec_part part = {.count = b->n_params, .role = PL_ROLE_MLP};
    const pl_codec_round round = {
        .seed = 3, .scale_exponent = -8, .n_contributors = b->n, .weight = 1.0f};
    char name[32];
    pl_txn *txn = NULL;
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    uint64_t state = 88172645463325252u + (uint64_t)i;
    for (size_t k = 0; k < b->n_params; k++) { /* xorshift: bits that do not compress */
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        update[k] = ((float)(state >> 40) - 8388608.0f) * 1e-9f;
    }
    snprintf(name, sizeof name, "update/%d", i);
    PL_TRY(pl_codec_encode_module(codec, &part, 1, &round, update, NULL, &bytes));
    PL_TRY(pl_txn_begin(b->store, &txn));
    PL_TRY(pl_txn_put_blob(txn, bytes.data, bytes.len, &b->contributions[i].update));
    PL_TRY(pl_txn_put_object(txn, name, &b->contributions[i].update));
    PL_TRY(pl_txn_commit(&txn));
    b->contributions[i].update_bytes = bytes.len;
    b->weights[i] = 1.0f / (float)b->n;
done:
    pl_txn_abort(&txn);
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status merge(merge_bench *b, pl_codec_source source)
{
    pl_method_settings settings = pl_method_defaults(PL_METHOD_DILOCO);
    const pl_outer_step step = pl_method_step(&settings, 0.7, false, b->n);
    pl_outer_state state = {.params = b->params, .momentum = b->momentum};
    pl_outer_report report;
    const pl_arith_merge of = {.step = &step,
                               .state = &state,
                               .n = b->n_params,
                               .messages = source,
                               .homomorphic = b->homomorphic,
                               .factor = 1.0f};
    return pl_arith_step(&of, &report);
}

static pl_status read_first(merge_bench *b, double *seconds)
{
    pl_codec_message *messages = pl_alloc((size_t)b->n * sizeof *messages);
    pl_codec_list list = {messages, b->weights, b->n, 0};
    double start = pl_now();
    pl_status status = PL_OK;
    for (int i = 0; i < b->n; i++) {
        const pl_contribution *c = &b->contributions[i];
        PL_TRY(pl_try_alloc((size_t)c->update_bytes, "an update",
                            (void **)(uintptr_t)&messages[i].data));
        PL_TRY(pl_store_read_blob(b->store, &c->update, 0, (size_t)c->update_bytes,
                                  (void *)(uintptr_t)messages[i].data));
        messages[i].bytes = c->update_bytes;
    }
    PL_TRY(merge(b, pl_codec_source_of(&list)));
    *seconds = pl_now() - start;
done:
    for (int i = 0; i < b->n; i++)
        pl_free_aligned((void *)(uintptr_t)messages[i].data);
    pl_free(messages);
    return status;
}

static pl_status read_ahead(merge_bench *b, double *seconds)
{
    const home_round round = {.store = b->store,
                              .module = "a module",
                              .n_params = b->n_params,
                              .contributions = b->contributions,
                              .n = b->n,
                              .weights = b->weights,
                              .homomorphic = b->homomorphic,
                              .n_vectors = 1};
    home_updates *updates = NULL;
    double start = pl_now();
    PL_RETURN_IF(home_updates_open(&round, &updates));
    pl_status status = merge(b, home_updates_source(updates));
    home_updates_close(&updates);
    *seconds = pl_now() - start;
    return status;
}

/* The update's bytes are read as they are, whatever they mean. */
static void touch_memory(merge_bench *b, const pl_buf *update, double *seconds)
{
    double start = pl_now();
    for (int i = 0; i < b->n; i++)
        for (size_t k = 0; k < b->n_params; k++) {
            size_t at = k * (update->len / b->n_params);
            b->sum[k] += (float)update->data[at];
        }
    *seconds = pl_now() - start;
}

static void say_row(const merge_bench *b, const char *name, double seconds)
{
    double bytes = (double)b->n * (double)b->contributions[0].update_bytes;
    printf("  %-34s %8.3f s %8.2f GB/s of updates\n", name, seconds,
           bytes / seconds * 1e-9);
}

static pl_status run(merge_bench *b, const char *folder, const char *codec_name)
{
    pl_codec_options codec;
    double first = 0, ahead = 0, memory = 0, best[3] = {1e9, 1e9, 1e9};
    size_t bytes = b->n_params * sizeof(float);
    pl_buf update = {0};
    pl_status status = PL_OK;
    PL_TRY(pl_codec_options_default(codec_name, &codec));
    b->homomorphic = pl_codec_is_homomorphic(&codec);
    PL_TRY(pl_store_open(folder, PL_STORE_CREATE, &b->store));
    PL_TRY(pl_try_alloc(bytes, "a module", (void **)&b->params));
    PL_TRY(pl_try_alloc(bytes, "a momentum", (void **)&b->momentum));
    PL_TRY(pl_try_alloc(bytes, "a sum", (void **)&b->sum));
    for (int i = 0; i < b->n; i++)
        PL_TRY(put_update(b, &codec, i, b->sum));
    pl_buf_reserve(&update, (size_t)b->contributions[0].update_bytes);
    PL_TRY(pl_store_read_blob(b->store, &b->contributions[0].update, 0,
                              (size_t)b->contributions[0].update_bytes, update.data));
    update.len = (size_t)b->contributions[0].update_bytes;
    for (int round = 0; round < 5; round++) {
        PL_TRY(read_first(b, &first));
        PL_TRY(read_ahead(b, &ahead));
        touch_memory(b, &update, &memory);
        best[0] = first < best[0] ? first : best[0];
        best[1] = ahead < best[1] ? ahead : best[1];
        best[2] = memory < best[2] ? memory : best[2];
    }
    printf("%d updates of %zu parameters, %s, %zu bytes each\n", b->n, b->n_params,
           codec_name, update.len);
    say_row(b, "all read, then added", best[0]);
    say_row(b, "one added while the next is read", best[1]);
    say_row(b, "the memory alone, one thread", best[2]);
done:
    pl_buf_destroy(&update);
    return status;
}

int main(int argc, char **argv)
{
    merge_bench b = {.n = argc > 2 ? atoi(argv[2]) : 256,
                     .n_params = argc > 3 ? (size_t)atoll(argv[3]) : 1 << 20};
    if (argc < 2 || b.n < 1 || b.n_params < 1) {
        fprintf(stderr, "usage: merge_rate FOLDER [CONTRIBUTORS PARAMS CODEC]\n");
        return 64;
    }
    b.contributions = pl_alloc((size_t)b.n * sizeof *b.contributions);
    b.weights = pl_alloc((size_t)b.n * sizeof *b.weights);
    pl_status status = run(&b, argv[1], argc > 4 ? argv[4] : "bf16");
    if (status != PL_OK)
        fprintf(stderr, "merge_rate: %s\n", pl_last_error());
    pl_store_close(&b.store);
    pl_free_aligned(b.params);
    pl_free_aligned(b.momentum);
    pl_free_aligned(b.sum);
    pl_free(b.contributions);
    pl_free(b.weights);
    return status == PL_OK ? 0 : 1;
}
