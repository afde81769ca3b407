/* Which role of key may send which message (docs/PROTOCOL.md 1.6). Hub, home, relay and
 * worker share one table, because the numbers of messages are the same everywhere. */
#ifndef PL_NET_ROLES_H
#define PL_NET_ROLES_H
#include "net/messages.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Also returns false for unknown types and for answers. */
bool pl_role_allows(pl_key_role role, uint16_t type);
/* The cost of a message, which is taken from its key's token bucket (base/quota.h). */
unsigned pl_message_cost(uint16_t type);

#ifdef __cplusplus
}
#endif
#endif
