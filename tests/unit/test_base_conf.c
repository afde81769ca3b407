/* folder: base; label: unit */
#include "base/base.h"

#include "tests/support/scratch.h"

typedef struct settings {
    int64_t seed, tau, offset;
    double rate;
    bool fast;
    char name[PL_KEY_TEXT_MAX], kind[PL_KEY_TEXT_MAX], place[PL_KEY_TEXT_MAX];
} settings;

#define AT(field) offsetof(settings, field)
static const pl_key keys[] = {
    {"seed", PL_KEY_INT, AT(seed), "1", 0, 1e15, NULL, "", "Seed of all", false},
    {"train", PL_KEY_SECTION, 0, "", 0, 0, NULL, "", "How paths are trained", false},
    {"train.tau", PL_KEY_INT, AT(tau), "150", 1, 1e6, NULL, "steps", "Inner steps",
     false},
    {"train.rate", PL_KEY_REAL, AT(rate), "4e-4", 0, 1, NULL, "", "Learning rate",
     false},
    {"train.inner.kind", PL_KEY_CHOICE, AT(kind), "adamw", 0, 0, "adamw|sgd|muon", "",
     "Inner optimizer", false},
    {"train.inner.fast", PL_KEY_BOOL, AT(fast), "no", 0, 0, NULL, "", "Hurry", false},
    {"run", PL_KEY_SECTION, 0, "", 0, 0, NULL, "", "Where", false},
    {"run.name", PL_KEY_TEXT, AT(name), "", 0, 0, NULL, "", "Name", false},
    {"run.place", PL_KEY_TEXT, AT(place), "out", 0, 0, NULL, "", "Folder", true},
    {"run.offset", PL_KEY_INT, AT(offset), "-5", 0, 0, NULL, "", "Unbounded", true},
};
#undef AT
static const pl_gone gone[] = {
    {"seeds", "1"}, {"train.inner.slow", "no"}, {"train.inner.kind", "lion"}};
static const pl_table table = {.keys = keys,
                               .n_keys = sizeof keys / sizeof *keys,
                               .gone = gone,
                               .n_gone = sizeof gone / sizeof *gone};

static pl_status load(const char *yaml, size_t len, settings *out)
{
    memset(out, 0, sizeof *out);
    pl_conf_defaults(&table, out);
    assert_ok(pl_replace_file(in_scratch("run.yaml"), yaml, len));
    return pl_conf_load(&table, out, in_scratch("run.yaml"));
}

static void assert_loads(const char *yaml, settings *out)
{
    assert_ok(load(yaml, strlen(yaml), out));
}

/* Loading `yaml` must fail with an error that contains `expected`. */
static void assert_refused(const char *yaml, const char *expected)
{
    settings got;
    assert_int_equal(load(yaml, strlen(yaml), &got), PL_ERR_CONFIG);
    if (!strstr(pl_last_error(), expected))
        fail_msg("the error \"%s\" does not contain \"%s\"", pl_last_error(), expected);
}

PL_TEST(defaults_are_those_of_the_table)
{
    settings got;
    assert_loads("", &got);
    assert_int_equal(got.tau, 150);
    assert_true(got.rate == 4e-4);
    assert_false(got.fast);
    assert_string_equal(got.kind, "adamw");
    assert_string_equal(got.place, "out");
    assert_int_equal(got.offset, -5);
}

PL_TEST(nested_mappings_are_dotted_keys)
{
    settings got;
    assert_loads("# comment\nseed: 1e6\ntrain:\n  tau: 2k\n  inner:\n    kind: 'sgd'\n"
                 "    fast: on\n  rate: 0.5\nrun: {name: [a, b, \"c d\"]}\n",
                 &got);
    assert_int_equal(got.seed, 1000000);
    assert_int_equal(got.tau, 2000);
    assert_string_equal(got.kind, "sgd");
    assert_true(got.fast);
    assert_true(got.rate == 0.5);
    assert_string_equal(got.name, "a,b,c d");
}

PL_TEST(dotted_keys_and_empty_sections_are_fine)
{
    settings got;
    assert_loads("---\ntrain:\n  # tau: 3\nrun.name: x\ntrain.tau: 7\n", &got);
    assert_int_equal(got.tau, 7);
    assert_string_equal(got.name, "x");
}

PL_TEST(an_unknown_key_names_the_nearest_and_the_line)
{
    settings got;
    char expected[256];
    const char *yaml = "seed: 1\ntrain:\n  rate: 0.1\n  tao: 3\n";
    assert_int_equal(load(yaml, strlen(yaml), &got), PL_ERR_CONFIG);
    snprintf(expected, sizeof expected,
             "unknown key `train.tao` (%s line 4); the most similar key is `train.tau`",
             in_scratch("run.yaml"));
    assert_string_equal(pl_last_error(), expected);
    assert_int_equal(pl_conf_set(&table, &got, "zzzzzzzz", "1", "--set"),
                     PL_ERR_CONFIG);
    assert_string_equal(
        pl_last_error(),
        "unknown key `zzzzzzzz` (--set); `pathloom explain WORD` finds keys");
}

PL_TEST(deleted_keys_and_values_are_accepted_only_in_a_saved_file)
{
    static const struct {
        const char *yaml, *differs;
    } cases[] = {{"train: {tau: 7}\n", NULL},
                 {"train: {tau: 7, inner: {slow: no}}\n", NULL},
                 {"seeds: 1\ntrain: {tau: 7, inner: {slow: on}}\n", "train.inner.slow"},
                 {"seeds: 2\ntrain: {tau: 7, inner: {slow: on}}\n", "seeds"},
                 {"train: {tau: 7, inner: {kind: lion}}\n", "train.inner.kind"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings got;
        const pl_gone *differs = NULL;
        const pl_status direct = load(cases[i].yaml, strlen(cases[i].yaml), &got);
        assert_int_equal(direct, i == 0 ? PL_OK : PL_ERR_CONFIG);
        pl_conf_defaults(&table, &got);
        assert_ok(pl_conf_load_saved(&table, &got, in_scratch("run.yaml"), &differs));
        assert_int_equal(got.tau, 7);
        assert_string_equal(got.kind, "adamw");
        assert_int_equal(differs != NULL, cases[i].differs != NULL);
        if (differs)
            assert_string_equal(differs->name, cases[i].differs);
    }
    assert_refused("seeds: 1\n", "unknown key `seeds`");
    static const char *const wrong[] = {"sseeds: 1\n", "train.inner.kind: adam\n",
                                        "train.inner: {kind: lion, kind: lion}\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const pl_gone *differs = NULL;
        settings got;
        assert_ok(pl_replace_file(in_scratch("run.yaml"), wrong[i], strlen(wrong[i])));
        assert_int_equal(
            pl_conf_load_saved(&table, &got, in_scratch("run.yaml"), &differs),
            PL_ERR_CONFIG);
    }
}

PL_TEST(a_bad_value_names_key_range_unit_and_line)
{
    assert_refused("train:\n  tau: 0\n", "run.yaml line 2) and must be a whole number, "
                                         "1..1000000 steps");
    assert_refused("train:\n  tau: soon\n", "`train.tau` is `soon`");
    assert_refused("train:\n  tau: 1.5\n", "must be a whole number");
    assert_refused("train: {rate: nan}\n", "must be a number, 0..1");
    assert_refused("train: {rate: 1.01}\n", "`train.rate` is `1.01`");
    assert_refused("train: {inner: {kind: adam}}\n", "one of adamw|sgd|muon");
    assert_refused("train: {inner: {kind: \"adamw|sgd\"}}\n", "one of adamw|sgd|muon");
    assert_refused("train: {inner: {kind: \"\"}}\n", "one of adamw|sgd|muon");
    assert_refused("train: {inner: {fast: maybe}}\n", "must be true or false");
    assert_refused("train:\n  tau:\n", "`train.tau` is ``");
}

PL_TEST(the_structure_of_the_file_is_checked)
{
    assert_refused("seed: 1\nrun:\n  name: a\nseed: 2\n",
                   "`seed` is set a second time");
    assert_refused("train.tau: 1\ntrain:\n  tau: 2\n", "line 3");
    assert_refused("train: 5\n", "is a section and takes no value");
    assert_refused("seed: {a: 1}\n", "unknown key `seed.a`");
    assert_refused("- 1\n- 2\n", "line 1: expected `key: value` lines");
    assert_refused("hello\n", "expected `key: value` lines");
    assert_refused("run:\n  name: &a x\n  place: *a\n", "line 3: aliases");
    assert_refused("run: {name: [a, [b]]}\n", "a list takes plain values");
    assert_refused("run: {name: [\"a,b\"]}\n", "a list takes plain values");
    assert_refused("seed: 1\n---\nseed: 2\n", "line 2: a second document");
    assert_refused("seed: 1\nrun: {name: x\n", "is not YAML");
    assert_refused("? [a]\n: 1\n", "a key must be a plain name");
    assert_refused("run: {name: \"a\\0b\"}\n", "NUL");
    assert_refused("a: {b: {c: {d: {e: {f: {g: {h: {i: {j: 1}}}}}}}}}\n", "too deeply");
    settings got;
    assert_int_equal(load("seed: \xff\n", 8, &got), PL_ERR_CONFIG);
    assert_int_equal(pl_conf_load(&table, &got, "/nowhere/x.yaml"), PL_ERR_NOT_FOUND);
}

PL_TEST(a_damaged_file_is_an_error_and_no_crash)
{
    static const char yaml[] = "seed: 3\ntrain:\n  tau: 10\n  inner: {kind: \"sgd\"}\n";
    settings got;
    for (size_t len = 0; len < sizeof yaml; len++)
        assert_in_set(load(yaml, len, &got),
                      ((const LargestIntegralType[]){PL_OK, PL_ERR_CONFIG}), 2);
    for (size_t bit = 0; bit < 8 * (sizeof yaml - 1); bit += 3) {
        char copy[sizeof yaml];
        memcpy(copy, yaml, sizeof yaml);
        copy[bit / 8] = (char)(copy[bit / 8] ^ (1 << bit % 8));
        assert_in_set(load(copy, sizeof yaml - 1, &got),
                      ((const LargestIntegralType[]){PL_OK, PL_ERR_CONFIG}), 2);
    }
}

PL_TEST(pairs_are_split_at_the_first_equals_sign)
{
    settings got;
    assert_loads("", &got);
    assert_ok(pl_conf_set_pair(&table, &got, "run.name=a=b", "--set"));
    assert_string_equal(got.name, "a=b");
    assert_ok(pl_conf_set_pair(&table, &got, "run.name=", "--set"));
    assert_string_equal(got.name, "");
    assert_int_equal(pl_conf_set_pair(&table, &got, "train.tau", "--set"),
                     PL_ERR_CONFIG);
    assert_int_equal(pl_conf_set_pair(&table, &got, "=3", "--set"), PL_ERR_CONFIG);
    assert_int_equal(pl_conf_set_pair(&table, &got, "train=3", "--set"), PL_ERR_CONFIG);
}

PL_TEST(text_longer_than_its_field_is_refused)
{
    settings got;
    char text[PL_KEY_TEXT_MAX + 1];
    memset(text, 'x', sizeof text);
    assert_loads("", &got);
    text[PL_KEY_TEXT_MAX] = 0;
    assert_int_equal(pl_conf_set(&table, &got, "run.name", text, "x"), PL_ERR_CONFIG);
    text[PL_KEY_TEXT_MAX - 1] = 0;
    assert_ok(pl_conf_set(&table, &got, "run.name", text, "x"));
    assert_string_equal(got.name, text);
}

PL_TEST(written_yaml_loads_as_the_same_struct)
{
    static const char *const names[] = {"",
                                        "plain",
                                        "two words",
                                        "a: b # c",
                                        "\"quoted\\\"",
                                        "-dash",
                                        "line\nbreak\t",
                                        "\x01\x7f",
                                        "\xc3\xa4 \xe2\x82\xac",
                                        "\xe2\x80\xa8",
                                        "\xef\xbb\xbf",
                                        "\xc2\x85",
                                        "null",
                                        "[1, 2]",
                                        " blank ",
                                        "\xf0\x9f\x98\x80",
                                        "'",
                                        "C:\\dir",
                                        "%x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        settings want, got;
        assert_loads("train: {tau: 33, rate: 0.1, inner: {kind: muon, fast: yes}}",
                     &want);
        want.seed = 999999999999999;
        want.rate = 1.0 / 3.0;
        pl_copy_text(want.name, sizeof want.name, names[i]);
        OWNED(pl_buf_destroy) pl_buf text = {0};
        pl_conf_write_yaml(&table, &want, &text);
        assert_loads(pl_buf_text(&text), &got);
        assert_memory_equal(&got, &want, sizeof got);
    }
}

PL_TEST(written_yaml_is_commented_and_nested)
{
    settings got;
    OWNED(pl_buf_destroy) pl_buf text = {0};
    assert_loads("", &got);
    pl_conf_write_yaml(&table, &got, &text);
    assert_string_equal(
        pl_buf_text(&text),
        "# Seed of all (a whole number, at least 0; default 1)\n"
        "seed: 1\n"
        "\n"
        "# How paths are trained\n"
        "train:\n"
        "  # Inner steps (a whole number, 1..1000000 steps; default 150)\n"
        "  tau: 150\n"
        "  # Learning rate (a number, 0..1; default 4e-4)\n"
        "  rate: 0.0004\n"
        "  inner:\n"
        "    # Inner optimizer (one of adamw|sgd|muon; default adamw)\n"
        "    kind: adamw\n"
        "    # Hurry (true or false; default no)\n"
        "    fast: false\n"
        "\n"
        "# Where\n"
        "run:\n"
        "  # Name (text; default \"\")\n"
        "  name: \"\"\n"
        "  # Folder (text; default out)\n"
        "  place: out\n"
        "  # Unbounded (a whole number; default -5)\n"
        "  offset: -5\n");
}

PL_TEST(the_canonical_text_leaves_out_what_changes_no_result)
{
    settings got;
    OWNED(pl_buf_destroy) pl_buf text = {0};
    assert_loads("run: {name: \"a\\nseed: 2\", place: elsewhere}", &got);
    pl_conf_canonical(&table, &got, &text);
    assert_string_equal(pl_buf_text(&text),
                        "seed: 1\ntrain.tau: 150\ntrain.rate: 0.0004\n"
                        "train.inner.kind: adamw\ntrain.inner.fast: false\n"
                        "run.name: \"a\\u000aseed: 2\"\n");
}

PL_TEST(a_difference_is_the_first_key_that_changes_results)
{
    settings a, b;
    assert_loads("", &a);
    assert_loads("run.place: elsewhere", &b);
    assert_null(pl_conf_difference(&table, &a, &b));
    assert_loads("{run.name: x, train.rate: 0.5}", &b);
    assert_string_equal(pl_conf_difference(&table, &a, &b), "train.rate");
}

PL_TEST(one_key_is_got_as_text)
{
    settings got;
    OWNED(pl_buf_destroy) pl_buf text = {0};
    assert_loads("", &got);
    assert_true(pl_conf_get(&table, &got, "train.rate", &text));
    assert_string_equal(pl_buf_text(&text), "0.0004");
    assert_false(pl_conf_get(&table, &got, "train", &text));
    assert_false(pl_conf_get(&table, &got, "nothing", &text));
}

PL_TEST(the_reference_has_a_row_a_key)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    pl_conf_write_reference(&table, &text);
    const char *page = pl_buf_text(&text);
    assert_non_null(strstr(page, "| `train.tau` | a whole number, 1..1000000 steps | "
                                 "`150` | Inner steps |\n"));
    assert_non_null(strstr(page, "one of adamw\\|sgd\\|muon"));
    assert_non_null(strstr(page, "\n## train\nHow paths are trained\n\n| key |"));
}

PL_SUITE(make_scratch, remove_scratch)
