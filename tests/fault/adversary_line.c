/* The senders of the adversary's messages: keys that are enrolled, invited or unknown,
 * and their connections. */
#include "tests/fault/adversary.h"
#include "workers/workers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TASK_MS = 1800, LOOK_MS = 2000, IDLE_MAX = 2 };

/* ---- connections ---- */
void party_close(party *p)
{
    pl_client_destroy(&p->client);
    pl_wire_close(&p->hub);
    pl_wire_close(&p->home);
    p->said_hello = false;
}

static pl_socket *line_to(adversary *a, party *p, draft_place place)
{
    pl_socket **line = place == AT_HUB ? &p->hub : &p->home;
    const char *address = place == AT_HUB ? a->hub : a->home;
    if (!*line && address[0] && pl_wire_connect_as(address, &p->key, line) != PL_OK)
        *line = NULL;
    return *line;
}

static pl_client *client_of(adversary *a, party *p)
{
    const char *home = a->home;
    pl_client_options o = {
        .homes = &home, .n_homes = 1, .keys = &p->key, .patience_ms = 3 * PATIENCE_MS};
    if (!p->client && home[0] && pl_client_create(&o, &p->client) != PL_OK)
        p->client = NULL;
    return p->client;
}

/* ---- answers ---- */
void note_answer(adversary *a, answer_kind kind)
{
    a->answers[a->act][kind]++;
}

static answer_kind kind_of(const pl_message *answer)
{
    pl_reader r;
    switch (answer->type) {
    case PL_MSG_TASK:
        return ANSWER_TASK;
    case PL_MSG_NO_WORK:
        return ANSWER_NO_WORK;
    case PL_MSG_LEASE_LOST:
        return ANSWER_LEASE_LOST;
    case PL_MSG_SUBMITTED:
        pl_reader_open(&r, "SUBMITTED", answer->body.data, answer->body.len);
        return (answer_kind)(ANSWER_ACCEPTED + pl_get_u64(&r, PL_TAG_RESULT, 0) % 7);
    default:
        return ANSWER_OK;
    }
}

answer_kind ask(adversary *a, party *p, draft_place place, pl_message *m,
                pl_message *answer)
{
    pl_message own;
    pl_socket *line = line_to(a, p, place);
    int wait_ms = m->type == PL_MSG_TASK_REQ ? TASK_MS : PATIENCE_MS;
    pl_message_init(&own, 0);
    m->request = pl_wire_next_request();
    pl_status status = line ? pl_wire_ask(line, m, wait_ms, wait_ms, &own) : PL_ERR_NET;
    answer_kind kind = status == PL_OK ? kind_of(&own) : (answer_kind)status;
    pl_message_destroy(m);
    note_answer(a, kind);
    if (answer)
        *answer = own;
    else
        pl_message_destroy(&own);
    return kind;
}

answer_kind ask_draft(adversary *a, party *p, draft_place place, draft *d, dice *cut)
{
    pl_message m;
    draft_message(d, cut, &m);
    draft_clear(d);
    return ask(a, p, place, &m, NULL);
}

void tell(adversary *a, party *p, draft_place place, pl_message *m)
{
    pl_socket *line = line_to(a, p, place);
    m->request = pl_wire_next_request();
    if (line && pl_wire_send(line, m) == PL_OK)
        note_answer(a, ANSWER_SENT);
    pl_message_destroy(m);
}

void hear(party *p, int ms)
{
    pl_message m;
    pl_socket *lines[] = {p->hub, p->home};
    pl_message_init(&m, 0);
    for (int64_t end = pl_now_ms() + ms; pl_now_ms() < end; pl_sleep_ms(5))
        for (int i = 0; i < 2; i++)
            while (lines[i] && pl_wire_recv(lines[i], NULL, &m) == PL_OK)
                continue;
    pl_message_destroy(&m);
}

/* ---- enrolling ---- */
/* Enrols a worker with a new key and a new name. */
static void enrol_worker(adversary *a, party *p)
{
    char role[32];
    party_close(p);
    memset(p, 0, sizeof *p);
    p->device = a->device;
    p->pid = (uint64_t)getpid();
    pl_keypair_create(&p->key);
    snprintf(p->name, sizeof p->name, "evil-%s-%d", a->label, ++a->n_enrolled);
    if (pl_admission_join(a->hub, &a->invite, &p->key.open, p->name, role) != PL_OK) {
        p->refused = true;
        fprintf(stderr, "adversary: %s\n", pl_last_error());
    }
}

/* Enrols the key of a relay, once. */
static void enrol_relay(adversary *a)
{
    char role[32];
    snprintf(a->relay.name, sizeof a->relay.name, "evil-relay-%s", a->label);
    pl_keypair_create(&a->relay.key);
    if (pl_admission_join(a->hub, &a->relays, &a->relay.key.open, a->relay.name,
                          role) != PL_OK) {
        a->has_relay = false;
        fprintf(stderr, "adversary: %s\n", pl_last_error());
    }
}

void line_open(adversary *a)
{
    for (int i = 0; i < WORKERS; i++)
        enrol_worker(a, &a->workers[i]);
    a->invited.key = a->spare;
    a->invited.pid = a->stranger.pid = (uint64_t)getpid();
    pl_keypair_create(&a->stranger.key);
    pl_copy_text(a->invited.name, sizeof a->invited.name, "evil-guest");
    pl_copy_text(a->stranger.name, sizeof a->stranger.name, "evil-stranger");
    a->invited.device = a->stranger.device = a->relay.device = "none";
    if (a->has_relay)
        enrol_relay(a);
    for (int i = 0; i < WORKERS; i++)
        (void)say_hello(a, &a->workers[i], a->workers[i].name, a->workers[i].device);
}

void line_close(adversary *a)
{
    for (int i = 0; i < WORKERS; i++)
        party_close(&a->workers[i]);
    party_close(&a->invited);
    party_close(&a->stranger);
    party_close(&a->relay);
    pl_topology_destroy(&a->topology);
    pl_arm_clear(&a->arm);
}

/* A worker that is fenced or barred is replaced by one with a new key, as long as the
 * invitation can be used. */
party *some_worker(adversary *a)
{
    party *p = &a->workers[dice_roll(&a->dice, WORKERS)];
    if (p == a->sitter)
        p = &a->workers[(p - a->workers + 1) % WORKERS];
    if (p->refused)
        enrol_worker(a, p);
    if (!p->said_hello && !p->refused)
        (void)say_hello(a, p, p->name, p->device);
    return p;
}

party *some_party(adversary *a)
{
    uint32_t which = dice_roll(&a->dice, 8);
    return which == 0 ? &a->invited : which == 1 ? &a->stranger : some_worker(a);
}

const char *honest_name(adversary *a)
{
    return a->n_names > 0 ? a->names[dice_roll(&a->dice, (uint32_t)a->n_names)] : "";
}

/* ---- hello, leases ---- */
static void read_welcome(adversary *a, const pl_message *m)
{
    pl_reader r;
    char home[PL_ADDRESS_MAX];
    pl_reader_open(&r, "WELCOME", m->body.data, m->body.len);
    /* with several homes, each program attacks a different one */
    const size_t n = pl_field_count(&r, PL_TAG_ADDRESS);
    pl_get_text(&r, PL_TAG_ADDRESS, n > 0 ? (size_t)a->label[0] % n : 0, home,
                sizeof home);
    if (pl_reader_status(&r) == PL_OK)
        pl_copy_text(a->home, sizeof a->home, home);
}

void put_hello(pl_message *m, const char *name, const char *device, uint64_t pid)
{
    pl_message_init(m, PL_MSG_HELLO);
    pl_put_text(&m->body, PL_TAG_NAME, name);
    pl_put_text(&m->body, PL_TAG_ROLE, "worker");
    pl_put_text(&m->body, PL_TAG_DEVICE, device);
    pl_put_u64(&m->body, PL_TAG_PID, pid);
}

bool say_hello(adversary *a, party *p, const char *name, const char *device)
{
    pl_message m, answer;
    put_hello(&m, name, device, p->pid);
    answer_kind kind = ask(a, p, AT_HUB, &m, &answer);
    if (kind == ANSWER_OK && answer.type == PL_MSG_WELCOME) {
        read_welcome(a, &answer);
        p->said_hello = p->said_hello || strcmp(name, p->name) == 0;
    }
    p->refused = p->refused ||
                 (kind == (answer_kind)PL_ERR_NOPERM && strcmp(name, p->name) == 0);
    pl_message_destroy(&answer);
    return kind == ANSWER_OK;
}

/* A new process of this worker, with this kind of device. A running one cannot change
 * it. */
bool begin_anew(adversary *a, party *p, const char *device)
{
    p->pid = 1 + dice_roll(&a->dice, 1u << 30);
    return say_hello(a, p, p->name, device);
}

static bool read_task(const pl_message *m, lease *out)
{
    pl_reader r;
    memset(out, 0, sizeof *out);
    pl_reader_open(&r, "TASK", m->body.data, m->body.len);
    out->token = m->token;
    out->index = (int64_t)pl_get_u64(&r, PL_TAG_PATH, 0);
    out->replica = (int64_t)pl_get_u64(&r, PL_TAG_REPLICA, 0);
    out->phase = (int64_t)pl_get_u64(&r, PL_TAG_PHASE, 0);
    pl_get_text(&r, PL_TAG_TASK, 0, out->task, sizeof out->task);
    size_t len = 0;
    const uint8_t *bytes = pl_get_bytes(&r, PL_TAG_LEASE, 0, &len);
    out->sealed_len = len <= sizeof out->sealed ? len : 0;
    memcpy(out->sealed, bytes, out->sealed_len);
    bytes = pl_get_bytes(&r, PL_TAG_SECRET, 0, &len);
    if (len == sizeof out->key)
        memcpy(out->key.bytes, bytes, len);
    out->taken_ms = pl_now_ms();
    out->given_back = false;
    out->held = pl_reader_status(&r) == PL_OK;
    return out->held;
}

void put_lease(const party *p, uint16_t type, pl_message *out)
{
    pl_message_init(out, type);
    out->token = p->lease.token;
    pl_put_text(&out->body, PL_TAG_NAME, p->name);
    pl_put_u64(&out->body, PL_TAG_PHASE, (uint64_t)p->lease.phase);
    pl_put_text(&out->body, PL_TAG_TASK, p->lease.task);
}

void end_lease(adversary *a, party *p)
{
    if (p->lease.held)
        p->over = a->past[a->n_past++ % PAST_MAX] = p->lease;
    p->lease.held = false;
}

void release(adversary *a, party *p, pl_status why, const char *text)
{
    pl_message m;
    if (!p->lease.held)
        return;
    pl_message_init(&m, PL_MSG_RELEASE);
    m.token = p->lease.token;
    if (why != PL_OK) {
        pl_put_u64(&m.body, PL_TAG_STATUS, (uint64_t)why);
        pl_put_text(&m.body, PL_TAG_TEXT, text);
    }
    pl_put_text(&m.body, PL_TAG_NAME, p->name);
    pl_put_u64(&m.body, PL_TAG_PHASE, (uint64_t)p->lease.phase);
    pl_put_text(&m.body, PL_TAG_TASK, p->lease.task);
    p->lease.given_back = ask(a, p, AT_HUB, &m, NULL) == ANSWER_OK;
    end_lease(a, p);
}

bool take_task(adversary *a, party *p)
{
    pl_message m, answer;
    if (p->lease.held && pl_now_ms() - p->lease.taken_ms > 60000)
        p->lease.held = false;
    release(a, p, PL_OK, "");
    pl_message_init(&m, PL_MSG_TASK_REQ);
    pl_put_text(&m.body, PL_TAG_NAME, p->name);
    answer_kind kind = ask(a, p, AT_HUB, &m, &answer);
    if (kind == ANSWER_TASK && read_task(&answer, &p->lease)) {
        pl_reader r;
        pl_reader_open(&r, "TASK", answer.body.data, answer.body.len);
        a->arm_blob = pl_get_hash(&r, PL_TAG_ARM_BLOB, 0);
    }
    pl_message_destroy(&answer);
    p->n_idle = kind == ANSWER_NO_WORK ? p->n_idle + 1 : 0;
    p->refused = p->refused || kind == (answer_kind)PL_ERR_NOPERM ||
                 p->n_idle >= IDLE_MAX; /* perhaps the key is barred */
    p->said_hello = p->said_hello && kind != (answer_kind)PL_ERR_STALE;
    return p->lease.held;
}

/* ---- what the attacker knows of the job ---- */
static void load_arm(adversary *a, pl_client *client)
{
    pl_buf bytes = {0};
    pl_arm arm;
    pl_topology *topology = NULL;
    if (pl_client_get_blob(client, "arm", &a->arm_blob, &bytes) == PL_OK &&
        pl_arm_decode(bytes.data, bytes.len, &arm) == PL_OK &&
        pl_topology_create(&arm.shape, &arm.spec, &topology) == PL_OK) {
        pl_topology_destroy(&a->topology);
        pl_arm_clear(&a->arm);
        a->arm = arm;
        a->topology = topology;
    }
    pl_buf_destroy(&bytes);
}

/* Finds the mixture, or the base model before the mixture exists, from a task. */
bool look_at_job(adversary *a)
{
    bool is_mix = a->topology && strcmp(a->arm.name, "mix") == 0;
    int64_t now = pl_now_ms();
    if (is_mix || now - a->looked_ms < LOOK_MS)
        return a->topology != NULL;
    a->looked_ms = now;
    party *p = some_worker(a);
    pl_client *client = client_of(a, p);
    if (client && take_task(a, p))
        load_arm(a, client);
    return a->topology != NULL;
}

bool find_version(adversary *a, party *p, int slot, int path, char module[96],
                  pl_version_facts *out)
{
    pl_client *client = client_of(a, p);
    if (!client || !look_at_job(a) || path < 0 ||
        path >= pl_topology_n_paths(a->topology))
        return false;
    pl_arm_module_name(&a->arm, a->topology,
                       pl_topology_module_of_path(a->topology, slot, path), module);
    return pl_client_get_version(client, module, PL_NEWEST, out) == PL_OK;
}

void know(adversary *a, const party *p, known *out)
{
    memset(out, 0, sizeof *out);
    pl_copy_text(out->worker, sizeof out->worker, p->name);
    pl_copy_text(out->device, sizeof out->device, p->device);
    pl_copy_text(out->other, sizeof out->other, honest_name(a));
    pl_copy_text(out->object, sizeof out->object, "router/mix");
    pl_copy_text(out->address, sizeof out->address, a->home);
    pl_copy_text(out->text, sizeof out->text, dice_word(&a->dice));
    out->pid = (uint64_t)getpid();
    out->key = p->key.open;
    out->token = p->over.token;
    know_sealed(&p->over, out);
    if (!look_at_job(a))
        return;
    pl_version_facts facts;
    party *asker = &a->workers[0];
    int slot = (int)dice_roll(&a->dice, (uint32_t)pl_topology_n_slots(a->topology));
    out->index = dice_roll(&a->dice, (uint32_t)pl_topology_n_paths(a->topology));
    pl_copy_text(out->arm, sizeof out->arm, a->arm.name);
    pl_copy_text(out->codec, sizeof out->codec, a->arm.outer.codec_name);
    pl_arm_path_name(&a->arm, a->topology, (int)out->index, 0, out->path);
    if (!find_version(a, asker, slot, (int)out->index, out->module, &facts))
        return;
    out->version = facts.number;
    out->phase = (int64_t)facts.number;
    out->base = out->blob = facts.params;
    out->samples = (uint64_t)(a->arm.inner.tau * a->arm.inner.batch);
    out->first_sample = facts.number * out->samples;
}

void know_sealed(const lease *from, known *out)
{
    memcpy(out->lease, from->sealed, from->sealed_len);
    out->lease_len = from->sealed_len;
    out->task_key = from->key;
}

void know_lease(const party *p, known *out)
{
    know_sealed(&p->lease, out);
    out->token = p->lease.token;
    out->phase = p->lease.phase;
    out->index = p->lease.index;
    out->replica = p->lease.replica;
    pl_copy_text(out->path, sizeof out->path, p->lease.task);
}
