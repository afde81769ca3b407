/* The gate: it decides for ZeroMQ which clients may connect, by a list of keys in a
 * file.
 *
 * Purpose. While a gate is open, every socket that is bound speaks CURVE. At each
 * handshake ZeroMQ asks the gate's thread, over an in-process socket (ZAP, RFC 27),
 * whether the client's key may connect. Later wire.c asks pl_gate_role for the role of
 * the key at every message, so a key that was removed from the file is refused even on
 * an existing connection.
 *
 *   ZeroMQ ----- ZAP request -----> gate's thread <--- orders (admit, close)
 *          <---- 200 or 400 -------   |        ^
 *                                     | makes  | stat every 500 ms and at each request
 *   pl_gate_role, any thread          v        |
 *       +--- reads --> newest snapshot       list file
 *                          |  older
 *                      earlier snapshots: kept until nobody reads them
 *
 * The list, as the gate's thread sees it:
 *
 *             the file changed and can be read
 *           +---------+
 *           v         |       cannot be read
 *         READ -------+ ------------------------> UNREAD (unread_ms is not 0)
 *           ^                                        |
 *           +---- read again with success -----------+   tried at every check
 *
 * While the list is UNREAD, the newest snapshot stays in force for existing
 * connections. New connections are accepted only with the job's own keys. A list that
 * existed and was deleted counts as UNREAD.
 *
 * Invariants
 *   - A snapshot never changes once it is in place. Only the gate's thread makes
 *     snapshots; other threads read the newest one without a lock, and count
 *     themselves in `readers` meanwhile. After a new snapshot is in place, a moment
 *     without readers proves that no thread reads an older one; then the older ones are
 *     freed. Each change of the file makes one snapshot.
 *   - process_gate is set after the self-test has passed, and cleared before anything
 *     is freed. The caller closes all sockets before pl_gate_close.
 *   - The self-test connects with a random key and expects to be refused. Without the
 *     self-test a ZeroMQ library that accepts every client would not be noticed.
 *
 * Ownership. The gate owns its copy of the process's keys (wiped at the end), the
 * snapshots and the orders. `extra` and `refused` belong to the gate's thread. */
#include "base/gate.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/wire_internal.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

enum {
    LOOK_MS = 500,       /* milliseconds between two checks of the file */
    REST_MS = 500,       /* a file that is written in place is read after this time */
    SELF_TEST_MS = 5000, /* time limit in milliseconds, enough under load */
    REFUSED_MS = 1000,   /* a refused key is reported once per 10 * REFUSED_MS */
    REFUSED_KEPT = 32,
    /* milliseconds between two reports about a list that cannot be read */
    TROUBLE_MS = 60000,
    ZAP_FRAMES = 7,
    ZAP_FRAME_MAX = 255,
    DOMAIN_MAX = 16
};
static const char zap_at[] = "inproc://zeromq.zap.01";
static const char zap_domain[] = "pathloom";

typedef struct snapshot {
    pl_key_list list;
    struct snapshot *older;
} snapshot;

/* Identifies the file's state: every change changes at least one field. */
typedef struct stamp {
    struct timespec modified, born; /* born: 0 if the file system does not know it */
    ino_t number;
    off_t bytes;
} stamp;

typedef struct gate {
    pl_gate_options options;
    pl_keypair own;
    char list[1024];
    /* seen: the file that was read; met: the file at the last check, which may be read
     * from rests_ms on; changed_ms: when the first change was met that was not read
     * yet, or 0 */
    stamp seen, met;
    int64_t rests_ms, changed_ms;
    /* when an unreadable list was last reported; 0: the list can be read */
    int64_t unread_ms;
    /* the sentence last reported about bad lines */
    char complaint[PL_KEY_COMPLAINT_MAX];
    /* keys that pl_gate_admit added; only the gate's thread uses them */
    pl_key_list extra;
    _Atomic(snapshot *) now;
    atomic_int readers; /* threads that read a snapshot at this moment */
    void *zap;
    pl_queue *orders;
    pl_thread *thread;
    struct {
        pl_pubkey key;
        int64_t at_ms;
    } refused[REFUSED_KEPT]; /* used only by the gate's thread */
    int next_refused;
} gate;

static _Atomic(gate *) process_gate;

bool pl_gate_is_open(void)
{
    return atomic_load(&process_gate) != NULL;
}

/* ---- the list ---- */
static stamp stamp_list_file(const char *path)
{
    struct statx i;
    stamp s = {0};
    if (statx(AT_FDCWD, path, 0, STATX_BASIC_STATS | STATX_BTIME, &i) != 0)
        return s;
    s = (stamp){.modified = {i.stx_mtime.tv_sec, i.stx_mtime.tv_nsec},
                .number = i.stx_ino,
                .bytes = (off_t)i.stx_size};
    if (i.stx_mask & STATX_BTIME) /* the number of a file may be used again */
        s.born = (struct timespec){i.stx_btime.tv_sec, i.stx_btime.tv_nsec};
    return s;
}

static void free_snapshots(snapshot *s)
{
    for (snapshot *older; s; s = older) {
        older = s->older;
        pl_key_list_clear(&s->list);
        pl_free(s);
    }
}

/* Frees the snapshots that were replaced, if no thread can still read them; otherwise
 * they are freed later. Only the gate's thread calls this. */
static void free_replaced(gate *g)
{
    snapshot *newest = atomic_load(&g->now);
    if (!newest || !newest->older || atomic_load(&g->readers) > 0)
        return;
    free_snapshots(newest->older);
    newest->older = NULL;
}

static pl_status read_key_list(gate *g)
{
    snapshot *fresh = pl_alloc(sizeof *fresh);
    pl_status status = PL_OK;
    /* A list that existed and was deleted is an error and not an empty list: an empty
     * list would shut out even the job's own keys. */
    if (g->list[0] && atomic_load(&g->now) && !pl_path_exists(g->list))
        status = pl_fail(PL_ERR_NOT_FOUND, "%s was deleted; restore it", g->list);
    else if (g->list[0])
        status = pl_key_list_load(g->list, &fresh->list);
    /* a list that `pathloom key` has emptied still has the line that it begins with */
    if (status == PL_OK && fresh->list.n == 0 && fresh->list.changed_s == 0 &&
        atomic_load(&g->now) && atomic_load(&g->now)->list.n > g->extra.n)
        status = pl_fail(PL_ERR_CONFIG, "%s has no key any more; restore it", g->list);
    for (size_t i = 0; status == PL_OK && i < g->extra.n; i++)
        status = pl_key_list_put(&fresh->list, &g->extra.entries[i]);
    if (status != PL_OK) {
        pl_key_list_clear(&fresh->list);
        pl_free(fresh);
        return status;
    }
    const pl_key_list *list = &fresh->list;
    bool is_news = strcmp(g->complaint, list->complaint) != 0;
    pl_copy_text(g->complaint, sizeof g->complaint, list->complaint);
    if (is_news && list->n_bad > 0)
        g->options.on_list(list->complaint);
    fresh->older = atomic_load(&g->now);
    atomic_store(&g->now, fresh);
    free_replaced(g);
    return PL_OK;
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool is_same_file(const stamp *a, const stamp *b)
{
    return a->number == b->number && a->born.tv_sec != 0 &&
           is_same_time(a->born, b->born);
}

static bool is_same_stamp(const stamp *a, const stamp *b)
{
    return is_same_time(a->modified, b->modified) && a->number == b->number &&
           a->bytes == b->bytes;
}

/* Notes a change of the list's file. A file that is written in place must rest before
 * it is read, because half of a list would end the workers of its other half; but not
 * for ever. `pathloom key` puts a whole new file in its place. */
static void look_at_list(gate *g)
{
    const stamp s = stamp_list_file(g->list);
    const int64_t now = pl_now_ms();
    if (is_same_stamp(&s, &g->met))
        return;
    if (g->changed_ms == 0)
        g->changed_ms = now;
    const int64_t rests = now + REST_MS, latest = g->changed_ms + 2 * REST_MS;
    g->rests_ms = !is_same_file(&s, &g->met) ? now : rests < latest ? rests : latest;
    g->met = s;
}

static void await_rest(gate *g)
{
    look_at_list(g);
    for (int64_t left; (left = g->rests_ms - pl_now_ms()) > 0; look_at_list(g))
        pl_sleep_ms(left);
}

/* Reads the list if its file has changed. A list that cannot be read is tried again at
 * every check, because the reason may go away without a change of the file. */
static void reread(gate *g, bool anyway)
{
    look_at_list(g);
    free_replaced(g);
    const int64_t now = pl_now_ms();
    const stamp s = g->met;
    if (!anyway && (now < g->rests_ms || is_same_stamp(&s, &g->seen)))
        return;
    g->changed_ms = 0;
    g->seen = s;
    if (read_key_list(g) == PL_OK) {
        g->unread_ms = 0;
        return;
    }
    char text[PL_KEY_COMPLAINT_MAX];
    g->seen = (stamp){.bytes = -1};
    if (g->unread_ms != 0 && now - g->unread_ms < TROUBLE_MS)
        return;
    g->unread_ms = now;
    snprintf(text, sizeof text,
             "while the list of keys cannot be read, revoking has no effect and only "
             "the job's own keys may make new connections: %s",
             pl_last_error());
    g->options.on_list(text);
}

pl_key_role pl_gate_role(const pl_pubkey *key, bool *own)
{
    gate *g = atomic_load(&process_gate);
    *own = false;
    if (!g)
        return PL_AS_NONE;
    atomic_fetch_add(&g->readers, 1);
    /* the entry is valid while this thread counts as a reader */
    const pl_key_entry *e =
        pl_key_list_find(&atomic_load(&g->now)->list, key, pl_wall_ms() / 1000);
    const pl_key_role role = e ? e->role : PL_AS_NONE;
    *own = e && pl_starts_with(e->name, PL_KEY_OWN);
    atomic_fetch_sub(&g->readers, 1);
    return role;
}

bool pl_gate_key_named(const char *name, pl_pubkey *out)
{
    gate *g = atomic_load(&process_gate);
    bool found = false;
    if (!g)
        return false;
    atomic_fetch_add(&g->readers, 1);
    const pl_key_list *list = &atomic_load(&g->now)->list;
    for (size_t i = 0; i < list->n && !found; i++) {
        found = strcmp(list->entries[i].name, name) == 0;
        if (found)
            *out = list->entries[i].key;
    }
    atomic_fetch_sub(&g->readers, 1);
    return found;
}

int64_t pl_gate_list_changed(void)
{
    gate *g = atomic_load(&process_gate);
    if (!g)
        return 0;
    atomic_fetch_add(&g->readers, 1);
    const int64_t changed_s = atomic_load(&g->now)->list.changed_s;
    atomic_fetch_sub(&g->readers, 1);
    return changed_s;
}

bool pl_gate_may(pl_key_role role, uint16_t type, unsigned *cost)
{
    const gate *g = atomic_load(&process_gate);
    const bool may = g && role != PL_AS_NONE && g->options.may(role, type);
    *cost = may && g->options.cost ? g->options.cost(type) : 1;
    return may;
}

void pl_gate_refused(const pl_refusal *refusal)
{
    const gate *g = atomic_load(&process_gate);
    if (g)
        g->options.on_refused(refusal);
}

/* ---- orders to the thread ---- */
void pl_gate_admit(const pl_pubkey *key, pl_key_role role)
{
    gate *g = atomic_load(&process_gate);
    if (!g)
        return;
    pl_key_entry *entry = pl_alloc(sizeof *entry);
    *entry = (pl_key_entry){.key = *key, .role = role, .name = "admitted"};
    pl_queue_push(g->orders, entry);
}

/* ---- ZAP ---- */
typedef struct zap_request {
    char version[8], id[ZAP_FRAME_MAX + 1], domain[DOMAIN_MAX], from[64],
        mechanism[DOMAIN_MAX];
    size_t id_len;
    uint8_t key[PL_PUBKEY_BYTES];
    bool whole;
} zap_request;

/* Takes a whole request; returns false if no request waits. */
static bool take_request(gate *g, zap_request *q)
{
    /* The frames before the last one, which is the key. The routing id proves nothing,
     * because the client chooses it. */
    const struct {
        char *to;
        size_t size;
    } texts[] = {{q->version, sizeof q->version},
                 {q->id, sizeof q->id},
                 {q->domain, sizeof q->domain},
                 {q->from, sizeof q->from},
                 {NULL, 0},
                 {q->mechanism, sizeof q->mechanism}};
    int n = 0;
    bool more = true;
    memset(q, 0, sizeof *q);
    for (; more; n++) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, g->zap, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&frame);
            return false;
        }
        const void *data = zmq_msg_data(&frame);
        const size_t len = zmq_msg_size(&frame);
        if (n < ZAP_FRAMES - 1 && len < texts[n].size) {
            memcpy(texts[n].to, data, len);
            q->id_len = n == 1 ? len : q->id_len;
        }
        q->whole = n == ZAP_FRAMES - 1 && len == PL_PUBKEY_BYTES;
        if (q->whole)
            memcpy(q->key, data, len);
        more = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
    q->whole = q->whole && q->id_len > 0;
    return true;
}

/* Whether to report that this key was refused. A refused client tries again every
 * second, so reports about the same key are limited. */
static bool is_news(gate *g, const pl_pubkey *key)
{
    int64_t now = pl_now_ms();
    for (int i = 0; i < REFUSED_KEPT; i++)
        if (g->refused[i].at_ms != 0 && pl_pubkey_equal(&g->refused[i].key, key)) {
            bool news = now - g->refused[i].at_ms > 10 * REFUSED_MS;
            if (news)
                g->refused[i].at_ms = now;
            return news;
        }
    g->refused[g->next_refused].key = *key;
    g->refused[g->next_refused].at_ms = now;
    g->next_refused = (g->next_refused + 1) % REFUSED_KEPT;
    return true;
}

static void answer_requests(gate *g)
{
    zap_request q;
    while (take_request(g, &q)) {
        char user[PL_PUBKEY_TEXT];
        pl_pubkey key;
        const pl_key_entry *e = NULL;
        memcpy(key.bytes, q.key, PL_PUBKEY_BYTES);
        if (q.whole && strcmp(q.version, "1.0") == 0 &&
            strcmp(q.domain, zap_domain) == 0 && strcmp(q.mechanism, "CURVE") == 0) {
            /* reads the list again, because the key may have been added a moment ago */
            reread(g, false);
            e = pl_key_list_find(&atomic_load(&g->now)->list, &key,
                                 pl_wall_ms() / 1000);
            if (!e && pl_now_ms() < g->rests_ms) {
                await_rest(g);
                reread(g, false);
                e = pl_key_list_find(&atomic_load(&g->now)->list, &key,
                                     pl_wall_ms() / 1000);
            }
            if (e && g->unread_ms != 0 && !pl_starts_with(e->name, PL_KEY_OWN))
                e = NULL;
        }
        /* process_gate must be read before the answer is sent. The answer may end the
         * self-test, which then puts the gate in place, and the refusal of its random
         * key would be reported as a real one. */
        const bool is_in_place = atomic_load(&process_gate) == g;
        /* after "300" the client tries again, after "400" it ends */
        const bool is_unsure = g->unread_ms != 0;
        const char *refusal = is_unsure ? "300" : "400";
        pl_pubkey_format(&key, user);
        const struct {
            const char *data;
            size_t len;
        } frames[] = {{"1.0", 3},
                      {q.id, q.id_len},
                      {e ? "200" : refusal, 3},
                      {e ? "" : "no", e ? 0 : 2},
                      {user, e ? strlen(user) : 0},
                      {"", 0}};
        const size_t n = sizeof frames / sizeof *frames;
        for (size_t i = 0; i < n; i++)
            zmq_send(g->zap, frames[i].data, frames[i].len,
                     i + 1 < n ? ZMQ_SNDMORE : 0);
        if (!e && is_in_place && is_news(g, &key))
            g->options.on_refused(&(pl_refusal){
                is_unsure
                    ? "no new key may connect while the list of keys cannot be "
                      "read"
                    : "this key may not connect: it is not in the list, was taken "
                      "out, or has expired",
                user, q.from});
    }
}

static void run_gate(void *context)
{
    gate *g = context;
    int64_t looked = pl_now_ms();
    for (;;) {
        zmq_pollitem_t items[] = {{.socket = g->zap, .events = ZMQ_POLLIN},
                                  {.fd = pl_queue_fd(g->orders), .events = ZMQ_POLLIN}};
        zmq_poll(items, 2, LOOK_MS);
        /* Carries out the orders. The gate itself is the order to close it. */
        pl_key_entry *order;
        while ((order = pl_queue_pop(g->orders, 0)) && (void *)order != (void *)g) {
            if (pl_key_list_put(&g->extra, order) != PL_OK)
                g->options.on_list(pl_last_error());
            pl_free(order);
            await_rest(g);
            reread(g, true);
        }
        if (order)
            break;
        /* The self-test is also answered here, before the gate is in place. */
        answer_requests(g);
        if (pl_now_ms() - looked >= LOOK_MS) {
            reread(g, false);
            looked = pl_now_ms();
        }
    }
    zmq_close(g->zap);
}

/* ---- options of sockets ---- */
pl_status wire_curve_server(void *zmq, const pl_keypair *own)
{
    int on = 1;
    if (zmq_setsockopt(zmq, ZMQ_CURVE_SERVER, &on, sizeof on) == 0 &&
        zmq_setsockopt(zmq, ZMQ_CURVE_SECRETKEY, own->secret, PL_PUBKEY_BYTES) == 0 &&
        zmq_setsockopt(zmq, ZMQ_ZAP_DOMAIN, zap_domain, strlen(zap_domain)) == 0 &&
        zmq_setsockopt(zmq, WIRE_ENFORCE_DOMAIN, &on, sizeof on) == 0)
        return PL_OK;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "this ZeroMQ library cannot encrypt the socket of a server (%s); "
                   "install ZeroMQ 4.3 with CURVE",
                   zmq_strerror(zmq_errno()));
}

pl_status wire_curve_client(void *zmq, const pl_keypair *own, const pl_pubkey *server)
{
    if (zmq_setsockopt(zmq, ZMQ_CURVE_SERVERKEY, server->bytes, PL_PUBKEY_BYTES) == 0 &&
        zmq_setsockopt(zmq, ZMQ_CURVE_PUBLICKEY, own->open.bytes, PL_PUBKEY_BYTES) ==
            0 &&
        zmq_setsockopt(zmq, ZMQ_CURVE_SECRETKEY, own->secret, PL_PUBKEY_BYTES) == 0)
        return PL_OK;
    return pl_fail(
        PL_ERR_UNSUPPORTED,
        "this ZeroMQ library cannot encrypt (%s); install ZeroMQ 4.3 with CURVE",
        zmq_strerror(zmq_errno()));
}

bool pl_wire_library(char out[128])
{
    int major, minor, patch;
    zmq_version(&major, &minor, &patch);
    bool curve = zmq_has("curve") == 1;
    snprintf(out, 128, "ZeroMQ %d.%d.%d %s CURVE", major, minor, patch,
             curve ? "with" : "without");
    return curve && (major > 4 || (major == 4 && minor >= 3));
}

/* Connects a client with a random key to a server of this process. ZeroMQ reports the
 * result of the handshake to a monitor. */
static pl_status self_test(const gate *g)
{
    static const char watch_at[] = "inproc://gate-self-test";
    const int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    void *server = zmq_socket(wire_context(), ZMQ_ROUTER),
         *client = zmq_socket(wire_context(), ZMQ_DEALER),
         *monitor = zmq_socket(wire_context(), ZMQ_PAIR);
    char at[256];
    size_t size = sizeof at;
    pl_keypair stranger;
    pl_keypair_create(&stranger);
    const bool is_tried =
        server && client && monitor && wire_curve_server(server, &g->own) == PL_OK &&
        wire_curve_client(client, &stranger, &g->own.open) == PL_OK &&
        zmq_bind(server, "tcp://127.0.0.1:*") == 0 &&
        zmq_getsockopt(server, ZMQ_LAST_ENDPOINT, at, &size) == 0 &&
        zmq_socket_monitor(client, watch_at, events) == 0 &&
        zmq_connect(monitor, watch_at) == 0 && zmq_connect(client, at) == 0;
    pl_keypair_wipe(&stranger);
    uint8_t frame[256];
    uint16_t event = 0; /* 0: no event was reported in time */
    zmq_pollitem_t item = {.socket = monitor, .events = ZMQ_POLLIN};
    if (is_tried && zmq_poll(&item, 1, SELF_TEST_MS) > 0 &&
        zmq_recv(monitor, frame, sizeof frame, 0) >= (int)sizeof event) {
        memcpy(&event, frame, sizeof event);
        zmq_recv(monitor, frame, sizeof frame, 0);
    }
    /* Stops the reports of events: unread ones would block ZeroMQ's thread for ever. */
    if (client)
        zmq_socket_monitor(client, NULL, 0);
    void *const sockets[] = {monitor, client, server};
    for (size_t i = 0; i < 3; i++) {
        const int none = 0;
        if (!sockets[i])
            continue;
        zmq_setsockopt(sockets[i], ZMQ_LINGER, &none, sizeof none);
        zmq_close(sockets[i]);
    }
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return PL_OK;
    return pl_fail(PL_ERR_INTERNAL,
                   "the self-test of the encryption failed: a random key was %s; this "
                   "process accepts no connections",
                   event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED ? "let in"
                                                          : "not refused in time");
}

/* ---- opening and closing ---- */
/* The gate's thread closes the socket `zap` when it ends. */
static void close_gate(gate *g)
{
    pl_key_entry *entry;
    if (g->thread)
        pl_queue_push(g->orders, g);
    else if (g->zap)
        zmq_close(g->zap);
    pl_thread_join(&g->thread);
    while (g->orders && (entry = pl_queue_pop(g->orders, 0)))
        pl_free(entry);
    pl_queue_destroy(&g->orders);
    free_snapshots(atomic_load(&g->now));
    pl_key_list_clear(&g->extra);
    pl_keypair_wipe(&g->own);
    pl_free(g);
}

pl_status pl_gate_open(const pl_gate_options *options)
{
    if (pl_gate_is_open())
        return pl_fail(PL_ERR_BUSY,
                       "this process checks keys already; the check starts only once");
    gate *g = pl_alloc(sizeof *g);
    pl_status status = PL_OK;
    g->options = *options;
    g->own = *options->own;
    pl_copy_text(g->list, sizeof g->list, options->list);
    g->seen = g->met = stamp_list_file(g->list);
    PL_TRY(read_key_list(g));
    PL_TRY(pl_queue_create(&g->orders));
    g->zap = zmq_socket(wire_context(), ZMQ_REP);
    if (!g->zap || zmq_bind(g->zap, zap_at) != 0)
        PL_TRY(wire_failed("cannot open the socket on which keys are checked,", zap_at,
                           PL_ERR_BUSY));
    PL_TRY(pl_thread_start("gate", run_gate, g, &g->thread));
    PL_TRY(self_test(g));
    atomic_store(&process_gate, g);
    return PL_OK;
done:
    close_gate(g);
    return status;
}

void pl_gate_close(void)
{
    gate *g = atomic_exchange(&process_gate, NULL);
    if (g)
        close_gate(g);
}
