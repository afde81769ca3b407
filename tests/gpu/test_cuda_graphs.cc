/* folder: modules; label: unit */
/* Tests the emulated cuda backend: CUDA graphs give the bytes of their operations, and
 * steps need few calls of the host and few launches. */
#include "tests/gpu/emulation/emulation.h"

#include "tests/gpu/cuda_model.h" /* it includes cmocka, which must come last */

/* ---- steps of decoding ---- */

PL_TEST(steps_are_graphs_and_give_the_bytes_of_their_operations)
{
    for (const char *precision : {"bf16", "int8"}) {
        std::string with, without;
        const std::vector<float> graph = read_steps("cuda", precision, &with);
        emulation_refuse_captures(true);
        const std::vector<float> plain = read_steps("cuda", precision, &without);
        emulation_refuse_captures(false);
        expect_equal(graph, plain);
        assert_string_equal(with.c_str(), "");
        assert_non_null(strstr(without.c_str(), "without a CUDA graph"));
    }
}

struct counted_work {
    pl_backend *be;
    void *memory;
    int n_calls;
};

static void fill_counted(void *context)
{
    counted_work *w = static_cast<counted_work *>(context);
    w->n_calls++;
    w->be->ops->fill_zero(w->be, w->memory, 64);
}

/* A graph's call does not call the function again. */
PL_TEST(a_shape_that_no_graph_refused_gets_a_graph)
{
    pl_routine *routine = NULL;
    counted_work w = {};
    w.be = open_backend("cuda", "bf16");
    w.memory = new_memory(w.be, 64);
    emulation_refuse_captures(true);
    for (int i = 0; i < 4; i++)
        w.be->ops->perform(w.be, &routine, 1, fill_counted, &w);
    emulation_refuse_captures(false);
    assert_true(w.n_calls >= 4);
    w.be->ops->perform(w.be, &routine, 2, fill_counted, &w); /* as it is */
    w.be->ops->perform(w.be, &routine, 2, fill_counted, &w); /* captured */
    const int n = w.n_calls;
    w.be->ops->perform(w.be, &routine, 2, fill_counted, &w);
    assert_int_equal(w.n_calls, n);
    check(w.be->ops->sync(w.be));
    w.be->ops->routine_destroy(w.be, &routine);
    close_backend(w.be, {w.memory});
}

/* ---- calls and launches ---- */

/* Works of the device and calls of the host in one step. */
struct step_counts {
    uint64_t works, calls;
};

/* Counts the third step, which only runs a graph again. The model has the heads and
 * blocks of the shape of 13.8M parameters; its matrices are smaller but no fewer. With
 * Muon each of them is stepped in blocks of `muon_rows` rows. */
static step_counts count_step(bool muon, int muon_rows)
{
    enum { WIDTH = 36, HEADS = 6, SIZE = 6, FFN = 40, BLOCKS = 6, COUNTED = 3 };
    const pl_shape shape = {VOCABULARY, WIDTH,  HEADS, HEADS,   SIZE, FFN,
                            BLOCKS,     TOKENS, true,  10000.0, 1e-5, false};
    const pl_model_options extents = {SEQUENCES, TOKENS, true, false, muon, muon_rows};
    pl_topology *t = new_topology(&shape);
    pl_backend *be = open_backend("cuda", NULL);
    pl_model *model = new_model(be, t, extents);
    std::vector<int32_t> tokens, targets;
    pl_step_result result;
    step_counts counts = {};
    make_batch(&tokens, &targets);
    for (int64_t step = 1; step <= COUNTED; step++) {
        const pl_adamw adam = {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, step};
        check(be->ops->sync(be));
        counts = step_counts{emulation_n_works(), emulation_n_calls()};
        check(pl_model_step_begin(model, tokens.data(), targets.data(), SEQUENCES, 20,
                                  &adam, 1.0f));
        check(pl_model_step_end(model, &result));
    }
    counts = step_counts{emulation_n_works() - counts.works,
                         emulation_n_calls() - counts.calls};
    assert_string_equal(be->remark, "");
    close_model(&model, &be, &t);
    return counts;
}

/* An upload, the graph, and the copy of the sums. */
PL_TEST(a_step_takes_three_calls_of_the_host)
{
    const step_counts adam = count_step(false, 0), muon = count_step(true, 0);
    print_message("launches of a step: %d with AdamW, %d with Muon\n", (int)adam.works,
                  (int)muon.works);
    assert_int_equal(adam.calls, 3);
    assert_int_equal(muon.calls, 3);
}

/* At 13.8M parameters Muon steps 62 blocks of 64 rows per layer. If each of them had
 * its own launches, Muon would add 12,600 to a step; for whole matrices 1,386. */
PL_TEST(blocks_of_rows_take_the_launches_of_whole_matrices)
{
    const step_counts whole = count_step(true, 0), blocks = count_step(true, 4);
    assert_true(blocks.works <= 1500);
    assert_int_equal(blocks.works, whole.works);
    assert_int_equal(blocks.calls, 3);
}
