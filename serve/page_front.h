/* The HTTP side of `pathloom page`: one HTML file and the questions that it asks.
 *
 *   GET /          the page; it has no data, so it needs no token
 *   GET /events    server-sent events: the number of the newest state
 *   GET /NAME?...  a question, which the owner of the front answers in JSON
 *
 * Each connection has a thread of the library. A question waits until the owner has
 * taken and answered it, so that one thread alone reads the run. Nothing but GET and
 * HEAD is accepted.
 *
 * An address that other machines can reach needs a file of tokens. On a loopback
 * address the Host header must be a name of this machine: a page of another site whose
 * name was pointed at 127.0.0.1 is refused. */
#ifndef PL_SERVE_PAGE_FRONT_H
#define PL_SERVE_PAGE_FRONT_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PL_PAGE_ARGUMENTS = 4, PL_PAGE_ARGUMENT_BYTES = 4096 };
typedef struct pl_page_argument {
    char name[16];
    char *value; /* UTF-8 is not checked; not NULL */
} pl_page_argument;
typedef struct pl_page_question {
    char url[32];
    pl_page_argument arguments[PL_PAGE_ARGUMENTS];
    int n_arguments;
    /* private to the front */
    bool refused; /* an argument was too long, or there were too many */
    pl_queue *answers;
    pl_status status;
    pl_buf body;
    int owners;
} pl_page_question;
/* The argument of this name; "" if it was not given. */
const char *pl_page_ask(const pl_page_question *q, const char *name);

typedef struct pl_page_front pl_page_front;
typedef struct pl_page_front_options {
    const char *listen; /* IPv4:PORT; PORT * is a free one */
    const char *tokens; /* file of names and hashes, as `serve --api-keys`, or NULL */
} pl_page_front_options;
/* Writes the address to `address`. ERR_USAGE: the address can be reached from other
 * machines, and there are no tokens. */
PL_MUST_CHECK pl_status pl_page_front_open(const pl_page_front_options *options,
                                           pl_page_front **out, char address[64]);
/* Questions that wait are refused. Accepts NULL. */
void pl_page_front_close(pl_page_front **front);
/* The next question, or NULL after the timeout. Each one that was taken must be
 * answered. */
pl_page_question *pl_page_front_take(pl_page_front *front, int timeout_ms);
/* Takes the body, a JSON text; with an error, the answer is its sentence. */
void pl_page_front_answer(pl_page_question *question, pl_status status, pl_buf *body);
/* Tells all pages that there is a new state, by its number. */
void pl_page_front_publish(pl_page_front *front, uint64_t number);
/* Whether a page has asked or listened within the last seconds. */
bool pl_page_front_is_watched(const pl_page_front *front);

#ifdef __cplusplus
}
#endif
#endif
