/* Where chunks lie when not in the store's own database: objects in a service that many
 * machines reach, behind one small interface.
 *
 *   rados://POOL[/NAMESPACE][?conf=PATH&id=NAME&patience=SECONDS]       engine_rados.c
 *   s3://BUCKET[/PREFIX]?endpoint=URL[&region=R&patience=SECONDS]       engine_s3.c
 *
 * An object is written once under a name that is never used again, or is the head,
 * which moves by compare-and-swap; nothing else is asked of a service. Names are
 * printable ASCII without blanks, `/` among it. Which objects there are, and in what
 * order they are written, is remote.h's matter.
 *
 * An engine may be used by several threads at once. What fails for a moment (no answer,
 * a full queue, a service that restarts) is tried again until `patience` has passed;
 * the sentence then names the service and the last reason. Secrets never stand in a
 * URL, a file of the store or a sentence. */
#ifndef PL_STORE_ENGINE_H
#define PL_STORE_ENGINE_H
#include "base/base.h"

enum {
    ENGINE_NAME_MAX = 160,       /* of an object, with its end */
    ENGINE_OBJECT_MAX = 8 << 20, /* bytes of an object; longer ones are damage */
    ENGINE_URL_MAX = 1024,
    ENGINE_THREADS = 16 /* requests at once: latency is the service's, not ours */
};

/* ---- a URL, taken apart ---- */
typedef struct engine_url {
    char kind[16];          /* "rados", "s3" */
    char place[256];        /* POOL or BUCKET */
    char space[256];        /* NAMESPACE or PREFIX; "" if none */
    char conf[PL_PATH_MAX]; /* rados: ceph.conf; "" is the system's */
    char id[64];            /* rados: client.ID; "" is admin */
    char endpoint[256];     /* s3: http(s)://HOST[:PORT] */
    char region[64];        /* s3 */
    int64_t patience_ms;
} engine_url;
/* ERR_CONFIG says what is wrong with it. */
PL_MUST_CHECK pl_status engine_url_parse(const char *text, engine_url *out);
/* The URL of one part of a store: NAME is added to its namespace or prefix. */
PL_MUST_CHECK pl_status engine_url_part(const char *text, const char *name,
                                        char out[ENGINE_URL_MAX]);

/* ---- what an engine does ---- */
typedef struct engine_entry {
    const char *name; /* borrowed */
    uint64_t bytes;
} engine_entry;
typedef pl_status (*engine_entry_fn)(void *context, const engine_entry *entry);

/* One attempt each, bounded in time. A failure that may pass is ERR_NET or ERR_TIMEOUT;
 * after those two nobody knows whether the request was carried out.
 *
 *   put   ERR_EXISTS if there is an object of that name, whatever it holds
 *   get   appends to `out`; ERR_NOT_FOUND
 *   swap  makes `next` the content if it is `expected` now, or, where `expected` is
 *         empty, if there is none; else ERR_STALE
 *   drop  one that is not there is dropped already
 *   list  in no order; names that start with `prefix` */
typedef struct engine_ops {
    pl_status (*put)(void *self, const char *name, const void *data, size_t len);
    pl_status (*get)(void *self, const char *name, pl_buf *out);
    pl_status (*swap)(void *self, const char *name, const pl_buf *expected,
                      const pl_buf *next);
    pl_status (*drop)(void *self, const char *name);
    pl_status (*list)(void *self, const char *prefix, engine_entry_fn fn,
                      void *context);
    void (*close)(void *self);
} engine_ops;

/* What a service's file gives; ERR_UNSUPPORTED, with what to install, if this build
 * lacks its library, or if the service lacks what a writer needs. */
PL_MUST_CHECK pl_status engine_rados_open(const engine_url *url, bool to_write,
                                          const engine_ops **ops, void **self);
PL_MUST_CHECK pl_status engine_s3_open(const engine_url *url, bool to_write,
                                       const engine_ops **ops, void **self);

/* ---- the same, with patience ---- */
typedef struct engine engine;
PL_MUST_CHECK pl_status engine_open(const char *url, bool to_write, engine **out);
void engine_close(engine **e);             /* accepts NULL */
const char *engine_place(const engine *e); /* "rados://pool/space", for sentences */

/* A put that finds its own bytes there has happened. */
PL_MUST_CHECK pl_status engine_put(engine *e, const char *name, const void *data,
                                   size_t len);
PL_MUST_CHECK pl_status engine_get(engine *e, const char *name, pl_buf *out);
/* A swap that finds `next` there has happened: contents must tell writers apart. One
 * whose answer was lost, and whose result another has swapped away since, is ERR_STALE
 * as well: who hears that must not go on, whatever happened. */
PL_MUST_CHECK pl_status engine_swap(engine *e, const char *name, const pl_buf *expected,
                                    const pl_buf *next);
PL_MUST_CHECK pl_status engine_drop(engine *e, const char *name);
PL_MUST_CHECK pl_status engine_list(engine *e, const char *prefix, engine_entry_fn fn,
                                    void *context);

/* Many objects at once, ENGINE_THREADS at a time; the failure of the lowest is given.
 */
typedef struct engine_object {
    char name[ENGINE_NAME_MAX];
    const void *data; /* borrowed */
    size_t len;
} engine_object;
PL_MUST_CHECK pl_status engine_put_all(engine *e, const engine_object *objects,
                                       size_t n);
PL_MUST_CHECK pl_status engine_drop_all(engine *e, const engine_object *objects,
                                        size_t n);

#endif
