/* Private to serve: the path chooser of a server, and the paths that it has in
 * memory. */
#pragma once
#include "serve/module_pool.h"
#include "serve/server_internal.h"
#include "serve/server_models.h"

typedef struct server_paths server_paths;
const server_paths *server_paths_of(const pl_server *s); /* server.c */
pl_status server_paths_open(const pl_server_options *options, server_paths **out);
void server_paths_close(server_paths **paths);
/* Drops all paths; requests that are being answered end with ERR_CANCELLED. */
void server_paths_unload(server_paths *p);

const server_models *server_paths_models(const server_paths *p);
int server_paths_loaded(const server_paths *p);
/* Counts the modules in memory, without those that the path chooser keeps. */
pl_pool_counts server_paths_modules(const server_paths *p);

/* Looks for new commits of the store. Paths that are loaded from now on have the new
 * versions. If a module of a path in memory has changed, this path gets no further
 * requests, and is dropped when its present requests have ended. */
pl_status server_paths_reload(server_paths *p);
/* Chooses the path that answers these n tokens, as `pathloom generate` does. If
 * out->path becomes -1, the path is not chosen yet: call this function again after the
 * next step. */
pl_status server_paths_route(server_paths *p, const int32_t *tokens, int n,
                             pl_path_choice *out);
/* Lets a request join the batch of this model, and sets the request's path. If *waits
 * becomes true, the request has not joined: it must wait for a slot, or until another
 * path leaves memory. */
pl_status server_paths_join(server_paths *p, int model, pl_batch_request *request,
                            bool *waits);
/* Lets a request whose path is chosen again after every `every` tokens join a batch
 * with all paths that may answer. The function `moved` gets an index among these paths;
 * server_paths_open_path turns the index into the path's number in the mixture. If the
 * server answers by likelihood, the losses of the paths choose ("history"); otherwise
 * the router chooses ("gate", reroute.h). ERR_USAGE if these are more paths than `serve
 * --slots` or `serve --paths` allows, or if their modules do not fit into memory. */
pl_status server_paths_join_all(server_paths *p, int every,
                                void (*moved)(void *context, int from, int path),
                                pl_batch_request *request, bool *waits);
int server_paths_open_path(const server_paths *p, int nth);

/* Computes the embedding of a text with a model and appends it as floats [width]. If
 * *waits becomes true, nothing was computed, because the model waits for memory or
 * other work comes first: call this function again after the next step. */
pl_status server_paths_embed(server_paths *p, int model, const int32_t *tokens, int n,
                             pl_buf *out, bool *waits);
/* Adds an object per slot of each engine to the list: what the slot is doing, in the
 * form of llama-server. */
void server_paths_write_slots(const server_paths *p, pl_json *list);
/* Makes one decoding step for all requests; returns how many engines had requests. */
int server_paths_step(server_paths *p);
/* Returns the number of requests in all batches. */
int server_paths_active(const server_paths *p);
