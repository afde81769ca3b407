/* pathloom store blame: prints which workers, updates and domains made a version. */
#include "cli/store_print.h"

/* Prints the documents of a contributor. `tokenizer` may be NULL. */
static pl_status print_documents(row *r, const pl_contributor *p,
                                 const pl_tokenizer *tokenizer)
{
    enum { SHOWN_BYTES = 48 };
    pl_buf text = {0}, shown = {0};
    pl_status status = PL_OK;
    row_list(r, "documents");
    for (size_t i = 0; i < p->parts.n_documents; i++) {
        const pl_text_part *part = &p->parts.documents[i];
        char hash[24];
        row item = row_item(r);
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)part->hash);
        pl_buf_clear(&text);
        pl_buf_clear(&shown);
        if (tokenizer)
            PL_TRY(pl_tokenizer_decode(tokenizer, part->head, part->n_head, &text));
        size_t n = text.len < SHOWN_BYTES ? text.len : SHOWN_BYTES;
        while (n > 0 && n < text.len && (text.data[n] & 0xc0) == 0x80)
            n--; /* not inside a character */
        pl_buf_printable(&shown, pl_buf_text(&text), n, false);
        row_text(&item, "document", hash, "          document %s");
        row_tokens(&item, "tokens", part->n_tokens, " %7s tokens");
        row_text(&item, "domain", part->domain, "  %s");
        row_text(&item, "begins", pl_buf_text(&shown), "  %s");
        row_finish(&item);
    }
done:
    pl_buf_destroy(&text);
    pl_buf_destroy(&shown);
    return status;
}

static void print_contributor(row *r, store_call *call, const pl_module_at *at,
                              const pl_blame *b, const pl_contributor *p)
{
    /* The text shows only the first few ranges. */
    enum { SHOWN = 4 };
    size_t n = p->samples.n > SHOWN + 1 ? SHOWN : p->samples.n;
    const bool trained = !b->merged;
    row_text(r, "module", at->module, NULL);
    row_count(r, "version", at->number, NULL);
    row_count(r, "source", b->source, NULL);
    row_real(r, NULL, 100 * p->share, "%6.2f %%");
    row_text(r, "worker", p->worker, "  %-*s");
    row_text(r, "device", p->device, NULL);
    print_task(r, call, at->module, p->path, p->replica, trained);
    if (call->json) {
        pl_json *list = pl_json_array();
        for (size_t i = 0; i < p->samples.n; i++) {
            pl_json_push(list,
                         pl_json_list(pl_json_make_int((int64_t)p->samples.at[i].first),
                                      pl_json_make_int((int64_t)p->samples.at[i].end)));
        }
        pl_json_set(r->json, "ranges", list);
    }
    row_count(r, "samples", p->n_samples, trained ? " %7s samples" : NULL);
    row_tokens(r, "tokens", p->n_tokens, trained ? "  %7s tokens" : NULL);
    row_count(r, "versions", p->n_versions, trained ? "  %4s versions" : NULL);
    row_seconds(r, "seconds", p->seconds, trained ? "  %8s" : NULL);
    row_real(r, "loss", p->loss, trained ? "  loss %8.4f" : NULL);
    row_real(r, "share", p->share, NULL);
    row_text(r, NULL, p->device, trained ? "  %s  samples" : NULL);
    for (size_t i = 0; trained && i < n; i++)
        row_say(r, "%s %llu..%llu", i > 0 ? "," : "",
                (unsigned long long)p->samples.at[i].first,
                (unsigned long long)p->samples.at[i].end);
    if (trained && n < p->samples.n)
        row_say(r, " and %zu more ranges", p->samples.n - n);
    if (p->parts.n_domains > 0)
        row_say(r, "\n          of");
    row_list(r, "domains");
    for (size_t i = 0; i < p->parts.n_domains; i++) {
        const pl_text_part *part = &p->parts.domains[i];
        const double share = (double)part->n_tokens / (double)p->n_tokens;
        row item = row_item(r);
        row_text(&item, "domain", part->domain, NULL);
        row_tokens(&item, "tokens", part->n_tokens, NULL);
        row_finish(&item);
        row_say(r, "%s %s %.1f %%", i > 0 ? "," : "", part->domain, 100 * share);
    }
}

pl_status store_blame(store_call *call)
{
    pl_module_at at;
    pl_blame b = {0};
    pl_run run = {.lock = -1};
    pl_tokenizer *tokenizer = NULL; /* stays NULL if there is only a store */
    const bool documents = call->values[STORE_OPT_DOCUMENTS] != NULL;
    int width = 0;
    pl_status status = PL_OK;
    PL_CHECK(pl_names_module(call->store, call->words[0], &at));
    PL_TRY(pl_blame_gather(call->store, at.module, at.number,
                           call->values[STORE_OPT_HISTORY] != NULL, &b));
    PL_TRY(pl_blame_find_text(call->store, at.module, documents, &b));
    if (documents && !call->values[STORE_OPT_STORE]) {
        PL_TRY(run_look(call->values[STORE_OPT_RUN], &run));
        PL_TRY(run_load_tokenizer(&run, &tokenizer));
    }
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
    for (size_t i = 0; i < b.n; i++) {
        row r = row_begin(call->json);
        r.width = width;
        print_contributor(&r, call, &at, &b, &b.list[i]);
        if (documents) {
            row_break(&r);
            status = print_documents(&r, &b.list[i], tokenizer);
        }
        row_finish(&r);
        PL_TRY(status);
    }
done:
    run_close(&run);
    pl_tokenizer_destroy(&tokenizer);
    pl_blame_clear(&b);
    return status;
}
