/* folder: serve; label: unit */
/* Tests which connections a server closes. Each connection is a socket pair. */
#include "serve/server_clients.h"
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/suite.h"

enum { HOUR_S = 3600, PATIENCE_MS = 60000, MOST = 8 };

static server_clients *clients;
static server_client *all[MOST];
static int ends[MOST][2]; /* the server's end and the client's end */

static void open_with(int places, int request_s, int answer_s)
{
    const server_clients_options options = {places, request_s, answer_s};
    assert_ok(server_clients_open(&options, &clients));
}

static void enter(int i, uint32_t address)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
    all[i] = server_clients_enter(clients, ends[i][0], address);
}

static bool is_closed(int i, int timeout_ms)
{
    char byte;
    struct pollfd p = {.fd = ends[i][1], .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1 && recv(ends[i][1], &byte, 1, 0) == 0;
}

static int leave_all(void **state)
{
    (void)state;
    for (int i = 0; i < MOST; i++) {
        if (!all[i])
            continue;
        server_clients_leave(clients, &all[i]);
        assert_null(all[i]);
        close(ends[i][0]);
        close(ends[i][1]);
    }
    server_clients_close(&clients);
    return 0;
}

#define FIXTURE_TEST(name) PL_TEST_WITH(name, NULL, leave_all)

FIXTURE_TEST(of_too_many_the_oldest_of_the_fullest_address_goes)
{
    open_with(4, HOUR_S, HOUR_S);
    enter(0, 7);
    enter(1, 8);
    pl_sleep_ms(2); /* so that client 1 is older: times are in whole ms */
    enter(2, 8);
    enter(3, 9);
    enter(4, 8);
    assert_true(is_closed(1, PATIENCE_MS));
    for (int i = 0; i < 5; i++)
        assert_int_equal(is_closed(i, 0), i == 1);
}

FIXTURE_TEST(a_busy_one_stays)
{
    open_with(2, HOUR_S, HOUR_S);
    enter(0, 7);
    server_client_is_busy(all[0]);
    pl_sleep_ms(2);
    enter(1, 7);
    enter(2, 7);
    assert_true(is_closed(1, PATIENCE_MS));
    assert_false(is_closed(0, 0));
}

FIXTURE_TEST(bytes_that_trickle_in_do_not_renew_a_request)
{
    open_with(4, 0, HOUR_S);
    enter(0, 7);
    server_client_is_busy(all[0]);
    enter(1, 7);
    assert_int_equal(send(ends[1][1], "G", 1, 0), 1);
    assert_true(is_closed(1, PATIENCE_MS));
    assert_false(is_closed(0, 0));
    server_client_waits(all[0]);
    assert_true(is_closed(0, PATIENCE_MS));
}

FIXTURE_TEST(an_answer_ends_in_time_too)
{
    open_with(4, HOUR_S, 0);
    enter(0, 7);
    server_client_is_busy(all[0]);
    enter(1, 7);
    assert_true(is_closed(0, PATIENCE_MS));
    assert_false(is_closed(1, 0));
}
