/* The configuration of a run: keys, how values are laid over each other, and what is
 * checked and derived. config.c has the table of keys, config_preset.c the presets, and
 * config_outer.c turns keys into an outer method and a codec.
 *
 * One row of the table per key makes the YAML reader, --set, `pathloom init`, the
 * reference page and the hash of a run (base/conf.h). `struct config` has one field per
 * row.
 *
 * config_build lays values in rising strength. A preset is named by a key and changes
 * the defaults of other keys, so file and --set are read three times: to find the
 * preset's name, to see which of its values no longer fit, and for good.
 *
 *   defaults + file + --set  -> only the value of `preset` is used
 *   defaults + preset        = P
 *   P + file + --set         -> P's head_size, ffn, ... go if the user's width, heads
 *                               or blocks differ
 *   P + file + --set         -> fill_derived (0 or -1 becomes a value) -> config_check
 *
 * Invariants
 *   - config_build ends with config_check, so every configuration that it returns can
 *     be trained. -1 in keys of the outer method stays: config_outer resolves it.
 *   - The hash of a run covers every key that is not local. Local keys do not change
 *     results; a run may be resumed with other values of them.
 *   - config_lay alone is used to lay a command's options over a run's own
 *     configuration; config_keep_own then makes equal what was not really asked for. */
#ifndef PL_JOB_CONFIG_H
#define PL_JOB_CONFIG_H
#include "base/base.h"
#include "modules/modules.h"
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"
#include "router/router.h"

typedef char config_text[PL_KEY_TEXT_MAX];

typedef struct config {
    config_text preset, out;
    int64_t seed;

    config_text corpus, valid, tokenizer;
    double valid_share;
    int64_t cut, max_bytes, vocab;

    int64_t width, heads, kv_heads, head_size, ffn, blocks, context;
    bool tied;
    double rope_theta, norm_eps;
    config_text import;

    config_text levels, level_blocks, private_blocks, embed, head, split;
    int64_t replicas;

    int64_t batch, muon_rows, micro_batch, tau, phases, base_steps, base_replicas,
        warmup, base_warmup;
    config_text optimizer, schedule;
    double decay_share, batch_lr;
    double lr, base_lr, lr_floor, beta1, beta2, adam_eps, weight_decay, clip;
    bool skip_prefix, pack;
    double holdout;
    config_text state;

    config_text router_kind, answer, em, chat;
    config_text more;
    int64_t prefix, sees, overlap, restarts, iterations, components, sharpen;
    double balance, share, temperature, fit_decay;
    bool standardize, unit;

    config_text weighting, mean, method, rule, gap, decay;
    double quorum, late_weight;
    double consensus, deadline_s, gap_constant, outer_clip, mix, spread, outer_floor,
        curvature;
    int64_t delay, fragments, outer_overlap, buffer, staleness, outer_warmup;
    config_text codec, codec_attention, codec_mlp, codec_embed, codec_head, codec_down,
        feedback, residual, own;
    int64_t codec_k, value_bits;
    double ef_beta, cells;
    bool entropy, dynamic_steps;
    double outer_lr, outer_momentum;
    double lr_of[PL_CLASS_COUNT],
        momentum_of[PL_CLASS_COUNT]; /* negative: the value for all classes counts */
    bool rescale, settle;
    double norm_gate;

    config_text baselines;
    int64_t eval_tokens, sample_tokens;

    int64_t workers, relays, homes, threads, worker_cache, ttl_ms, patience_s;
    config_text backend, precision;
    bool keep_updates, keep_momentum;
    char compress[PL_KEY_TEXT_MAX]; /* auto or off */
    int64_t staging;
    config_text backup;
    double audit, audit_tolerance;
    config_text hub_bind, home_bind, encrypt, advertise, metrics, engine;
    bool attach, local_workers, recompute;
} config;

extern const pl_table config_table;

/* Builds a configuration from the defaults, the preset, the file and the --set pairs,
 * in this order of rising strength, and checks it. `file` may be NULL. ERR_CONFIG. */
pl_status config_build(const char *file, const char *const *sets, int n_sets,
                       config *out);
/* Sets shape, topology and training settings to those of the preset that c->preset
 * names (config_preset.c). Does nothing if it is empty. ERR_CONFIG. */
PL_MUST_CHECK pl_status config_apply_preset(config *c);
/* Lays the file (or NULL) and the --set pairs over the present values. ERR_CONFIG. */
PL_MUST_CHECK pl_status config_lay(config *c, const char *file, const char *const *sets,
                                   int n_sets);
/* Gives derived values, and paths that name the same file differently, the values of
 * `own`. Used after config_lay over a copy of `own`: what differs then was really asked
 * for. */
void config_keep_own(const config *own, config *c);
pl_status config_check(const config *c);
/* For a file that users edit: keys that follow from others (head_size from width and
 * heads) get their 0 back, so that they still follow after a change. */
void config_leave_derived(config *c);
/* Whether the key of KEY=VALUE may differ between the starts of one run. */
bool config_pair_is_local(const char *pair);

/* Values that follow from the configuration. */
pl_status config_shape(const config *c, pl_shape *out);
pl_status config_spec(const config *c, pl_topology_spec *out);
/* ERR_CONFIG: no outer method or codec can do this (config_outer.c). */
pl_status config_outer(const config *c, pl_outer *out);
/* Whether the processes of the job speak CURVE: net.encrypt, or an address that other
 * machines reach. */
bool config_encrypts(const config *c);
void config_hash(const config *c, pl_hash *out);
/* Sequences per pass: train.micro_batch, at most train.batch. */
int config_pass(const config *c);
/* Whether Muon steps the matrices of blocks. */
bool config_has_muon(const config *c);
/* Arms that a run may train beside the mixture. */
enum { CONFIG_BASELINES = 4 };
extern const char *const config_baselines[CONFIG_BASELINES];
bool config_is_baseline(const char *name);
bool config_wants(const config *c, const char *baseline);
/* The mixture is trained in chapters (job/chapters.c). A new one begins where documents
 * are dealt anew (router.em), where modules are split (topology.split), and with each
 * number of train.more. */
typedef struct config_chapter {
    int64_t begin,
        end; /* phases of a path, train.more's behind those of train.phases */
    bool deals, splits, more;
    pl_topology_spec spec;
} config_chapter;
enum { CONFIG_LIST_MAX = 16, CONFIG_CHAPTERS_MAX = 3 * CONFIG_LIST_MAX + 1 };
/* All chapters, at least one. ERR_CONFIG if the three keys do not fit together. */
PL_MUST_CHECK pl_status config_chapters(const config *c,
                                        config_chapter out[CONFIG_CHAPTERS_MAX],
                                        int *n);
/* Phases of a path of the mixture in all: train.phases and train.more. */
int64_t config_all_phases(const config *c);
/* Resolves router.answer for a run with n_paths paths: true if the path under which the
 * prompt is likeliest answers, false if the router's does. */
bool config_answers_by_likelihood(const config *c, int n_paths);
/* For an option that overrides router.answer: ERR_USAGE unless it is one of its values.
 */
PL_MUST_CHECK pl_status config_check_answer(const char *option, const char *value);

#endif
