/* Chooses which connections of a listening socket are closed (crowd.h). */
#include "base/crowd.h"
#include "base/clock.h"
#include "base/thread.h"
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    OWN_FILES = 512,
    FILES_MAX = 1 << 20, /* more files would only cost the kernel memory */
    SLOTS = 1024,
    WAITING_ALWAYS = 8 /* see pl_crowd_settle */
};

/* ---- files ---- */
int pl_files_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return 1024;
    return files.rlim_cur < FILES_MAX ? (int)files.rlim_cur : FILES_MAX;
}

void pl_allow_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= FILES_MAX)
        return;
    files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        return; /* not an error: the limit stays unchanged */
}

int pl_files_for_guests(void)
{
    const int limit = pl_files_limit();
    return limit - (limit / 2 < OWN_FILES ? limit / 2 : OWN_FILES);
}

/* ---- guests ---- */
void pl_guest_waits(pl_guest *g)
{
    pl_atomic_set(&g->waits_ms, pl_now_ms());
}

void pl_guest_is_busy(pl_guest *g)
{
    pl_atomic_set(&g->busy_ms, pl_now_ms());
    pl_atomic_set(&g->waits_ms, 0);
}

void pl_crowd_enter(pl_crowd *c, pl_guest *guest)
{
    guest->cut = false;
    guest->next = c->first;
    c->first = guest;
}

void pl_crowd_leave(pl_crowd *c, pl_guest *guest)
{
    pl_guest **at = &c->first;
    while (*at && *at != guest)
        at = &(*at)->next;
    if (*at)
        *at = guest->next;
}

/* ---- closing ---- */
static unsigned address_slot_of(const pl_guest *g)
{
    return (g->address ^ g->address >> 10 ^ g->address >> 20) % SLOTS;
}

static void cut(const pl_crowd *c, pl_guest *g)
{
    g->cut = true;
    if (!c->is_open || c->is_open(g))
        shutdown(g->socket, SHUT_RDWR);
}

/* If only files are few, one connection per call is closed: each new connection is a
 * call, so their number cannot grow, and files of the process that are closed meanwhile
 * may end the shortage. A connection keeps a high number also after the shortage, which
 * must not keep out new clients: so some connections may wait until the process really
 * has too few files. */
int pl_crowd_settle(pl_crowd *c)
{
    const int64_t now = pl_now_ms();
    const int files = pl_files_for_guests();
    int n_open = 0, n_waiting = 0, n_of_address[SLOTS] = {0};
    bool few_files = false; /* a connection has a descriptor that is not for guests */
    for (pl_guest *g = c->first; g; g = g->next) {
        const int64_t waits = pl_atomic_get(&g->waits_ms),
                      busy = pl_atomic_get(&g->busy_ms);
        const bool is_late =
            waits > 0 ? now - waits > c->wait_limit_ms : now - busy > c->busy_limit_ms;
        if (!g->cut && is_late)
            cut(c, g);
    }
    for (const pl_guest *g = c->first; g; g = g->next) {
        if (g->cut)
            continue;
        n_of_address[address_slot_of(g)]++;
        n_open++;
        n_waiting += pl_atomic_get(&g->waits_ms) > 0;
        few_files |= g->socket >= files;
    }
    few_files &= n_waiting > WAITING_ALWAYS;
    if (!few_files && n_waiting > 0) {
        /* whether the next descriptor is one for the process itself */
        const int next = eventfd(0, EFD_CLOEXEC);
        few_files = next < 0 || next >= files;
        if (next >= 0)
            close(next);
    }
    int n_cut = 0;
    while (n_open > c->places || n_waiting > c->waiting || few_files) {
        /* Of the address with the most connections, the one is cut that has waited
         * longest. If several have waited equally long, it is the oldest, which is the
         * last of them. If all connections are busy, none is cut. */
        pl_guest *victim = NULL;
        int64_t least = INT64_MAX;
        int most = 0;
        for (pl_guest *g = c->first; g; g = g->next) {
            const int64_t since = pl_atomic_get(&g->waits_ms);
            const int of_address = n_of_address[address_slot_of(g)];
            if (g->cut || since == 0 || of_address < most ||
                (of_address == most && since > least))
                continue;
            most = of_address;
            least = since;
            victim = g;
        }
        if (!victim)
            break;
        cut(c, victim);
        n_open--;
        n_waiting--;
        n_of_address[address_slot_of(victim)]--;
        few_files = false;
        n_cut++;
    }
    return n_cut;
}
