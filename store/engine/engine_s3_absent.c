/* Replaces engine_s3.c in a build without libcurl: opening such an engine fails and
 * says what to install. */
#include "store/engine/engine.h"

pl_status engine_s3_open(const engine_url *url, bool to_write, const engine_ops **ops,
                         void **self)
{
    (void)to_write;
    (void)ops;
    (void)self;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "this build cannot reach s3://%s: it was made without libcurl; "
                   "install libcurl4-openssl-dev and build again",
                   url->place);
}
