#include "home/home_updates.h"

#include <string.h>

enum { PIECES = 2, SENTENCE_MAX = 1024 };

/* One update in memory, or why there is none. */
typedef struct piece {
    uint8_t *data;
    uint64_t room;
    pl_codec_message message; /* data NULL: behind the last one */
    float weight;
    pl_status status;
    char error[SENTENCE_MAX];
} piece;

struct home_updates {
    home_round round;
    piece pieces[PIECES];
    piece *lent;             /* to whoever adds */
    pl_queue *empty, *ready; /* pieces to the reader's thread, and from it */
    pl_thread *thread;
    /* the reader's: */
    int at;           /* the contribution that comes next */
    int contributors; /* of the updates so far */
    int *stands_for;  /* [n] contributors of the update that this one names first */
};

/* ---- which updates ---- */
static bool same_update(const home_updates *u, int a, int b)
{
    const pl_contribution *c = u->round.contributions;
    return pl_hash_equal(&c[a].update, &c[b].update);
}

/* An update of c contributors stands in the list c times, or 2c times if it is, byte
 * for byte, that of others too: the first of every c stands for it. */
static bool is_skipped(const home_updates *u)
{
    int first = u->at, n_before = 0;
    for (int i = u->at - 1; u->round.homomorphic && i >= 0; i--)
        if (same_update(u, i, u->at)) {
            first = i;
            n_before++;
        }
    return n_before > 0 && n_before % u->stands_for[first] != 0;
}

/* ---- the reader ---- */
static pl_status read_blob(const home_updates *u, const pl_contribution *c, piece *p)
{
    p->message = (pl_codec_message){NULL, 0};
    if (c->update_bytes > p->room) {
        pl_free_aligned(p->data);
        p->room = 0;
        PL_RETURN_IF(
            pl_try_alloc_bare((size_t)c->update_bytes, "an update", (void **)&p->data));
        p->room = c->update_bytes;
    }
    PL_RETURN_IF(pl_store_read_blob(u->round.store, &c->update, 0,
                                    (size_t)c->update_bytes, p->data));
    p->message = (pl_codec_message){p->data, c->update_bytes};
    return PL_OK;
}

static pl_status count_contributors(home_updates *u, const pl_codec_message *m)
{
    pl_codec_info info;
    PL_RETURN_IF(pl_codec_inspect(m->data, m->bytes, u->round.n_params, &info));
    u->stands_for[u->at] = info.contributors;
    u->contributors += info.contributors;
    return PL_OK;
}

static pl_status end_round(const home_updates *u, piece *p)
{
    p->message = (pl_codec_message){NULL, 0};
    if (!u->round.homomorphic || u->contributors == u->round.n)
        return PL_OK;
    return pl_fail(PL_ERR_INTERNAL, "%s has updates of %d contributors, not of %d",
                   u->round.module, u->contributors, u->round.n);
}

static pl_status read_next(home_updates *u, piece *p)
{
    pl_codec_message vectors[2];
    while (u->at < u->round.n && is_skipped(u))
        u->at++;
    if (u->at >= u->round.n)
        return end_round(u, p);
    PL_RETURN_IF(read_blob(u, &u->round.contributions[u->at], p));
    if (u->round.homomorphic) {
        PL_RETURN_IF(count_contributors(u, &p->message));
    } else {
        PL_RETURN_IF(pl_codec_split(p->message.data, p->message.bytes,
                                    u->round.n_vectors, vectors));
        p->message = vectors[0];
        p->weight = u->round.weights[u->at];
    }
    u->at++;
    return PL_OK;
}

static void fill(home_updates *u, piece *p)
{
    p->status = read_next(u, p);
    if (p->status != PL_OK)
        pl_copy_text(p->error, sizeof p->error, pl_last_error());
}

static void run(void *context)
{
    home_updates *u = context;
    for (void *item; (item = pl_queue_pop(u->empty, -1)) != u;) {
        fill(u, item);
        pl_queue_push(u->ready, item);
    }
}

/* ---- whoever adds ---- */
static void stop_reading(home_updates *u)
{
    if (!u->thread)
        return;
    pl_queue_push(u->empty, u); /* the mark of the end */
    pl_thread_join(&u->thread);
    while (pl_queue_pop(u->ready, 0))
        continue;
}

static pl_status begin_anew(home_updates *u)
{
    stop_reading(u);
    u->at = u->contributors = 0;
    u->lent = NULL;
    if (u->round.n == 1) /* nothing to read ahead */
        return PL_OK;
    PL_RETURN_IF(pl_thread_start("updates", run, u, &u->thread));
    for (int i = 0; i < PIECES; i++)
        pl_queue_push(u->empty, &u->pieces[i]);
    return PL_OK;
}

static pl_status next_update(void *context, bool anew, pl_codec_message *out,
                             float *weight)
{
    home_updates *u = context;
    *out = (pl_codec_message){NULL, 0};
    if (anew)
        PL_RETURN_IF(begin_anew(u));
    if (u->lent && u->thread)
        pl_queue_push(u->empty, u->lent);
    u->lent = u->thread ? pl_queue_pop(u->ready, -1) : &u->pieces[0];
    if (!u->thread)
        fill(u, u->lent);
    if (u->lent->status != PL_OK)
        return pl_fail(u->lent->status, "%s", u->lent->error);
    *out = u->lent->message;
    *weight = u->lent->weight;
    return PL_OK;
}

pl_codec_source home_updates_source(home_updates *u)
{
    return (pl_codec_source){next_update, u};
}

pl_status home_updates_open(const home_round *round, home_updates **out)
{
    pl_status status = PL_OK;
    home_updates *u = pl_alloc(sizeof *u);
    *out = NULL;
    u->round = *round;
    u->stands_for = pl_alloc((size_t)round->n * sizeof *u->stands_for);
    for (int i = 0; i < PIECES; i++)
        u->pieces[i].weight = 1.0f;
    PL_TRY(pl_queue_create(&u->empty));
    PL_TRY(pl_queue_create(&u->ready));
    *out = u;
    u = NULL;
done:
    home_updates_close(&u);
    return status;
}

void home_updates_close(home_updates **updates)
{
    home_updates *u = *updates;
    if (!u)
        return;
    stop_reading(u);
    pl_queue_destroy(&u->empty);
    pl_queue_destroy(&u->ready);
    for (int i = 0; i < PIECES; i++)
        pl_free_aligned(u->pieces[i].data);
    pl_free(u->stands_for);
    pl_free(u);
    *updates = NULL;
}
