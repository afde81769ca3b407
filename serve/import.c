/* Reads an existing Llama or Qwen3 model as parameters of our model.
 *
 * Everything is checked when the model is opened: the configuration, the structure of
 * every file, and whether the files have exactly the tensors of our layout. So loading
 * only copies values. */
#include "serve/llama_config.h"
#include "serve/safetensors.h"
#include <math.h>
#include <stdio.h>

enum { FILES_MAX = 1024, NAME_BYTES = 256 };

struct pl_import {
    char folder[PL_PATH_MAX], tokenizer[PL_PATH_MAX];
    safetensors **files;
    pl_import_info info;
};

/* ---- finding the files ---- */
static pl_status open_file(pl_import *m, const char *path)
{
    if (m->info.n_files == FILES_MAX)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the index in %s names more than %d files; merge the files",
                       m->folder, FILES_MAX);
    m->files = pl_grow(m->files, (size_t)(m->info.n_files + 1) * sizeof *m->files);
    PL_CHECK(safetensors_open(path, &m->files[m->info.n_files]));
    m->info.n_files++;
    return PL_OK;
}

static safetensors *file_called(const pl_import *m, const char *path)
{
    for (int i = 0; i < m->info.n_files; i++)
        if (strcmp(m->files[i]->name, path) == 0)
            return m->files[i];
    return NULL;
}

static pl_status open_shards(pl_import *m, const char *index)
{
    pl_buf text = {0};
    pl_json *root = NULL;
    pl_status status = pl_read_file(index, &text);
    PL_TRY(status);
    status = pl_json_parse(pl_buf_text(&text), text.len, &root);
    if (status != PL_OK)
        PL_TRY(pl_fail_in(status, "%s", index));
    const pl_json *map = pl_json_get(root, "weight_map");
    if (!pl_json_is_object(map))
        PL_TRY(pl_fail(PL_ERR_DATA, "%s has no object `weight_map`", index));
    for (const char *key = NULL; (key = pl_json_next_key(map, key));) {
        char path[PL_PATH_MAX];
        const char *name = pl_json_text(pl_json_get(map, key), NULL);
        if (!name || strchr(name, '/') || !pl_ends_with(name, ".safetensors") ||
            !*pl_join(path, m->folder, name))
            PL_TRY(pl_fail(
                PL_ERR_DATA,
                "model.safetensors.index.json in %s: `weight_map` names no file of the "
                "folder (a name that ends in .safetensors) for tensor %.128s",
                m->folder, key));
        if (!file_called(m, path))
            PL_TRY(open_file(m, path));
        if (!safetensors_find(file_called(m, path), key))
            PL_TRY(pl_fail(PL_ERR_DATA,
                           "%s lacks tensor %.128s, which the index says is there",
                           path, key));
    }
done:
    pl_json_destroy(&root);
    pl_buf_destroy(&text);
    return status;
}

/* ---- tensors ---- */
static const st_tensor *find_stored_tensor(const pl_import *m, const char *name,
                                           safetensors **file)
{
    const st_tensor *found = NULL;
    for (int i = 0; i < m->info.n_files && !found; i++) {
        found = safetensors_find(m->files[i], name);
        *file = m->files[i];
    }
    return found;
}

/* Finds a tensor of our model. The one matrix of a tied model may be stored under the
 * name of the head. */
static const st_tensor *find_model_tensor(const pl_import *m, const char *name,
                                          safetensors **file)
{
    const st_tensor *found = find_stored_tensor(m, name, file);
    if (!found && pl_starts_with(name, "model."))
        found = find_stored_tensor(m, name + strlen("model."), file);
    if (!found && m->info.shape.tied && strcmp(name, "model.embed_tokens.weight") == 0)
        found = find_stored_tensor(m, "lm_head.weight", file);
    return found;
}

static bool has_shape(const st_tensor *have, const pl_tensor *want)
{
    if (want->rows == 1 && !want->decay) /* a vector */
        return have->n_dims == 1 && have->dims[0] == want->cols;
    return have->n_dims == 2 && have->dims[0] == want->rows &&
           have->dims[1] == want->cols;
}

static pl_status check_tensor(const pl_import *m, const pl_tensor *want)
{
    safetensors *file = NULL;
    const st_tensor *have = find_model_tensor(m, want->name, &file);
    if (!have && strcmp(want->name, "lm_head.weight") == 0)
        return pl_fail(
            PL_ERR_DATA,
            "%s has no lm_head.weight, and by its config.json tie_word_embeddings is "
            "false: save the model with its head (AutoModelForCausalLM, not "
            "AutoModel); if the embedding is its head, set tie_word_embeddings to true",
            m->folder);
    if (!have)
        return pl_fail(PL_ERR_DATA,
                       "%s has no tensor %s, which the model needs by its config.json; "
                       "the download may be incomplete: repeat it",
                       m->folder, want->name);
    if (has_shape(have, want))
        return PL_OK;
    pl_buf text = {0};
    pl_buf_printf(&text, "[");
    for (int i = 0; i < have->n_dims; i++)
        pl_buf_printf(&text, "%s%lld", i ? ", " : "", (long long)have->dims[i]);
    pl_buf_printf(&text, "]");
    pl_status status =
        pl_fail(PL_ERR_DATA,
                "%s: tensor %s has the shape %s but config.json makes "
                "it [%d, %d]; use the files of one model",
                file->name, want->name, pl_buf_text(&text), want->rows, want->cols);
    pl_buf_destroy(&text);
    return status;
}

/* Old programs stored what can be computed: rotary frequencies and tables, masks. */
static const char *const derived[] = {".rotary_emb.inv_freq", ".rotary_emb.cos_cached",
                                      ".rotary_emb.sin_cached", ".masked_bias",
                                      "position_ids"};

/* Refuses a tensor that the import would not use (a bias, an adapter, a second copy),
 * so that no tensor is lost silently. A model that was saved without its head
 * (AutoModel of transformers) has names without "model.". A model with tied embeddings
 * is sometimes stored with both matrices, which must then be equal. */
static pl_status check_known(pl_import *m, const pl_topology *t, safetensors *file,
                             const st_tensor *tensor)
{
    safetensors *first = NULL;
    char name[NAME_BYTES];
    find_stored_tensor(m, tensor->name, &first);
    if (first != file)
        return pl_fail(PL_ERR_DATA, "tensor %.128s is in both %s and %s; remove one",
                       tensor->name, first->name, file->name);
    bool is_derived = false, is_ours = false;
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++)
        is_derived = is_derived || pl_ends_with(tensor->name, derived[i]);
    const bool bare = pl_starts_with(tensor->name, "layers.") ||
                      strcmp(tensor->name, "norm.weight") == 0 ||
                      strcmp(tensor->name, "embed_tokens.weight") == 0;
    snprintf(name, sizeof name, "%s%.200s", bare ? "model." : "", tensor->name);
    for (int i = 0; i < pl_topology_n_tensors(t) && !is_ours; i++)
        is_ours = strcmp(pl_topology_tensor(t, i)->name, name) == 0;
    safetensors *other = NULL;
    if (strcmp(name, tensor->name) != 0 && find_stored_tensor(m, name, &other))
        return pl_fail(PL_ERR_DATA, "%s has both %.128s and %.128s; remove one",
                       other->name, name, tensor->name);
    m->info.n_derived += is_derived;
    if (is_derived || is_ours)
        return PL_OK;
    const bool is_tied_head =
        m->info.shape.tied && strcmp(tensor->name, "lm_head.weight") == 0;
    const st_tensor *embed = find_model_tensor(m, "model.embed_tokens.weight", &other);
    if (is_tied_head && embed && strcmp(embed->dtype, tensor->dtype) == 0 &&
        embed->n_bytes == tensor->n_bytes &&
        memcmp(embed->data, tensor->data, tensor->n_bytes) == 0)
        return PL_OK;
    if (is_tied_head)
        return pl_fail(PL_ERR_DATA,
                       "%s: tie_word_embeddings is true but lm_head.weight is not the "
                       "embedding; set tie_word_embeddings to false in config.json",
                       m->folder);
    return pl_fail(
        PL_ERR_UNSUPPORTED,
        "%s: pathloom's models have no tensor %.128s; use a model without it",
        file->name, tensor->name);
}

/* ---- opening ---- */
pl_status pl_import_open(const char *path, pl_import **out)
{
    /* files that are often downloaded in place of safetensors */
    static const struct {
        const char *suffix, *name;
    } formats[] = {{".gguf", "a GGUF file"},
                   {".bin", "a PyTorch file"},
                   {".pt", "a PyTorch file"},
                   {".pth", "a PyTorch file"},
                   {".ckpt", "a PyTorch file"}};
    pl_import *m = pl_alloc(sizeof *m);
    pl_topology *t = NULL;
    pl_buf text = {0};
    pl_status status = PL_OK;
    /* a file that describes the folder's model stands for the folder */
    const bool describes = pl_ends_with(path, "config.json") ||
                           pl_ends_with(path, ".safetensors.index.json");
    const bool is_folder = pl_path_is_folder(path) || describes;
    char config[PL_PATH_MAX];
    if (strlen(path) >= PL_PATH_MAX - 64 || !pl_path_exists(path))
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "there is no %.256s to import: give a folder of this machine",
                       path));
    if (is_folder && !describes)
        pl_copy_text(m->folder, sizeof m->folder, path);
    else
        pl_path_above(m->folder, path);
    for (size_t i = 0; !is_folder && i < sizeof formats / sizeof *formats; i++)
        if (pl_ends_with(path, formats[i].suffix))
            PL_TRY(pl_fail(PL_ERR_UNSUPPORTED,
                           "%.256s is %s, which cannot be imported: give the folder of "
                           "the model in the safetensors format",
                           path, formats[i].name));
    if (!pl_path_exists(pl_join(config, m->folder, "config.json")))
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "there is no config.json in %s; give the folder of a Llama or "
                       "Qwen3 model in the safetensors format",
                       m->folder));
    PL_TRY(pl_read_file(config, &text));
    PL_TRY(llama_config_read(config, pl_buf_text(&text), text.len, &m->info.shape));
    char name[PL_PATH_MAX];
    if (!is_folder)
        PL_TRY(open_file(m, path));
    else if (pl_path_exists(pl_join(name, m->folder, "model.safetensors")))
        PL_TRY(open_file(m, name));
    else if (pl_path_exists(pl_join(name, m->folder, "model.safetensors.index.json")))
        PL_TRY(open_shards(m, name));
    else
        PL_TRY(pl_fail(
            PL_ERR_NOT_FOUND,
            "there is neither model.safetensors nor model.safetensors.index.json in "
            "%s; convert the model to safetensors",
            m->folder));
    if (!pl_path_exists(pl_join(m->tokenizer, m->folder, "tokenizer.model")) &&
        !pl_path_exists(pl_join(m->tokenizer, m->folder, "tokenizer.json")))
        m->tokenizer[0] = '\0';
    m->info.tokenizer = m->tokenizer;
    const pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    PL_TRY(pl_topology_create(&m->info.shape, &spec, &t));
    for (int i = 0; i < pl_topology_n_tensors(t); i++)
        PL_TRY(check_tensor(m, pl_topology_tensor(t, i)));
    for (int f = 0; f < m->info.n_files; f++)
        for (size_t i = 0; i < m->files[f]->n_tensors; i++)
            PL_TRY(check_known(m, t, m->files[f], &m->files[f]->tensors[i]));
done:
    pl_topology_destroy(&t);
    pl_buf_destroy(&text);
    if (status != PL_OK)
        pl_import_close(&m);
    *out = m;
    return status;
}

void pl_import_close(pl_import **import)
{
    pl_import *m = *import;
    if (!m)
        return;
    for (int i = 0; i < m->info.n_files; i++)
        safetensors_close(&m->files[i]);
    pl_free_all(m->files, m);
    *import = NULL;
}

const pl_import_info *pl_import_describe(const pl_import *import)
{
    return &import->info;
}

/* ---- loading ---- */
pl_status pl_import_load(const pl_import *import, const pl_topology *topology,
                         float *params)
{
    const pl_shape *want = pl_topology_shape(topology);
    const pl_shape *have = &import->info.shape;
    if (want->vocab != have->vocab)
        return pl_fail(PL_ERR_CONFIG,
                       "data.vocab is %d but the model in %s has %d tokens; use the "
                       "configuration that `pathloom import` writes for this model",
                       want->vocab, import->folder, have->vocab);
    const struct {
        const char *name;
        double have, want;
    } settings[] = {{"width", have->width, want->width},
                    {"heads", have->n_heads, want->n_heads},
                    {"kv_heads", have->n_kv_heads, want->n_kv_heads},
                    {"head_size", have->head_size, want->head_size},
                    {"ffn", have->ffn, want->ffn},
                    {"blocks", have->n_blocks, want->n_blocks},
                    {"tied", have->tied, want->tied},
                    {"qk_norm", have->qk_norm, want->qk_norm},
                    {"rope_theta", have->rope_theta, want->rope_theta},
                    {"norm_eps", have->norm_eps, want->norm_eps}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (settings[i].have != settings[i].want)
            return pl_fail(PL_ERR_CONFIG,
                           "model.%s is %.9g but the model in %s has %.9g; use the "
                           "configuration that `pathloom import` writes for this model",
                           settings[i].name, settings[i].want, import->folder,
                           settings[i].have);
    for (int i = 0; i < pl_topology_n_tensors(topology); i++) {
        const pl_tensor *t = pl_topology_tensor(topology, i);
        float *values = params + t->offset;
        safetensors *file = NULL;
        const st_tensor *from = find_model_tensor(import, t->name, &file);
        if (!from || !has_shape(from, t))
            return pl_fail(PL_ERR_INTERNAL,
                           "tensor %s is missing, but was there when its file was "
                           "opened; do not change the files during the import",
                           t->name);
        PL_CHECK(safetensors_floats(file, from, values));
        for (uint64_t v = 0; v < from->n_values; v++)
            if (!isfinite(values[v]))
                return pl_fail(
                    PL_ERR_DATA,
                    "%s: value %llu of tensor %s is %g, so the model cannot be used",
                    file->name, (unsigned long long)v, t->name, (double)values[v]);
    }
    return PL_OK;
}
