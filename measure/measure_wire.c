/* pathloom bench wire: measures what a transfer and its encryption cost over loopback.
 *
 * Each round measures all transfers in turn, so that other work on the machine affects
 * all of them. The first is messages alone: pieces of 64 KiB with checksums, from one
 * socket of this process to another, not encrypted. The other three send a module to
 * another process through the code of home and worker, with checksums and content
 * hashes, with and without encryption (CURVE): up into the home's memory (PUT_BLOB), up
 * and committed by the home's store (PUT_OBJECT), and down from the home's store
 * (GET_BLOB). The table has the median rate, the processor time of both processes, and
 * the median of the ratio rate / (rate of messages alone in the same round). */
#include "measure/measure.h"
#include "measure/home_process.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    FRAME = 1 << 20, /* each of these parts of a module gets new bytes in each round */
    PIECE = 1 << 16,
    WINDOW = 8, /* messages under way: enough to fill a link, but not the memory */
    TYPE = 900,
    ROUNDS_MAX = 99,
    PATIENCE_MS = 60000,
    SETTLE_MS = 300
};

typedef enum what { MESSAGES, UP, UP_STORED, DOWN, N_WHAT } what;

static const char *const names[N_WHAT] = {"messages alone", "up, into memory",
                                          "up, committed", "down"};

typedef struct bench {
    int64_t bytes, rounds;
    char folder[PL_PATH_MAX];
    pl_keypair server, client;
    uint8_t *data;
    home_process home[2]; /* [0]: plain, [1]: encrypted */
    pl_client *clients[2];
    pl_hash stored[2];
    pl_buf got;
    /* [kind of transfer][encryption][round]; share: of the rate of messages alone */
    double rate[N_WHAT][2][ROUNDS_MAX], cpu[N_WHAT][2][ROUNDS_MAX],
        share[N_WHAT][2][ROUNDS_MAX];
} bench;

static pl_status send_messages(const bench *b)
{
    pl_socket *server = NULL, *client = NULL;
    pl_message out = {.type = TYPE}, in = {0};
    int64_t sent = 0, received = 0;
    char bound[PL_ADDRESS_MAX];
    bool ready;
    pl_peer peer;
    pl_status status = PL_OK;
    PL_TRY(pl_wire_bind("tcp://127.0.0.1:*", &server, bound));
    PL_TRY(pl_wire_connect(bound, &client));
    while (received < b->bytes) {
        while (sent < b->bytes && sent - received < (int64_t)WINDOW * PIECE) {
            const int64_t left = b->bytes - sent;
            const size_t n = left < PIECE ? (size_t)left : PIECE;
            pl_buf_clear(&out.data);
            pl_buf_append(&out.data, b->data + sent, n);
            out.request = pl_wire_next_request();
            PL_TRY(pl_wire_send(client, &out));
            sent += (int64_t)n;
        }
        if (pl_wire_poll(&server, 1, NULL, 0, PATIENCE_MS, &ready) == 0)
            PL_TRY(pl_fail(
                PL_ERR_TIMEOUT,
                "nothing arrived within %d s; check that the loopback interface "
                "is up (`ip link set lo up`)",
                PATIENCE_MS / 1000));
        status = pl_wire_recv(server, &peer, &in);
        if (status == PL_ERR_TIMEOUT)
            continue; /* the descriptor was ready, but no whole message had arrived */
        PL_TRY(status);
        received += (int64_t)in.data.len;
    }
done:
    pl_message_destroy(&out);
    pl_message_destroy(&in);
    pl_wire_close(&client);
    pl_wire_close(&server);
    return status;
}

/* ---- rounds ---- */
static pl_status run_turn(bench *b, what w, bool curve)
{
    pl_client *c = b->clients[curve];
    uint64_t bytes = (uint64_t)b->bytes;
    pl_hash hash;
    switch (w) {
    case MESSAGES:
        return send_messages(b);
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

/* The processor time of this process and of the home; 0: there is no home. */
static double cpu_of_both(pid_t home)
{
    return measure_cpu_s(0) + (home > 0 ? measure_cpu_s(home) : 0);
}

/* Prints the medians of a row, whose values get sorted. */
static void print_row(bench *b, what w, bool curve)
{
    double *rate = b->rate[w][curve], *cpu = b->cpu[w][curve],
           *share = b->share[w][curve];
    const size_t n = (size_t)b->rounds;
    measure_sort(rate, n);
    measure_sort(cpu, n);
    measure_sort(share, n);
    say("%-16s %-12s %8.1f MB/s %9.2f Mbit/s %6.2f ms of CPU per MB %5.0f %%", names[w],
        curve ? "CURVE" : "unencrypted", 1e-6 * rate[n / 2], 8e-6 * rate[n / 2],
        1e9 * cpu[n / 2], 100 * share[n / 2]);
}

/* forks homes before it has sockets: a fork cannot use ZeroMQ's threads */
static pl_status run_wire_bench(bench *b, bool homes)
{
    pl_status status = PL_OK;
    for (int curve = 0; homes && curve < 2; curve++) {
        char folder[PL_PATH_MAX];
        pl_join(folder, b->folder, curve ? "encrypted" : "plain");
        PL_TRY(home_process_start(&b->home[curve], folder, &b->server,
                                  curve ? &b->client.open : NULL, 8ull << 30));
    }
    for (int curve = 0; homes && curve < 2; curve++) {
        const char *address = b->home[curve].address;
        pl_client_options options = {.homes = &address,
                                     .n_homes = 1,
                                     .keys = &b->client,
                                     .patience_ms = PATIENCE_MS};
        PL_TRY(pl_client_create(&options, &b->clients[curve]));
    }
    for (int round = 0; round < b->rounds; round++) {
        for (int w = MESSAGES; w < N_WHAT && (homes || w == MESSAGES); w++)
            for (int curve = 0; curve < (w == MESSAGES ? 1 : 2); curve++) {
                const pid_t other = b->home[curve].pid;
                /* new bytes, which the home does not have yet */
                const int64_t n_new = w == DOWN ? 0 : b->bytes;
                for (int64_t at = 0; at < n_new; at += FRAME)
                    b->data[at]++;
                const double start = pl_now(), cpu = cpu_of_both(other);
                PL_TRY(run_turn(b, (what)w, curve != 0));
                b->rate[w][curve][round] = (double)b->bytes / (pl_now() - start);
                b->cpu[w][curve][round] = (cpu_of_both(other) - cpu) / (double)b->bytes;
                /* A home frees an upload when the upload is committed. Without this
                 * commit each round would need new memory, and the system's time for
                 * providing new memory would be measured too. */
                if (w == UP)
                    PL_TRY(run_turn(b, UP_STORED, curve != 0));
                if (w == UP || w == UP_STORED)
                    pl_sleep_ms(SETTLE_MS); /* the home may still write to its disk */
                b->share[w][curve][round] =
                    b->rate[w][curve][round] / b->rate[MESSAGES][0][round];
            }
    }
    print_row(b, MESSAGES, false);
    for (int i = 0; homes && i < 2 * (N_WHAT - 1); i++)
        print_row(b, (what)(1 + i % (N_WHAT - 1)), i >= N_WHAT - 1);
done:
    for (int curve = 0; curve < 2; curve++) {
        pl_client_destroy(&b->clients[curve]);
        home_process_end(&b->home[curve]);
    }
    pl_buf_destroy(&b->got);
    return status;
}

pl_status measure_wire(const measure_transfers *o)
{
    pl_status status = PL_OK;
    bench *b = pl_alloc(sizeof *b);
    b->bytes = o->bytes;
    b->rounds = o->rounds;
    PL_TRY(pl_try_alloc((size_t)b->bytes, "the bytes to send", (void **)&b->data));
    PL_TRY(measure_make_folder("bench-wire-XXXXXX", b->folder));
    pl_keypair_create(&b->server);
    pl_keypair_create(&b->client);
    measure_fill(b->data, (uint64_t)b->bytes, 1, 2);
    status = run_wire_bench(b, !o->messages);
    if (pl_remove_tree(b->folder) != PL_OK)
        say("%s stays", b->folder);
done:
    pl_free_all(b->data, b);
    return status;
}
