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
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    const char *host = a->host;
    const size_t len = strlen(host);
    struct in_addr v4;
    a->is_anywhere = strcmp(host, "*") == 0 || strcmp(host, "0.0.0.0") == 0 ||
                     strcmp(host, "[::]") == 0;
    if (a->is_anywhere)
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1) {
        a->is_local = ntohl(v4.s_addr) >> 24 == 127;
        return true;
    }
    if (host[0] != '[')
        return len > 0 && strspn(host, allowed) == len;
    char bare[INET6_ADDRSTRLEN];
    struct in6_addr v6;
    a->is_local = strcmp(host, "[::1]") == 0;
    if (len < 4 || len - 1 > sizeof bare || host[len - 1] != ']')
        return false;
    memcpy(bare, host + 1, len - 2);
    bare[len - 2] = '\0';
    return inet_pton(AF_INET6, bare, &v6) == 1;
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
    out->is_local = !pl_starts_with(out->endpoint, "tcp://");
    if (out->is_local && !pl_starts_with(out->endpoint, "ipc://"))
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the address `%.200s` is neither tcp://HOST:PORT nor ipc://PATH",
                       text);
    if (out->is_local)
        return out->endpoint[strlen("ipc://")]
                   ? PL_OK
                   : bad(text, "has no path; write ipc://PATH");
    const char *host = out->endpoint + strlen("tcp://"), *colon = strrchr(host, ':');
    const char *port = colon ? colon + 1 : "";
    const size_t digits = strspn(port, "0123456789");
    const bool is_number =
        digits > 0 && digits <= 5 && !port[digits] && atoi(port) <= 65535;
    if (!is_number && strcmp(port, "*") != 0)
        return bad(text, "has no valid port; write tcp://HOST:PORT, where PORT is a "
                         "number up to 65535, or * for any free port");
    out->port = is_number ? atoi(port) : 0;
    memcpy(out->host, host, (size_t)(colon - host));
    if (!classify_host(out))
        return bad(text, "has no valid host; HOST is a name, an address like 10.0.0.1 "
                         "or [fd00::1], or * to listen on all interfaces");
    return PL_OK;
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

void pl_address_of_machine(char out[PL_ADDRESS_MAX])
{
    struct ifaddrs *all = NULL;
    pl_copy_text(out, PL_ADDRESS_MAX, "127.0.0.1");
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct sockaddr_in address;
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
            !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
            continue;
        memcpy(&address, i->ifa_addr, sizeof address);
        if (inet_ntop(AF_INET, &address.sin_addr, out, PL_ADDRESS_MAX))
            break;
    }
    freeifaddrs(all);
}

bool pl_url_is_local(const char *url)
{
    static const char *const hosts[] = {"http://127.0.0.1", "http://localhost",
                                        "http://[::1]"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        const char *rest = url + strlen(hosts[i]);
        if (pl_starts_with(url, hosts[i]) &&
            strchr(":/", *rest)) /* also true at the end of the text */
            return !memchr(rest, '@', strcspn(rest, "/?#"));
    }
    return false;
}
