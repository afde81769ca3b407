/* The table of which role of key may send which message, and what a message costs of
 * its key's share (roles.h). A message type that is missing here is refused for every
 * key. */
#include "net/roles.h"

#define BIT(role) (1u << PL_AS_##role)

enum {
    ADMIN = BIT(ADMIN) | BIT(LOCAL),
    HUB = BIT(HUB) | BIT(LOCAL),
    TRAINS = BIT(WORKER) | BIT(LOCAL),
    SENDS = BIT(WORKER) | BIT(RELAY) | BIT(LOCAL),
    READS = BIT(WORKER) | BIT(RELAY) | BIT(INSPECTOR) | BIT(HUB) | BIT(HOME) |
            BIT(ADMIN) | BIT(LOCAL),
    WATCHES = READS
};

/* The cost of a message in its key's share (base/quota.h): messages that carry up to 1
 * MiB or make the server read that much, messages that make it store a worker or a key,
 * and messages for which it describes the whole job. */
enum { CARRIES = 4, NAMES = 40, DESCRIBES = 400 };

static const struct {
    uint16_t type;
    unsigned roles, cost; /* 0: 1 */
} rows[] = {
    {PL_MSG_HELLO, TRAINS | HUB | ADMIN, NAMES},
    {PL_MSG_STOP, ADMIN, 0},
    {PL_MSG_ENROL, BIT(INVITE) | BIT(LOCAL), CARRIES},
    {PL_MSG_TASK_REQ, TRAINS, 0},
    {PL_MSG_RENEW, TRAINS, 0},
    {PL_MSG_DONE, TRAINS, 0},
    {PL_MSG_RELEASE, TRAINS, 0},
    {PL_MSG_OFFER, TRAINS, 0},
    {PL_MSG_STATUS, WATCHES, DESCRIBES},
    {PL_MSG_GET_BLOB, READS, CARRIES},
    {PL_MSG_GET_VERSION, READS, 0},
    {PL_MSG_GET_UPDATE, READS, CARRIES},
    {PL_MSG_GET_PATH, READS, 0},
    {PL_MSG_GET_OBJECT, READS, 0},
    {PL_MSG_MEET, SENDS, 0},
    {PL_MSG_PUT_BLOB, SENDS | ADMIN, CARRIES},
    {PL_MSG_SUBMIT, SENDS, CARRIES},
    {PL_MSG_SUBMIT_PATH, SENDS, CARRIES},
    {PL_MSG_PUT_OBJECT, ADMIN, 0},
    {PL_MSG_PUT_REF, ADMIN, 0},
    {PL_MSG_CREATE_MODULE, ADMIN, 0},
    {PL_MSG_LIST, BIT(HOME) | ADMIN, 0},
    {PL_MSG_GET_ROW, BIT(HOME) | ADMIN, 0},
    {PL_MSG_PUT_ROWS, ADMIN, 0},
    {PL_MSG_HOLD, ADMIN, 0},
    {PL_MSG_HAND_OVER, ADMIN, 0},
    {PL_MSG_ADOPT, ADMIN | HUB, 0},
    {PL_MSG_PUT_PLACES, ADMIN, 0},
    {PL_MSG_GET_PLACES, READS, 0},
    {PL_MSG_HOMES, ADMIN, 0},
    {PL_MSG_GET_STATE, HUB, 0},
    {PL_MSG_FENCE, HUB, 0},
    {PL_MSG_PUT_AUDIT, HUB, 0},
    {PL_MSG_FENCE_WORKER, HUB, 0},
};

unsigned pl_message_cost(uint16_t type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == type && rows[i].cost > 0)
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
