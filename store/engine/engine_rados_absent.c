/* Replaces engine_rados.c in a build without librados: opening a rados:// engine fails,
 * and the error says what to install. */
#include "store/engine/engine.h"

pl_status engine_rados_open(const engine_url *url, bool to_write,
                            const engine_ops **ops, void **self)
{
    (void)to_write;
    (void)ops;
    (void)self;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "this build cannot reach rados://%s: it was made without librados; "
                   "install librados-dev and build again",
                   url->place);
}
