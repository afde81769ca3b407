/* Presets: the paper's topologies (arXiv:2403.10616, tables 1 and 4) and small ones.
 *
 * The paper's model uses a plain feed-forward layer of inner width 4 * 896 and its own
 * position scheme. Here a block has SwiGLU instead, with an inner width of 2368, which
 * gives the same number of parameters (6.4M): three matrices of 896 x 2368 instead of
 * two of 896 x 3584. So a block has 10.0M parameters and a path 149M. The paper's total
 * (1.2B for 8x8) shows that no module is common to all paths there: two paths have the
 * same embedding if they have the same module of level 1, and the same final norm if
 * they have the same module of the last level. */
#include "modules/topology.h"
#include <stdio.h>

enum { FAMILY_MAX = 1 << 12 }; /* the largest P in flat-moe-P and diloco-P */

/* Capital letters: see pl_shape. There are as many kv heads as query heads. */
#define PRESET_SHAPE(V, C, H, D, F, blocks, T)                                         \
    {                                                                                  \
        .vocab = V, .width = C, .n_heads = H, .n_kv_heads = H, .head_size = D,         \
        .ffn = F, .n_blocks = blocks, .context = T, .tied = true,                      \
        .rope_theta = 10000.0, .norm_eps = 1e-5                                        \
    }
static const pl_shape laptop = PRESET_SHAPE(2048, 128, 4, 32, 344, 4, 128);
static const pl_shape base_150m = PRESET_SHAPE(32000, 896, 16, 64, 2368, 12, 1024);
static const pl_shape dense_1b = PRESET_SHAPE(32000, 2048, 16, 128, 5504, 24, 1024);
#undef PRESET_SHAPE

/* X(name, shape, levels, private blocks, embed choice, head choice). A name that ends
 * in -P is a family: the user writes a number instead of P. */
#define PRESET_TABLE(X)                                                                \
    X("laptop", laptop, "2x2", "0,3", PL_CHOICE_PRIVATE, PL_CHOICE_PRIVATE)            \
    X("laptop-4x4", laptop, "4x4", "0,3", PL_CHOICE_PRIVATE, PL_CHOICE_PRIVATE)        \
    X("dipaco-150m-2x2", base_150m, "2x2", "", 1, 2)                                   \
    X("dipaco-150m-2x4", base_150m, "2x4", "", 1, 2)                                   \
    X("dipaco-150m-8x8", base_150m, "8x8", "", 1, 2)                                   \
    X("dipaco-150m-8x8-ps", base_150m, "8x8", "0,5,6,11", PL_CHOICE_PRIVATE,           \
      PL_CHOICE_PRIVATE)                                                               \
    X("dipaco-150m-16x16", base_150m, "16x16", "", 1, 2)                               \
    X("dipaco-150m-16x16-ps", base_150m, "16x16", "0,5,6,11", PL_CHOICE_PRIVATE,       \
      PL_CHOICE_PRIVATE)                                                               \
    X("flat-moe-P", base_150m, "1", "", 1, 1)                                          \
    X("diloco-P", base_150m, "1", "", PL_CHOICE_COMMON, PL_CHOICE_COMMON)              \
    X("dense-150m", base_150m, "1", "", PL_CHOICE_COMMON, PL_CHOICE_COMMON)            \
    X("dense-1b", dense_1b, "1", "", PL_CHOICE_COMMON, PL_CHOICE_COMMON)

typedef struct preset {
    const char *name;
    const pl_shape *shape;
    const char *levels, *private_blocks;
    int embed_choice, head_choice;
} preset;

#define PRESET_ROW(name, shape, levels, blocks, embed, head)                           \
    {name, &shape, levels, blocks, embed, head},
static const preset presets[] = {PRESET_TABLE(PRESET_ROW)};
#undef PRESET_ROW

#define PRESET_NAME(name, shape, levels, blocks, embed, head) name,
static const char *const names[] = {PRESET_TABLE(PRESET_NAME) NULL};
#undef PRESET_NAME

enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const char *const *pl_preset_names(void)
{
    return names;
}

pl_status pl_preset(const char *name, pl_shape *shape, pl_topology_spec *spec)
{
    for (int i = 0; i < N_PRESETS; i++) {
        const preset *p = &presets[i];
        const size_t stem = strlen(p->name) - 1;
        const bool is_family = p->name[stem] == 'P';
        int64_t number = 1;
        if (is_family ? strncmp(p->name, name, stem) != 0 : strcmp(p->name, name) != 0)
            continue;
        if (is_family && (pl_parse_int(name + stem, &number) != PL_OK || number < 1 ||
                          number > FAMILY_MAX))
            return pl_fail(
                PL_ERR_CONFIG,
                "preset \"%s\" must end in a number of 1..%d, as in flat-moe-8", name,
                FAMILY_MAX);
        *shape = *p->shape;
        *spec = (pl_topology_spec){.embed_choice = p->embed_choice,
                                   .head_choice = p->head_choice,
                                   .replicas = 1};
        PL_CHECK(pl_topology_parse_levels(p->levels, spec));
        PL_CHECK(pl_topology_parse_private(p->private_blocks, shape->n_blocks, spec));
        /* the number in the name is the number of replicas of the only path, or the
         * number of modules of the only level */
        if (p->embed_choice == PL_CHOICE_COMMON)
            spec->replicas = (int)number;
        else if (spec->n_levels == 1)
            spec->experts[0] = (int)number;
        return PL_OK;
    }
    char known[32 * N_PRESETS] = "";
    const char *near = pl_nearest(name, names, N_PRESETS);
    for (int i = 0; i < N_PRESETS; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
    }
    return pl_fail(PL_ERR_CONFIG,
                   "unknown preset `%.64s`%s%s%s; known are %s, where P is a number",
                   name, near ? ", did you mean `" : "", near ? near : "",
                   near ? "`" : "", known);
}
