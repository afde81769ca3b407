/* folder: eval; label: unit */
#include "eval/eval.h"
#include "tests/support/corpus_support.h"
#include "tests/support/pairs.h"
#include "tests/support/shape.h"

enum { T = 8, N_DOCS = 9, PREFIX = 5, VOCAB = 3000, PATHS = 3 };
/* Lengths of documents: shorter than the prefix, equal to it, one window, and several
 * windows. */
static const uint32_t lens[N_DOCS] = {2, 5, 6, 9, 17, 40, 3, 26, 10};
static const uint32_t all[N_DOCS] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
static pl_topology *topology;
static pl_buf file;
static pl_tokens *tokens;

static void fill_params(int path, float *params)
{
    init_path(topology, (uint64_t)path, params);
    for (size_t i = 0; i < pl_topology_path_params(topology); ++i)
        params[i] *= 4.0f; /* so that the predictions of the paths differ */
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
    pl_shape shape =
        SHAPE(VOCAB, 12, 2, 2, 6, 16, 1, T, .tied = true, .rope_theta = 100.0);
    pl_topology_spec spec = {.replicas = 1};
    build_tokens(lens, N_DOCS, VOCAB, &file);
    assert_ok(pl_tokens_view(file.data, file.len, "test", &tokens));
    assert_ok(pl_topology_parse_levels("3", &spec));
    assert_ok(pl_topology_create(&shape, &spec, &topology));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    pl_topology_destroy(&topology);
    pl_tokens_close(&tokens);
    pl_buf_destroy(&file);
    return 0;
}

static pl_scorer *open_sliding_scorer(int n_threads, int batch, int step, int path)
{
    pl_scorer_options options = {.topology = topology,
                                 .backend = "ref",
                                 .precision = "f32",
                                 .n_threads = n_threads,
                                 .batch = batch,
                                 .step = step,
                                 .prefix = PREFIX};
    pl_scorer *scorer;
    OWNED(free_memory)
    float *params = malloc(pl_topology_path_params(topology) * sizeof *params);
    assert_ok(pl_scorer_create(&options, &scorer));
    fill_params(path, params);
    assert_ok(pl_scorer_load(scorer, params));
    return scorer;
}

static pl_scorer *open_scorer(int n_threads, int batch, int path)
{
    return open_sliding_scorer(n_threads, batch, 0, path);
}

static pl_status end_after(void *context)
{
    int *left = context;
    return (*left)-- > 0 ? PL_OK : pl_fail(PL_ERR_CANCELLED, "enough");
}

/* The first of the windows at 0, step, 2 step, ... that reaches target t. */
static uint32_t naive_window(uint32_t t, uint32_t length, uint32_t step)
{
    uint32_t start = 0;
    while (start + length <= t)
        start += step;
    return start;
}

/* Scores a document one target at a time: predicts token j from the tokens before it in
 * its window, with a separate pass of the model for each j. */
static pl_score naive_score_sliding(int path, uint32_t doc, uint32_t step)
{
    pl_model_options options = {.batch = 1, .context = T};
    OWNED(pl_backend_close) pl_backend *be = open_side("ref", "f32", 1);
    OWNED(pl_model_destroy) pl_model *model;
    OWNED(free_memory)
    float *params = malloc(pl_topology_path_params(topology) * sizeof *params);
    pl_score sum = {0};
    fill_params(path, params);
    assert_ok(pl_model_create(be, topology, &options, &model));
    assert_ok(pl_model_load(model, params));
    for (uint32_t j = PREFIX; j < lens[doc]; ++j) {
        uint32_t start = naive_window(j - 1, T, step), n = j - start;
        int32_t in[T], out[T];
        float losses[T];
        pl_tokens_copy(tokens, pl_tokens_doc(tokens, doc)->first + start, n, in);
        pl_tokens_copy(tokens, pl_tokens_doc(tokens, doc)->first + start + 1, n, out);
        assert_ok(pl_model_losses(model, in, out, 1, (int)n, losses));
        sum.nats += (double)losses[n - 1];
        ++sum.n_targets;
        if (j <= T) {
            sum.first_nats += (double)losses[n - 1];
            ++sum.n_first;
        }
    }
    return sum;
}

static pl_score naive_score(int path, uint32_t doc)
{
    return naive_score_sliding(path, doc, T);
}

static void assert_score(const pl_score *a, const pl_score *b)
{
    assert_int_equal(a->n_targets, b->n_targets);
    assert_int_equal(a->n_first, b->n_first);
    assert_true(fabs(a->nats - b->nats) <= 1e-5 * (1 + b->nats));
    assert_true(fabs(a->first_nats - b->first_nats) <= 1e-5 * (1 + b->first_nats));
}

PL_TEST(scores_equal_one_target_at_a_time)
{
    pl_score scores[N_DOCS];
    for (int batch = 1; batch <= 4; batch += 3) {
        pl_scorer *scorer = open_scorer(1, batch, 0);
        assert_ok(pl_score_documents(scorer, tokens, all, N_DOCS, scores));
        for (uint32_t d = 0; d < N_DOCS; ++d) {
            pl_score naive = naive_score(0, d);
            assert_score(&scores[d], &naive);
            assert_int_equal(pl_counted_targets(tokens, d, PREFIX), naive.n_targets);
        }
        pl_scorer_destroy(&scorer);
        assert_null(scorer);
    }
}

PL_TEST(sliding_windows_count_every_target_once_with_text_before_it)
{
    pl_score scores[N_DOCS];
    float losses[256];
    for (int step = 1; step < T; step += step < 3 ? 1 : 2) {
        OWNED(pl_scorer_destroy) pl_scorer *scorer = open_sliding_scorer(1, 3, step, 0);
        assert_ok(pl_score_documents(scorer, tokens, all, N_DOCS, scores));
        assert_ok(pl_score_targets(scorer, tokens, all, N_DOCS, losses));
        const float *own = losses;
        for (uint32_t d = 0; d < N_DOCS; own += lens[d++] - 1) {
            const pl_score naive = naive_score_sliding(0, d, (uint32_t)step);
            double sum = 0;
            assert_score(&scores[d], &naive);
            for (uint32_t t = PREFIX - 1; t + 1 < lens[d]; ++t)
                sum += (double)own[t];
            assert_true(fabs(sum - naive.nats) <= 1e-5 * (1 + naive.nats));
        }
    }
    for (uint32_t length = 1; length < 9; ++length)
        for (uint32_t step = 1; step <= length; ++step)
            for (uint32_t t = 0; t < 40; ++t) {
                const uint32_t start = pl_window_start(t, length, step);
                assert_int_equal(start, naive_window(t, length, step));
                assert_true(start == 0 || t - start >= length - step);
            }
}

PL_TEST(documents_within_the_prefix_count_nothing)
{
    pl_score scores[N_DOCS];
    const uint32_t docs[] = {0, 1, 6}; /* documents of 2, 5 and 3 tokens */
    OWNED(pl_scorer_destroy) pl_scorer *scorer = open_scorer(1, 2, 0);
    assert_ok(pl_score_documents(scorer, tokens, docs, 3, scores));
    pl_score sum = pl_score_sum(scores, 3);
    assert_int_equal(sum.n_targets, 0);
    assert_true(sum.nats == 0.0);
    assert_true(isnan(pl_perplexity(&sum)));
    assert_ok(pl_score_documents(scorer, tokens, docs, 0, scores));
}

PL_TEST(scores_do_not_depend_on_threads)
{
    pl_score scores[2][N_DOCS];
    for (int i = 0; i < 2; ++i) {
        OWNED(pl_scorer_destroy) pl_scorer *scorer = open_scorer(1 + 2 * i, 2, 0);
        assert_ok(pl_score_documents(scorer, tokens, all, N_DOCS, scores[i]));
    }
    for (int d = 0; d < N_DOCS; ++d)
        assert_true(scores[0][d].nats == scores[1][d].nats);
}

PL_TEST(routed_documents_are_scored_by_their_path)
{
    const uint32_t docs[] = {8, 3, 5, 4, 3};
    const int path_of[] = {2, 0, 2, 0, 2};
    int n_asked[PATHS] = {0};
    pl_score scores[5];
    OWNED(pl_scorer_destroy) pl_scorer *scorer = open_scorer(1, 2, 1);
    assert_ok(pl_score_routed(scorer, tokens, docs, path_of, 5, give_params, n_asked,
                              scores));
    for (int i = 0; i < 5; ++i) {
        pl_score naive = naive_score(path_of[i], docs[i]);
        assert_int_equal(scores[i].n_targets, naive.n_targets);
        assert_true(fabs(scores[i].nats - naive.nats) <= 1e-5 * (1 + naive.nats));
    }
    assert_int_equal(n_asked[0], 1);
    assert_int_equal(n_asked[1], 0); /* path 1 has no documents */
    assert_int_equal(n_asked[2], 1);
    const int wrong[] = {0, 0, PATHS, 0, 0};
    assert_int_equal(
        pl_score_routed(scorer, tokens, docs, wrong, 5, give_params, n_asked, scores),
        PL_ERR_ARG);
}

PL_TEST(losses_of_targets_add_up_to_the_scores)
{
    float losses[256];
    pl_score scores[N_DOCS];
    size_t at = 0;
    OWNED(pl_scorer_destroy) pl_scorer *scorer = open_scorer(1, 3, 1);
    assert_ok(pl_score_targets(scorer, tokens, all, N_DOCS, losses));
    assert_ok(pl_score_documents(scorer, tokens, all, N_DOCS, scores));
    for (uint32_t d = 0; d < N_DOCS; ++d) {
        double sum = 0;
        for (uint32_t t = PREFIX - 1; t + 1 < lens[d]; ++t)
            sum += (double)losses[at + t];
        assert_true(fabs(sum - scores[d].nats) <= 1e-5 * (1 + scores[d].nats));
        assert_true(losses[at] > 0); /* a target in the prefix has a loss, too */
        at += lens[d] - 1;
    }
}

#define DOCUMENT(losses_, P, T_, prefix_, window_, ...)                                \
    {                                                                                  \
        .losses = losses_, .stride = T_, .n_paths = P, .n_targets = T_,                \
        .prefix = prefix_, .window = window_, __VA_ARGS__                              \
    }

/* Compares the ways to choose a path on the losses of two paths and seven targets. The
 * first two targets are in the prefix, and windows have three targets. The expected
 * values were worked out by hand. */
PL_TEST(ways_to_choose_are_compared_on_one_matrix)
{
    const float losses[] = {1, 2, 1, 9, 1, 1, 1,  /* path 0 */
                            2, 2, 2, 1, 1, 2, 3}; /* path 1 */
    const pl_route_document d = DOCUMENT(losses, 2, 7, 3, 3, .router_path = 1);
    pl_score scores[PL_ROUTE_COUNT];
    pl_likeliest likeliest;
    pl_route_choose(&d, scores, &likeliest);
    assert_int_equal(likeliest.path, 0); /* the prefix has 3 nats against 4 */
    assert_true(likeliest.margin_nats == 1);
    assert_true(scores[PL_ROUTE_ROUTER].nats == 2 + 1 + 1 + 2 + 3);
    assert_true(scores[PL_ROUTE_LIKELIHOOD].nats == 1 + 9 + 1 + 1 + 1);
    assert_true(scores[PL_ROUTE_BEST].nats == 9);
    /* Targets 2 to 4 are the first piece, and the prefix chooses path 0. Then path 0
     * has 14 nats against 8, so path 1 has targets 5 and 6. */
    assert_true(scores[PL_ROUTE_REROUTED].nats == (1 + 9 + 1) + (2 + 3));
    assert_true(scores[PL_ROUTE_BEST_PIECES].nats == (2 + 1 + 1) + (1 + 1));
    for (int route = 0; route < PL_ROUTE_COUNT; ++route) {
        const bool second = route == PL_ROUTE_ROUTER || route == PL_ROUTE_BEST ||
                            route == PL_ROUTE_BEST_PIECES;
        assert_int_equal(scores[route].n_targets, 5);
        assert_int_equal(scores[route].n_first, 1); /* target 2 */
        assert_true(scores[route].first_nats == (second ? 2 : 1));
    }
}

PL_TEST(later_text_does_not_choose_a_path)
{
    float losses[2][9];
    pl_score before[PL_ROUTE_COUNT], after[PL_ROUTE_COUNT];
    pl_likeliest likeliest;
    for (int t = 0; t < 9; ++t) {
        losses[0][t] = 1;
        losses[1][t] = 2;
    }
    pl_route_document d = DOCUMENT(losses[0], 2, 9, 2, 3, .gate = NULL);
    pl_route_choose(&d, before, &likeliest);
    losses[0][8] = 100;
    pl_route_choose(&d, after, &likeliest);
    assert_true(after[PL_ROUTE_REROUTED].nats == before[PL_ROUTE_REROUTED].nats + 99);
    assert_true(after[PL_ROUTE_BEST_PIECES].nats < after[PL_ROUTE_REROUTED].nats);
}

PL_TEST(a_prefix_without_targets_goes_by_the_router)
{
    const float losses[] = {1, 1, 5, 5};
    const pl_route_document d = DOCUMENT(losses, 2, 2, 1, 3, .router_path = 1);
    pl_score scores[PL_ROUTE_COUNT];
    pl_likeliest likeliest;
    pl_route_choose(&d, scores, &likeliest);
    assert_int_equal(likeliest.path, 1);
    assert_true(isinf(likeliest.margin_nats));
    assert_true(scores[PL_ROUTE_LIKELIHOOD].nats == 10);
}

/* The row "re-routed" of a report must be the rule of `generate --route-every` with the
 * prefix as W: here as plain loops over random losses, with the limit of evidence. */
PL_TEST(rerouted_is_the_rule_of_generate)
{
    enum { N = 300, P = 3, FIRST = 7 };
    static float losses[P * N];
    uint32_t random = 1;
    for (int i = 0; i < P * N; ++i) {
        random = random * 1664525 + 1013904223;
        /* each path is the better one for a while */
        losses[i] =
            (float)(random >> 24) / 64 + (i / N == i % N / 60 % P ? 0.0f : 1.5f);
    }
    const pl_route_document d = DOCUMENT(losses, P, N, FIRST, 32, .gate = NULL);
    pl_score scores[PL_ROUTE_COUNT];
    pl_likeliest likeliest;
    double against[P] = {0}, nats = 0;
    int path = 0, changes = 0;
    pl_route_choose(&d, scores, &likeliest);
    for (int token = 1; token <= N;
         ++token) { /* target token - 1 predicts this token */
        if (token >= FIRST && (token - FIRST) % FIRST == 0) {
            const int before = path;
            path = 0;
            for (int p = 1; p < P; ++p)
                path = against[p] < against[path] ? p : path;
            changes += token > FIRST && path != before;
        }
        if (token >= FIRST)
            nats += (double)losses[path * N + token - 1];
        double least = INFINITY;
        for (int p = 0; p < P; ++p)
            least = fmin(least, against[p] += (double)losses[p * N + token - 1]);
        for (int p = 0; p < P; ++p)
            against[p] = fmin(against[p] - least, PL_HISTORY_BEHIND);
    }
    assert_true(changes >= 3);
    assert_true(fabs(scores[PL_ROUTE_REROUTED].nats - nats) < 1e-6);
}

/* ---- the path is chosen every W tokens ---- */
/* The losses of two paths on eight targets. The first target is in the prefix. The
 * tests choose the path for each piece of three targets. */
static const float changing[] = {1, 1, 1, 1, 9, 9, 9, 9,  /* path 0 */
                                 2, 3, 3, 3, 1, 1, 1, 1}; /* path 1 */

static pl_route_document changing_document(void)
{
    return (pl_route_document)DOCUMENT(changing, 2, 8, 2, 8, .gate = NULL);
}

/* Piece 0, targets 1..3, has the given path 0. After targets 0..3 the losses are 4 nats
 * on path 0 and 11 on path 1, so path 0 also has targets 4..6. After targets 0..6 the
 * losses are 31 nats and 14, so path 1 has target 7. */
PL_TEST(paths_are_chosen_every_w_tokens)
{
    const pl_route_document d = changing_document();
    pl_every_choice c;
    pl_route_every(&d, 0, 3, &c);
    assert_true(c.history.score.nats == 1 + 1 + 1 + 9 + 9 + 9 + 1);
    assert_true(c.oracle.nats == 1 + 1 + 1 + 1 + 1 + 1 + 1);
    assert_int_equal(c.history.score.n_targets, 7);
    assert_int_equal(c.oracle.n_targets, 7);
    assert_int_equal(c.history.n_choices, 2);
    assert_int_equal(c.history.n_changes, 1);
    /* If all targets are one piece, the given path 1 has all of them. */
    pl_route_every(&d, 1, 7, &c);
    assert_true(c.history.score.nats == 3 + 3 + 3 + 1 + 1 + 1 + 1);
    assert_int_equal(c.history.n_choices, 0);
}

/* The losses of the gate choose the path, and the losses of the paths are scored. Piece
 * 0 has the path that the router chose. After targets 0..3 the gate's losses are 3 nats
 * on path 0 and 1 on path 1, so path 1 is chosen. After targets 0..6 they are 3 and 4,
 * so path 0 is chosen. */
PL_TEST(the_gate_chooses_by_its_own_losses)
{
    const float gate[] = {0, 1, 1, 1, 0, 0, 0, 0,  /* path 0 */
                          1, 0, 0, 0, 1, 1, 1, 1}; /* path 1 */
    pl_route_document d = changing_document();
    pl_every_choice with, without;
    pl_route_every(&d, 0, 3, &without);
    assert_int_equal(without.gate.score.n_targets, 0);
    d.gate = gate;
    d.router_path = 1;
    pl_route_every(&d, 0, 3, &with);
    assert_true(with.gate.score.nats == 3 + 3 + 3 + 1 + 1 + 1 + 9);
    assert_int_equal(with.gate.score.n_targets, 7);
    assert_int_equal(with.gate.n_choices, 2);
    assert_int_equal(with.gate.n_changes, 1);
    assert_int_equal(with.gate.n_missed, 7); /* path 0 has read no token */
    /* Path 0 need not read tokens before the current window, which has five targets. */
    d.window = 5;
    pl_route_every(&d, 0, 3, &with);
    assert_int_equal(with.gate.n_missed, 2);
    assert_int_equal(with.history.n_missed, 0);
    d.gate = NULL;
    pl_route_every(&d, 0, 3, &without);
    assert_memory_equal(&with.history, &without.history, sizeof with.history);
    assert_memory_equal(&with.oracle, &without.oracle, sizeof with.oracle);
}

PL_TEST(a_path_falls_only_so_far_behind)
{
    const float losses[] = {0, 0, 0, 0, 7, 7, 7, 7,  /* path 0 */
                            7, 7, 7, 7, 0, 0, 0, 0}; /* path 1 */
    double evidence[2] = {0, 0}, parts[2] = {0, 0};
    pl_evidence_add(evidence, 2, 24, losses, 8, 3);
    assert_true(evidence[0] == 0 && evidence[1] == 21);
    pl_evidence_add(evidence, 2, 24, losses + 3, 8, 1);
    assert_true(evidence[0] == 0 && evidence[1] == 24);
    pl_evidence_add(evidence, 2, 24, losses + 4, 8, 3);
    assert_int_equal(pl_least_evidence(evidence, 2), 0); /* 21 nats against 24 */
    pl_evidence_add(evidence, 2, 24, losses + 7, 8, 1);
    assert_int_equal(pl_least_evidence(evidence, 2), 1); /* 28 nats against 24 */
    pl_evidence_add(parts, 2, 24, losses, 8, 8);         /* all 8 in one call */
    assert_memory_equal(parts, evidence, sizeof parts);
    const double equal[] = {2.0, 1.0, 1.0}, bad[] = {NAN, 5.0, 4.0};
    assert_int_equal(pl_least_evidence(equal, 3), 1);
    assert_int_equal(pl_least_evidence(bad, 3), 2);
    /* With a limit of 12 nats instead of 24, path 1 becomes the best after two losses
     * of 7 nats on path 0, instead of after four. */
    double low[2] = {0, 0};
    pl_evidence_add(low, 2, 12, losses, 8, 6);
    assert_int_equal(pl_least_evidence(low, 2), 1);
    /* An infinite loss counts as 24 nats, and a path with NaN never wins. */
    const float odd[] = {1, INFINITY, NAN};
    double three[3] = {0, 0, 0};
    pl_evidence_add(three, 3, 24, odd, 1, 1);
    assert_true(three[0] == 0 && three[1] == 24 && isnan(three[2]));
}

/* The router's models prefer path 0 by 1 nat per token in 20 targets, then path 1. The
 * gate leaves path 0 when path 1 has won more than 16 nats, however long the beginning
 * was (docs/results/routing.md, limit 16). */
PL_TEST(a_gate_changes_its_path_after_sixteen_nats)
{
    enum { HALF = 20, TARGETS = 2 * HALF };
    float losses[2][TARGETS], gate[2][TARGETS];
    for (int t = 0; t < TARGETS; ++t) {
        losses[0][t] = 1; /* the sum of losses counts the targets of path 0 */
        losses[1][t] = 0;
        gate[0][t] = t < HALF ? 0 : 1;
        gate[1][t] = t < HALF ? 1 : 0;
    }
    const pl_route_document d =
        DOCUMENT(losses[0], 2, TARGETS, 2, TARGETS, .gate = gate[0]);
    pl_every_choice c;
    pl_route_every(&d, 0, 1, &c);
    assert_true(c.gate.score.nats == HALF - 1 + 17);
    assert_int_equal(c.gate.n_changes, 1);
}

PL_TEST(text_after_a_choice_does_not_change_it)
{
    enum { N = 40, W = 4 };
    float losses[2][N];
    pl_every_choice before, after;
    pl_route_document d = DOCUMENT(losses[0], 2, N, 1, 8, .gate = NULL);
    for (int t = 0; t < N; ++t) {
        losses[0][t] = (float)(1 + t % 7);
        losses[1][t] = (float)(1 + t % 5);
    }
    for (uint32_t at = W; at < N; at += W) {
        d.n_targets = at; /* the text ends here ... */
        pl_route_every(&d, 0, W, &before);
        d.n_targets = at + W; /* ... or it goes on, with any targets */
        for (int path = 0; path < 2; ++path)
            for (uint32_t t = at; t < at + W; ++t)
                losses[path][t] += 100;
        pl_route_every(&d, 0, W, &after);
        assert_true(after.history.score.nats >= before.history.score.nats + 100 * W);
        assert_true(after.history.score.nats <= before.history.score.nats + 107 * W);
        for (int path = 0; path < 2; ++path)
            for (uint32_t t = at; t < at + W; ++t)
                losses[path][t] -= 100;
    }
}

static pl_route_job route_all(pl_scorer *scorer, const int *path_of, int *n_asked,
                              size_t most_bytes)
{
    return (pl_route_job){.scorer = scorer,
                          .tokens = tokens,
                          .docs = all,
                          .path_of = path_of,
                          .n = N_DOCS,
                          .prefix = PREFIX,
                          .params = give_params,
                          .context = n_asked,
                          .most_bytes = most_bytes};
}

/* Uses losses of real models. If W is longer than the text, the path is chosen once, so
 * `history` equals PL_ROUTE_LIKELIHOOD, and `oracle` equals PL_ROUTE_BEST. The oracle
 * chooses by the losses of the piece itself, so smaller pieces that divide larger ones
 * never make it worse. */
PL_TEST(smaller_pieces_are_no_worse_in_hindsight)
{
    const int path_of[N_DOCS] = {0};
    int n_asked[PATHS] = {0};
    pl_likeliest chosen[N_DOCS];
    pl_score ways[PL_ROUTE_COUNT * N_DOCS];
    pl_every_choice every[4 * N_DOCS];
    OWNED(pl_scorer_destroy) pl_scorer *scorer = open_scorer(1, 2, 1);
    pl_route_job job = route_all(scorer, path_of, n_asked, 600);
    const int pieces[] = {1000, 8, 4, 2};
    memcpy(job.every, pieces, sizeof pieces);
    job.n_every = 4;
    const pl_routes out = {.scores = ways, .likeliest = chosen, .every = every};
    assert_ok(pl_score_routes(&job, &out));
    for (int d = 0; d < N_DOCS; ++d) {
        const pl_score *once = &ways[PL_ROUTE_LIKELIHOOD * N_DOCS + d];
        const pl_score *best = &ways[PL_ROUTE_BEST * N_DOCS + d];
        assert_true(fabs(every[d].history.score.nats - once->nats) <= 1e-9);
        assert_true(fabs(every[d].oracle.nats - best->nats) <= 1e-9);
        for (int w = 0; w < 4; ++w) {
            const pl_every_choice *c = &every[w * N_DOCS + d];
            assert_int_equal(c->history.score.n_targets, once->n_targets);
            assert_int_equal(c->oracle.n_targets, once->n_targets);
            assert_true(c->oracle.nats <= c->history.score.nats + 1e-9);
            assert_true(w == 0 || c->oracle.nats <= c[-N_DOCS].oracle.nats + 1e-9);
        }
    }
}

PL_TEST(routes_do_not_depend_on_the_memory_they_get)
{
    enum { WAYS = PL_ROUTE_COUNT * N_DOCS };
    const int path_of[N_DOCS] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
    const size_t most[] = {1, 600, 1 << 20};
    int n_asked[PATHS] = {0};
    pl_likeliest chosen[3][N_DOCS];
    pl_score ways[3][WAYS], routed[N_DOCS];
    OWNED(pl_scorer_destroy) pl_scorer *scorer = open_scorer(1, 2, 1);
    for (int i = 0; i < 3; ++i) {
        const pl_route_job job = route_all(scorer, path_of, n_asked, most[i]);
        const pl_routes out = {.scores = ways[i], .likeliest = chosen[i]};
        assert_ok(pl_score_routes(&job, &out));
    }
    assert_int_equal(n_asked[0], N_DOCS + 3 + 1);
    assert_ok(pl_score_routed(scorer, tokens, all, path_of, N_DOCS, give_params,
                              n_asked, routed));
    for (int w = 0; w < WAYS; ++w)
        for (int i = 1; i < 3; ++i)
            assert_true(fabs(ways[i][w].nats - ways[0][w].nats) <=
                        1e-5 * (1 + ways[0][w].nats));
    for (int d = 0; d < N_DOCS; ++d) {
        const pl_score *once = &ways[2][PL_ROUTE_ROUTER * N_DOCS + d];
        assert_int_equal(once->n_targets, routed[d].n_targets);
        assert_true(fabs(once->nats - routed[d].nats) <= 1e-5 * (1 + routed[d].nats));
        assert_int_equal(chosen[0][d].path, chosen[2][d].path);
    }
}

/* The rules of the changing document with pieces of 3 targets. One choice of path 0 for
 * all 7 counted targets costs 39 nats, `history` 31, and `oracle` 7. */
PL_TEST(rules_are_compared_with_one_choice)
{
    const pl_route_document d = changing_document();
    const pl_score once = {.nats = 39, .n_targets = 7};
    const int every = 3;
    pl_every_choice choice;
    pl_route_every(&d, 0, every, &choice);
    const pl_every_results results = {.choices = &choice,
                                      .every = &every,
                                      .n_every = 1,
                                      .once = &once,
                                      .n = 1,
                                      .n_targets = 7,
                                      .n_bytes = 14,
                                      .n_open = 2};
    assert_int_equal(pl_every_n_rows(&results), 4);
    OWNED(free_memory) pl_every_row *rows = pl_every_rows(&results);
    assert_string_equal(rows[0].rule, "once");
    assert_true(fabs(rows[0].bits - 39 / log(2) / 14) < 1e-12 && rows[0].below == 0);
    assert_string_equal(rows[1].rule, "history");
    assert_int_equal(rows[1].every, 3);
    assert_true(rows[1].share == 8.0 / 32);
    assert_true(rows[1].changes == 0.5 && rows[1].read == 1);
    assert_true(fabs(rows[1].below - 100 * (1 - exp(-8.0 / 7))) < 1e-10);
    assert_string_equal(rows[3].rule, "oracle");
    assert_true(isnan(rows[3].share) && isnan(rows[3].changes) && isnan(rows[3].read));
}

PL_TEST(a_cap_picks_whole_documents_evenly)
{
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
        assert_true(n == 6 || cap < 78); /* 78 = 1 + 4 + 12 + 35 + 21 + 5 */
    }
}

PL_TEST(wrong_use_is_refused)
{
    pl_scorer_options options = {.topology = topology,
                                 .backend = "ref",
                                 .precision = "f32",
                                 .n_threads = 1,
                                 .context = T + 1};
    OWNED(pl_scorer_destroy) pl_scorer *scorer;
    pl_score scores[1];
    const uint32_t docs[] = {N_DOCS};
    assert_int_equal(pl_scorer_create(&options, &scorer), PL_ERR_CONFIG);
    assert_null(scorer);
    options.context = T;
    options.step = T + 1;
    assert_fails(pl_scorer_create(&options, &scorer), PL_ERR_ARG,
                 "cannot be shifted by 9 tokens");
    options.step = 0;
    assert_ok(pl_scorer_create(&options, &scorer));
    assert_fails(pl_score_documents(scorer, tokens, all, 1, scores), PL_ERR_ARG,
                 "before parameters");
    pl_scorer_destroy(&scorer);
    scorer = open_scorer(1, 1, 0);
    assert_fails(pl_score_documents(scorer, tokens, docs, 1, scores), PL_ERR_ARG,
                 "document 9 does not exist");
}

/* A scorer that borrows a model must give the same scores as one with its own model. (A
 * worker scores with the model that it also trains.) */
PL_TEST(a_borrowed_model_scores_the_same)
{
    pl_model_options options = {.batch = 3, .context = T, .training = true};
    pl_score own[N_DOCS], borrowed[N_DOCS];
    pl_scorer *scorer = open_scorer(1, 3, 1);
    OWNED(free_memory)
    float *params = malloc(pl_topology_path_params(topology) * sizeof *params);
    int left = 1000;
    OWNED(pl_backend_close) pl_backend *be = open_side("ref", "f32", 1);
    OWNED(pl_model_destroy) pl_model *model;
    assert_ok(pl_score_documents(scorer, tokens, all, N_DOCS, own));
    pl_scorer_destroy(&scorer);
    fill_params(1, params);
    assert_ok(pl_model_create(be, topology, &options, &model));
    assert_ok(pl_model_load(model, params));
    pl_scorer_options of = {.topology = topology,
                            .model = model,
                            .batch = 3,
                            .prefix = PREFIX,
                            .check = end_after,
                            .check_context = &left};
    assert_ok(pl_scorer_create(&of, &scorer));
    assert_ok(pl_score_documents(scorer, tokens, all, N_DOCS, borrowed));
    for (int i = 0; i < N_DOCS; i++)
        assert_true(own[i].nats == borrowed[i].nats &&
                    own[i].n_targets == borrowed[i].n_targets);
    left = 1;
    assert_int_equal(pl_score_documents(scorer, tokens, all, N_DOCS, borrowed),
                     PL_ERR_CANCELLED);
    pl_scorer_destroy(&scorer);
}

PL_SUITE(open_all, close_all)
