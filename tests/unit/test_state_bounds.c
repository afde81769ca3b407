/* folder: workers; label: unit
 *
 * Tests which states of a path are accepted. Random honest trainings, with the real
 * optimizers, codecs and methods and with gradients at the clip, must stay within the
 * bounds; a state just beyond a bound must be refused. */
#include "tests/support/tiny_arm.h"
#include "workers/path_state.h"

#include <math.h>

#include "tests/support/suite.h"

enum { PHASES = 6, TAU = 7, SLOT = 1 };
static const double clip = 0.5;

/* A path in training, and a second path with the same modules (its mate). */
typedef struct trial {
    pl_arm arm;
    pl_topology *topology;
    pl_contract *contracts;
    pl_backend *be;
    size_t n, n_vectors;
    float *state, *params, *gradient, *base, *work, *version;
    uint8_t *before, *after;
    int64_t phase;
    uint64_t draws;
    pl_buf sent[2]; /* updates of slot SLOT: of the path and of its mate */
    bool split;     /* whether the home has split the pair before this phase */
} trial;

static float *floats(size_t n)
{
    return pl_alloc(n * sizeof(float));
}

static trial *new_trial(pl_method method, pl_state_kind kind)
{
    trial *t = pl_alloc(sizeof *t);
    pl_arm *arm = &t->arm;
    pl_backend_options options = {.name = "ref", .n_threads = 1, .precision = "f32"};
    pl_copy_text(arm->name, sizeof arm->name, "mix");
    arm->shape = tiny_shape(1);
    arm->spec = (pl_topology_spec){.n_levels = 1, .experts = {1}, .replicas = 2};
    arm->inner = (pl_inner){.batch = 1,
                            .context = 16,
                            .tau = TAU,
                            .phases = PHASES,
                            .lr = 0.01,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .eps = 1e-8,
                            .weight_decay = 0.1,
                            .clip = clip};
    arm->outer.method = pl_method_defaults(method);
    arm->outer.method.inner_steps = TAU;
    arm->outer.state = kind;
    assert_ok(pl_codec_options_default("f32", &arm->outer.codec));
    tiny_shards(arm, 1);
    assert_ok(pl_topology_create(&arm->shape, &arm->spec, &t->topology));
    assert_ok(pl_backend_open(&options, &t->be));
    t->n = pl_topology_path_params(t->topology);
    return t;
}

/* Allocates what depends on the arm, which a test may have changed. */
static void begin_trial(trial *t)
{
    const size_t bytes = (size_t)pl_path_state_bytes(&t->arm, t->n) + 1;
    t->contracts = pl_contracts_create(&t->arm, t->topology);
    t->n_vectors = (size_t)pl_path_layout_of(&t->arm).n_vectors;
    t->state = floats(t->n_vectors * t->n);
    t->params = floats(t->n);
    t->base = floats(t->n);
    t->version = floats(t->n);
    t->gradient = floats(t->n);
    t->work = floats(16 * t->n);
    t->before = pl_alloc(bytes);
    t->after = pl_alloc(bytes);
    for (size_t i = 0; i < t->n; i++)
        t->params[i] = t->base[i] = t->version[i] =
            0.02f * pl_random_normal(1, 1, (uint64_t)i);
}

static void end_trial(trial **owner)
{
    OWNED(free_memory) trial *t = *owner;
    float *all[] = {t->state, t->params, t->base, t->version, t->gradient, t->work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        pl_free(all[i]);
    pl_free(t->before);
    pl_free(t->after);
    pl_buf_destroy(&t->sent[0]);
    pl_buf_destroy(&t->sent[1]);
    pl_free(t->contracts);
    pl_topology_destroy(&t->topology);
    pl_backend_close(&t->be);
    pl_arm_clear(&t->arm);
}

/* ---- what the home has ---- */
static pl_status read_version(void *context, int slot, uint64_t number, float *out)
{
    const trial *t = context;
    const pl_slot *place = pl_topology_slot(t->topology, slot);
    const float *from = number == 0 ? t->base : t->version;
    memcpy(out, from + place->offset, place->n_params * sizeof *out);
    return PL_OK;
}

static pl_status read_update(void *context, int slot, int index, int64_t round,
                             float *out)
{
    const trial *t = context;
    const size_t n = pl_topology_slot(t->topology, slot)->n_params;
    double norm;
    (void)round;
    if (slot != SLOT || t->sent[index].len == 0)
        return PL_ERR_NOT_FOUND;
    memset(out, 0, n * sizeof *out);
    return pl_codec_add(t->sent[index].data, t->sent[index].len, n, 1.0f, out, &norm);
}

static bool was_split(void *context, int slot, int64_t round)
{
    const trial *t = context;
    return slot == SLOT && round == t->phase - 1 && t->split;
}

static pl_state_claim claim_of(trial *t)
{
    return (pl_state_claim){.arm = &t->arm,
                            .topology = t->topology,
                            .contracts = t->contracts,
                            .phase = t->phase,
                            .n_phases = 1,
                            .is_known = true,
                            .before = pl_state_view_of(&t->arm, t->n, t->before),
                            .after = pl_state_view_of(&t->arm, t->n, t->after),
                            .source = {t, read_version, read_update, was_split}};
}

static pl_status check(trial *t)
{
    const pl_state_claim claim = claim_of(t);
    pl_status status = pl_state_check(&claim);
    if (status != PL_OK)
        assert_int_equal(status, PL_ERR_DATA);
    return status;
}

/* Checks the state with the values that are now in memory. */
static pl_status check_changed(trial *t)
{
    state_pack(&t->arm, t->state, t->n, t->after);
    return check(t);
}

/* ---- honest training ---- */
/* Draws a gradient: of all values, of one value (at the clip), or of a few modules; or
 * the gradient before, or one that is a little longer. */
static double draw_gradient(trial *t)
{
    const uint32_t kind = (uint32_t)(t->draws % 5);
    double squares = 0;
    for (size_t i = 0; i < t->n && kind < 3; i++) {
        const bool in = kind == 0 || (kind == 1 && i == t->draws % t->n) ||
                        (kind == 2 && i < t->n / 3);
        t->gradient[i] =
            in ? pl_random_normal(2, t->draws, (uint64_t)i) * (kind == 1 ? 1e6f : 1)
               : 0;
    }
    for (size_t i = 0; i < t->n && kind >= 3; i++)
        t->gradient[i] = t->work[i] * (kind == 4 ? 1.0556f : 1);
    memcpy(t->work, t->gradient, t->n * sizeof *t->work);
    for (size_t i = 0; i < t->n; i++)
        squares += (double)t->gradient[i] * (double)t->gradient[i];
    t->draws++;
    return sqrt(squares);
}

/* Makes one step of the optimizers, as update_apply does. */
static void make_step(trial *t, int step)
{
    const pl_inner *in = &t->arm.inner;
    const pl_schedule schedule = pl_arm_schedule(in);
    const double norm = draw_gradient(t);
    const float scale = norm > in->clip && in->clip > 0 ? (float)(in->clip / norm) : 1;
    const int64_t at = t->phase * TAU + step;
    size_t second = 0;
    for (int i = 0; i < pl_topology_n_tensors(t->topology); i++) {
        const pl_tensor *tensor = pl_topology_tensor(t->topology, i);
        const size_t first = tensor->offset;
        const size_t n = (size_t)tensor->rows * (size_t)tensor->cols;
        const pl_adamw adam = {.lr = (float)pl_learning_rate(&schedule, at),
                               .beta1 = (float)in->beta1,
                               .beta2 = (float)in->beta2,
                               .eps = (float)in->eps,
                               .weight_decay =
                                   tensor->decay ? (float)in->weight_decay : 0,
                               .step = at + 1};
        if (in->muon && tensor->block >= 0 && tensor->decay) {
            t->be->ops->muon(t->be, t->params + first, t->state + first,
                             t->gradient + first, t->work + t->n, 1, tensor->rows,
                             tensor->cols, scale, &adam);
            continue;
        }
        t->be->ops->adamw(t->be, t->params + first, t->state + first,
                          t->state + t->n + second, t->gradient + first, n, scale,
                          &adam, NULL);
        second += n;
    }
}

static void train_phase(trial *t)
{
    state_pack(&t->arm, t->state, t->n, t->before);
    for (int step = 0; step < TAU; step++)
        make_step(t, step);
}

static void end_phase(trial *t)
{
    state_round(&t->arm, t->state, t->n);
    assert_ok(check_changed(t));
}

/* ---- moments ---- */
static double sum_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

/* Makes `sum` the sum of the second moments by changing one of them. Returns whether
 * that one does not fall. */
static bool set_sum(trial *t, double sum)
{
    float *v = t->state + t->n;
    const double more = sum - sum_of(v, t->n);
    v[0] += (float)more;
    return more >= 0;
}

PL_TEST(honest_moments_are_taken_and_larger_or_smaller_ones_are_refused)
{
    static const double decays[][2] = {
        {0.9, 0.95}, {0.9, 0.999}, {0.97, 0.95}, {0, 0.5}, {0.95, 0.9999}};
    for (size_t d = 0; d < 10; d++) {
        OWNED(end_trial)
        trial *t = new_trial(PL_METHOD_DILOCO, d % 2 ? PL_STATE_BF16 : PL_STATE_F32);
        t->arm.inner.beta1 = decays[d / 2][0];
        t->arm.inner.beta2 = decays[d / 2][1];
        begin_trial(t);
        float *v = t->state + t->n;
        for (t->phase = 0; t->phase < 30; t->phase++) {
            const double before = sum_of(v, t->n);
            const double keep = pow(t->arm.inner.beta2, TAU);
            train_phase(t);
            end_phase(t);
            /* the sum just below and just above its limit */
            OWNED(free_memory) float *kept = floats(2 * t->n);
            memcpy(kept, t->state, 2 * t->n * sizeof *kept);
            const double most = keep * before + (1 - keep) * clip * clip;
            if (set_sum(t, 0.98 * most))
                assert_ok(check_changed(t));
            memcpy(t->state, kept, 2 * t->n * sizeof *kept);
            assert_true(set_sum(t, 1.04 * most));
            assert_int_equal(check_changed(t), PL_ERR_DATA);
            memcpy(t->state, kept, 2 * t->n * sizeof *kept);
            /* a second moment that fell faster than training lets it fall */
            const float old = v[3];
            float was[4];
            const pl_state_claim claim = claim_of(t);
            pl_path_read(claim.before.kinds[1], claim.before.at[1], t->n, 0, 4, was);
            t->state[3] = 0;
            v[3] = (float)(0.97 * keep) * was[3];
            assert_int_equal(check_changed(t), was[3] > 1e-20f ? PL_ERR_DATA : PL_OK);
            v[3] = old;
            memcpy(t->state, kept, 2 * t->n * sizeof *kept);
            assert_ok(check_changed(t));
        }
    }
}

PL_TEST(first_moments_beyond_the_second_are_refused)
{
    static const float bad[][2] = {
        {NAN, 1e-3f},      {0, NAN},        {INFINITY, 1e-3f},
        {1e-3f, INFINITY}, {0, -1e-20f},    {0.1f, 0},
        {1e-3f, 1e-7f},    {-0.04f, 1e-3f}, {0, 1e29f}};
    for (int kind = PL_STATE_F32; kind <= PL_STATE_BF16; kind++) {
        OWNED(end_trial) trial *t = new_trial(PL_METHOD_DILOCO, (pl_state_kind)kind);
        begin_trial(t);
        assert_ok(check_changed(t));
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            t->state[5] = bad[i][0], t->state[t->n + 5] = bad[i][1];
            assert_int_equal(check_changed(t), PL_ERR_DATA);
        }
        t->state[5] = -0.036f, t->state[t->n + 5] = 1e-3f;
        assert_ok(check_changed(t));
    }
}

PL_TEST(steps_without_a_target_change_no_moments)
{
    OWNED(end_trial) trial *t = new_trial(PL_METHOD_DILOCO, PL_STATE_BF16);
    begin_trial(t);
    for (t->phase = 0; t->phase < 3; t->phase++) {
        train_phase(t);
        end_phase(t);
    }
    memcpy(t->before, t->after, (size_t)pl_path_state_bytes(&t->arm, t->n));
    assert_ok(check(t));
    /* a later clip is smaller than the moments that the path has */
    t->arm.inner.clip = clip / 100;
    assert_ok(check(t));
    t->state[t->n] += 1e-3f;
    assert_int_equal(check_changed(t), PL_ERR_DATA);
}

PL_TEST(states_that_were_not_uploaded_widen_the_bounds_by_their_steps)
{
    for (int kind = PL_STATE_F32; kind <= PL_STATE_BF16; kind++) {
        OWNED(end_trial) trial *t = new_trial(PL_METHOD_DILOCO, (pl_state_kind)kind);
        t->arm.inner.beta2 = 0.99;
        begin_trial(t);
        const size_t bytes = (size_t)pl_path_state_bytes(&t->arm, t->n);
        OWNED(free_memory) uint8_t *first = pl_alloc(bytes);
        state_pack(&t->arm, t->state, t->n, first);
        for (t->phase = 0; t->phase < 4; t->phase++) {
            train_phase(t);
            state_round(&t->arm, t->state, t->n);
        }
        state_pack(&t->arm, t->state, t->n, t->after);
        memcpy(t->before, first, bytes);
        t->phase = 0;
        pl_state_claim claim = claim_of(t);
        claim.n_phases = 4;
        assert_ok(pl_state_check(&claim));
        claim.n_phases = 1;
        assert_int_equal(pl_state_check(&claim), PL_ERR_DATA);
        claim.is_known = false;
        assert_ok(pl_state_check(&claim));
        t->state[t->n] = 1.2f * (float)(clip * clip);
        state_pack(&t->arm, t->state, t->n, t->after);
        assert_int_equal(pl_state_check(&claim), PL_ERR_DATA);
    }
}

PL_TEST(muons_momentum_is_at_most_a_mean_of_clipped_gradients)
{
    for (int kind = PL_STATE_F32; kind <= PL_STATE_BF16; kind++) {
        OWNED(end_trial) trial *t = new_trial(PL_METHOD_DILOCO, (pl_state_kind)kind);
        t->arm.inner.muon = true;
        begin_trial(t);
        for (t->phase = 0; t->phase < 20; t->phase++) {
            train_phase(t);
            end_phase(t);
        }
        const pl_tensor *tensor = NULL;
        for (int i = 0; !tensor || tensor->block < 0 || !tensor->decay; i++)
            tensor = pl_topology_tensor(t->topology, i);
        t->state[tensor->offset] = 1.2f * (float)clip;
        assert_int_equal(check_changed(t), PL_ERR_DATA);
    }
}

PL_TEST(frozen_modules_keep_their_moments)
{
    int frozen[] = {SLOT};
    OWNED(end_trial) trial *t = new_trial(PL_METHOD_DILOCO, PL_STATE_F32);
    begin_trial(t);
    train_phase(t);
    end_phase(t);
    t->arm.frozen = frozen;
    t->arm.n_frozen = 1;
    assert_int_equal(check(t), PL_ERR_DATA);
    /* without the state before, frozen moments do not count in the sum */
    pl_state_claim claim = claim_of(t);
    claim.is_known = false;
    t->state[t->n + pl_topology_slot(t->topology, SLOT)->offset] = (float)(clip * clip);
    assert_int_equal(check_changed(t), PL_ERR_DATA);
    assert_ok(pl_state_check(&claim));
    memcpy(t->before, t->after, (size_t)pl_path_state_bytes(&t->arm, t->n));
    assert_ok(check(t));
    t->arm.frozen = NULL;
    t->arm.n_frozen = 0;
}

/* ---- own parameters ---- */
PL_TEST(own_parameters_move_at_most_as_far_as_a_phase_can)
{
    static const pl_state_kind kinds[] = {PL_STATE_F32, PL_STATE_F24, PL_STATE_BF16};
    for (size_t i = 0; i < 9; i++) {
        OWNED(end_trial) trial *t = new_trial(PL_METHOD_STREAMING, PL_STATE_F32);
        t->arm.outer.own = kinds[i % 3];
        t->arm.outer.method.fragments = 1;
        t->arm.outer.method.overlap = 3;
        t->arm.outer.method.mix = (const double[]){0, 0.5, 1}[i / 3];
        t->arm.inner.muon = i % 2;
        begin_trial(t);
        float *own = t->state + (size_t)pl_path_layout_of(&t->arm).params * t->n;
        const size_t bytes = t->n * sizeof *own;
        for (t->phase = 0; t->phase < PHASES; t->phase++) {
            for (size_t k = 0; k < t->n; k++)
                t->version[k] =
                    0.02f * pl_random_normal(3, (uint64_t)t->phase, (uint64_t)k);
            if (t->phase > 0)
                memcpy(t->params, own, bytes);
            state_pack(&t->arm, t->state, t->n, t->before);
            for (int step = 0; step < TAU; step++) {
                if (step == 3 && t->phase > 0)
                    pl_streaming_mix(t->params, t->version, t->arm.outer.method.mix,
                                     t->n);
                t->draws = 0; /* the same direction at each step: the longest way */
                make_step(t, step);
            }
            memcpy(own, t->params, bytes);
            end_phase(t);
        }
        t->phase--;
        const pl_slot *place = pl_topology_slot(t->topology, SLOT);
        const double moved = pl_phase_movement(&t->arm, t->phase, place->n_params, 0);
        for (size_t k = 0; k < place->n_params; k++)
            own[place->offset + k] +=
                (float)(2.2 * moved / sqrt((double)place->n_params));
        assert_int_equal(check_changed(t), PL_ERR_DATA);
        /* a path that has lost its state begins with the versions, not with its own */
        memcpy(own, t->version, bytes);
        memset(t->state, 0, 2 * bytes);
        state_round(&t->arm, t->state, t->n);
        state_pack(&t->arm, t->state, t->n, t->after);
        pl_state_claim claim = claim_of(t);
        claim.before = pl_state_view_of(&t->arm, t->n, NULL);
        assert_int_equal(pl_state_check(&claim),
                         t->arm.outer.method.mix > 0 ? PL_ERR_DATA : PL_OK);
        claim.is_fresh = true;
        assert_ok(pl_state_check(&claim));
    }
}

PL_TEST(a_step_is_never_longer_than_its_bound)
{
    for (int i = 0; i < 4; i++) {
        OWNED(end_trial) trial *t = new_trial(PL_METHOD_DILOCO, PL_STATE_F32);
        t->arm.inner.weight_decay = i % 2 ? 5 : 0;
        t->arm.inner.beta2 = i / 2 ? 0.999 : 0.95;
        begin_trial(t);
        OWNED(free_memory) float *start = floats(t->n);
        for (t->phase = 0; t->phase < 20; t->phase++) {
            memcpy(start, t->params, t->n * sizeof *start);
            for (int step = 0; step < TAU; step++) {
                t->draws = t->phase % 2 ? 4 : 0; /* growing, or the same direction */
                make_step(t, step);
            }
            double norm = 0, moved = 0;
            for (size_t k = 0; k < t->n; k++) {
                const double d = (double)t->params[k] - (double)start[k];
                norm += (double)start[k] * (double)start[k];
                moved += d * d;
            }
            const double most = pl_phase_movement(&t->arm, t->phase, t->n, sqrt(norm));
            assert_true(sqrt(moved) <= most);
            assert_true(i % 2 || t->phase > 0 || sqrt(moved) >= 0.8 * most);
        }
    }
}

/* ---- residuals ---- */
PL_TEST(residuals_are_at_most_what_the_codec_leaves_out)
{
    static const char *const codecs[] = {"bf16", "i8",        "i4",
                                         "topk", "i8-shared", "sketch16"};
    static const pl_state_kind kinds[] = {PL_STATE_F32, PL_STATE_BF16, PL_STATE_I8};
    for (size_t i = 0; i < 18; i++) {
        OWNED(end_trial) trial *t = new_trial(PL_METHOD_DILOCO, PL_STATE_F32);
        pl_outer *outer = &t->arm.outer;
        outer->feedback = true;
        outer->residual = kinds[i / 6];
        assert_ok(pl_codec_options_default(codecs[i % 6], &outer->codec));
        begin_trial(t);
        float *residual = t->state + (size_t)pl_path_layout_of(&t->arm).residual * t->n;
        for (t->phase = 0; t->phase < PHASES; t->phase++) {
            memcpy(t->params, t->base, t->n * sizeof *t->params);
            train_phase(t);
            for (int slot = 0; slot < pl_topology_n_slots(t->topology); slot++) {
                pl_codec_part parts[64];
                OWNED(pl_buf_destroy) pl_buf out = {0};
                const size_t at = pl_topology_slot(t->topology, slot)->offset;
                const pl_contract *of = &t->contracts[slot];
                const int n_parts = pl_codec_parts(t->topology, slot, parts);
                const pl_codec_round round = pl_round_codec(of, 0, t->phase, 0.1);
                for (size_t k = 0; k < of->n_params; k++)
                    t->work[2 * t->n + k] = t->base[at + k] - t->params[at + k];
                assert_ok(pl_codec_encode_module(&outer->codec, parts, n_parts, &round,
                                                 t->work + 2 * t->n, residual + at,
                                                 &out));
            }
            end_phase(t);
        }
        t->phase--;
        /* longer than the residual before and the longest update together */
        OWNED(free_memory) float *before = floats(t->n);
        const pl_state_claim claim = claim_of(t);
        const pl_slot *place = pl_topology_slot(t->topology, SLOT);
        pl_path_read(claim.before.kinds[2], claim.before.at[2], t->n, place->offset,
                     place->n_params, before);
        double most = 0;
        for (size_t k = 0; k < place->n_params; k++)
            most += (double)before[k] * (double)before[k];
        most = sqrt(most) + pl_phase_movement(&t->arm, t->phase, place->n_params,
                                              sqrt((double)place->n_params));
        for (size_t k = 0; k < place->n_params; k++)
            residual[place->offset + k] =
                (float)(1.3 * most / sqrt((double)place->n_params));
        assert_int_equal(check_changed(t), PL_ERR_DATA);
    }
}

/* ---- noloco ---- */
static void encode(trial *t, int index, const float *update, float *residual)
{
    pl_codec_part parts[64];
    const int n_parts = pl_codec_parts(t->topology, SLOT, parts);
    t->sent[index].len = 0;
    assert_ok(pl_codec_encode_module(&t->arm.outer.codec, parts, n_parts, NULL, update,
                                     residual, &t->sent[index]));
}

PL_TEST(what_follows_from_a_meeting_is_computed_again)
{
    OWNED(end_trial) trial *t = new_trial(PL_METHOD_NOLOCO, PL_STATE_F32);
    t->arm.outer.schedule = (pl_outer_schedule){.phases = PHASES};
    t->arm.outer.deadline_ms = 1000;
    for (int c = 0; c < PL_CLASS_COUNT; c++) {
        t->arm.outer.lr[c] = 0.7;
        t->arm.outer.momentum[c] = 0.5;
    }
    begin_trial(t);
    const pl_path_layout l = pl_path_layout_of(&t->arm);
    const pl_slot *place = pl_topology_slot(t->topology, SLOT);
    const size_t n = place->n_params, at = place->offset;
    float *x = t->state + (size_t)l.params * t->n, *own = x + at;
    float *v = t->state + (size_t)l.velocity * t->n + at;
    float *last = t->state + (size_t)l.last * t->n + at;
    float *start = t->work + 2 * t->n, *update = t->work + 3 * t->n;
    float *mate = t->work + 4 * t->n;
    const pl_holder h = {.of = &t->contracts[SLOT],
                         .base = t->base + at,
                         .params = own,
                         .velocity = v,
                         .last = last};
    memcpy(x, t->base, t->n * sizeof *x);
    for (t->phase = 0; t->phase < PHASES; t->phase++) {
        pl_holder now = h;
        now.phase = t->phase;
        state_pack(&t->arm, t->state, t->n, t->before);
        if (t->phase > 0) /* the mate's update of the round before */
            assert_ok(read_update(t, SLOT, 1, t->phase - 1, mate));
        t->split = t->phase % 3 == 2;
        assert_ok(pl_holder_begin(&now, t->phase > 0 && !t->split ? mate : NULL, NULL,
                                  start));
        memcpy(t->params, t->base, t->n * sizeof *t->params);
        memcpy(t->params + at, start, n * sizeof *start);
        for (int step = 0; step < TAU; step++)
            make_step(t, step);
        pl_holder_update(&now, start, t->params + at, update);
        encode(t, 0, update, NULL);
        pl_holder_keep(&now, start, t->params + at, update, NULL);
        end_phase(t);
        float *const changed[] = {own, v, last};
        for (int i = 0; i < 3; i++) {
            const float old = changed[i][n / 2];
            changed[i][n / 2] += 1e-3f;
            assert_int_equal(check_changed(t), PL_ERR_DATA);
            changed[i][n / 2] = old;
        }
        assert_ok(check_changed(t));
        if (t->phase > 0) { /* a path that did not do what the home has decided */
            t->split = !t->split;
            assert_int_equal(check(t), PL_ERR_DATA);
            t->split = !t->split;
        }
        if (t->phase > 0 && !t->split) { /* or did not use its mate's update */
            pl_buf mates = t->sent[1];
            t->sent[1] = (pl_buf){0};
            for (size_t k = 0; k < n; k++)
                update[k] = mate[k] + 0.01f;
            encode(t, 1, update, NULL);
            assert_int_equal(check(t), PL_ERR_DATA);
            pl_buf_destroy(&t->sent[1]);
            t->sent[1] = mates;
        }
        for (size_t k = 0; k < n; k++)
            update[k] = 0.01f * pl_random_normal(4, (uint64_t)t->phase, (uint64_t)k);
        encode(t, 1, update, NULL);
    }
}

/* Such a state has no state before it from which its vectors could follow. */
PL_TEST(a_path_without_a_state_begins_with_a_version_and_no_velocity)
{
    OWNED(end_trial) trial *t = new_trial(PL_METHOD_NOLOCO, PL_STATE_F32);
    begin_trial(t);
    const pl_path_layout l = pl_path_layout_of(&t->arm);
    const size_t at = pl_topology_slot(t->topology, SLOT)->offset, n = t->n;
    float *x = t->state + (size_t)l.params * n, *update = t->work + 2 * n;
    float *const changed[] = {x + at, t->state + (size_t)l.velocity * n + at,
                              t->state + (size_t)l.last * n + at};
    pl_state_claim claim = claim_of(t);
    claim.phase = 3;
    claim.is_fresh = true;
    claim.before = pl_state_view_of(&t->arm, n, NULL);
    for (size_t k = 0; k < n; k++) {
        t->version[k] += 0.01f;
        update[k] = 0.01f * pl_random_normal(4, 1, (uint64_t)k);
    }
    encode(t, 0, update, NULL);
    pl_holder_keep(&(pl_holder){.of = &t->contracts[SLOT],
                                .base = t->base + at,
                                .params = x + at,
                                .last = changed[2]},
                   t->version + at, NULL, update, NULL);
    for (int i = 0; i < 2; i++) { /* with a newer version, and with version 0 */
        memcpy(x, i == 0 ? t->version : t->base, n * sizeof *x);
        state_pack(&t->arm, t->state, n, t->after);
        assert_ok(pl_state_check(&claim));
        for (int v = 0; v < 3; v++) {
            const float old = changed[v][1];
            changed[v][1] += 1e-3f;
            state_pack(&t->arm, t->state, n, t->after);
            assert_int_equal(pl_state_check(&claim), PL_ERR_DATA);
            changed[v][1] = old;
        }
    }
}

PL_TEST(values_that_are_not_finite_are_refused_in_every_vector)
{
    OWNED(end_trial) trial *t = new_trial(PL_METHOD_NOLOCO, PL_STATE_F32);
    begin_trial(t);
    memcpy(t->state + (size_t)pl_path_layout_of(&t->arm).params * t->n, t->base,
           t->n * sizeof *t->state);
    for (size_t v = 0; v < t->n_vectors; v++) {
        const float old = t->state[v * t->n + t->n - 1];
        t->state[v * t->n + t->n - 1] = v % 2 ? NAN : INFINITY;
        assert_int_equal(check_changed(t), PL_ERR_DATA);
        t->state[v * t->n + t->n - 1] = old;
    }
}
