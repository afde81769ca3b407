/* Ceph RADOS through librados: every name is an object in a pool and a namespace.
 *
 * The hash of the head's bytes is stored as an attribute of the head. A swap compares
 * this hash, writes the bytes and writes the new hash. The storage daemon that has the
 * object does this in one operation, so a swap is atomic. A call blocks its thread, and
 * several threads make calls. A call fails after OPERATION_S seconds; otherwise a
 * daemon that hangs would block the call for ever. If the pool is full, a call fails at
 * once (FULL_TRY) and does not wait until there is room.
 *
 * The library is loaded when an engine is opened (base/library.h): with everything on
 * which it depends it takes 10 MiB of memory. */
#include "store/engine/engine.h"
#include <errno.h>
#include <rados/librados.h>
#include <string.h>

#define OPERATION_S    "10"
#define HASH_ATTRIBUTE "pathloom.hash"

#define RADOS_FUNCTIONS(X)                                                             \
    X(rados_create2)                                                                   \
    X(rados_shutdown)                                                                  \
    X(rados_conf_read_file)                                                            \
    X(rados_conf_set)                                                                  \
    X(rados_connect)                                                                   \
    X(rados_ioctx_create)                                                              \
    X(rados_ioctx_destroy)                                                             \
    X(rados_ioctx_set_namespace)                                                       \
    X(rados_read)                                                                      \
    X(rados_stat)                                                                      \
    X(rados_nobjects_list_open)                                                        \
    X(rados_nobjects_list_next)                                                        \
    X(rados_nobjects_list_close)                                                       \
    X(rados_create_write_op)                                                           \
    X(rados_release_write_op)                                                          \
    X(rados_write_op_operate)                                                          \
    X(rados_write_op_create)                                                           \
    X(rados_write_op_write_full)                                                       \
    X(rados_write_op_cmpxattr)                                                         \
    X(rados_write_op_setxattr)                                                         \
    X(rados_write_op_remove)

enum { READ_STEP_BYTES = (1 << 20) + 4096 };

static struct {
    RADOS_FUNCTIONS(PL_LIBRARY_MEMBER)
} ceph;

typedef struct rados_engine {
    rados_t cluster;
    rados_ioctx_t pool;
} rados_engine;

/* Turns an error of librados into a status; engine.c adds the object's name. */
static pl_status refused(int error)
{
    switch (-error) {
    case ENOENT:
        return pl_fail(PL_ERR_NOT_FOUND, "there is no such object");
    case EEXIST:
        return pl_fail(PL_ERR_EXISTS, "an object with this name exists already");
    case ECANCELED:
        return pl_fail(PL_ERR_STALE, "another process has changed the object");
    case ENOSPC:
    case EDQUOT:
        return pl_fail(
            PL_ERR_NOSPACE,
            "the pool is full or at its quota; give it space (`ceph df`, `ceph osd "
            "pool get-quota`), or free some with `pathloom store gc --delete`");
    case EACCES:
    case EPERM:
        return pl_fail(PL_ERR_NOPERM,
                       "this Ceph client may not do this; give it the capabilities "
                       "`mon allow r, osd allow rwx pool=...`");
    case ETIMEDOUT:
        return pl_fail(PL_ERR_TIMEOUT,
                       "no answer in " OPERATION_S " s; look at `ceph -s`");
    case EAGAIN:
    case ENOTCONN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EBUSY:
        return pl_fail(PL_ERR_NET, "%s", strerror(-error));
    default:
        return pl_fail(PL_ERR_IO, "%s; look at `ceph -s`", strerror(-error));
    }
}

static pl_status operate(rados_engine *e, rados_write_op_t op, const char *name)
{
    int error = ceph.rados_write_op_operate(op, e->pool, name, NULL,
                                            LIBRADOS_OPERATION_FULL_TRY);
    ceph.rados_release_write_op(op);
    return error < 0 ? refused(error) : PL_OK;
}

static pl_status rados_put(void *self, const char *name, const void *data, size_t len)
{
    rados_engine *e = self;
    rados_write_op_t op = ceph.rados_create_write_op();
    ceph.rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
    ceph.rados_write_op_write_full(op, len ? data : "", len);
    return operate(e, op, name);
}

static pl_status rados_swap(void *self, const char *name, const pl_buf *expected,
                            const pl_buf *next)
{
    rados_engine *e = self;
    pl_hash before, after;
    rados_write_op_t op = ceph.rados_create_write_op();
    pl_hash_of("swap", expected->data, expected->len, &before);
    pl_hash_of("swap", next->data, next->len, &after);
    if (expected->len > 0)
        ceph.rados_write_op_cmpxattr(op, HASH_ATTRIBUTE, LIBRADOS_CMPXATTR_OP_EQ,
                                     (const char *)before.bytes, sizeof before.bytes);
    else
        ceph.rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
    ceph.rados_write_op_write_full(op, next->len ? (const char *)next->data : "",
                                   next->len);
    ceph.rados_write_op_setxattr(op, HASH_ATTRIBUTE, (const char *)after.bytes,
                                 sizeof after.bytes);
    pl_status status = operate(e, op, name);
    return status == PL_ERR_EXISTS || status == PL_ERR_NOT_FOUND ? PL_ERR_STALE
                                                                 : status;
}

static pl_status rados_drop(void *self, const char *name)
{
    rados_engine *e = self;
    rados_write_op_t op = ceph.rados_create_write_op();
    ceph.rados_write_op_remove(op);
    pl_status status = operate(e, op, name);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

/* Reads an object. A chunk needs one request. A larger object needs several requests.
 * The head is always small enough to be read in one piece. */
static pl_status rados_get(void *self, const char *name, pl_buf *out)
{
    rados_engine *e = self;
    for (uint64_t at = 0; at <= ENGINE_OBJECT_MAX;) {
        pl_buf_reserve(out, READ_STEP_BYTES);
        int n = ceph.rados_read(e->pool, name, (char *)out->data + out->len,
                                READ_STEP_BYTES, at);
        if (n < 0)
            return refused(n);
        out->len += (size_t)n;
        at += (uint64_t)n;
        if (n < READ_STEP_BYTES)
            return PL_OK;
    }
    return pl_fail(PL_ERR_DAMAGED, "it has more than %d bytes", ENGINE_OBJECT_MAX);
}

static pl_status rados_list(void *self, const char *prefix, engine_entry_fn fn,
                            void *context)
{
    rados_engine *e = self;
    rados_list_ctx_t walk;
    const char *name;
    pl_status status = PL_OK;
    int error = ceph.rados_nobjects_list_open(e->pool, &walk);
    if (error < 0)
        return refused(error);
    while (status == PL_OK &&
           (error = ceph.rados_nobjects_list_next(walk, &name, NULL, NULL)) == 0)
        if (pl_starts_with(name, prefix)) {
            engine_entry entry = {.name = name};
            time_t changed;
            const int stated = ceph.rados_stat(e->pool, name, &entry.bytes, &changed);
            /* ENOENT: the object was dropped meanwhile */
            if (stated != -ENOENT)
                status = stated < 0 ? refused(stated) : fn(context, &entry);
        }
    if (status == PL_OK && error != -ENOENT)
        status = refused(error);
    ceph.rados_nobjects_list_close(walk);
    return status;
}

static void rados_close(void *self)
{
    rados_engine *e = self;
    if (e->pool)
        ceph.rados_ioctx_destroy(e->pool);
    if (e->cluster)
        ceph.rados_shutdown(e->cluster);
    pl_free(e);
}

static const engine_ops OPS = {rados_put,  rados_get, rados_swap, rados_drop,
                               rados_list, NULL,      rados_close};

pl_status engine_rados_open(const engine_url *url, bool to_write,
                            const engine_ops **ops, void **self)
{
    static const char *const names[] = {RADOS_FUNCTIONS(PL_LIBRARY_NAME)};
    static const char *const bounds[] = {"rados_osd_op_timeout", "rados_mon_op_timeout",
                                         "client_mount_timeout"};
    char client[80];
    pl_status status = PL_OK;
    (void)to_write; /* RADOS supports everything that a writer needs */
    rados_engine *e = pl_alloc(sizeof *e);
    PL_TRY(pl_library_load("librados.so.2", "librados2", names, &ceph, sizeof ceph));
    snprintf(client, sizeof client, "client.%s", url->id[0] ? url->id : "admin");
    int error = ceph.rados_create2(&e->cluster, "ceph", client, 0);
    if (error < 0)
        PL_TRY(pl_fail(PL_ERR_OS, "librados does not start: %s", strerror(-error)));
    error = ceph.rados_conf_read_file(e->cluster, url->conf[0] ? url->conf : NULL);
    if (error < 0)
        PL_TRY(pl_fail(
            PL_ERR_CONFIG,
            "the Ceph configuration %s cannot be read: %s; name one with ?conf=PATH",
            url->conf[0] ? url->conf : "/etc/ceph/ceph.conf", strerror(-error)));
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (ceph.rados_conf_set(e->cluster, bounds[i], OPERATION_S) < 0)
            PL_TRY(pl_fail(PL_ERR_UNSUPPORTED,
                           "this librados does not know the option %s", bounds[i]));
    error = ceph.rados_connect(e->cluster);
    if (error < 0)
        PL_TRY(pl_fail_in(refused(error), "cannot connect to Ceph"));
    error = ceph.rados_ioctx_create(e->cluster, url->place, &e->pool);
    if (error == -ENOENT)
        PL_TRY(pl_fail(PL_ERR_CONFIG,
                       "Ceph has no pool %s; make it: `ceph osd pool create %s`",
                       url->place, url->place));
    if (error < 0)
        PL_TRY(pl_fail_in(refused(error), "cannot open the pool %s", url->place));
    ceph.rados_ioctx_set_namespace(e->pool, url->space);
    *ops = &OPS;
    *self = e;
    return PL_OK;
done:
    rados_close(e);
    return status;
}
