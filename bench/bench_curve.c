/* bench_curve: what encryption costs, between two processes over loopback.
 *
 *   bench_curve [bytes=N]
 *
 * First ZeroMQ alone, with and without CURVE: messages of one frame, a window of them
 * under way. Then a module of N bytes through the code of home and worker, checksums
 * and content hashes included: up (PUT_BLOB, into the home's memory) and down
 * (GET_BLOB, from its store). Printed are the best rate of a few turns, the processor
 * time of both processes (where others use the machine, that says more), and how much
 * of ZeroMQ's own encrypted rate it is. */
#include "outer/outer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { FRAME = 1 << 20, WINDOW = 8, TURNS = 3, PATIENCE_MS = 60000 };

typedef struct measured {
    double rate, cpu; /* bytes a second; processor seconds a byte, of both processes */
} measured;

typedef struct bench {
    int64_t bytes;
    char folder[64];
    pl_keypair server, client;
    uint8_t *data;
    double raw_curve; /* bytes a second */
} bench;

/* Of this process and the other one. */
static double cpu_seconds(pid_t child)
{
    struct timespec mine = {0}, other = {0};
    clockid_t of_child;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mine);
    if (clock_getcpuclockid(child, &of_child) == 0)
        clock_gettime(of_child, &other);
    return (double)(mine.tv_sec + other.tv_sec) +
           1e-9 * (double)(mine.tv_nsec + other.tv_nsec);
}

/* The best of a few turns: others use the machine, too. */
static void keep_best(measured *m, double bytes, double seconds, double cpu)
{
    if (bytes / seconds > m->rate)
        m->rate = bytes / seconds;
    if (m->cpu <= 0 || cpu / bytes < m->cpu)
        m->cpu = cpu / bytes;
}

/* ---- ZeroMQ alone ---- */
static void raw_options(void *socket, const pl_keypair *own, const pl_pubkey *server)
{
    int on = 1;
    if (own && !server)
        zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &on, sizeof on);
    if (own)
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, own->secret, PL_PUBKEY_BYTES);
    if (server) {
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, own->open.bytes, PL_PUBKEY_BYTES);
        zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server->bytes, PL_PUBKEY_BYTES);
    }
}

/* Takes what comes and says so, one byte for a frame, until it is killed. */
static void raw_server(const bench *b, bool curve, int address_to)
{
    char at[256], small[1] = {0};
    size_t size = sizeof at;
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    raw_options(socket, curve ? &b->server : NULL, NULL);
    if (zmq_bind(socket, "tcp://127.0.0.1:*") != 0 ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, at, &size) != 0 ||
        write(address_to, at, size) != (ssize_t)size)
        _exit(1);
    for (;;) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, socket, 0) < 0)
            _exit(1);
        zmq_msg_close(&frame);
        zmq_send(socket, small, 1, 0);
    }
}

static void raw_turn(const bench *b, bool curve, const char *at, pid_t child,
                     measured *m)
{
    char small[8];
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    int64_t sent = 0, taken = 0, n = b->bytes / FRAME;
    raw_options(socket, curve ? &b->client : NULL, curve ? &b->server.open : NULL);
    zmq_connect(socket, at);
    zmq_send(socket, small, 1, 0); /* the handshake is not measured */
    zmq_recv(socket, small, sizeof small, 0);
    double start = pl_now(), cpu = cpu_seconds(child);
    while (taken < n) {
        for (; sent < n && sent - taken < WINDOW; sent++)
            zmq_send(socket, b->data + sent * FRAME, FRAME, 0);
        zmq_recv(socket, small, sizeof small, 0);
        taken++;
    }
    keep_best(m, (double)n * FRAME, pl_now() - start, cpu_seconds(child) - cpu);
    int none = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_close(socket);
    zmq_ctx_term(context);
}

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static measured run_raw(const bench *b, bool curve)
{
    char at[256] = "";
    int ends[2];
    measured m = {0, 0};
    if (pipe(ends) != 0)
        return m;
    pid_t child = fork();
    if (child == 0)
        raw_server(b, curve, ends[1]);
    if (read(ends[0], at, sizeof at) > 0)
        for (int i = 0; i < TURNS; i++)
            raw_turn(b, curve, at, child, &m);
    end_child(child);
    close(ends[0]);
    close(ends[1]);
    return m;
}

/* ---- home and worker ---- */
static void no_word(const pl_refusal *refusal)
{
    (void)refusal;
}

static pl_status put_entry(pl_key_list *list, void *context)
{
    pl_key_list_put(list, context);
    return PL_OK;
}

static void run_home(const bench *b, bool curve, const char *ready)
{
    char store[128], list[128];
    static volatile sig_atomic_t stop;
    pl_key_entry e = {.key = b->client.open, .role = PL_AS_ADMIN, .name = "bench"};
    snprintf(store, sizeof store, "%s/store", b->folder);
    snprintf(list, sizeof list, "%s/allow", b->folder);
    pl_gate_options gate = {
        .own = &b->server, .list = list, .may = pl_role_allows, .on_refused = no_word};
    pl_home_options options = {.store = store,
                               .bind = "tcp://127.0.0.1:*",
                               .ready_file = ready,
                               .staging_bytes = 8ull << 30,
                               .stop = &stop};
    pl_log_open("home", PL_LOG_WARN, false);
    pl_wire_keys(&b->server);
    if (curve && (pl_key_list_edit(list, put_entry, &e) != PL_OK ||
                  pl_gate_open(&gate) != PL_OK))
        _exit(1);
    if (pl_home_run(&options) != PL_OK)
        fprintf(stderr, "home: %s\n", pl_last_error());
    _exit(1);
}

static pl_status ask_home(bench *b, const char *ready, pid_t home, measured *up,
                          measured *down)
{
    pl_client *client = NULL;
    pl_hash blob;
    pl_buf address = {0}, got = {0};
    pl_status status = PL_OK;
    for (int i = 0; !pl_path_exists(ready) && i < 500; i++)
        pl_sleep_ms(10);
    PL_TRY(pl_read_file(ready, &address));
    const char *homes[] = {pl_buf_text(&address)};
    pl_client_options options = {
        .homes = homes, .n_homes = 1, .patience_ms = PATIENCE_MS};
    PL_TRY(pl_client_create(&options, &client));
    for (int i = 0; i < TURNS; i++) {
        b->data[0]++; /* another blob */
        double start = pl_now(), cpu = cpu_seconds(home);
        PL_TRY(pl_client_put_blob(client, "bench", b->data, (uint64_t)b->bytes, &blob));
        keep_best(up, (double)b->bytes, pl_now() - start, cpu_seconds(home) - cpu);
    }
    PL_TRY(pl_client_put_object(client, "bench", b->data, (uint64_t)b->bytes, &blob));
    for (int i = 0; i < TURNS; i++) {
        pl_buf_clear(&got);
        double start = pl_now(), cpu = cpu_seconds(home);
        PL_TRY(pl_client_get_blob(client, "bench", &blob, &got));
        keep_best(down, (double)b->bytes, pl_now() - start, cpu_seconds(home) - cpu);
    }
done:
    pl_client_destroy(&client);
    pl_buf_destroy(&address);
    pl_buf_destroy(&got);
    return status;
}

static pl_status run_home_and_worker(bench *b, bool curve, measured *up, measured *down)
{
    char ready[128];
    snprintf(ready, sizeof ready, "%s/ready", b->folder);
    PL_RETURN_IF(pl_remove_tree(b->folder));
    PL_RETURN_IF(pl_make_folders(b->folder));
    pid_t child = fork();
    if (child == 0)
        run_home(b, curve, ready);
    pl_wire_keys(&b->client);
    *up = *down = (measured){0, 0};
    pl_status status = ask_home(b, ready, child, up, down);
    pl_wire_shutdown();
    end_child(child);
    return status;
}

/* ---- the table ---- */
static void row(const bench *b, const char *what, measured m)
{
    printf("%-30s %7.0f MB/s %7.2f ms of CPU a MB", what, m.rate / 1e6, 1e9 * m.cpu);
    if (b->raw_curve > 0)
        printf("  %4.0f %%", 100 * m.rate / b->raw_curve);
    printf("\n");
    fflush(stdout);
}

static pl_status run_all(bench *b)
{
    measured up, down, raw;
    row(b, "ZeroMQ, in the clear", run_raw(b, false));
    raw = run_raw(b, true);
    b->raw_curve = raw.rate;
    row(b, "ZeroMQ, CURVE", raw);
    PL_RETURN_IF(run_home_and_worker(b, false, &up, &down));
    row(b, "worker to home, in the clear", up);
    row(b, "home to worker, in the clear", down);
    PL_RETURN_IF(run_home_and_worker(b, true, &up, &down));
    row(b, "worker to home, CURVE", up);
    row(b, "home to worker, CURVE", down);
    return PL_OK;
}

int main(int argc, char **argv)
{
    bench b = {.bytes = 64 << 20, .folder = "bench-curve-XXXXXX"};
    if (argc > 2 || (argc == 2 && (!pl_starts_with(argv[1], "bytes=") ||
                                   pl_parse_int(argv[1] + 6, &b.bytes) != PL_OK ||
                                   b.bytes < FRAME))) {
        fprintf(stderr, "usage: bench_curve [bytes=N], N at least %d\n", FRAME);
        return 64;
    }
    if (!mkdtemp(b.folder))
        return 74;
    pl_keypair_create(&b.server);
    pl_keypair_create(&b.client);
    b.data = pl_alloc((size_t)b.bytes);
    for (int64_t i = 0; i + 16 <= b.bytes; i += 16) {
        uint32_t block[4];
        pl_philox(1, 2, (uint64_t)i, block);
        memcpy(b.data + i, block, sizeof block);
    }
    pl_status status = run_all(&b);
    if (status != PL_OK)
        fprintf(stderr, "bench_curve: %s\n", pl_last_error());
    if (pl_remove_tree(b.folder) != PL_OK)
        fprintf(stderr, "bench_curve: %s\n", pl_last_error());
    pl_free(b.data);
    return pl_status_exit_code(status);
}
