/* folder: modules; label: unit */
/* Compares decoding with a cache to forward passes without a cache, on the reference
 * backend. */
#include "tests/support/rig.h"

/* Compares the logits after token n with a forward pass over the n tokens. The pass
 * gives only the loss of a given target v, which is log(sum of exp(logits)) -
 * logits[v]. So the pass is repeated for every v. */
static void expect_logits(const rig *r, const int32_t *tokens, int n,
                          const float *logits)
{
    int V = r->shape.vocab;
    float losses[8];
    int32_t targets[8] = {0};
    double lse = 0.0;
    for (int v = 0; v < V; v++)
        lse += exp((double)logits[v]);
    for (int v = 0; v < V; v++) {
        targets[n - 1] = v;
        assert_ok(pl_model_losses(r->model, tokens, targets, 1, n, losses));
        assert_true(fabs((double)losses[n - 1] - (log(lse) - (double)logits[v])) <
                    1e-5);
    }
}

PL_TEST(decoding_equals_a_full_forward_pass)
{
    const int32_t tokens[] = {1, 7, 12, 0, 7, 3, 3, 9};
    static const int feeds[][4] = {{8}, {1, 1, 6}, {3, 1, 1, 3}, {7, 1}};
    for (int i = 0; i < N_SHAPES * 4; i++) {
        pl_shape shape = shape_case(i / 4);
        OWNED(close_rig) rig r = open_rig(&shape, 1, i % 2 == 0);
        pl_decoder *decoder;
        float logits[13];
        assert_ok(pl_decoder_create(r.model, 1, &decoder));
        for (int k = 0, at = 0; k < 4 && at < 8; k++) {
            assert_ok(
                pl_decoder_prefill(decoder, 0, tokens + at, feeds[i % 4][k], logits));
            at += feeds[i % 4][k];
            assert_int_equal(pl_decoder_length(decoder, 0), at);
            expect_logits(&r, tokens, at, logits);
        }
        pl_decoder_destroy(&decoder);
        assert_null(decoder);
    }
}

PL_TEST(a_reset_decoder_forgets)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 1, false);
    OWNED(pl_decoder_destroy) pl_decoder *decoder;
    float first[13], again[13];
    const int32_t tokens[] = {4, 5, 6}, other[] = {9, 9};
    assert_ok(pl_decoder_create(r.model, 1, &decoder));
    assert_ok(pl_decoder_prefill(decoder, 0, tokens, 3, first));
    assert_ok(pl_decoder_prefill(decoder, 0, other, 2, again));
    assert_memory_not_equal(first, again, sizeof first);
    pl_decoder_clear(decoder, 0);
    assert_int_equal(pl_decoder_length(decoder, 0), 0);
    assert_ok(pl_decoder_prefill(decoder, 0, tokens, 3, again));
    assert_memory_equal(first, again, sizeof first);
}

PL_TEST(two_decoders_of_one_model_do_not_disturb_each_other)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 1, false);
    OWNED(pl_decoder_destroy) pl_decoder *a, *b;
    float alone[13], mixed[13];
    const int32_t one[] = {4, 5, 6, 2}, two[] = {9, 8};
    assert_ok(pl_decoder_create(r.model, 1, &a));
    assert_ok(pl_decoder_create(r.model, 1, &b));
    assert_ok(pl_decoder_prefill(a, 0, one, 3, alone));
    assert_ok(pl_decoder_prefill(a, 0, one + 3, 1, alone));
    pl_decoder_clear(a, 0);
    assert_ok(pl_decoder_prefill(a, 0, one, 3, mixed));
    assert_ok(pl_decoder_prefill(b, 0, two, 2, mixed));
    assert_ok(pl_decoder_prefill(a, 0, one + 3, 1, mixed));
    assert_memory_equal(alone, mixed, sizeof alone);
}

PL_TEST(a_full_context_is_refused_and_the_decoder_stays)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 1, false);
    OWNED(pl_decoder_destroy) pl_decoder *decoder;
    float logits[13];
    const int32_t tokens[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, bad[] = {3, 13};
    /* The mark PL_TEXT_BEGINS is not allowed in a prompt. */
    const int32_t marked[] = {3, 4 | PL_TEXT_BEGINS};
    assert_ok(pl_decoder_create(r.model, 1, &decoder));
    assert_int_equal(pl_decoder_prefill(decoder, 0, tokens, 9, logits), PL_ERR_DATA);
    assert_ok(pl_decoder_prefill(decoder, 0, tokens, 6, logits));
    assert_int_equal(pl_decoder_prefill(decoder, 0, tokens, 3, logits), PL_ERR_DATA);
    assert_int_equal(pl_decoder_prefill(decoder, 0, bad, 2, logits), PL_ERR_DATA);
    assert_int_equal(pl_decoder_prefill(decoder, 0, marked, 2, logits), PL_ERR_DATA);
    assert_int_equal(pl_decoder_prefill(decoder, 0, tokens, 0, logits), PL_ERR_ARG);
    assert_int_equal(pl_decoder_length(decoder, 0), 6);
    assert_ok(pl_decoder_prefill(decoder, 0, tokens + 6, 2, logits));
    expect_logits(&r, tokens, 8, logits);
}

PL_SUITE(open_backend, close_backend)
