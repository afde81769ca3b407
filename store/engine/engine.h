/* Storage engines: services that many machines can reach. An engine stores the chunks
 * of a store as objects, in place of the store's own database. All engines have the
 * same small interface.
 *
 *   rados://POOL[/NAMESPACE][?conf=PATH&id=NAME&patience=SECONDS]       engine_rados.c
 *   s3://BUCKET[/PREFIX]?endpoint=URL[&region=R&patience=SECONDS]       engine_s3.c
 *
 * There are two kinds of objects. Most objects are written once, under a name that is
 * never used again. One object, the head, is changed by compare-and-swap. So a service
 * needs only two features: writing a new object, and compare-and-swap. Names are
 * printable ASCII without blanks and may contain `/`. remote.h says which objects there
 * are, and in what order they are written.
 *
 * Several threads may use an engine at once. After a temporary failure (no answer, a
 * full queue, a service that restarts) a request is repeated for `patience` seconds.
 * After that it fails, and the error names the service and the last reason. Secrets are
 * never part of a URL, a file of the store or an error. */
#pragma once
#include "base/base.h"

enum {
    ENGINE_NAME_MAX = 160, /* length of an object's name, with the terminating NUL */
    /* largest size of an object; a larger object counts as damaged */
    ENGINE_OBJECT_MAX = 8 << 20,
    ENGINE_URL_MAX = 1024,
    /* number of threads that make requests; each waits for its answer */
    ENGINE_THREADS = 16,
    ENGINE_SIGNED_S = 900 /* how long a signed URL is valid */
};

/* ---- a URL, taken apart ---- */
typedef struct engine_url {
    char kind[16];          /* "rados", "s3" */
    char place[256];        /* POOL or BUCKET */
    char space[256];        /* NAMESPACE or PREFIX; "" if none */
    char conf[PL_PATH_MAX]; /* rados: path of ceph.conf; "": the system's file */
    char id[64];            /* rados: connect as client.ID; "": as client.admin */
    char endpoint[256];     /* s3: http(s)://HOST[:PORT] */
    char region[64];        /* s3 */
    int64_t patience_ms;
} engine_url;
/* Parses a URL. The text of ERR_CONFIG says what is wrong with the URL. */
pl_status engine_url_parse(const char *text, engine_url *out);
/* Writes the URL of a part of a store: `name` is added to namespace or prefix. */
pl_status engine_url_part(const char *text, const char *name, char out[ENGINE_URL_MAX]);

/* ---- operations of an engine ---- */
typedef struct engine_entry {
    const char *name; /* borrowed */
    uint64_t bytes;
} engine_entry;
typedef pl_status (*engine_entry_fn)(void *context, const engine_entry *entry);

/* Each operation makes one attempt with a time limit (a list in S3 repeats requests). A
 * temporary failure is ERR_NET or ERR_TIMEOUT. After these two errors it is unknown
 * whether the request was carried out.
 *
 *   put   writes a new object; ERR_EXISTS if an object with that name exists
 *   get   appends the content to `out`; ERR_NOT_FOUND if there is no such object
 *   swap  writes `next` if the content is `expected`, else ERR_STALE; an empty
 *         `expected` means that there must be no object
 *   drop  deletes the object; no error if there is none
 *   list  visits the objects whose names start with `prefix`, in any order
 *   sign  appends a URL with which anybody can, for ENGINE_SIGNED_S seconds, read the
 *         object (put_bytes 0), or write it with this length if it does not exist yet;
 *         NULL: the service has no such URLs */
typedef struct engine_ops {
    pl_status (*put)(void *self, const char *name, const void *data, size_t len);
    pl_status (*get)(void *self, const char *name, pl_buf *out);
    pl_status (*swap)(void *self, const char *name, const pl_buf *expected,
                      const pl_buf *next);
    pl_status (*drop)(void *self, const char *name);
    pl_status (*list)(void *self, const char *prefix, engine_entry_fn fn,
                      void *context);
    pl_status (*sign)(void *self, const char *name, uint64_t put_bytes, pl_buf *out);
    void (*close)(void *self);
} engine_ops;

/* Connects to the service. ERR_UNSUPPORTED if this build lacks the library (the error
 * says what to install), or if the service lacks a feature that a writer needs. */
pl_status engine_rados_open(const engine_url *url, bool to_write,
                            const engine_ops **ops, void **self);
pl_status engine_s3_open(const engine_url *url, bool to_write, const engine_ops **ops,
                         void **self);

/* ---- the same operations, with retries ---- */
/* whether a request that failed with this status may succeed later */
bool engine_may_retry(pl_status status);
typedef struct engine engine;
pl_status engine_open(const char *url, bool to_write, engine **out);
void engine_close(engine **e);             /* accepts NULL */
const char *engine_place(const engine *e); /* "rados://pool/space", for messages */

/* Writes an object. OK if the object exists already with the same bytes. */
pl_status engine_put(engine *e, const char *name, const void *data, size_t len);
pl_status engine_get(engine *e, const char *name, pl_buf *out);
/* Replaces the content `expected` of an object by `next`. The call also succeeds if the
 * content already is `next`, so two writers must never write equal contents. ERR_STALE:
 * the content is neither `expected` nor `next`. This also happens if the swap
 * succeeded, its answer was lost, and another writer has made a swap since. After
 * ERR_STALE the caller must not write again. */
pl_status engine_swap(engine *e, const char *name, const pl_buf *expected,
                      const pl_buf *next);
pl_status engine_drop(engine *e, const char *name);
pl_status engine_list(engine *e, const char *prefix, engine_entry_fn fn, void *context);
bool engine_signs(const engine *e); /* whether the service has signed URLs */
/* Signing needs no request. */
pl_status engine_sign(engine *e, const char *name, uint64_t put_bytes, pl_buf *out);

/* engine_put_all and engine_drop_all handle many objects, ENGINE_THREADS at a time. If
 * several objects fail, they return the failure of the first of these in the list. */
typedef struct engine_object {
    char name[ENGINE_NAME_MAX];
    const void *data; /* borrowed */
    size_t len;
} engine_object;
typedef struct engine_objects {
    engine_object *at;
    size_t n;
} engine_objects;
engine_object *engine_objects_add(engine_objects *list); /* adds a zeroed object */
pl_status engine_put_all(engine *e, const engine_object *objects, size_t n);
pl_status engine_drop_all(engine *e, const engine_object *objects, size_t n);
