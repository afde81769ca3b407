/* folder: base; label: fault */
/* Tests an encrypted port to which strangers (clients without a key) send bytes that
 * are not a handshake. Hundreds of such connections must cost the server only a limited
 * amount of memory, and known clients must still be served. */
#include "base/base.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/key_edits.h"
#include "tests/support/suite.h"

enum {
    STRANGERS = 900,
    FILES = 2 * STRANGERS + 200,
    HOLD_MS = 3500, /* after 15 s the server ends such a connection */
    COST_MAX = 64 << 20,
    GREETING = 64,
    CLAIM = (1 << 20) + 4096 /* length of a frame that every server refuses */
};

static uint64_t resident_bytes(void)
{
    long long all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lld %lld", &all, &resident), 2);
    fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- the strangers, who run in their own process ---- */
typedef struct stranger {
    int fd;
    size_t sent;
} stranger;

/* Makes a ZeroMQ greeting that asks for encryption (CURVE), and then a frame that
 * claims to have `claim` bytes. */
static void fill_payload(uint8_t *out, size_t size, size_t claim)
{
    memset(out, 'A', size);
    memset(out, 0, GREETING);
    out[0] = 0xff;
    out[9] = 0x7f;
    out[10] = 3;
    memcpy(out + 12, "CURVE", 5);
    out[GREETING] = 6; /* flags: a command whose length has 8 bytes */
    for (int i = 0; i < 8; i++)
        out[GREETING + 1 + i] = (uint8_t)((uint64_t)claim >> (56 - 8 * i));
}

static bool push(stranger *s, const uint8_t *payload, size_t size)
{
    ssize_t n = s->sent < size ? send(s->fd, payload + s->sent, size - s->sent,
                                      MSG_DONTWAIT | MSG_NOSIGNAL)
                               : 0;
    if (n > 0)
        s->sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN)
        s->sent = size; /* the server has closed the connection */
    return n > 0;
}

/* Eight of nine strangers claim the length of the largest frame that an encrypted port
 * accepts (ALLOWED bytes). The others claim more. */
static void be_strangers(int port)
{
    enum { LARGEST = GREETING + 9 + CLAIM, ALLOWED = (48 << 10) + 256 };
    uint8_t *large = malloc(LARGEST), *fitting = malloc(LARGEST);
    stranger *all = calloc(STRANGERS, sizeof *all);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (!large || !fitting || !all)
        _exit(1);
    fill_payload(large, LARGEST, CLAIM);
    fill_payload(fitting, LARGEST, ALLOWED);
    for (int i = 0; i < STRANGERS; i++) {
        all[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        if (all[i].fd < 0 || connect(all[i].fd, (void *)&at, sizeof at) != 0)
            _exit(2);
    }
    for (int64_t end = pl_now_ms() + HOLD_MS; pl_now_ms() < end;) {
        bool pushed = false;
        for (int i = 0; i < STRANGERS; i++)
            pushed |= i % 9 == 0 ? push(&all[i], large, LARGEST)
                                 : push(&all[i], fitting, GREETING + ALLOWED);
        if (!pushed)
            pl_sleep_ms(10);
    }
    _exit(0);
}

/* ---- the server, and a worker whose key it knows ---- */
typedef struct fixture {
    char folder[32], list[64], address[PL_ADDRESS_MAX];
    pl_keypair server_keys, worker;
    pl_socket *server, *client;
} fixture;

static void open_server(fixture *f)
{
    pl_key_entry e = {.role = PL_AS_WORKER, .name = "w"};
    snprintf(f->folder, sizeof f->folder, "/tmp/pl-strangers-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->list, sizeof f->list, "%s/allow", f->folder);
    pl_keypair_create(&f->server_keys);
    pl_keypair_create(&f->worker);
    e.key = f->worker.open;
    assert_ok(pl_key_list_edit(f->list, put_entry, &e));
    pl_wire_keys(&f->server_keys);
    assert_ok(open_quiet_gate(&f->server_keys, f->list));
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &f->server, f->address));
    assert_ok(pl_wire_connect_as(f->address, &f->worker, &f->client));
}

static void close_server(fixture *f)
{
    pl_wire_close(&f->client);
    pl_wire_close(&f->server);
    pl_wire_shutdown();
    assert_ok(pl_remove_tree(f->folder));
}

/* Like every client, the worker asks again if its connection broke. */
static void serve_worker(const fixture *f)
{
    OWNED(pl_message_destroy) pl_message q, got;
    pl_peer peer;
    bool answered = false;
    int64_t asked_ms = 0;
    pl_message_init(&q, 2);
    pl_message_init(&got, 0);
    q.request = pl_wire_next_request();
    for (int64_t end = pl_now_ms() + 60000; !answered && pl_now_ms() < end;
         pl_sleep_ms(2)) {
        if (pl_now_ms() - asked_ms > 1000) {
            pl_status status = pl_wire_send(f->client, &q);
            assert_true(status == PL_OK || status == PL_ERR_NET);
            asked_ms = pl_now_ms();
        }
        if (pl_wire_recv(f->server, &peer, &got) == PL_OK) {
            pl_status status = pl_wire_send_to(f->server, &peer, &got);
            assert_true(status == PL_OK || status == PL_ERR_NET);
        }
        answered =
            pl_wire_recv(f->client, NULL, &got) == PL_OK && got.request == q.request;
    }
    assert_true(answered);
}

PL_TEST(nine_hundred_strangers_cost_at_most_64_MiB)
{
    OWNED(close_server) fixture f;
    pl_address at;
    struct rlimit files;
    memset(&f, 0, sizeof f);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < FILES)
        skip(); /* the system does not allow enough connections */
    open_server(&f);
    assert_ok(pl_address_parse(f.address, &at));
    serve_worker(&f);
    uint64_t before = resident_bytes(), most = 0;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_strangers(at.port);
    }
    int status = 0, n_served = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        serve_worker(&f);
        n_served++;
        uint64_t now = resident_bytes();
        most = now > most ? now : most;
        pl_sleep_ms(20);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pl_sleep_ms(500);
    serve_worker(&f);
    uint64_t after = resident_bytes();
    print_message("%d strangers cost %.1f MiB, and %.1f MiB after they had gone; the "
                  "worker got %d answers\n",
                  STRANGERS, (double)(most - before) / (1 << 20),
                  ((double)after - (double)before) / (1 << 20), n_served);
    assert_true(most - before <= COST_MAX);
    assert_true(after <= before + COST_MAX);
    assert_true(n_served >= 1);
}

/* ---- silent, half-open and slow connections under a small limit of files ---- */
enum {
    FEW_FILES = 192,
    OWN = 32,   /* files that the server itself has open, at most */
    BATCH = 32, /* connections that the strangers open before they look at the server */
    ROUNDS = 4  /* how often each stranger connects */
};

static int count_files(pid_t pid)
{
    char path[32];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    DIR *folder = opendir(path);
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n - 2; /* . and .. */
}

/* Waits until the server has accepted the newest connection, on which it then sends its
 * greeting, and has closed connections that are too many. */
static bool is_bounded(pid_t server, int newest)
{
    struct pollfd greeting = {.fd = newest, .events = POLLIN};
    if (poll(&greeting, 1, 60000) != 1)
        return false;
    for (int64_t end = pl_now_ms() + 60000; pl_now_ms() < end; pl_sleep_ms(1))
        if (count_files(server) <= FEW_FILES / 2 + OWN)
            return true;
    return false;
}

/* Connects 1,000 times: a third says nothing, a third ends only its own half of the
 * connection, a third sends one byte after the other. */
static void be_silent(int port, pid_t server)
{
    enum { CONNECTIONS = 1000 };
    static int fds[CONNECTIONS];
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < CONNECTIONS + 100)
        _exit(77);
    for (int i = 0; i < ROUNDS * CONNECTIONS; i++) {
        int *fd = &fds[i % CONNECTIONS];
        if (*fd > 0)
            close(*fd);
        *fd = socket(AF_INET, SOCK_STREAM, 0);
        if (*fd < 0 || connect(*fd, (void *)&at, sizeof at) != 0)
            _exit(2);
        if (i % 3 == 1)
            shutdown(*fd, SHUT_WR);
        for (int k = i % 3 == 2 ? i % 100 : CONNECTIONS; k < i % CONNECTIONS; k += 100)
            send(fds[k], "\xff", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (i % BATCH == 0 && !is_bounded(server, *fd))
            _exit(3);
    }
    _exit(0);
}

static int server_with_few_files(int ready, int done)
{
    fixture f = {0};
    pl_address at;
    char byte = 0;
    int n_served = 0;
    struct rlimit few = {FEW_FILES, FEW_FILES};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0)
        return 3;
    open_server(&f);
    if (pl_address_parse(f.address, &at) != PL_OK)
        return 4;
    serve_worker(&f);
    if (write(ready, &at.port, sizeof at.port) != sizeof at.port)
        return 5;
    while (n_served < 10 || recv(done, &byte, 1, MSG_DONTWAIT) != 1) {
        serve_worker(&f); /* the worker that was connected before */
        if (++n_served % 8 == 0) {
            pl_wire_close(&f.client); /* and a new one */
            assert_ok(pl_wire_connect_as(f.address, &f.worker, &f.client));
        }
        int own = open("/dev/null", O_RDONLY);
        if (own < 0)
            return 6; /* strangers have all descriptors */
        close(own);
    }
    close_server(&f);
    return 0;
}

PL_TEST(a_thousand_silent_connections_leave_files_for_the_server)
{
    int pair[2], port = 0, status = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(server_with_few_files(pair[1], pair[1]));
    }
    assert_int_equal(recv(pair[0], &port, sizeof port, MSG_WAITALL), sizeof port);
    pid_t strangers = fork();
    if (strangers == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_silent(port, server);
    }
    assert_int_equal(waitpid(strangers, &status, 0), strangers);
    const int how = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    assert_int_equal(send(pair[0], "x", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(waitpid(server, &status, 0), server);
    if (how == 77)
        skip(); /* the system does not allow enough connections */
    assert_int_equal(how, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(pair[0]);
    close(pair[1]);
}

static int allow_files(void **state)
{
    (void)state;
    pl_allow_files();
    return 0;
}

PL_SUITE(allow_files, NULL)
