/* Applies a preset to the defaults: shape and topology come from modules/preset.c,
 * training settings from the table below.
 *
 * The paper presets train as the papers did (DiPaCo, arXiv:2403.10616, table 4 and
 * section 4; DiLoCo, arXiv:2311.08105): 24,000 steps of the base model, then 64,000
 * steps of each path, with 512 full sequences of 1,024 tokens per step. Settings that
 * the papers do not give (AdamW's betas, clipping, the end of the cosine) keep the
 * defaults of their keys. The router's feature transforms and balance keep their
 * defaults, too, although the papers have neither. A dense preset trains the same
 * 88,000 steps in the same two parts, each with its own cosine; the dense curve of the
 * paper seems to have one cosine for all steps. */
#include "config/settings.h"

/* train.phases=427, because 64,000 steps need 427 phases of 150 steps. With
 * outer.lr_private and outer.momentum_private at -1, modules of a single path take the
 * same outer step as the other modules: 0.7 and 0.9 for diloco, as in the paper, and
 * the default values of the method for every other outer.method. */
#define PAPER                                                                          \
    "train.batch=512 train.lr=4e-4 train.base_lr=0 train.warmup=1000 "                 \
    "train.base_warmup=1000 train.schedule=cosine train.base_replicas=1 "              \
    "train.weight_decay=0.1 train.base_steps=24000 train.pack=true "                   \
    "train.muon_rows=0 "                                                               \
    "router.prefix=32 router.sees=0 eval.baselines=dense "
#define PATHS                                                                          \
    PAPER "train.tau=150 train.phases=427 outer.lr_private=-1 "                        \
          "outer.momentum_private=-1 outer.rescale=true"
#define DENSE                                                                          \
    PAPER "train.tau=500 train.phases=128 outer.lr_private=1 "                         \
          "outer.momentum_private=0 eval.baselines=none"

/* A row applies to every preset whose name starts with `beginning`. If several rows
 * apply, later rows override earlier ones. Without one, keys keep their defaults. */
static const struct {
    const char *beginning, *settings;
} rows[] = {
    {"laptop-4x4", "train.base_steps=3000 train.tau=50 train.phases=4"},
    {"dipaco-150m-", PATHS},
    {"dipaco-150m-16x16", "router.overlap=2"},
    {"flat-moe-", PATHS},
    {"diloco-", PAPER "train.tau=500 train.phases=128 outer.lr_private=-1 "
                      "outer.momentum_private=-1"},
    {"dense-150m", DENSE},
    {"dense-1b", DENSE " train.lr=2e-4"},
};

static const char *choice_name(int choice)
{
    if (choice == PL_CHOICE_PRIVATE)
        return "private";
    return choice == PL_CHOICE_COMMON ? "common" : "level";
}

static void add_number(config_text list, const char *separator, int number)
{
    const size_t used = strlen(list);
    snprintf(list + used, sizeof(config_text) - used, "%s%d", used ? separator : "",
             number);
}

pl_status config_apply_preset(config *c)
{
    pl_shape shape;
    pl_topology_spec spec;
    if (!c->preset[0])
        return PL_OK;
    PL_CHECK(pl_preset(c->preset, &shape, &spec));
    c->vocab = shape.vocab;
    c->width = shape.width;
    c->heads = shape.n_heads;
    c->kv_heads = shape.n_kv_heads;
    c->head_size = shape.head_size;
    c->ffn = shape.ffn;
    c->blocks = shape.n_blocks;
    c->context = shape.context;
    c->tied = shape.tied;
    c->qk_norm = shape.qk_norm;
    c->rope_theta = shape.rope_theta;
    c->norm_eps = shape.norm_eps;
    c->levels[0] = c->level_blocks[0] = c->private_blocks[0] = '\0';
    for (int l = 0; l < spec.n_levels; l++)
        add_number(c->levels, "x", spec.experts[l]);
    for (int l = 0; l < spec.n_levels && spec.blocks[l] > 0; l++)
        add_number(c->level_blocks, ",", spec.blocks[l]);
    for (int b = 0; b < PL_BLOCKS_MAX; b++)
        if (spec.private_block[b])
            add_number(c->private_blocks, ",", b);
    pl_copy_text(c->embed, sizeof c->embed, choice_name(spec.embed_choice));
    pl_copy_text(c->head, sizeof c->head, choice_name(spec.head_choice));
    c->replicas = spec.replicas;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (pl_starts_with(c->preset, rows[i].beginning)) {
            char copy[PL_KEY_TEXT_MAX], *rest = copy;
            pl_copy_text(copy, sizeof copy, rows[i].settings);
            for (char *pair; (pair = strtok_r(rest, " ", &rest));)
                PL_CHECK(pl_conf_set_pair(&config_table, c, pair, "a preset"));
        }
    return PL_OK;
}
