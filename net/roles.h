/* Determines which messages a key may send, from the role of the key (docs/PROTOCOL.md
 * 1.6). Hub, home, relay and worker use the same table, because message types have the
 * same numbers in all of them. */
#pragma once
#include "net/messages.h"

/* Returns whether a key with this role may send messages of this type as questions.
 * Returns false for unknown types and for answers. */
bool pl_role_allows(pl_key_role role, uint16_t type);
/* Returns the cost of a message of this type, which is taken from the token bucket of
 * the sender's key (base/quota.h). */
unsigned pl_message_cost(uint16_t type);
