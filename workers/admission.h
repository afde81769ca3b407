/* Admission: a process loads its key, opens its gate and logs refused connections; the
 * hub enrols keys that come with an invitation (docs/SECURITY.md). */
#ifndef PL_WORKERS_ADMISSION_H
#define PL_WORKERS_ADMISSION_H
#include "outer/outer.h"
#include "net/net.h"
#ifdef __cplusplus
extern "C" {
#endif

/* `key` is the file with the key of this process. If `key` is "", the process has no
 * key and can communicate only within this machine. If `list` is given, also opens the
 * gate, so that other processes can connect; without `list`, this process can only
 * connect to others. */
PL_MUST_CHECK pl_status pl_admission_open(const char *key, const char *list);

/* Adds the key `fresh` to the list, and counts one use of the invitation `invite`. If
 * the list has the key already, no use is counted, and the result is PL_OK. ERR_NOPERM:
 * `invite` is not an invitation or is used up, or the key was revoked. Other errors as
 * for pl_key_list_check_name. */
PL_MUST_CHECK pl_status pl_admission_enrol(const char *list, const pl_pubkey *invite,
                                           const pl_pubkey *fresh, const char *name,
                                           pl_key_role *granted);

/* A token has everything that a machine needs to join a job:
 * pl1.HOST:PORT.KEY.SECRET */
enum { PL_TOKEN_MAX = PL_ADDRESS_MAX + PL_PUBKEY_TEXT + PL_INVITE_TEXT + 8 };
void pl_token_format(const pl_address *hub, const char *secret, char out[PL_TOKEN_MAX]);
/* ERR_USAGE: the text is not a token, or a part of it is missing. */
PL_MUST_CHECK pl_status pl_token_parse(const char *token, char hub[PL_ADDRESS_MAX],
                                       pl_keypair *invite);

/* Sends the key `fresh` to the hub, which adds it to its list. ERR_NOPERM: the
 * invitation was used up or has expired. Other errors as for pl_admission_enrol. */
PL_MUST_CHECK pl_status pl_admission_join(const char *hub, const pl_keypair *invite,
                                          const pl_pubkey *fresh, const char *name,
                                          char role[32]);

#ifdef __cplusplus
}
#endif
#endif
