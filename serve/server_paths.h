/* Private to serve: what a server knows of a run: what routes, and the paths in memory.
 */
#ifndef PL_SERVE_SERVER_PATHS_H
#define PL_SERVE_SERVER_PATHS_H
#include "serve/server_internal.h"
#include "serve/server_models.h"

typedef struct server_paths server_paths;
const server_paths *server_paths_of(const pl_server *s); /* server.c */
PL_MUST_CHECK pl_status server_paths_open(const pl_server_options *options,
                                          server_paths **out);
void server_paths_close(server_paths **paths);
/* Requests that are being answered end with ERR_CANCELLED. */
void server_paths_unload(server_paths *p);

const server_models *server_paths_models(const server_paths *p);
const pl_tokenizer *server_paths_tokenizer(const server_paths *p);
int server_paths_context(const server_paths *p);
int server_paths_loaded(const server_paths *p);

/* Catches up with the store: what is loaded from now on is the newest. Paths in memory
 * end with the requests that they have. */
PL_MUST_CHECK pl_status server_paths_reload(server_paths *p);
/* The path that answers a prompt, as `pathloom generate` chooses it; -1: not known yet,
 * ask again after the next step. */
PL_MUST_CHECK pl_status server_paths_route(server_paths *p, const int32_t *tokens,
                                           int n, int *path);
/* The batch that a request for this model may join now; NULL if it has to wait for a
 * place, or for a path that leaves memory. */
PL_MUST_CHECK pl_status server_paths_batch(server_paths *p, int model, pl_batch **out);
/* The embedding of a text by a model: [width] is appended as floats. *waits: as above,
 * or because other work comes first. */
PL_MUST_CHECK pl_status server_paths_embed(server_paths *p, int model,
                                           const int32_t *tokens, int n, pl_buf *out,
                                           bool *waits);
/* What the slots of the models in memory do, as llama-server tells it. */
void server_paths_write_slots(const server_paths *p, pl_json *list);
/* One step of each path; returns how many had something to do. */
int server_paths_step(server_paths *p);
int server_paths_active(const server_paths *p);

#endif
