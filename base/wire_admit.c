/* Decides whether a server takes a message; answers those that it does not take. */
#include "base/clock.h"
#include "base/gate.h"
#include "base/wire_internal.h"

#include <stdio.h>

void wire_tell_refusal(pl_socket *socket, const pl_peer *peer, const char *text)
{
    char key[PL_PUBKEY_TEXT];
    int64_t now = pl_now_ms();
    if (now - socket->refused_ms <= WIRE_REFUSAL_MS)
        return;
    socket->refused_ms = now;
    pl_pubkey_format(&peer->key, key);
    pl_gate_refused(&(pl_refusal){text, key, ""});
}

/* Whether the message reaches the caller: the bucket of the sender's key must hold
 * enough (quota.h), and the sender's role must allow the message. */
bool wire_admit(pl_socket *socket, const pl_peer *peer, const pl_message *m)
{
    char text[160];
    pl_message a = {0};
    unsigned cost;
    const bool may = pl_gate_may(peer->role, m->type, &cost);
    const bool has_quota = quota_take(socket->shares, peer, cost, pl_now_ms());
    if (may && has_quota)
        return true;
    socket->counts.refused++;
    if (!has_quota) { /* the message is dropped without an answer */
        wire_tell_refusal(socket, peer,
                          "this key asks for more than its share, so some of its "
                          "messages are dropped; give further workers keys of their "
                          "own (`pathloom key invite`), or revoke the key");
        return false;
    }
    if (peer->role == PL_AS_NONE)
        snprintf(text, sizeof text,
                 "this key was taken out of the list or has expired");
    else
        snprintf(text, sizeof text,
                 "a key with the role %s may not send messages of type %u",
                 pl_key_role_name(peer->role), (unsigned)m->type);
    pl_wire_error(&a, m->request, PL_ERR_NOPERM, text);
    if (pl_wire_send_to(socket, peer, &a) == PL_OK)
        wire_tell_refusal(socket, peer, text);
    pl_message_destroy(&a);
    return false;
}

/* Answers a message of another major version of the protocol in a form that its sender
 * can read: header, type and body of ERR are the same in all versions. */
void wire_refuse_version(pl_socket *socket, const pl_peer *peer, const void *header,
                         size_t len)
{
    char text[200];
    pl_message a = {0}, m = {0};
    if (!wire_header_foreign(header, len, &m) ||
        (socket->is_secure && (peer->role == PL_AS_NONE ||
                               !quota_take(socket->shares, peer, 1, pl_now_ms()))))
        return;
    snprintf(text, sizeof text,
             "this process speaks version %d of the protocol (pathloom %s), but the "
             "message has version %d; install the same release on both machines",
             PL_WIRE_VERSION, PL_VERSION, m.version);
    pl_wire_error(&a, m.request, PL_ERR_UNSUPPORTED, text);
    a.version = m.version;
    if (pl_wire_send_to(socket, peer, &a) == PL_OK)
        wire_tell_refusal(socket, peer, text);
    pl_message_destroy(&a);
}
