/* The result of the second or third worker: it is compared with the results before it,
 * and pl_audit_judge gives the verdict (outer/audit_row.h). */
#include "workers/hub_internal.h"

enum { FARTHEST = 1000000 };

void hub_audit_digest(const pl_hash *hashes, int n, const pl_hash *after, pl_hash *out)
{
    pl_hasher hasher;
    pl_hasher_init(&hasher, "audit");
    for (int i = 0; i < n; i++)
        pl_hasher_add(&hasher, hashes[i].bytes, sizeof hashes[i].bytes);
    pl_hasher_add(&hasher, after->bytes, sizeof after->bytes);
    pl_hasher_end(&hasher, out);
}

void hub_count_verdict(hub *h, const hub_audit *a)
{
    h->n_verdicts[a->row.verdict]++;
    h->n_across += a->row.tolerance > 0;
    pl_log(PL_LOG_INFO, "audit.closed",
           "task=%s phase=%lld verdict=%s worker=%s distance=%.4f tolerance=%g "
           "reason=\"%s\"",
           a->row.path, (long long)a->row.phase, pl_verdict_name(a->row.verdict),
           a->row.results[0].worker, a->row.n > 1 ? a->row.results[1].apart[0] : 0,
           a->row.tolerance, a->row.reason);
}

/* Returns the distance between results i and k: the largest distance of any part. The
 * distance of the moments counts half. */
static double distance(const hub_audit *a, int i, int k)
{
    double most = 0;
    /* the home did not measure the moments of the first result if their state was not
     * uploaded */
    const pl_likeness *moments = a->likeness + a->n_slots;
    const char *bytes = (const char *)moments;
    bool has_moments = i > 0;
    for (size_t b = 0; b < (size_t)(a->n_parts - a->n_slots) * sizeof *moments; b++)
        has_moments = has_moments || bytes[b] != 0;
    const int n_parts = has_moments ? a->n_parts : a->n_slots;
    for (int part = 0; part < n_parts; part++) {
        double d = pl_likeness_distance(&a->likeness[i * a->n_parts + part],
                                        &a->likeness[k * a->n_parts + part]);
        d = part < a->n_slots ? d : d / 2;
        most = d > most ? d : most;
    }
    return most < FARTHEST ? most : FARTHEST;
}

/* Sets the worker, device and key of the first result to those of the sender of the
 * first update that differs, because several workers may have sent the updates. */
static void blame(const hub *h, hub_audit *a, const pl_hash *made, const char *device)
{
    int n = 0;
    bool same_kind = !a->mixed && strcmp(a->row.results[0].device, device) == 0;
    for (int slot = 0; slot < a->n_slots; slot++) {
        if (!hub_audit_sends(h, a, slot))
            continue;
        bool differs = !pl_hash_equal(&a->hashes[slot], &made[n++]);
        if (differs && !same_kind)
            differs = pl_likeness_distance(&a->likeness[slot],
                                           &a->likeness[a->n_parts + slot]) >
                      h->options->audit_tolerance;
        if (!differs)
            continue;
        pl_audit_result *first = &a->row.results[0];
        pl_copy_text(first->worker, sizeof first->worker, a->senders[slot].worker);
        pl_copy_text(first->device, sizeof first->device, a->senders[slot].device);
        first->key = a->senders[slot].key;
        return;
    }
}

pl_status hub_audit_done(hub *h, hub_audit *a, int worker, const pl_message *m)
{
    pl_audit_result result;
    pl_reader r;
    size_t n = (size_t)hub_audit_count(h, a);
    memset(&result, 0, sizeof result);
    pl_reader_open(&r, "DONE", m->body.data, m->body.len);
    size_t n_made = pl_field_count(&r, PL_TAG_BLOB);
    if (n_made != n + 1)
        return pl_fail(PL_ERR_PROTO, "the DONE of an audit has %zu hashes, not %zu",
                       n_made, n + 1);
    pl_hash *made = pl_alloc((n + 1) * sizeof *made);
    for (size_t i = 0; i <= n; i++)
        made[i] = pl_get_hash(&r, PL_TAG_BLOB, i);
    pl_status status = pl_reader_status(&r);
    const size_t likeness_bytes = (size_t)a->n_parts * sizeof *a->likeness;
    if (status == PL_OK && a->row.seed != 0) {
        if (m->data.len == likeness_bytes)
            memcpy(a->likeness + a->row.n * a->n_parts, m->data.data, likeness_bytes);
        else
            status =
                pl_fail(PL_ERR_PROTO,
                        "the likeness in the DONE of an audit has %zu bytes, not %zu",
                        m->data.len, likeness_bytes);
    }
    if (status == PL_OK && a->row.n == 1)
        blame(h, a, made, h->workers[worker].device);
    hub_audit_digest(made, (int)n, &made[n], &result.digest);
    pl_free(made);
    PL_CHECK(status);
    pl_copy_text(result.worker, sizeof result.worker, h->workers[worker].name);
    pl_copy_text(result.device, sizeof result.device, h->workers[worker].device);
    result.key = h->workers[worker].key;
    /* The distances: 0 if the digests are equal; -1 if they differ although the devices
     * are of the same kind; otherwise a number above 0. */
    for (int i = 0; i < a->row.n; i++) {
        const pl_audit_result *before = &a->row.results[i];
        if (pl_hash_equal(&before->digest, &result.digest)) {
            result.apart[i] = 0;
        } else if (strcmp(before->device, result.device) == 0 &&
                   !(a->mixed && i == 0)) {
            result.apart[i] = -1;
        } else {
            const double d = distance(a, i, a->row.n);
            result.apart[i] = d > 0 ? d : 1e-9;
        }
    }
    a->lease.active = false;
    a->looked_ms = 0;
    h->stirred = true;
    pl_audit_judge(&a->row, &result, h->options->audit_tolerance);
    if (a->row.verdict != PL_VERDICT_OPEN)
        hub_count_verdict(h, a);
    else
        pl_log(PL_LOG_WARN, "audit.differs",
               "task=%s phase=%lld first=%s second=%s distance=%.4f", a->row.path,
               (long long)a->row.phase, a->row.results[0].worker, result.worker,
               result.apart[0]);
    if (a->row.verdict == PL_VERDICT_SETTLED)
        PL_CHECK(hub_fence_odd(h, a));
    return hub_tell_audit(h, a, pl_now_ms());
}
