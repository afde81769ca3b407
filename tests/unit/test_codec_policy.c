/* folder: codec; label: unit */
#include "tests/support/codec_support.h"

static pl_topology *topology_of(bool tied)
{
    pl_shape shape;
    pl_topology_spec spec;
    pl_topology *t = NULL;
    assert_ok(pl_preset("laptop", &shape, &spec));
    shape.tied = tied;
    spec.embed_choice = spec.head_choice = PL_CHOICE_COMMON;
    assert_ok(pl_topology_create(&shape, &spec, &t));
    return t;
}

PL_TEST(parts_of_a_module_lie_back_to_back_and_fill_it)
{
    for (int tied = 0; tied < 2; tied++) {
        OWNED(pl_topology_destroy) pl_topology *t = topology_of(tied);
        for (int m = 0; m < pl_topology_n_modules(t); m++) {
            pl_codec_part parts[256];
            const pl_slot *slot = pl_topology_slot(t, pl_topology_module_slot(t, m));
            int n = pl_codec_parts(t, m, NULL);
            assert_in_range(n, 1, 256);
            assert_int_equal(pl_codec_parts(t, m, parts), n);
            size_t at = 0;
            for (int i = 0; i < n; i++) {
                assert_int_equal(parts[i].first, at);
                at += parts[i].count;
            }
            assert_int_equal(at, slot->n_params);
        }
    }
}

static int count_role(const pl_topology *t, const char *module, int role)
{
    pl_codec_part parts[256];
    int count = 0, n = pl_codec_parts(t, pl_topology_find_module(t, module), parts);
    for (int i = 0; i < n; i++)
        count += parts[i].role == role;
    return count;
}

PL_TEST(tensors_have_the_roles_of_their_names)
{
    OWNED(pl_topology_destroy) pl_topology *t = topology_of(false);
    /* L1 has one shared block, because blocks 0 and 3 are private. */
    assert_int_equal(count_role(t, "L1.E0", PL_ROLE_SMALL), 2);
    assert_int_equal(count_role(t, "L1.E0", PL_ROLE_ATTENTION_IN), 3);
    assert_int_equal(count_role(t, "L1.E0", PL_ROLE_ATTENTION_OUT), 1);
    assert_int_equal(count_role(t, "L1.E0", PL_ROLE_MLP), 3);
    assert_int_equal(count_role(t, "embed.E0", PL_ROLE_EMBED), 1);
    assert_int_equal(count_role(t, "head.E0", PL_ROLE_SMALL), 1);
    assert_int_equal(count_role(t, "head.E0", PL_ROLE_HEAD), 1);
}

PL_TEST(unknown_codec_is_a_configuration_error)
{
    pl_codec_options o;
    assert_fails(pl_codec_options_default("int7", &o), PL_ERR_CONFIG, "int7");
    assert_fails(pl_codec_options_default("sketch", &o), PL_ERR_CONFIG,
                 "did you mean `sketch16`");
}

PL_TEST(every_default_passes_its_own_check)
{
    static const char *const names[] = {"f32",  "bf16",     "i8",        "i4",
                                        "topk", "sketch16", "i8-shared", "tagc"};
    for (int i = 0; i < 8; i++) {
        pl_codec_options o;
        assert_ok(pl_codec_options_default(names[i], &o));
        assert_ok(pl_codec_options_check(&o));
        assert_int_equal(o.codec[PL_ROLE_SMALL], PL_CODEC_F32);
        assert_int_equal(pl_codec_is_homomorphic(&o), i >= 5);
        assert_int_equal(pl_codec_is_lossy(&o), i >= 1);
        assert_int_equal(pl_codec_drops_much(&o), i >= 3);
    }
}

PL_TEST(options_out_of_range_are_refused)
{
    pl_codec_options good, o;
    assert_ok(pl_codec_options_default("topk", &good));
#define REFUSED(change)                                                                \
    o = good;                                                                          \
    change;                                                                            \
    assert_int_equal(pl_codec_options_check(&o), PL_ERR_CONFIG)
    REFUSED(o.k = 0);
    REFUSED(o.k = 4097);
    REFUSED(o.value_bits = 4);
    REFUSED(o.selector = PL_SELECT_COUNT);
    REFUSED(o.small = -1);
    REFUSED(o.beta = 1.5);
    REFUSED(o.beta = NAN);
    REFUSED(o.cells = 1.0);
    REFUSED(o.codec[PL_ROLE_HEAD] = 0);
    REFUSED(o.codec[PL_ROLE_HEAD] = PL_CODEC_COUNT);
    /* These two codecs may be used only inside messages. */
    REFUSED(o.codec[PL_ROLE_HEAD] = WIRE_I22_SHARED);
    REFUSED(o.codec[PL_ROLE_HEAD] = WIRE_LIST16);
    REFUSED(o.codec[PL_ROLE_HEAD] = PL_CODEC_SKETCH16);
#undef REFUSED
    assert_said("without decoding");
}

PL_TEST(stretches_follow_the_roles)
{
    OWNED(pl_topology_destroy) pl_topology *t = topology_of(false);
    pl_codec_part parts[256];
    pl_codec_options o;
    OWNED(pl_buf_destroy) pl_buf m = {0};
    codec_reader r;
    codec_stretch s;
    int module = pl_topology_find_module(t, "L1.E0"), codecs[8] = {0}, n = 0;
    int n_parts = pl_codec_parts(t, module, parts);
    size_t n_params = pl_topology_slot(t, pl_topology_module_slot(t, module))->n_params;
    OWNED(free_memory) float *x = zeros(n_params);
    assert_ok(pl_codec_options_default("i4", &o));
    o.codec[PL_ROLE_ATTENTION_IN] = o.codec[PL_ROLE_ATTENTION_OUT] = PL_CODEC_I8;
    fill_values(x, n_params, 4);
    assert_ok(pl_codec_encode_module(&o, parts, n_parts, NULL, x, NULL, &m));
    assert_ok(codec_reader_open(&r, m.data, m.len, n_params));
    while (codec_reader_next(&r, &s) && n < 8)
        codecs[n++] = s.codec;
    assert_int_equal(n, 3);
    assert_int_equal(codecs[0], PL_CODEC_F32);
    assert_int_equal(codecs[1], PL_CODEC_I8);
    assert_int_equal(codecs[2], PL_CODEC_I4);
}

PL_TEST(message_says_what_round_it_is_of)
{
    enum { N = 5000 };
    static float x[N];
    pl_codec_options o = options_of("i8-shared");
    pl_codec_round round = round_of(7);
    pl_codec_info info;
    OWNED(pl_buf_destroy) pl_buf m = {0};
    fill_values(x, N, 1);
    encode_all(&o, &round, x, N, NULL, &m);
    assert_ok(pl_codec_inspect(m.data, m.len, N, &info));
    assert_true(info.homomorphic && info.contributors == 1 && info.seed == 42);
    assert_int_equal(info.n_contributors, 7);
    assert_int_equal(info.scale_exponent, round.scale_exponent);
}

PL_TEST(rounds_that_cannot_be_are_refused)
{
    static float x[10];
    pl_codec_options o = options_of("sketch16");
    pl_codec_round many = round_of(1), odd = round_of(1), good = round_of(1);
    many.n_contributors = SKETCH_W_MAX + 1;
    odd.weight = NAN;
    const struct {
        const pl_codec_round *round;
        size_t second; /* the first value of the second part */
    } cases[] = {{NULL, 5}, {&many, 5}, {&odd, 5}, {&good, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pl_codec_part parts[] = {{0, 5, PL_ROLE_MLP},
                                       {cases[i].second, 5, PL_ROLE_MLP}};
        OWNED(pl_buf_destroy) pl_buf m = {0};
        assert_int_equal(
            pl_codec_encode_module(&o, parts, 2, cases[i].round, x, NULL, &m),
            PL_ERR_ARG);
        assert_int_equal(m.len, 0);
    }
}

PL_TEST(shared_scale_reaches_four_to_eight_deviations)
{
    for (double rms = 1e-12; rms < 1e6; rms *= 1.7) {
        double reach = 128 * ldexp(1.0, pl_codec_exponent(rms * 100, 10000));
        assert_true(reach >= 4 * rms && reach <= 8 * rms);
    }
    assert_int_equal(pl_codec_exponent(0, 100), pl_codec_exponent(0x1p-10, 1));
    assert_int_equal(pl_codec_exponent(INFINITY, 100), pl_codec_exponent(0, 1));
    assert_in_range(pl_codec_exponent(1e-300, 1) + 96, 0, 0);
}
