/* Chooses the home that a client asks. A home that is asked for a name of another home
 * says which home has it, and the client remembers that. So an old table costs an
 * additional question, but never a wrong answer. */
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

/* Connects to a home that was added since. */
static pl_status meet_home(pl_client *c, int home, const char *address)
{
    if (!address[0])
        return pl_fail(PL_ERR_NOT_FOUND,
                       "a name has gone to home %d, and nobody says where that is",
                       home + 1);
    PL_RETURN_IF(pl_wire_connect_as(address, c->keys, &c->sockets[home]));
    if (c->n_homes <= home)
        c->n_homes = home + 1;
    return PL_OK;
}

pl_status client_learn(pl_client *c, const pl_message *moved)
{
    pl_reader r;
    char name[PL_MODULE_NAME_MAX], address[PL_ADDRESS_MAX] = "";
    pl_reader_open(&r, "MOVED", moved->body.data, moved->body.len);
    pl_get_text(&r, PL_TAG_NAME, 0, name, sizeof name);
    if (pl_field_count(&r, PL_TAG_ADDRESS) > 0)
        pl_get_text(&r, PL_TAG_ADDRESS, 0, address, sizeof address);
    uint64_t home = pl_get_u64(&r, PL_TAG_HOME, 0);
    PL_RETURN_IF(pl_reader_status(&r));
    if (home >= PL_HOMES_MAX)
        return pl_fail(PL_ERR_PROTO, "there is no home %llu", (unsigned long long)home);
    if (!c->sockets[home])
        PL_RETURN_IF(meet_home(c, (int)home, address));
    pl_name_table_put(c->moved, name, (int)home);
    return PL_OK;
}

static pl_status hold_home(pl_client *c, int home, int64_t ms, uint64_t *sequence)
{
    pl_message q, a;
    pl_reader r;
    pl_message_init(&q, PL_MSG_HOLD);
    pl_message_init(&a, 0);
    pl_put_u64(&q.body, PL_TAG_TTL_MS, (uint64_t)ms);
    pl_status status = client_ask(c, c->sockets[home], &q, &a);
    pl_reader_open(&r, "OK", a.body.data, a.body.len);
    if (status == PL_OK) {
        *sequence = pl_get_u64(&r, PL_TAG_SEQUENCE, 0);
        status = pl_reader_status(&r);
    }
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

pl_status pl_client_hold_all(pl_client *c, int64_t ms, uint64_t *sequences)
{
    for (int i = 0; i < c->n_homes; i++)
        PL_RETURN_IF(hold_home(c, i, ms, &sequences[i]));
    return PL_OK;
}

static pl_status pause_a_little(pl_client *c)
{
    pl_sleep_ms(BOUNCE_MS);
    return c->idle ? c->idle(c->idle_context) : PL_OK;
}

pl_status client_follow(pl_client *c, const pl_message *moved, int64_t since_ms)
{
    pl_status status = client_learn(c, moved);
    if (status != PL_OK && status != PL_ERR_NOT_FOUND)
        return status;
    if (pl_now_ms() - since_ms <= c->patience_ms)
        return pause_a_little(c);
    return status != PL_OK ? status
                           : pl_fail(PL_ERR_TIMEOUT,
                                     "a name was sent from home to home for %d s; "
                                     "`pathloom homes list` shows what is on its way",
                                     c->patience_ms / 1000);
}
