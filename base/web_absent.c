/* Replaces web.c in a build without libcurl: opening fails and says what to install. */
#include "base/web.h"

pl_status pl_web_open(pl_web **out)
{
    *out = NULL;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "this build was made without libcurl, so it cannot use an S3 store; "
                   "install libcurl4-openssl-dev and build again");
}

void pl_web_close(pl_web **web)
{
    *web = NULL;
}

pl_status pl_web_ask(pl_web *web, pl_web_request *request)
{
    (void)web;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "a request to %s needs libcurl, which this build lacks",
                   request->url);
}
