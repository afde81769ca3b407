/* Threads: a parallel loop over items, named threads, a queue that an event loop can
 * poll, and a thread with such a queue. Only thread.c and library.c use locks. */
#pragma once
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
PL_C_BEGIN

/* Calls fn(context, item, thread) for item 0..n_items-1 on n_threads threads (the
 * caller is one of them). Returns the status of the failing item with the lowest
 * number, and makes its error sentence the caller's last error. Threads take items in
 * rising order; results must not depend on which thread takes which item. */
typedef pl_status (*pl_item_fn)(void *context, size_t item, int thread);
pl_status pl_parallel(int n_threads, size_t n_items, pl_item_fn fn, void *context);

/* Calls fn unless *done is true (a static that begins as false). Returns when fn has
 * returned, in this thread or another one. fn must not call pl_once, because all calls
 * share one lock. */
void pl_once(bool *done, void (*fn)(void));

typedef struct pl_thread pl_thread;
pl_status pl_thread_start(const char *name, void (*run)(void *), void *context,
                          pl_thread **out);
void pl_thread_join(pl_thread **thread); /* accepts NULL */

/* Atomic operations on a number or a bool, each in one order that all threads see. The
 * last three return the value before. */
#define pl_atomic_get(at)         __atomic_load_n((at), __ATOMIC_SEQ_CST)
#define pl_atomic_set(at, value)  __atomic_store_n((at), (value), __ATOMIC_SEQ_CST)
#define pl_atomic_swap(at, value) __atomic_exchange_n((at), (value), __ATOMIC_SEQ_CST)
#define pl_atomic_add(at, n)      __atomic_fetch_add((at), (n), __ATOMIC_SEQ_CST)
#define pl_atomic_sub(at, n)      __atomic_fetch_sub((at), (n), __ATOMIC_SEQ_CST)

/* A queue of pointers between two threads. The length of the queue has no limit. */
typedef struct pl_queue pl_queue;
pl_status pl_queue_create(pl_queue **out);
void pl_queue_destroy(pl_queue **queue);
void pl_queue_push(pl_queue *queue, void *item);
/* Returns NULL if no item came within timeout_ms; with -1 the wait has no limit. */
void *pl_queue_pop(pl_queue *queue, int timeout_ms);
int pl_queue_fd(const pl_queue *queue); /* readable while the queue is not empty */

/* A thread that does jobs one after another. The creator of the actor pushes jobs and
 * takes finished jobs in the same order. pl_actor_fd is readable while there are
 * finished jobs to take. */
typedef struct pl_actor pl_actor;
pl_status pl_actor_start(const char *name, void (*work)(void *self, void *job),
                         void *self, pl_actor **out);
void pl_actor_push(pl_actor *actor, void *job);
void *pl_actor_take(pl_actor *actor); /* NULL if no job is finished */
int pl_actor_fd(const pl_actor *actor);
/* Waits until all pushed jobs are done. Finished jobs can still be taken, but no more
 * jobs can be pushed. Accepts NULL. */
void pl_actor_stop(pl_actor *actor);
/* Stops and frees the actor. Accepts NULL. */
void pl_actor_destroy(pl_actor **actor);

PL_C_END
