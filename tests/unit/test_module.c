/* folder: modules; label: unit */
/* Tests modules that several paths share. Whether a path is computed alone or in the
 * same steps as other paths, its results must have the same bytes as those of a model
 * that has loaded all parameters of the path. */
#include "modules/decoder_rows.h"
#include "tests/support/shape.h"
#include "tests/support/pairs.h"

enum {
    VOCAB = 131,
    CONTEXT = 32,
    SLOTS = 10,
    WORDS = 12,
    MODULES_MAX = 32,
    WIDTH_MAX = 72
};

/* Makes a topology of one of four kinds. In kind 0 all blocks belong to two levels.
 * Kind 1 also has a path-specific block, one embedding per expert of level 1, and one
 * head per expert of level 2. In kind 2 the three paths share no module. Kind 3 has one
 * path, and odd sizes. */
enum { KINDS = 4 };
static pl_topology *make_topology(int kind)
{
    static const char *const levels[KINDS] = {"2x2", "2x2", "3", "1"};
    const pl_shape shape = SHAPE(VOCAB, kind == 3 ? 72 : 48, 4, 2, kind == 3 ? 18 : 12,
                                 kind == 3 ? 150 : 88, 4, CONTEXT, .tied = kind != 1,
                                 .rope_theta = 10000.0, .qk_norm = kind != 0);
    pl_topology_spec spec = {.replicas = 1};
    pl_topology *t;
    assert_ok(pl_topology_parse_levels(levels[kind], &spec));
    if (kind == 1) {
        spec.embed_choice = 1;
        spec.head_choice = 2;
        spec.private_block[3] = true;
    } else if (kind == 2) {
        spec.embed_choice = spec.head_choice = PL_CHOICE_PRIVATE;
    }
    assert_ok(pl_topology_create(&shape, &spec, &t));
    return t;
}

/* Fills in the parameters of a module. They depend only on the number of the module. */
static void fill_module(const pl_topology *t, int module, float *out)
{
    const pl_slot *s = pl_topology_slot(t, pl_topology_module_slot(t, module));
    const float *normals = kept_normals(5, (uint64_t)module, s->n_params);
    for (size_t i = 0; i < s->n_params; i++)
        out[i] = 0.2f * normals[i];
}

static float *path_params(const pl_topology *t, int path)
{
    float *params = calloc(pl_topology_path_params(t), sizeof *params);
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++)
        fill_module(t, pl_topology_module_of_path(t, slot, path),
                    params + pl_topology_slot(t, slot)->offset);
    return params;
}

/* All modules of a topology, each of them made once, and all its paths. */
typedef struct world {
    pl_backend *be;
    pl_topology *t;
    pl_module *modules[MODULES_MAX];
    pl_path *paths[4];
    int n_paths;
} world;

static void open_world(world *w, pl_backend *be, int kind)
{
    memset(w, 0, sizeof *w);
    w->be = be;
    w->t = make_topology(kind);
    w->n_paths = pl_topology_n_paths(w->t);
    assert_true(pl_topology_n_modules(w->t) <= MODULES_MAX && w->n_paths <= 4);
    for (int m = 0; m < pl_topology_n_modules(w->t); m++) {
        const int slot = pl_topology_module_slot(w->t, m);
        OWNED(free_memory)
        float *params = calloc(pl_topology_slot(w->t, slot)->n_params, sizeof *params);
        fill_module(w->t, m, params);
        assert_ok(pl_module_create(be, w->t, slot, params, &w->modules[m]));
    }
    for (int p = 0; p < w->n_paths; p++) {
        pl_module *of[MODULES_MAX];
        for (int slot = 0; slot < pl_topology_n_slots(w->t); slot++)
            of[slot] = w->modules[pl_topology_module_of_path(w->t, slot, p)];
        assert_ok(pl_path_create(w->t, of, &w->paths[p]));
    }
}

static void close_world(world *w)
{
    for (int p = 0; p < w->n_paths; p++)
        pl_path_destroy(&w->paths[p]);
    for (int m = 0; m < pl_topology_n_modules(w->t); m++)
        pl_module_destroy(&w->modules[m]);
    pl_topology_destroy(&w->t);
}

static int32_t word(int i, int k)
{
    return (int32_t)((31 * i + 17 * k + i * k * k + 3) % VOCAB);
}

static int prompt_length(int i)
{
    return 1 + 3 * i % 7;
}

/* Returns the path of a sequence. Each path has several of the sequences. */
static int path_of(const world *w, int i)
{
    return (i * 3 + i / 4) % w->n_paths;
}

/* Computes the logits after the prompt of sequence i and after each later word, with a
 * model that has loaded the parameters of the sequence's path. */
static void read_alone(const world *w, int i, float (*logits)[VOCAB])
{
    int32_t words[WORDS];
    const int n = prompt_length(i);
    OWNED(free_memory) float *params = path_params(w->t, path_of(w, i));
    OWNED(pl_model_destroy) pl_model *model = fresh_reader(w->t, w->be);
    OWNED(pl_decoder_destroy) pl_decoder *alone;
    assert_ok(pl_model_load(model, params));
    for (int k = 0; k < WORDS; k++)
        words[k] = word(i, k);
    assert_ok(pl_decoder_create(model, 1, &alone));
    assert_ok(pl_decoder_prefill(alone, 0, words, n, logits[n - 1]));
    for (int k = n; k < WORDS; k++)
        assert_ok(pl_decoder_prefill(alone, 0, words + k, 1, logits[k]));
}

/* Decodes all sequences in one decoder of a model that has no parameters of its own.
 * Sequence i joins before step i (`round`) and leaves after its last word, so the steps
 * have different sets of sequences. */
static void read_together(const world *w, float (*logits)[WORDS][VOCAB])
{
    const pl_model_options options = {.batch = 1, .context = CONTEXT};
    OWNED(pl_model_destroy) pl_model *model;
    OWNED(pl_decoder_destroy) pl_decoder *d;
    int at[SLOTS] = {0}, n = 1;
    assert_ok(pl_model_create(w->be, w->t, &options, &model));
    assert_ok(pl_decoder_create(model, SLOTS, &d));
    for (int round = 0; n > 0; round++) {
        int32_t slots[SLOTS], tokens[SLOTS], who[SLOTS];
        static float out[SLOTS][VOCAB];
        if (round < SLOTS) {
            int32_t words[WORDS];
            at[round] = prompt_length(round);
            for (int k = 0; k < at[round]; k++)
                words[k] = word(round, k);
            pl_decoder_use(d, SLOTS - 1 - round, w->paths[path_of(w, round)]);
            assert_ok(pl_decoder_prefill(d, SLOTS - 1 - round, words, at[round],
                                         logits[round][at[round] - 1]));
        }
        n = 0;
        for (int i = 0; i < SLOTS && i <= round; i++) {
            if (at[i] == WORDS)
                continue;
            who[n] = i;
            slots[n] = SLOTS - 1 - i;
            tokens[n++] = word(i, at[i]);
        }
        if (n > 0)
            assert_ok(pl_decoder_step(d, slots, tokens, n, out[0]));
        for (int i = 0; i < n; i++)
            memcpy(logits[who[i]][at[who[i]]++], out[i], sizeof out[i]);
    }
    for (int i = 0; i < SLOTS; i++)
        assert_int_equal(pl_decoder_length(d, i), WORDS);
}

static void expect_same_bytes(pl_backend *be, int kind)
{
    OWNED(close_world) world w;
    float(*together)[WORDS][VOCAB] = calloc(SLOTS, sizeof *together);
    float(*alone)[VOCAB] = calloc(WORDS, sizeof *alone);
    open_world(&w, be, kind);
    read_together(&w, together);
    for (int i = 0; i < SLOTS; i++) {
        read_alone(&w, i, alone);
        for (int k = prompt_length(i) - 1; k < WORDS; k++)
            if (memcmp(alone[k], together[i][k], sizeof *alone) != 0)
                fail_msg("%s, topology %d: word %d of sequence %d has different logits "
                         "when other paths are decoded with it",
                         be->device, kind, k, i);
    }
    free(together), free(alone);
}

static void for_each_precision(void (*check)(pl_backend *be, int kind))
{
    static const char *const precisions[] = {"f32", "bf16", "int8", "f16"};
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < 4; i++)
            for (int threads = 1; threads < 3; threads++) {
                OWNED(pl_backend_close)
                pl_backend *be = open_side("cpu", precisions[i], threads);
                if (!be)
                    continue; /* this machine does not have the backend */
                check(be, kind);
            }
        OWNED(pl_backend_close) pl_backend *ref = open_side("ref", "f32", 1);
        check(ref, kind);
    }
}

PL_TEST(a_path_has_the_same_bytes_beside_other_paths)
{
    for_each_precision(expect_same_bytes);
}

/* Shows that the plan of a step is never reused for a step with other rows. For one to
 * four rows and all choices of their paths, a plan that is made after other plans must
 * equal a plan that is made alone, and the hashes of all plans must differ. */
PL_TEST(a_plan_belongs_to_its_rows)
{
    enum { PATHS = 4, POINTS = 5 };
    OWNED(pl_backend_close) pl_backend *ref = open_side("ref", "f32", 1);
    OWNED(close_world) world w;
    OWNED(decoder_rows_close) decoder_rows now;
    uint64_t hashes[PATHS * PATHS * (PATHS * PATHS + PATHS + 1) + PATHS];
    int n_hashes = 0;
    open_world(&w, ref, 0);
    for (int p = 0; p < PATHS; p++)
        w.paths[p]->number = (uint64_t)p + 1;
    decoder_rows_open(&now, 4);
    for (int n = 4, all = PATHS * PATHS * PATHS * PATHS; n > 0; n--, all /= PATHS)
        for (int code = 0; code < all; code++) {
            OWNED(decoder_rows_close) decoder_rows alone;
            decoder_rows_open(&alone, 4);
            now.n = alone.n = n;
            for (int i = 0, left = code; i < n; i++, left /= PATHS)
                now.paths[i] = alone.paths[i] = w.paths[left % PATHS];
            decoder_rows_plan(&now, 4);
            decoder_rows_plan(&alone, 4);
            assert_int_equal(now.n_arrangements, alone.n_arrangements);
            assert_memory_equal(now.at, alone.at, POINTS * sizeof *now.at);
            hashes[n_hashes++] = now.hash;
            for (int k = 0; k < n_hashes - 1; k++)
                assert_int_not_equal(hashes[k], now.hash);
        }
}

/* Shows that one model can compute one path after another: losses and features of each
 * path must equal those of a model that has loaded this path. */
static void expect_same_losses(pl_backend *be, int kind)
{
    OWNED(close_world) world w;
    OWNED(pl_model_destroy) pl_model *shared;
    int32_t tokens[WORDS], targets[WORDS], length = WORDS;
    const pl_model_options options = {.batch = 1, .context = CONTEXT};
    open_world(&w, be, kind);
    assert_true(pl_topology_shape(w.t)->width <= WIDTH_MAX);
    assert_ok(pl_model_create(be, w.t, &options, &shared));
    for (int k = 0; k < WORDS; k++) {
        tokens[k] = word(1, k);
        targets[k] = word(1, k + 1);
    }
    assert_int_equal(
        pl_model_losses(shared, tokens, targets, 1, WORDS, (float[WORDS]){0}),
        be->decode_only ? PL_ERR_UNSUPPORTED : PL_ERR_ARG);
    for (int p = 0; p < w.n_paths; p++) {
        float losses[2][WORDS] = {{0}}, features[2][WIDTH_MAX] = {{0}};
        OWNED(free_memory) float *params = path_params(w.t, p);
        OWNED(pl_model_destroy) pl_model *own = fresh_reader(w.t, be);
        assert_ok(pl_model_load(own, params));
        assert_ok(pl_model_use(shared, w.paths[p]));
        for (int side = 0; side < 2; side++) {
            pl_model *m = side ? shared : own;
            if (!be->decode_only)
                assert_ok(pl_model_losses(m, tokens, targets, 1, WORDS, losses[side]));
            assert_ok(pl_model_features(m, tokens, &length, 1, WORDS, features[side]));
        }
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
        assert_memory_equal(features[0], features[1], sizeof features[0]);
    }
}

PL_TEST(a_model_computes_paths_one_after_another)
{
    for_each_precision(expect_same_losses);
}

/* ---- memory ---- */
static uint64_t n_allocated;
static const pl_ops *counted;
static pl_status counting_alloc(pl_backend *be, size_t bytes, const char *what,
                                void **out)
{
    n_allocated += bytes;
    return counted->alloc(be, bytes, what, out);
}

PL_TEST(a_module_takes_the_bytes_that_are_planned)
{
    for (int kind = 0; kind < KINDS; kind++) {
        OWNED(pl_backend_close) pl_backend *ref = open_side("ref", "f32", 1);
        pl_ops ops = *ref->ops;
        const pl_model_options options = {.batch = 1, .context = CONTEXT};
        pl_model_plan plan;
        uint64_t all = 0, path = 0;
        world w;
        OWNED(pl_topology_destroy) pl_topology *t = make_topology(kind);
        for (int m = 0; m < pl_topology_n_modules(t); m++)
            all += pl_module_bytes(ref, t, pl_topology_module_slot(t, m));
        for (int slot = 0; slot < pl_topology_n_slots(t); slot++)
            path += pl_module_bytes(ref, t, slot);
        pl_model_plan_on(ref, t, &options, &plan);
        assert_int_equal(path, plan.params_bytes);
        assert_int_equal(all, 4 * pl_topology_total_params(t));
        counted = ref->ops;
        ops.alloc = counting_alloc;
        ref->ops = &ops;
        n_allocated = 0;
        open_world(&w, ref, kind); /* creates each module once, and all paths */
        assert_int_equal(n_allocated, all);
        close_world(&w);
        ref->ops = counted;
    }
}

PL_TEST(a_path_of_wrong_modules_is_refused)
{
    OWNED(pl_backend_close) pl_backend *ref = open_side("ref", "f32", 1);
    OWNED(close_world) world w;
    pl_path *path;
    open_world(&w, ref, 0);
    pl_module *twice[] = {w.modules[0], w.modules[1], w.modules[2], w.modules[5]};
    assert_int_equal(pl_path_create(w.t, twice, &path), PL_ERR_ARG);
    assert_null(path);
    pl_module *no_head[] = {w.modules[0], w.modules[1], w.modules[3], w.modules[0]};
    assert_int_equal(pl_path_create(w.t, no_head, &path), PL_ERR_ARG);
}
