/* Answers /modules.json: the lineage of an arm's modules, one version with its
 * contributors, or how the tensors of one module changed over its versions (page.h).
 *
 * A lineage is the list of a module's versions with their contributors; lineages are in
 * memory. Versions and tensors are read from the store when a browser asks for them.
 * The number of values that a question may read is limited, because one thread answers
 * all questions. While a job writes the store, reading may fail because a file was
 * replaced a moment ago. The page then refreshes the store and reads once more. */
#include "view/page_internal.h"

#include <math.h>

enum {
    CONTRIBUTORS_MAX = 512,
    /* cosines are computed only if a version's updates have at most this many values */
    COSINE_VALUES_MAX = 1 << 25
};

static void put_hash(pl_json *o, const char *key, const pl_hash *hash)
{
    char text[PL_HASH_TEXT];
    pl_hash_format(hash, text);
    pl_json_set_text(o, key, pl_hash_none(hash) ? "" : text);
}

static const phase_arm *arm_of_module(const page *p, const char *module)
{
    const size_t len = strcspn(module, "/");
    for (int i = 0; i < p->history.n_arms; i++)
        if (strlen(p->history.arms[i].arm.name) == len &&
            memcmp(p->history.arms[i].arm.name, module, len) == 0)
            return &p->history.arms[i];
    return NULL;
}

/* ---- lineages ---- */
/* without a name: the mixture's newest chapter, or the first arm */
static pl_status answer_lineage(const page *p, const char *name, pl_buf *out)
{
    const phase_history *h = &p->history;
    const phase_arm *a = NULL;
    for (int i = 0; i < h->n_arms; i++) {
        const char *other = h->arms[i].arm.name;
        if (*name ? strcmp(other, name) == 0
                  : !a || pl_arm_chapter(other) > pl_arm_chapter(a->arm.name))
            a = &h->arms[i];
    }
    if (!a)
        return pl_fail(PL_ERR_NOT_FOUND, "the run has no arm%s%.64s yet",
                       *name ? " " : "", name);
    pl_json *arms = pl_json_array(), *paths = pl_json_array(), *lines = pl_json_array();
    for (int i = 0; i < h->n_arms; i++)
        pl_json_push(arms, pl_json_make_text(h->arms[i].arm.name));
    for (int i = 0; i < pl_topology_n_paths(a->topology); i++) {
        char path[PL_NAME_MAX];
        pl_topology_path_name(a->topology, i, path);
        pl_json_push(paths, pl_json_make_text(path));
    }
    const phase_arm *before = a->arm.before[0] ? arm_of_module(p, a->arm.before) : NULL;
    const bool descends =
        before && pl_topology_descends(a->topology, &a->arm.descent, before->topology);
    for (int m = 0; m < pl_topology_n_modules(a->topology); m++) {
        char module[PL_MODULE_NAME_MAX];
        pl_arm_module_name(&a->arm, a->topology, m, module);
        const lineage_line *line = module_lineage_find(&h->lineage, module);
        if (!line)
            continue;
        pl_json *o = pl_json_object();
        pl_json_set_text(o, "module", module);
        pl_json_set_int(o, "params", (int64_t)line->n_params);
        pl_json_set_int(o, "versions", (int64_t)line->n_versions);
        if (descends) { /* the module of the previous chapter that became version 0 */
            const int ancestor = pl_topology_ancestor_module(
                a->topology, &a->arm.descent, before->topology, m);
            pl_arm_module_name(&before->arm, before->topology, ancestor, module);
            pl_json_set_text(o, "before", module);
        }
        pl_json_set(o, "nodes", module_lineage_nodes(line));
        pl_json_push(lines, o);
    }
    pl_json *o = pl_json_object();
    pl_json_set(o, "arms", arms);
    pl_json_set_text(o, "arm", a->arm.name);
    pl_json_set_int(o, "stride", h->lineage.stride ? (int64_t)h->lineage.stride : 1);
    pl_json_set(o, "paths", paths);
    pl_json_set(o, "modules", lines);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
    return PL_OK;
}

/* ---- how updates agree ---- */
/* Adds weight times the update of contributor i to `sum` [n_params]. */
static pl_status add_update(pl_store *store, const pl_version *v, int i, float weight,
                            float *sum)
{
    const pl_contribution *c = &v->contributions[i];
    void *data = NULL;
    uint64_t bytes = 0;
    double norm;
    PL_CHECK(pl_store_blob_bytes(store, &c->update, &bytes));
    PL_CHECK(pl_try_alloc((size_t)bytes + 1, "an update", &data));
    pl_status status = pl_store_read_blob(store, &c->update, 0, (size_t)bytes, data);
    if (status == PL_OK)
        status = pl_codec_add(data, bytes, v->n_params, weight, sum, &norm);
    pl_free(data);
    return status;
}

static pl_status compute_cosines(pl_store *store, const pl_version *v, double *cosines)
{
    float *mean = NULL, *one = NULL;
    const size_t bytes = (size_t)v->n_params * sizeof *mean;
    pl_status status = PL_OK;
    PL_TRY(pl_try_alloc(bytes + 1, "the mean of updates", (void **)&mean));
    PL_TRY(pl_try_alloc(bytes + 1, "an update", (void **)&one));
    memset(mean, 0, bytes);
    for (int i = 0; i < v->n_contributions; i++) {
        const double weight = v->contributions[i].weight;
        PL_TRY(add_update(store, v, i, weight > 0 ? (float)weight : 1, mean));
    }
    for (int i = 0; i < v->n_contributions; i++) {
        memset(one, 0, bytes);
        PL_TRY(add_update(store, v, i, 1, one));
        double xx = 0, yy = 0, xy = 0;
        for (uint64_t k = 0; k < v->n_params; k++) {
            xx += (double)one[k] * one[k];
            yy += (double)mean[k] * mean[k];
            xy += (double)one[k] * mean[k];
        }
        cosines[i] = xy / sqrt(xx * yy);
    }
done:
    pl_free(mean);
    pl_free(one);
    return status;
}

/* ---- one version ---- */
static pl_json *contributor_json(page *p, const phase_arm *a, const pl_contribution *c,
                                 double weights, double cosine)
{
    char path[PL_NAME_MAX] = "", task[PL_MODULE_NAME_MAX] = "";
    pl_json *o = pl_json_object();
    if (a && c->path >= 0 && c->path < pl_topology_n_paths(a->topology) &&
        c->replica >= 0 && c->replica < a->n_replicas) {
        pl_topology_path_name(a->topology, (int)c->path, path);
        pl_arm_path_name(&a->arm, a->topology, (int)c->path, (int)c->replica, task);
    }
    pl_json_set_int(o, "path", c->path);
    pl_json_set_text(o, "path_name", path);
    pl_json_set_int(o, "replica", c->replica);
    pl_json_set_int(o, "phase", c->phase);
    pl_json_set_text(o, "worker", c->worker);
    pl_json_set_text(o, "device", c->device);
    pl_json_set_int(o, "first_sample", (int64_t)c->work.first_sample);
    pl_json_set_int(o, "samples", (int64_t)c->work.n_samples);
    pl_json_set_int(o, "tokens", (int64_t)c->work.n_tokens);
    pl_json_set_real(o, "loss", c->work.loss);
    pl_json_set_real(o, "norm", c->norm);
    pl_json_set_real(o, "share",
                     c->weight > 0 && weights > 0 ? c->weight / weights : 0);
    pl_json_set_real(o, "seconds", c->work.seconds);
    pl_json_set_text(o, "codec", c->codec);
    put_hash(o, "update", &c->update);
    pl_json_set_int(o, "update_bytes", (int64_t)c->update_bytes);
    pl_json_set_bool(o, "split", c->split);
    pl_json_set(o, "cosine", page_figures(cosine, 6));
    char ref[PL_TEXT_MAX + 64];
    pl_buf text = {0};
    pl_audit *audit = pl_alloc(sizeof *audit);
    snprintf(ref, sizeof ref, PL_AUDIT_REFS "%s/%lld", task, (long long)c->phase);
    if (task[0] && pl_store_get_ref(p->store, ref, &text) == PL_OK &&
        pl_audit_read(pl_buf_text(&text), audit) == PL_OK) {
        pl_json *result = pl_json_object(), *workers = pl_json_array();
        pl_json_set_text(result, "verdict", pl_verdict_name(audit->verdict));
        for (int i = 0; i < audit->n; i++)
            pl_json_push(workers, pl_json_make_text(audit->results[i].worker));
        pl_json_set(result, "workers", workers);
        pl_json_set_text(result, "reason", audit->reason);
        pl_json_set(o, "audit", result);
    }
    pl_free(audit);
    pl_buf_destroy(&text);
    return o;
}

static pl_status answer_version(page *p, const char *module, const char *number,
                                pl_buf *out)
{
    pl_version v;
    int64_t n = 0;
    uint64_t source;
    char why[256] = "";
    if (!*number)
        PL_CHECK(pl_store_head(p->store, module, &v));
    else if (pl_parse_int(number, &n) != PL_OK || n < 0)
        return pl_fail(PL_ERR_USAGE,
                       "`%.32s` is not the number of a version; give 0 or more",
                       number);
    else
        PL_CHECK(pl_store_get_version(p->store, module, (uint64_t)n, &v));
    double *cosines = pl_alloc((size_t)(v.n_contributions + 1) * sizeof *cosines);
    double weights = 0;
    for (int i = 0; i < v.n_contributions; i++) {
        weights += v.contributions[i].weight > 0 ? v.contributions[i].weight : 0;
        cosines[i] = NAN;
    }
    /* each update's cosine with the mean of all, or why it cannot be computed */
    if (v.n_contributions > 0 && v.n_params > 0) {
        if (!v.has_updates)
            pl_copy_text(why, sizeof why,
                         "the store no longer has the updates of this version; with "
                         "store.keep_updates=true it would have kept them");
        else if (pl_version_has_sums(&v))
            pl_copy_text(
                why, sizeof why,
                "a relay summed the updates before they were stored, so the single "
                "updates are not known");
        else if (v.n_params > COSINE_VALUES_MAX / (uint64_t)v.n_contributions)
            snprintf(why, sizeof why,
                     "%d updates of %llu values each are too much for this page, which "
                     "reads at most %d values",
                     v.n_contributions, (unsigned long long)v.n_params,
                     COSINE_VALUES_MAX);
        else if (compute_cosines(p->store, &v, cosines) != PL_OK)
            pl_copy_text(why, sizeof why, pl_last_error());
    }
    pl_json *o = pl_json_object(), *list = pl_json_array();
    pl_json_set_text(o, "module", v.module);
    pl_json_set_int(o, "version", (int64_t)v.number);
    pl_json_set_text(o, "method", v.method);
    if (pl_version_source(&v, &source))
        pl_json_set_int(o, "source", (int64_t)source);
    pl_json_set_real(o, "lr", v.lr);
    pl_json_set_real(o, "momentum", v.outer_momentum);
    pl_json_set_int(o, "params", (int64_t)v.n_params);
    put_hash(o, "hash", &v.params);
    put_hash(o, "parent", &v.parent);
    put_hash(o, "momentum_hash", &v.momentum);
    put_hash(o, "config", &v.config);
    pl_json_set_real(o, "params_norm", v.params_norm);
    pl_json_set_real(o, "update_norm", v.update_norm);
    pl_json_set_real(o, "displacement", v.displacement);
    pl_json_set_int(o, "wall_ms", v.wall_ms);
    pl_json_set_int(o, "commit", (int64_t)v.sequence);
    pl_json_set_bool(o, "collected", v.params_gone);
    const int shown =
        v.n_contributions < CONTRIBUTORS_MAX ? v.n_contributions : CONTRIBUTORS_MAX;
    for (int i = 0; i < shown; i++)
        pl_json_push(list, contributor_json(p, arm_of_module(p, module),
                                            &v.contributions[i], weights, cosines[i]));
    pl_json_set(o, "contributors", list);
    pl_json_set_int(o, "left_out", v.n_contributions - shown);
    pl_json_set_text(o, "no_cosine", why);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
    pl_free(cosines);
    pl_version_clear(&v);
    return PL_OK;
}

pl_status page_modules_json(page *p, const pl_page_question *q, pl_buf *out)
{
    const char *module = pl_page_ask(q, "module");
    const bool tensors = *pl_page_ask(q, "heat") != '\0';
    if (!*module)
        return answer_lineage(p, pl_page_ask(q, "arm"), out);
    if (!p->store)
        return p->trouble[0] ? pl_fail(PL_ERR_BUSY, "the store cannot be read now: %s",
                                       p->trouble)
                             : pl_fail(PL_ERR_BUSY, "the run has no store yet");
    for (int tries = 0;; tries++) {
        pl_json *heat = NULL;
        pl_status status =
            tensors ? page_heat_json(p->store, module, page_asked_number(q, "from", 0),
                                     page_asked_number(q, "to", UINT64_MAX), &heat)
                    : answer_version(p, module, pl_page_ask(q, "version"), out);
        if (heat)
            pl_json_write(heat, 0, out);
        pl_json_destroy(&heat);
        if (tries > 0 || status == PL_OK || status == PL_ERR_NOT_FOUND ||
            status == PL_ERR_USAGE || status == PL_ERR_UNSUPPORTED)
            return status;
        pl_buf_clear(out);
        PL_CHECK(pl_store_refresh(p->store));
    }
}
