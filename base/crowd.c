/* Chooses which connections of a listening socket are closed (crowd.h). */
#include "base/crowd.h"
#include "base/clock.h"
#include <stddef.h>
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
    __atomic_store_n(&g->waits_ms, pl_now_ms(), __ATOMIC_SEQ_CST);
}

void pl_guest_is_busy(pl_guest *g)
{
    __atomic_store_n(&g->busy_ms, pl_now_ms(), __ATOMIC_SEQ_CST);
    __atomic_store_n(&g->waits_ms, 0, __ATOMIC_SEQ_CST);
}

static int64_t waits_since(const pl_guest *g)
{
    return __atomic_load_n(&g->waits_ms, __ATOMIC_SEQ_CST);
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
static bool is_late(const pl_crowd *c, const pl_guest *g, int64_t now)
{
    int64_t since = waits_since(g);
    if (since > 0)
        return now - since > c->wait_limit_ms;
    since = __atomic_load_n(&g->busy_ms, __ATOMIC_SEQ_CST);
    return now - since > c->busy_limit_ms;
}

static unsigned address_slot_of(const pl_guest *g)
{
    return (g->address ^ g->address >> 10 ^ g->address >> 20) % SLOTS;
}

/* Returns whether the next descriptor is one for the process itself. */
static bool has_few_files(void)
{
    const int next = eventfd(0, EFD_CLOEXEC);
    if (next >= 0)
        close(next);
    return next < 0 || next >= pl_files_for_guests();
}

typedef struct census {
    int open, waiting, of_address[SLOTS];
    bool had_few_files; /* a connection has a descriptor that is not for guests */
} census;

static void count_guests(const pl_crowd *c, census *n)
{
    const int files = pl_files_for_guests();
    memset(n, 0, sizeof *n);
    for (const pl_guest *g = c->first; g; g = g->next) {
        if (g->cut)
            continue;
        n->of_address[address_slot_of(g)]++;
        n->open++;
        n->waiting += waits_since(g) > 0;
        n->had_few_files |= g->socket >= files;
    }
}

/* Of the address with the most connections, finds the one that has waited longest. If
 * several have waited equally long, finds the oldest, which is the last of them.
 * Returns NULL if all connections are busy. */
static pl_guest *find_victim(const pl_crowd *c, const census *n)
{
    pl_guest *victim = NULL;
    int64_t least = INT64_MAX;
    int most = 0;
    for (pl_guest *g = c->first; g; g = g->next) {
        int64_t since = waits_since(g);
        int of_address = n->of_address[address_slot_of(g)];
        if (g->cut || since == 0 || of_address < most ||
            (of_address == most && since > least))
            continue;
        most = of_address;
        least = since;
        victim = g;
    }
    return victim;
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
    census n;
    pl_guest *victim;
    const int64_t now = pl_now_ms();
    for (pl_guest *g = c->first; g; g = g->next)
        if (!g->cut && is_late(c, g, now))
            cut(c, g);
    count_guests(c, &n);
    bool few_files = (n.had_few_files && n.waiting > WAITING_ALWAYS) ||
                     (n.waiting > 0 && has_few_files());
    int n_cut = 0;
    while ((n.open > c->places || n.waiting > c->waiting || few_files) &&
           (victim = find_victim(c, &n))) {
        cut(c, victim);
        n.open--;
        n.waiting--;
        n.of_address[address_slot_of(victim)]--;
        few_files = false;
        n_cut++;
    }
    return n_cut;
}
