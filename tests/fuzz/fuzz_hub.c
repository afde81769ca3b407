/* folder: workers; runs: 10000
 *
 * Fuzzes a hub with many messages. The input chooses the sender of each message.
 * Workers ask for tasks and report them, a home reports progress and audits, leases run
 * out, and the hub is replaced by a new one, which learns of leases when they are
 * renewed. Between these messages, workers, the home, an administrator and a guest
 * (which has only an invitation) send messages with wrong content.
 *
 * No message may end the hub. The progress of a path that the hub knows, and the tokens
 * of the leases that a hub grants, must never fall. No two leases may have the same
 * token, and no worker may have the lease of a path and also its backup. No worker may
 * get a lease before the hub has told the home that its token is valid. The list of
 * keys must stay readable, and the status must be JSON.
 *
 * The program is linked with --wrap for the functions that use the hub's connections:
 * so no input needs sockets of its own, the messages are checked, and a connection to
 * the home may end at any time. */
#include "tests/fuzz/fuzz.h"
#include "tests/fault/hostile.h"
#include "tests/fuzz/reach.h"
#include "workers/hub_internal.h"

#include <stdio.h>

enum {
    WORKERS = 4,
    OWN = 2, /* the first two have one of the job's own keys */
    STEPS_MAX = 200,
    TTL_MS = 60000,
    LONG_MS = 1 << 30,
    GUEST = WORKERS,
    ADMIN,
    SENDERS
};

typedef struct world {
    hub h;
    pl_hub_options options;
    dice d;
    uint64_t tokens[FUZZ_PATHS], epoch; /* newest tokens; the hub's epoch */
    pl_lease_secret before;             /* the secret of the hub before */
    /* phases that each path has finished: as the hub knows, and as the home reported */
    int64_t phases[FUZZ_PATHS], told[FUZZ_PATHS];
    uint64_t valid[FUZZ_PATHS][2]; /* the tokens that the home knows to be valid */
    uint64_t n_connects;           /* how often the home was connected */
} world;

static world now; /* of the input that runs */
static char folder[PL_PATH_MAX], keys_at[PL_PATH_MAX], home_at[PL_ADDRESS_MAX];
static pl_socket *listens, *line; /* line: the hub's to the home */
static bool has_list;             /* whether the list of keys has only the invitation */
static pl_arm arm;
static pl_topology *topology;
static pl_buf definition;
static pl_hash blob;
static pl_keypair invitation;

static void remove_folder(void)
{
    pl_wire_close(&listens);
    pl_wire_close(&line);
    pl_wire_shutdown();
    pl_topology_destroy(&topology);
    pl_arm_clear(&arm);
    pl_buf_destroy(&definition);
    (void)pl_remove_tree(folder);
}

static void prepare(void)
{
    char secret[PL_INVITE_TEXT];
    if (listens)
        return;
    fuzz_prepare("hub", folder, &listens);
    atexit(remove_folder);
    pl_join(keys_at, folder, "allow");
    snprintf(home_at, sizeof home_at, "ipc://%.100s/home", folder);
    demand_ok(pl_wire_connect(home_at, &line), "the hub cannot connect to the home");
    fuzz_arm(&arm, &topology);
    pl_arm_encode(&arm, &definition);
    pl_blob_hash(definition.data, definition.len, &blob);
    pl_invite_create(secret);
    demand_ok(pl_invite_keypair(secret, &invitation), "the invitation is refused");
}

/* ---- the list of keys ---- */
static pl_status put_invitation(pl_key_list *list, void *context)
{
    while (list->n > 0)
        (void)pl_key_list_drop(list, &list->entries[0].key);
    pl_key_entry e = {.key = invitation.open,
                      .role = PL_AS_INVITE,
                      .grants = PL_AS_WORKER,
                      .uses = 1000};
    (void)context;
    pl_copy_text(e.name, sizeof e.name, "pool");
    return pl_key_list_put(list, &e);
}

/* ---- the senders ---- */
/* Only the job's own workers may have names like worker-1. */
static void name_sender(int sender, char out[PL_TEXT_MAX])
{
    snprintf(out, PL_TEXT_MAX, sender < OWN ? "worker-%d" : "joined-%d", sender);
}

static pl_peer peer_of(int sender)
{
    pl_peer peer = fuzz_peer(sender, sender == GUEST   ? PL_AS_INVITE
                                     : sender == ADMIN ? PL_AS_ADMIN
                                                       : PL_AS_WORKER);
    peer.own = sender < OWN || sender == ADMIN;
    if (sender == GUEST)
        peer.key = invitation.open;
    return peer;
}

static plan_path *path_of(world *w, int index)
{
    return w->h.tasks.n_arms > 0 ? &w->h.tasks.arms[0].paths[index] : NULL;
}

static void send_as(world *w, int sender, pl_message *m)
{
    pl_peer peer = peer_of(sender);
    pl_key_list list = {0};
    reach_ask(m);
    if (pl_role_allows(peer.role, m->type) && m->type != PL_MSG_STOP)
        demand_ok(hub_take(&w->h, &peer, m), "a message ends the hub");
    if (m->type != PL_MSG_ENROL)
        return;
    has_list = false;
    demand_ok(pl_key_list_load(keys_at, &list), "the list of keys is damaged");
    pl_key_list_clear(&list);
}

/* ---- the hub's messages ---- */
static int index_of(const char *name)
{
    for (int p = 0; path_of(&now, p) && p < FUZZ_PATHS; p++)
        if (strcmp(path_of(&now, p)->name, name) == 0)
            return p;
    fuzz_demand(false, "the hub names a path that does not exist");
    return 0;
}

static void reach_verdict(const pl_message *m)
{
    pl_reader r;
    pl_audit row;
    char text[PL_AUDIT_TEXT_MAX];
    pl_reader_open(&r, "PUT_AUDIT", m->body.data, m->body.len);
    pl_get_text(&r, PL_TAG_TEXT, 0, text, sizeof text);
    demand_ok(pl_audit_read(text, &row), "the hub's verdict cannot be read");
    reach(pl_verdict_name(row.verdict));
}

pl_status __wrap_pl_wire_send(pl_socket *socket, const pl_message *m);
pl_status __wrap_pl_wire_send(pl_socket *socket, const pl_message *m)
{
    pl_reader r;
    char name[PL_MODULE_NAME_MAX];
    fuzz_demand(socket == line, "a message goes to another process than the home");
    reach_answer(&(pl_message){.type = m->type});
    if (m->type == PL_MSG_PUT_AUDIT)
        reach_verdict(m);
    if (m->type != PL_MSG_FENCE)
        return PL_OK;
    pl_reader_open(&r, "FENCE", m->body.data, m->body.len);
    if (pl_field_count(&r, PL_TAG_AUDIT) > 0)
        reach("a result is dropped");
    pl_get_text(&r, PL_TAG_NAME, 0, name, sizeof name);
    uint64_t *valid = now.valid[index_of(name)];
    const size_t n = pl_field_count(&r, PL_TAG_TOKEN);
    fuzz_demand(n <= 2, "a FENCE has more than two tokens");
    for (size_t i = 0; i < 2; i++) {
        valid[i] = i < n ? pl_get_u64(&r, PL_TAG_TOKEN, i) : 0;
        fuzz_demand(valid[i] <= m->token, "a FENCE has a token above itself");
    }
    return PL_OK;
}

void __wrap_pl_wire_line_now(pl_socket *socket, pl_wire_line *out);
void __wrap_pl_wire_line_now(pl_socket *socket, pl_wire_line *out)
{
    (void)socket;
    *out = (pl_wire_line){.n_connects = now.n_connects};
}

pl_status __wrap_pl_wire_give_to(pl_socket *socket, const pl_peer *to, pl_message *m);
pl_status __wrap_pl_wire_give_to(pl_socket *socket, const pl_peer *to, pl_message *m)
{
    pl_reader r;
    size_t len = 0;
    char name[PL_MODULE_NAME_MAX];
    (void)to;
    fuzz_demand(socket == listens, "a worker's answer goes to another process");
    reach_answer(m);
    if (m->type != PL_MSG_TASK)
        return PL_OK;
    pl_reader_open(&r, "TASK", m->body.data, m->body.len);
    pl_get_text(&r, PL_TAG_TASK, 0, name, sizeof name);
    if (pl_field_count(&r, PL_TAG_LEASE) > 0)
        (void)pl_get_bytes(&r, PL_TAG_LEASE, 0, &len);
    reach(len > 0 ? "a task is leased" : "a task is repeated");
    const uint64_t *valid = now.valid[index_of(name)];
    fuzz_demand(len == 0 || m->token == valid[0] || m->token == valid[1],
                "a worker got a lease that the home would refuse");
    return PL_OK;
}

static void know(world *w, int sender, int kind, known *k)
{
    int index = (int)dice_roll(&w->d, FUZZ_PATHS);
    const plan_path *path = path_of(w, index);
    memset(k, 0, sizeof *k);
    name_sender(sender, k->worker);
    name_sender((sender + 1) % WORKERS, k->other);
    pl_copy_text(k->device, sizeof k->device, "cpu");
    pl_copy_text(k->address, sizeof k->address, "tcp://127.0.0.1:1");
    pl_copy_text(k->text, sizeof k->text, "a reason");
    pl_copy_text(k->module, sizeof k->module, "mix/L1.E0");
    memset(k->key.bytes, 101 + sender, sizeof k->key.bytes);
    k->pid = 1;
    k->blob = blob;
    if (!path)
        return;
    pl_copy_text(k->path, sizeof k->path, path->name);
    k->phase = path->phase;
    k->token = path->lease.token;
    for (size_t i = 0; i < w->h.n_audits && k->token == 0; i++)
        k->token = w->h.audits[i].lease.token;
    if (k->token == 0)
        k->token = w->tokens[index]; /* perhaps of the hub before */
    /* No other message to a hub has a lease. It is like the one that the sender got
     * with TASK, but its token may belong to another task. */
    if (kind == draft_kind(PL_MSG_RENEW))
        fuzz_lease(&w->before, arm.name, index, sender, k);
}

/* If the sender does an audit, `k` is mostly about this audit. */
static bool know_audit(world *w, known *k)
{
    for (size_t i = 0; i < w->h.n_audits; i++) {
        const hub_audit *a = &w->h.audits[i];
        if (!a->lease.active || dice_is(&w->d, 8) ||
            strcmp(w->h.workers[a->lease.worker].name, k->worker) != 0)
            continue;
        pl_copy_text(k->path, sizeof k->path, a->row.path);
        k->phase = a->row.phase;
        k->token = a->lease.token;
        return true;
    }
    return false;
}

static void say(world *w, int sender, pl_message_type type)
{
    known k;
    draft d;
    pl_message m;
    know(w, sender, draft_kind(type), &k);
    const uint64_t audits = type != PL_MSG_TASK_REQ && know_audit(w, &k);
    draft_fill(&d, draft_kind(type), &k);
    if (type == PL_MSG_DONE)
        draft_set(&d, PL_TAG_AUDIT, &audits, sizeof audits);
    if (audits && dice_is(&w->d, 16)) /* the token of an audit, but no such task */
        draft_set(&d, PL_TAG_TASK, "mix/none", strlen("mix/none"));
    /* An audit's report has the update of each slot, and the state. Some are wrong,
     * half of these in the same way. */
    for (int slot = 0;
         audits && type == PL_MSG_DONE && slot < pl_topology_n_slots(topology);
         slot++) {
        pl_hash made = blob;
        made.bytes[0] ^= dice_is(&w->d, 4) ? (uint8_t)(1 + dice_is(&w->d, 2)) : 0;
        draft_add(&d, PL_TAG_BLOB, &made, sizeof made);
    }
    draft_message(&d, NULL, &m);
    draft_clear(&d);
    send_as(w, sender, &m);
    pl_message_destroy(&m);
}

/* ---- the home ---- */
static void tell_hub(world *w, pl_message *m)
{
    m->epoch = m->epoch ? m->epoch : 1;
    demand_ok(hub_take_home(&w->h, 0, m, pl_now_ms()), "a home's report ends the hub");
    pl_message_destroy(m);
}

static void put_record(pl_buf *records, pl_buf *record)
{
    pl_put_bytes(records, PL_TAG_RECORD, record->data, record->len);
    pl_buf_clear(record);
}

static void tell_state(world *w)
{
    pl_message m;
    pl_buf record = {0};
    w->h.homes[0].asked_ms = pl_now_ms() + 1; /* newer than every event */
    pl_message_init(&m, PL_MSG_STATE_IS);
    pl_put_text(&record, PL_TAG_ARM, arm.name);
    pl_put_hash(&record, PL_TAG_ARM_BLOB, &blob);
    put_record(&m.data, &record);
    for (int module = 0; module < pl_topology_n_modules(topology); module++) {
        char name[96];
        pl_arm_module_name(&arm, topology, module, name);
        int64_t least = w->told[0] < w->told[1] ? w->told[0] : w->told[1];
        pl_put_text(&record, PL_TAG_MODULE, name);
        pl_put_u64(&record, PL_TAG_VERSION, (uint64_t)least);
        put_record(&m.data, &record);
    }
    for (int p = 0; p < FUZZ_PATHS; p++) {
        char name[96];
        pl_arm_path_name(&arm, topology, p, 0, name);
        pl_put_text(&record, PL_TAG_NAME, name);
        pl_put_u64(&record, PL_TAG_PHASE, (uint64_t)w->told[p]);
        pl_put_u64(&record, PL_TAG_TOKENS, 16);
        pl_put_f64(&record, PL_TAG_LOSS, 2);
        pl_put_f64(&record, PL_TAG_SECONDS, 1);
        put_record(&m.data, &record);
    }
    pl_put_u64(&m.body, PL_TAG_TOTAL, m.data.len);
    pl_put_u64(&m.body, PL_TAG_OFFSET, 0);
    pl_put_u64(&m.body, PL_TAG_SEQUENCE, 0);
    pl_buf_destroy(&record);
    tell_hub(w, &m);
}

static void tell_arm(world *w)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_BLOB);
    pl_put_u64(&m.body, PL_TAG_TOTAL, definition.len);
    pl_buf_append(&m.data, definition.data, definition.len);
    tell_hub(w, &m);
}

/* Reports that a path has finished a phase. The new versions follow in the home's next
 * message about its state. */
static void tell_progress(world *w)
{
    int index = (int)dice_roll(&w->d, FUZZ_PATHS);
    const plan_path *path = path_of(w, index);
    pl_message m;
    if (!path || w->told[index] >= arm.inner.phases || w->told[index] > w->told[!index])
        return;
    const plan_lease *l =
        path->backup.active && dice_is(&w->d, 2) ? &path->backup : &path->lease;
    const hub_worker *by =
        w->h.n_workers > 0 && !dice_is(&w->d, 8) ? &w->h.workers[l->worker] : NULL;
    m = (pl_message){.token = dice_is(&w->d, 4) ? 0 : l->token};
    PL_SAY(&m, EVENT, path_record, .name = path->name, .phase = ++w->told[index],
           .work.n_tokens = 16, .work.loss = 2, .work.seconds = 1,
           .worker = by ? by->name : NULL, .key = by ? by->key.bytes : NULL);
    tell_hub(w, &m);
    if (by && by->delivered)
        reach("a worker has delivered");
}

static void tend(world *w)
{
    bool more = false;
    demand_ok(hub_tend(&w->h, pl_now_ms(), &more), "the hub ends by itself");
}

/* Answers the hub's questions about the updates of audited tasks. Each answer names a
 * worker at random, so the updates of a task may come from different workers. */
static void tell_updates(world *w)
{
    for (size_t i = 0; i < w->h.n_audits; i++)
        for (int slot = 0; slot < w->h.audits[i].n_parts - 1; slot++) {
            pl_message m;
            char name[PL_TEXT_MAX];
            if (w->h.audits[i].parts[slot].request == 0)
                continue;
            name_sender((int)dice_roll(&w->d, WORKERS), name);
            pl_message_init(&m, PL_MSG_UPDATE_IS);
            m.request = w->h.audits[i].parts[slot].request;
            pl_put_text(&m.body, PL_TAG_NAME, name);
            pl_put_text(&m.body, PL_TAG_DEVICE, dice_is(&w->d, 16) ? "gpu" : "cpu");
            pl_put_hash(&m.body, PL_TAG_BLOB, &blob);
            tell_hub(w, &m);
        }
}

/* Answers the hub's orders to drop the results of a task. */
static void tell_dropped(world *w)
{
    for (size_t i = 0; i < w->h.n_audits; i++) {
        const hub_audit *a = &w->h.audits[i];
        pl_message m = {.type = PL_MSG_OK, .request = a->drops[0]};
        if (a->drops[0] != 0 && !a->dropped[0])
            tell_hub(w, &m);
    }
    tend(w); /* the verdict follows */
}

/* Reports that a task was drawn for an audit. Then answers the hub's questions about
 * it. */
static void tell_audit(world *w)
{
    pl_audit a = {.n = 1, .tries = 1 + (int64_t)dice_roll(&w->d, 3)};
    pl_message m;
    pl_buf text = {0};
    const plan_path *path = path_of(w, (int)dice_roll(&w->d, FUZZ_PATHS));
    if (!path || path->phase == 0)
        return;
    pl_copy_text(a.path, sizeof a.path, path->name);
    a.phase = path->phase - 1;
    a.after = blob;
    name_sender((int)dice_roll(&w->d, WORKERS), a.results[0].worker);
    pl_copy_text(a.results[0].device, sizeof a.results[0].device, "cpu");
    pl_audit_write(&a, &text);
    pl_message_init(&m, PL_MSG_EVENT);
    pl_put_text(&m.body, PL_TAG_TEXT, pl_buf_text(&text));
    pl_put_u64(&m.body, PL_TAG_AUDIT, 1);
    pl_buf_destroy(&text);
    tell_hub(w, &m);
    tend(w);
    tell_updates(w);
    for (int i = 0; i < OWN && dice_is(&w->d, 2); i++) { /* an own worker repeats it */
        say(w, i, PL_MSG_TASK_REQ);
        tend(w);
        say(w, i, PL_MSG_DONE);
        tend(w);
        tell_dropped(w);
    }
}

/* ---- messages with wrong content ---- */
static void say_spoilt(world *w)
{
    known k;
    draft d;
    pl_message m;
    int sender = (int)dice_roll(&w->d, SENDERS);
    const int kind = draft_choose(&w->d, AT_HUB);
    know(w, sender, kind, &k);
    if (sender == ADMIN) /* which asks the hub to drain a worker */
        name_sender((int)dice_roll(&w->d, WORKERS), k.worker);
    draft_fill(&d, kind, &k);
    for (uint32_t n = dice_roll(&w->d, 4); n > 0; n--)
        draft_spoil(&d, &k, &w->d);
    draft_message(&d, &w->d, &m);
    draft_clear(&d);
    send_as(w, sender, &m);
    pl_message_destroy(&m);
}

/* Sends a wrong message of a home. The hub believes what a home reports about paths.
 * Therefore EVENT, which reports progress of paths, is not among these messages. */
static void tell_spoilt(world *w)
{
    static const pl_message_type types[] = {PL_MSG_UPDATE_IS, PL_MSG_STATE_IS,
                                            PL_MSG_WELCOME, PL_MSG_ERR};
    known k;
    draft d;
    pl_message m;
    know(w, 0, -1, &k);
    draft_fill(&d, draft_kind(types[dice_roll(&w->d, 4)]), &k);
    draft_spoil(&d, &k, &w->d);
    draft_message(&d, &w->d, &m);
    draft_clear(&d);
    m.request =
        dice_is(&w->d, 2) && w->h.n_audits > 0 ? w->h.audits[0].parts[0].request : 1;
    tell_hub(w, &m);
}

static void age_leases(world *w)
{
    bool overdue = dice_is(&w->d, 2);
    for (int p = 0; path_of(w, p) && p < FUZZ_PATHS; p++) {
        path_of(w, p)->lease.deadline_ms -= overdue ? 0 : TTL_MS;
        path_of(w, p)->lease.granted_ms -= overdue ? LONG_MS : 0;
    }
    for (size_t i = 0; i < w->h.n_audits; i++) {
        hub_audit *a = &w->h.audits[i];
        a->lease.deadline_ms -= TTL_MS;
        if (overdue && a->lacks_ms > 0)
            a->lacks_ms = a->lacks_ms > 20 * TTL_MS ? a->lacks_ms - 20 * TTL_MS : 1;
        a->asked_ms = 0;
    }
    for (int i = 0; i < w->h.n_workers; i++)
        w->h.workers[i].waiting_since_ms -= overdue ? TTL_MS : 0;
    w->h.expired_ms = w->h.overdue_ms = 0;
    w->h.known_ms -= TTL_MS; /* a new hub has waited for the leases of the one before */
}

/* ---- one input ---- */
static void check_state(world *w)
{
    for (int p = 0; path_of(w, p) && p < FUZZ_PATHS; p++) {
        const plan_path *path = path_of(w, p);
        fuzz_demand(plan_n_confirmed(path) >= w->phases[p],
                    "the number of phases that count became lower");
        fuzz_demand(path->phase <= w->told[p], "the hub believes in progress that no "
                                               "home reported");
        fuzz_demand(!path->lease.active || path->lease.token >= w->tokens[p] ||
                        path->lease.token >> 32 < w->epoch,
                    "the token of a path's lease became lower");
        fuzz_demand(path->lease.token >> 32 <= w->epoch,
                    "a lease is of a hub that does not exist yet");
        fuzz_demand(!path->backup.active || path->backup.worker != path->lease.worker,
                    "a worker is its own backup");
        w->phases[p] = plan_n_confirmed(path);
        if (path->lease.active && path->lease.token > w->tokens[p])
            w->tokens[p] = path->lease.token;
    }
    const plan_path *first = path_of(w, 0), *second = path_of(w, 1);
    fuzz_demand(!first || !first->lease.active || !second->lease.active ||
                    first->lease.token != second->lease.token,
                "two paths have the same token");
    fuzz_demand(w->h.n_queued <= w->h.n_workers, "the queue is too long");
}

static void check_status(world *w)
{
    pl_buf out = {0};
    pl_json *json = NULL;
    hub_status_json(&w->h, &out);
    demand_ok(pl_json_parse((const char *)out.data, out.len, &json),
              "the status is not JSON");
    pl_json_destroy(&json);
    pl_buf_destroy(&out);
}

static void begin(world *w)
{
    pl_message m;
    w->options = (pl_hub_options){.n_homes = 1,
                                  .ttl_ms = TTL_MS,
                                  .keys = keys_at,
                                  .devices = w->d.len % 2 ? "gpu" : NULL,
                                  .backup = PL_BACKUP_AUTO,
                                  .audits = true};
    w->h = (hub){.options = &w->options,
                 .socket = listens,
                 .worker_names = pl_name_table_create(),
                 .homes = pl_alloc(PL_HOMES_MAX * sizeof(hub_home)),
                 .n_homes = 1,
                 .started_ms = pl_now_ms()};
    w->h.tasks.fits = hub_fits_new;
    w->h.tasks.context = &w->h;
    w->h.tasks.audits = true;
    memset(w->h.secret.bytes, (int)++w->epoch, sizeof w->h.secret.bytes);
    memset(w->valid, 0, sizeof w->valid);
    if (!has_list)
        demand_ok(pl_key_list_edit(keys_at, put_invitation, NULL),
                  "the list of keys cannot be written");
    has_list = true;
    pl_copy_text(w->h.homes_at[0], sizeof w->h.homes_at[0], home_at);
    w->h.homes[0].socket = line;
    pl_message_init(&m, PL_MSG_WELCOME);
    pl_put_bytes(&m.body, PL_TAG_SECRET, w->before.bytes, sizeof w->before.bytes);
    pl_put_u64(&m.body, PL_TAG_VERSION, w->epoch);
    tell_hub(w, &m);
    tell_state(w);
    tend(w);
    tell_arm(w);
    tell_state(w);
    tend(w);
    for (int i = 0; i < WORKERS; i++)
        say(w, i, PL_MSG_HELLO);
}

static void end(world *w)
{
    pl_keypair_wipe(&w->h.mates);
    w->h.homes[0].socket = NULL; /* the next hub uses it */
    hub_close_homes(&w->h);
    hub_clear_audits(&w->h);
    plan_clear(&w->h.tasks);
    pl_name_table_destroy(&w->h.worker_names);
    pl_free(w->h.workers);
    pl_free(w->h.queue);
}

/* A new hub knows no lease, until a worker shows it one of the hub before. */
static void replace_hub(world *w)
{
    w->before = w->h.secret;
    end(w);
    begin(w);
    tend(w);
}

static void step(world *w)
{
    int sender = (int)dice_roll(&w->d, WORKERS);
    switch (dice_roll(&w->d, 12)) {
    case 0:
    case 1:
        say(w, sender, PL_MSG_TASK_REQ);
        tend(w);
        break;
    case 2:
        say(w, sender, PL_MSG_RENEW);
        break;
    case 3:
        say(w, sender, PL_MSG_DONE);
        break;
    case 4:
        say(w, sender, PL_MSG_RELEASE);
        break;
    case 5:
        tell_progress(w);
        tell_state(w);
        tell_dropped(w);
        break;
    case 6:
        tell_audit(w);
        break;
    case 7:
        tell_spoilt(w);
        break;
    case 8:
        age_leases(w);
        w->n_connects += dice_is(&w->d, 2); /* the hub must tell all tokens again */
        tend(w);
        if (dice_is(&w->d, 4))
            replace_hub(w);
        break;
    default:
        say_spoilt(w);
    }
    check_state(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    world *w = &now;
    reach_begin_input();
    prepare();
    memset(w, 0, sizeof *w);
    w->d = (dice){.bytes = data, .len = len};
    begin(w);
    for (int n = 0; w->d.n < len && n < STEPS_MAX; n++)
        step(w);
    if (len > 0 && data[0] % 32 == 0) /* it takes as long as a hundred messages */
        check_status(w);
    end(w);
    return 0;
}

/* Not demanded: what fewer than one input in a thousand reaches (odd, undecided), and
 * LOG_IS, because a hub finds its log only if it is a file. */
void fuzz_end(void)
{
    static const char *const must[] = {"a task is leased",
                                       "a worker has delivered",
                                       "a task is repeated",
                                       "a result is dropped",
                                       "agreed",
                                       "unchecked",
                                       "FENCE_WORKER",
                                       "RENEWED",
                                       "LEASE_LOST",
                                       "NO_WORK",
                                       "ENROLLED",
                                       "HELLO",
                                       "DONE",
                                       "RELEASE",
                                       "OFFER",
                                       "DRAIN",
                                       "STATUS_IS",
                                       NULL};
    reach_report(must, 8000);
}

/* Gives the seeds: random messages of all kinds. Every second seed also has correct
 * tasks of every worker. */
void fuzz_seeds(void (*give)(const void *data, size_t len))
{
    enum { LEN = 160 };
    for (uint64_t seed = 0; seed < 64; seed++) {
        uint8_t bytes[LEN];
        for (uint64_t i = 0; i < LEN; i++)
            bytes[i] = (uint8_t)pl_random_u32(seed, 3, i);
        for (size_t i = 0; i + 8 < LEN && seed % 2 == 0; i += 20) {
            const uint8_t turn[] = {
                (uint8_t)(i % WORKERS), 0, 0, (uint8_t)(i % WORKERS), 3, 0, 0, 5};
            memcpy(bytes + i, turn, sizeof turn);
        }
        give(bytes, seed % 4 == 3 ? LEN / 4 : LEN);
    }
}
