/* Decides whether an update or a state is one that training can produce. A broken or
 * hostile worker may send values that are finite, but that would ruin a module or stop
 * a path.
 *
 * The length of an update is compared with the usual length in its module, the median
 * of its newest contributions. A state is checked against the state before it
 * (outer/state_bounds.h), as far as this home has what it follows from: with several
 * homes, other homes have some versions and updates. */
#include "home/home_internal.h"

#include <math.h>
#include <stdlib.h>

/* NORMS_LEAST: with fewer norms there is no usual one */
enum { NORMS_LEAST = 4 };

void home_note_norm(home_module *m, double norm)
{
    m->norms.ring[m->norms.n_noted++ % HOME_NORMS_MAX] = norm;
}

static int compare_norms(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Late in training the usual norm is so small that a correct update can have ten times
 * this norm. So an update that is small compared to the module's parameters is never
 * refused. */
pl_status home_check_norm(const home *h, const home_arm *arm, const home_module *m,
                          const pl_submit_message *s)
{
    /* the gate accepts an update of at most this fraction of the parameters' norm, even
     * if the norms of other updates are much smaller */
    const double harmless = 0.1;
    const double norm = s->contributors[0].norm, gate = h->options->norm_gate;
    double sorted[HOME_NORMS_MAX], usual = 0;
    const size_t n =
        m->norms.n_noted < HOME_NORMS_MAX ? m->norms.n_noted : HOME_NORMS_MAX;
    memcpy(sorted, m->norms.ring, sizeof sorted);
    qsort(sorted, n, sizeof *sorted, compare_norms);
    if (n >= NORMS_LEAST)
        usual = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    /* While the usual norm is not known, the limit is the largest norm that the update
     * can have if the mean square of the parameters is at most 1: a residual contains
     * parts of earlier updates. Where paths have their own parameters, so does every
     * update, and the version may have moved the other way; four times the way covers
     * both, so the limit is not multiplied by the gate. */
    const uint64_t first = s->contributors[0].work.first_sample;
    const int64_t phase = (int64_t)(first / pl_phase_samples(&arm->arm));
    const double own = pl_path_layout_of(&arm->arm).params >= 0 ? 4 / gate : 1;
    double moved = 0;
    for (int64_t p = phase < HOME_NORMS_MAX ? 0 : phase - HOME_NORMS_MAX;
         gate > 0 && usual <= 0 && p <= phase; p++)
        moved += own * pl_phase_movement(&arm->arm, p, m->n_params,
                                         sqrt((double)m->n_params));
    if (isfinite(moved) && moved > 0)
        usual = moved;
    /* the norm of a sum is at most the sum of the norms of its parts */
    if (gate <= 0 || usual <= 0 || norm <= gate * usual * s->n ||
        norm <= harmless * m->params_norm)
        return PL_OK;
    return pl_fail(PL_ERR_DATA,
                   "the update of %s has norm %.4g, but the usual or largest expected "
                   "norm is %.4g, and store.norm_gate allows %g times that norm; check "
                   "the worker's machine, or raise store.norm_gate",
                   s->module, norm, usual, gate);
}

/* Two vectors are at most twice as far apart as the longer one is long. The limit has
 * room for own parameters, which may be longer than a version, their mean. */
pl_status home_check_start(const home *h, home_module *m, double norm)
{
    const double far = 4;
    if (h->options->norm_gate <= 0)
        return PL_OK;
    if (norm > 0 && m->first_norm <= 0) {
        const size_t bytes = m->n_params * sizeof(float);
        float *first = NULL;
        pl_version v = {0};
        PL_CHECK(pl_try_alloc(bytes, "version 0", (void **)&first));
        pl_status status = pl_store_get_version(h->store, m->name, 0, &v);
        if (status == PL_OK)
            status = pl_store_read_blob(h->store, &v.params, 0, bytes, first);
        m->first_norm = status == PL_OK ? pl_l2_norm(first, m->n_params) : 0;
        pl_version_clear(&v);
        pl_free(first);
        PL_CHECK(status);
    }
    const double norms = fmax(m->first_norm, m->params_norm);
    return norm <= far * norms
               ? PL_OK
               : pl_fail(PL_ERR_DATA,
                         "the update of %s begins %.4g away from version 0, more than "
                         "%g times the norm of its parameters, %.4g; check the "
                         "worker's machine, or set store.norm_gate to 0",
                         m->name, norm, far, norms);
}

/* ---- what a state follows from ---- */
/* The state before a phase: where this home has it. */
typedef struct state_source {
    home *h;
    const home_arm *arm;
    const pl_state_claim *claim;
} state_source;

static const home_module *module_of(const state_source *s, int slot)
{
    return &s->arm->modules[pl_topology_module_of_path(s->arm->topology, slot,
                                                       s->claim->path)];
}

/* Reads a blob of the store, not of an upload: else a worker could choose the state
 * before its own. Without the blob *bytes is empty, and *found false. */
static pl_status read_stored(const home *h, const pl_hash *blob, pl_bytes *bytes,
                             void **owned, bool *found)
{
    *owned = NULL;
    *found = pl_store_has_blob(h->store, blob);
    return *found ? home_read_blob(h, blob, "a path's state", bytes, owned) : PL_OK;
}

static pl_status read_version(void *context, int slot, uint64_t number, float *out)
{
    const state_source *s = context;
    const home_module *m = module_of(s, slot);
    const size_t bytes = m->n_params * sizeof *out;
    pl_version v = {0};
    if (!m->exists || number > m->version)
        return PL_ERR_NOT_FOUND;
    pl_status status = pl_store_get_version(s->h->store, m->name, number, &v);
    const pl_hash params = v.params;
    pl_version_clear(&v);
    PL_CHECK(status);
    if (!pl_store_has_blob(s->h->store, &params)) /* the quota has dropped it */
        return PL_ERR_NOT_FOUND;
    return pl_store_read_blob(s->h->store, &params, 0, bytes, out);
}

static pl_status read_update(void *context, int slot, int index, int64_t round,
                             float *out)
{
    const state_source *s = context;
    const home_module *m = module_of(s, slot);
    const int replicas = pl_topology_n_replicas(s->arm->topology);
    home_update update = {.module = m->name,
                          .round = round,
                          .path = index / replicas,
                          .replica = index % replicas};
    float *const to[PL_ROUND_VECTORS_MAX] = {out, out + m->n_params};
    pl_status status = PL_OK;
    pl_bytes bytes = {0};
    void *owned = NULL;
    bool found = false;
    if (!m->exists)
        return PL_ERR_NOT_FOUND;
    PL_CHECK(home_find_taken(s->h, s->arm, m, &update));
    PL_TRY(read_stored(s->h, &update.found.update, &bytes, &owned, &found));
    status = found ? pl_round_decode(m->of, bytes.at, bytes.len, to) : PL_ERR_NOT_FOUND;
done:
    pl_free(owned);
    return status;
}

/* The decision stands before the phase begins, and is kept until its end. */
static bool was_split(void *context, int slot, int64_t round)
{
    const state_source *s = context;
    const int replicas = pl_topology_n_replicas(s->arm->topology);
    return home_was_split(s->arm, (int)(module_of(s, slot) - s->arm->modules), round,
                          s->claim->path * replicas + s->claim->replica);
}

/* Fills in the state before the phase, as a worker begins with it
 * (workers/worker_state.c). Free *owned after the last use. */
static pl_status find_before(home *h, const home_arm *arm, int index,
                             pl_state_claim *claim, void **owned)
{
    const pl_path_state *old = &arm->paths[index].state;
    const size_t n = pl_topology_path_params(arm->topology);
    pl_hash hash = old->moments;
    pl_bytes bytes = {0};
    bool only_moments = false, found = true;
    *owned = NULL;
    claim->phase = old->phase - old->repeats;
    claim->n_phases = (int)old->repeats + 1;
    claim->is_fresh = claim->phase == 0 || pl_hash_none(&hash);
    claim->before = pl_state_view_of(&arm->arm, n, NULL);
    const bool restarts = claim->phase > 0 && pl_path_layout_of(&arm->arm).params >= 0;
    if (claim->is_fresh && !restarts && !pl_hash_none(&arm->arm.states)) {
        /* the first state in a list of those of a continuing arm (PROTOCOL 3.3) */
        const size_t at = (size_t)index * sizeof hash;
        PL_CHECK(read_stored(h, &arm->arm.states, &bytes, owned, &found));
        found = found && bytes.len >= at + sizeof hash;
        if (found)
            memcpy(&hash, (const char *)bytes.at + at, sizeof hash);
        pl_free(*owned);
        *owned = NULL;
        bytes = (pl_bytes){0};
    } else if (claim->is_fresh) {
        hash = arm->arm.moments;
        only_moments = true;
    }
    if (found && !pl_hash_none(&hash))
        PL_CHECK(read_stored(h, &hash, &bytes, owned, &found));
    const uint64_t want = only_moments
                              ? pl_path_moments_floats(&arm->arm, n) * sizeof(float)
                              : pl_path_state_bytes(&arm->arm, n);
    claim->is_known = found && (pl_hash_none(&hash) || bytes.len == want);
    if (!claim->is_known || bytes.len == 0)
        return PL_OK;
    if (!only_moments) {
        claim->before = pl_state_view_of(&arm->arm, n, bytes.at);
    } else if (arm->arm.outer.state != PL_STATE_LOCAL) {
        claim->before.at[0] = bytes.at;
        claim->before.at[1] = claim->before.at[0] + n * sizeof(float);
        claim->before.kinds[0] = claim->before.kinds[1] = PL_STATE_F32;
    }
    return PL_OK;
}

pl_status home_check_state(home *h, const home_arm *arm, int index,
                           const pl_path_state *state)
{
    const size_t n_params = pl_topology_path_params(arm->topology);
    const int replicas = pl_topology_n_replicas(arm->topology);
    const uint64_t want = pl_path_state_bytes(&arm->arm, n_params);
    uint64_t bytes = 0;
    if (!pl_hash_none(&state->moments))
        PL_CHECK(home_blob_bytes(h, &state->moments, &bytes));
    if (bytes != want)
        return pl_fail(PL_ERR_DATA, "the state of %s has %llu bytes instead of %llu",
                       state->name, (unsigned long long)bytes,
                       (unsigned long long)want);
    if (bytes == 0)
        return PL_OK;
    pl_bytes values = {0};
    void *owned = NULL, *owned_before = NULL;
    pl_status status = PL_OK;
    PL_TRY(home_lend_blob(h, &state->moments, "a path's state", &values, &owned));
    if (arm->arm.n_scored > 0) {
        /* Refuses values of documents that are NaN or too large: features beyond the
         * hidden state of any usable model would make all other documents look the same
         * to the router, and sums of larger scores (nats) would not be finite, which
         * would end the job when a router is fitted to them. */
        const bool are_features = arm->arm.feature_windows > 0;
        const double most = are_features ? 1e6 : 1e15, least = are_features ? -most : 0;
        const size_t size = are_features ? sizeof(float) : sizeof(double);
        for (size_t at = 0; at < values.len; at += size) {
            float feature = 0;
            double value = 0;
            memcpy(are_features ? (void *)&feature : (void *)&value,
                   (const char *)values.at + at, size);
            value = are_features ? (double)feature : value;
            if (!(value >= least && value <= most))
                PL_TRY(pl_fail(PL_ERR_DATA,
                               "number %zu of the %s of %s is %g, but it must be from "
                               "%.15g to %.15g",
                               at / size, are_features ? "features" : "scores",
                               state->name, value, least, most));
        }
        goto done;
    }
    pl_state_claim claim = {.arm = &arm->arm,
                            .topology = arm->topology,
                            .contracts = arm->contracts,
                            .path = index / replicas,
                            .replica = index % replicas,
                            .after = pl_state_view_of(&arm->arm, n_params, values.at)};
    state_source source = {h, arm, &claim};
    claim.source = (pl_state_source){&source, read_version, read_update, was_split};
    PL_TRY(find_before(h, arm, index, &claim, &owned_before));
    PL_TRY(pl_state_check(&claim));
done:
    pl_free_all(owned, owned_before);
    return status;
}
