/* Reads the messages of a round one after the other, and makes their weighted sum.
 *
 * Several threads make the sum, and the result has the same bits for any number of
 * threads. First the threads open the messages of a batch: they check checksums and
 * decompress. Then each thread takes one slice of the vector, and adds this slice of
 * all messages in their order. */
#include "codec/codec_internal.h"

enum { THREADS_MAX = 4, SLICES = 4, ALONE = 1 << 18 };

/* ---- the messages of a source, one after the other ---- */
static pl_status next_of_list(void *context, bool anew, pl_codec_run *out)
{
    enum { RUN = 8 }; /* number of messages opened at once; each needs memory */
    pl_codec_list *list = context;
    list->at = anew ? 0 : list->at;
    out->messages = list->messages + list->at;
    out->weights = list->weights ? list->weights + list->at : NULL;
    out->n = list->n - list->at < RUN ? list->n - list->at : RUN;
    list->at += out->n;
    return PL_OK;
}

pl_codec_source pl_codec_source_of(pl_codec_list *list)
{
    return (pl_codec_source){next_of_list, list};
}

pl_status pl_codec_next(pl_codec_walk *w, pl_codec_message *out, float *weight)
{
    *out = (pl_codec_message){NULL, 0};
    *weight = 1.0f;
    if (w->at == w->run.n) {
        PL_CHECK(w->source.next(w->source.context, !w->begun, &w->run));
        w->begun = true;
        w->at = 0;
    }
    if (w->run.n == 0)
        return PL_OK;
    if (w->run.weights)
        *weight = w->run.weights[w->at];
    *out = w->run.messages[w->at++];
    return PL_OK;
}

/* ---- the sum ---- */
typedef struct adding {
    pl_codec_run run;
    codec_opened *opened; /* [n_opened] the messages of `run`, decompressed */
    int n_opened;
    size_t n, n_slices;
    float *sum;
} adding;

static void close_opened(adding *a)
{
    for (int i = 0; i < a->n_opened; i++)
        pl_buf_destroy(&a->opened[i].raw);
    pl_free(a->opened);
    a->opened = NULL;
    a->n_opened = 0;
}

static pl_status open_message(void *context, size_t item, int thread)
{
    const adding *a = context;
    (void)thread;
    return codec_open(&a->run.messages[item], a->n, &a->opened[item]);
}

static pl_status add_slice(void *context, size_t item, int thread)
{
    const adding *a = context;
    size_t tiles = (a->n + TILE - 1) / TILE;
    (void)thread;
    for (int i = 0; i < a->run.n; i++) {
        codec_sink sink = {.sum = a->sum,
                           .weight = a->run.weights ? a->run.weights[i] : 1.0f,
                           .begin = tiles * item / a->n_slices * TILE,
                           .end = tiles * (item + 1) / a->n_slices * TILE};
        sink.end = sink.end < a->n ? sink.end : a->n;
        PL_CHECK(codec_decode(&a->opened[i], &sink));
    }
    return PL_OK;
}

int pl_codec_add_threads(void)
{
    int n = pl_cpu_count();
    return n < THREADS_MAX ? n : THREADS_MAX;
}

pl_status pl_codec_add_each(const pl_codec_source *messages, size_t n, float *sum)
{
    adding a = {.n = n, .sum = sum};
    pl_status status = PL_OK;
    PL_TRY(messages->next(messages->context, true, &a.run));
    while (a.run.n > 0) {
        if (a.run.n > a.n_opened) {
            close_opened(&a);
            a.opened = pl_alloc((size_t)a.run.n * sizeof *a.opened);
            a.n_opened = a.run.n;
        }
        /* With few values a second thread costs more than it saves. If a codec can only
         * decode complete messages, there is only one slice, because every slice would
         * decode all of them. */
        int n_threads = a.n * (size_t)a.run.n < ALONE ? 1 : pl_codec_add_threads();
        PL_TRY(pl_parallel(n_threads, (size_t)a.run.n, open_message, &a));
        a.n_slices = n_threads > 1 ? (size_t)(n_threads * SLICES) : 1;
        for (int i = 0; i < a.run.n; i++)
            a.n_slices = a.opened[i].splits ? a.n_slices : 1;
        PL_TRY(pl_parallel(n_threads, a.n_slices, add_slice, &a));
        PL_TRY(messages->next(messages->context, false, &a.run));
    }
done:
    close_opened(&a);
    return status;
}
