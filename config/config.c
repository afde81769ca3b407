/* Reads the values of a run's keys, combines, derives and checks them. The comment at
 * the top of settings.h describes the order of these steps. */
#include "config/settings.h"
#include "serve/serve.h"
#include <stdlib.h>
#include <math.h>

/* the number of windows for router.sees=-1 in a run that answers by likelihood */
enum { DEALING_WINDOWS = 4 };

bool config_pair_is_local(const char *pair)
{
    size_t len = strcspn(pair, "=");
    for (size_t i = 0; i < config_table.n_keys; i++) {
        const pl_key *key = &config_table.keys[i];
        if (strlen(key->name) == len && memcmp(key->name, pair, len) == 0)
            return key->local;
    }
    return false;
}

/* differs: NULL if the file is not the saved configuration of a run */
static pl_status lay(config *c, const char *file, const char *const *sets, int n_sets,
                     const pl_gone **differs)
{
    if (file && differs)
        PL_CHECK(pl_conf_load_saved(&config_table, c, file, differs));
    else if (file) {
        const pl_status status = pl_conf_load(&config_table, c, file);
        if (status != PL_OK && !pl_ends_with(file, ".yaml") &&
            !pl_ends_with(file, ".yml"))
            return pl_fail_in(
                status, "%.128s is read as a configuration (text: --corpus)", file);
        PL_CHECK(status);
    }
    for (int i = 0; i < n_sets; i++)
        PL_CHECK(pl_conf_set_pair(&config_table, c, sets[i], "--set"));
    return PL_OK;
}

pl_status config_lay(config *c, const char *file, const char *const *sets, int n_sets)
{
    return lay(c, file, sets, n_sets, NULL);
}

static void fill_derived(config *c)
{
    if (c->head_size == 0 && c->heads > 0)
        c->head_size = c->width / c->heads;
    if (c->kv_heads == 0)
        c->kv_heads = c->heads;
    if (c->ffn == 0)
        c->ffn = (c->width * 8 / 3 + 7) / 8 * 8;
    /* The mean of replicas has less noise than the parameters of each, so the base
     * model's replicas take larger steps, as a larger batch does
     * (docs/results/speedup.md). */
    if (c->base_lr == 0)
        c->base_lr = c->lr * fmin(2, sqrt((double)c->base_replicas));
    if (c->lr_floor < 0)
        c->lr_floor = strcmp(c->schedule, "wsd") == 0 ? 0 : 0.1;
    /* if topology.levels cannot be parsed, config_check reports that error */
    if (c->sees < 0) {
        pl_topology_spec spec;
        const bool by_likelihood =
            config_spec(c, &spec) == PL_OK &&
            pl_answers_by_likelihood(c->answer, (int)c->prefix,
                                     pl_topology_spec_n_paths(&spec));
        c->sees = by_likelihood ? DEALING_WINDOWS : 0;
    }
}

void config_leave_derived(config *c)
{
    config derived = *c;
    derived.ffn = 0;
    derived.base_lr = 0;
    derived.lr_floor = -1;
    derived.sees = -1;
    fill_derived(&derived);
    if (c->head_size * c->heads == c->width)
        c->head_size = 0;
    if (c->kv_heads == c->heads)
        c->kv_heads = 0;
    if (c->ffn == derived.ffn)
        c->ffn = 0;
    if (c->base_lr == derived.base_lr)
        c->base_lr = 0;
    if (c->lr_floor == derived.lr_floor)
        c->lr_floor = -1;
    if (c->sees == derived.sees)
        c->sees = -1;
}

/* If both names lead to the same file, keeps the spelling stored in the run. */
static void keep_path(const config_text own, config_text given)
{
    if (strcmp(own, "-") == 0 || strcmp(given, "-") == 0)
        return;
    char *was = realpath(own, NULL), *is = realpath(given, NULL);
    if (was && is && strcmp(was, is) == 0)
        pl_copy_text(given, sizeof(config_text), own);
    free(was);
    free(is);
}

void config_keep_own(const config *own, config *c)
{
    fill_derived(c);
    keep_path(own->corpus, c->corpus);
    keep_path(own->valid, c->valid);
    keep_path(own->tokenizer, c->tokenizer);
    keep_path(own->import, c->import);
}

pl_status config_build_saved(const char *file, const char *const *sets, int n_sets,
                             config *out, const pl_gone **differs)
{
    config preset = {0};
    memset(out, 0, sizeof *out);
    pl_conf_defaults(&config_table, out);
    PL_CHECK(lay(out, file, sets, n_sets, differs));
    pl_conf_defaults(&config_table, &preset);
    pl_copy_text(preset.preset, sizeof preset.preset, out->preset);
    PL_CHECK(config_apply_preset(&preset));
    *out = preset;
    PL_CHECK(lay(out, file, sets, n_sets, differs));
    /* If the user changes width, heads or blocks, the preset's values that depend on
     * them no longer fit. */
    if (out->width != preset.width || out->heads != preset.heads)
        preset.head_size = preset.ffn = preset.kv_heads = 0;
    if (out->blocks != preset.blocks)
        preset.private_blocks[0] = preset.level_blocks[0] = '\0';
    *out = preset;
    PL_CHECK(lay(out, file, sets, n_sets, differs));
    fill_derived(out);
    fill_derived(&preset);
    /* A file that `pathloom init` made sets all keys. If a user changes only the preset
     * in such a file, the new preset would have no effect, so this is an error. */
    config laptop = {0};
    int n_set = 0, n_used = 0;
    pl_conf_defaults(&config_table, &laptop);
    /* the default of the key `preset` is laptop */
    PL_CHECK(config_apply_preset(&laptop));
    fill_derived(&laptop);
    for (size_t i = 0; i < config_table.n_keys; i++) {
        pl_table one = {.keys = &config_table.keys[i], .n_keys = 1};
        if (one.keys->type == PL_KEY_SECTION || strcmp(one.keys->name, "preset") == 0 ||
            !pl_conf_difference(&one, &preset, &laptop))
            continue;
        n_set++;
        n_used += !pl_conf_difference(&one, &preset, out);
    }
    if (n_set > 0 && n_used == 0)
        return pl_fail(PL_ERR_CONFIG,
                       "preset %s has no effect, because all %d keys that it sets are "
                       "also set separately; delete the lines of these keys, or make a "
                       "new file with `pathloom init --set preset=%s`",
                       out->preset, n_set, out->preset);
    return config_check(out);
}

pl_status config_build(const char *file, const char *const *sets, int n_sets,
                       config *out)
{
    return config_build_saved(file, sets, n_sets, out, NULL);
}

/* ---- checks and derived values ---- */
const char *const config_baselines[CONFIG_BASELINES] = {"dense", "diloco", "dense-eq",
                                                        "dense-batch"};

bool config_is_baseline(const char *name)
{
    for (int i = 0; i < CONFIG_BASELINES; i++)
        if (strcmp(name, config_baselines[i]) == 0)
            return true;
    return false;
}

bool config_wants(const config *c, const char *baseline)
{
    char copy[PL_KEY_TEXT_MAX], *rest = copy;
    pl_copy_text(copy, sizeof copy, c->baselines);
    for (char *word; (word = strtok_r(rest, ", ", &rest));)
        if (strcmp(word, baseline) == 0)
            return true;
    return false;
}

pl_status config_check_answer(const char *option, const char *value)
{
    config scratch;
    pl_status status =
        pl_conf_set(&config_table, &scratch, "router.answer", value, option);
    return status == PL_OK ? PL_OK
                           : pl_fail(PL_ERR_USAGE,
                                     "%s takes auto, router or likelihood, not `%.64s`",
                                     option, value);
}

bool config_has_muon(const config *c)
{
    return strcmp(c->optimizer, "muon") == 0;
}

int config_pass(const config *c)
{
    bool splits = c->micro_batch > 0 && c->micro_batch < c->batch;
    return (int)(splits ? c->micro_batch : c->batch);
}

int64_t config_base_tau(int64_t replicas, int64_t tau)
{
    enum { REPLICAS_TAU = 10 };
    return replicas > 1 && tau > REPLICAS_TAU ? REPLICAS_TAU : tau;
}

int config_feature_prefix(const config *c)
{
    return (int)(c->sees > 0 ? c->context : c->prefix);
}

pl_status config_shape(const config *c, pl_shape *out)
{
    memset(out, 0, sizeof *out);
    out->vocab = (int)c->vocab;
    out->width = (int)c->width;
    out->n_heads = (int)c->heads;
    out->n_kv_heads = (int)c->kv_heads;
    out->head_size = (int)c->head_size;
    out->ffn = (int)c->ffn;
    out->n_blocks = (int)c->blocks;
    out->context = (int)c->context;
    out->tied = c->tied;
    out->qk_norm = c->qk_norm;
    out->rope_theta = c->rope_theta;
    out->norm_eps = c->norm_eps;
    if (c->heads > 0 && c->head_size * c->heads != c->width && c->width % c->heads != 0)
        return pl_fail(PL_ERR_CONFIG,
                       "model.width %lld is not divisible by model.heads %lld; change "
                       "one, or give model.head_size",
                       (long long)c->width, (long long)c->heads);
    pl_status status = pl_shape_check(out);
    return status == PL_OK ? status : pl_fail_in(status, "model");
}

static int choice_of(const char *text, int level)
{
    if (strcmp(text, "private") == 0)
        return PL_CHOICE_PRIVATE;
    return strcmp(text, "level") == 0 ? level : PL_CHOICE_COMMON;
}

pl_status config_spec(const config *c, pl_topology_spec *out)
{
    memset(out, 0, sizeof *out);
    PL_CHECK(pl_topology_parse_levels(c->levels, out));
    const int n_levels = out->n_levels;
    char copy[PL_KEY_TEXT_MAX], *rest = copy;
    int n = 0;
    int64_t sum = 0;
    pl_copy_text(copy, sizeof copy, c->level_blocks);
    for (char *word; (word = strtok_r(rest, ", ", &rest));) {
        int64_t value = 0;
        if (pl_parse_int(word, &value) != PL_OK || value < 1 || value > PL_BLOCKS_MAX ||
            n == n_levels)
            return pl_fail(PL_ERR_CONFIG,
                           "topology.blocks `%s`: give %d numbers of blocks, one per "
                           "level, each 1 or more",
                           c->level_blocks, n_levels);
        out->blocks[n++] = (int)value;
        sum += value;
    }
    if (n != 0 && n != n_levels)
        return pl_fail(PL_ERR_CONFIG,
                       "topology.blocks `%s` has %d numbers for %d levels; give one "
                       "number per level",
                       c->level_blocks, n, n_levels);
    /* pl_topology_create would find these errors, too, but would not name the keys */
    if (sum == 0 && c->blocks % n_levels != 0)
        return pl_fail(PL_ERR_CONFIG,
                       "%lld blocks (model.blocks) do not split evenly into %d "
                       "levels (topology.levels %s); set model.blocks=%lld, or give "
                       "the blocks of each level as topology.blocks",
                       (long long)c->blocks, n_levels, c->levels,
                       (long long)((c->blocks + n_levels - 1) / n_levels * n_levels));
    if (sum != 0 && sum != c->blocks)
        return pl_fail(PL_ERR_CONFIG,
                       "topology.blocks %s has %lld blocks in all, but model.blocks is "
                       "%lld; make them equal",
                       c->level_blocks, (long long)sum, (long long)c->blocks);
    PL_CHECK(pl_topology_parse_private(c->private_blocks, (int)c->blocks, out));
    out->embed_choice = choice_of(c->embed, 1);
    out->head_choice = choice_of(c->head, out->n_levels);
    out->replicas = (int)c->replicas;
    return PL_OK;
}

void config_hash(const config *c, pl_hash *out)
{
    pl_buf text = {0};
    pl_conf_canonical(&config_table, c, &text);
    pl_hash_of("config", text.data, text.len, out);
    pl_buf_destroy(&text);
}

bool config_encrypts(const config *c)
{
    pl_address hub, home;
    if (strcmp(c->encrypt, "auto") != 0)
        return strcmp(c->encrypt, "on") == 0;
    return pl_address_parse(c->hub_bind, &hub) != PL_OK || !hub.is_local ||
           pl_address_parse(c->home_bind, &home) != PL_OK || !home.is_local;
}

static pl_status check_listener(const config *c, const char *key, const char *text)
{
    pl_address at;
    pl_status status = pl_address_parse(text, &at);
    if (status != PL_OK)
        return pl_fail_in(PL_ERR_CONFIG, "%s", key);
    if (!at.is_local && strcmp(c->encrypt, "off") == 0)
        return pl_fail(
            PL_ERR_CONFIG,
            "%s is %s, which other machines can reach, but net.encrypt is off; "
            "set net.encrypt=auto, or listen on loopback or ipc",
            key, text);
    return PL_OK;
}

/* Checks that the chapters fit the outer method, the schedules and the other keys. All
 * chapters except those of train.more share one schedule. */
static pl_status check_chapters(const config *c, const config_chapter *chapters, int n,
                                const pl_outer *outer, int n_paths)
{
    int last = 0;
    /* splits: a chapter has different paths than the chapter before it; grows: such a
     * chapter begins before train.phases are over */
    bool splits = false, deals = false, grows = false, grafts = false;
    const char *change = ""; /* the key that changed the topology last */
    for (int i = 1; i < n; i++) {
        last = chapters[i].more ? last : i;
        splits = splits || chapters[i].splits;
        grows = grows || (chapters[i].splits && !chapters[i].more);
        deals = deals || chapters[i].deals;
        grafts = grafts || chapters[i].descent.n_parents > 0;
        if (chapters[i].splits || chapters[i].descent.n_parents > 0)
            change =
                chapters[i].descent.n_parents > 0 ? "topology.graft" : "topology.split";
    }
    const char *key = deals              ? "router.em"
                      : splits || grafts ? change
                      : c->more[0]       ? "train.more"
                      : n > 1            ? "train.freeze"
                                         : NULL;
    const pl_arm arm = {.outer = *outer};
    if (key && pl_path_layout_of(&arm).params >= 0)
        return pl_fail(PL_ERR_CONFIG,
                       "%s cannot be used with outer.method=%s, whose paths keep "
                       "parameters of their own; use another method",
                       key, c->method);
    if (deals && n_paths < 2)
        return pl_fail(PL_ERR_CONFIG,
                       "router.em deals documents to the paths again, but "
                       "topology.levels makes only one path; make router.em empty");
    if (n > 1 && strcmp(c->schedule, "wsd") != 0)
        return pl_fail(PL_ERR_CONFIG,
                       "%s needs train.schedule=wsd, because only this schedule "
                       "continues from one chapter to the next",
                       key);
    double left = (double)(c->phases - chapters[last].begin);
    if (left < (double)c->phases * c->decay_share)
        return pl_fail(PL_ERR_CONFIG,
                       "%s: after phase %lld only %.0f of %lld phases are left, "
                       "but the learning rate falls during the last %g of them "
                       "(train.decay); use an earlier phase or a smaller train.decay",
                       key, (long long)chapters[last].begin, left, (long long)c->phases,
                       (double)c->phases * c->decay_share);
    if (splits && !grows && c->holdout > 0)
        return pl_fail(PL_ERR_CONFIG,
                       "a run with train.holdout=%g cannot use %s, because the new "
                       "paths would have no hold-out; lengthen the run without %s, or "
                       "begin a new run with train.holdout=0",
                       c->holdout, change, change);
    if (splits && c->holdout > 0)
        return pl_fail(PL_ERR_CONFIG,
                       "train.holdout cannot be used with %s, because the new paths "
                       "would have no hold-out; set train.holdout=0",
                       change);
    if (c->holdout > 0 && !pl_versions_have_phases(outer))
        return pl_fail(PL_ERR_CONFIG,
                       "train.holdout cannot be used with outer.method=%s, whose "
                       "versions belong to no phase; set train.holdout=0",
                       c->method);
    if (splits && c->overlap > 1)
        return pl_fail(PL_ERR_CONFIG,
                       "%s deals each document of a path to only one of the paths that "
                       "replace this path; set router.overlap=1",
                       change);
    if (grows && (config_wants(c, "diloco") || config_wants(c, "dense-batch")))
        return pl_fail(PL_ERR_CONFIG,
                       "%s changes the number of paths, which the baselines "
                       "diloco and dense-batch cannot follow; set "
                       "eval.baselines=dense,dense-eq",
                       change);
    return PL_OK;
}

pl_status config_check(const config *c)
{
    pl_shape shape;
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    pl_topology *topology = NULL;
    pl_outer outer;
    PL_CHECK(check_listener(c, "net.hub", c->hub_bind));
    PL_CHECK(check_listener(c, "net.home", c->home_bind));
    char copy[PL_KEY_TEXT_MAX], *rest = copy;
    pl_copy_text(copy, sizeof copy, c->baselines);
    for (char *word; (word = strtok_r(rest, ", ", &rest));)
        if (!config_is_baseline(word) && strcmp(word, "none") != 0)
            return pl_fail(PL_ERR_CONFIG,
                           "eval.baselines: unknown baseline `%s`; known are dense, "
                           "diloco, dense-eq, dense-batch and none",
                           word);
    if (c->base_steps == 0 && !c->import[0])
        return pl_fail(PL_ERR_CONFIG,
                       "train.base_steps is 0, so the paths would start from random "
                       "weights; set it to 1 or more, or set model.import");
    PL_CHECK(pl_store_check_engine(c->engine, NULL));
    if (c->homes > 1 && c->relays > 0)
        return pl_fail(
            PL_ERR_CONFIG,
            "workers.relay is %lld with %lld homes, but a relay serves only one "
            "home: set workers.relay=0 and start `pathloom relay` by hand "
            "for each home",
            (long long)c->relays, (long long)c->homes);
    PL_CHECK(config_outer(c, &outer));
    PL_CHECK(config_shape(c, &shape));
    int n_chapters = 0, n_paths = 0;
    PL_CHECK(config_chapters(c, chapters, &n_chapters));
    for (int i = n_chapters - 1; i >= 0; i--) {
        pl_status status = pl_topology_create(&shape, &chapters[i].spec, &topology);
        if (status != PL_OK)
            return pl_fail_in(status, chapters[i].descent.n_parents > 0
                                          ? "topology.graft"
                                      : chapters[i].splits ? "topology.split"
                                                           : "topology");
        n_paths = pl_topology_n_paths(topology);
        pl_topology_destroy(&topology);
        if ((int64_t)n_paths * c->replicas > PL_TASKS_MAX ||
            (int64_t)n_paths * c->vocab > PL_PREFIX_LM_CELLS_MAX)
            return pl_fail(
                PL_ERR_CONFIG,
                "%d paths of %lld replicas with a vocabulary of %lld are too many: "
                "paths x replicas may be at most %d, and paths x vocabulary at most "
                "%d; use fewer paths or a smaller data.vocab",
                n_paths, (long long)c->replicas, (long long)c->vocab, (int)PL_TASKS_MAX,
                (int)PL_PREFIX_LM_CELLS_MAX);
    }
    if (c->prefix >= c->context)
        return pl_fail(PL_ERR_CONFIG,
                       "router.prefix %lld must be smaller than model.context %lld, or "
                       "no token is left to predict; make the context longer or the "
                       "prefix shorter",
                       (long long)c->prefix, (long long)c->context);
    PL_CHECK(check_chapters(c, chapters, n_chapters, &outer, n_paths));
    /* A frozen module gets no version after its first. Methods whose paths have private
     * parameters, and methods that count arrivals, need further versions. */
    if (c->freeze[0] && !pl_versions_suffice(&outer))
        return pl_fail(
            PL_ERR_CONFIG,
            "train.freeze cannot be used with outer.method=%s, which needs new "
            "versions of every module; use diloco, fedavg, heavy-ball or co2",
            c->method);
    /* checks the list of each chapter */
    for (int i = 0; c->freeze[0] && i < n_chapters; i++) {
        bool *frozen = NULL;
        PL_CHECK(config_frozen(c, i, &frozen));
        pl_free(frozen);
    }
    if (c->overlap > n_paths)
        return pl_fail(PL_ERR_CONFIG,
                       "router.overlap is %lld, but there are only %d paths; lower it",
                       (long long)c->overlap, n_paths);
    return PL_OK;
}
