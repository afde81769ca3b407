/* Fenced workers: an audit has shown that a result of theirs was wrong. The hub and the
 * homes refuse their messages. The homes keep the list. */
#include "workers/hub_internal.h"

void hub_mark_fenced(hub *h, hub_worker *w)
{
    const pl_fence *f =
        pl_fence_find(h->fenced, h->n_fenced, w->name, &w->key, w->own_key);
    if (f)
        pl_copy_text(w->fenced, sizeof w->fenced, f->reason);
}

static pl_status tell_fenced(hub_home *home, const pl_fence *f)
{
    pl_message m = {0};
    PL_SAY(&m, FENCE_WORKER, fence_worker, .reason = f->reason, .name = f->name,
           .key = pl_pubkey_none(&f->key) ? NULL : f->key.bytes);
    return hub_send_home(home, &m);
}

static pl_status fence_everywhere(hub *h, const pl_fence *f)
{
    if (pl_fence_find(h->fenced, h->n_fenced, f->name, &f->key, false))
        return PL_OK;
    h->fenced = pl_grow(h->fenced, (h->n_fenced + 1) * sizeof *h->fenced);
    h->fenced[h->n_fenced++] = *f;
    pl_log(PL_LOG_ERROR, "worker.fenced", "worker=%s reason=\"%s\"", f->name,
           f->reason);
    for (int i = 0; i < h->n_workers; i++) {
        hub_mark_fenced(h, &h->workers[i]);
        if (h->workers[i].fenced[0])
            hub_free_held(h, i);
    }
    for (int i = 0; i < h->n_homes; i++)
        PL_CHECK(tell_fenced(&h->homes[i], f));
    return PL_OK;
}

/* The fence has the key of the lease under which the part was made, unless this is one
 * of the job's own keys. If the worker's name now belongs to a different key, the fence
 * has the text of the key instead of the name. */
pl_status hub_fence_odd(hub *h, const hub_audit *a, const pl_audit_result *odd)
{
    const pl_pubkey *key = &odd->key;
    const char *name = odd->worker;
    int w = pl_name_table_get(h->worker_names, name);
    bool own = false, moved = w >= 0 && !pl_pubkey_none(key) &&
                              !pl_pubkey_equal(key, &h->workers[w].key);
    pl_fence f = {0};
    pl_copy_text(f.name, sizeof f.name, name);
    const pl_key_role role = pl_gate_role(key, &own);
    /* If the job's own keys have been replaced, a worker that had one of the old keys
     * may have a new key by now. */
    own = own || (moved && role == PL_AS_NONE && h->workers[w].own_key);
    if (own && moved) {
        pl_log(PL_LOG_WARN, "audit.unfenced", "worker=%s task=%s phase=%lld", name,
               a->row.path, (long long)a->row.phase);
        return PL_OK;
    }
    if (!own)
        f.key = *key;
    if (moved)
        pl_pubkey_format(key, f.name);
    snprintf(f.reason, sizeof f.reason,
             "worker %.60s is fenced: its result of %.40s in phase %lld differs from "
             "two equal results of the same kind of device, one of them by %.60s; "
             "check its machine's memory and its build, then join with another name "
             "and key",
             name, a->row.path, (long long)a->row.phase,
             a->row.results[a->row.n - 1].worker);
    return fence_everywhere(h, &f);
}

pl_status hub_repeat_fenced(const hub *h, hub_home *home)
{
    for (size_t i = 0; i < h->n_fenced; i++)
        PL_CHECK(tell_fenced(home, &h->fenced[i]));
    return PL_OK;
}

pl_status hub_take_fenced(hub *h, pl_reader *r)
{
    pl_fence f = {0};
    pl_msg_fenced_record said;
    pl_get_fields(r, pl_fields_of_fenced_record(), &said);
    PL_CHECK(pl_reader_status(r));
    pl_copy_text(f.reason, sizeof f.reason, said.reason);
    pl_copy_text(f.name, sizeof f.name, said.name);
    if (said.key)
        memcpy(f.key.bytes, said.key, sizeof f.key.bytes);
    return fence_everywhere(h, &f);
}
