/* folder: serve; label: unit */
#include "tests/support/exchange_fixture.h"
#include "serve/half.h"
#include "serve/piece_list.h"
#include "serve/weights.h"
#include <math.h>

/* ---- a reader of GGUF that was written from the specification of GGUF ---- */
enum { KEYS_MAX = 64, TENSORS_MAX = 64 };

typedef struct seen_key {
    char name[96];
    uint32_t kind, item; /* item: kind of the items, if the value is a list */
    uint64_t n;          /* length of the list or of the text */
    const uint8_t *value;
} seen_key;

typedef struct seen_tensor {
    char name[64];
    uint64_t dims[2];
    uint32_t n_dims, type;
    const uint8_t *data;
    uint64_t n_bytes;
} seen_tensor;

typedef struct gguf_view {
    pl_buf bytes;
    size_t at;
    uint64_t n_keys, n_tensors;
    seen_key keys[KEYS_MAX];
    seen_tensor tensors[TENSORS_MAX];
} gguf_view;

static uint64_t take(gguf_view *g, size_t n)
{
    uint64_t value = 0;
    assert_true(g->at + n <= g->bytes.len);
    for (size_t i = n; i-- > 0;)
        value = value << 8 | g->bytes.data[g->at + i];
    g->at += n;
    return value;
}

static uint64_t take_text(gguf_view *g, char *out, size_t size)
{
    uint64_t n = take(g, 8);
    assert_true(n <= g->bytes.len - g->at);
    if (out) {
        assert_true(n < size);
        memcpy(out, g->bytes.data + g->at, (size_t)n);
        out[n] = '\0';
    }
    g->at += (size_t)n;
    return n;
}

static void skip_value(gguf_view *g, seen_key *key)
{
    static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint32_t kind = key->kind;
    uint64_t n = 1;
    if (kind == 9) {
        kind = key->item = (uint32_t)take(g, 4);
        n = key->n = take(g, 8);
    }
    key->value = g->bytes.data + g->at + (key->kind == 8 ? 8 : 0);
    for (uint64_t i = 0; kind == 8 && i < n; i++) {
        uint64_t len = take_text(g, NULL, 0);
        key->n = key->kind == 8 ? len : n;
    }
    assert_true(kind < 13);
    if (kind != 8)
        g->at += (size_t)n * sizes[kind];
}

/* Returns the number of bytes of a tensor's data, which depends on its type. */
static uint64_t bytes_of(const seen_tensor *t)
{
    uint64_t n = t->dims[0] * (t->n_dims == 2 ? t->dims[1] : 1);
    if (t->type == 8) {
        assert_int_equal(t->dims[0] % 32, 0);
        return n / 32 * 34;
    }
    assert_true(t->type == 0 || t->type == 1 || t->type == 30);
    return n * (t->type == 0 ? 4 : 2);
}

/* Reads the tensors. Their data must be in order, each padded to 32 bytes. */
static void take_tensors(gguf_view *g)
{
    uint64_t offsets[TENSORS_MAX], next = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        seen_tensor *t = &g->tensors[i];
        take_text(g, t->name, sizeof t->name);
        t->n_dims = (uint32_t)take(g, 4);
        assert_in_range(t->n_dims, 1, 2);
        for (uint32_t d = 0; d < t->n_dims; d++)
            t->dims[d] = take(g, 8);
        t->type = (uint32_t)take(g, 4);
        offsets[i] = take(g, 8);
    }
    size_t data = (g->at + 31) / 32 * 32;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        assert_int_equal(offsets[i], next);
        g->tensors[i].n_bytes = bytes_of(&g->tensors[i]);
        g->tensors[i].data = g->bytes.data + data + next;
        next += (g->tensors[i].n_bytes + 31) / 32 * 32;
    }
    assert_int_equal(data + next, g->bytes.len);
}

static gguf_view *view_gguf(const char *path)
{
    gguf_view *g = pl_alloc(sizeof *g);
    assert_ok(pl_read_file(path, &g->bytes));
    assert_memory_equal(g->bytes.data, "GGUF\3\0\0\0", 8);
    g->at = 8;
    g->n_tensors = take(g, 8);
    g->n_keys = take(g, 8);
    assert_true(g->n_keys <= KEYS_MAX && g->n_tensors <= TENSORS_MAX);
    for (uint64_t i = 0; i < g->n_keys; i++) {
        take_text(g, g->keys[i].name, sizeof g->keys[i].name);
        g->keys[i].kind = (uint32_t)take(g, 4);
        skip_value(g, &g->keys[i]);
    }
    take_tensors(g);
    return g;
}

static void close_gguf(gguf_view **owner)
{
    OWNED(free_memory) gguf_view *g = *owner;
    pl_buf_destroy(&g->bytes);
}

static const seen_key *key_of(const gguf_view *g, const char *name)
{
    for (uint64_t i = 0; i < g->n_keys; i++)
        if (strcmp(g->keys[i].name, name) == 0)
            return &g->keys[i];
    fail_msg("the GGUF file has no key %s", name);
    return NULL;
}

static uint32_t u32_of(const gguf_view *g, const char *name)
{
    const seen_key *key = key_of(g, name);
    uint32_t value;
    assert_int_equal(key->kind, 4);
    memcpy(&value, key->value, sizeof value);
    return value;
}

static float f32_of(const gguf_view *g, const char *name)
{
    const seen_key *key = key_of(g, name);
    float value;
    assert_int_equal(key->kind, 6);
    memcpy(&value, key->value, sizeof value);
    return value;
}

static void assert_text(const gguf_view *g, const char *name, const char *wanted)
{
    const seen_key *key = key_of(g, name);
    assert_int_equal(key->kind, 8);
    assert_int_equal(key->n, strlen(wanted));
    assert_memory_equal(key->value, wanted, strlen(wanted));
}

static const seen_tensor *tensor_of(const gguf_view *g, const char *name)
{
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (strcmp(g->tensors[i].name, name) == 0)
            return &g->tensors[i];
    fail_msg("the GGUF file has no tensor %s", name);
    return NULL;
}

static const pl_tensor *ours(const pl_topology *t, const char *name)
{
    for (int i = 0; i < pl_topology_n_tensors(t); i++)
        if (strcmp(pl_topology_tensor(t, i)->name, name) == 0)
            return pl_topology_tensor(t, i);
    fail_msg("the topology has no tensor %s", name);
    return NULL;
}

/* ---- GGUF ---- */
static gguf_view *export_gguf(const pl_topology *t, const float *params,
                              pl_weight_type type)
{
    pl_export e = make_export(t, params);
    e.type = type;
    assert_ok(pl_export_gguf(&e, in_scratch("new/folder/path.gguf")));
    return view_gguf(in_scratch("new/folder/path.gguf"));
}

PL_TEST(gguf_keys_say_the_shape_and_where_it_comes_from)
{
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    OWNED(free_memory) float *params = make_params(t, 1);
    OWNED(close_gguf) gguf_view *g = export_gguf(t, params, PL_WEIGHT_F16);
    assert_text(g, "general.architecture", "llama");
    assert_text(g, "general.name", "small \"one\"");
    assert_text(g, "pathloom.arm", "mix");
    assert_text(g, "pathloom.module.L1.E0", "4 abc");
    assert_int_equal(u32_of(g, "general.file_type"), 1);
    assert_int_equal(u32_of(g, "general.alignment"), 32);
    assert_int_equal(u32_of(g, "llama.context_length"), 24);
    assert_int_equal(u32_of(g, "llama.embedding_length"), 32);
    assert_int_equal(u32_of(g, "llama.block_count"), 4);
    assert_int_equal(u32_of(g, "llama.feed_forward_length"), 40);
    assert_int_equal(u32_of(g, "llama.attention.head_count"), 4);
    assert_int_equal(u32_of(g, "llama.attention.head_count_kv"), 2);
    assert_int_equal(u32_of(g, "llama.attention.key_length"), 12);
    assert_int_equal(u32_of(g, "llama.rope.dimension_count"), 12);
    assert_int_equal(u32_of(g, "llama.vocab_size"), VOCAB);
    assert_true(f32_of(g, "llama.rope.freq_base") == 12345.5f);
    assert_true(f32_of(g, "llama.attention.layer_norm_rms_epsilon") == 3e-6f);
}

/* Checks the kinds of the first seven pieces, and the kind and score of the pieces that
 * follow the 256 bytes. Then come unused pieces, up to the vocabulary of the model. */
PL_TEST(gguf_holds_the_tokenizer)
{
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    OWNED(free_memory) float *params = make_params(t, 1);
    OWNED(close_gguf) gguf_view *g = export_gguf(t, params, PL_WEIGHT_F32);
    const seen_key *tokens = key_of(g, "tokenizer.ggml.tokens"),
                   *scores = key_of(g, "tokenizer.ggml.scores"),
                   *kinds = key_of(g, "tokenizer.ggml.token_type");
    assert_true(tokens->item == 8 && scores->item == 6 && kinds->item == 5);
    assert_true(tokens->n == VOCAB && scores->n == VOCAB && kinds->n == VOCAB);
    static const int first[] = {2, 3, 3, 4,
                                4, 4, 6}; /* unk, BOS, EOS, 3 symbols, byte */
    g->at = (size_t)(tokens->value - g->bytes.data);
    for (int i = 0; i < VOCAB; i++) {
        char text[64];
        int32_t kind;
        float score;
        take_text(g, text, sizeof text);
        memcpy(&kind, kinds->value + 4 * i, 4);
        memcpy(&score, scores->value + 4 * i, 4);
        if (i < 7)
            assert_int_equal(kind, first[i]);
        if (i == 1)
            assert_string_equal(text, "<s>");
        if (i == 6)
            assert_string_equal(text, "<0x00>");
        if (i >= 6 + 256 && i < PIECES)
            assert_true(kind == 1 && score == (float)-(i - 6 - 256));
        if (i >= PIECES)
            assert_true(kind == 5 && text[0] == '[');
    }
    assert_int_equal(u32_of(g, "tokenizer.ggml.bos_token_id"), 1);
    assert_int_equal(u32_of(g, "tokenizer.ggml.eos_token_id"), 2);
    assert_int_equal(*key_of(g, "tokenizer.ggml.add_bos_token")->value, 1);
    assert_int_equal(*key_of(g, "tokenizer.ggml.add_space_prefix")->value, 0);
}

/* With a head size of D, our rotary pairs (i, i + D/2) must become the neighbours (2i,
 * 2i + 1) in GGUF. */
PL_TEST(gguf_interleaves_rotary_pairs_of_q_and_k_and_nothing_else)
{
    static const struct {
        const char *gguf, *llama;
        bool turned;
    } pairs[] = {
        {"token_embd.weight", "model.embed_tokens.weight", false},
        {"output.weight", "lm_head.weight", false},
        {"output_norm.weight", "model.norm.weight", false},
        {"blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight", true},
        {"blk.3.attn_k.weight", "model.layers.3.self_attn.k_proj.weight", true},
        {"blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight", false},
        {"blk.2.attn_output.weight", "model.layers.2.self_attn.o_proj.weight", false},
        {"blk.2.ffn_gate.weight", "model.layers.2.mlp.gate_proj.weight", false},
        {"blk.2.ffn_up.weight", "model.layers.2.mlp.up_proj.weight", false},
        {"blk.2.ffn_down.weight", "model.layers.2.mlp.down_proj.weight", false},
        {"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight", false},
        {"blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight",
         false}};
    enum { D = 12 };
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    OWNED(free_memory) float *params = make_params(t, 2);
    OWNED(close_gguf) gguf_view *g = export_gguf(t, params, PL_WEIGHT_F32);
    assert_int_equal(g->n_tensors, 3 + 9 * 4);
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        const seen_tensor *there = tensor_of(g, pairs[p].gguf);
        const pl_tensor *here = ours(t, pairs[p].llama);
        size_t cols = (size_t)here->cols;
        assert_int_equal(there->dims[0], cols);
        assert_int_equal(there->n_dims == 2 ? there->dims[1] : 1, here->rows);
        for (int r = 0; r < here->rows; r++) {
            int head = r / D * D, i = r % D % (D / 2), second = r % D / (D / 2);
            int row = pairs[p].turned ? head + 2 * i + second : r;
            assert_memory_equal(there->data + (size_t)row * cols * 4,
                                params + here->offset + (size_t)r * cols, cols * 4);
        }
    }
}

/* GGUF of qwen3 has the rotary pairs (i, i + D/2), as our models do, so no row is
 * moved. D is the head size. */
PL_TEST(gguf_of_a_model_with_qk_norm_is_of_qwen3)
{
    static const char *const pairs[][2] = {
        {"blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight"},
        {"blk.3.attn_k.weight", "model.layers.3.self_attn.k_proj.weight"},
        {"blk.0.attn_q_norm.weight", "model.layers.0.self_attn.q_norm.weight"},
        {"blk.2.attn_k_norm.weight", "model.layers.2.self_attn.k_norm.weight"}};
    pl_shape shape = wide_shape;
    shape.qk_norm = true;
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&shape);
    OWNED(free_memory) float *params = make_params(t, 2);
    OWNED(close_gguf) gguf_view *g = export_gguf(t, params, PL_WEIGHT_F32);
    assert_text(g, "general.architecture", "qwen3");
    assert_int_equal(u32_of(g, "qwen3.block_count"), 4);
    assert_int_equal(u32_of(g, "qwen3.attention.key_length"), 12);
    assert_true(f32_of(g, "qwen3.attention.layer_norm_rms_epsilon") == 3e-6f);
    assert_int_equal(g->n_tensors, 3 + 11 * 4);
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        const seen_tensor *there = tensor_of(g, pairs[p][0]);
        const pl_tensor *here = ours(t, pairs[p][1]);
        const size_t n = (size_t)here->rows * (size_t)here->cols;
        assert_int_equal(there->n_dims, weight_is_vector(here) ? 1 : 2);
        assert_memory_equal(there->data, params + here->offset, n * sizeof *params);
    }
}

PL_TEST(gguf_types_are_as_asked_and_norms_stay_exact)
{
    static const uint32_t wanted[] = {0, 1, 30, 8};
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    OWNED(free_memory) float *params = make_params(t, 3);
    for (int type = 0; type < PL_WEIGHT_COUNT; type++) {
        OWNED(close_gguf) gguf_view *g = export_gguf(t, params, (pl_weight_type)type);
        const seen_tensor *norm = tensor_of(g, "blk.3.ffn_norm.weight");
        assert_int_equal(tensor_of(g, "blk.0.attn_q.weight")->type, wanted[type]);
        /* 40 columns cannot be divided into blocks of 32, so the type is f16 instead of
         * q8_0. */
        assert_int_equal(tensor_of(g, "blk.0.ffn_down.weight")->type,
                         type == PL_WEIGHT_Q8_0 ? 1 : wanted[type]);
        assert_int_equal(norm->type, 0);
        assert_memory_equal(
            norm->data,
            params + ours(t, "model.layers.3.post_attention_layernorm.weight")->offset,
            32 * 4);
    }
}

PL_TEST(q8_0_is_within_half_a_step_of_each_value)
{
    float values[96];
    OWNED(pl_buf_destroy) pl_buf out = {0};
    for (int i = 0; i < 96; i++)
        values[i] =
            i < 32 ? 0 : pl_random_normal(5, 1, (uint64_t)i) * (i < 64 ? 1 : 1e-3f);
    assert_ok(weight_encode(PL_WEIGHT_Q8_0, "t", values, 96, &out));
    assert_int_equal(out.len, 3 * Q8_0_BYTES);
    for (int b = 0; b < 3; b++) {
        const uint8_t *block = out.data + b * Q8_0_BYTES;
        float scale = half_to_float((uint16_t)(block[0] | block[1] << 8)), largest = 0;
        for (int i = 0; i < 32; i++) {
            float back = scale * (float)(int8_t)block[2 + i], was = values[32 * b + i];
            largest = fmaxf(largest, fabsf(was));
            /* The error may be half a step plus the error of rounding the scale to
             * f16. */
            assert_true(fabsf(back - was) <= 0.5f * scale + 127 * scale * 0x1p-10f);
        }
        assert_true(fabsf(127 * scale - largest) <= largest * 0x1p-10f);
    }
}

PL_TEST(values_that_a_type_cannot_hold_are_refused_with_their_tensor)
{
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    OWNED(free_memory) float *params = make_params(t, 4);
    const pl_tensor *up = ours(t, "model.layers.2.mlp.up_proj.weight");
    pl_export e = make_export(t, params);
    params[up->offset + 5] = 70000;
    e.type = PL_WEIGHT_F16;
    assert_fails(pl_export_gguf(&e, in_scratch("bad.gguf")), PL_ERR_NUMERIC,
                 "model.layers.2.mlp.up_proj.weight has the value 70000");
    assert_false(pl_path_exists(in_scratch("bad.gguf")));
    e.type = PL_WEIGHT_BF16;
    assert_ok(pl_export_gguf(&e, in_scratch("good.gguf")));
    params[up->offset + 5] = NAN;
    assert_int_equal(pl_export_folder(&e, in_scratch("bad")), PL_ERR_NUMERIC);
    assert_false(pl_path_exists(in_scratch("bad/model.safetensors")));
    e.type = PL_WEIGHT_Q8_0;
    assert_int_equal(pl_export_folder(&e, in_scratch("bad")), PL_ERR_UNSUPPORTED);
}

PL_TEST(the_same_path_gives_the_same_bytes)
{
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    OWNED(free_memory) float *params = make_params(t, 5);
    pl_export e = make_export(t, params);
    static const char *const names[] = {"model.safetensors", "config.json",
                                        "tokenizer.json", "tokenizer_config.json"};
    OWNED(pl_buf_destroy) pl_buf one = {0}, two = {0};
    assert_ok(pl_export_folder(&e, in_scratch("one")));
    assert_ok(pl_export_folder(&e, in_scratch("two")));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PL_PATH_MAX];
        assert_ok(pl_read_file(pl_join(path, in_scratch("one"), names[i]), &one));
        assert_ok(pl_read_file(pl_join(path, in_scratch("two"), names[i]), &two));
        assert_same_bytes(one, two);
    }
}

/* ---- tokenizer files ---- */
static pl_json *read_json(const char *name)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    pl_json *json = NULL;
    assert_ok(pl_read_file(in_scratch(name), &text));
    assert_ok(pl_json_parse((const char *)text.data, text.len, &json));
    return json;
}

/* A pair's rank is its place in the list `merges` of tokenizer.json. The library
 * transformers always merges the pair with the lowest rank first. The result must be
 * the tokens that SentencePiece gives. */
static int rank_of(const pl_json *merges, const char *pair)
{
    for (size_t i = 0; i < pl_json_count(merges); i++)
        if (strcmp(pl_json_text(pl_json_at(merges, i), NULL), pair) == 0)
            return (int)i;
    return INT32_MAX;
}

/* Merges the n parts of a word as transformers does. cuts[0..n-1] are the places where
 * the parts begin, and cuts[n] is the end of the word. Returns the new number of
 * parts. */
static int merge_word(const pl_json *model, const char *word, int *cuts, int n)
{
    const pl_json *merges = pl_json_get(model, "merges");
    for (;;) {
        int best = INT32_MAX, at = -1;
        for (int i = 0; i + 1 < n; i++) {
            char pair[80];
            snprintf(pair, sizeof pair, "%.*s %.*s", cuts[i + 1] - cuts[i],
                     word + cuts[i], cuts[i + 2] - cuts[i + 1], word + cuts[i + 1]);
            int rank = rank_of(merges, pair);
            if (rank < best) {
                best = rank;
                at = i;
            }
        }
        if (at < 0)
            return n;
        for (int i = at + 1; i < n; i++)
            cuts[i] = cuts[i + 1];
        n--;
    }
}

PL_TEST(tokenizer_json_merges_as_the_tokenizer_does)
{
    static const char *const words[] = {"pathloomring", "erstanbecudifo", "anstringer",
                                        "lopathfodicu"};
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    OWNED(free_memory) float *params = make_params(t, 6);
    pl_export e = make_export(t, params);
    OWNED(pl_tokenizer_destroy) pl_tokenizer *tokenizer = NULL;
    assert_ok(pl_export_folder(&e, in_scratch("merges")));
    assert_ok(pl_tokenizer_load(in_scratch("tokenizer.model"), &tokenizer));
    OWNED(pl_json_destroy) pl_json *root = read_json("merges/tokenizer.json");
    const pl_json *model = pl_json_get(root, "model"),
                  *vocab = pl_json_get(model, "vocab");
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        int cuts[33], n = (int)strlen(words[w]);
        OWNED(pl_buf_destroy) pl_buf ids = {0};
        for (int i = 0; i <= n; i++)
            cuts[i] = i;
        n = merge_word(model, words[w], cuts, n);
        assert_ok(pl_tokenizer_encode(tokenizer, words[w], strlen(words[w]), &ids));
        assert_int_equal(ids.len / sizeof(int32_t), n);
        for (int i = 0; i < n; i++) {
            int64_t id = -1;
            int32_t want;
            char part[33];
            memcpy(&want, ids.data + (size_t)i * sizeof want, sizeof want);
            snprintf(part, sizeof part, "%.*s", cuts[i + 1] - cuts[i],
                     words[w] + cuts[i]);
            assert_true(pl_json_int(pl_json_get(vocab, part), &id));
            assert_int_equal(id, want);
        }
    }
}

/* Other programs would misread a tokenizer whose algorithm is unigram (field 3 of the
 * trainer is 1). So it is exported under a different name, and GGUF is refused. */
PL_TEST(a_tokenizer_that_others_would_misread_is_kept_under_another_name)
{
    static const uint8_t trainer[] = {0x12, 2, 0x18, 1};
    OWNED(pl_topology_destroy) pl_topology *t = make_topology(&wide_shape);
    OWNED(free_memory) float *params = make_params(t, 8);
    pl_export e = make_export(t, params);
    OWNED(pl_buf_destroy) pl_buf model = {0};
    pl_buf_append(&model, tokenizer_model.data, tokenizer_model.len);
    /* If a field occurs twice, the later one counts. */
    pl_buf_append(&model, trainer, sizeof trainer);
    e.tokenizer_model = model.data;
    e.tokenizer_bytes = model.len;
    assert_ok(pl_export_folder(&e, in_scratch("unigram")));
    assert_true(pl_path_exists(in_scratch("unigram/sentencepiece.model")));
    assert_false(pl_path_exists(in_scratch("unigram/tokenizer.model")));
    assert_false(pl_path_exists(in_scratch("unigram/tokenizer.json")));
    assert_fails(pl_export_gguf(&e, in_scratch("unigram.gguf")), PL_ERR_UNSUPPORTED,
                 "--format safetensors");
}

PL_TEST(a_damaged_tokenizer_is_refused_or_read_within_its_bytes)
{
    piece_list list;
    assert_ok(piece_list_read(tokenizer_model.data, tokenizer_model.len, &list));
    assert_int_equal(list.n, PIECES);
    assert_true(list.bpe && list.exact && list.byte_fallback && !list.blank_first);
    piece_list_clear(&list);
    for (uint64_t round = 0; round < 3000; round++) {
        size_t len = round % 3 ? tokenizer_model.len
                               : pl_random_u32(2, round, 0) % tokenizer_model.len;
        uint8_t *block = malloc(len + 1);
        assert_non_null(block);
        memcpy(block, tokenizer_model.data, len);
        for (uint32_t i = 0; len > 0 && i < 1 + round % 4; i++)
            block[pl_random_u32(2, round, 1 + i) % len] =
                (uint8_t)pl_random_u32(2, round, 9 + i);
        OWNED(free_memory) uint8_t *exact = realloc(block, len ? len : 1);
        if (piece_list_read(exact, len, &list) == PL_OK)
            for (size_t i = 0; i < list.n; i++)
                assert_true((const uint8_t *)list.pieces[i].text >= exact &&
                            (const uint8_t *)list.pieces[i].text + list.pieces[i].len <=
                                exact + len);
        piece_list_clear(&list);
    }
}

PL_SUITE(open_exchange, close_exchange)
