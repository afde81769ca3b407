/* Reads a Llama or Qwen3 configuration as a shape, if our model supports it, and writes
 * a shape as a configuration of this kind. A Qwen3 model is a Llama model with QK
 * norm. */
#include "serve/llama_config.h"
#include "corpus/corpus.h"
#include <limits.h>

typedef struct config_reader {
    const char *what;
    const pl_json *root;
} config_reader;

/* A field with the value null counts as missing, because some programs write null. */
static const pl_json *field(const config_reader *c, const char *name)
{
    const pl_json *value = pl_json_get(c->root, name);
    return pl_json_is_null(value) ? NULL : value;
}

static pl_status unsupported(const config_reader *c, const char *name,
                             const pl_json *value, const char *remedy)
{
    pl_buf text = {0};
    pl_json_write(value, 0, &text);
    pl_status status = pl_fail(PL_ERR_UNSUPPORTED, "%s: %s is %.64s; %s", c->what, name,
                               pl_buf_text(&text), remedy);
    pl_buf_destroy(&text);
    return status;
}

/* ---- fields for which we support only one value ---- */
static pl_status expect_text(const config_reader *c, const char *name,
                             const char *wanted, const char *remedy)
{
    const pl_json *value = field(c, name);
    const char *text = pl_json_text(value, NULL);
    if (!value || (text && strcmp(text, wanted) == 0))
        return PL_OK;
    return unsupported(c, name, value, remedy);
}

static pl_status expect_false(const config_reader *c, const char *name,
                              const char *remedy)
{
    const pl_json *value = field(c, name);
    bool truth = false;
    if (!value || (pl_json_bool(value, &truth) && !truth))
        return PL_OK;
    return unsupported(c, name, value, remedy);
}

/* Names in the fields `architectures` and `model_type`: first without, then with QK
 * norm. A model that was saved without its head has the name `bare`. */
static const struct {
    const char *class_name, *bare, *type;
} architectures[] = {{"LlamaForCausalLM", "LlamaModel", "llama"},
                     {"Qwen3ForCausalLM", "Qwen3Model", "qwen3"}};

static bool is_class(const char *name, bool qk_norm)
{
    return name && (strcmp(name, architectures[qk_norm].class_name) == 0 ||
                    strcmp(name, architectures[qk_norm].bare) == 0);
}

/* ---- numbers ---- */
static pl_status bad_number(const config_reader *c, const char *name,
                            const pl_json *value, const char *kind)
{
    pl_buf text = {0};
    if (value)
        pl_json_write(value, 0, &text);
    pl_status status = value ? pl_fail(PL_ERR_DATA, "%s: %s is %.64s; it must be %s",
                                       c->what, name, pl_buf_text(&text), kind)
                             : pl_fail(PL_ERR_DATA, "%s has no %s; it must be %s",
                                       c->what, name, kind);
    pl_buf_destroy(&text);
    return status;
}

/* Reads a number. If the field is missing, *out becomes `other`, or, if `other` is 0,
 * the model is refused. */
static pl_status take_config_int(const config_reader *c, const char *name, int other,
                                 int *out)
{
    const pl_json *value = field(c, name);
    int64_t number = 0;
    *out = other;
    if (!value && other > 0)
        return PL_OK;
    if (!pl_json_int(value, &number) || number < 1 || number > INT_MAX)
        return bad_number(c, name, value, "a whole number of 1 or more");
    *out = (int)number;
    return PL_OK;
}

static pl_status take_config_real(const config_reader *c, const char *name,
                                  double other, double *out)
{
    const pl_json *value = field(c, name);
    *out = other;
    if (value && !(pl_json_number(value, out) && *out > 0))
        return bad_number(c, name, value, "a number above 0");
    return PL_OK;
}

/* Reads the settings of rotary embedding, and refuses all but the plain kind. Older
 * files have them in `rope_scaling`; newer files have them in `rope_parameters`,
 * together with theta. */
static pl_status take_rope_of(const config_reader *c, const char *name, double *theta)
{
    static const char plain[] = "only rotary embedding without scaling is supported; "
                                "use a model whose context was not extended";
    config_reader rope = {c->what, field(c, name)};
    if (!rope.root)
        return PL_OK;
    if (!pl_json_is_object(rope.root))
        return unsupported(c, name, rope.root, plain);
    PL_CHECK(expect_text(&rope, "type", "default", plain));
    PL_CHECK(expect_text(&rope, "rope_type", "default", plain));
    const pl_json *share = field(&rope, "partial_rotary_factor");
    double number = 1;
    if (share && (!pl_json_number(share, &number) || number < 1))
        return unsupported(c, "partial_rotary_factor", share,
                           "only rotary embedding of whole heads (1) is supported");
    const double before = *theta;
    PL_CHECK(take_config_real(&rope, "rope_theta", *theta, theta));
    /* the value before is that of another field, or 0 */
    if (before > 0 && before != *theta)
        return pl_fail(PL_ERR_DATA,
                       "%s: rope_theta is %.9g, but that of %s is %.9g; keep the value "
                       "with which the model was trained",
                       c->what, before, name, *theta);
    return PL_OK;
}

static pl_status take_shape(const config_reader *c, pl_shape *s)
{
    PL_CHECK(take_config_int(c, "vocab_size", 0, &s->vocab));
    PL_CHECK(take_config_int(c, "hidden_size", 0, &s->width));
    PL_CHECK(take_config_int(c, "intermediate_size", 0, &s->ffn));
    PL_CHECK(take_config_int(c, "num_hidden_layers", 0, &s->n_blocks));
    PL_CHECK(take_config_int(c, "num_attention_heads", 0, &s->n_heads));
    /* A Llama file may leave out num_key_value_heads and head_dim: they then follow
     * from other fields. Qwen3's defaults fit only the models that were published with
     * it, so a Qwen3 file must have both fields. */
    const bool derived = !s->qk_norm;
    PL_CHECK(take_config_int(c, "num_key_value_heads", derived ? s->n_heads : 0,
                             &s->n_kv_heads));
    if (derived && !field(c, "head_dim") && s->width % s->n_heads != 0)
        return pl_fail(PL_ERR_DATA,
                       "%s: hidden_size %d is not divisible by num_attention_heads %d, "
                       "and there is no head_dim",
                       c->what, s->width, s->n_heads);
    PL_CHECK(take_config_int(c, "head_dim", derived ? s->width / s->n_heads : 0,
                             &s->head_size));
    PL_CHECK(take_config_int(c, "max_position_embeddings", 2048, &s->context));
    PL_CHECK(take_config_real(c, "rms_norm_eps", 1e-6, &s->norm_eps));
    double *theta = &s->rope_theta;
    PL_CHECK(take_config_real(c, "rope_theta", 0, theta));
    PL_CHECK(take_rope_of(c, "rope_scaling", theta));
    PL_CHECK(take_rope_of(c, "rope_parameters", theta));
    if (*theta == 0)
        *theta = 10000;
    const pl_json *tied = field(c, "tie_word_embeddings");
    s->tied = false; /* the default of Llama and Qwen3 */
    if (tied && !pl_json_bool(tied, &s->tied))
        return bad_number(c, "tie_word_embeddings", tied, "true or false");
    pl_status status = pl_shape_check(s);
    return status == PL_OK ? status : pl_fail_in(status, "%s", c->what);
}

pl_status llama_config_read(const char *what, const char *text, size_t len,
                            pl_shape *out)
{
    pl_json *root = NULL;
    memset(out, 0, sizeof *out);
    PL_CHECK(pl_refuse_pointer(what, text, len));
    pl_status status = pl_json_parse(text, len, &root);
    if (status != PL_OK)
        return pl_fail_in(status, "%s", what);
    config_reader c = {what, root};
    if (!pl_json_is_object(root))
        PL_TRY(pl_fail(PL_ERR_DATA, "%s is not a JSON object", what));
    static const char no_bias[] =
        "pathloom's projections have no biases; use a model without biases";
    static const char kinds[] = "only Llama and Qwen3 models (LlamaForCausalLM, "
                                "Qwen3ForCausalLM) can be imported";
    const pl_json *names = field(&c, "architectures");
    const char *first = pl_json_text(pl_json_at(names, 0), NULL);
    const char *type = pl_json_text(field(&c, "model_type"), NULL);
    if (!names && !field(&c, "model_type"))
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "%s has neither `architectures` nor `model_type`; it must be "
                       "the config.json of a Llama or Qwen3 model",
                       c.what));
    out->qk_norm = names ? is_class(first, true)
                         : type && strcmp(type, architectures[1].type) == 0;
    if (names && !is_class(first, out->qk_norm))
        PL_TRY(unsupported(&c, "architectures", names, kinds));
    PL_TRY(expect_text(&c, "model_type", architectures[out->qk_norm].type, kinds));
    /* Qwen3 models may limit attention to a sliding window; our attention has none. */
    static const char no_window[] = "pathloom's attention always sees the whole "
                                    "context; use a model without sliding windows";
    PL_TRY(expect_false(&c, "use_sliding_window", no_window));
    const pl_json *layers = field(&c, "layer_types");
    for (size_t i = 0; i < pl_json_count(layers); i++) {
        const char *kind = pl_json_text(pl_json_at(layers, i), NULL);
        if (!kind || strcmp(kind, "full_attention") != 0)
            PL_TRY(unsupported(&c, "layer_types", layers, no_window));
    }
    PL_TRY(expect_text(&c, "hidden_act", "silu",
                       "only SwiGLU is supported; use a model with silu"));
    PL_TRY(expect_false(&c, "attention_bias", no_bias));
    PL_TRY(expect_false(&c, "mlp_bias", no_bias));
    const pl_json *quantised = field(&c, "quantization_config");
    PL_TRY(quantised ? unsupported(&c, "quantization_config", quantised,
                                   "import the model as it was before quantisation")
                     : PL_OK);
    PL_TRY(take_shape(&c, out));
done:
    pl_json_destroy(&root);
    return status;
}

/* ---- writing ---- */
/* rope_theta and dtype are written twice, because older and newer programs read
 * different fields. */
pl_json *llama_config_json(const pl_shape *s, const char *dtype)
{
    pl_json *o = pl_json_object(), *rope = pl_json_object();
    pl_json_set_text(rope, "rope_type", "default");
    pl_json_set_real(rope, "rope_theta", s->rope_theta);
    pl_json_set(o, "architectures",
                pl_json_list(pl_json_make_text(architectures[s->qk_norm].class_name)));
    pl_json_set_bool(o, "attention_bias", false);
    pl_json_set_real(o, "attention_dropout", 0);
    pl_json_set_int(o, "bos_token_id", 1);
    pl_json_set_text(o, "dtype", dtype);
    pl_json_set_int(o, "eos_token_id", 2);
    pl_json_set_int(o, "head_dim", s->head_size);
    pl_json_set_text(o, "hidden_act", "silu");
    pl_json_set_int(o, "hidden_size", s->width);
    pl_json_set_real(o, "initializer_range", 0.02);
    pl_json_set_int(o, "intermediate_size", s->ffn);
    pl_json_set_int(o, "max_position_embeddings", s->context);
    if (!s->qk_norm)
        pl_json_set_bool(o, "mlp_bias", false);
    pl_json_set_text(o, "model_type", architectures[s->qk_norm].type);
    pl_json_set_int(o, "num_attention_heads", s->n_heads);
    pl_json_set_int(o, "num_hidden_layers", s->n_blocks);
    pl_json_set_int(o, "num_key_value_heads", s->n_kv_heads);
    if (!s->qk_norm)
        pl_json_set_int(o, "pretraining_tp", 1);
    pl_json_set_real(o, "rms_norm_eps", s->norm_eps);
    pl_json_set(o, "rope_parameters", rope);
    pl_json_set_real(o, "rope_theta", s->rope_theta);
    pl_json_set_bool(o, "tie_word_embeddings", s->tied);
    pl_json_set_text(o, "torch_dtype", dtype);
    pl_json_set_bool(o, "use_cache", true);
    if (s->qk_norm)
        pl_json_set_bool(o, "use_sliding_window", false);
    pl_json_set_int(o, "vocab_size", s->vocab);
    return o;
}
