/* folder: home; label: unit
 *
 * Tests audits without workers: which tasks are drawn for an audit, and how the record
 * (row) of an audit and that of a draw are written and read. */
#include "outer/outer.h"
#include "home/home_internal.h"
#include "tests/support/suite.h"

static pl_arm arm_of(const char *name, uint64_t seed)
{
    pl_arm arm = {0};
    pl_copy_text(arm.name, sizeof arm.name, name);
    arm.seed = seed;
    return arm;
}

static int n_drawn(const pl_draw *draw, const pl_arm *arm)
{
    int n = 0;
    for (int path = 0; path < 40; path++)
        for (int64_t phase = 0; phase < 100; phase++)
            n += pl_draw_has(draw, arm, path, path % 3, phase);
    return n;
}

PL_TEST(share_of_tasks_is_drawn)
{
    pl_arm arm = arm_of("mix", 7);
    pl_draw draw;
    pl_draw_create(0.1, &draw);
    assert_in_range(n_drawn(&draw, &arm), 330, 470);
    draw.share = 0;
    assert_int_equal(n_drawn(&draw, &arm), 0);
    draw.share = 1;
    assert_int_equal(n_drawn(&draw, &arm), 4000);
}

/* A worker has the arm with its seed, and may read the hash of the secret. It must
 * learn nothing from them: neither from another process's draws, nor from draws under
 * the hash, nor from the draw that releases before this one made from the seed. */
PL_TEST(nothing_that_a_worker_has_gives_the_draw)
{
    const pl_arm arm = arm_of("mix", 7);
    const uint64_t old = pl_stream("audit", pl_stream(arm.name, 3, 1), 0);
    pl_draw draw, other, hash;
    pl_draw_create(0.5, &draw);
    pl_draw_create(0.5, &other);
    hash = draw;
    hash.secret = draw.hash;
    int same[3] = {0};
    for (int64_t phase = 0; phase < 1000; phase++) {
        const bool drawn = pl_draw_has(&draw, &arm, 3, 1, phase);
        same[0] += drawn == pl_draw_has(&other, &arm, 3, 1, phase);
        same[1] += drawn == pl_draw_has(&hash, &arm, 3, 1, phase);
        same[2] += drawn == (pl_random_uniform(arm.seed, old, (uint64_t)phase) < 0.5);
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(same[i], 420, 580);
}

PL_TEST(published_secret_gives_the_same_draw)
{
    const pl_arm arm = arm_of("mix", 7);
    char name[PL_TEXT_MAX], again_name[PL_TEXT_MAX];
    pl_draw draw, again;
    OWNED(pl_buf_destroy) pl_buf text = {0};
    pl_draw_create(0.3, &draw);
    pl_draw_write(&draw, &text);
    assert_ok(pl_draw_read(pl_buf_text(&text), &again));
    for (int64_t phase = 0; phase < 200; phase++)
        assert_int_equal(pl_draw_has(&draw, &arm, 3, 1, phase),
                         pl_draw_has(&again, &arm, 3, 1, phase));
    pl_draw_name(&draw, name);
    pl_draw_name(&again, again_name);
    assert_string_equal(name, again_name);
    /* a secret that does not fit the hash that was published first */
    char *changed = (char *)text.data + text.len - 1;
    *changed = *changed == '0' ? '1' : '0';
    assert_int_equal(pl_draw_read(pl_buf_text(&text), &again), PL_ERR_DATA);
    pl_buf_clear(&text);
    draw.secret = (pl_hash){{0}};
    pl_draw_write(&draw, &text);
    assert_ok(pl_draw_read(pl_buf_text(&text), &again));
    assert_true(pl_hash_none(&again.secret) && pl_hash_equal(&again.hash, &draw.hash));
    assert_int_equal(pl_draw_read("", &again), PL_ERR_DATA);
    assert_int_equal(pl_draw_read("12 0.5", &again), PL_ERR_DATA);
}

PL_TEST(methods_that_depend_on_the_hour_are_left_out)
{
    static const pl_method out[] = {PL_METHOD_NOLOCO, PL_METHOD_DELAYED_NESTEROV};
    pl_arm arm = arm_of("mix", 7);
    pl_draw draw;
    pl_draw_create(1, &draw);
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
        arm.outer.method.method = out[i];
        assert_int_equal(n_drawn(&draw, &arm), 0);
    }
    arm.outer.method.method = PL_METHOD_CO2;
    assert_int_equal(n_drawn(&draw, &arm), 4000);
    arm.outer.state = PL_STATE_LOCAL;
    assert_int_equal(n_drawn(&draw, &arm), 0);
}

static pl_audit row_of(int n)
{
    pl_audit a = {.phase = 4, .tries = 1, .n = n};
    pl_copy_text(a.path, sizeof a.path, "mix/p01.r0");
    pl_hash_of("blob", "s", 1, &a.after);
    for (int i = 0; i < n; i++) {
        snprintf(a.results[i].worker, sizeof a.results[i].worker, "w%d", i);
        pl_copy_text(a.results[i].device, sizeof a.results[i].device, "cpu \"bf16\"");
        pl_hash_of("audit", &i, sizeof i, &a.results[i].digest);
    }
    return a;
}

/* A path's next state, with numbers that JSON would round. */
static pl_path_state state_of(const pl_audit *a)
{
    pl_path_state s = {.phase = a->phase + 1,
                       .work = {.n_samples = UINT64_MAX,
                                .n_tokens = ((uint64_t)1 << 53) + 1,
                                .loss = 1.0 / 3,
                                .seconds = 0.1,
                                .gradient = 1e-300,
                                .held = 2.0 / 3},
                       .held_phase = 2,
                       .moments = a->after};
    pl_copy_text(s.name, sizeof s.name, a->path);
    pl_copy_text(s.worker, sizeof s.worker, "w \\ \"");
    return s;
}

PL_TEST(row_says_all_of_it)
{
    for (int v = 0; v < PL_VERDICT_COUNT; v++) {
        pl_audit a = row_of(v + 1), b;
        OWNED(pl_buf_destroy) pl_buf text = {0};
        a.verdict = (pl_verdict)v;
        a.tries = 1 + v;
        a.repeats = v;
        pl_copy_text(a.reason, sizeof a.reason, "because \\ \"so\"");
        if (v == PL_VERDICT_OPEN)
            a.state = state_of(&a);
        else
            pl_copy_text(a.odd, sizeof a.odd, "w1");
        pl_audit_write(&a, &text);
        assert_ok(pl_audit_read(pl_buf_text(&text), &b));
        assert_memory_equal(&a, &b, sizeof a);
    }
}

PL_TEST(longest_row_fits)
{
    pl_audit a = row_of(PL_AUDIT_RESULTS), b;
    OWNED(pl_buf_destroy) pl_buf text = {0};
    memset(a.path, 'p', sizeof a.path - 1);
    memset(a.reason, '"', sizeof a.reason - 1);
    memset(a.odd, '\\', sizeof a.odd - 1);
    for (int i = 0; i < PL_AUDIT_RESULTS; i++) {
        memset(a.results[i].worker, '\\', sizeof a.results[i].worker - 1);
        memset(a.results[i].device, '"', sizeof a.results[i].device - 1);
        memset(a.results[i].key.bytes, 7, PL_PUBKEY_BYTES);
    }
    pl_hash_of("blob", "s", 1, &a.before);
    pl_audit_write(&a, &text);
    assert_true(text.len < PL_AUDIT_TEXT_MAX);
    assert_ok(pl_audit_read(pl_buf_text(&text), &b));
    pl_buf_clear(&text);
    a = row_of(1); /* an open row has a state, but only one result that counts */
    memset(a.path, 'p', 80);
    a.path[80] = '\0';
    a.state = state_of(&a);
    memset(a.state.worker, 'w', sizeof a.state.worker - 1);
    a.state.made = a.after;
    a.state.repeats = 1;
    pl_audit_write(&a, &text);
    assert_true(text.len < PL_AUDIT_TEXT_MAX);
    assert_ok(pl_audit_read(pl_buf_text(&text), &b));
}

PL_TEST(dropped_results_free_their_name)
{
    pl_audit a = row_of(1);
    char name[PL_TEXT_MAX];
    pl_audit_name(&a, name);
    assert_string_equal(name, "audit/mix/p01.r0/4");
    a.verdict = PL_VERDICT_UNCHECKED;
    pl_audit_name(&a, name);
    assert_string_equal(name, "audit/mix/p01.r0/4");
    a.verdict = PL_VERDICT_ODD;
    a.tries = 2;
    pl_audit_name(&a, name);
    assert_string_equal(name, "audit/mix/p01.r0/4.2");
}

PL_TEST(rows_of_the_release_before_are_read)
{
    pl_audit a;
    assert_ok(
        pl_audit_read("{\"path\":\"a\",\"phase\":3,\"verdict\":\"settled\",\"odd\":"
                      "\"v\",\"seed\":\"0000000000000001\",\"tolerance\":0.25,"
                      "\"results\":[{\"worker\":\"w\",\"device\":\"\"},{\"worker\":"
                      "\"v\",\"device\":\"\",\"apart\":[-1]}]}",
                      &a));
    assert_int_equal(a.verdict, PL_VERDICT_UNCHECKED);
    assert_string_equal(a.odd, "v");
}

PL_TEST(other_texts_are_refused)
{
#define RESULT ",\"results\":[{\"worker\":\"w\",\"device\":\"\"}]}"
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"path\":\"a\",\"phase\":0,\"verdict\":\"open\",\"results\":[]}",
        "{\"path\":\"a\",\"phase\":-1,\"verdict\":\"open\"" RESULT,
        "{\"path\":\"a\",\"phase\":0,\"verdict\":\"fine\"" RESULT,
        "{\"path\":\"a\",\"phase\":0,\"verdict\":\"open\",\"after\":\"zz\"" RESULT,
        "{\"path\":\"a\",\"phase\":2,\"verdict\":\"open\",\"repeats\":3" RESULT,
        "{\"path\":\"a\",\"phase\":2,\"verdict\":\"open\",\"repeats\":-1" RESULT,
        "{\"path\":\"a\",\"phase\":2,\"verdict\":\"open\",\"tries\":-1" RESULT,
        "{\"path\":\"a\",\"phase\":2,\"verdict\":\"open\",\"state\":\"xx\"" RESULT,
        "{\"path\":\"a\",\"phase\":2,\"verdict\":\"open\",\"state\":\"\"" RESULT,
    };
#undef RESULT
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pl_audit a;
        assert_int_not_equal(pl_audit_read(texts[i], &a), PL_OK);
    }
    /* the state of another task */
    pl_audit a = row_of(1), b;
    OWNED(pl_buf_destroy) pl_buf text = {0};
    a.state = state_of(&a);
    a.state.phase++;
    pl_audit_write(&a, &text);
    assert_int_not_equal(pl_audit_read(pl_buf_text(&text), &b), PL_OK);
}
