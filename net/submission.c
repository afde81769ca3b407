/* Reads and writes SUBMIT. If there is a single contributor, its fields are in the
 * message itself, beside the fields of the update. In a sum, each contributor has a
 * nested record with its fields and its lease. A lease names the contributor, and only
 * a home can open it. */
#include "net/submission.h"

int pl_submission_order(const pl_contribution *a, const pl_contribution *b)
{
    if (a->path != b->path)
        return a->path < b->path ? -1 : 1;
    return (a->replica > b->replica) - (a->replica < b->replica);
}

static pl_status read_update(const pl_msg_submit_sum *said, pl_submit_message *s)
{
    s->round = said->phase;
    s->base_version = (uint64_t)said->version;
    s->base = said->base;
    s->update = said->blob;
    pl_copy_text(s->module, sizeof s->module, said->module);
    if (said->n_record > PL_SUBMISSION_MAX)
        return pl_fail(
            PL_ERR_PROTO,
            "an update of %s has %zu contributors; a message can have at most %d",
            s->module, said->n_record, PL_SUBMISSION_MAX);
    /* the seal of the only contributor must cover the update itself */
    if (said->n_record == 1 && !pl_hash_equal(&said->record[0].blob, &s->update))
        return pl_fail(PL_ERR_PROTO,
                       "an update of %s has one contributor, who sent a different one",
                       s->module);
    s->contributors = pl_alloc(said->n_record * sizeof *s->contributors);
    s->proofs = pl_alloc(said->n_record * sizeof *s->proofs);
    for (; s->n < (int)said->n_record; s->n++) {
        const pl_msg_contributor *from = &said->record[s->n];
        pl_contribution *c = &s->contributors[s->n];
        pl_submission_proof *proof = &s->proofs[s->n];
        *c = (pl_contribution){.path = from->path,
                               .replica = from->replica,
                               .work = from->work,
                               .phase = s->round,
                               .update = s->update};
        pl_copy_text(c->codec, sizeof c->codec, from->codec);
        /* a longer lease cannot be valid, so it is left out */
        if (from->lease.len > 0 && from->lease.len <= sizeof proof->lease) {
            proof->len = from->lease.len;
            memcpy(proof->lease, from->lease.at, proof->len);
        }
        proof->update = from->blob;
        if (from->seal)
            memcpy(proof->seal.bytes, from->seal, sizeof proof->seal.bytes);
        if (s->n > 0 && pl_submission_order(c - 1, c) >= 0)
            return pl_fail(PL_ERR_PROTO,
                           "contributors of an update of %s are out of order, or one "
                           "is listed twice",
                           s->module);
    }
    return PL_OK;
}

pl_status pl_submission_read(pl_message *m, pl_submit_message *s)
{
    pl_reader r;
    pl_msg_submit one;
    pl_msg_submit_sum sum;
    memset(s, 0, sizeof *s);
    pl_reader_open(&r, "submit", m->body.data, m->body.len);
    if (pl_field_count(&r, PL_TAG_RECORD) > 0) {
        pl_status status = PL_HEAR(m, submit_sum, &sum);
        if (status == PL_OK)
            status = read_update(&sum, s);
        pl_free(sum.record);
        return status;
    }
    PL_CHECK(PL_HEAR(m, submit, &one));
    pl_msg_contributor single = {.path = one.path,
                                 .replica = one.replica,
                                 .blob = one.blob,
                                 .work = one.work,
                                 .codec = one.codec,
                                 .lease = one.lease,
                                 .seal = one.seal};
    sum = (pl_msg_submit_sum){one.phase, one.module, one.version, one.base, one.blob,
                              &single,   1};
    return read_update(&sum, s);
}

void pl_submission_clear(pl_submit_message *s)
{
    pl_free_all(s->contributors, s->proofs);
    s->contributors = NULL;
    s->proofs = NULL;
    s->n = 0;
}

/* Returns the SUBMIT that contributor i has sent, without its lease and its seal. */
static pl_msg_submit single_submit(const pl_submit_message *s, int i)
{
    const pl_contribution *c = &s->contributors[i];
    return (pl_msg_submit){.path = c->path,
                           .replica = c->replica,
                           .phase = s->round,
                           .module = s->module,
                           .version = (int64_t)s->base_version,
                           .base = s->base,
                           .blob = s->proofs[i].update,
                           .work = c->work,
                           .codec = c->codec};
}

void pl_submission_seal(const pl_submit_message *s, int i, const pl_lease_secret *key,
                        pl_hash *out)
{
    const pl_msg_submit one = single_submit(s, i);
    pl_lease_sign(key, PL_MSG_SUBMIT, pl_fields_of_submit(), &one, out);
}

void pl_submission_write(const pl_submit_message *s, pl_message *out)
{
    const pl_contribution *c = s->contributors;
    if (s->n <= 1) {
        pl_msg_submit one = single_submit(s, 0);
        one.lease = (pl_bytes){s->proofs[0].lease, s->proofs[0].len};
        one.seal = s->proofs[0].seal.bytes;
        pl_message_put(out, PL_MSG_SUBMIT, pl_fields_of_submit(), &one);
        return;
    }
    pl_msg_contributor *said = pl_alloc((size_t)s->n * sizeof *said);
    for (int i = 0; i < s->n; i++)
        said[i] = (pl_msg_contributor){.path = c[i].path,
                                       .replica = c[i].replica,
                                       .blob = s->proofs[i].update,
                                       .work = c[i].work,
                                       .codec = c[i].codec,
                                       .lease = {s->proofs[i].lease, s->proofs[i].len},
                                       .seal = s->proofs[i].seal.bytes};
    PL_SAY(out, SUBMIT, submit_sum, .phase = s->round, .module = s->module,
           .version = (int64_t)s->base_version, .base = s->base, .blob = s->update,
           .record = said, .n_record = (size_t)s->n);
    pl_free(said);
}
