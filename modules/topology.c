/* The table of slots and tensors of a path, and the arithmetic of modules.
 *
 * A path's parameters: embed, the levels in order, the private blocks in order, head.
 * Inside a block the norms come first, then the matrices, so that parameters with and
 * without weight decay alternate only twice per block; q, k, v stand together, and so
 * do gate and up, so that one matrix product serves each group. */
#include "modules/topology.h"
#include "modules/topology_spec.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TENSORS_PER_BLOCK = 11, TENSORS_OUTSIDE = 3, SLOTS_OUTSIDE = 2 };

static const double init_std = 0.02;

struct pl_topology {
    pl_shape shape;
    pl_topology_spec spec; /* a copy of the caller's spec, with `blocks` filled in */
    int n_paths, n_slots, n_tensors, n_modules;
    size_t path_params;
    pl_slot *slots;
    int *first_module; /* [slots] for each slot, the number of its first module */
    pl_tensor *tensors;
};

/* ---- building ---- Slots and tensors are appended in the order of the parameters;
 * path_params is the offset of the next one. */

int pl_topology_spec_n_paths(const pl_topology_spec *spec)
{
    int n = 1;
    for (int l = 0; l < spec->n_levels; l++)
        n = spec->experts[l] > INT_MAX / n ? INT_MAX : n * spec->experts[l];
    return n;
}

static int experts_of(const pl_topology *t, int choice)
{
    if (choice == PL_CHOICE_COMMON)
        return 1;
    return choice == PL_CHOICE_PRIVATE ? t->n_paths : t->spec.experts[choice - 1];
}

static void open_slot(pl_topology *t, pl_slot_kind kind, int choice, const char *name)
{
    pl_slot *slot = &t->slots[t->n_slots];
    pl_copy_text(slot->name, sizeof slot->name, name);
    slot->kind = kind;
    slot->choice = choice;
    slot->n_experts = experts_of(t, choice);
    slot->offset = t->path_params;
    slot->first_tensor = t->n_tensors;
    t->first_module[t->n_slots++] = t->n_modules;
    t->n_modules += slot->n_experts;
}

/* Appends a tensor to the slot that was added last. If `std` is 0, the tensor is the
 * weight of a norm. */
static void add_tensor(pl_topology *t, int block, const char *name, int rows, int cols,
                       double std)
{
    pl_tensor *tensor = &t->tensors[t->n_tensors++];
    pl_slot *slot = &t->slots[t->n_slots - 1];
    size_t n = (size_t)rows * (size_t)cols;
    *tensor = (pl_tensor){.slot = t->n_slots - 1,
                          .block = block,
                          .rows = rows,
                          .cols = cols,
                          .offset = t->path_params,
                          .decay = std > 0.0,
                          .init_std = std};
    if (block < 0)
        pl_copy_text(tensor->name, sizeof tensor->name, name);
    else
        snprintf(tensor->name, sizeof tensor->name, "model.layers.%d.%s", block, name);
    slot->n_tensors++;
    slot->n_params += n;
    t->path_params += n;
}

/* Projections into the residual stream start smaller, by the number of terms that
 * the stream sums (Radford et al. 2019, section 2.3). */
static void add_block(pl_topology *t, int block)
{
    const pl_shape *s = &t->shape;
    int q = s->n_heads * s->head_size, kv = s->n_kv_heads * s->head_size;
    double residual = init_std / sqrt(2.0 * s->n_blocks);
    add_tensor(t, block, "input_layernorm.weight", 1, s->width, 0.0);
    add_tensor(t, block, "post_attention_layernorm.weight", 1, s->width, 0.0);
    if (s->qk_norm) {
        add_tensor(t, block, "self_attn.q_norm.weight", 1, s->head_size, 0.0);
        add_tensor(t, block, "self_attn.k_norm.weight", 1, s->head_size, 0.0);
    }
    add_tensor(t, block, "self_attn.q_proj.weight", q, s->width, init_std);
    add_tensor(t, block, "self_attn.k_proj.weight", kv, s->width, init_std);
    add_tensor(t, block, "self_attn.v_proj.weight", kv, s->width, init_std);
    add_tensor(t, block, "self_attn.o_proj.weight", s->width, q, residual);
    add_tensor(t, block, "mlp.gate_proj.weight", s->ffn, s->width, init_std);
    add_tensor(t, block, "mlp.up_proj.weight", s->ffn, s->width, init_std);
    add_tensor(t, block, "mlp.down_proj.weight", s->width, s->ffn, residual);
}

pl_status pl_topology_create(const pl_shape *shape, const pl_topology_spec *spec,
                             pl_topology **out)
{
    *out = NULL;
    pl_topology_spec complete;
    PL_CHECK(pl_shape_check(shape));
    PL_CHECK(topology_spec_complete(shape, spec, &complete));
    size_t blocks = (size_t)shape->n_blocks;
    size_t slots = SLOTS_OUTSIDE + PL_LEVELS_MAX + blocks;
    size_t tensors = TENSORS_OUTSIDE + TENSORS_PER_BLOCK * blocks;
    pl_topology *t = pl_alloc(sizeof *t);
    t->shape = *shape;
    t->spec = complete;
    t->slots = pl_alloc(slots * sizeof *t->slots);
    t->first_module = pl_alloc(slots * sizeof *t->first_module);
    t->tensors = pl_alloc(tensors * sizeof *t->tensors);
    const pl_shape *s = &t->shape;
    t->n_paths = pl_topology_spec_n_paths(&t->spec);
    open_slot(t, PL_SLOT_EMBED, t->spec.embed_choice, "embed");
    add_tensor(t, -1, "model.embed_tokens.weight", s->vocab, s->width, init_std);
    /* Adds slots: first the levels, each without its private blocks; then the private
     * blocks, in order. */
    char name[PL_NAME_MAX];
    for (int l = 0, b = 0; l < t->spec.n_levels; l++) {
        snprintf(name, sizeof name, "L%d", l + 1);
        open_slot(t, PL_SLOT_BLOCKS, l + 1, name);
        for (int end = b + t->spec.blocks[l]; b < end; b++)
            if (!t->spec.private_block[b])
                add_block(t, b);
    }
    for (int b = 0; b < t->shape.n_blocks; b++)
        if (t->spec.private_block[b]) {
            snprintf(name, sizeof name, "B%d", b);
            open_slot(t, PL_SLOT_BLOCKS, PL_CHOICE_PRIVATE, name);
            add_block(t, b);
        }
    open_slot(t, PL_SLOT_HEAD, t->spec.head_choice, "head");
    add_tensor(t, -1, "model.norm.weight", 1, s->width, 0.0);
    if (!s->tied)
        add_tensor(t, -1, "lm_head.weight", s->vocab, s->width, init_std);
    *out = t;
    return PL_OK;
}

void pl_topology_destroy(pl_topology **topology)
{
    pl_topology *t = *topology;
    if (!t)
        return;
    pl_free(t->slots);
    pl_free(t->first_module);
    pl_free(t->tensors);
    pl_free(t);
    *topology = NULL;
}

/* ---- getters ---- */
const pl_shape *pl_topology_shape(const pl_topology *t)
{
    return &t->shape;
}

const pl_topology_spec *pl_topology_get_spec(const pl_topology *t)
{
    return &t->spec;
}

int pl_topology_n_paths(const pl_topology *t)
{
    return t->n_paths;
}

int pl_topology_n_replicas(const pl_topology *t)
{
    return t->spec.replicas;
}

int pl_topology_n_slots(const pl_topology *t)
{
    return t->n_slots;
}

const pl_slot *pl_topology_slot(const pl_topology *t, int slot)
{
    return &t->slots[slot];
}

int pl_topology_n_tensors(const pl_topology *t)
{
    return t->n_tensors;
}

const pl_tensor *pl_topology_tensor(const pl_topology *t, int tensor)
{
    return &t->tensors[tensor];
}

size_t pl_topology_path_params(const pl_topology *t)
{
    return t->path_params;
}

uint64_t pl_topology_total_params(const pl_topology *t)
{
    uint64_t total = 0;
    for (int s = 0; s < t->n_slots; s++)
        total += (uint64_t)t->slots[s].n_params * (uint64_t)t->slots[s].n_experts;
    return total;
}

/* ---- modules and paths ---- */
/* Returns the expert that a path takes at a level; paths are numbered row-major over
 * the levels. */
static int level_of_path(const pl_topology *t, int path, int level)
{
    for (int l = t->spec.n_levels; l > level; l--)
        path /= t->spec.experts[l - 1];
    return path % t->spec.experts[level - 1];
}

static int expert_of_path(const pl_topology *t, int slot, int path)
{
    int choice = t->slots[slot].choice;
    if (choice == PL_CHOICE_COMMON)
        return 0;
    return choice == PL_CHOICE_PRIVATE ? path : level_of_path(t, path, choice);
}

int pl_topology_n_modules(const pl_topology *t)
{
    return t->n_modules;
}

int pl_topology_module(const pl_topology *t, int slot, int expert)
{
    return t->first_module[slot] + expert;
}

int pl_topology_module_of_path(const pl_topology *t, int slot, int path)
{
    return pl_topology_module(t, slot, expert_of_path(t, slot, path));
}

/* Modules of a slot are consecutive, so the module's slot is the last one whose first
 * module is not above `module`. */
int pl_topology_module_slot(const pl_topology *t, int module)
{
    int slot = t->n_slots - 1;
    while (t->first_module[slot] > module)
        slot--;
    return slot;
}

bool pl_topology_path_has(const pl_topology *t, int path, int module)
{
    int slot = pl_topology_module_slot(t, module);
    return pl_topology_module_of_path(t, slot, path) == module;
}

/* Paths are all combinations of experts, so every module of a slot has the same number
 * of paths. */
int pl_topology_module_n_paths(const pl_topology *t, int module)
{
    return t->n_paths / t->slots[pl_topology_module_slot(t, module)].n_experts;
}

/* The number of consecutive path numbers that share an expert of this slot. A path is
 * (before * K + expert) * stride + after; its place among the module's paths leaves the
 * expert out. */
static int stride_of(const pl_topology *t, const pl_slot *slot)
{
    int stride = 1;
    for (int l = t->spec.n_levels; slot->choice > 0 && l > slot->choice; l--)
        stride *= t->spec.experts[l - 1];
    return stride;
}

int pl_topology_module_path(const pl_topology *t, int module, int nth)
{
    const int at = pl_topology_module_slot(t, module);
    const pl_slot *slot = &t->slots[at];
    int stride = stride_of(t, slot), expert = module - t->first_module[at];
    return (nth / stride * slot->n_experts + expert) * stride + nth % stride;
}

int pl_topology_path_place(const pl_topology *t, int module, int path)
{
    const pl_slot *slot = &t->slots[pl_topology_module_slot(t, module)];
    int stride = stride_of(t, slot);
    return path / (slot->n_experts * stride) * stride + path % stride;
}

/* ---- names ---- */
static int n_digits(int value)
{
    int n = 1;
    for (; value >= 10; value /= 10)
        n++;
    return n;
}

void pl_topology_module_name(const pl_topology *t, int module, char out[PL_NAME_MAX])
{
    int slot = pl_topology_module_slot(t, module);
    snprintf(out, PL_NAME_MAX, "%.24s.E%d", t->slots[slot].name,
             module - t->first_module[slot]);
}

/* Finds only the one valid spelling of each module's name, so "L1.E01" is not found. */
int pl_topology_find_module(const pl_topology *t, const char *name)
{
    char spelling[PL_NAME_MAX];
    for (int slot = 0; slot < t->n_slots; slot++) {
        if (t->slots[slot].n_experts == 1 && strcmp(name, t->slots[slot].name) == 0)
            return t->first_module[slot];
        size_t prefix = strlen(t->slots[slot].name);
        if (strncmp(name, t->slots[slot].name, prefix) != 0 || name[prefix] != '.')
            continue;
        for (int e = 0; e < t->slots[slot].n_experts; e++) {
            pl_topology_module_name(t, t->first_module[slot] + e, spelling);
            if (strcmp(name, spelling) == 0)
                return t->first_module[slot] + e;
        }
    }
    return -1;
}

void pl_topology_path_name(const pl_topology *t, int path, char out[PL_NAME_MAX])
{
    pl_topology_ancestor_path_name(t, t->spec.experts, path, out);
}

/* ---- descent ---- */
int pl_topology_ancestor(const pl_topology *t, const int experts[PL_LEVELS_MAX],
                         int level, int expert)
{
    return expert / (t->spec.experts[level - 1] / experts[level - 1]);
}

int pl_topology_ancestor_path(const pl_topology *t, const int experts[PL_LEVELS_MAX],
                              int path)
{
    int ancestor = 0;
    for (int l = 1; l <= t->spec.n_levels; l++)
        ancestor = ancestor * experts[l - 1] +
                   pl_topology_ancestor(t, experts, l, level_of_path(t, path, l));
    return ancestor;
}

void pl_topology_ancestor_path_name(const pl_topology *t,
                                    const int experts[PL_LEVELS_MAX], int path,
                                    char out[PL_NAME_MAX])
{
    size_t at = (size_t)snprintf(out, PL_NAME_MAX, "p");
    for (int l = 1; l <= t->spec.n_levels; l++)
        at += (size_t)snprintf(
            out + at, PL_NAME_MAX - at, "%0*d", n_digits(experts[l - 1] - 1),
            pl_topology_ancestor(t, experts, l, level_of_path(t, path, l)));
}

int pl_topology_ancestor_module(const pl_topology *t, const pl_topology *from,
                                int module)
{
    const int slot = pl_topology_module_slot(t, module);
    const int choice = t->slots[slot].choice;
    int expert = module - t->first_module[slot];
    if (choice == PL_CHOICE_PRIVATE)
        expert = pl_topology_ancestor_path(t, from->spec.experts, expert);
    else if (choice != PL_CHOICE_COMMON)
        expert = pl_topology_ancestor(t, from->spec.experts, choice, expert);
    return from->first_module[slot] + expert;
}

/* ---- cost ---- */
/* A multiply-add is two operations; backward is two products for each one of
 * forward. Attention over T positions looks at (T + 1) / 2 of them on average, in
 * two products of H * D each. */
double pl_topology_flops_per_token(const pl_topology *t, int context, bool backward)
{
    const pl_shape *s = &t->shape;
    double matmul = 0.0;
    for (int i = 0; i < t->n_tensors; i++)
        if (t->tensors[i].block >= 0 && t->tensors[i].decay)
            matmul += (double)t->tensors[i].rows * t->tensors[i].cols;
    matmul += (double)s->vocab * s->width;
    double attention = (context + 1.0) * s->n_heads * s->head_size * s->n_blocks;
    return (backward ? 3.0 : 1.0) * 2.0 * (matmul + attention);
}
