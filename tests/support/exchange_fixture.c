/* Defines the functions of exchange_fixture.h. */
#include "tests/support/exchange_fixture.h"

pl_buf tokenizer_model;

pl_topology *make_topology(const pl_shape *shape)
{
    pl_topology_spec spec = {.replicas = 1};
    pl_topology *t = NULL;
    assert_ok(pl_topology_parse_levels("2x2", &spec));
    assert_ok(pl_topology_parse_private("1", shape->n_blocks, &spec));
    assert_ok(pl_topology_create(shape, &spec, &t));
    return t;
}

float *make_params(const pl_topology *t, uint64_t key)
{
    size_t n = pl_topology_path_params(t);
    float *params = pl_alloc(n * sizeof *params);
    for (size_t i = 0; i < n; i++)
        params[i] = 0.2f * pl_random_normal(key, 7, i);
    return params;
}

pl_export make_export(const pl_topology *t, const float *params)
{
    static const pl_note notes[] = {{"pathloom.arm", "mix"},
                                    {"pathloom.module.L1.E0", "4 abc"}};
    return (pl_export){.name = "small \"one\"",
                       .topology = t,
                       .params = params,
                       .tokenizer_model = tokenizer_model.data,
                       .tokenizer_bytes = tokenizer_model.len,
                       .type = PL_WEIGHT_F32,
                       .notes = notes,
                       .n_notes = 2};
}

int open_exchange(void **state)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    if (make_scratch(state) != 0)
        return -1;
    make_words(1, 60000, &text);
    const char *texts[] = {(const char *)text.data};
    pl_status status = pl_tokenizer_train(texts, &text.len, 1, PIECES, 1,
                                          in_scratch("tokenizer.model"));
    if (status == PL_OK)
        status = pl_read_file(in_scratch("tokenizer.model"), &tokenizer_model);
    return status == PL_OK ? 0 : -1;
}

int close_exchange(void **state)
{
    pl_buf_destroy(&tokenizer_model);
    return remove_scratch(state);
}
