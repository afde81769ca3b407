/* Seals and opens leases. Except by pl_lease_token, a record is read only after its MAC
 * was checked, so a wrong record can only come from the hub. */
#include "net/lease.h"

void pl_lease_secret_create(pl_lease_secret *out)
{
    pl_keypair pair;
    pl_keypair_create(&pair);
    memcpy(out->bytes, pair.secret, sizeof out->bytes);
    pl_keypair_wipe(&pair);
}

static const pl_field lease_fields[] = {PL_FIELD(pl_lease, PL_TAG_NAME, worker),
                                        PL_FIELD(pl_lease, PL_TAG_DEVICE, device),
                                        PL_FIELD(pl_lease, PL_TAG_KEY, key.bytes),
                                        PL_FIELD(pl_lease, PL_TAG_ARM, arm),
                                        PL_FIELD(pl_lease, PL_TAG_PATH, path),
                                        PL_FIELD(pl_lease, PL_TAG_REPLICA, replica),
                                        PL_FIELD(pl_lease, PL_TAG_PHASE, phase),
                                        PL_FIELD(pl_lease, PL_TAG_STEP, step),
                                        PL_FIELD(pl_lease, PL_TAG_TOKEN, token),
                                        PL_FIELD(pl_lease, PL_TAG_LATE, late),
                                        PL_FIELDS_END};

/* The names in a lease have limits, so that a record always fits. */
void pl_lease_seal(const pl_lease_secret *secret, const pl_lease *lease,
                   pl_sealed_lease *out)
{
    pl_buf record = {0};
    pl_hash mac;
    pl_put_fields(&record, lease_fields, lease);
    pl_hash_keyed("lease", secret->bytes, record.data, record.len, &mac);
    out->len = sizeof mac.bytes + record.len;
    memcpy(out->bytes, mac.bytes, sizeof mac.bytes);
    memcpy(out->bytes + sizeof mac.bytes, record.data, record.len);
    pl_lease_key(secret, out->bytes, out->len, &out->key);
    pl_buf_destroy(&record);
}

void pl_lease_key(const pl_lease_secret *secret, const uint8_t *bytes, size_t len,
                  pl_lease_secret *out)
{
    pl_hash mac;
    pl_hash_keyed("task key", secret->bytes, bytes, len, &mac);
    memcpy(out->bytes, mac.bytes, sizeof out->bytes);
}

uint64_t pl_lease_token(pl_bytes lease)
{
    const uint8_t *at = lease.at;
    pl_reader r;
    if (lease.len <= PL_HASH_BYTES)
        return 0;
    pl_reader_open(&r, "a lease", at + PL_HASH_BYTES, lease.len - PL_HASH_BYTES);
    const uint64_t token = pl_get_u64(&r, PL_TAG_TOKEN, 0);
    return pl_reader_status(&r) == PL_OK ? token : 0;
}

void pl_lease_sign(const pl_lease_secret *key, pl_message_type type,
                   const pl_field *fields, const void *body, pl_hash *out)
{
    enum { MOST = 32 };
    pl_field sealed[MOST + 1];
    pl_buf record = {0};
    int n = 0;
    for (const pl_field *f = fields; f->tag && n < MOST; f++)
        if (f->tag != PL_TAG_LEASE && f->tag != PL_TAG_SEAL && f->tag != PL_TAG_RECEIPT)
            sealed[n++] = *f;
    sealed[n] = (pl_field){.tag = 0};
    pl_put_u64(&record, PL_TAG_RESULT, type);
    pl_put_fields(&record, sealed, body);
    pl_hash_keyed("task seal", key->bytes, record.data, record.len, out);
    pl_buf_destroy(&record);
}

bool pl_lease_covers(uint16_t type)
{
    return type == PL_MSG_GET_VERSION || type == PL_MSG_GET_PATH ||
           type == PL_MSG_GET_UPDATE || type == PL_MSG_MEET;
}

/* Appends the proof of an answer with this body to `out`. */
static void put_proof(const pl_lease_secret *key, const pl_message *question,
                      uint16_t type, const void *body, size_t len, pl_buf *out)
{
    pl_buf record = {0};
    pl_hash proof;
    pl_put_u64(&record, PL_TAG_RESULT, question->type);
    pl_put_bytes(&record, PL_TAG_RECORD, question->body.data, question->body.len);
    pl_put_u64(&record, PL_TAG_RESULT, type);
    pl_put_bytes(&record, PL_TAG_RECORD, body, len);
    pl_hash_keyed("answer proof", key->bytes, record.data, record.len, &proof);
    pl_put_hash(out, PL_TAG_PROOF, &proof);
    pl_buf_destroy(&record);
}

void pl_lease_sign_answer(const pl_lease_secret *key, const pl_message *question,
                          pl_message *answer)
{
    put_proof(key, question, answer->type, answer->body.data, answer->body.len,
              &answer->body);
}

pl_status pl_lease_check_answer(const pl_lease_secret *key, const pl_message *question,
                                const pl_message *answer)
{
    pl_buf proof = {0};
    const pl_buf *body = &answer->body;
    pl_put_hash(&proof, PL_TAG_PROOF,
                &(pl_hash){{0}}); /* for the length of the field */
    const size_t len = body->len < proof.len ? 0 : body->len - proof.len;
    pl_buf_clear(&proof);
    put_proof(key, question, answer->type, body->data, len, &proof);
    const bool good = body->len - len == proof.len &&
                      memcmp(body->data + len, proof.data, proof.len) == 0;
    pl_buf_destroy(&proof);
    return good ? PL_OK
                : pl_fail(PL_ERR_PROTO, "an answer of a home was changed on its way, "
                                        "for example by a relay (connect to the home "
                                        "itself), or the home is of an older release");
}

void pl_lease_receipt(const pl_lease_secret *secret, const pl_lease *lease,
                      const char *module, int64_t round, pl_hash *out)
{
    pl_buf record = {0};
    PL_SAY_BODY(&record, get_update, .name = module, .path = lease->path,
                .replica = lease->replica, .phase = round);
    pl_put_u64(&record, PL_TAG_TOKEN, lease->token);
    pl_hash_keyed("receipt", secret->bytes, record.data, record.len, out);
    pl_buf_destroy(&record);
}

pl_status pl_lease_open(const pl_lease_secret *secret, const uint8_t *bytes, size_t len,
                        pl_lease *out)
{
    pl_reader r;
    pl_hash mac;
    memset(out, 0, sizeof *out);
    if (len < sizeof mac.bytes || len > PL_LEASE_MAX)
        return pl_fail(PL_ERR_STALE,
                       "a lease of %zu bytes was sent, but leases have %zu to %d bytes",
                       len, sizeof mac.bytes, PL_LEASE_MAX);
    const uint8_t *record = bytes + sizeof mac.bytes;
    size_t record_len = len - sizeof mac.bytes;
    pl_hash_keyed("lease", secret->bytes, record, record_len, &mac);
    if (!pl_hash_is_mac(&mac, bytes))
        return pl_fail(PL_ERR_STALE,
                       "the lease was not made by this job's hub, or was changed");
    pl_reader_open(&r, "a lease", record, record_len);
    pl_get_fields(&r, lease_fields, out);
    return pl_reader_status(&r);
}
