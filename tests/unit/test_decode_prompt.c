/* folder: modules; label: unit */
/* Tests prompts so long that a decoder reads them in several pieces. Their logits must
 * be nearly those of reading token by token. If the caller gives the pieces one by one,
 * the logits must have the same bytes as for the whole prompt. */
#include "tests/support/shape.h"
#include "tests/support/pairs.h"

enum { VOCAB = 131, CONTEXT = 1040, SLOTS = 2 };

static const int lengths[] = {1, 31, 512, 513, 1025};
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };

static pl_topology *small_topology(void)
{
    const pl_shape shape =
        SHAPE(VOCAB, 48, 4, 2, 12, 72, 2, CONTEXT, .tied = true, .rope_theta = 10000.0);
    return one_path(&shape);
}

static void fill(int32_t *tokens)
{
    for (int i = 0; i < CONTEXT; i++)
        tokens[i] = (int32_t)(pl_random_u32(3, 8, (uint64_t)i) % VOCAB);
}

static double loss_of(const float *logits, int32_t target)
{
    double sum = 0;
    for (int v = 0; v < VOCAB; v++)
        sum += exp((double)logits[v] - (double)logits[target]);
    return log(sum);
}

/* Compares the losses that `d` computes for a prompt with the losses that follow from
 * `each`, the reference backend's logits after each token. */
static void check_losses(const pair *p, pl_decoder *d, const int32_t *tokens,
                         float (*each)[VOCAB])
{
    enum { N = 1027 };
    float losses[N];
    double want[N];
    pl_decoder_clear(d, 0);
    assert_ok(pl_decoder_prefill_losses(d, 0, tokens, tokens + 1, N, losses));
    assert_int_equal(pl_decoder_length(d, 0), N);
    for (int i = 0; i < N; i++)
        want[i] = loss_of(each[i], tokens[i + 1]);
    const double error = naive_error(losses, want, N);
    if (!(error <= 100.0 * p->tolerance + 1e-10))
        fail_msg("%s: losses of a prompt: error %g", p->label, error);
    /* A token that is not in the vocabulary must change nothing. */
    const int32_t odd[] = {1, VOCAB};
    assert_int_equal(pl_decoder_prefill_losses(d, 0, odd, odd, 2, losses), PL_ERR_DATA);
    assert_int_equal(pl_decoder_length(d, 0), N);
}

/* Returns the logits after each token, if the reference backend reads the text token by
 * token. It reads the text for the first pair, and the logits are kept for all. */
static float (*read_by_token(pl_backend *ref, const pl_topology *t,
                             const int32_t *tokens))[VOCAB]
{
    static float each[CONTEXT][VOCAB];
    static bool is_read;
    pl_decoder *d;
    if (is_read)
        return each;
    pl_model *model = fresh_reader(t, ref);
    assert_ok(pl_decoder_create(model, SLOTS, &d));
    for (int i = 0; i < CONTEXT; i++)
        assert_ok(pl_decoder_prefill(d, 0, tokens + i, 1, each[i]));
    pl_decoder_destroy(&d);
    pl_model_destroy(&model);
    is_read = true;
    return each;
}

PAIR_TEST(long_prompts_give_the_logits_of_single_tokens)
{
    int32_t tokens[CONTEXT];
    float got[VOCAB];
    double want[VOCAB];
    OWNED(pl_topology_destroy) pl_topology *t = small_topology();
    OWNED(pl_model_destroy) pl_model *model = fresh_reader(t, p->be[1]);
    OWNED(pl_decoder_destroy) pl_decoder *d;
    fill(tokens);
    float(*each)[VOCAB] = read_by_token(p->be[0], t, tokens);
    assert_ok(pl_decoder_create(model, SLOTS, &d));
    for (int i = 0; i < N_LENGTHS; i++) {
        const int n = lengths[i];
        pl_decoder_clear(d, 1);
        assert_ok(pl_decoder_prefill(d, 1, tokens, n, got));
        assert_int_equal(pl_decoder_length(d, 1), n);
        for (int v = 0; v < VOCAB; v++)
            want[v] = (double)each[n - 1][v];
        const double error = naive_error(got, want, VOCAB);
        if (!(error <= 100.0 * p->tolerance + 1e-10))
            fail_msg("%s: a prompt of %d tokens: error %g", p->label, n, error);
    }
    check_losses(p, d, tokens, each);
}

static void check_pieces(pl_backend *be, const char *what)
{
    int32_t tokens[CONTEXT];
    float whole[VOCAB], parts[VOCAB];
    OWNED(pl_topology_destroy) pl_topology *t = small_topology();
    OWNED(pl_model_destroy) pl_model *model = fresh_reader(t, be);
    OWNED(pl_decoder_destroy) pl_decoder *d;
    fill(tokens);
    assert_ok(pl_decoder_create(model, SLOTS, &d));
    for (int i = 0; i < N_LENGTHS; i++) {
        const int n = lengths[i];
        int piece = 0;
        pl_decoder_clear(d, 0), pl_decoder_clear(d, 1);
        assert_ok(pl_decoder_prefill(d, 0, tokens, n, whole));
        for (int at = 0; at < n; at += piece) {
            piece = pl_decoder_piece(d, 1, n - at);
            assert_in_range(piece, 1, n - at);
            assert_ok(pl_decoder_prefill(d, 1, tokens + at, piece,
                                         at + piece < n ? NULL : parts));
            /* the sequence in slot 0 gets one more token between two pieces */
            if (at + piece < n && pl_decoder_length(d, 0) < CONTEXT) {
                const int32_t other = 0, token = tokens[at];
                float heard[VOCAB];
                assert_ok(pl_decoder_step(d, &other, &token, 1, heard));
            }
        }
        if (memcmp(whole, parts, sizeof whole) != 0)
            fail_msg("%s: the logits of a prompt of %d tokens differ when it is read "
                     "in pieces",
                     what, n);
    }
}

/* The context of take_logits, which computes the loss of each target from the logits
 * after the token before it. */
typedef struct by_logits {
    const int32_t *targets;
    float *losses;
} by_logits;

static pl_status take_logits(void *context, int first, int count, const float *logits)
{
    const by_logits *b = context;
    for (int i = 0; i < count; i++)
        b->losses[first + i] =
            (float)loss_of(logits + (size_t)i * VOCAB, b->targets[first + i]);
    return PL_OK;
}

static void check_losses_of_logits(pl_backend *be)
{
    enum { N = 40 };
    int32_t tokens[CONTEXT];
    float losses[N], wanted[N], logits[SLOTS * VOCAB];
    by_logits b = {tokens + 1, wanted};
    OWNED(pl_topology_destroy) pl_topology *t = small_topology();
    OWNED(pl_model_destroy) pl_model *model = fresh_reader(t, be);
    OWNED(pl_decoder_destroy) pl_decoder *d;
    fill(tokens);
    assert_ok(pl_decoder_create(model, SLOTS, &d));
    assert_ok(pl_decoder_prefill_all(d, 0, tokens, N, logits, take_logits, &b));
    assert_ok(pl_decoder_prefill_losses(d, 1, tokens, tokens + 1, N, losses));
    for (int i = 0; i < N; i++)
        assert_true(fabsf(losses[i] - wanted[i]) < 1e-3f * (1 + wanted[i]));
}

PL_TEST(losses_are_those_of_the_logits)
{
    static const char *const precisions[] = {"f32", "bf16", "int8"};
    for (int i = 0; i < 3; i++) {
        OWNED(pl_backend_close) pl_backend *be = open_side("cpu", precisions[i], 2);
        if (be)
            check_losses_of_logits(be);
    }
}

PL_TEST(pieces_give_the_bytes_of_the_whole)
{
    static const char *const precisions[] = {"f32", "bf16", "int8"};
    for (int i = 0; i < 3; i++)
        for (int threads = 1; threads < 3; threads++) {
            OWNED(pl_backend_close)
            pl_backend *be = open_side("cpu", precisions[i], threads);
            if (be)
                check_pieces(be, be->device);
        }
    OWNED(pl_backend_close) pl_backend *ref = open_side("ref", "f32", 1);
    check_pieces(ref, "ref");
}

PL_TEST(an_unknown_token_far_on_changes_nothing)
{
    int32_t tokens[CONTEXT];
    float logits[VOCAB], again[VOCAB];
    OWNED(pl_backend_close) pl_backend *be = open_side("cpu", "f32", 1);
    OWNED(pl_topology_destroy) pl_topology *t = small_topology();
    OWNED(pl_model_destroy) pl_model *model = fresh_reader(t, be);
    OWNED(pl_decoder_destroy) pl_decoder *d;
    fill(tokens);
    assert_ok(pl_decoder_create(model, 1, &d));
    assert_ok(pl_decoder_prefill(d, 0, tokens, 40, logits));
    const int32_t good = tokens[550];
    tokens[550] = VOCAB;
    assert_int_equal(pl_decoder_prefill(d, 0, tokens + 40, 520, logits), PL_ERR_DATA);
    assert_int_equal(pl_decoder_length(d, 0), 40);
    tokens[550] = good;
    assert_ok(pl_decoder_prefill(d, 0, tokens + 40, 520, logits));
    pl_decoder_clear(d, 0);
    assert_ok(pl_decoder_prefill(d, 0, tokens, 40, again));
    assert_ok(pl_decoder_prefill(d, 0, tokens + 40, 520, again));
    assert_memory_equal(logits, again, sizeof logits);
}
