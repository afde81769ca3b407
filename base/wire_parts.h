/* Private to wire and gate: the process's ZeroMQ context and its own key. */
#ifndef PL_BASE_WIRE_PARTS_H
#define PL_BASE_WIRE_PARTS_H
#include "base/keys.h"
#ifdef __cplusplus
extern "C" {
#endif

void *wire_context(void);

enum { WIRE_ENFORCE_DOMAIN = 93 }; /* ZMQ_ZAP_ENFORCE_DOMAIN, hidden in 4.3's header */

/* CURVE on a ZeroMQ socket: as server, or as client of the server with that key. The
 * status is OK, or ERR_UNSUPPORTED for a ZeroMQ that cannot be made safe. */
PL_MUST_CHECK pl_status wire_curve_server(void *zmq, const pl_keypair *own);
PL_MUST_CHECK pl_status wire_curve_client(void *zmq, const pl_keypair *own,
                                          const pl_pubkey *server);

#ifdef __cplusplus
}
#endif
#endif
