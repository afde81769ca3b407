/* Which key may send which message (docs/PROTOCOL.md 1.6): one table for hub, home,
 * relay and worker, for the numbers of messages are the same everywhere. */
#ifndef PL_NET_ROLES_H
#define PL_NET_ROLES_H
#include "net/messages.h"
#ifdef __cplusplus
extern "C" {
#endif

/* False also for types that are answers, or that nobody knows. */
bool pl_role_allows(pl_key_role role, uint16_t type);
/* Of the share that its key has of a server (base/quota.h). */
unsigned pl_message_cost(uint16_t type);

#ifdef __cplusplus
}
#endif
#endif
