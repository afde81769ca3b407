/* Keys identify processes. A list of keys decides which processes may connect
 * (docs/SECURITY.md).
 *
 * A key is a Curve25519 pair. The secret half stays in one file that only its owner can
 * read. The public half identifies the owner of the key; it is part of addresses
 * (tcp://HOST:PORT#KEY) and of the list of keys that may connect. A list is a text file
 * with one key per line:
 *
 *   ROLE KEY EXPIRES USES NAME        EXPIRES: seconds since 1970, 0: never
 *
 * A key that was revoked stays in the list with the role `revoked`, so that it cannot
 * be enrolled again with an invitation. No two lines have the same name. A line that
 * cannot be parsed is skipped and reported. It gives no key access, does not affect the
 * other lines, and is kept when the file is written.
 *
 * An invitation (role invite/ROLE) is the public half of a key pair that is derived
 * from a secret of 16 bytes. A client that knows the secret may enrol its own keys, at
 * most USES of them. */
#pragma once
#include "base/buf.h"
PL_C_BEGIN

enum {
    PL_PUBKEY_BYTES = 32,
    PL_PUBKEY_TEXT = 44, /* base64url without padding, and the terminating NUL */
    PL_KEY_NAME_MAX = 64,
    PL_INVITE_BYTES = 16,
    PL_INVITE_TEXT = 23
};

typedef struct pl_pubkey {
    uint8_t bytes[PL_PUBKEY_BYTES];
} pl_pubkey;

typedef struct pl_keypair {
    pl_pubkey open;                  /* the public half */
    uint8_t secret[PL_PUBKEY_BYTES]; /* wipe it after use */
} pl_keypair;

char *pl_pubkey_format(const pl_pubkey *key, char text[PL_PUBKEY_TEXT]);
pl_status pl_pubkey_parse(const char *text, pl_pubkey *out); /* ERR_DATA */
bool pl_pubkey_equal(const pl_pubkey *a, const pl_pubkey *b);
bool pl_pubkey_none(const pl_pubkey *key); /* whether all bytes are zero (no key) */
/* ERR_DATA if the bytes are not a valid public key: all zeros, or another point of low
 * order, which gives the same shared secret with every key. */
pl_status pl_pubkey_check(const pl_pubkey *key);

void pl_keypair_create(pl_keypair *out);
/* Computes the public half of a pair from its secret half. */
void pl_keypair_of(const uint8_t secret[PL_PUBKEY_BYTES], pl_keypair *out);
void pl_keypair_wipe(pl_keypair *pair);
/* Writes the file with mode 0600, durably. ERR_EXISTS if the file exists. */
pl_status pl_keypair_save(const char *path, const pl_keypair *pair);
/* ERR_NOT_FOUND: the file does not exist. ERR_NOPERM: the file cannot be opened, is not
 * a regular file, belongs to a different user, or can be accessed by users other than
 * its owner; but a file of root may be readable by the group through which this process
 * reads it. ERR_DAMAGED: the file is not a key file. */
pl_status pl_keypair_load(const char *path, pl_keypair *out);

/* pl_invite_create makes the secret of a new invitation as text; pl_invite_keypair
 * derives the key pair from that text. */
void pl_invite_create(char text[PL_INVITE_TEXT]);
pl_status pl_invite_keypair(const char *text, pl_keypair *out);

/* The rights of a key; docs/PROTOCOL.md 1.6 has the table. PL_AS_LOCAL is the role of
 * every client of a socket without encryption, which only this machine reaches. */
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
    PL_AS_REVOKED, /* a key with this role may send no message */
    PL_AS_COUNT
} pl_key_role;
const char *pl_key_role_name(pl_key_role role);
/* Reads a role that a user may give to a key. ERR_USAGE lists these roles. */
pl_status pl_key_role_parse(const char *text, pl_key_role *out);

typedef struct pl_key_entry {
    pl_pubkey key;
    pl_key_role role, grants; /* grants: the role of keys that an invitation enrols */
    int64_t expires_s;        /* seconds since 1970; 0: never */
    int uses;                 /* number of further keys that an invitation can enrol */
    char name[PL_KEY_NAME_MAX];
} pl_key_entry;

enum { PL_KEY_COMPLAINT_MAX = 1536 };
typedef struct pl_key_list {
    pl_key_entry *entries; /* sorted by key; each key occurs once */
    size_t n;
    /* Time of the newest change, in seconds since 1970. Each change has a higher number
     * than the one before, so an old copy of the list can be recognised. */
    int64_t changed_s;
    pl_buf kept; /* lines that are not entries: comments and bad lines */
    int n_bad;   /* number of lines that were skipped */
    /* a sentence about the first skipped line; "" if no line was skipped */
    char complaint[PL_KEY_COMPLAINT_MAX];
} pl_key_list; /* all zero is an empty list */

/* Loads a list. A missing file gives an empty list. Bad lines are no error: see
 * `complaint`. ERR_CONFIG: the list has too many keys. */
pl_status pl_key_list_load(const char *path, pl_key_list *out);
void pl_key_list_clear(pl_key_list *list);
/* Finds a key's entry; NULL if the list has no entry for the key. With now_s > 0, the
 * function also returns NULL for a key that is revoked or had expired at that time. */
const pl_key_entry *pl_key_list_find(const pl_key_list *list, const pl_pubkey *key,
                                     int64_t now_s);
/* Adds the entry, or replaces the entry of the same key. ERR_DATA: the key is not
 * valid. ERR_USAGE: the name is not valid. ERR_CONFIG: the list is full; a list with
 * more keys could not be loaded again. */
pl_status pl_key_list_put(pl_key_list *list, const pl_key_entry *entry);
bool pl_key_list_drop(pl_key_list *list, const pl_pubkey *key);
/* Revokes a key: the key stays in the list with the role `revoked`. An invitation is
 * removed instead, because without its entry it can enrol no keys. Returns false if the
 * key is not in the list. */
bool pl_key_list_revoke(pl_key_list *list, const pl_pubkey *key);
/* The names of the job's own keys, and no others, begin with PL_KEY_OWN. */
#define PL_KEY_OWN    "own-"
#define PL_WORKER_OWN "worker-" /* worker-N names a worker that the job starts */
/* Whether it is the name of a job's own key (own-...) or worker (worker-N). */
bool pl_key_name_is_jobs(const char *name);
/* Checks whether `key` may have the name. ERR_EXISTS: another line has this name.
 * ERR_NOPERM: the name is reserved for the job's own keys, or looks like a key. */
pl_status pl_key_list_check_name(const pl_key_list *list, const char *name,
                                 const pl_pubkey *key);

/* Reads the list, calls `change` on it and replaces the file. If several processes call
 * this at the same time, each waits for the one before it, up to 5 s (then ERR_BUSY).
 * If `change` fails, nothing is written. */
typedef pl_status (*pl_key_change)(pl_key_list *list, void *context);
pl_status pl_key_list_edit(const char *path, pl_key_change change, void *context);

/* Returns ERR_USAGE if the name is empty or too long, or has characters other than
 * letters, digits and ._:@-. */
pl_status pl_key_name_check(const char *name);

PL_C_END
