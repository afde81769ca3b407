/* Frozen slots: their parameters keep their values in a training step.
 *
 * The backward pass computes the gradients of frozen slots, too. A training step sets
 * these gradients to zero before the optimizer runs. So frozen slots count neither in
 * the gradient's norm nor in clipping. The optimizer's runs leave frozen slots out, so
 * neither the gradients nor weight decay change their parameters and moments. */
#include "modules/model_internal.h"

pl_status pl_model_freeze(pl_model *m, const bool *frozen)
{
    const int n_slots = pl_topology_n_slots(m->topology);
    bool same = true, any = false;
    for (int s = 0; s < n_slots; s++) {
        const bool now = frozen && frozen[s];
        same = same && m->frozen[s] == now;
        m->frozen[s] = now;
        any = any || now;
    }
    if (same || !m->options.training)
        return PL_OK;
    m->n_trained = 0;
    /* Takes the parts of each run that lie in slots that train. A run of matrices that
     * Muon updates lies in one slot, so it is taken as a whole or left out. */
    for (int i = 0; any && i < m->n_runs; i++) {
        const pl_update_run *run = &m->runs[i];
        for (int s = 0; s < n_slots; s++) {
            const pl_slot *slot = pl_topology_slot(m->topology, s);
            const size_t end = run->offset + run->n;
            const size_t slot_end = slot->offset + slot->n_params;
            const size_t from = run->offset > slot->offset ? run->offset : slot->offset;
            const size_t to = end < slot_end ? end : slot_end;
            if (from >= to || m->frozen[s])
                continue;
            pl_update_run piece = *run;
            piece.offset = from;
            piece.n = to - from;
            piece.second = run->second + (from - run->offset);
            pl_update_run *last =
                m->n_trained > 0 ? &m->trained[m->n_trained - 1] : NULL;
            if (last && last->rows == 0 && piece.rows == 0 &&
                last->decay == piece.decay && last->weight == piece.weight &&
                last->offset + last->n == piece.offset &&
                last->second + last->n == piece.second)
                last->n += piece.n;
            else
                m->trained[m->n_trained++] = piece;
        }
    }
    /* A recorded step contains the old list of runs. */
    model_drop_routines(m);
    m->ops->update_destroy(m->be, &m->update);
    return model_create_update(m);
}

void model_drop_frozen(pl_model *m)
{
    for (int s = 0; m->n_trained > 0 && s < pl_topology_n_slots(m->topology); s++) {
        const pl_slot *slot = pl_topology_slot(m->topology, s);
        if (m->frozen[s])
            m->ops->fill_zero(m->be, m->grads + slot->offset,
                              slot->n_params * sizeof *m->grads);
    }
}
