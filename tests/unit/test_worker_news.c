/* folder: job; label: unit
 *
 * Tests when `train` says that a worker has come or gone. */
#include "job/worker_news.h"
#include "tests/support/suite.h"

/* Returns whether a line is printed for a status that lists these workers. */
static bool tells(worker_news *n, bool cut, const char *first, const char *second)
{
    char text[512];
    OWNED(pl_json_destroy) pl_json *status = NULL;
    snprintf(text, sizeof text,
             "{\"uptime_seconds\":60,\"workers_cut\":%s,\"workers\":["
             "{\"worker\":\"%s\",\"state\":\"busy\"},"
             "{\"worker\":\"%s\",\"state\":\"idle\"}]}",
             cut ? "true" : "false", first, second);
    assert_ok(pl_json_parse(text, strlen(text), &status));
    return worker_news_tell(n, status);
}

PL_TEST(worker_that_is_no_longer_listed_has_left_unless_the_list_is_cut)
{
    OWNED(worker_news_destroy) worker_news *n = worker_news_create();
    assert_false(tells(n, false, "ada", "bob")); /* they were there before */
    assert_false(tells(n, true, "ada", "ada"));  /* bob may still be there */
    assert_false(tells(n, true, "ada", "bob"));
    assert_true(tells(n, false, "ada", "ada")); /* bob has left */
    assert_false(tells(n, false, "ada", "ada"));
    assert_true(tells(n, false, "ada", "bob")); /* bob is back */
}
