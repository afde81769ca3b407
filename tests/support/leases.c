/* Defines the functions of leases.h. */
#include "tests/support/leases.h"

pl_lease_secret home_secret;

static char homes[PL_HOMES_MAX][PL_ADDRESS_MAX];
static int n_homes;

pl_status ask_home(const char *home, pl_message *q, uint64_t epoch, pl_message *answer)
{
    OWNED(pl_wire_close) pl_socket *socket = NULL;
    pl_message_init(answer, 0);
    q->request = pl_wire_next_request();
    q->epoch = epoch;
    assert_ok(pl_wire_connect(home, &socket));
    pl_status status = pl_wire_ask(socket, q, 500, 60000, answer);
    pl_message_destroy(q);
    return status;
}

static pl_status ask_home_as_hub(const char *home, pl_message *q)
{
    OWNED(pl_message_destroy) pl_message a;
    return ask_home(home, q, UINT64_MAX, &a); /* no hub is newer */
}

void tell_number(const char *home, int number, int n)
{
    static const pl_lease_secret none;
    pl_message q;
    if (memcmp(&home_secret, &none, sizeof none) == 0)
        pl_lease_secret_create(&home_secret);
    pl_message_init(&q, 0);
    PL_SAY(&q, HELLO, hello_home, .role = "hub", .ttl_ms = 60000,
           .secret = home_secret.bytes, .home = (uint64_t)number, .homes = (uint64_t)n);
    assert_ok(ask_home_as_hub(home, &q));
}

void tell_secret_also(const char *home)
{
    tell_number(home, 0, 0);
    pl_copy_text(homes[n_homes++], PL_ADDRESS_MAX, home);
}

/* The list never lacks a home that starts again: threads of a test may tell it of
 * leases in the meantime. */
void tell_secret(const char *home)
{
    tell_number(home, 0, 0);
    pl_copy_text(homes[0], PL_ADDRESS_MAX, home);
    n_homes = 1;
}

void tell_valid(const pl_arm *arm, const pl_lease *lease, uint64_t newest)
{
    OWNED(pl_topology_destroy) pl_topology *topology = NULL;
    char path[96];
    assert_ok(pl_topology_create(&arm->shape, &arm->spec, &topology));
    const bool exists =
        lease->path >= 0 && lease->path < pl_topology_n_paths(topology) &&
        lease->replica >= 0 && lease->replica < pl_topology_n_replicas(topology);
    if (exists)
        pl_arm_path_name(arm, topology, (int)lease->path, (int)lease->replica, path);
    if (!exists) /* a test may name a path that the arm does not have */
        return;
    for (int i = 0; i < n_homes; i++) {
        pl_message q;
        pl_message_init(&q, 0);
        q.token = newest;
        PL_SAY(&q, FENCE, fence, .name = path, .token = PL_ITEMS(&lease->token, 1));
        assert_ok(ask_home_as_hub(homes[i], &q));
    }
}

pl_lease lease_of(const pl_arm *arm, int64_t path, int64_t phase, uint64_t token)
{
    pl_lease lease = {.path = path, .phase = phase, .token = token ? token : 1};
    pl_copy_text(lease.arm, sizeof lease.arm, arm->name);
    pl_copy_text(lease.worker, sizeof lease.worker, "w");
    pl_copy_text(lease.device, sizeof lease.device, "d");
    return lease;
}

/* Lets the client work under this lease; act_under first tells the homes of it. */
static void show_lease(pl_client *client, const pl_lease *lease)
{
    pl_sealed_lease sealed;
    pl_lease_seal(&home_secret, lease, &sealed);
    pl_client_act_under(client, &sealed);
}

void act_under(pl_client *client, const pl_arm *arm, const pl_lease *lease)
{
    tell_valid(arm, lease, lease->token);
    show_lease(client, lease);
}

void lease_for(pl_client *client, const pl_arm *arm, pl_contribution *c, int64_t phase)
{
    pl_lease lease = lease_of(arm, c->path, phase, c->token);
    lease.replica = c->replica;
    if (c->worker[0])
        pl_copy_text(lease.worker, sizeof lease.worker, c->worker);
    c->work.n_samples = pl_phase_samples(arm);
    c->work.first_sample = (uint64_t)phase * c->work.n_samples;
    act_under(client, arm, &lease);
}

pl_status send_state(pl_client *client, const pl_path_state *given, const void *moments,
                     uint64_t bytes, pl_submit_result *result, char text[256])
{
    pl_path_state state = *given;
    if (pl_hash_none(&state.moments) && moments)
        pl_blob_hash(moments, bytes, &state.moments);
    return pl_client_submit_task(client, NULL, 0, &state, moments, moments ? bytes : 0,
                                 result, (char(*)[256])text);
}
