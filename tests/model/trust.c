/* A model of leases, fences, submissions, receipts and verdicts. trust_search.c visits
 * all of its states.
 *
 * Purpose. docs/SECURITY.md promises that every update counts once, that no path waits
 * for ever, that a lease which has ended is worth nothing, that no version contains a
 * drawn lie, and that only liars are fenced. These promises must hold for every order
 * of messages, crashes, restarts and restored backups. Tests try some orders. This
 * program tries all of them, on a job that is as small as the promises allow.
 *
 * The job. Path p and module p are on the disk of home p, p = 0, 1. Each path has two
 * phases and goes through both modules. A round of a module is merged when both paths
 * have contributed. One honest worker and one liar with two keys train; an own worker
 * audits. The liar keeps all its leases and receipts for ever, and may send any message
 * under any of them at any time, true or false. Old messages of the honest worker may
 * also arrive at any time. Messages between hub and homes are lost by a crash of
 * either, or late, because each arrival is a step of its own.
 *
 * A value is RIGHT if it is the function of the accepted inputs that an own worker
 * would repeat, otherwise WRONG. The draw of an audit is a free choice at each end of a
 * phase, because the liar cannot predict it.
 *
 * The search is breadth first, so a trace is a shortest one. For every state, a fixed
 * schedule of honest steps must finish the job (can_finish); otherwise a path is stuck.
 * Tokens, restarts, restores and undecided audits are bounded by the scenario. */
#include "tests/model/trust.h"

bool off[N_RULES];
scenario now;
const char *broken;

void demand(bool holds, const char *promise)
{
    if (!holds && !broken)
        broken = promise;
}

/* ---- homes ---- */
static update *pending_at(state *s, int module, int round, int path)
{
    return &s->disks[module].pending[round % ROUNDS][path];
}

static bool has_update(state *s, int module, int round, int path)
{
    return round < s->disks[module].version ||
           (round < s->disks[module].version + window() &&
            pending_at(s, module, round, path)->value != NONE);
}

/* A home merges all complete rounds after each group of messages. */
static void merge(state *s, int m)
{
    disk *d = &s->disks[m];
    for (;;) {
        const int round = d->version, other = !m;
        if (round >= PHASES || !has_update(s, m, round, m) ||
            !has_update(s, m, round, other) || (!off[R_hold] && d->phase <= round) ||
            (!off[R_confirm] && !off[R_hold] && s->homes[m].confirmed <= round))
            return;
        for (int p = 0; p < N; p++) {
            update *u = pending_at(s, m, round, p);
            d->merged[p] = u->value;
            demand(u->value == RIGHT || !is_bit(s->disks[p].drawn, round),
                   "a version contains a drawn lie");
            memset(u, 0, sizeof *u);
        }
        d->version++;
    }
}

/* Checks the lease of a message, as a home does before it reads anything else. */
static enum result open_lease(const state *s, int h, const token *t)
{
    const memory *home = &s->homes[h];
    const u8 *valid = home->valid[t->path];
    const bool is_valid = t->number == valid[0] || t->number == valid[1];
    if (home->secret == 0)
        return LATER;
    if (!is_bit(t->sealed, home->secret) &&
        !(home->before && is_bit(t->sealed, home->before)))
        return REFUSED;
    if (is_bit(s->disks[h].fenced, t->owner))
        return REFUSED;
    if (off[R_deny]) /* only leases below the lowest valid token are refused */
        return t->number < home->top[t->path] ? ENDED : ACCEPTED;
    if (is_valid)
        return ACCEPTED;
    return t->number > home->top[t->path] ? LATER : ENDED;
}

static void note_receipt(state *s, int m, token *t, int ahead)
{
    t->receipts[ahead][m] = s->homes[m].secret;
    /* a receipt has the number of its home's newest commit */
    if (s->copy_of == m + 1 && memcmp(&s->copy, &s->disks[m], sizeof s->copy) != 0)
        t->late = 1;
}

/* SUBMIT of (module, round) under a lease. */
static enum result submit(state *s, int m, int k, int ahead, u8 value)
{
    token *t = &s->tokens[k];
    const int round = t->phase + ahead;
    const enum result lease = open_lease(s, m, t);
    if (lease != ACCEPTED && (lease != ENDED || !has_update(s, m, round, t->path)))
        return lease;
    if (round >= s->disks[m].version + window())
        return LATER; /* the round has not begun */
    if (!has_update(s, m, round, t->path)) {
        demand(!t->dead, "a lease that had ended was accepted");
        *pending_at(s, m, round, t->path) = (update){value, t->owner};
        note_receipt(s, m, t, ahead);
        merge(s, m);
        return ACCEPTED;
    }
    note_receipt(s, m, t, ahead);
    return KNOWN;
}

/* Whether the message can show what this home wants to see of another home's update. */
static bool shows_receipt(const state *s, const token *t, int ahead, int m)
{
    const memory *home = &s->homes[t->path];
    const int round = t->phase + ahead;
    for (int k = 0; k < s->n_tokens; k++) {
        const token *from = &s->tokens[k];
        const int at = round - from->phase;
        const bool may = from == t || (off[R_bound] && from->owner != HONEST &&
                                       t->owner != HONEST && from->path == t->path);
        if (!may || at < 0 || at > 1 || from->receipts[at][m] == 0)
            continue;
        if (from->receipts[at][m] == home->secret ||
            from->receipts[at][m] == home->before)
            return true;
    }
    return off[R_receipts];
}

/* The promise that a phase ends only with its updates. */
static void check_covered(state *s)
{
    for (int p = 0; p < N; p++)
        for (int m = 0; m < N && s->disks[p].phase > 0; m++)
            demand(has_update(s, m, s->disks[p].phase - 1, p),
                   "a phase has ended, but a home lacks its update: the path is stuck");
}

/* SUBMIT_PATH: the end of a phase. */
static enum result submit_path(state *s, int k, int ahead, u8 value, bool drawn)
{
    token *t = &s->tokens[k];
    disk *d = &s->disks[t->path];
    const int phase = t->phase + ahead;
    const enum result lease = open_lease(s, t->path, t);
    if (lease != ACCEPTED)
        return lease;
    if (phase < d->phase || (phase == d->phase && d->held)) {
        /* a state that is older than the newest cannot be compared any more */
        const u8 accepted = d->held ? d->held : d->state;
        const bool same = phase + 1 < d->phase || (value == RIGHT && accepted == RIGHT);
        return same || off[R_other] ? KNOWN : OTHER;
    }
    if (phase > d->phase)
        return d->held ? LATER : REFUSED;
    if (!has_update(s, t->path, phase, t->path) ||
        !shows_receipt(s, t, ahead, !t->path))
        return REFUSED;
    demand(!t->dead, "a lease that had ended was accepted");
    s->remembers |= t->late && s->copy_of != t->path + 1;
    if (drawn) {
        d->held = value;
        d->held_by = t->owner;
        d->drawn |= bit(phase);
        for (int m = 0; m < N; m++)
            demand(s->disks[m].version <= phase || s->disks[m].merged[t->path] == RIGHT,
                   "a version contains a drawn lie");
        return ACCEPTED;
    }
    d->drawn &= (u8)~bit(phase);
    d->phase++;
    d->state = value;
    merge(s, t->path);
    check_covered(s);
    return ACCEPTED;
}

/* An order of hub `j` to home `h` is obeyed unless the home has seen a newer hub. */
static bool obeys(const state *s, int h, const hub *j)
{
    return off[R_older] || j->epoch >= s->disks[h].epoch;
}

static u8 number_of(const state *s, u8 lease)
{
    return lease ? s->tokens[lease - 1].number : 0;
}

/* FENCE with the exact valid tokens. A fence never makes a token valid again. */
static void fence(state *s, const hub *j, int h, int p)
{
    memory *home = &s->homes[h];
    const u8 wanted[2] = {number_of(s, j->lease[p]), number_of(s, j->backup[p])};
    u8 named = (u8)(j->epoch << 4 | j->counter), valid[2] = {0, 0};
    if (!obeys(s, h, j))
        return;
    for (int i = 0; i < 2; i++)
        if (wanted[i] > home->top[p] || wanted[i] == home->valid[p][0] ||
            wanted[i] == home->valid[p][1])
            valid[i] = wanted[i];
    memcpy(home->valid[p], valid, sizeof valid);
    if (off[R_deny])
        named = wanted[0];
    if (named > home->top[p])
        home->top[p] = named;
}

static void fence_all(state *s, const hub *j, int p)
{
    for (int h = 0; h < N; h++)
        if (is_bit(j->welcome, h))
            fence(s, j, h, p);
}

static void drop_results(state *s, int h, int p, int phase)
{
    disk *d = &s->disks[h];
    for (int round = phase; round < phase + ROUNDS; round++) {
        demand(round >= d->version, "a verdict drops an update that was merged");
        if (round < d->version + ROUNDS)
            memset(pending_at(s, h, round, p), 0, sizeof(update));
    }
}

/* ---- the hub ---- */
static bool is_ready(const state *s, const hub *j)
{
    return j->epoch && j->welcome == bit(N) - 1 && (obeys(s, 0, j) && obeys(s, 1, j));
}

/* HELLO and WELCOME. The home tells the hub the earlier secrets, so that the hub can
 * open leases that workers show it. */
bool hello(state *s, hub *j, int h)
{
    memory *home = &s->homes[h];
    if (!j->epoch || is_bit(j->welcome, h))
        return false;
    if (!obeys(s, h, j)) {
        memset(j, 0, sizeof *j); /* a newer hub exists: this one ends */
        return true;
    }
    for (int p = 0; p < N && !off[R_first]; p++)
        if (is_bit(j->gave, p))
            fence(s, j, h, p);
    j->knows |= (u8)((home->secret ? bit(home->secret) : 0) |
                     (home->before ? bit(home->before) : 0));
    if (home->secret != j->secret) {
        home->before = home->secret;
        home->secret = j->secret;
    }
    if (j->epoch > s->disks[h].epoch)
        s->disks[h].epoch = j->epoch;
    j->welcome |= bit(h);
    return true;
}

/* A new hub has a new secret. The first home gives it an epoch, and the hub tells this
 * epoch to the other homes. */
bool start_hub(state *s, int slot)
{
    hub *j = &s->hubs[slot];
    if (j->epoch)
        return false;
    memset(j, 0, sizeof *j);
    s->secrets++;
    j->epoch = (u8)(s->disks[0].epoch + 1);
    j->secret = off[R_new_secret] ? 1 : s->secrets;
    j->knows = bit(j->secret);
    return hello(s, j, 0);
}

/* Marks the leases of the path that this hub does not have as ended. */
static void bury(state *s, const hub *j, int p)
{
    for (int k = 0; k < s->n_tokens; k++)
        if (s->tokens[k].path == p && j->epoch >= s->disks[0].epoch &&
            j->lease[p] != k + 1 && j->backup[p] != k + 1)
            s->tokens[k].dead = 1;
}

static bool may_begin(const state *s, int phase)
{
    for (int m = 0; m < N; m++)
        if (s->disks[m].version < phase - (window() - 1))
            return false;
    return phase < PHASES;
}

static bool may_have(const state *s, enum owner owner)
{
    const u8 fenced = s->disks[0].fenced | s->disks[1].fenced;
    if (owner == HONEST)
        return s->honest == 0;
    return !is_bit(fenced, (int)owner) && (owner == LIAR || is_bit(fenced, LIAR));
}

/* Grants the task of a path, as its lease or as a backup. */
bool grant(state *s, hub *j, int p, enum owner owner, bool as_backup)
{
    const disk *d = &s->disks[p];
    const int phase = d->phase;
    u8 *place = as_backup ? &j->backup[p] : &j->lease[p];
    if (!is_ready(s, j) || *place || d->held || !may_begin(s, phase) ||
        !may_have(s, owner) || s->n_tokens == TOKENS_MAX ||
        (j->verdict[p] && !off[R_everywhere]))
        return false;
    if (as_backup &&
        (!j->lease[p] || s->tokens[j->lease[p] - 1].phase != phase ||
         s->tokens[j->lease[p] - 1].ahead || s->tokens[j->lease[p] - 1].owner == owner))
        return false;
    token *t = &s->tokens[s->n_tokens++];
    *t = (token){.number = (u8)(j->epoch << 4 | ++j->counter),
                 .path = (u8)p,
                 .phase = (u8)phase,
                 .owner = (u8)owner,
                 .sealed = bit(j->secret)};
    *place = s->n_tokens;
    if (owner == HONEST)
        s->honest = s->n_tokens;
    if (!off[R_fence] || is_bit(j->gave, p))
        fence_all(s, j, p);
    j->gave |= bit(p);
    bury(s, j, p);
    return true;
}

/* Ends a lease: its holder gave it back, or did not renew it. If the lease was the only
 * one and ran out, its results stay welcome until the next grant. */
bool end_lease(state *s, hub *j, int p, bool of_backup, bool released)
{
    u8 *place = of_backup ? &j->backup[p] : &j->lease[p];
    const bool one_of_two = j->lease[p] && j->backup[p];
    if (!j->epoch || !*place)
        return false;
    if (released && s->honest == *place)
        s->honest = s->honest_ahead = 0;
    const u8 ended = *place;
    *place = 0;
    if (!of_backup) {
        j->lease[p] = j->backup[p];
        j->backup[p] = 0;
    }
    if (!released && !one_of_two)
        return true;
    if (is_ready(s, j) && j->epoch >= s->disks[0].epoch)
        s->tokens[ended - 1].dead = 1;
    if (!off[R_exact])
        fence_all(s, j, p);
    return true;
}

/* RENEW: the hub seals the lease again under its secret. A hub that restarted takes up
 * the lease of an earlier hub. */
bool renew(state *s, hub *j, int k)
{
    token *t = &s->tokens[k];
    const disk *d = &s->disks[t->path];
    if (!is_ready(s, j) || is_bit(s->disks[0].fenced | s->disks[1].fenced, t->owner))
        return false;
    if (j->lease[t->path] != k + 1 && j->backup[t->path] != k + 1) {
        if (!(t->sealed & j->knows) || j->lease[t->path] || j->verdict[t->path] ||
            (is_bit(j->gave, t->path) && !off[R_once]) || t->number >> 4 >= j->epoch ||
            t->phase + t->ahead < d->phase || (d->held && !t->ahead))
            return false;
        j->lease[t->path] = (u8)(k + 1);
        j->gave |= bit(t->path);
        t->dead = 0;
        fence_all(s, j, t->path);
        bury(s, j, t->path);
    }
    t->sealed |= bit(j->secret);
    return true;
}

/* A holder may continue with the next phase before the homes have its results. */
bool extend(state *s, hub *j, int p)
{
    token *t = j->lease[p] ? &s->tokens[j->lease[p] - 1] : NULL;
    if (!t || !is_ready(s, j) || now.ahead < (t->owner == HONEST ? 1 : 2) || t->ahead ||
        t->phase != s->disks[p].phase || !may_begin(s, t->phase + 1))
        return false;
    t->ahead = 1;
    return true;
}

/* An own worker repeats a task that waits for its audit. */
bool judge(state *s, hub *j, int p, bool fails)
{
    const disk *d = &s->disks[p];
    u8 blames = 0;
    bool drops = fails;
    if (!is_ready(s, j) || !d->held || j->verdict[p] ||
        (fails && s->undecided == now.undecided))
        return false;
    s->undecided += fails;
    if (d->held == WRONG)
        blames |= bit(d->held_by);
    for (int m = 0; m < N; m++) {
        const update *u = pending_at(s, m, d->phase, p);
        const u8 value =
            s->disks[m].version > d->phase ? s->disks[m].merged[p] : u->value;
        if (value == WRONG)
            blames |= bit(u->owner);
        drops = drops || (value == NONE && !off[R_missing]);
    }
    if (fails)
        blames = 0;
    demand(!is_bit(blames, HONEST), "an honest worker is fenced");
    drops = drops || blames;
    j->verdict[p] = drops ? DROP : AGREED;
    j->blames[p] = blames;
    j->dropped[p] = 0;
    if (drops) {
        j->counter++; /* the fence is above all leases that were given */
        j->gave |= bit(p);
        j->lease[p] = j->backup[p] = 0;
    }
    return true;
}

/* FENCE with the order to drop the results of a task arrives at a home. */
bool send_drop(state *s, hub *j, int h, int p)
{
    if (!j->epoch || j->verdict[p] != DROP || is_bit(j->dropped[p], h) ||
        !is_bit(j->welcome, h))
        return false;
    if (!obeys(s, h, j)) {
        memset(j, 0, sizeof *j);
        return true;
    }
    fence(s, j, h, p);
    drop_results(s, h, p, s->disks[p].phase);
    s->disks[h].fenced |= j->blames[p];
    j->dropped[p] |= bit(h);
    if (j->dropped[p] == bit(N) - 1)
        bury(s, j, p);
    return true;
}

/* The verdict arrives at the home of the path. */
bool send_verdict(state *s, hub *j, int p)
{
    disk *d = &s->disks[p];
    const bool all = j->dropped[p] == bit(N) - 1;
    if (!j->epoch || !is_bit(j->welcome, p) || !j->verdict[p] ||
        (j->verdict[p] == DROP && !all && !off[R_everywhere]))
        return false;
    if (!obeys(s, p, j)) {
        memset(j, 0, sizeof *j);
        return true;
    }
    if (j->verdict[p] == AGREED && d->held) {
        d->state = d->held;
        d->phase++;
    }
    d->held = d->held_by = 0;
    if (j->verdict[p] == AGREED || all)
        j->verdict[p] = j->blames[p] = j->dropped[p] = 0;
    merge(s, p);
    check_covered(s);
    return true;
}

/* CONFIRMED of a FENCE: which phases the other home's path has finished. */
bool confirm(state *s, const hub *j, int h)
{
    memory *home = &s->homes[h];
    if (!j->epoch || !is_bit(j->welcome, h) || !obeys(s, h, j) ||
        home->confirmed >= s->disks[!h].phase)
        return false;
    home->confirmed = s->disks[!h].phase;
    merge(s, h);
    return true;
}

/* A home that restarted hears again which tokens are valid. */
bool fence_again(state *s, const hub *j, int h, int p)
{
    if (!off[R_first] || !j->epoch || !is_bit(j->welcome, h) || !is_bit(j->gave, p) ||
        s->homes[h].top[p])
        return false;
    fence(s, j, h, p);
    return true;
}

/* ---- crashes, and backups of a home ---- */
static void forget_home(state *s, int h)
{
    memset(&s->homes[h], 0, sizeof s->homes[h]);
    for (int j = 0; j < HUBS; j++)
        s->hubs[j].welcome &= (u8)~bit(h);
    merge(s, h);
}

bool restart_home(state *s, int h)
{
    if (s->restarts == now.restarts)
        return false;
    s->restarts++;
    forget_home(s, h);
    return true;
}

/* Whether no home lacks an update of a phase that has ended. */
static bool is_covered(state *s)
{
    for (int p = 0; p < N; p++)
        for (int m = 0; m < N; m++)
            if (s->disks[m].version > s->disks[p].phase ||
                (s->disks[p].phase > 0 && !has_update(s, m, s->disks[p].phase - 1, p)))
                return false;
    return true;
}

/* The job ends, and begins again with a disk from an earlier time. */
bool restore(state *s)
{
    if (!s->copy_of)
        return false;
    disk *d = &s->disks[s->copy_of - 1];
    const disk lost = *d;
    *d = s->copy;
    if (!off[R_new_secret]) {
        d->epoch = lost.epoch;
        d->fenced |= lost.fenced;
    }
    memset(s->hubs, 0, sizeof s->hubs);
    memset(&s->copy, 0, sizeof s->copy);
    s->copy_of = s->honest = s->honest_ahead = 0;
    for (int k = 0; k < s->n_tokens; k++)
        s->tokens[k].dead = 1, s->tokens[k].late = 0;
    /* the start is refused with a sentence */
    if ((!off[R_coverage] && !is_covered(s)) || (!off[R_sequence] && s->remembers))
        return false;
    forget_home(s, 0);
    forget_home(s, 1);
    check_covered(s);
    return true;
}

bool copy_disk(state *s, int h)
{
    if (s->restores == now.restores || s->copy_of)
        return false;
    s->restores++;
    s->copy = s->disks[h];
    s->copy_of = (u8)(h + 1);
    return true;
}

/* ---- workers ---- */
/* A message under lease `k`. Receipts reach the holder with the answers. */
static bool send_update(state *s, int k, int m, int ahead, u8 value)
{
    const enum result r = submit(s, m, k, ahead, value);
    return r == ACCEPTED || r == KNOWN;
}

/* An update of the honest worker arrives, perhaps late. */
bool honest_update(state *s, int k, int m)
{
    return k < s->n_tokens && s->tokens[k].owner == HONEST &&
           send_update(s, k, m, 0, RIGHT);
}

/* The honest worker continues from its own state. That is the accepted state if both
 * are right. */
bool honest_update_ahead(state *s, int m)
{
    const token *t = &s->tokens[s->honest - 1];
    if (!s->honest || !s->honest_ahead)
        return false;
    const disk *d = &s->disks[t->path];
    const u8 base = d->phase == t->phase ? d->held : d->state;
    return send_update(s, s->honest - 1, m, 1, base == WRONG ? WRONG : RIGHT);
}

/* SUBMIT_PATH of the honest worker. It is sent when all updates were answered. */
bool honest_end(state *s, int k, bool drawn, bool is_told)
{
    if (k >= s->n_tokens || s->tokens[k].owner != HONEST)
        return false;
    const token *t = &s->tokens[k];
    const int ahead = s->honest == k + 1 ? s->honest_ahead : 0;
    if (!t->receipts[ahead][0] || !t->receipts[ahead][1] ||
        (is_told && s->honest != k + 1))
        return false;
    const disk *d = &s->disks[t->path];
    const u8 base = d->phase == t->phase ? d->held : d->state;
    const u8 value = ahead && base == WRONG ? WRONG : RIGHT;
    const enum result r = submit_path(s, k, ahead, value, drawn);
    if (!is_told || r == LATER)
        return r == ACCEPTED;
    if ((r == ACCEPTED || r == KNOWN) && t->ahead && !ahead)
        s->honest_ahead = 1;
    else
        s->honest = s->honest_ahead = 0;
    return true;
}

bool honest_crash(state *s)
{
    if (!s->honest)
        return false;
    s->honest = s->honest_ahead = 0;
    return true;
}

bool lie_update(state *s, int k, int m, int ahead, u8 value)
{
    return k < s->n_tokens && s->tokens[k].owner != HONEST &&
           ahead <= s->tokens[k].ahead && send_update(s, k, m, ahead, value);
}

bool lie_end(state *s, int k, int ahead, u8 value, bool drawn)
{
    return k < s->n_tokens && s->tokens[k].owner != HONEST &&
           ahead <= s->tokens[k].ahead &&
           submit_path(s, k, ahead, value, drawn) == ACCEPTED;
}
