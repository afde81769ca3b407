/* folder: outer; label: unit */
/* Steps on a device give the CPU's bytes, in every order of threads. */
#include "tests/accel_support.h"
#include "outer/step_overlap.h"

enum { VIEWS = 6 };

/* ---- merges ---- */

typedef struct merge {
    pl_outer_step step;
    size_t n;
    int n_views;
    float *params, *momentum, *carry;
    void *values[VIEWS];
    pl_update_view views[VIEWS];
} merge;

/* f32 and bf16 views in turn, or bf16 alone. */
static void fill_merge(merge *m, bool only_bf16)
{
    m->params = zeros(m->n), m->momentum = zeros(m->n), m->carry = zeros(m->n);
    fill_odd(m->params, m->n, 1);
    fill_odd(m->momentum, m->n, 2);
    fill_odd(m->carry, m->n, 3);
    for (int u = 0; u < m->n_views; u++) {
        bool is_bf16 = only_bf16 || u % 2;
        float *wide = zeros(m->n);
        fill_odd(wide, m->n, 10 + (uint64_t)u);
        uint16_t *halves = (uint16_t *)(void *)wide;
        for (size_t i = 0; is_bf16 && i < m->n; i++)
            halves[i] = pl_bf16_from_float(wide[i]);
        m->values[u] = wide;
        m->views[u] = (pl_update_view){wide, is_bf16, 0.3f / (float)(u + 1)};
    }
}

static void free_merge(merge *m)
{
    pl_free(m->params), pl_free(m->momentum), pl_free(m->carry);
    for (int u = 0; u < m->n_views; u++)
        pl_free(m->values[u]);
}

/* Several merges in a row on the device: its state and its last report. */
static void merge_there(const merge *m, int times, pl_outer_state *state,
                        pl_outer_report *report)
{
    size_t bytes = m->n * sizeof(float);
    pl_update_view views[VIEWS];
    pl_outer_state there = *state;
    pl_update_list list = {views, m->n_views};
    there.params = to_device(state->params, bytes);
    there.momentum = to_device(state->momentum, bytes);
    there.carry = to_device(state->carry, bytes);
    for (int u = 0; u < m->n_views; u++) {
        views[u] = m->views[u];
        views[u].values = to_device(m->values[u], bytes);
    }
    for (int i = 0; i < times; i++)
        ok(pl_accel_merge(rig.accel, &m->step, &there, m->n, &list, report));
    from_device(state->params, there.params, bytes);
    from_device(state->momentum, there.momentum, bytes);
    from_device(state->carry, there.carry, bytes);
    for (int u = 0; u < m->n_views; u++)
        pl_accel_free(rig.accel, (void *)(uintptr_t)views[u].values);
    state->displacement = there.displacement;
    state->arrivals = there.arrivals;
}

static pl_outer_state copy_state(const merge *m)
{
    pl_outer_state s = {.params = zeros(m->n),
                        .momentum = zeros(m->n),
                        .carry = zeros(m->n),
                        .displacement = 0.01};
    memcpy(s.params, m->params, m->n * sizeof(float));
    memcpy(s.momentum, m->momentum, m->n * sizeof(float));
    memcpy(s.carry, m->carry, m->n * sizeof(float));
    return s;
}

static void free_state(pl_outer_state *s)
{
    pl_free(s->params), pl_free(s->momentum), pl_free(s->carry);
}

static void assert_same_merge(const merge *m, const pl_outer_state *a,
                              const pl_outer_report *on_cpu, const pl_outer_state *b,
                              const pl_outer_report *there)
{
    assert_same_floats(a->params, b->params, m->n);
    assert_same_floats(a->momentum, b->momentum, m->n);
    assert_same_floats(a->carry, b->carry, m->n);
    assert_true(a->displacement == b->displacement);
    assert_int_equal(a->arrivals, b->arrivals);
    assert_memory_equal(on_cpu, there, sizeof *on_cpu);
}

static void check_merge(merge *m, bool only_bf16)
{
    enum { TIMES = 3 };
    fill_merge(m, only_bf16);
    pl_outer_state cpu = copy_state(m);
    pl_update_list list = {m->views, m->n_views};
    pl_outer_report on_cpu;
    for (int i = 0; i < TIMES; i++)
        ok(pl_outer_merge(&m->step, &cpu, m->n, pl_update_list_mean, &list, 1,
                          &on_cpu));
    for (int order = 0; order < EMULATION_ORDERS; order++) {
        pl_outer_state state = copy_state(m);
        pl_outer_report there;
        emulation_set_order((emulation_order)order, 7);
        merge_there(m, TIMES, &state, &there);
        assert_same_merge(m, &cpu, &on_cpu, &state, &there);
        free_state(&state);
    }
    free_state(&cpu);
    free_merge(m);
}

static void check_method(pl_method method, size_t n)
{
    pl_method_settings settings = pl_method_defaults(method);
    merge m = {.n = n, .n_views = 3};
    settings.clip = method == PL_METHOD_CO2 ? 1e-4 : 0;
    m.step = pl_method_step(&settings, 0.7, n % 2 == 1, 3);
    check_merge(&m, false);
}

static void every_method_gives_the_bytes_of_the_cpu(void **state)
{
    static const pl_method methods[] = {
        PL_METHOD_DILOCO,    PL_METHOD_FEDAVG, PL_METHOD_HEAVY_BALL,
        PL_METHOD_CO2,       PL_METHOD_EAGER,  PL_METHOD_DELAYED_NESTEROV,
        PL_METHOD_STREAMING,
    };
    (void)state;
    need_device();
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        check_method(methods[i], 1031);
        check_method(methods[i], 3);
    }
}

static void a_plain_step_clips_and_eager_takes_either_rule(void **state)
{
    merge m = {.n = 777, .n_views = 1};
    (void)state;
    need_device();
    m.step = (pl_outer_step){
        .lr = 0.5, .n_contributors = 4, .method = PL_METHOD_FEDAVG, .clip = 1e-4};
    check_merge(&m, true);
    m.step = (pl_outer_step){.lr = 0.5,
                             .momentum = 0.5,
                             .n_contributors = 4,
                             .method = PL_METHOD_EAGER,
                             .rule = PL_RULE_HEAVY_BALL};
    check_merge(&m, true);
}

/* Blocks, spans and the ends of both; one view to six, of both kinds. */
static void sums_have_the_order_of_the_cpu_at_every_size(void **state)
{
    static const size_t sizes[] = {1, 7, 8, 511, 512, 513, 1024, 5000};
    (void)state;
    need_device();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        merge m = {.n = sizes[i], .n_views = 1 + (int)(i % VIEWS)};
        m.step = (pl_outer_step){.lr = 0.7,
                                 .momentum = 0.9,
                                 .n_contributors = 2,
                                 .method = PL_METHOD_CO2,
                                 .delay = 1,
                                 .gap = PL_GAP_NORM};
        check_merge(&m, i % 2 == 0);
    }
}

static void more_than_one_span_is_summed_span_by_span(void **state)
{
    merge m = {.n = 131072 + 700, .n_views = 1};
    pl_outer_report on_cpu, there;
    (void)state;
    need_device();
    m.step = (pl_outer_step){.lr = 0.7, .n_contributors = 1};
    fill_merge(&m, true);
    pl_outer_state cpu = copy_state(&m), state_there = copy_state(&m);
    pl_update_list list = {m.views, 1};
    ok(pl_outer_merge(&m.step, &cpu, m.n, pl_update_list_mean, &list, 1, &on_cpu));
    emulation_set_order(EMULATION_RANDOM, 3);
    merge_there(&m, 1, &state_there, &there);
    assert_same_merge(&m, &cpu, &on_cpu, &state_there, &there);
    free_state(&cpu);
    free_state(&state_there);
    free_merge(&m);
}

static void infinities_and_nans_reach_the_report(void **state)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    (void)state;
    need_device();
    for (int i = 0; i < 3; i++) {
        merge m = {.n = 600, .n_views = 1};
        pl_outer_report report;
        m.step = (pl_outer_step){.lr = 1, .n_contributors = 1};
        fill_merge(&m, false);
        ((float *)m.values[0])[555] = bad[i];
        pl_outer_state there = copy_state(&m);
        merge_there(&m, 1, &there, &report);
        assert_true(!isfinite(report.mean_norm));
        assert_true(!isfinite(report.params_norm));
        assert_true(!isfinite(there.params[555]));
        assert_false(!isfinite(there.params[554]));
        free_state(&there);
        free_merge(&m);
    }
}

static void what_the_cpu_refuses_the_device_refuses(void **state)
{
    pl_outer_step step = {.method = PL_METHOD_NOLOCO, .n_contributors = 1};
    pl_outer_state none = {0};
    pl_update_list list = {NULL, 0};
    pl_outer_report report;
    (void)state;
    need_device();
    assert_int_equal(pl_accel_merge(rig.accel, &step, &none, 1, &list, &report),
                     PL_ERR_ARG);
    step.method = PL_METHOD_DILOCO;
    assert_int_equal(pl_accel_merge(rig.accel, &step, &none, 1, &list, &report),
                     PL_ERR_ARG);
    pl_gossip_step pair = {0.5, 0.7, 0.6, PL_RULE_HEAVY_BALL};
    assert_int_equal(pl_accel_meet_one(rig.accel, &pair, NULL, NULL, NULL, NULL, 0),
                     PL_ERR_ARG);
}

/* ---- meetings and overlap ---- */

enum { N = 777, VECTORS = 5 };

typedef struct vectors {
    float *here[VECTORS], *there[VECTORS];
} vectors;

static void make_vectors(vectors *v)
{
    for (int i = 0; i < VECTORS; i++) {
        v->here[i] = zeros(N);
        fill_odd(v->here[i], N, 30 + (uint64_t)i);
        v->there[i] = to_device(v->here[i], N * sizeof(float));
    }
}

static void compare_vectors(vectors *v)
{
    float *back = zeros(N);
    for (int i = 0; i < VECTORS; i++) {
        from_device(back, v->there[i], N * sizeof(float));
        assert_same_floats(v->here[i], back, N);
        pl_free(v->here[i]);
    }
    pl_free(back);
}

/* Alone and in a pair, with one vector and with two. */
static void check_meeting(pl_rule rule, double gamma, bool alone)
{
    pl_gossip_step step = {0.5, 0.7, gamma, rule};
    vectors v;
    make_vectors(&v);
    float **h = v.here, **t = v.there;
    if (gamma == 0.7) {
        ok(pl_gossip_apply_one(&step, h[0], h[1], h[2], alone ? NULL : h[3], N, 1));
        ok(pl_accel_meet_one(rig.accel, &step, t[0], t[1], t[2], alone ? NULL : t[3],
                             N));
    } else {
        ok(pl_gossip_apply_two(&step, h[0], h[1], h[2], alone ? NULL : h[3],
                               alone ? NULL : h[4], N, 1));
        ok(pl_accel_meet_two(rig.accel, &step, t[0], t[1], t[2], alone ? NULL : t[3],
                             alone ? NULL : t[4], N));
    }
    ok(pl_accel_sync(rig.accel));
    compare_vectors(&v);
}

static void meetings_give_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    need_device();
    for (int order = 0; order < EMULATION_ORDERS; order++) {
        emulation_set_order((emulation_order)order, 5);
        for (int kind = 0; kind < 8; kind++)
            check_meeting(kind & 1 ? PL_RULE_NESTEROV : PL_RULE_HEAVY_BALL,
                          kind & 2 ? 0.7 : 0.3, kind & 4);
    }
}

/* What a codec made of both holders' vectors. */
static void check_views(pl_rule rule, bool alone)
{
    pl_gossip_step step = {0.5, 0.7, 0.3, rule};
    vectors v, mate;
    make_vectors(&v);
    make_vectors(&mate);
    const pl_gossip_view own = {v.here[2], v.here[3]},
                         own_there = {v.there[2], v.there[3]},
                         other = {v.here[4], mate.here[4]},
                         other_there = {v.there[4], mate.there[4]};
    ok(pl_gossip_apply_views(&step, v.here[0], v.here[1], &own, alone ? NULL : &other,
                             N, 1));
    ok(pl_accel_meet_views(rig.accel, &step, v.there[0], v.there[1], &own_there,
                           alone ? NULL : &other_there, N));
    compare_vectors(&v);
    compare_vectors(&mate);
}

static void meetings_of_views_give_the_bytes_of_the_cpu(void **state)
{
    const pl_gossip_step step = {0.5, 0.7, 0.3, PL_RULE_HEAVY_BALL};
    const pl_gossip_view none = {NULL, NULL};
    (void)state;
    need_device();
    for (int order = 0; order < EMULATION_ORDERS; order++) {
        emulation_set_order((emulation_order)order, 6);
        for (int kind = 0; kind < 4; kind++)
            check_views(kind & 1 ? PL_RULE_NESTEROV : PL_RULE_HEAVY_BALL, kind & 2);
    }
    assert_int_equal(pl_accel_meet_views(rig.accel, &step, NULL, NULL, &none, NULL, 0),
                     PL_ERR_ARG);
}

static void a_corrected_mean_is_the_cpus(void **state)
{
    (void)state;
    need_device();
    for (int kind = 0; kind < 4; kind++) {
        const float factor = kind & 1 ? 0.7f : 1.0f;
        const bool moves = kind & 2;
        vectors v;
        make_vectors(&v);
        for (size_t i = 0; i < N; i++) {
            if (moves)
                v.here[0][i] += v.here[1][i] - v.here[2][i];
            if (factor != 1.0f)
                v.here[0][i] *= factor;
        }
        ok(pl_accel_correct(rig.accel, v.there[0], v.there[1],
                            moves ? v.there[2] : NULL, factor, N));
        memset(v.here[3], 0, N * sizeof(float));
        ok(pl_accel_clear(rig.accel, v.there[3], N));
        compare_vectors(&v);
    }
}

static void a_mean_of_what_is_there_is_the_cpus(void **state)
{
    (void)state;
    need_device();
    for (int order = 0; order < EMULATION_ORDERS; order++) {
        vectors v;
        emulation_set_order((emulation_order)order, 8);
        make_vectors(&v);
        for (size_t i = 0; i < N; i++) {
            v.here[2][i] = i % 3 ? v.here[2][i] : 0.0f;
            v.here[1][i] = i % 4 ? 0.75f : 0.0f;
        }
        for (int u = 1; u <= 2; u++)
            ok(pl_accel_upload(rig.accel, v.there[u], v.here[u], N * sizeof(float)));
        for (size_t i = 0; i < N; i++) {
            v.here[0][i] += 0.3f * v.here[2][i];
            v.here[1][i] += v.here[2][i] != 0.0f ? 0.3f : 0.0f;
            if (v.here[1][i] > 0.0f)
                v.here[0][i] /= v.here[1][i];
        }
        ok(pl_accel_add_present(rig.accel, v.there[0], v.there[1], v.there[2], 0.3f,
                                N));
        ok(pl_accel_divide_present(rig.accel, v.there[0], v.there[1], N));
        compare_vectors(&v);
    }
}

/* As it is, to the sign of a zero. */
static void a_mean_that_exists_is_taken_as_it_is(void **state)
{
    const pl_outer_step step = {.lr = 1, .n_contributors = 1};
    float mean[N], params[N], back[N];
    pl_outer_report here, there;
    (void)state;
    need_device();
    for (size_t i = 0; i < N; i++) {
        mean[i] = i % 3 ? -0.0f : 1e-3f * (float)i;
        params[i] = i % 2 ? -0.0f : 1.0f;
    }
    float *mean_there = to_device(mean, sizeof mean);
    pl_outer_state state_there = {.params = to_device(params, sizeof params)};
    pl_outer_state state_here = {.params = params};
    ok(pl_outer_apply(&step, &state_here, mean, N, &here));
    ok(pl_accel_apply(rig.accel, &step, &state_there, mean_there, N, &there));
    from_device(back, state_there.params, sizeof back);
    assert_memory_equal(params, back, sizeof back);
    assert_memory_equal(&here, &there, sizeof here);
    pl_accel_free(rig.accel, mean_there);
}

static void an_offer_gives_the_bytes_of_the_cpu(void **state)
{
    vectors v;
    (void)state;
    need_device();
    make_vectors(&v);
    pl_gossip_offer(v.here[0], v.here[1], 1.3, N, v.here[2]);
    ok(pl_accel_offer(rig.accel, v.there[0], v.there[1], 1.3, N, v.there[2]));
    compare_vectors(&v);
}

static void taking_up_a_fragment_gives_the_bytes_of_the_cpu(void **state)
{
    static const double mixes[] = {0, 0.5, 0.3, 1};
    (void)state;
    need_device();
    for (int i = 0; i < 4; i++) {
        vectors v;
        make_vectors(&v);
        pl_streaming_mix(v.here[0], v.here[1], mixes[i], N);
        ok(pl_accel_mix(rig.accel, v.there[0], v.there[1], mixes[i], N));
        compare_vectors(&v);
    }
}

static void eager_updates_give_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    need_device();
    for (int first = 0; first < 2; first++) {
        vectors v;
        make_vectors(&v);
        float **h = v.here, **t = v.there;
        pl_eager_update(h[0], first ? NULL : h[1], first ? NULL : h[2], 3, N, h[3]);
        ok(pl_accel_eager_update(rig.accel, t[0], first ? NULL : t[1],
                                 first ? NULL : t[2], 3, N, t[3]));
        compare_vectors(&v);
    }
}

/* ---- copies ---- */

static void copies_longer_than_a_stage_arrive_whole(void **state)
{
    size_t bytes = (9u << 20) + 5;
    uint8_t *data = pl_alloc(bytes), *back = pl_alloc(bytes);
    (void)state;
    need_device();
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    from_device(back, to_device(data, bytes), bytes);
    assert_memory_equal(data, back, bytes);
    pl_free(data);
    pl_free(back);
}

static void a_device_that_is_not_there_is_named(void **state)
{
    pl_accel *none = NULL;
    (void)state;
    need_device();
    assert_int_equal(pl_accel_open(99, NULL, &none), PL_ERR_CONFIG);
    assert_null(none);
    assert_non_null(strstr(pl_last_error(), "99"));
}

static void every_kernel_ran(void **state)
{
    (void)state;
    need_device();
    assert_all_ran(false);
    assert_null(emulation_take_finding());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(a_plain_step_clips_and_eager_takes_either_rule),
        cmocka_unit_test(sums_have_the_order_of_the_cpu_at_every_size),
        cmocka_unit_test(more_than_one_span_is_summed_span_by_span),
        cmocka_unit_test(infinities_and_nans_reach_the_report),
        cmocka_unit_test(what_the_cpu_refuses_the_device_refuses),
        cmocka_unit_test(meetings_give_the_bytes_of_the_cpu),
        cmocka_unit_test(meetings_of_views_give_the_bytes_of_the_cpu),
        cmocka_unit_test(a_corrected_mean_is_the_cpus),
        cmocka_unit_test(a_mean_of_what_is_there_is_the_cpus),
        cmocka_unit_test(a_mean_that_exists_is_taken_as_it_is),
        cmocka_unit_test(an_offer_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(taking_up_a_fragment_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(eager_updates_give_the_bytes_of_the_cpu),
        cmocka_unit_test(copies_longer_than_a_stage_arrive_whole),
        cmocka_unit_test(a_device_that_is_not_there_is_named),
        cmocka_unit_test(every_kernel_ran),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
