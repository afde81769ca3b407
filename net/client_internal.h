/* Private to the client: its connections to the homes, and how it repeats questions. */
#ifndef PL_NET_CLIENT_INTERNAL_H
#define PL_NET_CLIENT_INTERNAL_H
#include "net/client.h"
#include "net/submission.h"

enum { SLICE_MS = 100, RESEND_MS = 2000, RESEND_MAX_MS = 16000 };

/* Determines when messages are sent again: a question, all questions of a task, or
 * pieces of a blob. Messages are sent again after RESEND_MS without an answer. The wait
 * (again_ms) doubles each time up to RESEND_MAX_MS, so that a slow connection does not
 * carry everything twice. If the connection broke, all messages under way are lost, so
 * they are sent again at once. The time limit patience_ms counts from the last answer
 * (heard_ms). */
typedef struct client_retry {
    int64_t sent_ms; /* when the messages were last sent; 0: not yet */
    int64_t heard_ms, again_ms;
} client_retry;

struct pl_client {
    /* a socket is NULL if the home's address is not known */
    pl_socket *sockets[PL_HOMES_MAX];
    int n_homes, patience_ms;
    const pl_keypair *keys;
    /* the table from which the client computes which home to ask first */
    pl_places places;
    /* homes of names that are not where the table says, because they have moved */
    pl_name_table *moved;
    pl_status (*idle)(void *context);
    void *idle_context;
    /* the largest blob that is accepted; 0: no limit */
    uint64_t blob_max;
    /* the last answer to client_query: texts of its fields point into it */
    pl_message answer;
    /* the lease that is sent with updates; len 0: no lease */
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
/* Reads a MOVED answer and remembers the new home of the name. ERR_NOT_FOUND if the
 * address of the new home is not known. */
pl_status client_learn(pl_client *c, pl_message *moved);
/* Does the same as client_learn, and then waits a little before the caller repeats the
 * question, because for a moment neither home answers for a name that is being moved.
 * `since_ms` is the time when the question was first asked. */
pl_status client_follow(pl_client *c, pl_message *moved, int64_t since_ms);
/* Asks a home one question; the answer may be MOVED. */
pl_status client_ask(pl_client *c, pl_socket *socket, pl_message *question,
                     pl_message *answer);

/* Asks home number `home`, or the home of `name` if `home` is HOME_OF_NAME. The body of
 * the answer is read into `to`, unless `fields` is NULL. Frees the question and the
 * answer, so texts and bytes in `to` must not be used. */
enum { HOME_OF_NAME = -1 };
pl_status client_query(pl_client *c, int home, const char *name, pl_message *question,
                       const pl_field *fields, void *to);

client_retry client_retry_begin(void);
/* Returns whether the messages must be sent now. If so, the present time is stored as
 * the time of sending. `anew`: the connection has been made again. */
bool client_retry_due(client_retry *r, bool anew);
/* Returns ERR_TIMEOUT if no answer came for longer than the client's patience_ms. */
pl_status client_retry_patience(const client_retry *r, const pl_client *c);

/* Waits up to SLICE_MS for a message; ERR_TIMEOUT if none came. */
pl_status client_wait_slice(pl_client *c, pl_socket *socket, pl_message *answer);
/* Returns the status that an ERR answer contains; PL_OK for any other answer. */
pl_status client_as_status(pl_message *answer);
/* Gets a blob and appends it to `out`. `home` is the number of the home to ask;
 * HOME_OF_NAME means the home of `name`. */
pl_status client_get_blob(pl_client *c, int home, const char *name, const pl_hash *blob,
                          pl_buf *out);
/* Sends a blob whose hash is known. `home` is the number of the home. With `impatient`
 * the function returns ERR_BUSY at once if the home has no free memory for the blob. */
pl_status client_put_known_blob(pl_client *c, int home, const void *data,
                                uint64_t bytes, const pl_hash *blob, bool impatient);
void client_put_submission(const pl_client *c, pl_message *q, const pl_submission *s);
void client_put_path(const pl_client *c, pl_message *q, const pl_path_state *state,
                     bool together);
/* Reads the answer SUBMITTED; `text` gets the reason in the answer, or "". */
pl_status client_read_result(pl_message *answer, pl_submit_result *result,
                             char text[256]);

#endif
