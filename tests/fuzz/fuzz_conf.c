/* folder: base
 *
 * Fuzzes configuration files and the option --set. There is a key of every type. The
 * source of the loader is included here, so that the loader reads from memory and not
 * from a file. */
#define pl_read_file fuzz_read_file
#include "base/conf.c"
#include "tests/fuzz/fuzz.h"
#include "base/base.h"

static const uint8_t *file;
static size_t file_len;

pl_status fuzz_read_file(const char *path, pl_buf *out)
{
    (void)path;
    pl_buf_append(out, file, file_len);
    return PL_OK;
}

typedef struct settings {
    int64_t tau;
    double lr;
    bool drain;
    char corpus[PL_KEY_TEXT_MAX], codec[PL_KEY_TEXT_MAX];
} settings;

#define AT(member) offsetof(settings, member)
static const pl_key keys[] = {
    {"train", PL_KEY_SECTION, 0, "", 0, 0, NULL, "", "training", false},
    {"train.tau", PL_KEY_INT, AT(tau), "50", 1, 1e9, NULL, "steps", "steps", false},
    {"train.lr", PL_KEY_REAL, AT(lr), "0.001", 0, 10, NULL, "", "rate", false},
    {"workers.drain", PL_KEY_BOOL, AT(drain), "true", 0, 0, NULL, "", "drain", true},
    {"data.corpus", PL_KEY_TEXT, AT(corpus), "", 0, 0, NULL, "", "text", false},
    {"codec.name", PL_KEY_CHOICE, AT(codec), "bf16", 0, 0, "f32|bf16|i8", "", "codec",
     false},
};
static const pl_gone gone[] = {{"train.old", "1"}, {"codec.name", "i6"}};
static const pl_table table = {
    .keys = keys, .n_keys = sizeof keys / sizeof *keys, .gone = gone, .n_gone = 2};

static void load(const uint8_t *text, size_t len, bool saved)
{
    settings s;
    const pl_gone *differs;
    pl_buf out = {0};
    file = text;
    file_len = len;
    pl_conf_defaults(&table, &s);
    const pl_status status = saved
                                 ? pl_conf_load_saved(&table, &s, "fuzz.yaml", &differs)
                                 : pl_conf_load(&table, &s, "fuzz.yaml");
    if (status == PL_OK) {
        pl_conf_write_yaml(&table, &s, &out);
        pl_conf_canonical(&table, &s, &out);
    }
    pl_buf_destroy(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    settings s;
    if (len < 1)
        return 0;
    if (input[0] % 4 != 3) {
        load(input + 1, len - 1, input[0] % 4 == 2);
        return 0;
    }
    char *pair = malloc(len);
    if (!pair)
        return 0;
    memcpy(pair, input + 1, len - 1);
    pair[len - 1] = 0;
    pl_conf_defaults(&table, &s);
    (void)pl_conf_set_pair(&table, &s, pair, "--set");
    free(pair);
    return 0;
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    static const char *const seeds[] = {
        "\1train:\n  tau: 5\n  lr: 1e-3\nworkers:\n  drain: no\n",
        "\1data: {corpus: \"a b\\n\\u00e9\", x: 'y'}\ncodec:\n  name: i8\n",
        "\2train:\n  old: 1\n  lr: 1\ntrain.old: 2\ncodec.name: i6\n",
        "\1# comment\ntrain.tau: 0x10\n\ntrain.lr: .5\n...\n---\n",
        "\1train: &a\n  tau: 7\nother: *a\n<<: *a\n",
        "\1train: !!map\n  tau: !!int \"3\"\n  lr: |\n    0.1\n  x: >-\n    y\n",
        "\1- a\n- [b, {c: d}]\n? k\n: v\n",
        "\3train.tau=12",
        "\3codec.name=bf16",
        "\3train.lr=1e400"};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        give(seeds[i], strlen(seeds[i]));
}
