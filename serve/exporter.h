/* Serves /metrics over HTTP in the hub's process, on separate threads. */
#pragma once
#include "base/base.h"

typedef struct pl_exporter pl_exporter;

/* ERR_CONFIG if pl_exporter_open would refuse the address. `address` gets
 * tcp://HOST:PORT with the number of the host. */
pl_status pl_exporter_check(const char *listen, char address[PL_ADDRESS_MAX]);
/* Listens at `listen`, HOST:PORT. For each request the exporter's thread calls `hub`;
 * two calls never overlap. `hub` sets *status to the hub's status; the
 * exporter destroys it. ERR_BUSY: the port is in use. */
pl_status pl_exporter_open(const char *listen,
                           pl_status (*hub)(void *context, pl_json **status),
                           void *context, pl_exporter **out);
void pl_exporter_close(pl_exporter **e); /* accepts NULL */
