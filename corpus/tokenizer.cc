/* Uses SentencePiece, which is a C++ library; no other file includes it.
 *
 * The library encodes texts, but this file decodes tokens itself, with a table of the
 * bytes of each piece. The reason is that the library marks blanks by U+2581, and its
 * decoder turns every U+2581 into a blank, even if the original text contained
 * U+2581. */
#include "corpus/tokenizer.h"
#include "corpus/tokenizer_json.h"
#include <memory>
#include <cstdio>
#include <new>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace
{

/* U+2581, the mark for a blank in a piece */
constexpr std::string_view kBlank = "\xe2\x96\x81";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr size_t kEncodeBlock = 1 << 16; /* a limit for the library's working memory */

/* Gives the library a text of one blank, then the blocks. A blank must be in the
 * alphabet, or texts with blanks could not be decoded. But the library ends the process
 * if a required character does not occur in the texts, so the first text has it. */
class BlockIterator : public sentencepiece::SentenceIterator
{
  public:
    BlockIterator(const text_block *blocks, size_t n) : blocks_(blocks), n_(n)
    {
    }
    bool done() const override
    {
        return at_end_;
    }
    void Next() override
    {
        if (i_ < n_)
            value_.assign(blocks_[i_].text, blocks_[i_].len);
        at_end_ = i_++ >= n_;
    }
    const std::string &value() const override
    {
        return value_;
    }
    sentencepiece::util::Status status() const override
    {
        return sentencepiece::util::Status();
    }

  private:
    const text_block *blocks_;
    size_t n_, i_ = 0;
    bool at_end_ = false;
    std::string value_ = " ";
};

/* C callers cannot handle exceptions, so exceptions become statuses here. */
template <typename Body> pl_status guarded(const char *what, Body body)
{
    try {
        return body();
    } catch (const std::bad_alloc &) {
        return pl_fail(PL_ERR_NOMEM, "%s: there is not enough memory", what);
    } catch (const std::exception &error) {
        return pl_fail(PL_ERR_INTERNAL, "%s: %s", what, error.what());
    }
}

/* A newline, a pair of newlines, and a tab are separate symbols. */
sentencepiece::util::Status train_once(const text_block *blocks, size_t n, int vocab,
                                       const char *coverage, std::string *model)
{
    BlockIterator iterator(blocks, n);
    const std::unordered_map<std::string, std::string> options = {
        {"model_type", "bpe"},
        {"vocab_size", std::to_string(vocab)},
        {"character_coverage", coverage},
        {"required_chars", std::string(kBlank)},
        {"byte_fallback", "true"},
        {"normalization_rule_name", "identity"},
        {"remove_extra_whitespaces", "false"},
        {"add_dummy_prefix", "false"},
        {"split_digits", "true"},
        {"allow_whitespace_only_pieces", "true"},
        /* this program itself reports a vocabulary that is too large */
        {"hard_vocab_limit", "false"},
        {"unk_id", "0"},
        {"bos_id", "1"},
        {"eos_id", "2"},
        {"pad_id", "-1"},
        {"user_defined_symbols", "\n,\n\n,\t"},
        {"num_threads", "1"},
        {"max_sentence_length", "4192"},
        {"minloglevel", "4"}};
    return sentencepiece::SentencePieceTrainer::Train(options, &iterator, model);
}

/* Trains a model. A script with thousands of characters does not fit into a small
 * vocabulary. In this case only frequent characters get pieces, and all other
 * characters are encoded as bytes. */
pl_status train(const text_block *blocks, size_t n, int vocab, std::string *model)
{
    static const char *const coverages[] = {"0.9995", "0.999", "0.995", "0.99", "0.98"};
    /* the bytes, then unknown, BOS, EOS, newlines and tab */
    constexpr int kSymbols = 256 + 6;
    std::string message;
    int needed = vocab > kSymbols ? 0 : kSymbols + 1;
    for (const char *coverage : coverages) {
        model->clear();
        auto result = train_once(blocks, n, vocab, coverage, model);
        if (result.ok())
            return PL_OK;
        message = result.ToString();
        /* If the vocabulary is too small even for the characters of the text, the
         * library's message contains "... required_chars. 300 vs 355. ...". */
        static const char words[] = "smaller than required_chars. ";
        int given = 0, required = 0;
        size_t at = message.find(words);
        if (at == std::string::npos ||
            std::sscanf(message.c_str() + at + sizeof words - 1, "%d vs %d", &given,
                        &required) != 2 ||
            required == 0)
            break;
        needed = required;
    }
    if (needed > 0)
        return pl_fail(PL_ERR_DATA,
                       "data.vocab %d is too small: 256 bytes, 6 symbols and the "
                       "characters of this text need at least %d",
                       vocab, needed);
    return pl_fail(PL_ERR_DATA, "no tokenizer can be trained on this text: %.400s",
                   message.c_str());
}

} // namespace

struct pl_tokenizer {
    sentencepiece::SentencePieceProcessor processor;
    std::vector<std::string> bytes; /* for each token, its bytes */
    /* the 256 tokens of bytes; empty if the model has no byte fallback */
    std::vector<int32_t> byte_ids;
    bool exact = false;       /* whether decode(encode(text)) == text; see probe() */
    bool blank_first = false; /* whether a blank is put before each text */
};

namespace
{

/* Fills the tables with the bytes of each token and the token of each byte. The unknown
 * token is decoded as U+FFFD; models that this program trained never produce it. */
void fill_tables(pl_tokenizer *tokenizer)
{
    const auto &processor = tokenizer->processor;
    int vocab = processor.GetPieceSize(), n_bytes = 0;
    tokenizer->bytes.resize(static_cast<size_t>(vocab));
    tokenizer->byte_ids.assign(256, -1);
    for (int id = 0; id < vocab; id++) {
        std::string &bytes = tokenizer->bytes[static_cast<size_t>(id)];
        const std::string &piece = processor.IdToPiece(id);
        unsigned byte = 0; /* the piece "<0x41>" stands for the byte 0x41 */
        if (processor.IsByte(id) && piece.size() == 6 &&
            std::sscanf(piece.c_str(), "<0x%2X>", &byte) == 1 && byte <= 0xff) {
            bytes.assign(1, static_cast<char>(byte));
            n_bytes += tokenizer->byte_ids[byte] < 0;
            tokenizer->byte_ids[byte] = id;
        } else if (processor.IsUnknown(id)) {
            bytes = kReplacement;
        } else if (!processor.IsControl(id)) {
            /* the text of the piece, with blanks for its blank marks */
            for (size_t at = 0; at < piece.size();) {
                bool blank = piece.compare(at, kBlank.size(), kBlank) == 0;
                bytes += blank ? ' ' : piece[at];
                at += blank ? kBlank.size() : 1;
            }
        }
    }
    if (n_bytes != 256)
        tokenizer->byte_ids.clear();
}

pl_status encode_block(const pl_tokenizer *tokenizer, std::string_view text,
                       pl_buf *out)
{
    static_assert(sizeof(int) == sizeof(int32_t), "ids are appended as they are");
    std::vector<int> ids;
    auto result =
        tokenizer->processor.Encode(absl::string_view(text.data(), text.size()), &ids);
    if (!result.ok())
        return pl_fail(PL_ERR_INTERNAL, "tokenising %zu bytes failed: %.400s",
                       text.size(), result.ToString().c_str());
    pl_buf_append(out, ids.data(), ids.size() * sizeof(int));
    return PL_OK;
}

/* Encodes a text that contains the blank mark itself. The mark is encoded as its three
 * bytes, because otherwise it would be decoded as a blank. */
pl_status encode_marked(const pl_tokenizer *tokenizer, std::string_view text,
                        pl_buf *out)
{
    for (;;) {
        size_t mark = text.find(kBlank);
        if (mark > 0)
            PL_CHECK(encode_block(tokenizer, text.substr(0, mark), out));
        if (mark == std::string_view::npos)
            return PL_OK;
        for (char byte : kBlank)
            pl_buf_append(out, &tokenizer->byte_ids[static_cast<unsigned char>(byte)],
                          sizeof(int32_t));
        text.remove_prefix(mark + kBlank.size());
        if (text.empty())
            return PL_OK;
    }
}

/* Tests whether decoding gives exactly the text that was encoded. A model that this
 * program did not train may put a blank before the text, or normalise it. Such a model
 * gets each text as a whole, not in blocks, and decoding gives the text as the model
 * has changed it. */
pl_status probe(pl_tokenizer *tokenizer)
{
    const auto give_back = [&](std::string_view text, std::string *out) {
        pl_buf ids = {}, back = {};
        pl_status status = encode_block(tokenizer, text, &ids);
        if (status == PL_OK)
            status =
                pl_tokenizer_decode(tokenizer, reinterpret_cast<int32_t *>(ids.data),
                                    ids.len / sizeof(int32_t), &back);
        out->assign(reinterpret_cast<char *>(back.data), back.len);
        pl_buf_destroy(&ids);
        pl_buf_destroy(&back);
        return status;
    };
    const std::string_view text = "a  b\n c";
    std::string back;
    PL_CHECK(give_back(text, &back));
    tokenizer->exact = !tokenizer->byte_ids.empty() && back == text;
    PL_CHECK(give_back("a", &back));
    tokenizer->blank_first = !back.empty() && back[0] == ' ';
    return PL_OK;
}

} // namespace

pl_status sentencepiece_train(const text_block *blocks, size_t n_blocks, int vocab,
                              pl_buf *model)
{
    return guarded("training the tokenizer", [&] {
        /* The model may have fewer pieces than requested, because the text does not
         * contain more. In that case the user is told the number of pieces. */
        std::string bytes;
        PL_CHECK(train(blocks, n_blocks, vocab, &bytes));
        sentencepiece::SentencePieceProcessor processor;
        auto result = processor.LoadFromSerializedProto(bytes);
        int pieces = result.ok() ? processor.GetPieceSize() : 0;
        if (pieces != vocab)
            return pl_fail(PL_ERR_DATA,
                           "data.vocab %d is too large for this text, which gives at "
                           "most %d pieces: set data.vocab to %d or less, or add text",
                           vocab, pieces, pieces);
        pl_buf_append(model, bytes.data(), bytes.size());
        return PL_OK;
    });
}

pl_status pl_tokenizer_load_bytes(const void *data, size_t len, pl_tokenizer **out)
{
    *out = nullptr;
    return guarded("loading the tokenizer", [&] {
        /* This pointer also frees the object if the library throws an exception. */
        std::unique_ptr<pl_tokenizer> tokenizer(new pl_tokenizer);
        auto &processor = tokenizer->processor;
        auto result = processor.LoadFromSerializedProto(
            absl::string_view(static_cast<const char *>(data), len));
        if (!result.ok())
            return pl_fail(
                PL_ERR_DAMAGED,
                "these %zu bytes are not a SentencePiece model: give another file, or "
                "leave data.tokenizer empty to train one",
                len);
        /* this program relies on the numbers of these tokens */
        if (processor.unk_id() != PL_TOKEN_UNK || processor.bos_id() != PL_TOKEN_BOS ||
            processor.eos_id() != PL_TOKEN_EOS)
            return pl_fail(
                PL_ERR_UNSUPPORTED,
                "the tokenizer has the numbers %d, %d, %d for unknown, BOS and EOS, "
                "but they must be 0, 1, 2 (train it with --unk_id=0 --bos_id=1 "
                "--eos_id=2)",
                processor.unk_id(), processor.bos_id(), processor.eos_id());
        fill_tables(tokenizer.get());
        PL_CHECK(probe(tokenizer.get()));
        *out = tokenizer.release();
        return PL_OK;
    });
}

/* A SentencePiece model begins with a tag of a field, never with a brace. */
pl_status tokenizer_read(const char *path, pl_buf *model)
{
    pl_buf bytes = {};
    pl_status status = pl_refuse_special(path);
    if (status == PL_OK)
        status = pl_read_file(path, &bytes);
    if (status == PL_OK)
        status = pl_refuse_pointer(path, bytes.data, bytes.len);
    if (status == PL_OK && bytes.len > 0 && bytes.data[0] == '{') {
        status =
            tokenizer_json_read(reinterpret_cast<char *>(bytes.data), bytes.len, model);
        if (status != PL_OK)
            status = pl_fail_in(status, "tokenizer '%s'", path);
    } else if (status == PL_OK) {
        pl_buf_append(model, bytes.data, bytes.len);
    }
    pl_buf_destroy(&bytes);
    return status;
}

pl_status pl_tokenizer_load(const char *model_path, pl_tokenizer **out)
{
    pl_buf bytes = {};
    *out = nullptr;
    pl_status status = tokenizer_read(model_path, &bytes);
    if (status == PL_OK) {
        status = pl_tokenizer_load_bytes(bytes.data, bytes.len, out);
        if (status != PL_OK)
            status = pl_fail_in(status, "tokenizer '%s'", model_path);
    }
    pl_buf_destroy(&bytes);
    return status;
}

void pl_tokenizer_destroy(pl_tokenizer **tokenizer)
{
    delete *tokenizer;
    *tokenizer = nullptr;
}

bool pl_tokenizer_puts_blank(const pl_tokenizer *tokenizer)
{
    return tokenizer->blank_first;
}

int pl_tokenizer_vocab(const pl_tokenizer *tokenizer)
{
    return static_cast<int>(tokenizer->bytes.size());
}

pl_status pl_tokenizer_encode(const pl_tokenizer *tokenizer, const char *text,
                              size_t len, pl_buf *out)
{
    return guarded("tokenising", [&] {
        std::string_view rest(text, len);
        if (!tokenizer->exact)
            return encode_block(tokenizer, rest, out);
        while (!rest.empty()) {
            size_t step = tokenizer_block_len(rest.data(), rest.size(), kEncodeBlock);
            PL_CHECK(encode_marked(tokenizer, rest.substr(0, step), out));
            rest.remove_prefix(step);
        }
        return PL_OK;
    });
}

pl_status pl_tokenizer_decode(const pl_tokenizer *tokenizer, const int32_t *tokens,
                              size_t n, pl_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t token = static_cast<size_t>(tokens[i]);
        if (tokens[i] < 0 || token >= tokenizer->bytes.size())
            return pl_fail(PL_ERR_ARG, "token %d is outside the vocabulary of %zu",
                           tokens[i], tokenizer->bytes.size());
        const std::string &bytes = tokenizer->bytes[token];
        pl_buf_append(out, bytes.data(), bytes.size());
    }
    return PL_OK;
}

size_t tokenizer_count_unknown(const int32_t *tokens, size_t n)
{
    size_t n_unknown = 0;
    for (size_t i = 0; i < n; i++)
        n_unknown += tokens[i] == PL_TOKEN_UNK;
    return n_unknown;
}

pl_status tokenizer_check_unknown(uint64_t n_unknown, uint64_t n)
{
    if (n_unknown * 100 <= n)
        return PL_OK;
    return pl_fail(PL_ERR_DATA,
                   "%.1f %% of the tokens stand for text that the tokenizer does not "
                   "know: it was made for different text; train a tokenizer (leave "
                   "data.tokenizer empty) or give one with byte fallback",
                   100 * static_cast<double>(n_unknown) / static_cast<double>(n));
}
