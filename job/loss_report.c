/* Says in the report why the mixture is worse than a baseline or than before, from the
 * run's own numbers, and what to change. */
#include "job/evaluate.h"

#include <math.h>

/* A mixture was better than one model with all tokens from 3 tokens per parameter of a
 * path on, the tokens of base model and paths together (docs/results/pays.md). Text
 * that is read more than four times teaches little more (Muennighoff et al. 2023,
 * arXiv:2305.16264). */
static const double TOKENS_PER_PARAM = 3, PASSES = 4;
enum { REASONS = 2 }; /* the most that are printed */

/* Returns the domain, at most half of the text, without which the mixture would be
 * better than the rival, or -1. */
static int losing_domain(const pl_run *r, const evaluation_row *mix,
                         const evaluation_row *rival)
{
    const double all = mix->score.nats - rival->score.nats;
    double most = 0;
    int worst = -1;
    for (uint32_t d = 0; d < pl_tokens_n_domains(r->valid); d++) {
        const double loss = mix->by_domain[d].nats - rival->by_domain[d].nats;
        if (loss > most && 2 * mix->by_domain[d].n_targets <= mix->score.n_targets) {
            most = loss;
            worst = (int)d;
        }
    }
    return all - most < 0 ? worst : -1;
}

/* Returns how often the mixture's paths have read their shards, the base model's tokens
 * left out; NaN if the run's text cannot be read. */
static double passes_of_paths(const pl_run *r, const evaluation *e)
{
    char path[PL_PATH_MAX];
    pl_tokens *train = NULL;
    const pl_effort *mix = &e->rows[e->answer].effort;
    const evaluation_row *base = &e->rows[ROW_BASE];
    if (!base->present ||
        pl_tokens_open(run_file(r, "data/train.tok", path), false, &train) != PL_OK)
        return NAN;
    double tokens = 0;
    for (uint32_t i = 0; i < pl_tokens_n_docs(train); i++)
        tokens += (double)pl_counted_targets(train, i, 0);
    pl_tokens_close(&train);
    return (double)(mix->tokens_total - base->effort.tokens_total) / tokens;
}

void evaluation_print_loss(const pl_run *r, const evaluation *e)
{
    const evaluation_row *mix = &e->rows[e->answer], *rival = NULL;
    const evaluation_row *again = &e->rows[ROW_REROUTED];
    const double best = pl_perplexity(&e->best);
    const long long prefix = (long long)r->cfg.prefix;
    /* Names the other rule (router.answer), if it is better by two standard errors. */
    const bool likeliest = e->answer == ROW_LIKELIHOOD;
    const char *rule = likeliest ? "router" : "likelihood";
    const evaluation_row *other = &e->rows[likeliest ? ROW_ROUTER : ROW_LIKELIHOOD];
    if (mix->present && other->present) {
        const pl_gain g = pl_score_gain(other->scores, mix->scores, e->n_docs);
        if (g.percent > 2 * g.error)
            say("   \"%s\" has %.1f %% lower perplexity than row *: give `train` --set "
                "router.answer=%s\n   (no version changes), or `serve` --route %s",
                other->title, g.percent, rule, rule);
    }
    /* The rival is the finished baseline with the lowest perplexity. Says nothing
     * unless it is better than the mixture by more than two standard errors. */
    for (int i = ROW_DENSE; i < ROW_BASE; i++) {
        const evaluation_row *w = &e->rows[i];
        if (w->present && w->finished && (!rival || w->ppl < rival->ppl))
            rival = w;
    }
    if (!rival || !mix->present || !mix->finished)
        return;
    const pl_gain gain = pl_score_gain(mix->scores, rival->scores, e->n_docs);
    if (!(gain.percent < -2 * gain.error))
        return;
    const double per_param =
        (double)mix->effort.tokens_total / (double)pl_topology_path_params(r->topology);
    const double passes = passes_of_paths(r, e);
    const int domain = losing_domain(r, mix, rival);
    int n = 0;
    say("   \"%s\" is better than the mixture:", rival->title);
    if (best < rival->ppl && ++n <= REASONS)
        say("   - in hindsight the best path of each document would be %.1f %% better "
            "than it: the choice\n"
            "     of the path loses. Chosen again every %lld tokens (--route-every), "
            "perplexity is %.2f",
            100 * (1 - best / rival->ppl), prefix, again->ppl);
    if (per_param < TOKENS_PER_PARAM && ++n <= REASONS)
        say("   - all paths together were trained on %.1f tokens per parameter of one, "
            "and a mixture\n"
            "     pays from about %.0f on: raise train.phases",
            per_param, TOKENS_PER_PARAM);
    if (passes > PASSES && ++n <= REASONS)
        say("   - the paths read their text %.1f times: give more text, or use fewer "
            "phases",
            passes);
    if (domain >= 0 && ++n <= REASONS) {
        const double rival_ppl = pl_perplexity(&rival->by_domain[domain]);
        say("   - without the domain %s (%.0f %% of the scored tokens; %.2f against "
            "%.2f) the mixture would be\n"
            "     better:",
            pl_tokens_domain(r->valid, (uint32_t)domain),
            100 * (double)mix->by_domain[domain].n_targets /
                (double)mix->score.n_targets,
            pl_perplexity(&mix->by_domain[domain]), rival_ppl);
        /* Often the documents of one domain begin like those of another one. Their
         * losses end when the path is chosen again (docs/results/routing.md). */
        if (again->present && pl_perplexity(&again->by_domain[domain]) <= rival_ppl)
            say("     its documents go to the wrong paths; chosen again every %lld "
                "tokens (--route-every), it\n"
                "     has %.2f",
                prefix, pl_perplexity(&again->by_domain[domain]));
        else
            say("     one path is too small for it, so use more paths");
    }
    if (n == 0)
        say("   these numbers do not say why: one model fits this text better "
            "(topology.levels=1)");
}

pl_status evaluation_print_before(pl_run *r, pl_store *store, const evaluation *e)
{
    const evaluation_row *now = &e->rows[e->answer], *then;
    pl_snapshot versions = {.phase = -1};
    const evaluation_wish wish = {.versions = &versions, .only_mixture = true};
    evaluation before = {0};
    if (!r->cfg.more[0] || !now->present || !now->finished)
        return PL_OK;
    pl_chapter_name(pl_arm_chapter(e->chapter) - 1, versions.arm);
    pl_status status = pl_tag_fill(store, &versions);
    if (status == PL_OK)
        status = evaluate(r, store, &wish, &before);
    then = &before.rows[before.answer];
    if (status == PL_OK && then->present && before.n_docs == e->n_docs) {
        const pl_gain g = pl_score_gain(now->scores, then->scores, e->n_docs);
        char now_is[48];
        evaluation_write_error(now_is, 0, 1, fabs(g.percent), g.error,
                               g.percent < 0 ? " % worse" : " % better");
        say("   before the phases of %s perplexity was %.2f: it is now %s", e->chapter,
            then->ppl, now_is);
        if (g.percent < 0)
            say("   to go back: `pathloom store tag before head --arm %s`, then `--at "
                "before` with eval, generate, serve and export",
                versions.arm);
    }
    before.wish.versions = NULL;
    evaluation_clear(&before);
    pl_snapshot_clear(&versions);
    /* gc has deleted the versions, or they do not belong to phases (outer.method) */
    return status == PL_ERR_NOT_FOUND || status == PL_ERR_USAGE ? PL_OK : status;
}
