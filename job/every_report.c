/* Prints how much it helps to choose the path again every W tokens, by a table of four
 * rules. once: one choice per document. history: every W tokens, by the paths' losses
 * on the preceding text. gate: every W tokens, by the losses of the router's models on
 * the preceding text. oracle: every W tokens, in hindsight. */
#include "job/evaluate.h"

#include <math.h>

enum { EVERY_HISTORY, EVERY_GATE, EVERY_ORACLE, EVERY_RULES };
static const char *const every_rules[EVERY_RULES] = {"history", "gate", "oracle"};

typedef struct every_row {
    const char *rule; /* "once", or one of every_rules */
    int every;        /* W; 0: the rule "once" */
    double bits, bits_error, ppl;
    /* by how many percent the perplexity is below the perplexity of "once", and the
     * standard error */
    double below, below_error;
    /* gain in nats over "once", divided by the gain of "oracle" for the same W; NaN in
     * the rows of "once" and "oracle" */
    double share;
    /* fraction of choices that changed the path; NaN in the rows of "once" and
     * "oracle" */
    double changes;
    /* tokens that paths read only for the choice, per scored token; NaN in the rows of
     * "once" and "oracle" */
    double read;
} every_row;

static int count_every_rows(const evaluation *e)
{
    return 1 + EVERY_RULES * e->wish.n_every;
}

/* Collects the scores of one rule, and counts the changes and the tokens read by its
 * choices. */
static void collect_scores(const evaluation *e, int w, int rule, pl_score *scores,
                           every_row *out)
{
    const pl_every_choice *choices = e->every + (size_t)w * e->n_docs;
    uint64_t n_choices = 0, n_changes = 0, n_missed = 0;
    for (size_t i = 0; i < e->n_docs; i++) {
        const pl_every_way *way =
            rule == EVERY_HISTORY ? &choices[i].history : &choices[i].gate;
        scores[i] = rule == EVERY_ORACLE ? choices[i].oracle : way->score;
        n_choices += way->n_choices;
        n_changes += way->n_changes;
        n_missed += way->n_missed;
    }
    out->changes = out->read = NAN;
    if (rule == EVERY_ORACLE)
        return;
    if (n_choices > 0)
        out->changes = (double)n_changes / (double)n_choices;
    out->read =
        rule == EVERY_HISTORY ? e->n_open - 1 : (double)n_missed / (double)e->n_targets;
}

/* Fills in the fields that every row has, from the row's scores and the scores of
 * "once". */
static void fill_every_row(const evaluation *e, const pl_score *scores, every_row *out)
{
    const pl_score *once = e->rows[ROW_LIKELIHOOD].scores;
    const double to_bits = (double)e->n_targets / (double)e->n_bytes / log(2);
    const pl_score sum = pl_score_sum(scores, e->n_docs);
    const double ratio = pl_perplexity(&sum) / e->rows[ROW_LIKELIHOOD].ppl;
    out->bits = evaluation_bits(e, &sum);
    out->bits_error = pl_score_error(scores, NULL, e->n_docs) * to_bits;
    out->ppl = pl_perplexity(&sum);
    out->below = 100 * (1 - ratio);
    out->below_error = 100 * ratio * pl_score_error(scores, once, e->n_docs);
    out->share = NAN;
}

/* Fills the rows of all rules for one W. */
static void fill_rules(const evaluation *e, int w, pl_score *scores, every_row *rows)
{
    const double once = e->rows[ROW_LIKELIHOOD].score.nats;
    double gain[EVERY_RULES];
    for (int rule = 0; rule < EVERY_RULES; rule++) {
        rows[rule] = (every_row){.rule = every_rules[rule], .every = e->wish.every[w]};
        collect_scores(e, w, rule, scores, &rows[rule]);
        fill_every_row(e, scores, &rows[rule]);
        gain[rule] = once - pl_score_sum(scores, e->n_docs).nats;
    }
    for (int rule = 0; rule < EVERY_ORACLE; rule++)
        rows[rule].share = gain[rule] / gain[EVERY_ORACLE];
}

/* Fills all rows: first "once", then the rules for each W. */
static void fill_every_rows(const evaluation *e, every_row *rows)
{
    pl_score *scores = pl_alloc(e->n_docs * sizeof *scores);
    rows[0] = (every_row){.rule = "once", .changes = NAN, .read = NAN};
    fill_every_row(e, e->rows[ROW_LIKELIHOOD].scores, &rows[0]);
    for (int w = 0; w < e->wish.n_every; w++)
        fill_rules(e, w, scores, &rows[1 + EVERY_RULES * w]);
    pl_free(scores);
}

pl_json *evaluation_every_json(const evaluation *e)
{
    const int n = count_every_rows(e);
    every_row *rows = pl_alloc((size_t)n * sizeof *rows);
    pl_json *list = pl_json_array();
    fill_every_rows(e, rows);
    for (int i = 0; i < n; i++) {
        pl_json *o = pl_json_object();
        pl_json_set_text(o, "rule", rows[i].rule);
        pl_json_set_int(o, "every", rows[i].every);
        pl_json_set_real(o, "bits_per_byte", rows[i].bits);
        pl_json_set_real(o, "bits_error", rows[i].bits_error);
        pl_json_set_real(o, "ppl", rows[i].ppl);
        pl_json_set_real(o, "percent_below_once", rows[i].below);
        pl_json_set_real(o, "percent_error", rows[i].below_error);
        pl_json_set_real(o, "share_of_oracle", rows[i].share);
        pl_json_set_real(o, "share_changed", rows[i].changes);
        pl_json_set_real(o, "read_per_token", rows[i].read);
        pl_json_push(list, o);
    }
    pl_free(rows);
    return list;
}

/* Writes "12.3 ±0.4", or only "12.3" if there is only one document, so that the error
 * is not known. "±" has two bytes but takes one column, so `width` columns need one
 * byte more. */
static void write_with_error(char out[48], int width, int digits, double value,
                             double error, const char *unit)
{
    char text[48];
    if (isfinite(error))
        snprintf(text, sizeof text, "%.*f ±%.*f%s", digits, value, digits, error, unit);
    else
        snprintf(text, sizeof text, "%.*f%s", digits, value, unit);
    snprintf(out, 48, "%*s", width + (isfinite(error) ? 1 : 0), text);
}

void evaluation_print_every(const evaluation *e)
{
    const int n = count_every_rows(e);
    every_row *rows = pl_alloc((size_t)n * sizeof *rows);
    fill_every_rows(e, rows);
    say("%s", "");
    say("   %-22s %16s %7s %16s %10s %8s %6s", "path chosen", "bits/byte", "ppl",
        "below once", "of oracle", "changes", "read");
    for (int i = 0; i < n; i++) {
        const every_row *row = &rows[i];
        char name[40], bits[48], below[48] = "", share[16] = "", changes[16] = "",
                                 read[16] = "";
        snprintf(name, sizeof name, row->every > 0 ? "%s, every %d" : "%s", row->rule,
                 row->every);
        write_with_error(bits, 16, 4, row->bits, row->bits_error, "");
        if (row->every > 0)
            write_with_error(below, 16, 1, row->below, row->below_error, " %");
        if (isfinite(row->share))
            snprintf(share, sizeof share, "%.0f %%", 100 * row->share);
        if (isfinite(row->changes))
            snprintf(changes, sizeof changes, "%.0f %%", 100 * row->changes);
        if (isfinite(row->read))
            snprintf(read, sizeof read, "%.2f", row->read);
        say("   %-22s %s %7.2f %16s %10s %8s %6s", name, bits, row->ppl, below, share,
            changes, read);
    }
    say("%s",
        "   history: by the paths' losses on the text before; gate: by the losses "
        "of the router's\n"
        "   models on that text; oracle: the best path of each piece, in "
        "hindsight. below once:\n"
        "   by how much ppl is below that of once. of oracle: gain over once, as a "
        "share of\n"
        "   oracle's gain. changes: share of choices that changed the path. read: "
        "tokens that\n"
        "   paths read only for the choice, per scored token");
    pl_free(rows);
}
