/* folder: modules; label: unit */
/* Tests the emulated cuda backend. The order in which threads run must not change any
 * byte of a training, and the tests must launch every kernel of modules/cuda. */
#include <algorithm>
#include <dirent.h>
#include <fstream>
#include <regex>
#include <set>
#include "modules/cuda/plan_cuda.h"
#include "tests/gpu/emulation/emulation.h"
#include "tests/gpu/cuda_update.h" /* it includes cmocka, which must come last */

/* The results of a training and of decoding. */
struct outcome {
    std::vector<float> params, moments, features, logits;
    double loss;
};

static void train(pl_model *model, const pl_topology *t, outcome *out)
{
    std::vector<int32_t> tokens, targets;
    const int32_t lengths[SEQUENCES] = {TOKENS, 9};
    pl_step_result result;
    pl_adamw adam = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1};
    make_batch(&tokens, &targets);
    for (; adam.step <= STEPS; adam.step++)
        check(pl_model_train_step(model, tokens.data(), targets.data(), SEQUENCES,
                                  TOKENS, &adam, 0.5f, &result));
    out->loss = result.loss;
    out->params.resize(pl_topology_path_params(t));
    out->moments.resize(2 * out->params.size());
    out->features.resize((size_t)SEQUENCES * (size_t)pl_topology_shape(t)->width);
    check(pl_model_save(model, out->params.data()));
    check(pl_model_save_moments(model, out->moments.data(),
                                out->moments.data() + out->params.size()));
    check(pl_model_features(model, tokens.data(), lengths, SEQUENCES, TOKENS,
                            out->features.data()));
}

/* Reads a prompt in two parts. The second part has more rows than one launch takes.
 * Then decodes two sequences; from the second step on, a graph runs the steps. */
static void read_along(pl_model *model, outcome *out)
{
    enum { FIRST = 5, SECOND = 65 };
    const int32_t slots[] = {1, 0};
    std::vector<int32_t> tokens(FIRST + SECOND);
    pl_decoder *decoder;
    for (size_t i = 0; i < tokens.size(); i++)
        tokens[i] = (int32_t)(i * i + 3) % VOCABULARY;
    out->logits.resize(2 * VOCABULARY);
    check(pl_decoder_create(model, 2, &decoder));
    check(pl_decoder_prefill(decoder, 0, tokens.data(), FIRST, out->logits.data()));
    check(pl_decoder_prefill(decoder, 0, tokens.data() + FIRST, SECOND,
                             out->logits.data()));
    pl_decoder_clear(decoder, 0);
    check(
        pl_decoder_prefill(decoder, 0, tokens.data(), TOKENS - 4, out->logits.data()));
    check(pl_decoder_prefill(decoder, 1, tokens.data(), 1, out->logits.data()));
    for (int i = 0; i < 4; i++)
        check(
            pl_decoder_step(decoder, slots, &tokens[(size_t)i], 2, out->logits.data()));
    pl_decoder_destroy(&decoder);
}

static outcome run_in_order(const char *precision, emulation_order order, uint64_t seed)
{
    outcome out = {};
    pl_backend *be;
    pl_topology *t = strcmp(precision, "bf16") == 0 ? odd_topology() : even_topology();
    emulation_set_order(order, seed);
    pl_model *model = open_model(t, "cuda", precision, &be);
    if (!be->decode_only)
        train(model, t, &out);
    read_along(model, &out);
    close_model(&model, &be, &t);
    emulation_set_order(EMULATION_FORWARD, 0);
    return out;
}

static void expect_order_free(const char *precision)
{
    const outcome first = run_in_order(precision, EMULATION_FORWARD, 0);
    for (int order = EMULATION_REVERSE; order < EMULATION_ORDERS; order++) {
        const outcome other = run_in_order(precision, (emulation_order)order, 17);
        assert_true(other.loss == first.loss);
        expect_equal(first.params, other.params);
        expect_equal(first.moments, other.moments);
        expect_equal(first.features, other.features);
        expect_equal(first.logits, other.logits);
    }
}

PL_TEST(the_order_of_threads_changes_no_byte)
{
    expect_order_free("bf16");
}

PL_TEST(nor_with_bytes_in_products)
{
    expect_order_free("int8");
}

/* ---- paths that share modules ---- */

enum { PATHS = 4 };

/* Returns the logits of three steps of four sequences after their prompts. Each
 * sequence has a different path of 2x2 modules. With `together`, all sequences share a
 * step; otherwise each sequence has its own steps. */
static std::vector<float> read_paths(const char *precision, bool together)
{
    static const int32_t slots[] = {2, 0, 3, 1}; /* so that rows must be rearranged */
    pl_model_options extents = {};
    extents.batch = 1;
    extents.context = TOKENS;
    pl_topology *one = even_topology(), *t;
    pl_topology_spec spec = {};
    spec.replicas = 1;
    check(pl_topology_parse_levels("2x2", &spec));
    check(pl_topology_create(pl_topology_shape(one), &spec, &t));
    pl_backend *be = open_backend("cuda", precision);
    pl_model *model;
    pl_decoder *decoder;
    check(pl_model_create(be, t, &extents, &model));
    std::vector<pl_module *> modules((size_t)pl_topology_n_modules(t));
    for (int m = 0; m < pl_topology_n_modules(t); m++) {
        const int slot = pl_topology_module_slot(t, m);
        std::vector<float> params(pl_topology_slot(t, slot)->n_params);
        pl_topology_init(t, slot, (uint64_t)m, params.data());
        check(pl_module_create(be, t, slot, params.data(), &modules[(size_t)m]));
    }
    pl_path *paths[PATHS];
    std::vector<float> logits(PATHS * VOCABULARY), all;
    check(pl_decoder_create(model, PATHS, &decoder));
    for (int p = 0; p < PATHS; p++) {
        std::vector<pl_module *> of;
        for (int slot = 0; slot < pl_topology_n_slots(t); slot++)
            of.push_back(modules[(size_t)pl_topology_module_of_path(t, slot, p)]);
        check(pl_path_create(t, of.data(), &paths[p]));
        const int32_t prompt[] = {p, p + 1, 2 * p, 3};
        pl_decoder_use(decoder, p, paths[p]);
        check(pl_decoder_prefill(decoder, p, prompt, 1 + p, logits.data()));
    }
    for (int step = 0; step < 3; step++) {
        int32_t tokens[PATHS];
        for (int i = 0; i < PATHS; i++)
            tokens[i] = (slots[i] * 7 + step * 5) % VOCABULARY;
        if (together)
            check(pl_decoder_step(decoder, slots, tokens, PATHS, logits.data()));
        for (int i = 0; i < PATHS && !together; i++)
            check(pl_decoder_step(decoder, slots + i, tokens + i, 1,
                                  logits.data() + i * VOCABULARY));
        all.insert(all.end(), logits.begin(), logits.end());
    }
    pl_decoder_destroy(&decoder);
    for (int p = 0; p < PATHS; p++)
        pl_path_destroy(&paths[p]);
    for (size_t m = 0; m < modules.size(); m++)
        pl_module_destroy(&modules[m]);
    close_model(&model, &be, &t);
    pl_topology_destroy(&one);
    return all;
}

/* Steps of several sequences are run by a graph, from the second step on. */
PL_TEST(a_step_of_several_paths_gives_the_logits_of_each)
{
    for (const char *precision : {"bf16", "int8"}) {
        const std::vector<float> graph = read_paths(precision, true);
        emulation_refuse_captures(true);
        expect_equal(graph, read_paths(precision, true));
        emulation_refuse_captures(false);
        const std::vector<float> alone = read_paths(precision, false);
        assert_true(error_of(graph.data(), alone.data(), alone.size()) < 1e-4);
    }
}

/* ---- a step as one graph ---- */

/* Uses more positions than any step before. So the backend must replace its table of
 * angles, although graphs contain the address of the old table. */
static void turn_far(pl_backend *be)
{
    enum { POSITIONS = 300, HEADS = 4, KV_HEADS = 2, SIZE = 10 };
    void *acts = new_memory(be, POSITIONS * (HEADS + 2 * KV_HEADS) * SIZE * 2);
    be->ops->rope(be, static_cast<pl_act *>(acts), nullptr, 1, POSITIONS, HEADS,
                  KV_HEADS, SIZE, 10000.0, 0, 1);
    be->ops->release(be, acts);
}

/* Trains six steps with different settings, and does other work between them. */
static outcome train_unevenly(bool with_graphs, std::string *remark)
{
    outcome out = {};
    pl_backend *be;
    pl_topology *t = odd_topology();
    std::vector<int32_t> tokens, targets;
    std::vector<float> losses(ROWS);
    pl_step_result result;
    emulation_refuse_captures(!with_graphs);
    pl_model *model = open_model(t, "cuda", "auto", &be);
    make_batch(&tokens, &targets);
    for (int step = 1; step <= 6; step++) {
        pl_adamw adam = {1e-2f / (float)step, 0.9f, 0.95f, 1e-8f, 0.1f, step};
        for (int n = 0; n < ROWS; n++) {
            tokens[(size_t)n] = (tokens[(size_t)n] * 3 + step) % VOCABULARY;
            targets[(size_t)n] = n % (step + 1) == 0 ? -1 : (n * step) % VOCABULARY;
        }
        const int T = step == 5 ? 20 : 26;
        check(pl_model_train_step(model, tokens.data(), targets.data(), SEQUENCES, T,
                                  &adam, 0.2f * (float)step, &result));
        out.loss += result.loss + result.grad_norm;
        if (step == 3) {
            check(pl_model_losses(model, tokens.data(), targets.data(), 1, TOKENS,
                                  losses.data()));
            read_along(model, &out);
            turn_far(be);
        }
    }
    out.params.resize(pl_topology_path_params(t));
    check(pl_model_save(model, out.params.data()));
    *remark = be->remark;
    close_model(&model, &be, &t);
    emulation_refuse_captures(false);
    return out;
}

PL_TEST(a_step_as_a_graph_gives_the_bytes_of_its_operations)
{
    std::string with, without;
    const outcome graph = train_unevenly(true, &with),
                  plain = train_unevenly(false, &without);
    assert_true(graph.loss == plain.loss);
    expect_equal(graph.params, plain.params);
    assert_string_equal(with.c_str(), "");
    assert_non_null(strstr(without.c_str(), "steps run without a CUDA graph"));
}

/* ---- a token that fills half of a batch ---- */

/* Tests more positions than a block searches at a time. */
static std::vector<float> embedding_gradient(int C, emulation_order order)
{
    enum { N = 2300, V = 40 };
    std::vector<float> values((size_t)(N * C)), out((size_t)(V * C), 0.5f);
    std::vector<int32_t> words(N, 3);
    for (size_t i = 0; i < values.size(); i++)
        values[i] = pl_random_normal(1, 1, i);
    for (size_t n = 0; n < N; n += 2)
        words[n] = (int32_t)(n * 7 / 2 % V);
    emulation_set_order(order, 5);
    pl_backend *be = open_backend("cuda", NULL);
    float *there = floats_there(be, values), *dw = floats_there(be, out);
    void *acts = new_memory(be, values.size() * 2),
         *tokens = new_memory(be, N * sizeof words[0]);
    be->ops->upload(be, tokens, words.data(), N * sizeof words[0]);
    be->ops->act_from_float(be, static_cast<pl_act *>(acts), there, values.size());
    be->ops->embed_backward(be, dw, static_cast<pl_act *>(acts),
                            static_cast<int32_t *>(tokens), N, C);
    be->ops->download(be, out.data(), dw, out.size() * sizeof(float));
    check(be->ops->sync(be));
    close_backend(be, {there, dw, acts, tokens});
    emulation_set_order(EMULATION_FORWARD, 0);
    return out;
}

PL_TEST(a_frequent_tokens_gradient_has_the_same_bytes_in_every_order)
{
    for (int C : {5, 16}) {
        const std::vector<float> first = embedding_gradient(C, EMULATION_FORWARD);
        for (int order = EMULATION_REVERSE; order < EMULATION_ORDERS; order++)
            expect_equal(first, embedding_gradient(C, (emulation_order)order));
    }
}

/* ---- plans of products ---- */

enum { PRODUCT_WIDTH = 8, FEWEST_ROWS = 5 }; /* with fewer rows cuBLASLt is not used */

/* Multiplies matrices of so many different numbers of rows that the backend cannot keep
 * a plan for each. It must keep the plan of a number that is used again and again. */
PL_TEST(plans_of_long_ago_make_room_for_new_ones)
{
    enum { OFTEN = FEWEST_ROWS, MOST = 700 };
    pl_backend *be = open_backend("cuda", NULL);
    pl_weight *weight;
    float *master =
        floats_there(be, std::vector<float>(PRODUCT_WIDTH * PRODUCT_WIDTH, 1.0f));
    check(be->ops->weight_create(be, master, PRODUCT_WIDTH, PRODUCT_WIDTH, &weight));
    void *x = new_memory(be, MOST * PRODUCT_WIDTH * 2),
         *out = new_memory(be, MOST * PRODUCT_WIDTH * 2);
    be->ops->weights_refresh(be, &weight, 1);
    const uint64_t before = emulation_n_choices();
    const auto multiply = [&](int rows) {
        be->ops->matmul_forward(be, static_cast<pl_act *>(out),
                                static_cast<pl_act *>(x), weight, rows, PRODUCT_WIDTH,
                                PRODUCT_WIDTH);
    };
    for (int rows = OFTEN + 1; rows <= MOST; rows++) {
        multiply(OFTEN);
        multiply(rows);
    }
    assert_int_equal(emulation_n_choices() - before, MOST - OFTEN + 1);
    multiply(MOST - 1);
    assert_int_equal(emulation_n_choices() - before, MOST - OFTEN + 1);
    multiply(OFTEN + 1); /* the backend has dropped the plan for this number */
    assert_int_equal(emulation_n_choices() - before, MOST - OFTEN + 2);
    check(be->ops->sync(be));
    be->ops->weight_destroy(be, &weight);
    close_backend(be, {master, x, out});
}

/* The vocabulary is odd, and all widths are multiples of 8. */
PL_TEST(an_odd_vocabulary_makes_no_product_slow)
{
    pl_backend *be;
    pl_topology *t = even_topology();
    outcome out = {};
    const uint64_t before = emulation_n_slow_products();
    pl_model *model = open_model(t, "cuda", "bf16", &be);
    train(model, t, &out);
    assert_int_equal(emulation_n_slow_products() - before, 0);
    close_model(&model, &be, &t);
}

/* ---- the planned memory is the memory that the model takes ---- */

static void expect_planned(const char *precision, bool recompute, bool muon)
{
    const pl_model_options extents = {SEQUENCES, TOKENS, true, recompute, muon, 0};
    pl_topology *t = even_topology();
    pl_backend *be = open_backend("cuda", precision);
    pl_model *model = new_model(be, t, extents);
    outcome out = {};
    pl_model_plan plan;
    size_t taken;
    std::vector<int32_t> tokens, targets;
    std::vector<float> losses(ROWS);
    train(model, t, &out);
    make_batch(&tokens, &targets);
    check(pl_model_losses(model, tokens.data(), targets.data(), SEQUENCES, TOKENS,
                          losses.data()));
    pl_model_plan_on(be, t, &extents, &plan);
    (void)emulation_n_allocations(&taken);
    const size_t planned = pl_model_plan_sum(&plan);
    /* the scales of each of the thirteen matrices may take up to 516 bytes more */
    if (taken > planned + 13 * 516 || planned > taken + 1024)
        fail_msg("%zu bytes were planned and %zu taken", planned, taken);
    close_model(&model, &be, &t);
}

PL_TEST(a_training_takes_what_its_plan_says)
{
    expect_planned("bf16", false, false);
    expect_planned("bf16", true, false);
    expect_planned("bf16", false, true);
}

/* Sixty-four conversations at once, each as long as the context: what the operations
 * take then beside the caches must be in the plan. */
static void expect_decoding_planned(const char *precision)
{
    enum { SLOTS = 64, CONTEXT = 96, VOCABULARY_SMALL = 16 };
    const pl_shape shape = {VOCABULARY_SMALL, 64,   4,       4,    16,   72, 1,
                            CONTEXT,          true, 10000.0, 1e-5, false};
    const pl_model_options extents = {1, CONTEXT, false, false, false, 0};
    pl_decoder *decoder;
    pl_model_plan plan;
    size_t before, after;
    pl_topology *t = new_topology(&shape);
    pl_backend *be = open_backend("cuda", precision);
    pl_model *model = new_model(be, t, extents);
    std::vector<float> logits((size_t)SLOTS * VOCABULARY_SMALL);
    std::vector<int32_t> slots(SLOTS), tokens(SLOTS, 3), prompt(CONTEXT - 1, 5);
    check(pl_decoder_create(model, SLOTS, &decoder));
    (void)emulation_n_allocations(&before);
    for (int i = 0; i < SLOTS; i++)
        slots[(size_t)i] = i;
    check(pl_decoder_prefill(decoder, 0, prompt.data(), CONTEXT - 1, logits.data()));
    for (int i = 1; i < SLOTS; i++)
        check(pl_decoder_prefill(decoder, i, prompt.data(), 1, logits.data()));
    check(pl_decoder_step(decoder, slots.data(), tokens.data(), SLOTS, logits.data()));
    pl_model_plan_on(be, t, &extents, &plan);
    (void)emulation_n_allocations(&after);
    const size_t planned = (size_t)plan.scratch_bytes - CUDA_WORKSPACE_BYTES;
    if (after - before > planned)
        fail_msg("%zu bytes were planned and %zu taken", planned, after - before);
    pl_decoder_destroy(&decoder);
    close_model(&model, &be, &t);
}

PL_TEST(decoding_takes_no_more_than_its_plan_says)
{
    expect_decoding_planned("bf16");
    expect_decoding_planned("int8");
}

/* The grid of a kernel has at most 65535 sequences. */
PL_TEST(more_sequences_than_a_grid_holds_are_refused)
{
    pl_backend *be = open_backend("cuda", "bf16");
    be->ops->attention_forward(be, NULL, NULL, NULL, NULL, 65536, 1, 1, 1, 8);
    assert_int_equal(be->ops->sync(be), PL_ERR_UNSUPPORTED);
    assert_non_null(strstr(pl_last_error(), "65536 sequences"));
    assert_non_null(strstr(pl_last_error(), "train.micro_batch"));
    pl_backend_close(&be);
}

/* The vector at the end makes the number of parameters odd. The matrices before it must
 * still be updated eight parameters at a time. */
static uint64_t accesses_of_an_update(size_t tail)
{
    pl_backend *be = open_backend("cuda", NULL);
    pl_update *update;
    pl_weight *weight;
    const size_t n = UPDATE_MATRIX + tail;
    const pl_step_numbers values = {
        {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1}, 0.1f, 0.05f, 0, 1};
    const pl_update_run runs[] = {
        {0, UPDATE_MATRIX, 0, true, 0, 0, 0},
        {UPDATE_MATRIX, tail, UPDATE_MATRIX, false, 0, 0, -1}};
    float *p = floats_there(be, std::vector<float>(n, 0.5f));
    float *g = floats_there(be, std::vector<float>(n, 1.0f));
    float *m = floats_there(be, std::vector<float>(pl_second_moments(n) + n));
    float *loss = floats_there(be, std::vector<float>(1, 1.0f));
    check(be->ops->weight_create(be, p, UPDATE_ROWS, UPDATE_COLUMNS, &weight));
    void *squares = new_memory(be, sizeof(double)),
         *numbers = new_memory(be, sizeof values);
    be->ops->upload(be, numbers, &values, sizeof values);
    const pl_update_plan plan = {p,    g, m,       n,
                                 runs, 2, &weight, static_cast<double *>(squares)};
    check(be->ops->update_create(be, &plan, &update));
    check(be->ops->sync(be));
    const uint64_t before = emulation_n_accesses();
    be->ops->update_apply(be, update, loss, 1, static_cast<pl_step_numbers *>(numbers));
    check(be->ops->sync(be));
    const uint64_t after = emulation_n_accesses();
    be->ops->update_destroy(be, &update);
    be->ops->weight_destroy(be, &weight);
    close_backend(be, {p, g, m, loss, squares, numbers});
    return after - before;
}

PL_TEST(an_odd_number_of_parameters_makes_no_update_slow)
{
    assert_true(accesses_of_an_update(5) < 2 * accesses_of_an_update(8));
}

/* Two cards of one name with different numbers of multiprocessors may round
 * differently, and so may two toolkits, and cuBLAS if it chooses other algorithms. */
PL_TEST(the_devices_text_names_what_decides_bytes)
{
    pl_backend *be = open_backend("cuda", "bf16");
    assert_non_null(strstr(be->device, " x3 "));
    assert_non_null(strstr(be->device, " nvcc 13.0"));
    const std::string before = be->device;
    pl_backend_close(&be);
    for (const uint32_t tile : {7u, 0u}) {
        emulation_set_tile(tile);
        be = open_backend("cuda", "bf16");
        assert_true((before == be->device) == (tile == 0));
        pl_backend_close(&be);
    }
}

PL_TEST(a_large_batch_has_four_chunks_of_logits)
{
    assert_int_equal(cuda_chunk_rows(16384, 32000, true), 4096);
    assert_int_equal(cuda_chunk_rows(16400, 32000, true), 4224);
    /* a quarter of 5120 rows would have less than CUDA_CHUNK_BYTES, and a quarter of
     * 2^20 rows more than CUDA_CHUNK_BYTES_MAX */
    assert_int_equal(cuda_chunk_rows(5120, 32000, true), 1280);
    assert_int_equal(cuda_chunk_rows(1 << 20, 32000, true), 5504);
    assert_true(cuda_classifier_bytes(1 << 20, 32000, true) <= CUDA_CHUNK_BYTES_MAX);
    /* without gradients a chunk may be less than a quarter; few rows are one chunk */
    assert_int_equal(cuda_chunk_rows(16384, 32000, false), 2048);
    assert_int_equal(cuda_chunk_rows(100, 32000, true), 100);
    assert_int_equal(cuda_chunk_rows(300, 5000000, true), 128);
    /* the logits of a part of a chunk: 32 MiB, or 256 rows if these need more */
    assert_int_equal(cuda_logit_rows(4096, 32000), 256);
    assert_int_equal(cuda_logit_rows(4096, 8192), 1024);
    assert_int_equal(cuda_logit_rows(128, 5000000), 128);
    assert_true(cuda_classifier_bytes(16384, 32000, true) <= 300 << 20);
}

/* With this vocabulary only 256 rows have logits at the same time. */
PL_TEST(logits_of_a_part_of_the_rows_give_the_bytes_of_all)
{
    enum { N = 270, PART = 256, V = 33000, C = 8 };
    pl_backend *be = open_backend("cuda", NULL);
    pl_weight *weight;
    std::vector<float> w((size_t)V * C), in((size_t)N * C);
    std::vector<int32_t> of(N);
    std::vector<float> loss[2], to[2];
    const float scale = 0.5f;
    assert_int_equal(cuda_logit_rows(N, V), PART);
    for (size_t i = 0; i < w.size(); i++)
        w[i] = pl_random_normal(1, 1, i);
    for (size_t i = 0; i < in.size(); i++)
        in[i] = pl_random_normal(1, 2, i);
    for (int n = 0; n < N; n++)
        of[(size_t)n] = n % 5 == 0 ? -1 : n * 119 % V;
    float *master = floats_there(be, w), *wide = floats_there(be, in);
    float *factor = floats_there(be, {scale}), *dw = floats_there(be, w);
    float *there = floats_there(be, std::vector<float>(N));
    check(be->ops->weight_create(be, master, V, C, &weight));
    be->ops->weights_refresh(be, &weight, 1);
    void *targets = new_memory(be, N * sizeof(int32_t)),
         *x = new_memory(be, in.size() * 2), *dx = new_memory(be, in.size() * 2);
    be->ops->upload(be, targets, of.data(), N * sizeof(int32_t));
    be->ops->act_from_float(be, static_cast<pl_act *>(x), wide, in.size());
    for (int parts = 0; parts < 2; parts++) {
        for (int n = 0; n < N; n += parts ? (int)PART : (int)N) {
            const size_t at = (size_t)n * C * 2;
            be->ops->classifier(
                be, there + n,
                reinterpret_cast<pl_act *>(static_cast<uint8_t *>(dx) + at), dw,
                reinterpret_cast<pl_act *>(static_cast<uint8_t *>(x) + at), weight,
                static_cast<int32_t *>(targets) + n, factor,
                parts ? std::min((int)PART, N - n) : (int)N, V, C, n > 0);
        }
        loss[parts].resize(N);
        to[parts].resize(in.size());
        be->ops->act_to_float(be, wide, static_cast<pl_act *>(dx), in.size());
        be->ops->download(be, to[parts].data(), wide, in.size() * sizeof(float));
        be->ops->download(be, loss[parts].data(), there, N * sizeof(float));
        check(be->ops->sync(be));
    }
    expect_equal(loss[0], loss[1]);
    expect_equal(to[0], to[1]);
    be->ops->weight_destroy(be, &weight);
    close_backend(be, {master, wide, factor, dw, there, targets, x, dx});
}

/* ---- completeness ---- */

/* Kernels have run, and no device memory is allocated after the tests above. */
PL_TEST(nothing_is_left_on_the_device)
{
    size_t bytes;
    assert_true(emulation_n_works() > 0);
    assert_int_equal(emulation_n_allocations(&bytes), 0);
}

static void kernels_of_file(const std::string &path, std::set<std::string> *names)
{
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    /* the name of a kernel is the word before the first parenthesis that does not
     * belong to __launch_bounds__ */
    const std::regex kernel(
        "__global__\\s+void\\s+(?:__launch_bounds__\\([^)]*\\)\\s+)?"
        "([a-z_0-9]+)\\s*\\(");
    for (std::sregex_iterator i(text.begin(), text.end(), kernel), end; i != end; ++i)
        names->insert((*i)[1]);
}

/* A thread begins with device 0, even if another thread has opened the backend on a
 * different device. */
struct errand {
    pl_backend *be;
    pl_status status;
};

static void use_backend(void *context)
{
    errand *e = static_cast<errand *>(context);
    const float ones[64] = {1.0f};
    void *floats = NULL, *acts = NULL;
    e->status = e->be->ops->alloc(e->be, sizeof ones, "floats", &floats);
    if (e->status == PL_OK)
        e->status = e->be->ops->alloc(e->be, sizeof ones, "activations", &acts);
    if (e->status != PL_OK)
        return;
    e->be->ops->upload(e->be, floats, ones, sizeof ones);
    e->be->ops->act_from_float(e->be, static_cast<pl_act *>(acts),
                               static_cast<const float *>(floats), 64);
    e->status = e->be->ops->sync(e->be);
    e->be->ops->release(e->be, floats);
    e->be->ops->release(e->be, acts);
}

PL_TEST(a_second_device_is_used_by_whichever_thread)
{
    pl_backend_options options = {};
    pl_thread *thread;
    errand e = {};
    setenv("EMULATION_DEVICES", "2", 1);
    options.name = "cuda";
    options.precision = "bf16";
    options.n_threads = 1;
    options.device = 1;
    check(pl_backend_open(&options, &e.be));
    check(pl_thread_start("trainer", use_backend, &e, &thread));
    pl_thread_join(&thread);
    pl_backend_close(&e.be);
    setenv("EMULATION_DEVICES", "1", 1);
    const char *finding = emulation_take_finding();
    if (finding)
        fail_msg("%s", finding);
    assert_int_equal(e.status, PL_OK);
}

/* A machine may have several devices, of which one fails. */
PL_TEST(a_failure_names_its_device)
{
    pl_backend_options options = {};
    pl_backend *be;
    setenv("EMULATION_DEVICES", "2", 1);
    options.name = "cuda";
    options.n_threads = 1;
    options.device = 1;
    check(pl_backend_open(&options, &be));
    emulation_fail("an uncorrectable error of its memory");
    assert_int_equal(be->ops->sync(be), PL_ERR_DEVICE);
    assert_non_null(strstr(pl_last_error(), "CUDA device 1 failed"));
    assert_non_null(emulation_take_finding());
    pl_backend_close(&be);
    setenv("EMULATION_DEVICES", "1", 1);
}

/* The tests above must have launched every kernel. */
PL_TEST(every_kernel_was_executed)
{
    std::set<std::string> written, executed;
    DIR *folder = opendir("modules/cuda");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (pl_ends_with(entry->d_name, ".cu"))
            kernels_of_file(std::string("modules/cuda/") + entry->d_name, &written);
    closedir(folder);
    for (size_t i = 0, n = emulation_n_kernels(); i < n; i++)
        executed.insert(emulation_kernel(i));
    assert_true(written.size() > 10);
    for (const std::string &name : written)
        if (!executed.count(name))
            fail_msg("%s is not executed: use it in a model or write a test",
                     name.c_str());
    for (const std::string &name : executed)
        if (!written.count(name))
            fail_msg("%s is executed but was not found in modules/cuda", name.c_str());
}
