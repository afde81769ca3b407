/* folder: base; label: unit */
/* Tests how much each key may ask of a server. Every key has its own token bucket,
 * which fills again with time. No key can use the bucket of another key. */
#include "base/clock.h"
#include "base/quota.h"
#include "tests/support/suite.h"

static pl_peer peer_of(pl_key_role role, uint8_t key)
{
    pl_peer peer = {.role = role};
    peer.key.bytes[0] = key;
    return peer;
}

static int count_taken(quota *q, const pl_peer *from, unsigned cost, int64_t now_ms)
{
    int n = 0;
    while (n <= QUOTA_AT_ONCE && quota_take(q, from, cost, now_ms))
        n++;
    return n;
}

PL_TEST(key_has_a_share_that_fills_up_again)
{
    OWNED(quota_destroy) quota *q = quota_create();
    const pl_peer a = peer_of(PL_AS_WORKER, 1);
    assert_int_equal(count_taken(q, &a, 1, 1000), QUOTA_AT_ONCE);
    assert_int_equal(count_taken(q, &a, 1, 1000), 0);
    assert_int_equal(count_taken(q, &a, 1, 1100), QUOTA_PER_S / 10);
    assert_int_equal(count_taken(q, &a, 4, 2100), QUOTA_PER_S / 4);
    assert_int_equal(count_taken(q, &a, 1, 900000), QUOTA_AT_ONCE);
    quota_destroy(&q);
    assert_null(q);
}

PL_TEST(one_key_takes_nothing_from_another)
{
    OWNED(quota_destroy) quota *q = quota_create();
    for (int i = 0; i < 200; i++) {
        const pl_peer a = peer_of(PL_AS_WORKER, (uint8_t)i);
        assert_int_equal(count_taken(q, &a, QUOTA_AT_ONCE, 5), 1);
    }
    const pl_peer again = peer_of(PL_AS_RELAY, 7); /* the same key in another role */
    assert_false(quota_take(q, &again, 1, 5));
}

/* All workers behind a relay ask with its key. */
PL_TEST(a_relay_has_the_share_of_several_workers)
{
    OWNED(quota_destroy) quota *q = quota_create();
    const pl_peer a = peer_of(PL_AS_RELAY, 1);
    assert_int_equal(count_taken(q, &a, QUOTA_RELAY, 1000), QUOTA_AT_ONCE);
    assert_int_equal(count_taken(q, &a, QUOTA_RELAY, 1100), QUOTA_PER_S / 10);
    quota_unsent *u = quota_give(q, &a, QUOTA_UNSENT + 1);
    assert_true(quota_take(q, &a, 1, 5000));
    quota_unsent *more = quota_give(q, &a, (size_t)(QUOTA_RELAY - 1) * QUOTA_UNSENT);
    assert_false(quota_take(q, &a, 1, 5000));
    quota_sent(u, QUOTA_UNSENT + 1);
    quota_sent(more, (size_t)(QUOTA_RELAY - 1) * QUOTA_UNSENT);
}

PL_TEST(a_key_pays_for_what_a_server_did_in_vain)
{
    OWNED(quota_destroy) quota *q = quota_create();
    const pl_peer a = peer_of(PL_AS_WORKER, 1), b = peer_of(PL_AS_WORKER, 2);
    pl_peer own = peer_of(PL_AS_WORKER, 3);
    own.own = true;
    quota_charge(q, &a, 2, 1000); /* 2 s in vain, so it is heard 14 s later */
    quota_charge(q, &own, 1000, 1000);
    assert_int_equal(count_taken(q, &a, 1, 1000), 0);
    assert_int_equal(count_taken(q, &a, 1, 14999), 0);
    assert_int_equal(count_taken(q, &a, 1, 15100), QUOTA_PER_S / 10);
    assert_int_equal(count_taken(q, &b, 1, 1000), QUOTA_AT_ONCE);
    assert_true(quota_take(q, &own, 1, 1000));
    assert_true(quota_take(q, &a, 1, 40000));
    quota_charge(q, &a, 1e-3, 40000); /* a small task pays almost nothing */
    assert_int_equal(count_taken(q, &a, 1, 40000),
                     QUOTA_AT_ONCE - 1 - QUOTA_PARTS * QUOTA_PER_S / 1000);
}

PL_TEST(who_may_not_speak_shares_a_small_one)
{
    OWNED(quota_destroy) quota *q = quota_create();
    int n = 0;
    for (int i = 0; i < 4 * QUOTA_OTHERS_AT_ONCE; i++) {
        const pl_peer a = peer_of(PL_AS_NONE, (uint8_t)i);
        n += quota_take(q, &a, 1, 0);
    }
    assert_int_equal(n, QUOTA_OTHERS_AT_ONCE);
    const pl_peer worker = peer_of(PL_AS_WORKER, 1);
    assert_true(quota_take(q, &worker, 1, 0));
}

PL_TEST(a_flood_with_one_invitation_delays_no_other)
{
    OWNED(quota_destroy) quota *q = quota_create();
    const pl_peer flood = peer_of(PL_AS_INVITE, 1), revoked = peer_of(PL_AS_REVOKED, 2),
                  other = peer_of(PL_AS_INVITE, 3);
    int n_flood = 0, n_revoked = 0;
    for (int i = 0; i < 4 * QUOTA_OTHERS_AT_ONCE; i++) {
        n_flood += quota_take(q, &flood, 1, 0);
        n_revoked += quota_take(q, &revoked, 1, 0);
    }
    assert_int_equal(n_flood, QUOTA_OTHERS_AT_ONCE);
    assert_int_equal(n_revoked, QUOTA_OTHERS_AT_ONCE);
    assert_true(quota_take(q, &other, 4, 0));
    assert_false(quota_take(q, &flood, 4, 39)); /* 3.9 tokens have come back */
    assert_true(quota_take(q, &flood, 4, 41));
}

PL_TEST(jobs_own_keys_have_no_limit)
{
    OWNED(quota_destroy) quota *q = quota_create();
    pl_peer own = peer_of(PL_AS_WORKER, 1);
    own.own = true;
    const pl_peer all[] = {own, peer_of(PL_AS_LOCAL, 0), peer_of(PL_AS_HUB, 2),
                           peer_of(PL_AS_HOME, 3), peer_of(PL_AS_ADMIN, 4)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(count_taken(q, &all[i], 400, 0), QUOTA_AT_ONCE + 1);
}

PL_TEST(who_does_not_read_answers_gets_no_more)
{
    OWNED(quota_destroy) quota *q = quota_create();
    const pl_peer a = peer_of(PL_AS_WORKER, 1), b = peer_of(PL_AS_WORKER, 2);
    const pl_peer admin = peer_of(PL_AS_ADMIN, 3);
    const int64_t now_ms = pl_now_ms();
    assert_null(quota_give(q, &admin, 1));
    quota_unsent *first = quota_give(q, &a, QUOTA_UNSENT),
                 *second = quota_give(q, &a, 1);
    assert_false(quota_take(q, &a, 1, now_ms));
    assert_true(quota_take(q, &b, 1, now_ms));
    quota_sent(second, 1);
    assert_true(quota_take(q, &a, 1, now_ms));
    quota_destroy(&q);
    quota_sent(first, QUOTA_UNSENT); /* sent after the server's end */
}
