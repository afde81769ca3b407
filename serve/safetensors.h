/* Reads safetensors: named tensors in one file.
 *
 *   N u64 | header, N bytes of JSON | data
 *
 * The header is an object. Each tensor's name is a key, whose value has `dtype`,
 * `shape` and `data_offsets` [begin, end). The key "__metadata__" has texts. Numbers
 * are little-endian, and tensors are row-major. The tensors must cover the data without
 * gaps or overlaps: other readers require this, too, and it excludes hidden bytes. */
#pragma once
#include "base/base.h"

enum { SAFETENSORS_HEADER_MAX = 100000000, SAFETENSORS_DIMS_MAX = 8 };

typedef struct st_tensor {
    const char *name;  /* borrowed from the file */
    const char *dtype; /* borrowed from the file; for example "F32" */
    int n_dims;
    int64_t dims[SAFETENSORS_DIMS_MAX];
    uint64_t n_values;
    const uint8_t *data; /* borrowed from the file; may be unaligned */
    uint64_t begin;      /* offset of `data` in the data of the file */
    uint64_t n_bytes;
} st_tensor;

typedef struct safetensors {
    char name[PL_PATH_MAX];
    pl_mapping mapping; /* empty if the bytes are borrowed */
    pl_json *header;
    st_tensor *tensors; /* sorted by name */
    size_t n_tensors;
    const uint8_t *data;
    uint64_t data_bytes;
} safetensors;

/* Parses the bytes of a file, which are borrowed until close. `what` is the file's name
 * for error messages. ERR_DATA; ERR_UNSUPPORTED for an unknown dtype. */
pl_status safetensors_parse(const char *what, const uint8_t *bytes, size_t len,
                            safetensors **out);
/* Maps a file into memory. */
pl_status safetensors_open(const char *path, safetensors **out);
void safetensors_close(safetensors **file); /* accepts NULL */

/* Returns the tensor with this name; NULL if there is none. */
const st_tensor *safetensors_find(const safetensors *file, const char *name);

/* Converts a tensor of F32, F16 or BF16 values to floats; ERR_UNSUPPORTED for any other
 * dtype. */
pl_status safetensors_floats(const safetensors *file, const st_tensor *tensor,
                             float *out);
