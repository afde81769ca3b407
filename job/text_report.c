/* Evaluates a text of the user (pathloom eval --on): encodes it, uses it instead of the
 * run's held-out text, and shows the path and the loss of each document. */
#include "job/evaluate.h"

#include <math.h>

pl_status evaluation_read_text(pl_run *r, const char *path, evaluation_text *out)
{
    pl_tokenizer *tokenizer = NULL;
    pl_status status = PL_OK;
    out->path = path;
    PL_TRY(run_load_tokenizer(r, &tokenizer));
    const pl_reading reading = run_reading(r, false);
    PL_TRY(pl_documents_encode(path, &reading, tokenizer, &out->file, &out->sources));
    PL_TRY(pl_tokens_view(out->file.data, out->file.len, path, &r->valid));
    r->cfg.eval_tokens = 0; /* score all tokens of the text */
done:
    pl_tokenizer_destroy(&tokenizer);
    return status;
}

void evaluation_text_clear(evaluation_text *text)
{
    pl_buf_destroy(&text->file);
    pl_buf_destroy(&text->sources);
}

/* The data of one line about a document. Documents are scored in their order in the
 * text. */
typedef struct document_row {
    uint32_t number, tokens; /* number: counted from 0; tokens: without BOS and EOS */
    const char *domain;
    char path[PL_NAME_MAX];
    double margin, bits, ppl; /* NaN if the likelihood is not known */
    uint64_t n_bytes;
} document_row;

static document_row document_row_of(const pl_run *r, const evaluation *e, size_t i)
{
    const pl_token_doc *doc = pl_tokens_doc(r->valid, e->docs[i]);
    const pl_score *score = &e->rows[e->answer].scores[i];
    document_row row = {.number = e->docs[i],
                        .tokens = doc->n_tokens - 2,
                        .domain = pl_tokens_domain(r->valid, doc->domain),
                        .margin = e->likeliest ? e->likeliest[i].margin_nats : NAN,
                        .bits =
                            pl_bits_per_byte(score, e->n_bytes > 0 ? e->bytes[i] : 0),
                        .ppl = pl_perplexity(score),
                        .n_bytes = e->bytes[i]};
    pl_topology_path_name(r->topology, evaluation_path(e, i), row.path);
    return row;
}

/* Goes forward in the list of file names: `sources` is at the name for document `at`.
 * Returns the place of the name for document `to`. */
static const char *skip_sources(const char *sources, uint32_t at, uint32_t to)
{
    for (; at < to; at++)
        sources += strlen(sources) + 1;
    return sources;
}

pl_json *evaluation_documents_json(const pl_run *r, const evaluation *e)
{
    pl_json *list = pl_json_array();
    const char *source = (const char *)e->wish.text->sources.data;
    uint32_t at = 0;
    for (size_t i = 0; i < e->n_docs; i++) {
        const document_row row = document_row_of(r, e, i);
        pl_json *o = pl_json_object();
        source = skip_sources(source, at, row.number);
        at = row.number;
        pl_json_set_int(o, "document", (int64_t)row.number + 1);
        pl_json_set_text(o, "source", source);
        pl_json_set_text(o, "domain", row.domain);
        pl_json_set_int(o, "tokens", row.tokens);
        pl_json_set_int(o, "scored_bytes", (int64_t)row.n_bytes);
        pl_json_set_text(o, "path", row.path);
        pl_json_set_real(o, "margin_nats", row.margin);
        pl_json_set_real(o, "bits_per_byte", row.bits);
        pl_json_set_real(o, "ppl", row.ppl);
        pl_json_push(list, o);
    }
    return list;
}

void evaluation_print_documents(const pl_run *r, const evaluation *e)
{
    enum { WIDE = 28 };
    const size_t too_short = pl_tokens_n_docs(r->valid) - e->n_docs;
    const char *source = (const char *)e->wish.text->sources.data;
    pl_buf name = {0};
    uint32_t at = 0;
    say("%8s  %-28s %7s %-6s %6s %9s %8s", "document", "", "tokens", "path", "margin",
        "bits/byte", "ppl");
    for (size_t i = 0; i < e->n_docs; i++) {
        const document_row row = document_row_of(r, e, i);
        char margin[24] = "-", bits[24] = "-";
        source = skip_sources(source, at, row.number);
        at = row.number;
        /* the domain, or the file if there are no domains; the end of a long name */
        const char *shown = strcmp(row.domain, "unknown") == 0 ? source : row.domain;
        const size_t len = strlen(shown), cut = len > WIDE ? len - WIDE : 0;
        pl_buf_clear(&name);
        pl_buf_printable(&name, shown + cut, len - cut, false);
        if (isfinite(row.margin))
            snprintf(margin, sizeof margin, "%.1f", row.margin);
        if (isfinite(row.bits))
            snprintf(bits, sizeof bits, "%.4f", row.bits);
        say("%8u  %-28s %7u %-6s %6s %9s %8.2f", row.number + 1, pl_buf_text(&name),
            row.tokens, row.path, margin, bits, row.ppl);
    }
    pl_buf_destroy(&name);
    say("(margin: by how many nats the second likeliest path is worse on the first "
        "%lld tokens,\nwhich choose the path and are not scored%s)",
        (long long)r->cfg.prefix, too_short > 0 ? ";" : "");
    if (too_short > 0)
        say("%zu documents have no tokens after these and are left out", too_short);
}
