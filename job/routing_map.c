/* Writes RUN/router_map.json: a picture of how documents were dealt to paths, for the
 * page of the run.
 *
 * The picture is made while the run is routed: then the features of all documents are
 * in memory, and the assignment is known. A page would need the base model and minutes
 * to compute them again. At most MAP_DOCUMENTS evenly spaced documents are shown, so
 * the size of the file depends on the number of paths, and not on the corpus. */
#include "job/routing.h"

#include <math.h>

enum {
    MAP_DOCUMENTS = 2000,
    /* number of domains that the file names: the largest ones; all other domains
     * together count as one more */
    MAP_DOMAINS = 15,
    MAP_SIDE = 1000 /* coordinates are whole numbers from 0 to this */
};

typedef struct router_map {
    const pl_run *r;
    const routing *g;
    size_t n;         /* number of documents that are shown */
    float *xy;        /* [n, 2] position of each document that is shown */
    double shares[2]; /* fraction of the total variance along each axis */
    int *domain_of;   /* [domain] number of the domain in the file */
    int n_domains;
} router_map;

static uint32_t map_document(const router_map *m, size_t i)
{
    return (uint32_t)(i * m->g->n / m->n);
}

/* Numbers the domains by their tokens, the largest first, and returns their names. */
static pl_json *rank_domains(router_map *m)
{
    const int n = (int)pl_tokens_n_domains(m->r->train);
    double *tokens = pl_alloc((size_t)(n + 1) * sizeof *tokens);
    pl_json *names = pl_json_array();
    for (size_t i = 0; i < m->g->n; i++)
        tokens[m->g->domains[i]] += m->g->tokens[i];
    m->domain_of = pl_alloc((size_t)(n + 1) * sizeof *m->domain_of);
    for (int d = 0; d < n; d++)
        m->domain_of[d] = MAP_DOMAINS;
    for (; m->n_domains < n && m->n_domains < MAP_DOMAINS; m->n_domains++) {
        int most = 0;
        for (int d = 1; d < n; d++)
            most = tokens[d] > tokens[most] ? d : most;
        m->domain_of[most] = m->n_domains;
        tokens[most] = -1;
        pl_json_push(names,
                     pl_json_make_text(pl_tokens_domain(m->r->train, (uint32_t)most)));
    }
    if (n > MAP_DOMAINS) {
        m->n_domains++;
        pl_json_push(names, pl_json_make_text("other domains"));
    }
    pl_free(tokens);
    return names;
}

/* Scales one axis to whole numbers, so that the extreme documents lie at its ends. */
static pl_json *axis_json(const router_map *m, size_t axis)
{
    pl_json *list = pl_json_array();
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < m->n; i++) {
        low = fmin(low, (double)m->xy[2 * i + axis]);
        high = fmax(high, (double)m->xy[2 * i + axis]);
    }
    for (size_t i = 0; i < m->n; i++) {
        const double share = ((double)m->xy[2 * i + axis] - low) / (high - low);
        pl_json_push(list, pl_json_make_int((int64_t)round(
                               MAP_SIDE * (isfinite(share) ? share : 0.5))));
    }
    return list;
}

pl_status routing_write_map(const pl_run *r, const routing *g)
{
    router_map m = {.r = r, .g = g, .n = g->n < MAP_DOCUMENTS ? g->n : MAP_DOCUMENTS};
    const size_t dim = (size_t)g->dim;
    float *few = NULL;
    pl_status status = PL_OK;
    PL_TRY(pl_try_alloc(m.n * dim * sizeof *few, "the picture of the router",
                        (void **)&few));
    for (size_t i = 0; i < m.n; i++)
        memcpy(few + i * dim, g->features + map_document(&m, i) * dim,
               dim * sizeof *few);
    m.xy = pl_alloc(2 * m.n * sizeof *m.xy);
    PL_TRY(pl_router_map(few, m.n, g->dim, pl_cpu_count(), m.xy, m.shares));
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "router", g->how ? g->how : r->cfg.router_kind);
    pl_json_set_int(o, "documents", (int64_t)g->n);
    pl_json_set_int(o, "prefix", r->cfg.prefix);
    pl_json *shares = pl_json_array();
    for (size_t axis = 0; axis < 2; axis++)
        pl_json_push(shares, pl_json_make_real(round(1e4 * m.shares[axis]) / 1e4));
    pl_json_set(o, "shares", shares);
    pl_json *paths = pl_json_array(), *sizes = pl_json_array();
    for (int p = 0; p < g->shards.n_paths; p++) {
        char name[PL_NAME_MAX];
        pl_topology_path_name(g->topology, p, name);
        pl_json_push(paths, pl_json_make_text(name));
        pl_json_push(sizes, pl_json_make_int((int64_t)(g->shards.first[p + 1] -
                                                       g->shards.first[p])));
    }
    pl_json_set(o, "paths", paths);
    pl_json_set(o, "domains", rank_domains(&m));
    pl_json_set(o, "shard_documents", sizes);
    pl_json *rows = pl_json_array(); /* [path][domain]: the tokens of each shard */
    for (int p = 0; p < g->shards.n_paths; p++) {
        double tokens[MAP_DOMAINS + 1] = {0};
        pl_json *row = pl_json_array();
        for (size_t i = g->shards.first[p]; i < g->shards.first[p + 1]; i++)
            tokens[m.domain_of[g->domains[g->shards.docs[i]]]] +=
                g->tokens[g->shards.docs[i]];
        for (int d = 0; d < m.n_domains; d++)
            pl_json_push(row, pl_json_make_int((int64_t)tokens[d]));
        pl_json_push(rows, row);
    }
    pl_json_set(o, "shard_tokens", rows);
    pl_json *path_of = pl_json_array(), *domains = pl_json_array();
    for (size_t i = 0; i < m.n; i++) {
        const uint32_t document = map_document(&m, i);
        pl_json_push(path_of, pl_json_make_int(g->shards.path_of[document]));
        pl_json_push(domains, pl_json_make_int(m.domain_of[g->domains[document]]));
    }
    pl_json_set(o, "x", axis_json(&m, 0));
    pl_json_set(o, "y", axis_json(&m, 1));
    pl_json_set(o, "path", path_of);
    pl_json_set(o, "domain", domains);
    /* Sets two values for each document: the path that would answer a new text with the
     * same first tokens, and by how many nats this path is better than the second best
     * path. */
    const int n_paths = g->shards.n_paths, prefix = (int)r->cfg.prefix;
    int32_t *tokens = pl_alloc((size_t)prefix * sizeof *tokens);
    double *nats = pl_alloc((size_t)n_paths * sizeof *nats);
    pl_json *answers = pl_json_array(), *margins = pl_json_array();
    for (size_t i = 0; i < m.n; i++) {
        const pl_token_doc *doc = pl_tokens_doc(r->train, map_document(&m, i));
        const int n = doc->n_tokens < (uint32_t)prefix ? (int)doc->n_tokens : prefix;
        int best = 0;
        double second = INFINITY;
        pl_tokens_copy(r->train, doc->first, (size_t)n, tokens);
        pl_prefix_lm_nats(g->answers, tokens, n, nats);
        for (int p = 1; p < n_paths; p++)
            best = nats[p] < nats[best] ? p : best;
        for (int p = 0; p < n_paths; p++)
            second = p != best ? fmin(second, nats[p]) : second;
        pl_json_push(answers, pl_json_make_int(best));
        pl_json_push(margins,
                     pl_json_make_real(round(100 * (second - nats[best])) / 100));
    }
    pl_json_set(o, "answer", answers);
    pl_json_set(o, "margin", margins);
    pl_free_all(tokens, nats);
    PL_TRY(run_write_json(r, "router_map.json", o, 0, ""));
done:
    pl_free_all(few, m.xy, m.domain_of);
    return status;
}

pl_status routing_rename_map(const pl_run *r, const pl_topology *t)
{
    char path[PL_PATH_MAX];
    pl_json *o = NULL, *paths = pl_json_array();
    for (int p = 0; p < pl_topology_n_paths(t); p++) {
        char name[PL_NAME_MAX];
        pl_topology_path_name(t, p, name);
        pl_json_push(paths, pl_json_make_text(name));
    }
    /* There may be no picture, because earlier releases made none. If the picture is
     * damaged, the page reports it. */
    if (pl_json_load(run_file(r, "router_map.json", path), &o) == PL_OK &&
        pl_json_is_object(o)) {
        pl_json_set(o, "paths", paths);
        return run_write_json(r, "router_map.json", o, 0, "");
    }
    pl_json_destroy(&paths);
    pl_json_destroy(&o);
    return PL_OK;
}
