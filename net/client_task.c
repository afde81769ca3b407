/* Submits all results of a task together. Several questions are sent before the first
 * one is answered. */
#include "net/client_internal.h"

enum { SLOW_MS = 300 };

typedef struct parcel {
    pl_client *client;
    int n; /* number of questions so far */
    const char **names;
    pl_message *questions, *answers;
    /* for each question: whether it is under way, and whether it is answered */
    bool *sent, *done;
    client_retry retries[PL_HOMES_MAX]; /* one for each home; zeros: not begun */
} parcel;

/* Sends the unanswered questions in order, so that a home gets the path's state after
 * the updates. */
static void send_open(parcel *p)
{
    pl_client *c = p->client;
    for (int home = 0; home < c->n_homes; home++) {
        client_retry *retry = &p->retries[home];
        if (retry->answered_ms == 0)
            *retry = client_retry_begin(c->sockets[home]);
        if (!client_retry_due(retry, c->sockets[home]))
            continue;
        for (int i = 0; i < p->n; i++) /* must be sent again */
            p->sent[i] = p->sent[i] && pl_home_of(p->names[i], c->n_homes) != home;
    }
    for (int i = 0; i < p->n; i++) {
        if (p->done[i] || p->sent[i])
            continue;
        pl_socket *socket = c->sockets[pl_home_of(p->names[i], c->n_homes)];
        p->sent[i] = pl_wire_send(socket, &p->questions[i]) == PL_OK;
        if (!p->sent[i])
            break; /* a question that could not be sent now is sent again later */
    }
}

static int first_open(const parcel *p)
{
    for (int i = 0; i < p->n; i++)
        if (!p->done[i])
            return i;
    return -1;
}

static pl_status ask_all(parcel *p)
{
    pl_status status = PL_OK;
    pl_message a;
    pl_message_init(&a, 0);
    memset(p->retries, 0, sizeof p->retries);
    for (int open = first_open(p); open >= 0; open = first_open(p)) {
        int home = pl_home_of(p->names[open], p->client->n_homes);
        send_open(p);
        PL_TRY(client_retry_patience(&p->retries[home], p->client));
        status = client_wait_slice(p->client, p->client->sockets[home], &a);
        if (status == PL_ERR_TIMEOUT)
            continue;
        PL_TRY(status);
        int i = 0;
        while (i < p->n && (p->done[i] || p->questions[i].request != a.request))
            i++;
        if (i == p->n)
            continue; /* the question was answered before */
        client_retry *retry = &p->retries[pl_home_of(p->names[i], p->client->n_homes)];
        if (client_must_wait(&p->questions[i], &a)) {
            client_retry_later(retry, BOUNCE_MS);
            continue;
        }
        pl_message kept = p->answers[i];
        p->answers[i] = a;
        a = kept;
        p->done[i] = true;
        client_retry_answered(retry);
    }
done:
    pl_message_destroy(&a);
    return status;
}

static pl_message *put_question(parcel *p, uint16_t type, const char *name)
{
    pl_message *q = &p->questions[p->n];
    pl_message_init(q, type);
    q->request = pl_wire_next_request();
    p->names[p->n++] = name;
    return q;
}

/* Uploads one more blob of the task. If a home has no free memory, this client's own
 * uploads may have filled it, and waiting would not help. So in this case the updates
 * that were uploaded so far are submitted first. */
static pl_status stage(parcel *p, const char *name, const void *data, uint64_t bytes,
                       const pl_hash *blob)
{
    pl_client *c = p->client;
    int home = pl_home_of(name, c->n_homes);
    bool holds = first_open(p) >= 0;
    pl_status status = client_put_known_blob(c, home, data, bytes, blob, holds);
    if (status != PL_ERR_BUSY || !holds)
        return status;
    PL_CHECK(ask_all(p));
    return client_put_known_blob(c, home, data, bytes, blob, false);
}

static bool is_result_in(pl_submit_result result)
{
    return result == PL_SUBMIT_ACCEPTED || result == PL_SUBMIT_DUPLICATE ||
           result == PL_SUBMIT_DROPPED || result == PL_SUBMIT_OTHER;
}

/* Submits the results of a task. The home of a path knows only the updates of modules
 * that it owns. So with several homes the path's state is sent only after all have
 * accepted the updates of the task, with their receipts. One home gets both together,
 * updates first. */
pl_status pl_client_submit_task(pl_client *c, pl_submission *s, int n,
                                const pl_path_state *state, const void *moments,
                                uint64_t bytes, pl_submit_result *results,
                                char (*texts)[256])
{
    pl_status status = PL_OK;
    const bool together = c->n_homes == 1;
    int64_t start = pl_now_ms();
    const size_t most = (size_t)n + 1;
    parcel p = {.client = c,
                .names = pl_alloc(most * sizeof *p.names),
                .questions = pl_alloc(most * sizeof *p.questions),
                .answers = pl_alloc(most * sizeof *p.answers),
                .sent = pl_alloc(most * sizeof *p.sent),
                .done = pl_alloc(most * sizeof *p.done)};
    results[n] = PL_SUBMIT_REJECTED;
    pl_copy_text(texts[n], 256,
                 "the path's state was not sent, because an update of this task was "
                 "refused");
    for (int i = 0; i < n; i++) {
        pl_hash *update = &s[i].contribution.update;
        pl_blob_hash(s[i].data, s[i].bytes, update);
        PL_TRY(stage(&p, s[i].module, s[i].data, s[i].bytes, update));
        client_put_submission(c, put_question(&p, PL_MSG_SUBMIT, s[i].module), &s[i]);
    }
    /* if uploading was slow, the updates are submitted before the state is uploaded */
    const pl_status ends = pl_failpoint("worker.path.before");
    if (pl_now_ms() - start > SLOW_MS || ends != PL_OK)
        PL_TRY(ask_all(&p));
    PL_TRY(ends);
    if (together) {
        if (bytes > 0)
            PL_TRY(stage(&p, state->name, moments, bytes, &state->moments));
        client_put_path(c, put_question(&p, PL_MSG_SUBMIT_PATH, state->name), state, s,
                        n);
    }
    PL_TRY(ask_all(&p));
    for (int i = 0; i < p.n; i++) {
        const client_answer to = {&results[i], texts[i], i < n ? &s[i].receipt : NULL,
                                  i < n};
        PL_TRY(client_read_result(&p.answers[i], &to));
    }
    bool all_in = true;
    for (int i = 0; i < n; i++) {
        /* a home that restarted has lost uploads; their updates are submitted again */
        if (results[i] == PL_SUBMIT_UNKNOWN_BLOB)
            PL_TRY(pl_client_submit(c, &s[i], &results[i], texts[i]));
        all_in = all_in && is_result_in(results[i]);
    }
    /* The state may have been rejected because an update was lost on the way and
     * arrived after the state, or because the receipts are older than a restart of the
     * hub: then the homes give new ones. */
    const client_blob blob = {moments, bytes, state->moments};
    const client_answer last = {&results[n], texts[n], NULL, 0};
    for (int attempt = 0; attempt < 2 && all_in && !is_result_in(results[n]) &&
                          results[n] != PL_SUBMIT_FENCED;
         attempt++) {
        for (int i = 0; attempt > 0 && !together && i < n; i++)
            PL_TRY(pl_client_submit(c, &s[i], &results[i], texts[i]));
        PL_TRY(client_submit_path(c, state, bytes > 0 ? &blob : NULL, s, n, &last));
    }
done:
    for (int i = 0; i < p.n; i++) {
        pl_message_destroy(&p.questions[i]);
        pl_message_destroy(&p.answers[i]);
    }
    pl_free(p.names);
    pl_free(p.questions);
    pl_free(p.answers);
    pl_free(p.sent);
    pl_free(p.done);
    return status;
}
