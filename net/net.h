/* The door of net: what processes of a job say to each other.
 *
 * Read in this order: messages.def and messages (the protocol's types and fields, and
 * what follows from them), roles (who may send what), placement (which home has what),
 * lease (the sealed permission to submit), submission (what a worker hands in), client
 * (asking homes), move (moving modules from home to home, as a client).
 */
#ifndef PL_NET_NET_H
#define PL_NET_NET_H
#include "net/client.h"
#include "net/lease.h"
#include "net/messages.h"
#include "net/move.h"
#include "net/placement.h"
#include "net/roles.h"
#include "net/submission.h"
#endif
