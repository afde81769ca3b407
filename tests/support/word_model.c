/* Defines the functions of word_model.h. */
#include "tests/support/pairs.h"
#include "tests/support/shape.h"
#include "tests/support/word_model.h"

pl_topology *topology;
pl_backend *backend;
pl_model *model;

void open_word_model(const char *name, const char *precision, int context)
{
    const pl_shape shape = SHAPE(WORD_VOCAB, 32, 2, 1, 16, 48, 2, context, .tied = true,
                                 .rope_theta = 10000.0);
    pl_model_options options = {.batch = 1, .context = context};
    backend = open_side(name, precision, 1);
    assert_non_null(backend);
    topology = one_path(&shape);
    assert_ok(pl_model_create(backend, topology, &options, &model));
    const size_t n = pl_topology_path_params(topology);
    OWNED(free_memory) float *params = pl_alloc(n * sizeof *params);
    for (size_t i = 0; i < n; i++)
        params[i] = 0.3f * pl_random_normal(7, 1, i);
    assert_ok(pl_model_load(model, params));
}

void close_word_model(void)
{
    pl_model_destroy(&model);
    pl_topology_destroy(&topology);
    pl_backend_close(&backend);
}

void put_word_module(pl_mixture *mix, int m, uint64_t number, uint64_t seed)
{
    const int slot = pl_topology_module_slot(mix->topology, m);
    const size_t n = pl_topology_slot(mix->topology, slot)->n_params;
    pl_version v = {.number = number}, head = {0};
    pl_txn *txn;
    OWNED(free_memory) float *params = pl_alloc(n * sizeof *params);
    for (size_t i = 0; i < n; i++)
        params[i] = 0.3f * pl_random_normal(seed, (uint64_t)m, i);
    pl_arm_module_name(&mix->arm, mix->topology, m, v.module);
    pl_copy_text(v.method, sizeof v.method, "test");
    assert_ok(pl_txn_begin(mix->store, &txn));
    assert_ok(pl_txn_put_blob(txn, params, n * sizeof *params, &v.params));
    if (number > 0) {
        assert_ok(pl_store_head(mix->store, v.module, &head));
        v.parent = head.params;
        v.momentum = v.params;
        pl_version_clear(&head);
    }
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){false, false, false}));
    assert_ok(pl_txn_commit(&txn));
}

bool open_word_mixture(void **state, pl_mixture *mix, int context)
{
    pl_arm *arm = &mix->arm;
    arm->shape = (pl_shape)SHAPE(WORD_VOCAB, 32, 2, 1, 16, 48, 4, context, .tied = true,
                                 .rope_theta = 10000.0);
    arm->spec.replicas = 1;
    pl_copy_text(arm->name, sizeof arm->name, "mix");
    if (make_words_tokenizer(state, WORDS_BYTES, WORD_VOCAB, &mix->tokenizer) !=
            PL_OK ||
        pl_topology_parse_levels("2x2", &arm->spec) != PL_OK ||
        pl_topology_create(&arm->shape, &arm->spec, &mix->topology) != PL_OK ||
        pl_store_open(in_scratch("store"), PL_STORE_CREATE, &mix->store) != PL_OK)
        return false;
    for (int m = 0; m < pl_topology_n_modules(mix->topology); m++)
        put_word_module(mix, m, 0, 7);
    return true;
}

int close_word_mixture(void **state, pl_mixture *mix)
{
    pl_store_close(&mix->store);
    pl_topology_destroy(&mix->topology);
    pl_tokenizer_destroy(&mix->tokenizer);
    return remove_scratch(state);
}

static pl_status tell_text(void *context, const char *text, size_t len)
{
    pl_buf_append(&((told *)context)->text, text, len);
    return PL_OK;
}

static pl_status tell_score(void *context, const pl_token_score *score)
{
    pl_buf_append(&((told *)context)->scores, score, sizeof *score);
    return PL_OK;
}

static void tell_done(void *context, pl_status status, const pl_generate_result *r)
{
    told *t = context;
    t->status = status;
    t->result = *r;
    t->n_done++;
}

void assert_same_told(told *a, told *b)
{
    assert_int_equal(a->result.n_tokens, b->result.n_tokens);
    assert_string_equal(pl_buf_text(&a->text), pl_buf_text(&b->text));
    assert_same_bytes(a->scores, b->scores);
}

void run_batch(pl_batch *batch)
{
    while (pl_batch_active(batch) > 0)
        assert_ok(pl_batch_step(batch));
}

void told_clear(told *t)
{
    pl_buf_destroy(&t->text);
    pl_buf_destroy(&t->scores);
}

pl_batch_request told_request(told *t, const int32_t *prompt, int n_prompt,
                              const pl_generate_options *options)
{
    return (pl_batch_request){.prompt = prompt,
                              .n_prompt = n_prompt,
                              .options = options,
                              .emit = tell_text,
                              .done = tell_done,
                              .context = t,
                              .score = tell_score};
}
