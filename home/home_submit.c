/* Handles submissions: checks each submission, makes it durable, then acknowledges it.
 *
 * The key of an update is (module, round, path, replica). Only the first accepted
 * update with a key counts. Every later update with the same key is a duplicate, even
 * after a restart or after the merge of the round. So an update counts exactly once,
 * even if it is sent many times. */
#include "codec/codec.h"
#include "home/home_internal.h"
#include "outer/outer.h"
#include "net/net.h"

#include <math.h>

static void answer_submitted(home *h, const pl_peer *peer, uint64_t request,
                             pl_submit_result result, const char *text)
{
    pl_message a;
    pl_message_init(&a, 0);
    a.request = request;
    PL_SAY(&a, SUBMITTED, submitted, .text = text, .result = result);
    h->counts.results[result]++;
    if (result == PL_SUBMIT_REJECTED && text)
        pl_copy_text(h->counts.rejection, sizeof h->counts.rejection, text);
    home_answer_later(h, peer, &a);
}

/* The module of an update, and the results of checks of this update. */
typedef struct place {
    home_arm *arm;
    home_module *module;
    int index;        /* index of the module */
    double base_norm; /* norm of the update that made the base */
    int64_t behind;   /* number of rounds by which an update is late */
    /* OK, or a failure of the home itself, not of the update */
    pl_status trouble;
} place;

static int task_of(const place *p, const pl_contribution *c)
{
    return (int)(c->path * pl_topology_n_replicas(p->arm->topology) + c->replica);
}

/* Checks that a homomorphic update has the seed, the scale and the number of
 * contributors that all updates of its round must have; otherwise their sum would have
 * no meaning. Also checks that the number of updates in the sum is the number of
 * contributors that the message names. */
static pl_status check_shared(const place *p, const pl_submit_message *s,
                              const void *data, uint64_t bytes)
{
    const pl_arm *arm = &p->arm->arm;
    pl_codec_info info;
    PL_CHECK(pl_codec_inspect(data, bytes, p->module->n_params, &info));
    bool wanted = pl_codec_is_homomorphic(&arm->outer.codec);
    if (info.homomorphic != wanted)
        return pl_fail(PL_ERR_DATA,
                       "the update of %s is %s, but updates of its arm are %s",
                       s->module, wanted ? "not homomorphic" : "homomorphic",
                       wanted ? "homomorphic" : "not homomorphic");
    if (info.contributors != s->n)
        return pl_fail(PL_ERR_DATA,
                       "the update of %s is the sum of %d updates, but its message "
                       "names %d contributors",
                       s->module, info.contributors, s->n);
    if (!wanted)
        return PL_OK;
    pl_codec_round round =
        pl_round_codec(arm, p->arm->topology, p->index, (int)s->contributors[0].path,
                       s->round, p->base_norm);
    if (info.seed != round.seed || info.scale_exponent != round.scale_exponent ||
        info.n_contributors != round.n_contributors)
        return pl_fail(PL_ERR_DATA,
                       "the update of %s was encoded for another round, another scale "
                       "or another number of contributors",
                       s->module);
    return PL_OK;
}

/* Checks that the bytes of an update can be decoded and that all values are finite.
 * Notes the update's size and norm for each of its contributors. If the update has two
 * vectors, the norm is that of the first vector. */
static pl_status check_update_bytes(const place *p, pl_submit_message *s,
                                    const void *data, uint64_t bytes)
{
    pl_codec_message messages[PL_ROUND_VECTORS_MAX];
    double norm = 0, other = 0;
    int n_vectors = pl_round_vectors(&p->arm->arm, p->arm->topology, p->index);
    PL_CHECK(pl_codec_split(data, bytes, n_vectors, messages));
    for (int v = 0; v < n_vectors; v++) {
        PL_CHECK(check_shared(p, s, messages[v].data, messages[v].bytes));
        PL_CHECK(pl_codec_add(messages[v].data, messages[v].bytes, p->module->n_params,
                              1.0f, NULL, v == 0 ? &norm : &other));
    }
    for (int i = 0; i < s->n; i++) {
        s->contributors[i].update_bytes = bytes;
        s->contributors[i].norm = norm;
    }
    return PL_OK;
}

/* Checks the bytes of the update, which were uploaded or are in the store, with
 * check_update_bytes. */
static pl_status check_update(home *h, const place *p, pl_submit_message *s)
{
    const staging_blob *u = staging_find(&h->uploads, &s->update);
    pl_status status = PL_OK;
    void *bytes = NULL;
    uint64_t size = 0;
    if (u)
        return check_update_bytes(p, s, u->data, u->bytes);
    PL_TRY(pl_store_blob_bytes(h->store, &s->update, &size));
    PL_TRY(pl_try_alloc(size ? (size_t)size : 1, "an update", &bytes));
    PL_TRY(pl_store_read_blob(h->store, &s->update, 0, (size_t)size, bytes));
    PL_TRY(check_update_bytes(p, s, bytes, size));
done:
    pl_free_aligned(bytes);
    return status;
}

static pl_status check_place(const place *p, const pl_submit_message *s,
                             const pl_contribution *c)
{
    const home_arm *arm = p->arm;
    int n_paths = pl_topology_n_paths(arm->topology);
    int n_replicas = pl_topology_n_replicas(arm->topology);
    if (c->path < 0 || c->path >= n_paths || c->replica < 0 || c->replica >= n_replicas)
        return pl_fail(
            PL_ERR_DATA,
            "an update names path %lld replica %lld, which arm %s does not have",
            (long long)c->path, (long long)c->replica, arm->arm.name);
    if (!pl_topology_path_has(arm->topology, (int)c->path, p->index))
        return pl_fail(PL_ERR_DATA,
                       "an update of %s names path %lld, which does not go through "
                       "this module",
                       s->module, (long long)c->path);
    return PL_OK;
}

/* Checks that the contributors exist and have the module. Refuses sums for methods that
 * cannot use them: noloco, whose mates read each other's updates, and delayed-nesterov,
 * which merges updates one by one. */
static pl_status check_places(const place *p, const pl_submit_message *s)
{
    for (int i = 0; i < s->n; i++)
        PL_CHECK(check_place(p, s, &s->contributors[i]));
    if (s->n > 1 && pl_traits(p->arm->arm.outer.method.method)->gossips)
        return pl_fail(PL_ERR_DATA, "a relay sent a sum of updates, but updates of "
                                    "noloco must arrive one by one");
    if (s->n > 1 && p->module->cursor)
        return pl_fail(PL_ERR_DATA,
                       "a relay sent a sum of updates of %s, but updates of "
                       "delayed-nesterov must arrive one by one",
                       s->module);
    return PL_OK;
}

static pl_status check_base_number(const place *p, const pl_submit_message *s)
{
    uint64_t head = p->module->version;
    uint64_t want = pl_round_base(&p->arm->arm, p->arm->topology, p->index, s->round);
    if (p->module->cursor && s->base_version <= head)
        /* with delayed-nesterov the base is the version that was the newest when the
         * path began the phase */
        return PL_OK;
    if (s->base_version == want && want <= head)
        return PL_OK;
    return pl_fail(PL_ERR_DATA,
                   "an update of %s in round %lld must be relative to version %llu, "
                   "not to %llu; the newest version is %llu",
                   s->module, (long long)s->round, (unsigned long long)want,
                   (unsigned long long)s->base_version, (unsigned long long)head);
}

static pl_status check_base(home *h, place *p, const pl_submit_message *s)
{
    pl_version v;
    pl_hash params = p->module->params;
    p->base_norm = p->module->norm;
    PL_CHECK(check_base_number(p, s));
    if (s->base_version != p->module->version) {
        memset(&v, 0, sizeof v);
        PL_CHECK(pl_store_get_version(h->store, s->module, s->base_version, &v));
        params = v.params;
        p->base_norm = v.update_norm;
        pl_version_clear(&v);
    }
    if (!pl_hash_equal(&s->base, &params))
        return pl_fail(PL_ERR_DATA,
                       "the update of %s is relative to version %llu, but the worker's "
                       "parameters of that version differ from this home's",
                       s->module, (unsigned long long)s->base_version);
    return PL_OK;
}

static pl_status check_round_begun(const place *p, const pl_submit_message *s)
{
    if (s->round < (int64_t)p->module->version + p->module->window)
        return PL_OK;
    return pl_fail(PL_ERR_DATA,
                   "an update came for round %lld of %s, which has not begun: the "
                   "module's newest version is %llu",
                   (long long)s->round, s->module,
                   (unsigned long long)p->module->version);
}

/* Returns whether an update of this contributor for this phase was accepted before.
 * With delayed-nesterov or a quorum, the number of the phase's first sample decides. */
static bool is_in_round(const place *p, const pl_submit_message *s,
                        const pl_contribution *c)
{
    const home_module *m = p->module;
    if (m->cursor || (m->counted && s->round >= 0))
        return c->work.first_sample < *home_samples(p->arm, m, task_of(p, c));
    return s->round < (int64_t)m->version ||
           (s->round < (int64_t)m->version + m->window &&
            *home_flag(p->arm, m, s->round, task_of(p, c)));
}

/* Returns the largest norm that the update of one phase can have if the mean square of
 * the parameters is at most 1. check_norm uses this norm while the usual norm is not
 * known. Returns 0 (no limit) if an update contains the changes of more than one phase
 * (noloco and streaming, whose updates are relative to an older version), or if the
 * length of an inner step has no bound (Muon, some decays). */
static double longest_update(const place *p)
{
    const pl_inner *inner = &p->arm->arm.inner;
    const pl_method_traits *of = pl_traits(p->arm->arm.outer.method.method);
    double step = pl_moments_longest_step(inner);
    if (of->gossips || of->streams || !isfinite(step))
        return 0;
    return inner->tau * inner->lr * sqrt((double)p->module->n_params) *
           (step + inner->weight_decay);
}

/* Refuses an update whose norm is far above the usual norm of the module's updates:
 * either the worker or the training is broken. An update that is small compared to the
 * module's parameters is never refused: late in training the usual norm is so small
 * that a correct update can have ten times this norm. */
static pl_status check_norm(const home *h, const place *p, const pl_submit_message *s)
{
    double norm = s->contributors[0].norm, usual = norm_gate_usual(&p->module->usual);
    double gate = h->options->norm_gate;
    if (usual <= 0)
        usual = longest_update(p);
    if (gate <= 0 || usual <= 0 || norm <= gate * usual ||
        norm <= NORM_GATE_HARMLESS * p->module->params_norm)
        return PL_OK;
    if (pl_codec_is_homomorphic(&p->arm->arm.outer.codec))
        return PL_OK;
    return pl_fail(
        PL_ERR_DATA,
        "the update of %s has norm %.4g, but the usual or largest expected norm is "
        "%.4g, and store.norm_gate allows %g times that norm; check the worker's "
        "machine, or raise store.norm_gate",
        s->module, norm, usual, gate);
}

static bool misses_its_round(const place *p, const pl_submit_message *s)
{
    const home_module *m = p->module;
    if (!m->counted || s->round > (int64_t)m->version)
        return false;
    return s->round < (int64_t)m->version ||
           *home_flag(p->arm, m, s->round, task_of(p, &s->contributors[0]));
}

/* Handles an update that misses its round: the round was merged with a quorum of other
 * updates, or already has a late update of this path. The update counts in the open
 * round if outer.late_weight is above 0 and the path has no update in that round yet;
 * otherwise the update is dropped. */
static pl_submit_result judge_late(place *p, const pl_submit_message *s)
{
    const home_module *m = p->module;
    const pl_outer *outer = &p->arm->arm.outer;
    int64_t open = (int64_t)m->version;
    p->behind = open - s->round;
    if (p->behind == 0)
        (void)pl_fail(PL_ERR_STALE,
                      "round %lld of %s already has a late update of this path, so "
                      "this update is dropped",
                      (long long)s->round, s->module);
    else if (outer->late_weight > 0 &&
             m->version < pl_round_count(&p->arm->arm, p->arm->topology, p->index) &&
             !*home_flag(p->arm, m, open, task_of(p, &s->contributors[0])))
        return PL_SUBMIT_ACCEPTED;
    else
        (void)pl_fail(PL_ERR_STALE,
                      "round %lld of %s was merged before this update came "
                      "(outer.quorum), so the update is dropped; the path continues "
                      "from version %llu",
                      (long long)s->round, s->module, (unsigned long long)m->version);
    return PL_SUBMIT_DROPPED;
}

static bool is_fenced(const place *p, const pl_submit_message *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->contributors[i].token <
            p->arm->paths[task_of(p, &s->contributors[i])].fence)
            return true;
    return false;
}

/* Returns whether the store has an update with the same key but different bytes, from
 * another worker that did the same task. The worker that repeats the task must know
 * this; otherwise it would continue from its own result. An update that is no longer in
 * the store was merged long ago, and no task starts from it. Homomorphic updates are
 * not compared: a relay may have added them, and the bytes of a sum differ from those
 * of each update. */
static bool has_other_bytes(home *h, const place *p, const pl_submit_message *s)
{
    home_update taken = {.module = s->module,
                         .round = s->round,
                         .path = s->contributors[0].path,
                         .replica = s->contributors[0].replica};
    if (pl_codec_is_homomorphic(&p->arm->arm.outer.codec) ||
        home_find_update(h, &taken) != PL_OK || pl_hash_equal(&taken.found, &s->update))
        return false;
    (void)pl_fail(PL_ERR_DATA,
                  "worker %s has already sent a different update of %s in round %lld; "
                  "that update counts, not this one",
                  taken.worker, s->module, (long long)s->round);
    return true;
}

/* Decides whether an update is accepted. The first check that fails decides the result;
 * then pl_last_error gives the reason. A sum is accepted as a whole or not at all; if
 * it is refused, the relay sends its parts one by one. */
static pl_submit_result judge_submission(home *h, place *p, pl_submit_message *s)
{
    if (check_places(p, s) != PL_OK)
        return PL_SUBMIT_REJECTED;
    if (p->module->cursor) {
        /* With delayed-nesterov, updates get their rounds in the order in which they
         * arrive. */
        const home_module *m = p->module;
        s->round = (int64_t)m->version;
        while (s->round < (int64_t)m->version + m->window && *home_count(m, s->round))
            s->round++;
        s->contributors[0].phase = s->round;
    }
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += is_in_round(p, s, &s->contributors[i]);
    int n_in = n;
    if (n_in == s->n)
        return has_other_bytes(h, p, s) ? PL_SUBMIT_OTHER : PL_SUBMIT_DUPLICATE;
    if (is_fenced(p, s)) {
        (void)pl_fail(PL_ERR_STALE,
                      "this lease has ended: the task was given to another worker");
        return s->n == 1 ? PL_SUBMIT_FENCED : PL_SUBMIT_REJECTED;
    }
    if (n_in > 0) {
        (void)pl_fail(PL_ERR_DATA,
                      "this home already has %d of the %d updates in the sum", n_in,
                      s->n);
        return PL_SUBMIT_REJECTED;
    }
    if (misses_its_round(p, s) && judge_late(p, s) == PL_SUBMIT_DROPPED)
        return PL_SUBMIT_DROPPED;
    if (!staging_find(&h->uploads, &s->update) &&
        !pl_store_has_blob(h->store, &s->update))
        return PL_SUBMIT_UNKNOWN_BLOB;
    if (check_round_begun(p, s) != PL_OK || check_base(h, p, s) != PL_OK)
        return PL_SUBMIT_REJECTED;
    pl_status status = check_update(h, p, s);
    if (status == PL_ERR_DEVICE || status == PL_ERR_NOMEM || status == PL_ERR_IO ||
        status == PL_ERR_NOSPACE || status == PL_ERR_OS || status == PL_ERR_FILES)
        p->trouble = status;
    if (status != PL_OK || check_norm(h, p, s) != PL_OK)
        return PL_SUBMIT_REJECTED;
    s->round += p->behind; /* a late update counts in the round that is now open */
    s->contributors[0].phase = s->round;
    return PL_SUBMIT_ACCEPTED;
}

static pl_status accept_contributor(home *h, const place *p, const pl_submit_message *s,
                                    pl_contribution *c)
{
    home_module *module = p->module;
    /* With a quorum the mean is always weighted, because late updates weigh less. If
     * outer.weighted is not set, all updates that are not late then have weight 1. */
    const pl_outer *outer = &p->arm->arm.outer;
    bool counts = p->module->counted && !outer->weighted;
    double weight = counts ? 1 : p->arm->arm.weights[c->path];
    c->weight =
        p->behind > 0 ? weight * pow(outer->late_weight, (double)p->behind) : weight;
    PL_CHECK(pl_txn_put_pending(h->txn, s->module, c));
    *home_flag(p->arm, module, s->round, task_of(p, c)) = true;
    int n = ++*home_count(module, s->round);
    home_note_samples(p->arm, module, c);
    home_note_round(h, p->arm, module, s->round);
    pl_log(PL_LOG_DEBUG, "update.accepted",
           "module=%s worker=%s round=%lld pending=%d/%d", s->module, c->worker,
           (long long)s->round, n, module->n_contributors);
    return PL_OK;
}

/* Checks that the contributor's lease is for the task and the phase of the update.
 * Copies the worker's name, device, key and token from the lease. */
static pl_status check_contributor_lease(home *h, const pl_peer *peer, const place *p,
                                         const pl_submit_message *s, int i)
{
    pl_contribution *c = &s->contributors[i];
    home_lease under;
    PL_CHECK(home_open_lease(h, peer, (pl_bytes){s->leases[i].bytes, s->leases[i].len},
                             &under));
    const pl_lease *l = &under.lease;
    if (under.arm != p->arm || l->path != c->path || l->replica != c->replica)
        return pl_fail(PL_ERR_NOPERM,
                       "the lease of %s does not belong to path %lld replica %lld, "
                       "which the update names",
                       under.arm->paths[under.index].state.name, (long long)c->path,
                       (long long)c->replica);
    int64_t round = pl_round_of(&p->arm->arm, p->arm->topology, p->index, l->phase);
    if (!p->module->cursor && round != s->round)
        return pl_fail(PL_ERR_DATA,
                       "phase %lld of %s does not send an update of %s in round %lld",
                       (long long)l->phase, under.arm->paths[under.index].state.name,
                       s->module, (long long)s->round);
    pl_copy_text(c->worker, sizeof c->worker, l->worker);
    pl_copy_text(c->device, sizeof c->device, l->device);
    c->key = l->key;
    c->token = l->token;
    return home_check_work(&under, &c->work);
}

pl_status home_submit(home *h, const pl_peer *peer, pl_message *m)
{
    pl_status status = PL_OK;
    pl_submit_message s;
    place p = {0};
    char reason[256];
    PL_TRY(pl_submission_read(m, &s));
    PL_TRY(home_find_module(h, s.module, &p.arm, &p.index));
    p.module = &p.arm->modules[p.index];
    for (int i = 0; i < s.n; i++)
        PL_TRY(check_contributor_lease(h, peer, &p, &s, i));
    if (s.n > 1) /* a relay uploads sums without a lease */
        h->uploads.owner = 0;
    pl_submit_result result = judge_submission(h, &p, &s);
    PL_TRY(p.trouble);
    bool refused = result == PL_SUBMIT_REJECTED || result == PL_SUBMIT_FENCED ||
                   result == PL_SUBMIT_DROPPED || result == PL_SUBMIT_OTHER;
    pl_copy_text(reason, sizeof reason, pl_last_error());
    if (result == PL_SUBMIT_REJECTED) {
        /* A refusal writes nothing to the store. The refusal of a sum is logged at a
         * lower level, because the relay will send the parts of the sum. */
        pl_log(s.n > 1 ? PL_LOG_INFO : PL_LOG_WARN, "update.rejected",
               "module=%s worker=%s contributors=%d round=%lld reason=\"%s\"", s.module,
               s.contributors[0].worker, s.n, (long long)s.round, pl_last_error());
    }
    if (result == PL_SUBMIT_ACCEPTED) {
        if (s.n == 1)
            PL_TRY(home_note_likeness(h, p.arm, p.index, s.round, &s.update,
                                      &s.contributors[0]));
        PL_TRY(home_adopt_blob(h, &s.update));
        for (int i = 0; i < s.n; i++)
            PL_TRY(accept_contributor(h, &p, &s, &s.contributors[i]));
    } else if (result != PL_SUBMIT_UNKNOWN_BLOB)
        staging_drop(&h->uploads, &s.update);
    answer_submitted(h, peer, m->request, result, refused ? reason : NULL);
done:
    pl_submission_clear(&s);
    return status;
}

/* ---- the end of a task: inner optimizer state and data cursor ---- */
/* Checks that one phase can have changed the path's totals to these values. */
static pl_status check_sums(const home_lease *under, const pl_path_state *state)
{
    const home_path *path = &under->arm->paths[under->index];
    const pl_work *all = &state->work, *before = &path->state.work;
    pl_work phase = *all;
    phase.first_sample =
        (uint64_t)under->lease.phase * pl_phase_samples(&under->arm->arm);
    if (all->n_samples < phase.first_sample || all->n_tokens < before->n_tokens ||
        !(all->seconds >= before->seconds))
        return pl_fail(PL_ERR_DATA,
                       "the totals of %s fell: %llu samples, %llu tokens and %g s "
                       "came after %llu samples, %llu tokens and %g s",
                       path->state.name, (unsigned long long)all->n_samples,
                       (unsigned long long)all->n_tokens, all->seconds,
                       (unsigned long long)phase.first_sample,
                       (unsigned long long)before->n_tokens, before->seconds);
    phase.n_samples -= phase.first_sample;
    phase.n_tokens -= before->n_tokens;
    phase.seconds -= before->seconds;
    return home_check_work(under, &phase);
}

static bool is_module_in(const home_arm *arm, int module, int index,
                         const pl_path_state *state, bool together)
{
    const home_module *m = &arm->modules[module];
    int64_t round =
        pl_round_of(&arm->arm, arm->topology, module, arm->paths[index].state.phase);
    if (round < 0) /* this phase does not send an update of this module */
        return true;
    /* Another home has this module. The sender waits for that home's answer before it
     * ends the task, unless the message says that all updates were sent together to
     * this home. */
    if (!m->exists)
        return !together;
    if (m->cursor)
        return *home_samples(arm, m, index) >=
               (uint64_t)state->phase * pl_phase_samples(&arm->arm);
    return round < (int64_t)m->version || (round < (int64_t)m->version + m->window &&
                                           *home_flag(arm, m, round, index));
}

/* Returns whether this home has all updates that the phase sends to it. The task may
 * end only when the home has them. */
static bool updates_are_in(const home_arm *arm, int index, const pl_path_state *state,
                           bool together)
{
    int path = index / pl_topology_n_replicas(arm->topology);
    for (int slot = 0; slot < pl_topology_n_slots(arm->topology); slot++)
        if (!is_module_in(arm, pl_topology_module_of_path(arm->topology, slot, path),
                          index, state, together))
            return false;
    return true;
}

/* Refuses a feature that is NaN, or larger than the hidden state of any usable model. A
 * single such feature would make all other documents look the same to the router. */
static pl_status check_features(const pl_path_state *state, const uint8_t *features,
                                uint64_t bytes)
{
    enum { LARGEST = 1000000 };
    float value = 0;
    for (uint64_t at = 0; at < bytes; at += sizeof value) {
        memcpy(&value, features + at, sizeof value);
        if (!(fabsf(value) <= (float)LARGEST))
            return pl_fail(PL_ERR_DATA,
                           "number %llu of the features of %s is %g, but features must "
                           "be from -%d to %d",
                           (unsigned long long)(at / sizeof value), state->name,
                           (double)value, LARGEST, LARGEST);
    }
    return PL_OK;
}

/* Refuses a score that is negative, NaN or infinite. Such a score would end the job
 * later, when a router is fitted to the scores. */
static pl_status check_scores(const pl_path_state *state, const uint8_t *scores,
                              uint64_t bytes)
{
    double nats = 0;
    for (uint64_t at = 0; at < bytes; at += sizeof nats) {
        memcpy(&nats, scores + at, sizeof nats);
        if (!isfinite(nats) || nats < 0)
            return pl_fail(PL_ERR_DATA,
                           "%s scores document %llu with %g nats, but scores must be "
                           "finite and not negative",
                           state->name, (unsigned long long)(at / sizeof nats), nats);
    }
    return PL_OK;
}

/* Refuses a state with impossible values, because no worker could continue from it. */
static pl_status check_values(home *h, const home_arm *of, const pl_path_state *state,
                              uint64_t bytes)
{
    const size_t n_params = pl_topology_path_params(of->topology);
    const staging_blob *u = staging_find(&h->uploads, &state->moments);
    pl_status status = PL_OK;
    void *stored = NULL;
    if (!u) {
        PL_TRY(pl_try_alloc((size_t)bytes, "a path's state", &stored));
        PL_TRY(pl_store_read_blob(h->store, &state->moments, 0, (size_t)bytes, stored));
    }
    const uint8_t *values = u ? u->data : stored;
    PL_TRY(of->arm.feature_windows > 0 ? check_features(state, values, bytes)
           : of->arm.n_scored > 0
               ? check_scores(state, values, bytes)
               : pl_moments_check(&of->arm, of->topology, n_params, values));
done:
    pl_free_aligned(stored);
    return status;
}

static pl_status check_path_state(home *h, const home_arm *arm,
                                  const pl_path_state *state)
{
    uint64_t want =
                 pl_path_state_bytes(&arm->arm, pl_topology_path_params(arm->topology)),
             bytes = 0;
    const staging_blob *u = staging_find(&h->uploads, &state->moments);
    if (u)
        bytes = u->bytes;
    else if (!pl_hash_none(&state->moments))
        PL_CHECK(pl_store_blob_bytes(h->store, &state->moments, &bytes));
    if (bytes != want)
        return pl_fail(PL_ERR_DATA, "the state of %s has %llu bytes instead of %llu",
                       state->name, (unsigned long long)bytes,
                       (unsigned long long)want);
    return bytes == 0 ? PL_OK : check_values(h, arm, state, bytes);
}

/* With store.keep_states, also stores the state as an object. The object stays when the
 * next phase replaces the path's state. */
static pl_status keep_state(home *h, const pl_path_state *state)
{
    char name[PL_MODULE_NAME_MAX];
    if (!h->options->keep_states || pl_hash_none(&state->moments) || state->repeats > 0)
        return PL_OK;
    pl_kept_state_name(state->name, state->phase, name);
    return pl_txn_put_object(h->txn, name, &state->moments);
}

/* Ends a phase: writes the path's state, and an audit if one is drawn, in the same
 * group. The audit is drawn first, while the state is still an upload. */
static pl_status end_phase(home *h, const home_lease *under, const pl_path_state *state)
{
    home_path *path = &under->arm->paths[under->index];
    const bool uploaded = state->repeats == 0 && !pl_hash_none(&state->moments);
    pl_audit audit;
    PL_CHECK(home_draw_audit(h, under, state, &audit));
    PL_CHECK(uploaded ? home_adopt_blob(h, &state->moments) : home_write(h));
    PL_CHECK(home_open_audit(h, &audit));
    PL_CHECK(pl_txn_put_path(h->txn, state));
    PL_CHECK(keep_state(h, state));
    path->state = *state;
    home_tell_path(h, path, under->lease.token);
    return PL_OK;
}

static bool is_there(home *h, const pl_hash *blob)
{
    return pl_hash_none(blob) || staging_find(&h->uploads, blob) ||
           pl_store_has_blob(h->store, blob);
}

/* The state was not uploaded, and need not be (pl_outer.state_every): the path keeps
 * its newest uploaded state, and the hash of the new one. */
static void keep_hash_only(const home_path *path, pl_path_state *state)
{
    state->made = state->moments;
    state->moments = path->state.moments;
    state->repeats = path->state.repeats + 1;
}

pl_status home_submit_path(home *h, const pl_peer *peer, pl_message *m)
{
    pl_msg_submit_path said;
    home_lease under;
    PL_CHECK(PL_HEAR(m, submit_path, &said));
    pl_path_state state = {.phase = said.phase,
                           .work = said.work,
                           .moments = said.blob,
                           .held_phase = said.phase - 1};
    pl_copy_text(state.name, sizeof state.name, said.name);
    PL_CHECK(home_open_lease(h, peer, said.lease, &under));
    home_arm *arm = under.arm;
    int index = under.index;
    home_path *path = &arm->paths[index];
    if (strcmp(path->state.name, state.name) != 0 ||
        state.phase != under.lease.phase + 1)
        return pl_fail(PL_ERR_NOPERM,
                       "the lease of phase %lld of %s was used to end phase %lld of %s",
                       (long long)under.lease.phase, path->state.name,
                       (long long)state.phase - 1, state.name);
    pl_copy_text(state.worker, sizeof state.worker, under.lease.worker);
    if (state.phase <= path->state.phase) {
        staging_drop(&h->uploads, &state.moments);
        answer_submitted(h, peer, m->request, PL_SUBMIT_DUPLICATE, NULL);
        return PL_OK;
    }
    if (under.lease.token < path->fence) {
        staging_drop(&h->uploads, &state.moments);
        answer_submitted(h, peer, m->request, PL_SUBMIT_FENCED,
                         "this lease has ended: the task was given to another worker");
        return PL_OK;
    }
    if (state.phase != path->state.phase + 1 ||
        !updates_are_in(arm, index, &state, said.together != 0)) {
        answer_submitted(h, peer, m->request, PL_SUBMIT_REJECTED,
                         "the task cannot end: some of its updates have not arrived, "
                         "or phases were skipped");
        return PL_OK;
    }
    PL_CHECK(check_sums(&under, &state));
    if (said.work.held == 0) {
        /* the phase did not score, so the previous score stays */
        state.work.held = path->state.work.held;
        state.held_phase = path->state.held_phase;
    }
    if (!is_there(h, &state.moments)) {
        if (pl_phase_uploads(&arm->arm, state.phase)) {
            answer_submitted(h, peer, m->request, PL_SUBMIT_UNKNOWN_BLOB, NULL);
            return PL_OK;
        }
        keep_hash_only(path, &state);
    }
    pl_status status = state.repeats > 0 ? PL_OK : check_path_state(h, arm, &state);
    if (status == PL_ERR_DATA)
        staging_drop(&h->uploads, &state.moments);
    PL_CHECK(status);
    PL_CHECK(end_phase(h, &under, &state));
    answer_submitted(h, peer, m->request, PL_SUBMIT_ACCEPTED, NULL);
    return PL_OK;
}
