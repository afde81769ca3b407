/* Compares the rows of an evaluation with one another (compare.h). */
#include "eval/eval.h"
#include <math.h>

double pl_bits_per_byte(const pl_score *score, uint64_t n_bytes)
{
    return n_bytes > 0 ? score->nats / log(2) / (double)n_bytes : NAN;
}

pl_gain pl_score_gain(const pl_score *scores, const pl_score *than, size_t n)
{
    const pl_score own = pl_score_sum(scores, n), other = pl_score_sum(than, n);
    const double ppl = pl_perplexity(&own), other_ppl = pl_perplexity(&other);
    return (pl_gain){100 * (1 - ppl / other_ppl),
                     100 * pl_score_error(scores, than, n) * ppl / other_ppl};
}

pl_score pl_first_windows(const pl_score *score)
{
    return (pl_score){.nats = score->first_nats,
                      .n_targets = score->n_first,
                      .first_nats = score->first_nats,
                      .n_first = score->n_first};
}

pl_gain pl_first_gain(const pl_score *scores, const pl_score *than, size_t n)
{
    pl_score *first = pl_alloc((2 * n + 1) * sizeof *first);
    for (size_t i = 0; i < n; ++i) {
        first[i] = pl_first_windows(&scores[i]);
        first[n + i] = pl_first_windows(&than[i]);
    }
    const pl_gain gain = pl_score_gain(first, first + n, n);
    pl_free(first);
    return gain;
}

double pl_macro_perplexity(const pl_score *by_domain, size_t n_domains)
{
    double sum = 0.0;
    size_t n = 0;
    for (size_t d = 0; d < n_domains; ++d)
        if (by_domain[d].n_targets > 0) {
            sum += by_domain[d].nats / (double)by_domain[d].n_targets;
            ++n;
        }
    return n > 0 ? exp(sum / (double)n) : NAN;
}

/* The logarithm of the ratio is the mean of the domains' differences in nats per
 * target. Documents of different domains are independent, so the squares of the
 * domains' errors add up. */
pl_gain pl_macro_gain(const pl_tokens *tokens, const uint32_t *docs,
                      const pl_score *scores, const pl_score *than, size_t n)
{
    pl_score *own = pl_alloc((2 * n + 1) * sizeof *own), *other = own + n;
    double sum = 0.0, squares = 0.0, n_domains = 0.0;
    for (uint32_t d = 0; d < pl_tokens_n_domains(tokens); ++d) {
        size_t m = 0;
        for (size_t i = 0; i < n; ++i)
            if (pl_tokens_doc(tokens, docs[i])->domain == d) {
                own[m] = scores[i];
                other[m++] = than[i];
            }
        const pl_score all = pl_score_sum(own, m), others = pl_score_sum(other, m);
        if (all.n_targets == 0)
            continue;
        const double error = pl_score_error(own, other, m);
        sum += (all.nats - others.nats) / (double)all.n_targets;
        squares += error * error;
        n_domains++;
    }
    pl_free(own);
    const double ratio = exp(sum / n_domains);
    return (pl_gain){100 * (1 - ratio), 100 * ratio * sqrt(squares) / n_domains};
}

pl_effort pl_effort_of(const pl_spent *spent, const pl_spent *base, double machines,
                       double flops_per_token, double rate)
{
    const uint64_t before = base ? base->tokens : 0;
    const double longest =
        (double)spent->longest / machines + (base ? (double)base->longest : 0);
    pl_effort out = {.tokens_per_path = before + (base ? spent->mean : spent->tokens),
                     .tokens_total = before + spent->tokens,
                     .seconds = rate > 0 ? longest / rate : NAN};
    out.flops = (double)out.tokens_total * flops_per_token;
    return out;
}

/* ---- rules that choose the path again every W tokens ---- */
enum { EVERY_HISTORY, EVERY_GATE, EVERY_ORACLE, EVERY_RULES };
static const char *const every_rules[EVERY_RULES] = {"history", "gate", "oracle"};

int pl_every_n_rows(const pl_every_results *results)
{
    return 1 + EVERY_RULES * results->n_every;
}

/* Fills in the fields that every row has, from the row's scores and the scores of
 * "once". */
static void fill_every_row(const pl_every_results *e, const pl_score *scores,
                           pl_every_row *out)
{
    const double to_bits = (double)e->n_targets / (double)e->n_bytes / log(2);
    const pl_score sum = pl_score_sum(scores, e->n);
    const pl_score once = pl_score_sum(e->once, e->n);
    const double ratio = pl_perplexity(&sum) / pl_perplexity(&once);
    out->bits = pl_bits_per_byte(&sum, e->n_bytes);
    out->bits_error = pl_score_error(scores, NULL, e->n) * to_bits;
    out->ppl = pl_perplexity(&sum);
    out->below = 100 * (1 - ratio);
    out->below_error = 100 * ratio * pl_score_error(scores, e->once, e->n);
    out->share = out->changes = out->read = NAN;
}

pl_every_row *pl_every_rows(const pl_every_results *e)
{
    const double once = pl_score_sum(e->once, e->n).nats;
    pl_every_row *rows = pl_alloc((size_t)pl_every_n_rows(e) * sizeof *rows);
    pl_score *scores = pl_alloc((e->n + 1) * sizeof *scores);
    rows[0] = (pl_every_row){.rule = "once"};
    fill_every_row(e, e->once, &rows[0]);
    for (int w = 0; w < e->n_every; w++) {
        pl_every_row *own = &rows[1 + EVERY_RULES * w];
        const pl_every_choice *choices = e->choices + (size_t)w * e->n;
        double gain[EVERY_RULES];
        for (int rule = 0; rule < EVERY_RULES; rule++) {
            uint64_t n_choices = 0, n_changes = 0, n_missed = 0;
            for (size_t i = 0; i < e->n; i++) {
                const pl_every_way *way =
                    rule == EVERY_HISTORY ? &choices[i].history : &choices[i].gate;
                scores[i] = rule == EVERY_ORACLE ? choices[i].oracle : way->score;
                n_choices += way->n_choices;
                n_changes += way->n_changes;
                n_missed += way->n_missed;
            }
            own[rule] = (pl_every_row){.rule = every_rules[rule], .every = e->every[w]};
            fill_every_row(e, scores, &own[rule]);
            if (rule != EVERY_ORACLE && n_choices > 0)
                own[rule].changes = (double)n_changes / (double)n_choices;
            if (rule != EVERY_ORACLE)
                own[rule].read = rule == EVERY_HISTORY
                                     ? e->n_open - 1
                                     : (double)n_missed / (double)e->n_targets;
            gain[rule] = once - pl_score_sum(scores, e->n).nats;
        }
        for (int rule = 0; rule < EVERY_ORACLE; rule++)
            own[rule].share = gain[rule] / gain[EVERY_ORACLE];
    }
    pl_free(scores);
    return rows;
}
