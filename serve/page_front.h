/* The front: the HTTP side of `pathloom page`. It sends one HTML file, and answers the
 * questions that this page asks.
 *
 *   GET /          the page; it contains no data of the run, so it needs no token
 *   GET /events    server-sent events: the number of the newest state
 *   GET /NAME?...  a question, which the owner of the front answers in JSON
 *
 * The HTTP library runs a thread per connection. This thread waits until the owner of
 * the front (the thread that opened it) has answered the question. So only the owner
 * reads the run. If the answer is ERR_BUSY, the connection's thread asks again for up
 * to ten seconds, and only then replies with status 503; earlier if the client has
 * closed its writing half. Methods other than GET and HEAD are refused.
 *
 * Who may ask, and how many connections are open, is said in serve/http.h. */
#pragma once
#include "base/base.h"

enum { PL_PAGE_ARGUMENTS = 4, PL_PAGE_ARGUMENT_BYTES = 4096 };
typedef struct pl_page_argument {
    char name[16];
    char *value; /* never NULL; not checked for UTF-8 */
} pl_page_argument;
typedef struct pl_page_question {
    char url[32];
    pl_page_argument arguments[PL_PAGE_ARGUMENTS];
    int n_arguments;
    /* the fields below are used only by the front */
    bool refused;      /* an argument was too long, or there were too many arguments */
    pl_queue *answers; /* gets the question back when it has been answered */
    pl_status status;
    pl_buf body; /* the answer in JSON, or the message of an error */
    int owners;  /* 1 or 2 threads use the question; the last one frees it */
} pl_page_question;
/* Returns the value of the argument with this name; "" if the argument is missing. */
const char *pl_page_ask(const pl_page_question *q, const char *name);

typedef struct pl_page_front pl_page_front;
typedef struct pl_page_front_options {
    const char *listen; /* HOST:PORT; if PORT is *, a free port is used */
    /* file with names and hashes of tokens, in the format of `serve --api-keys`; NULL:
     * no token is needed */
    const char *tokens;
} pl_page_front_options;
/* Opens the front. `address` gets the address at which the front listens. ERR_USAGE:
 * `listen` is not HOST:PORT, or other machines can reach it and `tokens` is NULL. */
pl_status pl_page_front_open(const pl_page_front_options *options, pl_page_front **out,
                             char address[64]);
/* Closes the front. Questions that still wait are refused. Accepts NULL. */
void pl_page_front_close(pl_page_front **front);
/* Takes the next question; returns NULL if none has come before the timeout. The owner
 * must answer every question that it takes. */
pl_page_question *pl_page_front_take(pl_page_front *front, int timeout_ms);
/* Answers a question, and takes ownership of the body, a JSON text. If `status` is an
 * error, the answer is the message of this error (pl_last_error). */
void pl_page_front_answer(pl_page_question *question, pl_status status, pl_buf *body);
/* Tells all open pages the number of a new state. */
void pl_page_front_publish(pl_page_front *front, uint64_t number);
/* Whether a page has asked a question or listened to events within the last 15 s. */
bool pl_page_front_is_watched(const pl_page_front *front);
