/* The home's loop: handle a group of messages, commit their changes, answer, then
 * merge.
 *
 * Purpose. A home is the only process that writes to its store. Workers, the hub and
 * clients send it messages; it checks them, makes them durable, and answers. When a
 * round of a module has all the updates that it needs, the home makes the module's next
 * version.
 *
 * One turn of the loop (serve_home):
 *
 *   poll --> up to 128 messages, each through home_take:
 *     |        it would write to the store, and
 *     |        home_is_still() is true                 waits in memory (home_still.c)
 *     |        a read, or a piece of an upload         answered at once
 *     |        anything else                           changes h->txn and the memory;
 *     |                                                its answer joins the queue
 *     +-> home_end_group: commit h->txn, then send the queued answers and events
 *     +-> home_merge_ready: outer steps of complete rounds, committed in the same way
 *     +-> tidy: after 20 ms without a message, or after 5 s, compress some old versions
 *
 * The group of a turn:
 *
 *           home_write             commit succeeds
 *   empty ------------> open ---------------------------> answered --> empty
 *                         |  commit fails
 *                         +----------------> broken: the home ends
 *
 * An update on its way through a home:
 *
 *   PUT_BLOB          SUBMIT           its round is complete
 *   --------> staged --------> pending ----------------------> merged
 *
 *   staged    the bytes are in memory, and are dropped if no SUBMIT names them
 *   pending   a row in the store and a flag in memory
 *   merged    a part of version r + 1
 *
 * One commit makes the update pending; a later commit makes it merged. The sender gets
 * an acknowledgement after the first of these commits.
 *
 * Invariants
 *   - No acknowledgement and no event leaves before the change that it reports is
 *     committed. The answer to the hub's GET_STATE waits for the commit, too, because
 *     the answer is written from memory.
 *   - Within a group memory is ahead of the disk. If the commit fails, memory and disk
 *     differ, so the home marks itself broken and ends; its next process reads the
 *     store again.
 *   - If a message is wrong, its peer gets an error as the answer, and the home
 *     continues. A failure of the disk or of this program ends the home (home_take).
 *   - A peer may repeat every message. Data that the store already has are acknowledged
 *     again, but not written again.
 *   - While the home is still (so that a client can read all homes as they are at one
 *     moment), it writes nothing: it does not merge or compress, and messages that
 *     would write to the store wait.
 *
 * Ownership. The struct `home` (home_internal.h) owns everything that it points to,
 * except the options. One thread does everything. The arms, modules and paths in memory
 * are what home_state.c read from the store plus what the current group adds.
 *
 * Files: home_submit.c decides whether an update is accepted, home_merge.c makes
 * versions, home_state.c fills the home's memory and reports it to the hub,
 * home_quota.c limits the store. home.h lists the others. */
#include "home/home_internal.h"

#include <math.h>

enum {
    GROUP_MAX = 128,
    TICK_MS = 500,
    HOLD_TICK_MS = 10,
    LONG_TURN_MS = 1000,
    CHARGED_MAX_S = 2,
    TTL_MAX_MS = 3600 * 1000
};

pl_status home_write(home *h)
{
    return h->txn ? PL_OK : pl_txn_begin(h->store, &h->txn);
}

void home_answer_later(home *h, const pl_peer *peer, pl_message *message)
{
    h->answers =
        pl_grow_items(h->answers, h->n_answers, h->n_answers + 1, sizeof *h->answers);
    h->answers[h->n_answers++] = (home_letter){*peer, *message};
    memset(message, 0, sizeof *message);
}

pl_status home_answer_now(home *h, const pl_peer *peer, pl_message *message)
{
    pl_status status = pl_wire_give_to(h->socket, peer, message);
    return status == PL_ERR_NET ? PL_OK : status;
}

home_arm *home_find_arm(home *h, const char *name, size_t len)
{
    for (int a = 0; a < h->n_arms; a++)
        if (strlen(h->arms[a].arm.name) == len &&
            memcmp(h->arms[a].arm.name, name, len) == 0)
            return &h->arms[a];
    return NULL;
}

static home_arm *arm_of_name(home *h, const char *name)
{
    const char *slash = strchr(name, '/');
    return slash ? home_find_arm(h, name, (size_t)(slash - name)) : NULL;
}

pl_status home_find_module(home *h, const char *name, home_arm **arm, int *module)
{
    *arm = arm_of_name(h, name);
    *module =
        *arm ? pl_topology_find_module((*arm)->topology, strchr(name, '/') + 1) : -1;
    /* rows, flags and counts go by the name, so only one spelling is known here */
    if (*module < 0 || strcmp((*arm)->contracts[*module].name, name) != 0)
        return pl_fail(PL_ERR_NOT_FOUND, "this home has no module %s", name);
    return PL_OK;
}

pl_status home_find_path(home *h, const char *name, home_arm **arm, int *index)
{
    *arm = arm_of_name(h, name);
    for (*index = 0; *arm && *index < home_n_tasks(*arm); (*index)++)
        if (strcmp((*arm)->paths[*index].state.name, name) == 0)
            return PL_OK;
    return pl_fail(PL_ERR_NOT_FOUND, "this home has no path %s", name);
}

/* ---- questions; most are answered at once (is_read) ---- */
/* A piece of an old version takes ten times the usual processor time, because it is
 * stored as a difference from others. A key that asked for nothing else would leave no
 * time for the other keys, so it pays for what goes beyond the usual time. */
static pl_status on_get_blob(home *h, const pl_peer *peer, pl_message *m, pl_message *a)
{
    const double usual_s = 1e-3, usual_s_per_byte = 3e-9, began = pl_thread_s();
    pl_msg_get_blob q;
    uint64_t total = 0;
    PL_CHECK(PL_HEAR(m, get_blob, &q));
    PL_CHECK(pl_store_blob_bytes(h->store, &q.blob, &total));
    const bool signs = q.direct && pl_store_signs(h->store);
    if (signs && total >= PL_DIRECT_MIN &&
        pl_store_sign_blob(h->store, &q.blob, q.offset, &a->data) == PL_OK) {
        PL_SAY(a, BLOB, blob, .total = total, .direct = 1);
        return PL_OK;
    }
    pl_buf_clear(&a->data);
    size_t len = pl_piece_bytes(&q, total);
    pl_buf_reserve(&a->data, len);
    if (len > 0)
        PL_CHECK(pl_store_copy_blob(h->store, &q.blob, q.offset, len, a->data.data));
    a->data.len = len;
    const double beyond_s =
        pl_thread_s() - began - usual_s - usual_s_per_byte * (double)len;
    pl_wire_charge(h->socket, peer, fmax(0, beyond_s));
    PL_SAY(a, BLOB, blob, .total = total, .direct = signs ? 2 : 0);
    return PL_OK;
}

static pl_status on_get_version(home *h, pl_message *m, pl_message *a)
{
    pl_msg_get_version q;
    pl_version v = {0};
    PL_CHECK(PL_HEAR(m, get_version, &q));
    PL_CHECK(q.version == PL_NEWEST
                 ? pl_store_head(h->store, q.name, &v)
                 : pl_store_get_version(h->store, q.name, (uint64_t)q.version, &v));
    const pl_hash gone = {{0}};
    PL_SAY(a, VERSION_IS, version_is, .version = (int64_t)v.number, .base = v.parent,
           .blob = v.params_gone ? gone : v.params, .norm = v.update_norm,
           .momentum = v.momentum, .change = v.change);
    pl_version_clear(&v);
    return PL_OK;
}

static pl_status match_update(void *context, const char *module,
                              const pl_contribution *c)
{
    home_update *s = context;
    if (strcmp(module, s->module) == 0 && c->phase == s->round && c->path == s->path &&
        c->replica == s->replica)
        s->found = *c;
    return PL_OK;
}

/* Searches for the update among the pending updates and in the version that its round
 * made. ERR_NOT_FOUND: the update is in neither. */
static pl_status find_update(home *h, home_update *s)
{
    pl_version v = {0};
    PL_CHECK(pl_store_each_pending(h->store, s->module, match_update, s));
    if (pl_hash_none(&s->found.update) &&
        pl_store_get_version(h->store, s->module, (uint64_t)s->round + 1, &v) == PL_OK)
        for (int i = 0; i < v.n_contributions; i++)
            (void)match_update(s, s->module, &v.contributions[i]);
    pl_version_clear(&v);
    if (pl_hash_none(&s->found.update))
        return pl_fail(
            PL_ERR_NOT_FOUND,
            "the home has no update of path %lld replica %lld for %s in round %lld",
            (long long)s->path, (long long)s->replica, s->module, (long long)s->round);
    return PL_OK;
}

pl_status home_find_taken(home *h, const home_arm *arm, const home_module *m,
                          home_update *s)
{
    const int index =
        (int)(s->path * pl_topology_n_replicas(arm->topology) + s->replica);
    const pl_status status = find_update(h, s);
    if (status != PL_ERR_NOT_FOUND || !h->txn || s->round < (int64_t)m->version ||
        !home_has_update(arm, m, s->round, index))
        return status;
    PL_CHECK(home_commit(h));
    return find_update(h, s);
}

/* Answers the hub, for audits; and workers of an arm whose mates need each other's
 * updates. Other workers could copy what they should repeat. */
static pl_status on_get_update(home *h, const pl_peer *peer, pl_message *m,
                               pl_message *a)
{
    pl_msg_get_update q;
    home_arm *arm = NULL;
    int module = 0;
    PL_CHECK(PL_HEAR(m, get_update, &q));
    PL_CHECK(home_find_module(h, q.name, &arm, &module));
    if ((peer->role == PL_AS_WORKER || peer->role == PL_AS_RELAY) &&
        !arm->contracts[module].meets)
        return pl_fail(PL_ERR_NOPERM,
                       "workers may ask for updates only under noloco, not for %s",
                       q.name);
    home_update s = {
        .module = q.name, .path = q.path, .replica = q.replica, .round = q.phase};
    PL_CHECK(find_update(h, &s));
    const pl_contribution *c = &s.found;
    PL_SAY(a, UPDATE_IS, update_is, .name = c->worker, .device = c->device,
           .key = pl_pubkey_none(&c->key) ? NULL : c->key.bytes, .blob = c->update);
    return PL_OK;
}

static pl_status on_get_path(home *h, pl_message *m, pl_message *a)
{
    pl_msg_get_path q;
    pl_path_state state = {0};
    PL_CHECK(PL_HEAR(m, get_path, &q));
    pl_status status = pl_store_get_path(h->store, q.name, &state);
    if (status != PL_OK && status != PL_ERR_NOT_FOUND)
        /* a path that has not begun is described as phase 0 without moments */
        return status;
    PL_SAY(a, PATH_IS, path_is, .phase = state.phase, .blob = state.moments,
           .work = state.work, .worker = state.worker[0] ? state.worker : NULL,
           .repeats = state.repeats, .made = state.made);
    return PL_OK;
}

static pl_status on_get_object(home *h, pl_message *m, pl_message *a)
{
    pl_msg_get_object q;
    pl_object object;
    PL_CHECK(PL_HEAR(m, get_object, &q));
    PL_CHECK(pl_store_get_object(h->store, q.name, &object));
    PL_SAY(a, OBJECT_IS, object_is, .blob = object.blob);
    return PL_OK;
}

/* Puts the next piece into the answer. The peer has the bytes before `offset`. */
static pl_status on_get_state(home *h, const pl_peer *peer, pl_message *m,
                              pl_message *a)
{
    pl_msg_get_state q;
    PL_CHECK(PL_HEAR(m, get_state, &q));
    h->hub = *peer;
    if (q.offset == 0)
        home_snapshot(h, &h->state);
    a->type = PL_MSG_STATE_IS;
    if (q.offset > h->state.len)
        return pl_fail(PL_ERR_PROTO,
                       "a message asks for a piece of the state that begins after its "
                       "end (%zu bytes)",
                       h->state.len);
    size_t left = h->state.len - (size_t)q.offset;
    pl_put_fields(&a->body, pl_fields_of_piece(),
                  &(pl_msg_piece){.total = h->state.len,
                                  .offset = q.offset,
                                  .sequence = pl_store_sequence(h->store)});
    if (left > 0)
        pl_buf_append(&a->data, h->state.data + q.offset,
                      left < PL_WIRE_DATA_MAX ? left : PL_WIRE_DATA_MAX);
    return PL_OK;
}

/* Fences a path. If the message names a phase, and the path's state was made by this
 * phase, the state is dropped, too: the next worker then trains the path's next phase
 * without the moments and other vectors that a state has. With AUDIT, an audit found
 * the results of the phase to be wrong, or could not tell: they are dropped. */
static pl_status on_fence(home *h, pl_message *m)
{
    pl_msg_fence q;
    home_arm *arm = NULL;
    int index = 0;
    PL_CHECK(PL_HEAR(m, fence, &q));
    PL_CHECK(home_find_path(h, q.name, &arm, &index));
    if (q.phase < 0)
        return pl_fail(PL_ERR_PROTO, "a FENCE of %s names phase %lld", q.name,
                       (long long)q.phase);
    home_path *path = &arm->paths[index];
    /* an update counts in a merge when its task is finished */
    if (q.confirmed > path->confirmed)
        path->confirmed = q.confirmed;
    if (m->token < path->fence) /* a newer FENCE has overtaken this one */
        return q.audit ? pl_fail(PL_ERR_BUSY, "%s was fenced again since", q.name)
                       : PL_OK;
    /* A token that was not valid any more does not become valid again. */
    pl_reader r;
    uint64_t valid[2] = {0};
    pl_reader_open(&r, "FENCE", m->body.data, m->body.len);
    for (size_t i = 0; i < 2 && i < q.token.n; i++) {
        const uint64_t token = pl_get_u64(&r, PL_TAG_TOKEN, i);
        if (token > path->fence || home_is_valid(path, token))
            valid[i] = token;
    }
    PL_CHECK(pl_reader_status(&r));
    memcpy(path->valid, valid, sizeof valid);
    path->fence = m->token;
    if (q.audit) {
        PL_CHECK(home_commit(h)); /* updates of this group are dropped, too */
        return home_drop_results(h, arm, index, q.phase, m->token);
    }
    pl_path_state state = path->state;
    if (q.phase == 0)
        return PL_OK;
    /* A repetition begins without the state, so it could not make what was trained from
     * the state: an audit would find a lie where there is none. (The hub does not
     * repeat this to a home that does not have the path and was away.) */
    if (home_audits(h, arm)) {
        PL_CHECK(home_commit(h));
        PL_CHECK(home_drop_results(h, arm, index, q.phase, m->token));
    }
    if (state.phase != q.phase)
        return PL_OK;
    pl_log(PL_LOG_WARN, "state.dropped", "task=%s phase=%lld worker=%s", state.name,
           (long long)state.phase, state.worker);
    memset(&state.moments, 0, sizeof state.moments);
    memset(&state.made, 0, sizeof state.made);
    state.repeats = 0;
    state.worker[0] = '\0';
    memset(&state.key, 0, sizeof state.key);
    PL_CHECK(home_write(h));
    PL_CHECK(pl_txn_put_path(h->txn, &state));
    path->state = state;
    home_tell_path(h, path);
    return PL_OK;
}

/* ---- small writes; answered after the commit ---- */
static pl_status on_put_object(home *h, pl_message *m)
{
    pl_msg_put_object q;
    pl_object old;
    PL_CHECK(PL_HEAR(m, put_object, &q));
    pl_status status = pl_store_get_object(h->store, q.name, &old);
    const bool exists = status == PL_OK;
    const bool same = exists && pl_hash_equal(&old.blob, &q.blob);
    if (!exists && status != PL_ERR_NOT_FOUND)
        return status;
    if (!pl_starts_with(q.name, "arm/")) {
        if (same)
            return PL_OK;
        PL_CHECK(home_note_object(h, q.name, &q.blob));
        PL_CHECK(home_adopt_blob(h, &q.blob));
        return pl_txn_put_object(h->txn, q.name, &q.blob);
    }
    /* The definition of an arm cannot be changed later, so it is checked before it is
     * stored. home_install_arm is called after the commit, because it reads the arm's
     * modules from the store. */
    home_arm arm;
    const char *bare = q.name + strlen("arm/");
    if (exists && !same)
        return pl_fail(PL_ERR_EXISTS,
                       "%s is defined already, with a different definition", q.name);
    if (home_find_arm(h, bare, strlen(bare)))
        return PL_OK;
    PL_CHECK(home_read_arm(h, q.name, &q.blob, &arm));
    if (!same) {
        PL_CHECK(home_adopt_blob(h, &q.blob));
        PL_CHECK(pl_txn_put_object(h->txn, q.name, &q.blob));
    }
    PL_CHECK(home_commit(h));
    PL_CHECK(pl_failpoint("home.arm.after"));
    PL_CHECK(home_install_arm(h, &arm));
    pl_message event = {0};
    const home_arm *installed = &h->arms[h->n_arms - 1];
    PL_SAY(&event, EVENT, arm_record, .arm = installed->arm.name,
           .arm_blob = installed->blob);
    home_tell(h, &event);
    return PL_OK;
}

static pl_status on_put_ref(home *h, pl_message *m)
{
    pl_msg_put_ref q;
    PL_CHECK(PL_HEAR(m, put_ref, &q));
    if (pl_starts_with(q.name, "sys/") || pl_starts_with(q.name, "at/") ||
        pl_starts_with(q.name, PL_MEET_REFS) || pl_starts_with(q.name, PL_AUDIT_REFS) ||
        pl_starts_with(q.name, PL_FENCED_REFS) ||
        pl_starts_with(q.name, PL_DROPPED_REFS) || pl_starts_with(q.name, PL_DRAW_REFS))
        return pl_fail(PL_ERR_NOPERM,
                       "the home keeps names below sys/, at/, meet/, audit/, draw/, "
                       "dropped/ and fenced/ for itself, so %s is refused; choose a "
                       "different name",
                       q.name);
    PL_CHECK(home_write(h));
    return pl_txn_put_ref(h->txn, q.name, q.text);
}

/* Makes version 0 of a module, before the launcher announces the arm. */
static pl_status on_create_module(home *h, pl_message *m)
{
    pl_msg_create_module q;
    pl_version v = {0}, head = {0};
    uint64_t bytes = 0;
    PL_CHECK(PL_HEAR(m, create_module, &q));
    pl_copy_text(v.module, sizeof v.module, q.name);
    v.config = q.base;
    v.params = q.blob;
    pl_status status = pl_store_get_version(h->store, v.module, 0, &head);
    if (status == PL_OK) {
        bool same = pl_hash_equal(&head.params, &v.params);
        pl_version_clear(&head);
        return same
                   ? PL_OK
                   : pl_fail(
                         PL_ERR_EXISTS,
                         "module %s has a version 0 already, with different parameters",
                         v.module);
    }
    if (status != PL_ERR_NOT_FOUND)
        return status;
    PL_CHECK(home_blob_bytes(h, &v.params, &bytes));
    PL_CHECK(home_adopt_blob(h, &v.params));
    pl_copy_text(v.method, sizeof v.method, "init");
    v.n_params = bytes / sizeof(float);
    v.wall_ms = pl_wall_ms();
    pl_keep keep = {.updates = true, .momentum = true};
    return pl_txn_put_version(h->txn, &v, keep);
}

/* A hub that was replaced may contradict the newer one. Tokens do not show its age,
 * because a hub takes up leases of the previous hub. */
static pl_status refuse_hub(const home *h, uint64_t epoch)
{
    return pl_fail(PL_ERR_STALE,
                   "this hub was replaced by a newer hub of this job (epoch %llu, now "
                   "%llu)",
                   (unsigned long long)epoch, (unsigned long long)h->hub_epoch);
}

static pl_status on_hello(home *h, const pl_peer *peer, pl_message *m, pl_message *a)
{
    pl_msg_hello_home q;
    char text[32];
    PL_CHECK(PL_HEAR(m, hello_home, &q));
    const uint64_t epoch = (uint64_t)q.version;
    bool is_hub = strcmp(q.role, "hub") == 0;
    if (is_hub && peer->role != PL_AS_LOCAL && peer->role != PL_AS_HUB)
        return pl_fail(PL_ERR_NOPERM, "a HELLO of a hub came with a key that is not a "
                                      "hub's; start the hub with its own key");
    if (is_hub && !q.secret)
        return pl_fail(PL_ERR_PROTO, "the HELLO of a hub has no secret for leases");
    if (q.homes > PL_HOMES_MAX)
        return pl_fail(PL_ERR_PROTO, "a hub has %llu homes; the limit is %d",
                       (unsigned long long)q.homes, PL_HOMES_MAX);
    const bool is_old = is_hub && h->n_secrets == 2 &&
                        memcmp(h->secrets[1].bytes, q.secret, PL_HASH_BYTES) == 0;
    /* Two hubs must not have the same epoch, even if the first home has an older copy
     * of its store than this one. */
    const bool is_other = is_hub && h->n_secrets > 0 && epoch != 0 &&
                          memcmp(h->secrets[0].bytes, q.secret, PL_HASH_BYTES) != 0;
    if (is_old || (is_other && epoch <= h->hub_epoch))
        return refuse_hub(h, epoch);
    /* The hub has told an earlier process of this home which leases are valid. This one
     * must know it before it can open a lease. */
    const bool is_mistaken = q.sequence != 0 && q.sequence != h->epoch;
    if (is_hub && !is_mistaken) {
        const bool is_taken = h->n_secrets == 0 ||
                              memcmp(h->secrets[0].bytes, q.secret, PL_HASH_BYTES) != 0;
        if (is_taken) { /* the secret of the previous hub stays good for ttl_ms */
            h->secrets[1] = h->secrets[0];
            memcpy(h->secrets[0].bytes, q.secret, PL_HASH_BYTES);
            h->n_secrets = h->n_secrets > 0 ? 2 : 1;
            h->old_until_ms =
                pl_now_ms() + (int64_t)(q.ttl_ms < TTL_MAX_MS ? q.ttl_ms : TTL_MAX_MS);
        }
        /* a hub that has just started has no epoch yet */
        const bool is_new = is_taken && epoch == 0;
        h->hub_epoch = epoch > h->hub_epoch ? epoch : h->hub_epoch + is_new;
        h->number = q.home;
        h->n_homes = q.homes;
        snprintf(text, sizeof text, "%llu", (unsigned long long)h->hub_epoch);
        PL_CHECK(home_write(h));
        PL_CHECK(pl_txn_put_ref(h->txn, "sys/hub-epoch", text));
    }
    /* with it the hub knows the leases that the previous hub has granted */
    PL_SAY(a, WELCOME, welcome_home,
           .secret = is_hub && h->n_secrets == 2 ? h->secrets[1].bytes : NULL,
           .version = (int64_t)h->hub_epoch);
    return PL_OK;
}

static pl_status answer_question(home *h, const pl_peer *peer, pl_message *m,
                                 pl_message *a)
{
    const bool is_order = m->type == PL_MSG_FENCE || m->type == PL_MSG_PUT_AUDIT;
    if (is_order && m->epoch < h->hub_epoch)
        return refuse_hub(h, m->epoch);
    switch (m->type) {
    case PL_MSG_HELLO:
        return on_hello(h, peer, m, a);
    case PL_MSG_GET_BLOB:
        return on_get_blob(h, peer, m, a);
    case PL_MSG_PUT_BLOB:
        return home_put_blob(h, peer, m, a);
    case PL_MSG_GET_VERSION:
        return on_get_version(h, m, a);
    case PL_MSG_GET_UPDATE:
        return on_get_update(h, peer, m, a);
    case PL_MSG_GET_PATH:
        return on_get_path(h, m, a);
    case PL_MSG_GET_OBJECT:
        return on_get_object(h, m, a);
    case PL_MSG_GET_STATE:
        return on_get_state(h, peer, m, a);
    case PL_MSG_FENCE:
        return on_fence(h, m);
    case PL_MSG_PUT_AUDIT:
        return home_put_audit(h, m);
    case PL_MSG_FENCE_WORKER:
        return home_fence_worker(h, m);
    case PL_MSG_PUT_OBJECT:
        return on_put_object(h, m);
    case PL_MSG_PUT_REF:
        return on_put_ref(h, m);
    case PL_MSG_MEET:
        return home_meet(h, peer, m, a);
    case PL_MSG_CREATE_MODULE:
        return on_create_module(h, m);
    case PL_MSG_HOLD:
        return home_hold(h, m, a);
    case PL_MSG_STATUS:
        home_status_json(h, &a->data);
        a->type = PL_MSG_STATUS_IS;
        return PL_OK;
    case PL_MSG_STOP:
        h->stopping = true;
        return PL_OK;
    default:
        return pl_fail(PL_ERR_PROTO, "a home does not understand message type %u",
                       m->type);
    }
}

/* Proves the answer to a question under a lease, so that no relay can change it. The
 * worker may read on while the hub after a restart has not sealed its lease anew. */
static pl_status prove_answer(const home *h, const pl_message *m, pl_message *a)
{
    home_lease under;
    pl_reader r;
    pl_bytes sealed = {0};
    if (!pl_lease_covers(m->type))
        return PL_OK;
    pl_reader_open(&r, "a question", m->body.data, m->body.len);
    if (pl_field_count(&r, PL_TAG_LEASE) == 0)
        return PL_OK;
    sealed.at = pl_get_bytes(&r, PL_TAG_LEASE, 0, &sealed.len);
    PL_CHECK(home_open_seal(h, h->n_secrets, sealed, &under));
    pl_lease_sign_answer(&under.key, m, a);
    return PL_OK;
}

static bool is_read(uint16_t type)
{
    return type == PL_MSG_GET_BLOB || type == PL_MSG_GET_VERSION ||
           type == PL_MSG_GET_PATH || type == PL_MSG_GET_UPDATE ||
           type == PL_MSG_GET_OBJECT || type == PL_MSG_PUT_BLOB ||
           type == PL_MSG_STATUS;
}

pl_status home_take(home *h, const pl_peer *peer, pl_message *m)
{
    pl_message a = {.type = PL_MSG_OK};
    pl_status status;
    /* until the message's lease has been read, its uploads have no owner */
    h->uploads.owner = (staging_owner){0};
    if (home_waits(h, peer, m))
        return PL_OK;
    const double began = pl_now();
    const uint64_t n_rejected = h->counts.results[PL_SUBMIT_REJECTED];
    if (m->type == PL_MSG_SUBMIT)
        status = home_submit(h, peer, m);
    else if (m->type == PL_MSG_SUBMIT_PATH)
        status = home_submit_path(h, peer, m);
    else {
        status = answer_question(h, peer, m, &a);
        if (status == PL_OK)
            status = prove_answer(h, m, &a);
        a.request = m->request;
        a.epoch = h->epoch;
        if (status == PL_OK && is_read(m->type))
            status = home_answer_now(h, peer, &a);
        else if (status == PL_OK)
            home_answer_later(h, peer, &a);
        pl_message_destroy(&a);
    }
    /* A lease may send many wrong results, and each may be a large model. The limit is
     * for a process that was stopped in the meantime. */
    if (status != PL_OK || h->counts.results[PL_SUBMIT_REJECTED] > n_rejected)
        pl_wire_charge(h->socket, peer, fmin(pl_now() - began, CHARGED_MAX_S));
    /* The peer gets an error if its message caused the failure. Failures of the machine
     * or of this program end the home instead. A failed commit or merge always ends the
     * home, even if a handler caused it (h->broken). */
    const bool is_askers_fault = status != PL_ERR_IO && status != PL_ERR_NOSPACE &&
                                 status != PL_ERR_OS && status != PL_ERR_FILES &&
                                 status != PL_ERR_INTERNAL && status != PL_ERR_DEVICE;
    if (status == PL_OK || h->broken || !is_askers_fault)
        return status;
    /* the home's lack of memory passes; a worker would end for its own */
    pl_wire_error(&a, m->request, status == PL_ERR_NOMEM ? PL_ERR_BUSY : status,
                  pl_last_error());
    /* If the same message comes twice in one group, its answers must keep their order,
     * so an error also waits for the commit. */
    if (!is_read(m->type)) {
        home_answer_later(h, peer, &a);
        return PL_OK;
    }
    status = home_answer_now(h, peer, &a);
    pl_message_destroy(&a);
    return status;
}

/* Commits the changes of the group, and only then sends its answers. */
pl_status home_end_group(home *h)
{
    pl_status status = pl_failpoint("home.commit.before");
    if (status == PL_OK)
        status = home_commit(h);
    for (size_t i = 0; i < h->n_answers; i++) {
        if (status == PL_OK)
            status = pl_failpoint("home.reply.before");
        if (status == PL_OK)
            status = home_answer_now(h, &h->answers[i].peer, &h->answers[i].message);
        pl_message_destroy(&h->answers[i].message);
    }
    h->n_answers = 0;
    h->broken = h->broken || status != PL_OK;
    return status;
}

/* Notes the newest change of the list of keys that this home has seen. A home does not
 * start with an older copy of the list. */
static pl_status note_keys(home *h)
{
    char text[32];
    const int64_t changed_s = pl_gate_list_changed();
    if (changed_s <= h->keys_changed_s || home_is_still(h))
        return PL_OK;
    h->keys_changed_s = changed_s;
    snprintf(text, sizeof text, "%lld", (long long)changed_s);
    PL_CHECK(home_write(h));
    return pl_txn_put_ref(h->txn, HOME_KEYS_REF, text);
}

static pl_status serve_home(home *h)
{
    pl_status status = PL_OK;
    pl_peer peer;
    pl_message m = {0}, waited;
    int64_t swept = pl_now_ms(), tidied = swept, turned = swept;
    bool untidy = true, quiet = false;
    /* rounds may have been complete when this home's previous process ended */
    PL_TRY(home_merge_ready(h));
    PL_TRY(note_keys(h));
    /* a signal handler on any thread may set *stop */
    const volatile sig_atomic_t *stop = h->options->stop;
    while (!h->stopping && !(stop && __atomic_load_n(stop, __ATOMIC_RELAXED))) {
        bool ready = false;
        bool holds = h->still.n_waiting > 0 || home_is_still(h);
        /* Uploads and downloads are many messages with short pauses between them. If
         * messages arrive without a pause, some versions are nevertheless compressed
         * every ENOUGH_MS. */
        enum { QUIET_MS = 20, ENOUGH_MS = 5000 };
        int wait_ms = h->unmerged && !home_is_still(h) ? 0
                      : holds                          ? HOLD_TICK_MS
                      : !untidy                        ? TICK_MS
                      : quiet                          ? 0
                                                       : QUIET_MS;
        pl_wire_poll(&h->socket, 1, NULL, 0, wait_ms, &ready);
        while (home_next_waiting(h, &peer, &waited)) {
            status = home_take(h, &peer, &waited);
            pl_message_destroy(&waited);
            PL_TRY(status);
        }
        for (int i = 0; i < GROUP_MAX; i++) {
            status = pl_wire_recv_lent(h->socket, &peer, &m);
            if (status == PL_ERR_TIMEOUT)
                break;
            PL_TRY(status == PL_OK ? home_take(h, &peer, &m) : status);
        }
        PL_TRY(home_end_group(h));
        /* While this home was stopped, or worked on something else, it read nothing. */
        const int64_t turn_ms = pl_now_ms() - turned;
        turned += turn_ms;
        if (turn_ms > LONG_TURN_MS)
            home_stand_still(h, turn_ms - LONG_TURN_MS);
        if (pl_now_ms() - swept > 10000) {
            staging_expire(&h->uploads, false);
            /* else freed memory would grow for about a hundred phases */
            pl_give_back_blocks();
            PL_TRY(note_keys(h));
            swept = pl_now_ms();
        }
        PL_TRY(home_grant_room(h));
        if (!home_is_still(h)) {
            PL_TRY(pl_failpoint("home.merge.before"));
            PL_TRY(home_merge_ready(h));
        }
        untidy = true;
        quiet = !ready && !h->unmerged;
        if ((quiet || pl_now_ms() - tidied > ENOUGH_MS) && !home_is_still(h)) {
            /* Compresses at most TIDY_BYTES at a time, so that a message waits no
             * longer than for a commit. If the disk is full or an old version is
             * damaged, the home stops compressing and continues. If the disk fails, the
             * next commit fails and ends the home. */
            enum { TIDY_BYTES = 2 << 20 };
            untidy = false;
            if (h->tidies && pl_store_recode(h->store, TIDY_BYTES, &untidy) != PL_OK) {
                pl_log(PL_LOG_WARN, "store.tidy", "reason=\"%s\"", pl_last_error());
                untidy = h->tidies = false;
            }
            tidied = pl_now_ms();
        }
    }
    while (h->unmerged && !home_is_still(h))
        PL_TRY(home_merge_ready(h));
done:
    pl_message_destroy(&m);
    return status;
}

pl_status pl_home_run(const pl_home_options *options)
{
    char bound[PL_ADDRESS_MAX];
    pl_status status = PL_OK;
    home h = {.options = options,
              .tidies = options->compress,
              .uploads = {.keeper = "the home",
                          .key = "store.staging",
                          .limit = options->staging_bytes,
                          .gone = home_forget_objects}};
    h.uploads.context = &h;
    h.counts.started_ms = pl_now_ms();
    PL_TRY(pl_store_open(options->store, PL_STORE_CREATE, &h.store));
    h.epoch = pl_store_epoch(h.store);
    if (pl_store_mended(h.store))
        pl_log(PL_LOG_WARN, "store.mended", "was=\"%s\"", pl_store_mended(h.store));
    if (pl_store_resumed(h.store))
        pl_log(PL_LOG_INFO, "store.resumed", "rollback=\"%s\"",
               pl_store_resumed(h.store));
    PL_TRY(home_load(&h));
    if (pl_gate_is_open() && pl_gate_list_changed() < h.keys_changed_s)
        PL_TRY(pl_fail(
            PL_ERR_CONFIG,
            "the list of keys (keys/allow) is an older copy: its newest change was at "
            "%lld s, but this store has seen a change at %lld s. Keys that were "
            "revoked since would be valid again, and used invitations, too. Revoke "
            "them again with `pathloom key revoke`, which changes the list, then start "
            "the job again",
            (long long)pl_gate_list_changed(), (long long)h.keys_changed_s));
    PL_TRY(home_open_quota(&h));
    PL_TRY(home_begin_draws(&h));
    PL_TRY(pl_wire_bind(options->bind, &h.socket, bound));
    if (options->ready_file && options->ready_file[0])
        PL_TRY(pl_write_output(options->ready_file, bound, strlen(bound)));
    pl_log(PL_LOG_INFO, "home.ready", "address=%s store=\"%s\" epoch=%llu arms=%d",
           bound, options->store, (unsigned long long)h.epoch, h.n_arms);
    PL_TRY(serve_home(&h));
    PL_TRY(home_end_draws(&h));
done:
    pl_txn_abort(&h.txn);
    home_forget_tags(&h);
    for (size_t i = 0; i < h.n_answers; i++)
        pl_message_destroy(&h.answers[i].message);
    pl_free_all(h.answers, h.room.tickets);
    pl_buf_destroy(&h.state);
    staging_expire(&h.uploads, true);
    home_free_waiting(&h);
    home_unload(&h);
    pl_wire_close(&h.socket);
    pl_store_close(&h.store);
    return status;
}
