/* Private to the client: its connections to the homes. */
#ifndef PL_NET_CLIENT_INTERNAL_H
#define PL_NET_CLIENT_INTERNAL_H
#include "net/client.h"
#include "net/submission.h"

enum { SLICE_MS = 100, RESEND_MS = 2000, RESEND_MAX_MS = 16000 };

/* Decides when messages are sent again: a single question, all parts of a task, or
 * pieces of a blob. Messages are sent again after RESEND_MS without an answer, and the
 * wait doubles each time, so that a slow connection does not carry everything twice. If
 * a connection broke, everything that was under way is lost, so all is sent again at
 * once. The client's patience counts from the last progress. */
typedef struct client_retry {
    int64_t sent_ms; /* when the messages were last sent; 0: not yet */
    int64_t heard_ms, again_ms;
} client_retry;

struct pl_client {
    /* a socket is NULL if the home's address is not known */
    pl_socket *sockets[PL_HOMES_MAX];
    int n_homes, patience_ms;
    const pl_keypair *keys;
    /* the table from which the client knows which home to ask first */
    pl_places places;
    /* names that do not follow the table because they have moved: name -> home */
    pl_name_table *moved;
    pl_status (*idle)(void *context);
    void *idle_context;
    /* the lease under which updates are sent; len 0: no lease */
    pl_submission_lease lease;
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
/* Reads a MOVED answer and remembers it. ERR_NOT_FOUND if the address of the new home
 * is not known. */
pl_status client_learn(pl_client *c, pl_message *moved);
/* Does what client_learn does, then pauses before the question is repeated, because for
 * a moment neither home answers for a name that is being moved. `since_ms`: when the
 * question was first asked. */
pl_status client_follow(pl_client *c, pl_message *moved, int64_t since_ms);
/* Asks a home one question; the answer may be MOVED. */
pl_status client_ask(pl_client *c, pl_socket *socket, pl_message *question,
                     pl_message *answer);

/* Asks home `home`, or the home of `name` if it is HOME_OF_NAME. The answer is read
 * into `to` by its table of fields (NULL: not read); its texts and bytes are valid only
 * until the answer is freed. Frees the question. */
enum { HOME_OF_NAME = -1 };
pl_status client_query(pl_client *c, int home, const char *name, pl_message *question,
                       const pl_field *fields, void *to);

client_retry client_retry_begin(void);
/* Whether to send the messages now; if so, counts them as sent. `anew`: the connection
 * is new. */
bool client_retry_due(client_retry *r, bool anew);
/* ERR_TIMEOUT if nothing was heard for longer than the client's patience_ms. */
pl_status client_retry_patience(const client_retry *r, const pl_client *c);

/* Waits up to SLICE_MS for a message; ERR_TIMEOUT if none came. */
pl_status client_wait_slice(pl_client *c, pl_socket *socket, pl_message *answer);
/* Returns the status in an answer ERR; PL_OK for any other answer. */
pl_status client_as_status(pl_message *answer);
/* Appends a blob. `home` is the number of the home to ask; HOME_OF_NAME: the home of
 * `name`. */
pl_status client_get_blob(pl_client *c, int home, const char *name, const pl_hash *blob,
                          pl_buf *out);
/* `impatient`: returns ERR_BUSY at once if the home has no room. */
pl_status client_put_known_blob(pl_client *c, int home, const void *data,
                                uint64_t bytes, const pl_hash *blob, bool impatient);
void client_put_submission(const pl_client *c, pl_message *q, const pl_submission *s);
void client_put_path(const pl_client *c, pl_message *q, const pl_path_state *state,
                     bool together);
/* Reads the answer SUBMITTED; `text` gets its reason, or "". */
pl_status client_read_result(pl_message *answer, pl_submit_result *result,
                             char text[256]);

#endif
