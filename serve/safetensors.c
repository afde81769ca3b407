/* Reads safetensors. Everything in the header is checked against the file before any
 * tensor can be accessed. */
#include "serve/safetensors.h"
#include "serve/half.h"
#include "corpus/corpus.h"
#include <stdlib.h>

enum { LENGTH_BYTES = 8 };

/* All types of the format, with their sizes. Types that we do not use are listed too:
 * a file may contain them, and the sizes of their tensors are checked. */
static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {{"BOOL", 8},    {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"U16", 16},
              {"F8_E4M3", 8}, {"I16", 16}, {"F16", 16}, {"U32", 32},    {"BF16", 16},
              {"I32", 32},    {"F32", 32}, {"U64", 64}, {"F8_E8M0", 8}, {"I64", 64},
              {"F64", 64},    {"C64", 64}};

/* ---- one tensor ---- */
static pl_status wrong_tensor(const safetensors *f, const char *tensor,
                              const char *what)
{
    return pl_fail(PL_ERR_DATA, "%s: tensor %.128s %s", f->name, tensor, what);
}

static pl_status read_tensor(const safetensors *f, const char *name, st_tensor *t)
{
    const pl_json *entry = pl_json_get(f->header, name),
                  *shape = pl_json_get(entry, "shape");
    *t = (st_tensor){.name = name};
    t->dtype = pl_json_text(pl_json_get(entry, "dtype"), NULL);
    if (!t->dtype)
        return wrong_tensor(f, name, "has no `dtype`");
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, t->dtype) == 0)
            bits = dtypes[i].bits;
    if (bits == 0)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "%s: tensor %.128s has the unknown dtype %.32s", f->name, name,
                       t->dtype);
    if (!shape || !pl_json_is_array(shape))
        return wrong_tensor(f, name, "has no `shape`");
    /* If the product of the extents is so large that its bytes would not fit into 63
     * bits, the file is not valid. */
    size_t n = pl_json_count(shape);
    t->n_values = 1;
    if (n > SAFETENSORS_DIMS_MAX)
        return wrong_tensor(f, t->name, "has more than 8 dimensions");
    for (size_t i = 0; i < n; i++) {
        int64_t extent = 0;
        if (!pl_json_int(pl_json_at(shape, i), &extent) || extent < 0)
            return wrong_tensor(
                f, t->name, "has an extent that is not a whole number of 0 or more");
        if (extent > 0 && t->n_values > (uint64_t)(INT64_MAX / 64) / (uint64_t)extent)
            return wrong_tensor(f, t->name, "is larger than any file");
        t->dims[i] = extent;
        t->n_values *= (uint64_t)extent;
    }
    t->n_dims = (int)n;
    const pl_json *offsets = pl_json_get(entry, "data_offsets");
    int64_t begin = -1, end = -1;
    if (pl_json_count(offsets) != 2 || !pl_json_int(pl_json_at(offsets, 0), &begin) ||
        !pl_json_int(pl_json_at(offsets, 1), &end) || begin < 0 || end < begin)
        return wrong_tensor(f, t->name, "has no `data_offsets` [begin, end]");
    if ((uint64_t)end > f->data_bytes)
        return pl_fail(PL_ERR_DATA,
                       "%s: tensor %.128s ends at byte %lld of %llu bytes of data; the "
                       "file is incomplete or damaged",
                       f->name, t->name, (long long)end,
                       (unsigned long long)f->data_bytes);
    t->begin = (uint64_t)begin;
    t->n_bytes = (uint64_t)end - t->begin;
    t->data = f->data + begin;
    if (t->n_bytes != t->n_values * (bits / 8))
        return pl_fail(PL_ERR_DATA,
                       "%s: tensor %.128s has %llu bytes for %llu values of %s; the "
                       "file is damaged",
                       f->name, t->name, (unsigned long long)t->n_bytes,
                       (unsigned long long)t->n_values, t->dtype);
    return PL_OK;
}

/* ---- all tensors ---- */
static int by_data_place(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    /* an empty tensor comes before a tensor that begins at the same offset */
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_tensor_name(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

pl_status safetensors_parse(const char *what, const uint8_t *bytes, size_t len,
                            safetensors **out)
{
    safetensors *f = pl_alloc(sizeof *f);
    pl_copy_text(f->name, sizeof f->name, what);
    pl_status status = PL_OK;
    PL_TRY(pl_refuse_pointer(what, bytes, len));
    if (len < LENGTH_BYTES)
        PL_TRY(pl_fail(PL_ERR_DATA, "%s has %zu bytes, too few for a safetensors file",
                       f->name, len));
    const uint64_t header = pl_le_get(bytes, LENGTH_BYTES);
    if (header > len - LENGTH_BYTES || header > SAFETENSORS_HEADER_MAX)
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "%s: its first 8 bytes say that its header has %llu bytes, "
                       "which does not fit a file of %zu bytes or is above 100 MB; the "
                       "file is incomplete, or not in the safetensors format",
                       f->name, (unsigned long long)header, len));
    f->data = bytes + LENGTH_BYTES + header;
    f->data_bytes = len - LENGTH_BYTES - header;
    status =
        pl_json_parse((const char *)bytes + LENGTH_BYTES, (size_t)header, &f->header);
    if (status != PL_OK)
        PL_TRY(pl_fail_in(status, "the header of %s", f->name));
    if (!pl_json_is_object(f->header))
        PL_TRY(pl_fail(PL_ERR_DATA, "%s: its header is not a JSON object", f->name));
    const pl_json *metadata = pl_json_get(f->header, "__metadata__");
    if (metadata && !pl_json_is_object(metadata))
        PL_TRY(
            pl_fail(PL_ERR_DATA, "%s: `__metadata__` is not a JSON object", f->name));
    for (const char *key = NULL; (key = pl_json_next_key(metadata, key));)
        if (!pl_json_text(pl_json_get(metadata, key), NULL))
            PL_TRY(pl_fail(PL_ERR_DATA, "%s: metadata `%.64s` is not a text", f->name,
                           key));
    size_t n = 0;
    for (const char *key = NULL; (key = pl_json_next_key(f->header, key));)
        n += strcmp(key, "__metadata__") != 0;
    f->tensors = pl_alloc((n ? n : 1) * sizeof *f->tensors);
    for (const char *key = NULL; (key = pl_json_next_key(f->header, key));)
        if (strcmp(key, "__metadata__") != 0)
            PL_TRY(read_tensor(f, key, &f->tensors[f->n_tensors++]));
    /* every byte of the data must belong to exactly one tensor */
    uint64_t at = 0;
    qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_data_place);
    for (size_t i = 0; i < f->n_tensors; i++) {
        if (f->tensors[i].begin < at)
            PL_TRY(wrong_tensor(f, f->tensors[i].name, "overlaps another tensor"));
        if (f->tensors[i].begin > at)
            PL_TRY(
                wrong_tensor(f, f->tensors[i].name, "has a gap in the data before it"));
        at += f->tensors[i].n_bytes;
    }
    if (at != f->data_bytes)
        PL_TRY(
            pl_fail(PL_ERR_DATA,
                    "%s: %llu bytes of data belong to no tensor; the file is damaged",
                    f->name, (unsigned long long)(f->data_bytes - at)));
    qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_tensor_name);
done:
    if (status != PL_OK)
        safetensors_close(&f);
    *out = f;
    return status;
}

pl_status safetensors_open(const char *path, safetensors **out)
{
    pl_mapping mapping;
    *out = NULL;
    PL_CHECK(pl_map_file(path, &mapping));
    pl_status status = safetensors_parse(path, mapping.data, mapping.len, out);
    if (status == PL_OK)
        (*out)->mapping = mapping;
    else
        pl_unmap_file(&mapping);
    return status;
}

void safetensors_close(safetensors **file)
{
    safetensors *f = *file;
    if (!f)
        return;
    pl_json_destroy(&f->header);
    pl_free(f->tensors);
    pl_unmap_file(&f->mapping);
    pl_free(f);
    *file = NULL;
}

const st_tensor *safetensors_find(const safetensors *file, const char *name)
{
    st_tensor key = {.name = name};
    return bsearch(&key, file->tensors, file->n_tensors, sizeof key, by_tensor_name);
}

/* ---- values ---- */
pl_status safetensors_floats(const safetensors *file, const st_tensor *tensor,
                             float *out)
{
    const uint8_t *in = tensor->data;
    if (strcmp(tensor->dtype, "F32") == 0)
        /* the format is little-endian, like all supported machines */
        memcpy(out, in, tensor->n_values * sizeof *out);
    else if (strcmp(tensor->dtype, "BF16") == 0)
        for (uint64_t i = 0; i < tensor->n_values; i++)
            out[i] = pl_bf16_to_float((uint16_t)pl_le_get(in + 2 * i, 2));
    else if (strcmp(tensor->dtype, "F16") == 0)
        for (uint64_t i = 0; i < tensor->n_values; i++)
            out[i] = half_to_float((uint16_t)pl_le_get(in + 2 * i, 2));
    else
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "%s: tensor %.128s is %s; only F32, F16 and BF16 can be "
                       "imported; convert the model to one of these types",
                       file->name, tensor->name, tensor->dtype);
    return PL_OK;
}
