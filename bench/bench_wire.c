/* bench_wire: measures bytes per second through one connection, over loopback.
 *
 *   bench_wire bytes=67108864
 *
 * Sends `bytes` bytes as messages of 64 KiB from a client to a server in the same
 * process, and prints the rate at which they arrive. Checksums are included, so this is
 * the rate between a worker and a home. On a slower link (bench/link.sh) it is the rate
 * of the link. */
#include "base/base.h"
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 16, WINDOW = 8, TYPE = 900, PATIENCE_MS = 30000 };

typedef struct bench {
    pl_socket *server, *client;
    pl_message out, in;
    int64_t bytes, sent, received;
} bench;

/* Keeps a few messages on their way: enough to fill a link, but so few that the link
 * and not the memory is measured. */
static pl_status send_wire_window(bench *b)
{
    static const uint8_t zeros[PIECE];
    while (b->sent < b->bytes && b->sent - b->received < (int64_t)WINDOW * PIECE) {
        int64_t left = b->bytes - b->sent;
        size_t n = left < PIECE ? (size_t)left : PIECE;
        pl_buf_clear(&b->out.data);
        pl_buf_append(&b->out.data, zeros, n);
        b->out.request = pl_wire_next_request();
        PL_CHECK(pl_wire_send(b->client, &b->out));
        b->sent += (int64_t)n;
    }
    return PL_OK;
}

static pl_status take_arrived(bench *b)
{
    bool ready;
    pl_peer peer;
    if (pl_wire_poll(&b->server, 1, NULL, 0, PATIENCE_MS, &ready) == 0)
        return pl_fail(PL_ERR_TIMEOUT,
                       "nothing arrived within %d s; check that the loopback interface "
                       "is up (`ip link set lo up`)",
                       PATIENCE_MS / 1000);
    pl_status status = pl_wire_recv(b->server, &peer, &b->in);
    if (status == PL_ERR_TIMEOUT)
        return PL_OK; /* the descriptor was ready, but no whole message had arrived */
    PL_CHECK(status);
    b->received += (int64_t)b->in.data.len;
    return PL_OK;
}

static pl_status run_wire_bench(bench *b)
{
    char bound[PL_ADDRESS_MAX];
    PL_CHECK(pl_wire_bind("tcp://127.0.0.1:*", &b->server, bound));
    PL_CHECK(pl_wire_connect(bound, &b->client));
    pl_message_init(&b->out, TYPE);
    pl_message_init(&b->in, 0);
    double start = pl_now();
    while (b->received < b->bytes) {
        PL_CHECK(send_wire_window(b));
        PL_CHECK(take_arrived(b));
    }
    double seconds = pl_now() - start;
    printf("bytes=%lld seconds=%.3f mbit_per_second=%.2f\n", (long long)b->received,
           seconds, (double)b->received * 8e-6 / seconds);
    return PL_OK;
}

int main(int argc, char **argv)
{
    bench b;
    memset(&b, 0, sizeof b);
    b.bytes = 64 << 20;
    if (argc > 2 ||
        (argc == 2 && (!pl_starts_with(argv[1], "bytes=") ||
                       pl_parse_int(argv[1] + 6, &b.bytes) != PL_OK || b.bytes < 1))) {
        fprintf(stderr, "usage: bench_wire [bytes=N]\n");
        return 64;
    }
    pl_status status = run_wire_bench(&b);
    pl_message_destroy(&b.out);
    pl_message_destroy(&b.in);
    pl_wire_close(&b.client);
    pl_wire_close(&b.server);
    pl_wire_shutdown();
    if (status != PL_OK)
        fprintf(stderr, "bench_wire: %s\n", pl_last_error());
    return pl_status_exit_code(status);
}
