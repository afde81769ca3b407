/* Reads and writes SUBMIT, field by field. The fields of a single contributor stand
 * beside those of the update. In a sum each contributor has a record of its own with
 * its own lease. A contributor's name stands in its lease, which only a home can open.
 */
#include "net/submission.h"

int pl_submission_order(const pl_contribution *a, const pl_contribution *b)
{
    if (a->path != b->path)
        return a->path < b->path ? -1 : 1;
    return (a->replica > b->replica) - (a->replica < b->replica);
}

/* ---- reading ---- */
static void read_contributor(pl_reader *r, pl_contribution *c,
                             pl_submission_lease *lease)
{
    c->path = (int64_t)pl_get_u64(r, PL_TAG_PATH, 0);
    c->replica = (int64_t)pl_get_u64(r, PL_TAG_REPLICA, 0);
    c->first_sample = pl_get_u64(r, PL_TAG_FIRST_SAMPLE, 0);
    c->n_samples = pl_get_u64(r, PL_TAG_SAMPLES, 0);
    c->n_tokens = pl_get_u64(r, PL_TAG_TOKENS, 0);
    c->loss = pl_get_f64(r, PL_TAG_LOSS, 0);
    c->seconds = pl_get_f64(r, PL_TAG_SECONDS, 0);
    pl_get_text(r, PL_TAG_CODEC, 0, c->codec, sizeof c->codec);
    const uint8_t *bytes = pl_get_bytes(r, PL_TAG_LEASE, 0, &lease->len);
    if (lease->len > sizeof lease->bytes)
        lease->len = 0; /* such a lease cannot be opened */
    if (lease->len > 0)
        memcpy(lease->bytes, bytes, lease->len);
}

static pl_status read_record(pl_reader *outer, size_t i, pl_contribution *c,
                             pl_submission_lease *lease)
{
    pl_reader r;
    pl_reader_enter(&r, "a contributor of SUBMIT", outer, PL_TAG_RECORD, i);
    read_contributor(&r, c, lease);
    return pl_reader_status(&r);
}

static pl_status read_contributors(pl_reader *r, pl_submit_message *s)
{
    for (int i = 0; i < s->n; i++) {
        PL_RETURN_IF(read_record(r, (size_t)i, &s->contributors[i], &s->leases[i]));
        if (i > 0 &&
            pl_submission_order(&s->contributors[i - 1], &s->contributors[i]) >= 0)
            return pl_fail(PL_ERR_PROTO,
                           "contributors of an update of %s are out of order, or one "
                           "stands there twice",
                           s->module);
    }
    return PL_OK;
}

pl_status pl_submission_read(const pl_message *m, pl_submit_message *s)
{
    pl_reader r;
    memset(s, 0, sizeof *s);
    pl_reader_open(&r, "SUBMIT", m->body.data, m->body.len);
    s->round = (int64_t)pl_get_u64(&r, PL_TAG_PHASE, 0);
    pl_get_text(&r, PL_TAG_MODULE, 0, s->module, sizeof s->module);
    s->base_version = pl_get_u64(&r, PL_TAG_VERSION, 0);
    s->base = pl_get_hash(&r, PL_TAG_BASE, 0);
    s->update = pl_get_hash(&r, PL_TAG_BLOB, 0);
    PL_RETURN_IF(pl_reader_status(&r));
    size_t n = pl_field_count(&r, PL_TAG_RECORD);
    if (n > PL_SUBMISSION_MAX)
        return pl_fail(PL_ERR_PROTO, "an update of %s has %zu contributors; %d fit",
                       s->module, n, PL_SUBMISSION_MAX);
    s->n = n > 0 ? (int)n : 1;
    s->contributors = pl_alloc((size_t)s->n * sizeof *s->contributors);
    s->leases = pl_alloc((size_t)s->n * sizeof *s->leases);
    if (n > 0)
        PL_RETURN_IF(read_contributors(&r, s));
    else
        read_contributor(&r, &s->contributors[0], &s->leases[0]);
    for (int i = 0; i < s->n; i++) {
        s->contributors[i].phase = s->round;
        s->contributors[i].update = s->update;
    }
    return pl_reader_status(&r);
}

void pl_submission_clear(pl_submit_message *s)
{
    pl_free(s->contributors);
    pl_free(s->leases);
    s->contributors = NULL;
    s->leases = NULL;
    s->n = 0;
}

/* ---- writing: tags rise, so the update's fields stand among the contributor's ---- */
static void put_who(pl_buf *body, const pl_contribution *c)
{
    pl_put_u64(body, PL_TAG_PATH, (uint64_t)c->path);
    pl_put_u64(body, PL_TAG_REPLICA, (uint64_t)c->replica);
}

static void put_what(pl_buf *body, const pl_submit_message *s)
{
    pl_put_u64(body, PL_TAG_PHASE, (uint64_t)s->round);
    pl_put_text(body, PL_TAG_MODULE, s->module);
    pl_put_u64(body, PL_TAG_VERSION, s->base_version);
    pl_put_hash(body, PL_TAG_BASE, &s->base);
    pl_put_hash(body, PL_TAG_BLOB, &s->update);
}

static void put_work(pl_buf *body, const pl_contribution *c,
                     const pl_submission_lease *lease)
{
    pl_put_u64(body, PL_TAG_FIRST_SAMPLE, c->first_sample);
    pl_put_u64(body, PL_TAG_SAMPLES, c->n_samples);
    pl_put_u64(body, PL_TAG_TOKENS, c->n_tokens);
    pl_put_f64(body, PL_TAG_LOSS, c->loss);
    pl_put_f64(body, PL_TAG_SECONDS, c->seconds);
    pl_put_text(body, PL_TAG_CODEC, c->codec);
    pl_put_bytes(body, PL_TAG_LEASE, lease->bytes, lease->len);
}

void pl_submission_write(const pl_submit_message *s, pl_message *out)
{
    pl_buf record = {0};
    if (s->n == 1)
        put_who(&out->body, &s->contributors[0]);
    put_what(&out->body, s);
    if (s->n == 1)
        put_work(&out->body, &s->contributors[0], &s->leases[0]);
    for (int i = 0; s->n > 1 && i < s->n; i++) {
        pl_buf_clear(&record);
        put_who(&record, &s->contributors[i]);
        put_work(&record, &s->contributors[i], &s->leases[i]);
        pl_put_bytes(&out->body, PL_TAG_RECORD, record.data, record.len);
    }
    pl_buf_destroy(&record);
}
