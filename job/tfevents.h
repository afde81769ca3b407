/* Private to job: the bytes of TensorBoard's event files.
 *
 * A file is a sequence of records: u64 length, masked CRC32C of these 8 bytes, the
 * bytes, masked CRC32C of the bytes; all little endian (TFRecord). The bytes are a
 * protobuf message Event: 1 double wall_time, 2 int64 step, 3 string file_version (the
 * first record: "brain.Event:2"), 5 Summary; a Summary has 1 repeated Value: 1 string
 * tag, 2 float simple_value. */
#pragma once
#include "base/base.h"

typedef struct tfevents_scalar {
    char tag[2 * PL_KEY_TEXT_MAX];
    double value;
} tfevents_scalar;

uint32_t tfevents_crc(const void *data, size_t len); /* masked CRC32C */
/* tfevents_begin appends the first record of a file. tfevents_add appends a record with
 * the n scalars of one step. */
void tfevents_begin(pl_buf *out, double wall_s);
void tfevents_add(pl_buf *out, double wall_s, int64_t step,
                  const tfevents_scalar *scalars, size_t n);
/* Returns the number of bytes of the whole and undamaged records at the start of
 * `data`. *last_step gets the step of the last record that has a step, or -1 if none
 * has. */
size_t tfevents_whole(const uint8_t *data, size_t len, int64_t *last_step);
