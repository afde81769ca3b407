/* The hub's connections to the homes. The hub sends HELLO to a home, then asks for the
 * home's whole state, and then receives events. Events may be lost, so the hub asks for
 * the state again once per second (STATE_MS). While a state arrives in pieces, it waits
 * for the next one instead, up to AWAY_MS. */
#include "workers/hub_internal.h"

enum {
    HELLO_MS = 500,
    STATE_MS = 1000,
    AWAY_MS = 10000,
    APPLIED_AT_ONCE = 1024,
    RECORD_MAX = 16384
};

pl_status hub_open_homes(hub *h)
{
    h->homes = pl_alloc(PL_HOMES_MAX * sizeof *h->homes);
    for (int i = 0; i < h->options->n_homes; i++) {
        if (h->n_homes == PL_HOMES_MAX)
            return pl_fail(PL_ERR_CONFIG, "a job has at most %d homes", PL_HOMES_MAX);
        pl_copy_text(h->homes_at[h->n_homes], sizeof *h->homes_at,
                     h->options->homes[i]);
        PL_CHECK(pl_wire_connect(h->options->homes[i], &h->homes[h->n_homes].socket));
        h->n_homes++;
    }
    return PL_OK;
}

void hub_close_homes(hub *h)
{
    for (int i = 0; h->homes && i < h->n_homes; i++) {
        pl_wire_close(&h->homes[i].socket);
        pl_buf_destroy(&h->homes[i].state);
        pl_buf_destroy(&h->homes[i].status);
    }
    pl_free(h->homes);
    h->homes = NULL;
}

bool hub_homes_ready(const hub *h)
{
    for (int i = 0; i < h->n_homes; i++)
        if (!h->homes[i].known || !h->homes[i].welcome)
            return false;
    return true;
}

int64_t hub_reached_ms(const hub *h, int64_t now_ms)
{
    int64_t ms = hub_homes_ready(h) ? now_ms : 0;
    for (int i = 0; i < h->n_homes; i++) {
        const bool is_silent = now_ms - h->homes[i].heard_ms > 2 * STATE_MS;
        const int64_t since_ms = is_silent ? now_ms : h->homes[i].back_ms;
        ms = now_ms - since_ms < ms ? now_ms - since_ms : ms;
    }
    return ms;
}

pl_status hub_send_home(hub_home *home, pl_message *m)
{
    if (m->request == 0)
        m->request = pl_wire_next_request();
    pl_status status = pl_wire_send(home->socket, m);
    pl_message_destroy(m);
    return status == PL_ERR_NET ? PL_OK : status; /* the message is sent again later */
}

static pl_status ask_state(hub_home *home, uint64_t offset)
{
    pl_message m = {0};
    PL_SAY(&m, GET_STATE, get_state, .offset = offset);
    return hub_send_home(home, &m);
}

/* Under audits a home that does not own a path merges its updates only when it knows
 * how many phases of the path count. */
static bool must_confirm(const hub *h, const plan_arm *arm)
{
    return arm->is_audited && h->n_homes > 1;
}

/* Returns ERR_NET if the FENCE could not be sent. */
static pl_status fence_at(const hub *h, hub_home *home, const plan_path *path)
{
    uint64_t valid[2];
    size_t n = plan_valid_tokens(path, valid);
    pl_message m = {.token = path->granted,
                    .epoch = h->tasks.epoch,
                    .request = pl_wire_next_request()};
    PL_SAY(&m, FENCE, fence, .name = path->name,
           .phase = path->drops_state ? path->phase : 0, .token = PL_ITEMS(valid, n),
           .confirmed = plan_n_confirmed(path));
    pl_status status = pl_wire_send(home->socket, &m);
    pl_message_destroy(&m);
    return status;
}

pl_status hub_fence(hub *h, plan_path *path)
{
    path->is_untold = false;
    for (int i = 0; i < h->n_homes; i++) {
        pl_status status = fence_at(h, &h->homes[i], path);
        if (status == PL_ERR_NET)
            h->homes[i].fence_next = 0;
        else
            PL_CHECK(status);
    }
    return PL_OK;
}

/* Tells a home again what FENCEs say, because it restarted or may have lost one. If the
 * connection takes no more, goes on in the next call. */
static pl_status fence_all(hub *h, hub_home *home)
{
    int n = 0;
    for (plan_walk at = {.plan = &h->tasks}; home->fence_next >= 0 && plan_next(&at);) {
        if (n++ < home->fence_next ||
            (at.path->granted == 0 && !must_confirm(h, at.arm)))
            continue;
        pl_status status = fence_at(h, home, at.path);
        if (status != PL_OK)
            return status == PL_ERR_NET ? PL_OK : status;
        home->fence_next = n;
    }
    home->fence_next = -1;
    return PL_OK;
}

pl_status hub_tend_homes(hub *h, int64_t now_ms)
{
    for (int i = 0; i < h->n_homes; i++) {
        hub_home *home = &h->homes[i];
        pl_wire_line line;
        pl_wire_line_now(home->socket, &line);
        if (line.n_connects > 1 && line.n_connects != home->n_connects) {
            home->fence_next = 0;
            home->gathers = false;
            PL_CHECK(hub_repeat_fenced(h, home));
        }
        home->n_connects = line.n_connects;
        PL_CHECK(fence_all(h, home));
        if (home->welcome && now_ms - home->heard_ms > AWAY_MS) {
            /* The home stays `known`, because its reports stay true: phases and
             * versions never fall. */
            home->welcome = false;
            pl_log(PL_LOG_WARN, "home.away", "home=%d silent_ms=%lld", i,
                   (long long)(now_ms - home->heard_ms));
        }
        if (now_ms - home->asked_ms < (home->welcome ? STATE_MS : HELLO_MS) ||
            now_ms - home->piece_ms < (home->gathers ? AWAY_MS : STATE_MS) ||
            home->n_applied < home->n_records)
            continue;
        pl_message m = {.type = PL_MSG_STATUS};
        if (home->welcome) {
            PL_CHECK(ask_state(home, 0));
        } else {
            /* The first home gives this hub its epoch. A home learns which leases are
             * valid before it can open one. Workers renew their leases within a TTL;
             * the hub needs another one until it knows the state of all homes. */
            if (home->fence_next >= 0 || (i > 0 && h->tasks.epoch == 0) ||
                (home->hello != 0 && !line.is_connected)) /* a HELLO is queued */
                continue;
            home->greeted = home->epoch;
            m.request = home->hello = pl_wire_next_request();
            PL_SAY(&m, HELLO, hello_home, .role = "hub",
                   .ttl_ms = 2 * (uint64_t)h->options->ttl_ms,
                   .secret = h->secret.bytes, .version = (int64_t)h->tasks.epoch,
                   .sequence = home->epoch, .home = (uint64_t)i,
                   .homes = (uint64_t)h->n_homes);
        }
        home->asked_ms = now_ms;
        PL_CHECK(hub_send_home(home, &m));
    }
    return PL_OK;
}

static pl_status on_welcome(hub *h, hub_home *home, pl_message *m)
{
    pl_msg_welcome_home said;
    PL_CHECK(PL_HEAR(m, welcome_home, &said));
    if (said.secret && !h->has_before) {
        memcpy(h->secret_before.bytes, said.secret, sizeof h->secret_before.bytes);
        h->has_before = true;
    }
    const uint64_t epoch = (uint64_t)said.version;
    if (home->greeted != 0 && home->greeted != home->epoch)
        return PL_OK; /* the home restarted, and did not take the secret */
    if (epoch > h->tasks.epoch && home->told_epoch == h->tasks.epoch &&
        home->told_epoch != 0)
        return pl_fail(PL_ERR_STALE, "a home has met a newer hub of this job since");
    if (epoch > h->tasks.epoch && epoch < UINT32_MAX)
        h->tasks.epoch = epoch;
    home->welcome = true;
    home->fence_next = 0; /* it may have refused FENCEs of a lower epoch */
    /* every home must know the highest epoch, so that it refuses earlier hubs */
    for (int i = 0; i < h->n_homes; i++) {
        hub_home *other = &h->homes[i];
        other->told_epoch = other == home ? epoch : other->told_epoch;
        if (other->welcome && other->told_epoch < h->tasks.epoch) {
            other->welcome = false;
            other->asked_ms = 0;
        }
    }
    if (!home->welcome)
        return PL_OK;
    PL_CHECK(hub_repeat_fenced(h, home));
    return ask_state(home, 0);
}

static pl_status apply_path(hub *h, const hub_home *home, pl_reader *r, bool in_state)
{
    pl_msg_path_record said = {0};
    plan_task task;
    pl_get_fields(r, pl_fields_of_path_record(), &said);
    PL_CHECK(pl_reader_status(r));
    const int64_t now = pl_now_ms();
    pl_pubkey key = {{0}};
    if (said.key)
        memcpy(key.bytes, said.key, sizeof key.bytes);
    const int maker = said.worker ? hub_find_maker(h, said.worker, &key) : -1;
    const hub_worker *by = maker >= 0 ? &h->workers[maker] : NULL;
    /* whether the worker may take the path again soon */
    const bool keeps = by && !hub_is_away(h, by, now) && !by->drains &&
                       !by->fenced[0] && !hub_is_barred(by, now);
    if (said.repeats < 0 || said.repeats > said.phase)
        return pl_fail(PL_ERR_PROTO,
                       "a home sent a state of %s that is %lld phases old after %lld "
                       "phases",
                       said.name, (long long)said.repeats, (long long)said.phase);
    const plan_news news = {.phase = said.phase,
                            .work = said.work,
                            .worker = said.worker ? said.worker : "",
                            .key = key,
                            .by = maker,
                            .keeper = keeps ? maker : -1,
                            .repeats = said.repeats,
                            .held_phase = said.held_phase,
                            .in_audit = said.in_audit != 0};
    if (pl_home_of(said.name, h->n_homes) != (int)(home - h->homes) ||
        !plan_find_task(&h->tasks, said.name, &task))
        return PL_OK;
    const plan_arm *arm = &h->tasks.arms[task.arm];
    plan_path *path = &arm->paths[task.index];
    /* a state that may be older than the path's newest event says nothing new */
    if (in_state && path->event_ms >= home->asked_ms)
        return PL_OK;
    path->event_ms = in_state ? path->event_ms : now;
    const int64_t before = plan_n_confirmed(path);
    PL_CHECK(hub_settle(h, task, &news, now));
    plan_hear(path, &news, now);
    if (plan_n_confirmed(path) != before && must_confirm(h, arm))
        return hub_fence(h, path);
    return PL_OK;
}

/* Applies one record of a state (in_state), or one event: about an arm, a module, a
 * path, an audit or a fenced worker. */
static pl_status apply_record(hub *h, hub_home *home, const uint8_t *data, size_t len,
                              bool in_state)
{
    pl_reader r;
    char texts[RECORD_MAX];
    pl_msg_arm_record arm;
    pl_msg_module_record module;
    if (len > sizeof texts)
        return pl_fail(PL_ERR_PROTO,
                       "a home sent a record of %zu bytes; a record has at most %zu",
                       len, sizeof texts);
    pl_reader_open(&r, "state of a home", data, len);
    r.texts = texts;
    if (pl_field_count(&r, PL_TAG_FENCED) > 0)
        return hub_take_fenced(h, &r);
    if (pl_field_count(&r, PL_TAG_AUDIT) > 0)
        return hub_take_audit_record(h, (int)(home - h->homes), &r, in_state);
    if (pl_field_count(&r, PL_TAG_ARM) > 0) {
        pl_get_fields(&r, pl_fields_of_arm_record(), &arm);
        PL_CHECK(pl_reader_status(&r));
        if (!in_state) /* the home ignored FENCEs of an arm that it did not have */
            home->fence_next = 0;
        plan_arm *known = plan_find_arm(&h->tasks, arm.arm);
        if (known) {
            known->lacking &= ~(1u << (home - h->homes));
            return PL_OK;
        }
        home->unknown_arms++;
        pl_message m = {0};
        PL_SAY(&m, GET_BLOB, get_blob, .blob = arm.arm_blob);
        return hub_send_home(home, &m);
    } else if (pl_field_count(&r, PL_TAG_MODULE) > 0) {
        pl_get_fields(&r, pl_fields_of_module_record(), &module);
        PL_CHECK(pl_reader_status(&r));
        plan_set_version(&h->tasks, module.module, (uint64_t)module.version,
                         pl_now_ms());
    } else if (pl_field_count(&r, PL_TAG_NAME) > 0) {
        return apply_path(h, home, &r, in_state);
    }
    return pl_reader_status(&r);
}

static void note_applied(hub *h, hub_home *home)
{
    if (home->n_applied < home->n_records)
        return;
    hub_end_rows(h, (int)(home - h->homes));
    home->fresh_ms = home->asked_ms;
    if (home->known || home->unknown_arms > 0)
        return;
    home->known = true;
    h->known_ms = pl_now_ms();
}

static void log_nonsense(const hub *h, const hub_home *home, unsigned type)
{
    pl_log(PL_LOG_WARN, "home.nonsense", "home=%d type=%u error=\"%s\"",
           (int)(home - h->homes), type, pl_last_error());
}

/* The state of a large job has tens of thousands of records and arrives once per
 * second. Workers that ask in the meantime must not wait until all are applied. The
 * order of records does not matter. */
bool hub_apply_some(hub *h)
{
    bool more = false;
    for (int i = 0; i < h->n_homes; i++) {
        hub_home *home = &h->homes[i];
        for (int n = 0; n < APPLIED_AT_ONCE && home->n_applied < home->n_records; n++) {
            size_t len = 0;
            const uint8_t *record =
                pl_get_bytes(&home->records, PL_TAG_RECORD, home->n_applied++, &len);
            pl_status status = apply_record(h, home, record, len, true);
            if (status == PL_OK) {
                note_applied(h, home);
            } else {
                log_nonsense(h, home, PL_MSG_STATE_IS);
                home->n_applied = home->n_records;
            }
        }
        more = more || home->n_applied < home->n_records;
    }
    h->stirred = h->stirred || more;
    return more;
}

static pl_status on_state(hub *h, hub_home *home, pl_message *m)
{
    pl_msg_piece piece;
    PL_CHECK(PL_HEAR(m, piece, &piece));
    const uint64_t offset = piece.offset, total = piece.total;
    if (offset == 0)
        pl_buf_clear(&home->state);
    home->n_records = home->n_applied = 0; /* drops the rest of an older state */
    if (offset != home->state.len || m->data.len > total - offset)
        return PL_OK; /* the piece belongs to an older answer */
    pl_buf_append(&home->state, m->data.data, m->data.len);
    home->piece_ms = pl_now_ms(); /* while pieces arrive, it is not asked anew */
    home->gathers = home->state.len < total;
    if (home->gathers)
        return ask_state(home, home->state.len);
    pl_reader_open(&home->records, "STATE_IS", home->state.data, home->state.len);
    home->n_records = pl_field_count(&home->records, PL_TAG_RECORD);
    home->unknown_arms = 0;
    PL_CHECK(pl_reader_status(&home->records));
    hub_begin_rows(h, (int)(home - h->homes));
    note_applied(h, home); /* needed here because the state may have no records */
    return PL_OK;
}

/* Reads an arm definition that a home sent. Arm definitions are small, so the message
 * has the whole blob. */
static pl_status on_arm_blob(hub *h, hub_home *home, pl_message *m)
{
    pl_arm arm;
    pl_hash blob;
    pl_msg_blob is;
    PL_CHECK(PL_HEAR(m, blob, &is));
    if (m->data.len != is.total)
        return pl_fail(PL_ERR_PROTO,
                       "a home sent %zu of the %llu bytes of an arm definition; the "
                       "definition must fit into one message",
                       m->data.len, (unsigned long long)is.total);
    pl_blob_hash(m->data.data, m->data.len, &blob);
    PL_CHECK(pl_arm_decode(m->data.data, m->data.len, &arm));
    pl_log(PL_LOG_INFO, "arm.added", "arm=%s paths=%d replicas=%d phases=%d tau=%d",
           arm.name, arm.n_shards, arm.spec.replicas, arm.inner.phases, arm.inner.tau);
    const bool is_new = !plan_find_arm(&h->tasks, arm.name);
    PL_CHECK(plan_add_arm(&h->tasks, &arm, &blob));
    if (is_new)
        h->tasks.arms[h->tasks.n_arms - 1].lacking = (1u << h->n_homes) - 1;
    return ask_state(home, 0);
}

/* A home that starts again has a higher epoch, and its commits have higher numbers. A
 * lower one belongs to an older copy of the store: it lacks updates that were
 * acknowledged and that no worker sends again. So nothing that it says counts. */
static bool is_older_copy(hub_home *home, pl_message *m, int64_t now_ms)
{
    enum { REPORT_MS = 10000 };
    pl_msg_piece piece = {.sequence = home->sequence};
    if (m->type == PL_MSG_STATE_IS && PL_HEAR(m, piece, &piece) != PL_OK)
        return false;
    if ((m->epoch == 0 || m->epoch >= home->epoch) &&
        piece.sequence >= home->sequence) {
        home->sequence = piece.sequence;
        return false;
    }
    if (home->old_ms != 0 && now_ms - home->old_ms < REPORT_MS)
        return true;
    pl_log(PL_LOG_ERROR, "home.older",
           "epoch=%llu commit=%llu newest_epoch=%llu newest_commit=%llu "
           "reason=\"this home has an older copy of its store and is ignored; start "
           "the home with the newest copy, or start the hub again to go on without "
           "the lost commits\"",
           (unsigned long long)m->epoch, (unsigned long long)piece.sequence,
           (unsigned long long)home->epoch, (unsigned long long)home->sequence);
    home->old_ms = now_ms;
    return true;
}

pl_status hub_take_home(hub *h, int index, pl_message *m, int64_t now_ms)
{
    hub_home *home = &h->homes[index];
    pl_status status = PL_OK;
    if (is_older_copy(home, m, now_ms))
        return PL_OK;
    if (now_ms - home->heard_ms > AWAY_MS)
        home->back_ms = now_ms;
    home->heard_ms = now_ms;
    h->stirred = true;
    const bool is_new = m->epoch != 0 && m->epoch != home->epoch;
    const bool restarted = is_new && home->epoch != 0;
    if (is_new)
        home->epoch = m->epoch;
    if (restarted) {
        /* The home knows neither the secret, nor which tokens are valid, nor where to
         * send events: it sends them to the sender of GET_STATE. */
        pl_log(PL_LOG_WARN, "home.restarted", "epoch=%llu",
               (unsigned long long)m->epoch);
        home->welcome = false;
        home->back_ms = now_ms;
        home->asked_ms = 0;
        home->fence_next = 0;
    }
    switch (m->type) {
    case PL_MSG_WELCOME:
        status = on_welcome(h, home, m);
        break;
    case PL_MSG_STATE_IS:
        status = on_state(h, home, m);
        break;
    case PL_MSG_EVENT:
        status = apply_record(h, home, m->body.data, m->body.len, false);
        break;
    case PL_MSG_BLOB:
        status = on_arm_blob(h, home, m);
        break;
    case PL_MSG_UPDATE_IS:
        status = hub_hear_update(h, m);
        break;
    case PL_MSG_OK:
        hub_hear_ok(h, index, m->request);
        break;
    case PL_MSG_ERR:
        /* A home may know a higher epoch until its WELCOME tells it to this hub. */
        if ((m->request == home->hello || home->welcome) &&
            pl_wire_error_of(m) == PL_ERR_STALE)
            status = pl_wire_error_of(m);
        hub_hear_no_update(h, m->request);
        break;
    case PL_MSG_STATUS_IS: /* only for answers to `pathloom status` */
        pl_buf_clear(&home->status);
        pl_buf_append(&home->status, m->data.data, m->data.len);
        break;
    default:
        break;
    }
    if (status == PL_ERR_STALE) /* a newer hub has taken over */
        return status;
    if (status != PL_OK)
        log_nonsense(h, home, m->type);
    return PL_OK;
}

pl_status hub_hear_home(hub *h, int index, int64_t now_ms)
{
    const hub_home *home = &h->homes[index];
    pl_message m = {0};
    pl_status status;
    while ((status = pl_wire_recv(home->socket, NULL, &m)) == PL_OK)
        PL_CHECK(hub_take_home(h, index, &m, now_ms));
    pl_message_destroy(&m);
    return status == PL_ERR_TIMEOUT ? PL_OK : status;
}
