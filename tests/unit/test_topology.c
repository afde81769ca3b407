/* folder: modules; label: unit */
/* Tests slots, modules and paths of a topology, and also presets, initial values and
 * the learning rate. */
#include "modules/modules.h"
#include "tests/support/shape.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/suite.h"

static const pl_shape small =
    SHAPE(50, 8, 4, 2, 4, 12, 6, 16, .tied = true, .rope_theta = 10000.0);

static pl_topology_spec levels(const char *text)
{
    pl_topology_spec spec = {.replicas = 1};
    assert_ok(pl_topology_parse_levels(text, &spec));
    return spec;
}

static pl_topology *make(const pl_shape *shape, const pl_topology_spec *spec)
{
    pl_topology *t;
    assert_ok(pl_topology_create(shape, spec, &t));
    return t;
}

static pl_topology *make_preset(const char *name)
{
    pl_shape shape;
    pl_topology_spec spec;
    assert_ok(pl_preset(name, &shape, &spec));
    return make(&shape, &spec);
}

/* Makes topology i of N_CASES. Together these topologies have every kind of slot. */
static pl_topology *make_case(int i)
{
    pl_shape shape = small;
    pl_topology_spec spec = levels(i == 0   ? "2x3"
                                   : i == 1 ? "3x2x2"
                                   : i == 2 ? "1"
                                            : "7");
    shape.tied = i % 2 == 0;
    if (i == 0) {
        spec.embed_choice = PL_CHOICE_PRIVATE;
        spec.head_choice = 2;
        spec.private_block[0] = spec.private_block[4] = true;
    } else if (i == 1) {
        spec.embed_choice = 2;
        spec.head_choice = PL_CHOICE_COMMON;
        spec.blocks[0] = 1, spec.blocks[1] = 3, spec.blocks[2] = 2;
    } else if (i == 3) {
        spec.embed_choice = spec.head_choice = 1;
    }
    return make(&shape, &spec);
}
enum { N_CASES = 4 };

/* ---- text ---- */

PL_TEST(levels_are_read_from_text)
{
    pl_topology_spec spec = levels("16x2x128");
    assert_int_equal(spec.n_levels, 3);
    assert_int_equal(spec.experts[0], 16);
    assert_int_equal(spec.experts[1], 2);
    assert_int_equal(spec.experts[2], 128);
}

PL_TEST(wrong_levels_are_refused_and_change_nothing)
{
    const char *const wrong[] = {"",
                                 "x",
                                 "2x",
                                 "x2",
                                 "2x0",
                                 "2,2",
                                 "2x2 ",
                                 "12345678",
                                 "-1",
                                 "2xx2",
                                 "2X2",
                                 "a",
                                 "1x1x1x1x1x1x1x1x1"};
    pl_topology_spec before = levels("3x5"), spec = before;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(pl_topology_parse_levels(wrong[i], &spec), PL_ERR_CONFIG);
        assert_memory_equal(&spec, &before, sizeof spec);
    }
}

PL_TEST(private_blocks_are_read_from_text)
{
    pl_topology_spec spec = levels("2x2");
    assert_ok(pl_topology_parse_private("0,5,11", 12, &spec));
    for (int b = 0; b < PL_BLOCKS_MAX; b++)
        assert_int_equal(spec.private_block[b], b == 0 || b == 5 || b == 11);
    assert_ok(pl_topology_parse_private("", 12, &spec));
    for (int b = 0; b < PL_BLOCKS_MAX; b++)
        assert_false(spec.private_block[b]);
    const char *const wrong[] = {"12", ",", "1,", "1,,2", "a", "1 2", "-1", "99999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(pl_topology_parse_private(wrong[i], 12, &spec), PL_ERR_CONFIG);
}

/* ---- layout ---- */

PL_TEST(slots_and_tensors_tile_the_path_without_gaps)
{
    for (int i = 0; i < N_CASES; i++) {
        pl_topology *t = make_case(i);
        size_t at = 0;
        int tensor = 0;
        for (int s = 0; s < pl_topology_n_slots(t); s++) {
            const pl_slot *slot = pl_topology_slot(t, s);
            size_t end = slot->offset + slot->n_params;
            assert_int_equal(slot->offset, at);
            assert_int_equal(slot->first_tensor, tensor);
            for (int k = 0; k < slot->n_tensors; k++, tensor++) {
                const pl_tensor *x = pl_topology_tensor(t, tensor);
                assert_int_equal(x->slot, s);
                assert_int_equal(x->offset, at);
                at += (size_t)x->rows * (size_t)x->cols;
            }
            assert_int_equal(at, end);
        }
        assert_int_equal(at, pl_topology_path_params(t));
        assert_int_equal(tensor, pl_topology_n_tensors(t));
        pl_topology_destroy(&t);
        assert_null(t);
    }
}

static const pl_tensor *find_tensor(const pl_topology *t, const char *name)
{
    for (int i = 0; i < pl_topology_n_tensors(t); i++)
        if (strcmp(pl_topology_tensor(t, i)->name, name) == 0)
            return pl_topology_tensor(t, i);
    return NULL;
}

PL_TEST(every_block_has_the_nine_llama_tensors_once)
{
    static const struct {
        const char *name;
        int rows, cols;
    } want[] = {{"input_layernorm", 1, 8},   {"post_attention_layernorm", 1, 8},
                {"self_attn.q_proj", 16, 8}, {"self_attn.k_proj", 8, 8},
                {"self_attn.v_proj", 8, 8},  {"self_attn.o_proj", 8, 16},
                {"mlp.gate_proj", 12, 8},    {"mlp.up_proj", 12, 8},
                {"mlp.down_proj", 8, 12}};
    OWNED(pl_topology_destroy) pl_topology *t = make_case(0);
    for (int b = 0; b < 6; b++)
        for (size_t i = 0; i < 9; i++) {
            char name[PL_NAME_MAX];
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", b, want[i].name);
            const pl_tensor *x = find_tensor(t, name);
            assert_non_null(x);
            assert_int_equal(x->block, b);
            assert_int_equal(x->rows, want[i].rows);
            assert_int_equal(x->cols, want[i].cols);
            assert_int_equal(x->decay, x->rows > 1);
        }
    assert_int_equal(pl_topology_n_tensors(t), 2 + 9 * 6);
    assert_null(find_tensor(t, "lm_head.weight"));
    pl_topology_destroy(&t);
    t = make_case(1);
    assert_int_equal(find_tensor(t, "lm_head.weight")->rows, 50);
}

PL_TEST(fused_matrices_lie_together)
{
    OWNED(pl_topology_destroy) pl_topology *t = make_case(1);
    for (int i = 1; i < pl_topology_n_tensors(t); i++) {
        const pl_tensor *before = pl_topology_tensor(t, i - 1);
        const pl_tensor *x = pl_topology_tensor(t, i);
        if (strstr(x->name, "k_proj"))
            assert_non_null(strstr(before->name, "q_proj"));
        if (strstr(x->name, "v_proj"))
            assert_non_null(strstr(before->name, "k_proj"));
        if (strstr(x->name, "up_proj"))
            assert_non_null(strstr(before->name, "gate_proj"));
    }
}

PL_TEST(the_longest_tensor_name_fits)
{
    pl_shape shape = small;
    shape.n_blocks = PL_BLOCKS_MAX;
    pl_topology_spec spec = levels("1");
    OWNED(pl_topology_destroy) pl_topology *t = make(&shape, &spec);
    assert_non_null(find_tensor(t, "model.layers.255.post_attention_layernorm.weight"));
}

/* ---- modules and paths ---- */

PL_TEST(modules_are_numbered_slot_by_slot_expert_by_expert)
{
    for (int i = 0; i < N_CASES; i++) {
        OWNED(pl_topology_destroy) pl_topology *t = make_case(i);
        int module = 0;
        for (int s = 0; s < pl_topology_n_slots(t); s++)
            for (int e = 0; e < pl_topology_slot(t, s)->n_experts; e++, module++) {
                assert_int_equal(pl_topology_module(t, s, e), module);
                assert_int_equal(pl_topology_module_slot(t, module), s);
            }
        assert_int_equal(pl_topology_n_modules(t), module);
    }
}

PL_TEST(paths_are_numbered_row_major_over_the_levels)
{
    pl_topology *t = make_case(1); /* 3x2x2; slots: embed, L1, L2, L3, head */
    int path = 0;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 2; b++)
            for (int c = 0; c < 2; c++, path++) {
                const int expert[] = {b, a, b, c, 0};
                for (int s = 0; s < 5; s++) {
                    int module = pl_topology_module_of_path(t, s, path);
                    assert_int_equal(module, pl_topology_module(t, s, expert[s]));
                }
            }
    assert_int_equal(pl_topology_n_paths(t), path);
    pl_topology_destroy(&t);
}

PL_TEST(module_paths_and_path_modules_agree)
{
    for (int i = 0; i < N_CASES; i++) {
        OWNED(pl_topology_destroy) pl_topology *t = make_case(i);
        int P = pl_topology_n_paths(t), seen = 0;
        for (int m = 0; m < pl_topology_n_modules(t); m++) {
            int n = pl_topology_module_n_paths(t, m), before = -1;
            for (int k = 0; k < n; k++) {
                int slot = pl_topology_module_slot(t, m);
                int path = pl_topology_module_path(t, m, k);
                assert_in_range(path, before + 1, P - 1);
                assert_int_equal(pl_topology_module_of_path(t, slot, path), m);
                assert_true(pl_topology_path_has(t, path, m));
                assert_int_equal(pl_topology_path_place(t, m, path), k);
                before = path;
            }
            for (int p = 0; p < P; p++)
                seen += pl_topology_path_has(t, p, m);
        }
        assert_int_equal(seen, P * pl_topology_n_slots(t));
    }
}

PL_TEST(each_module_has_its_share_of_the_paths)
{
    for (int i = 0; i < N_CASES; i++) {
        OWNED(pl_topology_destroy) pl_topology *t = make_case(i);
        int P = pl_topology_n_paths(t);
        for (int m = 0; m < pl_topology_n_modules(t); m++) {
            const pl_slot *slot = pl_topology_slot(t, pl_topology_module_slot(t, m));
            int n = pl_topology_module_n_paths(t, m);
            assert_int_equal(n, P / slot->n_experts);
            if (slot->choice == PL_CHOICE_PRIVATE)
                assert_int_equal(n, 1);
            if (slot->choice == PL_CHOICE_COMMON)
                assert_int_equal(n, P);
        }
    }
}

PL_TEST(private_blocks_leave_their_level_and_get_slots)
{
    /* 2x3; the embedding and blocks 0 and 4 are private. */
    OWNED(pl_topology_destroy) pl_topology *t = make_case(0);
    const char *const names[] = {"embed", "L1", "L2", "B0", "B4", "head"};
    const int experts[] = {6, 2, 3, 6, 6, 3}, tensors[] = {1, 18, 18, 9, 9, 1};
    assert_int_equal(pl_topology_n_slots(t), 6);
    for (int s = 0; s < 6; s++) {
        const pl_slot *slot = pl_topology_slot(t, s);
        assert_string_equal(slot->name, names[s]);
        assert_int_equal(slot->n_experts, experts[s]);
        assert_int_equal(slot->n_tensors, tensors[s]);
    }
    assert_int_equal(find_tensor(t, "model.layers.4.mlp.up_proj.weight")->slot, 4);
    assert_int_equal(find_tensor(t, "model.layers.5.mlp.up_proj.weight")->slot, 2);
}

PL_TEST(module_names_find_their_modules)
{
    for (int i = 0; i < N_CASES; i++) {
        OWNED(pl_topology_destroy) pl_topology *t = make_case(i);
        char name[PL_NAME_MAX];
        for (int m = 0; m < pl_topology_n_modules(t); m++) {
            pl_topology_module_name(t, m, name);
            assert_int_equal(pl_topology_find_module(t, name), m);
        }
    }
    OWNED(pl_topology_destroy) pl_topology *t = make_case(1);
    assert_int_equal(pl_topology_find_module(t, "head"), pl_topology_n_modules(t) - 1);
    assert_int_equal(pl_topology_find_module(t, "L1.E2"), pl_topology_module(t, 1, 2));
    const char *const none[] = {"",      "L1",     "embed", "L1.E3",
                                "L4.E0", "L1.E01", "L1.E",  "head.E1"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(pl_topology_find_module(t, none[i]), -1);
}

PL_TEST(path_names_spell_the_choice_of_each_level)
{
    static const struct {
        const char *levels;
        int path;
        const char *name;
    } want[] = {{"2x2", 1, "p01"},
                {"1", 0, "p0"},
                {"16x16", 255, "p1515"},
                {"8", 3, "p3"},
                {"3x11", 14, "p103"}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        char name[PL_NAME_MAX];
        pl_topology_spec spec = levels(want[i].levels);
        OWNED(pl_topology_destroy) pl_topology *t = make(&small, &spec);
        pl_topology_path_name(t, want[i].path, name);
        assert_string_equal(name, want[i].name);
    }
}

/* ---- refusals ---- */

static void expect_refused(const pl_shape *shape, const pl_topology_spec *spec,
                           const char *word)
{
    pl_topology *t;
    assert_fails(pl_topology_create(shape, spec, &t), PL_ERR_CONFIG, word);
    assert_null(t);
}

PL_TEST(shapes_that_do_not_add_up_are_refused)
{
    pl_topology_spec spec = levels("1");
    static const struct {
        size_t field;
        int value;
        const char *word;
    } wrong[] = {{offsetof(pl_shape, vocab), 0, "vocab"},
                 {offsetof(pl_shape, width), -8, "width"},
                 {offsetof(pl_shape, n_heads), 3, "n_kv_heads"},
                 {offsetof(pl_shape, n_kv_heads), 8, "n_kv_heads"},
                 {offsetof(pl_shape, head_size), 5, "head_size"},
                 {offsetof(pl_shape, ffn), 0, "ffn"},
                 {offsetof(pl_shape, n_blocks), 257, "n_blocks"},
                 {offsetof(pl_shape, context), 0, "context"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        pl_shape shape = small;
        memcpy((char *)&shape + wrong[i].field, &wrong[i].value, sizeof(int));
        expect_refused(&shape, &spec, wrong[i].word);
    }
    pl_shape shape = small;
    shape.norm_eps = 0.0;
    expect_refused(&shape, &spec, "norm_eps");
    shape = small, shape.rope_theta = (double)NAN;
    expect_refused(&shape, &spec, "rope_theta");
}

PL_TEST(specifications_that_do_not_add_up_are_refused)
{
    pl_topology_spec spec = levels("2x2x2x2");
    /* 6 blocks cannot be split evenly over 4 levels. */
    expect_refused(&small, &spec, "split evenly");
    spec = levels("2x2"), spec.blocks[0] = 2, spec.blocks[1] = 3;
    expect_refused(&small, &spec, "5 blocks");
    spec = levels("2x2"), spec.blocks[0] = 6;
    expect_refused(&small, &spec, "level 2");
    spec = levels("2x2"), spec.embed_choice = 3;
    expect_refused(&small, &spec, "embedding");
    spec = levels("2x2"), spec.head_choice = -2;
    expect_refused(&small, &spec, "head");
    spec = levels("2x2"), spec.replicas = 0;
    expect_refused(&small, &spec, "replicas");
    spec = levels("99999x99999");
    expect_refused(&small, &spec, "paths");
    spec = levels("2x2"), spec.private_block[6] = true;
    expect_refused(&small, &spec, "private block 6");
    spec = levels("2x2");
    spec.private_block[3] = spec.private_block[4] = spec.private_block[5] = true;
    expect_refused(&small, &spec, "level 2");
}

/* ---- initial values ---- */

static float *init_slot(const pl_topology *t, int slot, uint64_t seed)
{
    float *x = pl_alloc(pl_topology_slot(t, slot)->n_params * sizeof *x);
    pl_topology_init(t, slot, seed, x);
    return x;
}

PL_TEST(the_same_seed_gives_the_same_bytes_and_another_seed_others)
{
    OWNED(pl_topology_destroy) pl_topology *t = make_case(0);
    for (int s = 0; s < pl_topology_n_slots(t); s++) {
        size_t n = pl_topology_slot(t, s)->n_params * sizeof(float);
        OWNED(free_memory)
        float *a = init_slot(t, s, 1), *b = init_slot(t, s, 1), *c = init_slot(t, s, 2);
        assert_memory_equal(a, b, n);
        bool only_norms = pl_topology_slot(t, s)->kind == PL_SLOT_HEAD;
        assert_int_equal(memcmp(a, c, n) == 0, only_norms);
    }
}

PL_TEST(initial_values_do_not_depend_on_the_topology)
{
    pl_topology_spec spec = levels("1");
    OWNED(pl_topology_destroy)
    pl_topology *mixture = make_case(0), *dense = make(&small, &spec);
    const pl_tensor *a = find_tensor(mixture, "model.layers.4.mlp.up_proj.weight");
    const pl_tensor *b = find_tensor(dense, "model.layers.4.mlp.up_proj.weight");
    OWNED(free_memory)
    float *x = init_slot(mixture, a->slot, 5), *y = init_slot(dense, b->slot, 5);
    size_t ax = a->offset - pl_topology_slot(mixture, a->slot)->offset;
    size_t by = b->offset - pl_topology_slot(dense, b->slot)->offset;
    assert_memory_equal(x + ax, y + by, 12 * 8 * sizeof *x);
}

PL_TEST(initial_values_have_the_planned_mean_and_deviation)
{
    OWNED(pl_topology_destroy) pl_topology *t = make_preset("laptop");
    for (int i = 0; i < pl_topology_n_tensors(t); i++) {
        const pl_tensor *x = pl_topology_tensor(t, i);
        const pl_slot *slot = pl_topology_slot(t, x->slot);
        OWNED(free_memory) float *values = init_slot(t, x->slot, 3);
        const float *v = values + (x->offset - slot->offset);
        double n = (double)x->rows * x->cols, sum = 0.0, squares = 0.0;
        for (int k = 0; k < x->rows * x->cols; k++)
            sum += (double)v[k], squares += (double)v[k] * (double)v[k];
        if (x->init_std > 0.0) {
            bool residual = strstr(x->name, "o_proj") || strstr(x->name, "down_proj");
            double std = residual ? 0.02 / sqrt(8.0) : 0.02;
            assert_true(fabs(sum / n) < 4.0 * std / sqrt(n));
            assert_true(fabs(sqrt(squares / n) / std - 1.0) < 4.0 / sqrt(2.0 * n));
        } else {
            assert_true(sum == n && squares == n);
        }
    }
}

/* ---- presets ---- */

PL_TEST(every_preset_makes_a_topology)
{
    for (const char *const *name = pl_preset_names(); *name; name++) {
        char text[64];
        size_t len = strlen(*name);
        snprintf(text, sizeof text, "%s", *name);
        if (text[len - 1] == 'P')
            snprintf(text + len - 1, sizeof text - len + 1, "8");
        OWNED(pl_topology_destroy) pl_topology *t = make_preset(text);
        print_message("%-22s path %6.1fM  total %8.1fM  paths %3d  modules %4d\n", text,
                      (double)pl_topology_path_params(t) / 1e6,
                      (double)pl_topology_total_params(t) / 1e6, pl_topology_n_paths(t),
                      pl_topology_n_modules(t));
    }
}

/* The models of the DiPaCo paper have these total numbers of parameters: 0.5B (2x4),
 * 1.2B (8x8), 1.2B and 9.6B (flat MoE of 8 and 64), 5.3B and 20B (8x8 and 16x16
 * path-specific). Ours have fewer, because the paper's blocks have an additional
 * projection for relative positions. */
PL_TEST(preset_sizes_are_those_of_the_paper_within_our_block)
{
    static const struct {
        const char *name;
        int paths, replicas;
        double path, total; /* numbers of parameters in millions */
    } want[] = {{"dipaco-150m-2x2", 4, 1, 149.1, 298.2},
                {"dipaco-150m-2x4", 8, 1, 149.1, 418.7},
                {"dipaco-150m-8x8", 64, 1, 149.1, 1192.9},
                {"dipaco-150m-8x8-ps", 64, 1, 149.1, 5046.9},
                {"dipaco-150m-16x16", 256, 1, 149.1, 2385.9},
                {"dipaco-150m-16x16-ps", 256, 1, 149.1, 18902.9},
                {"flat-moe-8", 8, 1, 149.1, 1192.9},
                {"flat-moe-64", 64, 1, 149.1, 9543.5},
                {"diloco-16", 1, 16, 149.1, 149.1},
                {"dense-150m", 1, 1, 149.1, 149.1},
                {"dense-1b", 1, 1, 1279.9, 1279.9}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        OWNED(pl_topology_destroy) pl_topology *t = make_preset(want[i].name);
        double path = (double)pl_topology_path_params(t) / 1e6;
        double total = (double)pl_topology_total_params(t) / 1e6;
        if (fabs(path - want[i].path) > 0.051 || fabs(total - want[i].total) > 0.051)
            fail_msg("%s: %.1fM per path, %.1fM in all", want[i].name, path, total);
        assert_int_equal(pl_topology_n_paths(t), want[i].paths);
        assert_int_equal(pl_topology_n_replicas(t), want[i].replicas);
    }
}

PL_TEST(path_specific_preset_has_private_blocks_and_embedding)
{
    OWNED(pl_topology_destroy) pl_topology *t = make_preset("dipaco-150m-16x16-ps");
    const char *const private_slots[] = {"embed", "B0", "B5", "B6", "B11", "head"};
    for (size_t i = 0; i < 6; i++) {
        char name[PL_NAME_MAX];
        snprintf(name, sizeof name, "%s.E255", private_slots[i]);
        int module = pl_topology_find_module(t, name);
        assert_true(module >= 0);
        assert_int_equal(pl_topology_module_n_paths(t, module), 1);
    }
    int shared = pl_topology_find_module(t, "L2.E15");
    assert_int_equal(pl_topology_module_n_paths(t, shared), 16);
}

PL_TEST(a_misspelt_preset_is_refused_with_the_nearest_name)
{
    pl_shape shape;
    pl_topology_spec spec;
    assert_fails(pl_preset("dipaco-150m-2x3", &shape, &spec), PL_ERR_CONFIG,
                 "did you mean `dipaco-150m-2x");
    for (const char *const *name = pl_preset_names(); *name; name++)
        assert_said(*name);
    const char *const wrong[] = {"flat-moe-", "flat-moe-0", "diloco-x", "flat-moe-P",
                                 "diloco-99999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_fails(pl_preset(wrong[i], &shape, &spec), PL_ERR_CONFIG, wrong[i]);
    }
}

/* ---- cost and schedule ---- */

PL_TEST(flops_count_six_a_matrix_weight_and_the_attended_half)
{
    OWNED(pl_topology_destroy)
    pl_topology *t = make_case(2); /* tied: embedding and head are one matrix */
    double block = 8 * (16 + 8 + 8) + 8 * 16 + 3 * 8 * 12;
    /* 6 blocks; heads * head size = 16; two products, on average of (T + 1) / 2 rows */
    double attention = 6.0 * 16 * (9 + 1);
    double want = 2.0 * (6 * block + 50 * 8 + attention);
    assert_true(fabs(pl_topology_flops_per_token(t, 9, false) - want) < 1e-6);
    assert_true(fabs(pl_topology_flops_per_token(t, 9, true) - 3 * want) < 1e-6);
}

PL_TEST(learning_rate_warms_up_then_falls_by_a_cosine)
{
    const double peak = 4e-4, floor = 0.1;
    const pl_schedule s = {PL_SCHEDULE_COSINE, 10, 110, 0, peak, floor};
    double last = 0.0;
    for (int64_t step = 0; step < 10; step++) {
        double lr = pl_learning_rate(&s, step);
        assert_true(lr > last);
        last = lr;
    }
    assert_true(fabs(last - peak) < 1e-12);
    assert_true(fabs(pl_learning_rate(&s, 0) - peak / 10) < 1e-12);
    assert_true(fabs(pl_learning_rate(&s, 10) - peak) < 1e-12);
    for (int64_t step = 11; step <= 110; step++) {
        double lr = pl_learning_rate(&s, step);
        assert_true(lr < last + 1e-15);
        last = lr;
    }
    double middle = pl_learning_rate(&s, 60);
    assert_true(fabs(middle - peak * (1 + floor) / 2) < 1e-12);
    assert_true(fabs(last - peak * floor) < 1e-12);
    assert_true(fabs(pl_learning_rate(&s, 9999) - last) < 1e-15);
}

PL_TEST(learning_rate_without_warmup_starts_at_the_peak)
{
    const pl_schedule whole = {PL_SCHEDULE_COSINE, 0, 100, 0, 2.0, 0.0};
    const pl_schedule none = {PL_SCHEDULE_COSINE, 0, 0, 0, 2.0, 0.5};
    const pl_schedule rises = {PL_SCHEDULE_COSINE, 5, 5, 0, 2.0, 0.5};
    assert_true(pl_learning_rate(&whole, 0) == 2.0);
    assert_true(pl_learning_rate(&none, 0) == 1.0);
    assert_true(pl_learning_rate(&rises, 4) == 2.0);
}

PL_TEST(wsd_is_constant_until_its_last_steps_and_ends_at_the_floor)
{
    const pl_schedule s = {PL_SCHEDULE_WSD, 10, 110, 40, 1.0, 0.2};
    assert_true(fabs(pl_learning_rate(&s, 4) - 0.5) < 1e-12);
    for (int64_t step = 9; step <= 70; step++)
        assert_true(pl_learning_rate(&s, step) == 1.0);
    assert_true(fabs(pl_learning_rate(&s, 71) - (0.2 + 0.8 * 39 / 40)) < 1e-12);
    assert_true(fabs(pl_learning_rate(&s, 90) - 0.6) < 1e-12);
    assert_true(fabs(pl_learning_rate(&s, 110) - 0.2) < 1e-12);
    assert_true(fabs(pl_learning_rate(&s, 9999) - 0.2) < 1e-12);
    const pl_schedule base = {PL_SCHEDULE_WSD, 10, 110, 0, 1.0, 0.2};
    assert_true(pl_learning_rate(&base, 9999) == 1.0);
}

/* Checks that the modules of each path descend from the modules of its ancestor, the
 * path of `from` from which it descends. Counts the descendants of each ancestor. */
static void check_descent(const pl_topology *t, const pl_descent *d,
                          const pl_topology *from, int n_children[])
{
    assert_true(pl_topology_descends(t, d, from));
    for (int p = 0; p < pl_topology_n_paths(t); p++) {
        char name[PL_NAME_MAX], wanted[PL_NAME_MAX];
        int before = pl_topology_ancestor_path(t, d, from, p);
        assert_in_range(before, 0, pl_topology_n_paths(from) - 1);
        n_children[before]++;
        pl_topology_ancestor_path_name(t, d, p, name);
        pl_topology_path_name(from, before, wanted);
        assert_string_equal(name, wanted);
        for (int s = 0; s < pl_topology_n_slots(t); s++) {
            const int m = pl_topology_ancestor_module(
                t, d, from, pl_topology_module_of_path(t, s, p));
            const int slot = pl_topology_module_slot(from, m);
            assert_int_equal(m, pl_topology_module_of_path(from, slot, before));
        }
    }
}

PL_TEST(paths_descend_module_by_module)
{
    OWNED(pl_topology_destroy) pl_topology *from = make_case(0);
    const pl_topology_spec *was = pl_topology_get_spec(from);
    pl_topology_spec spec = *was;
    spec.experts[0] = 4;  /* 4 modules descend from 2 */
    spec.experts[1] = 12; /* 12 modules descend from 3 */
    OWNED(pl_topology_destroy) pl_topology *t = make(&small, &spec);
    pl_descent d = {.n_parents = 0};
    int n_children[6] = {0};
    memcpy(d.experts, was->experts, sizeof d.experts);
    assert_int_equal(pl_topology_spec_n_paths(&spec), 48);
    check_descent(t, &d, from, n_children);
    for (int i = 0; i < 6; i++)
        assert_int_equal(n_children[i], 8);
    pl_topology_destroy(&t);
    spec.experts[0] = 3; /* 3 modules cannot descend evenly from 2 */
    t = make(&small, &spec);
    assert_false(pl_topology_descends(t, &d, from));
}

/* Drops the second module of level 2 from a topology of 2x3, and path p02. The other
 * paths must be numbered without gaps. */
PL_TEST(paths_that_are_left_out_leave_no_gaps)
{
    OWNED(pl_topology_destroy) pl_topology *from = make_case(0);
    pl_topology_spec spec = *pl_topology_get_spec(from);
    pl_descent d = {
        .experts = {2, 3}, .level = {1, 2}, .n_parents = 4, .parent = {0, 1, 0, 2}};
    int n_children[6] = {0};
    const int wanted[6] = {1, 0, 0, 1, 0, 1};
    char name[PL_NAME_MAX];
    spec.experts[1] = 2;
    spec.absent[1] = true; /* path p01, which would descend from p02 */
    pl_topology *t = make(&small, &spec);
    assert_int_equal(pl_topology_n_paths(t), 3);
    pl_topology_path_name(t, 1, name);
    assert_string_equal(name, "p10");
    check_descent(t, &d, from, n_children);
    assert_memory_equal(n_children, wanted, sizeof wanted);
    /* The list of a module's paths must agree with the modules of each path. */
    for (int m = 0; m < pl_topology_n_modules(t); m++) {
        int n = 0;
        for (int p = 0; p < pl_topology_n_paths(t); p++) {
            if (!pl_topology_path_has(t, p, m))
                continue;
            assert_int_equal(pl_topology_module_path(t, m, n), p);
            assert_int_equal(pl_topology_path_place(t, m, p), n++);
        }
        assert_int_equal(pl_topology_module_n_paths(t, m), n);
        assert_true(n > 0);
    }
    d.parent[3] = 3; /* level 2 of `from` has no module 3 */
    assert_false(pl_topology_descends(t, &d, from));
    pl_topology_destroy(&t);
    spec.absent[3] = true; /* then no path would use module 1 of level 2 */
    assert_int_equal(pl_topology_create(&small, &spec, &t), PL_ERR_CONFIG);
}

/* 2x3 becomes 2x3x3: level 2 is cut in two. Each path must keep both halves. */
PL_TEST(a_level_that_is_cut_keeps_its_paths)
{
    pl_topology_spec spec = {
        .n_levels = 2, .experts = {2, 3}, .blocks = {2, 4}, .replicas = 1};
    OWNED(pl_topology_destroy) pl_topology *from = make(&small, &spec);
    pl_descent d = {.experts = {2, 3},
                    .level = {1, 2, 2},
                    .n_parents = 8,
                    .parent = {0, 1, 0, 1, 2, 0, 1, 2}};
    int n_children[6] = {0};
    spec = (pl_topology_spec){
        .n_levels = 3, .experts = {2, 3, 3}, .blocks = {2, 1, 3}, .replicas = 1};
    OWNED(pl_topology_destroy) pl_topology *t = make(&small, &spec);
    /* The path p001 would have halves of two modules. */
    assert_false(pl_topology_descends(t, &d, from));
    pl_topology_destroy(&t);
    for (int i = 0; i < 18; i++)
        spec.absent[i] = i / 3 % 3 != i % 3;
    t = make(&small, &spec);
    assert_int_equal(pl_topology_n_paths(t), 6);
    check_descent(t, &d, from, n_children);
    for (int i = 0; i < 6; i++)
        assert_int_equal(n_children[i], 1);
}
