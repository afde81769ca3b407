/* pathloom import: writes a configuration for a run that begins with an existing Llama
 * or Qwen3 model. It checks the model completely. The run reads it at its start. */
#include "cli/cli.h"

#include <stdlib.h>

enum { CONTEXT_MAX = 2048 };

typedef struct request {
    const char *model, *out;
    /* the pairs of --set, followed by pairs that the model determines */
    given_settings settings;
    bool json, force;
} request;

static const cli_option options[] = {
    CLI_OPTION("out", CLI_TEXT, request, out, "FILE.yaml",
               "file for the configuration of a run that begins with the model; -: "
               "standard output"),
    CLI_OPTION("force", CLI_FLAG, request, force, NULL,
               "replace FILE.yaml if it exists"),
    CLI_SETTINGS(request, settings,
                 "set any key except those that the model determines"),
    CLI_JSON(request, json),
};

/* Keys that the model determines; run_import sets them. */
static const char *const shape_keys[] = {
    "data.vocab",      "model.width", "model.heads",   "model.kv_heads",
    "model.head_size", "model.ffn",   "model.blocks",  "model.rope_theta",
    "model.norm_eps",  "model.tied",  "model.qk_norm", "model.import"};

static pl_status parse_import_args(int argc, char **argv, request *q)
{
    cli_words words;
    memset(q, 0, sizeof *q);
    PL_CHECK(cli_read(&verb_import, argc, argv, q, &words));
    for (int i = 0; i < q->settings.n; i++) {
        const char *pair = q->settings.pairs[i];
        size_t len = strcspn(pair, "=");
        for (size_t k = 0; k < sizeof shape_keys / sizeof *shape_keys; k++)
            if (strlen(shape_keys[k]) == len && strncmp(pair, shape_keys[k], len) == 0)
                return pl_fail(
                    PL_ERR_USAGE,
                    "--set %s: the imported model determines %s; leave it out", pair,
                    shape_keys[k]);
    }
    if (words.n != 1)
        return pl_fail(PL_ERR_USAGE,
                       "import takes one model, a folder or a .safetensors file");
    q->model = words.at[0];
    if (!q->out || !q->out[0])
        return pl_fail(PL_ERR_USAGE,
                       "import needs --out FILE.yaml, the file for the configuration");
    if (strcmp(q->out, "-") == 0)
        return q->json ? pl_fail(PL_ERR_USAGE, "--out - and --json would both write to "
                                               "standard output; give --out FILE.yaml")
                       : PL_OK;
    if (pl_path_exists(q->out) && !q->force)
        return pl_fail(PL_ERR_EXISTS,
                       "%s exists already; give another name, or --force to replace it",
                       q->out);
    return PL_OK;
}

static pl_status make_real(request *q, const char *key, double value)
{
    char text[32];
    return given_add(&q->settings, key, pl_format_real(value, text));
}

/* Sets a key to a file's absolute path, for use in other folders. */
static pl_status make_path(request *q, const char *key, const char *path)
{
    char *whole = realpath(path, NULL);
    pl_status status = whole ? given_add(&q->settings, key, whole)
                             : pl_fail(PL_ERR_NOT_FOUND, "%.256s does not exist", path);
    free(whole);
    return status;
}

/* Reads all values once, so that errors are found now and not when a run begins. */
static pl_status check_values(const pl_import *m, uint64_t *n_params)
{
    pl_topology *t = NULL;
    pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    float *params = NULL;
    pl_status status = pl_topology_create(&pl_import_describe(m)->shape, &spec, &t);
    PL_TRY(status);
    *n_params = pl_topology_path_params(t);
    PL_TRY(pl_try_alloc((size_t)*n_params * sizeof *params, "the model",
                        (void **)&params));
    PL_TRY(pl_import_load(m, t, params));
done:
    pl_free(params);
    pl_topology_destroy(&t);
    return status;
}

static pl_status run_import(int argc, char **argv)
{
    request q;
    config c;
    pl_import *m = NULL;
    uint64_t n_params = 0;
    pl_buf text = {0};
    pl_status status = PL_OK;
    PL_CHECK(parse_import_args(argc, argv, &q));
    PL_TRY(pl_import_open(q.model, &m));
    /* If the user did not set these keys, chooses values that fit the model. */
    const pl_import_info *info = pl_import_describe(m);
    const pl_shape *s = &info->shape;
    if (!given_sets(&q.settings, "model.context"))
        PL_TRY(make_real(&q, "model.context",
                         s->context < CONTEXT_MAX ? s->context : CONTEXT_MAX));
    if (!given_sets(&q.settings, "train.base_steps"))
        PL_TRY(given_add(&q.settings, "train.base_steps", "0"));
    if (!given_sets(&q.settings, "data.tokenizer")) {
        if (!info->tokenizer[0])
            PL_TRY(
                pl_fail(PL_ERR_UNSUPPORTED,
                        "there is no tokenizer.model or tokenizer.json beside the "
                        "model in %s; give its tokenizer as --set data.tokenizer=FILE",
                        q.model));
        PL_TRY(make_path(&q, "data.tokenizer", info->tokenizer));
    }
    /* the keys of the shape come after the user's: the model determines them */
    const struct {
        const char *key;
        double value;
    } keys[] = {{"data.vocab", s->vocab},          {"model.width", s->width},
                {"model.heads", s->n_heads},       {"model.kv_heads", s->n_kv_heads},
                {"model.head_size", s->head_size}, {"model.ffn", s->ffn},
                {"model.blocks", s->n_blocks},     {"model.rope_theta", s->rope_theta},
                {"model.norm_eps", s->norm_eps}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        PL_TRY(make_real(&q, keys[i].key, keys[i].value));
    /* the preset's two levels need an even number of blocks; one level fits any */
    if (s->n_blocks % 2 != 0 && !given_sets(&q.settings, "topology.levels") &&
        !given_sets(&q.settings, "topology.blocks"))
        PL_TRY(given_add(&q.settings, "topology.levels", "4"));
    PL_TRY(given_add(&q.settings, "model.tied", s->tied ? "true" : "false"));
    PL_TRY(given_add(&q.settings, "model.qk_norm", s->qk_norm ? "true" : "false"));
    PL_TRY(make_path(&q, "model.import", q.model));
    PL_TRY(config_build(NULL, q.settings.pairs, q.settings.n, &c));
    pl_tokenizer *tokenizer = NULL;
    PL_TRY(pl_tokenizer_load(c.tokenizer, &tokenizer));
    int pieces = pl_tokenizer_vocab(tokenizer);
    pl_tokenizer_destroy(&tokenizer);
    if (pieces > c.vocab)
        PL_TRY(pl_fail(PL_ERR_CONFIG,
                       "the tokenizer has %d pieces but the model's vocab_size is "
                       "%lld; give the tokenizer that the model was trained with",
                       pieces, (long long)c.vocab));
    PL_TRY(check_values(m, &n_params));
    config_leave_derived(&c);
    pl_conf_write_yaml(&config_table, &c, &text);
    if (strcmp(q.out, "-") == 0) { /* main checks whether everything was written */
        fwrite(pl_buf_text(&text), 1, text.len, stdout);
        goto done;
    }
    PL_TRY(pl_write_output(q.out, pl_buf_text(&text), text.len));
    if (q.json) {
        pl_json *o = pl_json_object();
        pl_json_set_int(o, "parameters", (int64_t)n_params);
        pl_json_set_int(o, "files", info->n_files);
        pl_json_set_text(o, "out", q.out);
        say_json(o);
    } else {
        char count[16];
        say("import   %s parameters in %d file%s: %d blocks of width %d, %d query "
            "heads, %d key/value heads, vocabulary %d, %s head",
            pl_human_count((double)n_params, count), info->n_files,
            info->n_files == 1 ? "" : "s", s->n_blocks, s->width, s->n_heads,
            s->n_kv_heads, s->vocab, s->tied ? "tied" : "untied");
        if (info->n_derived > 0)
            say("         ignored %d tensors that can be computed (rotary tables, "
                "masks)",
                info->n_derived);
        say("         try next: pathloom train %s --corpus TEXT --out RUN", q.out);
    }
done:
    pl_buf_destroy(&text);
    pl_import_close(&m);
    return status;
}

const cli_verb verb_import = {
    .name = "import",
    .usage = "import MODEL --out RUN.yaml",
    .help = "write a configuration for a run that begins with a Llama or Qwen3 model",
    CLI_TABLE(options),
    .notes = "MODEL is a folder with config.json, safetensors and a tokenizer.",
    .most_words = 2,
    .run = run_import};
