/* Chooses the home that a client asks. If the home that was asked does not own the
 * name, it answers which home does, and the client remembers the answer. So a client
 * with an old table needs one more question, but never gets a wrong answer. */
#include "net/client_internal.h"
#include "net/move.h"

int client_home_of(const pl_client *c, const char *name)
{
    int learnt = pl_name_table_get(c->moved, name);
    return learnt >= 0 ? learnt : pl_places_home(&c->places, name);
}

pl_socket *client_socket_of(const pl_client *c, const char *name)
{
    return c->sockets[client_home_of(c, name)];
}

pl_status client_learn(pl_client *c, pl_message *moved)
{
    pl_msg_moved to;
    PL_CHECK(PL_HEAR(moved, moved, &to));
    if (to.home < 0 || to.home >= PL_HOMES_MAX)
        return pl_fail(PL_ERR_PROTO,
                       "a home answered that %s belongs to home number %lld (counted "
                       "from 0), but a job has at most %d homes",
                       to.name, (long long)to.home, PL_HOMES_MAX);
    if (!c->sockets[to.home]) {
        /* the home was added after this client was made, so it is not connected yet */
        int home = (int)to.home;
        const char *address = to.address ? to.address : "";
        if (!address[0])
            return pl_fail(PL_ERR_NOT_FOUND,
                           "%s has moved to home %d, whose address is not known",
                           to.name, home + 1);
        PL_CHECK(pl_wire_connect_as(address, c->keys, &c->sockets[home]));
        if (c->n_homes <= home)
            c->n_homes = home + 1;
    }
    pl_name_table_put(c->moved, to.name, (int)to.home);
    return PL_OK;
}

pl_status pl_client_hold_all(pl_client *c, int64_t ms, uint64_t *sequences)
{
    for (int i = 0; i < c->n_homes; i++) {
        uint64_t *sequence = &sequences[i];
        pl_message q = {0};
        pl_msg_ok_sequence a;
        PL_SAY(&q, HOLD, hold, .ttl_ms = (uint64_t)ms);
        PL_CHECK(client_query(c, i, NULL, &q, pl_fields_of_ok_sequence(), &a));
        *sequence = a.sequence;
    }
    return PL_OK;
}

pl_status client_follow(pl_client *c, pl_message *moved, int64_t since_ms)
{
    pl_status status = client_learn(c, moved);
    if (status != PL_OK && status != PL_ERR_NOT_FOUND)
        return status;
    if (pl_now_ms() - since_ms <= c->patience_ms) {
        pl_sleep_ms(BOUNCE_MS);
        return c->idle ? c->idle(c->idle_context) : PL_OK;
    }
    return status != PL_OK
               ? status
               : pl_fail(PL_ERR_TIMEOUT,
                         "for %d s each home said that a different home owns a name; "
                         "`pathloom homes list` shows names that are being moved",
                         c->patience_ms / 1000);
}
