/* folder: outer; label: unit */
/* A device behind the table of outer/arith.h gives the bytes of the CPU's table, to
 * several threads at once, and where the device fails as well. */
#include "tests/accel_support.h"
#include "outer/step_overlap.h"
#include <stdlib.h>

enum { N = 5003, MESSAGES = 3 };

static pl_arith *open_table(bool optional)
{
    const pl_accel_options options = {.device = 5, .turns = true, .optional = optional};
    pl_arith *table = NULL;
    ok(pl_accel_arith_open(&options, &table));
    assert_true(pl_starts_with(table->name, "cuda "));
    return table;
}

/* ---- rounds ---- */

typedef struct rounds {
    pl_outer_step step;
    pl_buf bytes[MESSAGES];
    pl_codec_message messages[MESSAGES];
    float weights[MESSAGES];
    float *origin;
    pl_codec_list list;
    pl_arith_merge merge;
} rounds;

static void make_round(rounds *r, pl_method method, const char *codec)
{
    pl_method_settings settings = pl_method_defaults(method);
    pl_codec_options options = options_of(codec);
    pl_codec_round round = round_of(MESSAGES);
    float *x = zeros(N);
    memset(r, 0, sizeof *r);
    r->step = pl_method_step(&settings, 0.3, false, MESSAGES);
    for (int i = 0; i < MESSAGES; i++) {
        fill(x, N, 40 + (uint64_t)i);
        round.weight = r->weights[i] = 0.2f + 0.1f * (float)i;
        encode_all(&options, &round, x, N, NULL, &r->bytes[i]);
        r->messages[i] = (pl_codec_message){r->bytes[i].data, r->bytes[i].len};
    }
    r->origin = x;
    r->list = (pl_codec_list){r->messages, r->weights, MESSAGES, 0};
    r->merge = (pl_arith_merge){.step = &r->step,
                                .n = N,
                                .messages = pl_codec_source_of(&r->list),
                                .homomorphic = pl_codec_is_homomorphic(&options),
                                .factor = 1.0f};
}

static void free_round(rounds *r)
{
    for (int i = 0; i < MESSAGES; i++)
        pl_buf_destroy(&r->bytes[i]);
    pl_free(r->origin);
}

typedef struct outcome {
    pl_outer_state state;
    pl_outer_report report;
} outcome;

static outcome begin(void)
{
    outcome o = {.state = {.params = zeros(N),
                           .momentum = zeros(N),
                           .carry = zeros(N),
                           .displacement = 0.02}};
    fill_odd(o.state.params, N, 1);
    fill(o.state.momentum, N, 2);
    fill(o.state.carry, N, 3);
    return o;
}

/* Two rounds. */
static outcome merge_with(const pl_arith *table, rounds *r)
{
    outcome o = begin();
    r->merge.state = &o.state;
    for (int i = 0; i < 2; i++)
        ok(table->merge(table, &r->merge, &o.report));
    r->merge.state = NULL;
    return o;
}

static void assert_same_outcome(const outcome *a, const outcome *b)
{
    assert_same_floats(a->state.params, b->state.params, N);
    assert_same_floats(a->state.momentum, b->state.momentum, N);
    assert_same_floats(a->state.carry, b->state.carry, N);
    assert_true(a->state.displacement == b->state.displacement);
    assert_int_equal(a->state.arrivals, b->state.arrivals);
    assert_memory_equal(&a->report, &b->report, sizeof a->report);
}

static void free_outcome(outcome *o)
{
    pl_free(o->state.params), pl_free(o->state.momentum), pl_free(o->state.carry);
}

static void check_round(const pl_arith *table, rounds *r)
{
    outcome here = merge_with(pl_arith_or_cpu(NULL), r), there = merge_with(table, r);
    assert_same_outcome(&here, &there);
    free_outcome(&here);
    free_outcome(&there);
}

static void rounds_of_every_method_are_the_cpus(void **state)
{
    static const pl_method methods[] = {
        PL_METHOD_DILOCO,    PL_METHOD_FEDAVG, PL_METHOD_HEAVY_BALL,      PL_METHOD_CO2,
        PL_METHOD_STREAMING, PL_METHOD_EAGER,  PL_METHOD_DELAYED_NESTEROV};
    (void)state;
    need_device();
    pl_arith *table = open_table(false);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        rounds r;
        make_round(&r, methods[i], i % 2 ? "i4" : "topk");
        check_round(table, &r);
        r.merge.origin = r.origin; /* as a home that follows noloco's holders */
        r.merge.factor = 0.37f;
        check_round(table, &r);
        free_round(&r);
    }
    pl_accel_arith_close(&table);
}

static void means_of_what_is_there_are_the_cpus(void **state)
{
    (void)state;
    need_device();
    pl_arith *table = open_table(false);
    for (int i = 0; i < 2; i++) {
        rounds r;
        make_round(&r, i ? PL_METHOD_CO2 : PL_METHOD_DILOCO, "topk");
        r.merge.present = true;
        check_round(table, &r);
        free_round(&r);
    }
    pl_accel_arith_close(&table);
}

static void homomorphic_sums_are_the_cpus(void **state)
{
    static const char *const codecs[] = {"i8-shared", "sketch16"};
    (void)state;
    need_device();
    pl_arith *table = open_table(false);
    for (int i = 0; i < 2; i++) {
        rounds r;
        make_round(&r, PL_METHOD_DILOCO, codecs[i]);
        check_round(table, &r);
        free_round(&r);
    }
    pl_accel_arith_close(&table);
}

/* Cells for fewer keys than there are: the sum does not peel, each message does. */
static void a_sum_that_does_not_peel_is_added_one_by_one(void **state)
{
    enum { SIZE = 4096, MOST = 24 };
    pl_codec_options o = options_of("sketch16");
    pl_codec_round round = round_of(MOST);
    pl_method_settings settings = pl_method_defaults(PL_METHOD_FEDAVG);
    const pl_outer_step step = pl_method_step(&settings, 1, false, MOST);
    pl_buf bytes[MOST] = {{0}};
    pl_codec_message messages[MOST];
    float *x = zeros(SIZE), *params[2] = {zeros(SIZE), zeros(SIZE)};
    (void)state;
    need_device();
    o.k = 400;
    o.cells = 1.05;
    for (int i = 0; i < MOST; i++) {
        fill(x, SIZE, 60 + (uint64_t)i);
        encode_all(&o, &round, x, SIZE, NULL, &bytes[i]);
        messages[i] = (pl_codec_message){bytes[i].data, bytes[i].len};
    }
    pl_arith *there = open_table(false);
    for (int i = 0; i < 2; i++) {
        const pl_arith *table = i ? there : pl_arith_or_cpu(NULL);
        pl_outer_state at = {.params = params[i]};
        pl_outer_report report;
        pl_codec_list list = {messages, NULL, MOST, 0};
        const pl_arith_merge merge = {.step = &step,
                                      .state = &at,
                                      .n = SIZE,
                                      .messages = pl_codec_source_of(&list),
                                      .homomorphic = true,
                                      .factor = 1.0f};
        ok(table->merge(table, &merge, &report));
    }
    assert_same_floats(params[0], params[1], SIZE);
    pl_accel_arith_close(&there);
    for (int i = 0; i < MOST; i++)
        pl_buf_destroy(&bytes[i]);
    pl_free(x), pl_free(params[0]), pl_free(params[1]);
}

/* ---- what workers do ---- */

static void eager_steps_are_the_cpus(void **state)
{
    pl_method_settings settings = pl_method_defaults(PL_METHOD_DILOCO);
    const pl_outer_step step = pl_method_step(&settings, 0.5, false, 4);
    float *v[3], *x[2], *m[2];
    (void)state;
    need_device();
    pl_arith *there = open_table(false);
    for (int i = 0; i < 3; i++)
        fill(v[i] = zeros(N), N, 20 + (uint64_t)i);
    for (int first = 0; first < 2; first++) {
        for (int i = 0; i < 2; i++) {
            const pl_arith *table = i ? there : pl_arith_or_cpu(NULL);
            fill_odd(x[i] = zeros(N), N, 5);
            fill(m[i] = zeros(N), N, 6);
            pl_outer_state at = {.params = x[i], .momentum = m[i]};
            const pl_arith_eager eager = {
                &step, &at, N, v[0], first ? NULL : v[1], first ? NULL : v[2], 4};
            ok(table->eager(table, &eager));
        }
        assert_same_floats(x[0], x[1], N);
        assert_same_floats(m[0], m[1], N);
        for (int i = 0; i < 2; i++)
            pl_free(x[i]), pl_free(m[i]);
    }
    for (int i = 0; i < 3; i++)
        pl_free(v[i]);
    pl_accel_arith_close(&there);
}

static void check_meeting(const pl_arith *there, pl_rule rule, bool one, bool alone)
{
    const pl_gossip_step step = {0.5, 0.7, one ? 0.7 : 0.9, rule};
    float *v[4], *x[2], *m[2];
    for (int i = 0; i < 4; i++)
        fill_odd(v[i] = zeros(N), N, 70 + (uint64_t)i);
    for (int i = 0; i < 2; i++) {
        const pl_arith *table = i ? there : pl_arith_or_cpu(NULL);
        fill_odd(x[i] = zeros(N), N, 8);
        fill(m[i] = zeros(N), N, 9);
        const pl_arith_meeting meeting = {
            .step = &step,
            .one_vector = one,
            .params = x[i],
            .velocity = m[i],
            .own = {v[0], one ? NULL : v[1]},
            .mate = {alone ? NULL : v[2], one || alone ? NULL : v[3]},
            .n = N};
        ok(table->meet(table, &meeting));
    }
    assert_same_floats(x[0], x[1], N);
    assert_same_floats(m[0], m[1], N);
    for (int i = 0; i < 2; i++)
        pl_free(x[i]), pl_free(m[i]);
    for (int i = 0; i < 4; i++)
        pl_free(v[i]);
}

static void meetings_are_the_cpus(void **state)
{
    (void)state;
    need_device();
    pl_arith *table = open_table(false);
    for (int i = 0; i < 8; i++)
        check_meeting(table, i & 1 ? PL_RULE_NESTEROV : PL_RULE_HEAVY_BALL, i & 2,
                      i & 4);
    pl_accel_arith_close(&table);
}

/* ---- codecs ---- */

typedef struct coder {
    const pl_arith *table;
    pl_buf message;
    float residual[N], sum[N];
    double norms[2]; /* added; validated */
    pl_status status;
} coder;

static void code(void *context)
{
    coder *c = context;
    static const pl_codec_part part = {0, N, PL_ROLE_MLP};
    const pl_codec_options options = options_of("i4");
    float *x = zeros(N);
    fill(x, N, 3);
    const pl_arith_encode encode = {.options = &options,
                                    .parts = &part,
                                    .n_parts = 1,
                                    .update = x,
                                    .n = N,
                                    .residual = c->residual};
    pl_arith_add add = {.n = N, .weight = -0.5f, .sum = c->sum};
    for (int i = 0; i < 4 && c->status == PL_OK; i++) {
        pl_buf_clear(&c->message);
        c->status = c->table->encode(c->table, &encode, &c->message);
        add.message = (pl_codec_message){c->message.data, c->message.len};
        if (c->status == PL_OK)
            c->status = c->table->add(c->table, &add, &c->norms[0]);
    }
    add.sum = NULL;
    if (c->status == PL_OK)
        c->status = c->table->add(c->table, &add, &c->norms[1]);
    pl_free(x);
}

static void assert_same_coder(const coder *a, const coder *b)
{
    assert_int_equal(b->status, PL_OK);
    assert_int_equal(a->message.len, b->message.len);
    assert_memory_equal(a->message.data, b->message.data, a->message.len);
    assert_same_floats(a->residual, b->residual, N);
    assert_same_floats(a->sum, b->sum, N);
    assert_true(a->norms[0] == b->norms[0] && a->norms[1] == b->norms[1]);
}

static void several_threads_may_ask_at_once(void **state)
{
    enum { THREADS = 3 };
    static coder here, there[THREADS];
    pl_thread *threads[THREADS];
    (void)state;
    need_device();
    pl_arith *table = open_table(false);
    here.table = pl_arith_or_cpu(NULL);
    code(&here);
    for (int i = 0; i < THREADS; i++) {
        there[i].table = table;
        ok(pl_thread_start("asks", code, &there[i], &threads[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        pl_thread_join(&threads[i]);
        assert_same_coder(&here, &there[i]);
        pl_buf_destroy(&there[i].message);
    }
    pl_buf_destroy(&here.message);
    pl_accel_arith_close(&table);
}

/* ---- failures ---- */

static void what_is_wrong_is_said_in_the_cpus_words(void **state)
{
    const char text[] = "no update at all, but long enough to be looked at as if it "
                        "were one, with header and table";
    const pl_arith_add add = {.message = {text, sizeof text}, .n = N, .weight = 1};
    const pl_arith *cpu = pl_arith_or_cpu(NULL);
    char sentence[512];
    double norm;
    (void)state;
    need_device();
    pl_arith *table = open_table(true);
    assert_int_equal(cpu->add(cpu, &add, &norm), PL_ERR_DATA);
    snprintf(sentence, sizeof sentence, "%s", pl_last_error());
    assert_int_equal(table->add(table, &add, &norm), PL_ERR_DATA);
    assert_string_equal(sentence, pl_last_error());
    pl_accel_arith_close(&table);
}

/* A device that failed goes on failing: by name that is an error, else the CPU does
 * what is left, to the same bytes. */
static void after_a_failure_the_cpu_goes_on_if_it_may(void **state)
{
    static coder here, there;
    (void)state;
    need_device();
    if (emulation_n_launches() == 0)
        skip(); /* a real device is not to be broken */
    here.table = pl_arith_or_cpu(NULL);
    code(&here);
    for (int optional = 0; optional < 2; optional++) {
        pl_arith *table = open_table(optional);
        memset(&there, 0, sizeof there);
        there.table = table;
        emulation_fail("a cable was pulled");
        code(&there);
        if (optional)
            assert_same_coder(&here, &there);
        else
            assert_int_equal(there.status, PL_ERR_DEVICE);
        pl_buf_destroy(&there.message);
        pl_accel_arith_close(&table);
        assert_non_null(emulation_take_finding());
    }
    pl_buf_destroy(&here.message);
}

static void memory_that_does_not_suffice_is_the_cpus(void **state)
{
    static coder here, there;
    void *all = NULL;
    (void)state;
    need_device();
    if (emulation_n_launches() == 0)
        skip(); /* the memory of a real device is not all ours */
    here.table = pl_arith_or_cpu(NULL);
    code(&here);
    pl_arith *table = open_table(true);
    there.table = table;
    size_t bytes = 1 << 29; /* as much as there is */
    while (pl_accel_alloc(rig.accel, bytes, "all", &all) != PL_OK)
        bytes -= 4096;
    code(&there);
    assert_same_coder(&here, &there);
    pl_accel_free(rig.accel, all);
    pl_buf_destroy(&here.message);
    pl_buf_destroy(&there.message);
    pl_accel_arith_close(&table);
}

/* The nth result from now on does not come back. A point is counted by its place in the
 * variable: each case has a place of its own, behind points that do not exist. */
static void lose_result(int nth)
{
    static int place;
    pl_buf spec = {0};
    for (int i = 0; i < place; i++)
        pl_buf_printf(&spec, "no:exit,");
    place++;
    pl_buf_printf(&spec, "outer.back.after:error:%d", nth);
    setenv("PATHLOOM_FAILPOINT", pl_buf_text(&spec), 1);
    pl_buf_destroy(&spec);
}

static void lose_none(void)
{
    setenv("PATHLOOM_FAILPOINT", "no:exit", 1);
}

/* Whichever of parameters, momentum and carry it is, of the first round or the next. */
static void a_round_whose_results_get_lost_is_the_cpus(void **state)
{
    rounds r;
    (void)state;
    need_device();
    make_round(&r, PL_METHOD_DELAYED_NESTEROV, "i4");
    outcome here = merge_with(pl_arith_or_cpu(NULL), &r);
    for (int nth = 1; nth <= 6; nth++) {
        pl_arith *table = open_table(true);
        lose_result(nth);
        outcome there = merge_with(table, &r);
        assert_same_outcome(&here, &there);
        free_outcome(&there);
        pl_accel_arith_close(&table);
    }
    free_outcome(&here);
    free_round(&r);
    lose_none();
}

/* By name it is an error, and nothing is changed: the next call may go on from it. */
static void a_device_by_name_that_loses_results_changes_nothing(void **state)
{
    rounds r;
    (void)state;
    need_device();
    make_round(&r, PL_METHOD_DELAYED_NESTEROV, "i4");
    pl_arith *table = open_table(false);
    outcome before = begin();
    for (int nth = 1; nth <= 3; nth++) {
        outcome o = begin();
        r.merge.state = &o.state;
        lose_result(nth);
        assert_int_equal(table->merge(table, &r.merge, &o.report), PL_ERR_DEVICE);
        assert_true(pl_starts_with(pl_last_error(), "cuda "));
        o.report = before.report;
        assert_same_outcome(&before, &o);
        free_outcome(&o);
    }
    lose_none();
    check_round(table, &r);
    free_outcome(&before);
    free_round(&r);
    pl_accel_arith_close(&table);
}

static void codes_whose_results_get_lost_are_the_cpus(void **state)
{
    static coder here, there;
    (void)state;
    need_device();
    here.table = pl_arith_or_cpu(NULL);
    code(&here);
    for (int nth = 1; nth <= 8; nth++) {
        pl_arith *table = open_table(true);
        memset(&there, 0, sizeof there);
        there.table = table;
        lose_result(nth);
        code(&there);
        assert_same_coder(&here, &there);
        pl_buf_destroy(&there.message);
        pl_accel_arith_close(&table);
    }
    lose_none();
    pl_buf_destroy(&here.message);
}

static void meetings_whose_results_get_lost_are_the_cpus(void **state)
{
    (void)state;
    need_device();
    for (int nth = 1; nth <= 2; nth++) {
        pl_arith *table = open_table(true);
        lose_result(nth);
        check_meeting(table, PL_RULE_NESTEROV, false, false);
        pl_accel_arith_close(&table);
    }
    lose_none();
}

static void nothing_was_found(void **state)
{
    (void)state;
    need_device();
    assert_null(emulation_take_finding());
}

int main(void)
{
    lose_none(); /* the variable is looked at from the first passage on, or never */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_of_every_method_are_the_cpus),
        cmocka_unit_test(means_of_what_is_there_are_the_cpus),
        cmocka_unit_test(homomorphic_sums_are_the_cpus),
        cmocka_unit_test(a_sum_that_does_not_peel_is_added_one_by_one),
        cmocka_unit_test(eager_steps_are_the_cpus),
        cmocka_unit_test(meetings_are_the_cpus),
        cmocka_unit_test(several_threads_may_ask_at_once),
        cmocka_unit_test(what_is_wrong_is_said_in_the_cpus_words),
        cmocka_unit_test(memory_that_does_not_suffice_is_the_cpus),
        cmocka_unit_test(after_a_failure_the_cpu_goes_on_if_it_may),
        cmocka_unit_test(a_round_whose_results_get_lost_is_the_cpus),
        cmocka_unit_test(a_device_by_name_that_loses_results_changes_nothing),
        cmocka_unit_test(codes_whose_results_get_lost_are_the_cpus),
        cmocka_unit_test(meetings_whose_results_get_lost_are_the_cpus),
        cmocka_unit_test(nothing_was_found),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
