/* Sends questions to homes, and repeats them until they are answered (client.h). */
#include "net/client_internal.h"

enum { UPLOADS_MAX = 8 };

pl_status pl_client_create(const pl_client_options *options, pl_client **out)
{
    pl_status status = PL_OK;
    *out = NULL;
    if (options->n_homes < 1 || options->n_homes > PL_HOMES_MAX)
        return pl_fail(PL_ERR_ARG, "a client needs 1 to %d homes, not %d", PL_HOMES_MAX,
                       options->n_homes);
    pl_client *c = pl_alloc(sizeof *c);
    c->patience_ms = options->patience_ms;
    c->blob_max = options->blob_max;
    c->direct = options->direct;
    pl_message_init(&c->answer, 0);
    c->idle = options->idle;
    c->idle_context = options->idle_context;
    for (; c->n_homes < options->n_homes; c->n_homes++)
        PL_TRY(pl_wire_connect_as(options->homes[c->n_homes], options->keys,
                                  &c->sockets[c->n_homes]));
    *out = c;
    c = NULL;
done:
    pl_client_destroy(&c);
    return status;
}

void pl_client_destroy(pl_client **client)
{
    pl_client *c = *client;
    if (!c)
        return;
    for (int i = 0; i < c->n_homes; i++)
        pl_wire_close(&c->sockets[i]);
    pl_message_destroy(&c->answer);
    pl_web_close(&c->web);
    pl_free(c);
    *client = NULL;
}

uint64_t pl_client_bytes_sent(const pl_client *client)
{
    uint64_t sum = 0;
    for (int i = 0; i < client->n_homes; i++)
        sum += pl_wire_counted(client->sockets[i])->bytes_sent;
    return sum;
}

void pl_client_set_patience(pl_client *client, int patience_ms)
{
    client->patience_ms = patience_ms;
}

int64_t pl_client_lost_ms(const pl_client *client, int home)
{
    return pl_wire_lost_ms(client->sockets[home]);
}

pl_status client_idle(pl_client *c)
{
    c->idle_ms = pl_now_ms();
    return c->idle ? c->idle(c->idle_context) : PL_OK;
}

pl_status client_wait_slice(pl_client *c, pl_socket *socket, pl_message *answer)
{
    bool ready = false;
    pl_status status = PL_ERR_TIMEOUT;
    /* other work goes on even if messages come all the time */
    if (pl_now_ms() - c->idle_ms < SLICE_MS)
        status = pl_wire_recv_lent(socket, NULL, answer);
    if (status != PL_ERR_TIMEOUT)
        return status;
    pl_wire_poll(&socket, 1, NULL, 0, SLICE_MS, &ready);
    PL_CHECK(client_idle(c));
    return pl_wire_recv_lent(socket, NULL, answer);
}

pl_status client_as_status(pl_message *answer)
{
    return answer->type == PL_MSG_ERR ? pl_wire_error_of(answer) : PL_OK;
}

client_retry client_retry_begin(pl_socket *socket)
{
    client_retry r = {.again_ms = 0};
    client_retry_answered(&r);
    pl_wire_line_now(socket, &r.line);
    return r;
}

void client_retry_answered(client_retry *r)
{
    r->answered_ms = r->heard_ms = pl_now_ms();
    r->is_repeated = false;
    r->silence_ms = SILENCE_MS;
}

bool client_retry_due(client_retry *r, pl_socket *socket)
{
    pl_wire_line line;
    int64_t now = pl_now_ms();
    pl_wire_line_now(socket, &line);
    /* questions that were asked before the first connection wait for it */
    bool anew = line.n_connects > 1 && line.n_connects != r->line.n_connects;
    r->is_repeated = r->is_repeated && !anew;
    if (line.arrived_bytes > r->line.arrived_bytes ||
        (!r->is_repeated && line.confirmed_bytes > r->line.confirmed_bytes))
        r->heard_ms = now;
    if (anew || line.arrived_bytes > r->line.arrived_bytes)
        r->silence_ms = SILENCE_MS;
    int64_t since = r->sent_ms > r->heard_ms ? r->sent_ms : r->heard_ms;
    r->line = line;
    /* without a connection a repetition would only wait beside the first message */
    bool silent = line.is_connected && now - since > r->silence_ms;
    if (now < r->again_ms && !anew && !silent)
        return false;
    r->is_silent = now < r->again_ms && !anew;
    r->is_repeated = r->is_repeated || silent;
    r->sent_ms = now;
    r->again_ms = INT64_MAX;
    return true;
}

void client_retry_later(client_retry *r, int ms)
{
    r->again_ms = pl_now_ms() + ms;
}

pl_status client_retry_patience(const client_retry *r, const pl_client *c)
{
    /* An untrusted mate could send a byte now and then: only its answers count. */
    const int64_t heard_ms = c->blob_max > 0 ? r->answered_ms : r->heard_ms;
    if (pl_now_ms() - heard_ms <= c->patience_ms)
        return PL_OK;
    return pl_fail(PL_ERR_TIMEOUT,
                   "the home did not answer within %d s; see the home's log, or the "
                   "network between",
                   c->patience_ms / 1000);
}

static pl_status ask_home(pl_client *c, int home, pl_message *question,
                          pl_message *answer)
{
    client_asked one = {
        .name = "", .home = home, .question = *question, .answer = *answer};
    one.question.request = pl_wire_next_request();
    const pl_status status = client_ask_all(c, &one, 1);
    *question = one.question;
    *answer = one.answer;
    return status == PL_OK ? client_as_status(answer) : status;
}

/* Asks a home. The body of the answer is read into `to`, unless `fields` is NULL. Frees
 * the question and the answer, so texts and bytes in `to` must not be used. */
static pl_status query(pl_client *c, int home, pl_message *question,
                       const pl_field *fields, void *to)
{
    pl_message *answer = &c->answer;
    pl_message_destroy(answer);
    pl_message_init(answer, 0);
    pl_status status = ask_home(c, home, question, answer);
    if (status == PL_OK && fields)
        status = pl_message_get(answer, "a home's answer", fields, to);
    pl_message_destroy(question);
    return status;
}

static pl_status query_owner(pl_client *c, const char *name, pl_message *question,
                             const pl_field *fields, void *to)
{
    return query(c, pl_home_of(name, c->n_homes), question, fields, to);
}

pl_bytes client_present_lease(const pl_client *c)
{
    return (pl_bytes){c->lease.len > 0 ? c->lease.bytes : NULL, c->lease.len};
}

/* Uploads a blob, then asks the question that needs the blob. If the home restarted in
 * between, it has lost the upload; if the bytes there do not have the blob's hash, it
 * has dropped them. Then both are repeated. */
static pl_status put_and_ask(pl_client *c, int home, const client_blob *blob,
                             pl_message *q, pl_message *a)
{
    pl_status status;
    int i = 0;
    do {
        PL_CHECK(client_put_known_blob(c, home, blob));
        status = ask_home(c, home, q, a);
    } while ((status == PL_ERR_NOT_FOUND || status == PL_ERR_DAMAGED) &&
             ++i < UPLOADS_MAX);
    return status;
}

static pl_status put_object_at(pl_client *c, int home, const char *name,
                               const void *data, uint64_t bytes, pl_hash *blob)
{
    pl_message q = {0}, a = {0};
    pl_blob_hash(data, bytes, blob);
    PL_SAY(&q, PUT_OBJECT, put_object, .name = name, .blob = *blob);
    client_blob content = {data, bytes, *blob};
    pl_status status = put_and_ask(c, home, &content, &q, &a);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

/* Stores an object. Definitions of arms are sent to every home, any other object only
 * to the home that owns its name. With several homes, a tag is checked after it is
 * stored. */
pl_status pl_client_put_object(pl_client *c, const char *name, const void *data,
                               uint64_t bytes, pl_hash *blob)
{
    const bool is_arm = pl_starts_with(name, "arm/");
    const int owner = pl_home_of(name, c->n_homes);
    for (int home = 0; home < c->n_homes; home++)
        if (is_arm || home == owner)
            PL_CHECK(put_object_at(c, home, name, data, bytes, blob));
    if (c->n_homes == 1 || bytes == 0 || !pl_starts_with(name, "tag/"))
        return PL_OK;
    /* Removes a tag and fails if a version that it names has lost its data. The home of
     * the tag checks only its own versions. A home reads the tags of all homes before
     * it frees data, so what the stored tag names now stays. */
    pl_snapshot tag;
    pl_version_facts v;
    pl_hash none;
    PL_CHECK(pl_snapshot_decode(name + strlen("tag/"), data, (size_t)bytes, &tag));
    pl_status status = PL_OK;
    for (size_t i = 0; status == PL_OK && i < tag.n_items; i++) {
        const pl_snapshot_item *item = &tag.items[i];
        status = pl_client_get_version(c, item->module, (int64_t)item->number, &v);
        if (status == PL_OK && pl_hash_none(&v.params))
            status = pl_snapshot_collected(&tag, item);
    }
    pl_snapshot_clear(&tag);
    if (status != PL_OK)
        PL_CHECK(put_object_at(c, owner, name, "", 0, &none));
    return status;
}

pl_status pl_client_get_object(pl_client *c, const char *name, pl_hash *blob)
{
    pl_message q = {0};
    pl_msg_object_is a;
    PL_SAY(&q, GET_OBJECT, get_object, .name = name);
    PL_CHECK(query_owner(c, name, &q, pl_fields_of_object_is(), &a));
    *blob = a.blob;
    return PL_OK;
}

pl_status pl_client_get_versions(pl_client *c, pl_wanted_version *wants, int n)
{
    client_asked *all = pl_alloc(((size_t)n + 1) * sizeof *all);
    for (int i = 0; i < n; i++)
        PL_SAY(client_ask(c, &all[i], 0, wants[i].module), GET_VERSION, get_version,
               .name = wants[i].module, .version = wants[i].number,
               .lease = client_present_lease(c));
    pl_status status = client_ask_all(c, all, n);
    for (int i = 0; status == PL_OK && i < n; i++) {
        pl_msg_version_is a;
        wants[i].status = client_as_status(&all[i].answer);
        if (wants[i].status == PL_OK)
            wants[i].status = PL_HEAR(&all[i].answer, version_is, &a);
        if (wants[i].status == PL_OK)
            *wants[i].out = (pl_version_facts){.number = (uint64_t)a.version,
                                               .params = a.blob,
                                               .norm = a.norm,
                                               .change = a.change,
                                               .parent = a.base};
        if (wants[i].status != PL_ERR_NOT_FOUND)
            status = wants[i].status;
    }
    client_asked_destroy(all, n);
    return status;
}

pl_status pl_client_get_version(pl_client *c, const char *module, int64_t number,
                                pl_version_facts *out)
{
    pl_wanted_version want = {.module = module, .number = number, .out = out};
    PL_CHECK(pl_client_get_versions(c, &want, 1));
    return want.status;
}

pl_status pl_client_meet(pl_client *c, const char *module, int64_t round, int path,
                         int replica, pl_meeting wish, pl_meeting *decision)
{
    pl_message q = {0};
    pl_msg_meeting_is a;
    *decision = PL_MEETING_OPEN;
    pl_hash seal;
    const pl_msg_meet body = {.name = module,
                              .path = path,
                              .replica = replica,
                              .phase = round,
                              .meeting = wish,
                              .lease = client_present_lease(c),
                              .seal = seal.bytes};
    pl_lease_sign(&c->lease.key, PL_MSG_MEET, pl_fields_of_meet(), &body, &seal);
    pl_message_put(&q, PL_MSG_MEET, pl_fields_of_meet(), &body);
    PL_CHECK(query_owner(c, module, &q, pl_fields_of_meeting_is(), &a));
    if (a.meeting >= PL_MEETING_COUNT)
        return pl_fail(PL_ERR_PROTO,
                       "the home sent an unknown decision %llu about a meeting",
                       (unsigned long long)a.meeting);
    *decision = (pl_meeting)a.meeting;
    return PL_OK;
}

pl_status pl_client_get_update(pl_client *c, const char *module, int64_t round,
                               int path, int replica, pl_hash *update)
{
    pl_message q = {0};
    pl_msg_update_is a;
    PL_SAY(&q, GET_UPDATE, get_update, .name = module, .path = path, .replica = replica,
           .phase = round, .lease = client_present_lease(c));
    PL_CHECK(query_owner(c, module, &q, pl_fields_of_update_is(), &a));
    *update = a.blob;
    return PL_OK;
}

pl_status pl_client_put_ref(pl_client *c, const char *name, const char *target)
{
    pl_message q = {0};
    PL_SAY(&q, PUT_REF, put_ref, .text = target, .name = name);
    return query_owner(c, name, &q, NULL, NULL);
}

/* The first question is sent without the parameters, because the home already has them
 * if the arm continues another arm. */
pl_status pl_client_create_module(pl_client *c, const char *module, const float *params,
                                  size_t n, const pl_hash *config)
{
    pl_message q = {0}, a = {0};
    pl_hash blob;
    uint64_t bytes = (uint64_t)n * sizeof *params;
    pl_blob_hash(params, bytes, &blob);
    PL_SAY(&q, CREATE_MODULE, create_module, .name = module, .base = *config,
           .blob = blob);
    const int home = pl_home_of(module, c->n_homes);
    pl_status status = ask_home(c, home, &q, &a);
    client_blob content = {params, bytes, blob};
    if (status == PL_ERR_NOT_FOUND)
        status = put_and_ask(c, home, &content, &q, &a);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

pl_status pl_client_get_path(pl_client *c, const char *name, pl_path_state *out)
{
    pl_message q = {0};
    pl_msg_path_is a = {0};
    memset(out, 0, sizeof *out);
    PL_SAY(&q, GET_PATH, get_path, .name = name, .lease = client_present_lease(c));
    PL_CHECK(query_owner(c, name, &q, pl_fields_of_path_is(), &a));
    pl_copy_text(out->name, sizeof out->name, name);
    out->phase = a.phase;
    out->work = a.work;
    out->moments = a.blob;
    pl_copy_text(out->worker, sizeof out->worker, a.worker ? a.worker : "");
    out->repeats = a.repeats;
    out->made = a.made;
    if (a.repeats < 0 || a.repeats > a.phase ||
        (a.repeats > 0) == pl_hash_none(&a.made))
        return pl_fail(PL_ERR_PROTO,
                       "a home sent a state of %s that is %lld phases old after %lld "
                       "phases, without the hash of the present state or with a second "
                       "one",
                       name, (long long)a.repeats, (long long)a.phase);
    return PL_OK;
}

pl_status pl_client_hold_all(pl_client *c, int64_t ms, uint64_t *sequences)
{
    for (int i = 0; i < c->n_homes; i++) {
        pl_message q = {0};
        pl_msg_ok_sequence a;
        PL_SAY(&q, HOLD, hold, .ttl_ms = (uint64_t)ms);
        PL_CHECK(query(c, i, &q, pl_fields_of_ok_sequence(), &a));
        sequences[i] = a.sequence;
    }
    return PL_OK;
}

void pl_client_act_under(pl_client *c, const pl_sealed_lease *lease)
{
    c->lease = lease ? *lease : (pl_sealed_lease){.len = 0};
}

void client_put_submission(const pl_client *c, pl_message *q, const pl_submission *s)
{
    pl_contribution one = s->contribution;
    pl_submission_proof proof = {.len = c->lease.len, .update = one.update};
    pl_submit_message out = {.round = one.phase,
                             .base_version = s->base_version,
                             .base = s->base,
                             .update = one.update,
                             .n = 1,
                             .contributors = &one,
                             .proofs = &proof};
    memcpy(proof.lease, c->lease.bytes, c->lease.len);
    pl_copy_text(out.module, sizeof out.module, s->module);
    pl_submission_seal(&out, 0, &c->lease.key, &proof.seal);
    pl_submission_write(&out, q);
}

pl_status client_read_result(pl_message *answer, const client_answer *out)
{
    pl_msg_submitted said;
    pl_reader r;
    PL_CHECK(client_as_status(answer));
    PL_CHECK(PL_HEAR(answer, submitted, &said));
    *out->result = (pl_submit_result)said.result;
    pl_copy_text(out->text, 256, said.text ? said.text : "");
    pl_reader_open(&r, "SUBMITTED", answer->body.data, answer->body.len);
    for (int i = 0; i < out->n; i++)
        out->receipts[i] = said.receipt.n == (size_t)out->n
                               ? pl_get_hash(&r, PL_TAG_RECEIPT, (size_t)i)
                               : (pl_hash){{0}};
    return pl_reader_status(&r);
}

/* Uploads a blob, then submits the update or the state whose bytes it has. If the home
 * lacks the blob, or has dropped it because its bytes do not have its hash, does both
 * again. `blob` is NULL if only the hash of a state is sent. */
static pl_status submit(pl_client *c, const char *name, pl_message *q,
                        const client_blob *blob, const client_answer *out)
{
    pl_status status = PL_OK;
    const int home = pl_home_of(name, c->n_homes);
    pl_message a = {0};
    out->text[0] = '\0';
    for (int attempt = 0;; attempt++) {
        if (blob)
            PL_TRY(client_put_known_blob(c, home, blob));
        status = ask_home(c, home, q, &a);
        const bool damaged = status == PL_ERR_DAMAGED;
        if (!damaged) {
            PL_TRY(status);
            PL_TRY(client_read_result(&a, out));
            if (*out->result != PL_SUBMIT_UNKNOWN_BLOB)
                goto done;
        }
        if (attempt == 5)
            PL_TRY(damaged ? status
                           : pl_fail(PL_ERR_BUSY,
                                     "the home of %s lost an upload %d times; see the "
                                     "log of the home",
                                     name, attempt));
    }
done:
    pl_message_destroy(&a);
    return status;
}

pl_status pl_client_submit_as(pl_client *c, const pl_submit_message *s,
                              const void *data, uint64_t bytes,
                              pl_submit_result *result, char text[256],
                              pl_hash *receipts)
{
    pl_message q = {.type = PL_MSG_SUBMIT};
    client_blob blob = {.data = data, .bytes = bytes};
    const client_answer out = {result, text, receipts, s->n};
    pl_blob_hash(data, bytes, &blob.hash);
    pl_submission_write(s, &q);
    pl_status status = submit(c, s->module, &q, &blob, &out);
    pl_message_destroy(&q);
    return status;
}

pl_status pl_client_submit(pl_client *c, pl_submission *s, pl_submit_result *result,
                           char text[256])
{
    pl_message q = {.type = PL_MSG_SUBMIT};
    client_blob blob = {.data = s->data, .bytes = s->bytes};
    pl_blob_hash(s->data, s->bytes, &blob.hash);
    s->contribution.update = blob.hash;
    client_put_submission(c, &q, s);
    const client_answer out = {result, text, &s->receipt, 1};
    pl_status status = submit(c, s->module, &q, &blob, &out);
    pl_message_destroy(&q);
    return status;
}

void client_put_path(const pl_client *c, pl_message *q, const pl_path_state *state,
                     const pl_submission *updates, int n)
{
    pl_hash seal, *receipts = pl_alloc(((size_t)n + 1) * sizeof *receipts);
    size_t n_receipts = 0;
    const int own = pl_home_of(state->name, c->n_homes);
    for (int i = 0; i < n; i++)
        if (pl_home_of(updates[i].module, c->n_homes) != own)
            receipts[n_receipts++] = updates[i].receipt;
    const pl_msg_submit_path body = {.name = state->name,
                                     .phase = state->phase,
                                     .blob = state->moments,
                                     .work = state->work,
                                     .lease = client_present_lease(c),
                                     .seal = seal.bytes,
                                     .receipt = PL_ITEMS(receipts, n_receipts)};
    pl_lease_sign(&c->lease.key, PL_MSG_SUBMIT_PATH, pl_fields_of_submit_path(), &body,
                  &seal);
    pl_message_put(q, PL_MSG_SUBMIT_PATH, pl_fields_of_submit_path(), &body);
    pl_free(receipts);
}

pl_status client_submit_path(pl_client *c, const pl_path_state *state,
                             const client_blob *blob, const pl_submission *updates,
                             int n, const client_answer *out)
{
    pl_message q = {0};
    client_put_path(c, &q, state, updates, n);
    pl_status status = submit(c, state->name, &q, blob, out);
    pl_message_destroy(&q);
    return status;
}
