/* folder: eval; label: unit */
#include "tests/test_corpus_support.h"
#include "eval/eval.h"
#include <math.h>

enum { T = 8, N_DOCS = 9, PREFIX = 5, VOCAB = 3000, PATHS = 3 };
/* Shorter than the prefix, equal to it, one window, several. */
static const uint32_t lens[N_DOCS] = {2, 5, 6, 9, 17, 40, 3, 26, 10};
static const uint32_t all[N_DOCS] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
static pl_topology *topology;
static pl_buf file;
static pl_tokens *tokens;

static void fill_params(int path, float *params)
{
    for (int slot = 0; slot < pl_topology_n_slots(topology); ++slot)
        pl_topology_init(topology, slot, (uint64_t)path,
                         params + pl_topology_slot(topology, slot)->offset);
    for (size_t i = 0; i < pl_topology_path_params(topology); ++i)
        params[i] *= 4.0f; /* far enough from uniform predictions to tell paths apart */
}

static pl_status give_params(void *context, int path, float *params)
{
    int *n_asked = context;
    ++n_asked[path];
    fill_params(path, params);
    return PL_OK;
}

static int open_all(void **state)
{
    (void)state;
    pl_shape shape = {.vocab = VOCAB,
                      .width = 12,
                      .n_heads = 2,
                      .n_kv_heads = 2,
                      .head_size = 6,
                      .ffn = 16,
                      .n_blocks = 1,
                      .context = T,
                      .tied = true,
                      .rope_theta = 100.0,
                      .norm_eps = 1e-5};
    pl_topology_spec spec = {.replicas = 1};
    build_tokens(lens, N_DOCS, VOCAB, &file);
    return pl_tokens_view(file.data, file.len, "test", &tokens) == PL_OK &&
                   pl_topology_parse_levels("3", &spec) == PL_OK &&
                   pl_topology_create(&shape, &spec, &topology) == PL_OK
               ? 0
               : -1;
}

static int close_all(void **state)
{
    (void)state;
    pl_topology_destroy(&topology);
    pl_tokens_close(&tokens);
    pl_buf_destroy(&file);
    return 0;
}

static pl_scorer *open_scorer(int n_threads, int batch, int path)
{
    pl_scorer_options options = {.topology = topology,
                                 .backend = "ref",
                                 .precision = "f32",
                                 .n_threads = n_threads,
                                 .batch = batch,
                                 .prefix = PREFIX};
    pl_scorer *scorer;
    float *params = malloc(pl_topology_path_params(topology) * sizeof *params);
    assert_ok(pl_scorer_create(&options, &scorer));
    fill_params(path, params);
    assert_ok(pl_scorer_load(scorer, params));
    free(params);
    return scorer;
}

/* One target at a time: token j of a document from the tokens of its window before
 * it, on a model of its own. */
static pl_score naive_score(int path, uint32_t doc)
{
    pl_backend_options backend = {.name = "ref", .n_threads = 1, .precision = "f32"};
    pl_model_options options = {.batch = 1, .context = T};
    pl_backend *be;
    pl_model *model;
    float *params = malloc(pl_topology_path_params(topology) * sizeof *params);
    pl_score sum = {0};
    fill_params(path, params);
    assert_ok(pl_backend_open(&backend, &be));
    assert_ok(pl_model_create(be, topology, &options, &model));
    assert_ok(pl_model_load(model, params));
    for (uint32_t j = PREFIX; j < lens[doc]; ++j) {
        uint32_t start = (j - 1) / T * T, n = j - start;
        int32_t in[T], out[T];
        float losses[T];
        pl_tokens_copy(tokens, pl_tokens_doc(tokens, doc)->first + start, n, in);
        pl_tokens_copy(tokens, pl_tokens_doc(tokens, doc)->first + start + 1, n, out);
        assert_ok(pl_model_losses(model, in, out, 1, (int)n, losses));
        sum.nats += (double)losses[n - 1];
        ++sum.n_targets;
    }
    pl_model_destroy(&model);
    pl_backend_close(&be);
    free(params);
    return sum;
}

static void scores_equal_one_target_at_a_time(void **state)
{
    (void)state;
    pl_score scores[N_DOCS];
    for (int batch = 1; batch <= 4; batch += 3) {
        pl_scorer *scorer = open_scorer(1, batch, 0);
        assert_ok(pl_score_documents(scorer, tokens, all, N_DOCS, scores));
        for (uint32_t d = 0; d < N_DOCS; ++d) {
            pl_score naive = naive_score(0, d);
            assert_int_equal(scores[d].n_targets, naive.n_targets);
            assert_int_equal(pl_counted_targets(tokens, d, PREFIX), naive.n_targets);
            assert_true(fabs(scores[d].nats - naive.nats) <= 1e-5 * (1 + naive.nats));
        }
        pl_scorer_destroy(&scorer);
        assert_null(scorer);
    }
}

static void documents_within_the_prefix_count_nothing(void **state)
{
    (void)state;
    pl_score scores[N_DOCS];
    const uint32_t docs[] = {0, 1, 6}; /* 2, 5 and 3 tokens */
    pl_scorer *scorer = open_scorer(1, 2, 0);
    assert_ok(pl_score_documents(scorer, tokens, docs, 3, scores));
    pl_score sum = pl_score_sum(scores, 3);
    assert_int_equal(sum.n_targets, 0);
    assert_true(sum.nats == 0.0);
    assert_true(isnan(pl_perplexity(&sum)));
    assert_ok(pl_score_documents(scorer, tokens, docs, 0, scores));
    pl_scorer_destroy(&scorer);
}

static void scores_do_not_depend_on_threads(void **state)
{
    (void)state;
    pl_score scores[2][N_DOCS];
    for (int i = 0; i < 2; ++i) {
        pl_scorer *scorer = open_scorer(1 + 2 * i, 2, 0);
        assert_ok(pl_score_documents(scorer, tokens, all, N_DOCS, scores[i]));
        pl_scorer_destroy(&scorer);
    }
    for (int d = 0; d < N_DOCS; ++d)
        assert_true(scores[0][d].nats == scores[1][d].nats);
}

static void routed_documents_are_scored_by_their_path(void **state)
{
    (void)state;
    const uint32_t docs[] = {8, 3, 5, 4, 3};
    const int path_of[] = {2, 0, 2, 0, 2};
    int n_asked[PATHS] = {0};
    pl_score scores[5];
    pl_scorer *scorer = open_scorer(1, 2, 1);
    assert_ok(pl_score_routed(scorer, tokens, docs, path_of, 5, give_params, n_asked,
                              scores));
    for (int i = 0; i < 5; ++i) {
        pl_score naive = naive_score(path_of[i], docs[i]);
        assert_int_equal(scores[i].n_targets, naive.n_targets);
        assert_true(fabs(scores[i].nats - naive.nats) <= 1e-5 * (1 + naive.nats));
    }
    assert_int_equal(n_asked[0], 1);
    assert_int_equal(n_asked[1], 0); /* no documents: its parameters are not fetched */
    assert_int_equal(n_asked[2], 1);
    const int wrong[] = {0, 0, PATHS, 0, 0};
    assert_int_equal(
        pl_score_routed(scorer, tokens, docs, wrong, 5, give_params, n_asked, scores),
        PL_ERR_ARG);
    pl_scorer_destroy(&scorer);
}

static void the_matrix_holds_every_path(void **state)
{
    (void)state;
    int n_asked[PATHS] = {0};
    pl_score scores[PATHS][N_DOCS];
    pl_scorer *scorer = open_scorer(1, 3, 0);
    assert_ok(
        pl_score_matrix(scorer, tokens, all, N_DOCS, give_params, n_asked, scores[0]));
    for (int path = 0; path < PATHS; ++path)
        for (uint32_t d = 3; d < 5; ++d) {
            pl_score naive = naive_score(path, d);
            assert_true(fabs(scores[path][d].nats - naive.nats) <=
                        1e-5 * (1 + naive.nats));
        }
    pl_scorer_destroy(&scorer);
}

/* Three paths, three documents, one of them without targets; by hand. */
static void a_matrix_is_summarised(void **state)
{
    (void)state;
    const pl_score scores[] = {{4.0, 2}, {9.0, 3}, {0.0, 0},  /* path 0 */
                               {6.0, 2}, {3.0, 3}, {0.0, 0},  /* path 1 */
                               {8.0, 2}, {5.0, 3}, {0.0, 0}}; /* path 2 */
    const int path_of[] = {0, 2, 1};
    pl_score matrix[PATHS * PATHS];
    pl_matrix_summary summary;
    pl_matrix_summarise(scores, PATHS, path_of, 3, matrix, &summary);
    assert_int_equal(summary.n_documents, 2);
    assert_int_equal(summary.n_best_is_routed, 1);
    assert_true(summary.routed.nats == 4.0 + 5.0);
    assert_true(summary.best.nats == 4.0 + 3.0);
    assert_true(summary.worst_wrong.nats == 8.0 + 9.0);
    assert_true(summary.mean_other.nats == 7.0 + 6.0);
    assert_int_equal(summary.mean_other.n_targets, 5);
    assert_true(matrix[0 * PATHS + 2].nats == 9.0 && matrix[2 * PATHS + 0].nats == 8.0);
    assert_int_equal(matrix[1 * PATHS + 1].n_targets, 0);
    assert_true(fabs(pl_perplexity(&summary.routed) - exp(9.0 / 5.0)) < 1e-12);
}

static void domains_add_up(void **state)
{
    (void)state;
    pl_score scores[N_DOCS], by_domain[2];
    for (uint32_t d = 0; d < N_DOCS; ++d)
        scores[d] = (pl_score){d, 1};
    pl_score_by_domain(tokens, all, scores, N_DOCS, by_domain);
    assert_true(by_domain[0].nats == 0 + 2 + 4 + 6 + 8);
    assert_true(by_domain[1].nats == 1 + 3 + 5 + 7);
    assert_int_equal(by_domain[1].n_targets, 4);
}

static void a_cap_picks_whole_documents_evenly(void **state)
{
    (void)state;
    uint32_t docs[N_DOCS];
    memcpy(docs, all, sizeof docs);
    size_t n = pl_pick_documents(tokens, PREFIX, 0, docs, N_DOCS);
    const uint32_t with_targets[] = {2, 3, 4, 5, 7, 8};
    assert_int_equal(n, 6);
    assert_memory_equal(docs, with_targets, sizeof with_targets);
    for (uint64_t cap = 1; cap < 90; ++cap) {
        uint64_t sum = 0;
        memcpy(docs, all, sizeof docs);
        n = pl_pick_documents(tokens, PREFIX, cap, docs, N_DOCS);
        for (size_t i = 0; i < n; ++i) {
            sum += pl_counted_targets(tokens, docs[i], PREFIX);
            assert_true(i == 0 || docs[i - 1] < docs[i]);
        }
        assert_true(n == 1 || sum <= cap);
        assert_true(n == 6 || cap < 78); /* 1 + 4 + 12 + 35 + 21 + 5 */
    }
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    pl_scorer_options options = {.topology = topology,
                                 .backend = "ref",
                                 .precision = "f32",
                                 .n_threads = 1,
                                 .context = T + 1};
    pl_scorer *scorer;
    pl_score scores[1];
    const uint32_t docs[] = {N_DOCS};
    assert_int_equal(pl_scorer_create(&options, &scorer), PL_ERR_CONFIG);
    assert_null(scorer);
    options.context = T;
    assert_ok(pl_scorer_create(&options, &scorer));
    assert_int_equal(pl_score_documents(scorer, tokens, all, 1, scores), PL_ERR_ARG);
    assert_said("before parameters");
    pl_scorer_destroy(&scorer);
    scorer = open_scorer(1, 1, 0);
    assert_int_equal(pl_score_documents(scorer, tokens, docs, 1, scores), PL_ERR_ARG);
    assert_said("document 9 does not exist");
    pl_scorer_destroy(&scorer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_equal_one_target_at_a_time),
        cmocka_unit_test(documents_within_the_prefix_count_nothing),
        cmocka_unit_test(scores_do_not_depend_on_threads),
        cmocka_unit_test(routed_documents_are_scored_by_their_path),
        cmocka_unit_test(the_matrix_holds_every_path),
        cmocka_unit_test(a_matrix_is_summarised),
        cmocka_unit_test(domains_add_up),
        cmocka_unit_test(a_cap_picks_whole_documents_evenly),
        cmocka_unit_test(wrong_use_is_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
