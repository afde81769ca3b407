/* folder: home; runs: 2000
 *
 * Fuzzes a home with sequences of leases, results, and repeated messages.
 *
 * Hubs come and go, grant and take back the tasks of two paths, and tell the home of
 * each lease. Two workers keep all leases that they ever had, and send updates and
 * states under any of them, each in two variants. Any message may arrive again later,
 * between restarts of the home and messages with wrong content. One step is one
 * message. A restart loses what was not committed.
 *
 * A result under a lease that has ended must not be accepted. An accepted update must
 * be there after every commit and restart, and a phase must not end without all updates
 * of its task. A version must have each of its contributors once. Phases and versions
 * must not fall. Every sequence has an arm of its own, so that many share a store. */
#include "tests/fuzz/a_home.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/reach.h"

#include <stdio.h>

enum {
    STEPS_MAX = 120,
    TTL_MS = 1 << 30,
    SLOTS_MAX = 4,
    PHASES_MAX = 8,
    LEASES_MAX = 32,
    KEPT_MAX = 16,
    ARMS_PER_STORE = 16,
    HUB = 2,
    ADMIN = 3
};

static const pl_key_role roles[] = {PL_AS_WORKER, PL_AS_WORKER, PL_AS_HUB, PL_AS_ADMIN};

typedef struct lease {
    int path, worker;
    int64_t phase;
    uint64_t token;
    int hub;    /* number of the hub that granted it */
    bool ended; /* the hub has told the home so, or the home cannot know its secret */
    pl_sealed_lease sealed;
} lease;

/* A message that may arrive again. */
typedef struct kept {
    int sender;
    pl_message message;
    const pl_buf *blob; /* the bytes that the message names, or NULL */
    known about;
} kept;

typedef struct world {
    dice d;
    lease leases[LEASES_MAX];
    int n_leases, valid[FUZZ_PATHS][2]; /* of the newest hub: index + 1; 0: none */
    kept kept[2][KEPT_MAX];             /* of workers, and of hubs */
    int n_kept[2];
    uint64_t counter, granted[FUZZ_PATHS]; /* newest token of this hub, by path */
    /* updates that the home has accepted: in all, and before the last commit */
    bool accepted[FUZZ_PATHS][PHASES_MAX][SLOTS_MAX];
    bool durable[FUZZ_PATHS][PHASES_MAX][SLOTS_MAX];
    uint64_t versions[SLOTS_MAX * FUZZ_PATHS];
    int64_t phases[FUZZ_PATHS];
} world;

static char folder[PL_PATH_MAX], store_at[PL_PATH_MAX];
static pl_socket *listens;
static pl_arm arm;
static pl_topology *topology;
static pl_buf updates[SLOTS_MAX][2], states[2];
static pl_hash update_hashes[SLOTS_MAX][2], state_hashes[2];
static home h;
static pl_home_options options;
static const pl_buf *uploaded; /* the newest upload of a worker */
static int n_arms, n_hubs;
static uint64_t hub_epoch; /* of the newest hub; 0 until the home has told it */
static pl_lease_secret secret;

/* ---- the home ---- */
static void remove_folder(void)
{
    if (h.store)
        fuzz_close_home(&h);
    pl_wire_close(&listens);
    pl_topology_destroy(&topology);
    pl_arm_clear(&arm);
    for (int i = 0; i < SLOTS_MAX * 2; i++)
        pl_buf_destroy(&updates[i / 2][i % 2]);
    pl_buf_destroy(&states[0]);
    pl_buf_destroy(&states[1]);
    (void)pl_remove_tree(folder);
}

static void set_length(pl_buf *buf, size_t len)
{
    pl_buf_clear(buf);
    pl_buf_reserve(buf, len);
    memset(buf->data, 0, len);
    buf->len = len;
}

static void make_results(void)
{
    const size_t bytes =
        (size_t)pl_path_state_bytes(&arm, pl_topology_path_params(topology));
    for (int v = 0; v < 2; v++) {
        const float last = v ? 1e-9f : 0;
        set_length(&states[v], bytes);
        if (bytes >= sizeof last)
            memcpy(states[v].data + bytes - sizeof last, &last, sizeof last);
        pl_blob_hash(states[v].data, bytes, &state_hashes[v]);
    }
    for (int slot = 0; slot < pl_topology_n_slots(topology); slot++)
        for (int v = 0; v < 2; v++) {
            fuzz_update(&arm, topology, slot, (uint64_t)v, &updates[slot][v]);
            pl_blob_hash(updates[slot][v].data, updates[slot][v].len,
                         &update_hashes[slot][v]);
        }
}

static void prepare(void)
{
    if (listens)
        return;
    fuzz_prepare("replay", folder, &listens);
    pl_join(store_at, folder, "store");
    fuzz_arm(&arm, &topology);
    fuzz_demand(pl_topology_n_slots(topology) <= SLOTS_MAX &&
                    arm.inner.phases <= PHASES_MAX,
                "the arm is too large");
    make_results();
}

static const home_arm *the_arm(void)
{
    return home_find_arm(&h, arm.name, strlen(arm.name));
}

/* ---- messages ---- */
/* Returns the result if the home answers with SUBMITTED, otherwise -1. */
static int send_as(int sender, pl_message *m)
{
    const pl_peer peer = fuzz_peer(sender, roles[sender]);
    const size_t before = h.n_answers;
    pl_reader r;
    if (!pl_role_allows(peer.role, m->type) || m->type == PL_MSG_STOP ||
        m->type == PL_MSG_HOLD)
        return -1;
    reach_ask(m);
    demand_ok(home_take(&h, &peer, m), "a message ends the home");
    fuzz_demand(!h.broken, "a message breaks the home");
    fuzz_demand(h.uploads.bytes <= STAGING, "uploads exceed store.staging");
    if (h.n_answers != before + 1 || h.answers[before].message.type != PL_MSG_SUBMITTED)
        return -1;
    const pl_message *a = &h.answers[before].message;
    pl_reader_open(&r, "SUBMITTED", a->body.data, a->body.len);
    return (int)pl_get_u64(&r, PL_TAG_RESULT, 0);
}

static void keep(world *w, int sender, const pl_message *m, const known *about)
{
    const bool is_hub = sender == HUB;
    kept *k = &w->kept[is_hub][w->n_kept[is_hub]++ % KEPT_MAX];
    pl_message_destroy(&k->message);
    pl_message_init(&k->message, m->type);
    k->sender = sender;
    k->blob = about->lease_len > 0 ? uploaded : NULL;
    k->about = *about;
    k->message.epoch = m->epoch;
    k->message.token = m->token;
    pl_buf_append(&k->message.body, m->body.data, m->body.len);
    pl_buf_append(&k->message.data, m->data.data, m->data.len);
}

static int say(world *w, int sender, int kind, const known *k, bool spoils)
{
    draft d;
    pl_message m;
    draft_fill(&d, kind, k);
    for (uint32_t n = spoils ? 1 + dice_roll(&w->d, 3) : 0; n > 0; n--)
        draft_spoil(&d, k, &w->d);
    draft_message(&d, spoils ? &w->d : NULL, &m);
    draft_clear(&d);
    keep(w, sender, &m, k);
    const int result = send_as(sender, &m);
    pl_message_destroy(&m);
    return result;
}

static void put_blob(int sender, const pl_buf *bytes, const pl_hash *hash,
                     const known *k)
{
    pl_message m;
    if (sender != ADMIN)
        uploaded = bytes;
    fuzz_upload(k, hash, bytes->data, bytes->len, &m);
    (void)send_as(sender, &m);
    pl_message_destroy(&m);
}

/* What a worker knows of its task: names, the versions that the task began with, and
 * the lease. */
static void know(const lease *l, int slot, int path, known *k)
{
    const home_arm *a = the_arm();
    const int module = pl_topology_module_of_path(topology, slot, path);
    memset(k, 0, sizeof *k);
    snprintf(k->worker, sizeof k->worker, "worker-%d", l ? l->worker : 0);
    pl_copy_text(k->device, sizeof k->device, "cpu");
    pl_copy_text(k->arm, sizeof k->arm, arm.name);
    pl_copy_text(k->codec, sizeof k->codec, "f32");
    pl_copy_text(k->object, sizeof k->object, "router/mix");
    pl_arm_module_name(&arm, topology, module, k->module);
    pl_arm_path_name(&arm, topology, path, 0, k->path);
    k->index = path;
    k->samples = (uint64_t)(arm.inner.tau * arm.inner.batch);
    if (a) {
        k->version = a->modules[module].version;
        k->base = a->modules[module].params;
        k->phase = a->paths[path].state.phase;
    }
    if (l) {
        k->phase = l->phase;
        k->token = l->token;
        k->lease_len = l->sealed.len;
        memcpy(k->lease, l->sealed.bytes, l->sealed.len);
        k->task_key = l->sealed.key;
    }
    k->first_sample = (uint64_t)k->phase * k->samples;
}

static bool has_update(int path, int64_t phase, int slot)
{
    const home_arm *a = the_arm();
    const home_module *m =
        &a->modules[pl_topology_module_of_path(topology, slot, path)];
    return phase < (int64_t)m->version + m->of->window &&
           home_has_update(a, m, phase, path);
}

/* ---- hubs ---- */
static void tell_fence(world *w, int path)
{
    known k;
    pl_message m = {.token = w->granted[path], .epoch = hub_epoch};
    uint64_t valid[2];
    size_t n = 0;
    for (int i = 0; i < 2; i++)
        if (w->valid[path][i])
            valid[n++] = w->leases[w->valid[path][i] - 1].token;
    know(NULL, 0, path, &k);
    PL_SAY(&m, FENCE, fence, .name = k.path, .token = PL_ITEMS(valid, n));
    keep(w, HUB, &m, &k);
    (void)send_as(HUB, &m);
    pl_message_destroy(&m);
}

static void end_others(world *w, int path)
{
    for (int i = 0; i < w->n_leases; i++)
        if (w->leases[i].path == path && w->valid[path][0] != i + 1 &&
            w->valid[path][1] != i + 1)
            w->leases[i].ended = true;
}

/* Grants the path's task; half the time as a backup, if the path has a lease. */
static void grant(world *w)
{
    const int path = (int)dice_roll(&w->d, FUZZ_PATHS);
    const bool is_backup = w->valid[path][0] && dice_is(&w->d, 2);
    pl_lease of = {.path = path, .phase = the_arm()->paths[path].state.phase};
    if (w->n_leases == LEASES_MAX || of.phase >= arm.inner.phases)
        return;
    lease *l = &w->leases[w->n_leases++];
    *l = (lease){.path = path,
                 .worker = (int)dice_roll(&w->d, 2),
                 .phase = of.phase,
                 .token = hub_epoch << 32 | ++w->counter,
                 .hub = n_hubs};
    of.token = w->granted[path] = l->token;
    of.key = fuzz_peer(l->worker, PL_AS_WORKER).key;
    pl_copy_text(of.arm, sizeof of.arm, arm.name);
    snprintf(of.worker, sizeof of.worker, "worker-%d", l->worker);
    pl_copy_text(of.device, sizeof of.device, "cpu");
    pl_lease_seal(&secret, &of, &l->sealed);
    w->valid[path][1] = is_backup ? w->valid[path][0] : 0;
    w->valid[path][0] = w->n_leases;
    tell_fence(w, path);
    end_others(w, path);
}

static void take_back(world *w)
{
    const int path = (int)dice_roll(&w->d, FUZZ_PATHS);
    if (w->granted[path] == 0)
        return;
    if (dice_is(&w->d, 2))
        w->valid[path][0] = w->valid[path][1];
    w->valid[path][1] = 0;
    tell_fence(w, path);
    end_others(w, path);
}

static void say_hello(void)
{
    pl_message m = {0};
    PL_SAY(&m, HELLO, hello_home, .role = "hub", .ttl_ms = TTL_MS,
           .secret = secret.bytes, .version = (int64_t)hub_epoch);
    (void)send_as(HUB, &m);
    pl_message_destroy(&m);
    fuzz_demand(h.n_secrets > 0 &&
                    memcmp(h.secrets[0].bytes, secret.bytes, sizeof secret) == 0,
                "a hub said HELLO, but the home does not have its secret");
    fuzz_demand(hub_epoch == 0 || h.hub_epoch == hub_epoch,
                "the epoch of a hub has changed");
    hub_epoch = h.hub_epoch;
}

/* The leases of the hub before stay valid; those of earlier ones are worth nothing. */
static void replace_hub(world *w)
{
    n_hubs++;
    memcpy(secret.bytes, &n_hubs, sizeof n_hubs);
    hub_epoch = 0;
    say_hello();
    w->counter = 0;
    memset(w->granted, 0, sizeof w->granted);
    memset(w->valid, 0, sizeof w->valid);
    for (int i = 0; i < w->n_leases; i++)
        if (w->leases[i].hub < n_hubs - 1)
            w->leases[i].ended = true;
}

/* A hub that was replaced tries to go on. */
static void old_hub_hello(void)
{
    pl_lease_secret old = secret;
    const int number = n_hubs - 1;
    pl_message m = {0};
    memcpy(old.bytes, &number, sizeof number);
    PL_SAY(&m, HELLO, hello_home, .role = "hub", .ttl_ms = TTL_MS, .secret = old.bytes,
           .version = (int64_t)hub_epoch - 1);
    if (hub_epoch > 1)
        (void)send_as(HUB, &m);
    pl_message_destroy(&m);
    fuzz_demand(memcmp(h.secrets[0].bytes, secret.bytes, sizeof secret) == 0,
                "a hub that was replaced has its secret accepted");
}

/* ---- workers ---- */
static void send_result(world *w)
{
    const int n_slots = pl_topology_n_slots(topology);
    lease *l = &w->leases[dice_roll(&w->d, (uint32_t)w->n_leases)];
    const int slot = (int)dice_roll(&w->d, (uint32_t)n_slots + 1);
    const int variant = dice_is(&w->d, 6);
    known k;
    if (w->n_leases == 0)
        return;
    /* mostly the newest lease, so that tasks are completed */
    if (dice_is(&w->d, 2))
        l = &w->leases[w->n_leases - 1];
    know(l, slot < n_slots ? slot : 0, l->path, &k);
    if (slot < n_slots) {
        k.blob = update_hashes[slot][variant];
        put_blob(l->worker, &updates[slot][variant], &k.blob, &k);
        if (say(w, l->worker, draft_kind(PL_MSG_SUBMIT), &k, false) !=
            PL_SUBMIT_ACCEPTED)
            return;
        reach("an update is accepted");
        w->accepted[l->path][l->phase][slot] = true;
    } else {
        k.phase++;
        k.samples *= (uint64_t)k.phase;
        k.blob = state_hashes[variant];
        put_blob(l->worker, &states[variant], &k.blob, &k);
        if (say(w, l->worker, draft_kind(PL_MSG_SUBMIT_PATH), &k, false) !=
            PL_SUBMIT_ACCEPTED)
            return;
        reach("a task ends");
        for (int i = 0; i < n_slots; i++)
            fuzz_demand(has_update(l->path, l->phase, i),
                        "a phase ended without an update of its task");
    }
    fuzz_demand(!l->ended, "a result was accepted under a lease that has ended");
}

/* Sends the messages of the newest lease's task, as an honest worker does. */
static void send_task(world *w)
{
    const int n_slots = pl_topology_n_slots(topology);
    if (w->n_leases == 0)
        return;
    const lease *l = &w->leases[w->n_leases - 1];
    known k;
    for (int slot = 0; slot < n_slots; slot++) {
        know(l, slot, l->path, &k);
        k.blob = update_hashes[slot][0];
        put_blob(l->worker, &updates[slot][0], &k.blob, &k);
        if (say(w, l->worker, draft_kind(PL_MSG_SUBMIT), &k, false) ==
            PL_SUBMIT_ACCEPTED)
            w->accepted[l->path][l->phase][slot] = true;
    }
    know(l, 0, l->path, &k);
    k.phase++;
    k.samples *= (uint64_t)k.phase;
    k.blob = state_hashes[0];
    put_blob(l->worker, &states[0], &k.blob, &k);
    if (say(w, l->worker, draft_kind(PL_MSG_SUBMIT_PATH), &k, false) ==
        PL_SUBMIT_ACCEPTED)
        reach("a task ends");
}

/* A message arrives again. What it did before, it must not do again, and what was
 * refused may count now only if its lease is valid: the caller compares afterwards. */
static void repeat_message(const world *w, const kept *k, bool uploads)
{
    pl_message m;
    if (k->blob && uploads)
        put_blob(k->sender, k->blob, &k->about.blob, &k->about);
    pl_message_init(&m, k->message.type);
    m.epoch = k->message.epoch;
    m.token = k->message.token;
    pl_buf_append(&m.body, k->message.body.data, k->message.body.len);
    pl_buf_append(&m.data, k->message.data.data, k->message.data.len);
    const int result = send_as(k->sender, &m);
    if (result == PL_SUBMIT_ACCEPTED)
        reach("what came again is accepted");
    for (int i = 0; i < w->n_leases && result == PL_SUBMIT_ACCEPTED; i++) {
        const lease *l = &w->leases[i];
        pl_reader r;
        size_t len = 0;
        pl_reader_open(&r, "a message", m.body.data, m.body.len);
        const uint8_t *at = pl_get_bytes(&r, PL_TAG_LEASE, 0, &len);
        fuzz_demand(!l->ended || len != l->sealed.len ||
                        memcmp(at, l->sealed.bytes, len) != 0,
                    "an old message was accepted under a lease that has ended");
    }
    pl_message_destroy(&m);
}

static void send_again(world *w)
{
    const bool is_hub = dice_is(&w->d, 2);
    const int n = w->n_kept[is_hub] < KEPT_MAX ? w->n_kept[is_hub] : KEPT_MAX;
    if (n > 0)
        repeat_message(w, &w->kept[is_hub][dice_roll(&w->d, (uint32_t)n)],
                       dice_is(&w->d, 2));
}

static void send_spoilt(world *w)
{
    known k;
    const int path = (int)dice_roll(&w->d, FUZZ_PATHS);
    const int slot = (int)dice_roll(&w->d, (uint32_t)pl_topology_n_slots(topology));
    const lease *l = w->n_leases > 0 && dice_is(&w->d, 2)
                         ? &w->leases[dice_roll(&w->d, (uint32_t)w->n_leases)]
                         : NULL;
    know(l, slot, path, &k);
    k.blob = update_hashes[slot][dice_roll(&w->d, 2)];
    (void)say(w, (int)dice_roll(&w->d, 2), draft_choose(&w->d, AT_HOME), &k, true);
}

/* ---- checks ---- */
static void check_leases(const world *w)
{
    for (int i = 0; i < w->n_leases; i++) {
        const lease *l = &w->leases[i];
        fuzz_demand(!l->ended || l->hub < n_hubs - 1 ||
                        !home_is_valid(&the_arm()->paths[l->path], l->token),
                    "a lease that has ended became valid again");
    }
}

/* Spoilt messages may carry a correct update, so what is at the home is read, too. */
static void check_state(world *w)
{
    const home_arm *a = the_arm();
    fuzz_demand(a != NULL, "the home has lost the arm");
    for (int m = 0; m < pl_topology_n_modules(topology); m++) {
        fuzz_demand(a->modules[m].version >= w->versions[m],
                    "the version of a module became lower");
        w->versions[m] = a->modules[m].version;
    }
    for (int p = 0; p < FUZZ_PATHS; p++) {
        const int64_t phase = a->paths[p].state.phase;
        fuzz_demand(phase >= w->phases[p], "the phase of a path became lower");
        w->phases[p] = phase;
        for (int t = 0; t < arm.inner.phases; t++)
            for (int slot = 0; slot < pl_topology_n_slots(topology); slot++) {
                const bool is_in = has_update(p, t, slot);
                fuzz_demand(is_in || t >= phase,
                            "a phase has ended, but an update of it is missing");
                fuzz_demand(is_in || !w->accepted[p][t][slot],
                            "an update that was accepted is lost");
                w->accepted[p][t][slot] = is_in;
            }
    }
}

static void check_versions(void)
{
    const home_arm *a = the_arm();
    for (int m = 0; m < pl_topology_n_modules(topology); m++) {
        char name[PL_MODULE_NAME_MAX];
        pl_version v;
        unsigned seen = 0;
        if (a->modules[m].version == 0)
            continue;
        memset(&v, 0, sizeof v);
        pl_arm_module_name(&arm, topology, m, name);
        demand_ok(pl_store_get_version(h.store, name, a->modules[m].version, &v),
                  "a version cannot be read");
        fuzz_demand((int)v.n_contributions == a->modules[m].of->n_contributors,
                    "a version has a wrong number of contributions");
        for (int i = 0; i < (int)v.n_contributions; i++) {
            const unsigned bit = 1u << v.contributions[i].path;
            fuzz_demand((seen & bit) == 0, "a path counts twice in a version");
            seen |= bit;
        }
        pl_version_clear(&v);
    }
}

static void end_group(world *w)
{
    demand_ok(home_end_group(&h), "a commit fails");
    demand_ok(home_grant_room(&h), "a home cannot give room");
    demand_ok(home_merge_ready(&h), "a merge fails");
    check_state(w);
    memcpy(w->durable, w->accepted, sizeof w->durable);
}

/* Without a commit, what the home has accepted since the last one is lost. Its answers
 * have not left, so workers send it again. */
static void start_again(world *w, bool commits)
{
    if (commits)
        end_group(w);
    else
        memcpy(w->accepted, w->durable, sizeof w->durable);
    fuzz_close_home(&h);
    fuzz_open_home(&h, &options, store_at, 0, listens);
    for (int p = 0; p < FUZZ_PATHS; p++)
        if (w->granted[p])
            tell_fence(w, p);
    say_hello();
    demand_ok(home_merge_ready(&h), "a merge fails after a start");
    check_state(w);
    for (int i = w->n_kept[0] - KEPT_MAX; !commits && i < w->n_kept[0]; i++)
        if (i >= 0)
            repeat_message(w, &w->kept[0][i % KEPT_MAX], true);
}

/* ---- one input ---- */
static void publish(world *w)
{
    known k = {0};
    pl_buf bytes = {0};
    snprintf(arm.name, sizeof arm.name, "s%d", n_arms++);
    for (int m = 0; m < pl_topology_n_modules(topology); m++) {
        const int slot = pl_topology_module_slot(topology, m);
        const size_t n = pl_topology_slot(topology, slot)->n_params;
        set_length(&bytes, n * sizeof(float));
        pl_topology_init(topology, slot, (uint64_t)m, (float *)(void *)bytes.data);
        pl_arm_module_name(&arm, topology, m, k.module);
        pl_blob_hash(bytes.data, bytes.len, &k.blob);
        put_blob(ADMIN, &bytes, &k.blob, &k);
        (void)say(w, ADMIN, draft_kind(PL_MSG_CREATE_MODULE), &k, false);
    }
    pl_buf_clear(&bytes);
    pl_arm_encode(&arm, &bytes);
    pl_blob_hash(bytes.data, bytes.len, &k.blob);
    put_blob(ADMIN, &bytes, &k.blob, &k);
    snprintf(k.object, sizeof k.object, "arm/%s", arm.name);
    (void)say(w, ADMIN, draft_kind(PL_MSG_PUT_OBJECT), &k, false);
    pl_buf_destroy(&bytes);
    end_group(w);
}

static void begin(world *w)
{
    if (h.store && n_arms % ARMS_PER_STORE == 0)
        fuzz_close_home(&h);
    if (!h.store) {
        demand_ok(pl_remove_tree(store_at), "an old store cannot be removed");
        fuzz_open_home(&h, &options, store_at, 0, listens);
        if (n_arms == 0) /* at exit this comes before the end of RocksDB's own data */
            atexit(remove_folder);
    }
    publish(w);
    replace_hub(w);
}

static void step(world *w)
{
    switch (dice_roll(&w->d, 16)) {
    case 0:
    case 1:
        grant(w);
        break;
    case 2:
        take_back(w);
        break;
    case 3:
    case 4:
        send_task(w);
        break;
    case 5:
        end_group(w);
        break;
    case 6:
        if (dice_is(&w->d, 4))
            replace_hub(w);
        else
            old_hub_hello();
        break;
    case 7:
        if (dice_is(&w->d, 16))
            start_again(w, dice_is(&w->d, 2));
        break;
    case 8:
    case 9:
        send_again(w);
        break;
    case 10:
        send_spoilt(w);
        break;
    default:
        send_result(w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static world w;
    reach_begin_input();
    prepare();
    memset(&w, 0, sizeof w);
    w.d = (dice){.bytes = data, .len = len};
    begin(&w);
    for (int n = 0; w.d.n < len && n < STEPS_MAX; n++) {
        step(&w);
        check_leases(&w);
    }
    end_group(&w);
    check_versions();
    for (int i = 0; i < 2 * KEPT_MAX; i++)
        pl_message_destroy(&w.kept[i % 2][i / 2].message);
    return 0;
}

void fuzz_end(void)
{
    static const char *const must[] = {"an update is accepted",
                                       "a task ends",
                                       "what came again is accepted",
                                       "a result is a duplicate",
                                       "a result has an ended lease",
                                       "a result differs from the first one",
                                       NULL};
    reach_report(must, 2000);
}

/* Gives the seeds: random steps. Every second seed has more tasks that are granted,
 * done and committed. */
void fuzz_seeds(void (*give)(const void *data, size_t len))
{
    enum { LEN = 160 };
    for (uint64_t seed = 0; seed < 64; seed++) {
        uint8_t bytes[LEN];
        for (uint64_t i = 0; i < LEN; i++)
            bytes[i] = (uint8_t)pl_random_u32(seed, 4, i);
        for (size_t i = 0; i + 8 < LEN && seed % 2 == 0; i += 16) {
            const uint8_t task[] = {0, (uint8_t)(i / 16 % 2), 0, (uint8_t)(i % 2), 3,
                                    5};
            memcpy(bytes + i, task, sizeof task);
        }
        give(bytes, LEN);
    }
}
