/* The verdict of an audit (outer/audit_row.h). Each part of the result, an update or
 * the state, is compared with a repetition on its sender's kind of device. If it
 * differs, a second repetition on this kind tells whether the sender or the judge was
 * wrong. So a verdict never rests on one machine, and a worker is never judged by a
 * device that rounds differently. */
#include "workers/hub_internal.h"

bool hub_audit_is_known(const hub_audit *a)
{
    for (int i = 0; i < a->n_parts; i++)
        if (a->parts[i].sends && !a->parts[i].is_known)
            return false;
    return true;
}

static const pl_hash *made_by(const hub_audit *a, int result, int part)
{
    return &a->made[(result - 1) * a->n_parts + part];
}

/* The digest of a result (outer/audit_row.h); result 0 is the one that was sent. */
static void digest(const hub_audit *a, int result, pl_hash *out)
{
    pl_hasher hasher;
    pl_hasher_init(&hasher, "audit");
    for (int i = 0; i < a->n_parts; i++)
        if (a->parts[i].sends)
            pl_hasher_add(&hasher,
                          result == 0 ? a->parts[i].hash.bytes
                                      : made_by(a, result, i)->bytes,
                          PL_HASH_BYTES);
    pl_hasher_end(&hasher, out);
}

/* PART_DIFFERS: one repetition differs, and a second one must decide. PART_OPEN: there
 * is no repetition on this kind of device. */
typedef enum part_is {
    PART_EQUAL,
    PART_ODD,
    PART_UNCLEAR,
    PART_DIFFERS,
    PART_OPEN
} part_is;

/* Judges one part. *judge becomes the index of the result of a judge that was wrong, or
 * 0. */
static part_is judge_part(const hub_audit *a, int part, int *judge)
{
    const char *device = a->parts[part].from.device;
    int first = 0;
    *judge = 0;
    if (!a->parts[part].sends)
        return PART_EQUAL;
    for (int i = 1; i < a->row.n; i++) {
        if (strcmp(a->row.results[i].device, device) != 0)
            continue;
        if (pl_hash_equal(made_by(a, i, part), &a->parts[part].hash)) {
            *judge = first;
            return PART_EQUAL;
        }
        if (first != 0)
            return pl_hash_equal(made_by(a, i, part), made_by(a, first, part))
                       ? PART_ODD
                       : PART_UNCLEAR;
        first = i;
    }
    return first != 0 ? PART_DIFFERS : PART_OPEN;
}

bool hub_audit_differs(const hub_audit *a)
{
    int judge;
    for (int i = 0; i < a->n_parts; i++) {
        const part_is is = judge_part(a, i, &judge);
        if (is != PART_EQUAL && is != PART_OPEN)
            return true;
    }
    return false;
}

pl_status hub_judge(hub *h, hub_audit *a)
{
    bool odd = false, unclear = false, unchecked = false;
    int judge;
    if (a->row.verdict != PL_VERDICT_OPEN || !hub_audit_is_known(a))
        return PL_OK;
    a->looked_ms = 0;
    a->wants[0] = '\0';
    for (int i = 0; i < a->n_parts; i++) {
        const char *device = a->parts[i].from.device;
        const part_is is = judge_part(a, i, &judge);
        odd = odd || is == PART_ODD;
        unclear = unclear || is == PART_UNCLEAR;
        if (is != PART_OPEN && is != PART_DIFFERS)
            continue;
        /* what differs must not count: it waits for a judge, even of a listed kind */
        if (is == PART_OPEN && !hub_has_judge(h, device) && hub_lists_device(h, device))
            unchecked = true;
        else if (a->row.n == PL_AUDIT_RESULTS)
            unclear = true; /* too many kinds of devices */
        else if (!a->wants[0])
            pl_copy_text(a->wants, sizeof a->wants, device);
    }
    if (!odd && a->wants[0])
        return PL_OK;
    digest(a, 0, &a->row.results[0].digest);
    /* the senders of all odd parts, and judges that were wrong */
    for (int i = 0; i < a->n_parts; i++) {
        const part_is is = judge_part(a, i, &judge);
        if (is != PART_ODD && judge == 0)
            continue;
        const pl_audit_result *wrong =
            is == PART_ODD ? &a->parts[i].from : &a->row.results[judge];
        pl_copy_text(a->row.odd, sizeof a->row.odd, wrong->worker);
        PL_CHECK(hub_fence_odd(h, a, wrong));
    }
    hub_close_audit(h, a,
                    odd         ? PL_VERDICT_ODD
                    : unclear   ? PL_VERDICT_UNDECIDED
                    : unchecked ? PL_VERDICT_UNCHECKED
                                : PL_VERDICT_AGREED,
                    odd         ? "a result differs from two equal repetitions"
                    : unclear   ? "the repetitions differ from each other"
                    : unchecked ? "no worker of the job has the device of a sender"
                                : "");
    return PL_OK;
}

pl_status hub_audit_done(hub *h, hub_audit *a, int worker, const pl_message *m)
{
    const hub_worker *w = &h->workers[worker];
    pl_reader r;
    size_t n = 0, at = 0;
    for (int i = 0; i < a->n_parts; i++)
        n += a->parts[i].sends;
    pl_reader_open(&r, "DONE", m->body.data, m->body.len);
    const size_t n_made = pl_field_count(&r, PL_TAG_BLOB);
    if (n_made != n || a->row.n == PL_AUDIT_RESULTS)
        return pl_fail(PL_ERR_PROTO, "the DONE of an audit has %zu hashes, not %zu",
                       n_made, n);
    pl_hash *made = a->made + (a->row.n - 1) * a->n_parts;
    for (int i = 0; i < a->n_parts; i++)
        if (a->parts[i].sends)
            made[i] = pl_get_hash(&r, PL_TAG_BLOB, at++);
    PL_CHECK(pl_reader_status(&r));
    pl_audit_result *result = &a->row.results[a->row.n++];
    *result = (pl_audit_result){.key = w->key};
    pl_copy_text(result->worker, sizeof result->worker, w->name);
    /* the device of the lease, even if the worker has named another one since */
    pl_copy_text(result->device, sizeof result->device, a->wants);
    digest(a, a->row.n - 1, &result->digest);
    a->lease.active = false;
    h->stirred = true;
    PL_CHECK(hub_judge(h, a));
    if (strcmp(a->wants, result->device) == 0) /* a second repetition must decide */
        pl_log(PL_LOG_WARN, "audit.differs", "task=%s phase=%lld first=%s second=%s",
               a->row.path, (long long)a->row.phase, a->row.results[0].worker,
               result->worker);
    return PL_OK;
}
