/* Addresses of processes:
 *
 *   tcp://HOST:PORT#KEY    encrypted, to the process with this key
 *   tcp://HOST:PORT        not encrypted: HOST must be this machine's loopback
 *   ipc://PATH[#KEY]       a socket in the file system
 *   PL_ADDRESS_PRIVATE     only for listening: a socket in a new folder of the file
 *                          system that only the folder's owner can enter
 *
 * HOST is a name, an IPv4 address, or an IPv6 address in brackets. PORT is a number. To
 * listen, HOST may be * (all interfaces) and PORT * (any free port). */
#pragma once
#include "base/keys.h"
PL_C_BEGIN

enum { PL_ADDRESS_MAX = 256 };

typedef struct pl_address {
    char endpoint[PL_ADDRESS_MAX]; /* address text for ZeroMQ, without the key */
    char host[PL_ADDRESS_MAX];     /* "" for an ipc address */
    int port;                      /* 0 if the port is *, and for an ipc address */
    bool is_local;                 /* whether only this machine can reach the address */
    bool is_anywhere;              /* whether the host stands for all interfaces */
    bool has_key;
    pl_pubkey key;
} pl_address;

/* ERR_CONFIG: the address is malformed, and the message says how. ERR_UNSUPPORTED: a
 * transport other than tcp and ipc. */
pl_status pl_address_parse(const char *text, pl_address *out);

/* Writes the text that other processes connect to. If the address stands for all
 * interfaces, `host` is written as its host. The key is appended unless it is NULL. */
void pl_address_format(const pl_address *address, const char *host,
                       const pl_pubkey *key, char out[PL_ADDRESS_MAX]);

#define PL_ADDRESS_PRIVATE "ipc://*"
/* Writes ipc://FOLDER/NAME.sock with an absolute path. The folder is made, with access
 * for its owner only (0700). Writes PL_ADDRESS_PRIVATE instead if the folder cannot be
 * made, the path is too long for a socket, or the file system cannot hold sockets. */
void pl_address_in_folder(const char *folder, const char *name,
                          char out[PL_ADDRESS_MAX]);
/* Writes the address of the socket NAME.sock in the folder of the ipc address
 * `address`. Writes PL_ADDRESS_PRIVATE if `address` is not an ipc address or if this
 * user may not write to the folder. */
void pl_address_beside(const char *address, const char *name, char out[PL_ADDRESS_MAX]);

/* Whether only machines of the same local network reach the host: a private, shared or
 * link-local address. False for names. */
bool pl_address_is_private(const pl_address *address);
/* Writes this machine's first address that is not loopback, else "127.0.0.1". */
void pl_address_of_machine(char out[PL_ADDRESS_MAX]);

/* Whether the URL begins with http:// and names this machine. A URL with a user name is
 * refused, because http://127.0.0.1:80@HOST means HOST. */
bool pl_url_is_local(const char *url);

PL_C_END
