/* Draws the tasks that are done twice, and writes and reads the record of an audit as
 * JSON (audit_row.h). This file uses no store and no socket: homes store the records,
 * and the hub leases the tasks and judges the results. */
#include "outer/audit_row.h"

#include <stdlib.h>

static const char *const verdicts[PL_VERDICT_COUNT] = {
    [PL_VERDICT_OPEN] = "open",
    [PL_VERDICT_AGREED] = "agreed",
    [PL_VERDICT_ODD] = "odd",
    [PL_VERDICT_UNDECIDED] = "undecided",
    [PL_VERDICT_UNCHECKED] = "unchecked",
};

const char *pl_verdict_name(pl_verdict verdict)
{
    return verdicts[verdict];
}

bool pl_verdict_drops(pl_verdict verdict)
{
    return verdict == PL_VERDICT_ODD || verdict == PL_VERDICT_UNDECIDED;
}

/* Arms with a quorum are left out, because a dropped update is not recorded. */
bool pl_audit_may(const pl_arm *arm)
{
    return pl_phase_repeats(&arm->outer) && !(arm->outer.quorum > 0);
}

/* ---- the draw ---- */
void pl_draw_create(double share, pl_draw *out)
{
    *out = (pl_draw){.share = share};
    for (size_t at = 0; at < sizeof out->secret.bytes; at += sizeof(uint64_t)) {
        const uint64_t fresh = pl_random_fresh();
        memcpy(out->secret.bytes + at, &fresh, sizeof fresh);
    }
    pl_hash_of("draw", out->secret.bytes, sizeof out->secret.bytes, &out->hash);
}

bool pl_draw_has(const pl_draw *draw, const pl_arm *arm, int path, int replica,
                 int64_t phase)
{
    char task[PL_NAME_MAX + 64];
    pl_hash mac;
    uint64_t bits = 0;
    int len = snprintf(task, sizeof task, "%s %d %d %lld", arm->name, path, replica,
                       (long long)phase);
    pl_hash_keyed("draw", draw->secret.bytes, task, (size_t)len, &mac);
    for (size_t i = 0; i < sizeof bits; i++)
        bits = bits << 8 | mac.bytes[i];
    return pl_audit_may(arm) && (double)(bits >> 11) * 0x1p-53 < draw->share;
}

char *pl_draw_name(const pl_draw *draw, char out[PL_TEXT_MAX])
{
    char text[PL_HASH_TEXT];
    snprintf(out, PL_TEXT_MAX, PL_DRAW_REFS "%.16s", pl_hash_format(&draw->hash, text));
    return out;
}

void pl_draw_write(const pl_draw *draw, pl_buf *out)
{
    char text[PL_HASH_TEXT];
    pl_buf_printf(out, "%s %.17g", pl_hash_format(&draw->hash, text), draw->share);
    if (!pl_hash_none(&draw->secret))
        pl_buf_printf(out, " %s", pl_hash_format(&draw->secret, text));
}

pl_status pl_draw_read(const char *text, pl_draw *out)
{
    char hash[PL_HASH_TEXT], secret[PL_HASH_TEXT];
    pl_hash given;
    memset(out, 0, sizeof *out);
    int n = sscanf(text, "%64s %lf %64s", hash, &out->share, secret);
    if (n < 2 || pl_hash_parse(hash, &given) != PL_OK ||
        !(out->share >= 0 && out->share <= 1) ||
        (n == 3 && pl_hash_parse(secret, &out->secret) != PL_OK))
        return pl_fail(PL_ERR_DATA, "the text is not the record of a draw of audits");
    pl_hash_of("draw", out->secret.bytes, sizeof out->secret.bytes, &out->hash);
    if (n == 3 && !pl_hash_equal(&given, &out->hash))
        return pl_fail(PL_ERR_DATA, "the secret of a draw of audits does not have the "
                                    "hash that was published before the draw");
    out->hash = given;
    return PL_OK;
}

pl_status pl_dropped_read(const char *name, pl_dropped *out)
{
    const char *at = name + strlen(PL_DROPPED_REFS);
    char arm[PL_ARM_NAME_MAX], path[PL_NAME_MAX];
    long long phase = 0;
    unsigned long long token = 0;
    int used = 0;
    if (sscanf(at, "%23[^/]/%63[^/]/%lld/%llu%n", arm, path, &phase, &token, &used) !=
            4 ||
        at[used] || phase < 0)
        return pl_fail(PL_ERR_DAMAGED,
                       "ref %s is damaged: it does not say which results were dropped",
                       name);
    *out = (pl_dropped){.phase = phase, .token = token};
    snprintf(out->path, sizeof out->path, "%s/%s", arm, path);
    return PL_OK;
}

/* ---- as text ---- */
char *pl_audit_name(const pl_audit *audit, char out[PL_TEXT_MAX])
{
    char tries[24] = "";
    if (pl_verdict_drops(audit->verdict))
        snprintf(tries, sizeof tries, ".%lld", (long long)audit->tries);
    snprintf(out, PL_TEXT_MAX, PL_AUDIT_REFS "%.80s/%lld%s", audit->path,
             (long long)audit->phase, tries);
    return out;
}

static void set_hash(pl_json *o, const char *key, const pl_hash *hash)
{
    char text[PL_HASH_TEXT];
    if (!pl_hash_none(hash))
        pl_json_set_text(o, key, pl_hash_format(hash, text));
}

void pl_audit_write(const pl_audit *audit, pl_buf *out)
{
    pl_json *o = pl_json_object(), *results = pl_json_array();
    pl_buf fields = {0}, text = {0};
    pl_json_set_text(o, "path", audit->path);
    pl_json_set_int(o, "phase", audit->phase);
    pl_json_set_text(o, "verdict", verdicts[audit->verdict]);
    if (audit->tries > 1)
        pl_json_set_int(o, "tries", audit->tries);
    set_hash(o, "before", &audit->before);
    if (audit->repeats > 0)
        pl_json_set_int(o, "repeats", audit->repeats);
    set_hash(o, "after", &audit->after);
    if (audit->state.phase > 0) {
        /* The path's next state has the fields of the store's row of a path, in
         * hexadecimal digits, because JSON numbers would round them. */
        pl_put_fields(&fields, pl_path_state_fields, &audit->state);
        for (size_t i = 0; i < fields.len; i++)
            pl_buf_printf(&text, "%02x", fields.data[i]);
        pl_json_set_text(o, "state", pl_buf_text(&text));
    }
    if (audit->odd[0])
        pl_json_set_text(o, "odd", audit->odd);
    if (audit->reason[0])
        pl_json_set_text(o, "reason", audit->reason);
    for (int i = 0; i < audit->n; i++) {
        const pl_audit_result *r = &audit->results[i];
        pl_json *one = pl_json_object();
        pl_json_set_text(one, "worker", r->worker);
        pl_json_set_text(one, "device", r->device);
        if (!pl_pubkey_none(&r->key)) {
            char key[PL_PUBKEY_TEXT];
            pl_json_set_text(one, "key", pl_pubkey_format(&r->key, key));
        }
        set_hash(one, "digest", &r->digest);
        pl_json_push(results, one);
    }
    pl_json_set(o, "results", results);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
    pl_buf_destroy(&fields);
    pl_buf_destroy(&text);
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

/* Reads a number of at least 0; leaves 0 if there is none. */
static bool get_count(const pl_json *o, const char *key, int64_t *out)
{
    const pl_json *value = pl_json_get(o, key);
    return !value || (pl_json_int(value, out) && *out >= 0);
}

static bool get_state(const pl_json *o, pl_audit *out)
{
    const char *text = pl_json_text(pl_json_get(o, "state"), NULL);
    pl_buf fields = {0};
    pl_reader r;
    char digits[3] = "", *end = digits + 2;
    if (!text)
        return true;
    while (end == digits + 2 && text[2 * fields.len] && text[2 * fields.len + 1]) {
        memcpy(digits, text + 2 * fields.len, 2);
        const uint8_t byte = (uint8_t)strtoul(digits, &end, 16);
        pl_buf_append(&fields, &byte, 1);
    }
    pl_reader_open(&r, "the state in an audit", fields.data, fields.len);
    pl_get_fields(&r, pl_path_state_fields, &out->state);
    const bool good = end == digits + 2 && pl_reader_status(&r) == PL_OK;
    pl_buf_destroy(&fields);
    return good && out->state.phase == out->phase + 1 &&
           strcmp(out->state.name, out->path) == 0;
}

static bool get_results(const pl_json *o, pl_audit *out)
{
    const pl_json *list = pl_json_get(o, "results");
    size_t n = pl_json_count(list);
    if (n < 1 || n > PL_AUDIT_RESULTS)
        return false;
    for (out->n = 0; out->n < (int)n; out->n++) {
        const pl_json *one = pl_json_at(list, (size_t)out->n);
        const char *key = pl_json_text(pl_json_get(one, "key"), NULL);
        pl_audit_result *r = &out->results[out->n];
        if (!get_text(one, "worker", r->worker, sizeof r->worker) ||
            !get_text(one, "device", r->device, sizeof r->device) ||
            (key && pl_pubkey_parse(key, &r->key) != PL_OK) ||
            !get_hash(one, "digest", &r->digest))
            return false;
    }
    return true;
}

/* Rows that a release before wrote may have the verdicts "settled", which fenced a
 * worker and dropped nothing, and "void". Their open rows hold no state. */
static bool get_verdict(const pl_json *o, pl_audit *out)
{
    char word[32];
    if (!get_text(o, "verdict", word, sizeof word))
        return false;
    (void)get_text(o, "odd", out->odd, sizeof out->odd);
    if (strcmp(word, "settled") == 0 || strcmp(word, "void") == 0)
        pl_copy_text(word, sizeof word, "unchecked");
    while (out->verdict < PL_VERDICT_COUNT && strcmp(verdicts[out->verdict], word) != 0)
        out->verdict++;
    return out->verdict < PL_VERDICT_COUNT;
}

pl_status pl_audit_read(const char *text, pl_audit *out)
{
    pl_json *o = NULL;
    memset(out, 0, sizeof *out);
    out->tries = 1;
    PL_CHECK(pl_json_parse(text, strlen(text), &o));
    bool good = get_text(o, "path", out->path, sizeof out->path) &&
                pl_json_int(pl_json_get(o, "phase"), &out->phase) && out->phase >= 0 &&
                get_hash(o, "before", &out->before) &&
                get_hash(o, "after", &out->after) && get_results(o, out) &&
                get_verdict(o, out) && get_state(o, out) &&
                get_count(o, "tries", &out->tries) &&
                get_count(o, "repeats", &out->repeats) && out->repeats <= out->phase;
    (void)get_text(o, "reason", out->reason, sizeof out->reason);
    pl_json_destroy(&o);
    return good ? PL_OK : pl_fail(PL_ERR_DATA, "the text is not the row of an audit");
}
