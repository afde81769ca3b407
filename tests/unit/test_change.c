/* folder: outer; label: unit
 *
 * Tests versions that are sent as encoded changes. A reader must compute the bytes that
 * the home commits, and what the rounding of a change leaves out must be in a later
 * change. */
#include "codec/codec.h"
#include "outer/outer.h"
#include "tests/support/tiny_arm.h"

#include <math.h>

#include "tests/support/suite.h"

enum { MODULE = 1, ROUNDS = 12 }; /* MODULE is shared by two paths */

typedef struct world {
    pl_arm arm;
    pl_topology *topology;
    size_t n;
    uint64_t drawn;
    float *version, *params, *residual, *exact, *reader;
} world;

static float *vector(size_t n)
{
    float *v = NULL;
    assert_ok(pl_try_alloc(n * sizeof *v, "a vector", (void **)&v));
    memset(v, 0, n * sizeof *v);
    return v;
}

static void open_world(world *w, const char *codec)
{
    memset(w, 0, sizeof *w);
    w->arm.shape = tiny_shape(4);
    /* The matrices are so large that the codec does not treat them as "small"
     * tensors. */
    w->arm.shape.width = 64;
    w->arm.shape.head_size = 32;
    w->arm.shape.ffn = 96;
    w->arm.spec = (pl_topology_spec){.n_levels = 2, .experts = {2, 2}, .replicas = 1};
    w->arm.outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    assert_ok(pl_codec_options_default(codec, &w->arm.outer.down));
    assert_ok(pl_topology_create(&w->arm.shape, &w->arm.spec, &w->topology));
    w->n = pl_topology_slot(w->topology, pl_topology_module_slot(w->topology, MODULE))
               ->n_params;
    float **all[] = {&w->version, &w->params, &w->residual, &w->exact, &w->reader};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = vector(w->n);
    for (size_t i = 0; i < w->n; i++)
        w->version[i] = w->exact[i] = w->reader[i] = pl_random_normal(7, 1, w->drawn++);
}

static void close_world(world *w)
{
    pl_topology_destroy(&w->topology);
    pl_free(w->version);
    pl_free(w->params);
    pl_free(w->residual);
    pl_free(w->exact);
    pl_free(w->reader);
}

/* Takes an outer step of random size. Advances the home's `version`, the reader's
 * version (from the message `change` of the home), and `exact`, which is never
 * rounded. */
static void step(world *w, pl_buf *change)
{
    double norm = 0;
    for (size_t i = 0; i < w->n; i++) {
        float d = 0.01f * pl_random_normal(7, 1, w->drawn++);
        w->params[i] = w->version[i] - d;
        w->exact[i] -= d;
    }
    pl_buf_clear(change);
    assert_ok(pl_change_make(&w->arm, w->topology, MODULE, w->version, w->params,
                             w->residual, change, &norm));
    assert_true(norm > 0);
    memcpy(w->version, w->params, w->n * sizeof *w->version);
    assert_ok(pl_change_apply(change->data, change->len, w->n, w->reader));
}

static double largest(const world *w, bool with_residual)
{
    double worst = 0;
    for (size_t i = 0; i < w->n; i++) {
        double kept = with_residual ? w->residual[i] : 0;
        worst = fmax(worst, fabs(w->version[i] - kept - w->exact[i]));
    }
    return worst;
}

static void whoever_applies_the_change_has_the_same_bytes(const char *codec)
{
    OWNED(close_world) world w;
    OWNED(pl_buf_destroy) pl_buf change = {0};
    open_world(&w, codec);
    assert_true(pl_contract_of(&w.arm, w.topology, MODULE).keeps_change);
    for (int i = 0; i < ROUNDS; i++) {
        step(&w, &change);
        assert_memory_equal(w.version, w.reader, w.n * sizeof *w.version);
        assert_true(change.len < w.n * sizeof(float) * 3 / 5);
    }
}

PL_TEST(a_version_is_what_its_change_says)
{
    whoever_applies_the_change_has_the_same_bytes("bf16");
    whoever_applies_the_change_has_the_same_bytes("i8");
    whoever_applies_the_change_has_the_same_bytes("i4");
}

/* version - residual must equal the sum of the exact steps up to the rounding of
 * floats. The error of the version itself must not grow with the number of steps. */
static void check_later(const char *codec)
{
    OWNED(close_world) world w;
    OWNED(pl_buf_destroy) pl_buf change = {0};
    open_world(&w, codec);
    step(&w, &change);
    double after_one = largest(&w, false);
    for (int i = 1; i < 40; i++)
        step(&w, &change);
    assert_true(after_one > 1e-4);
    assert_true(largest(&w, true) < 1e-5);
    assert_true(largest(&w, false) < 4 * after_one);
}

PL_TEST(what_rounding_leaves_out_comes_later)
{
    check_later("i4");
}

PL_TEST(modules_of_one_path_and_whole_versions_have_none)
{
    OWNED(close_world) world w;
    open_world(&w, "f32");
    assert_false(pl_contract_of(&w.arm, w.topology, MODULE).keeps_change);
    close_world(&w);
    open_world(&w, "i8");
    pl_topology_destroy(&w.topology);
    w.arm.spec.private_block[0] = true;
    assert_ok(pl_topology_create(&w.arm.shape, &w.arm.spec, &w.topology));
    int n_kept = 0, n_alone = 0;
    for (int m = 0; m < pl_topology_n_modules(w.topology); m++) {
        n_kept += pl_contract_of(&w.arm, w.topology, m).keeps_change;
        n_alone += pl_arm_contributors(w.topology, m) == 1;
    }
    assert_true(n_alone > 0);
    assert_int_equal(n_kept + n_alone, pl_topology_n_modules(w.topology));
}

PL_TEST(sparse_codecs_and_methods_without_versions_are_refused)
{
    pl_outer outer = {.method = pl_method_defaults(PL_METHOD_CO2)};
    assert_ok(pl_codec_options_default("i8", &outer.down));
    assert_ok(pl_change_check(&outer));
    outer.method = pl_method_defaults(PL_METHOD_NOLOCO);
    assert_fails(pl_change_check(&outer), PL_ERR_CONFIG, "noloco");
    outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    assert_ok(pl_codec_options_default("topk", &outer.down));
    assert_fails(pl_change_check(&outer), PL_ERR_CONFIG, "topk");
}

PL_TEST(a_change_of_another_module_is_refused)
{
    OWNED(close_world) world w;
    OWNED(pl_buf_destroy) pl_buf change = {0};
    open_world(&w, "i8");
    step(&w, &change);
    assert_int_equal(pl_change_apply(change.data, change.len, w.n - 1, w.reader),
                     PL_ERR_DATA);
    assert_int_equal(pl_change_apply(change.data, change.len - 1, w.n, w.reader),
                     PL_ERR_DATA);
}

PL_TEST(steps_that_are_not_finite_are_refused)
{
    OWNED(close_world) world w;
    OWNED(pl_buf_destroy) pl_buf change = {0};
    double norm;
    open_world(&w, "i8");
    w.params[3] = INFINITY;
    assert_int_equal(pl_change_make(&w.arm, w.topology, MODULE, w.version, w.params,
                                    w.residual, &change, &norm),
                     PL_ERR_NUMERIC);
}
