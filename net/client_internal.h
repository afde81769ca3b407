/* Private to the client: its connections to the homes, and how it repeats questions. */
#pragma once
#include "net/client.h"

/* SILENCE_MS: without any byte for this time, open questions are asked again; downloads
 * double it each time, up to SILENCE_MAX_MS */
enum { SLICE_MS = 100, SILENCE_MS = 10000, SILENCE_MAX_MS = 60000 };

/* Determines when messages are sent again: a question, all questions of a task, or the
 * pieces of a blob. As long as a connection lives, the other process gets each message
 * once and answers it, so messages are sent again only if the connection broke or was
 * silent. The time limit patience_ms counts from heard_ms. */
typedef struct client_retry {
    int64_t sent_ms;     /* when the messages were last sent */
    int64_t again_ms;    /* when they must be sent again in any case */
    int64_t answered_ms; /* when the last answer came */
    int64_t heard_ms;    /* also when bytes moved on the connection */
    /* The messages were sent again after silence. The other machine confirms them even
     * if the process there hangs, so this is no sign of life. */
    bool is_repeated;
    bool is_silent;    /* only silence was the reason to send them the last time */
    int silence_ms;    /* they are sent again after this time without any byte */
    pl_wire_line line; /* state of the connection when it was last looked at */
} client_retry;

/* What transfers have measured of the connection to one home (client_link.c). */
typedef struct client_line {
    pl_link link;       /* without rtt_ms and n_connects */
    uint32_t answer_us; /* shortest time until a piece was answered; 0: not known */
    /* direct transfers: the rate of downloads and uploads, whether the home has an
     * engine for them, and when the next one may begin */
    double direct_rate[2];
    enum { ENGINE_UNKNOWN, ENGINE_THERE, ENGINE_NONE } engine;
    int64_t direct_after_ms;
} client_line;

struct pl_client {
    pl_socket *sockets[PL_HOMES_MAX];
    client_line lines[PL_HOMES_MAX];
    int n_homes, patience_ms;
    pl_status (*idle)(void *context);
    void *idle_context;
    int64_t idle_ms; /* when `idle` was called last */
    /* the largest blob that is accepted; 0: no limit */
    uint64_t blob_max;
    pl_direct direct;
    pl_web *web;    /* NULL until the first direct transfer */
    bool has_moved; /* whether bytes were moved directly */
    /* the last answer to client_query: texts of its fields point into it */
    pl_message answer;
    pl_sealed_lease lease; /* under which the client acts; len 0: no lease */
};

typedef struct client_blob {
    const void *data;
    uint64_t bytes;
    pl_hash hash;
} client_blob;

enum { BOUNCE_MS = 50 };

/* Begins with messages that have not been sent yet. */
client_retry client_retry_begin(pl_socket *socket);
/* Looks at the connection, and returns whether the messages must be sent now. If so,
 * the present time is stored as the time of sending. */
bool client_retry_due(client_retry *r, pl_socket *socket);
void client_retry_answered(client_retry *r);
/* Lets the messages be sent again after this time. */
void client_retry_later(client_retry *r, int ms);
/* Returns ERR_TIMEOUT if nothing was heard for longer than the client's patience_ms. */
pl_status client_retry_patience(const client_retry *r, const pl_client *c);

pl_status client_idle(pl_client *c);
/* Waits up to SLICE_MS for a message; ERR_TIMEOUT if none came. */
pl_status client_wait_slice(pl_client *c, pl_socket *socket, pl_message *answer);
pl_status client_as_status(pl_message *answer);

/* ---- client_link.c: how many bytes of a transfer are under way ---- */
enum {
    CLIENT_PIECE_MIN = 64 << 10,
    CLIENT_PIECE_MAX = PL_WIRE_DATA_MAX,
    CLIENT_PIECES_MAX = 128 /* largest number of pieces under way */
};
/* Notes that `bytes` were answered in this time. `up`: of an upload */
void client_line_note(client_line *line, bool up, uint64_t bytes, double seconds);
size_t client_piece_bytes(const client_line *line, bool up);
size_t client_window_bytes(pl_client *c, int home, bool up);

/* ---- client_transfer.c ---- */
/* Sends the n blobs of which the home lacks bytes to the home with this number, small
 * ones together, and sets their elements of is_there. ERR_BUSY: the home has no room
 * for those that are not there, and this client's blobs that are there take some: by
 * `holds`, or by this call. Then messages that name these blobs must be sent first. */
pl_status client_put_blobs(pl_client *c, int home, const client_blob *blobs,
                           bool *is_there, size_t n, bool holds);
/* Sends a blob, and waits for room if the home has none. */
pl_status client_put_known_blob(pl_client *c, int home, const client_blob *blob);
/* ---- client_direct.c ---- */
/* Moves blobs of one home directly, and sets `moved` of those for which this was
 * possible; the others go through the home, downloads from byte `at` on. A downloaded
 * blob is not checked yet. */
typedef struct client_direct {
    pl_hash hash;
    /* bytes: of a download, what is expected (0: not known), until the home has told;
     * at: moved so far */
    uint64_t bytes, at;
    const uint8_t *data; /* of an upload; else NULL */
    pl_buf *out;         /* to which a download is appended */
    bool moved, refused;
} client_direct;
bool client_may_direct(const pl_client *c, int home);
pl_status client_move_direct(pl_client *c, int home, bool up, client_direct *all,
                             int n);
/* ---- client_task.c: several questions at once ---- */
typedef struct client_asked {
    const char *name; /* the caller's; NULL: the element is left out */
    int home;
    pl_message question, answer;
    bool sent, done; /* whether it is under way, and whether it is answered */
} client_asked;
/* Adds a question to the home that owns the name. The caller writes its fields. */
pl_message *client_ask(const pl_client *c, client_asked *q, uint16_t type,
                       const char *name);
/* Sends the questions that are not done, and waits for all answers. */
pl_status client_ask_all(pl_client *c, client_asked *all, int n);
void client_asked_destroy(client_asked *all, int n); /* frees the list, too */

/* ---- client.c ---- */
/* The field LEASE of a message: the client's lease, or none. */
pl_bytes client_present_lease(const pl_client *c);
void client_put_submission(const pl_client *c, pl_message *q, const pl_submission *s);
/* Writes SUBMIT_PATH with the receipts of other homes for the n updates. */
void client_put_path(const pl_client *c, pl_message *q, const pl_path_state *state,
                     const pl_submission *updates, int n);
typedef struct client_answer {
    pl_submit_result *result;
    char *text;        /* [256] the reason in the answer, or "" */
    pl_hash *receipts; /* [n] the receipts, or zeros */
    int n;
} client_answer;
pl_status client_read_result(pl_message *answer, const client_answer *out);
/* Submits the state of a path; `updates` as in client_put_path. `blob` is NULL if only
 * the state's hash is sent. */
pl_status client_submit_path(pl_client *c, const pl_path_state *state,
                             const client_blob *blob, const pl_submission *updates,
                             int n, const client_answer *out);
