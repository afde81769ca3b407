/* folder: base; label: unit */
#include "base/base.h"
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/suite.h"

PL_TEST(the_last_error_is_the_sentence_of_the_last_failure)
{
    assert_int_equal(pl_fail(PL_ERR_BUSY, "port %d is in use", 5555), PL_ERR_BUSY);
    assert_string_equal(pl_last_error(), "port 5555 is in use");
    assert_int_equal(pl_fail_in(PL_ERR_NET, "hub %s", "a"), PL_ERR_NET);
    assert_string_equal(pl_last_error(), "hub a: port 5555 is in use");
}

PL_TEST(a_failure_may_quote_the_last_error)
{
    pl_fail(PL_ERR_IO, "inner");
    pl_fail(PL_ERR_IO, "outer (%s)", pl_last_error());
    assert_string_equal(pl_last_error(), "outer (inner)");
}

PL_TEST(an_endless_sentence_is_cut_at_1023_bytes)
{
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    pl_fail(PL_ERR_IO, "%s", text);
    assert_int_equal(strlen(pl_last_error()), 1023);
    pl_fail_in(PL_ERR_IO, "%s", "in");
    assert_int_equal(strlen(pl_last_error()), 1023);
    assert_true(pl_starts_with(pl_last_error(), "in: xxx"));
}

PL_TEST(every_status_has_a_name_and_a_sysexits_code)
{
    for (int s = 0; s < PL_STATUS_COUNT; s++) {
        int code = pl_status_exit_code((pl_status)s);
        assert_true(s == PL_OK ? code == 0 : code >= 64 && code <= 78);
    }
    assert_string_equal(pl_status_name(PL_ERR_STALE), "ERR_STALE");
    assert_string_equal(pl_status_name((pl_status)999), "ERR_INTERNAL");
}

PL_TEST(aligned_memory_is_zero_and_aligned)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 5000, 4 << 20, (5 << 20) + 3};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        OWNED(free_memory) void *memory;
        assert_ok(pl_try_alloc(sizes[i], "test", &memory));
        uintptr_t align = sizes[i] >= 4 << 20 ? 2 << 20 : 64;
        assert_int_equal((uintptr_t)memory % align, 0);
        const uint8_t *bytes = memory;
        for (size_t b = 0; b < sizes[i]; b++)
            if (bytes[b])
                fail_msg("byte %zu of %zu is %d, not 0", b, sizes[i], bytes[b]);
        memset(memory, 0xff, sizes[i]);
    }
}

PL_TEST(memory_that_is_not_there_is_an_error_with_both_numbers)
{
    static const size_t sizes[] = {(size_t)1 << 50, SIZE_MAX - 5, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *memory = &memory;
        assert_int_equal(pl_try_alloc(sizes[i], "the optimizer", &memory),
                         PL_ERR_NOMEM);
        assert_null(memory);
        assert_true(pl_starts_with(pl_last_error(),
                                   "there is not enough memory for the optimizer: "));
    }
}

PL_TEST(available_memory_lies_below_the_total)
{
    assert_true(pl_memory_now().total_bytes > 64 << 20);
    assert_true(pl_memory_now().available_bytes > 0);
}

PL_TEST(a_buffer_keeps_what_is_appended_and_stays_terminated)
{
    pl_buf buf = {0};
    assert_string_equal(pl_buf_text(&buf), "");
    for (int i = 0; i < 1000; i++)
        pl_buf_printf(&buf, "%d,", i);
    pl_buf_append(&buf, "end", 3);
    assert_true(pl_ends_with(pl_buf_text(&buf), "998,999,end"));
    assert_int_equal(buf.len, 10 * 2 + 90 * 3 + 900 * 4 + 3);
    pl_buf_clear(&buf);
    assert_string_equal(pl_buf_text(&buf), "");
    pl_buf_destroy(&buf);
    assert_null(buf.data);
}

PL_TEST(base64_has_padding_and_a_url_is_escaped)
{
    OWNED(pl_buf_destroy) pl_buf buf = {0};
    pl_buf_base64(&buf, "pathloom", 8);
    pl_buf_base64(&buf, "\xff\xfe", 2);
    pl_buf_base64(&buf, "abc", 3);
    pl_buf_base64(&buf, "", 0);
    assert_string_equal(pl_buf_text(&buf), "cGF0aGxvb20=//4=YWJj");
    pl_buf_clear(&buf);
    pl_buf_url(&buf, "a/b c~1.2_-%\xc3\xa4");
    assert_string_equal(pl_buf_text(&buf), "a%2Fb%20c~1.2_-%25%C3%A4");
}

PL_TEST(json_text_escapes_and_replaces_what_is_not_utf8)
{
    OWNED(pl_buf_destroy) pl_buf buf = {0};
    pl_buf_json_text(&buf, "a\"\\\n\xc3\xa4\xff z", 9);
    assert_string_equal(pl_buf_text(&buf),
                        "\"a\\\"\\\\\\u000a\xc3\xa4\xef\xbf\xbd z\"");
}

/* A text that could control a terminal: it contains an ESC sequence, a C1 code, a mark
 * that reverses the direction of writing, DEL, a byte that is not UTF-8, and a
 * newline. */
static const char steering[] = "a\x1b[2J\xc2\x9b"
                               "b\xe2\x80\xae"
                               "c\x7f\xff\n";

PL_TEST(text_for_a_terminal_shows_what_would_steer_it)
{
    OWNED(pl_buf_destroy) pl_buf buf = {0};
    pl_buf_printable(&buf, steering, sizeof steering - 1, false);
    assert_string_equal(pl_buf_text(&buf),
                        "a\\x1b[2J\\xc2\\x9bb\\xe2\\x80\\xaec\\x7f\\xff\\x0a");
    pl_buf_clear(&buf);
    pl_buf_printable(&buf, "\xc3\xa4\t1\n", 5, true);
    assert_string_equal(pl_buf_text(&buf), "\xc3\xa4\t1\n");
    pl_buf_clear(&buf);
    pl_buf_json_text(&buf, steering, sizeof steering - 1);
    assert_string_equal(pl_buf_text(&buf),
                        "\"a\\u001b[2J\\u009bb\\u202ec\\u007f\xef\xbf\xbd\\u000a\"");
}

/* Logs `steering` in a child process, and copies the log line to `out`. */
static void read_log_line(bool json, char *out, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        pl_log_open("test", PL_LOG_INFO, json);
        pl_log(PL_LOG_INFO, "said", "text=\"%s\"", steering);
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], out, size - 1);
    assert_true(n > 0);
    out[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

PL_TEST(a_log_line_holds_nothing_that_steers_a_terminal)
{
    char line[1024];
    for (int json = 0; json < 2; json++) {
        read_log_line(json == 1, line, sizeof line);
        size_t len = strlen(line);
        assert_int_equal(line[len - 1], '\n');
        assert_non_null(strstr(line, json ? "\\u001b[2J" : "\\x1b[2J"));
        for (size_t at = 0, n; at + 1 < len; at += n) {
            n = pl_utf8_length(line + at, len - at);
            assert_true(n > 0 && !pl_utf8_steers(line + at, n));
        }
    }
}

PL_TEST(whole_numbers_are_read_exactly_or_refused)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-17", -17},
                {"+5", 5},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"1k", 1000},
                {"2M", 2000000},
                {"3G", 3000000000},
                {"64Mi", 64 << 20},
                {"1e6", 1000000},
                {"1.5M", 1500000},
                {"1e18", 1000000000000000000}};
    static const char *const bad[] = {
        "",     " 1",  "1 ",   "x", "1x",  "1.5",  "0x10", "9223372036854775808",
        "1e19", "nan", "inf",  "-", "1kk", "1e-3", "k",    "9223372036854775807k",
        "--1",  "1,0", "1e400"};
    int64_t value;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(pl_parse_int(good[i].text, &value));
        assert_true(value == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (pl_parse_int(bad[i], &value) != PL_ERR_DATA)
            fail_msg("`%s` was taken for %lld", bad[i], (long long)value);
}

PL_TEST(real_numbers_are_finite_decimals_or_refused)
{
    static const char *const bad[] = {"",      " 1",    "1 ", "nan", "inf", "-inf",
                                      "0x1p3", "1e999", "1k", ".",   "e5",  "1..2"};
    double value;
    assert_ok(pl_parse_real("-1.25e-3", &value));
    assert_true(value == -1.25e-3);
    assert_ok(pl_parse_real("4e-320", &value));
    assert_true(value == 4e-320);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (pl_parse_real(bad[i], &value) != PL_ERR_DATA)
            fail_msg("`%s` was taken for %g", bad[i], value);
}

PL_TEST(truth_has_six_words)
{
    bool value;
    assert_ok(pl_parse_bool("on", &value));
    assert_true(value);
    assert_ok(pl_parse_bool("no", &value));
    assert_false(value);
    assert_int_equal(pl_parse_bool("True", &value), PL_ERR_DATA);
    assert_int_equal(pl_parse_bool("", &value), PL_ERR_DATA);
}

PL_TEST(edit_distance_counts_insertions_deletions_substitutions)
{
    assert_int_equal(pl_edit_distance("", ""), 0);
    assert_int_equal(pl_edit_distance("abc", ""), 3);
    assert_int_equal(pl_edit_distance("", "abc"), 3);
    assert_int_equal(pl_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(pl_edit_distance("saturday", "sunday"), 3);
    assert_int_equal(pl_edit_distance("train.tao", "train.tau"), 1);
}

PL_TEST(the_nearest_name_is_near)
{
    static const char *const names[] = {"train", "eval", "serve"};
    assert_string_equal(pl_nearest("trian", names, 3), "train");
    assert_string_equal(pl_nearest("evil", names, 3), "eval");
    assert_null(pl_nearest("completely-else", names, 3));
    assert_null(pl_nearest("x", names, 0));
    /* The edit distance may be at most half the length of the name. */
    assert_string_equal(pl_nearest("ev", names, 3), "eval");
    assert_string_equal(pl_nearest("evalxx", names, 3), "eval");
    assert_null(pl_nearest("evalxxx", names, 3));
    /* At most two of five letters may be different ones: one of four. */
    assert_null(pl_nearest("opal", names, 3));
}

PL_TEST(numbers_for_people_are_short)
{
    char out[16];
    assert_string_equal(pl_human_bytes(0, out), "0 B");
    assert_string_equal(pl_human_bytes(1500000, out), "1.4 MiB");
    assert_string_equal(pl_human_seconds(0.5, out), "0.50s");
    assert_string_equal(pl_human_seconds(221, out), "3m41s");
    assert_string_equal(pl_human_seconds(7260, out), "2h01m");
    assert_string_equal(pl_human_count(12345, out), "12.3k");
    assert_true(strlen(pl_human_seconds(1e300, out)) < 16);
    assert_true(strlen(pl_human_bytes(1e300, out)) < 16);
}

PL_TEST(a_real_is_written_shortest_and_reads_back_the_same)
{
    char out[32];
    assert_string_equal(pl_format_real(0.1, out), "0.1");
    assert_string_equal(pl_format_real(1e-5, out), "1e-05");
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t bits =
            (uint64_t)pl_random_u32(1, 1, 2 * i) << 32 | pl_random_u32(1, 1, 2 * i + 1);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        assert_ok(pl_parse_real(pl_format_real(value, out), &back));
        assert_true(memcmp(&back, &value, sizeof back) == 0 || value == 0);
    }
}

PL_TEST(utf8_follows_the_table_of_the_standard)
{
    static const struct {
        const char *text;
        size_t len, expected;
    } rows[] = {{"a", 1, 1},
                {"", 0, 0},
                {"\xc3\xa4", 2, 2},
                {"\xc3", 1, 0},
                {"\xc0\x80", 2, 0},         /* not the shortest code */
                {"\xe0\x80\x80", 3, 0},     /* not the shortest code */
                {"\xed\xa0\x80", 3, 0},     /* a surrogate */
                {"\xe2\x82\xac", 3, 3},     /* the euro sign */
                {"\xf0\x9f\x98\x80", 4, 4}, /* a character above U+FFFF */
                {"\xf0\x80\x80\x80", 4, 0}, /* not the shortest code */
                {"\xf4\x90\x80\x80", 4, 0}, /* beyond U+10FFFF */
                {"\xf4\x8f\xbf\xbf", 4, 4},
                {"\xe2\x82", 2, 0},
                {"\x80", 1, 0},
                {"\xff", 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(pl_utf8_length(rows[i].text, rows[i].len), rows[i].expected);
}

PL_TEST(a_code_point_is_read_from_one_to_four_bytes)
{
    assert_int_equal(pl_utf8_code_point("A", 1), 'A');
    assert_int_equal(pl_utf8_code_point("\xc2\x80", 2), 0x80);
    assert_int_equal(pl_utf8_code_point("\xe2\x80\xa8", 3), 0x2028);
    assert_int_equal(pl_utf8_code_point("\xf4\x8f\xbf\xbf", 4), 0x10ffff);
}

PL_TEST(a_list_has_a_word_only_as_a_whole)
{
    assert_true(pl_lists_word("f32|bf16|i8", '|', "f32"));
    assert_true(pl_lists_word("f32|bf16|i8", '|', "bf16"));
    assert_true(pl_lists_word("f32|bf16|i8", '|', "i8"));
    assert_false(pl_lists_word("f32|bf16|i8", '|', "f3"));
    assert_false(pl_lists_word("f32|bf16|i8", '|', "f16"));
    assert_false(pl_lists_word("f32|bf16|i8", '|', "f32|bf16"));
    assert_false(pl_lists_word("f32|bf16|i8", '|', ""));
    assert_true(pl_lists_word("cpu,cpuacct", ',', "cpuacct"));
    assert_false(pl_lists_word("", ',', "cpu"));
}

PL_TEST(copied_text_is_always_terminated)
{
    char out[4] = "???";
    assert_true(pl_copy_text(out, sizeof out, "abc"));
    assert_string_equal(out, "abc");
    assert_false(pl_copy_text(out, sizeof out, "abcd"));
    assert_string_equal(out, "abc");
    assert_false(pl_copy_text(out, 0, "abcd"));
}

PL_TEST(bf16_rounds_to_nearest_even_and_keeps_nan)
{
    assert_int_equal(pl_bf16_from_float(1.0f), 0x3f80);
    /* A value half way between two bf16 values becomes the one with last bit 0. */
    assert_int_equal(pl_bf16_from_float(1.0f + 0x1p-8f), 0x3f80);
    assert_int_equal(pl_bf16_from_float(1.0f + 0x3p-8f), 0x3f82);
    assert_int_equal(pl_bf16_from_float(1.0f + 0x1.1p-8f), 0x3f81);
    assert_int_equal(pl_bf16_from_float(-0.0f), 0x8000);
    assert_int_equal(pl_bf16_from_float(INFINITY), 0x7f80);
    assert_int_equal(pl_bf16_from_float(3.4e38f), 0x7f80);
    uint32_t payload = 0x7f800001; /* a NaN; its upper half alone would be infinity */
    float nan_value;
    memcpy(&nan_value, &payload, sizeof nan_value);
    assert_true(isnan(pl_bf16_to_float(pl_bf16_from_float(nan_value))));
    for (uint32_t half = 0; half < 0x10000; half++) {
        float value = pl_bf16_to_float((uint16_t)half);
        if (!isnan(value))
            assert_int_equal(pl_bf16_from_float(value), half);
    }
}

PL_TEST(the_clock_never_goes_back_and_sleeping_takes_its_time)
{
    int64_t before = pl_now_ms();
    pl_sleep_ms(20);
    assert_true(pl_now_ms() - before >= 20);
    double last = pl_now();
    for (int i = 0; i < 1000; i++) {
        double now = pl_now();
        assert_true(now >= last);
        last = now;
    }
    assert_true(pl_wall_ms() > 1700000000000);
}
