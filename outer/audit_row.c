/* Chooses the tasks that are done twice, writes and reads the record of an audit as
 * JSON, judges results, and computes likenesses (audit_row.h). This file uses no store
 * and no socket: homes store the records, and the hub leases the tasks. */
#include "outer/audit_row.h"
#include "codec/codec.h"
#include "outer/path_layout.h"

#include <math.h>
#include <stdlib.h>

static const char *const verdicts[PL_VERDICT_COUNT] = {
    [PL_VERDICT_OPEN] = "open",       [PL_VERDICT_AGREED] = "agreed",
    [PL_VERDICT_SETTLED] = "settled", [PL_VERDICT_UNDECIDED] = "undecided",
    [PL_VERDICT_VOID] = "void",
};

const char *pl_verdict_name(pl_verdict verdict)
{
    return verdicts[verdict];
}

/* An arm is audited only if its tasks can be done again later and compared. Arms with a
 * quorum are left out, because a dropped update is not recorded. */
bool pl_audit_draws(const pl_arm *arm, int path, int replica, int64_t phase,
                    double share)
{
    uint64_t arm_stream = pl_stream(arm->name, (uint64_t)path, (uint64_t)replica);
    return share > 0 && pl_phase_repeats(&arm->outer) && !(arm->outer.quorum > 0) &&
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
    if (audit->repeats > 0)
        pl_json_set_int(o, "repeats", audit->repeats);
    set_hash(o, "after", &audit->after);
    if (audit->verdict == PL_VERDICT_SETTLED)
        pl_json_set_text(o, "odd", audit->results[audit->odd].worker);
    if (audit->reason[0])
        pl_json_set_text(o, "reason", audit->reason);
    if (audit->seed) {
        /* The seed is written as text, because JSON numbers cannot hold all integers of
         * 64 bits. */
        char text[2 * sizeof audit->moments + 1] = "", seed[17];
        const uint8_t *bytes = (const uint8_t *)audit->moments;
        snprintf(seed, sizeof seed, "%016llx", (unsigned long long)audit->seed);
        pl_json_set_text(o, "seed", seed);
        for (size_t i = 0; i < sizeof audit->moments; i++)
            snprintf(text + 2 * i, 3, "%02x", bytes[i]);
        if (audit->verdict == PL_VERDICT_OPEN)
            pl_json_set_text(o, "moments", text);
    }
    if (audit->tolerance > 0)
        pl_json_set_real(o, "tolerance", audit->tolerance);
    for (int i = 0; i < audit->n; i++) {
        const pl_audit_result *r = &audit->results[i];
        pl_json *one = pl_json_object();
        pl_json_set_text(one, "worker", r->worker);
        pl_json_set_text(one, "device", r->device);
        if (!pl_pubkey_none(&r->key)) {
            char key[PL_PUBKEY_TEXT];
            pl_pubkey_format(&r->key, key);
            pl_json_set_text(one, "key", key);
        }
        set_hash(one, "digest", &r->digest);
        if (i > 0) {
            pl_json *apart = pl_json_array();
            for (int k = 0; k < i; k++)
                pl_json_push(apart, pl_json_make_real(r->apart[k]));
            pl_json_set(one, "apart", apart);
        }
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

/* Reads a hash. If there is none, sets `out` to zeros. */
static bool get_hash(const pl_json *o, const char *key, pl_hash *out)
{
    const char *text = pl_json_text(pl_json_get(o, key), NULL);
    memset(out, 0, sizeof *out);
    return !text || pl_hash_parse(text, out) == PL_OK;
}

static bool get_likeness(const pl_json *o, pl_audit *out)
{
    const char *seed = pl_json_text(pl_json_get(o, "seed"), NULL);
    const char *text = pl_json_text(pl_json_get(o, "moments"), NULL);
    uint8_t *bytes = (uint8_t *)out->moments;
    char digits[3] = "", *end;
    (void)pl_json_number(pl_json_get(o, "tolerance"), &out->tolerance);
    if (!seed)
        return true;
    out->seed = strtoull(seed, &end, 16);
    if (strlen(seed) != 16 || *end || (text && strlen(text) != 2 * sizeof out->moments))
        return false;
    for (size_t i = 0; text && i < sizeof out->moments; i++) {
        memcpy(digits, text + 2 * i, 2);
        bytes[i] = (uint8_t)strtoul(digits, &end, 16);
        if (end != digits + 2)
            return false;
    }
    return true;
}

static bool get_results(const pl_json *o, pl_audit *out)
{
    const pl_json *list = pl_json_get(o, "results");
    size_t n = pl_json_count(list);
    if (n < 1 || n > PL_AUDIT_RESULTS)
        return false;
    for (out->n = 0; out->n < (int)n; out->n++) {
        const pl_json *one = pl_json_at(list, (size_t)out->n);
        const pl_json *apart = pl_json_get(one, "apart");
        const char *key = pl_json_text(pl_json_get(one, "key"), NULL);
        pl_audit_result *r = &out->results[out->n];
        if (!get_text(one, "worker", r->worker, sizeof r->worker) ||
            !get_text(one, "device", r->device, sizeof r->device) ||
            (key && pl_pubkey_parse(key, &r->key) != PL_OK) ||
            !get_hash(one, "digest", &r->digest) ||
            pl_json_count(apart) > (size_t)out->n)
            return false;
        /* The distances between this result and the results before it. A distance that
         * the row lacks is 0 for equal digests and -1 for different digests. */
        for (int i = 0; i < out->n; i++) {
            r->apart[i] = pl_hash_equal(&out->results[i].digest, &r->digest) ? 0 : -1;
            const pl_json *value = pl_json_at(apart, (size_t)i);
            if (value &&
                (!pl_json_number(value, &r->apart[i]) || !isfinite(r->apart[i])))
                return false;
        }
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
    PL_CHECK(pl_json_parse(text, strlen(text), &o));
    bool good = get_text(o, "path", out->path, sizeof out->path) &&
                pl_json_int(pl_json_get(o, "phase"), &out->phase) && out->phase >= 0 &&
                get_hash(o, "before", &out->before) &&
                get_hash(o, "after", &out->after) && get_results(o, out) &&
                get_verdict(o, out) && get_likeness(o, out);
    const pl_json *repeats = pl_json_get(o, "repeats");
    good = good && (!repeats || (pl_json_int(repeats, &out->repeats) &&
                                 out->repeats > 0 && out->repeats <= out->phase));
    (void)get_text(o, "reason", out->reason, sizeof out->reason);
    pl_json_destroy(&o);
    return good ? PL_OK : pl_fail(PL_ERR_DATA, "the text is not the row of an audit");
}

/* ---- the verdict ---- */
static bool results_agree(const pl_audit *audit, int i, int k)
{
    double apart = audit->results[k].apart[i];
    return apart >= 0 && apart <= audit->tolerance;
}

void pl_audit_judge(pl_audit *audit, const pl_audit_result *result, double tolerance)
{
    if (audit->verdict != PL_VERDICT_OPEN || audit->n >= PL_AUDIT_RESULTS)
        return;
    for (int i = 0; i < audit->n; i++)
        if (result->apart[i] > 0)
            audit->tolerance = tolerance;
    audit->results[audit->n++] = *result;
    if (audit->n == 2 && results_agree(audit, 0, 1))
        audit->verdict = PL_VERDICT_AGREED;
    if (audit->n < PL_AUDIT_RESULTS)
        return;
    bool first = results_agree(audit, 0, 2), second = results_agree(audit, 1, 2);
    audit->verdict = first != second ? PL_VERDICT_SETTLED : PL_VERDICT_UNDECIDED;
    audit->odd = first && !second ? 1 : 0;
}

/* ---- likeness across kinds of devices ---- */
int pl_audit_parts(const pl_topology *topology)
{
    return pl_topology_n_slots(topology) + PL_AUDIT_MOMENTS;
}

pl_status pl_audit_update(const pl_topology *topology, int module, uint64_t seed,
                          const void *data, uint64_t bytes, pl_likeness *out)
{
    int slot = pl_topology_module_slot(topology, module);
    size_t n = pl_topology_slot(topology, slot)->n_params;
    pl_codec_info info;
    double norm = 0;
    float *update = NULL;
    memset(out, 0, sizeof *out);
    PL_CHECK(pl_codec_inspect(data, bytes, n, &info));
    if (info.contributors != 1)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the update is summed with %d other updates, so it cannot be "
                       "compared with a single update",
                       info.contributors - 1);
    PL_CHECK(pl_try_alloc(n * sizeof *update, "an update", (void **)&update));
    memset(update, 0, n * sizeof *update);
    pl_status status = pl_codec_add(data, bytes, n, 1.0f, update, &norm);
    if (status == PL_OK)
        pl_likeness_of(seed, (uint64_t)slot, update, n, out);
    pl_free_aligned(update);
    return status;
}

/* Computes the likeness of the scores or features that an arm with n_scored > 0 makes.
 * They take the place of the first moment. */
static pl_status liken_scores(const pl_arm *arm, const pl_topology *topology,
                              uint64_t seed, const uint8_t *data, uint64_t bytes,
                              pl_likeness out[PL_AUDIT_MOMENTS])
{
    const bool features = arm->feature_windows > 0;
    const size_t n =
        (size_t)pl_arm_scores_bytes(arm) / (features ? sizeof(float) : sizeof(double));
    float *scores = NULL;
    if (bytes != pl_arm_scores_bytes(arm))
        return pl_fail(PL_ERR_DATA,
                       "the results for %lld documents have %llu bytes instead of %llu",
                       (long long)arm->n_scored, (unsigned long long)bytes,
                       (unsigned long long)pl_arm_scores_bytes(arm));
    PL_CHECK(pl_try_alloc(n * sizeof *scores, "scores", (void **)&scores));
    if (features) {
        /* All features of a model have a large part in common, beside which wrong
         * features would look right. So their mean over the documents is subtracted. */
        const size_t width = (size_t)arm->shape.width;
        memcpy(scores, data, n * sizeof *scores);
        for (size_t c = 0; c < width; c++) {
            double sum = 0;
            for (size_t i = c; i < n; i += width)
                sum += (double)scores[i];
            const float mean = (float)(sum / (double)arm->n_scored);
            for (size_t i = c; i < n; i += width)
                scores[i] -= mean;
        }
    }
    for (size_t i = 0; !features && i < n; i++) {
        double nats;
        memcpy(&nats, data + i * sizeof nats, sizeof nats);
        scores[i] = (float)nats;
    }
    pl_likeness_of(seed, (uint64_t)pl_topology_n_slots(topology), scores, n, out);
    pl_free_aligned(scores);
    return PL_OK;
}

pl_status pl_audit_moments(const pl_arm *arm, const pl_topology *topology,
                           uint64_t seed, const void *data, uint64_t bytes,
                           pl_likeness out[PL_AUDIT_MOMENTS])
{
    size_t n = pl_topology_path_params(topology);
    float *moment = NULL;
    memset(out, 0, PL_AUDIT_MOMENTS * sizeof *out);
    if (arm->n_scored > 0)
        return liken_scores(arm, topology, seed, data, bytes, out);
    if (arm->outer.state == PL_STATE_LOCAL)
        return PL_OK;
    if (bytes != pl_path_state_bytes(arm, n))
        return pl_fail(PL_ERR_DATA,
                       "a path's state has %llu bytes, which is not the size that its "
                       "arm requires",
                       (unsigned long long)bytes);
    PL_CHECK(pl_try_alloc(n * sizeof *moment, "a moment", (void **)&moment));
    for (int v = 0; v < PL_AUDIT_MOMENTS; v++) {
        const size_t count = pl_path_vector_floats(arm, v, n), first = (size_t)v * n;
        if (arm->outer.state == PL_STATE_F32)
            memcpy(moment, (const uint8_t *)data + first * sizeof *moment,
                   count * sizeof *moment);
        for (size_t i = 0; arm->outer.state == PL_STATE_BF16 && i < count; i++) {
            uint16_t half;
            memcpy(&half, (const uint8_t *)data + (first + i) * sizeof half,
                   sizeof half);
            moment[i] = pl_bf16_to_float(half);
        }
        pl_likeness_of(seed, (uint64_t)(pl_topology_n_slots(topology) + v), moment,
                       count, &out[v]);
    }
    pl_free_aligned(moment);
    return PL_OK;
}
