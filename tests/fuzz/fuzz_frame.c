/* folder: base
 *
 * Fuzzes frames from the network. An input is a mode (1 byte), a header, the length of
 * the body (4 bytes), the body, and data. The mode says whether the header is corrected
 * to fit, and how many frames are read. The checks are private to base/wire_header.c,
 * so this target includes that file. */
#include "base/wire_header.c"
#include "tests/fuzz/fuzz.h"

enum { PREFIX = 1 + WIRE_HEADER_BYTES + 4 };

static void forge(uint8_t header[WIRE_HEADER_BYTES], const uint8_t *body,
                  size_t body_len, const uint8_t *data, size_t data_len)
{
    pl_le_put(header + AT_BODY_LEN, body_len, 4);
    pl_le_put(header + AT_DATA_LEN, data_len, 4);
    pl_le_put(header + AT_CHECKSUM,
              frame_checksum(header, body, body_len, data, data_len), 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    uint8_t header[WIRE_HEADER_BYTES];
    pl_message m;
    if (len < PREFIX)
        return 0;
    size_t body_len = fuzz_u32(input + 1 + WIRE_HEADER_BYTES);
    const uint8_t *body = input + PREFIX;
    if (body_len > len - PREFIX)
        body_len = len - PREFIX;
    size_t data_len = len - PREFIX - body_len;
    memcpy(header, input + 1, WIRE_HEADER_BYTES);
    if (input[0] & 1)
        forge(header, body, body_len, body + body_len, data_len);
    size_t n = input[0] & 2 ? 2 : 3;
    if (input[0] & 4)
        n = input[0] >> 3 & 7; /* also too few and too many frames */
    const wire_frame frames[WIRE_FRAMES_MAX] = {
        {header, WIRE_HEADER_BYTES - (input[0] >> 6 & 1)},
        {body, body_len},
        {body + body_len, data_len}};
    pl_message_init(&m, 0);
    wire_frame data;
    if (wire_decode(frames, n, &m, &data)) {
        pl_reader r;
        pl_reader_open(&r, "fuzz", m.body.data, m.body.len);
        (void)pl_get_u64(&r, 1, 0);
    }
    pl_message_destroy(&m);
    return 0;
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    pl_buf seed = {0};
    pl_message m;
    for (int i = 0; i < 8; i++) {
        uint8_t header[WIRE_HEADER_BYTES], mode = (uint8_t)(i & 1 ? 3 : 0), body_len[4];
        pl_message_init(&m, 0);
        pl_wire_error(&m, 7, PL_ERR_BUSY, "the thing is in use; wait");
        if (i & 2)
            pl_buf_append(&m.data, "bulk bytes", 10);
        mode = (uint8_t)(i & 2 ? mode & 1 : mode | 2);
        wire_header_encode(&m, header);
        pl_le_put(body_len, m.body.len, 4);
        pl_buf_clear(&seed);
        pl_buf_append(&seed, &mode, 1);
        pl_buf_append(&seed, header, sizeof header);
        pl_buf_append(&seed, body_len, 4);
        pl_buf_append(&seed, m.body.data, m.body.len);
        pl_buf_append(&seed, m.data.data, m.data.len);
        give(seed.data, seed.len);
        pl_message_destroy(&m);
    }
    pl_buf_destroy(&seed);
}
