/* The sender's thread: sends one update per module to that module's home, then the
 * path's state, which ends the task. If the worker dies before the end, nothing is
 * lost: a worker that repeats the task sends the same bytes, and homes recognise
 * updates that they have already accepted. */
#include "workers/worker_internal.h"

#include <math.h>
#include <stdatomic.h>

/* LEAVE_MS: a worker that was told to stop gives up sending its results when for this
 * time no byte has moved and no home has said that it has no room yet */
enum { LOOK_MS = 50, LEAVE_MS = 60000 };

struct sender {
    pl_client *homes;
    peer *offers;
    worker_task *task; /* the task that is being sent */
    double began;      /* when its sending began */
    uint64_t moved;    /* bytes that moved, and answers without room, by moved_ms */
    int64_t moved_ms;
    /* token of the last task if its sending failed, or if the homes have another
     * worker's results; otherwise 0 */
    uint64_t failed;
    const pl_worker_options *options;
    pl_actor *actor;
    pl_queue *packed; /* tasks for sender_take_packed */
    /* what the sender's thread has measured of its links, for the worker's thread */
    struct sender_link {
        _Atomic double up_rate, down_rate;
        _Atomic uint32_t rtt_ms, n_connects;
        _Atomic uint64_t up, down, repeated;
    } link;
};

/* Called on the sender's thread. */
static void publish_link(sender *s)
{
    pl_link l;
    struct sender_link *to = &s->link;
    pl_client_link(s->homes, &l);
    const uint64_t moved = l.up_bytes + l.down_bytes + l.n_full;
    if (moved != s->moved || !worker_is_told_to_stop(s->options)) {
        s->moved = moved;
        s->moved_ms = pl_now_ms();
    }
    atomic_store(&to->up_rate, l.up_bytes_per_s);
    atomic_store(&to->down_rate, l.down_bytes_per_s);
    atomic_store(&to->rtt_ms, l.rtt_ms);
    atomic_store(&to->n_connects, l.n_connects);
    /* For the hub, a worker is stalled if none of its bytes moves. An answer `no room
     * yet` counts as a byte, so a worker that must wait is not stalled. */
    atomic_store(&to->up, l.up_bytes + l.n_full);
    atomic_store(&to->down, l.down_bytes);
    atomic_store(&to->repeated, l.repeated_bytes);
}

void sender_link(const sender *s, pl_link *out)
{
    const struct sender_link *l = &s->link;
    *out = (pl_link){.up_bytes_per_s = atomic_load(&l->up_rate),
                     .down_bytes_per_s = atomic_load(&l->down_rate),
                     .rtt_ms = atomic_load(&l->rtt_ms),
                     .n_connects = atomic_load(&l->n_connects),
                     .up_bytes = atomic_load(&l->up),
                     .down_bytes = atomic_load(&l->down),
                     .repeated_bytes = atomic_load(&l->repeated)};
}

static pl_status judge_result(const char *name, pl_submit_result result,
                              const char *text)
{
    switch (result) {
    case PL_SUBMIT_ACCEPTED:
    case PL_SUBMIT_DUPLICATE:
        return PL_OK;
    case PL_SUBMIT_DROPPED:
        pl_log(PL_LOG_WARN, "update.dropped", "reason=\"%s\"", text);
        return PL_OK;
    case PL_SUBMIT_OTHER:
        pl_log(PL_LOG_WARN, "update.other", "reason=\"%s\"", text);
        return PL_OK;
    case PL_SUBMIT_FENCED:
        return pl_fail(PL_ERR_STALE, "%s: %s", name, text);
    case PL_SUBMIT_UNKNOWN_BLOB:
    case PL_SUBMIT_REJECTED:
    default:
        return pl_fail(PL_ERR_DATA, "%s was rejected: %s", name, text);
    }
}

/* The encoded updates of a task, in the order of the slots that send an update. */
typedef struct parcel {
    int n;                      /* number of slots that send an update in this phase */
    pl_submission *submissions; /* [n] the updates as they are sent */
    pl_submit_result *results;  /* [n + 1] the homes' answers: modules, then the path */
    char (*texts)[256];         /* [n + 1] the texts of these answers */
    char (*names)[96];          /* [n] names of the modules */
    pl_buf *encoded;            /* [n_slots] the encoded update of each slot */
    /* Scratch memory for the values of the largest slot. `sent` gets the vectors of an
     * update as others decode them; before that, sent[0] has the old residual. Both are
     * NULL if the path's state has only moments. */
    float *update, *sent[PL_ROUND_VECTORS_MAX];
} parcel;

static pl_status encode_update(const worker_task *task, const pl_holder *s, int slot,
                               int64_t round, parcel *p, float *residual)
{
    const pl_contract *of = s->of;
    double norm = task->bases[slot].norm;
    pl_codec_round shared = pl_round_codec(of, s->path, round, norm);
    pl_buf *out = &p->encoded[slot];
    PL_CHECK(pl_codec_encode_update(&task->arm->arm.outer.codec, of->topology,
                                    of->module, &shared, p->update, residual, out));
    /* frees unused memory of the buffer, because the message is kept until it is
     * sent */
    out->data = pl_grow(out->data, out->len);
    out->cap = out->len;
    return PL_OK;
}

/* Makes and encodes the update of one slot. Also writes the path's own vectors for the
 * next phase to the job's state, and may replace the slot's version in task->base by
 * the next version. */
static pl_status pack_slot(sender *s, int slot, parcel *p)
{
    worker_task *task = s->task;
    const pl_holder place = worker_slot(task, slot, task->job.state);
    const pl_contract *of = place.of;
    const size_t at = pl_topology_slot(of->topology, slot)->offset;
    const float *start = task->start + at, *now = task->job.params + at;
    const int64_t round = pl_round_of(of, task->phase);
    pl_buf *encoded = &p->encoded[slot];
    if (round >= 0) {
        pl_holder_update(&place, start, now, p->update);
        /* simulates a machine with faulty memory */
        if (pl_failpoint("worker.update.wrong") != PL_OK)
            p->update[0] = 0.5f * p->update[0] + 0.02f;
        /* encoding replaces the old residual by the new one */
        float *residual =
            task->layout.residual < 0 || of->carries == 1
                ? NULL
                : task->job.state + (size_t)task->layout.residual * task->n_params + at;
        const bool carries = residual && of->carries > 0;
        if (carries)
            memcpy(p->sent[0], residual, of->n_params * sizeof *residual);
        PL_CHECK(encode_update(task, &place, slot, round, p, residual));
        if (carries)
            pl_holder_keep_left(&place, p->sent[0], residual);
        if (of->n_vectors > 1) { /* the second vector is encoded without a residual */
            pl_holder_update_start(&place, start, p->update);
            PL_CHECK(encode_update(task, &place, slot, round, p, NULL));
        }
        pl_submission *out = &p->submissions[p->n];
        pl_copy_text(p->names[p->n], sizeof p->names[p->n], of->name);
        out->contribution = (pl_contribution){.path = task->path,
                                              .replica = task->replica,
                                              .phase = round,
                                              .work = task->job.work};
        out->contribution.work.memory_bytes = pl_memory_peak_bytes((int)getpid());
        pl_copy_text(out->contribution.codec, sizeof out->contribution.codec,
                     task->arm->arm.outer.codec_name);
        out->module = p->names[p->n++];
        out->base_version = task->bases[slot].number;
        out->base = task->bases[slot].params;
        out->data = encoded->data;
        out->bytes = encoded->len;
    }
    if (place.last && round >= 0) /* with noloco the path keeps what others decode */
        PL_CHECK(pl_round_decode(of, encoded->data, encoded->len, p->sent));
    pl_holder_keep(&place, start, now, p->sent[0], p->sent[1]);
    if (!of->predicts)
        return PL_OK;
    /* computes the version that the home will make from this update */
    const pl_codec_message sent = {encoded->data, encoded->len};
    return pl_round_predict(of, round, &sent, task->base + at,
                            &task->predicted_norm[slot]);
}

static pl_status pack(sender *s, int n_slots, parcel *p)
{
    worker_task *task = s->task;
    const pl_topology *topology = task->arm->topology;
    size_t most = 0;
    for (int slot = 0; slot < n_slots; slot++) {
        size_t params = pl_topology_slot(topology, slot)->n_params;
        most = params > most ? params : most;
    }
    p->submissions = pl_alloc((size_t)n_slots * sizeof *p->submissions);
    p->results = pl_alloc((size_t)(n_slots + 1) * sizeof *p->results);
    p->texts = pl_alloc((size_t)(n_slots + 1) * sizeof *p->texts);
    p->names = pl_alloc((size_t)n_slots * sizeof *p->names);
    p->encoded = pl_alloc((size_t)n_slots * sizeof *p->encoded);
    most *= sizeof(float);
    PL_CHECK(pl_try_alloc(most, "an update", (void **)&p->update));
    if (task->layout.n_vectors > 2) /* else the path's state has only m and v */
        for (int v = 0; v < PL_ROUND_VECTORS_MAX; v++)
            PL_CHECK(pl_try_alloc(most, "an update", (void **)&p->sent[v]));
    task->predicted_norm = pl_alloc((size_t)n_slots * sizeof *task->predicted_norm);
    bool predicts = false;
    /* a task that scores documents has no updates */
    for (int slot = 0; !pl_arm_scores(&task->arm->arm) && slot < n_slots; slot++) {
        PL_CHECK(pack_slot(s, slot, p));
        predicts |= worker_contract(task, slot)->predicts;
    }
    /* simulates a worker that lies about the direction of its next steps */
    if (!pl_arm_scores(&task->arm->arm) && pl_failpoint("worker.state.wrong") != PL_OK)
        for (size_t i = 0; i < task->n_params; i++)
            task->job.state[i] = -task->job.state[i];
    state_round(&task->arm->arm, task->job.state, task->n_params);
    worker_drop_start(task);
    if (!predicts && task->layout.last < 0) { /* nothing needs task->base any more */
        pl_free(task->base);
        task->base = NULL;
    }
    pl_free(task->job.params);
    task->job.params = NULL;
    return PL_OK;
}

/* Runs while a call to the homes waits. */
static pl_status check_wait(void *context)
{
    sender *s = context;
    publish_link(s);
    if (pl_now_ms() - s->moved_ms > LEAVE_MS)
        return pl_fail(PL_ERR_CANCELLED,
                       "the worker leaves, and for %d s no home took a byte of its "
                       "results",
                       LEAVE_MS / 1000);
    return s->task ? worker_check_lease(s->task) : PL_OK;
}

/* Returns for how many seconds it is worth to wait for something that may never come.
 * Without it the phase is done again, which takes as long as it has taken. */
static double worth_s(const worker_task *task)
{
    return fmax(10, pl_now() - task->granted);
}

/* Whether a call to the homes that failed must be repeated; waits before it says so.
 * The results are kept while this worker has the lease, because an outage of a home or
 * of a relay passes. There are two limits. After ten times the phase, and at least the
 * patience and a minute (a relay may hold an update for half of it), it is perhaps this
 * machine that does not reach the homes: then a different worker gets the task. And a
 * worker that was told to stop does not repeat calls. After a restart of the hub a home
 * may refuse the seal of the previous hub (ERR_STALE). The new hub seals the lease
 * anew, but only when it knows all homes. */
static bool must_repeat(sender *s, pl_status status, const pl_sealed_lease *used)
{
    enum { SEAL_S = 120, PHASES = 10, LEAST_S = 60 };
    const worker_task *task = s->task;
    const double most_s = fmax(fmax(1e-3 * s->options->patience_ms, LEAST_S),
                               PHASES * (s->began - task->granted));
    const bool passes = worker_is_passing(status) &&
                        !worker_is_told_to_stop(s->options) &&
                        pl_now() - s->began < most_s;
    const double until = pl_now() + fmin(SEAL_S, worth_s(task));
    while (status == PL_ERR_STALE && used == worker_task_lease(task) &&
           !worker_task_lost(task) && !worker_is_told_to_stop(s->options) &&
           pl_now() < until)
        pl_sleep_ms(LOOK_MS);
    if (passes)
        pl_sleep_ms(LOOK_MS);
    s->moved_ms = pl_now_ms(); /* a home has answered, or was not asked meanwhile */
    return !worker_task_lost(task) &&
           (passes || (status == PL_ERR_STALE && used != worker_task_lease(task)));
}

/* Gets the hash of an update that a home has accepted. */
static pl_status find_update(sender *s, const char *module, int64_t round, int path,
                             int replica, pl_hash *out)
{
    const pl_sealed_lease *used;
    pl_status status;
    do {
        used = worker_task_lease(s->task);
        pl_client_act_under(s->homes, used);
        status = pl_client_get_update(s->homes, module, round, path, replica, out);
    } while (must_repeat(s, status, used));
    return status;
}

/* Waits until the update of a mate has reached its home, and compares it with the
 * update that the mate's worker gave to this worker. If the two differ, the task fails:
 * an audit of this task would use the home's update, so its result would differ, and
 * this worker would be blamed. */
static pl_status check_met(sender *s, struct task_met *met)
{
    worker_task *task = s->task;
    pl_hash there;
    pl_status status = PL_ERR_NOT_FOUND;
    /* time in which the home is away does not count: the mate could not send either */
    const double most_s = worth_s(task);
    for (int i = 0; 1e-3 * LOOK_MS * i < most_s && status == PL_ERR_NOT_FOUND; i++) {
        if (i > 0)
            pl_sleep_ms(LOOK_MS);
        PL_CHECK(worker_check_lease(task));
        status = find_update(s, met->module, task->phase - 1, met->path, met->replica,
                             &there);
    }
    if (status == PL_ERR_NOT_FOUND)
        return pl_fail(PL_ERR_BUSY,
                       "the home of %s has not received the update that the worker of "
                       "%s offered",
                       met->module, met->task);
    PL_CHECK(status);
    if (pl_hash_equal(&there, &met->hash))
        return PL_OK;
    task->deceived = true;
    pl_log(PL_LOG_WARN, "mate.lied", "module=%s mate=%s round=%lld", met->module,
           met->task, (long long)task->phase - 1);
    return pl_fail(PL_ERR_BUSY,
                   "the worker of %s gave an update of %s that differs from the one "
                   "at the home; the phase is done again with the home's update",
                   met->task, met->module);
}

/* Sends the results to the homes. If the hub restarts in the meantime, its new seal
 * replaces that of the previous hub; what the homes have got by then counts. */
static pl_status submit_results(sender *s, parcel *p, const pl_path_state *state)
{
    const worker_task *task = s->task;
    const bool uploads = pl_phase_uploads(&task->arm->arm, state->phase);
    const pl_sealed_lease *used;
    pl_status status;
    s->moved_ms = pl_now_ms(); /* it is no home that has taken the time until now */
    do {
        used = worker_task_lease(task);
        pl_client_act_under(s->homes, used);
        status = pl_client_submit_task(
            s->homes, p->submissions, p->n, state, uploads ? task->packed_state : NULL,
            uploads ? task->packed_bytes : 0, p->results, p->texts);
    } while (must_repeat(s, status, used));
    return status;
}

/* noloco: the worker that had this task before may have sent updates and then died. If
 * its device rounds differently, they differ from this worker's. The homes keep the
 * first ones, which mates get, so the path's state must have those as its offers. The
 * next task may be reading the state in memory: *state becomes a copy before it is
 * changed. */
static pl_status keep_first_updates(sender *s, const parcel *p, float **state)
{
    worker_task *task = s->task;
    const size_t all = (size_t)task->layout.n_vectors * task->n_params * sizeof(float);
    pl_status status = PL_OK;
    pl_buf first = {0};
    for (int slot = 0, next = 0; next < p->n; slot++) {
        const pl_holder own = worker_slot(task, slot, task->job.state);
        const int64_t round = pl_round_of(own.of, task->phase);
        pl_hash here, there;
        if (round < 0)
            continue;
        const pl_submission *made = &p->submissions[next++];
        if (!own.of->meets)
            continue;
        pl_blob_hash(made->data, made->bytes, &here);
        status = find_update(s, made->module, round, task->path, task->replica, &there);
        if (status == PL_ERR_NOT_FOUND) {
            status = PL_OK;
            continue;
        }
        PL_TRY(status);
        if (pl_hash_equal(&here, &there))
            continue;
        pl_buf_clear(&first);
        do
            status = pl_client_get_blob(s->homes, made->module, &there, &first);
        while (must_repeat(s, status, worker_task_lease(task)));
        PL_TRY(status);
        PL_TRY(pl_round_decode(own.of, first.data, first.len, p->sent));
        if (*state == task->job.state) {
            PL_TRY(pl_try_alloc_bare(all, "a path's state", (void **)state));
            memcpy(*state, task->job.state, all);
        }
        const pl_holder h = worker_slot(task, slot, *state);
        pl_holder_keep(&h, own.params, NULL, p->sent[0], p->sent[1]);
        pl_log(PL_LOG_INFO, "update.first", "task=%s phase=%lld module=%s", task->name,
               (long long)task->phase, made->module);
    }
done:
    pl_buf_destroy(&first);
    return status;
}

/* Packs the state and computes its hash. The state is packed unless the blob has the
 * same bytes as the memory. */
static pl_status pack_state(worker_task *task, float *state)
{
    const pl_arm *arm = &task->arm->arm;
    const size_t all = (size_t)task->layout.n_vectors * task->n_params;
    pl_status status = PL_OK;
    task->packed_bytes = pl_path_state_bytes(arm, task->n_params);
    if (task->packed_bytes != 0 &&
        (pl_arm_scores(arm) || task->packed_bytes == all * sizeof *state)) {
        task->packed_state = state;
        state = NULL;
    } else if (task->packed_bytes != 0) {
        PL_TRY(pl_try_alloc_bare((size_t)task->packed_bytes, "a path's state",
                                 &task->packed_state));
        state_pack(arm, state, task->n_params, task->packed_state);
    }
    if (task->packed_bytes != 0)
        pl_blob_hash(task->packed_state, task->packed_bytes, &task->state_hash);
done:
    if (state != task->job.state)
        pl_free(state);
    return status;
}

static pl_status send_results(sender *s)
{
    worker_task *task = s->task;
    int n_slots = pl_topology_n_slots(task->arm->topology);
    pl_status status = PL_OK;
    pl_path_state state;
    parcel p = {0};
    PL_TRY(pack(s, n_slots, &p));
    /* noloco: offers the updates to other workers before they are sent to the homes */
    const int n_offers = s->offers && task->layout.last >= 0 ? p.n : 0;
    for (int i = 0; i < n_offers; i++) {
        const pl_submission *from = &p.submissions[i], *data = from;
        if (pl_failpoint("worker.offer.wrong") != PL_OK && i + 1 < p.n)
            data = &p.submissions[i + 1]; /* simulates a worker that lies */
        peer_offer *o = pl_alloc(sizeof *o);
        pl_copy_text(o->module, sizeof o->module, from->module);
        o->round = from->contribution.phase;
        o->path = (int)from->contribution.path;
        o->replica = (int)from->contribution.replica;
        o->bytes = data->bytes;
        o->data = pl_alloc((size_t)data->bytes);
        memcpy(o->data, data->data, (size_t)data->bytes);
        if (pl_failpoint("worker.offer.damaged") != PL_OK)
            o->data[o->bytes / 2] ^= 1;
        pl_blob_hash(o->data, o->bytes, &o->hash);
        peer_put(s->offers, o);
    }
    pl_queue_push(s->packed, task);
    s->moved_ms = pl_now_ms();
    float *result = task->job.state;
    if (task->layout.last >= 0)
        status = keep_first_updates(s, &p, &result);
    if (status == PL_OK)
        status = pack_state(task, result);
    else if (result != task->job.state)
        pl_free(result); /* NULL if there was no memory for the copy */
    PL_TRY(status);
    memset(&state, 0, sizeof state);
    pl_copy_text(state.name, sizeof state.name, task->name);
    state.phase = task->phase + 1;
    state.work = task->work_before;
    pl_work_add(&state.work, &task->job.work);
    state.moments = task->state_hash;
    if (task->again) {
        /* An audit sends nothing to the homes. The hub gets the hashes of the results,
         * and compares them with the hashes of other workers' results. */
        task->n_made = (size_t)p.n + 1;
        task->made = pl_alloc(task->n_made * sizeof *task->made);
        for (int i = 0; i < p.n; i++)
            pl_blob_hash(p.submissions[i].data, p.submissions[i].bytes, &task->made[i]);
        task->made[p.n] = task->state_hash;
        if (task->remakes && pl_hash_equal(&task->state_hash, &task->wanted))
            worker_save_state(s->options->cache, task);
        goto done;
    }
    s->moved_ms = pl_now_ms();
    for (size_t i = 0; i < task->n_met; i++)
        PL_TRY(check_met(s, &task->met[i]));
    PL_TRY(pl_failpoint("worker.submit.before"));
    worker_save_state(s->options->cache, task);
    PL_TRY(submit_results(s, &p, &state));
    PL_TRY(pl_failpoint("worker.submit.after"));
    for (int i = 0; i < p.n; i++) {
        PL_TRY(judge_result(p.names[i], p.results[i], p.texts[i]));
        task->overruled = task->overruled || p.results[i] == PL_SUBMIT_OTHER;
    }
    PL_TRY(judge_result(task->name, p.results[p.n], p.texts[p.n]));
    task->overruled = task->overruled || p.results[p.n] == PL_SUBMIT_OTHER;
    worker_drop_states(s->options->cache, task);
done:
    for (int slot = 0; p.encoded && slot < n_slots; slot++)
        pl_buf_destroy(&p.encoded[slot]);
    pl_free_all(p.encoded, p.submissions, p.results, p.texts, p.names);
    pl_free_all(p.update, p.sent[0], p.sent[1]);
    return status;
}

static void send_one_task(void *self, void *job)
{
    sender *s = self;
    worker_task *task = s->task = job;
    s->began = pl_now();
    task->status =
        s->failed != 0 && task->token == s->failed
            ? pl_fail(PL_ERR_STALE,
                      "the results of the previous phase of %s do not count, so those "
                      "of this phase cannot be sent either",
                      task->name)
            : worker_check_lease(task);
    if (task->status == PL_OK)
        task->status = send_results(s);
    publish_link(s);
    s->failed = task->status != PL_OK || task->overruled ? task->token : 0;
    if (task->status != PL_OK)
        pl_copy_text(task->error, sizeof task->error, pl_last_error());
}

pl_status sender_create(const worker *w, sender **out)
{
    pl_status status = PL_OK;
    const char *list[PL_HOMES_MAX];
    sender *s = pl_alloc(sizeof *s);
    s->offers = w->offers;
    s->options = w->options;
    for (int i = 0; i < w->n_homes; i++)
        list[i] = w->homes_at[i];
    pl_client_options options = {.homes = list,
                                 .n_homes = w->n_homes,
                                 .patience_ms = w->options->patience_ms,
                                 .direct = w->options->direct,
                                 .idle = check_wait,
                                 .idle_context = s};
    PL_TRY(pl_client_create(&options, &s->homes));
    PL_TRY(pl_queue_create(&s->packed));
    PL_TRY(pl_actor_start("sender", send_one_task, s, &s->actor));
    *out = s;
    s = NULL;
done:
    sender_destroy(s);
    return status;
}

void sender_destroy(sender *s)
{
    if (!s)
        return;
    pl_actor_destroy(&s->actor);
    pl_client_destroy(&s->homes);
    pl_queue_destroy(&s->packed);
    pl_free(s);
}

void sender_push(sender *s, worker_task *task)
{
    pl_actor_push(s->actor, task);
}

worker_task *sender_take(sender *s)
{
    return pl_actor_take(s->actor);
}

int sender_fd(const sender *s)
{
    return pl_actor_fd(s->actor);
}

worker_task *sender_take_packed(sender *s)
{
    return pl_queue_pop(s->packed, 0);
}

int sender_packed_fd(const sender *s)
{
    return pl_queue_fd(s->packed);
}
