/* folder: job; label: unit */
/* Tests the arms that a configuration defines: their steps, learning rates, paths and
 * descent. */
#include "outer/outer.h"
#include "job/run.h"
#include <math.h>

#include "tests/support/suite.h"

enum { PATHS = 4, TAU = 50, PHASES = 20, BASE_STEPS = 1000 };

static pl_run r;

static pl_arm arm;

/* Makes the run `r` from the preset `laptop` with four paths, the settings below, and
 * then the given texts KEY=VALUE. An earlier run ends. */
#define CONFIGURE(...) configure((const char *const[]){__VA_ARGS__, NULL})
static void configure(const char *const *more)
{
    const char *sets[16] = {"train.base_steps=1000", "train.tau=50", "train.phases=20",
                            "train.decay=0.4", "train.lr=1e-3"};
    pl_topology_spec spec;
    pl_shape shape;
    int n = 5;
    while (*more)
        sets[n++] = *more++;
    pl_topology_destroy(&r.topology);
    memset(&r, 0, sizeof r);
    assert_ok(config_build(NULL, sets, n, &r.cfg));
    assert_ok(config_shape(&r.cfg, &shape));
    assert_ok(config_spec(&r.cfg, &spec));
    assert_ok(pl_topology_create(&shape, &spec, &r.topology));
}

/* Makes `arm` the named arm of the run. */
static pl_inner inner_of(const char *name)
{
    pl_arm_clear(&arm);
    assert_ok(run_arm(&r, name, &arm));
    return arm.inner;
}

static int end_run(void **state)
{
    (void)state;
    pl_arm_clear(&arm);
    pl_topology_destroy(&r.topology);
    return 0;
}
PL_SUITE(NULL, end_run)

static double rate_at(const pl_inner *in, int64_t step)
{
    const pl_schedule s = pl_arm_schedule(in);
    return pl_learning_rate(&s, in->first_step + step);
}

/* With the schedule wsd, the learning rate is warmed up only once, in the base model.
 * Each later arm begins at its peak rate, and the rate falls to zero over the last two
 * fifths of the arm's steps. */
PL_TEST(every_arm_goes_on_where_the_base_model_stopped)
{
    static const char *const arms[] = {"mix", "dense", "diloco", "dense-eq",
                                       "dense-batch"};
    CONFIGURE("train.schedule=wsd", "train.base_replicas=1");
    pl_inner base = inner_of("base");
    assert_int_equal((int64_t)base.tau * base.phases, BASE_STEPS);
    assert_true(rate_at(&base, 0) < 1e-4);
    assert_true(rate_at(&base, BASE_STEPS - 1) == 1e-3);
    for (size_t i = 0; i < sizeof arms / sizeof *arms; i++) {
        pl_inner in = inner_of(arms[i]);
        int64_t steps = (int64_t)in.tau * in.phases;
        bool equal = strcmp(arms[i], "dense-eq") == 0;
        double peak = strcmp(arms[i], "dense-batch") == 0 ? 2e-3 : 1e-3;
        assert_int_equal(steps, TAU * PHASES * (equal ? PATHS : 1));
        assert_int_equal(in.first_step, BASE_STEPS);
        assert_int_equal(in.decay, steps * 2 / 5);
        assert_true(fabs(rate_at(&in, 0) - peak) < 1e-12);
        assert_true(fabs(rate_at(&in, steps - in.decay) - peak) < 1e-12);
        assert_true(fabs(rate_at(&in, steps - in.decay / 2) - peak / 2) < 1e-12);
        assert_true(rate_at(&in, steps) == 0);
    }
}

PL_TEST(the_outer_step_settles_while_the_rate_decays)
{
    const char *const sets[] = {"train.schedule=wsd", NULL};
    const char *const off[] = {"train.schedule=wsd", "outer.settle=false", NULL};
    const char *const cosine[] = {"train.schedule=cosine", NULL};
    const char *const *const cases[] = {sets, off, cosine};
    const int64_t settle[] = {8, 0, 0};
    for (int i = 0; i < 3; i++) {
        configure(cases[i]);
        (void)inner_of("mix");
        assert_int_equal(arm.outer.schedule.phases, PHASES);
        assert_int_equal(arm.outer.schedule.settle, settle[i]);
        (void)inner_of("diloco");
        assert_int_equal(arm.outer.schedule.settle, settle[i]);
        assert_int_equal(arm.spec.replicas, PATHS);
    }
}

/* The replicas of the base model divide its steps; the quotient is rounded up to whole
 * phases. They are merged at least every 10 steps. Their outer step is a plain mean
 * without momentum. A later arm counts its first step from the steps of one replica. */
PL_TEST(replicas_divide_the_base_model)
{
    CONFIGURE("train.base_replicas=3", "train.schedule=wsd", "outer.quorum=0.5");
    pl_inner base = inner_of("base");
    assert_int_equal(arm.spec.replicas, 3);
    assert_int_equal(base.tau, 10);
    assert_int_equal(base.phases, 34); /* at least 1000 / 3 steps */
    assert_true(arm.outer.quorum == 0);
    for (int c = 0; c < PL_CLASS_COUNT; c++)
        assert_true(arm.outer.lr[c] == 1 && arm.outer.momentum[c] == 0);
    assert_int_equal(inner_of("mix").first_step, 340);
    assert_int_equal(arm.inner.tau, TAU);
}

PL_TEST(replicas_of_the_base_model_take_larger_steps)
{
    static const char *const replicas[] = {
        "train.base_replicas=1", "train.base_replicas=2", "train.base_replicas=16"};
    static const double times[] = {1, 1.4142135623730951, 2};
    for (int i = 0; i < 3; i++) {
        CONFIGURE(replicas[i]);
        assert_true(fabs(inner_of("base").lr / 1e-3 - times[i]) < 1e-12);
        assert_true(inner_of("mix").lr == 1e-3);
    }
    CONFIGURE("train.base_replicas=4", "train.base_lr=5e-4");
    assert_true(inner_of("base").lr == 5e-4);
}

PL_TEST(a_phase_shorter_than_ten_steps_is_that_of_the_replicas_too)
{
    CONFIGURE("train.base_replicas=3", "train.tau=4");
    const pl_inner base = inner_of("base");
    assert_int_equal(base.tau, 4);
    assert_int_equal(base.phases, 84);
}

/* Replicas are merged often, so their updates are encoded as those of the paths. A base
 * model without replicas is trained by one worker, and its updates stay exact. */
PL_TEST(replicas_of_the_base_model_send_what_paths_send)
{
    static const char *const replicas[] = {"train.base_replicas=1",
                                           "train.base_replicas=3"};
    for (int i = 0; i < 2; i++) {
        CONFIGURE(replicas[i], "codec.name=i4", "codec.down=i8", "codec.residual=i8");
        (void)inner_of("base");
        assert_string_equal(arm.outer.codec_name, i == 0 ? "f32" : "i4");
        assert_int_equal(arm.outer.codec.codec[PL_ROLE_MLP],
                         i == 0 ? PL_CODEC_F32 : PL_CODEC_I4);
        assert_int_equal(pl_path_layout_of(&arm).n_vectors, i == 0 ? 2 : 3);
        assert_int_equal(arm.outer.state, PL_STATE_F32);
        assert_true(i == 0 || (arm.outer.down.codec[PL_ROLE_MLP] == PL_CODEC_I8 &&
                               arm.outer.residual == PL_STATE_I8));
    }
}

PL_TEST(only_the_base_model_has_its_own_number_of_threads)
{
    static const char *const others[] = {"mix", "dense", "diloco"};
    CONFIGURE("train.base_threads=3");
    assert_int_equal(inner_of("base").threads, 3);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(inner_of(others[i]).threads, 0);
    }
}

PL_TEST(a_cosine_begins_anew_in_every_arm)
{
    CONFIGURE("train.schedule=cosine");
    pl_inner base = inner_of("base");
    assert_true(fabs(rate_at(&base, BASE_STEPS) - 1e-4) < 1e-12);
    pl_inner mix = inner_of("mix");
    assert_int_equal(mix.first_step, 0);
    assert_true(rate_at(&mix, 0) < 1e-4);
    assert_true(fabs(rate_at(&mix, TAU * PHASES) - 1e-4) < 1e-12);
}

static const char *const names[] = {"mix", "mix~1", "mix~2", "mix~3", "mix~4"};

/* Three chapters divide the phases of the mixture and follow one schedule. The learning
 * rate of every step is that of a mixture without chapters, so only the last chapter
 * decays. */
PL_TEST(chapters_share_one_schedule)
{
    const int64_t ends[] = {3, 7, PHASES};
    OWNED(pl_arm_clear) pl_arm whole;
    CONFIGURE("train.schedule=wsd");
    assert_ok(run_arm(&r, "mix", &whole));
    const pl_inner all = whole.inner;
    CONFIGURE("train.schedule=wsd", "router.em=3,7");
    int64_t done = 0;
    for (int c = 0; c < 3; c++) {
        pl_inner in = inner_of(names[c]);
        assert_int_equal(in.phases, ends[c] - done);
        assert_int_equal(arm.outer.schedule.phases, in.phases);
        assert_int_equal(in.first_step, BASE_STEPS + done * TAU);
        for (int64_t step = 0; step < (int64_t)in.tau * in.phases; step++)
            assert_true(rate_at(&in, step) == rate_at(&all, done * TAU + step));
        int64_t settled = (int64_t)in.phases - arm.outer.schedule.settle;
        assert_int_equal(done + settled, c < 2 ? ends[c] : PHASES - 8);
        assert_int_equal(run_is_last_chapter(&r, names[c]), c == 2);
        done = ends[c];
    }
}

/* A chapter of train.more continues from the phase before the learning rate fell. The
 * rates of all its steps are those of a run that was planned to be as long. The first
 * lengthening by one phase does not move that phase, so the second continues from the
 * beginning of the first. */
PL_TEST(a_longer_run_has_the_rates_of_one_that_was_planned)
{
    static const char *const planned[] = {"train.phases=22", "train.phases=23",
                                          "train.phases=33"};
    const int64_t ends[] = {22, 23, 33}, from[] = {12, 13, 13};
    pl_arm arms[5], whole;
    for (int i = 0; i < 3; i++) {
        CONFIGURE("train.schedule=wsd", planned[i]);
        assert_ok(run_arm(&r, "mix", &whole));
        const pl_inner all = whole.inner;
        const int64_t settle = whole.outer.schedule.settle;
        pl_arm_clear(&whole);
        CONFIGURE("train.schedule=wsd", "router.em=3", "train.more=2,1,10");
        for (int c = 0; c < 5; c++)
            assert_ok(run_arm(&r, c > 0 ? names[c] : "mix", &arms[c]));
        const pl_inner in = arms[2 + i].inner;
        assert_int_equal(in.phases, ends[i] - from[i]);
        assert_int_equal(arms[2 + i].outer.schedule.phases, in.phases);
        assert_int_equal(arms[2 + i].outer.schedule.settle, settle);
        for (int64_t step = 0; step <= (int64_t)in.tau * in.phases; step++)
            assert_true(rate_at(&in, step) == rate_at(&all, from[i] * TAU + step));
        const int64_t start = i == 0 ? 3 : from[i - 1];
        assert_int_equal(pl_arm_continues(&arms[1 + i], &arms[2 + i]), from[i] - start);
        assert_int_equal(pl_arm_full_phases(&arms[1 + i]), from[i] - start);
        assert_int_equal(run_is_last_chapter(&r, names[2 + i]), i == 2);
        for (int c = 0; c < 5; c++)
            pl_arm_clear(&arms[c]);
    }
}

/* The levels get more modules at the phases that topology.split names, even if
 * train.more adds these phases. The baseline dense-eq, one dense model, takes as many
 * steps as all paths together. */
PL_TEST(splits_make_more_paths_at_borders)
{
    static const struct {
        const char *name;
        int phases, paths;
        bool decays;
    } wanted[] = {{"mix", 3, 4, false},
                  {"mix~1", 2, 8, false},
                  {"mix~2", PHASES - 5, 8, true},
                  {"mix~3", 4 + 8, 32, true}};
    CONFIGURE("train.schedule=wsd", "router.em=5", "topology.split=3:4x2,20:4x8",
              "train.more=4", "eval.baselines=dense-eq");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        pl_inner in = inner_of(wanted[i].name);
        assert_int_equal(in.phases, wanted[i].phases);
        assert_int_equal(arm.n_shards, wanted[i].paths);
        assert_int_equal(pl_topology_spec_n_paths(&arm.spec), wanted[i].paths);
        assert_int_equal(in.decay > 0, wanted[i].decays);
    }
    const int64_t all = 4 * 3 + 8 * (PHASES - 3);
    assert_int_equal(run_path_phases(&r), all);
    pl_inner in = inner_of("dense-eq");
    assert_int_equal((int64_t)in.tau * in.phases, all * TAU);
}

PL_TEST(a_grafted_arm_says_from_what_it_descends)
{
    static const struct {
        const char *name;
        int paths, parents;
        bool absent;
    } wanted[] = {{"mix", 6, 0, false}, {"mix~1", 4, 4, false}, {"mix~2", 3, 4, true}};
    pl_arm again;
    OWNED(pl_buf_destroy) pl_buf bytes = {0}, second = {0};
    CONFIGURE("train.schedule=wsd", "topology.levels=2x3",
              "topology.graft=3:drop:L2.E1,5:drop:p01", "eval.baselines=none");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        inner_of(wanted[i].name);
        pl_buf_clear(&bytes);
        pl_buf_clear(&second);
        pl_arm_encode(&arm, &bytes);
        if (pl_arm_decode(bytes.data, bytes.len, &again) != PL_OK)
            fail_msg("%s: %s", wanted[i].name, pl_last_error());
        assert_int_equal(again.n_shards, wanted[i].paths);
        assert_int_equal(again.descent.n_parents, wanted[i].parents);
        assert_true(again.spec.absent[1] == wanted[i].absent);
        pl_arm_encode(&again, &second);
        assert_same_bytes(bytes, second);
        pl_arm_clear(&again);
        if (wanted[i].parents > 0) {
            const int last = arm.descent.n_parents - 1, levels = arm.spec.n_levels;
            for (int how = 0; how < 3; how++) {
                pl_descent *d = &arm.descent;
                const pl_descent right = *d;
                d->parent[last] = how == 0 ? 3 : d->parent[last];
                d->n_parents -= how == 1;
                d->level[levels - 1] = how == 2 ? 1 : d->level[levels - 1];
                pl_buf_clear(&bytes);
                pl_arm_encode(&arm, &bytes);
                assert_int_equal(pl_arm_decode(bytes.data, bytes.len, &again),
                                 PL_ERR_PROTO);
                *d = right;
            }
        }
    }
}

/* The expected size of the store (run_stored_bytes) counts each chapter with its own
 * modules, and the arm dense-eq with the phases of all paths. */
PL_TEST(the_disks_plan_counts_each_chapter_with_its_modules)
{
    const char *const plain[] = {"eval.baselines=none", NULL};
    const char *const equal[] = {"eval.baselines=dense-eq", NULL};
    const char *const split[] = {"eval.baselines=none", "train.schedule=wsd",
                                 "topology.split=3:4x2,9:4x8", NULL};
    const char *const split_equal[] = {"eval.baselines=dense-eq", "train.schedule=wsd",
                                       "topology.split=3:4x2,9:4x8", NULL};
    const char *const *sets[] = {plain, equal, split, split_equal};
    const int phases[] = {3, 6, 11};
    uint64_t stored[4], wanted = 0;
    for (int i = 0; i < 4; i++) {
        configure(sets[i]);
        stored[i] = run_stored_bytes(&r);
    }
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    int n = 0;
    assert_ok(config_chapters(&r.cfg, chapters, &n));
    assert_int_equal(n, 3);
    for (int i = 0; i < n; i++) {
        OWNED(pl_topology_destroy) pl_topology *t = NULL;
        assert_ok(
            pl_topology_create(pl_topology_shape(r.topology), &chapters[i].spec, &t));
        wanted += pl_topology_total_params(t) * (uint64_t)(phases[i] + 2) +
                  5 * pl_topology_path_params(t) * (uint64_t)pl_topology_n_paths(t);
    }
    const uint64_t path = pl_topology_path_params(r.topology) * sizeof(float);
    wanted *= sizeof(float);
    assert_int_equal(stored[2], wanted + wanted / 4);
    const uint64_t all = 4 * 3 + 8 * 6 + 32 * 11;
    assert_in_range(stored[3] - stored[2], path * (all + 3) * 5 / 4 - 1,
                    path * (all + 3) * 5 / 4 + 1);
    assert_in_range(stored[1] - stored[0], path * (4 * PHASES + 3) * 5 / 4 - 1,
                    path * (4 * PHASES + 3) * 5 / 4 + 1);
}

/* A step of the arm dense-batch has the batches of all four paths, but it is computed
 * in micro-batches of the same size as those of one path. */
PL_TEST(one_batch_is_that_of_all_paths)
{
    CONFIGURE("train.batch=6", "train.micro_batch=4");
    pl_inner in = inner_of("dense-batch");
    assert_int_equal(in.batch, 24);
    assert_int_equal(pl_arm_pass(&in), 4);
    assert_int_equal((int64_t)in.tau * in.phases, TAU * PHASES);
    in = inner_of("mix");
    assert_int_equal(in.batch, 6);
    assert_int_equal(pl_arm_pass(&in), 4);
}

#define UPLOAD(...) largest_upload((const char *const[]){__VA_ARGS__, NULL})
static uint64_t largest_upload(const char *const *sets)
{
    uint64_t bytes = 0;
    configure(sets);
    assert_ok(run_largest_upload(&r, &bytes));
    return bytes;
}

/* A home needs room for one upload of a task. Moments that stay at their worker are not
 * uploaded, and Muon has fewer; base model and dense baselines upload f32. */
PL_TEST(the_largest_upload_is_what_a_home_needs_room_for)
{
    const uint64_t plain = largest_upload((const char *const[]){NULL}),
                   path = pl_topology_path_params(r.topology) * sizeof(float);
    uint64_t slot = 0;
    for (int s = 0; s < pl_topology_n_slots(r.topology); s++) {
        const uint64_t n = pl_topology_slot(r.topology, s)->n_params * sizeof(float);
        slot = n > slot ? n : slot;
    }
    assert_int_equal(plain, 2 * path);
    assert_in_range(UPLOAD("train.optimizer=muon"), path + 1, 2 * path - 1);
    const uint64_t local = UPLOAD("train.state=local", "eval.baselines=none",
                                  "train.base_steps=0", "model.import=m");
    assert_in_range(local, slot, slot + slot / 8);
    assert_true(local < path);
    assert_int_equal(UPLOAD("train.state=local"), 2 * path);
    assert_int_equal(UPLOAD("train.state=bf16", "eval.baselines=none",
                            "train.base_steps=0", "model.import=m"),
                     path);
    assert_int_equal(UPLOAD("codec.name=topk"), 3 * path);
}
