/* Private to wire and gate: the header of messages, the process's ZeroMQ context, and
 * its own key. */
#ifndef PL_BASE_WIRE_PARTS_H
#define PL_BASE_WIRE_PARTS_H
#include "base/keys.h"
#include "base/wire.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { WIRE_HEADER_BYTES = 64, WIRE_FRAMES_MAX = 3 };

typedef struct wire_frame {
    const void *data;
    size_t len;
} wire_frame;

void wire_header_encode(const pl_message *message, uint8_t out[WIRE_HEADER_BYTES]);
/* Every check that stands between the network and the caller; n_frames may be more than
 * the frames that are given. */
bool wire_decode(const wire_frame *frames, size_t n_frames, pl_message *out);
/* The same without a copy of the data: *data is where it lies among the frames. */
bool wire_decode_lent(const wire_frame *frames, size_t n_frames, pl_message *out,
                      wire_frame *data);
/* Gives back data that is lent; then the message has none. */
void wire_give_back(pl_message *message);

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
