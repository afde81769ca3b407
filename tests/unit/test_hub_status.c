/* folder: workers; label: unit
 *
 * Tests what the hub's status says of its workers. */
#include "tests/unit/fleet_fixture.h"

#include <math.h>
#include <stdlib.h>

static int count_text(pl_buf *in, const char *text)
{
    int n = 0;
    for (const char *at = pl_buf_text(in); (at = strstr(at, text)); at++)
        n++;
    return n;
}

/* A status lists at most 1,024 workers. */
PL_TEST(status_says_that_its_list_of_workers_is_cut)
{
    enum { MANY = 1025 };
    const pl_hub_options options = {.ttl_ms = 60000};
    hub h = {.options = &options};
    char bound[PL_ADDRESS_MAX];
    OWNED(pl_buf_destroy) pl_buf out = {0};
    OWNED(free_memory) hub_worker *many = pl_alloc(MANY * sizeof *many);
    for (int i = 0; i < MANY; i++) {
        many[i].seen_ms = pl_now_ms();
        many[i].left = many[i].had_task = i == 0;
    }
    h.workers = many;
    h.n_workers = MANY;
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &h.socket, bound));
    hub_status_json(&h, &out);
    assert_int_equal(count_text(&out, "\"tokens_per_second\""), MANY - 1);
    assert_int_equal(count_text(&out, "\"left\""), 0);
    assert_non_null(strstr(pl_buf_text(&out), "\"workers_cut\":true"));
    assert_non_null(strstr(pl_buf_text(&out), "\"workers_here\":1024,"));
    /* a worker that is not listed counts, too */
    many[0].left = false;
    hub_status_json(&h, &out);
    assert_int_equal(count_text(&out, "\"tokens_per_second\""), MANY - 1);
    assert_non_null(strstr(pl_buf_text(&out), "\"workers_here\":1025,"));
    assert_non_null(strstr(pl_buf_text(&out), "\"workers_busy\":0,"));
    many[0].left = true;
    many[1].left = true; /* it had no task, so it is left out in any case */
    hub_status_json(&h, &out);
    assert_int_equal(count_text(&out, "\"left\""), 1);
    assert_non_null(strstr(pl_buf_text(&out), "\"workers_cut\":false"));
    pl_wire_close(&h.socket);
}

static double number_of(pl_buf *in, const char *name)
{
    const char *at = strstr(pl_buf_text(in), name);
    assert_non_null(at);
    return atof(at + strlen(name));
}

/* A lease lives longer if its task takes long, and the hub learns that meanwhile. */
PL_TEST_ON(status_says_when_a_lease_was_renewed, fixture *f, setup, teardown)
{
    char bound[PL_ADDRESS_MAX];
    OWNED(pl_buf_destroy) pl_buf out = {0};
    const int64_t now = pl_now_ms();
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &f->h.socket, bound));
    plan_grant(&f->h.tasks, f->first, 0, now - 5000, TTL);
    assert_true(plan_renew(&f->h.tasks, &f->paths[0], 0, f->paths[0].lease.token, 0,
                           now - 3000, TTL));
    f->h.tasks.arms[0].n_times = 1;
    f->h.tasks.arms[0].median_s = 1e6;
    hub_status_json(&f->h, &out);
    const double ago = number_of(&out, "\"age_seconds\":") -
                       number_of(&out, "\"renewed_seconds_ago\":");
    assert_true(fabs(ago - 2) < 0.01);
    pl_wire_close(&f->h.socket);
}

static int64_t heard_of_state(hub *h, uint64_t epoch, uint64_t sequence, int64_t now_ms)
{
    OWNED(pl_message_destroy) pl_message m = {0};
    PL_SAY(&m, STATE_IS, piece, .total = 0, .offset = 0, .sequence = sequence);
    m.epoch = epoch;
    assert_ok(hub_take_home(h, 0, &m, now_ms));
    return h->homes[0].heard_ms;
}

/* A second machine may start a copy of the run's folder, or an old backup. */
PL_TEST(an_older_copy_of_a_homes_store_is_ignored)
{
    const pl_hub_options options = {.ttl_ms = 60000};
    OWNED(hub_close_homes) hub h = {.options = &options, .n_homes = 1};
    h.homes = pl_alloc(sizeof *h.homes);
    assert_ok(pl_wire_connect("tcp://127.0.0.1:9", &h.homes[0].socket));
    assert_int_equal(heard_of_state(&h, 7, 100, 1), 1);
    assert_int_equal(heard_of_state(&h, 7, 101, 2), 2);
    assert_int_equal(heard_of_state(&h, 7, 100, 3), 2); /* commits are missing */
    assert_int_equal(heard_of_state(&h, 6, 200, 4), 2); /* was opened less often */
    assert_int_equal(heard_of_state(&h, 8, 100, 5), 2);
    assert_int_equal(h.homes[0].epoch, 7);
    assert_int_equal(heard_of_state(&h, 8, 101, 6), 6); /* the home started again */
    assert_int_equal(h.homes[0].epoch, 8);
}
