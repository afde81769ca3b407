/* Workers that come and go: HELLO, the end of a worker, and workers that the operator
 * removes (`pathloom drain`). */
#include "workers/hub_internal.h"

/* Returns the length of the part "0.1" of a release like "0.1.3". */
static size_t series_of(const char *release)
{
    size_t n = strcspn(release, ".");
    return release[n] ? n + 1 + strcspn(release + n + 1, ".") : n;
}

static void note_peer(hub_worker *w, const pl_peer *peer)
{
    w->peer = *peer;
    w->seen_ms = pl_now_ms();
    w->left = false;
}

/* If a second process has taken the name of a worker, only HELLO tells which of both a
 * new connection belongs to. */
pl_status hub_hear_from(hub *h, int worker, const pl_peer *peer)
{
    hub_worker *w = &h->workers[worker];
    bool same =
        w->peer.len == peer->len && memcmp(w->peer.id, peer->id, peer->len) == 0;
    if (w->replaced != 0 && !same)
        return pl_fail(PL_ERR_STALE,
                       "the hub does not know this connection of the worker %s; send "
                       "HELLO",
                       w->name);
    note_peer(w, peer);
    return PL_OK;
}

pl_status hub_hello(hub *h, const pl_peer *peer, pl_message *m, pl_message *a)
{
    pl_msg_hello q;
    int w = -1;
    PL_CHECK(PL_HEAR(m, hello, &q));
    PL_CHECK(hub_know_worker(h, q.name, peer, &w));
    hub_worker *worker = &h->workers[w];
    hub_mark_fenced(h, worker);
    PL_CHECK(hub_check_owner(worker, peer));
    /* Releases that differ only in their last number compute the same bytes. A worker
     * that names no release is older than this check. */
    const size_t n = q.release ? series_of(q.release) : 0;
    if (q.release &&
        (n != series_of(PL_VERSION) || strncmp(q.release, PL_VERSION, n) != 0))
        return pl_fail(
            PL_ERR_UNSUPPORTED,
            "worker %s runs pathloom %.32s, but the hub runs %s; their results may "
            "differ, so install %.*s.x on both machines",
            q.name, q.release, PL_VERSION, (int)series_of(PL_VERSION), PL_VERSION);
    if (worker->replaced != 0 && q.pid == worker->replaced)
        return pl_fail(PL_ERR_NOPERM,
                       "another process with the same key has joined as %s, so this "
                       "one ends; give each worker a key of its own (`pathloom key "
                       "invite`) or a different --name",
                       q.name);
    if (worker->pid == q.pid && strcmp(worker->device, q.device) != 0)
        return pl_fail(PL_ERR_NOPERM,
                       "worker %s runs on %s already, and a running worker cannot "
                       "change its device; start the worker again",
                       q.name, worker->device);
    bool is_news = worker->pid != q.pid || worker->left || !worker->device[0];
    note_peer(worker, peer);
    if (worker->pid != q.pid) { /* a new process: end the leases of the old one */
        hub_free_held(h, w);
        worker->replaced = worker->pid;
        worker->drains = false;
        /* it may run on another machine */
        memset(worker->pace, 0, sizeof worker->pace);
        worker->link = (hub_link){.down = hub_possible_bytes(q.down)};
        worker->withheld = (hub_withheld){0};
        /* an answer to the old process is not repeated: its lease would be sealed with
         * the new DEVICE, which has not been admitted */
        worker->given_token = 0;
        worker->left_to_it = NULL;
    }
    worker->pid = q.pid;
    pl_copy_text(worker->device, sizeof worker->device, q.device);
    pl_copy_text(worker->offers_at, sizeof worker->offers_at,
                 q.address ? q.address : "");
    if (is_news && pl_log_may(peer->own))
        pl_log(PL_LOG_INFO, "worker.joined",
               "worker=%s device=\"%s\" pid=%u process=%llu", q.name, q.device,
               (unsigned)q.pid, (unsigned long long)q.pid);
    PL_SAY(a, WELCOME, welcome, .address = PL_ITEMS(h->homes_at, h->n_homes),
           .ttl_ms = (uint64_t)h->options->ttl_ms,
           .secret = peer->role != PL_AS_LOCAL ? h->mates.secret : NULL);
    return PL_OK;
}

/* Ends the worker's open question and its leases at once, so that other workers need
 * not wait until the leases expire. Has no effect if a new process (pid) of the same
 * worker is already connected. */
pl_status hub_leave(hub *h, const pl_peer *peer, pl_message *m)
{
    pl_msg_leave q;
    PL_CHECK(PL_HEAR(m, leave, &q));
    int w = hub_find_worker(h, q.name);
    if (w < 0 || h->workers[w].pid != q.pid)
        return PL_OK;
    PL_CHECK(hub_check_owner(&h->workers[w], peer));
    hub_free_held(h, w);
    if (!h->workers[w].left && pl_log_may(peer->own))
        pl_log(PL_LOG_INFO, "worker.left", "worker=%s", q.name);
    h->workers[w].left = true;
    return PL_OK;
}

pl_status hub_drain(hub *h, pl_message *m)
{
    pl_msg_drain q;
    PL_CHECK(PL_HEAR(m, drain, &q));
    const int w = hub_find_worker(h, q.name);
    if (w < 0 || hub_is_away(h, &h->workers[w], pl_now_ms()))
        return pl_fail(PL_ERR_NOT_FOUND,
                       "no worker with the name %s is connected; `pathloom status` "
                       "lists the workers",
                       q.name);
    if (h->workers[w].own_key && pl_key_name_is_jobs(q.name))
        return pl_fail(PL_ERR_USAGE,
                       "`train` starts %s again when it ends; to have fewer workers "
                       "here, stop the job and continue it with a lower --workers",
                       q.name);
    h->workers[w].drains = true;
    pl_log(PL_LOG_INFO, "worker.draining", "worker=%s", q.name);
    return PL_OK;
}

/* Lets a drained worker end that waits for a task and has none left. */
pl_status hub_let_go(hub *h, int worker)
{
    hub_worker *w = &h->workers[worker];
    pl_message a = {0};
    if (!w->waiting || hub_n_held(h, w, HELD_BACKUPS) > 0)
        return PL_OK;
    pl_wire_error(&a, w->request, PL_ERR_CANCELLED,
                  "the operator has removed this worker (`pathloom drain`)");
    return hub_give_nothing(h, w, &a);
}
