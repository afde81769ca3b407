/* `pathloom serve`: serves the paths of a mixture over HTTP.
 *
 * The server has two sides. The front (server_http.c) has a thread per connection. This
 * thread reads a request, hands it to the engine as a job, and writes the answer. (A
 * job of the server is a request, not the job that trains a run.) The engine (server.c)
 * runs in the main thread of the process. Only the engine uses the store, the router
 * and the models. The two sides share a queue of jobs, one queue of events per job, and
 * counters. */
#pragma once
#include "serve/chat.h"
#include "serve/mixture.h"
#include <signal.h>

typedef struct pl_server_options {
    pl_mixture *mix;       /* borrowed until close */
    const char *precision; /* NULL: the run's precision */
    int threads;           /* number of threads that compute a model */
    int slots; /* number of requests that one engine answers at the same time */
    /* largest number of paths in memory; 0: only memory limits it */
    int paths;
    /* limit for the bytes of modules in memory; if one path needs more, its size is the
     * limit; 0: half of the free memory */
    uint64_t module_bytes;
    int queue; /* largest number of requests that wait */
    /* largest number of requests from one client address at the same time; 0: no
     * limit */
    int per_address; /* -1: chosen by the address at which the front listens */
    int timeout_s;   /* limit for the time from a request to the end of its answer */
    /* how conversations become prompts (chat.h); NULL: the server offers no chat */
    const pl_chat_template *chat;
    int64_t created; /* start of the server, in seconds since 1970 */
    /* Before the store is read again, checks that `mix` is still the mixture that the
     * caller wants to serve; a failure says what has changed, and the server keeps what
     * it serves. NULL: nothing is checked. */
    pl_status (*check_mixture)(const void *context, const pl_mixture *mix);
    const void *context; /* borrowed until close */
} pl_server_options;

/* The memory that serving takes. */
typedef struct pl_server_plan {
    int n_modules;
    uint64_t modules_bytes; /* bytes of all modules, each of them once */
    uint64_t path_bytes;    /* bytes of the modules of one path */
    uint64_t engine_bytes;  /* bytes of working memory and of the caches of all slots */
    /* bytes of the host's memory that are needed while the largest module is read */
    uint64_t reading_bytes;
} pl_server_plan;
void pl_server_plan_bytes(const pl_backend *be, const pl_topology *t, int slots,
                          pl_server_plan *out);

typedef struct pl_server pl_server;
/* Opens the backend and the path chooser. Paths are loaded when a request needs
 * them. */
pl_status pl_server_open(const pl_server_options *options, pl_server **out);
void pl_server_close(pl_server **s);
/* Serves until *stop is 1 and all requests are answered, or until *stop is 2. When
 * *reload is not 0, looks for new versions in the store and sets *reload to 0; if
 * they cannot be served, logs the reason and keeps what it serves. A signal
 * handler may set both. */
pl_status pl_server_run(pl_server *s, volatile sig_atomic_t *stop,
                        volatile sig_atomic_t *reload);

typedef struct pl_front_options {
    const char *listen; /* HOST:PORT */
    /* file with the keys of clients (server_access.h); NULL: no key is needed */
    const char *api_keys;
    /* the web origin whose pages may send requests from a browser; "*": every origin;
     * NULL: only the page that the server itself serves */
    const char *cors;
    const char *tls_cert, *tls_key; /* files in PEM; NULL: no TLS */
    bool log_requests;              /* log one line per request */
} pl_front_options;

typedef struct pl_server_front pl_server_front;
/* Opens the front. `address` gets HOST:PORT, the address at which the front listens. If
 * `listen` ends in ":*", a free port is chosen. The texts of the options are borrowed
 * until close. */
pl_status pl_server_front_open(pl_server *s, const pl_front_options *options,
                               pl_server_front **out, char address[64]);
void pl_server_front_close(pl_server_front **front);

enum { PL_API_KEY_TEXT = 49 };
/* Makes a random key for clients, and appends its name and hash to the file of keys,
 * which is made if it is missing. ERR_USAGE: the name has characters other than
 * letters, digits, . _ - (server_access.c). */
pl_status pl_server_add_key(const char *path, const char *name,
                            char key[PL_API_KEY_TEXT]);
