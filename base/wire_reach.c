/* Finds out why no connection to a server comes about: its name is unknown, nothing
 * listens at its port, or its machine is silent. ZeroMQ tries again silently. Also
 * finds out whether a process can listen at an address, without listening there. */
#include "base/clock.h"
#include "base/text.h"
#include "base/wire_internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Looks up host and port of a TCP address. ZeroMQ looks a name up in the same way, also
 * each time when it connects again. Returns 0 or the error of getaddrinfo
 * (EAI_...). */
static int look_up(const pl_address *at, int flags, struct addrinfo **out)
{
    char host[PL_ADDRESS_MAX], port[16];
    const bool is_v6 = at->host[0] == '[';
    const struct addrinfo hints = {.ai_flags = flags,
                                   .ai_family = is_v6 ? AF_INET6 : AF_INET,
                                   .ai_socktype = SOCK_STREAM};
    pl_copy_text(host, sizeof host, at->host + is_v6);
    host[strcspn(host, "]")] = '\0';
    snprintf(port, sizeof port, "%d", at->port);
    const bool is_any = (flags & AI_PASSIVE) != 0 && at->is_anywhere;
    return getaddrinfo(is_any ? NULL : host, port, &hints, out);
}

pl_status wire_tcp_check(const pl_address *at)
{
    const int yes = 1, no = 0;
    struct addrinfo *found = NULL;
    if (!at->host[0] || look_up(at, AI_NUMERICHOST | AI_PASSIVE, &found) != 0)
        return PL_ERR_NOT_FOUND;
    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && found->ai_family == AF_INET6) /* like ZeroMQ: [::] takes IPv4, too */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    const bool is_free =
        fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(fd, found->ai_addr, found->ai_addrlen) == 0;
    const pl_status status = is_free ? PL_OK : wire_cannot_listen(at->endpoint);
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return status;
}

pl_status pl_wire_reach(const char *address, int timeout_ms)
{
    pl_address at;
    struct addrinfo *found = NULL;
    PL_CHECK(pl_address_parse(address, &at));
    if (!at.host[0]) /* a socket in a folder of this machine */
        return PL_OK;
    int cause = look_up(&at, 0, &found);
    if (cause == EAI_AGAIN)
        return pl_fail(PL_ERR_NET,
                       "the name %s cannot be looked up, because the name service "
                       "(DNS) does not answer; check the network of this machine",
                       at.host);
    if (cause != 0)
        return pl_fail(PL_ERR_NET,
                       "there is no machine with the name %s (%s); check the name in "
                       "the address, and the name service (DNS) of this machine",
                       at.host, gai_strerror(cause));
    /* connects without ZeroMQ; `cause` gets 0, or the errno */
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0)
        cause = errno;
    if (cause == EINPROGRESS) {
        socklen_t len = sizeof cause;
        int64_t until = pl_now_ms() + timeout_ms, left = timeout_ms;
        int n;
        while ((n = poll(&wait, 1, (int)left)) < 0 && errno == EINTR && left > 0)
            left = until > pl_now_ms() ? until - pl_now_ms() : 0;
        if (n <= 0)
            cause = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &cause, &len) != 0)
            cause = errno;
    }
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    if (cause == 0)
        return PL_OK;
    if (cause == ECONNREFUSED)
        return pl_fail(PL_ERR_NET,
                       "nothing listens at %s: the job does not run there now, or it "
                       "listens at a different port",
                       at.endpoint);
    if (cause == ETIMEDOUT)
        return pl_fail(PL_ERR_TIMEOUT,
                       "%s did not answer within %d s: its machine is off, or a "
                       "firewall drops the packets",
                       at.endpoint, (timeout_ms + 999) / 1000);
    return pl_fail(PL_ERR_NET, "%s cannot be reached: %s", at.endpoint,
                   strerror(cause));
}
