/* The hub's connections to the homes: HELLO for an epoch, then the whole state, then
 * events. Events may be lost, so the state is asked for again regularly. */
#include "workers/hub_internal.h"

enum { HELLO_MS = 500, STATE_MS = 1000, AWAY_MS = 10000, APPLIED_AT_ONCE = 1024 };

static pl_status open_home(hub *h, const char *address)
{
    if (h->n_homes == PL_HOMES_MAX)
        return pl_fail(PL_ERR_CONFIG, "a job has at most %d homes", PL_HOMES_MAX);
    pl_copy_text(h->homes_at[h->n_homes], sizeof *h->homes_at, address);
    PL_RETURN_IF(pl_wire_connect(address, &h->homes[h->n_homes].socket));
    h->n_homes++;
    return PL_OK;
}

pl_status hub_open_homes(hub *h)
{
    h->homes = pl_alloc(PL_HOMES_MAX * sizeof *h->homes);
    h->place_index = pl_name_table_create();
    for (int i = 0; i < h->options->n_homes; i++)
        PL_RETURN_IF(open_home(h, h->options->homes[i]));
    return PL_OK;
}

pl_status hub_add_homes(hub *h, pl_reader *r)
{
    size_t n = pl_field_count(r, PL_TAG_ADDRESS);
    for (size_t i = 0; i < n; i++) {
        char address[PL_ADDRESS_MAX];
        pl_get_text(r, PL_TAG_ADDRESS, i, address, sizeof address);
        PL_RETURN_IF(pl_reader_status(r));
        if (i >= (size_t)h->n_homes) {
            PL_RETURN_IF(open_home(h, address));
            h->homes[i].added = h->homes[i].known = true;
            pl_log(PL_LOG_INFO, "home.added", "home=%zu address=%s", i, address);
        } else if (strcmp(address, h->homes_at[i]) != 0) {
            return pl_fail(PL_ERR_EXISTS, "home %zu is at %s, not at %s", i + 1,
                           h->homes_at[i], address);
        }
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
    pl_free(h->places);
    pl_name_table_destroy(&h->place_index);
    h->homes = NULL;
    h->places = NULL;
}

bool hub_homes_ready(const hub *h)
{
    for (int i = 0; i < h->n_homes; i++)
        if (!h->homes[i].known || (!h->homes[i].welcome && !h->homes[i].added))
            return false;
    return true;
}

pl_status hub_send_home(hub_home *home, pl_message *m)
{
    if (m->request == 0)
        m->request = pl_wire_next_request();
    pl_status status = pl_wire_send(home->socket, m);
    pl_message_destroy(m);
    return status == PL_ERR_NET ? PL_OK : status; /* it is asked again later */
}

/* The first home has the secret of leases, or makes it; the other homes get it from the
 * hub. */
static pl_status say_hello(hub *h, hub_home *home)
{
    pl_message m;
    if (!h->has_secret && home != h->homes)
        return PL_OK;
    pl_message_init(&m, PL_MSG_HELLO);
    pl_put_text(&m.body, PL_TAG_ROLE, "hub");
    if (home != h->homes)
        pl_put_bytes(&m.body, PL_TAG_SECRET, h->secret.bytes, sizeof h->secret.bytes);
    return hub_send_home(home, &m);
}

static pl_status take_secret(hub *h, pl_reader *r)
{
    size_t len = 0;
    const uint8_t *bytes = pl_get_bytes(r, PL_TAG_SECRET, 0, &len);
    PL_RETURN_IF(pl_reader_status(r));
    if (len != sizeof h->secret.bytes)
        return pl_fail(PL_ERR_PROTO, "a home's secret has %zu bytes", len);
    memcpy(h->secret.bytes, bytes, len);
    h->has_secret = true;
    return PL_OK;
}

/* The question tells homes where the other homes are, so that they can redirect
 * clients. */
static pl_status ask_state(const hub *h, hub_home *home, uint64_t offset)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_GET_STATE);
    for (int i = 0; i < h->n_homes; i++)
        pl_put_text(&m.body, PL_TAG_ADDRESS, h->homes_at[i]);
    pl_put_u64(&m.body, PL_TAG_OFFSET, offset);
    return hub_send_home(home, &m);
}

static pl_status ask_status(hub_home *home)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_STATUS);
    return hub_send_home(home, &m);
}

/* Only shown in answers to `pathloom status`. */
static void keep_status(hub_home *home, const pl_message *m, int64_t now_ms)
{
    pl_buf_clear(&home->status);
    pl_buf_append(&home->status, m->data.data, m->data.len);
    home->status_ms = now_ms;
}

static pl_status ask_arm(hub_home *home, const pl_hash *blob, uint64_t offset)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_GET_BLOB);
    pl_put_hash(&m.body, PL_TAG_BLOB, blob);
    pl_put_u64(&m.body, PL_TAG_OFFSET, offset);
    return hub_send_home(home, &m);
}

pl_status hub_fence(hub *h, const plan_path *path)
{
    for (int i = 0; i < h->n_homes; i++) {
        pl_message m;
        pl_message_init(&m, PL_MSG_FENCE);
        m.token = path->lease.token;
        pl_put_text(&m.body, PL_TAG_NAME, path->name);
        if (path->drops_state)
            pl_put_u64(&m.body, PL_TAG_PHASE, (uint64_t)path->phase);
        PL_RETURN_IF(hub_send_home(&h->homes[i], &m));
    }
    return PL_OK;
}

/* A home that restarted has forgotten all fences, so they are sent again. */
static pl_status fence_all(hub *h)
{
    for (int a = 0; a < h->tasks.n_arms; a++)
        for (int i = 0; i < h->tasks.arms[a].n_tasks; i++)
            if (h->tasks.arms[a].paths[i].lease.token != 0)
                PL_RETURN_IF(hub_fence(h, &h->tasks.arms[a].paths[i]));
    return PL_OK;
}

pl_status hub_tend_homes(hub *h, int64_t now_ms)
{
    for (int i = 0; i < h->n_homes; i++) {
        hub_home *home = &h->homes[i];
        if (home->welcome && now_ms - home->heard_ms > AWAY_MS) {
            /* what it told stays true, because it can only grow */
            home->welcome = false;
            pl_log(PL_LOG_WARN, "home.away", "home=%d silent_ms=%lld", i,
                   (long long)(now_ms - home->heard_ms));
        }
        if (now_ms - home->asked_ms < (home->welcome ? STATE_MS : HELLO_MS) ||
            home->n_applied < home->n_records)
            continue;
        home->asked_ms = now_ms;
        PL_RETURN_IF(home->welcome ? ask_state(h, home, 0) : say_hello(h, home));
        if (home->welcome)
            PL_RETURN_IF(ask_status(home));
    }
    return PL_OK;
}

static pl_status on_welcome(hub *h, hub_home *home, pl_reader *r)
{
    uint64_t epoch = pl_get_u64(r, PL_TAG_VERSION, 0);
    PL_RETURN_IF(pl_reader_status(r));
    if (home == h->homes)
        PL_RETURN_IF(take_secret(h, r));
    home->welcome = true;
    if (epoch > h->tasks.epoch && epoch < UINT32_MAX)
        h->tasks.epoch = epoch;
    PL_RETURN_IF(fence_all(h));
    PL_RETURN_IF(hub_repeat_fenced(h));
    return ask_state(h, home, 0);
}

/* `token`: the token under which the path's last phase arrived, as an event says; or 0.
 */
static pl_status apply_path(hub *h, pl_reader *r, uint64_t token)
{
    char name[PL_MODULE_NAME_MAX], worker[PL_TEXT_MAX] = "";
    pl_get_text(r, PL_TAG_NAME, 0, name, sizeof name);
    if (pl_field_count(r, PL_TAG_WORKER) > 0)
        pl_get_text(r, PL_TAG_WORKER, 0, worker, sizeof worker);
    const plan_news news = {.phase = (int64_t)pl_get_u64(r, PL_TAG_PHASE, 0),
                            .n_tokens = pl_get_u64(r, PL_TAG_TOKENS, 0),
                            .loss = pl_get_f64(r, PL_TAG_LOSS, 0),
                            .seconds = pl_get_f64(r, PL_TAG_SECONDS, 0),
                            .by = token,
                            .worker = worker};
    plan_path *path = plan_find_path(&h->tasks, name);
    PL_RETURN_IF(pl_reader_status(r));
    if (!path)
        return PL_OK;
    plan_hear(path, &news, pl_now_ms());
    return hub_settle(h, path);
}

/* Tells a home that it owns a name: the old home gave the name away, and the mover died
 * before the new home heard of it. */
static pl_status tell_owner(hub_home *home, const char *name, uint64_t stamp)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_ADOPT);
    pl_put_text(&m.body, PL_TAG_NAME, name);
    pl_put_u64(&m.body, PL_TAG_STAMP, stamp);
    return hub_send_home(home, &m);
}

static pl_status apply_place(hub *h, hub_home *home, pl_reader *r)
{
    char name[PL_MODULE_NAME_MAX];
    int index = (int)(home - h->homes);
    hub_place said;
    pl_get_text(r, PL_TAG_NAME, 0, name, sizeof name);
    said.home = (int)(int64_t)pl_get_u64(r, PL_TAG_HOME, 0);
    said.stamp = pl_get_u64(r, PL_TAG_STAMP, 0);
    PL_RETURN_IF(pl_reader_status(r));
    if (said.home < 0)
        said.home = index;
    int at = pl_name_table_get(h->place_index, name);
    if (at < 0) {
        at = h->n_places++;
        h->places = pl_grow(h->places, (size_t)h->n_places * sizeof *h->places);
        h->places[at] = said;
        pl_name_table_put(h->place_index, name, at);
    } else if (said.stamp > h->places[at].stamp) {
        h->places[at] = said;
    } else if (said.stamp < h->places[at].stamp && h->places[at].home == index) {
        return tell_owner(home, name, h->places[at].stamp);
    }
    return PL_OK;
}

/* Home 1 keeps the table that clients use. */
static pl_status apply_table(hub *h, const hub_home *home, pl_reader *r)
{
    char text[PL_PLACES_TEXT];
    pl_places table;
    pl_get_text(r, PL_TAG_TEXT, 0, text, sizeof text);
    PL_RETURN_IF(pl_reader_status(r));
    PL_RETURN_IF(pl_places_parse(text, &table));
    if (home == h->homes)
        pl_copy_text(h->table, sizeof h->table, text);
    return PL_OK;
}

/* Applies one record of a state, or one event: an arm, a module, a path, or a place. */
static pl_status apply_record(hub *h, hub_home *home, const uint8_t *data, size_t len,
                              uint64_t token)
{
    pl_reader r;
    char name[PL_MODULE_NAME_MAX];
    pl_reader_open(&r, "state of a home", data, len);
    if (hub_is_audit_record(&r))
        return hub_take_audit_record(h, (int)(home - h->homes), &r);
    if (pl_field_count(&r, PL_TAG_ARM) > 0) {
        pl_get_text(&r, PL_TAG_ARM, 0, name, sizeof name);
        pl_hash blob = pl_get_hash(&r, PL_TAG_ARM_BLOB, 0);
        PL_RETURN_IF(pl_reader_status(&r));
        if (plan_find_arm(&h->tasks, name))
            return PL_OK;
        home->unknown_arms++;
        return ask_arm(home, &blob, 0);
    } else if (pl_field_count(&r, PL_TAG_MODULE) > 0) {
        pl_get_text(&r, PL_TAG_MODULE, 0, name, sizeof name);
        uint64_t version = pl_get_u64(&r, PL_TAG_VERSION, 0);
        PL_RETURN_IF(pl_reader_status(&r));
        plan_set_version(&h->tasks, name, version);
    } else if (pl_field_count(&r, PL_TAG_HOME) > 0) {
        return apply_place(h, home, &r);
    } else if (pl_field_count(&r, PL_TAG_TEXT) > 0) {
        return apply_table(h, home, &r);
    } else if (pl_field_count(&r, PL_TAG_NAME) > 0) {
        return apply_path(h, &r, token);
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

static pl_status begin_state(hub *h, hub_home *home)
{
    pl_reader_open(&home->records, "STATE_IS", home->state.data, home->state.len);
    home->n_records = pl_field_count(&home->records, PL_TAG_RECORD);
    home->n_applied = 0;
    home->unknown_arms = 0;
    PL_RETURN_IF(pl_reader_status(&home->records));
    hub_begin_rows(h, (int)(home - h->homes));
    note_applied(h, home); /* for a home that has no records yet */
    return PL_OK;
}

static pl_status apply_next(hub *h, hub_home *home)
{
    size_t len = 0;
    const uint8_t *record =
        pl_get_bytes(&home->records, PL_TAG_RECORD, home->n_applied++, &len);
    h->in_state = true;
    pl_status status = apply_record(h, home, record, len, 0);
    h->in_state = false;
    PL_RETURN_IF(status);
    note_applied(h, home);
    return PL_OK;
}

static void log_nonsense(const hub *h, const hub_home *home, unsigned type)
{
    pl_log(PL_LOG_WARN, "home.nonsense", "home=%d type=%u error=\"%s\"",
           (int)(home - h->homes), type, pl_last_error());
}

/* The state of a large job has tens of thousands of records and comes once per second.
 * A worker that asks meanwhile must not wait for all of them. Their order does not
 * matter. */
bool hub_apply_some(hub *h)
{
    bool more = false;
    for (int i = 0; i < h->n_homes; i++) {
        hub_home *home = &h->homes[i];
        for (int n = 0; n < APPLIED_AT_ONCE && home->n_applied < home->n_records; n++)
            if (apply_next(h, home) != PL_OK) {
                log_nonsense(h, home, PL_MSG_STATE_IS);
                home->n_applied = home->n_records;
            }
        more = more || home->n_applied < home->n_records;
    }
    h->stirred = h->stirred || more;
    return more;
}

static pl_status on_state(hub *h, hub_home *home, const pl_message *m, pl_reader *r)
{
    uint64_t offset = pl_get_u64(r, PL_TAG_OFFSET, 0);
    uint64_t total = pl_get_u64(r, PL_TAG_TOTAL, 0);
    PL_RETURN_IF(pl_reader_status(r));
    if (offset == 0)
        pl_buf_clear(&home->state);
    home->n_records = home->n_applied = 0; /* drop the rest of an older state */
    if (offset != home->state.len || m->data.len > total - offset)
        return PL_OK; /* a piece of an older answer */
    pl_buf_append(&home->state, m->data.data, m->data.len);
    if (home->state.len < total)
        return ask_state(h, home, home->state.len);
    return begin_state(h, home);
}

/* Arm definitions are small and come in one piece. */
static pl_status on_arm_blob(hub *h, hub_home *home, const pl_message *m, pl_reader *r)
{
    pl_arm arm;
    pl_hash blob;
    uint64_t total = pl_get_u64(r, PL_TAG_TOTAL, 0);
    PL_RETURN_IF(pl_reader_status(r));
    if (m->data.len != total)
        return pl_fail(PL_ERR_PROTO, "an arm definition of %llu bytes is too long",
                       (unsigned long long)total);
    pl_blob_hash(m->data.data, m->data.len, &blob);
    PL_RETURN_IF(pl_arm_decode(m->data.data, m->data.len, &arm));
    pl_log(PL_LOG_INFO, "arm.added", "arm=%s paths=%d replicas=%d phases=%d tau=%d",
           arm.name, arm.n_shards, arm.spec.replicas, arm.inner.phases, arm.inner.tau);
    PL_RETURN_IF(plan_add_arm(&h->tasks, &arm, &blob));
    return ask_state(h, home, 0);
}

static pl_status apply_message(hub *h, hub_home *home, const pl_message *m)
{
    pl_reader r;
    pl_reader_open(&r, "message of a home", m->body.data, m->body.len);
    switch (m->type) {
    case PL_MSG_WELCOME:
        return on_welcome(h, home, &r);
    case PL_MSG_STATE_IS:
        return on_state(h, home, m, &r);
    case PL_MSG_EVENT:
        return apply_record(h, home, m->body.data, m->body.len, m->token);
    case PL_MSG_BLOB:
        return on_arm_blob(h, home, m, &r);
    case PL_MSG_UPDATE_IS:
        return hub_hear_update(h, m);
    case PL_MSG_STATUS_IS:
        keep_status(home, m, pl_now_ms());
        return PL_OK;
    default:
        return PL_OK;
    }
}

/* A home that restarted has forgotten who listens, and all fences. */
static pl_status note_epoch(hub *h, hub_home *home, uint64_t epoch)
{
    if (epoch == 0 || epoch == home->epoch)
        return PL_OK;
    bool restarted = home->epoch != 0;
    home->epoch = epoch;
    if (!restarted)
        return PL_OK;
    pl_log(PL_LOG_WARN, "home.restarted", "epoch=%llu", (unsigned long long)epoch);
    PL_RETURN_IF(fence_all(h));
    return ask_state(h, home, 0);
}

pl_status hub_take_home(hub *h, int index, const pl_message *m, int64_t now_ms)
{
    hub_home *home = &h->homes[index];
    home->heard_ms = now_ms;
    h->stirred = true;
    PL_RETURN_IF(note_epoch(h, home, m->epoch));
    if (apply_message(h, home, m) != PL_OK)
        log_nonsense(h, home, m->type);
    return PL_OK;
}

pl_status hub_hear_home(hub *h, int index, int64_t now_ms)
{
    const hub_home *home = &h->homes[index];
    pl_message m;
    pl_status status;
    pl_message_init(&m, 0);
    while ((status = pl_wire_recv(home->socket, NULL, &m)) == PL_OK)
        PL_RETURN_IF(hub_take_home(h, index, &m, now_ms));
    pl_message_destroy(&m);
    return status == PL_ERR_TIMEOUT ? PL_OK : status;
}
