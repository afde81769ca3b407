/* Prints the evaluation as a table, writes it as JSON, and prints samples of text. */
#include "job/evaluate.h"

#include <math.h>

/* ---- JSON ---- */
static void set_ppl(pl_json *o, const char *key, const evaluation_row *w)
{
    pl_json_set_real(o, key, w->present ? w->ppl : NAN); /* NaN becomes null */
}

/* Sets by how many percent the perplexity of the row * is below that of a row, and the
 * standard error. */
static void set_gain(pl_json *o, const char *percent, const char *error, pl_gain gain)
{
    pl_json_set_real(o, percent, gain.percent);
    pl_json_set_real(o, error, gain.error);
}

static pl_json *result_row_json(const pl_run *r, const evaluation *e,
                                const evaluation_row *w)
{
    pl_json *o = pl_json_object(), *domains = pl_json_object();
    pl_json_set_text(o, "arm", w->arm);
    pl_json_set_text(o, "row", w->name);
    pl_json_set_text(o, "title", w->title);
    pl_json_set_real(o, "bits_per_byte", w->bits);
    pl_json_set_real(o, "bits_error",
                     pl_score_error(w->scores, NULL, e->n_docs) / log(2) *
                         (double)e->n_targets / (double)e->n_bytes);
    pl_json_set_real(o, "ppl", w->ppl);
    pl_json_set_bool(o, "finished", w->finished);
    pl_json_set_int(o, "tokens_per_path", (int64_t)w->effort.tokens_per_path);
    pl_json_set_int(o, "tokens_total", (int64_t)w->effort.tokens_total);
    pl_json_set_real(o, "train_flops", w->effort.flops);
    pl_json_set_real(o, "train_seconds", w->effort.seconds);
    pl_json_set_real(o, "ppl_first_windows", w->ppl_first);
    pl_json_set_real(o, "ppl_macro", w->ppl_macro);
    pl_json_set_real(o, "read_flops", w->flops_read);
    pl_json_set_int(o, "params_total", (int64_t)w->n_params);
    if (e->rows[e->answer].present) {
        const pl_score *own = e->rows[e->answer].scores;
        set_gain(o, "answer_percent_below", "answer_percent_error",
                 pl_score_gain(own, w->scores, e->n_docs));
        set_gain(o, "first_percent_below", "first_percent_error",
                 pl_first_gain(own, w->scores, e->n_docs));
        set_gain(o, "macro_percent_below", "macro_percent_error",
                 pl_macro_gain(r->valid, e->docs, own, w->scores, e->n_docs));
    }
    for (uint32_t d = 0; d < pl_tokens_n_domains(r->valid); d++)
        pl_json_set_real(domains, pl_tokens_domain(r->valid, d),
                         pl_perplexity(&w->by_domain[d]));
    pl_json_set(o, "ppl_by_domain", domains);
    return o;
}

/* Lists how many documents each path gets from the router, or by likelihood. The list
 * is empty if the numbers are not known. */
static pl_json *counts_json(const pl_run *r, const evaluation *e, bool by_likelihood)
{
    const int n_paths =
        by_likelihood && !e->likeliest ? 0 : pl_topology_n_paths(r->topology);
    int64_t *counts = pl_alloc(((size_t)n_paths + 1) * sizeof *counts);
    pl_json *list = pl_json_array();
    for (size_t i = 0; n_paths > 0 && i < e->n_docs; i++)
        counts[by_likelihood ? e->likeliest[i].path : e->path_of[i]]++;
    for (int p = 0; p < n_paths; p++)
        pl_json_push(list, pl_json_make_int(counts[p]));
    pl_free(counts);
    return list;
}

static pl_json *memory_json(const run_memory *m)
{
    pl_json *o = pl_json_object();
    pl_json_set_int(o, "worker", (int64_t)m->worker);
    pl_json_set_int(o, "home", (int64_t)m->home);
    pl_json_set_int(o, "hub", (int64_t)m->hub);
    pl_json_set_int(o, "launcher", (int64_t)m->launcher);
    return o;
}

static void set_text_or_null(pl_json *o, const char *key, const char *text)
{
    if (text)
        pl_json_set_text(o, key, text);
    else
        pl_json_set_real(o, key, NAN); /* null */
}

pl_json *evaluation_json(const pl_run *r, const evaluation *e)
{
    pl_json *o = pl_json_object(), *arms = pl_json_array();
    const evaluation_row *mix = &e->rows[ROW_ROUTER];
    char hex[PL_HASH_TEXT];
    set_ppl(o, "ppl_routed", &e->rows[ROW_ROUTER]);
    set_ppl(o, "ppl_likelihood", &e->rows[ROW_LIKELIHOOD]);
    set_ppl(o, "ppl_rerouted", &e->rows[ROW_REROUTED]);
    pl_json_set_real(o, "ppl_best_path", pl_perplexity(&e->best));
    pl_json_set_real(o, "ppl_best_path_per_window", pl_perplexity(&e->best_pieces));
    set_ppl(o, "ppl_dense", &e->rows[ROW_DENSE]);
    set_ppl(o, "ppl_diloco", &e->rows[ROW_DILOCO]);
    set_ppl(o, "ppl_dense_batch", &e->rows[ROW_BATCH]);
    set_ppl(o, "ppl_dense_equal_tokens", &e->rows[ROW_EQUAL]);
    set_ppl(o, "ppl_base", &e->rows[ROW_BASE]);
    pl_json_set_text(o, "select", e->wish.best ? "best" : "head");
    set_text_or_null(o, "at", e->wish.mixture.at);
    set_text_or_null(o, "without", e->wish.mixture.without);
    pl_json_set_text(o, "answers_by",
                     e->answer == ROW_LIKELIHOOD ? "likelihood" : "router");
    pl_json_set_int(o, "tokens_per_path", (int64_t)mix->effort.tokens_per_path);
    pl_json_set_int(o, "tokens_total", (int64_t)mix->effort.tokens_total);
    pl_json_set_real(o, "router_purity", e->purity);
    pl_json_set_real(o, "router_nmi", e->nmi);
    pl_json_set_real(o, "router_purity_k8", e->purity_k8);
    pl_json_set_text(o, "topology", r->cfg.levels);
    pl_json_set_int(o, "paths", pl_topology_n_paths(r->topology));
    pl_json_set_int(o, "params_per_path",
                    (int64_t)pl_topology_path_params(r->topology));
    pl_json_set_int(o, "params_total", (int64_t)pl_topology_total_params(r->topology));
    pl_json_set_int(o, "prefix", r->cfg.prefix);
    pl_json_set_int(o, "eval_documents", (int64_t)e->n_docs);
    pl_json_set_int(o, "eval_tokens", (int64_t)e->n_targets);
    pl_json_set_int(o, "eval_bytes", (int64_t)e->n_bytes);
    pl_json_set(o, "documents_by_router", counts_json(r, e, false));
    pl_json_set(o, "documents_by_likelihood", counts_json(r, e, true));
    pl_json_set_real(o, "tokens_per_second", e->rate);
    pl_json_set_int(o, "seed", r->cfg.seed);
    pl_hash_format(&r->hash, hex);
    pl_json_set_text(o, "config", hex);
    for (int i = 0; i < ROW_COUNT; i++)
        if (e->rows[i].present)
            pl_json_push(arms, result_row_json(r, e, &e->rows[i]));
    pl_json_set(o, "arms", arms);
    if (e->every)
        pl_json_set(o, "every", evaluation_every_json(e));
    if (e->wish.text) {
        pl_json_set_text(o, "on", e->wish.text->path);
        pl_json_set(o, "documents", evaluation_documents_json(r, e));
        pl_json_set_int(o, "documents_too_short",
                        (int64_t)(pl_tokens_n_docs(r->valid) - e->n_docs));
    }
    if (r->peak.launcher > 0) {
        pl_json_set(o, "memory_planned", memory_json(&r->planned));
        pl_json_set(o, "memory_peak", memory_json(&r->peak));
    }
    return o;
}

pl_status run_drop_report(const char *store)
{
    char run[PL_PATH_MAX], path[PL_PATH_MAX];
    pl_path_above(run, store);
    if (!pl_path_exists(pl_join(path, run, "run.yaml")) ||
        !pl_path_exists(pl_join(path, run, "report.json")))
        return PL_OK;
    PL_CHECK(pl_remove_tree(path));
    return pl_sync_folder(run);
}

/* ---- the table ---- */
void evaluation_write_error(char out[48], int width, int digits, double value,
                            double error, const char *unit)
{
    char text[48];
    if (!isfinite(value))
        snprintf(text, sizeof text, "-");
    else if (isfinite(error))
        snprintf(text, sizeof text, "%.*f ±%.*f%s", digits, value, digits, error, unit);
    else
        snprintf(text, sizeof text, "%.*f%s", digits, value, unit);
    snprintf(out, 48, "%*s", width + (strstr(text, "±") ? 1 : 0), text);
}

/* Whether a row is a baseline that can be compared: it and the mixture are finished. */
static bool is_rival(const evaluation *e, const evaluation_row *w)
{
    const evaluation_row *mix = &e->rows[e->answer];
    return w->present && w->finished && mix->present && mix->finished &&
           strcmp(w->arm, "mix") != 0;
}

/* Writes a gain over a finished rival as "5.3 ±1.2", in `width` columns. */
static void write_gain(char out[48], int width, const evaluation *e, int kind,
                       pl_gain g)
{
    snprintf(out, 48, "%*s", width, "");
    if (is_rival(e, &e->rows[kind]) && isfinite(g.percent))
        evaluation_write_error(out, width, 1, g.percent, g.error, "");
}

/* Says below which difference a baseline cannot be told apart from the mixture. */
static void print_least_difference(const evaluation *e)
{
    double least = 0;
    bool one = false;
    for (int i = ROW_DENSE; i < ROW_BASE; i++) {
        const evaluation_row *w = &e->rows[i];
        if (!is_rival(e, w))
            continue;
        const pl_gain g =
            pl_score_gain(e->rows[e->answer].scores, w->scores, e->n_docs);
        one |= e->n_docs < 2;
        if (fabs(g.percent) <= 2 * g.error)
            least = fmax(least, 2 * g.error);
    }
    if (one)
        say("   one held-out document is too few to compare the mixture with the other "
            "rows");
    else if (least > 0)
        say("   with %zu held-out documents, a difference below %.1f %% may be chance",
            e->n_docs, least);
}

void evaluation_print_details(const pl_run *r, const evaluation *e)
{
    const evaluation_row *mix = &e->rows[e->answer];
    const int n_paths = pl_topology_n_paths(r->topology);
    /* how many held-out documents each path answers, as in "p00 12, p01 30" */
    if (n_paths >= 2 && n_paths <= 32 && e->rows[ROW_ROUTER].present) {
        pl_buf line = {0};
        pl_buf_printf(&line, "   documents per path (*):");
        for (int p = 0; p < n_paths; p++) {
            char name[PL_NAME_MAX];
            int n = 0;
            for (size_t i = 0; i < e->n_docs; i++)
                n += evaluation_path(e, i) == p;
            pl_topology_path_name(r->topology, p, name);
            pl_buf_printf(&line, "%s %s %d", p > 0 ? "," : "", name, n);
        }
        say("%s", pl_buf_text(&line));
        pl_buf_destroy(&line);
    }
    if (e->rows[ROW_LIKELIHOOD].present && e->n_bytes > 0)
        say("   in hindsight: the best path of each document has %.4f bits/byte, the "
            "best of each\n   %lld tokens %.4f; their perplexity is %.1f %% and %.1f "
            "%% below that of row *",
            pl_bits_per_byte(&e->best, e->n_bytes), (long long)r->cfg.prefix,
            pl_bits_per_byte(&e->best_pieces, e->n_bytes),
            100 * (1 - pl_perplexity(&e->best) / mix->ppl),
            100 * (1 - pl_perplexity(&e->best_pieces) / mix->ppl));
    if (e->every)
        evaluation_print_every(e);
    /* Prints the rows again: where no path was chosen by text that the window does not
     * show, as a mean over domains, and what reading costs. */
    const pl_score *own = e->rows[e->answer].scores;
    say("%s", "");
    say("   %-25s %7s %11s %7s %11s %7s %9s", "the same rows", "first", "* lower by",
        "domains", "* lower by", "params", "read");
    for (int i = 0; i < ROW_COUNT && own; i++) {
        const evaluation_row *w = &e->rows[i];
        char first[48], macro[48], params[16];
        if (!w->present)
            continue;
        write_gain(first, 11, e, i, pl_first_gain(own, w->scores, e->n_docs));
        write_gain(macro, 11, e, i,
                   pl_macro_gain(r->valid, e->docs, own, w->scores, e->n_docs));
        say("%s %-25s %7.2f %s %7.2f %s %7s %9.2e", i == (int)e->answer ? " *" : "  ",
            w->title, w->ppl_first, first, w->ppl_macro, macro,
            pl_human_count((double)w->n_params, params), w->flops_read);
    }
    say("   (first: perplexity on the first %lld tokens of each document alone, where "
        "the choice of a\n"
        "   path knows no text that the window does not show; domains: each domain "
        "counts equally;\n"
        "   * lower by: percent; params: of all modules; read: FLOPs per token of this "
        "text)",
        (long long)r->cfg.context);
    /* a table with one column per row of the evaluation and one line per domain */
    const uint32_t n_domains = pl_tokens_n_domains(r->valid);
    if (n_domains < 2 || !e->rows[ROW_ROUTER].present)
        return;
    pl_buf line = {0};
    pl_buf_printf(&line, "\n   %-20s", "perplexity by domain");
    for (int i = 0; i < ROW_COUNT; i++)
        if (e->rows[i].present)
            pl_buf_printf(&line, " %8s", e->rows[i].brief);
    say("%s", pl_buf_text(&line));
    for (uint32_t d = 0; d < n_domains; d++) {
        if (!isfinite(pl_perplexity(&e->rows[ROW_ROUTER].by_domain[d])))
            continue;
        pl_buf_clear(&line);
        pl_buf_printf(&line, "   %-20s", pl_tokens_domain(r->valid, d));
        for (int i = 0; i < ROW_COUNT; i++)
            if (e->rows[i].present)
                pl_buf_printf(&line, " %8.2f", pl_perplexity(&e->rows[i].by_domain[d]));
        say("%s", pl_buf_text(&line));
    }
    pl_buf_destroy(&line);
}

void evaluation_print(const pl_run *r, const evaluation *e)
{
    if (e->wish.text)
        evaluation_print_documents(r, e);
    say("%s", "");
    say("   %-22s %9s %7s %19s %7s %8s %7s",
        e->wish.text ? "all documents" : "held-out text", "bits/byte", "ppl",
        "mixture * is", "tokens", "FLOPs", "time");
    for (int i = 0; i < ROW_COUNT; i++) {
        const evaluation_row *w = &e->rows[i];
        char total[16], seconds[16] = "-", bits[16] = "-", versus[48];
        snprintf(versus, sizeof versus, "%19s", w->finished ? "" : "not finished");
        if (!w->present)
            continue;
        if (is_rival(e, w)) {
            const pl_gain g =
                pl_score_gain(e->rows[e->answer].scores, w->scores, e->n_docs);
            evaluation_write_error(versus, 19, 1, fabs(g.percent), g.error,
                                   g.percent >= 0 ? " % better" : " % worse");
        }
        if (isfinite(w->effort.seconds))
            pl_human_seconds(w->effort.seconds, seconds);
        if (isfinite(w->bits))
            snprintf(bits, sizeof bits, "%.4f", w->bits);
        say("%s %-25s %6s %7.2f %s %7s %8.2e %7s", i == (int)e->answer ? " *" : "  ",
            w->title, bits, w->ppl, versus,
            pl_human_count((double)w->effort.tokens_total, total), w->effort.flops,
            seconds);
    }
    char count[16], seconds[16], rate[16];
    say("   (%zu documents, %s tokens after the first %lld of each, scored in %s. "
        "± is one\n"
        "   standard error; time is for one machine per path at %s tokens/s. *: as "
        "generate and\n"
        "   serve answer a prompt of %lld tokens. A token is scored after at least "
        "%lld "
        "others)",
        e->n_docs, pl_human_count((double)e->n_targets, count),
        (long long)r->cfg.prefix, pl_human_seconds(e->seconds, seconds),
        pl_human_count(e->rate, rate), (long long)r->cfg.prefix,
        (long long)r->cfg.context / 2);
    if (e->n_bytes == 0)
        say("   bits/byte is not known: the tokenizer does not know all of the text");
    if (e->wish.mixture.at)
        say("   (the mixture answers with the versions of tag %s)", e->wish.mixture.at);
    if (e->wish.mixture.without)
        say("   (paths that use %s do not answer)", e->wish.mixture.without);
    if (e->wish.best)
        say("   (the mixture answers with the best version of each path on its "
            "held-out documents)");
    /* Compares the mixture's time with the time in which one machine trains on all its
     * tokens. The base model counts in both times; its replicas are on one machine each
     * in the mixture's time, and one after the other in the time of one machine. */
    const evaluation_row *mix = &e->rows[e->answer], *all = &e->rows[ROW_EQUAL];
    if (mix->present && all->present && mix->finished && all->finished && e->rate > 0) {
        const double one = (double)all->effort.tokens_total / e->rate;
        char mine[16], its[16];
        if (mix->ppl <= all->ppl)
            say("   one machine per path needs %.2f of the time of one machine (%s of "
                "%s) for the\n   bits/byte of one machine with all tokens, or better",
                mix->effort.seconds / one, pl_human_seconds(mix->effort.seconds, mine),
                pl_human_seconds(one, its));
        else
            say("   one machine per path does not reach the bits/byte of one machine "
                "with all tokens");
    }
    print_least_difference(e);
    evaluation_print_loss(r, e);
    if (r->cfg.more[0])
        say("   the mixture was trained %lld phases longer than the baselines "
            "(train.more), so\n   they are not compared at equal tokens",
            (long long)(config_all_phases(&r->cfg) - r->cfg.phases));
    /* If re-routing gains much, tells the user how answers are routed again. */
    static const double MUCH = 0.9;
    const evaluation_row *again = &e->rows[ROW_REROUTED];
    if (again->present && !(again->ppl > MUCH * mix->ppl))
        say("   re-routed every %lld tokens, perplexity is %.1f %% below that of row "
            "*:\n   `pathloom generate --route-every %lld`, or `route_every` in a "
            "request to `serve`",
            (long long)r->cfg.prefix, 100 * (1 - again->ppl / mix->ppl),
            (long long)r->cfg.prefix);
}

/* ---- samples ---- */
static pl_status append_piece(void *context, const char *text, size_t len)
{
    pl_buf_append(context, text, len);
    return PL_OK;
}

/* Each prompt is the beginning of a held-out document of the path, or only BOS if the
 * path has no document. */
pl_status evaluation_samples(pl_run *r, pl_store *store, const evaluation *e)
{
    enum { PROMPT = 24, PATHS = 8 };
    pl_tokenizer *tokenizer = NULL;
    pl_backend *be = NULL;
    pl_arm arm = {.n_shards = 0};
    pl_topology *t = NULL;
    pl_model *model = NULL;
    pl_decoder *decoder = NULL;
    float *params = NULL;
    char chapter[PL_ARM_NAME_MAX], name[PL_NAME_MAX];
    pl_buf text = {0}, line = {0};
    pl_status status = PL_OK;
    if (r->cfg.sample_tokens == 0)
        return PL_OK;
    const pl_backend_options backend = run_own_backend(r);
    const pl_model_options of_model = {.batch = 1, .context = (int)r->cfg.context};
    PL_TRY(run_load_tokenizer(r, &tokenizer));
    pl_newest_chapter(store, chapter);
    PL_TRY(pl_read_arm(store, chapter, &arm, &t));
    PL_TRY(pl_backend_open(&backend, &be));
    PL_TRY(pl_model_create(be, t, &of_model, &model));
    PL_TRY(pl_decoder_create(model, 1, &decoder));
    PL_TRY(pl_try_alloc(pl_topology_path_params(t) * sizeof *params,
                        "a path's parameters", (void **)&params));
    say("samples  how each path continues a held-out text of its own (text [...] "
        "generated)");
    for (int path = 0; path < pl_topology_n_paths(t) && path < PATHS; path++) {
        int32_t prompt[PROMPT] = {PL_TOKEN_BOS};
        const char *label = "no held-out document, so no prompt";
        pl_generate_result result;
        int n = 1;
        size_t at = 0;
        while (at < e->n_docs && evaluation_path(e, at) != path)
            at++;
        if (at < e->n_docs) {
            const pl_token_doc *d = pl_tokens_doc(r->valid, e->docs[at]);
            int half = (int)r->cfg.context / 2, most = half < PROMPT ? half : PROMPT;
            n = d->n_tokens - 1 < (uint32_t)most ? (int)d->n_tokens - 1 : most;
            pl_tokens_copy(r->valid, d->first, (size_t)n, prompt);
            label = pl_tokens_domain(r->valid, d->domain);
        }
        PL_TRY(pl_read_path(store, &arm, t, path, (pl_which){.at = NULL}, params));
        PL_TRY(pl_model_load(model, params));
        pl_buf_clear(&text);
        pl_buf_clear(&line);
        PL_TRY(pl_tokenizer_decode(tokenizer, prompt, (size_t)n, &text));
        pl_buf_printf(&text, " [...] ");
        pl_generator g = {decoder, tokenizer, (int)r->cfg.vocab, (int)r->cfg.context};
        pl_generate_options options = {.max_tokens = (int)r->cfg.sample_tokens,
                                       .choice = pl_choice_defaults()};
        options.choice.seed = (uint64_t)r->cfg.seed;
        PL_TRY(pl_generate(&g, prompt, n, &options, append_piece, &text, &result));
        pl_topology_path_name(t, path, name);
        /* one line, with line ends and tabs as \n and \t */
        for (size_t i = 0; i < text.len; i++) {
            const char c = (char)text.data[i];
            if (c == '\n')
                pl_buf_printf(&line, "\\n");
            else if (c == '\t')
                pl_buf_printf(&line, "\\t");
            else if ((unsigned char)c >= 32)
                pl_buf_append(&line, &c, 1);
        }
        say("  %s %s: %s", name, label, pl_buf_text(&line));
    }
done:
    pl_buf_destroy(&line);
    pl_buf_destroy(&text);
    pl_free(params);
    pl_decoder_destroy(&decoder);
    pl_model_destroy(&model);
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    pl_backend_close(&be);
    pl_tokenizer_destroy(&tokenizer);
    return status;
}
