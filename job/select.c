/* Chooses a version for each path when the mixture has ended (train.holdout).
 *
 * A path that reads its shard many times learns the shard by heart. Then an earlier
 * version predicts new text better than the last version. So some documents of each
 * path's shard are held out: no arm trains on them ("holdout/ARM/pNN"). When the arm
 * has ended, the versions of the path are scored on these documents, and the best
 * version gets the tag "best-ARM-pNN". The best version is the newest one, unless an
 * earlier one is better by more than chance. `--select best` reads these tags; training
 * never reads them. This method is the early stopping per path of DiPaCo (section 2.7).
 *
 * The launcher computes the scores, as it computes those of the evaluation. The cost is
 * limited: at most VERSIONS_MAX versions, and in total at most the fraction COST of the
 * tokens that the arm trained on (or TARGETS_LEAST per version, if that is more). A
 * choice depends only on data in the store, and the tag contains no time. So if the
 * launcher is killed meanwhile, the next launcher writes the same bytes. */
#include "job/stages.h"

#include <math.h>

/* Up to TARGETS_LEAST targets of a version may be scored even if that exceeds COST. A
 * path with fewer held-out documents than DOCUMENTS_LEAST gets its newest version. */
enum { VERSIONS_MAX = 32, TARGETS_LEAST = 16384, DOCUMENTS_LEAST = 4 };
#define COST  0.1
#define DOUBT 1.0

typedef struct selection {
    pl_run *r;
    pl_arm arm;
    pl_topology *topology;
    pl_scorer *scorer;
    float *params;        /* parameters of a path */
    pl_snapshot_item *at; /* [n_slots] the versions that are in `params` now */
    /* [n_phases] the phases after which versions are scored; the last one is the arm's
     * last phase */
    int64_t *phases;
    int n_phases;
} selection;

typedef struct found {
    int64_t phase;
    /* loss in nats per target of the held-out documents, with the chosen version;
     * last_nats: with the newest version */
    double nats, last_nats;
    size_t n_docs;
} found;

pl_status select_put_holdouts(pl_run *r, const pl_arm *arm, const routing *g)
{
    char object[PL_MODULE_NAME_MAX];
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    for (int p = 0; r->cfg.holdout > 0 && status == PL_OK && p < g->shards.n_paths;
         p++) {
        const size_t first = g->held_first[p], n = g->held_first[p + 1] - first;
        if (n == 0)
            continue;
        stages_path_object("holdout", arm, g->topology, p, object);
        status = pl_tokens_subset(r->train, g->held + first, n, &bytes);
        if (status == PL_OK)
            status = stages_put_object(r, object, &bytes);
    }
    pl_buf_destroy(&bytes);
    return status;
}

pl_status select_copy_holdouts(pl_run *r, const pl_arm *before, const pl_topology *from,
                               const pl_arm *arm, const pl_topology *t)
{
    char was[PL_MODULE_NAME_MAX], object[PL_MODULE_NAME_MAX];
    pl_hash blob;
    const int n_paths = r->cfg.holdout > 0 ? pl_topology_n_paths(t) : 0;
    for (int p = 0; p < n_paths; p++) {
        stages_path_object("holdout", before, from, p, was);
        stages_path_object("holdout", arm, t, p, object);
        const pl_status status = stages_copy_object(r, was, object, &blob);
        PL_CHECK(status == PL_ERR_NOT_FOUND ? PL_OK : status); /* the path has none */
    }
    return PL_OK;
}

static pl_status read_phase(selection *s, int path, int64_t phase)
{
    for (int slot = 0; slot < pl_topology_n_slots(s->topology); slot++) {
        const pl_slot *place = pl_topology_slot(s->topology, slot);
        const int module = pl_topology_module_of_path(s->topology, slot, path);
        pl_snapshot_item *at = &s->at[slot];
        pl_arm_module_name(&s->arm, s->topology, module, at->module);
        at->number = pl_version_after(&s->arm, s->topology, module, phase);
        PL_CHECK(stages_read_version(s->r, at->module, at->number, place,
                                     s->params + place->offset, &at->params));
    }
    return PL_OK;
}

static double nats_per_target(const pl_score *scores, size_t n)
{
    const pl_score sum = pl_score_sum(scores, n);
    return sum.n_targets > 0 ? sum.nats / (double)sum.n_targets : NAN;
}

/* Finds the phase with the lowest loss; if several are equal, the earliest of them.
 * scores [2, n] gets the scores at the arm's end and the scores after this phase. A
 * phase whose parameters garbage collection has deleted cannot be chosen. */
static pl_status find_least(selection *s, int path, const pl_tokens *tokens,
                            const uint32_t *docs, pl_score *scores, found *out)
{
    const size_t n = out->n_docs;
    pl_score *least = scores + n, *now = pl_alloc(n * sizeof *now);
    pl_status status = PL_OK;
    for (int i = s->n_phases - 1; i >= 0; i--) {
        const bool last = i == s->n_phases - 1;
        status = read_phase(s, path, s->phases[i]);
        if (status == PL_ERR_NOT_FOUND && !last)
            continue;
        PL_TRY(status);
        PL_TRY(run_stopped(s->r));
        PL_TRY(pl_launcher_tend(s->r->launcher));
        PL_TRY(pl_scorer_load(s->scorer, s->params));
        PL_TRY(pl_score_documents(s->scorer, tokens, docs, n, last ? scores : now));
        if (last)
            memcpy(now, scores, n * sizeof *now);
        const double nats = nats_per_target(now, n);
        if (last || nats <= out->nats || (isnan(out->nats) && !isnan(nats))) {
            out->nats = nats;
            out->phase = s->phases[i];
            memcpy(least, now, n * sizeof *now);
        }
    }
    out->last_nats = nats_per_target(scores, n);
    status = PL_OK;
done:
    pl_free(now);
    return status;
}

static pl_status find_best(selection *s, int path, found *out)
{
    pl_buf bytes = {0};
    pl_tokens *tokens = NULL;
    uint32_t *docs = NULL;
    pl_score *scores = NULL;
    pl_status status;
    *out = (found){.phase = s->arm.inner.phases, .nats = NAN, .last_nats = NAN};
    /* reads the held-out documents of the path, a token file; it may have none */
    char object[PL_MODULE_NAME_MAX];
    stages_path_object("holdout", &s->arm, s->topology, path, object);
    status = stages_read_object(s->r, object, &bytes);
    PL_TRY(status == PL_ERR_NOT_FOUND ? PL_OK : status);
    if (bytes.len > 0) {
        PL_TRY(pl_tokens_view(bytes.data, bytes.len, "held-out documents", &tokens));
        const size_t most = pl_tokens_n_docs(tokens) + 1;
        docs = pl_alloc(most * sizeof *docs);
        scores = pl_alloc(2 * most * sizeof *scores);
        /* scores all documents, or as many as the limit of the cost allows */
        const pl_inner *inner = &s->arm.inner;
        const double trained =
            (double)inner->tau * inner->batch * inner->context * (double)inner->phases;
        const double targets = fmax(COST * trained / s->n_phases, TARGETS_LEAST);
        for (size_t i = 0; i + 1 < most; i++)
            docs[i] = (uint32_t)i;
        out->n_docs = pl_pick_documents(tokens, (int)s->r->cfg.prefix,
                                        (uint64_t)targets, docs, most - 1);
        if (out->n_docs > 0)
            PL_TRY(find_least(s, path, tokens, docs, scores, out));
        /* An earlier version is chosen only if it is better than the newest by more
         * than DOUBT standard errors of the difference over the documents, because the
         * best of many noisy scores is often the best by chance. */
        const double error = pl_score_error(scores + out->n_docs, scores, out->n_docs);
        const bool diverged = isnan(out->last_nats) && !isnan(out->nats);
        if (out->n_docs < DOCUMENTS_LEAST ||
            !(diverged || out->last_nats - out->nats > DOUBT * error)) {
            out->phase = s->arm.inner.phases;
            out->nats = out->last_nats;
        }
    }
    PL_TRY(read_phase(s, path, out->phase));
done:
    pl_free_all(scores, docs);
    pl_tokens_close(&tokens);
    pl_buf_destroy(&bytes);
    return status;
}

pl_status stage_select(pl_run *r, const char *arm)
{
    selection s = {.r = r};
    char took[16];
    const double start = pl_now();
    int n_new = 0, n_earlier = 0;
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    if (r->cfg.holdout <= 0)
        return PL_OK;
    const pl_backend_options backend = run_own_backend(r);
    PL_TRY(run_arm(r, arm, &s.arm));
    PL_TRY(pl_topology_create(&s.arm.shape, &s.arm.spec, &s.topology));
    const pl_scorer_options options = {.topology = s.topology,
                                       .backend = backend.name,
                                       .precision = backend.precision,
                                       .n_threads = pl_cpu_count(),
                                       .prefix = (int)r->cfg.prefix};
    s.at = pl_alloc((size_t)pl_topology_n_slots(s.topology) * sizeof *s.at);
    /* at most VERSIONS_MAX phases, evenly spaced from 0 to the end of the arm */
    const int64_t last = s.arm.inner.phases;
    s.n_phases = last < VERSIONS_MAX ? (int)last + 1 : VERSIONS_MAX;
    s.phases = pl_alloc((size_t)s.n_phases * sizeof *s.phases);
    for (int i = 0; i < s.n_phases; i++)
        s.phases[i] = s.n_phases > 1 ? last * i / (s.n_phases - 1) : last;
    PL_TRY(stages_path_params(r, &s.params));
    PL_TRY(pl_scorer_create(&options, &s.scorer));
    const int n_paths = pl_topology_n_paths(s.topology);
    for (int path = 0; path < n_paths; path++) {
        char tag[PL_NAME_MAX], object[PL_MODULE_NAME_MAX];
        pl_hash blob;
        found best;
        pl_best_tag(&s.arm, s.topology, path, tag);
        snprintf(object, sizeof object, "tag/%s", tag);
        status = pl_client_get_object(r->client, object, &blob);
        if (status == PL_OK)
            continue;
        PL_TRY(status == PL_ERR_NOT_FOUND ? PL_OK : status);
        n_new++;
        PL_TRY(find_best(&s, path, &best));
        n_earlier += best.phase < s.arm.inner.phases;
        pl_snapshot snapshot = {.phase = best.phase,
                                .items = s.at,
                                .n_items = (size_t)pl_topology_n_slots(s.topology)};
        pl_copy_text(snapshot.arm, sizeof snapshot.arm, s.arm.name);
        if (best.n_docs > 0)
            snprintf(
                snapshot.note, sizeof snapshot.note,
                "%.4f nats per token on %zu held-out documents; %.4f after phase %d",
                best.nats, best.n_docs, best.last_nats, s.arm.inner.phases);
        else
            snprintf(snapshot.note, sizeof snapshot.note, "no held-out documents");
        pl_snapshot_encode(&snapshot, &bytes);
        PL_TRY(pl_failpoint("select.tag.before"));
        PL_TRY(stages_put_object(r, object, &bytes));
    }
    if (n_new > 0)
        say("select   %d of %d paths of %s have an earlier version that is better on "
            "their hold-out (%s)",
            n_earlier, n_new, arm, pl_human_seconds(pl_now() - start, took));
done:
    pl_buf_destroy(&bytes);
    pl_scorer_destroy(&s.scorer);
    pl_free_all(s.at, s.phases, s.params);
    pl_topology_destroy(&s.topology);
    pl_arm_clear(&s.arm);
    return status;
}
