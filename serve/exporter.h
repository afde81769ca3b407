/* /metrics over HTTP, in threads of its own, beside the hub. */
#ifndef PL_SERVE_EXPORTER_H
#define PL_SERVE_EXPORTER_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_exporter pl_exporter;
/* IPv4:PORT; port 0 where PORT is `*`. False: not of this form. */
struct sockaddr_in;
bool pl_http_address(const char *listen, struct sockaddr_in *out);

/* ERR_CONFIG: not the form of what pl_exporter_open takes. */
PL_MUST_CHECK pl_status pl_exporter_check(const char *listen);
/* `listen`: HOST:PORT, HOST a number. `hub` asks the hub for its status: it is called
 * in the exporter's thread, one request at a time. ERR_BUSY: the port is in use. */
PL_MUST_CHECK pl_status pl_exporter_open(const char *listen,
                                         pl_status (*hub)(void *context,
                                                          pl_json **status),
                                         void *context, pl_exporter **out);
void pl_exporter_close(pl_exporter **e); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
