/* Begins the chapters of the mixture. When documents are dealt again (router.em), the
 * paths score documents that no arm trains on, a linear router is fitted to the scores,
 * and the next chapter begins with new shards. The workers compute the scores as tasks
 * of a separate arm ("score~1"), one task per path. These tasks are leased, audited and
 * repeated like all other tasks.
 *
 * Dealing documents by such scores is the discriminative routing of DiPaCo (section
 * 2.4.2). Over several chapters it is expectation maximisation with hard or soft
 * labels.
 *
 *   mix      phases [0, e1)      dealt by k-means
 *   mix~1    phases [e1, e2)     dealt by a linear router, from the scores of mix
 *   mix~2    phases [e2, ...)    dealt by a linear router, from the scores of mix~1
 *
 * Each chapter is a separate arm, because hub, homes and workers derive everything from
 * an arm's definition, and a definition never changes. A chapter continues where the
 * previous arm ended: the chapter's modules begin as the last versions of that arm, its
 * paths begin with that arm's last states, and the schedule continues. Outer momentum
 * begins at zero.
 *
 * If the topology changes (topology.split, topology.graft), each new module begins as a
 * copy of the module that it descends from, and each new path with the state of the
 * path that it descends from. K-means deals a path's documents to the paths that
 * descend from it. If a path has no descendants, its documents are dealt to the
 * remaining paths. Such a chapter needs no scores of documents.
 *
 * A chapter that begins because modules are frozen (train.freeze) keeps the shards, the
 * router and the paths' states. In such a chapter a frozen module has only version 0.
 *
 * A chapter of train.more does not deal documents: it keeps the shards and the router
 * of the previous chapter. It does not continue the last versions, which the falling
 * learning rate has made: its modules and paths begin as they were before the rate
 * began to fall, so that it trains like a run that was planned to be longer. The homes
 * have kept these states of the paths (pl_phase_stays).
 *
 * Everything here is computed from data in the homes, and the arm's definition is
 * stored last. If this process dies at any point, the next `train` stores the same
 * bytes. */
#include "job/stages.h"

#include <stdlib.h>

typedef struct chapter {
    pl_run *r;
    const config_chapter *what;
    pl_arm before, scoring, arm;
    pl_store *store; /* for reading, while the homes run */
    /* from: topology of the previous arm; topology: topology of the new arm */
    pl_topology *from, *topology;
    int64_t start; /* number of the previous arm's phases that the new arm continues */
    routing g;
    uint32_t *docs; /* [n_docs] the documents that the paths score */
    size_t n_docs;
    /* [n_docs, paths] log likelihood of each document under each path, in nats */
    double *scores;
    float *params; /* parameters of one path */
} chapter;

/* Creates the modules of `arm`, which has topology t, as copies of the modules from
 * which they descend, as they were after c->start phases. If a level was cut, the new
 * module is a copy of only some blocks of its ancestor. */
static pl_status publish_modules(chapter *c, const pl_arm *arm, const pl_topology *t)
{
    char name[PL_MODULE_NAME_MAX];
    pl_hash params;
    for (int m = 0; m < pl_topology_n_modules(t); m++) {
        const int before = pl_topology_ancestor_module(t, &arm->descent, c->from, m);
        const pl_slot *slot = pl_topology_slot(t, pl_topology_module_slot(t, m));
        const pl_slot *its =
            pl_topology_slot(c->from, pl_topology_module_slot(c->from, before));
        pl_arm_module_name(&c->before, c->from, before, name);
        PL_CHECK(stages_read_version(
            c->r, name, pl_arm_beginning(arm, m, c->start, &c->before, c->from, before),
            its, c->params, &params));
        PL_CHECK(pl_client_create_module(
            c->r->client, pl_arm_module_name(arm, t, m, name),
            c->params + (slot->offset - its->offset), slot->n_params, &c->r->hash));
    }
    return PL_OK;
}

static uint64_t scores_bytes(const chapter *c)
{
    return (uint64_t)c->n_docs * (uint64_t)pl_topology_n_paths(c->from) *
           sizeof *c->scores;
}

/* Gives the arm the states that the paths had after c->start phases of the previous
 * arm. A path gets the state of the path from which it descends; without such a state
 * it begins with zeros. */
static pl_status put_states(chapter *c)
{
    const pl_topology_spec *was = pl_topology_get_spec(c->from);
    const int replicas = pl_topology_n_replicas(c->topology);
    const int n = pl_topology_n_paths(c->topology) * replicas;
    const pl_arm *before = &c->before;
    pl_hash *states = pl_alloc((size_t)n * sizeof *states);
    char name[PL_MODULE_NAME_MAX], kept[PL_MODULE_NAME_MAX];
    bool any = false;
    pl_buf first = {0};
    pl_status status = PL_OK;
    if (c->start == 0)
        c->arm.moments = before->moments;
    /* Reads the list of the states with which the previous arm began. If the topology
     * has changed there, these belong to other paths, and the paths begin with
     * zeros. */
    if (c->start == 0 && !pl_hash_none(&before->states) &&
        before->descent.n_parents <= 0 && before->descent.experts[0] <= 0) {
        const size_t bytes = (size_t)pl_topology_n_paths(c->from) *
                             (size_t)pl_topology_n_replicas(c->from) * sizeof(pl_hash);
        pl_arm_states_name(before, name);
        PL_TRY(pl_client_get_blob(c->r->client, name, &before->states, &first));
        if (first.len != bytes)
            PL_TRY(pl_fail(PL_ERR_DAMAGED,
                           "%s has %zu bytes instead of %zu; run `pathloom store fsck`",
                           name, first.len, bytes));
    }
    const pl_hash *old = (const pl_hash *)(const void *)first.data;
    for (int i = 0; i < n; i++) {
        pl_path_state state;
        pl_object object;
        int path = pl_topology_ancestor_path(c->topology, &c->arm.descent, c->from,
                                             i / replicas);
        pl_arm_path_name(before, c->from, path, i % replicas, name);
        pl_kept_state_name(name, c->start, kept);
        if (c->start == 0) {
            if (old)
                states[i] = old[path * replicas + i % replicas];
        } else if (c->start == before->inner.phases) {
            status = pl_client_get_path(c->r->client, name, &state);
            states[i] = state.moments;
        } else if ((status = pl_store_get_object(c->store, kept, &object)) == PL_OK) {
            states[i] = object.blob;
        }
        PL_TRY(status == PL_ERR_NOT_FOUND ? PL_OK : status);
        any = any || !pl_hash_none(&states[i]);
    }
    pl_arm_states_name(&c->arm, name);
    if (any) {
        PL_TRY(pl_client_put_object(c->r->client, name, states,
                                    (uint64_t)n * sizeof *states, &c->arm.states));
        pl_copy_text(c->arm.before, sizeof c->arm.before,
                     c->start == 0 ? before->before : before->name);
        if (c->what->splits)
            memcpy(c->arm.descent.experts, was->experts, sizeof c->arm.descent.experts);
    }
done:
    pl_buf_destroy(&first);
    pl_free(states);
    return status;
}

/* Lets the workers score the documents, reads the scores, and deals the documents by
 * them. Other arms train at the same time, but the hub leases the scoring tasks
 * first. */
static pl_status deal_anew(chapter *c, const char *const *arms, int n_arms)
{
    const char *shown[ARMS_MAX + 1];
    const uint32_t n = pl_tokens_n_docs(c->r->train);
    const int n_paths = pl_topology_n_paths(c->from);
    const double start = pl_now();
    bool exists = false;
    char name[PL_MODULE_NAME_MAX], took[16];
    pl_buf blob = {0};
    pl_status status = PL_OK;
    c->docs = pl_alloc((n ? n : 1) * sizeof *c->docs);
    for (uint32_t d = 0; d < n; d++)
        if (stages_scores(c->r, d))
            c->docs[c->n_docs++] = d;
    PL_TRY(stages_arm_exists(c->r, c->scoring.name, &exists));
    if (!exists) {
        /* Publishes the arm in which each path scores all documents of c->docs, with
         * one task per path. */
        const config *cfg = &c->r->cfg;
        pl_arm *arm = &c->scoring;
        int64_t windows = 0;
        for (size_t i = 0; i < c->n_docs; i++)
            windows += (pl_doc_targets(pl_tokens_doc(c->r->train, c->docs[i])) +
                        cfg->context - 1) /
                       cfg->context;
        memset(&arm->descent, 0, sizeof arm->descent); /* the topology stays the same */
        arm->spec.replicas = 1;
        arm->n_scored = (int64_t)c->n_docs;
        arm->n_frozen = 0;
        arm->inner.phases = 1;
        arm->inner.tau = (int)((windows + arm->inner.batch - 1) / arm->inner.batch);
        arm->inner.skip_prefix = (int)cfg->prefix;
        arm->inner.decay = arm->inner.first_step = 0;
        arm->inner.pack = false;
        for (int p = 0; p < arm->n_shards; p++)
            PL_TRY(stages_put_shard(c->r, arm, c->from, p, c->docs, c->n_docs));
        PL_TRY(publish_modules(c, arm, c->from));
        PL_TRY(stages_put_arm(c->r, arm));
    }
    c->scoring.n_scored = (int64_t)c->n_docs;
    shown[0] = c->scoring.name;
    memcpy(shown + 1, arms, (size_t)n_arms * sizeof *shown);
    PL_TRY(progress_wait(c->r, shown, n_arms + 1, 1));
    PL_TRY(routing_alloc(c->r, scores_bytes(c), "the scores of the documents",
                         (void **)&c->scores));
    for (int p = 0; p < n_paths; p++) {
        pl_arm_path_name(&c->scoring, c->from, p, 0, name);
        PL_TRY(stages_read_state(c->r, name, c->n_docs * sizeof(double), &blob));
        for (size_t i = 0; i < c->n_docs; i++) {
            double nats;
            memcpy(&nats, blob.data + i * sizeof nats, sizeof nats);
            c->scores[i * (size_t)n_paths + (size_t)p] = -nats;
        }
    }
    say("router   %zu documents scored by %d paths of %s in %s", c->n_docs, n_paths,
        c->before.name, pl_human_seconds(pl_now() - start, took));
    PL_TRY(stages_base_params(c->r, c->params));
    PL_TRY(routing_refit(c->r, c->params, c->docs, c->n_docs, c->scores, &c->g));
done:
    pl_buf_destroy(&blob);
    return status;
}

/* ---- modules that are split ---- */
typedef struct known_document {
    uint64_t hash;
    uint32_t index;
} known_document;

static int by_hash(const void *a, const void *b)
{
    const known_document *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static pl_status split_modules(chapter *c)
{
    const size_t n_paths = (size_t)pl_topology_n_paths(c->from);
    const size_t n = pl_tokens_n_docs(c->r->train);
    known_document *known = pl_alloc(n * sizeof *known);
    pl_buf docs = {0}, bytes = {0};
    pl_tokens *shard = NULL;
    pl_prefix_lm *router = NULL;
    pl_shards before = {.n_paths = (int)n_paths,
                        .first = pl_alloc((n_paths + 1) * sizeof *before.first)};
    pl_status status;
    routing_origin origin = {
        .topology = c->from, .descent = &c->arm.descent, .shards = &before};
    before.first[0] = 0;
    for (size_t i = 0; i < n; i++)
        known[i] = (known_document){pl_tokens_doc(c->r->train, (uint32_t)i)->hash,
                                    (uint32_t)i};
    qsort(known, n, sizeof *known, by_hash);
    for (size_t p = 0; p < n_paths; p++) {
        /* Appends to `docs` the numbers of the documents that are in the shard of the
         * path. `known` are all training documents, sorted by hash. */
        char object[PL_MODULE_NAME_MAX];
        stages_path_object("shard", &c->before, c->from, (int)p, object);
        PL_TRY(stages_read_object(c->r, object, &bytes));
        PL_TRY(pl_tokens_view(bytes.data, bytes.len, object, &shard));
        for (uint32_t d = 0; d < pl_tokens_n_docs(shard); d++) {
            const known_document key = {.hash = pl_tokens_doc(shard, d)->hash};
            const known_document *at = bsearch(&key, known, n, sizeof key, by_hash);
            if (at)
                pl_buf_append(&docs, &at->index, sizeof at->index);
        }
        pl_tokens_close(&shard);
        pl_buf_destroy(&bytes);
        before.first[p + 1] = docs.len / sizeof(uint32_t);
    }
    before.docs = (uint32_t *)(void *)docs.data;
    pl_free(known);
    known = NULL;
    PL_TRY(stages_base_params(c->r, c->params));
    /* only a chapter of topology.graft lists parents, and only such a chapter can end
     * paths */
    if (c->what->descent.n_parents > 0) {
        char object[PL_MODULE_NAME_MAX];
        snprintf(object, sizeof object, "router/%s", c->before.name);
        PL_TRY(stages_read_object(c->r, object, &bytes));
        PL_TRY(pl_prefix_lm_decode(bytes.data, bytes.len, pl_cpu_count(), &router));
        pl_buf_destroy(&bytes);
        if (pl_prefix_lm_n_paths(router) != pl_topology_n_paths(c->from))
            PL_TRY(pl_fail(PL_ERR_DAMAGED,
                           "object %s routes text to %d paths, but %s has %d", object,
                           pl_prefix_lm_n_paths(router), c->before.name,
                           pl_topology_n_paths(c->from)));
    }
    origin.answers = router;
    PL_TRY(routing_split(c->r, c->params, &origin, &c->g));
done:
    pl_tokens_close(&shard);
    pl_prefix_lm_destroy(&router);
    pl_free(known);
    pl_buf_destroy(&bytes);
    pl_buf_destroy(&docs);
    pl_free(before.first);
    return status;
}

pl_status stage_chapter(pl_run *r, int number, const config_chapter *what,
                        const char *const *arms, int n_arms)
{
    chapter c = {.r = r, .what = what};
    char name[PL_ARM_NAME_MAX], before[PL_ARM_NAME_MAX];
    bool exists = false;
    pl_status status = PL_OK;
    pl_chapter_name(number, name);
    pl_chapter_name(number - 1, before);
    PL_TRY(stages_arm_exists(r, name, &exists));
    if (exists)
        goto done;
    PL_TRY(stages_read_arm(r, before, &c.before));
    PL_TRY(run_arm(r, before, &c.scoring));
    PL_TRY(run_arm(r, name, &c.arm));
    pl_scoring_name(number, c.scoring.name);
    PL_TRY(pl_topology_create(&c.before.shape, &c.before.spec, &c.from));
    PL_TRY(pl_topology_create(&c.arm.shape, &c.arm.spec, &c.topology));
    c.g.topology = c.topology;
    c.g.chapter = number;
    PL_TRY(stages_path_params(r, &c.params));
    PL_TRY(store_open_run(r->dir, &c.store));
    PL_TRY(pl_arm_start(c.store, &c.arm, before, &c.start));
    PL_TRY(put_states(&c));
    pl_store_close(&c.store);
    if (what->more)
        say("more     %s continues %s after %lld of its %d phases: %d phases%s",
            c.arm.name, c.before.name, (long long)c.start, c.before.inner.phases,
            c.arm.inner.phases, what->splits ? "" : " on the same shards");
    if (what->splits || what->descent.n_parents > 0)
        say("topology %d modules and %d paths of %s become %d and %d of %s",
            pl_topology_n_modules(c.from), pl_topology_n_paths(c.from), c.before.name,
            pl_topology_n_modules(c.topology), pl_topology_n_paths(c.topology),
            c.arm.name);
    const bool keeps = !what->splits && !what->deals;
    if (!keeps) {
        PL_TRY(what->splits ? split_modules(&c) : deal_anew(&c, arms, n_arms));
        PL_TRY(pl_tokens_check(r->train));
        c.g.phases = c.arm.inner.phases;
        PL_TRY(routing_report(r, &c.g));
    }
    PL_TRY(pl_failpoint("chapter.shards.before"));
    /* A chapter keeps the shards and the router if it only has more phases, frozen
     * modules, or levels that were cut. A cut changes only the names of the paths. */
    char from[PL_MODULE_NAME_MAX], to[PL_MODULE_NAME_MAX];
    if (keeps) {
        /* the weights of the shards, and the held-out text for curves */
        memcpy(c.arm.weights, c.before.weights,
               (size_t)c.arm.n_shards * sizeof *c.arm.weights);
        PL_TRY(curve_text_copy(r, &c.before, c.from, &c.arm, c.topology));
        for (int p = 0; p < c.arm.n_shards; p++) {
            stages_path_object("shard", &c.before, c.from, p, from);
            stages_path_object("shard", &c.arm, c.topology, p, to);
            PL_TRY(stages_copy_object(r, from, to, &c.arm.shards[p]));
        }
        PL_TRY(select_copy_holdouts(r, &c.before, c.from, &c.arm, c.topology));
    } else
        PL_TRY(stages_put_shards(r, &c.arm, &c.g));
    PL_TRY(pl_failpoint("chapter.modules.before"));
    PL_TRY(publish_modules(&c, &c.arm, c.topology));
    if (keeps) {
        pl_hash blob;
        snprintf(from, sizeof from, "router/%s", c.before.name);
        snprintf(to, sizeof to, "router/%s", c.arm.name);
        PL_TRY(stages_copy_object(r, from, to, &blob));
        if (what->descent.n_parents > 0)
            PL_TRY(routing_rename_map(r, c.topology));
    } else
        PL_TRY(routing_put(r, &c.g, c.arm.name));
    PL_TRY(pl_failpoint("chapter.arm.before"));
    PL_TRY(stages_put_arm(r, &c.arm));
    PL_TRY(pl_failpoint("chapter.arm.after"));
done:
    pl_store_close(&c.store);
    pl_free(c.params);
    if (c.scores)
        routing_free(c.scores, scores_bytes(&c));
    pl_free(c.docs);
    routing_clear(&c.g);
    pl_topology_destroy(&c.from);
    pl_topology_destroy(&c.topology);
    pl_arm_clear(&c.before);
    pl_arm_clear(&c.scoring);
    pl_arm_clear(&c.arm);
    return status;
}
