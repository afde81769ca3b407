/* Meetings with a deadline (noloco): decides, once per pair and round, whether the two
 * mates of the pair meet.
 *
 * Both mates must act on the same decision, even if the phase that begins with the
 * meeting is repeated, or if a process dies. So the decision is stored as a row (a
 * ref). The first rule that applies is used:
 *
 *   1  a row exists               the row decides
 *   2  both updates are here      they meet; no row is needed
 *   3  a worker asks to meet or    its wish is written as a row
 *      to split
 *   4  otherwise                  undecided (PL_MEETING_OPEN)
 *
 * Because of rule 2, a pair can be split only while one of its updates is missing, that
 * is, before the round is merged. So the merge can record for each contribution whether
 * the pair was split, and this record never changes. The parameters of versions do not
 * depend on splits, because versions are means over all holders.
 *
 * Workers may ask about a row until both mates have finished the phase that begins with
 * the meeting. When version round + 3 exists, both mates have finished that phase,
 * because the version contains their updates of a later phase. */
#include "home/home_internal.h"

enum {
    /* no worker asks about round r when version r + ASKED_ROUNDS exists */
    ASKED_ROUNDS = 3,
    ROW_NAME_MAX = 2 * PL_MODULE_NAME_MAX
};

/* Writes the name "meet/ARM/SLOT.Ee/ROUND/FIRST". */
static void name_row(const home_module *m, const home_meeting *meeting,
                     char out[ROW_NAME_MAX])
{
    snprintf(out, ROW_NAME_MAX, PL_MEET_REFS "%s/%lld/%d", m->name,
             (long long)meeting->round, meeting->first);
}

static const home_meeting *find_meeting(const home_module *m, int64_t round, int first)
{
    for (size_t i = 0; i < m->n_meetings; i++)
        if (m->meetings[i].round == round && m->meetings[i].first == first)
            return &m->meetings[i];
    return NULL;
}

static void add_meeting(home_module *m, home_meeting meeting)
{
    m->meetings = pl_grow(m->meetings, (m->n_meetings + 1) * sizeof *m->meetings);
    m->meetings[m->n_meetings++] = meeting;
}

/* The answer is sent after the commit of the group. So when a worker learns the
 * decision, the decision is on disk, and so are the two updates that rule 2 needs. */
pl_status home_meet(home *h, const pl_peer *peer, pl_message *m, pl_message *answer)
{
    pl_msg_meet said;
    home_arm *arm = NULL;
    int module_index = 0, mate = 0;
    const double began = pl_thread_s();
    PL_CHECK(PL_HEAR(m, meet, &said));
    const int64_t round = said.phase;
    if (said.meeting >= PL_MEETING_COUNT)
        return pl_fail(PL_ERR_PROTO,
                       "a message about a meeting of mates has the unknown wish %llu",
                       (unsigned long long)said.meeting);
    const pl_meeting wish = (pl_meeting)said.meeting;
    PL_CHECK(home_find_module(h, said.name, &arm, &module_index));
    home_module *module = &arm->modules[module_index];
    const int n_replicas = pl_topology_n_replicas(arm->topology);
    if (arm->arm.outer.deadline_ms <= 0 || !arm->contracts[module_index].meets)
        return pl_fail(PL_ERR_PROTO,
                       "%s does not train with noloco and a deadline, so its pairs are "
                       "never split",
                       module->name);
    if (said.path < 0 || said.path >= pl_topology_n_paths(arm->topology) ||
        said.replica < 0 || said.replica >= n_replicas ||
        !pl_topology_path_has(arm->topology, (int)said.path, module_index))
        return pl_fail(PL_ERR_PROTO, "path %lld replica %lld does not hold %s",
                       (long long)said.path, (long long)said.replica, module->name);
    if (round < 0 || round >= arm->arm.inner.phases)
        return pl_fail(PL_ERR_PROTO, "%s has no round %lld", module->name,
                       (long long)round);
    if (round + ASKED_ROUNDS <= (int64_t)module->version)
        return pl_fail(PL_ERR_STALE,
                       "the question about round %lld of %s comes too late: the module "
                       "has version %llu already; begin the task again",
                       (long long)round, module->name,
                       (unsigned long long)module->version);
    /* own, mate: indices (path * R + replica) of the asking holder and of its mate */
    const int own = (int)(said.path * n_replicas + said.replica);
    PL_CHECK(pl_round_mate(module->of, own, round, &mate));
    if (mate == own)
        return pl_fail(PL_ERR_PROTO, "path %lld replica %lld has no mate in round %lld",
                       (long long)said.path, (long long)said.replica, (long long)round);
    /* all holders of the module are sorted to find the mate */
    pl_wire_charge(h->socket, peer, pl_thread_s() - began);
    PL_CHECK(home_check_here(h, module->name));
    /* A worker may decide a meeting only if it has the lease of the phase that begins
     * with the meeting. It may decide to split only if the hub granted this lease after
     * the deadline. */
    if (wish != PL_MEETING_OPEN) {
        home_lease under;
        pl_hash seal;
        PL_CHECK(home_open_lease(h, peer, said.lease, &under));
        pl_lease_sign(&under.key, PL_MSG_MEET, pl_fields_of_meet(), &said, &seal);
        PL_CHECK(home_check_seal(&under, &seal, said.seal));
        if (under.is_ended || under.arm != arm || under.index != own ||
            under.lease.phase != round + 1 ||
            (wish == PL_MEETING_SPLIT && !under.lease.late))
            return pl_fail(
                PL_ERR_NOPERM,
                "the lease of phase %lld of %s does not permit a decision about round "
                "%lld of %s in %s: only the lease of that path's next phase does, and "
                "a split needs a lease granted after the deadline",
                (long long)under.lease.phase, under.arm->paths[under.index].state.name,
                (long long)round, module->name, arm->paths[own].state.name);
    }
    const int first = own < mate ? own : mate;
    const home_meeting *known = find_meeting(module, round, first);
    pl_meeting decision = wish;
    if (known)
        decision = known->split ? PL_MEETING_SPLIT : PL_MEETING_MET;
    else if (home_has_update(arm, module, round, own) &&
             home_has_update(arm, module, round, mate))
        decision = PL_MEETING_MET;
    else if (wish != PL_MEETING_OPEN) {
        char name[ROW_NAME_MAX];
        const home_meeting meeting = {round, first, wish == PL_MEETING_SPLIT};
        name_row(module, &meeting, name);
        PL_CHECK(home_write(h));
        PL_CHECK(pl_txn_put_ref(h->txn, name, meeting.split ? "split" : "met"));
        add_meeting(module, meeting);
        if (meeting.split)
            pl_log(PL_LOG_INFO, "pair.split", "module=%s round=%lld path=%s late=%s",
                   module->name, (long long)round, arm->paths[own].state.name,
                   arm->paths[mate].state.name);
    }
    PL_SAY(answer, MEETING_IS, meeting_is, .meeting = decision);
    return PL_OK;
}

bool home_was_split(const home_arm *arm, int module, int64_t round, int index)
{
    const home_module *m = &arm->modules[module];
    int mate = index;
    if (m->n_meetings == 0 || pl_round_mate(m->of, index, round, &mate) != PL_OK)
        return false;
    const home_meeting *known = find_meeting(m, round, index < mate ? index : mate);
    return known && known->split;
}

pl_status home_forget_meetings(home *h, home_module *m, int64_t round)
{
    char name[ROW_NAME_MAX];
    size_t n = 0;
    for (size_t i = 0; i < m->n_meetings; i++) {
        home_meeting meeting = m->meetings[i];
        if (meeting.round + ASKED_ROUNDS > round + 1) {
            m->meetings[n++] = meeting;
            continue;
        }
        name_row(m, &meeting, name);
        PL_CHECK(pl_txn_drop_ref(h->txn, name));
    }
    m->n_meetings = n;
    return PL_OK;
}

pl_status home_load_meeting(void *context, const char *name, const char *target)
{
    home *h = context;
    home_arm *arm = NULL;
    home_meeting meeting = {.split = strcmp(target, "split") == 0};
    int index = 0;
    long long round = 0;
    char of[PL_ARM_NAME_MAX], slot[PL_NAME_MAX], module[PL_MODULE_NAME_MAX];
    char again[ROW_NAME_MAX] = "";
    if (sscanf(name, PL_MEET_REFS "%23[^/]/%63[^/]/%lld/%d", of, slot, &round,
               &meeting.first) == 4) {
        meeting.round = round;
        snprintf(module, sizeof module, "%s/%s", of, slot);
        PL_CHECK(home_find_module(h, module, &arm, &index));
        name_row(&arm->modules[index], &meeting, again);
    }
    if (strcmp(name, again) != 0 || meeting.first < 0 ||
        meeting.first >= home_n_tasks(arm) ||
        (!meeting.split && strcmp(target, "met") != 0))
        return pl_fail(
            PL_ERR_DAMAGED,
            "ref %s is damaged: it does not describe a meeting of this store", name);
    add_meeting(&arm->modules[index], meeting);
    return PL_OK;
}
