/* Makes the home still: for a short time it writes nothing (docs/PROTOCOL.md 2.14).
 *
 * A client that makes all homes of a job still can read all their stores as they are at
 * one moment. Messages that would write to the store wait in memory, in the order in
 * which they arrived, and are handled when the time is over. */
#include "home/home_internal.h"

enum { WAITING_MAX = 512, STILL_MAX_MS = 10000 };

bool home_is_still(const home *h)
{
    return h->still.until_ms != 0 && pl_now_ms() < h->still.until_ms;
}

/* If too many messages wait already, drops that of a worker, which repeats it. The hub
 * does not repeat its orders, so they never find the places taken. */
bool home_waits(home *h, const pl_peer *peer, const pl_message *m)
{
    home_still *still = &h->still;
    const uint16_t type = m->type;
    const bool writes = type == PL_MSG_SUBMIT || type == PL_MSG_SUBMIT_PATH ||
                        type == PL_MSG_MEET || type == PL_MSG_PUT_OBJECT ||
                        type == PL_MSG_CREATE_MODULE || type == PL_MSG_HELLO ||
                        type == PL_MSG_PUT_REF || type == PL_MSG_FENCE ||
                        type == PL_MSG_PUT_AUDIT || type == PL_MSG_FENCE_WORKER;
    if (!home_is_still(h) || !writes)
        return false;
    if (still->n_waiting >= WAITING_MAX &&
        (peer->role == PL_AS_WORKER || peer->role == PL_AS_RELAY))
        return true;
    still->waiting = pl_grow(still->waiting,
                             (size_t)(still->n_waiting + 1) * sizeof *still->waiting);
    home_letter *w = &still->waiting[still->n_waiting++];
    *w = (home_letter){.peer = *peer,
                       .message = {.type = m->type,
                                   .request = m->request,
                                   .epoch = m->epoch,
                                   .token = m->token}};
    pl_buf_append(&w->message.body, m->body.data, m->body.len);
    pl_buf_append(&w->message.data, m->data.data, m->data.len);
    return true;
}

bool home_next_waiting(home *h, pl_peer *peer, pl_message *out)
{
    home_still *still = &h->still;
    if (still->n_waiting == 0 || home_is_still(h))
        return false;
    *peer = still->waiting[0].peer;
    *out = still->waiting[0].message;
    memmove(still->waiting, still->waiting + 1,
            (size_t)--still->n_waiting * sizeof *still->waiting);
    return true;
}

/* The answer has the number of the home's newest commit. */
pl_status home_hold(home *h, pl_message *m, pl_message *a)
{
    pl_msg_hold q;
    PL_CHECK(PL_HEAR(m, hold, &q));
    const uint64_t ms = q.ttl_ms < STILL_MAX_MS ? q.ttl_ms : STILL_MAX_MS;
    PL_CHECK(home_end_group(h));
    h->still.until_ms = ms > 0 ? pl_now_ms() + (int64_t)ms : 0;
    PL_SAY(a, OK, ok_sequence, .sequence = pl_store_sequence(h->store));
    return PL_OK;
}

void home_free_waiting(home *h)
{
    for (int i = 0; i < h->still.n_waiting; i++)
        pl_message_destroy(&h->still.waiting[i].message);
    pl_free(h->still.waiting);
}
