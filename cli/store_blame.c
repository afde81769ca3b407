/* pathloom store blame: prints which workers, updates and domains made a version. */
#include "cli/store_call.h"
#include "cli/store_print.h"
#include "view/view.h"

static void print_contributor(bool json, const pl_module_at *at, const pl_blame *b,
                              const pl_contributor *p, int width)
{
    /* The text shows only the first few ranges. */
    enum { SHOWN = 4 };
    size_t n = p->n_ranges > SHOWN + 1 ? SHOWN : p->n_ranges;
    const bool trained = !b->merged;
    row r = row_begin(json);
    r.width = width;
    row_text(&r, "module", at->module, NULL);
    row_count(&r, "version", at->number, NULL);
    row_count(&r, "source", b->source, NULL);
    row_real(&r, NULL, 100 * p->share, "%6.2f %%");
    row_text(&r, "worker", p->worker, "  %-*s");
    row_text(&r, "device", p->device, NULL);
    row_int(&r, "path", p->path, trained ? "  path %-3s" : NULL);
    row_int(&r, "replica", p->replica, trained ? " replica %-2s" : NULL);
    if (json) {
        pl_json *list = pl_json_array();
        for (size_t i = 0; i < p->n_ranges; i++) {
            pl_json *pair = pl_json_array();
            pl_json_push(pair, pl_json_make_int((int64_t)p->samples[i].first));
            pl_json_push(pair, pl_json_make_int((int64_t)p->samples[i].end));
            pl_json_push(list, pair);
        }
        pl_json_set(r.json, "ranges", list);
    }
    row_count(&r, "samples", p->n_samples, trained ? " %7s samples" : NULL);
    row_tokens(&r, "tokens", p->n_tokens, trained ? "  %7s tokens" : NULL);
    row_count(&r, "versions", p->n_versions, trained ? "  %4s versions" : NULL);
    row_seconds(&r, "seconds", p->seconds, trained ? "  %8s" : NULL);
    row_real(&r, "loss", p->loss, trained ? "  loss %8.4f" : NULL);
    row_real(&r, "share", p->share, NULL);
    row_text(&r, NULL, p->device, trained ? "  %s  samples" : NULL);
    for (size_t i = 0; trained && i < n; i++)
        row_say(&r, "%s %llu..%llu", i > 0 ? "," : "",
                (unsigned long long)p->samples[i].first,
                (unsigned long long)p->samples[i].end);
    if (trained && n < p->n_ranges)
        row_say(&r, " and %zu more ranges", p->n_ranges - n);
    if (p->n_domains > 0)
        row_say(&r, "\n          of");
    row_list(&r, "domains");
    for (size_t i = 0; i < p->n_domains; i++) {
        const pl_domain_part *part = &p->domains[i];
        const double share = (double)part->n_tokens / (double)p->n_tokens;
        row item = row_item(&r);
        row_text(&item, "domain", part->domain, NULL);
        row_tokens(&item, "tokens", part->n_tokens, NULL);
        row_finish(&item);
        row_say(&r, "%s %s %.1f %%", i > 0 ? "," : "", part->domain, 100 * share);
    }
    row_finish(&r);
}

pl_status store_blame(store_call *call)
{
    pl_module_at at;
    pl_blame b;
    int width = 0;
    PL_CHECK(pl_names_module(call->store, call->words[0], &at));
    PL_CHECK(pl_blame_gather(call->store, at.module, at.number,
                             call->values[STORE_OPT_HISTORY] != NULL, &b));
    for (size_t i = 0; i < b.n; i++) {
        int len = (int)strlen(b.list[i].worker);
        width = len > width ? len : width;
    }
    if (!call->json) {
        printf("%s@%llu", at.module, (unsigned long long)at.number);
        if (b.source != at.number)
            printf(", which a rollback made from version %llu",
                   (unsigned long long)b.source);
        printf(": %zu %s%s\n", b.n, b.merged ? "versions were merged" : "contributors",
               b.n == 0 ? "; no worker trained it" : "");
    }
    for (size_t i = 0; i < b.n; i++)
        print_contributor(call->json, &at, &b, &b.list[i], width);
    const char *svg = call->values[STORE_OPT_SVG];
    pl_status status = svg ? store_picture_blame(&b, at.module, at.number, svg) : PL_OK;
    pl_blame_clear(&b);
    return status;
}
