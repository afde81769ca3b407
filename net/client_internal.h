/* Private to the client: its connections to the homes. */
#ifndef PL_NET_CLIENT_INTERNAL_H
#define PL_NET_CLIENT_INTERNAL_H
#include "net/client.h"
#include "net/submission.h"

enum { SLICE_MS = 100, RESEND_MS = 2000, RESEND_MAX_MS = 16000 };

/* When something is asked again, for single questions, for all of a task, and for
 * pieces of blobs. It is sent again after RESEND_MS without an answer, and the wait
 * doubles each time, so that a slow connection does not carry everything twice. A
 * connection that was made anew has lost what was under way, so all is sent at once.
 * The client's patience counts from the last progress. */
typedef struct client_retry {
    int64_t sent_ms; /* 0: not yet */
    int64_t heard_ms, again_ms;
} client_retry;

struct pl_client {
    pl_socket *sockets[PL_HOMES_MAX]; /* NULL: a home whose address is not known */
    int n_homes, patience_ms;
    const pl_keypair *keys;
    pl_places places;     /* the table that says which home to ask first, */
    pl_name_table *moved; /* and names that have moved since: name -> home */
    pl_status (*idle)(void *context);
    void *idle_context;
    pl_submission_lease lease; /* the lease under which updates are sent; len 0: none */
};

typedef struct client_blob {
    const void *data;
    uint64_t bytes;
    pl_hash hash;
} client_blob;

/* client_place.c */
enum { BOUNCE_MS = 50 };
int client_home_of(const pl_client *c, const char *name);
pl_socket *client_socket_of(const pl_client *c, const char *name);
/* Reads a MOVED answer. ERR_NOT_FOUND if its home is not known. */
pl_status client_learn(pl_client *c, pl_message *moved);
/* The same for a question that will be repeated, after a pause: a name that has just
 * moved is between two homes for a moment. `since_ms`: when the question was first
 * asked. */
pl_status client_follow(pl_client *c, pl_message *moved, int64_t since_ms);
/* Asks a home one question; the answer may be MOVED. */
pl_status client_ask(pl_client *c, pl_socket *socket, pl_message *question,
                     pl_message *answer);

/* The same of a home, or of the home of `name`; what the table says is read from the
 * answer (NULL: nothing). Texts and bytes do not outlive it. Takes the question. */
enum { HOME_OF_NAME = -1 };
pl_status client_query(pl_client *c, int home, const char *name, pl_message *question,
                       const pl_field *fields, void *to);

client_retry client_retry_begin(void);
/* Whether it is to be sent now; then it counts as sent. `anew`: the connection is new.
 */
bool client_retry_due(client_retry *r, bool anew);
/* ERR_TIMEOUT if there was no progress for as long as the client is patient. */
pl_status client_retry_patience(const client_retry *r, const pl_client *c);

/* Waits up to SLICE_MS for a message; ERR_TIMEOUT if none came. */
pl_status client_wait_slice(pl_client *c, pl_socket *socket, pl_message *answer);
/* The status of an ERR; PL_OK for any other answer. */
pl_status client_as_status(pl_message *answer);
/* Appends a blob. `home`: that one, which is not asked by name; HOME_OF_NAME: the home
 * of `name`. */
pl_status client_get_blob(pl_client *c, int home, const char *name, const pl_hash *blob,
                          pl_buf *out);
/* impatient: if there is no room, return ERR_BUSY at once and do not wait. */
pl_status client_put_known_blob(pl_client *c, int home, const void *data,
                                uint64_t bytes, const pl_hash *blob, bool impatient);
void client_put_submission(const pl_client *c, pl_message *q, const pl_submission *s);
void client_put_path(const pl_client *c, pl_message *q, const pl_path_state *state,
                     bool together);
/* What SUBMITTED says; "" if nothing. */
pl_status client_read_result(pl_message *answer, pl_submit_result *result,
                             char text[256]);

#endif
