/* Addresses of processes:
 *
 *   tcp://HOST:PORT#KEY    encrypted, to the process with this key
 *   tcp://HOST:PORT        not encrypted: HOST must be this machine's loopback
 *   ipc://PATH[#KEY]       a socket in the file system
 *   PL_ADDRESS_PRIVATE     to listen: such a socket in a folder that only its owner can
 *                          enter
 *
 * HOST is a name, an IPv4 address, [an IPv6 address], or * (all interfaces, to listen);
 * PORT is a number, or * to listen on a free one. */
#ifndef PL_BASE_ADDRESS_H
#define PL_BASE_ADDRESS_H
#include "base/keys.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PL_ADDRESS_MAX = 256 };

typedef struct pl_address {
    char endpoint[PL_ADDRESS_MAX]; /* what ZeroMQ is told: without the key */
    char host[PL_ADDRESS_MAX];     /* "" for ipc */
    int port;                      /* 0: * */
    bool is_local;                 /* cannot be reached from another machine */
    bool is_anywhere;              /* of all interfaces */
    bool has_key;
    pl_pubkey key;
} pl_address;

/* ERR_CONFIG says what is wrong with it; ERR_UNSUPPORTED: another transport. */
PL_MUST_CHECK pl_status pl_address_parse(const char *text, pl_address *out);

/* The text by which others reach it: `host` in place of its own where that is of all
 * interfaces; with `key` unless that is NULL. */
void pl_address_format(const pl_address *address, const char *host,
                       const pl_pubkey *key, char out[PL_ADDRESS_MAX]);

#define PL_ADDRESS_PRIVATE "ipc://*"
/* ipc://FOLDER/NAME.sock, absolute; the folder is made, and kept to its owner (0700).
 * PL_ADDRESS_PRIVATE where its path is too long for a socket or it can hold none. */
void pl_address_in_folder(const char *folder, const char *name,
                          char out[PL_ADDRESS_MAX]);
/* The same in the folder of another address of this kind; PL_ADDRESS_PRIVATE if it is
 * of another kind or the folder is not this user's to write. */
void pl_address_beside(const char *address, const char *name, char out[PL_ADDRESS_MAX]);

/* The first address of this machine that is not loopback; "127.0.0.1" if there is
 * none. */
void pl_address_of_machine(char out[PL_ADDRESS_MAX]);

#ifdef __cplusplus
}
#endif
#endif
