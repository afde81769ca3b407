/* Private to the client: its lines to the homes. */
#ifndef PL_OUTER_CLIENT_PARTS_H
#define PL_OUTER_CLIENT_PARTS_H
#include "outer/client.h"

enum { SLICE_MS = 100, RESEND_MS = 2000, RESEND_MAX_MS = 16000 };

struct pl_client {
    pl_socket *sockets[PL_HOMES_MAX];
    int n_homes, patience_ms;
    pl_status (*idle)(void *context);
    void *idle_context;
};

typedef struct client_blob {
    const void *data;
    uint64_t bytes;
    pl_hash hash;
} client_blob;

pl_socket *client_socket_of(const pl_client *c, const char *name);
/* Waits up to SLICE_MS for a message; ERR_TIMEOUT if none came. */
pl_status client_wait_slice(pl_client *c, pl_socket *socket, pl_message *answer);
/* What an ERR says; PL_OK for any other answer. */
pl_status client_as_status(pl_message *answer);
/* impatient: ERR_BUSY at once where there is no room, instead of waiting for it. */
pl_status client_put_known_blob(pl_client *c, int home, const void *data,
                                uint64_t bytes, const pl_hash *blob, bool impatient);
void client_put_submission(pl_message *q, const pl_submission *s);
void client_put_path(pl_buf *body, const pl_path_state *state);

#endif
