/* folder: modules; label: unit */
/* Tests that a training step does not change the frozen slots of a path. */
#include "modules/model_internal.h"
#include "tests/support/rig.h"

/* Takes one training step of the model of `r`. frozen[s] says whether slot s is frozen;
 * NULL: no slot is frozen. */
static pl_step_result step_frozen(const rig *r, const bool *frozen, float clip)
{
    pl_step_result result;
    pl_adamw adam = adam_default;
    assert_ok(pl_model_freeze(r->model, frozen));
    assert_ok(pl_model_train_step(r->model, tokens_2x5, targets_2x5, B2, T5, &adam,
                                  clip, &result));
    return result;
}

PL_TEST(frozen_slots_keep_every_byte_and_count_in_no_norm)
{
    OWNED(close_rig) rig plain = open_rig(&tiny, 2, true);
    const int n_slots = pl_topology_n_slots(plain.topology);
    OWNED(free_memory)
    float *m = calloc(plain.n, sizeof *m), *v = calloc(plain.n, sizeof *v);
    const pl_step_result all = step_frozen(&plain, NULL, 0.0f);
    OWNED(free_memory) float *trained = copy_params(&plain);
    for (int s = 0; s < n_slots; s++) {
        OWNED(close_rig) rig r = open_rig(&tiny, 2, true);
        const pl_slot *slot = pl_topology_slot(r.topology, s);
        const size_t end = slot->offset + slot->n_params;
        OWNED(free_memory) bool *frozen = calloc((size_t)n_slots, sizeof *frozen);
        frozen[s] = true;
        const pl_step_result some = step_frozen(&r, frozen, 0.0f);
        OWNED(free_memory) float *after = copy_params(&r);
        assert_true(some.loss == all.loss && some.grad_norm < all.grad_norm);
        assert_memory_equal(after + slot->offset, r.params + slot->offset,
                            slot->n_params * sizeof *after);
        assert_memory_equal(after, trained, slot->offset * sizeof *after);
        assert_memory_equal(after + end, trained + end, (r.n - end) * sizeof *after);
        assert_ok(pl_model_save_moments(r.model, m, v));
        for (size_t i = slot->offset; i < end; i++)
            assert_true(m[i] == 0.0f && v[i] == 0.0f);
        /* When no slot is frozen any more, the model trains like one that never had
         * frozen slots. */
        assert_ok(pl_model_load(r.model, r.params));
        assert_ok(pl_model_load_moments(r.model, NULL, NULL));
        (void)step_frozen(&r, NULL, 0.0f);
        OWNED(free_memory) float *thawed = copy_params(&r);
        assert_memory_equal(thawed, trained, r.n * sizeof *thawed);
    }
}

static void expect_frozen_matrices(int muon_rows)
{
    const pl_model_options options = {.batch = B2,
                                      .context = T5,
                                      .training = true,
                                      .muon = true,
                                      .muon_rows = muon_rows};
    OWNED(close_rig) rig r = open_rig(&tiny, 2, true);
    OWNED(pl_model_destroy) pl_model *model = NULL;
    pl_step_result result;
    pl_adamw adam = adam_default;
    adam.step = 1;
    assert_ok(pl_model_create(be, r.topology, &options, &model));
    assert_ok(pl_model_load(model, r.params));
    const int n_slots = pl_topology_n_slots(r.topology);
    OWNED(free_memory) bool *frozen = calloc((size_t)n_slots, sizeof *frozen);
    OWNED(free_memory) float *after = malloc(r.n * sizeof *after);
    assert_non_null(after);
    for (int s = 0; s < n_slots; s++)
        frozen[s] = pl_topology_slot(r.topology, s)->kind != PL_SLOT_EMBED;
    assert_ok(pl_model_freeze(model, frozen));
    assert_ok(pl_model_train_step(model, tokens_2x5, targets_2x5, B2, T5, &adam, 1.0f,
                                  &result));
    assert_ok(pl_model_save(model, after));
    for (int s = 0; s < n_slots; s++) {
        const pl_slot *slot = pl_topology_slot(r.topology, s);
        const bool same = memcmp(after + slot->offset, r.params + slot->offset,
                                 slot->n_params * sizeof *after) == 0;
        assert_true(same == frozen[s]);
    }
}

/* Shows this for whole matrices, and for several matrices and a rest per tensor. */
PL_TEST(frozen_matrices_of_muon_stay_whole)
{
    expect_frozen_matrices(0);
    expect_frozen_matrices(3);
}

PL_SUITE(open_backend, close_backend)
