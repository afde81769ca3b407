/* Encodes TensorBoard's event files, and finds the end of the whole records in a torn
 * file (tfevents.h). Protobuf and TFRecord are published formats. Scalars need only a
 * few fields, so the bytes are written here without a library. */
#include "job/tfevents.h"

/* HEAD: length of a record and its CRC; TAIL: CRC of the record's bytes */
enum { HEAD = 12, TAIL = 4 };
enum { WALL_TIME = 0x09, STEP = 0x10, FILE_VERSION = 0x1a, SUMMARY = 0x2a };
enum { SUMMARY_VALUE = 0x0a, VALUE_TAG = 0x0a, VALUE_SIMPLE = 0x15 };

/* Computes CRC32C (Castagnoli, reflected) bit by bit, which is fast enough for small
 * files. */
uint32_t tfevents_crc(const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_bytes_le(pl_buf *out, uint64_t value, size_t n)
{
    uint8_t bytes[8];
    pl_le_put(bytes, value, n);
    pl_buf_append(out, bytes, n);
}

static void put_varint(pl_buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_bytes_le(out, (value & 0x7f) | 0x80, 1);
    put_bytes_le(out, value, 1);
}

static void put_tagged(pl_buf *out, int tag, const void *data, size_t len)
{
    put_bytes_le(out, (uint64_t)tag, 1);
    put_varint(out, len);
    pl_buf_append(out, data, len);
}

static void put_wall_time(pl_buf *out, double wall_s)
{
    uint64_t bits;
    memcpy(&bits, &wall_s, sizeof bits);
    put_bytes_le(out, WALL_TIME, 1);
    put_bytes_le(out, bits, 8);
}

static void put_record(pl_buf *out, const pl_buf *event)
{
    const size_t at = out->len;
    put_bytes_le(out, event->len, 8);
    put_bytes_le(out, tfevents_crc(out->data + at, 8), 4);
    pl_buf_append(out, event->data, event->len);
    put_bytes_le(out, tfevents_crc(event->data, event->len), 4);
}

void tfevents_begin(pl_buf *out, double wall_s)
{
    static const char version[] = "brain.Event:2";
    pl_buf event = {0};
    put_wall_time(&event, wall_s);
    put_tagged(&event, FILE_VERSION, version, sizeof version - 1);
    put_record(out, &event);
    pl_buf_destroy(&event);
}

void tfevents_add(pl_buf *out, double wall_s, int64_t step,
                  const tfevents_scalar *scalars, size_t n)
{
    pl_buf event = {0}, summary = {0};
    put_wall_time(&event, wall_s);
    put_bytes_le(&event, STEP, 1);
    put_varint(&event, (uint64_t)step);
    for (size_t i = 0; i < n; i++) {
        const float value = (float)scalars[i].value;
        uint32_t bits;
        pl_buf one = {0};
        memcpy(&bits, &value, sizeof bits);
        put_tagged(&one, VALUE_TAG, scalars[i].tag, strlen(scalars[i].tag));
        put_bytes_le(&one, VALUE_SIMPLE, 1);
        put_bytes_le(&one, bits, 4);
        put_tagged(&summary, SUMMARY_VALUE, one.data, one.len);
        pl_buf_destroy(&one);
    }
    put_tagged(&event, SUMMARY, summary.data, summary.len);
    put_record(out, &event);
    pl_buf_destroy(&summary);
    pl_buf_destroy(&event);
}

/* Returns the step of an event that tfevents_add has written; -1 if the event has no
 * step. */
static int64_t step_of_event(const uint8_t *event, size_t len)
{
    enum { AT = 9 };
    uint64_t step = 0;
    if (len <= AT || event[0] != WALL_TIME || event[AT] != STEP)
        return -1;
    for (size_t i = 1; AT + i < len && i <= 9; i++) {
        step |= (uint64_t)(event[AT + i] & 0x7f) << 7 * (i - 1);
        if (event[AT + i] < 0x80)
            return step <= INT64_MAX ? (int64_t)step : -1;
    }
    return -1;
}

size_t tfevents_whole(const uint8_t *data, size_t len, int64_t *last_step)
{
    size_t at = 0;
    *last_step = -1;
    while (len - at >= HEAD + TAIL) {
        const uint64_t n = pl_le_get(data + at, 8);
        const uint8_t *event = data + at + HEAD;
        if (tfevents_crc(data + at, 8) != pl_le_get(data + at + 8, 4) ||
            n > len - at - HEAD - TAIL ||
            tfevents_crc(event, (size_t)n) != pl_le_get(event + n, 4))
            break;
        const int64_t step = step_of_event(event, (size_t)n);
        *last_step = step >= 0 ? step : *last_step;
        at += HEAD + (size_t)n + TAIL;
    }
    return at;
}
