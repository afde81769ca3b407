/* Threads: a fork-join over items, named threads, and a queue that an event loop can
 * poll. thread.c is the only file with locks. */
#ifndef PL_BASE_THREAD_H
#define PL_BASE_THREAD_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

int pl_cpu_count(void); /* processors this process may run on */

/* Calls fn(context, item, thread) for item 0..n_items-1 on n_threads threads
 * (the caller is one of them); returns the status of the lowest failing item,
 * with its error sentence moved to the calling thread. Items are handed out in
 * rising order; results must not depend on which thread takes which. */
typedef pl_status (*pl_item_fn)(void *context, size_t item, int thread);
PL_MUST_CHECK pl_status pl_parallel(int n_threads, size_t n_items, pl_item_fn fn,
                                    void *context);

/* Calls fn unless *done is true (a static that begins as false). Returns when fn has
 * been called, by this thread or another one. fn must not call pl_once with the same
 * `done`. */
void pl_once(bool *done, void (*fn)(void));

/* A named thread. */
typedef struct pl_thread pl_thread;
PL_MUST_CHECK pl_status pl_thread_start(const char *name, void (*run)(void *),
                                        void *context, pl_thread **out);
void pl_thread_join(pl_thread **thread); /* accepts NULL */

/* A queue of pointers between two threads. Its length has no limit. */
typedef struct pl_queue pl_queue;
PL_MUST_CHECK pl_status pl_queue_create(pl_queue **out);
void pl_queue_destroy(pl_queue **queue);
void pl_queue_push(pl_queue *queue, void *item);
void *pl_queue_pop(pl_queue *queue, int timeout_ms); /* NULL on timeout; -1 waits */
int pl_queue_fd(const pl_queue *queue);              /* readable while not empty */

#ifdef __cplusplus
}
#endif
#endif
