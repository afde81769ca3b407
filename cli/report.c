/* The evaluation as a table, as JSON, and samples of text. */
#include "cli/evaluate.h"
#include "serve/serve.h"

#include <math.h>

static void set_ppl(pl_json *o, const char *key, const column *c)
{
    pl_json_set_real(o, key, c->present ? c->ppl : NAN); /* NaN becomes null */
}

static pl_json *column_json(const run *r, const column *c)
{
    pl_json *o = pl_json_object(), *domains = pl_json_object();
    pl_json_set_text(o, "arm", c->arm);
    pl_json_set_real(o, "ppl", c->ppl);
    pl_json_set_bool(o, "finished", c->finished);
    pl_json_set_int(o, "tokens_per_path", (int64_t)c->tokens_per_path);
    pl_json_set_int(o, "tokens_total", (int64_t)c->tokens_total);
    pl_json_set_real(o, "train_flops", c->flops);
    for (uint32_t d = 0; d < pl_tokens_n_domains(r->valid); d++)
        pl_json_set_real(domains, pl_tokens_domain(r->valid, d),
                         pl_perplexity(&c->by_domain[d]));
    pl_json_set(o, "ppl_by_domain", domains);
    return o;
}

void evaluation_json(const run *r, const evaluation *e, int indent, pl_buf *out)
{
    pl_json *o = pl_json_object(), *arms = pl_json_array();
    char hex[PL_HASH_TEXT];
    set_ppl(o, "ppl_routed", &e->columns[0]);
    set_ppl(o, "ppl_dense", &e->columns[1]);
    set_ppl(o, "ppl_diloco", &e->columns[2]);
    set_ppl(o, "ppl_dense_equal_tokens", &e->columns[3]);
    set_ppl(o, "ppl_base", &e->columns[4]);
    pl_json_set_int(o, "tokens_per_path", (int64_t)e->columns[0].tokens_per_path);
    pl_json_set_int(o, "tokens_total", (int64_t)e->columns[0].tokens_total);
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
    pl_json_set_int(o, "seed", r->cfg.seed);
    pl_hash_format(&r->hash, hex);
    pl_json_set_text(o, "config", hex);
    for (int i = 0; i < COLUMNS; i++)
        if (e->columns[i].present)
            pl_json_push(arms, column_json(r, &e->columns[i]));
    pl_json_set(o, "arms", arms);
    pl_json_write(o, indent, out);
    pl_json_destroy(&o);
}

pl_status evaluation_save(const run *r, const evaluation *e)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    evaluation_json(r, e, 2, &text);
    pl_buf_printf(&text, "\n");
    pl_status status =
        pl_replace_file(run_file(r, "report.json", path), text.data, text.len);
    pl_buf_destroy(&text);
    return status;
}

static void print_column(const column *c, double routed)
{
    char per_path[16], total[16], versus[16] = "";
    if (!c->present)
        return;
    if (strcmp(c->arm, "mix") != 0)
        snprintf(versus, sizeof versus, "%+.1f %%", 100 * (routed / c->ppl - 1));
    say("  %-27s %8.2f %9s %11s %8s %8.2e%s", c->title, c->ppl, versus,
        pl_human_count((double)c->tokens_per_path, per_path),
        pl_human_count((double)c->tokens_total, total), c->flops,
        c->finished ? "" : "  (not finished)");
}

static const char *const short_titles[COLUMNS] = {"mixture", "dense", "DiLoCo",
                                                  "dense-eq", "base"};

/* Columns of the arms that the run has, rows of the domains that were scored. */
static void print_domains(const run *r, const evaluation *e)
{
    uint32_t n = pl_tokens_n_domains(r->valid);
    pl_buf line = {0};
    if (n < 2 || !e->columns[0].present)
        return;
    pl_buf_printf(&line, "\n  %-27s", "perplexity by domain");
    for (int i = 0; i < COLUMNS; i++)
        if (e->columns[i].present)
            pl_buf_printf(&line, " %8s", short_titles[i]);
    say("%s", pl_buf_text(&line));
    for (uint32_t d = 0; d < n; d++) {
        if (!isfinite(pl_perplexity(&e->columns[0].by_domain[d])))
            continue;
        pl_buf_clear(&line);
        pl_buf_printf(&line, "  %-27s", pl_tokens_domain(r->valid, d));
        for (int i = 0; i < COLUMNS; i++)
            if (e->columns[i].present)
                pl_buf_printf(&line, " %8.2f",
                              pl_perplexity(&e->columns[i].by_domain[d]));
        say("%s", pl_buf_text(&line));
    }
    pl_buf_destroy(&line);
}

/* Says what the numbers say, also when the mixture loses. */
static void print_verdict(const evaluation *e)
{
    const column *mix = &e->columns[0];
    const char *gap = "\n";
    for (int i = 1; i < 4; i++) {
        const column *c = &e->columns[i];
        if (!c->present || !mix->present)
            continue;
        double gain = 100 * (1 - mix->ppl / c->ppl);
        say("%s  the routed path is %.1f %% %s than %s", gap, fabs(gain),
            gain >= 0 ? "better" : "worse", c->title);
        gap = "";
    }
}

void evaluation_print(const run *r, const evaluation *e)
{
    char count[16], seconds[16];
    say("%s", "");
    say("  %-27s %8s %9s %11s %8s %8s", "held-out perplexity", "ppl", "mix vs it",
        "tokens/path", "tokens", "FLOPs");
    for (int i = 0; i < COLUMNS; i++)
        print_column(&e->columns[i], e->columns[0].ppl);
    say("  (%zu documents, %s tokens after the %lld-token prefix, scored in %s;\n"
        "  tokens and FLOPs are of training; each row answers with one model of %.2f "
        "M)",
        e->n_docs, pl_human_count((double)e->n_targets, count),
        (long long)r->cfg.prefix, pl_human_seconds(e->seconds, seconds),
        (double)pl_topology_path_params(r->topology) / 1e6);
    print_domains(r, e);
    print_verdict(e);
}

/* ---- samples ---- */
typedef struct sampling {
    run *r;
    pl_store *store;
    pl_tokenizer *tokenizer;
    pl_backend *backend;
    pl_arm arm;
    pl_topology *topology;
    pl_model *model;
    pl_decoder *decoder;
    float *params;
} sampling;

static pl_status append_piece(void *context, const char *text, size_t len)
{
    pl_buf_append(context, text, len);
    return PL_OK;
}

/* One line: line ends and tabs as \n and \t. */
static void print_escaped(const char *label, const char *name, pl_buf *text)
{
    pl_buf line = {0};
    pl_buf_text(text);
    for (size_t i = 0; i < text->len; i++) {
        char c = (char)text->data[i];
        if (c == '\n')
            pl_buf_printf(&line, "\\n");
        else if (c == '\t')
            pl_buf_printf(&line, "\\t");
        else if ((unsigned char)c >= 32)
            pl_buf_append(&line, &c, 1);
    }
    say("  %s %s", name[0] ? name : "   ", label);
    say("      %s", pl_buf_text(&line));
    pl_buf_destroy(&line);
}

static int find_document(const evaluation *e, int path)
{
    for (size_t i = 0; i < e->n_docs; i++)
        if (e->path_of[i] == path)
            return (int)i;
    return -1;
}

enum { PROMPT = 24 };

/* The beginning of a held-out document of the path; from nothing if it has none. */
static int fill_prompt(const sampling *s, const evaluation *e, int path,
                       int32_t prompt[PROMPT], const char **label)
{
    int doc = find_document(e, path);
    prompt[0] = PL_TOKEN_BOS;
    *label = "no held-out document; from nothing";
    if (doc < 0)
        return 1;
    const pl_token_doc *d = pl_tokens_doc(s->r->valid, e->docs[doc]);
    int half = (int)s->r->cfg.context / 2, most = half < PROMPT ? half : PROMPT;
    int n = d->n_tokens - 1 < (uint32_t)most ? (int)d->n_tokens - 1 : most;
    pl_tokens_copy(s->r->valid, d->first, (size_t)n, prompt);
    *label = pl_tokens_domain(s->r->valid, d->domain);
    return n;
}

static pl_status sample_path(sampling *s, const evaluation *e, int path)
{
    int32_t prompt[PROMPT];
    pl_buf text = {0};
    pl_generate_result result;
    char name[PL_NAME_MAX];
    const char *label;
    int n = fill_prompt(s, e, path, prompt, &label);
    PL_RETURN_IF(
        store_path_params(s->store, &s->arm, s->topology, path, UINT64_MAX, s->params));
    PL_RETURN_IF(pl_model_load(s->model, s->params));
    PL_RETURN_IF(pl_tokenizer_decode(s->tokenizer, prompt, (size_t)n, &text));
    pl_buf_printf(&text, " [...] ");
    pl_generator g = {s->decoder, s->tokenizer, (int)s->r->cfg.vocab,
                      (int)s->r->cfg.context};
    pl_generate_options options = {.max_tokens = (int)s->r->cfg.sample_tokens,
                                   .choice = pl_choice_defaults()};
    options.choice.seed = (uint64_t)s->r->cfg.seed;
    pl_status status =
        pl_generate(&g, prompt, n, &options, append_piece, &text, &result);
    pl_topology_path_name(s->topology, path, name);
    if (status == PL_OK)
        print_escaped(label, name, &text);
    pl_buf_destroy(&text);
    return status;
}

static pl_status open_sampling(sampling *s)
{
    char path[PL_PATH_MAX];
    pl_backend_options backend = {
        .name = s->r->cfg.backend, .n_threads = 1, .precision = s->r->cfg.precision};
    pl_model_options model = {.batch = 1, .context = (int)s->r->cfg.context};
    PL_RETURN_IF(
        pl_tokenizer_load(run_file(s->r, "data/tokenizer.model", path), &s->tokenizer));
    PL_RETURN_IF(store_arm(s->store, "mix", &s->arm, &s->topology));
    PL_RETURN_IF(pl_backend_open(&backend, &s->backend));
    PL_RETURN_IF(pl_model_create(s->backend, s->topology, &model, &s->model));
    PL_RETURN_IF(pl_decoder_create(s->model, &s->decoder));
    return pl_try_alloc(pl_topology_path_params(s->topology) * sizeof(float), "a path",
                        (void **)&s->params);
}

pl_status print_samples(run *r, pl_store *store, const evaluation *e)
{
    pl_status status = PL_OK;
    sampling s = {.r = r, .store = store};
    if (r->cfg.sample_tokens == 0)
        return PL_OK;
    PL_TRY(open_sampling(&s));
    say("%s", "");
    say("  how each path goes on with held-out text of its own (begin [...] "
        "generated)");
    for (int p = 0; p < pl_topology_n_paths(s.topology) && p < 8; p++)
        PL_TRY(sample_path(&s, e, p));
done:
    pl_free_aligned(s.params);
    pl_decoder_destroy(&s.decoder);
    pl_model_destroy(&s.model);
    pl_topology_destroy(&s.topology);
    pl_arm_clear(&s.arm);
    pl_backend_close(&s.backend);
    pl_tokenizer_destroy(&s.tokenizer);
    return status;
}
