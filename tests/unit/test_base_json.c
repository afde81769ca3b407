/* folder: base; label: unit */
#include "base/base.h"
#include <math.h>

#include "tests/support/suite.h"

static pl_json *parse(const char *text)
{
    pl_json *json;
    if (pl_json_parse(text, strlen(text), &json) != PL_OK)
        fail_msg("%s: %s", text, pl_last_error());
    return json;
}

PL_TEST(a_value_that_was_built_is_written_in_insertion_order)
{
    pl_json *object = pl_json_object(), *list = pl_json_array();
    OWNED(pl_buf_destroy) pl_buf out = {0};
    pl_json_set_text(object, "zebra", "a\"b\n");
    pl_json_set_int(object, "apple", INT64_MIN);
    pl_json_set_real(object, "tenth", 0.1);
    pl_json_set_real(object, "nan", NAN);
    pl_json_set_bool(object, "yes", true);
    pl_json_push(list, pl_json_make_int(1));
    pl_json_push(list, pl_json_make_real(2.5));
    pl_json_push(list, pl_json_make_text("x"));
    pl_json_set(object, "list", list);
    pl_json_set(object, "empty", pl_json_object());
    pl_json_write(object, 0, &out);
    assert_string_equal(pl_buf_text(&out),
                        "{\"zebra\":\"a\\\"b\\u000a\",\"apple\":-9223372036854775808,"
                        "\"tenth\":0.1,\"nan\":null,\"yes\":true,"
                        "\"list\":[1,2.5,\"x\"],\"empty\":{}}");
    pl_json_destroy(&object);
    assert_null(object);
}

PL_TEST(indented_text_reads_back_the_same)
{
    const char *text = "{\"a\":[1,[],{\"b\":null}],\"c\":-1.5e300,\"d\":\"\xc3\xa4\"}";
    OWNED(pl_buf_destroy) pl_buf first = {0}, second = {0};
    OWNED(pl_json_destroy) pl_json *json = parse(text), *again;
    pl_json_write(json, 2, &first);
    assert_non_null(strstr(pl_buf_text(&first), "{\n  \"a\": [\n    1,\n    [],\n"));
    again = parse(pl_buf_text(&first));
    pl_json_write(again, 0, &second);
    assert_string_equal(pl_buf_text(&second), "{\"a\":[1,[],{\"b\":null}],"
                                              "\"c\":-1.5e+300,\"d\":\"\xc3\xa4\"}");
}

PL_TEST(values_are_read_by_their_type_and_absence_is_no_crash)
{
    OWNED(pl_json_destroy)
    pl_json *json = parse("{\"n\":3,\"r\":2.5,\"w\":1e3,\"t\":\"a\\u0000b\",\"b\":true,"
                          "\"l\":[10,20]}");
    double real;
    int64_t whole;
    bool flag;
    size_t len;
    assert_true(pl_json_number(pl_json_get(json, "n"), &real) && real == 3.0);
    assert_true(pl_json_int(pl_json_get(json, "n"), &whole) && whole == 3);
    assert_true(pl_json_int(pl_json_get(json, "w"), &whole) && whole == 1000);
    assert_false(pl_json_int(pl_json_get(json, "r"), &whole));
    assert_false(pl_json_int(pl_json_get(json, "t"), &whole));
    assert_true(pl_json_bool(pl_json_get(json, "b"), &flag) && flag);
    assert_false(pl_json_bool(pl_json_get(json, "n"), &flag));
    assert_memory_equal(pl_json_text(pl_json_get(json, "t"), &len), "a\0b", 3);
    assert_int_equal(len, 3);
    assert_null(pl_json_text(pl_json_get(json, "n"), &len));
    assert_int_equal(pl_json_count(pl_json_get(json, "l")), 2);
    assert_true(pl_json_is_array(pl_json_get(json, "l")) && pl_json_is_object(json));
    assert_false(pl_json_is_array(json) || pl_json_is_object(pl_json_get(json, "l")));
    assert_false(pl_json_is_array(NULL) || pl_json_is_object(NULL));
    assert_null(pl_json_at(pl_json_get(json, "l"), 2));
    assert_null(pl_json_get(json, "absent"));
    assert_null(pl_json_get(NULL, "absent"));
    assert_false(pl_json_number(NULL, &real));
    assert_int_equal(pl_json_count(NULL), 0);
}

PL_TEST(keys_are_walked_in_order)
{
    OWNED(pl_json_destroy) pl_json *json = parse("{\"z\":1,\"y\":2,\"a\":3}");
    OWNED(pl_buf_destroy) pl_buf keys = {0};
    for (const char *key = NULL; (key = pl_json_next_key(json, key));)
        pl_buf_printf(&keys, "%s", key);
    assert_string_equal(pl_buf_text(&keys), "zya");
    assert_null(pl_json_next_key(NULL, NULL));
}

PL_TEST(what_is_not_json_is_refused_with_its_place)
{
    static const char *const bad[] = {
        "",        "{",        "{\"a\":1,}",        "[1,]",       "{'a':1}", "nul",
        "[1] [2]", "\"\xff\"", "{\"a\":1,\"a\":2}", "[01]",       "[+1]",    "[NaN]",
        "\"\t\"",  "[.5]",     "[1e999]",           "\"\\ud800\""};
    pl_json *json;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (pl_json_parse(bad[i], strlen(bad[i]), &json) != PL_ERR_DATA || json)
            fail_msg("accepted, but is not JSON: %s", bad[i]);
    assert_fails(pl_json_parse("{\n  \"a\": x}", 11, &json), PL_ERR_DATA,
                 "line 2 column ");
}

PL_TEST(nesting_without_end_is_refused)
{
    enum { DEPTH = 100000 };
    pl_json *json;
    OWNED(free_memory) char *text = pl_alloc(DEPTH);
    memset(text, '[', DEPTH);
    assert_int_equal(pl_json_parse(text, DEPTH, &json), PL_ERR_DATA);
}

PL_TEST(text_that_is_not_utf8_is_kept_readable)
{
    OWNED(pl_json_destroy) pl_json *json = pl_json_make_text("a\xff\xc3");
    assert_string_equal(pl_json_text(json, NULL), "a\xef\xbf\xbd\xef\xbf\xbd");
}

PL_TEST(text_of_known_length_may_hold_zeros)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    OWNED(pl_json_destroy) pl_json *json = pl_json_make_bytes("a\0b", 3);
    pl_json_write(json, 0, &out);
    assert_string_equal(pl_buf_text(&out), "\"a\\u0000b\"");
    pl_json_destroy(&json);
    json = pl_json_make_bytes("", 0);
    assert_string_equal(pl_json_text(json, NULL), "");
}
