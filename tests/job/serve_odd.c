/* Tests a server with requests that no HTTP library sends.
 *
 *   serve_odd framing HOST PORT   sends requests whose end is unclear; each must be
 *                                 refused once
 *   serve_odd crowd HOST PORT N URL
 *                                 makes N connections, silent or with single bytes,
 * that stay open; the server must still answer URL serve_odd silent HOST PORT N  opens
 * connections again and again until it is killed, the newest N of which stay open
 *   serve_odd vanish HOST PORT N  sends N completions and disconnects; prints nothing
 *   serve_odd half HOST PORT      sends requests and closes the writing half of the
 *                                 connection; each must get its whole answer
 *   serve_odd events HOST PORT    the same with the stream of events of a page
 *
 * Ends with code 0 and prints a count, or ends with 1 and prints what went wrong. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 120000 }; /* only a failure waits so long */

static struct sockaddr_in server;

static void die(const char *what, const char *why)
{
    printf("%s: %s\n", what, why);
    exit(1);
}

static int connect_once(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)(void *)&server, sizeof server) != 0)
        die("connect", "refused");
    return fd;
}

/* Reads until the server closes the connection. Returns 0 if the server does not close
 * it in time. */
static int read_to_end(int fd, char *out, size_t size)
{
    size_t len = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (;;) {
        if (poll(&p, 1, PATIENCE_MS) != 1)
            return 0;
        ssize_t n = recv(fd, out + len, size - 1 - len, 0);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = 0;
    return 1;
}

static int count_answers(const char *text)
{
    int n = 0;
    for (; (text = strstr(text, "HTTP/1.1 ")); text++)
        n++;
    return n;
}

#define POST "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
#define NEXT "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
static const struct {
    const char *name, *request;
    int status;
} cases[] = {
    {"two lengths", POST "Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}" NEXT, 400},
    {"a length twice", POST "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}" NEXT,
     400},
    {"a length and chunks",
     POST "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT, 400},
    {"chunks and a length",
     POST "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n" NEXT, 400},
    {"Transfer-Encoding on a folded line",
     POST "Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" NEXT,
     400},
    {"Content-Length on a folded line", POST "Content-Length: 2\r\n 0\r\n\r\n{}" NEXT,
     400},
    {"an unknown coding", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" NEXT,
     501},
    {"two codings", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" NEXT, 501},
    {"a coding twice",
     POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
          "0\r\n\r\n" NEXT,
     501},
    /* what follows the chunks is not read */
    {"no chunks", POST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT, 400},
    {"chunks",
     POST "Transfer-Encoding: chunked\r\n\r\n"
          "2\r\n{}\r\n0\r\n\r\n" NEXT,
     400},
    {"chunks of HTTP/1.0",
     "POST /v1/completions HTTP/1.0\r\nHost: localhost\r\n"
     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT,
     411},
    {"a host that is not that of the URL",
     "GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n" NEXT, 400},
    {"a blank before the colon", POST "Content-Length : 2\r\n\r\n{}" NEXT, 400},
    {"a carriage return in a value",
     POST "X: a\rContent-Length: 60\r\nContent-Length: 2\r\n\r\n{}" NEXT, 400},
    {"two hosts", "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: y\r\n\r\n" NEXT,
     400},
    {"no host", "GET /health HTTP/1.1\r\n\r\n" NEXT, 400},
    {"Content-Length of a request without a body",
     "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n" NEXT,
     413},
};

static void try_framing(void)
{
    char text[65536], status[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = connect_once();
        send(fd, cases[i].request, strlen(cases[i].request), MSG_NOSIGNAL);
        if (!read_to_end(fd, text, sizeof text))
            die(cases[i].name, "the connection stays open");
        close(fd);
        snprintf(status, sizeof status, "HTTP/1.1 %d ", cases[i].status);
        if (strncmp(text, status, strlen(status)) != 0 || count_answers(text) != 1) {
            text[200] = 0;
            printf("%s: %d answers instead of one %s| %s\n", cases[i].name,
                   count_answers(text), status, text);
            exit(1);
        }
    }
    printf("%zu\n", sizeof cases / sizeof *cases);
}

/* Opens n connections that stay open. A third is silent, a third has ended its own
 * half. In each of five rounds the others send one byte of an unfinished request, and
 * then the server must answer the URL. */
static void try_crowd(int n, const char *url)
{
    static const char letters[] = "GET /";
    char text[4096], request[256];
    snprintf(request, sizeof request,
             "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", url);
    int *crowd = calloc((size_t)n, sizeof *crowd);
    for (int i = 0; crowd && i < n; i++)
        if ((crowd[i] = connect_once()) >= 0 && i % 3 == 1)
            shutdown(crowd[i], SHUT_WR);
    for (int round = 0; crowd && round < 5; round++) {
        for (int i = 2; i < n; i += 3)
            send(crowd[i], letters + round, 1, MSG_NOSIGNAL);
        int fd = connect_once();
        send(fd, request, strlen(request), MSG_NOSIGNAL);
        if (!read_to_end(fd, text, sizeof text) ||
            strncmp(text, "HTTP/1.1 200", 12) != 0)
            die(url, "no answer while other connections stay open");
        close(fd);
    }
    free(crowd);
    printf("%d\n", n);
}

static void stay_silent(int n)
{
    int *all = calloc((size_t)n, sizeof *all);
    for (int i = 0; all; i = (i + 1) % n) {
        if (all[i] > 0)
            close(all[i]);
        all[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(all[i], (struct sockaddr *)&server, sizeof server) != 0)
            usleep(10000); /* the server has ended, or its queue is full */
        if (i % 3 == 1)
            shutdown(all[i], SHUT_WR);
        for (int k = i % 3 == 2 ? i % 50 : n; k < n; k += 50)
            send(all[k], "\xff", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        usleep(1000);
    }
}

static void vanish(int n)
{
    static const char body[] = "{\"prompt\":\"The \",\"max_tokens\":60}";
    char request[256];
    int len = snprintf(request, sizeof request, POST "Content-Length: %zu\r\n\r\n%s",
                       strlen(body), body);
    for (int i = 0; i < n; i++) {
        int fd = connect_once();
        send(fd, request, (size_t)len, MSG_NOSIGNAL);
        close(fd);
    }
}

#define BODY(version, length, body)                                                    \
    "POST /v1/completions HTTP/" version "\r\nHost: localhost\r\n"                     \
    "Content-Length: " length "\r\n\r\n" body
#define WHOLE  "{\"prompt\":\"The \",\"max_tokens\":60,\"n\":8}"
#define STREAM "{\"prompt\":\"The \",\"max_tokens\":60,\"stream\":true}"
#define HEALTH "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
static const struct {
    const char *name, *requests;
    int answers;
    const char *last; /* text near the end of the last answer */
} halves[] = {
    {"an answer", BODY("1.1", "39", WHOLE), 1, "\"usage\":"},
    {"an answer of HTTP/1.0", BODY("1.0", "39", WHOLE), 1, "\"usage\":"},
    {"a stream in chunks", BODY("1.1", "47", STREAM), 1, "[DONE]\n\n\r\n0\r\n\r\n"},
    {"several requests", HEALTH BODY("1.1", "47", STREAM) BODY("1.1", "39", WHOLE), 3,
     "\"usage\":"},
};

static void try_halves(void)
{
    static char text[1 << 17];
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        int n = 0, fd = connect_once();
        send(fd, halves[i].requests, strlen(halves[i].requests), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        if (!read_to_end(fd, text, sizeof text))
            die(halves[i].name, "the connection stays open");
        close(fd);
        for (const char *at = text; (at = strstr(at, "HTTP/1.1 200 ")); at++)
            n++;
        if (n != halves[i].answers || !strstr(text, halves[i].last))
            die(halves[i].name, text[0] ? text : "no answer");
    }
}

/* The stream of a client that has closed its writing half must go on. */
static void try_events(void)
{
    static const char request[] = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char text[4096];
    int fd = connect_once(), n = 0;
    send(fd, request, strlen(request), MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    for (; n < 3; n++) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t len = poll(&p, 1, PATIENCE_MS) == 1 ? recv(fd, text, 4095, 0) : 0;
        if (len <= 0)
            die("a stream of events", "it ends");
        text[len] = 0;
        if (!strstr(text, "data:") && !strstr(text, ": nothing new") && n > 0)
            die("a stream of events", text);
    }
    close(fd);
}

int main(int argc, char **argv)
{
    struct rlimit files;
    int n = argc > 4 ? atoi(argv[4]) : 0;
    if (argc < 4)
        return 64;
    server.sin_family = AF_INET;
    server.sin_port = htons((uint16_t)atoi(argv[3]));
    inet_pton(AF_INET, argv[2], &server.sin_addr);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (strcmp(argv[1], "framing") == 0)
        try_framing();
    else if (strcmp(argv[1], "crowd") == 0)
        try_crowd(n, argc > 5 ? argv[5] : "/health");
    else if (strcmp(argv[1], "silent") == 0)
        stay_silent(n > 0 ? n : 1);
    else if (strcmp(argv[1], "half") == 0)
        try_halves();
    else if (strcmp(argv[1], "events") == 0)
        try_events();
    else
        vanish(n);
    return 0;
}
