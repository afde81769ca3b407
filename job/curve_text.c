/* Deals held-out text to the paths of an arm, for the curves that are shown while the
 * arm trains (eval.curves; outer/held.h says which tasks score the text).
 *
 * All arms score the same documents of the held-out text. A document goes to the path
 * that the router's prefix model chooses, like new text. eval.curves limits how many
 * sequences a path may score, as a share of the sequences that it trains on. All paths
 * of an arm score before the same phases. So the more text the path with the most text
 * has, the fewer points the curve has. Only a short arm may score more than the limit:
 * at least one point, with up to ROWS_LEAST sequences. */
#include "job/stages.h"

#include <math.h>

/* An arm that takes as many steps as one path gets POINTS points. It gets fewer points
 * if a point would otherwise have fewer than ROWS_LEAST sequences. For one point a path
 * scores at most TASKS_MOST times as many sequences as a task has, and at most
 * TARGETS_MOST targets, because the hub ends a lease that takes too long. */
enum { POINTS = 8, ROWS_LEAST = 16, TASKS_MOST = 16, TARGETS_MOST = 1 << 18 };
/* An arm with more than CURVE_PATHS_MAX paths has no curves, because its definition
 * would not fit into a message. */
enum { CURVE_PATHS_MAX = PL_TASKS_MAX / 2 };

typedef struct dealt {
    uint32_t *docs; /* [n] */
    int *path_of;   /* [n] */
    size_t n;
    pl_tokenizer *tokenizer;
} dealt;

/* Stores the documents of a path. *rows gets the number of sequences of these
 * documents. */
static pl_status put_path_text(pl_run *r, pl_arm *arm, const pl_topology *t, int path,
                               const dealt *d, double *rows)
{
    const int prefix = arm->held_prefix;
    char object[PL_MODULE_NAME_MAX];
    uint32_t *docs = pl_alloc((d->n + 1) * sizeof *docs);
    pl_buf bytes = {0};
    size_t n = 0;
    pl_status status = PL_OK;
    *rows = 0;
    for (size_t i = 0; i < d->n; i++) {
        uint64_t counted = 0;
        bool lost = false;
        if (d->path_of[i] != path)
            continue;
        const uint32_t doc = d->docs[i];
        PL_TRY(pl_counted_bytes(r->valid, doc, prefix, d->tokenizer, &counted, &lost));
        if (lost) /* its bits per byte are not known */
            continue;
        docs[n++] = doc;
        arm->held_bytes[path] += counted;
        *rows += ceil((double)pl_doc_targets(pl_tokens_doc(r->valid, doc)) /
                      arm->inner.context);
    }
    if (arm->held_bytes[path] > 0) {
        stages_path_object("curve", arm, t, path, object);
        PL_TRY(pl_tokens_subset(r->valid, docs, n, &bytes));
        PL_TRY(pl_client_put_object(r->client, object, bytes.data, bytes.len,
                                    &arm->held[path]));
    }
done:
    pl_buf_destroy(&bytes);
    pl_free(docs);
    return status;
}

pl_status curve_text_put(pl_run *r, pl_arm *arm, const pl_topology *t,
                         const pl_prefix_lm *router)
{
    const pl_inner *in = &arm->inner;
    const double share = r->cfg.curves * (double)in->tau * (double)in->batch;
    double rows = 0, most = 0;
    dealt d = {0};
    pl_status status;
    if (share <= 0 || arm->n_shards > CURVE_PATHS_MAX || in->phases == 0)
        return PL_OK;
    PL_TRY(run_load_tokenizer(r, &d.tokenizer));
    const config *c = &r->cfg;
    const double task = (double)c->tau * (double)c->batch;
    const double most_rows =
        fmin(fmax(c->curves * task * (double)c->phases / POINTS, ROWS_LEAST),
             TASKS_MOST * task);
    const double targets = fmin(most_rows * (double)c->context, TARGETS_MOST);
    const size_t n = pl_tokens_n_docs(r->valid);
    d.docs = pl_alloc((n + 1) * sizeof *d.docs);
    /* A document is scored completely or not at all. */
    for (size_t i = 0; i < n; i++)
        if ((double)pl_doc_targets(pl_tokens_doc(r->valid, (uint32_t)i)) <= targets)
            d.docs[d.n++] = (uint32_t)i;
    d.n = pl_pick_documents(r->valid, (int)c->prefix, (uint64_t)targets, d.docs, d.n);
    d.path_of = pl_alloc((d.n + 1) * sizeof *d.path_of);
    if (d.n == 0) {
        pl_log(PL_LOG_DEBUG, "curve.none", "arm=%s", arm->name);
        goto done;
    }
    /* without a router all documents go to the first path */
    const size_t prefix = (size_t)r->cfg.prefix;
    const int n_paths = router ? pl_prefix_lm_n_paths(router) : 1;
    int32_t *text = pl_alloc((prefix + 1) * sizeof *text);
    double *nats = pl_alloc((size_t)n_paths * sizeof *nats);
    for (size_t i = 0; router && i < d.n; i++) {
        const pl_token_doc *doc = pl_tokens_doc(r->valid, d.docs[i]);
        const size_t len = doc->n_tokens < prefix ? doc->n_tokens : prefix;
        pl_tokens_copy(r->valid, doc->first, len, text);
        pl_prefix_lm_nats(router, text, (int)len, nats);
        d.path_of[i] = pl_least_evidence(nats, n_paths);
    }
    pl_free_all(nats, text);
    pl_arm_hold(arm);
    arm->held_prefix = (int)r->cfg.prefix;
    for (int p = 0; p < arm->n_shards; p++) {
        PL_TRY(put_path_text(r, arm, t, p, &d, &rows));
        most = fmax(most, rows);
    }
    arm->held_every = (int)fmin(fmax(ceil(most / share), 1), 1 << 30);
done:
    pl_tokenizer_destroy(&d.tokenizer);
    pl_free_all(d.docs, d.path_of);
    return status;
}

pl_status curve_text_copy(pl_run *r, const pl_arm *from, const pl_topology *before,
                          pl_arm *to, const pl_topology *t)
{
    char was[PL_MODULE_NAME_MAX], object[PL_MODULE_NAME_MAX];
    if (from->held_every == 0)
        return PL_OK;
    pl_arm_hold(to);
    to->held_every = from->held_every;
    to->held_prefix = from->held_prefix;
    for (int p = 0; p < to->n_shards; p++) {
        to->held_bytes[p] = from->held_bytes[p];
        if (from->held_bytes[p] == 0)
            continue;
        stages_path_object("curve", from, before, p, was);
        stages_path_object("curve", to, t, p, object);
        PL_CHECK(stages_copy_object(r, was, object, &to->held[p]));
    }
    return PL_OK;
}
