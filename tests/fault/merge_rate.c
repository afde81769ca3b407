/* folder: home
 *
 * Measures how fast a home adds the updates of a round. Usage: merge_rate FOLDER
 * [CONTRIBUTORS PARAMS CODEC].
 *
 * The updates are in a store in FOLDER, encoded as workers send them. Each row of the
 * output measures one thing: the merge as a home does it; the commit of its result
 * (parameters and momentum); each part of a merge alone; or the memory alone, that is,
 * one thread or all threads read an update and rewrite a sum of floats for each
 * contributor. A row has the time of the best of five rounds, that of the commit of
 * one. It also has the processor seconds of all threads in this round, which depend
 * less on other processes. */
#include "home/home.h"
#include "home/home_updates.h"
#include "outer/outer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct merge_bench {
    pl_store *store;
    int n;
    size_t n_params;
    pl_contribution *contributions;
    float *weights, *params, *momentum, *sum;
    uint8_t *one; /* one update */
    bool homomorphic;
    size_t n_slices;
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
    /* Random bits, which cannot be compressed. */
    for (size_t k = 0; k < b->n_params; k++) {
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

static home_updates *list_updates(const merge_bench *b)
{
    const home_round round = {.store = b->store,
                              .module = "a module",
                              .n_params = b->n_params,
                              .contributions = b->contributions,
                              .n = b->n,
                              .weights = b->weights,
                              .homomorphic = b->homomorphic,
                              .n_vectors = 1,
                              .ahead_bytes = PL_HOME_AHEAD_BYTES};
    return home_updates_create(&round);
}

static pl_status as_homes_do(merge_bench *b)
{
    home_updates *updates = list_updates(b);
    pl_status status = merge(b, home_updates_source(updates));
    home_updates_destroy(&updates);
    return status;
}

/* Commits what a version keeps. Equal blobs would be stored once, so a value changes.
 */
static pl_status commit_version(merge_bench *b)
{
    const size_t bytes = b->n_params * sizeof(float);
    pl_hash params, momentum;
    pl_txn *txn = NULL;
    pl_status status = PL_OK;
    for (size_t k = 0; k < b->n_params; k += 4096)
        b->params[k] = b->momentum[k] += 1.0f;
    PL_TRY(pl_txn_begin(b->store, &txn));
    PL_TRY(pl_txn_put_blob(txn, b->params, bytes, &params));
    PL_TRY(pl_txn_put_blob(txn, b->momentum, bytes, &momentum));
    PL_TRY(pl_txn_put_object(txn, "params", &params));
    PL_TRY(pl_txn_put_object(txn, "momentum", &momentum));
    PL_TRY(pl_txn_commit(&txn));
done:
    pl_txn_abort(&txn);
    return status;
}

static pl_status only_read(merge_bench *b)
{
    home_updates *updates = list_updates(b);
    pl_codec_source source = home_updates_source(updates);
    pl_codec_run run = {.n = 1};
    pl_status status = PL_OK;
    for (bool anew = true; status == PL_OK && run.n > 0; anew = false)
        status = source.next(source.context, anew, &run);
    home_updates_destroy(&updates);
    return status;
}

/* One thread copies the messages one after another. */
static pl_status only_copied(merge_bench *b)
{
    for (int i = 0; i < b->n; i++)
        PL_CHECK(pl_store_copy_blob(b->store, &b->contributions[i].update, 0,
                                    (size_t)b->contributions[i].update_bytes, b->one));
    return PL_OK;
}

/* Adds the first update again and again. It stays in the processor's caches. */
static pl_status only_added(merge_bench *b)
{
    pl_codec_message *messages = pl_alloc((size_t)b->n * sizeof *messages);
    pl_codec_list list = {messages, b->weights, b->n, 0};
    uint64_t bytes = b->contributions[0].update_bytes;
    pl_status status = pl_store_read_blob(b->store, &b->contributions[0].update, 0,
                                          (size_t)bytes, b->one);
    for (int i = 0; i < b->n; i++)
        messages[i] = (pl_codec_message){b->one, bytes};
    if (status == PL_OK)
        status = merge(b, pl_codec_source_of(&list));
    pl_free(messages);
    return status;
}

/* Reads the bytes of the update without decoding them. */
static pl_status touch_slice(void *context, size_t item, int thread)
{
    const merge_bench *b = context;
    size_t n = b->n_params, first = n * item / b->n_slices;
    size_t end = n * (item + 1) / b->n_slices;
    double step = (double)b->contributions[0].update_bytes / (double)n;
    (void)thread;
    for (int i = 0; i < b->n; i++) {
        const uint8_t *from = b->one + (size_t)((double)first * step);
        for (size_t k = first; k < end; k++)
            b->sum[k] += (float)from[(k - first) * (size_t)step];
    }
    return PL_OK;
}

static pl_status touch_memory(merge_bench *b)
{
    b->n_slices = 1;
    return touch_slice(b, 0, 0);
}

static pl_status touch_by_all(merge_bench *b)
{
    b->n_slices = (size_t)pl_codec_add_threads();
    return pl_parallel((int)b->n_slices, b->n_slices, touch_slice, b);
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static pl_status measure(merge_bench *b, int rounds, const char *name,
                         pl_status (*fn)(merge_bench *))
{
    double best = 1e9, least = 1e9;
    double bytes = (double)b->n * (double)b->contributions[0].update_bytes;
    for (int round = 0; round < rounds; round++) {
        double start = pl_now(), before = processor_seconds();
        PL_CHECK(fn(b));
        double wall = pl_now() - start, used = processor_seconds() - before;
        best = wall < best ? wall : best;
        least = used < least ? used : least;
    }
    printf("  %-34s %8.3f s %8.3f s of processors %8.2f GB/s of updates\n", name, best,
           least, bytes / best * 1e-9);
    return PL_OK;
}

static pl_status run(merge_bench *b, const char *folder, const char *codec_name)
{
    pl_codec_options codec;
    size_t bytes = b->n_params * sizeof(float);
    pl_status status = PL_OK;
    PL_TRY(pl_codec_options_default(codec_name, &codec));
    b->homomorphic = pl_codec_is_homomorphic(&codec);
    PL_TRY(pl_store_open(folder, PL_STORE_CREATE, &b->store));
    PL_TRY(pl_try_alloc(bytes, "a module", (void **)&b->params));
    PL_TRY(pl_try_alloc(bytes, "a momentum", (void **)&b->momentum));
    PL_TRY(pl_try_alloc(bytes, "a sum", (void **)&b->sum));
    for (int i = 0; i < b->n; i++)
        PL_TRY(put_update(b, &codec, i, b->sum));
    PL_TRY(pl_try_alloc((size_t)b->contributions[0].update_bytes + 4096, "an update",
                        (void **)&b->one));
    printf("%d updates of %zu parameters, %s, %llu bytes each\n", b->n, b->n_params,
           codec_name, (unsigned long long)b->contributions[0].update_bytes);
    PL_TRY(measure(b, 5, "the merge", as_homes_do));
    PL_TRY(measure(b, 1, "the commit of its result, once", commit_version));
    PL_TRY(measure(b, 5, "  read and checked", only_read));
    PL_TRY(measure(b, 5, "  copied from the store, unchecked", only_copied));
    PL_TRY(measure(b, 5, "  opened and added: the same update every time", only_added));
    PL_TRY(measure(b, 5, "the memory alone, one thread", touch_memory));
    PL_TRY(measure(b, 5, "the memory alone, all threads", touch_by_all));
done:
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
    pl_free(b.params);
    pl_free(b.momentum);
    pl_free(b.sum);
    pl_free(b.one);
    pl_free(b.contributions);
    pl_free(b.weights);
    return status == PL_OK ? 0 : 1;
}
