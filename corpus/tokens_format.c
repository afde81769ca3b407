/* Encodes and checks the header of a token file, and stores tokens in the file's number
 * of bytes per token.
 *
 * The header has a separate checksum. So the header, and with it the position of all
 * other parts, can be checked without reading a large file to its end. */
#include "corpus/tokens_format.h"
#include <string.h>

/* A mapped file's table of documents and tokens are used without conversion. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "token files are mapped without conversion, so only little-endian "
               "machines can use them");
_Static_assert(
    sizeof(pl_token_doc) == 24,
    "an entry of the file's table of documents must have the layout of pl_token_doc");

/* The header as in the file: fields in the order of offsets, without padding. */
typedef struct header_fields {
    uint8_t magic[8];
    uint32_t version, token_bytes, vocab, n_docs, n_domains, names_bytes;
    uint64_t n_tokens, reserved, body_checksum, header_checksum;
} header_fields;
_Static_assert(sizeof(header_fields) == TOKENS_HEADER_BYTES, "no padding");

uint32_t tokens_width(uint32_t vocab)
{
    return vocab <= 65536 ? 2 : 4;
}

void tokens_layout_place(tokens_layout *layout)
{
    uint64_t tokens_end =
        TOKENS_HEADER_BYTES + layout->n_tokens * (uint64_t)layout->token_bytes;
    layout->docs_at = (tokens_end + 7) / 8 * 8;
    layout->names_at =
        layout->docs_at + (uint64_t)layout->n_docs * sizeof(pl_token_doc);
    layout->file_bytes = layout->names_at + layout->names_bytes;
}

void tokens_header_encode(const tokens_layout *layout, uint64_t body_checksum,
                          uint8_t header[TOKENS_HEADER_BYTES])
{
    header_fields fields = {.version = TOKENS_VERSION,
                            .token_bytes = layout->token_bytes,
                            .vocab = layout->vocab,
                            .n_docs = layout->n_docs,
                            .n_domains = layout->n_domains,
                            .names_bytes = layout->names_bytes,
                            .n_tokens = layout->n_tokens,
                            .body_checksum = body_checksum};
    memcpy(fields.magic, TOKENS_MAGIC, sizeof fields.magic);
    fields.header_checksum = pl_checksum(&fields, TOKENS_HEADER_SUM_AT);
    memcpy(header, &fields, sizeof fields);
}

pl_status tokens_header_decode(const uint8_t *data, size_t len, const char *what,
                               tokens_layout *out, uint64_t *body_checksum)
{
    header_fields fields;
    if (len < sizeof fields)
        return pl_fail(PL_ERR_DAMAGED,
                       "%s is incomplete: it has %zu bytes, but a header alone has %d",
                       what, len, TOKENS_HEADER_BYTES);
    memcpy(&fields, data, sizeof fields);
    /* Magic and version are checked before the checksum, so that a file of a different
     * kind, or of a later release, is not reported as damaged. */
    if (memcmp(fields.magic, TOKENS_MAGIC, sizeof fields.magic) != 0)
        return pl_fail(PL_ERR_DAMAGED,
                       "%s is not a token file: it does not begin with the magic bytes",
                       what);
    if (fields.version != TOKENS_VERSION)
        return pl_fail(
            PL_ERR_UNSUPPORTED,
            "%s has format version %u, but this release reads only version %d", what,
            (unsigned)fields.version, TOKENS_VERSION);
    if (fields.header_checksum != pl_checksum(&fields, TOKENS_HEADER_SUM_AT))
        return pl_fail(PL_ERR_DAMAGED, "%s is damaged: the header's checksum is wrong",
                       what);
    /* limits that keep the sums in tokens_layout_place far below overflow */
    const bool in_range =
        fields.vocab >= 1 && fields.vocab <= INT32_MAX &&
        fields.token_bytes == tokens_width(fields.vocab) &&
        fields.n_tokens <= TOKENS_COUNT_MAX && fields.names_bytes <= TOKENS_NAMES_MAX &&
        fields.n_domains <= fields.names_bytes &&
        (fields.n_docs == 0 || fields.n_domains > 0) && fields.reserved == 0;
    if (!in_range)
        return pl_fail(PL_ERR_DAMAGED,
                       "%s is damaged: a field of its header has an impossible value",
                       what);
    *out = (tokens_layout){.token_bytes = fields.token_bytes,
                           .vocab = fields.vocab,
                           .n_docs = fields.n_docs,
                           .n_domains = fields.n_domains,
                           .names_bytes = fields.names_bytes,
                           .n_tokens = fields.n_tokens};
    tokens_layout_place(out);
    *body_checksum = fields.body_checksum;
    /* The comparison of lengths detects truncation, appended bytes and wrong counts. */
    if (out->file_bytes != len)
        return pl_fail(
            PL_ERR_DAMAGED,
            "%s is damaged: it has %zu bytes, but its header says that it has %llu",
            what, len, (unsigned long long)out->file_bytes);
    return PL_OK;
}

static pl_status pack_token(uint32_t token, uint32_t vocab, pl_buf *out)
{
    const uint32_t width = tokens_width(vocab);
    if (token >= vocab)
        return pl_fail(PL_ERR_DATA, "token %d is outside the vocabulary of %u",
                       (int32_t)token, (unsigned)vocab);
    /* The file is little-endian, so the low bytes of a token come first. */
    memcpy(out->data + out->len, &token, width);
    out->len += width;
    return PL_OK;
}

pl_status tokens_pack(const int32_t *tokens, size_t n, uint32_t vocab, pl_buf *out)
{
    pl_buf_reserve(out, (n + 2) * tokens_width(vocab));
    PL_CHECK(pack_token(PL_TOKEN_BOS, vocab, out));
    for (size_t i = 0; i < n; i++)
        PL_CHECK(pack_token((uint32_t)tokens[i], vocab, out));
    return pack_token(PL_TOKEN_EOS, vocab, out);
}
