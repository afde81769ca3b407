/* Writes one path as a Hugging Face folder. */
#include "serve/llama_config.h"
#include "serve/tokenizer_files.h"
#include "serve/weights.h"

enum { HEADER_ALIGNMENT = 8 };

/* The name of each pl_weight_type in safetensors files, and in torch. */
static const char *const dtypes[PL_WEIGHT_COUNT] = {"F32", "F16", "BF16", ""};
static const char *const torch_dtypes[PL_WEIGHT_COUNT] = {"float32", "float16",
                                                          "bfloat16", ""};

/* ---- model.safetensors ---- */
static pl_status write_weights(const pl_export *e, const char *path)
{
    pl_output *out = NULL;
    pl_buf text = {0};
    uint8_t len[8];
    uint64_t at = 0;
    pl_status status = pl_output_open(path, &out);
    PL_TRY(status);
    pl_json *header = pl_json_object(), *metadata = pl_json_object();
    pl_json_set_text(metadata, "format", "pt"); /* transformers requires this key */
    for (int i = 0; i < e->n_notes; i++)
        pl_json_set_text(metadata, e->notes[i].key, e->notes[i].value);
    pl_json_set(header, "__metadata__", metadata);
    for (int i = 0; i < pl_topology_n_tensors(e->topology); i++) {
        const pl_tensor *t = pl_topology_tensor(e->topology, i);
        const uint64_t end = at + weight_bytes(e->type, t);
        pl_json *o = pl_json_object(), *shape = pl_json_array();
        if (!weight_is_vector(t))
            pl_json_push(shape, pl_json_make_int(t->rows));
        pl_json_push(shape, pl_json_make_int(t->cols));
        pl_json_set_text(o, "dtype", dtypes[e->type]);
        pl_json_set(o, "shape", shape);
        pl_json_set(o, "data_offsets",
                    pl_json_list(pl_json_make_int((int64_t)at),
                                 pl_json_make_int((int64_t)end)));
        pl_json_set(header, t->name, o);
        at = end;
    }
    pl_json_write(header, 0, &text);
    pl_json_destroy(&header);
    /* The header is padded with blanks, so that the data begins at a multiple of 8. */
    while (text.len % HEADER_ALIGNMENT != 0)
        pl_buf_append(&text, " ", 1);
    pl_le_put(len, text.len, sizeof len);
    PL_TRY(pl_output_write(out, len, sizeof len));
    PL_TRY(pl_output_write(out, text.data, text.len));
    for (int i = 0; i < pl_topology_n_tensors(e->topology); i++)
        PL_TRY(weight_write(e, pl_topology_tensor(e->topology, i), e->type, 0, out));
    PL_TRY(pl_output_end(out));
done:
    pl_output_close(&out);
    pl_buf_destroy(&text);
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

pl_status pl_export_folder(const pl_export *e, const char *folder)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    piece_list list = {0};
    pl_status status = PL_OK;
    if (e->type == PL_WEIGHT_Q8_0)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the safetensors format has no type q8_0; give --type f32, f16 "
                       "or bf16, or --format gguf");
    PL_TRY(pl_make_folders(folder));
    PL_TRY(write_weights(e, pl_join(path, folder, "model.safetensors")));
    /* The library transformers always reads the file tokenizer.model of a Llama model
     * as BPE over unchanged text. So a tokenizer of any other kind is written as
     * sentencepiece.model: transformers then reports a missing tokenizer, instead of
     * misreading this one. */
    PL_TRY(piece_list_read(e->tokenizer_model, e->tokenizer_bytes, &list));
    const bool plain = list.bpe && list.exact && list.byte_fallback;
    pl_buf_append(&text, e->tokenizer_model, e->tokenizer_bytes);
    PL_TRY(put_text(folder, plain ? "tokenizer.model" : "sentencepiece.model", &text));
    if (plain) {
        tokenizer_json(&list, &text);
        PL_TRY(put_text(folder, "tokenizer.json", &text));
        tokenizer_config(&list, pl_topology_shape(e->topology)->context, &text);
        PL_TRY(put_text(folder, "tokenizer_config.json", &text));
        tokenizer_special_tokens(&list, &text);
        PL_TRY(put_text(folder, "special_tokens_map.json", &text));
    }
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
    piece_list_clear(&list);
    pl_buf_destroy(&text);
    return status;
}
