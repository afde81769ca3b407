/* The configuration of a run: its keys, how values from several sources are combined,
 * and how values are checked and derived. config_keys.c has the table of keys,
 * config_preset.c the presets, and config_outer.c turns keys into an outer method and a
 * codec.
 *
 * Each row of the table is one key. The YAML reader, --set, `pathloom init`, the
 * reference page and the hash of a run all use the table (base/conf.h). `struct config`
 * has one field per row.
 *
 * config_build applies values from several sources; a later source overrides an earlier
 * one. The key `preset` changes the defaults of other keys. So the file and --set are
 * read three times: to find the preset's name, to see which values of the preset do not
 * fit, and finally to set the values.
 *
 *   defaults + file + --set  -> only the value of `preset` is used
 *   defaults + preset        = P
 *   P + file + --set         -> P's head_size, ffn, ... are dropped if the user's
 *                               width, heads or blocks differ
 *   P + file + --set         -> fill_derived (0 or -1 becomes a value) -> config_check
 *
 * Invariants
 * - config_build ends with config_check, so every configuration that it returns can be
 *   trained. Keys of the outer method may still have the value -1, which config_outer
 *   replaces by the default of the method.
 * - The hash of a run covers every key that is not local. Local keys do not change
 *   results, so a run may be resumed with different values of local keys.
 * - Only config_lay applies a command's options to the saved configuration of a run.
 *   Afterwards config_keep_own computes derived values again and keeps the saved
 *   spelling of file names. */
#pragma once
#include "outer/outer.h"
#include "net/net.h"
#include "router/router.h"

typedef char config_text[PL_KEY_TEXT_MAX];

typedef struct config {
    config_text preset, out;
    int64_t seed;

    config_text corpus, valid, tokenizer, forget, text_key, bad_lines;
    double valid_share;
    int64_t cut, max_bytes, vocab;

    int64_t width, heads, kv_heads, head_size, ffn, blocks, context;
    bool tied, qk_norm;
    double rope_theta, norm_eps;
    config_text import;

    config_text levels, level_blocks, private_blocks, embed, head, split, graft;
    int64_t replicas;

    int64_t batch, muon_rows, micro_batch, tau, phases, base_steps, base_replicas,
        base_threads, warmup, base_warmup;
    config_text optimizer, schedule;
    double decay_share;
    double lr, base_lr, lr_floor, beta1, beta2, adam_eps, weight_decay, clip;
    bool pack;
    double holdout;
    config_text state;
    int64_t state_every;

    config_text router_kind, answer, em, chat;
    config_text more, freeze;
    int64_t prefix, sees, overlap, components, feature_docs;
    double balance, share;

    config_text weighting, mean, method, rule, gap;
    double quorum;
    double consensus, deadline_s, outer_clip, mix, spread, curvature;
    int64_t delay, fragments, outer_overlap, buffer, staleness;
    config_text codec, codec_down, residual, own;
    int64_t codec_k, value_bits;
    double ef_beta, cells;
    bool dynamic_steps;
    double outer_lr, outer_momentum;
    /* below 0: outer.lr or outer.momentum */
    double lr_private, momentum_private;
    bool rescale, settle;
    double norm_gate;

    config_text baselines;
    int64_t eval_tokens, sample_tokens;
    double curves;
    bool tensorboard;

    int64_t workers, relays, homes, threads, worker_cache, ttl_ms, patience_s;
    config_text backend, precision;
    bool keep_updates, keep_momentum, keep_states;
    char compress[PL_KEY_TEXT_MAX]; /* auto or off */
    int64_t staging, quota;
    config_text backup;
    double audit;
    config_text devices;
    config_text hub_bind, home_bind, encrypt, advertise, metrics, engine;
    bool attach, local_workers, recompute;
} config;

extern const pl_table config_table;

/* Builds and checks a configuration from defaults, preset, file and --set pairs. A
 * later source overrides an earlier one. `file` may be NULL. ERR_CONFIG. */
pl_status config_build(const char *file, const char *const *sets, int n_sets,
                       config *out);
/* The same with the saved configuration of a run. *differs: see pl_conf_load_saved. */
pl_status config_build_saved(const char *file, const char *const *sets, int n_sets,
                             config *out, const pl_gone **differs);
/* Sets shape, topology and training settings to the values of the preset that c->preset
 * names (config_preset.c). Does nothing if c->preset is empty. ERR_CONFIG. */
pl_status config_apply_preset(config *c);
/* Applies the file (may be NULL), then the --set pairs, to the values. ERR_CONFIG. */
pl_status config_lay(config *c, const char *file, const char *const *sets, int n_sets);
/* Called after config_lay was applied to c, a copy of `own`. Computes derived values
 * again. Where a file name leads to the same file as in `own`, restores the spelling of
 * `own`. Afterwards, the user changed what differs from `own`. */
void config_keep_own(const config *own, config *c);
pl_status config_check(const config *c);
/* For a file that users edit: keys that are derived from other keys (such as head_size,
 * from width and heads) get the value 0 or -1 again, so that they are derived again
 * after an edit. */
void config_leave_derived(config *c);
/* Whether KEY in KEY=VALUE is local: each start of a run may give it a new value. */
bool config_pair_is_local(const char *pair);

pl_status config_shape(const config *c, pl_shape *out);
pl_status config_spec(const config *c, pl_topology_spec *out);
/* ERR_CONFIG if no outer method or codec supports these settings (config_outer.c). */
pl_status config_outer(const config *c, pl_outer *out);
/* Whether the processes of the job encrypt their messages (CURVE): net.encrypt is on,
 * or other machines can reach an address. */
bool config_encrypts(const config *c);
void config_hash(const config *c, pl_hash *out);
/* Number of sequences per pass: train.micro_batch, but not more than train.batch. */
int config_pass(const config *c);
/* Returns the number of inner steps between two merges of the base model's replicas.
 * Replicas that are merged less often lose quality (docs/results/speedup.md). */
int64_t config_base_tau(int64_t replicas, int64_t tau);
/* Returns the tokens of a training document's windows that make its feature. */
int config_feature_prefix(const config *c);
bool config_has_muon(const config *c);
/* The baselines that a run may train for comparison with the mixture. */
enum { CONFIG_BASELINES = 4 };
extern const char *const config_baselines[CONFIG_BASELINES];
bool config_is_baseline(const char *name);
bool config_wants(const config *c, const char *baseline);
/* The mixture is trained in chapters (job/chapters.c). A new chapter begins where
 * documents are dealt again (router.em), where the topology changes (topology.split,
 * topology.graft), and where modules are frozen (train.freeze). Each number in the
 * list train.more (such as 8,4) also begins a chapter, with this number of phases. */
typedef struct config_chapter {
    /* The chapter has phases begin to end - 1 of each path; the phases of train.more
     * come after train.phases. */
    int64_t begin, end;
    /* The chapter continues the previous ones after this number of their phases. It is
     * `begin`, except in a chapter of train.more: that continues from before the
     * learning rate fell, and repeats the phases `from` to begin - 1 at the full rate.
     */
    int64_t from;
    /* deals: all documents are dealt again (router.em). splits: each path's documents
     * are dealt to the paths that descend from it, or, if no path descends from it, to
     * all other paths. more: the chapter belongs to train.more. */
    bool deals, splits, more;
    pl_topology_spec spec;
    /* how the topology descends from the topology of the previous chapter; only a
     * chapter that topology.graft begins has a list of parents */
    pl_descent descent;
} config_chapter;
enum {
    CONFIG_LIST_MAX = 16,
    CONFIG_FREEZE_MAX = 32,
    CONFIG_PHASES_MAX = 1000000,
    CONFIG_CHAPTERS_MAX = 4 * CONFIG_LIST_MAX + CONFIG_FREEZE_MAX + 1
};
/* Fills in all chapters, at least one. ERR_CONFIG if router.em, topology.split,
 * topology.graft, train.freeze and train.more contradict each other. */
pl_status config_chapters(const config *c, config_chapter out[CONFIG_CHAPTERS_MAX],
                          int *n);
/* config_graft.c: these functions change the topology of a chapter as one item of
 * topology.split ("4x4") or of topology.graft ("drop:L2.E1") says. Before the call, the
 * chapter must have the spec of the previous chapter. ERR_CONFIG. */
pl_status config_split(const pl_shape *shape, const char *levels,
                       config_chapter *chapter);
pl_status config_graft(const pl_shape *shape, const char *text,
                       config_chapter *chapter);
/* config_freeze.c: lists the phases above 0 in which train.freeze changes the list of
 * frozen modules, in rising order. */
pl_status config_freeze_phases(const config *c, int64_t phases[CONFIG_FREEZE_MAX],
                               int *n);
/* Sets *frozen to a list with one item per module of the chapter's topology: true if
 * the module is frozen. The caller frees the list with pl_free. ERR_CONFIG:
 * train.freeze names an unknown module, or a path would have none to train. */
pl_status config_frozen(const config *c, int chapter, bool **frozen);
/* Returns a path's phases in all chapters: train.phases plus train.more. */
int64_t config_all_phases(const config *c);
/* Returns at how many of so many steps, the last ones, the learning rate falls
 * (train.decay; train.schedule=wsd). */
int64_t config_decay_steps(const config *c, int64_t steps);
/* Returns in how many of a path's phases the rate falls, if it has so many. */
int64_t config_falling_phases(const config *c, int64_t phases);
/* Checks the value of an option that overrides router.answer. ERR_USAGE. */
pl_status config_check_answer(const char *option, const char *value);
