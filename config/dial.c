/* Chooses model, paths and training from time, text and speed (dial.h). */
#include "config/dial.h"
#include <math.h>

/* ---- predicting bits per byte ---- */
static const double E_BITS = 0.94, A = 0.30, A_POWER = 0.5, B = 1.30, B_POWER = 0.35;
/* GAIN: the bits per byte that the mixture gains per doubling of its paths and per
 * doubling of its tokens per parameter beyond EVEN. EVEN: the binary logarithm of the
 * tokens per parameter at which the mixture gains nothing. */
static const double GAIN = 0.009, EVEN = 1.9;
/* The binary logarithm of the largest number of tokens per parameter that was measured.
 * For larger numbers, the gain is assumed to stay the same. */
static const double MOST = 4.6;
static const double REPEATS = 15;
/* how often a path reads a shard of mean size, before it learns it by heart */
static const double PATH_EPOCHS = 2;
/* The base model's least tokens per parameter, unless half of all are less. */
static const double BASE_TOKENS = 0.9;
/* The number of tokens of AdamW that one token of Muon is worth. */
static const double MUON_TOKENS = 1.3;

/* A worker's fraction of time in training, apart from pauses between tasks. */
static const double BUSY = 0.97;
/* The seconds between two tasks of a worker: its update and its moments are sent and
 * merged, and it gets new parameters. PER_TASK: of every task; PER_PARAM: per parameter
 * of a path. OF_BASE: the base model's share of such a time per train.tau steps; its
 * tasks are longer. */
static const double PER_TASK = 0.08, PER_PARAM = 4e-8, OF_BASE = 0.12;
/* The time between two tasks takes at most about this fraction of a task's time. */
static const double EXCHANGE = 0.2;
/* An evaluation's forward pass is this many times as fast as a training step. */
static const double FORWARD = 3;
/* Windows slide by half a context: tokens read per token that counts. */
static const double SLIDING = 2;
/* The fraction of the given time that evaluation may take. */
static const double EVALUATION = 0.05;
/* Seconds: START of processes, FIT of a router, END with samples. */
static const double START = 0.5, FIT = 0.5, END = 0.8;
enum { LEAST_STEPS = 20, LEAST_EVALUATION = 20000 };
/* The largest values of train.base_steps, train.tau and train.phases. */
static const double STEPS_MAX = 1e9, TAU_MAX = 1e6, PHASES_MAX = 1e6;
/* READING: the fraction of the given time in which text may be read. READ_BYTES: the
 * largest number of bytes that are read and encoded per second. READ_PER_TOKEN: the
 * number of bytes that are read in the time in which a worker trains a small model
 * (SMALL_FLOPS) on one token; a slow machine also reads slowly. BYTES_PER_TOKEN: the
 * number of bytes of text per token. */
static const double READING = 0.1, READ_BYTES = 3e6, READ_PER_TOKEN = 30,
                    BYTES_PER_TOKEN = 3, SMALL_FLOPS = 2.2e6;
/* A path's shard needs at least this many documents. */
enum { DOCUMENTS_PER_PATH = 50 };

/* Shapes from which `train --for` and `--tokens` choose, each with AdamW's peak
 * learning rate for 1,024 tokens per step. */
typedef struct dial_rung {
    int64_t width, heads, blocks, vocab;
    double lr;
} dial_rung;
static const dial_rung rungs[] = {{64, 2, 4, 2048, 4e-3},  {96, 3, 4, 2048, 3e-3},
                                  {128, 4, 4, 2048, 2e-3}, {192, 6, 4, 2048, 1.5e-3},
                                  {256, 8, 6, 4096, 1e-3}, {384, 6, 6, 8192, 8e-4},
                                  {512, 8, 8, 8192, 6e-4}, {768, 12, 12, 16384, 4e-4}};
enum { N_RUNGS = sizeof rungs / sizeof *rungs };
static const int64_t path_counts[] = {2, 4, 8, 16};
enum { N_COUNTS = sizeof path_counts / sizeof *path_counts };

pl_status dial_parse_time(const char *text, double *seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"min", 60}, {"m", 60}, {"s", 1}, {"h", 3600}};
    enum { N_UNITS = sizeof units / sizeof *units, NUMBER_MAX = 32 };
    static const double SECONDS_MAX = 3.2e9; /* a century */
    for (size_t i = 0; i < N_UNITS; i++) {
        char number[NUMBER_MAX];
        size_t n = strlen(text), unit = strlen(units[i].unit);
        if (!pl_ends_with(text, units[i].unit) || n - unit >= sizeof number)
            continue;
        pl_copy_text(number, n - unit + 1, text);
        if (pl_parse_real(number, seconds) != PL_OK)
            continue;
        *seconds *= units[i].seconds;
        if (*seconds > 0 && *seconds <= SECONDS_MAX)
            return PL_OK;
    }
    return pl_fail(PL_ERR_USAGE,
                   "--for takes a number with s, min or h, such as 90s or 15min, not "
                   "`%.64s`",
                   text);
}

double dial_flops(double params, int64_t width, int64_t blocks, int64_t context)
{
    return 6 * params + 6 * (double)(blocks * context * width);
}

static double count_params(const dial_rung *r, int64_t vocab)
{
    const int64_t ffn = (r->width * 8 / 3 + 7) / 8 * 8;
    return (double)(vocab * r->width +
                    r->blocks * (4 * r->width * r->width + 3 * ffn * r->width));
}

static double base_replicas(const dial_facts *f)
{
    return f->base_replicas > 1 ? (double)f->base_replicas : 1;
}

/* Returns how many replicas of the base model train at the same time. If there are
 * fewer workers than replicas, they take turns. */
static double base_at_once(const dial_facts *f)
{
    return base_replicas(f) / ceil(base_replicas(f) / f->workers);
}

/* Four replicas of a base model were worth as much as one with twice the steps of each
 * (docs/results/speedup.md), so a token of K replicas counts as 1 / sqrt(K). */
static double predict_bits(const dial_facts *f, const dial_choice *c)
{
    const double base = (double)(c->base_steps * c->batch * f->context);
    const double tokens = c->tokens - base * (1 - 1 / sqrt(base_replicas(f)));
    const double text = fmin(tokens, f->tokens);
    const double again = text > 0 ? tokens / text - 1 : 0;
    const double d = 1e-6 * text * (1 + REPEATS * (1 - exp(-again / REPEATS)));
    const double n = 1e-6 * c->params, worth = f->muon ? MUON_TOKENS : 1;
    return E_BITS + A * pow(n, -A_POWER) + B * pow(worth * d, -B_POWER) +
           GAIN * log2((double)c->paths) * (EVEN - fmin(log2(d / n), MOST));
}

/* ---- predicting times ---- */
const char *const dial_part_names[DIAL_PARTS] = {[DIAL_START] = "start",
                                                 [DIAL_BASE] = "base model",
                                                 [DIAL_ROUTING] = "routing",
                                                 [DIAL_PATHS] = "paths",
                                                 [DIAL_EVALUATION] =
                                                     "evaluation and end"};

double dial_rate(const dial_facts *f, double flops, bool alone)
{
    if (f->n_speeds == 0)
        return 0;
    const dial_speed *small = &f->speeds[0], *large = &f->speeds[f->n_speeds - 1];
    const double of_small = alone ? small->alone : small->together;
    const double of_large = alone ? large->alone : large->together;
    if (flops <= small->flops)
        return of_small * small->flops / flops;
    if (flops >= large->flops)
        return of_large * large->flops / flops;
    const double at = log(flops / small->flops) / log(large->flops / small->flops);
    return of_small * pow(of_large / of_small, at);
}

/* How many models score each document: paths, router, base model, baselines. */
static double models_of_evaluation(const dial_facts *f, const dial_choice *c)
{
    return (double)c->paths + 2 + f->n_baselines;
}

/* The seconds that a worker needs for one step: if it trains alone, and if all workers
 * train. Both are infinite if no speed was measured. */
typedef struct step_seconds {
    double alone, together;
} step_seconds;

static double seconds_between_tasks(const dial_choice *c)
{
    return PER_TASK + PER_PARAM * c->params;
}

/* Divides the steps of a path into phases. A longer training has more and longer
 * phases: 6 of 50 steps for 300 steps, 12 of 61 for 732, 20 of 78 for 1,560, as in
 * docs/results/pays.md. On a fast machine phases are longer, so that workers do not
 * spend most of their time between tasks, if at least FEWEST phases remain. The base
 * model gets its share of the steps. If a path would read its shard too often, the base
 * model also gets the remaining steps. */
static void divide_into_phases(const dial_facts *f, dial_choice *c, double steps,
                               const step_seconds *step)
{
    static const double FEWEST = 4;
    const double paths = (double)c->paths, all = steps;
    /* with these steps a path reads its shard PATH_EPOCHS times */
    const double most =
        fmax(PATH_EPOCHS * f->tokens / (double)(c->paths * c->batch * f->context),
             LEAST_STEPS);
    if (f->phases == 0 && f->base_steps == 0)
        steps = fmin(steps, most);
    const double longer = seconds_between_tasks(c) / EXCHANGE / step->together;
    double wanted = fmax(round(7 * cbrt(steps)), fmin(longer, steps / FEWEST));
    if (f->tau > 0)
        wanted = (double)f->tau;
    double phases = fmin(PHASES_MAX, fmax(2, round(steps / wanted)));
    if (f->phases > 0)
        phases = (double)f->phases;
    double tau = fmin(TAU_MAX, fmax(1, floor(steps / phases)));
    if (f->tau > 0)
        tau = (double)f->tau;
    /* The base model's steps per step of each path. With `half` it trains as long as
     * all paths together; half / paths is its speed divided by that of all paths. At
     * equal speed, as with a single worker, it gets half of all tokens and of the time.
     * While some of several workers train the base model, the others wait. So at half
     * of the speed or less it gets 3/7 of the paths' time, which is 30 % of the whole.
     * Between these speeds the ratio of the times is linear. It gets no fewer than
     * BASE_TOKENS tokens per parameter (docs/results/speedup.md). */
    double share = paths;
    if (f->seconds > 0) {
        const double half = base_at_once(f) * fmax(paths / f->workers, 1) *
                            step->together / BUSY / step->alone;
        const double tokens = (double)(c->batch * f->context);
        const double least = BASE_TOKENS * c->params / tokens / steps;
        const double over_paths_time = fmax(3, 8 * fmin(half / paths, 1) - 1) / 7;
        share = fmin(paths, fmax(half * over_paths_time, least));
    }
    double base = round(share * phases) + floor((share + paths) * (all - steps) / tau);
    base = tau * fmin(floor(STEPS_MAX / tau), base);
    if (f->base_steps > 0)
        base = (double)f->base_steps;
    c->tau = (int64_t)tau;
    c->phases = (int64_t)phases;
    c->base_steps = (int64_t)base;
}

static void predict_parts(const dial_facts *f, dial_choice *c, const step_seconds *step,
                          double forward)
{
    /* routing reads up to four windows of every document */
    enum { WINDOWS = 4 };
    const double tau = (double)c->tau, between = seconds_between_tasks(c);
    /* The time in which the mixture takes one step per path and the baselines take the
     * steps that belong to it. The unit is the time of one step of a worker. */
    const double paths = (double)c->paths;
    const double workers = fmin(f->workers, paths * (1 + f->n_baselines));
    const double spread = paths * (1 + f->baselines) / workers;
    const double steps_of_arms =
        fmax(fmax(spread, 1), paths * f->longest_baseline) / BUSY;
    c->part[DIAL_START] = START;
    /* Replicas of a base model divide its steps, and are merged more often than paths.
     */
    c->part[DIAL_BASE] =
        (double)c->base_steps / base_at_once(f) *
        (step->alone + between * (base_replicas(f) > 1 ? 1 : OF_BASE) /
                           (double)config_base_tau(f->base_replicas, c->tau));
    c->part[DIAL_ROUTING] =
        FIT + fmin(f->tokens, f->documents * WINDOWS * f->context) / forward;
    c->part[DIAL_PATHS] =
        (double)c->phases * steps_of_arms * (tau * step->together + between);
    c->part[DIAL_EVALUATION] =
        END + SLIDING * (double)c->eval_tokens * models_of_evaluation(f, c) / forward;
    c->seconds = 0;
    for (int i = 0; i < DIAL_PARTS; i++)
        c->seconds += c->part[i];
}

static void choose_steps(const dial_facts *f, dial_choice *c)
{
    const double flops = dial_flops(c->params, c->width, c->blocks, f->context);
    const double together = dial_rate(f, flops, false);
    const double tokens = (double)(c->batch * f->context), paths = (double)c->paths;
    const double forward = FORWARD * together * f->workers;
    double steps = f->n_tokens / (2 * paths * tokens);
    const double most = f->seconds > 0 ? EVALUATION * f->seconds * forward /
                                             (SLIDING * models_of_evaluation(f, c))
                                       : 1e18;
    c->eval_tokens = (int64_t)fmin(f->valid_tokens, fmax(most, LEAST_EVALUATION));
    const step_seconds step = {tokens / (dial_rate(f, flops, true) * BUSY),
                               tokens / together};
    if (f->seconds > 0) {
        /* Finds the largest number of steps of each path with which the run ends in the
         * given time; 0 if LEAST_STEPS are too many. The user's keys may fix some
         * parts' lengths. */
        enum { HALVINGS = 50 };
        dial_choice trial = *c;
        double tried = LEAST_STEPS, too_many = STEPS_MAX;
        steps = 0;
        for (int i = 0; i < HALVINGS; i++) {
            divide_into_phases(f, &trial, tried, &step);
            predict_parts(f, &trial, &step, forward);
            if (trial.seconds <= f->seconds)
                steps = tried;
            else if (steps > 0)
                too_many = tried;
            else
                break;
            tried = sqrt(steps * too_many);
        }
    }
    c->short_of_time = f->seconds > 0 && steps < LEAST_STEPS;
    divide_into_phases(f, c, fmin(fmax(steps, LEAST_STEPS), STEPS_MAX), &step);
    if (together > 0)
        predict_parts(f, c, &step, forward);
    c->tokens = ((double)c->base_steps + paths * (double)(c->tau * c->phases)) * tokens;
    c->epochs = c->tokens / f->tokens;
    c->bits = predict_bits(f, c);
}

/* ---- the choice ---- */
dial_team dial_base_team(int64_t processors, int64_t threads, int64_t replicas)
{
    enum { THREADS_MAX = 4 };
    const int64_t each = processors / (replicas > 0 ? replicas : 1);
    dial_team team = {.threads = each < THREADS_MAX ? each : THREADS_MAX,
                      .replicas = replicas};
    if (team.threads < threads)
        team.threads = threads;
    if (replicas == 0)
        team.replicas = processors > team.threads ? processors / team.threads : 1;
    return team;
}

/* Chooses the batch. For 2 to 25 million tokens, 8 sequences were best. For more tokens
 * it is doubled, to grow with the power 0.38 of their number (as in nanochat). */
static int64_t batch_for(double tokens)
{
    int64_t batch = 8;
    for (double d = tokens / 30e6; d >= 1 && batch < 512; d /= 6.2)
        batch *= 2;
    return batch;
}

static void try_candidate(const dial_facts *f, const dial_rung *rung, int64_t paths,
                          dial_choice *out)
{
    *out = (dial_choice){.width = rung->width,
                         .heads = rung->heads,
                         .blocks = rung->blocks,
                         .paths = paths,
                         .batch = f->batch > 0 ? f->batch : 8,
                         .params =
                             f->params > 0 ? f->params : count_params(rung, f->vocab)};
    choose_steps(f, out);
    if (f->batch == 0 && batch_for(out->tokens) > out->batch) {
        out->batch = batch_for(out->tokens);
        choose_steps(f, out);
    }
    out->lr = rung->lr * sqrt((double)out->batch / 8) * (f->muon ? 2 : 1);
}

/* Whether a candidate may be chosen. A path's shard must have enough documents. A model
 * may have at most half as many parameters as the text has tokens, because a larger
 * model would learn the text by heart. If a number of tokens is given instead of a
 * time, the formula always prefers larger models, so a path must have at least a
 * certain number of tokens per parameter. */
static bool is_allowed(const dial_facts *f, const dial_choice *c)
{
    enum { TOKENS_PER_PARAM = 12, TEXT_PER_PARAM = 2 };
    if (f->paths == 0 && (double)c->paths > fmax(f->documents / DOCUMENTS_PER_PATH, 2))
        return false;
    if (f->params <= 0 && c->params * TEXT_PER_PARAM > f->tokens)
        return false;
    return f->seconds > 0 || f->params > 0 ||
           c->params * TOKENS_PER_PARAM <= f->n_tokens;
}

/* Whether candidate a is better than b: a is predicted to have fewer bits per byte. If
 * only one takes too long, the other is better. If both take too long, the one that
 * takes less time is better. */
static bool is_better(const dial_choice *a, const dial_choice *b)
{
    if (a->short_of_time && b->short_of_time)
        return a->seconds < b->seconds;
    return a->short_of_time != b->short_of_time ? b->short_of_time : a->bits < b->bits;
}

void dial_choose(const dial_facts *f, dial_choice *out)
{
    /* the shape that the user has fixed, with the learning rate of the nearest rung */
    dial_rung own = {f->width, f->heads, f->blocks, f->vocab, rungs[0].lr};
    for (int i = 1; i < N_RUNGS; i++)
        if (count_params(&rungs[i], f->vocab) <= f->params)
            own.lr = rungs[i].lr;
    const int n_rungs = f->params > 0 ? 1 : N_RUNGS;
    const int n_counts = f->paths > 0 ? 1 : N_COUNTS;
    bool any = false;
    for (int i = 0; i < n_rungs; i++)
        for (int k = 0; k < n_counts; k++) {
            dial_choice c;
            const bool only = n_rungs * n_counts == 1;
            try_candidate(f, f->params > 0 ? &own : &rungs[i],
                          f->paths > 0 ? f->paths : path_counts[k], &c);
            if (any && !only && (!is_allowed(f, &c) || !is_better(&c, out)))
                continue;
            *out = c;
            any = true;
        }
}

void dial_text(const dial_facts *f, int64_t *vocab, int64_t *bytes)
{
    dial_choice best = {0}, c;
    dial_facts endless = *f;
    endless.tokens = 1e18;
    /* with 0 documents and 0 tokens, routing and evaluation take no time */
    endless.documents = endless.valid_tokens = 0;
    if (f->paths == 0)
        endless.paths = 8;
    *vocab = rungs[0].vocab;
    for (int i = 0; i < N_RUNGS; i++) {
        endless.vocab = (int)rungs[i].vocab;
        try_candidate(&endless, &rungs[i], endless.paths, &c);
        if (i > 0 && (!is_allowed(&endless, &c) || !is_better(&c, &best)))
            continue;
        best = c;
        *vocab = rungs[i].vocab;
    }
    const double speed =
        fmin(READ_BYTES, READ_PER_TOKEN * dial_rate(f, SMALL_FLOPS, false));
    const double most =
        f->seconds > 0 ? f->seconds * READING * speed : best.tokens * BYTES_PER_TOKEN;
    *bytes = (int64_t)fmax(fmin(most, 9e15), 4.0 * DIAL_LEAST_BYTES);
}
