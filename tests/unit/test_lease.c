/* folder: net; label: unit
 *
 * Tests that a sealed lease opens to the lease that was sealed, and that changed bytes,
 * incomplete bytes and a different secret are refused. */
#include "net/net.h"
#include "tests/support/suite.h"

static pl_lease some_lease(void)
{
    pl_lease lease = {.path = 3, .replica = 1, .phase = 7, .token = 0x200000005};
    pl_copy_text(lease.arm, sizeof lease.arm, "mix");
    pl_copy_text(lease.worker, sizeof lease.worker, "worker-1");
    pl_copy_text(lease.device, sizeof lease.device, "cpu avx512_bf16");
    memset(lease.key.bytes, 9, sizeof lease.key.bytes);
    return lease;
}

PL_TEST(lease_opens_to_what_was_sealed)
{
    pl_lease lease = some_lease(), back;
    pl_lease_secret secret;
    pl_sealed_lease sealed;
    pl_lease_secret_create(&secret);
    pl_lease_seal(&secret, &lease, &sealed);
    assert_true(sealed.len <= PL_LEASE_MAX);
    assert_ok(pl_lease_open(&secret, sealed.bytes, sealed.len, &back));
    assert_string_equal(back.arm, lease.arm);
    assert_string_equal(back.worker, lease.worker);
    assert_string_equal(back.device, lease.device);
    assert_true(back.path == 3 && back.replica == 1 && back.phase == 7);
    assert_true(back.token == lease.token);
    assert_true(pl_pubkey_equal(&back.key, &lease.key));
}

PL_TEST(changed_cut_or_foreign_bytes_open_nothing)
{
    pl_lease lease = some_lease(), back;
    pl_lease_secret secret, other;
    pl_sealed_lease sealed;
    pl_lease_secret_create(&secret);
    pl_lease_secret_create(&other);
    pl_lease_seal(&secret, &lease, &sealed);
    for (size_t i = 0; i < sealed.len; i++) {
        sealed.bytes[i] ^= 1;
        assert_int_equal(pl_lease_open(&secret, sealed.bytes, sealed.len, &back),
                         PL_ERR_STALE);
        sealed.bytes[i] ^= 1;
    }
    for (size_t len = 0; len < sealed.len; len++)
        assert_int_equal(pl_lease_open(&secret, sealed.bytes, len, &back),
                         PL_ERR_STALE);
    assert_int_equal(pl_lease_open(&other, sealed.bytes, sealed.len, &back),
                     PL_ERR_STALE);
}

PL_TEST(longest_names_fit)
{
    pl_lease lease = some_lease();
    pl_lease_secret secret;
    pl_sealed_lease sealed;
    memset(lease.arm, 'a', sizeof lease.arm - 1);
    memset(lease.worker, 'w', sizeof lease.worker - 1);
    memset(lease.device, 'd', sizeof lease.device - 1);
    pl_lease_secret_create(&secret);
    pl_lease_seal(&secret, &lease, &sealed);
    assert_true(sealed.len <= PL_LEASE_MAX);
}
