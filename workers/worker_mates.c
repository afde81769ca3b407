/* Fetches the updates of mates with which a phase begins (noloco): from the workers
 * that offer them, or else from the homes. */
#include "workers/worker_internal.h"

/* Asks the workers that offer the update, then the home. If a worker does not answer,
 * or gives bytes that are no update, its address is deleted, so that this task does not
 * ask it again for the next slot. PL_ERR_NOT_FOUND: no worker and no home has the
 * update. */
static pl_status fetch_update(worker *w, worker_task *task, const pl_contract *of,
                              int mate, pl_buf *out)
{
    const int replicas = pl_topology_n_replicas(of->topology);
    const int path = mate / replicas, replica = mate % replicas;
    const int64_t round = task->phase - 1;
    char name[96];
    pl_hash hash;
    pl_arm_path_name(&task->arm->arm, of->topology, path, replica, name);
    for (size_t i = 0; !w->shuns_peers && i < task->n_peers; i++) {
        struct task_peer *who = &task->peers[i];
        if (!who->address[0] || strcmp(who->task, name) != 0)
            continue;
        /* no codec sends more than two vectors of f32 with a few words per block */
        peer_line line = {who->address, worker_go_on, w,
                          w->has_mates ? &w->mates : NULL,
                          16 * of->n_params + ((uint64_t)1 << 20)};
        pl_status status = peer_get(&line, of->name, round, path, replica, out);
        if (status == PL_OK &&
            pl_round_decode(of, out->data, out->len, NULL) != PL_OK) {
            pl_log(PL_LOG_WARN, "mate.lied",
                   "module=%s mate=%s round=%lld reason=\"%s\"", of->name, who->task,
                   (long long)round, pl_last_error());
            pl_buf_clear(out);
            status = PL_ERR_DATA;
        }
        if (status == PL_OK) {
            /* The sender's thread will compare this update with the update that the
             * home accepted from the mate (check_met). */
            task->met = pl_grow(task->met, (task->n_met + 1) * sizeof *task->met);
            struct task_met *met = &task->met[task->n_met++];
            pl_copy_text(met->task, sizeof met->task, who->task);
            pl_copy_text(met->module, sizeof met->module, of->name);
            met->path = path;
            met->replica = replica;
            pl_blob_hash(out->data, out->len, &met->hash);
            pl_log(PL_LOG_DEBUG, "mate.met", "module=%s mate=%s round=%lld", of->name,
                   who->task, (long long)round);
            return PL_OK;
        }
        if (status != PL_ERR_NOT_FOUND)
            who->address[0] = '\0';
        PL_CHECK(w->broken); /* this worker must end, so it asks no other worker */
    }
    pl_client_act_under(w->homes, worker_task_lease(task));
    PL_CHECK(pl_client_get_update(w->homes, of->name, round, path, replica, &hash));
    return pl_client_get_blob(w->homes, of->name, &hash, out);
}

static pl_status ask_meeting(worker *w, const worker_task *task, const char *name,
                             pl_meeting wish, pl_meeting *said)
{
    pl_client_act_under(w->homes, worker_task_lease(task));
    return pl_client_meet(w->homes, name, task->phase - 1, task->path, task->replica,
                          wish, said);
}

/* Gets the update of the mate. `out` stays empty if the pair is split; then each of the
 * two goes on alone. With a deadline, the module's home decides whether the pair meets
 * or is split. This worker first asks the home for its decision, and then tries to
 * fetch the update. If the home has not decided yet, the worker asks to meet if it got
 * the update, or to split if it did not get the update and the deadline is over. */
static pl_status meet_mate(worker *w, worker_task *task, const pl_contract *of,
                           int mate, pl_buf *out)
{
    bool timed = task->arm->arm.outer.deadline_ms > 0;
    pl_meeting said = timed ? PL_MEETING_OPEN : PL_MEETING_MET;
    if (timed)
        PL_CHECK(ask_meeting(w, task, of->name, PL_MEETING_OPEN, &said));
    if (said == PL_MEETING_SPLIT)
        return PL_OK;
    pl_status status = fetch_update(w, task, of, mate, out);
    bool is_there = status == PL_OK;
    if (status != PL_OK && status != PL_ERR_NOT_FOUND)
        return status;
    if (said == PL_MEETING_OPEN && (is_there || task->late))
        PL_CHECK(ask_meeting(w, task, of->name,
                             is_there ? PL_MEETING_MET : PL_MEETING_SPLIT, &said));
    if (said == PL_MEETING_SPLIT) {
        pl_buf_clear(out);
        return PL_OK;
    }
    if (is_there)
        return PL_OK;
    /* no worker gave the update, and the home lacks it; the task must be tried again */
    return pl_fail(PL_ERR_BUSY,
                   "%s needs its mate's update of %s, which has not arrived yet",
                   task->name, of->name);
}

pl_status worker_fetch_mates(worker *w, worker_task *task)
{
    const pl_topology *t = task->arm->topology;
    const int n_slots = pl_topology_n_slots(t);
    const int own = task->path * pl_topology_n_replicas(t) + task->replica;
    task->has_other = pl_alloc((size_t)n_slots * sizeof *task->has_other);
    if (task->layout.last < 0 || task->phase == 0)
        return PL_OK;
    PL_CHECK(pl_try_alloc(PL_ROUND_VECTORS_MAX * task->n_params * sizeof(float),
                          "updates of other contributors", (void **)&task->other));
    for (int slot = 0; slot < n_slots; slot++) {
        const pl_contract *of = worker_contract(task, slot);
        float *out = task->other + pl_topology_slot(t, slot)->offset;
        float *const to[PL_ROUND_VECTORS_MAX] = {out, out + task->n_params};
        pl_buf bytes = {0};
        int mate = 0;
        pl_status status = pl_round_mate(of, own, task->phase - 1, &mate);
        if (status == PL_OK && mate != own)
            status = meet_mate(w, task, of, mate, &bytes);
        if (status == PL_OK && bytes.len > 0) {
            status = pl_round_decode(of, bytes.data, bytes.len, to);
            task->has_other[slot] = status == PL_OK;
        }
        pl_buf_destroy(&bytes);
        PL_CHECK(status);
    }
    return PL_OK;
}
