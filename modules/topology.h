/* Topology: how paths are put together from modules.
 *
 * A path is one module per slot: embed, one slot per level, one slot per
 * path-specific block, head. Level l has K_l modules; the P = K_1 * ... * K_L
 * paths are numbered row-major: path = ((e_1 * K_2) + e_2) * K_3 + ...
 * The `choice` of a slot says which expert a path uses there:
 *   common (K=1): 0       level l: e_l       private (K=P): the path itself.
 * Combinations of experts may be left out (`absent`); the others are the paths,
 * numbered in the same order without gaps. A path's name shows its experts, not its
 * number. Replicas are separate trainings of the same path on different data.
 *
 * Every expert of a slot has the same tensors, so all paths share one layout: the
 * parameters of a path are one block of floats, slot after slot, and a module is a
 * contiguous region of it.
 *
 * Levels are written as "2x2", "16x16" or "1" (dense). Each level has n_blocks / L
 * consecutive blocks, unless the specification gives other numbers (`blocks`). */
#pragma once
#include "modules/shape.h"
PL_C_BEGIN

enum { PL_LEVELS_MAX = 8, PL_NAME_MAX = 64, PL_BLOCKS_MAX = 256 };
/* PL_ABSENT_MAX: largest number of combinations of experts if some are left out.
 * PL_DESCENT_MAX: largest number of modules of all levels together if the topology
 * descends by a list of parents (pl_descent). */
enum { PL_ABSENT_MAX = 256, PL_DESCENT_MAX = 128 };
/* the choice of a slot (above); a value l >= 1 means level l */
enum { PL_CHOICE_COMMON = 0, PL_CHOICE_PRIVATE = -1 };

typedef struct pl_topology_spec {
    int n_levels;               /* 1.. PL_LEVELS_MAX */
    int experts[PL_LEVELS_MAX]; /* K_l, number of modules of each level */
    int blocks[PL_LEVELS_MAX]; /* number of blocks of each level; all 0: split evenly */
    int embed_choice;          /* COMMON, PRIVATE or a level */
    /* choice of the head: the final norm, and the output matrix unless it is tied */
    int head_choice;
    /* whether block b, which lies in a level, is path-specific */
    bool private_block[PL_BLOCKS_MAX];
    /* whether a combination of experts, numbered row-major, is left out. Every expert
     * is in at least one path. */
    bool absent[PL_ABSENT_MAX];
    int replicas; /* R >= 1 of each path */
} pl_topology_spec;

/* Parses e.g. "2x2" into n_levels and experts; the other fields stay as they are.
 * ERR_CONFIG. */
pl_status pl_topology_parse_levels(const char *text, pl_topology_spec *spec);
/* Returns the number of combinations of experts, including those that are left out;
 * INT_MAX if it does not fit into an int. */
int pl_topology_spec_n_cells(const pl_topology_spec *spec);
int pl_topology_spec_n_paths(const pl_topology_spec *spec);
/* Parses e.g. "0,5,6,11" into private_block ("": no block). ERR_CONFIG. */
pl_status pl_topology_parse_private(const char *text, int n_blocks,
                                    pl_topology_spec *spec);

typedef enum pl_slot_kind { PL_SLOT_EMBED, PL_SLOT_BLOCKS, PL_SLOT_HEAD } pl_slot_kind;

typedef struct pl_slot {
    char name[PL_NAME_MAX]; /* "embed", "L1", "B5" (private block 5), "head" */
    pl_slot_kind kind;
    int choice;      /* COMMON, PRIVATE or level */
    int n_experts;   /* K, number of modules of the slot */
    size_t offset;   /* offset of the slot's region in a path's parameters, in floats */
    size_t n_params; /* number of floats of one expert */
    int first_tensor, n_tensors;
} pl_slot;

typedef struct pl_tensor {
    char name[PL_NAME_MAX]; /* Llama names: "model.layers.3.self_attn.q_proj.weight" */
    int slot, block;        /* block -1 outside blocks */
    int rows, cols;         /* [rows, cols], row-major; a vector has rows 1 */
    size_t offset;          /* offset in a path's parameters, in floats */
    bool decay;      /* whether weight decay applies: to matrices, not to norms */
    double init_std; /* 0: the tensor is filled with ones */
} pl_tensor;

typedef struct pl_topology pl_topology;

/* Makes a topology from copies of shape and spec. The text of ERR_CONFIG has the
 * numbers that do not fit, and says what to change. */
pl_status pl_topology_create(const pl_shape *shape, const pl_topology_spec *spec,
                             pl_topology **out);
void pl_topology_destroy(pl_topology **topology);

const pl_shape *pl_topology_shape(const pl_topology *t);
const pl_topology_spec *pl_topology_get_spec(const pl_topology *t);
int pl_topology_n_paths(const pl_topology *t);
int pl_topology_n_replicas(const pl_topology *t);
int pl_topology_n_slots(const pl_topology *t);
const pl_slot *pl_topology_slot(const pl_topology *t, int slot);
int pl_topology_n_tensors(const pl_topology *t);
const pl_tensor *pl_topology_tensor(const pl_topology *t, int tensor);
size_t pl_topology_path_params(const pl_topology *t);    /* floats of one path */
uint64_t pl_topology_total_params(const pl_topology *t); /* floats of all modules */

/* The modules of all slots are numbered from 0, slot by slot, expert by expert. */
int pl_topology_n_modules(const pl_topology *t);
int pl_topology_module(const pl_topology *t, int slot, int expert);
int pl_topology_module_of_path(const pl_topology *t, int slot, int path);
int pl_topology_module_slot(const pl_topology *t, int module);
char *pl_topology_module_name(const pl_topology *t, int module,
                              char out[PL_NAME_MAX]); /* "L1.E0" */
/* Finds a path by its name; -1 if there is none. */
int pl_topology_find_path(const pl_topology *t, const char *name);
/* Finds a module by its name; -1 if there is none. If a slot has only one module, the
 * name of the slot may be used: "embed" is "embed.E0". */
int pl_topology_find_module(const pl_topology *t, const char *name);
/* Writes "p" and the path's expert at each level: "p01" with two levels, "p0" with one.
 */
char *pl_topology_path_name(const pl_topology *t, int path, char out[PL_NAME_MAX]);

/* The paths that use a module; each replica of these paths is a contributor of the
 * module. The four functions return the number of these paths, the n-th of them in
 * rising order, the index n of such a path, and whether a path uses the module. Each
 * call takes constant time. */
int pl_topology_module_n_paths(const pl_topology *t, int module);
int pl_topology_module_path(const pl_topology *t, int module, int nth);
int pl_topology_path_place(const pl_topology *t, int module, int path);
bool pl_topology_path_has(const pl_topology *t, int path, int module);

/* How a topology descends from an earlier topology (its ancestor) of the same model.
 * Each level takes its modules from one level of the ancestor. It takes all of their
 * blocks, unless several levels take their modules from the same level of the ancestor;
 * then each of these levels gets some consecutive blocks. */
typedef struct pl_descent {
    int experts[PL_LEVELS_MAX]; /* the ancestor's modules per level; 0: not recorded */
    /* level: the ancestor's level (from 1) of each level. parent: for each expert of
     * each level in turn, the ancestor's expert from which it descends. If n_parents is
     * 0, both topologies have the same levels: if a level has K experts here and A
     * experts in the ancestor, expert e descends from expert e / (K / A). */
    int level[PL_LEVELS_MAX];
    int n_parents, parent[PL_DESCENT_MAX];
} pl_descent;

/* Whether t can descend from `from` as d says. Then all modules of a path of t descend
 * from modules of one path of `from`; the functions below rely on this. */
bool pl_topology_descends(const pl_topology *t, const pl_descent *d,
                          const pl_topology *from);
/* Returns the path of `from` from which this path descends. */
int pl_topology_ancestor_path(const pl_topology *t, const pl_descent *d,
                              const pl_topology *from, int path);
/* Writes the name of the ancestor's path from which this path descends. The function
 * does not need the ancestor's topology, because d->experts has the ancestor's numbers
 * of experts. */
void pl_topology_ancestor_path_name(const pl_topology *t, const pl_descent *d, int path,
                                    char out[PL_NAME_MAX]);
/* Returns the module of `from` from which this module descends. This module may have
 * only some blocks of the ancestor's module. The offsets of its parameters in the
 * parameters of a path are the same in t and in `from`. */
int pl_topology_ancestor_module(const pl_topology *t, const pl_descent *d,
                                const pl_topology *from, int module);

/* Writes the initial values of one module's region: normal(0, init_std), keyed by
 * (seed, tensor name). Initial values are the same for every expert of a slot and for
 * every topology of the same shape. `params` has the slot's n_params floats. */
void pl_topology_init(const pl_topology *t, int slot, uint64_t seed, float *params);
/* Writes the initial values of one tensor [rows, cols]. */
void pl_tensor_init(const pl_tensor *tensor, uint64_t seed, float *values);

/* Returns the FLOPs per token of one path for sequences of `context` tokens: 6 per
 * parameter of a matrix for forward and backward, or 2 for forward alone, plus
 * attention. */
double pl_topology_flops_per_token(const pl_topology *t, int context, bool backward);

/* Fills shape and spec from the preset of this name. pl_preset_names lists all names,
 * NULL-terminated. A name that ends in P is a family (flat-moe-P, diloco-P) and is
 * called with a number in place of P. The text of ERR_CONFIG has the nearest name and
 * the list of all names. */
pl_status pl_preset(const char *name, pl_shape *shape, pl_topology_spec *spec);
const char *const *pl_preset_names(void);

PL_C_END
