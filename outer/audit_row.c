#include "outer/audit_row.h"

static const char *const verdicts[PL_VERDICT_COUNT] = {
    [PL_VERDICT_OPEN] = "open",       [PL_VERDICT_AGREED] = "agreed",
    [PL_VERDICT_SETTLED] = "settled", [PL_VERDICT_UNDECIDED] = "undecided",
    [PL_VERDICT_VOID] = "void",
};

const char *pl_verdict_name(pl_verdict verdict)
{
    return verdicts[verdict];
}

/* Left out: what begins with whatever is there at that hour (noloco,
 * delayed-nesterov), what needs a mean that soon goes (eager), moments that never
 * left a worker, and updates of which there may be no record (a quorum). */
bool pl_audit_covers(const pl_arm *arm)
{
    pl_method method = arm->outer.method.method;
    return method != PL_METHOD_NOLOCO && method != PL_METHOD_DELAYED_NESTEROV &&
           method != PL_METHOD_EAGER && arm->outer.state != PL_STATE_LOCAL &&
           !(arm->outer.quorum > 0);
}

bool pl_audit_draws(const pl_arm *arm, int path, int replica, int64_t phase,
                    double share)
{
    uint64_t arm_stream = pl_stream(arm->name, (uint64_t)path, (uint64_t)replica);
    return share > 0 && pl_audit_covers(arm) &&
           pl_random_uniform(arm->seed, pl_stream("audit", arm_stream, 0),
                             (uint64_t)phase) < share;
}

void pl_audit_name(const pl_audit *audit, char out[PL_TEXT_MAX])
{
    snprintf(out, PL_TEXT_MAX, PL_AUDIT_REFS "%.80s/%lld", audit->path,
             (long long)audit->phase);
}

/* ---- as text ---- */
static void set_hash(pl_json *o, const char *key, const pl_hash *hash)
{
    char text[PL_HASH_TEXT];
    pl_hash_format(hash, text);
    if (!pl_hash_none(hash))
        pl_json_set_text(o, key, text);
}

void pl_audit_write(const pl_audit *audit, pl_buf *out)
{
    pl_json *o = pl_json_object(), *results = pl_json_array();
    pl_json_set_text(o, "path", audit->path);
    pl_json_set_int(o, "phase", audit->phase);
    pl_json_set_text(o, "verdict", verdicts[audit->verdict]);
    set_hash(o, "before", &audit->before);
    set_hash(o, "after", &audit->after);
    if (audit->verdict == PL_VERDICT_SETTLED)
        pl_json_set_text(o, "odd", audit->results[audit->odd].worker);
    if (audit->reason[0])
        pl_json_set_text(o, "reason", audit->reason);
    for (int i = 0; i < audit->n; i++) {
        const pl_audit_result *r = &audit->results[i];
        pl_json *one = pl_json_object();
        pl_json_set_text(one, "worker", r->worker);
        pl_json_set_text(one, "device", r->device);
        set_hash(one, "digest", &r->digest);
        pl_json_push(results, one);
    }
    pl_json_set(o, "results", results);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}

static bool get_text(const pl_json *o, const char *key, char *out, size_t size)
{
    const char *text = pl_json_text(pl_json_get(o, key), NULL);
    return text && pl_copy_text(out, size, text);
}

/* A hash that is not there is none. */
static bool get_hash(const pl_json *o, const char *key, pl_hash *out)
{
    const char *text = pl_json_text(pl_json_get(o, key), NULL);
    memset(out, 0, sizeof *out);
    return !text || pl_hash_parse(text, out) == PL_OK;
}

static bool get_results(const pl_json *o, pl_audit *out)
{
    const pl_json *list = pl_json_get(o, "results");
    size_t n = pl_json_count(list);
    if (n < 1 || n > PL_AUDIT_RESULTS)
        return false;
    for (out->n = 0; out->n < (int)n; out->n++) {
        const pl_json *one = pl_json_at(list, (size_t)out->n);
        pl_audit_result *r = &out->results[out->n];
        if (!get_text(one, "worker", r->worker, sizeof r->worker) ||
            !get_text(one, "device", r->device, sizeof r->device) ||
            !get_hash(one, "digest", &r->digest))
            return false;
    }
    return true;
}

static bool get_verdict(const pl_json *o, pl_audit *out)
{
    char word[32], odd[PL_TEXT_MAX];
    if (!get_text(o, "verdict", word, sizeof word))
        return false;
    while (out->verdict < PL_VERDICT_COUNT && strcmp(verdicts[out->verdict], word) != 0)
        out->verdict++;
    if (out->verdict != PL_VERDICT_SETTLED)
        return out->verdict < PL_VERDICT_COUNT;
    if (!get_text(o, "odd", odd, sizeof odd))
        return false;
    while (out->odd < out->n && strcmp(out->results[out->odd].worker, odd) != 0)
        out->odd++;
    return out->odd < out->n;
}

pl_status pl_audit_read(const char *text, pl_audit *out)
{
    pl_json *o = NULL;
    memset(out, 0, sizeof *out);
    PL_RETURN_IF(pl_json_parse(text, strlen(text), &o));
    bool good = get_text(o, "path", out->path, sizeof out->path) &&
                pl_json_int(pl_json_get(o, "phase"), &out->phase) && out->phase >= 0 &&
                get_hash(o, "before", &out->before) &&
                get_hash(o, "after", &out->after) && get_results(o, out) &&
                get_verdict(o, out);
    (void)get_text(o, "reason", out->reason, sizeof out->reason);
    pl_json_destroy(&o);
    return good ? PL_OK : pl_fail(PL_ERR_DATA, "a row is not that of an audit");
}

/* ---- the verdict ---- */
static bool agree(const pl_audit *audit, int i, int k)
{
    return pl_hash_equal(&audit->results[i].digest, &audit->results[k].digest);
}

void pl_audit_judge(pl_audit *audit, const pl_audit_result *result)
{
    if (audit->verdict != PL_VERDICT_OPEN || audit->n >= PL_AUDIT_RESULTS)
        return;
    audit->results[audit->n++] = *result;
    if (audit->n == 2 && agree(audit, 0, 1))
        audit->verdict = PL_VERDICT_AGREED;
    if (audit->n < PL_AUDIT_RESULTS)
        return;
    bool first = agree(audit, 0, 2), second = agree(audit, 1, 2);
    audit->verdict = first || second ? PL_VERDICT_SETTLED : PL_VERDICT_UNDECIDED;
    audit->odd = first ? 1 : 0;
}
