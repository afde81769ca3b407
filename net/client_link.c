/* What a client measures of its connections to the homes: bytes. */
#include "net/client_internal.h"

void pl_client_link(const pl_client *c, pl_link *out)
{
    *out = (pl_link){0};
    for (int i = 0; i < c->n_homes; i++) {
        if (!c->sockets[i])
            continue;
        out->up_bytes += pl_wire_bytes_sent(c->sockets[i]);
        out->down_bytes += pl_wire_bytes_received(c->sockets[i]);
    }
}
