/* folder: workers; label: unit
 *
 * Tests pairs of mates with a deadline. The home decides once whether a pair meets, and
 * always tells both mates the same decision. After either decision, the home's version
 * is the mean of the holders' parameters, and its record says which holders were
 * split. */
#include "tests/support/holders.h"

static world *new_pairs(int k)
{
    world *w = new_gossip(k, "f32", 0, PL_RULE_HEAVY_BALL);
    w->arm.outer.deadline_ms = 1000;
    start_home(w);
    return w;
}

static void end_pairs(world **owner)
{
    OWNED(end_world) world *w = *owner;
    end_home(w);
}

static pl_status try_meet_under(world *w, int i, int64_t round, bool late,
                                pl_meeting wish, pl_meeting *said)
{
    char name[96];
    pl_lease lease = lease_of(&w->arm, i, round + 1, 0);
    lease.late = late;
    pl_arm_module_name(&w->arm, w->topology, MODULE, name);
    act_under(w->client, &w->arm, &lease);
    return pl_client_meet(w->client, name, round, i, 0, wish, said);
}

static pl_status try_meet(world *w, int i, int64_t round, pl_meeting wish,
                          pl_meeting *said)
{
    return try_meet_under(w, i, round, true, wish, said);
}

static pl_meeting meet(world *w, int i, int64_t round, pl_meeting wish)
{
    pl_meeting said = PL_MEETING_COUNT;
    pl_status status = try_meet(w, i, round, wish, &said);
    if (status != PL_OK)
        fail_msg("holder %d, round %lld: %s", i, (long long)round, pl_last_error());
    return said;
}

PL_TEST(first_wish_decides_for_both_and_for_ever)
{
    static const pl_meeting wishes[] = {PL_MEETING_SPLIT, PL_MEETING_MET};
    OWNED(end_pairs) world *w = new_pairs(4);
    for (int64_t round = 0; round < 2; round++) {
        pl_meeting first = wishes[round], other = wishes[1 - round];
        int mate = mate_of(w, 0, round);
        assert_int_equal(meet(w, 0, round, PL_MEETING_OPEN), PL_MEETING_OPEN);
        assert_int_equal(meet(w, 0, round, first), first);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(meet(w, 0, round, other), first);
            assert_int_equal(meet(w, mate, round, other), first);
            assert_int_equal(meet(w, mate, round, PL_MEETING_OPEN), first);
            lower_home(w);
            raise_home(w);
        }
    }
}

/* Shows that a holder can split its pair only with a lease that was granted after the
 * pair's deadline (`late`). Without such a lease it can still meet its mate. */
PL_TEST(only_a_lease_from_after_the_deadline_splits_a_pair)
{
    pl_meeting said;
    OWNED(end_pairs) world *w = new_pairs(2);
    assert_int_equal(try_meet_under(w, 0, 0, false, PL_MEETING_SPLIT, &said),
                     PL_ERR_NOPERM);
    assert_int_equal(meet(w, 0, 0, PL_MEETING_OPEN), PL_MEETING_OPEN);
    /* a relay has the lease, but not its task key */
    pl_sealed_lease sealed;
    pl_lease lease = lease_of(&w->arm, 0, 1, 0);
    lease.late = 1;
    pl_lease_seal(&home_secret, &lease, &sealed);
    sealed.key.bytes[0] ^= 1;
    pl_client_act_under(w->client, &sealed);
    char name[96];
    pl_arm_module_name(&w->arm, w->topology, MODULE, name);
    assert_int_equal(pl_client_meet(w->client, name, 0, 0, 0, PL_MEETING_SPLIT, &said),
                     PL_ERR_STALE);
    assert_int_equal(meet(w, 0, 0, PL_MEETING_OPEN), PL_MEETING_OPEN);
    assert_ok(try_meet_under(w, 0, 0, true, PL_MEETING_SPLIT, &said));
    assert_int_equal(said, PL_MEETING_SPLIT);
    end_pairs(&w);
    w = new_pairs(2);
    assert_ok(try_meet_under(w, 0, 0, false, PL_MEETING_MET, &said));
    assert_int_equal(said, PL_MEETING_MET);
}

static void begin_round(world *w, int64_t round, pl_buf encoded[])
{
    begin_gossip(w, round);
    end_gossip(w, round, 0, encoded);
}

PL_TEST(pair_of_which_both_are_there_is_met)
{
    OWNED(end_pairs) world *w = new_pairs(2);
    pl_buf encoded[HOLDERS_MAX] = {{0}};
    begin_round(w, 0, encoded);
    submit(w, 0, 0, &encoded[0]);
    assert_int_equal(meet(w, 0, 0, PL_MEETING_OPEN), PL_MEETING_OPEN);
    submit(w, 1, 0, &encoded[1]);
    (void)wait_holder_version(w, 1);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(meet(w, 0, 0, PL_MEETING_SPLIT), PL_MEETING_MET);
        assert_int_equal(meet(w, 1, 0, PL_MEETING_SPLIT), PL_MEETING_MET);
        lower_home(w);
        raise_home(w);
    }
    forget(encoded);
}

/* Simulates a round. The holder `late` sends its update only after its mate has split
 * the pair. If `late` is -1, no holder is late. */
static void play_round(world *w, int64_t round, int late)
{
    pl_buf encoded[HOLDERS_MAX] = {{0}};
    begin_round(w, round, encoded);
    for (int i = 0; i < w->k; i++)
        if (i != late)
            submit(w, i, round, &encoded[i]);
    for (int i = 0; i < w->k; i++)
        if (i != late && mate_of(w, i, round) == late)
            assert_int_equal(meet(w, i, round, PL_MEETING_SPLIT), PL_MEETING_SPLIT);
    if (late >= 0)
        submit(w, late, round, &encoded[late]);
    for (int i = 0; i < w->k; i++)
        if (mate_of(w, i, round) != i)
            w->is_split[round][i] =
                meet(w, i, round, PL_MEETING_MET) == PL_MEETING_SPLIT;
    forget(encoded);
}

static const int late_in[PHASES] = {1, -1, 0, 3, -1, 2};

static void assert_mean(world *w, int64_t number)
{
    OWNED(free_memory) float *version = floats(w);
    OWNED(free_memory) double *want = doubles(w);
    pl_version_facts facts = wait_holder_version(w, number);
    fetch(w, &facts.params, 0, version);
    begin_gossip(w, number); /* computes the parameters with which the holders start */
    mean_of_holders(w, want);
    assert_near(w, version, want, 1e-6);
}

PL_TEST(home_has_the_mean_of_holders_that_were_split)
{
    OWNED(end_pairs) world *w = new_pairs(4);
    for (int64_t round = 0; round < PHASES; round++) {
        int split = 0;
        play_round(w, round, late_in[round]);
        for (int i = 0; i < w->k; i++)
            split += w->is_split[round][i];
        assert_int_equal(split, late_in[round] < 0 ? 0 : 2);
    }
    assert_mean(w, PHASES);
}

static pl_status refuse(void *context, const char *name, const char *target)
{
    (void)context;
    (void)target;
    fail_msg("the ref %s was not deleted", name);
    return PL_OK;
}

PL_TEST(versions_say_who_was_split_and_rows_go)
{
    char name[96];
    pl_store *store = NULL;
    pl_meeting said;
    OWNED(end_pairs) world *w = new_pairs(4);
    for (int64_t round = 0; round < PHASES - 3; round++)
        play_round(w, round, late_in[round]);
    assert_int_equal(try_meet(w, 0, 0, PL_MEETING_OPEN, &said), PL_ERR_STALE);
    for (int64_t round = PHASES - 3; round < PHASES; round++)
        play_round(w, round, round == PHASES - 3 ? late_in[round] : -1);
    lower_home(w);
    assert_ok(pl_store_open(w->store, PL_STORE_READ, &store));
    assert_ok(pl_store_each_ref(store, "meet/", refuse, NULL));
    pl_arm_module_name(&w->arm, w->topology, MODULE, name);
    for (int64_t round = 0; round < PHASES; round++) {
        OWNED(pl_version_clear) pl_version v;
        memset(&v, 0, sizeof v);
        assert_ok(pl_store_get_version(store, name, (uint64_t)round + 1, &v));
        for (int i = 0; i < v.n_contributions; i++)
            assert_int_equal(v.contributions[i].split, w->is_split[round][i]);
    }
    pl_store_close(&store);
    raise_home(w);
}

PL_TEST(odd_questions_are_refused)
{
    pl_meeting said;
    OWNED(end_pairs) world *w = new_pairs(3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(try_meet(w, i, 0, PL_MEETING_SPLIT, &said),
                         mate_of(w, i, 0) == i ? PL_ERR_PROTO : PL_OK);
    assert_int_equal(try_meet(w, 3, 0, PL_MEETING_OPEN, &said), PL_ERR_PROTO);
    assert_int_equal(try_meet(w, -1, 0, PL_MEETING_OPEN, &said), PL_ERR_PROTO);
    assert_int_equal(try_meet(w, 0, PHASES, PL_MEETING_OPEN, &said), PL_ERR_PROTO);
    assert_int_equal(try_meet(w, 0, -1, PL_MEETING_OPEN, &said), PL_ERR_PROTO);
    assert_int_equal(try_meet(w, 0, 0, PL_MEETING_COUNT, &said), PL_ERR_PROTO);
    assert_int_equal(
        pl_client_meet(w->client, "mix/L1.E0", 0, 0, 0, PL_MEETING_OPEN, &said),
        PL_ERR_PROTO); /* a module of only one path has no pairs */
    assert_int_equal(
        pl_client_meet(w->client, "mix/L9.E0", 0, 0, 0, PL_MEETING_OPEN, &said),
        PL_ERR_NOT_FOUND);
    assert_int_equal(pl_client_put_ref(w->client, "meet/mix/embed.E0/0/0", "met"),
                     PL_ERR_NOPERM);
    end_pairs(&w);
    w = new_gossip(2, "f32", 0, PL_RULE_HEAVY_BALL); /* pairs without a deadline */
    start_home(w);
    assert_int_equal(try_meet(w, 0, 0, PL_MEETING_SPLIT, &said), PL_ERR_PROTO);
}
