/* Submissions: checked, made durable, acknowledged, in that order.
 *
 * The key of an update is (module, phase, path, replica). The first one accepted
 * wins; any later one with that key is a duplicate, also after a restart, also when
 * the phase has been merged. So an update counts exactly once however often it was
 * sent. */
#include "outer/codec.h"
#include "outer/home_parts.h"

#include <math.h>

typedef struct submission {
    pl_contribution c;
    pl_hash base;
    char module[PL_MODULE_NAME_MAX];
} submission;

static pl_status read_submission(const pl_message *m, submission *s)
{
    pl_reader r;
    memset(s, 0, sizeof *s);
    pl_reader_open(&r, "SUBMIT", m->body.data, m->body.len);
    pl_get_text(&r, PL_TAG_NAME, 0, s->c.worker, sizeof s->c.worker);
    pl_get_text(&r, PL_TAG_DEVICE, 0, s->c.device, sizeof s->c.device);
    s->c.path = (int64_t)pl_get_u64(&r, PL_TAG_PATH, 0);
    s->c.replica = (int64_t)pl_get_u64(&r, PL_TAG_REPLICA, 0);
    s->c.phase = (int64_t)pl_get_u64(&r, PL_TAG_PHASE, 0);
    pl_get_text(&r, PL_TAG_MODULE, 0, s->module, sizeof s->module);
    s->base = pl_get_hash(&r, PL_TAG_BASE, 0);
    s->c.update = pl_get_hash(&r, PL_TAG_BLOB, 0);
    s->c.first_sample = pl_get_u64(&r, PL_TAG_FIRST_SAMPLE, 0);
    s->c.n_samples = pl_get_u64(&r, PL_TAG_SAMPLES, 0);
    s->c.n_tokens = pl_get_u64(&r, PL_TAG_TOKENS, 0);
    s->c.loss = pl_get_f64(&r, PL_TAG_LOSS, 0);
    s->c.seconds = pl_get_f64(&r, PL_TAG_SECONDS, 0);
    pl_get_text(&r, PL_TAG_CODEC, 0, s->c.codec, sizeof s->c.codec);
    s->c.token = m->token;
    return pl_reader_status(&r);
}

static void answer_result(home *h, const pl_peer *peer, uint64_t request,
                          pl_submit_result result, const char *text)
{
    pl_message a;
    pl_message_init(&a, PL_MSG_SUBMITTED);
    a.request = request;
    if (text)
        pl_put_text(&a.body, PL_TAG_TEXT, text);
    pl_put_u64(&a.body, PL_TAG_RESULT, (uint64_t)result);
    home_answer_later(h, peer, &a);
}

/* A refusal is counted, logged and told; nothing is written. */
static void refuse(home *h, const pl_peer *peer, uint64_t request, const submission *s)
{
    char text[256];
    pl_copy_text(text, sizeof text, pl_last_error());
    pl_log(PL_LOG_WARN, "update.rejected",
           "module=%s worker=%s phase=%lld reason=\"%s\"", s->module, s->c.worker,
           (long long)s->c.phase, text);
    home_drop_upload(h, &s->c.update);
    answer_result(h, peer, request, PL_SUBMIT_REJECTED, text);
}

/* Length, finiteness and norm of the staged bytes. */
static pl_status check_update(home *h, const home_module *module, submission *s)
{
    home_upload *u = home_staged(h, &s->c.update);
    pl_status status = PL_OK;
    void *bytes = NULL;
    uint64_t size = 0;
    if (u) {
        s->c.update_bytes = u->bytes;
        return pl_codec_add(u->data, u->bytes, module->n_params, 1.0f, NULL,
                            &s->c.norm);
    }
    PL_TRY(pl_store_blob_bytes(h->store, &s->c.update, &size));
    PL_TRY(pl_try_alloc(size ? (size_t)size : 1, "an update", &bytes));
    PL_TRY(pl_store_read_blob(h->store, &s->c.update, 0, (size_t)size, bytes));
    s->c.update_bytes = size;
    PL_TRY(pl_codec_add(bytes, size, module->n_params, 1.0f, NULL, &s->c.norm));
done:
    pl_free_aligned(bytes);
    return status;
}

static pl_status check_place(const home_arm *arm, int module, const submission *s)
{
    int n_paths = pl_topology_n_paths(arm->topology);
    int n_replicas = pl_topology_n_replicas(arm->topology);
    if (s->c.path < 0 || s->c.path >= n_paths || s->c.replica < 0 ||
        s->c.replica >= n_replicas)
        return pl_fail(PL_ERR_DATA, "there is no path %lld replica %lld in %s",
                       (long long)s->c.path, (long long)s->c.replica, arm->arm.name);
    if (!pl_topology_path_has(arm->topology, (int)s->c.path, module))
        return pl_fail(PL_ERR_DATA, "path %lld does not go through %s",
                       (long long)s->c.path, s->module);
    if (!isfinite(s->c.loss))
        return pl_fail(PL_ERR_NUMERIC, "the loss is not finite");
    return PL_OK;
}

static pl_status check_base(const home_module *module, const submission *s)
{
    if (s->c.phase > (int64_t)module->version)
        return pl_fail(
            PL_ERR_DATA, "phase %lld of %s has not begun: its version is %llu",
            (long long)s->c.phase, s->module, (unsigned long long)module->version);
    if (!pl_hash_equal(&s->base, &module->params))
        return pl_fail(PL_ERR_DATA,
                       "the update of %s was made from another version %llu", s->module,
                       (unsigned long long)module->version);
    return PL_OK;
}

static pl_status accept_update(home *h, home_arm *arm, home_module *module,
                               submission *s)
{
    int slot = (int)(s->c.path * pl_topology_n_replicas(arm->topology) + s->c.replica);
    s->c.weight = arm->arm.weights[s->c.path];
    PL_RETURN_IF(home_adopt_blob(h, &s->c.update));
    PL_RETURN_IF(pl_txn_put_pending(h->txn, s->module, &s->c));
    module->pending[slot] = true;
    module->n_pending++;
    pl_log(PL_LOG_DEBUG, "update.accepted",
           "module=%s worker=%s phase=%lld pending=%d/%d", s->module, s->c.worker,
           (long long)s->c.phase, module->n_pending, module->n_contributors);
    return PL_OK;
}

pl_status home_submit(home *h, const pl_peer *peer, const pl_message *m)
{
    submission s;
    home_arm *arm = NULL;
    int index = 0;
    PL_RETURN_IF(read_submission(m, &s));
    PL_RETURN_IF(home_find_module(h, s.module, &arm, &index));
    home_module *module = &arm->modules[index];
    if (check_place(arm, index, &s) != PL_OK) {
        refuse(h, peer, m->request, &s);
        return PL_OK;
    }
    int slot = (int)(s.c.path * pl_topology_n_replicas(arm->topology) + s.c.replica);
    if (s.c.phase < (int64_t)module->version ||
        (s.c.phase == (int64_t)module->version && module->pending[slot])) {
        home_drop_upload(h, &s.c.update);
        answer_result(h, peer, m->request, PL_SUBMIT_DUPLICATE, NULL);
        return PL_OK;
    }
    if (m->token < arm->paths[slot].fence) {
        home_drop_upload(h, &s.c.update);
        answer_result(h, peer, m->request, PL_SUBMIT_FENCED,
                      "the lease was given to another");
        return PL_OK;
    }
    if (!home_staged(h, &s.c.update) && !pl_store_has_blob(h->store, &s.c.update)) {
        answer_result(h, peer, m->request, PL_SUBMIT_UNKNOWN_BLOB, NULL);
        return PL_OK;
    }
    if (check_base(module, &s) != PL_OK || check_update(h, module, &s) != PL_OK) {
        refuse(h, peer, m->request, &s);
        return PL_OK;
    }
    PL_RETURN_IF(accept_update(h, arm, module, &s));
    answer_result(h, peer, m->request, PL_SUBMIT_ACCEPTED, NULL);
    return PL_OK;
}

/* ---- the end of a task: inner optimizer state and data cursor ---- */
static pl_status read_path(const pl_message *m, pl_path_state *state)
{
    pl_reader r;
    memset(state, 0, sizeof *state);
    pl_reader_open(&r, "SUBMIT_PATH", m->body.data, m->body.len);
    pl_get_text(&r, PL_TAG_NAME, 0, state->name, sizeof state->name);
    pl_get_text(&r, PL_TAG_DEVICE, 0, state->worker, sizeof state->worker);
    state->phase = (int64_t)pl_get_u64(&r, PL_TAG_PHASE, 0);
    state->moments = pl_get_hash(&r, PL_TAG_BLOB, 0);
    state->samples = pl_get_u64(&r, PL_TAG_SAMPLES, 0);
    state->n_tokens = pl_get_u64(&r, PL_TAG_TOKENS, 0);
    state->loss = pl_get_f64(&r, PL_TAG_LOSS, 0);
    state->seconds = pl_get_f64(&r, PL_TAG_SECONDS, 0);
    return pl_reader_status(&r);
}

/* A task is done only when every update of it that belongs here is in. */
static bool updates_are_in(const home *h, const home_arm *arm, int index, int64_t phase)
{
    int replicas = pl_topology_n_replicas(arm->topology);
    (void)h;
    for (int slot = 0; slot < pl_topology_n_slots(arm->topology); slot++) {
        int module = pl_topology_module_of_path(arm->topology, slot, index / replicas);
        const home_module *k = &arm->modules[module];
        if (k->exists && (int64_t)k->version == phase && !k->pending[index])
            return false;
    }
    return true;
}

static pl_status check_moments(home *h, const home_arm *arm, const pl_path_state *state)
{
    uint64_t want = 2 * pl_topology_path_params(arm->topology) * sizeof(float),
             bytes = 0;
    const home_upload *u = home_staged(h, &state->moments);
    if (u)
        bytes = u->bytes;
    else
        PL_RETURN_IF(pl_store_blob_bytes(h->store, &state->moments, &bytes));
    if (bytes != want)
        return pl_fail(PL_ERR_DATA, "the moments of %s have %llu bytes instead of %llu",
                       state->name, (unsigned long long)bytes,
                       (unsigned long long)want);
    return PL_OK;
}

pl_status home_submit_path(home *h, const pl_peer *peer, const pl_message *m)
{
    pl_path_state state;
    home_arm *arm = NULL;
    int index = 0;
    PL_RETURN_IF(read_path(m, &state));
    PL_RETURN_IF(home_find_path(h, state.name, &arm, &index));
    home_path *path = &arm->paths[index];
    if (state.phase <= path->phase) {
        home_drop_upload(h, &state.moments);
        answer_result(h, peer, m->request, PL_SUBMIT_DUPLICATE, NULL);
        return PL_OK;
    }
    if (m->token < path->fence) {
        home_drop_upload(h, &state.moments);
        answer_result(h, peer, m->request, PL_SUBMIT_FENCED,
                      "the lease was given to another");
        return PL_OK;
    }
    if (state.phase != path->phase + 1 || !updates_are_in(h, arm, index, path->phase)) {
        answer_result(h, peer, m->request, PL_SUBMIT_REJECTED,
                      "updates of this task are missing, or phases were skipped");
        return PL_OK;
    }
    if (!home_staged(h, &state.moments) &&
        !pl_store_has_blob(h->store, &state.moments)) {
        answer_result(h, peer, m->request, PL_SUBMIT_UNKNOWN_BLOB, NULL);
        return PL_OK;
    }
    PL_RETURN_IF(check_moments(h, arm, &state));
    PL_RETURN_IF(home_adopt_blob(h, &state.moments));
    PL_RETURN_IF(pl_txn_put_path(h->txn, &state));
    path->phase = state.phase;
    path->n_tokens = state.n_tokens;
    path->loss = state.loss;
    path->seconds = state.seconds;
    home_tell_path(h, path);
    answer_result(h, peer, m->request, PL_SUBMIT_ACCEPTED, NULL);
    return PL_OK;
}
