/* Keeps modules in memory once, for all paths that use them (module_pool.h). */
#include "serve/module_pool.h"

/* A module in memory. Two modules count as the same if their parameters are equal and
 * the tensors of their slots have the same names and sizes. */
typedef struct resident {
    pl_hash params, layout;
    pl_module *module;
    uint64_t bytes;
    int n_users; /* number of open paths that use the module */
    bool kept;   /* the module stays in memory even if no path uses it */
} resident;

struct pl_module_pool {
    pl_backend *be;
    pl_store *store;
    resident **residents;
    int n;
    uint64_t n_read;
};

struct pl_pooled_path {
    pl_path_source source;
    resident **modules; /* [n_slots] */
    pl_path *table;
    uint64_t contents;
};

pl_module_pool *pl_module_pool_create(pl_backend *be, pl_store *store)
{
    pl_module_pool *pool = pl_alloc(sizeof *pool);
    pool->be = be;
    pool->store = store;
    return pool;
}

void pl_module_pool_destroy(pl_module_pool **pool)
{
    if (!*pool)
        return;
    (void)pl_module_pool_drop_kept(*pool);
    pl_free_all((*pool)->residents, *pool);
    *pool = NULL;
}

pl_pool_counts pl_module_pool_count(const pl_module_pool *pool)
{
    pl_pool_counts c = {.n_modules = pool->n, .n_read = pool->n_read};
    for (int i = 0; i < pool->n; i++)
        c.bytes += pool->residents[i]->bytes;
    return c;
}

/* ---- modules ---- */
/* A hash of the names and sizes of a slot's tensors. A tied and an untied embedding
 * have different hashes, because only a tied embedding is also the output matrix. */
static pl_hash hash_layout(const pl_topology *t, int slot)
{
    const pl_slot *s = pl_topology_slot(t, slot);
    pl_hash hash;
    pl_buf text = {0};
    pl_buf_printf(&text, "%d %d", (int)s->kind, pl_topology_shape(t)->tied);
    for (int i = s->first_tensor; i < s->first_tensor + s->n_tensors; i++) {
        const pl_tensor *tensor = pl_topology_tensor(t, i);
        pl_buf_printf(&text, " %s %d %d", tensor->name, tensor->rows, tensor->cols);
    }
    pl_hash_of("slot tensors", text.data, text.len, &hash);
    pl_buf_destroy(&text);
    return hash;
}

/* Removes the modules that no path uses, except those marked as kept. With `kept`,
 * first clears all these marks. Returns whether a module was removed. */
static bool drop_unused(pl_module_pool *pool, bool kept)
{
    int n = 0;
    const int before = pool->n;
    for (int i = 0; i < pool->n; i++) {
        resident *r = pool->residents[i];
        r->kept = r->kept && !kept;
        if (r->n_users > 0 || r->kept) {
            pool->residents[n++] = r;
            continue;
        }
        pl_module_destroy(&r->module);
        pl_free(r);
    }
    pool->n = n;
    return n < before;
}

bool pl_module_pool_drop_kept(pl_module_pool *pool)
{
    return drop_unused(pool, true);
}

static pl_status read_resident(pl_module_pool *pool, const pl_topology *t, int slot,
                               const pl_path_module *from, resident **out)
{
    const size_t bytes = pl_topology_slot(t, slot)->n_params * sizeof(float);
    void *params = NULL;
    resident *r = pl_alloc(sizeof *r);
    *r = (resident){.params = from->params,
                    .layout = hash_layout(t, slot),
                    .bytes = pl_module_bytes(pool->be, t, slot)};
    pl_status status = pl_try_alloc(bytes, "a module", &params);
    if (status == PL_OK)
        status = pl_read_path_module(pool->store, t, slot, from, params);
    if (status == PL_OK)
        status = pl_module_create(pool->be, t, slot, params, &r->module);
    pl_free(params);
    if (status != PL_OK) {
        pl_free(r);
        return status;
    }
    pool->n_read++;
    const size_t n = (size_t)pool->n;
    pool->residents = pl_grow_items(pool->residents, n, n + 1, sizeof(resident *));
    pool->residents[pool->n++] = r;
    *out = r;
    return PL_OK;
}

/* ---- paths ---- */
/* Names the modules of a path and finds the hashes of their versions. The caller must
 * free *out, also after a failure. */
static pl_status name_modules(const pl_module_pool *pool, const pl_path_source *source,
                              pl_path_module **out)
{
    const pl_topology *t = source->topology;
    *out = pl_alloc((size_t)pl_topology_n_slots(t) * sizeof **out);
    PL_CHECK(pl_name_path_modules(pool->store, source->arm, t, source->path,
                                  source->which, *out));
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++)
        PL_CHECK(pl_find_path_module(pool->store, &(*out)[slot]));
    return PL_OK;
}

static resident *find_module(const pl_module_pool *pool, const pl_topology *t, int slot,
                             const pl_path_module *module)
{
    const pl_hash layout = hash_layout(t, slot);
    for (int i = 0; i < pool->n; i++)
        if (pl_hash_equal(&pool->residents[i]->params, &module->params) &&
            pl_hash_equal(&pool->residents[i]->layout, &layout))
            return pool->residents[i];
    return NULL;
}

pl_status pl_module_pool_missing(const pl_module_pool *pool,
                                 const pl_path_source *source, uint64_t *bytes)
{
    pl_path_module *modules;
    const pl_topology *t = source->topology;
    const pl_status status = name_modules(pool, source, &modules);
    *bytes = 0;
    for (int slot = 0; status == PL_OK && slot < pl_topology_n_slots(t); slot++)
        if (!find_module(pool, t, slot, &modules[slot]))
            *bytes += pl_module_bytes(pool->be, t, slot);
    pl_free(modules);
    return status;
}

pl_status pl_module_pool_open(pl_module_pool *pool, const pl_path_source *source,
                              pl_pooled_path **out)
{
    const pl_topology *t = source->topology;
    const size_t n_slots = (size_t)pl_topology_n_slots(t);
    pl_path_module *modules = NULL;
    pl_module **table = pl_alloc(n_slots * sizeof(pl_module *));
    pl_pooled_path *p = pl_alloc(sizeof *p);
    pl_status status = PL_OK;
    pl_hash all;
    pl_buf hashes = {0};
    p->source = *source;
    p->modules = pl_alloc(n_slots * sizeof(resident *));
    PL_TRY(name_modules(pool, source, &modules));
    for (size_t slot = 0; slot < n_slots; slot++) {
        resident *r = find_module(pool, t, (int)slot, &modules[slot]);
        if (!r)
            PL_TRY(read_resident(pool, t, (int)slot, &modules[slot], &r));
        r->n_users++;
        p->modules[slot] = r;
        table[slot] = r->module;
        pl_buf_append(&hashes, &modules[slot].params, sizeof modules[slot].params);
    }
    pl_hash_of("path modules", hashes.data, hashes.len, &all);
    memcpy(&p->contents, &all, sizeof p->contents);
    PL_TRY(pl_path_create(t, table, &p->table));
done:
    pl_buf_destroy(&hashes);
    pl_free_all(table, modules);
    if (status != PL_OK)
        pl_module_pool_close(pool, &p);
    *out = p;
    return status;
}

void pl_module_pool_close(pl_module_pool *pool, pl_pooled_path **path)
{
    pl_pooled_path *p = *path;
    if (!p)
        return;
    pl_path_destroy(&p->table);
    for (int slot = 0; slot < pl_topology_n_slots(p->source.topology); slot++)
        if (p->modules[slot])
            p->modules[slot]->n_users--;
    (void)drop_unused(pool, false);
    pl_free_all(p->modules, p);
    *path = NULL;
}

const pl_path *pl_pooled_path_table(const pl_pooled_path *path)
{
    return path->table;
}

uint64_t pl_pooled_path_contents(const pl_pooled_path *path)
{
    return path->contents;
}

pl_status pl_module_pool_compare(pl_module_pool *pool, const pl_pooled_path *path,
                                 bool *current)
{
    pl_path_module *modules;
    const pl_status status = name_modules(pool, &path->source, &modules);
    const int n_slots =
        status == PL_OK ? pl_topology_n_slots(path->source.topology) : 0;
    *current = status == PL_OK;
    for (int slot = 0; slot < n_slots; slot++)
        *current &= pl_hash_equal(&path->modules[slot]->params, &modules[slot].params);
    /* The caller will close the path and open it again. The modules that have not
     * changed are then needed again, so they are kept. */
    for (int slot = 0; !*current && slot < n_slots; slot++) {
        resident *r = path->modules[slot];
        r->kept = pl_hash_equal(&r->params, &modules[slot].params);
    }
    pl_free(modules);
    return status;
}

/* ---- plan ---- */
uint64_t pl_modules_bytes(const pl_backend *be, const pl_topology *t)
{
    uint64_t bytes = 0;
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++)
        bytes += (uint64_t)pl_topology_slot(t, slot)->n_experts *
                 pl_module_bytes(be, t, slot);
    return bytes;
}

uint64_t pl_path_bytes(const pl_backend *be, const pl_topology *t)
{
    uint64_t bytes = 0;
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++)
        bytes += pl_module_bytes(be, t, slot);
    return bytes;
}
