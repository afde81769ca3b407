/* Private to cli: /metrics over HTTP, in threads of its own, beside the hub. */
#ifndef PL_CLI_EXPORTER_H
#define PL_CLI_EXPORTER_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct exporter exporter;
/* IPv4:PORT; port 0 where PORT is `*`. False: not of this form. */
struct sockaddr_in;
bool http_address(const char *listen, struct sockaddr_in *out);

/* ERR_CONFIG: not the form of what exporter_open takes. */
PL_MUST_CHECK pl_status exporter_check(const char *listen);
/* `listen`: HOST:PORT, HOST a number. `hub` asks the hub for its status: it is called
 * in the exporter's thread, one request at a time. ERR_BUSY: the port is in use. */
PL_MUST_CHECK pl_status exporter_open(const char *listen,
                                      pl_status (*hub)(void *context, pl_json **status),
                                      void *context, exporter **out);
void exporter_close(exporter **e); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
