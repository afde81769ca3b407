/* Writes one path as a GGUF file (version 3) of the architecture llama or, with QK
 * norm, qwen3: keys and tensor descriptions, then the tensors.
 *
 *   "GGUF" | version u32 | n_tensors u64 | n_keys u64
 *   key*     name | type u32 | value
 *   tensor*  name | n_dims u32 | dims u64*, row length first | type u32 | offset u64
 *   zeros up to a multiple of 32 bytes | data of each tensor, padded in the same way
 *
 * A text is stored as its length (u64), then its bytes. All numbers are
 * little-endian. */
#include "serve/piece_list.h"
#include "serve/weights.h"
#include "corpus/corpus.h"
#include <stdio.h>

enum {
    GGUF_VERSION = 3,
    GGUF_ALIGNMENT = 32,
    QUANTISATION = 2 /* ggml's version number of its quantised blocks */
};

/* For each pl_weight_type: the value of the key `general.file_type`, and ggml's number
 * for the type of a tensor. */
static const uint32_t file_types[PL_WEIGHT_COUNT] = {0, 1, 32, 7};
static const uint32_t tensor_types[PL_WEIGHT_COUNT] = {0, 1, 30, 8};

/* Kinds of values, with the numbers that the format gives them. */
typedef enum gguf_kind {
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_TEXT = 8,
    GGUF_LIST = 9
} gguf_kind;

typedef struct gguf_head {
    pl_buf keys, tensors; /* the encoded keys and tensor descriptions so far */
    /* data_bytes: bytes of the data of these tensors, with padding */
    uint64_t n_keys, n_tensors, data_bytes;
} gguf_head;

static void add_le_value(pl_buf *out, uint64_t value, size_t n_bytes)
{
    uint8_t bytes[8];
    pl_le_put(bytes, value, n_bytes);
    pl_buf_append(out, bytes, n_bytes);
}

static void add_text(pl_buf *out, const char *text, size_t len)
{
    add_le_value(out, len, 8);
    pl_buf_append(out, text, len);
}

/* ---- keys ---- */
static void put_key(gguf_head *h, const char *key, gguf_kind kind)
{
    add_text(&h->keys, key, strlen(key));
    add_le_value(&h->keys, kind, 4);
    h->n_keys++;
}

static void add_f32(gguf_head *h, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_le_value(&h->keys, bits, 4);
}

static void put_u32(gguf_head *h, const char *key, uint32_t value)
{
    put_key(h, key, GGUF_U32);
    add_le_value(&h->keys, value, 4);
}

static void put_f32(gguf_head *h, const char *key, double value)
{
    put_key(h, key, GGUF_F32);
    add_f32(h, (float)value);
}

static void put_bool(gguf_head *h, const char *key, bool value)
{
    put_key(h, key, GGUF_BOOL);
    add_le_value(&h->keys, value, 1);
}

static void put_text(gguf_head *h, const char *key, const char *value)
{
    put_key(h, key, GGUF_TEXT);
    add_text(&h->keys, value, strlen(value));
}

/* Begins a list of `n` values of this kind. The caller then adds the n values. */
static void put_list(gguf_head *h, const char *key, gguf_kind kind, uint64_t n)
{
    put_key(h, key, GGUF_LIST);
    add_le_value(&h->keys, kind, 4);
    add_le_value(&h->keys, n, 8);
}

/* ---- tensors ---- */
static uint64_t padded(uint64_t bytes)
{
    return (bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
}

/* Describes a tensor, whose data follows that of the tensors before it. */
static void add_tensor(gguf_head *h, const char *name, const pl_tensor *tensor,
                       pl_weight_type type)
{
    bool vector = weight_is_vector(tensor);
    add_text(&h->tensors, name, strlen(name));
    add_le_value(&h->tensors, vector ? 1 : 2, 4);
    add_le_value(&h->tensors, (uint64_t)tensor->cols, 8);
    if (!vector)
        add_le_value(&h->tensors, (uint64_t)tensor->rows, 8);
    add_le_value(&h->tensors, tensor_types[type], 4);
    add_le_value(&h->tensors, h->data_bytes, 8);
    h->data_bytes += padded(weight_bytes(type, tensor));
    h->n_tensors++;
}

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
enum { N_NAMES = sizeof names / sizeof *names };

/* ---- the file ---- */
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
        put_text(h, "tokenizer.ggml.model", "llama");
        put_text(h, "tokenizer.ggml.pre", "default");
        /* If the model has more tokens than the tokenizer has pieces, unused pieces are
         * added. */
        char unused[32];
        put_list(h, "tokenizer.ggml.tokens", GGUF_TEXT, vocab);
        for (size_t i = 0; i < list.n; i++)
            add_text(&h->keys, list.pieces[i].text, list.pieces[i].len);
        for (size_t i = list.n; i < vocab; i++) {
            snprintf(unused, sizeof unused, "[PAD%zu]", i);
            add_text(&h->keys, unused, strlen(unused));
        }
        put_list(h, "tokenizer.ggml.scores", GGUF_F32, vocab);
        for (size_t i = 0; i < vocab; i++)
            add_f32(h, i < list.n ? list.pieces[i].score : -1000);
        put_list(h, "tokenizer.ggml.token_type", GGUF_I32, vocab);
        for (size_t i = 0; i < vocab; i++)
            add_le_value(&h->keys, i < list.n ? list.pieces[i].kind : PIECE_UNUSED, 4);
        put_u32(h, "tokenizer.ggml.bos_token_id", PL_TOKEN_BOS);
        put_u32(h, "tokenizer.ggml.eos_token_id", PL_TOKEN_EOS);
        put_u32(h, "tokenizer.ggml.unknown_token_id", PL_TOKEN_UNK);
        put_bool(h, "tokenizer.ggml.add_bos_token", true);
        put_bool(h, "tokenizer.ggml.add_eos_token", false);
        put_bool(h, "tokenizer.ggml.add_space_prefix", list.blank_first);
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
    static const uint8_t zeros[GGUF_ALIGNMENT];
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
    put_text(&head, "general.architecture", architecture);
    put_text(&head, "general.type", "model");
    put_text(&head, "general.name", e->name);
    put_u32(&head, "general.file_type", file_types[e->type]);
    put_u32(&head, "general.alignment", GGUF_ALIGNMENT);
    if (e->type == PL_WEIGHT_Q8_0)
        put_u32(&head, "general.quantization_version", QUANTISATION);
    for (int i = 0; i < e->n_notes; i++)
        put_text(&head, e->notes[i].key, e->notes[i].value);
    /* the keys of the shape begin with the name of the architecture */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", architecture, sizes[i].name);
        put_u32(&head, key, (uint32_t)sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    put_f32(&head, key, s->norm_eps);
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture);
    put_f32(&head, key, s->rope_theta);
    PL_TRY(put_tokenizer_of(e, &head));
    for (int i = 0; i < pl_topology_n_tensors(e->topology); i++) {
        const pl_tensor *t = pl_topology_tensor(e->topology, i);
        /* the beginning of the tensor's name, ours and GGUF's */
        char block[2][PL_NAME_MAX] = {"", ""};
        if (t->block >= 0) {
            snprintf(block[0], sizeof block[0], "model.layers.%d.", t->block);
            snprintf(block[1], sizeof block[1], "blk.%d.", t->block);
        }
        size_t k = 0;
        while (k < N_NAMES && strcmp(t->name + strlen(block[0]), names[k][0]) != 0)
            k++;
        if (k == N_NAMES)
            PL_TRY(pl_fail(PL_ERR_INTERNAL, "tensor %s has no name in GGUF", t->name));
        snprintf(name, sizeof name, "%.16s%.40s", block[1], names[k][1]);
        add_tensor(&head, name, t, type_of(e, t));
    }
    pl_buf_append(&bytes, "GGUF", 4);
    add_le_value(&bytes, GGUF_VERSION, 4);
    add_le_value(&bytes, head.n_tensors, 8);
    add_le_value(&bytes, head.n_keys, 8);
    pl_buf_append(&bytes, head.keys.data, head.keys.len);
    pl_buf_append(&bytes, head.tensors.data, head.tensors.len);
    pl_buf_append(&bytes, zeros, (size_t)(padded(bytes.len) - bytes.len));
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
    pl_buf_destroy(&head.keys);
    pl_buf_destroy(&head.tensors);
    return status;
}
