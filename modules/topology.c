/* The table of slots and tensors of a path, and the numbering of modules and paths.
 *
 * The parameters of a path are in this order: embed, the levels, the private blocks,
 * head. Inside a block the norms come first, then the matrices, so that parameters with
 * and without weight decay alternate only twice per block. q, k and v are adjacent, and
 * so are gate and up, so that one matrix product computes each group. */
#include "modules/topology.h"
#include "modules/topology_spec.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>

enum { TENSORS_PER_BLOCK = 11, TENSORS_OUTSIDE = 3, SLOTS_OUTSIDE = 2 };

static const double init_std = 0.02;

struct pl_topology {
    pl_shape shape;
    pl_topology_spec spec; /* a copy of the caller's spec, with `blocks` filled in */
    int n_paths, n_slots, n_tensors, n_modules;
    size_t path_params;
    pl_slot *slots;
    int *first_module; /* [slots] for each slot, the number of its first module */
    int *cell;         /* [paths] number of each path's combination of experts */
    /* by_expert [levels, paths]: the paths, sorted by their expert of the level; place
     * [levels, paths]: the place of each path among the paths with the same expert;
     * first_path [K + 1] of each level: where the paths of each expert begin in
     * by_expert */
    int *by_expert, *place, *first_path[PL_LEVELS_MAX];
    pl_tensor *tensors;
};

/* ---- building ---- Slots and tensors are appended in the order of the parameters;
 * path_params is the offset of the next one. */

int pl_topology_spec_n_cells(const pl_topology_spec *spec)
{
    int n = 1;
    for (int l = 0; l < spec->n_levels; l++)
        n = spec->experts[l] > INT_MAX / n ? INT_MAX : n * spec->experts[l];
    return n;
}

int pl_topology_spec_n_paths(const pl_topology_spec *spec)
{
    const int n_cells = pl_topology_spec_n_cells(spec);
    int n = n_cells;
    for (int i = 0; i < n_cells && i < PL_ABSENT_MAX; i++)
        n -= spec->absent[i];
    return n;
}

/* Lists all paths, and the paths of each expert. All lists are in one block of memory,
 * which begins at `cell`. */
static pl_status list_paths(pl_topology *t)
{
    const int n_levels = t->spec.n_levels;
    const size_t n = (size_t)t->n_paths;
    size_t n_first = 0;
    for (int l = 0; l < n_levels; l++)
        n_first += (size_t)t->spec.experts[l] + 1;
    const size_t all = n + 2 * n * (size_t)n_levels + n_first;
    PL_CHECK(pl_try_alloc(all * sizeof(int), "the lists of paths", (void **)&t->cell));
    t->by_expert = t->cell + n;
    t->place = t->by_expert + n * (size_t)n_levels;
    int *first = t->place + n * (size_t)n_levels;
    memset(first, 0, n_first * sizeof *first);
    for (int i = 0, cell = 0; i < t->n_paths; cell++)
        if (cell >= PL_ABSENT_MAX || !t->spec.absent[cell])
            t->cell[i++] = cell;
    for (int level = n_levels - 1, stride = 1; level >= 0; level--) {
        const int k = t->spec.experts[level];
        int *place = t->place + (size_t)level * n;
        int *by_expert = t->by_expert + (size_t)level * n;
        for (int p = 0; p < t->n_paths; p++)
            place[p] = first[t->cell[p] / stride % k + 1]++;
        for (int e = 0; e < k; e++)
            first[e + 1] += first[e];
        for (int p = 0; p < t->n_paths; p++)
            by_expert[first[t->cell[p] / stride % k] + place[p]] = p;
        t->first_path[level] = first;
        first += k + 1;
        stride *= k;
    }
    return PL_OK;
}

static void open_slot(pl_topology *t, pl_slot_kind kind, int choice, const char *name)
{
    pl_slot *slot = &t->slots[t->n_slots];
    pl_copy_text(slot->name, sizeof slot->name, name);
    slot->kind = kind;
    slot->choice = choice;
    slot->n_experts = choice == PL_CHOICE_COMMON    ? 1
                      : choice == PL_CHOICE_PRIVATE ? t->n_paths
                                                    : t->spec.experts[choice - 1];
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

/* A block adds two products to the residual stream. The initial values of their
 * matrices are divided by the square root of the number of such products in the path
 * (Radford et al. 2019, section 2.3). */
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
    pl_status status = list_paths(t);
    if (status != PL_OK) {
        pl_topology_destroy(&t);
        return status;
    }
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
    pl_free_all(t->cell, t->slots, t->first_module, t->tensors, t);
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
/* Returns the expert that a path takes at a level; combinations of experts are numbered
 * row-major over the levels. */
static int level_of_path(const pl_topology *t, int path, int level)
{
    int cell = t->cell[path];
    for (int l = t->spec.n_levels; l > level; l--)
        cell /= t->spec.experts[l - 1];
    return cell % t->spec.experts[level - 1];
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
    const int choice = t->slots[slot].choice;
    int expert = 0;
    if (choice != PL_CHOICE_COMMON)
        expert = choice == PL_CHOICE_PRIVATE ? path : level_of_path(t, path, choice);
    return pl_topology_module(t, slot, expert);
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

int pl_topology_module_n_paths(const pl_topology *t, int module)
{
    const int slot = pl_topology_module_slot(t, module), level = t->slots[slot].choice;
    if (level <= 0)
        return level == PL_CHOICE_COMMON ? t->n_paths : 1;
    const int *first = t->first_path[level - 1] + (module - t->first_module[slot]);
    return first[1] - first[0];
}

int pl_topology_module_path(const pl_topology *t, int module, int nth)
{
    const int slot = pl_topology_module_slot(t, module), level = t->slots[slot].choice;
    const int expert = module - t->first_module[slot];
    if (level <= 0)
        return level == PL_CHOICE_COMMON ? nth : expert;
    return t->by_expert[(size_t)(level - 1) * (size_t)t->n_paths +
                        (size_t)(t->first_path[level - 1][expert] + nth)];
}

int pl_topology_path_place(const pl_topology *t, int module, int path)
{
    const int level = t->slots[pl_topology_module_slot(t, module)].choice;
    if (level <= 0)
        return level == PL_CHOICE_COMMON ? path : 0;
    return t->place[(size_t)(level - 1) * (size_t)t->n_paths + (size_t)path];
}

/* ---- names ---- */
char *pl_topology_module_name(const pl_topology *t, int module, char out[PL_NAME_MAX])
{
    int slot = pl_topology_module_slot(t, module);
    snprintf(out, PL_NAME_MAX, "%.24s.E%d", t->slots[slot].name,
             module - t->first_module[slot]);
    return out;
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

char *pl_topology_path_name(const pl_topology *t, int path, char out[PL_NAME_MAX])
{
    const pl_descent same = {.n_parents = 0};
    pl_topology_ancestor_path_name(t, &same, path, out);
    return out;
}

int pl_topology_find_path(const pl_topology *t, const char *name)
{
    char known[PL_NAME_MAX];
    for (int path = 0; path < pl_topology_n_paths(t); path++) {
        pl_topology_path_name(t, path, known);
        if (strcmp(known, name) == 0)
            return path;
    }
    return -1;
}

/* ---- descent ---- */
/* Returns the expert of an ancestor's level from which this expert descends, where the
 * ancestor has `experts` modules per level. */
static int ancestor(const pl_topology *t, const pl_descent *d,
                    const int experts[PL_LEVELS_MAX], int level, int expert)
{
    if (d->n_parents == 0)
        return expert / (t->spec.experts[level - 1] / experts[level - 1]);
    for (int l = 1; l < level; l++)
        expert += t->spec.experts[l - 1];
    return d->parent[expert];
}

static int ancestor_level(const pl_descent *d, int level)
{
    return d->n_parents == 0 ? level : d->level[level - 1];
}

/* Slot 0 is the embedding and slot l belongs to level l. The slots of private blocks
 * and of the head come after the levels. */
static int ancestor_slot(const pl_topology *t, const pl_descent *d,
                         const pl_topology *from, int slot)
{
    if (slot == 0)
        return 0;
    return slot <= t->spec.n_levels ? ancestor_level(d, slot)
                                    : slot - t->spec.n_levels + from->spec.n_levels;
}

/* Whether the list of parents names levels and experts that the ancestor has. */
static bool lists_parents(const pl_topology *t, const pl_descent *d,
                          const pl_topology *from)
{
    int n = 0;
    for (int l = 0; l < t->spec.n_levels; l++) {
        const int before = l > 0 ? d->level[l - 1] : 1, k = t->spec.experts[l];
        if (d->level[l] < before || d->level[l] > before + (l > 0) ||
            k > d->n_parents - n)
            return false;
        for (int e = 0; e < k; e++)
            if (d->parent[n + e] < 0 ||
                d->parent[n + e] >= from->spec.experts[d->level[l] - 1])
                return false;
        n += k;
    }
    return n == d->n_parents && n <= PL_DESCENT_MAX &&
           d->level[t->spec.n_levels - 1] == from->spec.n_levels;
}

int pl_topology_ancestor_path(const pl_topology *t, const pl_descent *d,
                              const pl_topology *from, int path)
{
    int expert[PL_LEVELS_MAX], cell = 0;
    memset(expert, -1, sizeof expert);
    for (int l = 1; l <= t->spec.n_levels; l++) {
        const int at = ancestor_level(d, l) - 1;
        const int e = ancestor(t, d, from->spec.experts, l, level_of_path(t, path, l));
        /* modules that descend from different experts of one level make no path */
        if (expert[at] >= 0 && expert[at] != e)
            return -1;
        expert[at] = e;
    }
    for (int l = 0; l < from->spec.n_levels; l++)
        cell = cell * from->spec.experts[l] + expert[l];
    /* Paths are sorted by their combinations of experts. */
    int low = 0, high = from->n_paths;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (from->cell[middle] < cell)
            low = middle + 1;
        else
            high = middle;
    }
    return low < from->n_paths && from->cell[low] == cell ? low : -1;
}

bool pl_topology_descends(const pl_topology *t, const pl_descent *d,
                          const pl_topology *from)
{
    const int more = t->spec.n_levels - from->spec.n_levels;
    bool fits = t->path_params == from->path_params &&
                t->n_slots - from->n_slots == more && (d->n_parents > 0 || more == 0);
    if (fits && d->n_parents > 0)
        fits = lists_parents(t, d, from);
    for (int l = 0; fits && d->n_parents == 0 && l < t->spec.n_levels; l++)
        fits = t->spec.experts[l] % from->spec.experts[l] == 0;
    for (int s = 0; fits && s < t->n_slots; s++) {
        const pl_slot *slot = &t->slots[s];
        const int level = slot->choice;
        const pl_slot *origin = &from->slots[ancestor_slot(t, d, from, s)];
        fits = origin->choice == (level > 0 ? ancestor_level(d, level) : level) &&
               slot->offset >= origin->offset &&
               slot->offset + slot->n_params <= origin->offset + origin->n_params;
    }
    for (int p = 0; fits && p < t->n_paths; p++)
        fits = pl_topology_ancestor_path(t, d, from, p) >= 0;
    return fits;
}

void pl_topology_ancestor_path_name(const pl_topology *t, const pl_descent *d, int path,
                                    char out[PL_NAME_MAX])
{
    const int *experts = d->experts[0] > 0 ? d->experts : t->spec.experts;
    size_t at = (size_t)snprintf(out, PL_NAME_MAX, "p");
    for (int l = 1, last = 0; l <= t->spec.n_levels; l++) {
        const int level = ancestor_level(d, l);
        int width = 1; /* digits of the largest expert of the level */
        for (int most = experts[level - 1] - 1; most >= 10; most /= 10)
            width++;
        if (level != last)
            at +=
                (size_t)snprintf(out + at, PL_NAME_MAX - at, "%0*d", width,
                                 ancestor(t, d, experts, l, level_of_path(t, path, l)));
        last = level;
    }
}

int pl_topology_ancestor_module(const pl_topology *t, const pl_descent *d,
                                const pl_topology *from, int module)
{
    const int at = pl_topology_module_slot(t, module);
    const int slot = ancestor_slot(t, d, from, at), choice = t->slots[at].choice;
    int expert = module - t->first_module[at];
    if (choice == PL_CHOICE_PRIVATE)
        expert = pl_topology_ancestor_path(t, d, from, expert);
    else if (choice != PL_CHOICE_COMMON)
        expert = ancestor(t, d, from->spec.experts, choice, expert);
    return from->first_module[slot] + expert;
}

/* ---- initial values ---- */
/* The random numbers depend only on the seed and on the tensor's name. So all experts
 * of a slot start equal, as in the paper (arXiv:2403.10616). A dense model and a
 * mixture of the same shape start equal too, which makes their comparison fair. */
void pl_tensor_init(const pl_tensor *tensor, uint64_t seed, float *values)
{
    size_t n = (size_t)tensor->rows * (size_t)tensor->cols;
    float std = (float)tensor->init_std;
    if (std > 0.0f)
        pl_random_normals(seed, pl_stream(tensor->name, 0, 0), n, values);
    for (size_t i = 0; i < n; i++)
        values[i] = std > 0.0f ? std * values[i] : 1.0f;
}

void pl_topology_init(const pl_topology *t, int slot, uint64_t seed, float *params)
{
    const pl_slot *s = &t->slots[slot];
    for (int i = s->first_tensor; i < s->first_tensor + s->n_tensors; i++)
        pl_tensor_init(&t->tensors[i], seed,
                       params + (t->tensors[i].offset - s->offset));
}

/* ---- cost ---- */
/* A multiply-add is two FLOPs. The backward pass has two products for each product of
 * the forward pass. Attention over T positions looks at (T + 1) / 2 of them on average,
 * in two products of H * D each. */
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
