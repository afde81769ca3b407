/* folder: serve
 *
 * Fuzzes models of other programs: safetensors, config.json, and the pieces of a
 * SentencePiece model. The first byte modulo 4 chooses the format: 0 safetensors; 1
 * safetensors whose header is made to end at the first newline; 2 config.json; 3
 * pieces. Accepted tensors must lie within the file. */
#include "serve/llama_config.h"
#include "serve/piece_list.h"
#include "serve/safetensors.h"
#include "tests/fuzz/fuzz.h"

static void demand(bool truth)
{
    if (!truth)
        abort();
}

static void read_values(const safetensors *file, const st_tensor *t)
{
    float *values = malloc((size_t)t->n_values * sizeof *values + 1);
    demand(values != NULL);
    if (safetensors_floats(file, t, values) != PL_OK)
        demand(strcmp(t->dtype, "F32") != 0);
    free(values);
}

static void read_tensors(const uint8_t *data, size_t len)
{
    safetensors *file = NULL;
    if (safetensors_parse("fuzz", data, len, &file) != PL_OK)
        return;
    for (size_t i = 0; i < file->n_tensors; i++) {
        const st_tensor *t = &file->tensors[i];
        demand(t->data >= data && t->n_bytes <= (uint64_t)(data + len - t->data));
        demand(safetensors_find(file, t->name) == t);
        if (t->n_bytes > 0)
            read_values(file, t);
    }
    safetensors_close(&file);
}

static void mend_and_read(const uint8_t *data, size_t len)
{
    uint8_t *mended = malloc(len);
    demand(mended != NULL);
    memcpy(mended, data, len);
    const uint8_t *end = len > 8 ? memchr(data + 8, '\n', len - 8) : NULL;
    uint64_t n = end ? (uint64_t)(end - data - 8) : 0;
    if (len >= 8)
        memcpy(mended, &n, sizeof n);
    read_tensors(mended, len);
    free(mended);
}

static void read_pieces(const uint8_t *data, size_t len)
{
    piece_list list;
    if (piece_list_read(data, len, &list) != PL_OK)
        return;
    for (size_t i = 0; i < list.n; i++) {
        const uint8_t *text = (const uint8_t *)list.pieces[i].text;
        demand(text >= data && text + list.pieces[i].len <= data + len);
    }
    piece_list_clear(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    pl_shape shape;
    if (len < 2)
        return 0;
    const uint8_t *data = input + 1;
    size_t rest = len - 1;
    switch (input[0] % 4) {
    case 0:
        read_tensors(data, rest);
        break;
    case 1:
        mend_and_read(data, rest);
        break;
    case 2:
        if (llama_config_read("fuzz", (const char *)data, rest, &shape) == PL_OK)
            demand(pl_shape_check(&shape) == PL_OK);
        break;
    default:
        read_pieces(data, rest);
        break;
    }
    return 0;
}

/* These seeds are written by hand, because no encoder of pathloom writes a file with
 * every type. */
void fuzz_seeds(void (*give)(const void *, size_t))
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
        "\"c\":{\"dtype\":\"I8\",\"shape\":[0,7],\"data_offsets\":[28,28]},"
        "\"d\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[28,30]}}";
    static const char model[] =
        "{\"model_type\":\"llama\",\"vocab_size\":9,\"hidden_size\":8,"
        "\"intermediate_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
        "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5000},"
        "\"rope_scaling\":null,\"tie_word_embeddings\":true}";
    static const uint8_t pieces[] = {10,  12,  10, 3,  'a', 'b', 'c', 21, 0,
                                     0,   128, 63, 24, 1,   18,  5,   24, 2,
                                     152, 2,   1,  26, 4,   24,  0,   32, 0};
    static const uint8_t values[31];
    pl_buf file = {0};
    uint64_t n = sizeof header - 1;
    pl_buf_append(&file, &n, sizeof n);
    pl_buf_append(&file, header, (size_t)n);
    pl_buf_append(&file, values, 30);
    fuzz_give(give, 0, file.data, file.len);
    file.len -= 30;
    pl_buf_append(&file, "\n", 1); /* marks the end of the header for mend_and_read */
    pl_buf_append(&file, values, 29);
    fuzz_give(give, 1, file.data, file.len);
    fuzz_give(give, 2, model, sizeof model - 1);
    fuzz_give(give, 3, pieces, sizeof pieces);
    pl_buf_destroy(&file);
}
