/* Writes one path as a GGUF file of the architecture llama or, with QK norm, qwen3. */
#include "serve/gguf.h"
#include "serve/piece_list.h"
#include "serve/weights.h"
#include "corpus/corpus.h"
#include <stdio.h>

/* The value of the key `general.file_type` for each pl_weight_type. */
static const uint32_t file_types[PL_WEIGHT_COUNT] = {0, 1, 32, 7};
enum { QUANTISATION = 2 }; /* ggml's version number of its quantised blocks */

static const char *const names[][2] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"}};

static pl_status gguf_name_of(const pl_tensor *t, char out[PL_NAME_MAX])
{
    char prefix[PL_NAME_MAX] = "";
    const char *rest = t->name;
    if (t->block >= 0) {
        int used = snprintf(prefix, sizeof prefix, "model.layers.%d.", t->block);
        rest += used;
        snprintf(prefix, sizeof prefix, "blk.%d.", t->block);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(rest, names[i][0]) == 0) {
            snprintf(out, PL_NAME_MAX, "%.16s%.40s", prefix, names[i][1]);
            return PL_OK;
        }
    return pl_fail(PL_ERR_INTERNAL, "tensor %s has no name in GGUF", t->name);
}

static pl_status put_tokenizer_of(const pl_export *e, gguf_head *h)
{
    piece_list list;
    size_t vocab = (size_t)pl_topology_shape(e->topology)->vocab;
    PL_CHECK(piece_list_read(e->tokenizer_model, e->tokenizer_bytes, &list));
    pl_status status = PL_OK;
    if (!list.bpe || !list.exact)
        status = pl_fail(PL_ERR_UNSUPPORTED,
                         "a GGUF file can only have a tokenizer that is BPE over "
                         "unchanged text, and the run's is not; give --format "
                         "safetensors");
    else if (list.n > vocab)
        status = pl_fail(PL_ERR_CONFIG,
                         "the tokenizer has %zu pieces and the model has %zu tokens; "
                         "use the tokenizer that the model was trained with",
                         list.n, vocab);
    else {
        gguf_put_text(h, "tokenizer.ggml.model", "llama");
        gguf_put_text(h, "tokenizer.ggml.pre", "default");
        /* If the model has more tokens than the tokenizer has pieces, unused pieces are
         * added. */
        char unused[32];
        gguf_put_list(h, "tokenizer.ggml.tokens", GGUF_TEXT, vocab);
        for (size_t i = 0; i < list.n; i++)
            gguf_add_text(h, list.pieces[i].text, list.pieces[i].len);
        for (size_t i = list.n; i < vocab; i++) {
            snprintf(unused, sizeof unused, "[PAD%zu]", i);
            gguf_add_text(h, unused, strlen(unused));
        }
        gguf_put_list(h, "tokenizer.ggml.scores", GGUF_F32, vocab);
        for (size_t i = 0; i < vocab; i++)
            gguf_add_f32(h, i < list.n ? list.pieces[i].score : -1000);
        gguf_put_list(h, "tokenizer.ggml.token_type", GGUF_I32, vocab);
        for (size_t i = 0; i < vocab; i++)
            gguf_add_i32(h, i < list.n ? (int32_t)list.pieces[i].kind : PIECE_UNUSED);
        gguf_put_u32(h, "tokenizer.ggml.bos_token_id", PL_TOKEN_BOS);
        gguf_put_u32(h, "tokenizer.ggml.eos_token_id", PL_TOKEN_EOS);
        gguf_put_u32(h, "tokenizer.ggml.unknown_token_id", PL_TOKEN_UNK);
        gguf_put_bool(h, "tokenizer.ggml.add_bos_token", true);
        gguf_put_bool(h, "tokenizer.ggml.add_eos_token", false);
        gguf_put_bool(h, "tokenizer.ggml.add_space_prefix", list.blank_first);
    }
    piece_list_clear(&list);
    return status;
}

static pl_weight_type type_of(const pl_export *e, const pl_tensor *t)
{
    if (weight_is_vector(t))
        return PL_WEIGHT_F32;
    bool odd = e->type == PL_WEIGHT_Q8_0 && t->cols % Q8_0_VALUES != 0;
    return odd ? PL_WEIGHT_F16 : e->type;
}

pl_status pl_export_gguf(const pl_export *e, const char *path)
{
    gguf_head head = {.n_keys = 0};
    pl_buf bytes = {0};
    pl_output *out = NULL;
    pl_status status = PL_OK;
    char name[PL_NAME_MAX], key[64];
    const pl_shape *s = pl_topology_shape(e->topology);
    const struct {
        const char *name;
        int value;
    } sizes[] = {{"context_length", s->context},
                 {"embedding_length", s->width},
                 {"block_count", s->n_blocks},
                 {"feed_forward_length", s->ffn},
                 {"attention.head_count", s->n_heads},
                 {"attention.head_count_kv", s->n_kv_heads},
                 {"attention.key_length", s->head_size},
                 {"attention.value_length", s->head_size},
                 {"rope.dimension_count", s->head_size},
                 {"vocab_size", s->vocab}};
    const char *architecture = s->qk_norm ? "qwen3" : "llama";
    gguf_put_text(&head, "general.architecture", architecture);
    gguf_put_text(&head, "general.type", "model");
    gguf_put_text(&head, "general.name", e->name);
    gguf_put_u32(&head, "general.file_type", file_types[e->type]);
    gguf_put_u32(&head, "general.alignment", GGUF_ALIGNMENT);
    if (e->type == PL_WEIGHT_Q8_0)
        gguf_put_u32(&head, "general.quantization_version", QUANTISATION);
    for (int i = 0; i < e->n_notes; i++)
        gguf_put_text(&head, e->notes[i].key, e->notes[i].value);
    /* the keys of the shape begin with the name of the architecture */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", architecture, sizes[i].name);
        gguf_put_u32(&head, key, (uint32_t)sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    gguf_put_f32(&head, key, s->norm_eps);
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture);
    gguf_put_f32(&head, key, s->rope_theta);
    PL_TRY(put_tokenizer_of(e, &head));
    for (int i = 0; i < pl_topology_n_tensors(e->topology); i++) {
        const pl_tensor *t = pl_topology_tensor(e->topology, i);
        PL_TRY(gguf_name_of(t, name));
        gguf_add_tensor(&head, name, t, type_of(e, t));
    }
    gguf_head_encode(&head, &bytes);
    char folder[PL_PATH_MAX];
    PL_TRY(pl_make_folders(pl_path_above(folder, path)));
    PL_TRY(pl_output_open(path, &out));
    PL_TRY(pl_output_write(out, bytes.data, bytes.len));
    /* Only GGUF's llama needs rows in a different order (weights.h). */
    const int head_size = s->qk_norm ? 0 : s->head_size;
    for (int i = 0; i < pl_topology_n_tensors(e->topology); i++) {
        const pl_tensor *t = pl_topology_tensor(e->topology, i);
        PL_TRY(weight_write(e, t, type_of(e, t), head_size, out));
        PL_TRY(pl_output_align(out, GGUF_ALIGNMENT));
    }
    PL_TRY(pl_output_end(out));
done:
    pl_output_close(&out);
    pl_buf_destroy(&bytes);
    gguf_head_destroy(&head);
    return status;
}
