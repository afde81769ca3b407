/* Admission decides who may connect to a process (docs/SECURITY.md). A process loads
 * its key. A process to which other processes may connect also opens its gate: it
 * checks their keys against a list and logs refused connections. The hub enrols keys
 * that come with an invitation. */
#pragma once
#include "outer/outer.h"
#include "net/net.h"

/* `key` is the file with the key of this process. If `key` is NULL or "", the process
 * has no key and can communicate only within this machine. `list` is the file with the
 * list of keys. If `list` is not NULL, also opens the gate, so that other processes can
 * connect; otherwise this process can only connect to other processes. */
pl_status pl_admission_open(const char *key, const char *list);

/* Adds the key `fresh` to the list, with the role that the invitation `invite` grants,
 * and counts one use of the invitation. If the list has the key with this role already,
 * no use is counted, and the result is PL_OK. *granted becomes the role. ERR_NOPERM:
 * `invite` is not an invitation, is used up or has expired, or the key was revoked or
 * has another role. ERR_BUSY: the list cannot be read or written. Other errors as for
 * pl_key_list_check_name. */
pl_status pl_admission_enrol(const char *list, const pl_pubkey *invite,
                             const pl_pubkey *fresh, const char *name,
                             pl_key_role *granted);

/* A token is a text with everything that a machine needs to join a job: address and key
 * of the hub, and the secret of an invitation. Its form is pl1.HOST:PORT.KEY.SECRET */
enum { PL_TOKEN_MAX = PL_ADDRESS_MAX + PL_PUBKEY_TEXT + PL_INVITE_TEXT + 8 };
void pl_token_format(const pl_address *hub, const char *secret, char out[PL_TOKEN_MAX]);
/* Writes the address and key of the hub to `hub`, and the invitation's key pair to
 * *invite. ERR_USAGE: the text is not a token, or a part of it is missing. */
pl_status pl_token_parse(const char *token, char hub[PL_ADDRESS_MAX],
                         pl_keypair *invite);

/* Sends the key `fresh` to the hub, which adds it to its list. `role` gets the name of
 * the role that the key has now. Errors as for pl_admission_enrol. */
pl_status pl_admission_join(const char *hub, const pl_keypair *invite,
                            const pl_pubkey *fresh, const char *name, char role[32]);
