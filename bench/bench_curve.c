/* bench_curve: measures what a transfer and its encryption cost, between two processes
 * over loopback.
 *
 *   bench_curve [bytes=N] [rounds=R]
 *
 * Each round measures four transfers in turn, with and without encryption (CURVE), so
 * that other work on the machine affects all of them. The first is ZeroMQ alone:
 * messages of one frame, several of them sent before an answer. The other three send a
 * module of N bytes through the code of home and worker, with checksums and content
 * hashes: up into the home's memory (PUT_BLOB), up and committed by the home's store
 * (PUT_OBJECT), and down from the home's store (GET_BLOB). The program prints the
 * median rate, the processor time of both processes, and the median of the ratio rate /
 * (rate of ZeroMQ alone with encryption in the same round). */
#include "bench/home_process.h"
#include "bench/need.h"

#include <string.h>
#include <zmq.h>

enum {
    FRAME = 1 << 20,
    WINDOW = 8,
    ROUNDS_MAX = 99,
    PATIENCE_MS = 60000,
    SETTLE_MS = 300
};

typedef enum what { RAW, UP, UP_STORED, DOWN, N_WHAT } what;

static const char *const names[N_WHAT] = {"ZeroMQ alone", "up, into memory",
                                          "up, committed", "down"};

typedef struct bench {
    int64_t bytes, rounds;
    char folder[64];
    pl_keypair server, client;
    uint8_t *data;
    home_process raw[2], home[2]; /* [0]: plain, [1]: encrypted */
    pl_client *clients[2];        /* of the homes */
    pl_hash stored[2];
    pl_buf got;
    /* The indices are kind of transfer, encryption, round. share: rate / rate of ZeroMQ
     * alone with CURVE in the same round */
    double rate[N_WHAT][2][ROUNDS_MAX], cpu[N_WHAT][2][ROUNDS_MAX],
        share[N_WHAT][2][ROUNDS_MAX];
} bench;

/* Returns the processor time of this process and of the child. */
static double cpu_seconds(pid_t child)
{
    return processor_seconds() + home_process_cpu_s(child);
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

/* Receives frames and answers each with one byte, until the process is killed. */
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

static void raw_turn(const bench *b, bool curve)
{
    char small[8];
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    int64_t sent = 0, taken = 0, n = b->bytes / FRAME;
    raw_options(socket, curve ? &b->client : NULL, curve ? &b->server.open : NULL);
    zmq_connect(socket, b->raw[curve].address);
    while (taken < n) {
        for (; sent < n && sent - taken < WINDOW; sent++)
            zmq_send(socket, b->data + sent * FRAME, FRAME, 0);
        zmq_recv(socket, small, sizeof small, 0);
        taken++;
    }
    int none = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_close(socket);
    zmq_ctx_term(context);
}

static pl_status start_raw(bench *b, bool curve)
{
    home_process *s = &b->raw[curve];
    int ends[2];
    if (pipe(ends) != 0)
        return pl_fail(PL_ERR_OS, "cannot make a pipe to the ZeroMQ server");
    s->pid = fork();
    if (s->pid == 0)
        raw_server(b, curve, ends[1]);
    close(ends[1]);
    ssize_t n = read(ends[0], s->address, sizeof s->address - 1);
    close(ends[0]);
    return n > 0 ? PL_OK
                 : pl_fail(PL_ERR_NET, "the ZeroMQ server cannot listen on 127.0.0.1");
}

/* ---- home and worker ---- */
static pl_status connect_home(bench *b, bool curve)
{
    const char *homes[] = {b->home[curve].address};
    pl_client_options options = {
        .homes = homes, .n_homes = 1, .keys = &b->client, .patience_ms = PATIENCE_MS};
    return pl_client_create(&options, &b->clients[curve]);
}

/* ---- rounds ---- */
static pl_status run_turn(bench *b, what w, bool curve)
{
    pl_client *c = b->clients[curve];
    uint64_t bytes = (uint64_t)b->bytes;
    pl_hash hash;
    switch (w) {
    case RAW:
        raw_turn(b, curve);
        return PL_OK;
    case UP:
        return pl_client_put_blob(c, "bench", b->data, bytes, &hash);
    case UP_STORED:
        return pl_client_put_object(c, "bench", b->data, bytes, &b->stored[curve]);
    case DOWN:
        pl_buf_clear(&b->got);
        return pl_client_get_blob(c, "bench", &b->stored[curve], &b->got);
    case N_WHAT:
    default:
        return PL_OK;
    }
}

static pl_status measure_turn(bench *b, what w, bool curve, int round)
{
    pid_t other = w == RAW ? b->raw[curve].pid : b->home[curve].pid;
    if (w != DOWN) /* new bytes, which the home does not have yet */
        for (int64_t at = 0; at < b->bytes; at += FRAME)
            b->data[at]++;
    double start = pl_now(), cpu = cpu_seconds(other);
    PL_CHECK(run_turn(b, w, curve));
    b->rate[w][curve][round] = (double)b->bytes / (pl_now() - start);
    b->cpu[w][curve][round] = (cpu_seconds(other) - cpu) / (double)b->bytes;
    /* A home frees an upload when the upload is committed. Without this commit each
     * round would need new memory, and the system's time for providing new memory would
     * be measured too. */
    if (w == UP)
        PL_CHECK(run_turn(b, UP_STORED, curve));
    if (w == UP || w == UP_STORED)
        pl_sleep_ms(SETTLE_MS); /* the home may still be writing to its disk */
    return PL_OK;
}

static int by_rate(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static double median(const double *values, int n)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_rate);
    return sorted[n / 2];
}

static void print_curve_row(const bench *b, what w, bool curve)
{
    int n = (int)b->rounds;
    printf(
        "%-16s %-12s %6.0f MB/s %6.2f ms of CPU per MB %5.0f %% of ZeroMQ with CURVE\n",
        names[w], curve ? "CURVE" : "unencrypted", 1e-6 * median(b->rate[w][curve], n),
        1e9 * median(b->cpu[w][curve], n), 100 * median(b->share[w][curve], n));
}

/* Forks all other processes before this process has sockets, because a forked process
 * cannot use ZeroMQ's threads. */
static pl_status run_curve_rounds(bench *b)
{
    char folder[128];
    pl_status status = PL_OK;
    for (int curve = 0; curve < 2; curve++) {
        PL_TRY(start_raw(b, curve != 0));
        snprintf(folder, sizeof folder, "%s/home%d", b->folder, curve);
        PL_TRY(home_process_start(&b->home[curve], folder, &b->server,
                                  curve ? &b->client.open : NULL, 8ull << 30));
    }
    for (int curve = 0; curve < 2; curve++)
        PL_TRY(connect_home(b, curve != 0));
    for (int round = 0; round < b->rounds; round++) {
        for (int w = 0; w < N_WHAT; w++)
            for (int curve = 0; curve < 2; curve++)
                PL_TRY(measure_turn(b, (what)w, curve != 0, round));
        for (int w = 0; w < N_WHAT; w++)
            for (int curve = 0; curve < 2; curve++)
                b->share[w][curve][round] =
                    b->rate[w][curve][round] / b->rate[RAW][1][round];
    }
    for (int i = 0; i < 2 * N_WHAT; i++)
        print_curve_row(b, (what)(i % N_WHAT), i >= N_WHAT);
done:
    for (int curve = 0; curve < 2; curve++) {
        pl_client_destroy(&b->clients[curve]);
        home_process_end(b->raw[curve].pid);
        home_process_end(b->home[curve].pid);
    }
    pl_buf_destroy(&b->got);
    return status;
}

static bool read_arguments(bench *b, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int64_t *to = pl_starts_with(argv[i], "bytes=")    ? &b->bytes
                      : pl_starts_with(argv[i], "rounds=") ? &b->rounds
                                                           : NULL;
        if (!to || pl_parse_int(strchr(argv[i], '=') + 1, to) != PL_OK)
            return false;
    }
    return b->bytes >= FRAME && b->rounds >= 1 && b->rounds <= ROUNDS_MAX;
}

int main(int argc, char **argv)
{
    static bench b = {.bytes = 64 << 20, .rounds = 7, .folder = "bench-curve-XXXXXX"};
    if (!read_arguments(&b, argc, argv)) {
        fprintf(stderr,
                "usage: bench_curve [bytes=N] [rounds=R]; N is at least %d, R is 1 to "
                "%d\n",
                FRAME, ROUNDS_MAX);
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
    pl_status status = run_curve_rounds(&b);
    if (status != PL_OK)
        fprintf(stderr, "bench_curve: %s\n", pl_last_error());
    if (pl_remove_tree(b.folder) != PL_OK)
        fprintf(stderr, "bench_curve: %s\n", pl_last_error());
    pl_free(b.data);
    return pl_status_exit_code(status);
}
