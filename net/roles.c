/* Lists for each message type the roles whose keys may send it, and the cost of the
 * message (roles.h). A message type that is missing here is refused for every key. */
#include "net/roles.h"

#define BIT(role) (1u << PL_AS_##role)

enum {
    ADMIN = BIT(ADMIN) | BIT(LOCAL),
    HUB = BIT(HUB) | BIT(LOCAL),
    TRAINS = BIT(WORKER) | BIT(LOCAL),
    SENDS = BIT(WORKER) | BIT(RELAY) | BIT(LOCAL),
    WATCHES = BIT(INSPECTOR) | BIT(HOME) | ADMIN,
    /* An inspector gets no names and bytes, because hashes in definitions lead to
     * texts. */
    READS = SENDS | HUB | ADMIN
};

/* Costs of messages, which are taken from the token bucket of the sender's key
 * (base/quota.h). CARRIES is for messages that make the server write to its store, or
 * search it. NAMES is for messages that make the server store a worker or
 * a key, or lease a task to another worker. DESCRIBES is for messages that the server
 * answers with a description of the complete job. */
enum { CARRIES = 4, NAMES = 40, DESCRIBES = 400 };

static const struct {
    uint16_t type;
    unsigned roles, cost;
} rows[] = {
#define QUESTION(type, NAME, roles, cost) {(type), (roles), (cost)},
#include "net/messages.def"
};

unsigned pl_message_cost(uint16_t type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == type)
            return rows[i].cost;
    return 1;
}

bool pl_role_allows(pl_key_role role, uint16_t type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == type)
            return (rows[i].roles >> role) & 1u;
    return false;
}
