/* Writes one path as a Hugging Face folder. */
#include "serve/llama_config.h"
#include "serve/piece_list.h"
#include "serve/weights.h"
#include "corpus/corpus.h"
#include <stdlib.h>

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

/* ---- tokenizer.json ----
 * The file describes SentencePiece's BPE as a pipeline: blanks become U+2581, special
 * symbols are cut out, then pairs of pieces are merged. The pair that makes the piece
 * with the best score is merged first.
 *
 * SentencePiece's model has no list of merges: any two pieces may be merged if their
 * joined text is a piece. So tokenizer.json lists all these pairs, ordered by the score
 * of the piece that they make, then by the numbers of the two pieces. */
#define BLANK "\xe2\x96\x81" /* U+2581 */

static pl_json *piece_text_json(const token_piece *p)
{
    return pl_json_make_bytes(p->text, strnlen(p->text, p->len));
}

static bool is_special(const token_piece *p)
{
    return p->kind == PIECE_CONTROL || p->kind == PIECE_UNKNOWN;
}

typedef struct merge {
    int32_t left, right;
    float score;
} merge;

static int by_rank(const void *a, const void *b)
{
    const merge *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

static int32_t find_piece(const pl_name_table *table, const char *text, size_t len,
                          pl_buf *name)
{
    pl_buf_clear(name);
    pl_buf_append(name, text, len);
    return pl_name_table_get(table, pl_buf_text(name));
}

static pl_json *merges_of(const piece_list *list)
{
    pl_name_table *table = pl_name_table_create(); /* numbers of the normal pieces */
    merge *merges = NULL;
    size_t n = 0;
    pl_buf text = {0};
    pl_json *out = pl_json_array();
    for (size_t i = 0; i < list->n; i++) {
        pl_buf_clear(&text);
        pl_buf_append(&text, list->pieces[i].text, list->pieces[i].len);
        if (list->pieces[i].kind == PIECE_NORMAL &&
            strlen(pl_buf_text(&text)) == text.len)
            pl_name_table_put(table, pl_buf_text(&text), (int)i);
    }
    for (size_t i = 0; i < list->n; i++) {
        /* adds all pairs of pieces whose joined text is a piece */
        const token_piece *p = &list->pieces[i];
        for (size_t at = 1; p->kind == PIECE_NORMAL && at < p->len; at++) {
            if (((uint8_t)p->text[at] & 0xc0) == 0x80)
                continue; /* this position is inside a character */
            const int32_t left = find_piece(table, p->text, at, &text),
                          right = left < 0 ? -1
                                           : find_piece(table, p->text + at,
                                                        p->len - at, &text);
            if (right < 0)
                continue;
            merges = pl_grow_items(merges, n, n + 1, sizeof *merges);
            merges[n++] = (merge){left, right, p->score};
        }
    }
    if (n > 0)
        qsort(merges, n, sizeof *merges, by_rank);
    for (size_t i = 0; i < n; i++) {
        const token_piece *left = &list->pieces[merges[i].left],
                          *right = &list->pieces[merges[i].right];
        pl_buf_clear(&text);
        pl_buf_printf(&text, "%.*s %.*s", (int)left->len, left->text, (int)right->len,
                      right->text);
        pl_json_push(out, pl_json_make_text(pl_buf_text(&text)));
    }
    pl_buf_destroy(&text);
    pl_name_table_destroy(&table);
    pl_free(merges);
    return out;
}

static pl_json *typed(const char *type)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "type", type);
    return o;
}

static pl_json *make_replace_rule(const char *from, const char *to)
{
    pl_json *o = typed("Replace"), *pattern = pl_json_object();
    pl_json_set_text(pattern, "String", from);
    pl_json_set(o, "pattern", pattern);
    pl_json_set_text(o, "content", to);
    return o;
}

static pl_json *template_step(const char *kind, const char *id)
{
    pl_json *o = pl_json_object(), *inner = pl_json_object();
    pl_json_set_text(inner, "id", id);
    pl_json_set_int(inner, "type_id", 0);
    pl_json_set(o, kind, inner);
    return o;
}

static pl_json *template_steps(const char *bos, const char *const *texts, int n)
{
    pl_json *out = pl_json_array();
    for (int i = 0; i < n; i++) {
        pl_json_push(out, template_step("SpecialToken", bos));
        pl_json_push(out, template_step("Sequence", texts[i]));
    }
    return out;
}

/* BOS comes before every text. */
static pl_json *post_processor(const piece_list *list)
{
    static const char *const texts[] = {"A", "B"};
    pl_json *o = typed("TemplateProcessing"), *known = pl_json_object(),
            *entry = pl_json_object(),
            *bos = piece_text_json(&list->pieces[PL_TOKEN_BOS]);
    const char *name = pl_json_text(bos, NULL);
    pl_json_set_text(entry, "id", name);
    pl_json_set(entry, "ids", pl_json_list(pl_json_make_int(PL_TOKEN_BOS)));
    pl_json_set(entry, "tokens",
                pl_json_list(piece_text_json(&list->pieces[PL_TOKEN_BOS])));
    pl_json_set(known, name, entry);
    pl_json_set(o, "single", template_steps(name, texts, 1));
    pl_json_set(o, "pair", template_steps(name, texts, 2));
    pl_json_set(o, "special_tokens", known);
    pl_json_destroy(&bos);
    return o;
}

static pl_json *bpe(const piece_list *list)
{
    pl_json *o = typed("BPE"), *unknown = piece_text_json(&list->pieces[PL_TOKEN_UNK]);
    pl_json *vocabulary = pl_json_object();
    for (size_t i = 0; i < list->n; i++) {
        pl_json *text = piece_text_json(&list->pieces[i]);
        pl_json_set_int(vocabulary, pl_json_text(text, NULL), (int64_t)i);
        pl_json_destroy(&text);
    }
    pl_json_set(o, "unk_token", unknown);
    pl_json_set_bool(o, "fuse_unk", true);
    pl_json_set_bool(o, "byte_fallback", true);
    pl_json_set_bool(o, "ignore_merges", false);
    pl_json_set(o, "vocab", vocabulary);
    pl_json_set(o, "merges", merges_of(list));
    return o;
}

/* The tokenizer must be BPE over unchanged text, with byte fallback. */
static pl_json *make_tokenizer(const piece_list *list)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "version", "1.0");
    pl_json *added = pl_json_array();
    for (size_t i = 0; i < list->n; i++) {
        const token_piece *p = &list->pieces[i];
        if (!is_special(p) && p->kind != PIECE_USER)
            continue;
        pl_json *token = pl_json_object();
        pl_json_set_int(token, "id", (int64_t)i);
        pl_json_set(token, "content", piece_text_json(p));
        pl_json_set_bool(token, "single_word", false);
        pl_json_set_bool(token, "lstrip", false);
        pl_json_set_bool(token, "rstrip", false);
        pl_json_set_bool(token, "normalized", false);
        pl_json_set_bool(token, "special", is_special(p));
        pl_json_push(added, token);
    }
    pl_json_set(o, "added_tokens", added);
    pl_json *normalizer = typed("Sequence"), *steps = pl_json_array();
    if (list->blank_first) {
        pl_json *prepend = typed("Prepend");
        pl_json_set_text(prepend, "prepend", BLANK);
        pl_json_push(steps, prepend);
    }
    pl_json_push(steps, make_replace_rule(" ", BLANK));
    pl_json_set(normalizer, "normalizers", steps);
    pl_json_set(o, "normalizer", normalizer);
    pl_json_set(o, "post_processor", post_processor(list));
    pl_json *decoder = typed("Sequence");
    steps = pl_json_list(make_replace_rule(BLANK, " "), typed("ByteFallback"),
                         typed("Fuse"));
    if (list->blank_first) {
        pl_json *strip = typed("Strip");
        pl_json_set_text(strip, "content", " ");
        pl_json_set_int(strip, "start", 1);
        pl_json_set_int(strip, "stop", 0);
        pl_json_push(steps, strip);
    }
    pl_json_set(decoder, "decoders", steps);
    pl_json_set(o, "decoder", decoder);
    pl_json_set(o, "model", bpe(list));
    return o;
}

static void set_special_tokens(const piece_list *list, pl_json *o)
{
    pl_json_set(o, "bos_token", piece_text_json(&list->pieces[PL_TOKEN_BOS]));
    pl_json_set(o, "eos_token", piece_text_json(&list->pieces[PL_TOKEN_EOS]));
    pl_json_set(o, "unk_token", piece_text_json(&list->pieces[PL_TOKEN_UNK]));
}

/* ---- the folder ---- */
static pl_status put_json(const char *folder, const char *name, pl_json *json)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_json_write(json, 2, &text);
    pl_buf_printf(&text, "\n");
    pl_json_destroy(&json);
    pl_status status =
        pl_write_output(pl_join(path, folder, name), text.data, text.len);
    pl_buf_destroy(&text);
    return status;
}

pl_status pl_export_folder(const pl_export *e, const char *folder)
{
    char path[PL_PATH_MAX];
    const pl_shape *shape = pl_topology_shape(e->topology);
    piece_list list = {0};
    pl_json *o;
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
    const char *model = plain ? "tokenizer.model" : "sentencepiece.model";
    PL_TRY(pl_write_output(pl_join(path, folder, model), e->tokenizer_model,
                           e->tokenizer_bytes));
    if (plain) {
        PL_TRY(put_json(folder, "tokenizer.json", make_tokenizer(&list)));
        /* `tokenizer_class` is the class of transformers that uses tokenizer.json
         * unchanged. The class named after Llama would build a different pipeline. */
        o = pl_json_object();
        pl_json_set_bool(o, "add_bos_token", true);
        pl_json_set_bool(o, "add_eos_token", false);
        pl_json_set_bool(o, "add_prefix_space", list.blank_first);
        pl_json_set_bool(o, "clean_up_tokenization_spaces", false);
        pl_json_set_bool(o, "legacy", false);
        pl_json_set(o, "model_input_names",
                    pl_json_list(pl_json_make_text("input_ids"),
                                 pl_json_make_text("attention_mask")));
        pl_json_set_int(o, "model_max_length", shape->context);
        set_special_tokens(&list, o);
        pl_json_set_text(o, "tokenizer_class", "PreTrainedTokenizerFast");
        PL_TRY(put_json(folder, "tokenizer_config.json", o));
        o = pl_json_object();
        set_special_tokens(&list, o);
        PL_TRY(put_json(folder, "special_tokens_map.json", o));
    }
    o = pl_json_object();
    pl_json_set_int(o, "bos_token_id", 1);
    pl_json_set_int(o, "eos_token_id", 2);
    PL_TRY(put_json(folder, "generation_config.json", o));
    PL_TRY(put_json(folder, "config.json",
                    llama_config_json(shape, torch_dtypes[e->type])));
done:
    piece_list_clear(&list);
    return status;
}
