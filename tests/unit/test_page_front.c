/* folder: serve; label: unit */
/* Asks the front of the page over HTTP. The owner of the front is the test. */
#include "serve/page_front.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/suite.h"

enum { PATIENCE_MS = 60000, LOOK_MS = 100 };

static int ask(const char *address, const char *url, const char *host)
{
    char request[128];
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", url, host);
    assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
    return fd;
}

PL_TEST(busy_owner_is_asked_again_only_while_the_client_waits)
{
    char address[64], text[1024];
    OWNED(pl_page_front_close) pl_page_front *front = NULL;
    const pl_page_front_options options = {.listen = "127.0.0.1:*"};
    assert_ok(pl_page_front_open(&options, &front, address));
    const int fd = ask(address, "/state", "localhost");
    for (int i = 0; i < 3; i++) {
        pl_page_question *q = pl_page_front_take(front, PATIENCE_MS);
        assert_non_null(q);
        if (i == 2)
            shutdown(fd, SHUT_WR);
        pl_page_front_answer(q, pl_fail(PL_ERR_BUSY, "the owner is busy"),
                             &(pl_buf){0});
    }
    /* Nobody asks the owner again, and the client gets the answer that there is. */
    ssize_t len = 0;
    while (len == 0) {
        assert_null(pl_page_front_take(front, LOOK_MS));
        len = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
        len = len < 0 ? 0 : len;
    }
    text[len] = 0;
    assert_non_null(strstr(text, "HTTP/1.1 503 "));
    close(fd);
}

/* 127.1 stands for a name: it is not how the address 127.0.0.1 is written. */
PL_TEST(the_host_may_be_named_as_listen_names_it)
{
    static const char *const hosts[] = {"127.1", "127.0.0.1", "127.2"};
    char address[64], text[1024];
    OWNED(pl_page_front_close) pl_page_front *front = NULL;
    const pl_page_front_options options = {.listen = "127.1:*"};
    assert_ok(pl_page_front_open(&options, &front, address));
    for (int i = 0; i < 3; i++) {
        const int fd = ask(address, "/", hosts[i]);
        const ssize_t len = recv(fd, text, sizeof text - 1, 0);
        assert_true(len > 0);
        text[len] = 0;
        assert_non_null(strstr(text, i < 2 ? "HTTP/1.1 200 " : "HTTP/1.1 403 "));
        close(fd);
    }
}
