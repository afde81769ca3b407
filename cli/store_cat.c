/* pathloom store cat: writes the bytes of a version, a tensor of it, or an object. */
#include "cli/store_call.h"

#include <unistd.h>

typedef enum cat_format { CAT_RAW, CAT_NPY, CAT_TEXT } cat_format;
enum { PIECE_FLOATS = 65536, NPY_ALIGN = 64, NPY_HEAD = 10 };

typedef struct stretch {
    size_t first, count; /* floats first to first + count - 1 of the module */
    int rows, cols;      /* shape of a matrix; rows is 0 or 1 for a vector */
} stretch;

static pl_status write_output(const void *data, size_t len)
{
    if (fwrite(data, 1, len, stdout) == len)
        return PL_OK;
    return pl_fail(PL_ERR_IO, "the output could not be written: the disk is full, or "
                              "the program that reads it has ended");
}

static pl_status find_tensor(const pl_topology *t, const char *module,
                             const char *asked, stretch *out)
{
    const char *slash = strchr(module, '/');
    int index = slash ? pl_topology_find_module(t, slash + 1) : -1;
    if (index < 0)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "the arm of %s does not define the tensors of this module",
                       module);
    const pl_slot *s = pl_topology_slot(t, pl_topology_module_slot(t, index));
    for (int i = s->first_tensor; i < s->first_tensor + s->n_tensors; i++) {
        const pl_tensor *tensor = pl_topology_tensor(t, i);
        if (strcmp(tensor->name, asked) != 0)
            continue;
        out->first = tensor->offset - s->offset;
        out->count = (size_t)tensor->rows * (size_t)tensor->cols;
        out->rows = tensor->rows;
        out->cols = tensor->cols;
        return PL_OK;
    }
    const char *names[256];
    size_t n = 0;
    for (int i = 0; i < s->n_tensors && n < 256; i++)
        names[n++] = pl_topology_tensor(t, s->first_tensor + i)->name;
    const char *near = pl_nearest(asked, names, n);
    return pl_fail(PL_ERR_NOT_FOUND, "the module has no tensor %s; %s %s", asked,
                   near ? "did you mean" : "its first tensor is",
                   near ? near : names[0]);
}

static pl_status cat_version(store_call *call, cat_format format)
{
    char arm_name[PL_MODULE_NAME_MAX];
    pl_version v;
    pl_module_at at;
    pl_arm arm = {0};
    pl_topology *t = NULL;
    float *piece = NULL;
    pl_status status = PL_OK;
    PL_CHECK(pl_names_module(call->store, call->words[0], &at));
    PL_CHECK(pl_store_get_version(call->store, at.module, at.number, &v));
    if (v.params_gone)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "garbage collection has deleted the parameters of %s@%llu; only "
                       "the record of this version is left",
                       v.module, (unsigned long long)v.number));
    stretch s = {.count = v.n_params};
    if (call->words[1]) {
        pl_arm_of_module(v.module, arm_name, sizeof arm_name);
        PL_TRY(pl_read_arm(call->store, arm_name, &arm, &t));
        PL_TRY(find_tensor(t, v.module, call->words[1], &s));
    }
    if (format == CAT_NPY) {
        /* the head of NumPy's format 1.0: magic, version, length, header */
        char shape[64], text[256];
        uint8_t head[NPY_HEAD] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
        if (s.rows > 1)
            snprintf(shape, sizeof shape, "(%d, %d)", s.rows, s.cols);
        else
            snprintf(shape, sizeof shape, "(%zu,)", s.count);
        int used =
            snprintf(text, sizeof text,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
        int total = (NPY_HEAD + used + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN;
        int len = total - NPY_HEAD;
        memset(text + used, ' ', (size_t)(len - used));
        text[len - 1] = '\n';
        head[8] = (uint8_t)len;
        head[9] = (uint8_t)(len >> 8);
        PL_TRY(write_output(head, sizeof head));
        PL_TRY(write_output(text, (size_t)len));
    }
    piece = pl_alloc(PIECE_FLOATS * sizeof *piece);
    for (size_t at_float = 0; at_float < s.count; at_float += PIECE_FLOATS) {
        const size_t left = s.count - at_float;
        const size_t n = left < PIECE_FLOATS ? left : PIECE_FLOATS;
        PL_TRY(pl_store_read_blob(call->store, &v.params,
                                  (s.first + at_float) * sizeof *piece,
                                  n * sizeof *piece, piece));
        if (format != CAT_TEXT)
            PL_TRY(write_output(piece, n * sizeof *piece));
        for (size_t i = 0; format == CAT_TEXT && i < n; i++)
            if (printf("%.9g\n", (double)piece[i]) < 0)
                PL_TRY(write_output("", 1));
    }
done:
    pl_free(piece);
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    pl_version_clear(&v);
    return status;
}

pl_status store_cat(store_call *call)
{
    static const char *const names[] = {"raw", "npy", "text"};
    const char *asked = call->values[STORE_OPT_FORMAT];
    cat_format format = CAT_RAW;
    pl_buf bytes = {0};
    while (asked && format <= CAT_TEXT && strcmp(asked, names[format]) != 0)
        format++;
    if (format > CAT_TEXT)
        return pl_fail(PL_ERR_USAGE, "--format is raw, npy or text, not `%s`", asked);
    if (format != CAT_TEXT && isatty(STDOUT_FILENO))
        return pl_fail(PL_ERR_USAGE,
                       "stdout is a terminal, and the output is raw bytes; write to a "
                       "file or a pipe, or give --format text");
    if (!call->values[STORE_OPT_OBJECT])
        return cat_version(call, format);
    pl_status status = pl_store_read_object(call->store, call->words[0], &bytes);
    if (status == PL_OK)
        status = write_output(bytes.data, bytes.len);
    pl_buf_destroy(&bytes);
    return status;
}
