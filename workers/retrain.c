/* Trains a task again from the data in the store. The result of a task depends only on
 * its arm, its data, the versions with which it begins and the state of its path. The
 * store has all of these except the states of earlier phases. So the path is trained
 * again from phase 0. */
#include "workers/path_state.h"
#include "workers/train.h"
#include "workers/workers.h"

typedef struct retraining {
    pl_store *store;
    const pl_arm *arm;
    const pl_topology *topology;
    pl_contract *contracts;
    const pl_contribution *wanted;
    const char *module; /* the module whose update is compared */
    int slot;           /* the slot of that module */
    pl_path_layout layout;
    size_t n; /* number of parameters of the path */
    trainer *trainer;
    char device[96];
    void *shard;
    pl_tokens *tokens;
    float *base, *state, *update; /* base [n], state [n_vectors, n], update [n] */
    /* [n_slots] for each slot, the norm of the update that made the version in
     * `base` */
    double *norms;
    pl_buf encoded;
} retraining;

static pl_status cannot(const char *module, const char *why)
{
    return pl_fail(PL_ERR_NOT_FOUND, "the tasks of %s cannot be trained again: %s",
                   module, why);
}

static pl_holder describe_slot(const retraining *r, int slot, int64_t phase)
{
    const pl_slot *place = pl_topology_slot(r->topology, slot);
    return (pl_holder){.of = &r->contracts[pl_topology_module_of_path(
                           r->topology, slot, (int)r->wanted->path)],
                       .path = (int)r->wanted->path,
                       .phase = phase,
                       .base = r->base + place->offset};
}

static pl_status read_slot_base(retraining *r, int slot, int64_t phase)
{
    const pl_contract *of = describe_slot(r, slot, phase).of;
    const pl_slot *place = pl_topology_slot(r->topology, slot);
    const uint64_t number = pl_round_base(of, pl_round_of(of, phase));
    pl_version v;
    pl_status status = PL_OK;
    PL_CHECK(pl_store_get_version(r->store, of->name, number, &v));
    if (pl_starts_with(v.method, "rollback"))
        PL_TRY(cannot(r->module, "after a rollback their path continued with a state "
                                 "that the store does not have"));
    if (v.params_gone)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "a task began with %s@%llu, whose parameters were deleted by "
                       "garbage collection; keep more versions with `pathloom store gc "
                       "--keep` or a tag",
                       of->name, (unsigned long long)v.number));
    r->norms[slot] = v.update_norm;
    PL_TRY(pl_store_read_blob(r->store, &v.params, 0, place->n_params * sizeof(float),
                              r->base + place->offset));
done:
    pl_version_clear(&v);
    return status;
}

/* Reads the path's contribution of a phase. *steps gets the number of inner steps of
 * the phase. Refuses a contribution that was made on a different device, because
 * different devices round differently. */
static pl_status read_contribution(const retraining *r, int64_t phase, int *steps)
{
    const pl_contribution *w = r->wanted;
    pl_version v;
    pl_status status = PL_OK;
    bool found = false;
    PL_CHECK(pl_store_get_version(r->store, r->module, (uint64_t)phase + 1, &v));
    for (int i = 0; i < v.n_contributions && !found; i++) {
        const pl_contribution *c = &v.contributions[i];
        if (c->path != w->path || c->replica != w->replica)
            continue;
        found = true;
        *steps = (int)(c->work.n_samples / (uint64_t)r->arm->inner.batch);
        if (strcmp(c->device, r->device) != 0)
            status = pl_fail(PL_ERR_NOT_FOUND,
                             "phase %lld was trained on %s, but this machine has %s, "
                             "which rounds differently; run the command on a machine "
                             "like the first",
                             (long long)phase, c->device, r->device);
    }
    pl_version_clear(&v);
    if (!found)
        return cannot(r->module, "a version has no contribution of their path");
    return status;
}

static pl_status run_phase(retraining *r, int64_t phase, pl_hash *update)
{
    train_job job = {0};
    pl_status status = PL_OK;
    int n_slots = pl_topology_n_slots(r->topology);
    for (int slot = 0; slot < n_slots; slot++)
        PL_TRY(read_slot_base(r, slot, phase));
    job = (train_job){.arm = r->arm,
                      .topology = r->topology,
                      .shard = r->tokens,
                      .path = (int)r->wanted->path,
                      .replica = (int)r->wanted->replica,
                      .first_step = phase * r->arm->inner.tau,
                      .start = r->base,
                      .n_vectors = r->layout.n_vectors,
                      .state = r->state,
                      .mix_step = -1};
    PL_TRY(read_contribution(r, phase, &job.steps));
    trainer_start(r->trainer, &job);
    while (!trainer_take(r->trainer))
        pl_sleep_ms(1);
    PL_TRY(job.status == PL_OK ? PL_OK : pl_fail(job.status, "%s", job.error));
    for (int slot = 0; slot < n_slots; slot++) {
        /* Encodes the update of the slot as the worker would have sent it. If the codec
         * is lossy, the residual in the path's state becomes the part that the codec
         * left out. A slot that sends no update in this phase has no round. */
        const pl_holder s = describe_slot(r, slot, phase);
        const size_t at = pl_topology_slot(r->topology, slot)->offset;
        const int64_t round = pl_round_of(s.of, phase);
        if (round >= 0) {
            float *residual = r->layout.residual < 0
                                  ? NULL
                                  : r->state + (size_t)r->layout.residual * r->n + at;
            pl_codec_round shared = pl_round_codec(s.of, s.path, round, r->norms[slot]);
            pl_holder_update(&s, s.base, job.params + at, r->update);
            pl_buf_clear(&r->encoded);
            PL_TRY(pl_codec_encode_update(&r->arm->outer.codec, r->topology,
                                          s.of->module, &shared, r->update, residual,
                                          &r->encoded));
        }
        if (slot == r->slot)
            pl_blob_hash(r->encoded.data, r->encoded.len, update);
    }
    state_round(r->arm, r->state, r->n);
done:
    pl_free(job.params); /* the rest belongs to `r` */
    return status;
}

/* Reads a blob into `out`. The blob must have exactly `bytes` bytes. */
static pl_status read_whole_blob(retraining *r, const char *what, const pl_hash *blob,
                                 size_t bytes, void *out)
{
    uint64_t have = 0;
    PL_CHECK(pl_store_blob_bytes(r->store, blob, &have));
    if (have != bytes)
        return pl_fail(PL_ERR_DAMAGED, "%s has %llu bytes instead of %zu", what,
                       (unsigned long long)have, bytes);
    return pl_store_read_blob(r->store, blob, 0, bytes, out);
}

/* Reads the state with which the path began: the one that the arm names, or the one
 * that the path had at the end of the arm from which this arm continues, or zeros. */
static pl_status read_first_state(retraining *r)
{
    const pl_arm *arm = r->arm;
    const pl_topology *t = r->topology;
    if (pl_hash_none(&arm->states) && pl_hash_none(&arm->moments))
        return PL_OK;
    if (pl_hash_none(&arm->states))
        return read_whole_blob(r, PL_MOMENTS_OBJECT, &arm->moments,
                               pl_path_moments_floats(arm, r->n) * sizeof *r->state,
                               r->state);
    const int replicas = pl_topology_n_replicas(t);
    const int64_t index = r->wanted->path * replicas + r->wanted->replica;
    size_t n = (size_t)(pl_topology_n_paths(t) * replicas);
    size_t bytes = (size_t)pl_path_state_bytes(arm, r->n);
    char object[96], path[96];
    pl_hash *states = pl_alloc(n * sizeof *states);
    uint8_t *blob = pl_alloc(bytes + 1);
    pl_status status = PL_OK;
    pl_arm_states_name(arm, object);
    pl_arm_before_name(arm, t, (int)r->wanted->path, (int)r->wanted->replica, path);
    PL_TRY(read_whole_blob(r, object, &arm->states, n * sizeof *states, states));
    if (!pl_hash_none(&states[index])) {
        PL_TRY(read_whole_blob(r, path, &states[index], bytes, blob));
        state_unpack(arm, blob, r->n, r->state);
    }
done:
    pl_free_all(states, blob);
    return status;
}

pl_status pl_task_retrain(pl_store *store, const pl_arm *arm,
                          const pl_topology *topology, const char *module,
                          const pl_contribution *wanted,
                          const pl_backend_options *backend, pl_hash *update)
{
    retraining r = {.store = store,
                    .arm = arm,
                    .topology = topology,
                    .module = module,
                    .wanted = wanted};
    pl_status status = PL_OK;
    const int path = (int)wanted->path;
    *update = (pl_hash){{0}};
    const int index = pl_topology_find_module(topology, strchr(module, '/') + 1);
    if (index < 0 || wanted->path < 0 || wanted->path >= pl_topology_n_paths(topology))
        PL_TRY(pl_fail(PL_ERR_DAMAGED,
                       "%s has a contribution of path %lld, but the module or the path "
                       "does not exist in arm %s; run `pathloom store fsck`",
                       module, (long long)wanted->path, arm->name));
    r.slot = pl_topology_module_slot(topology, index);
    r.layout = pl_path_layout_of(arm);
    r.contracts = pl_contracts_create(arm, topology);
    r.n = pl_topology_path_params(topology);
    /* refuses methods whose phases depend on anything except versions and the path's
     * moments and residual */
    if (!pl_versions_have_phases(&arm->outer))
        PL_TRY(cannot(module, "the versions with which they began depended on timing"));
    if (r.layout.params >= 0 || r.layout.last >= 0)
        PL_TRY(cannot(module, "their paths keep parameters of their own"));
    if (arm->outer.state == PL_STATE_LOCAL)
        PL_TRY(cannot(module, "their moments never left their workers "
                              "(train.state=local)"));
    PL_TRY(trainer_create(backend, false, &r.trainer, r.device));
    const size_t bytes = r.n * sizeof(float);
    r.norms = pl_alloc((size_t)pl_topology_n_slots(topology) * sizeof *r.norms);
    PL_TRY(pl_try_alloc(bytes, "a path's modules", (void **)&r.base));
    PL_TRY(pl_try_alloc(bytes, "an update", (void **)&r.update));
    PL_TRY(pl_try_alloc((size_t)r.layout.n_vectors * bytes, "a path's state",
                        (void **)&r.state));
    PL_TRY(read_first_state(&r));
    /* not the object of the shard: `forget` has blanked the text of the base model */
    uint64_t shard_bytes = 0;
    if (path >= arm->n_shards || !pl_store_has_blob(store, &arm->shards[path]))
        PL_TRY(cannot(module, "the store no longer has the text on which they were "
                              "trained (pathloom forget)"));
    PL_TRY(pl_store_blob_bytes(store, &arm->shards[path], &shard_bytes));
    PL_TRY(pl_try_alloc((size_t)shard_bytes, "a data shard", &r.shard));
    PL_TRY(
        pl_store_read_blob(store, &arm->shards[path], 0, (size_t)shard_bytes, r.shard));
    PL_TRY(pl_tokens_view(r.shard, (size_t)shard_bytes, "a data shard", &r.tokens));
    for (int64_t phase = 0; phase <= wanted->phase; phase++)
        PL_TRY(run_phase(&r, phase, update));
done:
    trainer_destroy(&r.trainer);
    pl_free(r.contracts);
    pl_tokens_close(&r.tokens);
    pl_free_all(r.shard, r.base, r.update, r.state, r.norms);
    pl_buf_destroy(&r.encoded);
    return status;
}
