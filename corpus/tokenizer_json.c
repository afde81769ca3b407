/* Turns tokenizer.json into a SentencePiece model (tokenizer_json.h).
 *
 * SentencePiece merges the two neighbouring pieces whose joined text is the piece with
 * the best score; it has no list of merges. tokenizer.json has an ordered list of
 * merges. The two agree if the list has every pair of pieces whose joined text is a
 * piece, and all pairs that make the same piece follow each other. Then the order in
 * which pieces are made gives their scores. A list with gaps is refused, because
 * SentencePiece would merge pairs that are not in it. */
#include "corpus/tokenizer_json.h"
#include <string.h>

#define BLANK "\xe2\x96\x81" /* U+2581 */

enum { PIECES_MAX = 1 << 22, PIECE_BYTES_MAX = 1024, MODEL_BPE = 2 };
/* the numbers of kinds in a SentencePiece model */
enum {
    KIND_NORMAL = 1,
    KIND_UNKNOWN = 2,
    KIND_CONTROL = 3,
    KIND_USER = 4,
    KIND_BYTE = 6
};

typedef struct json_piece {
    const char *text; /* borrowed from the file's JSON; NULL: not yet read */
    int kind, rank;   /* rank: place in the order in which pieces are made; -1: none */
    uint32_t n_pairs; /* merges that make this piece */
} json_piece;

typedef struct json_tokenizer {
    const pl_json *root, *vocab, *merges;
    json_piece *pieces;
    size_t n;
    bool bytes, blank_first, replaces_blanks;
} json_tokenizer;

static pl_status other_kind(const char *what)
{
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "%s; only tokenizers of SentencePiece's BPE kind, as Llama 2 and "
                   "Mistral have, can be used",
                   what);
}

static bool is_type(const pl_json *value, const char *type)
{
    return strcmp(pl_json_get_text(value, "type"), type) == 0;
}

/* ---- how a text is prepared ---- */
/* Reads a normalizer or a pre-tokenizer: null, one step, or a list of steps. */
static pl_status take_steps(json_tokenizer *t, const char *name, const char *list_name)
{
    const pl_json *value = pl_json_get(t->root, name);
    const pl_json *list = pl_json_get(value, list_name);
    if (!pl_json_is_object(value))
        return PL_OK;
    const bool is_list = is_type(value, "Sequence");
    const size_t n_steps = is_list ? pl_json_count(list) : 1;
    for (size_t i = 0; i < n_steps; i++) {
        const pl_json *step = is_list ? pl_json_at(list, i) : value;
        const pl_json *pattern = pl_json_get(step, "pattern");
        if (is_type(step, "Prepend") &&
            strcmp(pl_json_get_text(step, "prepend"), BLANK) == 0) {
            t->blank_first = true;
        } else if (is_type(step, "Replace") &&
                   strcmp(pl_json_get_text(pattern, "String"), " ") == 0 &&
                   strcmp(pl_json_get_text(step, "content"), BLANK) == 0) {
            t->replaces_blanks = true;
        } else if (is_type(step, "Metaspace") && !pl_json_get_bool(step, "split") &&
                   pl_json_get(step, "split") &&
                   strcmp(pl_json_get_text(step, "replacement"), BLANK) == 0) {
            t->replaces_blanks = true;
            t->blank_first =
                strcmp(pl_json_get_text(step, "prepend_scheme"), "never") != 0;
        } else {
            return other_kind(is_type(step, "ByteLevel") || is_type(step, "Split")
                                  ? "it is byte-level BPE, as GPT-2, Llama 3 and Qwen "
                                    "have"
                              : pl_json_get_text(step, "type")[0]
                                  ? "it prepares text in an unknown way"
                                  : "a step of its normalizer has no `type`");
        }
    }
    return PL_OK;
}

/* ---- pieces ---- */
static pl_status number_piece(json_tokenizer *t, const char *text,
                              const pl_json *number, int kind)
{
    int64_t id = -1;
    if (!pl_json_int(number, &id) || id < 0 || id >= (int64_t)t->n)
        return pl_fail(PL_ERR_DATA,
                       "piece `%.64s` has no number from 0 to %zu; the numbers of a "
                       "tokenizer must have no gaps",
                       text, t->n - 1);
    json_piece *piece = &t->pieces[id];
    if (piece->text && strcmp(piece->text, text) != 0)
        return pl_fail(PL_ERR_DATA,
                       "the pieces `%.64s` and `%.64s` have the same number",
                       piece->text, text);
    if (!text[0] || strlen(text) > PIECE_BYTES_MAX)
        return pl_fail(PL_ERR_DATA, "piece %lld has %zu bytes, not 1 to %d",
                       (long long)id, strlen(text), PIECE_BYTES_MAX);
    *piece = (json_piece){.text = text, .kind = kind, .rank = -1};
    return PL_OK;
}

static pl_status read_pieces(json_tokenizer *t)
{
    static const char digits[] = "0123456789ABCDEF";
    const pl_json *added = pl_json_get(t->root, "added_tokens");
    for (const char *key = NULL; (key = pl_json_next_key(t->vocab, key));)
        t->n++;
    for (size_t i = 0; i < pl_json_count(added); i++)
        t->n +=
            !pl_json_get(t->vocab, pl_json_get_text(pl_json_at(added, i), "content"));
    if (t->n < 4 || t->n > PIECES_MAX)
        return pl_fail(PL_ERR_DATA, "it has %zu pieces, not 4 to %d", t->n, PIECES_MAX);
    t->pieces = pl_alloc(t->n * sizeof *t->pieces);
    for (const char *key = NULL; (key = pl_json_next_key(t->vocab, key));) {
        /* a piece such as <0x41> stands for a byte */
        const bool is_byte = t->bytes && strlen(key) == 6 &&
                             pl_starts_with(key, "<0x") && key[5] == '>' &&
                             strchr(digits, key[3]) && strchr(digits, key[4]);
        PL_CHECK(number_piece(t, key, pl_json_get(t->vocab, key),
                              is_byte ? KIND_BYTE : KIND_NORMAL));
    }
    for (size_t i = 0; i < pl_json_count(added); i++) {
        const pl_json *token = pl_json_at(added, i);
        PL_CHECK(number_piece(
            t, pl_json_get_text(token, "content"), pl_json_get(token, "id"),
            pl_json_get_bool(token, "special") ? KIND_CONTROL : KIND_USER));
    }
    for (size_t i = 0; i < t->n; i++)
        if (!t->pieces[i].text) /* a piece that is not in `vocab` was named twice */
            return pl_fail(PL_ERR_DATA,
                           "no piece has the number %zu; the numbers of a tokenizer "
                           "must have no gaps",
                           i);
    const char *unknown = pl_json_get_text(pl_json_get(t->root, "model"), "unk_token");
    if (strcmp(t->pieces[0].text, unknown) != 0 || t->pieces[1].kind != KIND_CONTROL ||
        t->pieces[2].kind != KIND_CONTROL)
        return pl_fail(
            PL_ERR_UNSUPPORTED,
            "its tokens 0, 1 and 2 are `%.32s`, `%.32s` and `%.32s`, but they "
            "must be unknown, BOS and EOS",
            t->pieces[0].text, t->pieces[1].text, t->pieces[2].text);
    t->pieces[0].kind = KIND_UNKNOWN;
    return PL_OK;
}

/* ---- merges ---- */
static json_piece *find_normal(const json_tokenizer *t, const char *text)
{
    int64_t id = -1;
    if (!pl_json_int(pl_json_get(t->vocab, text), &id) ||
        t->pieces[id].kind != KIND_NORMAL)
        return NULL;
    return &t->pieces[id];
}

/* A merge is a text "left right" or, in newer files, a list of two texts. Appends the
 * joined text; returns the length of its left part, or 0 if it is not a merge. */
static size_t join_merge(const pl_json *merge, pl_buf *out)
{
    const char *both = pl_json_text(merge, NULL), *left, *right;
    const char *blank = both ? strchr(both, ' ') : NULL;
    if (both && (!blank || blank == both || !blank[1]))
        return 0;
    left = both ? both : pl_json_text(pl_json_at(merge, 0), NULL);
    right = both ? blank + 1 : pl_json_text(pl_json_at(merge, 1), NULL);
    if (!left || !right)
        return 0;
    const size_t len = both ? (size_t)(blank - both) : strlen(left);
    pl_buf_append(out, left, len);
    pl_buf_append(out, right, strlen(right));
    return len;
}

static pl_status read_merges(json_tokenizer *t)
{
    pl_buf text = {0};
    pl_status status = PL_OK;
    json_piece *last = NULL;
    int rank = 0;
    for (size_t i = 0; i < pl_json_count(t->merges); i++) {
        pl_buf_clear(&text);
        if (join_merge(pl_json_at(t->merges, i), &text) == 0)
            PL_TRY(pl_fail(PL_ERR_DATA, "merge %zu does not have two pieces", i));
        json_piece *made = find_normal(t, pl_buf_text(&text));
        if (!made)
            continue; /* it makes a piece that is cut out before texts are merged */
        if (made != last && made->rank >= 0)
            PL_TRY(other_kind("its merges are not in the order of the pieces that they "
                              "make"));
        made->rank = made == last ? made->rank : rank++;
        made->n_pairs++;
        last = made;
    }
    for (size_t i = 0; i < t->n; i++) {
        json_piece *p = &t->pieces[i];
        if (p->kind != KIND_NORMAL)
            continue;
        pl_buf_clear(&text);
        pl_buf_reserve(&text, strlen(p->text) + 1);
        /* n: the pairs of pieces whose joined text is this piece */
        char *left = (char *)text.data;
        uint32_t n = 0;
        strcpy(left, p->text);
        for (size_t at = 1; p->text[at]; at++) {
            if (((uint8_t)p->text[at] & 0xc0) == 0x80)
                continue; /* inside a character */
            left[at] = '\0';
            n += find_normal(t, left) && find_normal(t, p->text + at);
            left[at] = p->text[at];
        }
        if (n != p->n_pairs)
            PL_TRY(other_kind("its list of merges lacks pairs that SentencePiece would "
                              "merge"));
        /* pieces that nothing makes are single characters */
        p->rank = p->rank >= 0 ? p->rank : rank++;
    }
done:
    pl_buf_destroy(&text);
    return status;
}

/* ---- the SentencePiece model: a protobuf message (serve/piece_list.h) ---- */
static void put_varint(pl_buf *out, uint64_t value)
{
    uint8_t byte;
    do {
        byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        pl_buf_append(out, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void put_number(pl_buf *out, unsigned field, uint64_t value)
{
    put_varint(out, field << 3);
    put_varint(out, value);
}

static void put_bytes(pl_buf *out, unsigned field, const void *data, size_t len)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, len);
    pl_buf_append(out, data, len);
}

static void write_model(const json_tokenizer *t, pl_buf *out)
{
    static const unsigned name_fields[] = {45, 46, 47}; /* unknown, BOS, EOS */
    pl_buf part = {0};
    for (size_t i = 0; i < t->n; i++) {
        const json_piece *p = &t->pieces[i];
        const float score = p->kind == KIND_NORMAL ? -(float)p->rank : 0;
        uint32_t bits;
        uint8_t fixed[5] = {2 << 3 | 5};
        memcpy(&bits, &score, sizeof bits);
        pl_le_put(fixed + 1, bits, sizeof bits);
        pl_buf_clear(&part);
        put_bytes(&part, 1, p->text, strlen(p->text));
        pl_buf_append(&part, fixed, sizeof fixed);
        put_number(&part, 3, (uint64_t)p->kind);
        put_bytes(out, 1, part.data, part.len);
    }
    pl_buf_clear(&part);
    put_number(&part, 3, MODEL_BPE);
    put_number(&part, 35, t->bytes);
    for (size_t i = 0; i < 3; i++)
        put_bytes(&part, name_fields[i], t->pieces[i].text, strlen(t->pieces[i].text));
    put_bytes(out, 2, part.data, part.len);
    pl_buf_clear(&part);
    put_bytes(&part, 1, "identity", strlen("identity"));
    put_number(&part, 3, t->blank_first);
    put_number(&part, 4, 0); /* repeated blanks stay */
    put_number(&part, 5, 1); /* blanks become U+2581 */
    put_bytes(out, 3, part.data, part.len);
    pl_buf_destroy(&part);
}

pl_status tokenizer_json_read(const char *text, size_t len, pl_buf *model)
{
    json_tokenizer t = {.root = NULL};
    pl_json *root = NULL;
    pl_status status = PL_OK;
    if (pl_json_parse(text, len, &root) != PL_OK)
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "it is neither a SentencePiece model nor a tokenizer.json: %s",
                       pl_last_error()));
    const pl_json *bpe = pl_json_get(root, "model");
    t.root = root;
    t.vocab = pl_json_get(bpe, "vocab");
    t.merges = pl_json_get(bpe, "merges");
    t.bytes = pl_json_get_bool(bpe, "byte_fallback");
    if (!pl_json_is_object(bpe))
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "it is neither a SentencePiece model nor a tokenizer.json: it "
                       "has no `model`"));
    if (!is_type(bpe, "BPE") || !pl_json_is_object(t.vocab) ||
        !pl_json_is_array(t.merges))
        PL_TRY(other_kind(is_type(bpe, "Unigram")     ? "its model is Unigram"
                          : is_type(bpe, "WordPiece") ? "its model is WordPiece"
                                                      : "its model is not BPE"));
    if (pl_json_get_bool(bpe, "ignore_merges"))
        PL_TRY(other_kind("it ignores its merges for whole words"));
    PL_TRY(take_steps(&t, "normalizer", "normalizers"));
    PL_TRY(take_steps(&t, "pre_tokenizer", "pretokenizers"));
    if (!t.replaces_blanks)
        PL_TRY(other_kind("no step makes U+2581 of blanks"));
    if (pl_json_get_text(bpe, "end_of_word_suffix")[0] ||
        pl_json_get_text(bpe, "continuing_subword_prefix")[0])
        PL_TRY(other_kind("its pieces have an end_of_word_suffix or a "
                          "continuing_subword_prefix"));
    PL_TRY(read_pieces(&t));
    PL_TRY(read_merges(&t));
    write_model(&t, model);
done:
    pl_free(t.pieces);
    pl_json_destroy(&root);
    return status;
}
