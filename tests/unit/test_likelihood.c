/* folder: serve; label: unit */
#include "serve/serve.h"
#include "tests/support/pairs.h"
#include "tests/support/shape.h"

enum { VOCAB = 40, CONTEXT = 8 };
static pl_topology *topology;
static pl_backend *backend;
static pl_model *model;
static pl_decoder *decoder;

static int open_model(void **state)
{
    const pl_shape shape =
        SHAPE(VOCAB, 16, 2, 2, 8, 24, 2, CONTEXT, .tied = true, .rope_theta = 100.0);
    const pl_model_options options = {.batch = 1, .context = CONTEXT};
    (void)state;
    backend = open_side("ref", "f32", 1);
    topology = one_path(&shape);
    assert_ok(pl_model_create(backend, topology, &options, &model));
    size_t n = (size_t)pl_topology_path_params(topology);
    OWNED(free_memory) float *params = pl_alloc(n * sizeof *params);
    init_path(topology, 7, params);
    for (size_t i = 0; i < n; ++i)
        params[i] *= 3.0f; /* so that probabilities differ */
    assert_ok(pl_model_load(model, params));
    assert_ok(pl_decoder_create(model, 1, &decoder));
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    pl_decoder_destroy(&decoder);
    pl_model_destroy(&model);
    pl_topology_destroy(&topology);
    pl_backend_close(&backend);
    return 0;
}

static double nats_by_decoding(const int32_t *tokens, int n)
{
    float logits[VOCAB];
    double nats = 0.0;
    pl_decoder_clear(decoder, 0);
    for (int t = 0; t + 1 < n; ++t) {
        double sum = 0.0;
        assert_ok(pl_decoder_prefill(decoder, 0, &tokens[t], 1, logits));
        for (int v = 0; v < VOCAB; ++v)
            sum += exp((double)logits[v]);
        nats += log(sum) - (double)logits[tokens[t + 1]];
    }
    return nats;
}

PL_TEST(nats_are_those_of_each_token_after_the_first)
{
    const int32_t tokens[CONTEXT + 1] = {PL_TOKEN_BOS, 7, 30, 7, 12, 12, 39, 3, 20};
    double before = 0.0;
    for (int n = 2; n <= CONTEXT + 1; ++n) {
        double nats, wanted = nats_by_decoding(tokens, n);
        assert_ok(pl_likelihood_nats(model, tokens, n, &nats));
        assert_true(fabs(nats - wanted) < 1e-4 * wanted);
        assert_true(nats > before);
        before = nats;
    }
}

PL_TEST(a_text_of_one_token_has_no_likelihood)
{
    const int32_t tokens[] = {PL_TOKEN_BOS};
    double nats;
    assert_int_equal(pl_likelihood_nats(model, tokens, 1, &nats), PL_ERR_ARG);
    assert_int_equal(pl_likelihood_nats(model, tokens, 0, &nats), PL_ERR_ARG);
}

PL_TEST(the_path_with_the_fewest_nats_answers)
{
    const double nats[] = {40.5, 31.25, 33.0, 39.0};
    double margin;
    int path;
    for (int n = 2; n <= 4; ++n) {
        assert_ok(pl_likelihood_choose(nats, n, &path, &margin));
        assert_int_equal(path, 1);
        assert_true(margin == (n == 2 ? 9.25 : 1.75));
    }
    const double rising[] = {1.0, 2.0, 3.0};
    assert_ok(pl_likelihood_choose(rising, 3, &path, &margin));
    assert_int_equal(path, 0);
    assert_true(margin == 1.0);
}

PL_TEST(the_lower_of_two_equal_paths_answers)
{
    const double nats[] = {8.0, 5.0, 5.0, 5.0};
    double margin;
    int path;
    assert_ok(pl_likelihood_choose(nats, 4, &path, &margin));
    assert_int_equal(path, 1);
    assert_true(margin == 0.0);
}

PL_TEST(a_single_path_has_no_margin)
{
    const double nats[] = {8.0};
    double margin;
    int path;
    assert_ok(pl_likelihood_choose(nats, 1, &path, &margin));
    assert_int_equal(path, 0);
    assert_true(isinf(margin) && margin > 0);
}

PL_TEST(paths_without_finite_nats_are_left_out)
{
    const double nats[] = {(double)NAN, (double)INFINITY, 50.0, (double)NAN, 40.0};
    double margin;
    int path;
    assert_ok(pl_likelihood_choose(nats, 5, &path, &margin));
    assert_int_equal(path, 4);
    assert_true(margin == 10.0);
    assert_fails(pl_likelihood_choose(nats, 2, &path, &margin), PL_ERR_NUMERIC,
                 "none of the 2 paths");
}

PL_SUITE(open_model, close_model)
