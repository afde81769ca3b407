/* Collects the training of every path in every phase (phase_history.h). */
#include "history/phase_history.h"
#include <math.h>
#include <string.h>

void phase_history_begin(phase_history *h)
{
    *h = (phase_history){.stride = 1, .epoch = 1};
}

void phase_history_clear(phase_history *h)
{
    for (int i = 0; i < h->n_arms; i++) {
        phase_arm *a = &h->arms[i];
        for (int k = 0; k < a->n_series; k++)
            pl_free(a->series[k].cells);
        pl_free_all(a->series, a->merged);
        pl_topology_destroy(&a->topology);
        pl_arm_clear(&a->arm);
    }
    pl_free_all(h->modules, h->workers);
    module_lineage_clear(&h->lineage);
    memset(h, 0, sizeof *h);
}

/* ---- arms, modules, workers ---- */
static int find_page_arm(const phase_history *h, const char *name, size_t len)
{
    for (int i = 0; i < h->n_arms; i++)
        if (strlen(h->arms[i].arm.name) == len &&
            memcmp(h->arms[i].arm.name, name, len) == 0)
            return i;
    return -1;
}

void phase_history_add_arm(phase_history *h, pl_arm *arm, pl_topology *topology)
{
    phase_arm *a = &h->arms[h->n_arms++];
    *a = (phase_arm){.arm = *arm, .topology = topology};
    memset(arm, 0, sizeof *arm);
    a->n_replicas = pl_topology_n_replicas(topology);
    a->n_series = pl_topology_n_paths(topology) * a->n_replicas;
    a->series = pl_alloc((size_t)a->n_series * sizeof *a->series);
    for (int i = 0; i < a->n_series; i++) {
        char path[PL_NAME_MAX];
        pl_topology_path_name(topology, i / a->n_replicas, path);
        snprintf(a->series[i].name, sizeof a->series[i].name, "%.40s.r%d", path,
                 i % a->n_replicas);
    }
}

static pl_status note_page_arm(void *context, const pl_object *object)
{
    void **both = context;
    phase_history *h = both[0];
    const char *name = object->name + strlen("arm/");
    pl_arm arm;
    pl_topology *topology = NULL;
    if (h->n_arms == PHASE_ARMS_MAX || find_page_arm(h, name, strlen(name)) >= 0)
        return PL_OK;
    pl_status status = pl_read_arm(both[1], name, &arm, &topology);
    if (status == PL_OK)
        phase_history_add_arm(h, &arm, topology); /* leaves `arm` empty */
    else
        pl_topology_destroy(&topology);
    pl_arm_clear(&arm);
    return status;
}

static pl_status note_page_head(void *context, const pl_version *head)
{
    phase_history *h = context;
    /* Modules come in the order of their names, which is the same each time. */
    size_t i = h->reading;
    while (i < h->n_modules && strcmp(h->modules[i].name, head->module) < 0)
        i++;
    h->reading = i;
    if (i == h->n_modules || strcmp(h->modules[i].name, head->module) != 0) {
        h->modules = pl_grow(h->modules, (h->n_modules + 1) * sizeof *h->modules);
        memmove(&h->modules[i + 1], &h->modules[i],
                (h->n_modules - i) * sizeof *h->modules);
        h->n_modules++;
        h->modules[i] = (phase_module){.next = 0};
        pl_copy_text(h->modules[i].name, sizeof h->modules[i].name, head->module);
    }
    h->modules[i].end = head->number + 1;
    return PL_OK;
}

pl_status phase_history_look(phase_history *h, pl_store *store)
{
    void *both[] = {h, store};
    PL_CHECK(pl_store_each_object(store, "arm/", note_page_arm, both));
    h->reading = 0;
    pl_status status = pl_store_each_head(store, "", note_page_head, h);
    h->reading = 0;
    return status;
}

int phase_history_worker(phase_history *h, const char *name)
{
    for (int i = h->n_workers; i-- > 0;)
        if (strcmp(h->workers[i], name) == 0)
            return i;
    if (h->n_workers == PHASE_WORKERS_MAX)
        return -1;
    h->workers = pl_grow(h->workers, (size_t)(h->n_workers + 1) * sizeof *h->workers);
    pl_copy_text(h->workers[h->n_workers], sizeof *h->workers, name);
    return h->n_workers++;
}

phase_series *phase_history_find(phase_history *h, const char *task, int *arm,
                                 int *path)
{
    const char *slash = strchr(task, '/');
    *arm = slash ? find_page_arm(h, task, (size_t)(slash - task)) : -1;
    for (int i = 0; *arm >= 0 && i < h->arms[*arm].n_series; i++)
        if (strcmp(h->arms[*arm].series[i].name, slash + 1) == 0) {
            *path = i;
            return &h->arms[*arm].series[i];
        }
    return NULL;
}

/* ---- cells ---- */
static void join_cells(phase_cell *into, const phase_cell *later)
{
    if (later->n == 0)
        return;
    if (into->n == 0) {
        *into = *later;
        return;
    }
    pl_work_join(&into->work, into->n, &later->work, later->n);
    into->at_ms = later->at_ms;
    into->token = later->token;
    into->worker = later->worker;
    into->n += later->n;
}

static void double_stride(phase_history *h)
{
    h->stride *= 2;
    h->epoch++;
    h->n_cells = 0;
    for (int a = 0; a < h->n_arms; a++)
        for (int i = 0; i < h->arms[a].n_series; i++) {
            phase_series *s = &h->arms[a].series[i];
            const size_t n = (s->n_cells + 1) / 2;
            for (size_t k = 0; k < n; k++) {
                phase_cell both = s->cells[2 * k];
                if (2 * k + 1 < s->n_cells)
                    join_cells(&both, &s->cells[2 * k + 1]);
                s->cells[k] = both;
            }
            s->n_cells = n;
            h->n_cells += n;
        }
    for (int i = 0; i < h->n_arms; i++) {
        phase_arm *a = &h->arms[i];
        const size_t n = (a->n_merged + 1) / 2;
        for (size_t k = 0; k < n; k++)
            a->merged[k] =
                a->merged[2 * k] + (2 * k + 1 < a->n_merged ? a->merged[2 * k + 1] : 0);
        a->n_merged = n;
    }
}

/* Finds or adds the cell of a phase. The phase's number comes from a record that may be
 * damaged, so a number that no series can have is ignored. */
static phase_cell *make_cell(phase_history *h, phase_series *s, int64_t phase)
{
    const int64_t most = INT64_C(1) << 40;
    if (phase < 0 || phase >= most)
        return NULL;
    for (;;) {
        const size_t slot = (size_t)(phase / h->stride);
        if (slot < s->n_cells)
            return &s->cells[slot];
        const size_t more = slot + 1 - s->n_cells;
        if (more <= PHASE_CELLS_MAX && h->n_cells + more <= PHASE_CELLS_MAX) {
            s->cells = pl_grow_items(s->cells, s->n_cells, slot + 1, sizeof *s->cells);
            memset(s->cells + s->n_cells, 0, more * sizeof *s->cells);
            h->n_cells += more;
            s->n_cells = slot + 1;
            return &s->cells[slot];
        }
        if (h->stride > most)
            /* even with the largest stride, the series need too many cells */
            return NULL;
        double_stride(h);
    }
}

void phase_history_add(phase_history *h, const pl_version *v)
{
    uint64_t source;
    module_lineage_add(&h->lineage, v);
    if (pl_version_source(v, &source))
        return;
    h->n_versions++;
    const char *slash = strchr(v->module, '/');
    const int arm =
        slash ? find_page_arm(h, v->module, (size_t)(slash - v->module)) : -1;
    if (arm < 0)
        return;
    phase_arm *a = &h->arms[arm];
    /* Adds each contribution to the cell of its path. The versions of all modules of a
     * path name the same lease, so a lease counts only once. A later lease of the same
     * phase means that the arm was rolled back meanwhile, so the values of the later
     * lease replace those of the earlier one. */
    const uint64_t most_tokens = UINT64_C(1000000000000000);
    int64_t phase = -1; /* the newest phase from which the version has an update */
    for (int i = 0; i < v->n_contributions; i++) {
        const pl_contribution *c = &v->contributions[i];
        phase = c->phase > phase ? c->phase : phase;
        if (c->replica < 0 || c->replica >= a->n_replicas || c->path < 0 ||
            c->path >= a->n_series / a->n_replicas)
            continue;
        phase_series *s = &a->series[c->path * a->n_replicas + c->replica];
        phase_cell *cell = make_cell(h, s, c->phase);
        if (!cell || (cell->n > 0 && c->token <= cell->token))
            continue;
        phase_cell one = {.work = c->work,
                          .at_ms = v->wall_ms,
                          .token = c->token,
                          .worker = phase_history_worker(h, c->worker),
                          .n = 1};
        /* the record may be damaged */
        if (!(one.work.seconds >= 0 && one.work.seconds < 1e9))
            one.work.seconds = 0;
        if (one.work.n_tokens > most_tokens)
            one.work.n_tokens = most_tokens;
        one.from_ms = v->wall_ms - (int64_t)(1e3 * one.work.seconds);
        if (h->stride == 1)
            *cell = one;
        else
            join_cells(cell, &one);
        cell->serial = ++h->serial;
    }
    /* Counts the version in this phase, if it can have a cell: memory stays bounded. */
    const uint64_t slot = (uint64_t)phase / (uint64_t)h->stride;
    if (phase < 0 || slot >= PHASE_CELLS_MAX)
        return;
    if (slot >= a->n_merged) {
        a->merged = pl_grow_items(a->merged, a->n_merged, slot + 1, sizeof *a->merged);
        memset(a->merged + a->n_merged, 0,
               (slot + 1 - a->n_merged) * sizeof *a->merged);
        a->n_merged = slot + 1;
    }
    a->merged[slot]++;
}

pl_status phase_history_read(phase_history *h, pl_store *store, int most, bool *more)
{
    for (; h->reading < h->n_modules; h->reading++) {
        phase_module *m = &h->modules[h->reading];
        for (; m->next < m->end; m->next++) {
            pl_version v;
            if (most-- == 0) {
                *more = true;
                return PL_OK;
            }
            PL_CHECK(pl_store_get_version(store, m->name, m->next, &v));
            phase_history_add(h, &v);
            pl_version_clear(&v);
        }
    }
    *more = false;
    return PL_OK;
}

/* ---- slots ---- */
const phase_cell *phase_series_at(const phase_series *s, size_t slot)
{
    static const phase_cell none = {.worker = -1};
    return slot < s->n_cells ? &s->cells[slot] : &none;
}

bool phase_history_is_final(const phase_history *h, const phase_arm *a, size_t slot,
                            bool ended)
{
    bool any = false;
    for (int i = 0; i < a->n_series; i++) {
        const phase_series *s = &a->series[i];
        const bool whole = slot < s->n_cells && s->cells[slot].n >= h->stride;
        const bool has_later = s->n_cells > slot + 1 && s->cells[s->n_cells - 1].n > 0;
        if (!whole && !ended && !has_later)
            return false;
        any = any || slot < s->n_cells;
    }
    return any;
}

pl_held_sum phase_history_held(const phase_arm *a, size_t slot)
{
    pl_held_sum all = {0};
    for (int path = 0; path < a->n_series / a->n_replicas; path++)
        pl_held_add(&all, &a->arm, path,
                    phase_series_at(&a->series[path * a->n_replicas], slot)->work.held);
    return all;
}

void phase_history_json(const phase_history *h, uint64_t since, pl_json *out)
{
    pl_json *paths = pl_json_array(), *workers = pl_json_array(),
            *cells = pl_json_array(), *held_bytes = pl_json_array();
    int path = 0;
    for (int k = 0; k < h->n_arms; k++)
        for (int i = 0; i < h->arms[k].n_series; i++, path++) {
            const phase_arm *a = &h->arms[k];
            const phase_series *s = &a->series[i];
            const int of = i / a->n_replicas;
            char name[2 * PL_NAME_MAX];
            snprintf(name, sizeof name, "%s/%s", a->arm.name, s->name);
            pl_json_push(paths, pl_json_make_text(name));
            /* only first replicas score held-out text */
            const bool scores = pl_held_scores(&a->arm, of, i % a->n_replicas, 0);
            const uint64_t bytes = scores ? a->arm.held_bytes[of] : 0;
            pl_json_push(held_bytes, pl_json_make_int((int64_t)bytes));
            /* the list of a cell: [path, first phase, number of phases, loss, tokens,
             * seconds, worker, time of lease, time of commit, nats of held-out text] */
            for (size_t slot = 0; slot < s->n_cells; slot++) {
                const phase_cell *c = &s->cells[slot];
                if (c->n <= 0 || c->serial <= since)
                    continue;
                const double tokens = fmin((double)c->work.n_tokens, 1e18);
                pl_json *row = pl_json_array();
                pl_json_push(row, pl_json_make_int(path));
                pl_json_push(row, pl_json_make_int((int64_t)slot * h->stride));
                pl_json_push(row, pl_json_make_int(c->n));
                /* four digits are enough for a picture, and halve the bytes */
                pl_json_push(row, pl_json_make_real(round(1e4 * c->work.loss) / 1e4));
                pl_json_push(row, pl_json_make_int((int64_t)tokens));
                pl_json_push(row, pl_json_make_real(round(10 * c->work.seconds) / 10));
                pl_json_push(row, pl_json_make_int(c->worker));
                pl_json_push(row, pl_json_make_int(c->from_ms));
                pl_json_push(row, pl_json_make_int(c->at_ms));
                pl_json_push(row, pl_json_make_real(round(100 * c->work.held) / 100));
                pl_json_push(cells, row);
            }
        }
    for (int i = 0; i < h->n_workers; i++)
        pl_json_push(workers, pl_json_make_text(h->workers[i]));
    pl_json_set_int(out, "epoch", (int64_t)h->epoch);
    pl_json_set_int(out, "serial", (int64_t)h->serial);
    pl_json_set_int(out, "stride", h->stride);
    pl_json_set(out, "paths", paths);
    pl_json_set(out, "held_bytes", held_bytes);
    pl_json_set(out, "workers", workers);
    pl_json_set(out, "cells", cells);
}
