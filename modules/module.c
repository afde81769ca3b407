/* Holds the parameters of modules in a backend's memory, and makes paths of them
 * (module.h).
 *
 * The floats of a module lie in one block. If the backend multiplies by the fp32
 * parameters, the block has all parameters. If the backend multiplies by copies of
 * matrices, the block has only the embedding and the norms; each matrix passes through
 * staging memory, which is released when its copy is made. */
#include "modules/model_internal.h"

struct pl_module {
    pl_backend *be;
    float *params;
    const float *embed, *norm; /* NULL: in the module of a different slot */
    pl_weight *classifier;     /* NULL: in the module of a different slot */
    block_weights *blocks;     /* [n_blocks] */
    int *numbers;              /* [n_blocks] numbers of these blocks in a path */
    int n_blocks;
    pl_weight **weights; /* all matrices, [n_weights] */
    int n_weights;
};

/* ---- bytes ---- */
/* Returns the number of different blocks to which the slot's tensors belong. Writes the
 * blocks' numbers, in rising order, into `numbers` if it is not NULL. */
static int list_blocks(const pl_topology *t, const pl_slot *slot, int *numbers)
{
    int n = 0, last = -1;
    for (int i = slot->first_tensor; i < slot->first_tensor + slot->n_tensors; i++) {
        const int block = pl_topology_tensor(t, i)->block;
        if (block >= 0 && block != last) {
            if (numbers)
                numbers[n] = block;
            n++;
            last = block;
        }
    }
    return n;
}

/* Whether the classifier is made from this slot. If embedding and classifier are tied,
 * it is made from the embedding, else from the head. */
static bool has_classifier(const pl_shape *s, const pl_slot *slot)
{
    return slot->kind == (s->tied ? PL_SLOT_EMBED : PL_SLOT_HEAD);
}

/* Returns the number of gains of a block's QK norm: those of queries, then those of
 * keys. Returns 0 if the blocks have no QK norm. */
static size_t head_gains(const pl_shape *s)
{
    return s->qk_norm ? 2 * (size_t)s->head_size : 0;
}

/* Returns the number of floats that the module keeps. */
static size_t kept_floats(const pl_backend *be, const pl_topology *t, int slot)
{
    const pl_shape *s = pl_topology_shape(t);
    const pl_slot *of = pl_topology_slot(t, slot);
    const size_t C = model_whole_lines((size_t)s->width);
    if (!model_has_copies(be))
        return of->n_params;
    if (of->kind == PL_SLOT_EMBED)
        return model_whole_lines((size_t)s->vocab * (size_t)s->width);
    if (of->kind == PL_SLOT_HEAD)
        return C;
    return (size_t)list_blocks(t, of, NULL) *
           (2 * C + model_whole_lines(head_gains(s)));
}

uint64_t pl_module_bytes(const pl_backend *be, const pl_topology *t, int slot)
{
    const pl_shape *s = pl_topology_shape(t);
    const pl_slot *of = pl_topology_slot(t, slot);
    const uint64_t n_blocks = (uint64_t)list_blocks(t, of, NULL);
    uint64_t bytes = sizeof(float) * (uint64_t)kept_floats(be, t, slot);
    for (int i = 0; i < WEIGHTS_PER_BLOCK; i++)
        bytes += n_blocks * model_copy_bytes(be, model_weight_size(s, i));
    if (has_classifier(s, of))
        bytes += model_copy_bytes(be, (matrix_size){s->vocab, s->width});
    return bytes;
}

/* ---- making a module ---- */
/* A module that is being made: its source floats, and how much of its block is
 * filled. */
typedef struct making {
    pl_module *m;
    const float *from;
    bool copies;         /* whether the backend uses copies; masters are not kept */
    size_t used, offset; /* offset: where the slot begins in a path's block */
    float *staging;
} making;

/* Returns the address of n floats that stay in fp32: a norm or the embedding. Uploads
 * them if the module keeps only copies of matrices. */
static const float *keep_floats(making *k, size_t at, size_t n)
{
    pl_backend *be = k->m->be;
    if (!k->copies) /* the whole block was uploaded at once */
        return k->m->params + (at - k->offset);
    float *to = k->m->params + k->used;
    be->ops->upload(be, to, k->from + (at - k->offset), n * sizeof *to);
    k->used += model_whole_lines(n);
    return to;
}

static pl_status keep_matrix(making *k, size_t at, matrix_size size, pl_weight **out)
{
    pl_module *m = k->m;
    const pl_ops *ops = m->be->ops;
    const float *master = k->copies ? k->staging : m->params + (at - k->offset);
    if (k->copies)
        ops->upload(m->be, k->staging, k->from + (at - k->offset),
                    (size_t)size.O * (size_t)size.I * sizeof(float));
    PL_CHECK(
        ops->weight_create(m->be, master, size.O, size.I, &m->weights[m->n_weights]));
    *out = m->weights[m->n_weights++];
    ops->weights_refresh(m->be, out, 1);
    return PL_OK;
}

pl_status pl_module_create(pl_backend *be, const pl_topology *t, int slot,
                           const float *params, pl_module **out)
{
    pl_status status = PL_OK;
    const pl_slot *of = pl_topology_slot(t, slot);
    const pl_shape *s = pl_topology_shape(t);
    const size_t n = (size_t)list_blocks(t, of, NULL);
    pl_module *m = pl_alloc(sizeof *m);
    making k = {
        .m = m, .from = params, .copies = model_has_copies(be), .offset = of->offset};
    param_places places = {0};
    *out = NULL;
    m->be = be;
    m->blocks = pl_alloc(n * sizeof *m->blocks);
    m->numbers = pl_alloc(n * sizeof *m->numbers);
    m->weights = pl_alloc((WEIGHTS_PER_BLOCK * n + 1) * sizeof(pl_weight *));
    m->n_blocks = list_blocks(t, of, m->numbers);
    PL_TRY(model_alloc_floats(be, kept_floats(be, t, slot), "parameters", &m->params));
    if (k.copies) {
        /* staging memory for the slot's largest matrix, if it has any */
        size_t most = has_classifier(s, of) ? (size_t)s->vocab * (size_t)s->width : 0;
        for (int i = 0; of->kind == PL_SLOT_BLOCKS && i < WEIGHTS_PER_BLOCK; i++) {
            const matrix_size size = model_weight_size(s, i);
            const size_t floats = (size_t)size.O * (size_t)size.I;
            most = floats > most ? floats : most;
        }
        if (most > 0)
            PL_TRY(model_alloc_floats(be, most, "a matrix", &k.staging));
    } else {
        be->ops->upload(be, m->params, params, of->n_params * sizeof *params);
    }
    model_place_tensors(t, &places);
    for (int b = 0; b < m->n_blocks; b++) {
        const block_params *at = &places.blocks[m->numbers[b]];
        block_weights *kept = &m->blocks[b];
        kept->of = m;
        kept->attn_norm = keep_floats(&k, at->attn_norm, (size_t)s->width);
        kept->ffn_norm = keep_floats(&k, at->ffn_norm, (size_t)s->width);
        if (s->qk_norm)
            kept->head_norm = keep_floats(&k, at->head_norm, head_gains(s));
        for (int i = 0; i < WEIGHTS_PER_BLOCK; i++)
            PL_TRY(keep_matrix(&k, at->matrices[i], model_weight_size(s, i),
                               &kept->matrices[i]));
    }
    if (of->kind == PL_SLOT_HEAD)
        m->norm = keep_floats(&k, places.norm, (size_t)s->width);
    if (of->kind == PL_SLOT_EMBED)
        m->embed = keep_floats(&k, places.embed, (size_t)s->vocab * (size_t)s->width);
    if (has_classifier(s, of))
        PL_TRY(keep_matrix(&k, places.classifier, (matrix_size){s->vocab, s->width},
                           &m->classifier));
    PL_TRY(be->ops->sync(be));
    *out = m;
done:
    if (k.staging)
        be->ops->release(be, k.staging);
    pl_free(places.blocks);
    if (status != PL_OK)
        pl_module_destroy(&m);
    return status;
}

void pl_module_destroy(pl_module **module)
{
    pl_module *m = *module;
    if (!m)
        return;
    for (int i = 0; i < m->n_weights; i++)
        m->be->ops->weight_destroy(m->be, &m->weights[i]);
    if (m->params)
        m->be->ops->release(m->be, m->params);
    pl_free_all(m->weights, m->blocks, m->numbers, m);
    *module = NULL;
}

/* ---- paths ---- */
pl_path *model_new_path(int n_blocks)
{
    static uint64_t n_made;
    pl_path *p = pl_alloc(sizeof *p);
    p->blocks = pl_alloc((size_t)n_blocks * sizeof *p->blocks);
    p->number = __atomic_add_fetch(&n_made, 1, __ATOMIC_SEQ_CST);
    return p;
}

pl_status pl_path_create(const pl_topology *t, pl_module *const *modules, pl_path **out)
{
    const int n_blocks = pl_topology_shape(t)->n_blocks;
    pl_path *p = model_new_path(n_blocks);
    int n = 0;
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        const pl_module *m = modules[slot];
        for (int b = 0; b < m->n_blocks && m->numbers[b] < n_blocks; b++)
            p->blocks[m->numbers[b]] = m->blocks[b];
        p->embed = m->embed ? m->embed : p->embed;
        p->norm = m->norm ? m->norm : p->norm;
        p->classifier = m->classifier ? m->classifier : p->classifier;
    }
    for (int b = 0; b < n_blocks; b++)
        n += p->blocks[b].of != NULL;
    *out = p;
    if (n == n_blocks && p->embed && p->norm && p->classifier)
        return PL_OK;
    pl_path_destroy(out);
    return pl_fail(PL_ERR_ARG,
                   "the modules have %d of the %d blocks of a path, or lack its "
                   "embedding or head; give one module of each slot",
                   n, n_blocks);
}

void pl_path_destroy(pl_path **path)
{
    pl_path *p = *path;
    if (!p)
        return;
    pl_free_all(p->blocks, p);
    *path = NULL;
}
