/* Handles submissions: checks each submission, makes it durable, then acknowledges it.
 *
 * The key of an update is (module, round, path, replica). Only the first accepted
 * update with a key counts. Every later update with the same key is a duplicate, even
 * after a restart or after the merge of the round. So an update counts exactly once,
 * even if it is sent many times. */
#include "home/home_internal.h"

#include <math.h>

static pl_status answer_with_receipts(home *h, const pl_peer *peer, uint64_t request,
                                      const pl_msg_submitted *said)
{
    pl_message a = {.request = request};
    pl_message_put(&a, PL_MSG_SUBMITTED, pl_fields_of_submitted(), said);
    h->counts.results[said->result]++;
    if (said->result == PL_SUBMIT_REJECTED && said->text)
        pl_copy_text(h->counts.rejection, sizeof h->counts.rejection, said->text);
    home_answer_later(h, peer, &a);
    return PL_OK;
}

static pl_status answer_submitted(home *h, const pl_peer *peer, uint64_t request,
                                  pl_submit_result result, const char *text)
{
    return answer_with_receipts(h, peer, request,
                                &(pl_msg_submitted){.result = result, .text = text});
}

/* The module of an update, and the results of checks of this update. */
typedef struct place {
    home_arm *arm;
    home_module *module;
    int index;        /* index of the module */
    double base_norm; /* norm of the update that made the base */
    /* OK, or a failure of the home itself, not of the update */
    pl_status trouble;
} place;

static int task_of(const place *p, const pl_contribution *c)
{
    return (int)(c->path * pl_topology_n_replicas(p->arm->topology) + c->replica);
}

/* Checks that the bytes of an update can be decoded and that all values are finite.
 * Notes the update's size and norm for each of its contributors. If the update has two
 * vectors, the norm is that of the first vector; the second has its own limit. */
static pl_status check_update(home *h, const place *p, pl_submit_message *s)
{
    pl_codec_message messages[PL_ROUND_VECTORS_MAX];
    double norm = 0, other = 0;
    pl_status status = PL_OK;
    pl_bytes update = {0};
    void *owned = NULL;
    const int n_vectors = p->module->of->n_vectors;
    const pl_codec_round round = pl_round_codec(
        p->module->of, (int)s->contributors[0].path, s->round, p->base_norm);
    /* The length is checked before the bytes are read: a message may name any blob of
     * the store, for example one with all documents of a path. */
    uint64_t bytes;
    PL_TRY(home_blob_bytes(h, &s->update, &bytes));
    const uint64_t most = home_update_bound(p->arm, p->index);
    if (bytes > most)
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "the update of %s names %llu bytes, but at most %llu are "
                       "possible",
                       s->module, (unsigned long long)bytes, (unsigned long long)most));
    PL_TRY(home_lend_blob(h, &s->update, "an update", &update, &owned));
    PL_TRY(pl_codec_split(update.at, update.len, n_vectors, messages));
    for (int v = 0; v < n_vectors; v++) {
        PL_TRY(pl_codec_check_layout(&p->arm->arm.outer.codec, p->arm->topology,
                                     p->index, &round, s->n, &messages[v]));
        PL_TRY(pl_codec_add(messages[v].data, messages[v].bytes, p->module->n_params,
                            1.0f, NULL, v == 0 ? &norm : &other));
    }
    for (int i = 0; i < s->n; i++) {
        s->contributors[i].update_bytes = update.len;
        s->contributors[i].norm = norm;
    }
    PL_TRY(home_check_start(h, p->module, other));
done:
    pl_free(owned);
    return status;
}

/* Checks that the contributors' paths have the module. Refuses sums for methods that
 * cannot use them: noloco, whose mates read each other's updates, and delayed-nesterov,
 * which merges updates one by one. With audits, too, sums are refused: the relay then
 * sends their parts. */
static pl_status check_places(const home *h, const place *p, const pl_submit_message *s)
{
    for (int i = 0; i < s->n; i++)
        if (!pl_topology_path_has(p->arm->topology, (int)s->contributors[i].path,
                                  p->index))
            return pl_fail(PL_ERR_DATA,
                           "an update of %s names path %lld, which does not go through "
                           "this module",
                           s->module, (long long)s->contributors[i].path);
    if (s->n > 1 && h->options->audit > 0)
        return pl_fail(PL_ERR_DATA,
                       "a relay sent a sum of updates of %s, but fleet.audit compares "
                       "each update",
                       s->module);
    if (s->n > 1 && !p->module->of->sums)
        return pl_fail(PL_ERR_DATA,
                       "a relay sent a sum of updates of %s, but updates of %s must "
                       "arrive one by one",
                       s->module, pl_method_name(p->arm->arm.outer.method.method));
    return PL_OK;
}

/* Checks that the round has begun, and from which version the update starts. */
static pl_status check_base(home *h, place *p, const pl_submit_message *s)
{
    const home_module *m = p->module;
    pl_hash params = m->params;
    p->base_norm = m->norm;
    if (s->round >= (int64_t)m->version + m->of->window)
        return pl_fail(PL_ERR_DATA,
                       "an update came for round %lld of %s, which has not begun: the "
                       "module's newest version is %llu",
                       (long long)s->round, s->module, (unsigned long long)m->version);
    if (!pl_round_accepts(m->of, s->round, s->base_version, m->version))
        return pl_fail(
            PL_ERR_DATA,
            "an update of %s in round %lld must be relative to version %llu, "
            "not to %llu; the newest version is %llu",
            s->module, (long long)s->round,
            (unsigned long long)pl_round_base(m->of, s->round),
            (unsigned long long)s->base_version, (unsigned long long)m->version);
    if (s->base_version != m->version) {
        pl_version v;
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

/* Returns whether the store has an update with the same key but different bytes, from
 * another worker that did the same task. The worker that repeats the task must know
 * this; otherwise it would continue from its own result. An update that is no longer in
 * the store was merged long ago, and no task starts from it. Homomorphic updates are
 * not compared: a relay may have added them, and the bytes of a sum differ from those
 * of each update. */
static bool has_other_bytes(home *h, place *p, const pl_submit_message *s)
{
    const home_module *m = p->module;
    const home_phase_set *phases =
        home_phases(p->arm, m, task_of(p, &s->contributors[0]));
    /* With numbers by arrival, only the round of the holder's newest phase is known. */
    home_update taken = {.module = s->module,
                         .round = m->of->by_arrival ? phases->round : s->round,
                         .path = s->contributors[0].path,
                         .replica = s->contributors[0].replica};
    if (m->of->homomorphic)
        return false;
    const pl_status status = home_find_taken(h, p->arm, m, &taken);
    p->trouble = h->broken ? status : PL_OK;
    if (status != PL_OK ||
        taken.found.work.first_sample != s->contributors[0].work.first_sample ||
        pl_hash_equal(&taken.found.update, &s->update))
        return false;
    (void)pl_fail(PL_ERR_DATA,
                  "worker %s has already sent a different update of %s in round %lld; "
                  "that update counts, not this one",
                  taken.found.worker, s->module, (long long)taken.round);
    return true;
}

/* Whether the home has all that this task sends to the module in the round. The task
 * may end only when each home of its modules has it. */
static bool is_update_in(const home_arm *arm, const home_module *m, int index,
                         int64_t round, int64_t phase)
{
    if (m->of->by_arrival)
        return home_phases(arm, m, index)->next > phase;
    return home_has_update(arm, m, round, index);
}

/* Decides whether an update is accepted. Numbers the update's round if rounds are
 * numbered by arrival. The first check that fails decides the result; then
 * pl_last_error gives the reason. A sum is accepted as a whole or not at all; if it is
 * refused, the relay sends its parts one by one. */
static pl_submit_result judge_submission(home *h, place *p, pl_submit_message *s)
{
    const home_module *m = p->module;
    int n_in = 0; /* number of contributors whose update for this phase is here */
    bool is_fenced = false;
    int64_t phase = 0, next = 0; /* the update's, and which its path must send next */
    if (check_places(h, p, s) != PL_OK)
        return PL_SUBMIT_REJECTED;
    if (m->of->by_arrival) {
        s->round = (int64_t)m->version;
        while (s->round < (int64_t)m->version + m->of->window &&
               *home_count(m, s->round))
            s->round++;
        s->contributors[0].phase = s->round;
    }
    for (int i = 0; i < s->n; i++) {
        const pl_contribution *c = &s->contributors[i];
        const int task = task_of(p, c);
        const home_phase_set *phases = home_phases(p->arm, m, task);
        /* A round may have updates of different phases. */
        phase = (int64_t)(c->work.first_sample / pl_phase_samples(&p->arm->arm));
        next = phases && m->of->by_arrival ? phases->next : phase;
        n_in += phases && s->round >= 0 ? home_phase_is_in(phases, phase)
                                        : home_has_update(p->arm, m, s->round, task);
        is_fenced = is_fenced || !home_is_valid(&p->arm->paths[task], c->token);
    }
    if (n_in == s->n)
        return has_other_bytes(h, p, s) ? PL_SUBMIT_OTHER : PL_SUBMIT_DUPLICATE;
    if (is_fenced) {
        (void)pl_fail(PL_ERR_STALE, PL_LEASE_ENDED);
        return s->n == 1 ? PL_SUBMIT_FENCED : PL_SUBMIT_REJECTED;
    }
    if (n_in > 0) {
        (void)pl_fail(PL_ERR_DATA,
                      "this home already has %d of the %d updates in the sum", n_in,
                      s->n);
        return PL_SUBMIT_REJECTED;
    }
    /* each arrival is merged at once, or a phase would be in no version */
    if (phase != next) {
        (void)pl_fail(PL_ERR_STALE,
                      "the update of phase %lld of %s came out of order, so it is "
                      "dropped: next is that of phase %lld",
                      (long long)phase, s->module, (long long)next);
        return PL_SUBMIT_DROPPED;
    }
    if (s->round < (int64_t)m->version) {
        (void)pl_fail(PL_ERR_STALE,
                      "round %lld of %s was merged before this update came "
                      "(outer.quorum), so the update is dropped; the path continues "
                      "from version %llu",
                      (long long)s->round, s->module, (unsigned long long)m->version);
        return PL_SUBMIT_DROPPED;
    }
    if (!staging_find(&h->uploads, &s->update) &&
        !pl_store_has_blob(h->store, &s->update))
        return PL_SUBMIT_UNKNOWN_BLOB;
    if (check_base(h, p, s) != PL_OK)
        return PL_SUBMIT_REJECTED;
    pl_status status = check_update(h, p, s);
    if (status == PL_ERR_DEVICE || status == PL_ERR_NOMEM || status == PL_ERR_IO ||
        status == PL_ERR_NOSPACE || status == PL_ERR_OS || status == PL_ERR_FILES)
        p->trouble = status;
    if (status != PL_OK || home_check_norm(h, p->arm, m, s) != PL_OK)
        return PL_SUBMIT_REJECTED;
    return PL_SUBMIT_ACCEPTED;
}

/* Checks that the contributor's lease is for the task and the phase of the update.
 * Copies the worker's name, device, key and token from the lease. Makes the receipt
 * that the worker gets if its update is here. It is for the round of the lease's phase,
 * because the message may name any round under delayed-nesterov. It is made with the
 * secret of the lease, because another home may not know the newest secret yet. */
static pl_status check_contributor_lease(home *h, const pl_peer *peer, const place *p,
                                         const pl_submit_message *s, int i,
                                         pl_hash *receipt)
{
    pl_contribution *c = &s->contributors[i];
    const pl_submission_proof *proof = &s->proofs[i];
    home_lease under;
    pl_hash seal;
    PL_CHECK(home_open_lease(h, peer, (pl_bytes){proof->lease, proof->len}, &under));
    pl_submission_seal(s, i, &under.key, &seal);
    PL_CHECK(home_check_seal(&under, &seal, proof->seal.bytes));
    const pl_lease *l = &under.lease;
    if (under.arm != p->arm || l->path != c->path || l->replica != c->replica)
        return pl_fail(PL_ERR_NOPERM,
                       "the lease of %s does not belong to path %lld replica %lld, "
                       "which the update names",
                       under.arm->paths[under.index].state.name, (long long)c->path,
                       (long long)c->replica);
    if (!pl_round_has(p->module->of, s->round, l->phase))
        return pl_fail(PL_ERR_DATA,
                       "phase %lld of %s does not send an update of %s in round %lld",
                       (long long)l->phase, under.arm->paths[under.index].state.name,
                       s->module, (long long)s->round);
    pl_copy_text(c->worker, sizeof c->worker, l->worker);
    pl_copy_text(c->device, sizeof c->device, l->device);
    c->key = l->key;
    c->token = l->token;
    PL_CHECK(home_check_work(&under, &c->work));
    pl_lease_receipt(under.secret, l, s->module, pl_round_of(p->module->of, l->phase),
                     receipt);
    return PL_OK;
}

pl_status home_submit(home *h, const pl_peer *peer, pl_message *m)
{
    pl_status status = PL_OK;
    pl_submit_message s;
    pl_hash *receipts = NULL;
    place p = {0};
    char reason[256];
    PL_TRY(pl_submission_read(m, &s));
    PL_TRY(home_check_here(h, s.module));
    PL_TRY(home_find_module(h, s.module, &p.arm, &p.index));
    home_module *module = p.module = &p.arm->modules[p.index];
    receipts = pl_alloc((size_t)s.n * sizeof *receipts);
    for (int i = 0; i < s.n; i++)
        PL_TRY(check_contributor_lease(h, peer, &p, &s, i, &receipts[i]));
    if (s.n > 1) /* a relay uploads sums without a lease */
        h->uploads.owner.token = 0;
    pl_submit_result result = judge_submission(h, &p, &s);
    PL_TRY(p.trouble);
    const bool accepted = result == PL_SUBMIT_ACCEPTED;
    const bool is_known = accepted || result == PL_SUBMIT_DUPLICATE ||
                          result == PL_SUBMIT_DROPPED || result == PL_SUBMIT_OTHER;
    pl_copy_text(reason, sizeof reason, pl_last_error());
    if (result == PL_SUBMIT_REJECTED && pl_log_may(peer->own)) {
        /* A refusal writes nothing to the store. The refusal of a sum is logged at a
         * lower level, because the relay will send the parts of the sum. */
        pl_log(s.n > 1 ? PL_LOG_INFO : PL_LOG_WARN, "update.rejected",
               "module=%s worker=%s contributors=%d round=%lld reason=\"%s\"", s.module,
               s.contributors[0].worker, s.n, (long long)s.round, pl_last_error());
    }
    if (accepted)
        PL_TRY(home_adopt_blob(h, &s.update));
    else if (result != PL_SUBMIT_UNKNOWN_BLOB)
        staging_drop(&h->uploads, &s.update);
    for (int i = 0; accepted && i < s.n; i++) {
        pl_contribution *c = &s.contributors[i];
        c->weight = pl_round_record_weight(module->of, (int)c->path);
        PL_TRY(pl_txn_put_pending(h->txn, s.module, c));
        *home_flag(p.arm, module, s.round, task_of(&p, c)) = true;
        int n = ++*home_count(module, s.round);
        home_note_phase(p.arm, module, c);
        home_note_round(h, p.arm, module, s.round);
        pl_log(PL_LOG_DEBUG, "update.accepted",
               "module=%s worker=%s round=%lld pending=%d/%d", s.module, c->worker,
               (long long)s.round, n, module->of->n_contributors);
    }
    /* makes zeros of the receipts of those contributors whose update is not here */
    for (int i = 0; is_known && i < s.n; i++) {
        const pl_contribution *c = &s.contributors[i];
        const int64_t phase =
            (int64_t)(c->work.first_sample / pl_phase_samples(&p.arm->arm));
        if (!is_update_in(p.arm, module, task_of(&p, c), pl_round_of(module->of, phase),
                          phase))
            memset(&receipts[i], 0, sizeof receipts[i]);
    }
    const pl_msg_submitted said = {.result = result,
                                   .text = result >= PL_SUBMIT_FENCED ? reason : NULL,
                                   .receipt = PL_ITEMS(receipts, is_known ? s.n : 0)};
    status = answer_with_receipts(h, peer, m->request, &said);
done:
    pl_free(receipts);
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

/* Returns whether the homes have all updates that the phase sends. This home knows of
 * its own modules; for the others the message must have their homes' receipts, in the
 * order of the slots. */
static bool updates_are_in(const home *h, const home_lease *under, const pl_message *m)
{
    const home_arm *arm = under->arm;
    const int64_t phase = under->lease.phase;
    size_t n_receipts = 0;
    pl_reader r;
    pl_reader_open(&r, "SUBMIT_PATH", m->body.data, m->body.len);
    for (int slot = 0; slot < pl_topology_n_slots(arm->topology); slot++) {
        const home_module *at = &arm->modules[pl_topology_module_of_path(
            arm->topology, slot, (int)under->lease.path)];
        const int64_t round = pl_round_of(at->of, phase);
        if (round < 0) /* this phase does not send an update of this module */
            continue;
        pl_hash receipt = {{0}};
        if (!at->exists)
            receipt = pl_get_hash(&r, PL_TAG_RECEIPT, n_receipts++);
        if (at->exists ? !is_update_in(arm, at, under->index, round, phase)
                       : !home_is_receipt(h, at->name, round, under, &receipt))
            return false;
    }
    return true;
}

static bool is_uploaded(const pl_path_state *state)
{
    return state->repeats == 0 && !pl_hash_none(&state->moments);
}

pl_status home_end_phase(home *h, home_arm *arm, int index, const pl_path_state *state)
{
    home_path *path = &arm->paths[index];
    PL_CHECK(home_write(h));
    PL_CHECK(pl_txn_put_path(h->txn, state));
    if ((h->options->keep_states || pl_phase_stays(&arm->arm, state->phase)) &&
        is_uploaded(state)) {
        /* this object stays when the next phase replaces the path's state */
        char name[PL_MODULE_NAME_MAX];
        pl_kept_state_name(state->name, state->phase, name);
        PL_CHECK(pl_txn_put_object(h->txn, name, &state->moments));
    }
    path->state = *state;
    home_tell_path(h, path);
    return PL_OK;
}

pl_status home_submit_path(home *h, const pl_peer *peer, pl_message *m)
{
    pl_msg_submit_path said;
    home_lease under;
    pl_hash seal;
    PL_CHECK(PL_HEAR(m, submit_path, &said));
    PL_CHECK(home_check_here(h, said.name));
    pl_path_state state = {
        .phase = said.phase, .work = said.work, .moments = said.blob};
    pl_copy_text(state.name, sizeof state.name, said.name);
    PL_CHECK(home_open_lease(h, peer, said.lease, &under));
    pl_lease_sign(&under.key, PL_MSG_SUBMIT_PATH, pl_fields_of_submit_path(), &said,
                  &seal);
    PL_CHECK(home_check_seal(&under, &seal, said.seal));
    home_arm *arm = under.arm;
    home_path *path = &arm->paths[under.index];
    if (strcmp(path->state.name, state.name) != 0 ||
        state.phase != under.lease.phase + 1)
        return pl_fail(PL_ERR_NOPERM,
                       "the lease of phase %lld of %s was used to end phase %lld of %s",
                       (long long)under.lease.phase, path->state.name,
                       (long long)state.phase - 1, state.name);
    pl_copy_text(state.worker, sizeof state.worker, under.lease.worker);
    state.key = under.lease.key;
    const pl_path_state *waits = home_in_audit(h, state.name);
    /* Whether the phase counts or waits for its audit makes no difference here:
     * otherwise the answer would tell what was drawn. */
    const pl_path_state *known =
        waits && state.phase == waits->phase ? waits : &path->state;
    if (state.phase <= known->phase) {
        /* a state that was dropped, or that an earlier phase had, cannot be compared */
        const pl_hash *have = known->repeats > 0 ? &known->made : &known->moments;
        const bool other = known->phase == state.phase && known->worker[0] &&
                           !pl_hash_equal(have, &state.moments);
        if (other)
            (void)pl_fail(PL_ERR_DATA,
                          "worker %s has already sent a different state of %s after "
                          "%lld phases; that state counts, not this one",
                          known->worker, known->name, (long long)known->phase);
        staging_drop(&h->uploads, &state.moments);
        return answer_submitted(h, peer, m->request,
                                other ? PL_SUBMIT_OTHER : PL_SUBMIT_DUPLICATE,
                                other ? pl_last_error() : NULL);
    }
    if (under.is_ended) {
        staging_drop(&h->uploads, &state.moments);
        return answer_submitted(h, peer, m->request, PL_SUBMIT_FENCED, PL_LEASE_ENDED);
    }
    if (waits)
        return pl_fail(
            PL_ERR_BUSY,
            "phase %lld of %s waits for its audit, so phase %lld cannot end yet",
            (long long)waits->phase - 1, state.name, (long long)state.phase - 1);
    if (state.phase != path->state.phase + 1 || !updates_are_in(h, &under, m))
        return answer_submitted(
            h, peer, m->request, PL_SUBMIT_REJECTED,
            "the task cannot end: some of its updates or their homes' "
            "receipts have not arrived, or phases were skipped");
    PL_CHECK(check_sums(&under, &state));
    state.held_phase = under.lease.phase;
    if (said.work.held == 0) {
        /* the phase did not score, so the previous score stays */
        state.work.held = path->state.work.held;
        state.held_phase = path->state.held_phase;
    }
    if (!pl_hash_none(&state.moments) && !staging_find(&h->uploads, &state.moments) &&
        !pl_store_has_blob(h->store, &state.moments)) {
        if (pl_phase_uploads(&arm->arm, state.phase))
            return answer_submitted(h, peer, m->request, PL_SUBMIT_UNKNOWN_BLOB, NULL);
        /* the path keeps its newest uploaded state, and the hash of the new one */
        state.made = state.moments;
        state.moments = path->state.moments;
        state.repeats = path->state.repeats + 1;
    }
    pl_status status =
        state.repeats > 0 ? PL_OK : home_check_state(h, arm, under.index, &state);
    if (status == PL_ERR_DATA)
        staging_drop(&h->uploads, &state.moments);
    PL_CHECK(status);
    /* Ends a task: its path's next state counts at once, or after an audit. The audit
     * is drawn last, when nothing can change the results any more. */
    if (is_uploaded(&state))
        PL_CHECK(home_adopt_blob(h, &state.moments));
    const pl_lease *l = &under.lease;
    const bool drawn =
        pl_draw_has(&h->draw, &arm->arm, (int)l->path, (int)l->replica, l->phase);
    PL_CHECK(drawn ? home_open_audit(h, &under, &state)
                   : home_end_phase(h, arm, under.index, &state));
    return answer_submitted(h, peer, m->request, PL_SUBMIT_ACCEPTED, NULL);
}
