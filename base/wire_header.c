/* Encodes and checks the header of messages, byte by byte (docs/PROTOCOL.md 1.1). */
#include "base/wire_internal.h"
#include "base/le.h"

#include <string.h>

enum {
    AT_MAGIC = 0,
    AT_MAJOR = 4,
    AT_MINOR = 5,
    AT_TYPE = 6,
    AT_FLAGS = 8,
    AT_HEADER_LEN = 10,
    AT_BODY_LEN = 12,
    AT_DATA_LEN = 16,
    AT_RESERVED_1 = 20,
    AT_REQUEST = 24,
    AT_EPOCH = 32,
    AT_TOKEN = 40,
    AT_RESERVED_2 = 48,
    AT_CHECKSUM = 56
};
static const uint8_t magic[4] = {'P', 'L', 'W', '1'};

/* Computes the checksum of header (its checksum field is zero), body and data. */
static uint64_t frame_checksum(const uint8_t header[WIRE_HEADER_BYTES],
                               const void *body, size_t body_len, const void *data,
                               size_t data_len)
{
    uint8_t blank[WIRE_HEADER_BYTES];
    memcpy(blank, header, WIRE_HEADER_BYTES);
    memset(blank + AT_CHECKSUM, 0, WIRE_HEADER_BYTES - AT_CHECKSUM);
    pl_piece pieces[] = {
        {blank, WIRE_HEADER_BYTES}, {body, body_len}, {data, data_len}};
    return pl_checksum_pieces(pieces, 3);
}

void wire_header_encode(const pl_message *message, uint8_t out[WIRE_HEADER_BYTES])
{
    memset(out, 0, WIRE_HEADER_BYTES);
    memcpy(out + AT_MAGIC, magic, sizeof magic);
    out[AT_MAJOR] = message->version ? message->version : PL_WIRE_VERSION;
    pl_le_put(out + AT_TYPE, message->type, 2);
    pl_le_put(out + AT_HEADER_LEN, WIRE_HEADER_BYTES, 2);
    pl_le_put(out + AT_BODY_LEN, message->body.len, 4);
    pl_le_put(out + AT_DATA_LEN, message->data.len, 4);
    pl_le_put(out + AT_REQUEST, message->request, 8);
    pl_le_put(out + AT_EPOCH, message->epoch, 8);
    pl_le_put(out + AT_TOKEN, message->token, 8);
    uint64_t sum = frame_checksum(out, message->body.data, message->body.len,
                                  message->data.data, message->data.len);
    pl_le_put(out + AT_CHECKSUM, sum, 8);
}

/* Offsets of magic, version and request are the same in all versions. */
bool wire_header_foreign(const void *header, size_t len, pl_message *out)
{
    const uint8_t *bytes = header;
    if (len != WIRE_HEADER_BYTES ||
        memcmp(bytes + AT_MAGIC, magic, sizeof magic) != 0 ||
        bytes[AT_MAJOR] == PL_WIRE_VERSION)
        return false;
    out->version = bytes[AT_MAJOR];
    out->request = pl_le_get(bytes + AT_REQUEST, 8);
    return true;
}

bool wire_header_sizes(const void *header, size_t *body_len, size_t *data_len)
{
    const uint8_t *bytes = header;
    *body_len = (size_t)pl_le_get(bytes + AT_BODY_LEN, 4);
    *data_len = (size_t)pl_le_get(bytes + AT_DATA_LEN, 4);
    return *body_len <= PL_WIRE_BODY_MAX && *data_len <= PL_WIRE_DATA_MAX;
}

/* Checks a message. A message without data must have no third frame, so each message
 * has exactly one valid encoding. */
bool wire_check(const wire_frame *frames, size_t n_frames)
{
    if (n_frames < 2 || n_frames > WIRE_FRAMES_MAX ||
        frames[0].len != WIRE_HEADER_BYTES)
        return false;
    const uint8_t *header = frames[0].data;
    bool has_data = n_frames == WIRE_FRAMES_MAX;
    wire_frame body = frames[1], data = has_data ? frames[2] : (wire_frame){NULL, 0};
    size_t body_len, data_len;
    return memcmp(header + AT_MAGIC, magic, sizeof magic) == 0 &&
           header[AT_MAJOR] == PL_WIRE_VERSION &&
           pl_le_get(header + AT_FLAGS, 2) == 0 &&
           pl_le_get(header + AT_HEADER_LEN, 2) == WIRE_HEADER_BYTES &&
           pl_le_get(header + AT_RESERVED_1, 4) == 0 &&
           pl_le_get(header + AT_RESERVED_2, 8) == 0 &&
           wire_header_sizes(header, &body_len, &data_len) &&
           has_data == (data.len > 0) && body_len == body.len && data_len == data.len &&
           pl_le_get(header + AT_CHECKSUM, 8) ==
               frame_checksum(header, body.data, body.len, data.data, data.len);
}

void wire_header_decode(const void *header, pl_message *out)
{
    const uint8_t *bytes = header;
    out->type = (uint16_t)pl_le_get(bytes + AT_TYPE, 2);
    out->request = pl_le_get(bytes + AT_REQUEST, 8);
    out->epoch = pl_le_get(bytes + AT_EPOCH, 8);
    out->token = pl_le_get(bytes + AT_TOKEN, 8);
}

bool wire_decode(const wire_frame *frames, size_t n_frames, pl_message *out,
                 wire_frame *data_at)
{
    if (!wire_check(frames, n_frames))
        return false;
    wire_header_decode(frames[0].data, out);
    pl_buf_clear(&out->body);
    pl_buf_clear(&out->data);
    pl_buf_append(&out->body, frames[1].data, frames[1].len);
    *data_at = n_frames == WIRE_FRAMES_MAX ? frames[2] : (wire_frame){NULL, 0};
    return true;
}
