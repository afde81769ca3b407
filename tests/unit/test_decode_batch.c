/* folder: modules; label: unit */
/* Tests a decoder with several slots. Weights of one byte (int8) must give nearly the
 * same logits as weights of four bytes (f32). test_module compares sequences that are
 * decoded together with the same sequences alone. */
#include "tests/support/shape.h"
#include "tests/support/pairs.h"

enum { VOCAB = 251, CONTEXT = 40, SLOTS = 9, WORDS = 12 };

static pl_topology *small_topology(void)
{
    const pl_shape shape = SHAPE(VOCAB, 72, 4, 2, 18, 150, 3, CONTEXT, .tied = true,
                                 .rope_theta = 10000.0, .qk_norm = true);
    return one_path(&shape);
}

static int32_t word(int i, int k)
{
    return (int32_t)((31 * i + 17 * k + i * k * k + 3) % VOCAB);
}

static int prompt_length(int i)
{
    return 1 + 3 * i % 7;
}

/* Computes the logits after each word of sequence i, which is alone in a decoder with
 * one slot. */
static void read_alone(pl_model *model, int i, float (*logits)[VOCAB])
{
    OWNED(pl_decoder_destroy) pl_decoder *alone;
    int32_t words[WORDS];
    int n = prompt_length(i);
    for (int k = 0; k < WORDS; k++)
        words[k] = word(i, k);
    assert_ok(pl_decoder_create(model, 1, &alone));
    assert_ok(pl_decoder_prefill(alone, 0, words, n, logits[n - 1]));
    for (int k = n; k < WORDS; k++)
        assert_ok(pl_decoder_prefill(alone, 0, words + k, 1, logits[k]));
}

PL_TEST(weights_of_one_byte_move_logits_by_little)
{
    pl_backend *be[2] = {open_side("cpu", "f32", 1), open_side("cpu", "int8", 1)};
    OWNED(pl_topology_destroy) pl_topology *t = small_topology();
    float logits[2][WORDS][VOCAB];
    double error = 0.0, size = 0.0;
    for (int i = 0; i < SLOTS; i++) {
        for (int side = 0; side < 2; side++) {
            OWNED(pl_model_destroy) pl_model *model = fresh_reader(t, be[side]);
            read_alone(model, i, logits[side]);
        }
        for (int k = prompt_length(i) - 1; k < WORDS; k++)
            for (int v = 0; v < VOCAB; v++) {
                const double want = (double)logits[0][k][v];
                error += pow((double)logits[1][k][v] - want, 2);
                size += want * want;
            }
    }
    print_message("int8 against f32: normalised mean-square error %.2g\n",
                  error / size);
    assert_true(error / size < 1e-3);
    assert_true(error > 0.0); /* otherwise int8 was not used */
    pl_backend_close(&be[0]);
    pl_backend_close(&be[1]);
}

PL_TEST(int8_is_for_decoding_and_not_for_ref)
{
    OWNED(pl_backend_close) pl_backend *be = NULL;
    pl_backend_options options = {.name = "ref", .n_threads = 1, .precision = "int8"};
    assert_int_equal(pl_backend_open(&options, &be), PL_ERR_UNSUPPORTED);
    be = open_side("cpu", "int8", 1);
    OWNED(pl_topology_destroy) pl_topology *t = small_topology();
    OWNED(pl_model_destroy) pl_model *model = NULL;
    pl_model_options training = {.batch = 1, .context = CONTEXT, .training = true};
    assert_int_equal(pl_model_create(be, t, &training, &model), PL_ERR_UNSUPPORTED);
    assert_null(model);
    model = fresh_reader(t, be);
    const int32_t tokens[2] = {1, 2};
    float losses[2];
    assert_int_equal(pl_model_losses(model, tokens, tokens, 1, 2, losses),
                     PL_ERR_UNSUPPORTED);
}

PL_TEST(what_is_no_step_is_refused_and_changes_nothing)
{
    OWNED(pl_backend_close) pl_backend *be = open_side("ref", "f32", 1);
    OWNED(pl_topology_destroy) pl_topology *t = small_topology();
    OWNED(pl_model_destroy) pl_model *model = fresh_reader(t, be);
    OWNED(pl_decoder_destroy) pl_decoder *d;
    float logits[2 * VOCAB];
    const int32_t twice[] = {1, 1}, beyond[] = {0, 2}, both[] = {0, 1};
    const int32_t words[] = {3, 4}, unknown[] = {3, VOCAB};
    assert_int_equal(pl_decoder_create(model, 0, &d), PL_ERR_ARG);
    assert_int_equal(pl_decoder_create(model, CONTEXT + 1, &d), PL_ERR_ARG);
    assert_null(d);
    assert_ok(pl_decoder_create(model, 2, &d));
    assert_int_equal(pl_decoder_prefill(d, 2, words, 2, logits), PL_ERR_ARG);
    assert_ok(pl_decoder_prefill(d, 1, words, 2, logits));
    assert_int_equal(pl_decoder_step(d, twice, words, 2, logits), PL_ERR_ARG);
    assert_int_equal(pl_decoder_step(d, beyond, words, 2, logits), PL_ERR_ARG);
    assert_int_equal(pl_decoder_step(d, both, words, 0, logits), PL_ERR_ARG);
    assert_int_equal(pl_decoder_step(d, both, words, 3, logits), PL_ERR_ARG);
    assert_int_equal(pl_decoder_step(d, both, unknown, 2, logits), PL_ERR_DATA);
    assert_int_equal(pl_decoder_length(d, 0), 0);
    assert_int_equal(pl_decoder_length(d, 1), 2);
    assert_ok(pl_decoder_step(d, both, words, 2, logits));
    pl_decoder_clear(d, 1);
    assert_int_equal(pl_decoder_length(d, 0), 1);
    assert_int_equal(pl_decoder_length(d, 1), 0);
}
