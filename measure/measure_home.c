/* pathloom bench home: measures how many workers one home can serve.
 *
 * Each worker has its own encrypted connection to a real home. All of them at the same
 * time send an object, which no other worker has, and fetch it. The home has room for
 * 1 GiB of bytes that are not committed, so most workers must wait for room. The table
 * has the rate, the bytes that were sent again, and processor time and memory of the
 * home. On a link with a known rate: `sh bench/link.sh 1gbit pathloom bench home`. */
#include "measure/measure.h"
#include "measure/home_process.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    GROUP = 100, /* workers per process */
    GROUPS_MAX = 100,
    PATIENCE_MS = 600000,
    FIRST_BYTES = 1024 /* of the object that each worker sends to connect */
};
static const uint64_t staging_bytes = UINT64_C(1) << 30;

/* What the workers of a process have done. */
typedef struct tally {
    uint64_t repeated, connects;
    double cpu_s;
} tally;

typedef struct group {
    int64_t first, n, bytes, rounds;
    const char *home;
    pl_keypair keys;
    pl_client *clients[GROUP];
} group;

static pl_status send_and_fetch(group *g, size_t item, uint64_t round, uint64_t bytes)
{
    const uint64_t worker = (uint64_t)g->first + item;
    char name[PL_MODULE_NAME_MAX];
    uint8_t *data = NULL;
    pl_buf back = {0};
    pl_hash hash;
    pl_status status = PL_OK;
    snprintf(name, sizeof name, "load%llu", (unsigned long long)worker);
    PL_TRY(pl_try_alloc(bytes, "an object", (void **)&data));
    measure_fill(data, bytes, worker, round);
    PL_TRY(pl_client_put_object(g->clients[item], name, data, bytes, &hash));
    pl_free(data);
    data = NULL;
    PL_TRY(pl_client_get_blob(g->clients[item], name, &hash, &back));
done:
    pl_free(data);
    pl_buf_destroy(&back);
    return status;
}

static pl_status connect_worker(void *context, size_t item, int thread)
{
    group *g = context;
    (void)thread;
    pl_client_options options = {
        .homes = &g->home, .n_homes = 1, .keys = &g->keys, .patience_ms = PATIENCE_MS};
    PL_CHECK(pl_client_create(&options, &g->clients[item]));
    return send_and_fetch(g, item, 0, FIRST_BYTES);
}

static pl_status run_worker(void *context, size_t item, int thread)
{
    group *g = context;
    (void)thread;
    for (int64_t round = 1; round <= g->rounds; round++)
        PL_CHECK(send_and_fetch(g, item, (uint64_t)round, (uint64_t)g->bytes));
    return PL_OK;
}

static double carried_bytes(void)
{
    pl_buf text = {0};
    measure_need(pl_read_file("/proc/net/dev", &text));
    const char *at = strstr(pl_buf_text(&text), "lo:");
    const double bytes = at ? strtod(at + 3, NULL) : 0;
    pl_buf_destroy(&text);
    return bytes;
}

typedef struct load {
    int64_t workers, bytes, rounds;
    int n_groups;
    int to[GROUPS_MAX], from[GROUPS_MAX];
} load;

static pl_status run_home_load(load *l, const home_process *h, const pl_keypair *keys)
{
    char byte = 0;
    tally sum = {0};
    const double before = measure_memory(h->pid, "VmRSS:");
    for (int64_t first = 0; first < l->workers; first += GROUP) {
        int to[2], from[2];
        if (pipe(to) != 0 || pipe(from) != 0)
            return pl_fail(PL_ERR_OS, "cannot make a pipe to the workers");
        group g = {.first = first,
                   .n = l->workers - first < GROUP ? l->workers - first : GROUP,
                   .bytes = l->bytes,
                   .rounds = l->rounds,
                   .home = h->address,
                   .keys = *keys};
        const pid_t pid = fork();
        if (pid < 0)
            return pl_fail(PL_ERR_OS, "cannot start the processes of the workers");
        if (pid == 0) {
            /* connects, says so, waits for a byte, works, writes the tally */
            tally t = {0};
            const double cpu_s = measure_cpu_s(0);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            measure_need(pl_parallel((int)g.n, (size_t)g.n, connect_worker, &g));
            if (write(from[1], &byte, 1) != 1 || read(to[0], &byte, 1) != 1)
                _exit(1);
            measure_need(pl_parallel((int)g.n, (size_t)g.n, run_worker, &g));
            for (int i = 0; i < g.n; i++) {
                pl_link link;
                pl_client_link(g.clients[i], &link);
                t.repeated += link.repeated_bytes;
                t.connects += link.n_connects;
            }
            t.cpu_s = measure_cpu_s(0) - cpu_s;
            _exit(write(from[1], &t, sizeof t) == sizeof t ? 0 : 1);
        }
        close(to[0]);
        close(from[1]);
        l->to[l->n_groups] = to[1];
        l->from[l->n_groups++] = from[0];
    }
    for (int i = 0; i < l->n_groups; i++)
        if (read(l->from[i], &byte, 1) != 1)
            return pl_fail(PL_ERR_NET, "a process of the workers has ended");
    const double connected = measure_memory(h->pid, "VmRSS:"), start = pl_now(),
                 cpu_s = measure_cpu_s(h->pid), carried = carried_bytes();
    for (int i = 0; i < l->n_groups; i++)
        if (write(l->to[i], &byte, 1) != 1)
            return pl_fail(PL_ERR_NET, "a process of the workers has ended");
    for (int i = 0; i < l->n_groups; i++) {
        tally t;
        if (read(l->from[i], &t, sizeof t) != sizeof t)
            return pl_fail(PL_ERR_NET, "a worker has failed");
        sum.repeated += t.repeated;
        sum.connects += t.connects;
        sum.cpu_s += t.cpu_s;
    }
    const double s = pl_now() - start, wire = carried_bytes() - carried;
    const double home_s = measure_cpu_s(h->pid) - cpu_s;
    const double moved = 2.0 * (double)(l->workers * l->rounds * l->bytes);
    say("%lld workers, %.2f MB up and down each: %.1f s, %.1f MB/s",
        (long long)l->workers, 1e-6 * (double)(l->rounds * l->bytes), s,
        1e-6 * moved / s);
    say("  loopback carried %.1f MB/s (%.3f times the objects); sent or fetched "
        "again: %.3f MB; connections: %llu",
        1e-6 * wire / s, wire / moved, 1e-6 * (double)sum.repeated,
        (unsigned long long)sum.connects);
    say("  home: %.0f %% of a core, %.2f ms per MB; %.0f KB per connected worker, "
        "%.0f MiB at most",
        1e2 * home_s / s, 1e9 * home_s / moved,
        1e-3 * (connected - before) / (double)l->workers,
        measure_memory(h->pid, "VmHWM:") / 1048576);
    say("  workers: %.0f %% of a core", 1e2 * sum.cpu_s / s);
    return PL_OK;
}

pl_status measure_home(const measure_load *o)
{
    load l = {.workers = o->workers, .bytes = o->bytes, .rounds = o->rounds};
    char folder[PL_PATH_MAX];
    home_process h = {0};
    pl_keypair server, client;
    PL_CHECK(measure_make_folder("bench-home-XXXXXX", folder));
    pl_keypair_create(&server);
    pl_keypair_create(&client);
    pl_status status =
        home_process_start(&h, folder, &server, &client.open, staging_bytes);
    if (status == PL_OK)
        status = run_home_load(&l, &h, &client);
    home_process_end(&h);
    if (pl_remove_tree(folder) != PL_OK)
        say("%s stays", folder);
    return status;
}
