/* Keeps the list of a server's connections and closes some of them, on a separate
 * thread (server_clients.h). */
#include "serve/server_clients.h"

enum { TICK_MS = 500 };

struct server_client {
    pl_guest guest; /* first: the list of the crowd leads to clients */
    bool listed;    /* in the list; used only by the thread that owns it */
};

struct server_clients {
    pl_crowd crowd;
    /* Each server_client* is pushed twice: when it enters and when it leaves. The
     * address of this struct tells the list's thread to end. */
    pl_queue *news;
    pl_queue *gone; /* server_client* that the thread has removed from its list */
    pl_thread *thread;
    /* number of open connections; used only by the thread that accepts them */
    int n;
};

void server_client_waits(server_client *c)
{
    pl_guest_waits(&c->guest);
}

void server_client_is_busy(server_client *c)
{
    pl_guest_is_busy(&c->guest);
}

static void watch_clients(void *context)
{
    server_clients *l = context;
    for (;;) {
        void *news = pl_queue_pop(l->news, l->crowd.first ? TICK_MS : -1);
        for (; news; news = pl_queue_pop(l->news, 0)) {
            if (news == context)
                return;
            /* the first time a client comes from the queue it enters the list, the
             * second time it leaves */
            server_client *c = news;
            if (c->listed) {
                pl_crowd_leave(&l->crowd, &c->guest);
                pl_queue_push(l->gone, c);
                continue;
            }
            c->listed = true;
            pl_crowd_enter(&l->crowd, &c->guest);
        }
        pl_crowd_settle(&l->crowd);
    }
}

server_client *server_clients_enter(server_clients *l, int socket, uint32_t address)
{
    server_client *c = pl_alloc(sizeof *c);
    c->guest.socket = socket;
    c->guest.address = address;
    pl_guest_waits(&c->guest);
    pl_queue_push(l->news, c);
    int beyond = ++l->n - l->crowd.places;
    if (beyond > 0)
        pl_sleep_ms(1 + beyond / 32);
    return c;
}

/* Waits until the list's thread no longer uses the socket. The caller may close the
 * socket only after this call. */
void server_clients_leave(server_clients *l, server_client **client)
{
    if (!*client)
        return;
    pl_queue_push(l->news, *client);
    pl_free(pl_queue_pop(l->gone, -1));
    l->n--;
    *client = NULL;
}

pl_status server_clients_open(const server_clients_options *options,
                              server_clients **out)
{
    pl_status status = PL_OK;
    server_clients *l = pl_alloc(sizeof *l);
    const int files = pl_files_for_guests();
    const int places = options->places < files ? options->places : files;
    l->crowd = (pl_crowd){.places = places,
                          .waiting = places,
                          .wait_limit_ms = 1000 * (int64_t)options->request_s,
                          .busy_limit_ms = 1000 * (int64_t)options->answer_s};
    PL_TRY(pl_queue_create(&l->news));
    PL_TRY(pl_queue_create(&l->gone));
    PL_TRY(pl_thread_start("clients", watch_clients, l, &l->thread));
done:
    if (status != PL_OK)
        server_clients_close(&l);
    *out = l;
    return status;
}

void server_clients_close(server_clients **clients)
{
    server_clients *l = *clients;
    if (!l)
        return;
    if (l->thread) {
        pl_queue_push(l->news, l);
        pl_thread_join(&l->thread);
    }
    pl_queue_destroy(&l->news);
    pl_queue_destroy(&l->gone);
    pl_free(l);
    *clients = NULL;
}
