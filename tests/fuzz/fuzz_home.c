/* folder: home; runs: 2000
 *
 * Fuzzes a home with many messages. The input chooses the sender and the kind of each
 * message. Between correct tasks there are messages with wrong content, restarts of the
 * home, and commits. A home commits the changes of a group of messages together.
 *
 * No message may end the home, and uploads must stay within store.staging. The version
 * of a module and the phase of a path must never become lower, also not after a restart
 * from disk. An administrator may move names to another home. So if an administrator is
 * among the senders, versions and phases are not compared. */
#include "tests/fuzz/a_home.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/reach.h"

#include <stdio.h>

enum { STEPS_MAX = 60, SLOTS_MAX = 4, PHASES_MAX = 8, HUB = 3, ADMIN = 5 };

static const pl_key_role roles[] = {PL_AS_WORKER, PL_AS_WORKER, PL_AS_RELAY,
                                    PL_AS_HUB,    PL_AS_INVITE, PL_AS_ADMIN};
enum { SENDERS = sizeof roles / sizeof *roles };

typedef struct world {
    home h;
    pl_home_options options;
    dice d;
    bool has_admin;
    uint64_t versions[64];
    int64_t phases[FUZZ_PATHS];
} world;

static char folder[PL_PATH_MAX], store_at[PL_PATH_MAX];
static pl_socket *listens;
static pl_arm arm;
static pl_topology *topology;
/* what workers send: the update of each slot and phase, and the state of a path */
static pl_buf updates[SLOTS_MAX][PHASES_MAX], state;

/* ---- data that all inputs share ---- */
static void remove_folder(void)
{
    pl_wire_close(&listens);
    for (int i = 0; i < SLOTS_MAX * PHASES_MAX; i++)
        pl_buf_destroy(&updates[i / PHASES_MAX][i % PHASES_MAX]);
    pl_buf_destroy(&state);
    (void)pl_remove_tree(folder);
}

static void prepare(void)
{
    if (listens)
        return;
    fuzz_prepare("home", folder, &listens);
    atexit(remove_folder);
    pl_join(store_at, folder, "store"); /* a new one for each input */
    fuzz_arm(&arm, &topology);
    const int n_slots = pl_topology_n_slots(topology);
    fuzz_demand(n_slots <= SLOTS_MAX && arm.inner.phases <= PHASES_MAX,
                "the arm is too large");
    for (int i = 0; i < n_slots * PHASES_MAX; i++)
        fuzz_update(&arm, topology, i / PHASES_MAX, (uint64_t)(i % PHASES_MAX),
                    &updates[i / PHASES_MAX][i % PHASES_MAX]);
    state.len = (size_t)pl_path_state_bytes(&arm, pl_topology_path_params(topology));
    pl_buf_reserve(&state, state.len);
    memset(state.data, 0, state.len);
}

static const pl_lease_secret hub_secret = {{1}};

/* ---- messages ---- */
static void send_as(world *w, int sender, pl_message *m)
{
    pl_peer peer = fuzz_peer(sender, roles[sender]);
    m->epoch = w->h.hub_epoch; /* of the newest hub */
    reach_ask(m);
    if (pl_role_allows(peer.role, m->type) && m->type != PL_MSG_STOP)
        demand_ok(home_take(&w->h, &peer, m), "a message ends the home");
    fuzz_demand(!w->h.broken, "a message breaks the home");
    fuzz_demand(w->h.uploads.bytes <= STAGING, "uploads exceed store.staging");
}

/* Makes a lease for the sender's next task of this path, as the hub does. */
static void lease_for(world *w, int sender, int path, known *k)
{
    uint64_t fence = w->h.n_arms > 0 ? w->h.arms[0].paths[path].fence : 0;
    k->token = fence < UINT64_MAX - SENDERS ? fence + 1 + (uint64_t)sender : fence;
    if (w->h.n_arms > 0) {
        home_path *to = &w->h.arms[0].paths[path];
        to->fence = to->valid[sender % 2] = k->token;
    }
    fuzz_lease(&hub_secret, arm.name, path, sender, k);
}

/* Uploads a blob and sets k->blob to its hash. If `k` has a lease, the upload happens
 * under this lease. */
static void put_blob(world *w, int sender, const void *data, size_t bytes, known *k)
{
    pl_message m;
    pl_blob_hash(data, bytes, &k->blob);
    fuzz_upload(k, &k->blob, data, bytes, &m);
    send_as(w, sender, &m);
    pl_message_destroy(&m);
}

static void name_sender(int sender, known *k)
{
    memset(k, 0, sizeof *k);
    snprintf(k->worker, sizeof k->worker, "worker-%d", sender);
    snprintf(k->other, sizeof k->other, "worker-%d", !sender);
    pl_copy_text(k->device, sizeof k->device, "cpu");
    pl_copy_text(k->arm, sizeof k->arm, "mix");
    pl_copy_text(k->codec, sizeof k->codec, "f32");
    pl_copy_text(k->object, sizeof k->object, "router/mix");
    pl_copy_text(k->text, sizeof k->text, "1 1");
    memset(k->key.bytes, 1 + sender, sizeof k->key.bytes);
    k->samples = (uint64_t)(arm.inner.tau * arm.inner.batch);
}

static const home_arm *the_arm(const world *w)
{
    return w->h.n_arms > 0 ? &w->h.arms[0] : NULL;
}

static void know_module(const world *w, int slot, int path, known *k)
{
    const home_arm *a = the_arm(w);
    int module = pl_topology_module_of_path(topology, slot, path);
    pl_arm_module_name(&arm, topology, module, k->module);
    pl_arm_path_name(&arm, topology, path, 0, k->path);
    k->index = path;
    if (!a)
        return;
    k->version = a->modules[module].version;
    k->base = a->modules[module].params;
    k->phase = a->paths[path].state.phase;
    k->first_sample = (uint64_t)k->phase * k->samples;
}

static void say(world *w, int sender, int kind, const known *k)
{
    draft d;
    pl_message m;
    draft_fill(&d, kind, k);
    draft_message(&d, NULL, &m);
    draft_clear(&d);
    send_as(w, sender, &m);
    pl_message_destroy(&m);
}

static void send_update(world *w, int sender, int slot, int path)
{
    known k;
    name_sender(sender, &k);
    know_module(w, slot, path, &k);
    lease_for(w, sender, path, &k);
    const pl_buf *update = &updates[slot][k.phase % PHASES_MAX];
    put_blob(w, sender, update->data, update->len, &k);
    say(w, sender, draft_kind(PL_MSG_SUBMIT), &k);
}

/* Sends all messages of the path's next task, as an honest worker does. */
static void send_task(world *w, int path, int sender)
{
    known k;
    for (int slot = 0; slot < pl_topology_n_slots(topology); slot++)
        send_update(w, sender, slot, path);
    name_sender(sender, &k);
    know_module(w, 0, path, &k);
    lease_for(w, sender, path, &k);
    k.phase++;
    k.samples *= (uint64_t)k.phase;
    put_blob(w, sender, state.data, state.len, &k);
    say(w, sender, draft_kind(PL_MSG_SUBMIT_PATH), &k);
}

static void send_spoilt(world *w)
{
    known k;
    draft d;
    pl_message m;
    int sender = (int)dice_roll(&w->d, (uint32_t)(SENDERS - !w->has_admin));
    name_sender(sender, &k);
    int path = (int)dice_roll(&w->d, FUZZ_PATHS);
    know_module(w, (int)dice_roll(&w->d, (uint32_t)pl_topology_n_slots(topology)), path,
                &k);
    if (dice_is(&w->d, 2))
        lease_for(w, dice_is(&w->d, 4) ? !sender : sender, path, &k);
    if (dice_is(&w->d, 2))
        k.blob = k.base;
    pl_copy_text(k.address, sizeof k.address, "tcp://127.0.0.1:1");
    if (dice_is(&w->d, 2))
        pl_copy_text(k.object, sizeof k.object, "arm/mix");
    draft_fill(&d, draft_choose(&w->d, AT_HOME), &k);
    for (uint32_t n = dice_roll(&w->d, 4); n > 0; n--)
        draft_spoil(&d, &k, &w->d);
    draft_message(&d, &w->d, &m);
    draft_clear(&d);
    /* what this sender may not send, the next one does that may */
    for (int i = 0; i < SENDERS && !pl_role_allows(roles[sender], m.type); i++)
        sender = (sender + 1) % (SENDERS - !w->has_admin);
    send_as(w, sender, &m);
    pl_message_destroy(&m);
}

/* ---- the commit of a group of messages, and a restart from disk ---- */
static void check_progress(world *w)
{
    const home_arm *a = the_arm(w);
    fuzz_demand(a != NULL, "the home has lost the arm");
    for (int m = 0; m < pl_topology_n_modules(topology); m++) {
        fuzz_demand(w->has_admin || a->modules[m].version >= w->versions[m],
                    "the version of a module became lower");
        w->versions[m] = a->modules[m].version;
    }
    for (int p = 0; p < FUZZ_PATHS; p++) {
        fuzz_demand(w->has_admin || a->paths[p].state.phase >= w->phases[p],
                    "the phase of a path became lower");
        w->phases[p] = a->paths[p].state.phase;
    }
}

static void end_group(world *w)
{
    pl_peer peer;
    pl_message m;
    while (home_next_waiting(&w->h, &peer, &m)) {
        demand_ok(home_take(&w->h, &peer, &m), "a message that waited ends the home");
        pl_message_destroy(&m);
    }
    demand_ok(home_end_group(&w->h), "a commit fails");
    demand_ok(home_grant_room(&w->h), "a home cannot give room");
    if (!home_is_still(&w->h))
        demand_ok(home_merge_ready(&w->h), "a merge fails");
    check_progress(w);
}

/* Plays the hub: sends a verdict about every open audit. */
static void judge_audits(world *w, pl_verdict verdict)
{
    pl_buf records = {0};
    pl_reader all, r;
    home_audit_records(&w->h, &records);
    pl_reader_open(&all, "records", records.data, records.len);
    for (size_t i = 0; i < pl_field_count(&all, PL_TAG_RECORD); i++) {
        size_t len = 0;
        char text[PL_AUDIT_TEXT_MAX];
        pl_audit row;
        pl_buf out = {0};
        pl_message drop = {.token = UINT64_MAX / 2}, m = {0};
        const uint8_t *at = pl_get_bytes(&all, PL_TAG_RECORD, i, &len);
        pl_reader_open(&r, "a record", at, len);
        if (pl_field_count(&r, PL_TAG_AUDIT) == 0)
            continue; /* a fenced worker */
        pl_get_text(&r, PL_TAG_TEXT, 0, text, sizeof text);
        demand_ok(pl_audit_read(text, &row), "a home's row cannot be read");
        for (int slot = 0; slot < pl_topology_n_slots(topology); slot++) {
            known k;
            name_sender(HUB, &k);
            know_module(w, slot, row.path[strlen("mix/p")] - '0', &k);
            k.phase = row.phase;
            say(w, HUB, draft_kind(PL_MSG_GET_UPDATE), &k);
        }
        row.verdict = verdict;
        pl_audit_write(&row, &out);
        PL_SAY(&drop, FENCE, fence, .name = row.path, .phase = row.phase, .audit = 1);
        if (pl_verdict_drops(verdict))
            send_as(w, HUB, &drop);
        reach(pl_verdict_name(verdict));
        PL_SAY(&m, PUT_AUDIT, put_audit, .row_text = pl_buf_text(&out));
        send_as(w, HUB, &m);
        pl_message_destroy(&drop);
        pl_message_destroy(&m);
        pl_buf_destroy(&out);
    }
    pl_buf_destroy(&records);
    end_group(w);
    fuzz_demand(w->h.n_audits == 0, "a verdict leaves its audit open");
}

static void open_home(world *w)
{
    fuzz_open_home(&w->h, &w->options, store_at, 0.5, listens);
}

/* Says HELLO as the hub, with the secret with which leases are sealed. */
static void say_hub_hello(world *w)
{
    pl_message m;
    pl_message_init(&m, 0);
    PL_SAY(&m, HELLO, hello_home, .role = "hub", .ttl_ms = 60000,
           .secret = hub_secret.bytes);
    send_as(w, HUB, &m);
    pl_message_destroy(&m);
    pl_message_init(&m, 0);
    PL_SAY(&m, GET_STATE, get_state, .offset = 0); /* from now on it gets events */
    send_as(w, HUB, &m);
    pl_message_destroy(&m);
    fuzz_demand(w->h.n_secrets > 0, "a hub said HELLO, but the home has no secret");
}

/* Restarts the home, and merges the rounds that were complete but not yet merged when
 * the home ended. */
static void start_again(world *w)
{
    end_group(w);
    fuzz_close_home(&w->h);
    open_home(w);
    fuzz_demand(w->h.n_secrets == 0, "a home has stored the secret of leases");
    say_hub_hello(w);
    demand_ok(home_merge_ready(&w->h), "a merge fails after a start");
    check_progress(w);
}

static void publish(world *w)
{
    known k;
    pl_buf bytes = {0};
    name_sender(ADMIN, &k);
    float *start = pl_alloc(pl_topology_path_params(topology) * sizeof *start);
    for (int m = 0; m < pl_topology_n_modules(topology); m++) {
        int slot = pl_topology_module_slot(topology, m);
        pl_topology_init(topology, slot, (uint64_t)m, start);
        pl_arm_module_name(&arm, topology, m, k.module);
        put_blob(w, ADMIN, start,
                 pl_topology_slot(topology, slot)->n_params * sizeof *start, &k);
        say(w, ADMIN, draft_kind(PL_MSG_CREATE_MODULE), &k);
    }
    pl_arm_encode(&arm, &bytes);
    put_blob(w, ADMIN, bytes.data, bytes.len, &k);
    pl_copy_text(k.object, sizeof k.object, "arm/mix");
    say(w, ADMIN, draft_kind(PL_MSG_PUT_OBJECT), &k);
    pl_buf_destroy(&bytes);
    pl_free(start);
    end_group(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static world w;
    int path;
    reach_begin_input();
    prepare();
    memset(&w, 0, sizeof w);
    w.d = (dice){.bytes = data, .len = len};
    demand_ok(pl_remove_tree(store_at), "an old store cannot be removed");
    open_home(&w);
    say_hub_hello(&w);
    publish(&w);
    send_task(&w, 0, 0);
    end_group(&w);
    judge_audits(&w, PL_VERDICT_AGREED);
    fuzz_demand(w.phases[0] == 1, "a correct task was not accepted");
    w.has_admin = dice_is(&w.d, 4);
    for (int step = 0; w.d.n < len && step < STEPS_MAX; step++)
        switch (dice_roll(&w.d, 8)) {
        case 0:
        case 1:
            path = (int)dice_roll(&w.d, FUZZ_PATHS);
            send_task(&w, path, (int)dice_roll(&w.d, 2));
            break;
        case 2:
            end_group(&w);
            if (dice_is(&w.d, 2))
                judge_audits(&w, dice_is(&w.d, 4) ? PL_VERDICT_ODD : PL_VERDICT_AGREED);
            break;
        case 3:
            if (dice_is(&w.d, 4))
                start_again(&w);
            break;
        default:
            send_spoilt(&w);
        }
    start_again(&w);
    fuzz_close_home(&w.h);
    return 0;
}

void fuzz_end(void)
{
    static const char *const must[] = {"a result is accepted",
                                       "a result is a duplicate",
                                       "a result is rejected",
                                       "agreed",
                                       "odd",
                                       "PUT_AUDIT",
                                       "FENCE",
                                       "FENCE_WORKER",
                                       "EVENT",
                                       "GET_STATE",
                                       "GET_PATH",
                                       "GET_UPDATE",
                                       "GET_VERSION",
                                       "GET_BLOB",
                                       "PUT_REF",
                                       "HOLD",
                                       "STATUS",
                                       NULL};
    reach_report(must, 2000);
}

/* Gives the seeds. Their bytes are random, so they contain tasks, commits of groups,
 * restarts, and messages of every kind. Every second seed has more correct tasks, of
 * both paths. */
void fuzz_seeds(void (*give)(const void *data, size_t len))
{
    enum { LEN = 96 };
    for (uint64_t seed = 0; seed < 64; seed++) {
        uint8_t bytes[LEN];
        for (uint64_t i = 0; i < LEN; i++)
            bytes[i] = (uint8_t)pl_random_u32(seed, 2, i);
        for (size_t i = 1; i + 4 < LEN && seed % 2 == 0; i += 12) {
            const uint8_t task[] = {0, (uint8_t)(i / 12 % 2), (uint8_t)(i % 2), 2};
            memcpy(bytes + i, task, sizeof task);
        }
        give(bytes, seed % 4 == 3 ? LEN / 4 : LEN);
    }
}
