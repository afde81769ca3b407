/* folder: view; label: unit */
#include "base/base.h"
#include "view/observe.h"
#include <unistd.h>

#include "tests/support/scratch.h"

/* Tests that the logs of several processes, files and machines become one sequence of
 * events. */

static pl_buf seen, remarks;

static void see_event(void *context, const page_event *e, const char *file)
{
    (void)context;
    (void)file;
    pl_buf_printf(&seen, "%s:%s ", e->role, e->event);
}

static void see_remark(void *context, const char *sentence)
{
    (void)context;
    pl_buf_printf(&remarks, "%s\n", sentence);
}

static void write_log(const char *name, const char *text)
{
    char path[64];
    assert_ok(pl_make_folders(in_scratch("log")));
    snprintf(path, sizeof path, "log/%s", name);
    write_text(path, text);
}

static const char *observe(observe_wish wish)
{
    const observe_out out = {see_event, see_remark, NULL};
    wish.run = scratch;
    pl_buf_clear(&seen);
    pl_buf_clear(&remarks);
    assert_ok(observe_logs(&wish, &out));
    return pl_buf_text(&seen);
}

static int remove_run(void **state)
{
    pl_buf_destroy(&seen);
    pl_buf_destroy(&remarks);
    return remove_scratch(state);
}

#define AT(second, rest) "2026-11-25T10:00:" second "Z info " rest "\n"

#define FIXTURE_TEST(name) PL_TEST_WITH(name, make_scratch, remove_run)

FIXTURE_TEST(events_of_all_logs_come_in_order_of_time)
{
    write_log("hub.log", AT("01.000", "hub b x=1") AT("04.000", "hub e"));
    write_log("home.log", AT("00.500", "home a") "{\"time\":\"2026-11-25T10:00:02."
                                                 "500Z\",\"level\":\"info\",\"role\":"
                                                 "\"home\",\"event\":\"d\",\"n\":3}\n");
    write_log("worker-1.log", AT("02.000", "worker-1 c"));
    assert_string_equal(observe((observe_wish){0}),
                        "home:a hub:b worker-1:c home:d hub:e ");
    assert_string_equal(pl_buf_text(&remarks), "");
}

FIXTURE_TEST(rotated_logs_are_read_and_other_files_are_not)
{
    write_log("hub.log", AT("05.000", "hub newest"));
    write_log("hub.log.1", AT("03.000", "hub older"));
    write_log("hub.log-20261125", AT("01.000", "hub oldest"));
    write_log("hub.log.gz", AT("02.000", "hub packed"));
    write_log("notes.txt", AT("02.000", "hub written"));
    assert_string_equal(observe((observe_wish){0}), "hub:oldest hub:older hub:newest ");
}

FIXTURE_TEST(torn_and_foreign_lines_are_left_out_and_counted)
{
    write_log("hub.log", AT("01.000", "hub a") "a library wrote this\n" AT(
                             "02.000", "hub b") "2026-11-25T10:00:03.000Z info hub c");
    assert_string_equal(observe((observe_wish){0}), "hub:a hub:b ");
    assert_non_null(strstr(pl_buf_text(&remarks), "2 lines of hub.log are not events"));
    write_log("hub.log", "");
    assert_string_equal(observe((observe_wish){0}), "");
}

FIXTURE_TEST(lines_keep_their_order_where_a_clock_is_set_back)
{
    write_log("home.log", AT("05.000", "home a") AT("02.000", "home b")
                              AT("03.000", "home c") AT("07.000", "home e"));
    write_log("hub.log", AT("04.000", "hub before") AT("06.000", "hub d"));
    assert_string_equal(observe((observe_wish){0}),
                        "hub:before home:a home:b home:c hub:d home:e ");
    assert_non_null(
        strstr(pl_buf_text(&remarks), "times in home.log go back by up to 3"));
}

FIXTURE_TEST(a_clock_that_differs_from_the_hubs_is_said)
{
    write_log("hub.log", AT("10.000", "hub worker.joined worker=near device=\"cpu\"")
                             AT("10.500", "hub worker.joined worker=far")
                                 AT("50.000", "hub worker.joined worker=near"));
    write_log("near.log", AT("09.500", "near worker.ready hub=x"));
    write_log("far.log", AT("40.000", "far worker.ready hub=x"));
    observe((observe_wish){0});
    assert_non_null(strstr(pl_buf_text(&remarks),
                           "the clock of far is about 30s ahead of the hub's"));
    assert_null(strstr(pl_buf_text(&remarks), "near"));
}

FIXTURE_TEST(filters_take_names_with_and_without_their_arm)
{
    write_log("hub.log",
              AT("01.000", "hub lease.granted task=mix/p01.r0 phase=0 worker=w-1")
                  AT("02.000", "hub lease.granted task=mix/p11.r0 phase=0 worker=w-2")
                      AT("03.000", "hub lease.expired count=1"));
    write_log("home.log",
              AT("01.500", "home version.committed module=mix/L1.E0 version=1")
                  AT("01.600", "home version.committed module=mix/L1.E01 version=1"));
    write_log("w-1.log", AT("01.200", "w-1 task.lost task=mix/p01.r0 phase=0"));
    assert_string_equal(observe((observe_wish){.event = "lease."}),
                        "hub:lease.granted hub:lease.granted hub:lease.expired ");
    const char *const paths[] = {"p01", "p01.r0", "mix/p01", "mix/p01.r0"};
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(observe((observe_wish){.path = paths[i]}),
                            "hub:lease.granted w-1:task.lost ");
    assert_string_equal(observe((observe_wish){.path = "p0"}), "");
    assert_string_equal(observe((observe_wish){.module = "L1.E0"}),
                        "home:version.committed ");
    assert_string_equal(observe((observe_wish){.worker = "w-1"}),
                        "hub:lease.granted w-1:task.lost ");
    assert_string_equal(observe((observe_wish){.worker = "w-1", .event = "task"}),
                        "w-1:task.lost ");
}

static void cut_event(void *context, const page_event *e, const char *file)
{
    see_event(context, e, file);
    assert_int_equal(truncate(in_scratch("log/hub.log"), 0), 0);
}

/* Shows that a log ends without an error where it is cut. The file is cut while it is
 * read, as logrotate with the option copytruncate does. */
FIXTURE_TEST(a_log_that_is_cut_meanwhile_ends_there)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    const observe_out out = {cut_event, see_remark, NULL};
    for (int i = 0; i < 20000; i++)
        pl_buf_printf(&text, AT("01.000", "hub a"));
    write_log("hub.log", pl_buf_text(&text));
    pl_buf_clear(&seen);
    assert_ok(observe_logs(&(observe_wish){.run = scratch}, &out));
    assert_true(pl_starts_with(pl_buf_text(&seen), "hub:a hub:a "));
}

FIXTURE_TEST(long_lines_and_those_at_the_edge_of_a_read_are_met_once)
{
    enum { LINES = 9000, LONG = 300000 };
    OWNED(pl_buf_destroy) pl_buf text = {0};
    char number[48];
    for (int i = 0; i < LINES; i++) {
        pl_buf_printf(&text, AT("01.000", "hub e%d"), i);
        for (int k = 0; i == LINES / 2 && k < LONG; k++)
            pl_buf_append(&text, "x", 1);
        if (i == LINES / 2)
            pl_buf_printf(&text, "\n");
    }
    write_log("hub.log", pl_buf_text(&text));
    const char *at = observe((observe_wish){0});
    for (int i = 0; i < LINES; i++) {
        snprintf(number, sizeof number, "hub:e%d ", i);
        assert_memory_equal(at, number, strlen(number));
        at += strlen(number);
    }
    assert_string_equal(at, "");
    assert_non_null(strstr(pl_buf_text(&remarks), "1 lines of hub.log are not events"));
}

FIXTURE_TEST(logs_from_elsewhere_are_merged_and_no_logs_are_an_error)
{
    char path[PL_PATH_MAX];
    const char *logs[] = {path};
    const observe_out out = {see_event, see_remark, NULL};
    pl_join(path, scratch, "far-away");
    assert_int_equal(observe_logs(&(observe_wish){.run = scratch}, &out),
                     PL_ERR_NOT_FOUND);
    write_log("notes.txt", "");
    assert_int_equal(observe_logs(&(observe_wish){.run = scratch}, &out),
                     PL_ERR_NOT_FOUND);
    assert_int_equal(observe_logs(&(observe_wish){.logs = logs, .n_logs = 1}, &out),
                     PL_ERR_IO); /* this file does not exist */
    const char *folder[] = {scratch};
    assert_int_equal(observe_logs(&(observe_wish){.logs = folder, .n_logs = 1}, &out),
                     PL_ERR_IO);
    const char *text = AT("01.000", "far a");
    assert_ok(pl_replace_file(path, text, strlen(text)));
    write_log("hub.log", AT("02.000", "hub b"));
    assert_string_equal(observe((observe_wish){.logs = logs, .n_logs = 1}),
                        "far:a hub:b ");
}
