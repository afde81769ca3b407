/* Acts against the hub: names, questions, leases of tasks that are never done, reports
 * of tasks that were not done, and messages that the role of an invited key does not
 * permit. */
#include "tests/fault/adversary.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- messages with wrong content ---- */
static void send_spoilt(adversary *a, party *p, draft_place place, int kind,
                        const known *k)
{
    draft d;
    draft_fill(&d, kind, k);
    for (uint32_t n = dice_roll(&a->dice, 3); n > 0; n--)
        draft_spoil(&d, k, &a->dice);
    (void)ask_draft(a, p, place, &d, &a->dice);
}

void act_hub_message(adversary *a)
{
    known k;
    party *p = some_party(a);
    know(a, p, &k);
    send_spoilt(a, p, AT_HUB, draft_choose(&a->dice, AT_HUB), &k);
}

void act_home_message(adversary *a)
{
    known k;
    party *p = some_party(a);
    know(a, p, &k);
    send_spoilt(a, p, AT_HOME, draft_choose(&a->dice, AT_HOME), &k);
}

/* Sends the reports of a broken worker about its own task, under its own lease. */
void act_report(adversary *a)
{
    static const pl_message_type types[] = {PL_MSG_RENEW, PL_MSG_DONE, PL_MSG_RELEASE,
                                            PL_MSG_OFFER, PL_MSG_TASK_REQ};
    known k;
    party *p = some_worker(a);
    if (!take_task(a, p))
        return;
    know(a, p, &k);
    know_lease(p, &k);
    send_spoilt(a, p, AT_HUB, draft_kind(types[dice_roll(&a->dice, 5)]), &k);
    release(a, p, PL_OK, "");
}

/* ---- names and devices ---- */
void act_many_names(adversary *a)
{
    enum { NAMES = 200 };
    char name[PL_KEY_NAME_MAX];
    party *p = some_worker(a);
    for (int i = 0; i < NAMES; i++) {
        pl_message m;
        snprintf(name, sizeof name, "%.40s-%u", p->name, dice_roll(&a->dice, 1u << 30));
        put_hello(&m, name, dice_word(&a->dice), (uint64_t)getpid());
        tell(a, p, AT_HUB, &m);
    }
    hear(p, 100);
    (void)say_hello(a, p, p->name, p->device);
}

/* Uses the name of an honest worker, a name that an honest worker will have later, or
 * an invalid name. */
void act_steal_name(adversary *a)
{
    party *p = some_worker(a);
    const char *name = dice_is(&a->dice, 3) ? dice_word(&a->dice) : honest_name(a);
    (void)say_hello(a, p, name, p->device);
}

void act_change_device(adversary *a)
{
    pl_message m;
    party *p = some_worker(a);
    put_hello(&m, p->name, dice_word(&a->dice), (uint64_t)getpid());
    if (dice_is(&a->dice, 2))
        pl_put_text(&m.body, PL_TAG_ADDRESS, dice_word(&a->dice));
    (void)ask(a, p, AT_HUB, &m, NULL);
}

/* Asks for a task under a kind of device that the job does not have. Where tasks are
 * audited, such a worker gets none: nobody could repeat it. */
void act_new_device(adversary *a)
{
    party *p = some_worker(a);
    if (begin_anew(a, p, NO_DEVICE) && take_task(a, p))
        release(a, p, PL_OK, "");
    (void)begin_anew(a, p, p->device);
}

/* ---- floods ---- */
void act_ask_flood(adversary *a)
{
    enum { QUESTIONS = 300 };
    party *p = some_worker(a);
    for (int i = 0; i < QUESTIONS; i++) {
        pl_message m;
        pl_message_init(&m, PL_MSG_TASK_REQ);
        m.token = dice_is(&a->dice, 8) ? dice_edge(&a->dice) : 0;
        pl_put_text(&m.body, PL_TAG_NAME, p->name);
        tell(a, p, AT_HUB, &m);
    }
    hear(p, 50);
    if (take_task(a, p))
        release(a, p, PL_OK, "");
}

void act_status_flood(adversary *a)
{
    enum { QUESTIONS = 30 };
    party *p = some_worker(a);
    for (int i = 0; i < QUESTIONS; i++) {
        pl_message m;
        pl_message_init(&m, PL_MSG_STATUS);
        tell(a, p, dice_is(&a->dice, 2) ? AT_HOME : AT_HUB, &m);
    }
    hear(p, 50);
}

/* ---- leases ---- */
/* Takes a task and never reports. */
void act_hold(adversary *a)
{
    party *p = some_worker(a);
    if (take_task(a, p))
        end_lease(a, p);
}

/* Renews the lease of a task without doing the task. */
static bool begin_to_sit(adversary *a, uint32_t ms, bool claims, sit_end end)
{
    party *p = some_worker(a);
    if (a->sitter || !take_task(a, p))
        return false;
    a->sitter = p;
    a->sit_act = a->act;
    a->sit_claims = claims;
    a->sit_end = end;
    a->renewed_ms = 0;
    a->sit_until_ms = pl_now_ms() + ms;
    return true;
}

enum { SIT_MS = 6000 };

void act_sit(adversary *a)
{
    (void)begin_to_sit(a, SIT_MS, false, SIT_FORGETS);
}

/* Reports from its second renewal on that it is at its last step. */
void act_claim(adversary *a)
{
    (void)begin_to_sit(a, SIT_MS, true, SIT_FORGETS);
}

/* Gives the task back after some time, so that the time of the next lease begins
 * anew. */
void act_give_back(adversary *a)
{
    (void)begin_to_sit(a, dice_roll(&a->dice, SIT_MS / 2), true, SIT_RELEASES);
}

void act_restart(adversary *a)
{
    (void)begin_to_sit(a, dice_roll(&a->dice, SIT_MS / 2), true, SIT_RESTARTS);
}

/* Offers updates that do not exist, at the beginning of the task. */
void act_false_offer(adversary *a)
{
    pl_message m;
    if (!begin_to_sit(a, SIT_MS, true, SIT_FORGETS))
        return;
    put_lease(a->sitter, PL_MSG_OFFER, &m);
    (void)ask(a, a->sitter, AT_HUB, &m, NULL);
}

/* Asks for the next phase of a task that it has not begun. */
void act_go_on(adversary *a)
{
    pl_message m;
    if (!begin_to_sit(a, SIT_MS, true, SIT_FORGETS))
        return;
    put_lease(a->sitter, PL_MSG_TASK_REQ, &m);
    (void)ask(a, a->sitter, AT_HUB, &m, NULL);
}

static void end_sitting(adversary *a)
{
    pl_message m;
    party *p = a->sitter;
    a->sitter = NULL;
    if (a->sit_end == SIT_RELEASES)
        release(a, p, PL_OK, "");
    if (a->sit_end == SIT_RESTARTS) {
        put_hello(&m, p->name, p->device, dice_roll(&a->dice, 1u << 30));
        (void)ask(a, p, AT_HUB, &m, NULL);
        p->said_hello = false;
    }
    end_lease(a, p);
}

void keep_sitting(adversary *a)
{
    enum { RENEW_MS = 150 };
    pl_message m;
    party *p = a->sitter;
    int64_t now = pl_now_ms();
    if (!p || now - a->renewed_ms < RENEW_MS)
        return;
    int act = a->act;
    a->act = a->sit_act;
    put_lease(p, PL_MSG_RENEW, &m);
    pl_put_f64(&m.body, PL_TAG_LOSS, 1.0);
    pl_put_u64(&m.body, PL_TAG_STEP, a->sit_claims && a->renewed_ms > 0 ? 1u << 30 : 1);
    pl_put_f64(&m.body, PL_TAG_RATE, 1e12);
    pl_put_bytes(&m.body, PL_TAG_LEASE, p->lease.sealed, p->lease.sealed_len);
    a->renewed_ms = now;
    answer_kind kind = ask(a, p, AT_HUB, &m, NULL);
    if (now >= a->sit_until_ms || kind != ANSWER_OK)
        end_sitting(a);
    a->act = act;
}

/* Takes the same task again and again and reports a failure each time, until the hub
 * allows no more failures of this task. */
void act_fail(adversary *a)
{
    enum { TIMES = 4 };
    party *p = some_worker(a);
    for (int i = 0; i < TIMES && take_task(a, p); i++)
        release(a, p, dice_is(&a->dice, 4) ? PL_ERR_DEVICE : PL_ERR_NUMERIC,
                dice_word(&a->dice));
}

/* Reports a task as done at once, without sending updates. Half of the reports have
 * impossible numbers, which the hub refuses. */
void act_done_empty(adversary *a)
{
    pl_message m;
    party *p = some_worker(a);
    if (!take_task(a, p))
        return;
    const bool wild = dice_is(&a->dice, 2);
    put_lease(p, PL_MSG_DONE, &m);
    pl_put_u64(&m.body, PL_TAG_TOKENS, wild ? dice_edge(&a->dice) : 1);
    pl_put_f64(&m.body, PL_TAG_LOSS, 1.0);
    pl_put_f64(&m.body, PL_TAG_SECONDS, 1e-9);
    pl_put_f64(&m.body, PL_TAG_OVERHEAD, wild ? -1e300 : 0);
    pl_put_f64(&m.body, PL_TAG_IDLE, 0);
    pl_put_f64(&m.body, PL_TAG_WAITED, 0);
    (void)ask(a, p, AT_HUB, &m, NULL);
    end_lease(a, p);
}

/* Takes a task, or asks for one, and disconnects. */
void act_vanish(adversary *a)
{
    pl_message m;
    party *p = some_worker(a);
    if (dice_is(&a->dice, 2) && !take_task(a, p))
        return;
    if (!p->lease.held) {
        pl_message_init(&m, PL_MSG_TASK_REQ);
        pl_put_text(&m.body, PL_TAG_NAME, p->name);
        tell(a, p, AT_HUB, &m);
    }
    end_lease(a, p);
    party_close(p);
}

/* Reports about tasks of other workers with guessed tokens, under the sender's own name
 * or under the name of one of these workers. */
void act_forge_report(adversary *a)
{
    static const pl_message_type types[] = {PL_MSG_RENEW, PL_MSG_DONE, PL_MSG_RELEASE,
                                            PL_MSG_OFFER};
    enum { GUESSES = 12 };
    known k;
    party *p = some_worker(a);
    uint64_t near = p->over.token;
    know(a, p, &k);
    for (uint64_t i = 0; i < GUESSES; i++) {
        draft d;
        k.token = near + i - GUESSES / 4;
        if (dice_is(&a->dice, 2))
            pl_copy_text(k.worker, sizeof k.worker, k.other);
        draft_fill(&d, draft_kind(types[dice_roll(&a->dice, 4)]), &k);
        (void)ask_draft(a, p, AT_HUB, &d, NULL);
    }
}

/* ---- invitations ---- */
/* Makes a point of low order. Every secret together with such a point gives the same
 * shared secret. */
static void make_small_point(dice *d, pl_pubkey *out)
{
    static const uint8_t order_8[] = {0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae,
                                      0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a,
                                      0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd,
                                      0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00};
    memset(out, 0, sizeof *out);
    switch (dice_roll(d, 3)) {
    case 0:
        break;
    case 1:
        out->bytes[0] = 1;
        break;
    default:
        memcpy(out->bytes, order_8, sizeof order_8);
    }
}

static const char *enrol_name(adversary *a, char made[PL_KEY_NAME_MAX])
{
    switch (dice_roll(&a->dice, 5)) {
    case 0:
        return honest_name(a);
    case 1:
        return a->workers[0].name;
    case 2:
        return "x\nadmin AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA 0 0 root";
    case 3:
        return dice_word(&a->dice);
    default:
        snprintf(made, PL_KEY_NAME_MAX, "evil-new-%u", dice_roll(&a->dice, 1u << 30));
        return made;
    }
}

void act_enrol(adversary *a)
{
    char made[PL_KEY_NAME_MAX];
    pl_message m;
    pl_pubkey key;
    size_t len = sizeof key.bytes;
    const char *name = enrol_name(a, made);
    switch (dice_roll(&a->dice, 4)) {
    case 0: /* a key that belongs to a different worker */
        key = a->workers[dice_roll(&a->dice, WORKERS)].key.open;
        break;
    case 1:
        key = a->stranger.key.open;
        len = dice_roll(&a->dice, sizeof key.bytes);
        break;
    default:
        make_small_point(&a->dice, &key);
    }
    pl_message_init(&m, PL_MSG_ENROL);
    pl_put_text(&m.body, PL_TAG_NAME, name);
    pl_put_bytes(&m.body, PL_TAG_KEY, key.bytes, len);
    (void)ask(a, &a->invited, AT_HUB, &m, NULL);
}

/* Others must be able to enrol meanwhile: honest-late joins in each job. */
void act_invite_flood(adversary *a)
{
    enum { QUESTIONS = 400 };
    for (int i = 0; i < QUESTIONS; i++) {
        pl_message m;
        pl_message_init(&m, PL_MSG_ENROL);
        pl_put_text(&m.body, PL_TAG_NAME, "a b");
        pl_put_bytes(&m.body, PL_TAG_KEY, a->stranger.key.open.bytes, PL_PUBKEY_BYTES);
        tell(a, &a->invited, AT_HUB, &m);
    }
    hear(&a->invited, 50);
}

/* Sends messages that the role of an invited key does not permit. */
void act_invited(adversary *a)
{
    known k;
    draft_place place = a->home[0] && dice_is(&a->dice, 2) ? AT_HOME : AT_HUB;
    know(a, &a->invited, &k);
    int kind = draft_choose(&a->dice, place);
    if (kind != draft_kind(PL_MSG_ENROL))
        send_spoilt(a, &a->invited, place, kind, &k);
}
