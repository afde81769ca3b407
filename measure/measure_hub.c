/* pathloom bench hub: measures how many workers one hub can serve. The workers are
 * simulated; the protocol is the real one, without training.
 *
 * A child process simulates the home and starts a real `pathloom hub` and a process
 * that simulates the workers. Each worker has a separate connection to the hub and
 * sends HELLO, TASK_REQ, RENEW every quarter of a lease's life, and DONE. A task lasts
 * 0.5 to 1.5 times --task (real tasks last minutes, so this is more traffic than in a
 * training with as many workers). There are twice as many paths as workers. Without
 * --levels every path has separate modules, so a task is always ready, and the time
 * from TASK_REQ to TASK is spent only in the hub. With --levels, paths share modules as
 * in a training, and this time includes waiting for other workers.
 *
 * The time of a request ends when the kernel has the answer (SO_TIMESTAMPNS), even if
 * the process of the workers reads the answer later. The table has the times until
 * tasks and renewals are granted, leases and messages per second, and the memory and
 * processor time of the hub. `bench home` measures the home's part. */
#include "measure/measure.h"
#include "measure/home_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SAMPLES_MAX = 1 << 18,
    TTL_MS = 2000,
    WARM_UP_MS = 2000,
    JOIN_MS = 1, /* pause before the next worker connects */
    LOOK_MS = 3  /* pause before all workers are looked at again */
};

typedef struct load {
    const char *levels;
    int64_t workers, seconds, task_s;
    char folder[PL_PATH_MAX], home[PL_ADDRESS_MAX], hub[PL_ADDRESS_MAX];
    int64_t begin_ms, end_ms; /* only events between these two times count */
    pid_t hub_pid;
} load;

/* ---- a worker's connection to the hub ---- */
/* ZMTP 3.0 without encryption (RFC 23), written by hand: thousands of ZeroMQ sockets
 * would need more processor time than the hub that is measured. */
enum { GREETING = 64, HEADER = 64, LINE_MAX = 4096, ZMTP_MORE = 1, ZMTP_LONG = 2 };

typedef struct line {
    int fd;
    bool greeted; /* the hub's greeting and its READY have been read */
    size_t n_in;  /* bytes in `in` that are not used yet */
    int frame;    /* index of the frame that is being read */
    uint8_t in[LINE_MAX];
    pl_message message; /* the newest message, without its data */
    double arrived;     /* time in seconds at which the kernel had the message */
} line;

static void exit_with_errno(const char *what)
{
    fprintf(stderr, "pathloom: %s: %s\n", what, strerror(errno));
    _exit(71);
}

static void send_whole_bytes(int fd, const uint8_t *data, size_t n)
{
    if (send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
        exit_with_errno("a worker cannot send");
}

/* Returns the time of the clock that the kernel uses for time stamps. */
static double wall_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void open_line(line *l, const char *address)
{
    static const uint8_t ready[] = "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
                                   "DEALER";
    uint8_t hello[GREETING] = {0xff, [9] = 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    struct sockaddr_in to = {.sin_family = AF_INET};
    const char *colon = strrchr(address, ':');
    int on = 1;
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    l->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (l->fd < 0 || connect(l->fd, (struct sockaddr *)&to, sizeof to) != 0 ||
        setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        setsockopt(l->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0)
        exit_with_errno("a worker cannot connect");
    send_whole_bytes(l->fd, hello, sizeof hello);
    send_whole_bytes(l->fd, ready, sizeof ready - 1);
}

/* Sends a message (PROTOCOL 1.1) whose body has at most 255 bytes. */
static void send_line(line *l, pl_message *m)
{
    uint8_t out[2 + HEADER + 2 + 255] = {ZMTP_MORE, HEADER}, *header = out + 2;
    size_t n = m->body.len;
    memcpy(header, "PLW1\x01", 5);
    pl_le_put(header + 6, m->type, 2);
    pl_le_put(header + 10, HEADER, 2);
    pl_le_put(header + 12, n, 4);
    pl_le_put(header + 24, m->request, 8);
    pl_le_put(header + 40, m->token, 8);
    pl_piece pieces[] = {{header, HEADER}, {m->body.data, n}};
    pl_le_put(header + 56, pl_checksum_pieces(pieces, 2), 8);
    header[HEADER + 1] = (uint8_t)n;
    memcpy(header + HEADER + 2, m->body.data, n);
    send_whole_bytes(l->fd, out, 2 + HEADER + 2 + n);
    pl_message_destroy(m);
}

/* Reads the bytes that have arrived, with the time at which the kernel got them. */
static void fill_line(line *l)
{
    union {
        struct cmsghdr align;
        char bytes[256];
    } control;
    struct iovec to = {l->in + l->n_in, LINE_MAX - l->n_in};
    struct msghdr m = {.msg_iov = &to,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control};
    ssize_t n = recvmsg(l->fd, &m, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        exit_with_errno("the hub closed the connection of a worker");
    if (n < 0)
        return;
    l->n_in += (size_t)n;
    l->arrived = wall_now();
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec at;
            memcpy(&at, CMSG_DATA(c), sizeof at);
            l->arrived = (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
        }
}

/* Takes one whole message from the bytes that have arrived; false: none yet. */
static bool next_message(line *l)
{
    pl_message *m = &l->message;
    size_t skip = l->greeted ? 0 : GREETING;
    bool whole = false;
    while (!whole && l->n_in >= skip + 2) {
        const uint8_t *at = l->in + skip;
        bool is_long = at[0] & ZMTP_LONG;
        size_t head = is_long ? 9 : 2, n = at[1];
        if (l->n_in < skip + head)
            break;
        if (is_long)
            n = (size_t)at[7] << 8 | at[8];
        if (l->n_in < skip + head + n)
            break;
        const uint8_t *frame = at + head;
        if (l->greeted && l->frame == 0 && n == HEADER) {
            m->type = (uint16_t)pl_le_get(frame + 6, 2);
            m->request = pl_le_get(frame + 24, 8);
            m->token = pl_le_get(frame + 40, 8);
        } else if (l->greeted && l->frame == 1) {
            pl_buf_clear(&m->body);
            pl_buf_append(&m->body, frame, n);
        }
        whole = l->greeted && !(at[0] & ZMTP_MORE);
        l->frame = l->greeted && !whole ? l->frame + 1 : 0;
        l->greeted = true; /* the first message is the hub's READY */
        l->n_in -= skip + head + n;
        memmove(l->in, at + head + n, l->n_in);
        skip = 0;
    }
    return whole;
}

/* ---- the workers ---- */
typedef struct sample {
    double grant_ms[SAMPLES_MAX], renew_ms[SAMPLES_MAX];
    int n_grants, n_renewals;
    int64_t n_empty, n_lost; /* numbers of answers NO_WORK, LEASE_LOST */
    int64_t n_messages;      /* of the hub */
} sample;

typedef struct player {
    line hub;
    char name[32], task[PL_MODULE_NAME_MAX];
    /* question: request number of the open TASK_REQ (0: none); renewal: request number
     * of the last RENEW; token: token of the lease */
    uint64_t question, renewal, token;
    int64_t asked_ms, renewed_ms, finish_ms, phase;
    double asked, renewed; /* times in seconds */
    bool welcome, works;
} player;

static bool counts(const load *l)
{
    int64_t now = pl_now_ms();
    return now >= l->begin_ms && now < l->end_ms;
}

static void take_hub_message(player *p, const load *l, sample *s)
{
    pl_message *m = &p->hub.message;
    pl_msg_task said;
    s->n_messages += counts(l);
    if (m->type == PL_MSG_WELCOME)
        p->welcome = true;
    else if (m->type == PL_MSG_TASK && m->request == p->question) {
        measure_need(PL_HEAR(m, task, &said));
        pl_free(said.peer);
        p->phase = said.phase;
        pl_copy_text(p->task, sizeof p->task, said.task);
        if (counts(l) && s->n_grants < SAMPLES_MAX)
            s->grant_ms[s->n_grants++] = 1e3 * (p->hub.arrived - p->asked);
        p->token = m->token;
        p->question = 0;
        p->works = true;
        p->renewed_ms = pl_now_ms() - rand() % (TTL_MS / 4);
        int64_t span = 1000 * l->task_s;
        p->finish_ms = p->renewed_ms + span / 2 + rand() % span;
    } else if (m->type == PL_MSG_NO_WORK && m->request == p->question) {
        p->question = 0;
        s->n_empty += counts(l);
    } else if (m->type == PL_MSG_RENEWED && m->request == p->renewal) {
        if (counts(l) && s->n_renewals < SAMPLES_MAX)
            s->renew_ms[s->n_renewals++] = 1e3 * (p->hub.arrived - p->renewed);
    } else if (m->type == PL_MSG_LEASE_LOST && m->request == p->renewal) {
        p->works = false;
        s->n_lost += counts(l);
    } else if (m->type == PL_MSG_ERR)
        p->welcome = false;
}

/* Sends what a worker has to say now. */
static void step_player(player *p, pl_socket *home, uint64_t pid, int64_t now)
{
    pl_message m = {.request = 0};
    if (!p->welcome && now - p->asked_ms > 1000) {
        m.request = pl_wire_next_request();
        PL_SAY(&m, HELLO, hello, .name = p->name, .role = "worker", .device = "none",
               .pid = pid);
        p->asked_ms = pl_now_ms();
        send_line(&p->hub, &m);
    } else if (p->welcome && !p->works &&
               (p->question == 0 || now - p->asked_ms > 1000)) {
        if (p->question == 0) {
            p->question = pl_wire_next_request();
            p->asked = wall_now();
        }
        p->asked_ms = pl_now_ms();
        m.request = p->question;
        PL_SAY(&m, TASK_REQ, task_req, .name = p->name);
        send_line(&p->hub, &m);
    } else if (p->welcome && p->works && now >= p->finish_ms) {
        /* the home is told of the task, as by a worker's submissions, then the hub */
        const pl_hash seal = {{0}}; /* which this home does not check */
        /* instead of a lease, the worker's name, which the home reports to the hub */
        PL_SAY(&m, SUBMIT_PATH, submit_path, .name = p->task, .phase = p->phase + 1,
               .lease = {p->name, strlen(p->name)}, .seal = seal.bytes);
        measure_need(pl_wire_send(home, &m));
        pl_message_destroy(&m);
        m = (pl_message){.request = pl_wire_next_request(), .token = p->token};
        PL_SAY(&m, DONE, done, .name = p->name, .phase = p->phase, .task = p->task,
               .work.n_tokens = 1000, .work.loss = 3.5, .work.seconds = 0.1);
        send_line(&p->hub, &m);
        p->works = false;
    } else if (p->welcome && p->works && now - p->renewed_ms >= TTL_MS / 4) {
        m.request = pl_wire_next_request();
        m.token = p->token;
        PL_SAY(&m, RENEW, renew, .name = p->name, .phase = p->phase, .task = p->task,
               .trains = true, .loss = 3.5, .step = 1, .rate = 1e4);
        p->renewal = m.request;
        p->renewed_ms = pl_now_ms();
        p->renewed = wall_now();
        send_line(&p->hub, &m);
    }
}

/* Runs in the process of the workers; writes the samples to `out`. */
static void play(const load *l, int out)
{
    int watch = epoll_create1(0);
    player *players = pl_alloc((size_t)l->workers * sizeof *players);
    sample *s = pl_alloc(sizeof *s);
    struct epoll_event events[256];
    pl_socket *home;
    int64_t looked = 0;
    struct rlimit files = {(rlim_t)l->workers + 100, (rlim_t)l->workers + 100};
    setrlimit(RLIMIT_NOFILE, &files);
    /* The workers connect one after another. All of them send HELLO within a second. */
    for (int i = 0; i < l->workers; i++) {
        struct epoll_event want = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        snprintf(players[i].name, sizeof players[i].name, "worker-%d", i);
        open_line(&players[i].hub, l->hub);
        pl_sleep_ms(JOIN_MS);
        players[i].asked_ms = pl_now_ms() - rand() % 1000;
        if (epoll_ctl(watch, EPOLL_CTL_ADD, players[i].hub.fd, &want) != 0)
            exit_with_errno("cannot watch the connection of a worker");
    }
    measure_need(pl_wire_connect(l->home, &home));
    while (pl_now_ms() < l->end_ms) {
        int n = epoll_wait(watch, events, 256, LOOK_MS);
        for (int i = 0; i < n; i++) {
            player *p = &players[events[i].data.u32];
            fill_line(&p->hub);
            while (next_message(&p->hub))
                take_hub_message(p, l, s);
        }
        int64_t now = pl_now_ms();
        for (int i = 0; now - looked >= LOOK_MS && i < l->workers; i++)
            step_player(&players[i], home, (uint64_t)getpid(), now);
        looked = now - looked >= LOOK_MS ? now : looked;
    }
    FILE *file = fdopen(out, "wb");
    if (!file || fwrite(s, sizeof *s, 1, file) != 1 || fclose(file) != 0)
        _exit(74);
    _exit(0); /* the exit of the process closes all connections */
}

/* ---- the home ---- */
typedef struct fake_home {
    pl_socket *socket;
    pl_arm arm;
    pl_topology *topology;
    pl_hash blob;
    pl_buf definition, state;
    pl_peer hub;
    int64_t *phases;         /* finished phases of each path */
    char (*by)[PL_TEXT_MAX]; /* the worker that did the last one */
    pl_name_table *paths;
    /* messages that could not be sent, because the hub or a worker had gone */
    int64_t n_unsent;
    /* for each module: number of contributors that have finished its current round */
    int *done;
    uint64_t *versions;
} fake_home;

static void make_arm(fake_home *h, const load *l)
{
    pl_arm *arm = &h->arm;
    pl_copy_text(arm->name, sizeof arm->name, "load");
    arm->shape = (pl_shape){.vocab = 300,
                            .width = 16,
                            .n_heads = 2,
                            .n_kv_heads = 2,
                            .head_size = 8,
                            .ffn = 24,
                            .n_blocks = 2,
                            .context = 16,
                            .tied = true,
                            .rope_theta = 1e4,
                            .norm_eps = 1e-5};
    arm->spec = (pl_topology_spec){.n_levels = 1,
                                   .experts = {(int)(2 * l->workers)},
                                   .embed_choice = PL_CHOICE_PRIVATE,
                                   .head_choice = PL_CHOICE_PRIVATE,
                                   .replicas = 1};
    if (l->levels) {
        arm->spec.embed_choice = arm->spec.head_choice = PL_CHOICE_COMMON;
        measure_need(pl_topology_parse_levels(l->levels, &arm->spec));
    }
    arm->inner = (pl_inner){.batch = 2, .context = 16, .tau = 10, .phases = 100000};
    for (int c = 0; c < PL_CLASS_COUNT; c++)
        arm->outer.lr[c] = 0.7;
    arm->outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    pl_copy_text(arm->outer.codec_name, sizeof arm->outer.codec_name, "f32");
    measure_need(pl_codec_options_default("f32", &arm->outer.codec));
    measure_need(pl_topology_create(&arm->shape, &arm->spec, &h->topology));
    arm->n_shards = pl_topology_n_paths(h->topology);
    arm->shards = pl_alloc((size_t)arm->n_shards * sizeof *arm->shards);
    arm->weights = pl_alloc((size_t)arm->n_shards * sizeof *arm->weights);
    pl_arm_encode(arm, &h->definition);
    pl_blob_hash(h->definition.data, h->definition.len, &h->blob);
    int n_modules = pl_topology_n_modules(h->topology);
    h->phases = pl_alloc((size_t)arm->n_shards * sizeof *h->phases);
    h->by = pl_alloc((size_t)arm->n_shards * sizeof *h->by);
    h->done = pl_alloc((size_t)n_modules * sizeof *h->done);
    h->versions = pl_alloc((size_t)n_modules * sizeof *h->versions);
    h->paths = pl_name_table_create();
    for (int p = 0; p < arm->n_shards; p++) {
        char name[PL_MODULE_NAME_MAX];
        pl_arm_path_name(arm, h->topology, p, 0, name);
        pl_name_table_put(h->paths, name, p);
    }
}

static void put_module(const fake_home *h, int module, pl_buf *out)
{
    char name[PL_MODULE_NAME_MAX];
    pl_arm_module_name(&h->arm, h->topology, module, name);
    PL_SAY_BODY(out, module_record, .module = name,
                .version = (int64_t)h->versions[module]);
}

static void put_path_state(const fake_home *h, int path, pl_buf *out)
{
    char name[PL_MODULE_NAME_MAX];
    pl_arm_path_name(&h->arm, h->topology, path, 0, name);
    PL_SAY_BODY(out, path_record, .name = name, .phase = h->phases[path],
                .work.n_tokens = 1, .work.loss = 1,
                .work.seconds = 0.1 * (double)h->phases[path], .worker = h->by[path]);
}

static void nest_record(pl_buf *inner, pl_buf *out)
{
    pl_put_bytes(out, PL_TAG_RECORD, inner->data, inner->len);
    pl_buf_clear(inner);
}

static void make_state(fake_home *h)
{
    pl_buf inner = {0};
    pl_buf_clear(&h->state);
    PL_SAY_RECORD(&h->state, arm_record, .arm = h->arm.name, .arm_blob = h->blob);
    for (int m = 0; m < pl_topology_n_modules(h->topology); m++) {
        put_module(h, m, &inner);
        nest_record(&inner, &h->state);
    }
    for (int p = 0; p < h->arm.n_shards; p++)
        if (h->phases[p] > 0) {
            put_path_state(h, p, &inner);
            nest_record(&inner, &h->state);
        }
    pl_buf_destroy(&inner);
}

static void put_piece(const pl_buf *from, uint64_t offset, pl_message *a)
{
    size_t left = offset < from->len ? from->len - (size_t)offset : 0;
    PL_SAY_BODY(&a->body, piece, .total = from->len, .offset = offset);
    if (left > 0)
        pl_buf_append(&a->data, from->data + offset,
                      left < PL_WIRE_DATA_MAX ? left : PL_WIRE_DATA_MAX);
}

/* Sends an event to the hub; its body is emptied for the next one. */
static void tell_hub_event(fake_home *h, pl_message *event)
{
    h->n_unsent +=
        h->hub.len > 0 && pl_wire_send_to(h->socket, &h->hub, event) != PL_OK;
    pl_buf_clear(&event->body);
}

/* Handles a path that has finished a phase. If all contributors of a module have
 * finished, the module gets a new version. */
static void on_finished(fake_home *h, pl_message *m)
{
    pl_msg_submit_path q;
    pl_message event = {.type = PL_MSG_EVENT};
    if (PL_HEAR(m, submit_path, &q) != PL_OK)
        return;
    int path = pl_name_table_get(h->paths, q.name);
    if (path < 0 || h->phases[path] + 1 != q.phase)
        return;
    h->phases[path]++;
    snprintf(h->by[path], sizeof *h->by, "%.*s", (int)q.lease.len,
             (const char *)q.lease.at);
    for (int slot = 0; slot < pl_topology_n_slots(h->topology); slot++) {
        int module = pl_topology_module_of_path(h->topology, slot, path);
        if (++h->done[module] % pl_arm_contributors(h->topology, module) != 0)
            continue;
        h->versions[module]++;
        put_module(h, module, &event.body);
        tell_hub_event(h, &event);
    }
    put_path_state(h, path, &event.body);
    tell_hub_event(h, &event);
    pl_message_destroy(&event);
}

static void answer_peer(fake_home *h, const pl_peer *peer, pl_message *m)
{
    pl_message a = {.type = PL_MSG_OK};
    pl_msg_get_state q;
    a.request = m->request;
    a.epoch = 1;
    switch (m->type) {
    case PL_MSG_HELLO:
        PL_SAY(&a, WELCOME, welcome_home, .version = 1);
        break;
    case PL_MSG_GET_STATE:
        h->hub = *peer;
        a.type = PL_MSG_STATE_IS;
        measure_need(PL_HEAR(m, get_state, &q));
        if (q.offset == 0)
            make_state(h);
        put_piece(&h->state, q.offset, &a);
        break;
    case PL_MSG_GET_BLOB:
        a.type = PL_MSG_BLOB;
        put_piece(&h->definition, 0, &a);
        break;
    case PL_MSG_SUBMIT_PATH:
        on_finished(h, m);
        pl_message_destroy(&a);
        return;
    default:
        break;
    }
    h->n_unsent += pl_wire_send_to(h->socket, peer, &a) != PL_OK;
    pl_message_destroy(&a);
}

static void serve_fake_home(fake_home *h, int64_t until_ms)
{
    pl_message m = {0};
    pl_peer peer;
    bool ready;
    while (pl_now_ms() < until_ms) {
        pl_wire_poll(&h->socket, 1, NULL, 0, 50, &ready);
        while (pl_wire_recv(h->socket, &peer, &m) == PL_OK)
            answer_peer(h, &peer, &m);
    }
    pl_message_destroy(&m);
}

/* ---- the measurement ---- */
static void print_times(const char *what, double *ms, size_t n)
{
    measure_sort(ms, n);
    if (n > 0)
        say("  %s %zu: p50 %.2f, p99 %.2f, max %.1f ms", what, n, ms[n / 2],
            ms[n * 99 / 100], ms[n - 1]);
}

/* Returns whether the hub has granted at least one task and one renewal. */
static bool run_hub_load(load *l)
{
    fake_home h = {0};
    int ends[2];
    int64_t start = pl_now_ms();
    l->begin_ms = start + WARM_UP_MS + JOIN_MS * l->workers + 1000 * l->task_s;
    l->end_ms = l->begin_ms + 1000 * l->seconds;
    make_arm(&h, l);
    /* forks before it has sockets: a fork cannot use ZeroMQ's threads */
    if (snprintf(l->home, sizeof l->home, "ipc://%s/home", l->folder) >= PL_ADDRESS_MAX)
        _exit(64);
    char ready[PL_PATH_MAX], ttl[48];
    pl_buf address = {0};
    pl_join(ready, l->folder, "hub.address");
    snprintf(ttl, sizeof ttl, "workers.ttl_ms=%d", TTL_MS);
    l->hub_pid = fork();
    if (l->hub_pid < 0)
        exit_with_errno("cannot start the hub");
    if (l->hub_pid == 0) {
        char log[PL_PATH_MAX];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen(pl_join(log, l->folder, "hub.log"), "w", stderr))
            _exit(74);
        execl("/proc/self/exe", "pathloom", "hub", "--listen", "tcp://127.0.0.1:*",
              "--home", l->home, "--set", ttl, "--ready", ready, (char *)NULL);
        _exit(71);
    }
    for (int i = 0; i < 500 && pl_read_file(ready, &address) != PL_OK; i++)
        pl_sleep_ms(10);
    pl_copy_text(l->hub, sizeof l->hub, pl_buf_text(&address));
    pl_buf_destroy(&address);
    const double alone = measure_memory(l->hub_pid, "VmRSS:");
    if (pipe(ends) != 0)
        exit_with_errno("cannot make a pipe");
    const pid_t players = fork();
    if (players < 0)
        exit_with_errno("cannot start the workers");
    if (players == 0)
        play(l, ends[1]);
    close(ends[1]);
    char bound[PL_ADDRESS_MAX];
    measure_need(pl_wire_bind(l->home, &h.socket, bound));
    serve_fake_home(&h, l->begin_ms);
    double cpu_s = measure_cpu_s(l->hub_pid);
    serve_fake_home(&h, l->end_ms);
    cpu_s = measure_cpu_s(l->hub_pid) - cpu_s;
    sample *s = pl_alloc(sizeof *s);
    FILE *file = fdopen(ends[0], "rb");
    const bool whole = file && fread(s, sizeof *s, 1, file) == 1;
    if (file)
        fclose(file);
    if (!whole)
        exit_with_errno("the process of the workers sent no samples");
    say("%lld workers, tasks of %lld s, %lld s counted; %lld answers NO_WORK, %lld "
        "leases lost",
        (long long)l->workers, (long long)l->task_s, (long long)l->seconds,
        (long long)s->n_empty, (long long)s->n_lost);
    say("  %.0f leases/s, %.0f messages of the hub/s",
        (double)s->n_grants / (double)l->seconds,
        (double)s->n_messages / (double)l->seconds);
    print_times("TASK_REQ to TASK", s->grant_ms, (size_t)s->n_grants);
    print_times("RENEW to RENEWED", s->renew_ms, (size_t)s->n_renewals);
    const bool good = s->n_grants > 0 && s->n_renewals > 0;
    pl_free(s);
    if (h.n_unsent > 0)
        say("  the home could not send %lld messages", (long long)h.n_unsent);
    const double most = measure_memory(l->hub_pid, "VmHWM:");
    say("  hub: %.0f MiB at most, %.1f KB per worker, %.0f %% of a core",
        most / 1048576, 1e-3 * (most - alone) / (double)l->workers,
        1e2 * cpu_s / (double)l->seconds);
    kill(l->hub_pid, SIGKILL);
    waitpid(l->hub_pid, NULL, 0);
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    return good;
}

pl_status measure_hub(const measure_fleet *o)
{
    load l = {.levels = o->levels,
              .workers = o->workers,
              .seconds = o->seconds,
              .task_s = o->task_s};
    int ended = 0;
    PL_CHECK(measure_make_folder("bench-hub-XXXXXX", l.folder));
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(run_hub_load(&l) ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &ended, 0) != child)
        ended = -1;
    PL_CHECK(pl_remove_tree(l.folder));
    if (ended == 0)
        return PL_OK;
    return pl_fail(PL_ERR_OS,
                   "the hub granted no task or no renewal, or the measurement ended "
                   "early; give fewer --workers or more --seconds");
}
