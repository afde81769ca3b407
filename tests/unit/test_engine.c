/* folder: store; label: unit */
#include "store/engine/s3_keys.h"
#include "store/engine/s3_sign.h"
#include "store/engine/s3_text.h"
#include "tests/support/store_fixture.h"

PL_TEST(a_url_is_taken_apart)
{
    engine_url url;
    assert_ok(engine_url_parse("rados://pool", &url));
    assert_string_equal(url.place, "pool");
    assert_string_equal(url.space, "");
    assert_int_equal(url.patience_ms, 60000);
    assert_ok(
        engine_url_parse("rados://pool/a/b?conf=/x/ceph.conf&id=me&patience=5", &url));
    assert_string_equal(url.space, "a/b");
    assert_string_equal(url.conf, "/x/ceph.conf");
    assert_string_equal(url.id, "me");
    assert_int_equal(url.patience_ms, 5000);
    assert_ok(engine_url_parse("s3://b/p?endpoint=https://h:9000&region=eu", &url));
    assert_string_equal(url.kind, "s3");
    assert_string_equal(url.endpoint, "https://h:9000");
    assert_string_equal(url.region, "eu");
}

PL_TEST(a_wrong_url_is_refused_with_the_reason)
{
    static const char *const wrong[][2] = {
        {"rocks", "rados://... or s3://..."},
        {"gopher://x", "not `gopher`"},
        {"rados://", "letters, digits"},
        {"rados://a b", "letters, digits"},
        {"rados://pool/name%20space", "letters, digits"},
        {"rados://pool?cnf=/x", "did you mean conf?"},
        {"rados://pool?conf", "KEY=VALUE"},
        {"rados://pool?patience=0", "1 to 86400 seconds"},
        {"rados://pool?patience=soon", "not `soon`"},
        {"s3://bucket/p", "?endpoint="},
        {"s3://bucket/p?endpoint=host:80", "?endpoint="},
        {"s3://bucket/p?endpoint=http://key:secret@host", "are not written"},
        {"s3://bucket/p?endpoint=http://host:9000", "must be https://HOST"},
        {"s3://bucket/p?endpoint=http://127.0.0.1.example", "must be https://HOST"},
    };
    engine_url url;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_fails(engine_url_parse(wrong[i][0], &url), PL_ERR_CONFIG, wrong[i][1]);
    }
}

PL_TEST(what_may_be_secret_in_a_url_is_not_shown)
{
    static const char *const wrong[][2] = {
        {"s3://me:hush@bucket?endpoint=http://x", "store.engine `s3://`"},
        {"s3://bucket?endpoint=http://key:hush@host", "store.engine `s3://bucket`"},
        {"me:hush@s3", "store.engine ``"},
    };
    engine_url url;
    char out[ENGINE_URL_MAX], text[ENGINE_URL_MAX];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_fails(engine_url_parse(wrong[i][0], &url), PL_ERR_CONFIG, wrong[i][1]);
        assert_null(strstr(pl_last_error(), "hush"));
    }
    int len = snprintf(text, sizeof text, "rados://pool?conf=hush");
    memset(text + len, 'x', sizeof text - 1 - (size_t)len);
    text[sizeof text - 1] = '\0';
    assert_fails(engine_url_part(text, "home-1", out), PL_ERR_CONFIG,
                 "store.engine `rados://pool` is too long");
    assert_null(strstr(pl_last_error(), "hush"));
}

PL_TEST(a_part_gets_a_place_of_its_own)
{
    char out[ENGINE_URL_MAX];
    assert_ok(engine_url_part("rados://pool", "home-1", out));
    assert_string_equal(out, "rados://pool/home-1");
    assert_ok(engine_url_part("rados://pool/ns?id=me", "home-2", out));
    assert_string_equal(out, "rados://pool/ns/home-2?id=me");
}

PL_TEST_WITH(a_store_stays_on_the_engine_that_it_was_made_on, make_folder, drop_folder)
{
    char folder[PL_PATH_MAX];
    pl_join(folder, *state, "new");
    assert_ok(pl_store_make_on(folder, "rados://pool/x?patience=1"));
    assert_ok(pl_store_make_on(folder, "rados://pool/x?patience=1"));
    assert_fails(pl_store_make_on(folder, "rados://pool/y"), PL_ERR_EXISTS,
                 "not in rados://pool/y");
    assert_fails(pl_store_make_on(folder, "rocksdb"), PL_ERR_EXISTS, "not in rocksdb");
}

PL_TEST(answers_of_a_service_become_statuses)
{
    static const struct {
        int code;
        const char *body;
        pl_status status;
        const char *says;
    } rows[] = {
        {404, "<Error><Code>NoSuchKey</Code></Error>", PL_ERR_NOT_FOUND, "no such"},
        {404, "<Error><Code>NoSuchBucket</Code></Error>", PL_ERR_CONFIG, "bucket"},
        {412, "", PL_ERR_STALE, ""},
        {403, "<Error><Code>SignatureDoesNotMatch</Code></Error>", PL_ERR_NOPERM,
         "HTTP 403: SignatureDoesNotMatch"},
        {403, "<Error><Code>QuotaExceeded</Code></Error>", PL_ERR_NOSPACE, "quota"},
        {507, "", PL_ERR_NOSPACE, "full"},
        {409, "", PL_ERR_NET, "409"},
        {503, "<Error><Code>SlowDown</Code>", PL_ERR_NET, "503: SlowDown"},
        {501, "", PL_ERR_UNSUPPORTED, "501"},
        {400, "<Code>", PL_ERR_IO, "400"},
    };
    assert_ok(s3_judge(204, ""));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(s3_judge(rows[i].code, rows[i].body), rows[i].status);
        assert_said(rows[i].says);
    }
}

static pl_status note_entry(void *context, const engine_entry *entry)
{
    pl_buf_printf(context, "%s=%llu ", entry->name, (unsigned long long)entry->bytes);
    return PL_OK;
}

PL_TEST(a_list_is_read_without_trust)
{
    static const char *const broken[] = {
        "<html>nothing of the kind</html>",
        "<ListBucketResult><Contents><Key>p/a</Key>",
        "<ListBucketResult><Contents><Key>p/a</Key></Contents>",
        "<ListBucketResult><Contents><Key>p/a</Key><Size>-3</Size></Contents>",
        "<ListBucketResult><Contents><Key>p</Key><Size>3</Size></Contents>",
        "<ListBucketResult><Contents></Contents><Key>p/a</Key><Size>3</Size>",
    };
    char token[S3_TOKEN_MAX];
    OWNED(pl_buf_destroy) pl_buf names = {0};
    assert_ok(s3_each_key("<ListBucketResult><Contents><Key>p/a</Key><Size>3</Size>"
                          "</Contents><Contents><Size>9</Size><Key>p/b</Key>"
                          "</Contents></ListBucketResult>",
                          2, note_entry, &names));
    assert_string_equal(pl_buf_text(&names), "a=3 b=9 ");
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_int_equal(s3_each_key(broken[i], 2, note_entry, &names), PL_ERR_PROTO);
    assert_ok(s3_next_page("<IsTruncated>false</IsTruncated>", token));
    assert_string_equal(token, "");
    assert_ok(s3_next_page("<IsTruncated>true</IsTruncated><NextContinuationToken>x/y"
                           "</NextContinuationToken>",
                           token));
    assert_string_equal(token, "x/y");
    assert_int_equal(s3_next_page("<IsTruncated>true</IsTruncated>", token),
                     PL_ERR_PROTO);
    assert_int_equal(s3_next_page("", token), PL_ERR_PROTO);
}

PL_TEST_WITH(keys_come_from_the_environment_or_a_file, make_folder, drop_folder)
{
    s3_keys keys;
    char path[PL_PATH_MAX];
    static const char FILE_TEXT[] =
        "# mine\n[other]\naws_access_key_id = no\n[default]\n"
        "aws_access_key_id = one\n"
        "  aws_secret_access_key=two=2\r\n";
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SESSION_TOKEN");
    unsetenv("AWS_PROFILE");
    setenv("AWS_SHARED_CREDENTIALS_FILE", pl_join(path, *state, "credentials"), 1);
    assert_fails(s3_keys_load(&keys), PL_ERR_NOPERM, "AWS_ACCESS_KEY_ID");
    assert_ok(pl_replace_file(path, FILE_TEXT, sizeof FILE_TEXT - 1));
    assert_ok(s3_keys_load(&keys));
    assert_string_equal(keys.id, "one");
    assert_string_equal(keys.secret, "two=2");
    setenv("AWS_ACCESS_KEY_ID", "three", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "four", 1);
    assert_ok(s3_keys_load(&keys));
    assert_string_equal(keys.id, "three");
}

/* Returns what is said when an engine at this endpoint is opened, without keys. */
static const char *open_s3(const char *endpoint)
{
    engine_url url = {.place = "b"};
    const engine_ops *ops;
    void *self;
    pl_copy_text(url.endpoint, sizeof url.endpoint, endpoint);
    assert_int_equal(engine_s3_open(&url, false, &ops, &self), PL_ERR_NOPERM);
    return pl_last_error();
}

PL_TEST(keys_are_sent_only_to_services_that_the_user_trusts)
{
    static const char *const strange[] = {
        "https://evil.example",
        "https://s3.amazonaws.com.evil.example",
        "https://s3.evil.example/.amazonaws.com",
        "https://s3.evil.example#.amazonaws.com",
        "https://customer.execute-api.us-east-1.amazonaws.com",
        "https://s3-x-123.us-east-1.elb.amazonaws.com"};
    static const char *const trusted[] = {
        "https://s3.amazonaws.com", "https://s3-fips.eu-west-1.amazonaws.com:443/",
        "http://localhost:9000", "https://minio.example:9000/"};
    unsetenv("AWS_ACCESS_KEY_ID");
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
    setenv("AWS_ENDPOINT_URL_S3", "https://minio.example:9000", 1);
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        assert_non_null(strstr(open_s3(strange[i]), "sends its S3 keys to https://"));
    for (size_t i = 0; i < sizeof trusted / sizeof *trusted; i++)
        assert_non_null(strstr(open_s3(trusted[i]), "AWS_ACCESS_KEY_ID"));
}

/* The example of Amazon's documentation, "Authenticating Requests: Using Query
 * Parameters". */
PL_TEST(a_url_is_signed_as_in_amazons_example)
{
    OWNED(pl_buf_destroy) pl_buf url = {0};
    const s3_keys keys = {.id = "AKIAIOSFODNN7EXAMPLE",
                          .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
    s3_signing what = {.url = "https://examplebucket.s3.amazonaws.com/test.txt",
                       .region = "us-east-1",
                       .keys = &keys,
                       .now_s = 1369353600, /* 2013-05-24 */
                       .valid_s = 86400};
    static const char signature[] =
        "X-Amz-Signature="
        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    s3_signed_url(&what, &url);
    assert_non_null(strstr(pl_buf_text(&url), signature));
    /* clients do not send the port that the scheme implies */
    pl_buf_clear(&url);
    what.url = "https://examplebucket.s3.amazonaws.com:443/test.txt";
    s3_signed_url(&what, &url);
    assert_non_null(strstr(pl_buf_text(&url), signature));
}
