/* folder: job; label: unit */
/* Tests which reasons a report names if a baseline is better than the mixture. */
#include "job/evaluate.h"
#include <fcntl.h>
#include <unistd.h>

#include "tests/support/corpus_support.h"

enum { DOCS = 40, TARGETS = 100, PREFIX = 32 };

/* Gives a row the loss `one` per target in documents of the domain "one", and `two` in
 * those of the domain "two". */
static void fill_row(pl_run *r, evaluation *e, row_kind kind, double one, double two)
{
    evaluation_row *w = &e->rows[kind];
    w->present = w->finished = true;
    w->scores = pl_alloc(DOCS * sizeof *w->scores);
    for (int d = 0; d < DOCS; d++)
        w->scores[d] = (pl_score){.nats = TARGETS * (d % 2 == 0 ? one : two),
                                  .n_targets = TARGETS};
    w->score = pl_score_sum(w->scores, DOCS);
    w->ppl = pl_perplexity(&w->score);
    w->by_domain = pl_alloc(pl_tokens_n_domains(r->valid) * sizeof *w->by_domain);
    pl_score_by_domain(r->valid, e->docs, w->scores, DOCS, w->by_domain);
    w->effort.tokens_total = 1u << 30;
    pl_copy_text(w->title, sizeof w->title, kind == ROW_EQUAL ? "the rival" : "");
}

/* Reads what evaluation_print_loss prints if the mixture has these losses. The rival
 * has 3 nats per target in both domains. */
static void report_rules(double one, double one_router, double one_again,
                         double hindsight, char out[1024])
{
    static const char *const sets[] = {"router.prefix=32"};
    uint32_t lens[DOCS];
    pl_run r = {0};
    evaluation e = {0};
    pl_shape shape;
    pl_topology_spec spec;
    OWNED(pl_buf_destroy) pl_buf file = {0};
    for (int d = 0; d < DOCS; d++)
        lens[d] = TARGETS + PREFIX;
    build_tokens(lens, DOCS, 32000, &file);
    write_bytes("valid.tok", file.data, file.len);
    assert_ok(pl_tokens_open(in_scratch("valid.tok"), true, &r.valid));
    assert_ok(config_build(NULL, sets, 1, &r.cfg));
    assert_ok(config_shape(&r.cfg, &shape));
    assert_ok(config_spec(&r.cfg, &spec));
    assert_ok(pl_topology_create(&shape, &spec, &r.topology));
    e.n_docs = DOCS;
    e.docs = pl_alloc(DOCS * sizeof *e.docs);
    for (uint32_t d = 0; d < DOCS; d++)
        e.docs[d] = d;
    e.answer = ROW_LIKELIHOOD;
    fill_row(&r, &e, ROW_ROUTER, one_router, 2.95);
    fill_row(&r, &e, ROW_LIKELIHOOD, one, 2.95);
    fill_row(&r, &e, ROW_REROUTED, one_again, 2.95);
    fill_row(&r, &e, ROW_EQUAL, 3, 3);
    e.best = (pl_score){.nats = hindsight, .n_targets = 1};
    const int own = dup(STDOUT_FILENO);
    const int to = open(in_scratch("out"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    fflush(stdout);
    dup2(to, STDOUT_FILENO);
    evaluation_print_loss(&r, &e);
    fflush(stdout);
    dup2(own, STDOUT_FILENO);
    const ssize_t n = pread(to, out, 1023, 0);
    assert_true(n >= 0);
    out[n] = '\0';
    close(own);
    close(to);
    evaluation_clear(&e);
    pl_topology_destroy(&r.topology);
    pl_tokens_close(&r.valid);
}

static void report(double one, double one_again, double hindsight, char out[1024])
{
    report_rules(one, one, one_again, hindsight, out);
}

PL_TEST(a_rule_that_is_better_than_the_one_that_answers_is_named)
{
    char said[1024];
    report_rules(2.9, 2.7, 2.9, 3.1, said);
    assert_non_null(strstr(said, "has 9.5 % lower perplexity than row *"));
    assert_non_null(strstr(said, "router.answer=router"));
    report_rules(2.9, 2.9, 2.9, 3.1, said);
    assert_null(strstr(said, "router.answer"));
    report_rules(2.7, 2.9, 2.9, 3.1, said);
    assert_null(strstr(said, "router.answer"));
}

PL_TEST(a_domain_that_wins_when_routed_again_has_a_wrong_path)
{
    char said[1024];
    report(3.3, 2.9, 3.1, said);
    assert_non_null(strstr(said, "\"the rival\" is better than the mixture"));
    assert_non_null(strstr(said, "without the domain one (50 % of the scored tokens; "
                                 "27.11 against 20.09)"));
    assert_non_null(strstr(said,
                           "its documents go to the wrong paths; chosen again "
                           "every 32 tokens (--route-every), it\n     has 18.17"));
    assert_null(strstr(said, "use more paths"));
    assert_null(strstr(said, "in hindsight"));
}

PL_TEST(a_domain_that_loses_on_every_path_needs_more_paths)
{
    char said[1024];
    report(3.3, 3.2, 3.1, said);
    assert_non_null(strstr(said, "use more paths"));
    assert_null(strstr(said, "wrong paths"));
}

PL_TEST(if_hindsight_wins_the_report_says_what_choosing_again_brings)
{
    char said[1024];
    report(3.3, 2.95, 2.9, said);
    assert_non_null(strstr(said,
                           "the choice\n     of the path loses. Chosen again every "
                           "32 tokens (--route-every), perplexity is 19.11"));
}

PL_TEST(a_mixture_that_wins_gets_no_reasons)
{
    char said[1024];
    report(2.9, 2.9, 2.9, said);
    assert_string_equal(said, "");
}

PL_SUITE(make_scratch, remove_scratch)
