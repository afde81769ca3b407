/* Prints how much it helps to choose the path again every W tokens, by a table of four
 * rules. once: one choice per document. history: every W tokens, by the paths' losses
 * on the preceding text. gate: every W tokens, by the losses of the router's models on
 * the preceding text. oracle: every W tokens, in hindsight. */
#include "job/evaluate.h"

#include <math.h>

static pl_every_row *rows_of(const evaluation *e, int *n)
{
    const pl_every_results results = {.choices = e->every,
                                      .every = e->wish.every,
                                      .n_every = e->wish.n_every,
                                      .once = e->rows[ROW_LIKELIHOOD].scores,
                                      .n = e->n_docs,
                                      .n_targets = e->n_targets,
                                      .n_bytes = e->n_bytes,
                                      .n_open = e->n_open};
    *n = pl_every_n_rows(&results);
    return pl_every_rows(&results);
}

pl_json *evaluation_every_json(const evaluation *e)
{
    int n;
    pl_every_row *rows = rows_of(e, &n);
    pl_json *list = pl_json_array();
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

void evaluation_print_every(const evaluation *e)
{
    int n;
    pl_every_row *rows = rows_of(e, &n);
    say("%s", "");
    say("   %-22s %16s %7s %16s %10s %8s %6s", "path chosen", "bits/byte", "ppl",
        "below once", "of oracle", "changes", "read");
    for (int i = 0; i < n; i++) {
        const pl_every_row *row = &rows[i];
        char name[40], bits[48], below[48] = "", share[16] = "", changes[16] = "",
                                 read[16] = "";
        snprintf(name, sizeof name, row->every > 0 ? "%s, every %d" : "%s", row->rule,
                 row->every);
        evaluation_write_error(bits, 16, 4, row->bits, row->bits_error, "");
        if (row->every > 0)
            evaluation_write_error(below, 16, 1, row->below, row->below_error, " %");
        if (isfinite(row->share))
            snprintf(share, sizeof share, "%.0f %%", 100 * row->share);
        if (isfinite(row->changes))
            snprintf(changes, sizeof changes, "%.0f %%", 100 * row->changes);
        if (isfinite(row->read))
            snprintf(read, sizeof read, "%.2f", row->read);
        say("   %-22s %s %7.2f %16s %10s %8s %6s", name, bits, row->ppl, below, share,
            changes, read);
    }
    say("   history: by the paths' losses on the text before; gate: by the losses\n"
        "   of the router's models on that text; oracle: the best path of each\n"
        "   piece, in hindsight. below once: by how much ppl is below that of once.\n"
        "   of oracle: gain over once, as a share of oracle's gain. changes: share\n"
        "   of choices that changed the path. read: tokens that paths read only for\n"
        "   the choice, per scored token");
    pl_free(rows);
}
