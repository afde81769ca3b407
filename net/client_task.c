/* Sends several questions before the first one is answered. All results of a task are
 * submitted in this way. */
#include "net/client_internal.h"

enum { SLOW_MS = 300, HELD_MS = 2000 };

static client_asked *first_open(client_asked *all, int n)
{
    for (int i = 0; i < n; i++)
        if (all[i].name && !all[i].done)
            return &all[i];
    return NULL;
}

pl_status client_ask_all(pl_client *c, client_asked *all, int n)
{
    client_retry retries[PL_HOMES_MAX] = {{0}}; /* zeros: not begun */
    pl_status status = PL_OK;
    pl_message a = {0};
    for (client_asked *open; (open = first_open(all, n)) != NULL;) {
        for (int home = 0; home < c->n_homes; home++) {
            if (retries[home].answered_ms == 0)
                retries[home] = client_retry_begin(c->sockets[home]);
            if (!client_retry_due(&retries[home], c->sockets[home]))
                continue;
            for (int i = 0; i < n; i++) /* must be sent again */
                if (all[i].home == home)
                    all[i].sent = false;
        }
        /* sends the unanswered questions in order: a home gets the path's state last */
        for (int i = 0; i < n; i++) {
            if (!all[i].name || all[i].done || all[i].sent)
                continue;
            status = pl_wire_send(c->sockets[all[i].home], &all[i].question);
            all[i].sent = status == PL_OK;
            if (status == PL_ERR_NET)
                break; /* a question that could not be sent now is sent again later */
            PL_TRY(status);
        }
        PL_TRY(client_retry_patience(&retries[open->home], c));
        status = client_wait_slice(c, c->sockets[open->home], &a);
        if (status == PL_ERR_TIMEOUT)
            continue;
        PL_TRY(status);
        int i = 0;
        while (i < n &&
               (!all[i].name || all[i].done || all[i].question.request != a.request))
            i++;
        if (i == n)
            continue; /* the question was answered before */
        client_retry *retry = &retries[all[i].home];
        const uint16_t type = all[i].question.type;
        const bool has_lease = type == PL_MSG_SUBMIT || type == PL_MSG_SUBMIT_PATH ||
                               pl_lease_covers(type);
        const pl_status said = client_as_status(&a);
        if (said == PL_ERR_NET || (has_lease && said == PL_ERR_BUSY)) {
            /* The question must be asked again a little later: a relay lost its
             * connection to the home, or the home is not ready yet for the question's
             * lease. A relay holds what had to be asked again, and sends bytes
             * meanwhile. */
            const bool is_held = retry->is_repeated && said == PL_ERR_BUSY;
            c->lines[all[i].home].link.n_full += is_held;
            client_retry_later(retry, is_held ? HELD_MS : BOUNCE_MS);
            continue;
        }
        if (c->lease.len > 0 && a.type != PL_MSG_ERR && pl_lease_covers(type))
            PL_TRY(pl_lease_check_answer(&c->lease.key, &all[i].question, &a));
        pl_message kept = all[i].answer;
        all[i].answer = a;
        a = kept;
        all[i].done = true;
        client_retry_answered(retry);
    }
    status = PL_OK;
done:
    pl_message_destroy(&a);
    return status;
}

pl_message *client_ask(const pl_client *c, client_asked *q, uint16_t type,
                       const char *name)
{
    pl_message_init(&q->question, type);
    q->question.request = pl_wire_next_request();
    q->name = name;
    q->home = pl_home_of(name, c->n_homes);
    return &q->question;
}

void client_asked_destroy(client_asked *all, int n)
{
    for (int i = 0; i < n; i++) {
        pl_message_destroy(&all[i].question);
        pl_message_destroy(&all[i].answer);
    }
    pl_free(all);
}

/* Uploads the updates of one home, and adds to `all` a SUBMIT for each. If the home has
 * no free memory, this client's own uploads may have filled it, and waiting would not
 * help. So in this case the questions added so far are asked first. */
static pl_status stage_updates(pl_client *c, int home, pl_submission *s, int n,
                               client_asked *all)
{
    pl_status status = PL_OK;
    size_t m = 0;
    client_blob *blobs = pl_alloc(((size_t)n + 1) * sizeof *blobs);
    bool *is_there = pl_alloc(((size_t)n + 1) * sizeof *is_there);
    int *of = pl_alloc(((size_t)n + 1) * sizeof *of);
    for (int i = 0; i < n; i++) {
        if (pl_home_of(s[i].module, c->n_homes) != home)
            continue;
        blobs[m] = (client_blob){s[i].data, s[i].bytes, s[i].contribution.update};
        of[m++] = i;
    }
    for (bool full = true; full;) {
        const bool holds = first_open(all, n) != NULL;
        status = client_put_blobs(c, home, blobs, is_there, m, holds);
        for (size_t k = 0; k < m; k++)
            if (is_there[k] && !all[of[k]].name) {
                pl_submission *one = &s[of[k]];
                client_put_submission(
                    c, client_ask(c, &all[of[k]], PL_MSG_SUBMIT, one->module), one);
            }
        full = status == PL_ERR_BUSY;
        PL_TRY(full ? client_ask_all(c, all, n) : status);
    }
done:
    pl_free_all(blobs, is_there, of);
    return status;
}

static bool is_result_in(pl_submit_result result)
{
    return result == PL_SUBMIT_ACCEPTED || result == PL_SUBMIT_DUPLICATE ||
           result == PL_SUBMIT_DROPPED || result == PL_SUBMIT_OTHER;
}

/* The home of a path knows only the updates of modules that it owns. So with several
 * homes the path's state is sent only after all have accepted the updates of the task,
 * with their receipts. One home gets both together, updates first. */
pl_status pl_client_submit_task(pl_client *c, pl_submission *s, int n,
                                const pl_path_state *state, const void *moments,
                                uint64_t bytes, pl_submit_result *results,
                                char (*texts)[256])
{
    pl_status status = PL_OK;
    const bool together = c->n_homes == 1;
    int64_t start = pl_now_ms();
    const int n_asked = n + 1;
    client_asked *all = pl_alloc((size_t)n_asked * sizeof *all);
    results[n] = PL_SUBMIT_REJECTED;
    pl_copy_text(texts[n], 256,
                 "the path's state was not sent, because an update of this task was "
                 "refused");
    for (int i = 0; i < n; i++)
        pl_blob_hash(s[i].data, s[i].bytes, &s[i].contribution.update);
    for (int home = 0; home < c->n_homes; home++) {
        /* a home drops uploads about which nobody asks while the next home gets its */
        if (home > 0 && pl_now_ms() - start > SLOW_MS)
            PL_TRY(client_ask_all(c, all, n));
        PL_TRY(stage_updates(c, home, s, n, all));
    }
    const pl_status ends = pl_failpoint("worker.path.before");
    /* if uploading was slow, the updates are submitted before the state is uploaded */
    if ((bytes > 0 && pl_now_ms() - start > SLOW_MS) || ends != PL_OK)
        PL_TRY(client_ask_all(c, all, n));
    PL_TRY(ends);
    const client_blob blob = {moments, bytes, state->moments};
    if (together) {
        if (bytes > 0) {
            bool is_there = false;
            status =
                client_put_blobs(c, 0, &blob, &is_there, 1, first_open(all, n) != NULL);
            if (status == PL_ERR_BUSY) { /* as in stage_updates */
                PL_TRY(client_ask_all(c, all, n));
                status = client_put_known_blob(c, 0, &blob);
            }
            PL_TRY(status);
        }
        client_put_path(c, client_ask(c, &all[n], PL_MSG_SUBMIT_PATH, state->name),
                        state, s, n);
    }
    PL_TRY(client_ask_all(c, all, n_asked));
    for (int i = 0; i < n_asked; i++) {
        const client_answer to = {&results[i], texts[i], i < n ? &s[i].receipt : NULL,
                                  i < n};
        if (!all[i].name)
            continue;
        if (client_as_status(&all[i].answer) == PL_ERR_DAMAGED)
            results[i] = PL_SUBMIT_UNKNOWN_BLOB; /* the home has dropped its bytes */
        else
            PL_TRY(client_read_result(&all[i].answer, &to));
    }
    bool all_in = true;
    for (int i = 0; i < n; i++) {
        /* a home that lost uploads, or found them damaged, gets them again */
        if (results[i] == PL_SUBMIT_UNKNOWN_BLOB)
            PL_TRY(pl_client_submit(c, &s[i], &results[i], texts[i]));
        all_in = all_in && is_result_in(results[i]);
    }
    /* With several homes the state is sent here for the first time. If it is rejected,
     * the receipts may be older than a restart of the hub: the homes give new ones, and
     * the state is sent again. A single home may have rejected the state because an
     * update was lost on the way and arrived after it. */
    const client_answer last = {&results[n], texts[n], NULL, 0};
    for (int attempt = 0; attempt < 2 && all_in && !is_result_in(results[n]) &&
                          results[n] != PL_SUBMIT_FENCED;
         attempt++) {
        for (int i = 0; attempt > 0 && !together && i < n; i++)
            PL_TRY(pl_client_submit(c, &s[i], &results[i], texts[i]));
        PL_TRY(client_submit_path(c, state, bytes > 0 ? &blob : NULL, s, n, &last));
    }
done:
    client_asked_destroy(all, n_asked);
    return status;
}
