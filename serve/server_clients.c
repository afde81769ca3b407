/* Keeps the list of a server's connections and closes some of them, on a separate
 * thread (server_clients.h). */
#include "serve/server_clients.h"

#include <sys/socket.h>

enum { TICK_MS = 500, SLOTS = 1024 };

struct server_client {
    int socket;
    uint32_t address;
    /* listed: the client is in the list; cut: its socket has been shut down; both are
     * used only by the thread that owns the list */
    bool listed, cut;
    /* waits_ms: since when the client has waited for a request, 0 if it is busy;
     * busy_ms: since when it has been busy; both are accessed by atomic operations */
    int64_t waits_ms, busy_ms;
    server_client *next;
};

struct server_clients {
    server_clients_options options;
    /* Each server_client* is pushed twice: when it enters and when it leaves. The
     * address of this struct tells the list's thread to end. */
    pl_queue *news;
    pl_queue *gone; /* server_client* that the thread has removed from its list */
    pl_thread *thread;
    server_client *first; /* the newest */
    /* number of open connections; used only by the thread that accepts them */
    int n;
};

void server_client_waits(server_client *c)
{
    __atomic_store_n(&c->waits_ms, pl_now_ms(), __ATOMIC_SEQ_CST);
}

void server_client_is_busy(server_client *c)
{
    __atomic_store_n(&c->busy_ms, pl_now_ms(), __ATOMIC_SEQ_CST);
    __atomic_store_n(&c->waits_ms, 0, __ATOMIC_SEQ_CST);
}

static int64_t waits_since(const server_client *c)
{
    return __atomic_load_n(&c->waits_ms, __ATOMIC_SEQ_CST);
}

/* Shuts down a client's socket. The thread of this client then sees the end of the
 * connection, and calls server_clients_leave. */
static void cut(server_client *c)
{
    shutdown(c->socket, SHUT_RDWR);
    c->cut = true;
}

static bool is_late(const server_clients *l, const server_client *c, int64_t now)
{
    int64_t since = waits_since(c);
    if (since > 0)
        return now - since > 1000 * (int64_t)l->options.request_s;
    since = __atomic_load_n(&c->busy_ms, __ATOMIC_SEQ_CST);
    return now - since > 1000 * (int64_t)l->options.answer_s;
}

static unsigned address_slot_of(const server_client *c)
{
    return (c->address ^ c->address >> 10 ^ c->address >> 20) % SLOTS;
}

static int count_open(const server_clients *l, int of_address[SLOTS])
{
    int n = 0;
    memset(of_address, 0, SLOTS * sizeof *of_address);
    for (const server_client *c = l->first; c; c = c->next) {
        of_address[address_slot_of(c)] += !c->cut;
        n += !c->cut;
    }
    return n;
}

/* Chooses the connection to close: of the address with the most connections, the
 * connection that has waited longest. If several have waited equally long, chooses the
 * oldest, which is the last of them, because the list begins with the newest
 * connection. Returns NULL if all connections are busy. */
static server_client *find_victim(const server_clients *l, const int of_address[SLOTS])
{
    server_client *victim = NULL;
    int64_t least = INT64_MAX;
    int most = 0;
    for (server_client *c = l->first; c; c = c->next) {
        int64_t since = waits_since(c);
        int n = of_address[address_slot_of(c)];
        if (c->cut || since == 0 || n < most || (n == most && since > least))
            continue;
        most = n;
        least = since;
        victim = c;
    }
    return victim;
}

static void cut_some(server_clients *l)
{
    int64_t now = pl_now_ms();
    int of_address[SLOTS];
    server_client *victim;
    for (server_client *c = l->first; c; c = c->next)
        if (!c->cut && is_late(l, c, now))
            cut(c);
    while (count_open(l, of_address) > l->options.places &&
           (victim = find_victim(l, of_address)))
        cut(victim);
}

/* Handles a client from the queue: the first time adds it to the list, the second time
 * removes it. */
static void note_client(server_clients *l, server_client *c)
{
    if (!c->listed) {
        c->listed = true;
        c->next = l->first;
        l->first = c;
        return;
    }
    server_client **at = &l->first;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    pl_queue_push(l->gone, c);
}

static void watch_clients(void *context)
{
    server_clients *l = context;
    for (;;) {
        void *news = pl_queue_pop(l->news, l->first ? TICK_MS : -1);
        for (; news; news = pl_queue_pop(l->news, 0)) {
            if (news == context)
                return;
            note_client(l, news);
        }
        cut_some(l);
    }
}

server_client *server_clients_enter(server_clients *l, int socket, uint32_t address)
{
    server_client *c = pl_alloc(sizeof *c);
    c->socket = socket;
    c->address = address;
    server_client_waits(c);
    pl_queue_push(l->news, c);
    int beyond = ++l->n - l->options.places;
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
    *out = NULL;
    l->options = *options;
    PL_TRY(pl_queue_create(&l->news));
    PL_TRY(pl_queue_create(&l->gone));
    PL_TRY(pl_thread_start("clients", watch_clients, l, &l->thread));
    *out = l;
    l = NULL;
done:
    server_clients_close(&l);
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
