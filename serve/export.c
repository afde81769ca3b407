/* Writes one path as a Hugging Face folder. */
#include "serve/piece_list.h"
#include "serve/llama_config.h"
#include "serve/tokenizer_files.h"
#include "serve/weights.h"
#include <string.h>

enum { HEADER_ALIGNMENT = 8 };

/* The name of each pl_weight_type in safetensors files, and in torch. */
static const char *const dtypes[PL_WEIGHT_COUNT] = {"F32", "F16", "BF16", ""};
static const char *const torch_dtypes[PL_WEIGHT_COUNT] = {"float32", "float16",
                                                          "bfloat16", ""};

/* ---- model.safetensors ---- */
static pl_json *describe_tensor(const pl_tensor *t, pl_weight_type type, uint64_t begin)
{
    pl_json *o = pl_json_object(), *shape = pl_json_array(), *place = pl_json_array();
    if (!weight_is_vector(t))
        pl_json_push(shape, pl_json_make_int(t->rows));
    pl_json_push(shape, pl_json_make_int(t->cols));
    pl_json_push(place, pl_json_make_int((int64_t)begin));
    pl_json_push(place, pl_json_make_int((int64_t)(begin + weight_bytes(type, t))));
    pl_json_set_text(o, "dtype", dtypes[type]);
    pl_json_set(o, "shape", shape);
    pl_json_set(o, "data_offsets", place);
    return o;
}

/* Writes the metadata. transformers requires the key "format". */
static pl_json *metadata_of(const pl_export *e)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "format", "pt");
    for (int i = 0; i < e->n_notes; i++)
        pl_json_set_text(o, e->notes[i].key, e->notes[i].value);
    return o;
}

static pl_status write_header(const pl_export *e, pl_output *out)
{
    pl_buf text = {0};
    uint8_t len[8];
    /* The header is padded with blanks, so that the data begins at a multiple of 8. */
    pl_json *o = pl_json_object();
    uint64_t at = 0;
    pl_json_set(o, "__metadata__", metadata_of(e));
    for (int i = 0; i < pl_topology_n_tensors(e->topology); i++) {
        const pl_tensor *t = pl_topology_tensor(e->topology, i);
        pl_json_set(o, t->name, describe_tensor(t, e->type, at));
        at += weight_bytes(e->type, t);
    }
    pl_json_write(o, 0, &text);
    while (text.len % HEADER_ALIGNMENT != 0)
        pl_buf_append(&text, " ", 1);
    pl_json_destroy(&o);
    for (int i = 0; i < 8; i++)
        len[i] = (uint8_t)((uint64_t)text.len >> 8 * i);
    pl_status status = pl_output_write(out, len, sizeof len);
    if (status == PL_OK)
        status = pl_output_write(out, text.data, text.len);
    pl_buf_destroy(&text);
    return status;
}

static pl_status write_weights(const pl_export *e, const char *path)
{
    pl_output *out = NULL;
    pl_status status = pl_output_open(path, &out);
    PL_TRY(status);
    PL_TRY(write_header(e, out));
    for (int i = 0; i < pl_topology_n_tensors(e->topology); i++)
        PL_TRY(weight_write(e, pl_topology_tensor(e->topology, i), e->type, 0, out));
    PL_TRY(pl_output_end(out));
done:
    pl_output_close(&out);
    return status;
}

/* ---- the other files ---- */
static pl_status put_text(const char *folder, const char *name, pl_buf *text)
{
    char path[PL_PATH_MAX];
    pl_status status =
        pl_write_output(pl_join(path, folder, name), text->data, text->len);
    pl_buf_clear(text);
    return status;
}

static pl_status write_pipeline(const pl_export *e, const piece_list *list,
                                const char *folder, pl_buf *text)
{
    tokenizer_json(list, text);
    PL_CHECK(put_text(folder, "tokenizer.json", text));
    tokenizer_config(list, pl_topology_shape(e->topology)->context, text);
    PL_CHECK(put_text(folder, "tokenizer_config.json", text));
    tokenizer_special_tokens(list, text);
    return put_text(folder, "special_tokens_map.json", text);
}

/* The library transformers always reads the file tokenizer.model of a Llama model as
 * BPE over unchanged text. So a tokenizer of any other kind is written as
 * sentencepiece.model: transformers then reports a missing tokenizer, instead of
 * misreading this one. */
static pl_status write_tokenizer(const pl_export *e, const char *folder, pl_buf *text)
{
    piece_list list;
    PL_CHECK(piece_list_read(e->tokenizer_model, e->tokenizer_bytes, &list));
    bool plain = tokenizer_has_json(&list);
    pl_buf_append(text, e->tokenizer_model, e->tokenizer_bytes);
    pl_status status =
        put_text(folder, plain ? "tokenizer.model" : "sentencepiece.model", text);
    if (status == PL_OK && plain)
        status = write_pipeline(e, &list, folder, text);
    piece_list_clear(&list);
    return status;
}

pl_status pl_export_folder(const pl_export *e, const char *folder)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_status status = PL_OK;
    if (e->type == PL_WEIGHT_Q8_0)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the safetensors format has no type q8_0; give --type f32, f16 "
                       "or bf16, or --format gguf");
    PL_TRY(pl_make_folders(folder));
    PL_TRY(write_weights(e, pl_join(path, folder, "model.safetensors")));
    PL_TRY(write_tokenizer(e, folder, &text));
    pl_json *o = pl_json_object();
    pl_json_set_int(o, "bos_token_id", 1);
    pl_json_set_int(o, "eos_token_id", 2);
    pl_json_write(o, 2, &text);
    pl_buf_printf(&text, "\n");
    pl_json_destroy(&o);
    PL_TRY(put_text(folder, "generation_config.json", &text));
    llama_config_write(pl_topology_shape(e->topology), torch_dtypes[e->type], &text);
    PL_TRY(put_text(folder, "config.json", &text));
done:
    pl_buf_destroy(&text);
    return status;
}
