/* Measures what each connection of a client carries, and computes from that how many
 * bytes of a transfer are under way at once (the window).
 *
 * A window of rate * round trip, and one piece because a piece is answered only when it
 * has come whole, keeps a link busy; more would only wait in a queue, in front of other
 * messages. The rate is the one that transfers reach, measured like
 * BBR does (Cardwell et al. 2016, BBR: congestion-based congestion control): the bytes
 * that were answered between the sending of a piece and its answer, by that time. Twice
 * the product leaves room to find out that the link is faster. */
#include "net/client_internal.h"
#include <math.h>

enum {
    WINDOW_MAX = CLIENT_PIECES_MAX * CLIENT_PIECE_MIN,
    /* time that a process may take to answer, because it has other work */
    TURN_US = 10000,
    /* Pieces are so large that at least this many pass per second. Large pieces cost
     * less: a home reads a chunk of 1 MiB from its store for each piece. */
    PIECES_PER_S = 16,
    FALL = 16 /* the measured rate falls by 1/FALL of the difference per piece */
};

void client_line_note(client_line *l, bool up, uint64_t bytes, double seconds)
{
    double *rate = up ? &l->link.up_bytes_per_s : &l->link.down_bytes_per_s;
    if (seconds <= 0)
        return;
    if (l->answer_us == 0 || seconds * 1e6 < l->answer_us)
        l->answer_us = (uint32_t)(seconds * 1e6) + 1;
    double now = (double)bytes / seconds;
    if (now > *rate)
        *rate = now;
    else if (bytes >= CLIENT_PIECE_MIN) /* fewer bytes say nothing about the rate */
        *rate += (now - *rate) / FALL;
}

size_t client_piece_bytes(const client_line *l, bool up)
{
    const double rate = up ? l->link.up_bytes_per_s : l->link.down_bytes_per_s;
    const double wanted = rate / PIECES_PER_S;
    size_t bytes = CLIENT_PIECE_MIN;
    while (bytes < CLIENT_PIECE_MAX && 2 * (double)bytes <= wanted)
        bytes *= 2;
    return bytes;
}

size_t client_window_bytes(pl_client *c, int home, bool up)
{
    const client_line *l = &c->lines[home];
    pl_wire_line line;
    pl_wire_line_now(c->sockets[home], &line);
    const double round_trip_us = line.rtt_us ? line.rtt_us : l->answer_us;
    const size_t piece = client_piece_bytes(l, up), least = 2 * piece;
    const double rate = up ? l->link.up_bytes_per_s : l->link.down_bytes_per_s;
    const double wanted = 2 * rate * (round_trip_us + TURN_US) / 1e6 + (double)piece;
    if (wanted < (double)least)
        return least;
    return wanted < WINDOW_MAX ? (size_t)wanted : WINDOW_MAX;
}

void pl_client_link(const pl_client *c, pl_link *out)
{
    uint64_t most = 0;
    *out = (pl_link){0};
    for (int i = 0; i < c->n_homes; i++) {
        pl_wire_line line;
        const pl_link *one = &c->lines[i].link;
        pl_wire_line_now(c->sockets[i], &line);
        out->up_bytes += one->up_bytes;
        out->down_bytes += one->down_bytes;
        out->repeated_bytes += one->repeated_bytes;
        out->n_connects += (uint32_t)line.n_connects;
        out->n_full += one->n_full;
        if (one->up_bytes + one->down_bytes < most)
            continue;
        most = one->up_bytes + one->down_bytes;
        uint32_t us = line.rtt_us ? line.rtt_us : c->lines[i].answer_us;
        const double *direct = c->lines[i].direct_rate;
        out->up_bytes_per_s = fmax(one->up_bytes_per_s, direct[1]);
        out->down_bytes_per_s = fmax(one->down_bytes_per_s, direct[0]);
        out->rtt_ms = us / 1000 + (us % 1000 > 0);
    }
}
