/* The dial of `pathloom train`: measures the facts from which config/dial.c chooses,
 * and sets the chosen keys in the run. Keys that the user gave keep their values. If
 * such a key determines the model, the paths, the batch or the phases, the dial chooses
 * the remaining keys to fit it. Also chooses settings for a slow link. */
#include "measure/measure.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

bool train_dial_is_set(const train_dial *d)
{
    return d->time || d->tokens;
}

pl_status train_dial_read(train_dial *d, const char *file)
{
    int64_t n = 0;
    if (!train_dial_is_set(d) && !d->link)
        return PL_OK;
    if (d->time && d->tokens)
        return pl_fail(PL_ERR_USAGE, "--for and --tokens both set the length of the "
                                     "training; give one of them");
    if (file)
        return pl_fail(
            PL_ERR_USAGE,
            "--%s chooses keys that the file %s also sets; leave one of them out, or "
            "give single keys with --set",
            d->time     ? "for"
            : d->tokens ? "tokens"
                        : "link",
            file);
    if (d->link)
        PL_CHECK(slow_link_parse_rate(d->link, &d->link_bits));
    if (!train_dial_is_set(d))
        return PL_OK;
    if (d->time)
        return dial_parse_time(d->time, &d->seconds);
    if (pl_parse_int(d->tokens, &n) != PL_OK || n < 1)
        return pl_fail(PL_ERR_USAGE,
                       "--tokens takes a number of tokens, such as 20M, not `%.64s`",
                       d->tokens);
    d->n_tokens = (double)n;
    return PL_OK;
}

/* number of pairs that determine the shape of a model whose speed is measured */
enum { SHAPE_PAIRS = 2 };

/* ---- keys ---- */
/* Notes a chosen key and the reason, unless the user gave this key. */
static void choose_key(train_dial *d, const char *key, const char *value,
                       const char *why)
{
    dial_keys *k = &d->keys;
    if (given_sets(d->settings, key) || k->n == DIAL_KEYS_MAX)
        return;
    snprintf(k->pair[k->n], sizeof *k->pair, "%.31s=%.31s", key, value);
    pl_copy_text(k->why[k->n++], sizeof *k->why, why);
}

static void choose_int(train_dial *d, const char *key, int64_t value, const char *why)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    choose_key(d, key, text, why);
}

/* Sets in the run the keys that were chosen so far, then these KEY=VALUE pairs, and
 * then the user's pairs. Later pairs override earlier ones. */
static pl_status lay_before(const train_dial *d, pl_run *r, const char *const *pairs,
                            int n_pairs)
{
    const char *sets[DIAL_KEYS_MAX + SHAPE_PAIRS + GIVEN_PAIRS_MAX];
    int n = 0;
    for (int i = 0; i < d->keys.n; i++)
        sets[n++] = d->keys.pair[i];
    for (int i = 0; i < n_pairs; i++)
        sets[n++] = pairs[i];
    for (int i = 0; i < d->settings->n; i++)
        sets[n++] = d->settings->pairs[i];
    return run_lay(r, sets, n);
}

static pl_status lay_chosen(const train_dial *d, pl_run *r)
{
    return lay_before(d, r, NULL, 0);
}

/* ---- facts ---- */
static double seconds_left(const train_dial *d, const pl_run *r)
{
    return d->time ? fmax(d->seconds - (pl_now() - r->started), 1) : 0;
}

/* Measures the speed of the run's present model and stores it as the i-th speed: first
 * of the workers that train the base model, with the threads that they have for it,
 * then of all workers together. Each measurement takes 1/120 of the time that the user
 * gave, but at least 0.3 s and at most 5 s. */
static pl_status measure_speed(train_dial *d, const pl_run *r, int i)
{
    enum { WAYS = 2, SHARE = 60 };
    const config *c = &r->cfg;
    const double seconds = fmax(0.3, fmin(d->seconds / SHARE / WAYS, 5));
    dial_speed *s = &d->facts.speeds[i];
    s->flops = dial_flops((double)pl_topology_path_params(r->topology), c->width,
                          c->blocks, c->context);
    const int threads = (int)c->threads;
    const int alone = c->base_threads > 0 ? (int)c->base_threads : threads;
    const int n_base =
        c->base_replicas < r->n_workers ? (int)c->base_replicas : r->n_workers;
    const measured_workers some = {n_base, alone, r->n_gpus},
                           all = {r->n_workers, threads, r->n_gpus};
    PL_CHECK(measure_workers(c, &some, seconds, &s->alone));
    if (r->n_workers == n_base && alone == threads)
        s->together = s->alone;
    else
        PL_CHECK(measure_workers(c, &all, seconds, &s->together));
    /* With the same threads, fewer workers cannot be slower than all.
     * If they seem slower, other programs have disturbed the measurement. */
    if (alone == threads)
        s->alone = fmax(s->alone, s->together);
    PL_CHECK(run_stopped(r));
    d->facts.n_speeds = i + 1;
    return PL_OK;
}

/* Copies to d->facts what the user's keys say: model, paths, training, baselines. */
static void note_given(train_dial *d, const pl_run *r)
{
    static const char *const model_keys[] = {
        "preset",    "model.width",    "model.heads",     "model.blocks",
        "model.ffn", "model.kv_heads", "model.head_size", "model.import"};
    const config *c = &r->cfg;
    dial_facts *f = &d->facts;
    const bool preset = given_sets(d->settings, "preset");
    f->context = (int)c->context;
    f->muon = config_has_muon(c);
    f->base_replicas = c->base_replicas;
    bool is_model_given = false;
    for (size_t i = 0; i < sizeof model_keys / sizeof *model_keys; i++)
        is_model_given = is_model_given || given_sets(d->settings, model_keys[i]);
    if (is_model_given) {
        f->width = c->width;
        f->heads = c->heads;
        f->blocks = c->blocks;
        f->params = (double)pl_topology_path_params(r->topology);
    }
    if (preset || given_sets(d->settings, "topology.levels") ||
        given_sets(d->settings, "topology.replicas"))
        f->paths =
            pl_topology_n_paths(r->topology) * pl_topology_n_replicas(r->topology);
    f->batch = preset || given_sets(d->settings, "train.batch") ? c->batch : 0;
    f->tau = given_sets(d->settings, "train.tau") ? c->tau : 0;
    f->phases = given_sets(d->settings, "train.phases") ? c->phases : 0;
    f->base_steps = given_sets(d->settings, "train.base_steps") ? c->base_steps : 0;
    if (!given_sets(d->settings, "eval.baselines"))
        return;
    const bool batch = config_wants(c, "dense-batch"),
               equal = config_wants(c, "dense-eq");
    const bool diloco = config_wants(c, "diloco"), dense = config_wants(c, "dense");
    f->n_baselines = batch + equal + diloco + dense;
    f->baselines = batch + equal + diloco + 0.25 * dense;
    f->longest_baseline = batch || equal;
}

/* Refuses a text that is certainly too small. Before the text is read, its size is
 * known only if the corpus is a single .txt or .jsonl file. */
static pl_status check_size(const pl_run *r)
{
    struct stat file;
    const char *corpus = r->cfg.corpus;
    const bool plain = pl_ends_with(corpus, ".txt") || pl_ends_with(corpus, ".jsonl");
    uint64_t bytes = r->data.bytes;
    if (bytes == 0 && plain && stat(corpus, &file) == 0 && S_ISREG(file.st_mode))
        bytes = (uint64_t)file.st_size;
    if (bytes == 0 || bytes >= DIAL_LEAST_BYTES)
        return PL_OK;
    return pl_fail(PL_ERR_CONFIG,
                   "%s has %llu bytes of text, but --for and --tokens need at least 1 "
                   "MB; give more text, or set the keys yourself",
                   corpus, (unsigned long long)bytes);
}

static int64_t joined_processors(const pl_run *r)
{
    const int64_t all = r->n_workers * r->cfg.threads;
    return all < pl_cpu_count() ? all : pl_cpu_count();
}

pl_status train_dial_begin(train_dial *d, pl_run *r)
{
    const config *c = &r->cfg;
    int64_t vocab, bytes;
    char path[PL_PATH_MAX];
    pl_json *json = NULL;
    PL_CHECK(check_size(r));
    /* On processors Muon was better than AdamW after the same time
     * (docs/results/dial.md). A given learning rate is probably meant for AdamW. */
    if (r->n_gpus == 0 && !given_sets(d->settings, "preset") &&
        !given_sets(d->settings, "train.lr")) {
        choose_key(d, "train.optimizer", "muon",
                   "better than adamw after the same time");
        PL_CHECK(lay_chosen(d, r));
    }
    /* On processors, workers join their threads for the base model. Measurements of
     * threads come later (keep_base_threads), so this needs a time. */
    if (d->time && r->n_gpus == 0 && c->base_steps != 0) {
        static const char key[] = "train.base_replicas";
        const dial_team team =
            dial_base_team(joined_processors(r), c->threads,
                           given_sets(d->settings, key) ? c->base_replicas : 0);
        if (team.replicas > 1)
            choose_int(d, key, team.replicas,
                       "more workers would wait while one trains the base model");
        if (team.threads > c->threads)
            choose_int(d, "train.base_threads", team.threads,
                       "most workers wait while the base model is trained");
        PL_CHECK(lay_chosen(d, r));
    }
    note_given(d, r);
    d->facts.workers = r->n_workers > 0 ? r->n_workers : 1;
    /* Measures speeds before the text is known, if the user gave a time: the speed of
     * the user's model, or, if the user gave no model, of a small and of a larger
     * model. */
    static const char *const small[SHAPE_PAIRS] = {"model.width=64", "model.heads=2"},
                             *const large[SHAPE_PAIRS] = {"model.width=192",
                                                          "model.heads=6"};
    if (d->time && r->n_workers == 0)
        return pl_fail(PL_ERR_CONFIG,
                       "--for measures the speed of the workers of this machine, but "
                       "this job starts no workers here; use --tokens instead");
    if (d->time && d->facts.params > 0) {
        PL_CHECK(measure_speed(d, r, 0));
    } else if (d->time) {
        PL_CHECK(lay_before(d, r, small, SHAPE_PAIRS));
        PL_CHECK(measure_speed(d, r, 0));
        PL_CHECK(lay_before(d, r, large, SHAPE_PAIRS));
        PL_CHECK(measure_speed(d, r, 1));
    }
    d->facts.seconds = seconds_left(d, r);
    d->facts.n_tokens = d->n_tokens;
    dial_text(&d->facts, &vocab, &bytes);
    /* Uses the values with which an earlier command made the data folder, if any. */
    if (pl_path_exists(run_file(r, "data/data.json", path)) &&
        pl_json_load(path, &json) == PL_OK) {
        const pl_json *options = pl_json_get(json, "options");
        const char *words[2] = {pl_json_text(pl_json_get(options, "vocab"), NULL),
                                pl_json_text(pl_json_get(options, "max_bytes"), NULL)};
        int64_t *const into[2] = {&vocab, &bytes};
        for (int i = 0; i < 2; i++)
            if (words[i])
                (void)!pl_parse_int(words[i], into[i]);
    }
    pl_json_destroy(&json);
    if (!given_sets(d->settings, "preset") &&
        !given_sets(d->settings, "data.tokenizer") &&
        !given_sets(d->settings, "model.import"))
        choose_int(d, "data.vocab", vocab, "fits the size of the model");
    choose_int(d, "data.max_bytes", bytes,
               d->time ? "more text would take more than a tenth of the time to read"
                       : "more text would not be used");
    return lay_chosen(d, r);
}

/* ---- the choice ---- */
/* fewest blocks for two levels and a private block at each end */
enum { LEAST_BLOCKS = 4 };

static void choose_keys(train_dial *d, const dial_choice *c, int n_before)
{
    char why[112], ends[32], lr[32], human[2][16];
    d->keys.n = n_before;
    snprintf(why, sizeof why,
             "%s parameters per path, %.1f tokens per parameter: %.2f bits per byte "
             "expected",
             pl_human_count(c->params, human[0]), c->tokens / c->params, c->bits);
    if (d->facts.width == 0) {
        choose_int(d, "model.width", c->width, why);
        snprintf(why, sizeof why, "the width of each attention head is %lld",
                 (long long)(c->width / c->heads));
        choose_int(d, "model.heads", c->heads, why);
        choose_int(d, "model.blocks", c->blocks, "fits the width");
    }
    if (d->facts.paths == 0) {
        snprintf(why, sizeof why,
                 "%lld paths: best for this number of tokens and %.0f documents",
                 (long long)c->paths, d->facts.documents);
        choose_key(d, "topology.levels",
                   c->paths == 2   ? "2"
                   : c->paths == 4 ? "2x2"
                   : c->paths == 8 ? "2x4"
                                   : "4x4",
                   why);
    }
    if (!given_sets(d->settings, "preset") && c->blocks >= LEAST_BLOCKS) {
        snprintf(ends, sizeof ends, "0,%lld", (long long)c->blocks - 1);
        choose_key(d, "topology.private", ends,
                   "each path has its own first and last block");
    }
    choose_int(d, "train.batch", c->batch,
               "8 sequences if the training has up to 30M tokens, else more");
    snprintf(lr, sizeof lr, "%.3g", c->lr);
    choose_key(d, "train.lr", lr, "lower for wider models, higher for larger batches");
    choose_int(
        d, "train.base_steps", c->base_steps,
        c->base_steps > c->paths * c->tau * c->phases
            ? "paths read their text about twice; other steps go to the base model"
        : c->base_steps < c->paths * c->tau * c->phases
            ? "short, because most workers wait while the base model is trained"
            : "half of all tokens train the base model");
    choose_int(d, "train.tau", c->tau, "longer trainings have longer phases");
    snprintf(why, sizeof why, "%s tokens in all, %.1f passes over the text%s%s",
             pl_human_count(c->tokens, human[0]), c->epochs, d->time ? ": about " : "",
             d->time ? pl_human_seconds(c->seconds, human[1]) : "");
    choose_int(d, "train.phases", c->phases, why);
    choose_key(d, "eval.baselines", "none",
               "baselines would take time from the mixture");
    if (d->time && (double)c->eval_tokens < d->facts.valid_tokens)
        choose_int(d, "eval.max_tokens", c->eval_tokens,
                   "scoring takes at most a twentieth of the time");
}

/* Returns the place of a key among those that were chosen, or their number. */
static int place_of(const dial_keys *k, const char *key)
{
    int i = 0;
    while (i < k->n && !pl_starts_with(k->pair[i], key))
        i++;
    return i;
}

/* Takes train.base_threads back if the chosen model gains less than a tenth by it, and
 * measures again. The processors then train more replicas of the base model. */
static pl_status keep_base_threads(train_dial *d, pl_run *r)
{
    static const char threads[] = "train.base_threads",
                      replicas[] = "train.base_replicas";
    const dial_speed *s = &d->facts.speeds[0];
    dial_keys *k = &d->keys;
    const int i = place_of(k, threads);
    int at = place_of(k, replicas);
    if (i == k->n || s->alone >= 1.1 * s->together)
        return PL_OK;
    snprintf(k->pair[i], sizeof k->pair[i], "%s=0", threads);
    pl_copy_text(k->why[i], sizeof k->why[i],
                 "more threads would not train the base model faster");
    if (!given_sets(d->settings, replicas)) {
        at = at == k->n ? i : at; /* takes the place of threads=0, the default */
        snprintf(k->pair[at], sizeof k->pair[at], "%s=%lld", replicas,
                 (long long)(joined_processors(r) / r->cfg.threads));
        pl_copy_text(k->why[at], sizeof k->why[at],
                     "more threads would not train the base model faster");
    }
    PL_CHECK(lay_chosen(d, r));
    d->facts.base_replicas = r->cfg.base_replicas;
    return measure_speed(d, r, 0);
}

/* Chooses the model by the speeds that were measured before the text was known. Then,
 * if the user gave a time, measures the speed of the chosen model, because the length
 * of the training depends on this speed. Finally, chooses the training. */
pl_status train_dial_finish(train_dial *d, pl_run *r)
{
    dial_facts *f = &d->facts;
    dial_choice *c = &d->choice;
    const int n_before = d->keys.n;
    PL_CHECK(check_size(r));
    f->tokens = (double)pl_tokens_count(r->train);
    f->documents = pl_tokens_n_docs(r->train);
    f->valid_tokens = (double)pl_tokens_count(r->valid);
    f->vocab = (int)r->cfg.vocab;
    f->seconds = seconds_left(d, r);
    dial_choose(f, c);
    choose_keys(d, c, n_before);
    PL_CHECK(lay_chosen(d, r));
    if (d->time) {
        PL_CHECK(measure_speed(d, r, 0));
        PL_CHECK(keep_base_threads(d, r));
    }
    dial_facts measured = *f;
    measured.seconds = seconds_left(d, r);
    measured.width = c->width;
    measured.heads = c->heads;
    measured.blocks = c->blocks;
    measured.params = (double)pl_topology_path_params(r->topology);
    measured.paths = c->paths;
    dial_choose(&measured, c);
    choose_keys(d, c, n_before);
    f->seconds = measured.seconds;
    /* more than about this many passes over the text gain nothing (arXiv:2305.16264) */
    enum { PASSES_MAX = 40 };
    char human[4][16];
    if (d->time)
        say("dial     %s, of which %s are left; %d worker%s: %s tokens/s each on the "
            "base model, %s each if all work",
            pl_human_seconds(d->seconds, human[0]),
            pl_human_seconds(f->seconds, human[1]), f->workers,
            f->workers == 1 ? "" : "s", pl_human_count(f->speeds[0].alone, human[2]),
            pl_human_count(f->speeds[0].together, human[3]));
    else
        say("dial     %s tokens", pl_human_count(d->n_tokens, human[0]));
    for (int i = 0; i < d->keys.n; i++)
        say("         %-26s %s", d->keys.pair[i], d->keys.why[i]);
    if (c->epochs > PASSES_MAX)
        say("note     the training reads the text %.0f times; more text would help "
            "more than more training",
            c->epochs);
    if (c->short_of_time)
        say("note     the smallest run takes about %s, which is more time than is left",
            pl_human_seconds(c->seconds, human[0]));
    PL_CHECK(lay_chosen(d, r));
    d->chosen = true;
    d->part_began = pl_now();
    return PL_OK;
}

/* ---- a slow link ---- */
pl_status train_link_choose(train_dial *d, pl_run *r)
{
    enum { MEASURED_MS = 500 };
    const config *c = &r->cfg;
    double bytes[2] = {0, 0}, rate = 0;
    const int n_before = d->keys.n;
    pl_outer outer;
    PL_CHECK(config_outer(c, &outer));
    const char *why = c->keep_states ? "store.keep_states needs every state" : NULL;
    if (!pl_phase_repeats(&outer))
        why = "the states of this outer.method, or train.state=local, cannot be made "
              "again";
    if (why) {
        say("link     %s: no key is chosen, because %s", d->link, why);
        return PL_OK;
    }
    /* the inner steps of a phase, for one worker alone */
    const measured_workers one = {1, (int)c->threads, r->n_gpus};
    PL_CHECK(measure_workers(c, &one, 1e-3 * MEASURED_MS, &rate));
    const double steps_s =
        (double)c->tau * (double)c->batch * (double)c->context / rate;
    for (int level = 0; level < SLOW_LINK_LEVELS; level++) {
        for (int i = 0; i < SLOW_LINK_PAIRS_MAX && slow_link_levels[level].key[i]; i++)
            choose_key(d, slow_link_levels[level].key[i],
                       slow_link_levels[level].value[i], "for --link");
        if (level > 0)
            PL_CHECK(lay_chosen(d, r));
        PL_CHECK(slow_link_phase_bytes(c, r->topology, &bytes[level > 0]));
        if (level == 0)
            bytes[1] = bytes[0];
        if (8 * bytes[1] / d->link_bits <= steps_s)
            break;
    }
    char text[5][16], pairs[256] = "";
    for (int i = n_before; i < d->keys.n; i++)
        snprintf(pairs + strlen(pairs), sizeof pairs - strlen(pairs), " %s",
                 d->keys.pair[i]);
    double before_s = 8 * bytes[0] / d->link_bits, now_s = 8 * bytes[1] / d->link_bits;
    say("link     %s: a phase of a path has %s of steps (on this machine), and its %s "
        "take %s",
        d->link, pl_human_seconds(steps_s, text[0]), pl_human_bytes(bytes[0], text[1]),
        pl_human_seconds(before_s, text[2]));
    if (!pairs[0])
        say("         so no key changes%s", before_s <= steps_s ? "" : " more");
    else
        say("         so%s: %s take %s", pairs, pl_human_bytes(bytes[1], text[3]),
            pl_human_seconds(now_s, text[4]));
    if (now_s > steps_s)
        say("note     the link still takes longer than the steps; phases with %.0f "
            "times the steps (train.tau) would hide it",
            now_s / steps_s);
    return PL_OK;
}

/* ---- the account ---- */
void train_dial_mark(train_dial *d, dial_part part)
{
    const double now = pl_now();
    d->part_took[part] = now - d->part_began;
    d->part_began = now;
}

void train_dial_account(const train_dial *d)
{
    pl_buf text = {0};
    char human[2][16];
    double took = 0;
    if (!d->chosen || !d->time)
        return;
    for (int i = 0; i < DIAL_PARTS; i++) {
        pl_buf_printf(&text, "%s%s %s of %s", i > 0 ? ", " : "", dial_part_names[i],
                      pl_human_seconds(d->part_took[i], human[0]),
                      pl_human_seconds(d->choice.part[i], human[1]));
        took += d->part_took[i];
    }
    say("dial     took %s of %s planned: %s", pl_human_seconds(took, human[0]),
        pl_human_seconds(d->choice.seconds, human[1]), pl_buf_text(&text));
    pl_buf_destroy(&text);
}
