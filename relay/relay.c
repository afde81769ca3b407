/* The relay's loop. It decides which messages the relay forwards and which it holds,
 * and sends the answers to the peers that asked. */
#include "codec/codec.h"
#include "relay/relay_internal.h"

enum {
    TURN_MAX = 128,
    TICK_MS = 500,
    FORGET_MS = 60000,
    PAUSE_MS = 1500, /* an asker is told at most this often that its update waits */
    WAITING_MAX = 4, /* SUBMIT_PATHs of one connection that wait; a worker sends one */
    OPEN_MAX = 1000  /* open questions of a key that is not the job's own */
};

typedef struct relay {
    const pl_relay_options *options;
    pl_socket *front, *back;
    staging uploads;
    relay_question *questions; /* open questions, the oldest first */
    size_t n_questions;
    uint64_t n_connects;    /* of the connection to the home */
    pl_absence away;        /* the home */
    uint64_t arrived_bytes; /* on that connection, and when the last ones came */
    int64_t heard_ms;
    relay_group *groups; /* that are not complete, the oldest first */
    relay_adder *adder;
    pl_relay_report *report;
} relay;

/* ---- the list of open questions ---- */
static bool same_peer(const pl_peer *a, const pl_peer *b)
{
    return a->len == b->len && memcmp(a->id, b->id, a->len) == 0;
}

static relay_question *find_question(relay *r, uint64_t id)
{
    for (size_t i = 0; i < r->n_questions; i++)
        if (r->questions[i].id == id)
            return &r->questions[i];
    return NULL;
}

/* The returned pointer is valid until the next call. */
static relay_question *new_question(relay *r, relay_state state, const pl_peer *peer,
                                    uint64_t request)
{
    r->questions = pl_grow_items(r->questions, r->n_questions, r->n_questions + 1,
                                 sizeof *r->questions);
    relay_question *q = &r->questions[r->n_questions++];
    *q = (relay_question){.id = pl_wire_next_request(),
                          .state = state,
                          .peer = *peer,
                          .request = request,
                          .moved = atomic_load(&r->adder->moved),
                          .asked_ms = pl_now_ms()};
    return q;
}

static void drop_question(relay *r, relay_question *q)
{
    size_t at = (size_t)(q - r->questions);
    pl_message_destroy(&q->kept);
    memmove(q, q + 1, (r->n_questions - at - 1) * sizeof *q);
    r->n_questions--;
}

/* ---- sending messages ---- */
/* Sends an answer. If it cannot be sent, drops it; the peer repeats its question. */
static pl_status answer_asker(relay *r, const pl_peer *peer, pl_message *m)
{
    pl_status status = pl_wire_give_to(r->front, peer, m);
    return status == PL_ERR_NET ? PL_OK : status;
}

static pl_status forward_question(relay *r, uint64_t id, pl_message *m)
{
    m->request = id;
    pl_status status = pl_wire_send(r->back, m);
    return status == PL_ERR_NET ? PL_OK : status;
}

static pl_status pass_question(relay *r, const pl_peer *peer, pl_message *m)
{
    return forward_question(r, new_question(r, RELAY_PASSED, peer, m->request)->id, m);
}

static pl_status answer_error(relay *r, const pl_peer *peer, uint64_t request,
                              pl_status why, const char *text)
{
    pl_message a = {0};
    pl_wire_error(&a, request, why, text);
    pl_status status = answer_asker(r, peer, &a);
    pl_message_destroy(&a);
    return status;
}

/* Answers a held or waiting question that is asked again. The asker must see that its
 * update is on its way, or it would give up. While nothing moves it gets no answer. */
static pl_status answer_held(relay *r, relay_question *q)
{
    const uint64_t moved = atomic_load(&r->adder->moved);
    const bool is_soon = pl_now_ms() - q->asked_ms < PAUSE_MS;
    q->asked_ms = pl_now_ms();
    if (is_soon || (moved == q->moved && !r->groups))
        return PL_OK;
    q->moved = moved;
    return answer_error(r, &q->peer, q->request, PL_ERR_BUSY,
                        "the update waits for others in a relay, or the relay sends "
                        "it; the answer follows");
}

/* Lets the next calls use the uploads of this peer, so that no key can fill the memory,
 * or damage the uploads of another. Those of the job's own workers belong to leases,
 * which nobody checks here. */
static void own_uploads(relay *r, const pl_peer *peer, pl_bytes lease)
{
    staging *s = &r->uploads;
    s->owner = (staging_owner){.token = pl_lease_token(lease)};
    if (peer->own)
        return;
    s->owner.holder = peer->key;
    s->owner.share = s->limit / 8;
    memcpy(&s->owner.token, peer->key.bytes, sizeof s->owner.token);
}

/* The largest update that the relay adds to others: its values fit into the memory that
 * all updates may take. */
static uint64_t values_max(const relay *r)
{
    return r->uploads.limit / sizeof(float);
}

/* Keeps the pieces of an update that can be added to others, and forwards all other
 * pieces. The first bytes, which a question for room has, show whether the blob is a
 * homomorphic update. An update is not kept if it claims more values than fit into the
 * relay's memory limit, or if the peer's key has used up its part of it, to which
 * kept_bytes of its open questions count. */
static pl_status on_put_blob(relay *r, const pl_peer *peer, uint64_t kept_bytes,
                             pl_message *m)
{
    pl_msg_put_blob p;
    staging_blob *b = NULL;
    uint64_t n = 0;
    const bool good = staging_read(m, &p) == PL_OK, has_bytes = m->data.len > 0;
    own_uploads(r, peer, good ? p.lease : (pl_bytes){0});
    const pl_bytes head = has_bytes ? (pl_bytes){m->data.data, m->data.len} : p.head;
    const bool is_kept =
        good &&
        (staging_has(&r->uploads, &p.blob) ||
         (p.offset == 0 && p.total <= r->uploads.limit &&
          !staging_holder_is_full(&r->uploads, p.total + kept_bytes) &&
          pl_codec_claims_homomorphic(head.at, head.len, &n) && n <= values_max(r)));
    /* what the relay cannot keep now, the home may take */
    pl_status status = PL_ERR_PROTO;
    if (is_kept)
        status = has_bytes ? staging_put(&r->uploads, &p, &m->data, &b)
                           : staging_open(&r->uploads, &p, &b);
    if ((status == PL_ERR_PROTO || status == PL_ERR_NOMEM || status == PL_ERR_BUSY) &&
        !(is_kept && staging_has(&r->uploads, &p.blob))) {
        if (good && has_bytes) /* the state of a task whose updates wait here */
            staging_touch(&r->uploads, NULL);
        relay_question *q = new_question(r, RELAY_PASSED, peer, m->request);
        q->asks_room = good && !has_bytes;
        return forward_question(r, q->id, m);
    }
    if (status != PL_OK)
        return answer_error(r, peer, m->request, status, pl_last_error());
    pl_message a = {.request = m->request};
    PL_SAY(&a, PUT_STATE, put_state, .offset = b->there);
    status = answer_asker(r, peer, &a);
    pl_message_destroy(&a);
    return status;
}

/* If the relay lacks the bytes of the update, it forwards the SUBMIT to the home. If
 * the home also lacks them, its answer says so, and the worker uploads the update to
 * the relay. */
static pl_status on_submit(relay *r, const pl_peer *peer, pl_message *m)
{
    pl_hash content, hash;
    pl_hasher hasher;
    pl_hasher_init(&hasher, "submit");
    pl_hasher_add(&hasher, &m->token, sizeof m->token);
    pl_hasher_add(&hasher, m->body.data, m->body.len);
    pl_hasher_end(&hasher, &content);
    for (size_t i = 0; i < r->n_questions; i++) {
        relay_question *again = &r->questions[i];
        if (again->state == RELAY_HELD && pl_hash_equal(&again->content, &content)) {
            again->peer = *peer;
            again->request = m->request;
            return answer_held(r, again);
        }
    }
    relay_part *part = pl_alloc(sizeof *part);
    bool whole = false;
    if (pl_submission_read(m, &part->submit) == PL_OK) {
        const pl_submission_proof *proof = part->submit.proofs;
        own_uploads(r, peer, (pl_bytes){proof->lease, proof->len});
        part->blob = staging_take(&r->uploads, &part->submit.update);
    }
    /* The relay uploads a single update under the update's lease. */
    const bool has_lease = part->submit.n == 1 && part->submit.proofs->len > 0;
    const bool may_hold = has_lease || peer->own || peer->role != PL_AS_WORKER;
    if (part->blob && may_hold) {
        pl_blob_hash(part->blob->data, part->blob->bytes, &hash);
        whole = pl_hash_equal(&hash, &part->blob->hash);
    }
    if (whole) {
        part->receipts = pl_alloc((size_t)part->submit.n * sizeof *part->receipts);
        relay_question *q = new_question(r, RELAY_HELD, peer, m->request);
        q->content = content;
        q->bytes = part->blob->bytes + m->body.len;
        part->question = q->id;
        relay_groups_add(&r->groups, part, values_max(r));
        return PL_OK;
    }
    const bool damaged = part->blob != NULL && may_hold;
    staging_free(&r->uploads, part->blob);
    pl_submission_clear(&part->submit);
    pl_free(part);
    if (damaged)
        return answer_error(
            r, peer, m->request, PL_ERR_DAMAGED,
            "the bytes of an uploaded update do not match the hash that "
            "the sender gave; send the update again");
    return pass_question(r, peer, m);
}

static bool has_held(const relay *r, const pl_peer *peer)
{
    for (size_t i = 0; i < r->n_questions; i++)
        if (r->questions[i].state == RELAY_HELD &&
            same_peer(&r->questions[i].peer, peer))
            return true;
    return false;
}

static pl_status on_question(relay *r, const pl_peer *peer, pl_message *m)
{
    for (size_t i = 0; i < r->n_questions; i++) {
        relay_question *again = &r->questions[i];
        if (again->request != m->request || !same_peer(&again->peer, peer))
            continue;
        if (again->state != RELAY_PASSED)
            return answer_held(r, again);
        again->asked_ms = pl_now_ms();
        return forward_question(r, again->id, m);
    }
    /* What the open questions of the key take up; n_waiting: SUBMIT_PATHs that wait, of
     * this connection. Every message searches the list. */
    int n_open = 0, n_waiting = 0;
    uint64_t kept_bytes = 0;
    for (size_t i = 0; i < r->n_questions; i++) {
        const relay_question *open = &r->questions[i];
        if (!pl_pubkey_equal(&open->peer.key, &peer->key))
            continue;
        n_open++;
        n_waiting += open->state == RELAY_WAITING && same_peer(&open->peer, peer);
        kept_bytes += open->bytes;
    }
    /* A client asks again after a silence; after an error it would ask again at once,
     * also for what is open here. */
    if (!peer->own && n_open >= OPEN_MAX)
        return PL_OK;
    if (m->type == PL_MSG_PUT_BLOB)
        return on_put_blob(r, peer, kept_bytes, m);
    if (m->type == PL_MSG_SUBMIT)
        return on_submit(r, peer, m);
    if (m->type != PL_MSG_SUBMIT_PATH || !has_held(r, peer))
        return pass_question(r, peer, m);
    /* the end of a task: a path's state is forwarded after its updates */
    own_uploads(r, peer, (pl_bytes){0});
    if (n_waiting >= WAITING_MAX ||
        staging_holder_is_full(&r->uploads, kept_bytes + m->body.cap))
        return answer_error(r, peer, m->request, PL_ERR_BUSY,
                            "the relay keeps no more messages of this sender until its "
                            "updates are at the home; ask again later");
    pl_buf_destroy(&m->data); /* perhaps large, from an earlier message */
    relay_question *q = new_question(r, RELAY_WAITING, peer, m->request);
    q->bytes = m->body.cap;
    q->kept = *m;
    pl_message_init(m, 0); /* the kept question now owns the message's buffers */
    return PL_OK;
}

static pl_status answer_group(relay *r, const relay_group *g)
{
    for (int i = 0; i < g->n_parts; i++) {
        const relay_part *part = g->parts[i];
        relay_question *q = find_question(r, part->question);
        pl_message a = {.request = q->request};
        if (part->status != PL_OK)
            pl_wire_error(&a, q->request, part->status, part->text);
        else
            PL_SAY(&a, SUBMITTED, submitted, .text = part->text[0] ? part->text : NULL,
                   .result = part->result,
                   .receipt = PL_ITEMS(part->receipts, part->submit.n));
        pl_status status = answer_asker(r, &q->peer, &a);
        pl_message_destroy(&a);
        PL_CHECK(status);
        drop_question(r, q);
    }
    r->report->n_sums += g->n_summed > 0;
    r->report->n_summed += g->n_summed;
    r->report->n_alone += g->n_parts - g->n_summed;
    pl_log(PL_LOG_DEBUG, "group.sent", "module=%s round=%lld parts=%d summed=%d",
           g->parts[0]->submit.module, (long long)g->parts[0]->submit.round, g->n_parts,
           g->n_summed);
    return PL_OK;
}

/* Lets the peers ask again whose questions were forwarded long before `now_ms`: these
 * questions or their answers were lost, or the home does not answer. While bytes arrive
 * from the home, an answer may be behind others on a slow link. */
static pl_status return_questions(relay *r, int64_t now_ms)
{
    const bool hears = now_ms - r->heard_ms <= FORGET_MS;
    for (size_t i = r->n_questions; i-- > 0;) {
        relay_question *q = &r->questions[i];
        const int64_t most_ms = hears && !q->asks_room ? 10 * FORGET_MS : FORGET_MS;
        if (q->state != RELAY_PASSED || now_ms - q->asked_ms <= most_ms)
            continue;
        PL_CHECK(answer_error(r, &q->peer, q->request, PL_ERR_NET,
                              "the relay lost this question on the way to the home; "
                              "send it again"));
        drop_question(r, q);
    }
    return PL_OK;
}

static pl_status serve_relay(relay *r)
{
    pl_status status = PL_OK;
    pl_message m = {0};
    pl_peer peer;
    relay_group *g;
    pl_socket *sockets[] = {r->front, r->back};
    int fd = pl_actor_fd(r->adder->actor);
    int64_t swept = pl_now_ms();
    /* a signal handler on any thread may set *stop */
    const volatile sig_atomic_t *stop = r->options->stop;
    while (!(stop && __atomic_load_n(stop, __ATOMIC_RELAXED))) {
        bool ready[3];
        /* the oldest group waits for at most wait_ms */
        int64_t left_ms = TICK_MS;
        if (r->groups)
            left_ms = r->groups->since_ms + r->options->wait_ms - pl_now_ms();
        if (left_ms > TICK_MS)
            left_ms = TICK_MS;
        pl_wire_poll(sockets, 2, &fd, 1, left_ms < 0 ? 0 : (int)left_ms, ready);
        for (int i = 0; i < TURN_MAX; i++) {
            status = pl_wire_recv(r->front, &peer, &m);
            if (status == PL_ERR_TIMEOUT)
                break;
            PL_TRY(status == PL_OK ? on_question(r, &peer, &m) : status);
        }
        for (int i = 0; i < TURN_MAX; i++) {
            status = pl_wire_recv(r->back, NULL, &m);
            if (status == PL_ERR_TIMEOUT)
                break;
            PL_TRY(status);
            relay_question *q = find_question(r, m.request);
            if (!q || q->state != RELAY_PASSED)
                continue;
            m.request = q->request;
            PL_TRY(answer_asker(r, &q->peer, &m));
            if (!q->asks_room || m.type != PL_MSG_ERR ||
                pl_wire_error_of(&m) != PL_ERR_BUSY)
                drop_question(r, q);
        }
        /* if the home was connected again, questions on their way were lost */
        pl_wire_line line;
        pl_absence_note(&r->away, "home", r->options->home, "",
                        pl_wire_lost_ms(r->back), 0);
        pl_wire_line_now(r->back, &line);
        const bool anew = line.n_connects > 1 && line.n_connects != r->n_connects;
        r->n_connects = line.n_connects;
        if (line.arrived_bytes != r->arrived_bytes)
            r->heard_ms = pl_now_ms();
        r->arrived_bytes = line.arrived_bytes;
        if (anew)
            PL_TRY(return_questions(r, INT64_MAX));
        while ((g = pl_actor_take(r->adder->actor))) {
            status = answer_group(r, g);
            relay_group_destroy(&g, &r->uploads);
            PL_TRY(status);
        }
        /* forwards the SUBMIT_PATHs whose worker has no more updates here */
        for (size_t i = 0; i < r->n_questions; i++) {
            relay_question *q = &r->questions[i];
            if (q->state != RELAY_WAITING || has_held(r, &q->peer))
                continue;
            q->state = RELAY_PASSED;
            q->bytes = 0;
            q->asked_ms = pl_now_ms();
            PL_TRY(forward_question(r, q->id, &q->kept));
            pl_message_destroy(&q->kept);
        }
        /* A worker whose SUBMIT_PATH waits in the relay sends no further update until
         * it gets an answer. If all expected workers wait so, no group need wait. */
        int n_waiting = 0;
        for (size_t i = 0; i < r->n_questions; i++)
            n_waiting += r->questions[i].state == RELAY_WAITING;
        const bool all = r->options->expect > 0 && n_waiting >= r->options->expect;
        while ((g = relay_groups_take(&r->groups, r->options, all)))
            pl_actor_push(r->adder->actor, g);
        if (pl_now_ms() - swept > 10000) {
            staging_expire(&r->uploads, false);
            PL_TRY(return_questions(r, pl_now_ms()));
            swept = pl_now_ms();
        }
    }
    status = PL_OK;
done:
    pl_message_destroy(&m);
    return status;
}

pl_status pl_relay_run(const pl_relay_options *options, pl_relay_report *report)
{
    char bound[PL_ADDRESS_MAX];
    relay_group *g;
    pl_status status = PL_OK;
    relay r = {.options = options,
               .uploads = {.keeper = "the relay",
                           .key = "--staging-bytes",
                           .limit = options->staging_bytes},
               .report = report};
    memset(report, 0, sizeof *report);
    PL_TRY(pl_wire_connect(options->home, &r.back));
    PL_TRY(relay_adder_create(options, &r.adder));
    PL_TRY(pl_wire_bind(options->bind, &r.front, bound));
    if (options->ready_file && options->ready_file[0])
        PL_TRY(pl_write_output(options->ready_file, bound, strlen(bound)));
    pl_log(PL_LOG_INFO, "relay.ready", "address=%s home=%s expect=%d wait_ms=%d", bound,
           options->home, options->expect, options->wait_ms);
    PL_TRY(serve_relay(&r));
done:
    if (r.adder) {
        relay_adder_stop(r.adder);
        while ((g = pl_actor_take(r.adder->actor)))
            relay_group_destroy(&g, &r.uploads);
        report->bytes_sent += pl_client_bytes_sent(r.adder->home);
    }
    while ((g = relay_groups_take(&r.groups, options, true)))
        relay_group_destroy(&g, &r.uploads);
    while (r.n_questions > 0)
        drop_question(&r, &r.questions[r.n_questions - 1]);
    pl_free(r.questions);
    staging_expire(&r.uploads, true);
    relay_adder_destroy(&r.adder);
    if (r.front)
        report->bytes_received = pl_wire_counted(r.front)->bytes_received;
    if (r.back)
        report->bytes_sent += pl_wire_counted(r.back)->bytes_sent;
    pl_wire_close(&r.front);
    pl_wire_close(&r.back);
    return status;
}
