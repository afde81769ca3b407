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

static const struct {
    uint16_t type;
    unsigned roles;
} rows[] = {
    {PL_MSG_HELLO, TRAINS | HUB | ADMIN},
    {PL_MSG_STOP, ADMIN},
    {PL_MSG_ENROL, BIT(INVITE) | BIT(LOCAL)},
    {PL_MSG_TASK_REQ, TRAINS},
    {PL_MSG_RENEW, TRAINS},
    {PL_MSG_DONE, TRAINS},
    {PL_MSG_RELEASE, TRAINS},
    {PL_MSG_OFFER, TRAINS},
    {PL_MSG_STATUS, WATCHES},
    {PL_MSG_GET_BLOB, READS},
    {PL_MSG_GET_VERSION, READS},
    {PL_MSG_GET_UPDATE, READS},
    {PL_MSG_GET_PATH, READS},
    {PL_MSG_GET_OBJECT, READS},
    {PL_MSG_MEET, SENDS},
    {PL_MSG_PUT_BLOB, SENDS | ADMIN},
    {PL_MSG_SUBMIT, SENDS},
    {PL_MSG_SUBMIT_PATH, SENDS},
    {PL_MSG_PUT_OBJECT, ADMIN},
    {PL_MSG_PUT_REF, ADMIN},
    {PL_MSG_CREATE_MODULE, ADMIN},
    {PL_MSG_LIST, BIT(HOME) | ADMIN},
    {PL_MSG_GET_ROW, BIT(HOME) | ADMIN},
    {PL_MSG_PUT_ROWS, ADMIN},
    {PL_MSG_HOLD, ADMIN},
    {PL_MSG_HAND_OVER, ADMIN},
    {PL_MSG_ADOPT, ADMIN | HUB},
    {PL_MSG_PUT_PLACES, ADMIN},
    {PL_MSG_GET_PLACES, READS},
    {PL_MSG_HOMES, ADMIN},
    {PL_MSG_GET_STATE, HUB},
    {PL_MSG_FENCE, HUB},
    {PL_MSG_PUT_AUDIT, HUB},
    {PL_MSG_FENCE_WORKER, HUB},
};

bool pl_role_allows(pl_key_role role, uint16_t type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == type)
            return (rows[i].roles >> role) & 1u;
    return false;
}
