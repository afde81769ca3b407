/* Keys: who a process is, and whom it lets in (docs/SECURITY.md).
 *
 * A key is a Curve25519 pair. The secret half stays in one file that nobody else can
 * read; the open half names its owner and stands in addresses (tcp://HOST:PORT#KEY) and
 * in the list of those who may connect. A list is a text file, one key a line:
 *
 *   ROLE KEY EXPIRES USES NAME        EXPIRES: seconds since 1970, 0: never
 *
 * A key that was revoked stays, with the role `revoked`, so that no invitation lets it
 * in again. A name stands for one line alone. A line that cannot be read lets nobody in
 * and stops nobody else: it is skipped, complained of, and kept when the file is
 * written.
 *
 * An invitation (role invite/ROLE) is the open half of a pair that follows from a
 * secret of 16 bytes. Whoever knows the secret may enrol a key of its own, USES times.
 */
#ifndef PL_BASE_KEYS_H
#define PL_BASE_KEYS_H
#include "base/buf.h"
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum {
    PL_PUBKEY_BYTES = 32,
    PL_PUBKEY_TEXT = 44, /* base64url without padding, and the end */
    PL_KEY_NAME_MAX = 64,
    PL_INVITE_BYTES = 16,
    PL_INVITE_TEXT = 23
};

typedef struct pl_pubkey {
    uint8_t bytes[PL_PUBKEY_BYTES];
} pl_pubkey;

typedef struct pl_keypair {
    pl_pubkey open;
    uint8_t secret[PL_PUBKEY_BYTES]; /* wipe it after use */
} pl_keypair;

void pl_pubkey_format(const pl_pubkey *key, char text[PL_PUBKEY_TEXT]);
PL_MUST_CHECK pl_status pl_pubkey_parse(const char *text,
                                        pl_pubkey *out); /* ERR_DATA */
bool pl_pubkey_equal(const pl_pubkey *a, const pl_pubkey *b);
/* ERR_DATA for bytes that are the open half of no pair: all zero, or another point of
 * low order, with which everybody would share the same secret. */
PL_MUST_CHECK pl_status pl_pubkey_check(const pl_pubkey *key);

void pl_keypair_create(pl_keypair *out);
/* The pair that a secret half belongs to. */
void pl_keypair_of(const uint8_t secret[PL_PUBKEY_BYTES], pl_keypair *out);
void pl_keypair_wipe(pl_keypair *pair);
/* Mode 0600, made durable; a file that is there already is ERR_EXISTS. */
PL_MUST_CHECK pl_status pl_keypair_save(const char *path, const pl_keypair *pair);
/* ERR_NOPERM if others than the owner may read the file; ERR_NOT_FOUND. */
PL_MUST_CHECK pl_status pl_keypair_load(const char *path, pl_keypair *out);

/* The secret of an invitation as text, fresh or read back, and the pair of it. */
void pl_invite_create(char text[PL_INVITE_TEXT]);
PL_MUST_CHECK pl_status pl_invite_keypair(const char *text, pl_keypair *out);

/* What a key may do; docs/PROTOCOL.md 1.6 has the table. LOCAL is whoever reaches a
 * socket that is not encrypted, which only this machine can. */
typedef enum pl_key_role {
    PL_AS_NONE,
    PL_AS_LOCAL,
    PL_AS_ADMIN,
    PL_AS_HUB,
    PL_AS_HOME,
    PL_AS_RELAY,
    PL_AS_WORKER,
    PL_AS_INSPECTOR,
    PL_AS_INVITE,
    PL_AS_REVOKED, /* may nothing */
    PL_AS_COUNT
} pl_key_role;
const char *pl_key_role_name(pl_key_role role);
/* One that a key can be given; ERR_USAGE names those. */
PL_MUST_CHECK pl_status pl_key_role_parse(const char *text, pl_key_role *out);

typedef struct pl_key_entry {
    pl_pubkey key;
    pl_key_role role, grants; /* grants: of an invitation */
    int64_t expires_s;        /* since 1970; 0: never */
    int uses;                 /* of an invitation, that are left */
    char name[PL_KEY_NAME_MAX];
} pl_key_entry;

enum { PL_KEY_COMPLAINT_MAX = 1536 };
typedef struct pl_key_list {
    pl_key_entry *entries; /* in rising order of keys, each once */
    size_t n;
    pl_buf kept; /* lines that are no entries: people's comments, and bad lines */
    int n_bad;   /* lines that were skipped */
    char complaint[PL_KEY_COMPLAINT_MAX]; /* a sentence about the first; "": none */
} pl_key_list;                            /* all zero is an empty list */

/* No file is an empty list. Bad lines are no failure: see `complaint`. ERR_CONFIG: it
 * has too many keys. */
PL_MUST_CHECK pl_status pl_key_list_load(const char *path, pl_key_list *out);
void pl_key_list_clear(pl_key_list *list);
/* NULL if it is not there; `now_s` rules out what has expired or was revoked, 0 rules
 * out nothing. */
const pl_key_entry *pl_key_list_find(const pl_key_list *list, const pl_pubkey *key,
                                     int64_t now_s);
/* Or replaces. ERR_DATA, ERR_USAGE: the key or the name is none, so the list could not
 * be read back. */
PL_MUST_CHECK pl_status pl_key_list_put(pl_key_list *list, const pl_key_entry *entry);
bool pl_key_list_drop(pl_key_list *list, const pl_pubkey *key);
/* A record stays; an invitation, whose secret enrols nothing but new keys, goes. False
 * if the key is not there. */
bool pl_key_list_revoke(pl_key_list *list, const pl_pubkey *key);
/* With which the names of the job's own keys begin; no other may. */
#define PL_KEY_OWN "own-"
/* Whether `key` may have the name. ERR_EXISTS: another line has it. ERR_NOPERM: it
 * looks like one of the job's own keys (own-...), or like a key. */
PL_MUST_CHECK pl_status pl_key_list_check_name(const pl_key_list *list,
                                               const char *name, const pl_pubkey *key);

/* Reads the list, changes it and replaces the file; processes that do so at the same
 * time come one after the other. Nothing is written if `change` fails. */
typedef pl_status (*pl_key_change)(pl_key_list *list, void *context);
PL_MUST_CHECK pl_status pl_key_list_edit(const char *path, pl_key_change change,
                                         void *context);

/* Printable, without blanks: letters, digits and ._:@- ; ERR_USAGE. */
PL_MUST_CHECK pl_status pl_key_name_check(const char *name);

#ifdef __cplusplus
}
#endif
#endif
