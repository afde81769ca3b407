/* A device behind the table of outer/arith.h. One thread opened it and does what others
 * ask for, in the order in which they ask: which device is meant is known of each
 * thread, and one stream is all that there is. Vectors stay on the device from call to
 * call as memory only: what they hold is brought along each time. Nothing of a caller's
 * is written before all has succeeded there and all of it is back, in vectors of the
 * desk's own: until then the CPU can do the same from the same bytes. */
#include "outer/accel.h"
#include "outer/codec_parts.h"
#include "outer/step_overlap.h"

#include <stdint.h>

enum { VECTORS = 6, RESULTS = 3, SENTENCE_MAX = 1024 };
typedef enum errand_kind { MERGE, EAGER, MEET, ENCODE, ADD } errand_kind;

typedef struct errand {
    errand_kind kind;
    const void *what; /* pl_arith_merge and so on */
    void *result;     /* pl_outer_report, pl_buf, double */
    pl_queue *done;
    pl_status status;
    char error[SENTENCE_MAX];
} errand;

typedef struct brought {
    float *values, *to;
    size_t n, room;
} brought;

typedef struct desk {
    pl_arith table; /* first: callers have its address */
    pl_accel_options options;
    pl_accel *accel;
    char name[128];
    float *vectors[VECTORS];
    size_t room[VECTORS];     /* values */
    brought results[RESULTS]; /* n_results of them are back */
    int n_results;
    bool lost; /* the device failed, and will fail again */
    bool told; /* the log has it */
    pl_thread *thread;
    pl_queue *errands, *opened;
    errand first; /* what the thread says about the opening */
} desk;

/* ---- vectors ---- */
static pl_status make_room(desk *d, int which, size_t n, float **out)
{
    void *grown = NULL;
    if (n > d->room[which] || !d->vectors[which]) {
        pl_accel_free(d->accel, d->vectors[which]);
        d->vectors[which] = NULL;
        d->room[which] = 0;
        PL_RETURN_IF(pl_accel_alloc(d->accel, n * sizeof(float), "an update", &grown));
        d->vectors[which] = grown;
        d->room[which] = n;
    }
    *out = d->vectors[which];
    return PL_OK;
}

/* A copy there; NULL of NULL. */
static pl_status take_along(desk *d, int which, const float *from, size_t n,
                            float **out)
{
    *out = NULL;
    if (!from)
        return PL_OK;
    PL_RETURN_IF(make_room(d, which, n, out));
    return pl_accel_upload(d->accel, *out, from, n * sizeof *from);
}

/* A caller gets it when all of a call is back. */
static pl_status bring_back(desk *d, float *to, const float *from, size_t n)
{
    brought *b = &d->results[d->n_results];
    if (!from)
        return PL_OK;
    if (n > b->room) {
        pl_free_aligned(b->values);
        b->values = NULL;
        b->room = 0;
        PL_RETURN_IF(pl_try_alloc_bare(n * sizeof *to, "a device's result",
                                       (void **)&b->values));
        b->room = n;
    }
    PL_RETURN_IF(pl_accel_download(d->accel, b->values, from, n * sizeof *to));
    if (pl_failpoint("outer.back.after") != PL_OK)
        return pl_fail_in(PL_ERR_DEVICE, "%s", d->name);
    b->to = to;
    b->n = n;
    d->n_results++;
    return PL_OK;
}

static void hand_over(desk *d)
{
    for (int i = 0; i < d->n_results; i++)
        memcpy(d->results[i].to, d->results[i].values,
               d->results[i].n * sizeof *d->results[i].to);
}

/* ---- a round ---- */
/* As pl_codec_add_each. */
static pl_status add_each(desk *d, const pl_arith_merge *m, float *mean)
{
    const pl_codec_source *from = &m->messages;
    pl_codec_message message;
    double norm = 0;
    float weight = 1.0f;
    PL_RETURN_IF(from->next(from->context, true, &message, &weight));
    while (message.data) {
        PL_RETURN_IF(pl_accel_add(d->accel, message.data, message.bytes, m->n, weight,
                                  mean, &norm));
        PL_RETURN_IF(from->next(from->context, false, &message, &weight));
    }
    return PL_OK;
}

/* As pl_codec_add_all; the mean is still zero. */
static pl_status add_sums(desk *d, const pl_arith_merge *m, float *mean)
{
    pl_buf sums[2] = {{0}};
    pl_codec_message sum;
    double norm = 0;
    pl_status status = codec_combine_all(&m->messages, m->n, sums, &sum);
    if (status == PL_OK)
        status = pl_accel_add(d->accel, sum.data, sum.bytes, m->n, 1.0f, mean, &norm);
    pl_buf_destroy(&sums[0]);
    pl_buf_destroy(&sums[1]);
    if (status != PL_ERR_PEEL)
        return status;
    PL_RETURN_IF(pl_accel_clear(d->accel, mean, m->n));
    return add_each(d, m, mean);
}

static pl_status add_present(desk *d, const pl_arith_merge *m, float *mean)
{
    const pl_codec_source *from = &m->messages;
    float *one, *whole, weight = 1.0f;
    pl_codec_message message;
    double norm = 0;
    PL_RETURN_IF(make_room(d, 4, m->n, &one));
    PL_RETURN_IF(make_room(d, 5, m->n, &whole));
    PL_RETURN_IF(pl_accel_clear(d->accel, whole, m->n));
    PL_RETURN_IF(from->next(from->context, true, &message, &weight));
    while (message.data) {
        PL_RETURN_IF(pl_accel_clear(d->accel, one, m->n));
        PL_RETURN_IF(pl_accel_add(d->accel, message.data, message.bytes, m->n, 1.0f,
                                  one, &norm));
        PL_RETURN_IF(pl_accel_add_present(d->accel, mean, whole, one, weight, m->n));
        PL_RETURN_IF(from->next(from->context, false, &message, &weight));
    }
    return pl_accel_divide_present(d->accel, mean, whole, m->n);
}

static pl_status make_mean(desk *d, const pl_arith_merge *m, const float *params,
                           float *mean)
{
    float *origin = NULL;
    PL_RETURN_IF(pl_accel_clear(d->accel, mean, m->n));
    PL_RETURN_IF(m->homomorphic ? add_sums(d, m, mean)
                 : m->present   ? add_present(d, m, mean)
                                : add_each(d, m, mean));
    PL_RETURN_IF(take_along(d, 4, m->origin, m->n, &origin));
    return pl_accel_correct(d->accel, mean, params, origin, m->factor, m->n);
}

/* The state there; vectors that the step does not keep stay where they are. */
static pl_status take_state(desk *d, const pl_outer_step *step,
                            const pl_outer_state *state, size_t n, pl_outer_state *out)
{
    *out = *state;
    const float *momentum = pl_outer_keeps_momentum(step) ? state->momentum : NULL;
    const float *carry = pl_outer_keeps_carry(step) ? state->carry : NULL;
    PL_RETURN_IF(take_along(d, 0, state->params, n, &out->params));
    PL_RETURN_IF(take_along(d, 1, momentum, n, &out->momentum));
    return take_along(d, 2, carry, n, &out->carry);
}

static pl_status bring_state(desk *d, const pl_outer_state *from, size_t n,
                             pl_outer_state *to)
{
    PL_RETURN_IF(bring_back(d, to->params, from->params, n));
    PL_RETURN_IF(bring_back(d, to->momentum, from->momentum, n));
    PL_RETURN_IF(bring_back(d, to->carry, from->carry, n));
    to->displacement = from->displacement;
    to->arrivals = from->arrivals;
    return PL_OK;
}

static pl_status merge_there(desk *d, const pl_arith_merge *m, pl_outer_report *report)
{
    pl_outer_state there;
    float *mean;
    PL_RETURN_IF(take_state(d, m->step, m->state, m->n, &there));
    PL_RETURN_IF(make_room(d, 3, m->n, &mean));
    PL_RETURN_IF(make_mean(d, m, there.params, mean));
    PL_RETURN_IF(pl_accel_apply(d->accel, m->step, &there, mean, m->n, report));
    return bring_state(d, &there, m->n, m->state);
}

static pl_status eager_there(desk *d, const pl_arith_eager *e)
{
    pl_outer_state there;
    pl_outer_report report;
    float *own, *before, *past;
    PL_RETURN_IF(take_state(d, e->step, e->state, e->n, &there));
    PL_RETURN_IF(take_along(d, 3, e->own, e->n, &own));
    PL_RETURN_IF(take_along(d, 4, e->own_before, e->n, &before));
    PL_RETURN_IF(take_along(d, 5, e->mean_before, e->n, &past));
    PL_RETURN_IF(
        pl_accel_eager_update(d->accel, own, before, past, e->n_workers, e->n, own));
    PL_RETURN_IF(pl_accel_apply(d->accel, e->step, &there, own, e->n, &report));
    return bring_state(d, &there, e->n, e->state);
}

/* ---- meetings and codecs ---- */
static pl_status meet_there(desk *d, const pl_arith_meeting *m)
{
    float *params, *velocity, *own, *own_view, *mate, *mate_view;
    PL_RETURN_IF(take_along(d, 0, m->params, m->n, &params));
    PL_RETURN_IF(take_along(d, 1, m->velocity, m->n, &velocity));
    PL_RETURN_IF(take_along(d, 2, m->own.update, m->n, &own));
    PL_RETURN_IF(take_along(d, 3, m->own.params, m->n, &own_view));
    PL_RETURN_IF(take_along(d, 4, m->mate.update, m->n, &mate));
    PL_RETURN_IF(take_along(d, 5, m->mate.params, m->n, &mate_view));
    const pl_gossip_view ours = {own, own_view}, theirs = {mate, mate_view};
    if (m->one_vector)
        PL_RETURN_IF(
            pl_accel_meet_one(d->accel, m->step, params, velocity, own, mate, m->n));
    else
        PL_RETURN_IF(pl_accel_meet_views(d->accel, m->step, params, velocity, &ours,
                                         mate ? &theirs : NULL, m->n));
    PL_RETURN_IF(pl_accel_sync(d->accel));
    PL_RETURN_IF(bring_back(d, m->params, params, m->n));
    return bring_back(d, m->velocity, velocity, m->n);
}

static pl_status encode_there(desk *d, const pl_arith_encode *e, pl_buf *out)
{
    float *update, *residual;
    size_t before = out->len;
    PL_RETURN_IF(take_along(d, 0, e->update, e->n, &update));
    PL_RETURN_IF(take_along(d, 1, e->residual, e->n, &residual));
    PL_RETURN_IF(pl_accel_encode_module(d->accel, e->options, e->parts, e->n_parts,
                                        e->round, update, residual, out));
    pl_status status = bring_back(d, e->residual, residual, e->n);
    if (status != PL_OK)
        out->len = before;
    return status;
}

static pl_status add_there(desk *d, const pl_arith_add *a, double *norm)
{
    float *sum;
    PL_RETURN_IF(take_along(d, 0, a->sum, a->n, &sum));
    PL_RETURN_IF(pl_accel_add(d->accel, a->message.data, a->message.bytes, a->n,
                              a->weight, sum, norm));
    return bring_back(d, a->sum, sum, a->n);
}

/* ---- errands ---- */
static pl_status go_there(desk *d, errand *e)
{
    d->n_results = 0;
    switch (e->kind) {
    case MERGE:
        return merge_there(d, e->what, e->result);
    case EAGER:
        return eager_there(d, e->what);
    case MEET:
        return meet_there(d, e->what);
    case ENCODE:
        return encode_there(d, e->what, e->result);
    case ADD:
        break;
    }
    return add_there(d, e->what, e->result);
}

static pl_status stay_here(const errand *e)
{
    const pl_arith *cpu = pl_arith_or_cpu(NULL);
    switch (e->kind) {
    case MERGE:
        return cpu->merge(cpu, e->what, e->result);
    case EAGER:
        return cpu->eager(cpu, e->what);
    case MEET:
        return cpu->meet(cpu, e->what);
    case ENCODE:
        return cpu->encode(cpu, e->what, e->result);
    case ADD:
        break;
    }
    return cpu->add(cpu, e->what, e->result);
}

/* What the device cannot do the CPU does to the same bytes. */
static pl_status fall_back(desk *d, const errand *e, pl_status status)
{
    const bool failed = status == PL_ERR_DEVICE;
    if ((!failed && status != PL_ERR_NOMEM) || !d->options.optional)
        return status;
    if (!d->told)
        pl_log(PL_LOG_WARN, "outer.fallback", "device=\"%s\" reason=\"%s\"", d->name,
               pl_last_error());
    d->told = true;
    d->lost = d->lost || failed;
    return stay_here(e);
}

static void do_errand(desk *d, errand *e)
{
    if (d->lost) {
        e->status = stay_here(e);
    } else {
        e->status = go_there(d, e);
        if (e->status == PL_OK)
            hand_over(d);
        else
            e->status = fall_back(d, e, e->status);
    }
    if (e->status != PL_OK)
        pl_copy_text(e->error, sizeof e->error, pl_last_error());
}

static pl_status open_device(desk *d)
{
    const int n = pl_accel_count();
    const bool round = d->options.turns && n > 0;
    PL_RETURN_IF(pl_accel_open(round ? d->options.device % n : d->options.device, NULL,
                               &d->accel));
    snprintf(d->name, sizeof d->name, "cuda %s", pl_accel_name(d->accel));
    return PL_OK;
}

static void run(void *context)
{
    desk *d = context;
    d->first.status = open_device(d);
    if (d->first.status != PL_OK)
        pl_copy_text(d->first.error, sizeof d->first.error, pl_last_error());
    pl_queue_push(d->opened, &d->first);
    for (void *item; (item = pl_queue_pop(d->errands, -1)) != d;) {
        errand *e = item;
        do_errand(d, e);
        pl_queue_push(e->done, e);
    }
    for (int i = 0; d->accel && i < VECTORS; i++)
        pl_accel_free(d->accel, d->vectors[i]);
    for (int i = 0; i < RESULTS; i++)
        pl_free_aligned(d->results[i].values);
    pl_accel_close(&d->accel);
}

/* ---- the table ---- */
static pl_status ask(const pl_arith *self, errand_kind kind, const void *what,
                     void *result)
{
    desk *d = (desk *)(uintptr_t)self;
    errand e = {.kind = kind, .what = what, .result = result};
    PL_RETURN_IF(pl_queue_create(&e.done));
    pl_queue_push(d->errands, &e);
    (void)pl_queue_pop(e.done, -1);
    pl_queue_destroy(&e.done);
    return e.status == PL_OK ? PL_OK : pl_fail(e.status, "%s", e.error);
}

static pl_status merge(const pl_arith *self, const pl_arith_merge *m,
                       pl_outer_report *report)
{
    return ask(self, MERGE, m, report);
}

static pl_status eager(const pl_arith *self, const pl_arith_eager *e)
{
    return ask(self, EAGER, e, NULL);
}

static pl_status meet(const pl_arith *self, const pl_arith_meeting *m)
{
    return ask(self, MEET, m, NULL);
}

static pl_status encode(const pl_arith *self, const pl_arith_encode *e, pl_buf *out)
{
    return ask(self, ENCODE, e, out);
}

static pl_status add(const pl_arith *self, const pl_arith_add *a, double *norm)
{
    return ask(self, ADD, a, norm);
}

pl_status pl_accel_arith_open(const pl_accel_options *options, pl_arith **out)
{
    desk *d = pl_alloc(sizeof *d);
    pl_arith *table = &d->table;
    pl_status status = PL_OK;
    *out = NULL;
    d->options = *options;
    *table = (pl_arith){d->name, merge, eager, meet, encode, add};
    PL_TRY(pl_queue_create(&d->errands));
    PL_TRY(pl_queue_create(&d->opened));
    PL_TRY(pl_thread_start("accel", run, d, &d->thread));
    (void)pl_queue_pop(d->opened, -1);
    if (d->first.status != PL_OK)
        PL_TRY(pl_fail(d->first.status, "%s", d->first.error));
    *out = table;
    return PL_OK;
done:
    pl_accel_arith_close(&table);
    return status;
}

void pl_accel_arith_close(pl_arith **arith)
{
    desk *d = (desk *)(void *)*arith;
    *arith = NULL;
    if (!d)
        return;
    if (d->thread) {
        pl_queue_push(d->errands, d);
        pl_thread_join(&d->thread);
    }
    pl_queue_destroy(&d->errands);
    pl_queue_destroy(&d->opened);
    pl_free(d);
}
