/* Defines the functions of word_model.h. */
#include "tests/support/shape.h"
#include "tests/support/word_model.h"

pl_topology *topology;
pl_backend *backend;
pl_model *model;

void open_word_model(const char *name, const char *precision, int context)
{
    const pl_shape shape = SHAPE(WORD_VOCAB, 32, 2, 1, 16, 48, 2, context, .tied = true,
                                 .rope_theta = 10000.0);
    pl_backend_options be = {.name = name, .n_threads = 1, .precision = precision};
    pl_topology_spec spec = {.replicas = 1};
    pl_model_options options = {.batch = 1, .context = context};
    assert_ok(pl_backend_open(&be, &backend));
    assert_ok(pl_topology_parse_levels("1", &spec));
    assert_ok(pl_topology_create(&shape, &spec, &topology));
    assert_ok(pl_model_create(backend, topology, &options, &model));
    const size_t n = pl_topology_path_params(topology);
    float *params = pl_alloc(n * sizeof *params);
    for (size_t i = 0; i < n; i++)
        params[i] = 0.3f * pl_random_normal(7, 1, i);
    assert_ok(pl_model_load(model, params));
    pl_free(params);
}

void close_word_model(void)
{
    pl_model_destroy(&model);
    pl_topology_destroy(&topology);
    pl_backend_close(&backend);
}

pl_status tell_text(void *context, const char *text, size_t len)
{
    pl_buf_append(&((told *)context)->text, text, len);
    return PL_OK;
}

pl_status tell_score(void *context, const pl_token_score *score)
{
    pl_buf_append(&((told *)context)->scores, score, sizeof *score);
    return PL_OK;
}

void tell_done(void *context, pl_status status, const pl_generate_result *r)
{
    told *t = context;
    t->status = status;
    t->result = *r;
    t->n_done++;
}

void told_clear(told *t)
{
    pl_buf_destroy(&t->text);
    pl_buf_destroy(&t->scores);
}

pl_batch_request told_request(told *t, const int32_t *prompt, int n_prompt,
                              const pl_generate_options *options)
{
    return (pl_batch_request){.prompt = prompt,
                              .n_prompt = n_prompt,
                              .options = options,
                              .emit = tell_text,
                              .done = tell_done,
                              .context = t,
                              .score = tell_score};
}
