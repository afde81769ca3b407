/* folder: serve; label: unit */
#include "tests/support/exchange_fixture.h"
#include "serve/half.h"
#include "serve/llama_config.h"
#include "serve/pieces.h"
#include "serve/safetensors.h"
#include <math.h>

static pl_shape tied_shape(void)
{
    pl_shape shape = wide_shape;
    shape.tied = true;
    shape.n_kv_heads = 4;
    return shape;
}

static pl_shape qk_shape(void)
{
    pl_shape shape = wide_shape;
    shape.qk_norm = true;
    return shape;
}

/* Exports one path with this type of weights into a new folder. Returns the parameters;
 * the caller frees them. */
static float *make_folder(const char *name, const pl_shape *shape, pl_weight_type type)
{
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(shape);
    float *params = make_params(t, 11);
    pl_export e = make_export(t, params);
    e.type = type;
    assert_ok(pl_remove_tree(in_scratch(name)));
    assert_ok(pl_export_folder(&e, in_scratch(name)));
    return params;
}

static float *load(const char *path, const pl_shape *shape)
{
    OWNED(pl_import_close) pl_import *m = NULL;
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(shape);
    float *params = malloc(pl_topology_path_params(t) * sizeof *params);
    assert_non_null(params);
    assert_ok(pl_import_open(path, &m));
    assert_ok(pl_import_load(m, t, params));
    return params;
}

static size_t count(const pl_shape *shape)
{
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(shape);
    return pl_topology_path_params(t);
}

/* ---- export and import again ---- */
PL_TEST(parameters_come_back_bit_by_bit)
{
    const pl_shape shapes[] = {wide_shape, tied_shape(), qk_shape()};
    for (size_t s = 0; s < 3; s++) {
        OWNED(free_memory) float *was = make_folder("back", &shapes[s], PL_WEIGHT_F32);
        OWNED(free_memory) float *is = load(in_scratch("back"), &shapes[s]);
        assert_memory_equal(is, was, count(&shapes[s]) * sizeof *is);
    }
}

PL_TEST(the_shape_comes_back_and_the_tokenizer_is_found)
{
    pl_import *m = NULL;
    free(make_folder("shape", &wide_shape, PL_WEIGHT_F32));
    assert_ok(pl_import_open(in_scratch("shape"), &m));
    const pl_shape *s = &pl_import_describe(m)->shape;
    assert_int_equal(s->vocab, VOCAB);
    assert_int_equal(s->n_kv_heads, 2);
    assert_int_equal(s->head_size, 12);
    assert_int_equal(s->context, 24);
    assert_false(s->tied);
    assert_true(s->rope_theta == 12345.5 && s->norm_eps == 3e-6);
    assert_int_equal(pl_import_describe(m)->n_files, 1);
    assert_true(
        pl_ends_with(pl_import_describe(m)->tokenizer, "/shape/tokenizer.model"));
    pl_import_close(&m);
    assert_null(m);
}

PL_TEST(short_types_come_back_as_they_were_rounded)
{
    OWNED(free_memory) float *was = make_folder("half", &wide_shape, PL_WEIGHT_F16);
    OWNED(free_memory) float *half = load(in_scratch("half"), &wide_shape);
    free(make_folder("brain", &wide_shape, PL_WEIGHT_BF16));
    OWNED(free_memory) float *brain = load(in_scratch("brain"), &wide_shape);
    for (size_t i = 0; i < count(&wide_shape); i++) {
        assert_true(half[i] == half_to_float(half_from_float(was[i])));
        assert_true(brain[i] == pl_bf16_to_float(pl_bf16_from_float(was[i])));
    }
}

PL_TEST(one_file_with_the_configuration_beside_it_is_enough)
{
    OWNED(free_memory) float *was = make_folder("file", &wide_shape, PL_WEIGHT_F32);
    OWNED(free_memory)
    float *is = load(in_scratch("file/model.safetensors"), &wide_shape);
    assert_memory_equal(is, was, count(&wide_shape) * sizeof *is);
}

/* ---- changed files: tensors are left out, changed, or in several files ---- */
typedef bool (*keep_fn)(const char *name);

static void copy_tensors(const char *from, const char *to, keep_fn keep,
                         const char *extra)
{
    OWNED(safetensors_close) safetensors *file = NULL;
    OWNED(pl_buf_destroy) pl_buf header = {0}, data = {0}, out = {0};
    assert_ok(safetensors_open(in_scratch(from), &file));
    for (size_t i = 0; i < file->n_tensors; i++) {
        const st_tensor *t = &file->tensors[i];
        if (!keep(t->name))
            continue;
        pl_buf_printf(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                      header.len ? "," : "{", t->name, t->dtype);
        for (int d = 0; d < t->n_dims; d++)
            pl_buf_printf(&header, "%s%lld", d ? "," : "", (long long)t->dims[d]);
        pl_buf_printf(&header, "],\"data_offsets\":[%zu,%zu]}", data.len,
                      data.len + (size_t)t->n_bytes);
        pl_buf_append(&data, t->data, (size_t)t->n_bytes);
    }
    if (extra) /* adds a tensor of one value */
        pl_buf_printf(&header,
                      ",\"%s\":{\"dtype\":\"F32\",\"shape\":[1],"
                      "\"data_offsets\":[%zu,%zu]}",
                      extra, data.len, data.len + 4);
    pl_buf_printf(&header, "}");
    put_le(&out, header.len, 8);
    pl_buf_append(&out, header.data, header.len);
    pl_buf_append(&out, data.data, data.len);
    if (extra)
        put_le(&out, 0, 4);
    write_bytes(to, out.data, out.len);
}

static bool every(const char *name)
{
    return name != NULL;
}

static bool of_blocks(const char *name)
{
    return strstr(name, ".layers.") != NULL;
}

static bool outside_blocks(const char *name)
{
    return !of_blocks(name);
}

static bool but_head(const char *name)
{
    return strcmp(name, "lm_head.weight") != 0;
}

static bool but_one(const char *name)
{
    return strcmp(name, "model.layers.2.mlp.up_proj.weight") != 0;
}

static void write_index(const char *path, const char *blocks, const char *rest)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    pl_buf_printf(&text, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
    for (int i = 0; i < pl_topology_n_tensors(t); i++) {
        const char *name = pl_topology_tensor(t, i)->name;
        pl_buf_printf(&text, "%s\"%s\":\"%s\"", i ? "," : "", name,
                      of_blocks(name) ? blocks : rest);
    }
    pl_buf_printf(&text, "}}");
    write_bytes(path, text.data, text.len);
}

static float *make_shards(void)
{
    float *was = make_folder("many", &wide_shape, PL_WEIGHT_F32);
    copy_tensors("many/model.safetensors", "many/model-1.safetensors", of_blocks, NULL);
    copy_tensors("many/model.safetensors", "many/model-2.safetensors", outside_blocks,
                 NULL);
    assert_int_equal(remove(in_scratch("many/model.safetensors")), 0);
    write_index("many/model.safetensors.index.json", "model-1.safetensors",
                "model-2.safetensors");
    return was;
}

PL_TEST(shards_are_found_by_their_index)
{
    OWNED(free_memory)
    float *was = make_shards(), *is = load(in_scratch("many"), &wide_shape);
    assert_memory_equal(is, was, count(&wide_shape) * sizeof *is);
}

static void refused(const char *path, pl_status wanted, const char *words)
{
    pl_import *m = NULL;
    pl_status status = pl_import_open(in_scratch(path), &m);
    assert_null(m);
    if (status != wanted)
        fail_msg("the status is %s instead of %s: %s", pl_status_name(status),
                 pl_status_name(wanted), pl_last_error());
    assert_said(words);
}

PL_TEST(an_index_that_lies_is_refused)
{
    static const char index[] = "many/model.safetensors.index.json";
    free(make_shards());
    write_index(index, "../many/model-1.safetensors", "model-2.safetensors");
    refused("many", PL_ERR_DATA, "no file of the folder");
    write_index(index, "model-1.bin", "model-2.safetensors");
    refused("many", PL_ERR_DATA, "no file of the folder");
    write_index(index, "model-2.safetensors", "model-1.safetensors");
    refused("many", PL_ERR_DATA, "which the index says is there");
    write_index(index, "model-3.safetensors", "model-2.safetensors");
    refused("many", PL_ERR_NOT_FOUND, "model-3.safetensors");
    write_text(index, "{\"weight_map\":[]}");
    refused("many", PL_ERR_DATA, "no object `weight_map`");
    write_text(index, "{\"weight_map\":{}}");
    refused("many", PL_ERR_DATA, "has no tensor model.embed_tokens.weight");
    write_text(index, "{\"weight_map\":{\"model.embed_tokens.weight\":7}}");
    refused("many", PL_ERR_DATA, "no file of the folder");
    copy_tensors("many/model-1.safetensors", "many/model-2.safetensors", every, NULL);
    write_index(index, "model-1.safetensors", "model-1.safetensors");
    refused("many", PL_ERR_DATA, "which the index says is there");
}

PL_TEST(tensors_that_are_missing_or_too_many_are_named)
{
    free(make_folder("odd", &wide_shape, PL_WEIGHT_F32));
    copy_tensors("odd/model.safetensors", "odd/copy", but_one, NULL);
    rename(in_scratch("odd/model.safetensors"), in_scratch("odd/whole"));
    rename(in_scratch("odd/copy"), in_scratch("odd/model.safetensors"));
    refused("odd", PL_ERR_DATA, "has no tensor model.layers.2.mlp.up_proj.weight");
    copy_tensors("odd/whole", "odd/model.safetensors", every,
                 "model.layers.0.self_attn.q_proj.bias");
    refused("odd", PL_ERR_UNSUPPORTED,
            "models have no tensor model.layers.0.self_attn.q_proj.bias");
    OWNED(pl_import_close) pl_import *m = NULL;
    copy_tensors("odd/whole", "odd/model.safetensors", every,
                 "model.layers.0.self_attn.rotary_emb.inv_freq");
    assert_ok(pl_import_open(in_scratch("odd"), &m));
}

/* ---- configurations ---- */
/* Replaces `from` in the text of config.json. */
static void edit_config(const char *folder, const char *from, const char *to)
{
    char path[PL_PATH_MAX];
    OWNED(pl_buf_destroy) pl_buf text = {0}, out = {0};
    pl_join(path, in_scratch(folder), "config.json");
    assert_ok(pl_read_file(path, &text));
    const char *whole = pl_buf_text(&text), *at = strstr(whole, from);
    if (!at)
        fail_msg("config.json has no %s", from);
    pl_buf_printf(&out, "%.*s%s%s", (int)(at - whole), whole, to, at + strlen(from));
    assert_ok(pl_replace_file(path, out.data, out.len));
}

typedef struct config_case {
    const char *from, *to, *words;
    pl_status status;
} config_case;

/* Each model is refused whose configuration is changed as one of the n cases says. */
static void refuse_configs(const pl_shape *shape, const config_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(make_folder("kind", shape, PL_WEIGHT_F32));
        edit_config("kind", cases[i].from, cases[i].to);
        refused("kind", cases[i].status, cases[i].words);
    }
}

PL_TEST(what_our_model_lacks_is_refused_by_field_and_value)
{
    static const config_case cases[] = {
        {"\"LlamaForCausalLM\"", "\"MistralForCausalLM\"", "architectures is",
         PL_ERR_UNSUPPORTED},
        {"\"model_type\": \"llama\"", "\"model_type\": \"gpt2\"",
         "model_type is \"gpt2\"; only Llama", PL_ERR_UNSUPPORTED},
        {"\"attention_bias\": false", "\"attention_bias\": true",
         "attention_bias is true; pathloom's projections have no biases",
         PL_ERR_UNSUPPORTED},
        {"\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias is true",
         PL_ERR_UNSUPPORTED},
        {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"",
         "hidden_act is \"gelu\"", PL_ERR_UNSUPPORTED},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"llama3\",\"factor\": 8",
         "rope_type is \"llama3\"", PL_ERR_UNSUPPORTED},
        {"\"rope_type\": \"default\"",
         "\"rope_type\": \"default\",\"partial_rotary_factor\": 0.5",
         "partial_rotary_factor is 0.5", PL_ERR_UNSUPPORTED},
        {"\"use_cache\": true", "\"rope_scaling\": {\"type\":\"linear\",\"factor\":2}",
         "type is \"linear\"", PL_ERR_UNSUPPORTED},
        {"\"use_cache\": true", "\"quantization_config\": {\"bits\":4}",
         "quantization_config is", PL_ERR_UNSUPPORTED}};
    refuse_configs(&wide_shape, cases, sizeof cases / sizeof *cases);
}

PL_TEST(a_model_with_qk_norm_is_a_qwen3_model)
{
    static const config_case cases[] = {
        {"\"Qwen3ForCausalLM\"", "\"LlamaForCausalLM\"", "model_type is \"qwen3\"",
         PL_ERR_UNSUPPORTED},
        {"\"model_type\": \"qwen3\"", "\"model_type\": \"llama\"",
         "model_type is \"llama\"", PL_ERR_UNSUPPORTED},
        {"\"use_sliding_window\": false", "\"use_sliding_window\": true",
         "use_sliding_window is true", PL_ERR_UNSUPPORTED},
        {"\"use_cache\": true",
         "\"layer_types\": [\"full_attention\",\"sliding_attention\"]",
         "layer_types is", PL_ERR_UNSUPPORTED},
        {"\"head_dim\": 12,", "", "has no head_dim", PL_ERR_DATA},
        {"\"num_key_value_heads\": 2,", "", "has no num_key_value_heads", PL_ERR_DATA}};
    const pl_shape shape = qk_shape();
    OWNED(pl_import_close) pl_import *m = NULL;
    free(make_folder("qk", &shape, PL_WEIGHT_F32));
    assert_ok(pl_import_open(in_scratch("qk"), &m));
    assert_true(pl_import_describe(m)->shape.qk_norm &&
                pl_import_describe(m)->shape.n_kv_heads == 2);
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    OWNED(free_memory) float *params = make_params(t, 1);
    assert_fails(pl_import_load(m, t, params), PL_ERR_CONFIG,
                 "model.qk_norm is 0 but the model in");
    pl_import_close(&m);
    edit_config("qk", "\"use_cache\": true",
                "\"layer_types\": [\"full_attention\",\"full_attention\"]");
    assert_ok(pl_import_open(in_scratch("qk"), &m));
    refuse_configs(&shape, cases, sizeof cases / sizeof *cases);
    /* Read as a Llama model, this model would lose the parameters of its QK norm. A
     * Qwen3 model without these parameters is not complete. Both must be refused. */
    free(make_folder("qk", &shape, PL_WEIGHT_F32));
    edit_config("qk", "\"Qwen3ForCausalLM\"", "\"LlamaForCausalLM\"");
    edit_config("qk", "\"qwen3\"", "\"llama\"");
    refused("qk", PL_ERR_UNSUPPORTED, "models have no tensor");
    free(make_folder("qk", &wide_shape, PL_WEIGHT_F32));
    edit_config("qk", "\"LlamaForCausalLM\"", "\"Qwen3ForCausalLM\"");
    edit_config("qk", "\"llama\"", "\"qwen3\"");
    refused("qk", PL_ERR_DATA, "q_norm.weight");
}

PL_TEST(numbers_that_make_no_sense_are_refused)
{
    static const config_case cases[] = {
        {"\"hidden_size\": 32", "\"hidden_size\": 0", "hidden_size is 0", PL_ERR_DATA},
        {"\"hidden_size\": 32", "\"hidden_size\": 1e300", "hidden_size is",
         PL_ERR_DATA},
        {"\"hidden_size\": 32", "\"hidden_size\": \"32\"", "hidden_size is \"32\"",
         PL_ERR_DATA},
        {"\"hidden_size\": 32,", "", "has no hidden_size", PL_ERR_DATA},
        {"\"hidden_size\": 32", "\"hidden_size\": 36", "config.json makes it",
         PL_ERR_DATA},
        {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 3", "layers.3.",
         PL_ERR_UNSUPPORTED},
        {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 2147483647",
         "must be between", PL_ERR_CONFIG},
        {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "multiple",
         PL_ERR_CONFIG},
        {"\"head_dim\": 12", "\"head_dim\": 13", "odd", PL_ERR_CONFIG},
        {"\"rms_norm_eps\": 3e-06", "\"rms_norm_eps\": 0", "rms_norm_eps is 0",
         PL_ERR_DATA},
        {"\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 1",
         "tie_word_embeddings is 1", PL_ERR_DATA},
        {"\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true",
         "lm_head.weight is not the embedding", PL_ERR_DATA},
        {"{", "[", "config.json", PL_ERR_DATA}};
    refuse_configs(&wide_shape, cases, sizeof cases / sizeof *cases);
}

/* Configurations of programs from before 2024 must be understood. They have theta at
 * the top level, only few fields, and some fields that are null. */
PL_TEST(old_configurations_are_understood)
{
    static const char text[] =
        "{\"model_type\":\"llama\",\"vocab_size\":32000,\"hidden_size\":64,"
        "\"intermediate_size\":172,\"num_hidden_layers\":2,\"num_attention_heads\":8,"
        "\"rope_scaling\":null,\"rope_theta\":500000.0,\"rms_norm_eps\":1e-5}";
    pl_shape s;
    assert_ok(llama_config_read("config.json", text, strlen(text), &s));
    assert_int_equal(s.n_kv_heads, 8);
    assert_int_equal(s.head_size, 8);
    assert_int_equal(s.context, 2048);
    assert_true(s.rope_theta == 500000 && !s.tied);
}

PL_TEST(a_copy_of_tied_embeddings_does_no_harm)
{
    pl_shape untied = tied_shape();
    untied.tied = false;
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&untied);
    OWNED(free_memory) float *params = make_params(t, 12);
    pl_export e = make_export(t, params);
    const float *embed = NULL;
    float *head = NULL;
    for (int i = 0; i < pl_topology_n_tensors(t); i++) {
        const pl_tensor *tensor = pl_topology_tensor(t, i);
        if (strcmp(tensor->name, "model.embed_tokens.weight") == 0)
            embed = params + tensor->offset;
        if (strcmp(tensor->name, "lm_head.weight") == 0)
            head = params + tensor->offset;
    }
    assert_true(embed && head);
    memcpy(head, embed, (size_t)VOCAB * 32 * sizeof *head);
    assert_ok(pl_export_folder(&e, in_scratch("copy")));
    edit_config("copy", "\"tie_word_embeddings\": false",
                "\"tie_word_embeddings\": true");
    OWNED(pl_import_close) pl_import *m = NULL;
    assert_ok(pl_import_open(in_scratch("copy"), &m));
    assert_true(pl_import_describe(m)->shape.tied);
}

/* ---- models as other programs save them ---- */
/* Replaces a text in the header of the folder's file, with blanks before it so that the
 * header keeps its length. */
static void edit_header(const char *folder, const char *from, const char *to)
{
    char path[PL_PATH_MAX];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    const size_t len = strlen(from), pad = len - strlen(to);
    int n = 0;
    pl_join(path, in_scratch(folder), "model.safetensors");
    assert_ok(pl_read_file(path, &bytes));
    const size_t header = (size_t)pl_le_get(bytes.data, 8);
    for (uint8_t *at = bytes.data + 8;
         (at = memmem(at, header - (size_t)(at - bytes.data) + 8, from, len)); n++) {
        memset(at, ' ', pad);
        memcpy(at + pad, to, strlen(to));
    }
    assert_true(n > 0);
    assert_ok(pl_replace_file(path, bytes.data, bytes.len));
}

PL_TEST(a_tied_matrix_may_be_stored_as_the_head)
{
    const pl_shape shape = tied_shape();
    OWNED(free_memory) float *was = make_folder("head", &shape, PL_WEIGHT_F32);
    edit_header("head", "\"model.embed_tokens.weight\"", "\"lm_head.weight\"");
    OWNED(free_memory) float *is = load(in_scratch("head"), &shape);
    assert_memory_equal(is, was, count(&shape) * sizeof *is);
}

/* AutoModel of transformers leaves out "model." and the head. */
PL_TEST(a_model_that_was_saved_without_its_head_is_read_if_it_is_tied)
{
    const pl_shape shape = tied_shape();
    OWNED(free_memory) float *was = make_folder("auto", &shape, PL_WEIGHT_F32);
    edit_header("auto", "\"model.", "\"");
    edit_config("auto", "LlamaForCausalLM", "LlamaModel");
    OWNED(free_memory) float *is = load(in_scratch("auto"), &shape);
    assert_memory_equal(is, was, count(&shape) * sizeof *is);
    free(make_folder("auto", &wide_shape, PL_WEIGHT_F32));
    edit_header("auto", "\"model.", "\"");
    OWNED(pl_import_close) pl_import *m = NULL;
    assert_ok(pl_import_open(in_scratch("auto"), &m));
    copy_tensors("auto/model.safetensors", "auto/copy", but_head, NULL);
    rename(in_scratch("auto/copy"), in_scratch("auto/model.safetensors"));
    refused("auto", PL_ERR_DATA, "AutoModelForCausalLM");
    refused("auto", PL_ERR_DATA, "set tie_word_embeddings to true");
}

PL_TEST(settings_that_contradict_each_other_are_refused_with_both_values)
{
    free(make_folder("two", &wide_shape, PL_WEIGHT_F32));
    edit_config("two", "\"rope_theta\": 12345.5", "\"rope_theta\": 500000");
    refused("two", PL_ERR_DATA, "12345.5");
    refused("two", PL_ERR_DATA, "500000");
}

PL_TEST(tensors_that_can_be_computed_are_ignored_and_counted)
{
    static const char *const names[] = {"rotary_emb.inv_freq", "rotary_emb.cos_cached",
                                        "rotary_emb.sin_cached", "masked_bias"};
    free(make_folder("old", &wide_shape, PL_WEIGHT_F32));
    rename(in_scratch("old/model.safetensors"), in_scratch("old/whole"));
    for (size_t i = 0; i < 4; i++) {
        char name[96];
        OWNED(pl_import_close) pl_import *m = NULL;
        snprintf(name, sizeof name, "model.layers.0.self_attn.%s", names[i]);
        copy_tensors("old/whole", "old/model.safetensors", every, name);
        assert_ok(pl_import_open(in_scratch("old"), &m));
        assert_int_equal(pl_import_describe(m)->n_derived, 1);
    }
}

PL_TEST(files_of_other_kinds_are_named_for_what_they_are)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:00\nsize 1\n";
    OWNED(free_memory) float *was = make_folder("kinds", &wide_shape, PL_WEIGHT_F32);
    float *is = load(in_scratch("kinds/config.json"), &wide_shape);
    assert_memory_equal(is, was, count(&wide_shape) * sizeof *is);
    free(is);
    write_text("kinds/x.gguf", "GGUF");
    refused("kinds/x.gguf", PL_ERR_UNSUPPORTED, "is a GGUF file");
    write_text("kinds/pytorch_model.bin", "PK");
    refused("kinds/pytorch_model.bin", PL_ERR_UNSUPPORTED, "is a PyTorch file");
    write_text("kinds/model.safetensors", pointer);
    refused("kinds", PL_ERR_DATA, "Git LFS pointer");
    write_text("kinds/config.json", pointer);
    refused("kinds", PL_ERR_DATA, "Git LFS pointer");
    pl_tokenizer *tokenizer = NULL;
    write_text("kinds/tokenizer.model", pointer);
    assert_fails(pl_tokenizer_load(in_scratch("kinds/tokenizer.model"), &tokenizer),
                 PL_ERR_DATA, "Git LFS pointer");
}

/* transformers 5 saves only tokenizer.json. */
PL_TEST(a_tokenizer_json_gives_the_tokens_of_the_model_it_was_made_from)
{
    OWNED(pl_import_close) pl_import *m = NULL;
    OWNED(pl_tokenizer_destroy) pl_tokenizer *first = NULL, *second = NULL;
    pl_buf text = {0}, ids[2] = {{0}, {0}};
    free(make_folder("json", &wide_shape, PL_WEIGHT_F32));
    assert_ok(pl_tokenizer_load(in_scratch("json/tokenizer.model"), &first));
    assert_int_equal(remove(in_scratch("json/tokenizer.model")), 0);
    assert_ok(pl_import_open(in_scratch("json"), &m));
    assert_true(pl_ends_with(pl_import_describe(m)->tokenizer, "/json/tokenizer.json"));
    assert_ok(pl_tokenizer_load(pl_import_describe(m)->tokenizer, &second));
    assert_int_equal(pl_tokenizer_vocab(second), PIECES);
    make_words(9, 50000, &text);
    pl_buf_printf(&text,
                  "aaaa \t\n\n\n 1234 <s> \xc3\xa9\xf0\x9f\x98\x80 \xe2\x96\x81.");
    assert_ok(pl_tokenizer_encode(first, (char *)text.data, text.len, &ids[0]));
    assert_ok(pl_tokenizer_encode(second, (char *)text.data, text.len, &ids[1]));
    assert_same_bytes(ids[0], ids[1]);
    assert_false(pl_tokenizer_puts_blank(second));
    for (int i = 0; i < 2; i++)
        pl_buf_destroy(&ids[i]);
    pl_buf_destroy(&text);
}

/* A tokenizer.json of three letters. `merges` and `steps` are JSON; `added` and
 * `model` are more tokens and more keys of the model. */
static void write_tokenizer(const char *steps, const char *merges, const char *added,
                            const char *model)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    pl_buf_printf(
        &text,
        "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
        "{\"id\":1,\"content\":\"<s>\",\"special\":true},"
        "{\"id\":2,\"content\":\"</s>\",\"special\":true}%s],"
        "\"normalizer\":null,\"pre_tokenizer\":%s,"
        "\"model\":{%s\"type\":\"BPE\",\"unk_token\":\"<unk>\","
        "\"byte_fallback\":false,\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2,"
        "\"\xe2\x96\x81\":3,\"a\":4,\"b\":5,\"ab\":6,\"aba\":7,\"ba\":8},"
        "\"merges\":%s}}",
        added, steps, model, merges);
    write_bytes("letters.json", text.data, text.len);
}

PL_TEST(only_a_tokenizer_of_sentencepieces_kind_is_read)
{
    static const char blank[] =
        "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\","
        "\"prepend_scheme\":\"first\",\"split\":false}";
    static const char whole[] =
        "[[\"a\",\"b\"],[\"a\",\"ba\"],[\"ab\",\"a\"],[\"b\",\"a\"]]";
    static const struct {
        const char *steps, *merges, *words, *more[2];
    } cases[] = {
        {"null", whole, "no step makes U+2581", {"", ""}},
        {"{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}",
         whole,
         "no step makes U+2581",
         {"", ""}},
        {blank, whole, "end_of_word_suffix", {"", "\"end_of_word_suffix\":\"</w>\","}},
        {blank,
         whole,
         "continuing_subword_prefix",
         {"", "\"continuing_subword_prefix\":\"##\","}},
        {blank,
         whole,
         "no piece has the number 10",
         {",{\"id\":9,\"content\":\"<x>\"},{\"id\":9,\"content\":\"<x>\"}", ""}},
        {"{\"type\":\"ByteLevel\"}", whole, "byte-level BPE", {"", ""}},
        {blank,
         "[[\"a\",\"b\"],[\"ab\",\"a\"],[\"b\",\"a\"]]",
         "lacks pairs",
         {"", ""}},
        {blank,
         "[[\"a\",\"ba\"],[\"a\",\"b\"],[\"ab\",\"a\"],[\"b\",\"a\"]]",
         "not in the order",
         {"", ""}},
        {blank, "[[\"a\"]]", "merge 0 does not have two pieces", {"", ""}},
        {"{\"type\":\"Metaspace\",\"replacement\":\"_\"}",
         whole,
         "unknown way",
         {"", ""}}};
    pl_tokenizer *tokenizer = NULL;
    OWNED(pl_buf_destroy) pl_buf ids = {0};
    write_tokenizer(blank, whole, "", "\"end_of_word_suffix\":null,");
    assert_ok(pl_tokenizer_load(in_scratch("letters.json"), &tokenizer));
    assert_true(pl_tokenizer_puts_blank(tokenizer));
    assert_ok(pl_tokenizer_encode(tokenizer, "aba b", 5, &ids));
    static const int32_t expected[] = {3, 7, 3, 5};
    assert_int_equal(ids.len, sizeof expected);
    assert_memory_equal(ids.data, expected, sizeof expected);
    /* the blank that the tokenizer put before the text is not a part of the text */
    OWNED(pl_buf_destroy) pl_buf text = {0};
    assert_ok(pieces_decode(tokenizer, expected, 4, &text));
    assert_string_equal(pl_buf_text(&text), "aba b");
    pl_tokenizer_destroy(&tokenizer);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_tokenizer(cases[i].steps, cases[i].merges, cases[i].more[0],
                        cases[i].more[1]);
        assert_int_not_equal(pl_tokenizer_load(in_scratch("letters.json"), &tokenizer),
                             PL_OK);
        assert_said(cases[i].words);
        assert_said("letters.json");
    }
}

PL_TEST(a_run_of_another_shape_is_refused_by_key)
{
    pl_shape other = wide_shape;
    OWNED(pl_import_close) pl_import *m = NULL;
    OWNED(free_memory) float *params = make_folder("other", &wide_shape, PL_WEIGHT_F32);
    assert_ok(pl_import_open(in_scratch("other"), &m));
    other.ffn = 48;
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&other);
    assert_fails(pl_import_load(m, t, params), PL_ERR_CONFIG,
                 "model.ffn is 48 but the model in");
    pl_topology_destroy(&t);
    other = wide_shape;
    other.context = 12; /* the number of parameters does not depend on the context */
    t = make_topology(&other);
    assert_ok(pl_import_load(m, t, params));
}

PL_TEST(a_value_that_is_not_finite_is_named)
{
    OWNED(pl_import_close) pl_import *m = NULL;
    char path[PL_PATH_MAX];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    OWNED(free_memory) float *params = make_folder("nan", &wide_shape, PL_WEIGHT_F32);
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    pl_join(path, in_scratch("nan"), "model.safetensors");
    assert_ok(pl_read_file(path, &bytes));
    memcpy(bytes.data + bytes.len - 4, &(float){NAN}, 4);
    assert_ok(pl_replace_file(path, bytes.data, bytes.len));
    assert_ok(pl_import_open(in_scratch("nan"), &m));
    assert_fails(pl_import_load(m, t, params), PL_ERR_DATA,
                 "value 13311 of tensor lm_head.weight");
}

PL_TEST(what_is_not_there_is_said)
{
    refused("nowhere", PL_ERR_NOT_FOUND, "nowhere to import: give a folder");
    assert_ok(pl_make_folders(in_scratch("empty")));
    refused("empty", PL_ERR_NOT_FOUND, "no config.json");
    free(make_folder("bare", &wide_shape, PL_WEIGHT_F32));
    assert_int_equal(remove(in_scratch("bare/model.safetensors")), 0);
    refused("bare", PL_ERR_NOT_FOUND, "neither model.safetensors nor");
}

PL_SUITE(open_exchange, close_exchange)
