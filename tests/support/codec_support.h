/* folder: codec. Shared by tests of the codecs: functions that make updates, options
 * and rounds. */
#pragma once
#include "codec/codec.h"
#include "codec/codec_sketch.h"
#include "outer/outer.h"
#include <float.h>
#include <math.h>

#include "tests/support/suite.h"

void fill_values(float *x, size_t n, uint64_t seed);

float *zeros(size_t n);

/* Returns options that encode all tensors, also small ones, with the codec `name`. */
pl_codec_options options_of(const char *name);

pl_codec_round round_of(int n_contributors);

void encode_all(const pl_codec_options *o, const pl_codec_round *round, const float *x,
                size_t n, float *left, pl_buf *out);

void add_ok(const pl_buf *m, size_t n, float weight, float *sum);

/* Encodes and decodes an update. Returns what arrives: n values, to free. */
float *sent_update(const pl_codec_options *o, const pl_codec_round *round,
                   const float *x, size_t n, float *left);
