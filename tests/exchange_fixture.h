/* What the tests of exchange share: a small path with every kind of tensor, its
 * parameters drawn from a key, and a tokenizer. */
#ifndef PL_TESTS_EXCHANGE_FIXTURE_H
#define PL_TESTS_EXCHANGE_FIXTURE_H
#include "tests/test_corpus_support.h"
#include "serve/serve.h"

enum { PIECES = 400, VOCAB = 416 };

/* Grouped heads that together are wider than the stream, and an untied head. */
static const pl_shape wide_shape = {.vocab = VOCAB,
                                    .width = 32,
                                    .n_heads = 4,
                                    .n_kv_heads = 2,
                                    .head_size = 12,
                                    .ffn = 40,
                                    .n_blocks = 4,
                                    .context = 24,
                                    .tied = false,
                                    .rope_theta = 12345.5,
                                    .norm_eps = 3e-6};

static pl_buf tokenizer_model;

/* 2x2 with a private block: the tensors do not lie in the order of the blocks. */
static inline pl_topology *make_topology(const pl_shape *shape)
{
    pl_topology_spec spec = {.replicas = 1};
    pl_topology *t = NULL;
    assert_ok(pl_topology_parse_levels("2x2", &spec));
    assert_ok(pl_topology_parse_private("1", shape->n_blocks, &spec));
    assert_ok(pl_topology_create(shape, &spec, &t));
    return t;
}

static inline float *make_params(const pl_topology *t, uint64_t key)
{
    size_t n = pl_topology_path_params(t);
    float *params = malloc(n * sizeof *params);
    assert_non_null(params);
    for (size_t i = 0; i < n; i++)
        params[i] = 0.2f * pl_random_normal(key, 7, i);
    return params;
}

static inline pl_export make_export(const pl_topology *t, const float *params)
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

static inline int open_exchange(void **state)
{
    pl_buf text = {0};
    if (make_scratch(state) != 0)
        return -1;
    make_words(1, 60000, &text);
    const char *texts[] = {(const char *)text.data};
    pl_status status = pl_tokenizer_train(texts, &text.len, 1, PIECES, 1,
                                          in_scratch("tokenizer.model"));
    pl_buf_destroy(&text);
    if (status == PL_OK)
        status = pl_read_file(in_scratch("tokenizer.model"), &tokenizer_model);
    return status == PL_OK ? 0 : -1;
}

static inline int close_exchange(void **state)
{
    pl_buf_destroy(&tokenizer_model);
    return remove_scratch(state);
}

#endif
