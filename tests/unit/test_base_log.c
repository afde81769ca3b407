/* folder: base; label: unit */
#include "base/base.h"
#include <unistd.h>

#include "tests/support/suite.h"

/* Logs one line (and one of a lower level, which is not shown) with stderr in a pipe.
 * *line gets the text of the line after its time. */
static void capture(bool json, const char *pairs, pl_buf *line)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int saved = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    pl_log_open("worker-1", PL_LOG_INFO, json);
    pl_log(PL_LOG_DEBUG, "not.shown", "%s", "");
    pl_log(PL_LOG_WARN, "lease.lost", "%s", pairs);
    dup2(saved, STDERR_FILENO);
    close(saved);
    char text[8192];
    ssize_t got = read(ends[0], text, sizeof text);
    close(ends[0]);
    assert_true(got > 40);
    size_t skip = json ? strlen("{\"time\":\"2000-01-01T00:00:00.000Z\",")
                       : strlen("2000-01-01T00:00:00.000Z ");
    pl_buf_clear(line);
    pl_buf_append(line, text + skip, (size_t)got - skip);
}

PL_TEST(a_line_has_level_role_event_and_pairs)
{
    OWNED(pl_buf_destroy) pl_buf line = {0};
    capture(false, "phase=3 why=\"it\nended\"", &line);
    assert_string_equal(pl_buf_text(&line),
                        "warn worker-1 lease.lost phase=3 why=\"it\\x0aended\"\n");
    capture(false, "", &line);
    assert_string_equal(pl_buf_text(&line), "warn worker-1 lease.lost\n");
}

PL_TEST(a_json_line_is_json_whatever_the_values_hold)
{
    static const char *const rows[][2] = {
        {"a=1 b=-2.5 c=007 d=x", "\"a\":1,\"b\":-2.5,\"c\":\"007\",\"d\":\"x\""},
        {"a=\"two words\" b=3", "\"a\":\"two words\",\"b\":3"},
        {"a=\"the \"x\" of it\" b=3", "\"a\":\"the \\\"x\\\" of it\",\"b\":3"},
        {"a= b=1e5 c=.5 d=1.", "\"a\":\"\",\"b\":\"1e5\",\"c\":\".5\",\"d\":\"1.\""},
        {"flag  a=\"open", "\"flag\":true,\"a\":\"open\""},
        {"a=\xff", "\"a\":\"\xef\xbf\xbd\""},
    };
    OWNED(pl_buf_destroy) pl_buf line = {0}, expected = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        capture(true, rows[i][0], &line);
        pl_buf_clear(&expected);
        pl_buf_printf(&expected,
                      "\"level\":\"warn\",\"role\":\"worker-1\","
                      "\"event\":\"lease.lost\",%s}\n",
                      rows[i][1]);
        assert_string_equal(pl_buf_text(&line), pl_buf_text(&expected));
    }
}

PL_TEST(an_endless_line_is_cut_and_stays_json)
{
    OWNED(pl_buf_destroy) pl_buf line = {0};
    char text[6000];
    memset(text, 'x', sizeof text - 1);
    memcpy(text, "a=\"", 3);
    text[sizeof text - 1] = 0;
    capture(true, text, &line);
    assert_true(line.len < 4300);
    assert_true(pl_ends_with(pl_buf_text(&line), "xxx\"}\n"));
}
