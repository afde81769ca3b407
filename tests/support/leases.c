/* Defines the functions of leases.h. */
#include "tests/support/leases.h"

pl_lease_secret home_secret;

void learn_secret(const char *home)
{
    pl_socket *socket = NULL;
    pl_message q, a;
    pl_reader r;
    size_t len = 0;
    pl_message_init(&q, PL_MSG_HELLO);
    pl_message_init(&a, 0);
    q.request = pl_wire_next_request();
    pl_put_text(&q.body, PL_TAG_ROLE, "hub");
    assert_int_equal(pl_wire_connect(home, &socket), PL_OK);
    assert_int_equal(pl_wire_ask(socket, &q, 500, 10000, &a), PL_OK);
    pl_reader_open(&r, "WELCOME", a.body.data, a.body.len);
    const uint8_t *bytes = pl_get_bytes(&r, PL_TAG_SECRET, 0, &len);
    assert_int_equal(len, sizeof home_secret.bytes);
    memcpy(home_secret.bytes, bytes, len);
    pl_wire_close(&socket);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
}

pl_lease lease_of(const pl_arm *arm, int64_t path, int64_t phase, uint64_t token)
{
    pl_lease lease = {.path = path, .phase = phase, .token = token};
    pl_copy_text(lease.arm, sizeof lease.arm, arm->name);
    pl_copy_text(lease.worker, sizeof lease.worker, "w");
    pl_copy_text(lease.device, sizeof lease.device, "d");
    return lease;
}

void act_under(pl_client *client, const pl_lease *lease)
{
    pl_buf sealed = {0};
    pl_lease_seal(&home_secret, lease, &sealed);
    assert_int_equal(pl_client_act_under(client, sealed.data, sealed.len), PL_OK);
    pl_buf_destroy(&sealed);
}

void lease_for(pl_client *client, const pl_arm *arm, pl_contribution *c, int64_t phase)
{
    pl_lease lease = lease_of(arm, c->path, phase, c->token);
    lease.replica = c->replica;
    if (c->worker[0])
        pl_copy_text(lease.worker, sizeof lease.worker, c->worker);
    c->work.n_samples = pl_phase_samples(arm);
    c->work.first_sample = (uint64_t)phase * c->work.n_samples;
    act_under(client, &lease);
}
