/* Implements threads and queues with pthreads.
 *
 * The program uses threads in only four forms:
 *
 * - pl_parallel: several threads work on a list of items.
 * - pl_thread: a named thread.
 * - pl_queue: a queue into or out of a thread. Its file descriptor lets an event loop
 *   wait for sockets and for the queue at once.
 * - pl_actor: a thread with a queue in and a queue out. */
#include "base/thread.h"
#include "base/fs.h"
#include "base/text.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { SENTENCE_MAX = 1024 };

void pl_once(bool *done, void (*fn)(void))
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!*done)
        fn();
    *done = true;
    pthread_mutex_unlock(&lock);
}

/* Starts a thread with all signals blocked: they go to the event loop's thread. */
static int start_masked(pthread_t *id, void *(*run)(void *), void *context)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(id, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

/* The state of pl_parallel. Threads take items in rising order, so when item i fails,
 * all lower items have been taken. After that no item above i is started. Therefore the
 * failure of the lowest failing item is reported, and timing has no influence. */
typedef struct crew_state {
    pthread_mutex_t lock;
    pl_item_fn fn;
    void *context;
    size_t next, end; /* the lock guards all fields from here; a failure lowers `end` */
    pl_status status; /* status of the lowest failing item */
    char sentence[SENTENCE_MAX];
} crew_state;

static void crew_run(crew_state *crew, int thread)
{
    for (;;) {
        pthread_mutex_lock(&crew->lock);
        const bool is_over = crew->next >= crew->end;
        const size_t item = is_over ? 0 : crew->next++;
        pthread_mutex_unlock(&crew->lock);
        if (is_over)
            return;
        pl_status status = crew->fn(crew->context, item, thread);
        if (status == PL_OK)
            continue;
        /* The error sentence belongs to the thread, so it is copied before the thread
         * takes another item or ends. */
        pthread_mutex_lock(&crew->lock);
        if (item < crew->end) {
            crew->end = item;
            crew->status = status;
            pl_copy_text(crew->sentence, sizeof crew->sentence, pl_last_error());
        }
        pthread_mutex_unlock(&crew->lock);
    }
}

/* A thread of pl_parallel. After a call it is kept for the next call, because starting
 * a thread takes longer than many a list of items. So a process has as many helpers as
 * its calls once needed at the same time; idle helpers sleep. */
typedef struct helper {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    crew_state *crew; /* the lock guards it; NULL: the helper is idle */
    int thread;
    struct helper *next; /* in the list of idle helpers, or of a call's helpers */
} helper;

static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static helper *idle_helpers; /* guarded by idle_lock */

/* A child process has none of its parent's threads. */
static void lock_helpers(void)
{
    pthread_mutex_lock(&idle_lock);
}
static void unlock_helpers(void)
{
    pthread_mutex_unlock(&idle_lock);
}
static void forget_helpers(void)
{
    idle_helpers = NULL;
    pthread_mutex_unlock(&idle_lock);
}

static void *helper_run(void *context)
{
    helper *self = context;
    pthread_mutex_lock(&self->lock);
    for (;;) {
        while (!self->crew)
            pthread_cond_wait(&self->changed, &self->lock);
        pthread_mutex_unlock(&self->lock);
        crew_run(self->crew, self->thread);
        pthread_mutex_lock(&self->lock);
        self->crew = NULL;
        pthread_cond_signal(&self->changed);
    }
    return NULL;
}

/* Returns an idle helper, or a new one; NULL if no thread can be started. */
static helper *take_helper(void)
{
    static bool watched;
    pthread_mutex_lock(&idle_lock);
    helper *h = idle_helpers;
    if (h)
        idle_helpers = h->next;
    if (!watched)
        watched = pthread_atfork(lock_helpers, unlock_helpers, forget_helpers) == 0;
    pthread_mutex_unlock(&idle_lock);
    if (h)
        return h;
    pthread_t id;
    h = pl_alloc(sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    if (start_masked(&id, helper_run, h) == 0) {
        pthread_detach(id);
        return h;
    }
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    pl_free(h);
    return NULL;
}

pl_status pl_parallel(int n_threads, size_t n_items, pl_item_fn fn, void *context)
{
    crew_state crew = {.fn = fn, .context = context, .end = n_items};
    if (n_threads < 1)
        n_threads = 1;
    if ((size_t)n_threads > n_items)
        n_threads = n_items ? (int)n_items : 1;
    pthread_mutex_init(&crew.lock, NULL);
    /* If a thread cannot be started, the other threads do its items. */
    helper *helpers = NULL, *h;
    for (int t = 1; t < n_threads && (h = take_helper()) != NULL; t++) {
        h->next = helpers;
        helpers = h;
        pthread_mutex_lock(&h->lock);
        h->thread = t;
        h->crew = &crew;
        pthread_cond_signal(&h->changed);
        pthread_mutex_unlock(&h->lock);
    }
    crew_run(&crew, 0);
    while ((h = helpers) != NULL) {
        helpers = h->next;
        pthread_mutex_lock(&h->lock);
        while (h->crew)
            pthread_cond_wait(&h->changed, &h->lock);
        pthread_mutex_unlock(&h->lock);
        pthread_mutex_lock(&idle_lock);
        h->next = idle_helpers;
        idle_helpers = h;
        pthread_mutex_unlock(&idle_lock);
    }
    pthread_mutex_destroy(&crew.lock);
    return crew.status == PL_OK ? PL_OK : pl_fail(crew.status, "%s", crew.sentence);
}

struct pl_thread {
    pthread_t id;
    void (*run)(void *);
    void *context;
    char name[16]; /* the kernel keeps at most 15 characters */
};

static void *thread_run(void *context)
{
    pl_thread *thread = context;
    pthread_setname_np(pthread_self(), thread->name);
    thread->run(thread->context);
    return NULL;
}

pl_status pl_thread_start(const char *name, void (*run)(void *), void *context,
                          pl_thread **out)
{
    pl_thread *thread = pl_alloc(sizeof *thread);
    thread->run = run;
    thread->context = context;
    pl_copy_text(thread->name, sizeof thread->name, name);
    *out = NULL;
    int error = start_masked(&thread->id, thread_run, thread);
    if (error) {
        pl_free(thread);
        char text[128];
        return pl_fail(PL_ERR_OS, "cannot start the thread %s: %s", name,
                       strerror_r(error, text, sizeof text));
    }
    *out = thread;
    return PL_OK;
}

void pl_thread_join(pl_thread **thread)
{
    if (!*thread)
        return;
    pthread_join((*thread)->id, NULL);
    pl_free(*thread);
    *thread = NULL;
}

/* A ring buffer whose size doubles when it is full. The eventfd is 1 if the ring has
 * items, else 0. The lock guards the ring and the eventfd. */
struct pl_queue {
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    void **ring;
    size_t cap, head, count;
    int fd;
};

enum { RING_FIRST = 16 };

pl_status pl_queue_create(pl_queue **out)
{
    *out = NULL;
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return pl_file_failed("create", "an eventfd");
    pl_queue *queue = pl_alloc(sizeof *queue);
    queue->fd = fd;
    queue->cap = RING_FIRST;
    queue->ring = pl_alloc(queue->cap * sizeof *queue->ring);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->arrived, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *out = queue;
    return PL_OK;
}

void pl_queue_destroy(pl_queue **queue)
{
    if (!*queue)
        return;
    pthread_cond_destroy(&(*queue)->arrived);
    pthread_mutex_destroy(&(*queue)->lock);
    close((*queue)->fd);
    pl_free_all((*queue)->ring, *queue);
    *queue = NULL;
}

void pl_queue_push(pl_queue *queue, void *item)
{
    pthread_mutex_lock(&queue->lock);
    if (queue->count == queue->cap) {
        void **ring = pl_alloc(2 * queue->cap * sizeof *ring);
        for (size_t i = 0; i < queue->count; i++)
            ring[i] = queue->ring[(queue->head + i) % queue->cap];
        pl_free(queue->ring);
        queue->ring = ring;
        queue->cap *= 2;
        queue->head = 0;
    }
    queue->ring[(queue->head + queue->count++) % queue->cap] = item;
    if (queue->count == 1)
        eventfd_write(queue->fd, 1);
    pthread_cond_signal(&queue->arrived);
    pthread_mutex_unlock(&queue->lock);
}

/* Uses the monotonic clock: setting the time of day changes no wait. */
void *pl_queue_pop(pl_queue *queue, int timeout_ms)
{
    void *item = NULL;
    struct timespec deadline;
    int error = 0;
    pthread_mutex_lock(&queue->lock);
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    if (timeout_ms > 0) {
        deadline.tv_sec += timeout_ms / 1000;
        deadline.tv_nsec += timeout_ms % 1000 * 1000000L;
    }
    if (deadline.tv_nsec >= 1000000000L) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000L;
    }
    /* the lock is released during the wait */
    while (queue->count == 0 && error != ETIMEDOUT)
        error = timeout_ms < 0
                    ? pthread_cond_wait(&queue->arrived, &queue->lock)
                    : pthread_cond_timedwait(&queue->arrived, &queue->lock, &deadline);
    if (queue->count) {
        item = queue->ring[queue->head];
        queue->head = (queue->head + 1) % queue->cap;
        if (--queue->count == 0) {
            eventfd_t drained;
            eventfd_read(queue->fd, &drained);
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return item;
}

int pl_queue_fd(const pl_queue *queue)
{
    return queue->fd;
}

struct pl_actor {
    pl_queue *jobs, *done;
    pl_thread *thread;
    void (*work)(void *self, void *job);
    void *self;
};

static void actor_run(void *context)
{
    pl_actor *actor = context;
    for (;;) {
        void *job = pl_queue_pop(actor->jobs, -1);
        /* pl_actor_stop pushes the actor itself as the end mark */
        if (job == (void *)actor)
            return;
        if (!job)
            continue;
        actor->work(actor->self, job);
        pl_queue_push(actor->done, job);
    }
}

pl_status pl_actor_start(const char *name, void (*work)(void *self, void *job),
                         void *self, pl_actor **out)
{
    pl_actor *actor = pl_alloc(sizeof *actor);
    actor->work = work;
    actor->self = self;
    *out = NULL;
    pl_status status = pl_queue_create(&actor->jobs);
    if (status == PL_OK)
        status = pl_queue_create(&actor->done);
    if (status == PL_OK)
        status = pl_thread_start(name, actor_run, actor, &actor->thread);
    if (status == PL_OK)
        *out = actor;
    else
        pl_actor_destroy(&actor);
    return status;
}

void pl_actor_push(pl_actor *actor, void *job)
{
    pl_queue_push(actor->jobs, job);
}

void *pl_actor_take(pl_actor *actor)
{
    return pl_queue_pop(actor->done, 0);
}

int pl_actor_fd(const pl_actor *actor)
{
    return pl_queue_fd(actor->done);
}

void pl_actor_stop(pl_actor *actor)
{
    if (!actor || !actor->thread)
        return;
    pl_queue_push(actor->jobs, actor);
    pl_thread_join(&actor->thread);
}

void pl_actor_destroy(pl_actor **actor)
{
    if (!*actor)
        return;
    pl_actor_stop(*actor);
    pl_queue_destroy(&(*actor)->jobs);
    pl_queue_destroy(&(*actor)->done);
    pl_free(*actor);
    *actor = NULL;
}
