/* Reads the protobuf message of a SentencePiece model: tags, varints and lengths.
 * Nothing is read beyond the end of a message. */
#include "serve/piece_list.h"
#include "serve/pieces.h"
#include <math.h>

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };
enum { MODEL_BPE = 2 };

typedef struct message {
    const uint8_t *at, *end;
    bool broken;
} message;

typedef struct field {
    uint64_t number;
    unsigned wire;
    uint64_t value;      /* the value of a varint or fixed number */
    const uint8_t *data; /* the content of a field that consists of bytes */
    size_t len;
} field;

static uint64_t take_varint(message *m)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        uint8_t byte = *m->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    m->broken = true;
    return 0;
}

static const uint8_t *take_field_bytes(message *m, uint64_t len)
{
    const uint8_t *data = m->at;
    if (len > (uint64_t)(m->end - m->at)) {
        m->broken = true;
        return NULL;
    }
    m->at += len;
    return data;
}

/* Reads the next field. Returns false at the end, or if the next field is not valid. */
static bool next_message_field(message *m, field *f)
{
    if (m->at == m->end || m->broken)
        return false;
    uint64_t tag = take_varint(m);
    *f = (field){.number = tag >> 3, .wire = (unsigned)(tag & 7)};
    if (f->wire == WIRE_VARINT) {
        f->value = take_varint(m);
    } else if (f->wire == WIRE_FIXED64 || f->wire == WIRE_FIXED32) {
        const size_t len = f->wire == WIRE_FIXED64 ? 8 : 4;
        const uint8_t *bytes = take_field_bytes(m, len);
        f->value = bytes ? pl_le_get(bytes, len) : 0;
    } else if (f->wire == WIRE_BYTES) {
        f->data = take_field_bytes(m, f->len = (size_t)take_varint(m));
    } else {
        m->broken = true;
    }
    return !m->broken;
}

static pl_status tokenizer_damaged(const char *what)
{
    return pl_fail(PL_ERR_DAMAGED, "the tokenizer's model is damaged: %s", what);
}

static pl_status read_token_piece(message *m, token_piece *out)
{
    field f;
    *out = (token_piece){.text = "", .kind = PIECE_NORMAL};
    while (next_message_field(m, &f)) {
        if (f.number == 1 && f.wire == WIRE_BYTES) {
            out->text = (const char *)f.data;
            out->len = f.len;
        } else if (f.number == 2 && f.wire == WIRE_FIXED32) {
            uint32_t bits = (uint32_t)f.value;
            float value;
            memcpy(&value, &bits, sizeof value);
            out->score = value;
        } else if (f.number == 3 && f.wire == WIRE_VARINT) {
            if (f.value < PIECE_NORMAL || f.value > PIECE_BYTE)
                return tokenizer_damaged("a piece has an unknown kind");
            out->kind = (piece_kind)f.value;
        }
    }
    if (m->broken || out->len == 0 || !isfinite(out->score))
        return tokenizer_damaged("a piece is incomplete, has no text, or has a score "
                                 "that is not finite");
    return pieces_are_text(out->text, out->len)
               ? PL_OK
               : tokenizer_damaged("a piece is not UTF-8");
}

pl_status piece_list_read(const void *model, size_t len, piece_list *out)
{
    message m = {model, (const uint8_t *)model + len, false}, ahead = m;
    field f, part;
    size_t n = 0;
    pl_status status = PL_OK;
    *out = (piece_list){.blank_first = true};
    while (next_message_field(&ahead, &f))
        n += f.number == 1;
    out->pieces = pl_alloc((n + 1) * sizeof *out->pieces);
    while (next_message_field(&m, &f)) {
        /* the message inside the field; a field of another wire type has none, and
         * reading it fails */
        message in = {f.data, f.data ? f.data + f.len : NULL, f.wire != WIRE_BYTES};
        if (f.number == 1)
            PL_TRY(read_token_piece(&in, &out->pieces[out->n++]));
        if (f.number == 2) {
            while (next_message_field(&in, &part)) {
                if (part.number == 3 && part.wire == WIRE_VARINT)
                    out->bpe = part.value == MODEL_BPE;
                if (part.number == 35 && part.wire == WIRE_VARINT)
                    out->byte_fallback = part.value != 0;
            }
            if (in.broken)
                PL_TRY(tokenizer_damaged("the trainer's settings cannot be read"));
        }
        if (f.number == 3) {
            /* The settings of the normaliser. A missing field 3, 4 or 5 counts as true,
             * as the format says. */
            bool thins = true, escapes = true, table = false;
            out->blank_first = true;
            while (next_message_field(&in, &part)) {
                table |= part.number == 2 && part.len > 0;
                if (part.number == 3)
                    out->blank_first = part.value != 0;
                else if (part.number == 4)
                    thins = part.value != 0;
                else if (part.number == 5)
                    escapes = part.value != 0;
            }
            out->exact = !table && !thins && escapes;
            if (in.broken)
                PL_TRY(tokenizer_damaged("the normaliser's settings cannot be read"));
        }
    }
    if (m.broken || out->n == 0)
        PL_TRY(tokenizer_damaged("it is incomplete, or has no pieces"));
done:
    if (status != PL_OK)
        piece_list_clear(out);
    return status;
}

void piece_list_clear(piece_list *list)
{
    pl_free(list->pieces);
    *list = (piece_list){0};
}
