/* Opens the gate of a process with its key and its list of keys. Adds the key of a
 * client that has an invitation to the list. Writes and reads tokens, which contain
 * invitations (admission.h). */
#include "workers/admission.h"

enum { ENROL_RETRY_MS = 2000, ENROL_MS = 20000 };

static void on_refused(const pl_refusal *r)
{
    pl_log(PL_LOG_WARN, "peer.refused", "key=%s from=%s reason=\"%s\"",
           r->key[0] ? r->key : "unknown", r->from[0] ? r->from : "unknown", r->reason);
}

static void on_list(const char *trouble)
{
    pl_log(PL_LOG_WARN, "keys.trouble", "reason=\"%s\"", trouble);
}

pl_status pl_admission_open(const char *key, const char *list)
{
    pl_keypair own;
    if (!key || !key[0])
        return PL_OK;
    PL_CHECK(pl_keypair_load(key, &own));
    pl_wire_keys(&own);
    pl_gate_options options = {.own = &own,
                               .list = list,
                               .may = pl_role_allows,
                               .cost = pl_message_cost,
                               .on_refused = on_refused,
                               .on_list = on_list};
    pl_status status = list ? pl_gate_open(&options) : PL_OK;
    pl_keypair_wipe(&own);
    return status;
}

typedef struct enrolment {
    const pl_pubkey *invite, *fresh;
    const char *name;
    pl_key_role granted;
    /* whether the error is about the invitation or the key; then the client gets the
     * text of the error. If the list could not be read or written, the client gets no
     * details. */
    bool judged;
} enrolment;

static pl_status use_invitation(pl_key_list *list, void *context)
{
    enrolment *e = context;
    const pl_key_entry *found = pl_key_list_find(list, e->invite, pl_wall_ms() / 1000);
    const pl_key_entry *known = pl_key_list_find(list, e->fresh, 0);
    pl_status status = PL_OK;
    if (!found || found->role != PL_AS_INVITE || found->uses < 1)
        PL_TRY(pl_fail(PL_ERR_NOPERM,
                       "the invitation was used already, was revoked or has expired; "
                       "ask the operator of the job for a new one (`pathloom key "
                       "invite`)"));
    pl_key_entry invite = *found;
    e->granted = invite.grants;
    if (known && known->role == e->granted)
        /* the list has the key from an earlier attempt whose answer was lost; this
         * attempt does not count as another use of the invitation */
        return PL_OK;
    if (known && known->role == PL_AS_REVOKED)
        PL_TRY(pl_fail(PL_ERR_NOPERM,
                       "this key was revoked, so no invitation can admit it; the "
                       "operator of the job can admit it with `pathloom key allow`"));
    if (known)
        PL_TRY(pl_fail(PL_ERR_NOPERM,
                       "this key already has the role %s, but the invitation grants "
                       "another role; join with a new key",
                       pl_key_role_name(known->role)));
    pl_key_entry fresh = {.key = *e->fresh, .role = e->granted};
    pl_copy_text(fresh.name, sizeof fresh.name, e->name);
    if (--invite.uses > 0)
        PL_TRY(pl_key_list_put(list, &invite));
    else
        pl_key_list_drop(list, &invite.key);
    PL_TRY(pl_key_list_check_name(list, fresh.name, &fresh.key));
    PL_TRY(pl_key_list_put(list, &fresh));
done:
    e->judged = status != PL_OK;
    return status;
}

pl_status pl_admission_enrol(const char *list, const pl_pubkey *invite,
                             const pl_pubkey *fresh, const char *name,
                             pl_key_role *granted)
{
    enrolment e = {.invite = invite, .fresh = fresh, .name = name};
    *granted = PL_AS_NONE;
    PL_CHECK(pl_key_name_check(name));
    PL_CHECK(pl_pubkey_check(fresh));
    pl_status status = pl_key_list_edit(list, use_invitation, &e);
    if (status != PL_OK && !e.judged) {
        /* A client that enrols must not learn file names of this machine. */
        on_list(pl_last_error());
        return pl_fail(PL_ERR_BUSY, "the hub cannot enrol a key now, because it cannot "
                                    "change its list of keys; its log says why");
    }
    PL_CHECK(status);
    *granted = e.granted;
    return PL_OK;
}

static const char token_mark[] = "pl1.";

void pl_token_format(const pl_address *hub, const char *secret, char out[PL_TOKEN_MAX])
{
    char key[PL_PUBKEY_TEXT];
    pl_pubkey_format(&hub->key, key);
    snprintf(out, PL_TOKEN_MAX, "%s%s.%s.%s", token_mark,
             hub->endpoint + strlen("tcp://"), key, secret);
}

/* Reads a token from its end, because HOST may contain dots and the fields after it do
 * not. */
pl_status pl_token_parse(const char *token, char hub[PL_ADDRESS_MAX],
                         pl_keypair *invite)
{
    char copy[PL_TOKEN_MAX];
    pl_address at;
    bool fits = pl_copy_text(copy, sizeof copy, token);
    char *secret = fits ? strrchr(copy, '.') : NULL;
    if (secret)
        *secret++ = '\0';
    char *key = secret ? strrchr(copy, '.') : NULL;
    if (key)
        *key++ = '\0';
    bool is_whole = key && pl_starts_with(copy, token_mark) && strchr(copy, ':');
    if (is_whole)
        snprintf(hub, PL_ADDRESS_MAX, "tcp://%.180s#%.60s", copy + strlen(token_mark),
                 key);
    if (!is_whole || pl_address_parse(hub, &at) != PL_OK)
        return pl_fail(PL_ERR_USAGE,
                       "`%.24s...` is not a whole token; a token has the form "
                       "%sHOST:PORT.KEY.SECRET; copy all of the token that `pathloom "
                       "key invite` printed",
                       token, token_mark);
    return pl_invite_keypair(secret, invite);
}

pl_status pl_admission_join(const char *hub, const pl_keypair *invite,
                            const pl_pubkey *fresh, const char *name, char role[32])
{
    pl_socket *socket = NULL;
    pl_message q = {.request = pl_wire_next_request()}, a = {0};
    pl_msg_enrolled is;
    pl_status status = PL_OK;
    PL_SAY(&q, ENROL, enrol, .name = name, .key = fresh->bytes);
    PL_TRY(pl_wire_connect_as(hub, invite, &socket));
    PL_TRY(pl_wire_ask(socket, &q, ENROL_RETRY_MS, ENROL_MS, &a));
    PL_TRY(PL_HEAR(&a, enrolled, &is));
    pl_copy_text(role, 32, is.role);
done:
    pl_wire_close(&socket);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}
