/* Parses addresses more strictly than ZeroMQ, which also accepts lists of addresses,
 * names of interfaces, and source addresses. */
#include "base/address.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pl_status bad(const char *text, const char *why)
{
    return pl_fail(PL_ERR_CONFIG, "the address `%.200s` %s", text, why);
}

static bool parse_port(const char *text, int *out)
{
    *out = 0;
    if (strcmp(text, "*") == 0)
        return true;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits])
        return false;
    *out = atoi(text);
    return *out <= 65535;
}

static bool is_ipv6(const char *host)
{
    char bare[INET6_ADDRSTRLEN];
    struct in6_addr address;
    size_t len = strlen(host);
    if (len < 4 || len - 1 > sizeof bare || host[0] != '[' || host[len - 1] != ']')
        return false;
    memcpy(bare, host + 1, len - 2);
    bare[len - 2] = '\0';
    return inet_pton(AF_INET6, bare, &address) == 1;
}

static bool is_ipv4(const char *host, bool *loopback)
{
    struct in_addr address;
    if (inet_pton(AF_INET, host, &address) != 1)
        return false;
    *loopback = ntohl(address.s_addr) >> 24 == 127;
    return true;
}

static bool is_within(uint32_t address, uint32_t net, int bits)
{
    return address >> (32 - bits) == net >> (32 - bits);
}

bool pl_address_is_private(const pl_address *address)
{
    struct in_addr in;
    if (address->host[0] == '[') /* fc00::/7 and fe80::/10 */
        return strchr("fF", address->host[1]) && strchr("cCdDeE", address->host[2]);
    if (inet_pton(AF_INET, address->host, &in) != 1)
        return false;
    const uint32_t a = ntohl(in.s_addr);
    return is_within(a, 0x0a000000, 8) || is_within(a, 0xac100000, 12) ||
           is_within(a, 0xc0a80000, 16) || is_within(a, 0xa9fe0000, 16) ||
           is_within(a, 0x64400000, 10);
}

static bool classify_host(pl_address *a)
{
    a->is_anywhere = strcmp(a->host, "*") == 0 || strcmp(a->host, "0.0.0.0") == 0 ||
                     strcmp(a->host, "[::]") == 0;
    if (a->is_anywhere || is_ipv4(a->host, &a->is_local))
        return true;
    if (a->host[0] == '[') {
        a->is_local = strcmp(a->host, "[::1]") == 0;
        return is_ipv6(a->host);
    }
    const char *host = a->host;
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    return host[0] && strspn(host, allowed) == strlen(host);
}

static pl_status parse_tcp(const char *text, pl_address *a)
{
    const char *host = a->endpoint + strlen("tcp://");
    const char *colon = strrchr(host, ':');
    if (!colon || !parse_port(colon + 1, &a->port))
        return bad(text, "has no valid port; write tcp://HOST:PORT, where PORT is a "
                         "number up to 65535, or * for any free port");
    memcpy(a->host, host, (size_t)(colon - host));
    if (!classify_host(a))
        return bad(text, "has no valid host; HOST is a name, an address like 10.0.0.1 "
                         "or [fd00::1], or * to listen on all interfaces");
    return PL_OK;
}

pl_status pl_address_parse(const char *text, pl_address *out)
{
    memset(out, 0, sizeof *out);
    if (!pl_copy_text(out->endpoint, sizeof out->endpoint, text))
        return pl_fail(PL_ERR_CONFIG, "the address %.64s... is longer than %d bytes",
                       text, PL_ADDRESS_MAX - 1);
    char *mark = strrchr(out->endpoint, '#');
    if (mark) {
        if (pl_pubkey_parse(mark + 1, &out->key) != PL_OK)
            return bad(text, "has no valid key after the #; write tcp://HOST:PORT#KEY");
        out->has_key = true;
        *mark = '\0';
    }
    if (pl_starts_with(out->endpoint, "tcp://"))
        return parse_tcp(text, out);
    out->is_local = true;
    if (!pl_starts_with(out->endpoint, "ipc://"))
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the address `%.200s` is neither tcp://HOST:PORT nor ipc://PATH",
                       text);
    return out->endpoint[strlen("ipc://")] ? PL_OK
                                           : bad(text, "has no path; write ipc://PATH");
}

void pl_address_format(const pl_address *address, const char *host,
                       const pl_pubkey *key, char out[PL_ADDRESS_MAX])
{
    char text[PL_PUBKEY_TEXT] = "";
    if (key)
        pl_pubkey_format(key, text);
    if (address->is_anywhere)
        snprintf(out, PL_ADDRESS_MAX, "tcp://%.120s:%d%s%s", host, address->port,
                 key ? "#" : "", text);
    else
        snprintf(out, PL_ADDRESS_MAX, "%.200s%s%s", address->endpoint, key ? "#" : "",
                 text);
}

static bool usable(const struct ifaddrs *i)
{
    return i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
           (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK);
}

void pl_address_of_machine(char out[PL_ADDRESS_MAX])
{
    struct ifaddrs *all = NULL;
    pl_copy_text(out, PL_ADDRESS_MAX, "127.0.0.1");
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct sockaddr_in address;
        if (!usable(i))
            continue;
        memcpy(&address, i->ifa_addr, sizeof address);
        if (inet_ntop(AF_INET, &address.sin_addr, out, PL_ADDRESS_MAX))
            break;
    }
    freeifaddrs(all);
}
