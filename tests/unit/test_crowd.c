/* folder: base; label: unit */
/* Tests a process that has few files: which connections are closed (base/crowd.h), and
 * its errors. */
#include "base/base.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/suite.h"

enum { FILES = 128, PLACES = 16, HIGH = FILES - 8 };

typedef struct fixture {
    pl_crowd crowd;
    pl_guest busy, waiting;
    int ends[2]; /* the other ends of the connections */
    int own[FILES], n_own;
} fixture;

/* Makes a connection whose descriptor has at least the number `from`. */
static void connect_guest(pl_guest *guest, int from, int *end)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    *guest = (pl_guest){.socket = fcntl(pair[0], F_DUPFD, from)};
    assert_true(guest->socket >= from);
    close(pair[0]);
    *end = pair[1];
}

/* A busy connection got a high number when the process had few files, and a new
 * connection waits. */
static void begin(fixture *f)
{
    *f = (fixture){.crowd = {.places = PLACES,
                             .waiting = PLACES,
                             .wait_limit_ms = INT64_MAX,
                             .busy_limit_ms = INT64_MAX}};
    connect_guest(&f->busy, HIGH, &f->ends[0]);
    connect_guest(&f->waiting, 0, &f->ends[1]);
    pl_guest_is_busy(&f->busy);
    pl_guest_waits(&f->waiting);
    pl_crowd_enter(&f->crowd, &f->busy);
    pl_crowd_enter(&f->crowd, &f->waiting);
    assert_true(f->waiting.socket < pl_files_for_guests());
}

static void end(const fixture *f)
{
    for (int i = 0; i < f->n_own; i++)
        close(f->own[i]);
    close(f->busy.socket);
    close(f->waiting.socket);
    close(f->ends[0]);
    close(f->ends[1]);
}

static bool is_open(int other_end)
{
    char byte;
    return recv(other_end, &byte, 1, MSG_DONTWAIT) < 0;
}

PL_TEST(an_old_connection_with_a_high_number_closes_no_new_one)
{
    OWNED(end) fixture f;
    begin(&f);
    assert_int_equal(pl_crowd_settle(&f.crowd), 0);
    assert_true(is_open(f.ends[0]) && is_open(f.ends[1]));
}

PL_TEST(a_waiting_connection_gives_way_to_files_of_the_process)
{
    OWNED(end) fixture f;
    begin(&f);
    while (f.n_own == 0 || f.own[f.n_own - 1] < pl_files_for_guests() - 1)
        assert_true((f.own[f.n_own++] = open("/", O_RDONLY)) >= 0);
    assert_int_equal(pl_crowd_settle(&f.crowd), 1);
    assert_true(is_open(f.ends[0]) && !is_open(f.ends[1]));
}

PL_TEST(a_process_without_files_closes_waiting_connections)
{
    OWNED(end) fixture f;
    begin(&f);
    while (f.n_own < FILES && (f.own[f.n_own] = open("/", O_RDONLY)) >= 0)
        f.n_own++;
    assert_int_equal(pl_crowd_settle(&f.crowd), 1);
    assert_true(is_open(f.ends[0]) && !is_open(f.ends[1]));
}

/* The launcher starts a process that ends with ERR_FILES again. */
PL_TEST(sockets_and_queues_name_the_limit_of_files)
{
    struct rlimit files;
    char address[PL_ADDRESS_MAX], other[PL_ADDRESS_MAX];
    pl_socket *server, *more = NULL;
    pl_queue *queue = NULL;
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &server, address));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    const int next = dup(STDERR_FILENO);
    close(next);
    const struct rlimit none = {(rlim_t)next, files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const pl_status statuses[] = {pl_wire_bind("tcp://127.0.0.1:*", &more, other),
                                  pl_wire_connect(address, &more),
                                  pl_queue_create(&queue)};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        assert_fails(statuses[i], PL_ERR_FILES, "ulimit -n");
    pl_wire_close(&server);
    pl_wire_shutdown();
}

static int allow_few_files(void **state)
{
    const struct rlimit few = {FILES, FILES};
    (void)state;
    return setrlimit(RLIMIT_NOFILE, &few);
}

PL_SUITE(allow_few_files, NULL)
