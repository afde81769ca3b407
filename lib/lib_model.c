/* Opens models of a run or of a folder, and lets them score, route and continue text
 * (pathloom.h).
 *
 * A model of a run is a mixture with its readers: each path that has answered stays in
 * memory, and modules that several paths use are in memory once. A model of a folder
 * has its own parameters, and answers every text itself. */
#include "config/config.h"
#include "lib/lib_internal.h"
#include "router/router.h"

#include <math.h>

/* The largest text: the largest document that a corpus may have. */
enum { TEXT_BYTES_MAX = 64 << 20 };

struct pathloom_model {
    bool from_folder;
    /* for a folder only tokenizer, topology and arm.shape are set */
    pl_mixture mix;
    int path;           /* the path that answers every text; -1: the text chooses */
    int n_threads;      /* 0: one per processor */
    char precision[16]; /* "": the run's */
    bool is_ready;      /* backend and model are open */
    pl_readers readers; /* of a run */
    pl_import *import;  /* of a folder, until its parameters are loaded */
    pl_backend *backend;
    pl_model *alone;
    pl_decoder *decoder;
    /* choosing finds the path that answers; explaining computes all likelihoods, too.
     * They are the same object if the likelihoods decide. */
    text_router *choosing, *explaining;
    /* [n_paths] what pathloom_route_text returns */
    char (*names)[PL_NAME_MAX];
    const char **name_list;
    double *posteriors;
};

/* ---- opening ---- */
static pl_status take_options(pathloom_model *m, const pathloom_model_options *o)
{
    if (o->n_threads < 0)
        return pl_fail(PL_ERR_USAGE,
                       "n_threads is %d; give 1 or more, or 0 for one per processor",
                       o->n_threads);
    m->n_threads = o->n_threads ? o->n_threads : pl_cpu_count();
    if (o->precision && !pl_copy_text(m->precision, sizeof m->precision, o->precision))
        return pl_fail(PL_ERR_USAGE, "there is no precision %s; give f32, bf16 or auto",
                       o->precision);
    return PL_OK;
}

int pathloom_model_open(pathloom_run *run, const pathloom_model_options *options,
                        pathloom_model **out, pathloom_error *error)
{
    const pathloom_model_options none = {.path = NULL};
    const pathloom_model_options *o = options ? options : &none;
    const mixture_wish wish = {.at = o->tag};
    pathloom_model *m = pl_alloc(sizeof *m);
    pl_status status;
    *out = NULL;
    PL_TRY(take_options(m, o));
    if (o->route)
        PL_TRY(config_check_answer("route", o->route));
    PL_TRY(mixture_open(run->dir, &wish, &m->mix));
    if (o->route)
        pl_copy_text(m->mix.settings.rule, sizeof m->mix.settings.rule, o->route);
    if (o->arm)
        PL_TRY(pl_mixture_use_arm(&m->mix, o->arm));
    m->path = pl_topology_n_paths(m->mix.topology) == 1 ? 0 : -1;
    if (o->path)
        PL_TRY(pl_find_path(m->mix.topology, o->path, &m->path));
    if (m->path < 0 && pl_arm_chapter(m->mix.arm.name) < 0)
        PL_TRY(pl_fail(PL_ERR_USAGE,
                       "the arm %s has no router; name one of its %d paths",
                       m->mix.arm.name, pl_topology_n_paths(m->mix.topology)));
    *out = m;
    m = NULL;
done:
    pathloom_model_close(&m);
    return lib_end(status, error);
}

int pathloom_model_open_folder(const char *folder,
                               const pathloom_model_options *options,
                               pathloom_model **out, pathloom_error *error)
{
    const pathloom_model_options none = {.path = NULL};
    const pl_topology_spec one_path = {.n_levels = 1, .experts = {1}, .replicas = 1};
    pathloom_model *m = pl_alloc(sizeof *m);
    pl_status status;
    *out = NULL;
    m->from_folder = true;
    PL_TRY(lib_begin());
    PL_TRY(lib_given(folder, "folder"));
    PL_TRY(take_options(m, options ? options : &none));
    PL_TRY(pl_import_open(folder, &m->import));
    m->mix.arm.shape = pl_import_describe(m->import)->shape;
    PL_TRY(pl_topology_create(&m->mix.arm.shape, &one_path, &m->mix.topology));
    const char *tokenizer = pl_import_describe(m->import)->tokenizer;
    if (!tokenizer[0])
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "there is no tokenizer in %s; copy the model's tokenizer.model "
                       "or tokenizer.json into it",
                       folder));
    PL_TRY(pl_tokenizer_load(tokenizer, &m->mix.tokenizer));
    *out = m;
    m = NULL;
done:
    pathloom_model_close(&m);
    return lib_end(status, error);
}

void pathloom_model_close(pathloom_model **model)
{
    pathloom_model *m = *model;
    if (!m)
        return;
    if (m->explaining != m->choosing)
        text_router_close(&m->explaining);
    text_router_close(&m->choosing);
    pl_readers_close(&m->readers);
    pl_decoder_destroy(&m->decoder);
    pl_model_destroy(&m->alone);
    pl_backend_close(&m->backend);
    pl_import_close(&m->import);
    pl_mixture_close(&m->mix);
    pl_free_all(m->names, m->name_list, m->posteriors, m);
    *model = NULL;
}

int pathloom_model_n_paths(const pathloom_model *model)
{
    return pl_topology_n_paths(model->mix.topology);
}

int pathloom_model_vocab(const pathloom_model *model)
{
    return model->mix.arm.shape.vocab;
}

int pathloom_model_context(const pathloom_model *model)
{
    return model->mix.arm.shape.context;
}

/* ---- tokens ---- */
static pl_status check_text(const char *text, size_t len)
{
    if (len > 0)
        PL_CHECK(lib_given(text, "text"));
    if (len > TEXT_BYTES_MAX)
        return pl_fail(PL_ERR_DATA, "the text has %zu bytes; %d is the limit", len,
                       TEXT_BYTES_MAX);
    return PL_OK;
}

int pathloom_tokenize(const pathloom_model *m, const char *text, size_t len,
                      int32_t *tokens, size_t capacity, size_t *n,
                      pathloom_error *error)
{
    pl_buf buf = {0};
    pl_status status;
    *n = 0;
    PL_TRY(check_text(text, len));
    PL_TRY(pl_tokenizer_encode(m->mix.tokenizer, text, len, &buf));
    *n = buf.len / sizeof *tokens;
    if (capacity > 0 && buf.len > 0)
        memcpy(tokens, buf.data, (*n < capacity ? *n : capacity) * sizeof *tokens);
done:
    pl_buf_destroy(&buf);
    return lib_end(status, error);
}

int pathloom_detokenize(const pathloom_model *m, const int32_t *tokens, size_t n,
                        char *text, size_t capacity, size_t *len, pathloom_error *error)
{
    const int vocab = pl_tokenizer_vocab(m->mix.tokenizer);
    pl_buf buf = {0};
    pl_status status = PL_OK;
    *len = 0;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            PL_TRY(pl_fail(PL_ERR_DATA,
                           "token %zu is %d; the tokenizer has the tokens 0 to %d", i,
                           (int)tokens[i], vocab - 1));
    PL_TRY(pl_tokenizer_decode(m->mix.tokenizer, tokens, n, &buf));
    *len = buf.len;
    if (capacity > 0 && buf.len > 0)
        memcpy(text, buf.data, buf.len < capacity ? buf.len : capacity);
done:
    pl_buf_destroy(&buf);
    return lib_end(status, error);
}

/* Appends BOS and the tokens of a text. */
static pl_status append_prompt(const pathloom_model *m, const char *text, size_t len,
                               pl_buf *out)
{
    PL_CHECK(check_text(text, len));
    return pl_prompt_encode(m->mix.tokenizer, text, len, out);
}

/* ---- the path that answers ---- */
/* Loads a model from its folder. */
static pl_status load_alone(pathloom_model *m)
{
    const pl_backend_options backend = {.name = "auto",
                                        .n_threads = m->n_threads,
                                        .precision =
                                            m->precision[0] ? m->precision : "auto"};
    const pl_model_options size = {.batch = 1, .context = m->mix.arm.shape.context};
    const size_t n = pl_topology_path_params(m->mix.topology);
    float *params = NULL;
    pl_status status;
    PL_TRY(pl_backend_open(&backend, &m->backend));
    PL_TRY(pl_try_alloc_bare(n * sizeof *params, "the parameters", (void **)&params));
    PL_TRY(pl_import_load(m->import, m->mix.topology, params));
    PL_TRY(pl_model_create(m->backend, m->mix.topology, &size, &m->alone));
    PL_TRY(pl_model_load(m->alone, params));
    PL_TRY(pl_decoder_create(m->alone, 1, &m->decoder));
done:
    pl_free(params);
    return status;
}

/* What computes the answers of one path. */
typedef struct answerer {
    pl_model *model; /* has the path's parameters */
    pl_decoder *decoder;
} answerer;

static pl_status find_answerer(pathloom_model *m, int path, answerer *out)
{
    pl_readers *r = &m->readers;
    int at = 0;
    if (!m->is_ready) {
        /* a failure leaves parts behind that only closing frees */
        if (m->backend || r->backend)
            return pl_fail(PL_ERR_ARG, "the model could not be loaded; close it");
        PL_CHECK(m->from_folder
                     ? load_alone(m)
                     : pl_readers_open(&m->mix, m->precision[0] ? m->precision : NULL,
                                       m->n_threads, r));
        m->is_ready = true;
    }
    *out = (answerer){m->alone, m->decoder};
    if (m->from_folder)
        return PL_OK;
    while (at < r->n && r->numbers[at] != path)
        at++;
    if (at == r->n)
        PL_CHECK(pl_readers_add(r, path));
    *out = (answerer){r->model, r->decoders[at]};
    return pl_model_use(r->model, pl_pooled_path_table(r->paths[at]));
}

/* Opens a router. All paths stay in memory between texts. */
static pl_status open_router(pathloom_model *m, bool explains)
{
    const pl_answer_settings *s = &m->mix.settings;
    text_router **router = explains ? &m->explaining : &m->choosing;
    const text_router_wish wish = {.likelihood = explains, .keep_bytes = UINT64_MAX};
    if (*router)
        return PL_OK;
    PL_CHECK(text_router_open(&m->mix, &wish, router));
    if (pl_answers_by_likelihood(s->rule, s->prefix, pathloom_model_n_paths(m)))
        m->choosing = m->explaining = *router;
    return PL_OK;
}

/* Finds the path that answers a text that begins with these tokens. */
static pl_status choose_path(pathloom_model *m, const int32_t *tokens, int n, int *path)
{
    text_route route;
    *path = m->path < 0 ? 0 : m->path;
    if (m->path >= 0 || m->from_folder)
        return PL_OK;
    PL_CHECK(open_router(m, false));
    PL_CHECK(text_router_ask(m->choosing, tokens, n, &route));
    *path = route.path;
    return PL_OK;
}

static void name_path(const pathloom_model *m, int path, char out[PL_NAME_MAX])
{
    out[0] = '\0';
    if (!m->from_folder)
        pl_topology_path_name(m->mix.topology, path, out);
}

/* ---- generating ---- */
void pathloom_generate_defaults(pathloom_generate_options *options)
{
    const pl_choice choice = pl_choice_defaults();
    *options = (pathloom_generate_options){.max_tokens = 64,
                                           .temperature = choice.temperature,
                                           .top_k = choice.top_k,
                                           .top_p = choice.top_p,
                                           .min_p = choice.min_p,
                                           .seed = choice.seed};
}

typedef struct listener {
    pathloom_piece_fn fn;
    void *context;
} listener;

static pl_status emit(void *context, const char *text, size_t len)
{
    const listener *l = context;
    return l->fn ? lib_heard(l->fn(l->context, text, len)) : PL_OK;
}

int pathloom_generate(pathloom_model *m, const char *prompt, size_t len,
                      const pathloom_generate_options *options, pathloom_piece_fn fn,
                      void *context, pathloom_generated *result, pathloom_error *error)
{
    pathloom_generate_options defaults;
    listener l = {fn, context};
    pl_generate_result made = {.n_tokens = 0};
    pl_buf tokens = {0};
    answerer a;
    int path;
    pl_status status;
    pathloom_generate_defaults(&defaults);
    const pathloom_generate_options *o = options ? options : &defaults;
    pl_generate_options how = {.max_tokens = o->max_tokens,
                               .choice = {.temperature = o->temperature,
                                          .top_k = o->top_k,
                                          .top_p = o->top_p,
                                          .min_p = o->min_p,
                                          .seed = o->seed}};
    for (int i = 0, n = 0; i < PL_STOP_MAX; i++)
        if (o->stop[i])
            how.stop[n++] = o->stop[i];
    if (result)
        memset(result, 0, sizeof *result);
    PL_TRY(append_prompt(m, prompt, len, &tokens));
    PL_TRY(choose_path(m, pl_prompt_tokens(&tokens), pl_prompt_count(&tokens), &path));
    PL_TRY(find_answerer(m, path, &a));
    const pl_generator g = {a.decoder, m->mix.tokenizer, m->mix.arm.shape.vocab,
                            m->mix.arm.shape.context};
    PL_TRY(pl_generate(&g, pl_prompt_tokens(&tokens), pl_prompt_count(&tokens), &how,
                       emit, &l, &made));
    if (!result)
        goto done;
    name_path(m, path, result->path);
    result->is_stopped = made.finish == PL_FINISH_STOP;
    result->n_prompt = made.n_prompt;
    result->n_tokens = made.n_tokens;
    result->prompt_seconds = made.prompt_seconds;
    result->decode_seconds = made.decode_seconds;
done:
    pl_buf_destroy(&tokens);
    return lib_end(status, error);
}

/* ---- scoring ---- */
int pathloom_score_text(pathloom_model *m, const char *text, size_t len,
                        pathloom_score *score, pathloom_error *error)
{
    const int32_t eos = PL_TOKEN_EOS;
    const bool chooses = m->path < 0 && !m->from_folder;
    const int prefix = chooses ? m->mix.settings.prefix : 1;
    pl_buf tokens = {0}, before = {0}, all = {0};
    int32_t *targets = NULL;
    float *losses = NULL;
    answerer a;
    int path;
    pl_status status;
    memset(score, 0, sizeof *score);
    PL_TRY(append_prompt(m, text, len, &tokens));
    pl_buf_append(&tokens, &eos, sizeof eos);
    const int n = pl_prompt_count(&tokens), first = prefix > 1 ? prefix : 1;
    PL_TRY(choose_path(m, pl_prompt_tokens(&tokens), n < prefix ? n : prefix, &path));
    PL_TRY(find_answerer(m, path, &a));
    /* Adds the losses of the tokens from `first` on. Windows slide by half of the
     * context, as in eval, and each target counts once (eval/scorer.h). */
    const int context = m->mix.arm.shape.context, step = pl_window_step(context);
    const size_t T = (size_t)(context < n ? context : n);
    targets = pl_alloc(T * sizeof *targets);
    losses = pl_alloc(T * sizeof *losses);
    for (int at = 0; at + 1 < n; at += step) {
        const int most = n - 1 - at < context ? n - 1 - at : context;
        const int skip = (int)pl_window_skip((uint32_t)at, (uint32_t)first,
                                             (uint32_t)context, (uint32_t)step);
        if (skip >= most)
            continue; /* no target of this window counts */
        const int32_t *window = pl_prompt_tokens(&tokens) + at;
        for (int i = 0; i < most; i++)
            targets[i] = i < skip ? -1 : window[1 + i];
        PL_TRY(pl_model_losses(a.model, window, targets, 1, most, losses));
        for (int i = 0; i < most; i++)
            score->nats += (double)losses[i];
    }
    name_path(m, path, score->path);
    if (n > first) {
        score->n_tokens = (uint64_t)(n - first);
        PL_TRY(pl_tokenizer_decode(m->mix.tokenizer, pl_prompt_tokens(&tokens),
                                   (size_t)first, &before));
        PL_TRY(pl_tokenizer_decode(m->mix.tokenizer, pl_prompt_tokens(&tokens),
                                   (size_t)n, &all));
        score->n_bytes = all.len - before.len;
        for (int i = first; i < n; i++)
            if (pl_prompt_tokens(&tokens)[i] == PL_TOKEN_UNK)
                score->n_bytes = 0; /* the text cannot be rebuilt from the tokens */
    }
    score->bits_per_byte =
        score->n_bytes ? score->nats / log(2) / (double)score->n_bytes : NAN;
done:
    pl_free(losses);
    pl_free(targets);
    pl_buf_destroy(&all);
    pl_buf_destroy(&before);
    pl_buf_destroy(&tokens);
    return lib_end(status, error);
}

/* ---- routing ---- */
int pathloom_route_text(pathloom_model *m, const char *text, size_t len,
                        pathloom_route *out, pathloom_error *error)
{
    text_route route;
    pl_buf tokens = {0};
    pl_status status = PL_OK;
    memset(out, 0, sizeof *out);
    if (m->from_folder || pl_arm_chapter(m->mix.arm.name) < 0)
        PL_TRY(pl_fail(PL_ERR_USAGE, "this model has one path, so no text is routed; "
                                     "open the mixture of a run"));
    PL_TRY(append_prompt(m, text, len, &tokens));
    PL_TRY(open_router(m, true));
    PL_TRY(text_router_ask(m->explaining, pl_prompt_tokens(&tokens),
                           pl_prompt_count(&tokens), &route));
    const int n = route.n_paths;
    if (!m->names) {
        m->names = pl_alloc((size_t)n * sizeof *m->names);
        m->name_list = pl_alloc((size_t)n * sizeof *m->name_list);
        m->posteriors = pl_alloc((size_t)n * sizeof *m->posteriors);
    }
    for (int path = 0; path < n; path++) {
        pl_topology_path_name(m->mix.topology, path, m->names[path]);
        m->name_list[path] = m->names[path];
        m->posteriors[path] = text_route_posterior(&route, path);
    }
    *out = (pathloom_route){.path = m->names[route.path],
                            .why = route.why,
                            .by_likelihood = route.by_likelihood,
                            .n_tokens = route.n_tokens,
                            .n_seen = route.n_seen,
                            .margin_nats = route.nats ? route.margin_nats : NAN,
                            .n_paths = n,
                            .names = m->name_list,
                            .nats = route.nats,
                            .posteriors = route.nats ? m->posteriors : NULL,
                            .costs = route.costs};
done:
    pl_buf_destroy(&tokens);
    return lib_end(status, error);
}
