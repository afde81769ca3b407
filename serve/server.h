/* `pathloom serve`: the paths of a mixture behind HTTP.
 *
 * Two sides. The front (server_http.c) has a thread a connection: it reads a request,
 * hands a job to the engine, and writes what comes back. The engine (server.c) runs in
 * the process's main thread and alone touches store, router and models. Between them
 * are a queue of jobs, a queue of events a job, and counters.
 */
#ifndef PL_SERVE_SERVER_H
#define PL_SERVE_SERVER_H
#include "serve/mixture.h"
#include <signal.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_server_options {
    pl_mixture *mix;       /* borrowed until close */
    const char *precision; /* NULL: that of the run */
    int threads;           /* of the models */
    int slots;             /* requests that a path answers at once */
    int paths;             /* most in memory; 0: as many as fit */
    int queue;             /* most requests that wait */
    int per_address;       /* most requests of one address at once; 0: no limit */
    int timeout_s;
} pl_server_options;

typedef struct pl_server pl_server;
/* Opens backend and what routes. Paths are loaded when they are asked for. */
PL_MUST_CHECK pl_status pl_server_open(const pl_server_options *options,
                                       pl_server **out);
void pl_server_close(pl_server **s);
/* Answers until `*stop` is 1 and everything is answered, or 2. */
PL_MUST_CHECK pl_status pl_server_run(pl_server *s, volatile sig_atomic_t *stop,
                                      volatile sig_atomic_t *reload);

typedef struct pl_server_front pl_server_front;
/* `address` gets HOST:PORT, with the port that was free if `listen` ends in ":*". */
PL_MUST_CHECK pl_status pl_server_front_open(pl_server *s, const char *listen,
                                             pl_server_front **out, char address[64]);
void pl_server_front_close(pl_server_front **front);

#ifdef __cplusplus
}
#endif
#endif
