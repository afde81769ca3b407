/* Computes the logits that our model in an exported folder gives for some tokens.
 * tests/job/export_oracle.sh compares the logits of other programs with them.
 *
 *   path_logits FOLDER TOKENS LOGITS
 *
 * The file TOKENS contains int32 numbers. The program writes the file LOGITS, which has
 * one row of float32 numbers per token, computed by the `ref` backend in f32. When the
 * context is full, a new context begins. */
#include "serve/serve.h"
#include <stdio.h>
#include <string.h>

typedef struct job {
    pl_import *import;
    pl_topology *topology;
    pl_backend *backend;
    pl_model *model;
    pl_decoder *decoder;
    float *params, *logits;
    pl_buf tokens;
    FILE *out;
} job;

static pl_status open_job(job *j, char **argv)
{
    pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    pl_backend_options backend = {.name = "ref", .n_threads = 1, .precision = "f32"};
    PL_CHECK(pl_import_open(argv[1], &j->import));
    const pl_shape *shape = &pl_import_describe(j->import)->shape;
    pl_model_options model = {.batch = 1, .context = shape->context};
    PL_CHECK(pl_topology_create(shape, &spec, &j->topology));
    PL_CHECK(pl_try_alloc(pl_topology_path_params(j->topology) * sizeof(float),
                          "parameters", (void **)&j->params));
    PL_CHECK(pl_import_load(j->import, j->topology, j->params));
    PL_CHECK(pl_backend_open(&backend, &j->backend));
    PL_CHECK(pl_model_create(j->backend, j->topology, &model, &j->model));
    PL_CHECK(pl_model_load(j->model, j->params));
    PL_CHECK(pl_decoder_create(j->model, 1, &j->decoder));
    PL_CHECK(pl_read_file(argv[2], &j->tokens));
    j->logits = pl_alloc((size_t)shape->vocab * sizeof *j->logits);
    j->out = fopen(argv[3], "wb");
    return j->out ? PL_OK : pl_fail(PL_ERR_IO, "cannot write %s", argv[3]);
}

static pl_status write_logits(job *j)
{
    const pl_shape *shape = &pl_import_describe(j->import)->shape;
    size_t V = (size_t)shape->vocab, n = j->tokens.len / sizeof(int32_t);
    for (size_t i = 0; i < n; i++) {
        int32_t token;
        memcpy(&token, j->tokens.data + i * sizeof token, sizeof token);
        if (i % (size_t)shape->context == 0)
            pl_decoder_clear(j->decoder, 0);
        PL_CHECK(pl_decoder_prefill(j->decoder, 0, &token, 1, j->logits));
        if (fwrite(j->logits, sizeof(float), V, j->out) != V)
            return pl_fail(PL_ERR_IO, "the logits could not be written");
    }
    return PL_OK;
}

static void close_job(job *j)
{
    if (j->out)
        fclose(j->out);
    pl_free(j->logits);
    pl_buf_destroy(&j->tokens);
    pl_decoder_destroy(&j->decoder);
    pl_model_destroy(&j->model);
    pl_backend_close(&j->backend);
    pl_free(j->params);
    pl_topology_destroy(&j->topology);
    pl_import_close(&j->import);
}

int main(int argc, char **argv)
{
    job j;
    memset(&j, 0, sizeof j);
    if (argc != 4) {
        fprintf(stderr, "usage: path_logits FOLDER TOKENS LOGITS\n");
        return 64;
    }
    pl_status status = open_job(&j, argv);
    if (status == PL_OK)
        status = write_logits(&j);
    if (status != PL_OK)
        fprintf(stderr, "path_logits: %s\n", pl_last_error());
    close_job(&j);
    return pl_status_exit_code(status);
}
